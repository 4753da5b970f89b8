"""Uniformity and alignment on the sphere against a loop over pairs."""

import itertools
import json

import numpy as np
import pytest

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features import uniformity as module
from snellen.features.store import import_file
from snellen.features.uniformity import uniformity


def by_pairs(x, related, t, alpha):
    x = x.astype(float)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = list(itertools.combinations(range(len(x)), 2))
    away = {pair: np.linalg.norm(x[pair[0]] - x[pair[1]]) for pair in pairs}
    log = np.log(np.mean([np.exp(-t * away[pair] ** 2) for pair in pairs]))
    return log, np.mean([away[pair] ** alpha for pair in pairs if related(*pair)])


@pytest.mark.parametrize("block", [1, 7, 1024])
@pytest.mark.parametrize(("t", "alpha"), [(2.0, 2.0), (0.5, 1.0), (3.0, 4.0)])
def test_both_losses_are_those_of_a_loop_over_pairs(monkeypatch, block, t, alpha):
    monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(0)
    x, y = (10 * rng.standard_normal((31, 4)) + 3).astype(np.float32), rng.integers(0, 5, 31)
    got = uniformity(x, y, t=t, alpha=alpha)
    want = by_pairs(x, lambda i, j: y[i] == y[j], t, alpha)
    assert (got.uniformity, got.alignment) == pytest.approx(want, rel=1e-6)
    sets = [frozenset(rng.choice(6, 2, replace=False).tolist()) for _ in x]
    several = uniformity(x, sets, t=t, alpha=alpha)
    want = by_pairs(x, lambda i, j: bool(sets[i] & sets[j]), t, alpha)
    assert (several.uniformity, several.alignment) == pytest.approx(want, rel=1e-6)
    assert several.pairs == 31 * 30 // 2


def test_a_point_is_not_uniform_and_even_points_are():
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    one = uniformity(np.ones((50, 2)), np.zeros(50, dtype=int))
    assert one.uniformity == pytest.approx(0.0, abs=1e-12) and one.alignment == pytest.approx(0.0, abs=1e-12)
    assert uniformity(circle, np.arange(200)).uniformity < -1.5
    assert uniformity(circle, np.arange(200)).alignment is None
    assert uniformity(np.zeros((3, 2)), [0, 0, 1]).notes()
    assert uniformity(np.ones((1, 2)), [0]).uniformity is None


def test_odd_numbers_are_refused_and_the_command_takes_the_queries(tmp_path, capsys):
    with pytest.raises(UsageError, match="positive"):
        uniformity(np.eye(3), [0, 1, 1], t=0.0)
    with pytest.raises(DataError, match="row 2"):
        uniformity(np.array([[1.0], [2.0], [np.inf]]), [0, 1, 1])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 3)).astype(np.float32), np.arange(40) % 3
    np.savez(tmp_path / "f.npz", features=x, labels=y, split=np.array(["train", "test"] * 20))
    store = import_file(tmp_path / "f.npz", tmp_path / "store")
    assert main(["features", "retrieval", str(store), "--uniformity", "--json"]) == 0
    told = {one["name"]: one["value"] for one in json.loads(capsys.readouterr().out)["metrics"]}
    want = uniformity(x[1::2], y[1::2])
    assert told["uniformity"] == pytest.approx(want.uniformity) and told["class_alignment"] == want.alignment
