"""snellen import"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from snellen.cli import options as shared
from snellen.cli.console import note
from snellen.cli.option_parsing import expand_options
from snellen.cli.results import ModelOutcome, failures_as_json, finish


@dataclass(frozen=True)
class ImportedFileOptions:
    """Columns of the file of answers, and who gave them."""

    PANEL: ClassVar[str] = "The file"

    id_is: Annotated[
        str | None,
        typer.Option(
            metavar="id|position|index|ordinal|META",
            help="What the ids are: sample ids, positions from 0, the field index, numbers from 1, or a meta field of "
            "the samples.",
            show_default="the only reading that fits",
        ),
    ] = None
    id_field: Annotated[str | None, typer.Option(metavar="NAME", help="Field of the file with the id.")] = None
    reply_field: Annotated[str | None, typer.Option(metavar="NAME", help="Field of the file with the reply.")] = None
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            metavar="LABEL",
            help="Name of the model that answered, for tables and reports.",
            show_default="the model in the file, else the file's name",
        ),
    ] = None


@expand_options
def import_answers(
    answers: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Answers of another program: JSONL, CSV, TSV, parquet, xlsx, JSON, .eval, or a run."
        ),
    ],
    *,
    benchmark: Annotated[
        str, typer.Option("--benchmark", metavar="NAME|FILE", help="Benchmark whose questions they answer.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder of the run.", show_default="results/BENCHMARK-imported-MODEL")
    ] = None,
    data: shared.DataOptions,
    file: ImportedFileOptions,
    seed: shared.Seed = 0,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an imported run of other answers in the folder.")
    ] = False,
    profile: shared.Profiles = None,
    report: shared.WriteReport = False,
    as_json: shared.JsonResult = False,
) -> None:
    """Make a run of answers that another program recorded. Does not call any model.

    The run is scored, compared, judged, reported and exported like any other. Rows without a sample, duplicates and empty
    answers are named. Questions without an answer lower the coverage.
    """
    from snellen.benchmarks.registry import find
    from snellen.runs.import_answers import import_run
    from snellen.runs.scoring import profiles_of

    subject = find(benchmark)
    profiles_of(subject, profile)
    with failures_as_json(out or Path("results"), benchmark, file.model, wanted=as_json):
        run = import_run(
            answers,
            benchmark,
            out=out,
            data=data.data,
            images=data.images,
            benchmark_options=data.benchmark_options(),
            seed=seed,
            id_is=file.id_is,
            id_field=file.id_field,
            reply_field=file.reply_field,
            model=file.model,
            replace=replace,
        )
    finish(ModelOutcome(runs=[run]), profile=profile, report=report, as_json=as_json)
    for line in run.remarks if as_json else ():
        note(f"note: {line}")
