"""The reviewers' desk: journals and audit samples of the runs below the root, and queues of cases over runs of one benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from msgspec import structs

from snellen.errors import SnellenError
from snellen.runs.reviews.audit_sample import AUDIT_SAMPLE, AuditSample, draw_place, read_audit_sample
from snellen.runs.reviews.cases import (
    JUDGE,
    MARGIN,
    MODELS,
    PROFILES,
    READING,
    UNPARSEABLE,
    QueuedCase,
    ReviewCase,
    ReviewQueue,
)
from snellen.runs.reviews.decisions import VerdictReview, decision_id, disputed
from snellen.runs.reviews.journal import ReviewJournal
from snellen.viewer.index import RunEntry, SampleCell, SamplePage, SampleQuery, Sort, ViewIndex
from snellen.viewer.index.pages import MOST_RUNS
from snellen.viewer.reviews.case_token import CasePlace

REVIEWABLE = frozenset({"right", "wrong", "partial", "unparseable"})
ORDERS: tuple[tuple[str, Sort], ...] = (
    *(("any unparseable", "id"), ("", "profiles"), ("", "reader"), ("", "judge"), ("", "disagree"), ("", "margin")),
)
"""Pattern and sort order of the pages of samples that a queue is made of; each brings one reason for doubt to the top."""
FIRST_ROWS, FEWEST_ROWS, FIRST_REPLIES = 200, 5, 1_000
"""Samples of each order that are queued at first, fewer of many runs; when all of them are decided, MOST_ROWS."""


@dataclass
class ReviewDesk:
    """Journals and queues, shared by all requests."""

    lock: RLock = field(default_factory=RLock)
    _journals: dict[Path, ReviewJournal] = field(default_factory=dict)
    _audits: dict[Path, tuple[int, AuditSample | None]] = field(default_factory=dict)
    _queues: dict[tuple[object, ...], tuple[str, ReviewQueue]] = field(default_factory=dict)

    def journal(self, run: Path) -> ReviewJournal:
        """Return the decisions on a run, with those that were added since. Raises RunError if they cannot be read."""
        with self.lock:
            journal = self._journals.get(run)
            if journal is None:
                journal = self._journals[run] = ReviewJournal(run)
            else:
                journal.refresh()
            return journal

    def faults(self, entry: RunEntry, most: int) -> list[str]:
        """Describe what is damaged in the decisions on a run, which it names by its key: exported pages hold no path."""
        try:
            lines = self.journal(entry.path).faults()[:most]
        except SnellenError as error:
            lines = [error.message]
        return [line.replace(str(entry.path), entry.key) for line in lines]

    def append(self, run: Path, review: VerdictReview, client_id: str) -> bool:
        """Write a decision that a page sent; return False if it is there already.

        Args:
            run: the run's folder.
            review: the decision, without an id.
            client_id: id of the page that it was made on; empty: the decision is written whatever there is.
        """
        if client_id:
            review = structs.replace(review, id=decision_id(client_id, review))
        with self.lock:
            return self.journal(run).append(review)

    def audit(self, run: Path) -> AuditSample | None:
        """Return the audit sample of a run; None if none was drawn. Raises RunError if it cannot be read."""
        try:
            written = (run / AUDIT_SAMPLE).lstat().st_mtime_ns
        except OSError:
            return None
        with self.lock:
            if run not in self._audits or self._audits[run][0] != written:
                self._audits[run] = (written, read_audit_sample(run))
            return self._audits[run][1]

    def doubtful(self, index: ViewIndex, entries: Sequence[RunEntry], profile: str, rows: int = 0) -> ReviewQueue:
        """Return the replies of runs of one benchmark, the most doubtful first, kept while the index is the same.

        Of more samples than `rows` (0: as many as are opened in a moment), those that some reason for doubt brings to the top are queued.
        """
        rows = rows or max(FEWEST_ROWS, min(FIRST_ROWS, FIRST_REPLIES // max(1, len(entries))))
        name = (tuple(entry.key for entry in entries), profile, rows)
        with self.lock:
            known = self._queues.get(name)
            if known is None or known[0] != index.version:
                if len(self._queues) > 50:
                    self._queues.clear()
                known = self._queues[name] = (index.version, _doubtful(index, entries, profile, rows))
            return known[1]

    def audited(self, entries: Iterable[RunEntry]) -> ReviewQueue:
        """Return the cases of the audit samples of some runs, mixed in an order that depends on the draws alone."""
        cases, notes, total = [], [], 0
        for entry in entries:
            try:
                sample = self.audit(entry.path)
            except SnellenError as error:
                notes.append(error.message.replace(str(entry.path), entry.key))
                continue
            if sample is not None:
                total += sample.population
                cases += [
                    (draw_place(sample.seed, (f"{entry.key}/{case.sample_id}", case.repeat)), entry.key, case.key)
                    for case in sample.cases
                ]
        ordered = tuple(QueuedCase(CasePlace(run, *key)) for _, run, key in sorted(cases))
        return ReviewQueue(ordered, total, tuple(notes))

    def disputes(self, entries: Iterable[RunEntry]) -> ReviewQueue:
        """Return the replies about which reviewers disagree, in the order in which the disputes came up."""
        cases = [
            QueuedCase(CasePlace(entry.key, *key), ("reviewers disagree",))
            for entry in entries
            for key, reviewers in self.journal(entry.path).standing.items()
            if disputed(reviewers)
        ]
        return ReviewQueue(tuple(cases), len(cases))


def _doubtful(index: ViewIndex, entries: Sequence[RunEntry], profile: str, rows: int) -> ReviewQueue:
    cases: dict[CasePlace, ReviewCase] = {}
    notes = dict[str, None]()
    sources: dict[tuple[str, ...], list[RunEntry]] = {}
    for entry in entries:
        sources.setdefault(entry.sample_source, []).append(entry)
    for runs in sources.values():  # models disagree only about the same samples
        for start in range(0, len(runs), MOST_RUNS):
            notes |= dict.fromkeys(_add_doubtful(cases, index, runs[start : start + MOST_RUNS], profile, rows))
        if len(runs) > MOST_RUNS:
            notes[f"whether models disagree is told of {MOST_RUNS} runs at a time"] = None
    ordered = sorted(
        cases.items(), key=lambda item: (-item[1].doubt, draw_place(0, (f"{item[0].run}/{item[1].sample_id}", 0)))
    )
    queued = tuple(QueuedCase(place, tuple(name for name, _ in case.doubts)) for place, case in ordered)
    return ReviewQueue(queued, sum(entry.indexed for entry in entries), tuple(notes))


def _add_doubtful(
    cases: dict[CasePlace, ReviewCase], index: ViewIndex, entries: Sequence[RunEntry], profile: str, rows: int
) -> tuple[str, ...]:
    """Add the most doubtful replies of runs over the same samples; return what a reader must know."""
    keys = tuple(entry.key for entry in entries)
    notes = dict[str, None]()
    applies = {
        "profiles": any(len(entry.profiles) != 1 for entry in entries),
        "judge": any(entry.judged for entry in entries),
        "reader": any(entry.read for entry in entries),
        "disagree": len(entries) > 1,
    }
    for pattern, sort in ORDERS:
        if not applies.get(sort, True):
            continue
        query = SampleQuery(entries[0].benchmark, keys, profile, pattern=pattern, sort=sort, limit=rows)
        page = index.samples(query)
        for place, case in _cases(page):
            cases.setdefault(place, case)
        notes |= dict.fromkeys(page.notes)
        if not pattern and page.total <= rows:
            break
    return tuple(notes)


def _cases(page: SamplePage) -> Iterator[tuple[CasePlace, ReviewCase]]:
    for row in page.rows:
        verdicts = [cell.verdict for cell in row.cells if cell.verdict in REVIEWABLE]
        right = verdicts.count("right")
        share = right / len(verdicts) if verdicts else 0.0
        for run, cell in zip(page.runs, row.cells, strict=True):
            if cell.verdict not in REVIEWABLE and not (cell.verdict == "unscored" and cell.judge_unsure):
                continue
            case = ReviewCase(
                sample_id=row.sample_id,
                repeat=row.repeat,
                verdict=cell.verdict,
                value=cell.value,
                doubts=tuple(_doubts(cell, share, row.margin)),
            )
            yield CasePlace(run, row.sample_id, row.repeat), case


def _doubts(cell: SampleCell, share: float, margin: float | None) -> Iterator[tuple[str, float]]:
    if cell.verdict == "unparseable":
        yield UNPARSEABLE, 1.0
    if cell.profiles_differ:
        yield PROFILES, 1.0
    if cell.read_by_model:
        yield READING, 1.0
    if cell.judge_unsure:
        yield JUDGE, 1.0
    if 0.0 < share < 1.0:
        yield MODELS, 4.0 * share * (1.0 - share)
    if cell.value is not None and 0.0 < cell.value < 1.0:
        yield MARGIN, 1.0 - abs(2.0 * cell.value - 1.0)
    elif margin is not None and margin < 1.0:
        yield MARGIN, 1.0 - margin
