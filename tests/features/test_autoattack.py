"""AutoAttack's ensemble through its authors' package, where that is installed."""

import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from snellen.errors import MissingExtraError, UsageError  # noqa: E402
from snellen.features.attacks.robust_accuracy import attack_curve, autoattack_curve  # noqa: E402


def linear(classes=5):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 4 * 4, classes))
    images = torch.rand(8, 3, 4, 4, generator=torch.Generator().manual_seed(1))
    return model, images, model(images).argmax(1)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    with pytest.raises(MissingExtraError, match="pyautoattack") as raised:
        autoattack_curve(*linear(), eps=["1/255"])
    assert "[autoattack]" in raised.value.hint


def test_the_ensemble_breaks_a_linear_model_where_its_margin_says_so():
    pytest.importorskip("pyautoattack")
    model, images, labels = linear()
    weight = model[1].weight.detach()
    logits = model(images).detach()
    # The largest eps at which no class can overtake, without the bounds of pixels.
    bounds = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        others = [c for c in range(5) if c != label]
        bounds.append(min(float((row[label] - row[c]) / (weight[c] - weight[label]).abs().sum()) for c in others))
    eps = float(np.median(bounds))
    got = autoattack_curve(model, images, labels, eps=[0.0, eps], seed=1, batch_size=4)
    assert got.correct[0].all()
    assert got.correct[1][np.array(bounds) > eps * 1.01].all()
    assert got.distance[1] <= eps + 1e-6
    mine = attack_curve(model, images, labels, eps=[eps], steps=40, starts=None, batch_size=4)
    assert (got.correct[1] <= mine.correct[0]).all()
    with pytest.raises(UsageError, match="3 classes"):
        autoattack_curve(*linear(3), eps=[eps])
