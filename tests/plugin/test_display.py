"""What a person sees of steps: one line of a terminal, or a line a minute where there is none."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import pytest
from screen import Screen, on_terminal, statuses

from pytest_sdperf.core import clock, progress
from pytest_sdperf.core.progress import BUILD_TIMEOUT, Limit
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.plugin import display, reporter
from pytest_sdperf.plugin.display import Display, Handed, Lines
from pytest_sdperf.plugin.durations import Durations
from pytest_sdperf.plugin.shown import Shown

UNET = ["--sdperf-engine=ort-cpu", "--sdperf-component=unet", "--sdperf-optimization=fp32"]
FOLDERS = ["--sdperf-cache-dir=cache", "--sdperf-state-dir=state"]
HERE = Path(__file__).parents[1]
# Nobody looks by himself: a test moves the clock and looks.
PLAYED = """
    import pytest

    from pytest_sdperf.core import clock, progress
    from pytest_sdperf.plugin import display, reporter

    now = [clock.monotonic_s()]
    display.TICK_S = 3600
    clock.monotonic_s = lambda: now[0]
    reporter.prepare = lambda *given, **how: None

    @pytest.fixture
    def later():
        def later(seconds):
            for _ in range(int(seconds)):
                now[0] += 1
                progress._Here.watcher.tick()

        return later
"""
TESTS = """
    from pytest_sdperf.core import progress
    from pytest_sdperf.core.progress import BUILD_TIMEOUT, Limit

    def test_one(sdperf_case, later, sdperf_session):
        print("half a line", end="")
        with progress.step("exporting sd15 unet"):
            later(3)
            print(" and its end")
            print("another")
            later(1)
            sdperf_session.say("something to know")
            later(1)
        print("last words")

    def test_two(sdperf_case, later):
        with progress.step("compiling sd15 unet", limit=Limit(8.0, BUILD_TIMEOUT)) as step:
            step.at(1, 4, "kernel")
            later(4)
        assert 0
