"""Linear probes: accuracy of one linear layer on frozen features.

The strength of the penalty is chosen on rows held out of train, never on test. docs/features-probe.md says what each
method does and where it differs from others' code.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from snellen.errors import DataError, UsageError
from snellen.features.probes import protocol
from snellen.features.probes.fit import Method, TrainedProbe, default_grid, train
from snellen.features.probes.head import ProbeHead, Scale
from snellen.features.probes.protocol import class_columns, finite_rows, split_parts
from snellen.features.probes.results import ClassAccuracy, ProbeResult, ScoredPart, accuracy_metrics, score_parts
from snellen.features.ranking.relevance import RowsOf, as_labels
from snellen.features.ranking.similarity import check_values, single_threaded

__all__ = ["ClassAccuracy", "Probe", "ProbeSettings", "accuracy_metrics", "finite_rows", "probe"]

PENALTIES = {
    "logistic": "C: inverse L2 penalty on the sum of losses, bias free",
    "ridge": "multiple of the scatter's mean eigenvalue, bias free",
    "lda": "share of the identity in the covariance",
}
"""What the strength of each method means."""
NOT_CHOSEN = "No training row could be held out (one row per class, or too few rows), so the penalty was not tuned."
_ONE_THREAD_UP_TO = 500_000_000


class ProbeSettings(Struct, frozen=True):
    """Settings of a probe's result, besides features and labels.

    Attributes:
        method: "logistic" (L-BFGS; one class a row: multinomial, several: each class against the rest), "ridge", "lda".
        standardise: what is done to features first, by the training rows alone.
        strengths: the C that was chosen (or penalty of a closed form), one a fold.
        grid: how many strengths it was chosen from.
        selection: where it was chosen.
        protocol: "train/test", or stratified cross-validation.
        seed: of the rows held out.
        penalty: what the strength means.
        converged: whether every last fit reached its tolerance; with the steps and largest gap.
        precision: float32 or float64 of the fit.
    """

    method: Method
    standardise: Scale
    strengths: tuple[float, ...]
    grid: int
    selection: str
    protocol: str
    seed: int
    penalty: str
    converged: bool
    iterations: tuple[int, ...]
    gap: float
    precision: str
    classes: int
    train_rows: int
    test_rows: int


class Probe(ProbeResult, frozen=True, eq=False, kw_only=True):
    """Linear probe: its results on each test row, and the layers.

    Attributes:
        settings: as declared.
        head: the fitted layer; None after cross-validation, where there are several.
        trained: the fits, one a fold.
    """

    settings: ProbeSettings
    head: ProbeHead | None
    trained: tuple[TrainedProbe, ...]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = self.test_notes()
        if self.settings.grid > 1 and any(fit.held_out == 0 for fit in self.trained):
            notes.append(NOT_CHOSEN)
        if not self.settings.converged:
            notes.append(f"The last fit stopped {self.settings.gap:.1e} of its objective above the minimum.")
        edges = [fit for fit in self.trained if fit.tried and fit.strength == fit.tried[-1].strength]
        if edges:
            notes.append(
                f"The chosen strength is the last of its grid ({edges[0].strength:g}); a wider grid may do better."
            )
        return notes


def probe(
    features: Any,
    labels: Any,
    *,
    train_rows: RowsOf = None,
    test_rows: RowsOf = None,
    split: Sequence[str] | NDArray[Any] | None = None,
    method: Method = "logistic",
    standardise: Scale = "none",
    strengths: Sequence[float] | None = None,
    share: float = protocol.SHARE,
    seed: int = 0,
    folds: int = protocol.FOLDS,
    tolerance: float | None = None,
) -> Probe:
    """Train a probe on some rows and test it on others.

    Args:
        features: [n, d] of any real type; memory-mapped is fine, the rows used are copied.
        labels: [n] integers or texts, [n, c] of 0 and 1, n sets of ids, or Labels.
        train_rows, test_rows: row numbers, a mask, or names of splits. None for both: stratified cross-validation
            over all rows, strength chosen anew in each fold.
        split: [n] names of splits.
        method: "logistic", "ridge" or "lda"; several labels a row take "logistic".
        standardise: "none", "l2" or "standardise".
        strengths: values of C (inverse penalty on the sum of losses), or penalties of the closed forms; None for the
            method's grid. One value is taken as it is.
        share, seed: of the training rows that choose among several strengths.
        tolerance: of the last logistic fit; None: 1e-14 in float64, 1e-5 in float32.

    Raises:
        DataError: features that are not finite, naming the row; labels of another number of rows.
        UsageError: only one of train and test is named, they share rows, or train has fewer than two classes.
    """
    values = check_values(features)
    known = as_labels(labels, len(values))
    if method not in PENALTIES:
        raise UsageError(f"there is no method {method!r}", f"Choose one of: {', '.join(PENALTIES)}.")
    if known.many is not None and method != "logistic":
        raise UsageError(f"{method} takes one label a row, and these rows have several", "Take --method logistic.")
    parts, protocol = split_parts(known, train_rows, test_rows, split, len(values), folds)
    fits: list[TrainedProbe] = []
    heads: list[ProbeHead] = []
    scored: list[ScoredPart] = []
    for train_part, test_part in parts:
        columns, targets = class_columns(known, train_part)
        # Several threads spin longer than they compute on products so small.
        small = len(train_part) * values.shape[1] * len(columns) <= _ONE_THREAD_UP_TO
        with single_threaded() if small else nullcontext():
            fitted = train(
                finite_rows(values, train_part),
                targets,
                len(columns),
                method=method,
                standardise=standardise,
                strengths=strengths,
                share=share,
                seed=seed,
                tolerance=tolerance,
            )
        names = None if known.names is None else tuple(known.names[column] for column in columns)
        head = ProbeHead(
            fitted.weights, fitted.bias, fitted.scaling, known.classes[columns], names, known.many is not None
        )
        logits = head.logits(finite_rows(values, test_part))
        if not np.isfinite(logits).all():
            raise DataError(
                f"features: row {test_part[int((~np.isfinite(logits)).any(axis=1).argmax())]}: the layer's scores of it are "
                f"not finite; {np.abs(fitted.weights).max():.1e} is the layer's largest weight",
                "Multiply or divide all features by one number, so that they are near 1.",
            )
        scored.append(ScoredPart(logits, head.classes, test_part))
        fits.append(fitted)
        heads.append(head)
    grid = len(default_grid(method) if strengths is None else strengths)
    result = score_parts(known, parts, scored, protocol, likely=method != "ridge")
    settings = ProbeSettings(
        method=method,
        standardise=standardise,
        strengths=tuple(fit.strength for fit in fits),
        grid=grid,
        selection=_selection(fits, share, grid),
        protocol=protocol,
        seed=seed,
        penalty=PENALTIES[method],
        converged=all(fit.converged for fit in fits),
        iterations=tuple(fit.iterations for fit in fits),
        gap=max(fit.gap for fit in fits),
        precision=fits[0].precision,
        classes=result.class_count,
        train_rows=len(np.unique(np.concatenate([train_part for train_part, _ in parts]))),
        test_rows=len(result.rows),
    )
    return Probe(
        **asdict(result),
        settings=settings,
        head=_described(heads[0], settings) if len(heads) == 1 else None,
        trained=tuple(fits),
    )


def _selection(fits: Sequence[TrainedProbe], share: float, grid: int) -> str:
    if all(fit.tried for fit in fits):
        return f"held-out {share:.0%} of train ({fits[0].held_out:,} rows), then fitted on all of train"
    if any(fit.tried for fit in fits):
        return "held-out part of train where one could be taken"
    return "given" if grid == 1 else "none: no row of train could be held out"


def _described(head: ProbeHead, settings: ProbeSettings) -> ProbeHead:
    from msgspec import to_builtins
    from msgspec.structs import replace

    return replace(head, settings=to_builtins(settings))
