"""The contract of a check: one question about a case, and what its answer means.

Measuring is no check, neither against a baseline nor side B of an A/B against side A. A check looks once and gives one
verdict. A measurement gives many, one for each metric that rides on its samples, and is judged while it is taken: that
decides how many more processes follow. It alone holds the device for itself, is resumed, and becomes a session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.check import Advice, CheckRow
from pytest_sdperf.core.values.outcomes import Verdict

if TYPE_CHECKING:
    from pathlib import Path


class Check(ABC):
    """A question that tests ask through a fixture of its own, `sdperf_NAME`.

    Example, in a root `conftest.py`::

        class Varied(Check):
            '''Fail where an output of the component is the same number everywhere.'''

            name = "varied"

            def run(self, subject):
                return {name: float(array.std()) for name, array in subject.run().items()}

            def judge(self, finding, case, *, policy):
                flat = [name for name, spread in finding.items() if not spread > 0]
                if flat:
                    return Verdict(Outcome.FAILED, "output-constant", f"Constant: {', '.join(flat)}.", self.name)
                return Verdict(Outcome.PASSED, "output-varies", "Every output varies.", self.name)

        def pytest_sdperf_register(catalog):
            catalog.add_check(Varied())

    and in a test `def test_outputs_vary(sdperf_runner, sdperf_varied): sdperf_varied(sdperf_runner)`.

    The first line of the docstring is what `pytest --fixtures` says of the fixture.

    Attributes:
        name: Lower case words joined by underscores. It names the fixture, the `metric` of its verdicts and its table.
        fixture: What its fixture is called behind `sdperf_`, where that is not `name`: `agree` of `agreement`.
        beside: A check registered before, whose fixture and table it shares, and whose `prepare` and `compares` count
            for both, because nobody knows before a test runs which of them it asks; empty for none.
        word: What a test asks it by where a fixture is shared, `sdperf_NAME(subject, word)`; its rows say it, too.
        compares: Whether it compares with the reference of the case, as agreement does: a `--sdperf-onnx-reference`
            that does not fit is refused before the first test.
        sides: Which sides of an A/B it looks at: `B`, which is tested; `AB` where A has to be right, too, and it is
            INVALID where A alone is not; `A` where what it looks at is the same on both.
        reads_outputs: Whether `run` asks a runner for `outputs()`, which all tests of a case share: on a CPU the case
            is then executed before the first test, several side by side.
        library: The library whose releases are held to what is stored of them, as an optimizer to what it is known to
            fuse: each has a file `baselines/NAME/LIBRARY-1.32.json`. Empty for a check that needs nothing stored.
        columns: Headings of its table; empty for no table.
        legend: Text below the table, for what the headings do not say.
    """

    name: str
    fixture: str = ""
    beside: str = ""
    word: str = ""
    compares: bool = False
    sides: Literal["A", "B", "AB"] = "B"
    reads_outputs: bool = False
    library: str = ""
    columns: tuple[str, ...] = ()
    legend: str = ""

    def not_applicable(self, case: Case) -> str:
        """Say why a case cannot be looked at, so that the test is skipped; empty where it can."""
        return ""

    def prepare(self, subjects: Sequence[Any]) -> None:  # noqa: B027 - most checks have nothing to prepare
        """Compute what `run` asks for later, into the cache: on a CPU before the first test, beside the builds.

        What fails here is suppressed: it fails again in `run`.

        Args:
            subjects: The runners of tests whose cases have model, component, workload and weights in common.
        """

    def references(self, subject: Any) -> Sequence[str]:
        """Return the dtypes in which plain torch computes what `run` compares with: once for all checks, before them.

        Args:
            subject: A runner.
        """
        return ()

    @abstractmethod
    def run(self, subject: Any, *handed: Any, **_: Any) -> Any:
        """Look at a case, and return what was found: plain JSON data, or frozen dataclasses of it.

        An `explanation` in it is for `--sdperf-explain` alone: it is longer than everything else.

        Args:
            subject: What the test hands to the fixture: its `sdperf_runner`, which executes the case (of an A/B that of
                side B), or its `sdperf_build`, as a `CaseBuild`, which knows its case and what built it.
            handed: What the test hands over beside it.

        Raises:
            NoReferenceError: There is nothing to compare with; the test is skipped.
        """

    @abstractmethod
    def judge(self, finding: Any, case: Case, *, policy: Any) -> Verdict:
        """Return what a finding means: PASSED, FAILED, INCONCLUSIVE or INVALID, with the check's name as `metric`.

        A check with a `library` has one more argument, `stored`: what a baseline has `Counted` of the case, or None. It
        may return whatever compares with that.

        Args:
            finding: What `run` returned.
            case: What was looked at, of an A/B side B.
            policy: How strictly: the `Policy` of `pytest_sdperf.checks.judging`.
        """

    def key(self, case: Case) -> str:
        """Return the name under which a case is stored, where there is a `library`; empty where it never is."""
        return case.key

    def counts(self, finding: Any) -> Mapping[str, int]:
        """Return what a baseline may keep of a finding, where there is a `library`: what is counted -> how many."""
        return {}

    def row(self, finding: Any) -> tuple[str, ...]:
        """Return the cells of the case in the table, one per column."""
        return ()

    def rows(self, finding: Any) -> Sequence[CheckRow]:
        """Return the rows of the case in the table, where there are several, or lines below them."""
        return [CheckRow(self.row(finding), self.word)]

    def legends(self, finding: Any) -> Sequence[str]:
        """Return what stands below the table, where the finding decides; what several cases say stands there once."""
        return [self.legend] if self.legend else []

    def draw(self, finding: Any, subject: Any, folder: Path) -> Sequence[Path]:
        """Write what shows a finding to a folder of the test's own, for `--sdperf-images`; return the files."""
        return ()

    def advice(self, verdict: Verdict) -> Advice | None:
        """Return what to type next where this verdict is the worst of a run; None for what is typed after any."""
        return None
