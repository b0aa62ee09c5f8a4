"""Ways of running pytest, and folders, that are refused before the first test."""

from __future__ import annotations

import pytest

PLUGIN = """
    def pytest_addoption(parser):
        parser.addoption("--forked", action="store_true", default=False)

    def pytest_configure(config):
        config.addinivalue_line("markers", "forked: run this test in a process of its own")
"""
WHY = (
    "runs a test in a process that ends with it, and tests of one run share builds, results and one report. Leave it "
    "out: every case is measured in processes of its own."
)


@pytest.fixture
def forked(pytester):
    """A project where pytest-forked is installed, as far as its option and its marker go."""
    pytester.makepyfile(forked_option=PLUGIN)
    pytester.syspathinsert()
    return ["forked_option"]


def test_tests_in_processes_that_end_with_them_are_refused(pytester, sdperf, forked):
    pytester.makepyfile("def test_x(bench, runner): pass")
    result = sdperf("--forked", plugins=forked)
    assert (result.ret, result.errlines) == (4, [f"ERROR: --forked {WHY}", ""])


def test_the_marker_is_refused_too(pytester, sdperf, forked):
    pytester.makepyfile("import pytest\n@pytest.mark.forked\ndef test_x(bench, runner): pass\n")
    result = sdperf("--sdperf-component=unet", plugins=forked)
    assert result.ret == 4
    (told,) = filter(None, result.errlines)
    assert told.startswith("ERROR: the marker `forked` of test_the_marker_is_refused_too.py::test_x[")
    assert told.endswith(f"] {WHY}")


def test_tests_that_use_nothing_of_ours_may_be_forked(pytester, sdperf, forked):
    pytester.makepyfile("def test_x(): pass")
    assert sdperf("--forked", plugins=forked).ret == 0


@pytest.mark.parametrize("asked", ["runner", "build"])
@pytest.mark.parametrize(
    ("folder", "why"), [("/proc/no-such-folder", "No such file or directory"), ("file", "File exists")]
)
def test_a_cache_folder_that_cannot_be_made_is_refused_before_the_first_test(pytester, sdperf, folder, why, *, asked):
    pytester.path.joinpath("file").write_text("")
    pytester.makepyfile(f"def test_x({asked}): raise AssertionError")
    result = sdperf(f"--sdperf-cache-dir={folder}")
    assert result.ret == 4
    (told,) = filter(None, result.errlines)
    made = pytester.path / folder
    assert told == (
        f"ERROR: the cache folder {made} cannot be made: {why}. Choose another folder with --sdperf-cache-dir=FOLDER."
    )
