"""Page of judges' cards: automatic verdicts against people's decisions, by model and by slice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from snellen.reports.plots.base import SERIES
from snellen.reports.render import fill_template, read_asset, write_page
from snellen.reports.tables import metric_fields
from snellen.runs.reviews.judge_card import PEOPLE, ConfusionPart, JudgeCard
from snellen.scoring.metric_text import counted, span

RATE_TEXTS = {
    "error": "wrong verdicts",
    "false_right": "incorrect, of those marked right",
    "false_wrong": "correct, of the others",
    "sensitivity": "correct replies marked right",
    "specificity": "incorrect replies not marked right",
    "gold_error": "wrong gold answers",
}


def judge_card_page(cards: Sequence[JudgeCard]) -> str:
    """Return the page; it needs no network, and everything in it is escaped."""
    return fill_template(
        "judge_card.html.jinja",
        read_asset("report.css") + read_asset("features.css"),
        "",
        title="Judge card" if len(cards) == 1 else "Judge cards",
        cards=[_card_fields(card, number % SERIES + 1) for number, card in enumerate(cards)],
        rates=RATE_TEXTS,
    )


def write_judge_cards(cards: Sequence[JudgeCard], out: Path) -> Path:
    """Write the page to `out` and return `out`. Raises StorageError."""
    return write_page(judge_card_page(cards), out)


def _card_fields(card: JudgeCard, colour: int) -> dict[str, Any]:
    counts = card.parts[0].counts
    used = [word for word in PEOPLE if any(word in cells for cells in counts.values())]
    return {
        "judge": card.judge,
        "colour": colour,
        "facts": [
            ("benchmarks", ", ".join(card.benchmarks)),
            ("runs", ", ".join(Path(run).name for run in card.runs)),
            ("reviewers", ", ".join(card.reviewers)),
            ("decisions", "random audit samples" if card.design == "audit" else "all, the queue included"),
            ("replies", f"{card.parts[0].n:,}"),
        ],
        "people": used,
        "confusion": [(marked, [f"{cells.get(word, 0):,}" for word in used]) for marked, cells in counts.items()],
        "parts": [_part_fields(part) for part in card.parts],
        "notes": card.notes,
    }


def _part_fields(part: ConfusionPart) -> dict[str, Any]:
    cells = {metric.name: {**metric_fields(metric), "n": counted(metric.n, metric.interval)} for metric in part.metrics}
    kappa = part.kappa
    return {
        "name": part.name,
        "n": f"{part.n:,}",
        "cells": [cells.get(rate) for rate in RATE_TEXTS],
        "kappa": "–" if kappa.value is None else f"{kappa.value:.2f}",
        "kappa_interval": span(kappa.ci95, ".2f"),
    }
