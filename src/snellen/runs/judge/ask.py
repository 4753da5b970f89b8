"""Judging and reading a run with a model: `snellen judge` and `snellen read`; a judged run whose source run has grown is extended. No request is sent before model and key are known."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from importlib.metadata import entry_points
from math import inf
from pathlib import Path
from typing import Any, Unpack

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.dotenv_file import dotenv_value
from snellen.engine import fingerprint, journal
from snellen.engine.fingerprint import identity
from snellen.engine.folder_checks import is_own
from snellen.engine.journal import RecordHead, TimedRecordHead, storage_error
from snellen.engine.progress import Display
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, READ, RunFolder, RunSpec, derived_folder
from snellen.errors import JudgeError, PreflightError, RunError, UsageError
from snellen.event_loop import in_loop
from snellen.models import registry as models
from snellen.models.base import DEFAULTS, Model, ModelOptions, as_model
from snellen.models.shutdowns import announced
from snellen.runs.judge.benchmark import (
    LEFT_TO_JUDGE,
    LOST_SHARES,
    OWN,
    PROFILE,
    RAW_FILE,
    RAW_INPUTS,
    JudgeModel,
    judged_benchmark,
    written_text,
)
from snellen.runs.judge.profiles import judged_remarks
from snellen.runs.judge.reading import ALL, UNREAD, has_for_reader, reading_benchmark, require_readable
from snellen.runs.perform import perform
from snellen.runs.run import Run, load_run
from snellen.runs.scoring import Scored, rubric_for
from snellen.runs.settings import JudgeSettings, run_spec, takes
from snellen.scoring.rubric import load_rubric, require_known_places, usable_rubrics
from snellen.sources.journal_lines import bounded_lines
from snellen.types import Record, Sample

BASE_URL, KEY, MODEL = "JUDGE_BASE_URL", "JUDGE_API_KEY", "JUDGE_MODEL"
SELF_HOSTED = "JUDGE_SELF_HOSTED"
"""Set to any word where JUDGE_BASE_URL or --base-url serves a model of its own by a name that its provider has ended."""


@takes(JudgeSettings)
def judge(
    run: str | Path,
    model: str | Model | None = None,
    *,
    rubric: str | None = None,
    out: str | Path | None = None,
    with_images: bool = False,
    rule: bool = False,
    benchmark: Benchmark | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
    display: Display | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Let a model judge the replies of a run, or resume that; the verdicts are a run of their own.

    Of a run that has got further answers since, only these are judged.

    Args:
        run: the folder of the run to judge.
        model: the judge, KIND:NAME; None: the environment variable JUDGE_MODEL, else the judge that the benchmark declares.
        rubric: `match`, `graded`, or the path of a rubric file; None: the rubrics of the run's benchmark, each for the
            samples that it decides, whose verdicts then are the run's scores; `match` where it has none. Of a table with
            questions of kind `judged`, any rubric is for those, and its verdicts are the run's scores.
        out: the verdicts' folder; None: <run>_judged.
        with_images: the judge sees the images of the question too.
        rule: what the benchmark's own rule takes for correct is not judged (`judge_source` is then `rule`).
        benchmark: the judged run's benchmark, where it is not a registered one.
        data, images: where its files lie now, if they were moved.
        trust: as for `load_run`.
        base_url: the judge's endpoint; None: JUDGE_BASE_URL.
        key_env: the name of the variable with its key; None: JUDGE_API_KEY, else the one of its service, OPENAI_API_KEY of
            `api:`.
        limit: only the first N replies.
        seed: that of the marks around replies.
        settings: further settings of the judge and its run, as for `evaluate` (concurrency, generation, max_cost …).

    Raises:
        JudgeError: no judge, no key, no such rubric, no reply, or none that a judge decides; nothing was asked.
        SnellenError: see snellen.errors; verdicts that were given are on disk.
    """
    opened = _answered(run, benchmark, data, images, trust=trust)
    source, subject = opened.folder, opened.benchmark
    spec = run_spec(JUDGED, "", settings)
    who = appointed(model or setting(MODEL) or subject.judge or None, spec.options, option="--model")
    if rule and subject.ruled_correct is None:
        raise UsageError(f"{subject.name} has no rule to apply before the judge", "Omit --rule.")
    if subject.groups is not None:  # each answer has chosen the next question by the benchmark's own reading
        raise UsageError(
            f"{subject.name} measures thresholds from the answers as it read them, and a judge would change none",
            f"Score it without a judge: snellen score {run}",
        )
    chosen = _rubric_options(opened, rubric)
    chosen |= {**({"images": "yes"} if with_images else {}), **({"rule": "yes"} if rule else {})}
    about_run = Data(path=source.path, options=chosen, seed=spec.data.seed)
    judged = judged_benchmark(about_run, subject)
    if next(judged.samples(about_run), None) is None:
        whose = f"of {chosen['rubric'] or subject.name}"
        raise JudgeError(
            f"{run} holds no reply that a rubric {whose} decides",
            "It is scored without a judge. To judge all replies, add --rubric match.",
        )
    spec = structs.replace(spec, data=about_run)
    done = _conducted(spec, who, opened, out, lambda moved: judged_benchmark(moved, subject), display)
    scored = Run(source, opened.meta, subject)
    if subject.rubric is not None and not scored.summary_is_current():
        scored.summarize("all")
    return done


