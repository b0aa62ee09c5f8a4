"""Which slowdowns each process of a self-test times, and in which order."""

from __future__ import annotations

EFFECTS = (0.02, 0.03, 0.05, 0.10)
# On a CPU no smaller change fails (`Policy.cpu_min_effect`), so no smaller one can be found.
CPU_EFFECTS = (0.50, 1.00)


def effects(*, on_cpu: bool) -> tuple[float, ...]:
    """Return the slowdowns that are injected on a kind of device, smallest first."""
    return CPU_EFFECTS if on_cpu else EFFECTS


def slowdowns(number: int, *, on_cpu: bool) -> tuple[float, ...]:
    """Return what the process with this number times: its calls as they are (0) and made slower, in this order.

    A fresh process costs more than some calls, so each times every slowdown; the order moves on from process to
    process, so that none of them is always the first or the last.
    """
    every = (0.0, *effects(on_cpu=on_cpu))
    start = number % len(every)
    return every[start:] + every[:start]
