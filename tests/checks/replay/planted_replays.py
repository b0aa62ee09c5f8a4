"""Engines that go wrong when they are called again, each for one reason, and a healthy one through the same door.

All run plain torch; what is planted is the mistake alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tiny_model

from pytest_sdperf.core.catalog import Catalog, Registrar
from pytest_sdperf.core.contracts import ComponentFacts, LoadRequest, Runner
from pytest_sdperf.engines.torch_eager import TorchEngine
from pytest_sdperf.models import sd15

(THIN,) = (model for model in sd15.MODELS if model.name == "sd15-thin")
# One layer of each kind is enough to go wrong.
SHALLOW = {
    "text_encoder": {"num_hidden_layers": 2},
    "unet": {"layers_per_block": 1},
    "vae": {"layers_per_block": 1},
}
BLOCK = 64 * 2**20
LOADS: list[str] = []


class Healthy(Runner):
    """Hands everything on; `calls` counts from 1."""

    def __init__(self, runner: Runner, module: Any) -> None:
        self.runner, self.module, self.calls = runner, module, 0
        self.sizes: list[Any] = []

    def bind(self, inputs: Any) -> None:
        self.runner.bind(inputs)

    def run(self) -> None:
        self.calls += 1
        self.runner.run()

    def synchronize(self) -> None:
        self.runner.synchronize()

    def fetch(self) -> dict[str, Any]:
        return self.runner.fetch()

    def resize(self, workload: Any) -> None:
        self.sizes.append(workload)
        self.runner.resize(workload)

    def call(self, inputs: Any) -> Any:
        return self.runner.call(inputs)

    def facts(self) -> ComponentFacts:
        return self.runner.facts()


class OwnBuffer(Healthy):
    """Copies every output into one buffer, and hands that out."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.buffers: dict[str, Any] = {}

    def fetch(self) -> dict[str, Any]:
        for name, array in super().fetch().items():
            self.buffers.setdefault(name, array.copy())[...] = array
        return self.buffers

    def call(self, inputs: Any) -> Any:
        for name, tensor in super().call(inputs).items():
            kept = self.buffers.setdefault(name, tensor.clone())
            if kept.shape == tensor.shape:
                kept.copy_(tensor)
        return self.buffers


class Stale(Healthy):
    """Replays onto the inputs of the first call, as a graph does whose addresses are old."""

    def bind(self, inputs: Any) -> None:
        if not self.calls:
            super().bind(inputs)


class PromptKept(Healthy):
    """Encodes the prompt once and takes that for every later call."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.hidden: Any = None

    def bind(self, inputs: Any) -> None:
        self.hidden = inputs["encoder_hidden_states"] if self.hidden is None else self.hidden
        super().bind({**inputs, "encoder_hidden_states": self.hidden})


class TextKept(Healthy):
    """Does the same in a pipeline: the text encoder answers once, to both of its prompts."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.kept: list[Any] = []

    def call(self, inputs: Any) -> Any:
        self.calls += 1
        if len(self.kept) < 2:
            self.kept.append(super().call(inputs))
        return self.kept[(self.calls - 1) % 2]


class StateKept(Healthy):
    """Mixes a little of the answer to other inputs into every answer, as a cache of features does."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.before: tuple[bytes, Any] | None = None
        self.now: tuple[bytes, Any] | None = None

    def bind(self, inputs: Any) -> None:
        super().bind(inputs)
        mark = inputs["sample"].tobytes()
        if self.now is not None and mark != self.now[0]:
            self.before = self.now
        self.now = (mark, None)

    def fetch(self) -> dict[str, Any]:
        outputs = super().fetch()
        assert self.now is not None
        self.now = (self.now[0], outputs)
        if self.before is None:
            return outputs
        return {name: 0.99 * array + 0.01 * self.before[1][name] for name, array in outputs.items()}


class Noisy(Healthy):
    """Adds noise, as a kernel does that reads memory which nobody has written."""

    size = 1e-4

    def fetch(self) -> dict[str, Any]:
        import numpy as np

        noise = np.random.default_rng(self.calls)
        return {
            name: array * (1 + self.size * noise.standard_normal(array.shape)).astype(array.dtype)
            for name, array in super().fetch().items()
        }


class NoisyInBits(Noisy):
    """Adds up in another order every time."""

    size = 5e-7


class OtherInEveryProcess(Healthy):
    """Chooses its kernels when it is loaded, and one of them is wrong."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        LOADS.append("")
        self.factor = 1 + 1e-4 * len(LOADS)

    def fetch(self) -> dict[str, Any]:
        return {name: array * self.factor for name, array in super().fetch().items()}


class Shifted(Healthy):
    """Gives every image to its neighbour."""

    def fetch(self) -> dict[str, Any]:
        return {name: array[[*range(1, len(array)), 0]] for name, array in super().fetch().items()}

    def call(self, inputs: Any) -> Any:
        return {name: tensor.roll(1, 0) for name, tensor in super().call(inputs).items()}


