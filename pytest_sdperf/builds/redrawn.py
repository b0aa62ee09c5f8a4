"""Builds with random numbers in place of weights: what was made wrong of a component is made wrong of these again.

What a fuser does shows on an export whose weights were drawn anew; what an exporter does, on a module whose were.
"""

from __future__ import annotations

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.builder import Builder
from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.fingerprint import library_versions, source_hash
from pytest_sdperf.core.alteration import BuildStage
from pytest_sdperf.core.contracts import Model
from pytest_sdperf.tasks import export, redraw, weights

_SEED = 0


class _Redrawing(Builder):
    def _redrawn(self, entry: Entry, file: str) -> Entry:
        parts = {
            "of": entry.digest,
            "seed": _SEED,
            "code": source_hash(redraw.__name__, "pytest_sdperf.tracing.redrawn"),
            "versions": library_versions(*steps.FUSE_LIBRARIES["native"]),
        }
        request = redraw.RedrawWeights(entry.path / file, _SEED)
        return self._make("redraw", parts, f"{redraw.__name__}:run", request, [])


class RedrawnGraphBuilder(_Redrawing):
    """Draws the weights of a graph anew where it has just been exported, or taken from somebody's folder.

    Modules keep theirs.
    """

    def after(self, stage: BuildStage, entry: Entry, component: str, altered: str) -> Entry:
        """Return the entry with other weights, altered like any."""
        if stage is BuildStage.WEIGHTS and (entry.path / export.FILE).is_file():
            entry = self._redrawn(entry, export.FILE)
        return super().after(stage, entry, component, altered)


class RedrawnBuilder(_Redrawing):
    """Draws the weights of a component anew before anything is made of them."""

    def _weights(self, model: Model, component: str) -> Entry:
        return self._redrawn(super()._weights(model, component), weights.FILE)
