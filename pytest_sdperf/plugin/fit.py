"""Do the engines that were named, and the graphs of `--onnx-dir`, fit what is asked of them? Said before any test."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_sdperf.builds.onnx_folder import FILE, OnnxFolder
from pytest_sdperf.cases.items import case_of, is_skipped
from pytest_sdperf.cases.purposes import purpose_of
from pytest_sdperf.core.components import PIPELINE, parts_of
from pytest_sdperf.core.contracts import Engine, Model
from pytest_sdperf.core.errors import BuildError, OnnxFolderError, OptionError
from pytest_sdperf.core.machine.device_choice import detect_gpus, named_kind
from pytest_sdperf.core.machine.gpu_facts import VENDOR_NAMES
from pytest_sdperf.core.settings import EngineRequest, Selection
from pytest_sdperf.core.values.case import EXTERNAL
from pytest_sdperf.plugin.run import Run
from pytest_sdperf.plugin.session import Session


def check_external(session: Session, items: Iterable[pytest.Item]) -> None:
    """Compare what external graphs take and return with what the tests ask of them; weights are not read.

    Raises:
        OnnxFolderError: A graph is not there, cannot be used, or does not fit.
    """
    given, reference = session.builder.external, session.builder.reference
    if given is None:
        return
    selection, catalog = session.run.settings.selection, session.run.catalog
    ours = [(item, case) for item in items if (case := case_of(item)) is not None and case.exporter == EXTERNAL]
    for name in dict.fromkeys(case.model for _, case in ours):
        _check_names(given.folder, catalog.models.get(name), selection)
    making = [(purpose_of(item), case) for item, case in ours if not is_skipped(item)]
    making = [(purpose, case) for purpose, case in making if purpose.makes]
    comparing = {name for name, check in catalog.checks.items().items() if check.compares}
    compared = [case for purpose, case in making if purpose.checks & comparing]
    wanted = [(given, [case for _, case in making])]
    if reference is not None and not selection.has_module:
        wanted.append((reference, compared))
    for exporter, cases in wanted:
        try:
            for case in dict.fromkeys(cases):
                exporter.check_case(case)
        except BuildError as error:
            raise OnnxFolderError(f"{exporter.folder.option}: {error}") from error


def _check_names(folder: OnnxFolder, model: Model, selection: Selection) -> None:
    """Refuse a folder that holds no component of a model, or not all those of a request that was asked for by name."""
    held = [name for name in model.components if name in folder.components]
    spelled = f"{folder.option}={folder.path}"
    holds = f"it holds: {', '.join(folder.components)}"
    if not held:
        raise OnnxFolderError(
            f"{spelled} has no component of {model.name}; {holds}. Components of {model.name}: "
            f"{', '.join(model.components)}. Give each sub-folder the name of the component that it holds, as in "
            f"{model.components[0]}/{FILE}, or name the pipeline that it is with --sdperf-model=MODEL."
        )
    lacking = [name for name in parts_of(model, PIPELINE) if name not in held]
    if lacking and PIPELINE in selection.components:
        raise OnnxFolderError(
            f"--sdperf-component={PIPELINE} asks for whole requests of {model.name}, and {spelled} has no "
            f"{', no '.join(lacking)}; {holds}. Export what is missing into {lacking[0]}/{FILE}, or type "
            f"--sdperf-component={','.join(held)}."
        )


def check_engines_fit(run: Run) -> None:
    """Refuse an engine that was named and runs on no device of the kind that the run is for.

    Raises:
        OptionError: With the device of this machine that it runs on, or what looked for one.
    """
    other = run.settings.other
    for request in (*run.settings.selection.engines, *([other.engine] if other and other.engine else [])):
        engine = run.catalog.engines.get(request.engine)
        if request.by_name and run.device_kind not in engine.device_kinds:
            raise OptionError(_refusal(request, engine, run))


def _refusal(request: EngineRequest, engine: Engine, run: Run) -> str:
    known = run.found is not None or named_kind(run.settings.gpu) is not None  # else the kind was only supposed
    told = f"engine {request.label!r} runs on {' and '.join(engine.device_kinds)}"
    told += f", not on {run.device_kind}." if known else "."
    if "cpu" in engine.device_kinds:
        return f"{told} To run it, leave --sdperf-gpu out, or name another engine."
    here = detect_gpus(run.catalog.probes.items())
    fitting = next((one.device for one in here.found if one.device.kind in engine.device_kinds), None)
    if fitting is not None:
        return f"{told} To run it, type --sdperf-gpu={fitting.slug}."
    vendors = [VENDOR_NAMES[kind] for kind in engine.device_kinds]
    elsewhere = (
        "Name another engine. Graphs alone are built and looked at on any machine, also for a GPU that is elsewhere: "
        f"--sdperf-gpu={vendors[0].lower()}."
    )
    return "\n".join([f"{told} This machine has no GPU of {' or '.join(vendors)}.", *here.lines(), elsewhere])
