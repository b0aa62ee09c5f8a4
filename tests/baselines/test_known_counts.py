"""Which stored counts a release of a foreign optimizer is judged by: its own, else those of the newest older one."""

from __future__ import annotations

import dataclasses
import itertools
import json
from pathlib import Path

import pytest
from sample_values import case

from pytest_sdperf.baselines.counts import file_of, record
from pytest_sdperf.baselines.counts import known as known_counts
from pytest_sdperf.checks.fusions.check import Fused
from pytest_sdperf.core.errors import BaselineError

CONV = "com.microsoft::NhwcConv"
BUILD = case(engine="", fuser="ort", optimization="bias-add")


@pytest.fixture
def folders(tmp_path):
    return [tmp_path / "own" / "fusions", tmp_path / "shipped" / "fusions"]


def known(folders, version, build):
    found = known_counts(folders, Path("fusions", file_of("onnxruntime", version)), Fused().key(build))
    assert (found.file, found.key) == (f"fusions/{file_of('onnxruntime', version)}", Fused().key(build))
    return found.counts, found.older


def store(folder, release, nodes, build=BUILD):
    record(folder / f"onnxruntime-{release}.json", {Fused().key(build): {CONV: nodes}}, lock_dir=folder / "locks")


def test_without_a_file_nothing_is_known(folders):
    assert known(folders, "1.33.0", BUILD) == ({}, "")


@pytest.mark.parametrize("version", ["1.33.0", "1.33.1", "1.33.0.dev20261120001+cu130"])
def test_every_patch_and_nightly_of_a_release_has_its_counts(folders, version):
    store(folders[1], "1.33", 98)
    assert known(folders, version, BUILD) == ({CONV: 98}, "")


def test_of_one_release_the_first_folder_counts(folders):
    store(folders[1], "1.33", 98)
    store(folders[0], "1.33", 97)
    assert known(folders, "1.33.0", BUILD) == ({CONV: 97}, "")


def test_a_release_without_counts_has_those_of_the_newest_older_one_wherever_they_are(folders):
    store(folders[0], "1.9", 90)
    store(folders[0], "1.31", 96)
    store(folders[1], "1.32", 98)
    assert known(folders, "1.33.0", BUILD) == ({CONV: 98}, "1.32")
    assert known(folders, "2.0.0", BUILD) == ({CONV: 98}, "1.32")
    assert known(folders, "1.10.0", BUILD) == ({CONV: 90}, "1.9")


@pytest.mark.parametrize("fuser", ["native", ""])
def test_a_graph_of_somebody_else_is_known_by_its_content_alone(folders, fuser):
    given = case(engine="", fuser=fuser, optimization="bias-add", exporter="external", weights="onnx-1")
    other = dataclasses.replace(given, weights="onnx-2")
    store(folders[0], "1.31", 96, given)
    assert known(folders, "1.33.0", given) == ({CONV: 96}, "1.31")
    assert known(folders, "1.33.0", other) == ({}, "")


@pytest.mark.parametrize(("fuser", "exporter"), [*itertools.product(["native", "ort", ""], ["dynamo", "external"])])
def test_our_own_optimizer_on_our_own_export_has_nothing_stored(fuser, exporter):
    ours = fuser != "ort" and exporter != "external"
    assert bool(Fused().key(case(engine="", fuser=fuser, exporter=exporter))) is not ours


def test_a_newer_release_is_not_asked(folders):
    store(folders[1], "1.32", 98)
    assert known(folders, "1.31.1", BUILD) == ({}, "")


def test_each_build_is_looked_for_by_itself(folders):
    other = case(engine="", fuser="ort", optimization="fp16")
    store(folders[1], "1.32", 98)
    store(folders[1], "1.32", 0, other)
    store(folders[0], "1.33", 97, other)
    assert known(folders, "1.33.0", BUILD) == ({CONV: 98}, "1.32")
    assert known(folders, "1.33.0", other) == ({CONV: 97}, "")


def test_other_files_of_the_folder_are_not_counts(folders):
    store(folders[0], "1.32", 98)
    for name in ("onnxruntime-1.33-rc.json", "onnxruntime-next.json", "notes.txt"):
        (folders[0] / name).write_text("{", encoding="utf-8")
    assert known(folders, "1.34.0", BUILD) == ({CONV: 98}, "1.32")


def test_a_damaged_file_of_an_older_release_is_not_passed_over(folders):
    folders[0].mkdir(parents=True)
    path = folders[0] / "onnxruntime-1.32.json"
    path.write_text(json.dumps({"schema": 2, "cases": {}}), encoding="utf-8")
    with pytest.raises(BaselineError) as caught:
        known(folders, "1.33.0", BUILD)
    assert str(caught.value) == (
        f"file of fusion counts {path} has schema 2; this version of pytest-sdperf reads schema 1. Install the version "
        f"that wrote it, or record it again with --sdperf-update-baselines."
    )
