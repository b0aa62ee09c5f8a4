"""A module of torch cut out of its component: built from its class, with weights, a call, and what that should give."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers
from diffusers.configuration_utils import ConfigMixin
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.tracing.definitions import Tensor

_PLAIN = (bool, int, float, str, type(None))


class UncuttableError(Exception):
    """A module cannot stand by itself: its class, or what it is called with, cannot be written down."""


@dataclasses.dataclass(frozen=True)
class ModuleCall:
    """What a module was called with.

    Attributes:
        arguments: By position.
        named: By name.
    """

    arguments: tuple[Any, ...]
    named: Mapping[str, Any]

    def written(self) -> tuple[str, dict[str, Tensor]]:
        """Return the arguments as Python writes them, and the tensors that `given` holds there.

        Raises:
            UncuttableError: One of them is an object of a class.
        """
        tensors: dict[str, Tensor] = {}
        texts = [_text(one, str(number), tensors) for number, one in enumerate(self.arguments)]
        texts += [f"{name}={_text(one, name, tensors)}" for name, one in self.named.items()]
        return ", ".join(texts), tensors

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> ModuleCall:
        """Return the same call with other tensors, by the names that `written` gave them."""
        return ModuleCall(
            tuple(_put(one, str(number), tensors) for number, one in enumerate(self.arguments)),
            {name: _put(one, name, tensors) for name, one in self.named.items()},
        )


class _Caught(Exception):  # noqa: N818 - no error: it ends a call whose rest nobody needs
    def __init__(self, call: ModuleCall) -> None:
        super().__init__()
        self.call = call


def call_of(module: torch.nn.Module, path: str, number: int, inputs: Sequence[Tensor]) -> ModuleCall:
    """Return what a sub-module is called with.

    Args:
        module: What holds it.
        path: Its path there.
        number: Which of its calls, from 1 on.
        inputs: Of the whole.
    """
    calls = 0

    def catch(_: object, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal calls
        calls += 1
        if calls == number:
            raise _Caught(ModuleCall(arguments, named))

    hook = module.get_submodule(path).register_forward_pre_hook(catch, with_kwargs=True)
    try:
        with torch.inference_mode():
            module(*inputs)
    except _Caught as caught:
        return caught.call
    finally:
        hook.remove()
    raise UncuttableError(f"{path} was called {calls} times")


def first_tensor(made: Any) -> tuple[Tensor, str]:
    """Return the first tensor of what a module gave, and how Python takes it: empty, `[0]`, `["last_hidden_state"]`."""
    if isinstance(made, Tensor):
        return made, ""
    parts = made.items() if isinstance(made, Mapping) else enumerate(made)
    key, tensor = next((key, one) for key, one in parts if isinstance(one, Tensor))
    return tensor, f'["{key}"]' if isinstance(key, str) else f"[{key}]"


def building(whole: torch.nn.Module, path: str, config: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return how a sub-module is built: what is imported, an expression, and the configuration that this reads.

    Args:
        whole: What holds it.
        path: Its path there.
        config: The configuration of the component, for a class that is not there as a whole.

    Raises:
        UncuttableError: Its class is neither torch's nor part of a model that has a configuration.
    """
    part = whole.get_submodule(path)
    if type(part).__module__.startswith("torch.nn.modules") and not list(part.children()):
        return "", f"torch.nn.{part!r}", {}
    for holder, inner in _holders(whole, path, config):
        cls, own = type(holder), _config_of(holder)
        arguments = "**config"
        names: list[type] = [cls]
        if isinstance(holder, transformers.PreTrainedModel):
            names.insert(0, type(holder.config))
            arguments = f"{type(holder.config).__name__}(**config)"
        expression = f"{cls.__name__}({arguments})" + (f'.get_submodule("{inner}")' if inner else "")
        return "\n".join(f"from {_home(one)} import {one.__name__}" for one in names), expression, own
    raise UncuttableError(f"{type(part).__name__} is part of no class that a configuration builds")


