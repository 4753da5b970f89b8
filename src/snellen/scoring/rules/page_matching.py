"""Matching of the blocks of a reply with those of a page: the quick match of OmniDocBench's evaluator.

Source: as in `page_blocks`. Texts are compared by Levenshtein distance over the longer one; the Hungarian method assigns
blocks. The evaluator's later releases stop by time (300 and 420 s); here limits of size, `MOST_SIGNS` and `MOST_STEPS`, hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Places: TypeAlias = tuple[int, ...]
"""Numbers of blocks, from 0."""
MOST_APART, MOST_APART_OF_PART, MOST_APART_OF_MERGED, SETTLED = 0.7, 0.4, 0.6, 0.25
"""Distances: above the first no pair; below the second a gold block lies in a reply's; up to the third a reply's block is
part of a gold one; below the last a pair is settled before others are merged."""
MOST_SIGNS, MOST_STEPS = 20_000_000, 4_000_000_000
"""A block is not looked for in one whose windows have more signs in all, nor once a page has taken as many steps."""

MOST_TOGETHER = 256
"""Windows that are compared at once."""


class Pair(Struct, frozen=True):
    """Gold blocks and blocks of the reply that belong together; one side may be empty."""

    gold: Places
    reply: Places


def distances(gold: Sequence[str], reply: Sequence[str]) -> NDArray[np.float64]:
    """Return the normalised Levenshtein distance of each gold block, [gold, reply], and each block of a reply."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    return cdist(gold, reply, scorer=Levenshtein.normalized_distance, dtype=np.float64)


