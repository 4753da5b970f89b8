"""snellen judge, snellen read, and --judge and --reader of a run: models that are asked about replies"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from snellen.cli import options as shared
from snellen.cli.benchmark_options import JUDGE_DEFAULT, JUDGE_OPTION
from snellen.cli.console import note
from snellen.cli.option_parsing import REQUIRED, argument, given, only, option
from snellen.cli.options import JudgeEndpointOptions, JudgeKeyEnv, JudgeUrl, ReaderEndpointOptions, ReaderFor
from snellen.cli.results import ModelOutcome, failures_as_json, finish
from snellen.engine.endpoints import judge_command
from snellen.errors import PreflightError, UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data
    from snellen.engine.progress import Display
    from snellen.models.base import ModelOptions
    from snellen.runs.judge.ask import AskedModels
    from snellen.runs.run import Run
    from snellen.runs.settings import JudgeSettings


@dataclass(frozen=True)
class JudgeOptions:
    """Judge model, rubric and replies of a judged run."""

    model: str | None = option(
        "The judge model.", names=("--model", "-m"), value="KIND:NAME", said="JUDGE_MODEL, else the declared one"
    )
    rubric: str | None = option(
        "match, graded, or a rubric file (.toml).", value="NAME|FILE", said="the benchmark's own, else match"
    )
    out: Path | None = option("Folder of the verdicts.", said="RUN_judged")
    with_images: bool = option("Send the images to the judge too.", False)
    rule: bool = option("Do not judge replies that the benchmark's rule scores as correct; mark them.", False)
    limit: int | None = option("Judge only the first N replies.", least=1)
    seed: int = option("Seed of the delimiters around replies and of a local judge's sampling.", 0)
    id_is: shared.IdIs = "id"
    resume: shared.Resume = False


def judge(
    run: Path = argument("Folder of the run whose replies are judged.", value="RUN"),
    *,
    options: JudgeOptions,
    moved: shared.MovedOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens", "temperature", "top_p")],
    endpoint: JudgeEndpointOptions,
    budget: shared.BudgetOptions,
    output: shared.OutputOptions,
) -> None:
    """Judge the replies of a run with a model, or resume an unfinished judged run.

    JUDGE_MODEL, JUDGE_BASE_URL and JUDGE_API_KEY are the defaults. Without a key no request is sent, and no rule
    replaces the judge. The last line is SUMMARY_JSON and one JSON object (on stderr with --json).
    """
    from snellen.engine.progress import display
    from snellen.engine.run_folder import JUDGED, derived_folder
    from snellen.runs.judge.ask import MODEL, setting
    from snellen.runs.judge.ask import judge as judge_run

    folder, model = options.out or derived_folder(run, JUDGED), options.model or setting(MODEL)
    with failures_as_json(folder, JUDGED, model, wanted=output.as_json):
        judged = judge_run(
            run,
            options.model,
            rubric=options.rubric,
            out=options.out,
            data=moved.data,
            images=moved.images,
            trust=moved.trust,
            with_images=options.with_images,
            rule=options.rule,
            display=display(as_json=output.as_json, quiet=output.quiet),
            **shared.run_settings(options, generation, endpoint, budget),
        )
    status = finish(ModelOutcome([judged]), profile=None, report=False, as_json=output.as_json)
    print_summary(judged, as_json=output.as_json)
    raise typer.Exit(status)


@dataclass(frozen=True)
class ReaderOptions:
    """Reader model, its rubric and the replies that it reads."""

    reader: str = option("The reader model.", REQUIRED, names=("--reader", "--model", "-m"), value="KIND:NAME")
    reader_for: ReaderFor = "unread"
    rubric: str | None = option("Rubric of a reader (.toml).", value="FILE", said="that of the package")
    out: Path | None = option("Folder of the readings.", said="RUN_read")
    limit: int | None = option("Read only the first N replies.", least=1)
    seed: int = option("Seed of the delimiters around replies and of a local reader's sampling.", 0)
    id_is: shared.IdIs = "id"
    resume: shared.Resume = False


def read(
    run: Path = argument("Folder of the run whose replies are read.", value="RUN"),
    *,
    options: ReaderOptions,
    moved: shared.MovedOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens", "temperature", "top_p")],
    endpoint: ReaderEndpointOptions,
    budget: shared.BudgetOptions,
    output: shared.OutputOptions,
) -> None:
    """Let a model quote the answers of replies that the rules leave unread, or resume that.

    The model sees question, options and reply, never the gold answer. A quote that does not stand in the reply is refused;
    the others are read by the run's own rules. `snellen score RUN` says which share a model read.
    """
    from snellen.cli.console import print_notes
    from snellen.engine.progress import display
    from snellen.engine.run_folder import READ, derived_folder
    from snellen.runs.judge.ask import read as read_run
    from snellen.runs.judge.reading import ALL, agreement
    from snellen.runs.run import load_run

    folder = options.out or derived_folder(run, READ)
    with failures_as_json(folder, READ, options.reader, wanted=output.as_json):
        reading = read_run(
            run,
            options.reader,
            rubric=options.rubric,
            replies=options.reader_for,
            out=options.out,
            data=moved.data,
            images=moved.images,
            trust=moved.trust,
            display=display(as_json=output.as_json, quiet=output.quiet),
            **shared.run_settings(options, generation, endpoint, budget),
        )
    status = finish(ModelOutcome([reading]), profile=None, report=False, as_json=output.as_json)
    opened = load_run(run, trust=moved.trust).moved(moved.data, moved.images)
    lines = [opened.judged_by()]
    if options.reader_for == ALL and (said := opened.verdicts()) is not None:
        lines.append(agreement(opened, said).text)
    print_notes(filter(None, lines))
    raise typer.Exit(status)


@dataclass(frozen=True)
class InlineJudgeOptions:
    """Judge that decides the replies after the run."""

    PANEL: ClassVar[str] = "Judge"

    judge: str | None = option(
        "Judge the replies with this model after the run, as `snellen judge RUN` does. Without a value the judge "
        "is that of JUDGE_MODEL; none asks no judge that a declaration names.",
        names=(JUDGE_OPTION, "--judge-model"),
        value="KIND:NAME",
        said="none",
    )
    rubric: str | None = option(
        "Rubric of the judge: match, graded, judged, or a file (.toml).", value="NAME|FILE", said="the benchmark's own"
    )
    judge_base_url: JudgeUrl = None
    judge_key_env: JudgeKeyEnv = None


@dataclass(frozen=True)
class InlineReaderOptions:
    """Reader that quotes the answers of replies which the rules leave unread."""

    PANEL: ClassVar[str] = "Reader"

    reader: str | None = option(
        "Let this model quote the answers of replies that the rules leave unread, as `snellen read RUN` does; "
        "none asks no reader that a declaration names.",
        value="KIND:NAME",
        said="none",
    )
    reader_for: ReaderFor = "unread"
    reader_base_url: str | None = option("Endpoint of the reader, up to and including /v1.", said="JUDGE_BASE_URL")
    reader_key_env: str | None = option(
        "Name of the variable that holds the reader's key.", value="NAME", said="JUDGE_API_KEY, else OPENAI_API_KEY"
    )

    def settings(self) -> JudgeSettings:
        """Return the settings of the reader's endpoint."""
        return {"base_url": self.reader_base_url, "key_env": self.reader_key_env}

    def require_used(self) -> None:
        """Raise UsageError for an option of a reader without one."""
        changed = given(self, but=("reader",))
        if self.reader is None and changed:
            raise UsageError(f"{changed[0]} is given without --reader", f"Add --reader api:NAME, or omit {changed[0]}.")


