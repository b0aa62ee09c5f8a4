"""The name of a case in a test id: a sentence, and after it only what is out of the ordinary.

`sd15-thin-unet-on-ort-cpu-at-fp16`, `sd15-pipeline-on-torch-at-fp16-batch-4-ddim`,
`sd15-thin-unet-on-ort-cpu-at-fp32-with-threads-2`, `sd15-thin-unet-at-fp16-by-ort-from-dynamo`.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from pytest_sdperf.core.values import Case

# What may stand in a node id as it is: the rest (brackets, colons, slashes, spaces) is percent-encoded, so that two
# values never become one id.
_SAFE = "=+,.-_~"
_WEIGHTS = "weights"


def case_id(case: Case, *, usual: Case) -> str:
    """Return the id of a case.

    Args:
        case: A case whose engine is empty names a build; one whose component is empty names a model.
        usual: The case that this machine and model run when nothing else is asked: a field that equals its field here
            is not mentioned (model, component, engine and optimization always are).
    """
    words = [case.model]
    words += [case.component] if case.component else []
    words += ["on", case.engine] if case.engine else []
    words += ["at", case.optimization] if case.optimization else []
    words += _graph(case, usual)
    words += _workload(case, usual)
    text = quote("-".join(words), safe=_SAFE)
    text += _options(case)
    return text + (f"-{_WEIGHTS}-{quote(case.weights, safe=_SAFE)}" if case.weights != usual.weights else "")


def _options(case: Case) -> str:
    """Return the engine's options, in characters that `-k` takes wherever the values allow it: no `=` and no comma."""
    if not case.engine_options:
        return ""
    return "-with-" + "+".join(f"{_name(name)}-{_value(value)}" for name, value in case.engine_options)


def _name(name: str) -> str:
    # The first hyphen ends the name.
    return quote(name, safe="_").replace("-", "%2D")


def _value(value: str) -> str:
    # A plus begins the next option, and the weights follow the last one.
    return re.sub(rf"-{_WEIGHTS}(?=-|$)", f"%2D{_WEIGHTS}", quote(value, safe=_SAFE.replace("+", "")))


def _graph(case: Case, usual: Case) -> list[str]:
    if not case.exporter:
        return []
    words = []
    # A test of a build is about its fuser and exporter, so they are always in its name.
    if case.fuser and (not case.engine or case.fuser != usual.fuser):
        words += ["by", case.fuser]
    if not case.engine or case.exporter != usual.exporter:
        words += ["from", case.exporter]
    words += ["fp32", *re.split("[:,]", case.fp32_ops)] if case.fp32_ops else []
    words += [case.shapes] if case.shapes != usual.shapes else []
    words += ["opset", str(case.opset)] if case.opset != usual.opset else []
    return words


def _workload(case: Case, usual: Case) -> list[str]:
    words = ["batch", str(case.batch_size)] if case.batch_size != usual.batch_size else []
    if (case.height, case.width) != (usual.height, usual.width):
        words.append(f"{case.width}x{case.height}")
    if case.steps and case.steps != usual.steps:
        words += [str(case.steps), "steps"]
    if case.scheduler and case.scheduler != usual.scheduler:
        words.append(case.scheduler)
    return words
