from __future__ import annotations

import json
import json.decoder
import types
from pathlib import Path

import door_toys

from pytest_sdperf.cases.registration import registrar_of, too_late


def test_a_module_on_the_path_is_found_by_its_file():
    assert registrar_of(door_toys).module == "door_toys"
    assert registrar_of(door_toys).root == Path(door_toys.__file__)


def test_a_module_in_a_package_is_found_by_the_folder_of_the_package():
    assert registrar_of(json.decoder).module == "json.decoder"
    assert registrar_of(json.decoder).root == Path(json.__file__).parent


def test_an_object_is_found_by_the_module_of_its_class():
    assert registrar_of(door_toys.ToyEngine("x")).module == "door_toys"


def test_a_late_plug_in_is_told_where_to_move():
    late = types.ModuleType("conftest")
    late.__file__ = "/project/deep/conftest.py"
    assert too_late(late, Path("/project")) == (
        "/project/deep/conftest.py registers after the catalog is closed. Move its pytest_sdperf_register to "
        "/project/conftest.py, or load the file with -p."
    )


def test_every_plug_in_owns_what_it_registers(pytester, sdperf):
    pytester.makeconftest(
        """
        from door_toys import ToyEngine
        from pytest_sdperf.plugin.run import run_of

        def pytest_sdperf_register(catalog):
            catalog.add_engine(ToyEngine("acme"))

        def pytest_report_header(config):
            engines = run_of(config).catalog.engines
            return [f"{name} by {engines.owner(name).module}" for name in ("torch", "acme")]
        """
    )
    sdperf().stdout.fnmatch_lines(["torch by door_toys", "acme by conftest"])


def test_two_plug_ins_with_one_name_are_both_named(pytester, sdperf):
    pytester.makeconftest(
        """
        from door_toys import ToyEngine

        def pytest_sdperf_register(catalog):
            catalog.add_engine(ToyEngine("torch"))
        """
    )
    result = sdperf()
    assert result.ret == 4
    assert result.stderr.lines[0] == (
        "ERROR: engine 'torch' is registered twice: by door_toys and by conftest. Rename one of them."
    )
