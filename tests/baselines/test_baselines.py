from __future__ import annotations

import errno
import functools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_values import CASE, case, measurement, session, stored

from pytest_sdperf.baselines.files import locked, pretty, to_text, update, write_atomically
from pytest_sdperf.baselines.privacy import PrivacyError, identity
from pytest_sdperf.baselines.stored import Baseline, Session, StoredCase, file_of, read
from pytest_sdperf.baselines.unused import unused
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.checks.judging.verdict import judge
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.values import Sample
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.core.values.calibration import Calibration

MACHINE: dict[str, str | int | float | None] = {"slug": "cpu-test", "cores": 2, "power_limit_w": None}
EXPORT = BuildStep("export", 25.25, 25.0, host="cpu-amd-epyc-2c", commit="abc", date="2026-11-20T09:58Z", now=True)
BUILT = {"unet": Artifact(68_968_116, 2_000_000, (EXPORT, BuildStep("compile", 3.0)))}
BASELINE = Baseline(machine=MACHINE, cases={CASE.key: stored(session(), session(11, 11, 11, artifacts=BUILT))})
TAIL = (
    "Nothing was written to it. Restore it from version control (git checkout -- t4.json), or move it away and record "
    "it again with --sdperf-update-baselines."
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baselines" / "t4.json"


def write(path: Path, baseline: Baseline) -> Baseline:
    return update(path, lambda _: baseline, lock_dir=path.parent.parent / "locks")


def plant(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def damaged(change) -> str:
    data = json.loads(to_text(BASELINE))
    change(data)
    return json.dumps(data)


def message_of(path: Path) -> str:
    before = path.read_bytes()
    with pytest.raises(BaselineError) as caught:
        read(path)
    with pytest.raises(BaselineError):
        write(path, BASELINE)
    assert path.read_bytes() == before
    return str(caught.value)


def test_what_was_written_is_read(path):
    write(path, BASELINE)
    assert read(path) == BASELINE


def test_no_file_is_no_baseline_and_reading_creates_nothing(path):
    assert read(path) is None
    assert not path.parent.exists()


def test_file_is_named_after_the_device():
    assert file_of(Path("baselines"), "a100-sxm4-40gb") == Path("baselines/a100-sxm4-40gb.json")


TIMES = st.floats(1e-6, 1e4).map(lambda value: float(f"{value:.7g}"))
SAMPLES = st.builds(
    Sample,
    iterations_s=st.lists(TIMES, min_size=1, max_size=4).map(tuple),
    load_s=TIMES,
    first_run_bytes=st.none() | st.integers(0, 2**40),
    second_run_bytes=st.none() | st.integers(0, 2**40),
    memory_source=st.sampled_from(["host", "device", ""]),
    peaks_bytes=st.dictionaries(
        st.sampled_from(["device", "allocator", "host"]),
        st.dictionaries(st.sampled_from(["first_run", "second_run"]), st.integers(0, 2**40)),
    ),
    warmup_runs=st.integers(0, 99),
    facts=st.fixed_dictionaries(
        {},
        optional={
            "something": st.integers() | st.lists(st.booleans()),
            "threads": st.sampled_from(["4", "one per core"]),
            "own": st.dictionaries(st.sampled_from(["energy_j", "site"]), st.integers() | st.text()),
        },
    ),
)
SESSIONS = st.builds(
    Session,
    date=st.just("2026-11-20T10:00Z"),
    subject=st.dictionaries(st.sampled_from(["torch", "numpy"]), st.sampled_from(["1.0", "2.0"])),
    samples=st.lists(SAMPLES, min_size=1, max_size=3).map(tuple),
    counts=st.just({"unet": {"::Conv": 3}}),
    reason=st.sampled_from(["", "a larger model, ölig"]),
    calibration=st.none() | st.builds(Calibration, TIMES, TIMES, st.just("float16"), st.just("torch 2.13.0")),
    clocks_locked=st.none() | st.booleans(),
)
STORED = st.builds(
    StoredCase, case=st.just(CASE), anchor=SESSIONS, sessions=st.lists(SESSIONS, min_size=1, max_size=3).map(tuple)
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(STORED)
def test_every_session_survives_the_file(path, of_case):
    baseline = Baseline(machine=MACHINE, cases={CASE.key: of_case})
    write(path, baseline)
    assert read(path) == baseline


def test_a_file_from_before_a_field_was_added_is_read(path):
    data = json.loads(to_text(BASELINE))
    for one in (stored_case(data)["anchor"], *stored_case(data)["sessions"]):
        del one["calibration"], one["clocks_locked"]
        for sample in one["samples"]:
            del sample["peaks_bytes"]
    plant(path, json.dumps(data))
    assert read(path) == BASELINE


def test_text_is_sorted_ends_with_a_line_break_and_keeps_samples_on_one_line():
    text = to_text(BASELINE)
    assert text.endswith("}\n")
    assert '"iterations_s": [0.0099, 0.0099, 0.0099, 0.0099, 0.0099]' in text
    keys = list(json.loads(text))
    assert keys == sorted(keys)
    assert to_text(BASELINE) == text


def test_one_more_session_only_adds_lines():
    before = to_text(Baseline(machine=MACHINE, cases={CASE.key: stored(session())})).splitlines()
    after = to_text(BASELINE).splitlines()
    assert sum(line not in after for line in before) == 0


def test_numbers_are_rounded_to_what_a_clock_can_know():
    assert pretty({"b": 0.123456789, "a": [1.00000001, None, True]}) == '{"a": [1.0, null, true], "b": 0.1234568}'


def test_what_does_not_fit_on_a_line_has_a_line_per_value_but_a_list_of_numbers_stays_whole():
    numbers = list(range(40))
    assert pretty({"samples": [{"b": numbers, "a": "x" * 90}]}) == (
        f'{{\n "samples": [\n  {{\n   "a": "{"x" * 90}",\n   "b": {numbers}\n  }}\n ]\n}}'
    )


def test_a_number_that_is_not_finite_is_not_written(path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write(path, Baseline(machine={"power_limit_w": float("nan")}))
    assert not path.exists()


# ----------------------------------------------------------------------------------------------- bad files


def test_corrupt_json_names_file_line_and_column(path):
    plant(path, '{\n "schema": 1,\n "machine": {},,\n}')
    assert message_of(path) == (
        f"baseline file {path} is not valid JSON: line 3, column 16: Expecting property name enclosed in double "
        f"quotes. {TAIL}"
    )


def test_a_merge_conflict_is_corrupt_json(path):
    plant(path, '{\n "schema": 1,\n<<<<<<< HEAD\n}')
    assert message_of(path) == (
        f"baseline file {path} is not valid JSON: line 3, column 1: Expecting property name enclosed in double quotes. "
        f"{TAIL}"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"schema": 1, "schema": 1}', "is not valid JSON: the name 'schema' occurs twice in one object"),
        ('{"schema": NaN}', "is not valid JSON: NaN is not a number that a measurement can have - at `$.schema`"),
        ("[]", "does not hold a JSON object"),
        ("", "is not valid JSON: line 1, column 1: Expecting value"),
        ('{"schema": 1, "machine": {}, "cases": {}, "hostname": 1}',
         "is not a baseline: unknown field 'hostname' - at `$`"),
        ('{"schema": 1, "machine": {}}', "is not a baseline: `cases` must be an object - at `$`"),
        ('{"schema": 1, "machine": [], "cases": {}}',
         "is not a baseline: Expected `object`, got `array` - at `$.machine`"),
    ],
)  # fmt: skip
def test_other_bad_text(path, text, why):
    plant(path, text)
    assert message_of(path) == f"baseline file {path} {why}. {TAIL}"


def places_of_numbers(data, place="$"):
    """Yield the steps to every number of what JSON holds, and how that place is written."""
    for step, inner in data.items() if isinstance(data, dict) else enumerate(data):
        there = f"{place}{strict_json.step(step)}"
        if isinstance(inner, (dict, list)):
            yield from (([step, *steps], name) for steps, name in places_of_numbers(inner, there))
        elif isinstance(inner, (int, float)) and not isinstance(inner, bool):
            yield [step], there


NUMBERS = list(places_of_numbers(json.loads(to_text(BASELINE))))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(NUMBERS), st.sampled_from(["1e999", "-1E400", "NaN", "Infinity", "-Infinity", "9" * 400]))
def test_a_number_that_is_none_is_refused_wherever_it_stands(path, at, number):
    (steps, place), data = at, json.loads(to_text(BASELINE))
    inner = functools.reduce(lambda found, step: found[step], steps[:-1], data)
    inner[steps[-1]] = "here"
    plant(path, json.dumps(data).replace('"here"', number))
    shown = number if len(number) < 20 else f"{number[:20]}..."
    why = f"{shown} is not a number that a measurement can have - at `{place}`"
    assert message_of(path) == f"baseline file {path} is not valid JSON: {why}. {TAIL}"


def test_bytes_that_are_not_text(path):
    plant(path, "").write_bytes(b'{"a": "\xff"}')
    assert (
        message_of(path)
        == f"baseline file {path} is not valid JSON: it is not UTF-8 text (byte 7); save it as UTF-8. {TAIL}"
    )


@pytest.mark.parametrize(("schema", "shown"), [(3, "3"), ("1", '"1"'), (None, "null"), (True, "true")])
def test_another_schema(path, schema, shown):
    plant(path, json.dumps({"schema": schema, "machine": {}, "cases": {}}))
    assert message_of(path) == (
        f"baseline file {path} has schema {shown}; this version of pytest-sdperf reads schema 1 and 2. Install the "
        f"version that wrote it, or move the file away and record it again with --sdperf-update-baselines."
    )


def stored_case(data):
    return data["cases"][CASE.key]


RATES = {"flops_per_s": 1.0, "bytes_per_s": 1.0, "dtype": "float16", "by": ""}
PLACE = f'$.cases["{CASE.key}"]'


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: stored_case(d).pop("anchor"), f"Object missing required field `anchor` - at `{PLACE}`"),
        (lambda d: stored_case(d).update(sessions=[]), f"no session - at `{PLACE}.sessions`"),
        (lambda d: stored_case(d)["anchor"].update(calibration={**RATES, "host": "x"}),
         f"unknown field 'host' - at `{PLACE}.anchor.calibration`"),
        (lambda d: stored_case(d)["anchor"].update(samples=[], counts={}),
         f"a session without samples, failure or counts - at `{PLACE}.anchor`"),
        (lambda d: stored_case(d)["sessions"][1]["samples"][0].update(iterations_s=["fast"]),
         f"Expected `float`, got `str` - at `{PLACE}.sessions[1].samples[0].iterations_s[0]`"),
        (lambda d: stored_case(d)["sessions"][1]["samples"][0].update(iterations_s=[0.01, 0.0]),
         f"a time of 0 s, which no run can take - at `{PLACE}.sessions[1].samples[0].iterations_s`"),
        (lambda d: stored_case(d)["anchor"]["samples"][0].update(iterations_s=[-0.01]),
         f"a time of -0.01 s, which no run can take - at `{PLACE}.anchor.samples[0].iterations_s`"),
        (lambda d: stored_case(d)["sessions"][1]["samples"][2].update(iterations_s=[]),
         f"a sample without times - at `{PLACE}.sessions[1].samples[2].iterations_s`"),
        (lambda d: stored_case(d)["sessions"][0].update(smaples=[]),
         f"Object contains unknown field `smaples` - at `{PLACE}.sessions[0]`"),
        (lambda d: stored_case(d)["sessions"][0]["samples"][2].update(laod_s=1),
         f"unknown field 'laod_s' - at `{PLACE}.sessions[0].samples[2]`"),
        (lambda d: stored_case(d)["sessions"][1]["artifacts"]["unet"].update(colour="red"),
         f"unknown field 'colour' - at `{PLACE}.sessions[1].artifacts.unet`"),
        (lambda d: stored_case(d)["sessions"][1]["artifacts"]["unet"]["steps"][1].update(colour="red"),
         f"unknown field 'colour' - at `{PLACE}.sessions[1].artifacts.unet.steps[1]`"),
        (lambda d: stored_case(d)["case"].update(colour="red"), f"unknown field 'colour' - at `{PLACE}.case`"),
        (lambda d: stored_case(d)["case"].update(batch_size=2),
         f"the case at `{PLACE}` is the case {case(batch_size=2).key!r}"),
    ],
)  # fmt: skip
def test_structure_errors_name_the_place(path, change, why):
    plant(path, damaged(change))
    assert message_of(path) == f"baseline file {path} is not a baseline: {why}. {TAIL}"


