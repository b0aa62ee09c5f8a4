from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from model_files import MODELS
from safetensors.torch import load_file, save_file

from pytest_sdperf.core.errors import WeightsError

MODEL = MODELS["sd15-thin"]


@pytest.fixture(scope="module")
def decoder(tmp_path_factory) -> dict[str, torch.Tensor]:
    path = tmp_path_factory.mktemp("drawn") / "vae_decoder.safetensors"
    MODEL.draw_weights("vae_decoder", path)
    return load_file(path)


@pytest.fixture
def vae(tmp_path) -> Path:
    folder: Path = tmp_path / "pipe" / "vae"
    folder.mkdir(parents=True)
    return folder


def imported(vae: Path, component: str = "vae_decoder") -> dict[str, torch.Tensor]:
    path = vae.parent.parent / "imported.safetensors"
    MODEL.import_weights(component, vae.parent, path)
    return load_file(path)


def refusal(vae: Path, component: str = "vae_decoder") -> str:
    with pytest.raises(WeightsError) as caught:
        imported(vae, component)
    return str(caught.value)


def assert_equal(obtained: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert obtained.keys() == expected.keys()
    for name, tensor in expected.items():
        assert obtained[name].dtype == torch.float32
        assert torch.equal(obtained[name], tensor), name


def test_a_folder_that_diffusers_wrote_is_imported(tmp_path):
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    vae = AutoencoderKL(**MODEL.config("vae_decoder"))
    vae.save_pretrained(tmp_path / "pipe" / "vae")
    state = vae.state_dict()
    for component, parts in (("vae_decoder", ("decoder", "post_quant_conv")), ("vae_encoder", ("encoder", "quant_c"))):
        obtained = imported(tmp_path / "pipe" / "vae", component)
        assert_equal(obtained, {name: tensor for name, tensor in state.items() if name.startswith(parts)})


def test_a_text_encoder_is_imported_under_its_released_names(tmp_path):
    MODEL.draw_weights("text_encoder", tmp_path / "drawn.safetensors")
    expected = load_file(tmp_path / "drawn.safetensors")
    assert "text_model.embeddings.token_embedding.weight" in expected
    place = tmp_path / "pipe" / "text_encoder"
    place.mkdir(parents=True)
    # Checkpoints of 2022 store the positions, too.
    save_file({**expected, "text_model.embeddings.position_ids": torch.arange(77)[None]}, place / "model.safetensors")
    assert_equal(imported(place, "text_encoder"), expected)


@pytest.mark.parametrize("prefix", ["text_model.", ""], ids=["with-prefix", "without"])
def test_a_text_encoder_is_imported_in_both_spellings(tmp_path, prefix):
    """transformers 5 writes its text encoders without the name of the model within, earlier ones with it."""
    MODEL.draw_weights("text_encoder", tmp_path / "drawn.safetensors")
    expected = load_file(tmp_path / "drawn.safetensors")
    place = tmp_path / "pipe" / "text_encoder"
    place.mkdir(parents=True)
    spelled = {f"{prefix}{name.removeprefix('text_model.')}": tensor for name, tensor in expected.items()}
    save_file(spelled, place / "model.safetensors")
    assert_equal(imported(place, "text_encoder"), expected)


@pytest.mark.parametrize(
    ("model", "component", "kind"),
    [
        ("sd15-thin", "text_encoder", "CLIPTextModel"),
        ("sdxl-thin", "text_encoder", "CLIPTextModel"),
        ("sdxl-thin", "text_encoder_2", "CLIPTextModelWithProjection"),
    ],
)
def test_what_the_installed_transformers_writes_is_imported(tmp_path, model, component, kind):
    import transformers

    made = getattr(transformers, kind)(transformers.CLIPTextConfig(**MODELS[model].config(component)))
    made.save_pretrained(tmp_path / "pipe" / component)
    MODELS[model].draw_weights(component, tmp_path / "drawn.safetensors")
    MODELS[model].import_weights(component, tmp_path / "pipe", tmp_path / "imported.safetensors")
    obtained = load_file(tmp_path / "imported.safetensors")
    assert obtained.keys() == load_file(tmp_path / "drawn.safetensors").keys()
    state = {name.removeprefix("text_model."): tensor for name, tensor in made.state_dict().items()}
    assert_equal(
        {name.removeprefix("text_model."): tensor for name, tensor in obtained.items()},
        {name: tensor for name, tensor in state.items() if not name.endswith("position_ids")},
    )


def test_names_of_old_autoencoders_are_understood(vae, decoder):
    old = {}
    for name, tensor in decoder.items():
        renamed, stored = name, tensor
        for new, deprecated in (("to_q", "query"), ("to_k", "key"), ("to_v", "value"), ("to_out.0", "proj_attn")):
            renamed = renamed.replace(f".{new}.", f".{deprecated}.")
        if renamed != name and tensor.dim() == 2:
            stored = tensor[:, :, None, None].contiguous()
        old[renamed] = stored
    assert old.keys() != decoder.keys()
    save_file(old, vae / "diffusion_pytorch_model.safetensors")
    assert_equal(imported(vae), decoder)


def test_parts_that_an_index_names_are_joined(vae, decoder):
    names = sorted(decoder)
    halves = {"a.safetensors": names[: len(names) // 2], "b.safetensors": names[len(names) // 2 :]}
    for file, held in halves.items():
        save_file({name: decoder[name] for name in held}, vae / file)
    index = {"weight_map": {name: file for file, held in halves.items() for name in held}}
    (vae / "diffusion_pytorch_model.safetensors.index.json").write_text(json.dumps(index))
    assert_equal(imported(vae), decoder)


def test_half_precision_is_taken_where_there_is_nothing_better(vae, decoder):
    half = {name: tensor.half() for name, tensor in decoder.items()}
    save_file(half, vae / "diffusion_pytorch_model.fp16.safetensors")
    assert_equal(imported(vae), {name: tensor.float() for name, tensor in half.items()})
    save_file(decoder, vae / "diffusion_pytorch_model.safetensors")
    assert_equal(imported(vae), decoder)


def test_a_missing_component_is_answered_with_what_is_there(vae):
    (vae.parent / "scheduler").mkdir()
    assert refusal(vae, "unet") == (
        f"weights folder {vae.parent} has no sub-folder 'unet'; it has: scheduler, vae. "
        "Give a diffusers folder (one sub-folder per component) to --weights."
    )


def test_pickles_are_refused(vae):
    (vae / "diffusion_pytorch_model.bin").write_bytes(b"\x80\x04.")
    assert refusal(vae) == (
        f"{vae} holds only pickles (diffusion_pytorch_model.bin), which can run code when loaded. Convert them to "
        "safetensors first, for example with pipe.save_pretrained(folder, safe_serialization=True)."
    )


def test_an_empty_component_is_refused(vae):
    assert refusal(vae) == (
        f"{vae} holds no diffusion_pytorch_model.safetensors and no model.safetensors. "
        "Give a diffusers folder with safetensors files to --weights."
    )


def test_another_shape_is_refused_and_nothing_is_left_behind(vae, decoder):
    file = vae / "diffusion_pytorch_model.safetensors"
    save_file({**decoder, "post_quant_conv.bias": torch.ones(8)}, file)
    assert refusal(vae) == (
        f"{file} holds 'post_quant_conv.bias' with shape [8], the model needs [4]. "
        "It is another model's; choose --model to fit it."
    )
    assert not list(vae.parent.parent.glob("imported*"))


def test_missing_tensors_are_counted(vae, decoder):
    kept = {name: tensor for name, tensor in decoder.items() if not name.startswith("post_quant_conv")}
    save_file(kept, vae / "diffusion_pytorch_model.safetensors")
    assert refusal(vae) == (
        f"{vae} lacks 2 of the {len(decoder)} tensors that the model needs; the first is 'post_quant_conv.bias'. "
        "It is another model's; choose --model to fit it."
    )


def test_a_truncated_file_is_refused(vae, decoder):
    file = vae / "diffusion_pytorch_model.safetensors"
    save_file(decoder, file)
    file.write_bytes(file.read_bytes()[:1000])
    message = refusal(vae)
    reason = message.removeprefix(f"{file} cannot be read as safetensors (").removesuffix(
        "). Fetch or convert it again."
    )
    assert message == f"{file} cannot be read as safetensors ({reason}). Fetch or convert it again."
    assert reason


def test_a_model_that_predicts_something_else_is_refused(vae, decoder):
    save_file(decoder, vae / "diffusion_pytorch_model.safetensors")
    (vae.parent / "scheduler").mkdir()
    file = vae.parent / "scheduler" / "scheduler_config.json"
    file.write_text('{"prediction_type": "v_prediction"}')
    assert refusal(vae) == (
        f"{file} says prediction_type 'v_prediction', the model predicts 'epsilon'. "
        "It is another model's; choose --model to fit it."
    )
    file.write_text("{}")
    assert_equal(imported(vae), decoder)


BAD_JSON = [
    (
        b"version https://git-lfs.github.com/spec/v1",
        "cannot be read as JSON (Expecting value: line 1 column 1 (char 0))",
    ),
    (b"", "cannot be read as JSON (Expecting value: line 1 column 1 (char 0))"),
    (b"{}}", "cannot be read as JSON (Extra data: line 1 column 3 (char 2))"),
    (b"[]", "holds no JSON object"),
]


@pytest.mark.parametrize(("content", "why"), BAD_JSON)
@pytest.mark.parametrize("name", ["scheduler/scheduler_config.json", "vae/model.safetensors.index.json"])
def test_what_is_no_json_is_refused_with_its_file(vae, name, content, why):
    file = vae.parent / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    assert refusal(vae) == f"{file} {why}. Fetch or convert it again."


@pytest.mark.parametrize("named", [{}, [], None, {"a": 1}, "a.safetensors"])
def test_an_index_that_names_no_files_is_refused(vae, named):
    file = vae / "model.safetensors.index.json"
    file.write_text(json.dumps({"weight_map": named}))
    assert refusal(vae) == f"{file} names no files of weights (weight_map). Fetch or convert it again."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_settings_are_read_as_notepad_and_diffusers_write_them(vae, decoder, encoding):
    """With a byte order mark, or in UTF-16; DPM-Solver has a setting `lambda_min_clipped` that is infinite."""
    (vae.parent / "scheduler").mkdir()
    settings = json.dumps({"lambda_min_clipped": float("-inf"), "prediction_type": "epsilon"})
    (vae.parent / "scheduler" / "scheduler_config.json").write_text(settings, encoding=encoding)
    save_file(decoder, vae / "all.safetensors")
    index = json.dumps({"weight_map": dict.fromkeys(decoder, "all.safetensors")})
    (vae / "model.safetensors.index.json").write_text(index, encoding=encoding)
    assert_equal(imported(vae), decoder)
