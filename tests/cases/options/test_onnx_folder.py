"""What a folder of exported graphs says before anything loads it, and what is said about one that cannot serve."""

from __future__ import annotations

import onnx
import pytest
from external_folders import make_unet, move_data, write

from pytest_sdperf.builds.onnx_folder import OnnxFolder
from pytest_sdperf.core.errors import OnnxFolderError
from pytest_sdperf.fusing.optimizations import LADDER

LAYOUT = "Give a folder with COMPONENT/model.onnx, as `optimum-cli export onnx --model MODEL FOLDER` writes it."
OPTIMIZATIONS = {optimization.name: optimization for optimization in LADDER}


def refusal(folder, component="unet"):
    with pytest.raises(OnnxFolderError) as raised:
        OnnxFolder(folder).graph(component)
    return str(raised.value)


def test_a_file_says_its_opset_its_shapes_and_its_dtype(tmp_path):
    write(tmp_path, "unet", make_unet(sample=("batch", 16, 32), timestep=("steps",), opset=17, dtype="float16"))
    write(tmp_path, "vae_decoder", make_unet())
    folder = OnnxFolder(tmp_path)
    unet, decoder = folder.graph("unet"), folder.graph("vae_decoder")
    assert folder.components == ("unet", "vae_decoder")
    assert (unet.opset, unet.shapes, unet.dtype) == (17, "dynamic", "float16")
    assert (decoder.opset, decoder.shapes, decoder.dtype) == (18, "static", "float32")
    assert [str(tensor) for tensor in (*unet.inputs, *unet.outputs)] == [
        "sample float16 [batch, 16, 32]",
        "timestep float32 [steps]",
        "out_sample float16 [batch, 16, 32]",
    ]
    assert unet.data == ("weights.pb",)
    assert unet.counts == {"::Add": 1, "::Cast": 1, "::MatMul": 1}


def test_folders_of_the_demo_of_onnxruntime_are_components(tmp_path):
    for name in ("clip", "clip2", "unetxl", "vae"):
        write(tmp_path / "demo", name, make_unet(opset=17))
    folder = OnnxFolder(tmp_path / "demo")
    assert folder.components == ("text_encoder", "text_encoder_2", "unet", "vae_decoder")
    assert folder.graph("unet").path == tmp_path / "demo/unetxl/model.onnx"
    for name in folder.components:
        write(tmp_path / "ours", name, make_unet(opset=17))
    assert folder.identity(folder.components) == OnnxFolder(tmp_path / "ours").identity(folder.components)


def test_what_bears_the_name_of_a_component_is_that_component(tmp_path):
    write(tmp_path, "unet", make_unet(opset=17))
    write(tmp_path, "unetxl", make_unet(opset=18))
    folder = OnnxFolder(tmp_path)
    assert folder.components == ("unet", "unetxl")
    assert folder.graph("unet").opset == 17


def test_the_identity_is_that_of_the_content_and_not_of_the_place(tmp_path):
    for name in ("first", "second"):
        write(tmp_path / name, "unet", make_unet())
    first, second = (OnnxFolder(tmp_path / name).identity(["unet"]) for name in ("first", "second"))
    assert first == second
    assert first.startswith("onnx-")
    assert len(first) == len("onnx-") + 16
    data = tmp_path / "second/unet/weights.pb"
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    assert OnnxFolder(tmp_path / "second").identity(["unet"]) != first


def test_weights_within_the_graph_are_part_of_the_identity(tmp_path):
    path = write(tmp_path, "unet", make_unet(), external=False)
    before = OnnxFolder(tmp_path).identity(["unet"])
    model = onnx.load(path)
    model.graph.initializer[0].raw_data = bytes(len(model.graph.initializer[0].raw_data))
    onnx.save_model(model, path)
    assert OnnxFolder(tmp_path).graph("unet").data == ()
    assert OnnxFolder(tmp_path).identity(["unet"]) != before


def test_inputs_that_nothing_reads_are_not_asked_for(tmp_path):
    model = make_unet()
    model.graph.input.append(onnx.helper.make_tensor_value_info("return_dict", onnx.TensorProto.BOOL, []))
    write(tmp_path, "unet", model)
    assert [tensor.name for tensor in OnnxFolder(tmp_path).graph("unet").inputs] == ["sample", "timestep"]


def test_the_optimizations_that_a_graph_brings_along(tmp_path):
    model = make_unet()
    for op_type, inputs in (("NhwcConv", 2), ("MultiHeadAttention", 2), ("MultiHeadAttention", 3)):
        names = [f"{op_type}-{index}" for index in range(inputs)]
        model.graph.node.append(onnx.helper.make_node(op_type, names, [f"o{op_type}{inputs}"], domain="com.microsoft"))
    write(tmp_path, "unet", model)
    assert OnnxFolder(tmp_path).graph("unet").optimizations(OPTIMIZATIONS) == ("fmha", "nhwc-conv", "packed-qkv")


