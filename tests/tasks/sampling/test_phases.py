from __future__ import annotations

from contextlib import contextmanager

from pytest_sdperf.tasks.sampling.phases import PhaseListener, Shared, Silent


def test_runners_hear_of_a_phase_before_it_begins():
    log = []

    class Listener(PhaseListener):
        @contextmanager
        def phase(self, name):
            log.append(f"begin {name}")
            yield
            log.append(f"end {name}")

    class Hearing:
        def __init__(self, name):
            self.name = name

        def enter(self, phase):
            log.append(f"{self.name} enters {phase}")

        def leave(self, phase):
            log.append(f"{self.name} leaves {phase}")

    with Shared(Listener(), [Hearing("unet"), Hearing("vae_decoder")]).phase("timed"):
        log.append("call")
    assert log == [
        "unet enters timed",
        "vae_decoder enters timed",
        "begin timed",
        "call",
        "end timed",
        "unet leaves timed",
        "vae_decoder leaves timed",
    ]


def test_nobody_listens():
    with Silent().phase("timed"):
        pass
