"""Figures and tables of a features report as files that other programs open."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from latex_page import set_page
from snellen.cli import main
from snellen.errors import UsageError
from snellen.features.store import import_file
from snellen.reports.figures import csv_text
from snellen.reports.plots.svg import COLOURS, paper_colours


def save(folder: Path, name: str, seed: int) -> Path:
    y = np.arange(72) % 3
    x = np.eye(3, 8)[y] + 0.5 * np.random.default_rng(seed).standard_normal((72, 8))
    file = folder / f"{name}.npz"
    names = np.array(["50% & more_or #less", "tern", "wren \\ {x}"])
    split = np.where(np.arange(72) // 3 % 2, "test", "train")
    np.savez(file, features=x.astype(np.float32), labels=y, split=split, class_names=names)
    return import_file(file, folder / name)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    stores = [save(folder, "first_one", 0), save(folder, "second", 1)]
    before = dict(COLOURS)
    out = folder / "files"
    command = ["features", "report", *map(str, stores), "--method", "ridge", "--out", str(folder / "page.html")]
    assert main([*command, "--export", str(out)]) == 0
    assert before == COLOURS  # the page of a later report has its own colours again
    return out, {"stores": stores}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_figure_is_there_as_svg_and_pdf_in_the_pages_light_colours(exported):
    figures = exported[0] / "figures"
    listed = rows(figures / "figures.csv")
    names = {one["file"] for one in listed}
    assert {"precision-recall", "map-0", "map-1", "classes-0", "classes-1"} <= names
    assert all(one["title"] and one["caption"] for one in listed)
    assert {path.name for path in figures.iterdir()} == {"figures.csv"} | {
        f"{name}.{ending}" for name in names for ending in ("svg", "pdf")
    }
    light = paper_colours()
    for name in names:
        svg = (figures / f"{name}.svg").read_text()
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert not re.search(r"#0a0b[01]\d|var\(", svg)
        assert light["series-1"] in svg
        pdf = (figures / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF") and len(pdf) > 2_000


def test_tables_as_csv_hold_every_number_of_the_commands(exported, capsys):
    tables = exported[0] / "tables"
    for store in exported[1]["stores"]:
        assert main(["features", "retrieval", str(store), "--json"]) == 0
        told = json.loads(capsys.readouterr().out)["metrics"]
        mine = {one["metric"]: one for one in rows(tables / "retrieval.csv") if one["store"] == store.name}
        assert mine.keys() == {metric["name"] for metric in told}
        for metric in told:
            line = mine[metric["name"]]
            assert float(line["value"]) == metric["value"] and int(line["n"]) == metric["n"]
            ends = [float(line[end]) for end in ("low", "high") if line[end]] or None
            assert ends == metric["ci95"]
            assert (
                line["interval"] == "no interval: too few clusters (effective number 3.0)" and line["clusters"] == "3"
            )
    assert len(rows(tables / "classes.csv")) == 6


def test_tables_as_latex_escape_names_and_have_as_many_cells_as_columns(exported):
    tables = exported[0] / "tables"
    names = {path.stem for path in tables.glob("*.tex")}
    assert names == {path.stem for path in tables.glob("*.csv")} >= {"retrieval", "linear-probe", "classes"}
    for path in tables.glob("*.tex"):
        text = path.read_text()
        columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", text).group(1))
        lines = [line for line in text.splitlines() if line.endswith("\\\\")]
        assert len(lines) > 1
        assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {columns}
    assert r"first\_one" in (tables / "retrieval.tex").read_text()
    assert r"50\% \& more\_or \#less" in (tables / "classes.tex").read_text()


def test_tables_as_latex_compile(exported, tmp_path):
    words = set_page(tmp_path, *(path.read_text() for path in sorted((exported[0] / "tables").glob("*.tex"))))
    for name in (
        "first one",
        "50% & more or #less",
        "wren \\ {x}",
        "balanced accuracy",
        "r recall@5",
        "74.2 [53.2, 87.9]",
    ):
        assert name in words


def test_figures_as_pdf_embed_their_fonts(exported):
    if shutil.which("pdffonts") is None:
        pytest.skip("pdffonts is not installed: apt-get install poppler-utils")
    for path in (exported[0] / "figures").glob("*.pdf"):
        fonts = subprocess.run(["pdffonts", str(path)], capture_output=True, text=True, check=True).stdout
        lines = fonts.splitlines()[2:]
        assert lines and all(line.split()[-5] == "yes" for line in lines), fonts


def test_class_names_in_csv_are_no_formulas(tmp_path):
    assert csv_text([["class", "accuracy"], ["=1+1", -0.5], ["-tern", 1]]) == "class,accuracy\n'=1+1,-0.5\n'-tern,1\n"


def test_a_file_is_no_folder_to_write_to(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    command = ["features", "report", str(save(tmp_path, "one", 0)), "--out", str(tmp_path / "page.html")]
    assert main([*command, "--method", "ridge", "--export", str(tmp_path / "taken")]) == UsageError.exit_code
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "taken").read_text() == "mine"
