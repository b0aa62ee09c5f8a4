from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from pytest_sdperf.core.values.remark import Remark
from pytest_sdperf.devices._sharing import foreign_memory, holds_open, other_processes, own_pids

GIB = 2**30
NO_SUCH_PID = 4_190_000  # above the default of kernel.pid_max, as ids of the host seen from a container
HELD_BY_NOBODY = os.path.realpath(pytest.__file__)
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(autouse=True)
def no_process_of_ours_computes():
    """What other tests of devices replace is what is tested here."""


@pytest.fixture
def child():
    """A process that this one started, and that holds a file open."""
    code = "import sys; held = open(sys.argv[1]); print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, os.path.realpath(__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.stdin.close()  # type: ignore[union-attr]


def test_children_are_ours(child):
    assert {os.getpid(), child.pid} <= own_pids()
    assert other_processes([os.getpid(), child.pid], "/dev/nvidia-uvm") == 0


def test_other_programs_are_counted():
    parent = psutil.Process().ppid()
    assert other_processes([], "/dev/nvidia-uvm") == 0
    assert other_processes([parent, os.getpid()], "/dev/nvidia-uvm") == 1


def test_unknown_ids_are_others_while_we_do_not_compute():
    assert other_processes([NO_SUCH_PID, NO_SUCH_PID + 1], HELD_BY_NOBODY) == 2


@LINUX
def test_unknown_ids_may_be_ours_while_we_compute(child):
    assert holds_open([child.pid], os.path.realpath(__file__))
    assert other_processes([NO_SUCH_PID], os.path.realpath(__file__)) is None


def test_a_process_that_ended_holds_nothing_open():
    assert not holds_open([NO_SUCH_PID], os.path.realpath(__file__))


@LINUX
@pytest.mark.parametrize(
    ("used_gib", "total_gib", "sentence"),
    [
        (0.5, 80, None),
        (8, 80, None),
        (1.9, 12, None),
        (2.5, 12, "2.5 of 12.0 GiB of device memory are in use although no process of this run uses the device."),
        (9, 80, "9.0 of 80.0 GiB of device memory are in use although no process of this run uses the device."),
    ],
)
def test_memory_in_use_by_nobody_we_know(used_gib, total_gib, sentence):
    reasons = (sentence,) if sentence else ()
    assert foreign_memory(int(used_gib * GIB), total_gib * GIB, HELD_BY_NOBODY) == (reasons, ())


@LINUX
def test_memory_in_use_while_we_compute_is_ours(child):
    assert foreign_memory(40 * GIB, 80 * GIB, os.path.realpath(__file__)) == ((), ())


@pytest.mark.parametrize(("used", "total"), [(None, 80 * GIB), (40 * GIB, None)])
def test_unknown_memory_says_nothing(used, total):
    assert foreign_memory(used, total, HELD_BY_NOBODY) == ((), ())


@pytest.mark.parametrize("listed", [[0], [4294967295], [0, 4294967295, 1], [-1], ["N/A"], [None]])
def test_a_list_with_what_is_no_process_id_tells_nothing(listed):
    assert other_processes(listed, HELD_BY_NOBODY) is None


@LINUX
def test_where_the_device_has_no_file_nobody_can_tell_who_uses_it():
    assert holds_open([os.getpid()], "/dev/no-such-device") is None
    assert other_processes([NO_SUCH_PID], "/dev/no-such-device") is None
    assert other_processes([psutil.Process().ppid()], "/dev/no-such-device") == 1
    assert foreign_memory(1 * GIB, 80 * GIB, "/dev/no-such-device") == ((), ())
    told = (
        "9.0 of 80.0 GiB of device memory are in use, and this machine cannot tell by whom: it has no "
        "/dev/no-such-device."
    )
    assert foreign_memory(9 * GIB, 80 * GIB, "/dev/no-such-device") == (
        (),
        (Remark(told, "device memory in use", 9.0),),
    )
