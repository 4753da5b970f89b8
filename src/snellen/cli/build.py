"""`snellen build`: make sets of questions from images and a taxonomy, and prove them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from snellen.cli.curate import curate
from snellen.text import comma_list

SOURCE, ASKED, DRAWN = "From what", "What is asked", "How it is drawn and written"

group = typer.Typer(
    help="Make a benchmark from images and a taxonomy, and prove that it is balanced and leaks nothing.",
    no_args_is_help=True,
)
group.command()(curate)


@group.command()
def questions(
    out: Annotated[Path, typer.Option("--out", help="The folder to write; it must not exist, or be empty.")],
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder, zip or tar of the images. Without --rows, with a folder for each class.",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="CSV or TSV of image and label; the last comma or tab parts them.", rich_help_panel=SOURCE),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Option(help="Names of classes, one a line, where the labels are indices from 0.", rich_help_panel=SOURCE),
    ] = None,
    taxonomy: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="CSV or TSV with a column for each level (or columns name and parent), Newick, JSON tree, Darwin Core "
            "archive; or folders, inaturalist (both by the images' folders), last-word (of the names: a pseudo-genus).",
            rich_help_panel=SOURCE,
        ),
    ] = None,
    attributes: Annotated[
        Path | None, typer.Option(help="CSV or TSV with image, attribute, value.", rich_help_panel=SOURCE)
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help=".npz for --negatives visual: vectors and classes, or features and labels.", rich_help_panel=SOURCE
        ),
    ] = None,
    homonyms: Annotated[
        Literal["error", "qualify"],
        typer.Option(help="One name under two parents: refuse it, or write `name (parent)`.", rich_help_panel=SOURCE),
    ] = "error",
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C",
            help="The taxonomy's levels, coarse to fine.",
            show_default="as the taxonomy has them",
            rich_help_panel=ASKED,
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Ask at these levels only.", show_default="all", rich_help_panel=ASKED),
    ] = None,
    kinds: Annotated[
        str,
        typer.Option(metavar="A,B", help="Of truth, choice, short, bias, attributes.", rich_help_panel=ASKED),
    ] = "truth,choice,short",
    options: Annotated[int, typer.Option(min=2, help="Options of a choice.", rich_help_panel=ASKED)] = 4,
    noun: Annotated[
        str, typer.Option(help="What the thing in the picture is called.", rich_help_panel=ASKED)
    ] = "object",
    templates: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="The wording: default, chart, or a TOML file.", rich_help_panel=ASKED),
    ] = "default",
    negatives: Annotated[
        Literal["sibling", "cousin", "random", "visual"],
        typer.Option(
            help="Which wrong classes come first; the rest is filled up from further away.", rich_help_panel=DRAWN
        ),
    ] = "sibling",
    per_class: Annotated[
        int | None,
        typer.Option(min=1, help="Images that a class has at most, at each level.", rich_help_panel=DRAWN),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seeds all that is drawn.", rich_help_panel=DRAWN)] = 0,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes; the files do not depend on it.", rich_help_panel=DRAWN)
    ] = 1,
    copy_images: Annotated[
        bool,
        typer.Option("--copy-images", help="Copy the images under neutral names, without Exif.", rich_help_panel=DRAWN),
    ] = False,
    name: Annotated[
        str, typer.Option(help="What the set is called.", show_default="the folder's name", rich_help_panel=DRAWN)
    ] = "",
    version: Annotated[
        str, typer.Option(help="Of the set; raise it when you build anew.", rich_help_panel=DRAWN)
    ] = "1",
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as one JSON object.")] = False,
) -> None:
    """Make a benchmark from images, labels and a taxonomy.

    The folder is one that `snellen run` takes. Everything is checked before anything is written, and what is wrong is
    named with its file and row.
    """
    from snellen.cli.console import show, show_json
    from snellen.questions.generate import Settings, generate

    manifest = generate(
        Settings(
            out=out,
            images=images,
            rows=rows,
            classes=classes,
            taxonomy=taxonomy,
            levels=_listed(levels),
            at=_listed(at),
            kinds=_listed(kinds) or (),
            attributes=attributes,
            negatives=negatives,
            features=features,
            noun=noun,
            templates=templates,
            options=options,
            per_class=per_class,
            homonyms=homonyms,
            seed=seed,
            workers=workers,
            copy_images=copy_images,
            name=name,
            version=version,
        )
    )
    if as_json:
        show_json(manifest)
        return
    from rich.table import Table

    table = Table("questions", "asks for", "about", "file", title=f"{manifest.name}: {manifest.questions:,} questions")
    table.columns[0].justify = "right"
    for part in manifest.parts:
        table.add_row(f"{part.questions:,}", part.ask, part.level, part.file)
    show(table, *manifest.notes, f"In {out}. Prove it: snellen build check {out}")


@group.command()
def check(
    folder: Annotated[Path, typer.Argument(help="The folder of a built set.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Prove that a set is balanced, that its answers are right and that nothing gives them away.

    Everything is counted anew from the files. The exit status is 1 where a claim does not hold.
    """
    from snellen.cli.console import show, show_json
    from snellen.questions.verify import check as prove

    report = prove(folder)
    if as_json:
        import msgspec

        show_json({**msgspec.to_builtins(report), "holds": report.holds})
        raise typer.Exit(0 if report.holds else 1)
    from rich.table import Table

    parts = Table("part", "questions", "yes", "places of the right option", "siblings", "cousins", title=report.name)
    for part in report.parts:
        shares = (f"{share:.1%}" if share is not None else "-" for share in (part.sibling_share, part.cousin_share))
        places = " ".join(f"{count:,}" for count in part.places) or "-"
        parts.add_row(part.part, f"{part.questions:,}", "-" if part.yes is None else f"{part.yes:,}", places, *shares)
    claims = Table("claim", "cases", "faults", "what it says")
    for claim in report.claims:
        claims.add_row(claim.name, f"{claim.cases:,}", f"{claim.faults:,}", claim.text)
    faults = [f"{claim.name}: {example}" for claim in report.claims for example in claim.examples]
    show(parts, claims, *faults, "Everything holds." if report.holds else "Something does not hold.")
    raise typer.Exit(0 if report.holds else 1)


def _listed(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(comma_list(text))
