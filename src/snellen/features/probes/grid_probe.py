"""Grid probe over a feature store: selects the grid's inputs and returns the chosen head as a probe's result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from numpy.typing import NDArray

from snellen.errors import UsageError
from snellen.features.layers import layer_views
from snellen.features.probes.calibration import BINS, Calibration, RowProbabilities, calibrate, class_probabilities
from snellen.features.probes.dinov2_grid import GridRecipe, HeadGrid, Trial, train_grid
from snellen.features.probes.head import ProbeHead, Scaling
from snellen.features.probes.protocol import finite_rows
from snellen.features.probes.results import Confusion, accuracy_metrics, count_confusions, place_true_class
from snellen.features.ranking.relevance import select_rows
from snellen.features.store import Features, open_store, store_outputs
from snellen.features.store.labels import Labels, find_columns
from snellen.types import Metric


class GridInputs(Struct, frozen=True, eq=False):
    """Inputs of the grid's heads.

    Attributes:
        features: labels and splits of the rows.
        cls: [n, d] class tokens of the last blocks, the last block first; or one output alone.
        patch_mean: [n, d] of the last block; None where one output alone is taken.
        outputs: the store's outputs that these are.
    """

    features: Features
    cls: tuple[NDArray[Any], ...]
    patch_mean: NDArray[Any] | None
    outputs: tuple[str, ...]


class GridProbeSettings(Struct, frozen=True):
    """Settings of a grid probe and the chosen head; `rate` as applied. `trials`: every head's accuracy."""

    method: str
    recipe: str
    inputs: tuple[str, ...]
    output: str
    heads: int
    blocks: int
    avgpool: bool
    rate: float
    optimiser: str
    iterations: int
    batch: int
    selection: str
    seed: int
    device: str
    classes: int
    train_rows: int
    test_rows: int
    trials: tuple[Trial, ...]


class GridProbe(Struct, frozen=True, eq=False):
    """The chosen head on each test row.

    Attributes:
        settings: as declared.
        targets: [m] class ids of the test rows.
        predicted: [m] class ids of the best score.
        rank: [m] 1-based place of the right class; classes + 1 where it was not in train.
        probabilities: what the head held likely.
        head: takes the output that `settings.output` names: `cls_last4`, or `cls_last4+patch_mean` side by side.
        labels: of all rows.
    """

    settings: GridProbeSettings
    targets: NDArray[np.int64]
    predicted: NDArray[np.int64]
    rank: NDArray[np.int64]
    probabilities: RowProbabilities
    head: ProbeHead
    labels: Labels

    def metrics(self) -> list[Metric]:
        """accuracy, accuracy/top5 (with more than five classes), balanced_accuracy."""
        return accuracy_metrics(self.rank, self.targets, self.settings.classes)

    def calibration(self, bins: int = BINS) -> Calibration:
        """Return `ece`, `nll`, `brier` and the reliability diagram."""
        return calibrate(self.probabilities, bins)

    def confusion(self) -> Confusion:
        """Return how often each class was taken for which."""
        return count_confusions(self.labels, self.targets, self.predicted)

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = []
        if "test rows" in self.settings.selection:
            notes.append("The head was chosen on the test rows: its accuracy is a maximum over heads, not an estimate.")
        if len(self.settings.inputs) == 1:
            notes.append(
                f"A single output ({self.settings.inputs[0]}): {self.settings.heads} heads, not the full grid."
            )
        lost = self.rank > self.settings.classes
        if lost.any():
            absent = len(np.unique(self.targets[lost]))
            notes.append(f"{lost.sum():,} test rows are of {absent:,} classes without a training row; they are wrong.")
        rates = sorted({trial.rate for trial in self.settings.trials})
        if len(rates) > 1 and self.settings.rate in (rates[0], rates[-1]):
            notes.append(f"The rate chosen ({self.settings.rate:g}) is at an end of the grid.")
        return notes


def find_inputs(store: Path, recipe: GridRecipe, output: str | None = None) -> GridInputs:
    """Find a recipe's inputs among the outputs of a store; values stay memory-mapped.

    The class tokens are those of `cls_lastN` with N as large as the recipe's last blocks or larger, the patch mean is
    `patch_mean` or the last block of `patch_mean_lastN`. With `output` named, heads are trained on it alone.

    Raises:
        UsageError: an output is missing; the message names what to extract.
        DataError: no store there.
    """
    if output is not None:
        features = open_store(store, output)
        return GridInputs(features, (features.values,), None, (features.name,))
    widths, need = store_outputs(store), max(recipe.blocks)
    tokens = _deepest(widths, "cls", need)
    means = "patch_mean" if "patch_mean" in widths else _deepest(widths, "patch_mean", 1)
    wanted = (f"cls_last{need}", "patch_mean")
    if tokens is None or means is None:
        missing = [name for name, match in zip(wanted, (tokens, means), strict=True) if match is None]
        raise UsageError(
            f"{store} has no {' and no '.join(missing)}, which {recipe.name}'s grid of heads reads; it has: "
            f"{', '.join(widths)}",
            f"Extract again with --outputs {','.join(('cls', *wanted))}; or name one output with --output for heads over "
            "that alone.",
        )
    features, pooled = open_store(store, tokens), open_store(store, means)
    blocks = _blocks(features)
    return GridInputs(features, tuple(blocks[:need]), _blocks(pooled)[0], (tokens, means))


