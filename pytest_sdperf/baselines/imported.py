"""Numbers of other tools, as published tables: shown beside a measurement, never used to judge one.

They are means of one process each. Without raw samples of several processes nobody can say what is chance, and without
the keys of their machine nobody knows whether it is the same; so they never become a baseline.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from pytest_sdperf.baselines.published import SCHEMA, Cell, Document, Published, PublishedRow, Table
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.machine.gpu_facts import load_gpus

# What onnxruntime's benchmark.py calls the models of this suite.
ORT_MODELS = {"stable-diffusion-v1-5": "sd15", "stable-diffusion-2-1": "sd21", "stable-diffusion-xl": "sdxl"}
ORT_FIRST_COLUMN = "model_name"
ORT_NEEDED = ("engine", "height", "width", "steps", "batch_size", "average_latency")
ORT_METRICS = {
    "average_latency": "latency_s",
    "median_latency": "median_latency_s",
    "first_run_memory_MB": "first_run_memory_mb",
    "second_run_memory_MB": "second_run_memory_mb",
}
ORT_PROTOCOL = (
    "onnxruntime's stable_diffusion/benchmark.py: whole requests in one process after warm-up, their average and "
    "median in seconds; memory is the peak of the whole GPU in the two warm-up runs, in MB of 2^20 bytes."
)
BENCHMARK_PROTOCOL = "pytest-benchmark: mean and median of its rounds in one process, in seconds."

_OURS = re.compile(r"\[.+-on-.+\]")
_OURS_WHOLE = re.compile(r"-pipeline-on-")
_BATCH = re.compile(r"-batch-(\d+)")


@dataclass(frozen=True)
class About:
    """What the file does not say.

    Attributes:
        gpu: GPU of the numbers: a family or a slug.
        model: Model in this suite's words; empty where the file says it.
    """

    gpu: str
    model: str = ""

    @property
    def family(self) -> str:
        """Its family.

        Raises:
            UnknownNameError: No such GPU is known.
        """
        cards = load_gpus()
        facts = cards.facts(self.gpu)
        if facts is None and self.gpu not in cards.families:
            raise UnknownNameError("GPU", self.gpu, cards.families, hint="A slug of one of these will do, too.")
        return facts.family if facts else self.gpu

    def table(self, model: str, sizes: tuple[int, int, int], rows: tuple[PublishedRow, ...]) -> Table:
        """Return a table of these rows."""
        height, width, steps = sizes
        return Table(
            name=f"{model} on {self.gpu}",
            family=self.family,
            device=self.gpu if load_gpus().facts(self.gpu) else "",
            system="",
            model=model,
            height=height,
            width=width,
            steps=steps,
            notes=("Imported; never used to judge.",),
            rows=rows,
        )


def read_foreign(path: Path, about: About) -> Published:
    """Read a file of another tool: `benchmark_result.csv` of onnxruntime, or JSON of pytest-benchmark.

    Raises:
        OptionError: It cannot be read, or is neither.
        UnknownNameError: The GPU is not known.
    """
    try:
        text = strict_json.text_of(path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise OptionError(f"cannot read {path}: {why}. {_ALLOWED}") from error
    if path.suffix == ".csv":
        tables, protocol = _ort_tables(path, text, about), ORT_PROTOCOL
    else:
        tables, protocol = _benchmark_tables(path, text, about), BENCHMARK_PROTOCOL
    if not tables:
        raise OptionError(f"{path} holds no whole request, and other numbers have no table to stand in. {_ALLOWED}")
    return Published(schema=SCHEMA, source=Document(title=path.name, file=path.name, protocol=protocol), tables=tables)


_ALLOWED = "Allowed: benchmark_result.csv of onnxruntime's benchmark.py, or a JSON file of pytest-benchmark."


def _ort_tables(path: Path, text: str, about: About) -> tuple[Table, ...]:
    tables: dict[tuple[str, tuple[int, int, int]], dict[tuple[str, ...], dict[int, Cell]]] = {}
    for number, line in _ort_lines(path, text):
        try:
            sizes = (int(line["height"]), int(line["width"]), int(line["steps"]))
            cell = Cell(batch_size=int(line["batch_size"]), values=_metrics(line), flags=())
        except ValueError as error:
            raise OptionError(f"{path}, line {number}: {error}. Correct the line, or take it out.") from error
        model = about.model or _ort_model(path, line)
        rows = tables.setdefault((model, sizes), {})
        # The file grows from run to run: of two runs of the same thing the newer one counts.
        rows.setdefault(_ort_row(line), {})[cell.batch_size] = cell
    return tuple(
        about.table(model, sizes, tuple(_row(words, cells) for words, cells in rows.items()))
        for (model, sizes), rows in tables.items()
    )


def _ort_lines(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each line as a mapping. The tool writes its header before every line, and columns differ by version."""
    header: list[str] = []
    try:
        lines = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise OptionError(f"{path} is no CSV file: {error}. {_ALLOWED}") from error
    for number, values in enumerate(lines, 1):
        if values and values[0] == ORT_FIRST_COLUMN:
            header = values
            lacking = [name for name in ORT_NEEDED if name not in header]
            if lacking:
                raise OptionError(f"{path}, line {number}: no column {lacking[0]!r}. {_ALLOWED}")
        elif values and not header:
            raise OptionError(f"{path}, line {number}: no header that begins with {ORT_FIRST_COLUMN!r}. {_ALLOWED}")
        elif values and len(values) < len(header):
            raise OptionError(
                f"{path}, line {number}: it ends after {len(values)} of {len(header)} columns. Correct the line, or "
                f"take it out."
            )
        elif values:
            yield number, dict(zip(header, values, strict=False))


