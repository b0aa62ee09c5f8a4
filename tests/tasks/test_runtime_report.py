"""What a worker finds out after everything is timed; only the GPU and torch's profiler are faked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fake_profiler import FLASH, GEMM, launched, replayed
from sample_values import execution

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.files.arrays import digest_of
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.tasks import _runtime_report
from pytest_sdperf.tasks._loading import LoadedComponent
from pytest_sdperf.tasks.sampling.kernels import NONE_ON_CPU
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel

CASE = execution(workload=SMALL, device_kind="cuda")
MODEL = ProbeModel()
INPUTS = dict(MODEL.example("unet", SMALL))
ASKED = {"cuda_graph": {"requested": True}}
RIGHT = {"right": True, "wrong": ""}


class ProbeRunner(Runner):
    """Computes the probe; a stale one always for the inputs of its first run. Tells the profiler what it launches."""

    def __init__(self, gpu, events, *, stale=False):
        self._gpu, self._events, self._stale = gpu, events, stale
        self._first, self._bound, self._out = None, {}, {}

    def bind(self, inputs):
        self._bound = dict(inputs)

    def run(self):
        self._first = self._first or self._bound
        self._compute(self._first if self._stale else self._bound)

    def run_plainly(self):
        self._compute(self._bound)

    def _compute(self, inputs):
        self._gpu.append(list(self._events))
        self._out = MODEL.expected(inputs)

    def synchronize(self):
        return

    def fetch(self):
        return {name: np.array(array) for name, array in self._out.items()}


def loaded(runner):
    runner.bind(INPUTS)
    runner.run()
    return LoadedComponent(OrtCpuEngine(), MODEL, runner, 0.0)


def component(runner, facts, folder, **fields):
    case = dataclasses.replace(CASE, **fields)
    return _runtime_report.of_component(
        loaded(runner), runner.run, facts=facts, inputs=INPUTS, case=case, folder=folder
    )


def test_a_graph_that_is_replayed(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, replayed(FLASH, FLASH, GEMM)), {**ASKED, "threads": "1"}, tmp_path)
    assert facts["cuda_graph"] == {"requested": True, "replayed": True, "changed_inputs": True}
    assert {kind: entry["count"] for kind, entry in facts["kernels"].items()} == {"attention-flash": 2, "gemm": 1}
    assert (facts["changed_inputs"], facts["threads"]) == (RIGHT, "1")
    assert "kernels_other" not in facts
    assert facts["kernels_without_tensor_cores"] == {}


def test_a_graph_that_was_asked_for_and_is_not_replayed(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, launched(FLASH, GEMM)), ASKED, tmp_path)
    assert facts["cuda_graph"] == {"requested": True, "replayed": False, "changed_inputs": True}


def test_a_graph_of_a_part_with_most_kernels_beside_it(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, [*replayed(GEMM), *launched(*[FLASH] * 17)]), ASKED, tmp_path)
    assert facts["cuda_graph"]["replayed"] is False


def test_a_replayed_graph_with_copies_of_inputs_beside_it(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, [*replayed(FLASH), *launched(*["acme_copy"] * 5)]), ASKED, tmp_path)
    assert facts["cuda_graph"]["replayed"] is True


def test_a_stale_graph(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, replayed(FLASH), stale=True), ASKED, tmp_path)
    assert facts["cuda_graph"] == {"requested": True, "replayed": True, "changed_inputs": False}
    assert facts["changed_inputs"]["wrong"].startswith("with another sample, out_sample is 0.047 away")


def test_no_graph_was_asked_for(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, launched("acme")), {"cuda_graph": {"requested": False}}, tmp_path)
    assert facts["cuda_graph"] == {"requested": False, "replayed": None, "changed_inputs": None}
    assert facts["kernels_other"] == ["acme"]


def test_on_a_cpu(tmp_path):
    facts = component(ProbeRunner([], []), {}, tmp_path, device_kind="cpu")
    answer = {"digest": digest_of(MODEL.expected(INPUTS)), "promised": True}
    assert facts == {"answer": answer, "changed_inputs": RIGHT, "kernels_not_available": NONE_ON_CPU}


def test_the_answer_is_that_to_the_inputs_of_the_case_and_promised_where_the_engine_says_so(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, []), {}, tmp_path)
    assert facts["answer"] == {"digest": digest_of(MODEL.expected(INPUTS)), "promised": False}


def test_where_the_profiler_sees_nothing_it_is_not_known_whether_a_graph_was_replayed(gpu, tmp_path):
    facts = component(ProbeRunner(gpu, []), ASKED, tmp_path)
    assert facts["cuda_graph"]["replayed"] is None
    assert facts["kernels_not_available"] == "torch's profiler saw no kernel"


@pytest.mark.parametrize(
    ("said", "events", "expected"),
    [
        (True, [], True),
        (False, [], False),
        (True, replayed(FLASH), True),
        (False, replayed(FLASH), False),
        (True, launched(FLASH), False),
    ],
)
def test_an_engine_that_says_itself_whether_it_replays(gpu, tmp_path, said, events, expected):
    facts = component(ProbeRunner(gpu, events), {"cuda_graph": {"requested": True, "replayed": said}}, tmp_path)
    assert facts["cuda_graph"]["replayed"] is expected


@pytest.mark.parametrize(("launches", "expected"), [(51, True), (52, True), (50, False)])
def test_a_request_replays_the_graph_of_its_unet_in_every_step(gpu, tmp_path, launches, expected):
    unet = ProbeRunner(gpu, replayed(FLASH))
    parts = {"unet": loaded(unet), "vae_decoder": loaded(ProbeRunner(gpu, launched(GEMM)))}
    facts = {
        "threads": "1",
        **ASKED,
        "components": {"unet": {"threads": "1", **ASKED}, "vae_decoder": {"cuda_graph": {"requested": False}}},
    }

    def request():
        for _ in range(launches):
            unet.run()
        parts["vae_decoder"].runner.run()

    found = _runtime_report.of_request(parts, request, facts=facts, unet_calls=51, case=CASE, folder=tmp_path)
    graph = {"requested": True, "replayed": expected, "changed_inputs": True}
    assert found["components"]["unet"] == {"threads": "1", "changed_inputs": RIGHT, "cuda_graph": graph}
    assert found["components"]["vae_decoder"]["cuda_graph"]["replayed"] is None
    assert found["cuda_graph"] == graph
    assert found["kernels"]["attention-flash"]["count"] == launches
    assert found["kernels"]["gemm"]["count"] == 1
