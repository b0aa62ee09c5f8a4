"""What an engine computed inside, compared value by value."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir
import torch

from pytest_sdperf.core.values.located import Location
from pytest_sdperf.tracing.activations import is_masked
from pytest_sdperf.tracing.comparison import GraphComparison
from pytest_sdperf.tracing.distances import distance, limit_of
from pytest_sdperf.tracing.reference import spot_of
from pytest_sdperf.tracing.section import last_before

Arrays = Mapping[str, np.ndarray]


class EngineActivations:
    """What an engine computed, compared value by value."""

    def __init__(self, comparison: GraphComparison, obtained: Arrays, *, dtype: str) -> None:
        self._comparison = comparison
        self.found: dict[ir.Value, tuple[float, float]] = {}
        for node in comparison.nodes:
            for value in node.outputs:
                exact, plain = comparison.exact.get(value), comparison.plain.get(value)
                if str(value.name) not in obtained or exact is None or plain is None:
                    continue
                array = torch.from_numpy(obtained[str(value.name)])
                telling = exact.numel() > 1 and bool(exact.any()) and not is_masked(exact)
                if array.is_floating_point() and array.shape == exact.shape and telling:
                    limit = limit_of(plain, exact, dtype=dtype)
                    if math.isfinite(limit):
                        self.found[value] = distance(array.to(exact.device), exact), limit

    @property
    def places(self) -> int:
        """How many values were compared."""
        return len(self.found)

    def _beyond(self, value: ir.Value) -> bool:
        error, limit = self.found.get(value, (0.0, 0.0))
        return error > limit

    def first_beyond(self) -> ir.Value | None:
        """Return the first value beyond its limit that an output beyond its limit comes from."""
        guilty = {
            value
            for node in self._comparison.nodes
            for value in node.outputs
            if value.is_graph_output()
            if self._beyond(value)
        }
        for node in reversed(self._comparison.nodes):
            for value in node.outputs:
                # A value that nobody saw is passed through.
                leads = any(out in guilty for user, _ in value.uses() for out in user.outputs)
                if leads and (self._beyond(value) or value not in self.found):
                    guilty.add(value)
        ordered = [value for node in self._comparison.nodes for value in node.outputs if value in guilty]
        return next((value for value in ordered if self._beyond(value)), None)

    def location(self, value: ir.Value) -> Location | None:
        """Return a value that was seen, as it is reported."""
        return spot_of(value, *self.found[value]) if value in self.found else None

    def last_before(self, first: ir.Node) -> Location | None:
        """Return the last value before a node that agrees."""
        last = last_before(first, {one for one in self.found if not self._beyond(one)})
        return None if last is None else self.location(last)
