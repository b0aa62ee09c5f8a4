from __future__ import annotations

import dataclasses
import json
import math
import statistics
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sample_values import CASE, case, compared, failed, kernels, measurement, sample_with, session, stored, took, waited

from pytest_sdperf.acceptance.accept import accept
from pytest_sdperf.acceptance.candidates import State, keep_candidates, of_run, withdraw
from pytest_sdperf.acceptance.refusals import AcceptOptions, refusals
from pytest_sdperf.acceptance.sessions import Provenance, measurement_of, session_of
from pytest_sdperf.baselines.privacy import PrivacyError, identity, restored
from pytest_sdperf.baselines.sources import BaselineFiles
from pytest_sdperf.baselines.stored import SESSIONS_KEPT, read
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.tables.stored import latency_s
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.checks.reporting.gates import LEVELS
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict

MACHINE = {"slug": "t4", "driver": "580.1", "power_limit_w": 70}
POLICY = Policy()


@dataclasses.dataclass
class Desk:
    """A repository and a machine on which sessions follow each other."""

    folder: Path
    state_dir: Path
    day: int = 0
    registered: tuple[Path, ...] = ()

    @property
    def file(self) -> Path:
        return self.folder / "t4.json"

    @property
    def state(self) -> State:
        return State(self.state_dir, self.folder)

    def origin(self, **fields) -> Provenance:
        return Provenance(**{"slug": "t4", "machine": MACHINE, "date": f"2026-11-{self.day:02}T10:00Z", **fields})

    def stored(self, of=CASE):
        baseline = read(self.file)
        return baseline.cases.get(of.key) if baseline else None

    def report(self, measured, *, machine=MACHINE, any_driver=False, **fields) -> CaseReport:
        stored, differences = self.sources(machine).stored(measured.case, machine)
        if any_driver:
            differences.pop("driver", None)
        verdicts = judge(measured, stored, policy=POLICY, differences=differences)
        return CaseReport(f"test_it[{measured.case.engine}]", measured.case, measured, verdicts=verdicts, **fields)

    def accept(self, *reports, **options):
        self.day += 1
        origin = options.pop("origin", None) or self.origin()
        sources = self.sources(origin.machine)
        return accept(reports, origin=origin, sources=sources, state=self.state, terms=AcceptOptions(**options))

    def sources(self, machine=MACHINE):
        return BaselineFiles.of_device(self.folder, self.registered, slug="t4", machine=machine)

    def machine(self):
        baseline = read(self.file)
        return baseline.machine if baseline else None

    def candidates(self):
        baseline = read(self.state.candidates_of("t4"))
        return sorted(baseline.cases) if baseline else []


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path / "baselines", tmp_path / "state")


def test_a_new_case_becomes_anchor_and_first_session(desk):
    done = desk.accept(desk.report(measurement(10, 10, 10)))
    entry = desk.stored()
    assert done.accepted == (CASE.key,)
    assert done.refused == {}
    assert done.lines[0] == f"+ {CASE.key}: 10.0 ms, 400 MB, measured 2026-11-01T10:00Z"
    assert entry.sessions == (entry.anchor,)
    assert entry.anchor.date == "2026-11-01T10:00Z"
    assert entry.anchor.samples == measurement(10, 10, 10).samples


def test_the_anchor_stays_and_the_oldest_session_goes(desk):
    for day in range(SESSIONS_KEPT + 3):
        desk.accept(desk.report(measurement(10, 10, 10 + day / 1000)))
    entry = desk.stored()
    assert entry.anchor.date == "2026-11-01T10:00Z"
    assert [one.date for one in entry.sessions] == [f"2026-11-{day:02}T10:00Z" for day in range(4, 14)]


def test_re_anchoring_is_explicit(desk):
    desk.accept(desk.report(measurement(10, 10, 10)))
    desk.accept(desk.report(measurement(10, 10, 10.001)), re_anchor=True)
    assert desk.stored().anchor.date == "2026-11-02T10:00Z"


@pytest.mark.parametrize(
    ("asked", "level_ms", "reason"),
    [
        ({}, 11, ""),
        ({"reason": "the decoder is another one"}, 11, ""),
        ({"re_anchor": True}, 11, ""),
        ({"re_anchor": True, "reason": "the decoder is another one"}, 10, "the decoder is another one"),
    ],
)
def test_a_change_that_nobody_can_tell_is_a_new_level_where_somebody_says_so(desk, asked, level_ms, reason):
    desk.accept(desk.report(measurement(9, 12, 15)))
    report = desk.report(measurement(7, 10, 13))
    assert report.verdicts[0].outcome is Outcome.INCONCLUSIVE
    desk.accept(report, **asked)
    entry = desk.stored()
    assert statistics.median(latency_s(one) for one in entry.level("latency")) == pytest.approx(level_ms / 1e3)
    assert (entry.last.reason, len(entry.sessions)) == (reason, 2)
    # What could be told stays what it was.
    assert len(entry.level("first-run-memory")) == 2


NOISY, LESS = (9, 12, 15), (7, 10, 13)
ANEW = {"re_anchor": True, "reason": "the decoder is another one"}


