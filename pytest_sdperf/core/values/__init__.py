"""Frozen values that travel between the rooms, and between the suite and its worker processes.

Standard library only: a worker imports them under an interpreter in which the suite is not installed. Every value
turns into plain JSON data with `to_json`, and back with `core.files.strict_json.convert`. Plug-ins import what is
named here.
"""

from pytest_sdperf.core.values.build import Build, TensorSpec
from pytest_sdperf.core.values.case import Case, Workload
from pytest_sdperf.core.values.encoding import finite, to_json
from pytest_sdperf.core.values.facts import ComponentFacts, Facts
from pytest_sdperf.core.values.measurement import Failure, Measurement, Sample

__all__ = [
    "Build",
    "Case",
    "ComponentFacts",
    "Facts",
    "Failure",
    "Measurement",
    "Sample",
    "TensorSpec",
    "Workload",
    "finite",
    "to_json",
]
