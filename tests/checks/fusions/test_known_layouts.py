"""The stored counts of onnxruntime's optimizer: what it makes passes, and one transpose more fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_values import case, known, operators
from zoo_targets import budgets, expected

from pytest_sdperf.baselines.counts import read
from pytest_sdperf.checks.fusions.target import judge_against_target
from pytest_sdperf.core.values.outcomes import Outcome

CONV, LAYOUT = "com.microsoft::NhwcConv", "::Transpose"
STORED = read(Path(__file__).parents[3] / "baselines/fusions/onnxruntime-1.32.json")
# Every operator is there, and more transposes than the module needs.
WHOLE = "model=sd15 component=unet optimization=bias-add fuser=ort exporter=torchscript opset=18 shapes=static"


def judged(key, **changed):
    words = dict(word.split("=") for word in key.split())
    name, selection = f"torch-2.13/sd15-thin-{words['component']}-", words["optimization"]
    build = case(
        engine="", component=words["component"], optimization=selection, fuser="ort", exporter=words["exporter"]
    )
    counts = {**STORED[key], **{name.replace("transposes", LAYOUT): nodes for name, nodes in changed.items()}}
    found = operators(counts, expected(name, selection)[0], budgets=budgets(name, selection))
    return judge_against_target(build, found, known=known(STORED[key]))


def test_they_are_stored_wherever_there_are_channels_last_convolutions():
    assert [key for key, counts in STORED.items() if CONV in counts] == [
        key for key, counts in STORED.items() if LAYOUT in counts
    ]


@pytest.mark.parametrize("key", [key for key, counts in STORED.items() if CONV in counts])
def test_what_is_known_passes_and_one_more_does_not(key):
    most = STORED[key][LAYOUT]
    assert judged(key).outcome is Outcome.GAP
    lost = judged(key, transposes=most + 1)
    assert (lost.outcome, lost.sentence.partition(" lost ")[2]) == (
        Outcome.REGRESSED,
        f"operators: {most + 1} Transpose left (at most {most}).",
    )


def test_a_layout_that_cancels_as_far_as_the_module_allows_is_better_than_known():
    assert judged(WHOLE).sentence == (
        "The unet graph of sd15-thin at bias-add, fused by ort, lacks operators that its torch module allows, as it is "
        "known to: 74 Transpose left (at most 2)."
    )
    better = judged(WHOLE, transposes=2)
    assert better.outcome is Outcome.IMPROVED
    assert better.sentence == (
        "The unet graph of sd15-thin at bias-add, fused by ort, has more operators than known: Transpose 2 instead of "
        "74."
    )
