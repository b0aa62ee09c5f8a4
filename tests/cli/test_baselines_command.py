"""What a user sees who looks after a folder of baselines."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest
from sample_values import CASE, case, compared, fused, known, measurement, session, stored, waited

from pytest_sdperf import cli
from pytest_sdperf.acceptance.candidates import State, keep_candidates
from pytest_sdperf.acceptance.sessions import Provenance
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.baselines.stored import Baseline, read
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.checks.pipelines.tables.stored import list_lines, show_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, Verdict
from pytest_sdperf.report.results import SavedResults, write_results
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.run_summary import NARROWED, RunSummary

MACHINE = {"cores": 2, "pool": "default"}
RUN = RunInfo("A card", "h200", "h200", MACHINE, commit="abc123")
EXPORT = ["baselines", "export", "--csv", "--baselines=baselines"]
SLOW = (14.9, 15.0, 15.1)
SHIPPED = measured_folder() / "h200.json"
ABOUT_SHIPPED = "shipped with pytest_sdperf, judges only machines of its own pool (pytest-sdperf)"
WRONG = Agreement("component", "relative-l2", 1.0, 0.1, 0.2, "float16", "float32")


def report(*times_ms, policy=Policy(), **fields):  # noqa: B008 - it is frozen
    measured = measurement(*times_ms, **fields)
    return CaseReport("a::b", measured.case, measured, verdicts=judge(measured, None, policy=policy), policy=policy)


class User:
    """Somebody in a project's folder."""

    def __init__(self, folder, capsys):
        self.folder, self._capsys = folder, capsys
        self.file = folder / "baselines" / "h200.json"

    def type(self, action, *arguments):
        status = cli.main(["baselines", action, *arguments, "--baselines=baselines", "--state-dir=state"])
        told = self._capsys.readouterr()
        return status, told.out.splitlines() + told.err.splitlines()

    def stores(self, *cases, file="h200", machine=MACHINE):
        path = self.folder / "baselines" / f"{file}.json"
        path.parent.mkdir(exist_ok=True)
        content = Baseline(machine=machine, cases={one.case.key: one for one in cases})
        path.write_text(to_text(content), encoding="utf-8")

    def saves(self, *reports, name="results.json", run=RUN, date="2026-11-28T10:00Z", **summary):
        whole = dataclasses.replace(RunSummary(selected=1, measured=True, collected=(CASE,)), **summary)
        saved = SavedResults(date=date, run=run, summary=whole, policy=Policy(), settings={}, reports=reports)
        write_results(self.folder / name, saved)

    @property
    def state(self):
        return State(self.folder / "state", self.folder / "baselines")

    def keeps(self, *reports, machine=MACHINE, date="2026-11-28T09:00Z", command="pytest suites"):
        origin = Provenance("h200", machine, date, "abc123", command)
        keep_candidates(reports, origin=origin, state=self.state)

    def stored(self):
        found = read(self.file)
        return found.cases if found else {}


@pytest.fixture
def user(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "acme_plugin", raising=False)
    return User(tmp_path, capsys)


# ------------------------------------------------------------------------------------------------ list, show, diff


def test_list_names_files_cases_sessions_dates_machine_and_candidates(user):
    user.stores(stored(session(date="2026-11-01T10:00Z"), session(date="2026-11-20T10:00Z")))
    user.keeps(report(case=case(batch_size=4)))
    kept = user.state.candidates_of("h200").relative_to(user.folder)
    assert user.type("list") == (
        0,
        [
            "baselines/h200.json: 1 case, 2 sessions, 2026-11-01 to 2026-11-20",
            "  machine: cores 2",
            f"  {CASE.key}: 10.0 ms, 400 MB, 2 sessions, last of 2026-11-20",
            *list_lines(f"{ABOUT_SHIPPED}, {SHIPPED}", read(SHIPPED)),
            (
                f"candidates of the last run that nobody has accepted, {kept}: 1 case, 1 session, 2026-11-28 to "
                f"2026-11-28"
            ),
            "  machine: cores 2",
            f"  {case(batch_size=4).key}: 10.0 ms, 400 MB, 1 session, last of 2026-11-28",
        ],
    )


