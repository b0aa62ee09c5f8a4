from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_sdperf.options.flags import OPTIONS

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
# Options of pytest and its other plugins that the manual mentions.
FOREIGN = {"--benchmark-compare", "--benchmark-compare-fail", "--collect-only", "--help", "--lf", "--pyargs"}
# Options of pip, towncrier and git.
TOOLS = {"--index-url", "--draft", "--version"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_no_option_that_does_not_exist(page: Path) -> None:
    known = {option.long for option in OPTIONS} | {f"--{option.name}" for option in OPTIONS if option.short}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text(encoding="utf-8")))
    assert named - known - FOREIGN - TOOLS == set()


def test_the_manual_explains_every_option() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert [option.long for option in OPTIONS if f"`{option.long}`" not in page] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_begins_with_the_two_commands_of_a_newcomer() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    start = "python3 -m venv .venv && .venv/bin/pip install -q tox && .venv/bin/tox -e"
    assert blocks[:2] == [f"{start} suites\n", f"{start} tests\n"]


def test_the_example_of_the_readme_is_valid_python() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    compile(example, "README.md", "exec")
