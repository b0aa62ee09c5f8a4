"""The opening of a report: what was tested, against what, and what changed in between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_sdperf.checks.reporting.line import Line, labelled, wrapped
from pytest_sdperf.core.units import plural
from pytest_sdperf.report.run_info import RunInfo

_NO_CHANGE = "nothing that is recorded"
_NEEDED = ("device", "baselines", "changed")
# What says nothing about a machine: `whole` is a GPU that is not partitioned.
_USUAL = (None, "", "default", "none", "None", "whole")


def altered_lines(run: RunInfo, *, width: int) -> Iterator[Line]:
    """Yield what was altered, as the first lines of a report; nothing where nothing was."""
    if run.altered:
        yield from (Line(line.text, ("yellow", "bold")) for line in wrapped(run.altered, width=width, rest="  "))


def header_lines(run: RunInfo, *, width: int, every: bool = True) -> Iterator[Line]:
    """Yield one labelled paragraph for each of `header_texts`; or only of what a reader of verdicts needs."""
    for label, text in header_texts(run):
        if every or (label in _NEEDED and text != _NO_CHANGE):
            yield from labelled(label, text, width=width)


def header_texts(run: RunInfo) -> Iterator[tuple[str, str]]:
    """Yield device, engines, baseline and what changed, each with its label; no device, no baseline."""
    if run.device:
        several = f"{run.devices} of them side by side: " if run.devices > 1 else ""
        yield "device", f"{several}{run.device} ({run.slug}){_machine(run.machine)}"
    if run.engines:
        yield "engines", "; ".join(_engine(*item) for item in sorted(run.engines.items()))
    if run.device:
        yield "baselines", _baselines(run)
    if run.compared and not run.pairs:
        yield "changed", ", ".join(run.changes) or _NO_CHANGE


def _engine(label: str, versions: Mapping[str, str]) -> str:
    told = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return f"{label}: {told}" if told else label


def _machine(machine: Mapping[str, str | int | float | None]) -> str:
    told = [f"{machine['cores']} cores"] if machine.get("cores") else []
    told += [
        f"{name.removesuffix('_w').replace('_', ' ')} {_told(machine[name])}{' W' if name.endswith('_w') else ''}"
        for name in ("driver", "power_limit_w", "partition", "pool")
        if machine.get(name) not in _USUAL
    ]
    return ", " + ", ".join(told) if told else ""


def _told(value: str | float | None) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _baselines(run: RunInfo) -> str:
    if run.pairs:
        return "none is used: side B of an A/B is judged by side A"
    own = {run.baselines: (run.baseline_cases, run.baseline_date)}
    return "; ".join(_file(path, *found) for path, found in {**own, **run.other_baselines}.items())


def _file(path: str, cases: int, date: str) -> str:
    return f"{path}: {plural(cases, 'case')}, newest of {date[:10]}" if cases else f"{path}: none yet"
