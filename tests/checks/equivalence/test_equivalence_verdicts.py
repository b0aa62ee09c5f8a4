"""What distances in float64 mean."""

from __future__ import annotations

import math

import pytest
from sample_values import case

from pytest_sdperf.checks.equivalence.check import Equivalent, Link
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.values.located import Located, Location
from pytest_sdperf.core.values.outcomes import Outcome

OF = case(engine="", optimization="bias-add", fuser="native")
SOUND = Link("export", "torch module", {"sample": 1.9e-8})


def judged(*links):
    return Equivalent().judge(links, OF, policy=Policy())


def test_what_is_within_the_limit_at_every_link_is_the_same_function():
    verdict = judged(SOUND, Link("build", "export", {"sample": 3.5e-8}))
    assert (verdict.outcome, verdict.code) == (Outcome.PASSED, "same-function")
    assert verdict.sentence == (
        "The unet graph of sd15-thin at bias-add is the function of its torch module: at most 3.50e-08 away in float64 "
        "(limit 1e-07)."
    )


@pytest.mark.parametrize("error", [1.1e-7, 0.5, math.inf, math.nan])
def test_a_link_beyond_the_limit_is_another_function_and_the_first_one_is_named(error):
    verdict = judged(SOUND, Link("build", "export", {"kept": 0.0, "sample": error}))
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-function")
    assert verdict.sentence == (
        f"The build of the unet of sd15-thin at bias-add is another function than its export: sample is {error:.2e} "
        f"away in float64, and at most 1e-07 passes, whatever the precision of the build."
    )
    norm = Location("v", "n_1", "com.microsoft::SkipLayerNormalization", "unet.mid_block.norm", 4e-3, 1e-7)
    for section, words in ((), ""), (("MatMul_1", "n_1"), ", after MatMul_1"):
        begins = Located("unet", "graph", norm, section=section)
        verdict = judged(SOUND, Link("build", "export", {"sample": error}, begins=begins))
        assert verdict.sentence == (
            f"The build of the unet of sd15-thin at bias-add is another function than its export from "
            f"com.microsoft::SkipLayerNormalization n_1 of unet.mid_block.norm on{words}: sample is {error:.2e} away "
            f"in float64, and at most 1e-07 passes, whatever the precision of the build."
        )
    export = judged(Link("export", "torch module", {"sample": 2e-3}), Link("build", "export", {"sample": error}))
    assert export.sentence.startswith("The export of the unet of sd15-thin at bias-add is another function than its ")


def test_what_nobody_can_compute_is_never_called_equal():
    verdict = judged(SOUND, Link("build", "export", {}, unknown="Acme node_1: it has no definition"))
    assert (verdict.outcome, verdict.code) == (Outcome.INCONCLUSIVE, "function-not-known")
    assert verdict.sentence == (
        "The build of the unet of sd15-thin at bias-add was not compared with its export in float64: Acme node_1: it "
        "has no definition."
    )


def test_a_file_that_is_not_the_one_that_was_proven_is_named_with_its_nodes():
    apart = ("Conv node_1 has another input 1", "Add node_2 has another input 0")
    verdict = judged(Link("build", "graph at 128x192", {}, differences=apart), SOUND)
    assert (verdict.outcome, verdict.code) == (Outcome.FAILED, "another-graph")
    assert verdict.sentence == (
        "The build of the unet of sd15-thin at bias-add is not its graph at 128x192, which was proven: Conv node_1 has "
        "another input 1; Add node_2 has another input 0."
    )


def test_its_row_has_the_largest_distance():
    assert Equivalent().row((SOUND, Link("build", "export", {"sample": 3.5e-8}))) == ("3.50e-08", "1e-07")
    assert Equivalent().row((Link("build", "torch module", {"sample": math.nan}),)) == ("inf", "1e-07")
    assert Equivalent().row((Link("build", "torch module", {}, unknown="x"),)) == ("-", "1e-07")
