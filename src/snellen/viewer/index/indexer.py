"""Bring the index of one run up to date: first its records, then verdicts, questions and replies; in steps that stay.

Both passes go on where the last one ended. A journal that was written anew, another judge's verdicts or other data make the
run's part of the index be built again.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import duckdb
import msgspec
import pyarrow as pa

from snellen import __version__
from snellen.benchmarks.base import Benchmark
from snellen.engine.data_paths import located
from snellen.engine.folder_checks import is_own
from snellen.engine.journal import record_name
from snellen.engine.request_errors import one_line
from snellen.engine.run_folder import RunFolder, Totals
from snellen.errors import RunError, SnellenError
from snellen.runs.answer_view import answer_view
from snellen.runs.judge.verdicts import find_readings, find_verdicts
from snellen.runs.reviews.cases import is_read
from snellen.runs.run import Run
from snellen.runs.scoring import SummaryBuilder, Verdicts, differing, profiles_of, rubric_for, scores_of
from snellen.scoring.calibration import confidence_of, option_probabilities
from snellen.scoring.rubric import read_verdict
from snellen.text import shorten
from snellen.types import VERDICTS as SCORE_VERDICTS
from snellen.types import Record, Sample, Score, Verdict
from snellen.viewer.index.database import (
    ANSWERS,
    JUDGE_UNSURE,
    PROFILES_DIFFER,
    READ_BY_MODEL,
    REPLIES,
    SAVED_COLUMN,
    SCORES,
    IndexDatabase,
    RunIndexState,
    SetState,
    TailState,
    plain,
    put_run,
    put_set,
    read_states,
    table_of,
)
from snellen.viewer.index.entries import FailureCount, RunEntry
from snellen.viewer.index.journal_tail import MOST_REPEATS, JournalTail, open_regular, record_table
from snellen.viewer.index.sample_page import VERDICTS
from snellen.viewer.index.samples import HeldSamples, SampleDescriber, SampleFeed

STEP_ROWS = 1 << 18
"""Records after which the first pass makes a step that stays."""
SCORED_STEP_ROWS, SCORED_STEP_CHARACTERS = 1 << 15, 16_000_000
LONG_BYTES, LONG_RECORDS = 4 << 20, 2_000
"""More than this is read while readers may have the index."""
MOST_SAMPLES_DESCRIBED = 5_000_000
UNSURE = (0.25, 0.75)
"""A judge's verdict worth more and less than this is no clear one."""
EXTRACTED_CHARACTERS, REASON_CHARACTERS = 300, 300
HEAD, TAIL = 6_000, 2_000
"""Characters of a reply that text search and SQL see: its beginning and its end."""
LINE_BYTES, PREDICTIONS = 1 << 20, 1 << 15
MOST_TOKENS = 1 << 62
CODES: Mapping[str, int] = {
    **{verdict: code for code, verdict in enumerate(VERDICTS)},
    **dict(
        zip(
            ("correct", "invalid", "error"),
            (VERDICTS.index(name) for name in ("right", "unparseable", "failed")),
            strict=True,
        )
    ),
}
"""Code of a verdict, by its name on pages and in scores."""
_ANSWER = "CASE WHEN extracted IS NULL THEN 0 ELSE hash(lower(trim(extracted))) % 4294967295 + 1 END"
"""A number that is equal for equal answers, 0 for none."""
_PREDICTIONS = "sample_id VARCHAR, verdict VARCHAR, extracted VARCHAR, reason VARCHAR, repeat BIGINT"


class _Prediction(msgspec.Struct, gc=False):
    id: str
    verdict: Verdict
    extracted: Any = None
    reason: str | None = None
    repeat: Annotated[int, msgspec.Meta(ge=0, le=MOST_REPEATS)] = 0


