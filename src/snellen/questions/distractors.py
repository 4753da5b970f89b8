"""Distractors: classes of the same level, near ones first, with no name that contains another.

A class's own level is laid out so that everything under one ancestor stands together (see Taxonomy). Going up one
ancestor at a time then widens an interval, and a ring is what the wider interval adds: siblings, cousins, and so on.

Which classes look alike: the nearest ones in a feature space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from snellen.errors import DataError
from snellen.questions.rng import words
from snellen.questions.taxonomy import Taxonomy, key

Strategy: TypeAlias = Literal["sibling", "cousin", "random", "visual"]
Classes: TypeAlias = NDArray[np.int32]

KINSHIP = ("sibling", "cousin", "other")
NONE = -1


@dataclass(frozen=True)
class DistractorPool:
    """The classes of one level that distractors are drawn from.

    Attributes:
        names: [classes] their names.
        rings: (low, high) intervals, each [classes]: the class itself, then all under its parent, under its
            grandparent ..., and last the whole level. Each holds the one before it.
        depth: how many levels are above this one.
        strategy: which ring comes first.
        nearest: [classes, m] the classes nearest to each, nearest first (`visual` only); NONE where there are fewer.
        conflicts: class to those whose name holds its name, or is held by it.
    """

    names: Sequence[str]
    rings: Sequence[tuple[Classes, Classes]]
    depth: int
    strategy: Strategy
    nearest: Classes | None
    conflicts: Mapping[int, frozenset[int]]

    def order(self) -> list[int]:
        """Return ring indices in drawing order. Siblings are ring 1; a ring that the strategy skips comes last."""
        upward = list(range(1, len(self.rings)))
        if self.strategy == "cousin" and len(upward) > 1:
            return [*upward[1:], upward[0]]
        return upward

    def kinship(self, label: Classes, other: Classes) -> NDArray[np.uint8]:
        """Return the relation of distractors to right classes, as indices into KINSHIP; both arrays have shape [n]."""
        relation = np.full(len(label), 2, dtype=np.uint8)
        for ring in (2, 1):
            if ring <= self.depth:
                low, high = self.rings[ring]
                relation[(other >= low[label]) & (other < high[label])] = ring - 1
        return relation


def build_pool(taxonomy: Taxonomy, depth: int, strategy: Strategy, nearest: Classes | None = None) -> DistractorPool:
    """Build the distractor pool of one taxonomy level."""
    count = len(taxonomy.names[depth])
    own = np.arange(count, dtype=np.int32)
    rings = [(own, own + 1)]
    for at in range(depth - 1, -1, -1):
        above = taxonomy.ancestors(depth, at)
        low = np.searchsorted(above, above, side="left").astype(np.int32)
        high = np.searchsorted(above, above, side="right").astype(np.int32)
        rings.append((low, high))
    rings.append((np.zeros(count, dtype=np.int32), np.full(count, count, dtype=np.int32)))
    names = taxonomy.names[depth]
    return DistractorPool(names, rings, depth, strategy, nearest, conflicts(names))


def conflicts(names: Sequence[str]) -> dict[int, frozenset[int]]:
    """Map each class to the classes whose name contains its name, or is contained in it.

    By letters and not by words, since scorers that look for one text in another do not know words.
    """
    keys = [key(name) for name in names]
    by_key: dict[str, list[int]] = {}
    for at, name in enumerate(keys):
        by_key.setdefault(name, []).append(at)
    lengths = sorted({len(name) for name in by_key})
    overlaps: dict[int, set[int]] = {}
    for at, name in enumerate(keys):
        for length in lengths:
            if length > len(name):
                break
            for start in range(len(name) - length + 1):
                for other in by_key.get(name[start : start + length], ()):
                    if other != at:
                        overlaps.setdefault(at, set()).add(other)
                        overlaps.setdefault(other, set()).add(at)
    return {at: frozenset(others) for at, others in overlaps.items()}


def draw_distractors(
    source: DistractorPool,
    labels: Classes,
    count: int,
    *key: str | int,
    turn: NDArray[np.int64] | None = None,
    others: Mapping[int, frozenset[int]] | None = None,
) -> Classes:
    """Draw distractors for each question.

    Args:
        source: the pool of the level.
        labels: [n] the right classes.
        count: how many each question wants.
        key: what the draw is for.
        turn: [n] for one wrong class a question: counts through the questions of a class, so that its siblings are
            used equally often. None: every question draws on its own.
        others: question to classes that are right, too, and so no wrong ones.

    Returns:
        [n, count] classes, different ones, none the right one; NONE at the end where the level has no more.
    """
    chosen = np.full((len(labels), count), NONE, dtype=np.int32)
    filled = np.zeros(len(labels), dtype=np.int64)
    if source.nearest is not None:
        width = source.nearest.shape[1]
        if turn is not None and count == 1:
            counts = np.maximum(1, (source.nearest[labels] != NONE).sum(axis=1))
            chosen[:, 0] = source.nearest[labels, turn % counts]
        else:
            chosen[:, : min(width, count)] = source.nearest[labels, :count]
        filled = (chosen != NONE).sum(axis=1)
    rings = source.order()
    if source.strategy == "random":
        rings = [len(source.rings) - 1]
    for ring in rings:
        inner = source.rings[0 if source.strategy == "random" else ring - 1]
        _draw_ring(source.rings[ring], inner, labels, chosen, filled, (*key, ring), turn)
    _mend(source, labels, chosen, key, others or {})
    return chosen


def _draw_ring(
    outer: tuple[Classes, Classes],
    inner: tuple[Classes, Classes],
    labels: Classes,
    chosen: Classes,
    filled: NDArray[np.int64],
    key: tuple[str | int, ...],
    turn: NDArray[np.int64] | None,
) -> None:
    """Fill open places from one ring, without drawing a class twice (a partial Fisher-Yates over positions)."""
    low, hole, width = outer[0][labels], inner[0][labels], inner[1][labels] - inner[0][labels]
    size = (outer[1][labels] - low - width).astype(np.int64)
    drawn = np.empty((len(labels), 0), dtype=np.int64)
    for step in range(chosen.shape[1]):
        open_ = (filled < chosen.shape[1]) & (size > step)
        if not open_.any():
            return
        positions = np.maximum(size - step, 1)
        if turn is not None and step == 0:
            start = words(labels, *key) % positions.astype(np.uint64)
            place = (turn + start.astype(np.int64)) % positions
        else:
            place = (words(len(labels), *key, step) % positions.astype(np.uint64)).astype(np.int64)
        for column in range(step):
            place += place >= drawn[:, column]
        drawn = np.sort(np.column_stack([drawn, place]), axis=1)
        at = low + place
        at += np.where(at >= hole, width, 0)
        rows = np.flatnonzero(open_)
        chosen[rows, filled[rows]] = at[rows]
        filled[rows] += 1


def _mend(
    source: DistractorPool,
    labels: Classes,
    chosen: Classes,
    key: tuple[str | int, ...],
    others: Mapping[int, frozenset[int]],
) -> None:
    """Redraw questions whose distractors repeat, are also right, or have names that contain each other."""
    classes = np.column_stack([labels, chosen])
    ordered = np.sort(classes, axis=1)
    faulty = ((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)).any(axis=1)
    if source.conflicts and chosen.shape[1] > 1:
        risky = np.zeros(len(source.names) + 1, dtype=bool)  # the last one serves NONE
        risky[list(source.conflicts)] = True
        for row in np.flatnonzero(risky[classes].sum(axis=1) > 1).tolist():
            present = set(classes[row].tolist())
            faulty[row] |= any(not present.isdisjoint(source.conflicts.get(index, ())) for index in present)
    for row, right in others.items():
        faulty[row] |= not right.isdisjoint(chosen[row].tolist())
    for row in np.flatnonzero(faulty).tolist():
        barred = others.get(row, frozenset())
        redrawn = _one_by_one(source, int(labels[row]), chosen.shape[1], (*key, "mend", row), barred)
        chosen[row] = redrawn + [NONE] * (chosen.shape[1] - len(redrawn))


def _one_by_one(
    source: DistractorPool, label: int, count: int, key: tuple[str | int, ...], also_right: frozenset[int]
) -> list[int]:
    """Draw distractors for one question ring by ring, skipping conflicting names."""
    chosen: list[int] = []
    barred = {label, *also_right}
    if count > 1:
        barred |= source.conflicts.get(label, frozenset())
    for candidates in _candidates(source, label, key):
        for candidate in candidates:
            if candidate not in barred:
                chosen.append(candidate)
                if len(chosen) == count:
                    return chosen
                barred |= {candidate, *source.conflicts.get(candidate, ())}
    return chosen


def _candidates(source: DistractorPool, label: int, key: tuple[str | int, ...]) -> list[list[int]]:
    pools = []
    if source.nearest is not None:
        pools.append([candidate for candidate in source.nearest[label].tolist() if candidate != NONE])
    for ring in source.order() if source.strategy != "random" else [len(source.rings) - 1]:
        low, high = source.rings[ring]
        members = np.arange(low[label], high[label])
        pools.append(members[np.argsort(words(members, *key, ring), kind="stable")].tolist())
    return pools


BLOCK = 512


def read_features(path: Path, taxonomy: Taxonomy) -> NDArray[np.float32]:
    """Read unit vectors [classes, d] of the finest level's classes; zeros for a class without features.

    Args:
        path: .npz with `vectors` [classes, d] and `classes` [classes] names; or with `features` [images, d] and
            `labels` [images] names, of which the mean by class is taken.
        taxonomy: whose classes are meant.

    Raises:
        DataError: other arrays, lengths that differ, a name that the taxonomy does not have.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays: dict[str, NDArray[Any]] = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot read {path} as .npz: {error}", "Save it with numpy.savez.") from error
    pair = next(
        (names for names in (("vectors", "classes"), ("features", "labels")) if set(names) <= set(arrays)), None
    )
    if pair is None:
        raise DataError(
            f"{path}: arrays {', '.join(arrays) or 'none'} were found",
            "`vectors` and `classes`, or `features` and `labels`, were expected.",
        )
    vectors, labels = arrays[pair[0]], arrays[pair[1]]
    if vectors.ndim != 2 or len(labels) != len(vectors) or not np.issubdtype(vectors.dtype, np.number):
        raise DataError(f"{path}: {pair[0]} {vectors.shape} and {pair[1]} {labels.shape} do not fit: [n, d] and [n]")
    if not np.isfinite(vectors).all():
        raise DataError(f"{path}: {pair[0]} holds NaN or infinity", "Extract the features again.")
    total = np.zeros((len(taxonomy.names[-1]), vectors.shape[1]), dtype=np.float64)
    index = {}
    for row, label in enumerate(labels.tolist(), 1):
        name = label if isinstance(label, str) else str(label)
        if name not in index:
            at = taxonomy.find(name)
            if at is None:
                raise taxonomy.unknown(name, f"{path}, {pair[1]}, row {row:,}")
            index[name] = at
    np.add.at(total, [index[str(label)] for label in labels.tolist()], _unit(vectors.astype(np.float64)))
    if len(np.flatnonzero(np.abs(total).sum(axis=1))) < 2:
        raise DataError(f"{path}: features of two classes or more are needed")
    return _unit(total).astype(np.float32)