def test_list_says_where_there_is_nothing_but_what_is_shipped(user):
    status, lines = user.type("list")
    assert (status, lines[0]) == (0, "baselines: no baseline yet")
    assert lines[1].startswith(f"{ABOUT_SHIPPED}, {SHIPPED}: {len(read(SHIPPED).cases)} cases, ")
    assert [line.partition(": ")[0] for line in lines[3:]] == [f"  {key}" for key in sorted(read(SHIPPED).cases)]


def test_what_is_shipped_is_listed_and_shown_as_the_project_s_own_where_it_is(user, capsys):
    key, kept = next(iter(read(SHIPPED).cases.items()))
    folder = f"--baselines={SHIPPED.parent}"
    assert cli.main(["baselines", "list", folder, "--state-dir=state"]) == 0
    assert capsys.readouterr().out.splitlines() == list(list_lines(str(SHIPPED), read(SHIPPED)))
    assert cli.main(["baselines", "show", key, folder, "--state-dir=state"]) == 0
    assert capsys.readouterr().out.splitlines() == list(show_lines(kept))


def test_show_says_of_a_shipped_case_whom_it_judges(user):
    key, kept = next(iter(read(SHIPPED).cases.items()))
    assert user.type("show", key) == (0, [key, f"  {ABOUT_SHIPPED}: {SHIPPED}", *list(show_lines(kept))[1:]])


def test_show_prints_raw_samples_and_versions(user):
    user.stores(stored(session(commit="abc", changed=("latency",), reason="new driver")), stored(of=case(batch_size=4)))
    assert user.type("show", "sd15-thin unet batch_size=1 fp16") == (
        0,
        [
            CASE.key,
            "  session of 2026-11-20T10:00Z, commit abc: 10.0 ms, 400 MB, new level of latency, because new driver",
            "    versions: onnxruntime 1.31.1",
            "    process 1: 9.90 ms, 9.90 ms, 9.90 ms, 9.90 ms, 9.90 ms; host memory 500 MB and 400 MB",
            "    process 2: 10.0 ms, 10.0 ms, 10.0 ms, 10.0 ms, 10.0 ms; host memory 500 MB and 400 MB",
            "    process 3: 10.1 ms, 10.1 ms, 10.1 ms, 10.1 ms, 10.1 ms; host memory 500 MB and 400 MB",
        ],
    )


def test_show_of_a_case_that_there_is_not_says_where_to_look(user):
    user.stores(stored())
    assert user.type("show", "unet bf16") == (
        4,
        [
            (
                "ERROR: no case of baselines, and none that is shipped with pytest_sdperf, has all of 'unet bf16' in "
                "its key. See `sdperf baselines list` for the keys."
            )
        ],
    )


def test_diff_of_two_files_gives_the_ratio_of_each_case(user):
    gone, new = case(batch_size=2), case(batch_size=4)
    user.stores(stored(), stored(of=gone))
    user.stores(stored(session(*SLOW)), stored(of=new), file="other")
    assert user.type("diff", "baselines/h200.json", "baselines/other.json") == (
        0,
        [
            f"~ {CASE.key}: 10.0 ms, 400 MB -> 15.0 ms, 400 MB (+50 %)",
            f"- {gone.key}: 10.0 ms, 400 MB",
            f"+ {new.key}: 10.0 ms, 400 MB",
            "1 case in both, 1 only in the first, 1 only in the second",
        ],
    )


def test_diff_of_one_file_is_with_what_this_machine_has_measured_since(user):
    user.stores(stored())
    user.keeps(report(*SLOW))
    assert user.type("diff", "baselines/h200.json")[1][0] == (
        f"~ {CASE.key}: 10.0 ms, 400 MB -> 15.0 ms, 400 MB (+50 %)"
    )


