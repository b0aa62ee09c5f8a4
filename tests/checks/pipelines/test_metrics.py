"""Metrics of plug-ins: every branch of their verdicts, and what becomes of one that cannot read a sample."""

from __future__ import annotations

import dataclasses
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_values import measurement, sample, session, stored

from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.metrics import with_metrics
from pytest_sdperf.checks.pipelines.judging.our_metric import OfPlugIn
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import DuplicateNameError, WorkerError
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.core.metric import Metric
from pytest_sdperf.core.values import Measurement, to_json
from pytest_sdperf.core.values.metric import MetricInfo, Number, Reading
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.plugin.fixtures.checks import make_fixtures

ENERGY = MetricInfo("energy of a call", unit="J", smallest_change=0.03)
COUNT = MetricInfo("host threads", rule="exact")
BEYOND, ANY = "(beyond 3 % counts)", "(any difference counts)"
LACKS = "UNet energy of a call is missing from a process"
ANY_CHANGE = MetricInfo("energy of a call", smallest_change=0.0)
ALLOWED = "Allowed: a finite number, or None where a process has none."
SCORE = MetricInfo("score", less_is_better=False, smallest_change=0.03)


def having(*values: Number | None) -> dict[str, object]:
    """Return the samples of processes that have these numbers of the metric `m`."""
    return {
        "samples": tuple(
            dataclasses.replace(sample(10.0), metrics={} if value is None else {"m": value}) for value in values
        )
    }


def judged(now, *before, info=ENERGY):
    measured = dataclasses.replace(measurement(), **having(*now), metrics={"m": info})
    sessions = [dataclasses.replace(measurement(), **having(*values)) for values in before]
    known = stored(*(session_with(one.samples) for one in sessions)) if before else None
    verdict = OfPlugIn("m", info).judge(measured, known, policy=Policy())
    return [(verdict.outcome, verdict.code, verdict.sentence)] if verdict is not None else []


def session_with(samples):
    return msgspec.structs.replace(session(), samples=samples)


@pytest.mark.parametrize(
    ("now", "before", "info", "verdict"),
    [
        (
            (12.3, 12.4, 12.5), (), ENERGY,
            (Outcome.NEW, "no-baseline", "UNet energy of a call 12.4 J has no baseline yet."),
        ),
        (
            (12.3, 12.4, 12.5), ((12.2, 12.4, 12.6),), ENERGY,
            (Outcome.HELD, "metric-as-before", f"UNet energy of a call 12.4 J; its baseline: 12.4 J {BEYOND}."),
        ),
        (
            (12.6, 12.7, 12.8), ((12.3, 12.4, 12.5),), ENERGY,
            (Outcome.HELD, "metric-as-before", f"UNet energy of a call 12.7 J; its baseline: 12.4 J {BEYOND}."),
        ),
        (
            (14, 15, 16), ((12.3, 12.4, 12.5),), ENERGY,
            (Outcome.REGRESSED, "metric-worse", f"UNet energy of a call 15 J; its baseline: 12.4 J {BEYOND}."),
        ),
        (
            (12.4, 15, 16), ((12.3, 12.4, 12.5),), ENERGY,
            (Outcome.HELD, "metric-as-before", f"UNet energy of a call 15 J; its baseline: 12.4 J {BEYOND}."),
        ),
        (
            (9, 9.5, 10), ((12.3, 12.4, 12.5),), ENERGY,
            (Outcome.IMPROVED, "metric-better", f"UNet energy of a call 9.50 J; its baseline: 12.4 J {BEYOND}."),
        ),
        (
            (0.5, 0.6), ((0.8, 0.9),), SCORE,
            (Outcome.REGRESSED, "metric-worse", f"UNet score 0.55; its baseline: 0.85 {BEYOND}."),
        ),
        (
            (4, 4), ((4, 4),), COUNT,
            (Outcome.HELD, "metric-as-before", f"UNet host threads 4; its baseline: 4 {ANY}."),
        ),
        (
            (4, 5), ((4, 4),), COUNT,
            (Outcome.REGRESSED, "metric-worse", f"UNet host threads 5; its baseline: 4 {ANY}."),
        ),
        (
            (1000, 1000), ((2000, 1500),), COUNT,
            (Outcome.IMPROVED, "metric-better", f"UNet host threads 1,000; its baseline: 2,000 {ANY}."),
        ),
        (
            (12.3, None), (), ENERGY,
            (Outcome.INVALID, "metric-missing", f"{LACKS}; other processes have it."),
        ),
        (
            (None, None), ((12.3, 12.4),), ENERGY,
            (Outcome.INVALID, "metric-missing", f"{LACKS}; its baseline has it."),
        ),
    ],
)  # fmt: skip
def test_verdicts(now, before, info, verdict):
    assert judged(now, *before, info=info) == [verdict]


INTERVAL = MetricInfo("energy of a call", unit="J", rule="interval")
THROUGHPUT = MetricInfo("pictures", unit="a minute", rule="interval", less_is_better=False)
NIGHTS = ((11.9, 12.0, 12.1), (12.0, 12.1, 12.2), (11.8, 11.9, 12.0))
HIDDEN = "at most 10 % is allowed"


