from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import wide_models
from steps_seen import Seen
from tiny_model import make_catalog

from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Cache
from pytest_sdperf.core import progress
from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.errors import OptionError, SdperfError, UnknownNameError, WeightsError
from pytest_sdperf.core.settings import Selection, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.engines.torch_eager import TorchEngine

# The exporter of torch warns about its own future.
pytestmark = [pytest.mark.filterwarnings("ignore::FutureWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]

SEEN = Seen()


@pytest.fixture(scope="module", autouse=True)
def seen():
    """Let the last builder that was made tell its steps among what it says."""
    with progress.watched_by(SEEN):
        yield


def _builder(folder: Path, *, weights="random", in_process=True, catalog: Catalog | None = None):
    said = SEEN.said = []
    settings = Settings(
        cache_dir=folder, in_process=in_process, build_timeout_s=300, selection=Selection(weights=weights)
    )
    cache = Cache(folder, size_bytes=10**9, say=said.append)
    return Builder(catalog or make_catalog(), settings, cache, say=said.append), said


def _build(builder, optimization="fp16", *, engine=None, **changes):
    made = {"fuser": "ort", "exporter": "dynamo", "opset": 18, "shapes": "static", "steps": 4, "scheduler": "pndm"}
    options = {"model": "tiny", "component": "unet", **made, "height": 128, "width": 128, **changes}
    case = Case(engine="", optimization=optimization, **options)
    return builder.build(case, case.component, engine=engine)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    builder, said = _builder(tmp_path_factory.mktemp("cache"))
    return _build(builder, "fp32"), _build(builder, "fp16"), said


@pytest.fixture(scope="module")
def folder(built):
    """Return the cache of what was built, whichever test is the first."""
    return built[0].path.parents[2]


def test_optimizations_share_weights_and_export(folder, built):
    raw, half, said = built
    assert said == [
        "drawing the weights of tiny unet",
        "exporting tiny unet to ONNX (dynamo, opset 18)",
        "checking the graph of tiny unet",
        "optimizing unet with the fuser ort (fp32+fp16)",
        "checking the optimized graph of unet",
    ]
    assert (raw.kind, raw.dtype, half.kind, half.dtype) == ("onnx", "float32", "onnx", "float16")
    assert raw.path.name == half.path.name == "model.onnx"
    assert raw.path.is_file()
    assert raw.graph_hash != half.graph_hash
    assert 0 < half.size_bytes < raw.size_bytes
    assert [(step.name, step.now) for step in half.steps] == [
        ("weights", False),
        ("export", False),
        ("fuse-ort", False),
    ]  # nobody named the run
    assert raw.steps == half.steps[:2]
    assert all(step.seconds > 0 for step in half.steps)
    # The kernel counts processor time in hundredths of a second, and drawing so few weights takes less.
    assert all(step.cpu_seconds > 0 for step in half.steps[1:])
    assert raw.counts["::LayerNormalization"] == 6
    assert not list(folder.rglob("stderr.txt"))


def test_real_build_holds_what_the_module_lets_expect(folder, built):
    builder, _ = _builder(folder)
    expected = builder.expected_counts("tiny", "unet", "fp16")
    assert expected == {"::LayerNormalization": 1, "com.microsoft::SkipLayerNormalization": 5}
    assert {op: built[1].counts[op] for op in expected} == expected
    assert builder.expected_counts("tiny", "unet", "fp32") == {}


def test_what_the_model_declares_as_float32_stays_so_in_half_precision(built):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(built[1].path), providers=["CPUExecutionProvider"])
    kinds = {value.name: value.type for value in (*session.get_inputs(), *session.get_outputs())}
    assert kinds == {
        "sample": "tensor(float16)", "timestep": "tensor(float)", "out_sample": "tensor(float16)"
    }  # fmt: skip


def _timeless(build):
    """Return a build without what building took: a test before this one may have had it built again."""
    return dataclasses.replace(build, steps=())


def test_second_run_builds_nothing(folder, built):
    builder, said = _builder(folder)
    assert [_timeless(_build(builder, optimization)) for optimization in ("fp32", "fp16")] == [
        *map(_timeless, built[:2])
    ]
    assert said == []


def test_steps_scheduler_and_batch_size_of_other_builds_do_not_matter(folder, built):
    builder, said = _builder(folder)
    assert _timeless(_build(builder, "fp16", steps=50, scheduler="euler")) == _timeless(built[1])
    assert said == []


def test_a_tampered_artifact_is_built_again(folder, built):
    data = built[1].path.with_name("model.onnx.data")
    content = bytearray(data.read_bytes())
    content[0] ^= 1
    data.write_bytes(content)
    builder, said = _builder(folder)
    assert _timeless(_build(builder, "fp16")) == _timeless(built[1])
    assert said == [
        f"cache entry {built[1].key} is damaged (model.onnx.data has another hash than recorded); it is built again",
        "optimizing unet with the fuser ort (fp32+fp16)",
        "checking the optimized graph of unet",
    ]


def test_one_dynamic_build_serves_every_batch_size(folder):
    builder, said = _builder(folder)
    one = _build(builder, "fp32", shapes="dynamic")
    del said[:]
    assert _build(builder, "fp32", shapes="dynamic", batch_size=8, height=512, width=512) == one
    assert said == []


def test_an_engine_that_loads_modules_gets_weights_only(tmp_path):
    builder, said = _builder(tmp_path)
    build = _build(builder, "fp16", engine=TorchEngine())
    assert said == ["drawing the weights of tiny unet"]
    assert (build.kind, build.dtype, build.path) == ("module", "float16", builder.weights("tiny", "unet"))
    assert (build.counts, build.graph_hash) == ({}, "")


def test_weights_of_a_folder(tmp_path):
    (tmp_path / "w").mkdir()
    builder, _ = _builder(tmp_path / "c", weights=str(tmp_path / "w"))
    with pytest.raises(WeightsError, match="holds no unet"):
        builder.weights("tiny", "unet")
    drawn = _builder(tmp_path / "c")[0].weights("tiny", "unet")
    (tmp_path / "w" / "unet").mkdir()
    (tmp_path / "w" / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(drawn.read_bytes())
    assert builder.weights("tiny", "unet").read_bytes() == drawn.read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fuser": "orr"}, "unknown fuser 'orr'. Did you mean 'ort'? Known: native, ort."),
        ({"exporter": "torch"}, "unknown exporter 'torch'. Did you mean 'torchscript'? Known: dynamo, torchscript."),
        ({"shapes": "any"}, "shapes 'any' are not known. Choose one of: static, dynamic."),
    ],
)
def test_unknown_choices(folder, built, changes, message):
    with pytest.raises((UnknownNameError, OptionError)) as raised:
        _build(_builder(folder)[0], **changes)
    assert str(raised.value) == message


