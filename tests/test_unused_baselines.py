"""A baseline entry that no test measures any more: listed, and on demand a reason to fail."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sample_values import CASE, case, measurement, stored

from pytest_sdperf.baselines.stored import Baseline
from pytest_sdperf.conclusion import Results, _status, unused_lines
from pytest_sdperf.report.case_report import CaseReport
from pytest_sdperf.settings import OtherSide, Selection, Settings

GONE = case(component="vae_decoder")
UNUSED = f"UNUSED {GONE.key}: in the baseline, but no test measures it any more"
NARROWED = "unused baseline entries were not looked for: this run was narrowed to some tests"


def conclusion(*, deselected=False, kept=(CASE, GONE), **settings):
    """Return the lines and the exit status of a run that measured one case."""
    baseline = Baseline(machine={}, cases={one.key: stored(of=one) for one in kept})
    run = SimpleNamespace(settings=Settings(**settings), device_kind="cpu")
    session = SimpleNamespace(run=run, baseline=baseline)
    results = Results({"a": CaseReport("a", CASE, measurement())}, collected=(CASE,), selected=1, deselected=deselected)
    lines = list(unused_lines(results, session))
    return [line.text for line in lines], _status(results, session, failed=0)


def test_it_is_listed_and_does_not_fail():
    assert conclusion() == ([UNUSED], 0)


def test_it_fails_the_run_where_that_was_asked_for():
    assert conclusion(unused_baselines="fail") == ([f"{UNUSED}, which fails the run"], 10)
    assert conclusion(unused_baselines="fail", kept=(CASE,)) == ([], 0)


@pytest.mark.parametrize("narrowed", [{"deselected": True}, {"selection": Selection(components=("unet",))}])
def test_a_narrowed_run_does_not_look_for_it_and_says_so(narrowed):
    assert conclusion(unused_baselines="fail", **narrowed) == ([NARROWED], 0)


def test_an_ab_uses_no_baseline_at_all():
    assert conclusion(unused_baselines="fail", other=OtherSide(optimization="fp16")) == ([], 0)
