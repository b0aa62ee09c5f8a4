"""`--ab` and its companions: what they mean, and what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from door_toys import ToyEngine, toy_catalog

from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.conflicts import compatible
from pytest_sdperf.cases.options.engine_requests import Profile
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.cases.options.reading import SettingsParser
from pytest_sdperf.cases.other_case import differing, other_case
from pytest_sdperf.cases.selector import Selector
from pytest_sdperf.core.errors import OptionError, SdperfError
from pytest_sdperf.core.settings import EngineRequest, OtherSide

TWIN = {"twin": Profile("twin", "ort-cpu")}


def read(tmp_path, **answers):
    said = {name.replace("_", "-"): text for name, text in answers.items()}
    said = {name: OptionValue(text, f"--{name}") for name, text in said.items()}
    reader = SettingsParser(
        compatible(said), toy_catalog(), TWIN, device_kind="cpu", started_in=tmp_path, root=tmp_path
    )
    return reader.settings()


@pytest.fixture
def python(tmp_path) -> Path:
    file = tmp_path / "venv" / "bin" / "python"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_without_a_side_there_is_none(tmp_path):
    assert read(tmp_path).other is None


def test_an_interpreter_is_a_side(tmp_path, python):
    assert read(tmp_path, ab="venv/bin/python").other == OtherSide(python)


def test_a_link_to_our_interpreter_in_another_place_is_another_environment(tmp_path):
    link = tmp_path / "python"
    link.symlink_to(Path(sys.executable).resolve())
    assert read(tmp_path, ab="python").other == OtherSide(link)


def test_engine_and_optimization_are_a_side(tmp_path):
    assert read(tmp_path, ab_engine="ort-cpu:threads=2").other == OtherSide(
        engine=EngineRequest("ort-cpu", "ort-cpu", (("threads", "2"),))
    )
    assert read(tmp_path, ab_optimization="fp16").other == OtherSide(optimization="fp16")
    assert read(tmp_path, ab=sys.executable, ab_engine="twin").other.engine.label == "twin"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            {"ab": "nowhere/python"},
            (
                "--ab=nowhere/python: there is no interpreter {folder}/nowhere/python. Give the python of another "
                "virtual environment; type for example --ab=~/venvs/next/bin/python."
            ),
        ),
        ({"ab": "venv"}, "--ab=venv is a folder. Name the interpreter in it; type --ab={folder}/venv/bin/python."),
        (
            {"ab": sys.executable},
            (
                f"--ab={sys.executable} is the interpreter that runs this suite, and nothing else differs, so there is "
                "nothing to compare. Give the python of another virtual environment, or name another build with "
                "--sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
            ),
        ),
        (
            {"ab_engine": "torch,ort-cpu"},
            (
                "--ab-engine=torch,ort-cpu names 2 engines, and the second side of an A/B has one; type for example "
                "--ab-engine=torch."
            ),
        ),
        (
            {"ab_engine": "torhc"},
            "unknown engine 'torhc'. Did you mean 'torch'? Known: absent, all, ort-cpu, ort-cuda, torch, twin.",
        ),
        (
            {"ab_optimization": "ladder"},
            (
                "--ab-optimization=ladder names 4 builds, and the second side of an A/B has one; type for example "
                "--ab-optimization=group-norm."
            ),
        ),
        (
            {"ab_engine": "torch", "update_baselines": "true"},
            (
                "--ab-engine=torch and --update-baselines do not go together: an A/B judges by its first side and "
                "touches no baseline. Leave one of them out."
            ),
        ),
        (
            {"ab_engine": "torch", "plan": "true"},
            (
                "--ab-engine=torch and --plan do not go together: what a second side takes is not known. Leave one of "
                "them out."
            ),
        ),
        (
            {"ab_engine": "torch", "resume": "true"},
            "--ab-engine=torch and --resume do not go together: of an A/B nothing is kept. Leave one of them out.",
        ),
        (
            {"ab_engine": "torch", "inprocess": "true"},
            (
                "--ab-engine=torch and --inprocess do not go together: each sample of an A/B comes from a fresh "
                "process. Leave one of them out."
            ),
        ),
        (
            {"ab_engine": "torch", "processes": "1", "max_processes": "1"},
            (
                "--ab-engine=torch needs 2 pairs of processes to know their spread, and at most 1 may be measured. "
                "Type --sdperf-max-processes=12, or leave that option out."
            ),
        ),
        (
            {"max_processes": "2"},
            (
                "--max-processes=2 is below the 3 processes that every measurement begins with. Allowed: 3 or more; "
                "--max-processes=3 never starts another one. To begin with fewer, type --sdperf-processes=2."
            ),
        ),
    ],
)
def test_refusals(tmp_path, python, answers, message):
    with pytest.raises(SdperfError) as refused:
        read(tmp_path, **answers)
    assert str(refused.value) == message.format(folder=tmp_path)


# ------------------------------------------------------------------------------------------- the case of side B


@pytest.fixture
def of(tmp_path):
    """Return a function: command line -> what each of its UNet cases is compared with."""

    def others(**answers):
        settings = read(tmp_path, component="unet", **answers)
        selector = Selector(settings.selection, toy_catalog(), TWIN, "cpu")
        found = []
        for choice in selector.choose(Axes.ENGINE, Marks(), timed=True):
            case = choice.case
            request = EngineRequest(case.engine, case.engine, case.engine_options)
            found.append((case, other_case(case, request, settings.other, selector)))
        return found

    return others


def test_another_interpreter_runs_the_same_case_on_the_same_files(of, python):
    ((case, other),) = of(ab="venv/bin/python", engine="ort-cpu", optimization="fp16")
    assert (other.case, other.request.python, other.shared, other.same, other.skip) == (case, python, True, False, "")


def test_other_options_share_the_build(of):
    ((_, other),) = of(engine="ort-cpu", optimization="fp16", ab_engine="ort-cpu:threads=2")
    assert (other.case.engine_options, other.case.optimization) == ((("threads", "2"),), "fp16")
    assert (other.shared, other.same) == (True, False)


def test_an_engine_that_fuses_for_itself_has_a_graph_of_its_own(of, monkeypatch):
    def with_a_compiler():
        catalog, compiler = fresh(), ToyEngine("compiler")
        compiler.fuses = True
        catalog.add_engine(compiler)
        return catalog

    fresh = toy_catalog
    monkeypatch.setitem(globals(), "toy_catalog", with_a_compiler)
    ((_, other),) = of(engine="ort-cpu", optimization="fp16", ab_engine="compiler")
    assert not other.shared


def test_another_optimization_is_another_build(of):
    (first, second) = of(engine="ort-cpu", ab_optimization="fp16")
    assert [other.case.optimization for _, other in (first, second)] == ["fp16", "fp16"]
    assert [(other.shared, other.same) for _, other in (first, second)] == [(False, False), (True, True)]
    assert [other.case.optimization for other in differing([other for _, other in (first, second)])] == ["fp16"]


def test_an_engine_that_loads_modules_has_no_graph_and_the_other_way_round(of):
    ((_, other),) = of(engine="ort-cpu", optimization="fp16", ab_engine="torch")
    assert (other.case.engine, other.case.fuser, other.case.exporter, other.case.opset) == ("torch", "", "", 0)
    ((_, other),) = of(engine="torch", optimization="fp16", ab_engine="ort-cpu")
    assert (other.case.engine, other.case.fuser, other.case.exporter, other.case.opset) == (
        "ort-cpu", "native", "dynamo", 18
    )  # fmt: skip
    assert not other.shared


@pytest.mark.parametrize(
    ("answers", "skip"),
    [
        (
            {"engine": "ort-cpu", "optimization": "fmha", "ab_engine": "torch"},
            "not applicable: torch runs the torch module",
        ),
    ],
)
def test_what_side_b_cannot_run_is_skipped(of, answers, skip):
    ((_, other),) = of(**answers)
    assert other.skip == skip
    assert list(differing([other])) == []


def test_sides_that_are_the_same_are_refused(of):
    found = of(engine="ort-cpu", optimization="fp16", ab_engine="ort-cpu")
    with pytest.raises(OptionError) as refused:
        list(differing([other for _, other in found]))
    assert str(refused.value) == (
        "both sides of the A/B are the same: sd15-thin-unet-on-ort-cpu-at-fp16. Name another interpreter with "
        "--sdperf-ab=PYTHON, or another build with --sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
    )
