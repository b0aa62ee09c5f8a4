"""What is said about a measured case: does it agree with its reference, and how does it stand to its baseline."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from enum import Enum

from pytest_sdperf.core.values.located import Located


class Outcome(Enum):
    """The verdicts, worst last.

    HELD, IMPROVED, NEW, GAP and REGRESSED compare with something stored, or, in an A/B, with side A in its place.
    PASSED and FAILED need nothing stored: their limit is derived. NOT MEASURED is what a time budget had no room for.
    """

    PASSED = "PASSED"
    HELD = "HELD"
    IMPROVED = "IMPROVED"
    NEW = "NEW"
    GAP = "GAP"
    NOT_MEASURED = "NOT MEASURED"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    REGRESSED = "REGRESSED"
    FAILED = "FAILED"

    @property
    def rank(self) -> int:
        """Its place in this order: the worst has the highest."""
        return list(Outcome).index(self)

    @property
    def wrong(self) -> bool:
        """Whether it is the build's own fault: exit status 1."""
        return self in (Outcome.REGRESSED, Outcome.FAILED)


@dataclasses.dataclass(frozen=True)
class StepAgreement:
    """The latents after one UNet call, against those of the reference after as many.

    Attributes:
        error, reference_error, limit: As of an `Agreement`.
    """

    error: float
    reference_error: float
    limit: float

    @property
    def passed(self) -> bool:
        """Whether the error is within a finite limit."""
        return math.isfinite(self.limit) and self.error <= self.limit


@dataclasses.dataclass(frozen=True)
class JointAgreement(StepAgreement):
    """What a block inside a component reads or gives, computed again from what the engine has before it.

    Attributes:
        path: Path of the block; empty for an output of the component.
        reads: Number of what it reads, from 0; empty for what it gives. The name of an output of the component.
    """

    path: str
    reads: str = ""


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Obtained against reference.

    Attributes:
        level: `component`, `joints` (what is inside it, block by block), `steps` (the latents after every UNet call),
            `image` or `drift` (the steps of half precision against those of single precision).
        metric: `relative-l2`; of an image also `psnr` (root mean square error as a share of the range), `ssim`
            (1 - SSIM) and `flip`.
        error: Distance of the obtained tensor from the reference; of steps that of the first step beyond its limit, or
            of the one nearest to it.
        reference_error: The same distance for plain torch in the same dtype.
        limit: Largest error that passes.
        dtype: Dtype that was tested.
        reference: Dtype of the reference.
        culprit: Output name and index of the worst element; or what is not finite.
        by: What computed the reference and the plain run.
        details: Further numbers for the report (largest absolute error, ...).
        name: What was recognised: `overflow`, or how a picture is wrong at a glance; empty for nothing.
        told: What that was seen by, as sentences.
        steps: Every step, in order; empty for other levels.
        joints: Every joint that was compared, in order; empty for other levels.
        blocks: Of joints, how many blocks give something of their own, compared or not.
        hidden: Of a component, why nothing inside was compared; empty where it was.
        roundings: How many roundings of the initial latents the reference error is the largest error of.
        located: Where it begins, of the first one beyond its limit; None where nobody had to look.
        outcome: `PASSED` or `FAILED`: nothing stored says anything of it. It follows from error and limit.
    """

    level: str
    metric: str
    error: float
    reference_error: float
    limit: float
    dtype: str
    reference: str
    culprit: str = ""
    by: str = "torch"
    details: Mapping[str, float] = dataclasses.field(default_factory=dict)
    name: str = ""
    told: str = ""
    steps: tuple[StepAgreement, ...] = ()
    joints: tuple[JointAgreement, ...] = ()
    blocks: int = 0
    hidden: str = ""
    roundings: int = 1
    located: Located | None = None
    outcome: Outcome = dataclasses.field(init=False, default=Outcome.FAILED)

    def __post_init__(self) -> None:
        """Say in a field, so that it is in the file of results, what the numbers mean."""
        object.__setattr__(self, "outcome", Outcome.PASSED if self.passed else Outcome.FAILED)

    @property
    def passed(self) -> bool:
        """Whether the error is within a finite limit. NaN never passes, nor anything where torch itself overflows."""
        return math.isfinite(self.limit) and self.error <= self.limit


_QUIET = (Outcome.PASSED, Outcome.HELD, Outcome.NEW, Outcome.NOT_MEASURED)
# Codes of what is right, or has nothing stored to be worse than, and could be better.
_SHORT = frozenset(
    {
        *("attention-mixed", "below-target-unknown", "compiled-for-resolutions"),
        *("half-precision-unknown", "optimizations-missing-unknown"),
    }
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What `judge()` says about one metric of one case.

    Attributes:
        outcome: What it means.
        code: Stable reason code, such as `latency-above-interval`.
        sentence: One complete sentence for a person.
        metric: `latency`, `first-run-memory`, `second-run-memory`, `counts`, `agreement`, ...
        obtained: Measured value in the metric's unit (seconds, bytes, nodes); None if there is none.
        expected: Stored value; None if there is none.
        low, high: The interval inside which the verdict is HELD.
        details: Further lines for a person: what is behind it.
        side: Of an A/B, which side alone it is of; empty for both, or where there are no sides.
    """

    outcome: Outcome
    code: str
    sentence: str
    metric: str
    obtained: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    details: tuple[str, ...] = ()
    side: str = ""

    @property
    def text(self) -> str:
        """The sentence with its code, and each detail on a line of its own."""
        return "\n".join([f"{self.sentence} [{self.code}]", *(f"  {line}" for line in self.details)])

    @property
    def told(self) -> bool:
        """Whether a report lists its sentence: it is not as it should be, or passes and falls short all the same."""
        return self.outcome not in _QUIET or self.code in _SHORT
