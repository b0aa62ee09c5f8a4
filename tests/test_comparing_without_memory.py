"""Memory that runs out while something is compared is no disagreement, whichever fixture compares."""

from __future__ import annotations

import pytest

from pytest_sdperf.checking import precision, semantics
from pytest_sdperf.errors import OutOfMemoryError

ASKED = ("--sdperf-component=pipeline", "--sdperf-engine=torch", "--sdperf-optimization=fp32")
ERROR = "CUDA out of memory. Tried to allocate 2.00 GiB."
SAID = f"INCONCLUSIVE: Memory ran out, so nothing was compared: {ERROR} [out-of-memory]"


@pytest.fixture(autouse=True)
def no_memory(monkeypatch):
    def run_out(*given, **named):
        raise OutOfMemoryError(ERROR)

    monkeypatch.setattr(semantics, "look", run_out)
    monkeypatch.setattr(precision, "torch_drift", run_out)


@pytest.fixture(params=["pictures(runner)", "drift(runner, 'float16')"])
def run(request, pytester, sdperf):
    pytester.makepyfile(f"def test_seen(runner, {request.param.partition('(')[0]}): {request.param}")
    return lambda *more: sdperf(*ASKED, "--sdperf-resolution=128", "-rs", *more)


def test_it_is_inconclusive(run):
    result = run()
    result.assert_outcomes(skipped=1)
    assert [line.split(": ", 1)[1] for line in result.outlines if line.startswith("SKIPPED")] == [SAID]
    assert result.ret == 0


def test_it_fails_where_that_is_asked_for(run):
    result = run("--sdperf-fail-on=inconclusive")
    result.assert_outcomes(failed=1)
    assert SAID in result.outlines
    assert not [line for line in result.outlines if "another exception" in line]
    assert result.ret == 11