"""


@pytest.fixture
def now(monkeypatch):
    """Return a clock that only the test moves."""
    seconds = [0.0]
    monkeypatch.setattr(clock, "monotonic_s", lambda: seconds[0])
    return seconds


class Kept(Durations):
    """How long things took last time, without a run."""

    def __init__(self, **seconds):
        self.seconds = seconds

    def last_s(self, key):
        return self.seconds.get(key)

    def took(self, key, seconds):
        self.seconds[key] = seconds

    def keep(self):
        pass


@pytest.fixture
def played(now):
    """Return what plays seconds one by one, and the lines that were said meanwhile."""
    said = []
    shown = Display(lambda: Lines(said.append), Kept())
    shown.start = lambda: None
    shown.output = Lines(said.append)

    def play(seconds):
        for _ in range(seconds):
            now[0] += 1
            shown.tick()

    play.said, play.display = said, shown
    with progress.watched_by(shown):
        yield play


def test_a_line_a_minute_while_it_goes_on_and_none_of_what_is_short(played):
    with progress.step("drawing the weights of sd15 unet"):
        played(59)
    with progress.step("exporting sd15 unet"):
        played(130)
    assert played.said == ["exporting sd15 unet: 60 s", "exporting sd15 unet: 2.0 min"]


def test_many_short_steps_of_one_test_are_not_silent_together(played):
    with progress.step("test", frame=True) as frame:
        frame.at(3, 12)
        frame.left_s = 300.0
        for number in range(1, 5):
            with progress.step(f"measuring sd15 unet, process {number} of 4"):
                played(40)
    assert played.said == [
        "test 3 of 12: measuring sd15 unet, process 2 of 4: 20 s; about 4.0 min left",
        "test 3 of 12: measuring sd15 unet, process 3 of 4: 40 s; about 3.0 min left",
    ]


def test_a_limit_is_said_once_before_it_strikes_however_soon(played):
    with progress.step("compiling sd15 unet", limit=Limit(30.0, BUILD_TIMEOUT)):
        played(29)
    assert played.said == ["compiling sd15 unet: 15 s of at most 30 s (-o sdperf_build_timeout=TIME)"]


def test_of_steps_side_by_side_the_oldest_is_said_and_the_others_are_counted(played):
    begun, ended = threading.Event(), threading.Event()

    def other():
        with progress.step("exporting sd15 vae_decoder"):
            begun.set()
            ended.wait(60)

    with progress.step("building", frame=True) as frame:
        frame.at(3, 12)
        with progress.step("exporting sd15 unet"):
            played(1)
            thread = threading.Thread(target=other)
            thread.start()
            begun.wait(60)
            played(59)
        ended.set()
        thread.join()
    assert played.said == ["building 3 of 12: exporting sd15 unet: 60 s (and 1 more)"]


def test_what_a_step_is_part_of_is_not_shown_beside_it(played):
    with progress.step("looking where sd15 unet goes wrong"), progress.step("exporting sd15 unet"):
        played(60)
    assert played.said == ["exporting sd15 unet: 60 s"]


def test_while_calls_are_timed_it_looks_every_ten_seconds(played, monkeypatch):
    looks = []
    monkeypatch.setattr(played.display.output, "show", lambda shown, now_s: looks.append(now_s))
    with progress.step("measuring sd15 unet") as step:
        played(2)
        step.enter("warmup")
        played(20)
    assert looks[:4] == [1.0, 2.0, 12.0, 22.0]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (90, "test 3 of 12: exporting sd15 unet to ONNX: 12 s of about 41 s; about 4.0 min left"),
        (70, "test 3 of 12: exporting sd15 unet to ONNX: 12 s of about 41 s"),
        (50, "exporting sd15 unet to ONNX: 12 s of about 41 s"),
        (40, "exporting sd15 un...: 12 s of about 41 s"),
        (10, "...: 12 s o"[:10]),
    ],
)
def test_a_narrow_terminal_keeps_how_far_it_is(width, line):
    shown = Shown("exporting sd15 unet to ONNX", "12 s of about 41 s", "test 3 of 12", "about 4.0 min left")
    assert shown.within(width) == line


def test_no_name_takes_more_columns_or_moves_the_cursor():
    assert Shown("\x1b[2J模型\n", "12 s").within(20) == "?[2J模型?: 12 s"
    assert Shown("模型" * 9, "12 s").within(20) == "模型模型模...: 12 s"


def test_a_worker_hands_its_steps_over_and_they_are_shown_with_its_name(now, tmp_path):
    worker = Display(lambda: Handed(tmp_path / "gw1.json"), Kept())
    worker.start, worker.output = lambda: None, Handed(tmp_path / "gw1.json")
    said = []
    controller = Display(lambda: Lines(said.append), Kept())
    controller.output, controller.workers = Lines(said.append), tmp_path
    (tmp_path / "gw0.json").write_text("[{")  # half written
    with progress.watched_by(worker), progress.step("exporting sd15 unet"):
        for _ in range(61):
            now[0] += 1
            worker.tick()
            controller.tick()
    controller.tick()
    assert said == ["gw1: exporting sd15 unet: 60 s"]
    assert json.loads((tmp_path / "gw1.json").read_text()) == []


# ------------------------------------------------------------------------------------------------------------- runs


@pytest.fixture
def run(pytester, sdperf, monkeypatch):
    for where, name in ((clock, "monotonic_s"), (display, "TICK_S"), (reporter, "prepare")):
        monkeypatch.setattr(where, name, getattr(where, name))  # put back what the conftest replaces

    def run(*arguments, conftest=PLAYED, tests=TESTS, plugins=()):
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_it=tests)
        return sdperf(*UNET, *FOLDERS, "-p", "no:cacheprovider", *arguments, plugins=plugins)

    return run


@pytest.fixture
def seen(pytester, monkeypatch):
    """Return what runs pytest in a terminal and gives the bytes that it wrote there."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=":")
    monkeypatch.delenv("PY_COLORS", raising=False)  # of pytester

    def run(*arguments, conftest=PLAYED, tests=TESTS, plugins=(), **how):
        pytester.makeconftest(conftest)
        pytester.makepyfile(test_it=tests)
        named = ["no:pytest_sdperf.builtins", "pytest_sdperf.plugin", "door_toys", "no:cacheprovider", *plugins]
        flags = [word for name in named for word in ("-p", name)]
        return on_terminal([sys.executable, "-m", "pytest", *flags, *UNET, *FOLDERS, *arguments], **how)

    return run


def rows(text, **size):
    screen = Screen(**size)
    screen.feed(text)
    return [row.rstrip() for row in screen.rows]


@pytest.mark.parametrize("flags", [[], ["-v"], ["-s"], ["-s", "-v"], ["--capture=sys"]])
def test_one_line_of_a_terminal_is_rewritten_and_gone_in_the_end(seen, flags):
    told = seen(*flags)
    front = "test 1 of 2: exporting sd15 unet: "
    assert statuses(told) == [
        *(f"{front}{seconds} s" for seconds in (1, 2, 3, 4, 5)),
        *(f"test 2 of 2: compiling sd15 unet: kernel 1 of 4, {seconds} s" for seconds in (1, 2, 3)),
        "test 2 of 2: compiling sd15 unet: kernel 1 of 4, 4 s of at most 8 s (-o sdperf_build_timeout=TIME)",
    ]
    left = rows(told)
    assert not [row for row in left if "of 2: " in row]
    assert left.count("something to know") == 1
    assert any(row.startswith("=") and "1 failed, 1 passed" in row for row in left)
    printed = ["half a line and its end", "another", "last words"]
    assert [sum(text in row for row in left) for text in printed] == [int("-s" in flags)] * 3


def test_no_line_is_wider_than_the_terminal(seen):
    told = seen(width=60)
    lines = statuses(told, width=60)
    assert lines[0] == "test 1 of 2: exporting sd15 unet: 1 s"
    assert lines[-1] == "...: kernel 1 of 4, 4 s of at most 8 s (-o sdperf_build_timeout=TIME)"[:59]
    assert max(map(len, lines)) <= 59


