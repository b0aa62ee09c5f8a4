"""What CONTRIBUTING.md says of the code is so: its picture, the way of a sample, its recipes and its words."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

from pytest_sdperf.core.catalog import Catalog

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PICTURE = PAGE.partition("```mermaid\n")[2].partition("```")[0]
# What else can be registered has its own pages: faults.md and baselines.md.
NO_RECIPE = {"add_alteration", "add_baselines"}


def section(title: str, page: str = PAGE) -> str:
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "benchmarks" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def arrows(house):
    return house.counted({name: path.read_text(encoding="utf-8") for name, path in house.modules().items()})


def test_the_rooms_of_the_picture_stand_on_their_floors(house, arrows):
    rooms = {house.room(name) for name in house.modules()} - {""}
    drawn = {
        room: int(number)
        for number, inside in re.findall(r"subgraph floor(\d)(.*?)\n    end", PICTURE, re.DOTALL)
        for room in re.findall(r"^ +(\w+)\[", inside, re.MULTILINE)
    }
    assert drawn == house.floors(rooms, arrows)


def test_the_arrows_of_the_picture_are_imports(house, arrows):
    drawn = [
        (upper, lower)
        for upper, many in re.findall(r"^ +(\w+) --> (.+)$", PICTURE, re.MULTILINE)
        for lower in many.split(" & ")
    ]
    assert sorted(drawn) == sorted(house.direct(arrows))


def test_an_arrow_is_direct_where_no_others_lead_the_same_way(house):
    assert house.direct([("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")]) == {("a", "b"), ("b", "c"), ("a", "d")}
    assert house.floors("abcd", [("a", "b"), ("b", "c"), ("a", "d")]) == {"a": 3, "b": 2, "c": 1, "d": 1}


def test_every_room_has_a_row_in_the_contract_of_the_layers(house):
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = [re.findall(r"\w+", layer) for layer in layers]
    assert sorted(room for row in rows for room in row) == sorted({house.room(name) for name in house.modules()} - {""})


def test_the_way_of_a_sample_has_ten_steps_that_are_in_the_code():
    way = section("The way of one sample")
    lines = way.partition("1. ")[1] + way.partition("1. ")[2].partition("\n\n")[0]
    assert [line.partition(". ")[0] for line in lines.splitlines()] == [str(step) for step in range(1, 11)]
    named = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", way)
    assert len(named) >= 10
    texts = {path: (ROOT / "pytest_sdperf" / path).read_text(encoding="utf-8") for path, _ in named}
    assert [one for one in named if not re.search(rf"^ *(def|class) {one[1]}\b", texts[one[0]], re.MULTILINE)] == []


def test_files_and_folders_that_are_named_are_there():
    named = re.findall(r"`([\w./]+(?:/|\.py|\.md|\.json|\.toml))`", PAGE)
    roots = (ROOT, ROOT / "pytest_sdperf")
    assert [path for path in named if not any((root / path).exists() for root in roots)] == []


def test_each_kind_of_plug_in_has_a_recipe_that_a_test_reads():
    rows = re.findall(
        r"^\| an? (\w+) \|.*\(docs/([\w-]+\.md)(?:#[\w-]+)?\) \| `(.*)` \|$", section("Add one"), re.MULTILINE
    )
    kinds = {name for name in vars(Catalog) if name.startswith("add_")} - NO_RECIPE
    assert {f"add_{kind}" for kind, _, _ in rows} == {name.removesuffix("_probe") for name in kinds}
    assert [kind for kind, page, test in rows if page not in (ROOT / test).read_text(encoding="utf-8")] == []


def test_the_glossary_has_at_most_25_words_each_once():
    manual = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    words = [
        word
        for text in (section("Words"), section("Words", manual))
        for word in re.findall(r"^(\w+)\n: ", text, re.MULTILINE)
    ]
    assert 20 < len(words) <= 25
    assert len(set(words)) == len(words)
