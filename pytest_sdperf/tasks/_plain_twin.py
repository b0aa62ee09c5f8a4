"""A pipeline's weights and settings in plain classes of diffusers: what it is compared with, and what identifies it."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.errors import PipelineError
from pytest_sdperf.tasks import _plain_scheduler
from pytest_sdperf.tasks._execution import Execution
from pytest_sdperf.tasks._made_pipeline import SUPPORTED, plain_class, unwrapped

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "float16", "bfloat16")
# Projections that diffusers fuses stay beside the copy that it makes of them.
_COPIES = ("to_qkv", "to_kv")
# Settings of transformers' configurations that say nothing about what a module computes.
_VOLATILE = ("architectures", "dtype", "torch_dtype", "transformers_version")


def plain_pipeline_class(pipeline: Any) -> type:
    """Return the class of diffusers that a supported pipeline is of, or derived from."""
    import diffusers

    supported: list[type] = [getattr(diffusers, name) for name in SUPPORTED]
    return next(kind for kind in supported if isinstance(pipeline, kind))


def plain_twin(pipeline: Any, spelled: str) -> Any:
    """Return a pipeline of plain classes that shares the weights of another one; it can be saved, and not be called.

    Args:
        pipeline: One that is supported.
        spelled: What named it, for messages.

    Raises:
        PipelineError: Its weights cannot be read: they are quantized, adapters are not fused, ...
    """
    kind = plain_pipeline_class(pipeline)
    parts = {name: _plain_part(name, getattr(pipeline, name), spelled) for name in SUPPORTED[kind.__name__]}
    scheduler = _plain_scheduler.plain_scheduler(pipeline.scheduler, spelled)
    parts["scheduler"] = _plain_scheduler.stand_in()
    parts.update({name: getattr(pipeline, name) for name in pipeline.components if name.startswith("tokenizer")})
    settings = {name: pipeline.config[name] for name in _own_settings(kind) if name in pipeline.config}
    given = inspect.signature(kind).parameters
    absent = {name: None for name in ("safety_checker", "feature_extractor") if name in given}
    if "add_watermarker" in given:
        settings["add_watermarker"] = False
    twin: Any = kind(**parts, **absent, **{**settings, **_no_checker(given)})
    twin.scheduler = scheduler
    return twin


def identity(twin: Any, prompts: list[str]) -> str:
    """Return 16 hex digits for everything that decides which picture a plain pipeline makes of some prompts.

    Settings count where they differ from the defaults of their class, so that a library that learns new ones does not
    make another case of the same pipeline.
    """
    digest = hashlib.sha256()

    def add(*texts: Any) -> None:
        digest.update(_text(texts).encode())

    add(type(twin).__name__, {name: twin.config[name] for name in _own_settings(type(twin)) if name in twin.config})
    for name in SUPPORTED[type(twin).__name__]:
        module = getattr(twin, name)
        add(name, type(module).__name__, _differing(module))
        # transformers 5 dropped a prefix that transformers 4 had.
        tensors = {key.removeprefix("text_model."): tensor for key, tensor in module.state_dict().items()}
        for key, tensor in sorted(tensors.items()):
            add(key, str(tensor.dtype), list(tensor.shape))
            digest.update(_bytes(tensor))
    scheduler = twin.scheduler
    add(type(scheduler).__name__, _differing(scheduler), *_changed(scheduler))
    for name in sorted(name for name in twin.components if name.startswith("tokenizer")):
        tokenizer = getattr(twin, name)
        length = tokenizer.model_max_length
        add(name, tokenizer(prompts, padding="max_length", max_length=length, truncation=True).input_ids)
    return digest.hexdigest()[:16]


def check_described(pipeline: Any, case: Execution) -> None:
    """Check that a pipeline is the one that was described: each process makes it anew.

    Args:
        pipeline: It, or its plain twin.
        case: Has `own` with the identity that it had then, empty where nobody described it, and the prompt.

    Raises:
        PipelineError: It is another one; its results would belong to a case that never comes again.
    """
    assert case.own is not None
    factory, known = case.own.factory, case.own.identity
    if not known:
        return
    found = identity(plain_twin(pipeline, factory.spelled), [case.picture.prompt, ""])
    if found != known:
        raise PipelineError(
            f"{factory.spelled}: {factory.function}() makes another pipeline in each process: its weights or settings "
            f"had the hash {known} when the run began, and {found} now, so nothing can be compared or "
            f"kept. Likely causes: tensors that are never filled (memory as it was found, as after offloading to "
            f"disk), weights drawn without a fixed seed, or files that changed. Load every weight, and seed what is "
            f"drawn."
        )


def _changed(scheduler: Any) -> Iterator[tuple[str, Any]]:
    for name, number in sorted(_plain_scheduler.changed_numbers(scheduler).items()):
        yield name, number.tolist() if hasattr(number, "tolist") else number


def _own_settings(kind: type) -> Iterator[str]:
    """Yield the settings of a pipeline that decide what it makes."""
    return (name for name in ("force_zeros_for_empty_prompt",) if name in inspect.signature(kind).parameters)


def _no_checker(given: Mapping[str, Any]) -> dict[str, bool]:
    return {"requires_safety_checker": False} if "requires_safety_checker" in given else {}


def _plain_part(name: str, part: Any, spelled: str) -> torch.nn.Module:
    module = unwrapped(part)
    kind = plain_class(module)
    assert kind is not None  # checked where the pipeline was made
    plain = _skeleton(kind, module.config)
    wanted = plain.state_dict()
    tensors = {key.replace("_orig_mod.", ""): tensor for key, tensor in module.state_dict().items()}
    _check_tensors(f"{spelled}: the {name}", tensors, wanted, kind.__name__)
    plain.load_state_dict({key: tensors[key].contiguous() for key in wanted}, assign=True)
    return plain


def _skeleton(kind: Any, config: Any) -> torch.nn.Module:
    import torch

    with torch.device("meta"):
        if kind.__module__.startswith("diffusers."):
            module: torch.nn.Module = kind.from_config(config)
        else:
            module = kind(kind.config_class.from_dict(config.to_dict()))
    return module.eval()


def _check_tensors(
    what: str, tensors: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor], kind: str
) -> None:
    import torch

    for key, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or (
            key in wanted and wanted[key].is_floating_point() and dtype not in DTYPES
        ):
            raise PipelineError(
                f"{what} holds quantized weights ({key} is {dtype}), and nothing plain can be made of them to compare "
                f"with. Supported: {', '.join(DTYPES)}."
            )
        if tensor.is_meta:
            raise PipelineError(
                f"{what} keeps {key} on the meta device, as sequential offloading does, where it cannot be read. Use "
                f"pipeline.enable_model_cpu_offload(), or leave the whole pipeline on the device."
            )
    unknown = [key for key in tensors if key not in wanted and not set(_COPIES).intersection(key.split("."))]
    missing = [key for key in wanted if key not in tensors or tensors[key].shape != wanted[key].shape]
    if unknown or missing:
        told = (
            f"has {unknown[0]}, which a plain {kind} has not" if unknown else f"has no {missing[0]} of a plain {kind}"
        )
        raise PipelineError(
            f"{what} {told}, so it cannot be compared with one. Fuse adapters into the weights: pipeline.fuse_lora(), "
            f"then pipeline.unload_lora_weights()."
        )


def _differing(thing: Any) -> dict[str, Any]:
    """Return the settings of a module or scheduler that differ from the defaults of its class."""
    if hasattr(thing.config, "to_diff_dict"):
        found: dict[str, Any] = thing.config.to_diff_dict()
        return {key: found[key] for key in sorted(found) if key not in _VOLATILE and not key.startswith("_")}
    defaults = inspect.signature(type(thing).__init__).parameters
    return {
        key: value
        for key, value in sorted(thing.config.items())
        if key in defaults and _text(value) != _text(defaults[key].default)
    }


def _text(value: Any) -> str:
    return json.dumps(value, default=str)


def _bytes(tensor: torch.Tensor) -> memoryview:
    import torch

    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
