"""Does a loaded component answer to its inputs? A captured graph that reads stale addresses gives old answers, fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.files.arrays import Arrays

# How much nearer an answer must be to that of an ordinary run than the old answer is. Another input moves the outputs
# of a Stable Diffusion component by 14 % or more (relative L2, thin models), half precision by 0.2 %.
NEARER = 10


def wrong_answer(runner: Runner, first: Arrays, other: Arrays, *, one_by_one: bool) -> str:
    """Say what is wrong with the answers to changed inputs; empty if nothing is.

    Args:
        runner: It has just run on the first inputs.
        first: Those inputs.
        other: Other inputs of the same shapes.
        one_by_one: Change each input alone, and compare with a run without the captured graph; else all at once.
    """
    changing = [name for name in first if (first[name] != other[name]).any()]
    if not changing:
        return "another seed gives the same inputs"
    before = runner.fetch()
    widest = dict.fromkeys(before, 0.0)
    for names in [[name] for name in changing] if one_by_one else [changing]:
        runner.bind({**first, **{name: other[name] for name in names}})
        answer = _answer(runner, runner.run)
        ordinary = _answer(runner, runner.run_plainly) if one_by_one else answer
        reach, spelled = distances(before, ordinary), ", ".join(names)
        if not any(reach.values()):
            return f"another {spelled} does not change the outputs"
        for name, off in distances(answer, ordinary).items():
            if not _near(off, reach[name]):
                return (
                    f"with another {spelled}, {name} is {off:.2g} away from that of a run without the graph, and the "
                    f"old one is {reach[name]:.2g} away"
                )
        widest = {name: max(widest[name], reach[name]) for name in reach}
    runner.bind(first)
    for name, off in distances(_answer(runner, runner.run), before).items():
        if not _near(off, widest[name]):
            return f"the first inputs, given again, give another {name} ({off:.2g} away)"
    return ""


def _near(off: float, reach: float) -> bool:
    """Whether a distance is small beside another; never if one of them is not a number.

    An output that the changed input does not reach tells nothing.
    """
    return off <= reach / NEARER or reach == 0


def _answer(runner: Runner, run: Callable[[], None]) -> dict[str, Any]:
    run()
    runner.synchronize()
    return runner.fetch()


def distances(obtained: Arrays, expected: Arrays) -> dict[str, float]:
    """Return the relative L2 distance of each output; NaN where values are not finite."""
    import numpy as np

    found = {}
    with np.errstate(invalid="ignore", over="ignore"):
        for name, array in expected.items():
            right = array.astype(np.float64)
            size = float(np.linalg.norm(right)) or 1.0
            found[name] = float(np.linalg.norm(obtained[name].astype(np.float64) - right)) / size
    return found
