"""`--plant`: the fault that a run is to find, and what cannot be said beside it."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.option_value import OptionValue
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.faults import known

_NOT_KEPT = "nothing that a planted fault has touched is kept"
_WORKERS = "a fault may end the process that it is in"
_SWITCHES: Mapping[str, str] = {
    "update-baselines": _NOT_KEPT,
    "resume": "what an interrupted run measured has no fault",
    "plan": "a plan runs nothing that could be found",
    "selftest": "a self-test measures what is sound",
    "inprocess": _WORKERS,
}
_VALUES: Mapping[str, str] = {
    "ab": "it would be planted into both sides",
    "ab-engine": "it would be planted into both sides",
    "ab-optimization": "it would be planted into both sides",
    "pipeline": "a pipeline of your own is tested as it is",
}


def read_plant(answer: OptionValue, answers: Mapping[str, OptionValue], *, device_kind: str) -> str:
    """Return the name of a fault.

    Args:
        answer: What was said.
        answers: Everything that was said, by option name.
        device_kind: Kind of the device that the run asks for.

    Raises:
        OptionError: There is no such fault, or something that was said does not go with one.
    """
    fault = known.get(read.text(answer).strip())
    if fault.on_gpu and device_kind == "cpu":
        raise OptionError(
            f"{answer} is about what only a GPU can show, and this run is on a CPU. Add --sdperf-gpu=auto where there "
            f"is a GPU, or plant another fault: `sdperf faults` lists them."
        )
    for other, why in {**_SWITCHES, **_VALUES}.items():
        said = answers.get(other)
        if said is not None and (other in _VALUES or read.switch(said)):
            raise OptionError(f"{answer} and {said} do not go together: {why}. Leave one of them out.")
    return fault.name
