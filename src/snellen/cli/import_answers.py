"""snellen import"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from snellen.cli import options as shared
from snellen.cli.console import print_notes
from snellen.cli.option_parsing import REQUIRED, argument, option
from snellen.cli.results import ModelOutcome, failures_as_json, finish


@dataclass(frozen=True)
class ImportedFileOptions:
    """Columns of the file of answers, and who gave them."""

    PANEL: ClassVar[str] = "The file"

    id_is: str | None = option(
        "What the ids are: sample ids, positions from 0, the field index, numbers from 1, or a meta field of "
        "the samples.",
        value="id|position|index|ordinal|META",
        said="the only reading that fits",
    )
    id_field: shared.IdField = None
    reply_field: shared.ReplyField = None
    model: str | None = option(
        "Name of the model that answered, for tables and reports.",
        names=("--model", "-m"),
        value="LABEL",
        said="the model in the file, else the file's name",
    )


def import_answers(
    answers: Path = argument(
        "Answers of another program: JSONL, CSV, TSV, parquet, xlsx, JSON, .eval, or a run.", value="FILE"
    ),
    *,
    benchmark: str = option("Benchmark whose questions they answer.", REQUIRED, value="NAME|FILE"),
    out: Path | None = option("Folder of the run.", said="results/BENCHMARK-imported-MODEL"),
    data: shared.DataOptions,
    file: ImportedFileOptions,
    seed: shared.Seed = 0,
    replace: bool = option("Replace an imported run of other answers in the folder.", False),
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
    print_notes(run.remarks if as_json else ())