@dataclass
class OpenRun:
    """What following a run needs between two looks at it: its samples, its scorers and the sums of its scores."""

    run: Run
    benchmark: Benchmark
    verdicts: Verdicts | None
    feed: SampleFeed
    describer: SampleDescriber
    builder: SummaryBuilder | None
    failed: dict[tuple[str, int], int] = field(default_factory=dict)


class RunIndexer:
    """Writer of the runs' parts of an index. One in all processes works at a time (IndexDatabase.writing).

    Args:
        database: the index.
        gold: True where gold answers of restricted sets may be in it.
        trust: the authors of all run folders are trusted (snellen.runs.trust).
    """

    def __init__(self, database: IndexDatabase, *, gold: bool = False, trust: bool = False) -> None:
        self._database, self._gold, self._trust = database, gold, trust
        self._held = HeldSamples()
        self._open: dict[str, OpenRun] = {}
        self._states: dict[str, RunIndexState] = {}
        self._sets: dict[str, SetState] = {}
        self._version: tuple[int, ...] | None = None

    def begin(self) -> None:
        """Read what the index holds, unless this process was the last one to change it."""
        self._database.give_back()
        with self._database.unchanged() as self._database.holds:
            known = self._database.holds and self._version == self._database.version
        if not known:
            self._open.clear()
            self._states, self._sets = self._saved()

    def end(self) -> None:
        """Give the index back to its readers."""
        self._database.give_back()
        self._version = self._database.version

    def forget(self, key: str) -> None:
        """Forget what is not in the index of a run, and of those of the same samples: a change of it has failed."""
        self._database.give_back()
        name = self._states[key].set_name if key in self._states else ""
        self._open = {other: opened for other, opened in self._open.items() if opened.describer.state.name != name}
        self._states, sets = self._saved()
        described = {opened.describer.state.name: opened.describer.state for opened in self._open.values()}
        self._sets = {name: described.get(name, state) for name, state in sets.items()}

    def _saved(self) -> tuple[dict[str, RunIndexState], dict[str, SetState]]:
        with self._database.reading() as database:
            self._database.holds = database is not None
            if database is None:
                self._open.clear()
                return {}, {}
            return read_states(database)

    def sweep(self, keys: Collection[str]) -> None:
        """Remove what the index holds of other runs than these, and the samples that no run was asked."""
        gone = [state.run for key, state in self._states.items() if key not in keys]
        used = {state.set_no for key, state in self._states.items() if key in keys}
        unused = [state.set_no for state in self._sets.values() if state.set_no not in used]
        if gone or unused:
            with self._database.change() as database:
                for run in gone:
                    _delete(database, run)
                for table in ("set_states", "sample_rows"):
                    database.execute(f"DELETE FROM {table} WHERE set_no IN (SELECT unnest(?))", [unused])
            self._states = {key: state for key, state in self._states.items() if key in keys}
            self._sets = {name: state for name, state in self._sets.items() if state.set_no in used}

    def close(self, key: str) -> None:
        """Forget what following a run needed."""
        self._open.pop(key, None)

    def add_records(self, entry: RunEntry) -> RunIndexState:
        """Bring the records of a run up to date, with the verdicts that its own predictions.jsonl has.

        Raises:
            RunError: its journal cannot be read. StorageError: the index cannot be written.
        """
        path = entry.path / "results.jsonl"
        state = self._states.get(entry.key)
        tail = JournalTail(path, TailState() if state is None else state.tail, repeats=_repeats(entry))
        stamp = results_stamp(path)
        if (
            state is None
            or state.set_name != set_name(entry)
            or (stamp[0] == state.results[0] and stamp != state.results)
            or not tail.continues()
        ):
            state = self._anew(entry)
            tail = JournalTail(path, repeats=_repeats(entry))
        if stamp != state.results:
            self._read(state, tail, stamp)
        if not state.saved and not state.scored and state.recorded and entry.verified and _is_current(entry.path):
            self._add_saved(entry, state)
        return state

    def _anew(self, entry: RunEntry) -> RunIndexState:
        """Begin the part of a run with nothing."""
        self.close(entry.key)
        before, name = self._states.get(entry.key), set_name(entry)
        run = 1 + max((each.run for each in self._states.values()), default=0) if before is None else before.run
        if name not in self._sets:
            number = 1 + max((each.set_no for each in self._sets.values()), default=0)
            self._sets[name] = SetState(name, number, entry.benchmark)
        state = RunIndexState(entry.key, run, set_name=name, set_no=self._sets[name].set_no)
        with self._database.change() as database:
            if before is not None:
                _delete(database, run)
            put_run(database, state)
            put_set(database, self._sets[name])
        self._states[entry.key] = state
        return state

    def _read(self, state: RunIndexState, tail: JournalTail, stamp: tuple[int, int, int, int]) -> None:
        rows = iter(tail.rows()) if stamp[0] else iter(())
        whole = False
        while not whole:
            if stamp[0] - tail.state.offset > LONG_BYTES:
                self._database.give_back()
            table = record_table(rows, state.recorded, STEP_ROWS)
            whole = table.num_rows < STEP_ROWS
            try:
                state.tail = tail.position()
            except OSError as error:
                raise RunError(
                    f"{tail.path} cannot be read: {error.strerror or error}", "Check its permissions."
                ) from error
            with self._database.change() as database:
                if table.num_rows:
                    _add_records(database, state.run, table)
                if table.num_rows and state.saved:  # they are of fewer records
                    database.execute("DELETE FROM score_rows WHERE run = ? AND col = ?", [state.run, SAVED_COLUMN])
                    state.saved = 0
                state.recorded += table.num_rows
                _count(database, state)
                if whole:
                    state.results = stamp
                put_run(database, state)
            self._database.rest()

    def _add_saved(self, entry: RunEntry, state: RunIndexState) -> None:
        """Add the verdicts of predictions.jsonl: they are known before the questions are read."""
        if state.recorded > LONG_RECORDS:
            self._database.give_back()
        try:
            predictions = _predictions(entry.path / "predictions.jsonl")
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return
        if not len(predictions):
            return
        secret = entry.restricted and not self._gold
        shown = "NULL AS extracted, NULL AS reason" if secret else "extracted, reason"
        with self._database.change() as database:
            database.register("predictions", predictions)
            database.execute(
                f"""INSERT INTO score_rows BY NAME
                SELECT run, number, code, r.repeat, counts, {SAVED_COLUMN} AS col,
                    CASE WHEN status NOT IN ('ok', 'refused') THEN {CODES["failed"]}
                        ELSE coalesce(list_position($verdicts, verdict), {CODES["unknown"]}) END AS verdict,
                    CASE verdict WHEN 'correct' THEN 1 WHEN 'wrong' THEN 0 WHEN 'invalid' THEN 0 WHEN 'error' THEN 0 END AS value,
                    {_ANSWER} AS answer, 0 AS flags, {shown}
                FROM record_rows r LEFT JOIN (
                    SELECT * FROM predictions QUALIFY row_number() OVER (PARTITION BY sample_id, repeat) = 1
                ) p ON p.sample_id = r.sample_id AND p.repeat = r.repeat
                WHERE run = $run ORDER BY number""",
                {"verdicts": list(SCORE_VERDICTS), "run": state.run},
            )
            database.unregister("predictions")
            state.saved, state.saved_profile = state.recorded, next(iter(entry.metrics), "")
            put_run(database, state)

    def add_verdicts(self, entry: RunEntry) -> RunIndexState | None:
        """Bring verdicts, questions and replies of a run up to date with its records in the index.

        Raises:
            RunError: its journal cannot be read. StorageError: the index cannot be written.
        """
        state = self._states.get(entry.key)
        if state is None:
            return None
        basis = self._basis(entry)
        if state.basis != basis:
            self.close(entry.key)
            state.covered = state.scored = state.metrics_rows = 0
            state.profiles, state.why_unknown, state.metrics, state.basis = {}, "", {}, basis
            state.has_confidence = False
            with self._database.change() as database:
                _delete_scores(database, state.run)
                put_run(database, state)
        again = bool(state.why_unknown) and state.data != _data_stamps(entry.path)
        if not again and state.covered == state.recorded and (state.covered or state.profiles or state.why_unknown):
            return state
        self._database.give_back()  # opening the data may take long
        opened = self._open.get(entry.key)
        if opened is None or state.covered == 0:
            opened = self._begin(entry, state)
            if opened is not None and state.scored < state.covered:  # its data was away
                state.covered = state.scored = 0
                with self._database.change() as database:
                    _delete_scores(database, state.run)
                    put_run(database, state)
            if opened is not None and state.covered:  # the viewer was started anew
                self._pass_over(entry, state, opened)
        if opened is not None and entry.state == "running":
            self._open[entry.key] = opened
        self._score_rest(entry, state, opened)
        return state

    def _begin(self, entry: RunEntry, state: RunIndexState) -> OpenRun | None:
        """Open a run for scoring; None, and the reason in its state, where its benchmark or its data is not available."""
        try:
            folder = RunFolder(entry.path)
            run = Run(folder, located(folder, folder.meta()), trust=self._trust)
            benchmark = run.benchmark
            profiles_of(benchmark, "all")
            gold = self._gold or not (entry.restricted or benchmark.restricted)
            describer = SampleDescriber(self._database, self._sets[state.set_name], gold=gold)
            begin = self._held.begin(state.set_name, benchmark, run.meta.spec.data)
            builder = None if entry.verified else SummaryBuilder(benchmark, benchmark.score, run.verdicts())
            opened = OpenRun(run, benchmark, run.verdicts(), SampleFeed(begin, describer.add), describer, builder)
        except SnellenError as error:
            state.profiles, state.why_unknown, state.data = {}, one_line(error.message), _data_stamps(entry.path)
            return None
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is named on the page
            state.profiles, state.data = {}, _data_stamps(entry.path)
            state.why_unknown = f"its benchmark failed: {type(error).__name__}: {one_line(str(error))}"
            return None
        state.profiles, state.why_unknown = _profile_columns(benchmark), ""
        return opened

    def _score_rest(self, entry: RunEntry, state: RunIndexState, opened: OpenRun | None) -> None:
        withheld = entry.restricted or (opened is not None and opened.benchmark.restricted)
        secret = withheld and not self._gold
        whole = False
        while not whole:
            self._database.give_back()  # reading samples and scoring may take long
            scored = _ScoredRows(state.profiles if opened is not None else {})
            try:
                for row, record in self._journal_records(entry, state, state.covered):
                    self._add(scored, opened, row, record, secret=secret)
                    if scored.is_full:
                        break
            except Exception as error:  # a scorer or a data file may raise anything
                if opened is None:
                    raise
                self.close(entry.key)
                reason = error.message if isinstance(error, SnellenError) else f"{type(error).__name__}: {error}"
                state.covered, state.scored, state.profiles, state.why_unknown = 0, 0, {}, one_line(reason)
                state.data = _data_stamps(entry.path)
                with self._database.change() as database:
                    opened.describer.save(database)
                    _delete_scores(database, state.run)
                opened = None
                continue
            state.covered += scored.rows
            whole = state.covered >= state.recorded or not scored.rows
            if opened is not None:
                state.scored = state.covered
                state.has_confidence |= scored.has_confidence
                if whole:
                    self._sum_up(entry, state, opened)
            self._save(state, scored, opened, whole=whole)
            self._database.rest()

    def _save(self, state: RunIndexState, scored: _ScoredRows, opened: OpenRun | None, *, whole: bool) -> None:
        with self._database.change() as database:
            scored.save(database, state.run)
            if opened is not None:
                opened.describer.save(database)
            if whole and opened is not None:
                database.execute("DELETE FROM score_rows WHERE run = ? AND col = ?", [state.run, SAVED_COLUMN])
                state.saved = 0
            database.execute("DELETE FROM profile_columns WHERE run = ?", [state.run])
            for name, column in state.profiles.items():
                database.execute("INSERT INTO profile_columns VALUES (?, ?, ?)", [state.run, name, column])
            put_run(database, state)

    def _journal_records(self, entry: RunEntry, state: RunIndexState, first: int) -> Iterator[tuple[_Row, Record]]:
        """Yield the records of the index from a number on, some at most, read from the journal."""
        with self._database.current() as database:
            rows = database.execute(
                "SELECT number, code, repeat, counts, place, size FROM record_rows WHERE run = ? AND number >= ? AND number < ? "
                "ORDER BY number",
                [state.run, first, first + SCORED_STEP_ROWS],
            ).fetchall()
        if not rows:
            return
        decode = msgspec.json.Decoder(Record).decode
        with open_regular(entry.path / "results.jsonl") as file:
            for *row, at, size in rows:
                if file.tell() != at:
                    file.seek(at)
                try:
                    yield tuple(row), decode(file.read(size))
                except (ValueError, RecursionError) as error:
                    raise RunError(f"{entry.path / 'results.jsonl'} was changed while it was read: {error}") from error

    def _add(self, scored: _ScoredRows, opened: OpenRun | None, row: _Row, record: Record, *, secret: bool) -> None:
        text = None if record.response is None else record.response.text
        error = None if record.error is None else record.error.message
        sample = None if opened is None else opened.feed.get(record.sample_id)
        if opened is None or sample is None:
            scored.add(
                row, None, 0, None if secret else text, None if secret else error, failed=record.status not in ANSWERS
            )
            return
        scores: Mapping[str, Score] = scores_of(
            opened.benchmark, sample, record, opened.benchmark.score, opened.verdicts
        )
        flags = PROFILES_DIFFER if differing(scores) else 0
        flags |= READ_BY_MODEL if any(map(is_read, scores.values())) else 0
        flags |= JUDGE_UNSURE if _judge_unsure(opened, sample, record, scores) else 0
        self._count(opened, sample, record, scores)
        confidences = None if secret else _confidences(sample, record, scores)
        if secret:
            view = answer_view(sample, record, scores, show_target=False)
            scores, text = view.scores, view.reply
            error = None if view.error is None else view.error.message
        scored.add(row, scores, flags, text, error, failed=record.status not in ANSWERS, confidences=confidences)

    def _count(self, opened: OpenRun, sample: Sample, record: Record, scores: Mapping[str, Score]) -> None:
        """Add a record to the sums of a run without a current summary.json."""
        failed = record.status not in ANSWERS
        builder = opened.builder
        if builder is not None:
            key = (sample.id, record.repeat)
            row = opened.failed.get(key)
            if row is not None and not failed:
                builder.add(sample, record, scores, row)
                del opened.failed[key]
            elif row is None:
                number = builder.add(sample, record, scores)
                if failed:
                    opened.failed[key] = number
        if not failed and opened.run.meta.spec.repeats == 1:
            opened.feed.drop(sample.id)

    def _pass_over(self, entry: RunEntry, state: RunIndexState, opened: OpenRun) -> None:
        """Sum up the records that have their verdicts in the index already, after a restart of the viewer."""
        if opened.builder is None:
            return
        for first in range(0, state.covered, SCORED_STEP_ROWS):
            for (number, *_), record in self._journal_records(entry, state, first):
                sample = opened.feed.get(record.sample_id) if number < state.covered else None
                if sample is not None:
                    scores = scores_of(opened.benchmark, sample, record, opened.benchmark.score, opened.verdicts)
                    self._count(opened, sample, record, scores)

    def _sum_up(self, entry: RunEntry, state: RunIndexState, opened: OpenRun) -> None:
        limit = opened.run.meta.spec.limit
        opened.feed.read_on(min(limit or MOST_SAMPLES_DESCRIBED, MOST_SAMPLES_DESCRIBED))
        opened.describer.state.whole |= opened.feed.finished
        size = opened.benchmark.size(opened.run.meta.spec.data)
        if size is None and opened.feed.finished:
            size = opened.feed.seen
        state.requested = None if size is None else min(size, size if limit is None else limit) * entry.repeats
        if opened.builder is not None:
            expected = None if size is None else size * opened.run.meta.spec.repeats
            summary = opened.builder.build(expected)
            state.metrics = {profile: list(metrics) for profile, metrics in summary.metrics.items()}
            state.metrics_rows = summary.rows

    def _basis(self, entry: RunEntry) -> str:
        """Return the digest of what verdicts depend on beside the replies."""
        folder = RunFolder(entry.path)
        said: Any = None
        try:
            meta = folder.meta()
            beside = (find_verdicts(folder), find_readings(folder))
            said = [None if source is None else results_stamp(source.results) for source in beside]
            parts: Any = [
                meta.fingerprint,
                meta.spec.benchmark,
                msgspec.to_builtins(meta.spec.data, enc_hook=str),
                meta.places,
                is_own(meta),
            ]
        except SnellenError:
            parts = None
        content = msgspec.json.encode(
            [__version__, parts, said, self._gold, self._trust, entry.restricted], enc_hook=str
        )
        return blake2b(content, digest_size=8).hexdigest()


