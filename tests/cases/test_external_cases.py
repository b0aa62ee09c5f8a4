"""Cases of a folder of exported graphs: their identity, their names, and which of them cannot be."""

from __future__ import annotations

import onnx
import pytest
from door_toys import toy_catalog
from external_folders import make_unet, write

from pytest_sdperf import builtins
from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.engine_requests import parse_engines
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.selector import Selector
from pytest_sdperf.checks.fusions.check import Fused
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.settings import Selection


def choose(folder, axes=Axes.ENGINE, *, engines="", timed=False, catalog=None, **asked):
    catalog = catalog or toy_catalog()
    requests = parse_engines(engines, catalog, {}, device_kind="cpu") if engines else ()
    selection = Selection(onnx_dir=folder, engines=requests, **asked)
    return Selector(selection, catalog, {}, "cpu").choose(axes, Marks(), timed=timed)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, "unet", make_unet(opset=17, sample=("batch", 16, 32)))
    return tmp_path


def test_a_case_is_known_by_the_content_of_its_files(folder):
    identity = OnnxFolder(folder).identity(["unet"])
    (choice,) = choose(folder, Axes.BUILD, components=("unet",), optimizations=("fp16",), fusers=("native",))
    case = choice.case
    assert (case.exporter, case.opset, case.shapes, case.weights) == ("external", 17, "dynamic", identity)
    assert choice.id == f"sd15-thin-unet-at-fp16-by-native-from-external-dynamic-opset-17-weights-{identity}"
    assert f"weights={identity}" in case.key
    assert f"weights={identity}" in Fused().key(case)


def test_nothing_fuses_a_graph_that_is_taken_as_it_is(folder):
    (choice,) = choose(folder, Axes.BUILD, components=("unet",), optimizations=("as-is",))
    assert (choice.case.optimization, choice.case.fuser) == ("as-is", "")
    assert choice.id.startswith("sd15-thin-unet-at-as-is-from-external-dynamic-opset-17-weights-onnx-")


def test_by_default_what_the_folder_lacks_is_skipped_with_the_reason(folder):
    choices = {choice.case.component: choice.skip for choice in choose(folder, engines="ort-cpu")}
    assert choices == {
        "unet": "",
        "pipeline": (
            f"{folder} has no text_encoder, which the pipeline of sd15-thin needs; it has unet. Name each folder as "
            f"the component is called that it holds"
        ),
    }


def test_a_pipeline_is_known_by_all_its_components(folder):
    write(folder, "text_encoder", make_unet())
    (choice,) = choose(folder, components=("pipeline",), engines="ort-cpu", optimizations=("fp16",))
    assert choice.skip == ""
    assert choice.case.weights == OnnxFolder(folder).identity(["text_encoder", "unet"])
    assert (choice.case.opset, choice.case.shapes) == (17, "dynamic")


def test_engines_that_run_modules_need_weights(folder, tmp_path):
    (first, *_) = choose(folder, components=("unet",), engines="torch")
    assert first.skip == (
        f"torch runs a torch module, and --sdperf-onnx-dir={folder} holds graphs alone; name its weights with "
        f"--sdperf-weights=FOLDER"
    )
    assert first.case.exporter == ""
    (second, *_) = choose(folder, components=("unet",), engines="torch", weights=str(tmp_path))
    assert second.skip == ""
    assert second.case.weights.startswith("folder-")


def test_by_default_a_float16_graph_is_not_asked_for_float32(folder):
    write(folder, "unet", make_unet(dtype="float16"))
    skips = {
        choice.case.optimization: choice.skip for choice in choose(folder, components=("unet",), engines="ort-cpu")
    }
    assert skips == {"fp32": f"the unet of {folder} is float16, and fp32 needs one in float32", "fp16": ""}
    (named,) = choose(folder, components=("unet",), engines="ort-cpu", optimizations=("fp32",))
    assert named.skip == ""  # an error where it is built


def test_an_engine_that_lacks_what_a_graph_brings_along_only_checks_it(folder):
    model = make_unet()
    node = onnx.helper.make_node("NhwcConv", ["product", "weight"], ["unused"], domain="com.microsoft")
    model.graph.node.append(node)
    write(folder, "unet", model)
    catalog = Catalog()
    builtins.pytest_sdperf_register(catalog)
    asked = {"components": ("unet",), "engines": "ort-cpu", "optimizations": ("as-is",), "catalog": catalog}
    (checked,) = choose(folder, **asked)
    (timed,) = choose(folder, timed=True, **asked)
    assert checked.skip == ""
    assert timed.skip == (
        "not applicable: the unet holds nhwc-conv already, and onnxruntime has no CPU kernel for NhwcConv, which "
        "nhwc-conv needs"
    )
