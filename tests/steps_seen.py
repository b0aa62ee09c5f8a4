"""Steps that go on, in the words in which a person sees them."""

from __future__ import annotations

from pytest_sdperf.core.progress import Step, Watcher


class Seen(Watcher):
    """Writes down what steps do, in order and each once, but not that a process is being started for them."""

    def __init__(self, said: list[str] | None = None, **seconds: float) -> None:
        self.said = [] if said is None else said
        self.seconds = dict(seconds)

    def began(self, step: Step) -> None:
        if step.what not in ("waiting for a worker process", *self.said[-1:]) and "starting a process" not in step.what:
            self.said.append(step.what)

    changed = began

    def last_s(self, key: str) -> float | None:
        return self.seconds.get(key)

    def took(self, key: str, seconds: float) -> None:
        self.seconds[key] = seconds
