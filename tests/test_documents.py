from __future__ import annotations

import argparse
import re
import shlex
import statistics
import tomllib
from pathlib import Path

import options_page
import pytest
from our_fixtures import our_fixtures

import pytest_sdperf
from pytest_sdperf import cli
from pytest_sdperf.cases.options.flags import OPTIONS
from pytest_sdperf.cases.options.marks import Marks

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# Options of pytest and its other plugins that the manual mentions.
FOREIGN = {
    "--benchmark-compare", "--benchmark-compare-fail", "--benchmark-disable", "--benchmark-only", "--benchmark-skip",
    "--collect-only", "--deselect", "--dist", "--forked", "--help", "--lf",
    "--no-cov", "--pyargs",
}  # fmt: skip
# Options of pip, towncrier, git and GitHub's own command, and of programs under benchmarks/ and docs/findings/.
TOOLS = {
    "--dir", "--draft", "--extra-index-url", "--fill", "--force-reinstall", "--index-url", "--name", "--no-deps",
    "--version",
    "--day", "--drift", "--gpus", "--process", "--provider", "--trials",
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_option_that_does_not_exist(page: Path) -> None:
    known = {option.long for option in OPTIONS} | {f"--{option.name}" for option in OPTIONS if option.short}
    known |= options_of(cli.parser())
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", page.read_text(encoding="utf-8")))
    assert named - known - FOREIGN - TOOLS == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_types_no_ini_value_that_does_not_exist(page: Path) -> None:
    typed = set(re.findall(r"-o (sdperf_\w+)", page.read_text(encoding="utf-8")))
    assert typed - {option.destination for option in OPTIONS} == set()


def test_the_manual_says_of_every_option_what_its_declaration_says() -> None:
    page = options_page.PAGE.read_text(encoding="utf-8")
    assert page == options_page.rewritten(page), "type: python tests/options_page.py"
    assert [option.usage for option in OPTIONS if f"### `{option.usage}`\n" not in page] == []


def test_the_manual_says_which_options_have_no_short_spelling() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"whose short names would be too common: (.*?)\.\n", page, flags=re.DOTALL)
    assert set(re.findall("`(.*?)`", told)) == {option.long for option in OPTIONS if option.flag and not option.short}


def test_the_manual_has_at_most_25_pages_and_both_lists_have_them_in_one_order() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    trees = re.findall(r"^```{toctree}\n(?::[^\n]*\n)+\n(.*?)^```", index, flags=re.MULTILINE | re.DOTALL)
    listed = [f"{name}.md" for tree in trees for name in tree.split()]
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## The manual\n")[2]
    assert re.findall(r"^- \[.*\]\(docs/(.*)\): ", readme, flags=re.MULTILINE) == listed
    pages = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert sorted([*listed, "index.md"]) == pages
    assert len(pages) <= 25


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_begins_with_words(page: Path) -> None:
    title, _, opening = page.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith("# ")
    assert page.name in {"CHANGELOG.md", "CONTRIBUTING.md"} or re.match(r"[A-Za-z`].{60}", opening)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_link_is_without_a_text(page: Path) -> None:
    assert "[](" not in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_to_one(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text(encoding="utf-8").replace("\n", " "))
    texts = {file: (page.parent / file if file else page).read_text(encoding="utf-8") for file, _ in targets}
    assert [(file, name) for file, name in targets if name not in anchors(texts[file])] == []


def anchors(page: str) -> set[str]:
    """Return what GitHub and the manual call the headings of a page in links."""
    headings = re.findall(r"^#+ (.*)", page, flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_fragment_of_the_changelog_has_a_type_that_its_readme_lists() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    types = [one["directory"] for one in settings["type"]]
    readme = (ROOT / "changelog" / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE) == types
    names = [path.name for path in (ROOT / "changelog").iterdir() if path.name != "README.md"]
    assert [name for name in names if not re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(types)})\.md", name)] == []


def test_the_changelog_of_a_version_begins_where_towncrier_would_write() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
    text = (ROOT / settings["filename"]).read_text(encoding="utf-8")
    _, _, told = text.partition(settings["start_string"])
    assert told.startswith(f"\n## {pytest_sdperf.__version__} (")


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of a parser and of its commands."""
    found = {word for action in parser._actions for word in action.option_strings}
    choices = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return found.union(*(options_of(command) for commands in choices for command in commands.values()))


def blocks_of_the_readme(language: str) -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def test_the_readme_begins_with_the_two_commands_of_a_newcomer() -> None:
    start = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints/cpu.txt tox && .venv/bin/tox -e"
    assert blocks_of_the_readme("bash")[:2] == [f"{start} suites\n", f"{start} tests\n"]


def test_the_third_command_of_the_readme_runs_its_example_in_an_empty_folder(sdperf, pytester: pytest.Pytester) -> None:
    (example,) = blocks_of_the_readme("python")
    assert len(example.splitlines()) <= 10
    command, file, *options = shlex.split(blocks_of_the_readme("bash")[2])
    assert (command, file) == ("pytest", "test_mine.py")
    ids = [f"at-{optimization}{batch}" for optimization in ("fp32", "fp16") for batch in ("", "-batch-2")]
    test = f"{file}::test_unet_is_right_and_fast"
    expected = [f"{test}[sd15-thin-unet-on-ort-cpu-{name}]" for name in ids]
    pytester.path.joinpath(file).write_text(example, encoding="utf-8")
    result = sdperf(file, *options, "--collect-only", "-q", short=False)
    assert [line for line in result.outlines if "::" in line] == expected
    # And with the line below it, by the short names.
    (line,) = re.findall(r"^from pytest_sdperf.*", (ROOT / "README.md").read_text("utf-8"), flags=re.MULTILINE)
    pytester.path.joinpath("conftest.py").write_text(line, encoding="utf-8")
    pytester.path.joinpath(file).write_text(example.replace("sdperf_", ""), encoding="utf-8")
    result = sdperf(file, *options, "--collect-only", "-q", short=False)
    assert [line for line in result.outlines if "::" in line] == expected


@pytest.mark.parametrize("axis", Marks.__dataclass_fields__)
def test_the_manual_explains_every_argument_of_the_marker(axis: str) -> None:
    assert f"`{axis}`" in (ROOT / "docs" / "fixtures.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", our_fixtures())
def test_the_manual_explains_every_fixture(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "fixtures.md").read_text(encoding="utf-8")


def test_modules_are_as_short_as_the_contributors_are_told() -> None:
    lengths = [len(path.read_bytes().splitlines()) for path in (ROOT / "pytest_sdperf").rglob("*.py")]
    assert statistics.median(lengths) <= 130
    assert max(lengths) <= 300


def test_nobody_is_told_to_install_the_project_from_where_it_is_not() -> None:
    # Whoever registers the name on PyPI would be installed.
    sources = [*PAGES, *(ROOT / "pytest_sdperf").rglob("*.py"), *(ROOT / "suites").rglob("*.py")]
    told = re.compile(r"pip install[^`\n]*'(?:pytest-sdperf|\{PROJECT\})\[[^]']*\]'")
    assert [str(path.relative_to(ROOT)) for path in sources if told.search(path.read_text(encoding="utf-8"))] == []
