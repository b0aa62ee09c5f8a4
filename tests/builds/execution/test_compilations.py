"""What an engine compiles is compiled once per case, kept, and found by every process in a folder of its own."""

from __future__ import annotations

import dataclasses
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from steps_seen import Seen

from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.builds.execution import compilations
from pytest_sdperf.builds.execution.compilations import Compilations
from pytest_sdperf.builds.execution.device_lock import DeviceLock
from pytest_sdperf.builds.inventory import Inventory
from pytest_sdperf.core import clock, progress
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import BuildError, OutOfMemoryError, WorkerError
from pytest_sdperf.core.settings import EngineRequest, Settings
from pytest_sdperf.core.values import to_json
from pytest_sdperf.tasks import TaskContext, _loading, perform, pipeline
from pytest_sdperf.tasks._execution import Execution, Part
from pytest_sdperf.tasks.sampling.phases import Silent
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel

CARD = Device("cuda", "NVIDIA T4", "t4", machine={"driver": "580.1"})


class SlowEngine(Engine):
    """Writes a file into an empty folder, and is quick where it finds one."""

    name = "slow"
    consumes = "onnx"
    device_kinds = ("cpu", "cuda")
    compiles = True
    version = "1"

    def default_optimizations(self, device_kind):
        return ("fp32",)

    def versions(self):
        return {"slow": self.version}

    @contextmanager
    def load(self, request):
        found = request.work_dir / "kernels"
        before = found.read_text() if found.is_file() else ""
        if not before:
            found.write_text(f"for {request.component}, {request.shapes}")
        (request.work_dir / "lock").touch()
        yield SlowRunner({"own": {"found": before}})


class SlowRunner:
    def __init__(self, facts):
        self._facts = facts

    def bind(self, inputs):
        self._inputs = inputs

    def run(self):
        pass

    synchronize = run

    def fetch(self):
        return {"out_sample": self._inputs["sample"]}

    def facts(self):
        return self._facts


class Here:
    """Runs tasks in this process, and counts them."""

    def __init__(self, engine):
        self.engine = engine
        self.tasks = []
        self.raises = None

    def catalog(self):
        catalog = Catalog()
        catalog.add_engine(self.engine)
        catalog.add_model(ProbeModel())
        return catalog

    def run_task(self, task, request, *, out_dir, **keywords):
        self.tasks.append((task.rpartition(":")[2], keywords["timeout_s"]))
        if self.raises is not None and task.endswith(":run"):
            raise self.raises
        out_dir.mkdir(parents=True, exist_ok=True)
        (out_dir / "stderr.txt").touch()
        context = TaskContext(out_dir, self.catalog(), Silent(), lambda text: None)
        from pytest_sdperf.tasks import compile as task_module

        return perform(getattr(task_module, task.rpartition(":")[2]), to_json(request), context)


@pytest.fixture
def here(monkeypatch):
    fake = Here(SlowEngine())
    monkeypatch.setattr(compilations.process, "run_task", fake.run_task)
    return fake


def start(folder):
    return {"registrars": [Registrar("m", folder)], "python": None, "env": {}, "out_dir": folder / "asked"}


def case(folder, *, options=None, workload=SMALL, compiled=None, **changes):
    build = dataclasses.replace(ProbeModel().build("onnx", folder), **changes)
    part = Part("slow", options or {}, build, "static", compiled)
    return Execution("probe", "unet", {"unet": part}, workload, "cpu")


def session(folder, *, device=CARD, run="mine", say=print):
    cache = Cache(folder / "cache", size_bytes=10**9)
    turns = DeviceLock(device, folder, run=run, say=say)
    return Compilations(cache, Settings(build_timeout_s=1234.0), device, turns)


