"""Do the graphs of `--onnx-dir` fit what the selected tests ask of them? Found out before the first test, once."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_sdperf.builds.onnx_folder import FILE, OnnxFolder
from pytest_sdperf.cases.items import case_of, is_skipped
from pytest_sdperf.cases.purposes import purpose_of
from pytest_sdperf.core.components import PIPELINE, parts_of
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.errors import BuildError, OnnxFolderError
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.core.values.case import EXTERNAL
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
