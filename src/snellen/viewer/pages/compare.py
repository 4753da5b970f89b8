"""The compare page: paired differences of two or more runs, flips both ways, common errors, and slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from snellen.engine.fingerprint import differences
from snellen.engine.run_folder import RunFolder, RunMeta
from snellen.errors import DifferentSamplesError, SnellenError, UsageError
from snellen.runs.compare import comparable, same_questions
from snellen.runs.compared_runs import ComparedRun
from snellen.runs.run import load_run
from snellen.scoring.scores import Scores
from snellen.text import shorten
from snellen.viewer.comparison import (
    MOST_COMPARED,
    RIGHT_FROM,
    ComparedSide,
    RunComparison,
    check_sides,
    compare_sides,
)
from snellen.viewer.comparison_tables import (
    difference_rows,
    error_grid,
    error_rows,
    pair_grid,
    ranking_rows,
    series,
    slice_tables,
)
from snellen.viewer.index import RunEntry, SamplePage, SampleQuery
from snellen.viewer.index.entries import with_commonest_samples
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.links import Links
from snellen.viewer.pages.matrix import OptionLink, best_first
from snellen.viewer.sample_columns import image_places, offered
from snellen.viewer.score_matrix import benchmark_cells
from snellen.viewer.site import MissingPageError, PendingPageError, Site, ViewPage
from snellen.viewer.states import CaseState, CompareState, MatrixState, SamplesState

FLIPS = 8
"""Samples of each list of flips; the page Samples has all of them."""
MOST_SETTINGS = 12
"""Lines of settings in which two runs differ."""


@dataclass(frozen=True)
class FlipRow:
    """One sample on which two runs differ."""

    sample_id: str
    question: str
    address: str
    thumbnail: str


@dataclass(frozen=True)
class FlipList:
    """Samples that one run gets right and the other does not, the first of them, and a link to all."""

    right: str
    wrong: str
    rows: tuple[FlipRow, ...]
    total: int
    every: str


@dataclass(frozen=True)
class SideView:
    """One run at the head of the page."""

    letter: str
    colour: int
    entry: RunEntry
    n: str
    model: str
    note: str
    lead: str
    drop: str


def view(site: Site, state: CompareState) -> Mapping[str, Any]:
    """Make the comparison that an address asks for; without runs, the choice of them."""
    entries = {entry.key: entry for entry in site.index.runs()}
    if not state.runs and not state.models:
        return _chooser(site, entries.values(), state)
    if not state.runs:
        state = _resolve_models(list(entries.values()), state)
    check_sides(state.runs)
    unknown = [key for key in state.runs if key not in entries]
    if unknown:
        raise MissingPageError(f"there is no run {unknown[0]!r} here", "Select runs on the page Matrix.")
    chosen = [entries[key] for key in state.runs]
    notes = sample_notes(chosen, force=state.force, trust=site.settings.trust)
    sides = [_side(site, place, entry, state.profile) for place, entry in enumerate(chosen)]
    profile = state.profile or next(iter(chosen[0].metrics), "")
    comparison = compare_sides(sides, profile, [state.by] if state.by else None, _cluster(chosen[0]))
    rows, reach = difference_rows(comparison)
    ranking = comparison.ranking if len(sides) > 2 else None
    links = site.links
    listed = next((side for side in sides[1:] if side.entry.key == state.flips), sides[1])
    flips = _flips(site, sides[0], listed, profile)
    return {
        "chooser": (),
        "comparison": comparison,
        "runs": [_side_view(links, state, side, place) for place, side in enumerate(sides)],
        "benchmark": benchmark_label(chosen[0].benchmark),
        "addable": [(entry.key, model_label(entry.model)) for entry in _addable(entries.values(), chosen)]
        if site.live
        else [],
        "state_fields": _state_fields(state),
        "profiles": _profile_choices(links, state, chosen),
        "settings": setting_lines(chosen),
        "notes": (*notes, *_pairing_notes(comparison)),
        "differences": rows,
        "reach": f"{100 * reach:.0f}" if reach >= 0.1 else f"{100 * reach:.1f}",
        "ranking": ranking,
        "places": ranking_rows(ranking, sides) if ranking is not None else [],
        "grid": pair_grid(ranking, sides) if ranking is not None else [],
        "pair_address": lambda first, second: _pair_address(links, state, first, second),
        "flips": flips,
        "flip_choices": [
            OptionLink(f"{side.letter} against A", links.to(state.changed(flips=side.entry.key)), side is listed)
            for side in sides[1:]
        ]
        if len(sides) > 2 and links.live
        else [],
        "error_grid": error_grid(comparison) if len(sides) > 2 else [],
        "errors": error_rows(comparison),
        "right_from": RIGHT_FROM,
        "fields": _field_choices(links, state, comparison) if links.live else [],
        "tables": slice_tables(comparison),
    }


def _chooser(site: Site, entries: Any, state: CompareState) -> Mapping[str, Any]:
    """Return the page without runs: the benchmarks that have two runs or more, each with its comparison."""
    by_benchmark: dict[str, list[RunEntry]] = {}
    for entry in entries:
        if entry.benchmark and not entry.judges and entry.headline is not None:
            by_benchmark.setdefault(entry.benchmark, []).append(entry)
    chooser = []
    for name, runs in sorted(by_benchmark.items()):
        if len(runs) > 1:
            best = sorted(with_commonest_samples(runs), key=best_first)[:MOST_COMPARED]
            chooser.append(
                {
                    "benchmark": benchmark_label(name),
                    "runs": len(runs),
                    "matrix": site.links.to(MatrixState(benchmark=name)),
                    "compare": site.links.to(CompareState(runs=tuple(entry.key for entry in best))),
                    "compared": len(best),
                }
            )
    return {"chooser": chooser, "comparison": None, "benchmark": ""}


def _resolve_models(entries: Sequence[RunEntry], state: CompareState) -> CompareState:
    """Return the state with the runs of the models that it names, on its benchmark or on one that all have.

    Raises:
        UsageError: fewer than two models, or no benchmark that all of them have a run of.
    """
    if len(set(state.models)) < 2:
        raise UsageError("a comparison needs two or more models, and this address names one", "Select two or more.")
    listed = [entry for entry in entries if entry.model in state.models]
    cells = benchmark_cells(listed, state.profile, by_settings=False)
    missing = [model for model in state.models if (model, "") not in cells]
    if missing:
        raise UsageError(f"{missing[0]} has no run with a score here", "Select other models on the page Matrix.")
    names = [set(cells[model, ""]) for model in dict.fromkeys(state.models)]
    shared = sorted(set.intersection(*names))
    if state.benchmark:
        shared = [name for name in shared if name == state.benchmark]
    if not shared:
        raise UsageError(
            f"{' and '.join(dict.fromkeys(state.models))} have no benchmark in common",
            "Select models that have runs of the same benchmark on the page Matrix.",
        )
    keys = tuple(cells[model, ""][shared[0]].key for model in dict.fromkeys(state.models))
    return CompareState(runs=keys, profile=state.profile, by=state.by, force=state.force)


def _side(site: Site, place: int, entry: RunEntry, profile: str) -> ComparedSide:
    """Read the scores of one run from the index.

    Raises:
        UsageError: the run has no scores under this profile. MissingPageError: it has none at all yet.
    """
    if profile and entry.metrics and profile not in entry.metrics:
        raise UsageError(
            f"{entry.key} has no scores under the profile {profile!r}", f"It has: {', '.join(entry.metrics)}."
        )
    scores: Scores | None = site.index.scores(entry.key, profile)
    if scores is None or not len(scores):
        if site.live and entry.samples in ("waiting", "behind") and not entry.problems:
            raise PendingPageError(
                f"The verdicts of {entry.key} are being read.", "This page opens when they are there."
            )
        why = f": {entry.problems[0]}" if entry.problems else ""
        raise MissingPageError(
            f"the verdicts of {entry.key} are not in the index{why}",
            "Load this page again when the index is ready, or compare by `snellen compare`.",
        )
    return ComparedSide.of(place, entry, scores)


def sample_notes(entries: Sequence[RunEntry], *, force: bool, trust: bool = False) -> list[str]:
    """List what differs between runs besides what is compared: samples, gold answers, prompts, limits, repeats, states.

    Raises:
        UsageError: the runs are of other samples, and `force` is False.
    """
    first, notes = entries[0], []
    for entry in entries[1:]:
        try:
            lines = _differences(first, entry, force=force, trust=trust)
        except DifferentSamplesError as error:
            raise UsageError(
                f"{first.key} and {entry.key}: {error.message}",
                "Compare runs of one benchmark over the same data, or add &force=1 to the address to pair equal ids.",
            ) from error
        notes += [f"{entry.key} (the other) against {first.key} (the baseline): {line}." for line in lines]
    return notes


def _differences(first: RunEntry, other: RunEntry, *, force: bool, trust: bool) -> list[str]:
    """List the differences of two runs as `snellen compare` does; from run_meta.json alone where a run cannot be opened.

    Raises:
        DifferentSamplesError: they are of other samples, and `force` is False.
    """
    try:
        baseline, second = (ComparedRun(load_run(entry.path, trust=trust)) for entry in (first, other))
        return same_questions(baseline, second, force=force)
    except DifferentSamplesError:
        raise
    except SnellenError:  # a plug-in that is not trusted, a folder of another user, data that is gone
        metas = [_meta(entry) for entry in (first, other)]
    if metas[0] is not None and metas[1] is not None:
        return comparable(metas[0], metas[1], force=force)
    if sample_words(first) != sample_words(other) and not force:
        raise DifferentSamplesError(
            f"these runs did not answer the same samples: {sample_words(first)} and {sample_words(other)}"
        )
    return ["run_meta.json cannot be read, so their settings are unknown"]


def sample_words(entry: RunEntry) -> str:
    """Return benchmark, version and data of a run in words."""
    parts = [benchmark_label(entry.benchmark), f"version {entry.version}" if entry.version else "", entry.data[:16]]
    return ", ".join(part for part in parts if part)


def _meta(entry: RunEntry) -> RunMeta | None:
    """Return a run's meta; None for a folder that is not read as a run."""
    try:
        return RunFolder(entry.path).meta()
    except SnellenError:
        return None


