from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_sdperf.baselines import published
from pytest_sdperf.core.errors import BaselineError
from pytest_sdperf.core.machine.gpu_facts import load_gpus

SEEDS = Path("/work/shared/seeds")
FILES = published.load(published.folder())

needs_seeds = pytest.mark.skipif(not SEEDS.is_dir(), reason=f"the transcribed documents are not in {SEEDS}")


def document(word: str) -> published.Published:
    return next(one for one in FILES if word in one.source.title)


def tables_of(name: str) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return heading, column titles and rows of every Markdown table of a document."""
    tables: list[tuple[str, list[str], list[list[str]]]] = []
    heading, inside = "", False
    for line in (SEEDS / name).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("#"):
            heading, inside = line.strip("# :"), False
        elif "|" not in line:
            inside = False
        elif not inside:
            inside = True
            tables.append((heading, cells, []))
        elif not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            tables[-1][2].append(cells)
    return tables


def numbers(cells: list[str]) -> list[str]:
    """Return what a seed's measured cells say, in a form in which a published cell can be written too."""
    return [cell.replace(",", "").replace(" ", "") for cell in cells]


def said(cell: published.Cell, names: list[str]) -> list[float | str]:
    return [published.OOM if published.OOM in cell.flags else cell.values[name] for name in names]


def as_number(text: str) -> float | str:
    return text if text == published.OOM else float(text.rstrip("*"))


def check_ladder(table: published.Table, rows: list[list[str]]) -> None:
    assert [row.label for row in table.rows] == [row[0] for row in rows]
    for row, seed in zip(table.rows, rows, strict=True):
        assert [cell.batch_size for cell in row.cells] == [1, 8]
        for cell, (latency, memory) in zip(row.cells, (seed[1:3], seed[3:5]), strict=True):
            assert said(cell, ["latency_s", "memory_mb"]) == [as_number(text) for text in numbers([latency, memory])]
            assert (published.SUSPICIOUS in cell.flags) == ("*" in latency)


def check_engines(table: published.Table, rows: list[list[str]]) -> None:
    assert len(table.rows) == len(rows)
    names = ["latency_s", "first_run_memory_mb", "second_run_memory_mb"]
    for row, seed in zip(table.rows, rows, strict=True):
        (cell,) = row.cells
        assert [row.engine, row.version, row.provider or "-"] == seed[:3]
        assert cell.batch_size == int(seed[3])
        assert said(cell, names) == [as_number(text) for text in numbers(seed[4:7])]


@needs_seeds
def test_every_row_of_the_onnxruntime_document():
    seeds = {heading: rows for heading, _, rows in tables_of("001_5964985408348e7a.txt")}
    tables = {table.name: table for table in document("Stable Diffusion GPU Optimization").tables}
    assert {name: len(table.rows) for name, table in tables.items()} == {
        heading: len(rows) for heading, rows in seeds.items() if heading.startswith("Results")
    }
    for name, table in tables.items():
        check = check_ladder if name in ("Results on RTX 3060 GPU", "Results on MI250X with 1 GCD") else check_engines
        check(table, seeds[name])


@needs_seeds
def test_every_row_of_the_rocm_document():
    ladder, engines, mi100 = (rows for _, _, rows in tables_of("000_773ba2537e1cd78d.txt"))
    tables = document("ROCm EP").tables
    assert [len(table.rows) for table in tables] == [7, 12, 12]
    check_ladder(tables[0], ladder)
    check_engines(tables[1], engines)
    check_engines(tables[2], mi100)


@needs_seeds
def test_every_row_of_the_cuda_document():
    (rows,) = (rows for heading, _, rows in tables_of("002_f80f653bd5cf8a81.txt") if heading.startswith("Example"))
    (table,) = document("CUDA Optimization").tables
    names = ["latency_s", "median_latency_s", "first_run_memory_mb", "second_run_memory_mb"]
    assert len(table.rows) == len(rows) == 12
    for row, seed in zip(table.rows, rows, strict=True):
        assert [row.engine, row.version, row.provider] == seed[:3]
        assert [str(row.cells[0].batch_size)] == [seed[7]]
        assert said(row.cells[0], names) == [float(text) for text in seed[10:]]


