"""What every kind of reference is known by in a cache that users have: none of it may change unseen."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.calls import ReplayCall
from pytest_sdperf.builds.execution.external_pipeline import Description, ExternalPipelineRunner
from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.checks.references import float32_graph, of_case, plain_torch
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.settings import EngineRequest, PipelineFactory
from pytest_sdperf.core.values import Build, Case, Workload
from pytest_sdperf.fusing.optimizations import LADDER
from pytest_sdperf.models import sd15
from pytest_sdperf.models.external_pipeline import external_model

(THIN,) = (model for model in sd15.MODELS if model.name == "sd15-thin")
FUSED = Case(
    "sd15-thin", "unet", "ort-cpu", "fp16", fuser="ort", exporter="dynamo", opset=18, shapes="static", height=64,
    width=64, weights="random-0", engine_options=(("threads", "1"),), fp32_ops="unet:MatMul",
)  # fmt: skip
EXTERNAL = Case(
    "sd15-thin", "unet", "ort-cpu", "base", fuser="ort", exporter="external", opset=18, shapes="static", height=64,
    width=64, weights="onnx-0123",
)  # fmt: skip
OWN = Case("own", "pipeline", "diffusers", "as-is", height=64, width=64, steps=2, weights="pipeline-0123")
TORCH = ("torch", "diffusers", "transformers")
EAGER = "pytest_sdperf.engines.torch_eager"
CALL = ReplayCall("one", Workload(1, 64, 64, 0, ""), ("a red circle",), seed=3)


class FullCache:
    """Has everything, and notes what it was asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, list[str]()

    def find(self, key: str) -> SimpleNamespace:
        return SimpleNamespace(path=self.folder)

    def get_or_make(self, key: str, make: Any) -> SimpleNamespace:
        self.asked.append(key)
        return SimpleNamespace(path=self.folder)


def build(kind: str, component: str, dtype: str = "float32") -> Build:
    return Build(f"{kind}-{component}-{dtype}", kind, Path("weights"), dtype)


@pytest.fixture
def bench(tmp_path):
    exporter = SimpleNamespace(dtype=lambda case, component: "float32")
    builder = SimpleNamespace(
        build=lambda case, component, **options: build("module", component),
        tokenizers=lambda model: Path("/cache/entries/tokenizers-0"),
        unfused_reference=lambda case, name, *, dtype: build("graph", name, dtype),
        exporter=lambda case: exporter,
        external=None,
        reference=None,
    )
    engine = SimpleNamespace(consumes="module", fuses=False, lowers=lambda optimization: False)
    catalog = SimpleNamespace(
        models={"sd15-thin": THIN, "own": external_model("own", on_cpu=True)},
        engines={"torch": engine},
        ladder=[optimization.name for optimization in LADDER],
    )

    def make(*, graphs: bool = False, output: str = "0.out") -> SimpleNamespace:
        save_arrays(tmp_path / "outputs.npz", {output: np.zeros(2, np.float32)})
        if graphs:
            builder.external = builder.reference = exporter
        return SimpleNamespace(
            builder=builder, catalog=catalog, cache=FullCache(tmp_path),
            device=SimpleNamespace(name="a CPU", kind="cpu"),
            settings=SimpleNamespace(selection=SimpleNamespace(has_module=not graphs)),
        )  # fmt: skip

    return make


def own_runner(context: Any) -> ExternalPipelineRunner:
    dtype = {"unet": "float16", "vae": "float32"}
    about = Description("0123", dtype, 64, 64, "EulerDiscreteScheduler", watermark=False)
    return ExternalPipelineRunner(
        OWN, EngineRequest("", ""), context, factory=PipelineFactory("mine", "make"), description=about
    )


def expected(runner: CaseRunner, case: str, *code: str, builds: Any, libraries: Any = TORCH, **more: Any) -> str:
    parts = {
        "case": case,
        "builds": builds,
        "fed": runner.fed(),
        "device": "a CPU",
        "code": source_hash(*code),
        "versions": library_versions(*libraries),
        **more,
    }
    return f"reference-{content_key(parts)}"


PLAIN = "model=sd15-thin component=unet engine=torch optimization=fp32 weights=random-0 batch_size=1 height=64 width=64"
MODULE = {"unet": "module-unet-float32"}


