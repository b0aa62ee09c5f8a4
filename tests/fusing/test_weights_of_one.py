"""Weights that change nothing, as fresh modules have them (1 to scale, 0 to shift): they are fused as any others."""

from __future__ import annotations

import by_hand
import numpy as np
import pytest
import rewriting
from by_hand import CLOSE, GROUP_NORM, group_norm, parts

from pytest_sdperf.fusing.optimizations.fusions.group_norm import GroupNorm
from pytest_sdperf.fusing.optimizations.fusions.layer_norm import LayerNormalization

# Below, at and above the 64 elements up to which a fuser looks into a constant.
CHANNELS = (32, 64, 128, 256)
FRESH = {"gamma": np.ones, "beta": np.zeros}
# How an exporter hands the weights on -> the lines that it writes and the shape that it stores.
FORMS = {
    "torchscript": ({}, (-1, 1, 1)),
    "torchscript, shared by several norms": ({"g": "Identity(gamma)", "o": "Identity(beta)"}, (-1, 1, 1)),
    "dynamo": ({"g": "Unsqueeze(gamma, axes)", "o": "Unsqueeze(beta, axes)"}, (-1,)),
}


def drawn(name, size):
    return by_hand.draw((size,), name)


def fresh(name, size):
    return FRESH[name](size, np.float32)


def norm_of_images(channels, form, make):
    lines, shape = FORMS[form]
    sizes = {name: make(name, channels).reshape(shape) for name in FRESH}
    read = {"scaled": "Mul(joined, g)", "shifted": "Add(scaled, o)"} if lines else {}
    image = f"float[N, {channels}, H, W]"
    weights = {**sizes, "axes": np.array([1, 2])}
    return group_norm(f"{image} x", f"{image} y", weights, lines={**lines, **GROUP_NORM, **read})


@pytest.mark.parametrize("make", [drawn, fresh])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_a_norm_of_images_is_fused_whatever_its_weights_are(channels, form, make):
    model = norm_of_images(channels, form, make)
    sites = by_hand.fuse(model, GroupNorm())
    assert by_hand.refusals(sites, GroupNorm()) == []
    counts = rewriting.counts(model)
    assert (counts["com.microsoft::GroupNorm"], counts["InstanceNormalization"], counts["Sigmoid"]) == (1, 0, 0)
    assert max(by_hand.errors(lambda: norm_of_images(channels, form, make), model)) < CLOSE


@pytest.mark.parametrize("make", [drawn, fresh])
@pytest.mark.parametrize("channels", CHANNELS)
def test_a_norm_of_sequences_that_was_taken_apart_is_too(channels, make):
    def build():
        sequence = f"float[N, S, {channels}]"
        return parts(f"{sequence} x", f"{sequence} y", {name: make(name, channels) for name in FRESH})

    model = build()
    by_hand.fuse(model, LayerNormalization())
    counts = rewriting.counts(model)
    assert (counts["LayerNormalization"], counts["ReduceMean"]) == (1, 0)
    assert max(by_hand.errors(build, model)) < CLOSE
