"""Two encoders on the same images: rows matched by split and id, and paired differences of any measure of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.knn import Knn
from snellen.features.probes.results import ProbeResult
from snellen.features.retrieval import Retrieval
from snellen.features.store import Features
from snellen.scoring.statistics import Comparison, compare


class RowValues(Struct, frozen=True, eq=False):
    """Values of a measure by row.

    Attributes:
        values: name to [m] float64, NaN for a row without a value.
        rows: [m] row numbers.
        cluster: [m] equal for rows of one cluster.
    """

    values: Mapping[str, NDArray[np.float64]]
    rows: NDArray[np.int64]
    cluster: NDArray[np.int64]


def row_values(result: Retrieval | Knn | ProbeResult, cluster: str = "class") -> RowValues:
    """Return the values of each row: of a probe `accuracy`, `accuracy/top5`, and `nll` where every row has one.

    Args:
        cluster: "class": rows of one class are one cluster; "query": each row is. A probe's rows are always the latter.

    Raises:
        UsageError: a probe of several labels a row, whose measures are no means over rows.
    """
    if not isinstance(result, ProbeResult):
        own = np.arange(len(result.rows), dtype=np.int64)
        return RowValues(result.values, result.rows, result.cluster if cluster == "class" else own)
    if result.several is not None:
        raise UsageError(
            "paired differences of a probe take one class a row, and these rows have several labels",
            "Compare retrieval instead.",
        )
    values = {"accuracy": result.correct.astype(np.float64)}
    if result.class_count > 5:
        values["accuracy/top5"] = (result.rank <= 5).astype(np.float64)
    if result.probabilities is not None and np.isfinite(result.probabilities.loss).all():
        values["nll"] = result.probabilities.loss
    return RowValues(values, result.rows, np.arange(len(result.rows), dtype=np.int64))


def paired_differences(first: RowValues, second: RowValues) -> dict[str, Comparison]:
    """Compare two encoders row by row on every measure that both have: the first minus the second.

    Rows must be those of stores that `share_rows` returned. Rows without a value (queries without a relevant item) are
    left out; both lack it for the same rows.

    Raises:
        DataError: the measures are of different rows.
    """
    order = [np.argsort(side.rows, kind="stable") for side in (first, second)]
    if not np.array_equal(first.rows[order[0]], second.rows[order[1]]):
        raise DataError("the measures are of different rows.", "Measure stores that `share_rows` returned.")
    differences = {}
    for name, values in first.values.items():
        if name not in second.values:
            continue
        a, b = values[order[0]], second.values[name][order[1]]
        scored = np.isfinite(a) & np.isfinite(b)
        if scored.any():
            differences[name] = compare(a[scored], b[scored], first.cluster[order[0]][scored])
    return differences


def describe_difference(name: str, found: Comparison) -> str:
    """Describe a comparison in one sentence."""
    return (
        f"{name}: {found.difference:+.4f}, p = {found.p_value:.3g} ({found.test_text}; {found.wins:,} better, "
        f"{found.losses:,} worse of {found.n:,})"
    )


def share_rows(stores: Sequence[Features], names: Sequence[str]) -> tuple[list[Features], list[str]]:
    """Restrict stores to the rows that all have, in one order, so that row i is the same image everywhere.

    Rows are matched by split and id.

    Returns:
        The stores, and one sentence for each whose rows were left out.

    Raises:
        DataError: an id comes twice in a split, no row is shared, or a row has different labels.
    """
    keys = [_keys(store, name) for store, name in zip(stores, names, strict=True)]
    first = keys[0]
    shared = [key for key in first if all(key in other for other in keys[1:])]
    if not shared:
        examples = "; ".join(f"{name}: {_example(own)}" for name, own in zip(names, keys, strict=True))
        raise DataError(
            f"the stores share no rows by split and id ({examples})", "Extract them from the same csv files."
        )
    taken, notes = [], []
    for store, name, own in zip(stores, names, keys, strict=True):
        rows = np.array([own[key] for key in shared], dtype=np.int64)
        if len(rows) < len(own):
            notes.append(f"{name}: {len(own) - len(rows):,} rows are not in all stores and were omitted.")
        same = len(rows) == len(store) and bool((rows == np.arange(len(rows))).all())
        taken.append(store if same else store.take(rows))
    wanted = _classes_of(taken[0])
    for store, name in zip(taken[1:], names[1:], strict=True):
        wrong = next((i for i, (a, b) in enumerate(zip(wanted, _classes_of(store), strict=True)) if a != b), None)
        if wrong is not None:
            split, row_id = shared[wrong]
            raise DataError(
                f"{row_id!r} ({split or 'no split'}) has another class in {name} than in {names[0]}",
                "Compare stores of one data set.",
            )
    return taken, notes


def _keys(store: Features, name: str) -> dict[tuple[str, str], int]:
    row_of: dict[tuple[str, str], int] = {}
    for row, key in enumerate(zip(store.split.astype(str).tolist(), store.ids.astype(str).tolist(), strict=True)):
        if key in row_of:
            raise DataError(
                f"{name}: the id {key[1]!r} comes twice in the split {key[0]!r}, so rows cannot be paired",
                "Give every image an id of its own.",
            )
        row_of[key] = row
    return row_of


def _example(keys: Mapping[tuple[str, str], int]) -> str:
    split, row_id = next(iter(keys), ("", "no rows"))
    return f"{row_id!r} ({split or 'no split'})"


def _classes_of(store: Features) -> list[Any]:
    labels = store.labels
    names = [labels.name(column) for column in range(len(labels.classes))]
    if labels.many is not None:
        return [frozenset(names[column] for column in np.flatnonzero(row)) for row in labels.many]
    return [names[column] for column in labels.columns.tolist()]
