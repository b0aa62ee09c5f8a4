"""Which slowdowns each process of a self-test times, and in which order."""

from __future__ import annotations

EFFECTS = (0.02, 0.03, 0.05, 0.10)
# What a CPU may be able to tell before it has passed, and what it must.
CPU_EFFECTS = (*EFFECTS, 0.20, 0.50)
# A B B A: so many processes in a row serve one comparison.
GROUP = 4


def effects(*, on_cpu: bool) -> tuple[float, ...]:
    """Return the slowdowns that are injected on a kind of device, smallest first."""
    return CPU_EFFECTS if on_cpu else EFFECTS


def slowdowns(number: int, *, on_cpu: bool) -> tuple[float, ...]:
    """Return what the process with this number times: its calls as they are (0) and made slower, in this order.

    A fresh process costs more than some calls, so on a GPU each times every slowdown; the order moves on from process
    to process, so that none of them is always the first or the last. On a CPU, whose calls take longer than its
    processes, four in a row time one of them.
    """
    if on_cpu:
        group = number // GROUP
        one = CPU_EFFECTS[group % len(CPU_EFFECTS)]
        return (one, 0.0) if (number + group) % 2 else (0.0, one)
    every = (0.0, *EFFECTS)
    start = number % len(every)
    return every[start:] + every[:start]
