"""snellen list"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from snellen.cli.output import note, show, show_json
from snellen.errors import SnellenError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark

RESULTS = Path("results")


def list_all(
    benchmark: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="BENCHMARK", help="Only these, with all that --long says; with --runs, only their runs."
        ),
    ] = None,
    long: Annotated[
        bool,
        typer.Option(
            "--long", "-l", help="With versions, sizes, options, export formats, sources, licences and citations."
        ),
    ] = False,
    runs: Annotated[bool, typer.Option("--runs", help="List the runs instead.")] = False,
    results: Annotated[Path, typer.Option(help="Where the runs lie.")] = RESULTS,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List benchmarks with their scoring profiles, and the kinds of models; or, with --runs, the runs here."""
    if runs:
        _list_runs(results, benchmark or (), as_json=as_json)
    elif benchmark:
        _list_named(benchmark, as_json=as_json)
    else:
        _list_parts(long=long, as_json=as_json)


def _list_named(names: Sequence[str], *, as_json: bool) -> None:
    from snellen.benchmarks import registry

    found = [registry.find(name) for name in names]
    if as_json:
        show_json({"benchmarks": [_facts(one) for one in found]})
        return
    for one in found:
        _print_benchmark(one, long=True)


def _list_parts(*, long: bool, as_json: bool) -> None:
    from snellen.benchmarks import registry as benchmarks
    from snellen.models import registry as models

    found = []
    for name in benchmarks.names():
        if not as_json and "/" in name and name.partition("/")[0] in benchmarks.FAMILIES:
            continue  # too many to read; the family's own lines say how its members are called
        try:
            found.append(benchmarks.find(name))
        except SnellenError as error:  # a plug-in that is broken must not hide the others
            note(f"snellen: {error.message}")
    kinds = {kind: help_ for kind, (_, help_) in models.KINDS.items()}
    for point in entry_points(group=models.GROUP):
        kinds.setdefault(point.name, f"from {point.value}")
    if as_json:
        show_json({"benchmarks": [_facts(one) for one in found], "models": kinds})
        return
    for one in found:
        _print_benchmark(one, long=long)
    print("\nmodels (--model KIND:NAME)")
    for kind, help_ in kinds.items():
        print(f"  {kind:<12} {help_}")


def _print_benchmark(one: Benchmark, *, long: bool) -> None:
    print(one.name + (f"  {one.about['description']}" if "description" in one.about else ""))
    for profile, help_ in one.profiles.items():
        print(f"    profile {profile:<12} {help_}")
    if not long and "members" in one.about:
        print(f"    {'members':<20} {one.about['members']}")
    if long:
        for label, text in _details(one).items():
            print(f"    {label:<20} {text}")


def _details(one: Benchmark) -> dict[str, str]:
    from snellen.exporting import formats

    size = _size(one)
    return {
        "version": one.version,
        **({} if size is None else {"questions": f"{size:,}"}),
        **{f"--{name}": text for name, text in one.options.items()},
        **{f"export {name}": found.about for name, found in formats(one).items()},
        **{label: text for label, text in one.about.items() if label != "description"},
    }


def _size(one: Benchmark) -> int | None:
    """How many questions it has; None where that is known only with its data at hand."""
    from snellen.benchmarks.base import Data

    try:
        return one.size(Data())
    except SnellenError:
        return None


def _facts(one: Benchmark) -> dict[str, Any]:
    from snellen.exporting import formats

    return {
        "name": one.name,
        "version": one.version,
        "size": _size(one),
        "profiles": dict(one.profiles),
        "options": dict(one.options),
        "exports": list(formats(one)),
        "restricted": one.restricted,
        "about": dict(one.about),
        "members": [getattr(member, "name", str(member)) for member in one.members],
    }


def _list_runs(results: Path, benchmarks: Sequence[str], *, as_json: bool) -> None:
    from snellen.engine.folder import RunFolder
    from snellen.errors import RunError

    rows = []
    for path in sorted(results.glob("**/run_meta.json")):
        try:
            meta = RunFolder(path.parent).meta()
        except RunError as error:  # one damaged run must not hide the others
            note(f"snellen: {error.message}")
            continue
        if not benchmarks or meta.spec.benchmark in benchmarks:
            rows.append((path.parent, meta))
    if as_json:
        show_json(
            {
                "runs": [
                    {
                        "path": str(path),
                        "benchmark": meta.spec.benchmark,
                        "model": meta.spec.model,
                        "state": meta.state,
                        "fingerprint": meta.fingerprint,
                        "coverage": structs.asdict(meta.coverage),
                        "not_there": meta.not_there,
                        "totals": structs.asdict(meta.totals),
                    }
                    for path, meta in rows
                ]
            }
        )
        return
    if not rows:
        print(f"no runs{' of ' + ', '.join(benchmarks) if benchmarks else ''} under {results}/")
        for folder in filter(os.path.isdir, benchmarks):
            note(f"{folder} is a folder: snellen list --runs --results {shlex.quote(folder)} shows the runs in it.")
        return
    from rich.table import Table

    table = Table()
    for heading in ("run", "benchmark", "model", "state"):
        table.add_column(heading, overflow="fold")
    for heading in ("answered", "failed", "asked of all", "fingerprint"):
        table.add_column(heading, justify="right")
    for path, meta in rows:
        limit, of = meta.coverage.limit, meta.coverage.of
        if meta.not_there and of is not None:
            limit = of - meta.not_there
        table.add_row(
            str(path),
            meta.spec.benchmark,
            meta.spec.model,
            meta.state,
            f"{meta.totals.done:,}",
            f"{meta.totals.error + meta.totals.timeout:,}",
            f"{'all' if limit is None or (of and limit >= of) else format(limit, ',')}"
            + ("" if of is None else f" of {of:,}"),
            meta.fingerprint,
        )
    show(table)
