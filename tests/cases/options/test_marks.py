from __future__ import annotations

import pytest

from pytest_sdperf.cases.options.marks import Marks, read_marks
from pytest_sdperf.core.errors import SdperfError


def marker(*args, **kwargs):
    return pytest.mark.sdperf(*args, **kwargs).mark


def test_a_test_without_a_marker_says_nothing():
    assert read_marks([]) == Marks()


def test_a_single_value_and_a_list_are_alike():
    assert read_marks([marker(models="sd15", engines=["torch"], batch_sizes=4)]) == Marks(
        models=("sd15",), engines=("torch",), batch_sizes=(4,)
    )


def test_the_closest_marker_wins_key_by_key():
    function = marker(models="sd15", tolerances={"latency": 0.1}, reason="a short component is noisy")
    module = marker(models="sdxl", components=["unet"])
    assert read_marks([function, module]) == Marks(
        models=("sd15",), components=("unet",), tolerances={"latency": 0.1}, reason="a short component is noisy"
    )


KEYS = "batch_sizes, components, engines, models, optimizations, reason, shapes, tolerances"
ORDERED = "models, components, engines, optimizations, batch_sizes, shapes, tolerances, reason"


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
            marker(tolerances={"latency": 10.0}, reason="x"),
            ("the marker sdperf got tolerances latency=10.0. Allowed: a fraction above 0 and below 10, such as 0.05."),
        ),
        (
            marker(tolerances=0.05, reason="x"),
            ("the marker sdperf got tolerances=0.05. Allowed: fractions by name, such as {'latency': 0.05}."),
        ),
        (
            marker(tolerances={"latencies": 0.05}, reason="x"),
            (
                "unknown tolerance 'latencies'. Did you mean 'latency'? Known: artifact-size, build-time, "
                "compiled-size, counts, kernels, latency, memory, warm-start."
            ),
        ),
        (marker(reason=""), "the marker sdperf got reason=''. Allowed: a text."),
        (
            marker(tolerances={"memory": 0.05}),
            (
                "the marker sdperf sets tolerances={'memory': 0.05} without a reason. Say why this test differs: "
                "@pytest.mark.sdperf(tolerances={'memory': 0.05}, reason='...')."
            ),
        ),
    ],
)
def test_a_bad_marker_is_answered_with_what_is_allowed(mark, message):
    with pytest.raises(SdperfError) as caught:
        read_marks([mark])
    assert str(caught.value) == message
