"""Everything that users type, read or keep in files, as sorted lines: what a change of structure must not change.

python tests/users_see.py > tests/data/users_see.txt       # after a change that users are meant to see
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Selections whose node ids are kept: the default, and every axis that an id can show.
SELECTIONS = (
    ["suites"],
    ["suites", "--optimization=ladder", "--batch-size=1,4", "--component=unet", "--engine=ort-cpu,torch"],
    ["suites/test_fusions.py", "--model=sd21-thin,sdxl-thin,shapes", "--optimization=fp32,fp16+fmha,all-fmha"],
    ["suites/test_pipelines.py", "--component=pipeline", "--resolution=128x192", "--steps=5", "--scheduler=ddim"],
)


def commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Yield the commands below a parser, and their options and arguments."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below, one in action.choices.items():
                yield f"command: {name} {below}"
                yield from commands(one, f"{name} {below}")
        else:
            yield f"command: {name} {', '.join(action.option_strings) or action.dest.upper()}"


def options() -> Iterator[str]:
    """Yield every option of pytest's command line, as it is typed, and every one of files alone."""
    from pytest_sdperf.cases.options.flags import OPTIONS

    for option in OPTIONS:
        yield f"option: {option.usage}"


def python_names() -> Iterator[str]:
    """Yield fixtures, arguments of the marker and hooks."""
    from our_fixtures import our_fixtures

    from pytest_sdperf import short_fixtures
    from pytest_sdperf.cases.options.marks import Marks
    from pytest_sdperf.plugin import hookspecs

    yield from (f"fixture: {name}" for name in our_fixtures())
    yield from (f"short fixture: {name}" for name in short_fixtures.__all__)
    yield from (f"marker: sdperf({name}=)" for name in Marks.__dataclass_fields__)
    yield from (f"hook: {name}" for name in vars(hookspecs) if name.startswith("pytest_sdperf_"))


def words() -> Iterator[str]:
    """Yield verdicts, reason codes and exit statuses, the latter two as the manual has them."""
    from pytest_sdperf.core.values.outcomes import Outcome

    yield from (f"verdict: {outcome.value}" for outcome in Outcome)
    page = (ROOT / "docs" / "codes.md").read_text(encoding="utf-8")
    yield from (
        f"code: {code} {verdict}"
        for code, verdict in re.findall(r"^\| `([a-z-]+)` \| ([A-Z ]+) \|", page, re.MULTILINE)
    )
    page = (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8")
    yield from (f"exit status: {status}" for status in re.findall(r"^\| (\d+) \| ", page, re.MULTILINE))


def json_keys() -> Iterator[str]:
    """Yield the keys of the file of results, as its published schema has them."""
    schema = json.loads((ROOT / "docs" / "results.schema.json").read_text(encoding="utf-8"))
    yield from (f"json: {name}.{key}" for name, one in schema["$defs"].items() for key in one.get("properties", ()))


def node_ids() -> Iterator[str]:
    """Yield the node ids of the suites under some selections."""
    for selection in SELECTIONS:
        command = [sys.executable, "-m", "pytest", *selection, "--collect-only", "-q", "-p", "no:cacheprovider"]
        found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        ids = sorted(line for line in found.splitlines() if "::" in line)
        yield from (f"node id: {line}" for line in ids)


def lines() -> list[str]:
    """Return everything, sorted by what it is."""
    from pytest_sdperf import cli

    found = [options(), commands(cli.parser(), "sdperf"), python_names(), words(), json_keys(), node_ids()]
    return [line for lines in found for line in sorted(set(lines))]


if __name__ == "__main__":
    print("\n".join(lines()))
