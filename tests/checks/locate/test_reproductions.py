"""Files that show a fault are run before they are mentioned, and those that do not show it are not kept."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from sample_values import case

from pytest_sdperf.checks.locate.reproductions import keep
from pytest_sdperf.checks.locate.target import SearchTarget
from pytest_sdperf.core.device import Device
from pytest_sdperf.core.values.located import Located, Location
from pytest_sdperf.tasks._execution import ShowingFiles

SHOWS = "print('onnxruntime 1.32.0: error 5.00e-01, limit 1.00e-03'); raise SystemExit(1)"
GONE = "print('onnxruntime 1.32.0: error 5.00e-05, limit 1.00e-03')"
BREAKS = "import no_such_module"
LOCATION = Location("sum_out", "node_norm", "com.microsoft::SkipLayerNormalization", "unet.norm2", 0.5, 1e-3)
FOUND = Located("unet", "engine", LOCATION)


def target(weights: str, consumes: str = "onnx") -> SearchTarget:
    runner = SimpleNamespace(
        engine=SimpleNamespace(consumes=consumes),
        case=case(weights=weights),
        request=SimpleNamespace(python=None, env={}),
        context=SimpleNamespace(device=Device("cpu", "CPU", "cpu-2c")),
    )
    return SearchTarget(runner, {})  # type: ignore[arg-type]  # all that is read of a runner


@pytest.fixture
def kept(tmp_path):
    def run(programs: dict[str, str]) -> tuple[Located, Path]:
        files = []
        for kind, program in programs.items():
            folder = tmp_path / f"tried-{kind}"
            folder.mkdir()
            (folder / "reproduce.py").write_text(program)
            files.append(ShowingFiles(str(folder), kind))
        where = tmp_path / "it's here"
        return keep(target("folder-1"), FOUND, files, folder=where, real_weights=False), where

    return run


def test_random_weights_that_show_it_are_taken_first(kept):
    located, where = kept({"random": SHOWS, "real": SHOWS})
    made = located.reproduction
    assert made is not None
    assert (made.weights, located.told) == ("random", "")
    assert Path(made.folder).parent == where
    assert made.command == f"{sys.executable} '{made.folder}/reproduce.py'".replace("it's", "it'\"'\"'s")
    assert (Path(made.folder) / "README.md").read_text() == (
        "# com.microsoft::SkipLayerNormalization gives something else than it should\n"
        "\n"
        "The unet goes wrong at com.microsoft::SkipLayerNormalization node_norm of unet.norm2: relative L2 error "
        "5.00e-01, and at most 1.00e-03 passes there. What it reads could not be seen. Its definition gives something "
        "else for what it read: the engine computes it wrong.\n"
        "\n"
        "    python reproduce.py\n"
        "\n"
        "prints `onnxruntime 1.32.0: error 5.00e-01, limit 1.00e-03`, and exits with 1 while the fault shows and with "
        "0 when it is gone. It needs onnxruntime and numpy.\n"
        "\n"
        "- `subgraph.onnx`: the nodes that are wrong, cut out of their graph; its weights are random numbers with the "
        "mean and deviation of the real ones\n"
        "- `inputs.npz`: what they read; `expected.npz`: what they should give\n"
        f"- case: {case(weights='folder-1').key}\n"
        f"- made by pytest_sdperf under Python {platform.python_version()} on {platform.system()} "
        f"{platform.machine()}\n"
    )


@pytest.mark.parametrize("random", [GONE, BREAKS])
def test_weights_are_not_given_away_unasked(kept, random):
    located, where = kept({"random": random, "real": SHOWS})
    assert located.reproduction is None
    assert not where.exists()
    assert located.told == (
        "Files with the weights of the case show this fault, and these are not given away unasked: type "
        "-o sdperf_repro_weights=real."
    )


def test_files_that_show_nothing_are_not_kept(kept):
    located, _ = kept({"random": GONE})
    assert located.reproduction is None
    assert located.told == (
        "No files were kept: cut out of its graph, in a session of its own, the node gives the right thing. Whatever "
        "is wrong is made by the engine around it, or by its neighbours."
    )


def test_weights_of_a_seed_are_nobodys(tmp_path):
    folder = tmp_path / "tried"
    folder.mkdir()
    (folder / "reproduce.py").write_text(SHOWS)
    files = [ShowingFiles(str(folder), "real")]
    seeded = keep(target("random-0"), FOUND, files, folder=tmp_path / "kept", real_weights=False)
    assert seeded.reproduction is not None
    assert seeded.reproduction.weights == "seeded"
    asked = keep(target("folder-1"), FOUND, files, folder=tmp_path / "kept", real_weights=True)
    assert asked.reproduction is not None
    assert asked.reproduction.weights == "real"


def test_the_files_of_an_earlier_run_are_replaced(kept, tmp_path):
    located, _ = kept({"random": SHOWS})
    assert located.reproduction is not None
    old = Path(located.reproduction.folder) / "old"
    old.touch()
    files = [ShowingFiles(str(tmp_path / "tried-random"), "random")]
    keep(target("folder-1"), FOUND, files, folder=tmp_path / "it's here", real_weights=False)
    assert not old.exists()


def test_nothing_was_cut_out(tmp_path):
    assert keep(target("folder-1"), FOUND, [], folder=tmp_path, real_weights=False) == FOUND


def test_files_of_a_module_say_what_they_need(tmp_path):
    folder = tmp_path / "tried"
    folder.mkdir()
    (folder / "reproduce.py").write_text(SHOWS.replace("onnxruntime 1.32.0", "torch 2.13.0 cpu"))
    found = Located("unet", "module", Location("", "", "", "unet.norm2", 0.5, 1e-3))
    files = [ShowingFiles(str(folder), "random")]
    located = keep(target("folder-1", "module"), found, files, folder=tmp_path / "kept", real_weights=False)
    assert located.reproduction is not None
    assert (Path(located.reproduction.folder) / "README.md").read_text() == (
        "# unet.norm2 gives something else than it should\n"
        "\n"
        "The unet goes wrong at unet.norm2: relative L2 error 5.00e-01, and at most 1.00e-03 passes there. What it "
        "reads could not be seen.\n"
        "\n"
        "    python reproduce.py\n"
        "\n"
        "prints `torch 2.13.0 cpu: error 5.00e-01, limit 1.00e-03`, and exits with 1 while the fault shows and with 0 "
        "when it is gone. It needs torch, safetensors and the library of the module.\n"
        "\n"
        "- `weights.safetensors`: what the module holds: random numbers with the mean and deviation of the real ones\n"
        "- `inputs.safetensors`: what it is called with; `expected.safetensors`: what it should give\n"
        f"- case: {case(weights='folder-1').key}\n"
        f"- made by pytest_sdperf under Python {platform.python_version()} on {platform.system()} "
        f"{platform.machine()}\n"
    )


def test_files_of_what_was_compiled_say_what_was_found(tmp_path):
    folder = tmp_path / "tried"
    folder.mkdir()
    (folder / "reproduce.py").write_text(SHOWS)
    found = Located("unet", "hidden", told="Nobody can look inside.")
    files = [ShowingFiles(str(folder), "random")]
    located = keep(target("folder-1", "module"), found, files, folder=tmp_path / "kept", real_weights=False)
    assert located.reproduction is not None
    assert (
        (Path(located.reproduction.folder) / "README.md")
        .read_text()
        .startswith("# The unet gives something else than it should\n\nNobody can look inside.\n")
    )


def test_a_module_that_is_right_when_it_is_called_alone(tmp_path):
    folder = tmp_path / "tried"
    folder.mkdir()
    (folder / "reproduce.py").write_text(GONE)
    files = [ShowingFiles(str(folder), "random")]
    located = keep(target("folder-1", "module"), FOUND, files, folder=tmp_path / "kept", real_weights=False)
    assert located.told == (
        "No files were kept: built from its class and called alone, the module gives the right thing. Whatever is "
        "wrong is made by what the engine does to it when it loads it, or around it."
    )


def test_real_weights_are_taken_first_where_they_may_be(tmp_path):
    files = []
    for kind in ("random", "real"):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / "reproduce.py").write_text(SHOWS)
        files.append(ShowingFiles(str(tmp_path / kind), kind))
    for allowed, weights in ((True, "real"), (False, "random")):
        located = keep(target("folder-1"), FOUND, files, folder=tmp_path / "kept", real_weights=allowed)
        assert located.reproduction is not None
        assert located.reproduction.weights == weights
