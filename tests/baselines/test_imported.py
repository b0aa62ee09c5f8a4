"""Numbers of other tools stand beside measurements and judge nothing."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_shapes import damaged

from pytest_sdperf import cli
from pytest_sdperf.baselines import files, published
from pytest_sdperf.baselines.imported import About, read_foreign
from pytest_sdperf.core.errors import OptionError, UnknownNameError
from pytest_sdperf.report.run_info import RunInfo
from pytest_sdperf.report.terminal import report_lines

# As onnxruntime 1.32 writes them; older versions have no last column. The header is repeated before every line.
COLUMNS = (
    "model_name,directory,engine,version,provider,disable_safety_checker,height,width,steps,batch_size,batch_count,"
    "num_prompts,average_latency,median_latency,first_run_memory_MB,second_run_memory_MB,enable_cuda_graph"
)
OLDER = COLUMNS.removesuffix(",enable_cuda_graph")
SD15 = "runwayml/stable-diffusion-v1-5"
LINES = [
    COLUMNS,
    f"{SD15},/somewhere/sd15-fp16,onnxruntime,1.32.0,CUDAExecutionProvider,True,512,512,50,1,5,1,0.62,0.61,3100,3120,",
    COLUMNS,
    f"{SD15},/somewhere/sd15-fp16,onnxruntime,1.32.0,CUDAExecutionProvider,True,512,512,50,4,5,1,2.1,2.0,5100,5120,",
    OLDER,
    "stabilityai/stable-diffusion-2-1,,torch,2.11.0,compile,True,768,768,50,1,5,1,1.62,1.61,,",
    COLUMNS,
    f"{SD15},/somewhere/sd15-fp16,onnxruntime,1.32.0,CUDAExecutionProvider,True,512,512,50,1,5,1,0.6,0.59,3100,3120,",
    COLUMNS,
    f"{SD15},engines,tensorrt,10.9,default,True,512,512,50,1,5,1,0.4,0.39,3000,3000,True",
]
ALLOWED = "Allowed: benchmark_result.csv of onnxruntime's benchmark.py, or a JSON file of pytest-benchmark."


def a_file(folder, text, name="benchmark_result.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def benchmark(name, mean=0.5, **told):
    return {"name": name, "params": None, "extra_info": told, "stats": {"mean": mean, "median": 0.4, "rounds": 5}}


def test_every_line_of_onnxruntimes_file_becomes_a_cell(tmp_path):
    found = read_foreign(a_file(tmp_path, "\n".join(LINES) + "\n"), About("h200"))
    sd15, sd21 = found.tables
    assert (sd15.model, sd15.family, sd15.height, sd15.width, sd15.steps) == ("sd15", "h200", 512, 512, 50)
    assert (sd21.model, sd21.height) == ("sd21", 768)
    ort, tensorrt = sd15.rows
    assert (ort.label, ort.engine, ort.version, ort.provider) == (
        "onnxruntime 1.32.0 CUDA sd15-fp16",
        "onnxruntime",
        "1.32.0",
        "CUDA",
    )
    assert tensorrt.label == "tensorrt 10.9 default engines CUDA graph"
    assert [cell.batch_size for cell in ort.cells] == [1, 4]
    # Of two runs of the same thing the newer one counts.
    assert ort.cells[0].values == {
        "latency_s": 0.6,
        "median_latency_s": 0.59,
        "first_run_memory_mb": 3100.0,
        "second_run_memory_mb": 3120.0,
    }
    assert sd21.rows[0].cells[0].values == {"latency_s": 1.62, "median_latency_s": 1.61}


def test_whole_requests_of_pytest_benchmark_become_rows(tmp_path):
    names = [
        "test_speed[sd15-pipeline-on-ort-cuda-at-fp16-batch-4]",
        "test_speed[sd15-unet-on-ort-cuda-at-fp16]",
    ]
    data = {"benchmarks": [*map(benchmark, names), benchmark("test_mine", batch_size=8), benchmark("test_other")]}
    path = a_file(tmp_path, json.dumps(data), "0001_run.json")
    (table,) = read_foreign(path, About("a100-sxm4-40gb", "sd15")).tables
    assert (table.family, table.device) == ("a100", "a100-sxm4-40gb")
    assert [(row.label, row.cells[0].batch_size) for row in table.rows] == [
        (names[0], 4),
        ("test_mine", 8),
        ("test_other", 1),
    ]
    assert table.rows[0].cells[0].values == {"latency_s": 0.5, "median_latency_s": 0.4}


def test_real_files_of_pytest_benchmark_are_understood(tmp_path, pytester):
    pytester.makepyfile("def test_it(benchmark): benchmark.pedantic(sum, args=([1, 2],), rounds=3)")
    path = tmp_path / "out.json"
    pytester.runpytest_subprocess("-p", "no:sdperf", f"--benchmark-json={path}").assert_outcomes(passed=1)
    (table,) = read_foreign(path, About("h100", "sd15")).tables
    assert [row.label for row in table.rows] == ["test_it"]


@pytest.mark.parametrize(
    ("name", "text", "model", "message"),
    [
        ("r.csv", "engine,version\n", "", "{path}, line 1: no header that begins with 'model_name'. {allowed}"),
        ("r.csv", "model_name,engine\n", "", "{path}, line 1: no column 'height'. {allowed}"),
        ("r.csv", "", "", "{path} holds no whole request, and other numbers have no table to stand in. {allowed}"),
        (
            "r.csv",
            LINES[1].join([f"{COLUMNS}\n", ""]).replace("0.62", "0"),
            "",
            "{path}, line 2: latency_s is not a positive number. Correct the line, or take it out.",
        ),
        (
            "r.csv",
            LINES[1].join([f"{COLUMNS}\n", ""]).replace("0.62", "nan"),
            "",
            "{path}, line 2: latency_s is not a positive number. Correct the line, or take it out.",
        ),
        (
            "r.csv",
            LINES[1].join([f"{COLUMNS}\n", ""]).replace("0.62", "fast"),
            "",
            "{path}, line 2: could not convert string to float: 'fast'. Correct the line, or take it out.",
        ),
        (
            "r.csv",
            LINES[1].join([f"{COLUMNS}\n", ""]).replace(SD15, "mine"),
            "",
            "{path}: model 'mine' is none that this suite knows. Say which it is: --model=NAME.",
        ),
        (
            "r.csv",
            LINES[1].join([f"{COLUMNS}\n", ""]).rpartition(",0.62")[0],
            "",
            "{path}, line 2: it ends after 12 of 17 columns. Correct the line, or take it out.",
        ),
        ("r.csv", "9" * 200_000, "", "{path} is no CSV file: field larger than field limit (131072). {allowed}"),
        ("r.json", "{}", "sd15", "{path} is no file of pytest-benchmark: KeyError('benchmarks'). {allowed}"),
        (
            "r.json",
            json.dumps({"benchmarks": [benchmark("test_it", mean=0)]}),
            "sd15",
            (
                "{path} is no file of pytest-benchmark: ValueError('the time of test_it is not a positive number'). "
                "{allowed}"
            ),
        ),
        (
            "r.json",
            json.dumps({"benchmarks": [benchmark("test_it")]}),
            "",
            "{path} does not say which model it measured. Add --model=NAME.",
        ),
    ],
)
def test_a_file_that_cannot_be_understood_is_answered_with_what_is_allowed(tmp_path, name, text, model, message):
    path = a_file(tmp_path, text, name)
    with pytest.raises(OptionError) as caught:
        read_foreign(path, About("h200", model))
    assert str(caught.value) == message.format(path=path, allowed=ALLOWED)


BENCHMARKS = st.fixed_dictionaries({
    "name": st.sampled_from(["test_it", "test_it[a-pipeline-on-b-batch-4]", "\ud83d"]),
    "params": st.none() | st.just({"batch_size": 2}),
    "extra_info": st.sampled_from([{}, {"batch_size": 1}]),
    "stats": st.just({"mean": 0.5, "median": 0.4}),
})  # fmt: skip
FILES = st.one_of(
    st.text(),
    damaged(st.fixed_dictionaries({"benchmarks": st.lists(BENCHMARKS, max_size=2)})).map(json.dumps),
    st.just("[" * 5000),
    st.lists(st.sampled_from([*LINES, SD15, f"{SD15},,torch", f"{LINES[1][:-1]}x,more", "\0", "9" * 200_000])).map(
        "\n".join
    ),
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.sampled_from(["r.csv", "r.json"]), st.sampled_from(["", "sd15"]))
def test_a_file_of_any_content_becomes_a_table_that_can_be_read_or_is_refused(tmp_path, text, name, model):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        found = read_foreign(path, About("h200", model))
    except OptionError as error:
        told = str(error)
    else:
        told, written = str(path), tmp_path / "table.json"
        written.write_text(files.pretty(msgspec.to_builtins(found)), encoding="utf-8")
        assert published.read(written) == found
    assert str(path) in told


@pytest.mark.parametrize("name", ["r.csv", "r.json"])
def test_a_byte_order_mark_is_passed_over_and_other_encodings_are_named(tmp_path, name):
    """As Excel, Notepad and PowerShell 5.1 write them."""
    text = "\n".join(LINES) if name == "r.csv" else json.dumps({"benchmarks": [benchmark("test_it")]})
    path, about = tmp_path / name, About("h200", "sd15")
    found = read_foreign(a_file(tmp_path, text, name), about)
    path.write_text(text, encoding="utf-8-sig")
    assert read_foreign(path, about) == found
    path.write_text(text, encoding="utf-16")
    with pytest.raises(OptionError) as caught:
        read_foreign(path, about)
    assert str(caught.value) == (
        f"cannot read {path}: it is text in UTF-16, as Windows PowerShell 5.1 writes it with `>`; save it as UTF-8. "
        f"{ALLOWED}"
    )


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(OptionError) as caught:
        read_foreign(tmp_path / "r.csv", About("h200"))
    assert str(caught.value) == f"cannot read {tmp_path / 'r.csv'}: No such file or directory. {ALLOWED}"


def test_a_gpu_that_nobody_knows_is_answered_with_those_that_there_are(tmp_path):
    with pytest.raises(UnknownNameError) as caught:
        read_foreign(a_file(tmp_path, "\n".join(LINES)), About("h2000"))
    assert str(caught.value).startswith("unknown GPU 'h2000'. Did you mean ")
    assert str(caught.value).endswith(" A slug of one of these will do, too.")


def test_the_command_writes_a_table_that_the_report_shows(tmp_path, monkeypatch, capsys):
    from sample_values import case, measurement

    from pytest_sdperf.checks.judging.policy import Policy
    from pytest_sdperf.checks.judging.verdict import judge
    from pytest_sdperf.checks.reporting.case_report import CaseReport

    monkeypatch.chdir(tmp_path)
    a_file(tmp_path, "\n".join(LINES))
    arguments = ["baselines", "import", "benchmark_result.csv", "--gpu=h200", "--baselines=baselines"]
    assert cli.main([*arguments, "--name=before"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "sd15 on h200: 2 rows",
        "sd21 on h200: 1 row",
        "written to baselines/published/before.json; shown beside measurements of h200, never used to judge them",
    ]
    tables = published.load(published.own_folder(tmp_path / "baselines"))
    whole = measurement(case=case(model="sd15", component="pipeline", steps=50), calls=51)
    report = CaseReport("a::b", whole.case, whole, verdicts=judge(whole, None, policy=Policy()))
    lines = report_lines([report], RunInfo("A card", "h200", "h200"), width=120, published=tables, verbosity=1)
    assert any("tensorrt 10.9" in line.text for line in lines)
    # The folder of baselines has no case more than before.
    assert list((tmp_path / "baselines").glob("*.json")) == []


def test_of_two_published_files_of_one_name_the_projects_own_counts(tmp_path):
    for folder, file in (("shipped", "a.csv"), ("own", "b.csv")):
        (tmp_path / folder).mkdir()
        path = a_file(tmp_path, "\n".join(LINES), file)
        arguments = ["baselines", "import", str(path), "--gpu=h200", "--name=same"]
        assert cli.main([*arguments, f"--baselines={tmp_path / folder}"]) == 0
    folders = [published.own_folder(tmp_path / name) for name in ("shipped", "own")]
    assert [one.source.file for one in published.load(*folders)] == ["b.csv"]


def test_files_of_one_name_are_kept_side_by_side_and_never_replace_each_other(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for folder, lines in (("a", LINES), ("b", LINES[:2])):
        (tmp_path / folder).mkdir()
        a_file(tmp_path / folder, "\n".join(lines))

    def type_import(folder, *options):
        arguments = ["baselines", "import", f"{folder}/benchmark_result.csv", "--baselines=baselines", *options]
        return cli.main(arguments), capsys.readouterr().err

    assert type_import("a", "--gpu=a100") == (0, "")
    assert type_import("b", "--gpu=h100") == (0, "")
    assert type_import("a", "--gpu=a100") == (0, "")
    assert type_import("b", "--gpu=h100", "--model=sd15") == (0, "")
    written = published.own_folder(tmp_path / "baselines")
    names = ["benchmark_result-a100.json", "benchmark_result-h100-sd15.json", "benchmark_result-h100.json"]
    assert sorted(path.name for path in written.iterdir()) == names
    before = (written / names[0]).read_text()
    assert type_import("b", "--gpu=a100") == (
        4,
        (
            "ERROR: baselines/published/benchmark_result-a100.json holds other numbers already. Type "
            "--name=benchmark_result-a100 to replace them, or another name to keep both.\n"
        ),
    )
    assert (written / names[0]).read_text() == before
    assert type_import("b", "--gpu=a100", "--name=benchmark_result-a100") == (0, "")
    assert (written / names[0]).read_text() != before
