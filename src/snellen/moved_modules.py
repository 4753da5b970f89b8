"""Paths of modules that version 0.1 documented, imported from where they are now, for one release.

An import of an old path gives the new module's names, with a DeprecationWarning that states the new path.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "snellen.backends": "snellen.easi.external",
    "snellen.benchmarks.chart.pictures": "snellen.benchmarks.chart.write_images",
    "snellen.benchmarks.spatial.exchange": "snellen.benchmarks.spatial.interop",
    "snellen.benchmarks.spatial.exchange.aggregated": "snellen.benchmarks.spatial.interop.harness_metrics",
    "snellen.benchmarks.spatial.reference.faults": "snellen.benchmarks.spatial.reference.known_bugs",
    "snellen.benchmarks.spatial.rules": "snellen.benchmarks.spatial.scorers",
    "snellen.comparing": "snellen.runs.compare",
    "snellen.evaluation": "snellen.runs.evaluate",
    "snellen.exporting": "snellen.runs.export",
    "snellen.features.attack": "snellen.features.attacks.pgd",
    "snellen.features.curve": "snellen.features.attacks.robust_accuracy",
    "snellen.features.fewshot": "snellen.features.probes.few_shot",
    "snellen.features.heads": "snellen.features.probes",
    "snellen.features.heads.grid": "snellen.features.probes.dinov2_grid",
    "snellen.features.legacy": "snellen.features.ranking.fgbmk_class_rank",
    "snellen.interop": "snellen.formats",
    "snellen.interop.easi_results": "snellen.benchmarks.spatial.interop.harness_metrics",
    "snellen.interop.exports": "snellen.formats.export",
    "snellen.judging": "snellen.runs.judge.ask",
    "snellen.querying": "snellen.runs.query",
    "snellen.redacting": "snellen.runs.redact",
    "snellen.report": "snellen.reports",
    "snellen.reporting": "snellen.reports.runs",
    "snellen.rescoring": "snellen.runs.score",
    "snellen.scoring.hierarchy": "snellen.scoring.taxonomy",
    "snellen.scoring.table": "snellen.scoring.scores",
    "snellen.submitting": "snellen.easi.submit",
}
"""Old path to new path."""


class _MovedModules:
    """A finder and loader; no subclass of importlib's, whose import takes 15 ms."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: ModuleType) -> None:
        new = MOVED[module.__name__]
        warnings.warn(
            f"{module.__name__} is now {new}; the old path goes with the next release", DeprecationWarning, stacklevel=2
        )
        source = import_module(new)
        module.__doc__ = source.__doc__
        module.__getattr__ = lambda name: getattr(source, name)  # type: ignore[method-assign]


def register() -> None:
    """Let imports of old paths find the new modules. Real modules come first."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