@pytest.mark.parametrize(
    ("now", "before", "info", "verdict"),
    [
        (
            (12.3, 12.4, 12.5), (), INTERVAL,
            (Outcome.NEW, "no-baseline", "UNet energy of a call 12.4 J has no baseline yet."),
        ),
        (
            (12.3, 12.4, 12.5), NIGHTS, INTERVAL,
            (
                Outcome.HELD, "metric-as-before",
                (
                    "UNet energy of a call 12.4 J is 3.3 % above its baseline of 12.0 J (held up to 12.8 J by 3 stored "
                    "sessions)."
                ),
            ),
        ),
        (
            (14.3, 14.4, 14.5), NIGHTS, INTERVAL,
            (
                Outcome.REGRESSED, "metric-worse",
                (
                    "UNet energy of a call 14.4 J is 20 % above its baseline of 12.0 J (held up to 12.8 J by 3 stored "
                    "sessions)."
                ),
            ),
        ),
        (
            (9.8, 9.9, 10.0), ((11.9, 12.0, 12.1),), INTERVAL,
            (
                Outcome.IMPROVED, "metric-better",
                (
                    "UNet energy of a call 9.90 J is 17 % below its baseline of 12.0 J (held down to 11.0 J by the "
                    "spread of 6 processes; 1 stored session cannot show how days differ)."
                ),
            ),
        ),
        (
            (9.8, 9.9, 10.0), ((11.9, 12.0, 12.1),), THROUGHPUT,
            (
                Outcome.REGRESSED, "metric-worse",
                (
                    "UNet pictures 9.90 a minute is 17 % below its baseline of 12.0 a minute (held down to 11.0 a "
                    "minute by the spread of 6 processes; 1 stored session cannot show how days differ)."
                ),
            ),
        ),
        (
            (10.0, 12.0, 14.0), ((10.5, 12.0, 14.5),), INTERVAL,
            (
                Outcome.INCONCLUSIVE, "metric-too-noisy",
                (
                    f"UNet energy of a call 12.0 J is equal to its baseline of 12.0 J, but noise would hide a change "
                    f"of +98 %, and {HIDDEN}."
                ),
            ),
        ),
        (
            (15.0,), ((12.0,),), INTERVAL,
            (
                Outcome.INCONCLUSIVE, "metric-no-replicates",
                (
                    "UNet energy of a call 15.0 J is 25 % above its baseline of 12.0 J, but no process was repeated, "
                    "neither now nor in the baseline, so chance cannot be told from change."
                ),
            ),
        ),
        (
            (12.0, 0.0), ((12.0,),), INTERVAL,
            (
                Outcome.INVALID, "metric-not-positive",
                "UNet energy of a call 0 cannot be judged by an interval, which is for numbers above 0.",
            ),
        ),
        (
            (12.0, 12.0), ((12.0, -3.0),), INTERVAL,
            (
                Outcome.INVALID, "metric-not-positive",
                "UNet energy of a call -3 cannot be judged by an interval, which is for numbers above 0.",
            ),
        ),
        (
            (12.3, None), (), INTERVAL,
            (Outcome.INVALID, "metric-missing", f"{LACKS}; other processes have it."),
        ),
    ],
)  # fmt: skip
def test_verdicts_by_an_interval(now, before, info, verdict):
    assert judged(now, *before, info=info) == [verdict]


@pytest.mark.parametrize(("change", "outcome"), [(0.2, Outcome.HELD), (0.05, Outcome.INCONCLUSIVE)])
def test_a_metric_whose_changes_count_from_a_large_one_on_may_be_as_noisy(change, outcome):
    values = (11.5, 12.0, 12.3)
    info = MetricInfo("energy of a call", rule="interval", smallest_change=change)
    ((found, _, _),) = judged(values, values, info=info)
    assert found is outcome


def parts(gpu, memory):
    return Reading(gpu + memory, f"{gpu} J of the GPU and {memory} J of its memory")


@pytest.mark.parametrize(
    ("now", "before", "info", "verdict"),
    [
        (
            (parts(9, 1), parts(10, 2), parts(11, 2)), (), ENERGY,
            (
                Outcome.NEW, "no-baseline",
                "UNet energy of a call: 10 J of the GPU and 2 J of its memory; that has no baseline yet.",
            ),
        ),
        (
            (parts(10, 2), parts(11, 2)), ((parts(10, 1), parts(11, 1)),), ENERGY,
            (
                Outcome.HELD, "metric-as-before",
                (
                    "UNet energy of a call: 11 J of the GPU and 2 J of its memory; its baseline: 11 J of the GPU and "
                    f"1 J of its memory {BEYOND}."
                ),
            ),
        ),
        (
            (parts(10, 2),), ((parts(10, 2),),), ANY_CHANGE,
            (
                Outcome.HELD, "metric-as-before",
                "UNet energy of a call: 10 J of the GPU and 2 J of its memory, as in its baseline.",
            ),
        ),
        (
            (parts(10, 3),), ((parts(10, 2),),), ANY_CHANGE,
            (
                Outcome.REGRESSED, "metric-worse",
                (
                    "UNet energy of a call: 10 J of the GPU and 3 J of its memory; its baseline: 10 J of the GPU and "
                    "2 J of its memory."
                ),
            ),
        ),
    ],
)  # fmt: skip
def test_words_of_a_process_stand_for_its_number(now, before, info, verdict):
    assert judged(now, *before, info=info) == [verdict]


