"""Whatever happens to a worker becomes a verdict of its own test, and the run goes on."""

from __future__ import annotations

import pytest
from user_project import ACME, COUNTED, RECORD, report_of

pytestmark = pytest.mark.slow

DEATHS = {
    "acme-aborts": (
        "worker-crash",
        (
            "The worker was ended by SIGABRT. Its last words:\nterminate called after throwing an instance of "
            "'acme::Error'"
        ),
    ),
    "acme-killed": (
        "worker-killed",
        (
            "The worker was ended by SIGKILL; the kernel may have run out of host memory. Its last words:\ncompiling "
            "the 7th kernel"
        ),
    ),
    "acme-hangs": (
        "worker-timeout",
        "The worker gave no answer within 5 s and was ended. Its last words:\nwaiting for the device",
    ),
    "acme-leaves": (
        "worker-crash",
        "The worker ended with exit status 3 and no answer. Its last words:\nacme: license server not found",
    ),
}
TOO_LATE = (
    "The worker gave no answer within 2 s and was ended while building (weights). Allow more with "
    "-o sdperf_build_timeout=TIME. It wrote nothing to stderr."
)
FULL = ["acme-host-full", "acme-device-full"]


def test_each_death_is_invalid_with_the_last_words_and_the_next_case_runs(acme):
    result = acme.run(f"--sdperf-engine={','.join([*DEATHS, 'acme-refuses', 'acme'])}", "-osdperf_worker_timeout=5")
    result.assert_outcomes(failed=5, passed=1)
    assert result.ret == 10
    assert acme.junit() == {"tests": 6, "failures": 5, "errors": 0, "skipped": 0}
    found = acme.by_engine()
    assert {name: (found[name]["code"], found[name]["sentence"]) for name in DEATHS} == DEATHS
    assert {found[name]["outcome"] for name in DEATHS} == {"INVALID"}
    assert found["acme"]["outcome"] == "NEW"
    for code, sentence in DEATHS.values():
        assert f"INVALID: {sentence} [{code}]" in result.stdout.str()
    lines = report_of(result)
    assert "verdicts of 6 cases: 5 INVALID, 1 NEW" in lines
    assert "next, measure what was invalid again, once its reason is gone:" in lines


def test_an_error_of_the_engine_is_invalid_with_the_end_of_its_traceback(acme):
    result = acme.run("--sdperf-engine=acme-refuses")
    assert result.ret == 10
    (verdict,) = acme.verdicts("measurement")
    first, *tail = verdict["sentence"].splitlines()
    assert (verdict["outcome"], verdict["code"]) == ("INVALID", "worker-error")
    assert first == "ValueError: acme: this shape has no kernel. Its last words:"
    assert tail[-2:] == [
        '    raise ValueError("acme: this shape has no kernel")',
        "ValueError: acme: this shape has no kernel",
    ]
    assert "/hooks/delivery.py" not in result.stdout.str()  # a sentence, no traceback of ours


def test_out_of_memory_is_a_value_that_is_stored_and_compared(acme, monkeypatch):
    def measure(*arguments: str) -> tuple[int, list[tuple[str, str]]]:
        result = acme.run(*arguments)
        return result.ret, [(verdict["outcome"], verdict["code"]) for verdict in acme.verdicts()]

    monkeypatch.setenv("ACME", "oom")
    first = acme.run(*RECORD)
    assert first.ret == 0
    assert "  fp32      OOM" in report_of(first)
    assert [verdict["code"] for verdict in acme.verdicts()] == ["no-baseline"]
    (session,) = acme.stored_case()["sessions"]
    assert (session["failure"], session["samples"]) == ("oom", [])
    assert measure() == (0, [("HELD", "oom-as-before")])

    monkeypatch.delenv("ACME")
    assert measure(*RECORD) == (0, [("IMPROVED", "number-instead-of-oom")])
    assert [bool(session["samples"]) for session in acme.stored_case()["sessions"]] == [False, True]

    monkeypatch.setenv("ACME", "oom")
    assert measure() == (1, [("REGRESSED", "oom-instead-of-number")])
    (verdict,) = acme.verdicts()
    assert verdict["sentence"].startswith("UNet latency is OOM: the device ran out of memory where its baseline took ")


def test_memory_that_ran_out_in_the_host_counts_like_the_devices(acme):
    result = acme.run(f"--sdperf-engine={','.join(FULL)}")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    assert {name: verdict["sentence"] for name, verdict in acme.by_engine().items()} == dict.fromkeys(
        FULL, "UNet latency is OOM (the device ran out of memory) and has no baseline yet."
    )


def test_a_build_that_hangs_is_tried_once_and_names_the_option(acme):
    model = acme.path / "dense_model.py"
    drawn = acme.path / "drawn.txt"
    hang = f"open({str(drawn)!r}, 'a').write('once '); import time; time.sleep(600)"
    model.write_text(model.read_text().replace("drawn = {}", hang))
    result = acme.run("-osdperf_build_timeout=2")
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    assert acme.failures() == [f"INVALID: {TOO_LATE} [worker-timeout]"]
    (verdict,) = acme.verdicts("run")
    assert (verdict["outcome"], verdict["code"], verdict["sentence"]) == ("INVALID", "worker-timeout", TOO_LATE)
    assert drawn.read_text() == "once "
    assert "next, measure what was invalid again, once its reason is gone:" in report_of(result)


def test_a_build_that_hangs_is_invalid_also_where_nothing_is_measured(acme):
    acme.project(
        conftest=ACME,
        tests="""
            import pytest

            @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
            def test_size(build, engine):
                assert build.size_bytes > 0
        """,
        options={"engine": "acme"},
    )
    model = acme.path / "dense_model.py"
    drawn = acme.path / "drawn.txt"
    hang = f"open({str(drawn)!r}, 'a').write('once '); import time; time.sleep(600)"
    model.write_text(model.read_text().replace("drawn = {}", hang))
    result = acme.run("-osdperf_build_timeout=2")
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    (verdict,) = acme.verdicts("run")
    assert (verdict["outcome"], verdict["code"], verdict["sentence"]) == ("INVALID", "worker-timeout", TOO_LATE)


AGREES = """
    import pytest

    @pytest.mark.sdperf(components=["unet"], optimizations=["fp32"])
    def test_right(runner, agree):
        agree(runner)
"""


def test_an_agreement_without_memory_is_inconclusive(acme, monkeypatch):
    acme.project(conftest=ACME, tests=AGREES)
    monkeypatch.setenv("ACME", "oom")
    result = acme.run("--sdperf-engine=acme", "-rs")
    result.assert_outcomes(skipped=1)
    assert result.ret == 0
    (verdict,) = acme.verdicts("agreement")
    assert (verdict["outcome"], verdict["code"]) == ("INCONCLUSIVE", "out-of-memory")
    assert verdict["sentence"].startswith("Memory ran out, so nothing was compared: RuntimeError: CUDA out of memory.")
    assert acme.run("--sdperf-engine=acme", "--sdperf-fail-on=inconclusive").ret == 11


def test_an_agreement_that_hangs_is_invalid(acme):
    acme.project(conftest=COUNTED, tests=AGREES)
    assert acme.run("--sdperf-engine=acme").ret == 0  # its references are kept
    (acme.path / "loaded").unlink()
    result = acme.run("--sdperf-engine=acme-hangs", "-osdperf_worker_timeout=5")
    result.assert_outcomes(failed=1)
    assert result.ret == 10
    code, sentence = DEATHS["acme-hangs"]
    assert acme.failures() == [f"INVALID: {sentence} [{code}]"]
    assert (acme.path / "loaded").read_text() == "acme-hangs\n"
