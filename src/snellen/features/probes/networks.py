"""Small networks on frozen features, trained by mini-batches: an MLP, and attentive pooling of patch tokens.

Networks of several settings (learning rate, weight decay) begin with the same weights and see the same batches. They are
trained at once: their weights lie in one array [settings, ...], so that a batch is read once.

The attentive network is that of CAPI (Darcet et al. 2025, arXiv 2502.08769) and V-JEPA (Bardes et al. 2024, arXiv
2404.08471, without its second half, the MLP behind the pooling): one learned query, keys and values by linear maps of the
tokens, multi-head attention with heads of width 64, and a linear layer. Channels are normalised first, as by the batch
norm of AIM (El-Nouby et al. 2024, arXiv 2401.08541), with the statistics of train. Biases of keys and values are left out:
the softmax and the linear layer's bias cancel them. Since the query is the same for every image, W_k q is formed once a
step and values are mapped after pooling. That is the same function at a 64th of the products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import cos, pi
from typing import Literal, NamedTuple

import numpy as np
import torch
from msgspec import Struct
from torch import Tensor

from snellen.errors import DataError, UsageError
from snellen.features.store.format import PatchTokens

NetworkKind = Literal["mlp", "attentive"]
Values = np.ndarray | PatchTokens

HEAD_WIDTH = 64
WARM_UP = 0.1
BETAS = 0.9, 0.999
EPSILON = 1e-8
BLOCK_VALUES = 1 << 23
WORK_OF_A_THREAD = 2e8
"""Multiply-adds of a step that keep one thread busy, some milliseconds."""


class NetworkRecipe(Struct, frozen=True):
    """Settings of networks that are trained at once.

    Attributes:
        settings: (learning rate, weight decay) of each.
        steps, batch: of the training.
        hidden: width of the MLP's hidden layer.
    """

    kind: NetworkKind
    settings: tuple[tuple[float, float], ...]
    steps: int
    batch: int
    hidden: int


class ChannelScaling(NamedTuple):
    """Mean and standard deviation of each channel over the training rows, float32 [width]."""

    mean: Tensor
    scale: Tensor


class MlpLayers:
    """Networks of one hidden layer with GELU."""

    decayed = (True, False, True, False)

    def __init__(
        self, width: int, classes: int, count: int, hidden: int, mean: Tensor, scale: Tensor, draw: torch.Generator
    ) -> None:
        self.mean, self.scale = mean, scale
        first = torch.randn(width, hidden, generator=draw) * (2.0 / width) ** 0.5
        last = torch.randn(hidden, classes, generator=draw) * (1.0 / hidden) ** 0.5
        self.parameters = _repeated(count, first, torch.zeros(1, hidden), last, torch.zeros(1, classes))

    def forward(self, values: Tensor) -> Tensor:
        """Return logits [settings, B, classes] of features [B, width]."""
        first, first_bias, last, last_bias = self.parameters
        rows = ((values - self.mean) / self.scale).expand(len(first), -1, -1)
        hidden = torch.nn.functional.gelu(torch.baddbmm(first_bias, rows, first))
        return torch.baddbmm(last_bias, hidden, last)


class AttentiveLayers:
    """Networks of one learned query over tokens and a linear layer."""

    decayed = (False, True, True, True, False)

    def __init__(
        self, width: int, classes: int, count: int, mean: Tensor, scale: Tensor, draw: torch.Generator
    ) -> None:
        heads = count_heads(width)
        each = width // heads
        self.mean, self.scale = mean, scale
        query = torch.randn(heads, each, generator=draw) * 0.02
        key = (torch.rand(heads, each, width, generator=draw) * 2.0 - 1.0) * width**-0.5
        value = (torch.rand(heads, width, each, generator=draw) * 2.0 - 1.0) * width**-0.5
        linear = torch.randn(width, classes, generator=draw) * 0.02
        self.parameters = _repeated(count, query, key, value, linear, torch.zeros(1, classes))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits [settings, B, classes] of tokens [B, T, width]."""
        query, key, value, linear, bias = self.parameters
        count, heads, each = query.shape
        rows, width = len(tokens), tokens.shape[2]
        # Tokens are not normalised one by one: a shift of all cancels in the softmax, and pooling keeps the rest.
        folded_query = torch.matmul(query.unsqueeze(2), key).view(count * heads, width) / self.scale
        attention = torch.softmax(tokens @ (folded_query * each**-0.5).T, dim=1)
        pooled = torch.bmm(attention.transpose(1, 2), tokens)
        pooled = ((pooled - self.mean) / self.scale).view(rows, count * heads, width).transpose(0, 1)
        values = torch.bmm(pooled, value.view(count * heads, width, each))
        values = values.view(count, heads, rows, each).transpose(1, 2).reshape(count, rows, width)
        return torch.baddbmm(bias, values, linear)


