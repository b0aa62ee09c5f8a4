"""Faults of answers: old ones, empty ones, and those to other inputs than were given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Arrays, Runner
from pytest_sdperf.faults.fault import Fault, FaultStage
from pytest_sdperf.faults.loaded import Passing, answering
from pytest_sdperf.faults.wanted import (
    DECODER,
    MEASURED,
    PICTURES,
    REQUEST,
    TEXT_ENCODER,
    TEXT_RAW,
    TWICE,
    UNET,
    failed,
    invalid,
    not_comparable,
    parts_at,
    too_far,
)  # fmt: skip

if TYPE_CHECKING:
    import numpy as np
    import torch

    Changed = dict[str, np.ndarray[Any, Any]]


class FirstInputs(Passing):
    """Takes inputs once: a captured graph that reads the buffers of its capture."""

    def __init__(self, inner: Runner) -> None:
        super().__init__(inner)
        self._bound = False
        self._first: Mapping[str, torch.Tensor] | None = None

    def bind(self, inputs: Arrays) -> None:
        """Bind the first inputs only."""
        if not self._bound:
            self.inner.bind(inputs)
        self._bound = True

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Answer to the first inputs."""
        if self._first is None:
            self._first = {name: tensor.clone() for name, tensor in inputs.items()}
        return self.inner.call(self._first)


class FormerCall(Passing):
    """Returns the buffer of the call before: one of two that take turns, and the wrong one is read."""

    def __init__(self, inner: Runner) -> None:
        super().__init__(inner)
        self._former: Changed | None = None
        self._latest: Changed | None = None

    def run(self) -> None:
        """Keep what the call before has put out."""
        self._former = self._latest
        self.inner.run()
        self.inner.synchronize()
        self._latest = self.inner.fetch()

    def fetch(self) -> Changed:
        """Return the outputs of the call before; of the first call its own."""
        return dict(self._former or self._latest or self.inner.fetch())


class EverySecond(Passing):
    """Computes every second call and answers the others with the outputs of the one before."""

    def __init__(self, inner: Runner) -> None:
        super().__init__(inner)
        self._kept: dict[str, torch.Tensor] | None = None

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Compute, or answer from memory."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        outputs = self.inner.call(inputs)
        self._kept = {name: tensor.clone() for name, tensor in outputs.items()}
        return outputs


def zeros(outputs: Changed, call: int) -> Changed:
    return {name: array * 0 for name, array in outputs.items()}


def without_last_axis_order(outputs: Changed, call: int) -> Changed:
    return {name: array.swapaxes(0, -1).copy() for name, array in outputs.items()}


def without_one(outputs: Changed, call: int) -> Changed:
    return dict(list(outputs.items())[1:])


def with_a_bit_of_the_process(outputs: Changed, call: int) -> Changed:
    import numpy as np

    def changed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        flat = array.copy().reshape(-1)
        number = os.getpid() % flat.size
        flat[number] = np.nextafter(flat[number], flat.dtype.type(np.inf))
        return flat.reshape(array.shape)

    return {name: changed(array) for name, array in outputs.items()}


class FirstTimestep:
    """Freezes the timestep: a graph in which it became a constant."""

    def __init__(self) -> None:
        self._first: Any = None

    def __call__(self, inputs: Changed, call: int) -> Changed:
        """Return the inputs with the timestep of the first call."""
        if self._first is None:
            self._first = inputs["timestep"].copy()
        return {**inputs, "timestep": self._first.copy()}


def without_words(inputs: Changed, call: int) -> Changed:
    ids = inputs["input_ids"].copy()
    ids[:, 1:] = ids[:, -1:]
    return {**inputs, "input_ids": ids}


