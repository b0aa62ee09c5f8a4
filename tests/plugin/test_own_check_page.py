"""Checks of somebody else, each in one file: those of docs/own-check.md, as they stand there, and wrong ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pytest_sdperf
from pytest_sdperf.checks import builtins
from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.checks.semantics.check import Pictures
from pytest_sdperf.cli import main
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import DuplicateNameError, UnknownNameError
from pytest_sdperf.plugin.fixtures.checks import make_fixtures
from pytest_sdperf.report.results import results_schema

PAGE = (Path(__file__).parents[2] / "docs" / "own-check.md").read_text(encoding="utf-8")
VARIED, ITS_TEST, NO_FLOAT64, ITS_OTHER_TEST, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
# What the tests of the page look at: no worker is started, and nothing is built.
PLAYED = """
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pytest_sdperf.core.values import Build

@pytest.fixture(scope="session")
def sdperf_runner(sdperf_case):
    outputs = {"sample": np.arange(4.0), "flat": np.full(4, 2.0)}
    names = ["sample", "flat"] if os.environ.get("FLAT") else ["sample"]
    return SimpleNamespace(case=sdperf_case, run=lambda: {name: outputs[name] for name in names})

@pytest.fixture(scope="session")
def sdperf_build(sdperf_case):
    return Build("key", "onnx", Path("model.onnx"), "float32")
