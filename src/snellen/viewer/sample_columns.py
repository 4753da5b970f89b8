"""Runs and rows that pages about samples share: which runs are columns, and the addresses and pictures of rows."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from snellen.types import Image
from snellen.viewer.index import CellVerdict, ImageRef, RunEntry, SamplePage, SampleRow, Sort
from snellen.viewer.index.entries import with_commonest_samples
from snellen.viewer.index.sample_page import RunColumn, column_letter
from snellen.viewer.labels import benchmark_label, model_label
from snellen.viewer.site import MissingPageError, Site
from snellen.viewer.states import CaseState, SamplesState
from snellen.viewer.thumbnails import copy_or_placeholder

MOST_COLUMNS = 24
"""Columns that are shown without being chosen."""
DEFAULT_SORT: Sort = "wrong"
VERDICT_ORDER: tuple[CellVerdict, ...] = (
    "right",
    "partial",
    "wrong",
    "unparseable",
    "failed",
    "missing",
    "unscored",
    "unknown",
)


class SampleColumns(NamedTuple):
    """The runs of a samples page.

    Attributes:
        benchmark: their benchmark.
        shown: those that are columns, in the order of their letters.
        others: the other runs of the benchmark.
        default: those that are columns if the address names none.
        notes: what a reader must know, one line each.
    """

    benchmark: str
    shown: tuple[RunEntry, ...]
    others: tuple[RunEntry, ...]
    default: tuple[RunEntry, ...]
    notes: tuple[str, ...]

    @property
    def pattern_columns(self) -> list[RunColumn]:
        """Return the letter and the names that a verdict pattern may call each run by."""
        return [
            RunColumn(column_letter(place), (entry.key, entry.path.name, model_label(entry.model)))
            for place, entry in enumerate(self.shown)
        ]


def sampled_benchmarks(entries: Sequence[RunEntry]) -> dict[str, int]:
    """Count the runs of each benchmark that has samples to show; runs of judges are shown with the runs that they judge."""
    return dict(sorted(Counter(entry.benchmark for entry in entries if entry.benchmark and not entry.judges).items()))


def choose_columns(entries: Sequence[RunEntry], state: SamplesState) -> SampleColumns:
    """Choose the benchmark and the runs of a page: those of the address, else all of the benchmark, by model and folder.

    Raises:
        MissingPageError: there is no run of the benchmark.
    """
    counts = sampled_benchmarks(entries)
    by_key = {entry.key: entry for entry in entries}
    chosen = [by_key[key] for key in state.runs if key in by_key]
    benchmark = (
        state.benchmark or next((entry.benchmark for entry in chosen), "") or max(counts, key=counts.__getitem__)
    )
    if benchmark not in counts:
        raise MissingPageError(
            f"no run of benchmark {benchmark[:80]!r} lies below this folder",
            f"There are runs of {', '.join(map(benchmark_label, counts))[:300]}.",
        )
    runs = sorted(
        (entry for entry in entries if entry.benchmark == benchmark and not entry.judges),
        key=lambda entry: (_natural(model_label(entry.model)), entry.key),
    )
    notes = []
    if absent := [key for key in state.runs if key not in by_key or by_key[key].benchmark != benchmark]:
        notes.append(f"Not a run of {benchmark_label(benchmark)} below this folder: {', '.join(absent)[:300]}.")
    alike = with_commonest_samples(runs)
    default = tuple(alike[:MOST_COLUMNS])
    by_key = {entry.key: entry for entry in chosen if entry in runs}
    column_runs = tuple(by_key.values()) or default
    if not by_key and len(alike) > MOST_COLUMNS:
        notes.append(f"{MOST_COLUMNS} of {len(alike):,} runs are shown. Choose others under Runs.")
    if not by_key and (others_count := len(runs) - len(alike)):
        verb = "run over other samples is" if others_count == 1 else "runs over other samples are"
        notes.append(f"{others_count:,} {verb} not shown (version, data, options or seed differ). Choose under Runs.")
    others = tuple(entry for entry in runs if entry not in column_runs)
    return SampleColumns(benchmark, column_runs, others, default, tuple(notes))


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts `model-2` before `model-10`."""
    parts = re.split(r"([0-9]{1,18})", text.casefold())
    return [(int(part), "") if part.isdigit() and part.isascii() else (-1, part) for part in parts]


def case_state(state: SamplesState, benchmark: str, sample_id: str, repeat: int) -> CaseState:
    """Return the address of a sample's case, with the filters that its neighbours are walked by."""
    fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    return CaseState(**{**fields, "benchmark": benchmark, "sql": ""}, sample=sample_id, repeat=repeat)


def offered(site: Site, image: ImageRef, page: Sequence[str] = ()) -> str:
    """Make the small copy of an image available to a page, and return its digest; `page` has the places of all its images."""
    digest: str = site.thumbnails.offer(
        image.digest, lambda: copy_or_placeholder(lambda: Image(site.index.image(image.place, page)))
    )
    return digest


def image_places(rows: Sequence[SampleRow]) -> tuple[str, ...]:
    """Return the places of the images that rows show."""
    return tuple(row.images[0].place for row in rows if row.images)


def place_of(row: SampleRow) -> tuple[str, int]:
    """Return the place of a row's first image: its set of samples, and the number of the sample in the benchmark's order."""
    samples, _, rest = row.images[0].place.partition(":")
    return samples, int(rest.partition(":")[0])


def telling_slices(page: SamplePage) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the fields that tell samples apart: those with two values or more, except the target's own."""
    return {
        name: values for name, values in page.slices.items() if len(values) > 1 and name not in ("target", "answer")
    }


def pattern_presets(runs: int) -> list[str]:
    """Return the patterns that most readers begin with."""
    if runs == 1:
        return ["A right", "A not right", "A unparseable", "A failed"]
    flips = ["A right and B not right", "B right and A not right"] if runs == 2 else []
    return [*flips, "none right", "all right", "any unparseable", "any failed"]
