"""The recipes of the manual for plug-ins are run as they stand there; models and checks have files of tests."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest
from sample_values import measurement

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.pipelines.judging.metrics import metrics_of, with_metrics
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import DeviceMissingError
from pytest_sdperf.core.machine.device_choice import choose_device
from pytest_sdperf.core.values import Sample
from pytest_sdperf.fusing.native import fuse
from pytest_sdperf.testing import check_engine

DOCS = Path(__file__).parents[1] / "docs"


def recipe(page: str, base: str) -> dict[str, Any]:
    """Return what the one example of a page defines that has a class derived from this one."""
    examples = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    (example,) = [one for one in examples if f"({base}):" in one]
    names: dict[str, Any] = {"__name__": "conftest"}
    exec(example, names)
    return names


def registered(page: str, base: str) -> Catalog:
    catalog = Catalog()
    recipe(page, base)["pytest_sdperf_register"](catalog)
    return catalog


def test_the_engine_keeps_its_promises(tmp_path):
    check_engine(registered("engines.md", "Engine").engines.get("onnx-evaluator"), folder=tmp_path)


def silus() -> ir.Model:
    """A graph of two SiLUs; the sigmoid of the second is an output as well."""
    source = ir.val("x", ir.DataType.FLOAT, [2, 3])
    nodes, outputs = [], []
    for number in range(2):
        sigmoid = ir.node("Sigmoid", [source], name=f"sigmoid_{number}")
        product = ir.node("Mul", [source, sigmoid.outputs[0]], name=f"product_{number}")
        nodes += [sigmoid, product]
        outputs += [product.outputs[0]] + [sigmoid.outputs[0]] * number
    for number, value in enumerate(outputs):
        value.name, value.dtype, value.shape = f"y_{number}", ir.DataType.FLOAT, ir.Shape([2, 3])
    return ir.Model(ir.Graph([source], outputs, nodes=nodes, opset_imports={"": 18}, name="silus"), ir_version=10)


def run(model: ir.Model, inputs: dict[str, Any]) -> Any:
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def test_the_optimization_fuses_what_it_says():
    import torch

    silu = registered("fusions.md", "Optimization").optimizations.get("silu")
    module = torch.nn.Sequential(torch.nn.SiLU(), torch.nn.ReLU(), torch.nn.SiLU())
    assert silu.expected(module) == {"com.microsoft::QuickGelu": 2}
    inputs = {"x": np.linspace(-4, 4, 6, dtype=np.float32).reshape(2, 3)}
    model = silus()
    expected = run(silus(), inputs)
    applied, refused = fuse(model, silu.fusions())
    assert Counter(node.op_type for node in model.graph) == {"QuickGelu": 1, "Sigmoid": 1, "Mul": 1}
    assert (applied.reason, refused.reason) == ("", "it is not multiplied with its argument alone")
    for one, other in zip(run(model, inputs), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_device_is_found_and_what_cannot_be_read_is_not_known(tmp_path):
    probe = recipe("device.md", "DeviceProbe")["DriverFiles"](tmp_path)
    with pytest.raises(DeviceMissingError, match="the driver amdgpu shows no card below "):
        probe.find()
    for card, used in (("card1", "1048576\n"), ("card2", "unreadable")):
        (tmp_path / card / "device").mkdir(parents=True)
        (tmp_path / card / "device" / "mem_info_vram_total").write_text(f"{16 * 2**30}\n")
        (tmp_path / card / "device" / "mem_info_vram_used").write_text(used)
    assert [probe.health(device).memory_used_bytes for device in probe.find()] == [2**20, None]
    chosen = choose_device(
        "amd", registered("device.md", "DeviceProbe").probes.items() | {probe.name: probe}, environ={}
    )
    assert (chosen.device.slug, chosen.device.machine["card"]) == ("amd-gpu-16gb", "card1")


def test_the_metric_is_taken_from_a_sample_and_judged():
    catalog = registered("own-check.md", "Metric")
    sample = with_metrics(Sample(iterations_s=(0.1, 0.1, 0.12)), catalog)
    measured = dataclasses.replace(
        measurement(), samples=(sample,), metrics={"slowest-call": catalog.metrics.get("slowest-call").info}
    )
    verdict = metrics_of(measured)[-1].judge(measured, None, policy=Policy())
    page = (DOCS / "own-check.md").read_text(encoding="utf-8")
    assert verdict.sentence.removesuffix(".") in page
