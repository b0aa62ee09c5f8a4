"""What a fuser did where, and the file beside a built graph in which it says so.

Pure: nothing here reads a graph, so that reports can be made where onnx_ir is not installed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = "sites.json"


@dataclasses.dataclass(frozen=True)
class Site:
    """A place that a fuser looked at.

    Attributes:
        op: `domain::op_type` that it makes there.
        path: Path of the torch module, as far as the exporter said it.
        node: Name of the node: the fused one, or the one where it stopped.
        op_type: Type of that node.
        reason: Why it was refused; empty where it was fused.
    """

    op: str
    path: str
    node: str = ""
    op_type: str = ""
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Standing:
    """How an optimization stands in a graph that somebody else made.

    Attributes:
        present: Fused nodes that the graph has.
        left: Type of node -> where more could be fused; sorted.
    """

    present: int
    left: Mapping[str, int]


def write(folder: Path, sites: Iterable[Site]) -> None:
    """Write sites beside the graph that they are about."""
    text = json.dumps([dataclasses.asdict(site) for site in sites])
    (folder / FILE).write_text(text, encoding="utf-8")


def read(folder: Path) -> list[Site] | None:
    """Return the sites of a graph in a folder; None where its fuser left no record."""
    path = folder / FILE
    return [Site(**site) for site in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else None
