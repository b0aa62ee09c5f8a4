"""Cases of a pipeline that somebody exported: what its files say about them, and which of them cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pytest_sdperf.builds.onnx_folder import ONNX_DIR, OnnxFolder
from pytest_sdperf.builds.weights_identity import OWN, RANDOM
from pytest_sdperf.core import ladder
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.components import PIPELINE, component_dtype, parts_of
from pytest_sdperf.core.contracts import Engine
from pytest_sdperf.core.settings import Selection
from pytest_sdperf.core.values import Case
from pytest_sdperf.core.values.case import EXTERNAL


@dataclass(frozen=True)
class ExternalCases:
    """The cases of one folder.

    Attributes:
        folder: What `--onnx-dir` named.
        selection: What the command line names.
        catalog: What is registered.
    """

    folder: OnnxFolder
    selection: Selection
    catalog: Catalog

    def described(self, case: Case, fuser: str) -> Case:
        """Return a case with what the files of its component say: opset, shapes, and a hash for its weights.

        Of a pipeline the hash is that of all its components, and the rest that of its UNet.

        Raises:
            OnnxFolderError: A file cannot be used.
        """
        case = replace(case, fuser=fuser, exporter=EXTERNAL)
        if self._lacking(case):
            return case
        graph = self.folder.graph("unet" if case.component == PIPELINE else case.component)
        weights = self.folder.identity(self._parts(case))
        return replace(case, opset=graph.opset, shapes=graph.shapes, weights=weights)

    def why_not(self, case: Case, engine: Engine | None, *, timed: bool) -> str:
        """Say why a case cannot be; empty if it can.

        Args:
            case: The case.
            engine: What runs it; None for a test of its graph.
            timed: Whether it is measured: what only a lowered graph can show is no speed of the engine.
        """
        if engine is not None and engine.consumes != "onnx":
            return no_module(engine.name, self.folder) if self.selection.weights in {OWN, RANDOM} else ""
        lacking = self._lacking(case)
        if lacking:
            return (
                f"{self.folder.path} has no {', no '.join(lacking)}, which the {case.component} of {case.model} needs; "
                f"it has {', '.join(self.folder.components)}. Name each folder as the component is called that it holds"
            )
        if case.optimization == ladder.AS_IS:
            return self._refusal(case, engine, timed=timed)
        # What was named is an error where it is built.
        return "" if self.selection.optimizations else self._too_narrow(case)

    def _parts(self, case: Case) -> tuple[str, ...]:
        return parts_of(self.catalog.models.get(case.model), case.component)

    def _lacking(self, case: Case) -> list[str]:
        return [name for name in self._parts(case) if name not in self.folder.components]

    def _refusal(self, case: Case, engine: Engine | None, *, timed: bool) -> str:
        if engine is None:
            return ""
        for name in self._parts(case):
            for optimization in self.folder.graph(name).optimizations(self.catalog.optimizations.items()):
                refusal = engine.refuses(optimization, timed=timed)
                if refusal is not None:
                    return f"not applicable: the {name} holds {optimization} already, and {refusal}"
        return ""

    def _too_narrow(self, case: Case) -> str:
        model = self.catalog.models.get(case.model)
        asked = ladder.dtype_of(case.optimization, self.catalog.ladder)
        for name in self._parts(case):
            wanted = component_dtype(model, name, asked)
            if wanted == "float32" and self.folder.graph(name).dtype != wanted:
                return f"the {name} of {self.folder.path} is float16, and {case.optimization} needs one in float32"
        return ""


def no_module(engine: str, folder: OnnxFolder) -> str:
    """Say that an engine needs a torch module, which a folder of graphs does not hold."""
    return (
        f"{engine} runs a torch module, and {ONNX_DIR}={folder.path} holds graphs alone; name its weights with "
        f"--sdperf-weights=FOLDER"
    )
