"""One request by several engines: what each did for its time. Only results that agree with the reference are ranked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_sdperf.checks.pipelines.judging.runtime_report import parts_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.gates import WHOLE, concerns
from pytest_sdperf.checks.reporting.line import Line, wrapped
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.units import plural, seconds
from pytest_sdperf.core.values import Case, Measurement, Sample
from pytest_sdperf.core.values.artifact import COMPILE
from pytest_sdperf.core.values.outcomes import Outcome

_HALF = "float16"
_INDENT = "  "


def sums_in_half(measurement: Measurement | None) -> bool:
    """Whether an engine said of a component that it accumulates products in float16."""
    if measurement is None:
        return False
    parts = [part for sample in measurement.samples for part in parts_of(sample, measurement.case.component).values()]
    return any(facts.get("accumulation") == _HALF for facts in parts)


def fairness_lines(reports: Sequence[CaseReport], *, width: int) -> Iterator[Line]:
    """Yield one line per engine that served a request which another engine served too."""
    compared = [measurement for group in _requests(reports) for measurement in group]
    if not compared:
        return
    yield Line("the same request by several engines", ("bold",))
    for measurement in compared:
        told = "; ".join(_told(measurement, reports))
        yield from wrapped(f"{_label(measurement.case)}: {told}", width=width, first=_INDENT, rest=_INDENT * 2)


def _requests(reports: Iterable[CaseReport]) -> list[list[Measurement]]:
    """Return the measurements of each whole request that several engines served."""
    found: dict[tuple[object, ...], list[Measurement]] = {}
    for report in reports:
        measured, case = report.measurement, report.case
        if case.component == PIPELINE and measured is not None and measured.samples:
            size = (case.height, case.width, case.batch_size)
            request = (case.model, case.weights, *size, case.steps, case.scheduler)
            found.setdefault(request, []).append(measured)
    return [group for group in found.values() if len({_engine(one.case) for one in group}) > 1]


def _engine(case: Case) -> str:
    return engine_label(case.engine, case.engine_options)


def _label(case: Case) -> str:
    return f"{case.model} {case.optimization} {_engine(case)} batch {case.batch_size}"


def _told(measurement: Measurement, reports: Iterable[CaseReport]) -> Iterator[str]:
    case, sample = measurement.case, measurement.samples[-1]
    yield f"{plural(sample.unet_calls, 'UNet call')} for {plural(case.steps, 'step')}"
    yield _accumulation(sample, case.component)
    yield f"VAE in {sample.facts.get('vae_dtype', 'a type that is not told')}"
    yield f"caching {sample.facts.get('caching', 'not told')}"
    yield _preparation(measurement, sample)
    yield f"agreement: {_agreement(case, reports)}"


def _accumulation(sample: Sample, component: str) -> str:
    """Say in which types products are accumulated; components may differ."""
    parts = parts_of(sample, component)
    types = {name: facts.get("accumulation", "") for name, facts in parts.items()}
    if len(set(types.values())) == 1:
        (only,) = set(types.values())
        return f"products accumulated in {only}" if only else "accumulation not told"
    told = ", ".join(f"{name} {dtype or 'not told'}" for name, dtype in types.items())
    return f"products accumulated in: {told}"


def _preparation(measurement: Measurement, sample: Sample) -> str:
    """Say what an engine took before it was ready: in each process, and once before in its builds."""
    steps = [step for artifact in measurement.artifacts.values() for step in artifact.steps if step.name == COMPILE]
    compiled = f", compiled before in {seconds(sum(step.seconds for step in steps))}" if steps else ""
    tuned = {facts["tuning"] for facts in parts_of(sample, measurement.case.component).values() if "tuning" in facts}
    tuning = f", tuning {' and '.join(sorted(tuned))}" if tuned else ""
    return f"ready after {seconds(sample.load_s + sample.first_run_s)}{compiled}{tuning}"


def _agreement(case: Case, reports: Iterable[CaseReport]) -> str:
    about = [report for report in reports if "agreement" in report.checks and concerns(report.case, case)]
    if any(report.outcome is Outcome.FAILED for report in about):
        return "FAILED, so its time is no result"
    whole = any(report.case.component in WHOLE for report in about)
    return "passed" if whole else "passed by components alone" if about else "not looked at"
