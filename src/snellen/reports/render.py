"""Rendering of a report: one HTML file that makes no network request and trusts no text that it shows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.atomic_write import replacing
from snellen.errors import StorageError, UsageError
from snellen.redaction import redact
from snellen.reports import plots, tables
from snellen.reports.collect import SEED, CollectedRuns, GalleryAnswer, collect_runs
from snellen.reports.escape import escape_invisible, json_for_page
from snellen.reports.failures.labels import RunLabels, draw_labels, label_rows
from snellen.reports.figures import require_folder, write_figures
from snellen.reports.many_runs import (
    headlines_of,
    heat,
    run_rows,
    runs_copy,
    score_matrices,
    shared_notes,
)
from snellen.reports.overlay import Tree, draw_regions
from snellen.reports.plots.base import SERIES, Plot, Series, run_word
from snellen.reports.plots.costs import CostPoint, cost_plots
from snellen.reports.plots.eye_chart import eye_chart, eye_chart_names, eye_chart_plot, shared_eye_charts
from snellen.reports.plots.score_grid import grid_plots, run_grids
from snellen.reports.plots.svg import page_style
from snellen.reports.table_copies import TableCopy, labels_copy, paired_copy, published_copy, scores_copy
from snellen.reports.thumbnails import ThumbnailAlbum
from snellen.reports.views import MANY, PageLimits, PairedView, RunView
from snellen.scoring.metric_text import is_diagnosis
from snellen.types import Text

if TYPE_CHECKING:
    from jinja2 import BaseLoader, Environment
    from markupsafe import Markup


def read_asset(name: str) -> str:
    """Read a file of the pages' assets."""
    return (files("snellen.reports") / "assets" / name).read_text("utf-8").replace("\r\n", "\n")


def hash_source(text: str) -> str:
    """Return the source of a content security policy that allows this inline script or style alone."""
    return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"


def content_policy(style: str, script: str) -> str:
    """Build the content security policy: this page's own style and script by hash, images as data, nothing else.

    `require-trusted-types-for` makes a browser refuse HTML built from text, so that no slip of the page's own script
    can run a reply.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {hash_source(script)}",
            f"style-src {hash_source(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def template_environment(loader: BaseLoader) -> Environment:
    """Build an environment for pages: everything is escaped, and an undefined name is an error."""
    from jinja2 import Environment, StrictUndefined

    class Pages(Environment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            """Look up keys before methods of dict: `row.clear` would otherwise be true of every row."""
            return obj[attribute] if isinstance(obj, dict) and attribute in obj else super().getattr(obj, attribute)

    environment = Pages(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = escape_invisible
    return environment


@cache
def load_templates() -> Environment:
    """Load the templates of the reports."""
    from jinja2 import PackageLoader

    return template_environment(PackageLoader("snellen.reports", "assets"))


def fill_template(template: str, style: str, script: str, **fields: object) -> str:
    """Fill a template with its style and script, and the policy that allows nothing else to run."""
    from markupsafe import Markup

    page = load_templates().get_template(template)
    return page.render(policy=content_policy(style, script), style=Markup(style), script=Markup(script), **fields)


def gallery_data(
    runs: Sequence[RunView], gathered: CollectedRuns, limits: PageLimits
) -> tuple[dict[str, Any], ThumbnailAlbum]:
    """Build the answers as data for the page's script; incorrect answers get their images first."""
    album = ThumbnailAlbum(limits)
    questions: dict[str, dict[str, Any]] = {}
    for answer in sorted(gathered.gallery, key=lambda item: (item.rank, item.run, item.order)):
        if answer.question in questions:
            continue
        parts: list[dict[str, str]] = []
        texts, pictures = iter(answer.question_data["texts"]), 0
        for part in answer.parts:
            if isinstance(part, Text):
                parts.append({"t": next(texts)})
                continue
            if pictures >= limits.pictures:
                parts.append({"note": "more images than this page shows"})
                break
            thumbnails = album.add(part, runs[answer.run].media)
            pictures += len(thumbnails)
            parts.extend(thumbnails)
        parts += [{"t": text} for text in texts]
        question = {name: value for name, value in answer.question_data.items() if name != "texts"}
        questions[answer.question] = {**question, "parts": parts}
    place = {key: number for number, key in enumerate(questions)}
    drawings = _drawings(gathered.gallery, album, limits.picture_bytes)
    data = {
        "runs": [
            {
                "name": escape_invisible(run.name),
                "model": escape_invisible(run.model),
                "profiles": [escape_invisible(p) for p in run.metrics],
            }
            for run in runs
        ],
        "questions": list(questions.values()),
        "answers": [
            {"r": answer.run, "q": place[answer.question], **answer.answer_data, **drawings.get(number, {})}
            for number, answer in enumerate(gathered.gallery)
        ],
    }
    return data, album


