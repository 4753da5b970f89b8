"""snellen features alignment"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from snellen.cli import options as shared
from snellen.cli.features.shared import Device, Preprocessing, group, show_result, store_notes
from snellen.cli.option_parsing import argument, option
from snellen.errors import UsageError
from snellen.text import comma_list
from snellen.types import Metric

if TYPE_CHECKING:
    from snellen.features.encoders.families import FamilyRow
    from snellen.features.published import PublishedFigure, PublishedMeasure
    from snellen.features.store import Features

BOTH = ("projector_input", "aligned")
# Figure of images with several labels in the tables: the area under the ROC curve, a mean over labels.
MULTI_LABEL = "auroc"
MODEL, TABLES = "Extract first", "Tables"


@dataclass(frozen=True)
class ComparisonOptions:
    """Stores to compare, and how."""

    outputs: str | None = option(
        "Output of each stage, separated by commas.",
        value="NAMES",
        said="projector_input (else the first), then aligned (else the first)",
    )
    each: bool = option("Treat each STORE as a separate data set with raw and aligned outputs.", False)
    cross: bool = option("Compare one probe over the classes of all STOREs with a probe per STORE.", False)
    anyway: bool = option("Compare stages of different encoders as well; the table names them.", False)


@dataclass(frozen=True)
class AlignmentTableOptions:
    """Tables by paradigm and scale."""

    PANEL: ClassVar[str] = TABLES

    tables: bool = option("Train a probe per STORE; average by paradigm, data scale and encoder scale.", False)
    towers: Path | None = option("Your own towers, in the format of families.toml.", value="FILE")


@dataclass(frozen=True)
class ExtractionOptions:
    """A model to extract before the comparison."""

    PANEL: ClassVar[str] = MODEL

    model: str | None = option("A vision-language model to extract.", value="hf:NAME|FOLDER")
    matched_model: str | None = option("The same model with a granularity-matched projector.", value="hf:NAME|FOLDER")
    split: list[str] | None = option("CSV of path,label: train and test.", value="[NAME=]FILE")
    images: Path | None = option("Folder, zip or tar of the images.")
    out: Path | None = option("Store to write; the matched model's is OUT-matched.")
    device: Device = "auto"


@dataclass(frozen=True)
class ProbingOptions:
    """The probe of every stage."""

    method: Literal["logistic", "ridge", "lda"] = option("Probe of every stage.", "logistic")
    standardise: Preprocessing = "standardise"
    seed: int = option("Seed of the held-out rows.", 0)


@group.command()
def alignment(
    stores: list[Path] | None = argument(
        "RAW ALIGNED [MATCHED], or one store with raw and aligned outputs.", None, value="STORE"
    ),
    *,
    comparison: ComparisonOptions,
    averages: AlignmentTableOptions,
    extraction: ExtractionOptions,
    probing: ProbingOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Measure what the projector of a vision-language model loses: the same probe before and after it, paired by image."""
    from msgspec import to_builtins

    from snellen.features.alignment import alignment as compare_stages
    from snellen.features.alignment import cross_meta, distinct_names
    from snellen.features.store import open_store

    paths = list(stores or [])
    _check(comparison, averages, extraction)
    probe: dict[str, Any] = {"method": probing.method, "standardise": probing.standardise, "seed": probing.seed}
    names = comma_list(comparison.outputs)
    output = names[0] if names else None
    if extraction.model is not None:
        if paths:
            raise UsageError("--model takes no STORE.", "Omit the stores.")
        paths = _extracted(extraction)
    if not paths:
        raise UsageError("no store is named.", "Example: snellen features alignment RAW ALIGNED; or use --model.")
    settings: dict[str, Any] = {"stores": [str(path) for path in paths], **probe}
    if averages.tables:
        metrics, notes = _tables([open_store(path, output) for path in paths], averages.towers, probe)
    elif comparison.cross:
        features = [open_store(path, output) for path in paths]
        merged = cross_meta(features, **probe)
        metrics = merged.metrics()
        notes = [*merged.probe_notes, *(line for store in features for line in store_notes(store))]
    else:
        metrics, notes = [], []
        titles = distinct_names([open_store(path) for path in paths]) if comparison.each else ("",)
        groups = [[path] for path in paths] if comparison.each else [paths]
        for title, members in zip(titles, groups, strict=True):
            stages = _stages(members, names)
            settings["outputs"] = [stage.name for stage in stages]
            result = compare_stages(*stages, name=title, anyway=comparison.anyway, **probe)
            probes = {stage: to_builtins(fitted) for stage, fitted in result.settings.items()}
            settings["probes"] = {**settings.get("probes", {}), result.name: probes} if as_json else None
            metrics += result.metrics(f"{result.name}/" if comparison.each else "")
            notes += [*result.notes(), *(line for stage in stages for line in store_notes(stage))]
    published = _published(paths, "probe" if averages.tables or comparison.cross else "alignment", comparison.outputs)
    show_result(paths[0], "alignment", settings, metrics, list(dict.fromkeys(notes)), as_json, published)


def _published(
    paths: Sequence[Path], measure: PublishedMeasure, outputs: str | None
) -> tuple[list[PublishedFigure], list[str]]:
    """Return the published cells about the data sets of these stores, each once."""
    from snellen.features.published import published_figures
    from snellen.features.store import open_store

    output = outputs.split(",")[0].strip() if outputs and measure == "probe" else None
    published = [published_figures(open_store(path, output), measure) for path in paths]
    figures = {(cell.table, cell.row, cell.column): cell for cells, _ in published for cell in cells}
    figures |= {(cell.table, cell.row, cell.column): cell for cells, _ in published for cell in cells if cell.same}
    return list(figures.values()), list(dict.fromkeys(note for _, notes in published for note in notes))


