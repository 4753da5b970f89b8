"""snellen list"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from snellen.cli.console import new_table, note, show, show_json
from snellen.cli.option_parsing import argument, option
from snellen.cli.preview import data_facts, print_data_files
from snellen.errors import SnellenError, UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.benchmarks.base import Benchmark, Data, Published
    from snellen.engine.request_errors import RequestErrors
    from snellen.engine.run_folder import RunMeta
    from snellen.runs.status import Overview
    from snellen.types import Metric


RESULTS = Path("results")
CATALOGUE = "catalogue"


def list_all(
    benchmark: list[str] | None = argument(
        "Show these benchmarks with profiles, options and licence; with --runs, their runs. Other words list the "
        "benchmarks whose lines have all of them. `catalogue` lists the declared ones.",
        None,
        value="BENCHMARK|WORD",
    ),
    long: bool = option(
        "Show every benchmark as if it were named: profiles, options, sources, licences, citations.",
        False,
        names=("--long", "-l"),
    ),
    runs: bool = option("List the runs instead.", False),
    published: bool = option(
        "Instead: tables that others published, shipped with Snellen; of the named benchmarks, with their figures. "
        "`easi` has those of EASI; hf:OWNER/MODEL, or a folder with .eval_results, those of a model's repository.",
        False,
    ),
    cards: bool = option(
        "List the declared benchmarks that vendors' model cards report, the commonest first; NAME may be a vendor.",
        False,
    ),
    results: Path = option("Folder of the runs.", RESULTS),
    data: Path | None = option("Data of the named benchmarks: list its files, which are used, and why others are not."),
    images: Path | None = option("Folder or archive of its images, to be checked too."),
    as_json: bool = option("One JSON object.", False, names=("--json",)),
) -> None:
    """List benchmarks, one a line, and kinds of models; with --runs, list runs."""
    from snellen.benchmarks.base import Data

    if (data is not None or images is not None) and (runs or not benchmark):
        raise UsageError(
            "--data and --images are for benchmarks that are named", "Write: snellen list NAME --data PATH"
        )
    if published and (runs or long or data is not None or images is not None):
        raise UsageError("--published excludes --runs, --long, --data and --images", "Omit the other options.")
    if published:
        list_published(benchmark or (), as_json=as_json)
    elif cards:
        _list_cards(benchmark or (), as_json=as_json)
    elif runs:
        _list_runs(results, benchmark or (), as_json=as_json)
    elif benchmark == [CATALOGUE]:
        _list_catalogue(as_json=as_json)
    elif benchmark and (found := _matching(benchmark)):
        if data is not None or images is not None:
            raise UsageError(
                f"--data and --images are for benchmarks that are named, and {shlex.join(benchmark)} selects by words",
                "Write: snellen list NAME --data PATH",
            )
        if long or as_json:
            _list_named([line.name for line in found], Data(), as_json=as_json)
        else:
            _show_lines(found)
    elif benchmark:
        _list_named(benchmark, Data(data, images), as_json=as_json)
    else:
        _list_parts(long=long, as_json=as_json)


def _list_named(names: Sequence[str], data: Data, *, as_json: bool) -> None:
    from snellen.benchmarks import registry

    benchmarks = [registry.find(name) for name in names]
    if as_json:
        facts = [{**_facts(benchmark, data), **_data_facts(benchmark, data)} for benchmark in benchmarks]
        show_json({"benchmarks": facts})
        return
    for name, benchmark in zip(names, benchmarks, strict=True):
        _print_benchmark(benchmark, data)
        if registry.is_table(name) and (reading := benchmark.reading(data)) is not None:
            print(f"    {'read as':<20} {reading.text}")
        if data.path is not None or data.images is not None:
            print_data_files(benchmark.files(data), benchmark.notices(data))


def _data_facts(benchmark: Benchmark, data: Data) -> dict[str, Any]:
    if data.path is None and data.images is None:
        return {}
    return data_facts(benchmark.files(data), benchmark.notices(data))


def _list_parts(*, long: bool, as_json: bool) -> None:
    from snellen.benchmarks import registry as benchmarks
    from snellen.models import registry as models

    kinds = {kind: row.help for kind, row in models.KINDS.items()}
    for point in entry_points(group=models.GROUP):
        kinds.setdefault(point.name, f"from {point.value}")
    if as_json:
        listed = [_facts(each) for each in _benchmarks(benchmarks.names())]
        show_json({"benchmarks": listed, "models": kinds})
        return
    if long:
        for each in _benchmarks(_own_names()):
            _print_benchmark(each)
    else:
        _show_lines(_lines())
    print(f"\n{_catalogue_line()}")
    print("\nmodels (--model KIND:NAME)")
    for kind, help_ in kinds.items():
        print(f"  {kind:<12} {help_}")


def _own_names() -> list[str]:
    """Return the benchmarks with code of their own; members that are too many to read are named by their family."""
    from snellen.benchmarks.registry import FAMILIES, names

    return [name for name in names() if "/" not in name or name.partition("/")[0] not in FAMILIES]


def _benchmarks(names: Sequence[str]) -> Iterator[Benchmark]:
    """Yield benchmarks by name; a broken plug-in is named, and does not hide the others."""
    from snellen.benchmarks import registry

    for name in names:
        try:
            yield registry.find(name)
        except SnellenError as error:
            note(f"snellen: {error.message}")


class Line(NamedTuple):
    """A benchmark in the list, in the words of its columns."""

    name: str
    questions: str
    about: str
    licence: str
    data: str


def _lines() -> Iterator[Line]:
    """Yield one line a benchmark; the members of a suite are shown by `snellen list SUITE`."""
    from snellen.benchmarks.base import needs_no_data
    from snellen.benchmarks.table.entries import entry, names
    from snellen.benchmarks.table.official import address_of, is_here

    suites = set[str]()
    for each in _benchmarks(_own_names()):
        suites |= {each.name} if each.members else set()
        if each.name.rpartition("/")[0] in suites and not needs_no_data(each):
            continue
        size = _size(each)
        data = "drawn" if needs_no_data(each) or each.grow is not None else "--data" if size is None else "here"
        about = each.about.get("description", "").rstrip(".")
        yield Line(each.name, "" if size is None else f"{size:,}", about, each.about.get("licence", ""), data)
    for declared in map(entry, names()):
        rows = declared.source.rows
        fetched = address_of(declared.source) or declared.source.hub
        data = "here" if is_here(declared.source) else "fetched" if fetched else "--data"
        licence = f"{declared.licence}, gated" if declared.gated else declared.licence
        yield Line(declared.name, "" if rows is None else f"{rows:,}", declared.probes, licence, data)


def _matching(words: Sequence[str]) -> list[Line]:
    """Return the lines that have all words; none where all are names, or no line has them and one is a name, or alone.

    Raises:
        UsageError: no line has all of several words.
    """
    from snellen.benchmarks import registry

    named = [word in registry.names() or registry.is_entry(word) or registry.is_path(word) for word in words]
    if all(named):
        return []
    wanted = [word.lower() for word in words]
    found = [line for line in _lines() if all(word in " ".join(line).lower() for word in wanted)]
    if not found and len(words) > 1 and not any(named):
        raise UsageError(
            f"no benchmark's line has all of the words {shlex.join(words)}", "Omit a word; `snellen list` shows all."
        )
    return found


def _show_lines(lines: Iterable[Line]) -> None:
    """Print one line a benchmark; on a terminal, what does not fit is cut."""
    rows = [Line("name", "questions", "what it measures", "licence", "data"), *lines]
    name, questions, about, licence, data = (max(map(len, column)) for column in zip(*rows, strict=True))
    if sys.stdout.isatty():
        licence = 12
        about = max(20, shutil.get_terminal_size().columns - name - questions - licence - data - 4)
    for row in rows:
        cut = [
            text if len(text) <= most else text[: most - 1] + "…"
            for text, most in ((row.about, about), (row.licence, licence))
        ]
        print(
            f"{row.name:<{name}} {row.questions:>{questions}} {cut[0]:<{about}} {cut[1]:<{licence}} {row.data}".rstrip()
        )
    print("\ndata: drawn by Snellen; --data PATH names it; fetched on the first run; here on this machine.")
    print("snellen list NAME shows profiles, options and licence; snellen list WORD ... filters.")


def _list_catalogue(*, as_json: bool) -> None:
    """Print the declared benchmarks: name, what each probes, rows, metric, licence, and how the data comes."""
    from snellen.benchmarks.table.entries import all_facts

    listed = all_facts()
    if as_json:
        show_json({"catalogue": [structs.asdict(entry) for entry in listed]})
        return
    table = new_table(None, ["name", "probes"], ["rows"])
    for column in ("metric", "licence", "data"):
        table.add_column(column)
    for entry in listed:
        rows = "" if entry.rows is None else f"{entry.rows:,}"
        licence = f"{entry.licence}, gated" if entry.gated else entry.licence
        table.add_row(entry.name, entry.probes, rows, entry.metric, licence, entry.data)
    table.caption = "snellen run NAME --model KIND:NAME; UNKNOWN: no source names a licence, so ask the authors."
    show(table)


def _list_cards(words: Sequence[str], *, as_json: bool) -> None:
    """Print which declared benchmarks model cards report, of the named vendors and sets if any; nothing unknown is claimed.

    Raises:
        UsageError: no set is known to be reported by a vendor of this name, or no card of a set of this name is known.
    """
    from snellen.benchmarks.table.entries import entry, names

    declared = sorted(filter(lambda each: each.cards.count, map(entry, names())), key=lambda each: -each.cards.count)
    known = sorted({vendor for each in declared for vendor in each.cards.vendors})
    sets = {each.name for each in declared}
    wanted = {word.lower() for word in words}
    if unknown := [word for word in words if word.lower() not in (*map(str.lower, known), *sets)]:
        if unknown[0].lower() in names():
            raise UsageError(
                f"no card that reports {unknown[0]} is known", "`snellen list --cards` has those that are."
            )
        hint = f"Vendors: {', '.join(known)}. `snellen list --cards` has the sets."
        raise UsageError(f"no source names a set that {unknown[0]} reports, and no set has this name", hint)
    listed = [each for each in declared if not wanted or wanted & {each.name, *map(str.lower, each.cards.vendors)}]
    if as_json:
        facts = [{"name": each.name, "title": each.title, **structs.asdict(each.cards)} for each in listed]
        show_json({"cards": facts})
        return
    table = new_table(None, ["name", "title"], ["cards of 18"])
    table.add_column("known of vendors")
    for each in listed:
        said = "; ".join(f"{vendor}: {text}" for vendor, text in each.cards.vendors.items())
        table.add_row(each.name, each.title, str(each.cards.count), said)
    table.caption = "Cards of 18 vendors, October 2025 to September 2026; parts of a set share its count; an empty cell: no source was found."
    show(table)


def _catalogue_line() -> str:
    """Return one line that names the catalogue, for the list of benchmarks."""
    from snellen.benchmarks.table.entries import names

    return f"{len(names())} declared benchmarks, such as mmstar, pope and chartqa: snellen list catalogue"


def _print_benchmark(benchmark: Benchmark, data: Data | None = None) -> None:
    print(benchmark.name + (f"  {benchmark.about['description']}" if "description" in benchmark.about else ""))
    for profile, help_ in benchmark.profiles.items():
        print(f"    profile {profile:<12} {help_}")
    for label, text in _details(benchmark, data).items():
        print(f"    {label:<20} {text}")


def _details(benchmark: Benchmark, data: Data | None) -> dict[str, str]:
    from snellen.runs.export import formats

    size = _size(benchmark, data)
    return {
        "version": benchmark.version,
        **({} if size is None else {"questions": f"{size:,}"}),
        **{f"--{name}": text for name, text in benchmark.options.items()},
        **{f"export {name}": format_.about for name, format_ in formats(benchmark).items()},
        **{label: text for label, text in benchmark.about.items() if label != "description"},
    }


def _size(benchmark: Benchmark, data: Data | None = None) -> int | None:
    """Return the number of samples, or None if it depends on missing data."""
    from snellen.benchmarks.base import Data

    try:
        return benchmark.size(data or Data())
    except SnellenError:
        return None


def _facts(benchmark: Benchmark, data: Data | None = None) -> dict[str, Any]:
    from snellen.runs.export import formats

    return {
        "name": benchmark.name,
        "version": benchmark.version,
        "size": _size(benchmark, data),
        "profiles": dict(benchmark.profiles),
        "options": dict(benchmark.options),
        "exports": list(formats(benchmark)),
        "restricted": benchmark.restricted,
        "about": dict(benchmark.about),
        "members": [getattr(member, "name", str(member)) for member in benchmark.members],
    }


def _list_runs(results: Path, benchmarks: Sequence[str], *, as_json: bool) -> None:
    from snellen.engine.resume import verified_meta
    from snellen.engine.run_folder import RunFolder
    from snellen.errors import RunError

    rows = []
    for path in sorted(results.glob("**/run_meta.json")):
        try:
            meta = verified_meta(RunFolder(path.parent))
        except RunError as error:  # one damaged run must not hide the others
            note(f"snellen: {error.message}")
            continue
        if not benchmarks or meta.spec.benchmark in benchmarks:
            rows.append((path.parent, meta))
    runs = _overviews(rows)
    if as_json:
        show_json({"runs": [_run_facts(run) for run in runs]})
        return
    if not rows:
        print(f"no runs{' of ' + ', '.join(benchmarks) if benchmarks else ''} under {results}/")
        for folder in filter(os.path.isdir, benchmarks):
            note(f"{folder} is a folder: snellen list --runs --results {shlex.quote(folder)} shows the runs in it.")
        return
    from snellen.runs.status import score_coverage
    from snellen.scoring.metric_text import legend

    table = new_table(None, ["run", "benchmark", "model", "state"], ["score", "answered", "coverage", "date"])
    priced = any(run.progress.totals.cost is not None for run in runs)
    if priced:
        table.add_column("cost, $", justify="right")
        table.add_column("per correct", justify="right")
    table.add_column("differs in")
    table.add_column("fingerprint", justify="right", no_wrap=True)
    for run in runs:
        progress = run.progress
        coverage = score_coverage(progress.coverage, run.headline)
        table.add_row(
            str(run.path),
            run.meta.spec.benchmark,
            run.meta.spec.model_with_adapter,
            progress.state,
            _score_cell(run.headline),
            _answered_cell(progress),
            "" if coverage is None else f"{coverage:.1%}",
            progress.date,
            *(_cost_cells(run) if priced else ()),
            run.settings,
            run.meta.fingerprint,
        )
    judged = (f"{run.path}: {run.other_judge}" for run in runs if run.other_judge)
    marks = legend(run.headline for run in runs if run.headline is not None)
    table.caption = "\n".join(filter(None, (marks, *judged))) or None
    show(table)
    for run in runs:
        if run.errors.failed:
            note(f"{run.path}: {run.errors.text}")


def _answered_cell(progress: Overview) -> str:
    totals = progress.totals
    of = "" if progress.questions is None else f" of {progress.questions:,}"
    return f"{totals.ok:,}{of}" + (f", {totals.refused:,} refused" if totals.refused else "")


def _score_cell(score: Metric | None) -> str:
    """Return the headline with its interval; a metric with a unit, such as a threshold, by its name too."""
    from snellen.scoring.metric_text import bracketed, mark

    if score is None or score.value is None:
        return "–"
    if score.unit == "fraction":
        return f"{score.value:.3f}{bracketed(score.ci95)}{mark(score.interval)}"
    name = score.name.removeprefix("threshold/")
    return f"{name} {score.value:,.3g} {score.unit}{bracketed(score.ci95, ',.3g')}{mark(score.interval)}"


def _cost_cells(run: ListedRun) -> tuple[str, str]:
    """Return the cells of a run's cost in dollars: in all, and for each correct answer."""
    from snellen.runs.costs import cost_per_correct, dollars_text, least_mark

    totals = run.progress.totals
    share = cost_per_correct(totals, run.headline)
    cost = "" if totals.cost is None else f"{least_mark(totals)}{totals.cost:.4f}"
    return cost, "" if share is None else dollars_text(share)


