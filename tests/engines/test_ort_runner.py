"""How the ort-* engines hold their inputs and outputs."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_onnxruntime_session import SHAPES, FakePart, FakeSession

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.values import Build, TensorSpec
from pytest_sdperf.engines import _ort, _ort_log, _ort_memory
from pytest_sdperf.engines.ort_cpu import OrtCpuEngine
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel


class Model(ProbeModel):
    def inputs(self, component, workload):
        names = {"sample": "float", "timestep": "float32"}
        return tuple(TensorSpec(name, dtype, SHAPES[name]) for name, dtype in names.items())

    def outputs(self, component, workload):
        return (TensorSpec("out_sample", "float", SHAPES["out_sample"]),)


class SizedModel(Model):
    def inputs(self, component, workload):
        sample, timestep = super().inputs(component, workload)
        return (dataclasses.replace(sample, shape=(2 * workload.batch_size, 4)), timestep)

    def outputs(self, component, workload):
        return (TensorSpec("out_sample", "float", (2 * workload.batch_size, 4)),)


def sized(seed, rows):
    generator = torch.Generator().manual_seed(seed)
    sample = torch.randn((rows, 4), generator=generator).to(torch.float16)
    return {"sample": sample, "timestep": torch.tensor([float(seed)])}


def request_for(model, build, **options):
    return LoadRequest(
        build=build,
        model=model,
        component="unet",
        workload=SMALL,
        device_kind="cuda",
        device_index=3,
        options=options,
        work_dir=build.path.parent,
    )


def runner_on(session, **options):
    memory = _ort_memory.TorchMemory("cuda", 3, torch_device="cpu")
    request = request_for(Model(), Build("k", "onnx", Path("model.onnx"), "float16"), **options)
    return _ort.OrtRunner(session, request, memory=memory, facts={})


def tensors(seed, dtype=torch.float16):
    generator = torch.Generator().manual_seed(seed)
    return {
        "sample": torch.randn(SHAPES["sample"], generator=generator).to(dtype),
        "timestep": torch.tensor([float(seed)]),
    }


def expected(inputs):
    return inputs["sample"].to(torch.float16) * 2 + inputs["timestep"].to(torch.float16)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_every_call_uses_the_addresses_of_the_first_and_gives_the_outputs_of_its_own_inputs(cuda_graph):
    session = FakeSession(cuda_graph=cuda_graph)
    runner = runner_on(session)
    (binding,) = session.bindings
    first_addresses = dict(binding.addresses)
    kept, wanted = [], []
    for seed in (1, 2, 3):
        inputs = tensors(seed)
        kept.append(runner.call(inputs)["out_sample"])
        wanted.append(expected(inputs))
        runner.bind({name: tensor.numpy() for name, tensor in tensors(seed + 10).items()})
        runner.run()
        runner.synchronize()
        assert np.array_equal(runner.fetch()["out_sample"], expected(tensors(seed + 10)).numpy())
    # Compared at the end: a result that lay in the bound buffer would have been written over.
    assert all(torch.equal(one, other) for one, other in zip(kept, wanted, strict=True))
    assert session.bindings == [binding]
    assert binding.addresses == first_addresses
    assert [entry for entry in binding.log if entry != "synchronized"] == [
        (name, where[0]) for name, where in first_addresses.items()
    ]


@pytest.mark.parametrize("cuda_graph", ["off", "on"])
def test_each_size_has_buffers_and_a_graph_of_its_own(cuda_graph):
    """As the CUDA provider wants it: a graph is replayed onto the shapes and addresses that it was captured with."""
    session = FakeSession(cuda_graph=cuda_graph == "on")
    memory = _ort_memory.TorchMemory("cuda", 3, torch_device="cpu")
    build = Build("k", "onnx", Path("model.onnx"), "float16")
    request = request_for(SizedModel(), build, cuda_graph=cuda_graph)
    runner = _ort.OrtRunner(session, request, memory=memory, facts={})
    other = dataclasses.replace(SMALL, batch_size=3)
    kept, wanted = [], []
    for seed, size in enumerate([SMALL, other, SMALL, other, dataclasses.replace(other, steps=9)]):
        runner.resize(size)
        inputs = sized(seed, 2 * size.batch_size)
        kept.append(runner.call(inputs)["out_sample"])
        wanted.append(expected(inputs))
        runner.bind({name: tensor.numpy() for name, tensor in inputs.items()})
        runner.run()
        runner.synchronize()
        assert np.array_equal(runner.fetch()["out_sample"], wanted[-1].numpy())
    assert all(torch.equal(one, right) for one, right in zip(kept, wanted, strict=True))
    assert len(session.bindings) == 2  # steps change no shape
    assert sorted(session.captured) == (["0", "1"] if cuda_graph == "on" else [])
    places = [{name: where[:2] for name, where in binding.addresses.items()} for binding in session.bindings]
    assert places[0]["sample"][1] == (2, 4)
    assert places[1]["sample"][1] == (6, 4)
    text = r"input 'sample' has shape \(2, 4\); the component was loaded for \(6, 4\)"
    with pytest.raises(ValueError, match=text):
        runner.call(sized(0, 2))


def test_outputs_are_read_only_after_the_session_has_finished():
    session = FakeSession()
    runner = runner_on(session)
    runner.call(tensors(1))
    assert session.bindings[0].log[-1] == "synchronized"


def test_inputs_are_cast_to_the_type_that_the_graph_asks_for():
    inputs = tensors(4, torch.float32)
    outputs = runner_on(FakeSession()).call(inputs)
    assert outputs["out_sample"].dtype == torch.float16
    assert torch.equal(outputs["out_sample"], expected(inputs))


def test_the_callers_tensors_are_neither_changed_nor_kept():
    runner = runner_on(FakeSession())
    inputs = tensors(5)
    before = {name: tensor.clone() for name, tensor in inputs.items()}
    first = runner.call(inputs)["out_sample"]
    assert all(torch.equal(inputs[name], before[name]) for name in inputs)
    inputs["sample"].zero_()
    runner.run()
    assert np.array_equal(runner.fetch()["out_sample"], first.numpy())


def test_what_was_fetched_survives_the_next_run():
    runner = runner_on(FakeSession())
    runner.call(tensors(6))
    fetched = runner.fetch()["out_sample"]
    kept = fetched.copy()
    runner.call(tensors(7))
    assert np.array_equal(fetched, kept)


@pytest.mark.parametrize("by", ["call", "bind"])
def test_an_input_of_another_shape_is_refused_and_not_broadcast(by):
    inputs = tensors(8) | {"sample": torch.ones(1, 4)}
    runner = runner_on(FakeSession())
    with pytest.raises(ValueError) as caught:
        runner.call(inputs) if by == "call" else runner.bind({name: value.numpy() for name, value in inputs.items()})
    assert str(caught.value) == "input 'sample' has shape (1, 4); the component was loaded for (2, 4)"


def test_without_torch_on_the_gpu_onnxruntime_owns_the_memory(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert isinstance(_ort_memory.cuda_memory(0), _ort_memory.OrtMemory)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert isinstance(_ort_memory.cuda_memory(0), _ort_memory.TorchMemory)


@pytest.fixture
def on_cpu(tmp_path):
    model = ProbeModel()
    request = dataclasses.replace(request_for(model, model.build("onnx", tmp_path), threads="1"), device_kind="cpu")
    with OrtCpuEngine().load(request) as runner:
        yield runner


def test_a_real_session_on_the_cpu_keeps_its_addresses_and_shares_no_memory(on_cpu):
    model = ProbeModel()
    addresses = {name: value.data_ptr() for name, value in (on_cpu._inputs | on_cpu._outputs).items()}
    arrays = {seed: dict(model.example("unet", SMALL, seed=seed)) for seed in (0, 1)}
    kept = {}
    for seed, inputs in arrays.items():
        on_cpu.bind(inputs)
        on_cpu.run()
        kept[seed] = on_cpu.fetch()["out_sample"]
        on_cpu.call({name: torch.from_numpy(array) for name, array in inputs.items()})
    for seed, inputs in arrays.items():
        assert np.allclose(kept[seed], model.expected(inputs)["out_sample"], atol=1e-5)
    assert addresses == {name: value.data_ptr() for name, value in (on_cpu._inputs | on_cpu._outputs).items()}
    assert not any(
        np.shares_memory(array, value.numpy())
        for inputs in arrays.values()
        for array, value in zip(inputs.values(), on_cpu._inputs.values(), strict=True)
    )


def test_placement_counts_the_nodes_of_each_provider(on_cpu):
    placed = on_cpu.facts()["placement"]
    assert list(placed) == ["CPUExecutionProvider"]
    assert placed["CPUExecutionProvider"] >= 2


@pytest.mark.parametrize(("counts", "told"), [({"::MatMul": 3, "com.microsoft::Gelu": 2}, 5), ({}, None)])
def test_how_many_nodes_the_file_has_is_told_where_they_were_counted(counts, told):
    build = Build("k", "onnx", Path("model.onnx"), "float16", counts=counts)
    memory = _ort_memory.TorchMemory("cuda", 3, torch_device="cpu")
    runner = _ort.OrtRunner(FakeSession(), request_for(SizedModel(), build), memory=memory, facts={})
    assert runner.facts().get("file_nodes") == told


def test_placement_is_empty_where_onnxruntime_does_not_know(tmp_path):
    import onnxruntime

    model = ProbeModel()
    path = str(model.build("onnx", tmp_path).path)
    forgetful = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for session in (forgetful, FakeSession()):  # the second as before onnxruntime had the question
        parts, why_not = _ort.assignment(session)
        assert (parts, _ort.placement(parts)) == ([], {})
        assert why_not


@pytest.mark.parametrize(
    ("options", "expected"), [({}, "usual"), ({"cuda_graph": "off"}, "usual"), ({"cuda_graph": "on"}, "plain")]
)
def test_a_plain_run_uses_no_captured_graph(options, expected):
    session = FakeSession(cuda_graph=True)
    runner = runner_on(session, **options)
    runner.call(tensors(1))
    runner.run_plainly()
    assert session.runs == ["usual", expected]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, None), ({"cuda_graph": "off"}, {"requested": False}), ({"cuda_graph": "on"}, {"requested": True})],
)
def test_facts_say_whether_a_cuda_graph_was_asked_for(options, expected):
    assert runner_on(FakeSession(), **options).facts().get("cuda_graph") == expected


MEMCPY = (
    "\x1b[0;93m2026-11-28 06:34:30.138925205 [W:onnxruntime:{component}, transformer_memcpy.cc:111 ApplyImpl] {count} "
    "Memcpy nodes are added to the graph main_graph for CUDAExecutionProvider. It might have negative impact on "
    "performance (including unable to run CUDA graph). Set session_options.log_severity_level=1 to see the detail logs "
    "before this message.\x1b[m\n"
)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (None, None),
        ("", 0),
        (MEMCPY.format(component="unet", count=3), 3),
        (MEMCPY.format(component="unet", count=3) + MEMCPY.format(component="unet", count=14), 17),
        (MEMCPY.format(component="vae_decoder", count=3), 0),
    ],
)
def test_where_nodes_are_and_what_is_copied_between_devices(said, expected, tmp_path, monkeypatch):
    session = FakeSession()
    session.get_provider_graph_assignment_info = lambda: [
        FakePart("CUDAExecutionProvider", ("", "MatMul", "a"), ("com.microsoft", "NhwcConv", "b")),
        FakePart("CPUExecutionProvider", ("", "Shape", "s"), ("", "Gather", "")),
        FakePart("CPUExecutionProvider", ("com.microsoft", "Gather", "own"), ("", "InstanceNormalization", "n")),
    ]
    monkeypatch.setattr(_ort_log, "STDERR", tmp_path / "stderr.txt")
    if said is not None:
        _ort_log.STDERR.write_text(f"loading\n{said}done\n")
    facts = runner_on(session).facts()
    assert facts["placement"] == {"CUDAExecutionProvider": 2, "CPUExecutionProvider": 4}
    assert facts["cpu_nodes"] == ["Gather own", "InstanceNormalization n", "Shape s", "Gather"]
    assert (facts["cpu_node_count"], facts["shape_node_count"]) == (4, 2)
    assert facts["memcpy_nodes"] == expected


def test_an_older_onnxruntime_tells_copies_between_devices_and_not_where_nodes_are(tmp_path, monkeypatch):
    import onnxruntime

    monkeypatch.setattr(_ort_log, "STDERR", tmp_path / "stderr.txt")
    _ort_log.STDERR.write_text(MEMCPY.format(component="unet", count=3))
    facts = runner_on(FakeSession()).facts()
    assert facts["placement_not_available"] == f"onnxruntime {onnxruntime.__version__} does not tell"
    assert (facts["memcpy_nodes"], facts["placement"], "cpu_node_count" in facts) == (3, {}, False)


def test_onnxruntime_still_tells_memcpy_nodes_in_these_words():
    import onnxruntime

    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("onnxruntime_pybind11_state*.so")
    assert b" Memcpy nodes are added to the graph " in library.read_bytes()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="Linux shows a process its own stderr")
def test_what_a_session_says_carries_the_name_of_its_component(tmp_path):
    import onnx
    import onnxruntime

    model = ProbeModel()
    build = model.build("onnx", tmp_path)
    graph = onnx.load(build.path)
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, "float32"), "unused"))
    onnx.save(graph, build.path)
    request = dataclasses.replace(request_for(model, build, threads="1"), device_kind="cpu")
    said = tmp_path / "said.txt"
    with said.open("w") as file:
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            options = _ort.session_options(onnxruntime, {})
            options.log_severity_level = 2
            _ort.create_session(request, options=options, providers=["CPUExecutionProvider"])
            assert _ort_log.STDERR.read_text() == said.read_text()
            assert _ort_log.memcpy_nodes("unet") == 0
        finally:
            os.dup2(saved, 2)
            os.close(saved)
    assert "[W:onnxruntime:unet, " in said.read_text()


def test_what_the_arenas_of_a_cuda_provider_hold_is_told_until_calls_are_repeated(tmp_path, monkeypatch):
    import onnxruntime

    severities = []
    monkeypatch.setattr(onnxruntime, "set_default_logger_severity", severities.append)
    monkeypatch.setattr(_ort_log, "STDERR", tmp_path / "stderr.txt")
    _ort_log.STDERR.write_text("Reserving memory in BFCArena for Cuda size: 4096\n")
    runner = runner_on(FakeSession())
    assert [runner.allocator_peak_bytes(reset=reset) for reset in (True, False)] == [4096, 4096]
    for phase in ("first_run", "second_run", "warmup", "timed"):
        runner.enter(phase)
        runner.leave(phase)
    assert severities == [2]


def test_the_arena_of_a_cpu_is_not_asked(on_cpu):
    assert on_cpu.allocator_peak_bytes(reset=True) is None


def test_on_the_cpu_nothing_is_out_of_place(on_cpu):
    assert set(on_cpu.facts()) == {"threads", "providers", "placement", "accumulation"}
    assert on_cpu.facts()["accumulation"] == "float32"


@pytest.mark.parametrize(
    ("provider", "severity", "arenas"), [("CPUExecutionProvider", 3, 2), ("CUDAExecutionProvider", 2, 1)]
)
def test_what_a_session_on_a_gpu_says_is_asked_for(provider, severity, arenas, monkeypatch, tmp_path):
    import onnxruntime

    class Session:
        def __init__(self, path, options, *, providers):
            self.options, self.providers = options, providers

        def get_providers(self):
            return self.providers

    heard = []
    monkeypatch.setattr(onnxruntime, "InferenceSession", Session)
    monkeypatch.setattr(onnxruntime, "set_default_logger_severity", heard.append)
    request = request_for(ProbeModel(), Build("k", "onnx", tmp_path / "model.onnx", "float32"))
    options = _ort.session_options(onnxruntime, {})
    options = _ort.create_session(request, options=options, providers=[provider]).options
    assert (options.log_severity_level, options.logid, heard) == (severity, "unet", [arenas])