class AskedAfterRuns:
    """The models that one call of `snellen run` asks about each finished run.

    Args:
        judging, reading: the options of the command.
        subjects: all benchmarks of the call with their data.
        options: of the run's own requests; those to judge and reader are as many at once, and wait as long.

    Raises:
        UsageError: no benchmark of the call leaves replies to a judge or has replies for a reader, or an option of one is
            given without it.
        JudgeError: no key, or a model that cannot judge.
    """

    def __init__(
        self,
        judging: InlineJudgeOptions,
        reading: InlineReaderOptions,
        subjects: Sequence[tuple[Benchmark, Data]],
        options: ModelOptions,
    ) -> None:
        from snellen.runs.judge.ask import NO_MODEL, AskedModels, leaves_to_judge

        self._judging = judging
        pace: JudgeSettings = {
            "concurrency": options.concurrency,
            "timeout_s": options.timeout_s,
            "patience_s": options.patience_s,
        }
        without = given(judging, but=("judge",))
        if without and judging.judge is None and not any(each.judge for each, _ in subjects):
            raise UsageError(
                f"{without[0]} is given without {JUDGE_OPTION}", f"Add {JUDGE_OPTION} api:NAME, or omit {without[0]}."
            )
        reading.require_used()
        self._models = AskedModels(
            judging.judge,
            reading.reader,
            judging.rubric,
            reading.reader_for,
            {"base_url": judging.judge_base_url, "key_env": judging.judge_key_env, **pace},
            {**reading.settings(), **pace},
        )
        if judging.judge not in (None, NO_MODEL) and not any(leaves_to_judge(*subject) for subject in subjects):
            names = ", ".join(dict.fromkeys(benchmark.name for benchmark, _ in subjects))
            raise UsageError(
                f"{JUDGE_OPTION}: {names} is scored by rules, and no reply of it is for a judge",
                f"Omit {JUDGE_OPTION}. To have all replies judged as well: {self.command(Path('RUN'), subjects[0][0], 'match')}",
            )
        for benchmark, _ in subjects:
            self._models.declared_by(benchmark).require(benchmark)

    def of(self, benchmark: Benchmark) -> AskedModels:
        """Return the models that are asked about runs of a benchmark."""
        return self._models.declared_by(benchmark)

    def other_judge(self, benchmark: Benchmark) -> str:
        """Return that the judge is another one than that of published figures; empty where it is not, or none is asked."""
        from snellen.runs.judge.ask import NO_MODEL
        from snellen.runs.judge.verdicts import other_judge

        judge = self.of(benchmark).judge
        text = "" if judge in (None, NO_MODEL, JUDGE_DEFAULT) else other_judge(f"{judge}", benchmark.published_judge)
        return f"the judge is {judge}; {text}" if text else ""

    def command(self, run: Path, benchmark: Benchmark, rubric: str | None = None) -> str:
        """Return the command that judges a run with this judge, or with the one that the benchmark declares."""
        from snellen.runs.judge.ask import spelled

        chosen, judge = self._judging, self.of(benchmark).judge
        model = None if judge in (None, JUDGE_DEFAULT) else spelled(str(judge))
        return judge_command(run, model, chosen.judge_base_url, chosen.judge_key_env, rubric or chosen.rubric)

    def require_ready(self, runs: Mapping[Path, Benchmark]) -> None:
        """Raise PreflightError if a server does not take or serve the judge of a run that is not finished; asks nothing.

        One that is down is noted alone: it may be started once the run is done.
        """
        for folder, benchmark in runs.items():
            require_judge(folder, benchmark, self.of(benchmark), self.command(folder, benchmark))

    def ask(self, run: Run, display: Display) -> list[Run]:
        """Ask about a finished run, and score it again; return the runs of reader and judge."""
        from snellen.engine.run_folder import JUDGED
        from snellen.runs.judge.ask import NO_MODEL

        if run.all_failed:
            note(f"note: {run.path} holds no reply to judge or read")
            return []
        if self._judging.judge is not None and run.benchmark.rubric is None:
            note(f"note: {run.benchmark.name} is scored by rules; nothing of it is judged")
        done = self.of(run.benchmark).about(run, display)
        wanted = self._judging.judge not in (None, NO_MODEL) and run.benchmark.rubric is not None
        if wanted and not any(asked.meta.spec.benchmark == JUDGED for asked in done):
            note(f"note: {run.path} holds no reply for a judge")
        return done


