"""snellen check, and its result as text"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snellen.benchmarks.table.question import shown_answer
from snellen.cli import options as shared
from snellen.cli.console import new_table, note, redraw, show, show_json
from snellen.cli.option_parsing import argument, given, only, option
from snellen.errors import UsageError
from snellen.models.image_tokens import PIXELS_A_TOKEN as PIXELS
from snellen.runs.check.check import FIRST_ROWS
from snellen.runs.costs import CHARACTERS
from snellen.text import one_line, shorten

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data
    from snellen.models.api.prices import FoundPrice
    from snellen.reports.plots.base import Plot
    from snellen.runs.check.finding import Finding
    from snellen.runs.check.result import CheckResult, Example, ExamplePart
    from snellen.types import MediaSettings

REDRAW_S = 0.2


@dataclass(frozen=True)
class FileCheckOptions:
    """What is shown, and what is written."""

    samples: int = option("Number of samples to show, spread evenly over the file.", 10, least=0, most=100_000)
    seed: int = option("Seed of the samples that are shown, and of the benchmark's draws.", 0)
    all_rows: bool = option(
        "List every row of a finding, not the first 20 of an error and 5 of others. --json lists all.",
        False,
        names=("--all",),
    )
    strict_data: bool = option("Exit with status 3 if a row cannot be asked, after the report.", False)
    write: Path | None = option("Write how the file was read as a declaration, for `snellen run TOML`.", value="TOML")
    figures: Path | None = option(
        "Write how many questions each part and kind of answer has, as SVG and PDF, to this folder.", value="FOLDER"
    )
    page: Path | None = option(
        "Write the first questions, gold boxes and points drawn on their images, as one HTML page: 12 of them, or --samples.",
        value="[FILE=check.html]",
    )
    force: bool = option("Let --write replace a file.", False)
    model: str | None = option("The model, for the cost.", names=("--model", "-m"), value="KIND:NAME")


@dataclass(frozen=True)
class CheckOutputOptions:
    """Form of the result."""

    as_json: shared.JsonResult = False
    quiet: shared.Quiet = False


def check(
    benchmark: str = argument(
        "File of questions, folder, archive, hf:owner/name, declaration in TOML, or a benchmark's name.", value="FILE"
    ),
    *,
    options: FileCheckOptions,
    data: shared.DataOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens")],
    media: Annotated[shared.MediaOptions, only("max_long_side", "max_pixels", "min_pixels", "resize")],
    budget: Annotated[shared.BudgetOptions, only("prices")],
    output: CheckOutputOptions,
) -> None:
    """Check questions before a run: how they are read, what is odd about them, and what they cost.

    No request is sent and no key is read. The exit status is 0 for errors in single rows and for warnings; with
    --strict-data it is 3 if a row cannot be asked.
    """
    from snellen.benchmarks.base import Data
    from snellen.benchmarks.registry import find
    from snellen.cli.environment import data_of
    from snellen.cli.preview import require_used_data
    from snellen.engine.output_file import PAGE, require_output_file
    from snellen.runs.check.check import CheckSettings, check_benchmark
    from snellen.runs.costs import price_of

    if budget.prices is not None and options.model is None:
        raise UsageError(f"--prices {budget.prices} needs a model", "Name it: -m api:NAME, as in the price file.")
    if options.force and options.write is None:
        raise UsageError("--force has no effect without --write", "Add --write FILE.toml, or omit --force.")
    subject = find(benchmark)
    used = data_of(data.data, [benchmark]) if subject.variables or subject.places else data.data
    place = Data(used, data.images, data.benchmark_options(), options.seed)
    place.require_known(subject.name, subject.options)
    require_used_data(place, [subject])
    if options.write is not None:
        _require_new(options.write, benchmark, force=options.force)
    if options.page is not None:
        require_output_file(options.page, "--page", PAGE, [Path(benchmark)])
    known = None if options.model is None else price_of(options.model, prices=budget.prices)
    settings = CheckSettings(
        examples=options.samples,
        seed=options.seed,
        all_rows=options.all_rows or output.as_json,
        generation=generation.settings(),
        media=media.settings(),
        price=None if known is None else known.price,
    )
    progress = None if output.quiet or output.as_json or not sys.stderr.isatty() else _Progress()
    update = None if progress is None else progress.update
    result = check_benchmark(subject, place, settings, name=benchmark, on_progress=update)
    if (asked := _in_space(subject, place, options.model, media.settings(), result)) != place:
        place, result = asked, check_benchmark(subject, asked, settings, name=benchmark)
    if progress is not None:
        redraw(" " * 40 + "\r")
    if options.write is not None:
        from snellen.runs.check.written_declaration import write_declaration

        write_declaration(options.write, subject, place, benchmark)
        note(f"Written: {options.write}. Run it: snellen run {options.write} -m MODEL")
    if options.figures is not None:
        _draw(result, options.figures)
    if options.page is not None:
        from snellen.reports.check_page import FIRST, write_check_page

        count = options.samples if "--samples" in given(options) and options.samples else FIRST
        note(f"Written: {write_check_page(subject, place, options.page, result.reading, count)}")
    if output.as_json:
        show_json(result)
    else:
        print_result(result, all_rows=options.all_rows, price=known)
        for line in () if subject.table is not None else subject.notices(place):  # a table's are findings
            note(f"note: {line}")
    if options.strict_data and result.samples < result.rows:
        raise typer.Exit(3)


def _draw(result: CheckResult, folder: Path) -> None:
    """Write the figures of a check, and name the folder."""
    from snellen.reports.figures import write_figures
    from snellen.reports.plots import KIND_NAMES
    from snellen.reports.plots.bars import question_plots
    from snellen.reports.plots.svg import page_style

    def draw() -> list[Plot]:
        with page_style():
            return question_plots(result.benchmark, result.parts, KIND_NAMES)

    write_figures(draw, folder, "--figures")
    note(f"Written: {folder}")


def _in_space(subject: Benchmark, place: Data, model: str | None, media: MediaSettings, result: CheckResult) -> Data:
    """Return the data with the space in which a run would ask for boxes and points, where one is decided."""
    from snellen.engine.run_folder import RunSpec
    from snellen.models.base import ModelOptions
    from snellen.runs.coordinates import with_coordinates
    from snellen.scoring.coordinates import SIDES

    if subject.table is None or not SIDES.keys() & result.kinds.keys():
        return place
    spec = RunSpec(benchmark=subject.name, model=model or "", data=place, options=ModelOptions(media=media))
    try:
        return with_coordinates(spec, subject).data
    except UsageError as error:  # the run would stop; what the column says stands in the result
        note(f"note: {error.message}. {error.hint}")
        return place


def _require_new(path: Path, source: str, *, force: bool) -> None:
    """Refuse a file for the declaration that is no TOML, or that exists, before the data is read. Raises UsageError."""
    from snellen.engine.output_file import require_output_file

    require_output_file(path, "--write", (".toml",), [Path(source)])
    if path.exists() and not force:
        raise UsageError(f"--write {path}: this file exists", "Name another file, or add --force to replace it.")


class _Progress:
    """The number of images and rows so far, on one line of stderr."""

    def __init__(self) -> None:
        self._next = time.monotonic() + REDRAW_S

    def update(self, noun: str, count: int) -> None:
        """Draw the number of images or rows, a few times a second."""
        if (now := time.monotonic()) >= self._next:
            self._next = now + REDRAW_S
            redraw(f"{count:>11,} {noun} read")


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
    _print_parts(result)
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


def _print_parts(result: CheckResult) -> None:
    """Print how many questions each part has, by kind of answer; nothing where there is one part."""
    if len(result.parts) < 2:
        return
    kinds = list(result.kinds)
    table = new_table("Questions", ["part"], [*kinds, "all", "share"])
    for part, counts in result.parts.items():
        total = sum(counts.values())
        cells = [f"{counts[kind]:,}" if kind in counts else "–" for kind in kinds]
        table.add_row(one_line(part[:60]) or "–", *cells, f"{total:,}", f"{total / result.samples:.1%}")
    show(table)


def _print_answers(result: CheckResult) -> None:
    if not result.answers:
        return
    table = new_table("Gold answers", ["answer"], ["samples", "share", "if equally likely"])
    total = sum(share.count for share in result.answers)
    for share in result.answers:
        table.add_row(share.answer, f"{share.count:,}", f"{share.count / total:.1%}", f"{share.expected / total:.1%}")
    if result.chance is not None:
        table.caption = f"Guessing reaches {result.chance:.1%}, over the samples where that is known."
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
