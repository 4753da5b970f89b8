"""Puts a report together: one HTML file that asks no network for anything and trusts no text that it shows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.atomic_write import replacing
from snellen.errors import StorageError, UsageError
from snellen.redaction import redact
from snellen.reports import plots, tables
from snellen.reports.collect import Gathered, gather
from snellen.reports.escape import json_for_page, visible
from snellen.reports.failures.table import Labelled, label_rows
from snellen.reports.plots.base import SERIES, Series
from snellen.reports.plots.eye_chart import eye_chart
from snellen.reports.thumbnails import Album
from snellen.reports.views import Limits, PairedView, RunView
from snellen.scoring.taxonomy import is_diagnosis
from snellen.types import Text

if TYPE_CHECKING:
    from jinja2 import Environment


def asset(name: str) -> str:
    """A file of the pages' own."""
    return (files("snellen.reports") / "assets" / name).read_text("utf-8").replace("\r\n", "\n")


def _hash(text: str) -> str:
    return "'sha256-" + b64encode(sha256(text.encode()).digest()).decode() + "'"


def policy(style: str, script: str) -> str:
    """The content security policy: this page's own style and script by hash, pictures as data, nothing else.

    `require-trusted-types-for` makes a browser refuse HTML built from text, so that no slip of the page's own script
    can run a reply.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


@cache
def templates() -> Environment:
    """The pages' templates: everything is escaped, and a name that is not there is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    class Pages(Environment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            """A key comes before a method of dict: `row.clear` would otherwise be true of every row."""
            return obj[attribute] if isinstance(obj, dict) and attribute in obj else super().getattr(obj, attribute)

    found = Pages(
        loader=PackageLoader("snellen.reports", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["visible"] = visible
    return found


def filled(template: str, style: str, script: str, **fields: object) -> str:
    """A page from one of the templates, with its style and script and the policy that lets nothing else run."""
    from markupsafe import Markup

    page = templates().get_template(template)
    return page.render(policy=policy(style, script), style=Markup(style), script=Markup(script), **fields)


def gallery(runs: Sequence[RunView], gathered: Gathered, limits: Limits) -> tuple[dict[str, Any], Album]:
    """The answers as data for the page's script; wrong answers get their pictures before right ones do."""
    album = Album(limits)
    questions: dict[str, dict[str, Any]] = {}
    for kept in sorted(gathered.kept, key=lambda one: (one.rank, one.run, one.order)):
        if kept.question in questions:
            continue
        shown: list[dict[str, str]] = []
        texts, pictures = iter(kept.asked["texts"]), 0
        for part in kept.parts:
            if isinstance(part, Text):
                shown.append({"t": next(texts)})
                continue
            if pictures >= limits.pictures:
                shown.append({"note": "more pictures than this page shows"})
                break
            found = album.add(part, runs[kept.run].media)
            pictures += len(found)
            shown.extend(found)
        shown += [{"t": text} for text in texts]
        asked = {name: value for name, value in kept.asked.items() if name != "texts"}
        questions[kept.question] = {**asked, "parts": shown}
    place = {key: number for number, key in enumerate(questions)}
    data = {
        "runs": [
            {"name": visible(run.name), "model": visible(run.model), "profiles": [visible(p) for p in run.metrics]}
            for run in runs
        ],
        "questions": list(questions.values()),
        "answers": [{"r": one.run, "q": place[one.question], **one.shown} for one in gathered.kept],
    }
    return data, album


def series_of(runs: Sequence[RunView], gathered: Gathered) -> tuple[list[Series], list[Series]]:
    """Every run under every profile, and every run under its first profile."""
    every: list[Series] = []
    first: list[Series] = []
    for run, tally in zip(runs, gathered.tallies, strict=True):
        for number, (profile, metrics) in enumerate(run.metrics.items()):
            names = ([run.name] if len(runs) > 1 else []) + ([profile] if len(run.metrics) > 1 else [])
            label = visible(" · ".join(names) or profile)
            one = Series(label, run.name, profile, tuple(metrics), tally, len(every) % SERIES + 1)
            every.append(one)
            if number == 0:
                first.append(one)
    return every, first


def left_out(gathered: Gathered, limits: Limits) -> str:
    """One sentence that says what the gallery does not hold; empty where it holds everything."""
    held = [sum(one.rank == rank for one in gathered.kept) for rank in range(3)]
    if sum(held) == sum(gathered.seen.values()):
        return ""
    wrong, right = gathered.seen[0], gathered.seen[1] + gathered.seen[2]
    return (
        f"This page holds {held[0]:,} of the {wrong:,} answers that are not right and {held[1] + held[2]:,} of the "
        f"other {right:,}; all are in results.jsonl. A larger page: --max-answers (now {limits.answers:,})."
    )


def render(runs: Sequence[RunView], comparisons: Sequence[PairedView] = (), limits: Limits | None = None) -> str:
    """The page. The same runs give the same text, byte for byte.

    Raises:
        UsageError: no run, or two runs of the same name.
    """
    from markupsafe import Markup

    limits = limits if limits is not None else Limits()
    names = [run.name for run in runs]
    if not runs or len(set(names)) != len(names):
        raise UsageError(f"a report needs one or more runs with different names; found {names}")
    gathered = gather(runs, limits)
    data, album = gallery(runs, gathered, limits)
    every, first = series_of(runs, gathered)
    heads = [
        {
            "run": run,
            "series": one,
            "top": tables.rows([one], runs)[0] if one.metrics else None,
            "chart": eye_chart(one),
            "facts": list({**tables.answer_facts(one.tally), **run.facts}.items()),
            "wrong": tables.wrong_link(one),
            "not_right": tables.not_right(one),
        }
        for run, one in zip(runs, first, strict=True)
    ]
    table = tables.rows(every, runs)
    labelled = [
        Labelled(run.name, one.colour, run.labels, run.model)
        for run, one in zip(runs, first, strict=True)
        if run.labels is not None and run.labels.answers
    ]
    return filled(
        "page.html.jinja",
        asset("report.css"),
        asset("report.js"),
        title=" and ".join(dict.fromkeys(run.benchmark for run in runs)),
        heads=heads,
        every=every,
        rows=[row for row in table if not is_diagnosis(row.name)],
        diagnosis=[row for row in table if is_diagnosis(row.name)],
        bars=[(one, tables.verdict_bars(one)) for one in every],
        plots=[(plot, Markup(plot.svg)) for plot in plots.draw(every, first)],
        labelled=labelled,
        label_rows=label_rows(labelled),
        label_plots=[(plot, Markup(plot.svg)) for plot in plots.draw_labels(labelled)],
        beside=tables.beside(every, runs),
        paired=tables.paired_rows(comparisons),
        profiles={name: text for run in runs for name, text in run.profiles.items() if name in run.metrics},
        left_out=left_out(gathered, limits),
        no_room=album.left_out,
        data=Markup(json_for_page(data)),
        pictures=Markup(json_for_page(album.uris)),
    )


def write_report(
    runs: Sequence[RunView], out: Path, *, comparisons: Sequence[PairedView] = (), limits: Limits | None = None
) -> Path:
    """Write the page to `out`, whole or not at all, and return `out`.

    Raises:
        UsageError: no run, or two runs of the same name.
        StorageError: the file cannot be written.
    """
    return written(render(runs, comparisons, limits), out)


def written(page: str, out: Path) -> Path:
    """Write a page to `out`, free of keys, whole or not at all, and return `out`. Raises StorageError."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            part.write_text(redact(page), encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(
            f"cannot write the report to {out}: {error.strerror}", "Free space, or choose --out."
        ) from error
    return out
