"""Masks that exporters write down as numbers: causal where every later key is hidden, with whatever hides."""

from __future__ import annotations

import by_hand
import numpy as np
from by_hand import CLOSE
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from refused_attentions import masked

from pytest_sdperf.fusing.optimizations.fusions.attention import Attention

TOKENS = 6
# The exporters of 2022 hide with exactly this number, and no attention has scores as large.
WEAKEST = -1e4
LATER = np.triu(np.ones((TOKENS, TOKENS), bool), 1)
LEADING = st.sampled_from([(), (1,), (1, 1)])
FLOATS = st.floats(-(2.0**127), WEAKEST, width=32)
HIDING = FLOATS | st.sampled_from([WEAKEST, -65504.0, float(np.finfo(np.float32).min), -np.inf])
FEW = settings(max_examples=40)


def of(numbers, leading):
    return np.where(LATER, numbers, 0).astype(np.float32).reshape(*leading, TOKENS, TOKENS)


@FEW
@given(hnp.arrays(np.float32, LATER.shape, elements=HIDING) | HIDING, LEADING)
def test_what_hides_every_later_key_is_causal_whatever_it_hides_with(numbers, leading):
    mask = of(numbers, leading)
    model = masked(mask)
    by_hand.fuse(model, Attention())
    (node,) = [node for node in model.graph if node.op_type == "MultiHeadAttention"]
    assert node.attributes["unidirectional"].as_int() == 1
    assert not [one for one in model.graph if one.op_type == "Add"]
    assert max(by_hand.errors(lambda: masked(mask), model)) < CLOSE


@FEW
@given(st.floats(np.nextafter(np.float32(WEAKEST), np.float32(0)).item(), -1.0, width=32), st.booleans(), LEADING)
def test_what_hides_a_later_key_less_is_no_causal_mask(number, alone, leading):
    numbers = np.full(LATER.shape, number, np.float32)
    if alone:  # one weak number among strong ones
        numbers[:] = -np.inf
        numbers[0, 1] = number
    sites = by_hand.fuse(masked(of(numbers, leading)), Attention())
    reason = "the mask that is added to its scores is neither causal nor zero"
    assert by_hand.refusals(sites, Attention()) == [("p", "Softmax", reason)]
