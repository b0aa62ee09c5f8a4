"""A ladder whose builds do not fit into the cache all at once."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TESTS = """
    def test_build(build):
        assert build.path.is_file()

    def test_run(runner):
        assert runner.run()
"""
# Right after each entry is written: there is never more than then.
WITNESS = """
    from pathlib import Path

    from pytest_sdperf.building.cache import Cache
    from pytest_sdperf.files.disk import folder_bytes

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
    "--sdperf-component=unet",
    "--sdperf-optimization=ladder",
    "--sdperf-engine=ort-cpu",
]
LADDER += ["--sdperf-fuser=native", "--sdperf-state-dir=state", "-v"]


@pytest.mark.slow
def test_the_cache_stays_below_its_limit_and_every_test_passes(pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]))
    pytester.makepyfile(test_it=TESTS)
    pytester.makeconftest(textwrap.dedent(WITNESS))

    def run(*more):
        result = pytester.runpytest_subprocess("-p", "pytest_sdperf.plugin", "-s", *LADDER, *more)
        assert result.ret == 0
        (line,) = [line for line in result.outlines if line.startswith("PEAK")]
        _, peak, _, made = line.split()
        return result, int(peak), int(made)

    first, peak, made = run("--sdperf-cache-dir=large")
    assert peak >= made  # nothing goes where there is room
    assert not [line for line in first.outlines if "has room for" in line]
    limit = int(0.8 * made)
    second, peak, made_again = run("--sdperf-cache-dir=small", f"--sdperf-cache-size={limit}")
    assert peak <= limit
    assert made_again >= made
    assert first.parseoutcomes()["passed"] == second.parseoutcomes()["passed"]
    assert [line for line in second.outlines if "builds go after their last test" in line]
