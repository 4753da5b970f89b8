"""snellen features extract, import"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.console import note, redraw, show_json
from snellen.cli.features.shared import Images, TorchThreads, group
from snellen.cli.option_parsing import expand_options
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.store.format import StoreMeta

STORED, SPEED = "Stored values", "Speed"


@dataclass(frozen=True)
class StoredOptions:
    """Outputs and values of a store."""

    PANEL: ClassVar[str] = STORED

    outputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Outputs, separated by commas: cls, patch_mean, each also with _lastN; embedding; for a VLM projector_input "
            "and aligned.",
            show_default="cls (if there is one), patch_mean, aligned (of a VLM)",
        ),
    ] = None
    dtype: Annotated[Literal["float32", "float16"], typer.Option(help="Type of the stored values.")] = "float32"
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            help="Store the patch tokens of the last block too, for attentive probes; their size is printed first.",
        ),
    ] = False
    tokens_dtype: Annotated[Literal["float16", "float32"], typer.Option(help="Type of the stored patch tokens.")] = (
        "float16"
    )
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Skip images that are missing or unreadable; store.json lists them.")
    ] = False


@dataclass(frozen=True)
class SpeedOptions:
    """Batch size, precision, device and threads."""

    PANEL: ClassVar[str] = SPEED

    batch_size: Annotated[int, typer.Option(min=1, help="Images per batch.")] = 64
    compute: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"], typer.Option(help="Precision of the encoder.")
    ] = "auto"
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto"
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of decoding threads.", show_default="one per processor")
    ] = None
    threads: TorchThreads = None


@group.command()
@expand_options
def extract(
    encoder: Annotated[
        str,
        typer.Option(
            metavar="hf:NAME|FOLDER|embedded|timm:NAME|open_clip:NAME/WEIGHTS",
            help="A vision model, or a vision-language model, whose vision tower is used.",
        ),
    ],
    *,
    split: Annotated[
        list[str],
        typer.Option(
            metavar="[NAME=]FILE",
            help="CSV of path,label without a header, named train.csv or NAME=FILE; may be repeated.",
        ),
    ],
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder to write; an unfinished one is resumed.")],
    stored: StoredOptions,
    revision: Annotated[str | None, typer.Option(help="Revision of a hub repository.")] = None,
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
@expand_options
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=".npz or .parquet with features and labels.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write.", show_default="FILE without its ending")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="Array of the features, labels, split, ids or class_names, if it has no usual name.",
        ),
    ] = None,
    output: Annotated[str, typer.Option(metavar="NAME", help="Name of the array in the store.")] = "features",
    dtype: Annotated[
        Literal["auto", "float16", "float32", "float64"],
        typer.Option(help="Type of the stored values; auto keeps every value unchanged."),
    ] = "auto",
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
    for option in key or []:
        role, sign, name = option.partition("=")
        if not sign or not name:
            raise UsageError(f"--key {option}: ROLE=NAME was expected", "Example: --key features=emb.")
        keys[role] = name
    folder = import_file(file, file.with_suffix("") if out is None else out, dtype=dtype, output=output, keys=keys)
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
    for line in notes:
        note(f"note: {line}")


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
