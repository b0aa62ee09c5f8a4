from __future__ import annotations

from collections import Counter

import pytest

from pytest_sdperf.core.scenes import BACKGROUNDS, COLOURS, RELATIONS, SHAPES, WORDS, all_scenes, prompt_scenes


def test_every_scene_is_there_once():
    scenes = all_scenes()
    assert len(scenes) == len(set(scenes)) == (2 * 6 * 4) * (2 * 5 * 4) * 3 * 4


def test_a_caption_says_all_of_its_scene():
    captions = {scene.caption for scene in all_scenes()}
    assert len(captions) == len(all_scenes())
    assert "a large red circle left of a small blue square on a white background" in captions


def test_the_words_of_captions_are_known():
    assert {word for scene in all_scenes() for word in scene.caption.split()} == set(WORDS)


def test_the_fixed_prompts_stay_as_they_are():
    first, second, third = prompt_scenes(3)
    assert first.caption == "a small red circle left of a small green circle on a white background"
    assert second.caption == "a large green square below a large blue triangle on a black background"
    assert third.caption == "a small blue cross above a small purple square on a white background"


@pytest.mark.parametrize("count", [12, 24, 100])
def test_the_first_prompts_are_a_mixture(count):
    scenes = prompt_scenes(count)
    assert len(set(scenes)) == count
    for names, said in (
        (RELATIONS, [scene.relation for scene in scenes]),
        (BACKGROUNDS, [scene.background for scene in scenes]),
        (SHAPES, [thing.shape for scene in scenes for thing in (scene.first, scene.second)]),
        (COLOURS, [thing.colour for scene in scenes for thing in (scene.first, scene.second)]),
    ):
        counts = Counter(said)
        assert set(counts) == set(names)
        assert min(counts.values()) * len(names) >= 0.5 * len(said)


@pytest.mark.parametrize("count", [0, -1, 101])
def test_a_number_of_prompts_that_there_is_not(count):
    with pytest.raises(ValueError) as raised:
        prompt_scenes(count)
    assert str(raised.value) == (f"{count} prompts of the fixed list, which has 100; give a number from 1 to it")
