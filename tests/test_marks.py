from __future__ import annotations

import pytest

from pytest_sdperf.errors import SdperfError
from pytest_sdperf.options.marks import Marks, read_marks


def marker(*args, **kwargs):
    return pytest.mark.sdperf(*args, **kwargs).mark


def test_a_test_without_a_marker_says_nothing():
    assert read_marks([]) == Marks()


def test_a_single_value_and_a_list_are_alike():
    assert read_marks([marker(models="sd15", engines=["torch"], batch_sizes=4)]) == Marks(
        models=("sd15",), engines=("torch",), batch_sizes=(4,)
    )


def test_the_closest_marker_wins_key_by_key():
    function = marker(models="sd15", min_effect=0.1, reason="a short component is noisy")
    module = marker(models="sdxl", components=["unet"])
    assert read_marks([function, module]) == Marks(
        models=("sd15",), components=("unet",), min_effect=0.1, reason="a short component is noisy"
    )


KEYS = "batch_sizes, components, engines, min_effect, models, optimizations, reason"
ORDERED = "models, components, engines, optimizations, batch_sizes, min_effect, reason"


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (
            marker(model="sd15"),
            (f"unknown argument of the marker sdperf: 'model'. Did you mean 'models'? Known: {KEYS}."),
        ),
        (
            marker("sd15"),
            (
                f"the marker sdperf takes no positional arguments, but got 'sd15'. Allowed: {ORDERED}; type "
                f"for example @pytest.mark.sdperf(engines='torch')."
            ),
        ),
        (marker(models=15), "the marker sdperf got models=15. Allowed: one of, or a list of, texts."),
        (marker(models=[]), "the marker sdperf got models=[]. Allowed: one of, or a list of, texts."),
        (marker(batch_sizes=[0]), "the marker sdperf got batch_sizes=[0]. Allowed: whole numbers from 1."),
        (
            marker(batch_sizes="4"),
            ("the marker sdperf got batch_sizes='4'. Allowed: one of, or a list of, whole numbers from 1."),
        ),
        (
            marker(min_effect=2, reason="x"),
            ("the marker sdperf got min_effect=2. Allowed: a fraction above 0 and below 1, such as 0.05."),
        ),
        (marker(reason=""), "the marker sdperf got reason=''. Allowed: a text."),
        (
            marker(min_effect=0.05),
            (
                "the marker sdperf sets min_effect=0.05 without a reason. Say why this test differs: "
                "@pytest.mark.sdperf(min_effect=0.05, reason='...')."
            ),
        ),
    ],
)
def test_a_bad_marker_is_answered_with_what_is_allowed(mark, message):
    with pytest.raises(SdperfError) as caught:
        read_marks([mark])
    assert str(caught.value) == message
