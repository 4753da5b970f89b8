"""A run that is exported in another harness's form and imported again has the same figures under every profile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest

import snellen
from benchmarks.fgbmk import released
from benchmarks.spatial import official_drawn
from benchmarks.vlm2 import drawn
from engine.stubs import ARITHMETIC, Calculator
from snellen.benchmarks import registry
from snellen.errors import RefusalError, UsageError
from snellen.models.base import Model
from snellen.types import Prompt, Response

OWN = {"sample_id", "status", "repeats", "snellen"}
"""Columns that no other harness writes."""
HARNESSES = ["jsonl", "lmms-eval", "vlmevalkit", "lm-eval", "inspect"]


class Uneven(Model):
    """Answers every kind of thing: right and wrong, nothing, a refusal, a failure, and texts that tables change."""

    name = "uneven"

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, prompt: Prompt) -> Response:
        self.asked += 1
        replies = ("A", "Yes.", "", " 3 \n", "=1+2", "no, B", "2", '(C) because\nof "it", too', "\u200bD", "0.5 m")
        if self.asked % 17 == 0:
            raise RefusalError("not this one")
        return Response(replies[self.asked % len(replies)])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(registry.BUILT_IN, "arithmetic", f"{__name__}:ARITHMETIC")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer_files(run: snellen.Run, form: str, out: str) -> list[Path]:
    """The files with the answers, without those of figures and matches."""
    files = snellen.export(run, form, out=out).files
    return [path for path in files if path.suffix in (".jsonl", ".xlsx", ".eval") and "match" not in path.name]


def figures(run: snellen.Run) -> dict[str, Any]:
    return run.figures("all")


@pytest.mark.parametrize("form", HARNESSES)
@pytest.mark.parametrize("benchmark", ["chart", "chart/creatures", "chart/digits"])
def test_the_chart_comes_back_from_every_form(benchmark, form):
    run = snellen.evaluate(benchmark, Uneven(), out="first", limit=230, concurrency=1)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, benchmark, out="again")
    assert figures(again) == figures(run)
    assert again.meta.totals.refused + again.meta.totals.ok == run.meta.totals.ok + run.meta.totals.refused


@pytest.mark.parametrize("form", ["jsonl", "lmms-eval", "lm-eval", "inspect"])
def test_repeats_come_back(form):
    run = snellen.evaluate(ARITHMETIC, Calculator(), out="first", repeats=3)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, "arithmetic", out="again")
    assert again.meta.spec.repeats == 3 and figures(again) == figures(run)


def test_the_gold_answers_of_a_restricted_benchmark_are_in_no_harness_export(monkeypatch):
    from dataclasses import replace

    run = snellen.evaluate(replace(ARITHMETIC, restricted=True), Calculator(), out="first", limit=5)
    for form in ("lmms-eval", "vlmevalkit"):
        with pytest.raises(UsageError, match="restricted"):
            snellen.export(run, form)


SPATIAL = [
    "mmsi-bench",
    "vsi-bench",
    "viewspatial",
    "blink",
    "3dsrbench",
    "embspatial",
    "spar-bench",
    "site",
    "mindcube-tiny",
]


@pytest.mark.parametrize("form", HARNESSES)
@pytest.mark.parametrize("benchmark", SPATIAL)
def test_spatial_benchmarks_come_back_from_every_form(benchmark, form, tmp_path):
    data = official_drawn.draw(benchmark, tmp_path / "data", each=3)
    run = snellen.evaluate(benchmark, Uneven(), out="first", data=data, concurrency=1)
    files = answer_files(run, form, "exported")
    source = files[0] if len(files) == 1 else Path("exported")
    again = snellen.import_run(source, benchmark, out="again", data=data)
    assert figures(again) == figures(run)


@pytest.mark.parametrize("form", HARNESSES)
@pytest.mark.parametrize("benchmark", ["vlm2/oc-cnt", "vlm2/gc-mat", "vlm2/pc-grp", "vlm2"])
def test_vlm2_comes_back_from_every_form(benchmark, form, tmp_path):
    data = drawn.draw(tmp_path / "data")
    run = snellen.evaluate(benchmark, Uneven(), out="first", data=data, concurrency=1)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, benchmark, out="again", data=data)
    if (benchmark, form) == ("vlm2", "vlmevalkit"):  # the kit has no videos, and the coverage says so
        assert any("3 of 39 questions have no answer" in line for line in again.remarks)
        wanted = {metric.name: metric.value for metric in figures(run)["vlmevalkit"]}
        assert wanted == {metric.name: metric.value for metric in figures(again)["vlmevalkit"]} | {
            name: value for name, value in wanted.items() if name.startswith("pc-vid")
        }
    else:
        assert figures(again) == figures(run)


def questions_of_a_user(path: Path) -> Path:
    """A table as users have it, with ids that are numbers in no order."""
    options = ["cat", "dog", "cow", "hen"]
    lines = ["id,question,A,B,C,D,answer,category"]
    lines += [
        f"{i * 7 % 30},Which one is number {i}?,{','.join(options)},{'ABCD'[i % 4]},{'xy'[i % 2]}" for i in range(30)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("form", HARNESSES)
def test_a_users_own_table_comes_back_from_every_form(form, tmp_path):
    table = str(questions_of_a_user(tmp_path / "my.csv"))
    run = snellen.evaluate(table, Uneven(), out="first", concurrency=1)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, table, out="again")
    assert figures(again) == figures(run) and again.meta.spec.benchmark == run.meta.spec.benchmark
    assert snellen.load_run("again").figures() == run.figures()


def test_the_kits_predictions_for_a_users_own_table_are_met_by_their_index(tmp_path):
    table = questions_of_a_user(tmp_path / "my.csv")
    book = openpyxl.Workbook()
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    book.active.append(["index", "question", "A", "B", "C", "D", "answer", "prediction"])
    for row in rows:
        book.active.append([int(row[0]), *row[1:7], row[6]])
    book.save("qwen_my.xlsx")
    with pytest.raises(UsageError, match="--id-is id or --id-is position"):
        snellen.import_run("qwen_my.xlsx", str(table), out="r")
    run = snellen.import_run("qwen_my.xlsx", str(table), out="r", id_is="id")
    assert run.metric("accuracy").value == 1.0


class Clear(Model):
    """Answers with letters and numbers alone."""

    name = "clear"

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, prompt: Prompt) -> Response:
        self.asked += 1
        return Response(("A", "B", "C", "3", "Yes", "D")[self.asked % 6])


@pytest.mark.parametrize("form", ["lmms-eval", "vlmevalkit"])
@pytest.mark.parametrize("benchmark", ["mmsi-bench", "vsi-bench", "blink", "3dsrbench", "viewspatial", "vlm2/oc-cnt"])
def test_files_of_the_harnesses_themselves_are_met_with_the_questions(benchmark, form, tmp_path):
    vlm2 = benchmark.startswith("vlm2")
    data = drawn.draw(tmp_path / "data") if vlm2 else official_drawn.draw(benchmark, tmp_path / "data", each=3)
    run = snellen.evaluate(benchmark, Clear(), out="first", data=data, concurrency=1)
    for path in (files := answer_files(run, form, "exported")):  # without the columns that Snellen alone writes
        if path.suffix == ".jsonl":
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            rest = [{name: value for name, value in row.items() if name not in OWN} for row in rows]
            path.write_text("".join(json.dumps(row) + "\n" for row in rest))
        else:
            book = openpyxl.load_workbook(path)
            while own := [cell.column for cell in book.active[1] if cell.value in OWN]:
                book.active.delete_cols(own[0])
            book.save(path)
    again = snellen.import_run(files[0] if len(files) == 1 else "exported", benchmark, out="again", data=data)
    assert figures(again) == figures(run)
    assert again.meta.imported is not None and again.meta.imported["counts"]["answered"] == run.meta.totals.ok


def test_the_authors_own_rows_are_met_with_the_questions(tmp_path):
    data = drawn.draw(tmp_path / "data")
    run = snellen.evaluate("vlm2/gc-mat", Clear(), out="first", data=data, concurrency=1)
    (file,) = snellen.export(run, "authors", out="exported").files
    again = snellen.import_run(file, "vlm2/gc-mat", out="again", data=data)
    assert figures(again) == figures(run) and again.meta.imported["form"] == "authors"  # type: ignore[index]


@pytest.mark.parametrize("form", [*HARNESSES, "authors"])
def test_fgbmk_comes_back_from_every_form_and_from_the_demos_own_rows(form, tmp_path):
    tree, images = released.write(tmp_path / "released"), released.birds(tmp_path / "cub")
    where: dict[str, Any] = {"data": tree, "images": images}
    run = snellen.evaluate("fgbmk/cub/species/choice", Clear(), out="first", concurrency=1, **where)
    (file,) = answer_files(run, form, "exported")
    again = snellen.import_run(file, "fgbmk/cub/species/choice", out="again", **where)
    assert figures(again) == figures(run)
