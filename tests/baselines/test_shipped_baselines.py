"""The baselines that come with the project: shown to everybody, and nobody's judge but that of their own pool."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from sample_values import case, measurement
from sample_values import session as session_of

from pytest_sdperf.baselines import privacy, stored
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.shipped import measured, measured_folder
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.judging.memory import DRAWN
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.labels import engine_label
from pytest_sdperf.core.machine.health import differing_keys
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values import Measurement, to_json
from pytest_sdperf.core.values.outcomes import Outcome
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.terminal import report_lines

FILES = sorted(measured_folder().glob("*.json"))


def test_there_is_one():
    assert FILES


def judged_again(session, known):
    """Judge what a session holds by the case that it is part of; its latency comes first."""
    again = Measurement(
        known.case, session.samples, counts=session.counts, subject=session.subject, artifacts=session.artifacts
    )
    found = judge(again, known, policy=Policy(processes=len(session.samples)))
    return sorted(found, key=lambda verdict: verdict.metric != "latency")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_holds_what_it_was_made_of(path):
    baseline = stored.read(path)
    assert baseline.machine["slug"] == path.stem
    privacy.check(to_json(baseline), privacy.identity())
    for key, known in baseline.cases.items():
        assert known.case.key == key
        if known.last.out_of_memory:
            continue
        # Of others only times: they may be from before something could be told.
        found, *others = (judged_again(session, known) for session in reversed(known.level("latency")))
        for verdicts in others:
            assert verdicts[0].outcome in (Outcome.HELD, Outcome.INCONCLUSIVE), verdicts[0].sentence
        verdicts = {verdict.metric: verdict for verdict in found if verdict.code != DRAWN}
        latency = verdicts.pop("latency").outcome
        outcomes = {verdict.outcome for verdict in verdicts.values()}
        assert outcomes <= {Outcome.HELD, Outcome.PASSED}, [one.sentence for one in found]
        # One process, or some that the host disturbed, are equal to themselves and prove no more than that.
        settled = len(known.last.samples) > 1 and dict(known.case.engine_options).get("cuda_graph") == "on"
        assert latency in ((Outcome.HELD,) if settled else (Outcome.HELD, Outcome.INCONCLUSIVE)), key


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_has_a_pool_that_nobody_is_in_by_default(path):
    assert stored.read(path).machine["pool"] not in ("", Settings().pool)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("key", ["pool", "driver", "power_limit_w"])
def test_it_judges_nobody_whose_machine_differs_in_one_key(tmp_path, path, key):
    machine = stored.read(path).machine
    other = {**machine, key: Settings().pool if key == "pool" else 1}
    assert list(differing_keys(machine, other)) == [key]
    assert BaselineFiles.of_device(tmp_path, slug=path.stem, machine=other) == BaselineFiles(tmp_path / path.name)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_judges_a_machine_of_the_pool_that_recorded_it_where_nothing_nearer_does(tmp_path, path):
    shipped = stored.read(path)
    sources = BaselineFiles.of_device(tmp_path, slug=path.stem, machine=shipped.machine)
    assert (sources.own, sources.baseline) == (tmp_path / path.name, shipped)
    known = next(iter(shipped.cases.values()))
    own = dataclasses.replace(known.case, engine="own")
    one = stored.StoredCase(case=own, anchor=known.anchor, sessions=known.sessions)
    content = stored.Baseline(machine={**shipped.machine, "pool": "ours"}, cases={own.key: one})
    (tmp_path / path.name).write_text(to_text(content), encoding="utf-8")
    both = BaselineFiles.of_device(tmp_path, slug=path.stem, machine=shipped.machine)
    assert both.source_of(own).path == tmp_path / path.name
    assert both.source_of(known.case).path == path


def test_its_cases_stand_beside_those_that_do_the_same_work_on_such_a_card():
    shipped = stored.read(measured_folder() / "h200.json")
    of = next(one.case for one in shipped.cases.values() if one.case.component == "unet" and one.case.batch_size == 1)
    done = measurement(6.6, 6.65, 6.7, case=dataclasses.replace(of, engine="torch", engine_options=()))
    report = CaseReport("a::b", done.case, done, verdicts=judge(done, None, policy=Policy()))
    text = [
        line.text
        for line in report_lines([report], RunInfo("H200", "h200", "h200"), width=160, shipped=measured(), verbosity=1)
    ]
    title = text.index("shipped with pytest_sdperf, unet 512x512, h200")
    notes = next(number for number, line in enumerate(text) if line.startswith("  MB = "))
    rows = [line.split()[:2] for line in text[title + 1 : notes]]
    assert rows[0] == ["fp32", "ort-cuda:cuda_graph=on"]
    expected = [
        [one.case.optimization, engine_label(one.case.engine, one.case.engine_options)]
        for one in shipped.cases.values()
        if (one.case.component, one.case.batch_size, one.case.width) == ("unet", 1, of.width)
    ]
    assert sorted(rows) == sorted(expected)
    assert "  bias-split-gelu ort-cuda:cuda_graph=on" in text[title + len(rows) - 1]
    assert (
        "  [1] measured by pytest_sdperf: unet 512x512 on h200, driver 580.159.04, cublas 13.1.0, cuda 13.0, cudnn "
        "9.19.0, onnxruntime 1.31.1, 2026-11-28 to 2026-11-29,"
    ) in text


def days_and_rows(*cases):
    """Return the source lines and the numbers of rows of an H200 file with these cases."""
    shipped = stored.read(measured_folder() / "h200.json")
    content = stored.Baseline(machine=shipped.machine, cases={one.case.key: one for one in cases})
    done = measurement(6.6, 6.6, 6.6, case=cases[0].case)
    report = CaseReport("a::b", done.case, done, policy=Policy())
    lines = [
        line.text
        for line in report_lines([report], RunInfo("H200", "h200", "h200"), width=190, shipped=[content], verbosity=1)
    ]
    sources = [line.strip() for line in lines if line.lstrip().startswith("[1] measured by pytest_sdperf")]
    return [line.split()[2:-1] for line in lines if line.endswith("[1]")], sources


def kept(*sessions, **fields):
    return stored.StoredCase(case=case(**fields), anchor=sessions[0], sessions=sessions)


def on_day(day, ms, **fields):
    return msgspec.structs.replace(session_of(ms, ms, ms, **fields), date=f"2026-11-{day}T10:00Z")


def source_of(when):
    return f"[1] measured by pytest_sdperf: unet 128x128 on h200, driver 580.159.04, onnxruntime 1.31.1, {when}"


def test_a_row_shows_the_middle_of_the_level_that_runs_are_judged_by():
    many = kept(on_day(20, 9.0), on_day(21, 6.5), on_day(23, 6.9), on_day(22, 6.6), on_day(22, 6.4))
    rows, sources = days_and_rows(many)
    assert rows == [["6.60", "ms", "500", "400"]]
    assert sources == [source_of("2026-11-20 to 2026-11-23, each the median of 5 sessions")]
    begun_anew = on_day(21, 6.5, changed=("latency",))
    level = kept(on_day(20, 9.0), begun_anew, on_day(23, 6.9), on_day(22, 6.6), on_day(22, 6.4))
    rows, sources = days_and_rows(level, kept(on_day(24, 20.0), optimization="fp32"))
    assert rows == [["20.0", "ms", "500", "400"], ["6.55", "ms", "500", "400"]]
    assert sources == [source_of("2026-11-21 to 2026-11-24, each the median of 1 to 4 sessions")]
    other = on_day(20, 9.0, subject={"onnxruntime": "1.30.0"})
    assert days_and_rows(kept(other, on_day(21, 6.5)))[1] == [source_of("2026-11-21, one session each")]


@pytest.mark.parametrize("family", ["", "a100"])
def test_on_another_card_nothing_of_it_is_shown(family):
    shipped = stored.read(measured_folder() / "h200.json")
    of = next(one.case for one in shipped.cases.values())
    done = measurement(6.6, 6.7, 6.8, case=of)
    report = CaseReport("a::b", of, done, verdicts=judge(done, None, policy=Policy()))
    lines = report_lines([report], RunInfo("A card", "card", family), width=160, shipped=measured(), verbosity=1)
    assert [line.text for line in lines if "shipped" in line.text] == []