def test_what_failed_is_not_tried_again_in_the_same_run(tmp_path):
    (tmp_path / "source").mkdir()
    builder, said = _builder(tmp_path / "cache", weights=str(tmp_path / "source"))
    for _ in range(2):
        with pytest.raises(WeightsError) as caught:
            _build(builder)
        assert str(caught.value) == f"{tmp_path / 'source'} holds no unet"
    assert said == ["reading the weights of tiny unet"]


def test_component_that_the_model_lacks(folder):
    with pytest.raises(UnknownNameError) as raised:
        _builder(folder)[0].expected_counts("tiny", "unnet", "fp16")
    assert str(raised.value) == "unknown component of tiny 'unnet'. Did you mean 'unet'? Known: unet."


def test_builds_in_a_process_of_its_own(tmp_path):
    builder, said = _builder(tmp_path, in_process=False)
    assert builder.weights("tiny", "unet").is_file()
    assert said == ["drawing the weights of tiny unet"]
    assert not list(tmp_path.rglob("stderr.txt"))


def test_importing_the_builder_imports_no_heavy_library():
    heavy = "{'torch', 'onnx', 'onnxruntime', 'diffusers', 'transformers', 'numpy', 'safetensors'}"
    program = f"import sys, pytest_sdperf.builds.builder; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_without_weights_graphs_are_built_and_nothing_else(tmp_path, built):
    builder, said = _builder(tmp_path, weights="none")
    build = _build(builder, "fp16", fuser="native")
    assert said == [
        "exporting tiny unet to ONNX (dynamo, opset 18)",
        "checking the graph of tiny unet",
        "optimizing unet with the fuser native (fp32+fp16)",
        "checking the optimized graph of unet",
    ]
    assert {path.name.partition("-")[0] for path in (tmp_path / "entries").iterdir()} == {"export", "fuse"}
    assert not list(tmp_path.rglob("*.data"))
    assert build.size_bytes < 100_000
    assert _build(builder, "fp32").graph_hash == built[0].graph_hash
    expected = builder.expected_counts("tiny", "unet", "fp16")
    assert {op: build.counts.get(op, 0) for op in expected} == expected


def test_a_graph_without_weights_is_not_taken_for_one_with_weights(folder, built):
    builder, said = _builder(folder, weights="none")
    assert _build(builder, "fp32").key != built[0].key
    assert said == ["exporting tiny unet to ONNX (dynamo, opset 18)", "checking the graph of tiny unet"]
    assert _build(_builder(folder)[0], "fp32") == built[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"engine": TorchEngine()},
            (
                "--sdperf-weights=none builds graphs without weights, and weights were asked for. Leave "
                "--sdperf-weights out, or only look at graphs."
            ),
        ),
        (
            {"fuser": "ort"},
            (
                "the optimizer of onnxruntime reads weights, and --sdperf-weights=none builds graphs without. Choose "
                "the fuser native, or leave --sdperf-weights out."
            ),
        ),
        (
            {"exporter": "torchscript"},
            "the exporter torchscript executes the module, which needs weights. Use the exporter dynamo.",
        ),
    ],
)
def test_what_needs_weights(tmp_path, changes, message):
    with pytest.raises(SdperfError) as raised:
        _build(_builder(tmp_path, weights="none")[0], **changes)
    assert str(raised.value) == message


@pytest.mark.slow
def test_released_sizes_are_counted_without_weights(tmp_path):
    catalog = Catalog()
    with catalog.owned_by(Registrar("wide_models", Path(wide_models.__file__))):
        wide_models.pytest_sdperf_register(catalog)
    builder, _ = _builder(tmp_path, weights="none", catalog=catalog)
    optimization = catalog.ladder[-1]
    for component in catalog.models.get("wide").components:
        size = {"height": 512, "width": 512}
        build = _build(builder, optimization, model="wide", component=component, fuser="native", **size)
        expected = builder.expected_counts("wide", component, optimization)
        assert {op: build.counts.get(op, 0) for op in expected} == expected
        assert build.limits == ()
        assert build.size_bytes < 5e6
    assert not list(tmp_path.rglob("*.data"))