@needs_seeds
def test_every_number_of_the_onediff_table():
    ((_, columns, rows),) = tables_of("004_9c1a97fe380abc4a.txt")
    tables = document("OneDiff").tables
    assert [table.name for table in tables] == columns[1:]
    for index, table in enumerate(tables, 1):
        cells = re.sub(r"<sup>.*?</sup>", "", "\n".join(row[index] for row in rows[1:]))
        seed = sorted(abs(float(text)) for text in re.findall(r"[\d.]+", cells))
        assert sorted(abs(value) for row in table.rows for value in row.cells[0].values.values()) == seed
        assert f"{table.width}*{table.height}" in table.name
        assert table.steps == 20


@needs_seeds
def test_every_number_that_lambda_states_in_its_text():
    text = (SEEDS / "003_1981c0f4c27ca76d.txt").read_text(encoding="utf-8").split("# Reproduce")[0]
    stated = {float(number) for number in re.findall(r"`([\d.]+)(?:%| GB)?`", text)}
    values = {abs(value) for table in document("Lambda").tables for row in table.rows
              for value in row.cells[0].values.values()}  # fmt: skip
    assert values == stated == {3.74, 5.56, 40.0, 52.0, 50.0, 7.7, 4.5, 64.0}


def test_counts_per_table_also_where_the_documents_are_absent():
    assert {one.source.title.split(" (")[0]: [len(table.rows) for table in one.tables] for one in FILES} == {
        "Benchmarking Diffuser Models": [3, 1, 2, 2, 1],
        "Run SD2 with nexfort backend": [2, 2, 2, 2],
        "Stable Diffusion CUDA Optimization": [12],
        "Stable Diffusion GPU Optimization": [8, 7, 9, 12, 8, 12, 19, 12, 12],
        "Run Stable Diffusion on AMD GPUs with ONNXRuntime ROCm EP": [7, 12, 12],
    }


def test_families_and_devices_are_those_of_the_gpu_table():
    gpus = load_gpus()
    for one in FILES:
        for table in one.tables:
            assert table.family == "" or table.family in gpus.families
            facts = gpus.facts(table.device)
            assert table.device == "" or (facts is not None and facts.family == table.family)


def test_flags_of_the_sources():
    flagged = [(row.label, cell.batch_size, flag) for one in FILES for table in one.tables for row in table.rows
               for cell in row.cells for flag in cell.flags]  # fmt: skip
    assert flagged.count(("Raw FP32 models", 8, "OOM")) == 1
    assert flagged.count(("FP16 baseline", 8, "OOM")) == 1
    assert flagged.count(("Raw FP32 models", 8, "suspicious images")) == 2
    assert flagged.count(("FP16 baseline", 8, "suspicious images")) == 2
    assert len(flagged) == 6


def test_beside_matches_family_model_and_batch_size():
    rows = published.beside(FILES, family="a100", model="sd15", batch_sizes=[16])
    assert [(match.row.engine, match.row.cells[0].values["latency_s"]) for match in rows] == [
        ("onnxruntime", 13.6), ("torch", 14.8), ("torch", 12.6)]  # fmt: skip
    assert published.beside(FILES, family="", model="sd15", batch_sizes=[1]) == ()
    assert published.beside(FILES, family="a100", model="sd15-thin", batch_sizes=[1]) == ()
    assert published.beside(FILES, family="a100", model="sd15", batch_sizes=[]) == ()


def of_rows(family, **fields):
    given = {"model": "sd21", "batch_sizes": [1], **fields}
    return [(match.table.name, match.row.label) for match in published.beside(FILES, family=family, **given)]


def test_rows_that_call_latency_end_to_end_stand_beside_a_request():
    assert of_rows("rtx-4090") == [
        ("RTX4090, 768*768", "PyTorch"),
        ("RTX4090, 768*768", "OneDiff nexfort"),
        ("RTX4090, 512*512", "PyTorch"),
        ("RTX4090, 512*512", "OneDiff nexfort"),
    ]
    (match, *_) = published.beside(FILES, family="rtx-4090", model="sd21", batch_sizes=[1])
    (cell,) = match.row.cells
    assert (cell.latency_s, cell.memory_mb, cell.has_numbers) == (1.78, 3.767 * 1024, True)


