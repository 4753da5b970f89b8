"""snellen build: benchmarks from images and a taxonomy, and the proof of their claims"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from snellen.cli.curate import curate
from snellen.cli.option_parsing import Commands, expand_options
from snellen.text import comma_list

SOURCE, ASKED, DRAWN = "Input", "Questions", "Sampling and output"

group = Commands(
    help="Make a benchmark from images and a taxonomy, and prove that it is balanced and leaks nothing.",
    no_args_is_help=True,
)
group.command()(curate)


@dataclass(frozen=True)
class BuildSourceOptions:
    """Images, labels and taxonomy of a set of questions."""

    PANEL: ClassVar[str] = SOURCE

    images: Annotated[
        Path | None, typer.Option(help="Folder, zip or tar of the images; without --rows it has a folder per class.")
    ] = None
    rows: Annotated[
        Path | None, typer.Option(help="CSV or TSV of image and label, split at the last comma or tab.")
    ] = None
    classes: Annotated[
        Path | None, typer.Option(help="Class names, one per line, if the labels are indices from 0.")
    ] = None
    taxonomy: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="CSV or TSV with a column for each level (or columns name and parent), Newick, JSON tree, Darwin Core "
            "archive; or folders, inaturalist (both by the images' folders), last-word (of the names: a pseudo-genus).",
        ),
    ] = None
    attributes: Annotated[Path | None, typer.Option(help="CSV or TSV with image, attribute, value.")] = None
    features: Annotated[
        Path | None, typer.Option(help=".npz for --negatives visual: vectors and classes, or features and labels.")
    ] = None
    homonyms: Annotated[
        Literal["error", "qualify"],
        typer.Option(help="One name under two parents: refuse it, or write `name (parent)`."),
    ] = "error"


@dataclass(frozen=True)
class QuestionOptions:
    """Levels, kinds and wording of the questions."""

    PANEL: ClassVar[str] = ASKED

    levels: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C", help="Levels of the taxonomy, coarse to fine.", show_default="those of the taxonomy"
        ),
    ] = None
    at: Annotated[
        str | None, typer.Option(metavar="A,B", help="Generate questions at these levels only.", show_default="all")
    ] = None
    kinds: Annotated[
        str, typer.Option(metavar="A,B", help="Kinds of questions: truth, choice, short, bias, attributes.")
    ] = "truth,choice,short"
    options: Annotated[int, typer.Option(min=2, help="Number of options of a choice question.")] = 4
    noun: Annotated[str, typer.Option(help="Word for the depicted object in the questions.")] = "object"
    templates: Annotated[str, typer.Option(metavar="NAME|FILE", help="Wording: default, chart, or a TOML file.")] = (
        "default"
    )


@dataclass(frozen=True)
class SamplingOptions:
    """Sampling of images and distractors, and the written files."""

    PANEL: ClassVar[str] = DRAWN

    negatives: Annotated[
        Literal["sibling", "cousin", "random", "visual"],
        typer.Option(help="Preferred distractor classes; the rest is filled from further away."),
    ] = "sibling"
    per_class: Annotated[int | None, typer.Option(min=1, help="Maximum images per class at each level.")] = None
    seed: Annotated[int, typer.Option(help="Seed of all random draws.")] = 0
    workers: Annotated[int, typer.Option(min=1, help="Number of processes; it does not change the files.")] = 1
    copy_images: Annotated[
        bool, typer.Option("--copy-images", help="Copy the images under neutral names, without Exif.")
    ] = False
    name: Annotated[str, typer.Option(help="Name of the benchmark.", show_default="the folder's name")] = ""
    version: Annotated[str, typer.Option(help="Version of the benchmark; raise it when you rebuild.")] = "1"


@group.command()
@expand_options
def questions(
    out: Annotated[Path, typer.Option("--out", help="Folder to write; it must not exist, or be empty.")],
    source: BuildSourceOptions,
    wording: QuestionOptions,
    sampling: SamplingOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as one JSON object.")] = False,
) -> None:
    """Make a benchmark from images, labels and a taxonomy.

    `snellen run` accepts the folder. Everything is checked before anything is written; faults are reported with file and
    row.
    """
    from snellen.cli.console import show, show_json
    from snellen.questions.generate import BuildSettings, generate

    manifest = generate(
        BuildSettings(
            out=out,
            images=source.images,
            rows=source.rows,
            classes=source.classes,
            taxonomy=source.taxonomy,
            levels=_words(wording.levels),
            at=_words(wording.at),
            kinds=_words(wording.kinds) or (),
            attributes=source.attributes,
            negatives=sampling.negatives,
            features=source.features,
            noun=wording.noun,
            templates=wording.templates,
            options=wording.options,
            per_class=sampling.per_class,
            homonyms=source.homonyms,
            seed=sampling.seed,
            workers=sampling.workers,
            copy_images=sampling.copy_images,
            name=sampling.name,
            version=sampling.version,
        )
    )
    if as_json:
        show_json(manifest)
        return
    from rich.table import Table

    table = Table("questions", "kind", "level", "file", title=f"{manifest.name}: {manifest.questions:,} questions")
    table.columns[0].justify = "right"
    for part in manifest.parts:
        table.add_row(f"{part.questions:,}", part.ask, part.level, part.file)
    show(table, *manifest.notes, f"In {out}. Check it: snellen build check {out}")


@group.command()
def check(
    folder: Annotated[Path, typer.Argument(help="Folder of a built benchmark.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Prove that a benchmark is balanced, that its answers are correct and that nothing reveals them.

    Everything is recounted from the files. The exit status is 1 if a claim does not hold.
    """
    from snellen.cli.console import show, show_json
    from snellen.questions.verify import verify_set

    report = verify_set(folder)
    if as_json:
        import msgspec

        show_json({**msgspec.to_builtins(report), "holds": report.holds})
        raise typer.Exit(0 if report.holds else 1)
    from rich.table import Table

    parts = Table(
        "part", "questions", "yes", "positions of the correct option", "siblings", "cousins", title=report.name
    )
    for part in report.parts:
        shares = (f"{share:.1%}" if share is not None else "-" for share in (part.sibling_share, part.cousin_share))
        places = " ".join(f"{count:,}" for count in part.places) or "-"
        parts.add_row(part.part, f"{part.questions:,}", "-" if part.yes is None else f"{part.yes:,}", places, *shares)
    claims = Table("claim", "cases", "faults", "statement")
    for claim in report.claims:
        claims.add_row(claim.name, f"{claim.cases:,}", f"{claim.faults:,}", claim.text)
    faults = [f"{claim.name}: {example}" for claim in report.claims for example in claim.examples]
    show(parts, claims, *faults, "All claims hold." if report.holds else "Not all claims hold.")
    raise typer.Exit(0 if report.holds else 1)


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(comma_list(text))
