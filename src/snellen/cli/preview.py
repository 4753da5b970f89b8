"""Before the first request: checks of options, models and folders, the files of the data, and the estimated cost of a run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from msgspec import structs

from snellen.cli.console import new_table, note, print_notes, show, show_json
from snellen.errors import DataError, MissingExtraError, StorageError, UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data, DataFile, DataReading
    from snellen.engine.run_folder import RunSpec
    from snellen.runs.costs import Estimate


def require_profile(spec: RunSpec, benchmark: Benchmark, profile: str | None) -> None:
    """Raise UsageError for a profile, a setting of the benchmark or a kind of model that is unknown."""
    from snellen.models.registry import require_kind
    from snellen.runs.scoring import profiles_of

    profiles_of(benchmark, profile)
    spec.data.require_known(benchmark.name, benchmark.options)
    require_kind(spec.model)


def require_used_data(data: Data, benchmarks: Sequence[Benchmark]) -> None:
    """Refuse --data and --images that no benchmark of the call reads, or missing ones of a user's own benchmark.

    The package's benchmarks report missing data themselves, with what they expect.

    Raises:
        UsageError: all of the benchmarks draw their samples.
        DataError: there is no such file or folder.
    """
    from snellen.benchmarks import registry
    from snellen.benchmarks.base import needs_no_data
    from snellen.sources.hub import HUB

    built_in = (*registry.BUILT_IN, *registry.FAMILIES)
    own_only = not any(benchmark.name.partition("/")[0] in built_in for benchmark in benchmarks)
    for option, path in {"--data": data.path, "--images": data.images}.items():
        if path is None:
            continue
        if all(needs_no_data(benchmark) for benchmark in benchmarks):
            names = ", ".join(benchmark.name for benchmark in benchmarks)
            raise UsageError(
                f"{option} {path} has no effect: {names} draws its own samples and reads no data",
                f"Omit {option}, or name the benchmark of the data: snellen run BENCHMARK {option} {path} ...",
            )
        if own_only and not str(path).startswith(HUB) and not path.exists():
            raise DataError(
                f"{option} {path}: there is no such file or folder",
                f"Check the path; relative paths start at {Path.cwd()}. No request was sent.",
            )


def require_rerun(run: Path, profile: str | None, prices: Path | None, *, trust: bool) -> None:
    """Refuse an unknown profile or a bad price file for a rerun, before the first request. Raises UsageError."""
    from snellen.engine.run_folder import RunFolder
    from snellen.models.api.prices import load_price
    from snellen.runs.run import load_run
    from snellen.runs.scoring import profiles_of

    if not RunFolder(run).exists():
        return  # `rerun` reports it
    if profile is not None:
        profiles_of(load_run(run, trust=trust).benchmark, profile)
    if prices is not None:
        model = RunFolder(run).meta().spec.model
        load_price(prices, model.partition(":")[2] or model)


def require_models(specs: Sequence[RunSpec], *, here: bool = True) -> None:
    """Refuse models of several runs that cannot be opened with their options, before the first request.

    Opening loads no weights and contacts no server. Models of plug-ins are opened in their turn only, since their code is
    unknown. A dry run may be made on a machine where the extras are not installed (`here` is False).

    Raises:
        SnellenError: a missing price or extra, an option of another kind of model, or a malformed address.
    """
    from snellen.models.registry import KINDS
    from snellen.runs.perform import open_scattered

    for spec in specs:
        if spec.model.partition(":")[0] in KINDS:
            with contextlib.suppress(*(() if here else (MissingExtraError,))):
                open_scattered(spec.model, spec.options, spec.nproc, spec.ray)


def require_run_folder(folder: Path) -> None:
    """Refuse a folder that no run can be written to; create nothing.

    Raises:
        StorageError: it or a parent is a file, or is not writable.
    """
    existing = _existing_parent(folder)
    hint = "Name a writable folder, for example: --out runs/NAME. No request was sent."
    if not existing.is_dir():
        kind = "a file" if existing.is_file() else "no folder"
        raise StorageError(f"the run cannot be written to {folder}: {existing} is {kind}; a folder was expected", hint)
    try:
        _try_write(existing)
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(
            f"the run cannot be written to {folder}: nothing can be written in {existing}: {reason}", hint
        ) from error


def refuse_run(folder: Path) -> None:
    """Refuse the folder of a run for what is no run. Raises UsageError."""
    from snellen.engine.run_folder import RunFolder

    if RunFolder(folder).exists():
        raise UsageError(f"{folder} is the folder of a run", "Choose another folder with --out. Nothing was written.")


def require_writable(folder: Path, option: str) -> None:
    """Refuse a folder that results cannot be written to; create nothing.

    Raises:
        StorageError: it is a file, cannot be created or is not writable.
    """
    try:
        _try_write(_existing_parent(folder))
    except OSError as error:
        raise StorageError(
            f"{option} {folder} cannot be written: {error.strerror}", f"Pass another folder as {option}."
        ) from error


def _existing_parent(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next((path for path in (folder, *folder.parents) if os.path.lexists(path)), Path())


def _try_write(folder: Path) -> None:
    """Create and remove a file in a folder; raise OSError if that fails."""
    with TemporaryFile(dir=folder):  # has no name that a kill could leave behind
        pass


def show_estimates(
    specs: Sequence[RunSpec], benchmarks: Sequence[Benchmark], folders: Sequence[Path], *, as_json: bool
) -> None:
    """Print questions, images, estimated tokens and cost of runs; send no request and read no key."""
    from snellen.engine.run_folder import RunFolder
    from snellen.engine.study import studied
    from snellen.runs.costs import estimated

    estimates = [
        estimated(spec, studied(benchmark, spec), RunFolder(folder))
        for spec, benchmark, folder in zip(specs, benchmarks, folders, strict=True)
    ]
    costs = [run.cost for run in estimates if run.cost is not None]
    if as_json:
        batch_costs = [run.batch_cost for run in estimates if run.batch_cost is not None]
        show_json(
            {
                "dry_run": True,
                "runs": estimates,
                "cost": sum(costs) if costs else None,
                "batch_cost": sum(batch_costs) if batch_costs else None,
            }
        )
        return
    headings = ("questions", "answered", "images", "videos", "input tokens", "output tokens", "cost", "as a batch")
    table = new_table("Dry run: no request is sent", ["benchmark", "model"], headings)
    for run in estimates:
        counts = (run.questions, run.answered, run.images, run.videos)
        open_end = "+" if run.output_tokens is None else ""
        table.add_row(
            run.benchmark,
            run.model,
            *(f"{count:,}" for count in counts),
            f"~{run.input_tokens:,}",
            "no limit" if run.output_tokens is None else f"<= {run.output_tokens:,}",
            "no price" if run.cost is None else f"~${run.cost:,.4f}{open_end}",
            "" if run.batch_cost is None else f"~${run.batch_cost:,.4f}{open_end}",
        )
    show(table)
    print_notes(estimate_notes(estimates))


def estimate_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Return what a reader must know of estimates: how exact they are, and where prices and rules come from."""
    from snellen.models.api.prices import known_models, provider_of
    from snellen.models.image_tokens import PIXELS_A_TOKEN as PIXELS
    from snellen.runs.costs import CHARACTERS

    lines = [
        f"requests and images are counted; tokens are estimated with {CHARACTERS} characters per token, and images "
        f"without a rule with {PIXELS} pixels per token. Services count differently: text that is not English prose, "
        "and images without a rule, may be off by a factor of 2 and more. The cost assumes that every reply has its "
        "maximum length, thinking included. + marks a cost without output, which has no limit: set --max-tokens."
    ]
    rules = {run.model: run.image_rule for run in estimates if run.image_rule is not None and run.images + run.videos}
    for model, rule in rules.items():
        doubt = "" if rule.confirmed else ", not confirmed on the provider's own page"
        lines.append(f"{model}: images count as {rule.about}; read on {rule.day} from {rule.source}{doubt}")
    for model, origin in {run.model: run.price for run in estimates}.items():
        if origin is not None:
            lines.append(f"{model}: {origin.text}." + ("" if origin.day is None else " Prices change: check it."))
            continue
        provider = provider_of(model.partition(":")[0], None)
        known = f" The table has {', '.join(known_models(provider))}." if provider is not None else ""
        lines.append(f"{model}: no price is known.{known} Write one: --prices FILE (`snellen --help cost`)")
    for run in estimates:
        if run.grows:
            number = (
                "" if run.expected is None else f". About {run.expected:,} are expected in all, {run.most:,} at most"
            )
            lines.append(
                f"{run.benchmark} chooses further questions by the answers: only its first {run.questions:,} count{number}"
            )
        if run.unreadable:
            lines.append(f"{run.benchmark}: {run.unreadable:,} questions have images that cannot be read")
    return lines


