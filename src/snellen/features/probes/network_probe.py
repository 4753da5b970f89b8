"""MLP and attentive probes: the rate and decay are chosen on rows held out of train, then a network is trained on all of train.

docs/features-probe.md says what each network is and where it differs from published code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict
from numpy.typing import NDArray

from snellen.errors import MissingExtraError, UsageError
from snellen.features.probes import protocol
from snellen.features.probes.logistic import require_classes
from snellen.features.probes.protocol import class_columns, split_parts
from snellen.features.probes.results import ProbeResult, ScoredPart, score_parts
from snellen.features.ranking.relevance import RowsOf, as_labels
from snellen.features.ranking.similarity import check_values
from snellen.features.store.format import PatchTokens
from snellen.installation import install_hint

if TYPE_CHECKING:
    from snellen.features.probes.networks import NetworkKind, NetworkRecipe

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
DECAYS = (5e-4, 5e-2)
STEPS = 2_000
BATCH = 128
HIDDEN = 512
DEFINITIONS = {
    "mlp": "one hidden layer with GELU",
    "attentive": "one learned query, multi-head cross-attention over the patch tokens, linear layer (CAPI, V-JEPA)",
}
NOT_CHOSEN = "No training row could be held out (one row per class, or too few rows), so rate and decay were not tuned."


class NetworkTraining(Struct, frozen=True):
    """Settings of a training.

    Attributes:
        rates: learning rates of AdamW; every pair of rate and decay is tried, a single pair is used directly.
        decays: weight decays of AdamW.
        steps: of the training; None takes `epochs`, or 2,000.
        epochs: passes over the training rows, in place of steps.
        batch: rows a step.
        hidden: width of the MLP's hidden layer.
        device: as torch names it.
    """

    rates: Sequence[float] = RATES
    decays: Sequence[float] = DECAYS
    steps: int | None = None
    epochs: float | None = None
    batch: int = BATCH
    hidden: int = HIDDEN
    device: str = "cpu"


class NetworkTrial(Struct, frozen=True):
    """One setting on the held-out rows: accuracy (one label a row) or minus the log loss (several), and the log loss."""

    rate: float
    decay: float
    score: float
    loss: float


class NetworkFit(Struct, frozen=True):
    """Choice of one fit: the rate and decay taken, what each scored (empty where there was one), rows that chose."""

    rate: float
    decay: float
    tried: tuple[NetworkTrial, ...]
    held_out: int


class NetworkSettings(Struct, frozen=True):
    """Settings of a network probe's result, besides features and labels.

    Attributes:
        probe: "mlp" or "attentive"; `network` says what it is.
        hidden: width of the hidden layer; None for the attentive probe, which has `heads`.
        rates, decays: that were chosen, one a fold.
        grid: from how many settings.
        selection: where they were chosen.
        protocol: "train/test", or stratified cross-validation.
        seed: of the weights, the order of rows and the rows held out.
    """

    probe: str
    network: str
    hidden: int | None
    heads: int | None
    tokens: int | None
    width: int
    rates: tuple[float, ...]
    decays: tuple[float, ...]
    grid: int
    steps: int
    batch: int
    optimiser: str
    selection: str
    protocol: str
    seed: int
    device: str
    classes: int
    train_rows: int
    test_rows: int


class NetworkProbe(ProbeResult, frozen=True, eq=False, kw_only=True):
    """MLP or attentive probe: its results on each test row.

    Attributes:
        settings: as declared.
        fits: what was chosen, one a fold.
    """

    settings: NetworkSettings
    fits: tuple[NetworkFit, ...]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = self.test_notes()
        if self.settings.grid > 1 and any(not fit.tried for fit in self.fits):
            notes.append(NOT_CHOSEN)
        for fit in self.fits[:1]:
            rates = sorted({trial.rate for trial in fit.tried})
            if len(rates) > 1 and fit.rate in (rates[0], rates[-1]):
                notes.append(f"The rate chosen ({fit.rate:g}) is at an end of the grid; a wider grid may do better.")
        return notes


def network_probe(
    features: Any,
    labels: Any,
    *,
    kind: NetworkKind,
    train_rows: RowsOf = None,
    test_rows: RowsOf = None,
    split: Sequence[str] | NDArray[Any] | None = None,
    training: NetworkTraining | None = None,
    share: float = protocol.SHARE,
    seed: int = 0,
    folds: int = protocol.FOLDS,
) -> NetworkProbe:
    """Train an MLP or attentive probe on some rows and test it on others.

    On the CPU the same seed and number of threads give the same result to the last bit.

    Args:
        features: [n, d] for "mlp"; for "attentive" [n, tokens, d], or `PatchTokens` of a store. Rows are read a batch
            at a time.
        labels, train_rows, test_rows, split, share, folds: as `probe` takes them.
        kind: "mlp" or "attentive".
        training: rates, decays, steps and more; None: the defaults.
        seed: of the weights, the order of rows and the rows held out.

    Raises:
        UsageError: a setting out of its range, features of another shape, or one of the faults that `probe` names.
        DataError: a row that is not finite, by its number.
        MissingExtraError: torch is not installed.
    """
    values = _check_input(features, kind)
    known = as_labels(labels, len(values))
    training = training or NetworkTraining()
    grid = _check_settings(training)
    try:
        from snellen.features.probes.networks import NetworkRecipe, count_heads, require_device
    except ImportError as error:
        raise MissingExtraError(
            f"the {kind} probe needs torch, which is not installed.", install_hint("features")
        ) from error
    require_device(training.device)
    parts, protocol = split_parts(known, train_rows, test_rows, split, len(values), folds)
    fits, scored = [], []
    for train_part, test_part in parts:
        columns, targets = class_columns(known, train_part)
        require_classes(targets)
        length = _steps(training, len(train_part))
        recipe = NetworkRecipe(kind, grid, length, training.batch, training.hidden)
        fit, logits = _fit(values, train_part, test_part, targets, len(columns), recipe, share, seed, training.device)
        fits.append(fit)
        scored.append(ScoredPart(logits, known.classes[columns], test_part))
    result = score_parts(known, parts, scored, protocol)
    settings = NetworkSettings(
        probe=kind,
        network=DEFINITIONS[kind],
        hidden=training.hidden if kind == "mlp" else None,
        heads=count_heads(values.shape[-1]) if kind == "attentive" else None,
        tokens=values.shape[1] if kind == "attentive" else None,
        width=values.shape[-1],
        rates=tuple(fit.rate for fit in fits),
        decays=tuple(fit.decay for fit in fits),
        grid=len(grid),
        steps=_steps(training, len(parts[0][0])),
        batch=training.batch,
        optimiser="AdamW, a tenth of the steps rising, then a cosine to 0",
        selection=_selection(fits, share, len(grid)),
        protocol=protocol,
        seed=seed,
        device=training.device,
        classes=result.class_count,
        train_rows=len(np.unique(np.concatenate([train_part for train_part, _ in parts]))),
        test_rows=len(result.rows),
    )
    return NetworkProbe(**asdict(result), settings=settings, fits=tuple(fits))


def _fit(
    values: np.ndarray | PatchTokens,
    train_part: np.ndarray,
    test_part: np.ndarray,
    targets: np.ndarray,
    classes: int,
    recipe: NetworkRecipe,
    share: float,
    seed: int,
    device: str,
) -> tuple[NetworkFit, np.ndarray]:
    """Choose a setting, train it on all of train, and return the choice and the logits of the test rows."""
    from msgspec.structs import replace

    from snellen.features.probes.networks import measure_channels, train_networks

    grid = recipe.settings
    tried: tuple[NetworkTrial, ...] = ()
    rate, decay = grid[0]
    held_out = np.zeros(len(targets), dtype=bool)
    if len(grid) > 1:
        held_out = protocol.holdout(targets, share=share, seed=seed)
        if held_out.any() and not held_out.all():
            fitted, choosing = train_part[~held_out], train_part[held_out]
            scaling = measure_channels(values, fitted)
            networks = train_networks(values, fitted, targets[~held_out], classes, recipe, scaling, seed, device)
            scores = networks.logits(values, choosing)
            tried = tuple(
                NetworkTrial(*setting, *_measure(logits, targets[held_out]))
                for setting, logits in zip(grid, scores, strict=True)
            )
            best = min(tried, key=lambda trial: (-trial.score, trial.loss))
            rate, decay = best.rate, best.decay
        else:
            rate, decay = grid[len(grid) // 2]
    alone = replace(recipe, settings=((rate, decay),))
    scaling = measure_channels(values, train_part)
    network = train_networks(values, train_part, targets, classes, alone, scaling, seed, device)
    [logits] = network.logits(values, test_part)
    if not np.isfinite(logits).all():
        raise UsageError(f"training diverged with a rate of {rate:g}.", "Name smaller rates: --rates 1e-4,1e-3.")
    return NetworkFit(rate, decay, tried, int(held_out.sum()) if tried else 0), logits


def _measure(logits: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """Return (accuracy, log loss) for one class a row, (minus log loss, log loss) for several."""
    if not np.isfinite(logits).all():  # its training diverged
        return -np.inf, np.inf
    exact = logits.astype(np.float64)
    if targets.ndim == 2:
        loss = float((np.logaddexp(0.0, exact) - np.where(targets, exact, 0.0)).mean())
        return -loss, loss
    exact -= exact.max(axis=1, keepdims=True)
    likelihood = exact - np.log(np.exp(exact).sum(axis=1, keepdims=True))
    right = exact.argmax(axis=1) == targets
    return float(right.mean()), float(-likelihood[np.arange(len(exact)), targets].mean())


def _steps(training: NetworkTraining, rows: int) -> int:
    if training.epochs is not None:
        return max(1, round(training.epochs * rows / min(training.batch, max(rows, 1))))
    return STEPS if training.steps is None else training.steps


def _selection(fits: Sequence[NetworkFit], share: float, grid: int) -> str:
    if grid == 1:
        return "given"
    if all(fit.tried for fit in fits):
        return f"held-out {share:.0%} of train ({fits[0].held_out:,} rows), then trained on all of train"
    return "held-out part of train where one could be taken"


def _check_input(features: Any, kind: str) -> np.ndarray | PatchTokens:
    """Return the features. Raises UsageError for an unknown kind or another shape."""
    if kind not in DEFINITIONS:
        raise UsageError(f"there is no probe {kind!r}", f"Choose one of: {', '.join(DEFINITIONS)}.")
    if isinstance(features, PatchTokens):
        if kind == "mlp":
            raise UsageError("the MLP probe takes features of shape [n, d], not patch tokens.", "Take their mean.")
        return features
    if kind == "mlp":
        return check_values(features)
    values = np.asarray(features)
    if values.ndim != 3 or 0 in values.shape[1:] or values.dtype.kind not in "fiu":
        raise UsageError(
            f"the attentive probe takes patch tokens of shape [n, tokens, d]; {list(values.shape)} {values.dtype} was given",
            "Extract with --tokens, and open them with snellen.features.store.open_tokens.",
        )
    return values


def _check_settings(training: NetworkTraining) -> tuple[tuple[float, float], ...]:
    """Return every pair of rate and decay. Raises UsageError for a value out of range."""
    rates, decays, steps, epochs = training.rates, training.decays, training.steps, training.epochs
    batch, hidden = training.batch, training.hidden
    if not len(rates) or not all(0.0 < rate < np.inf for rate in rates):
        raise UsageError(f"learning rates {list(rates)}; positive numbers were expected", "Example: --rates 1e-4,1e-3.")
    if not len(decays) or not all(0.0 <= decay < np.inf for decay in decays):
        raise UsageError(f"weight decays {list(decays)}; numbers from 0 were expected", "Example: --decays 0,0.05.")
    if steps is not None and steps < 1:
        raise UsageError(f"{steps} steps; 1 or more were expected", "Omit it for 2,000.")
    if epochs is not None and not 0.0 < epochs < np.inf:
        raise UsageError(f"{epochs:g} epochs; a positive number was expected", "As in --epochs 10.")
    if batch < 1 or hidden < 1:
        raise UsageError(
            f"a batch of {batch} and a hidden layer of width {hidden}; 1 or more were expected", "As in --hidden 512."
        )
    return tuple((float(rate), float(decay)) for rate in rates for decay in decays)
