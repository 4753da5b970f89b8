"""Snellen, the eye chart for vision-language models.

`snellen.evaluate(...)` runs a benchmark, `snellen.load_run(path)` opens a run. Everything public is named here and
imported on first use, so that `import snellen` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark, Data
    from snellen.errors import SnellenError
    from snellen.models.base import Model, ModelOptions
    from snellen.reports.runs import report
    from snellen.runs.compare import compare
    from snellen.runs.evaluate import evaluate, rerun
    from snellen.runs.export import export
    from snellen.runs.failures.judge import label_failures
    from snellen.runs.import_answers import import_run
    from snellen.runs.judge.ask import judge, read
    from snellen.runs.query import query
    from snellen.runs.redact import redact
    from snellen.runs.run import Run, load_run
    from snellen.runs.score import score
    from snellen.runs.tables import result_table, write_table
    from snellen.scoring.scores import Scores
    from snellen.types import (
        Generation,
        Image,
        MediaSettings,
        Metric,
        Prompt,
        Record,
        Response,
        Sample,
        Score,
        Text,
        Usage,
        Video,
    )

__version__ = "1.0.0"

_HOMES = {
    "snellen.reports.runs": ("report",),
    "snellen.runs.compare": ("compare",),
    "snellen.runs.evaluate": ("evaluate", "rerun"),
    "snellen.runs.run": ("Run", "load_run"),
    "snellen.runs.export": ("export",),
    "snellen.runs.failures.judge": ("label_failures",),
    "snellen.runs.import_answers": ("import_run",),
    "snellen.runs.judge.ask": ("judge", "read"),
    "snellen.runs.query": ("query",),
    "snellen.runs.redact": ("redact",),
    "snellen.runs.score": ("score",),
    "snellen.runs.tables": ("result_table", "write_table"),
    "snellen.errors": ("SnellenError",),
    "snellen.benchmarks.base": ("Benchmark", "Data"),
    "snellen.models.base": ("Model", "ModelOptions"),
    "snellen.scoring.scores": ("Scores",),
    "snellen.types": (
        "Generation",
        "Image",
        "MediaSettings",
        "Metric",
        "Prompt",
        "Record",
        "Response",
        "Sample",
        "Score",
        "Text",
        "Usage",
        "Video",
    ),
}
__all__ = [
    "Benchmark",
    "Data",
    "Generation",
    "Image",
    "MediaSettings",
    "Metric",
    "Model",
    "ModelOptions",
    "Prompt",
    "Record",
    "Response",
    "Run",
    "Sample",
    "Score",
    "Scores",
    "SnellenError",
    "Text",
    "Usage",
    "Video",
    "__version__",
    "compare",
    "evaluate",
    "export",
    "import_run",
    "judge",
    "label_failures",
    "load_run",
    "query",
    "read",
    "redact",
    "report",
    "rerun",
    "result_table",
    "score",
    "write_table",
]


_OF_TABLES = ("result_table", "write_table")
"""Public, and left out of `dir(snellen)`, which stays a list that one looks through: `snellen export` and docs/tables.md have them."""


def __dir__() -> list[str]:
    return [name for name in __all__ if name not in _OF_TABLES]


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'snellen' has no attribute {name!r}")
    return getattr(import_module(home), name)