@pytest.mark.parametrize(
    ("change", "metric"),
    [
        (lambda session: session.update(samples=[]), "latency"),
        (lambda session: session["samples"][0].update(first_run_bytes=0), "first-run-memory"),
        (lambda session: session["samples"][0].update(second_run_bytes=None), "second-run-memory"),
        (lambda session: session.update(counts={"unet": {}}), "counts"),
        (lambda session: session.update(counts={"unet": {"::Conv": 0}}), "counts"),
    ],
)  # fmt: skip
def test_what_a_file_may_hold_and_nothing_can_be_judged_by_is_no_baseline(path, change, metric):
    """Those that `baseline-unusable` is for: everything else that is wrong in a file is refused with its place."""
    data = json.loads(to_text(Baseline(machine=MACHINE, cases={CASE.key: stored(session())})))
    change(stored_case(data)["sessions"][0])
    plant(path, json.dumps(data))
    verdicts = judge(measurement(), read(path).cases[CASE.key], policy=Policy())
    assert [one.metric for one in verdicts if one.code == "baseline-unusable"] == [metric]


# ----------------------------------------------------------------------------------------------- writing


def test_a_full_disk_leaves_the_old_file_and_no_debris(path, monkeypatch):
    write(path, BASELINE)
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(BaselineError) as caught:
        write(path, Baseline(machine=MACHINE))
    assert str(caught.value) == (
        f"cannot write baseline file {path}: No space left on device. It is unchanged. Make its folder writable, or "
        f"name another one with --sdperf-baselines=FOLDER."
    )
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_folder_that_is_a_file_is_said(tmp_path):
    (tmp_path / "baselines").write_text("")
    with pytest.raises(BaselineError) as caught:
        update(tmp_path / "baselines" / "t4.json", lambda _: BASELINE, lock_dir=tmp_path / "locks")
    assert str(caught.value) == (
        f"cannot read baseline file {tmp_path / 'baselines' / 't4.json'}: Not a directory. Make it readable."
    )


