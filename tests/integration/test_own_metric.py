"""A metric of somebody else, in one file, is measured, stored, accepted and judged like ours."""

from __future__ import annotations

import pytest
from user_project import RECORD, joined, report_of

CONFTEST = """
    import pathlib

    import acme_engines
    import dense_model
    from pytest_sdperf.core.metric import Metric
    from pytest_sdperf.core.values.metric import MetricInfo

    class Board(Metric):
        name = "board-energy"
        info = MetricInfo("energy of a call", unit="J", rule="exact")

        def extract(self, sample):
            return float(pathlib.Path("energy.txt").read_text())

    def pytest_sdperf_register(catalog):
        dense_model.pytest_sdperf_register(catalog)
        acme_engines.pytest_sdperf_register(catalog)
        catalog.add_metric(Board())
"""


@pytest.mark.slow
def test_it_is_stored_held_and_goes_red(user):
    user.project(conftest=CONFTEST, options={"engine": "acme", "processes": 2, "max-processes": 2})
    (user.path / "energy.txt").write_text("12.5")
    user.run(*RECORD)
    (session,) = user.stored_case()["sessions"]
    assert [sample["metrics"] for sample in session["samples"]] == [{"board-energy": 12.5}] * 2
    assert session["metrics"]["board-energy"]["unit"] == "J"

    user.run()
    assert user.outcomes("board-energy") == ["HELD"]

    (user.path / "energy.txt").write_text("20")
    result = user.run()
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    (verdict,) = user.verdicts("board-energy")
    assert (verdict["outcome"], verdict["code"]) == ("REGRESSED", "metric-worse")
    assert verdict["sentence"] in joined(report_of(result))
