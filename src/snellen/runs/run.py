"""Class Run: a run on disk, opened for reading its records, scores and metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Headline, ModelFacts, checked_data
from snellen.engine.data_paths import holds_built_set, located, same_questions
from snellen.engine.folder_checks import is_own
from snellen.engine.resume import verified_meta, with_size, without_record
from snellen.engine.run_folder import JUDGED, READ, RunFolder, RunMeta, derived_run, derived_runs
from snellen.engine.subset import with_subset
from snellen.errors import DataError, SnellenError, UsageError
from snellen.runs.coordinates import chosen, reread, with_coordinates
from snellen.runs.settings import find_benchmark
from snellen.runs.status import State, present_state
from snellen.runs.trust import as_asked, find_named, guarded
from snellen.text import pretty_json
from snellen.types import Metric, Record, Sample

if TYPE_CHECKING:
    import pyarrow as pa

    from snellen.engine.request_errors import RequestErrors
    from snellen.runs.reviews.decisions import ReviewRules
    from snellen.runs.scoring import PredictionRows, Scored, Summary, SummaryBuilder, Verdicts


def load_run(path: str | Path, *, benchmark: Benchmark | None = None, trust: bool = False) -> Run:
    """Open a run folder for reading.

    >>> run = snellen.evaluate("chart/digits", "embedded", limit=3, out="results/three")
    >>> snellen.load_run("results/three").meta.totals.ok
    3

    Args:
        path: the folder.
        benchmark: the run's benchmark, where it is not a registered one.
        trust: run_meta.json may name code to import (`module:ATTRIBUTE`) and data anywhere; say so only of folders whose
            author you trust (docs/run-folder.md).

    Raises:
        RunError: there is no run in `path`, or a file of it is a link.
    """
    folder = RunFolder(path)
    meta = reread(folder, located(folder, verified_meta(folder)))
    subject = None if benchmark is None else guarded(as_asked(benchmark, meta.spec), folder, meta, trust=trust)
    return Run(folder, meta, subject, trust=trust, reopened=True)


class SavedProfile(Struct):
    profile: str
    metrics: list[Metric]


class SavedSummary(Struct):
    """Part of summary.json that is read again."""

    profiles: list[SavedProfile]


@dataclass(repr=False)
class Run:
    """A run on disk: its records, scores and metrics as Arrow tables."""

    folder: RunFolder
    meta: RunMeta
    _benchmark: Benchmark | None = None
    _judged_by: tuple[int | None, str] | None = None
    _errors: RequestErrors | None = None
    trust: bool = False
    remarks: tuple[str, ...] = ()
    reopened: bool = False

    def __repr__(self) -> str:
        totals, size = self.meta.totals, self.meta.coverage.of
        of = "" if size is None else f" of {min(size, self.meta.coverage.limit or size) * self.meta.spec.repeats:,}"
        return f"<Run {self.meta.spec.benchmark}, {self.meta.spec.model}: {totals.done:,}{of} answered, {str(self.path)!r}>"

    unverified: str = ""
    """One line where figures are those that the folder of another user's run says, because they could not be computed."""

    @property
    def path(self) -> Path:
        return self.folder.path

    @cached_property
    def own(self) -> bool:
        """Return True if this user's Snellen wrote the run, so that its meta can be trusted."""
        return is_own(self.folder.meta())

    @cached_property
    def changed_data(self) -> str:
        """One line if the run was opened again and its data is known to be another now; else empty."""
        recorded = self.meta.identity.get("data")
        if not self.reopened or not recorded or self.meta.judges:
            return ""
        try:
            digest = self.benchmark.digest(self.meta.spec.data)
        except SnellenError:  # what cannot be read cannot be compared
            return ""
        if recorded == digest or (same_questions(recorded, digest) and self._without_images()):
            return ""
        if same_questions(recorded, digest):
            return (
                "images have changed or gone since the run (the questions have not): pictures are those of today, and the "
                "model saw others"
            )
        return (
            f"the data has changed since the run (digest {recorded}, now {digest}): questions and gold answers are those "
            "of today, and the model may have seen others"
        )

    def _without_images(self) -> bool:
        """Return True if no image of the run's table is there now: its answers can be scored, and no picture is shown."""
        try:
            self.benchmark.reading(self.meta.spec.data)
        except SnellenError:
            return True
        return False

    @property
    def state(self) -> State:
        """Return the state as it is now: running, complete, limited, partial or failed."""
        return present_state(self.path, self.sized_meta)

    @cached_property
    def sized_meta(self) -> RunMeta:
        """Return the meta; for another user's run with the sample count of the benchmark itself."""
        if self.own:
            return self.meta
        try:
            return with_size(self.meta, self.benchmark.size(self.meta.spec.data))
        except SnellenError:  # not to be had without the data: as the folder says
            return self.meta

    @property
    def benchmark(self) -> Benchmark:
        if self._benchmark is None:
            benchmark = find_benchmark(self.meta.spec, self.folder, trust=self.trust)
            self._benchmark = guarded(benchmark, self.folder, self.meta, trust=self.trust)
        self._benchmark = with_subset(self._benchmark, self.meta.spec)
        if self._benchmark.grow is not None:
            from snellen.engine.growth import recorded_view

            self._benchmark = recorded_view(self._benchmark, self.folder, lambda: self.meta.spec)
        if self.judged_by_rubric and not any(name in self._benchmark.score for name in self.judged_by_rubric):
            from snellen.runs.judge.profiles import with_judge_profiles

            self._benchmark = with_judge_profiles(self._benchmark, self.folder, self.judged_by_rubric)
        return self._benchmark

    @cached_property
    def judged_by_rubric(self) -> dict[str, RunFolder]:
        """Return the judged runs beside this one by a rubric that the user named, by the profile that they give."""
        beside = [] if self.meta.judges else derived_runs(self.folder, JUDGED)
        if not beside:
            return {}
        from snellen.runs.judge.profiles import rubric_runs  # it takes time, and most runs have no verdicts

        return rubric_runs(self.folder, beside)

    def moved(
        self, data: str | Path | None, images: str | Path | None, options: Mapping[str, str] | None = None
    ) -> Run:
        """Return this run with its files elsewhere.

        Raises:
            DataError: what lies there is not what was asked about.
        """
        if data is None and images is None and not options:
            return self
        before = self.meta.spec.data
        if self.meta.spec.benchmark in (JUDGED, READ) and self._benchmark is None and data is not None:
            # It is made of the run that was judged, and cannot be made of where that is no longer.
            moved = structs.replace(self.meta.spec, data=structs.replace(before, path=Path(data)))
            self._benchmark = find_benchmark(moved, self.folder, trust=self.trust)
        if data is not None and Path(self.meta.spec.benchmark).is_absolute() and holds_built_set(data):
            # The run's benchmark is itself a folder: that of a built set.
            found = find_named(str(Path(data).absolute()), None, trust=self.trust)
            self._benchmark, data = as_asked(found, self.meta.spec), None
        moved_data = checked_data(
            self.benchmark,
            data or before.path,
            images or before.images,
            {**before.options, **(options or {})},
            before.seed,
        )
        spec = with_coordinates(structs.replace(self.meta.spec, data=moved_data), self.benchmark, self.folder)
        moved_data = spec.data
        digest, recorded = self.benchmark.digest(moved_data), self.meta.identity.get("data")
        if not same_questions(recorded, digest) and recorded != "":
            raise DataError(
                f"{self.path}: the run's data has digest {recorded}, the data given now {digest}",
                "Pass the data that the run used: --data PATH.",
            )
        meta = structs.replace(self.meta, spec=spec)
        return Run(self.folder, meta, self._benchmark, trust=self.trust, reopened=self.reopened)

    @property
    def writable(self) -> bool:
        """Return True if the run folder is writable; read-only runs can still be scored."""
        return os.access(self.path, os.W_OK)

    def notes(self) -> list[str]:
        """List what a reader of the scores must know, one line each, including who judged the replies."""
        errors, meta = self.request_errors().text, self.sized_meta
        from snellen.runs.caveats import caveats
        from snellen.runs.judge.verdicts import judge_line

        lost = without_record(self.folder, self.benchmark, self.meta.spec)
        only_lost = lost and self.folder.meta().state == "complete"  # it is named in full
        known = caveats(meta, self.benchmark, state="complete" if only_lost else self.state)
        texts = (errors if caveat.about == "lost" and errors else caveat.text for caveat in known)
        verdicts: list[str] = []
        if self.judged_by_rubric:
            from snellen.runs.judge.profiles import judge_lines

            def saved(judged: RunFolder) -> dict[str, list[Metric]]:
                return Run(judged, judged.meta()).saved_metrics()

            verdicts = judge_lines(self.folder, self.judged_by_rubric, saved, trust=self.trust)
        said = filter(None, [lost, self.changed_data, *verdicts, judge_line(self), self.unverified])
        return [*texts, *said, *self.benchmark.faults]

    def request_errors(self) -> RequestErrors:
        """Count the samples without an answer and the commonest errors; read once, and only if samples failed."""
        from snellen.engine.request_errors import RequestErrors, request_errors

        totals = self.meta.totals
        if self._errors is None:
            # A killed run's totals are those of its beginning.
            in_doubt = self.meta.state == "running" or not self.own or self.folder.is_empty()
            failed = totals.error + totals.timeout
            self._errors = (
                request_errors(self.folder, self._hidden_gold(), self.benchmark.unanswered)
                if failed or in_doubt
                else RequestErrors(totals.done, 0)
            )
        return self._errors

    @property
    def all_failed(self) -> bool:
        """True where samples failed and none has an answer."""
        errors = self.request_errors()
        return errors.failed > 0 and not errors.answered

    def _hidden_gold(self) -> dict[str, tuple[str, ...]] | None:
        """Map sample ids to gold answers of a restricted benchmark; empty if its data cannot be read."""
        if not (self.benchmark.restricted or self.meta.restricted):
            return None
        from snellen.scoring.rubric import gold_forms

        try:
            return {sample.id: gold_forms(sample) for sample in self.benchmark.samples(self.meta.spec.data)}
        except SnellenError:
            return {}

    def judged_by(self) -> str:
        """Return one line about the judge and the reader; empty if no reply is for a judge and no reader was asked."""
        if self.benchmark.rubric is None and self._read_beside() is None:
            return ""
        if self._judged_by is None or self._judged_by[0] != self._last_verdict():
            self.summarize(save=False)
        return "" if self._judged_by is None else self._judged_by[1]

    def other_judge(self) -> str:
        """Return that another model judged than for published figures; empty where that is not so, or nothing is judged."""
        if not self.benchmark.published_judge or (said := self.verdicts()) is None or not said.by:
            return ""
        from snellen.runs.judge.verdicts import other_judge

        return other_judge(said.by, self.benchmark.published_judge)

    def _last_verdict(self) -> int | None:
        """Return the time of the last verdict or reading beside the run, in nanoseconds; None if there is none."""
        beside = [folder for folder in (self._judged_beside(), self._read_beside()) if folder is not None]
        return max((folder.results.stat().st_mtime_ns for folder in beside if folder.results.exists()), default=None)

    def _judged_beside(self) -> RunFolder | None:
        if self.benchmark.rubric is None:
            return None
        from snellen.runs.judge.verdicts import find_verdicts  # it takes time, and most benchmarks need no judge

        return find_verdicts(self.folder)

    def _read_beside(self) -> RunFolder | None:
        return derived_run(self.folder, READ)

    def verdicts(self) -> Verdicts | None:
        """Read the judge's replies in <run>_judged, for what is left to a judge, and the reader's in <run>_read."""
        if self._judged_beside() is None and self._read_beside() is None:
            return None
        from snellen.runs.judge.verdicts import said_of

        return said_of(self.folder, is_judged=self.benchmark.rubric is not None)

    def summary_is_current(self) -> bool:
        """Return True if summary.json is newer than every answer and verdict, by the same judge, and this user's own."""
        if not self.own:
            return False
        judged, read = self._judged_beside(), self._read_beside()
        try:
            written = self.folder.summary.stat().st_mtime_ns
            beside = (judged, read, *self.judged_by_rubric.values())
            newest = [self.folder.results, *(folder.results for folder in beside if folder is not None)]
            if any(path.stat().st_mtime_ns > written for path in newest):
                return False
            saved = msgspec.json.decode(self.folder.summary.read_bytes(), type=dict[str, Any])
        except (OSError, ValueError, RecursionError):
            return False
        if saved.get("coordinates", {}) != chosen(self.meta.spec):
            return False
        return ("judge" in saved) == (judged is not None) and ("reader" in saved) == (read is not None)

    def records(self) -> pa.Table:
        """Return one row for each sample (and repeat); see arrow.RECORDS for the columns."""
        from snellen.runs.arrow import records_table

        return records_table(self.folder)

    def scores(self, profile: str | None = None) -> pa.Table:
        """Return one row for each sample and profile: sample_id, repeat, profile, value, extracted, verdict, reason."""
        from snellen.runs.arrow import ScoreRows

        rows = ScoreRows()
        self.summarize(profile, each=rows.add, save=False)
        return rows.table()

    def metrics(self, profile: str | None = "all") -> pa.Table:
        """Return one row for each metric and profile: profile, name, value, n, low, high, unit, coverage, chance."""
        from snellen.runs.arrow import metrics_table

        return metrics_table(self.summarize(profile, save=False).metrics)

    def figures(self, profile: str | None = None) -> dict[str, list[Metric]]:
        """Return metrics by profile, from summary.json if it is current, else by scoring again.

        Somebody else's summary.json may say anything. It is used only where scoring is impossible, and `unverified` says so.
        """
        from snellen.runs.scoring import profiles_of, review_profiles

        if review_profiles(self.benchmark, profile):
            return {name: list(rows) for name, rows in self.summarize(profile, save=False).metrics.items()}
        wanted = list(profiles_of(self.benchmark, profile))
        saved = self.saved_metrics() if self.summary_is_current() else {}
        if all(name in saved for name in wanted):
            totals = self.meta.totals
            if totals.error + totals.timeout and not totals.done:  # an older version saved 0 where nothing was answered
                from snellen.runs.scoring import without_values

                return {name: without_values(saved[name]) for name in wanted}
            return {name: saved[name] for name in wanted}
        try:
            return {name: list(rows) for name, rows in self.summarize(profile, save=False).metrics.items()}
        except DataError as error:
            saved = {} if self.own else self.saved_metrics()
            if not all(name in saved for name in wanted):
                raise
            self.unverified = f"{self.path}: metrics read from its summary.json, not recomputed ({error.message})"
            return {name: saved[name] for name in wanted}

    def saved_metrics(self) -> dict[str, list[Metric]]:
        """Read the metrics in summary.json by profile; empty if it cannot be read."""
        try:
            summary = msgspec.json.decode(self.folder.summary.read_bytes(), type=SavedSummary)
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return {}
        return {saved.profile: saved.metrics for saved in summary.profiles}

    def metric(self, name: str, profile: str | None = None) -> Metric:
        """Return one metric by name under one profile (the default one if none is named)."""
        metrics = {m.name: m for rows in self.summarize(profile, save=False).metrics.values() for m in rows}
        if name not in metrics:
            raise UsageError(f"{self.path} has no metric {name!r}", f"It has: {', '.join(metrics)}.")
        return metrics[name]

    def summarize(
        self,
        profile: str | None = None,
        *,
        each: Callable[[Scored], None] | None = None,
        save: bool = True,
        verdicts: Verdicts | None = None,
        rules: ReviewRules | None = None,
    ) -> Summary:
        """Score all records again under one or more profiles (`all`), and write summary.json if `save`.

        Replies that a judge decides are scored by `verdicts`, or else by those of the judged run beside this one. The
        profiles `reviewed` and `audited` are made of the run's reviews by `rules`; nothing is written for them.
        """
        from snellen.runs import scoring

        benchmark = self.benchmark
        newest = self._last_verdict()
        judge = verdicts if verdicts is not None else self.verdicts()
        if scoring.review_profiles(benchmark, profile):
            from snellen.runs.reviews.summary import review_summary

            return review_summary(self, profile or "", rules, each=each, verdicts=judge)
        spec = self.meta.spec
        rows = self._prediction_rows() if save else None
        summary = scoring.summarize(
            benchmark,
            self.answers(),
            scoring.profiles_of(benchmark, profile),
            expected=scoring.count(benchmark, spec.data) * spec.repeats,
            each=each,
            verdicts=judge,
            predictions=rows,
            model=self._model_facts(),
            unanswered=scoring.Unanswered(spec.data, spec.repeats),
        )
        who = ""
        if summary.for_judge or (judge is not None and judge.reader):
            from snellen.runs.judge.verdicts import judged_by, read_by

            who = "; ".join(
                filter(
                    None,
                    (
                        judged_by(summary, judge, self.path, benchmark.published_judge, benchmark.judge_profile),
                        read_by(summary, judge),
                    ),
                )
            )
        self._judged_by = (newest, who)
        if rows is not None:
            rows.write(self.folder.predictions)
        if save:
            self._save(summary, judge)
        return summary

    def _model_facts(self) -> ModelFacts:
        """Return what the run recorded about its model, where the benchmark reports details that depend on it."""
        if self.benchmark.details is None:
            return ModelFacts()
        from snellen.runs.score_rows import model_facts

        return model_facts(self.meta)

    def _prediction_rows(self) -> PredictionRows | None:
        """Return the rows of predictions.jsonl; None for a run that has none: a judge's, or one that cannot be written."""
        from snellen.runs.scoring import PredictionRows

        return None if self.meta.judges or not self.writable else PredictionRows(self.benchmark)

    def answers(self) -> Iterator[tuple[Sample, Record]]:
        """Yield each sample with the record of it that counts, in the order of the journal."""
        from snellen.runs.scoring import recorded_answers

        return recorded_answers(self.folder, self.meta, self.benchmark)

    def save_collected(self, builder: SummaryBuilder, unread: Mapping[tuple[str, int], int]) -> None:
        """Write summary.json from the scores that were collected while the run went on.

        All records are scored again if they are not those of all records, as of a run that was resumed, or if a judge
        may decide them.

        Args:
            builder: from `live_builder`.
            unread: its rows that have no score yet, by sample and repeat.
        """
        from snellen.runs.scoring import Unanswered, count

        benchmark, meta = self.benchmark, self.meta
        recorded = meta.totals.recorded
        rules_alone = benchmark.rubric is None or (benchmark.rule_first and not builder.for_judge)
        if not rules_alone or builder.rows != recorded or self._read_beside() is not None:
            self.summarize("all")
            return
        if unread:
            for sample, record in self.answers():
                if (row := unread.get((sample.id, record.repeat))) is not None:
                    builder.add(sample, record, builder.score(sample, record), row)
        whole = meta.state == "complete" and meta.spec.limit is None  # then the run itself has counted the samples
        declared = (meta.coverage.of or 0) * meta.spec.repeats  # more, where files of the data could not be read
        expected = max(recorded, declared) if whole else count(benchmark, meta.spec.data) * meta.spec.repeats
        if builder.predictions is not None and self.writable:
            builder.predictions.write(self.folder.predictions)
        self._save(builder.build(expected, self._model_facts(), Unanswered(meta.spec.data, meta.spec.repeats)), None)

    def write_verdicts(self) -> None:
        """Sum up a judged run, and write verdicts.jsonl: one line a reply, with its `judge_verdict`."""
        from snellen.runs.judge.benchmark import verdict_row

        rows: list[dict[str, Any]] = []

        def each(scored: Scored) -> None:
            (score,) = scored.scores.values()
            rows.append(verdict_row(scored.sample, scored.record, score))

        self.summarize("all", each=each)
        if self.writable:
            content = b"".join(
                msgspec.json.encode(row) + b"\n" for row in sorted(rows, key=lambda row: row["sample_id"])
            )
            self.folder.write(self.path / "verdicts.jsonl", content)

    def headline(self, metrics: Mapping[str, Sequence[Metric]]) -> Headline | None:
        """Return the headline of the first profile's metrics, if the benchmark has one."""
        if self.benchmark.headline is None:
            return None
        first = metrics.get(next(iter(self.benchmark.score)))
        return None if first is None else self.benchmark.headline(first)

    def _save(self, summary: Summary, judge: Verdicts | None) -> None:
        """Write summary.json; keep profiles that were not scored this time, if of the same records."""
        if not self.writable or (chosen(self.meta.spec) and not chosen(self.folder.meta().spec)):
            return  # of a run begun without a space the summary stays that of its own reading
        head: dict[str, Any] = {
            "fingerprint": self.meta.fingerprint,
            "rows": summary.rows,
            "expected": summary.expected,
        }
        if space := chosen(self.meta.spec):
            head["coordinates"] = space
        if judge is not None and judge.by:
            head["judge"] = {
                "model": judge.model,
                "folder": judge.folder,
                "replies": summary.for_judge,
                "without_verdict": summary.without_verdict,
                "out_of_range": summary.out_of_range,
                **({"rubric": judge.version} if judge.version else {}),
            }
        if judge is not None and judge.reader:
            head["reader"] = {
                "model": judge.reader,
                "folder": judge.reader_folder,
                "read": summary.read_by_model,
                "unread": summary.unread_by_model,
            }
        from snellen.runs.scoring import summary_json

        new = summary_json(summary)
        rows = {profile["profile"]: profile for profile in new["profiles"]}
        try:
            old = msgspec.json.decode(self.folder.summary.read_bytes(), type=dict[str, Any])
        except (OSError, ValueError, RecursionError):
            old = {}
        same = (
            self.own
            and {name: old.get(name) for name in head} == head
            and all(old.get(who) == head.get(who) for who in ("judge", "reader"))
        )
        if (
            set(rows) != set(self.benchmark.score)
            and same
            and ((judge is None and not self.judged_by_rubric) or self.summary_is_current())
        ):
            merged = {profile["profile"]: profile for profile in old["profiles"]} | rows
            new["profiles"] = [merged[name] for name in self.benchmark.score if name in merged]
        headline = self.headline(summary.metrics)
        content = {**({} if headline is None else headline.figures), **new, **head}
        self.folder.write(self.folder.summary, pretty_json(content))


def headline(run: Run) -> Metric | None:
    """Return the first metric of a run's first profile; None if its benchmark or data cannot be read now."""
    try:
        profile = next(iter(run.benchmark.score))
        return next(iter(run.figures(profile)[profile]), None)
    except SnellenError:
        return None