def _rubric_options(run: Run, rubric: str | None) -> dict[str, str]:
    """Return the options of a judged run that say by which rubric which replies are judged."""
    subject = run.benchmark
    if rubric is None:
        return {"rubric": OWN if leaves_to_judge(subject, run.meta.spec.data) else "match"}
    if rubric == OWN:
        return {"rubric": OWN}
    chosen = usable_rubrics(rubric)
    # Where a table leaves replies to any judge, the rubric says how they are judged.
    left = chosen.alone is not None and subject.rule_first and leaves_to_judge(subject, run.meta.spec.data)
    if chosen.alone is not None and chosen.alone.verdict.option:
        _require_options(run, rubric)
    return {"rubric": rubric, LEFT_TO_JUDGE: "yes"} if left else {"rubric": rubric}


def _require_options(run: Run, rubric: str) -> None:
    """Raise JudgeError if a sample has no options for a rubric that has the judge name one."""
    without = next((sample.id for sample in run.benchmark.samples(run.meta.spec.data) if not sample.options), None)
    if without is not None:
        raise JudgeError(
            f"the rubric {rubric} has the judge name an option, and sample {without!r} of {run.benchmark.name} has none",
            "Judge by another rubric: --rubric match.",
        )


def leaves_to_judge(benchmark: Benchmark, data: Data) -> bool:
    """Return True if a benchmark has questions whose replies a judge decides; of a table its rows are looked at."""
    if benchmark.rubric is None or not benchmark.rule_first:
        return benchmark.rubric is not None
    return any(benchmark.rubric(sample) is not None for sample in benchmark.samples(data))


