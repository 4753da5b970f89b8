"""The Python interface: evaluate a model, score a run again, load a run. The command line calls these same functions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks import registry as benchmarks
from snellen.benchmarks.base import Benchmark, Data, Headline
from snellen.engine.caveats import caveats
from snellen.engine.endpoints import check_rerun, with_endpoint
from snellen.engine.folder import RunFolder, RunMeta, RunSpec
from snellen.engine.limits import UNPRICED
from snellen.engine.live import LiveScores
from snellen.engine.loop import in_loop
from snellen.engine.places import located
from snellen.engine.progress import Display
from snellen.engine.ray import open_scattered
from snellen.engine.retry import Backoff
from snellen.engine.run import require_written, run
from snellen.engine.state import without_record
from snellen.engine.trust import find_named, guarded
from snellen.errors import DataError, SnellenError, UsageError
from snellen.models.base import Model, ModelOptions
from snellen.redaction.arguments import key_among
from snellen.types import Generation, MediaSettings, Metric

if TYPE_CHECKING:
    import pyarrow as pa

    from snellen.engine.request_errors import RequestErrors
    from snellen.engine.rescore import Scored, Summary
    from snellen.engine.verdicts import Verdicts

JUDGED, LABELLED = "judged", "failures"


def evaluate(
    benchmark: str | Benchmark,
    model: str | Model,
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    benchmark_options: Mapping[str, str] | None = None,
    limit: int | None = None,
    repeats: int = 1,
    seed: int = 0,
    concurrency: int = 16,
    generation: Generation | None = None,
    media: MediaSettings | None = None,
    display: Display | None = None,
    nproc: int | None = None,
    ray: str | None = None,
    **model_options: Any,
) -> Run:
    """Run a benchmark with a model, or go on with a run that was begun, and sum it up.

    Args:
        benchmark: a name (`snellen list`), or a Benchmark.
        model: KIND:NAME as on the command line, or any object with the Model protocol.
        out: the run's folder; by default results/<benchmark>-<model>.
        data, images: where the benchmark's files lie.
        benchmark_options: what `-o key=value` sets.
        limit: only the first so many samples.
        repeats: how often each question is asked.
        seed: seeds what the benchmark draws and what a local model samples; for an endpoint see Generation.seed.
        concurrency: questions in flight at most.
        generation, media: how the model writes, what is done to pictures.
        nproc, ray: how many workers hold a local model, and the Ray that they run on (docs/scale-out.md).
        model_options: further fields of ModelOptions (base_url, timeout_s, dtype …).

    Raises:
        SnellenError: see snellen.errors; whatever was answered before it is on disk.
    """
    options = ModelOptions(
        generation=generation or Generation(),
        media=media or MediaSettings(),
        concurrency=concurrency,
        seed=seed,
        **model_options,
    )
    spec = RunSpec(
        benchmark=benchmark if isinstance(benchmark, str) else benchmark.name,
        model=model if isinstance(model, str) else model.name,
        data=Data(
            path=None if data is None else Path(data),
            images=None if images is None else Path(images),
            options=dict(benchmark_options or {}),
            seed=seed,
        ),
        options=options,
        limit=limit,
        repeats=repeats,
        nproc=nproc,
        ray=ray,
    )
    return perform(
        spec,
        RunFolder(out if out is not None else default_folder(spec)),
        benchmark=benchmark if isinstance(benchmark, Benchmark) else None,
        model=None if isinstance(model, str) else model,
        display=display,
        trust=True,  # the caller names the benchmark
    )


def perform(
    spec: RunSpec,
    folder: RunFolder,
    *,
    benchmark: Benchmark | None = None,
    model: Model | None = None,
    display: Display | None = None,
    backoff: Backoff | None = None,
    trust: bool = False,
) -> Run:
    """Do what a RunSpec says in a folder, write summary.json, and return the run.

    `trust`: the spec is the user's own, so that it may name code (`module:ATTRIBUTE`) as its benchmark.

    Raises:
        SnellenError: see snellen.errors; whatever was answered before it is on disk.
    """
    if spec.repeats < 1 or (spec.limit is not None and spec.limit < 1):
        raise UsageError(f"--repeats {spec.repeats}, --limit {spec.limit}: both must be at least 1")
    require_no_keys(spec)
    if benchmark is None:
        spec = structs.replace(spec, benchmark=benchmarks.lasting(spec.benchmark))
    asked = benchmark or find_benchmark(spec, folder, trust=trust)
    unknown = sorted(set(spec.data.options) - set(asked.options))
    if unknown:
        known = ", ".join(asked.options) or "none"
        raise UsageError(f"{asked.name} has no option {unknown[0]!r}", f"Its options for -o: {known}.")
    if model is not None and (spec.ray is not None or spec.nproc not in (None, 1)):
        raise UsageError(
            "nproc and ray start copies of a model by its name, and this one is an object.",
            "Name it KIND:NAME; a kind of your own is an entry point of the group snellen.models.",
        )
    answering = model or open_model(spec, folder)
    remarks: list[str] = []
    if spec.model.startswith("replay:"):
        from snellen.engine.answers import meet_replay  # few runs replay answers
        from snellen.models.replay import ReplayModel

        if isinstance(answering, ReplayModel):
            remarks = meet_replay(answering, asked, spec.data, spec.limit)

    scores = LiveScores(next(iter(asked.score.values())))

    async def whole() -> RunMeta:
        try:
            return await run(spec, asked, answering, folder, display=display, backoff=backoff, scores=scores)
        finally:
            await answering.close()

    meta = in_loop(whole())
    done = Run(folder, meta, asked, trust=trust, remarks=tuple(remarks))
    if spec.benchmark == JUDGED:
        done.write_verdicts()
    elif not done.summary_is_current():
        done.summarize("all", live=scores)
    require_written(folder, meta)
    return done


def require_no_keys(spec: RunSpec) -> None:
    """Raise UsageError where a setting holds a key: all of them are written into run_meta.json."""
    from snellen.models.api.keys import require_variable  # it brings the API model, which most commands do without

    options = spec.options
    require_variable(options.key_env)
    settings: dict[str, Any] = {
        "--model": spec.model,
        "--base-url": options.base_url,
        "--extra-body": options.extra_body,
        "Generation.extra": options.generation.extra,
        "--stop": options.generation.stop,
        "--option": spec.data.options,
        "--agent-model": options.agent_model,
        "--revision": options.revision,
        "--ray": spec.ray,
    }
    for name, value in settings.items():
        if (held := key_among(value)) is not None:
            raise UsageError(
                f"{name} holds {held}: a key, by its name or its shape. Settings are written into the run's record.",
                "Put the key into an environment variable and name it with --key-env.",
            )


def rerun(
    path: str | Path,
    *,
    out: str | Path | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    benchmark: Benchmark | None = None,
    model: Model | None = None,
    base_url: str | None = None,
    key_env: str | None = None,
    trust: bool = False,
    confirm: Callable[[str], bool] | None = None,
    prices: str | Path | None = None,
    display: Display | None = None,
    patience_s: float | None = None,
    rpm: float | None = None,
    tpm: float | None = None,
) -> Run:
    """Repeat a run from its run_meta.json: in its own folder (what is missing or failed), or anew in `out`.

    Args:
        path: the run's folder.
        out: do it all again in this folder.
        data, images: where the benchmark's files lie now, if they were moved.
        benchmark, model: needed only where the run was made with objects that have no registered name.
        base_url, key_env: the endpoint that is asked and the variable with its key, where the run's own are not those
            of this environment (snellen.engine.endpoints).
        trust: run_meta.json may name code to import, and files and programs of this machine (docs/run-folder.md).
        confirm: asks a person whether the run's own endpoint may be used; None: it may not.
        patience_s, rpm, tpm, prices: replace those of the run; None: as recorded.

    Raises:
        UntrustedRunError: run_meta.json names what needs the user's word; nothing was read, started or sent.
        SnellenError: see snellen.errors; whatever was answered before it is on disk.
    """
    source = RunFolder(path)
    meta = located(source, source.meta())
    spec = with_endpoint(source, meta, base_url=base_url, key_env=key_env, asked=model is None, confirm=confirm)
    if data is not None or images is not None:
        where = structs.replace(
            spec.data,
            path=spec.data.path if data is None else Path(data),
            images=spec.data.images if images is None else Path(images),
        )
        spec = structs.replace(spec, data=where)
    asked = benchmark
    if asked is None:
        asked = guarded(find_benchmark(spec, source, trust=trust), source, meta, trust=trust)
    check_rerun(source, meta, spec, trust=trust, asked=model is None)
    priced = prices is not None and spec.model.partition(":")[0] not in UNPRICED
    pace = {"patience_s": patience_s, "rpm": rpm, "tpm": tpm, "prices": str(prices) if priced else None}
    chosen = {name: value for name, value in pace.items() if value is not None}
    spec = structs.replace(spec, options=structs.replace(spec.options, **chosen))
    folder = RunFolder(out if out is not None else path)
    return perform(spec, folder, benchmark=asked, model=model, display=display, trust=trust)


def load_run(path: str | Path, *, benchmark: Benchmark | None = None, trust: bool = False) -> Run:
    """Open a run folder for reading.

    Args:
        path: the folder.
        benchmark: the run's benchmark, where it is not a registered one.
        trust: run_meta.json may name code to import (`module:ATTRIBUTE`) and data anywhere; say so only of folders whose
            author you trust (docs/run-folder.md).

    Raises:
        RunError: there is no run in `path`, or a file of it is a link.
    """
    folder = RunFolder(path)
    meta = located(folder, folder.meta())
    return Run(folder, meta, None if benchmark is None else guarded(benchmark, folder, meta, trust=trust), trust=trust)


class _SavedProfile(Struct):
    profile: str
    metrics: list[Metric]


class _Saved(Struct):
    """What is read of summary.json."""

    profiles: list[_SavedProfile]


@dataclass
class Run:
    """A run on disk: its records, scores and metrics as Arrow tables."""

    folder: RunFolder
    meta: RunMeta
    _benchmark: Benchmark | None = None
    _judged_by: tuple[int | None, str] | None = None
    _errors: RequestErrors | None = None
    trust: bool = False
    remarks: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def benchmark(self) -> Benchmark:
        if self._benchmark is None:
            found = find_benchmark(self.meta.spec, self.folder, trust=self.trust)
            self._benchmark = guarded(found, self.folder, self.meta, trust=self.trust)
        return self._benchmark

    def moved(
        self, data: str | Path | None, images: str | Path | None, options: Mapping[str, str] | None = None
    ) -> Run:
        """This run with its files elsewhere.

        Raises:
            DataError: what lies there is not what was asked about.
        """
        if data is None and images is None and not options:
            return self
        before = self.meta.spec.data
        if self.meta.spec.benchmark == JUDGED and self._benchmark is None and data is not None:
            # It is made of the run that was judged, and cannot be made of where that is no longer.
            moved = structs.replace(self.meta.spec, data=structs.replace(before, path=Path(data)))
            self._benchmark = find_benchmark(moved, self.folder, trust=self.trust)
        there = given_data(
            self.benchmark,
            data or before.path,
            images or before.images,
            {**before.options, **(options or {})},
            before.seed,
        )
        spec = structs.replace(self.meta.spec, data=there)
        found, recorded = self.benchmark.digest(there), self.meta.identity.get("data")
        if found != recorded and recorded != "":
            raise DataError(
                f"{self.path}: the run's data has digest {recorded}, the data given now {found}",
                "Give the data that the questions were made from.",
            )
        return Run(self.folder, structs.replace(self.meta, spec=spec), self._benchmark, trust=self.trust)

    @property
    def writable(self) -> bool:
        """Scores can be had of a run on a disk that cannot be written too."""
        return os.access(self.path, os.W_OK)

    def notes(self) -> list[str]:
        """What a reader of the scores must know, one line each; of judged replies also who judged them."""
        errors = self.request_errors().text
        lines = [errors if one.about == "lost" and errors else one.text for one in caveats(self.meta, self.benchmark)]
        lines += filter(None, [without_record(self.folder, self.benchmark, self.meta.spec)])
        return [*lines, *([judge] if (judge := self.judged_by()) else [])]

    def request_errors(self) -> RequestErrors:
        """The samples without an answer, and the commonest errors; read once, and only where the run has failed samples."""
        from snellen.engine.request_errors import RequestErrors, request_errors

        totals = self.meta.totals
        if self._errors is None:
            lost = totals.error + totals.timeout
            unclear = lost or self.meta.state == "running"  # a killed run's totals are those of its beginning
            self._errors = request_errors(self.folder) if unclear else RequestErrors(totals.done, 0)
        return self._errors

    def judged_by(self) -> str:
        """One line: which judge decided how many replies, or that none has; empty where none has to."""
        if self.benchmark.rubric is None:
            return ""
        if self._judged_by is None or self._judged_by[0] != self._last_verdict():
            self.summarize(save=False)
        return "" if self._judged_by is None else self._judged_by[1]

    def _last_verdict(self) -> int | None:
        """When the last verdict in <run>_judged was written, in nanoseconds; None where there is none."""
        judged = self._judged_beside()
        return judged.results.stat().st_mtime_ns if judged is not None and judged.results.exists() else None

    def _judged_beside(self) -> RunFolder | None:
        if self.benchmark.rubric is None:
            return None
        from snellen.engine.verdicts import beside  # it takes time, and most benchmarks need no judge

        return beside(self.folder)

    def verdicts(self) -> Verdicts | None:
        """The replies of the judge in <run>_judged, where the benchmark has rubrics of its own and they were used."""
        judged = self._judged_beside()
        if judged is None:
            return None
        from snellen.engine import verdicts

        return verdicts.read(judged, self.folder)

    def summary_is_current(self) -> bool:
        """Whether summary.json was written after the last answer and the last verdict, by the judge that there is."""
        judged = self._judged_beside()
        try:
            written = self.folder.summary.stat().st_mtime_ns
            newest = [self.folder.results, *([] if judged is None else [judged.results])]
            if any(path.exists() and path.stat().st_mtime_ns > written for path in newest):
                return False
            saved = msgspec.json.decode(self.folder.summary.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return False
        return ("judge" in saved) == (judged is not None)

    def records(self) -> pa.Table:
        """One row a sample (and repeat): sample_id, repeat, status, text, error_kind, error, attempts, latency_s,
        input_tokens, output_tokens, cost, started_at, finished_at."""
        from snellen.engine.arrow import records_table

        return records_table(self.folder)

    def scores(self, profile: str | None = None) -> pa.Table:
        """One row a sample and profile: sample_id, repeat, profile, value, extracted, verdict, reason."""
        from snellen.engine.arrow import ScoreRows

        rows = ScoreRows()
        self.summarize(profile, each=rows.add, save=False)
        return rows.table()

    def metrics(self, profile: str | None = "all") -> pa.Table:
        """One row a metric and profile: profile, name, value, n, low, high, unit, coverage, chance."""
        from snellen.engine.arrow import metrics_table

        return metrics_table(self.summarize(profile, save=False).metrics)

    def figures(self, profile: str | None = None) -> dict[str, list[Metric]]:
        """Metrics by profile, from summary.json where it is of the last answer and verdict, else by scoring again."""
        from snellen.engine.rescore import profiles_of

        wanted = list(profiles_of(self.benchmark, profile))
        saved: dict[str, list[Metric]] = {}
        try:
            if self.summary_is_current():
                found = msgspec.json.decode(self.folder.summary.read_bytes(), type=_Saved)
                saved = {one.profile: one.metrics for one in found.profiles}
        except (OSError, msgspec.DecodeError):
            saved = {}
        if all(name in saved for name in wanted):
            totals = self.meta.totals
            if totals.error + totals.timeout and not totals.done:  # an older version saved 0 where nothing was answered
                from snellen.engine.rescore import unanswered

                return {name: unanswered(saved[name]) for name in wanted}
            return {name: saved[name] for name in wanted}
        return {name: list(rows) for name, rows in self.summarize(profile, save=False).metrics.items()}

    def metric(self, name: str, profile: str | None = None) -> Metric:
        """One metric by name under one profile (the default one if none is named)."""
        found = {m.name: m for rows in self.summarize(profile, save=False).metrics.values() for m in rows}
        if name not in found:
            raise UsageError(f"{self.path} has no metric {name!r}", f"It has: {', '.join(found)}.")
        return found[name]

    def summarize(
        self,
        profile: str | None = None,
        *,
        each: Callable[[Scored], None] | None = None,
        save: bool = True,
        verdicts: Verdicts | None = None,
        live: LiveScores | None = None,
    ) -> Summary:
        """Score all records again under one or more profiles (`all`), and write summary.json if `save`.

        Replies that a judge decides are scored by `verdicts`, or else by those of the judged run beside this one; those
        that `live` holds the score of are not read again.
        """
        from snellen.engine import rescore

        benchmark = self.benchmark
        newest = self._last_verdict()
        judge = verdicts if verdicts is not None else self.verdicts()
        spec = self.meta.spec
        records = rescore.final_records(self.folder.results)
        pairs = rescore.match(benchmark, spec.data, records, repeats=spec.repeats)
        summary = rescore.summarize(
            benchmark,
            pairs,
            rescore.profiles_of(benchmark, profile),
            expected=rescore.count(benchmark, spec.data) * spec.repeats,
            each=each,
            verdicts=judge,
            live=live,
        )
        who = ""
        if summary.for_judge:
            from snellen.engine.verdicts import judged_by

            who = judged_by(summary, judge)
        self._judged_by = (newest, who)
        if save:
            self._save(summary, judge)
        return summary

    def write_verdicts(self) -> None:
        """Sum up a judged run, and write verdicts.jsonl: one line a reply, with its `judge_verdict`."""
        from snellen.engine.judge import verdict_row

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
        """The metrics of the first profile in one line, where the benchmark has one."""
        if self.benchmark.headline is None:
            return None
        first = metrics.get(next(iter(self.benchmark.score)))
        return None if first is None else self.benchmark.headline(first)

    def _save(self, summary: Summary, judge: Verdicts | None) -> None:
        """Write summary.json; profiles that were not scored this time stay as they were, if of the same records."""
        if not self.writable:
            return
        head: dict[str, Any] = {
            "fingerprint": self.meta.fingerprint,
            "rows": summary.rows,
            "expected": summary.expected,
        }
        if judge is not None:
            head["judge"] = {
                "model": judge.model,
                "folder": judge.folder,
                "replies": summary.for_judge,
                "without_verdict": summary.without_verdict,
                "out_of_range": summary.out_of_range,
            }
        new = summary_json(summary)
        rows = {one["profile"]: one for one in new["profiles"]}
        try:
            old = msgspec.json.decode(self.folder.summary.read_bytes(), type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            old = {}
        same = {name: old.get(name) for name in head} == head and old.get("judge") == head.get("judge")
        if set(rows) != set(self.benchmark.score) and same and (judge is None or self.summary_is_current()):
            kept = {one["profile"]: one for one in old["profiles"]} | rows
            new["profiles"] = [kept[name] for name in self.benchmark.score if name in kept]
        headline = self.headline(summary.metrics)
        content = {**({} if headline is None else headline.figures), **new, **head}
        self.folder.write(self.folder.summary, msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def headline(run: Run) -> Metric | None:
    """The first metric of a run's first profile; None where its benchmark or data cannot be read now."""
    try:
        profile = next(iter(run.benchmark.score))
        return next(iter(run.figures(profile)[profile]), None)
    except SnellenError:
        return None


