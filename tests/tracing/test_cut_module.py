"""A module of torch is built from its class again, called as it was, and shows by itself what it gives."""

from __future__ import annotations

import os
import subprocess
import sys

import diffusers
import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel

from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.tracing import cut_module
from pytest_sdperf.tracing.cut_module import ModuleCall, UncuttableError
from pytest_sdperf.tracing.module_program import program

PLAIN = ModuleRecipe("cpu")
VAE = {
    "block_out_channels": [8, 16], "norm_num_groups": 4, "latent_channels": 4, "layers_per_block": 1,
    "down_block_types": ["DownEncoderBlock2D"] * 2, "up_block_types": ["UpDecoderBlock2D"] * 2,
}  # fmt: skip
UNET = {
    "block_out_channels": [8, 16], "norm_num_groups": 4, "cross_attention_dim": 12, "attention_head_dim": 2,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"], "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
    "layers_per_block": 1, "sample_size": 8,
}  # fmt: skip
ATTENTION = "unet.down_blocks.0.attentions.0.transformer_blocks.0.attn2"


class Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.decoder = AutoencoderKL(**VAE).decoder
        self.own = torch.nn.Sequential(torch.nn.GroupNorm(2, 4, eps=1e-6))

    def forward(self, x):
        return self.decoder(self.own(x))


