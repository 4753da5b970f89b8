"""The result of a check as text: the reading, samples as they would be sent, findings, answers, longest texts, cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.benchmarks.table.question import shown_answer
from snellen.cli.console import new_table, note, show
from snellen.runs.check.check import FIRST_ROWS
from snellen.runs.costs import CHARACTERS, PIXELS
from snellen.text import one_line, shorten

if TYPE_CHECKING:
    from snellen.models.api.prices import FoundPrice
    from snellen.runs.check.finding import Finding
    from snellen.runs.check.result import CheckResult, Example, ExamplePart

LONG_TEXT = 2_000
"""Characters of a prompt's text that are printed; --json has the whole."""
FIRST_OF_OTHERS = 5
"""Rows of a warning or a note that are printed; of errors more are."""
LABELS = {"error": "error  ", "warning": "warning", "note": "note   "}


def print_result(result: CheckResult, *, all_rows: bool = False, price: FoundPrice | None = None) -> None:
    """Print a check; `all_rows` lists every row of a finding."""
    if result.reading:
        print(f"{result.benchmark}: {result.reading}")
    else:
        print(f"{result.benchmark}: {result.samples:,} samples, {result.images:,} images, {result.videos:,} videos")
    for example in result.examples:
        print()
        for line in _example_lines(example):
            print(line)
    print()
    _print_findings(result, all_rows=all_rows)
    _print_answers(result)
    _print_lengths(result)
    _print_estimate(result, price)


def _example_lines(example: Example) -> Iterator[str]:
    id_ = "" if example.id == example.row else f", id {one_line(example.id)}"
    yield f"--- {one_line(example.row)}{id_} ({example.kind})"
    if example.system:
        yield f"[system] {_cut(example.system)}"
    for part in example.prompt:
        yield _cut(part.text) if part.type == "text" else _media_line(part)
    if example.gold is not None:
        gold = example.gold
        words = shown_answer(gold)
        option = example.options.get(gold) if isinstance(gold, str) else None
        yield f"    gold: {one_line(shorten(words, 200))}" + (
            f" ({one_line(option[:80])})" if option and option != gold else ""
        )


def _media_line(part: ExamplePart) -> str:
    name = one_line(_short_name(part.name))
    if part.problem:
        return f"[{part.type} {name}: {one_line(part.problem)}]"
    size = f", {part.width:,} x {part.height:,} {part.format.upper()}, {part.bytes:,} bytes" if part.width else ""
    sent = f", sent as {part.sent}" if part.sent else ""
    return f"[{part.type} {name}{size}{sent}]"


def _short_name(name: str) -> str:
    """Return a path relative to the working folder if it lies below it."""
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except ValueError:
        return name


def _shortened(detail: str) -> str:
    return f"as {_short_name(detail.removeprefix('as '))}" if detail.startswith("as ") else detail


def _cut(text: str) -> str:
    more = len(text) - LONG_TEXT
    return text if more <= 0 else f"{text[:LONG_TEXT]}… ({more:,} more characters)"


def _print_findings(result: CheckResult, *, all_rows: bool) -> None:
    if not result.findings:
        print("Nothing odd was found.")
        return
    for finding in result.findings:
        print(f"{LABELS[finding.level]}  {one_line(finding.message)}  [{finding.code}]")
        for line in _row_lines(finding, all_rows=all_rows):
            print(f"           {line}")


def _row_lines(finding: Finding, *, all_rows: bool) -> Iterator[str]:
    most = None if all_rows else FIRST_ROWS if finding.level == "error" else FIRST_OF_OTHERS
    rows = finding.rows[:most]
    for row in rows:
        id_ = f" (id {one_line(row.id[:60])})" if row.id and row.id != row.row else ""
        detail = f": {one_line(_shortened(row.detail))}" if row.detail else ""
        yield f"{one_line(_short_name(row.row))}{id_}{detail}"
    more = finding.count - len(rows)
    if rows and more > 0:
        yield f"and {more:,} more." + ("" if all_rows else " --all lists them.")


def _print_answers(result: CheckResult) -> None:
    if not result.answers:
        return
    table = new_table("Gold answers", ["answer"], ["samples", "share", "if equally likely"])
    total = sum(share.count for share in result.answers)
    for share in result.answers:
        table.add_row(share.answer, f"{share.count:,}", f"{share.count / total:.1%}", f"{share.expected / total:.1%}")
    if result.chance is not None:
        table.caption = f"Guessing reaches {result.chance:.1%}."
    show(table)


def _print_lengths(result: CheckResult) -> None:
    if not result.longest:
        return
    table = new_table(
        f"Longest prompts (median {result.characters:,} characters)", ["row", "id", "begins"], ["characters"]
    )
    for text in result.longest:
        table.add_row(one_line(text.row), one_line(text.id[:60]), one_line(text.text), f"{text.characters:,}")
    show(table)


def _print_estimate(result: CheckResult, price: FoundPrice | None) -> None:
    output = "output without a limit" if result.output_tokens is None else f"output <= {result.output_tokens:,}"
    cost = "unknown: name the model with -m KIND:NAME; one that the table of prices lacks also needs --prices FILE"
    if result.cost is not None:
        cost = f"~${result.cost:,.4f}" + ("+" if result.output_tokens is None else "")
    print(f"Estimated tokens: ~{result.input_tokens:,} input, {output}. Estimated cost: {cost}")
    if price is None:
        return
    note(f"note: estimated with {CHARACTERS} characters and {PIXELS} pixels per token; servers count differently.")
    if price.origin.day is not None:
        note(f"note: {price.origin.text}. Prices change: check it.")
