"""Data locations: folders or VLMEvalKit tables under --dataset-dir, else the hub."""

from __future__ import annotations

from pathlib import Path

from snellen.benchmarks.spatial.sources.find_files import VARIANT
from snellen.benchmarks.spatial.tasks import MORE
from snellen.easi.names import plain, task_of
from snellen.errors import UsageError
from snellen.sources.hub import HUB


def data_of(name: str, folder: Path | None) -> Path:
    """Return the data of a benchmark: a path, or `hf:OWNER/NAME` if the folder does not have it.

    A folder is looked for by our name, EASI's key and the data set's own name (`vsi-bench`, `vsi_bench`, `VSI-Bench`), a
    table by VLMEvalKit's data name with and without its variant (`VSI-Bench_32frame.tsv`, `VSI-Bench.tsv`). SITE has two
    tables; the folder that holds both of them is given.

    Raises:
        UsageError: `folder` is no folder.
    """
    task, part = task_of(name)
    hub = Path(f"{HUB}{task.hub}")
    if folder is None:
        return hub
    if not folder.is_dir():
        raise UsageError(f"--dataset-dir {folder}: there is no such folder", "Create it, or omit the option.")
    entries = sorted(folder.iterdir())
    folders = {plain(entry.name): entry for entry in entries if entry.is_dir()}
    for spelled in (task.name, task.id, task.hub.rpartition("/")[2]):  # VSI-Debiased lies in VSI-Bench's own folder too
        if (match := folders.get(plain(spelled))) is not None:
            return match
    files = {entry.name.lower(): entry for entry in entries if entry.is_file()}
    kits = [kit.strip() for kit in task.kit.split(",")]
    if part:
        kits = [kit for kit in kits if part in kit.lower()]
    tables = [table for kit in kits if (table := _table(kit, files)) is not None]
    if not tables or (len(tables) < len(kits) and name not in MORE):  # a further benchmark may have some of its tables
        return hub
    return tables[0] if len(tables) == 1 else folder


def on_hub(data: Path) -> bool:
    """Return True for data on the hub."""
    return str(data).startswith(HUB)


def _table(kit: str, files: dict[str, Path]) -> Path | None:
    for stem in (kit, VARIANT.sub("", kit)):
        if (match := files.get(f"{stem}.tsv".lower())) is not None:
            return match
    return None
