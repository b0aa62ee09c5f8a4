"""How the build table reads."""

from __future__ import annotations

import dataclasses

from sample_values import case, measurement, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.tables.artifacts import artifact_table
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.artifact import Artifact, BuildStep

EXPORT = BuildStep("export", 25.2, 25.1, host="cpu-amd-epyc-2c", commit="b6db44140419", date="2026-11-28T10:41Z")
FUSE = BuildStep("fuse-native", 1.15, 1.15, host="cpu-amd-epyc-2c", commit="b6db44140419", date="2026-11-28T10:41Z")
COMPILE = BuildStep("compile", 184.0, 61.0, now=True)


def report(artifact, **fields):
    measured = measurement(case=case(**fields), artifacts={"unet": artifact})
    samples = tuple(dataclasses.replace(one, load_s=2.0, first_run_s=1.5) for one in measured.samples)
    return CaseReport("a test", measured.case, dataclasses.replace(measured, samples=samples))


def text(*reports, every=False):
    return [line.text for line in artifact_table(reports, every=every).lines(width=100)]


def now(*steps):
    return tuple(dataclasses.replace(step, now=True) for step in steps)


LEGEND = [
    "  build: what making the files took when they were made, weights and cached steps included; warm",
    "  start: until the first answer of a process that finds everything compiled, once its libraries are",
    "  imported",
]


LARGER = stored(session(artifacts={"unet": Artifact(40_000_000)}))


def test_what_this_run_built_and_what_came_from_the_cache():
    assert text(
        report(Artifact(68_968_116, None, now(EXPORT, FUSE))),
        report(Artifact(68_968_116, 2_110_000_000, (EXPORT, FUSE, COMPILE)), engine="ort-trt"),
    ) == [
        "build                                files  compiled   build    made  warm start",
        "  sd15-thin unet fp16 (ort) ort-cpu  69 MB         -  26.3 s     now           -",
        "    export 25.2 s; fuse-native 1.15 s",
        "  sd15-thin unet fp16 (ort) ort-trt  69 MB   2.11 GB   210 s  partly      3.50 s",
        "    export 25.2 s (cached, made 2026-11-28T10:41Z, cpu-amd-epyc-2c, commit b6db44140419);",
        "    fuse-native 1.15 s (cached, made 2026-11-28T10:41Z, cpu-amd-epyc-2c, commit b6db44140419);",
        "    compile 184 s",
        *LEGEND,
    ]


def test_what_came_from_the_cache_is_shown_where_it_changed_or_where_everything_is_asked_for():
    cached = Artifact(68_968_116, None, (BuildStep("export", 25.2),))
    assert text(report(cached)) == []
    row = "  sd15-thin unet fp16 (ort) ort-cpu  69 MB         -  25.2 s  cached           -"
    assert text(report(cached), every=True)[1:3] == [row, "    export 25.2 s (cached, made nobody knows when)"]
    grown = dataclasses.replace(report(cached), verdicts=judge(report(cached).measurement, LARGER, policy=Policy()))
    assert text(grown)[1] == row


def test_a_component_of_several_cases_is_shown_once():
    built = Artifact(68_968_116, None, now(EXPORT))
    assert text(report(built), report(built)) == text(report(built))
    options = {"engine": "ort-cuda", "engine_options": (("cuda_graph", "on"),)}
    row = "  sd15-thin unet fp16 (ort) 2 engines  69 MB         -  25.2 s   now           -"
    assert text(report(built), report(built, engine="ort-cuda"), report(built, **options))[1:3] == [
        row,
        "    export 25.2 s",
    ]
    assert text(report(built, engine="ort-cuda"), report(built, **options))[1].split("  ")[1] == (
        "sd15-thin unet fp16 (ort) ort-cuda (2 settings)"
    )
    # Not one of these is the same files, or the same compilation.
    for other in (Artifact(70_000_000, None, now(EXPORT)), Artifact(68_968_116, None, now(EXPORT, FUSE))):
        assert len(text(report(built), report(other, engine="ort-cuda"))) == len(text(report(built))) + 2
    elsewhere = dataclasses.replace(EXPORT, name="import")
    for other in (Artifact(68_968_117, None, now(EXPORT)), Artifact(68_968_116, None, now(elsewhere))):
        assert len(text(report(built), report(other, engine="ort-cuda"))) == len(text(report(built))) + 2
    compiled = Artifact(68_968_116, 1_000_000, now(EXPORT, COMPILE))
    assert len(text(report(compiled), report(compiled, engine="torch"))) == len(text(report(compiled))) + 2
    assert len(text(report(built), report(built, optimization="fmha"))) == len(text(report(built))) + 2