def assigned(costs: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the pairs of rows and columns with the least sum of costs."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def simple_match(gold: Sequence[str], reply: Sequence[str]) -> list[Pair]:
    """Return one pair for each gold block, however far apart, and one for all other blocks of the reply together."""
    if not gold or not reply:
        return [Pair((at,), ()) for at in range(len(gold))] + ([Pair((), tuple(range(len(reply))))] if reply else [])
    found = dict(assigned(distances(gold, reply)))
    rest = tuple(at for at in range(len(reply)) if at not in found.values())
    pairs = [Pair((at,), (found[at],) if at in found else ()) for at in range(len(gold))]
    return [*pairs, Pair((), rest)] if rest else pairs


def quick_match(gold: Sequence[str], reply: Sequence[str]) -> list[Pair]:
    """Return pairs of blocks, of which a reply may have split or joined some.

    Neighbouring blocks of the reply are merged where that brings them nearer to a gold block. Gold blocks that are then
    above `MOST_APART` are looked for inside the blocks of the reply; what is left is assigned by distance alone. As in the
    evaluator, a gold block without a partner counts twice where the reply has no block left, and further blocks of the
    reply count only where no gold block is left.

    Args:
        gold, reply: texts of blocks in their order, none of them empty.
    """
    if not gold:
        return [Pair((), (at,)) for at in range(len(reply))]
    if not reply:
        return [Pair((at,), ()) for at in range(len(gold))]
    if len(gold) == len(reply) == 1:
        return [Pair((0,), (0,))]
    owners = _owners(gold, reply)
    taken = {at for places in owners.values() for at in places}
    free = [at for at in range(len(gold)) if at not in taken]
    seen = {at for places in owners for at in places}
    unseen = [at for at in range(len(reply)) if at not in seen]
    pairs = [Pair(tuple(sorted(places)), part) for part, places in owners.items() if places]
    if not unseen:
        return pairs + [Pair((at,), ()) for at in free] * 2
    if not free:
        return [*pairs, Pair((), tuple(unseen))]
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    lefts, rights = [gold[at] for at in free], [reply[at] for at in unseen]
    left = assigned(cdist(lefts, rights, scorer=Levenshtein.distance, dtype=np.float64))
    pairs += [Pair((free[row],), (unseen[column],)) for row, column in left]
    rest = set(range(len(free))) - {row for row, _ in left}
    return pairs + [Pair((free[row],), ()) for row in sorted(rest)]


def _owners(gold: Sequence[str], reply: Sequence[str]) -> dict[Places, list[int]]:
    """Return blocks of the reply, merged or alone, to the gold blocks that they hold."""
    search = _Search()
    parts = _merged(gold, reply, search)
    costs = distances(gold, [" ".join(reply[at] for at in part) for part in parts])
    found = dict(assigned(costs))
    owners = {parts[found[at]]: [at] for at in range(len(gold)) if at in found and costs[at, found[at]] <= MOST_APART}
    taken = {at for places in owners.values() for at in places}
    free = [at for at in range(len(gold)) if at not in taken]
    for number, text in enumerate(reply):
        inside = [at for at in free if search.distance(text, gold[at]) < MOST_APART_OF_PART]
        if inside:
            owner = owners.setdefault((number,), [])
            owner += [at for at in inside if at not in taken]
            taken.update(inside)
    return owners


class _Search:
    """Search of a shorter text in a longer one; what was found is kept for one page."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float] = {}
        self._steps = 0

    def distance(self, text: str, part: str) -> float:
        """Return the least distance, by the length of `part`, of a window of that length in a text; infinite if it is longer."""
        windows = len(text) - len(part) + 1
        if windows <= 0 or windows * len(part) > MOST_SIGNS:
            return float("inf")
        if (text, part) not in self._known:
            self._steps += windows * len(part) * (1 + len(part) // 64)
            if self._steps > MOST_STEPS:
                return float("inf")
            most = int(MOST_APART_OF_MERGED * len(part)) + 1  # further ones are all alike: too far
            self._known[text, part] = least_window(text, part, most + 1) / len(part)
        return self._known[text, part]


def least_window(text: str, part: str, most: int) -> int:
    """Return the least Levenshtein distance of `part` and a window of its length in a text, at most `most`.

    A window that begins one sign later is at most 2 nearer, one sign less and one more: windows that cannot be nearer than the
    nearest so far are passed over. Where none can be, more and more are compared at once.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    windows, size = len(text) - len(part) + 1, len(part)
    least, at, together = most, 0, 1
    while least and at < windows:
        several = [text[start : start + size] for start in range(at, min(at + together, windows))]
        apart = (
            [Levenshtein.distance(part, several[0])]
            if together == 1
            else cdist([part], several, scorer=Levenshtein.distance)[0].tolist()
        )
        least = min(least, *apart)
        passed = (apart[-1] - least) // 2
        together = min(2 * together, MOST_TOGETHER) if not passed else 1
        at += len(several) + passed
    return least


def _merged(gold: Sequence[str], reply: Sequence[str], search: _Search) -> list[Places]:
    """Return the blocks of a reply, neighbours merged where they are parts of one gold block."""
    costs = distances(gold, reply)
    settled = costs < SETTLED
    fixed = set(np.flatnonzero(settled.any(axis=0)).tolist())
    chosen: list[tuple[Places, float]] = []
    for number in np.flatnonzero(~settled.any(axis=1)).tolist():
        starts = (start for start in range(len(reply)) if start not in fixed)
        runs = [_run(gold[number], reply, start, fixed, search) for start in starts]
        if runs:
            texts = [" ".join(reply[at] for at in run) for run in runs]
            apart = distances([gold[number]], texts)[0]
            chosen.append((runs[int(apart.argmin())], float(apart.min())))
    parts: list[Any] = list(range(len(reply)))
    for run in _apart(chosen):
        start = parts.index(run[0])  # a ValueError, where runs overlap, ends the quick match as in the evaluator
        parts[start : start + len(run)] = [run]
    return [part if isinstance(part, tuple) else (part,) for part in parts]


def _run(gold: str, reply: Sequence[str], start: int, fixed: set[int], search: _Search) -> Places:
    """Return a block with the neighbours behind it that make it more like a gold block."""
    from rapidfuzz.distance import Levenshtein

    end = start + 1
    while end < len(reply) and end not in fixed:
        before, after = " ".join(reply[start:end]), " ".join(reply[start : end + 1])
        if Levenshtein.normalized_distance(gold, after) > Levenshtein.normalized_distance(gold, before):
            break
        if any(search.distance(gold, text) > MOST_APART_OF_MERGED for text in reply[start:end]):
            break
        if search.distance(gold, reply[end]) >= MOST_APART_OF_MERGED:
            break
        end += 1
        if len(after) > len(gold):
            break
    return tuple(range(start, end))


def _apart(runs: Iterable[tuple[Places, float]]) -> list[Places]:
    """Return runs that do not overlap: of overlapping ones the set with the least mean distance."""
    groups: list[list[tuple[Places, float]]] = []
    for run in sorted(runs, key=lambda run: run[0][0]):
        if groups and any(set(run[0]) & set(other) for other, _ in groups[-1]):
            groups[-1].append(run)
        else:
            groups.append([run])
    return [run for group in groups for run, _ in _best(group)]


def _best(group: Sequence[tuple[Places, float]]) -> list[tuple[Places, float]]:
    paths: list[list[tuple[Places, float]]] = [[group[0]]]
    for run in group[1:]:
        is_new = True
        for path in paths:
            same = [other for other in path if other[0] == run[0]]
            for other in same:
                is_new = False
                if other[1] > run[1]:
                    path.remove(other)
                    path.append(run)
            if not same and not any(set(run[0]) & set(other) for other, _ in path):
                path.append(run)
                is_new = False
        if is_new:
            paths.append([run])
    return min(paths, key=lambda path: sum(cost for _, cost in path) / len(path))
