"""Scoring a run again, or answers that another harness wrote; `snellen score` calls this."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from snellen.benchmarks import registry as benchmarks
from snellen.benchmarks.base import Benchmark, Data, checked_data
from snellen.engine.data_paths import same_questions
from snellen.engine.request_errors import ANSWERED, RequestErrors
from snellen.engine.run_folder import RunFolder, runs_hint, runs_in
from snellen.errors import DataError, UsageError
from snellen.formats import open_answers
from snellen.formats.base import SHOWN, Problems
from snellen.runs import scoring
from snellen.runs.coordinates import odd_line
from snellen.runs.external_answers import id_hint, score_file, score_results
from snellen.runs.judge.verdicts import Replies, judged_by
from snellen.runs.reviews.decisions import ReviewRules
from snellen.runs.run import Run, load_run
from snellen.runs.scoring import Scored, Summary
from snellen.runs.settings import AnswerFields, JudgeSettings, takes

if TYPE_CHECKING:
    from snellen.engine.progress import Display
    from snellen.models.base import Model


@takes(AnswerFields, defaults={"id_is": "id"})
def score(
    answers: str | Path,
    benchmark: str | Benchmark | None = None,
    *,
    data: str | Path | None = None,
    images: str | Path | None = None,
    benchmark_options: Mapping[str, str] | None = None,
    profile: str | None = None,
    each: Callable[[Scored], None] | None = None,
    judge_replies: str | Path | None = None,
    reviews: ReviewRules | None = None,
    trust: bool = False,
    reader: str | Model | None = None,
    reader_for: str = "unread",
    reader_settings: JudgeSettings | None = None,
    display: Display | None = None,
    **fields: Unpack[AnswerFields],
) -> tuple[Summary, list[str]]:
    """Score a run again, or answers that another harness wrote; no request is sent, but to a reader.

    A run's folder brings its benchmark and data along, and its summary.json is rewritten. Any other file (see
    docs/interop.md) needs `benchmark`, and the data where the benchmark has none of its own.

    Args:
        answers: a run's folder, or a file of answers.
        benchmark, data, images, benchmark_options: as for `evaluate`; for a run only what has moved since.
        profile: None: the first; `all`, or several by comma.
        id_field, reply_field: the fields of the file, where they cannot be told by their names.
        id_is: what the file's ids are: `id`, `position` (from 0), `ordinal` (from 1), or a meta field of the samples.
        each: sees every scored row, in the order of the file.
        judge_replies: a file of what a judge said about each reply that a judge decides (docs/judge.md), in place of
            the verdicts in <run>_judged; a run's summary.json is then left as it is.
        reviews: how people's decisions become scores, for the profiles `reviewed` and `audited` of a run (docs/review.md).
        trust: as for `load_run`; a `benchmark` that is named here needs none.
        reader, reader_for: the model that quotes the answers of a run's replies which the rules leave `unread` (or of
            `all`), as `snellen.read` does.
        reader_settings, display: settings of the reader's own run, and what shows its progress.

    Returns:
        The metrics by profile, and what a reader must know beside them, one line each.

    Raises:
        SnellenError: see snellen.errors.
    """
    path, id_is = Path(answers), fields.get("id_is", "id")
    folder = RunFolder(path if path.is_dir() else path.parent)
    own = folder.exists() and path in (folder.path, folder.results)
    if own and (benchmark is None or path.is_dir()):
        file_options = {"--id-field": fields.get("id_field"), "--reply-field": fields.get("reply_field")}
        if judge_replies is None and id_is != "id":
            file_options["--id-is"] = id_is
        _only_for_files([name for name, value in file_options.items() if value is not None], folder)
        # A built set that has moved since, or code that the user names and not the folder.
        own_words = isinstance(benchmark, str) and (benchmarks.is_path(benchmark) or benchmarks.is_code(benchmark))
        named = benchmarks.find(str(benchmark)) if own_words else benchmark
        run = load_run(folder.path, benchmark=named if isinstance(named, Benchmark) else None, trust=trust)
        moved = run.moved(data, images, benchmark_options)
        if named is not None and moved.benchmark.name != getattr(named, "name", named):
            raise UsageError(
                f"{folder.path} is a run of {moved.benchmark.name}, not of {benchmark}",
                f"To score its replies as answers to {benchmark} anyway, pass {folder.results} as the file.",
            )
        _same_set(moved)
        if reader is not None:
            from snellen.runs.judge.ask import NO_MODEL, AskedModels  # it opens models, and scoring needs none

            asked = AskedModels(NO_MODEL, reader, replies=reader_for, reader_settings=reader_settings or {})
            asked = asked.declared_by(moved.benchmark)
            asked.require(moved.benchmark)
            asked.about(moved, display)
        return _score_run(moved, profile, each, judge_replies, reviews, id_is)
    if reader is not None:
        raise UsageError(
            f"a reader's readings are kept beside a run, and {path} is none",
            "Make a run of the file first: snellen import FILE --benchmark NAME",
        )
    if not path.exists():
        raise DataError(f"no such file or folder: {path}", "Check the path; `snellen list --runs` lists the runs here.")
    if benchmark is None:
        hint = runs_hint(path) if runs_in(path) else "Name it: --benchmark NAME."
        raise UsageError(f"{path} is not a run's folder, so its benchmark is unknown", hint)
    subject = benchmark if isinstance(benchmark, Benchmark) else benchmarks.find(benchmark)
    where = checked_data(subject, data, images, benchmark_options)
    return _score_answers(path, subject, where, profile, each, judge_replies, fields)


def _score_run(
    run: Run,
    profile: str | None,
    each: Callable[[Scored], None] | None,
    judge_replies: str | Path | None,
    reviews: ReviewRules | None,
    id_is: str,
) -> tuple[Summary, list[str]]:
    about = run.meta.spec.data
    if profile is None and run.judged_by_rubric:  # what a judge was paid for is shown beside the rules
        scored = run.benchmark.score
        profile = ",".join([next(iter(scored)), *(name for name in run.judged_by_rubric if name in scored)])
    replies = None if judge_replies is None else Replies(Path(judge_replies), run.benchmark, id_is=id_is, data=about)
    summary = run.summarize(profile, each=each, save=replies is None, verdicts=replies, rules=reviews)
    _some_used(replies, summary, run.benchmark, about, id_is)
    headline = run.headline(summary.metrics)
    remarks = [] if run.writable else [f"{run.path} is read-only: its summary.json is not updated"]
    odd = odd_line(next(iter(summary.metrics.values()), ()))
    lines = [
        *summary.notes,
        *filter(None, [odd]),
        *([] if headline is None else [headline.text]),
        *remarks,
        *run.notes(),
    ]
    return summary, [*lines, *(replies.notes() if replies is not None else ())]


def _score_answers(
    path: Path,
    subject: Benchmark,
    where: Data,
    profile: str | None,
    each: Callable[[Scored], None] | None,
    judge_replies: str | Path | None,
    fields: AnswerFields,
) -> tuple[Summary, list[str]]:
    id_field, reply_field, id_is = fields.get("id_field"), fields.get("reply_field"), fields.get("id_is", "id")
    scorers = scoring.profiles_of(subject, profile)
    answered = failed = 0

    def count(scored: Scored) -> None:
        nonlocal answered, failed
        is_answer = scored.record.status in ANSWERED
        answered, failed = answered + is_answer, failed + (not is_answer)
        if each is not None:
            each(scored)

    def without_reply() -> list[str]:
        """Return the line about rows of the file that hold no reply."""
        errors = RequestErrors(answered, failed, counted=subject.unanswered)
        return [errors.text.replace("samples have no answer", "answers are empty or failures")] if failed else []

    rows = subject.results is not None
    verdicts = (
        None if judge_replies is None else Replies(Path(judge_replies), subject, of_rows=rows, id_is=id_is, data=where)
    )
    if subject.results is not None and id_field is None and reply_field is None and id_is == "id":
        problems = Problems()
        pairs = subject.results(path, where, problems)
        if pairs is not None:
            scored = score_results(path, pairs, subject, where, scorers, problems, each=count, verdicts=verdicts)
            _some_used(verdicts, scored, subject, where, id_is)
            return scored, [
                *without_reply(),
                *problems.lines("with problems", limit=SHOWN),
                *_judging(scored, verdicts, subject),
            ]
    summary, tally = score_file(
        open_answers(path, id_field=id_field, reply_field=reply_field),
        subject,
        where,
        scorers,
        id_is=id_is,
        each=count,
        verdicts=verdicts,
    )
    _some_used(verdicts, summary, subject, where, id_is)
    odd = odd_line(next(iter(summary.metrics.values()), ()))
    lines = [*_notices(subject, where), *without_reply(), *tally.notes(), *filter(None, [odd])]
    return summary, [*lines, *_judging(summary, verdicts, subject)]


def _some_used(verdicts: Replies | None, summary: Summary, benchmark: Benchmark, data: Data, id_is: str) -> None:
    """Raise DataError if no row of a file of judge's replies belongs to a reply that a judge decides."""
    if verdicts is not None and summary.for_judge and not verdicts.used:
        raise DataError(
            f"{verdicts.by}: none of {len(verdicts):,} belongs to one of the {summary.for_judge:,} replies that a judge "
            f"decides; their ids are like {next(iter(verdicts))!r}",
            id_hint(
                benchmark,
                data,
                id_is,
                verdicts.__contains__,
                "Pass the judge's replies of this run: rows of vid, sample_id or id",
            ),
        )


