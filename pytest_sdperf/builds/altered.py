"""What a build goes on with where something alters its files: an entry of its own beside the one that is not."""

from __future__ import annotations

from collections.abc import Callable

from pytest_sdperf.builds import steps
from pytest_sdperf.builds.cache import Entry
from pytest_sdperf.builds.exporter import Make
from pytest_sdperf.builds.fingerprint import library_versions, modules_of, source_hash
from pytest_sdperf.core.alteration import BuildStage
from pytest_sdperf.core.catalog import Catalog
from pytest_sdperf.core.files.strict_json import convert
from pytest_sdperf.tasks import alter, export, weights


def altered_entry(
    stage: BuildStage,
    entry: Entry,
    component: str,
    altered: str,
    *,
    catalog: Catalog,
    make: Make,
    say: Callable[[str], None],
) -> Entry:
    """Return the altered entry; the entry itself where nothing is altered.

    Args:
        stage: What the build has come to.
        entry: What it made.
        component: What is built.
        altered: Name of what alters it; empty for nothing.
        catalog: What is registered.
        make: Makes an entry of the cache.
        say: Prints one line of progress.
    """
    alteration = catalog.alteration(altered)
    if stage not in alteration.stages(component):
        return entry
    owner = catalog.alterations.owner(altered)
    parts = {
        "alteration": altered,
        "stage": stage.value,
        "of": entry.digest,
        "code": source_hash(alter.__name__, owner.module, *modules_of(alteration)),
        "versions": library_versions(*steps.FUSE_LIBRARIES["native"]),
    }
    file = next(name for name in (export.FILE, weights.FILE) if (entry.path / name).is_file())
    made = make("alter", parts, f"{alter.__name__}:run", alter.AlterFile(altered, stage, entry.path / file), [owner])
    if not convert(made.metadata, alter.Altered).altered:
        return entry
    say(f"{alteration.word} {altered} into {component}")
    return made
