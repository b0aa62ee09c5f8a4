"""Calls of a module are counted from outside, so that a compiled one is not compiled anew."""

from __future__ import annotations

import pytest
import torch

from pytest_sdperf.pipeline.whole_call import counted_calls


class Doubler(torch.nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * 2


def compiled_in_place() -> torch.nn.Module:
    module = Doubler()
    module.compile(backend="eager")
    return module


@pytest.mark.parametrize(
    "make",
    [Doubler, lambda: torch.compile(Doubler(), backend="eager"), compiled_in_place],
    ids=["plain", "wrapped", "in place"],
)
def test_calls_of_one_module_are_counted(make):
    module, other, value = make(), make(), torch.ones(2)
    with counted_calls(module) as calls:
        assert torch.equal(module(value), value * 2)
        other(value)
        module(value)
    assert len(calls) == 2
    module(value)
    assert len(calls) == 2


def test_the_class_is_left_as_it_was():
    class Own(Doubler):
        def __call__(self, value):
            return super().__call__(value)

    for kind in (Doubler, Own):
        before = dict(vars(kind))
        with counted_calls(kind()):
            assert vars(kind)["__call__"] is not before.get("__call__")
        assert dict(vars(kind)) == before
