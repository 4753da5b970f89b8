"""Published figures of FG-BMK's machine-oriented tables: the cells, and whose data set they are shown beside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from snellen.cli import main
from snellen.features import import_file
from snellen.features.published import DATASETS, figures_of, name_dataset, published_tables
from snellen.reports.features.build import write_report


def store(folder: Path, labels: list[str] | None = None) -> Path:
    rng = np.random.default_rng(0)
    classes = np.arange(48) % 4
    values = np.eye(4)[classes] * 3 + rng.normal(size=(48, 4))
    given = classes if labels is None else np.array(labels)
    np.savez(
        folder.with_suffix(".npz"),
        features=values.astype("float32"),
        labels=given,
        split=["train"] * 32 + ["test"] * 16,
        ids=[str(number) for number in range(48)],
    )
    import_file(str(folder.with_suffix(".npz")), str(folder))
    return folder


def run(capsys, *words: str) -> dict:
    assert main(list(words)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("measure", "dataset", "row", "value"),
    [
        ("probe", "cub", "DINOv2-L", 0.9165),
        ("probe", "inat2021", "CoCa-L", 0.4059),
        ("probe", "wine", "BEiT3-L-ITC", 0.8885),
        ("retrieval", "cub", "DINOv2-L", 0.9195),
        ("retrieval", "products10k", "EVA02-CLIP-L", 0.4805),
        ("retrieval", "vegfru", "Qwen-VL-Chat", 0.7806),
        ("alignment", "stanforddog", "aligned (Aligned)", 0.7814),
        ("attack", "cifar100", "ViT (ImageNet cross-entropy)", 0.8981),
    ],
)
def test_a_published_cell_has_its_value_row_column_and_source(measure, dataset, row, value):
    figures, _ = figures_of(dataset, measure)
    (cell,) = [cell for cell in figures if cell.row == row and cell.figure in ("accuracy", "fgbmk_legacy_map", "clean")]
    assert cell.value == pytest.approx(value)
    assert cell.source.startswith("arXiv 2504.14988")
    assert cell.column


def test_every_table_is_about_known_data_sets_and_has_84_cells_of_classification_and_of_retrieval():
    tables = {table.title: table for table in published_tables()}
    for table in tables.values():
        assert {metric.split("/")[1] for metric in table.metrics} <= set(DATASETS)
    for title in ("FG-BMK, linear classification", "FG-BMK, retrieval"):
        assert sum(value is not None for row in tables[title].rows for value in row.values) == 84


@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        ("CUB_200_2011", "cub"),
        ("dinov2-l-cub", "cub"),
        ("Stanford-Dogs", "stanforddog"),
        ("fgvc-aircraft-2013b", "aircraft"),
        ("food101", "food101"),
        ("flowers-dinov2", "flowers102"),
        ("birds", None),
        ("cubes", None),
    ],
)
def test_a_data_set_is_known_by_the_name_of_its_folder(name, dataset):
    assert name_dataset([name]) == dataset


def test_the_cells_of_an_encoder_are_marked_as_its_own():
    figures, _ = figures_of("cub", "probe", "hf:facebook/dinov2-large")
    assert {cell.row for cell in figures if cell.same} == {"DINOv2-L"}


def test_probe_and_retrieval_show_what_was_published_about_their_data_set(tmp_path, capsys):
    probed = run(capsys, "features", "probe", str(store(tmp_path / "theirs-cub")), "--json")
    assert {"row": "DINOv2-L", "value": 0.9165}.items() <= next(
        cell for cell in probed["published"] if cell["row"] == "DINOv2-L"
    ).items()
    found = run(capsys, "features", "retrieval", str(tmp_path / "theirs-cub"), "--json")
    assert all(cell["table"] == "FG-BMK, retrieval" for cell in found["published"])
    assert any("not with map" in note for note in found["notes"])
    main(["features", "probe", str(tmp_path / "theirs-cub")])
    printed = capsys.readouterr().out
    assert "0.9165" in printed
    assert "DINOv2-L" in printed
    assert "published" not in run(capsys, "features", "probe", str(store(tmp_path / "other")), "--json")


def test_the_page_shows_published_figures_beside_the_stores_own(tmp_path):
    page, _ = write_report([store(tmp_path / "mine-wine")], tmp_path / "page.html")
    text = page.read_text("utf-8")
    section = text[text.index('id="published"') :]
    assert "mine-wine" in section
    assert "96.4" in section  # DINOv2-L, linear classification
    assert "arXiv 2504.14988v3" in section
    # The published figure that the authors call map stands beside the same figure of the store, and not beside its map.
    assert "fgbmk_legacy_map" in section and 'data-label="metric">map<' not in section
    page, _ = write_report([store(tmp_path / "mine")], tmp_path / "page.html")
    assert 'id="published"' not in page.read_text("utf-8")


def test_tables_take_data_sets_with_several_labels_a_row(tmp_path, capsys):
    several = [f"{number % 4} {(number // 3) % 4}" if number % 3 else str(number % 4) for number in range(48)]
    one, two = store(tmp_path / "eva02-skincon", several), store(tmp_path / "dinov2-large-cub")
    result = run(capsys, "features", "alignment", str(one), str(two), "--tables", "--json")
    values = {metric["name"]: metric["value"] for metric in result["metrics"]}
    assert 0.5 < values["auroc/eva02-skincon/eva02-skincon"] <= 1.0
    assert "accuracy/dinov2-large-cub/dinov2-large-cub" in values
    assert any("several labels" in note and "auroc" in note for note in result["notes"])
