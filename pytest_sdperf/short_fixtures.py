"""The short names of the fixtures, for tests that want them: `bench` is `sdperf_bench`.

One line in the `conftest.py` of a folder brings them to its tests, and to no others::

    from pytest_sdperf.short_fixtures import *

Naming them (`import bench, runner`) brings those alone. Nothing loads this module by itself: names as common as these
may be somebody else's.

PYTEST_DONT_REWRITE: it asserts nothing that a user should see, and may be imported before pytest loads it.
"""

from __future__ import annotations

import importlib.util
import inspect
from typing import Any, Literal

__all__ = [
    "agree", "bench", "build", "case", "device", "drift", "engine", "equivalent", "expected_counts", "fused", "model",
    "pictures", "replay", "runner",
]  # fmt: skip


def _short(name: str, text: str, *, scope: Literal["session", "function"] = "function") -> Any:
    """Return a fixture that gives what `sdperf_NAME` does; its signature asks for that, as pytest wants it."""
    # A worker under another interpreter, which may have no pytest, loads the conftest.py whose engine it runs.
    if importlib.util.find_spec("pytest") is None:
        return None
    import pytest

    whole = f"sdperf_{name}"

    def short(**asked: Any) -> Any:
        return asked[whole]

    short.__doc__ = f"Short for `{whole}`: {text}."
    parameter = inspect.Parameter(whole, inspect.Parameter.KEYWORD_ONLY)
    short.__signature__ = inspect.Signature([parameter])  # type: ignore[attr-defined]  # `inspect` reads it
    return pytest.fixture(scope=scope)(short)


agree = _short("agree", "compare the case with torch")
bench = _short("bench", "measure the case and judge it")
build = _short("build", "the optimized build of the case's component", scope="session")
case = _short("case", "the identity of what this test is about", scope="session")
device = _short("device", "the device under test", scope="session")
drift = _short("drift", "compare half precision with single precision")
engine = _short("engine", "the engine of the case", scope="session")
equivalent = _short("equivalent", "compare a build with its torch module in float64")
expected_counts = _short("expected_counts", "the operators that the torch module allows", scope="session")
fused = _short("fused", "judge the fused operators of a build")
model = _short("model", "the model of the case", scope="session")
pictures = _short("pictures", "draw fixed prompts and read the images")
replay = _short("replay", "call the loaded case again and again")
runner = _short("runner", "the case, ready to be executed", scope="session")
