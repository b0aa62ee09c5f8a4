"""The check of docs/own-check.md in a project: it runs the case in a worker, and its verdict is in every report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from user_project import joined, report_of

PAGE = (Path(__file__).parents[2] / "docs" / "own-check.md").read_text(encoding="utf-8")
CHECK, TEST, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CONFTEST = CHECK.replace(
    "def pytest_sdperf_register(catalog):",
    "import acme_engines\nimport dense_model\n\n\ndef pytest_sdperf_register(catalog):\n"
    "    dense_model.pytest_sdperf_register(catalog)\n    acme_engines.pytest_sdperf_register(catalog)",
)
MARK = 'import pytest\n\n\n@pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])\n'


@pytest.mark.slow
@pytest.mark.parametrize("beside", [(), ("-n1",)])
def test_it_passes_and_goes_red(user, beside):
    user.project(conftest=CONFTEST, tests=MARK + TEST, options={"engine": "acme"})
    assert user.run(*beside).ret == 0
    assert user.outcomes("varied") == ["PASSED"]
    (report,) = user.results()["reports"]
    spreads = report["checks"]["varied"]["finding"]
    assert spreads
    assert min(spreads.values()) > 0

    user.project(
        conftest=CONFTEST.replace("array.std()", "array.std() * 0"), tests=MARK + TEST, options={"engine": "acme"}
    )
    result = user.run(*beside)
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    (verdict,) = user.verdicts("varied")
    assert (verdict["outcome"], verdict["code"]) == ("FAILED", "output-constant")
    assert verdict["sentence"] in joined(report_of(result))
