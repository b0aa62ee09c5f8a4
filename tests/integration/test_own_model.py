"""The models of docs/own-model.md in a project: built, fused, compared and measured by the suites' own tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[2] / "docs" / "own-model.md").read_text(encoding="utf-8")
EXAMPLES = dict(zip(("narrow", "upscaler"), re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL), strict=True))
TESTS = """
    import pytest

    pytestmark = pytest.mark.sdperf(components=["unet"])

    def test_counts(build, expected_counts, fused):
        fused(build, expected_counts)

    def test_outputs(runner, agree):
        agree(runner)
"""


def test_modules_of_ones_own_are_built_and_compared(user):
    user.project(conftest=EXAMPLES["upscaler"], tests=TESTS, options={"model": "upscaler"})
    result = user.run("--sdperf-optimization=fp16", "--sdperf-fuser=native")
    assert user.failures() == []
    result.assert_outcomes(passed=2)


def test_a_narrow_unet_has_every_operator_that_its_module_allows(user):
    user.project(conftest=EXAMPLES["narrow"], tests=TESTS, options={"model": "narrow"})
    user.run("--sdperf-optimization=bias-add", "--sdperf-fuser=native", "--sdperf-weights=none", "-k", "counts")
    (verdict,) = user.verdicts("fusions")
    assert verdict["code"] == "as-derived", (verdict["sentence"], verdict["details"])