def test_a_level_begins_with_samples_that_were_accepted_before_too(desk):
    desk.accept(desk.report(measurement(*NOISY)))
    desk.accept(desk.report(measurement(*LESS)))
    assert len(desk.stored().level("latency")) == 2
    done = desk.accept(desk.report(measurement(*LESS)), **ANEW)
    assert done.lines[0] == f"~ {CASE.key}: these samples are stored already, a new level of latency"
    entry = desk.stored()
    assert entry.level("latency") == (entry.last,)
    assert (entry.anchor, entry.last.reason) == (entry.last, "the decoder is another one")
    assert desk.accept(desk.report(measurement(*LESS)), **ANEW).lines[0].startswith("= ")


def test_starting_anew_gives_no_reason_to_what_needs_none(desk):
    torch = case(engine="torch")
    desk.accept(desk.report(measurement(10, 10, 10)))
    done = desk.accept(desk.report(measurement(10, 10, 10.01)), desk.report(measurement(case=torch)), **ANEW)
    assert not any("level" in line for line in done.lines)
    assert [desk.stored(of).last.reason for of in (CASE, torch)] == ["", ""]
    assert len(desk.stored().level("latency")) == 2


def test_memory_that_was_drawn_is_no_level_whatever_the_reason(desk):
    def peaks(*megabytes):
        return dataclasses.replace(measurement(), samples=took(*megabytes))

    desk.accept(desk.report(peaks(400, 400, 800)))
    desk.accept(desk.report(peaks(400, 800, 800)))
    report = desk.report(peaks(800, 800, 800.5))
    assert [one.code for one in report.verdicts if one.metric == "first-run-memory"] == ["memory-may-be-drawn"]
    desk.accept(report, **ANEW)
    assert len(desk.stored().level("first-run-memory")) == 3


def test_the_same_samples_are_stored_once_whatever_their_date(desk):
    for re_anchor in (False, False, True):
        done = desk.accept(desk.report(measurement(10, 10, 10.5)), re_anchor=re_anchor)
    assert f"= {CASE.key}: these samples are stored already" in done.lines
    assert [one.date for one in desk.stored().sessions] == ["2026-11-01T10:00Z"]
    desk.accept(desk.report(measurement(10, 10, 11)))
    desk.accept(desk.report(measurement(10, 10, 10.5)), re_anchor=True)
    assert (len(desk.stored().sessions), desk.stored().anchor.date) == (2, "2026-11-01T10:00Z")


def test_a_regression_needs_a_reason_and_then_is_the_new_level(desk):
    desk.accept(desk.report(measurement(10, 10, 10)))
    slower = desk.report(measurement(20, 20, 20))
    done = desk.accept(slower)
    assert done.accepted == ()
    assert done.lines == (
        (
            f"! {CASE.key}: refused, REGRESSED: {slower.verdicts[0].sentence} If that is meant, add "
            f'--sdperf-reason="why it is acceptable".'
        ),
    )
    assert len(desk.stored().sessions) == 1

    done = desk.accept(slower, reason="safety checker is on now")
    assert done.lines[0] == (
        f"~ {CASE.key}: 10.0 ms, 400 MB -> 20.0 ms, 400 MB (+100 %), measured 2026-11-03T10:00Z, a new level of latency"
    )
    entry = desk.stored()
    assert entry.last.reason == "safety checker is on now"
    assert entry.last.changed == ("latency",)
    assert entry.level("latency") == (entry.last,)
    assert len(entry.level("first-run-memory")) == 2
    assert desk.report(measurement(20, 20, 20)).outcome is Outcome.HELD


def test_files_and_what_building_them_took_are_stored_and_a_larger_file_is_the_new_level(desk):
    step = BuildStep("export", 25.0, 24.0, host="cpu-amd-epyc-2c", commit="abc", date="2026-11-20T09:58Z", now=True)
    small, large = ({"unet": Artifact(size, None, (step,))} for size in (60_000_000, 70_000_000))
    desk.accept(desk.report(measurement(artifacts=small)))
    assert desk.stored().last.artifacts == small
    assert measurement_of(desk.stored().last, CASE).artifacts == small
    refused = desk.accept(desk.report(measurement(10.0, 10.1, 10.2, artifacts=large)))
    assert refused.refused[CASE.key].startswith("REGRESSED: UNet model files of 70 MB are 17 % above")
    desk.accept(desk.report(measurement(10.0, 10.1, 10.2, artifacts=large)), reason="an embedding more")
    assert desk.stored().last.changed == ("artifact-size",)
    assert [session.artifacts for session in desk.stored().level("artifact-size")] == [large]


def test_a_blank_reason_is_no_reason(desk):
    desk.accept(desk.report(measurement(10, 10, 10)))
    assert desk.accept(desk.report(measurement(20, 20, 20)), reason="  ").accepted == ()


def test_a_reason_is_stored_only_with_what_regressed(desk):
    desk.accept(desk.report(measurement(10, 10, 10)), reason="irrelevant")
    assert desk.stored().last.reason == ""


def test_an_improvement_needs_no_reason_and_is_the_new_level(desk):
    desk.accept(desk.report(measurement(10, 10, 10)))
    assert desk.accept(desk.report(measurement(5, 5, 5))).accepted == (CASE.key,)
    assert desk.stored().last.changed == ("latency",)


