"""`sdperf baselines`: look at what is stored, accept what was measured, and keep the folder in order."""

from __future__ import annotations

from pytest_sdperf.cli.baselines import accept, export, import_, look, prune
from pytest_sdperf.cli.command import Commands

_ACTIONS = (look, accept, prune, import_, export)


def add_to(commands: Commands) -> None:
    """Add the command and its actions."""
    parser = commands.add_parser(
        "baselines", help="list, show, diff, accept, prune, import, export", description=__doc__
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    for action in _ACTIONS:
        action.add_to(actions)
