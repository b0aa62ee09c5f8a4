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


def imported(text: str, known: dict[str, Path]) -> set[str]:
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


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrows", action="store_true", help="print every arrow")
    chosen = parser.parse_args()
    known = modules()
    arrows: Counter[tuple[str, str]] = Counter()
    lines: Counter[str] = Counter()
    for name, path in known.items():
        text = path.read_text(encoding="utf-8")
        lines[room(name)] += len(text.splitlines())
        for other in imported(text, known):
            if room(name) and room(other) and room(name) != room(other):
                arrows[room(name), room(other)] += 1
    below: dict[str, set[str]] = defaultdict(set)
    for upper, lower in arrows:
        below[upper].add(lower)

    @functools.cache
    def floor(name: str) -> int:
        return 1 + max((floor(other) for other in below[name]), default=0)

    rooms = sorted((name for name in lines if name), key=lambda name: (-floor(name), name))
    for name in rooms:
        print(f"{floor(name):>3}  {name:<16} {lines[name]:>6} lines")
    if chosen.arrows:
        for (upper, lower), count in sorted(arrows.items()):
            print(f"     {upper} -> {lower}: {count}")
    faults = lines["faults"]
    print(
        f"{len(rooms)} rooms, {max(map(floor, rooms))} floors, {len(arrows)} arrows; {len(known)} files, "
        f"{sum(lines.values()):,} lines, {sum(lines.values()) - faults:,} without faults"
    )


if __name__ == "__main__":
    main()
