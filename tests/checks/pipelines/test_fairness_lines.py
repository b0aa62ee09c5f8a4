"""What several engines did for the time of one request: read as a whole."""

from __future__ import annotations

import dataclasses

from sample_values import case, compared, measurement, sample

from pytest_sdperf.checks.pipelines.tables.fairness import fairness_lines
from pytest_sdperf.checks.pipelines.tables.tables import table_lines
from pytest_sdperf.checks.reporting.case_report import CaseReport
from pytest_sdperf.core.values.artifact import Artifact, BuildStep
from pytest_sdperf.core.values.outcomes import Agreement

WHOLE = {"model": "sd15", "component": "pipeline", "steps": 50, "scheduler": "pndm", "height": 512, "width": 512}
ORT = case(**WHOLE, engine="ort-cuda", optimization="bias-add", fuser="native")
TORCH = case(**WHOLE, engine="torch", optimization="fp16", fuser="", exporter="", opset=0, shapes="")
ONEDIFF = dataclasses.replace(TORCH, engine="onediff")
AGREES = Agreement("image", "relative-l2", 1e-3, 1e-3, 2e-3, "float16", "float32", "image[0]")


def parts(unet, vae="float32"):
    return {"components": {"unet": {"accumulation": unet}, "vae_decoder": {"accumulation": vae} if vae else {}}}


def measured(of, *, calls=51, artifacts=None, **facts):
    taken = dataclasses.replace(sample(500, source="device", calls=calls), load_s=2.0, first_run_s=1.5, facts=facts)
    return CaseReport(
        f"test_it[{of.engine}]",
        of,
        dataclasses.replace(measurement(case=of), samples=(taken,) * 3, artifacts=artifacts or {}),
    )


def agreed(of, error=1e-3, level="image"):
    return compared("test_agreement", of, dataclasses.replace(AGREES, error=error, level=level))


TOLD = {"vae_dtype": "float32", "caching": "none"}


def lines(*reports):
    return [line.text for line in fairness_lines(reports, width=200)]


def test_every_engine_says_what_it_did_for_its_time():
    compiled = {"unet": Artifact(5, 7, (BuildStep("export", 20.0), BuildStep("compile", 90.0)))}
    reports = (
        measured(ORT, **TOLD, **parts("float32")),
        measured(TORCH, **TOLD, **parts("float32", "")),
        measured(ONEDIFF, calls=50, artifacts=compiled, **parts("float16", "float16")),
        agreed(ORT),
        agreed(ONEDIFF, error=1.0),
    )
    assert lines(*reports) == [
        "the same request by several engines",
        (
            "  sd15 bias-add ort-cuda batch 1: 51 UNet calls for 50 steps; products accumulated in float32; VAE in "
            "float32; caching none; ready after 3.50 s; agreement: passed"
        ),
        (
            "  sd15 fp16 torch batch 1: 51 UNet calls for 50 steps; products accumulated in: unet float32, "
            "vae_decoder not told; VAE in float32; caching none; ready after 3.50 s; agreement: not looked at"
        ),
        (
            "  sd15 fp16 onediff batch 1: 50 UNet calls for 50 steps; products accumulated in float16; VAE in a type "
            "that is not told; caching not told; ready after 3.50 s, compiled before in 90.0 s; agreement:"
        ),
        "    FAILED, so its time is no result",
    ]


def test_nothing_is_said_of_one_engine_alone():
    other_size = dataclasses.replace(TORCH, height=768, width=768)
    optimizations = dataclasses.replace(ORT, optimization="fp16")
    part = dataclasses.replace(TORCH, component="unet", steps=0, scheduler="")
    for second in (other_size, optimizations, part):
        assert lines(measured(ORT, **TOLD), measured(second, **TOLD)) == []


def test_what_no_engine_tells_is_not_made_up():
    (_, first, second) = lines(measured(ORT), measured(TORCH, tuning="in this process"))
    assert first == (
        "  sd15 bias-add ort-cuda batch 1: 51 UNet calls for 50 steps; accumulation not told; VAE in a type that is "
        "not told; caching not told; ready after 3.50 s; agreement: not looked at"
    )
    assert second.endswith("ready after 3.50 s, tuning in this process; agreement: not looked at")


def test_components_that_agree_are_not_the_request():
    unet = dataclasses.replace(ORT, component="unet", steps=0, scheduler="")
    text = lines(measured(ORT), measured(TORCH), agreed(unet, level="component"))[1]
    assert text.endswith("agreement: passed by components alone")


def test_sums_in_float16_are_marked_in_the_table():
    reports = [measured(TORCH, **parts("float32")), measured(ONEDIFF, **parts("float16"))]
    texts = [line.text for line in table_lines(reports, width=200)]
    rows = [text.partition("  5")[0].rstrip() for text in texts if text.startswith("  fp16")]
    assert rows == ["  fp16 torch", "  fp16 onediff (float16 sums)"]
    assert " ".join(text.strip() for text in texts).endswith(
        "float16 sums: products are accumulated in float16, faster and less exactly than in other rows; MB = 2^20 "
        "bytes on the whole device, peak of the first and the second run, the least of the processes"
    )
    assert not any("float16 sums" in line.text for line in table_lines(reports[:1], width=200))
