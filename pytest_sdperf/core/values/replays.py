"""What a loaded case answers when it is called again and again: beside its own answers, and beside those of torch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

Check = Literal["repeats", "batch", "resolutions"]


@dataclasses.dataclass(frozen=True)
class AnswerSpread:
    """Answers that have to be the same one.

    Attributes:
        of: What gave them: `3 equal calls`, `image 2 alone`, `640x448 again`.
        largest: Largest relative L2 distance of one of them from the first, of the output nearest to its limit;
            infinite where they cannot be compared.
        limit: Largest distance that passes.
        equal: Whether they are equal bit for bit.
        output: Name of that output.
    """

    of: str
    largest: float
    limit: float
    equal: bool
    output: str = ""

    @property
    def passed(self) -> bool:
        """Whether the distance is within a finite limit."""
        return math.isfinite(self.limit) and self.largest <= self.limit


@dataclasses.dataclass(frozen=True)
class CallAgreement:
    """One answer of a loaded case, beside that of torch to the same inputs.

    Attributes:
        call: What was asked: `another prompt and seed`, `image 2 of 4`, `640x448`.
        error, reference_error, limit: As of an `Agreement`.
        culprit: Where the error is largest.
        stale: The earlier call whose answer this is instead; empty for none.
    """

    call: str
    error: float
    reference_error: float
    limit: float
    culprit: str = ""
    stale: str = ""

    @property
    def passed(self) -> bool:
        """Whether the error is within a finite limit."""
        return math.isfinite(self.limit) and self.error <= self.limit


@dataclasses.dataclass(frozen=True)
class Replay:
    """What became of a case that was loaded once and called with different inputs.

    Attributes:
        check: What was looked at.
        dtype: Dtype that was tested.
        reference: That of `by`, which the answers are compared with.
        exact: Whether the engine promises equal bits for equal calls.
        spreads: Answers beside each other.
        answers: Answers beside torch's.
        processes: In how many processes the same call was made; 0 where it was one.
        kinds: The different answers of these to it, each beside torch's (`call` says how many gave it); empty where all
            are equal bit for bit.
        overwritten: Outputs that a later call changed after they had been returned.
        indistinct: Whether torch itself gives the same answer to different inputs, so that nothing is proven.
        prepared: Graphs that the engine compiled: at the `first` call of each size, and at `later` ones; empty where it
            cannot tell.
        by: What answered what they are compared with: `torch`, or `onnxruntime` with an export of its own.
        peaks_bytes: Peak memory of each round through the resolutions, by what told it (`allocator`, `host`).
    """

    check: Check
    dtype: str
    reference: str
    exact: bool
    spreads: tuple[AnswerSpread, ...]
    answers: tuple[CallAgreement, ...]
    processes: int = 0
    kinds: tuple[CallAgreement, ...] = ()
    overwritten: tuple[str, ...] = ()
    indistinct: bool = False
    prepared: Mapping[str, int] = dataclasses.field(default_factory=dict)
    peaks_bytes: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    by: str = "torch"

    @property
    def beyond(self) -> bool:
        """Whether anything is beyond a limit that a wider one could change."""
        answers = (*self.answers, *self.kinds)
        pairs = [(one.error, one) for one in answers] + [(one.largest, one) for one in self.spreads]
        return any(math.isfinite(far) and math.isfinite(one.limit) and not one.passed for far, one in pairs)
