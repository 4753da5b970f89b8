"""`snellen features`: extract or import features of pictures, and measure what they tell apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from snellen.cli import options as given
from snellen.cli.output import note, show, show_json
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.features.layout import StoreMeta
    from snellen.features.store import Features
    from snellen.types import Metric

STORED, SPEED = "What is stored", "Speed"

group = typer.Typer(
    help="Extract or import features of pictures, and measure what they tell apart.", no_args_is_help=True
)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="Folder of the features.")]
Output = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which output of the store.", show_default="its first")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=given.SHOWING)]


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
    images: Annotated[Path, typer.Option(help="Folder, zip or tar that the paths lie under.")],
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
    as_json: AsJson = False,
) -> None:
    """Encode the pictures of one or more splits into a store of features.

    The transform is the encoder's own, the same for every split. A killed extraction is gone on with by the same
    command; a picture that cannot be read ends it, unless --allow-missing.
    """
    from snellen.features.encoders import open_encoder
    from snellen.features.extract import extract as run

    names = None if outputs is None else [one.strip() for one in outputs.split(",") if one.strip()]
    opened = open_encoder(encoder, names, device=device, compute=compute, revision=revision)
    meta = run(
        opened,
        split,
        images,
        out,
        dtype=dtype,
        batch_size=batch_size,
        workers=workers,
        allow_missing=allow_missing,
        progress=_progress(),
    )
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
    from snellen.features.importing import import_file
    from snellen.features.layout import read_meta

    keys = {}
    for one in key or []:
        role, sign, name = one.partition("=")
        if not sign or not name:
            raise UsageError(f"--key {one}: ROLE=NAME was expected", "For example --key features=emb.")
        keys[role] = name
    folder = import_file(file, file.with_suffix("") if out is None else out, dtype=dtype, output=output, keys=keys)
    _stored(folder, read_meta(folder), as_json)


@group.command()
def retrieval(
    store: Store,
    output: Output = None,
    queries: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Rows that ask.", show_default="test, else all")
    ] = None,
    gallery: Annotated[
        str | None,
        typer.Option(metavar="SPLIT", help="Rows that are searched.", show_default="train, else those that ask"),
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Each row asks all others: of --queries, or of the store."),
    ] = False,
    similarity: Annotated[Literal["cosine", "l2"], typer.Option(help="How near two features are.")] = "cosine",
    ties: Annotated[
        Literal["pessimistic", "optimistic", "index"],
        typer.Option(help="Which comes first among items that are equally near."),
    ] = "pessimistic",
    k: Annotated[str, typer.Option("--k", metavar="LIST", help="Depths of recall@k, precision@k and map@k.")] = (
        "1,5,10"
    ),
    ap: Annotated[Literal["step", "trapezoid"], typer.Option(help="Average precision of the full ranking.")] = "step",
    denominator: Annotated[
        Literal["R", "min(R,k)", "retrieved", "hits"], typer.Option(help="What map@k is divided by.")
    ] = "min(R,k)",
    interval: Annotated[
        Literal["class", "query"],
        typer.Option(help="What might have been drawn otherwise: whole classes, or queries of the same classes."),
    ] = "class",
    threads: Annotated[int | None, typer.Option(min=1, help="Threads.", show_default="one a core")] = None,
    as_json: AsJson = False,
) -> None:
    """How early pictures of the same class come when a gallery is sorted by similarity: exact, over all of it.

    Where a store has the splits train and test, test asks and train is searched; else each row asks all others.
    """
    from msgspec import to_builtins

    from snellen.features.retrieval import retrieval as measure
    from snellen.features.store import open_store

    features = open_store(store, output)
    asking, searched = _protocol(features, queries, gallery, leave_one_out)
    found = measure(
        features.values,
        features.labels,
        queries=asking,
        gallery=searched,
        split=features.split,
        similarity=similarity,
        ties=ties,
        ks=_numbers(k, "--k"),
        ap=ap,
        denominator=denominator,
        threads=threads,
    )
    settings = {
        "output": features.name,
        "queries": asking or "all rows",
        "gallery": searched or "all rows",
        **to_builtins(found.settings),
        "skipped_queries": found.skipped,
        "skipped_classes": found.skipped_classes,
        "interval": interval,
    }
    tell(store, "retrieval", settings, found.metrics(interval), [*of_store(features), *found.notes()], as_json)


def tell(
    store: Path,
    measure: str,
    settings: Mapping[str, Any],
    metrics: Iterable[Metric],
    notes: Iterable[str],
    as_json: bool,
) -> None:
    """Show what a measure found: one JSON object, or a table with the settings above and the notes below it."""
    metrics, notes = list(metrics), list(notes)
    if as_json:
        show_json(
            {
                "store": str(store),
                "measure": measure,
                "settings": dict(settings),
                "metrics": metrics,
                "notes": notes,
            }
        )
        return
    from rich.table import Table

    table = Table(title=f"{measure} · {store}", title_justify="left")
    for heading in ("metric", "value", "95 % interval", "n", "coverage", "chance"):
        table.add_column(heading, justify="left" if heading == "metric" else "right", no_wrap=True)
    for one in metrics:
        table.add_row(
            one.name,
            "–" if one.value is None else f"{one.value:.4f}" + ("" if one.unit == "fraction" else f" {one.unit}"),
            "" if one.ci95 is None else f"{one.ci95[0]:.4f} – {one.ci95[1]:.4f}",
            f"{one.n:,}",
            f"{one.coverage:.1%}",
            "" if one.chance is None else f"{one.chance:.4f}",
        )
    show(table)
    note("; ".join(f"{name}: {value}" for name, value in settings.items() if value not in (None, "", [])))
    for line in notes:
        note(f"note: {line}")


def of_store(features: Features) -> list[str]:
    """What a reader of any number over this store has to know."""
    meta = features.meta
    if meta is None:
        return []
    told = list(meta.notes)
    if meta.missing:
        told.append(
            f"{len(meta.missing):,} of {meta.rows + len(meta.missing):,} pictures could not be read and are in no "
            "number; store.json lists them"
        )
    return told


def _protocol(
    features: Features, queries: str | None, gallery: str | None, leave_one_out: bool
) -> tuple[str | None, str | None]:
    """(queries, gallery) as names of splits; None for all rows."""
    if leave_one_out:
        if gallery not in (None, queries):
            raise UsageError("--leave-one-out searches the rows that ask.", "Leave --gallery away.")
        return queries, queries
    if queries is None and gallery is None and {"train", "test"} <= features.splits.keys():
        return "test", "train"
    return queries, queries if gallery is None else gallery


def _numbers(text: str, option: str) -> list[int]:
    try:
        return [int(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise UsageError(f"{option} {text}: whole numbers by comma were expected", f"As in {option} 1,5,10.") from None


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


def _progress() -> Any:
    """Rows done, on a terminal; None elsewhere."""
    import sys
    import time

    if not sys.stderr.isatty():
        return None
    began, before = time.monotonic(), [-1]

    def shown(done: int, total: int) -> None:
        if before[0] < 0:
            before[0] = done
        rate = (done - before[0]) / max(time.monotonic() - began, 1e-9)
        end = "\n" if done == total else ""
        print(f"\r{done:,} of {total:,} pictures, {rate:,.0f} a second ", end=end, file=sys.stderr, flush=True)

    return shown