_Row: TypeAlias = tuple[int, int, int, bool]
"""Number, code, repeat and `counts` of a record."""


class _ScoredRows:
    """Scores and replies of some records on their way to the index; profiles that share a scorer share a column."""

    def __init__(self, profiles: Mapping[str, int]) -> None:
        columns = 1 + max(profiles.values(), default=-1)
        self._firsts = [next(name for name, column in profiles.items() if column == at) for at in range(columns)]
        self._scores: list[list[tuple[Any, ...]]] = [[] for _ in range(columns)]
        self._replies: list[tuple[int, str | None, str | None]] = []
        self._characters = 0
        self.has_confidence = False

    @property
    def rows(self) -> int:
        """Return the number of records."""
        return len(self._replies)

    @property
    def is_full(self) -> bool:
        """Return True if they are to be saved, so that their texts need not be held."""
        return self._characters >= SCORED_STEP_CHARACTERS

    def add(
        self,
        row: _Row,
        scores: Mapping[str, Score] | None,
        flags: int,
        text: str | None,
        error: str | None,
        *,
        failed: bool,
        confidences: Mapping[str, float | None] | None = None,
    ) -> None:
        """Add a record with its scores by profile; None: the benchmark has no such sample."""
        for column, (name, rows) in enumerate(zip(self._firsts, self._scores, strict=True)):
            score = None if scores is None else scores.get(name)
            if score is None:
                code, value = (CODES["failed"], 0.0) if failed else (CODES["unknown"], None)
                rows.append((*row, column, code, value, None, flags, None, None))
                continue
            read = None if score.extracted is None else plain(shorten(str(score.extracted), EXTRACTED_CHARACTERS))
            why = None if score.reason is None else plain(shorten(score.reason, REASON_CHARACTERS))
            confidence = None if confidences is None else confidences.get(name)
            self.has_confidence |= confidence is not None
            rows.append((*row, column, CODES[score.verdict], score.value, confidence, flags, read, why))
        stored = None if text is None else text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} … {text[-TAIL:]}"
        self._characters += len(stored or "")
        message = None if error is None else plain(shorten(error, REASON_CHARACTERS))
        self._replies.append((row[0], None if stored is None else plain(stored), message))

    def save(self, database: duckdb.DuckDBPyConnection, run: int) -> None:
        """Write the rows."""
        for rows in self._scores:
            if rows:
                database.register("scored", table_of(rows, SCORES))
                scored = f"SELECT ?::INTEGER AS run, {_ANSWER} AS answer, * FROM scored"
                database.execute(f"INSERT INTO score_rows BY NAME {scored}", [run])
                database.unregister("scored")
        if self._replies:
            database.register("replies", table_of(self._replies, REPLIES))
            database.execute("INSERT INTO reply_rows SELECT ?, * FROM replies", [run])
            database.unregister("replies")


