"""snellen features probe"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from snellen.cli import options as given
from snellen.cli.features.shared import AsJson, Output, Store, group, of_store, tell
from snellen.errors import UsageError


@group.command()
def probe(
    store: Store,
    output: Output = None,
    train: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Rows to train on.", show_default="train, where there is one")
    ] = None,
    test: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Rows to test on.", show_default="test, where there is one")
    ] = None,
    method: Annotated[
        Literal["logistic", "ridge", "lda"],
        typer.Option(help="logistic: L-BFGS to the minimum; ridge and lda: closed forms, the quick look."),
    ] = "logistic",
    standardise: Annotated[
        Literal["none", "l2", "standardise"], typer.Option(help="What is done to features first.")
    ] = "none",
    c: Annotated[
        str | None,
        typer.Option(
            "--c",
            metavar="LIST",
            help="Values of C, or penalties of ridge and lda, to choose from; one is taken as it is.",
            show_default="45 from 1e-6 to 1e5",
        ),
    ] = None,
    held_out: Annotated[float, typer.Option(metavar="SHARE", help="Share of train that chooses among several.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the rows held out.")] = 0,
    folds: Annotated[int, typer.Option(min=2, help="Of the cross-validation of a store without test split.")] = 5,
    per_class: Annotated[
        bool, typer.Option("--per-class", help="Each class's accuracy too.", rich_help_panel=given.SHOWING)
    ] = False,
    save: Annotated[bool, typer.Option("--save", help="Write the layer to STORE/probe.npz.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a linear layer on the features of one split, test it on another.

    The strength of the penalty is chosen on a held-out part of train, never on test. Without the splits train and
    test, every row is tested once by stratified cross-validation.
    """
    from msgspec import to_builtins
    from msgspec.structs import replace

    from snellen.features.probe import probe as measure
    from snellen.features.store import open_store
    from snellen.types import Metric

    features = open_store(store, output)
    if train is None and test is None and {"train", "test"} <= features.splits.keys():
        train, test = "train", "test"
    found = measure(
        features.values,
        features.labels,
        train_rows=train,
        test_rows=test,
        split=features.split,
        method=method,
        standardise=standardise,
        strengths=None if c is None else _strengths(c),
        share=held_out,
        seed=seed,
        folds=folds,
    )
    metrics = found.metrics()
    if per_class:
        metrics += [Metric(f"accuracy/class/{one.name}", one.accuracy, one.test, one.ci95) for one in found.per_class()]
    notes = [*of_store(features), *found.notes()]
    settings = {"output": features.name, "train": train, "test": test, **to_builtins(found.settings)}
    if save:
        if found.head is None:
            raise UsageError("--save needs one layer, and cross-validation trains several.", "Name --train and --test.")
        file = replace(found.head, settings={**settings, "store": str(store)}).save(Path(store))
        notes.append(f"The layer was written to {file}.")
    tell(store, "probe", settings, metrics, notes, as_json)


def _strengths(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",") if one.strip()]
    except ValueError:
        raise UsageError(f"--c {text}: numbers by comma were expected", "As in --c 0.01,1,100.") from None
