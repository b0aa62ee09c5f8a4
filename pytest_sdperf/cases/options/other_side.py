"""`--ab` and its companions -> the second side of an A/B."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.engine_requests import ALL, parse_engines
from pytest_sdperf.cases.options.option_value import OptionValue
from pytest_sdperf.cases.options.profiles import Profile
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.ladder import parse_optimizations
from pytest_sdperf.core.settings import EngineRequest, OtherSide

SIDES = ("ab", "ab-engine", "ab-optimization")
# A pair alone has no spread: nothing that it shows can be told from chance.
FEWEST_PAIRS = 2
_BESIDE = (
    ("update-baselines", "an A/B judges by its first side and touches no baseline"),
    ("inprocess", "each sample of an A/B comes from a fresh process"),
    ("plan", "what a second side takes is not known"),
    ("resume", "of an A/B nothing is kept"),
)


@dataclass(frozen=True)
class OtherSideReader:
    """Reads what was said about the second side.

    Attributes:
        answers: What was said, by option name.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that the run asks for.
        path_of: Turns an answer into a path.
    """

    answers: Mapping[str, OptionValue]
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: str
    path_of: Callable[[OptionValue], Path]

    def side(self, *, most_pairs: int) -> OtherSide | None:
        """Return the second side; None if nobody asked for one.

        Args:
            most_pairs: Most pairs that may be measured.

        Raises:
            OptionError: A value that cannot be understood, or that goes with no A/B.
            UnknownNameError: A name that is not registered.
        """
        said = [self.answers[name] for name in SIDES if name in self.answers]
        if not said:
            self._refuse_build_alone()
            return None
        self._check_beside(said[0], most_pairs)
        side = OtherSide(self._python(), self._engine(), self._optimization(), self._build())
        if side.engine is None and not side.optimization and _is_ours(side.python):
            raise OptionError(
                f"{said[0]} is the interpreter that runs this suite, and nothing else differs, so there is nothing to "
                f"compare. Give the python of another virtual environment, or name another build with "
                f"--sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
            )
        return side

    def _refuse_build_alone(self) -> None:
        if "ab-build" in self.answers:
            raise OptionError(
                f"{self.answers['ab-build']} is about the second side of an A/B, and there is none. Name it with "
                f"--sdperf-ab=PYTHON, --sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME, or leave it out."
            )

    def _check_beside(self, side: OptionValue, most_pairs: int) -> None:
        for name, why in _BESIDE:
            if name in self.answers and read.switch(self.answers[name]):
                raise OptionError(
                    f"{side} and {self.answers[name].spelling} do not go together: {why}. Leave one of them out."
                )
        if most_pairs < FEWEST_PAIRS:
            raise OptionError(
                f"{side} needs {FEWEST_PAIRS} pairs of processes to know their spread, and at most {most_pairs} may be "
                f"measured. Type --sdperf-max-processes=12, or leave that option out."
            )

    def _python(self) -> Path | None:
        answer = self.answers.get("ab")
        if answer is None:
            return None
        python = self.path_of(answer)
        inside = next((path for path in (python / "bin/python", python / "Scripts/python.exe") if path.is_file()), None)
        if inside is not None:
            raise OptionError(f"{answer} is a folder. Name the interpreter in it; type {answer.spelling}={inside}.")
        if not python.is_file():
            raise OptionError(
                f"{answer}: there is no interpreter {python}. Give the python of another virtual environment; type for "
                f"example {answer.spelling}=~/venvs/next/bin/python."
            )
        return python

    def _engine(self) -> EngineRequest | None:
        answer = self.answers.get("ab-engine")
        if answer is None:
            return None
        found = parse_engines(answer.text, self.catalog, self.profiles, device_kind=self.device_kind)
        if len(found) != 1 or answer.text.strip() == ALL:
            raise OptionError(
                f"{answer} names {len(found)} engines, and the second side of an A/B has one; "
                f"type for example {answer.spelling}={found[0].label}."
            )
        return found[0]

    def _optimization(self) -> str:
        answer = self.answers.get("ab-optimization")
        if answer is None:
            return ""
        found = parse_optimizations(answer.text, self.catalog.ladder, as_is="onnx-dir" in self.answers)
        if len(found) != 1:
            raise OptionError(
                f"{answer} names {len(found)} builds, and the second side of an A/B has one; "
                f"type for example {answer.spelling}={found[-1]}."
            )
        return found[0]

    def _build(self) -> Literal["shared", "own", ""]:
        answer = self.answers.get("ab-build")
        if answer is None:
            return ""
        if read.one_of(answer, "value of ab-build", ("shared", "own")) == "own":
            if not {"ab-engine", "ab-optimization"} & self.answers.keys():
                raise OptionError(
                    f"{answer}: the models of both sides are built by the interpreter that runs this suite, and "
                    f"nothing that they are built from differs, so side B has no build of its own. Leave it out, or "
                    f"name another build with --sdperf-ab-engine=NAME or --sdperf-ab-optimization=NAME."
                )
            return "own"
        if "ab-optimization" in self.answers:
            raise OptionError(
                f"{answer} and {self.answers['ab-optimization']} do not go together: another optimization is another "
                f"build. Leave one of them out."
            )
        return "shared"


def _is_ours(python: Path | None) -> bool:
    """Whether an interpreter belongs to the environment of this one: a link to it elsewhere is another environment."""
    if python is None:
        return False
    ours = Path(sys.executable)
    return python.parent.resolve() == ours.parent.resolve() and python.resolve() == ours.resolve()