def _add_records(database: duckdb.DuckDBPyConnection, run: int, records: pa.Table) -> None:
    """Add records; of several of one sample and repeat the first answer counts, else the last failure."""
    database.register("added", records)
    database.execute("INSERT INTO record_rows BY NAME SELECT ?::INTEGER AS run, true AS counts, * FROM added", [run])
    database.execute(
        """CREATE OR REPLACE TEMP TABLE counting AS
        SELECT code, repeat, coalesce(min(number) FILTER (status IN ('ok', 'refused')), max(number)) AS number
        FROM record_rows SEMI JOIN added USING (code, repeat) WHERE run = ? GROUP BY ALL HAVING count(*) > 1""",
        [run],
    )
    if database.execute("SELECT 1 FROM counting LIMIT 1").fetchall():
        for table in ("record_rows", "score_rows"):
            database.execute(
                f"UPDATE {table} SET counts = {table}.number = counting.number FROM counting "
                f"WHERE run = ? AND {table}.code = counting.code AND {table}.repeat = counting.repeat",
                [run],
            )
    database.unregister("added")


def _count(database: duckdb.DuckDBPyConnection, state: RunIndexState) -> None:
    """Count the records of a run: an answer to a sample that failed before takes its failure's place."""
    rows = f"FROM record_rows WHERE run = {state.run}"
    found = database.execute(
        f"""SELECT count(*) FILTER (counts AND status = 'ok'), count(*) FILTER (counts AND status = 'refused'),
            count(*) FILTER (counts AND status = 'timeout'), count(*) FILTER (counts),
            coalesce(sum(greatest(input_tokens, 0)), 0), coalesce(sum(greatest(output_tokens, 0)), 0), sum(cost),
            sum(greatest(oversized, 0)) FILTER (oversized IS NOT NULL), coalesce(bool_or(batch AND oversized IS NULL), false),
            min(started_at) FILTER (started_at > 0), max(finished_at) FILTER (finished_at > 0) {rows}"""
    ).fetchall()
    ((ok, refused, timeout, counted, tokens_in, tokens_out, cost, oversized, unknown, *times),) = found
    state.started, state.ended = times
    lacks = database.execute(f"SELECT uncounted, count(*) {rows} AND uncounted IS NOT NULL GROUP BY 1").fetchall()
    state.totals = Totals(
        ok=ok,
        refused=refused,
        error=counted - ok - refused - timeout,
        timeout=timeout,
        input_tokens=min(int(tokens_in), MOST_TOKENS),
        output_tokens=min(int(tokens_out), MOST_TOKENS),
        cost=cost,
        oversized_images=None if unknown or oversized is None else min(int(oversized), MOST_TOKENS),
        uncounted=dict(lacks),
    )
    failures = database.execute(
        f"SELECT coalesce(error_kind, status) AS kind, count(*) AS n, coalesce(mode(failure), '') {rows} "
        "AND counts AND status NOT IN ('ok', 'refused') GROUP BY kind ORDER BY n DESC, kind"
    ).fetchall()
    state.failures = [FailureCount(*row) for row in failures]