def test_invalid_is_refused(desk):
    done = desk.accept(desk.report(measurement(health=("the GPU is hot",))), reason="please")
    assert done.lines == (f"! {CASE.key}: refused, INVALID: The machine was not fit to be measured: the GPU is hot.",)
    assert not desk.file.exists()


def test_what_was_not_judged_is_refused(desk):
    done = desk.accept(CaseReport("test_it", CASE, measurement()))
    assert done.refused == {CASE.key: "it was not judged"}


def test_out_of_memory_is_stored_as_a_value(desk):
    desk.accept(desk.report(failed("oom", "out of memory")))
    assert (desk.stored().last.failure, desk.stored().last.samples) == ("oom", ())
    assert desk.report(failed("oom", "out of memory")).outcome is Outcome.HELD
    done = desk.accept(desk.report(measurement(10, 10, 10)))
    assert done.lines[0] == f"~ {CASE.key}: OOM -> 10.0 ms, 400 MB, measured 2026-11-02T10:00Z, a new level"
    assert desk.report(measurement(10, 10, 10)).outcome is Outcome.HELD


def test_memory_from_before_an_out_of_memory_is_no_longer_compared_with(desk):
    desk.accept(desk.report(measurement(10, 10, 10, second=400)))
    desk.accept(desk.report(failed("oom", "out of memory")), reason="a larger model")
    assert desk.stored().last.changed == tuple(sorted(LEVELS))
    again = desk.report(measurement(10, 10, 10, second=200))
    assert again.verdict("second-run-memory").outcome is Outcome.NEW
    desk.accept(again)
    assert desk.report(measurement(10, 10, 10, second=200)).outcome is Outcome.HELD


# -------------------------------------------------------------------------------------------------- gates

WRONG = Agreement("component", "relative-l2", 4e-3, 1e-3, 2e-3, "float16", "float32", "sample[0]")
RIGHT = dataclasses.replace(WRONG, error=1e-3)
BEYOND = (
    "The component has a relative L2 error {} against torch float32; plain torch float16 has 1.00e-03, so at most "
    "2.00e-03 passes; the worst element is sample[0]."
)


@pytest.mark.parametrize(
    ("gate", "refuses"),
    [
        (CASE, True), (case(batch_size=8), True), (case(component="pipeline", steps=4), True), (case(engine=""), True),
        (case(component="vae_decoder"), False), (case(engine="torch"), False), (case(optimization="fp32"), False),
        (case(fuser="native"), False), (case(model="sd21-thin"), False), (case(weights="abc"), False),
    ],
)  # fmt: skip
def test_a_failed_agreement_refuses_every_case_of_its_build(desk, gate, refuses):
    gate_report = compared("test_agreement[x]", gate, RIGHT, WRONG)
    done = desk.accept(desk.report(measurement()), gate_report, reason="please")
    why = f"test_agreement[x]: {BEYOND.format('4.00e-03')}"
    assert done.refused == ({CASE.key: why} if refuses else {})


def test_a_pipeline_is_refused_for_any_of_its_components(desk):
    whole = case(component="pipeline", steps=4, scheduler="ddim")
    report = desk.report(measurement(case=whole, calls=5))
    gate = compared("test_agreement[vae]", case(component="vae_decoder"), WRONG)
    assert list(desk.accept(report, gate).refused) == [whole.key]


def test_an_error_that_is_not_a_number_is_a_disagreement(desk):
    gate = compared("t", CASE, dataclasses.replace(WRONG, error=math.nan), WRONG)
    done = desk.accept(desk.report(measurement()), gate)
    assert done.refused == {CASE.key: f"t: {BEYOND.format('nan')}"}


def test_a_test_that_failed_otherwise_is_a_gate_too(desk):
    lost = Verdict(Outcome.FAILED, "operators-missing", "The unet graph lacks operators.", "fusions")
    for gate, why in (
        (
            CaseReport("test_fusions", case(engine=""), verdicts=(lost,)),
            "test_fusions: The unet graph lacks operators.",
        ),
        (CaseReport("test_x", CASE, problem="assert 1 == 2"), "test_x failed: assert 1 == 2"),
    ):
        assert desk.accept(desk.report(measurement()), gate, reason="please").refused == {CASE.key: why}
    assert not desk.file.exists()


@pytest.mark.parametrize("metric", ["placement", "compile", "replay", "fusions", "latency"])
def test_what_failed_is_accepted_for_no_reason(desk, metric):
    """A derived limit is beyond any reason, whichever metric it is of."""
    of = desk.report(measurement())
    wrong = Verdict(Outcome.FAILED, "cpu-nodes", "1 node is on the CPU.", metric)
    done = desk.accept(dataclasses.replace(of, verdicts=(*of.verdicts, wrong)), reason="please")
    assert done.refused == {CASE.key: "test_it[ort-cpu]: 1 node is on the CPU."}
    assert not desk.file.exists()


# ------------------------------------------------------------------------------------------ files and machines


OTHER_DRIVER = {**MACHINE, "driver": "590"}
START_ANEW = 'To start anew under this one, type: sdperf baselines accept --re-anchor --reason="new driver"'


