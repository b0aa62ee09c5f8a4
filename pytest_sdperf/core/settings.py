"""The command line, read once: frozen values that every room below the door works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_sdperf.core.model import Model

# What fails where that is asked for: verdicts, and `unused`, which are stored cases that nothing measures any more.
FAIL_ON = ("inconclusive", "new", "not-measured", "unused")
MORE = 4  # as many times the processes that were asked for may be started, while a verdict is open


@dataclass(frozen=True)
class EngineRequest:
    """One engine that was asked for.

    Attributes:
        label: What the user typed before the colon: an engine's name or a profile's; the name in ids and keys.
        engine: Catalog name of the engine.
        options: Options that differ from the engine's defaults, sorted by name.
        python: Interpreter of the worker; None is the suite's own.
        env: Environment variables of the worker, on top of the inherited ones.
        by_name: True if typed by name (missing is an error), False if merely included by `all` (missing is a skip).
    """

    label: str
    engine: str
    options: tuple[tuple[str, str], ...] = ()
    python: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    by_name: bool = True


@dataclass(frozen=True)
class OtherSide:
    """What the second side of an A/B has of its own; everything else is as on the first.

    Attributes:
        python: Interpreter of its workers.
        engine: Its engine.
        optimization: Its canonical selection; empty as on the first side.
    """

    python: Path | None = None
    engine: EngineRequest | None = None
    optimization: str = ""


@dataclass(frozen=True)
class PipelineFactory:
    """A function of the user's own that makes a diffusers pipeline.

    Attributes:
        module: Dotted name of its module.
        function: Its name there.
        folder: Where the module's top-level package lies; empty for one that is installed.
    """

    module: str
    function: str
    folder: str = ""

    @property
    def label(self) -> str:
        """The name of the pipeline where others have the name of a model: `mypipe.make`."""
        return f"{self.module}.{self.function}"

    @property
    def spelled(self) -> str:
        """The option as it is typed, for messages."""
        return f"--sdperf-pipeline={self.module}:{self.function}"


@dataclass(frozen=True)
class Selection:
    """What is run: the axes that parametrize the suites. An empty tuple means the default of the machine or model.

    Attributes:
        models, components, engines, batch_sizes, fusers: Values of their axes.
        optimizations: Canonical selections (`fp16`, `fp16+fmha`, `all-fmha`, `as-is`); `ladder` is already expanded.
        unnamed_optimizations: Those that are there only because `ladder` is every optimization.
        exporter, opset, shapes: Of the export; empty shapes are what a test is about, else `static`.
        fp32_ops: Operators that stay float32 in float16 builds, as `component:operator`, sorted.
        weights: `random`, `none` (graphs are built without weights), the absolute path of a diffusers folder, or a
            hub id; empty for what comes with the model (`weights_of`).
        onnx_dir: Absolute path of an exported pipeline that is taken instead of exporting one; None exports.
        onnx_reference: Absolute path of a float32 one that stands for torch where no weights are given.
        pipeline: What makes the user's own pipeline, the only one that is tested then; None tests models.
        height, width, steps, scheduler: Overrides of the model's defaults; 0 or empty keeps the default.
    """

    models: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    engines: tuple[EngineRequest, ...] = ()
    optimizations: tuple[str, ...] = ()
    unnamed_optimizations: tuple[str, ...] = ()
    batch_sizes: tuple[int, ...] = ()
    fusers: tuple[str, ...] = ()
    exporter: str = "dynamo"
    opset: int = 18
    shapes: str = ""
    fp32_ops: tuple[str, ...] = ()
    weights: str = ""
    onnx_dir: Path | None = None
    onnx_reference: Path | None = None
    pipeline: PipelineFactory | None = None
    height: int = 0
    width: int = 0
    steps: int = 0
    scheduler: str = ""

    def fp32_ops_of(self, component: str) -> tuple[str, ...]:
        """Return which of `fp32_ops` one component has; those of every component for `pipeline`."""
        return tuple(op for op in self.fp32_ops if component in ("pipeline", op.partition(":")[0]))

    @property
    def has_module(self) -> bool:
        """Whether torch modules stand for what is built; for external graphs only those that `--weights` names do."""
        return self.pipeline is None and (self.onnx_dir is None or self.weights not in {"", "random", "none"})

    def weights_of(self, model: Model) -> str:
        """Return the weights of one model: what was named, else its own, else `random`."""
        return self.weights or (str(model.trained) if model.trained else "random")


@dataclass(frozen=True)
class Settings:
    """Everything the user said, by flag, ini or pyproject: `sdperf options` says what each option is.

    Attributes:
        cache_size_bytes: Size above which the least recently used artifacts are removed.
        prompts, repeats: 0 is the default of the kind of device.
        resolutions: Width and height of each; empty for the usual ones of the model.
        max_processes: 0 means `MORE` times `processes` on a GPU, and no more of them on a CPU.
        other: The second side of an A/B; None judges by the baseline.
        worker_timeout_s, build_timeout_s: After this a worker is ended and its case is INVALID.
        fail_on: What fails too, of `FAIL_ON`.
        min_effect: Smallest relative change that can be a regression.
        json_file, html_file, images_dir, explain_file: What is written; None writes none.
        repro_dir: None stands for a folder in `state_dir` (`reproductions`).
        real_weights: Whether files that show a fault may hold the weights of a case.
        time_budget_s: Builds included; 0 for as long as it takes.
        altered: Name of what alters the run on purpose, of which nothing is kept then; empty for nothing.
    """

    gpu: str = ""
    selection: Selection = field(default_factory=Selection)
    baselines: Path = Path("baselines")
    cache_dir: Path = Path()
    cache_size_bytes: int = 100 * 10**9
    state_dir: Path = Path()
    prompts: int = 0
    repeats: int = 0
    resolutions: tuple[tuple[int, int], ...] = ()
    processes: int = 3
    max_processes: int = 0
    other: OtherSide | None = None
    worker_timeout_s: float = 900.0
    build_timeout_s: float = 3600.0
    update_baselines: bool = False
    reason: str = ""
    fail_on: frozenset[str] = frozenset()
    min_effect: float = 0.02
    pool: str = "default"
    in_process: bool = False
    json_file: Path | None = None
    html_file: Path | None = None
    images_dir: Path | None = None
    explain_file: Path | None = None
    repro_dir: Path | None = None
    real_weights: bool = False
    locate: bool = True
    plan: bool = False
    self_test: bool = False
    time_budget_s: float = 0.0
    resume: bool = False
    altered: str = ""

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU was asked for: defaults are then full-size models and GPU engines."""
        return self.gpu.strip().lower() not in {"", "cpu"}

    @property
    def reproductions(self) -> Path:
        """Folder of files that show a fault by themselves."""
        return self.repro_dir or self.state_dir / "reproductions"

    @property
    def most_processes(self) -> int:
        """Most processes of one measurement. For a debugger no more are started than were asked for."""
        return self.processes if self.in_process else self.max_processes or MORE * self.processes
