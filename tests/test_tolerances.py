"""A tolerance of a single case has a reason, is listed, and belongs to a case that is there."""

from __future__ import annotations

import json

import pytest
from door_toys import toy_catalog
from sample_values import CASE, case
from test_plugin import MEASURED, UNETS

from pytest_sdperf.cases.options.profiles import read_project
from pytest_sdperf.cases.options.reading import SettingsParser
from pytest_sdperf.cases.options.tolerances import read_rules
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.core.tolerances import Override, ToleranceRule, check_used, idle, overrides_of

TABLE = '[[tool.sdperf.tolerances]]\nlatency = "5%"\nreason = "why"\n'
FIRST, SECOND = "[[tool.sdperf.tolerances]] 1", "[[tool.sdperf.tolerances]] 2"
KEYS = (
    "artifact-size, batch-sizes, build-time, compiled-size, components, counts, engines, kernels, latency, memory, "
    "models, optimizations, reason, warm-start"
)


def rules_of(folder, text):
    (folder / "pyproject.toml").write_text(text)
    reader = SettingsParser({}, toy_catalog(), {}, device_kind="cpu", started_in=folder, root=folder)
    return read_rules(read_project(folder).tolerances, reader)


def rule(where="a rule", effects=None, **axes):
    return ToleranceRule(where, effects or {"latency": 0.05}, "why", **axes)


def test_a_table_becomes_a_rule(tmp_path):
    text = """
        [[tool.sdperf.tolerances]]
        models = "sd15"
        components = ["unet", "text_encoder"]
        engines = "ort-cpu:threads=2,torch"
        optimizations = "fp16"
        batch_sizes = [1, 8]
        latency = 0.05
        build_time = "150%"
        reason = " two algorithms "
    """
    assert rules_of(tmp_path, text + TABLE) == (
        ToleranceRule(
            FIRST,
            {"latency": 0.05, "build-time": 1.5},
            "two algorithms",
            models=("sd15",),
            components=("unet", "text_encoder"),
            engines=("ort-cpu:threads=2", "torch"),
            optimizations=("fp16",),
            batch_sizes=(1, 8),
        ),
        ToleranceRule(SECOND, {"latency": 0.05}, "why"),
    )
    assert rules_of(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[tool.sdperf.tolerances]]\ncomponents = "unet"\nlatency = "5%"\nmemory = 0.1\n',
            (
                f"{FIRST} sets latency=5%, memory=0.1 without a reason. Say why these cases differ from all others: "
                f'add a line such as: reason = "the driver picks between two algorithms".'
            ),
        ),
        (
            TABLE + '[[tool.sdperf.tolerances]]\nlatency = "5%"\nreason = " "\n',
            (
                f"{SECOND} sets latency=5% without a reason. Say why these cases differ from all others: add a line "
                f'such as: reason = "the driver picks between two algorithms".'
            ),
        ),
        (
            '[[tool.sdperf.tolerances]]\nreason = "why"\n',
            (
                f"{FIRST} sets no tolerance. Allowed: latency, memory, counts, kernels, build-time, warm-start, "
                f'artifact-size, compiled-size; add a line such as: latency = "5%".'
            ),
        ),
        (
            TABLE + "latncy = 0.05\n",
            f"unknown key in {FIRST} 'latncy'. Did you mean 'latency'? Known: {KEYS}.",
        ),
        (
            TABLE + 'engines = "ort-cqu"\n',
            "unknown engine 'ort-cqu'. Did you mean 'ort-cpu'? Known: absent, all, ort-cpu, ort-cuda, torch.",
        ),
        (
            '[[tool.sdperf.tolerances]]\nlatency = 12\nreason = "why"\n',
            (
                f"{FIRST} latency=12 is not a relative change. Allowed: above 0 and below 1000%; type for example "
                f"{FIRST} latency=2% or {FIRST} latency=0.02."
            ),
        ),
        (
            "[tool.sdperf.tolerances]\nlatency = 0.05\n",
            (
                "[tool.sdperf.tolerances] is one table. Write two brackets, for a list of them: "
                "[[tool.sdperf.tolerances]]."
            ),
        ),
        ("[tool.sdperf]\ntolerances = [1]\n", f"{FIRST} is 1, which is not a table."),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path, text, message):
    with pytest.raises(SdperfError) as caught:
        rules_of(tmp_path, text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("axes", "fits"),
    [
        ({}, True),
        ({"components": ("unet",), "engines": ("ort-cpu",), "batch_sizes": (1, 2)}, True),
        ({"components": ("vae_decoder",)}, False),
        ({"engines": ("ort-cpu:threads=1",)}, False),
        ({"models": ("sd15",)}, False),
        ({"optimizations": ("fp32", "fp16")}, True),
        ({"batch_sizes": (2,)}, False),
    ],
)
def test_which_cases_a_rule_is_for(axes, fits):
    assert rule(**axes).fits(CASE) is fits


def test_an_engine_without_options_means_any_and_one_with_options_means_these():
    threads = case(engine_options=(("threads", "1"),))
    assert rule(engines=("ort-cpu",)).fits(threads)
    assert rule(engines=("ort-cpu:threads=1",)).fits(threads)
    assert not rule(engines=("ort-cpu:threads=2",)).fits(threads)


