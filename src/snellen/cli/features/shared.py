"""Shared parts of `snellen features`: the group, common options, comparisons with other stores, and the output of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from snellen.cli.console import new_table, note, print_notes, show, show_json
from snellen.cli.option_parsing import Commands, argument, option, option_of
from snellen.errors import UsageError
from snellen.models.base import ModelOptions
from snellen.scoring.metric_text import counted, span
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.knn import Knn
    from snellen.features.probes.results import ProbeResult
    from snellen.features.published import PublishedFigure
    from snellen.features.retrieval import Retrieval
    from snellen.features.store import Features
    from snellen.types import Metric

    Result = Retrieval | Knn | ProbeResult

Published: TypeAlias = "tuple[Sequence[PublishedFigure], Sequence[str]]"

group = Commands(
    help="Extract or import features of images, and measure how well they separate classes.", no_args_is_help=True
)

Store = Annotated[Path, argument("Folder of a feature store.", value="STORE")]
Output = Annotated[str | None, option("Output of the store.", value="NAME", said="its first")]
Outputs = Annotated[
    str | None,
    option("Outputs, separated by commas, or all.", value="NAMES", said="the first of each store"),
]
Encoder = Annotated[
    str,
    option(
        "A vision model, or a vision-language model, whose vision tower is used.",
        value="hf:NAME|FOLDER|embedded|timm:NAME|open_clip:NAME/WEIGHTS",
    ),
]
BatchSize = Annotated[int, option("Images per batch.", least=1)]
Precision = Annotated[Literal["auto", "float32", "bfloat16", "float16"], option("Precision of the encoder.")]
Device = Annotated[str, option_of(ModelOptions, "device")]
Similarity = Annotated[Literal["cosine", "l2"], option("Similarity of two features.")]
Preprocessing = Annotated[Literal["none", "l2", "standardise"], option("Preprocessing of the features.")]
IntervalBy = Annotated[
    Literal["class", "query"],
    option("Sampling unit of the interval: whole classes, or queries of the same classes."),
]
Images = Annotated[Path, option("Folder, zip or tar with the images of the CSV files.")]
Threads = Annotated[int | None, option("Number of threads.", said="one per core", least=1)]
TorchThreads = Annotated[
    int | None, option("Number of threads of the encoder.", said="as the batch allows, at most one per core", least=1)
]


def show_result(
    store: Path,
    measure: str,
    settings: Mapping[str, Any],
    metrics: Iterable[Metric],
    notes: Iterable[str],
    as_json: bool,
    published: Published = ((), ()),
) -> None:
    """Print a result: one JSON object, or a table of metrics, then settings and notes on stderr.

    Args:
        published: cells of published tables about the same data set, with their notes; shown in a table of their own.
    """
    from snellen.features import json_result

    figures, published_notes = published
    metrics, notes = list(metrics), [*notes, *published_notes]
    if as_json:
        result = json_result(store, measure, settings, metrics, notes)
        show_json({**result, "published": list(figures)} if figures else result)
        return
    headings = ("value", "95 % interval", "interval by", "n", "coverage", "chance")
    table = new_table(f"{measure} · {store}", ["metric"], headings)
    for metric in metrics:
        unit = "" if metric.unit == "fraction" else f" {metric.unit}"
        table.add_row(
            metric.name,
            "–" if metric.value is None else f"{metric.value:.4f}{unit}",
            span(metric.ci95, ".4f"),
            "" if metric.interval is None else metric.interval.text,
            counted(metric.n, metric.interval),
            f"{metric.coverage:.1%}",
            "" if metric.chance is None else f"{metric.chance:.4f}",
        )
    show(table)
    if figures:
        beside = new_table("published", ["table", "row", "column"], ["value", "figure", "source"])
        for cell in figures:
            name = f"{cell.row} (this encoder)" if cell.same else cell.row
            beside.add_row(cell.table, name, cell.column, f"{cell.value:.4f}", cell.figure, cell.source)
        show(beside)
    note("; ".join(f"{name}: {value}" for name, value in settings.items() if value not in (None, "", [])))
    print_notes(notes)


def store_notes(features: Features) -> list[str]:
    """Return the notes of a store, with the number of its unreadable images."""
    meta = features.meta
    if meta is None:
        return []
    lines = list(meta.notes)
    if meta.missing:
        lines.append(
            f"{len(meta.missing):,} of {meta.rows + len(meta.missing):,} images could not be read and are in no "
            "metric; store.json lists them"
        )
    return lines


def numbers(text: str, option: str, kind: type[Any] = int, example: str = "1,5,10") -> list[Any]:
    """Parse numbers separated by commas; raise UsageError for other text."""
    try:
        found = [kind(number) for number in comma_list(text)]
    except ValueError:
        found = []
    if not found:
        whole = "whole numbers" if kind is int else "numbers"
        raise UsageError(f"{option} {text}: {whole} separated by commas were expected", f"Example: {option} {example}.")
    return found


@dataclass(frozen=True)
class AgainstOptions:
    """Stores to compare with."""

    PANEL: ClassVar[str] = "Paired differences"

    against: list[Path] | None = option(
        "Another encoder's store of the same images: report its metrics and the paired difference with interval "
        "and p; may be repeated.",
        value="STORE",
    )
    against_output: str | None = option(
        "Output of these stores.", value="NAME", said="that of --output, else the first of each"
    )


@dataclass(frozen=True)
class SweepOptions:
    """Sweeps over layers and k."""

    layers: bool = option("Measure each block of an output such as cls_last4 on its own: block-1 is the last.", False)
    curve: Path | None = option("Write the sweep over layers or k as a curve: .svg, .pdf or .csv.", value="FILE")


def sweep(
    features: Features,
    options: SweepOptions, measure: Callable[[Features], Result],
    metrics_of: Callable[[Any], list[Metric]], metrics: Sequence[Metric],
) -> tuple[list[Metric], list[str]]:  # fmt: skip
    """Return the metrics of each block as block-N/NAME with --layers, and notes; write the curve.

    Raises:
        UsageError: --layers for an output of one block; --curve for nothing that is swept.
    """
    from msgspec import structs

    from snellen.engine.output_file import require_output_file
    from snellen.features.layers import layer_views, with_values

    layered: list[Metric] = []
    notes: list[str] = []
    if options.layers:
        views = layer_views(features)
        if len(views) == 1:
            raise UsageError(
                f"{features.name} has one block, so there are no layers to sweep.",
                "Extract with --outputs cls_last4, for example, and name it with --output.",
            )
        for view in views:
            result = measure(with_values(features, view.values))
            layered += [structs.replace(one, name=f"{view.name}/{one.name}") for one in metrics_of(result)]
    if options.curve is not None:
        from snellen.reports.features.export import ENDINGS, write_sweep

        target = require_output_file(options.curve, "--curve", ENDINGS)
        if target.suffix.lower() not in ENDINGS:
            raise UsageError(f"--curve {target}: .svg, .pdf or .csv was expected", "Example: --curve curve.svg.")
        notes.append(f"The curve was written to {write_sweep(layered or list(metrics), target)}.")
    return layered, notes


def open_others(
    features: Features, output: str | None, options: AgainstOptions, sweeps: SweepOptions
) -> tuple[list[Features], list[str]]:
    """Return the store and those it is compared with, restricted to shared rows, and notes; alone without --against.

    Raises:
        UsageError: --against-output without --against, --layers with it, or the same output of the same store twice.
        DataError: as `share_rows`.
    """
    from snellen.features.pairing import share_rows
    from snellen.features.store import open_store, store_outputs

    if options.against and sweeps.layers:
        raise UsageError("--layers takes no --against.", "Omit one of the two.")
    if not options.against:
        if options.against_output is not None:
            raise UsageError("--against-output requires --against.", "Add --against STORE.")
        return [features], []
    stores = [features]
    for path in options.against:
        wanted = options.against_output or (output if output in store_outputs(path) else None)
        stores.append(open_store(path, wanted))
    names = store_names(stores)
    if len(set(names)) < len(names):
        raise UsageError(
            f"the same output of the same store is named twice: {', '.join(names)}", "Name another --against-output."
        )
    return share_rows(stores, names)


def store_names(stores: Sequence[Features]) -> list[str]:
    """Return a name for each: its folder's, with the output where a folder comes twice."""
    from snellen.features.alignment import distinct_names

    paths = [store.path.resolve() if store.path is not None else None for store in stores]
    if len(set(paths)) == len(paths):
        return list(distinct_names(stores))
    return [f"{path.name if path else ''} · {store.name}" for path, store in zip(paths, stores, strict=True)]


