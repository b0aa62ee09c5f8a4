"""Which kernel computes the attention of a torch module, and what is said where it cannot."""

from __future__ import annotations

import importlib.metadata
import sys
import types
import warnings
from collections import Counter

import pytest
import torch

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.errors import UnsupportedOptionError
from pytest_sdperf.core.values import Build
from pytest_sdperf.engines import _torch
from pytest_sdperf.engines.torch_eager import KERNELS, TorchEngine
from pytest_sdperf.models import sd15
from pytest_sdperf.testing import SMALL, check_engine

THIN = next(model for model in sd15.MODELS if model.thin)
FLASH_ON_CPU = "aten::_scaled_dot_product_flash_attention_for_cpu"
MATH = "aten::_scaled_dot_product_attention_math"


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    for component in ("unet", "vae_decoder", "text_encoder"):
        THIN.draw_weights(component, folder / component)
    return folder


@pytest.fixture
def load(weights, tmp_path):
    def load(component="unet", *, dtype="float32", **options):
        engine = TorchEngine()
        request = LoadRequest(
            build=Build("k", "module", weights / component, dtype),
            model=THIN,
            component=component,
            workload=SMALL,
            device_kind="cpu",
            device_index=0,
            options=engine.all_options(options),
            work_dir=tmp_path,
        )
        return engine.load(request)

    return load


def outputs(runner, component="unet"):
    runner.bind(THIN.example(component, SMALL))
    runner.run()
    runner.synchronize()
    return next(iter(runner.fetch().values()))


def operators(runner):
    with torch.profiler.profile(acc_events=True) as profile:  # otherwise torch 2.11 warns of what it would drop
        runner.run()
    return Counter(event.name for event in profile.events())


def test_the_engine_keeps_its_contract(tmp_path):
    check_engine(TorchEngine(), folder=tmp_path)


def test_it_says_in_which_type_products_are_accumulated(load, monkeypatch):
    for dtype, told in (("float32", "float32"), ("float16", None)):  # of halves on a CPU torch does not say it
        with load(dtype=dtype) as runner:
            assert runner.facts().get("accumulation") == told
    for dtype, allowed, told in (
        ("float16", False, "float32"),
        ("float16", True, "float16"),
        ("bfloat16", True, "float32"),
        ("float32", True, "float32"),
    ):
        monkeypatch.setattr(torch.backends.cuda, "matmul", types.SimpleNamespace(allow_fp16_accumulation=allowed))
        build = Build("k", "module", None, dtype)
        request = types.SimpleNamespace(build=build, device_kind="cuda")
        assert _torch.accumulation(request) == {"accumulation": told}


@pytest.mark.parametrize(("attention", "ran", "not_ran"), [("flash", FLASH_ON_CPU, MATH), ("math", MATH, FLASH_ON_CPU)])
def test_the_kernel_that_was_asked_for_computes_every_attention(load, attention, ran, not_ran):
    with load() as runner:
        expected = outputs(runner)
        assert "attention" not in runner.facts()
        calls = operators(runner)["aten::scaled_dot_product_attention"]
    assert calls == 32  # 16 blocks, each with self and cross attention
    with load(attention=attention) as runner:
        assert outputs(runner) == pytest.approx(expected, abs=1e-4)
        found = operators(runner)
        assert (found[ran], found[not_ran]) == (calls, 0)
        assert runner.facts()["attention"] == attention


def test_torch_may_choose_again_once_the_component_is_released(load):
    before = {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in ("flash", "math")}
    with load(attention="math"):
        assert not torch.backends.cuda.flash_sdp_enabled()
    assert before == {name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in before}


def test_a_kernel_that_the_device_lacks_is_refused_by_name_when_it_is_called(load):
    # Refused before the first test too; here by what torch itself says, as it does for a shape or a type on a GPU.
    with load(attention="efficient") as runner, pytest.raises(UnsupportedOptionError) as caught:
        outputs(runner)
    assert str(caught.value) == (
        "attention=efficient cannot serve the unet of sd15-thin in float32 on a CPU: No viable backend for "
        "scaled_dot_product_attention was found. This is likely due to turning off both the math kernel and the fused "
        "kernels. Type torch:attention=math, which serves everything, or torch, which chooses for itself."
    )


@pytest.mark.filterwarnings("ignore:(Flash|Memory)")
def test_what_torch_says_about_a_shape_is_passed_on(load, monkeypatch):
    def refusing(*_args, **_keywords):
        # As torch does on a GPU (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
        warnings.warn(
            "Memory efficient kernel not used because: (Triggered internally at sdp_utils.cpp:1)", stacklevel=1
        )
        warnings.warn(
            "Memory Efficient attention has been runtime disabled. (Triggered internally at sdp_utils.cpp:3)",
            stacklevel=1,
        )
        warnings.warn(
            "Flash attention kernel not used because: (Triggered internally at sdp_utils.cpp:1)", stacklevel=1
        )
        warnings.warn(
            "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
            "Query.size(-1): 512 instead. (Triggered internally at sdp_utils.cpp:2)",
            stacklevel=1,
        )
        raise RuntimeError("No available kernel. Aborting execution.")

    with load("vae_decoder", attention="flash") as runner:
        monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", refusing)
        with pytest.raises(UnsupportedOptionError) as caught:
            outputs(runner, "vae_decoder")
    assert str(caught.value) == (
        "attention=flash cannot serve the vae_decoder of sd15-thin in float32 on a CPU: Flash attention requires q,k,v "
        "to have the same last dimension and to be less than or equal to 256. Got Query.size(-1): 512 instead. Type "
        "torch:attention=math, which serves everything, or torch, which chooses for itself; or run the UNet alone: "
        "--sdperf-component=unet."
    )


