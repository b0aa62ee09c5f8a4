"""What watches the code of a process that measures is a fact of its sample, and makes it INVALID."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from sample_values import measurement

from pytest_sdperf.checks.judging.fitness import unfit
from pytest_sdperf.checks.judging.policy import Policy
from pytest_sdperf.tasks.sampling import instruments

ROOT = Path(instruments.__file__).parents[3]
# What a program does before it measures -> what is said of it. Each in a process of its own.
WATCHERS = {
    "nothing": ("", []),
    "a trace function": ("sys.settrace(lambda *event: None)", ["sys.settrace (__main__)"]),
    "a profile function": ("sys.setprofile(lambda *event: None)", ["sys.setprofile (__main__)"]),
    "an object": (
        "sys.settrace(type('T', (), {'__call__': lambda *event: None, '__module__': 'acme.tool'})())",
        ["sys.settrace (acme)"],
    ),
    "a profiler": (
        "import cProfile; cProfile.Profile().enable()",
        ["sys.monitoring (cProfile)" if sys.version_info >= (3, 12) else "sys.setprofile (cProfile)"],
    ),
    "threads to come": (
        "import threading; threading.settrace(print); threading.setprofile(print)",
        ["threading.settrace (builtins)", "threading.setprofile (builtins)"],
    ),
    "allocations": ("import tracemalloc; tracemalloc.start()", ["tracemalloc"]),
    "allocations no longer": ("import tracemalloc; tracemalloc.start(); tracemalloc.stop()", []),
    "coverage, where it is loaded": (
        "import os, types; os.environ['COVERAGE_PROCESS_CONFIG'] = ':data:'; sys.modules['coverage'] = types",
        ["COVERAGE_PROCESS_CONFIG"],
    ),
    "coverage, of which there is the variable alone": ("import os; os.environ['COVERAGE_PROCESS_START'] = 'x'", []),
    "tools of Python 3.12": (
        "import types; sys.monitoring = types.SimpleNamespace(get_tool=[0, 'coverage', 0, 0, 'acme', 0].__getitem__)",
        ["sys.monitoring (coverage)", "sys.monitoring (acme)"],
    ),
}


def answer_of(program, **env):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("before", "told"), WATCHERS.values(), ids=WATCHERS)
def test_what_watches_is_named(before, told):
    program = f"import json, sys\nfrom pytest_sdperf.tasks.sampling.instruments import instruments\n{before}\n"
    assert answer_of(f"{program}found = instruments()\nsys.settrace(None)\nprint(json.dumps(found))") == told


def test_a_debugger_in_pytests_own_process_is_what_somebody_wants():
    trace = sys.gettrace()
    sys.settrace(lambda *event: None)
    try:
        seen = instruments.instruments_of_worker()
    finally:
        sys.settrace(trace)
    assert seen == []


# Python names the file that it was started with: that of workers, or pytest's.
SAMPLE = """
    import json
    import sys
    from pytest_sdperf.tasks import worker
    from pytest_sdperf.tasks.sampling.phases import Silent
    from pytest_sdperf.tasks.sampling.timing import TimingPlan, take_sample

    __file__ = {file}
    {before}
    sample = take_sample(lambda: None, TimingPlan(min_iterations=1, timed_s=0.0), listener=Silent(), on_cpu=True)
    sys.settrace(None)
    print(json.dumps(sample.facts.get("instrumented")))
"""


@pytest.mark.parametrize(
    ("file", "before", "told"),
    [
        ("worker.__file__", "sys.settrace(lambda *event: None)", ["sys.settrace (__main__)"]),
        ("worker.__file__", "", None),
        ("sys.executable", "sys.settrace(lambda *event: None)", None),
    ],
    ids=["worker", "worker that nobody watches", "pytest"],
)
def test_what_watches_a_worker_is_a_fact_of_its_sample(file, before, told):
    assert answer_of(SAMPLE.format(file=file, before=before)) == told


def watched(*names):
    whole = measurement()
    facts = {"instrumented": list(names)} if names else {}
    return dataclasses.replace(whole, samples=tuple(dataclasses.replace(one, facts=facts) for one in whole.samples))


def test_a_measurement_that_was_watched_is_invalid():
    verdict = unfit(watched("sys.settrace (coverage)", "tracemalloc"), None, policy=Policy(), differences={})
    assert (verdict.outcome.value, verdict.code) == ("INVALID", "instrumented")
    assert verdict.text == (
        "UNet was measured while its code was watched by sys.settrace (coverage), "
        "tracemalloc, which takes time and memory. Start pytest without it; coverage reaches no process that measures "
        "where [run] has no `patch = subprocess` and COVERAGE_PROCESS_START is not set. [instrumented]"
    )


def test_one_that_was_not_is_judged():
    assert unfit(watched(), None, policy=Policy(), differences={}) is None
