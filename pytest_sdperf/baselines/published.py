"""Published numbers: rows of papers and READMEs, shown beside a measurement, never used to fail a test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pytest_sdperf.baselines.shipped import shipped_folder
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.files import strict_json

SCHEMA = 1
OOM = "OOM"
SUSPICIOUS = "suspicious images"
FLAGS = frozenset({OOM, SUSPICIOUS})
METRICS = frozenset({
    "latency_s", "median_latency_s", "memory_mb", "first_run_memory_mb", "second_run_memory_mb", "iterations_per_s",
    "end_to_end_s", "max_memory_gib", "memory_gb", "warmup_compilation_s", "warmup_cache_s",
})  # fmt: skip
CHANGES = {
    "iterations_per_s_change_percent": "iterations/s",
    "end_to_end_s_change_percent": "latency",
    "latency_change_percent": "latency",
    "throughput_change_percent": "throughput",
}
ALIKE = {"sd1": "sd15"}
"""Model of a source -> the one of this suite that has its architecture, and so its times."""
_MIB_PER_GIB = 1024


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value of a published file: every field is required, none may be added."""


class Cell(_Strict, frozen=True):
    """What one row says about one batch size.

    Attributes:
        batch_size: Images per request.
        values: Metric, with its unit in its name, -> number. `_mb` is 2^20 bytes, as onnxruntime's benchmark counts;
            `_gb` is as the source writes it.
        flags: `OOM` (then there are no values) and `suspicious images`.
    """

    batch_size: int
    values: dict[str, float]
    flags: tuple[str, ...]

    @property
    def latency_s(self) -> float | None:
        """Seconds of a whole request, which some sources call end to end; None if the cell does not say it."""
        return self.values.get("latency_s", self.values.get("end_to_end_s"))

    @property
    def memory_mb(self) -> float | None:
        """Peak memory in MB of 2^20 bytes, of the second run where there are two; None if the cell does not say it."""
        gib = self.values.get("max_memory_gib")
        whole = self.values.get("memory_mb", None if gib is None else gib * _MIB_PER_GIB)
        return self.values.get("second_run_memory_mb", whole)

    @property
    def has_numbers(self) -> bool:
        """Whether a table has a column for what it says."""
        first = self.values.get("first_run_memory_mb")
        return bool(self.flags) or any(number is not None for number in (self.latency_s, self.memory_mb, first))


class PublishedRow(_Strict, frozen=True):
    """One row of a source's table.

    Attributes:
        label: Its title in the source.
        engine, version, provider: As the source writes them; empty where it does not.
        optimization: The same build in this suite's words, empty if unknown.
        cells: One per batch size.
    """

    label: str
    engine: str
    version: str
    provider: str
    optimization: str
    cells: tuple[Cell, ...]


class Table(_Strict, frozen=True):
    """One table of a source.

    Attributes:
        name: Its heading.
        family: GPU family; empty where the source does not name the GPU.
        device: Slug of the card, where the source says which.
        system: Operating system.
        model: Model in this suite's words.
        height, width, steps: 0 where the source does not say.
        notes: What a reader has to know.
        rows: In the order of the source.
    """

    name: str
    family: str
    device: str
    system: str
    model: str
    height: int
    width: int
    steps: int
    notes: tuple[str, ...]
    rows: tuple[PublishedRow, ...]


class Document(_Strict, frozen=True):
    """Where numbers come from.

    Attributes:
        title: Of the document.
        file: Name under which the document was transcribed.
        protocol: How its numbers were measured.
    """

    title: str
    file: str
    protocol: str


class Published(_Strict, frozen=True):
    """One file of `baselines/published`."""

    schema: int
    source: Document
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class PublishedMatch:
    """A row that may stand beside a measurement, and what kind of row it is."""

    source: Document
    table: Table
    row: PublishedRow
    kind: str = "published"

    @property
    def key(self) -> tuple[str, str]:
        """What its table is called: source and name."""
        return self.source.title, self.table.name


def folder() -> Path:
    """Return the folder of the shipped files."""
    return shipped_folder("published")


def own_folder(baselines: Path) -> Path:
    """Return the folder of a project's own files, below its baselines."""
    return baselines / "published"


def beside_baselines(baselines: Path) -> tuple[Published, ...]:
    """Read the shipped files, and a project's own below its baselines.

    Raises:
        BaselineError: As of `load`.
    """
    return load(folder(), own_folder(baselines))


def load(*folders: Path) -> tuple[Published, ...]:
    """Read every file of the folders, sorted by name; of two files of one name the one of the later folder counts.

    Raises:
        BaselineError: A file is not valid; the message names the place in it.
    """
    files = {file.name: file for folder in folders for file in folder.glob("*.json")}
    return tuple(read(file) for _, file in sorted(files.items()))


def read(path: Path) -> Published:
    """Read and check one file.

    Raises:
        BaselineError: It is not valid, or cannot be read.
    """
    try:
        published = strict_json.convert(strict_json.read(path), Published)
    except OSError as error:
        raise BaselineError(f"cannot read published table {path}: {error.strerror}. Make it readable.") from error
    except ValueError as error:
        problem = str(error)
    else:
        problem = _problem(published)
    if problem:
        raise BaselineError(f"published table {path} is not valid: {problem}. Correct it against its source.")
    return published


def _problem(published: Published) -> str:
    if published.schema != SCHEMA:
        return f"schema {published.schema} instead of {SCHEMA}"
    cells = ((table, row, cell) for table in published.tables for row in table.rows for cell in row.cells)
    for table, row, cell in cells:
        problem = _cell_problem(cell)
        if problem:
            return f"table {table.name!r}, row {row.label!r}, batch size {cell.batch_size}: {problem}"
    return ""


def _cell_problem(cell: Cell) -> str:
    unknown = sorted(set(cell.flags) - FLAGS) + sorted(set(cell.values) - METRICS - set(CHANGES))
    if unknown:
        return f"unknown flag or metric {unknown[0]!r}"
    if (OOM in cell.flags) == bool(cell.values):
        return "a cell holds either values or the flag 'OOM'"
    bad = [name for name, value in cell.values.items() if name in METRICS and not 0 < value < float("inf")]
    return f"{bad[0]} is not positive" if bad else "batch size below 1" if cell.batch_size < 1 else ""


def beside(
    published: Iterable[Published], *, family: str, model: str, batch_sizes: Iterable[int]
) -> tuple[PublishedMatch, ...]:
    """Return rows that were measured with this model on this GPU family, in the order of their sources.

    Args:
        published: What `load` returned.
        family: GPU family (`a100`); empty on a CPU, which matches nothing.
        model: Model name; a thin model matches nothing, and sd15 what was measured with sd1 too.
        batch_sizes: At least one of them must be in the row.
    """
    wanted = set(batch_sizes)
    return tuple(
        PublishedMatch(document.source, table, row)
        for document in published
        for table in document.tables
        if family and table.family == family and ALIKE.get(table.model, table.model) == model
        for row in table.rows
        if any(cell.batch_size in wanted for cell in row.cells)
    )
