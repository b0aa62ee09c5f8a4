"""What a user said about one option, and where."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OptionValue:
    """What the user said about one option.

    Attributes:
        text: The value as text.
        spelling: Where it was said, ready to be followed by `=text`: `--batch-size`, `sdperf_batch_size`, ...
    """

    text: str
    spelling: str

    def __str__(self) -> str:
        """Quote the answer as it was given; on the command line a switch has no value."""
        is_switch = self.text == "true" and self.spelling.startswith("--")
        return self.spelling if is_switch else f"{self.spelling}={self.text}"
