"""Verdicts on pictures: every branch, with its whole sentence."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from drawings import drawn
from scipy import ndimage

from pytest_sdperf.checks.semantics.check import compare, compare_reference
from pytest_sdperf.checks.semantics.expected import Expected, Request
from pytest_sdperf.checks.semantics.finding import ReferenceScores, Semantics, Window
from pytest_sdperf.checks.semantics.judging import judge_semantics
from pytest_sdperf.checks.semantics.scoring import score
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.scenes import prompt_scenes
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.outcomes import Outcome

SCENES = prompt_scenes(24)
GOOD = drawn(SCENES)


def scores(images):
    return [score(scene, image) for scene, image in zip(SCENES, images, strict=True)]


def looked(images):
    return compare(SCENES, scores(images), scores(GOOD))


def judged(images):
    verdict = judge_semantics(looked(images))
    return verdict.outcome, verdict.code


def test_pictures_that_show_the_same():
    noise = 0.02 * np.random.default_rng(0).standard_normal(GOOD.shape)
    verdict = judge_semantics(looked(GOOD + noise))
    assert (verdict.outcome, verdict.code) == (Outcome.PASSED, "pictures-as-reference")
    assert verdict.details == ()
    assert (verdict.obtained, verdict.expected) == (1.0, 1.0)


def test_other_pictures_of_the_same_prompts_are_other_pictures():
    """As from other latents, or with another weight of guidance: right and clear, and not the same."""
    assert judged(drawn(SCENES, seed=1)) == (Outcome.FAILED, "pictures-moved")


def test_what_is_moved_by_a_pixel_is_moved():
    assert judged(np.roll(GOOD, 1, axis=3)) == (Outcome.FAILED, "pictures-moved")


# What the pictures of a broken pipeline look like, made of good ones.
FAULTS = {
    "prompt ignored": lambda images: np.roll(images, 1, axis=0),
    "every prompt the same": lambda images: np.repeat(images[:1], len(images), axis=0),
    "noise": lambda images: np.random.default_rng(0).standard_normal(images.shape),
    "black": lambda images: np.full_like(images, -1),
    "not finite": lambda images: images * np.nan,
    "channels exchanged": lambda images: images[:, ::-1],
    "upside down": lambda images: images[:, :, ::-1],
    "mirrored": lambda images: images[:, :, :, ::-1],
    "contrast lost": lambda images: images * 0.18215,
    "contrast too high": lambda images: images / 0.18215,
    "latents shifted": lambda images: np.roll(images, 64, axis=3),
    "a third is noise": lambda images: np.where(
        np.arange(len(images))[:, None, None, None] % 3 == 0,
        np.random.default_rng(0).standard_normal(images.shape),
        images,
    ),
    "blurred": lambda images: ndimage.gaussian_filter(images, (0, 0, 3, 3)),
    "pale": lambda images: images * 0.9,
    "steps missing": lambda images: images + 0.35 * np.random.default_rng(0).standard_normal(images.shape),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_picture_is_worse(fault):
    assert judged(FAULTS[fault](GOOD)) == (Outcome.FAILED, "pictures-worse")


SEMANTICS = Semantics(
    prompts=100,
    right=Window(0.97, 0.98, 0.9, 1.0),
    clearness=Window(0.88, 0.885, 0.86, 0.91),
    shift=Window(0.03, 0.0, 0.0, 0.5),
    wrong={"shape": 2, "colour": 1},
    lost=("a small red circle above a small blue square on a white background",),
)


def told(**windows):
    changes = {name: dataclasses.replace(getattr(SEMANTICS, name), **changed) for name, changed in windows.items()}
    verdict = judge_semantics(dataclasses.replace(SEMANTICS, **changes))
    return verdict.outcome, verdict.code, verdict.sentence


def test_what_is_inside_both_windows_is_held():
    assert told() == (
        Outcome.PASSED,
        "pictures-as-reference",
        (
            "97 of 100 pictures show what their prompts say, of the reference 98 (window 90 to 100); clearness 0.880 "
            "against 0.885 (window 0.860 to 0.910); things 0.03 pixels from where the reference has them (at most 0.5)."
        ),
    )


def test_fewer_right_pictures():
    assert told(right={"obtained": 0.8}) == (
        Outcome.FAILED,
        "pictures-worse",
        (
            "80 of 100 pictures show what their prompts say, of the reference 98 (window 90 to 100: OUTSIDE); "
            "clearness 0.880 against 0.885 (window 0.860 to 0.910); things 0.03 pixels from where the reference has "
            "them (at most 0.5)."
        ),
    )


def test_less_clear_pictures():
    assert told(clearness={"obtained": 0.8})[:2] == (Outcome.FAILED, "pictures-worse")


@pytest.mark.parametrize("shift", [0.51, float("nan")])
def test_things_that_stand_elsewhere(shift):
    outcome, code, sentence = told(shift={"obtained": shift})
    assert (outcome, code) == (Outcome.FAILED, "pictures-moved")
    assert sentence == (
        f"97 of 100 pictures show what their prompts say, of the reference 98 (window 90 to 100); clearness 0.880 "
        f"against 0.885 (window 0.860 to 0.910); things {shift:.2f} pixels from where the reference has them (at most "
        f"0.5: OUTSIDE)."
    )


@pytest.mark.parametrize("windows", [{"right": {"obtained": 1.0, "high": 0.99}}, {"clearness": {"obtained": 0.95}}])
def test_what_is_better_than_chance_allows_is_another_picture(windows):
    assert told(**windows)[:2] == (Outcome.FAILED, "pictures-better")


def test_a_score_that_is_no_number_is_outside():
    assert told(clearness={"obtained": float("nan")})[:2] == (Outcome.FAILED, "pictures-worse")


def test_a_reference_that_draws_nothing_tells_nothing():
    assert told(right={"reference": 0.02, "low": 0.0, "obtained": 0.0}) == (
        Outcome.INCONCLUSIVE,
        "reference-not-understood",
        (
            "The reference itself draws 2 of 100 prompts right, so no picture could be told from a wrong one. Draw "
            "more prompts with --sdperf-prompts, or take the weights that come with the model."
        ),
    )


def test_what_is_lost_is_listed():
    many = dataclasses.replace(
        SEMANTICS, right=dataclasses.replace(SEMANTICS.right, obtained=0.5), lost=tuple(f"scene {n}" for n in range(7))
    )
    assert judge_semantics(many).details == (
        "not as said: shape in 2, colour in 1",
        "lost: scene 0",
        "lost: scene 1",
        "lost: scene 2",
        "lost: scene 3",
        "lost: scene 4",
        "and 2 more",
    )


THEN = {"torch": "2.13.0+cpu", "diffusers": "0.42.1"}
NOW = {"torch": "2.13.0+cpu", "diffusers": "0.43.0"}
REFERENCE = ReferenceScores(
    right=Window(1.0, 1.0, 0.95, 1.0),
    clearness=Window(0.907, 0.908, 0.894, 0.921),
    shift=Window(0.02, 0.0, 0.0, 0.5),
    versions=NOW,
    stored_versions=THEN,
)


def told_of(versions=NOW, **windows):
    changes = {name: dataclasses.replace(getattr(REFERENCE, name), **changed) for name, changed in windows.items()}
    reference = dataclasses.replace(REFERENCE, versions=versions, **changes)
    verdict = judge_semantics(dataclasses.replace(SEMANTICS, reference=reference))
    return verdict.outcome, verdict.code, verdict.sentence


def test_a_reference_that_draws_as_it_did_is_no_reason():
    assert told_of() == told()


def test_a_reference_that_draws_fewer_right_than_it_did_is_wrong_though_the_engine_agrees_with_it():
    assert told_of(right={"obtained": 0.6}, clearness={"obtained": 0.7}, shift={"obtained": 3.2}) == (
        Outcome.INVALID,
        "reference-wrong",
        (
            "The reference is wrong, so that what agrees with it tells nothing: torch in float32 draws 60 of 100 "
            "pictures as their prompts say, where these weights drew 100 when they were stored (window 95 to 100: "
            "OUTSIDE); clearness 0.700 against 0.908 (window 0.894 to 0.921: OUTSIDE); things 3.20 pixels from where "
            "they were then (at most 0.5: OUTSIDE). Now there is diffusers 0.43.0 instead of 0.42.1; to draw as then, "
            "type: pip install diffusers==0.42.1"
        ),
    )


def test_a_reference_that_moved_things_is_wrong_though_all_is_right():
    outcome, code, sentence = told_of({**THEN}, shift={"obtained": 1.45})
    assert (outcome, code) == (Outcome.INVALID, "reference-wrong")
    assert sentence == (
        "The reference is wrong, so that what agrees with it tells nothing: torch in float32 draws 100 of 100 pictures "
        "as their prompts say, where these weights drew 100 when they were stored (window 95 to 100); clearness 0.907 "
        "against 0.908 (window 0.894 to 0.921); things 1.45 pixels from where they were then (at most 0.5: OUTSIDE). "
        "The libraries are those of then (torch 2.13.0+cpu, diffusers 0.42.1); type `sdperf doctor` to see what else "
        "is installed."
    )


def test_libraries_of_another_build_are_named_as_pip_knows_them():
    sentence = told_of({"diffusers": "0.42.1"}, shift={"obtained": 1.45})[2]
    assert sentence.endswith(
        "Now there is torch missing instead of 2.13.0+cpu; to draw as then, type: pip install torch==2.13.0"
    )


def test_a_reference_that_draws_nothing_where_it_drew_everything_is_wrong_and_not_inconclusive():
    nothing = {"reference": 0.0, "low": 0.0, "obtained": 0.0}
    semantics = dataclasses.replace(SEMANTICS, right=dataclasses.replace(SEMANTICS.right, **nothing))
    reference = dataclasses.replace(REFERENCE, right=dataclasses.replace(REFERENCE.right, obtained=0.0))
    assert judge_semantics(semantics).code == "reference-not-understood"
    assert judge_semantics(dataclasses.replace(semantics, reference=reference)).code == "reference-wrong"


@pytest.mark.parametrize("fault", FAULTS)
def test_what_reference_and_engine_draw_wrongly_alike_is_not_held(fault):
    """Both sides draw with the same libraries: their pictures agree, whatever these do."""
    wrong, good = scores(FAULTS[fault](GOOD)), tuple(scores(GOOD))
    alike = compare(SCENES, wrong, wrong)
    stored = Expected(Request("", 20, "ddim"), THEN, good)
    verdict = judge_semantics(dataclasses.replace(alike, reference=compare_reference(wrong, stored)))
    assert (verdict.outcome, verdict.code) == (Outcome.INVALID, "reference-wrong")


def test_it_travels_as_json():
    for semantics in (SEMANTICS, dataclasses.replace(SEMANTICS, reference=REFERENCE)):
        assert convert(to_json(semantics), Semantics) == semantics
    without = {name: value for name, value in to_json(SEMANTICS).items() if name != "reference"}
    assert convert(without, Semantics) == SEMANTICS
