"""A torch module as a runner; shared by the torch engines."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_sdperf.core.blocks import blocks_of
from pytest_sdperf.core.contracts import Arrays, Engine, EngineOption, LoadRequest, Model, Requirement, Runner
from pytest_sdperf.core.device import DeviceKind
from pytest_sdperf.core.values import ComponentFacts, Workload
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.engines._environment import variable

if TYPE_CHECKING:
    import numpy as np
    import torch


TF32 = EngineOption("off", "Let fp32 products and convolutions use TF32.", choices=("off", "on"))
CHANNELS_LAST = EngineOption("off", "Keep the weights of convolutions in channels-last order.", choices=("off", "on"))


class ModuleEngine(Engine):
    """What every engine that loads a torch module has in common."""

    consumes = "module"
    device_kinds: tuple[DeviceKind, ...] = ("cpu", "cuda", "rocm")
    requirements = tuple(Requirement(module) for module in ("torch", "diffusers", "transformers"))
    extra = ""  # the device kind's: the one for CPUs would put its onnxruntime over the one for GPUs

    def missing(self, device_kind: DeviceKind = "cpu") -> str | None:
        """Ask for the packages; torch for AMD is on no index that pip reads by itself."""
        if device_kind == "rocm" and importlib.util.find_spec("torch") is None:
            return (
                "package 'torch' is not installed, and PyPI's is not for AMD GPUs; "
                "install the one for your ROCm version: https://pytorch.org/get-started/locally/"
            )
        return super().missing(device_kind)

    def supports(self, optimization: str) -> str | None:
        """Refuse the optimizations that rewrite an ONNX graph."""
        if optimization in ("fp32", "fp16"):
            return None
        return f"{self.name} runs the torch module; {optimization} rewrites an ONNX graph"

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        """Return fp32 on a CPU, where half precision is emulated, and fp16 on a GPU."""
        return ("fp32",) if device_kind == "cpu" else ("fp16",)

    def preload(self, model: Model, component: str) -> None:
        """Import the classes of the component, by building it without weights."""
        super().preload(model, component)
        model.module(component, weights=None)

    def versions(self) -> dict[str, str]:
        """Return the versions of torch and diffusers."""
        from importlib.metadata import version

        import torch

        return {"torch": str(torch.__version__), "diffusers": version("diffusers")}


def torch_device(request: LoadRequest) -> str:
    """Return the torch name of the device; ROCm builds of torch call their GPUs cuda."""
    return "cpu" if request.device_kind == "cpu" else f"cuda:{request.device_index}"


def load_module(request: LoadRequest) -> torch.nn.Module:
    """Load the component in evaluation mode, with the precision that the build names and as the options say."""
    import torch

    set_tf32(allowed=request.options["tf32"] == "on")
    module = request.model.module(
        request.component,
        weights=request.build.path,
        dtype=request.build.dtype,
        device=torch_device(request),
    )
    if request.options["channels_last"] == "on":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # a layout alone
    return module.eval()


@contextlib.contextmanager
def inductor_cache(request: LoadRequest) -> Iterator[None]:
    """Let Inductor keep what it compiles in the folder of the case, whatever the environment says."""
    folder = request.work_dir / "inductor"
    with variable("TORCHINDUCTOR_CACHE_DIR", str(folder)):
        try:
            yield
        finally:
            # The next process gets links to these files, and a lock that is a link cannot be taken.
            shutil.rmtree(folder / "locks", ignore_errors=True)


def accumulation(request: LoadRequest) -> ComponentFacts:
    """Return in which type torch accumulates products, as a fact; of halves on a CPU it does not say it."""
    import torch

    if request.build.dtype == "float32":
        return {"accumulation": "float32"}
    if request.device_kind != "cuda":
        return {}
    half = request.build.dtype == "float16" and getattr(torch.backends.cuda.matmul, "allow_fp16_accumulation", False)
    return {"accumulation": "float16" if half else "float32"}


def set_tf32(*, allowed: bool) -> None:
    """Allow or forbid TF32 in matrix products and convolutions alike (torch forbids one and allows the other)."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


