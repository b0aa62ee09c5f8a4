"""The processes of a case: which of them run beside others, and which alone."""

from __future__ import annotations

import json

import pytest
from user_project import COUNTED, SPEED_TEST

pytestmark = pytest.mark.slow

# An engine that writes down when it does what.
WITNESS = """
    import json, os, time
    from contextlib import contextmanager
    from pathlib import Path

    import acme_engines
    import dense_model

    LOG = Path(__file__).with_name("log.jsonl")

    def note(what):
        with LOG.open("a") as log:
            log.write(json.dumps([what, os.getpid(), time.monotonic()]) + "\\n")

    class Witness(acme_engines.AcmeEngine):
        def preload(self, model, component):
            time.sleep(0.3)
            note("ready")

        @contextmanager
        def load(self, request):
            note("load")
            with super().load(request) as runner:
                yield runner
            note("done")

    def pytest_sdperf_register(catalog):
        dense_model.pytest_sdperf_register(catalog)
        catalog.add_engine(Witness("acme"))
"""
RIGHT = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
    def test_right(runner, agree):
        agree(runner)
"""


@pytest.fixture
def witness(user):
    def log(tests: str, *arguments: str) -> list[list]:
        user.project(conftest=WITNESS, tests=tests, options={"engine": "acme"})
        (user.path / "log.jsonl").unlink(missing_ok=True)
        result = user.run(*arguments)
        assert result.ret == 0
        return [json.loads(line) for line in (user.path / "log.jsonl").read_text().splitlines()]

    return log


def most_waiting(log) -> int:
    """Return how many processes were ready and had not begun, at most."""
    waiting = most = 0
    for what, _, _ in log:
        waiting += {"ready": 1, "load": -1, "done": 0}[what]
        most = max(most, waiting)
    return most


def assert_alone(log):
    """Each process that is timed is done before the next one loads."""
    timed = [(what, pid) for what, pid, _ in log if what != "ready"]
    assert [what for what, _ in timed] == ["load", "done"] * (len(timed) // 2)
    pids = [pid for _, pid in timed]
    assert pids[::2] == pids[1::2]
    assert len(set(pids)) == len(pids) // 2


# On a machine where something else runs, up to two more take the place of those that waited for processors.
MOST_REPLACED = 2


def test_processes_get_ready_together_and_measure_alone(witness):
    log = witness(SPEED_TEST, "--sdperf-processes=3")
    assert [what for what, _, _ in log[:3]] == ["ready"] * 3
    assert_alone(log)
    assert 3 <= [what for what, _, _ in log].count("done") <= 3 + MOST_REPLACED


def test_no_more_than_four_wait_at_a_time(witness):
    log = witness(SPEED_TEST, "--sdperf-processes=5")
    assert most_waiting(log) == 4
    assert_alone(log)
    assert 5 <= [what for what, _, _ in log].count("done") <= 5 + MOST_REPLACED


def test_each_run_of_a_case_is_a_process_of_its_own(witness):
    """One of the test, three of an agreement whose engine does not promise equal bits, and one to look inside."""
    log = witness(
        """
        import pytest

        @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
        def test_right(runner, agree):
            outputs = runner.run()
            agree(runner)
            assert set(outputs) == {"out_sample"}
        """
    )
    assert [what for what, _, _ in log] == [
        "ready",
        "load",
        "done",
    ] * 5
    assert len({pid for _, pid, _ in log}) == 5


def test_an_agreement_that_fails_ahead_fails_at_its_test(acme):
    acme.project(conftest=COUNTED, tests=RIGHT)
    result = acme.run("--sdperf-engine=acme-refuses")
    result.assert_outcomes(failed=1)
    assert result.ret == 1
    assert acme.failures()[0].splitlines()[0] == "ValueError: acme: this shape has no kernel"
    assert (acme.path / "loaded").read_text() == "acme-refuses\n"
