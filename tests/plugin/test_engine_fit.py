from __future__ import annotations

import textwrap

import pytest

GPUS = """
    from door_toys import ToyEngine, ToyProbe

    from pytest_sdperf.core.device import Device, DeviceProbe, Health
    from pytest_sdperf.core.errors import DeviceMissingError

    CARDS = {"cuda": Device("cuda", "NVIDIA H200", "h200"), "rocm": Device("rocm", "AMD Instinct MI300X OAM", "mi300x")}


    class Nothing(DeviceProbe):
        def __init__(self, kind):
            self.name, self.kind = f"toy-{kind}", kind

        def find(self):
            raise DeviceMissingError(f"no driver of {self.kind} is installed.")

        def health(self, device):
            return Health()


    def pytest_sdperf_register(catalog):
        catalog.add_engine(ToyEngine("ort-rocm", kinds=("rocm",)))
        for kind, card in CARDS.items():
            catalog.add_device_probe(ToyProbe(card) if kind in HERE else Nothing(kind))
"""
NO_CUDA = "  toy-cuda: no driver of cuda is installed."
NO_ROCM = "  toy-rocm: no driver of rocm is installed."
LEAVE_OUT = "To run it, leave --sdperf-gpu out, or name another engine."
H200 = "  0: NVIDIA H200 (h200)"


def elsewhere(vendor):
    return (
        "Name another engine. Graphs alone are built and looked at on any machine, also for a GPU that is elsewhere: "
        f"--sdperf-gpu={vendor}."
    )


@pytest.fixture
def machine_with(pytester, sdperf):
    """Return a function that puts GPUs of these kinds into the machine and returns one that runs pytest there."""
    pytester.makepyfile("def test_nothing():\n    pass\n")

    def machine(here):
        pytester.makeconftest(f"HERE = {here!r}\n{textwrap.dedent(GPUS)}")
        return lambda engine, gpu: sdperf(f"--sdperf-engine={engine}", *([f"--sdperf-gpu={gpu}"] if gpu else []))

    return machine


@pytest.mark.parametrize(
    ("engine", "gpu", "here", "told"),
    [
        (
            "ort-rocm",
            "",
            (),
            [
                "ERROR: engine 'ort-rocm' runs on rocm, not on cpu. This machine has no GPU of AMD.",
                NO_CUDA,
                NO_ROCM,
                elsewhere("amd"),
            ],
        ),
        (
            "ort-rocm",
            "auto",
            (),
            [
                "ERROR: engine 'ort-rocm' runs on rocm. This machine has no GPU of AMD.",
                NO_CUDA,
                NO_ROCM,
                elsewhere("amd"),
            ],
        ),
        (
            "ort-cuda",
            "",
            (),
            [
                "ERROR: engine 'ort-cuda' runs on cuda, not on cpu. This machine has no GPU of NVIDIA.",
                NO_CUDA,
                NO_ROCM,
                elsewhere("nvidia"),
            ],
        ),
        (
            "ort-rocm",
            "auto",
            ("cuda",),
            [
                "ERROR: engine 'ort-rocm' runs on rocm, not on cuda. This machine has no GPU of AMD.",
                H200,
                NO_ROCM,
                elsewhere("amd"),
            ],
        ),
        (
            "ort-rocm",
            "nvidia",
            (),
            [
                "ERROR: engine 'ort-rocm' runs on rocm, not on cuda. This machine has no GPU of AMD.",
                NO_CUDA,
                NO_ROCM,
                elsewhere("amd"),
            ],
        ),
        (
            "ort-rocm",
            "",
            ("cuda", "rocm"),
            ["ERROR: engine 'ort-rocm' runs on rocm, not on cpu. To run it, type --sdperf-gpu=mi300x."],
        ),
        (
            "ort-rocm",
            "auto",
            ("cuda", "rocm"),
            ["ERROR: engine 'ort-rocm' runs on rocm, not on cuda. To run it, type --sdperf-gpu=mi300x."],
        ),
        (
            "ort-cpu",
            "auto",
            ("cuda",),
            [f"ERROR: engine 'ort-cpu' runs on cpu, not on cuda. {LEAVE_OUT}"],
        ),
    ],
)
def test_an_engine_that_does_not_run_on_the_device_says_what_does(machine_with, engine, gpu, here, told):
    result = machine_with(here)(engine, gpu)
    assert (result.ret, [line for line in result.stderr.lines if line]) == (4, told)


@pytest.mark.parametrize("engine", ["ort-rocm", "ort-cuda"])
@pytest.mark.parametrize("here", [(), ("cuda",), ("rocm",), ("cuda", "rocm")])
@pytest.mark.parametrize("gpu", ["", "auto", "nvidia", "amd", "0"])
def test_what_is_advised_is_not_refused_in_its_turn(machine_with, engine, here, gpu):
    run = machine_with(here)
    first = run(engine, gpu)
    advised = [line.partition("--sdperf-gpu=")[2].rstrip(".") for line in first.stderr.lines if "--sdperf-gpu=" in line]
    assert bool(advised) == (first.ret != 0)
    for advice in advised:
        assert run(engine, advice).ret == 0