def test_another_machine_is_not_mixed_into_a_file(desk):
    desk.accept(desk.report(measurement()))
    other = desk.report(measurement(case=case(engine="torch")))
    before = desk.file.read_bytes()
    machine = {**OTHER_DRIVER, "power_limit_w": 60}
    done = desk.accept(other, origin=desk.origin(machine=machine), re_anchor=True, reason="another card")
    assert done.accepted == ()
    assert done.lines == (
        (
            f"! {other.case.key}: refused, t4.json was recorded with another power_limit_w: one file holds one "
            f"machine. Move it away and record every case anew, or keep this machine in a folder of its own"
        ),
    )
    assert desk.file.read_bytes() == before


@pytest.mark.parametrize("asked", [{}, {"re_anchor": True}, {"reason": "new driver"}])
def test_what_was_measured_under_another_driver_is_refused_with_the_command_that_starts_anew(desk, asked):
    desk.accept(desk.report(measurement()))
    before = desk.file.read_bytes()
    report = desk.report(measurement(10, 10, 10.4), machine=OTHER_DRIVER)
    done = desk.accept(report, origin=desk.origin(machine=OTHER_DRIVER), **asked)
    assert done.lines == (
        (
            f"! {CASE.key}: refused, INVALID: The baseline was recorded under another driver: driver was 580.1 and is "
            f"590; a driver is not what is tested. {START_ANEW}."
        ),
    )
    again = desk.report(measurement(10, 10, 10.4), machine=OTHER_DRIVER, any_driver=True)
    done = desk.accept(again, origin=desk.origin(machine=OTHER_DRIVER), **asked)
    assert done.lines == (f"! {CASE.key}: refused, it was recorded under driver 580.1, and this is 590. {START_ANEW}",)
    assert desk.file.read_bytes() == before


def test_another_driver_starts_a_new_level_and_keeps_what_was_before(desk):
    torch = case(engine="torch")
    desk.accept(desk.report(measurement(10, 10, 10)), desk.report(measurement(case=torch)))
    report = desk.report(measurement(11, 11, 11), machine=OTHER_DRIVER, any_driver=True)
    origin = desk.origin(machine=OTHER_DRIVER, date="2026-12-24T10:00Z")
    done = desk.accept(report, origin=origin, re_anchor=True, reason="new driver")
    assert done.lines[0] == (
        f"~ {CASE.key}: 10.0 ms, 400 MB -> 11.0 ms, 400 MB (+10 %), measured 2026-12-24T10:00Z, a new level under "
        f"driver 590"
    )
    entry = desk.stored()
    assert [one.date for one in entry.sessions] == ["2026-11-01T10:00Z", "2026-12-24T10:00Z"]
    assert entry.anchor == entry.last
    assert (entry.last.driver, entry.last.reason) == ("590", "new driver")
    assert {metric: len(entry.level(metric)) for metric in LEVELS} == dict.fromkeys(LEVELS, 1)
    # The file keeps its machine; each case is as far as its last session.
    assert desk.machine() == MACHINE
    assert desk.report(measurement(11, 11, 11), machine=OTHER_DRIVER).outcome is Outcome.HELD
    assert desk.report(measurement(11, 11, 11)).verdicts[0].code == "driver-changed"
    assert desk.report(measurement(case=torch), machine=OTHER_DRIVER).verdicts[0].code == "driver-changed"
    assert desk.report(measurement(case=torch)).outcome is Outcome.HELD


def test_the_same_samples_under_another_driver_are_another_session(desk):
    desk.accept(desk.report(measurement()))
    report = desk.report(measurement(), machine=OTHER_DRIVER, any_driver=True)
    desk.accept(report, origin=desk.origin(machine=OTHER_DRIVER), re_anchor=True, reason="another_driver")
    assert [one.driver for one in desk.stored().sessions] == [msgspec.UNSET, "590"]


def test_what_was_not_fit_to_be_measured_starts_no_new_level(desk):
    desk.accept(desk.report(measurement()))
    report = desk.report(measurement(health=("the GPU is hot",)), machine=OTHER_DRIVER, any_driver=True)
    done = desk.accept(report, origin=desk.origin(machine=OTHER_DRIVER), re_anchor=True, reason="new driver")
    assert done.refused == {CASE.key: "INVALID: The machine was not fit to be measured: the GPU is hot."}


def test_a_case_that_is_new_under_another_driver_says_under_which(desk):
    desk.accept(desk.report(measurement()))
    torch = case(engine="torch")
    origin = desk.origin(machine=OTHER_DRIVER)
    assert desk.accept(desk.report(measurement(case=torch), machine=OTHER_DRIVER), origin=origin).accepted == (
        torch.key,
    )
    assert desk.stored(torch).last.driver == "590"
    assert desk.report(measurement(case=torch), machine=OTHER_DRIVER).outcome is Outcome.HELD
    assert '"driver"' in desk.file.read_text()


