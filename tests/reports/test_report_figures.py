"""Figures of a report as files: all plots of the page, each as SVG and PDF that other programs open."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from snellen import evaluate, report
from snellen.cli import main
from snellen.errors import MissingExtraError, UsageError
from snellen.reports import render, write_report
from snellen.reports.failures.labels import LabelCounts
from snellen.reports.plots.svg import COLOURS, mix_colours, paper_colours

LABELS = LabelCounts(40, {"wrong class": {"rule": 25}, "unknown": {"none": 15}})


@pytest.fixture(scope="module")
def runs(make_run, make_taxonomy_run):
    return [make_run("run_A", labels=LABELS), make_run("=cmd()", skill=0.4, labels=LABELS), make_taxonomy_run("tree.B")]


@pytest.fixture(scope="module")
def figures(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    write_report(runs, folder / "page.html", figures=folder / "figures")
    return folder / "figures"


def rows(figures: Path) -> list[dict[str, str]]:
    with (figures / "figures.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_plot_of_the_page_and_every_eye_chart_is_there_as_svg_and_pdf_under_one_name(runs, figures):
    on_page = re.findall(r'<svg[^>]* data-name="([^"]+)"', render(runs))
    assert len(on_page) == len(set(on_page)) > 15
    names = [row["file"] for row in rows(figures)]
    assert sorted(names) == sorted(on_page)
    assert {"eye-chart-run-a", "eye-chart-tree-b", "scores", "failure-labels", "taxonomy-choice-text-tree-b"} <= set(
        names
    )
    assert {path.name for path in figures.iterdir()} == {"figures.csv"} | {
        f"{name}.{ending}" for name in names for ending in ("svg", "pdf")
    }
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in names)


def test_files_have_light_colours_no_links_and_embedded_fonts(figures):
    for path in figures.glob("*.svg"):
        text = path.read_text()
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert not re.search(r"#0a0b[01]\d|var\(|<a |#run=|currentColor", text), path
        assert float(re.search(r'width="([\d.]+)pt"', text).group(1)) > 100
    assert paper_colours()["series-1"] in (figures / "scores.svg").read_text()
    assert all("link" not in row["caption"] for row in rows(figures))
    if shutil.which("pdffonts") is None:
        pytest.skip("pdffonts is not installed: apt-get install poppler-utils")
    for path in figures.glob("*.pdf"):
        fonts = subprocess.run(["pdffonts", path], capture_output=True, text=True, check=True).stdout.splitlines()[2:]
        assert fonts and all(line.split()[-5] == "yes" for line in fonts), path


def test_a_figure_of_several_runs_names_them_as_no_table_stands_beside_it(figures):
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not installed: apt-get install poppler-utils")
    for name in ("scores", "failure-labels"):
        words = subprocess.run(
            ["pdftotext", "-layout", figures / f"{name}.pdf", "-"], capture_output=True, text=True, check=True
        ).stdout
        assert "run_A" in words and "=cmd()" in words, name


def test_the_same_runs_give_the_same_files(runs, figures, tmp_path):
    colours = dict(COLOURS)
    write_report(runs, tmp_path / "page.html", figures=tmp_path / "again")
    assert colours == COLOURS
    for path in figures.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes(), path.name


def test_names_depend_on_the_run_and_not_on_its_place(runs, tmp_path):
    write_report(runs[::-1], tmp_path / "page.html", figures=tmp_path / "back")
    write_report([runs[0]], tmp_path / "page.html", figures=tmp_path / "single")
    assert (tmp_path / "back" / "latency-run-a.svg").exists() and (tmp_path / "single" / "latency.svg").exists()


def test_colours_are_mixed_as_css_does():
    assert mix_colours("#000000", "#ffffff", 0.5) == "#636363"
    assert mix_colours("#1f4f9c", "#b45309", 1.0) == "#1f4f9c"
    assert mix_colours("#1f4f9c", "#b45309", 0.0) == "#b45309"


def test_a_file_is_no_folder_for_figures(runs, tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(UsageError, match=r"--figures .* is a file"):
        write_report(runs, tmp_path / "page.html", figures=tmp_path / "taken")
    assert not (tmp_path / "page.html").exists()


def test_the_command_writes_page_and_figures_of_all_runs_in_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["run", "chart/digits", "-m", "embedded", "--limit", "20", "--out", "results/one", "-q"]) == 0
    (tmp_path / "results" / "notes.txt").write_text("no run")
    capsys.readouterr()
    assert main(["report", "results/one", "results/notes.txt", "--figures", "figures"]) == 0
    printed = capsys.readouterr()
    assert printed.out.split() == ["results/one/report.html", "figures"]
    assert "notes.txt holds no run" in printed.err
    assert (tmp_path / "figures" / "scores.svg").exists() and (tmp_path / "figures" / "scores.pdf").exists()
    assert main(["report", "results/one", "--redact", "public", "--figures", "figures"]) == 2


def test_without_matplotlib_the_message_says_what_to_install(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="plots need matplotlib") as raised:
        write_report(runs, tmp_path / "page.html", figures=tmp_path / "figures")
    assert raised.value.hint == "pip install matplotlib" and not (tmp_path / "page.html").exists()


def test_values_of_a_column_that_hold_slashes_have_their_bars(tmp_path: Path) -> None:
    rows = [f"{i},Question {i}?,left,right,{'AB'[i % 2]},{('yes/no', 'OCR', 'a/b/c')[i % 3]}" for i in range(30)]
    (tmp_path / "t.csv").write_text("id,question,A,B,answer,category\n" + "\n".join(rows))
    runs = []
    for number in (1, 2):
        said = [json.dumps({"id": str(i), "reply": "B" if i * number % 4 else "A"}) for i in range(30)]
        (tmp_path / f"{number}.jsonl").write_text("\n".join(said))
        runs.append(
            evaluate(str(tmp_path / "t.csv"), f"replay:{tmp_path / f'{number}.jsonl'}", out=tmp_path / str(number))
        )
    report(runs, tmp_path / "page.html", figures=tmp_path / "figures")
    figure = (tmp_path / "figures/by-category.svg").read_text()
    assert all(value in figure for value in ("yes/no", "OCR", "a/b/c"))
