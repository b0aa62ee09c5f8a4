"""Writes what docs/options.md says of each option: heading and first paragraph of its section, from its declaration.

python tests/options_page.py       # after a change of an option

What is written below a first paragraph stays, and so does what follows the last option of a group.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pytest_sdperf.cases.options.conflicts import CONFLICTS
from pytest_sdperf.cases.options.flags import BY_NAME, GROUPS
from pytest_sdperf.cases.options.option import Option

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "options.md"
_SECTION = re.compile(r"^### `(?:--sdperf-|-o sdperf_)([a-z0-9_-]+)\S*`\n\n.+?(?=\n\n|\n*\Z)", re.MULTILINE | re.DOTALL)


def section(option: Option) -> str:
    """Return the heading and the first paragraph of an option."""
    words = [option.help]
    beside: dict[str, list[str]] = {}
    for spelled, why in _conflicts(option):
        beside.setdefault(why, []).append(spelled)
    if beside:
        told = (f"{', '.join(spellings)} ({why})" for why, spellings in beside.items())
        words.append(f"Cannot be combined with {'; '.join(told)}.")
    if option.page != "options":
        title = (DOCS / f"{option.page}.md").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        words.append(f"See [{title}]({option.page}.md).")
    text = textwrap.fill(" ".join(words), 120, break_on_hyphens=False, break_long_words=False)
    return f"### `{option.usage}`\n\n{text}"


def _conflicts(option: Option) -> Iterator[tuple[str, str]]:
    for conflict in CONFLICTS:
        sides = (conflict.one, conflict.other)
        names = [re.split("!?=", side)[0] for side in sides]
        if option.name in names:
            own = names.index(option.name)
            where = re.sub(".*?(!?)=(.+)", _where, sides[own]) if "=" in sides[own] else ""
            yield f"{_told(sides[1 - own])}{where}", conflict.why.replace(" is tested as it is, and", "")


def _where(condition: re.Match[str]) -> str:
    return f" where it is {'not ' if condition[1] else ''}`{condition[2]}`"


def _told(condition: str) -> str:
    name, equals, value = condition.partition("=")
    option = BY_NAME[name.removesuffix("!")]
    if name.endswith("!"):
        return f"`{option.long}` other than `{value}`"
    return f"`{option.long}{equals}{value}`"


def rewritten(text: str) -> str:
    """Return the page with the sections of the options that there are, in the order of their declaration.

    Raises:
        ValueError: A group has no heading on the page.
    """
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    below = {found[1].replace("_", "-"): _tail(found, part) for part in parts for found in _SECTION.finditer(part)}
    for title, options in GROUPS.items():
        heading = f"## {title.partition(' (')[0].capitalize()}\n"
        place = next((index for index, part in enumerate(parts) if part.startswith(heading)), None)
        if place is None:
            raise ValueError(f"{PAGE} has no heading {heading!r}")
        found = list(_SECTION.finditer(parts[place]))
        intro = parts[place][: found[0].start()] if found else f"{parts[place].rstrip()}\n\n"
        last = found[-1] if found else None
        rest = parts[place][last.end() + len(_tail(last, parts[place])) :] if last else "\n"
        parts[place] = (
            intro
            + "\n\n".join(section(one) + below.get(one.name, "").rstrip() for one in options)
            + "\n"
            + (f"\n{rest.lstrip()}" if rest.strip() else "\n")
        )
    return "".join(parts).rstrip() + "\n"


def _tail(found: re.Match[str], part: str) -> str:
    """Return what is written by hand below the first paragraph, up to the next heading."""
    return re.split(r"^##", part[found.end() :], maxsplit=1, flags=re.MULTILINE)[0]


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
