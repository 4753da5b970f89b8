"""Linear CKA against Gram matrices, and the debiased form against its definition over four different rows."""

import itertools
import json

import numpy as np
import pytest

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.cka import cka_matrix, linear_cka
from snellen.features.layers import layer_views
from snellen.features.store import import_file, open_store


def by_gram_matrices(x, y):
    n = len(x)
    centre = np.eye(n) - 1 / n
    k, m = (centre @ (v @ v.T) @ centre for v in (x, y))
    return (k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum())


def unbiased_hsic(k, m):
    """The mean over all four different rows, as the estimate is defined."""
    terms = [
        k[i, j] * m[i, j] + k[i, j] * m[q, r] - 2 * k[i, j] * m[i, q]
        for i, j, q, r in itertools.permutations(range(len(k)), 4)
    ]
    return np.mean(terms)


@pytest.mark.parametrize(("n", "d", "e"), [(5, 3, 7), (60, 40, 8), (30, 200, 3)])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_linear_cka_is_that_of_centred_gram_matrices(n, d, e, kind):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((n, d)) + 5).astype(kind)
    y = (x[:, :1].astype(float) + 0.5 * rng.standard_normal((n, e))).astype(kind)
    want = by_gram_matrices(x.astype(float), y.astype(float))
    assert linear_cka(x, y) == pytest.approx(want, rel=1e-6)


def test_debiased_cka_is_that_of_the_definition_over_four_different_rows():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((8, 3)) + 2, rng.standard_normal((8, 5)) - 1
    y[:, 0] += x[:, 1]
    k, m = x @ x.T, y @ y.T
    want = unbiased_hsic(k, m) / np.sqrt(unbiased_hsic(k, k) * unbiased_hsic(m, m))
    assert linear_cka(x, y, debiased=True) == pytest.approx(want, rel=1e-9)


def test_a_rotation_and_a_factor_change_nothing_and_unrelated_features_are_near_0_when_debiased():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 20))
    turned = 7 * x @ np.linalg.qr(rng.standard_normal((20, 20)))[0] + 3
    other = rng.standard_normal((100, 90))
    for debiased in (False, True):
        assert linear_cka(x, turned, debiased=debiased) == pytest.approx(1.0, abs=1e-9)
    assert linear_cka(x, other) > 0.2
    assert abs(linear_cka(x, other, debiased=True)) < 0.1


def test_numbers_of_any_size_have_a_cka_and_constant_ones_have_none():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 4)), rng.standard_normal((20, 4))
    assert linear_cka(x * 1e90, y * 1e-90) == pytest.approx(linear_cka(x, y))
    found = cka_matrix({"x": x, "flat": np.full((20, 3), 0.1)})
    assert found.metrics()[0].value is None and "flat" in found.notes()[0]


def test_what_has_no_cka_is_refused():
    with pytest.raises(UsageError, match="same rows"):
        cka_matrix({"a": np.eye(3), "b": np.eye(4)})
    with pytest.raises(UsageError, match="3 rows"):
        linear_cka(np.eye(3), np.eye(3), debiased=True)
    with pytest.raises(DataError, match="row 1"):
        linear_cka(np.eye(4), np.array([[0.0], [np.nan], [1.0], [2.0]]))


def store_of(folder, name, arrays, rows=40):
    np.savez(
        folder / f"{name}.npz",
        features=arrays,
        labels=np.arange(rows) % 4,
        split=np.array(["train", "test"] * (rows // 2)),
        ids=np.array([f"{row}.png" for row in range(rows)]),
    )
    output = name if "_last" in name else "features"
    return import_file(folder / f"{name}.npz", folder / name, output=output)


def test_the_command_compares_stores_and_the_blocks_of_an_output(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 12)).astype(np.float32)
    y = np.concatenate([x[:, :4], rng.standard_normal((40, 4))], axis=1).astype(np.float32)
    first, second = store_of(tmp_path, "cls_last3", x), store_of(tmp_path, "other", y)
    assert main(["features", "cka", str(first), str(second), "--layers", "--debiased", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = told["settings"]["representations"]
    assert names == ["cls_last3/block-3", "cls_last3/block-2", "cls_last3/block-1", "other"]
    values = {metric["name"]: metric["value"] for metric in told["metrics"]}
    test = np.arange(1, 40, 2)
    for i in range(3):
        want = linear_cka(x[test, 4 * i : 4 * i + 4], y[test], debiased=True)
        assert values[f"cka_debiased/cls_last3/block-{3 - i}/other"] == pytest.approx(want, abs=1e-6)
    assert told["settings"]["rows"] == 20 and np.array(told["settings"]["matrix"]).shape == (4, 4)
    assert main(["features", "cka", str(first), str(second), "--split", "train", "--limit", "10"]) == 0
    assert "10 of 20 rows" in capsys.readouterr().err
    assert main(["features", "cka", str(first)]) == DataError.exit_code
    assert "--layers" in capsys.readouterr().err
    assert main(["features", "cka", str(first), str(second), "--outputs", "nothing"]) == UsageError.exit_code


def test_blocks_are_in_the_order_of_the_store_and_widths_that_do_not_divide_are_refused(tmp_path):
    views = layer_views(open_store(store_of(tmp_path, "cls_last4", np.arange(320.0).reshape(40, 8))))
    assert (views[0].name, views[0].depth, views[0].values[0].tolist()) == ("block-4", 4, [0.0, 1.0])
    assert [view.depth for view in views] == [4, 3, 2, 1]
    with pytest.raises(DataError, match="3 blocks cannot share"):
        layer_views(open_store(store_of(tmp_path, "patch_mean_last3", np.ones((40, 8)))))
