from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_files import MODELS
from transformers import CLIPTokenizer

from pytest_sdperf.core.scenes import all_scenes

PROMPT = "a photo of an Astronaut riding a horse on mars, 4k"


@pytest.fixture(scope="module")
def thin(tmp_path_factory) -> CLIPTokenizer:
    folder = tmp_path_factory.mktemp("tokenizers")
    assert MODELS["sd15-thin"].write_tokenizers(folder, weights=None) == ("tokenizer",)
    tokenizer: CLIPTokenizer = CLIPTokenizer.from_pretrained(str(folder / "tokenizer"))
    return tokenizer


def ids_of(tokenizer: CLIPTokenizer, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, padding="max_length", max_length=77, truncation=True).input_ids
    return ids


@given(text=st.text(max_size=400))
@settings(max_examples=100)
def test_any_text_becomes_ids_of_the_embedding(thin, text):
    ids = ids_of(thin, text)
    assert len(ids) == 77
    assert ids[0] == 1022
    assert ids[-1] == 1023
    assert max(ids) == 1023
    assert min(ids) >= 0


def test_a_prompt_is_read_back(thin):
    assert thin.decode(ids_of(thin, PROMPT), skip_special_tokens=True) == (
        "a photo of an astronaut riding a horse on mars , 4 k"
    )


@pytest.mark.parametrize(("name", "pads"), [("sd15", {49407}), ("sd21", {0}), ("sdxl", {49407, 0})])
def test_a_full_vocabulary_has_the_released_layout(name, pads, tmp_path):
    folders = MODELS[name].write_tokenizers(tmp_path, weights=None)
    found = set()
    for folder in folders:
        tokenizer = CLIPTokenizer.from_pretrained(str(tmp_path / folder))
        assert len(tokenizer) == 49408
        ids = ids_of(tokenizer, PROMPT)
        assert ids[0] == 49406
        assert 49407 in ids
        assert tokenizer.model_max_length == 77
        found.add(ids[-1])
    assert found == pads


def test_words_that_a_model_names_are_one_token_each(tmp_path):
    MODELS["shapes"].write_tokenizers(tmp_path, weights=None)
    tokenizer = CLIPTokenizer.from_pretrained(str(tmp_path / "tokenizer"))
    assert len(tokenizer) == 640
    for scene in all_scenes()[::97]:
        words = scene.caption.split()
        ids = tokenizer(scene.caption).input_ids
        assert [tokenizer.decode([one]) for one in ids[1:-1]] == words
        assert len({*ids}) == len({*words}) + 2


def test_a_folder_with_tokenizers_provides_them(tmp_path):
    source = tmp_path / "pipe"
    MODELS["sdxl-thin"].write_tokenizers(source, weights=None)
    config = source / "tokenizer" / "tokenizer_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "mark": "from the folder"}))
    for file in (source / "tokenizer_2").iterdir():
        file.unlink()
    target = tmp_path / "written"
    assert MODELS["sdxl-thin"].write_tokenizers(target, weights=source) == ("tokenizer", "tokenizer_2")
    assert read_config(target / "tokenizer")["mark"] == "from the folder"
    assert read_config(target / "tokenizer_2")["pad_token"] == "!"


def read_config(folder: Path) -> dict[str, str]:
    config: dict[str, str] = json.loads((folder / "tokenizer_config.json").read_text())
    return config
