"""`--plant`: what alters the run on purpose, and what cannot be said beside it."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.option_value import OptionValue
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.errors import OptionError

_SIDES = "both sides would have it"
_SWITCHES: Mapping[str, str] = {
    "update-baselines": "nothing of such a run is kept",
    "resume": "what an interrupted run measured is without it",
    "plan": "a plan runs nothing that could be altered",
    "selftest": "a self-test measures what is sound",
    "inprocess": "it may end the process that it is in",
}
_VALUES: Mapping[str, str] = {
    **dict.fromkeys(("ab", "ab-engine", "ab-optimization"), _SIDES),
    "pipeline": "a pipeline of your own is tested as it is",
}


def read_alteration(
    answer: OptionValue, answers: Mapping[str, OptionValue], *, catalog: Catalog, device_kind: str
) -> str:
    """Return the name of what alters the run.

    Args:
        answer: What was said.
        answers: Everything that was said, by option name.
        catalog: What is registered.
        device_kind: Kind of the device that the run asks for.

    Raises:
        UnknownNameError: Nothing of that name is registered.
        OptionError: It makes no sense on the device, or something that was said does not go with it.
    """
    alteration = catalog.alterations.get(read.text(answer).strip())
    refusal = alteration.refuses(device_kind)
    if refusal:
        raise OptionError(f"{answer}: {refusal}")
    for other, why in {**_SWITCHES, **_VALUES}.items():
        said = answers.get(other)
        if said is not None and (other in _VALUES or read.switch(said)):
            raise OptionError(f"{answer} and {said} do not go together: {why}. Leave one of them out.")
    return alteration.name
