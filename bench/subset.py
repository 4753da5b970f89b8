"""Error of whole scores estimated from subsets, beside the plain mean of random items, on simulated models.

python bench/subset.py [--worlds 20] [--adaptive | --unlike]

Models have known abilities and answer 1,000 items by the 2PL, by the 2PL with a floor of guessing of 0.25, or by three
correlated abilities of which each item asks one. Some fit the items; 40 others are estimated. One table on stdout.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from functools import lru_cache

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.statistics.item_response import (
    Floats,
    ItemFit,
    WholeScore,
    estimate_whole,
    fit_folds,
    leave_one_out,
    next_items,
    rest_of,
    select_items,
    variance_outside,
)

WORLDS = ("2PL", "guessing", "3 abilities")
SIZES = (25, 50, 100)
ITEMS, ESTIMATED = 1_000, 40


UNLIKE = ("far below", "far above", "another order", "reversed order", "guessing")


def simulate(world: str, models: int, items: int, seed: int, unlike: str = "") -> Floats:
    """Draw answers, [models, items] of 0 and 1. Log a has a spread of 0.1, 0.5 or 0.9, in turn from seed to seed.

    The last ESTIMATED models may be unlike the others: of ability -3 or 3, with the difficulties of the items drawn anew or
    reversed, or right by guessing in a quarter of the cases.
    """
    rng = np.random.default_rng(seed)
    ability = rng.normal(size=(models, 1))
    asks = np.zeros(items, dtype=np.intp)
    if world == "3 abilities":
        ability = 0.75 * ability + np.sqrt(1 - 0.75**2) * rng.normal(size=(models, 3))
        asks = rng.integers(0, 3, items)
    a, d = np.exp(rng.normal(-0.1, (0.1, 0.5, 0.9)[seed % 3], items)), rng.normal(0.3, 1.4, items)
    ability = ability[:, asks]
    difficulty = np.tile(d, (models, 1))
    others = slice(models - ESTIMATED, None)
    if unlike in ("far below", "far above"):
        ability[others] = -3.0 if unlike == "far below" else 3.0
    elif unlike == "another order":
        difficulty[others] = np.random.default_rng([seed, 1]).permutation(d)  # the answers of the fitted stay
    elif unlike == "reversed order":
        difficulty[others] = 2.0 * d.mean() - d
    chance = 1.0 / (1.0 + np.exp(-(ability * a + difficulty)))
    guessed = chance if world == "guessing" else chance[others] if unlike == "guessing" else chance[:0]
    guessed += 0.25 * (1.0 - guessed)
    return (rng.random((models, items)) < chance).astype(np.float64)


@lru_cache(maxsize=64)
def fits(world: str, models: int, seed: int) -> tuple[ItemFit, list[ItemFit]]:
    """Fit the first models of a world, which are the same whatever the others are, once for all sizes."""
    return fit_folds(simulate(world, models + ESTIMATED, ITEMS, seed)[:models], seed)


def measure(
    world: str, models: int, size: int, seed: int, asked: int | None = None, width: float = 0.0, unlike: str = ""
) -> tuple[list[float], list[bool], list[float], float, float]:
    """Return absolute errors, whether intervals hold, errors of random items, the error by leaving one model out, and the
    mean number of items asked.

    With `asked`, each model is asked as many of the `size` items at most, chosen by its answers, until its interval is
    within ± `width`.
    """
    answers = simulate(world, models + ESTIMATED, ITEMS, seed, unlike)
    fit, folds = fits(world, models, seed)
    left = leave_one_out(answers[:models], size, seed, folds)
    selected: NDArray[np.intp] = select_items(fit, size)
    rest, outside = rest_of(fit, selected), variance_outside(fit, folds, selected)
    rng = np.random.default_rng(seed)
    errors, held, plain, used = [], [], [], []

    def estimated(values: Floats) -> WholeScore:
        estimate = estimate_whole(fit.a[selected], fit.d[selected], rest, ITEMS, values, outside)
        assert estimate is not None
        return estimate

    def enough(values: Floats) -> bool:
        return left.factor * estimated(values).error <= width

    for row in answers[models:]:
        values = row[selected]
        if asked is not None:
            scores: dict[int, float] = {}
            while opened := next_items(fit.a[selected], fit.d[selected], scores, asked, enough):
                scores |= {item: values[item] for item in opened}
            values = np.array([scores.get(item, np.nan) for item in range(size)])
        used.append(float(np.isfinite(values).sum()))
        estimate = estimated(values)
        errors.append(abs(estimate.value - row.mean()))
        held.append(errors[-1] <= left.factor * estimate.error)
        plain += [abs(row[rng.choice(ITEMS, asked or size, replace=False)].mean() - row.mean()) for _ in range(20)]
    return errors, held, plain, left.mean_absolute, float(np.mean(used))


def cells(options: argparse.Namespace) -> Iterator[tuple[str, str, int, int, int | None, float]]:
    """Yield (world, unlike, models, size, asked, width) of each row."""
    if options.unlike:
        yield from (("2PL", unlike, 12, size, None, 0.0) for unlike in UNLIKE for size in SIZES)
        return
    adaptive = [(200, 25, 0.0), (200, 50, 0.0), (200, 100, 0.08)]
    sizes = adaptive if options.adaptive else [(size, None, 0.0) for size in SIZES]
    for world in options.world:
        yield from ((world, "", models, *size) for models in options.models for size in sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20, help="simulated benchmarks for each row")
    parser.add_argument(
        "--adaptive", action="store_true", help="ask 25, 50, and 100 or fewer of 200 items, by the answers"
    )
    parser.add_argument("--unlike", action="store_true", help="estimate models that are unlike those fitted")
    parser.add_argument("--world", nargs="*", default=WORLDS, choices=WORLDS)
    parser.add_argument("--models", nargs="*", default=(10, 15, 30), type=int)
    options = parser.parse_args()
    print("| world | models | items | error, points | left out, points | random, points | interval holds, % |")
    print("|---|---|---|---|---|---|---|")
    for world, unlike, models, size, asked, width in cells(options):
        runs = [measure(world, models, size, seed, asked, width, unlike) for seed in range(options.worlds)]
        error, held, plain = (np.mean([each[at] for each in runs]) for at in range(3))
        left, used = (np.mean([each[at] for each in runs]) for at in (3, 4))
        figures = " | ".join(f"{100 * value:.2f}" for value in (error, left, plain))
        print(f"| {unlike or world} | {models} | {used:.0f} | {figures} | {100 * held:.1f} |", flush=True)


if __name__ == "__main__":
    main()