def test_diff_takes_results_as_well(user):
    user.stores(stored())
    user.saves(report(*SLOW), CaseReport("a::c", CASE))
    assert user.type("diff", "baselines/h200.json", "results.json")[1][0].endswith("15.0 ms, 400 MB (+50 %)")


def test_diff_of_a_file_that_is_not_there_says_where_to_look(user):
    assert user.type("diff", "baselines/h200.json") == (
        4,
        ["ERROR: there is no baseline file baselines/h200.json. See `sdperf baselines list` for those that there are."],
    )


# --------------------------------------------------------------------------------------------------------- accept


WRITTEN = "written to baselines/h200.json"


def test_accept_takes_the_candidates_of_this_machine(user):
    user.keeps(report())
    assert user.type("accept") == (0, [f"+ {CASE.key}: 10.0 ms, 400 MB, measured 2026-11-28T09:00Z", WRITTEN])
    (kept,) = user.stored().values()
    assert (kept.last.date, kept.last.commit, len(kept.last.samples)) == ("2026-11-28T09:00Z", "abc123", 3)
    assert user.type("accept") == (
        4,
        [
            (
                "ERROR: there is nothing to accept: no run whose baselines are in baselines has left a candidate. "
                "Measure first, or type this where the run was started, with its --baselines and --state-dir; results "
                "of another machine are given as a file of --sdperf-json."
            )
        ],
    )


def test_accept_takes_what_this_project_measured_and_nothing_of_another_one(user, tmp_path):
    elsewhere = State(user.folder / "state", tmp_path / "another" / "baselines")
    for state, of in ((elsewhere, case(batch_size=8)), (user.state, CASE)):
        keep_candidates(
            [report(case=of)], origin=Provenance("h200", MACHINE, "2026-11-28T09:00Z", "abc123"), state=state
        )
    assert user.type("accept")[1] == [f"+ {CASE.key}: 10.0 ms, 400 MB, measured 2026-11-28T09:00Z", WRITTEN]
    assert list(user.stored()) == [CASE.key]
    assert user.type("accept")[0] == 4
    assert list(read(elsewhere.candidates_of("h200")).cases) == [case(batch_size=8).key]


def test_accept_takes_what_the_last_run_measured_and_of_earlier_ones_what_is_named(user):
    older, newer = case(batch_size=4), case(batch_size=8)
    user.keeps(report(), report(case=older), date="2026-11-27T09:00Z")
    user.keeps(report(case=newer))
    kept = user.state.candidates_of("h200").relative_to(user.folder)
    names = [line.split(": ")[0] for line in user.type("list")[1] if "candidates" in line]
    assert names == [
        f"candidates of the last run that nobody has accepted, {kept}",
        f"candidates of earlier runs that nobody has accepted, {kept}",
    ]
    assert user.type("accept") == (
        0,
        [
            "left, because earlier runs measured them: 2; --only=WORDS names them",
            f"+ {newer.key}: 10.0 ms, 400 MB, measured 2026-11-28T09:00Z",
            WRITTEN,
        ],
    )
    assert user.type("accept") == (
        4,
        [
            (
                "ERROR: there is nothing to accept: the last run measured nothing that may be. Earlier runs left 2 "
                "candidates: add --only=WORDS of the key to accept what you mean; `sdperf baselines list` shows the "
                "keys."
            )
        ],
    )
    assert user.type("accept", "--only=batch_size=4") == (
        0,
        [f"+ {older.key}: 10.0 ms, 400 MB, measured 2026-11-27T09:00Z", WRITTEN, "left as they were: 1"],
    )