def _delete(database: duckdb.DuckDBPyConnection, run: int) -> None:
    for table in ("run_states", "profile_columns", "record_rows", "score_rows", "reply_rows"):
        database.execute(f"DELETE FROM {table} WHERE run = ?", [run])


def _delete_scores(database: duckdb.DuckDBPyConnection, run: int) -> None:
    database.execute("DELETE FROM score_rows WHERE run = ? AND col <> ?", [run, SAVED_COLUMN])
    database.execute("DELETE FROM reply_rows WHERE run = ?", [run])


def _is_current(run: Path) -> bool:
    """Return True if predictions.jsonl of a run is not older than its records."""
    try:
        saved = (run / "predictions.jsonl").lstat()
        return stat.S_ISREG(saved.st_mode) and saved.st_mtime_ns >= (run / "results.jsonl").lstat().st_mtime_ns
    except OSError:
        return False


def _predictions(path: Path) -> pa.Table:
    decode = msgspec.json.Decoder(_Prediction).decode
    tables = [table_of([], _PREDICTIONS)]
    with path.open("rb") as file:
        while rows := [decode(line) for line in islice(iter(lambda: file.readline(LINE_BYTES), b""), PREDICTIONS)]:
            listed = [
                (
                    plain(row.id),
                    row.verdict,
                    None if row.extracted is None else plain(shorten(str(row.extracted), EXTRACTED_CHARACTERS)),
                    None if row.reason is None else plain(shorten(row.reason, REASON_CHARACTERS)),
                    row.repeat,
                )
                for row in rows
            ]
            tables.append(table_of(listed, _PREDICTIONS))
    return pa.concat_tables(tables)


