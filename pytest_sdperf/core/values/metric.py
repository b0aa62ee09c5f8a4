"""What a metric is, so that what a plug-in measured can be judged again where the plug-in is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal["exact", "beyond-all", "interval"]


@dataclass(frozen=True)
class MetricInfo:
    """How the numbers of a metric are called and judged.

    Attributes:
        title: What a sentence says before the number, or before the words: `workspace of a call`.
        unit: Such as `MB`; empty for a count.
        rule: `exact` for what does not vary from process to process: the worst process is compared with the worst that
            is stored, and any difference counts. `beyond-all` for what does: every process has to lie beyond every
            stored one, and their medians by more than the smallest change. `interval` for numbers above 0 whose noise
            is worth measuring: as a latency is, by what stored sessions predict, and never by less than that change.
        smallest_change: Smallest relative change that counts, but under `exact`; 0 where any does.
        less_is_better: Whether a smaller number is an improvement.
    """

    title: str
    unit: str = ""
    rule: Rule = "beyond-all"
    smallest_change: float = 0.05
    less_is_better: bool = True


@dataclass(frozen=True)
class Reading:
    """A number of one process with words of its own, where a number and its unit say too little.

    Attributes:
        value: The number, by which it is judged.
        words: What a sentence says instead of it: `102 synchronizations and 51 copies in 51 UNet calls`.
    """

    value: float
    words: str


Number = float | Reading
