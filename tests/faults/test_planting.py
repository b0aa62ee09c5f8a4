"""A fault goes in at its place and nowhere else, and what judges never has one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.references.derived import plain_runner
from pytest_sdperf.checks.references.stored import reference_keys
from pytest_sdperf.core.alteration import Alteration, BuildStage
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.device import Device, DeviceProbe, Health
from pytest_sdperf.core.schedulers import make_scheduler
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.core.values import Case
from pytest_sdperf.faults import builtins, known
from pytest_sdperf.faults.fault import Fault, FaultStage, NowhereError
from pytest_sdperf.faults.planting import PlantedFault

CATALOG = Catalog()
builtins.pytest_sdperf_register(CATALOG)
CONTEXT = SimpleNamespace(catalog=CATALOG)
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

    def energy_j(self, device):
        return 100.0


def planted(name: str) -> Alteration:
    return CATALOG.alteration(name)


def loaded(name: str, component: str = "text_encoder") -> Runner:
    return planted(name).loaded(component, Doubling())


def answer(runner: Runner, value: float) -> list[float]:
    runner.bind({"in": np.array([[float(value)]])})
    runner.run()
    runner.synchronize()
    return [float(number) for number in runner.fetch()["out"].reshape(-1)]


HOOKS = {
    FaultStage.CASES: lambda one, path: one.cases((1, 2)),
    FaultStage.MACHINE: lambda one, path: one.device(CARD),
    FaultStage.READINGS: lambda one, path: one.probe(Calm()).health(CARD),
    FaultStage.ENERGY: lambda one, path: one.probe(Calm()).energy_j(CARD),
    FaultStage.BASELINE: lambda one, path: one.read_baseline(path, Path.read_text),
    FaultStage.LIBRARY: lambda one, path: one.libraries(),
    FaultStage.RUNNER: lambda one, path: one.loaded("text_encoder", Doubling()),
    FaultStage.ANSWER: lambda one, path: one.answer({"sample": {}}, None),
}
BUILT = {FaultStage[stage.name]: stage for stage in BuildStage}


@pytest.mark.parametrize("place", FaultStage)
def test_a_fault_goes_in_at_its_place_and_nowhere_else(place, tmp_path):
    path, calls = tmp_path / "h200.json", []
    path.write_text("0123456789")
    found = known.get("weights-quantized").found
    fault = Fault("x", "It is wrong.", place, lambda *given: calls.append(given) or given[:1], found, "text_encoder")
    if place is FaultStage.BASELINE:
        fault = dataclasses.replace(fault, change=lambda text: calls.append(text) or text)
    one = PlantedFault(fault)
    for hook, call in HOOKS.items():
        before = len(calls)
        call(one, path)
        assert len(calls) == before + (hook is place)
    assert one.stages("text_encoder") == tuple(filter(None, [BUILT.get(place)]))
    assert one.stages("unet") == ()
    assert one.shared is (place is FaultStage.LIBRARY)


def test_every_place_has_a_fault():
    assert {fault.place for fault in known.FAULTS.values()} == set(FaultStage) == {*HOOKS, *BUILT}


def test_what_alters_nothing_leaves_everything_as_it_was(tmp_path):
    nothing, runner, calm, answer = planted(""), Doubling(), Calm(), {"sample": {}}
    assert nothing.loaded("unet", runner) is runner
    assert nothing.probe(calm) is calm
    assert nothing.device(CARD) is CARD
    assert nothing.answer(answer, None) is answer
    assert nothing.cases((1, 2)) == (1, 2)
    assert nothing.read_baseline(tmp_path, lambda one: one) == tmp_path
    assert (nothing.stages("unet"), nothing.title, nothing.told, nothing.shared) == ((), "", "", False)


def test_a_reference_has_no_fault_but_that_of_the_libraries_that_it_shares():
    request = EngineRequest("ort-cpu", "ort-cpu")
    for name in ("", *known.FAULTS):
        plain = plain_runner(CaseRunner(CASE, request, CONTEXT, name))
        assert plain.altered == (name if name == "environment-scheduler-clips" else "")
        assert plain.case.engine == "torch"


def test_a_reference_with_a_fault_is_kept_under_a_key_of_its_own():
    class Plain(CaseRunner):
        def builds(self):
            return {}

        def fed(self):
            return {}

    def key(altered: str) -> str:
        bench = SimpleNamespace(device=CARD, catalog=CATALOG)
        plain = Plain(CASE, EngineRequest("torch", "torch"), bench, altered)
        return reference_keys(plain, {"float32": {}}, code=["pytest_sdperf.tasks.pipeline"])["float32"]

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
    with planted("environment-scheduler-clips").libraries():
        assert abs(step()) < abs(sound)
    assert step() == sound
    with planted("").libraries(), planted("runtime-error-swallowed").libraries():
        assert step() == sound


def test_a_component_without_its_fault_is_the_very_same():
    runner = Doubling()
    assert planted("runtime-error-swallowed").loaded("unet", runner) is runner
    assert planted("weights-quantized").loaded("vae_decoder", runner) is runner


def test_answers_go_wrong_as_the_fault_says():
    assert answer(loaded(""), 3) == [6]
    assert answer(loaded("runtime-error-swallowed"), 3) == [0]
    assert answer(loaded("numerics-one-percent-high"), 3) == [pytest.approx(6.06)]
    first, former = loaded("runtime-answers-to-first-inputs"), loaded("runtime-answers-of-former-call")
    assert [answer(first, value) for value in (1, 2, 3)] == [[2], [2], [2]]
    assert [answer(former, value) for value in (1, 2, 3)] == [[2], [2], [4]]


def test_only_a_sample_gets_the_fault_of_an_answer():
    fault = planted("harness-time-of-zero")
    assert fault.answer({"outputs": "x"}, None) == {"outputs": "x"}
    changed = fault.answer({"sample": {"iterations_s": [1.0, 2.0]}}, None)
    assert changed == {"sample": {"iterations_s": [0.0, 2.0]}}


def test_readings_have_the_fault_and_everything_else_of_the_probe_is_passed_on():
    shared = planted("environment-shared-with-others").probe(Calm())
    assert shared.health(CARD) == Health(other_processes=1, memory_used_bytes=7)
    assert (shared.name, shared.kind, shared.find()) == ("calm", "cuda", (CARD,))
    assert (shared.memory_used_bytes(CARD), shared.clock_commands(CARD)) == (7, None)


def test_energy_has_the_fault_where_the_device_tells_it(monkeypatch):
    card = Calm()
    hungry, shared = (planted(f"environment-{name}").probe(card) for name in ("draws-more", "shared-with-others"))
    assert (hungry.energy_j(CARD), shared.energy_j(CARD)) == (150.0, 100.0)
    assert hungry.health(CARD) == card.health(CARD)
    monkeypatch.setattr(card, "energy_j", lambda device: None)
    assert hungry.energy_j(CARD) is None


def test_counters_grow_from_reading_to_reading():
    slowed = planted("environment-slowed-down-meanwhile").probe(Calm())
    assert [slowed.health(CARD).throttled["hardware thermal slowdown"] for _ in range(3)] == [0.75, 1.5, 2.25]


def test_a_machine_has_the_fault_in_one_key():
    assert planted("environment-other-driver").device(CARD).machine == {"driver": "580.65.06", "memory_bytes": 100}


def test_a_baseline_is_read_from_a_copy_and_stays_as_it_was(tmp_path):
    path = tmp_path / "h200.json"
    path.write_text("0123456789")
    fault = planted("harness-baseline-cut-off")
    read = fault.read_baseline(path, lambda one: (one.name, one.read_text()))
    assert read == ("h200.json", "01234")
    assert path.read_text() == "0123456789"
    absent = tmp_path / "a100.json"
    assert fault.read_baseline(absent, lambda one: one) == absent


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
