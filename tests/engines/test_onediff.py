"""OneDiff up to `compile_pipe`; the function is a fake with the real signature and the real list of parts."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from types import SimpleNamespace

import fake_onediffx
import numpy as np
import pytest
import torch

from pytest_sdperf.core.contracts import LoadRequest
from pytest_sdperf.core.values import Build
from pytest_sdperf.engines import _torch, onediff
from pytest_sdperf.engines.onediff import OneDiffEngine
from pytest_sdperf.testing import SMALL
from pytest_sdperf.testing.probe_model import ProbeModel

ENVIRONMENT = (
    "it needs an environment of its own, which a profile names; type: python3.11 -m venv onediff && onediff/bin/pip "
    "install numpy torch==2.5.1 onediff onediffx nexfort==0.1.dev330 'transformers<5' 'diffusers<0.33'"
)


@pytest.fixture(autouse=True)
def calls(monkeypatch):
    monkeypatch.setitem(sys.modules, "onediffx", fake_onediffx)
    monkeypatch.setattr(fake_onediffx, "CALLS", [])
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "elsewhere")
    return fake_onediffx.CALLS


def request_for(component, folder, **options):
    given = {**{name: option.default for name, option in OneDiffEngine.options.items()}, **options}
    return LoadRequest(
        build=Build("k", "module", folder / "w", "float32"),
        model=ProbeModel(),
        component=component,
        workload=SMALL,
        device_kind="cpu",
        device_index=0,
        options=given,
        work_dir=folder,
    )


def test_a_whole_pipeline_is_compiled_in_one_call(tmp_path, calls, monkeypatch):
    names = ("text_encoder", "unet", "vae_decoder")
    requests = {name: request_for(name, tmp_path) for name in names}
    with OneDiffEngine().load_pipeline(requests) as runners:
        assert list(runners) == list(names)
        for name, runner in runners.items():
            inputs = requests[name].model.example(name, SMALL)
            runner.bind(inputs)
            runner.run()
            wanted = requests[name].model.expected(inputs)["out_sample"]
            assert np.allclose(runner.fetch()["out_sample"], wanted, atol=1e-5)
            assert runner.facts()["accumulation"] == "float16"
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "inductor")
        (tmp_path / "inductor" / "locks").mkdir(parents=True)
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == "elsewhere"
    assert not (tmp_path / "inductor" / "locks").exists()  # a link to a lock cannot be taken
    assert calls == [
        {
            "backend": "nexfort",
            "options": {
                "mode": "cudagraphs:benchmark:max-autotune:low-precision:cache-all",
                "options": {**onediff.PUBLISHED_OPTIONS, "overrides.matmul_allow_tf32": False},
            },
            "memory_format": "channels_last",
            "parts": ["text_encoder", "unet", "vae.decoder"],
        }
    ]


def test_a_single_component_is_a_pipeline_of_one_part(tmp_path, calls):
    request = request_for("unet", tmp_path, mode="max-autotune", memory_format="preserve_format")
    with OneDiffEngine().load(request) as runner:
        inputs = {name: torch.from_numpy(array) for name, array in request.model.example("unet", SMALL).items()}
        wanted = request.model.expected(request.model.example("unet", SMALL))["out_sample"]
        assert np.allclose(runner.call(inputs)["out_sample"].numpy(), wanted, atol=1e-5)
        assert runner.facts()["accumulation"] == "float32"
    assert [(call["parts"], call["options"]["mode"], call["memory_format"]) for call in calls] == [
        (["unet"], "max-autotune", "preserve_format")
    ]


@pytest.fixture
def tf32_kept():
    """Put back what is set for the whole process, which monkeypatch cannot."""
    places = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [place.allow_tf32 for place in places]
    yield
    for place, allowed in zip(places, before, strict=True):
        place.allow_tf32 = allowed


@pytest.mark.parametrize(("tf32", "allowed"), [("off", False), ("on", True)])
def test_tf32_is_allowed_only_where_it_is_asked_for(tmp_path, calls, tf32_kept, tf32, allowed):
    _torch.set_tf32(allowed=not allowed)
    with OneDiffEngine().load(request_for("unet", tmp_path, tf32=tf32)):
        assert calls[0]["options"]["options"]["overrides.matmul_allow_tf32"] is allowed
        assert torch.backends.cuda.matmul.allow_tf32 is allowed
        assert torch.backends.cudnn.allow_tf32 is allowed


def test_every_component_has_a_place_that_compile_pipe_looks_at():
    assert set(onediff.PLACES.values()) <= set(fake_onediffx.PARTS)
    modules = {name: torch.nn.Linear(1, 1) for name in onediff.PLACES}
    pipe = onediff.pipeline_of(modules)
    assert {name: onediff.part_of(pipe, name) for name in modules} == modules
    assert isinstance(pipe.vae, torch.nn.Module)


@pytest.mark.parametrize(
    ("version", "absent", "message"),
    [
        ("2.5.1+cu121", (), None),
        ("2.3.0", (), None),
        ("2.13.0", (), f"nexfort is built for torch 2.3 to 2.5.1, and torch 2.13.0 is installed; {ENVIRONMENT}"),
        ("2.2.1", (), f"nexfort is built for torch 2.3 to 2.5.1, and torch 2.2.1 is installed; {ENVIRONMENT}"),
        ("2.5.1", ("nexfort", "onediffx"), f"onediffx, nexfort: not installed; {ENVIRONMENT}"),
        ("", ("torch",), f"torch: not installed; {ENVIRONMENT}"),
    ],
)
def test_what_is_missing(monkeypatch, version, absent, message):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else SimpleNamespace())
    monkeypatch.setattr(importlib.metadata, "version", lambda name: version or absent_version(name))
    assert OneDiffEngine().missing("cuda") == message


def absent_version(name):
    raise importlib.metadata.PackageNotFoundError(name)


def test_only_the_precisions_apply():
    assert OneDiffEngine().supports("fp16") is None
    assert OneDiffEngine().supports("fmha") == "onediff runs the torch module; fmha rewrites an ONNX graph"


def test_versions(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name}-1")
    assert OneDiffEngine().versions() == {
        "torch": str(torch.__version__),
        "diffusers": "diffusers-1",
        "onediff": "onediff-1",
        "nexfort": "nexfort-1",
    }
