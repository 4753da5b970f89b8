"""snellen features extract, import"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.console import note, print_notes, redraw, show_json
from snellen.cli.features.shared import BatchSize, Device, Encoder, Images, Precision, TorchThreads, group
from snellen.cli.option_parsing import REQUIRED, argument, option
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.store.format import StoreMeta

STORED, SPEED = "Stored values", "Speed"


@dataclass(frozen=True)
class StoredOptions:
    """Outputs and values of a store."""

    PANEL: ClassVar[str] = STORED

    outputs: str | None = option(
        "Outputs, separated by commas: cls, patch_mean, each also with _lastN; embedding; for a VLM projector_input "
        "and aligned.",
        value="NAMES",
        said="cls (if there is one), patch_mean, aligned (of a VLM)",
    )
    dtype: Literal["float32", "float16"] = option("Type of the stored values.", "float32")
    tokens: bool = option(
        "Store the patch tokens of the last block too, for attentive probes; their size is printed first.", False
    )
    tokens_dtype: Literal["float16", "float32"] = option("Type of the stored patch tokens.", "float16")
    allow_missing: bool = option("Skip images that are missing or unreadable; store.json lists them.", False)


@dataclass(frozen=True)
class SpeedOptions:
    """Batch size, precision, device and threads."""

    PANEL: ClassVar[str] = SPEED

    batch_size: BatchSize = 64
    compute: Precision = "auto"
    device: Device = "auto"
    workers: int | None = option("Number of decoding threads.", said="one per processor", least=1)
    threads: TorchThreads = None


@group.command()
def extract(
    encoder: Encoder = REQUIRED,
    *,
    split: list[str] = option(
        "CSV of path,label without a header, named train.csv or NAME=FILE; may be repeated.",
        REQUIRED,
        value="[NAME=]FILE",
    ),
    images: Images,
    out: Path = option("Folder to write; an unfinished one is resumed.", REQUIRED),
    stored: StoredOptions,
    revision: str | None = option("Revision of a hub repository."),
    speed: SpeedOptions,
    scale: shared.WorkerOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Encode the images of one or more splits into a feature store.

    The transform is the encoder's own, the same for every split. The same command resumes an interrupted extraction. An
    unreadable image stops it, unless --allow-missing is set.
    """
    from snellen.features.encoders import open_encoder
    from snellen.features.extract import extract as extract_features
    from snellen.features.extract.loop import torch_threads

    names = None if stored.outputs is None else comma_list(stored.outputs)
    extract_with = partial(
        extract_features,
        splits=split,
        images=images,
        out=out,
        dtype=stored.dtype,
        batch_size=speed.batch_size,
        workers=speed.workers,
        allow_missing=stored.allow_missing,
        progress=_progress(),
        tokens_dtype=stored.tokens_dtype,
        announce=note,
    )
    if scale.ray is None and scale.nproc in (None, 1):
        local = open_encoder(
            encoder, names, device=speed.device, compute=speed.compute, revision=revision, tokens=stored.tokens
        )
        with torch_threads(local, speed.batch_size, speed.threads):
            meta = extract_with(local)
    else:
        from snellen.features.extract.ray import RayEncoder

        if speed.threads is not None:
            raise UsageError(
                f"--threads {speed.threads} is for one process; workers share the processors of their host evenly.",
                "Omit --threads.",
            )
        scattered = RayEncoder(
            encoder,
            names,
            device=speed.device,
            compute=speed.compute,
            revision=revision,
            tokens=stored.tokens,
            nproc=scale.nproc,
            ray=scale.ray,
        )
        with scattered:
            meta = extract_with(scattered)
    _show_store(out, meta, as_json)


@group.command("import")
def import_(
    file: Path = argument(
        ".npz, .npy, .pt, .safetensors, .h5 or .parquet with features and labels, or WebDataset shards: "
        "'NAME-{000..009}.tar'.",
        value="FILE",
    ),
    out: Path | None = option("Folder to write.", said="FILE without its ending"),
    key: list[str] | None = option(
        "Array of the features, labels, split, ids or class_names, if it has no usual name.", value="ROLE=NAME"
    ),
    labels: Path | None = option(
        "Labels of the same rows, if FILE has none: .npy, .csv, .txt of one a line, or a format of FILE.", value="FILE"
    ),
    output: str = option("Name of the array in the store.", "features", value="NAME"),
    dtype: Literal["auto", "float16", "float32", "float64"] = option(
        "Type of the stored values; auto keeps every value unchanged.", "auto"
    ),
    as_json: shared.JsonResult = False,
) -> None:
    """Make a store from features and labels of another program.

    Arrays are recognised by their usual names: features, embeddings, feats, X or data; labels, label, y or target; split;
    ids; class_names; or one per split, as train_features and test_labels. Labels may be integers with gaps, texts,
    "3 17" for several, or rows of 0 and 1.
    """
    from snellen.features.store.format import read_meta
    from snellen.features.store.importers import import_file

    keys = {}
    for text in key or []:
        role, sign, name = text.partition("=")
        if not sign or not name:
            raise UsageError(f"--key {text}: ROLE=NAME was expected", "Example: --key features=emb.")
        keys[role] = name
    if out is None and "{" in file.name:
        raise UsageError(f"{file}: shards have no name of their own.", "Name the folder to write: --out FOLDER.")
    folder = file.with_suffix("") if out is None else out
    import_file(file, folder, dtype=dtype, output=output, keys=keys, labels=labels)
    _show_store(folder, read_meta(folder), as_json)


def _show_store(path: Path, meta: StoreMeta, as_json: bool) -> None:
    """Print the content of a store."""
    from snellen.features.store import open_store

    splits = open_store(path).splits
    tokens = meta.patch_tokens or None
    notes = list(meta.notes)
    if meta.missing:
        notes.append(f"{len(meta.missing):,} images could not be read; the first: {meta.missing[0].reason}")
    if as_json:
        show_json(
            {
                "store": str(path),
                "rows": meta.rows,
                "missing": len(meta.missing),
                "splits": splits,
                "classes": len(meta.classes),
                "several_labels": meta.several,
                "outputs": {name: {"width": array.width, "dtype": array.dtype} for name, array in meta.outputs.items()},
                **(
                    {"patch_tokens": {key: getattr(tokens, key) for key in ("tokens", "width", "dtype")}}
                    if tokens
                    else {}
                ),
                "fingerprint": meta.fingerprint,
                "notes": notes,
            }
        )
        return
    parts = ", ".join(f"{name or 'rows'} {count:,}" for name, count in splits.items())
    arrays = ", ".join(f"{name} {array.width:,} {array.dtype}" for name, array in meta.outputs.items())
    if tokens:
        arrays += f", patch_tokens {tokens.tokens:,} x {tokens.width:,} {tokens.dtype}"
    print(f"{path}: {parts}; {len(meta.classes):,} classes; {arrays}")
    print_notes(notes)


def _progress() -> Callable[[int, int], None] | None:
    """Return a progress callback (rows done, rows in total) on a terminal, else None."""
    if not sys.stderr.isatty():
        return None
    start, resumed_at = time.monotonic(), [-1]

    def draw(done: int, total: int) -> None:
        if resumed_at[0] < 0:
            resumed_at[0] = done
        rate = (done - resumed_at[0]) / max(time.monotonic() - start, 1e-9)
        end = "\n" if done == total else ""
        redraw(f"{done:,} of {total:,} images, {rate:,.0f} per second {end}")

    return draw