def test_going_back_to_the_first_driver_needs_no_word_about_it_in_the_session(desk):
    desk.accept(desk.report(measurement(10, 10, 10)))
    for number, machine in enumerate((OTHER_DRIVER, MACHINE)):
        report = desk.report(measurement(11, 11, 11 + number / 100), machine=machine, any_driver=True)
        desk.accept(report, origin=desk.origin(machine=machine), re_anchor=True, reason="driver")
    assert [json.loads(desk.file.read_text())["cases"][CASE.key]["sessions"][i].get("driver") for i in range(3)] == [
        None, "590", None,
    ]  # fmt: skip
    assert desk.report(measurement(11, 11, 11)).outcome is Outcome.HELD


# --------------------------------------------------------------------------------------- files of other folders


@pytest.fixture
def beside(desk, tmp_path):
    """A desk beside which a plug-in has registered a file with two cases."""
    other = Desk(tmp_path / "acme", tmp_path / "elsewhere")
    for times in ((10, 10, 10), (10, 10, 10.1)):
        other.accept(*(other.report(measurement(*times, case=of)) for of in (CASE, case(engine="torch"))))
    desk.registered = (other.folder,)
    return desk


def test_a_case_that_another_file_judges_begins_with_what_that_one_holds(beside):
    report = beside.report(measurement(10, 10, 10.2))
    assert report.outcome is Outcome.HELD
    done = beside.accept(report, origin=beside.origin(date="2026-12-24T10:00Z"))
    assert done.lines[0].startswith(f"~ {CASE.key}: 10.0 ms, 400 MB -> 10.0 ms, 400 MB")
    entry = beside.stored()
    assert [one.date[:10] for one in entry.sessions] == ["2026-11-01", "2026-11-02", "2026-12-24"]
    assert entry.anchor == entry.sessions[0]


def test_the_cases_that_were_not_accepted_are_judged_by_the_other_file_as_before(beside):
    beside.accept(beside.report(measurement(10, 10, 10.2)))
    assert list(read(beside.file).cases) == [CASE.key]
    assert beside.report(measurement(20, 20, 20, case=case(engine="torch"))).outcome is Outcome.REGRESSED
    assert beside.report(measurement(20, 20, 20)).outcome is Outcome.REGRESSED


def test_the_other_file_is_never_written(beside):
    before = (beside.registered[0] / "t4.json").read_bytes()
    beside.accept(beside.report(measurement(20, 20, 20)), reason="larger", re_anchor=True)
    assert (beside.registered[0] / "t4.json").read_bytes() == before


def test_sessions_of_another_file_keep_their_driver(beside):
    report = beside.report(measurement(11, 11, 11), machine=OTHER_DRIVER, any_driver=True)
    beside.accept(report, origin=beside.origin(machine=OTHER_DRIVER), re_anchor=True, reason="new driver")
    assert beside.machine() == OTHER_DRIVER
    assert [one.driver for one in beside.stored().sessions] == ["580.1", "580.1", msgspec.UNSET]


# -------------------------------------------------------------------------------------------------- what is meant


def test_only_what_is_meant_is_accepted(desk):
    torch = case(engine="torch")
    reports = [desk.report(measurement(case=of)) for of in (CASE, torch)]
    done = desk.accept(*reports, only="torch unet")
    assert (done.accepted, done.refused, done.left) == ((torch.key,), {}, 1)
    assert desk.stored() is None


def test_only_what_is_new_is_accepted_and_what_another_file_judges_is_not_new(beside):
    new = case(batch_size=4)
    reports = [beside.report(measurement(20, 20, 20, case=of)) for of in (CASE, case(engine="torch"), new)]
    done = beside.accept(*reports, new_only=True)
    assert (done.accepted, done.refused, done.left) == ((new.key,), {}, 2)


def test_a_machine_that_reports_slightly_other_memory_is_the_same(desk):
    first, again = ({**MACHINE, "memory_bytes": 16_000_000_000 + more} for more in (0, 100_000))
    desk.accept(desk.report(measurement(), machine=first), origin=desk.origin(machine=first))
    before = desk.machine()
    assert desk.accept(desk.report(measurement(), machine=again), origin=desk.origin(machine=again)).accepted == (
        CASE.key,
    )
    assert desk.machine() == before


def test_a_damaged_file_is_not_overwritten(desk):
    report = desk.report(measurement())
    desk.folder.mkdir()
    desk.file.write_text("{")
    with pytest.raises(BaselineError):
        desk.accept(report)
    assert desk.file.read_text() == "{"


def test_the_last_line_says_what_to_do_where_git_has_a_diff(desk, monkeypatch):
    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=desk.folder.parent, check=True, capture_output=True)

    def last_line(*milliseconds):
        return desk.accept(desk.report(measurement(*milliseconds))).lines[-1]

    monkeypatch.chdir(desk.folder.parent)
    written = f"written to {desk.file}"
    assert last_line(10, 10, 10.1) == written
    git("init")
    assert last_line(10, 10, 10.2) == written
    git("add", str(desk.file))
    assert last_line(10, 10, 10.3) == f"{written}; review it as a diff before you commit it"
    monkeypatch.chdir("/")
    assert last_line(10, 10, 10.4) == written
    monkeypatch.setenv("PATH", "")
    assert last_line(10, 10, 10.5) == written