def _repeats(entry: RunEntry) -> int:
    return entry.repeats if entry.benchmark else MOST_REPEATS


def set_name(entry: RunEntry) -> str:
    """Return the name of the set of samples that a run was asked.

    Another user's run has a set of its own, and so has a run of acuity, whose samples follow from its answers.
    """
    parts = [entry.benchmark, entry.version, entry.data.partition("+")[0], entry.options]
    if entry.origin == "foreign" or not entry.benchmark or entry.measures_acuity:
        parts.append(entry.key)
    return "\0".join(parts)


def results_stamp(path: Path) -> tuple[int, int, int, int]:
    """Return size, time of change, device and inode of a journal; zeros where there is none."""
    try:
        status = path.lstat()
    except (OSError, ValueError):  # no name of a file
        return (0, 0, 0, 0)
    return (status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino)


def _data_stamps(path: Path) -> tuple[tuple[int, int, int, int], ...]:
    """Return the stamps of all places where the data of a run may be; they change when it comes back."""
    folder = RunFolder(path)
    try:
        spec = located(folder, folder.meta()).spec
    except (SnellenError, OSError, ValueError):
        return ()
    named = [spec.benchmark, spec.data.path, spec.data.images, *spec.data.options.values()]
    return tuple(results_stamp(Path(place)) for place in named if place)


