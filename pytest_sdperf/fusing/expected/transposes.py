"""How many transposes a graph in channels-last layout needs at most, from how its modules are wired.

An image enters and leaves a component with its channels second. Between, only what works on channels in second place
needs transposes round it, and only a vector that is added to an image one of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_sdperf.fusing.expected import norms, sites

if TYPE_CHECKING:
    import torch

OF_ATTENTION = 5
"""An exporter turns query, key and value so that heads come first, the key once more, and the result back."""
_OF_IMAGES = 2
_OF_NORM = 2
_OF_SEQUENCE_NORM = 4


def round_convolutions(root: torch.nn.Module) -> int:
    """Return how many are needed if convolutions alone are channels-last: round norms and attentions too."""
    return _OF_IMAGES + round_norms(root) + round_attentions(root)


def round_norms(root: torch.nn.Module) -> int:
    """Return how many norms need that work on channels in second place, and vectors added to what they normalise."""
    found = norms.group_norms(root)
    sequences = sum(norm.rank == 3 for norm in found)
    return _OF_NORM * (len(found) - sequences) + _OF_SEQUENCE_NORM * sequences + len(sites.time_projections(root))


def round_attentions(root: torch.nn.Module) -> int:
    """Return how many attentions need that are not one node."""
    return OF_ATTENTION * len(sites.attentions(root))
