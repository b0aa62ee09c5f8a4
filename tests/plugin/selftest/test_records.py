"""Files of self-tests: what they hold, who may write them, and what damaged ones say."""

from __future__ import annotations

import json

import msgspec
import pytest
from selftest_scenes import CPU_CASE, GPU_CASE, drawn_case, drawn_run

from pytest_sdperf.baselines.privacy import PrivacyError, identity
from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.plugin.selftest.records import Archive, file_of, read, with_run

MACHINE = {"slug": "h200-141gb", "driver": "570.1", "pool": "default"}


@pytest.fixture
def archive(tmp_path):
    def of(**machine):
        settings = Settings(baselines=tmp_path / "baselines", state_dir=tmp_path / "state")
        return Archive(settings, slug="h200-141gb", machine={**MACHINE, **machine})

    return of


def test_runs_accumulate_in_the_state_folder_and_nothing_else_is_written(archive, tmp_path):
    first = with_run(None, GPU_CASE, drawn_run(seed=1))
    archive().keep(first)
    both = with_run(archive().cases()[GPU_CASE.key], GPU_CASE, drawn_run(seed=2))
    archive().keep(both)
    found = archive().cases()[GPU_CASE.key]
    assert [run.date for run in found.runs] == ["2026-11-01T10:00Z", "2026-11-02T10:00Z"]
    assert found.runs[0].medians_s["0"] == pytest.approx(drawn_run(seed=1).medians_s["0"], rel=1e-6)
    assert not (tmp_path / "baselines").exists()


def test_what_is_accepted_moves_to_the_baselines_and_stays_known(archive, tmp_path):
    archive().keep(drawn_case(drawn_run()))
    archive().keep(drawn_case(drawn_run(), case=CPU_CASE))
    archive().accept(GPU_CASE.key)
    accepted, own = (read(file_of(tmp_path / folder, "h200-141gb")) for folder in ("baselines", "state"))
    assert (list(accepted.cases), list(own.cases)) == ([GPU_CASE.key], [CPU_CASE.key])
    assert set(archive().cases()) == {GPU_CASE.key, CPU_CASE.key}
    archive().accept("unknown")  # nothing happens


def test_a_new_run_stands_beside_those_that_were_accepted(archive):
    archive().keep(drawn_case(drawn_run(seed=1)))
    archive().accept(GPU_CASE.key)
    archive().keep(with_run(archive().cases()[GPU_CASE.key], GPU_CASE, drawn_run(seed=2)))
    assert len(archive().cases()[GPU_CASE.key].runs) == 2


def test_another_machine_knows_nothing_of_it_and_begins_anew(archive):
    archive().keep(drawn_case(drawn_run(seed=1)))
    assert archive(driver="580.2").cases() == {}
    archive(driver="580.2").keep(drawn_case(drawn_run(seed=2), case=CPU_CASE))
    assert list(archive(driver="580.2").cases()) == [CPU_CASE.key]
    assert archive().cases() == {}


def test_what_is_shipped_is_known_to_the_machines_of_its_pool_alone_and_goes_on_in_their_state_folder(tmp_path):
    settings = Settings(baselines=tmp_path / "baselines", state_dir=tmp_path / "state")
    path = file_of(measured_folder(), "h200")
    shipped = read(path)

    def of(**machine):
        return Archive(settings, slug="h200", machine={**shipped.machine, **machine})

    assert of().cases() == shipped.cases
    assert of(pool="default").cases() == {}
    (key,) = shipped.cases
    of().keep(with_run(of().cases()[key], shipped.cases[key].case, drawn_run(seed=3)))
    assert len(of().cases()[key].runs) == len(shipped.cases[key].runs) + 1
    assert read(path) == shipped


def test_one_more_run_adds_lines_and_changes_none(archive):
    archive().keep(drawn_case(drawn_run(seed=1), policy=Policy()))
    before = archive().own.read_text(encoding="utf-8").splitlines()
    archive().keep(drawn_case(drawn_run(seed=1), drawn_run(seed=2), policy=Policy()))
    after = archive().own.read_text(encoding="utf-8").splitlines()
    rows = [line for line in before if '"pairs"' in line or '"stored' in line]
    assert len(rows) == 15
    kept = [line.rstrip(",") for line in after]
    assert [line for line in before if line.rstrip(",") not in kept and line not in rows] == []
    assert max(len(line) for line in rows) < 50


def test_numbers_have_seven_digits_and_names_are_sorted(archive):
    archive().keep(drawn_case(drawn_run()))
    data = json.loads(archive().own.read_text(encoding="utf-8"))
    assert list(data) == ["cases", "machine", "schema"]
    assert all(
        len(str(time).replace(".", "").lstrip("0")) <= 7
        for time in data["cases"][GPU_CASE.key]["runs"][0]["medians_s"]["0"]
    )


def test_no_private_name_is_stored(archive, tmp_path):
    secret = drawn_run(builds={"unet": f"{identity().home}/model"})
    with pytest.raises(PrivacyError):
        archive().keep(drawn_case(secret))
    assert not archive().own.exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "line 1, column 2: Expecting property name enclosed in double quotes"),
        ('{"schema": 1, "schema": 1}', "the name 'schema' occurs twice in one object"),
    ],
)
def test_a_damaged_file_is_named_and_never_overwritten(archive, text, why):
    archive().own.parent.mkdir(parents=True)
    archive().own.write_text(text, encoding="utf-8")
    for action in (archive().cases, lambda: archive().keep(drawn_case(drawn_run()))):
        with pytest.raises(BaselineError) as raised:
            action()
        assert str(raised.value) == (
            f"file of self-tests {archive().own} is not valid: {why}. Nothing was written to it. Restore it from "
            f"version control, or move it away and type --sdperf-selftest again."
        )
    assert archive().own.read_text(encoding="utf-8") == text


def test_a_file_of_another_schema(archive):
    archive().keep(drawn_case(drawn_run()))
    data = msgspec.structs.replace(read(archive().own), schema=2)
    archive().own.write_bytes(msgspec.json.encode(data))
    with pytest.raises(BaselineError) as raised:
        archive().cases()
    assert str(raised.value) == (
        f"file of self-tests {archive().own} has schema 2; this version of pytest-sdperf reads schema 1. Install the "
        f"version that wrote it, or move it away and type --sdperf-selftest again."
    )


def test_accepted_runs_of_another_machine_are_not_replaced(archive):
    archive().keep(drawn_case(drawn_run(seed=1)))
    archive().accept(GPU_CASE.key)
    archive(pool="attic", driver="580.2").keep(drawn_case(drawn_run(seed=2)))
    with pytest.raises(BaselineError) as raised:
        archive(pool="attic", driver="580.2").accept(GPU_CASE.key)
    assert str(raised.value) == (
        f"file of self-tests {archive().accepted} is of another machine. Pool: default when the baseline was recorded, "
        f"attic now. Nothing was written to it. Name another folder with --sdperf-baselines=FOLDER, or move the file "
        "away."
    )
    assert len(archive().cases()[GPU_CASE.key].runs) == 1


def test_after_a_new_driver_accepted_runs_begin_anew(archive):
    archive().keep(drawn_case(drawn_run(seed=1)))
    archive().accept(GPU_CASE.key)
    archive(driver="580.2").keep(drawn_case(drawn_run(seed=2)))
    archive(driver="580.2").accept(GPU_CASE.key)
    assert [run.date for run in archive(driver="580.2").cases()[GPU_CASE.key].runs] == ["2026-11-02T10:00Z"]
