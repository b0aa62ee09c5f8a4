"""How to do without this project what an engine does, so that a program of a few lines shows what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SessionRecipe:
    """How a session of ONNX Runtime is made.

    Attributes:
        providers: Name and options of each, in their order.
        graph_optimization_level: Member of `onnxruntime.GraphOptimizationLevel`.
        config: Entries of the session's configuration.
    """

    providers: tuple[tuple[str, Mapping[str, str]], ...]
    graph_optimization_level: str
    config: Mapping[str, str]


@dataclass(frozen=True)
class ModuleRecipe:
    """How a module of torch is called.

    Attributes:
        device: As torch calls it.
        tf32: Whether products of float32 may use TF32.
        channels_last: Whether weights and inputs are channels-last.
        attention: Kernel: `xformers`, a member of `torch.nn.attention.SDPBackend`, or empty for torch's choice.
        compile: Arguments of `torch.compile`; None where nothing is compiled.
    """

    device: str
    tf32: bool = False
    channels_last: bool = False
    attention: str = ""
    compile: Mapping[str, Any] | None = None