@pytest.mark.parametrize("of_results", [True, False])
def test_what_the_run_said_to_measure_again_is_refused_with_what_measures_it(user, of_results):
    disturbed, command = waited(report().measurement, 0.4), "pytest 'my suites' --component=unet"
    told = dataclasses.replace(report(), measurement=disturbed)
    if of_results:
        user.saves(told, run=dataclasses.replace(RUN, command=command))
    else:
        user.keeps(told, command=command)
    given = ["results.json"] if of_results else []
    assert user.type("accept", *given) == (
        1,
        [
            (
                f"! {CASE.key}: refused, something else used the processors while it was timed: the threads of a "
                f"process waited 40 % of the time. Measure it again where nothing else runs: {command}. If that is "
                f'meant, add --reason="why it is acceptable".'
            )
        ],
    )
    assert user.stored() == {}
    assert user.type("accept", *given, "--reason=it is never quiet")[0] == 0
    assert user.stored()[CASE.key].last.reason == "it is never quiet"


def test_a_session_that_held_adds_to_the_baseline_without_a_second_measurement(user):
    user.stores(stored())
    user.keeps(report(10.1, 10.2, 10.3))
    assert user.type("accept")[0] == 0
    assert len(user.stored()[CASE.key].sessions) == 2


def test_accept_takes_results_and_folders_of_them_in_the_order_of_their_dates(user):
    (user.folder / "artifacts" / "job").mkdir(parents=True)
    user.saves(report(10.1, 10.2, 10.3), name="artifacts/job/b.json", date="2026-11-29T10:00Z")
    user.saves(report(), name="artifacts/c.json", date="2026-11-28T10:00Z")
    status, lines = user.type("accept", "artifacts")
    assert (status, lines[0]) == (0, f"+ {CASE.key}: 10.0 ms, 400 MB, measured 2026-11-28T10:00Z")
    (kept,) = user.stored().values()
    assert [one.date for one in kept.sessions] == ["2026-11-28T10:00Z", "2026-11-29T10:00Z"]
    assert kept.anchor == kept.sessions[0]


OTHER = {
    "of-pytest-benchmark.json": '{"machine_info": {}, "benchmarks": [], "version": "5.3.1", "mean": NaN}',
    "of-somebody.json": "[]",
    "with-two-words.json": '{"schema": 1, "date": "2026-11-28", "settings": {}}',
}


def test_other_json_of_a_folder_is_passed_over_by_name(user):
    (user.folder / "artifacts").mkdir()
    for name, text in OTHER.items():
        (user.folder / "artifacts" / name).write_text(text)
    named = ", ".join(f"artifacts/{name}" for name in OTHER)
    assert user.type("accept", "artifacts") == (
        4,
        [
            (
                f"ERROR: artifacts holds no results; the JSON files in it are something else: {named}. Give a file "
                "that a run wrote with --sdperf-json=FILE, or a folder of such files."
            )
        ],
    )
    user.saves(report(), name="artifacts/results.json")
    status, lines = user.type("accept", "artifacts")
    assert (status, lines[0]) == (0, f"passed over, because they are no results: {named}")
    assert CASE.key in user.stored()


def cut_off(text):
    return text[: len(text) // 2]


def without_reports(text):
    return json.dumps({name: value for name, value in json.loads(text).items() if name != "reports"})


def of_another_schema(text):
    return json.dumps({**json.loads(text), "schema": 99})


WRITE_THEM = "Run the tests again with --sdperf-json=FILE, and give that file."


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: "", f"are not valid JSON: line 1, column 1: Expecting value. {WRITE_THEM}"),
        (cut_off, "are not valid JSON: line "),
        (without_reports, f"are not complete: Object missing required field `reports`. {WRITE_THEM}"),
        (of_another_schema, "have schema 99; this version of pytest-sdperf reads schema 6. " + WRITE_THEM),
    ],
)
def test_damaged_results_in_a_folder_are_an_error_and_nothing_of_it_is_accepted(user, damage, why):
    (user.folder / "artifacts").mkdir()
    user.saves(report(case=case(batch_size=4)), name="artifacts/whole.json")
    user.saves(report(), name="artifacts/damaged.json")
    file = user.folder / "artifacts/damaged.json"
    file.write_text(damage(file.read_text()))
    status, (line,) = user.type("accept", "artifacts")
    assert status == 4
    assert line.startswith(f"ERROR: results artifacts/damaged.json {why}")
    assert line.endswith(WRITE_THEM)
    assert user.stored() == {}


