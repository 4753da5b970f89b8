"""Bring the index of one run up to date: first its records, then verdicts, questions and texts; in steps that stay.

Both passes go on where the last one ended. A journal that was written anew, another judge's verdicts or other data make the
run's part of the index be built again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from snellen import __version__
from snellen.benchmarks.base import Benchmark
from snellen.engine.data_paths import located
from snellen.engine.folder_checks import is_own
from snellen.engine.journal import record_name
from snellen.engine.request_errors import one_line
from snellen.engine.run_folder import RunFolder
from snellen.errors import RunError, SnellenError
from snellen.runs.answer_view import answer_view
from snellen.runs.judge.model_replies import Verdicts
from snellen.runs.judge.verdicts import find_readings, find_verdicts
from snellen.runs.reviews.cases import is_read
from snellen.runs.run import Run
from snellen.runs.scoring import SummaryBuilder, differing, profiles_of, rubric_for, scores_of
from snellen.scoring.calibration import confidence_of, option_probabilities
from snellen.scoring.rubric import read_verdict
from snellen.types import Record, Sample, Score
from snellen.viewer.index.entries import RunEntry
from snellen.viewer.index.journal_columns import ROWS_FLUSH, JournalTotals, id_array, journal_columns
from snellen.viewer.index.journal_tail import MOST_REPEATS, JournalRow, JournalTail
from snellen.viewer.index.run_state import (
    JUDGE_UNSURE,
    PROFILES_DIFFER,
    READ_BY_MODEL,
    ROWS,
    RunIndexState,
)
from snellen.viewer.index.sample_feed import HeldSamples, SampleFeed
from snellen.viewer.index.sample_sets import SampleDescriber, SampleSet
from snellen.viewer.index.saved_verdicts import is_current, save_verdicts
from snellen.viewer.index.score_columns import IndexScoreColumns
from snellen.viewer.index.storage import ColumnWriter, IndexStorage, file_number, open_columns

STEP_ROWS = 1 << 18
"""Records after which the first pass makes a step that stays."""
SCORED_STEP_ROWS = 1 << 16
MOST_SAMPLES_DESCRIBED = 5_000_000
UNSURE = (0.25, 0.75)
"""A judge's verdict worth more and less than this is no clear one."""


@dataclass
class OpenRun:
    """What following a run needs between two looks at it: its samples, its scorers and the sums of its scores."""

    run: Run
    benchmark: Benchmark
    verdicts: Verdicts | None
    feed: SampleFeed
    describer: SampleDescriber
    samples: SampleSet
    builder: SummaryBuilder | None
    failed: dict[tuple[str, int], int] = field(default_factory=dict)
    answered: set[str] | None = None


