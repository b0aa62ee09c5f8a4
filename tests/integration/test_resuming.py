"""A run that is killed in the middle, and the next one, with real workers."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from user_project import report_of

pytestmark = pytest.mark.slow

# An engine that ends pytest at one batch size: as a reboot or an out-of-memory killer would.
DEADLY = """
    import os
    import signal
    from contextlib import contextmanager
    from pathlib import Path

    import acme_engines
    import dense_model

    class Deadly(acme_engines.AcmeEngine):
        @contextmanager
        def load(self, request):
            with Path(__file__).with_name("log").open("a") as log:
                log.write(f"{request.workload.batch_size}\\n")
            if request.workload.batch_size == 2 and Path(__file__).with_name("deadly").exists():
                os.kill(int(Path(__file__).with_name("pytest").read_text()), signal.SIGKILL)
            with super().load(request) as runner:
                yield runner

    def pytest_configure():
        Path(__file__).with_name("pytest").write_text(str(os.getpid()))

    def pytest_sdperf_register(catalog):
        dense_model.pytest_sdperf_register(catalog)
        catalog.add_engine(Deadly("acme"))
"""


def sizes(path: Path) -> list[str]:
    """Return the batch sizes in the order they were measured; one that was disturbed may have taken more processes."""
    return list(dict.fromkeys(path.read_text().split()))


def test_a_killed_run_is_resumed(user):
    user.project(conftest=DEADLY, options={"engine": "acme", "batch-size": "1,2,3"})
    (user.path / "deadly").touch()
    assert user.run().ret == -signal.SIGKILL
    log = user.path / "log"
    assert sizes(log) == ["1", "2"]
    (user.path / "deadly").unlink()

    plan = user.run("--sdperf-resume", "--sdperf-plan")
    assert plan.ret == 0
    start = next(number for number, line in enumerate(plan.outlines) if line.startswith("case "))
    assert [" ".join(line.split()) for line in plan.outlines[start + 1 : start + 7]] == [
        "dense-unet-on-acme-at-fp32 - - unknown",
        "speed; in the cache; speed is resumed",
        "dense-unet-on-acme-at-fp32-batch-2 unknown - unknown",
        "speed; in the cache",
        "dense-unet-on-acme-at-fp32-batch-3 unknown - unknown",
        "speed; in the cache",
    ]

    log.write_text("")
    result = user.run("--sdperf-resume", "-v")
    result.assert_outcomes(passed=3)
    assert sizes(log) == ["2", "3"]
    lines = report_of(result)
    start = lines.index("RESUMED 1 case that an interrupted run measured; the others are of now")
    assert lines[start + 1].endswith("Z test_mine.py::test_speed[dense-unet-on-acme-at-fp32]")
    assert [bool(report["measurement"]["resumed"]) for report in user.results()["reports"]] == [True, False, False]
    assert list((user.path / "state" / "unfinished").rglob("*.json")) == []


def test_another_environment_is_measured_again(user, monkeypatch):
    user.project(conftest=DEADLY, options={"engine": "acme", "batch-size": "1,2"})
    (user.path / "deadly").touch()
    user.run()
    (user.path / "deadly").unlink()
    (user.path / "log").write_text("")
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    result = user.run("--sdperf-resume")
    result.assert_outcomes(passed=2)
    assert sizes(user.path / "log") == ["1", "2"]
    assert (
        "measuring dense unet at fp32 on acme again: what an interrupted run left has another environment"
        in result.outlines
    )