def test_a_file_of_a_folder_that_nobody_can_open_is_an_error(user):
    (user.folder / "artifacts" / "a folder.json").mkdir(parents=True)
    user.saves(report(), name="artifacts/whole.json")
    (user.folder / "artifacts/link.json").symlink_to("gone")
    assert user.type("accept", "artifacts") == (
        4,
        [f"ERROR: cannot read the results artifacts/link.json: No such file or directory. {WRITE_THEM}"],
    )


def test_the_same_samples_are_not_stored_twice(user):
    user.saves(report())
    assert user.type("accept", "results.json")[0] == 0
    status, lines = user.type("accept", "results.json")
    assert (status, lines[0]) == (0, f"= {CASE.key}: these samples are stored already")
    assert len(user.stored()[CASE.key].sessions) == 1


def test_a_regression_needs_a_reason(user):
    user.stores(stored())
    user.saves(report(*SLOW))
    status, (line,) = user.type("accept", "results.json")
    assert status == 1
    assert line.startswith(f"! {CASE.key}: refused, REGRESSED: UNet latency 15.0 ms is 50 % above its baseline")
    assert line.endswith(' If that is meant, add --reason="why it is acceptable".')
    assert len(user.stored()[CASE.key].sessions) == 1
    assert user.type("accept", "results.json", "--reason=new driver")[0] == 0
    assert user.stored()[CASE.key].last.reason == "new driver"


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([report(health=("too hot",))], "INVALID: The machine was not fit to be measured: too hot."),
        (
            [report(), compared("a::agree", CASE, WRONG)],
            (
                "a::agree: The component has a relative L2 error 1.00e+00 against torch float32; plain torch float16 "
                "has 1.00e-01, so at most 2.00e-01 passes; the worst element is ."
            ),
        ),
        ([report(), CaseReport("a::fusions", CASE, problem="assert 3 == 4")], "a::fusions failed: assert 3 == 4"),
        ([report(10.0)], "INVALID: UNet was measured by 1 process instead of 3."),
    ],
)
def test_what_failed_is_never_accepted(user, reports, why):
    user.saves(*reports)
    assert user.type("accept", "results.json", "--reason=please") == (1, [f"! {CASE.key}: refused, {why}"])
    assert user.stored() == {}


def test_candidates_are_judged_by_what_is_stored_now(user):
    user.keeps(report(*SLOW))
    user.stores(stored())
    status, (line,) = user.type("accept")
    assert status == 1
    assert line.startswith(f"! {CASE.key}: refused, REGRESSED")
    assert user.type("accept", "--reason=new driver")[0] == 0


def test_a_candidate_is_judged_as_strictly_as_in_its_run(user):
    quiet = Policy(on_cpu=True, cpu_min_effect=0.1)
    user.stores(stored())
    user.keeps(report(11.4, 11.5, 11.6, policy=quiet))
    # An earlier version kept beside a lower limit why it held.
    path = user.state.candidates_of("h200")
    content = json.loads(path.read_text(encoding="utf-8"))
    content["cases"][CASE.key]["sessions"][0]["policy"] |= {"self_test_passed": True, "self_test": "a quiet machine"}
    path.write_text(json.dumps(content), encoding="utf-8")
    status, (line,) = user.type("accept")
    assert status == 1
    assert line.startswith(f"! {CASE.key}: refused, REGRESSED: UNet latency 11.5 ms is 15 % above its baseline")
    assert len(user.stored()[CASE.key].sessions) == 1


