from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from door_toys import ToyEngine, ToyProbe
from extras import extra_command

from pytest_sdperf import builtins, cli
from pytest_sdperf.cli import doctor
from pytest_sdperf.cli.doctor import NEVER, EngineRun, optimization_lines, read_runs
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Requirement
from pytest_sdperf.core.device import ClockCommands, Device, DeviceProbe
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.gpu_facts import load_gpus, to_slug
from pytest_sdperf.fusing.optimizations import LADDER

MANUAL = Path(__file__).parents[2] / "docs" / "engines.md"
OPTIMIZATIONS = [optimization.name for optimization in LADDER]


class NoDriver(DeviceProbe):
    name = "nowhere"
    kind = "cuda"

    def find(self):
        raise DeviceMissingError("no driver is installed")

    def health(self, device):
        raise NotImplementedError


def builtin_engines():
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    return catalog.engines.items()


def test_it_says_what_works_what_the_others_need_and_what_was_seen(monkeypatch, tmp_path, capsys):
    def register(catalog):
        catalog.add_engine(ToyEngine("here", needs="pytest"))
        catalog.add_engine(ToyEngine("gone", consumes="module", needs="a_module_that_nobody_has"))
        for optimization in LADDER[:4]:
            catalog.add_optimization(optimization)
        catalog.add_device_probe(ToyProbe(Device("cpu", "Toy CPU", "toy-cpu")))
        catalog.add_device_probe(NoDriver())

    runs = [
        {"engine": "here", "date": "2026-01-02", "card": "Toy", "driver": "1.2", "versions": {"a": "3", "b": "4"}},
        {"engine": "here", "date": "2026-03-04", "card": "Toy CPU", "driver": "", "versions": {"a": "5"}},
    ]
    (tmp_path / "runs.json").write_text(json.dumps({"runs": runs}))
    monkeypatch.setattr(builtins, "pytest_sdperf_register", register)
    monkeypatch.setattr(doctor, "read_runs", lambda: read_runs(tmp_path / "runs.json"))
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "engines",
        f"  here: ready (pytest {pytest.__version__}; runs on cpu)",
        "    ladder    fp32, fp16, fmha, nhwc-conv",
        "    last run  2026-03-04 on Toy CPU with a 5",
        "    last run  2026-01-02 on Toy (driver 1.2) with a 3, b 4",
        "  gone: package 'a_module_that_nobody_has' is not installed; type: pip install a_module_that_nobody_has",
        "    ladder    fp32, fp16",
        "    not       fmha, nhwc-conv: gone runs the torch module",
        "    last run  never run on hardware",
        "devices",
        "  toy-cpu: Toy CPU (toy-cpu)",
        "  nowhere: no driver is installed",
    ]


class Lockable(ToyProbe):
    def clock_commands(self, device):
        return ClockCommands("sudo lock 1485", "sudo unlock")


def test_it_tells_how_the_clocks_of_a_gpu_may_be_locked(monkeypatch):
    def register(catalog):
        catalog.add_device_probe(ToyProbe(Device("cpu", "Toy CPU", "toy-cpu")))
        catalog.add_device_probe(Lockable(Device("cuda", "Toy GPU", "toy-gpu")))
        catalog.add_device_probe(NoDriver())

    monkeypatch.setattr(builtins, "pytest_sdperf_register", register)
    assert list(doctor.doctor(argparse.Namespace()))[-3:] == [
        "clocks: the owner of a GPU may lock them while it is measured, and let them go afterwards",
        "  sudo lock 1485",
        "  sudo unlock",
    ]


@pytest.mark.parametrize(("found", "kind"), [("cpu", "cpu"), ("cuda", "cuda")])
def test_it_asks_for_the_packages_of_the_gpu_that_is_here(monkeypatch, found, kind):
    engine = ToyEngine("gone", kinds=("cpu", "cuda", "rocm"))
    engine.requirements, engine.extra = (Requirement("a_module_that_nobody_has"),), ""

    def register(catalog):
        catalog.add_engine(engine)
        catalog.add_device_probe(ToyProbe(Device(found, "Toy", "toy")))

    monkeypatch.setattr(builtins, "pytest_sdperf_register", register)
    assert list(doctor.doctor(argparse.Namespace()))[1] == (
        f"  gone: package 'a_module_that_nobody_has' is not installed; type: {extra_command(kind)}"
    )


def test_optimizations_that_are_refused_for_one_reason_share_a_line():
    assert list(optimization_lines(builtin_engines()["ort-trt"], OPTIMIZATIONS)) == [
        "ladder    fp32, fp16",
        (
            "not       fmha, nhwc-conv, group-norm, bias-split-gelu, packed-qkv, bias-add: ort-trt fuses for itself; "
            "the operators of each are onnxruntime's own"
        ),
    ]


def test_the_shipped_record_is_about_engines_and_cards_that_exist():
    runs = read_runs()
    assert set(runs) <= set(builtin_engines())
    for run in (run for engine_runs in runs.values() for run in engine_runs):
        assert isinstance(run, EngineRun)
        assert run.versions
        if run.driver:
            assert load_gpus().facts(to_slug(run.card.removeprefix("NVIDIA "))) is not None


@pytest.mark.parametrize("name", list(builtin_engines()))
def test_the_manual_says_the_same_of_every_engine(name):
    lines = [line for line in MANUAL.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    row, *_, options = (line for line in lines if f"`{name}`" in line.split("|")[1])
    _, _, devices, _, optimizations, runs, _ = (cell.strip() for cell in row.split("|"))
    engine = builtin_engines()[name]
    supported = [optimization for optimization in OPTIMIZATIONS if engine.supports(optimization) is None]
    assert devices == ", ".join(engine.device_kinds)
    assert optimizations == ("all" if supported == OPTIMIZATIONS else ", ".join(supported))
    assert runs == ("; ".join(map(str, read_runs().get(name, ()))) or NEVER)
    for option, about in engine.options.items():
        assert f"`{option}={about.default}" in options


def test_the_manual_does_not_claim_a_run_that_is_not_recorded():
    page = MANUAL.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    never = {line.split("`")[1] for line in rows if line.rstrip(" |").endswith(NEVER)}
    assert never == set(builtin_engines()) - set(read_runs())
