"""Answers -> frozen `Settings`: every value checked against what is registered, in one place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from pytest_sdperf.builds.weights_identity import NONE, RANDOM
from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.alteration import read_alteration
from pytest_sdperf.cases.options.engine_requests import parse_engines
from pytest_sdperf.cases.options.folders import baselines_folder, cache_folder, path_of, state_folder
from pytest_sdperf.cases.options.option_value import OptionValue
from pytest_sdperf.cases.options.other_side import OtherSideReader
from pytest_sdperf.cases.options.pipeline_factory import only, parse_factory
from pytest_sdperf.cases.options.profiles import Profile
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.ladder import parse_optimizations, unnamed
from pytest_sdperf.core.scenes import PROMPT_COUNT
from pytest_sdperf.core.schedulers import SCHEDULERS
from pytest_sdperf.core.settings import FAIL_ON, MORE, EngineRequest, OtherSide, Selection, Settings

FUSERS = ("native", "ort")
EXPORTERS = ("dynamo", "torchscript")
SHAPES = ("static", "dynamic")
_NEED_WEIGHTS = (
    ("fuser", "ort", "the optimizer of onnxruntime reads weights"),
    ("exporter", "torchscript", "the tracer executes the module"),
)
# What goes with no self-test, and why.
_ONE_BUILD = "a self-test compares one build with itself"
_NO_VERDICT = "a self-test gives no case a verdict"
_NO_SELF_TEST = {
    **dict.fromkeys(("ab", "ab-engine", "ab-optimization"), _ONE_BUILD),
    **dict.fromkeys(("json", "explain", "resume"), _NO_VERDICT),
    "plan": "what a self-test takes is its time budget",
    "inprocess": "each sample of a self-test comes from a fresh process",
}

T = TypeVar("T")


@dataclass(frozen=True)
class SettingsParser:
    """Turns the answers of one run into settings.

    Attributes:
        answers: What was said, by option name.
        catalog: What is registered.
        profiles: Profiles of the project, by name.
        device_kind: Kind of the device that the run asks for.
        started_in: Folder that paths on the command line are relative to.
        root: Folder that paths in configuration files are relative to.
    """

    answers: Mapping[str, OptionValue]
    catalog: Catalog
    profiles: Mapping[str, Profile]
    device_kind: str
    started_in: Path
    root: Path

    def settings(self) -> Settings:
        """Build the settings.

        Raises:
            OptionError: A value that cannot be understood.
            UnknownNameError: A name that is not registered.
        """
        usual = Settings()
        missing = partial(read.one_of, kind="value of missing-baseline", allowed=("pass", "fail"))
        unused = partial(read.one_of, kind="value of unused-baselines", allowed=("warn", "fail"))
        weights = partial(read.one_of, kind="kind of weights in a reproduction", allowed=("random", "real"))
        locate = partial(read.one_of, kind="value of locate", allowed=("on", "off"))
        nothing: tuple[str, ...] = ()
        fail_on = partial(read.among, kind="verdict of fail-on", allowed=FAIL_ON)
        return Settings(
            gpu=self._said("gpu", read.text, usual.gpu),
            selection=self.selection(),
            baselines=baselines_folder(self.answers, started_in=self.started_in, root=self.root),
            cache_dir=cache_folder(self.answers, started_in=self.started_in, root=self.root),
            cache_size_bytes=self._said("cache-size", read.size_bytes, usual.cache_size_bytes),
            state_dir=state_folder(self.answers, started_in=self.started_in, root=self.root),
            prompts=self._said("prompts", self._prompts, usual.prompts),
            repeats=self._said("repeats", read.repeats, usual.repeats),
            resolutions=self._said("resolutions", read.resolutions, usual.resolutions),
            processes=self._processes(),
            max_processes=self._said("max-processes", self._most_processes, usual.max_processes),
            other=self._other_side(),
            worker_timeout_s=self._said("worker-timeout", read.seconds, usual.worker_timeout_s),
            build_timeout_s=self._said("build-timeout", read.seconds, usual.build_timeout_s),
            update_baselines=self._said("update-baselines", read.switch, usual.update_baselines),
            reason=self._said("reason", read.text, usual.reason),
            missing_baseline="fail" if self._said("missing-baseline", missing, "pass") == "fail" else "pass",
            unused_baselines="fail" if self._said("unused-baselines", unused, "warn") == "fail" else "warn",
            fail_on=frozenset(self._said("fail-on", fail_on, nothing)),
            min_effect=self._said("min-effect", read.fraction, usual.min_effect),
            pool=self._said("pool", partial(read.word, noun="a label"), usual.pool),
            in_process=self._said("inprocess", read.switch, usual.in_process),
            json_file=self._said("json", self._path, usual.json_file),
            images_dir=self._said("images", self._path, usual.images_dir),
            explain_file=self._said("explain", self._path, usual.explain_file),
            repro_dir=self._said("repro", self._path, usual.repro_dir),
            real_weights=self._said("repro-weights", weights, "random") == "real",
            locate=self._said("locate", locate, "on") == "on",
            plan=self._said("plan", read.switch, usual.plan),
            self_test=self._said("selftest", self._self_test, usual.self_test),
            time_budget_s=self._said("time-budget", read.seconds, usual.time_budget_s),
            resume=self._said("resume", read.switch, usual.resume),
            altered=self._said("plant", self._altered, usual.altered),
        )

    def selection(self) -> Selection:
        """Build the axes that were named.

        Raises:
            OptionError: A value that cannot be understood.
            UnknownNameError: A name that is not registered.
        """
        usual = Selection()
        models = self._said("model", self.models, usual.models)
        height, width = self._said("resolution", read.resolution, (0, 0))
        selection = Selection(
            models=models,
            components=self._said(
                "component", self._among("component", components_of(self.catalog, models)), usual.components
            ),
            engines=self._said("engine", self.engines, usual.engines),
            optimizations=self._said("optimization", self.optimizations, usual.optimizations),
            unnamed_optimizations=self._said("optimization", self._unnamed_optimizations, usual.unnamed_optimizations),
            batch_sizes=self._said("batch-size", partial(read.counts, noun="a batch size"), usual.batch_sizes),
            fusers=self._said("fuser", self._among("fuser", FUSERS), usual.fusers),
            exporter=self._said("exporter", partial(read.one_of, kind="exporter", allowed=EXPORTERS), usual.exporter),
            opset=self._said("opset", read.opset, usual.opset),
            shapes=self._said("shapes", partial(read.one_of, kind="kind of shapes", allowed=SHAPES), usual.shapes),
            fp32_ops=self._said("force-fp32-ops", self._fp32_ops, usual.fp32_ops),
            weights=self._said("weights", self._weights, usual.weights),
            onnx_dir=self._said("onnx-dir", self._folder, usual.onnx_dir),
            onnx_reference=self._said("onnx-reference", self._reference, usual.onnx_reference),
            height=height,
            width=width,
            steps=self._said("steps", partial(read.count, noun="a number of steps"), usual.steps),
            scheduler=self._said(
                "scheduler", partial(read.one_of, kind="scheduler", allowed=tuple(SCHEDULERS)), usual.scheduler
            ),
        )
        if "pipeline" not in self.answers:
            return selection
        return only(selection, parse_factory(self.answers["pipeline"], started_in=self.started_in, root=self.root))

    def _said(self, name: str, parse: Callable[[OptionValue], T], default: T) -> T:
        return parse(self.answers[name]) if name in self.answers else default

    def _among(self, kind: str, allowed: tuple[str, ...]) -> Callable[[OptionValue], tuple[str, ...]]:
        return partial(read.among, kind=kind, allowed=allowed)

    def models(self, answer: OptionValue) -> tuple[str, ...]:
        """Read names of models."""
        return read.among(answer, kind="model", allowed=self.catalog.models.names)

    def components(self, answer: OptionValue) -> tuple[str, ...]:
        """Read names of components, of whichever model."""
        return read.among(answer, kind="component", allowed=components_of(self.catalog))

    def engines(self, answer: OptionValue) -> tuple[EngineRequest, ...]:
        """Read engines with their options."""
        return parse_engines(answer.text, self.catalog, self.profiles, device_kind=self.device_kind)

    def optimizations(self, answer: OptionValue) -> tuple[str, ...]:
        """Read selections of optimizations."""
        return parse_optimizations(answer.text, self.catalog.ladder, as_is="onnx-dir" in self.answers)

    def _fp32_ops(self, answer: OptionValue) -> tuple[str, ...]:
        return read.operators(answer, [name for name in components_of(self.catalog) if name != PIPELINE])

    def _unnamed_optimizations(self, answer: OptionValue) -> tuple[str, ...]:
        return unnamed(answer.text, self.catalog.ladder)

    def _self_test(self, answer: OptionValue) -> bool:
        asked = read.switch(answer)
        for name, why in _NO_SELF_TEST.items():
            beside = self.answers.get(name)
            # What a file says of every run may stand there; a worker inside this process would be no fresh one.
            if asked and beside is not None and (beside.spelling.startswith("--") or name == "inprocess"):
                raise OptionError(f"{answer.spelling} and {beside} do not go together: {why}. Leave one of them out.")
        return asked

    def _processes(self) -> int:
        return self._said("processes", partial(read.count, noun="a number of processes"), Settings().processes)

    def _most_processes(self, answer: OptionValue) -> int:
        most, least = read.count(answer, "a number of processes"), self._processes()
        asked = self.answers.get("processes")
        if asked and asked.spelling.startswith("--") and not answer.spelling.startswith("--"):
            return max(most, least)  # a flag is stronger than a file
        if most < least:
            raise OptionError(
                f"{answer} is below the {least} processes that every measurement begins with. Allowed: {least} or "
                f"more; {answer.spelling}={least} never starts another one. To begin with fewer, type "
                f"--sdperf-processes={most}."
            )
        return most

    def _other_side(self) -> OtherSide | None:
        read_other = OtherSideReader(
            self.answers, self.catalog, self.profiles, device_kind=self.device_kind, path_of=self._path
        )
        return read_other.side(most_pairs=self._said("max-processes", self._most_processes, MORE * self._processes()))

    def _path(self, answer: OptionValue) -> Path:
        return path_of(answer, started_in=self.started_in, root=self.root)

    def _folder(self, answer: OptionValue) -> Path:
        folder = self._path(answer)
        if not folder.is_dir():
            raise OptionError(
                f"{answer}: there is no folder {folder}. Give a folder with one COMPONENT/model.onnx per component, as "
                f"`optimum-cli export onnx --model MODEL FOLDER` writes it."
            )
        return folder.resolve()

    def _reference(self, answer: OptionValue) -> Path:
        if "onnx-dir" not in self.answers:
            raise OptionError(
                f"{answer} is what an --onnx-dir is compared with, and none is given. Name the folder to test with "
                f"--sdperf-onnx-dir=FOLDER, or leave {answer.spelling} out."
            )
        return self._folder(answer)

    def _altered(self, answer: OptionValue) -> str:
        return read_alteration(answer, self.answers, catalog=self.catalog, device_kind=self.device_kind)

    @staticmethod
    def _prompts(answer: OptionValue) -> int:
        count = read.count(answer, "a number of prompts")
        if count > PROMPT_COUNT:
            raise OptionError(
                f"{answer}: the fixed list has {PROMPT_COUNT} prompts. Allowed: whole numbers from 1 to "
                f"{PROMPT_COUNT}; type for example {answer.spelling}={PROMPT_COUNT}."
            )
        return count

    def _weights(self, answer: OptionValue) -> str:
        """Return `random`, `none`, the absolute path of a folder, or a hub id."""
        weights = read.text(answer)
        folder = self._path(answer)
        if weights not in {RANDOM, NONE} and folder.is_dir():
            return str(folder.resolve())
        if weights == NONE:
            self._check_without_weights(answer)
        if weights in {RANDOM, NONE} or re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", weights):
            return weights
        raise OptionError(
            f"{answer}: there is no folder {folder}. Allowed: random, none, a diffusers folder, or OWNER/NAME on "
            f"the Hugging Face hub; type for example {answer.spelling}=random."
        )

    def _check_without_weights(self, answer: OptionValue) -> None:
        for name, value, reason in _NEED_WEIGHTS:
            other = self.answers.get(name)
            if other is not None and value in read.names(other):
                raise OptionError(f"{answer} and {other} do not go together: {reason}. Leave one of them out.")
        other = self.answers.get("onnx-dir")
        if other is not None:
            raise OptionError(
                f"{answer} and {other} do not go together: an external graph has its weights. Leave one of them out."
            )


def components_of(catalog: Catalog, models: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the components of the models, of every registered model by default, with `pipeline` at the end."""
    found = (part for name in models or catalog.models.names for part in catalog.models.get(name).components)
    return (*dict.fromkeys(found), PIPELINE)
