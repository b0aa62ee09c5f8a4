from __future__ import annotations

import argparse
import json

import pytest

from pytest_sdperf.core.device import Device
from pytest_sdperf.core.errors import SdperfError
from pytest_sdperf.plugin.benchmark_bridge import MACHINE_KEY, check_machine, check_options, machine_entry

BENCHMARK = ["pytest_benchmark.plugin"]
XDIST = ["xdist.plugin"]
# Device time without a device: the samples are given, what pytest-benchmark makes of them is tested.
CONFTEST = """
    import pytest
    from pytest_sdperf.plugin import benchmark_bridge

    @pytest.fixture
    def sdperf_bench(sdperf_case, request):
        def measure(*samples):
            benchmark_bridge.show(request, samples)
        return measure
"""
GPU = """
    from door_toys import ToyProbe
    from pytest_sdperf.core.device import Device

    def pytest_sdperf_register(catalog):
        device = Device("cuda", "NVIDIA {name}", "{slug}", uuid="GPU-1", machine={{"driver": "1"}})
        catalog.add_device_probe(ToyProbe(device))
"""
TEST = """
    import pytest

    @pytest.mark.sdperf(engines="torch", components="unet")
    def test_step(bench):
        bench(0.5, 0.25, 1.0)
"""


OTHERS = """
    import pytest

    @pytest.mark.sdperf(engines="torch", components="unet")
    def test_case(case): pass
    def test_other(): pass
    def test_theirs(benchmark): benchmark(lambda: 1)
"""
# What pytest-codspeed does to a session: its own benchmarks are what has the fixture or the mark.
CODSPEED = """
    import os
    import pytest

    def pytest_addoption(parser):
        parser.addoption("--codspeed", action="store_true", default=False)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(config, items):
        if config.getoption("--codspeed") or os.environ.get("CODSPEED_ENV") is not None:
            out = [i for i in items if not (i.get_closest_marker("benchmark") or "benchmark" in i.fixturenames)]
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item in items if item not in out]
"""
BENCHMARK_FIXTURE = """
    @pytest.fixture
    def benchmark():
        return None
"""
DISABLED = (
    "--benchmark-disable is about pytest-benchmark alone: cases are measured and judged all the same. "
    "--benchmark-skip leaves them out."
)
LEFT_BY_CODSPEED = (
    "narrowed: --codspeed left out 2 tests with a case: pytest-codspeed runs its own benchmarks alone. Leave it out to "
    "judge them."
)


