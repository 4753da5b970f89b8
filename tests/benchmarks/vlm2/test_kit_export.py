"""A run in VLMEvalKit's files, scored by the kit's rules as the run is, and read again with the same result."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import drawn
import openpyxl
import pytest

from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.runs.evaluate import evaluate
from snellen.runs.export import export
from snellen.runs.run import Run
from snellen.runs.score import score


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("kit")
    data = drawn.draw(folder / "data", groups=3)
    lines = []
    for number, sample in enumerate(find("vlm2").samples(Data(data))):
        gold = {"truth": "True" if sample.target else "F", "choice": f"{sample.target})"}.get(
            sample.kind, str(sample.target)
        )
        lines.append({"id": sample.id, "reply": gold if number % 4 else "1"})
    replies = folder / "m.jsonl"
    replies.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1] if line["id"] != "oc-cnt/0"), "utf-8")
    return evaluate("vlm2", f"replay:{replies}", data=data, out=folder / "run")


def test_the_workbook_has_the_kits_columns_and_its_score_table_the_runs_percentages(run: Run, tmp_path: Path) -> None:
    exported = export(run, "vlmevalkit", out=tmp_path / "out")
    workbook, table = sorted(exported.files, key=lambda path: path.suffix, reverse=True)
    assert workbook.name.endswith("_VLM2Bench.xlsx") and table.name == f"{workbook.stem}_score.csv"
    head, *rows = openpyxl.load_workbook(workbook).active.iter_rows(values_only=True)
    assert {"index", "question", "answer", "category", "prediction"} <= set(head)
    indices = [row[head.index("index")] for row in rows]
    categories = [row[head.index("category")] for row in rows]
    assert "pc-vid" not in categories and len(set(categories)) == 8
    assert all(index.startswith(f"{category}_") for index, category in zip(indices, categories, strict=True))
    pairs = [
        index for index, category in zip(indices, categories, strict=True) if category[3:] in ("mat", "trk", "cpr")
    ]
    assert all(index.endswith(("_p", "_n")) for index in pairs)
    assert any("descriptions of videos are left out" in note for note in exported.notes)

    with table.open() as file:
        (percentages,) = csv.DictReader(file)
    measured = {m.name: m.value for m in run.summarize("vlmevalkit", save=False).metrics["vlmevalkit"]}
    heads = {"cnt": "count_score_all", "grp": "grouping_accuracy"}
    for name, value in percentages.items():
        assert float(value) == pytest.approx(100 * measured[f"{name}/{heads.get(name[3:], 'pair_accuracy')}"])
    assert list(percentages) == sorted(set(categories))


def test_the_exported_workbook_scored_again_gives_the_runs_own_figures(run: Run, tmp_path: Path) -> None:
    workbook = next(p for p in export(run, "vlmevalkit", out=tmp_path / "out").files if p.suffix == ".xlsx")
    again, _ = score(workbook, "vlm2", profile="vlmevalkit")
    ours = run.summarize("vlmevalkit", save=False).metrics["vlmevalkit"]
    # The kit's table has neither what was changed nor what is shown.
    ours = [m for m in ours if not {"cue", "type", "pattern"} & set(m.name.split("/"))]
    wanted = {m.name: m.value for m in ours if "accuracy" in m.name or "count_score" in m.name}
    read = {m.name: m.value for m in again.metrics["vlmevalkit"]}
    assert {name: read[name] for name in wanted} == pytest.approx(wanted)
