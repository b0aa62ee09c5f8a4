"""Where outputs first left their reference: what is said of a disagreement, as plain values.

Standard library only: they travel in reports.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Location:
    """A value inside a component.

    Attributes:
        value: Its name in the graph; empty for the output of a module.
        node: Name of the node that makes it.
        op: `domain::op_type` of that node, or the class of the module.
        path: Path of the torch module that it belongs to, as far as it is known.
        error: Relative L2 error against the reference.
        limit: Largest error that passes there.
    """

    value: str
    node: str
    op: str
    path: str
    error: float
    limit: float


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """Files that show a fault by themselves.

    Attributes:
        folder: Where they are.
        command: What shows the fault; its exit status is 1 while it does.
        weights: `random`, `real`, or `seeded` for those of a model whose weights are drawn anyway.
    """

    folder: str
    command: str
    weights: str


@dataclasses.dataclass(frozen=True)
class Located:
    """Where a disagreement begins.

    Attributes:
        component: Where it was looked for.
        kind: `graph` (the build's graph is wrong: by its definition a node gives something else than the reference),
            `types` (the graph is right by its definition, and wrong in the types that it says), `engine` (a node gives
            something else than its definition), `module` (a module of a torch engine does), `spread` (no single place:
            errors add up), `vanished` (gone as soon as somebody looks inside), `export`
            (the exported graph is wrong before anything is optimized), `plain` (plain torch itself is not finite in the
            type that is tested, so nothing can be called right) or `hidden` (nobody can look inside).
        location: The first value that is wrong; None where none was found.
        inputs: What its node, or the nodes of `section`, read.
        last: The last value before it that agrees.
        section: Names of the nodes between values that agree and the first one that does not.
        more: How many other nodes are wrong by themselves.
        places: How many values were compared.
        call: Of a request, the call whose inputs were taken: `call 3 of 4`; else empty.
        reproduction: Files that show the fault; None where there are none.
        told: What else is to be said, as sentences.
    """

    component: str
    kind: str
    location: Location | None = None
    inputs: tuple[Location, ...] = ()
    last: Location | None = None
    section: tuple[str, ...] = ()
    more: int = 0
    places: int = 0
    call: str = ""
    reproduction: Reproduction | None = None
    told: str = ""

    def saying(self, told: str) -> Located:
        """Return it with something else to be said, behind what is said already; itself where that is nothing."""
        return dataclasses.replace(self, told=" ".join(filter(None, [self.told, told])))
