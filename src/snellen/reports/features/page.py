"""The page about feature stores: measures side by side, plots, nearest neighbours, and says against sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from snellen.errors import UsageError
from snellen.features.plot_data import FeatureMap, Neighbour, PrecisionRecallCurve, QueryNeighbours
from snellen.features.probes.results import ClassAccuracy
from snellen.features.published import PublishedFigure
from snellen.features.says_sees import ClassPoint, SaysSees
from snellen.reports.escape import escape_invisible, json_for_page
from snellen.reports.features import plots as drawn
from snellen.reports.features.plots import AttackPoint, EncoderThresholdTable
from snellen.reports.plots.base import SERIES, Plot
from snellen.reports.plots.score_grid import ScoreGrid, grid_plots
from snellen.reports.plots.svg import page_style
from snellen.reports.render import fill_template, read_asset
from snellen.reports.table_copies import TableCopy, lines_copy, metrics_copy
from snellen.reports.tables import format_interval, format_percent, metric_fields
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import PageLimits
from snellen.scoring.metric_text import counted
from snellen.sources.blobs import FileBlob
from snellen.types import Blob, Image, Interval, Metric

MAX_CLASSES = 20
MAX_WIDE = 3
"""Stores up to which the table has a track in every cell and columns for chance, n and coverage."""
LIMITS = PageLimits(picture_bytes=6_000_000, long_side=112)


class StoreView(Struct, frozen=True, eq=False):
    """One output of one store, measured.

    Attributes:
        name: unique on the page.
        facts: label to text, shown below the name.
        measures: title of a group (retrieval, k-NN, probe, attack) to its metrics.
        curve, sheet, plane: what `snellen.features.plot_data` found; None or empty where labels do not allow it.
        plane_names: class of each point of the plane.
        classes: the probe's classes; `chance` is what guessing reaches in it.
        attacked: for each attack what its strength is, and the points, clean first.
        corrupted: accuracies on corrupted images.
        pictures: row number to its image; those that are not there are shown by name.
        notes: what a reader must know.
        cell: encoder and data set; `output` is which of the encoder's outputs it is.
        published: title of a group of measures to published cells about the same data set, and their notes.
    """

    name: str
    facts: Mapping[str, str]
    measures: Mapping[str, Sequence[Metric]]
    curve: PrecisionRecallCurve | None = None
    sheet: Sequence[QueryNeighbours] = ()
    plane: FeatureMap | None = None
    plane_names: Sequence[str] = ()
    classes: Sequence[ClassAccuracy] = ()
    chance: float | None = None
    attacked: Sequence[tuple[str, Sequence[AttackPoint]]] = ()
    corrupted: Sequence[Metric] = ()
    pictures: Mapping[int, Blob] = field(default_factory=dict)
    notes: Sequence[str] = ()
    cell: tuple[str, str] = ("", "")
    output: str = ""
    published: Mapping[str, tuple[Sequence[PublishedFigure], Sequence[str]]] = field(default_factory=dict)


class JoinedView(Struct, frozen=True):
    """A store set against a question run: names of both, what was found, and what else a reader must know."""

    store: str
    run: str
    model: str
    comparison: SaysSees
    notes: Sequence[str] = ()


def render_features(
    stores: Sequence[StoreView],
    joined: Sequence[JoinedView] = (),
    limits: PageLimits = LIMITS,
    thresholds: Sequence[EncoderThresholdTable] = (),
) -> str:
    """Render the page. The same stores and runs give the same text, byte for byte.

    Raises:
        UsageError: no store, or two of one name.
    """
    from markupsafe import Markup

    names = [store.name for store in stores]
    if not stores or len(set(names)) != len(names):
        raise UsageError(f"a report needs one or more stores with different names; found {names}")
    album = ThumbnailAlbum(limits)
    sheets = [(store, [_asked(query, store, album) for query in store.sheet]) for store in stores if store.sheet]
    overview, classes, relations = draw_plots(stores, joined)
    common, own = notes_once([(store.name, store.notes) for store in stores])
    joined_common, joined_own = notes_once([(join.store, join.notes) for join in joined])
    shared_facts = [
        fact for fact in stores[0].facts.items() if len(stores) > 1 and all(fact in s.facts.items() for s in stores)
    ]
    published = published_tables(stores)
    return fill_template(
        "features.html.jinja",
        read_asset("report.css") + read_asset("features.css"),
        read_asset("copies.js"),
        title="Encoder features" + (" and answers" if joined else ""),
        stores=[
            (store, number % SERIES + 1, [fact for fact in store.facts.items() if fact not in shared_facts])
            for number, store in enumerate(stores)
        ],
        shared_facts=shared_facts,
        common=common,
        own_notes=own,
        many=len(stores) > MAX_WIDE,
        groups=_groups(stores),
        published=published,
        thresholds=thresholds,
        copies=Markup(json_for_page(_copies(stores, joined, published, thresholds))),
        plots=[(plot, Markup(plot.svg)) for plot in overview],
        class_plots=[(plot, Markup(plot.svg)) for plot in classes],
        relations=[(plot, Markup(plot.svg)) for plot in relations],
        joined=[
            (join, _overall_tiles(join.comparison), _class_rows(join.comparison), _describe_omitted(join.comparison))
            for join in joined
        ],
        joined_common=joined_common,
        joined_notes=joined_own,
        sheets=sheets,
        no_room=album.left_out,
    )


def draw_plots(stores: Sequence[StoreView], joined: Sequence[JoinedView]) -> tuple[list[Plot], list[Plot], list[Plot]]:
    """Draw (curves and maps, bars by class, plots of says against sees)."""
    several = len(stores) > 1
    colours = {store.name: number % SERIES + 1 for number, store in enumerate(stores)}
    with page_style():
        curves = [(store.name, colours[store.name], store.curve) for store in stores if store.curve is not None]
        attacks = [(store.name, colours[store.name], *attack) for store in stores for attack in store.attacked]
        overview = [drawn.precision_recall_plot(curves), *drawn.robustness_plots(attacks)]
        overview.append(drawn.corruption_plot([(store.name, colours[store.name], store.corrupted) for store in stores]))
        overview += [plot for grid in _score_grids(stores) for plot in grid_plots(grid, set())]
        classes: list[Plot | None] = []
        for number, store in enumerate(stores):
            label = f" · {escape_invisible(store.name)}" if several else ""
            if store.plane is not None:
                overview.append(drawn.feature_map(store.plane, store.plane_names, label, number))
            classes.append(drawn.class_bars(store.classes, label, number, store.chance))
        titles = [_title(join, joined) for join in joined]
        relations: list[Plot | None] = [
            drawn.says_sees_plot(join.comparison, f" · {title}" if title else "", number)
            for number, (join, title) in enumerate(zip(joined, titles, strict=True))
        ]
        if joined:
            pairs = [(title or join.run, join.comparison) for join, title in zip(joined, titles, strict=True)]
            relations.append(drawn.attribution_plot(pairs))
    parts = (overview, classes, relations)
    drawn_plots = [[plot for plot in part if plot is not None] for part in parts]
    return drawn_plots[0], drawn_plots[1], drawn_plots[2]


def _score_grids(stores: Sequence[StoreView]) -> list[ScoreGrid]:
    """Return the probe's accuracy and the retrieval's map by encoder and data set; a second output has its own name."""
    grids = []
    for title, metric, what in (
        ("Linear probe", "accuracy", "accuracy of the linear probe"),
        ("Retrieval", "map", "mean average precision of retrieval"),
    ):
        scores: dict[str, dict[str, float]] = {}
        for store in stores:
            encoder, dataset = store.cell
            value = next((m.value for m in store.measures.get(title, ()) if m.name == metric), None)
            if value is not None and dataset:
                name = encoder if dataset not in scores.get(encoder, {}) else f"{encoder} · {store.output}"
                scores.setdefault(name, {})[dataset] = value
        grids.append(ScoreGrid(title, what, "data sets", scores, models="encoders"))
    return grids


def _title(join: JoinedView, joined: Sequence[JoinedView]) -> str:
    """Return a title that distinguishes this pair on the page."""
    stores, runs = {other.store for other in joined}, {other.run for other in joined}
    return escape_invisible(" · ".join([join.run] * (len(runs) > 1) + [join.store] * (len(stores) > 1)))


def _groups(stores: Sequence[StoreView]) -> list[dict[str, Any]]:
    """Return each group of measures with its metrics as rows and the stores as columns."""
    groups = []
    for title in dict.fromkeys(title for store in stores for title in store.measures):
        by = [{metric.name: metric for metric in store.measures.get(title, ())} for store in stores]
        rows = []
        for name in dict.fromkeys(name for metrics in by for name in metrics):
            known = [metrics[name] for metrics in by if name in metrics]
            chance = next((metric.chance for metric in known if metric.chance is not None), None)
            rows.append(
                {
                    "name": name,
                    "chance": "–" if chance is None else format_percent(chance),
                    "n": " / ".join(dict.fromkeys(counted(metric.n, metric.interval) for metric in known)),
                    "coverage": " / ".join(dict.fromkeys(format_percent(metric.coverage) for metric in known)),
                    "partial": any(metric.coverage < 1.0 for metric in known),
                    "by": _one_method(known),
                    "cells": [metric_fields(metrics[name]) if name in metrics else None for metrics in by],
                }
            )
        groups.append({"title": title, "rows": rows})
    return groups


def _copies(
    stores: Sequence[StoreView],
    joined: Sequence[JoinedView],
    published: Sequence[Mapping[str, Any]],
    thresholds: Sequence[EncoderThresholdTable] = (),
) -> dict[str, TableCopy]:
    """Return the tables of the page as LaTeX and CSV, by the name that the template gives them."""
    copies = {}
    for number, (title, columns) in enumerate(metric_groups(stores).items(), 1):
        copies[f"scores-{number}"] = metrics_copy(title, columns, "store")
    for number, table in enumerate(published, 1):
        lines = [["encoder", "value", "metric", "source"]]
        lines += [[name, own[1], own[0], "measured here"] for name, own in table["own"].items()]
        lines += [[name, cell["value"], cell["figure"], cell["source"]] for name, cell in table["cells"].items()]
        copies[f"published-{number}"] = lines_copy(table["title"], lines, table["notes"])
    for number, each in enumerate(thresholds, 1):
        copies[f"thresholds-{number}"] = lines_copy(each.title, each.lines(), each.notes)
    for number, join in enumerate(joined, 1):
        copies[f"says-sees-{number}"] = lines_copy(f"{join.run} against {join.store}", says_sees_lines([join]))
    return copies


def metric_groups(stores: Sequence[StoreView]) -> dict[str, dict[str, dict[str, Metric]]]:
    """Return title of a group to store to its metrics by name."""
    titles = dict.fromkeys(title for store in stores for title in store.measures)
    return {
        title: {store.name: {metric.name: metric for metric in store.measures.get(title, ())} for store in stores}
        for title in titles
    }


def says_sees_lines(joined: Sequence[JoinedView]) -> list[list[Any]]:
    """Return one line for each class of each comparison, after a header."""
    lines: list[list[Any]] = [
        ["store", "run", "class", "probe", "answers", "gap", "lost in saying", "lost in seeing", "quadrant", "images"]
    ]
    for join in joined:
        for point in join.comparison.classes:
            figures = [point.probe, point.answer, point.gap, point.lost_saying, point.lost_seeing]
            lines.append([join.store, join.run, point.name, *figures, point.quadrant, point.images])
    return lines


def _one_method(metrics: Sequence[Metric]) -> str:
    """Return how the intervals of a row were made, if all were made alike; else "" (each cell then says it)."""
    methods = {metric.interval.text for metric in metrics if metric.interval is not None}
    return methods.pop() if len(methods) == 1 else ""


def notes_once(parts: Sequence[tuple[str, Sequence[str]]]) -> tuple[list[tuple[str, str]], list[list[str]]]:
    """Return notes that several parts have, each once with whose they are, and the other notes of each part."""
    names: dict[str, list[str]] = {}
    for name, notes in parts:
        for note in dict.fromkeys(notes):
            names.setdefault(note, []).append(name)
    common = [
        (note, "all" if len(whose) == len(parts) else ", ".join(dict.fromkeys(whose)))
        for note, whose in names.items()
        if len(whose) > 1
    ]
    return common, [[note for note in dict.fromkeys(notes) if len(names[note]) == 1] for _, notes in parts]


_TILES = {
    "probe_accuracy": "accuracy of the probe",
    "answer_accuracy": "accuracy of the answers",
    "said_of_seen": "correct answers where the probe is correct",
    "said_of_unseen": "correct answers where the probe is wrong",
    "lost/seeing": "of the answers' loss is missing from the features too",
    "correlation": "correlation over classes",
}


def _overall_tiles(comparison: SaysSees) -> list[dict[str, str]]:
    """Return the overall metrics as (value, interval, description)."""
    tiles = []
    for metric in comparison.overall:
        if metric.name in _TILES and metric.value is not None:
            value = format_percent(metric.value) if metric.unit == "fraction" else f"r = {metric.value:.2f}"
            interval = format_interval(metric.ci95, metric.unit)
            if metric.unit != "fraction" and metric.ci95 is not None:
                interval = f"{metric.ci95[0]:.2f} – {metric.ci95[1]:.2f}"
            chance = f"chance {format_percent(metric.chance)}" if metric.chance is not None else ""
            method = "" if metric.interval is None else metric.interval.text
            tiles.append(
                {"value": value, "interval": interval, "method": method, "what": _TILES[metric.name], "chance": chance}
            )
    return tiles


def _class_rows(comparison: SaysSees) -> list[dict[str, Any]]:
    """Return the classes with the largest gaps as text, in percentage points."""
    return [_class_row(point) for point in sorted(comparison.classes, key=lambda point: -abs(point.gap))[:MAX_CLASSES]]


def _class_row(point: ClassPoint) -> dict[str, Any]:
    return {
        "name": point.name,
        "quadrant": point.quadrant,
        "clear": point.clear,
        "probe": format_percent(point.probe),
        "probe_span": format_interval(point.probe_ci95, "fraction"),
        "probe_by": _method(point.probe_ci95),
        "answer": format_percent(point.answer),
        "answer_by": _method(point.answer_ci95),
        "gap_by": _method(point.gap_ci95),
        "answer_span": format_interval(point.answer_ci95, "fraction"),
        "gap": f"{100 * point.gap:+.1f}",
        "gap_span": ""
        if point.gap_ci95 is None
        else f"{100 * point.gap_ci95[0]:+.1f} – {100 * point.gap_ci95[1]:+.1f}",
        "gap_clear": point.gap_ci95 is not None and (point.gap_ci95[0] > 0 or point.gap_ci95[1] < 0),
        "seeing": f"{100 * point.lost_seeing:.1f}",
        "saying": f"{100 * point.lost_saying:.1f}",
        "images": f"{point.images:,}",
        "answers": f"{point.answers:,}",
    }


def _method(ends: tuple[float, float] | None) -> str:
    return ends.about.text if isinstance(ends, Interval) else ""


def _describe_omitted(comparison: SaysSees) -> str:
    count = len(comparison.classes) - MAX_CLASSES
    return f"{count:,} classes with smaller gaps are omitted; --json lists them." if count > 0 else ""


def _asked(entry: QueryNeighbours, store: StoreView, album: ThumbnailAlbum) -> dict[str, Any]:
    return {
        "query": _shown(entry.query, store, album),
        "neighbours": [_shown(neighbour, store, album) for neighbour in entry.neighbours],
    }


def _shown(neighbour: Neighbour, store: StoreView, album: ThumbnailAlbum) -> dict[str, Any]:
    blob = store.pictures.get(neighbour.row)
    part: dict[str, str] = {} if blob is None else album.add(Image(blob))[0]
    uri = album.uris.get(part.get("p", ""), "")
    tiny = isinstance(blob, FileBlob) and len(uri) < 6_000
    return {
        "id": neighbour.id,
        "name": neighbour.name,
        "right": neighbour.right,
        "uri": uri,
        "note": part.get("note", ""),
        "tiny": tiny,
    }


# The metric of each group that is nearest to a published figure of another name.
NEAREST = {"Linear probe": "accuracy"}


class MeasuredView(Protocol):
    """A store with its measures and the published cells about its data set."""

    @property
    def name(self) -> str: ...
    @property
    def measures(self) -> Mapping[str, Sequence[Metric]]: ...
    @property
    def published(self) -> Mapping[str, tuple[Sequence[PublishedFigure], Sequence[str]]]: ...


def published_tables(stores: Sequence[MeasuredView]) -> list[dict[str, Any]]:
    """Return a table for each published column that is about a store's data set."""
    tables: dict[tuple[str, str], dict[str, Any]] = {}
    for store in stores:
        for group, (figures, notes) in store.published.items():
            for cell in figures:
                key = cell.table, cell.column
                table = tables.setdefault(
                    key, {"title": f"{cell.table}: {cell.column}", "own": {}, "cells": {}, "notes": []}
                )
                measured = {metric.name: metric for metric in store.measures.get(group, ())}
                own = measured.get(cell.figure, measured.get(NEAREST.get(group, "")))
                if own is not None and own.value is not None:
                    table["own"][store.name] = (own.name, format_percent(own.value))
                same = [*table["cells"].get(cell.row, {"same": []})["same"], *([store.name] if cell.same else [])]
                table["cells"][cell.row] = {
                    "value": format_percent(cell.value),
                    "figure": cell.figure,
                    "source": cell.source,
                    "same": list(dict.fromkeys(same)),
                }
                table["notes"] = [note for note in notes if note.startswith(f"{cell.table}: ")]
    return list(tables.values())
