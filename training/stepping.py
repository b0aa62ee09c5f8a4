"""One optimizer step after the other until the time is up, replayed from a CUDA graph where there is one.

A small model's step is some two thousand launches of a few microseconds of work each: replayed, they are one.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

import torch

_WARM_STEPS = 120
_LAST_RATE = 0.02
_EMA_DECAY = 0.999
_SYNCHRONIZE_EVERY = 5
_LOG_EVERY_S = 10.0


class CaptureError(Exception):
    """A step could not be captured; the process starts again without graphs."""


class Average:
    """Exponential moving averages of parameters."""

    def __init__(self, modules: dict[str, torch.nn.Module]) -> None:
        self._modules = modules
        self.values = {name: [p.detach().clone() for p in module.parameters()] for name, module in modules.items()}
        self._steps = 0

    def update(self) -> None:
        """Move towards the parameters; faster in the first steps, whose parameters are worth nothing."""
        self._steps += 1
        decay = min(_EMA_DECAY, (1 + self._steps) / (10 + self._steps))
        for name, module in self._modules.items():
            torch._foreach_lerp_(self.values[name], [p.detach() for p in module.parameters()], 1 - decay)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the averages into the modules for a while."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def put(self) -> None:
        """Put the averages into the modules for good."""
        for name, module in self._modules.items():
            torch._foreach_copy_([p.detach() for p in module.parameters()], self.values[name])

    @torch.no_grad()
    def _swap(self) -> None:
        for name, module in self._modules.items():
            for average, parameter in zip(self.values[name], module.parameters(), strict=True):
                kept = parameter.detach().clone()
                parameter.copy_(average)
                average.copy_(kept)


class Trainer:
    """Steps of one optimizer over what a function computes.

    Attributes:
        average: Moving averages of the parameters.
    """

    def __init__(
        self, name: str, modules: dict[str, torch.nn.Module], loss: Callable[[], torch.Tensor], *, rate: float
    ) -> None:
        """Prepare.

        Args:
            name: For the log.
            modules: What is trained, by name.
            loss: Draws a batch and returns its loss; without arguments and without waiting for the device.
            rate: Highest learning rate.
        """
        self.name, self.average, self._loss, self._rate = name, Average(modules), loss, rate
        self._parameters = [parameter for module in modules.values() for parameter in module.parameters()]
        self.device = self._parameters[0].device
        self._on_gpu = self.device.type == "cuda"
        self._optimizer = torch.optim.AdamW(
            self._parameters,
            lr=torch.tensor(0.0, device=self.device),
            betas=(0.9, 0.99),
            weight_decay=0.01,
            fused=self._on_gpu,
            capturable=self._on_gpu,
        )
        self._learning_rate: torch.Tensor = self._optimizer.param_groups[0]["lr"]
        self._losses = torch.zeros((), device=self.device)

    def run(self, until_s: float, *, graphs: bool, on_log: Callable[[int], None]) -> int:
        """Take steps until a time of `time.monotonic`; return how many.

        Args:
            until_s: When to stop; the learning rate falls to nearly nothing until then.
            graphs: Whether to capture steps on a GPU.
            on_log: Called after every line of the log with the number of steps.
        """
        self._learning_rate.fill_(self._rate / _WARM_STEPS)
        step = self._captured() if graphs and self._on_gpu else self._eager(bfloat16=False)
        began_s = logged_s = time.monotonic()
        steps = logged = 0
        while (now_s := time.monotonic()) < until_s:
            part = (now_s - began_s) / (until_s - began_s)
            self._learning_rate.fill_(self._rate * self._share(steps, part))
            step()
            self.average.update()
            steps += 1
            if steps % _SYNCHRONIZE_EVERY == 0 and self._on_gpu:
                torch.cuda.synchronize()
            if now_s - logged_s > _LOG_EVERY_S:
                self._log(steps, steps - logged, now_s - logged_s)
                logged, logged_s = steps, now_s
                on_log(steps)
        self._log(steps, max(1, steps - logged), max(1e-9, time.monotonic() - logged_s))
        return steps

    @staticmethod
    def _share(steps: int, part: float) -> float:
        cosine = (1 + math.cos(math.pi * min(1.0, part))) / 2
        return min(1.0, (steps + 1) / _WARM_STEPS) * (_LAST_RATE + (1 - _LAST_RATE) * cosine)

    def _log(self, steps: int, since: int, seconds: float) -> None:
        mean = float(self._losses) / since
        self._losses.zero_()
        each_ms = 1000 * seconds / since
        print(f"{self.name}: step {steps}, loss {mean:.5f}, {each_ms:.1f} ms per step", flush=True)
        if not math.isfinite(mean):
            raise SystemExit(f"{self.name}: the loss is {mean} after {steps} steps; the last checkpoint is whole")

    def _eager(self, *, bfloat16: bool) -> Callable[[], None]:
        def step() -> None:
            self._optimizer.zero_grad(set_to_none=True)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=bfloat16, cache_enabled=False):
                loss = self._loss()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self._parameters, 1.0, foreach=True)
            self._optimizer.step()
            self._losses += loss.detach()

        return step

    def _captured(self) -> Callable[[], None]:
        """Capture a step in bfloat16: on an H200 TF32 took 1.1 (autoencoder) and 1.6 times (UNet) as long."""
        began_s = time.monotonic()
        try:
            graph = self._capture(self._eager(bfloat16=True))
        except RuntimeError as error:
            raise CaptureError(str(error)) from error
        print(f"{self.name}: captured in {time.monotonic() - began_s:.1f} s", flush=True)
        self._losses.zero_()
        return graph.replay  # type: ignore[no-any-return]  # torch does not say what it returns

    def _capture(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self._optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph
