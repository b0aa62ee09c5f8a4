"""What is made before the first test: in which order, with how many cores, and what is left to the tests."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from door_toys import toy_catalog
from sample_values import case

from pytest_sdperf.cases.purposes import COUNTS, SPEED
from pytest_sdperf.checks import builtins
from pytest_sdperf.checks.references import of_case, which
from pytest_sdperf.checks.replay import check as replay
from pytest_sdperf.core.settings import PipelineFactory, Selection, Settings
from pytest_sdperf.plugin import preparation
from pytest_sdperf.plugin.preparation import BuildRequest, prepare


class Recorder:
    """A session whose steps only leave a note."""

    def __init__(self, kind: str = "cpu", *, in_process: bool = False, fails: str = "") -> None:
        self.run = SimpleNamespace(settings=Settings(in_process=in_process), device_kind=kind, catalog=toy_catalog())
        builtins.pytest_sdperf_register(self.run.catalog)
        self.cores, self.shared, self._fails = 2, False, fails
        self.log: list[tuple[str, str, bool]] = []
        self.builder = SimpleNamespace(
            expected_counts=lambda model, component, optimization: self.note("counts", component),
            work=SimpleNamespace(of=lambda model, component, workload: self.note("work", component)),
        )
        self._lock = threading.Lock()

    def note(self, step: str, what: str) -> None:
        with self._lock:
            self.log.append((step, what, self.shared))
        if step == self._fails:
            raise RuntimeError(what)

    @contextlib.contextmanager
    def sharing_cores(self, processes):
        self.shared = True
        yield
        self.shared = False

    def build(self, case, component):
        self.note("build", component)

    def say(self, text):
        return

    def runner(self, case):
        context = SimpleNamespace(settings=self.run.settings)
        dtype = "float16" if "16" in case.optimization else "float32"
        return SimpleNamespace(
            case=case, context=context, dtype=dtype, run_ahead=lambda: self.note("run", case.component)
        )


@pytest.fixture(autouse=True)
def torch_is_the_reference(monkeypatch):
    monkeypatch.setattr(which, "by_torch", lambda runner: True)
    monkeypatch.setattr(which, "is_comparable", lambda runner: True)


def prepared(monkeypatch, session, *needs, steps=100):
    monkeypatch.setattr(of_case, "references", lambda runner, dtypes: session.note("reference", runner.case.component))
    monkeypatch.setattr(preparation, "MOST_LANES", 1)  # the order is what counts here
    prepare(session, needs, going_on=lambda: len(session.log) < steps)
    return session.log


UNET, TEXT = (case(model="sd15-thin", component=name, engine="ort-cpu") for name in ("unet", "text_encoder"))
NEEDS = (BuildRequest(TEXT, frozenset({"agreement"})), BuildRequest(UNET, frozenset({"agreement", COUNTS})))


def test_on_a_cpu_what_takes_longest_comes_first_and_runs_follow_with_every_core(monkeypatch):
    assert prepared(monkeypatch, Recorder(), *NEEDS) == [
        ("build", "unet", True),
        ("reference", "unet", True),
        ("build", "text_encoder", True),
        ("counts", "unet", True),
        ("reference", "text_encoder", True),
        ("run", "text_encoder", False),
        ("run", "unet", False),
    ]


def test_on_a_gpu_references_follow_one_after_the_other_and_nothing_runs_ahead(monkeypatch):
    assert prepared(monkeypatch, Recorder("cuda"), *NEEDS) == [
        ("build", "unet", True),
        ("build", "text_encoder", True),
        ("counts", "unet", True),
        ("reference", "text_encoder", False),
        ("reference", "unet", False),
    ]


OWN = Selection(pipeline=PipelineFactory("mypipe", "make"))
MEASURED = (BuildRequest(UNET, frozenset({SPEED})), BuildRequest(TEXT, frozenset({"agreement"})))


def test_on_a_gpu_the_operations_of_what_is_measured_are_counted_beside_the_builds_once_per_shape(monkeypatch):
    other = (case(model="sd15-thin", component="unet", engine="torch", batch_size=size) for size in (1, 2))
    needs = (*MEASURED, *(BuildRequest(one, frozenset({SPEED})) for one in other))
    log = prepared(monkeypatch, Recorder("cuda"), *needs)
    assert [entry for entry in log if entry[0] == "work"] == [("work", "unet", True)] * 2
    assert log[-1] == ("reference", "text_encoder", False)


def test_of_a_whole_request_the_operations_of_every_component_are_counted(monkeypatch):
    whole = case(model="sd15-thin", component="pipeline", engine="torch")
    log = prepared(monkeypatch, Recorder("cuda"), BuildRequest(whole, frozenset({SPEED})))
    assert [what for step, what, _ in log if step == "work"] == ["text_encoder", "unet"]


@pytest.mark.parametrize(
    ("kind", "selection"), [("cpu", Selection()), ("cuda", Selection(onnx_dir=Path("graphs"))), ("cuda", OWN)]
)
def test_what_has_no_floor_is_not_counted(monkeypatch, kind, selection):
    session = Recorder(kind)
    session.run.settings = Settings(selection=selection)
    assert "work" not in [step for step, *_ in prepared(monkeypatch, session, *MEASURED)]


@pytest.mark.parametrize("step", ["build", "counts", "reference", "run"])
def test_what_fails_is_left_to_its_test_and_the_others_go_on(monkeypatch, step):
    log = prepared(monkeypatch, Recorder(fails=step), *NEEDS)
    assert len(log) == 7


def test_only_what_is_compared_runs_ahead(monkeypatch):
    assert prepared(monkeypatch, Recorder(), BuildRequest(UNET)) == [("build", "unet", True)]


def test_where_time_is_up_no_further_step_begins(monkeypatch):
    assert [step for step, *_ in prepared(monkeypatch, Recorder(), *NEEDS, steps=3)] == ["build", "reference", "build"]


def test_a_debugger_sees_every_step_at_its_test(monkeypatch):
    assert prepared(monkeypatch, Recorder(in_process=True), *NEEDS) == []


def test_nothing_is_prepared_where_nothing_is_needed(monkeypatch):
    assert prepared(monkeypatch, Recorder()) == []


def test_builds_of_one_export_follow_it_side_by_side_and_another_shape_does_not_wait(monkeypatch):
    together, order = threading.Barrier(2, timeout=20), []

    class Session(Recorder):
        def build(self, case, component):
            with self._lock:
                order.append((case.batch_size, case.optimization))
                place = len(order)
            if place in (1, 2, 3, 4):  # two at a time, or the barrier breaks and the build fails
                together.wait()
            self.note("build", component)

    one, two = (
        [
            case(model="sd15-thin", component="unet", engine="ort-cpu", batch_size=size, optimization=optimization)
            for optimization in optimizations
        ]
        for size, optimizations in ((1, ("fp32", "fp16", "fmha")), (2, ("fp32",)))
    )
    session = Session("cuda")
    prepare(session, [*map(BuildRequest, one), *map(BuildRequest, two)])
    assert len(session.log) == 4
    assert set(order[:2]) == {(1, "fp32"), (2, "fp32")}


def test_what_torch_answers_to_further_calls_is_computed_ahead_once_per_component(monkeypatch):
    session, answered = Recorder(), []
    groups = {"ort-cpu": {"repeats": ["A", "B"], "batch": ["C"]}, "torch": {"repeats": ["A", "B"]}}
    monkeypatch.setattr(replay, "calls_of", lambda runner, sizes: groups[runner.case.engine])
    monkeypatch.setattr(replay, "answers", lambda runner, asked, dtypes: answered.append((asked, dtypes)))
    cases = [case(engine="torch", optimization="fp32"), case(optimization="fp32"), case(optimization="fp16")]
    prepare(session, [BuildRequest(one, frozenset({"replay"})) for one in cases])
    assert answered == [([["A", "B"], ["C"]], ("float64", "float32", "float16"))]


def test_on_a_gpu_further_calls_are_answered_when_they_are_needed(monkeypatch):
    answered = []
    monkeypatch.setattr(replay, "calls_of", lambda runner, sizes: {"repeats": []})
    monkeypatch.setattr(replay, "answers", lambda *arguments: answered.append(arguments))
    prepare(Recorder("cuda"), [BuildRequest(case(), frozenset({"replay"}))])
    assert answered == []
