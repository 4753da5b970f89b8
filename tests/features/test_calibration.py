"""Calibration and confusion of probes against naive code and scikit-learn."""

import csv
import json

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, log_loss, multilabel_confusion_matrix

from snellen.cli import main
from snellen.errors import UsageError
from snellen.features.probes import probe
from snellen.features.probes.calibration import calibrate, class_probabilities, label_probabilities
from snellen.features.probes.results import Confusion
from snellen.features.store import import_file


def naive_ece(confidence, right, bins):
    """Bin by bin, as the definition says."""
    total = 0.0
    for i in range(bins):
        low, high = np.linspace(0, 1, bins + 1)[i : i + 2]
        inside = [j for j, c in enumerate(confidence) if low < c <= high or (i == 0 and c == 0.0)]
        if inside:
            gap = np.mean([right[j] for j in inside]) - np.mean([confidence[j] for j in inside])
            total += len(inside) / len(confidence) * abs(gap)
    return total


def by_name(metrics):
    return {metric.name: metric for metric in metrics}


@pytest.mark.parametrize("bins", [1, 7, 15])
@pytest.mark.parametrize("size", [0.1, 3.0, 300.0])
def test_calibration_of_one_class_a_row_is_that_of_naive_code(bins, size):
    rng = np.random.default_rng(4)
    logits, truth = size * rng.standard_normal((300, 6)), rng.integers(0, 6, 300)
    got = by_name(calibrate(class_probabilities(logits.astype(np.float32), truth), bins).metrics)
    exact = logits.astype(np.float32).astype(np.float64)
    p = np.exp(exact - exact.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    assert got["ece"].value == pytest.approx(naive_ece(p.max(1), p.argmax(1) == truth, bins), abs=1e-9)
    own = exact[np.arange(300), truth]
    total = np.array([np.logaddexp.reduce(row) for row in exact])
    assert got["nll"].value == pytest.approx((total - own).mean(), rel=1e-12)
    assert got["brier"].value == pytest.approx(((p - np.eye(6)[truth]) ** 2).sum(1).mean(), abs=1e-12)
    low, high = got["nll"].ci95
    assert low < got["nll"].value < high and got["nll"].interval.method == "Student t"


def test_calibration_of_several_labels_takes_each_label_of_each_row():
    rng = np.random.default_rng(1)
    logits, truth = 2 * rng.standard_normal((80, 5)), rng.random((80, 5)) < 0.3
    got = calibrate(label_probabilities(logits, truth), 10)
    p = 1 / (1 + np.exp(-logits))
    values = by_name(got.metrics)
    assert values["ece"].value == pytest.approx(naive_ece(p.ravel(), truth.ravel(), 10), abs=1e-12)
    assert values["nll"].value == pytest.approx(-np.log(np.where(truth, p, 1 - p)).mean())
    assert values["brier"].value == pytest.approx(((p - truth) ** 2).mean())
    assert values["ece"].interval.cluster == "image" and values["ece"].interval.clusters == 80
    assert sum(one.n for one in got.bins) == 400


def test_a_probe_that_knows_its_doubt_is_calibrated_and_one_that_boasts_is_not():
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1.0, 4000)
    truth = (rng.random(4000) > sure).astype(int)
    logits = np.stack([np.log(sure), np.log(1 - sure)], axis=1)
    good, bad = (by_name(calibrate(class_probabilities(k * logits, truth)).metrics) for k in (1, 8))
    assert good["ece"].value < 0.04 < 0.15 < bad["ece"].value
    assert good["ece"].ci95[1] < bad["ece"].ci95[0]
    assert good["nll"].value < bad["nll"].value


def test_a_probes_likelihood_and_confusions_are_those_of_scikit_learn():
    x, y = load_digits(return_X_y=True)
    x, y = x[:600] / 16, y[:600]
    split = np.array(["train"] * 400 + ["test"] * 200)
    fitted = probe(x, y, train_rows="train", test_rows="test", split=split, strengths=[0.1])
    peer = LogisticRegression(C=0.1, tol=1e-10, max_iter=5000).fit(x[:400], y[:400])
    got = by_name(fitted.calibration().metrics)
    assert got["nll"].value == pytest.approx(log_loss(y[400:], peer.predict_proba(x[400:])), abs=1e-4)
    np.testing.assert_array_equal(fitted.confusion().counts, confusion_matrix(y[400:], peer.predict(x[400:])))
    worst = fitted.confusion().mistakes()[0]
    counts = confusion_matrix(y[400:], peer.predict(x[400:])) * (1 - np.eye(10, dtype=int))
    assert worst.n == counts.max() and counts[int(worst.true), int(worst.predicted)] == worst.n


def test_several_labels_have_four_counts_a_class():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 6))
    y = (x[:, :4] + 0.5 * rng.standard_normal((200, 4)) > 0).astype(int)
    fitted = probe(x, y, train_rows=np.arange(100), test_rows=np.arange(100, 200), strengths=[1.0])
    np.testing.assert_array_equal(
        fitted.confusion().counts, multilabel_confusion_matrix(y[100:], fitted.predicted.astype(int))
    )
    assert fitted.confusion().table()[0][0] == "class" and not fitted.confusion().mistakes()


