"""The plots of a features report, as SVG that stands in the page; and tables of the thresholds of encoders beside those of answers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from snellen.errors import DataError
from snellen.features.plot_data import FeatureMap, PrecisionRecallCurve
from snellen.features.probes.results import ClassAccuracy
from snellen.features.says_sees import QUADRANTS, ClassPoint, SaysSees, accuracy_threshold
from snellen.reports.plots.base import (
    Plot,
    draw_interval,
    legend_height,
    legend_of,
    line_legend,
    mark_of,
    new_figure,
    percent_axis,
    series_colour,
    short_label,
)
from snellen.reports.plots.svg import COLOURS, inline_svg
from snellen.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_BARS = 30
_NAMED_CLASSES = 12
_LABELLED = 10
_CROSSES = 15
_TINTS = dict(zip(QUADRANTS, ("right", "wrong", "series-1", "muted"), strict=True))
_SHAPES = dict(zip(QUADRANTS, ("o", "D", "s", "X"), strict=True))


class AttackPoint(Struct, frozen=True):
    """Accuracy under an attack or a corruption of one strength; strength 0 is clean."""

    strength: float
    label: str
    metric: Metric


def precision_recall_plot(curves: Sequence[tuple[str, int, PrecisionRecallCurve]]) -> Plot | None:
    """Plot one line per store: (label, colour, curve)."""
    if not curves:
        return None
    figure, axes = new_figure(3.1 + legend_height([label for label, _, _ in curves]))
    styles: list[Any] = []
    for place, (_, number, curve) in enumerate(curves):
        styles.append(_style(sum(other == number for _, other, _ in curves[:place])))
        axes.plot(
            curve.recall,
            curve.precision,
            color=series_colour(number),
            lw=1.8,
            ls=styles[-1],
            marker=mark_of(number) if len(curves) > 1 else None,
            ms=5,
            mew=0,
            markevery=(3 + 2 * place % 17, 17),
        )
        axes.axhline(curve.chance, color=series_colour(number), lw=1.0, ls=(0, (1, 2)))
    percent_axis(axes, "x")
    percent_axis(axes, "y")
    axes.set_xlabel("recall")
    axes.set_ylabel("precision")
    axes.spines["left"].set_visible(False)
    line_legend(axes, [(label, number) for label, number, _ in curves], styles)
    queries = " / ".join(dict.fromkeys(f"{curve.queries:,}" for _, _, curve in curves))
    return Plot(
        "Precision and recall",
        f"Retrieval: interpolated precision at each recall, mean over {queries} queries. Dotted: a random order.",
        inline_svg(figure, "precision-recall", "Precision by recall"),
    )


def robustness_plots(lines: Sequence[tuple[str, int, str, Sequence[AttackPoint]]]) -> list[Plot]:
    """Plot accuracy over the strength of attacks: (label, colour, what the strength is, points).

    Each kind of strength has axes of its own: an L2 length and an L∞ bound are no two points of one scale. A second
    attack on the same store has its colour and is dashed.
    """
    drawn = [line for line in lines if len(line[3]) >= 2]
    kinds = list(dict.fromkeys(axis.rpartition(" ")[2] for _, _, axis, _ in drawn))
    return [
        _robustness(
            [line for line in drawn if line[2].rpartition(" ")[2] == kind], kind if len(kinds) > 1 else "", place
        )
        for place, kind in enumerate(kinds)
    ]


def _robustness(drawn: Sequence[tuple[str, int, str, Sequence[AttackPoint]]], kind: str, place: int) -> Plot:
    figure, axes = new_figure(3.1 + legend_height([label for label, _, _, _ in drawn]))
    labels: dict[float, str] = {}
    colours_before: list[int] = []
    styles: list[Any] = []
    for _, number, _, points in drawn:
        at = [point.strength for point in points]
        style = _style(colours_before.count(number))
        colours_before.append(number)
        styles.append(style)
        known = [(x, point) for x, point in zip(at, points, strict=True) if point.metric.value is not None]
        axes.plot(
            [x for x, _ in known],
            [point.metric.value or 0.0 for _, point in known],
            color=series_colour(number),
            lw=1.8,
            ls=style,
        )
        for x, point in known:
            draw_interval(axes, point.metric.ci95, x, series_colour(number), vertical=True)
            axes.scatter(
                [x],
                [point.metric.value or 0.0],
                s=26,
                color=series_colour(number),
                lw=0,
                zorder=3,
                marker=mark_of(number),
            )
        labels.update((point.strength, point.label) for point in points)
    percent_axis(axes, "y")
    ticks = _apart(sorted(labels), max(labels) or 1.0)
    axes.set_xticks(ticks, [labels[tick] for tick in ticks])
    axes.set_xlabel(" / ".join(dict.fromkeys(axis for _, _, axis, _ in drawn)))
    axes.spines["left"].set_visible(False)
    several = len({number for _, number, _, _ in drawn}) > 1
    attacks = [axis.partition(",")[0] for _, _, axis, _ in drawn]
    apart = [name if attacks.count(name) == 1 else f"{name} {i + 1}" for i, name in enumerate(attacks)]
    names = [label if several else apart[i] for i, (label, _, _, _) in enumerate(drawn)]
    if several and len(set(names)) < len(names):
        names = [f"{label}, {axis.partition(',')[0]}" for label, _, axis, _ in drawn]
    line_legend(axes, list(zip(names, [line[1] for line in drawn], strict=True)), styles)
    return Plot(
        f"Accuracy under attack{f' · {kind}' if kind else ''}",
        "The same images at each strength, with 95 % intervals; 0 means no attack.",
        inline_svg(figure, f"robustness-{place}" if place else "robustness", "Accuracy by strength of the attack"),
    )


def corruption_plot(stores: Sequence[tuple[str, int, Sequence[Metric]]]) -> Plot | None:
    """Plot accuracy on corrupted images, one row per corruption: (label, colour, metrics)."""
    stores_shown = [
        (
            label,
            number,
            {metric.name.rpartition("accuracy@")[2]: metric for metric in metrics if "accuracy@" in metric.name},
        )
        for label, number, metrics in stores
        if any("accuracy@" in metric.name for metric in metrics)
    ]
    clean = [(number, _uncorrupted(metrics)) for _, number, metrics in stores]
    specs = list(dict.fromkeys(name for _, _, metrics in stores_shown for name in metrics))
    if not specs:
        return None
    figure, axes = new_figure(0.7 + 0.3 * len(specs) * max(1, len(stores_shown) // 2))
    for place, (_, number, metrics) in enumerate(stores_shown):
        shift = 0.16 * (place - (len(stores_shown) - 1) / 2)
        for row, spec in enumerate(specs):
            metric = metrics.get(spec)
            if metric is None or metric.value is None:
                continue
            draw_interval(axes, metric.ci95, -row - shift, series_colour(number))
            axes.scatter(
                [metric.value],
                [-row - shift],
                s=26,
                color=series_colour(number),
                lw=0,
                zorder=3,
                marker=mark_of(number),
            )
    for number, value in clean:
        if value is not None:
            axes.axvline(value, color=series_colour(number), lw=1.2, ls="dotted")
    axes.set_yticks([-row for row in range(len(specs))], [short_label(spec, 26) for spec in specs])
    axes.set_ylim(-len(specs) + 0.4, 0.6)
    axes.spines["left"].set_visible(False)
    percent_axis(axes, "x")
    axes.set_xlim(-0.02, 1.02)
    line_legend(axes, [(label, number) for label, number, _ in stores_shown])
    return Plot(
        "Accuracy on corrupted images",
        "The same images under each corruption, with 95 % intervals. Dotted: without corruption. The table has the paired drops.",
        inline_svg(figure, "corruptions", "Accuracy by corruption"),
    )


def _style(before: int) -> Any:
    """Return the line style for a line, given the number of earlier lines of its colour."""
    return ("-", (0, (4, 2)), (0, (1, 1)))[min(before, 2)]


def _uncorrupted(metrics: Sequence[Metric]) -> float | None:
    """Return the accuracy without corruption: accuracy plus drop, if all files agree on it."""
    by_name = {metric.name: metric.value for metric in metrics}
    values_clean = set()
    for name, value in by_name.items():
        drop = by_name.get(name.replace("accuracy@", "drop@"))
        if "accuracy@" in name and value is not None and drop is not None:
            values_clean.add(round(value + drop, 9))
    return values_clean.pop() if len(values_clean) == 1 else None


def _apart(values: Sequence[float], axis_length: float) -> list[float]:
    """Select ticks that do not overlap, including the first and the last."""
    ticks = [values[0]]
    for value in values[1:-1]:
        if value - ticks[-1] >= 0.09 * axis_length and values[-1] - value >= 0.09 * axis_length:
            ticks.append(value)
    return ticks if values[-1] == ticks[-1] else [*ticks, values[-1]]


def feature_map(flat: FeatureMap, names: Sequence[str], label: str, number: int) -> Plot | None:
    """Plot rows in the plane, coloured by class if there are few.

    Args:
        names: [n] the class of each point.
        number: unique on the page.
    """
    if len(flat.points) < 3:
        return None
    classes = list(dict.fromkeys(sorted(names)))
    of = np.array(names, dtype=object)
    figure, axes = new_figure(4.4)
    few = len(classes) <= _NAMED_CLASSES
    counts = {name: int((of == name).sum()) for name in classes}
    named = set(sorted(classes, key=lambda name: (-counts[name], name))[:_NAMED_CLASSES])
    if not few:
        rest = flat.points[~np.isin(of, list(named))]
        axes.scatter(rest[:, 0], rest[:, 1], s=9, color=COLOURS["muted"], alpha=0.35, lw=0)
    size = 20 if len(of) < 700 else 11
    for place, name in enumerate(name for name in classes if name in named):
        members = flat.points[of == name]
        axes.scatter(
            members[:, 0],
            members[:, 1],
            s=size,
            color=series_colour(place + 1),
            marker=mark_of(place + 1),
            alpha=0.6,
            lw=0,
        )
    wide, high = (float(np.ptp(flat.points[:, column])) or 1.0 for column in (0, 1))
    unit = (0.0185 * wide, 0.042 * high)
    names_at: list[TextBox] = []
    for place, name in enumerate([name for name in classes if name in named]):
        members = flat.points[of == name]
        middle = np.median(members, axis=0)
        away = ((members - middle) ** 2).sum(axis=1)
        inner, text = members[away <= np.quantile(away, 0.8)], short_label(name, 20)
        heights = [float(inner[:, 1].max()) + 0.03 * high, float(inner[:, 1].min()) - 0.03 * high, float(middle[1])]
        free = [y for y in heights if _free(_box(float(middle[0]), y, text, "center", unit), names_at)]
        if not free and not few:
            named.discard(name)
            continue
        spot = (float(middle[0]), (free or heights)[0])
        names_at.append(_box(*spot, text, "center", unit))
        # A halo of the page's own colour keeps a name legible among the points.
        halo = {"facecolor": COLOURS["paper"], "alpha": 0.8, "edgecolor": "none", "pad": 1.2}
        axes.text(
            *spot, text, color=series_colour(place + 1), ha="center", va="center", fontsize=9, weight="bold", bbox=halo
        )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.margins(0.03)
    counted = f"{len(of):,} images" if len(of) == flat.of else f"{len(of):,} of {flat.of:,} images, sampled at random"
    much = (
        "t-SNE of the features: it preserves neighbours, not distances between groups."
        if flat.explained is None
        else f"The first two principal axes: {flat.explained:.0%} of the variance. {flat.why}"
    )
    naming = "" if few else f" Of {len(classes):,} classes {len(names_at)} of the largest are named."
    return Plot(
        f"Map of the features{label}", f"{counted}. {much}{naming}", inline_svg(figure, f"map-{number}", "Features in the plane")
    )  # fmt: skip


def class_bars(rows: Sequence[ClassAccuracy], label: str, number: int, chance: float | None) -> Plot | None:
    """Plot the probe's accuracy on each class, the worst first; of many classes the worst and the best."""
    known = sorted((row for row in rows if row.accuracy is not None), key=lambda row: (row.accuracy, row.name))
    if len(known) < 2:
        return None
    cut = len(known) > _BARS
    drawn = [*known[: 2 * _BARS // 3], *known[-_BARS // 3 :]] if cut else known
    figure, axes = new_figure(0.5 + 0.2 * (len(drawn) + cut))
    place: list[float] = []
    for index in range(len(drawn)):
        place.append(-float(index + (cut and index >= 2 * _BARS // 3)))
    tint = COLOURS["series-1"]
    axes.barh(place, [row.accuracy or 0.0 for row in drawn], height=0.62, color=tint, alpha=0.32, lw=0)
    for y, row in zip(place, drawn, strict=True):
        draw_interval(axes, row.ci95, y, tint, alpha=0.75)
    axes.scatter([row.accuracy or 0.0 for row in drawn], place, s=16, color=tint, lw=0, zorder=3)
    if chance is not None:
        axes.axvline(chance, color=COLOURS["muted"], lw=1.2, ls="dotted")
    if cut:
        axes.annotate("…", (0.0, (place[2 * _BARS // 3 - 1] + place[2 * _BARS // 3]) / 2), va="center", ha="left")
    axes.set_yticks(place, [short_label(row.name, 26) for row in drawn])
    axes.set_ylim(min(place) - 0.6, 0.6)
    axes.spines["left"].set_visible(False)
    percent_axis(axes, "x")
    tests = [row.test for row in drawn]
    count = f"{min(tests):,}" if min(tests) == max(tests) else f"{min(tests):,} to {max(tests):,}"
    selection = (
        f"The worst {2 * _BARS // 3} and the best {_BARS // 3} of {len(known):,} classes" if cut else "Every class"
    )
    return Plot(
        f"Probe by class{label}",
        f"{selection}, {count} test images each, with 95 % intervals. Dotted: chance.",
        inline_svg(figure, f"classes-{number}", "Accuracy of the probe by class"),
    )


def says_sees_plot(comparison: SaysSees, label: str, number: int) -> Plot:
    """Plot each class as a point in four quadrants, and name those with the largest gaps."""
    figure, axes = new_figure(4.9)
    x_edge = accuracy_threshold(comparison.settings.probe_chance, comparison.settings.sees_from)
    y_edge = accuracy_threshold(comparison.settings.answer_chance, comparison.settings.says_from)
    percent_axis(axes, "x")
    percent_axis(axes, "y")
    axes.set_xlim(-0.03, 1.03)
    lowest = min(comparison.settings.answer_chance, *(point.answer for point in comparison.classes))
    low = max(0.0, lowest - 0.1) if lowest > 0.3 else 0.0
    axes.set_ylim(low - 0.1 * (1.0 - low), 1.0 + 0.05 * (1.0 - low))
    axes.grid(visible=False)
    axes.axvline(x_edge, color=COLOURS["ink"], lw=1.0)
    axes.axhline(y_edge, color=COLOURS["ink"], lw=1.0)
    axes.axvline(comparison.settings.probe_chance, color=COLOURS["muted"], lw=1.0, ls="dotted")
    axes.axhline(comparison.settings.answer_chance, color=COLOURS["muted"], lw=1.0, ls="dotted")
    bars = len(comparison.classes) <= _CROSSES
    for point in comparison.classes:
        tint = COLOURS[_TINTS[point.quadrant]]
        if bars and point.probe_ci95 is not None and point.answer_ci95 is not None:
            draw_interval(axes, point.probe_ci95, point.answer, tint, alpha=0.28)
            draw_interval(axes, point.answer_ci95, point.probe, tint, alpha=0.28, vertical=True)
    for quadrant in QUADRANTS:
        members = [point for point in comparison.classes if point.quadrant == quadrant]
        if members:
            axes.scatter(
                [point.probe for point in members],
                [point.answer for point in members],
                s=30 if bars else 20,
                color=COLOURS[_TINTS[quadrant]],
                marker=_SHAPES[quadrant],
                alpha=0.85,
                lw=0,
                zorder=3,
            )
    _name_points(axes, comparison.classes, low)
    axes.set_xlabel("sees: accuracy of the probe")
    axes.set_ylabel("says: accuracy of the answers")
    axes.spines[["left", "bottom"]].set_visible(False)
    counts = comparison.quadrants
    place = axes.get_xaxis_transform()
    corners = ((0.99, 1.015, "right"), (0.99, 0.015, "right"), (0.0, 1.015, "left"), (0.0, 0.015, "left"))
    for name, (x, y, side) in zip(QUADRANTS, corners, strict=True):
        tint = COLOURS[_TINTS[name]]
        text = f"{name} · {counts[name]:,}"
        axes.text(x, y, text, ha=side, va="bottom", transform=place, fontsize=9, color=tint, weight="bold")
    mean = comparison.settings.answer_chance
    uneven = any(abs(point.answer_chance - mean) > 0.005 for point in comparison.classes)
    means = " Chance differs between classes: the lines show the mean, colours use each class's own threshold."
    return Plot(
        f"Says against sees{label}",
        "Each point is a class. Solid lines are the thresholds, dotted lines chance; the classes with "
        f"the largest gaps are named.{means if uneven else ''}",
        inline_svg(figure, f"says-sees-{number}", "Classes by accuracy of the probe and of the answers"),
    )


TextBox = tuple[float, float, float, float]


def _box(x: float, y: float, text: str, side: str, unit: tuple[float, float]) -> TextBox:
    """Return the box of a text of 9 points from its anchor; `unit` is a character's width and a line's height."""
    wide = len(text) * unit[0]
    start = x if side == "left" else x - wide if side == "right" else x - wide / 2
    return start, start + wide, y - unit[1] / 2, y + unit[1] / 2


def _free(box: TextBox, taken: Sequence[TextBox]) -> bool:
    return not any(box[0] < b[1] and b[0] < box[1] and box[2] < b[3] and b[2] < box[3] for b in taken)


def _name_points(axes: Axes, classes: Sequence[ClassPoint], low: float) -> None:
    """Write names next to points, largest gaps first, where they overlap neither names nor points."""
    unit = (0.0168, 0.042 * (1.0 - low))
    dots: list[TextBox] = [
        (point.probe - 0.012, point.probe + 0.012, point.answer - 0.012, point.answer + 0.012) for point in classes
    ]
    names: list[TextBox] = []
    for point in sorted(classes, key=lambda point: -abs(point.gap)):
        text = short_label(point.name, 20)
        spots = [("left", 0.02, 0.0), ("right", -0.02, 0.0)]
        spots += [("center", 0.0, lift * unit[1]) for lift in (0.85, -0.85)]
        spots += [(side, shift, lift * unit[1]) for side, shift in (("left", 0.015), ("right", -0.015)) for lift in (0.7, -0.7)]  # fmt: skip
        for side, right, up in spots:
            box = _box(point.probe + right, point.answer + up, text, side, unit)
            if box[0] < -0.03 or box[1] > 1.05 or box[2] < low or box[3] > 1.05 or not _free(box, [*names, *dots]):
                continue
            axes.text(point.probe + right, point.answer + up, text, ha=side, va="center", fontsize=8.5)
            names.append(box)
            break
        if len(names) >= _LABELLED:
            return


def attribution_plot(comparisons: Sequence[tuple[str, SaysSees]]) -> Plot | None:
    """Plot the accuracy above chance that answers lack, split into what the probe lacks too and the rest."""
    rows = []
    for label, comparison in comparisons:
        by_name = {metric.name: metric for metric in comparison.overall}
        whole_loss, part = by_name.get("lost"), by_name.get("lost/seeing")
        if whole_loss is not None and part is not None and whole_loss.value is not None and part.value is not None:
            rows.append((label, whole_loss.value, part.value))
    if not rows:
        return None
    figure, axes = new_figure(0.95 + 0.36 * len(rows))
    for row, (_, lost, share) in enumerate(rows):
        edges = (0.0, 1.0 - lost, 1.0 - lost * share, 1.0)
        tints = (("right", 0.55), ("wrong", 0.6), ("muted", 0.45))
        for (low, high), (tint, alpha) in zip(pairwise(edges), tints, strict=True):
            width = max(high, 0.0) - max(low, 0.0)
            axes.barh([-row], [width], left=[max(low, 0.0)], height=0.6, color=COLOURS[tint], alpha=alpha, lw=0)
            if width > 0.07:
                axes.text(max(low, 0.0) + width / 2, -row, f"{100 * width:.0f} %", ha="center", va="center", fontsize=9)
    axes.set_yticks([-row for row in range(len(rows))], [short_label(label, 26) for label, _, _ in rows])
    axes.set_ylim(-len(rows) + 0.5, 0.5)
    percent_axis(axes, "x")
    axes.set_xlim(0.0, 1.0)
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    if len(rows) == 1:
        axes.set_yticks([])
    from matplotlib.patches import Patch

    handles = [Patch(color=COLOURS[tint], alpha=alpha, lw=0) for tint, alpha in tints]
    legend_of(axes, handles, ["said", "lost in saying", "lost in seeing"], 3)
    return Plot(
        "Where accuracy is lost",
        "Accuracy above chance: correct answers, what the probe reads but answers lack, and what the probe lacks too.",
        inline_svg(figure, "attribution", "Accuracy that answers lack, by where it is lost"),
    )


class _Answers(Struct):
    words: str
    ratio: float | None = None
    ci95: tuple[float, float] | None = None
    sentence: str = ""


class _Readout(Struct):
    readout: str
    words: str
    remarks: list[str] = []
    answers: _Answers | None = None


class _Condition(Struct):
    name: str
    readouts: list[_Readout]


class _AcuityFileSettings(Struct):
    encoder: str
    output: str
    train: int
    test: int
    model: str | None = None


class _AcuityFile(Struct):
    settings: _AcuityFileSettings
    conditions: list[_Condition]
    notes: list[str] = []


class _Measure(Struct):
    measure: str = ""


class EncoderThresholdTable(Struct, frozen=True):
    """One table.

    Attributes:
        title: encoder and output.
        head: names of the columns.
        rows: as text.
        sentences: what may be claimed of the answers.
        notes: what a reader must know.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def lines(self) -> list[list[Any]]:
        """Return header and rows, for copies."""
        return [list(self.head), *map(list, self.rows)]


def is_acuity(path: Path) -> bool:
    """Return True if a file names the measure `acuity`; other readers report what is wrong with other files."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Measure).measure == "acuity"
    except (OSError, msgspec.DecodeError, RecursionError):
        return False


def threshold_table(path: Path) -> EncoderThresholdTable:
    """Read one file.

    Raises:
        DataError: it is not what the command prints.
    """
    try:
        known = msgspec.json.decode(path.read_bytes(), type=_AcuityFile)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise DataError(
            f"{path} is not the output of `snellen features acuity --json`: {error}",
            "Save the command's output in a file.",
        ) from error
    compared = any(readout.answers is not None for each in known.conditions for readout in each.readouts)
    head = ["condition", "readout", "threshold of the features [95 % interval]"]
    if compared:
        head += [f"threshold of the answers of {known.settings.model or 'the run'}", "ratio [95 % interval]"]
    rows, sentences, notes = [], [], []
    for each in known.conditions:
        for readout in each.readouts:
            row = [each.name, readout.readout, readout.words]
            if compared:
                row += _answers(readout.answers)
            rows.append(tuple(row))
            notes += [f"{each.name}, {readout.readout}: {line}" for line in readout.remarks]
            if readout.answers is not None and readout.answers.sentence:
                sentences.append(f"{each.name}: {readout.answers.sentence}")
    drawn = (
        f"{known.settings.train:,} drawings of each level trained the readouts, and {known.settings.test:,} tested them"
    )
    title = f"{known.settings.encoder} · {known.settings.output}"
    return EncoderThresholdTable(title, tuple(head), tuple(rows), tuple(sentences), (*notes, drawn, *known.notes))


def _answers(answers: _Answers | None) -> list[str]:
    if answers is None:
        return ["–", "–"]
    if answers.ratio is None or answers.ci95 is None:
        return [answers.words, "–"]
    low, high = answers.ci95
    return [answers.words, f"{answers.ratio:.2f} [{low:.2f}, {high:.2f}]"]


def split_measured(files: Sequence[Path]) -> tuple[list[EncoderThresholdTable], list[Path]]:
    """Return the tables of the files about acuity, and the other files."""
    tables = [threshold_table(path) for path in files if is_acuity(path)]
    return tables, [path for path in files if not is_acuity(path)]
