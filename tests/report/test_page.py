"""The page of `--sdperf-html` and `sdperf report`, as text: what it holds, and that nothing given can end it."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import msgspec
import pytest
from page_scenes import RUN, results, shipped, timed
from sample_values import case, compared, fused, measurement
from test_plugin import BARE, UNETS

from pytest_sdperf.baselines import published
from pytest_sdperf.baselines.shipped import measured
from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.checks.ab.pairs import judge_pairs
from pytest_sdperf.checks.ab.table import pair_lines
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.cli import main
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.values.outcomes import Agreement, Outcome, StepAgreement, Verdict
from pytest_sdperf.fusing.explain import Explanation, Unfused
from pytest_sdperf.report.findings import count_line
from pytest_sdperf.report.page.merged import PageRun
from pytest_sdperf.report.page.write import page_text, write_page
from pytest_sdperf.report.results import SavedResults, read_results, write_results
from pytest_sdperf.report.run_summary import RunSummary

LIMIT_BYTES = 2_000_000
HOSTILE = "</script><script>alert(1)</script>\u2028'\"&<img src=x onerror=alert(2)>"


def page(*saved: SavedResults, **given) -> str:
    return page_text([PageRun(one) for one in saved], {"h200": shipped()}, **given)


def saved(*reports: CaseReport, **fields) -> SavedResults:
    given = {"date": "2026-11-30T10:00Z", "run": RUN, "summary": RunSummary(), "policy": Policy(), "settings": {}}
    return SavedResults(**{**given, "reports": reports, **fields})


def answer(text: str) -> tuple[str, str]:
    """Return the colour of the first sentence, and its words."""
    (found,) = re.findall(r'<p class="answer (\w+)"><strong>(.*?)</strong> (.*?)</p>', text)
    return found[0], f"{found[1]} {found[2]}"


def sections(text: str) -> list[str]:
    return re.findall(r'<h2 id="(?!answer)([a-z]+)-title"', text)


def judged(outcome: Outcome, **fields) -> CaseReport:
    verdict = Verdict(outcome, "some-code", "It is so.", "agreement", details=("and this is why",))
    return CaseReport(f"test_{outcome.name}", case(**fields), verdicts=(verdict,))


@pytest.mark.parametrize(
    ("outcome", "colour", "words"),
    [
        (Outcome.HELD, "green", "Green: in order."),
        (Outcome.PASSED, "green", "Green: in order."),
        (Outcome.NEW, "green", "Green: in order."),
        (Outcome.IMPROVED, "green", "Green: in order."),
        (Outcome.GAP, "yellow", "Amber: look at it."),
        (Outcome.INCONCLUSIVE, "yellow", "Amber: look at it."),
        (Outcome.NOT_MEASURED, "yellow", "Amber: look at it."),
        (Outcome.INVALID, "red", "Red: not in order."),
        (Outcome.REGRESSED, "red", "Red: not in order."),
        (Outcome.FAILED, "red", "Red: not in order."),
    ],
)
def test_the_first_sentence_is_that_of_the_terminal_with_a_colour_in_words(outcome, colour, words):
    reports = [judged(outcome), judged(Outcome.PASSED, engine="torch")]
    text = page(saved(*reports))
    told = count_line(reports).text
    assert answer(text) == (colour, f"{words} {told[0].upper()}{told[1:]}.")
    if outcome not in (Outcome.PASSED, Outcome.HELD, Outcome.NEW):
        assert f"{outcome.value} " in text.partition("<nav")[0]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"failures": 2}, "Tests that failed for another reason than a verdict: 2."),
        ({"status": 2}, "The run ended before its last test (exit status 2 of pytest): results are missing."),
        ({"stopped": True}, "The run ended before its last test (exit status 0 of pytest): results are missing."),
    ],
)
def test_a_run_is_not_green_whose_verdicts_alone_are(fields, problem):
    text = page(saved(judged(Outcome.HELD), summary=RunSummary(**fields)))
    assert answer(text)[0] == "red"
    assert f'<p class="problem">{problem}</p>' in text


@pytest.mark.parametrize(
    ("outcome", "policy", "status"),
    [
        (Outcome.NEW, Policy(fail_on_new=True), 12),
        (Outcome.INCONCLUSIVE, Policy(fail_on_inconclusive=True), 11),
    ],
)
def test_a_run_is_red_that_fails_for_what_it_was_told_to(outcome, policy, status):
    text = page(saved(judged(outcome), policy=policy))
    told = f"A verdict is among those that the run was told to fail on (exit status {status})."
    assert answer(text)[0] == "red"
    assert f'<p class="problem">{told}</p>' in text


def test_sections_without_data_do_not_appear():
    assert sections(page(saved(judged(Outcome.PASSED)))) == ["environment"]
    assert sections(page(results(40), shipped=measured(), published=published.load(published.folder()))) == [
        "changes", "ladder", "beside", "fused", "spread", "floor", "kernels", "agreement", "history", "builds",
        "environment",
    ]  # fmt: skip


def test_rows_that_others_published_of_the_family_stand_beside_a_whole_request():
    (of,) = [one for one in shipped().cases.values() if one.case.component == "pipeline"]
    run = dataclasses.replace(RUN, slug="a100-pcie-80gb", family="a100")
    text = page(saved(timed(of, 1.0), run=run), published=published.load(published.folder()))
    beside = text.partition('id="beside"')[2].partition("</section>")[0]
    assert "this run" in beside
    assert "Results of A100-PCIE-80GB (Ubuntu 20.04)" in beside


def test_of_two_runs_the_newest_result_counts_and_the_older_is_history():
    older, newer = results(4, date="2026-11-28T10:00Z"), results(4, factor=1.5, date="2026-11-30T10:00Z")
    text = page_text([PageRun(newer), PageRun(older)], {})
    assert answer(text)[1].endswith(count_line(newer.reports).text[1:] + ".")
    history = text.partition('id="history"')[2].partition("</section>")[0]
    assert history.count("<td>2</td>") == 4
    assert "+50 %" in history


def test_several_devices_are_told_apart():
    other = dataclasses.replace(RUN, device="NVIDIA A100", slug="a100-pcie-80gb", family="a100")
    text = page(results(4), dataclasses.replace(results(4), run=other))
    assert "<h1>sd15 on NVIDIA H200, NVIDIA A100</h1>" in text
    assert "ort-cuda:cuda_graph=on, h200</th>" in text
    assert "ort-cuda:cuda_graph=on, a100-pcie-80gb</th>" in text
    assert answer(text)[1].startswith("Amber: look at it. Verdicts of 8 cases: ")


def test_each_reason_of_a_missing_operator_can_be_read():
    section = page(results(5)).partition('id="fused"')[2].partition("</section>")[0]
    assert "31 of 32" in section
    assert "32 of 32" in section
    assert "the mask has no constant shape (Add node_17)" in section


def test_a_run_tells_each_place_of_a_missing_operator():
    places = tuple(
        Unfused("com.microsoft::NhwcConv", f"unet.block.{number}", "it has no weight") for number in range(5)
    )
    verdict = Verdict(Outcome.GAP, "below-target", "It lacks.", "fusions", details=("the first of them",))
    counts = {"com.microsoft::NhwcConv": 93}, {"com.microsoft::NhwcConv": 98}
    checks = fused(*counts, explanation=Explanation(unfused=places))
    text = page(saved(CaseReport("t", case(engine=""), verdicts=(verdict,), checks=checks)))
    section = text.partition('id="fused"')[2].partition("</section>")[0]
    assert re.findall(r"<p>(NhwcConv at .*?)</p>", section) == [
        f"NhwcConv at block.{number}: it has no weight" for number in range(5)
    ]


def hostile(value):
    """Return a value in which every text is hostile, but those that have a meaning to the program."""
    if isinstance(value, str):
        return value + HOSTILE
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{
            field.name: hostile(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if field.init and field.name not in {"policy", "outcome", "component", "memory_source"}
        })  # fmt: skip
    if isinstance(value, tuple):
        return tuple(map(hostile, value))
    if isinstance(value, dict):
        return {name if name in KEYS else hostile(name): hostile(item) for name, item in value.items()}
    return value


# Names that the program itself knows.
KEYS = {
    *("steps", "error", "limit", "reference_error", "culprit", "outcome", "by", "counts", "expected", "allowed"),
    *("seconds", "count"),
}


def test_nothing_that_is_given_becomes_markup_or_ends_the_data():
    given = results(5)
    reports = []
    for report in given.reports:
        measured = report.measurement
        if measured is not None:
            samples = tuple(
                dataclasses.replace(
                    one, facts={**one.facts, "kernels": hostile({"gemm": {"count": 2, "seconds": 1.0}})}
                )
                for one in measured.samples
            )
            artifacts = {f"{HOSTILE}{name}": one for name, one in measured.artifacts.items()}
            measured = dataclasses.replace(
                measured, case=hostile(report.case), subject=hostile(dict(measured.subject)), samples=samples,
                floor_not_known=HOSTILE, artifacts=artifacts,
            )  # fmt: skip
        checks = {
            name: dataclasses.replace(
                check, table=hostile(check.table), legend=(HOSTILE,), rows=hostile(check.rows),
                columns=hostile(check.columns), finding=hostile(check.finding),
            )
            for name, check in report.checks.items()
        }  # fmt: skip
        reports.append(dataclasses.replace(
            report, nodeid=hostile(report.nodeid), case=hostile(report.case), measurement=measured,
            verdicts=hostile(report.verdicts), checks=checks, left_out={HOSTILE: HOSTILE}, problem=HOSTILE,
            optimizations={HOSTILE: {HOSTILE: HOSTILE}},
        ))  # fmt: skip
    run = dataclasses.replace(
        RUN, device=HOSTILE, command=HOSTILE, changes=(HOSTILE,), commit=HOSTILE, altered=HOSTILE, idle=(HOSTILE,),
        engines={HOSTILE: {HOSTILE: HOSTILE}}, machine={HOSTILE: HOSTILE}, baselines=HOSTILE,
    )  # fmt: skip
    text = page_text([PageRun(saved(*reports, run=run, settings={HOSTILE: HOSTILE}))], {})
    assert "<script>alert" not in text
    assert "<img" not in text
    assert text.count("</script>") == 2
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert not re.search("[<>&\u2028\u2029]", data)
    assert HOSTILE in json.dumps(json.loads(data), ensure_ascii=False).replace('\\"', '"')
    assert text.count("alert(1)") > 100


def test_numbers_that_are_not_finite_are_words():
    steps = (StepAgreement(1e-3, 1e-3, 2e-3), StepAgreement(float("nan"), 1e-3, 2e-3))
    one = Agreement("steps", "relative-l2", float("nan"), 1e-3, 2e-3, "float16", "float32", "step 2 of 2", steps=steps)
    text = page(saved(compared("t", case(component="pipeline"), one)))
    assert "FAILED: the first beyond its limit is step 2 of 2, nan of 2.00e-03." in text
    assert '<td class="red">nan</td>' in text


def test_400_cases_are_less_than_two_megabytes():
    assert len(page(results(400, factor=1.3), shipped=measured()).encode()) < LIMIT_BYTES


def test_the_page_asks_nobody_for_anything():
    text = page(results(5))
    assert "default-src 'none'" in text
    assert re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', text) == []
    assert "@import" not in text
    assert "url(" not in text.partition("<script")[0]


def report(capsys, *arguments) -> tuple[int, str]:
    status = main(["report", *map(str, arguments)])
    out, err = capsys.readouterr()
    return status, (out + err).rstrip("\n")


def test_the_command_makes_a_page_of_a_file_of_results(tmp_path, capsys):
    write_results(tmp_path / "results.json", results(5))
    html = tmp_path / "page.html"
    status, told = report(capsys, tmp_path / "results.json", "--html", html)
    assert (status, told) == (0, f"wrote {html}: 1 file of results, {html.stat().st_size / 1e6:.1f} MB")
    assert html.read_text("utf-8").startswith("<!doctype html>")


def test_the_command_makes_a_page_of_a_baseline_that_judges_nothing(tmp_path, capsys):
    stored = tmp_path / "h200.json"
    stored.write_text(json.dumps({"schema": 2, **msgspec.to_builtins(shipped())}), encoding="utf-8")
    html = tmp_path / "page.html"
    status, told = report(capsys, stored, "--html", html)
    assert (status, told) == (0, f"wrote {html}: 1 baseline, {html.stat().st_size / 1e6:.1f} MB")
    cases = len(shipped().cases)
    accepted = f"Not judged. {cases} cases as they were accepted, the newest on 2026-11-29; nothing is judged here."
    assert answer(html.read_text("utf-8")) == ("none", accepted)


def test_a_folder_gives_the_results_that_are_in_it(tmp_path, capsys):
    for name, date in (("a", "2026-11-28T10:00Z"), ("b", "2026-11-29T10:00Z")):
        (tmp_path / name).mkdir()
        write_results(tmp_path / name / "results.json", results(4, date=date))
    status, told = report(capsys, tmp_path, "--html", tmp_path / "page.html")
    assert status == 0
    assert ": 2 files of results, " in told


AGAIN = "Run the tests again with --sdperf-json=FILE, and give that file."


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            "{",
            "results {path} are not valid JSON: line 1, column 2: Expecting property name enclosed in double quotes.",
        ),
        ('{"a": 1}', "results {path} have schema null; this version of pytest-sdperf reads schema 6."),
        (None, "cannot read the results {path}: No such file or directory."),
    ],
)
def test_a_file_that_is_no_results_is_refused(tmp_path, capsys, content, why):
    path = tmp_path / "some.json"
    if content is not None:
        path.write_text(content)
    assert report(capsys, path, "--html", tmp_path / "page.html") == (4, f"ERROR: {why.format(path=path)} {AGAIN}")
    assert not (tmp_path / "page.html").exists()


def test_a_baseline_that_cannot_be_trusted_is_refused(tmp_path, capsys):
    path = tmp_path / "h200.json"
    path.write_text('{"schema": 2, "cases": 1, "machine": {}}')
    status, told = report(capsys, path, "--html", tmp_path / "page.html")
    assert status == 4
    assert told.startswith(f"ERROR: baseline file {path} is not a baseline: `cases` must be an object - at `$`.")


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path, capsys):
    html = tmp_path / "no" / "page.html"
    why = "No such file or directory. Name a file in a writable folder with --html=FILE."
    told = f"ERROR: --html={html} cannot be written: {why}"
    assert report(capsys, tmp_path / "results.json", "--html", html) == (4, told)


def test_pictures_of_steps_are_part_of_the_page(tmp_path, capsys):
    one = judged(Outcome.PASSED)
    named = dataclasses.replace(one, nodeid="suites/test_precision.py::test_drift[sd15-torch]")
    folder = tmp_path / "images" / "sd15-torch"
    folder.mkdir(parents=True)
    (folder / "strip.png").write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    write_results(tmp_path / "results.json", saved(named, settings={"images_dir": "/elsewhere/images"}))
    assert report(capsys, tmp_path / "results.json", "--html", tmp_path / "page.html")[0] == 0
    assert '<img src="data:image/png;base64,iVBORw0KGgog' in (tmp_path / "page.html").read_text("utf-8")
    (folder / "strip.png").write_bytes(b"<script>")
    assert report(capsys, tmp_path / "results.json", "--html", tmp_path / "page.html")[0] == 0
    assert "data:image" not in (tmp_path / "page.html").read_text("utf-8")


def test_an_empty_baseline_is_an_empty_page():
    text = page_text([PageRun(saved(), judged=False)], {"h200": Baseline(machine={})})
    assert (
        answer(text)[1]
        == "Not judged. 0 cases as they were accepted, the newest on 2026-11-30; nothing is judged here."
    )


def test_a_page_that_cannot_be_written_at_the_end_is_told_as_results_are(tmp_path):
    path = tmp_path / "page.html"
    path.mkdir()
    with pytest.raises(OptionError) as raised:
        write_page(path, [PageRun(results(4))], {}, option="--sdperf-html")
    assert str(raised.value) == (
        f"cannot write the page to {path}: Is a directory. Name a file in a writable folder with --sdperf-html=FILE."
    )


def test_a_run_writes_the_page_of_what_it_found_without_private_text(pytester, sdperf):
    pytester.makeconftest(BARE)
    pytester.makepyfile("def test_step(bench): pass")
    home = str(Path.home())
    sdperf(*UNETS, "--sdperf-html=out.html", "--sdperf-json=out.json", f"-ocache_dir={home}/x").assert_outcomes(
        passed=4
    )
    text = (pytester.path / "out.html").read_text("utf-8")
    again = page_text([PageRun(read_results(pytester.path / "out.json"))], {})
    assert answer(text) == answer(again)
    assert home not in text


def test_both_sides_of_an_ab_are_shown_with_its_table():
    sides = tuple(measurement(10.0 * slower, 10.0 * slower) for slower in (1, 2))
    pairs = Pairs(*sides, pythons=("", "/next/bin/python"), shared=True)
    one = CaseReport("t", sides[0].case, verdicts=judge_pairs(pairs, policy=Policy()), pairs=pairs)
    text = page(saved(one, run=dataclasses.replace(RUN, pairs=True)))
    assert "A: ort-cpu</th>" in text
    assert "B: ort-cpu</th>" in text
    told = "\n".join(line.text for line in pair_lines([one], width=1000))
    assert f'<pre tabindex="0">{told}</pre>' in text.replace("&#39;", "'")
