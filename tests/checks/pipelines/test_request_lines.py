"""How the table of whole requests reads."""

from __future__ import annotations

import dataclasses

from sample_values import case, failed, measurement

from pytest_sdperf.checks.pipelines.tables.requests import request_table
from pytest_sdperf.checks.reporting.case_report import CaseReport

LEGEND = [
    "  images/min by the latency; the others from one request more, watched with the device idle before",
    "  and after each call of a component: it/s are its UNet calls per second without text encoders and",
    "  decoder (some schedulers make one more than steps), UNet the middle one of them, between what",
    "  scheduler, guidance and the rest take in all",
]


def report(engine="ort-cuda", ms=2000.0, *, component="pipeline", batch_size=4, **facts):
    of = case(component=component, model="sd15", height=512, width=512, engine=engine, batch_size=batch_size)
    measured = measurement(ms, ms, ms, case=of)
    samples = tuple(dataclasses.replace(sample, facts=facts) for sample in measured.samples)
    return CaseReport("a test", of, dataclasses.replace(measured, samples=samples))


def text(*reports):
    return [line.text for line in request_table(reports).lines(width=100)]


STAGES = {
    "text_encoder": [0.004, 0.005],
    "text_encoder_2": [0.006, 0.005],
    "unet": [0.036] * 50,
    "vae_decoder": [0.041],
    "between": [0.2],
}


def test_a_row_says_how_many_a_minute_and_where_the_time_goes():
    assert text(report(stages_s=STAGES), report(component="unet")) == [
        "whole requests                       images/min  it/s  encoders     UNet  decoder  between",
        "  sd15 pipeline fp16 (ort) ort-cuda         120  25.0   20.0 ms  36.0 ms  41.0 ms   200 ms",
        *LEGEND,
    ]


def test_a_call_that_stands_out_is_named():
    slow = {**STAGES, "unet": [0.5, *[0.036] * 49]}
    assert text(report(stages_s=slow))[2] == "    the slowest of 50 unet calls takes 500 ms"


def test_a_host_that_waits_in_every_step_is_told():
    def details(synchronizations, **facts):
        waits = {"synchronizations": synchronizations, "copies": 50, "unet_calls": 50}
        return text(report(host_waits=waits, **facts))[2]

    assert details(100, stages_s=STAGES) == (
        "    the host waits for its GPU: 100 synchronizations and 50 copies to the host in 50 UNet calls,"
    )
    assert details(1, stages_s=STAGES).startswith("    the host waits for its GPU: 1 synchronization and 50 copies")
    fewer = {"synchronizations": 3, "copies": 1, "unet_calls": 50}
    assert text(report(host_waits=fewer, stages_s=STAGES))[2] == LEGEND[0]


def test_where_watching_failed_there_are_dashes_and_the_reason():
    why = "the watched request failed: RuntimeError: no room"
    lines = text(report("onediff", 3000.0, stages_s=STAGES), report("torch", stages_not_available=why, batch_size=1))
    assert lines[1:4] == [
        "  sd15 pipeline fp16 (ort) onediff batch 4        80.0  25.0   20.0 ms  36.0 ms  41.0 ms   200 ms",
        "  sd15 pipeline fp16 (ort) torch batch 1          30.0     -         -        -        -        -",
        f"    {why}",
    ]


def test_what_was_not_watched_or_not_measured_has_no_row():
    of = case(component="pipeline")
    assert text(CaseReport("x", of, failed("oom", "no room", case=of)), CaseReport("y", of)) == []
    assert text(report()) == []
    assert text(report(ms=0.0, stages_s=STAGES)) == []