Layers = MlpLayers | AttentiveLayers


class TrainedNetworks:
    """Networks after their training."""

    def __init__(self, layers: Layers, device: str, block: int) -> None:
        self._layers, self._device, self._block = layers, device, block

    def logits(self, values: Values, rows: np.ndarray) -> np.ndarray:
        """Return float32 [settings, m, classes] of these rows; not finite for a setting whose training diverged.

        Raises:
            DataError: a row is not finite.
        """
        parts = []
        for start in range(0, len(rows), self._block):
            part = rows[start : start + self._block]
            batch = _batch(values, part, self._device)
            wrong = np.flatnonzero(~torch.isfinite(batch).flatten(1).all(dim=1).cpu().numpy())
            if len(wrong):
                raise _not_finite(values, int(part[wrong[0]]))
            with torch.no_grad():
                scores = self._layers.forward(batch)
            parts.append(scores.cpu().numpy())
        return np.concatenate(parts, axis=1)


def count_heads(width: int) -> int:
    """Return the heads of tokens of this width: width / 64 of them, or the nearest number that divides it.

    >>> count_heads(768), count_heads(32), count_heads(1000)
    (12, 1, 20)
    """
    divisors = [heads for heads in range(1, width + 1) if width % heads == 0]
    return min(divisors, key=lambda heads: (abs(heads - width / HEAD_WIDTH), heads))


def rate_at(step: int, steps: int) -> float:
    """Return the share of the learning rate at a step: linear over the first tenth, then a cosine to 0.

    >>> [round(rate_at(step, 20), 2) for step in (0, 1, 2, 11, 19)]
    [0.5, 1.0, 1.0, 0.5, 0.01]
    """
    warm = int(WARM_UP * steps)
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1.0 + cos(pi * (step - warm) / (steps - warm)))


def measure_channels(values: Values, rows: np.ndarray) -> ChannelScaling:
    """Compute mean and deviation of each channel over these rows; a constant channel gets 1.

    Raises:
        DataError: a value is not finite; the message names its row.
    """
    total = squares = torch.zeros(1, dtype=torch.float64)
    count = 0
    shift: Tensor | None = None
    for part in _blocks(values, rows):
        block = _batch(values, part, "cpu")
        flat = block.reshape(-1, block.shape[-1]).double()
        if not torch.isfinite(flat).all():
            wrong = (~torch.isfinite(block.reshape(len(part), -1)).all(dim=1)).nonzero()
            raise _not_finite(values, int(part[int(wrong[0])]))
        shift = flat.mean(0) if shift is None else shift  # squares of what is left lose no digits
        flat -= shift
        total = total + flat.sum(0)
        squares = squares + flat.square().sum(0)
        count += len(flat)
    if shift is None:
        raise UsageError("there are no training rows.", "Name a split that has rows.")
    mean = total / count
    deviation = (squares / count - mean.square()).clamp(min=0.0).sqrt()
    centre = mean + shift
    constant = deviation <= 1e-7 * centre.abs()
    return ChannelScaling(centre.float(), torch.where(constant, 1.0, deviation).float())


def build_layers(
    kind: NetworkKind,
    values: Values,
    classes: int,
    count: int,
    hidden: int,
    scaling: ChannelScaling,
    draw: torch.Generator,
    device: str,
) -> Layers:
    """Build the networks of `count` settings, all with the same weights."""
    width = values.shape[-1]
    mean, scale = scaling.mean.to(device), scaling.scale.to(device)
    layers: Layers
    if kind == "mlp":
        layers = MlpLayers(width, classes, count, hidden, mean, scale, draw)
    else:
        layers = AttentiveLayers(width, classes, count, mean, scale, draw)
    layers.parameters = [weight.to(device) for weight in layers.parameters]
    return layers