class RememberedBySize(Healthy):
    """Remembers an answer by the shape of its inputs."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.known: dict[Any, Any] = {}
        self.shape: Any = None

    def bind(self, inputs: Any) -> None:
        super().bind(inputs)
        self.shape = inputs["sample"].shape

    def fetch(self) -> dict[str, Any]:
        found = self.known.setdefault(self.shape, super().fetch())
        return {name: array.copy() for name, array in found.items()}


class Hoarder(Healthy):
    """Keeps a buffer for every change of the size, and finds none of them again."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.blocks: list[Any] = []

    def resize(self, workload: Any) -> None:
        import numpy as np

        super().resize(workload)
        self.blocks.append(np.ones(BLOCK, dtype=np.uint8))


class Rebuilds(Healthy):
    """Compiles at every change of the size."""

    def __init__(self, runner: Runner, module: Any) -> None:
        super().__init__(runner, module)
        self.built: list[Any] = []

    def resize(self, workload: Any) -> None:
        if not self.sizes or self.sizes[-1] != workload:
            self.built.append(workload)
        super().resize(workload)

    def facts(self) -> ComponentFacts:
        return {**super().facts(), "compile": {"graphs": len(self.built)}}


def leave(module: Any) -> None:
    """Plant nothing."""


def attend_across_the_batch(module: Any) -> None:
    """Let the first self-attention see every image of the batch."""
    import torch

    attention = next(part for name, part in module.named_modules() if name.endswith("attn1"))
    inner = attention.forward

    def forward(hidden_states: Any, *args: Any, **kwargs: Any) -> Any:
        batch, length, width = hidden_states.shape
        everything = hidden_states.reshape(1, batch * length, width)
        return inner(everything, *args, **kwargs).reshape(batch, length, width)

    assert isinstance(attention, torch.nn.Module)
    attention.forward = forward


def norm_over_the_batch(module: Any) -> None:
    """Let one GroupNorm take mean and variance over the whole batch."""
    import torch

    norm = next(part for part in module.modules() if isinstance(part, torch.nn.GroupNorm))
    inner = norm.forward

    def forward(x: Any) -> Any:
        joined = x.transpose(0, 1).flatten(1).unsqueeze(0)  # (1, C, N * H * W)
        return inner(joined)[0].unflatten(1, (len(x), *x.shape[2:])).transpose(0, 1)

    norm.forward = forward


def forget_the_upper_half(module: Any) -> None:
    """Let one convolution work on the size that it was first called with."""
    import torch

    layer = next(part for part in module.modules() if isinstance(part, torch.nn.Conv2d))
    inner, seen = layer.forward, []

    def forward(x: Any) -> Any:
        seen.append(x.shape[2:])
        out = inner(x).clone()
        out[:, :, seen[0][0] :] = 0
        return out

    layer.forward = forward


# Name of the engine -> its runner, and what is done to the module.
FAULTS: Mapping[str, tuple[type[Healthy], Callable[[Any], None]]] = {
    "healthy": (Healthy, leave),
    "own-buffer": (OwnBuffer, leave),
    "stale": (Stale, leave),
    "prompt-kept": (PromptKept, leave),
    "text-kept": (TextKept, leave),
    "state-kept": (StateKept, leave),
    "noisy": (Noisy, leave),
    "noisy-in-bits": (NoisyInBits, leave),
    "other-in-every-process": (OtherInEveryProcess, leave),
    "shifted": (Shifted, leave),
    "attention-across-the-batch": (Healthy, attend_across_the_batch),
    "norm-over-the-batch": (Healthy, norm_over_the_batch),
    "remembered-by-size": (RememberedBySize, leave),
    "size-kept": (Healthy, forget_the_upper_half),
    "hoarder": (Hoarder, leave),
    "rebuilds": (Rebuilds, leave),
}
_TEXT = ("text-kept",)


class PlantedEngine(TorchEngine):
    """Torch, with a mistake in its UNet, or in its text encoder."""

    aliases: Mapping[str, Mapping[str, str]] = {}

    def __init__(self, name: str) -> None:
        self.name = name

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Any]:
        with super().load(request) as runner:
            if request.component != ("text_encoder" if self.name in _TEXT else "unet"):
                yield runner
                return
            kind, plant = FAULTS[self.name]
            module: Any = runner._module  # type: ignore[attr-defined]  # of a torch runner
            plant(module)
            yield kind(runner, module)


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_model(THIN.variant("shallow", config=SHALLOW))
    catalog.add_engine(TorchEngine())
    for name in FAULTS:
        catalog.add_engine(PlantedEngine(name))


def make_catalog() -> Catalog:
    catalog = tiny_model.make_catalog()
    with catalog.owned_by(Registrar("planted_replays", Path(__file__))):
        pytest_sdperf_register(catalog)
    return catalog
