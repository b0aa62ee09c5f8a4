"""References of a pipeline that the user's own code makes: plain diffusers computes them from the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.calls import ReplayCall, call_arguments
from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.fingerprint import source_hash
from pytest_sdperf.checks.references.stored import Stored
from pytest_sdperf.core.values.roundings import in_words, parse

_CODE = ("pytest_sdperf.tasks.plain_pipeline",)


def outputs(runner: ExternalPipelineRunner, dtypes: Sequence[str]) -> Stored:
    """Return what a request gives, by dtype."""
    parts = {dtype: _parts(runner, dtype) for dtype in dtypes}

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        runner.context.say(f"computing references of {runner.case.model}: {in_words(missing)}")
        return _run(runner, "run", {"dtypes": {dtype: parts[dtype]["dtypes"] for dtype in missing}})

    return Stored.of(runner, parts, compute, code=_CODE)


def answers(runner: ExternalPipelineRunner, asked: Mapping[str, tuple[Sequence[ReplayCall], str]]) -> Stored:
    """Return the answers to calls, by the name under which calls and a dtype are asked."""
    jobs = {
        name: {**_parts(runner, dtype), "calls": call_arguments(runner, group)["calls"]}
        for name, (group, dtype) in asked.items()
    }

    def compute(missing: Sequence[str]) -> Mapping[str, Any]:
        runner.context.say(f"computing answers of {runner.case.model} {runner.case.component} with torch")
        return _run(runner, "answer", {"jobs": {name: jobs[name] for name in missing}})

    return Stored.of(runner, jobs, compute, code=_CODE)


def _parts(runner: ExternalPipelineRunner, label: str) -> dict[str, Any]:
    """Return the dtype of every part, in the pipeline's own that which each has there, and the rounding."""
    own, (dtype, rounding) = dict(runner.description.dtype), parse(label)
    return {"dtypes": own if dtype == runner.dtype else dict.fromkeys(own, dtype), "rounding": rounding}


def _run(runner: ExternalPipelineRunner, function: str, told: Mapping[str, Any]) -> dict[str, Any]:
    plain = {"folder": str(_folder(runner)), "watermark": runner.description.watermark}
    return runner.task(function, {**runner.arguments(), **plain, **told}, module="plain_pipeline")


def _folder(runner: ExternalPipelineRunner) -> Path:
    """Return the pipeline's weights and settings as a folder that diffusers reads."""
    parts = {"identity": runner.description.identity, "code": source_hash("pytest_sdperf.tasks._plain_twin")}

    def make(folder: Path) -> dict[str, Any]:
        return runner.task("write", {**runner.making, "target": str(folder)})

    return runner.context.cache.get_or_make(f"plain-pipeline-{content_key(parts)}", make).path
