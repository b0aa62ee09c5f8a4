"""Gates on what ran: every branch, with its whole sentence."""

from __future__ import annotations

import dataclasses

import pytest
from sample_values import kernels as ran
from sample_values import measurement, sample_with

from pytest_sdperf.baselines.stored import Session, StoredCase
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.metrics import OURS
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.tasks.sampling.kernels import NONE_ON_CPU

CUDA = {"providers": ["CUDAExecutionProvider", "CPUExecutionProvider"]}
PLACED = {
    **CUDA,
    "placement": {"CUDAExecutionProvider": 1573},
    "cpu_nodes": [],
    "cpu_node_count": 0,
    "shape_node_count": 0,
    "memcpy_nodes": 0,
}
REPLAYED = {"requested": True, "replayed": True, "changed_inputs": True}
COMPILED = {"graphs": 1, "graph_breaks": 0, "recompiles": 0, "cudagraph_skips": 0, "reasons": []}


def verdicts(*facts, on_cpu=False):
    return judged(measured_with(*(sample_with(**one) for one in facts)), on_cpu=on_cpu)


def judged(measured, stored=None, *, on_cpu=False):
    """Return the verdicts on what ran."""
    found = (one.judge(measured, stored, policy=Policy(on_cpu=on_cpu)) for one in OURS.values() if not one.leveled)
    return tuple(filter(None, found))


def measured_with(*samples):
    return dataclasses.replace(measurement(), samples=samples)


def only(**facts):
    (verdict,) = verdicts(facts)
    return verdict.outcome, verdict.metric, verdict.code, verdict.sentence


CPU_NODES = {
    "placement": {"CUDAExecutionProvider": 1500, "CPUExecutionProvider": 7},
    "cpu_nodes": ["InstanceNormalization n1", "Resize r", "Resize q", "Resize p", "Resize o", "Resize n", "Shape s"],
    "cpu_node_count": 7,
    "shape_node_count": 1,
}
SHAPES = {
    "placement": {"CUDAExecutionProvider": 1500, "CPUExecutionProvider": 2},
    "cpu_nodes": ["Shape s", "Gather g"],
    "cpu_node_count": 2,
    "shape_node_count": 2,
}


@pytest.mark.parametrize(
    ("facts", "outcome", "code", "sentence"),
    [
        (
            {},
            Outcome.PASSED,
            "placed-as-asked",
            "1,573 nodes of the UNet graph run on CUDA; no Memcpy node.",
        ),
        (
            {"file_nodes": 1573},
            Outcome.PASSED,
            "placed-as-asked",
            "1,573 nodes of the UNet graph run on CUDA; no Memcpy node.",
        ),
        (
            {"file_nodes": 1526},
            Outcome.PASSED,
            "placed-as-asked",
            (
                "1,573 nodes of the UNet graph run on CUDA (the graph as ONNX Runtime runs it, after its own changes "
                "to the 1,526 nodes of the file); no Memcpy node."
            ),
        ),
        (
            {"memcpy_nodes": None},
            Outcome.INCONCLUSIVE,
            "memcpy-not-seen",
            (
                "Whether values of the UNet graph go back and forth between CPU and GPU is not known: nothing shows "
                "what ONNX Runtime said when it put Memcpy nodes in."
            ),
        ),
        (
            SHAPES,
            Outcome.PASSED,
            "placed-as-asked",
            "1,500 nodes of the UNet graph run on CUDA, 2 nodes on the CPU that only compute shapes; no Memcpy node.",
        ),
        (
            CPU_NODES,
            Outcome.FAILED,
            "cpu-nodes",
            (
                "6 nodes of the UNet graph run on the CPU: InstanceNormalization n1, Resize r, Resize q, Resize p, "
                "Resize o and 1 more; the CUDA provider has no kernel for them at their types, attributes or opset."
            ),
        ),
        (
            {**SHAPES, "memcpy_nodes": 3},
            Outcome.FAILED,
            "memcpy-nodes",
            (
                "ONNX Runtime put 3 Memcpy nodes into the UNet graph: values go back and forth between CPU and GPU in "
                "every call. On the CPU are Shape s, Gather g; static shapes need no such computation."
            ),
        ),
    ],
)
def test_placement(facts, outcome, code, sentence):
    assert only(**{**PLACED, **facts}) == (outcome, "placement", code, sentence)


OLD = {**CUDA, "placement": {}, "placement_not_available": "onnxruntime 1.22.0 does not tell", "memcpy_nodes": 0}


