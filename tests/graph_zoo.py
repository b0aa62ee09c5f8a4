"""Exported graphs of several exporters, opsets and versions of torch, with weights drawn when they are loaded.

`regenerate_graphs.py` makes the files. A name says how one was exported:
`torch-<version>/<model>-<component>-<exporter>-<opset>-<static or dynamic>`, and `-float16` for a module of halves.
"""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
from stripped_graphs import draw, load_stripped

from pytest_sdperf.core.errors import UnknownNameError

FOLDER = Path(__file__).parent / "data/graphs"
SUFFIX = ".onnx.xz"
NAMES = tuple(
    sorted(path.relative_to(FOLDER).as_posix().removesuffix(SUFFIX) for path in FOLDER.glob(f"torch-*/*{SUFFIX}"))
)


def load(name: str, *, seed: int = 0) -> ir.Model:
    """Return a graph that can be run: a new one at each call, equal for equal seeds.

    Reading takes about 0.1 s; a weight is drawn when it is first read, all of a thin UNet's in 0.5 s.
    """
    model = load_structure(name)
    draw(model, seed=seed)
    return model


def load_structure(name: str) -> ir.Model:
    """Return a graph whose weights have no data."""
    path = FOLDER / f"{name}{SUFFIX}"
    if not path.exists():
        raise UnknownNameError("graph", name, NAMES)
    return load_stripped(path)