def test_a_candidate_with_a_tolerance_of_its_own_needs_no_reason_inside_it(user):
    user.stores(stored())
    user.keeps(report(11.4, 11.5, 11.6, policy=Policy(min_effect=0.3)))
    assert user.type("accept")[0] == 0
    assert user.stored()[CASE.key].last.reason == ""


def test_a_candidate_of_which_nobody_said_how_strictly_it_was_judged_is_refused(user):
    user.keeps(report())
    path = user.state.candidates_of("h200")
    content = json.loads(path.read_text(encoding="utf-8"))
    for one in content["cases"][CASE.key]["sessions"]:
        del one["policy"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert user.type("accept") == (
        1,
        [
            (
                f"! {CASE.key}: refused, INVALID: An earlier version of pytest-sdperf kept it, and not how strictly it "
                "was judged. Measure it again, or accept results of --sdperf-json."
            )
        ],
    )


OTHER_DRIVER = {**MACHINE, "driver": "590"}


@pytest.mark.parametrize("of_results", [True, False])
def test_another_driver_starts_anew_with_a_reason(user, of_results):
    user.stores(stored(), machine={**MACHINE, "driver": "580"})
    if of_results:
        user.saves(report(*SLOW), run=dataclasses.replace(RUN, machine=OTHER_DRIVER))
    else:
        user.keeps(report(*SLOW), machine=OTHER_DRIVER)
    given = ["results.json"] if of_results else []
    why = (
        "INVALID: The baseline was recorded under another driver: driver was 580 and is 590; a driver is not what is "
        'tested. To start anew under this one, type: sdperf baselines accept --re-anchor --reason="new driver".'
    )
    assert user.type("accept", *given, "--reason=new driver") == (1, [f"! {CASE.key}: refused, {why}"])
    status, lines = user.type("accept", *given, "--re-anchor", "--reason=new driver")
    assert (status, lines[0].rpartition(", ")[2]) == (0, "a new level under driver 590")
    kept = user.stored()[CASE.key]
    assert (len(kept.sessions), kept.last.driver, kept.last.reason) == (2, "590", "new driver")
    assert f"  {CASE.key}: 15.0 ms, 400 MB, 2 sessions, last of 2026-11-28, under driver 590" in user.type("list")[1]
    assert any("under driver 590, because new driver" in line for line in user.type("show", "unet")[1])


def test_what_a_plug_in_registered_judges_here_as_in_a_run(user):
    (user.folder / "acme_plugin.py").write_text(
        "from pathlib import Path\n"
        "def pytest_sdperf_register(catalog):\n"
        "    catalog.add_baselines(Path(__file__).parent / 'acme')\n",
        encoding="utf-8",
    )
    (user.folder / "pytest.ini").write_text("[pytest]\naddopts = -p acme_plugin\n", encoding="utf-8")
    user.stores(stored(), stored(of=case(batch_size=4)))
    (user.folder / "baselines").rename(user.folder / "acme")
    user.saves(report(*SLOW))
    status, (line,) = user.type("accept", "results.json")
    assert (status, line.startswith(f"! {CASE.key}: refused, REGRESSED")) == (1, True)
    assert user.type("accept", "results.json", "--reason=larger")[0] == 0
    assert [one.date for one in user.stored()[CASE.key].sessions] == ["2026-11-20T10:00Z", "2026-11-28T10:00Z"]
    assert list(user.stored()) == [CASE.key]


def test_only_what_is_named_is_accepted(user):
    other = case(batch_size=4)
    user.keeps(report(), report(case=other))
    status, lines = user.type("accept", "--only=unet batch_size=4")
    assert (status, lines[1:]) == (0, [WRITTEN, "left as they were: 1"])
    assert list(user.stored()) == [other.key]
    assert user.type("accept")[1][0].startswith(f"+ {CASE.key}")


def test_only_what_is_new_is_accepted(user):
    user.stores(stored())
    new = case(batch_size=4)
    user.saves(report(*SLOW), report(case=new))
    assert user.type("accept", "results.json", "--new-only") == (
        0,
        [f"+ {new.key}: 10.0 ms, 400 MB, measured 2026-11-28T10:00Z", WRITTEN, "left as they were: 1"],
    )
    assert user.type("accept", "results.json", "--new-only") == (0, ["left as they were: 2"])


def test_words_that_no_measured_case_has_are_said(user):
    user.saves(report())
    assert user.type("accept", "results.json", "--only=unet bf16") == (
        4,
        [
            (
                "ERROR: no measured case has all of 'unet bf16' in its key. See `sdperf baselines list` for the keys "
                "of candidates, and `sdperf baselines diff` for those of results."
            )
        ],
    )
    assert user.stored() == {}


def test_another_machine_is_refused(user):
    user.stores(stored(of=case(batch_size=4)), machine={"cores": 3, "pool": "default"})
    user.saves(report())
    assert user.type("accept", "results.json") == (
        1,
        [
            (
                f"! {CASE.key}: refused, h200.json was recorded with another cores: one file holds one machine. Move "
                f"it away and record every case anew, or keep this machine in a folder of its own"
            )
        ],
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"status": 2},
            (
                "results results.json are of a run that ended before its last test (exit status "
                "2 of pytest). Run it to its "
                "end, and accept those."
            ),
        ),
        (
            {"run": dataclasses.replace(RUN, pairs=True)},
            (
                "results results.json are of an A/B: its second side is judged by its first, and neither by a "
                "baseline. Run it without --sdperf-ab, and give those."
            ),
        ),
        (
            {"run": dataclasses.replace(RUN, altered="PLANTED x: It is wrong.")},
            (
                "results results.json are of a run that was altered on purpose. PLANTED x: It is wrong. Run it without "
                "that, and give those."
            ),
        ),
        (
            {"run": dataclasses.replace(RUN, in_process=True)},
            (
                "results results.json were measured inside pytest's own process "
                "(sdperf_inprocess), which is no way to "
                "measure. Run it without that option, and accept those."
            ),
        ),
    ],
)
def test_results_of_no_whole_run_are_refused(user, change, message):
    user.saves(report(), **change)
    assert user.type("accept", "results.json") == (4, [f"ERROR: {message}"])


