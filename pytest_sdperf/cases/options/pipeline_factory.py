"""`--pipeline`: the function that makes the user's own pipeline, and what cannot be said beside it."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_sdperf.cases.options.option_value import OptionValue
from pytest_sdperf.core.components import PIPELINE
from pytest_sdperf.core.errors import OptionError
from pytest_sdperf.core.ladder import AS_IS
from pytest_sdperf.core.settings import EngineRequest, PipelineFactory, Selection

ENGINE = "diffusers"
"""Label of the engine of every case of such a pipeline."""
_NAMES = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
_BESIDE: Mapping[str, str] = {
    "model": "is a model of its own",
    "engine": "is its own engine",
    "optimization": "is optimized already, or not",
    "fuser": "is not exported, so nothing is fused",
    "exporter": "is not exported",
    "opset": "is not exported",
    "shapes": "is not exported",
    "weights": "has its weights",
    "onnx-dir": "holds no graphs",
    "onnx-reference": "holds no graphs",
    "scheduler": "has its scheduler",
    "force-fp32-ops": "is not built",
    "plan": "is known only once it is made",
    "resume": "may have changed its code since",
    "ab-engine": "is its own engine",
    "ab-optimization": "is optimized already, or not",
    "ab-build": "is not built",
}


def alone(answers: Mapping[str, OptionValue]) -> dict[str, OptionValue]:
    """Return the answers without those that a pipeline of the user's own makes void.

    What a configuration file says about models gives way to a pipeline that was named on the command line.

    Raises:
        OptionError: Both were said in the same place, or the pipeline in a file and the other on the command line.
    """
    pipeline, kept = answers.get("pipeline"), dict(answers)
    if pipeline is None:
        return kept
    for name, why in _BESIDE.items():
        other = kept.pop(name, None)
        if other is not None and (_typed(other) or not _typed(pipeline)):
            raise OptionError(
                f"{other} and {pipeline} do not go together: a pipeline of your own is tested as it is, and {why}. "
                f"Leave {other.spelling} or {pipeline.spelling} out."
            )
    component = kept.get("component")
    if component is not None and component.text.strip() != PIPELINE:
        raise OptionError(
            f"{component} and {pipeline} do not go together: a pipeline of your own is tested as a whole request. "
            f"Leave {component.spelling} out, or type {component.spelling}={PIPELINE}."
        )
    return kept


def parse_factory(answer: OptionValue, *, started_in: Path, root: Path) -> PipelineFactory:
    """Return the function that `module:function` names; its module is looked for, and not imported.

    Args:
        answer: What was said.
        started_in: Where pytest was started.
        root: The project's folder.

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
    folders = list(dict.fromkeys((started_in, root)))
    for folder in folders:
        if (folder / f"{top}.py").is_file() or (folder / top).is_dir():
            return PipelineFactory(module, function, str(folder))
    near = difflib.get_close_matches(top, [path.stem for folder in folders for path in folder.glob("*.py")], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise OptionError(
        f"{answer}: there is no module {top!r} in {' or '.join(map(str, folders))}, nor where Python looks for "
        f"modules.{hint} Put {top}.py there, or add its folder to pytest's option pythonpath."
    )


def only(selection: Selection, factory: PipelineFactory) -> Selection:
    """Return a selection of one pipeline: it is the only model, under its own engine, as it is."""
    return replace(
        selection,
        models=(factory.label,),
        components=(PIPELINE,),
        engines=(EngineRequest(ENGINE, ENGINE),),
        optimizations=(AS_IS,),
        pipeline=factory,
    )


def _typed(answer: OptionValue) -> bool:
    return answer.spelling.startswith("--")


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