def without_guidance(outputs: Changed, call: int) -> Changed:
    import numpy as np

    (name,) = outputs
    positive = outputs[name][len(outputs[name]) // 2 :]
    return {name: np.concatenate([positive, positive])}


def with_halves_exchanged(outputs: Changed, call: int) -> Changed:
    import numpy as np

    return {name: np.roll(array, len(array) // 2, axis=0) for name, array in outputs.items()}


def without_scale(inputs: Changed, call: int) -> Changed:
    return {name: array * array.dtype.type(0.18215) for name, array in inputs.items()}


_STALE = "Text encoder outputs do not follow its inputs: another input_ids does not change the outputs."
_WORSE = failed(
    "pictures-worse",
    "0 of 4 pictures show what their prompts say, of the reference # (window # to #: OUTSIDE); clearness # against # "
    "(window # to #: OUTSIDE); things # pixels from where the reference has them (at most #: OUTSIDE).",
    by="semantics",
)
_MOVED = failed(
    "pictures-moved",
    "# of 4 pictures show what their prompts say, of the reference # (window # to #); clearness # against # (window "
    "# to #); things # pixels from where the reference has them (at most #: OUTSIDE).",
    by="semantics",
)
FAULTS = (
    Fault(
        "runtime-answers-to-first-inputs",
        "A captured graph reads the inputs of its capture: every answer is the first one.",
        FaultStage.RUNNER, FirstInputs,
        invalid("answers-wrong", _STALE), TEXT_ENCODER, MEASURED,
    ),
    Fault(
        "runtime-answers-of-former-call",
        "Two output buffers take turns, and the one that is read is that of the call before.",
        FaultStage.RUNNER, FormerCall, invalid("answers-wrong", _STALE),
        TEXT_ENCODER, MEASURED,
    ),
    Fault(
        "runtime-answer-of-each-process",
        "Each process draws its kernels anew, and rounds one number of its answers in another way than the others.",
        FaultStage.RUNNER, answering(after=with_a_bit_of_the_process),
        failed(
            "bits-differ",
            "Text encoder: # answers in # processes to the same inputs, and ort-cpu promises equal bits for equal "
            "calls on this kind of device.",
        ),
        TEXT_ENCODER, TWICE,
    ),
    Fault(
        "runtime-every-second-step-reused",
        "Every second call of the UNet is answered with the outputs of the one before: a cache that nobody asked for.",
        FaultStage.RUNNER, EverySecond, parts_at("2"), UNET, REQUEST,
    ),
    Fault(
        "runtime-timestep-frozen",
        "The timestep has become a constant of the graph.",
        FaultStage.RUNNER, answering(before=FirstTimestep), parts_at("2"), UNET, REQUEST,
    ),
    Fault(
        "runtime-error-swallowed",
        "A kernel fails, the error is swallowed, and the output buffer holds the zeros that it was made with.",
        FaultStage.RUNNER, answering(after=zeros), too_far(TEXT_ENCODER, "float32"), TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "runtime-axes-exchanged",
        "Outputs come in another order of their axes.",
        FaultStage.RUNNER, answering(after=without_last_axis_order),
        not_comparable("output 'last_hidden_state' has shape (...), the reference (...)"), TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "runtime-output-missing",
        "One output is not there.",
        FaultStage.RUNNER, answering(after=without_one), not_comparable("output 'last_hidden_state' is missing"),
        TEXT_ENCODER, TEXT_RAW,
    ),
    Fault(
        "runtime-guidance-lost",
        "Both halves of the UNet's batch hold the guided half: guidance does nothing.",
        FaultStage.RUNNER, answering(after=without_guidance),
        _MOVED, UNET, PICTURES,
    ),
    Fault(
        "runtime-guidance-reversed",
        "The halves of the UNet's batch are exchanged: guidance leads away from the prompt.",
        FaultStage.RUNNER, answering(after=with_halves_exchanged),
        _WORSE, UNET, PICTURES,
    ),
    Fault(
        "runtime-prompt-ignored",
        "Every word of the prompt is padding.",
        FaultStage.RUNNER, answering(before=without_words),
        _WORSE, TEXT_ENCODER, PICTURES,
    ),
    Fault(
        "runtime-scale-of-latents-lost",
        "The decoder is given latents that were not divided by their scale.",
        FaultStage.RUNNER, answering(before=without_scale),
        _WORSE, DECODER, PICTURES,
    ),
)  # fmt: skip