def _holders(whole: torch.nn.Module, path: str, config: Mapping[str, Any]) -> Iterator[tuple[torch.nn.Module, str]]:
    """Yield modules that a configuration builds, the nearest first, and the path of the wanted one inside."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        holder = whole.get_submodule(".".join(parts[:length]))
        if isinstance(holder, (ConfigMixin, transformers.PreTrainedModel)):
            yield holder, ".".join(parts[length:])
    # One half of an autoencoder is no class of its own.
    with contextlib.suppress(Exception), torch.device("meta"):
        both: torch.nn.Module = AutoencoderKL(**config)
        if repr(both.get_submodule(path)) == repr(whole.get_submodule(path)):
            yield both, path


def _config_of(holder: Any) -> dict[str, Any]:
    said = holder.config.to_diff_dict() if isinstance(holder, transformers.PreTrainedModel) else dict(holder.config)
    plain = {name: value for name, value in said.items() if not name.startswith("_")}
    try:
        found: dict[str, Any] = json.loads(json.dumps(plain))
    except TypeError as error:
        raise UncuttableError(f"the configuration of {type(holder).__name__} holds objects") from error
    return found


def _home(cls: type) -> str:
    """Return where a class is imported from: the top of its library if it is there."""
    top = cls.__module__.partition(".")[0]
    library = {"diffusers": diffusers, "transformers": transformers}.get(top)
    return top if getattr(library, cls.__name__, None) is cls else cls.__module__


def _text(value: Any, name: str, tensors: dict[str, Tensor]) -> str:
    if isinstance(value, Tensor):
        tensors[name] = value
        return f'given["{name}"]'
    if isinstance(value, _PLAIN):
        return repr(value)
    if type(value) in (tuple, list):
        texts = [_text(one, f"{name}.{number}", tensors) for number, one in enumerate(value)]
        return f"[{', '.join(texts)}]" if isinstance(value, list) else f"({''.join(f'{text}, ' for text in texts)})"
    if type(value) is dict:
        inner = (f"{key!r}: {_text(one, f'{name}.{key}', tensors)}" for key, one in value.items())
        return f"{{{', '.join(inner)}}}"
    raise UncuttableError(f"it is called with an object of {type(value).__name__}")


def _put(value: Any, name: str, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return tensors[name]
    if type(value) in (tuple, list):
        return type(value)(_put(one, f"{name}.{number}", tensors) for number, one in enumerate(value))
    if type(value) is dict:
        return {key: _put(one, f"{name}.{key}", tensors) for key, one in value.items()}
    return value


def write(
    folder: Path,
    *,
    built: tuple[str, str, Mapping[str, Any]],
    weights: Mapping[str, Tensor],
    buffers: Sequence[str],
    call: ModuleCall,
    taken: str,
    expected: Tensor,
    limit: float,
    recipe: ModuleRecipe,
    path: str,
) -> None:
    """Write the files.

    Args:
        folder: It is made.
        built: What `building` returned.
        weights: Parameters and buffers, by name.
        buffers: Those of them that are buffers.
        call: What it is called with.
        taken: How what is compared is taken of what it gives (`first_tensor`).
        expected: What it should give.
        limit: How far it may be from that.
        recipe: How the engine calls it.
        path: Of the module.
    """
    from safetensors.torch import save_file

    from pytest_sdperf.tracing.module_program import EXPECTED, INPUTS, SCRIPT, WEIGHTS, program

    folder.mkdir(parents=True, exist_ok=True)
    text, given = call.written()
    imports, expression, config = built
    for name, tensors in ((WEIGHTS, weights), (INPUTS, given), (EXPECTED, {"expected": expected})):
        # A copy of each: tensors that share memory are refused.
        save_file({key: one.detach().cpu().contiguous().clone() for key, one in tensors.items()}, folder / name)
    (folder / SCRIPT).write_text(
        program(
            imports=imports,
            built=expression,
            config=config,
            weights=list(weights),
            buffers=buffers,
            call=text,
            taken=taken,
            limit=limit,
            recipe=recipe,
            path=path,
        ),
        encoding="utf-8",
    )
