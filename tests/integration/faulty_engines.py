"""Engines that draw wrong pictures, each for one reason, and one that draws right ones, through the same door.

Tests copy this file into a user's project.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pytest_sdperf.catalog import Catalog
from pytest_sdperf.contracts import Engine, LoadRequest, Runner
from pytest_sdperf.engines.torch_eager import TorchEngine

Tensors = dict[str, Any]
Change = Callable[[Tensors], Tensors]


def same(tensors: Tensors) -> Tensors:
    return tensors


def without_words(inputs: Tensors) -> Tensors:
    ids = inputs["input_ids"].clone()
    ids[:, 1:] = ids[:, -1:]
    return {"input_ids": ids}


def without_guidance(outputs: Tensors) -> Tensors:
    positive = outputs["out_sample"].chunk(2)[1]
    return {"out_sample": positive.repeat(2, 1, 1, 1)}


def with_exchanged_halves(outputs: Tensors) -> Tensors:
    return {"out_sample": outputs["out_sample"].roll(len(outputs["out_sample"]) // 2, 0)}


def without_scale(inputs: Tensors) -> Tensors:
    return {"latent_sample": inputs["latent_sample"] * 0.18215}


# Name of the engine -> component, what happens to its inputs and to its outputs.
FAULTS: Mapping[str, tuple[str, Change, Change]] = {
    "healthy": ("unet", same, same),
    "prompt-ignored": ("text_encoder", without_words, same),
    "guidance-lost": ("unet", same, without_guidance),
    "halves-exchanged": ("unet", same, with_exchanged_halves),
    "vae-scale-lost": ("vae_decoder", without_scale, same),
}


class ChangedRunner:
    """A runner whose inputs or outputs are changed on the way."""

    def __init__(self, runner: Runner, before: Change, after: Change) -> None:
        self._runner, self._before, self._after = runner, before, after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)

    def call(self, inputs: Tensors) -> Tensors:
        return self._after(self._runner.call(self._before(inputs)))


class FaultyEngine(TorchEngine):
    aliases: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Any]:
        component, before, after = FAULTS[self.name]
        with super().load(request) as runner:
            yield ChangedRunner(runner, before, after) if request.component == component else runner


def pytest_sdperf_register(catalog: Catalog) -> None:
    engines: list[Engine] = [FaultyEngine(name) for name in FAULTS]
    for engine in engines:
        catalog.add_engine(engine)
