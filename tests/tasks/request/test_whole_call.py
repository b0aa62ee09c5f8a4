"""Calls of a module are counted from outside, so that a compiled one is not compiled anew."""

from __future__ import annotations

import pytest
import torch

from pytest_sdperf.tasks.request.whole_call import counted_calls


class Doubler(torch.nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * 2


class Backend:
    """Compiles nothing, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.compilations = 0

    def __call__(self, graph, inputs):
        self.compilations += 1
        return graph.forward


def plain(backend):
    return Doubler()


def wrapped(backend):
    return torch.compile(Doubler(), backend=backend)


def in_place(backend):
    module = Doubler()
    module.compile(backend=backend)
    return module


@pytest.mark.parametrize("make", [plain, wrapped, in_place])
def test_calls_of_one_module_are_counted(make):
    torch.compiler.reset()
    backend, value = Backend(), torch.ones(2)
    module, other = make(backend), make(Backend())
    with counted_calls(module) as calls:
        assert torch.equal(module(value), value * 2)
        other(value)
        module(value)
    assert len(calls) == 2
    module(value)
    assert len(calls) == 2
    assert backend.compilations == (0 if make is plain else 1)


def test_the_class_is_left_as_it_was():
    class Own(Doubler):
        def __call__(self, value):
            return super().__call__(value)

    for kind in (Doubler, Own):
        before = dict(vars(kind))
        with counted_calls(kind()):
            assert vars(kind)["__call__"] is not before.get("__call__")
        assert dict(vars(kind)) == before