def _drawings(gallery: Sequence[GalleryAnswer], album: ThumbnailAlbum, room: int) -> dict[int, dict[str, Tree]]:
    """Return gold and answer on the picture as `d` of the answer's place, incorrect ones first, while they have room in bytes."""
    drawings: dict[int, dict[str, Tree]] = {}
    for number, answer in sorted(enumerate(gallery), key=lambda item: item[1].rank):
        shapes = None if answer.shapes is None else answer.shapes()
        if shapes is None:
            continue
        if (image := shapes.image) is None:
            tree = draw_regions(shapes, "")
        elif (picture := album.add(image)[0].get("p")) is not None:
            tree = draw_regions(shapes, picture, partial(album.add_part, image))
        else:
            continue
        room -= len(json_for_page(tree))
        if room < 0:
            album.left_out += 1
        else:
            drawings[number] = {"d": tree}
    return drawings


def build_series(runs: Sequence[RunView], gathered: CollectedRuns) -> tuple[list[Series], list[Series]]:
    """Return every run under every profile, and every run under its first profile."""
    every: list[Series] = []
    first: list[Series] = []
    many = len(runs) >= MANY
    for place, (run, tally) in enumerate(zip(runs, gathered.tallies, strict=True)):
        for number, (profile, metrics) in enumerate(run.metrics.items()):
            named = len(run.metrics) > 1 and not (many and number == 0)
            names = ([run.name] if len(runs) > 1 else []) + ([profile] if named else [])
            label = escape_invisible(" · ".join(names) or profile)
            cycle, colour = divmod(place if many else len(every), SERIES)
            series = Series(label, run.name, profile, tuple(metrics), tally, colour + 1, cycle)
            every.append(series)
            if number == 0:
                first.append(series)
    return every, first


def describe_omitted(gathered: CollectedRuns, limits: PageLimits) -> str:
    """Describe in a few sentences which answers the gallery omits; empty if it shows all."""
    adaptive = gathered.near_thresholds
    drawn = sum(answer.run in adaptive for answer in gathered.gallery)
    answers = sum(gathered.tallies[number].answers for number in adaptive)
    sentences = []
    if drawn < answers:
        from snellen.reports.acuity.view import SHARES_IN_WORDS

        sentences.append(
            f"Showing {drawn:,} of {answers:,} answers{' of acuity' if len(adaptive) < len(gathered.tallies) else ''} and "
            f"leaving out {answers - drawn:,}: {SHARES_IN_WORDS}, drawn with seed {SEED}."
        )
    more = f"raise --max-answers (now {limits.answers:,}) to show more"
    if others := _describe_others(gathered):
        sentences += [others, f"All answers are in results.jsonl; {more}."]
    elif sentences:
        sentences.append("All answers are in results.jsonl, and snellen view shows each of them.")
    return " ".join(sentences)


