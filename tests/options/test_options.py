from __future__ import annotations

import re

import pytest

from pytest_sdperf.options.flags import OPTIONS

SHOW_BATCH_SIZES = """
    from pytest_sdperf.running.run import run_of

    def pytest_report_header(config):
        settings = run_of(config).settings
        return f"batch sizes {settings.selection.batch_sizes}, pool {settings.pool}, inprocess {settings.in_process}"
"""
SHORT = ["pytest_sdperf.short_names"]


@pytest.fixture
def shown(pytester, sdperf):
    """Run pytest and return the header line of the settings."""
    pytester.makeconftest(SHOW_BATCH_SIZES)

    def run(*arguments, **kwargs):
        result = sdperf(*arguments, **kwargs)
        assert result.ret == 5, result.stderr.str()
        return next(line for line in result.outlines if line.startswith("batch sizes"))

    return run


def test_the_help_groups_and_explains_every_option(sdperf):
    text = sdperf("--help").stdout.str()
    titles = [line for line in text.splitlines() if line.startswith("sdperf: ")]
    assert titles == [
        "sdperf: where it runs:",
        "sdperf: what runs (a comma separates cases):",
        "sdperf: how it is measured:",
        "sdperf: how it is judged:",
        "sdperf: where files are kept:",
    ]
    for option in OPTIONS:
        assert f"  {option.long}" in text
        assert f"  {option.destination} (string):" in text
    assert "Smallest relative change that can be a regression: 2%" in text


def test_the_installed_plugin_adds_the_long_spellings_only(sdperf):
    text = sdperf("--help").stdout.str()
    assert "--gpu" not in text
    assert "--engine" not in text


def test_the_short_spellings_are_a_plugin_of_their_own(sdperf):
    text = sdperf("--help", plugins=SHORT).stdout.str()
    assert "sdperf: short spellings:" in text
    for option in OPTIONS:
        assert bool(re.search(rf"  --{option.name}(?![\w-])", text)) == option.short


def test_a_conftest_may_add_the_short_spellings_too(pytester, shown):
    pytester.makeconftest(
        SHOW_BATCH_SIZES
        + """
    def pytest_addoption(parser):
        from pytest_sdperf.short_names import add_short_names
        add_short_names(parser)
    """
    )
    assert shown("--batch-size=4").startswith("batch sizes (4,)")
    assert shown("--batch-size=4", plugins=SHORT).startswith("batch sizes (4,)")


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        (["--sdperf-batch-size=1", "--batch-size=4"], "(4,)"),
        (["--batch-size=4", "--sdperf-batch-size=1"], "(1,)"),
        (["--batch-size", "1,4"], "(1, 4)"),
        ([], "()"),
    ],
)
def test_of_two_spellings_the_last_one_wins(shown, arguments, sizes):
    assert shown(*arguments, plugins=SHORT).startswith(f"batch sizes {sizes},")


def test_a_flag_beats_the_ini_file_which_beats_the_project(pytester, shown):
    (pytester.path / "pyproject.toml").write_text("[tool.sdperf]\nbatch-size = 8\npool = 'rack-3'\ninprocess = true\n")
    assert shown() == "batch sizes (8,), pool rack-3, inprocess True"
    pytester.makeini("[pytest]\nsdperf_batch_size = 2,4\n")
    assert shown() == "batch sizes (2, 4), pool rack-3, inprocess True"
    assert shown("--sdperf-batch-size=1", "--sdperf-pool=mine") == "batch sizes (1,), pool mine, inprocess True"


def test_pyproject_may_hold_the_ini_values_as_well(pytester, shown):
    (pytester.path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\nsdperf_batch_size = 2\nsdperf_inprocess = 'yes'\n[tool.sdperf]\nbatch_size = 8\n"
    )
    assert shown() == "batch sizes (2,), pool default, inprocess True"


def test_a_switch_takes_no_value(shown):
    assert shown("--sdperf-inprocess") == "batch sizes (), pool default, inprocess True"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--batch-size=0"],
            (
                "ERROR: --batch-size=0: '0' is not a batch size. Allowed: whole numbers from 1; type for "
                "example --batch-size=1."
            ),
        ),
        (
            ["--sdperf-resolution=100"],
            (
                "ERROR: --sdperf-resolution=100: 100 is not divisible by 8. Allowed: multiples of 8, because "
                "a latent is an eighth of the image; the nearest are 96 and 104."
            ),
        ),
        (
            ["--engine=ortt-cpu"],
            ("ERROR: unknown engine 'ortt-cpu'. Did you mean 'ort-cpu'? Known: absent, all, ort-cpu, ort-cuda, torch."),
        ),
        (["--model=sd16"], "ERROR: unknown model 'sd16'. Did you mean 'sd15'? Known: sd15, sd15-thin, sdxl."),
    ],
)
def test_a_bad_value_stops_pytest_with_one_message(sdperf, arguments, message):
    result = sdperf(*arguments, plugins=SHORT)
    assert result.ret == 4
    assert [line for line in result.stderr.lines if line] == [message]


def test_a_bad_value_in_a_file_names_the_file_s_spelling(pytester, sdperf):
    pytester.makeini("[pytest]\nsdperf_batch_size = 0\n")
    result = sdperf()
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        "ERROR: sdperf_batch_size=0: '0' is not a batch size. Allowed: whole numbers from 1; "
        "type for example sdperf_batch_size=1."
    )


def test_an_unknown_optimization_is_answered_with_the_ladder(sdperf):
    result = sdperf("--sdperf-optimization=fhma")
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        "ERROR: unknown optimization 'fhma'. Did you mean 'fmha'? Known: all, fmha, fp16, fp32, group-norm, "
        "ladder. A comma separates builds, a plus joins the rungs of one build, all-NAME leaves one rung out."
    )