@pytest.mark.parametrize(
    ("facts", "outcome", "code", "sentence"),
    [
        (
            OLD,
            Outcome.INCONCLUSIVE,
            "placement-not-seen",
            "Where the nodes of the UNet graph run is not known: onnxruntime 1.22.0 does not tell.",
        ),
        (
            {**OLD, "memcpy_nodes": 3},
            Outcome.FAILED,
            "memcpy-nodes",
            (
                "ONNX Runtime put 3 Memcpy nodes into the UNet graph: values go back and forth between CPU and GPU in "
                "every call. Static shapes need no such computation."
            ),
        ),
        (
            {
                "providers": ["TensorrtExecutionProvider"],
                "partitions_not_available": "onnxruntime 1.22.0 does not tell",
                "memcpy_nodes": 3,
            },
            Outcome.INCONCLUSIVE,
            "partitions-not-seen",
            "Which parts of the UNet graph Tensorrt compiled is not known: onnxruntime 1.22.0 does not tell.",
        ),
    ],
)
def test_what_an_older_onnxruntime_does_not_tell_is_not_held(facts, outcome, code, sentence):
    assert only(**facts) == (outcome, "placement", code, sentence)


@pytest.mark.parametrize(
    ("facts", "code", "sentence"),
    [
        (
            OLD,
            "placement-missing",
            (
                "Where the nodes of the UNet graph run is not known: onnxruntime 1.22.0 does not tell; its baseline "
                "knows it."
            ),
        ),
        (
            {**PLACED, "memcpy_nodes": None},
            "memcpy-missing",
            (
                "Whether values of the UNet graph go back and forth between CPU and GPU is not known: nothing shows "
                "what ONNX Runtime said when it put Memcpy nodes in; its baseline knows it."
            ),
        ),
    ],
)
def test_what_the_baseline_knew_must_be_known(facts, code, sentence):
    session = Session(date="2026-11-28 10:00", samples=(sample_with(**PLACED),))
    stored = StoredCase(case=measurement().case, anchor=session, sessions=(session,))
    (verdict,) = judged(measured_with(sample_with(**facts)), stored)
    assert (verdict.outcome, verdict.code, verdict.sentence) == (Outcome.INVALID, code, sentence)


def test_a_compiler_of_graphs_leaves_nodes_to_others_on_purpose():
    facts = {**PLACED, **CPU_NODES, "partitions": {"engines": 1, "cpu_nodes": 7}}
    assert verdicts(facts) == ()


def test_a_compiler_of_graphs_that_compiled_nothing():
    facts = {"providers": ["TensorrtExecutionProvider"], "partitions": {"engines": 0, "cpu_nodes": 0}}
    assert only(**facts) == (
        Outcome.INVALID,
        "placement",
        "nothing-compiled",
        "Tensorrt compiled no part of the UNet graph: others run all of it.",
    )


def test_on_a_cpu_every_node_is_where_it_belongs():
    assert verdicts({"providers": ["CPUExecutionProvider"], "placement": {"CPUExecutionProvider": 1667}}) == ()


@pytest.mark.parametrize(
    ("graph", "others", "outcome", "code", "sentence"),
    [
        (
            REPLAYED,
            {},
            Outcome.PASSED,
            "graph-replayed",
            "The UNet replays its CUDA graph, and gives the right answers to changed inputs.",
        ),
        (
            {**REPLAYED, "changed_inputs": None},
            {},
            Outcome.PASSED,
            "graph-replayed",
            "The UNet replays its CUDA graph.",
        ),
        (
            {**REPLAYED, "replayed": False},
            {},
            Outcome.INVALID,
            "graph-not-replayed",
            "A CUDA graph was asked for, but the UNet replays none: its kernels are launched one by one.",
        ),
        (
            {**REPLAYED, "changed_inputs": False},
            {"changed_inputs": {"right": False, "wrong": "another timestep does not change the outputs"}},
            Outcome.INVALID,
            "graph-stale",
            "The CUDA graph of the UNet gives wrong answers: another timestep does not change the outputs.",
        ),
        (
            {**REPLAYED, "changed_inputs": False},
            {},
            Outcome.INVALID,
            "graph-stale",
            "The CUDA graph of the UNet gives wrong answers: its answers are those of other inputs.",
        ),
        (
            {**REPLAYED, "replayed": None},
            {"kernels_not_available": "torch is missing"},
            Outcome.INCONCLUSIVE,
            "graph-not-seen",
            "Whether the UNet replays the CUDA graph that was asked for is not known: torch is missing.",
        ),
    ],
)
def test_cuda_graph(graph, others, outcome, code, sentence):
    assert only(cuda_graph=graph, **others) == (outcome, "cuda-graph", code, sentence)


def test_a_graph_that_nobody_asked_for():
    assert verdicts({"cuda_graph": {"requested": False, "replayed": None, "changed_inputs": None}}) == ()


def test_compile():
    assert only(compile=COMPILED) == (
        Outcome.PASSED,
        "compile",
        "compiled-whole",
        "torch.compile made 1 graph of the UNet: no break, no recompilation, no CUDA graph skipped.",
    )