class ListedRun(NamedTuple):
    """A run in the list; `settings` are those in which it differs from others of its benchmark and model.

    `other_judge` says that published figures are judged by another model.
    """

    path: Path
    meta: RunMeta
    progress: Overview
    settings: str
    headline: Metric | None
    errors: RequestErrors
    other_judge: str


def _overviews(rows: Sequence[tuple[Path, RunMeta]]) -> list[ListedRun]:
    from snellen.engine.request_errors import RequestErrors
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.run import headline, load_run
    from snellen.runs.status import distinguishing, group_progress, overview

    runs = []
    for (path, meta), settings in zip(rows, distinguishing([meta for _, meta in rows]), strict=True):
        score, errors, groups, judge = None, RequestErrors(0, 0), None, ""
        try:
            run = load_run(path)
            score, errors, judge = headline(run), run.request_errors(), run.other_judge()
            meta, groups = run.sized_meta, group_progress(run)
            if run.unverified:
                note(f"note: {run.unverified}")
        except SnellenError as error:  # one run that cannot be scored must not hide the others
            note(f"snellen: {error.message}")
        runs.append(ListedRun(path, meta, overview(RunFolder(path), meta, groups), settings, score, errors, judge))
    return runs


def _run_facts(run: ListedRun) -> dict[str, Any]:
    from snellen.runs.costs import cost_per_correct

    meta, progress = run.meta, run.progress
    return {
        "path": str(run.path),
        "benchmark": meta.spec.benchmark,
        "model": meta.spec.model,
        "state": progress.state,
        "fingerprint": meta.fingerprint,
        "coverage": structs.asdict(meta.coverage),
        "not_there": meta.not_there,
        "totals": structs.asdict(progress.totals),
        "answered": progress.totals.done,
        "questions": progress.questions,
        "recorded_share": progress.coverage,
        "groups": None if progress.groups is None else progress.groups._asdict(),
        "date": progress.date or None,
        "settings": run.settings,
        "headline": run.headline,
        "cost_per_correct": cost_per_correct(progress.totals, run.headline),
        **({"other_judge": run.other_judge} if run.other_judge else {}),
        "failures": run.errors.as_json(),
    }


