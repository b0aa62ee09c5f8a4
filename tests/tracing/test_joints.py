"""What blocks have inside: found in a graph, and computed again from what an engine itself has."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch

from pytest_sdperf.core.blocks import blocks_of
from pytest_sdperf.core.reference_error import HALF_UNIT
from pytest_sdperf.tracing.joints import Walk, compared, of_arrays, values_of

TOKENS, WIDTH = 6, 8


class Block(torch.nn.Module):
    """Adds to what it reads; a mask and a tuple beside it, as those of real models."""

    def __init__(self, inner: bool) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.blocks = torch.nn.ModuleList([Block(inner=False)]) if inner else None

    def forward(self, hidden: torch.Tensor, *, mask: torch.Tensor) -> tuple[torch.Tensor, str]:
        hidden = hidden + torch.tanh(self.linear(hidden)) + mask
        return self.blocks[0](hidden, mask=mask) if self.blocks else (hidden, "beside it")


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(inner=False), Block(inner=True), torch.nn.Linear(WIDTH, WIDTH)])

    def forward(self, sample: torch.Tensor) -> tuple[torch.Tensor]:
        hidden, mask = torch.sin(sample), torch.zeros(TOKENS, 1, dtype=sample.dtype)
        for block in self.layers[:2]:
            hidden, _ = block(hidden, mask=mask)
        return (self.layers[2](hidden),)


@pytest.fixture
def stack():
    torch.manual_seed(0)
    return Stack().eval()


SAMPLE = np.random.default_rng(0).standard_normal((TOKENS, WIDTH)).astype(np.float32)
FIRST, SECOND, THIRD = "layers.0", "layers.1", "layers.1.blocks.0"


def test_blocks_are_entries_of_lists_that_hold_modules(stack):
    assert [path for path, _ in blocks_of(stack)] == [FIRST, SECOND, THIRD]


def graph_of(stack: Stack) -> ir.Graph:
    """The same function; what each block gives is turned and turned back."""
    sample = ir.Value(name="sample", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(SAMPLE.shape))
    weights: list[ir.Value] = []

    def weight(tensor: torch.Tensor) -> ir.Value:
        name = f"weight_{len(weights)}"
        weights.append(ir.Value(name=name, const_value=ir.tensor(tensor.detach().numpy(), name=name)))
        return weights[-1]

    nodes: list[ir.Node] = []

    def add(op_type: str, *inputs: ir.Value, name: str, **attributes: Any) -> ir.Value:
        nodes.append(ir.node(op_type, inputs, attributes, name=name))
        nodes[-1].outputs[0].name, nodes[-1].outputs[0].dtype = name, ir.DataType.FLOAT
        return nodes[-1].outputs[0]

    value = add("Sin", sample, name="sine")
    for number, block in enumerate((stack.layers[0], stack.layers[1], stack.layers[1].blocks[0])):
        linear = block.linear
        made = add("Gemm", value, weight(linear.weight), weight(linear.bias), name=f"product_{number}", transB=1)
        value = add("Add", value, add("Tanh", made, name=f"tanh_{number}"), name=f"sum_{number}")
        value = add("Transpose", add("Transpose", value, name=f"turned_{number}", perm=[1, 0]), name=f"back_{number}",
                    perm=[1, 0])  # fmt: skip
    last = stack.layers[2]
    output = add("Gemm", value, weight(last.weight), weight(last.bias), name="out_sample", transB=1)
    return ir.Graph([sample], [output], nodes=nodes, initializers=weights, opset_imports={"": 18})


def test_joints_are_found_by_what_they_hold_where_they_can_be_seen(stack):
    graph = graph_of(stack)
    seen = ["sine", "turned_0", "sum_1", "sum_2", "back_2"]
    assert values_of(graph, seen, stack, {"sample": SAMPLE}) == {
        f"{FIRST}<0": ("sine", (0, 1)),
        FIRST: ("turned_0", (1, 0)),
        f"{SECOND}<0": ("turned_0", (1, 0)),
        f"{THIRD}<0": ("sum_1", (0, 1)),
        THIRD: ("sum_2", (0, 1)),
        SECOND: ("sum_2", (0, 1)),
    }


def test_an_operator_that_nobody_knows_hides_what_follows(stack):
    graph = graph_of(stack)
    next(node for node in graph if node.name == "tanh_1").domain = "acme"
    found = values_of(graph, [f"sum_{number}" for number in range(3)], stack, {"sample": SAMPLE})
    assert set(found) == {FIRST, f"{SECOND}<0"}


def engine(stack: Stack, *, wrong: str = "", factor: float = 1.01) -> dict[str, np.ndarray]:
    """What an engine has at each joint; one block gives more than it should, and what follows is computed from it."""
    arrays: dict[str, np.ndarray] = {}

    def keep(path: str, made: torch.Tensor) -> torch.Tensor:
        arrays[path] = made.numpy().copy()
        return made

    hooks = [
        part.register_forward_hook(
            lambda _, __, made, path=path: (keep(path, made[0] * factor if path == wrong else made[0]), made[1])
        )
        for path, part in blocks_of(stack)
    ]
    with torch.inference_mode():
        arrays["out_sample"] = stack(torch.from_numpy(SAMPLE))[0].numpy()
    for hook in hooks:
        hook.remove()
    return arrays


def judged(stack: Stack, arrays: dict[str, np.ndarray], *, least: float = 0.0):
    obtained = of_arrays(arrays, {})
    sample = torch.from_numpy(SAMPLE)
    plain = Walk(obtained).through(stack, [sample], ["out_sample"])
    exact = Walk(obtained).through(stack.double(), [sample.double()], ["out_sample"])
    found = list(compared(exact, [plain], obtained, dtype="float32", least=least))
    return found, plain.blocks


def test_what_agrees_is_compared_once_each(stack):
    found, blocks = judged(stack, engine(stack))
    assert [(one.path, one.reads) for one in found] == [(FIRST, ""), (THIRD, ""), ("", "out_sample")]
    assert blocks == 2  # what the second gives is what the one in it gave
    assert all(one.passed for one in found)


def test_a_wrong_block_is_told_from_those_that_follow(stack):
    found, _ = judged(stack, engine(stack, wrong=THIRD))
    assert [one.path for one in found if not one.passed] == [THIRD]
    assert found[1].error == pytest.approx(0.01, rel=1e-3)


def test_what_an_engine_does_not_show_is_computed_with_what_follows(stack):
    arrays = engine(stack, wrong=FIRST)
    del arrays[FIRST]
    found, blocks = judged(stack, arrays)
    assert ([one.path for one in found], blocks) == ([THIRD, ""], 2)
    assert not found[0].passed


def test_no_limit_is_narrower_than_asked(stack):
    found, _ = judged(stack, engine(stack), least=1e-3)
    assert {one.limit for one in found} == {2e-3}
    assert all(one.limit >= 2 * HALF_UNIT["float32"] for one in judged(stack, engine(stack.float()))[0])


def test_a_value_of_a_graph_is_turned_as_the_joint_is():
    held = np.arange(24.0).reshape(4, 3, 2)  # a joint (2, 3, 4), with its axes the other way round
    obtained = of_arrays({"value": held}, {"block": ("value", (2, 1, 0))})
    assert np.array_equal(obtained("block", torch.zeros(2, 3, 4)), held.transpose(2, 1, 0))
    assert obtained("block", torch.zeros(2, 3)) is None
    assert obtained("other", torch.zeros(2, 3, 4)) is None
