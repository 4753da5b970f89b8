"""snellen reviews card"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, remark, show, show_json
from snellen.cli.option_parsing import expand_options
from snellen.scoring.metric_text import legend, mark, span
from snellen.text import one_line

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.runs.reviews.judge_card import ConfusionPart, JudgeCard


class DecisionDesign(StrEnum):
    """Which decisions make a card."""

    AUDIT = "audit"
    ALL = "all"


@expand_options
def card(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders with reviews.")],
    *,
    of: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE", help="Profile whose verdicts were reviewed.", show_default="the benchmark's first"
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="META", help="Slice by this meta column; may be repeated.", show_default="kind, level, task …"
        ),
    ] = None,
    design: Annotated[
        DecisionDesign | None,
        typer.Option(
            help="Use the decisions of audit samples alone, or all of them.", show_default="audit, if each run has one"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the cards as one HTML page too.", show_default="no page")
    ] = None,
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Show how automatic verdicts compare with people's decisions: a card for each judge, by model and by slice."""
    from snellen.engine.output_file import require_output_file
    from snellen.reports.judge_card import write_judge_cards
    from snellen.runs.reviews.judge_card import judge_cards
    from snellen.runs.run import load_run
    from snellen.runs.run_paths import find_runs

    if out is not None:
        require_output_file(out, "--out", (".html",))
    folders = find_runs(runs, say=remark)
    opened = [load_run(path, trust=moved.trust).moved(moved.data, moved.images) for path in folders]
    cards = judge_cards(opened, of=of, by=by, design=None if design is None else design.value)
    if out is not None:
        write_judge_cards(cards, out)
    if as_json:
        show_json({"cards": [_card_json(each) for each in cards]})
        return
    for each in cards:
        show(_confusion_table(each))
        show(_rates_table(each))
        for line in each.notes:
            note(f"note: {line}")
    if out is not None:
        print(f"written to {out}")


def _card_json(each: JudgeCard) -> dict[str, Any]:
    from msgspec import to_builtins

    content: dict[str, Any] = to_builtins(each)
    return content


def _confusion_table(each: JudgeCard) -> Table:
    """Build the table of automatic verdicts against people's decisions."""
    from snellen.runs.reviews.judge_card import PEOPLE

    counts = each.parts[0].counts
    used = [word for word in PEOPLE if any(word in cells for cells in counts.values())]
    who = ", ".join(each.reviewers)
    table = new_table(one_line(f"{each.judge} against {who} · {each.parts[0].n:,} replies"), ["marked"], used)
    for marked, cells in counts.items():
        table.add_row(marked, *(f"{cells.get(word, 0):,}" for word in used))
    return table


RATES = ("error", "false_right", "false_wrong", "sensitivity", "specificity", "gold_error")


def _rates_table(each: JudgeCard) -> Table:
    """Build the table of rates, one line a part; a cell has the share, its interval and the replies behind it."""
    used = [rate for rate in RATES if any(metric.name == rate for part in each.parts for metric in part.metrics)]
    table = new_table(None, ["part"], ["n", *(rate.replace("_", " ") for rate in used), "kappa"])
    for part in each.parts:
        table.add_row(one_line(part.name), f"{part.n:,}", *(_rate(part, rate) for rate in used), _kappa(part))
    table.caption = legend(metric for part in each.parts for metric in part.metrics) or None
    return table


def _rate(part: ConfusionPart, rate: str) -> str:
    metric = next((metric for metric in part.metrics if metric.name == rate), None)
    if metric is None or metric.value is None:
        return "–"
    return f"{metric.value:.3f}\n{span(metric.ci95)}{mark(metric.interval)}\nn {metric.n:,}"


def _kappa(part: ConfusionPart) -> str:
    if part.kappa.value is None:
        return "–"
    return f"{part.kappa.value:.2f}\n{span(part.kappa.ci95, '.2f')}"
