"""An A/B: another engine, another interpreter, judged by the first side and by no baseline."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from test_foreign_interpreter import PACKAGES, environment_with
from user_project import ACME, joined, report_of

NODE = "test_mine.py::test_speed[dense-unet-on-acme-at-fp32]"
SIDES = [
    "A: acme at fp32, acme 7.1, numpy {numpy}",
    "B: acme-slow at fp32, acme 7.1, numpy {numpy}; one build for both",
]


@pytest.fixture
def sides(acme):
    """A project that measures at least two pairs."""
    acme.project(conftest=ACME, options={"engine": "acme", "max-processes": 12})
    return acme


def test_a_slower_side_fails_after_few_pairs_and_no_baseline_is_touched(sides):
    result = sides.run("--sdperf-ab-engine=acme-slow")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    (report,) = sides.results()["reports"]
    verdict, *others = report["verdicts"]
    assert (verdict["outcome"], verdict["code"]) == ("REGRESSED", "pairs-slower")
    assert {other["code"] for other in others} == {"pairs-same-memory"}
    assert verdict["details"] == [text.format(numpy=version("numpy")) for text in SIDES]
    assert report["measurement"] is None
    samples = [len(report["pairs"][side]["samples"]) for side in "ab"]
    assert samples in ([2, 2], [4, 4])
    assert report["pairs"]["shared"] is True
    lines = report_of(result)
    text = joined(lines)
    assert "baselines none is used: side B of an A/B is judged by side A" in text
    assert joined([text.format(numpy=version("numpy")) for text in SIDES]) in text
    assert f"REGRESSED {NODE}" in lines
    assert lines[-2] == "next, measure what regressed again, alone:"
    assert not (sides.path / "baselines").exists()
    assert not (sides.path / "state" / "candidates").exists()
    assert sides.junit() == {"tests": 1, "failures": 1, "errors": 0, "skipped": 0}


def test_the_faster_side_is_an_improvement(sides):
    result = sides.run("--sdperf-ab-engine=acme", "--sdperf-engine=acme-slow")
    assert result.ret == 0
    assert sides.outcomes() == ["IMPROVED"]
    assert report_of(result)[-2] == "next, keep these results in a file:"


def test_out_of_memory_on_one_side_ends_it_at_once(sides):
    result = sides.run("--sdperf-ab-engine=acme-device-full")
    assert result.ret == 1
    (report,) = sides.results()["reports"]
    (verdict,) = report["verdicts"]
    assert (verdict["outcome"], verdict["code"]) == ("REGRESSED", "oom-instead-of-number")
    assert [len(report["pairs"][side]["samples"]) for side in "ab"] == [1, 0]


NOT_JUDGED = (
    "UNet latency and memory of B are not judged: side A, which they would be judged by, {}. Correct A, or compare "
    "with another one. [side-a-defect]"
)
ALONE = "next, look at side A alone, which is what is wrong:"


@pytest.mark.parametrize(
    ("a", "b", "status", "codes"),
    [
        # A alone: B is no worse for it.
        ("acme-on-cpu", "acme-slow", 10, ["side-a-defect", "cpu-nodes"]),
        ("acme-stale", "acme-slow", 10, ["side-a-defect", "answers-wrong"]),
        # Both, or B alone.
        ("acme-on-cpu", "acme-slow-on-cpu", 1, ["side-a-defect", "cpu-nodes", "cpu-nodes"]),
        ("acme-slow", "acme-on-cpu", 1, ["pairs-faster", "cpu-nodes"]),
    ],
)
def test_a_side_a_with_a_defect_proves_nothing_of_side_b(sides, a, b, status, codes):
    result = sides.run(f"--sdperf-engine={a}", f"--sdperf-ab-engine={b}")
    assert result.ret == status
    verdicts = [one for one in sides.results()["reports"][0]["verdicts"] if not one["code"].startswith("pairs-same")]
    assert [one["code"] for one in verdicts] == codes
    lines = report_of(result)
    named = [one["sentence"].partition(":")[0] for one in verdicts[1:]]
    if status == 1:
        assert {one["outcome"] for one in verdicts if one["sentence"].startswith("Side B: ")} == {"FAILED"}
        assert (lines[-2], named[-1]) == ("next, look at what failed alone, before any time:", "Side B")
        return
    assert ({one["outcome"] for one in verdicts}, named) == ({"INVALID"}, ["Side A"])
    assert NOT_JUDGED.format("has a defect of its own") in joined(lines)
    assert lines[-2] == ALONE
    assert lines[-1].endswith(f" --junitxml=junit.xml --sdperf-engine={a} --lf")


BOTH_TESTS = """
    import pytest

    pytestmark = pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])

    def test_right(runner, agree):
        agree(runner)

    def test_speed(runner, bench):
        bench(runner)