def test_what_was_measured_with_sd1_stands_beside_sd15():
    assert of_rows("quadro-rtx-8000", model="sd15") == [
        ("Latency, RTX 8000", "half precision against single precision")
    ]
    assert of_rows("quadro-rtx-8000", model="sd21") == []


def test_every_row_with_a_family_is_shown_for_some_run():
    """What nobody can ever see is not worth its place."""
    wanted = {(id(table), row.label, index) for one in FILES for table in one.tables if table.family
              for index, row in enumerate(table.rows)}  # fmt: skip
    shown = set()
    for family in {table.family for one in FILES for table in one.tables}:
        for model in ("sd15", "sd21", "sdxl"):
            for match in published.beside(FILES, family=family, model=model, batch_sizes=range(1, 65)):
                index = next(i for i, row in enumerate(match.table.rows) if row is match.row)
                shown.add((id(match.table), match.row.label, index))
    assert len(wanted) > 100
    assert shown == wanted


# ----------------------------------------------------------------------------------------------- bad files


def damaged(tmp_path: Path, change) -> Path:
    source = published.folder() / "onnxruntime-cuda-optimization.json"
    data = json.loads(source.read_text(encoding="utf-8"))
    change(data, data["tables"][0]["rows"][0]["cells"][0])
    path = tmp_path / "x.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


WHERE = "table 'Example Benchmark output', row 'onnxruntime 1.14.0 CUDAExecutionProvider', batch size 1: "


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data, cell: data.update(schema=2), "schema 2 instead of 1"),
        (lambda data, cell: data.update(author="x"), "Object contains unknown field `author`"),
        (lambda data, cell: data["source"].pop("protocol"), "Object missing required field `protocol` - at `$.source`"),
        (lambda data, cell: cell["values"].update(latency_s=0), f"{WHERE}latency_s is not positive"),
        (lambda data, cell: cell["values"].update(speed=3), f"{WHERE}unknown flag or metric 'speed'"),
        (lambda data, cell: cell.update(flags=["slow"]), f"{WHERE}unknown flag or metric 'slow'"),
        (lambda data, cell: cell.update(flags=["OOM"]), f"{WHERE}a cell holds either values or the flag 'OOM'"),
        (lambda data, cell: cell.update(values={}), f"{WHERE}a cell holds either values or the flag 'OOM'"),
        (lambda data, cell: cell.update(batch_size=0), f"{WHERE[:-3]}0: batch size below 1"),
    ],
)
def test_a_bad_file_is_named_with_the_place(tmp_path, change, why):
    path = damaged(tmp_path, change)
    with pytest.raises(BaselineError) as caught:
        published.read(path)
    assert str(caught.value) == f"published table {path} is not valid: {why}. Correct it against its source."


def test_a_bad_file_that_is_not_json(tmp_path):
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(BaselineError) as caught:
        published.load(tmp_path)
    assert str(caught.value) == (
        f"published table {tmp_path / 'x.json'} is not valid: line 1, column 2: Expecting property name enclosed in "
        f"double quotes. Correct it against its source."
    )


def test_a_name_that_occurs_twice_in_a_file(tmp_path):
    (tmp_path / "x.json").write_text('{"schema": 1, "schema": 1}')
    with pytest.raises(BaselineError) as caught:
        published.load(tmp_path)
    assert str(caught.value) == (
        f"published table {tmp_path / 'x.json'} is not valid: the name 'schema' occurs twice in one object. Correct it "
        f"against its source."
    )


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "x.json").mkdir()
    with pytest.raises(BaselineError) as caught:
        published.load(tmp_path)
    assert str(caught.value) == (
        f"cannot read published table {tmp_path / 'x.json'}: Is a directory. Make it readable."
    )


def test_no_folder_is_no_table(tmp_path):
    assert published.load(tmp_path / "nowhere") == ()