SHOWN_UNUSED = 12
"""Lines of files that are not used, at the start of a run; `snellen list` shows all."""


def show_reading(benchmark: Benchmark, reading: DataReading) -> None:
    """Write to stderr how the user's own table was read."""
    note(f"{benchmark.name}: {reading.text}")


def show_data_files(benchmark: Benchmark, data: Data) -> None:
    """Write one line per file of a run's data to stderr: its use and questions, or why it is not used."""
    files = benchmark.files(data)
    unused = [file for file in files if not file.used]
    for file in files:
        if file.used:
            note(f"uses {line_of(file)}")
    for file in unused[:SHOWN_UNUSED]:
        note(f"does not use {line_of(file)}")
    if len(unused) > SHOWN_UNUSED:
        rest = len(unused) - SHOWN_UNUSED
        note(f"does not use {rest:,} more files: snellen list {benchmark.name} --data {data.path} shows why")


def print_data_files(files: Sequence[DataFile], notices: Sequence[str]) -> None:
    """Print the files of some data, those that are used first, and what is odd about it."""
    used = [file for file in files if file.used]
    counted = sum(file.questions or 0 for file in used)
    summary = f"{len(used):,} of {len(files):,} files, {counted:,} questions" if files else "not listed"
    print(f"    {'files':<20} {summary}")
    for file in (*used, *(file for file in files if not file.used)):
        print(f"      {'used' if file.used else 'not used':<10} {line_of(file)}")
    for line in notices:
        print(f"      note: {line}")


def line_of(file: DataFile) -> str:
    """Return a file's name, its questions and its use in one line."""
    count = "" if file.questions is None else f", {file.questions:,} questions"
    return f"{file.name}: {file.note}{count}"


def data_facts(files: Sequence[DataFile], notices: Sequence[str]) -> dict[str, Any]:
    """Return the files and notices for a JSON object."""
    return {"files": [structs.asdict(file) for file in files], "notes": list(notices)}
