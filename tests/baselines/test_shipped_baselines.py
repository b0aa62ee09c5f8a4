"""The baselines that this repository ships."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_sdperf.baselines import privacy, stored
from pytest_sdperf.judging.policy import Policy
from pytest_sdperf.judging.verdict import judge
from pytest_sdperf.values import Measurement, to_json
from pytest_sdperf.values.outcomes import Outcome

FILES = sorted((Path(__file__).parents[2] / "baselines").glob("*.json"))


def test_there_is_one():
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_holds_what_it_was_made_of(path):
    baseline = stored.read(path)
    assert baseline.machine["slug"] == path.stem
    privacy.check(to_json(baseline), privacy.identity())
    for key, known in baseline.cases.items():
        assert known.case.key == key
        for session in known.sessions:
            if session.out_of_memory:
                continue
            measured = Measurement(
                known.case, session.samples, counts=session.counts, subject=session.subject, artifacts=session.artifacts
            )
            found = judge(measured, known, policy=Policy(processes=len(session.samples)))
            assert {verdict.outcome for verdict in found} == {Outcome.HELD}, [one.sentence for one in found]