def nearest(vectors: NDArray[np.float32], taxonomy: Taxonomy, depth: int, count: int) -> NDArray[np.int32]:
    """Return the classes [classes, count] with the largest cosine for each class, largest first.

    A coarser class is the mean of its finest ones. NONE where a class, or all the others, have no features. Ties go to
    the class that stands first.
    """
    finest = len(taxonomy.levels) - 1
    total = np.zeros((len(taxonomy.names[depth]), vectors.shape[1]), dtype=np.float64)
    np.add.at(total, taxonomy.ancestors(finest, depth), vectors.astype(np.float64))
    means = _unit(total)
    known = np.abs(means).sum(axis=1) > 0
    count = min(count, max(len(means) - 1, 1))
    neighbours = np.full((len(means), count), NONE, dtype=np.int32)
    for start in range(0, len(means), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(means)))
        cosine = np.round(means[rows] @ means.T, 9)
        cosine[:, ~known] = -np.inf
        cosine[np.arange(len(rows)), rows] = -np.inf
        order = np.argsort(-cosine, axis=1, kind="stable")[:, :count]
        best = np.where(np.isfinite(np.take_along_axis(cosine, order, axis=1)), order, NONE)
        neighbours[rows] = np.where(known[rows, None], best, NONE)
    return neighbours


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
    return unit
