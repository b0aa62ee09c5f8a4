"""Imports what each run of pytest imports, as pytest does: through its hook that rewrites assertions of plugins."""

import importlib
import pkgutil
import sys

import _pytest.config
from _pytest.assertion import install_importhook

PLUGINS = ("pytest_sdperf", "xdist", "pytest_benchmark")
hook = install_importhook(_pytest.config.get_config())
hook.mark_rewrite(*PLUGINS)
for name in (
    "pytest_sdperf.plugin",
    "pytest_sdperf.builtins",
    "xdist.plugin",
    "xdist.looponfail",
    "pytest_benchmark.plugin",
):
    importlib.import_module(name)
sys.meta_path.remove(hook)
for module in pkgutil.iter_modules(_pytest.__path__, "_pytest."):
    importlib.import_module(module.name)
