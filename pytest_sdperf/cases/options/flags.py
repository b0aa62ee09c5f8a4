"""Every option, declared once: as `--sdperf-NAME`, as the ini value `sdperf_NAME`, and in `[tool.sdperf]`.

`command_line.py` adds the long spellings to pytest, `short_names.py` adds `--NAME` onto the same destinations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_sdperf.cases.options.option import Option
from pytest_sdperf.core.settings import FAIL_ON

GROUPS: Mapping[str, str] = {
    "where": "where it runs",
    "what": "what runs (a comma separates cases)",
    "how": "how it is measured",
    "verdict": "how it is judged",
    "files": "where files are kept",
}

OPTIONS: Sequence[Option] = (
    Option(
        "gpu",
        "where",
        "The device: auto (what is there), nvidia or cuda, amd or rocm, a family (a100), an architecture (gfx942), a "
        "slug (a100-sxm4-40gb), an index, a UUID, or cpu. Without it only the CPU is used, with a thin model.",
        "DEVICE",
    ),
    Option(
        "engine",
        "where",
        "Engines or profiles, with options after a colon: ort-cpu:threads=4,torch. all is every engine that fits the "
        "device. Default: torch and the onnxruntime engine of the device.",
        "NAMES",
    ),
    Option("model", "what", "Models. Default: sd15-thin on a CPU, sd15 on a GPU.", "NAMES"),
    Option(
        "component",
        "what",
        "Components of the model, or pipeline for a whole request. Default: unet and pipeline; test_fusions builds "
        "every component.",
        "NAMES",
    ),
    Option(
        "optimization",
        "what",
        "Names from the ladder, each with all below it; fp16+fmha is exactly these, all-fmha is all but one, ladder is "
        "each in turn (for whole requests the first and the last); as-is is an --onnx-dir unchanged. Default: what the "
        "engine says; test_fusions builds the last one.",
        "NAMES",
    ),
    Option("batch-size", "what", "Images per request; a UNet runs at twice this. Default: 1.", "NUMBERS"),
    Option(
        "fuser", "what", "What fuses an exported graph: native, ort. Default: native; test_fusions runs both.", "NAMES"
    ),
    Option("exporter", "what", "What exports to ONNX: dynamo or torchscript. Default: dynamo.", "NAME"),
    Option("opset", "what", "ONNX opset of the export, 17 to 23. Default: 18.", "NUMBER"),
    Option("shapes", "what", "Shapes of the exported graph: static or dynamic. Default: static.", "KIND"),
    Option(
        "force-fp32-ops",
        "what",
        "Operators that float16 builds keep in float32, as COMPONENT:OPERATOR: unet:MultiHeadAttention. They are one "
        "build. Default: none.",
        "NAMES",
    ),
    Option(
        "weights",
        "what",
        "random (seeded), none (graphs are only looked at), a diffusers folder, or the id of a repository on the "
        "Hugging Face hub. Default: what comes with the model, else random.",
        "SOURCE",
    ),
    Option(
        "onnx-dir",
        "what",
        "A pipeline that was exported to ONNX already: one COMPONENT/model.onnx per component, as optimum writes it. "
        "--model says which pipeline it is. Default: none, models are exported.",
        "FOLDER",
    ),
    Option(
        "onnx-reference",
        "what",
        "The same pipeline exported in float32, which an --onnx-dir is compared with where no --weights are given. "
        "Default: none.",
        "FOLDER",
    ),
    Option(
        "pipeline",
        "what",
        "A diffusers pipeline of your own, tested as it is: a function of a module that returns it. Default: none, "
        "pipelines are built from models.",
        "MODULE:FUNCTION",
    ),
    Option(
        "resolution",
        "what",
        "Pixels, WIDTHxHEIGHT or one number for both, each divisible by 8. Default: the model's.",
        "PIXELS",
    ),
    Option("steps", "what", "Steps of the scheduler in a pipeline. Default: the model's.", "NUMBER"),
    Option("scheduler", "what", "pndm, ddim, euler or unipc. Default: the model's.", "NAME"),
    Option("prompts", "what", "Prompts that test_semantics draws. Default: 8 on a CPU, 100 on a GPU.", "NUMBER"),
    Option(
        "repeats", "what", "Equal calls in test_replay, and processes (3 or more). Default: 2; 5 on a GPU.", "NUMBER"
    ),
    Option("resolutions", "what", "What takes turns in test_replay. Default: three, by the model's size.", "PIXELS"),
    Option("processes", "how", "Fresh worker processes per measurement, at least. Default: 3.", "NUMBER"),
    Option(
        "max-processes",
        "how",
        "Most processes per measurement: more are started while its verdict is open; most pairs of an --ab. Default: "
        "four times --processes; on a CPU no more than --processes, but for pairs.",
        "NUMBER",
    ),
    Option(
        "ab",
        "how",
        "Measure pairs with a second side, B, and judge it by the first instead of a baseline: here B runs under this "
        "interpreter, of another virtual environment. Default: none.",
        "PYTHON",
    ),
    Option("ab-engine", "how", "The engine of B, or its profile, with options after a colon. Default: as A's.", "NAME"),
    Option("ab-optimization", "how", "The optimization of B. Default: as A's.", "NAME"),
    Option(
        "ab-build",
        "how",
        "Whether B loads the files that were built for A: shared or own. Default: shared where only interpreter or "
        "options differ.",
        "KIND",
    ),
    Option("worker-timeout", "how", "End a worker after this long: 900, 15m, 1h. Default: 15m.", "TIME"),
    Option("build-timeout", "how", "End an export or a compilation after this long. Default: 1h.", "TIME"),
    Option(
        "plan",
        "how",
        "Only say what would run, and what it takes: time, disk and GPU memory. Nothing is built or run.",
        short=False,
    ),
    Option(
        "selftest",
        "how",
        "Run no test: measure one build against itself, as it is and made slower, and say how often the rules that "
        "judge are wrong and what they find. 60 processes, or as many as --sdperf-time-budget allows.",
    ),
    Option(
        "time-budget",
        "how",
        "Stop measuring after this long, what says most first: 20m, 2h. The rest is NOT MEASURED. Default: no end.",
        "TIME",
    ),
    Option(
        "resume",
        "how",
        "Take what an interrupted run measured within the last 12 hours under the same conditions, and measure the "
        "rest.",
        short=False,
    ),
    Option(
        "plant",
        "how",
        "Plant a fault, to see it found: one of those that `sdperf faults` lists. Nothing that such a run measures is "
        "kept. Default: none.",
        "NAME",
        plugin="pytest_sdperf.faults.builtins",
    ),
    Option("inprocess", "how", "Run workers inside pytest's own process, for a debugger."),
    Option("missing-baseline", "verdict", "A case without a baseline: pass or fail. Default: pass.", "KIND"),
    Option("fail-on", "verdict", f"Further verdicts that fail: {', '.join(FAIL_ON)}. Default: none.", "NAMES"),
    Option(
        "min-effect",
        "verdict",
        "Smallest relative change that can be a regression: 2% or 0.02. Default: 2%.",
        "FRACTION",
    ),
    Option("update-baselines", "verdict", "Accept what was measured and write the baseline files."),
    Option("reason", "verdict", "Why a regression is accepted, stored with the baseline.", "TEXT"),
    Option("pool", "verdict", "Label of the pool that this machine belongs to. Default: default.", "LABEL"),
    Option(
        "unused-baselines",
        "verdict",
        "A stored case that nothing measures any more: warn or fail. Default: warn.",
        "KIND",
    ),
    Option("baselines", "files", "Folder of the baseline files. Default: ./baselines.", "FOLDER"),
    Option("cache-dir", "files", "Folder of built models. Default: the user's cache folder.", "FOLDER", short=False),
    Option("cache-size", "files", "Size that the cache is kept under: 100GB. Default: 100GB.", "SIZE", short=False),
    Option(
        "state-dir",
        "files",
        "Folder of what this machine measured and nobody accepted yet. Default: the user's state folder.",
        "FOLDER",
        short=False,
    ),
    Option("json", "files", "Write every measurement and verdict to this file.", "FILE", short=False),
    Option(
        "images",
        "files",
        "Write what half precision changes to this folder: a strip of steps with their differences, and a GIF.",
        "FOLDER",
        short=False,
    ),
    Option(
        "explain",
        "files",
        "Write where each operator of a build was expected, and for each place without it why, to this file.",
        "FILE",
        short=False,
    ),
    Option(
        "locate",
        "how",
        "Whether a case that disagrees with its reference is searched for the first place that does: on or off. "
        "Default: on.",
        "KIND",
    ),
    Option(
        "repro",
        "files",
        "Folder of files that show by themselves where a case disagrees with its reference. Default: reproductions in "
        "the state folder.",
        "FOLDER",
    ),
    Option(
        "repro-weights",
        "files",
        "Weights in these files: random, where such show the fault, or real, those of the case. Default: random.",
        "KIND",
    ),
)
BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}