def test_classes_that_train_lacks_lower_the_coverage_of_the_likelihood_alone():
    x = np.random.default_rng(0).standard_normal((40, 3))
    y = np.r_[np.arange(30) % 2, np.arange(10) % 3]
    fitted = probe(x, y, train_rows=np.arange(30), test_rows=np.arange(30, 40), strengths=[1.0])
    got = fitted.calibration()
    values = by_name(got.metrics)
    assert values["nll"].coverage == 0.7 and values["ece"].coverage == 1.0 and np.isfinite(values["nll"].value)
    assert "3 test rows" in got.notes[0]
    assert fitted.confusion().counts[2].sum() == 3 and fitted.confusion().counts[:, 2].sum() == 0


def test_every_fold_of_a_cross_validation_is_in_the_calibration():
    x, y = load_digits(return_X_y=True)
    fitted = probe(x[:200] / 16, y[:200], method="lda", strengths=[0.3])
    assert [metric.n for metric in fitted.calibration().metrics] == [200] * 3
    assert fitted.confusion().counts.sum() == 200
    assert sorted(fitted.probabilities.row.tolist()) == list(range(200))


def test_the_posteriors_of_lda_are_those_of_gaussians_and_ridge_has_none():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 3
    x = rng.standard_normal((400, 4)) + 2 * np.eye(3, 4)[y]
    fitted = probe(x, y, train_rows=np.arange(300), test_rows=np.arange(300, 400), method="lda", strengths=[1e-9])
    means = np.stack([x[:300][y[:300] == c].mean(0) for c in range(3)])
    within = x[:300] - means[y[:300]]
    inverse = np.linalg.inv(within.T @ within / 300)
    away = np.stack([((x[300:] - m) @ inverse * (x[300:] - m)).sum(1) for m in means], axis=1)
    p = np.exp(-away / 2)
    p /= p.sum(1, keepdims=True)
    np.testing.assert_allclose(fitted.probabilities.confidence, p.max(1), atol=1e-4)
    ridge = probe(x, y, train_rows=np.arange(300), test_rows=np.arange(300, 400), method="ridge")
    with pytest.raises(UsageError, match="no probabilities"):
        ridge.calibration()
    with pytest.raises(UsageError, match="0 bins"):
        fitted.calibration(0)


@pytest.fixture
def store(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 4
    np.savez(
        tmp_path / "f.npz",
        features=(rng.standard_normal((120, 5)) + np.eye(4, 5)[y]).astype(np.float32),
        labels=y,
        split=np.array(["train"] * 80 + ["test"] * 40),
        class_names=np.array(["a, b", "tern", "wren", "tern"]),
    )
    return import_file(tmp_path / "f.npz", tmp_path / "store")


@pytest.mark.parametrize("method", [["--c", "1"], ["--method", "heads", "--output", "features", "--epochs", "3"]])
def test_the_command_reports_calibration_and_writes_the_matrix(store, tmp_path, capsys, method):
    file = tmp_path / "confusion.csv"
    command = ["features", "probe", str(store), *method, "--calibration", "--bins", "5", "--confusion", str(file)]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    values = {metric["name"]: metric for metric in told["metrics"]}
    assert {"accuracy", "ece", "nll", "brier"} <= values.keys() and values["nll"]["unit"] == "nats"
    assert len(told["settings"]["reliability"]) == 5
    rows = list(csv.reader(file.open()))
    assert rows[0] == ["true \\ predicted", "a, b", "tern (1)", "wren", "tern (3)"]
    counts = np.array([row[1:] for row in rows[1:]], dtype=int)
    assert counts.sum() == 40 and counts.trace() / 40 == pytest.approx(values["accuracy"]["value"])
    assert main(command) == 0
    assert "were taken for" in capsys.readouterr().err


def test_ridge_and_files_of_another_form_are_refused_before_training(store, tmp_path, capsys):
    assert main(["features", "probe", str(store), "--method", "ridge", "--calibration"]) == UsageError.exit_code
    assert "no probabilities" in capsys.readouterr().err
    assert main(["features", "probe", str(store), "--confusion", str(tmp_path / "a.xlsx")]) == UsageError.exit_code
    assert "ends in .xlsx" in capsys.readouterr().err
    assert main(["features", "probe", str(store), "--shots", "1", "--calibration"]) == UsageError.exit_code


def test_names_of_classes_in_a_saved_confusion_are_no_formulas(tmp_path):
    counts = np.array([[3, 1], [0, 2]])
    path = Confusion(("=cmd|' /C calc'!A0", " +1"), counts).save(tmp_path / "confusion.csv")
    with path.open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1:] == [["'=cmd|' /C calc'!A0", "3", "1"], ["' +1", "0", "2"]]
