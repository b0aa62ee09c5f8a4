"""References of a pipeline that the user's own code makes: plain diffusers computes them from the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_sdperf.builds.content_key import content_key
from pytest_sdperf.builds.execution.calls import ReplayCall, call_requests
from pytest_sdperf.builds.execution.external_pipeline import ExternalPipelineRunner
from pytest_sdperf.builds.fingerprint import source_hash
from pytest_sdperf.checks.references.stored import Stored
from pytest_sdperf.core import progress
from pytest_sdperf.core.values import to_json
from pytest_sdperf.core.values.roundings import in_words, parse
from pytest_sdperf.tasks.external_pipeline import WriteFolder
from pytest_sdperf.tasks.plain_pipeline import AnswerPlain, PlainGroup, PlainPipeline, RunPlain

_CODE = ("pytest_sdperf.tasks.plain_pipeline",)


def outputs(runner: ExternalPipelineRunner, dtypes: Sequence[str]) -> Stored:
    """Return what a request gives, by dtype."""
    parts = {dtype: _parts(runner, dtype) for dtype in dtypes}

    def compute(missing: Sequence[str]) -> Mapping[str, str]:
        asked = RunPlain(runner.execution(), _plain(runner), {dtype: parts[dtype][0] for dtype in missing})
        with progress.step(f"computing references of {runner.case.model} in {in_words(missing)}"):
            return runner.task("run", asked, dict[str, str], module="plain_pipeline")

    variants = {dtype: {"dtypes": own, "rounding": rounding} for dtype, (own, rounding) in parts.items()}
    return Stored.of(runner, variants, compute, code=_CODE)


def answers(runner: ExternalPipelineRunner, asked: Mapping[str, tuple[Sequence[ReplayCall], str]]) -> Stored:
    """Return the answers to calls, by the name under which calls and a dtype are asked."""
    groups = {
        name: PlainGroup(call_requests(runner, group), *_parts(runner, dtype)) for name, (group, dtype) in asked.items()
    }

    def compute(missing: Sequence[str]) -> Mapping[str, str]:
        wanted = AnswerPlain(runner.execution(), _plain(runner), {name: groups[name] for name in missing})
        with progress.step(f"computing answers of {runner.case.model} {runner.case.component} with torch"):
            return runner.task("answer", wanted, dict[str, str], module="plain_pipeline")

    variants = {name: _deciding(group) for name, group in groups.items()}
    return Stored.of(runner, variants, compute, code=_CODE)


def _deciding(group: PlainGroup) -> dict[str, Any]:
    """Return what decides the answers to calls: not what they are called, and no file of a component."""
    told = to_json(group)
    calls = [{name: call[name] for name in call if name not in ("name", "inputs")} for call in told["calls"]]
    return {**told, "calls": calls}


def _parts(runner: ExternalPipelineRunner, label: str) -> tuple[dict[str, str], int]:
    """Return the dtype of every part, in the pipeline's own that which each has there, and the rounding."""
    own, (dtype, rounding) = dict(runner.description.dtype), parse(label)
    return own if dtype == runner.dtype else dict.fromkeys(own, dtype), rounding


def _plain(runner: ExternalPipelineRunner) -> PlainPipeline:
    return PlainPipeline(_folder(runner), runner.description.watermark)


def _folder(runner: ExternalPipelineRunner) -> Path:
    """Return the pipeline's weights and settings as a folder that diffusers reads."""
    parts = {"identity": runner.description.identity, "code": source_hash("pytest_sdperf.tasks._plain_twin")}

    def make(folder: Path) -> dict[str, Any]:
        return runner.task("write", WriteFolder(runner.execution(), folder), dict)

    return runner.context.cache.get_or_make(f"plain-pipeline-{content_key(parts)}", make).path
