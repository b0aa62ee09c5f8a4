"""The lines that say what ran: of a case in which something is wrong, or with -v of every case."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import CASE, kernels, measurement, sample_with

from pytest_sdperf.checks.ab.pairs import judge_pairs
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.tables.runtime_report import runtime_report_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.tasks.sampling.kernels import NONE_ON_CPU

GPU = dataclasses.replace(CASE, engine="ort-cuda", engine_options=(("cuda_graph", "on"),), optimization="bias-add")
FACTS = {
    "providers": ["CUDAExecutionProvider", "CPUExecutionProvider"],
    "placement": {"CUDAExecutionProvider": 1573},
    "cpu_nodes": [],
    "cpu_node_count": 0,
    "memcpy_nodes": 0,
    "cuda_graph": {"requested": True, "replayed": True, "changed_inputs": True},
    "changed_inputs": {"right": True, "wrong": ""},
    "kernels": kernels(attention_cudnn=32, gemm=184, other=24),
    "kernels_other": ["acme_kernel"],
}


def report(case=GPU, **facts):
    measured = dataclasses.replace(measurement(case=case), samples=(sample_with(**facts),) * 3)
    return CaseReport("test_it", case, measured, verdicts=judge(measured, None, policy=Policy()))


LEGEND = [
    "  of kernels: how many are launched in a call, and what they take, the mean of the calls that the",
    "  last process watched; they may run side by side",
]


def lines(*reports, every):
    """Return the lines without the legend, which ends them wherever kernels are told."""
    found = [line.text for line in runtime_report_lines(reports, width=100, every=every)]
    told = any("kernels: " in line for line in found)
    assert (found[-2:] == LEGEND) is told
    return found[:-2] if told else found


def test_where_all_is_well_nothing_is_said_unless_asked_for():
    assert lines(report(**FACTS), every=False) == []
    assert lines(report(**FACTS), every=True) == [
        "runtime report",
        "  sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 1,573 nodes on CUDA; CUDA graph replayed;",
        "    right answers to changed inputs; 240 kernels: attention-cudnn 32, gemm 184, other 24; 10 % of",
        "    their time is in kernels of no known kind, such as acme_kernel",
    ]


def test_nodes_that_are_not_those_of_the_file_are_told_as_such():
    graph = {"placement": {"CUDAExecutionProvider": 86, "CPUExecutionProvider": 2}}
    assert lines(report(**graph, file_nodes=85), every=True)[1:] == [
        "  sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 86 nodes on CUDA, 2 nodes on CPU (the",
        "    graph as ONNX Runtime runs it, after its own changes to the 85 nodes of the file)",
    ]
    same = ["  sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 86 nodes on CUDA, 2 nodes on CPU"]
    assert lines(report(**graph, file_nodes=88), every=True)[1:] == same
    assert lines(report(**graph), every=True)[1:] == same


@pytest.mark.parametrize(
    ("known", "told"),
    [({"partitions": {"engines": 2, "cpu_nodes": 0}}, "; 2 engines"), ({"partitions_not_available": "silence"}, "")],
)
def test_a_compiler_of_graphs_is_not_said_to_have_changed_nodes(known, told):
    facts = {"placement": {"TensorrtExecutionProvider": 2}, "file_nodes": 85, **known}
    assert lines(report(**facts), every=True)[1:] == [
        f"  sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 2 nodes on Tensorrt{told}"
    ]


def test_the_slowest_kernels_are_named():
    slowest = [{"name": name, "kind": "gemm", "count": 32, "seconds": 0.0283} for name in ("nvjet", "x" * 99, "third")]
    assert lines(report(**{**FACTS, "kernels": kernels(gemm=184), "kernels_slowest": slowest}), every=True)[2:] == [
        "    right answers to changed inputs; 184 kernels: gemm 184; slowest nvjet (32, 28.3 ms),",
        f"    {'x' * 60} (32, 28.3 ms)",
    ]


def test_kernels_are_called_without_their_types_and_arguments():
    names = [
        "void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, false, false>(float*, int)",
        "void at::native::vectorized_gather_kernel<16, long>(char*, char*)",
    ]
    slowest = [{"name": name, "kind": "copy", "count": 1, "seconds": 1e-3} for name in names]
    assert lines(report(**{**FACTS, "kernels": kernels(gemm=184), "kernels_slowest": slowest}), every=True)[2:] == [
        "    right answers to changed inputs; 184 kernels: gemm 184; slowest softmax_warp_forward (1, 1.00",
        "    ms), at::native::vectorized_gather_kernel (1, 1.00 ms)",
    ]


def test_kernels_of_no_known_kind_are_told_from_a_hundredth_on():
    few, some = (
        " ".join(line.strip() for line in lines(report(**{**FACTS, "kernels": kernels(gemm=990, other=n)}), every=True))
        for n in (9, 10)
    )
    assert few.endswith("; 999 kernels: gemm 990, other 9")
    assert some.endswith("; 1 % of their time is in kernels of no known kind, such as acme_kernel")


def test_products_without_tensor_cores_are_told_in_any_case():
    facts = {
        **{name: value for name, value in FACTS.items() if not name.startswith("kernels")},
        "kernels": kernels(convolution=100, convolution_nhwc=10, gemm=90),
        "conv_search": "exhaustive",
    }

    def told(milliseconds, *, tf32="on", every=False, **counts):
        seen = {"gpu_busy_s": 0.004, "gpu_busy_without_tensor_cores_s": milliseconds / 1e3, "tf32": tf32}
        return lines(report(**facts, **seen, kernels_without_tensor_cores=kernels(**counts)), every=every)

    assert told(0) == told(0.39, convolution=39) == []
    assert told(0, every=True) == told(0.039, every=True, convolution=39)
    assert "1 % of that it multiplies" in " ".join(told(0.04, every=True, convolution=40))
    assert told(1.68, convolution=80, gemm=4) == [
        "runtime report",
        "  sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 1,573 nodes on CUDA; CUDA graph replayed;",
        "    right answers to changed inputs; 200 kernels: convolution 100, convolution-nhwc 10, gemm 90; the",
        "    GPU is busy for 4.00 ms of 10.0 ms; for 42 % of that it multiplies half precision WITHOUT TENSOR",
        "    CORES: 80 convolution (800 µs), 4 gemm (40.0 µs), chosen under conv_search=exhaustive",
    ]
    assert told(1.68, tf32="off", convolution=84)[-2:] == [
        "    GPU is busy for 4.00 ms of 10.0 ms; for 42 % of that it multiplies half precision WITHOUT TENSOR",
        "    CORES: 84 convolution (840 µs), which tf32=off takes from convolutions of any type: type tf32=on",
    ]
    assert told(1.68, tf32="off", gemm=84)[-1] == "    CORES: 84 gemm (840 µs)"


def test_a_case_in_which_a_gate_failed_is_shown_in_any_case():
    stale = {"right": False, "wrong": "another timestep does not change the outputs"}
    graph = {"requested": True, "replayed": None, "changed_inputs": False}
    unseen = {name: value for name, value in FACTS.items() if name not in ("kernels", "kernels_other")}
    facts = {**unseen, "memcpy_nodes": 1, "changed_inputs": stale, "cuda_graph": graph, "attention": "flash"}
    assert lines(report(**facts, kernels_not_available="torch is missing"), report(**FACTS), every=False) == [
        "runtime report",
        "  sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 1,573 nodes on CUDA; 1 Memcpy node; CUDA",
        "    graph not seen; WRONG answers to changed inputs; attention flash asked for; kernels not",
        "    available: torch is missing",
    ]


def test_both_sides_of_an_ab_are_told_where_a_gate_failed_on_one():
    lost = {**FACTS, "cuda_graph": {"requested": True, "replayed": False}}
    plain = dataclasses.replace(GPU, engine_options=())
    a, b = (
        dataclasses.replace(measurement(case=case), samples=(sample_with(**facts),) * 2)
        for case, facts in ((plain, {"placement": FACTS["placement"]}), (GPU, lost))
    )
    pairs = Pairs(a, b)
    found = CaseReport("test_it", plain, verdicts=judge_pairs(pairs, policy=Policy(max_processes=2)), pairs=pairs)
    assert lines(found, every=False) == [
        "runtime report",
        "  A: sd15-thin unet bias-add ort-cuda batch 1: 1,573 nodes on CUDA",
        "  B: sd15-thin unet bias-add ort-cuda:cuda_graph=on batch 1: 1,573 nodes on CUDA; CUDA graph not",
        "    replayed; right answers to changed inputs; 240 kernels: attention-cudnn 32, gemm 184, other 24;",
        "    10 % of their time is in kernels of no known kind, such as acme_kernel",
    ]


def test_a_pipeline_tells_each_component():
    parts = {
        "unet": {"placement": {"TensorrtExecutionProvider": 1}, "partitions": {"engines": 2, "cpu_nodes": 0}},
        "vae_decoder": {"placement": {"TensorrtExecutionProvider": 1}, "cuda_graph": {"requested": False}},
    }
    facts = {"components": parts, "kernels": kernels(gemm=3)}
    assert lines(report(dataclasses.replace(GPU, component="pipeline"), **facts), every=True) == [
        "runtime report",
        "  sd15-thin pipeline bias-add ort-cuda:cuda_graph=on batch 1: unet: 1 node on Tensorrt; 2 engines;",
        "    vae_decoder: 1 node on Tensorrt; 3 kernels: gemm 3",
    ]


def test_a_cpu_has_no_kernels_and_a_case_about_which_nothing_is_known_no_line():
    assert lines(report(CASE, kernels_not_available=NONE_ON_CPU), every=True) == []
    measured = measurement()
    assert lines(CaseReport("test_it", CASE), CaseReport("test_it", CASE, measured), every=True) == []
