"""snellen features extract, import"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from snellen.cli import options as given
from snellen.cli.console import note, redraw, show_json
from snellen.cli.features.shared import AsJson, Images, TorchThreads, group
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.store.format import StoreMeta

STORED, SPEED = "What is stored", "Speed"


@group.command()
def extract(
    encoder: Annotated[
        str,
        typer.Option(
            metavar="hf:NAME|FOLDER|embedded|timm:NAME|open_clip:NAME/WEIGHTS",
            help="What encodes: a vision model, or the tower of a vision-language model.",
        ),
    ],
    split: Annotated[
        list[str],
        typer.Option(
            metavar="[NAME=]FILE",
            help="CSV of path,label without a header, named train.csv or NAME=FILE; may be repeated.",
        ),
    ],
    images: Images,
    out: Annotated[Path, typer.Option(help="Folder to write. One that was begun is gone on with.")],
    outputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="By comma: cls, patch_mean, each also _lastN; embedding; of a VLM projector_input and aligned.",
            show_default="cls (where there is one), patch_mean, aligned (of a VLM)",
            rich_help_panel=STORED,
        ),
    ] = None,
    dtype: Annotated[
        Literal["float32", "float16"], typer.Option(help="What values are stored as.", rich_help_panel=STORED)
    ] = "float32",
    allow_missing: Annotated[
        bool,
        typer.Option(
            "--allow-missing",
            help="Go on without pictures that are not there or cannot be read; each is listed in store.json.",
            rich_help_panel=STORED,
        ),
    ] = False,
    revision: Annotated[str | None, typer.Option(help="Revision of a hub repository.")] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Pictures encoded at once.", rich_help_panel=SPEED)] = 64,
    compute: Annotated[
        Literal["auto", "float32", "bfloat16", "float16"],
        typer.Option(help="Precision of the encoder.", rich_help_panel=SPEED),
    ] = "auto",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N, mps.", rich_help_panel=SPEED)] = "auto",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Threads that decode.", show_default="one a processor", rich_help_panel=SPEED),
    ] = None,
    threads: TorchThreads = None,
    nproc: given.Nproc = None,
    ray: given.Ray = None,
    as_json: AsJson = False,
) -> None:
    """Encode the pictures of one or more splits into a store of features.

    The transform is the encoder's own, the same for every split. A killed extraction is gone on with by the same
    command; a picture that cannot be read ends it, unless --allow-missing.
    """
    from snellen.features.encoders import open_encoder
    from snellen.features.extract import extract as run
    from snellen.features.extract.threads import torch_threads

    names = None if outputs is None else comma_list(outputs)
    extracted = partial(
        run,
        splits=split,
        images=images,
        out=out,
        dtype=dtype,
        batch_size=batch_size,
        workers=workers,
        allow_missing=allow_missing,
        progress=_progress(),
    )
    if ray is None and nproc in (None, 1):
        opened = open_encoder(encoder, names, device=device, compute=compute, revision=revision)
        with torch_threads(opened, batch_size, threads):
            meta = extracted(opened)
    else:
        from snellen.features.extract.ray import RayEncoder

        if threads is not None:
            raise UsageError(
                f"--threads {threads} is for one process; workers share the processors of their host evenly.",
                "Leave --threads away.",
            )
        far = RayEncoder(encoder, names, device=device, compute=compute, revision=revision, nproc=nproc, ray=ray)
        with far:
            meta = extracted(far)
    _stored(out, meta, as_json)


@group.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=".npz or .parquet with features and labels.")],
    out: Annotated[Path | None, typer.Option(help="Folder to write.", show_default="FILE without its ending")] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=NAME",
            help="Which array is the features, labels, split, ids or class_names, where no usual name says so.",
        ),
    ] = None,
    output: Annotated[str, typer.Option(metavar="NAME", help="What the store calls the array.")] = "features",
    dtype: Annotated[
        Literal["auto", "float16", "float32", "float64"],
        typer.Option(help="What values are stored as; auto keeps every value what it is."),
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a store of features and labels that somebody else extracted.

    Arrays are found by their usual names: features, embeddings, feats, X or data; labels, label, y or target; split;
    ids; class_names; or one a split, as train_features and test_labels. Labels may be integers with gaps, texts,
    "3 17" for several, or rows of 0 and 1.
    """
    from snellen.features.store.format import read_meta
    from snellen.features.store.importers import import_file

    keys = {}
    for one in key or []:
        role, sign, name = one.partition("=")
        if not sign or not name:
            raise UsageError(f"--key {one}: ROLE=NAME was expected", "For example --key features=emb.")
        keys[role] = name
    folder = import_file(file, file.with_suffix("") if out is None else out, dtype=dtype, output=output, keys=keys)
    _stored(folder, read_meta(folder), as_json)


def _stored(path: Path, meta: StoreMeta, as_json: bool) -> None:
    """Say what is in a store now."""
    from snellen.features.store import open_store

    splits = open_store(path).splits
    told = list(meta.notes)
    if meta.missing:
        told.append(f"{len(meta.missing):,} pictures could not be read; the first: {meta.missing[0].reason}")
    if as_json:
        show_json(
            {
                "store": str(path),
                "rows": meta.rows,
                "missing": len(meta.missing),
                "splits": splits,
                "classes": len(meta.classes),
                "several_labels": meta.several,
                "outputs": {name: {"width": one.width, "dtype": one.dtype} for name, one in meta.outputs.items()},
                "fingerprint": meta.fingerprint,
                "notes": told,
            }
        )
        return
    parts = ", ".join(f"{name or 'rows'} {count:,}" for name, count in splits.items())
    arrays = ", ".join(f"{name} {one.width:,} {one.dtype}" for name, one in meta.outputs.items())
    print(f"{path}: {parts}; {len(meta.classes):,} classes; {arrays}")
    for line in told:
        note(f"note: {line}")


def _progress() -> Callable[[int, int], None] | None:
    """Rows done, on a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None
    began, before = time.monotonic(), [-1]

    def shown(done: int, total: int) -> None:
        if before[0] < 0:
            before[0] = done
        rate = (done - before[0]) / max(time.monotonic() - began, 1e-9)
        end = "\n" if done == total else ""
        redraw(f"{done:,} of {total:,} pictures, {rate:,.0f} a second {end}")

    return shown