def test_a_session_that_other_programs_disturbed_is_no_part_of_the_level_once_it_was_measured_again(desk):
    desk.accept(desk.report(waited(measurement(20, 20, 20.1), 0.5)), reason="no other machine was free")
    again = desk.report(waited(measurement(10, 10, 10.1), 0.0))
    assert [one.code for one in again.verdicts if one.metric == "latency"] == ["baseline-shared"]
    assert desk.accept(again).accepted == (CASE.key,)
    assert desk.stored().last.changed == ("latency",)
    assert [one.samples[0].median_s for one in desk.stored().level("latency")] == [0.010]
    (latency,) = (
        one for one in desk.report(waited(measurement(20, 20, 20.1), 0.0)).verdicts if one.metric == "latency"
    )
    assert (latency.expected, latency.code) == (pytest.approx(0.010), "latency-above-interval")


def one_waited(*milliseconds, share=0.4):
    """Return a measurement whose last process waited for a processor."""
    found = measurement(*milliseconds)
    *quiet, last = found.samples
    return dataclasses.replace(found, samples=(*quiet, dataclasses.replace(last, facts={"waited": share})))


AGAIN = (
    "something else used the processors while it was timed: the threads of a process waited 40 % of the time. Measure "
    'it again where nothing else runs: pytest suites. If that is meant, add --sdperf-reason="why it is acceptable".'
)


@pytest.mark.parametrize("times", [(37, 37, 119), (37, 37, 37)])
def test_what_was_measured_beside_something_else_needs_a_reason(desk, times):
    report = desk.report(one_waited(*times))
    assert desk.accept(report, origin=desk.origin(command="pytest suites")).refused == {CASE.key: AGAIN}
    assert desk.stored() is None
    assert desk.accept(report, reason="this machine is never quiet").accepted == (CASE.key,)
    assert desk.stored().last.reason == "this machine is never quiet"


def test_behind_a_disturbed_baseline_a_slower_median_is_not_accepted_without_a_reason(desk):
    desk.accept(desk.report(one_waited(37, 37, 119)), reason="it is never quiet")
    report = desk.report(measurement(60, 60, 60))
    latency = report.verdict("latency")
    assert (latency.outcome, latency.code) == (Outcome.INCONCLUSIVE, "baseline-shared")
    assert latency.sentence.endswith(
        ", and something else used the processors while the baseline was measured: the threads of a process waited 40 "
        "% of the time. Measure the baseline again where nothing else runs."
    )
    (why,) = desk.accept(report).refused.values()
    assert why == (
        f"it is 62 % slower than the stored level (INCONCLUSIVE): {latency.sentence} If that is meant, add "
        f'--sdperf-reason="why it is acceptable".'
    )
    desk.accept(report, reason="the decoder does more")
    assert (desk.stored().last.reason, len(desk.stored().level("latency"))) == ("the decoder does more", 1)


@given(st.floats(0.1, 60.0), st.floats(1.001, 30.0), st.booleans())
def test_a_slower_median_needs_a_reason_however_noisy_its_baseline(spread, ratio, on_cpu):
    policy = Policy(on_cpu=on_cpu)
    before = stored(session(10, 10 + spread, max(10 - spread, 1)))
    measured = measurement(*(10 * ratio,) * 3)
    report = CaseReport(
        "t", CASE, measured, verdicts=judge(measured, before, policy=policy, differences={}), policy=policy
    )
    slower = ratio > 1 + policy.latency_effect
    assume(abs(ratio - (1 + policy.latency_effect)) > 1e-6)
    assert bool(refusals([report], AcceptOptions())) is slower
    assert refusals([report], AcceptOptions(reason="a larger model")) == {}


def test_what_no_reason_mends_is_said_before_a_doubt():
    """Who accepts a disturbed time with a reason must not accept wrong pictures by it."""
    disturbed = waited(measurement(), 0.5)
    wrong = Agreement("component", "relative-l2", 1.0, 1e-7, 2e-7, "float32", "float64")
    report = compared("t", CASE, wrong, measurement=disturbed, verdicts=judge(disturbed, None, policy=Policy()))
    doubtful = CaseReport("t", CASE, disturbed, judge(disturbed, None, policy=Policy()))
    assert refusals([report], AcceptOptions())[CASE.key].startswith("t: The component has a relative L2 error")
    assert refusals([doubtful], AcceptOptions())[CASE.key].startswith("something else used the processors")


def test_nothing_to_accept_writes_nothing(desk):
    assert desk.accept().lines == ()
    assert not desk.folder.exists()


def test_private_text_in_facts_is_taken_out_and_in_a_reason_refused(desk):
    home = identity().home
    facts = {"module": f"{home}/venv/onnxruntime/__init__.py", "uuid": "GPU-1f2e3d4c-5b6a-7988-a1b2-c3d4e5f60718"}
    measured = measurement(10, 10, 10)
    measured = dataclasses.replace(
        measured, samples=tuple(dataclasses.replace(one, facts=facts) for one in measured.samples)
    )
    desk.accept(desk.report(measured))
    assert desk.stored().last.samples[0].facts == {"module": "~/venv/onnxruntime/__init__.py", "uuid": "<uuid>"}
    with pytest.raises(PrivacyError):
        desk.accept(desk.report(measurement(20, 20, 20)), reason=f"see {home}/notes")