def test_outputs_of_a_torch_module(bench):
    runner = CaseRunner(FUSED, EngineRequest("ort-cpu", "ort-cpu"), bench())
    of_case.references(runner, ("float64", "float16#1"))
    code = ("pytest_sdperf.tasks.reference", EAGER)
    assert runner.context.cache.asked == [
        expected(runner, PLAIN, *code, builds=MODULE, dtype=dtype) for dtype in ("float64", "float16#1")
    ]


def test_answers_of_a_torch_module(bench):
    runner = CaseRunner(FUSED, EngineRequest("ort-cpu", "ort-cpu"), bench())
    of_case.answers(runner, [[CALL]], ("float64", "float16#1"))
    work = {"batch_size": 1, "height": 64, "width": 64, "steps": 0, "scheduler": ""}
    call = {"name": "one", "workload": work, "prompts": ["a red circle"], "seed": 3, "drawn": 0, "rows": []}
    code = ("pytest_sdperf.tasks.replay", EAGER)
    assert runner.context.cache.asked == [
        expected(runner, PLAIN, *code, builds=MODULE, dtype=dtype, calls=[call]) for dtype in ("float64", "float16#1")
    ]


def test_pictures_of_a_torch_module(bench):
    case = Case("sd15-thin", "pipeline", "torch", "fp32", height=64, width=64, steps=2, weights="random-0")
    runner = CaseRunner(case, EngineRequest("torch", "torch"), bench(output="images"))
    prompts = [f"a circle number {number}" for number in range(12)]
    plain_torch.pictures(runner, prompts)
    told = (
        "model=sd15-thin component=pipeline engine=torch optimization=fp32 weights=random-0 batch_size=10 height=64 "
        "width=64 steps=2"
    )
    builds = {name: f"module-{name}-float32" for name in ("text_encoder", "unet", "vae_decoder")}
    code = ("pytest_sdperf.tasks.pipeline", EAGER)
    assert runner.context.cache.asked == [expected(runner, told, *code, builds=builds, prompts=prompts)]


def test_outputs_of_a_float32_graph(bench):
    runner = CaseRunner(EXTERNAL, EngineRequest("ort-cpu", "ort-cpu"), bench(graphs=True))
    float32_graph.outputs(runner, "float32")
    float32_graph.outputs(runner, "float16")
    told = (
        "model=sd15-thin component=unet engine=ort-cpu optimization=as-is engine_options=graph_optimizations={} "
        "exporter=external opset=18 shapes=static batch_size=1 height=64 width=64"
    )
    off, on, half = (
        expected(
            runner, told.format(optimizations), "pytest_sdperf.tasks.reference", "pytest_sdperf.engines.ort_cpu",
            builds={"unet": "graph-unet-float32"}, libraries=("onnxruntime", *TORCH), dtype=dtype, rounding=0,
        )
        for optimizations, dtype in (("off", "float32"), ("all", "float32"), ("off", "float16"))
    )  # fmt: skip
    assert runner.context.cache.asked == [off, on, off, half]


def test_outputs_of_the_plain_classes_of_a_pipeline_of_the_users_own(bench):
    runner = own_runner(bench())
    of_case.references(runner, ("float32", "float16#2"))
    kinds = ({"unet": "float32", "vae": "float32"}, 0), ({"unet": "float16", "vae": "float32"}, 2)
    assert runner.context.cache.asked == [
        expected(runner, OWN.key, "pytest_sdperf.tasks.plain_pipeline", builds={}, dtypes=dtypes, rounding=rounding)
        for dtypes, rounding in kinds
    ]


def test_answers_of_the_plain_classes_of_a_pipeline_of_the_users_own(bench):
    runner = own_runner(bench())
    of_case.answers(runner, [[CALL]], ("float16#2",))
    work = {"batch_size": 1, "height": 64, "width": 64, "steps": 0, "scheduler": ""}
    call = {"workload": work, "prompts": ["a red circle"], "seed": 3, "rows": [0], "drawn": 1, "resized": False}
    assert runner.context.cache.asked == [
        expected(
            runner, OWN.key, "pytest_sdperf.tasks.plain_pipeline", builds={},
            dtypes={"unet": "float16", "vae": "float32"}, rounding=2, calls=[call],
        )
    ]  # fmt: skip
