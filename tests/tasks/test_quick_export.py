from __future__ import annotations

import contextlib
import gc
from types import SimpleNamespace

import numpy as np
import onnx_ir as ir
import pytest
import torch
from onnxscript import rewriter
from onnxscript.rewriter import pattern
from tiny_model import make_catalog

from pytest_sdperf.core.values import Workload
from pytest_sdperf.tasks import _quick_export, export
from pytest_sdperf.tasks._quick_export import _found, _only_at_its_type, _replaced, quick_export

pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]


def exported(path, *, dynamic):
    model, workload = make_catalog().models.get("tiny"), Workload(batch_size=2, height=128, width=192)
    weights = path.with_suffix(".safetensors")
    model.draw_weights("unet", weights)
    export._dynamo(model, "unet", path, weights=weights, opset=18, dynamic=dynamic, workload=workload)
    return path.read_bytes(), path.with_name(f"{path.name}.data").read_bytes()


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    # With open sizes, whose graphs hold everything that those of fixed sizes hold.
    return exported(tmp_path_factory.mktemp("quick") / "model.onnx", dynamic=True)


def test_the_result_is_the_same_to_the_byte(quick, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "quick_export", contextlib.nullcontext)
    assert exported(tmp_path / "model.onnx", dynamic=True) == quick


STACKS = "do_not_emit_stack_traces"


def state():
    import onnx_ir.schemas
    import torch.export.exported_program
    import torch.fx.config

    return (
        gc.isenabled(),
        getattr(torch.fx.config, STACKS, None),
        rewriter._DEFAULT_REWRITE_RULES,
        vars(onnx_ir.schemas.OpSignature)["from_op_schema"],
        torch.export.exported_program._populate_param_buffer_metadata_to_new_gm,
    )


def test_everything_is_as_before_afterwards():
    before = state()
    inside = []
    with contextlib.suppress(ZeroDivisionError), quick_export():
        inside += state()
        raise ZeroDivisionError
    lacking = [now for now, then in zip(inside, before, strict=True) if now is then]
    # torch before 2.12 has no such setting; what else is missing makes exports slower without a word.
    assert lacking == ([] if hasattr(torch.fx.config, STACKS) else [None])
    assert state() == before


def test_a_collector_that_somebody_paused_stays_paused():
    gc.disable()
    try:
        with quick_export():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_place_that_is_not_there_is_left_alone():
    assert _found("torch.gone.Thing") is None
    assert _found("torch.nn.Gone") is None
    assert _found("torch.nn.Module") is torch.nn.Module
    owner = SimpleNamespace(there=1)
    with _replaced(owner, "gone", str), _replaced(owner, "there", lambda before: before + 1), _replaced(None, "x", str):
        assert vars(owner) == {"there": 2}
    assert vars(owner) == {"there": 1}


def test_a_rule_is_tried_at_its_own_type_only_and_applies_there():
    tried = []

    def check(context, x):
        tried.append(x.name)
        return True

    rule = pattern.RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x), check)
    quick = _only_at_its_type(rule)
    assert quick is not rule
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape([2]))
    nodes = [ir.node("Abs", [x])]
    nodes += [ir.node("Neg", [nodes[-1].outputs[0]])]
    nodes += [ir.node("Neg", [nodes[-1].outputs[0]])]
    graph = ir.Graph([x], [nodes[-1].outputs[0]], nodes=nodes, opset_imports={"": 18}, name="g")
    model = ir.Model(graph, ir_version=10)
    assert [quick.try_rewrite(model, graph, node) is None for node in nodes] == [True, True, False]
    assert len(tried) == 1


def test_a_rule_for_several_types_is_tried_everywhere():
    several = [rule for rule in rewriter._DEFAULT_REWRITE_RULES if _only_at_its_type(rule) is rule]
    assert all(
        rule._target_pattern.output_nodes[0].op_identifier() is None for rule in several if rule.name != "SlicesSplit"
    )
    quick = _quick_export._quick_rules(rewriter._DEFAULT_REWRITE_RULES)
    assert {rule.name for rule in rewriter._DEFAULT_REWRITE_RULES} - {rule.name for rule in quick} == {"SlicesSplit"}
    assert len(quick) == len(rewriter._DEFAULT_REWRITE_RULES) - 1


def test_parameters_are_listed_once():
    from torch.export import ExportGraphSignature
    from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

    seen = []
    populate = _quick_export._with_listed_parameters(lambda notes, module, signature: seen.append(signature))
    spec = InputSpec(InputKind.PARAMETER, TensorArgument("p_weight"), "weight")
    populate({}, None, ExportGraphSignature([spec], []))
    (signature,) = seen
    assert isinstance(signature, ExportGraphSignature)
    assert dict(signature.inputs_to_parameters) == {"p_weight": "weight"}
    assert signature.inputs_to_parameters is signature.inputs_to_parameters
    assert signature.input_specs == [spec]


def test_graphs_name_no_files_of_this_machine(quick):
    content, _ = quick
    assert b".py" not in content
    assert np.frombuffer(content, np.uint8).size > 1000
    assert not getattr(torch.fx.config, STACKS, False)
