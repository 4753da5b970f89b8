"""snellen features probe"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from snellen.cli import options as given
from snellen.cli.features.shared import AsJson, Output, Store, group, numbers, of_store, tell
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.features.store import Features

GRID = "The grid of heads"


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
        Literal["logistic", "ridge", "lda", "heads"],
        typer.Option(
            help="logistic: L-BFGS to the minimum; ridge and lda: closed forms, the quick look; heads: DINOv2's grid."
        ),
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
    seed: Annotated[int, typer.Option(help="Of the rows held out, of the draws of --shots, of heads.")] = 0,
    folds: Annotated[int, typer.Option(min=2, help="Of the cross-validation of a store without test split.")] = 5,
    shots: Annotated[
        str | None, typer.Option(metavar="LIST", help="Few-shot: training rows a class, by comma.", show_default="all")
    ] = None,
    tries: Annotated[int, typer.Option(min=1, help="Draws of --shots.")] = 5,
    epochs: Annotated[
        float | None,
        typer.Option(help="Passes over train.", show_default="the recipe's 12,500 steps", rich_help_panel=GRID),
    ] = None,
    profile: Annotated[
        Literal["standard", "fgbmk-legacy"],
        typer.Option(help="fgbmk-legacy: 24 heads, Adam, and the best by test accuracy.", rich_help_panel=GRID),
    ] = "standard",
    device: Annotated[str, typer.Option(help="As torch names it.", rich_help_panel=GRID)] = "cpu",
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

    from snellen.features.encoder_identity import training_identity
    from snellen.features.probes import probe as measure
    from snellen.features.store import open_store
    from snellen.types import Metric

    if method == "heads" or profile == "fgbmk-legacy":
        if c is not None or standardise != "none" or shots is not None or per_class:
            raise UsageError("heads take no --c, --standardise, --shots or --per-class.", "Leave these away.")
        _heads(store, output, train or "train", test or "test", profile, epochs, seed, device, save, as_json)
        return
    if epochs is not None:
        raise UsageError("--epochs is of the grid of heads.", "Add --method heads.")
    features = open_store(store, output)
    if train is None and test is None:
        train, test = features.halves or (None, None)
    if save and shots is None and (train is None or test is None):
        raise UsageError("--save needs one layer, and cross-validation trains several.", "Name --train and --test.")
    if shots is not None:
        if save or per_class:
            raise UsageError("--shots trains many layers.", "Leave --save and --per-class away.")
        if train is None or test is None:
            raise UsageError("--shots draws rows of one split and tests on another.", "Name --train and --test.")
        how: dict[str, Any] = {"method": method, "standardise": standardise, "share": held_out}
        how["strengths"] = None if c is None else _strengths(c)
        _few_shot(store, features, train, test, numbers(shots, "--shots"), tries, seed, how, as_json)
        return
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
        trained_on = {"store": str(store), "identity": training_identity(features)}
        file = replace(found.head, settings={**settings, **trained_on}).save(Path(store))
        notes.append(f"The layer was written to {file}.")
    tell(store, "probe", settings, metrics, notes, as_json)


def _heads(
    store: Path,
    output: str | None,
    train: str,
    test: str,
    profile: str,
    epochs: float | None,
    seed: int,
    device: str,
    save: bool,
    as_json: bool,
) -> None:
    from msgspec import to_builtins

    from snellen.features.encoder_identity import training_identity
    from snellen.features.probes import grid_probe as grids
    from snellen.features.probes.dinov2_grid import DINOV2, FGBMK_LEGACY

    recipe = FGBMK_LEGACY if profile == "fgbmk-legacy" else DINOV2
    inputs = grids.find_inputs(store, recipe, output)
    found = grids.grid_probe(inputs, recipe, train=train, test=test, epochs=epochs, seed=seed, device=device)
    settings = {"train": train, "test": test, **to_builtins(found.settings)}
    notes = [*of_store(inputs.features), *found.notes()]
    if save:
        of = training_identity(inputs.features)
        file = grids.head_for_saving(found, train=train, test=test, store=str(store), identity=of).save(Path(store))
        notes.append(f"The layer was written to {file}; it takes {found.settings.output}.")
    if not as_json:
        del settings["trials"]
    tell(store, "probe", settings, found.metrics(), notes, as_json)


def _few_shot(
    store: Path,
    features: Features,
    train: str,
    test: str,
    ns: list[int],
    tries: int,
    seed: int,
    how: dict[str, Any],
    as_json: bool,
) -> None:
    from snellen.features.probes import NOT_CHOSEN
    from snellen.features.probes.few_shot import few_shot
    from snellen.features.ranking.relevance import select_rows
    from snellen.types import Metric

    count = len(features.values)
    into, tested = (select_rows(one, features.split, count, what) for one, what in ((train, "train"), (test, "test")))
    found = few_shot(features.values, features.labels, into, tested, ns=ns, tries=tries, seed=seed, **how)
    metrics = [
        Metric(f"accuracy/{one.n}-shot", one.mean, len(tested), one.ci95, chance=1.0 / one.classes) for one in found
    ]
    settings = {"output": features.name, "train": train, "test": test, **how, "tries": tries, "seed": seed}
    settings["accuracies"] = {str(one.n): list(one.accuracies) for one in found}
    settings["sd"] = {str(one.n): one.sd for one in found}
    notes = of_store(features)
    for one in found:
        if one.short:
            notes.append(f"{one.n}-shot: {one.short:,} classes have fewer training rows and gave all.")
        if one.not_chosen:
            notes.append(f"{one.n}-shot, {one.not_chosen} of {tries} tries: {NOT_CHOSEN}")
    if found and found[0].unseen:
        notes.append(f"{found[0].unseen:,} test rows are of classes without a training row; they count as wrong.")
    tell(store, "probe", settings, metrics, notes, as_json)


def _strengths(text: str) -> list[float]:
    try:
        found = [float(number) for number in comma_list(text)]
    except ValueError:
        found = []
    if not found:
        raise UsageError(f"--c {text}: numbers by comma were expected", "As in --c 0.01,1,100.")
    return found