def test_a_folder_without_graphs_says_what_it_holds_instead(tmp_path):
    assert refusal(tmp_path) == f"--sdperf-onnx-dir={tmp_path}: it holds no graphs. {LAYOUT}"
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet/diffusion_pytorch_model.bin").touch()
    assert refusal(tmp_path) == (
        f"--sdperf-onnx-dir={tmp_path}: it holds pickles (unet/diffusion_pytorch_model.bin), which can run code when "
        f"loaded, and no graphs. {LAYOUT}"
    )
    (tmp_path / "unet/diffusion_pytorch_model.safetensors").touch()
    assert refusal(tmp_path) == (
        f"--sdperf-onnx-dir={tmp_path}: it holds weights of torch modules (unet/diffusion_pytorch_model.safetensors) "
        f"and no graphs; --sdperf-weights takes such folders. {LAYOUT}"
    )
    (tmp_path / "unet/unet.onnx").touch()
    assert refusal(tmp_path) == (
        f"--sdperf-onnx-dir={tmp_path}: it holds unet/unet.onnx, but no graph at the place where one is looked for. "
        f"{LAYOUT}"
    )


@pytest.mark.parametrize("name", ["onnx/unet/model.onnx", "unet/model_fp16.onnx", "unet/a/b.onnx", "model.onnx"])
def test_graphs_of_other_layouts_are_named(tmp_path, name):
    (tmp_path / "given" / name).parent.mkdir(parents=True)
    (tmp_path / "given" / name).touch()
    assert refusal(tmp_path / "given") == (
        f"--sdperf-onnx-dir={tmp_path / 'given'}: it holds {name}, but no graph at the place where one is looked for. "
        f"{LAYOUT}"
    )


def test_a_component_that_is_not_there(tmp_path):
    write(tmp_path, "unet", make_unet())
    assert refusal(tmp_path, "text_encoder") == (
        f"--sdperf-onnx-dir={tmp_path} has no text_encoder/model.onnx: there is no such folder. Components that it "
        f"holds: unet. {LAYOUT}"
    )


@pytest.mark.parametrize("location", ["../weights.pb", "/etc/passwd", "a/../../weights.pb", "..\\weights.pb"])
def test_data_outside_the_folder_is_not_read(tmp_path, location):
    path = write(tmp_path, "unet", make_unet())
    move_data(path, location)
    assert refusal(tmp_path) == (
        f"{path} keeps weights in {location!r}, which leaves its folder. Nothing outside {path.parent} is read; put "
        f"the data beside the graph, for example with onnx.save_model(..., save_as_external_data=True)."
    )


def test_data_behind_a_link_that_leaves_the_folder_is_not_read(tmp_path):
    path = write(tmp_path / "given", "unet", make_unet())
    (path.parent / "weights.pb").rename(tmp_path / "elsewhere.pb")
    (path.parent / "weights.pb").symlink_to(tmp_path / "elsewhere.pb")
    assert refusal(tmp_path / "given").startswith(f"{path} keeps weights in 'weights.pb', which leaves its folder.")


def test_a_snapshot_of_the_hub_links_to_its_own_blobs(tmp_path):
    snapshot = tmp_path / "models--owner--name/snapshots/0123"
    path = write(snapshot, "unet", make_unet())
    blobs = tmp_path / "models--owner--name/blobs"
    blobs.mkdir()
    (path.parent / "weights.pb").rename(blobs / "abc")
    (path.parent / "weights.pb").symlink_to("../../../blobs/abc")
    assert OnnxFolder(snapshot).graph("unet").data == ("weights.pb",)


def test_data_that_is_missing_or_too_short(tmp_path):
    path = write(tmp_path, "unet", make_unet())
    data = path.parent / "weights.pb"
    data.write_bytes(data.read_bytes()[:100])
    assert refusal(tmp_path) == (
        f"{data} has 100 bytes, and model.onnx reads it up to 4096. Fetch or export it again: a file of Git LFS that "
        f"was not fetched is a short text."
    )
    data.unlink()
    assert refusal(tmp_path) == (
        f"{path} keeps weights in 'weights.pb', and {path.parent} has no such file. Copy it there: a graph and its "
        f"data belong together."
    )


def test_a_file_that_is_no_model(tmp_path):
    path = write(tmp_path, "unet", make_unet())
    path.write_text("version https://git-lfs.github.com/spec/v1")
    assert refusal(tmp_path) == (
        f"{path} cannot be read as an ONNX model. Export or fetch it again; a "
        f"file of Git LFS that was not fetched is a short text."
    )
    path.write_bytes(b"")
    assert refusal(tmp_path) == f"{path} holds no graph. Export it again."


def test_a_dtype_that_nothing_here_computes_in(tmp_path):
    path = write(tmp_path, "unet", make_unet(dtype="bfloat16"))
    assert refusal(tmp_path) == (
        f"the weights of {path} are bfloat16. Supported: float32, float16. Export it in one of these."
    )