def _profile_columns(benchmark: Benchmark) -> dict[str, int]:
    """Number the columns of scores: profiles that share a scorer share a column."""
    columns: dict[int, int] = {}
    return {name: columns.setdefault(id(scorer), len(columns)) for name, scorer in benchmark.score.items()}


def _confidences(sample: Sample, record: Record, scores: Mapping[str, Score]) -> dict[str, float | None] | None:
    """Return the probability of the option that each profile read from a reply; None without option probabilities."""
    tokens = None if record.response is None else record.response.logprobs
    probabilities = option_probabilities(sample, tokens)
    if probabilities is None:
        return None
    return {name: confidence_of(sample.kind, score, probabilities) for name, score in scores.items()}


def _judge_unsure(opened: OpenRun, sample: Sample, record: Record, scores: Mapping[str, Score]) -> bool:
    """Return True if a judge decided the reply and its verdict is unreadable, out of range, or near the middle."""
    benchmark = opened.benchmark
    if benchmark.rubric is None or opened.verdicts is None:
        return False
    rubric = rubric_for(benchmark, sample, record, opened.verdicts)
    if rubric is None:
        return False
    reply = opened.verdicts.get(record_name(sample.id, record.repeat))
    if reply is None:
        return False
    try:
        value = read_verdict(reply, rubric.verdict).value
    except ValueError:
        return True
    return UNSURE[0] < value < UNSURE[1] or not 0.0 <= value <= 1.0
