"""Count the house: rooms, floors and arrows of the package, and its lines.

    python benchmarks/house.py             # this tree
    python benchmarks/house.py --arrows    # and every pair of rooms that import each other, with the count

A room is a folder of `pytest_sdperf/` or a module beside them; an arrow is a pair of rooms of which one imports the
other, however often; floors are the rooms of the longest chain of arrows. Imports for type checkers alone do not count.
"""

from __future__ import annotations

import argparse
import ast
import functools
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "pytest_sdperf"


def modules() -> dict[str, Path]:
    """Return the modules of the package by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def executed(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes of a module, without those that only a type checker reads."""
    found, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
            continue
        found.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return found


def imported(text: str, known: Collection[str]) -> set[str]:
    """Return the modules of this package that a source text imports."""
    found = set()
    for node in executed(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & set(known)


def room(module: str) -> str:
    """Return the folder or the module right below the package."""
    return module.split(".")[1] if "." in module else ""


def counted(texts: Mapping[str, str]) -> Counter[tuple[str, str]]:
    """Return the arrows of modules, by name their text: upper room, lower room -> how many imports."""
    found: Counter[tuple[str, str]] = Counter()
    for name, text in texts.items():
        for other in imported(text, texts):
            if room(name) and room(other) and room(name) != room(other):
                found[room(name), room(other)] += 1
    return found


def floors(rooms: Iterable[str], arrows: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the floor of each room: that of the highest room that it imports, and one more."""
    below = _below(arrows)

    @functools.cache
    def floor(name: str) -> int:
        return 1 + max((floor(other) for other in below[name]), default=0)

    return {name: floor(name) for name in rooms}


def direct(arrows: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the arrows between rooms that no other arrows connect."""
    given = set(arrows)
    below = _below(given)

    @functools.cache
    def reached(name: str) -> frozenset[str]:
        return frozenset(below[name]).union(*(reached(other) for other in below[name]))

    return {(upper, lower) for upper, lower in given if all(lower not in reached(other) for other in below[upper])}


def _below(arrows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    below: dict[str, set[str]] = defaultdict(set)
    for upper, lower in arrows:
        below[upper].add(lower)
    return below


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrows", action="store_true", help="print every arrow")
    chosen = parser.parse_args()
    texts = {name: path.read_text(encoding="utf-8") for name, path in modules().items()}
    lines: Counter[str] = Counter()
    for name, text in texts.items():
        lines[room(name)] += len(text.splitlines())
    arrows = counted(texts)
    floor = floors(filter(None, lines), arrows)
    for name in sorted(floor, key=lambda name: (-floor[name], name)):
        print(f"{floor[name]:>3}  {name:<16} {lines[name]:>6} lines")
    if chosen.arrows:
        for (upper, lower), count in sorted(arrows.items()):
            print(f"     {upper} -> {lower}: {count}")
    print(
        f"{len(floor)} rooms, {max(floor.values())} floors, {len(arrows)} arrows; {len(texts)} files, "
        f"{sum(lines.values()):,} lines, {sum(lines.values()) - lines['faults']:,} without faults"
    )


if __name__ == "__main__":
    main()
