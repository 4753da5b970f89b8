"""snellen compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as given
from snellen.cli.console import note, show, show_json
from snellen.scoring.interval_text import bracketed, span

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.runs.compare import ComparedPart, Pairing

SHOWN_CHARACTERS = 300


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="Folders; the first is the baseline.")],
    profile: Annotated[
        str | None, typer.Option(help="One scoring profile.", show_default="the benchmark's first")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="META",
            help="Slice by this meta column; may be repeated.",
            show_default="kind, level, task, asked, category",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Compare this metric of the benchmark too, by a paired bootstrap."),
    ] = None,
    flips: Annotated[bool, typer.Option("--flips", help="List the questions that differ, with both replies.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Compare runs of other questions by the ids that they share.")
    ] = False,
    data: given.MovedData = None,
    images: given.MovedImages = None,
    trust: given.Trust = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on stdout.", rich_help_panel=given.SHOWING)
    ] = False,
) -> None:
    """Compare runs with the first one, question by question.

    Differences are the other run's score minus the baseline's. The smallest difference that so many questions could
    have shown stands beside each; slices are many, so one small p among them is no finding.
    """
    from msgspec import to_builtins

    from snellen.runs.compare import SLICED_BY
    from snellen.runs.compare import compare as compared

    found = compared(
        *runs,
        profile=profile,
        by=by or SLICED_BY,
        metric=metric,
        flips=flips,
        force=force,
        data=data,
        images=images,
        trust=trust,
    )
    if as_json:
        show_json({"profile": found[0].profile, "comparisons": [_plain(to_builtins(one)) for one in found]})
        return
    for pairing in found:
        show(_table(pairing))
        if (own := pairing.metric) is not None:
            interval = bracketed(own.ci95, "+.4f")
            values = [("–" if value is None else f"{value:.4f}") for value in (own.baseline, own.other)]
            change = "–" if own.difference is None else f"{own.difference:+.4f}"
            print(f"{own.name}: {values[0]} -> {values[1]}, difference {change}{interval}")
        for flip in pairing.flips or ():
            print(f"{flip.sample_id}: {flip.baseline:g} -> {flip.other:g}")
            print(f"  baseline  {_reply(flip.baseline_reply)}")
            print(f"  other     {_reply(flip.other_reply)}")
        for line in pairing.notes:
            note(f"note: {line}")


def _table(pairing: Pairing) -> Table:
    from rich.table import Table

    table = Table(
        title=f"{pairing.other} against {pairing.baseline} · {pairing.profile} · {pairing.n:,} questions",
        title_justify="left",
    )
    table.add_column("questions", no_wrap=True)
    headings = (
        "n",
        "baseline",
        "other",
        "difference",
        "95 % interval",
        "interval by",
        "p",
        "better / worse",
        "could show",
        "test",
    )
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for part in pairing.parts:
        table.add_row(part.name, *_cells(part))
    return table


def _cells(part: ComparedPart) -> tuple[str, ...]:
    found = part.comparison
    return (
        f"{found.n:,}",
        f"{part.baseline:.4f}",
        f"{part.other:.4f}",
        f"{found.difference:+.4f}",
        span(found.ci95, "+.4f"),
        "" if found.interval is None else found.interval.text,
        f"{found.p_value:.2g}",
        f"{found.wins:,} / {found.losses:,}",
        "nothing" if found.smallest_detectable is None else f"±{found.smallest_detectable:.4f}",
        found.test,
    )


def _plain(pairing: dict[str, Any]) -> dict[str, Any]:
    """One flat object a part; what was not asked for is left out."""
    parts = [
        {**{k: v for k, v in part.items() if k != "comparison"}, **part["comparison"]} for part in pairing["parts"]
    ]
    rest = {name: value for name, value in pairing.items() if name not in ("parts", "profile") and value is not None}
    return {**rest, "parts": parts}


def _reply(text: str | None) -> str:
    if text is None:
        return "(no answer)"
    shown = text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"
    return repr(shown)