def test_session_keeps_the_raw_samples_and_what_was_tested(desk):
    rates = Calibration(7.9e14, 3e12, "float16", "torch 2.13.0")
    measured = measurement(10, 11, 12, graph_hashes={"unet": "abc"}, calibration=rates)
    made = session_of(measured, desk.origin(commit="1234abcd"))
    assert made.calibration == rates
    assert [type(one) for one in made.samples] == [Sample] * 3
    assert made.samples == measurement(10, 11, 12).samples
    assert (made.commit, made.subject, made.graph_hashes) == ("1234abcd", {"onnxruntime": "1.31.1"}, {"unet": "abc"})


# ------------------------------------------------------------------------------------------------ candidates


def keep(desk, *reports, **origin):
    return keep_candidates(reports, origin=desk.origin(**origin), state=desk.state)


def test_new_results_are_candidates_until_they_are_accepted(desk):
    report = desk.report(measurement())
    assert keep(desk, report) == (CASE.key,)
    assert desk.candidates() == [CASE.key]
    assert not desk.folder.exists()
    desk.accept(report)
    assert desk.candidates() == []


def test_held_results_are_candidates_too_because_sessions_add_up_and_invalid_ones_are_none(desk):
    desk.accept(desk.report(measurement()))
    torch = case(engine="torch")
    assert keep(desk, desk.report(measurement()), desk.report(failed("crash", "x", case=torch))) == (CASE.key,)
    assert desk.candidates() == [CASE.key]


def test_a_regression_is_a_candidate_that_can_be_accepted_later(desk):
    desk.accept(desk.report(measurement()))
    assert keep(desk, desk.report(measurement(20, 20, 20))) == (CASE.key,)


def test_candidates_of_another_project_are_others_whatever_they_measured(desk, tmp_path):
    other = Desk(tmp_path / "other" / "baselines", desk.state_dir)
    keep(desk, desk.report(measurement()))
    keep(other, other.report(measurement(20, 20, 20)), other.report(measurement(case=case(engine="torch"))))
    assert desk.candidates() == [CASE.key]
    assert latency_s(read(desk.state.candidates_of("t4")).cases[CASE.key].last) == pytest.approx(0.010)
    withdraw([CaseReport("t", case(engine=""), problem="assert 3 == 4")], state=other.state)
    assert (desk.candidates(), other.candidates()) == ([CASE.key], [])


def test_one_folder_of_baselines_is_one_project_however_it_is_named(desk, tmp_path, monkeypatch):
    keep(desk, desk.report(measurement()))
    monkeypatch.chdir(tmp_path)
    assert State(desk.state_dir, Path("baselines")).candidates == desk.state.candidates
    assert State(desk.state_dir, Path("x") / ".." / "baselines").candidates == desk.state.candidates


@pytest.mark.parametrize("later", ["held", "crashed", "on another device"])
def test_a_later_run_leaves_no_candidate_that_counts_as_of_the_last_run(desk, later):
    torch = case(engine="torch")
    desk.accept(desk.report(measurement(case=torch)))
    keep(desk, desk.report(measurement()))
    if later == "on another device":
        keep(desk, desk.report(measurement(case=torch)), slug="h200")
    else:
        keep(desk, desk.report(measurement(case=torch) if later == "held" else failed("crash", "x", case=torch)))
    kept = read(desk.state.candidates_of("t4"))
    assert list(of_run(kept, last=True).cases) == ([torch.key] if later == "held" else [])
    assert list(of_run(kept, last=False).cases) == [CASE.key]


def test_a_candidate_holds_no_home_and_a_command_that_can_be_typed_again(desk):
    command = f"pytest {identity().home}/suites --json=/mnt{identity().home}/x.json"
    keep(desk, desk.report(measurement()), command=command)
    text = desk.state.candidates_of("t4").read_text()
    assert f" {identity().home}" not in text
    kept = read(desk.state.candidates_of("t4")).cases[CASE.key].last
    assert restored(kept.command, identity()) == command


def test_candidates_of_another_machine_state_are_dropped(desk):
    keep(desk, desk.report(measurement()))
    other = measurement(case=case(engine="torch"))
    keep(desk, desk.report(other), machine={**MACHINE, "driver": "590"})
    assert desk.candidates() == [other.case.key]


def test_a_run_on_another_machine_that_adds_nothing_drops_nothing(desk):
    keep(desk, desk.report(measurement()))
    keep(desk, desk.report(failed("crash", "x")), machine={**MACHINE, "power_limit_w": 60})
    assert desk.candidates() == [CASE.key]


def test_candidates_of_several_runs_add_up(desk):
    keep(desk, desk.report(measurement()))
    keep(desk, desk.report(measurement(9.9, 10.0, 10.2)))
    keep(desk, desk.report(measurement(resumed="2026-11-27T10:00Z")))
    baseline = read(desk.state.candidates_of("t4"))
    assert baseline is not None
    assert [one.date for one in baseline.cases[CASE.key].sessions] == ["2026-11-00T10:00Z", "2026-11-27T10:00Z"]


def test_a_candidate_says_how_strictly_its_run_judged_it(desk):
    policy = Policy(min_effect=0.01, on_cpu=True)
    keep(desk, desk.report(measurement(), policy=Policy()))
    keep(desk, desk.report(measurement(), policy=policy))
    (kept,) = read(desk.state.candidates_of("t4")).cases[CASE.key].sessions
    assert msgspec.convert(kept.policy, Policy) == policy


