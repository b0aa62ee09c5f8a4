"""Whether the engines that were named can run on the device of a run, and what to type where they cannot."""

from __future__ import annotations

from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.machine.device_choice import detect_gpus, named_kind
from pytest_sdperf.core.machine.gpu_facts import VENDOR_NAMES
from pytest_sdperf.core.settings import EngineRequest
from pytest_sdperf.plugin.run import Run


def check_engines_fit(run: Run) -> None:
    """Refuse an engine that was named and runs on no device of the kind that the run is for.

    Raises:
        OptionError: With the device of this machine that it runs on, or what looked for one.
    """
    other = run.settings.other
    for request in (*run.settings.selection.engines, *([other.engine] if other and other.engine else [])):
        engine = run.catalog.engines.get(request.engine)
        if request.by_name and run.device_kind not in engine.device_kinds:
            raise OptionError(_refusal(request, engine, run))


def _refusal(request: EngineRequest, engine: Engine, run: Run) -> str:
    known = run.found is not None or named_kind(run.settings.gpu) is not None  # else the kind was only supposed
    told = f"engine {request.label!r} runs on {' and '.join(engine.device_kinds)}"
    told += f", not on {run.device_kind}." if known else "."
    if "cpu" in engine.device_kinds:
        return f"{told} To run it, leave --sdperf-gpu out, or name another engine."
    here = detect_gpus(run.catalog.probes.items())
    fitting = next((one.device for one in here.found if one.device.kind in engine.device_kinds), None)
    if fitting is not None:
        return f"{told} To run it, type --sdperf-gpu={fitting.slug}."
    vendors = [VENDOR_NAMES[kind] for kind in engine.device_kinds]
    elsewhere = (
        "Name another engine. Graphs alone are built and looked at on any machine, also for a GPU that is elsewhere: "
        f"--sdperf-gpu={vendors[0].lower()}."
    )
    return "\n".join([f"{told} This machine has no GPU of {' or '.join(vendors)}.", *here.lines(), elsewhere])
