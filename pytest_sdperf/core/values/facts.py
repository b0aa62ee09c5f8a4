"""What ran in a process, as facts with names and types. Engines tell those of a component, tasks add the others.

A worker imports this under Python 3.10, whose `typing` has no `NotRequired`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, cast

from pytest_sdperf.core.errors import UnknownNameError


class CudaGraph(TypedDict, total=False):
    """Whether calls replay a captured graph.

    Attributes:
        requested: Whether the options ask for it.
        replayed: Whether it is replayed; None where nobody can tell.
        changed_inputs: Whether answers follow changed inputs; None where no graph was asked for.
    """

    requested: bool
    replayed: bool | None
    changed_inputs: bool | None


class ChangedInputs(TypedDict):
    """Whether answers follow changed inputs: `wrong` says what does not, and is empty where `right`."""

    right: bool
    wrong: str


class Compile(TypedDict, total=False):
    """What torch.compile did: numbers, `recompiles` those of the timed calls, and reasons of breaks and skips."""

    graphs: int
    graph_breaks: int
    recompiles: int
    cudagraph_skips: int
    reasons: list[str]


class Partitions(TypedDict):
    """Parts that a compiler of graphs made, and nodes that it left to the CPU."""

    engines: int
    cpu_nodes: int


class ComponentFacts(TypedDict, total=False):
    """Of one component, as `contracts.Runner.facts` tells them.

    Attributes:
        providers: Of ONNX Runtime, the one that was asked for first.
        threads: Their number, or what chooses it.
        placement: Provider -> number of nodes.
        placement_not_available: Why that is not known.
        file_nodes: Number of nodes in the file, where another graph runs.
        cpu_nodes: Some of the nodes that a GPU provider left to the CPU, as `Operator name`.
        cpu_node_count, shape_node_count: How many these are, and how many of them only compute shapes.
        memcpy_nodes: Copies between CPU and GPU that this takes; None where nobody can tell.
        partitions: What a compiler of graphs made of it.
        partitions_not_available: Why that is not known.
        layers: Of a TensorRT engine.
        cuda_graph: Whether calls replay a captured graph.
        changed_inputs: Whether answers follow changed inputs.
        compile: What torch.compile did.
        compile_cache: `warm` if it found all of it in its cache, else `cold`.
        attention: The attention that was asked for; absent for the engine's own choice.
        accumulation: dtype in which products are accumulated.
        tuning: Where the choice of kernels comes from.
        conv_search, tf32: Under which choice cuDNN took its convolutions.
        own: Whatever else an engine tells, as plain JSON data; nobody judges it but a metric of a plug-in.
    """

    providers: list[str]
    threads: str
    placement: dict[str, int]
    placement_not_available: str
    file_nodes: int | None
    cpu_nodes: list[str]
    cpu_node_count: int
    shape_node_count: int
    memcpy_nodes: int | None
    partitions: Partitions
    partitions_not_available: str
    layers: int
    cuda_graph: CudaGraph
    changed_inputs: ChangedInputs
    compile: Compile
    compile_cache: str
    attention: str | None
    accumulation: str
    tuning: str
    conv_search: str
    tf32: str
    own: dict[str, Any]


class Answer(TypedDict):
    """Digest of the outputs, and whether the engine promises equal bits on this kind of device."""

    digest: str
    promised: bool


class _Waits(TypedDict):
    synchronizations: int
    copies: int


class HostWaits(_Waits, total=False):
    """What one call, or one request of so many UNet calls, made the host wait for."""

    unet_calls: int


class _Repeated(TypedDict):
    calls: int
    seconds: float


class Energy(_Repeated, total=False):
    """What the device took in calls behind the timed ones, of which there were so many in so many seconds.

    Attributes:
        watts: Mean power, from the device's counter of energy between its first and its last change meanwhile.
        joules_per_call: The same times the seconds of a call.
        images: Of a whole request, how many one call makes.
    """

    watts: float
    joules_per_call: float
    images: int


class Launches(TypedDict):
    """Of kernels of one kind, or of one name, in one call."""

    count: float
    seconds: float


class SlowKernel(Launches):
    """One of the kernels that take most."""

    name: str
    kind: str


class Facts(ComponentFacts, total=False):
    """Of one process: those of its component, or of the UNet of a request, and of what it ran as a whole.

    Attributes:
        components: Of a request: component -> its facts.
        versions: Library -> version.
        settings: What the user's own code chose.
        answer: Which answer the inputs of the case had.
        host_waits: How often the host waited for its GPU.
        energy: What the device took.
        energy_not_available: Why that is not known, on a GPU.
        kernels: Kind -> its launches in one call, longest first.
        kernels_not_available: Why that is not known.
        kernels_other: Names of the longest kernels of no known kind.
        kernels_slowest: The kernels that take most.
        kernels_without_tensor_cores: Kind -> those that multiply half precision on the cores for single precision.
        gpu_busy_s, gpu_busy_without_tensor_cores_s: Seconds of one call in which any ran, and any of these.
        stages_s: Component -> seconds of each of its calls in one request, and under `between` those of all the rest.
        stages_not_available: Why that is not known.
        vae_dtype: dtype in which the decoder was asked to run.
        caching: Whether a request took something from an earlier one.
        waited: Share of their time that the threads of the process waited for a processor.
        instrumented: What watched its code.
    """

    components: dict[str, ComponentFacts]
    versions: dict[str, str]
    settings: dict[str, str]
    answer: Answer
    host_waits: HostWaits | None
    energy: Energy
    energy_not_available: str
    kernels: dict[str, Launches]
    kernels_not_available: str
    kernels_other: list[str]
    kernels_slowest: list[SlowKernel]
    kernels_without_tensor_cores: dict[str, Launches]
    gpu_busy_s: float | None
    gpu_busy_without_tensor_cores_s: float | None
    stages_s: dict[str, list[float]]
    stages_not_available: str
    vae_dtype: str
    caching: str
    waited: float
    instrumented: list[str]


if TYPE_CHECKING:
    StoredFacts = Facts
else:
    # Who decodes a TypedDict drops every key that it lacks, and a file may have those of another version: so all are
    # kept, and `baselines.facts.check_facts` compares them with `Facts`.
    StoredFacts = Mapping[str, Any]


def known_facts(told: ComponentFacts, engine: str) -> Facts:
    """Return what a runner tells as facts of its process; under a name of its own no reader and no type would know it.

    Args:
        told: What `facts()` returned.
        engine: Name of the engine.

    Raises:
        UnknownNameError: It tells something under such a name; the text says which, and where such things go.
    """
    names = ComponentFacts.__annotations__
    for name in told:
        if name not in names:
            where = f'{engine} tells it: put what is an engine\'s own under "own", as {{"own": {{"{name}": ...}}}}.'
            raise UnknownNameError("fact", name, names, hint=where)
    return cast("Facts", told)  # to a type checker it might hold any other name
