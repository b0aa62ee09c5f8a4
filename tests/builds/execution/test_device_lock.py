from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest

from pytest_sdperf.builds.execution import device_lock as turns_module
from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import OptionError

CPU = Device("cpu", "Toy CPU", "toy-cpu")
FIRST, SECOND = (Device("cuda", "NVIDIA T4", "t4", index=place, uuid=f"GPU-{place}") for place in range(2))


def turns(device, folder, said, *, run="mine"):
    return DeviceLock(device, folder, run=run, say=said.append)


def hold(device, folder, *, run="another"):
    """Start a thread that has the device until it is told to let go; return it and what tells it."""
    begun, over = threading.Event(), threading.Event()

    def measure():
        with turns(device, folder, [], run=run).alone("sdxl unet at fp16 on torch"):
            begun.set()
            assert over.wait(60)

    thread = threading.Thread(target=measure)
    thread.start()
    assert begun.wait(30)
    return thread, over


PART = Device("cuda", "NVIDIA T4 MIG 1g", "t4-mig-1g", uuid="MIG-1", card="GPU-0")  # there is none; the name is short


@pytest.mark.parametrize(
    ("one", "other", "waits"),
    [(CPU, CPU, True), (FIRST, FIRST, True), (FIRST, SECOND, False), (PART, FIRST, True), (PART, SECOND, False)],
)
def test_only_measurements_of_one_device_wait_for_each_other(tmp_path, one, other, waits):
    said: list[str] = []
    thread, over = hold(one, tmp_path)
    threading.Timer(2.5, over.set).start()
    began_s = time.time()
    with turns(other, tmp_path, said).alone("sd15 unet at fp16 on ort-cuda") as turn:
        waited_s = time.time() - began_s
        assert over.is_set() is waits
        over.set()
    thread.join(30)
    found = turn()
    assert found.position == other.index
    assert found.waited_s == pytest.approx(waited_s, abs=0.2)
    assert began_s <= found.began_s <= found.ended_s
    if not waits:
        assert (said, found.waited_for) == ([], "")
        return
    told = f"process {os.getpid()} has it since {said[0].split(' since ')[1][:5]} UTC, for sdxl unet at fp16 on torch"
    assert abs(_minutes(told) - _minutes(f"since {time.strftime('%H:%M', time.gmtime(began_s))} UTC")) in (0, 1, 1439)
    assert said[0] == f"waiting for {other.name}: {told}"
    assert said[1:] in ([f"waited 2 s for {other.name}"], [f"waited 3 s for {other.name}"])
    assert found.waited_for == told


def _minutes(text):
    hours, minutes = text.split("since ")[1][:5].split(":")
    return 60 * int(hours) + int(minutes)


def test_processes_of_one_run_wait_silently(tmp_path):
    said: list[str] = []
    thread, over = hold(CPU, tmp_path, run="mine")
    threading.Timer(1.5, over.set).start()
    with turns(CPU, tmp_path, said).alone("this") as turn:
        assert (turn().waited_for, turn().waited_s > 1) == ("", True)
    thread.join(30)
    assert said == []


def test_another_process_that_is_killed_lets_go(tmp_path):
    code = (
        "import sys, pathlib, time\n"
        "from pytest_sdperf.core.device import Device\n"
        "from pytest_sdperf.builds.execution.device_lock import DeviceLock\n"
        "card = Device('cuda', 'NVIDIA T4', 't4', uuid='GPU-0')\n"
        "with DeviceLock(card, pathlib.Path(sys.argv[1]), run='another', say=print).alone('sdxl unet'):\n"
        "    print('begun', flush=True)\n"
        "    time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    said: list[str] = []
    threading.Timer(1.5, process.kill).start()
    with turns(FIRST, tmp_path, said).alone("this"):
        assert process.wait(30) != 0
    process.stdout.close()
    assert said[0].startswith(f"waiting for NVIDIA T4: process {process.pid} has it since ")


def test_where_nobody_says_who_has_it_that_is_said(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(turns_module.DeviceLock, "_tell", lambda self, holder: None)
    thread, over = hold(FIRST, tmp_path)
    threading.Timer(1.5, over.set).start()
    with turns(FIRST, tmp_path, said).alone("this"):
        pass
    thread.join(30)
    assert said[0] == "waiting for NVIDIA T4: another process has it"


def test_inside_a_turn_there_is_no_waiting(tmp_path):
    mine = turns(FIRST, tmp_path, [])
    with mine.alone("outer"):
        with mine.alone_on_gpu("inner"):
            pass
        (path,) = (tmp_path / "locks").glob("*.json")
        assert json.loads(path.read_text())["what"] == "outer"
        began = threading.Event()

        def other():
            with turns(FIRST, tmp_path, []).alone("other"):
                began.set()

        thread = threading.Thread(target=other)
        thread.start()
        assert not began.wait(0.5)  # the inner turn did not end the outer one
    thread.join(30)
    assert began.is_set()


def test_what_can_do_without_a_device_does_not_wait_for_it(tmp_path):
    thread, over = hold(FIRST, tmp_path)
    with turns(FIRST, tmp_path, []).alone_if_free("unet of sdxl in float64") as free:
        assert not free
    over.set()
    thread.join(30)
    mine = turns(FIRST, tmp_path, [])
    with mine.alone_if_free("unet of sdxl in float64") as free:
        assert free
        (path,) = (tmp_path / "locks").glob("*.json")
        assert json.loads(path.read_text())["what"] == "unet of sdxl in float64"
        with turns(FIRST, tmp_path, []).alone_if_free("another") as too:
            assert not too
    with turns(FIRST, tmp_path, []).alone_if_free("another") as free:
        assert free


def test_on_a_cpu_only_measurements_take_turns(tmp_path):
    with turns(CPU, tmp_path, []).alone_on_gpu("a comparison"):
        pass
    assert not (tmp_path / "locks").exists()
    with turns(FIRST, tmp_path, []).alone_on_gpu("a comparison"):
        assert (tmp_path / "locks").exists()


def test_a_uuid_is_never_written_to_a_disk(tmp_path):
    with turns(FIRST, tmp_path, []).alone("this"):
        for path in (tmp_path / "locks").iterdir():
            assert path.name.startswith("measure-")
            assert FIRST.uuid not in path.name + path.read_text()


def test_the_lock_is_free_again_after_a_failure(tmp_path):
    for _ in range(2):
        with pytest.raises(RuntimeError), turns(CPU, tmp_path, []).alone("this"):
            raise RuntimeError


@pytest.mark.skipif(os.name == "nt", reason="Windows has other words for it")
def test_a_folder_that_cannot_be_written_says_what_to_type(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OptionError) as caught, turns(CPU, tmp_path / "file", []).alone("this"):
        pass
    assert str(caught.value) == (
        f"the state folder {tmp_path / 'file'} cannot be written: Not a directory. Make it writable, or choose another "
        "folder with --sdperf-state-dir=FOLDER."
    )