"""


@pytest.mark.parametrize(
    ("a", "b", "status", "outcomes"),
    [
        ("acme-wrong", "acme-slow", 10, ["INVALID", "INVALID"]),
        ("acme-slow", "acme-wrong", 1, ["FAILED", "IMPROVED"]),
    ],
)
def test_a_side_a_that_is_wrong_proves_nothing_of_the_speed_of_side_b(sides, a, b, status, outcomes):
    sides.project(conftest=ACME, tests=BOTH_TESTS, options={"engine": a, "max-processes": 12})
    result = sides.run(f"--sdperf-ab-engine={b}")
    assert result.ret == status
    reports = sides.results()["reports"]
    agreement, speed = ([verdict["outcome"] for verdict in report["verdicts"]] for report in reports)
    assert [agreement[-1], speed[0]] == outcomes
    text = joined(report_of(result))
    if status == 10:
        assert [report["verdicts"][0]["code"] for report in reports] == ["side-a-disagrees", "side-a-defect"]
        assert NOT_JUDGED.format("disagrees with its reference") in text
        assert ALONE in text


REPLAY_TEST = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
    def test_again(runner, replay):
        replay(runner)
"""


def test_side_b_is_what_is_called_again_and_again(sides):
    sides.project(conftest=ACME, tests=REPLAY_TEST, options={"engine": "acme", "max-processes": 12})
    result = sides.run("--sdperf-ab-engine=acme-stale", "-v")
    assert result.ret == 1
    (report,) = sides.results()["reports"]
    (verdict,) = report["verdicts"]
    assert (report["case"]["engine"], report["other"]["engine"]) == ("acme", "acme-stale")
    assert (verdict["outcome"], verdict["code"]) == ("FAILED", "answer-stale")
    assert verdict["sentence"].startswith("Side B: UNet ")
    assert any(line.startswith("  B: dense unet repeats fp32 acme-stale ") for line in report_of(result))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--sdperf-ab-engine=acme"],
            (
                "both sides of the A/B are the same: dense-unet-on-acme-at-fp32. Name another interpreter with "
                "--sdperf-ab=PYTHON, or another build with --sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
            ),
        ),
        (
            ["--sdperf-ab-engine=ort-cuda"],
            "engine 'ort-cuda' runs on cuda, not on cpu. This machine has no GPU of NVIDIA.",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_first_test(sides, arguments, message):
    result = sides.run(*arguments)
    assert result.ret == 4
    assert result.errlines[0] == f"ERROR: {message}"


def test_an_interpreter_that_lacks_the_engine_is_refused_before_the_first_test(user, tmp_path):
    python = environment_with(tmp_path, *PACKAGES[:2])
    user.project(options={"max-processes": 2})
    result = user.run(f"--sdperf-ab={python}")
    assert result.ret == 4
    assert result.errlines[0] == (
        f"ERROR: side B of the A/B cannot run engine 'ort-cpu': engine 'ort-cpu' cannot run under {python}: package "
        f"'onnxruntime' is not installed; type: {python} -m pip install onnxruntime"
    )


@pytest.mark.slow
def test_another_interpreter_is_compared_on_the_same_files(user, tmp_path):
    python = environment_with(tmp_path, *PACKAGES)
    user.project(options={"max-processes": 2})
    result = user.run(f"--sdperf-ab={python}")
    (report,) = user.results()["reports"]
    assert result.ret == int(report["verdicts"][0]["outcome"] == "REGRESSED")
    a, b = report["pairs"]["a"], report["pairs"]["b"]
    assert a["graph_hashes"] == b["graph_hashes"]
    assert report["pairs"]["shared"] is True
    side = f"ort-cpu at fp32, onnxruntime {version('onnxruntime')}"
    assert report["verdicts"][0]["details"][0].startswith(f"A: {side}")
    assert report["verdicts"][0]["details"][1].startswith(f"B: {side}")
    assert f"under {python}" in joined(report_of(result))
