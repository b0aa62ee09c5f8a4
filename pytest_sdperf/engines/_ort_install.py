"""Which builds of onnxruntime are installed here, found without importing any; shared by the ort-* engines.

PyPI has one distribution per vendor, and all of them install into the folder `onnxruntime`: pip lets the second one
overwrite files of the first, and removing either then takes files from the other.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution
from pathlib import Path

from pytest_sdperf.core.interpreter import pip

MODULE = "onnxruntime"
# Names of the shared library that holds the kernels of a provider, on Linux and on Windows.
PROVIDER_LIBRARIES = {
    "CUDAExecutionProvider": ("libonnxruntime_providers_cuda.so", "onnxruntime_providers_cuda.dll"),
    "MIGraphXExecutionProvider": ("libonnxruntime_providers_migraphx.so", "onnxruntime_providers_migraphx.dll"),
    "ROCMExecutionProvider": ("libonnxruntime_providers_rocm.so",),
    "TensorrtExecutionProvider": ("libonnxruntime_providers_tensorrt.so", "onnxruntime_providers_tensorrt.dll"),
}


@dataclass(frozen=True)
class OrtBuild:
    """The module `onnxruntime` that would be imported.

    Attributes:
        folder: Its folder.
        owners: Name and version of every distribution that installed into that folder.
    """

    folder: Path
    owners: tuple[tuple[str, str], ...]

    @property
    def title(self) -> str:
        """What to call it in a message."""
        return " and ".join(f"{name} {version}" for name, version in self.owners) or f"the {MODULE} in this environment"

    def has(self, provider: str) -> bool:
        """Whether the kernels of a provider came with it; the CPU's are in every build."""
        return provider not in PROVIDER_LIBRARIES or self.library(provider) is not None

    def library(self, provider: str) -> Path | None:
        """Return the shared library of a provider; None if it has none of its own, or if it is not here."""
        paths = (self.folder / "capi" / name for name in PROVIDER_LIBRARIES.get(provider, ()))
        return next((path for path in paths if path.is_file()), None)


def find_build() -> OrtBuild | None:
    """Return what `import onnxruntime` would load; None if nothing, or an empty folder that an uninstall left."""
    spec = importlib.util.find_spec(MODULE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    return OrtBuild(folder, tuple(sorted(_owners(folder))))


def missing_build(provider: str, install: str) -> str | None:
    """Say why the provider cannot run with the onnxruntime of this environment; None if it can.

    Args:
        provider: Name of an execution provider.
        install: Command that installs a build which has it.
    """
    build = find_build()
    if build is None:
        return f"package {MODULE!r} is not installed; type: {install}"
    names = [name for name, _ in build.owners] or [MODULE]
    again = f"type: {pip()} uninstall --yes {' '.join(names)} && {install}"
    if len(names) > 1:
        return f"{build.title} are installed over each other in one folder, so that neither is whole; {again}"
    if not build.has(provider):
        return (
            f"{build.title} has no {provider}, and a second build of {MODULE} beside it would overwrite its files; "
            f"{again}"
        )
    return None


def _owners(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the distributions whose record names the module, by the files that pip keeps beside its folder."""
    for path in folder.parent.glob("*.dist-info"):
        if "onnxruntime" not in path.name and not path.name.startswith("ort_"):
            continue  # hundreds of others, some with long records
        distribution = Distribution.at(path)
        if f"{MODULE}/__init__.py," in (distribution.read_text("RECORD") or ""):
            yield distribution.metadata["Name"], distribution.version
