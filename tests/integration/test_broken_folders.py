"""Folders that cannot be used: what the user is told, whole, and how the run ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from user_project import SPEED_TEST

pytestmark = pytest.mark.slow


@pytest.fixture
def full_disk(tmp_path):
    folder = tmp_path / "full"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    try:
        mounted = sys.platform == "linux" and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only a user who may mount a file system can have a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_of_the_cache(acme, full_disk):
    result = acme.run(f"--sdperf-cache-dir={full_disk}", "--sdperf-model=dense-heavy")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    assert acme.failures() == [
        (
            f"the disk of the cache folder {full_disk} is full: No space left on device. Make room with `sdperf cache "
            f"prune`, or choose another folder with --sdperf-cache-dir=FOLDER."
        )
    ]
    assert not list((full_disk / "entries").iterdir())


def test_a_cache_folder_that_is_a_file(acme):
    (acme.path / "cache").write_text("")
    result = acme.run("--sdperf-cache-dir=cache")
    assert result.ret == 4
    assert result.errlines == [
        (
            f"ERROR: the cache folder {acme.path / 'cache'} cannot be made: File exists. Choose another folder with "
            f"--sdperf-cache-dir=FOLDER."
        ),
        "",
    ]


def test_a_read_only_cache_folder_still_serves_what_it_holds(acme, tmp_path):
    cache = tmp_path / "cache"
    assert acme.run(f"--sdperf-cache-dir={cache}").ret == 0
    bind = ["mount", "--bind", "-o", "ro", str(cache), str(cache)]
    if sys.platform != "linux" or subprocess.run(bind, capture_output=True, check=False).returncode:
        pytest.skip("only a user who may mount a file system can make a folder read-only for root")
    try:
        assert acme.run(f"--sdperf-cache-dir={cache}").ret == 0
        result = acme.run(f"--sdperf-cache-dir={cache}", "--sdperf-model=dense-heavy")
    finally:
        subprocess.run(["umount", str(cache)], check=True)
    assert result.ret == 1
    assert acme.failures() == [
        (
            f"the cache folder {cache} cannot be written: Read-only file system. Make it writable, or choose another "
            f"folder with --sdperf-cache-dir=FOLDER."
        )
    ]


def test_a_weights_folder_that_lacks_a_component_or_holds_pickles(user):
    tests = SPEED_TEST.replace('components=["unet"]', 'components=["text_encoder", "unet"]')
    user.project(tests=tests, options={"model": "sd15-thin", "engine": "torch"})
    folder = user.path / "weights"
    pickle = folder / "unet" / "diffusion_pytorch_model.bin"
    pickle.parent.mkdir(parents=True)
    pickle.write_bytes(b"")
    result = user.run("--sdperf-weights=weights")
    result.assert_outcomes(failed=2)
    assert result.ret == 1
    assert user.failures() == [
        (
            f"weights folder {folder} has no sub-folder 'text_encoder'; it has: unet. Give a diffusers folder (one "
            "sub-folder per component) to --weights."
        ),
        (
            f"{folder}/unet holds only pickles (diffusion_pytorch_model.bin), which can run code when loaded. Convert "
            "them to safetensors first, for example with pipe.save_pretrained(folder, safe_serialization=True)."
        ),
    ]


def test_memory_that_ran_out_while_building_is_no_value_of_the_engine(acme):
    model = acme.path / "dense_model.py"
    model.write_text(model.read_text().replace("drawn = {}", "raise MemoryError"))
    result = acme.run()
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    assert acme.failures() == ["INVALID: Memory ran out while building (weights): MemoryError. [refused]"]
