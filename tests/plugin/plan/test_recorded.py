"""What earlier sessions tell of a case."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import msgspec
import pytest
from sample_values import case, sample, session, stored

from pytest_sdperf.acceptance.candidates import State
from pytest_sdperf.baselines.files import to_text
from pytest_sdperf.baselines.stored import Baseline, file_of
from pytest_sdperf.core.settings import Settings
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.plugin.plan import recorded
from pytest_sdperf.plugin.plan.recorded import NOTHING, Recorded, Records


@pytest.fixture
def records(tmp_path, monkeypatch):
    """Reads sessions, which are written to where each of them belongs."""
    settings = Settings(baselines=tmp_path / "baselines", state_dir=tmp_path / "state")
    monkeypatch.setattr(recorded, "measured_folder", lambda: tmp_path / "shipped")
    files = {
        "candidates": State(settings.state_dir, settings.baselines).candidates_of("toy"),
        "baselines": file_of(settings.baselines, "toy"),
        "registered": file_of(tmp_path / "registered", "toy"),
        "shipped": file_of(tmp_path / "shipped", "toy"),
    }

    def read(**sessions):
        for place, one in sessions.items():
            files[place].parent.mkdir(parents=True, exist_ok=True)
            files[place].write_text(to_text(Baseline(machine={}, cases={case().key: stored(one)})))
        catalog = SimpleNamespace(baseline_folders=[tmp_path / "registered"])
        device = SimpleNamespace(slug="toy")
        return Records.of(SimpleNamespace(settings=settings, catalog=catalog, device=lambda: device))

    return read


def test_this_machine_is_asked_before_baselines_and_what_is_shipped_last(records):
    days = {"shipped": 4, "registered": 3, "baselines": 2, "candidates": 1}
    assert records().last(case()) == NOTHING
    found = [records(**{place: session(10, date=f"2026-11-0{day}T10:00Z")}) for place, day in days.items()]
    assert [one.last(case()).source for one in found] == [
        "shipped baseline of 2026-11-04",
        "baseline of 2026-11-03",
        "baseline of 2026-11-02",
        "measured here 2026-11-01",
    ]
    assert found[-1].last(case(batch_size=9)) == NOTHING


def test_the_seconds_of_a_process_are_its_calls_and_what_came_before_them():
    one = dataclasses.replace(sample(), load_s=2.0, warmup_runs=3, iterations_s=(0.2,) * 5)
    longer = dataclasses.replace(one, load_s=4.0)
    found = Recorded(msgspec.structs.replace(session(), samples=(one, longer)))
    assert found.process_s == pytest.approx(3.0 + one.first_run_s + one.second_run_s + 3 * 0.2 + 5 * 0.2)
    assert found.peak_bytes == 500 * 2**20


def test_the_seconds_of_a_step_are_those_of_when_it_was_made():
    steps = (BuildStep("weights", 11.0), BuildStep("export", 33.0))
    found = Recorded(session(10, artifacts={"unet": Artifact(1, steps=steps)}))
    assert [found.step_s("unet", name) for name in ("weights", "export", "fuse-ort")] == [11.0, 33.0, None]
    assert found.step_s("vae_decoder", "weights") is None


def test_out_of_memory_is_known_and_has_neither_seconds_nor_a_peak(records):
    found = records(candidates=session(failure="oom", date="2026-11-21T10:00Z")).last(case())
    assert (found.source, found.process_s, found.peak_bytes) == ("OOM, measured here 2026-11-21", None, None)


def test_of_a_case_that_nobody_measured_nothing_is_known():
    assert (NOTHING.process_s, NOTHING.peak_bytes, NOTHING.step_s("unet", "export")) == (None, None, None)
