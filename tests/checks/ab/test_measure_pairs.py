"""Two sides in turns: which process runs when, and what is kept when one gives no sample."""

from __future__ import annotations

import contextlib
import functools
from types import SimpleNamespace

import pytest
from door_toys import ToyProbe
from sample_values import case, execution, sample
from steps_seen import Seen

from pytest_sdperf.checks.ab.measuring import measure_pairs
from pytest_sdperf.core import progress
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.device import Device, Health
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError, WorkerError
from pytest_sdperf.core.values import Failure, to_json

CPU = Device("cpu", "A CPU", "cpu-a-2c")
NAME = "sd15-thin unet"


class Side:
    """A runner whose processes answer as they are told: a time in ms, or an error that they raise."""

    is_pipeline = False

    def __init__(self, name, log, answers, *, start=None, python=None) -> None:
        self.case = case()
        self.request = SimpleNamespace(python=python)
        self.context = SimpleNamespace(device=CPU, probe=ToyProbe(CPU), catalog=Catalog())
        self._name, self._log, self._answers, self._start = name, log, list(answers), start
        self.loaded = []

    def builds(self):
        return {"unet": SimpleNamespace(kind="module", owner=self._name, size_bytes=69, steps=())}

    def execution(self, *, builds):
        self.loaded.append(builds["unet"].owner)
        return execution("unet")

    @contextlib.contextmanager
    def workers(self, function, request, *, count):
        assert (function, request.case.component) == ("measure", "unet")
        if self._start:
            raise self._start
        yield [self._worker] * count

    def _worker(self, *, on_event):
        self._log.append(self._name)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return {"sample": to_json(sample(answer))}


def play(a=(10.0,) * 12, b=(11.0,) * 12, *, pairs=2, more=lambda pairs: 0, shared=False, **fields):
    log, said = [], []
    sides = Side("A", log, a), Side("B", log, b, **fields)
    with progress.watched_by(Seen(said)):
        found = measure_pairs(*sides, pairs=pairs, say=said.append, more=more, shared=shared)
    return SimpleNamespace(found=found, log="".join(log), said=said, sides=sides)


def test_the_order_changes_from_pair_to_pair():
    played = play()
    assert played.log == "ABBA"
    assert (played.found.a.medians_s, played.found.b.medians_s) == ((0.010, 0.010), (0.011, 0.011))
    assert played.said == [
        f"starting 4 processes for {NAME}, sides A and B",
        *(f"measuring {NAME}, side {side}, pair {pair} of 2" for side, pair in ("A1", "B1", "B2", "A2")),
    ]


def test_pairs_are_added_for_as_long_as_they_are_asked_for():
    asked = []

    def more(pairs):
        asked.append(pairs.count)
        return {2: 2, 4: 2}.get(pairs.count, 0)

    played = play(more=more)
    assert asked == [2, 4, 6]
    assert played.log == "ABBA" * 3
    assert played.said.count(f"{NAME} is not certain yet: 2 pairs more") == 2


def test_an_odd_number_of_pairs_goes_on_in_the_other_order():
    assert play(pairs=3).log == "ABBAAB"
    assert play(pairs=1, more=lambda pairs: int(pairs.count < 3)).log == "ABBAAB"


@pytest.mark.parametrize(("shared", "loaded"), [(True, ["A"]), (False, ["B"])])
def test_both_sides_load_one_build_if_they_share_it(shared, loaded):
    played = play(shared=shared, python="/venvs/next/bin/python")
    assert (played.found.shared, played.sides[1].loaded) == (shared, loaded)
    assert played.found.pythons == ("", "/venvs/next/bin/python")


def test_a_side_that_fails_at_once_still_leaves_the_other_its_turn():
    played = play(a=[OutOfMemoryError("no room")], more=lambda pairs: 2)
    assert played.log == "AB"
    assert played.found.a.failure == Failure("oom", "no room")
    assert played.found.b.medians_s == (0.011,)


def test_a_later_failure_ends_it_and_earlier_samples_stay():
    played = play(b=[11.0, WorkerError("it ended", reason="crash", tail="last words")], more=lambda pairs: 2)
    assert played.log == "ABB"
    assert played.found.b.failure == Failure("crash", "it ended", "last words")
    assert (played.found.a.medians_s, played.found.b.medians_s) == ((0.010,), (0.011,))


def test_a_side_that_cannot_start_is_a_failure_too():
    played = play(start=BuildError("no such thing"), more=lambda pairs: 2)
    assert played.log == "A"
    assert played.found.b.failure == Failure("refused", "no such thing")


def test_the_states_before_are_those_after_both_sides_are_compiled(monkeypatch):
    log = []
    sides = Side("A", log, [10.0]), Side("B", log, [11.0])
    for side in sides:
        monkeypatch.setattr(side, "execution", functools.partial(compiled, side, log))
        monkeypatch.setattr(side.context.probe, "health", lambda device: log.append("read") or Health())
    measure_pairs(*sides, pairs=1, say=lambda text: None)
    assert log == ["compiled", "compiled", "read", "read", "A", "B", "read", "read"]


def compiled(side, log, *, builds):
    log.append("compiled")
    return Side.execution(side, builds=builds)


def test_a_side_that_cannot_be_compiled_still_leaves_the_other_its_turn(monkeypatch):
    log = []
    sides = Side("A", log, []), Side("B", log, [11.0, 11.0])

    def refuse(*, builds):
        raise BuildError("no kernel")

    monkeypatch.setattr(sides[0], "execution", refuse)
    found = measure_pairs(*sides, pairs=2, say=lambda text: None, more=lambda pairs: 2)
    assert log == ["B"]
    assert found.a.failure == Failure("refused", "no kernel")
    assert found.b.medians_s == (0.011,)
