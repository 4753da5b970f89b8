"""Sweeps over layers and k, as metrics and as curves."""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from snellen.cli import main
from snellen.errors import UsageError
from snellen.features.retrieval import retrieval
from snellen.features.store import import_file


@pytest.fixture
def store(tmp_path):
    """Three blocks of 5 columns, the last with the least noise."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4
    blocks = [np.eye(4, 5)[y] + noise * rng.standard_normal((80, 5)) for noise in (2.0, 1.0, 0.3)]
    np.savez(
        tmp_path / "f.npz",
        features=np.concatenate(blocks, axis=1).astype(np.float32),
        labels=y,
        split=np.where(np.arange(80) // 4 % 2, "test", "train"),
    )
    return import_file(tmp_path / "f.npz", tmp_path / "store", output="cls_last3")


def told(capsys, *command):
    assert main(["features", *map(str, command), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    return {metric["name"]: metric["value"] for metric in out["metrics"]}


def test_each_block_is_measured_as_an_output_of_its_own(store, capsys):
    values = told(capsys, "retrieval", store, "--layers")
    stored = np.load(store / "cls_last3.npy")
    split = np.where(np.arange(80) // 4 % 2, "test", "train")
    for depth in (1, 2, 3):
        part = stored[:, 15 - 5 * depth : 20 - 5 * depth]
        want = retrieval(part, np.arange(80) % 4, queries="test", gallery="train", split=split)
        assert values[f"block-{depth}/map"] == pytest.approx(want.values["map"].mean())
    assert values["block-1/map"] > values["block-2/map"] > values["block-3/map"]
    assert {"block-3/knn@5", "knn@5"} <= told(capsys, "knn", store, "--k", "5", "--layers").keys()
    assert "block-2/accuracy" in told(capsys, "probe", store, "--c", "1", "--layers")


@pytest.mark.parametrize(
    "options", [["knn", "--k", "1,5,20"], ["retrieval", "--layers"], ["probe", "--c", "1", "--layers"]]
)
def test_a_sweep_is_written_as_csv_svg_and_pdf(store, tmp_path, capsys, options):
    for ending in ("csv", "svg", "pdf"):
        file = tmp_path / f"curve.{ending}"
        values = told(capsys, options[0], store, *options[1:], "--curve", file)
    rows = list(csv.DictReader((tmp_path / "curve.csv").open()))
    axis = "k" if options[0] == "knn" else "block"
    for row in rows:
        name = (
            f"{row['metric'].replace('/top5', '')}@{row['k']}"
            if axis == "k"
            else f"block-{1 - int(row[axis])}/{row['metric']}"
        )
        name += "/top5" if axis == "k" and "/top5" in row["metric"] else ""
        assert float(row["value"]) == pytest.approx(values[name])
    assert len({row[axis] for row in rows}) == 3
    assert ElementTree.parse(tmp_path / "curve.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "curve.pdf").read_bytes().startswith(b"%PDF-")


def test_what_cannot_be_swept_is_refused(store, tmp_path, capsys):
    np.savez(tmp_path / "one.npz", features=np.eye(8), labels=np.arange(8) % 2)
    one = import_file(tmp_path / "one.npz", tmp_path / "one")
    for command, said in (
        (["retrieval", one, "--layers"], "has one block"),
        (["retrieval", store, "--layers", "--against", one], "takes no --against"),
        (["probe", store, "--c", "1", "--curve", tmp_path / "a.svg"], "nothing is swept"),
        (["knn", store, "--k", "1,3", "--curve", tmp_path / "a.html"], "ends in .html"),
        (["probe", store, "--method", "heads", "--layers"], "--layers"),
    ):
        assert main(["features", *map(str, command)]) == UsageError.exit_code
        assert said in capsys.readouterr().err
