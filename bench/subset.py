"""Error of whole scores estimated from subsets, beside the plain mean of random items, on simulated models.

python bench/subset.py [--worlds 20] [--adaptive]

Models have known abilities and answer 1,000 items by the 2PL, by the 2PL with a floor of guessing of 0.25, or by three
correlated abilities of which each item asks one. Some fit the items; 40 others are estimated. One table on stdout.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.statistics.item_response import (
    Floats,
    estimate_whole,
    fit_for_size,
    next_items,
    rest_of,
    select_items,
)

WORLDS = ("2PL", "guessing", "3 abilities")
SIZES = (25, 50, 100)
ITEMS, ESTIMATED = 1_000, 40


def simulate(world: str, models: int, items: int, seed: int) -> Floats:
    """Draw answers, [models, items] of 0 and 1. Log a has a spread of 0.1, 0.5 or 0.9, in turn from seed to seed."""
    rng = np.random.default_rng(seed)
    ability = rng.normal(size=(models, 1))
    asks = np.zeros(items, dtype=np.intp)
    if world == "3 abilities":
        ability = 0.75 * ability + np.sqrt(1 - 0.75**2) * rng.normal(size=(models, 3))
        asks = rng.integers(0, 3, items)
    a, d = np.exp(rng.normal(-0.1, (0.1, 0.5, 0.9)[seed % 3], items)), rng.normal(0.3, 1.4, items)
    chance = 1.0 / (1.0 + np.exp(-(ability[:, asks] * a + d)))
    if world == "guessing":
        chance = 0.25 + 0.75 * chance
    return (rng.random((models, items)) < chance).astype(np.float64)


def measure(
    world: str, models: int, size: int, seed: int, asked: int | None = None
) -> tuple[list[float], list[bool], list[float], float]:
    """Return absolute errors, whether intervals hold, errors of random items, and the error by leaving one model out.

    With `asked`, each model is asked as many of the `size` items, chosen by its answers.
    """
    answers = simulate(world, models + ESTIMATED, ITEMS, seed)
    fitted = answers[:models]
    fit, left = fit_for_size(fitted, size, seed)
    selected: NDArray[np.intp] = select_items(fit, size)
    rest = rest_of(fit, selected)
    rng = np.random.default_rng(seed)
    errors, held, plain = [], [], []
    for row in answers[models:]:
        values = row[selected]
        if asked is not None:
            scores: dict[int, float] = {}
            while opened := next_items(fit.a[selected], fit.d[selected], scores, asked):
                scores |= {item: values[item] for item in opened}
            values = np.array([scores.get(item, np.nan) for item in range(size)])
        estimate = estimate_whole(fit.a[selected], fit.d[selected], rest, ITEMS, values)
        assert estimate is not None
        errors.append(abs(estimate.value - row.mean()))
        held.append(errors[-1] <= left.factor * estimate.error)
        plain += [abs(row[rng.choice(ITEMS, asked or size, replace=False)].mean() - row.mean()) for _ in range(20)]
    return errors, held, plain, left.mean_absolute


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=20, help="simulated benchmarks for each row")
    parser.add_argument("--adaptive", action="store_true", help="ask 25 and 50 of 200 items, chosen by the answers")
    options = parser.parse_args()
    print("| world | models | items | error, points | left out, points | random, points | interval holds, % |")
    print("|---|---|---|---|---|---|---|")
    for world in WORLDS:
        for models in (10, 15, 30):
            for size, asked in [(200, 25), (200, 50)] if options.adaptive else [(size, None) for size in SIZES]:
                runs = [measure(world, models, size, seed, asked) for seed in range(options.worlds)]
                error, held, plain = (np.mean([each[at] for each in runs]) for at in range(3))
                left = np.mean([each[3] for each in runs])
                figures = " | ".join(f"{100 * value:.2f}" for value in (error, left, plain))
                print(f"| {world} | {models} | {asked or size} | {figures} | {100 * held:.1f} |", flush=True)


if __name__ == "__main__":
    main()
