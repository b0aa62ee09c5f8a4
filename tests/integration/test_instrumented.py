"""Coverage follows into every process that Python starts; so does what stands for it here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest_sdperf

ROOT = Path(pytest_sdperf.__file__).parents[1]


def test_what_was_measured_while_its_code_was_watched_is_invalid_and_names_what_watched(acme, monkeypatch):
    # As the file does that coverage's `patch = subprocess` relies on.
    site = acme.pytester.mkdir("site")
    (site / "sitecustomize.py").write_text("import sys\nsys.settrace(lambda *event: None)\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT)]))
    result = acme.run()
    assert result.ret == 10
    told = " ".join(" ".join(result.outlines).split())
    assert "was measured while its code was watched by sys.settrace (sitecustomize), which takes" in told
    assert "[instrumented]" in told
