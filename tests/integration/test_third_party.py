"""A model and an engine of somebody else, in the root conftest and nowhere else, do everything that ours do."""

from __future__ import annotations

from pathlib import Path

import pytest
from user_project import ACME, joined, report_of

HERE = Path(__file__).parent
TESTS = """
    import pytest

    @pytest.mark.sdperf(components=["unet"])
    def test_right_and_fast(model, engine, runner, agree, bench):
        assert (type(model).__name__, type(engine).__name__) == ("DenseModel", "AcmeEngine")
        bench(runner)
        agree(runner)
        assert runner.run()["out_sample"].shape == (2, 64, 32)
"""
REGISTER = "def pytest_sdperf_register(catalog: Catalog) -> None:"


@pytest.fixture
def third_party(user):
    """One file with both, as its author would write it: the imports, the classes, one `pytest_sdperf_register`."""
    model, engines = ((HERE / name).read_text() for name in ("dense_model.py", "acme_engines.py"))
    model = model.replace(REGISTER, "def add_models(catalog: Catalog) -> None:")
    engines = engines.replace(REGISTER, f"{REGISTER}\n    add_models(catalog)")
    user.project(
        conftest=f"{model}\n{engines.replace('from __future__ import annotations', '')}",
        tests=TESTS,
        options={"engine": "acme", "processes": 2, "max-processes": 2},
    )
    for file in ("dense_model.py", "acme_engines.py"):
        (user.path / file).unlink()
    return user


def processes(report) -> list[int]:
    return [sample["facts"]["own"]["process"] for sample in report["measurement"]["samples"]]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_they_work_in_the_suite_and_in_the_worker(third_party, mode):
    result = third_party.run(f"--import-mode={mode}")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    (report,) = third_party.results()["reports"]
    assert (report["case"]["model"], report["case"]["engine"]) == ("dense", "acme")
    assert report["measurement"]["subject"]["acme"] == "7.1"
    assert len(set(processes(report))) == 2
    (agreement,) = third_party.agreements()
    assert 0 < agreement["error"] <= agreement["limit"] < 1e-5


@pytest.mark.slow
def test_they_work_inside_pytests_own_process(third_party):
    result = third_party.run("-osdperf_inprocess=true")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    (report,) = third_party.results()["reports"]
    assert len(processes(report)) == 2
    assert len(set(processes(report))) == 1


@pytest.mark.slow
def test_a_wrong_engine_fails_its_agreement_and_is_not_recorded(third_party):
    result = third_party.run("--sdperf-engine=acme-wrong", "--sdperf-update-baselines")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    (agreement,) = third_party.agreements()
    assert 1e-4 < agreement["error"] < 1e-2
    assert agreement["error"] > 10 * agreement["limit"]
    assert not (third_party.path / "baselines").exists()
    assert "verdicts of 1 case: 1 FAILED" in result.stdout.str()
    test = "test_mine.py::test_right_and_fast[dense-unet-on-acme-wrong-at-fp32]"
    assert f"refused, {test}: The component has a relative L2 error " in joined(result.outlines)


@pytest.mark.slow
def test_an_engine_that_gives_old_answers_is_invalid_and_is_not_recorded(user):
    user.project(conftest=ACME, options={"engine": "acme-stale"})
    result = user.run("--sdperf-update-baselines", "--sdperf-reason=it is fast", "-v")
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    assert user.outcomes("latency") == ["NEW"]
    (verdict,) = user.verdicts("changed-inputs")
    assert (verdict["outcome"], verdict["code"]) == ("INVALID", "answers-wrong")
    sentence = "UNet outputs do not follow its inputs: another sample does not change the outputs."
    assert verdict["sentence"] == sentence
    report = joined(report_of(result))
    assert "runtime report dense unet fp32 acme-stale batch 1: WRONG answers to changed inputs" in report
    assert not (user.path / "baselines").exists()
    right = "runtime report dense unet fp32 acme batch 1: right answers to changed inputs"
    assert right not in joined(report_of(user.run("--sdperf-engine=acme", "-v")))
    assert right in joined(report_of(user.run("--sdperf-engine=acme", "-vv")))
