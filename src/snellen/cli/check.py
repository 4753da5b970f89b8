"""snellen check"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from snellen.cli import options as shared
from snellen.cli.console import note, redraw, show_json
from snellen.cli.option_parsing import expand_options, only
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data

REDRAW_S = 0.2


@dataclass(frozen=True)
class FileCheckOptions:
    """What is shown, and what is written."""

    samples: Annotated[
        int, typer.Option(min=0, max=100_000, help="Number of samples to show, spread evenly over the file.")
    ] = 10
    seed: Annotated[int, typer.Option(help="Seed of the samples that are shown, and of the benchmark's draws.")] = 0
    all_rows: Annotated[
        bool,
        typer.Option(
            "--all", help="List every row of a finding, not the first 20 of an error and 5 of others. --json lists all."
        ),
    ] = False
    strict_data: Annotated[
        bool, typer.Option("--strict-data", help="Exit with status 3 if a row cannot be asked, after the report.")
    ] = False
    write: Annotated[
        Path | None,
        typer.Option(metavar="TOML", help="Write how the file was read as a declaration, for `snellen run TOML`."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Let --write replace a file.")] = False
    model: Annotated[
        str | None, typer.Option("--model", "-m", metavar="KIND:NAME", help="The model, for the cost.")
    ] = None


@dataclass(frozen=True)
class CheckOutputOptions:
    """Form of the result."""

    as_json: shared.JsonResult = False
    quiet: shared.Quiet = False


@expand_options
def check(
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="File of questions, folder, archive, hf:owner/name, declaration in TOML, or a benchmark's name.",
        ),
    ],
    options: FileCheckOptions,
    data: shared.DataOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens")],
    media: Annotated[shared.MediaOptions, only("max_long_side", "max_pixels")],
    budget: Annotated[shared.BudgetOptions, only("prices")],
    output: CheckOutputOptions,
) -> None:
    """Check questions before a run: how they are read, what is odd about them, and what they cost.

    No request is sent and no key is read. The exit status is 0 for errors in single rows and for warnings; with
    --strict-data it is 3 if a row cannot be asked.
    """
    from snellen.benchmarks.base import Data
    from snellen.runs.check.benchmark_check import check_benchmark
    from snellen.runs.check.check import CheckSettings
    from snellen.runs.costs import price_of

    if budget.prices is not None and options.model is None:
        raise UsageError(f"--prices {budget.prices} needs a model", "Name it: -m api:NAME, as in the price file.")
    if options.force and options.write is None:
        raise UsageError("--force has no effect without --write", "Add --write FILE.toml, or omit --force.")
    place = Data(data.data, data.images, data.benchmark_options(), options.seed)
    if options.write is not None:
        _require_new(options.write, benchmark, force=options.force)
    subject = _benchmark(benchmark, place)
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
    if progress is not None:
        redraw(" " * 40 + "\r")
    if options.write is not None:
        from snellen.runs.check.written_declaration import write_declaration

        write_declaration(options.write, subject, place, benchmark)
        note(f"Written: {options.write}. Run it: snellen run {options.write} -m MODEL")
    if output.as_json:
        show_json(result)
    else:
        from snellen.cli.check_report import print_result

        print_result(result, all_rows=options.all_rows, price=known)
        for line in () if subject.table is not None else subject.notices(place):  # a table's are findings
            note(f"note: {line}")
    if options.strict_data and result.samples < result.rows:
        raise typer.Exit(3)


def _benchmark(name: str, data: Data) -> Benchmark:
    """Return the benchmark; raise UsageError if it is unknown, or an option of it."""
    from snellen.benchmarks import registry
    from snellen.cli.preview import require_used_data

    subject = registry.find(name)
    data.require_known(subject.name, subject.options)
    require_used_data(data, [subject])
    return subject


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
