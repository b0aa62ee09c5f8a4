"""Write what the environments of tox install: every package, transitively, for each supported Python and platform.

    .venv/bin/tox -e pin                      # after a change of pyproject.toml: keeps every version that still fits
    .venv/bin/tox -e pin -- --upgrade         # the newest releases; read the diff before you commit it

`cpu.txt` is what every change is tested with, `cuda.txt` what a GPU was last measured with, and `oldest.txt` has the
lowest versions of what `pyproject.toml` names. Each is a file of constraints: it installs nothing by itself.
"""

from __future__ import annotations

import argparse
import subprocess
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent / "pyproject.toml"

# What ran on the GPU of docs/measured.md; it moves when a newer version has run there.
ON_A_GPU = ("onnx==1.23.1", "onnx-ir==1.0.0", "onnxruntime-gpu==1.31.1", "torch==2.11.0", "transformers==5.17.0")

FILES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cpu": (("cpu", "dev", "pictures"), ("--universal",)),
    "cuda": (("cuda", "dev", "pictures"), ("--universal",)),
    "oldest": (("cpu", "dev", "pictures"), ("--resolution=lowest-direct",)),
}


def lowest_python() -> str:
    """Return the lowest Python that the project declares, such as "3.11"."""
    return str(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["requires-python"].removeprefix(">="))


def write(name: str, more: list[str]) -> None:
    """Resolve one set of extras into `<name>.txt`. `more` goes to `uv pip compile`."""
    extras, options = FILES[name]
    command = ["uv", "pip", "compile", "--quiet", "--no-annotate", "--no-strip-markers", "--output-file", f"{name}.txt"]
    command += ["--python-version", lowest_python(), "--custom-compile-command", "tox -e pin", *options, *more]
    command += [word for extra in extras for word in ("--extra", extra)]
    pinned = "".join(f"{line}\n" for line in (ON_A_GPU if name == "cuda" else ()))
    subprocess.run([*command, "--constraints", "-", str(PROJECT)], cwd=HERE, input=pinned, text=True, check=True)


def main() -> None:
    """Write all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upgrade", action="store_true", help="take the newest releases that the ranges allow")
    more = ["--upgrade"] if parser.parse_args().upgrade else []
    for name in FILES:
        write(name, more)


if __name__ == "__main__":
    main()