def _check(comparison: ComparisonOptions, averages: AlignmentTableOptions, extraction: ExtractionOptions) -> None:
    """Raise UsageError for options that exclude each other or lack one that they require."""
    if comparison.each + comparison.cross + averages.tables + (extraction.model is not None) > 1:
        raise UsageError("--each, --cross, --tables and --model exclude each other.", "Omit all but one.")
    extracted = (extraction.matched_model, extraction.split, extraction.images, extraction.out)
    if extraction.model is None and any(value is not None for value in extracted):
        raise UsageError("--matched-model, --split, --images and --out require --model.", "Add --model.")
    if comparison.anyway and (averages.tables or comparison.cross):
        raise UsageError("--anyway is about stages; --tables and --cross have none.", "Omit --anyway.")
    if averages.towers is not None and not averages.tables:
        raise UsageError("--towers requires --tables.", "Add --tables.")
    if (averages.tables or comparison.cross) and len((comparison.outputs or "").split(",")) > 1:
        raise UsageError("--tables and --cross take one output.", "Name one with --outputs.")


def _stages(stores: Sequence[Path], names: Sequence[str]) -> list[Features]:
    """Open the raw, aligned and, with a third store, matched features."""
    from snellen.features.store import open_store, store_outputs

    if len(stores) > 3:
        raise UsageError(f"{len(stores)} stores; RAW ALIGNED [MATCHED] was expected.", "Or add --each, or --cross.")
    paths = [stores[0], stores[0]] if len(stores) == 1 else list(stores)
    if names and len(names) != len(paths):
        raise UsageError(f"{len(names)} outputs for {len(paths)} stages.", "Name one output per stage with --outputs.")
    stages = []
    for number, path in enumerate(paths):
        output = names[number] if names else BOTH[min(number, 1)]
        outputs = store_outputs(path)
        if not names and output not in outputs:
            if len(stores) == 1:
                raise UsageError(
                    f"{path} has no output {output!r}; it has: {', '.join(outputs)}",
                    "Extract with --outputs projector_input,aligned, or name two with --outputs.",
                )
            output = next(iter(outputs))
        stages.append(open_store(path, output))
    return stages


def _extracted(options: ExtractionOptions) -> list[Path]:
    """Extract the models and return the stores RAW ALIGNED [MATCHED]; raw and aligned are in the same store."""
    from snellen.features.encoders import open_encoder
    from snellen.features.extract import extract

    if not options.split or options.images is None or options.out is None:
        raise UsageError("--model requires --split, --images and --out.", "Add the missing options.")
    folders: list[Path] = []
    for name in (options.model, options.matched_model):
        if name is not None:
            folder = options.out.with_name(f"{options.out.name}-matched") if folders else options.out
            extract(open_encoder(name, BOTH, device=options.device), list(options.split), options.images, folder)
            folders.append(folder)
    return [options.out, options.out, *folders[1:]]


def _tables(stores: Sequence[Features], own: Path | None, options: dict[str, Any]) -> tuple[list[Metric], list[str]]:
    from msgspec import structs

    from snellen.features.encoder_identity import encoder_and_dataset
    from snellen.features.encoders import families as towers
    from snellen.features.probes import probe
    from snellen.features.store import TEST, TRAIN

    known = towers.read_towers(own)
    cells = [encoder_and_dataset(store) for store in stores]
    if duplicate := next((cell for cell in cells if cells.count(cell) > 1), None):
        raise UsageError(
            f"two stores have the encoder {duplicate[0]} and the data set {duplicate[1]}: the table has one cell for them.",
            "Omit one of the two.",
        )
    accuracies, metrics, notes = [], [], []
    for store, (name, dataset) in zip(stores, cells, strict=True):
        several = store.labels.many is not None
        how = {**options, "method": "logistic"} if several else options
        fitted = probe(store.values, store.labels, train_rows=TRAIN, test_rows=TEST, split=store.split, **how)
        kind = MULTI_LABEL if several else "accuracy"
        (figure,) = [metric for metric in fitted.metrics() if metric.name == kind]
        metrics.append(structs.replace(figure, name=f"{kind}/{name}/{dataset}"))
        if several:
            notes.append(f"{dataset}: images have several labels, so its figure in every mean is {MULTI_LABEL}.")
        if figure.value is None:
            notes.append(f"{name}, {dataset}: no {kind} can be computed, so it is in no mean.")
            continue
        accuracies.append(towers.Accuracy(name, dataset, figure.value))
        notes += [*store_notes(store), *(f"{name}, {dataset}: {line}" for line in fitted.notes())]
    for table, rows in (
        ("paradigm", towers.by_paradigm(accuracies, known)),
        ("data_scale", towers.by_data_scale(accuracies, known)),
        ("encoder_scale", towers.by_encoder_scale(accuracies, known)),
    ):
        metrics += [metric for row in rows for metric in _cells(table, row)]
        if rows:  # all rows of a table have the same data sets
            over = ", ".join(rows[0].datasets)
            notes.append(
                f"Means by {table}: " + (f"over {over}." if over else "none, as no data set has every encoder.")
            )
    if missing := towers.untagged(accuracies, known):
        notes.append(
            f"Not in the tables by paradigm and data scale, as no tower matches: {', '.join(missing)}. --towers FILE names more."
        )
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
