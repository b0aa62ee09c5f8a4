"""The page as a reader has it: in Chromium, without a network, wide and narrow, light and dark."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from browser import CHROMIUM, MISSING, Page, browser
from page_scenes import results, shipped

from pytest_sdperf.baselines import published
from pytest_sdperf.baselines.shipped import measured
from pytest_sdperf.checks.pipelines.tables.stored import latency_s
from pytest_sdperf.core.values import to_json
from pytest_sdperf.report.page.merged import PageRun
from pytest_sdperf.report.page.write import page_text

pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason=MISSING)]

# Charts without a drawing, and lines of the history.
UNDRAWN = "[...document.querySelectorAll('.chart, .line')].filter(one => !one.querySelector('svg')).length"
# Each number as it is kept and as it is written, without those of others.
NUMBERS = (
    "[...document.querySelectorAll('section:not(#beside) [data-v]')].map(cell => [+cell.dataset.v, cell.textContent])"
)
# Elements that stand out of the window and are in no region that can be scrolled.
CUT_OFF = """[...document.querySelectorAll('main *')].filter(one => one.checkVisibility()
  && !one.closest('.scroll, .hidden, pre, svg') && one.getBoundingClientRect().right > innerWidth + 1)
  .map(one => one.outerHTML.slice(0, 120))"""
# Texts of a chart that stand on each other.
OVERLAPS = """[...document.querySelectorAll('.chart svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].filter(one => one.textContent);
  const boxes = texts.map(one => [one.textContent, one.getBoundingClientRect()]);
  return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
    Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 &&
    Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4
  ).map(([b]) => `${a} | ${b}`));
})"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Return number of cases -> page."""
    folder, found = tmp_path_factory.mktemp("pages"), {}
    tables = published.load(published.folder())
    for count in (4, 40, 400):
        runs = [PageRun(results(count, factor=1.3 if count > 4 else 1.0))]
        found[count] = folder / f"{count}.html"
        text = page_text(runs, {"h200": shipped()}, published=tables, shipped=measured())
        found[count].write_text(text, encoding="utf-8")
    return found


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path / "profile") as found:
        yield found


def numbers(value) -> Iterator[float]:
    """Yield every number in JSON data."""
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        yield float(value)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from numbers(item)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("count", [4, 40])
def test_every_chart_is_drawn_without_an_error_or_a_request_and_nothing_is_cut_off(page, pages, count, width, dark):
    page.open(pages[count], width=width, dark=dark)
    assert page.value("document.documentElement.scrollWidth") <= width
    page.draw_all()
    assert page.value("document.querySelectorAll('.chart').length") >= 5
    assert page.value(UNDRAWN) == 0
    assert page.value("document.documentElement.scrollWidth") <= width
    assert page.value(CUT_OFF) == []
    assert page.value(OVERLAPS) == []
    assert page.told == []
    assert page.asked == [pages[count].resolve().as_uri()]


def test_every_number_of_the_tables_is_one_of_the_results(page, pages):
    page.open(pages[40])
    found = page.value(NUMBERS)
    given = results(40, factor=1.3)
    measurements = [one.measurement for one in given.reports if one.measurement is not None and one.measurement.samples]
    known = [*numbers(to_json(given.reports)), *(one.latency_s for one in measurements)]
    known += [median for one in measurements for median in one.medians_s]
    known += [one.floor.share(one.latency_s) for one in measurements if one.floor is not None]
    sessions = [session for one in shipped().cases.values() for session in (one.anchor, *one.sessions)]
    known += [latency_s(session) for session in sessions if session.samples]
    known.sort()
    assert len(found) > 500
    assert [text for value, text in found if not is_one_of(value, known)] == []


def is_one_of(value: float, known: Sequence[float]) -> bool:
    """Whether a number is among others, which are sorted, with the seven digits that the page keeps."""
    place = bisect.bisect_left(known, value * (1 - 1e-6))
    return place < len(known) and math.isclose(known[place], value, rel_tol=1e-6)


def test_every_chart_has_a_table_of_its_numbers_and_an_answer_in_words(page, pages):
    page.open(pages[40])
    charts = page.value(
        "[...document.querySelectorAll('figure:not(.picture)')].map(one => [one.querySelector('.chart').ariaLabel,"
        " one.querySelectorAll('table tbody tr').length])"
    )
    assert [label for label, rows in charts if not label.endswith(".") or not rows] == []
    drawn = "[...document.querySelectorAll('figure.bars')].map(one => [one.querySelectorAll('td[data-v]').length, "
    page.draw_all()
    bars = page.value(f"{drawn}one.querySelectorAll('[aria-label=bar] rect').length])")
    assert [pair for pair in bars if pair[1] < pair[0]] == []


def test_headings_are_in_order_and_everything_can_be_reached_by_keyboard(page, pages):
    page.open(pages[40])
    levels = page.value("[...document.querySelectorAll('h1, h2, h3')].map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert (
        page.value("['header', 'main', 'nav', 'footer'].map(one => document.querySelectorAll(one).length)") == [1] * 4
    )
    assert page.value("[...document.querySelectorAll('nav a')].every(one => document.querySelector(one.hash))")
    assert page.value("[...document.querySelectorAll('.scroll')].every(one => one.tabIndex === 0 && one.ariaLabel)")
    for _ in range(2):
        for kind in ("keyDown", "keyUp"):
            page.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
    assert page.value("document.activeElement !== document.body && document.activeElement.matches(':focus-visible')")
    assert page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_rows_can_be_filtered_by_words(page, pages):
    page.open(pages[40])
    shown = "[...document.querySelectorAll('#spread tbody tr')].filter(one => !one.hidden).length"
    before = page.value(shown)
    page.value("(input => { input.value = 'sdxl unet bias-add'; input.dispatchEvent(new Event('input')); })"
               "(document.querySelector('.filter input'))")  # fmt: skip
    assert 0 < page.value(shown) < before


def test_400_cases_are_drawn_without_an_error(page, pages):
    page.open(pages[400])
    assert page.value(UNDRAWN) > 0  # what is out of sight waits
    page.draw_all()
    assert page.value(UNDRAWN) == 0
    assert page.told == []
