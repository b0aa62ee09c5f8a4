"""Whether a loaded component answers to its inputs, and every way in which a replayed graph does not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pytest_sdperf.core.contracts import LoadRequest, Runner
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.tasks._changed_inputs import distances, wrong_answer
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel

FIRST = {"sample": np.arange(1.0, 5.0, dtype="float32"), "timestep": np.array([7.0], dtype="float32")}
OTHER = {"sample": np.arange(4.0, 0.0, -1.0, dtype="float32"), "timestep": np.array([9.0], dtype="float32")}


class Graph(Runner):
    """`out = sample * timestep`, replayed on what `capture` makes of the inputs; a plain run takes them as they are."""

    def __init__(self, capture, *, noise=0.0):
        self._capture, self._noise, self._runs = capture, noise, 0
        self._bound, self._out = {}, None

    def bind(self, inputs):
        self._bound = {name: array.copy() for name, array in inputs.items()}

    def _compute(self, inputs):
        self._runs += 1
        self._out = inputs["sample"] * inputs["timestep"] * (1 + self._noise * (-1) ** self._runs)

    def run(self):
        self._compute(self._capture(self._bound))

    def run_plainly(self):
        self._compute(self._bound)

    def synchronize(self):
        return

    def fetch(self):
        return {"out": self._out.copy()}


def checked(capture, *, one_by_one=True, noise=0.0, other=OTHER):
    runner = Graph(capture, noise=noise)
    runner.bind(FIRST)
    runner.run()
    return wrong_answer(runner, FIRST, other, one_by_one=one_by_one)


class Late:
    """Gives the answer to the inputs of the run before."""

    def __init__(self):
        self._before = FIRST

    def __call__(self, inputs):
        late, self._before = self._before, inputs
        return late


class Sticky:
    """Never goes back to inputs that it has left."""

    def __init__(self):
        self._seen = []

    def __call__(self, inputs):
        known = [one for one in self._seen if all((one[name] == inputs[name]).all() for name in one)]
        self._seen.append(inputs)
        return self._seen[-2] if known and len(self._seen) > 1 else inputs


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_right_answers(one_by_one, noise):
    assert checked(lambda inputs: inputs, one_by_one=one_by_one, noise=noise) == ""


@pytest.mark.parametrize(
    ("capture", "expected"),
    [
        (
            lambda inputs: FIRST,
            "with another sample, out is 0.82 away from that of a run without the graph, and the old one is 0.82 away",
        ),
        (
            lambda inputs: {**inputs, "timestep": FIRST["timestep"]},
            (
                "with another timestep, out is 0.22 away from that of a run without the graph, and the old one is 0.22 "
                "away"
            ),
        ),
        (
            Late(),
            "with another sample, out is 0.82 away from that of a run without the graph, and the old one is 0.82 away",
        ),
        (
            lambda inputs: {**inputs, "sample": inputs["sample"] * np.float32("nan")},
            "with another sample, out is nan away from that of a run without the graph, and the old one is nan away",
        ),
    ],
    ids=["stale", "one input baked in", "one call late", "not a number"],
)
def test_a_graph_that_does_not_read_its_inputs(capture, expected):
    assert checked(capture) == expected


def test_the_first_inputs_must_give_the_first_outputs_again():
    assert checked(Sticky(), one_by_one=False) == "the first inputs, given again, give another out (0.97 away)"


@pytest.mark.parametrize("one_by_one", [True, False])
def test_an_engine_that_ignores_its_inputs(one_by_one):
    runner = Graph(lambda inputs: FIRST)
    runner.run_plainly = runner.run
    runner.bind(FIRST)
    runner.run()
    changed = "sample" if one_by_one else "sample, timestep"
    expected = f"another {changed} does not change the outputs"
    assert wrong_answer(runner, FIRST, OTHER, one_by_one=one_by_one) == expected


def test_an_input_that_cannot_be_changed_is_not_asked_for():
    assert checked(lambda inputs: inputs, other={**OTHER, "timestep": FIRST["timestep"]}) == ""


def test_inputs_that_are_the_same_prove_nothing():
    assert checked(lambda inputs: inputs, other=FIRST) == "another seed gives the same inputs"


def test_distances_are_relative():
    found = distances(
        {"a": np.array([3.0, 4.0]), "b": np.array([np.inf])}, {"a": np.array([0.0, 5.0]), "b": np.zeros(1)}
    )
    assert found["a"] == pytest.approx(math.sqrt(10) / 5)
    assert math.isinf(found["b"])


@pytest.mark.parametrize("engine", [OrtCpuEngine(), TorchEngine()])
@pytest.mark.parametrize("one_by_one", [True, False])
def test_real_engines_answer(engine, one_by_one, tmp_path):
    model = ProbeModel()
    request = LoadRequest(
        build=model.build(engine.consumes, tmp_path),
        model=model,
        component="unet",
        workload=SMALL,
        device_kind="cpu",
        device_index=0,
        options={name: option.default for name, option in engine.options.items()},
        work_dir=tmp_path,
    )
    first, other = (dict(model.example("unet", SMALL, seed=seed)) for seed in (0, 1))
    with engine.load(request) as runner:
        runner.bind(first)
        runner.run()
        assert wrong_answer(runner, first, other, one_by_one=one_by_one) == ""
