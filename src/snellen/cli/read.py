"""snellen read"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.inline_judge import ReaderFor
from snellen.cli.judge_options import ReaderEndpointOptions
from snellen.cli.option_parsing import expand_options, only
from snellen.cli.results import ModelOutcome, failures_as_json, finish


@dataclass(frozen=True)
class ReaderOptions:
    """Reader model, its rubric and the replies that it reads."""

    reader: Annotated[str, typer.Option("--reader", "--model", "-m", metavar="KIND:NAME", help="The reader model.")]
    reader_for: ReaderFor = "unread"
    rubric: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Rubric of a reader (.toml).", show_default="that of the package"),
    ] = None
    out: Annotated[Path | None, typer.Option(help="Folder of the readings.", show_default="RUN_read")] = None
    limit: Annotated[int | None, typer.Option(min=1, help="Read only the first N replies.")] = None
    seed: Annotated[
        int, typer.Option(help="Seed of the delimiters around replies and of a local reader's sampling.")
    ] = 0
    id_is: shared.IdIs = "id"
    resume: shared.Resume = False


@expand_options
def read(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run whose replies are read.")],
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
    from snellen.cli.console import note
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
    for line in filter(None, lines):
        note(f"note: {line}")
    raise typer.Exit(status)
