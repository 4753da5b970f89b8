"""snellen export"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from snellen.cli import options as shared
from snellen.cli.console import print_notes, show_json
from snellen.cli.option_parsing import argument, only, option, values
from snellen.cli.options import parse_pairs
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.formats.writers import Exported
    from snellen.runs.run import Run


@dataclass(frozen=True)
class TableOptions:
    """Contents of a table of several runs."""

    PANEL: ClassVar[str] = "Table"

    metrics: str | None = option(
        "Metrics, as in 'accuracy,accuracy/*'; * stands for any text.",
        value="NAME,...",
        said="the first metric of each benchmark",
    )
    profile: str | None = option("Scoring profiles, or all.", value="NAME,...", said="the first of each benchmark")
    label: list[str] | None = option("Text in place of a model's or a run's name; may be repeated.", value="NAME=TEXT")
    digits: int = option("Decimals of percentages.", 1, least=0, most=6)


@dataclass(frozen=True)
class AnswerOptions:
    """Contents of files with the answers of one run."""

    PANEL: ClassVar[str] = "Answers"

    no_gold: bool = option("Leave out gold answers, and withhold replies that tell them.", False)
    show_gold: bool = option("Write the gold answers of a restricted benchmark too.", False)
    model_id: str = option("The model's name on the hub.", "", value="DEVELOPER/MODEL", said="the run's model")
    organization: str = option("Who evaluated, for Every Eval Ever.", "", value="NAME", said="unknown")
    relationship: str = option(
        "Evaluator and developer, for Every Eval Ever: first_party, third_party, collaborative or other.",
        "other",
        value="WORD",
    )
    dataset: str = option(
        "Data set of the hub that the result is for, for Hugging Face.",
        "",
        value="OWNER/NAME[@REVISION]",
        said="the benchmark's",
    )
    task: str = option("Task of that data set, as in its eval.yaml.", "", value="ID", said="the benchmark's")
    no_images: bool = option("Do not embed images in an Inspect log.", False)


def export(
    runs: list[Path] = argument(
        "Folders of runs; formats other than tables take one. eval-yaml also takes a benchmark.", value="RUN..."
    ),
    *,
    format: str | None = option(
        "Format to write: latex, csv, markdown or json for a table, or an answer format.",
        value="NAME",
        said="by the suffix of --out; without --out, list the formats",
    ),
    out: str | None = option(
        "File of the table; for other formats the folder to write to.",
        value="PATH",
        said="a table to stdout, others to RUN/exports/NAME",
    ),
    table: TableOptions,
    moved: shared.MovedOptions,
    data: Annotated[shared.DataOptions, only("pairs")],
    answers: AnswerOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Write the scores of runs as one table, or the answers of a run in another program's format.

    A table has one row per model and one column per metric: LaTeX (.tex), CSV (.csv), Markdown (.md) or JSON (.json). A
    value is bold where it is better than every other value of its column by more than chance.

    Answer formats are those of the benchmark's authors, of other harnesses, Inspect logs, Every Eval Ever, the Hugging Face
    hub, and plain JSON lines; without --format and --out they are listed. eval-yaml writes the questions of a benchmark, or
    of a run's, as a data set of the hub: table, eval.yaml, card and Croissant description. Their files are named after the model and the start time of the run, so the same run gives
    the same files. Omissions are reported on stderr.
    """
    from snellen.runs.tables import open_runs, table_format

    if format == "eval-yaml":
        written = _write_tasks(runs, out, moved, parse_pairs(data.pairs), show_gold=answers.show_gold)
        if as_json:
            show_json({"files": [str(path) for path in written.files]})
        else:
            print("\n".join(map(str, written.files)))
        print_notes(written.notes)
        return
    opened, notes = open_runs(runs, trust=moved.trust)
    own = format is not None and len(opened) == 1 and format in opened[0].benchmark.exports
    name = None if own or (format is None and out is None) else table_format(format, out)
    if name is not None:
        if answers != AnswerOptions() or data.pairs:
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
        benchmark_options=parse_pairs(data.pairs),
        show_gold=answers.show_gold,
        no_gold=answers.no_gold,
        settings=ExportSettings(
            images=not answers.no_images,
            **values(answers, but=("no_gold", "show_gold", "no_images")),
        ),
    )
    if as_json:
        show_json({"files": [str(path) for path in result.files]})
    else:
        for path in result.files:
            print(path)
    print_notes(result.notes)


def _write_tasks(
    named: Sequence[Path], out: str | None, moved: shared.MovedOptions, pairs: Mapping[str, str], *, show_gold: bool
) -> Exported:
    """Write the questions of a benchmark, or of a run's, as a data set of the hub."""
    from snellen.benchmarks.base import Data
    from snellen.benchmarks.registry import find, short_name
    from snellen.runs.interchange.hub_tasks import export_tasks
    from snellen.runs.run import load_run

    if len(named) > 1:
        raise UsageError(f"the format eval-yaml takes one benchmark or run, and {len(named)} were named", "Name one.")
    if (named[0] / "run_meta.json").is_file():
        run = load_run(named[0], trust=moved.trust).moved(moved.data, moved.images, pairs)
        folder = Path(out) if out is not None else run.path / "exports" / "eval-yaml"
        return export_tasks(run.benchmark, run.meta.spec.data, folder, show_gold=show_gold)
    name = str(named[0])
    benchmark = find(name)
    data = Data(moved.data, moved.images, pairs)
    data.require_known(benchmark.name, benchmark.options)
    return export_tasks(benchmark, data, Path(out or f"{short_name(name).replace('/', '-')}-hub"), show_gold=show_gold)


def _known_formats(opened: Sequence[Run]) -> dict[str, str]:
    """Map each format to its description: those for answers to the first run's benchmark, then those of tables."""
    from snellen.runs.export import formats
    from snellen.runs.tables import TABLE_FORMATS

    answers = {name: format_.about for name, format_ in formats(opened[0].benchmark).items()}
    tables = {name: render.__doc__ or "" for name, render in TABLE_FORMATS.items()}
    answers["eval-yaml"] = (
        "A data set of the hub: table, eval.yaml, card and Croissant description, for Snellen and Inspect."
    )
    return {**answers, **{name: about for name, about in tables.items() if name not in answers}}


def _list_formats(opened: Sequence[Run], *, as_json: bool) -> None:
    """Print the formats of tables, and of answers if there is one run."""
    from snellen.runs.tables import TABLE_FORMATS

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
    from snellen.runs.tables import render_table, result_table, write_table

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
    print_notes(dict.fromkeys((*notes, *content.notes)))
