"""An engine that compiles: it is slow once, in a process of its own, and every later process begins with the result."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow

COMPILER = """
    import json, os
    from contextlib import contextmanager
    from pathlib import Path

    import acme_engines
    import dense_model

    LOG = Path(__file__).with_name("log.txt")

    class Compiler(acme_engines.AcmeEngine):
        compiles = True

        def versions(self):
            return {**super().versions(), "compiler": os.environ.get("ACME", "")}

        @contextmanager
        def load(self, request):
            kernels = request.work_dir / "kernels"
            if not kernels.is_file():
                if os.environ.get("ACME") == "hang":
                    acme_engines.hang()
                kernels.write_text(request.component)
                with LOG.open("a") as log:
                    log.write(f"{os.getpid()}\\n")
            with super().load(request) as runner:
                yield runner

    def pytest_sdperf_register(catalog):
        dense_model.pytest_sdperf_register(catalog)
        catalog.add_engine(Compiler("acme-compiler"))
"""


@pytest.fixture
def compiler(user):
    user.project(conftest=COMPILER, options={"engine": "acme-compiler", "processes": 2, "max-processes": 2})
    return user


def compiling(user):
    """Return the processes that compiled, so far."""
    return (user.path / "log.txt").read_text().split()


def test_two_processes_and_the_next_session_find_what_one_process_compiled(compiler):
    for now in (True, False):
        result = compiler.run()
        result.assert_outcomes(passed=1)
        measurement = compiler.results()["reports"][0]["measurement"]
        samples = measurement["samples"]
        (compiled_in,) = compiling(compiler)
        processes = [str(sample["facts"]["own"]["process"]) for sample in samples]
        assert len({compiled_in, *processes}) == 3
        artifact = measurement["artifacts"]["unet"]
        assert artifact["compiled_bytes"] > 0
        assert [(step["name"], step["now"]) for step in artifact["steps"]][-1] == ("compile", now)
        result.stdout.no_fnmatch_line("*is damaged*")


def test_compiling_that_takes_too_long_is_ended_and_the_option_is_named(compiler, monkeypatch):
    compiler.run()
    monkeypatch.setenv("ACME", "hang")  # another version, for which nothing is compiled yet
    result = compiler.run("-osdperf_build_timeout=10s")
    assert result.ret != 0
    failure = compiler.results()["reports"][0]["measurement"]["failure"]
    assert failure["reason"] == "timeout"
    assert failure["message"].endswith("while compiling. Allow more with -o sdperf_build_timeout=TIME.")
    assert failure["tail"] == "waiting for the device"
    end = " of at most 10 s (-o sdperf_build_timeout=TIME)"
    assert [line for line in result.outlines if "compiling dense unet: " in line and end in line]
