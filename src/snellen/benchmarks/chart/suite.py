"""chart: the suite of chart/digits and chart/creatures."""

from __future__ import annotations

from snellen.benchmarks.chart.creatures import CREATURES
from snellen.benchmarks.chart.digits import DIGITS
from snellen.benchmarks.chart.questions import summarize
from snellen.benchmarks.suite import suite

CHART = suite(
    "chart",
    (CREATURES, DIGITS),
    version="1",
    about={
        "description": "The whole embedded chart: every kind of question, answered by a small model in half a minute.",
        "source": "Drawn by seed (creatures) and UCI handwritten digits, both in the package; no download.",
        "licence": "Apache-2.0; digits CC BY 4.0",
    },
    summarize=summarize,
)