def _only_for_files(options: list[str], folder: RunFolder) -> None:
    """Raise UsageError for options that describe another program's file: a run's own records need none."""
    if options:
        raise UsageError(
            f"{' and '.join(options)} {'is' if len(options) == 1 else 'are'} for files of other programs, and {folder.path} is a "
            "run: its records name their samples",
            f"Omit them, or pass the file {folder.results} and its --benchmark, to read it as another program's.",
        )


def _same_set(run: Run) -> None:
    """Raise DataError if the run's built set or table is another one now: its questions may have other answers."""
    if not Path(run.meta.spec.benchmark).is_absolute():
        return
    digest, recorded = run.benchmark.digest(run.meta.spec.data), run.meta.identity.get("data")
    if not same_questions(recorded, digest):
        raise DataError(
            f"{run.path}: the run's questions had digest {recorded}, those in {run.meta.spec.benchmark} now have {digest}",
            "Pass the set or table that the run used: --benchmark PATH.",
        )


def _judging(summary: Summary, verdicts: Replies | None, benchmark: Benchmark) -> list[str]:
    """Return what is said of verdicts in a file, whose judge is not known."""
    line, published = judged_by(summary, verdicts, profile=benchmark.judge_profile), benchmark.published_judge
    other = f"published figures are judged by {published}: they compare with its verdicts alone"
    told = [line, *([other] if published else [])] if line else []
    return [*told, *(verdicts.notes() if verdicts is not None else ())]


def _notices(benchmark: Benchmark, data: Data) -> Sequence[str]:
    """Return the benchmark's data warnings, if data was given."""
    return benchmark.notices(data) if data.path is not None else ()
