"""Records of a journal on their way into columns, and the counts over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from snellen.engine.request_errors import one_line
from snellen.engine.resume import uncounted_part
from snellen.engine.run_folder import Totals
from snellen.viewer.index.journal_tail import JournalRow
from snellen.viewer.index.run_state import OTHER_STATUS, ROWS, STATUSES, FailureKind, RunIndexState

ROWS_FLUSH = 1 << 15
MOST_FAILURES = 100_000
"""Failures without an answer that are held; more are not counted by kind."""
_INT64, _INT32 = (1 << 62), (1 << 30)


class JournalTotals:
    """Counts over the records of a journal that is read in steps.

    An answer to a sample that failed before takes its failure's place.
    """

    def __init__(self, state: RunIndexState) -> None:
        self._state = state
        self.counts: Counter[str] = Counter(state.counts)
        self.failures: dict[tuple[str, int], tuple[str, str]] = {
            (name, repeat): (kind, message) for name, repeat, kind, message in state.open_failures
        }
        self.tokens_in, self.tokens_out = state.totals.input_tokens, state.totals.output_tokens
        self.cost, self.started, self.ended = state.totals.cost, state.started, state.ended
        self.oversized, self.uncounted = state.totals.oversized_images, False
        self.cost_lacks: Counter[str] = Counter(state.totals.uncounted)

    def add(self, row: JournalRow) -> None:
        """Count a record."""
        key = (row.sample_id, row.repeat)
        if row.status in ("ok", "refused"):
            self.counts[row.status] += 1
            if self.failures:
                self.failures.pop(key, None)
        elif len(self.failures) < MOST_FAILURES:
            error = row.error
            kind, message = (row.status, "") if error is None else (error.kind, one_line(error.message))
            self.failures[key] = (f"{row.status}\0{kind}", message)
        if row.response is not None:
            usage = row.response.usage
            self.tokens_in = min(self.tokens_in + max(usage.input_tokens, 0), _INT64)
            self.tokens_out = min(self.tokens_out + max(usage.output_tokens, 0), _INT64)
            if usage.cost is not None:
                self.cost = (self.cost or 0.0) + usage.cost
            if part := uncounted_part(usage, sent=bool(row.response.latency_s or row.response.batch)):
                self.cost_lacks[part] += 1
            self.uncounted |= bool(row.response.batch) and row.response.oversized_images is None
            if row.response.oversized_images is not None:
                self.oversized = (self.oversized or 0) + max(row.response.oversized_images, 0)
        if row.started_at > 0 and (self.started is None or row.started_at < self.started):
            self.started = row.started_at
        if row.finished_at > 0 and (self.ended is None or row.finished_at > self.ended):
            self.ended = row.finished_at

    def put(self, state: RunIndexState) -> None:
        """Write the counts to a state."""
        statuses: Counter[str] = Counter()
        kinds: dict[str, Counter[str]] = {}
        for kind, message in self.failures.values():
            status, _, name = kind.partition("\0")
            statuses[status] += 1
            kinds.setdefault(name, Counter())[message] += 1
        ranked = sorted(kinds.items(), key=lambda item: -sum(item[1].values()))
        state.failures = [FailureKind(kind, sum(texts.values()), texts.most_common(1)[0][0]) for kind, texts in ranked]
        state.totals = Totals(
            ok=self.counts["ok"],
            refused=self.counts["refused"],
            error=sum(statuses.values()) - statuses["timeout"],
            timeout=statuses["timeout"],
            input_tokens=self.tokens_in,
            output_tokens=self.tokens_out,
            cost=self.cost,
            oversized_images=None if self.oversized is None or self.uncounted else min(self.oversized, _INT64),
            uncounted=dict(self.cost_lacks),
        )
        state.counts = dict(self.counts)
        state.open_failures = [(name, repeat, *text) for (name, repeat), text in self.failures.items()]
        state.started, state.ended = self.started, self.ended


def journal_columns(
    rows: Iterator[tuple[int, int, JournalRow]], totals: JournalTotals
) -> tuple[list[str], dict[str, Any]]:
    """Read up to ROWS_FLUSH records as columns."""
    ids: list[str] = []
    columns: dict[str, list[Any]] = {field.name: [] for field in ROWS if field.name != "ordinal"}
    for _, (at, size, row) in zip(range(ROWS_FLUSH), rows, strict=False):
        totals.add(row)
        ids.append(row.sample_id)
        response = row.response
        usage = None if response is None else response.usage
        columns["repeat"].append(row.repeat)
        columns["status"].append(STATUSES.index(row.status) if row.status in STATUSES else OTHER_STATUS)
        columns["at"].append(at)
        columns["size"].append(size)
        columns["attempts"].append(_clip(row.attempts, _INT32))
        columns["latency_s"].append(None if response is None else response.latency_s)
        columns["input_tokens"].append(None if usage is None else _clip(usage.input_tokens, _INT64))
        columns["output_tokens"].append(None if usage is None else _clip(usage.output_tokens, _INT64))
        columns["cost"].append(None if usage is None else usage.cost)
        columns["started_at"].append(row.started_at)
        columns["finished_at"].append(row.finished_at)
        columns["error_kind"].append(None if row.error is None else row.error.kind)
    return ids, columns


def _clip(number: int, most: int) -> int:
    return max(-most, min(number, most))


def id_array(texts: list[str]) -> pa.Array:
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([text.encode("utf-8", "replace").decode() for text in texts], pa.string())
