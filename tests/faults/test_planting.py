"""A fault goes in at its place and nowhere else, and what judges never has one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.keys import reference_keys
from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.core.values import Case
from pytest_sdperf.faults import known, planting
from pytest_sdperf.faults.fault import FaultStage, NowhereError

CASE = Case("shapes", "text_encoder", "ort-cpu", "fp32")
CARD = Device("cuda", "A card", "h200", machine={"driver": "1", "memory_bytes": 100})


class Doubling(Runner):
    """Puts out twice what it was given."""

    def bind(self, inputs):
        self._inputs = dict(inputs)

    def run(self):
        self._outputs = {"out": 2 * self._inputs["in"]}

    def synchronize(self):
        return

    def fetch(self):
        return dict(self._outputs)


class Calm(DeviceProbe):
    name = "calm"
    kind = "cuda"

    def find(self):
        return (CARD,)

    def health(self, device):
        return Health(other_processes=0, memory_used_bytes=7)


def loaded(name: str, component: str = "text_encoder") -> Runner:
    return planting.loaded(name, component, Doubling())


def answer(runner: Runner, value: float) -> list[float]:
    runner.bind({"in": np.array([[float(value)]])})
    runner.run()
    runner.synchronize()
    return [float(number) for number in runner.fetch()["out"].reshape(-1)]


@pytest.mark.parametrize("place", FaultStage)
def test_every_place_has_a_fault_and_is_told_of_no_other(place):
    mine = [fault.name for fault in known.FAULTS.values() if fault.place is place]
    assert mine
    assert [name for name in known.FAULTS if planting.at(name, place)] == mine
    assert planting.at("", place) is None


def test_only_what_happens_in_a_worker_is_told_to_it():
    told = {known.get(name).place for name in known.FAULTS if planting.of_task(name)}
    assert told == {FaultStage.RUNNER, FaultStage.LIBRARY, FaultStage.ANSWER}
    assert planting.of_task("runtime-error-swallowed") == "runtime-error-swallowed"
    assert planting.of_task("") == ""


def test_only_what_is_built_has_a_builder_of_its_own():
    built = {known.get(name).place for name in known.FAULTS if planting.builds(name)}
    assert built == {FaultStage.WEIGHTS, FaultStage.EXPORT, FaultStage.GRAPH}
    assert not planting.builds("")


def test_a_reference_has_no_fault_but_that_of_the_libraries_that_it_shares():
    request = EngineRequest("ort-cpu", "ort-cpu")
    for name in ("", *known.FAULTS):
        plain = plain_runner(CaseRunner(CASE, request, SimpleNamespace(), name))
        assert plain.plant == (name if name == "environment-scheduler-clips" else "")
        assert plain.case.engine == "torch"


def test_a_reference_with_a_fault_is_kept_under_a_key_of_its_own():
    def key(plant: str) -> str:
        bench = SimpleNamespace(device=CARD)
        plain = SimpleNamespace(case=CASE, builds=dict, fed=dict, context=bench, plant=plant)
        keys = reference_keys(plain, {"float32": {}}, code=["pytest_sdperf.tasks.pipeline"])  # type: ignore[arg-type]
        return keys["float32"]

    assert key("environment-scheduler-clips") != key("")


def test_a_library_has_its_fault_for_the_life_of_a_request():
    import torch

    def step() -> float:
        scheduler = make_scheduler("ddim", {"clip_sample": False, "prediction_type": "epsilon"})
        scheduler.set_timesteps(4)
        sample = torch.full((1, 4, 2, 2), 3.0)
        moved = scheduler.step(torch.zeros_like(sample), scheduler.timesteps[0], sample, return_dict=False)[0]
        return float(moved.flatten()[0])

    sound = step()
    with planting.libraries("environment-scheduler-clips"):
        assert abs(step()) < abs(sound)
    assert step() == sound
    with planting.libraries(""), planting.libraries("runtime-error-swallowed"):
        assert step() == sound


def test_a_component_without_its_fault_is_the_very_same():
    runner = Doubling()
    assert planting.loaded("", "text_encoder", runner) is runner
    assert planting.loaded("runtime-error-swallowed", "unet", runner) is runner
    assert planting.loaded("weights-quantized", "vae_decoder", runner) is runner


def test_answers_go_wrong_as_the_fault_says():
    assert answer(loaded(""), 3) == [6]
    assert answer(loaded("runtime-error-swallowed"), 3) == [0]
    assert answer(loaded("numerics-one-percent-high"), 3) == [pytest.approx(6.06)]
    first, former = loaded("runtime-answers-to-first-inputs"), loaded("runtime-answers-of-former-call")
    assert [answer(first, value) for value in (1, 2, 3)] == [[2], [2], [2]]
    assert [answer(former, value) for value in (1, 2, 3)] == [[2], [2], [4]]


def test_only_a_sample_gets_the_fault_of_an_answer():
    request = {"case": {"planted": "harness-time-of-zero"}}
    assert planting.answered(request, {"outputs": "x"}, None) == {"outputs": "x"}
    assert planting.answered({"case": {"planted": ""}}, {"sample": {"iterations_s": [1.0, 2.0]}}, None) == {
        "sample": {"iterations_s": [1.0, 2.0]}
    }
    changed = planting.answered(request, {"sample": {"iterations_s": [1.0, 2.0]}}, None)
    assert changed == {"sample": {"iterations_s": [0.0, 2.0]}}


def test_readings_have_the_fault_and_everything_else_of_the_probe_is_passed_on():
    calm = Calm()
    assert planting.probe("", calm) is calm
    shared = planting.probe("environment-shared-with-others", calm)
    assert shared.health(CARD) == Health(other_processes=1, memory_used_bytes=7)
    assert (shared.name, shared.kind, shared.find()) == ("calm", "cuda", (CARD,))
    assert (shared.memory_used_bytes(CARD), shared.clock_commands(CARD)) == (7, None)


def test_counters_grow_from_reading_to_reading():
    slowed = planting.probe("environment-slowed-down-meanwhile", Calm())
    assert [slowed.health(CARD).throttled["hardware thermal slowdown"] for _ in range(3)] == [0.75, 1.5, 2.25]


def test_a_machine_has_the_fault_in_one_key():
    assert planting.device("", CARD) is CARD
    assert planting.device("environment-other-driver", CARD).machine == {"driver": "580.65.06", "memory_bytes": 100}


def test_a_baseline_is_read_from_a_copy_and_stays_as_it_was(tmp_path):
    path = tmp_path / "h200.json"
    path.write_text("0123456789")
    read = planting.read_baseline("harness-baseline-cut-off", path, lambda one: (one.name, one.read_text()))
    assert read == ("h200.json", "01234")
    assert path.read_text() == "0123456789"
    assert planting.read_baseline("", path, lambda one: one) == path
    absent = tmp_path / "a100.json"
    assert planting.read_baseline("harness-baseline-cut-off", absent, lambda one: one) == absent


def test_a_fault_without_a_place_says_so():
    with pytest.raises(NowhereError) as nowhere:
        known.get("weights-norms-reset").change({"conv.weight": np.ones((2, 2, 1, 1), np.float32)})
    assert str(nowhere.value) == r"no weight is named norm[\w.]*\.weight$"


def test_rounding_to_bfloat16_is_that_of_torch():
    import torch

    values = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    weights = {"x": values.copy()}
    known.get("weights-rounded-to-bfloat16").change(weights)
    assert np.array_equal(weights["x"], torch.from_numpy(values).bfloat16().float().numpy())
