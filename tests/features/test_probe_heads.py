"""The grid of heads and few-shot probes."""

from __future__ import annotations

import numpy as np
import pytest

from snellen.features.fewshot import draw, few_shot
from snellen.features.heads import DINOV2, FGBMK_LEGACY, train_grid


@pytest.fixture(scope="module")
def tokens():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 5
    means = rng.standard_normal((5, 12))
    cls = [(means[y] + rng.standard_normal((400, 12))).astype(np.float32) for _ in range(4)]
    return cls, (means[y] + rng.standard_normal((400, 12))).astype(np.float32), y


def test_dinov2s_52_heads_and_fgbmks_24_are_trained_and_one_is_chosen(tokens):
    cls, mean, y = tokens
    train, test = np.arange(300), np.arange(300, 400)
    grid = train_grid(cls, mean, y, train, test, recipe=DINOV2, epochs=10)
    assert len(grid.trials) == 52
    assert grid.best.accuracy == max(one.accuracy for one in grid.trials)
    assert (grid.predicted == y[test]).mean() > 0.9
    legacy = train_grid(cls, mean, y, train, test, recipe=FGBMK_LEGACY, epochs=3)
    assert len(legacy.trials) == 24
    assert legacy.best.accuracy == (legacy.predicted == y[test]).mean()
    assert "test rows" in legacy.selection


@pytest.mark.parametrize("recipe", [DINOV2, FGBMK_LEGACY])
def test_heads_trained_together_are_those_that_torchs_optimiser_trains_alone(tokens, recipe):
    torch = pytest.importorskip("torch")
    from msgspec.structs import replace

    cls, _, y = tokens
    one = replace(recipe, rates=(0.02,), blocks=(1,), select="test")
    rows = np.arange(300)
    found = train_grid(cls, None, y, rows, np.arange(300, 400), recipe=one, epochs=2)
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(12, 5)
    start = torch.randn(13, 5, generator=generator) * 0.01
    layer.weight.data, layer.bias.data = start[:-1].T.clone(), torch.zeros(5)
    rate = 0.02 * 128 / 256
    kind = torch.optim.SGD(layer.parameters(), rate, momentum=0.9)
    if recipe.optimiser == "adam":
        kind = torch.optim.Adam(layer.parameters(), rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(kind, lambda s: 0.5 * (1 + np.cos(np.pi * s / found.iterations)))
    order, at = torch.randperm(300, generator=generator), 0
    x, t = torch.from_numpy(cls[0][rows]), torch.from_numpy(y[rows])
    for _ in range(found.iterations):
        if at + 128 > 300:
            order, at = torch.randperm(300, generator=generator), 0
        picked = order[at : at + 128]
        at += 128
        kind.zero_grad()
        torch.nn.functional.cross_entropy(layer(x[picked]), t[picked]).backward()
        kind.step()
        schedule.step()
    np.testing.assert_allclose(found.weights, layer.weight.detach().numpy().T, atol=1e-5)
    np.testing.assert_allclose(found.bias, layer.bias.detach().numpy(), atol=1e-5)


def test_few_shot_draws_n_rows_a_class_and_all_of_a_smaller_one(tokens):
    targets = np.array([0] * 10 + [1] * 2 + [2] * 7)
    rows = draw(targets, 3, 0)
    assert np.bincount(targets[rows]).tolist() == [3, 2, 3]
    cls, _, y = tokens
    found = few_shot(cls[0], y, np.arange(300), np.arange(300, 400), ns=(1, 20), tries=3)
    assert found[1].mean > found[0].mean
    assert found[0].sd is not None and len(found[0].accuracies) == 3