def require_judge(folder: Path, benchmark: Benchmark, asked: AskedModels, command: str) -> None:
    """Raise PreflightError if a server does not take or serve the judge of a run that is not finished; asks nothing.

    One that is down is noted alone, with the command that judges later: it may be started once the run is done.
    """
    from snellen.engine.run_folder import RunFolder
    from snellen.models.api.preflight import ServerDownError

    run = RunFolder(folder)
    if benchmark.rubric is None or (run.exists() and run.meta().state == "complete"):
        return
    try:
        asked.require_ready()
    except PreflightError as error:
        if not isinstance(error.__cause__, ServerDownError):
            raise
        note(f"note: {error.message} The run goes on without it; {command} judges later.")


def asked_after_runs(
    judging: InlineJudgeOptions,
    reading: InlineReaderOptions,
    subjects: Sequence[tuple[Benchmark, Data]],
    options: ModelOptions,
) -> AskedAfterRuns | None:
    """Return the models that are asked after the runs of a call; None without any. Raises as `AskedAfterRuns`."""
    named = judging != InlineJudgeOptions() or reading != InlineReaderOptions()
    if not named and not any(benchmark.judge or benchmark.reader for benchmark, _ in subjects):
        return None
    return AskedAfterRuns(judging, reading, subjects, options)


def print_summary(judged: Run, *, as_json: bool) -> None:
    """Print the SUMMARY_JSON line of a judged run; on stderr with --json. Print nothing for another run."""
    import msgspec

    from snellen.engine.run_folder import JUDGED
    from snellen.runs.judge.ask import verdicts
    from snellen.runs.judge.profiles import judged_remarks

    if judged.meta.spec.benchmark != JUDGED:
        return
    for remark in judged_remarks(judged):
        note(f"note: {remark}")
    line = f"SUMMARY_JSON {msgspec.json.encode(verdicts(judged)).decode()}"
    note(line) if as_json else print(line)