def _describe_others(gathered: CollectedRuns) -> str:
    """Describe what is omitted of the runs that are not of acuity; empty if nothing is."""
    chosen = [answer for answer in gathered.gallery if answer.run not in gathered.near_thresholds]
    total = sum(gathered.counts.values())
    if len(chosen) == total:
        return ""
    if len(gathered.tallies) >= MANY:
        return (
            f"Showing {len(chosen):,} of {total:,} answers: of each run correct and incorrect ones of every slice, "
            f"drawn with seed {SEED}."
        )
    counts = [sum(answer.rank == rank for answer in chosen) for rank in range(3)]
    incorrect, correct = gathered.counts[0], gathered.counts[1] + gathered.counts[2]
    kind = (
        "incorrect or missing"
        if any("error" in by for t in gathered.tallies for by in t.verdicts.values())
        else "incorrect"
    )
    text = f"Showing {counts[0]:,} of {incorrect:,} {kind} answers"
    if correct and not sum(counts[1:]):
        text += "; correct ones are left out"
    elif correct:
        text += f" and {sum(counts[1:]):,} of {correct:,} correct ones"
    return f"{text}."


def render(runs: Sequence[RunView], comparisons: Sequence[PairedView] = (), limits: PageLimits | None = None) -> str:
    """Render the page. The same runs give the same text, byte for byte.

    Raises:
        UsageError: no run, or two runs of the same name.
    """
    limits = limits if limits is not None else PageLimits()
    return _render(runs, _gather(runs, limits), comparisons, limits)


def _gather(runs: Sequence[RunView], limits: PageLimits) -> CollectedRuns:
    names = [run.name for run in runs]
    if not runs or len(set(names)) != len(names):
        raise UsageError(f"a report needs one or more runs with different names; found {names}")
    return collect_runs(runs, limits)


def _labelled(runs: Sequence[RunView], first: Sequence[Series]) -> list[RunLabels]:
    return [
        RunLabels(run.name, column.colour, run.labels, run.model)
        for run, column in zip(runs, first, strict=True)
        if run.labels is not None and run.labels.answers
    ]


def build_charts(runs: Sequence[RunView], first: Sequence[Series]) -> list[list[dict[str, Any]]]:
    """Build the runs' eye charts. From MANY runs on those of one benchmark have the same lines of the same metric."""
    if len(runs) < MANY:
        return [eye_chart(column) for column in first]
    charts: dict[str, list[dict[str, Any]]] = {}
    for benchmark in dict.fromkeys(run.benchmark for run in runs):
        columns = [column for run, column in zip(runs, first, strict=True) if run.benchmark == benchmark]
        charts |= {column.run: chart for column, chart in zip(columns, shared_eye_charts(columns), strict=True)}
    return [charts[column.run] for column in first]


def _measured_acuity(runs: Sequence[RunView]) -> bool:
    return any(run.acuity is not None for run in runs)


def _acuity_parts(runs: Sequence[RunView], first: Sequence[Series], *, many: bool) -> dict[str, Any]:
    """Build heads, card and table of the runs of acuity; without any, nothing of acuity is loaded."""
    if not _measured_acuity(runs):
        return {"heads": [None] * len(runs), "card": None, "thresholds": None}
    from snellen.reports.acuity.page import acuity_card, acuity_head, card_runs, threshold_table

    measured = card_runs(runs, first)
    return {
        "heads": [acuity_head(run.acuity) for run in runs],
        "card": None if many else acuity_card(measured),
        "thresholds": threshold_table(measured) if many else None,
    }


def draw_figures(
    runs: Sequence[RunView], gathered: CollectedRuns, comparisons: Sequence[PairedView] = ()
) -> list[Plot]:
    """Draw every plot of the page, the eye charts first."""
    every, first = build_series(runs, gathered)
    thresholds: Sequence[Plot] = ()
    with page_style():
        if _measured_acuity(runs):
            from snellen.reports.acuity.figures import acuity_figures
            from snellen.reports.acuity.page import card_runs

            thresholds = acuity_figures(card_runs(runs, first))
        named = zip(build_charts(runs, first), eye_chart_names(first), strict=True)
        charts = [eye_chart_plot(chart, name) for chart, name in named]
    if len(runs) >= MANY:
        shared, own = draw_many(runs, first, comparisons)
        drawn = [*shared, *(plot for plots_of_run in own for plot in plots_of_run)]
    else:
        drawn = [*plots.draw_plots(every, first, comparisons), *draw_across(runs, first)]
    return [
        *thresholds,
        *(chart for chart in charts if chart is not None),
        *drawn,
        *draw_labels(_labelled(runs, first)),
    ]


