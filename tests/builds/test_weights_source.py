from __future__ import annotations

import os

import pytest

from pytest_sdperf.builds.weights_source import Drawn, Folder, Nothing, find_source
from pytest_sdperf.core.errors import WeightsError


def test_random_weights_come_from_seed_zero():
    assert find_source("random") == Drawn(0)
    assert Drawn(0).parts() == {"seed": 0}
    assert Drawn(0).arguments() == {"folder": None, "seed": 0}


def test_no_weights_can_be_written():
    source = find_source("none")
    assert source == Nothing()
    assert source.parts() == {"weights": "none"} != Drawn(0).parts()
    with pytest.raises(WeightsError) as raised:
        source.arguments()
    assert str(raised.value) == (
        "--sdperf-weights=none builds graphs without weights, and weights were asked for. Leave --sdperf-weights out, "
        "or only look at graphs."
    )


def test_a_folder_is_known_by_its_files(tmp_path):
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text("{}")
    os.utime(tmp_path / "unet" / "config.json", ns=(5, 7))
    source = find_source(str(tmp_path))
    assert source == Folder(tmp_path)
    assert source.parts() == {"files": [["unet/config.json", 2, 7]]}
    assert source.arguments() == {"folder": tmp_path}


@pytest.mark.parametrize("given", ["nothing", "rnadom", "./missing/folder/x"])
def test_neither_folder_nor_hub_id(given):
    with pytest.raises(WeightsError) as raised:
        find_source(given)
    assert str(raised.value) == (
        f"--weights={given} is neither 'random', nor 'none', nor an existing folder, nor a hub id (OWNER/NAME). Give "
        f"the folder of a diffusers pipeline, which holds unet, vae, text_encoder, ..."
    )


def test_a_hub_id_is_fetched_without_pickles(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []

    def download(hub_id, **options):
        asked.append((hub_id, options))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.setattr("pytest_sdperf.builds.weights_source.hub_revision", lambda hub_id: "c0ffee")
    assert find_source("owner/name") == Folder(tmp_path)
    assert asked == [
        (
            "owner/name",
            {
                "revision": "c0ffee",
                "allow_patterns": ["*.json", "*/*.json", "*/*.safetensors", "*/merges.txt"],
                "ignore_patterns": ["*.fp16.safetensors", "*.non_ema.safetensors"],
            },
        )
    ]


def test_a_hub_id_that_cannot_be_fetched(monkeypatch):
    import huggingface_hub

    def refuse(hub_id, **options):
        raise OSError("Cannot reach the hub\nmore lines")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", refuse)
    monkeypatch.setattr("pytest_sdperf.builds.weights_source.hub_revision", lambda hub_id: "c0ffee")
    with pytest.raises(WeightsError) as raised:
        find_source("owner/name")
    assert str(raised.value) == (
        "--weights=owner/name is no local folder and could not be fetched from the Hugging Face hub: Cannot reach the "
        "hub. Check the name and the network, or give a local folder."
    )
