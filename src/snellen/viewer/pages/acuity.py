"""The acuity page: the card of up to three runs of acuity, or the table of thresholds of more, with links to their samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from snellen.reports.acuity.card import AnswerLinks, CardRun
from snellen.reports.acuity.page import acuity_card, acuity_head, threshold_table
from snellen.reports.views import MANY
from snellen.viewer.index import RunEntry
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.links import Links
from snellen.viewer.site import MissingPageError, Site, ViewPage
from snellen.viewer.states import AcuityState, SamplesState, slice_filter

MOST_RUNS = 12
"""Runs that the table has at most."""


class RunChoice(NamedTuple):
    """One run that can be chosen: its name, the page with it, and whether it is on this one."""

    name: str
    address: str
    active: bool


def view(site: Site, state: AcuityState) -> Mapping[str, Any]:
    """Make the card or the table of the runs that an address names."""
    entries = site.index.runs()
    by_key = {entry.key: entry for entry in entries}
    missing = [key for key in state.run if key not in by_key]
    if missing:
        raise MissingPageError(f"no run {missing[0][:80]!r} lies below this folder", "Choose one on the page Runs.")
    measuring = [entry for entry in entries if entry.measures_acuity]
    selected = [by_key[key] for key in dict.fromkeys(state.run)] if state.run else measuring[: MANY - 1]
    measurable = [entry for entry in selected if entry.measures_acuity][:MOST_RUNS]
    names = run_names(measuring)
    notes = [
        f"{entry.key} is a run of {benchmark_label(entry.benchmark) or 'an unknown benchmark'}, which measures no thresholds."
        for entry in selected
        if not entry.measures_acuity
    ]
    if len(selected) > MOST_RUNS:
        notes.append(f"The first {MOST_RUNS} of {len(selected):,} runs are shown.")
    runs: list[CardRun] = []
    for entry in measurable:
        measured = site.acuity.of(site.opened.open(entry.key, entry.path))
        if isinstance(measured, str):
            notes.append(f"{entry.key}: {measured}.")
        elif not measured.conditions:
            notes.append(f"{entry.key} has no answer yet.")
        else:
            runs.append(CardRun(names[entry.key], measured, len(runs) % 8 + 1, entry.key))
    links = answer_links(site.links, by_key)
    is_comparison = len(runs) >= MANY
    return {
        "runs": [(run, site.links.to(samples_of(by_key[run.key]))) for run in runs],
        "heads": [] if is_comparison else [acuity_head(run.view) for run in runs],
        "card": None if is_comparison else acuity_card(runs, links),
        "thresholds": threshold_table(runs, links) if is_comparison else None,
        "notes": notes,
        "choices": run_choices(site.links, measuring, names, {entry.key for entry in measurable}),
        "any": bool(measuring),
    }


def run_names(entries: Sequence[RunEntry]) -> dict[str, str]:
    """Return the model's name of each run, or its folder where a model has several."""
    models = Counter(model_label(entry.model) for entry in entries)
    return {
        entry.key: label if (label := model_label(entry.model)) and models[label] == 1 else entry.key
        for entry in entries
    }


def samples_of(entry: RunEntry, condition: str = "") -> SamplesState:
    """Return the samples page of a run, or of its answers to one condition."""
    where = (slice_filter("condition", condition),) if condition else ()
    return SamplesState(benchmark=entry.benchmark, runs=(entry.key,), where=where)


def answer_links(links: Links, entries: Mapping[str, RunEntry]) -> AnswerLinks:
    """Return the links of the card: to the samples of a condition, and from there to each case."""
    return AnswerLinks(lambda run, condition: links.to(samples_of(entries[run.key], condition)), "{} answers")


def run_choices(
    links: Links, entries: Sequence[RunEntry], names: Mapping[str, str], measurable: set[str]
) -> list[RunChoice]:
    """Return the runs that can be chosen: on the server one more or one fewer, in an export each alone."""
    choices = []
    for entry in entries:
        active = entry.key in measurable
        if not links.live:
            keys: tuple[str, ...] = (entry.key,)
        elif active:
            keys = tuple(other.key for other in entries if other.key in measurable and other is not entry)
        else:
            keys = tuple(other.key for other in entries if other.key in measurable or other is entry)
        choices.append(RunChoice(names[entry.key], links.to(AcuityState(run=keys or (entry.key,))), active))
    return choices


PAGE = ViewPage(state=AcuityState, view=view, title="Acuity", listed=False)
