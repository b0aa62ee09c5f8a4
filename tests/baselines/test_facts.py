"""Facts in files: known ones have their types and no number below 0, and what nobody knows is kept."""

from __future__ import annotations

import pytest
from sample_values import sample_with

from pytest_sdperf.baselines.facts import check_facts


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"memcpy_nodes": -1}, "Expected `int` >= 0 - at `$.samples[0].facts.memcpy_nodes`"),
        ({"waited": -0.5}, "Expected `float` >= 0.0 - at `$.samples[0].facts.waited`"),
        ({"stages_s": {"unet": [0.1, -0.1]}}, "Expected `float` >= 0.0 - at `$.samples[0].facts.stages_s.unet[1]`"),
        (
            {"components": {"unet": {"placement": {"A provider\n": -1}}}},
            'Expected `int` >= 0 - at `$.samples[0].facts.components.unet.placement["A provider\\n"]`',
        ),
        ({"threads": 4}, "Expected `str`, got `int` - at `$.samples[0].facts.threads`"),
        (
            {"energy": {"calls": 2, "seconds": 1.0, "joules_per_call": 3.0}},
            "Object missing required field `watts` - at `$.samples[0].facts.energy`",
        ),
        (
            {"energy": {"calls": 2, "seconds": 1.0, "watts": 3.0}},
            "Object missing required field `joules_per_call` - at `$.samples[0].facts.energy`",
        ),
        ({"own": [1]}, "Expected `object`, got `array` - at `$.samples[0].facts.own`"),
    ],
)
def test_facts_that_nothing_can_be_judged_by_are_refused_with_their_place(facts, message):
    with pytest.raises(ValueError) as caught:
        check_facts([sample_with(**facts)], "$.samples")
    assert str(caught.value) == message


def test_an_engine_tells_what_it_likes_as_its_own_and_so_does_another_version():
    check_facts([sample_with(own={"degrees": -3.5, "sites": ["a", 1]}, of_another_version=-1)], "$.samples")
