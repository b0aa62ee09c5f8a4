"""The manual's page of reason codes holds every code that the source can give, with its verdict, and no other."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_sdperf.core.values.outcomes import Outcome

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
SPELLED = re.compile(r"[a-z]+(-[a-z0-9]+)+")
# Words of that spelling in modules that give verdicts, which are no codes: metrics, tolerances, a kernel, a plugin.
OTHERS = {
    "allocator-memory", "artifact-size", "build-time", "changed-inputs", "compiled-size", "convolution-nhwc",
    "cuda-graph", "first-run-memory", "host-waits", "sdperf-time-budget", "second-run-memory", "warm-start",
}  # fmt: skip
# Codes that are put together: the pieces stand in the source.
JOINED = {
    "worker-{failure.reason}": {f"worker-{reason}" for reason in ("crash", "error", "killed", "protocol", "timeout")},
    "{first.level}": {"component", "drift", "image", "joints", "steps"},
    "{code}-missing": {"memcpy-missing", "placement-missing"},
    "{code}-not-seen": {"memcpy-not-seen", "partitions-not-seen", "placement-not-seen"},
    "latency-{code}-interval": {"latency-above-interval", "latency-below-interval"},
}


def rows() -> list[tuple[str, str]]:
    """Return code and verdict of every row of the page."""
    return re.findall(r"^\| `([a-z-]+)` \| ([A-Z ]+) \| .+ \| .*\|$", PAGE, flags=re.MULTILINE)


def trees() -> list[ast.Module]:
    """Return the modules that give verdicts, or their codes."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "pytest_sdperf").rglob("*.py"))]
    found = [
        ast.parse(text)
        for text in texts
        if any(word in text for word in ("Verdict(", "judging.fitness", "(NumberMetric)"))
    ]
    return [tree for tree in found if any(_gives(node) for node in ast.walk(tree))]


def _gives(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "pytest_sdperf.checks.judging.fitness" and "invalid" in {name.name for name in node.names}
    if isinstance(node, ast.ClassDef):
        return "NumberMetric" in {ast.unparse(base) for base in node.bases}
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "Verdict"


def _code_of(call: ast.Call) -> ast.expr | None:
    """Return what a call that makes a verdict has in the place of the code."""
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    place = {"invalid": 0, "Verdict": 1, "verdict": 1}.get(name)
    return call.args[place] if place is not None and len(call.args) > place else None


def in_place(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the codes that stand where a verdict is made, those that are put together as they are written."""
    for node in nodes:
        code = _code_of(node) if isinstance(node, ast.Call) else None
        if isinstance(code, ast.Constant):
            yield code.value
        if isinstance(code, ast.JoinedStr):
            yield ast.unparse(code)[2:-1]


def beside_an_outcome(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    """Yield code and outcome where one follows the other, in a tuple or a call, and what `invalid` makes."""
    for node in nodes:
        parts = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        pairs = zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else itertools.pairwise(parts)
        for first, second in pairs:
            outcome = first.attr if isinstance(first, ast.Attribute) and ast.unparse(first.value) == "Outcome" else ""
            if outcome and isinstance(second, ast.Constant) and SPELLED.fullmatch(str(second.value)):
                yield str(second.value), Outcome[outcome].value
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "invalid"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value), Outcome.INVALID.value


@pytest.fixture(scope="module")
def nodes() -> list[ast.AST]:
    """Everything in the modules that give verdicts."""
    return [node for tree in trees() for node in ast.walk(tree)]


def test_the_page_holds_the_codes_of_the_source_and_no_others(nodes):
    constants = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    spelled = {value for value in constants if SPELLED.fullmatch(value)} - OTHERS
    placed = set(in_place(nodes))
    assert {code for code in placed if "{" in code} == set(JOINED)
    codes = (spelled | placed).difference(JOINED).union(*JOINED.values())
    told = [code for code, _ in rows()]
    assert sorted(told) == sorted(codes)


def test_every_line_of_its_tables_is_a_row_of_a_verdict():
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows()) == len(lines)
    assert {verdict for _, verdict in rows()} == {outcome.value for outcome in Outcome}


def test_the_page_has_the_verdict_of_every_code(nodes):
    told, found = dict(rows()), set(beside_an_outcome(nodes))
    assert len(found) > 60
    assert [(code, verdict) for code, verdict in sorted(found) if told[code] != verdict] == []


def test_every_verdict_that_fails_or_is_skipped_says_what_to_do():
    silent = re.findall(
        r"^\| `([a-z-]+)` \| (?!PASSED|HELD|IMPROVED)[A-Z ]+ \| [^|]+ \| +\|$", PAGE, flags=re.MULTILINE
    )
    assert silent == []