def test_a_baseline_does_not_say_how_strictly_it_was_judged(desk):
    desk.accept(desk.report(measurement(), policy=Policy()))
    assert "policy" not in desk.file.read_text()


WORSE = Agreement("component", "relative-l2", 4e-3, 1e-3, 2e-3, "float16", "float32")


@pytest.mark.parametrize(
    "later",
    [
        lambda desk: [desk.report(measurement(health=("hot",)))],
        lambda desk: [desk.report(failed("crash", "x"))],
        lambda desk: [desk.report(measurement(5, 5, 5)), compared("t", CASE, WORSE)],
        lambda desk: [desk.report(measurement(5, 5, 5)), CaseReport("t", case(engine=""), problem="assert 3 == 4")],
    ],
    ids=["unfit", "crashed", "disagrees", "graph"],
)
def test_a_candidate_goes_once_its_case_was_refused(desk, later):
    desk.accept(desk.report(measurement(10, 10, 10)))
    assert keep(desk, desk.report(measurement(5, 5, 5)), desk.report(measurement(case=case(engine="torch")))) != ()
    keep(desk, *later(desk))
    assert CASE.key not in desk.candidates()


def test_a_candidate_of_a_case_that_was_not_measured_again_stays(desk):
    keep(desk, desk.report(measurement()))
    keep(desk, desk.report(measurement(case=case(engine="torch", optimization="fp32"))))
    assert len(desk.candidates()) == 2


@pytest.mark.parametrize(("gate", "left"), [(case(engine=""), 0), (case(optimization="fmha"), 1)])
def test_a_check_that_fails_alone_takes_the_candidates_of_its_build(desk, gate, left):
    keep(desk, desk.report(measurement()))
    withdraw([CaseReport("t", gate, problem="assert 3 == 4")], state=desk.state)
    assert len(desk.candidates()) == left


def test_without_a_failure_nothing_is_withdrawn(desk):
    keep(desk, desk.report(measurement()))
    before = desk.state.candidates_of("t4").stat().st_mtime_ns
    withdraw([CaseReport("t", CASE)], state=desk.state)
    assert desk.state.candidates_of("t4").stat().st_mtime_ns == before


def test_what_was_measured_under_another_driver_is_a_candidate_of_a_new_level(desk):
    desk.accept(desk.report(measurement()))
    report = desk.report(measurement(11, 11, 11), machine=OTHER_DRIVER)
    assert report.verdicts[0].code == "driver-changed"
    assert keep(desk, report, machine=OTHER_DRIVER) == (CASE.key,)
    other_card = {**OTHER_DRIVER, "power_limit_w": 60}
    assert keep(desk, desk.report(measurement(11, 11, 11), machine=other_card), machine=other_card) == ()


CPU_NODE = {
    "providers": ["CUDAExecutionProvider"],
    "placement": {"CUDAExecutionProvider": 9, "CPUExecutionProvider": 1},
    "cpu_nodes": ["Resize r"],
    "cpu_node_count": 1,
    "memcpy_nodes": 2,
}


def measured_with(**facts):
    return dataclasses.replace(measurement(), samples=(sample_with(**facts),) * 3)


def test_a_wrong_runtime_is_never_recorded_whatever_the_reason(desk):
    done = desk.accept(desk.report(measured_with(**CPU_NODE)), reason="the new card has no kernel for it")
    assert done.accepted == ()
    assert done.refused == {
        CASE.key: "test_it[ort-cpu]: 1 node of the UNet graph runs on the CPU: Resize r; the CUDA provider has no "
        "kernel for that at its types, attributes or opset."
    }
    assert desk.stored() is None


def test_kernels_that_changed_are_recorded_with_a_reason_and_are_a_new_level(desk):
    flash, math = (
        measured_with(kernels=kernels(**{name: 32}, gemm=184)) for name in ("attention_flash", "attention_math")
    )
    desk.accept(desk.report(flash))
    lost = desk.report(math)
    assert lost.verdict("kernels").outcome is Outcome.REGRESSED
    assert list(desk.accept(lost).refused) == [CASE.key]
    desk.accept(lost, reason="flash attention gives wrong images")
    assert desk.stored().last.changed == ("kernels",)
    assert desk.report(math).verdict("kernels").outcome is Outcome.HELD
    again = desk.report(flash).verdict("kernels")
    assert (again.outcome, again.code) == (Outcome.HELD, "kernels-as-before")


def test_facts_survive_the_file(desk):
    facts = {"kernels": kernels(attention_flash=32, gemm=184), "cuda_graph": {"requested": True, "replayed": True}}
    desk.accept(desk.report(measured_with(**facts)))
    assert desk.stored().last.samples[0].facts == facts


def test_a_baseline_from_before_kernels_were_recorded_can_be_read_and_asks_for_them(desk):
    desk.accept(desk.report(measured_with()))
    assert desk.report(measured_with()).verdict("kernels") is None
    assert desk.report(measured_with(kernels=kernels(gemm=184))).verdict("kernels").outcome is Outcome.NEW