def _metrics(line: Mapping[str, str]) -> dict[str, float]:
    found = {name: float(line[column]) for column, name in ORT_METRICS.items() if line.get(column)}
    bad = [name for name, value in found.items() if not 0 < value < float("inf")]
    if bad or "latency_s" not in found:
        raise ValueError(f"{bad[0] if bad else 'latency_s'} is not a positive number")
    return found


def _ort_model(path: Path, line: Mapping[str, str]) -> str:
    name = line[ORT_FIRST_COLUMN]
    found = next((model for text, model in ORT_MODELS.items() if text in name), "")
    if not found:
        raise OptionError(f"{path}: model {name!r} is none that this suite knows. Say which it is: --model=NAME.")
    return found


def _ort_row(line: Mapping[str, str]) -> tuple[str, ...]:
    """Return label, engine, version and provider. The folder's own name often says how the model was optimized."""
    words = [line["engine"], line.get("version", ""), line.get("provider", "").removesuffix("ExecutionProvider")]
    folder = PurePath(line.get("directory", "")).name
    graph = "CUDA graph" if line.get("enable_cuda_graph") == "True" else ""
    return (" ".join(word for word in (*words, folder, graph) if word), *words)


def _row(words: tuple[str, ...], cells: Mapping[int, Cell]) -> PublishedRow:
    label, engine, version, provider = words
    ordered = tuple(cells[size] for size in sorted(cells))
    return PublishedRow(label=label, engine=engine, version=version, provider=provider, optimization="", cells=ordered)


def _benchmark_tables(path: Path, text: str, about: About) -> tuple[Table, ...]:
    try:
        found = [_benchmark_row(one) for one in strict_json.parse(text)["benchmarks"] if _is_whole(one["name"])]
    except (ValueError, TypeError, KeyError) as error:
        raise OptionError(f"{path} is no file of pytest-benchmark: {error!r}. {_ALLOWED}") from error
    if not about.model:
        raise OptionError(f"{path} does not say which model it measured. Add --model=NAME.")
    rows = tuple(_row((name, "", "", ""), {cell.batch_size: cell}) for name, cell in found)
    return (about.table(about.model, (0, 0, 0), rows),) if rows else ()


def _is_whole(name: str) -> bool:
    """Whether a benchmark is a whole request: of this suite's tests some measure one component."""
    return not _OURS.search(name) or bool(_OURS_WHOLE.search(name))


def _benchmark_row(benchmark: Mapping[str, Any]) -> tuple[str, Cell]:
    stats, told = benchmark["stats"], {**(benchmark.get("params") or {}), **(benchmark.get("extra_info") or {})}
    spelled = _BATCH.search(benchmark["name"])
    size = int(spelled[1]) if spelled and _OURS.search(benchmark["name"]) else int(told.get("batch_size", 1))
    values = {"latency_s": float(stats["mean"]), "median_latency_s": float(stats["median"])}
    if not all(0 < value < float("inf") for value in values.values()):
        raise ValueError(f"the time of {benchmark['name']} is not a positive number")
    return benchmark["name"], Cell(batch_size=size, values=values, flags=())
