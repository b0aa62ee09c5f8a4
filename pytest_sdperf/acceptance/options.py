"""How results may be accepted: what was asked for by the one who accepts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_sdperf.core.values import Case


@dataclass(frozen=True)
class AcceptOptions:
    """What may be accepted.

    Attributes:
        reason: Why a regression, another driver, or what could not be told is accepted; it is stored. Empty where
            nobody said.
        reason_option: What gives the reason, where these are accepted.
        re_anchor: Whether anchors are replaced, too.
        only: Words of a case key, all of which must be in it; empty for every case.
        new_only: Whether cases that are stored already stay as they are.
    """

    reason: str = ""
    reason_option: str = "--sdperf-reason"
    re_anchor: bool = False
    only: str = ""
    new_only: bool = False

    @property
    def has_reason(self) -> bool:
        """Whether somebody said why."""
        return bool(self.reason.strip())

    @property
    def starts_anew(self) -> bool:
        """Whether there is a reason to start anew: under another driver, or where nobody could tell a change."""
        return self.re_anchor and self.has_reason

    def mean(self, case: Case) -> bool:
        """Whether a case is among those that are meant."""
        return has_words(case, self.only.split())


def has_words(case: Case, words: Iterable[str]) -> bool:
    """Whether every word is one of a case's key: `unet`, `component=unet`, `fp16`."""
    parts = case.key.split(" ")
    known = {*parts, *(part.partition("=")[2] for part in parts)}
    return known.issuperset(words)