"""
UNETS = ("--sdperf-component=unet", "--sdperf-engine=ort-cpu", "--sdperf-optimization=fp32,fp16")
BUILDS = ("--sdperf-component=unet", "--sdperf-optimization=fp32,fp16", "--sdperf-fuser=native")
FLAT = "The same number everywhere in flat. [output-constant]"


@pytest.fixture
def project(pytester, sdperf):
    def run(conftest, test, *arguments, plugins=()):
        pytester.path.joinpath("conftest.py").write_text(conftest + PLAYED, encoding="utf-8")
        pytester.path.joinpath("test_mine.py").write_text(test, encoding="utf-8")
        return sdperf("--sdperf-json=results.json", "--sdperf-state-dir=state", *arguments, plugins=plugins)

    return run


def saved(pytester):
    return json.loads((pytester.path / "results.json").read_text(encoding="utf-8"))


def lines_of(result, first):
    """Return the lines from one that begins so to the next empty one."""
    start = next(number for number, line in enumerate(result.outlines) if line.startswith(first))
    return [*result.outlines[start : result.outlines.index("", start)]]


def test_what_passes_has_its_row_and_its_finding(pytester, project):
    result = project(VARIED, ITS_TEST, *UNETS, "-v")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    assert lines_of(result, "varied") == [
        "varied                                  outputs  least spread",
        "  sd15-thin unet fp32 (native) ort-cpu        1      1.12e+00",
        "  sd15-thin unet fp16 (native) ort-cpu        1      1.12e+00",
        "  least spread: standard deviation of the output that varies least",
    ]
    assert "verdicts of 2 cases: 2 PASSED" in result.outlines
    first = saved(pytester)["reports"][0]
    assert first["checks"]["varied"]["finding"] == {"sample": np.arange(4.0).std()}
    (verdict,) = first["verdicts"]
    assert (verdict["metric"], verdict["outcome"], verdict["code"]) == ("varied", "PASSED", "outputs-vary")


@pytest.mark.parametrize("how", [(), ("-n1", "--dist=load")])
def test_what_fails_ends_with_one_and_its_sentence(pytester, project, monkeypatch, how):
    monkeypatch.setenv("FLAT", "yes")
    result = project(VARIED, ITS_TEST, *UNETS, *how, "-v", plugins=["xdist.plugin"] if how else ())
    result.assert_outcomes(failed=2)
    assert result.ret == 1
    assert result.outlines.count(f"FAILED: {FLAT}") == 2
    assert "  sd15-thin unet fp32 (native) ort-cpu        2      0.00e+00" in result.outlines
    assert [report["checks"]["varied"]["finding"]["flat"] for report in saved(pytester)["reports"]] == [0.0, 0.0]
    assert "next, look at what failed alone, before any time:" in result.outlines


def test_the_gate_says_the_same_of_the_file_without_the_conftest(pytester, project, monkeypatch, capsys):
    jsonschema = pytest.importorskip("jsonschema")
    monkeypatch.setenv("FLAT", "yes")
    run = project(VARIED, ITS_TEST, *UNETS)
    jsonschema.Draft202012Validator(results_schema()).validate(saved(pytester))
    (pytester.path / "conftest.py").unlink()
    capsys.readouterr()
    assert main(["gate", "results.json", "--gpu=cpu", "--markdown=report.md", "-v"]) == 1
    told = capsys.readouterr().out.splitlines()
    assert "  sd15-thin unet fp32 (native) ort-cpu        2      0.00e+00" in told
    assert f"  {FLAT}" in told
    assert "verdicts of 2 cases: 2 FAILED" in told
    report = (pytester.path / "report.md").read_text(encoding="utf-8").splitlines()
    start = report.index("### Varied")
    assert report[start : start + 5] == [
        "### Varied",
        "",
        "| model | component | optimization | engine | batch | outputs | least spread | verdict |",
        "|---|---|---|---|---|---|---|---|",
        "| sd15-thin | unet | fp32 (native) | ort-cpu | 1 | 2 | 0.00e+00 | FAILED |",
    ]
    assert run.ret == 1


def graph(path, dtype):
    weight = numpy_helper.from_array(np.ones(2, dtype), "weight")
    made = helper.make_graph([], "g", [], [helper.make_tensor_value_info("weight", TensorProto.FLOAT, [2])], [weight])
    onnx.save(helper.make_model(made), path)


def test_a_build_is_looked_at_without_an_engine(pytester, project):
    graph(pytester.path / "model.onnx", np.float32)
    result = project(NO_FLOAT64, ITS_OTHER_TEST, *BUILDS)
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    assert {report["case"]["engine"] for report in saved(pytester)["reports"]} == {""}


def test_its_advice_is_what_to_type_next(pytester, project):
    graph(pytester.path / "model.onnx", np.float64)
    result = project(NO_FLOAT64, ITS_OTHER_TEST, *BUILDS)
    result.assert_outcomes(failed=2)
    assert "FAILED: In float64: weight. [float64-weights]" in result.outlines
    start = result.outlines.index("next, build with the other exporter:")
    assert result.outlines[start + 1].endswith(" --sdperf-exporter=torchscript")
    again = project(NO_FLOAT64, ITS_OTHER_TEST, *BUILDS, "--sdperf-exporter=torchscript")
    assert "next, look at what failed alone, before any time:" in again.outlines


def test_a_plan_calls_it_by_its_name(project):
    result = project(VARIED, ITS_TEST, *UNETS, "--sdperf-plan")
    assert [line.strip() for line in result.outlines if "varied" in line] == [
        "varied; to make: weights, export",
        "varied; to make: fuse-native",
    ]


def test_what_a_test_is_for_follows_from_what_it_hands_over(project):
    hook = (
        "\nfrom pytest_sdperf.cases.purposes import purpose_of\n\n"
        "def pytest_collection_finish(session):\n"
        "    for item in session.items:\n"
        "        purpose = purpose_of(item)\n"
        "        print('IT IS', item.originalname, *purpose.told, purpose.executes, purpose.needs_device)\n"
    )
    test = f"{ITS_TEST}\n\ndef test_built(sdperf_build, sdperf_varied):\n    pass\n"
    more = "\n\ndef test_both(sdperf_runner, sdperf_replay, sdperf_bench, sdperf_varied):\n    pass\n"
    result = project(VARIED + hook, test + more, *UNETS[:2], "--sdperf-optimization=fp32", "--collect-only")
    assert {line for line in result.outlines if line.startswith("IT IS")} == {
        "IT IS test_outputs_vary varied True True",
        "IT IS test_built varied False False",
        "IT IS test_both replay varied speed True True",
    }


def test_the_fixture_says_what_it_is_for(project):
    result = project(VARIED, ITS_TEST, "--fixtures")
    start = next(number for number, line in enumerate(result.outlines) if line.startswith("sdperf_varied"))
    told = "    Fail where an output is the same number everywhere: `sdperf_varied(runner)`."
    assert result.outlines[start + 1] == told


def test_a_run_that_skips_it_judged_nothing(project):
    test = ITS_TEST.replace("def test", "import pytest\n\n@pytest.mark.skip('not today')\ndef test")
    result = project(VARIED, test, *UNETS)
    result.assert_outcomes(skipped=2)
    assert result.ret == 10
    assert "INVALID nothing was judged: none of 2 selected tests came to a verdict" in result.outlines


def test_a_case_that_it_is_not_for_is_skipped(project):
    method = "def not_applicable(self, case):\n        return case.optimization == 'fp16' and 'half precision'"
    result = project(VARIED.replace("def run(", f"{method}\n\n    def run("), ITS_TEST, *UNETS, "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert result.ret == 0
    (skipped,) = (line for line in result.outlines if line.startswith("SKIPPED"))
    assert skipped.split(": ", 1)[1] == "not applicable: half precision"


def test_one_that_is_left_out_takes_no_other_with_it(pytester, project):
    """Also where nothing can be read: of two checks in one test the other one is judged."""
    second = VARIED.replace("Varied", "Spread").replace('"varied"', '"spread"')
    second = second.replace(
        "        return {name",
        "        from pytest_sdperf.core.errors import NoReferenceError\n\n"
        "        raise NoReferenceError('nothing to compare with')\n        return {name",
    )
    second = second[: second.index("def pytest_sdperf_register")]
    conftest = second + VARIED.replace("add_check(Varied())", "add_check(Spread())\n    catalog.add_check(Varied())")
    test = "def test_it(sdperf_runner, sdperf_spread, sdperf_varied):\n    sdperf_spread(sdperf_runner)\n"
    result = project(conftest, f"{test}    sdperf_varied(sdperf_runner)\n", *UNETS[:2], "--sdperf-optimization=fp32")
    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    (report,) = saved(pytester)["reports"]
    assert (list(report["checks"]), report["left_out"]) == (["varied"], {"spread": "nothing to compare with"})
    assert "LEFT OUT the spread of test_mine.py::test_it[sd15-thin-unet-on-ort-cpu-at-fp32]" in result.outlines


LEAST = """
class Least(Varied):
    name, beside, word = "varied_least", "varied", "least"

    def run(self, subject):
        return {"sample": super().run(subject)["sample"]}

    def judge(self, finding, case, *, policy):
        sentence = f"Of the {case.component} it varies, in at least {policy.processes} processes."
        return Verdict(Outcome.PASSED, "sample-varies", sentence, self.name)