def train_networks(
    values: Values,
    rows: np.ndarray,
    targets: np.ndarray,
    classes: int,
    recipe: NetworkRecipe,
    scaling: ChannelScaling,
    seed: int,
    device: str,
) -> TrainedNetworks:
    """Train a network of each setting with AdamW; weights and the order of rows follow from the seed.

    Args:
        values: [n, width], or [n, tokens, width] for the attentive network.
        rows: row numbers to train on; `targets` of these: [m] columns, or [m, classes] bool.
        device: as torch names it.
    """
    draw = torch.Generator().manual_seed(seed)
    layers = build_layers(recipe.kind, values, classes, len(recipe.settings), recipe.hidden, scaling, draw, device)
    for weight in layers.parameters:
        weight.requires_grad_()
    rates = torch.tensor([rate for rate, _ in recipe.settings], device=device)
    decays = torch.tensor([decay for _, decay in recipe.settings], device=device)
    moments = [(torch.zeros_like(weight), torch.zeros_like(weight)) for weight in layers.parameters]
    several = targets.ndim == 2
    wanted = torch.from_numpy(targets.astype(np.float32 if several else np.int64)).to(device)
    batch = min(recipe.batch, len(rows))
    order, at = torch.randperm(len(rows), generator=draw), 0
    with _threads(_work(values, batch, recipe)):
        for step in range(recipe.steps):
            if at + batch > len(rows):
                order, at = torch.randperm(len(rows), generator=draw), 0
            picked = order[at : at + batch]
            at += batch
            scores = layers.forward(_batch(values, rows[picked.numpy()], device))
            loss = _loss(scores, wanted[picked.to(device)], several)
            slopes = torch.autograd.grad(loss, layers.parameters)
            _adamw(layers, slopes, moments, rates * rate_at(step, recipe.steps), decays, step)
    for weight in layers.parameters:
        weight.requires_grad_(False)
    return TrainedNetworks(layers, device, max(1, BLOCK_VALUES // _row_values(values)))


def require_device(device: str) -> None:
    """Raise UsageError for a device that torch cannot use here."""
    try:
        torch.zeros(1, device=device)
    except Exception as error:  # torch raises several kinds
        raise UsageError(f"--device {device}: {str(error).splitlines()[0]}", "As in --device cpu or cuda.") from error


def _loss(scores: Tensor, wanted: Tensor, several: bool) -> Tensor:
    """Sum the mean losses of the settings, so that each gets its own gradient."""
    if several:
        every = torch.nn.functional.binary_cross_entropy_with_logits(
            scores, wanted.expand(len(scores), -1, -1), reduction="none"
        )
        return every.mean((1, 2)).sum()
    every = torch.nn.functional.cross_entropy(scores.flatten(0, 1), wanted.repeat(len(scores)), reduction="none")
    return every.view(len(scores), -1).mean(1).sum()


def _adamw(
    layers: Layers,
    slopes: Sequence[Tensor],
    moments: Sequence[tuple[Tensor, Tensor]],
    rates: Tensor,
    decays: Tensor,
    step: int,
) -> None:
    """Step with each setting's rate and decay (Loshchilov and Hutter 2019, arXiv 1711.05101); biases and query are not decayed."""
    with torch.no_grad():
        for weight, decayed, slope, (first, second) in zip(
            layers.parameters, layers.decayed, slopes, moments, strict=True
        ):
            shape = (-1, *(1 for _ in weight.shape[1:]))
            rate = rates.view(shape)
            if decayed:
                weight.mul_(1.0 - rate * decays.view(shape))
            first.lerp_(slope, 1.0 - BETAS[0])
            second.mul_(BETAS[1]).addcmul_(slope, slope, value=1.0 - BETAS[1])
            spread = (second.sqrt() / (1.0 - BETAS[1] ** (step + 1)) ** 0.5).add_(EPSILON)
            weight.sub_(rate / (1.0 - BETAS[0] ** (step + 1)) * first / spread)


def _repeated(count: int, *weights: Tensor) -> list[Tensor]:
    """Return a copy of each weight for each setting: [settings, ...]."""
    return [weight.expand(count, *weight.shape).clone() for weight in weights]


def _batch(values: Values, rows: np.ndarray, device: str) -> Tensor:
    """Read rows as float32; half precision is converted where it is used, half as much to copy."""
    raw = values.stored(rows) if isinstance(values, PatchTokens) else np.asarray(values[rows])
    if raw.dtype not in (np.float16, np.float32):
        raw = raw.astype(np.float32)
    return torch.from_numpy(np.ascontiguousarray(raw)).to(device).float()


def _blocks(values: Values, rows: np.ndarray) -> Iterator[np.ndarray]:
    size = max(1, BLOCK_VALUES // _row_values(values))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _row_values(values: Values) -> int:
    return int(np.prod(values.shape[1:]))


def _not_finite(values: Values, row: int) -> DataError:
    place = f"{values.path}: patch tokens" if isinstance(values, PatchTokens) else "features"
    return DataError(
        f"{place}: row {row} holds a value that is not finite, or too large for float32",
        "Extract this row again, or exclude it and report that.",
    )


def _work(values: Values, batch: int, recipe: NetworkRecipe) -> float:
    """Return the multiply-adds of one step, forwards and backwards."""
    inside = recipe.hidden if recipe.kind == "mlp" else 2 * count_heads(values.shape[-1])
    return 3.0 * batch * _row_values(values) * inside * len(recipe.settings)


@contextmanager
def _threads(work: float) -> Iterator[None]:
    """Use as many threads as a step keeps busy: those of a small product wait longer than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, min(before, int(work // WORK_OF_A_THREAD))))
    try:
        yield
    finally:
        torch.set_num_threads(before)
