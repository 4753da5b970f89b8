"""snellen features retrieval, knn"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from snellen.cli import options as shared
from snellen.cli.features.shared import (
    AgainstOptions,
    IntervalBy,
    Output,
    Similarity,
    Store,
    SweepOptions,
    Threads,
    compare_results,
    group,
    numbers,
    open_others,
    show_result,
    store_names,
    store_notes,
    sweep,
)
from snellen.cli.option_parsing import option
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.features.knn import Knn
    from snellen.features.retrieval import Retrieval
    from snellen.features.store import Features
    from snellen.types import Metric


ClassMean = Annotated[bool, option("Report each metric as a mean over classes too: NAME/class-mean.")]


@dataclass(frozen=True)
class RetrievalRows:
    """Rows that query and rows that are searched."""

    queries: str | None = option("Rows that query.", value="SPLIT", said="test, else all")
    gallery: str | None = option("Rows that are searched.", value="SPLIT", said="train, else the queries")
    leave_one_out: bool = option("Each row queries all others: of --queries, or of the store.", False)
    junk: Path | None = option(
        'Items removed from the ranking of single queries: JSON {"query id": ["item id"]} or CSV query,item.',
        value="FILE",
    )


@dataclass(frozen=True)
class RankingOptions:
    """Similarity, ties and metrics of a ranking."""

    similarity: Similarity = "cosine"
    ties: Literal["pessimistic", "optimistic", "index"] = option("Order of items with equal similarity.", "pessimistic")
    k: str = option("Depths of recall@k, precision@k, map@k and r_recall@k.", "1,5,10", value="LIST")
    ap: Literal["step", "trapezoid"] = option("Average precision of the full ranking.", "step")
    denominator: Literal["R", "min(R,k)", "retrieved", "hits"] = option("Denominator of map@k.", "min(R,k)")
    protocol: Literal["standard", "fgbmk-legacy"] = option(
        "fgbmk-legacy: the authors' metric over ranks of classes, comparable only to itself.",
        "standard",
        names=("--protocol", "--profile"),
    )
    interval: IntervalBy = "class"
    class_mean: ClassMean = False
    uniformity: bool = option(
        "Also report uniformity and class_alignment of the queries on the unit sphere (Wang and Isola 2020).", False
    )


def _class_ranks(
    store: Path,
    features: Features,
    queries: str | None,
    gallery: str | None,
    ranking: RankingOptions,
    threads: int | None,
    as_json: bool,
) -> None:
    """Print the authors' metric over ranks of classes (--protocol fgbmk-legacy)."""
    from snellen.features.published import published_figures
    from snellen.features.ranking.fgbmk_class_rank import class_rank

    legacy = class_rank(
        features.values,
        features.labels,
        gallery=gallery or "train",
        queries=queries or "test",
        split=features.split,
        ties=ranking.ties,
        threads=threads,
    )
    settings: dict[str, Any] = {"profile": ranking.protocol, "output": features.name}
    settings |= {"queries": queries, "gallery": gallery, "ties": ranking.ties}
    published = published_figures(features, "retrieval")
    metrics = legacy.metrics(ranking.interval)
    show_result(store, "retrieval", settings, metrics, store_notes(features), as_json, published)


@group.command()
def retrieval(
    store: Store,
    *,
    output: Output = None,
    rows: RetrievalRows,
    ranking: RankingOptions,
    comparison: AgainstOptions,
    sweeps: SweepOptions,
    threads: Threads = None,
    as_json: shared.JsonResult = False,
) -> None:
    """Measure how early images of the same class rank when the whole gallery is sorted by similarity.

    In a store with the splits train and test, test queries train; otherwise each row queries all others.
    """
    from msgspec import to_builtins

    from snellen.features.published import published_figures
    from snellen.features.retrieval import retrieval as rank_gallery
    from snellen.features.store import open_store

    features = open_store(store, output)
    queries, gallery = _protocol(features, rows.queries, rows.gallery, rows.leave_one_out)
    if ranking.protocol == "fgbmk-legacy":
        if rows.junk is not None or ranking.class_mean or comparison.against or sweeps.layers or sweeps.curve:
            raise UsageError(
                "fgbmk-legacy takes no --junk, --class-mean, --against, --layers or --curve.", "Omit these options."
            )
        _class_ranks(store, features, queries, gallery, ranking, threads, as_json)
        return
    compared, notes = open_others(features, output, comparison, sweeps)

    def measure(part: Features) -> Retrieval:
        return rank_gallery(
            part.values,
            part.labels,
            queries=queries,
            gallery=gallery,
            split=part.split,
            similarity=ranking.similarity,
            ties=ranking.ties,
            ks=numbers(ranking.k, "--k"),
            ap=ranking.ap,
            denominator=ranking.denominator,
            junk=None if rows.junk is None else _junk(rows.junk, part, queries, gallery),
            threads=threads,
        )

    results = [measure(part) for part in compared]
    result = results[0]
    settings = {
        "output": features.name,
        "queries": queries or "all rows",
        "gallery": gallery or "all rows",
        **to_builtins(result.settings),
        "skipped_queries": result.skipped,
        "skipped_classes": result.skipped_classes,
        "interval": ranking.interval,
    }
    metrics, remarks = _with_others(
        compared, results, ranking.interval, ranking.class_mean, settings if as_json else {}
    )
    layered, sweep_notes = sweep(features, sweeps, measure, lambda one: one.metrics(ranking.interval), metrics)
    metrics, remarks = metrics + layered, remarks + sweep_notes
    if ranking.uniformity:
        from snellen.features.uniformity import uniformity

        spread = uniformity(compared[0].values, compared[0].labels, rows=queries, split=compared[0].split)
        metrics += spread.metrics()
        remarks += spread.notes()
        settings |= {"uniformity_t": spread.t, "alignment_alpha": spread.alpha, "positive_pairs": spread.positive_pairs}
    show_result(
        store,
        "retrieval",
        settings,
        metrics,
        [*store_notes(features), *notes, *result.notes(), *remarks],
        as_json,
        published_figures(features, "retrieval"),
    )


