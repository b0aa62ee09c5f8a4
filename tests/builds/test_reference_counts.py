"""What the tests to come need of the cache, and what goes when the last of them is over."""

from __future__ import annotations

import dataclasses

import pytest
from door_toys import toy_catalog
from hypothesis import given
from hypothesis import strategies as st
from sample_values import case

from pytest_sdperf.builds.reference_counts import ReferenceCounts

UNET = case(model="sd15-thin", component="unet", engine="ort-cpu", optimization="fp16", fuser="native")
TEXT, WHOLE = (dataclasses.replace(UNET, component=name) for name in ("text_encoder", "pipeline"))
FMHA = dataclasses.replace(UNET, optimization="fmha")
LARGER = dataclasses.replace(UNET, batch_size=4)
TORCH = dataclasses.replace(UNET, engine="torch", fuser="", exporter="", opset=0, shapes="")


def asked(holds, of, *keys):
    with holds.about(of):
        for key in keys:
            holds.note(key)


def freed(*cases):
    """Return what goes after the test of each case, each of which asks for all its builds."""
    holds = ReferenceCounts(toy_catalog())
    holds.expect(cases)
    found = []
    for of in cases:
        part = of.component
        graph = f"{part}{of.batch_size}"
        keys = [f"weights-{part}"]
        if of.exporter:
            keys += [f"export-{graph}", f"fuse-native-{graph}{of.optimization}", f"compile-{graph}{of.optimization}"]
        asked(holds, of, *keys)
        found.append(sorted(holds.finished(of)))
    return found


def test_a_build_goes_with_the_last_test_that_may_use_it():
    assert freed(UNET, UNET, FMHA) == [
        [],
        ["compile-unet1fp16", "fuse-native-unet1fp16"],
        ["compile-unet1fmha", "export-unet1", "fuse-native-unet1fmha", "weights-unet"],
    ]


def test_weights_outlive_the_graphs_made_of_them_while_torch_still_needs_them():
    assert freed(UNET, TORCH) == [
        ["compile-unet1fp16", "export-unet1", "fuse-native-unet1fp16"],
        ["weights-unet"],
    ]


def test_another_batch_size_has_its_own_graphs():
    assert freed(UNET, LARGER)[0] == ["compile-unet1fp16", "export-unet1", "fuse-native-unet1fp16"]


def test_a_request_needs_what_its_components_are_made_of():
    holds = ReferenceCounts(toy_catalog())
    holds.expect([TEXT, WHOLE])
    asked(holds, TEXT, "weights-t")
    assert holds.finished(TEXT) == frozenset()
    asked(holds, WHOLE, "weights-t", "weights-u")
    assert holds.finished(WHOLE) == {"weights-t", "weights-u"}


def test_what_is_built_ahead_belongs_to_its_case_too():
    holds = ReferenceCounts(toy_catalog())
    holds.expect([UNET, FMHA])
    asked(holds, FMHA, "export-u", "fuse-native-f")
    assert holds.finished(UNET) == frozenset()
    assert holds.finished(FMHA) == {"export-u", "fuse-native-f"}


@pytest.mark.parametrize("key", ["reference-a", "tokenizers-a", "expect-a", "work-a", "plain-pipeline-a"])
def test_what_is_small_or_takes_long_to_make_stays(key):
    holds = ReferenceCounts(toy_catalog())
    holds.expect([UNET])
    asked(holds, UNET, key)
    assert holds.finished(UNET) == frozenset()


def test_what_nobody_asked_for_in_a_test_stays():
    holds = ReferenceCounts(toy_catalog())
    holds.expect([UNET])
    holds.note("weights-u")
    assert holds.finished(UNET) == frozenset()


def test_where_nobody_said_which_tests_come_nothing_goes():
    holds = ReferenceCounts(toy_catalog())
    asked(holds, UNET, "weights-u")
    assert holds.finished(UNET) == frozenset()


@given(st.lists(st.sampled_from([UNET, TEXT, WHOLE, FMHA, LARGER, TORCH]), min_size=1, max_size=8))
def test_nothing_goes_that_a_test_to_come_asks_for_and_everything_goes_in_the_end(cases):
    holds = ReferenceCounts(toy_catalog())
    holds.expect(cases)
    keys = {of: key_of(of) for of in cases}
    gone, ever = set(), set()
    for number, of in enumerate(cases):
        asked(holds, of, *keys[of])
        ever |= keys[of]
        free = holds.finished(of)
        later = set().union(*(keys[other] for other in cases[number + 1 :]))
        assert not free & later
        gone |= free
    assert gone == ever


def key_of(of):
    parts = ("text_encoder", "unet") if of.component == "pipeline" else (of.component,)
    found = set()
    for part in parts:
        found.add(f"weights-{part}")
        if of.exporter:
            found |= {f"export-{part}{of.batch_size}", f"fuse-native-{part}{of.batch_size}{of.optimization}"}
    return found
