"""The example of the README, typed as it stands there, with the real model and engine."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def test_the_example_of_the_readme_is_right_and_fast(user):
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Test your own code\n")[2]
    example, command = re.findall(r"^```(?:python|bash)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)[:2]
    program, file, *options = shlex.split(command)
    assert (program, file) == ("pytest", "test_mine.py")
    # One of its cases, and one process of it: the others take as long again.
    options += ["-k", "fp32 and not batch", f"--sdperf-cache-dir={user.cache}", "--sdperf-state-dir=state"]
    options += ["--sdperf-processes=1", "--sdperf-max-processes=1"]
    (user.path / file).write_text(example, encoding="utf-8")
    result = user.run(file, *options)
    result.assert_outcomes(passed=1, deselected=3)
    assert result.ret == 0
