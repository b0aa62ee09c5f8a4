"""An engine that draws something else than the prompt says is red, and says what; a healthy one beside it passes."""

from __future__ import annotations

import pytest
from faulty_engines import FAULTS
from user_project import joined, report_of

pytestmark = pytest.mark.slow

TESTS = """
    def test_pictures(runner, pictures):
        pictures(runner)
"""
WORSE, MOVED = "pictures-worse", "pictures-moved"


def test_wrong_pictures_are_named(user):
    user.project(
        conftest="from faulty_engines import pytest_sdperf_register",
        tests=TESTS,
        options={"model": "shapes", "component": "pipeline", "engine": ",".join(FAULTS), "prompts": 4},
    )
    user.copy("faulty_engines.py")
    result = user.run("--sdperf-optimization=fp32")
    assert result.ret == 1
    assert {engine: verdict["code"] for engine, verdict in user.by_engine().items()} == {
        "healthy": "pictures-as-reference",
        "prompt-ignored": WORSE,
        "guidance-lost": MOVED,
        "halves-exchanged": WORSE,
        "vae-scale-lost": WORSE,
    }
    assert user.junit() == {"tests": 5, "failures": 4, "errors": 0, "skipped": 0}
    report = joined(report_of(result))
    assert "4 of 4 pictures show what their prompts say, of the reference 4" in joined(user.failures())
    assert "lost: a small red circle left of a small green circle on a white background" in report