class Whole(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.unet = UNet2DConditionModel(**UNET)

    def forward(self, x, time, text):
        return self.unet(x, time, text, return_dict=False)


@pytest.fixture(scope="module")
def whole():
    return Whole().eval()


INPUTS = [torch.randn(1, 4, 8, 8), torch.tensor([3.0]), torch.randn(1, 5, 12)]


def test_a_call_is_written_as_python_writes_it():
    first, second = torch.zeros(2), torch.ones(3)
    call = ModuleCall((first, None, (1, [second])), {"scale": 0.5, "more": {"mask": second}, "name": "x"})
    text, tensors = call.written()
    assert text == (
        """given["0"], None, (1, [given["2.1.0"]], ), scale=0.5, more={'mask': given["more.mask"]}, name='x'"""
    )
    assert list(tensors) == ["0", "2.1.0", "more.mask"]
    other = call.with_tensors({name: tensor + 1 for name, tensor in tensors.items()})
    assert other.arguments[2][1][0].tolist() == [2, 2, 2]
    assert other.named["scale"] == 0.5


def test_an_object_of_a_class_cannot_be_written():
    with pytest.raises(UncuttableError) as raised:
        ModuleCall((object(),), {}).written()
    assert str(raised.value) == "it is called with an object of object"


@pytest.mark.parametrize(
    ("made", "taken"), [(torch.ones(2), ""), ((None, torch.ones(2)), "[1]"), ({"sample": torch.ones(2)}, '["sample"]')]
)
def test_the_first_tensor_is_what_is_compared(made, taken):
    assert cut_module.first_tensor(made) == (pytest.approx(torch.ones(2)), taken)


def test_which_call_of_a_module_was_meant(whole):
    call = cut_module.call_of(whole, ATTENTION, 1, INPUTS)
    assert call.named["encoder_hidden_states"] is INPUTS[2]
    with pytest.raises(UncuttableError) as raised:
        cut_module.call_of(whole, ATTENTION, 2, INPUTS)
    assert str(raised.value) == f"{ATTENTION} was called 1 times"


def test_a_module_of_torch_is_built_as_it_shows_itself(whole):
    assert cut_module.building(whole, "unet.conv_in", {}) == (
        "",
        "torch.nn.Conv2d(4, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))",
        {},
    )


def test_a_part_of_a_model_is_built_from_the_configuration_of_the_model(whole):
    imports, built, config = cut_module.building(whole, ATTENTION, {})
    assert imports == "from diffusers import Transformer2DModel"  # the nearest one that has a configuration
    assert built == 'Transformer2DModel(**config).get_submodule("transformer_blocks.0.attn2")'
    assert config["cross_attention_dim"] == 12
    imports, built, config = cut_module.building(whole, "unet.time_embedding", {})
    assert (imports, built) == (
        "from diffusers import UNet2DConditionModel",
        'UNet2DConditionModel(**config).get_submodule("time_embedding")',
    )
    assert config["block_out_channels"] == [8, 16]


def test_half_of_an_autoencoder_is_built_from_the_whole_one():
    imports, built, config = cut_module.building(Halves(), "decoder.mid_block", VAE)
    assert (imports, built) == (
        "from diffusers import AutoencoderKL",
        'AutoencoderKL(**config).get_submodule("decoder.mid_block")',
    )
    assert config["block_out_channels"] == [8, 16]


def test_a_class_of_somebodys_own_is_not_built():
    with pytest.raises(UncuttableError) as raised:
        cut_module.building(Halves(), "own", VAE)
    assert str(raised.value) == "Sequential is part of no class that a configuration builds"


def run(folder):
    done = subprocess.run(
        [sys.executable, "reproduce.py"],
        cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    return done.returncode, done.stdout.partition(": ")[0], done.stderr


@pytest.mark.slow
def test_the_program_gives_in_a_fresh_process_what_the_module_gave(whole, tmp_path):
    """It fails while a fault shows: `checks/locate/test_locating_runs.py` runs one beside a fault."""
    part, call = whole.get_submodule(ATTENTION), cut_module.call_of(whole, ATTENTION, 1, INPUTS)
    with torch.inference_mode():
        expected, taken = cut_module.first_tensor(part(*call.arguments, **call.named))
    cut_module.write(
        tmp_path / "right", built=cut_module.building(whole, ATTENTION, {}), weights=dict(part.named_parameters()),
        buffers=[], call=call, taken=taken, expected=expected, limit=1e-5, recipe=PLAIN, path=ATTENTION,
    )  # fmt: skip
    told = f"torch {torch.__version__}, diffusers {diffusers.__version__} cpu"
    assert run(tmp_path / "right") == (0, told, "")


def test_a_program_does_what_the_engine_does():
    text = program(
        imports="from diffusers import UNet2DConditionModel",
        built="UNet2DConditionModel(**config)",
        config={"layers": 2},
        weights=["a", "b.c"],
        buffers=["b.c"],
        call='given["0"], return_dict=False',
        taken="[0]",
        limit=1.5e-4,
        recipe=ModuleRecipe(
            "cuda",
            tf32=True,
            channels_last=True,
            attention="FLASH_ATTENTION",
            compile={"mode": "default", "fullgraph": True},
        ),
        path="unet",
    )
    assert text == (
        '"""Exit status 1 while what unet gives is farther from expected.safetensors than 1.50e-04, else 0."""\n'
        "\n"
        "import math\n"
        "import sys\n"
        "from pathlib import Path\n"
        "\n"
        "import torch\n"
        "import diffusers\n"
        "from diffusers import UNet2DConditionModel\n"
        "from safetensors.torch import load_file\n"
        "\n"
        "here, device = Path(__file__).resolve().parent, 'cuda'\n"
        "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True\n"
        "config = {'layers': 2}\n"
        'with torch.device("meta"):\n'
        "    part = UNet2DConditionModel(**config)\n"
        'weights = load_file(here / "weights.safetensors", device=device)\n'
        "part.load_state_dict(weights, strict=False, assign=True)\n"
        'part.get_submodule("b").c = weights["b.c"]\n'
        "part = part.eval()\n"
        "part = part.to(memory_format=torch.channels_last)\n"
        "part = torch.compile(part, mode='default', fullgraph=True)\n"
        'given = load_file(here / "inputs.safetensors", device=device)\n'
        'expected = load_file(here / "expected.safetensors")["expected"].double()\n'
        "\n"
        "\n"
        "def error_after(numbers):\n"
        '    """Call it, in memory that may have held so many NaN: a fresh process has zeros there."""\n'
        "    torch.full((numbers,), torch.nan, device=device)  # and it is given back\n"
        "    with torch.inference_mode(), "
        "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):\n"
        '        obtained = part(given["0"], return_dict=False)[0]\n'
        "    far = float((obtained.cpu().double() - expected).norm() / expected.norm())\n"
        "    return far if math.isfinite(far) else math.inf\n"
        "\n"
        "\n"
        "error = 0.0\n"
        'for numbers in [1, *(2**power for power in range(8, 27 if device.startswith("cuda") else 16))]:\n'
        "    error = max(error, error_after(numbers))\n"
        "    if error > 0.00015:\n"
        "        break\n"
        'print(f"torch {torch.__version__}, diffusers {diffusers.__version__} {device}: error {error:.2e}, '
        'limit 1.50e-04")\n'
        "sys.exit(0 if error <= 0.00015 else 1)\n"
    )


def test_xformers_is_put_in_as_the_engine_puts_it_in():
    text = program(
        imports="", built="torch.nn.SiLU()", config={}, weights=[], buffers=[], call='given["0"]', taken="", limit=1.0,
        recipe=ModuleRecipe("cpu", attention="xformers"), path="act",
    )  # fmt: skip
    assert "from diffusers.models.attention_processor import Attention, XFormersAttnProcessor\n" in text
    assert (
        "part = part.eval()\n"
        "for one in part.modules():\n"
        "    if isinstance(one, Attention):\n"
        "        one.set_processor(XFormersAttnProcessor())\n"
    ) in text
    assert "sdpa_kernel" not in text
    assert "weights" not in text
