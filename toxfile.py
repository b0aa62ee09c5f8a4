"""Let several tox environments share one folder.

An installation is 1.5 GB, and `suites`, `tests`, `full`, `types` and `lint` need the same one. tox recreates a folder
that another environment name made, so this runner keeps one name for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tox.plugin import impl
from tox.tox_env.info import Info
from tox.tox_env.python.virtual_env.runner import VirtualEnvRunner
from tox.tox_env.register import ToxEnvRegister


class SharedInfo(Info):
    """What tox remembers about a folder, without the name of the environment that made it."""

    @contextmanager
    def compare(self, value: Any, section: str, sub_section: str | None = None) -> Iterator[tuple[bool, Any | None]]:
        """Compare as tox does, except for the environment's own name."""
        if section == "ToxEnv":
            value = {**value, "name": "shared"}
        with super().compare(value, section, sub_section) as answer:
            yield answer


class SharedRunner(VirtualEnvRunner):
    """A virtual environment whose folder serves every environment with `runner = shared`."""

    @staticmethod
    def id() -> str:
        """Return the name that `tox.ini` uses."""
        return "shared"

    @property
    def cache(self) -> Info:
        """The memory of the shared folder."""
        return SharedInfo(self.env_dir)


@impl
def tox_register_tox_env(register: ToxEnvRegister) -> None:
    """Offer the runner to `tox.ini`."""
    register.add_run_env(SharedRunner)
