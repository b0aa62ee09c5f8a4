from __future__ import annotations

from sample_values import case, sample, session, stored

from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.plugin.plan.estimate import Estimate, estimate, total
from pytest_sdperf.plugin.plan.known import RecordedSessions


def test_a_sum_names_every_source_once_and_counts_what_is_not_known():
    measured = Estimate(2.0, ("measured here 2026-11-28",))
    found, unknown = total([measured, estimate(1.0), None, measured])
    assert (found.value, found.sources, unknown) == (5.0, ("measured here 2026-11-28", "estimated"), 1)
    assert found.estimated
    assert not (measured + Estimate()).estimated


def known(*, stored_date="", candidate_date="", **fields):
    dates = {"stored": stored_date, "candidates": candidate_date}
    return RecordedSessions(
        **{
            name: Baseline(machine={}, cases={case().key: stored(session(10, 10, date=date, **fields))})
            for name, date in dates.items()
            if date
        }
    )


def test_the_newest_session_tells():
    both = known(stored_date="2026-11-20T10:00Z", candidate_date="2026-11-21T10:00Z")
    assert both.peak_bytes(case()).sources == ("measured here 2026-11-21",)
    older = known(stored_date="2026-11-22T10:00Z", candidate_date="2026-11-21T10:00Z")
    assert older.peak_bytes(case()).sources == ("baseline of 2026-11-22",)
    assert older.peak_bytes(case()).value == 500 * 2**20
    assert older.peak_bytes(case(batch_size=9)) is None
    assert RecordedSessions().process_seconds(case()) is None
    assert RecordedSessions().first_seconds(case()) is None


def test_the_seconds_of_a_process_are_its_calls_and_what_came_before_them():
    one = known(candidate_date="2026-11-21T10:00Z")
    assert one.process_seconds(case()).value == 5 * 0.01
    assert one.first_seconds(case()).value == sample().load_s + sample().first_run_s


def test_out_of_memory_is_known_and_has_no_seconds():
    oom = known(candidate_date="2026-11-21T10:00Z", failure="oom")
    assert oom.ran_out_of_memory(case())
    assert oom.process_seconds(case()) is None
    assert not RecordedSessions().ran_out_of_memory(case())