def draw_across(runs: Sequence[RunView], first: Sequence[Series]) -> list[Plot]:
    """Draw data sets by models with their ranks, and score against cost of the runs whose whole cost is known."""
    costs = {run.name: None if run.cost_is_least else run.cost for run in runs}
    points = [
        CostPoint(headline, cost)
        for headline in headlines_of(runs, first)
        if (cost := costs[headline.series.run]) is not None
    ]
    taken: set[str] = set()
    with page_style():
        return [*(plot for grid in run_grids(runs, first) for plot in grid_plots(grid, taken)), *cost_plots(points)]


def draw_many(
    runs: Sequence[RunView], first: Sequence[Series], comparisons: Sequence[PairedView]
) -> tuple[list[Plot], list[list[Plot]]]:
    """Draw the plots that many runs share, and those of each run."""
    taken: set[str] = set()
    shared = [*plots.draw_shared_plots(headlines_of(runs, first), first, comparisons, taken), *draw_across(runs, first)]
    words = [run_word(column, number, len(first)) for number, column in enumerate(first)]
    return shared, [plots.draw_run_plots(column, word, taken) for column, word in zip(first, words, strict=True)]


def _render(
    runs: Sequence[RunView], gathered: CollectedRuns, comparisons: Sequence[PairedView], limits: PageLimits
) -> str:
    from markupsafe import Markup

    many = len(runs) >= MANY
    data, album = gallery_data(runs, gathered, _smaller(limits) if many else limits)
    every, first = build_series(runs, gathered)
    charts = build_charts(runs, first)
    acuity = _acuity_parts(runs, first, many=many)
    heads = [
        {
            "run": run,
            "series": column,
            "top": tables.metric_rows([column], runs)[0] if column.metrics else None,
            "chart": chart,
            "chart_name": chart_name,
            "acuity": head,
            "facts": list({**tables.answer_facts(column.tally), **run.facts}.items()),
            "wrong": tables.incorrect_link(column),
            "not_right": tables.count_incorrect(column),
        }
        for run, column, chart, chart_name, head in zip(
            runs, first, charts, eye_chart_names(first), acuity["heads"], strict=True
        )
    ]
    labelled = _labelled(runs, first)
    published = tables.published_tables(every, runs)
    copies = {
        "compared": paired_copy(comparisons),
        "labels": labels_copy(labelled),
        **{f"published-{number}": published_copy(table) for number, table in enumerate(published, 1)},
    }
    fields = (_many_fields if many else _few_fields)(runs, every, first, comparisons, copies)
    return fill_template(
        "page.html.jinja",
        read_asset("report.css")
        + (read_asset("regions.css") if any("d" in answer for answer in data["answers"]) else "")
        + (read_asset("many_runs.css") if many else "")
        + (read_asset("acuity.css") if acuity["card"] or acuity["thresholds"] else ""),
        read_asset("report.js") + (read_asset("run_table.js") if many else "") + read_asset("copies.js"),
        title=_title(runs),
        many=many,
        heads=heads,
        card=acuity["card"],
        thresholds=acuity["thresholds"],
        every=every,
        **fields,
        labelled=labelled,
        label_rows=label_rows(labelled),
        label_plots=_marked(draw_labels(labelled)),
        beside=published,
        paired=tables.paired_rows(comparisons),
        profiles={name: text for run in runs for name, text in run.profiles.items() if name in run.metrics},
        left_out=describe_omitted(gathered, limits),
        no_room=album.left_out,
        copies=Markup(json_for_page(copies)),
        data=Markup(json_for_page(data)),
        pictures=Markup(json_for_page(album.uris)),
    )


