"""Entries of the catalogue: benchmarks that are declared in a TOML of this package, without code of their own."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files
from typing import Any, Literal

from msgspec import Struct, structs

from snellen.benchmarks.base import Published, PublishedRow
from snellen.benchmarks.registry import entry_names
from snellen.benchmarks.table.declaration import Declaration, Figure, read_declaration
from snellen.benchmarks.table.official import address_of, local_table

FOLDER = "catalogue"
SUFFIX = ".toml"
PER_CENT = 100.0
CHANCE_NAMES = ("Random",)
HUMAN_NAMES = ("Human",)
AUTHORS: Literal["authors"] = "authors"


class EntryFacts(Struct, frozen=True):
    """Facts about an entry, for lists.

    Attributes:
        name: as users type it.
        title: in words.
        probes: what it tests.
        rows: how many rows it has; None where that is not known.
        metric: the name of the headline.
        licence: of the data; UNKNOWN where no source says it.
        gated: its terms must be accepted on the hub.
        data: how the data comes.
        url: its home.
        follows: whose rules it follows, with the commit.
    """

    name: str
    title: str
    probes: str
    rows: int | None
    metric: str
    licence: str
    gated: bool
    data: str
    url: str
    follows: str


def names() -> tuple[str, ...]:
    """Return the names of all entries, in alphabetical order."""
    return tuple(sorted(entry_names()))


@cache
def entry(name: str) -> Declaration:
    """Return the declaration of an entry. Raises KeyError for any other name."""
    if name not in names():
        raise KeyError(name)
    with as_file(files("snellen.benchmarks.table") / FOLDER / f"{name}{SUFFIX}") as path:
        return read_declaration(path)


def headline(declared: Declaration) -> str:
    """Return the name of the headline figure; empty without reports."""
    return next((report.names[0] for report in declared.report if report.headline), "")


def facts(declared: Declaration) -> EntryFacts:
    """Return the facts of an entry; the files of VLMEvalKit's folders are looked at, and nothing is fetched."""
    return EntryFacts(
        declared.name,
        declared.title,
        declared.probes,
        declared.source.rows,
        headline(declared),
        declared.licence,
        declared.gated,
        how_data_comes(declared),
        declared.url,
        declared.follows,
    )


def how_data_comes(declared: Declaration) -> str:
    """Return in words where the data of an entry comes from."""
    source = declared.source
    if source.kind == "hub":
        return f"hf:{source.hub}"
    if not address_of(source):
        return "--data FILE"
    path = local_table(source)
    fetched = "fetched" if path is None else str(path)
    image = declared.rows.get("image")
    return f"{fetched}, --images FOLDER" if getattr(image, "folder", False) else fetched


def all_facts() -> list[EntryFacts]:
    """Return the facts of every entry, in alphabetical order."""
    return [facts(entry(name)) for name in names()]


def headline_unit(declared: Declaration) -> tuple[str, str]:
    """Return the name of the headline figure, and whether it is a `fraction` or counts `points`."""
    report = next(report for report in declared.report if report.headline)
    is_points = report.sum_over or report.add or report.scale != 1.0 or "count" in report.metrics
    return report.names[0], "points" if is_points else "fraction"


def published(declared: Declaration) -> tuple[Published, ...]:
    """Return the published figures of the headline, one table for each harness."""
    if not declared.figure or not (declared.report or declared.is_set):
        return ()
    name, unit = headline_unit(declared) if declared.report else ("overall", "fraction")
    scale = PER_CENT if unit == "fraction" else 1.0
    tables = []
    for by in dict.fromkeys(figure.by for figure in declared.figure):
        figures = sorted((figure for figure in declared.figure if figure.by == by), key=_kind_order)
        sources = dict.fromkeys(f"{figure.source}{f', {figure.date}' if figure.date else ''}" for figure in figures)
        rows = tuple(PublishedRow(figure.model, _kind(figure), (figure.value / scale,)) for figure in figures)
        tables.append(
            Published(
                title=f"{declared.title}, as published by {by}",
                source="; ".join(sources),
                columns=(name,),
                metrics=(name,),
                profile=_profile(declared, by) or "strict",
                rows=rows,
                numbers=() if unit == "fraction" else (name,),
                notes=("harness, prompts and data revision differ: a difference of a few points is no finding",),
                by=by,
                settings=tuple(_settings(declared, by).items()),
            )
        )
    return tuple(tables)


def _settings(declared: Declaration, by: str) -> dict[str, Any]:
    """Return what is known of the settings of a harness's figures, by name."""
    known: dict[str, Any] = {} if declared.source.rows is None else {"questions": declared.source.rows}
    if profile := _profile(declared, by):
        known["profile"] = profile
    if _whose(by).startswith(AUTHORS) and declared.score is not None and declared.score.judge.published:
        known["judge"] = declared.score.judge.published
    for protocol in declared.protocol:
        if _whose(by).startswith(_whose(protocol.by)):
            stated = structs.asdict(protocol)
            known |= {name: value for name, value in stated.items() if name != "by" and value not in (None, "")}
    return known


def _whose(by: str) -> str:
    return by.strip().lower().removeprefix("the ")


def _profile(declared: Declaration, by: str) -> str:
    """Return the profile by whose rules figures were scored; empty where nobody says."""
    if "VLMEvalKit" in by:
        return "vlmevalkit"
    return AUTHORS if _whose(by).startswith(AUTHORS) and declared.score and declared.score.has(AUTHORS) else ""


def _kind(figure: Figure) -> str:
    return "chance" if figure.model in CHANCE_NAMES else "human" if figure.model in HUMAN_NAMES else "model"


def _kind_order(figure: Figure) -> int:
    return ("chance", "human", "model").index(_kind(figure))
