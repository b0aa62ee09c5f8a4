from __future__ import annotations

from pathlib import Path

from pytest_sdperf import cli
from pytest_sdperf.cases.options.command_line import USUAL
from pytest_sdperf.cases.options.flags import BY_NAME, GROUPS, OPTIONS

DOCS = Path(__file__).parents[2] / "docs"


def test_it_prints_every_option_with_its_spellings_its_words_and_its_page(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert cli.main(["options"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("50 options. Each can be typed as it stands here; be an ini value of pytest, ")
    assert max(map(len, text.splitlines())) <= 100
    assert text.endswith(
        "  -o sdperf_repro_weights=KIND\n"
        "      Weights in these files: random, where such show the fault, or real, those of the case.\n"
        "      Default: random. See docs/locating.md.\n"
    )
    assert "\n  --sdperf-plan\n      Only say what would run" in text
    told = " ".join(text.split())
    for option in OPTIONS:
        short = f" (--{option.name})" if option.short else ""
        assert f"{option.usage}{short} {option.help} See docs/{option.page}.md." in told
    assert [line for line in text.splitlines() if line in GROUPS] == list(GROUPS)


def test_every_page_speaks_of_its_options():
    assert set(USUAL) <= set(BY_NAME)
    for option in OPTIONS:
        text = (DOCS / f"{option.page}.md").read_text(encoding="utf-8")
        spellings = (f"--sdperf-{option.name}", f"--{option.name}", option.destination)
        assert any(spelling in text for spelling in spellings), option
