"""What is wrong is gone when somebody looks inside: was it rewritten, or is the answer not always the same?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.checks.agreement.tensors import compare
from pytest_sdperf.checks.locate.target import SearchTarget
from pytest_sdperf.checks.references import float32_graph
from pytest_sdperf.core.files.arrays import load_arrays
from pytest_sdperf.core.reference_error import exact_and_rough
from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.outcomes import Agreement

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray[Any, Any]]

OPTION = "graph_optimizations"
_AGAIN = 3  # processes that are asked once more, as they are
_LESS = 0.5  # of an error: what is left of it where what made it is switched off


def told(target: SearchTarget, expected: Mapping[str, Path], dtype: str, *, values: int, share: int) -> str:
    """Say who is to blame for what an engine gives, where it is right while its inner values are read.

    Args:
        target: What was looked into.
        expected: Dtype -> npz file with what torch gives; empty where a graph is the reference.
        dtype: The type that is tested.
        values: How many inner values were outputs.
        share: Every how many of them was one.
    """
    which = f"its {values}" if share == 1 else f"{values} of its"
    seen = f"With {which} inner values as outputs the graph computes the right thing"
    exact, rough = _wanted(target, expected, dtype)

    def compared(runner: CaseRunner) -> Agreement:
        found = runner.run(target.inputs)
        return compare(found, exact, plain=rough, level="component", dtype=dtype)

    again = [compared(target.runner) for _ in range(_AGAIN)]
    if right := sum(one.passed for one in again):
        return several_answers(seen, right)
    if OPTION not in target.runner.engine.options:
        return (
            f"{seen}. What the engine makes of the graph where nobody reads them is to blame; it has no option "
            f"{OPTION} that could show it."
        )
    label = f"{target.runner.request.label}:{OPTION}=off"
    return of_rewriting(seen, label, compared(_without(target.runner)), again[0])


def _wanted(target: SearchTarget, expected: Mapping[str, Path], dtype: str) -> tuple[Arrays, Arrays]:
    if not expected:
        return float32_graph.answers_to(target.runner, dtype, target.inputs)
    exact, rough = (load_arrays(expected[name]) for name in exact_and_rough(dtype))
    return exact, rough


def several_answers(seen: str, right: int) -> str:
    """Say that some processes of the same case agree.

    Args:
        seen: What was seen, without its full stop.
        right: How many of `_AGAIN` do.
    """
    return (
        f"{seen}, and so it did in {right} of {plural(_AGAIN, 'further process', 'further processes')} without: equal "
        f"calls have different answers, chosen anew in each process, and what ONNX Runtime rewrites is not blamed."
    )


def of_rewriting(seen: str, label: str, off: Agreement, as_it_is: Agreement) -> str:
    """Say whether what ONNX Runtime rewrites is to blame: only if without it what is wrong is gone, or much of it.

    Args:
        seen: What was seen, without its full stop.
        label: The engine that rewrites nothing.
        off: What that one gives.
        as_it_is: What the engine of the case gives.
    """
    if not off.passed and not off.error <= _LESS * as_it_is.error:
        return (
            f"{seen}. What ONNX Runtime rewrites when it loads the graph is not to blame: with {label} the error is "
            f"{off.error:.2e}, and {as_it_is.error:.2e} with the case's own settings. Where it goes wrong could not be "
            f"told."
        )
    result = "it agrees" if off.passed else f"the error is {off.error:.2e}, instead of {as_it_is.error:.2e}"
    return (
        f"{seen}: what ONNX Runtime rewrites when it loads the graph, and cannot while somebody reads these values, is "
        f"to blame. With {label} {result}."
    )


def _without(runner: CaseRunner) -> CaseRunner:
    """Return what executes a case where ONNX Runtime rewrites nothing."""
    options = dict(runner.request.options) | {OPTION: "off"}
    return dataclasses.replace(
        runner, request=dataclasses.replace(runner.request, options=tuple(sorted(options.items())))
    )
