"""What one optimization of the ladder promises.

Standard library only at import time: workers import this under foreign interpreters.
"""

from __future__ import annotations

import pkgutil
from abc import ABC
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from pytest_sdperf.fusing.fusion import Fusion


class Optimization(ABC):
    """One optimization of the ladder.

    Attributes:
        name: Name on the command line.
        position: Place on the ladder; a cumulative build holds every optimization up to this one.
        ort_options: Attributes of `onnxruntime.transformers.fusion_options.FusionOptions` that this optimization
            switches on.
        takes_in: Operator of this optimization -> operator of a lower optimization, of which each takes in one.
            `domain::op[form]` is a form of `domain::op`: it cannot come to be where no lower optimization makes the
            latter.
        forms: Operator of this optimization -> `domain::op[form]`: what it is counted as instead where it has taken in
            more.
        rewrites: Classes of the rewrites of the fuser `native`, `module:Class`, in the order in which they are applied;
            they are imported where a graph is fused.
        replaces: Operators of which this optimization leaves none, where it makes any of its own.
    """

    name: str
    position: int
    ort_options: tuple[str, ...] = ()
    takes_in: Mapping[str, str] = {}
    forms: Mapping[str, tuple[str, ...]] = {}
    rewrites: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()

    def fusions(self) -> tuple[Fusion, ...]:
        """Return the rewrites, by default those that are named."""
        return tuple(pkgutil.resolve_name(name)() for name in self.rewrites)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators by which this optimization is known in a graph: forms of one instead of the plain one."""
        forms = [op for op in self.takes_in if "[" in op]
        made = [op for fusion in self.fusions() for op in (fusion.op, *self.forms.get(fusion.op, ()))]
        plain = [op for op in made if not any(form.startswith(f"{op}[") for form in forms)]
        return tuple(dict.fromkeys([*forms, *plain]))

    def sites(self, module: torch.nn.Module) -> Mapping[str, Sequence[str]]:
        """Derive `domain::op_type` -> paths of the sub-modules where this one makes that operator; none by default.

        Args:
            module: A component, as `Model.module` returns it; it may be on the meta device.
        """
        return {}

    def leaves(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Derive `domain::op_type` of ONNX -> how many this optimization needs at most in the graph of `module`.

        A negative number is of those that a lower optimization needs, and this one does without. Where no optimization
        of a build needs any of an operator, it is not counted; by default none does.
        """
        return {}

    def expected(self, module: torch.nn.Module) -> Mapping[str, int]:
        """Derive `domain::op_type` -> nodes that this one adds to the graph of `module` (which may be on meta).

        By default as many as there are `sites`, less what they take in, and 0 of what they replace.
        """
        counts = {op: len(paths) for op, paths in self.sites(module).items() if paths}
        total = dict(counts)
        for op, taken in self.takes_in.items():
            if op in counts:
                total[taken] = total.get(taken, 0) - counts[op]
        return {**total, **(dict.fromkeys(self.replaces, 0) if counts else {})}
