"""What is stored of the pictures of the shipped weights, and that it is theirs."""

from __future__ import annotations

import pytest
from drawings import TRAINING

from pytest_sdperf.builds.weights_identity import weights_identity
from pytest_sdperf.checks.semantics.check import compare_reference
from pytest_sdperf.checks.semantics.expected import Request, expected, expected_of
from pytest_sdperf.checks.semantics.scoring import score
from pytest_sdperf.core.scenes import prompt_scenes
from pytest_sdperf.models.shapes import SHAPES


def test_it_is_of_the_weights_in_the_package_and_of_every_prompt():
    stored = expected()
    assert stored.request == Request(weights_identity(str(SHAPES.trained)), SHAPES.steps, SHAPES.scheduler)
    assert len(stored.scores) == len(prompt_scenes()) == 100
    assert [one.wrong for one in stored.scores] == [()] * 100
    assert all(len(one.places) == 2 for one in stored.scores)
    assert 0.90 < sum(one.clearness for one in stored.scores) / 100 < 0.92
    assert set(stored.versions) == {"torch", "diffusers", "transformers"}


def test_of_another_request_nothing_is_known():
    request = expected().request
    assert expected_of(request) is expected()
    for other in (
        Request("folder-of-mine", request.steps, request.scheduler),
        Request(request.weights, 50, request.scheduler),
        Request(request.weights, request.steps, "pndm"),
    ):
        assert expected_of(other) is None


def test_the_stored_scores_are_inside_their_own_windows():
    for count in (1, 4, 8, 24, 100):
        reference = compare_reference(expected().scores[:count], expected())
        assert [window.inside for window in reference.windows] == [True] * 3


@pytest.mark.slow
def test_diffusers_draws_today_what_is_stored(monkeypatch):
    """All hundred take three minutes; the first four tell the scheduler, the models and the reader of images."""
    monkeypatch.syspath_prepend(str(TRAINING))
    from expecting import draw

    assert SHAPES.trained is not None
    scores = [score(scene, image) for scene, image in zip(prompt_scenes(4), draw(SHAPES.trained, count=4), strict=True)]
    reference = compare_reference(scores, expected())
    assert all(window.inside for window in reference.windows), reference
    assert reference.shift.obtained < 0.1
