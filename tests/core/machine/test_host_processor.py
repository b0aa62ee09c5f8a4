"""How long threads waited, from files as Linux writes them."""

from __future__ import annotations

import shutil
import time

import pytest

from pytest_sdperf.core.machine.host_processor import watch_waiting


def write(folder, **threads):
    for thread, (ran, waited) in threads.items():
        (folder / thread).mkdir(exist_ok=True)
        (folder / thread / "schedstat").write_text(f"{ran} {waited} 7\n", encoding="ascii")


def test_the_share_is_that_of_all_threads_in_between(tmp_path):
    write(tmp_path, t1=(1_000, 5_000), t2=(0, 0))
    with watch_waiting(tmp_path) as waited:
        write(tmp_path, t1=(3_000, 6_000), t2=(1_000, 0), t3=(3_000, 1_000))
    assert waited.share == pytest.approx(2_000 / 8_000)


def test_a_thread_that_ends_meanwhile_is_left_out(tmp_path):
    write(tmp_path, t1=(0, 0), t2=(0, 0))
    with watch_waiting(tmp_path) as waited:
        write(tmp_path, t1=(3_000, 1_000))
        shutil.rmtree(tmp_path / "t2")
    assert waited.share == pytest.approx(0.25)


@pytest.mark.parametrize("text", [None, "", "3000\n", "many few none\n"])
def test_where_the_kernel_does_not_tell_nobody_knows(tmp_path, text):
    if text is not None:
        write(tmp_path, t1=(0, 0))
        (tmp_path / "t1" / "schedstat").write_text(text, encoding="ascii")
    with watch_waiting(tmp_path / "t1" if text is None else tmp_path) as waited:
        pass
    assert waited.share is None


def test_nothing_ran_in_between(tmp_path):
    write(tmp_path, t1=(5, 5))
    with watch_waiting(tmp_path) as waited:
        pass
    assert waited.share is None


def test_this_machine_tells_it_or_does_not():
    with watch_waiting() as waited:
        end_s = time.process_time() + 0.05
        while time.process_time() < end_s:
            pass
    assert waited.share is None or 0 <= waited.share < 1
