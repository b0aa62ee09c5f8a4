"""Every option, declared once: as `--sdperf-NAME`, as the ini value `sdperf_NAME`, and in `[tool.sdperf]`.

`command_line.py` adds the long spellings to pytest, `short_names.py` adds `--NAME` onto the same destinations. What
nobody types every day is an ini value alone, which `-o sdperf_NAME=VALUE` gives on a command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import platformdirs

from pytest_sdperf.cases.options import lookups, other_side
from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.engine_requests import engines
from pytest_sdperf.cases.options.option import Option, plain
from pytest_sdperf.cases.options.pipeline_factory import own_pipeline
from pytest_sdperf.core.schedulers import SCHEDULERS

GROUPS: Mapping[str, Sequence[Option]] = {
    "where it runs": (
        Option("gpu", "DEVICE", plain(read.text), help=
            "The device: auto (what is there), nvidia or cuda, amd or rocm, a family (a100), an architecture "
            "(gfx942), a slug (a100-sxm4-40gb), an index, a UUID, or cpu. Without it only the CPU is used, with a "
            "thin model."),
        Option("engine", "NAMES", engines, sets="selection.engines", page="engines", help=
            "Engines or profiles, with options after a colon: ort-cpu:threads=4,torch. all is every engine that fits "
            "the device. Default: torch and the onnxruntime engine of the device."),
    ),
    "what runs (a comma separates cases)": (
        Option("model", "NAMES", lookups.models, sets="selection.models", help=
            "Models. Default: sd15-thin on a CPU, sd15 on a GPU."),
        Option("component", "NAMES", lookups.components, sets="selection.components", help=
            "Components of the model, or pipeline for a whole request. Default: unet and pipeline; test_fusions "
            "builds every component."),
        Option("optimization", "NAMES", lookups.optimizations,
            sets="selection.optimizations selection.unnamed_optimizations", page="fusions", help=
            "Names from the ladder, each with all below it; fp16+fmha is exactly these, all-fmha is all but one, "
            "ladder is each in turn (for whole requests the first and the last); as-is is an --onnx-dir unchanged. "
            "Default: what the engine says; test_fusions builds the last one."),
        Option("batch-size", "NUMBERS", plain(read.counts, "a batch size"), sets="selection.batch_sizes", help=
            "Images per request; a UNet runs at twice this. Default: 1."),
        Option("fuser", "NAMES", plain(read.among, "fuser", ("native", "ort")), sets="selection.fusers",
            page="fusions", help=
            "What fuses an exported graph: native, ort. Default: native; test_fusions runs both."),
        Option("exporter", "NAME", plain(read.one_of, "exporter", ("dynamo", "torchscript")),
            sets="selection.exporter", page="fusions", help=
            "What exports to ONNX: dynamo or torchscript. Default: dynamo."),
        Option("opset", "NUMBER", plain(read.opset), sets="selection.opset", flag=False, help=
            "ONNX opset of the export, 17 to 23. Default: 18."),
        Option("shapes", "KIND", plain(read.one_of, "kind of shapes", ("static", "dynamic")),
            sets="selection.shapes", help=
            "Shapes of the exported graph: static or dynamic. Default: static."),
        Option("force-fp32-ops", "NAMES", lookups.fp32_ops, sets="selection.fp32_ops", page="fusions", help=
            "Operators that float16 builds keep in float32, as COMPONENT:OPERATOR: unet:MultiHeadAttention. They are "
            "one build. Default: none."),
        Option("weights", "SOURCE", lookups.weights, sets="selection.weights", help=
            "random (seeded), none (graphs are only looked at), a diffusers folder, or the id of a repository on the "
            "Hugging Face hub. Default: what comes with the model, else random."),
        Option("onnx-dir", "FOLDER", lookups.graphs, sets="selection.onnx_dir", page="own-pipeline", help=
            "A pipeline that was exported to ONNX already: one COMPONENT/model.onnx per component, as optimum writes "
            "it. --model says which pipeline it is. Default: none, models are exported."),
        Option("onnx-reference", "FOLDER", lookups.reference_graphs, sets="selection.onnx_reference",
            page="own-pipeline", help=
            "The same pipeline exported in float32, which an --onnx-dir is compared with where no --weights are "
            "given. Default: none."),
        Option("pipeline", "MODULE:FUNCTION", own_pipeline,
            sets="selection.pipeline selection.models selection.components selection.engines selection.optimizations",
            page="own-pipeline", help=
            "A diffusers pipeline of your own, tested as it is: a function of a module that returns it. Default: none, "
            "pipelines are built from models."),
        Option("resolution", "PIXELS", plain(read.resolution), sets="selection.height selection.width", help=
            "Pixels, WIDTHxHEIGHT or one number for both, each divisible by 8. Default: the model's."),
        Option("steps", "NUMBER", plain(read.count, "a number of steps"), sets="selection.steps", help=
            "Steps of the scheduler in a pipeline. Default: the model's."),
        Option("scheduler", "NAME", plain(read.one_of, "scheduler", tuple(SCHEDULERS)),
            sets="selection.scheduler", help=
            "pndm, ddim, euler or unipc. Default: the model's."),
        Option("prompts", "NUMBER", plain(read.prompts), page="semantics", help=
            "Prompts that test_semantics draws. Default: 8 on a CPU, 100 on a GPU."),
        Option("repeats", "NUMBER", plain(read.repeats), flag=False, page="replay", help=
            "Equal calls in test_replay, and processes (3 or more). Default: 2; 5 on a GPU."),
        Option("resolutions", "PIXELS", plain(read.resolutions), flag=False, page="replay", help=
            "What takes turns in test_replay. Default: three, by the model's size."),
    ),
    "how it is measured": (
        Option("processes", "NUMBER", plain(read.count, "a number of processes"), page="verdicts", help=
            "Fresh worker processes per measurement, at least. Default: 3."),
        Option("max-processes", "NUMBER", lookups.most_processes, page="verdicts", help=
            "Most processes per measurement: more are started while its verdict is open; most pairs of an --ab. "
            "Default: four times --processes; on a CPU no more than --processes, but for pairs."),
        Option("ab", "PYTHON", other_side.interpreter, sets="other.python", page="verdicts", help=
            "Measure pairs with a second side, B, and judge it by the first instead of a baseline: here B runs under "
            "this interpreter, of another virtual environment. Default: none."),
        Option("ab-engine", "NAME", other_side.engine, sets="other.engine", help=
            "The engine of B, or its profile, with options after a colon. Default: as A's."),
        Option("ab-optimization", "NAME", other_side.optimization, sets="other.optimization", help=
            "The optimization of B. Default: as A's."),
        Option("worker-timeout", "TIME", plain(read.seconds), sets="worker_timeout_s", flag=False, help=
            "End a worker after this long: 900, 15m, 1h. Default: 15m."),
        Option("build-timeout", "TIME", plain(read.seconds), sets="build_timeout_s", flag=False, help=
            "End an export or a compilation after this long. Default: 1h."),
        Option("plan", "", plain(read.switch), common=True, page="plan", help=
            "Only say what would run, and what it takes: time, disk and GPU memory. Nothing is built or run."),
        Option("selftest", "", plain(read.switch), sets="self_test", page="selftest", help=
            "Run no test: measure one build against itself, as it is and made slower, and say how often the rules "
            "that judge are wrong and what they find. 60 processes, or as many as --sdperf-time-budget allows."),
        Option("time-budget", "TIME", plain(read.seconds), sets="time_budget_s", page="plan", help=
            "Stop measuring after this long, what says most first: 20m, 2h. The rest is NOT MEASURED. Default: no "
            "end."),
        Option("resume", "", plain(read.switch), common=True, page="plan", help=
            "Take what an interrupted run measured within the last 12 hours under the same conditions, and measure "
            "the rest."),
        Option("plant", "NAME", lookups.alteration, sets="altered", plugin="pytest_sdperf.faults.builtins",
            page="faults", help=
            "Plant a fault, to see it found: one of those that `sdperf faults` lists. Nothing that such a run "
            "measures is kept. Default: none."),
        Option("inprocess", "", plain(read.switch), sets="in_process", flag=False, help=
            "Run workers inside pytest's own process, for a debugger."),
        Option("locate", "KIND", plain(read.switch), flag=False, page="locating", help=
            "Whether a case that disagrees with its reference is searched for the first place that does. Default: "
            "on."),
    ),
    "how it is judged": (
        Option("fail-on", "NAMES", plain(read.verdicts), page="verdicts", help=
            "What fails too: inconclusive, not-measured, new (a case without a baseline), unused (a stored case that "
            "nothing measures any more), or none of these. Default: none."),
        Option("min-effect", "FRACTION", plain(read.fraction), flag=False, page="verdicts", help=
            "Smallest relative change that can be a regression: 2% or 0.02. Default: 2%."),
        Option("update-baselines", "", plain(read.switch), page="baselines", help=
            "Accept what was measured and write the baseline files."),
        Option("reason", "TEXT", plain(read.text), page="baselines", help=
            "Why a regression is accepted, stored with the baseline."),
        Option("pool", "LABEL", plain(read.word, "a label"), page="baselines", help=
            "Label of the pool that this machine belongs to. Default: default."),
    ),
    "where files are kept": (
        Option("baselines", "FOLDER", lookups.path, default=lambda reader: reader.started_in / "baselines",
            page="baselines", help=
            "Folder of the baseline files. Default: ./baselines."),
        Option("cache-dir", "FOLDER", lookups.path, default=lambda _: platformdirs.user_cache_path("pytest-sdperf"),
            common=True, help=
            "Folder of built models. Default: the user's cache folder."),
        Option("cache-size", "SIZE", plain(read.size_bytes), sets="cache_size_bytes", flag=False, help=
            "Size that the cache is kept under: 100GB. Default: 100GB."),
        Option("state-dir", "FOLDER", lookups.path, default=lambda _: platformdirs.user_state_path("pytest-sdperf"),
            common=True, help=
            "Folder of what this machine measured and nobody accepted yet. Default: the user's state folder."),
        Option("json", "FILE", lookups.path, sets="json_file", common=True, page="ci", help=
            "Write every measurement and verdict to this file."),
        Option("html", "FILE", lookups.path, sets="html_file", common=True, page="ci", help=
            "Write the results as one page, which opens in any browser without a network."),
        Option("images", "FOLDER", lookups.path, sets="images_dir", common=True, page="precision", help=
            "Write what half precision changes to this folder: a strip of steps with their differences, and a GIF."),
        Option("explain", "FILE", lookups.path, sets="explain_file", common=True, page="fusions", help=
            "Write where each operator of a build was expected, and for each place without it why, to this file."),
        Option("repro", "FOLDER", lookups.path, sets="repro_dir", flag=False, page="locating", help=
            "Folder of files that show by themselves where a case disagrees with its reference. Default: "
            "reproductions in the state folder."),
        Option("repro-weights", "KIND", lambda answer, _:
            read.one_of(answer, "kind of weights in a reproduction", ("random", "real")) == "real",
            sets="real_weights", flag=False, page="locating", help=
            "Weights in these files: random, where such show the fault, or real, those of the case. Default: random."),
    ),
}  # fmt: skip
OPTIONS: Sequence[Option] = tuple(option for options in GROUPS.values() for option in options)
BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
