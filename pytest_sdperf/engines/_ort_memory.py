"""Where the bound inputs and outputs of an ONNX Runtime session live; used by `_ort` only.

Every buffer is made once and stays where it is: a captured CUDA graph replays onto the addresses that it was captured
with, and says nothing when other addresses were bound since.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch


class Memory(ABC):
    """Makes buffers, binds them once, and copies into and out of them."""

    @abstractmethod
    def make(self, shape: Sequence[int], dtype: str) -> Any:
        """Return a new buffer.

        Args:
            shape: Its extents.
            dtype: numpy dtype name.
        """

    @abstractmethod
    def bind_input(self, binding: Any, name: str, buffer: Any) -> None:
        """Let the session read an input from a buffer."""

    @abstractmethod
    def bind_output(self, binding: Any, name: str, buffer: Any) -> None:
        """Let the session write an output into a buffer."""

    @abstractmethod
    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy a host array of the buffer's dtype and shape into it; the array may change afterwards."""

    @abstractmethod
    def read(self, buffer: Any) -> np.ndarray[Any, Any]:
        """Return a copy on the host."""


class OrtMemory(Memory):
    """Buffers that ONNX Runtime owns: on the CPU, and on a GPU beside which there is no torch."""

    def __init__(self, device: str, index: int = 0) -> None:
        self._device, self._index = device, index

    def make(self, shape: Sequence[int], dtype: str) -> Any:
        """Allocate with the session's own allocator."""
        import onnxruntime

        return onnxruntime.OrtValue.ortvalue_from_shape_and_type(
            list(shape), numpy_type(dtype), self._device, self._index
        )

    def bind_input(self, binding: Any, name: str, buffer: Any) -> None:
        """Bind the value."""
        binding.bind_ortvalue_input(name, buffer)

    def bind_output(self, binding: Any, name: str, buffer: Any) -> None:
        """Bind the value."""
        binding.bind_ortvalue_output(name, buffer)

    def write(self, buffer: Any, array: np.ndarray[Any, Any]) -> None:
        """Copy in place."""
        buffer.update_inplace(array)

    def read(self, buffer: Any) -> np.ndarray[Any, Any]:
        """Copy: on a CPU `numpy()` is a view of the value."""
        import numpy as np

        return np.array(buffer.numpy())


class TorchMemory(Memory):
    """Buffers that are torch tensors, so that a pipeline copies into and out of them without leaving the device."""

    def __init__(self, device: str, index: int, *, torch_device: str) -> None:
        """Prepare.

        Args:
            device: The device as ONNX Runtime names it.
            index: Its index.
            torch_device: The same device as torch names it.
        """
        self._device, self._index, self._torch_device = device, index, torch_device

    def make(self, shape: Sequence[int], dtype: str) -> torch.Tensor:
        """Allocate with torch."""
        import torch

        return torch.empty(tuple(shape), dtype=getattr(torch, dtype), device=self._torch_device)

    def bind_input(self, binding: Any, name: str, buffer: torch.Tensor) -> None:
        """Bind the tensor's address."""
        binding.bind_input(name, *self._place(buffer))

    def bind_output(self, binding: Any, name: str, buffer: torch.Tensor) -> None:
        """Bind the tensor's address."""
        binding.bind_output(name, *self._place(buffer))

    def _place(self, buffer: torch.Tensor) -> tuple[Any, ...]:
        dtype = numpy_type(str(buffer.dtype).removeprefix("torch."))
        return self._device, self._index, dtype, tuple(buffer.shape), buffer.data_ptr()

    def write(self, buffer: torch.Tensor, array: np.ndarray[Any, Any]) -> None:
        """Copy to the device."""
        import torch

        self.write_tensor(buffer, torch.from_numpy(array))
        self.settle(buffer)

    def write_tensor(self, buffer: torch.Tensor, tensor: torch.Tensor) -> None:
        """Start copying a tensor of the same shape into a buffer, cast to its dtype; `settle` waits for the copy."""
        buffer.copy_(tensor)

    def settle(self, buffer: torch.Tensor) -> None:
        """Wait for what torch has started on the buffer's device: the session has a stream of its own."""
        if buffer.is_cuda:
            import torch

            torch.cuda.current_stream(buffer.device).synchronize()

    def read(self, buffer: torch.Tensor) -> np.ndarray[Any, Any]:
        """Copy to the host."""
        array: np.ndarray[Any, Any] = buffer.to("cpu", copy=True).numpy()
        return array


class SharedStreamMemory(TorchMemory):
    """Tensors that are copied on the stream on which the session runs: neither waits for the other on the host."""

    def __init__(self, device: str, index: int, *, torch_device: str, stream: torch.cuda.Stream) -> None:
        """Prepare.

        Args:
            device: As for `TorchMemory`.
            index: As for `TorchMemory`.
            torch_device: As for `TorchMemory`.
            stream: The session's.
        """
        super().__init__(device, index, torch_device=torch_device)
        self.stream = stream

    def write_tensor(self, buffer: torch.Tensor, tensor: torch.Tensor) -> None:
        """Start copying on the session's stream, once what makes the tensor has been done."""
        import torch

        if tensor.is_cuda:
            self.stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self.stream):
            super().write_tensor(buffer, tensor)

    def settle(self, buffer: torch.Tensor) -> None:
        """Return at once: the session's own work comes after the copy."""


def shared_stream_memory(index: int) -> SharedStreamMemory:
    """Return memory of an NVIDIA GPU with a new stream for torch and a session.

    It is never torch's default stream, whose address 0 ONNX Runtime takes for none.
    """
    import torch

    stream = torch.cuda.Stream(device=index)  # type: ignore[no-untyped-call]  # torch
    return SharedStreamMemory("cuda", index, torch_device=f"cuda:{index}", stream=stream)


def cuda_memory(index: int) -> Memory:
    """Return memory of an NVIDIA GPU: torch's where torch sees the GPU, or else ONNX Runtime's."""
    with suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            return TorchMemory("cuda", index, torch_device=f"cuda:{index}")
    return OrtMemory("cuda", index)


def numpy_type(name: str) -> Any:
    """Return the scalar type of a numpy dtype name, as ONNX Runtime takes it."""
    import numpy as np

    return np.dtype(name).type
