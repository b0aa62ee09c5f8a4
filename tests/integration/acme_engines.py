"""A third party's engines: one that is right, those that are wrong, and one for each way in which a worker ends.

Tests copy this file into a user's project.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.contracts import Arrays, ComponentFacts, Engine, LoadRequest, Runner


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def abort() -> None:
    say("terminate called after throwing an instance of 'acme::Error'")
    os.abort()


def kill() -> None:
    say("compiling the 7th kernel")
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    say("waiting for the device")
    time.sleep(600)


def refuse() -> None:
    raise ValueError("acme: this shape has no kernel")


def leave() -> None:
    say("acme: license server not found")
    os._exit(3)


def fill_host() -> None:
    raise MemoryError


def fill_device() -> None:
    raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.1 GiB in total.")


def nap() -> None:
    time.sleep(0.1)


def nothing() -> None:
    return


def obey() -> None:
    """Do what the environment asks for, so that one engine can behave differently from run to run."""
    {"": nothing, "oom": fill_device}[os.environ.get("ACME", "")]()


class NumpyRunner(Runner):
    def __init__(
        self, path: Any, before_run: Callable[[], None], scale: float, *, stale: bool, facts: ComponentFacts
    ) -> None:
        from safetensors.numpy import load_file

        self._layers = load_file(path)
        self._before_run = before_run
        self._scale = scale
        self._stale = stale
        self._facts = facts
        self._sample: Any = None
        self._out: Any = None

    def bind(self, inputs: Arrays) -> None:
        self._sample = inputs["sample"].copy()

    def run(self) -> None:
        import numpy as np

        self._before_run()
        if self._stale and self._out is not None:
            return
        out = self._sample
        for layer in range(len(self._layers) // 2):
            name = f"stack.{2 * layer}"
            out = np.tanh(self._scale * out @ self._layers[f"{name}.weight"].T + self._layers[f"{name}.bias"])
        self._out = out

    def synchronize(self) -> None:
        return

    def fetch(self) -> dict[str, Any]:
        return {"out_sample": self._out.copy()}

    def facts(self) -> ComponentFacts:
        return {**self._facts, "own": {"process": os.getpid()}}


class AcmeEngine(Engine):
    consumes = "module"
    device_kinds = ("cpu",)

    def __init__(
        self,
        name: str,
        *,
        before_load: Callable[[], None] = nothing,
        before_run: Callable[[], None] = nothing,
        scale: float = 1.0,
        stale: bool = False,
        facts: ComponentFacts | None = None,
    ) -> None:
        self.name = name
        self._before_load = before_load
        self._before_run = before_run
        self._scale = scale
        self._stale = stale
        self._facts = facts or {}

    def default_optimizations(self, device_kind: str) -> tuple[str, ...]:
        return ("fp32",)

    def versions(self) -> dict[str, str]:
        import numpy as np

        return {"acme": "7.1", "numpy": np.__version__}

    @contextmanager
    def load(self, request: LoadRequest) -> Iterator[Runner]:
        self._before_load()
        how = {"stale": self._stale, "facts": self._facts}
        yield NumpyRunner(request.build.path, self._before_run, self._scale, **how)


# What an engine says that has left nodes to the CPU, or replays no CUDA graph.
ON_CPU: ComponentFacts = {
    "providers": ["AcmeProvider"],
    "cpu_nodes": ["Resize r"],
    "cpu_node_count": 1,
    "memcpy_nodes": 0,
}
ONE_BY_ONE: ComponentFacts = {"cuda_graph": {"requested": True, "replayed": False}}


def pytest_sdperf_register(catalog: Catalog) -> None:
    catalog.add_engine(AcmeEngine("acme", before_run=obey))
    catalog.add_engine(AcmeEngine("acme-wrong", scale=1.001))
    catalog.add_engine(AcmeEngine("acme-stale", stale=True))
    catalog.add_engine(AcmeEngine("acme-on-cpu", facts=ON_CPU))
    catalog.add_engine(AcmeEngine("acme-one-by-one", facts=ONE_BY_ONE))
    catalog.add_engine(AcmeEngine("acme-slow", before_run=nap))
    catalog.add_engine(AcmeEngine("acme-slow-on-cpu", before_run=nap, facts=ON_CPU))
    catalog.add_engine(AcmeEngine("acme-aborts", before_load=abort))
    catalog.add_engine(AcmeEngine("acme-killed", before_run=kill))
    catalog.add_engine(AcmeEngine("acme-hangs", before_run=hang))
    catalog.add_engine(AcmeEngine("acme-refuses", before_run=refuse))
    catalog.add_engine(AcmeEngine("acme-leaves", before_load=leave))
    catalog.add_engine(AcmeEngine("acme-host-full", before_load=fill_host))
    catalog.add_engine(AcmeEngine("acme-device-full", before_run=fill_device))
