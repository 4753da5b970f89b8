"""DINOv2's grid of linear heads, trained at once by mini-batches, and FG-BMK's variant of it.

Source: DINOv2's linear evaluation (SGD with momentum, cosine to 0, no weight decay, N(0, 0.01) weights) and FG-BMK's
copy of it (Adam, 24 heads, the best head by test accuracy). A store holds each image's features once, so there is
no augmentation here; both papers' code crops at random.

All heads of one input are one matrix: a step is two products an input, whatever the number of learning rates, and one
batch of rows, gathered once, is the input of all: the tokens of the last blocks are laid behind each other so that
the input of fewer blocks is the first columns of that of more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from msgspec import Struct

from snellen.errors import MissingExtraError, UsageError
from snellen.features.probes.protocol import holdout
from snellen.installation import install_hint


class GridRecipe(Struct, frozen=True):
    """A grid and how it is trained; rates are multiplied by batch / 256. `select`: which rows choose the head."""

    name: str
    rates: tuple[float, ...]
    blocks: tuple[int, ...]
    optimiser: Literal["sgd", "adam"]
    select: Literal["held-out", "test"]
    iterations: int
    batch: int = 128


DINOV2 = GridRecipe(
    "dinov2",
    (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1),
    (1, 4),
    "sgd",
    "held-out",
    12_500,
)
FGBMK_LEGACY = GridRecipe("fgbmk-legacy", (1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2), (1, 2), "adam", "test", 10_000)


class Trial(Struct, frozen=True):
    """One head and the accuracy on the rows that choose; `rate` as applied, after scaling by the batch."""

    blocks: int
    avgpool: bool
    rate: float
    accuracy: float


class HeadGrid(Struct, frozen=True, eq=False):
    """Result of the grid.

    Attributes:
        recipe: as declared; `iterations` are those that were run.
        trials: every head, in the order blocks, avgpool, rate.
        best: the chosen head; of equal ones the first.
        selection: which rows chose.
        weights, bias: of the best head, [width, c] and [c] float32; fitted on all of train.
        predicted: [m] columns of the test rows.
    """

    recipe: GridRecipe
    iterations: int
    trials: tuple[Trial, ...]
    best: Trial
    selection: str
    weights: np.ndarray
    bias: np.ndarray
    predicted: np.ndarray


def head_input(cls: Sequence[np.ndarray], patch_mean: np.ndarray | None, blocks: int, avgpool: bool) -> np.ndarray:
    """Concatenate to [n, d * blocks (+ d)]: class tokens of the last blocks, the last block first, then the last block's patch mean."""
    parts = [*cls[:blocks], *([patch_mean] if avgpool and patch_mean is not None else [])]
    return np.concatenate(parts, axis=1)