def given_data(
    benchmark: Benchmark,
    data: str | Path | None,
    images: str | Path | None,
    options: Mapping[str, str] | None,
    seed: int = 0,
) -> Data:
    """What the user says about the data. Raises UsageError for an option that the benchmark does not have."""
    unknown = sorted(set(options or {}) - set(benchmark.options))
    if unknown:
        known = ", ".join(benchmark.options) or "none"
        raise UsageError(f"{benchmark.name} has no option {unknown[0]!r}", f"Its options for -o: {known}.")
    return Data(
        path=None if data is None else Path(data),
        images=None if images is None else Path(images),
        options=dict(options or {}),
        seed=seed,
    )


def summary_json(summary: Summary) -> dict[str, Any]:
    """The stable form: {benchmark, profiles: [{profile, metrics: [{name, value, n, ci95, unit, coverage}]}]}."""
    return {
        "benchmark": summary.benchmark,
        "profiles": [
            {"profile": profile, "metrics": [structs.asdict(metric) for metric in metrics]}
            for profile, metrics in summary.metrics.items()
        ],
    }


def find_benchmark(spec: RunSpec, folder: RunFolder | None = None, *, trust: bool = False) -> Benchmark:
    """The benchmark that a spec names; that of a judge's run is made of the run that it is about.

    Args:
        spec: what is run.
        folder: the run folder that the spec comes from, for messages.
        trust: the spec may name code to import; the user typed it, or trusts the folder's author.

    Raises:
        UntrustedRunError: it names code, and is not trusted.
    """
    if spec.benchmark == JUDGED:
        from snellen.engine import judge

        return judge.benchmark(spec.data, trust=trust)
    if spec.benchmark == LABELLED:
        from snellen.engine import labelling

        return labelling.benchmark(spec.data, trust=trust)
    return find_named(spec.benchmark, folder, trust=trust)


def open_model(spec: RunSpec, folder: RunFolder) -> Model:
    """The model that a spec names; a judge is asked again where its verdict cannot be read."""
    model = open_scattered(spec.model, spec.options, spec.nproc, spec.ray)
    if spec.benchmark in (JUDGED, LABELLED):
        from snellen.engine import judge

        return judge.Asking(model, folder.path)
    return model


def default_folder(spec: RunSpec, root: Path = Path("results")) -> Path:
    """results/<benchmark>-<model>, with what a file name cannot hold replaced by hyphens."""
    name = f"{spec.benchmark}-{spec.model.removeprefix('api:').removeprefix('local:')}"
    return root / re.sub(r"[^A-Za-z0-9._]+", "-", name).strip("-.")
