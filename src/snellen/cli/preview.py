"""What can be known before the first request: options that are used after the answers, and what a run will cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from snellen.cli.console import note, show, show_json
from snellen.errors import DataError, StorageError, UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data
    from snellen.engine.run_folder import RunSpec


def require_profile(spec: RunSpec, profile: str | None) -> Benchmark:
    """Find the benchmark, and refuse a profile, a setting or a model that there is not, before anything is asked.

    Raises:
        UsageError: no such benchmark, profile, setting of the benchmark or kind of model.
    """
    from snellen.models.registry import require_kind
    from snellen.runs.run import find_benchmark
    from snellen.runs.scoring import profiles_of

    benchmark = find_benchmark(spec, trust=True)
    profiles_of(benchmark, profile)
    unknown = sorted(set(spec.data.options) - set(benchmark.options))
    if unknown:
        known = ", ".join(benchmark.options) or "none"
        error = UsageError(f"{benchmark.name} has no option {unknown[0]!r}", f"Its options for -o: {known}.")
        raise error.near(unknown[0], benchmark.options, f"{{}}={spec.data.options[unknown[0]]}")
    require_kind(spec.model)
    return benchmark


def require_used_data(data: Data, benchmarks: Sequence[Benchmark]) -> None:
    """Refuse --data and --images that no benchmark of the call reads, or that a user's own benchmark cannot find.

    The package's benchmarks name missing data themselves, with what they expect.

    Raises:
        UsageError: all of the benchmarks draw their samples. DataError: there is no such file or folder.
    """
    from snellen.benchmarks import registry
    from snellen.benchmarks.base import needs_no_data
    from snellen.sources.hub import HUB

    given = {"--data": data.path, "--images": data.images}
    for option, path in given.items():
        if path is None:
            continue
        if all(needs_no_data(benchmark) for benchmark in benchmarks):
            names = ", ".join(benchmark.name for benchmark in benchmarks)
            raise UsageError(
                f"{option} {path} has no effect: {names} draws its own samples and reads no data",
                f"Omit {option}, or name the benchmark that the data is of: snellen run BENCHMARK {option} {path} ...",
            )
        own = [one for one in benchmarks if one.name.partition("/")[0] not in (*registry.BUILT_IN, *registry.FAMILIES)]
        if len(own) == len(benchmarks) and not str(path).startswith(HUB) and not path.exists():
            raise DataError(
                f"{option} {path}: there is no such file or folder",
                f"Check the path; relative ones begin at {Path.cwd()}. No request was sent.",
            )


def require_rerun(run: Path, profile: str | None, prices: Path | None, *, trust: bool) -> None:
    """Refuse a profile or a price file of a run that is repeated, before anything is asked. Raises UsageError."""
    from snellen.engine.run_folder import RunFolder
    from snellen.models.api.prices import load_price
    from snellen.runs.run import load_run
    from snellen.runs.scoring import profiles_of

    if not RunFolder(run).exists():
        return  # the run itself says so
    if profile is not None:
        profiles_of(load_run(run, trust=trust).benchmark, profile)
    if prices is not None:
        model = RunFolder(run).meta().spec.model
        load_price(prices, model.partition(":")[2] or model)


def require_models(specs: Sequence[RunSpec]) -> None:
    """Refuse a model of several runs that cannot be opened with its options, before the first of them is asked.

    Opening loads and contacts nothing. A plug-in's model is opened only in its turn: what its code does is not known.

    Raises:
        SnellenError: a missing price or extra, an option that is not for this kind of model, an address that is none.
    """
    from snellen.engine.ray import open_scattered
    from snellen.models.registry import KINDS

    for spec in specs:
        if spec.model.partition(":")[0] in KINDS:
            open_scattered(spec.model, spec.options, spec.nproc, spec.ray)


def require_run_folder(folder: Path) -> None:
    """Refuse a folder that no run can be written to; it is not made, and nothing is left in it.

    Raises:
        StorageError: it or a folder above it is a file, or nothing can be written there.
    """
    there = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), Path())
    hint = "Name a folder that can be written, for example: --out runs/NAME. No request was sent."
    if not there.is_dir():
        kind = "a file" if there.is_file() else "no folder"
        raise StorageError(f"the run cannot be written to {folder}: {there} is {kind}; a folder was expected", hint)
    try:
        with NamedTemporaryFile(dir=there, prefix=".snellen-"):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(
            f"the run cannot be written to {folder}: nothing can be written in {there}: {reason}", hint
        ) from error


def require_writable(folder: Path, option: str) -> None:
    """Refuse a folder that results cannot be written to; it is not made, and nothing is left in it.

    Raises:
        StorageError: it cannot be made, is a file, or nothing can be written into it.
    """
    there = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), Path())
    try:
        with NamedTemporaryFile(dir=there, prefix=".snellen-"):
            pass
    except OSError as error:
        raise StorageError(
            f"{option} {folder} cannot be written: {error.strerror}", f"Give another folder as {option}."
        ) from error


def show_estimates(specs: Sequence[RunSpec], folders: Sequence[Path], *, as_json: bool) -> None:
    """Print questions, images, estimated tokens and cost of runs; no request is sent, and no key is read."""
    from rich.table import Table

    from snellen.engine.run_folder import RunFolder
    from snellen.runs.costs import CHARACTERS, PIXELS, estimated
    from snellen.runs.run import find_benchmark

    found = [
        estimated(spec, find_benchmark(spec, trust=True), RunFolder(folder))
        for spec, folder in zip(specs, folders, strict=True)
    ]
    costs = [one.cost for one in found if one.cost is not None]
    if as_json:
        show_json({"dry_run": True, "runs": found, "cost": sum(costs) if costs else None})
        return
    table = Table(title="Dry run: no request is sent", title_justify="left")
    table.add_column("benchmark")
    table.add_column("model")
    for heading in ("questions", "answered", "images", "videos", "input tokens", "output tokens", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found:
        table.add_row(
            one.benchmark,
            one.model,
            f"{one.questions:,}",
            f"{one.answered:,}",
            f"{one.images:,}",
            f"{one.videos:,}",
            f"~{one.input_tokens:,}",
            "no limit" if one.output_tokens is None else f"<= {one.output_tokens:,}",
            "no price" if one.cost is None else f"~${one.cost:,.4f}" + ("+" if one.output_tokens is None else ""),
        )
    show(table)
    note(
        f"note: estimated with {CHARACTERS} characters and {PIXELS} pixels a token; servers count otherwise. Cost is with every "
        "reply at its limit; + marks a cost without output, because nothing limits it (--max-tokens does)."
    )
    for one in found:
        if one.unreadable:
            note(f"note: {one.benchmark}: {one.unreadable:,} questions have pictures that cannot be read")