@pytest.fixture
def benched(pytester, sdperf):
    """Run one test whose device times are 0.5, 0.25 and 1 s."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_it=TEST)

    def run(*arguments, plugins=BENCHMARK):
        return sdperf(*arguments, plugins=plugins)

    return run


def stored(pytester, name="out.json"):
    return json.loads((pytester.path / name).read_text())


def test_its_json_and_tables_show_device_time(benched, pytester):
    result = benched("--benchmark-json=out.json")
    result.assert_outcomes(passed=1)
    (found,) = stored(pytester)["benchmarks"]
    assert found["name"] == "test_step[sd15-thin-unet-on-torch-at-fp32]"
    assert found["stats"]["data"] == [0.5, 0.25, 1.0]
    assert (found["stats"]["rounds"], found["stats"]["iterations"]) == (3, 1)
    result.stdout.fnmatch_lines(["*benchmark: 1 tests*", "test_step?sd15-thin-unet-on-torch-at-fp32? *250.0000*"])


def test_its_marker_of_the_user_is_kept(benched, pytester):
    pytester.makepyfile(
        test_it=TEST.replace("def test_step", "@pytest.mark.benchmark(group='steps')\n    def test_step")
    )
    benched("--benchmark-json=out.json")
    (found,) = stored(pytester)["benchmarks"]
    assert (found["group"], found["stats"]["max"]) == ("steps", 1.0)


@pytest.mark.parametrize("flag", ["--benchmark-disable", "--benchmark-cprofile=tottime"])
def test_our_tests_run_whatever_it_is_told(benched, pytester, flag):
    pytester.makepyfile(test_it=TEST + "        print('measured')\n")
    result = benched(flag, "-s")
    result.assert_outcomes(passed=1)
    assert "measured" in result.stdout.str()
    assert result.outlines.count(DISABLED) == (flag == "--benchmark-disable")


def test_without_benchmarks_means_without_ours_and_it_is_said(benched, pytester):
    pytester.makepyfile(test_other=OTHERS)
    result = benched("--benchmark-skip")
    result.assert_outcomes(passed=2, skipped=1, deselected=1)
    assert result.ret == 0
    assert result.outlines.count("narrowed: --benchmark-skip left out 1 test that measure") == 1


def test_a_run_of_benchmarks_alone_without_benchmarks_is_no_success(benched):
    result = benched("--benchmark-skip")
    result.assert_outcomes(deselected=1)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


@pytest.mark.parametrize("flags", [None, [], ["--benchmark-skip"], ["--benchmark-disable"]])
@pytest.mark.parametrize("by", ["--codspeed", "CODSPEED_ENV"])
def test_what_codspeed_takes_away_is_said(benched, pytester, monkeypatch, by, flags):
    others = [] if flags is None else BENCHMARK
    pytester.makepyfile(codspeed=CODSPEED, test_other=OTHERS.replace("benchmark(lambda: 1)", "pass"))
    pytester.makeconftest(CONFTEST + BENCHMARK_FIXTURE)
    pytester.syspathinsert()
    if by == "CODSPEED_ENV":
        monkeypatch.setenv(by, "local")
    asked = [by] if by == "--codspeed" else []
    result = benched(*asked, *(flags or []), plugins=["codspeed", *others])
    assert (result.ret, result.parseoutcomes()["deselected"]) == (0, 3)
    assert result.outlines.count(LEFT_BY_CODSPEED) == 1
    assert DISABLED not in result.outlines


def test_without_its_option_codspeed_takes_nothing_away(benched, pytester):
    pytester.makepyfile(codspeed=CODSPEED)
    pytester.syspathinsert()
    result = benched(plugins=["codspeed", "pytest_benchmark.plugin"])
    result.assert_outcomes(passed=1)
    assert LEFT_BY_CODSPEED not in result.outlines


def test_only_benchmarks_includes_ours(benched, pytester):
    pytester.makepyfile(test_other="def test_other(): pass")
    benched("--benchmark-only").assert_outcomes(passed=1, skipped=1)
    benched("--benchmark-only", "--benchmark-skip").assert_outcomes(passed=1, skipped=1)


def test_a_test_without_samples_is_not_a_benchmark_and_warns_of_nothing(benched, pytester):
    pytester.makepyfile(test_it=TEST.replace("bench(0.5, 0.25, 1.0)", "bench()"))
    result = benched("-W", "error")
    result.assert_outcomes(passed=1)
    assert "benchmark: 1 tests" not in result.stdout.str()


def test_everything_works_without_it(benched):
    benched(plugins=[]).assert_outcomes(passed=1)


def test_the_gpu_is_in_its_files(benched, pytester):
    pytester.makeconftest(CONFTEST + GPU.format(name="A100-SXM4-40GB", slug="a100-sxm4-40gb"))
    benched("--sdperf-gpu=a100", "--benchmark-json=out.json").assert_outcomes(passed=1)
    assert stored(pytester)["machine_info"][MACHINE_KEY] == {
        "kind": "cuda",
        "name": "NVIDIA A100-SXM4-40GB",
        "slug": "a100-sxm4-40gb",
        "machine": {"driver": "1"},
    }


def test_a_comparison_with_the_same_gpu_shows_both_and_with_another_stops(benched, pytester):
    pytester.makeconftest(CONFTEST + GPU.format(name="A100-SXM4-40GB", slug="a100-sxm4-40gb"))
    benched("--sdperf-gpu=auto", "--benchmark-save=first").assert_outcomes(passed=1)
    same = benched("--sdperf-gpu=auto", "--benchmark-compare")
    same.stdout.fnmatch_lines(["*benchmark: 2 tests*", "*(0001_first)*"])
    pytester.makeconftest(CONFTEST + GPU.format(name="H100", slug="h100-sxm"))
    other = benched("--sdperf-gpu=auto", "--benchmark-compare")
    assert other.ret == 4
    message = (
        "ERROR: --benchmark-compare: the stored run was measured on NVIDIA A100-SXM4-40GB, this one runs on NVIDIA "
        "H100. Compare with a run of the same device, or leave --benchmark-compare out."
    )
    assert message in other.errlines


def test_a_gpu_is_not_compared_with_a_cpu():
    device = Device("cuda", "NVIDIA H100", "h100-sxm")
    with pytest.raises(SdperfError) as caught:
        check_machine({"node": "x"}, {MACHINE_KEY: machine_entry(device)})
    assert str(caught.value) == (
        "--benchmark-compare: the stored run was measured on NVIDIA H100, this one runs on a CPU. "
        "Compare with a run of the same device, or leave --benchmark-compare out."
    )
    check_machine({"node": "x"}, {"node": "y"})


def test_there_is_one_judge(benched):
    benched("--benchmark-save=first")
    result = benched("--benchmark-compare", "--benchmark-compare-fail=mean:5%")
    assert result.ret == 4
    message = (
        "ERROR: --benchmark-compare-fail cannot judge the tests that use 'sdperf_bench': they are judged against the "
        "baselines, and there is one judge. Leave it out, or set the limit with sdperf_min_effect."
    )
    assert message in result.errlines


def test_its_output_is_refused_in_a_worker_of_xdist(benched):
    result = benched("-n1", "--benchmark-json=out.json", plugins=[*BENCHMARK, *XDIST])
    assert result.ret == 4
    assert f"ERROR: {refused('json')}" in result.outlines


@pytest.mark.parametrize("name", ["json", "save", "autosave", "compare", "histogram"])
def test_every_output_is_refused_where_xdist_switches_it_off(pytester, monkeypatch, name):
    config = pytester.parseconfig("-p", "no:cacheprovider")
    monkeypatch.setattr(config, "option", argparse.Namespace(dist="load", **{f"benchmark_{name}": "x"}))
    with pytest.raises(SdperfError) as caught:
        check_options(config)
    assert str(caught.value) == refused(name)


def refused(name):
    return (
        f"--benchmark-{name} needs pytest-benchmark, which pytest-xdist switches off. "
        f"Run without distribution (-n0), or leave --benchmark-{name} out."
    )