"""


def test_two_checks_share_a_fixture_and_a_table(pytester, project, capsys):
    conftest = VARIED.replace("\ndef pytest", f"{LEAST}\n\ndef pytest") + "    catalog.add_check(Least())\n"
    both = ITS_TEST + "    sdperf_varied(sdperf_runner, 'least')\n"
    result = project(conftest, both, *UNETS[:2], "--sdperf-optimization=fp32", "-v")
    result.assert_outcomes(passed=1)
    assert lines_of(result, "varied")[:3] == [
        "varied                                        outputs  least spread",
        "  sd15-thin unet fp32 (native) ort-cpu              1      1.12e+00",
        "  sd15-thin unet least fp32 (native) ort-cpu        1      1.12e+00",
    ]
    (report,) = saved(pytester)["reports"]
    assert [(one["metric"], one["sentence"]) for one in report["verdicts"]] == [
        ("varied", "Every output varies."),
        ("varied_least", "Of the unet it varies, in at least 3 processes."),
    ]
    assert list(report["checks"]) == ["varied", "varied_least"]
    assert main(["gate", "results.json", "--gpu=cpu", "--markdown=report.md"]) == 0
    told = (pytester.path / "report.md").read_text(encoding="utf-8").splitlines()
    assert told.count("### Varied") == 1
    assert "| sd15-thin | unet least | fp32 (native) | ort-cpu | 1 | 1 | 1.12e+00 | PASSED |" in told
    wrong = project(conftest, both.replace("'least'", "'most'"), *UNETS[:2], "--sdperf-optimization=fp32")
    wrong.assert_outcomes(failed=1)
    assert "sdperf_varied was asked for 'most'. Allowed: least." in wrong.stdout.str()


COUNTING = """
import onnx
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.values.outcomes import Outcome, Verdict


class Weights(Check):
    name, library = "weights", "onnx"

    def run(self, subject, most):
        held = len(onnx.load(subject.path, load_external_data=False).graph.initializer)
        return {"held": held, "most": most, "of": subject.case.component, "explanation": {"held": held}}

    def counts(self, finding):
        return {"held": finding["held"]}

    def judge(self, finding, case, *, policy, stored):
        before = stored.counts.get("held")
        if before is None:
            return Verdict(Outcome.NEW, "weights-new", f"It holds {finding['held']}.", self.name)
        same = before == finding["held"]
        told = f"It holds {finding['held']}, and held {before}."
        return Verdict(Outcome.HELD if same else Outcome.REGRESSED, "weights-compared", told, self.name)


