"""Which snapshot a repository of the Hugging Face hub stands for: its name alone would be one key for many weights."""

from __future__ import annotations

from pathlib import Path

from pytest_sdperf.core.errors import WeightsError


def hub_revision(hub_id: str) -> str:
    """Return the commit of a repository: of the snapshot on this disk, else of today's `main`.

    Once fetched it stays what it is, and needs no network, until the user fetches a newer one (`hf download`).

    Raises:
        WeightsError: It is not on this disk and the hub does not answer.
    """
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.constants import HF_HUB_CACHE

        return _on_disk(Path(HF_HUB_CACHE) / f"models--{hub_id.replace('/', '--')}") or str(
            HfApi().model_info(hub_id).sha
        )
    except Exception as error:
        raise not_fetched(hub_id, error) from error


def not_fetched(hub_id: str, error: Exception) -> WeightsError:
    """Return what the user is told when the hub does not give a repository."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return WeightsError(
        f"--weights={hub_id} is no local folder and could not be fetched from the Hugging Face hub: {reason}. "
        f"Check the name and the network, or give a local folder."
    )


def _on_disk(repository: Path) -> str | None:
    """Return the commit that `main` was when it was fetched, or the only one that is there."""
    snapshots = [path.name for path in (repository / "snapshots").glob("*") if path.is_dir()]
    main = repository / "refs" / "main"
    commit = main.read_text(encoding="utf-8").strip() if main.is_file() else ""
    if commit in snapshots:
        return commit
    return snapshots[0] if len(snapshots) == 1 else None
