"""Do the pictures of a case show what their prompts say, as often and as clearly as those of plain torch?"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pytest_sdperf.builds.execution.runner import CaseRunner
from pytest_sdperf.builds.fingerprint import library_versions
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.references.plain_torch import pictures
from pytest_sdperf.checks.references.which import check_by_torch
from pytest_sdperf.checks.semantics.expected import Expected, Request, expected_of
from pytest_sdperf.checks.semantics.finding import ReferenceScores, Semantics, Window
from pytest_sdperf.checks.semantics.judging import METRIC, judge_semantics
from pytest_sdperf.checks.semantics.scoring import Score, score, shift
from pytest_sdperf.checks.semantics.windows import SHIFT_LIMIT, mean_window, share_window
from pytest_sdperf.core.check import Check
from pytest_sdperf.core.files.arrays import Array, load_arrays
from pytest_sdperf.core.scenes import IMAGE_SIZE, Scene, prompt_scenes
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.check import Advice
from pytest_sdperf.core.values.outcomes import Outcome, Verdict
from pytest_sdperf.tasks._execution import Ran
from pytest_sdperf.tasks.pipeline import DrawPrompts

if TYPE_CHECKING:
    Images: TypeAlias = Array

DEFAULT_PROMPTS: Mapping[str, int] = {"cpu": 8, "cuda": 100, "rocm": 100}
MOST_PROMPTS = 100


class Pictures(Check):
    """Draw fixed prompts and read the images: `sdperf_pictures(runner)` fails outside the window of the reference."""

    name = METRIC
    columns = ("right", "window", "clearness", "window", "shift")
    legend = (
        "right: pictures that show colour, shape, size and position of both things, and the background, as their "
        "prompts say; window: where another draw of as many prompts would bring torch in float32, 99 of 100 times; "
        "shift: pixels between things here and in the pictures of torch, at most 0.5"
    )

    def not_applicable(self, case: Case) -> str:
        """Say that images of another size are not read."""
        if (case.width, case.height) == (IMAGE_SIZE, IMAGE_SIZE):
            return ""
        return f"images are read at {IMAGE_SIZE}x{IMAGE_SIZE}; leave --sdperf-resolution out"

    def run(self, subject: CaseRunner) -> Semantics:
        """Draw and read the pictures."""
        context = subject.context
        return look(subject, prompts=_prompts(context.settings, context.device.kind))

    def judge(self, finding: Semantics, case: Case, *, policy: Policy) -> Verdict:
        """Judge the scores by their windows."""
        return judge_semantics(finding)

    def row(self, finding: Semantics) -> tuple[str, ...]:
        """Return the scores and their windows."""
        count, right, clearness = finding.prompts, finding.right, finding.clearness
        return (
            f"{right.obtained * count:.0f}/{count}",
            f"{right.low * count:.0f} to {right.high * count:.0f}",
            f"{clearness.obtained:.3f}",
            f"{clearness.low:.3f} to {clearness.high:.3f}",
            f"{finding.shift.obtained:.2f}",
        )

    def advice(self, verdict: Verdict) -> Advice | None:
        """Ask for more prompts where the reference draws too few of them right."""
        if verdict.outcome is not Outcome.INCONCLUSIVE:
            return None
        return Advice("draw every prompt of the list", f"--sdperf-prompts={MOST_PROMPTS}")


def _prompts(settings: Settings, device_kind: str) -> int:
    return settings.prompts or DEFAULT_PROMPTS[device_kind]


def look(runner: CaseRunner, *, prompts: int) -> Semantics:
    """Draw the first fixed prompts with a case and with plain torch in float32, and compare what is seen.

    Raises:
        NoReferenceError: No torch module stands for what is drawn.
        SdperfError: The engine, or torch, could not draw.
    """
    scenes = prompt_scenes(prompts)
    check_by_torch(runner, "pictures")
    captions = [scene.caption for scene in scenes]
    wanted = [score(scene, image) for scene, image in zip(scenes, pictures(runner, captions), strict=True)]
    found = [score(scene, image) for scene, image in zip(scenes, _draw(runner, captions), strict=True)]
    case = runner.case
    stored = expected_of(Request(case.weights, case.steps, case.scheduler))
    return compare(scenes, found, wanted, reference=compare_reference(wanted, stored) if stored else None)


def compare(
    scenes: Sequence[Scene],
    found: Sequence[Score],
    wanted: Sequence[Score],
    *,
    reference: ReferenceScores | None = None,
) -> Semantics:
    """Compare the scores of an engine with those of the reference."""
    right, clearness, moved = _windows(found, wanted)
    return Semantics(
        prompts=len(scenes),
        right=right,
        clearness=clearness,
        shift=moved,
        reference=reference,
        wrong=dict(Counter(attribute for one in found for attribute in one.wrong)),
        lost=tuple(
            scene.caption
            for scene, mine, theirs in zip(scenes, found, wanted, strict=True)
            if theirs.right and not mine.right
        ),
    )


def compare_reference(wanted: Sequence[Score], stored: Expected) -> ReferenceScores:
    """Compare the scores of the reference with those that the same weights had when they were stored."""
    right, clearness, moved = _windows(wanted, stored.scores[: len(wanted)])
    return ReferenceScores(
        right,
        clearness,
        moved,
        versions=library_versions(*stored.versions),
        stored_versions=stored.versions,
    )


def _windows(found: Sequence[Score], wanted: Sequence[Score]) -> tuple[Window, Window, Window]:
    """Return share, clearness and shift of pictures in the windows that follow from those of others."""
    clear = [one.clearness for one in wanted]
    return (
        Window(
            statistics.fmean(one.right for one in found),
            statistics.fmean(one.right for one in wanted),
            *share_window(sum(one.right for one in wanted), len(wanted)),
        ),
        Window(statistics.fmean(one.clearness for one in found), statistics.fmean(clear), *mean_window(clear)),
        Window(shift(found, wanted), 0.0, 0.0, SHIFT_LIMIT),
    )


def _draw(runner: CaseRunner, captions: Sequence[str]) -> Images:
    drawn = runner.task("draw", DrawPrompts(runner.execution(), tuple(captions)), Ran)
    return load_arrays(Path(drawn.outputs))["images"]
