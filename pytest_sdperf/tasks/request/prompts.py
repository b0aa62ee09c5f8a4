"""Prompts -> what the UNet is conditioned on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.contracts import Model
from pytest_sdperf.core.values import Workload

if TYPE_CHECKING:
    import torch

Call = Callable[[dict[str, "torch.Tensor"]], dict[str, "torch.Tensor"]]

AESTHETIC_SCORE, NEGATIVE_AESTHETIC_SCORE = 6.0, 2.5
REFINER_TIME_IDS = 5
_HIDDEN_STATES = ("penultimate_hidden_state", "last_hidden_state")


@dataclass(frozen=True)
class Encoded:
    """One batch of prompts.

    Attributes:
        hidden: Hidden states [N, 77, C], those of several encoders side by side.
        pooled: Projected pooled state [N, P] of the last encoder; None where no encoder gives one.
    """

    hidden: torch.Tensor
    pooled: torch.Tensor | None


class PromptEncoder:
    """Runs the tokenizers and text encoders of a model.

    Attributes:
        encoders: Names of the text encoders.
    """

    def __init__(self, model: Model, call: Mapping[str, Call], *, tokenizers: Path, device: str) -> None:
        from transformers import CLIPTokenizer

        self.encoders = tuple(name for name in model.components if name.startswith("text_encoder"))
        self._call = call
        self._device = device
        self._tokenizers: dict[str, Any] = {
            name: CLIPTokenizer.from_pretrained(
                str(tokenizers / name.replace("text_encoder", "tokenizer")), local_files_only=True
            )
            for name in self.encoders
        }

    def encode(self, prompts: Sequence[str]) -> Encoded:
        """Encode prompts; each is cut or padded to the length of the encoder (77 tokens).

        The results are copies: an engine may write its next outputs into the same memory.
        """
        import torch

        hidden, pooled = [], None
        for name in self.encoders:
            outputs = self._call[name]({"input_ids": self.tokens(name, prompts)})
            hidden.append(next(outputs[output] for output in _HIDDEN_STATES if output in outputs))
            pooled = outputs.get("text_embeds", pooled)
        return Encoded(torch.cat(hidden, dim=-1), None if pooled is None else pooled.clone())

    def tokens(self, encoder: str, prompts: Sequence[str]) -> torch.Tensor:
        """Return token ids [N, 77] as int64 on the device."""
        import torch

        tokenizer = self._tokenizers[encoder]
        ids = tokenizer(
            list(prompts), padding="max_length", max_length=tokenizer.model_max_length, truncation=True
        ).input_ids
        return torch.tensor(ids, dtype=torch.int64, device=self._device)


def guided_conditions(
    model: Model, negative: Encoded, positive: Encoded, *, workload: Workload, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Return the UNet's inputs beside sample and timestep, negative half first.

    SDXL's size values are the request's own: original size and target size equal, no crop.
    """
    import torch

    conditions = {"encoder_hidden_states": torch.cat([negative.hidden, positive.hidden]).to(dtype)}
    sizes = time_id_count(model)
    if not sizes:
        return conditions
    if negative.pooled is None or positive.pooled is None:
        raise ValueError(f"{model.name}: the UNet takes text_embeds, but no text encoder gives them")
    conditions["text_embeds"] = torch.cat([negative.pooled, positive.pooled]).to(dtype)
    size = (float(workload.height), float(workload.width))
    ends = ((NEGATIVE_AESTHETIC_SCORE,), (AESTHETIC_SCORE,)) if sizes == REFINER_TIME_IDS else (size, size)
    rows = [[*size, 0.0, 0.0, *end] for end in ends for _ in range(workload.batch_size)]
    conditions["time_ids"] = torch.tensor(rows, dtype=dtype, device=conditions["text_embeds"].device)
    return conditions


def time_id_count(model: Model) -> int:
    """Return how many size values condition the UNet: 0, 6 (SDXL) or 5 (a refiner: the last one is a score)."""
    for spec in model.inputs("unet", Workload()):
        if spec.name == "time_ids":
            return spec.shape[-1]
    return 0
