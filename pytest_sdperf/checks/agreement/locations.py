"""Where it went wrong, in sentences for a person."""

from __future__ import annotations

import math

from pytest_sdperf.core.units import plural
from pytest_sdperf.core.values.located import Located, Location

_SHOWN_NODES = 5
_WHAT = {
    "graph": "The graph of the {component} goes wrong at {location}",
    "types": "The graph of the {component} goes wrong at {location}",
    "export": "The exported graph of the {component} goes wrong at {location}",
    "engine": "The {component} goes wrong at {location}",
    "module": "The {component} goes wrong at {location}",
    "spread": "The {component} first leaves its limit at {location}",
    "plain": "In plain torch itself the {component} goes wrong at {location}",
}
_WHY = {
    "graph": "By its definition it gives something else than the reference: the graph is wrong, whatever runs it.",
    "types": "By its definition it is right, but not in the types in which the graph computes it: these are too narrow "
    "there, whatever runs it.",
    "export": "By its definition it gives something else than the module of torch: the export is wrong, whatever runs "
    "it.",
    "engine": "Its definition gives something else for what it read: the engine computes it wrong.",
    "module": "",
    "spread": "It gives what its definition gives for what it read: no single node is wrong, errors add up before it.",
    "plain": "The reference has numbers there, which this dtype cannot hold: of what follows nothing can be "
    "called right, whatever the engine.",
}


def sentence(located: Located) -> str:
    """Say where a disagreement begins, whether what was read there agreed, and what shows it."""
    parts = [_place(located), located.told, _files(located)]
    return " ".join(filter(None, parts))


def _place(located: Located) -> str:
    location = located.location
    if location is None or located.kind not in _WHAT:
        return ""
    where = _WHAT[located.kind].format(component=located.component, location=named(location))
    parts = [f"{where}{f', in {located.call}' if located.call else ''}: {_error(location)}."]
    if len(located.section) > 1:
        parts.append(_unmatched(located))
    parts.append(_inputs(located))
    parts.append(_WHY[located.kind])
    if located.last is not None:
        parts.append(f"The last value before it that agrees is that of {named(located.last)}.")
    if located.more:
        verb = "is" if located.more == 1 else "are"
        parts.append(f"At least {plural(located.more, 'other node')} further on {verb} wrong too.")
    return " ".join(filter(None, parts))


def _unmatched(located: Located) -> str:
    """Name the nodes that nothing could be compared with, the first of them first: it read what agrees."""
    nodes = located.section[:-1]
    more = len(nodes) - _SHOWN_NODES
    shown = [*nodes[:_SHOWN_NODES], *([f"{more} more"] if more > 0 else [])]
    guilty = located.kind != "spread" and len(nodes) > 1
    return (
        f"It is the first place with a counterpart after {plural(len(nodes), 'node')} without one"
        f"{', of which the first is the likeliest culprit' if guilty else ''}: {', '.join(shown)}."
    )


def named(location: Location) -> str:
    """Say which node, of which part of the module."""
    op = location.op.removeprefix("::")
    name = " ".join(filter(None, [op, location.node]))
    return f"{name} of {location.path}" if name and location.path else name or location.path or location.value


def _error(location: Location) -> str:
    if not math.isfinite(location.error):
        return "not all of its values are finite"
    return f"relative L2 error {location.error:.2e}, and at most {location.limit:.2e} passes there"


def _inputs(located: Located) -> str:
    """Say whether what was read there agreed."""
    if not located.inputs:
        return "What it reads could not be seen." if located.kind not in ("graph", "types", "export", "plain") else ""
    wrong = [one for one in located.inputs if one.error > one.limit]
    if wrong:
        worst = max(wrong, key=lambda one: one.error / one.limit)
        return f"What it reads differs already: {worst.value} by {worst.error:.2e}, where {worst.limit:.2e} passes."
    nearest = max(located.inputs, key=lambda one: one.error / one.limit)
    return (
        f"What it reads agrees: {nearest.value}, the nearest to its limit, has an error {nearest.error:.2e} of at most "
        f"{nearest.limit:.2e}."
    )


def _files(located: Located) -> str:
    files = located.reproduction
    if files is None:
        return ""
    return f"Reproduce it ({files.weights} weights): {files.command}"