def test_a_folder_without_results_says_so(user):
    (user.folder / "artifacts").mkdir()
    assert user.type("accept", "artifacts") == (
        4,
        [
            (
                "ERROR: artifacts holds no results. Give a file that a run wrote with "
                "--sdperf-json=FILE, or a folder of "
                "such files."
            )
        ],
    )


def test_results_in_which_nothing_was_measured_are_nothing_to_accept(user):
    user.saves(CaseReport("a::agree", CASE), measured=False)
    assert user.type("accept", "results.json") == (
        4,
        [
            (
                "ERROR: there is nothing to accept in results.json: nothing was measured. Give results of a run that "
                "measures."
            )
        ],
    )


def test_the_anchor_moves_only_where_that_is_asked(user):
    user.stores(stored())
    user.saves(report(10.1, 10.2, 10.3))
    user.type("accept", "results.json", "--re-anchor")
    assert user.stored()[CASE.key].anchor == user.stored()[CASE.key].last


def test_operator_counts_of_results_are_recorded_for_the_onnxruntime_that_ran(user):
    verdict = Verdict(Outcome.NEW, "below-target-unknown", "New.", "fusions")
    counts = {"com.microsoft::Gelu": 4}
    counted = CaseReport("a::fusions", CASE, verdicts=(verdict,), checks=fused(counts, counts, counted=known(counts)))
    user.saves(counted, measured=False, selected=0)
    status, lines = user.type("accept", "results.json")
    assert (status, [line.rpartition(": ")[2] for line in lines]) == (0, ["Gelu 4"])
    path = user.folder / "baselines" / "fusions" / "onnxruntime-1.32.json"
    assert list(json.loads(path.read_text())["cases"].values()) == [{"com.microsoft::Gelu": 4}]