EASI = "easi"
"""The name of EASI's own tables, which are about many benchmarks."""


def shipped_tables(names: Sequence[str] = ()) -> Iterator[tuple[str, Published]]:
    """Yield tables, each once, with the benchmark that they are about, or `easi`; without names all of them."""
    from snellen.benchmarks import registry
    from snellen.benchmarks.spatial.reference import published, verification
    from snellen.benchmarks.table.entries import names as declared
    from snellen.features.published import published_more, published_tables

    every = [*(name for name in registry.names() if "/" not in name), *declared(), EASI]
    for name in names or dict.fromkeys(every):
        if name.startswith(registry.HUB) or Path(name, ".eval_results").is_dir() or name.endswith(".yaml"):
            from snellen.runs.interchange.hub_results import published_by_task

            yield from published_by_task(name)
            continue
        if name == EASI:
            tables = [*published.tables(), *(table for _, table in verification.by_benchmark())]
        else:
            # A column of EASI's table is shown by its own benchmark, and in the list by the whole table alone.
            tables = [table for table in registry.find(name).published if names or table.whole is None]
            tables += [*published_tables(), *published_more()] if name == "fgbmk" else []
            tables += [table for of, table in verification.by_benchmark() if names and of == name]
        yield from ((name, table) for table in tables)