def test_another_writer_is_waited_for_and_then_named(path, monkeypatch):
    monkeypatch.setattr("pytest_sdperf.baselines.files.LOCK_TIMEOUT_S", 0.2)
    with locked(path, lock_dir=path.parent.parent / "locks"), pytest.raises(BaselineError) as caught:
        write(path, BASELINE)
    assert str(caught.value) == (
        f"another process has held {path} for 0 s. Wait until it has ended and type the command again."
    )


def test_private_text_is_refused_before_anything_is_written(path):
    private = session(reason=f"see {identity().home}/notes")
    with pytest.raises(PrivacyError) as caught:
        write(path, Baseline(machine=MACHINE, cases={CASE.key: stored(private)}))
    assert str(caught.value) == (
        f"$.cases.{CASE.key}.anchor.reason holds the home folder, and stored results hold no user name, host name, "
        f"home folder or UUID. Take it out of the value that was given."
    )
    assert not path.exists()


def test_writers_follow_each_other(path):
    def add(name):
        def change(present):
            cases = dict(present.cases) if present else {}
            one = case(model=name)
            return Baseline(machine=MACHINE, cases={**cases, one.key: stored(of=one)})

        return change

    for name in ("a", "b", "c"):
        update(path, add(name), lock_dir=path.parent.parent / "locks")
    present = read(path)
    assert present is not None
    assert [entry.case.model for entry in present.cases.values()] == ["a", "b", "c"]


