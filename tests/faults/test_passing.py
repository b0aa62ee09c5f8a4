"""What a fault does not change is what it was: a planted runner is the other runner in everything else."""

from __future__ import annotations

from pytest_sdperf.core.contracts import Runner
from pytest_sdperf.core.values import Workload
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.faults.loaded import Passing


class Inner(Runner):
    """Answers every question that a runner can be asked, and no two alike."""

    def __init__(self):
        self.sizes = []

    def bind(self, inputs):
        raise NotImplementedError

    def run(self):
        raise NotImplementedError

    def synchronize(self):
        raise NotImplementedError

    def fetch(self):
        raise NotImplementedError

    def resize(self, workload):
        self.sizes.append(workload)

    def inside(self, *, blocks):
        return memoryview(b"blocks" if blocks else b"inside")

    def recipe(self):
        return ModuleRecipe("cpu")


def test_nothing_that_a_runner_is_asked_is_answered_by_the_default():
    asked = {name for name, thing in vars(Runner).items() if callable(thing) and not name.startswith("_")}
    assert asked - set(vars(Passing)) == set()


def test_sizes_recipes_and_what_is_inside_are_passed_on():
    inner = Inner()
    planted, size = Passing(inner), Workload(2, 640, 448, 0, "")
    planted.resize(size)
    assert inner.sizes == [size]
    assert planted.recipe() == ModuleRecipe("cpu")
    for asked in ({}, {"blocks": True}):
        with planted.inside(**asked) as found:
            assert bytes(found) == (b"blocks" if asked else b"inside")
