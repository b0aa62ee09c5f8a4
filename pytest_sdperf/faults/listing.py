"""What `sdperf faults` lists: the faults that can be planted, and what to type to see one found."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_sdperf.core.units import plural
from pytest_sdperf.faults import known


def fault_lines(name: str) -> Iterator[str]:
    """Yield one line per fault, by area; of one that is named what to type and what must be said.

    Raises:
        UnknownNameError: There is no such fault.
    """
    if name:
        yield from _one(name)
        return
    yield f"{plural(len(known.FAULTS), 'fault')}; `sdperf faults NAME` says how one is found"
    for area in known.AREAS:
        mine = [fault for fault in known.FAULTS.values() if fault.area == area]
        yield ""
        yield f"{area} ({len(mine)})"
        for fault in mine:
            yield f"  {fault.name}: {fault.about}"


def _one(name: str) -> Iterator[str]:
    fault = known.get(name)
    code = f" [{fault.found.code}]" if fault.found.code else ""
    yield f"{fault.name}: {fault.about}"
    yield f"goes into {fault.place.value}"
    yield f"is found as {fault.found.verdict}{code}, exit status {fault.found.status}; # is a number, ... any text:"
    yield f"  {fault.found.words}"
    if fault.on_gpu:
        yield "needs a GPU: only its driver tells such a thing"
    yield "type:"
    if fault.preparation:
        yield f"  {fault.preparation}"
    yield f"  {fault.command}"
