"""`--onnx-dir`: an ONNX pipeline that somebody exported, as diffusers and optimum lay it out, before anything loads it.

Only graphs are parsed, never weights: what a graph expects, which files belong to it and what identifies it.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pytest_sdperf.builds.external_graph import ExternalGraph, external_graph, external_tensors, parse
from pytest_sdperf.core.errors import OnnxFolderError

if TYPE_CHECKING:
    import onnx

FILE = "model.onnx"
ONNX_DIR = "--sdperf-onnx-dir"
ONNX_REFERENCE = "--sdperf-onnx-reference"
# Folders of the Stable Diffusion demo of ONNX Runtime and TensorRT -> the components that they hold.
DEMO_NAMES = {"clip": "text_encoder", "clip2": "text_encoder_2", "unetxl": "unet", "vae": "vae_decoder"}
_PICKLES = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".pickle")


class OnnxFolder:
    """A folder with one sub-folder per component: `unet/model.onnx`, `text_encoder/model.onnx`, ..."""

    def __init__(self, path: Path, *, option: str = ONNX_DIR) -> None:
        """Remember the folder; nothing is read yet.

        Args:
            path: The folder.
            option: What named it, for messages.
        """
        self.path = path
        self.option = option
        self._graphs: dict[str, ExternalGraph] = {}

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the components that have a graph here, sorted; a folder of another name counts as one, too.

        Raises:
            OnnxFolderError: There is none; the text says what the folder looks like instead.
        """
        return tuple(sorted(self._folders))

    @functools.cached_property
    def _folders(self) -> Mapping[str, str]:
        """Component -> name of the sub-folder that holds it; its own name comes before that of a demo."""
        names = {path.parent.name for path in self.path.glob(f"*/{FILE}")}
        if not names:
            raise OnnxFolderError(f"{self.option}={self.path}: {self._instead(self.path)} {self._layout()}")
        found = {name: name for name in names}
        for name in names & DEMO_NAMES.keys():
            if DEMO_NAMES[name] not in names:
                found[DEMO_NAMES[name]] = found.pop(name)
        return found

    def graph(self, component: str) -> ExternalGraph:
        """Return one component; its file is parsed once.

        Raises:
            OnnxFolderError: There is no such component, its file or its data cannot be used, or data lies elsewhere.
        """
        if component not in self._graphs:
            if component not in self.components:
                raise OnnxFolderError(
                    f"{self.option}={self.path} has no {component}/{FILE}: {self._instead(self.path / component)} "
                    f"Components that it holds: {', '.join(self.components)}. {self._layout()}"
                )
            path = self.path / self._folders[component] / FILE
            proto = parse(path)
            self._graphs[component] = external_graph(path, proto, self._data(path, proto))
        return self._graphs[component]

    def identity(self, components: Iterable[str]) -> str:
        """Return `onnx-` and 16 hex digits for the content of the files of some components."""
        digests = [(component, self.graph(component).digest) for component in sorted(components)]
        return f"onnx-{hashlib.sha256(repr(digests).encode()).hexdigest()[:16]}"

    def _layout(self) -> str:
        return f"Give a folder with COMPONENT/{FILE}, as `optimum-cli export onnx --model MODEL FOLDER` writes it."

    def _instead(self, folder: Path) -> str:
        """Say what is there in place of a graph."""
        if not folder.is_dir():
            return "there is no such folder."
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        for suffix in (".onnx", ".safetensors", *_PICKLES):
            named = next((path.relative_to(folder).as_posix() for path in files if path.suffix == suffix), "")
            if named and suffix == ".onnx":
                return f"it holds {named}, but no graph at the place where one is looked for."
            if named and suffix == ".safetensors":
                return (
                    f"it holds weights of torch modules ({named}) and no graphs; --sdperf-weights takes such folders."
                )
            if named:
                return f"it holds pickles ({named}), which can run code when loaded, and no graphs."
        return "it holds no graphs."

    def _data(self, path: Path, proto: onnx.ModelProto) -> tuple[str, ...]:
        """Return the files that hold the weights, each checked.

        Raises:
            OnnxFolderError: One lies outside the folder, is missing or too short.
        """
        ends: dict[str, int] = {}
        for tensor in external_tensors(proto):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            name = entries.get("location", "")
            end = _whole(entries.get("offset")) + _whole(entries.get("length"))
            ends[name] = max(ends.get(name, 0), end)
        for name, end in ends.items():
            self._check_data(path, name, end)
        return tuple(sorted(ends))

    def _check_data(self, path: Path, name: str, end: int) -> None:
        pure = PurePosixPath(name.replace("\\", "/"))
        file = path.parent / name
        if not name or pure.is_absolute() or Path(name).is_absolute() or ".." in pure.parts or not self._inside(file):
            raise OnnxFolderError(
                f"{path} keeps weights in {name!r}, which leaves its folder. Nothing outside {path.parent} is read; "
                f"put the data beside the graph, for example with onnx.save_model(..., save_as_external_data=True)."
            )
        if not file.is_file():
            raise OnnxFolderError(
                f"{path} keeps weights in {name!r}, and {path.parent} has no such file. Copy it there: a graph and its "
                f"data belong together."
            )
        size = file.stat().st_size
        if size < end:
            raise OnnxFolderError(
                f"{file} has {size} bytes, and {path.name} reads it up to {end}. Fetch or export it again: a file of "
                f"Git LFS that was not fetched is a short text."
            )

    def _inside(self, file: Path) -> bool:
        """Say whether a file, links followed, lies in this folder; a snapshot of the hub links to its own blobs."""
        roots = [self.path.resolve()]
        if self.path.resolve().parent.name == "snapshots":
            roots.append(self.path.resolve().parent.parent / "blobs")
        return any(file.resolve().is_relative_to(root) for root in roots)


def _whole(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
