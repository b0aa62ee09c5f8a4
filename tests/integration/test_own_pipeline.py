"""Somebody brings a diffusers pipeline of their own: compared, measured, kept in a baseline, and found wrong."""

from __future__ import annotations

import pytest
from own_pipelines import write_pipeline
from user_project import RECORD, joined, report_of

pytestmark = pytest.mark.slow

TESTS = """
    def test_outputs(runner, agree):
        agree(runner)

    def test_speed(runner, bench):
        bench(runner)

    def test_counts(build, expected_counts, fused):
        fused(build, expected_counts)
"""
PIPELINE = """
    from diffusers import StableDiffusionPipeline

    def make():
        return StableDiffusionPipeline.from_pretrained("thin", safety_checker=None)

    def tiled():
        pipeline = make()
        pipeline.vae.enable_tiling()
        pipeline.vae.tile_sample_min_size, pipeline.vae.tile_latent_min_size = 32, 4
        return pipeline

    def unfilled():
        import os, torch
        pipeline = make()
        # What a process finds in memory that nobody filled: its own.
        found = torch.Generator().manual_seed(os.getpid())
        torch.nn.init.normal_(pipeline.unet.conv_out.weight, generator=found)
        return pipeline

    class Unguided(StableDiffusionPipeline):
        do_classifier_free_guidance = False
"""
SMALL = ("--sdperf-resolution=64", "--sdperf-steps=2")


@pytest.fixture(scope="module")
def thin(tmp_path_factory):
    # Before `pytester`, which forgets the modules that a test imports: torch does not survive that.
    return write_pipeline(tmp_path_factory.mktemp("own") / "thin")


@pytest.fixture
def own(thin, user):
    # A conftest that registers nothing, and a project that usually tests something else.
    user.project(conftest="pass", tests=TESTS, options={"model": "sd15-thin"})
    (user.path / "thin").symlink_to(thin)
    user.pytester.makepyfile(mypipe=PIPELINE)
    return user


def test_a_pipeline_is_compared_measured_and_kept(own):
    first = own.run("--sdperf-pipeline=mypipe:make", *SMALL, *RECORD, "-rs")
    first.assert_outcomes(passed=2, skipped=1)
    assert own.outcomes() == ["NEW"]
    (key,) = own.stored_cases()
    start, _, rest = key.partition(" weights=pipeline-")
    assert start == "model=mypipe.make component=pipeline engine=diffusers optimization=as-is"
    assert rest.partition(" ")[2] == "batch_size=1 height=64 width=64 steps=2 scheduler=pndm"
    agreements = own.agreements()
    assert [one["level"] for one in agreements] == ["steps", *["image"] * 4]
    # Not equal: the plain run may have been computed with another number of threads.
    assert all(one["error"] <= one["limit"] for one in agreements)
    assert [len(one["steps"]) for one in agreements[:2]] == [3, 0]
    assert max(one["limit"] for one in agreements[:2]) < 1e-4
    (sample,) = [report["measurement"]["samples"][0] for report in own.results()["reports"] if report["measurement"]]
    assert sample["unet_calls"] == 3
    assert sample["facts"]["settings"]["unet"] == "float32 AttnProcessor2_0"

    # Other code and the same weights: the same case, and what changed is said.
    source = own.path / "mypipe.py"
    source.write_text(source.read_text().replace("    return StableDiffusionPipeline", "    return Unguided"))
    # In one process: each of several would import torch and diffusers, which is most of the time.
    second = own.run("--sdperf-pipeline=mypipe:make", *SMALL, "-osdperf_inprocess=true")
    assert own.outcomes() != ["NEW"]  # one process on a busy machine does not say more
    assert "pipeline StableDiffusionPipeline -> Unguided" in joined(report_of(second))
    assert second.parseoutcomes()["failed"] >= 1
    assert "switched on" not in second.stdout.str()
    assert "only decoding" not in second.stdout.str()
    assert any(line.startswith("FAILED test_mine.py::test_outputs[mypipe.make") for line in second.outlines)


def test_what_the_code_switched_on_is_named_where_the_pipeline_disagrees(own):
    result = own.run("--sdperf-pipeline=mypipe:tiled", *SMALL, "-k", "outputs", "-osdperf_inprocess=true")
    result.assert_outcomes(failed=1)
    assert (
        "The latents after every step agree: only decoding them differs. The pipeline has tiling of the vae switched "
        "on, and what it is compared with has not: that changes what is computed. Make it without to see whether "
        "anything else differs."
    ) in " ".join(own.failures())


def test_a_function_that_makes_another_pipeline_in_each_process_is_said_so_and_nothing_is_kept(own):
    own.run("--sdperf-pipeline=mypipe:unfilled", *SMALL, *RECORD).assert_outcomes(failed=2, skipped=1)
    (verdict,) = own.verdicts("measurement")
    assert (verdict["outcome"], verdict["code"]) == ("INVALID", "refused")
    for said in (verdict["sentence"], own.failures()[0]):
        assert "-pipeline=mypipe:unfilled: unfilled() makes another pipeline in each process: its weights" in said
    assert not list(own.path.rglob("baselines/*.json"))


def test_what_the_function_raises_ends_the_run_before_its_first_test(own):
    (own.path / "mypipe.py").write_text("def make():\n    raise ValueError('the weights are not here')\n")
    result = own.run("--sdperf-pipeline=mypipe:make")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert line == (
        "ERROR: --sdperf-pipeline=mypipe:make: make() raised ValueError: the weights are not here (mypipe.py, line 2). "
        "It is called without arguments."
    )
