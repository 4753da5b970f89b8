"""snellen failures"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from snellen.cli import options as shared
from snellen.cli.option_parsing import argument, only, option
from snellen.cli.options import JudgeEndpointOptions
from snellen.cli.results import UNANSWERED
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.reports.failures.pages import LabelledRun
    from snellen.runs.run import Run

JUDGE, PAGES = "A judge (--judge)", "Pages (--pages)"


@dataclass(frozen=True)
class FailureJudgeOptions:
    """Judge that labels failures."""

    PANEL: ClassVar[str] = JUDGE

    judge: str | None = option(
        "Label with a model too, or resume that; labels are stored in RUN_failures and reused.", value="KIND:NAME"
    )
    rubric: Path | None = option("Rubric of your own (`snellen --help failures`).", value="FILE")
    seed: int = option("Seed of the delimiters around replies.", 0)


@dataclass(frozen=True)
class PagesOptions:
    """HTML pages of failures."""

    PANEL: ClassVar[str] = PAGES

    pages: Path | None = option(
        "Write one HTML page per answer, and an index with filters and a review form.", value="DIR"
    )
    show_gold: shared.ShowGold = False


def failures(
    runs: list[Path] = argument("Run folders.", value="RUN"),
    *,
    review: list[Path] | None = option(
        "An annotator's decisions (JSONL), which override rules and judge; may be repeated, one file per annotator.",
        value="FILE",
    ),
    id_is: str = option(
        "What the ids in review files, and in the file of a replayed judge, are: sample ids, positions from 0, "
        "numbers from 1, or a meta field of the samples.",
        "id",
        value="id|position|ordinal|META",
    ),
    moved: shared.MovedOptions,
    judging: FailureJudgeOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens", "temperature")],
    endpoint: JudgeEndpointOptions,
    budget: shared.BudgetOptions,
    site: PagesOptions,
    as_json: bool = option("Print one JSON object, including every answer's label.", False, names=("--json",)),
    quiet: shared.Quiet = False,
) -> None:
    """Label incorrect answers: by rules over trace and verdict, by a judge, and by annotators.

    Count the labels by run, report the agreement of rules, judge and annotators, and list the answers to review. The
    labels are written to failures.jsonl of each run, which `snellen report` shows.
    """
    from snellen.cli.console import note, remark
    from snellen.cli.preview import require_run_folder, require_writable
    from snellen.engine.progress import display
    from snellen.reports.failures.labels import count_labels
    from snellen.reports.failures.pages import LabelledRun
    from snellen.runs.answer_view import run_names
    from snellen.runs.failures import judge as judge_labels
    from snellen.runs.failures import labels as labelling
    from snellen.runs.failures.review import meet_run, read_reviews
    from snellen.runs.run import load_run
    from snellen.runs.run_paths import find_runs

    judge = judging.judge
    rubric = "" if judging.rubric is None else str(judging.rubric)
    if judge is None and judging.rubric is not None:
        raise UsageError("--rubric requires a judge", "Add --judge KIND:NAME.")
    if site.show_gold and site.pages is None:
        raise UsageError("--show-gold requires --pages", "Add --pages DIR.")
    if judge is not None:
        from snellen.models.api.services import require_variable

        require_variable(endpoint.key_env)
    if site.pages is not None:
        require_writable(site.pages, "--pages")
    loaded = [load_run(path, trust=moved.trust).moved(moved.data, moved.images) for path in find_runs(runs, say=remark)]
    names = run_names([run.path for run in loaded])
    reviews = read_reviews(review or [], names)
    remarks = {}
    for run, name in zip(loaded, names, strict=True):
        reviews[name], remarks[name] = meet_run(reviews[name], run, id_is)
    if judge is not None:  # a later run that cannot be labelled is refused before an earlier one is paid for
        for run in loaded:
            require_run_folder(judge_labels.require(run, rubric))
    labelled, unanswered = [], 0
    for run, name in zip(loaded, names, strict=True):
        if judge is not None:
            judge_run = judge_labels.label_failures(
                run,
                judge,
                rubric=rubric,
                display=display(as_json=as_json, quiet=quiet),
                **shared.run_settings(generation, endpoint, budget),
                seed=judging.seed,
                id_is=id_is if judge.startswith("replay:") else "id",
            )
            unanswered += judge_run.meta.totals.error + judge_run.meta.totals.timeout
        judged = judge_labels.labels_of(run)
        labels, away = labelling.labelled(run, reviews.get(name), None if judged is None else judged.by_name)
        if not away and not labelling.save(run, labels):
            note(f"{run.path} is not writable: failures.jsonl was not written")
        whose = labelling.whose_decisions(run, labels, reviews.get(name))
        notes = [run.request_errors().text] if run.all_failed else []
        notes += [
            *remarks[name],
            *([] if judged is None else [_by(judged)]),
            *filter(None, [whose, away, run.changed_data]),
        ]
        labelled.append(LabelledRun(run, labels, count_labels(labels, notes), judged, away))
    index = None
    if site.pages is not None:
        from snellen.reports.failures.pages import write_pages

        index = write_pages(labelled, site.pages, show_gold=site.show_gold)
    if as_json:
        _print_json(labelled, index)
    else:
        _print(labelled, names, index)
    if unanswered:
        note(f"the judge did not answer for {unanswered:,} answers; run the same command again to retry them")
        raise typer.Exit(UNANSWERED)


def _by(judged: Any) -> str:
    without = f"; {judged.unread:,} of its replies have no label" if judged.unread else ""
    return f"{len(judged.by_name):,} labels by {judged.by}{without}."


def _print_json(labelled: list[LabelledRun], index: Path | None) -> None:
    from msgspec import structs

    from snellen.cli.console import show_json
    from snellen.runs.failures.labels import agreements, counts

    objects = [
        {
            "path": str(result.run.path),
            "model": result.run.meta.spec.model,
            "counts": counts(result.labelled),
            "agreement": [structs.asdict(pair) for pair in agreements(result.labelled)],
            "review": sum(bool(answer.review) for answer in result.labelled),
            "notes": list(result.view.notes),
            "answers": result.labelled,
        }
        for result in labelled
    ]
    show_json({"runs": objects, **({} if index is None else {"pages": str(index)})})


def _print(labelled: list[LabelledRun], names: list[str], index: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from snellen.cli.console import show
    from snellen.reports.failures.labels import RunLabels, label_rows, label_text

    results = list(zip(names, labelled, strict=True))
    for name, result in results:
        print(_line(f"{name} · {result.run.meta.spec.model_with_adapter}: {_size(result)}{_unscored(result.run)}"))
    results = [(name, result) for name, result in results if result.labelled]
    if results:
        table = Table("label", box=None, header_style="bold")
        for name, result in results:
            table.add_column(
                Text(_line(name if len(results) > 1 else result.run.meta.spec.model_with_adapter)), overflow="fold"
            )
        for row in label_rows([RunLabels(name, 1, result.view) for name, result in results]):
            cells = [_cell(cell) for cell in row["cells"]]
            table.add_row(Text(row["name"]), *map(Text, cells))
        show(table)
    for name, result in results:
        for line in result.view.notes:
            print(_line(f"{name}: {line}" if len(results) > 1 else line))
        for answer in sorted(result.labelled, key=lambda each: (each.sample_id, each.repeat)):
            if answer.review:
                people = "".join(f", {by}: {label_text(label)}" for by, label in answer.people.items())
                repeat = f" (repeat {answer.repeat})" if answer.repeat else ""
                judge = "none" if answer.judge is None else label_text(answer.judge)
                proposed = f"rule: {label_text(answer.rule)}, judge: {judge}{people}"
                print(_line(f"review {name} {answer.sample_id}{repeat}: {answer.review}; {proposed}"))
    unjudged = [result for _, result in results if result.judge is None]
    unlabelled = sum(answer.source == "none" for result in unjudged for answer in result.labelled)
    if unlabelled:
        print(
            f"{unlabelled:,} unknown: no rule decides them. Label them with a model: --judge KIND:NAME, or by people: "
            "--review FILE."
        )
    if index is not None:
        print(index)


def _cell(cell: dict[str, str]) -> str:
    """Format count, a bar of at most twenty blocks, share with interval, and the labellers."""
    bar = "█" * round(float(cell["at"]) / 5)
    whose = f" ({cell['whose']})" if cell["whose"] else ""
    return f"{cell['count']:>5} {bar:20} {cell['share']:>7} [{cell['interval']}]{whose}"


def _line(text: str) -> str:
    """Return text as one printable line: ids and names are untrusted."""
    from snellen.reports.escape import escape_invisible

    return escape_invisible(text).replace("\n", " ")


def _size(result: LabelledRun) -> str:
    """Return how many answers are incorrect, and how many samples have none: those are labelled too."""
    lost = sum(answer.verdict == "error" for answer in result.labelled)
    incorrect = len(result.labelled) - lost
    parts = [f"{incorrect:,} incorrect"] if incorrect or not lost else []
    return ", ".join([*parts, *([f"{lost:,} without an answer"] if lost else [])])


def _unscored(run: Run) -> str:
    """Return a hint if the answers have no labels because no judge has scored them yet."""
    from snellen.engine.endpoints import judge_command

    by_judge = run.benchmark.rubric is not None and not run.benchmark.judge_profile
    unjudged = by_judge and ((said := run.verdicts()) is None or not said.by)
    return f"; its answers are not judged yet: {judge_command(run.path)}" if unjudged else ""
