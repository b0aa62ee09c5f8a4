"""The command line, the configuration and the plug-ins become a run; what cannot be had at all is refused here."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_sdperf.cases.external import no_module
from pytest_sdperf.cases.options.conflicts import compatible
from pytest_sdperf.cases.options.engine_requests import check_profiles
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.profiles import read_project
from pytest_sdperf.cases.options.reading import SettingsParser, read_answers
from pytest_sdperf.cases.options.tolerances import read_rules
from pytest_sdperf.cases.registration import fill_catalog, load_plugins
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.machine.device_choice import asked_kind
from pytest_sdperf.engines.external_pipeline import ExternalPipelineEngine
from pytest_sdperf.models.external_pipeline import external_model
from pytest_sdperf.plugin.fit import check_engines_fit
from pytest_sdperf.plugin.run import CHOSEN, TOKEN, Run


def compose(config: pytest.Config) -> Run:
    """Read the command line, the configuration and the plug-ins.

    Raises:
        SdperfError: Anything that the user has to correct.
    """
    project = read_project(config.rootpath)
    answers = compatible(read_answers(config, project.options))
    load_plugins(config.pluginmanager, answers)
    catalog = fill_catalog(config.pluginmanager)
    check_profiles(catalog, project.profiles)
    handed = getattr(config, "workerinput", {})
    chosen = handed.get(CHOSEN, "")
    if chosen:
        answers["gpu"] = OptionValue(chosen, "--sdperf-gpu")
    gpu = answers["gpu"].text.strip() if "gpu" in answers else ""
    kind, found = asked_kind(gpu, catalog)
    reader = SettingsParser(
        answers=answers,
        catalog=catalog,
        profiles=project.profiles,
        device_kind=kind,
        started_in=Path(config.invocation_params.dir),
        root=config.rootpath,
    )
    settings = reader.settings()
    if settings.selection.pipeline is not None:
        catalog.add_model(external_model(settings.selection.pipeline.label, on_cpu=kind == "cpu"))
        catalog.add_engine(ExternalPipelineEngine())
    rules = read_rules(project.tolerances, reader)
    run = Run(settings, catalog, project.profiles, kind, found, rules=rules, root=config.rootpath)
    run.token = handed.get(TOKEN, run.token)
    _check_external(run)
    check_engines_fit(run)
    return run


def _check_external(run: Run) -> None:
    """Refuse a folder of graphs that cannot serve what was named.

    Raises:
        OnnxFolderError: It holds no graphs, or lacks a component.
        OptionError: An engine was named that runs torch modules.
    """
    selection, external = run.settings.selection, run.selector.external
    if external is None:
        return
    _ = external.folder.components  # raises where there are none
    for name in selection.components:
        if name != PIPELINE:
            external.folder.graph(name)
    for request in selection.engines:
        engine = run.catalog.engines.get(request.engine)
        if request.by_name and engine.consumes != "onnx" and not selection.has_module:
            raise OptionError(f"{no_module(engine.name, external.folder)}, or leave the engine out.")