def test_another_error_stays_what_it_is(load):
    with load(attention="math") as runner, pytest.raises(RuntimeError, match="size"):
        runner.call({name: torch.ones(3) for name in ("sample", "timestep", "encoder_hidden_states")})


@pytest.fixture
def xformers(monkeypatch):
    """xFormers' one function that diffusers calls, with the arguments that it is called with, computed by torch."""
    from diffusers.models import attention_processor

    seen = []

    def memory_efficient_attention(query, key, value, *, attn_bias=None, scale=None, op=None):
        seen.append(tuple(query.shape))
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=attn_bias, scale=scale)

    module = types.SimpleNamespace(ops=types.SimpleNamespace(memory_efficient_attention=memory_efficient_attention))
    monkeypatch.setattr(attention_processor, "xformers", module)
    return seen


@pytest.mark.parametrize(("component", "calls"), [("unet", 32), ("vae_decoder", 1)])
def test_xformers_computes_every_attention_that_diffusers_made(load, xformers, component, calls):
    with load(component) as runner:
        expected = outputs(runner, component)
    assert xformers == []
    with load(component, attention="xformers") as runner:
        assert outputs(runner, component) == pytest.approx(expected, abs=1e-3)
        assert runner.facts()["attention"] == "xformers"
    assert len(xformers) == calls


def test_a_text_encoder_has_no_attention_for_xformers_and_says_so(load, xformers):
    with load("text_encoder", attention="xformers") as runner:
        outputs(runner, "text_encoder")
        assert "attention" not in runner.facts()
    assert xformers == []


def test_what_xformers_says_is_passed_on(load, monkeypatch):
    from diffusers.models import attention_processor

    def refusing(*_args, **_keywords):
        # As xFormers 0.0.35 does.
        raise NotImplementedError(
            "No operator found for `memory_efficient_attention_forward` with inputs:\n"
            "     query       : shape=(2, 16, 1, 40) (torch.float32)\n"
            "     p           : 0.0\n"
            "`fa2F` is not supported because:\n"
            "    device=cpu (supported: {'cuda'})\n"
            "    dtype=torch.float32 (supported: {torch.float16, torch.bfloat16})\n"
            "`cutlassF` is not supported because:\n"
            "    device=cpu (supported: {'cuda'})"
        )

    module = types.SimpleNamespace(ops=types.SimpleNamespace(memory_efficient_attention=refusing))
    monkeypatch.setattr(attention_processor, "xformers", module)
    with load(attention="xformers") as runner, pytest.raises(UnsupportedOptionError) as caught:
        outputs(runner)
    assert str(caught.value) == (
        "attention=xformers cannot serve the unet of sd15-thin in float32 on a CPU: No operator found for "
        "`memory_efficient_attention_forward`: device=cpu (supported: {'cuda'}), dtype=torch.float32 (supported: "
        "{torch.float16, torch.bfloat16}). Type torch:attention=math, which serves everything, or torch, which chooses "
        "for itself."
    )


NEITHER = "{} has no kernel on {}; type torch:attention=flash or torch:attention=math"
XFORMERS = (
    "attention=xformers needs package 'xformers', which is not installed; type: pip install 'xformers>=0.0.35' (it "
    "needs torch 2.10 or later)"
)
XFORMERS_FOR_AMD = (
    "attention=xformers needs package 'xformers', which is not installed, and PyPI's is not for AMD GPUs; build it: "
    "https://github.com/facebookresearch/xformers#installing-xformers"
)


@pytest.mark.parametrize(
    ("kind", "attention", "message"),
    [
        ("cpu", "cudnn", NEITHER.format("attention=cudnn", "a CPU")),
        ("cpu", "efficient", NEITHER.format("attention=efficient", "a CPU")),
        ("cpu", "xformers", NEITHER.format("attention=xformers", "a CPU")),
        ("rocm", "cudnn", NEITHER.format("attention=cudnn", "an AMD GPU")),
        ("cuda", "xformers", XFORMERS),
        ("rocm", "xformers", XFORMERS_FOR_AMD),
        ("cpu", "flash", None),
        ("cuda", "cudnn", None),
        ("rocm", "efficient", None),
    ],
)
def test_what_a_device_has_not_is_refused_before_anything_is_built(kind, attention, message, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("pytest_sdperf.engines.torch_eager.pip", lambda: "pip")
    engine = TorchEngine()
    assert engine.refuses_options(engine.all_options({"attention": attention}), kind) == message


def test_an_installed_xformers_is_no_reason_and_its_version_is_told(monkeypatch):
    engine = TorchEngine()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert engine.refuses_options(engine.all_options({"attention": "xformers"}), "cuda") is None
    assert sorted(engine.versions()) == ["diffusers", "torch"]
    version = importlib.metadata.version
    monkeypatch.setitem(sys.modules, "xformers", types.ModuleType("xformers"))
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.35" if name == "xformers" else version(name))
    assert engine.versions()["xformers"] == "0.0.35"


def test_the_kernels_are_those_of_torch():
    assert set(KERNELS.values()) <= set(torch.nn.attention.SDPBackend.__members__)


@pytest.mark.parametrize("asked", ["on", "off"])
def test_weights_of_convolutions_may_be_kept_channels_last(load, asked):
    with load(channels_last=asked) as runner:
        weight = runner._module.unet.conv_in.weight
        assert weight.is_contiguous(memory_format=torch.channels_last) == (asked == "on")
        assert torch.isfinite(torch.from_numpy(outputs(runner))).all()
