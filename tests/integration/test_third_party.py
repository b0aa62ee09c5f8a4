"""A model and an engine of somebody else, in the root conftest and nowhere else, do everything that ours do."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
    import os

    import pytest

    @pytest.mark.sdperf(components=["unet"])
    def test_right_and_fast(model, engine, runner, agree, bench):
        assert (type(model).__name__, type(engine).__name__) == ("DenseModel", "AcmeEngine")
        assert agree(runner).floating == "float32"
        assert runner.run()["out_sample"].shape == (2, 64, 32)
        bench(runner)
"""


@pytest.fixture
def third_party(user):
    """One file with both, as its author would write it: the imports, the classes, one `pytest_sdperf_register`."""
    model, engines = ((HERE / name).read_text() for name in ("dense_model.py", "acme_engines.py"))
    body = "\n".join(
        [
            model.replace("def pytest_sdperf_register(catalog: Catalog)", "def register_models(catalog: Catalog)"),
            engines.replace("from __future__ import annotations", "").replace(
                "def pytest_sdperf_register(catalog: Catalog) -> None:",
                "def pytest_sdperf_register(catalog: Catalog) -> None:\n    register_models(catalog)",
            ),
        ]
    )
    user.project(conftest=body, tests=TESTS, options={"engine": "acme"})
    (user.path / "dense_model.py").unlink()
    return user


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_they_work_in_the_suite_and_in_the_worker(third_party, mode):
    result = third_party.run(f"--import-mode={mode}")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    (report,) = third_party.results()["reports"]
    assert (report["case"]["model"], report["case"]["engine"]) == ("dense", "acme")
    assert report["measurement"]["subject"]["acme"] == "7.1"
    assert len(report["measurement"]["samples"]) == 2
    (agreement,) = report["agreements"]
    assert 0 < agreement["error"] <= agreement["limit"] < 1e-5


@pytest.mark.slow
def test_they_work_inside_pytests_own_process(third_party):
    tests = TESTS.replace(
        "bench(runner)", "bench(runner)\n        assert sys.modules['conftest'].ran_in == os.getpid()"
    )
    third_party.pytester.makepyfile(test_mine=tests.replace("import os", "import os\n    import sys"))
    conftest = third_party.path / "conftest.py"
    conftest.write_text(
        conftest.read_text()
        .replace(
            "def nothing() -> None:\n    return", "def nothing() -> None:\n    global ran_in\n    ran_in = os.getpid()"
        )
        .replace("def nothing", "ran_in = 0\n\n\ndef nothing", 1)
    )
    result = third_party.run("--sdperf-inprocess")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert third_party.outcomes() == ["NEW"]


@pytest.mark.slow
def test_a_wrong_engine_fails_its_agreement_and_is_not_recorded(third_party):
    conftest = third_party.path / "conftest.py"
    conftest.write_text(conftest.read_text().replace("np.tanh(out @", "np.tanh(1.001 * out @"))
    third_party.pytester.makepyfile(
        test_mine=TESTS.replace("assert agree(runner).floating", "bench(runner)\n        assert agree(runner).floating")
    )
    result = third_party.run("--sdperf-update-baselines")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    (report,) = third_party.results()["reports"]
    (agreement,) = report["agreements"]
    assert 1e-4 < agreement["error"] < 1e-2
    assert agreement["error"] > 10 * agreement["limit"]
    assert not (third_party.path / "baselines").exists()
    assert "1 agreement FAILED" in result.stdout.str()
    assert "refused" in result.stdout.str()