def grid_probe(
    inputs: GridInputs,
    recipe: GridRecipe,
    *,
    train: str = "train",
    test: str = "test",
    epochs: float | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> GridProbe:
    """Train the grid on one split, choose a head as the recipe says, and score the other split with it.

    Args:
        epochs: passes over the training rows; None takes the recipe's iterations.
        seed, device: as `train_grid` takes them.

    Raises:
        UsageError: several labels a row, an unknown split, or fewer than two classes in train.
        DataError: a value that is not finite, naming the row.
        MissingExtraError: torch is not installed.
    """
    features = inputs.features
    known, count = features.labels, len(features.values)
    if known.single is None:
        raise UsageError("the grid of heads takes one label a row, and these rows have several", "Take another method.")
    if epochs is not None and not epochs > 0.0:
        raise UsageError(f"{epochs:g} epochs; a positive number was expected", "As in --epochs 10.")
    train_part, test_part = (
        select_rows(split, features.split, count, role) for split, role in ((train, "train"), (test, "test"))
    )
    if train == test:
        raise UsageError(f"train and test are both {train!r}", "Name splits that share no row.")
    classes = np.unique(known.single[train_part])
    if len(classes) < 2:
        raise UsageError(
            f"{len(train_part):,} training rows of {len(classes)} class(es): a classifier needs two classes at least",
            "Choose a split that has rows of two classes.",
        )
    rows = np.concatenate([train_part, test_part])
    # Only these rows are copied; test rows of classes without a training row match no column.
    tokens = [finite_rows(values, rows) for values in inputs.cls]
    means = None if inputs.patch_mean is None else finite_rows(inputs.patch_mean, rows)
    columns = find_columns(classes, known.single[rows])
    train_at, test_at = np.arange(len(train_part)), np.arange(len(train_part), len(rows))
    grid = train_grid(tokens, means, columns, train_at, test_at, recipe=recipe, epochs=epochs, seed=seed, device=device)
    head, output = _head(grid, inputs, known, classes)
    chosen = [*reversed(tokens[: grid.best.blocks]), *([means] if grid.best.avgpool and means is not None else [])]
    logits = head.logits(np.concatenate([values[test_at] for values in chosen], axis=1).astype(np.float32))
    predicted, targets, rank = place_true_class(logits, head.classes, known.single[test_part])
    likely = class_probabilities(logits, find_columns(head.classes, targets))
    settings = GridProbeSettings(
        "heads",
        recipe.name,
        inputs.outputs,
        output,
        len(grid.trials),
        grid.best.blocks,
        grid.best.avgpool,
        grid.best.rate,
        recipe.optimiser,
        grid.iterations,
        recipe.batch,
        grid.selection,
        seed,
        device,
        len(classes),
        len(train_part),
        len(test_part),
        grid.trials,
    )
    return GridProbe(settings, targets, predicted, rank, likely, head, known)


def _deepest(widths: Any, kind: str, need: int) -> str | None:
    """Return the output `<kind>_lastN` with the smallest N of at least `need`."""
    depths = {int(name.rpartition("_last")[2]): name for name in widths if _depth(name, kind)}
    fitting = [depth for depth in sorted(depths) if depth >= need]
    return depths[fitting[0]] if fitting else None


def _depth(name: str, kind: str) -> bool:
    stem, _, depth = name.rpartition("_last")
    return stem == kind and depth.isdecimal() and int(depth) > 0


def _blocks(features: Features) -> list[NDArray[Any]]:
    """Return views of an output's blocks, the last block first."""
    return [view.values for view in reversed(layer_views(features))]


def _head(grid: HeadGrid, inputs: GridInputs, labels: Labels, classes: NDArray[np.int64]) -> tuple[ProbeHead, str]:
    """Return the chosen layer, its class tokens in the store's order of blocks, and the output that it takes."""
    blocks, width = grid.best.blocks, inputs.cls[0].shape[1]
    parts = [grid.weights[i * width : (i + 1) * width] for i in reversed(range(blocks))]
    weights = np.concatenate([*parts, grid.weights[blocks * width :]])
    output = inputs.outputs[0] if len(inputs.outputs) == 1 else "cls" if blocks == 1 else f"cls_last{blocks}"
    output += "+patch_mean" if grid.best.avgpool else ""
    size = len(weights)
    columns = np.searchsorted(labels.classes, classes)
    names = None if labels.names is None else tuple(labels.names[column] for column in columns)
    head = ProbeHead(weights, grid.bias, Scaling("none", np.zeros(size), np.ones(size)), classes, names, False)
    return head, output


def head_for_saving(result: GridProbe, **extra: Any) -> ProbeHead:
    """Return the head with its settings for saving, without the trials."""
    from msgspec.structs import replace

    settings = {name: value for name, value in to_builtins(result.settings).items() if name != "trials"}
    return replace(result.head, settings={**settings, "standardise": "none", **extra})
