"""A plug-in of somebody else with a fault of its own: what a text encoder puts out is three times too much."""

from __future__ import annotations

from pytest_sdperf.core.alteration import Alteration


class Tripled(Alteration):
    name = "tripled"
    about = "Text encoders put out three times too much."

    def loaded(self, component, runner):
        if component != "text_encoder":
            return runner
        fetch = runner.fetch
        runner.fetch = lambda: {name: 3 * array for name, array in fetch().items()}
        return runner


def pytest_sdperf_register(catalog):
    catalog.add_alteration(Tripled())