@takes(JudgeSettings)
def read(
    run: str | Path,
    model: str | Model,
    *,
    rubric: str | None = None,
    replies: str = UNREAD,
    out: str | Path | None = None,
    benchmark: Benchmark | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
    display: Display | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Let a model quote the answers of replies that the rules leave unread, or resume that; the readings are a run of their own.

    The model sees question, options and reply, never the gold answer. A quote that does not stand in the reply is refused; the
    others are read by the run's own rules, under the profile `strict` alone (docs/reader.md).

    Args:
        run: the folder of the run.
        model: the reader, KIND:NAME.
        rubric: path of a reader's rubric; None: the package's.
        replies: `unread`, or `all` for a study: what the rules read counts as they read it.
        out: the readings' folder; None: <run>_read, where the run's scores find them.
        benchmark, data, images, trust, display, settings: as for `snellen.judge`.

    Raises:
        JudgeError: no key, no such rubric, or no reply for a reader; nothing was asked.
        SnellenError: see snellen.errors; readings that were given are on disk.
    """
    if replies not in (UNREAD, ALL):
        raise UsageError(f"--reader-for {replies}: expected {UNREAD} or {ALL}", "Choose one of them.")
    opened = _answered(run, benchmark, data, images, trust=trust)
    subject = opened.benchmark
    spec = run_spec(READ, "", settings)
    who = appointed(model, spec.options, option="--reader")
    options = {**({} if rubric is None else {"rubric": rubric}), **({} if replies == UNREAD else {"replies": replies})}
    about_run = Data(path=opened.path, options=options, seed=spec.data.seed)
    reading = reading_benchmark(about_run, subject)
    if rubric is not None:
        require_known_places(load_rubric(rubric))
    folder = RunFolder(out if out is not None else derived_folder(opened.path, READ))
    if not folder.exists() and next(reading.samples(about_run), None) is None:
        raise JudgeError(f"{run} holds no reply for a reader: the rules read every one", "Its scores need no reader.")
    spec = structs.replace(spec, data=about_run)
    done = _conducted(spec, who, opened, folder.path, lambda moved: reading_benchmark(moved, subject), display)
    scored = Run(opened.folder, opened.meta, subject)
    if not scored.summary_is_current():
        scored.summarize("all")
    return done


def _answered(
    run: str | Path, benchmark: Benchmark | None, data: str | Path | None, images: str | Path | None, *, trust: bool
) -> Run:
    """Open a run that holds replies for a model. Raises UsageError, RunError or JudgeError for another one."""
    opened = load_run(run, benchmark=benchmark, trust=trust).moved(data, images)
    source, about = opened.folder, opened.meta
    if about.spec.benchmark in JUDGE_RUNS:
        content = {JUDGED: "verdicts", READ: "readings"}.get(about.spec.benchmark, "labels of failures")
        raise UsageError(
            f"{run} holds {content}; a judge's replies are not judged again", "Pass the run that they are about."
        )
    if not source.results.exists():
        raise RunError(f"{run} holds no answers: {source.results} is not there", f"Resume the run: snellen rerun {run}")
    if opened.all_failed:
        raise JudgeError(
            f"{run} holds no reply to judge: {opened.request_errors().text.removeprefix('no score: ')}",
            f"Fix the cause, then resume the run: snellen rerun {run}",
        )
    return opened


def _conducted(
    spec: RunSpec,
    who: Judge,
    source: Run,
    out: str | Path | None,
    asked: Callable[[Data], Benchmark],
    display: Display | None,
) -> Run:
    """Ask a judge or a reader about a run, or resume that.

    Args:
        spec: the run of its replies, without its model.
        source: the run that it is asked about.
        out: the folder of its replies; None: the usual one.
        asked: the benchmark whose samples are the source's replies, by the spec's data.
    """
    folder = RunFolder(out if out is not None else derived_folder(source.path, spec.benchmark))
    if folder.path.resolve() == source.path.resolve():
        raise UsageError(
            f"--out {folder.path} is the run that is judged; verdicts are a run of their own",
            f"Omit --out to write them to {derived_folder(source.path, spec.benchmark)}.",
        )
    judging = who.opened()
    spec = structs.replace(spec, model=who.name, options=who.options)
    benchmark, asking = asked(spec.data), JudgeModel(judging, folder.path)

    def identity_of(source: RunFolder) -> Mapping[str, Any]:
        moved = structs.replace(spec, data=structs.replace(spec.data, path=source.path))
        return identity(moved, asked(moved.data), asking)

    extend_judged(folder, source.folder, identity_of, lambda: benchmark.samples(spec.data))
    return perform(spec, folder, benchmark=benchmark, model=asking, display=display)


def verdicts(run: Run) -> dict[str, Any]:
    """Build the SUMMARY_JSON object of a judged run: the run, the judge, counts of verdicts, and the score."""
    counts: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    options = run.meta.spec.data.options
    numbered = options.get("rubric") == OWN or LEFT_TO_JUDGE in options

    def each(scored: Scored) -> None:
        (score,) = scored.scores.values()
        lost = scored.record.status != "ok"
        # Of the benchmark's own rubrics: what the judged model gave no reply to is an error of that run, worth 0 there.
        unanswered = not lost and score.verdict in ("error", "invalid")
        counts["unscored" if lost else "wrong" if unanswered else score.verdict] += 1
        label = score.detail.get("judge_verdict", score.extracted)
        if isinstance(label, str) or (numbered and isinstance(label, int)):
            labels[str(label)] += 1

    metrics = run.summarize(each=each, save=False).metrics[PROFILE]
    # A suite begins with means over members that were not judged; shares of samples without a verdict are no score.
    scores = [row for row in metrics if row.value is not None and row.name not in (*LOST_SHARES, "error", "invalid")]
    is_judged = counts["correct"] + counts["partial"] + counts["wrong"] > 0
    metric = scores[0] if scores and is_judged else metrics[0]
    spec = run.meta.spec
    return {
        "run": str(spec.data.path),
        "judged": str(run.path),
        "judge": spec.model,
        "rubric": spec.data.options["rubric"] or "own",
        **({"remarks": remarks} if (remarks := judged_remarks(run)) else {}),
        "n": sum(counts.values()),
        "verdicts": {name: counts[name] for name in ("correct", "partial", "wrong", "unscored")},
        "labels": dict(sorted(labels.items())),
        metric.name: metric.value,
        "ci95": metric.ci95,
        "interval": metric.interval,
        "coverage": metric.coverage,
    }


class AskedModels(Struct, frozen=True):
    """Models that are asked about the replies of a run once it is finished.

    Attributes:
        judge: the judge of what the benchmark leaves to one; None: none.
        reader: the reader of what the rules leave unread; None: none.
        rubric: a rubric in place of the benchmark's own; None: its own.
        replies: what the reader is asked about, `unread` or `all`.
        judge_settings, reader_settings: as for `judge` and `read`.
    """

    judge: str | Model | None = None
    reader: str | Model | None = None
    rubric: str | None = None
    replies: str = UNREAD
    judge_settings: JudgeSettings = {}
    reader_settings: JudgeSettings = {}

    def declared_by(self, benchmark: Benchmark) -> AskedModels:
        """Return these models, and those that the benchmark declares where none is named; `none` asks none."""

        def chosen(named: str | Model | None, declared: str) -> str | Model | None:
            name = (declared or None) if named is None else named
            return None if name == NO_MODEL else name

        return structs.replace(
            self, judge=chosen(self.judge, benchmark.judge), reader=chosen(self.reader, benchmark.reader)
        )

    def require(self, benchmark: Benchmark) -> None:
        """Check reader and judge before a run is paid for.

        Raises:
            JudgeError: one has no key, has been shut down or is none, or the rubric cannot be used.
            UsageError: the benchmark has no replies for a reader.
        """
        if self.rubric is not None:
            usable_rubrics(self.rubric)
        if self.reader is not None:
            require_readable(benchmark)
        for option, model, settings in (
            ("--judge", self.judge, self.judge_settings),
            ("--reader", self.reader, self.reader_settings),
        ):
            if model is not None:
                endpoint = ModelOptions(base_url=settings.get("base_url"), key_env=settings.get("key_env"))
                appointed(model if model != DEFAULT_JUDGE else None, endpoint, option=option)

    def require_ready(self) -> None:
        """Check that a judge behind an API can be reached, before a run is paid for. Raises as the function `require_ready`."""
        judge = setting(MODEL) if self.judge == DEFAULT_JUDGE else self.judge
        if isinstance(judge, str) and spelled(judge).partition(":")[0] in models.API_KINDS:
            in_loop(require_ready(judge, run_spec(JUDGED, "", {**self.judge_settings, "patience_s": 0.0}).options))

    def about(self, run: Run, display: Display | None = None) -> list[Run]:
        """Ask the models about a finished run; return their runs, none where there is nothing to ask.

        Raises:
            SnellenError: as `read` and `judge`; what was answered is on disk.
        """
        done: list[Run] = []
        if self.reader is not None and (self.replies == ALL or has_for_reader(run)):
            done.append(
                read(
                    run.path,
                    self.reader,
                    replies=self.replies,
                    benchmark=run.benchmark,
                    display=display,
                    **self.reader_settings,
                )
            )
        if self.judge is not None and has_for_judge(run):
            model = None if self.judge == DEFAULT_JUDGE else self.judge
            done.append(
                judge(
                    run.path, model, rubric=self.rubric, benchmark=run.benchmark, display=display, **self.judge_settings
                )
            )
        return done


def has_for_judge(run: Run) -> bool:
    """Return True if a judge decides a reply of a run."""
    benchmark = run.benchmark
    return benchmark.rubric is not None and any(
        rubric_for(benchmark, sample, record) is not None for sample, record in run.answers()
    )


NO_MODEL, DEFAULT_JUDGE = "none", "JUDGE_MODEL"
"""Names in place of KIND:NAME: no model at all, and the judge of the environment."""


class Judge(Struct, frozen=True):
    """A judge: KIND:NAME, its options, and the model itself if it came from Python."""

    name: str
    options: ModelOptions
    model: Model | None = None

    def opened(self) -> Model:
        """Open the judge's model."""
        return models.open_model(self.name, self.options) if self.model is None else as_model(self.model)


def appointed(model: str | Model | None, options: ModelOptions = DEFAULTS, *, option: str) -> Judge:
    """Choose the judge that was named, else that of JUDGE_MODEL, at JUDGE_BASE_URL and with JUDGE_API_KEY by default.

    Args:
        model: KIND:NAME, or a model, which has its key; None: JUDGE_MODEL.
        option: what names a judge on the command line, for the message.

    Raises:
        JudgeError: no judge, one with tools, one that its provider has shut down, or no key.
    """
    chosen = model if model is not None else setting(MODEL)
    if chosen is None:
        raise JudgeError("no judge is named", f"Give {option} api:NAME, or set {MODEL}.")
    options = structs.replace(options, base_url=options.base_url or setting(BASE_URL))
    if not isinstance(chosen, str):
        return Judge(chosen.name, options, chosen)
    name = spelled(chosen)
    if name.partition(":")[0] in ("agent", "tools"):
        raise JudgeError(
            f"{name} is no judge: it would see the gold answers and could pass them to its tools",
            f"Name a model without tools: {option} api:NAME.",
        )
    require_served(name, option)
    return Judge(name, structs.replace(options, key_env=require_key(name, options.key_env, option)))


async def require_ready(model: str | Model, options: ModelOptions = DEFAULTS) -> None:
    """Refuse a judge that cannot be reached, before any answer is paid for.

    Raises:
        PreflightError: its server does not answer, refuses its key, or has no such model; nothing was asked.
    """
    judging = (who := appointed(model, options, option="--judge")).opened()
    try:
        await judging.preflight()
    except PreflightError as error:
        raise PreflightError(
            f"the judge {who.name} cannot be asked: {error.message}",
            f"{error.hint}\nTo judge later: omit --judge now, or write --judge none where a judge is declared; the same "
            "command with the judge then asks it alone.",
        ) from error
    finally:
        await judging.close()


def require_served(name: str, option: str) -> None:
    """Refuse a judge that its provider has shut down, unless JUDGE_SELF_HOSTED is set. Raises JudgeError."""
    ended = announced(name)
    if ended is not None and ended.past() and not setting(SELF_HOSTED):
        raise JudgeError(
            f"{ended.provider} shut {ended.model} down on {ended.date}, so it can no longer judge",
            f"Name another judge with {option}, for example: {ended.alternatives()}. If your own endpoint serves a model by "
            f"this name, set {SELF_HOSTED}=1.",
        )


def spelled(name: str) -> str:
    """Return KIND:NAME; a name without a kind is that of a model behind an API, as in JUDGE_MODEL=gpt-6-astra."""
    kinds = {*models.KINDS, *(point.name for point in entry_points(group=models.GROUP))}
    return name if name.partition(":")[0] in kinds else f"api:{name}"


def require_key(model: str, key_env: str | None, option: str = "--model") -> str | None:
    """Return the name of the variable that holds the judge's key.

    Raises:
        JudgeError: the judge is behind an API and there is none. A run that nobody could pay for must not begin, and
            no rule stands in for a judge.
    """
    kind = model.partition(":")[0]
    if kind not in models.API_KINDS:
        return key_env
    from snellen.models.api.services import DEFAULT_VARIABLE, find_key, require_variable, service

    require_variable(key_env)
    usual = service(kind).key_variables or ((DEFAULT_VARIABLE,) if kind == "api" else ())
    for variable in [key_env] if key_env is not None else [KEY, *usual]:
        try:
            if find_key(variable):
                return variable
        except PreflightError:
            continue
    missing = f"{key_env} is not" if key_env is not None else f"neither {' nor '.join((KEY, *usual))} is"
    raise JudgeError(
        f"there is no key for the judge {model}: {missing} set, in the environment or in .env",
        f"Set {key_env or KEY}. For a local server without keys, set it to any word."
        + ("" if option == "--model" else f" To ask none, also where one is declared: {option} none."),
    )


def setting(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Read a JUDGE_ variable from the environment, else from .env; None if it is unset or empty."""
    value = environment.get(name)
    return value or dotenv_value(name) or None


class _Asked(Struct, frozen=True, gc=False):
    sample_id: str
    attempt: int
    text: str
    system: str | None = None


def extend_judged(
    judged: RunFolder,
    source: RunFolder,
    identity: Callable[[RunFolder], Mapping[str, Any]],
    questions: Callable[[], Iterable[Sample]],
) -> bool:
    """Make a judged run fit its source as it is now, if that has only grown or was mended since it was judged.

    A journal is only ever appended to. So the source has merely grown if some beginning of its journal has the digest
    that was judged, and the judge's questions about that beginning are those that were asked. What was answered (or has
    failed again) behind it loses its empty verdict; everything else is kept. Done in an order that a crash does not hurt.

    A journal that was damaged and mended has no such beginning. Then a verdict is kept if its answer is older than it and
    the judge's question about that answer is the question on record in raw_judge_inputs. So it is with readings of replies
    that other rules left unread.

    Args:
        judged: the folder of the verdicts; nothing is done where there is no run in it.
        identity: what the judged run's meta would say was run, if the source were the folder that it is given.
        questions: the judge's questions about the source as it is now.

    Returns:
        Whether the judged run was changed. Where not, the engine compares the identities as ever.

    Raises:
        RunLockedError: somebody is judging. StorageError: it cannot be written.
    """
    if not judged.exists() or not source.results.exists():
        return False
    recorded = str(judged.meta().identity.get("data", "")).partition(" ")[0]
    end, later = _since(source.results, recorded)
    unchanged = end is not None and not later
    if unchanged and judged.meta().spec.benchmark != READ:
        return False
    with judged.locked():
        meta = judged.meta()
        if unchanged and not any(fingerprint.differences(meta.identity, identity(source))):
            return False
        if end is None or unchanged:
            if not _same_but_for_answers(meta.identity, identity(source)):
                return False
            standing, later = _verdicts_that_still_hold(judged, source, questions())
            if not standing:
                return False
        elif not _same_then(source, end, identity, meta.identity):
            return False
        journal.mend(judged.results, Record, without=later)
        now = dict(identity(source))
        records = journal.last_number(judged.results)
        changed = structs.replace(
            meta, identity=now, fingerprint=fingerprint.digest(now), state="partial", records=records
        )
        judged.write_meta(changed, own=is_own(meta))
    return True


def _since(path: Path, recorded: str) -> tuple[int | None, set[str]]:
    """Find the end in bytes of the beginning with this digest (None: none), and the records behind it."""
    name_of = msgspec.json.Decoder(RecordHead).decode
    hasher, end, judged_end = sha256(), 0, None
    later: set[str] = set()
    with path.open("rb") as file:
        for line in bounded_lines(file, path):
            if not line.endswith(b"\n"):  # torn: no record yet
                break
            if judged_end is not None:
                try:
                    head = name_of(line)
                except journal.NOT_JSON:  # the engine says so
                    continue
                later.add(head.name)
                continue
            hasher.update(line)
            end += len(line)
            if recorded == f"sha256:{hasher.hexdigest()}":
                judged_end = end
    return judged_end, later


def _same_but_for_answers(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return True if two judged runs differ in the judged answers alone: rubric and judge are the same.

    Which answers a reader is asked about depends on the rules of this version too.
    """
    rubric_before, rubric_now = (
        str(data_identity.get("data", "")).partition(" ")[2] for data_identity in (before, now)
    )
    changed = {name for name, _, _ in fingerprint.differences(before, now)}
    return bool(changed) and changed <= {"data", "prompts"} and rubric_before == rubric_now


def _verdicts_that_still_hold(
    judged: RunFolder, source: RunFolder, questions: Iterable[Sample]
) -> tuple[set[str], set[str]]:
    """Return the names of verdicts about the source's present answers, and of all other verdicts.

    A verdict on which no judge was asked (no answer, or a rule decided) is among the others: it is made again at no cost.
    """
    answered_at = {head.name: head.finished_at for head in journal.intact(source.results, TimedRecordHead)}
    digests = {
        line.sample_id: _digest(line.system or "", line.text)
        for line in journal.intact(judged.path / RAW_INPUTS / RAW_FILE, _Asked)
        if line.attempt == 1
    }
    same = {
        sample.id
        for sample in questions
        if digests.get(sample.id) == _digest(sample.prompt.system or "", written_text(sample.prompt))
    }
    names, standing = set(), set()
    for record in journal.intact(judged.results, TimedRecordHead):
        names.add(record.sample_id)
        if record.sample_id in same and answered_at.get(record.sample_id, inf) <= record.started_at:
            standing.add(record.sample_id)
        else:
            standing.discard(record.sample_id)
    return standing, names - standing


def _digest(*texts: str) -> bytes:
    return sha256("\0".join(texts).encode("utf-8", "surrogatepass")).digest()


def _same_then(
    source: RunFolder, end: int, identity: Callable[[RunFolder], Mapping[str, Any]], before: Mapping[str, Any]
) -> bool:
    """Return True if judging the source as it was then is the same experiment: rubric, judge and wording."""
    with tempfile.TemporaryDirectory(prefix="snellen-judged-") as place:
        earlier = RunFolder(place)
        try:
            meta = source.meta()
            earlier.write_meta(structs.replace(meta, records=None), own=is_own(meta))
            shutil.copyfile(source.results, earlier.results)
            os.truncate(earlier.results, end)
        except OSError as error:
            raise storage_error(Path(place), error) from error
        return not any(fingerprint.differences(before, identity(earlier)))
