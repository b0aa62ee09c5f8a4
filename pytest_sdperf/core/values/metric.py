"""What a metric of a plug-in is, so that what it measured can be judged again where the plug-in is not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Rule = Literal["exact", "beyond-all"]


@dataclass(frozen=True)
class MetricInfo:
    """How the numbers of a metric are called and judged.

    Attributes:
        title: What a sentence calls the number, such as `energy of a call`.
        unit: Such as `J`; empty for a count.
        rule: `exact` for what does not vary from process to process: the worst process is compared with the worst that
            is stored, and any difference counts. `beyond-all` for what does: every process has to lie beyond every
            stored one, and their medians by more than the smallest change.
        smallest_change: Smallest relative change that counts under `beyond-all`.
        less_is_better: Whether a smaller number is an improvement.
    """

    title: str
    unit: str = ""
    rule: Rule = "beyond-all"
    smallest_change: float = 0.05
    less_is_better: bool = True
