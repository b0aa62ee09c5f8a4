"""Files of the schema before this one: what somebody recorded with it stays valid."""

from __future__ import annotations

import json
import re

import pytest
from sample_values import case, session, stored

from pytest_sdperf.baselines.files import to_text, update
from pytest_sdperf.baselines.shipped import measured_folder
from pytest_sdperf.baselines.stored import Baseline, current_key, read

EXTERNAL = case(exporter="external", opset=18, shapes="static", weights="onnx-1")


def as_schema_1(text: str) -> str:
    """Return the text of a file as the versions before schema 2 wrote it."""
    text = text.replace('"dtype":', '"floating":').replace('"vae_dtype":', '"vae_floating":')
    text = text.replace('"exporter": "external"', '"exporter": "given"').replace("exporter=external", "exporter=given")
    return re.sub(r'"schema": 2', '"schema": 1', text)


@pytest.mark.parametrize("file", sorted(measured_folder().glob("*.json")), ids=lambda file: file.stem)
def test_a_measured_file_says_the_same_in_either_schema(file, tmp_path):
    before = as_schema_1(file.read_text(encoding="utf-8"))
    assert '"floating"' in before
    assert '"vae_floating"' in before
    (tmp_path / file.name).write_text(before, encoding="utf-8")
    assert read(tmp_path / file.name) == read(file)


def test_graphs_that_were_exported_elsewhere_keep_what_is_stored_of_them(tmp_path):
    baseline = Baseline(machine={"slug": "t4"}, cases={EXTERNAL.key: stored(session(), of=EXTERNAL)})
    path = tmp_path / "t4.json"
    path.write_text(as_schema_1(to_text(baseline)), encoding="utf-8")
    assert "exporter=given" in path.read_text(encoding="utf-8")
    assert read(path) == baseline
    # Whoever writes it next writes the present schema.
    update(path, lambda now: now or baseline, lock_dir=tmp_path / "locks")
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(to_text(baseline))


@pytest.mark.parametrize("key", ["model=sd15 exporter=dynamo opset=18", "model=given engine=torch"])
def test_other_keys_are_as_they_were(key):
    assert current_key(key) == key
