"""One call of `run` on its folder: what is known when it opens, the sink of its records, and run_meta.json at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import fingerprint, journal
from snellen.engine.concurrency import fit_open_files
from snellen.engine.data_paths import absolute_places
from snellen.engine.journal import Journal
from snellen.engine.progress import LiveScores, Progress
from snellen.engine.questions import Feed, Observer, Outcome, Question
from snellen.engine.rate_limits import check_pace
from snellen.engine.resume import Key, Work, all_recorded, expected, key, pending, read_state, without_record
from snellen.engine.retry import Backoff, Seeds
from snellen.engine.run_folder import Coverage, RunFolder, RunMeta, RunSpec
from snellen.engine.stopping import FailureLimit, SpendingLimit, Stop, require_price
from snellen.engine.study import require_supported
from snellen.errors import RunChangedError, RunError, SnellenError, UsageError
from snellen.models.base import Model
from snellen.scoring.scores import LEFT_OUT
from snellen.sources.journal_lines import Damage
from snellen.types import Record, Sample, Score

if TYPE_CHECKING:
    from snellen.engine.answer_cache import AnswerCache
    from snellen.engine.growth import Growth


@dataclass
class Session:
    """A run between its opening and its closing.

    Attributes:
        spec: settings of this call; `meta.spec` has the widest limit of all calls.
        meta: as the folder has it at the opening, with the totals of earlier calls.
        done: keys of the samples that have an answer.
        growth: answers of a benchmark whose questions follow from them.
        note: what was repaired, in one line.
        observer: who is told of requests and records; None: nobody.
    """

    spec: RunSpec
    benchmark: Benchmark
    model: Model
    folder: RunFolder
    backoff: Backoff
    meta: RunMeta
    done: set[Key]
    growth: Growth | None
    note: str
    observer: Observer | None = None

    @property
    def seed(self) -> int | None:
        """Return the seed that repeats count up from: the requested one, else the model's own.

        An endpoint is sent a seed only where one was set: not all of them take it, and they draw anew by themselves.
        """
        seed = self.spec.options.generation.seed
        return self.model.seed if seed is None else seed

    @property
    def seeds(self) -> Seeds:
        """Return the seeds of its prompts."""
        own = self.spec.options.generation.seed is None and self.spec.seeds == "sample"
        return Seeds(self.seed, by_sample=own)

    def work(self) -> Work:
        """Yield what has no answer yet."""
        if self.growth is not None:
            return self.growth.work(self.spec.limit)
        return pending(self.benchmark, self.spec, self.done)

    def feed(self, work: Work) -> Feed:
        """Return the feed of what is to be asked."""
        if self.growth is None:
            return Feed(work)
        from snellen.engine.growth import GrowingFeed

        return GrowingFeed(self.growth, work, self.spec.limit)

    def prepare_model(self) -> None:
        """Tell the model the run's folder, and what it must not show to what it runs."""
        spec, folder = self.spec, self.folder.path
        self.model.attach(folder)
        self.model.hide([folder, *(path for path in (spec.data.path, spec.data.images) if path is not None)])

    def begin(self) -> Progress:
        """Fit the requests in flight to the files that may be open now, and return the counters of this session."""
        options = self.spec.options
        concurrency = fit_open_files(options.concurrency, self.spec.model.partition(":")[0])
        self.spec = structs.replace(self.spec, options=structs.replace(options, concurrency=concurrency))
        total = expected(self.meta.coverage.of, self.spec)
        progress = Progress(self.folder.path.name, total, self.meta.totals.done, self.spec.options.concurrency)
        progress.leaves_out_failed = self.benchmark.unanswered == LEFT_OUT
        progress.note = self.note
        return progress

    def ended(self) -> str:
        """Return the run's state after a completed call: one with a smaller --limit may end before the run does."""
        full_spec = self.meta.spec
        if self.benchmark.grow is not None:
            return "partial" if _growth(self.benchmark, full_spec, self.folder).grow() else "complete"
        asked = full_spec.limit == self.spec.limit and not self.spec.options.offline
        return "complete" if asked or all_recorded(self.folder, self.benchmark, full_spec) else "partial"

    async def close(
        self, state: str, records: int, elapsed_s: float, change: RunChangedError | None
    ) -> RunChangedError | None:
        """Count what the journal holds now, and write it into run_meta.json, unless something else changed the files.

        Args:
            state: the run's.
            records: number of the last record that was written.
            elapsed_s: seconds of this session.
            change: what something else did to the files, if that is known.

        Returns:
            What something else did to the files; None if they are as they were written.
        """
        damage = Damage(self.folder.results, records)
        after, _ = read_state(self.folder, damage)
        change = change or _change(self.folder, damage)
        executed = await self.model.executed()
        self.meta = structs.replace(
            self.meta,
            totals=structs.replace(after, seconds=round(self.meta.totals.seconds + elapsed_s, 3)),
            state="partial" if change is not None else state,
            environment={
                **self.meta.environment,
                **({} if executed is None else {"executor": executed}),
                **_batch_facts(self.folder),
            },
            records=records,
        )
        if change is None:
            self.folder.write_meta(self.meta)
        return change


