"""snellen compare"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_groups import expand_options
from snellen.scoring.interval_text import bracketed, span

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.runs.compare import ComparedPart, Pairing

MAX_CHARACTERS = 300


@expand_options
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN…", help="Run folders; the first is the baseline.")],
    *,
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
        typer.Option(metavar="NAME", help="Compare this metric of the benchmark as well, by a paired bootstrap."),
    ] = None,
    flips: Annotated[bool, typer.Option("--flips", help="List the samples that differ, with both replies.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Compare runs of different samples by the ids that they share.")
    ] = False,
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Compare runs with the first one, sample by sample.

    Differences are the other run's score minus the baseline's. Each row has the smallest difference that this many
    samples can detect (80 % power). Subgroup p-values are not corrected for multiple testing.
    """
    from msgspec import to_builtins

    from snellen.runs.compare import SLICED_BY
    from snellen.runs.compare import compare as compare_runs

    pairings = compare_runs(
        *runs,
        profile=profile,
        by=by or SLICED_BY,
        metric=metric,
        flips=flips,
        force=force,
        data=moved.data,
        images=moved.images,
        trust=moved.trust,
    )
    if as_json:
        show_json(
            {"profile": pairings[0].profile, "comparisons": [_flat(to_builtins(pairing)) for pairing in pairings]}
        )
        return
    for pairing in pairings:
        show(_table(pairing))
        if (metrics := pairing.metric) is not None:
            interval = bracketed(metrics.ci95, "+.4f")
            values = [("–" if value is None else f"{value:.4f}") for value in (metrics.baseline, metrics.other)]
            change = "–" if metrics.difference is None else f"{metrics.difference:+.4f}"
            print(f"{metrics.name}: {values[0]} -> {values[1]}, difference {change}{interval}")
        for flip in pairing.flips or ():
            print(f"{flip.sample_id}: {flip.baseline:g} -> {flip.other:g}")
            print(f"  baseline  {_reply(flip.baseline_reply)}")
            print(f"  other     {_reply(flip.other_reply)}")
        for line in pairing.notes:
            note(f"note: {line}")


def _table(pairing: Pairing) -> Table:
    headings = (
        "n",
        "baseline",
        "other",
        "difference",
        "95 % interval",
        "interval by",
        "p",
        "better / worse",
        "smallest detectable\ndifference",
        "test",
    )
    title = f"{pairing.other} against {pairing.baseline} · {pairing.profile} · {pairing.n:,} samples"
    table = new_table(title, ["samples"], headings)
    for part in pairing.parts:
        table.add_row(part.name, *_cells(part))
    return table


def _cells(part: ComparedPart) -> tuple[str, ...]:
    comparison = part.comparison
    return (
        f"{comparison.n:,}",
        f"{part.baseline:.4f}",
        f"{part.other:.4f}",
        f"{comparison.difference:+.4f}",
        span(comparison.ci95, "+.4f"),
        "" if comparison.interval is None else comparison.interval.text,
        f"{comparison.p_value:.2g}",
        f"{comparison.wins:,} / {comparison.losses:,}",
        "nothing" if comparison.smallest_detectable is None else f"±{comparison.smallest_detectable:.4f}",
        comparison.test,
    )


def _flat(pairing: dict[str, Any]) -> dict[str, Any]:
    """Return a pairing with one flat object per part, without the fields that were not requested."""
    parts = [
        {**{k: v for k, v in part.items() if k != "comparison"}, **part["comparison"]} for part in pairing["parts"]
    ]
    rest = {name: value for name, value in pairing.items() if name not in ("parts", "profile") and value is not None}
    return {**rest, "parts": parts}


def _reply(text: str | None) -> str:
    if text is None:
        return "(no answer)"
    excerpt = text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}… ({len(text):,} characters)"
    return repr(excerpt)
