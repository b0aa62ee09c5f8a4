from __future__ import annotations

import hashlib

import pytest

from pytest_sdperf.errors import WeightsError
from pytest_sdperf.weights import identify_weights


@pytest.fixture
def folder(tmp_path):
    for component in ("unet", "vae"):
        (tmp_path / component).mkdir()
        (tmp_path / component / "diffusion_pytorch_model.safetensors").write_bytes(component.encode())
    return tmp_path


def test_random_weights_are_named_by_their_seed():
    assert identify_weights("random") == "random-0"


def test_no_weights_are_named_so():
    assert identify_weights("none") == "none"


def test_a_folder_is_named_by_its_content_alone(folder, tmp_path_factory):
    identity = identify_weights(str(folder))
    assert len(identity) == 12
    (folder / "model_index.json").write_text("{}")
    copy = tmp_path_factory.mktemp("elsewhere") / "copy"
    folder.rename(copy)
    assert identify_weights(str(copy)) == identity
    (copy / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(b"other")
    assert identify_weights(str(copy)) != identity


def test_the_names_of_the_hub_cache_save_reading_and_agree_with_it(folder):
    expected = identify_weights(str(folder))
    (folder / "blobs").mkdir()
    for component in ("unet", "vae"):
        file = folder / component / "diffusion_pytorch_model.safetensors"
        blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
        file.rename(blob)
        file.symlink_to(blob)
    assert identify_weights(str(folder)) == expected


def test_a_folder_without_safetensors_is_refused(tmp_path):
    with pytest.raises(WeightsError) as caught:
        identify_weights(str(tmp_path))
    assert str(caught.value) == (
        f"weights folder {tmp_path} holds no safetensors files in its sub-folders. Give a diffusers folder (one "
        "sub-folder per component); convert pickles with pipe.save_pretrained(folder, safe_serialization=True)."
    )