class RunIndexer:
    """Writer of the runs' parts of an index. One in all processes works at a time (IndexStorage.writing).

    Args:
        storage: the index.
        gold: True where gold answers of restricted sets may be in it.
        trust: the authors of all run folders are trusted (snellen.runs.trust).
    """

    def __init__(self, storage: IndexStorage, *, gold: bool = False, trust: bool = False) -> None:
        self._storage, self._gold, self._trust = storage, gold, trust
        self._held = HeldSamples()
        self._open: dict[str, OpenRun] = {}

    def load(self, key: str) -> RunIndexState:
        """Read what the index holds of a run; nothing where a file of it is gone."""
        folder = self._storage.run_folder(key)
        state = self._storage.read_state(folder, RunIndexState)
        if state is None or state.key != key:
            return RunIndexState(key)
        whole = all(
            (folder / file.name).is_file() and (folder / file.name).stat().st_size == file.size for file in state.files
        )
        return state if whole else RunIndexState(key)

    def add_records(self, entry: RunEntry) -> RunIndexState:
        """Bring the records of a run up to date, with the verdicts that its own predictions.jsonl has.

        Raises:
            RunError: its journal cannot be read. StorageError: the index cannot be written.
        """
        state = self._records(entry, self.load(entry.key))
        if (
            state.predictions is None
            and not state.scores
            and state.recorded
            and entry.verified
            and is_current(entry.path)
        ):
            folder = self._storage.run_folder(entry.key)
            secret = entry.restricted and not self._gold
            samples = SampleSet(self._storage, state.set_name)
            state.predictions = save_verdicts(entry.path, folder, state, samples, secret=secret)
            if state.predictions is not None:
                state.saved_profile = next(iter(entry.metrics), "")
                self._storage.write_state(folder, state)
        return state

    def add_verdicts(self, entry: RunEntry) -> RunIndexState:
        """Bring verdicts, questions and texts of a run up to date with its records in the index.

        Raises:
            RunError: its journal cannot be read. StorageError: the index cannot be written.
        """
        state = self.load(entry.key)
        return self._verdicts(entry, state) if state.key and state.set_name else state

    def close(self, key: str) -> None:
        """Forget what following a run needed."""
        self._open.pop(key, None)

    def _records(self, entry: RunEntry, state: RunIndexState) -> RunIndexState:
        path = entry.path / "results.jsonl"
        name = set_name(entry)
        repeats = entry.repeats if entry.benchmark else MOST_REPEATS
        tail = JournalTail(path, state.tail, repeats=repeats)
        stamp = results_stamp(path)
        same_size = stamp[0] == state.results[0] and stamp != state.results
        folder = self._storage.run_folder(entry.key)
        if not state.key or state.set_name != name or same_size or not tail.continues() or not folder.is_dir():
            self.close(entry.key)
            self._storage.clear(folder)
            state = RunIndexState(entry.key, set_name=name)
            tail = JournalTail(path, repeats=repeats)
        if stamp == state.results:
            return state
        samples = SampleSet(self._storage, name)
        totals = JournalTotals(state)
        rows = iter(tail.rows()) if stamp[0] else iter(())
        state.predictions = None  # of fewer records
        while (step := self._step(folder, state, samples, rows, totals)) is not None:
            state.rows.append(step)
            self._join(folder, state.rows, "rows")
            self._save_records(folder, state, tail, totals, samples)
        state.results = stamp
        self._save_records(folder, state, tail, totals, samples)
        return state

    def _save_records(
        self, folder: Path, state: RunIndexState, tail: JournalTail, totals: JournalTotals, samples: SampleSet
    ) -> None:
        try:
            state.tail = tail.position()
        except OSError as error:
            raise RunError(
                f"{tail.path} cannot be read: {error.strerror or error}", "Check its permissions."
            ) from error
        totals.put(state)
        samples.save()
        self._storage.write_state(folder, state)
        self._storage.sweep(folder, state.files)

    def _step(
        self,
        folder: Path,
        state: RunIndexState,
        samples: SampleSet,
        rows: Iterator[tuple[int, int, JournalRow]],
        totals: JournalTotals,
    ) -> Any:
        """Write up to STEP_ROWS records to a file; None if there is none left."""
        batches: list[tuple[pa.Array, dict[str, Any]]] = []
        count = 0
        while count < STEP_ROWS:
            ids, columns = journal_columns(rows, totals)
            if not ids:
                break
            batches.append((id_array(ids), columns))
            count += len(ids)
            if len(ids) < ROWS_FLUSH:
                break
        if not batches:
            return None
        numbers = samples.numbers(pa.concat_arrays([ids for ids, _ in batches]))
        writer = ColumnWriter(folder, "rows", file_number(state.rows), ROWS)
        at = 0
        for ids, columns in batches:
            writer.add({**columns, "ordinal": pa.array(numbers[at : at + len(ids)])})
            at += len(ids)
        return writer.close()

    def _join(self, folder: Path, files: list[Any], kind: str) -> None:
        """Keep the number of files small: the last two become one while they are of similar size."""
        while len(files) > 1 and files[-2].rows <= 2 * files[-1].rows and files[-1].rows < STEP_ROWS:
            tables = [table for file in files[-2:] if (table := open_columns(folder, file)) is not None]
            if len(tables) < 2:
                return
            writer = ColumnWriter(folder, kind, file_number(files), tables[0].schema)
            for table in tables:
                for batch in table.to_batches():
                    writer.add_batch(batch)
            files[-2:] = [writer.close()]

    def _verdicts(self, entry: RunEntry, state: RunIndexState) -> RunIndexState:
        folder = self._storage.run_folder(entry.key)
        covered = sum(file.rows for file in state.texts)
        basis = self._basis(entry)
        if state.basis != basis:
            self.close(entry.key)
            state.scores, state.texts, state.profiles, state.why_unknown = [], [], {}, ""
            state.metrics, state.metrics_rows, state.basis, state.has_confidence = {}, 0, basis, False
            covered = 0
        if covered == state.recorded and (covered or state.profiles or state.why_unknown):
            return state
        opened = self._open.get(entry.key)
        if opened is None or covered == 0:
            try:
                opened = self._begin(entry, state)
                state.profiles, state.why_unknown = _profile_columns(opened.benchmark), ""
            except SnellenError as error:
                opened, state.profiles, state.why_unknown = None, {}, one_line(error.message)
            except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is named on the page
                opened, state.profiles = None, {}
                state.why_unknown = f"its benchmark failed: {type(error).__name__}: {one_line(str(error))}"
            if covered and opened is not None:  # the viewer was started anew
                self._pass_over(entry, state, opened, covered)
        if opened is not None and entry.state == "running":
            self._open[entry.key] = opened
        return self._score_rest(entry, state, opened, folder, covered)

    def _score_rest(
        self, entry: RunEntry, state: RunIndexState, opened: OpenRun | None, folder: Path, covered: int
    ) -> RunIndexState:
        withheld = entry.restricted or (opened is not None and opened.benchmark.restricted)
        secret = withheld and not self._gold
        while covered < state.recorded:
            upto = min(covered + SCORED_STEP_ROWS, state.recorded)
            number = file_number([*state.scores, *state.texts])
            columns = IndexScoreColumns(folder, number, state.profiles, scored=opened is not None)
            try:
                for record in self._journal_records(entry, state, covered, upto):
                    self._add(columns, opened, record, secret=secret)
            except Exception as error:  # a scorer or a data file may raise anything
                if opened is None:
                    raise
                columns.close()
                self.close(entry.key)
                reason = error.message if isinstance(error, SnellenError) else f"{type(error).__name__}: {error}"
                state.scores, state.texts, state.profiles = [], [], {}
                state.why_unknown, opened, covered = one_line(reason), None, 0
                continue
            scores, texts = columns.close()
            state.has_confidence |= columns.has_confidence
            state.scores += [] if scores is None else [scores]
            state.texts.append(texts)
            covered = upto
            if opened is not None:
                self._join(folder, state.scores, "scores")
                self._sum_up(entry, state, opened, last=covered == state.recorded)
                state.predictions = None if covered == state.recorded else state.predictions
            self._storage.write_state(folder, state)
            self._storage.sweep(folder, state.files)
        return state

    def _journal_records(self, entry: RunEntry, state: RunIndexState, first: int, upto: int) -> Iterator[Record]:
        """Yield the records of rows `first` to `upto` of the index, read from the journal."""
        decode = msgspec.json.Decoder(Record).decode
        folder = self._storage.run_folder(entry.key)
        with (entry.path / "results.jsonl").open("rb") as file:
            for at, size in _places(folder, state, first, upto):
                if file.tell() != at:
                    file.seek(at)
                try:
                    yield decode(file.read(size))
                except (ValueError, RecursionError) as error:
                    raise RunError(f"{entry.path / 'results.jsonl'} was changed while it was read: {error}") from error

    def _add(self, columns: IndexScoreColumns, opened: OpenRun | None, record: Record, *, secret: bool) -> None:
        failed = record.status not in ("ok", "refused")
        text = None if record.response is None else record.response.text
        error = None if record.error is None else record.error.message
        sample = None if opened is None else opened.feed.get(record.sample_id)
        if opened is None or sample is None:
            columns.add(None, 0, None if secret else text, None if secret else error, failed=failed)
            return
        scores: Mapping[str, Score] = scores_of(
            opened.benchmark, sample, record, opened.benchmark.score, opened.verdicts
        )
        flags = PROFILES_DIFFER if differing(scores) else 0
        flags |= READ_BY_MODEL if any(map(is_read, scores.values())) else 0
        flags |= JUDGE_UNSURE if _judge_unsure(opened, sample, record, scores) else 0
        self._count(opened, sample, record, scores, failed=failed)
        if secret:
            view = answer_view(sample, record, scores, show_target=False)
            scores, text = view.scores, view.reply
            error = None if view.error is None else view.error.message
        columns.add(
            scores,
            flags,
            text,
            error,
            failed=failed,
            confidences=None if secret else _confidences(sample, record, scores),
        )

    def _count(
        self, opened: OpenRun, sample: Sample, record: Record, scores: Mapping[str, Score], *, failed: bool
    ) -> None:
        """Add a record to the sums of a run without a current summary.json."""
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

    def _begin(self, entry: RunEntry, state: RunIndexState) -> OpenRun:
        """Open a run for scoring.

        Raises:
            SnellenError: its benchmark or its data is not available.
        """
        folder = RunFolder(entry.path)
        run = Run(folder, located(folder, folder.meta()), trust=self._trust)
        benchmark = run.benchmark
        profiles_of(benchmark, "all")
        samples = SampleSet(self._storage, state.set_name)
        describer = SampleDescriber(samples, gold=self._gold or not (entry.restricted or benchmark.restricted))
        begin = self._held.begin(state.set_name, benchmark, run.meta.spec.data)
        builder = None if entry.verified else SummaryBuilder(benchmark, benchmark.score, run.verdicts())
        return OpenRun(run, benchmark, run.verdicts(), SampleFeed(begin, describer.add), describer, samples, builder)

    def _pass_over(self, entry: RunEntry, state: RunIndexState, opened: OpenRun, covered: int) -> None:
        """Sum up the records that have their verdicts in the index already, after a restart of the viewer."""
        if opened.builder is None:
            return
        for record in self._journal_records(entry, state, 0, covered):
            sample = opened.feed.get(record.sample_id)
            if sample is not None:
                scores = scores_of(opened.benchmark, sample, record, opened.benchmark.score, opened.verdicts)
                self._count(opened, sample, record, scores, failed=record.status not in ("ok", "refused"))

    def _sum_up(self, entry: RunEntry, state: RunIndexState, opened: OpenRun, *, last: bool) -> None:
        if not last:
            return
        limit = opened.run.meta.spec.limit
        opened.feed.read_on(min(limit or MOST_SAMPLES_DESCRIBED, MOST_SAMPLES_DESCRIBED))
        opened.describer.close(whole=opened.feed.finished)
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
    except OSError:
        return (0, 0, 0, 0)
    return (status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino)


def _places(folder: Path, state: RunIndexState, first: int, upto: int) -> Iterator[tuple[int, int]]:
    begin = 0
    for file in state.rows:
        end = begin + file.rows
        if begin < upto and end > first:
            table = open_columns(folder, file)
            if table is None:
                raise RunError(f"{folder / file.name} is damaged", "Delete the index; it is made anew.")
            part = table.slice(max(first - begin, 0), min(upto, end) - max(first, begin))
            at, size = part.column("at").to_numpy(), part.column("size").to_numpy()
            yield from zip(at.tolist(), size.tolist(), strict=True)
        begin = end


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
