"""Values that are looked up in the catalog, on the disk, or beside other options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.builds.weights_identity import NONE, RANDOM
from pytest_sdperf.cases.options import parsing as read
from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.ladder import parse_optimizations, unnamed
from pytest_sdperf.core.settings import Settings

if TYPE_CHECKING:
    from pytest_sdperf.cases.options.reading import SettingsParser


def components_of(catalog: Catalog, models: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the components of the models, of every registered model by default, with `pipeline` at the end."""
    found = (part for name in models or catalog.models.names for part in catalog.models.get(name).components)
    return (*dict.fromkeys(found), PIPELINE)


def models(answer: OptionValue, reader: SettingsParser) -> tuple[str, ...]:
    """Read names of models."""
    return read.among(answer, "model", reader.catalog.models.names)


def components(answer: OptionValue, reader: SettingsParser) -> tuple[str, ...]:
    """Read names of components, which belong to one of the models that were named."""
    return read.among(answer, "component", components_of(reader.catalog, reader.value("model", usual=())))


def optimizations(answer: OptionValue, reader: SettingsParser) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Read selections of optimizations; return them, and those that nobody named."""
    ladder = reader.catalog.ladder
    found = parse_optimizations(answer.text, ladder, as_is="onnx-dir" in reader.answers)
    return found, unnamed(answer.text, ladder)


def fp32_ops(answer: OptionValue, reader: SettingsParser) -> tuple[str, ...]:
    """Read operators of components."""
    return read.operators(answer, [name for name in components_of(reader.catalog) if name != PIPELINE])


def most_processes(answer: OptionValue, reader: SettingsParser) -> int:
    """Read the most processes of a measurement, which begins with those of another option."""
    most = read.count(answer, "a number of processes")
    least: int = reader.value("processes", usual=Settings().processes)
    asked = reader.answers.get("processes")
    if asked and asked.typed and not answer.typed:
        return max(most, least)  # a flag is stronger than a file
    if most < least:
        raise OptionError(
            f"{answer} is below the {least} processes that every measurement begins with. Allowed: {least} or "
            f"more; {answer.spelling}={least} never starts another one. To begin with fewer, type "
            f"--sdperf-processes={most}."
        )
    return most


def path(answer: OptionValue, reader: SettingsParser) -> Path:
    """Read a path: a flag's begins where pytest was started, a file's at the project's root."""
    return (reader.started_in if answer.typed else reader.root) / Path(read.text(answer)).expanduser()


def graphs(answer: OptionValue, reader: SettingsParser) -> Path:
    """Read a folder of graphs that is there."""
    folder = path(answer, reader)
    if not folder.is_dir():
        raise OptionError(
            f"{answer}: there is no folder {folder}. Give a folder with one COMPONENT/model.onnx per component, as "
            f"`optimum-cli export onnx --model MODEL FOLDER` writes it."
        )
    return folder.resolve()


def reference_graphs(answer: OptionValue, reader: SettingsParser) -> Path:
    """Read the folder that another one is compared with."""
    if "onnx-dir" not in reader.answers:
        raise OptionError(
            f"{answer} is what an --onnx-dir is compared with, and none is given. Name the folder to test with "
            f"--sdperf-onnx-dir=FOLDER, or leave {answer.spelling} out."
        )
    return graphs(answer, reader)


def weights(answer: OptionValue, reader: SettingsParser) -> str:
    """Return `random`, `none`, the absolute path of a folder, or a hub id."""
    named, folder = read.text(answer), path(answer, reader)
    if named not in {RANDOM, NONE} and folder.is_dir():
        return str(folder.resolve())
    if named in {RANDOM, NONE} or re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", named):
        return named
    allowed = "random, none, a diffusers folder, or OWNER/NAME on the Hugging Face hub"
    raise read.refusal(answer, f": there is no folder {folder}", allowed, "random")


def alteration(answer: OptionValue, reader: SettingsParser) -> str:
    """Return the name of what alters the run on purpose, which has to make sense on its kind of device."""
    found = reader.catalog.alterations.get(read.text(answer).strip())
    refusal = found.refuses(reader.device_kind)
    if refusal:
        raise OptionError(f"{answer}: {refusal}")
    return found.name
