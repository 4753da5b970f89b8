"""snellen judge"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.option_parsing import REQUIRED, argument, only, option
from snellen.cli.options import JudgeEndpointOptions, ReaderEndpointOptions, ReaderFor
from snellen.cli.results import ModelOutcome, failures_as_json, finish


@dataclass(frozen=True)
class JudgeOptions:
    """Judge model, rubric and replies of a judged run."""

    model: str | None = option("The judge model.", names=("--model", "-m"), value="KIND:NAME", said="JUDGE_MODEL")
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
    from snellen.cli.inline_judge import print_summary
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
