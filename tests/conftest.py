from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# A run inside the process of a test must not be the first to load these: they load once, and a second time end the
# process (onnx), are refused (parts of numpy that scipy loads) or damage its memory (ml_dtypes 0.5.4, which crashes
# some tests later).
import hypothesis
import ml_dtypes  # noqa: F401 - as above
import numpy  # noqa: F401, ICN001 - as above
import onnx  # noqa: F401 - as above
import pluggy
import pytest
import scipy.stats  # noqa: F401 - as above
from hypothesis import HealthCheck, settings

from pytest_sdperf.builds.processes import forking

pytest_plugins = ["pytester", "whole_runs"]

HERE = Path(__file__).parent

# The same examples in every run, so that nobody's change is red by luck; --hypothesis-profile=free draws others, as
# `tox -e newest` does. No deadline: shared machines are slow at times, which is no property of the code.
settings.register_profile("free", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Half as many of them, because they find nothing new the next time.
settings.register_profile("same", settings.get_profile("free"), derandomize=True, database=None, max_examples=50)
settings.load_profile("same")

# Neither where these tests run nor how they were started reaches the runs that they start: pytest prints whole lines
# where CI is set, terminals have widths and colours, and a worker of pytest-xdist knows of a run of its own.
MACHINES = {
    "BUILD_NUMBER", "CI", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "LINES",
    "NO_COLOR", "PY_COLORS",
}  # fmt: skip
for name in [name for name in os.environ if name in MACHINES or name.startswith("PYTEST_XDIST_")]:
    del os.environ[name]

# The runs of all tests share one server, in which torch and diffusers are loaded once.
forking.share()

# Warnings that third-party libraries raise on their own account, as pytest filters that name the library.
TOLERATED_WARNINGS: tuple[str, ...] = (
    "ignore:Deprecated in 0.9.0. BPE.__init__ will not create:DeprecationWarning",  # the tokenizer of transformers 5.0
    "ignore:Warning. Profiler clears events at the end of each cycle:UserWarning",  # torch 2.11
)

# Graphs are many objects that refer to each other. Twenty times as many before somebody looks for garbage take a tenth
# more memory, and a third less time.
gc.set_threshold(10_000, 20, 20)


def pytest_collection_finish() -> None:
    """Never look again for garbage among what was loaded: it stays to the end, and is most of what there is."""
    if hypothesis.__version_info__ >= (6, 150):  # 6.100 draws other examples than it drew before, once this was done
        gc.freeze()
        gc.collect()  # of nothing: what there was decides how soon the next one is due


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # A marker and not an ini setting: it reaches the tests of this folder however pytest was started, and never the
    # suites or a user's run. It goes in front of the others, so that a test's own filter still wins.
    strict = pytest.mark.filterwarnings("error", *TOLERATED_WARNINGS)
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(strict, append=False)


@pytest.fixture(scope="session")
def shared_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a name, which is the same in all processes of this run: what they build is built once."""
    folder = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):  # a worker of pytest-xdist, whose own folder is inside that of the run
        folder = folder.parent

    def named(name: str) -> Path:
        (folder / name).mkdir(exist_ok=True)
        return folder / name

    return named


@pytest.fixture
def sdperf(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest in an empty folder with our plugin, toy plug-ins instead of the built-ins, and no other plugin.

    The tests in the folder may use the short names of our fixtures, unless `short=False`: then it is a stranger's.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)  # for the workers of pytest-xdist

    def run(*arguments: str, plugins: Sequence[str] = (), short: bool = True) -> pytest.RunResult:
        names = ["pytest_sdperf.short_fixtures"] if short else []
        loaded = ["no:pytest_sdperf.builtins", "pytest_sdperf.plugin", "door_toys", *names, *plugins]
        flags = [word for name in loaded for word in ("-p", name)]
        # pytest-xdist hands its workers the sys.path of the moment when it was imported, and pytest-benchmark leaves
        # files open, which Python would say in whatever test is the next to look for garbage.
        if "xdist.plugin" in plugins or any(one.startswith("--benchmark-json") for one in arguments):
            return pytester.runpytest_subprocess(*flags, *arguments)
        with pytest.MonkeyPatch.context() as patch:
            # For each `-p` pytest reads the entry points of all that is installed: a fifth of a short run, for nothing.
            patch.setattr(pluggy.PluginManager, "load_setuptools_entrypoints", lambda *given, **named: 0)
            return pytester.runpytest_inprocess(*flags, *arguments, no_reraise_ctrlc=True)

    return run


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """Let torch see a GPU. The events of a call are appended to the list when the call is made."""
    import torch
    from fake_profiler import FakeProfile

    calls: list[list[dict[str, Any]]] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.profiler, "profile", FakeProfile(calls))
    return calls
