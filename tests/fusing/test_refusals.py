"""Graphs that a fusion refuses: what it says, and at which node it stopped."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import by_hand
import pytest
import refused_attentions
import refused_images
import refused_layers

import pytest_sdperf

TABLES = (refused_attentions.CASES, refused_images.CASES, refused_layers.CASES)
CASES = {name: case for table in TABLES for name, case in table.items()}


@pytest.mark.parametrize("name", CASES)
def test_refusal(name):
    fusions, build, expected = CASES[name]
    sites = by_hand.fuse(build(), *fusions)
    assert by_hand.refusals(sites, fusions[-1]) == expected


def test_no_name_stands_for_two_graphs():
    assert len(CASES) == sum(map(len, TABLES))


def reasons_in_the_code():
    """Every reason in a RefusalError, as a pattern: what is filled in can be anything."""
    package = Path(pytest_sdperf.__file__).parent
    for path in [*package.glob("fusing/*.py"), *package.glob("fusing/optimizations/fusions/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "RefusalError":
                text = node.args[0]
                parts = text.values if isinstance(text, ast.JoinedStr) else [text]
                yield "".join(re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in parts)


def test_every_reason_in_the_code_is_among_these():
    reached = {reason for _, _, expected in CASES.values() for _, _, reason in expected}
    patterns = set(reasons_in_the_code())
    assert len(patterns) > 40
    assert [pattern for pattern in sorted(patterns) if not any(re.fullmatch(pattern, each) for each in reached)] == []