def require_possible(spec: RunSpec, benchmark: Benchmark, model: Model, folder: RunFolder) -> None:
    """Refuse settings that exclude each other, before the folder is touched. Raises UsageError."""
    require_price(spec, model)
    if spec.batch or folder.batches.exists():
        from snellen.engine.batches.requirements import require_batches

        require_batches(spec, benchmark, model, folder)
    if spec.options.cache is not None:
        from snellen.engine.answer_cache import require_cacheable

        require_cacheable(model, by_batches=spec.batch)
    check_pace(spec.options.sample_patience_s(), spec.options.rpm, spec.options.tpm)
    if spec.system or spec.few_shot or spec.schema or spec.options.generation.logprobs is not None:
        require_supported(spec, model)
    if spec.shard and benchmark.grow is not None:
        raise UsageError(
            f"--shard: {benchmark.name} chooses each question by the answers before it, so that it cannot be divided.",
            "Omit --shard, and compare runs with other seeds: --seed 1.",
        )


def open_session(
    spec: RunSpec,
    benchmark: Benchmark,
    model: Model,
    folder: RunFolder,
    backoff: Backoff | None,
    identity: Mapping[str, Any],
) -> Session:
    """Open a locked folder for a call of `run`: repair its journal, and count what it holds.

    Raises:
        FingerprintError: the folder holds a run with other settings. RunError: answers of which nobody says whose.
    """
    widest, recorded = spec.limit, None
    if folder.exists():
        fingerprint.require_same(folder, identity)
        recorded = folder.meta()
        widest = _wider(recorded.coverage.limit, spec.limit)
        _require_same_part(folder, recorded.spec, spec)
    elif folder.results.exists() and folder.results.stat().st_size:
        raise RunError(
            f"{folder.results} exists without a run_meta.json, so its answers cannot be attributed",
            "Restore run_meta.json, or choose another folder with --out. Nothing was changed.",
        )
    full_spec = structs.replace(spec, limit=widest)
    earlier_s = 0.0 if recorded is None else folder.seconds(recorded)  # before a repair writes to the journal
    repaired = journal.repair(folder.results)
    note = f"cut {repaired} bytes of a torn last line" if repaired else ""
    damage = Damage(folder.results, journal.expected_last(folder.results))
    before, done = read_state(folder, damage)
    if damage:
        damage.warn(advised=False)  # this run asks the lost samples again
        note = without_record(folder, benchmark, full_spec) or note
        journal.mend(folder.results, Record)
        before, done = read_state(folder, Damage(folder.results))  # less what the mending has put aside
    if spec.batch and folder.batches.exists():
        from snellen.engine.batches.submit import take_up_answered

        take_up_answered(folder.path, done)
    executor = None if recorded is None else recorded.environment.get("executor")
    reading = benchmark.reading(spec.data)
    meta = RunMeta(
        fingerprint=fingerprint.digest(identity),
        identity=dict(identity),
        coverage=Coverage(widest, benchmark.size(spec.data), (spec.shard,) if spec.shard else ()),
        spec=full_spec,
        environment={
            **fingerprint.environment(spec.options.media),
            **({} if executor is None else {"executor": executor}),
            **_batch_facts(folder),
        },
        totals=structs.replace(before, seconds=earlier_s),
        restricted=benchmark.restricted,
        places=absolute_places(spec) if spec.data != Data() else {},
        records=journal.last_number(folder.results),
        reading="" if reading is None else reading.text,
        truncated=None if reading is None else reading.truncated,
    )
    growth = None if benchmark.grow is None else _growth(benchmark, spec, folder)
    backoff = backoff or Backoff(attempts=spec.max_attempts, patience_s=spec.options.sample_patience_s())
    return Session(spec, benchmark, model, folder, backoff, meta, done, growth, note)


def require_written(folder: RunFolder, meta: RunMeta) -> None:
    """Raise RunChangedError if a run's files are gone, or its journal ends with another record than its meta says."""
    if not folder.exists() or not folder.results.exists():
        raise journal.changed(folder.path if not folder.exists() else folder.results, "was deleted")
    if meta.records is not None and journal.last_number(folder.results) != meta.records:
        raise journal.changed(folder.results, "was changed")