def compare_results(
    names: Sequence[str],
    results: Sequence[Result],
    metrics_of: Callable[[Any], list[Metric]],
    cluster: str,
) -> tuple[list[Metric], list[str], dict[str, Any]]:
    """Return the metrics of the other stores, paired differences, notes with p, and settings for JSON.

    A difference is the first store's value minus the other's: above 0 the first has more.
    """
    from msgspec import structs, to_builtins

    from snellen.features.pairing import describe_difference, paired_differences, row_values

    if len(results) < 2:
        return [], [], {}
    metrics: list[Metric] = []
    notes: list[str] = []
    settings: dict[str, Any] = {}
    own = row_values(results[0], cluster)
    for name, result in zip(names[1:], results[1:], strict=True):
        metrics += [structs.replace(metric, name=f"{name}/{metric.name}") for metric in metrics_of(result)]
        differences = paired_differences(own, row_values(result, cluster))
        for measure, comparison in differences.items():
            metrics.append(_metric(f"difference/{names[0]}-{name}/{measure}", comparison, cluster))
            notes.append(describe_difference(f"{measure} of {names[0]} minus {name}", comparison))
        settings[name] = to_builtins(differences)
    if len(notes) > 1:
        notes.append("The p-values are not corrected for the number of comparisons.")
    return metrics, notes, settings


def _metric(name: str, comparison: Any, cluster: str) -> Metric:
    """Return a comparison as a metric whose interval names its cluster."""
    from msgspec import structs

    metric: Metric = comparison.metric(name)
    if metric.interval is not None and metric.interval.cluster is not None:
        metric = structs.replace(metric, interval=structs.replace(metric.interval, cluster=cluster))
    return structs.replace(metric, unit="nats") if name.endswith("/nll") else metric
