"""The table of whole requests: how many a minute, and where the time of one goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_sdperf.checks.pipelines.judging.host_waits import HostWaits
from pytest_sdperf.checks.pipelines.judging.stages import Stage, stages_of
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.columns import Table, TableRow, batches_differ, case_label
from pytest_sdperf.core.components import BETWEEN, PIPELINE
from pytest_sdperf.core.units import digits, seconds
from pytest_sdperf.core.values import Measurement

_COLUMNS = ("images/min", "it/s", "encoders", "UNet", "decoder", "between")
_LEGEND = (
    "images/min by the latency; the others from one request more, watched with the device idle before and after each "
    "call of a component: it/s are its UNet calls per second without text encoders and decoder (some schedulers make "
    "one more than steps), UNet the middle one of them, between what scheduler, guidance and the rest take in all"
)
# A call that takes more than this many times what the middle one does is named.
_STANDS_OUT = 2.0


def request_table(reports: Iterable[CaseReport]) -> Table:
    """Return one row per case whose whole requests were measured."""
    told = [one for report in reports if (one := report.measurement) is not None and _is_request(one)]
    several = batches_differ(one.case for one in told)
    return Table("whole requests", _COLUMNS, tuple(_row(one, batch=several) for one in told), (_LEGEND,))


def _is_request(measurement: Measurement) -> bool:
    """Whether a request was watched beside a time that can be one's; a verdict says what is wrong with other times."""
    samples = measurement.samples
    watched = any({"stages_s", "stages_not_available"} & {*sample.facts} for sample in samples)
    if measurement.case.component != PIPELINE or not watched:
        return False
    return all(one.iterations_s for one in samples) and measurement.latency_s > 0


def _row(measurement: Measurement, *, batch: bool) -> TableRow:
    stages = stages_of(measurement.samples)
    cells = (digits(60 * measurement.case.batch_size / measurement.latency_s), *_stage_cells(stages))
    label = case_label(measurement.case, measurement.case.component, batch=batch)
    return TableRow(label, cells, details=_details(measurement, stages))


def _stage_cells(stages: Mapping[str, Stage]) -> tuple[str, ...]:
    if not stages:
        return ("-",) * (len(_COLUMNS) - 1)
    encoders_s = [stage.whole_s for name, stage in stages.items() if name.startswith("text_encoder")]
    unet, decoder, between = (stages.get(name) for name in ("unet", "vae_decoder", BETWEEN))
    rest_s = between.whole_s if between is not None else 0.0
    looping_s = unet.whole_s + rest_s if unet is not None else 0.0
    return (
        digits(unet.calls / looping_s) if unet is not None and looping_s > 0 else "-",
        seconds(sum(encoders_s)) if encoders_s else "-",
        seconds(unet.call_s) if unet is not None else "-",
        seconds(decoder.whole_s) if decoder is not None else "-",
        seconds(rest_s) if between is not None else "-",
    )


def _details(measurement: Measurement, stages: Mapping[str, Stage]) -> str:
    """Say for what the host waits in every step, and which component has a call far slower than its others."""
    waits = HostWaits().extract(measurement.samples[-1])
    told = [f"the host waits for its GPU: {waits.words}"] if waits is not None and waits.value >= 1 else []
    if not stages:
        why = next((why for one in measurement.samples if (why := one.facts.get("stages_not_available"))), "")
        return "; ".join([*told, *filter(None, [why])])
    told += [
        f"the slowest of {stage.calls} {name} calls takes {seconds(stage.slowest_s)}"
        for name, stage in stages.items()
        if stage.calls > 2 and stage.slowest_s > _STANDS_OUT * stage.call_s
    ]
    return "; ".join(told)
