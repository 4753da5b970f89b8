"""Paired differences between encoders, by row and against the plain reading of each measure."""

import json

import numpy as np
import pytest

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.knn import knn
from snellen.features.pairing import paired_differences, row_values, share_rows
from snellen.features.probes import probe
from snellen.features.retrieval import retrieval
from snellen.features.store import import_file, open_store
from snellen.scoring.statistics import compare

CLASSES = 6


def save(folder, name, *, noise, order=None, drop=(), seed=0, classes=CLASSES, labels=None):
    """A store of 90 rows whose signal is the same for all seeds."""
    y = np.arange(90) % classes if labels is None else labels
    x = np.eye(classes, 12)[np.arange(90) % classes] + noise * np.random.default_rng(seed).standard_normal((90, 12))
    rows = np.array([i for i in (range(90) if order is None else order) if i not in drop])
    np.savez(
        folder / f"{name}.npz",
        features=x.astype(np.float32)[rows],
        labels=y[rows],
        split=np.where(rows // CLASSES % 2, "test", "train"),
        ids=np.array([f"{row}.png" for row in rows]),
    )
    return import_file(folder / f"{name}.npz", folder / name)


@pytest.fixture
def stores(tmp_path):
    good = save(tmp_path, "good", noise=0.3, seed=1)
    bad = save(tmp_path, "bad", noise=0.9, seed=2, order=list(reversed(range(90))), drop=(0, 1, 7))
    return good, bad


def told(capsys, *command):
    assert main(["features", *map(str, command), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    return out, {metric["name"]: metric for metric in out["metrics"]}


def test_rows_are_matched_by_split_and_id_in_any_order(stores):
    both = [open_store(path) for path in stores]
    (a, b), notes = share_rows(both, ["good", "bad"])
    assert a.ids.tolist() == b.ids.tolist() and a.split.tolist() == b.split.tolist() and len(a) == 87
    assert a.labels.columns.tolist() == b.labels.columns.tolist()
    assert len(notes) == 1 and "good: 3 rows" in notes[0]


def test_a_paired_difference_is_that_of_each_measure_alone_with_its_interval_and_p(stores, capsys):
    (a, b), _ = share_rows([open_store(path) for path in stores], ["good", "bad"])
    out, metrics = told(capsys, "retrieval", stores[0], "--against", stores[1])
    first, second = (retrieval(x.values, x.labels, queries="test", gallery="train", split=x.split) for x in (a, b))
    want = compare(first.values["map"], second.values["map"], first.cluster)
    got = metrics["difference/good-bad/map"]
    assert got["value"] == pytest.approx(first.values["map"].mean() - second.values["map"].mean())
    assert got["value"] == want.difference and tuple(got["ci95"]) == want.ci95
    assert got["interval"]["cluster"] == "class" and got["interval"]["clusters"] == CLASSES
    assert metrics["bad/map"]["value"] == pytest.approx(second.values["map"].mean())
    assert metrics["map"]["value"] == pytest.approx(first.values["map"].mean())
    assert out["settings"]["comparisons"]["bad"]["map"]["p_value"] == want.p_value
    assert any(f"p = {want.p_value:.3g}" in note for note in out["notes"])
    assert "not corrected" in " ".join(out["notes"])


def test_a_paired_difference_of_votes_and_probes_is_an_exact_test_over_images(stores, capsys):
    (a, b), _ = share_rows([open_store(path) for path in stores], ["good", "bad"])
    out, metrics = told(capsys, "knn", stores[0], "--k", "5", "--interval", "query", "--against", stores[1])
    hits = [knn(x.values, x.labels, split=x.split, ks=(5,)).values["knn@5"] for x in (a, b)]
    assert metrics["difference/good-bad/knn@5"]["value"] == pytest.approx((hits[0] - hits[1]).mean())
    assert out["settings"]["comparisons"]["bad"]["knn@5"]["test"] == "exact McNemar"
    out, metrics = told(capsys, "probe", stores[0], "--c", "1", "--against", stores[1])
    right = [
        probe(x.values, x.labels, train_rows="train", test_rows="test", split=x.split, strengths=[1.0]).correct
        for x in (a, b)
    ]
    comparison = out["settings"]["comparisons"]["bad"]["accuracy"]
    assert comparison["wins"] == int((right[0] & ~right[1]).sum())
    assert comparison["losses"] == int((right[1] & ~right[0]).sum())
    assert metrics["difference/good-bad/nll"]["unit"] == "nats"


def test_an_encoder_against_itself_differs_by_nothing(stores):
    one = open_store(stores[0])
    result = row_values(retrieval(one.values, one.labels))
    for comparison in paired_differences(result, result).values():
        assert comparison.difference == 0.0 and comparison.p_value == 1.0


def test_several_stores_are_compared_and_the_same_one_twice_is_refused(tmp_path, capsys):
    store = save(tmp_path, "one", noise=0.4)
    other = save(tmp_path, "two", noise=0.8, seed=4)
    _, metrics = told(capsys, "retrieval", store, "--against", other, "--against", save(tmp_path, "three", noise=1.0))
    assert {"difference/one-two/map", "difference/one-three/map"} <= metrics.keys()
    assert main(["features", "retrieval", str(store), "--against", str(store)]) == UsageError.exit_code
    assert "named twice" in capsys.readouterr().err
    assert main(["features", "knn", str(store), "--against-output", "cls"]) == UsageError.exit_code


def test_stores_that_cannot_be_paired_are_refused(stores, tmp_path, capsys):
    wrong = save(tmp_path, "wrong", noise=0.5, labels=(np.arange(90) + 1) % CLASSES)
    assert main(["features", "knn", str(stores[0]), "--against", str(wrong)]) == DataError.exit_code
    assert "has another class in wrong" in capsys.readouterr().err
    far = save(tmp_path, "far", noise=0.5, drop=range(90 - 1))
    near = save(tmp_path, "near", noise=0.5, drop=range(1, 90))
    with pytest.raises(DataError, match="share no rows"):
        share_rows([open_store(far), open_store(near)], ["far", "near"])
    np.savez(tmp_path / "twice.npz", features=np.eye(4), labels=[0, 0, 1, 1], ids=np.array(["a", "a", "b", "c"]))
    twice = open_store(import_file(tmp_path / "twice.npz", tmp_path / "twice"))
    with pytest.raises(DataError, match="comes twice"):
        share_rows([twice, twice], ["a", "b"])
    several = probe(np.eye(8), np.eye(8, 2)[np.arange(8) % 2].astype(int) + [[0, 1]] * 8 > 0, strengths=[1.0], folds=2)
    with pytest.raises(UsageError, match="several labels"):
        row_values(several)


def test_grids_shots_and_the_legacy_rank_take_no_other_store(stores, capsys):
    for options in (
        ["probe", "--shots", "1"],
        ["probe", "--method", "heads"],
        ["retrieval", "--profile", "fgbmk-legacy"],
    ):
        command = ["features", options[0], str(stores[0]), *options[1:], "--against", str(stores[1])]
        assert main(command) == UsageError.exit_code
        assert "--against" in capsys.readouterr().err
