"""snellen export"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from snellen.cli import options as shared
from snellen.cli.console import note, show_json
from snellen.cli.option_parsing import expand_options, only
from snellen.cli.option_text import parse_pairs
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.runs.run import Run

TABLE = "Table"


@dataclass(frozen=True)
class TableOptions:
    """Contents of a table of several runs."""

    PANEL: ClassVar[str] = TABLE

    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Metrics, as in 'accuracy,accuracy/*'; * stands for any text.",
            show_default="the first metric of each benchmark",
        ),
    ] = None
    profile: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Scoring profiles, or all.", show_default="the first of each benchmark"),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TEXT", help="Text in place of a model's or a run's name; may be repeated."),
    ] = None
    digits: Annotated[int, typer.Option(min=0, max=6, help="Decimals of percentages.")] = 1


@dataclass(frozen=True)
class AnswerOptions:
    """Contents of files with the answers of one run."""

    PANEL: ClassVar[str] = "Answers"

    no_gold: Annotated[
        bool,
        typer.Option("--no-gold", help="Leave out gold answers, and withhold replies that tell them."),
    ] = False
    show_gold: Annotated[
        bool, typer.Option("--show-gold", help="Write the gold answers of a restricted benchmark too.")
    ] = False
    model_id: Annotated[
        str | None,
        typer.Option(metavar="DEVELOPER/MODEL", help="The model's name on the hub.", show_default="the run's model"),
    ] = None
    organization: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who evaluated, for Every Eval Ever.", show_default="unknown")
    ] = None
    relationship: Annotated[
        str,
        typer.Option(
            metavar="WORD",
            help="Evaluator and developer, for Every Eval Ever: first_party, third_party, collaborative or other.",
        ),
    ] = "other"
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME[@REVISION]",
            help="Data set of the hub that the result is for, for Hugging Face.",
            show_default="the benchmark's",
        ),
    ] = None
    task: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Task of that data set, as in its eval.yaml.", show_default="the benchmark's"),
    ] = None
    no_images: Annotated[bool, typer.Option("--no-images", help="Do not embed images in an Inspect log.")] = False


@expand_options
def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs; formats other than tables take one.")
    ],
    *,
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Format to write: latex, csv, markdown or json for a table, or an answer format.",
            show_default="by the suffix of --out; without --out, list the formats",
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help="File of the table; for other formats the folder to write to.",
            show_default="a table to stdout, others to RUN/exports/NAME",
        ),
    ] = None,
    table: TableOptions,
    moved: shared.MovedOptions,
    data: Annotated[shared.DataOptions, only("option")],
    answers: AnswerOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Write the scores of runs as one table, or the answers of a run in another program's format.

    A table has one row per model and one column per metric: LaTeX (.tex), CSV (.csv), Markdown (.md) or JSON (.json). A
    value is bold where it is better than every other value of its column by more than chance.

    Answer formats are those of the benchmark's authors, of other harnesses, Inspect logs, Every Eval Ever, the Hugging Face
    hub, and plain JSON lines; without --format and --out they are listed. Their files are named after the model and the start time of the run, so the same run gives
    the same files. Omissions are reported on stderr.
    """
    from snellen.runs.tables.collect import open_runs
    from snellen.runs.tables.render import table_format

    opened, notes = open_runs(runs, trust=moved.trust)
    own = format is not None and len(opened) == 1 and format in opened[0].benchmark.exports
    name = None if own or (format is None and out is None) else table_format(format, out)
    if name is not None:
        if answers != AnswerOptions() or data.option:
            raise UsageError(
                "--show-gold, --no-gold, --option and the other options of answer formats are not for tables",
                "Omit them.",
            )
        loaded = [run.moved(moved.data, moved.images) for run in opened]
        _write_table(loaded, name, out, table, notes, as_json=as_json)
        return
    if table != TableOptions():
        raise UsageError(
            "--metrics, --profile, --label and --digits are options of tables",
            "Add --format latex, csv, markdown or json, or omit them.",
        )
    if format is None:
        _list_formats(opened, as_json=as_json)
        return
    known = _known_formats(opened)
    if format not in known:
        raise UsageError(f"there is no export format {format!r}", f"There is: {', '.join(known)}.").near(format, known)
    if len(opened) > 1:
        raise UsageError(
            f"the format {format!r} takes one run, and {len(opened):,} were named",
            "Export them one by one, or write a table: --format latex, csv, markdown or json.",
        )
    from snellen.runs.export import export as write
    from snellen.runs.interchange.source import ExportSettings

    result = write(
        opened[0],
        format,
        out=out,
        data=moved.data,
        images=moved.images,
        benchmark_options=parse_pairs(data.option),
        show_gold=answers.show_gold,
        no_gold=answers.no_gold,
        settings=ExportSettings(
            images=not answers.no_images,
            model_id=answers.model_id or "",
            organization=answers.organization or "",
            relationship=answers.relationship,
            dataset=answers.dataset or "",
            task=answers.task or "",
        ),
    )
    if as_json:
        show_json({"files": [str(path) for path in result.files]})
    else:
        for path in result.files:
            print(path)
    for line in result.notes:
        note(f"note: {line}")


def _known_formats(opened: Sequence[Run]) -> dict[str, str]:
    """Map each format to its description: those for answers to the first run's benchmark, then those of tables."""
    from snellen.runs.export import formats
    from snellen.runs.tables.render import TABLE_FORMATS

    answers = {name: format_.about for name, format_ in formats(opened[0].benchmark).items()}
    tables = {name: render.__doc__ or "" for name, render in TABLE_FORMATS.items()}
    return {**answers, **{name: about for name, about in tables.items() if name not in answers}}


def _list_formats(opened: Sequence[Run], *, as_json: bool) -> None:
    """Print the formats of tables, and of answers if there is one run."""
    from snellen.runs.tables.render import TABLE_FORMATS

    known = _known_formats(opened)
    if len(opened) > 1:
        known = {name: known[name] for name in TABLE_FORMATS}
    if as_json:
        show_json({"formats": known})
        return
    for name, about in known.items():
        print(f"{name:<12} {about}")


def _write_table(
    opened: Sequence[Run], format: str, out: str | None, table: TableOptions, notes: Sequence[str], *, as_json: bool
) -> None:
    """Write the table to its file, or print it."""
    from snellen.runs.tables.collect import result_table
    from snellen.runs.tables.render import render_table, write_table

    content = result_table(
        opened, metrics=comma_list(table.metrics), profile=table.profile, labels=parse_pairs(table.label, "--label")
    )
    if out is None:
        print(render_table(content, "json" if as_json else format, table.digits), end="")
    else:
        path = write_table(content, out, format, digits=table.digits)
        if as_json:
            show_json({"files": [str(path)]})
        else:
            print(path)
    for line in dict.fromkeys((*notes, *content.notes)):
        note(f"note: {line}")