def train_grid(
    cls: Sequence[np.ndarray],
    patch_mean: np.ndarray | None,
    targets: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
    *,
    recipe: GridRecipe = DINOV2,
    epochs: float | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> HeadGrid:
    """Train every head of the grid, choose one, and score test rows with it.

    With "held-out", heads are trained on nine tenths of train, the tenth chooses, and the chosen head is trained
    anew on all of train. With "test" (the legacy recipe) heads are trained on all of train and the test rows choose:
    the figure is then the maximum over the grid, not an estimate.

    Args:
        cls: class tokens [n, d] of the last blocks, the last block first; entries beyond what a recipe needs are
            not used, and a recipe's numbers of blocks beyond what is given are left out of the grid.
        patch_mean: [n, d] mean patch token of the last block; None leaves out the heads that need it.
        targets: [n] columns from 0 to c - 1.
        train, test: row numbers.
        epochs: passes over the training rows; None takes the recipe's iterations (minutes to hours without a GPU).
        seed: of the weights, the order of the rows and the held-out rows.
        device: as torch names it.

    Raises:
        MissingExtraError: torch is not installed.
        UsageError: no number of blocks of the recipe can be had, or train has no rows.
    """
    blocks = [count for count in recipe.blocks if count <= len(cls)]
    if not blocks or not len(train):
        raise UsageError(
            f"{recipe.name} needs class tokens of {recipe.blocks} blocks and training rows; {len(cls)} blocks and "
            f"{len(train):,} rows were given",
            "Extract the outputs cls, cls_last2 … and patch_mean.",
        )
    kinds = [(count, pooled) for count in blocks for pooled in (False, True) if patch_mean is not None or not pooled]
    rates = [rate * recipe.batch / 256.0 for rate in recipe.rates]
    classes = int(targets.max()) + 1
    legacy = recipe.select == "test"
    held_out = np.zeros(len(train), dtype=bool) if legacy else holdout(targets[train], seed=seed)
    if not legacy and not held_out.any():
        raise UsageError("no training row can be held out: every class has one.", "Use more rows a class.")
    fitted, choosing = train[~held_out], test if legacy else train[held_out]
    inputs = _Inputs(cls, patch_mean)
    layers = _fit(inputs, kinds, rates, targets, fitted, classes, recipe, epochs, seed, device)
    trials = []
    for (count, pooled), (weights, bias) in zip(kinds, layers, strict=True):
        rows = inputs.take(choosing, count, pooled)
        for number, rate in enumerate(rates):
            part = slice(number * classes, (number + 1) * classes)
            right = (rows @ weights[:, part] + bias[part]).argmax(axis=1) == targets[choosing]
            trials.append(Trial(count, pooled, rate, float(right.mean())))
    chosen = int(np.argmax([trial.accuracy for trial in trials]))
    best = trials[chosen]
    if legacy:
        weights, bias = layers[chosen // len(rates)]
        part = slice((chosen % len(rates)) * classes, (chosen % len(rates) + 1) * classes)
        weights, bias = weights[:, part], bias[part]
    else:
        kind = [(best.blocks, best.avgpool)]
        ((weights, bias),) = _fit(inputs, kind, [best.rate], targets, train, classes, recipe, epochs, seed, device)
    predicted = (inputs.take(test, best.blocks, best.avgpool) @ weights + bias).argmax(axis=1)
    selection = "test rows (legacy: the figure is a maximum over heads)" if legacy else "held-out tenth of train"
    steps = _steps(len(fitted), recipe, epochs)
    return HeadGrid(recipe, steps, tuple(trials), best, selection, weights, bias, predicted)


class _Inputs:
    """Rows of every input of the grid."""

    def __init__(self, cls: Sequence[np.ndarray], patch_mean: np.ndarray | None) -> None:
        self.cls, self.patch_mean = cls, patch_mean

    def take(self, rows: np.ndarray, blocks: int, avgpool: bool) -> np.ndarray:
        mean = None if self.patch_mean is None else self.patch_mean[rows]
        return head_input([tokens[rows] for tokens in self.cls[:blocks]], mean, blocks, avgpool).astype(np.float32)


def _steps(rows: int, recipe: GridRecipe, epochs: float | None) -> int:
    return recipe.iterations if epochs is None else max(1, round(epochs * rows / min(recipe.batch, rows)))


def _fit(
    inputs: _Inputs,
    kinds: Sequence[tuple[int, bool]],
    rates: Sequence[float],
    targets: np.ndarray,
    rows: np.ndarray,
    classes: int,
    recipe: GridRecipe,
    epochs: float | None,
    seed: int,
    device: str,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Train all heads; return (weights [width, rates * c], bias [rates * c]) of each input."""
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError("the grid of heads needs torch", install_hint("features")) from error

    deepest = max(count for count, _ in kinds)
    width = inputs.cls[0].shape[1]
    # The patch mean lies behind all class tokens: an input is a run of columns, or such a run and the last columns.
    every = torch.from_numpy(inputs.take(rows, deepest, inputs.patch_mean is not None)).to(device)
    wanted = torch.from_numpy(targets[rows].astype(np.int64)).to(device)
    batch, steps = min(recipe.batch, len(rows)), _steps(len(rows), recipe, epochs)
    draw = torch.Generator().manual_seed(seed)
    rate = torch.tensor(rates, device=device).repeat_interleave(classes)
    sizes = [width * (count + pooled) for count, pooled in kinds]
    # The last row is the bias, so that one product gives both gradients.
    layers = [torch.randn(size + 1, len(rates) * classes, generator=draw).mul_(0.01).to(device) for size in sizes]
    for layer in layers:
        layer[-1] = 0.0
    first = [torch.zeros_like(layer) for layer in layers]
    second = [torch.zeros_like(layer) for layer in layers] if recipe.optimiser == "adam" else []
    order, at = torch.randperm(len(rows), generator=draw), 0
    for step in range(steps):
        if at + batch > len(rows):
            order, at = torch.randperm(len(rows), generator=draw), 0
        picked = order[at : at + batch].to(device)
        at += batch
        block, right = every[picked], wanted[picked]
        fall = 0.5 * (1.0 + float(np.cos(np.pi * step / steps)))
        ones = torch.ones(batch, 1, device=device)
        for number, (count, pooled) in enumerate(kinds):
            parts = [block[:, : width * count], *([block[:, width * deepest :]] if pooled else []), ones]
            batch_rows = torch.cat(parts, dim=1)
            errors = torch.softmax((batch_rows @ layers[number]).view(batch, len(rates), classes), dim=2)
            errors.scatter_add_(
                2,
                right.view(-1, 1, 1).expand(-1, len(rates), 1),
                torch.full((batch, len(rates), 1), -1.0, device=device),
            )
            errors = errors.div_(batch).view(batch, -1)
            if recipe.optimiser == "sgd":
                first[number].addmm_(batch_rows.T, errors, beta=0.9)
                layers[number].addcmul_(first[number], rate, value=-fall)
            else:
                slope = batch_rows.T @ errors
                first[number].lerp_(slope, 0.1)
                second[number].mul_(0.999).addcmul_(slope, slope, value=0.001)
                spread = (second[number] / (1.0 - 0.999 ** (step + 1))).sqrt_().add_(1e-8)
                layers[number].addcmul_(first[number] / spread, rate, value=-fall / (1.0 - 0.9 ** (step + 1)))
    return [(layer[:-1].cpu().numpy(), layer[-1].cpu().numpy()) for layer in layers]