def list_published(names: Sequence[str], *, as_json: bool) -> None:
    """Print the tables about the named benchmarks with their sources and notes; without names, one line a table."""
    found = list(shipped_tables(names))
    if as_json:
        show_json({"published": [_published_facts(name, table) for name, table in found]})
    elif names:
        for _, table in found:
            show(f"{table.title} ({table.source})", _rows(table), *(f"- {note}" for note in table.notes), "")
        if not found:
            print("no published table; `snellen list --published` shows which benchmarks have one")
    else:
        lines = new_table(None, ["benchmark", "table", "source"], ["rows", "columns"])
        for name, each in found:
            lines.add_row(name, each.title, each.source, str(len(each.rows)), str(len(each.columns)))
        lines.caption = "snellen list BENCHMARK --published shows the figures."
        show(lines)


def _rows(published: Published) -> Table:
    table = new_table(None, ["row"], published.columns)
    for row in published.rows:
        table.add_row(
            row.name, *("–" if value is None else published.text(at, value) for at, value in enumerate(row.values))
        )
    return table


def _published_facts(name: str, table: Published) -> dict[str, Any]:
    rows = [{"name": row.name, "kind": row.kind, "values": row.values} for row in table.rows]
    facts = {"benchmark": name, "title": table.title, "source": table.source, "profile": table.profile}
    lists = {"columns": table.columns, "metrics": table.metrics, "numbers": table.numbers, "notes": table.notes}
    return {**facts, **lists, "rows": rows}
