"""What is worth knowing about the machine while a case was measured, and makes nothing INVALID.

Standard library only: workers import what a device tells.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Remark:
    """A sentence on the machine.

    Attributes:
        text: The sentence.
        about: What its number is of; remarks about the same are told once, with the largest. Empty without a number.
        value: That number.
        usual: Whether it is always so on this machine, too short to matter, or told by other numbers: then JSON alone
            holds it.
    """

    text: str
    about: str = ""
    value: float = 0.0
    usual: bool = False