@pytest.mark.parametrize(
    ("flags", "env"), [(["-q", "-q"], {}), (["--color=no"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})]
)
def test_where_pytest_has_no_colours_nothing_is_rewritten(seen, flags, env):
    told = seen(*flags, **env)
    assert "\x1b8" not in told
    assert "exporting sd15 unet" not in told


def test_without_a_terminal_a_line_a_minute_in_the_same_words(run):
    result = run(
        tests="""
        from pytest_sdperf.core import progress
        from pytest_sdperf.core.progress import BUILD_TIMEOUT, Limit

        def test_short(sdperf_case, later):
            with progress.step("drawing the weights of sd15 unet"):
                later(59)

        def test_long(sdperf_case, later):
            with progress.step("compiling sd15 unet", limit=Limit(200.0, BUILD_TIMEOUT)):
                later(170)
    """
    )
    assert [line for line in result.outlines if "sd15 unet" in line] == [
        "test 2 of 2: compiling sd15 unet: 60 s",
        "test 2 of 2: compiling sd15 unet: 1.7 min of at most 3.3 min (-o sdperf_build_timeout=TIME)",
        "test 2 of 2: compiling sd15 unet: 2.7 min of at most 3.3 min (-o sdperf_build_timeout=TIME)",
    ]


def test_the_next_run_says_how_long_it_took_and_what_remains(run):
    tests = """
        from pytest_sdperf.core import progress

        def test_long(sdperf_case, later):
            with progress.step("exporting sd15 unet"):
                later(90)

        def test_other(sdperf_case, later):
            later(200)
    """
    said = [[line for line in run(tests=tests).outlines if "sd15 unet" in line] for _ in range(2)]
    assert said == [
        ["test 1 of 2: exporting sd15 unet: 60 s"],
        ["test 1 of 2: exporting sd15 unet: 60 s of about 1.5 min; about 3.8 min left"],
    ]


def test_a_run_that_is_altered_on_purpose_or_has_no_long_step_keeps_nothing(tmp_path, now):
    for altered, seconds, kept in (("slow", 90.0, False), ("", 0.9, False), ("", 90.0, True)):
        settings = Settings(state_dir=tmp_path / str(kept), gpu="h100", altered=altered)
        durations = Durations(FakeRun(settings))
        durations.took("exporting", seconds)
        durations.keep()
        assert (tmp_path / str(kept)).exists() == kept
    (file,) = (tmp_path / "True" / "durations").glob("*.json")
    assert json.loads(file.read_text()) == {"exporting": 90.0}
    file.write_text("{")
    assert Durations(FakeRun(settings)).last_s("exporting") is None


class FakeRun:
    """A run whose card is not in this machine."""

    def __init__(self, settings):
        self.settings = settings

    def device(self):
        from pytest_sdperf.core.errors import DeviceMissingError

        raise DeviceMissingError("none")


WORKERS = """
    from pathlib import Path

    from pytest_sdperf.plugin import display

    display.TICK_S, display.EVERY_S, display.LONG_S = 0.01, 0.0, 0.0

    def pytest_configure(config):
        if not hasattr(config, "workerinput"):
            for kind in (display.Lines, display.InPlace):
                def watched(self, shown, now_s, show=kind.show):
                    show(self, shown, now_s)
                    for one in shown:
                        Path(one.front).touch()

                kind.show = watched
"""
WAITING = """
    import os
    import time
    from pathlib import Path

    from pytest_sdperf.core import progress

    def wait():
        with progress.step("exporting sd15 unet"):
            until = time.monotonic() + 60
            while not Path(os.environ["PYTEST_XDIST_WORKER"]).exists():
                assert time.monotonic() < until
                time.sleep(0.01)

    def test_one():
        wait()

    def test_two():
        wait()
"""


def test_the_steps_of_workers_are_said_by_the_process_that_started_them(run):
    pytest.importorskip("xdist")
    result = run("-n2", plugins=["xdist.plugin"], conftest=WORKERS, tests=WAITING)
    result.assert_outcomes(passed=2)
    said = {line for line in result.outlines if "sd15 unet" in line}
    assert said  # which of the two began first is chance
    assert all(line.startswith(("gw0: exporting sd15 unet: ", "gw1: exporting sd15 unet: ")) for line in said)


def test_the_steps_of_workers_share_the_line_of_a_terminal(seen):
    pytest.importorskip("xdist")
    told = seen("-n2", plugins=["xdist.plugin"], conftest=WORKERS, tests=WAITING)
    lines = [line for line in statuses(told) if line]
    assert lines
    assert all(line.startswith(("gw0: exporting sd15 unet: ", "gw1: exporting sd15 unet: ")) for line in lines)
    left = rows(told)
    assert not [row for row in left if "exporting" in row]
    assert any("2 passed" in row for row in left)
