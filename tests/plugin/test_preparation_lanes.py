from __future__ import annotations

from types import SimpleNamespace

import pytest
from door_toys import toy_catalog

from pytest_sdperf.core.settings import Selection, Settings
from pytest_sdperf.core.values import Case
from pytest_sdperf.plugin import preparation
from pytest_sdperf.plugin.preparation import BuildRequest, lanes


@pytest.mark.parametrize(
    ("model", "weights", "free", "expected"),
    [
        ("sd15-thin", "random", 7 * 2**30, 1),
        ("sd15-thin", "random", 100 * 2**30, 3),
        ("sd15", "random", 47 * 2**30, 1),
        ("sd15", "random", 60 * 2**30, 2),
        ("sd15", "none", 7 * 2**30, 1),
        ("sd15", "none", 9 * 2**30, 2),
        ("sd15", "none", 2**20, 1),
    ],
)
def test_as_many_steps_at_once_as_memory_and_cores_allow(monkeypatch, model, weights, free, expected):
    monkeypatch.setattr(preparation.psutil, "virtual_memory", lambda: SimpleNamespace(available=free))
    settings = Settings(selection=Selection(weights=weights))
    session = SimpleNamespace(run=SimpleNamespace(catalog=toy_catalog(), settings=settings), cores=3)
    assert lanes(session, [BuildRequest(Case(model, "unet", "", "fp16"))]) == expected