def test_where_nobody_ever_had_a_number_nothing_is_said():
    assert judged((None, None)) == []
    assert judged((None, None), (None, None)) == []


@given(st.floats(0.1, 1e9), st.integers(2, 6), st.floats(1.06, 10), st.sampled_from([INTERVAL, THROUGHPUT]))
def test_what_does_not_vary_is_judged_by_the_smallest_change(value, count, times, info):
    def found(now):
        return judged((now,) * count, (value,) * count, info=info)[0][0]

    worse, better = Outcome.REGRESSED, Outcome.IMPROVED
    assert [found(value * one) for one in (1.0, 1.049, 1 / 1.049)] == [Outcome.HELD] * 3
    up, down = (worse, better) if info.less_is_better else (better, worse)
    assert [found(value * times), found(value / times)] == [up, down]


@given(st.lists(st.floats(0.1, 1e9), min_size=1, max_size=6), st.sampled_from([ENERGY, COUNT, SCORE]))
def test_equal_numbers_are_held(values, info):
    ((outcome, code, _),) = judged(values, values, info=info)
    assert (outcome, code) == (Outcome.HELD, "metric-as-before")


class Energy(Metric):
    name = "energy"
    info = ENERGY

    def __init__(self, extract):
        self.read = extract

    def extract(self, sample):
        return self.read(sample)


def registered(extract):
    catalog = Catalog()
    catalog.add_metric(Energy(extract))
    return catalog


def test_the_number_of_a_sample_is_taken_from_it():
    one = sample(10.0)
    assert with_metrics(one, registered(lambda sample: sample.median_s)).metrics == {"energy": 0.01}
    assert with_metrics(one, registered(lambda sample: None)).metrics == {}
    assert with_metrics(one, registered(lambda sample: parts(10, 2))).metrics == {"energy": parts(10, 2)}


@pytest.mark.parametrize(
    ("extract", "message"),
    [
        (
            lambda sample: sample.facts["own"]["energy_j"],
            "the metric 'energy' of pytest_sdperf cannot read a sample: KeyError: 'own'. Correct its `extract`.",
        ),
        (
            lambda sample: float("nan"),
            f"the metric 'energy' of pytest_sdperf gave nan. {ALLOWED}",
        ),
        (
            lambda sample: "12 J",
            f"the metric 'energy' of pytest_sdperf gave '12 J'. {ALLOWED}",
        ),
        (
            lambda sample: Reading(12, None),
            f"the metric 'energy' of pytest_sdperf gave Reading(value=12, words=None). {ALLOWED}",
        ),
        (
            lambda sample: Reading(float("inf"), "12 J"),
            f"the metric 'energy' of pytest_sdperf gave Reading(value=inf, words='12 J'). {ALLOWED}",
        ),
    ],
)
def test_a_metric_that_cannot_read_a_sample_is_named(extract, message):
    with pytest.raises(WorkerError) as raised:
        with_metrics(sample(10.0), registered(extract))
    assert str(raised.value) == message


def test_a_name_is_given_once():
    catalog = registered(lambda sample: 1.0)
    with pytest.raises(DuplicateNameError):
        catalog.add_metric(Energy(lambda sample: 2.0))


@pytest.mark.parametrize("name", ["host-waits", "energy", "latency", "placement"])
def test_a_name_of_ours_is_taken(name):
    catalog = Catalog()
    catalog.add_metric(type("Named", (Energy,), {"name": name})(lambda sample: 1.0))
    with pytest.raises(DuplicateNameError) as raised:
        make_fixtures(catalog)
    told = f"metric '{name}' of pytest_sdperf: a metric of ours has this name. Rename it."
    assert str(raised.value) == told


@pytest.mark.parametrize(
    ("values", "known"),
    [((14, 15, 16), (12.3, 12.4, 12.5)), ((parts(14, 1), parts(14, 2), parts(14, 3)), (parts(9, 1), parts(9, 2)))],
)
def test_results_that_come_from_a_file_are_judged_where_the_plug_in_is_not(values, known):
    measured = dataclasses.replace(measurement(), **having(*values), metrics={"m": ENERGY})
    before = having(*known)["samples"]
    read = convert(json.loads(json.dumps(to_json(measured))), Measurement)
    assert [sample.metrics for sample in read.samples] == [sample.metrics for sample in measured.samples]
    found = {one.metric: one.code for one in judge(read, stored(session_with(before)), policy=Policy(processes=3))}
    assert found["m"] == "metric-worse"