def setting_lines(entries: Sequence[RunEntry]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the settings in which the runs differ, each with its value under every run."""
    identities = [meta.identity if (meta := _meta(entry)) is not None else {} for entry in entries]
    if not all(identities):
        return []
    names: dict[str, dict[int, str]] = {}
    for place, identity in enumerate(identities[1:], 1):
        for name, old, new in differences(identities[0], identity):
            line = names.setdefault(name, {})
            line[0], line[place] = _setting(old), _setting(new)
    return [
        (name, tuple(values.get(place, values[0]) for place in range(len(entries)))) for name, values in names.items()
    ][:MOST_SETTINGS]


def _setting(value: Any) -> str:
    return "–" if value is None else shorten(model_label(str(value)), 60)


def _pairing_notes(comparison: RunComparison) -> list[str]:
    """Say what was paired, and what was left out."""
    notes = []
    for pair in comparison.pairs:
        paired, who = pair.paired, f"{pair.other.letter} against {pair.baseline.letter}"
        parts = []
        if paired.only_baseline:
            parts.append(f"{paired.only_baseline:,} that only {pair.baseline.letter} has")
        if paired.only_other:
            parts.append(f"{paired.only_other:,} that only {pair.other.letter} has")
        if paired.unscored:
            parts.append(f"{paired.unscored:,} without a score in one of the two")
        if parts:
            notes.append(f"{who}: {len(paired):,} samples are paired; left out are {', '.join(parts)}.")
        failed = int((~paired.answered).sum())
        if failed:
            notes.append(
                f"{who}: {failed:,} of the paired samples have no answer from one of the two; they count as wrong in the "
                "difference and are left out of the common errors."
            )
    return notes


def _cluster(entry: RunEntry) -> str:
    """Return what the samples of a cluster share, as the intervals of a run's metrics name it; empty if none names it."""
    methods = (metric.interval for metrics in entry.metrics.values() for metric in metrics)
    return next((method.cluster for method in methods if method is not None and method.cluster), "")


def _side_view(links: Links, state: CompareState, side: ComparedSide, place: int) -> SideView:
    key = side.entry.key
    others = tuple(run for run in state.runs if run != key)
    note = "" if side.entry.shown_state == "complete" else side.entry.shown_state
    return SideView(
        side.letter,
        series(place + 1),
        side.entry,
        f"{len(side.questions.code):,}",
        model_label(side.entry.model),
        note,
        links.to(state.changed(runs=(key, *others), flips="")) if place and links.live else "",
        links.to(state.changed(runs=others, flips="")) if len(others) > 1 and links.live else "",
    )


def _addable(entries: Any, chosen: Sequence[RunEntry]) -> list[RunEntry]:
    """Return further runs of the same samples, for the form that adds one."""
    if len(chosen) >= MOST_COMPARED:
        return []
    first, keys = chosen[0], {entry.key for entry in chosen}
    return [
        entry
        for entry in entries
        if entry.key not in keys and sample_words(entry) == sample_words(first) and not entry.judges and entry.indexed
    ]


def _state_fields(state: CompareState) -> list[tuple[str, str]]:
    """Return the fields of the form that adds a run."""
    fields = [("runs", key) for key in state.runs]
    fields += [(name, value) for name, value in (("profile", state.profile), ("by", state.by)) if value]
    return fields + ([("force", "1")] if state.force else [])


def _profile_choices(links: Links, state: CompareState, entries: Sequence[RunEntry]) -> list[OptionLink]:
    """Return the profiles that every run has scores under, the default first; two runs alone have that in an export."""
    if len(entries) == 2 and not links.live:
        return []
    default = next(iter(entries[0].metrics), "")
    shared = [name for name in entries[0].metrics if all(name in entry.metrics for entry in entries)]
    return [
        OptionLink(
            name, links.to(state.changed(profile="" if name == default else name)), name == (state.profile or default)
        )
        for name in shared
    ]


def _pair_address(links: Links, state: CompareState, first: str, second: str) -> str:
    """Return the address of two runs alone; an export has those under the default profile."""
    if state.profile and not links.live:
        return ""
    return links.to(CompareState(runs=(first, second), profile=state.profile, force=state.force))


def _field_choices(links: Links, state: CompareState, comparison: RunComparison) -> list[OptionLink]:
    if not comparison.fields:
        return []
    return [
        OptionLink("first fields", links.to(state.changed(by="")), not state.by),
        *(
            OptionLink(name, links.to(state.changed(by=name)), name == state.by, f"{count}")
            for name, count in comparison.fields
        ),
    ]


def _flips(site: Site, baseline: ComparedSide, other: ComparedSide, profile: str) -> list[FlipList]:
    """List the samples that the other run wins, then those that it loses."""
    runs = (baseline.entry.key, other.entry.key)
    lists = []
    for pattern, right, wrong in (
        ("B right and not A right", other, baseline),
        ("A right and not B right", baseline, other),
    ):
        query = SampleQuery(baseline.entry.benchmark, runs, profile, pattern, limit=FLIPS)
        page: SamplePage = site.index.samples(query)
        every = SamplesState(benchmark=baseline.entry.benchmark, runs=runs, profile=profile, pattern=pattern)
        places = image_places(page.rows)
        rows = tuple(
            FlipRow(
                row.sample_id if not row.repeat else f"{row.sample_id} (repeat {row.repeat})",
                row.question,
                site.links.to(
                    CaseState(
                        benchmark=every.benchmark,
                        runs=runs,
                        profile=profile,
                        pattern=pattern,
                        sample=row.sample_id,
                        repeat=row.repeat,
                    )
                ),
                site.links.thumbnail(offered(site, row.images[0], places)) if row.images else "",
            )
            for row in page.rows
        )
        lists.append(FlipList(right.letter, wrong.letter, rows, page.total, site.links.to(every)))
    return lists


PAGE = ViewPage(state=CompareState, view=view, title="Compare")