# ---------------------------------------------------------------------------------------------------------- prune


def test_prune_says_what_it_would_do_and_does_it_only_where_that_is_asked(user):
    gone = case(component="vae_decoder")
    user.stores(stored(), stored(of=gone))
    user.saves(report())
    assert user.type("prune", "--unused-in=results.json") == (
        0,
        [f"- {gone.key}", "baselines/h200.json: nothing was written; add --write to do it"],
    )
    assert len(user.stored()) == 2
    assert user.type("prune", "--unused-in=results.json", "--write") == (
        0,
        [f"- {gone.key}", "baselines/h200.json: written"],
    )
    assert list(user.stored()) == [CASE.key]


def test_prune_of_a_folder_that_is_not_there_is_an_error(user):
    message = (
        "ERROR: --baselines=baselines: there is no such folder. Name the folder of the baseline files, or leave "
        "--baselines out for that of a run that is started here."
    )
    assert user.type("prune", "--keep=1") == (4, [message])


def test_prune_keeps_the_newest_sessions_and_the_anchor(user):
    dates = [f"2026-11-0{day}T10:00Z" for day in range(1, 5)]
    user.stores(stored(*[session(date=date) for date in dates]))
    assert user.type("prune", "--keep=1", "--write")[1] == [
        f"~ {CASE.key}: 3 old sessions",
        "baselines/h200.json: written",
    ]
    (kept,) = user.stored().values()
    assert ([one.date for one in kept.sessions], kept.anchor.date) == ([dates[-1]], dates[0])


@pytest.mark.parametrize(
    ("arguments", "summary", "message"),
    [
        ([], {}, "nothing is named to remove. Type --unused-in=RESULTS.json, --keep=NUMBER, or both."),
        (["--keep=0"], {}, "--keep=0 leaves no session. Allowed: a whole number from 1."),
        (
            ["--unused-in=results.json"],
            {"narrowed": NARROWED},
            (
                "results results.json do not tell what is unused: this run was narrowed to some "
                "tests. Give those of a run "
                "that measures, without -k, -m, --lf and node ids."
            ),
        ),
        (
            ["--unused-in=results.json"],
            {"measured": False},
            (
                "results results.json do not tell what is unused: it measured nothing. Give "
                "those of a run that measures, "
                "without -k, -m, --lf and node ids."
            ),
        ),
    ],
)
def test_prune_refuses_what_does_not_say_what_to_remove(user, arguments, summary, message):
    user.stores(stored())
    user.saves(report(), **summary)
    assert user.type("prune", *arguments) == (4, [f"ERROR: {message}"])
    assert len(user.stored()) == 1


# ---------------------------------------------------------------------------------------------------------- export


def test_export_prints_every_session(user, capsys):
    user.stores(stored(session(date="2026-11-01T10:00Z"), session(date="2026-11-20T10:00Z")))
    status, lines = cli.main(EXPORT), capsys.readouterr().out.splitlines()
    assert (status, lines[0]) == (0, "date,commit,slug,key,metric,value")
    assert [line for line in lines if ",latency_s," in line] == [
        f"2026-11-01T10:00Z,,h200,{CASE.key},latency_s,0.01",
        f"2026-11-20T10:00Z,,h200,{CASE.key},latency_s,0.01",
    ]


def test_export_says_where_there_is_nothing(user, capsys):
    assert cli.main(EXPORT) == 4
    assert capsys.readouterr().err == (
        "ERROR: there is no baseline in baselines. Name the folder with --baselines=FOLDER, or record one with "
        "--sdperf-update-baselines.\n"
    )
