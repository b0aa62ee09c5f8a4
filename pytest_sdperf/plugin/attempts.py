"""A case has one verdict: no plugin that runs failed tests again may choose among several."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_sdperf.cases.items import case_of

AGAIN = (
    "this test was run before in this session, and a case has one verdict: the first. Leave out what runs it again, or "
    "mark the test @pytest.mark.flaky(condition=False), which pytest-rerunfailures and pytest-retry heed."
)
NOT_AGAIN = (
    "a case has one verdict: its tests are not run again when they fail, whatever --reruns, --retries or flaky say"
)
# Options of pytest-rerunfailures and pytest-retry, which are ini values as well; `flaky` is a marker of both.
_OPTIONS = ("reruns", "force_reruns", "retries")
_FLAKY = "flaky"
_BEGUN, _WANTED = pytest.StashKey[bool](), pytest.StashKey[bool]()


def exempt(items: Iterable[pytest.Item], config: pytest.Config) -> None:
    """Keep plugins that run failed tests again from those with a case: a second try would hide what the first found."""
    if not any(hasattr(config.option, name) for name in _OPTIONS):
        return  # the marker belongs to those plugins
    for item in items:
        if case_of(item) is not None:
            item.stash[_WANTED] = _is_wanted(item, config)
            item.add_marker(pytest.mark.flaky(condition=False), append=False)


def told(items: Iterable[pytest.Item]) -> list[str]:
    """Return what there is to say where somebody wanted tests with a case to run again."""
    return [f"sdperf: {NOT_AGAIN}"] if any(item.stash.get(_WANTED, False) for item in items) else []


def check_first(item: pytest.Item) -> None:
    """Refuse to run a test with a case a second time, whatever wants it.

    Raises:
        pytest.fail.Exception: It was run before; what it recorded then is in its report.
    """
    if case_of(item) is None:
        return
    if item.stash.get(_BEGUN, False):
        pytest.fail(AGAIN, pytrace=False)
    item.stash[_BEGUN] = True


def _is_wanted(item: pytest.Item, config: pytest.Config) -> bool:
    marker = item.get_closest_marker(_FLAKY)
    if marker is not None:
        return marker.kwargs.get("condition", True) is not False
    return any(getattr(config.option, name, None) or _ini(config, name) for name in _OPTIONS)


def _ini(config: pytest.Config, name: str) -> bool:
    try:
        return str(config.getini(name) or "0") != "0"
    except ValueError:  # of a plugin that is not there
        return False