def pytest_sdperf_register(catalog):
    catalog.add_check(Weights())
"""


def test_one_that_counts_is_held_to_what_is_stored(pytester, project):
    """A release is judged by its own file, which both ways of accepting write; what is worse needs a reason."""
    test = "def test_weights(sdperf_build, sdperf_weights):\n    sdperf_weights(sdperf_build, 3)\n"
    path = pytester.path / "baselines" / "weights" / f"onnx-{'.'.join(onnx.__version__.split('.')[:2])}.json"
    graph(pytester.path / "model.onnx", np.float32)
    first = project(COUNTING, test, *BUILDS)
    first.assert_outcomes(passed=2)
    assert "next, accept 2 results that are new or improved:" in first.outlines
    (check,) = saved(pytester)["reports"][0]["checks"].values()
    assert check["finding"] == {"held": 1, "most": 3, "of": "unet"}
    assert (check["counted"]["file"], check["counted"]["counts"]) == (f"weights/{path.name}", {"held": 1})
    assert main(["baselines", "accept", "results.json"]) == 0
    assert list(json.loads(path.read_text(encoding="utf-8"))["cases"].values()) == [{"held": 1}] * 2
    project(COUNTING, test, *BUILDS).assert_outcomes(passed=2)
    assert {one["verdicts"][0]["outcome"] for one in saved(pytester)["reports"]} == {"HELD"}
    worse = COUNTING.replace("graph.initializer)", "graph.initializer) + 1")
    result = project(worse, test, *BUILDS, "--sdperf-update-baselines")
    result.assert_outcomes(failed=2)
    assert "REGRESSED: It holds 2, and held 1. [weights-compared]" in result.outlines
    assert list(json.loads(path.read_text(encoding="utf-8"))["cases"].values()) == [{"held": 1}] * 2
    meant = project(worse, test, *BUILDS, "--sdperf-update-baselines", "--sdperf-reason=one more is meant")
    meant.assert_outcomes(failed=2)
    assert list(json.loads(path.read_text(encoding="utf-8"))["cases"].values()) == [{"held": 2}] * 2
    path.write_text("{", encoding="utf-8")
    damaged = project(COUNTING, test, *BUILDS)
    assert f"file of weight counts {path} is not valid" in damaged.stdout.str()


def test_what_shares_a_table_and_has_other_columns_has_a_table_of_its_own(pytester, project, capsys):
    other = LEAST.replace('"varied", "least"\n', '"varied", "least"\n    columns = ("samples",)\n')
    other += "\n    def row(self, finding):\n        return ('one',)\n"
    conftest = VARIED.replace("\ndef pytest", f"{other}\n\ndef pytest") + "    catalog.add_check(Least())\n"
    both = ITS_TEST + "    sdperf_varied(sdperf_runner, 'least')\n"
    result = project(conftest, both, *UNETS[:2], "--sdperf-optimization=fp32", "-v")
    result.assert_outcomes(passed=1)
    assert result.ret == 0
    assert [line.split()[-1] for line in result.outlines if line.startswith("varied ")] == ["spread", "samples"]
    assert main(["gate", "results.json", "--gpu=cpu", "--markdown=report.md"]) == 0
    told = (pytester.path / "report.md").read_text(encoding="utf-8").splitlines()
    assert told.count("### Varied") == 2
    assert "| sd15-thin | unet least | fp32 (native) | ort-cpu | 1 | one | PASSED |" in told


def test_asked_twice_a_test_is_refused(project):
    result = project(VARIED, ITS_TEST + "    sdperf_varied(sdperf_runner)\n", *UNETS)
    result.assert_outcomes(failed=2)
    assert "this test called sdperf_varied twice; give each call a test of its own" in result.outlines


# -------------------------------------------------------------------------------------------------------- wrong ones

NAMES = {
    "Varied": (
        "check 'Varied' of conftest: allowed are lower case words joined by underscores, because tests ask for the "
        "fixture sdperf_NAME. Rename it."
    ),
    "replay": (
        "check 'replay' is registered twice: by pytest_sdperf.checks.builtins and by conftest. Rename one of them."
    ),
    "kernels": "check 'kernels' of conftest: a fixture or a metric of this name is there already. Rename it.",
    "pictures": (
        "check 'pictures' is registered twice: by pytest_sdperf.checks.builtins and by conftest. Rename one of them."
    ),
}
WHERE = "the check 'varied' of conftest"
# What stands in its place -> what the test says.
WRONG = {
    "return None": f"{WHERE} judged with None. Allowed: one Verdict.",
    "return Verdict(Outcome.HELD, 'held', 'As before.', 'varied')": (
        f"{WHERE} judged HELD, which is no verdict of a check: it has no baseline. Allowed: PASSED, FAILED, "
        f"INCONCLUSIVE, INVALID."
    ),
    "return Verdict(Outcome.PASSED, 'ok', 'Fine.', 'spread')": (
        f"{WHERE} gave a verdict with the metric 'spread'. Allowed: 'varied'."
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_is_refused(project, name):
    result = project(VARIED.replace('name = "varied"', f'name = "{name}"'), "def test_it(): pass")
    assert result.ret == 4
    assert result.errlines[0] == f"ERROR: {NAMES[name]}"


def fixtures_of_ours_and(check):
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    catalog.add_check(check)
    return make_fixtures(catalog)


def test_a_fixture_that_is_shared_has_to_be_there():
    with pytest.raises(UnknownNameError) as raised:
        fixtures_of_ours_and(type("Named", (Pictures,), {"name": "mine", "beside": "replai"})())
    assert str(raised.value).startswith("unknown check 'replai'")
    with pytest.raises(DuplicateNameError) as raised:
        fixtures_of_ours_and(type("Named", (Pictures,), {"name": "mine", "beside": "replay", "word": "batch"})())
    assert str(raised.value).endswith(": sdperf_replay has the word 'batch' already. Change it.")


def test_no_name_of_a_check_is_a_metric_of_ours():
    found = set()
    for path in (Path(pytest_sdperf.__file__).parent / "checks").rglob("*.py"):
        words = re.findall(r"^(?:METRIC|METRICS|PLACEMENT)\b.* = (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        found |= {word for line in words for word in re.findall(r'"([a-z]+)"', line)}
    found |= {name for name in OURS if "-" not in name}
    assert {"latency", "attention", "batch", "fusions"} <= found
    for name in found - {"repeats"}:
        with pytest.raises(DuplicateNameError):
            fixtures_of_ours_and(type("Named", (Pictures,), {"name": name})())


@pytest.mark.parametrize("body", WRONG)
def test_what_is_no_verdict_of_it_is_refused(project, body):
    conftest = VARIED.replace(
        "    def judge(self, finding, case, *, policy):\n",
        f"    def judge(self, finding, case, *, policy):\n        {body}\n",
    )
    result = project(conftest, ITS_TEST, *UNETS)
    result.assert_outcomes(failed=2)
    assert result.ret == 1
    assert WRONG[body] in result.outlines


@pytest.mark.parametrize("row", ["('1',)", "(1, '2')"])
def test_a_row_that_does_not_fit_its_columns_is_refused(project, row):
    result = project(re.sub(r"return str\(len.*", f"return {row}", VARIED), ITS_TEST, *UNETS)
    result.assert_outcomes(failed=2)
    told = f"{WHERE} has 2 columns, and its `row` gave {row}. Allowed: one text for each column."
    assert told in result.outlines


def test_what_is_no_advice_is_refused(project):
    conftest = VARIED.replace(
        "    def run(", "    def advice(self, verdict):\n        return 'look again'\n\n    def run("
    )
    result = project(conftest, ITS_TEST, *UNETS)
    result.assert_outcomes(failed=2)
    assert f"{WHERE} advised 'look again'. Allowed: an Advice, or None." in result.outlines


def test_what_is_no_json_is_refused(project):
    result = project(VARIED.replace("float(array.std())", "array.astype('float32').std()"), ITS_TEST, *UNETS)
    result.assert_outcomes(failed=2)
    assert (
        f"{WHERE} found something that is no JSON data: Object of type float32 is not JSON serializable. Return "
        f"numbers, texts, lists, dictionaries, or dataclasses of these from its `run`."
    ) in result.outlines
