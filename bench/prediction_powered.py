"""Coverage and width of prediction-powered intervals, by simulation.

Usage: python bench/prediction_powered.py [--simulations 1000] [--rows 2000]

Prints, for each design, accuracy, error rate and number of reviews: the share of simulations whose 95 % interval holds the
true accuracy, and the width of the interval over that of the reviewed part alone. docs/statistics.md has the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from snellen.scoring.statistics import prediction_powered

ACCURACIES = (0.5, 0.7, 0.9)
ERRORS = (0.02, 0.05, 0.1, 0.2)
REVIEWS = (50, 100, 300)
DESIGNS = ("random", "stratified", "clusters of 4", "whole clusters of 4")
WITHIN = 0.3
"""Correlation of answers within a cluster."""


def draw(
    rng: np.random.Generator, design: str, accuracy: float, error: float, reviews: int, rows: int
) -> dict[str, Any]:
    """Draw true scores, automatic ones with errors, and an audit."""
    group = None
    share: Any = accuracy
    if design.endswith("clusters of 4"):
        group = np.arange(rows) // 4
        odds = 1.0 / WITHIN - 1.0
        share = rng.beta(accuracy * odds, (1.0 - accuracy) * odds, rows // 4 + 1)[group]
    truth = (rng.random(rows) < share).astype(np.float64)
    automatic = np.where(rng.random(rows) < error, 1.0 - truth, truth)
    probability = None
    if design == "stratified":  # a fifth of the rows gets half of the reviews
        few = rows // 5
        half = reviews // 2
        probability = np.where(np.arange(rows) < few, half / few, (reviews - half) / (rows - few))
        numbers = [rng.choice(few, half, replace=False), few + rng.choice(rows - few, reviews - half, replace=False)]
        reviewed = np.concatenate(numbers)
    elif design == "whole clusters of 4":
        reviewed = np.flatnonzero(np.isin(np.arange(rows) // 4, rng.choice(rows // 4, reviews // 4, replace=False)))
    else:
        reviewed = rng.choice(rows, reviews, replace=False)
    return {
        "automatic": automatic,
        "reviewed": reviewed,
        "truth": truth[reviewed],
        "group": group,
        "probability": probability,
    }


def cells(simulations: int, rows: int) -> Iterator[tuple[str, int, float, list[tuple[float, float]]]]:
    """Yield design, reviews, accuracy, and (coverage, relative width) for each error rate."""
    rng = np.random.default_rng(20_261_122)
    for design in DESIGNS:
        for reviews in REVIEWS:
            for accuracy in ACCURACIES:
                results = []
                for error in ERRORS:
                    covered = powered = people = 0.0
                    for _ in range(simulations):
                        result = prediction_powered(**draw(rng, design, accuracy, error, reviews, rows))
                        covered += result.ci95[0] <= accuracy <= result.ci95[1]
                        powered += result.ci95[1] - result.ci95[0]
                        people += result.people_ci95[1] - result.people_ci95[0]
                    results.append((covered / simulations, powered / people))
                yield design, reviews, accuracy, results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulations", type=int, default=1_000)
    parser.add_argument("--rows", type=int, default=2_000)
    options = parser.parse_args()
    print(f"{'design':<22}{'reviews':>8}{'accuracy':>10}  " + "".join(f"{f'error {error:g}':>16}" for error in ERRORS))
    for design, reviews, accuracy, results in cells(options.simulations, options.rows):
        texts = "".join(f"{100 * covered:>9.1f} % {width:4.2f}" for covered, width in results)
        print(f"{design:<22}{reviews:>8}{accuracy:>10.2f}  {texts}", flush=True)


if __name__ == "__main__":
    main()
