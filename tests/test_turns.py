from __future__ import annotations

import os
import threading

import pytest

from pytest_sdperf.device import Device
from pytest_sdperf.errors import OptionError
from pytest_sdperf.turns import measuring_alone

CPU = Device("cpu", "Toy CPU", "toy-cpu")
FIRST, SECOND = (Device("cuda", "NVIDIA T4", "t4", uuid=uuid) for uuid in ("GPU-1", "GPU-2"))


@pytest.mark.parametrize(("one", "other", "waits"), [(CPU, CPU, True), (FIRST, FIRST, True), (FIRST, SECOND, False)])
def test_only_measurements_of_one_device_wait_for_each_other(tmp_path, one, other, waits):
    said: list[str] = []
    spoke = threading.Event()
    began = threading.Event()

    def measure() -> None:
        with measuring_alone(other, tmp_path, say=lambda text: (said.append(text), spoke.set())):
            began.set()

    thread = threading.Thread(target=measure)
    with measuring_alone(one, tmp_path, say=said.append):
        thread.start()
        assert (spoke if waits else began).wait(30)
        assert began.is_set() is not waits
    thread.join(30)
    assert began.is_set()
    assert said == ([f"waiting for another process that measures on {one.name}"] if waits else [])


def test_a_uuid_is_never_written_to_a_disk(tmp_path):
    with measuring_alone(FIRST, tmp_path, say=print):
        (path,) = (tmp_path / "locks").iterdir()
    assert path.name.startswith("measure-t4-")
    assert FIRST.uuid not in path.name


def test_the_lock_is_free_again_after_a_failure(tmp_path):
    for _ in range(2):
        with pytest.raises(RuntimeError), measuring_alone(CPU, tmp_path, say=print):
            raise RuntimeError


@pytest.mark.skipif(os.name == "nt", reason="Windows has other words for it")
def test_a_folder_that_cannot_be_written_says_what_to_type(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError) as caught, measuring_alone(CPU, tmp_path / "file", say=print):
        pass
    assert str(caught.value) == (
        f"the state folder {tmp_path / 'file'} cannot be written: Not a directory. Make it writable, or choose another "
        "folder with --sdperf-state-dir=FOLDER."
    )