def test_the_project_has_the_last_word_over_a_marker():
    marked = rule("the marker of a test", {"latency": 0.5, "memory": 0.5})
    project = [rule("first", {"memory": 0.1}), rule("second", {"kernels": 0.2}), rule("third", components=("x",))]
    assert overrides_of(CASE, project, marked) == (
        Override("latency", 0.5, "why", "the marker of a test"),
        Override("memory", 0.1, "why", "first"),
        Override("kernels", 0.2, "why", "second"),
    )
    assert overrides_of(CASE, [], None) == ()


def test_two_rules_of_the_project_for_one_tolerance_of_one_case_are_refused():
    with pytest.raises(SdperfError) as caught:
        overrides_of(CASE, [rule(FIRST), rule(SECOND, components=("unet",))])
    assert str(caught.value) == (
        f"{FIRST} and {SECOND} both set the tolerance latency of the case {CASE.key!r}. Name fewer cases in one of "
        f"them, or remove one."
    )


CASES = [case(), case(engine="torch", component="pipeline")]


def test_a_rule_that_no_case_has_use_for_is_refused():
    lost = rule(FIRST, engines=("torch",), components=("unet",))
    with pytest.raises(SdperfError) as caught:
        check_used([rule(), lost], CASES, {})
    assert str(caught.value) == (
        f"{FIRST} changes tolerances of cases with component unet, engine torch, and these options collect none of "
        f"them. Correct what it names, or remove it."
    )
    assert idle([rule(), lost], CASES) == (f"{FIRST} is for component unet, engine torch",)


@pytest.mark.parametrize("axes", [{"engines": ("ort-cuda",)}, {"models": ("sd15",)}, {"batch_sizes": (8,)}])
def test_a_rule_about_what_the_run_is_not_about_is_left_alone(axes):
    check_used([rule(**axes)], CASES, {})
    axis = next(iter(rule(**axes).axes))
    with pytest.raises(SdperfError):  # it was asked for by name, and no case came of it
        check_used([rule(**axes)], CASES, {axis: rule(**axes).axes[axis]})


@pytest.fixture
def project(pytester, sdperf):
    """Run a project of four cases with these tables."""
    pytester.makeconftest(MEASURED)
    pytester.makepyfile(test_mine="def test_step(bench, runner): bench(runner)")

    def run(tables, *arguments, **options):
        (pytester.path / "pyproject.toml").write_text(tables)
        return sdperf(*UNETS, "--sdperf-state-dir=state", "--sdperf-json=out.json", *arguments, **options)

    return run


PROJECT = """
    [[tool.sdperf.tolerances]]
    batch-sizes = 2
    memory = "25%"
    reason = "its arena grows in steps"

    [[tool.sdperf.tolerances]]
    optimizations = "fp16"
    latency = "5%"
    reason = "two algorithms"

    [[tool.sdperf.tolerances]]
    components = "text_encoder"
    latency = "5%"
    reason = "it is short"
"""


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_what_was_applied_is_listed_with_its_reason(pytester, project, workers):
    result = project(PROJECT, *workers, plugins=["xdist.plugin"] if workers else [])
    result.assert_outcomes(passed=4)
    start = result.outlines.index("tolerances of their own")
    assert sorted(result.outlines[start + 1 : start + 8]) == sorted(
        [
            "  memory 25 % for 2 cases, says [[tool.sdperf.tolerances]] 1: its arena grows in",
            "    steps",
            "  latency 5 % (30 % on a CPU) for 2 cases, says [[tool.sdperf.tolerances]] 2:",
            "    two algorithms",
            "  not used in this run: [[tool.sdperf.tolerances]] 3 is for component",
            "    text_encoder",
            "",
        ]
    )
    reports = json.loads((pytester.path / "out.json").read_text())["reports"]
    found = {(report["case"]["optimization"], report["case"]["batch_size"]): report for report in reports}
    assert found["fp32", 1]["overrides"] == []
    assert found["fp16", 2]["overrides"] == [
        {"name": "latency", "effect": 0.05, "reason": "two algorithms", "where": SECOND},
        {"name": "memory", "effect": 0.25, "reason": "its arena grows in steps", "where": FIRST},
    ]
    policy = found["fp16", 2]["policy"]
    assert (policy["min_effect"], policy["host_memory_effect"], policy["node_effect"]) == (0.05, 0.25, 0.02)


LOST = """
    [[tool.sdperf.tolerances]]
    batch-sizes = 2
    components = "text_encoder"
    latency = "5%"
    reason = "it is short"
"""


def test_a_run_refuses_what_it_has_no_use_for_unless_only_some_tests_are_named(pytester, project):
    pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.sdperf(components="unet")
        def test_step(bench, runner): bench(runner)
        """,
        test_more="""
        import pytest

        @pytest.mark.sdperf(components="text_encoder", batch_sizes=[1])
        def test_step(bench, runner): bench(runner)
        """,
    )
    both = ["--sdperf-component=unet,text_encoder"]
    message = (
        f"ERROR: {FIRST} changes tolerances of cases with component text_encoder, batch size 2, and these options "
        f"collect none of them. Correct what it names, or remove it."
    )
    assert project(LOST).ret == 0  # only the UNet
    more = project(LOST, "-k", "more", *both)
    assert (more.ret, message in more.errlines) == (4, True)
    assert project(LOST, "test_more.py", *both).ret == 0
