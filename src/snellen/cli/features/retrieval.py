"""snellen features retrieval, knn"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from snellen.cli.features.shared import AsJson, Output, Store, Threads, group, numbers, of_store, tell
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.features.store import Features


@group.command()
def retrieval(
    store: Store,
    output: Output = None,
    queries: Annotated[
        str | None, typer.Option(metavar="SPLIT", help="Rows that ask.", show_default="test, else all")
    ] = None,
    gallery: Annotated[
        str | None,
        typer.Option(metavar="SPLIT", help="Rows that are searched.", show_default="train, else those that ask"),
    ] = None,
    leave_one_out: Annotated[
        bool,
        typer.Option("--leave-one-out", help="Each row asks all others: of --queries, or of the store."),
    ] = False,
    similarity: Annotated[Literal["cosine", "l2"], typer.Option(help="How near two features are.")] = "cosine",
    ties: Annotated[
        Literal["pessimistic", "optimistic", "index"],
        typer.Option(help="Which comes first among items that are equally near."),
    ] = "pessimistic",
    k: Annotated[str, typer.Option("--k", metavar="LIST", help="Depths of recall@k, precision@k and map@k.")] = (
        "1,5,10"
    ),
    ap: Annotated[Literal["step", "trapezoid"], typer.Option(help="Average precision of the full ranking.")] = "step",
    denominator: Annotated[
        Literal["R", "min(R,k)", "retrieved", "hits"], typer.Option(help="What map@k is divided by.")
    ] = "min(R,k)",
    profile: Annotated[
        Literal["standard", "fgbmk-legacy"],
        typer.Option(help="fgbmk-legacy: the authors' figure over ranks of classes, comparable to nothing else."),
    ] = "standard",
    interval: Annotated[
        Literal["class", "query"],
        typer.Option(help="What might have been drawn otherwise: whole classes, or queries of the same classes."),
    ] = "class",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """How early pictures of the same class come when a gallery is sorted by similarity: exact, over all of it.

    Where a store has the splits train and test, test asks and train is searched; else each row asks all others.
    """
    from msgspec import to_builtins

    from snellen.features.retrieval import retrieval as measure
    from snellen.features.store import open_store

    features = open_store(store, output)
    asking, searched = _protocol(features, queries, gallery, leave_one_out)
    if profile == "fgbmk-legacy":
        from snellen.features.ranking.fgbmk_class_rank import class_rank

        legacy = class_rank(
            features.values,
            features.labels,
            gallery=searched or "train",
            queries=asking or "test",
            split=features.split,
            ties=ties,
            threads=threads,
        )
        told = {"profile": profile, "output": features.name, "queries": asking, "gallery": searched, "ties": ties}
        tell(store, "retrieval", told, legacy.metrics(interval), of_store(features), as_json)
        return
    found = measure(
        features.values,
        features.labels,
        queries=asking,
        gallery=searched,
        split=features.split,
        similarity=similarity,
        ties=ties,
        ks=numbers(k, "--k"),
        ap=ap,
        denominator=denominator,
        threads=threads,
    )
    settings = {
        "output": features.name,
        "queries": asking or "all rows",
        "gallery": searched or "all rows",
        **to_builtins(found.settings),
        "skipped_queries": found.skipped,
        "skipped_classes": found.skipped_classes,
        "interval": interval,
    }
    tell(store, "retrieval", settings, found.metrics(interval), [*of_store(features), *found.notes()], as_json)


@group.command()
def knn(
    store: Store,
    output: Output = None,
    train: Annotated[str, typer.Option(metavar="SPLIT", help="Rows whose classes are known.")] = "train",
    queries: Annotated[str, typer.Option(metavar="SPLIT", help="Rows to classify.")] = "test",
    k: Annotated[str, typer.Option("--k", metavar="LIST", help="How many neighbours vote.")] = "10,20,100,200",
    temperature: Annotated[
        str, typer.Option(metavar="LIST", help="T of the weighted vote; the first names the plain metrics.")
    ] = "0.07",
    vote: Annotated[
        Literal["weighted", "majority"], typer.Option(help="Weights exp(similarity / T), or one vote each.")
    ] = "weighted",
    similarity: Annotated[Literal["cosine", "l2"], typer.Option(help="How near two features are.")] = "cosine",
    ties: Annotated[
        Literal["pessimistic", "optimistic", "index"], typer.Option(help="Who wins among equals.")
    ] = "pessimistic",
    shots: Annotated[
        int | None, typer.Option(min=1, help="Few-shot: training rows a class.", show_default="all")
    ] = None,
    seeds: Annotated[str, typer.Option(metavar="LIST", help="Of the draws of --shots.")] = "0,1,2",
    interval: Annotated[
        Literal["class", "query"],
        typer.Option(help="What might have been drawn otherwise: whole classes, or queries of the same classes."),
    ] = "class",
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Classify the rows of one split by the vote of their nearest rows of another: DINOv2's k-NN evaluation."""
    from msgspec import to_builtins

    from snellen.features.knn import knn as measure
    from snellen.features.store import open_store

    features = open_store(store, output)
    try:
        temperatures = [float(one) for one in temperature.split(",")]
    except ValueError:
        raise UsageError(f"--temperature {temperature}: numbers by comma were expected", "As in 0.07,0.2.") from None
    found = measure(
        features.values,
        features.labels,
        train=train,
        queries=queries,
        split=features.split,
        ks=numbers(k, "--k"),
        temperatures=temperatures,
        similarity=similarity,
        vote=vote,
        ties=ties,
        n_per_class=shots,
        seeds=(0,) if shots is None else numbers(seeds, "--seeds"),
        threads=threads,
    )
    settings = {"output": features.name, "train": train, "queries": queries, **to_builtins(found.settings)}
    settings["interval"] = interval
    tell(store, "knn", settings, found.metrics(interval), [*of_store(features), *found.notes()], as_json)


def _protocol(
    features: Features, queries: str | None, gallery: str | None, leave_one_out: bool
) -> tuple[str | None, str | None]:
    """(queries, gallery) as names of splits; None for all rows."""
    if leave_one_out:
        if gallery not in (None, queries):
            raise UsageError("--leave-one-out searches the rows that ask.", "Leave --gallery away.")
        return queries, queries
    if queries is None and gallery is None and features.halves is not None:
        searched, asking = features.halves
        return asking, searched
    return queries, queries if gallery is None else gallery
