"""A ladder whose builds do not fit into the cache all at once."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from pytest_sdperf.models.sd15 import MODELS

HERE = Path(__file__).parent
TESTS = """
    def test_build(sdperf_build):
        assert sdperf_build.path.is_file()
"""
# Right after each entry is written: there is never more than then.
WITNESS = """
    from pathlib import Path

    from pytest_sdperf.builds.cache import Cache
    from pytest_sdperf.core.files.disk import folder_bytes

    build, sizes, made = Cache._build, [], []

    def witnessed(self, key, make):
        entry = build(self, key, make)
        made.append(entry.size_bytes)
        sizes.append(folder_bytes(self.folder))
        return entry

    def pytest_configure():
        Cache._build = witnessed

    def pytest_unconfigure():
        Cache._build = build
        print("PEAK", max(sizes, default=0), "MADE", sum(made))
"""
LADDER = [
    "--sdperf-model=sd15-thin",
    "--sdperf-component=text_encoder",
    "--sdperf-optimization=fp16,fmha,group-norm,bias-add",
    "--sdperf-engine=ort-cpu",
]
LADDER += ["--sdperf-fuser=native", "--sdperf-state-dir=state", "-v"]


@pytest.mark.slow
def test_the_cache_stays_below_its_limit_and_every_test_passes(pytester, monkeypatch):
    (model,) = (model for model in MODELS if model.name == "sd15-thin")
    parameters = model.parameters("text_encoder")
    # Weights and export in float32, four optimizations in float16.
    whole = (4 + 4 + 4 * 2) * parameters
    limit = int(0.85 * whole)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    pytester.makepyfile(test_it=TESTS)
    pytester.makeconftest(textwrap.dedent(WITNESS))
    result = pytester.runpytest_subprocess(
        "-p", "pytest_sdperf.plugin", "-s", *LADDER, "--sdperf-cache-dir=cache", f"-osdperf_cache_size={limit}"
    )
    result.assert_outcomes(passed=4)
    (line,) = [line for line in result.outlines if line.startswith("PEAK")]
    _, peak, _, made = line.split()
    assert int(made) >= whole  # all of it was built, and more than fits
    assert int(peak) <= limit
    (told,) = [line for line in result.outlines if "has no room for all builds" in line]
    folder = pytester.path / "cache"
    assert told == (
        f"the cache {folder} has no room for all builds: what is missing is built when its test begins, and what was "
        f"used longest ago goes"
    )
