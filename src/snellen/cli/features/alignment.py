"""snellen features alignment"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from snellen.cli.features.shared import AsJson, group, of_store, tell
from snellen.errors import UsageError
from snellen.text import comma_list
from snellen.types import Metric

if TYPE_CHECKING:
    from snellen.features.encoders.families import FamilyRow
    from snellen.features.store import Features

BOTH = ("projector_input", "aligned")
MODEL, TABLES = "Extract first", "Tables"


@group.command()
def alignment(
    stores: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="STORE",
            help="RAW ALIGNED [MATCHED], or one store that holds raw and aligned outputs.",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Output of each stage, by comma.",
            show_default="projector_input (else the first), then aligned (else the first)",
        ),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Every STORE is a data set of its own and holds raw and aligned outputs.")
    ] = False,
    cross: Annotated[
        bool, typer.Option("--cross", help="One probe over the classes of all STOREs, beside each one's own.")
    ] = False,
    tables: Annotated[
        bool,
        typer.Option(
            "--tables",
            help="A probe on each STORE; means by paradigm, data scale and encoder scale.",
            rich_help_panel=TABLES,
        ),
    ] = False,
    towers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Towers of your own, as in families.toml.", rich_help_panel=TABLES),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="hf:NAME|FOLDER", help="A vision-language model to extract.", rich_help_panel=MODEL),
    ] = None,
    matched_model: Annotated[
        str | None,
        typer.Option(
            metavar="hf:NAME|FOLDER", help="The same with a granularity-matched projector.", rich_help_panel=MODEL
        ),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="CSV of path,label: train and test.", rich_help_panel=MODEL),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Where the paths lie.", rich_help_panel=MODEL)] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Store to write; that of the matched model is OUT-matched.", rich_help_panel=MODEL),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N, mps.", rich_help_panel=MODEL)] = "auto",
    method: Annotated[
        Literal["logistic", "ridge", "lda"], typer.Option(help="The probe, the same at every stage.")
    ] = "logistic",
    standardise: Annotated[
        Literal["none", "l2", "standardise"], typer.Option(help="What is done to features first.")
    ] = "standardise",
    seed: Annotated[int, typer.Option(help="Of the rows held out.")] = 0,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Compare stages of different encoders too; the table says what was compared."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """What the projector of a vision-language model loses: the same probe before and behind it, paired by picture."""
    from msgspec import to_builtins

    from snellen.features.alignment import alignment as diagnose
    from snellen.features.alignment import cross_meta, distinct_names
    from snellen.features.store import open_store

    given = list(stores or [])
    if each + cross + tables + (model is not None) > 1:
        raise UsageError("--each, --cross, --tables and --model exclude each other.", "Give one of them.")
    if model is None and any(one is not None for one in (matched_model, split, images, out)):
        raise UsageError("--matched-model, --split, --images and --out are of --model.", "Name one with --model.")
    if anyway and (tables or cross):
        raise UsageError("--anyway is about stages; --tables and --cross have none.", "Omit it.")
    if towers is not None and not tables:
        raise UsageError("--towers is of --tables.", "Add --tables.")
    if (tables or cross) and len((outputs or "").split(",")) > 1:
        raise UsageError("--tables and --cross take one output.", "Name one with --outputs.")
    how: dict[str, Any] = {"method": method, "standardise": standardise, "seed": seed}
    names = comma_list(outputs)
    if model is not None:
        if given or not split or images is None or out is None:
            raise UsageError("--model needs --split, --images and --out, and no STORE.", "Give these.")
        given = _extracted([model, matched_model], split, images, out, device)
    if not given:
        raise UsageError("no store is named.", "snellen features alignment RAW ALIGNED, or --model.")
    settings: dict[str, Any] = {"stores": [str(one) for one in given], **how}
    if tables:
        metrics, notes = _tables([open_store(one, names[0] if names else None) for one in given], towers, how)
    elif cross:
        opened = [open_store(one, names[0] if names else None) for one in given]
        merged = cross_meta(opened, **how)
        metrics, notes = merged.metrics(), [*merged.probe_notes, *(line for one in opened for line in of_store(one))]
    else:
        metrics, notes = [], []
        apart = distinct_names([open_store(one) for one in given]) if each else ("",)
        for called, group_ in zip(apart, [[one] for one in given] if each else [given], strict=True):
            stages = _stages(group_, names)
            settings["outputs"] = [one.name for one in stages]
            found = diagnose(*stages, name=called, anyway=anyway, **how)
            probes = {stage: to_builtins(one) for stage, one in found.settings.items()}
            settings["probes"] = {**settings.get("probes", {}), found.name: probes} if as_json else None
            metrics += found.metrics(f"{found.name}/" if each else "")
            notes += [*found.notes(), *(line for one in stages for line in of_store(one))]
    tell(given[0], "alignment", settings, metrics, list(dict.fromkeys(notes)), as_json)


def _stages(stores: Sequence[Path], names: Sequence[str]) -> list[Features]:
    """Raw, aligned and, where there is a third store, matched features."""
    from snellen.features.store import open_store, store_outputs

    if len(stores) > 3:
        raise UsageError(f"{len(stores)} stores; RAW ALIGNED [MATCHED] was expected.", "Or add --each, or --cross.")
    places = [stores[0], stores[0]] if len(stores) == 1 else list(stores)
    if names and len(names) != len(places):
        raise UsageError(f"{len(names)} outputs for {len(places)} stages.", "Name one a stage with --outputs.")
    found = []
    for stage, place in enumerate(places):
        wanted = names[stage] if names else BOTH[min(stage, 1)]
        there = store_outputs(place)
        if not names and wanted not in there:
            if len(stores) == 1:
                raise UsageError(
                    f"{place} has no output {wanted!r}; it has: {', '.join(there)}",
                    "Extract with --outputs projector_input,aligned, or name two with --outputs.",
                )
            wanted = next(iter(there))
        found.append(open_store(place, wanted))
    return found


def _extracted(models: Sequence[str | None], split: Sequence[str], images: Path, out: Path, device: str) -> list[Path]:
    """Stores RAW ALIGNED [MATCHED] of the models: raw and aligned lie in the same one."""
    from snellen.features.encoders import open_encoder
    from snellen.features.extract import extract

    folders: list[Path] = []
    for name in models:
        if name is not None:
            folder = out.with_name(f"{out.name}-matched") if folders else out
            extract(open_encoder(name, BOTH, device=device), list(split), images, folder)
            folders.append(folder)
    return [out, out, *folders[1:]]


def _tables(stores: Sequence[Features], own: Path | None, how: dict[str, Any]) -> tuple[list[Metric], list[str]]:
    from msgspec import structs

    from snellen.features.encoders import families as towers
    from snellen.features.probes import probe
    from snellen.features.store import TEST, TRAIN

    known = towers.read_towers(own)
    cells = [_origin(one) for one in stores]
    if twice := next((cell for cell in cells if cells.count(cell) > 1), None):
        raise UsageError(
            f"two stores are of the encoder {twice[0]} and the data set {twice[1]}: a table has one cell for them.",
            "Name one of the two.",
        )
    accuracies, metrics, notes = [], [], []
    for one, (name, dataset) in zip(stores, cells, strict=True):
        if one.labels.many is not None:
            raise UsageError(f"{one.path}: rows have several labels.", "The tables take one class a row.")
        found = probe(one.values, one.labels, train_rows=TRAIN, test_rows=TEST, split=one.split, **how)
        (whole,) = [metric for metric in found.metrics() if metric.name == "accuracy"]
        metrics.append(structs.replace(whole, name=f"accuracy/{name}/{dataset}"))
        accuracies.append(towers.Accuracy(name, dataset, float(found.correct.mean())))
        notes += [*of_store(one), *(f"{name}, {dataset}: {line}" for line in found.notes())]
    for table, rows in (
        ("paradigm", towers.by_paradigm(accuracies, known)),
        ("data_scale", towers.by_data_scale(accuracies, known)),
        ("encoder_scale", towers.by_encoder_scale(accuracies, known)),
    ):
        metrics += [one for row in rows for one in _cells(table, row)]
        if rows:  # all rows of a table are over the same data sets
            over = ", ".join(rows[0].datasets)
            notes.append(
                f"Means by {table}: " + (f"over {over}." if over else "none, as no data set has every encoder.")
            )
    if missing := towers.untagged(accuracies, known):
        notes.append(f"Not in the tables by paradigm and data scale, as no tower matches: {', '.join(missing)}.")
    notes.append("Encoders of a group differ in more than their group: means side by side show no cause.")
    return metrics, notes


def _cells(table: str, row: FamilyRow) -> list[Metric]:
    cells = [Metric(f"{table}/{row.group}", row.mean, len(row.encoders), coverage=1.0 if row.datasets else 0.0)]
    if row.without is not None:
        cells.append(Metric(f"{table}/{row.group}/others", row.without, len(row.others)))
    if row.parameters is not None:
        cells.append(
            Metric(f"{table}/{row.group}/parameters", row.parameters, len(row.encoders), unit="million parameters")
        )
    return cells


def _origin(features: Features) -> tuple[str, str]:
    """(encoder, data set) of a store: who extracted it, and the folder of its csv files; else its own name."""
    origin = features.meta.origin if features.meta is not None else {}
    folder = features.path.name if features.path is not None else features.name
    splits = origin.get("splits") or []
    dataset = Path(str(splits[0]).rpartition("=")[2]).resolve().parent.name if splits else folder
    return str(origin.get("encoder") or folder), dataset or folder
