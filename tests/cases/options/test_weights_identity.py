from __future__ import annotations

from types import SimpleNamespace

import huggingface_hub.constants
import pytest
from door_toys import toy_catalog

from pytest_sdperf.builds.weights_identity import weights_identity
from pytest_sdperf.cases import selector as selector_module
from pytest_sdperf.cases.axes import Axes
from pytest_sdperf.cases.options.marks import Marks
from pytest_sdperf.cases.selector import Selector
from pytest_sdperf.core.errors import WeightsError
from pytest_sdperf.core.settings import Selection

FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Return a function that puts snapshots of `org/name` onto the disk; the network is cut off."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))

    def refuse(self, hub_id):
        raise OSError("the network is unreachable")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    repository = tmp_path / "models--org--name"

    def put(*commits, main=""):
        for commit in commits:
            (repository / "snapshots" / commit).mkdir(parents=True)
        (repository / "refs").mkdir(exist_ok=True)
        if main:
            (repository / "refs" / "main").write_text(main)

    return put


def test_drawn_weights_are_their_seed():
    assert weights_identity("random") == "random-0"


@pytest.mark.parametrize("change", ["name", "size", "bytes", "more", "none"])
def test_a_folder_is_its_files(tmp_path, change):
    (tmp_path / "unet").mkdir()
    weights = tmp_path / "unet" / "model.safetensors"
    weights.write_bytes(b"0123")
    before = weights_identity(str(tmp_path))
    assert len(before) == len("folder-") + 12
    if change == "name":
        weights.rename(tmp_path / "unet" / "other.safetensors")
    elif change == "more":
        (tmp_path / "unet" / "config.json").write_text("{}")
    elif change != "none":
        weights.write_bytes({"size": b"01234", "bytes": b"0124"}[change])
    assert (weights_identity(str(tmp_path)) == before) is (change == "none")


@pytest.mark.parametrize(
    ("commits", "main", "identity"),
    [
        ([FIRST, SECOND], SECOND, "org/name@222222222222"),
        ([FIRST, SECOND], FIRST, "org/name@111111111111"),
        ([FIRST], "", "org/name@111111111111"),
        ([FIRST], "3" * 40, "org/name@111111111111"),
    ],
)
def test_a_hub_id_is_the_snapshot_on_the_disk(hub, commits, main, identity):
    hub(*commits, main=main)
    assert weights_identity("org/name") == identity


def test_a_hub_id_that_is_not_on_the_disk_is_what_the_hub_has_now(hub, monkeypatch):
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda self, hub_id: SimpleNamespace(sha=SECOND))
    assert weights_identity("org/name") == "org/name@222222222222"


@pytest.mark.parametrize("commits", [[], [FIRST, SECOND]])
def test_a_hub_id_that_nobody_can_resolve_is_refused(hub, commits):
    hub(*commits) if commits else None
    with pytest.raises(WeightsError) as caught:
        weights_identity("org/name")
    assert str(caught.value) == (
        "--weights=org/name is no local folder and could not be fetched from the Hugging Face hub: the network is "
        "unreachable. Check the name and the network, or give a local folder."
    )


def test_weights_are_read_once_for_every_test_of_a_run(monkeypatch):
    read = []
    monkeypatch.setattr(selector_module, "weights_identity", lambda weights: read.append(weights) or weights)
    selector = Selector(Selection(weights="/w", batch_sizes=(1, 2)), toy_catalog(), {}, "cpu")
    for axes in Axes:
        selector.choose(axes, Marks())
    assert read.count("/w") == 1


def test_no_weights_are_not_those_of_any_seed():
    assert weights_identity("none") == "none" != weights_identity("random")
