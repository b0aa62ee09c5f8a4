"""What the fixture `pictures` says where there is nothing to look at."""

from __future__ import annotations

TEST = "def test_seen(runner, pictures): pictures(runner)"
ASKED = ("--sdperf-component=pipeline", "--sdperf-engine=torch", "--sdperf-optimization=fp32", "-rs")


def skips(result):
    return [line.split(": ", 1)[-1] for line in result.outlines if line.startswith("SKIPPED")]


def test_images_of_another_size_are_not_read(pytester, sdperf):
    pytester.makepyfile(TEST)
    result = sdperf(*ASKED, "--sdperf-resolution=64")
    result.assert_outcomes(skipped=1)
    assert skips(result) == ["not applicable: images are read at 128x128; leave --sdperf-resolution out"]


def test_the_suite_is_for_one_model(pytester, sdperf):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.sdperf(models=["shapes"])
        def test_seen(runner, pictures): pictures(runner)
        """
    )
    result = sdperf(*ASKED, "--sdperf-model=sd15")
    result.assert_outcomes(skipped=1)
    assert skips(result) == ["this test is for model shapes, the command line names sd15"]
