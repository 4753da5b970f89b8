"""snellen failures"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as given
from snellen.cli.results import UNANSWERED
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.reports.failures.pages import LabelledRun
    from snellen.runs.run import Run

JUDGE, PAGES = "A judge (--judge)", "Pages (--pages)"


def failures(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs.")],
    review: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A person's decisions (JSONL), which override rules and judge; may be repeated, one file a person.",
        ),
    ] = None,
    id_is: Annotated[
        str,
        typer.Option(
            metavar="id|position|META",
            help="What the ids in the review files, and in the file of a replayed judge, are: the samples' own, their "
            "position from 0, or a meta field of theirs.",
        ),
    ] = "id",
    data: given.MovedData = None,
    images: given.MovedImages = None,
    trust: given.Trust = False,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="KIND:NAME",
            help="Ask a model too, or go on asking; its labels lie in RUN_failures and are taken from there later.",
            rich_help_panel=JUDGE,
        ),
    ] = None,
    rubric: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Another rubric (docs/failures.md).", rich_help_panel=JUDGE),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds the marks around what was said.", rich_help_panel=JUDGE)] = 0,
    max_tokens: given.MaxTokens = None,
    temperature: given.Temperature = None,
    base_url: given.BaseUrl = None,
    key_env: given.KeyEnv = None,
    concurrency: given.Concurrency = 16,
    timeout: given.Timeout = 300.0,
    max_attempts: given.MaxAttempts = 6,
    patience: given.Patience = 900.0,
    rpm: given.Rpm = None,
    tpm: given.Tpm = None,
    extra_body: given.ExtraBody = None,
    max_cost: given.MaxCost = None,
    max_tokens_total: given.MaxTokensTotal = None,
    prices: given.Prices = None,
    pages: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write one HTML page an answer, and an index with filters and a form for decisions.",
            rich_help_panel=PAGES,
        ),
    ] = None,
    show_gold: Annotated[
        bool,
        typer.Option("--show-gold", help="Show the gold answers of a restricted benchmark too.", rich_help_panel=PAGES),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, every answer's label too.")] = False,
    quiet: given.Quiet = False,
) -> None:
    """Label what was not answered correctly: by rules over trace and verdict, by a judge, and by people over both.

    Counts the labels by run, says how far rule and judge, and people, agree, and lists what a person should look at.
    The labels go into failures.jsonl of each run, which `snellen report` shows.
    """
    from snellen.cli.console import note
    from snellen.cli.preview import require_run_folder, require_writable
    from snellen.engine.progress import display
    from snellen.reports.failures.counts import count_labels
    from snellen.reports.failures.pages import LabelledRun
    from snellen.runs import failures as room
    from snellen.runs.answer_view import run_names
    from snellen.runs.failures import judge as judging
    from snellen.runs.run import load_run

    if judge is None and rubric is not None:
        raise UsageError("--rubric is about a judge", "Name one with --judge.")
    if show_gold and pages is None:
        raise UsageError("--show-gold is about pages", "Say where with --pages DIR.")
    if judge is not None:
        from snellen.models.api.keys import require_variable

        require_variable(key_env)
    if pages is not None:
        require_writable(pages, "--pages")
    opened = [load_run(path, trust=trust).moved(data, images) for path in runs]
    names = run_names([run.path for run in opened])
    decided = room.read_reviews(review or [], names)
    remarks = {}
    for run, name in zip(opened, names, strict=True):
        decided[name], remarks[name] = room.meet_run(decided[name], run, id_is)
    if judge is not None:  # a later run that cannot be labelled is refused before an earlier one is paid for
        for run in opened:
            require_run_folder(judging.require(run, "" if rubric is None else str(rubric)))
    told, lost = [], 0
    for run, name in zip(opened, names, strict=True):
        if judge is not None:
            asked = judging.label_failures(
                run,
                judge,
                rubric="" if rubric is None else str(rubric),
                base_url=base_url,
                key_env=key_env,
                seed=seed,
                concurrency=concurrency,
                generation=given.generation(max_tokens, temperature, None, None),
                display=display(as_json=as_json, quiet=quiet),
                max_attempts=max_attempts,
                max_cost=max_cost,
                max_tokens_total=max_tokens_total,
                timeout_s=timeout,
                patience_s=patience,
                rpm=rpm,
                tpm=tpm,
                extra_body=given.json_object(extra_body, "--extra-body"),
                prices=None if prices is None else str(prices),
                id_is=id_is if judge.startswith("replay:") else "id",
            )
            lost += asked.meta.totals.error + asked.meta.totals.timeout
        judged = judging.labels_of(run)
        found, away = room.labelled(run, decided.get(name), None if judged is None else judged.by_name)
        if not away and not room.save(run, found):
            note(f"{run.path} cannot be written: there is no failures.jsonl of these labels")
        whose = room.whose_decisions(run, found, decided.get(name))
        lost_requests = run.request_errors()
        unanswered = [lost_requests.text] if lost_requests.nothing_answered else []
        notes = [*unanswered, *remarks[name], *([] if judged is None else [_by(judged)]), *filter(None, [whose, away])]
        told.append(LabelledRun(run, found, count_labels(found, notes), judged, away))
    index = None
    if pages is not None:
        from snellen.reports.failures import pages as site

        index = site.write_pages(told, pages, show_gold=show_gold)
    if as_json:
        _print_json(told, index)
    else:
        _print(told, names, index)
    if lost:
        note(f"the judge has not answered about {lost:,} answers; the same command asks about them again")
        raise typer.Exit(UNANSWERED)


def _by(judged: Any) -> str:
    lost = f"; {judged.unread:,} of its replies hold no label" if judged.unread else ""
    return f"{len(judged.by_name):,} labels by {judged.by}{lost}."


def _print_json(told: list[LabelledRun], index: Path | None) -> None:
    from msgspec import structs

    from snellen.cli.console import show_json
    from snellen.runs import failures as room

    shown = [
        {
            "path": str(one.run.path),
            "model": one.run.meta.spec.model,
            "counts": room.counts(one.labelled),
            "agreement": [structs.asdict(pair) for pair in room.agreements(one.labelled)],
            "review": sum(bool(answer.review) for answer in one.labelled),
            "notes": list(one.view.notes),
            "answers": one.labelled,
        }
        for one in told
    ]
    show_json({"runs": shown, **({} if index is None else {"pages": str(index)})})


def _print(told: list[LabelledRun], names: list[str], index: Path | None) -> None:
    from rich.table import Table
    from rich.text import Text

    from snellen.cli.console import show
    from snellen.reports.failures.table import RunLabels, label_rows, label_text

    held = [(name, one) for name, one in zip(names, told, strict=True) if one.labelled]
    for name, one in zip(names, told, strict=True):
        line = f"{name} · {one.run.meta.spec.model}: {len(one.labelled):,} not correct{_unscored(one.run)}"
        print(_line(line))
    if held:
        table = Table("label", box=None, header_style="bold")
        for name, one in held:
            table.add_column(Text(_line(name if len(held) > 1 else one.run.meta.spec.model)), overflow="fold")
        for row in label_rows([RunLabels(name, 1, one.view) for name, one in held]):
            cells = [_cell(cell) for cell in row["cells"]]
            table.add_row(Text(row["name"]), *map(Text, cells))
        show(table)
    for name, one in held:
        for line in one.view.notes:
            print(_line(f"{name}: {line}" if len(held) > 1 else line))
        for answer in sorted(one.labelled, key=lambda each: (each.sample_id, each.repeat)):
            if answer.review:
                people = "".join(f", {by}: {label_text(label)}" for by, label in answer.people.items())
                again = f" (asked again, {answer.repeat})" if answer.repeat else ""
                judge = "none" if answer.judge is None else label_text(answer.judge)
                proposed = f"rule: {label_text(answer.rule)}, judge: {judge}{people}"
                print(_line(f"review {name} {answer.sample_id}{again}: {answer.review}; {proposed}"))
    if index is not None:
        print(index)


def _cell(cell: dict[str, str]) -> str:
    """Count, a bar of at most twenty blocks, share with interval, and whose the labels are."""
    bar = "█" * round(float(cell["at"]) / 5)
    whose = f" ({cell['whose']})" if cell["whose"] else ""
    return f"{cell['count']:>5} {bar:20} {cell['share']:>7} [{cell['interval']}]{whose}"


def _line(text: str) -> str:
    """One line, whatever stands in it: ids and names are other people's."""
    from snellen.reports.escape import escape_invisible

    return escape_invisible(text).replace("\n", " ")


def _unscored(run: Run) -> str:
    """What to do where no judge has read the answers yet, so that none has a label."""
    found = run.benchmark.rubric is not None and run.verdicts() is None
    return "; its answers are not judged yet: snellen judge RUN" if found else ""
