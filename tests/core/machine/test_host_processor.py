"""How long threads waited, from files as Linux writes them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from pytest_sdperf.core import clock
from pytest_sdperf.core.machine import host_processor

NOWHERE = Path("/no/such/file")


def watch_waiting(threads, stat=NOWHERE):
    return host_processor.watch_waiting(threads, stat)


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


# Two processors are watched for 2 s, in which the threads run for 2 s and wait for 1 s.
@pytest.mark.parametrize(
    ("idle_s", "share"),
    [
        ((1.0, 1.0), 0.0),  # nothing else ran: they waited for each other
        ((1.0, 0.9), 0.2 / 2.2),  # something else ran for 0.1 s, for which a thread on each waited at most
        ((0.5, 0.0), 1 / 3),  # it ran for 1.5 s, which explains all of it
        ((0.0, 0.0), 1 / 3),
        ((3.0, 3.0), 0.0),  # the kernel counts idle time by another clock
    ],
)
def test_threads_that_wait_for_each_other_wait_for_nothing_else(tmp_path, monkeypatch, idle_s, share):
    times = iter([10.0, 12.0])
    monkeypatch.setattr(clock, "monotonic_s", lambda: next(times))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    stat, threads = tmp_path / "stat", tmp_path / "threads"
    threads.mkdir()

    def tell(zero_s, three_s, **of_threads):
        lines = [("cpu", 0), ("cpu0", zero_s), ("cpu1", 77), ("cpu3", three_s)]
        text = "".join(f"{name} 1 1 1 {seconds * 60:.0f} {seconds * 40:.0f} 1\n" for name, seconds in lines)
        stat.write_text(f"{text}intr 5\n", encoding="ascii")
        write(threads, **of_threads)

    tell(5.0, 5.0, t1=(0, 0), t2=(0, 0))
    with watch_waiting(threads, stat) as waited:
        tell(5.0 + idle_s[0], 5.0 + idle_s[1], t1=(10**9, 10**9), t2=(10**9, 0))
    assert waited.share == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "cpu0 1 2\n", "cpu0 a b c d e\n"])
def test_where_idle_time_is_not_told_all_of_it_counts(tmp_path, monkeypatch, text):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0}, raising=False)
    (tmp_path / "stat").write_text(text, encoding="ascii")
    write(tmp_path, t1=(0, 0))
    with watch_waiting(tmp_path, tmp_path / "stat") as waited:
        write(tmp_path, t1=(3_000, 1_000))
    assert waited.share == pytest.approx(0.25)


def test_this_machine_tells_it_or_does_not():
    with host_processor.watch_waiting() as waited:
        end_s = time.process_time() + 0.05
        while time.process_time() < end_s:
            pass
    assert waited.share is None or 0 <= waited.share < 1