@pytest.mark.parametrize("told", [{**COMPILED, "graphs": 0}, {"graph_breaks": 0}])
def test_a_compiler_that_compiled_nothing(told):
    assert only(compile=told) == (
        Outcome.INVALID,
        "compile",
        "compiled-nothing",
        (
            "torch.compile compiled nothing of the UNet, which runs as plain torch: look whether TORCHDYNAMO_DISABLE "
            "is set."
        ),
    )


def test_a_broken_compilation_says_why():
    broken = {"graphs": 3, "graph_breaks": 2, "recompiles": 1, "cudagraph_skips": 1, "reasons": ["data dependent"]}
    (verdict,) = verdicts({"compile": broken})
    assert (verdict.outcome, verdict.metric) == (Outcome.FAILED, "compile")
    assert verdict.text == (
        "torch.compile made 3 graphs of the UNet: 2 graph breaks, 1 recompilation in the timed calls, 1 skipped CUDA "
        "graph. [compile-broken]\n  because: data dependent"
    )


@pytest.mark.parametrize(
    ("asked", "kernels", "outcome", "code", "sentence"),
    [
        (
            "flash",
            ran(attention_flash=32, gemm=184),
            Outcome.PASSED,
            "attention-ran",
            "The attention 'flash' that was asked for ran: attention-flash 32.",
        ),
        (
            "xformers",
            ran(attention_efficient=32),
            Outcome.PASSED,
            "attention-ran",
            "The attention 'xformers' that was asked for ran: attention-efficient 32.",
        ),
        (
            "flash",
            ran(attention_flash=20, attention_math=12),
            Outcome.PASSED,
            "attention-mixed",
            "The attention 'flash' that was asked for ran in some places only: attention-flash 20, attention-math 12.",
        ),
        (
            "cudnn",
            ran(attention_math=32, gemm=240),
            Outcome.INVALID,
            "attention-absent",
            "The attention 'cudnn' that was asked for did not run: there ran attention-math 32.",
        ),
        (
            "math",
            ran(gemm=240),
            Outcome.INVALID,
            "attention-absent",
            "The attention 'math' that was asked for did not run: there ran no attention kernel that is known by name.",
        ),
    ],
)
def test_attention(asked, kernels, outcome, code, sentence):
    assert only(attention=asked, kernels=kernels) == (outcome, "attention", code, sentence)


def test_an_attention_that_nothing_can_see():
    assert only(attention="flash", kernels_not_available="torch is missing") == (
        Outcome.INCONCLUSIVE,
        "attention",
        "attention-not-seen",
        "The attention 'flash' that was asked for of the UNet may have run or not: torch is missing.",
    )


def test_a_cpu_cannot_tell_its_attention():
    assert verdicts({"attention": "math", "kernels_not_available": NONE_ON_CPU}, on_cpu=True) == ()


def test_the_engines_own_attention_is_not_judged():
    assert verdicts({"attention": "sdpa", "kernels": ran(gemm=1)}) == ()


def test_answers_that_do_not_follow_the_inputs():
    wrong = {"right": False, "wrong": "another sample, timestep does not change the outputs"}
    assert only(changed_inputs=wrong) == (
        Outcome.INVALID,
        "changed-inputs",
        "answers-wrong",
        "UNet outputs do not follow its inputs: another sample, timestep does not change the outputs.",
    )
    assert verdicts({"changed_inputs": {"right": True, "wrong": ""}}) == ()


def test_the_worst_of_all_processes_counts():
    good, bad = {"cuda_graph": REPLAYED}, {"cuda_graph": {**REPLAYED, "replayed": False}}
    for order in ((good, bad, good), (bad, good, good)):
        (verdict,) = verdicts(*order)
        assert verdict.code == "graph-not-replayed"


def test_a_pipeline_is_judged_by_its_components():
    facts = {
        "kernels": ran(attention_flash=51),
        "components": {"unet": {**PLACED, "attention": "flash"}, "vae_decoder": {**PLACED, **CPU_NODES}},
    }
    found = {verdict.metric: verdict for verdict in verdicts(facts)}
    assert found["placement"].sentence.startswith("6 nodes of the VAE decoder graph run on the CPU: ")
    assert found["attention"].code == "attention-ran"


def test_they_are_part_of_every_judgement():
    measured = measured_with(
        *[sample_with(**PLACED, kernels=ran(gemm=3), partitions={"engines": 2, "cpu_nodes": 0})] * 3
    )
    metrics = [verdict.metric for verdict in judge(measured, None, policy=Policy())]
    assert metrics == ["latency", "first-run-memory", "second-run-memory", "kernels", "partitions", "counts"]
    assert "placement" in {v.metric for v in judge(measured_with(*[sample_with(**PLACED)] * 3), None, policy=Policy())}
