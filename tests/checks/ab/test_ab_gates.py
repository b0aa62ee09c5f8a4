"""The second side of an A/B meets the gates of the first: what ran, and the physical floor. The device is played."""

from __future__ import annotations

import json

import pytest

CONFTEST = """
    import dataclasses
    from types import SimpleNamespace

    import pytest
    from door_toys import ToyProbe
    from sample_values import measurement

    from pytest_sdperf.core.values.calibration import Calibration
    from pytest_sdperf.core.device import Device
    from pytest_sdperf.core.values.floor import Floor
    from pytest_sdperf.plugin.fixtures import measurements
    from pytest_sdperf.core.stats.pairs import Pairs
    from pytest_sdperf.plugin.session import Session, session_of

    GRAPH = {{"cuda_graph": {{"requested": True, "replayed": {replayed}}}}}

    def pytest_sdperf_register(catalog):
        device = Device("cuda", "NVIDIA H100", "h100", uuid="GPU-1", machine={{"driver": "1"}})
        catalog.add_device_probe(ToyProbe(device))

    def measure_pairs(a, b, **rest):
        one, other = (measurement(ms, ms, case=side.case, source="device") for ms, side in ((10.0, a), (8.0, b)))
        samples = tuple(dataclasses.replace(sample, facts=GRAPH) for sample in other.samples)
        return Pairs(one, dataclasses.replace(other, samples=samples))

    def with_floor(measurement, runner):
        assert measurement.calibration is not None
        assert measurement.case == runner.case
        bound_s = {bound_s} if runner.case.engine_options else 0.001
        return dataclasses.replace(measurement, floor=Floor(1e12, 1e11, 1e9, 0.009, "measured", bound_s))

    def played_runner(session, case):
        return SimpleNamespace(case=case, builds=dict, has_outputs=False, context=session.context)

    @pytest.fixture(autouse=True)
    def played(monkeypatch):
        monkeypatch.setattr(measurements, "measure_pairs", measure_pairs)
        monkeypatch.setattr(measurements, "with_floor", with_floor)
        monkeypatch.setattr(Session, "calibration", lambda self, case: Calibration(8e14, 3e12, "float16", "torch"))
        monkeypatch.setattr(Session, "other_runner", lambda self, other: played_runner(self, other.case))

    @pytest.fixture(scope="session")
    def sdperf_runner(sdperf_case, request):
        return played_runner(session_of(request.config), sdperf_case)
"""
TEST = """
    def test_speed(bench, runner):
        bench(runner)
"""
ARGUMENTS = [
    *("--sdperf-gpu=auto", "--sdperf-engine=ort-cuda", "--sdperf-ab-engine=ort-cuda:cuda_graph=on"),
    *("--sdperf-component=unet", "--sdperf-optimization=fp16", "--sdperf-json=out.json", "--sdperf-state-dir=state"),
]


@pytest.mark.parametrize(
    ("replayed", "bound_s", "found"),
    [
        (True, 0.001, [("IMPROVED", "pairs-faster"), ("PASSED", "graph-replayed")]),
        (False, 0.001, [("IMPROVED", "pairs-faster"), ("INVALID", "graph-not-replayed")]),
        (True, 0.009, [("INVALID", "below-floor")]),
    ],
)
def test_a_faster_side_is_believed_only_where_it_ran_as_asked_and_as_physics_allows(
    pytester, sdperf, replayed, bound_s, found
):
    pytester.makeconftest(CONFTEST.format(replayed=replayed, bound_s=bound_s))
    pytester.makepyfile(test_mine=TEST)
    result = sdperf(*ARGUMENTS, "-v")
    invalid = any(outcome == "INVALID" for outcome, _ in found)
    assert result.ret == (10 if invalid else 0)
    (report,) = json.loads((pytester.path / "out.json").read_text())["reports"]
    told = [(one["outcome"], one["code"]) for one in report["verdicts"] if not one["metric"].endswith("-memory")]
    assert told == found
    left = "  B: sd15 unet fp16 ort-cuda:cuda_graph=on batch 1: CUDA graph not replayed"
    assert (left in result.outlines) is not replayed
    sides = [
        line.split()[0] for line in result.outlines if line.startswith(("  A: sd15 unet fp16 (", "  B: sd15 unet"))
    ]
    assert sides[:2] == ["A:", "B:"]  # of the floor