@dataclass(frozen=True)
class VotingOptions:
    """Neighbours and their votes."""

    k: str = option("Numbers of neighbours that vote.", "10,20,100,200", value="LIST")
    temperature: str = option("T of the weighted vote; the first names the plain metrics.", "0.07", value="LIST")
    vote: Literal["weighted", "majority"] = option("Weights exp(similarity / T), or one vote each.", "weighted")
    similarity: Similarity = "cosine"
    ties: Literal["pessimistic", "optimistic", "index"] = option("Winner among equal votes.", "pessimistic")


@dataclass(frozen=True)
class ShotOptions:
    """Few-shot training."""

    shots: int | None = option("Few-shot: training rows per class.", said="all", least=1)
    seeds: str = option("Seeds of the draws of --shots.", "0,1,2", value="LIST")


@group.command()
def knn(
    store: Store,
    *,
    output: Output = None,
    train: str = option("Rows whose classes are known.", "train", value="SPLIT"),
    queries: str = option("Rows to classify.", "test", value="SPLIT"),
    voting: VotingOptions,
    few: ShotOptions,
    comparison: AgainstOptions,
    sweeps: SweepOptions,
    interval: IntervalBy = "class",
    class_mean: ClassMean = False,
    threads: Threads = None,
    as_json: shared.JsonResult = False,
) -> None:
    """Classify the rows of one split by the vote of their nearest rows of another: DINOv2's k-NN evaluation."""
    from msgspec import to_builtins

    from snellen.features.knn import Shots
    from snellen.features.knn import knn as classify
    from snellen.features.store import open_store

    features = open_store(store, output)
    temperatures = numbers(voting.temperature, "--temperature", float, "0.07,0.2")
    compared, notes = open_others(features, output, comparison, sweeps)

    def measure(part: Features) -> Knn:
        return classify(
            part.values,
            part.labels,
            train=train,
            queries=queries,
            split=part.split,
            ks=numbers(voting.k, "--k"),
            temperatures=temperatures,
            similarity=voting.similarity,
            vote=voting.vote,
            ties=voting.ties,
            shots=None if few.shots is None else Shots(few.shots, tuple(numbers(few.seeds, "--seeds"))),
            threads=threads,
        )

    results = [measure(part) for part in compared]
    settings = {"output": features.name, "train": train, "queries": queries, **to_builtins(results[0].settings)}
    settings["interval"] = interval
    metrics, remarks = _with_others(compared, results, interval, class_mean, settings if as_json else {})
    layered, sweep_notes = sweep(features, sweeps, measure, lambda one: one.metrics(interval), metrics)
    metrics += layered
    notes = [*store_notes(features), *notes, *results[0].notes(), *remarks, *sweep_notes]
    show_result(store, "knn", settings, metrics, notes, as_json)


def _with_others(
    compared: Sequence[Features],
    results: Sequence[Retrieval | Knn],
    interval: Literal["class", "query"],
    class_mean: bool,
    settings: dict[str, Any],
) -> tuple[list[Metric], list[str]]:
    """Return the metrics of the first store, those of the others with paired differences, and notes on these."""

    def metrics_of(result: Retrieval | Knn) -> list[Metric]:
        return _averages(result, interval, class_mean)

    metrics, notes, comparisons = compare_results(store_names(compared), results, metrics_of, interval)
    if comparisons:
        settings["comparisons"] = comparisons
    return metrics_of(results[0]) + metrics, notes


def _averages(result: Retrieval | Knn, interval: Literal["class", "query"], class_mean: bool) -> list[Metric]:
    """Return the means over queries, and on request those over classes."""
    return result.metrics(interval) + (result.metrics(interval, "class") if class_mean else [])


def _junk(path: Path, features: Features, queries: str | None, gallery: str | None) -> dict[int, list[int]]:
    from snellen.features.ranking.relevance import read_junk, select_rows

    count = len(features)
    return read_junk(
        path,
        features.ids,
        select_rows(queries, features.split, count, "queries"),
        select_rows(gallery, features.split, count, "gallery"),
    )


def _protocol(
    features: Features, queries: str | None, gallery: str | None, leave_one_out: bool
) -> tuple[str | None, str | None]:
    """Return (queries, gallery) as names of splits; None for all rows."""
    if leave_one_out:
        if gallery not in (None, queries):
            raise UsageError("--leave-one-out searches the queries themselves.", "Omit --gallery.")
        return queries, queries
    if queries is None and gallery is None and features.halves is not None:
        train, test = features.halves
        return test, train
    return queries, queries if gallery is None else gallery
