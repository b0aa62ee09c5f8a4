"""`--pipeline`: the function that makes the user's own pipeline."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_sdperf.cases.options.option import OptionValue
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.ladder import AS_IS
from pytest_sdperf.core.settings import EngineRequest, PipelineFactory

if TYPE_CHECKING:
    from pytest_sdperf.cases.options.reading import SettingsParser

ENGINE = "diffusers"
"""Label of the engine of every case of such a pipeline."""
_NAMES = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")


def parse_factory(answer: OptionValue, reader: SettingsParser) -> PipelineFactory:
    """Return the function that `module:function` names; its module is looked for, and not imported.

    Raises:
        OptionError: No such text, or no such module.
    """
    found = _NAMES.fullmatch(answer.text.strip())
    if found is None:
        raise OptionError(
            f"{answer} is no MODULE:FUNCTION. Name a function that returns a diffusers pipeline, and its module as "
            f"Python imports it; type for example {answer.spelling}=mypipe:make for make() in mypipe.py."
        )
    module, function = found.groups()
    top = module.partition(".")[0]
    known = _found(top)
    if known is not None:
        return PipelineFactory(module, function, known)
    folders = list(dict.fromkeys((reader.started_in, reader.root)))
    for folder in folders:
        if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
            return PipelineFactory(module, function, str(folder))
    near = difflib.get_close_matches(top, [path.stem for folder in folders for path in folder.glob("*.py")], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise OptionError(
        f"{answer}: there is no module {top!r} in {' or '.join(map(str, folders))}, nor where Python looks for "
        f"modules.{hint} Put {top}.py there, or add its folder to pytest's option pythonpath."
    )


def own_pipeline(
    answer: OptionValue, reader: SettingsParser
) -> tuple[PipelineFactory, tuple[str], tuple[str], tuple[EngineRequest], tuple[str]]:
    """Return a pipeline with its own model, component, engine and optimization, the only ones that run."""
    factory = parse_factory(answer, reader)
    return factory, (factory.label,), (PIPELINE,), (EngineRequest(ENGINE, ENGINE),), (AS_IS,)


def _found(module: str) -> str | None:
    """Return the folder in which Python finds a module; empty for one that is installed, None for none."""
    try:
        spec = importlib.util.find_spec(module)
    except ValueError:  # a module without a spec, such as __main__
        return None
    if spec is None:
        return None
    places = spec.submodule_search_locations or ([spec.origin] if spec.has_location and spec.origin else [])
    folder = next((Path(place).resolve().parent for place in places), None)
    installed = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    if folder is None or any(folder.is_relative_to(Path(path).resolve()) for path in installed):
        return ""
    return str(folder)
