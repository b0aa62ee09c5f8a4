"""Of whom a replay asks what the engine's allocator held."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import pytest
from sample_values import execution

from pytest_sdperf.tasks import replay


class Counting:
    def __init__(self, peak):
        self.peak, self.asked = peak, []

    def allocator_peak_bytes(self, *, reset):
        self.asked.append(reset)
        return self.peak


@pytest.mark.parametrize(("peaks", "told"), [((4096,), 4096), ((4096, 512), 4096), ((None, 512), None), ((), None)])
def test_the_first_runner_answers_for_the_process(peaks, told):
    runners, found = [Counting(peak) for peak in peaks], []
    with replay._peak(runners, found):
        pass
    assert found[0].get("allocator") == told
    assert all(runner.asked[0] for runner in runners)


def test_of_a_whole_request_that_is_the_unet(monkeypatch):
    parts = {name: SimpleNamespace(runner=name) for name in ("text_encoder", "unet", "vae_decoder")}

    @contextlib.contextmanager
    def loaded(case, context, watched):
        yield SimpleNamespace(), parts

    monkeypatch.setattr(replay, "loaded_request", loaded)
    with replay._request(execution(component="pipeline"), SimpleNamespace()) as (_, _, runners):
        assert runners == ["unet", "text_encoder", "vae_decoder"]
