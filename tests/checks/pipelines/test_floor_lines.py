"""How the floor table reads."""

from __future__ import annotations

from sample_values import case, failed, measurement

from pytest_sdperf.checks.pipelines.tables.floors import floor_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.stats.pairs import Pairs
from pytest_sdperf.core.values.calibration import Calibration
from pytest_sdperf.core.values.floor import Floor

RATES = Calibration(780e12, 2.99e12, "float16", "torch 2.13.0")
GPU = {"model": "sd15", "engine": "ort-cuda", "height": 512, "width": 512}


def floor(scale=1.0, basis="measured"):
    return Floor(1.6065e12 * scale, 2.5e11, 1.72e9, 2.27e-3 * scale, basis, 1.62e-3 * scale)


def report(ms, of, **fields):
    return CaseReport("a test", of, measurement(ms, ms, ms, case=of, calibration=RATES, **fields))


def lines(*reports, width=100):
    return [(line.text, line.styles) for line in floor_lines(reports, width=width)]


def test_each_case_says_how_much_of_the_possible_speed_it_reaches():
    one, eight = case(**GPU), case(**GPU, batch_size=8)
    found = lines(report(7.03, one, floor=floor()), report(12.0, eight, floor=floor(8)), report(8, one))
    assert found == [
        ("floor                                    TFLOP    floor  latency  reached", ("bold",)),
        ("  sd15 unet fp16 (ort) ort-cuda batch 1   1.61  2.27 ms  7.03 ms   32.3 %", ()),
        ("  sd15 unet fp16 (ort) ort-cuda batch 8   12.9  18.2 ms  12.0 ms    151 %", ("red",)),
        ("  floor: the least time on this device if every product, convolution and attention ran at the rates", ()),
        ("  measured on it (780 TFLOP/s, 2,990 GB/s) and all else cost nothing; reached: the share of that", ()),
        ("  speed", ()),
    ]


def test_each_side_of_an_ab_has_its_own_row():
    one, half = case(**GPU), case(**{**GPU, "optimization": "fp32"})
    sides = Pairs(*(measurement(ms, ms, case=of, floor=floor()) for ms, of in ((7.03, one), (14.0, half))))
    texts = [text for text, _ in lines(CaseReport("a test", one, pairs=sides))]
    assert texts[:3] == [
        "floor                               TFLOP    floor  latency  reached",
        "  A: sd15 unet fp16 (ort) ort-cuda   1.61  2.27 ms  7.03 ms   32.3 %",
        "  B: sd15 unet fp32 (ort) ort-cuda   1.61  2.27 ms  14.0 ms   16.2 %",
    ]


def test_without_a_calibration_the_data_sheet_is_named():
    texts = [text for text, _ in lines(report(7.03, case(**GPU), floor=floor(basis="data sheet")), width=200)]
    assert texts[-1] == (
        "  floor: the least time on this device if every product, convolution and attention ran at the rates of its "
        "data sheet and all else cost nothing; reached: the share of that speed"
    )


def test_why_a_floor_is_not_known_is_said_once():
    both = [report(7.03, case(**GPU, batch_size=size), floor_not_known="nobody counted") for size in (1, 8)]
    assert lines(*both) == [("The physical floor is not known: nobody counted.", ())]


def test_a_processor_has_no_table():
    assert (
        lines(report(7.03, case()), CaseReport("a test", case(), failed("oom", "no room")), CaseReport("b", case()))
        == []
    )
