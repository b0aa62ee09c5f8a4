"""What every command of `sdperf` is made of."""

from __future__ import annotations

import argparse
from typing import TypeAlias

# What `add_subparsers` returns. A command sets the default `lines`: a generator function that takes the parsed
# arguments, yields lines to print and may return an exit status.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no public name