def _smaller(limits: PageLimits) -> PageLimits:
    """Return the limits of images on a page of many runs: the same samples are there many times."""
    lossless = min(limits.lossless_bytes, 6_000)
    return structs.replace(limits, picture_bytes=limits.picture_bytes // 2, lossless_bytes=lossless)


def _title(runs: Sequence[RunView]) -> str:
    benchmarks = list(dict.fromkeys(run.benchmark for run in runs))
    return f"{len(benchmarks)} benchmarks" if len(benchmarks) >= MANY else " and ".join(benchmarks)


def _marked(drawn: Sequence[Plot]) -> list[tuple[Plot, Markup]]:
    from markupsafe import Markup

    return [(plot, Markup(plot.svg)) for plot in drawn]


def _few_fields(
    runs: Sequence[RunView],
    every: Sequence[Series],
    first: Sequence[Series],
    comparisons: Sequence[PairedView],
    copies: dict[str, TableCopy],
) -> dict[str, Any]:
    """Build what a page of a few runs shows in full: one table of scores, bars of verdicts, and all plots."""
    table = tables.metric_rows(every, runs)
    scores, diagnosis = ([row for row in table if is_diagnosis(row.name) is kind] for kind in (False, True))
    copies["scores"] = scores_copy("Scores", scores, every)
    copies["diagnosis"] = scores_copy("Diagnosis", diagnosis, every)
    return {
        "rows": scores,
        "diagnosis": diagnosis,
        "bars": [(column, tables.verdict_bars(column)) for column in every],
        "plots": _marked([*plots.draw_plots(every, first, comparisons), *draw_across(runs, first)]),
    }


def _many_fields(
    runs: Sequence[RunView],
    every: Sequence[Series],
    first: Sequence[Series],
    comparisons: Sequence[PairedView],
    copies: dict[str, TableCopy],
) -> dict[str, Any]:
    """Build what a page of many runs shows: the table of runs, matrices of scores, shared plots, and each run folded."""
    shared, own = draw_many(runs, first, comparisons)
    rows = run_rows(runs, first)
    place = {row.series.run: at for at, row in enumerate(rows)}
    every = sorted(every, key=lambda column: place[column.run])
    scores, other_scores = score_matrices(runs, every, first, diagnosis=False)
    diagnosis, other_diagnosis = score_matrices(runs, every, first, diagnosis=True)
    copies["runs"] = runs_copy(rows)
    for name, matrices in (("scores", scores + other_scores), ("diagnosis", diagnosis + other_diagnosis)):
        for number, matrix in enumerate(matrices, 1):
            title = f"{matrix.benchmark}, {matrix.profile}"
            copies[f"{name}-{number}"] = scores_copy(title, matrix.rows, matrix.columns)
    return {
        "run_rows": rows,
        "shared_notes": shared_notes(runs),
        "scores": scores,
        "other_scores": other_scores,
        "diagnosis": diagnosis + other_diagnosis,
        "heat": heat,
        "plots": _marked(shared),
        "own_plots": [_marked(drawn) for drawn in own],
        "own_bars": [[(s, tables.verdict_bars(s)) for s in every if s.run == run.name] for run in runs],
    }


def write_report(
    runs: Sequence[RunView],
    out: Path,
    *,
    comparisons: Sequence[PairedView] = (),
    limits: PageLimits | None = None,
    figures: Path | None = None,
) -> Path:
    """Write the page to `out`, whole or not at all, and return `out`; write its plots as files to the folder `figures`.

    Raises:
        UsageError: no run, two runs of the same name, or `figures` is a file.
        StorageError: a file cannot be written.
    """
    limits = limits if limits is not None else PageLimits()
    if figures is not None:
        require_folder(figures, "--figures")
    gathered = _gather(runs, limits)
    page = write_page(_render(runs, gathered, comparisons, limits), out)
    if figures is not None:
        write_figures(lambda: draw_figures(runs, gathered, comparisons), figures, "--figures")
    return page


def write_page(page: str, out: Path) -> Path:
    """Write a page to `out`, free of keys, whole or not at all, and return `out`. Raises StorageError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            part.write_text(redact(page), encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(
            f"cannot write the report to {out}: {error.strerror}", "Free disk space, or choose another --out."
        ) from error
    return out
