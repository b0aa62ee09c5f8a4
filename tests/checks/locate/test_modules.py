"""The first module that is wrong, among those that hold it and those that follow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sample_values import case, execution

from pytest_sdperf.checks.agreement.locations import sentence
from pytest_sdperf.checks.locate import modules
from pytest_sdperf.checks.locate.modules import first_wrong, found_in
from pytest_sdperf.checks.locate.target import SearchTarget
from pytest_sdperf.core.files.arrays import save_arrays
from pytest_sdperf.core.values.located import Location
from pytest_sdperf.core.values.recipe import ModuleRecipe
from pytest_sdperf.tasks._execution import Ran
from pytest_sdperf.tasks.cut import ModuleCut

RANDOM = np.random.default_rng(0)
ORDER = ("net.0.norm", "net.0.act", "net.0.act#2", "net.0", "net.1", "net")
EXACT = {name: RANDOM.standard_normal(64) for path in ORDER for name in (f"{path}<0", path)}
PLAIN = {name: array * (1 + 1e-4) for name, array in EXACT.items()}


def obtained(*wrong):
    return {name: array * (1.01 if name in wrong else 1 + 1e-4) for name, array in EXACT.items()}


def look(*wrong):
    return first_wrong(obtained(*wrong), EXACT, PLAIN, dtype="float32")


def test_the_innermost_module_that_all_around_it_confirm():
    found = look("net.0.act#2", "net.0", "net.1<0", "net.1", "net")
    assert (found.location.path, found.location.error > found.location.limit, found.places) == ("net.0.act", True, 6)
    assert [one.value for one in found.inputs] == ["input 0"]
    assert found.inputs[0].error <= found.inputs[0].limit
    assert found.last.path == "net.0.act"  # its first call
    assert found.calls == (("net.0.act", 2), ("net.0", 1), ("net", 1))


def test_where_code_between_modules_is_wrong_the_one_around_it_is_named():
    """What the activation reads is wrong already, and the norm before it is not."""
    found = look("net.0.act<0", "net.0.act", "net.0", "net.1<0", "net.1", "net")
    assert (found.location.path, found.calls) == ("net.0", (("net.0", 1), ("net", 1)))
    assert all(one.error <= one.limit for one in found.inputs)


def test_a_mask_says_nothing_about_what_was_read():
    """Minus infinity is another number in each type."""
    mask = np.array([0.0, -1e30, 0.0, -1e30])
    exact, plain = {"net<1": mask, **EXACT}, {"net<1": mask, **PLAIN}
    wrong = {"net<1": mask * 1e-20, **obtained("net")}
    (read,) = first_wrong(wrong, exact, plain, dtype="float32").inputs
    assert read.value == "input 0"


def test_a_module_that_is_wrong_alone_is_passed_over():
    assert look("net.0.norm", "net.1", "net").location.path == "net.1"


def test_nothing_is_wrong():
    found = look()
    assert found.location is None
    located = found_in(found, "unet")
    assert located.kind == "hidden"
    assert located.told == (
        "Each of its modules gives the right thing, the outermost one too: what is wrong is made around them, by what "
        "the engine does with what they read or gave."
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_where_plain_torch_is_not_finite_inside_nothing_is_said(bad):
    """Neither that a module is wrong, nor that it is the last one that agrees."""
    plain = {**PLAIN, "net.0.act": PLAIN["net.0.act"] * bad, "net.0.act#2": PLAIN["net.0.act#2"] * bad}
    broken = {**obtained("net.1", "net"), "net.0.act": np.full(64, bad), "net.0.act#2": EXACT["net.0.act#2"]}
    found = first_wrong(broken, EXACT, plain, dtype="float32")
    assert (found.location.path, found.last.path, found.places) == ("net.1", "net.0", 4)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_where_the_outermost_module_was_compared_with_nothing_nothing_is_called_right(bad):
    found = first_wrong(obtained("net"), EXACT, {**PLAIN, "net": PLAIN["net"] * bad}, dtype="float32")
    assert (found.location, found.whole) == (None, False)
    assert found_in(found, "unet").told == (
        "Where it goes wrong cannot be told: what its outermost module gave was compared with nothing, because plain "
        "torch has nothing like it, or nothing finite."
    )


def test_not_finite():
    broken = {**obtained("net.1", "net"), "net.0": np.full(64, np.nan), "net": np.full(64, np.nan)}
    location = first_wrong(broken, EXACT, PLAIN, dtype="float16").location
    assert isinstance(location, Location)
    assert (location.path, location.error) == ("net.0", np.inf)


def of_torch(folder, *, plain=PLAIN, output=EXACT["net"]):
    """Write what torch gave in two precisions, and what its modules gave."""
    paths = {}
    for dtype, inside, out in (("float32", EXACT, EXACT["net"]), ("float16", plain, output)):
        (folder / dtype).mkdir()
        save_arrays(folder / dtype / "inside.npz", inside)
        paths[dtype] = save_arrays(folder / dtype / "outputs.npz", {"out": out})
    return paths


def searched(monkeypatch, *, cut, recipe, paths, inside=""):
    answers = iter([Ran("", inside=inside, module=recipe)])
    runner = SimpleNamespace(
        case=case(component="unet", engine="own-engine"),
        dtype="float16",
        task=lambda *arguments, **named: next(answers),
        execution=lambda inputs: execution("unet"),
    )
    monkeypatch.setattr(modules, "torch_outputs", lambda target, dtypes, *, inside: paths)
    monkeypatch.setattr(modules, "_cut", lambda target, calls, recipe, *, dtype: cut)
    return modules.search(SearchTarget(runner, {}), folder=Path(), real_weights=False)  # type: ignore[arg-type]


COMPILED = (
    "Nobody can look inside what own-engine compiled as one. The same module without it, on these inputs, is the "
    "limit and right: what the compiler makes of it is to blame. "
)


def test_why_a_module_was_not_cut_out_is_said(monkeypatch, tmp_path):
    why = "it is called with an object of DynamicCache"
    cut = ModuleCut(why=why)
    located = searched(monkeypatch, cut=cut, recipe=ModuleRecipe("cpu"), paths=of_torch(tmp_path))
    assert located.told == COMPILED + (
        "No files that show it were made: it is called with an object of DynamicCache, so it cannot be built without "
        "the code around it."
    )


def test_an_engine_that_does_not_say_how_it_calls_a_module(monkeypatch, tmp_path):
    assert searched(monkeypatch, cut=None, recipe=None, paths=of_torch(tmp_path)).told == COMPILED + (
        "No files that show it were made: the engine own-engine does not tell how it calls a module (`Runner.recipe`)."
    )


def test_weights_that_are_not_those_of_the_reference_are_said(monkeypatch, tmp_path):
    cut = ModuleCut(others=("weight", "bias", "a", "b"))
    located = searched(monkeypatch, cut=cut, recipe=ModuleRecipe("cpu"), paths=of_torch(tmp_path))
    assert located.told == COMPILED + "Its weights are not those of the reference: weight, bias, a (4 in all)."


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("inside", ["", "inside.npz"])
def test_where_plain_torch_is_not_finite_no_engine_is_blamed(monkeypatch, tmp_path, bad, inside):
    """Neither one whose modules are not finite either, nor one that was compiled as one."""
    broken = np.full(64, bad)
    plain = {**PLAIN, "net.0.act#2": broken, "net.0": broken, "net.1<0": broken, "net": broken}
    paths = of_torch(tmp_path, plain=plain, output=broken)
    located = searched(monkeypatch, cut=None, recipe=None, paths=paths, inside=inside and str(tmp_path / inside))
    assert sentence(located) == (
        "In plain torch itself the unet goes wrong at net.0.act: not all of its values are finite. The reference has "
        "numbers there, which this dtype cannot hold: of what follows nothing can be called right, whatever "
        "the engine."
    )


def test_where_only_the_output_of_plain_torch_is_not_finite_it_is_named(monkeypatch, tmp_path):
    paths = of_torch(tmp_path, output=np.full(64, np.inf))
    located = searched(monkeypatch, cut=None, recipe=None, paths=paths)
    assert (located.kind, located.location.value, located.location.path) == ("plain", "out", "")