def _on_host(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    """Return a copy as a numpy array; numpy has no bfloat16, and float32 holds all of its values."""
    import numpy as np
    import torch

    tensor = tensor.detach().cpu()
    return np.array((tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy())


def _tensors(made: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors that a module gave, which may be a tuple or a dictionary of a library's own kind."""
    import torch

    parts = made.values() if isinstance(made, Mapping) else made if isinstance(made, (tuple, list)) else ()
    return (one for one in parts if isinstance(one, torch.Tensor))


class TorchRunner(Runner):
    """Calls a module on tensors that are already on its device."""

    def __init__(
        self,
        module: Callable[..., Sequence[torch.Tensor]],
        request: LoadRequest,
        *,
        clone_outputs: bool = False,
    ) -> None:
        import torch

        self._torch = torch
        self._module, self._request = module, request
        self._device = torch_device(request)
        self._dtypes = {
            spec.name: getattr(torch, request.build.dtype if spec.dtype == "float" else spec.dtype)
            for spec in request.model.inputs(request.component, request.workload)
        }
        self._output_names = [spec.name for spec in request.model.outputs(request.component, request.workload)]
        self._clone = clone_outputs
        self._bound: list[torch.Tensor] = []
        self._outputs: Sequence[torch.Tensor] = ()

    def _place(self, tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Return the inputs in call order on the device, in the dtypes that the model declares for this build."""
        return [tensors[name].to(device=self._device, dtype=dtype) for name, dtype in self._dtypes.items()]

    def bind(self, inputs: Arrays) -> None:
        """Copy the inputs to the device."""
        import numpy as np

        # A copy: on a CPU a tensor that needs no cast would live in the caller's array.
        self._bound = self._place({name: self._torch.from_numpy(np.array(inputs[name])) for name in self._dtypes})

    def resize(self, workload: Workload) -> None:
        """Do nothing: a module takes tensors of any size."""

    def compute(self, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """Start one call on inputs in call order; a subclass watches it here."""
        with self._torch.inference_mode():
            return self._module(*inputs)

    def run(self) -> None:
        """Start one call."""
        self._outputs = self.compute(self._bound)

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU call has finished when it returns."""
        if self._device != "cpu":
            self._torch.cuda.synchronize()

    def fetch(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copy the outputs to the host."""
        return {
            name: tensor.detach().cpu().numpy() for name, tensor in zip(self._output_names, self._outputs, strict=True)
        }

    def call(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Run once on torch tensors, on the device."""
        outputs = self.compute(self._place(inputs))
        if self._clone:  # a replayed CUDA graph writes its next outputs over these
            outputs = [tensor.clone() for tensor in outputs]
        return dict(zip(self._output_names, outputs, strict=True))

    @contextlib.contextmanager
    def inside(self, *, blocks: bool = False) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
        """Collect what every sub-module reads and gives, or every block, by forward hooks."""
        kept: dict[str, np.ndarray[Any, Any]] = {}
        torch, module = self._torch, self._module
        calls: Counter[str] = Counter()
        with contextlib.ExitStack() as stack:
            asked = blocks_of if blocks else torch.nn.Module.named_modules
            for path, part in asked(module) if isinstance(module, torch.nn.Module) else ():

                def keep(
                    _: object, given: Sequence[Any], named: Mapping[str, Any], made: Any, path: str = path
                ) -> None:
                    calls[path] += 1
                    name = path if calls[path] == 1 else f"{path}#{calls[path]}"
                    every = (*given, *named.values())
                    read = [one for one in every if isinstance(one, torch.Tensor) and one.is_floating_point()]
                    kept.update({f"{name}<{number}": _on_host(one) for number, one in enumerate(read)})
                    first = made if isinstance(made, torch.Tensor) else next(iter(_tensors(made)), None)
                    if first is not None and path:
                        kept[name] = _on_host(first)

                stack.callback(part.register_forward_hook(keep, with_kwargs=True).remove)
            yield kept

    def recipe(self) -> ModuleRecipe:
        """Return how the module is called, as its options say."""
        options = self._request.options
        return ModuleRecipe(
            device=self._device.partition(":")[0],
            tf32=options.get("tf32") == "on",
            channels_last=options.get("channels_last") == "on",
        )

    def allocator_peak_bytes(self, *, reset: bool) -> int | None:
        """Return what torch's caching allocator handed out at most; on a CPU torch does not count."""
        if self._device == "cpu":
            return None
        peak: int = self._torch.cuda.max_memory_allocated(self._device)
        if reset:
            self._torch.cuda.reset_peak_memory_stats(self._device)
        return peak

    def facts(self) -> ComponentFacts:
        """Return in which type products are accumulated, where that is known, and on a CPU the number of threads."""
        threads: ComponentFacts = {"threads": str(self._torch.get_num_threads())} if self._device == "cpu" else {}
        return {**threads, **accumulation(self._request)}