def names_in(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def find(found, here, folder, given=None, **asked):
    request = EngineRequest("mine", "slow", **asked)
    return found.find(here.engine, given or case(folder), "unet", request=request, start=start(folder))


def test_it_is_compiled_once_within_the_build_timeout_and_found_again_by_the_next_session(here, tmp_path):
    first = find(session(tmp_path), here, tmp_path)
    assert here.tasks == [("versions", 1234.0), ("run", 1234.0)]
    assert (first.step.name, first.step.now) == ("compile", False)
    assert first.step.seconds > 0
    assert first.step.cpu_seconds >= 0
    assert first.size_bytes == sum(path.stat().st_size for path in first.folder.iterdir())
    assert names_in(first.folder) == ["kernels", "lock"]
    second = session(tmp_path)
    assert find(second, here, tmp_path) == find(second, here, tmp_path) == first
    assert [name for name, _ in here.tasks] == ["versions", "run", "versions"]


def test_how_the_key_begins_is_known_without_asking_any_library(here, tmp_path):
    found, request = session(tmp_path), EngineRequest("mine", "slow")
    start_of_key = found.key_start(here.engine, case(tmp_path), "unet", request=request)
    inventory = Inventory(tmp_path / "cache", size_bytes=10**9)
    assert (here.tasks, inventory.begins(start_of_key)) == ([], False)
    find(found, here, tmp_path)
    assert inventory.begins(start_of_key)
    assert not inventory.begins(f"{start_of_key}0" if found.cache.info().keys[0][40] != "0" else f"{start_of_key}1")


@pytest.mark.parametrize("what", ["version", "driver", "card", "build", "precision", "option", "size", "env"])
def test_whatever_it_depends_on_makes_another_one(here, tmp_path, what):
    find(session(tmp_path), here, tmp_path)
    device, given, asked = CARD, case(tmp_path), {}
    if what == "version":
        here.engine.version = "2"
    elif what == "driver":
        device = dataclasses.replace(CARD, machine={"driver": "581"})
    elif what == "card":
        device = dataclasses.replace(CARD, slug="l4")
    elif what in ("build", "precision"):
        given = case(tmp_path, **({"key": "other"} if what == "build" else {"dtype": "float16"}))
    elif what == "option":
        given = case(tmp_path, options={"level": "5"})
    elif what == "size":
        given = case(tmp_path, workload=dataclasses.replace(SMALL, height=128))
    else:
        asked["env"] = {"CUDA_MODULE_LOADING": "LAZY"}
    find(session(tmp_path, device=device), here, tmp_path, given, **asked)
    assert [name for name, _ in here.tasks].count("run") == 2


def test_the_steps_of_a_request_are_nothing_to_a_component(here, tmp_path):
    given = case(tmp_path, workload=dataclasses.replace(SMALL, steps=50, scheduler="euler"))
    found = session(tmp_path)
    assert find(found, here, tmp_path) == find(found, here, tmp_path, given)


def test_a_process_adds_files_to_a_folder_of_its_own(here, tmp_path):
    compiled = find(session(tmp_path), here, tmp_path)
    given = case(tmp_path, compiled=compiled)
    for number in range(2):
        folder = tmp_path / f"worker{number}"
        context = TaskContext(folder, here.catalog(), Silent(), lambda text: None)
        with _loading.loaded_component(given, "unet", context) as loaded:
            (folder / _loading.WORK_DIR / "more").touch()
            assert loaded.facts() == {"own": {"found": "for unet, static"}}
    assert names_in(compiled.folder) == ["kernels", "lock"]
    assert find(session(tmp_path), here, tmp_path) == compiled


def test_without_compiling_the_folder_is_empty_and_there_is_no_such_fact(here, tmp_path):
    context = TaskContext(tmp_path / "worker", here.catalog(), Silent(), lambda text: None)
    with _loading.loaded_component(case(tmp_path), "unet", context) as loaded:
        assert loaded.facts() == {"own": {"found": ""}}


def test_a_pipeline_loads_the_components_of_an_engine_together(here, tmp_path, monkeypatch):
    given = case(tmp_path)
    given = dataclasses.replace(given, parts=dict.fromkeys(("unet", "vae_decoder"), given.parts["unet"]))
    together = []

    @contextmanager
    def load_pipeline(requests):
        together.append({name: request.work_dir.name for name, request in requests.items()})
        yield {name: SlowRunner({"own": {"of": name}}) for name in requests}

    monkeypatch.setattr(here.engine, "load_pipeline", load_pipeline, raising=False)
    context = TaskContext(tmp_path / "worker", here.catalog(), Silent(), lambda text: None)
    with pipeline.loaded_pipeline(given, context) as parts:
        assert {name: part.facts()["own"] for name, part in parts.items()} == {
            "unet": {"of": "unet"},
            "vae_decoder": {"of": "vae_decoder"},
        }
        assert parts["unet"].load_s == parts["vae_decoder"].load_s
    assert together == [{"unet": _loading.WORK_DIR, "vae_decoder": _loading.WORK_DIR}]


@pytest.mark.parametrize("error", [OutOfMemoryError("the device is full"), BuildError("no kernel")])
def test_what_failed_is_not_tried_again_in_this_session(here, tmp_path, error):
    here.raises, found = error, session(tmp_path)
    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            find(found, here, tmp_path)
        assert str(caught.value) == str(error)
    assert [name for name, _ in here.tasks] == ["versions", "run"]


def test_it_is_shown_with_how_long_the_like_took_last_time_and_with_its_limit(here, tmp_path, monkeypatch):
    now_s, told = [0.0], []

    class Watcher(Seen):
        def changed(self, step):
            told.append(f"{step.words()}: {step.far(now_s[0])}")

    load = here.engine.load

    @contextmanager
    def slow(request):
        now_s[0] += 492
        progress.at(1, 4, "kernel")
        now_s[0] += 492
        with load(request) as runner:
            yield runner

    monkeypatch.setattr(clock, "monotonic_s", lambda: now_s[0])
    monkeypatch.setattr(here.engine, "load", slow)

    def compile_anew(**changes):
        find(session(tmp_path), here, tmp_path, case(tmp_path, **changes))

    with progress.watched_by(Watcher()):
        compile_anew()
        here.engine.version = "2"
        compile_anew()  # other versions, and about as much work
        compile_anew(key="other", dtype="float16")  # other work
    assert told == [
        "compiling probe unet: kernel 1 of 4, 8.2 min",
        "compiling probe unet: kernel 1 of 4, 8.2 min of about 16.4 min",
        "compiling probe unet: kernel 1 of 4, 8.2 min",
    ]


def test_a_timeout_names_the_option_that_allows_more(here, tmp_path):
    here.raises = WorkerError("the worker did not answer within 20 min", reason="timeout", tail="building")
    with pytest.raises(WorkerError) as caught:
        find(session(tmp_path), here, tmp_path)
    assert str(caught.value) == (
        "the worker did not answer within 20 min while compiling. Allow more with -o sdperf_build_timeout=TIME."
    )
    assert (caught.value.reason, caught.value.tail) == ("timeout", "building")


def test_a_run_that_measures_and_one_that_compares_the_same_case_do_not_wait_for_each_other_for_ever(here, tmp_path):
    """The first has the device and needs what is compiled; the second needs the same, and then the device."""
    waits, found = threading.Event(), []
    measuring = session(tmp_path, run="measuring")
    comparing = session(tmp_path, run="comparing", say=lambda text: waits.set())

    def compare():
        found.append(find(comparing, here, tmp_path))

    def measure():
        with measuring.turns.alone("slow unet"):
            second.start()
            assert waits.wait(30)
            found.append(find(measuring, here, tmp_path))

    # Nobody joins those that wait for ever.
    first, second = (threading.Thread(target=target, daemon=True) for target in (measure, compare))
    first.start()
    for thread in (first, second):
        thread.join(30)
    assert len(found) == 2
    assert found[0] == found[1]
    assert [name for name, _ in here.tasks].count("run") == 1