def _growth(benchmark: Benchmark, spec: RunSpec, folder: RunFolder) -> Growth:
    from snellen.engine.growth import Growth  # few benchmarks grow

    return Growth.read(benchmark, spec, folder.results)


def _change(folder: RunFolder, damage: Damage) -> RunChangedError | None:
    """Describe what something else did to the run's files; None if they are as they were written."""
    if damage:
        return journal.changed(folder.results, "was changed", damage.lines())
    return None if folder.exists() else journal.changed(folder.meta_path, "was deleted")


def _batch_facts(folder: RunFolder) -> Mapping[str, Any]:
    """Return what run_meta.json says of a run's batches; empty for a run without any. Raises RunError."""
    if not folder.batches.exists():
        return {}
    from snellen.engine.batches.log import batch_facts

    return batch_facts(folder.path)


def _require_same_part(folder: RunFolder, recorded: RunSpec, spec: RunSpec) -> None:
    """Raise RunError for a folder of another part of the samples; a merged one takes what its parts lack."""
    if recorded.shard != spec.shard:
        raise RunError(
            f"{folder.path} holds {f'part {recorded.shard}' if recorded.shard else 'a run that is not divided'}, and this "
            f"call asks for {f'part {spec.shard}' if spec.shard else 'all samples'}.",
            "Choose another folder with --out. Parts are joined by: snellen merge OUT PART...",
        )


def _wider(old: int | None, new: int | None) -> int | None:
    return None if old is None or new is None else max(old, new)


class RecordSink:
    """Writes the records of one session and counts them; requests a stop where the budget is used up, or everything fails.

    The traces of a record were written before. `repeated`: samples are asked several times, so that their repeats rise and
    fall together.

    Attributes:
        lost: failures for a reason that may pass, without their replies; they are asked once more at the end.
    """

    def __init__(
        self,
        journal_file: Journal,
        feed: Feed,
        progress: Progress,
        stop: Stop,
        budget: SpendingLimit,
        failures: FailureLimit,
        *,
        scores: LiveScores | None = None,
        cache: AnswerCache | None = None,
        repeated: bool = False,
    ) -> None:
        self.lost: dict[Key, Record] = {}
        self._journal, self._feed, self._progress, self._stop = journal_file, feed, progress, stop
        self._budget, self._failures = budget, failures
        self._scores, self._cache, self._repeated = scores, cache, repeated
        self.observer: Observer | None = None

    async def put(self, question: Question, outcome: Outcome) -> None:
        """Write a sample's first outcome and count it."""
        sample, record = question.sample, outcome.record
        self._journal.append(record)
        if self._cache is not None:
            self._cache.store(outcome.cache_key, record)
        self._feed.settle(sample, record)
        self._progress.add(record)
        failures = self._failures
        failures.add(sample, outcome)
        if failures.doubts_vision:
            await failures.test_vision()
        if outcome.error is not None and outcome.error.retry:
            self.lost[key(sample.id, question.repeat)] = structs.replace(record, response=None)
        if (score := await self._score(sample, record)) is not None:
            self._progress.add_score(record, score, self._cluster(sample))
        if self.observer is not None:
            self.observer.recorded(sample, record, score)
        if self._budget.spent or failures.broken:
            self._stop.request()

    async def replace(self, question: Question, outcome: Outcome) -> None:
        """Write the outcome of a sample that failed before; another failure that may pass changes nothing."""
        sample, record, before = question.sample, outcome.record, question.failure
        if before is not None and (outcome.error is None or not outcome.error.retry):
            self._journal.append(record)
            self._feed.settle(sample, record)
            failed = before, await self._score(sample, before)
            score = await self._score(sample, record)
            self._progress.recover(failed, record, score, self._cluster(sample))
            if self.observer is not None:
                self.observer.recorded(sample, record, score)
        if outcome.silent or self._budget.spent:
            self._stop.request()

    async def _score(self, sample: Sample, record: Record) -> Score | None:
        if self._scores is None:
            return None
        try:
            return await self._scores.score(sample, record)
        except Exception as error:  # noqa: BLE001 - the answer is safe; scoring is done again, and fails aloud, at the end
            cause = error.message if isinstance(error, SnellenError) else f"{type(error).__name__}: {error}"
            self._progress.note = f"{sample.id} cannot be scored: {' '.join(cause.split())}"
            return None

    def _cluster(self, sample: Sample) -> str:
        return sample.group or (sample.id if self._repeated else "")
