from __future__ import annotations

import json

import pytest

from pytest_sdperf.cases.options.command_line import add_options
from pytest_sdperf.cases.options.flags import OPTIONS

SHOW_BATCH_SIZES = """
    from pytest_sdperf.plugin.run import run_of

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


HELP = """\
sdperf, 13 of 50 options; `sdperf options` lists all, with their pages of the manual:
  --sdperf-gpu=DEVICE   The device: auto (what is there), nvidia or cuda, amd or
                        rocm, a family (a100), an architecture (gfx942), a slug
                        (a100-sxm4-40gb), an index, a UUID, or cpu. Without it
                        only the CPU is used, with a thin model.
  --sdperf-engine=NAMES
                        Engines or profiles, with options after a colon:
                        ort-cpu:threads=4,torch. all is every engine that fits
                        the device. Default: torch and the onnxruntime engine of
                        the device.
  --sdperf-model=NAMES  Models. Default: sd15-thin on a CPU, sd15 on a GPU.
  --sdperf-component=NAMES
                        Components of the model, or pipeline for a whole
                        request. Default: unet and pipeline; test_fusions builds
                        every component.
  --sdperf-optimization=NAMES
                        Names from the ladder, each with all below it; fp16+fmha
                        is exactly these, all-fmha is all but one, ladder is
                        each in turn (for whole requests the first and the
                        last); as-is is an --onnx-dir unchanged. Default: what
                        the engine says; test_fusions builds the last one.
  --sdperf-batch-size=NUMBERS
                        Images per request; a UNet runs at twice this. Default:
                        1.
  --sdperf-weights=SOURCE
                        random (seeded), none (graphs are only looked at), a
                        diffusers folder, or the id of a repository on the
                        Hugging Face hub. Default: what comes with the model,
                        else random.
  --sdperf-onnx-dir=FOLDER
                        A pipeline that was exported to ONNX already: one
                        COMPONENT/model.onnx per component, as optimum writes
                        it. --model says which pipeline it is. Default: none,
                        models are exported.
  --sdperf-pipeline=MODULE:FUNCTION
                        A diffusers pipeline of your own, tested as it is: a
                        function of a module that returns it. Default: none,
                        pipelines are built from models.
  --sdperf-plan         Only say what would run, and what it takes: time, disk
                        and GPU memory. Nothing is built or run.
  --sdperf-update-baselines
                        Accept what was measured and write the baseline files.
  --sdperf-json=FILE    Write every measurement and verdict to this file.
  --sdperf-html=FILE    Write the results as one page, which opens in any
                        browser without a network.
"""
SHORT_HELP = """
sdperf, short spellings:
  --gpu=DEVICE          Same as --sdperf-gpu; here the other options may be
                        typed without sdperf-, too.
"""


def words(text):
    """Return a text in one line: where lines are broken is the affair of argparse and of pytest."""
    return " ".join(text.split()).replace("- ", "-")


@pytest.fixture
def helped(sdperf, monkeypatch):
    """Return what `pytest --help` says of this plugin in 80 columns, whole: every paragraph that has its name."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*arguments, plugins=()):
        result = sdperf("--help", *arguments, plugins=plugins)
        assert result.ret == 0, result.stderr.str()
        told = [part for part in result.stdout.str().split("\n\n") if "sdperf" in part]
        return "\n\n".join(told) + "\n"

    return run


def test_the_help_shows_the_dozen_that_people_use_and_where_the_others_are(helped):
    assert words(helped()) == words(HELP)


def test_with_short_spellings_the_help_is_four_lines_longer(helped):
    assert words(helped(plugins=SHORT)) == words(HELP + SHORT_HELP)


@pytest.fixture
def answered(pytester, sdperf):
    """Run pytest and return what it was told, by option; nothing more is done with it."""
    pytester.makeconftest("""
        import json

        import pytest

        def pytest_configure(config):
            from pytest_sdperf.cases.options.reading import read_answers

            told = {name: (answer.spelling, answer.text) for name, answer in read_answers(config, {}).items()}
            pytest.exit(json.dumps(told), returncode=7)
        """)

    def run(*arguments):
        result = sdperf(*arguments, plugins=SHORT)
        assert result.ret == 7
        return {name: tuple(told) for name, told in json.loads(result.stderr.str().partition(" ")[2]).items()}

    return run


def test_every_option_works_whether_the_help_shows_it_or_not(pytester, answered):
    def typed(spellings):
        return [f"{flag}=3" if option.metavar else flag for option, flag in spellings.items()]

    def told(spellings):
        return {option.name: (said, "3" if option.metavar else "true") for option, said in spellings.items()}

    long = {option: option.long for option in OPTIONS if option.flag}
    short = {option: f"--{option.name}" for option in OPTIONS if option.short}
    assert answered(*typed(long)) == told(long)
    assert answered(*typed(short)) == told(short)
    pytester.makeini("\n".join(["[pytest]", *(f"{option.destination} = 3" for option in OPTIONS)]))
    assert answered() == {option.name: (option.destination, "3") for option in OPTIONS}


def test_the_installed_plugin_adds_the_long_spellings_only(pytester):
    parser = pytest.Parser(_ispytest=True)
    add_options(parser)
    _, unknown = parser.parse_known_and_unknown_args([f"--{option.name}" for option in OPTIONS])
    assert unknown == [f"--{option.name}" for option in OPTIONS]


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
    assert shown("-osdperf_inprocess=true") == "batch sizes (), pool default, inprocess True"


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
        "ladder. A comma separates builds, a plus joins the optimizations of one build, all-NAME leaves one out."
    )