def test_write_atomically_replaces_and_creates_folders(tmp_path):
    target = tmp_path / "new" / "x.txt"
    write_atomically(target, "one\n")
    write_atomically(target, "two\n")
    assert target.read_bytes() == b"two\n"
    assert target.stat().st_mode & 0o777 == 0o644


# ----------------------------------------------------------------------------------------------- levels, unused


def test_a_level_begins_where_its_metric_changed():
    sessions = (session(1), session(2, changed=("latency",)), session(3, changed=("first-run-memory",)))
    entry = stored(*sessions)
    assert entry.level("latency") == sessions[1:]
    assert entry.level("first-run-memory") == sessions[2:]
    assert entry.level("second-run-memory") == sessions
    assert entry.last is sessions[2]


def test_unused_entries_are_those_that_the_options_cover_but_no_test_asks_for():
    stored_cases = [case(), case(component="vae_decoder"), case(engine="torch"), case(batch_size=8)]
    baseline = Baseline(machine=MACHINE, cases={one.key: stored(of=one) for one in stored_cases})
    assert [entry.case for entry in unused(baseline, [CASE])] == [case(component="vae_decoder")]
    collected = [case(), case(engine="torch", batch_size=8)]
    assert {entry.case for entry in unused(baseline, collected)} == {
        case(component="vae_decoder"),
        *stored_cases[2:],
    } - {case(engine="torch", batch_size=8)}
    assert unused(baseline, []) == ()
