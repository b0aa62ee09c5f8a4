"""The facts of a sample that are judged and shown, with their types: files hold them, and files are edited and damaged.

An engine may tell more; what is not listed here is kept, and nobody looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypedDict

import msgspec

from pytest_sdperf.core.files import strict_json
from pytest_sdperf.core.values import Sample

Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[float, msgspec.Meta(ge=0)]


class _Launches(TypedDict):
    """Of kernels of one kind, or of one name."""

    count: Amount
    seconds: Amount


class _Slowest(_Launches):
    name: str
    kind: str


class _Partitions(TypedDict):
    engines: Count
    cpu_nodes: Count


class _CudaGraph(TypedDict, total=False):
    requested: bool
    replayed: bool | None
    changed_inputs: bool | None


class _ChangedInputs(TypedDict):
    right: bool
    wrong: str


class _Answer(TypedDict):
    digest: str
    promised: bool


class _Compile(TypedDict, total=False):
    graphs: Count
    graph_breaks: Count
    recompiles: Count
    cudagraph_skips: Count
    reasons: list[str]


class _HostWaits(msgspec.Struct, forbid_unknown_fields=True):
    synchronizations: Count
    copies: Count
    unet_calls: Count = 0


class _OfComponent(TypedDict, total=False):
    providers: Annotated[list[str], msgspec.Meta(min_length=1)]
    placement: dict[str, Count]
    placement_not_available: str
    file_nodes: Count | None
    cpu_node_count: Count
    cpu_nodes: list[str]
    shape_node_count: Count
    memcpy_nodes: Count | None
    partitions: _Partitions
    partitions_not_available: str
    cuda_graph: _CudaGraph
    changed_inputs: _ChangedInputs
    compile: _Compile
    attention: str | None
    accumulation: str
    tuning: str
    conv_search: str
    tf32: str


class JudgedFacts(_OfComponent, total=False):
    """Of one process: those of its component, or of each of its components, and of what it ran as a whole."""

    answer: _Answer
    components: dict[str, _OfComponent]
    host_waits: _HostWaits | None
    kernels: dict[str, _Launches]
    kernels_not_available: str
    kernels_other: list[str]
    kernels_slowest: list[_Slowest]
    kernels_without_tensor_cores: dict[str, _Launches]
    gpu_busy_s: Amount | None
    gpu_busy_without_tensor_cores_s: Amount | None
    stages_s: dict[str, list[Amount]]
    stages_not_available: str
    vae_dtype: str
    caching: str
    waited: Amount


def check_facts(samples: Iterable[Sample], place: str) -> None:
    """Refuse facts of another type than the one that is judged and shown.

    Args:
        samples: Of one measurement or session.
        place: Where a file has them, such as `$.samples`.

    Raises:
        ValueError: The message says what is wrong, and where.
    """
    for number, sample in enumerate(samples):
        try:
            strict_json.convert(dict(sample.facts), JudgedFacts)
        except ValueError as error:
            what, _, where = str(error).partition(" - at `$")
            raise ValueError(f"{what} - at `{place}[{number}].facts{where or '`'}") from None
