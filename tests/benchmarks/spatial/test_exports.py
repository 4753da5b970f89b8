"""Runs of the spatial benchmarks in the two harnesses' formats: read back they have the same figures, as EASI reads them."""

from __future__ import annotations

import csv
import json
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import openpyxl
import pytest

from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.spatial import SPATIAL
from snellen.benchmarks.spatial.question import SpatialQuestion, sample
from snellen.benchmarks.spatial.scorers.base import SPAR_NUMBER, SPAR_VIEW_CHANGE, VSI_NUMBER, types_of
from snellen.benchmarks.spatial.sources.rows import question as question_of
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.runs.score import score
from snellen.types import Failure, Prompt, Record, Response, Sample, Text

VSI_CHOICE, SPAR_CHOICE = types_of("vsi-bench", "choice"), types_of("spar-bench", "choice")
STAMP = "20260102_030405"
REPLIES = [
    "A",
    "B",
    "(C)",
    "D.",
    "Answer: A",
    "=SUM(A1)",
    "-3",
    "+2",
    "@a",
    "3",
    "12.5",
    "I cannot say",
    "",
    "the answer is B",
]
NUMBERED = [*REPLIES, "10", "9", "11.0", "ten"]
COUNT = 48


def doc(name: str, at: int, draw: Random) -> dict[str, Any]:
    """A row of the authors' file."""
    four = ["left", "it's right", 'a "cup"', "=1+1"]
    letter, question = "ABCD"[draw.randrange(4)], "Where?\nA. left B. right C. front D. back"
    groups = list(TASKS[name].groups)
    group = groups[at % len(groups)]
    match name:
        case "vsi-bench" | "vsi-debiased":
            kind = (*VSI_CHOICE, *VSI_NUMBER)[at % 10]
            number = kind in VSI_NUMBER
            listed = None if number else [f"{a}. {b}" for a, b in zip("ABCD", four, strict=True)]
            gold = "10" if number else letter
            return {"id": at, "dataset": "scannet", "scene_name": f"s{at}", "question_type": kind, "question": "q"} | {
                "options": listed,
                "ground_truth": gold,
            }
        case "mmsi-bench":
            kinds = [group for group in groups if group == "MSR" or "(" in group]
            return {"id": at, "question": question, "question_type": kinds[at % 11], "answer": letter}
        case "mindcube-tiny":
            return {"id": f"{group}_{at}", "question": question, "gt_answer": letter}
        case "viewspatial":
            choices = "A. left\nB. right\nC. front\nD. back"
            return {"question": "q", "choices": choices, "answer": f"{letter}. x", "question_type": group}
        case "site":
            n = 2 + at % 5
            told = {"answer": "ABCDEFG"[draw.randrange(n)], "category": group, "dataset": "a set"}
            return {"question": "q", "options": (four * 2)[:n], "visual": ["a.jpg"], **told}
        case "blink":
            return {"idx": f"val_{group}_{at}", "question": "q", "sub_task": group, "choices": four[: 2 + at % 3]} | {
                "answer": "(A)" if at % 2 else "(B)",
                "prompt": "p",
            }
        case "3dsrbench":
            base, form = f"Q{at // 4:07d}", ["", "-1", "-flip", "-flip-1"][at % 4]
            options = dict(zip("ABCD", four, strict=True))
            return {"qid": base + form, "question": "q", **options, "answer": letter, "category": groups[at // 4 % 12]}
        case "embspatial":
            told = {"answer": "ABCD".index(letter), "relation": "left", "data_source": group}
            return {"question_id": f"e{at}", "question": "q", "answer_options": four, **told}
        case "mmsi-video-bench":
            return {"id": at, "type": f"({group}) Part {at % 2}", "user_prompt": question, "ground_truth": letter}
        case "omnispatial":
            told = {"gt": letter, "task_type": "Complex_Logic", "sub_task_type": group}
            return {"id": str(at), "question": "q", "options": four, **told}
    kind = (*SPAR_CHOICE, *SPAR_NUMBER, *SPAR_VIEW_CHANGE)[at % 20]
    gold = "move_right:1.0,rotate_up:2.0" if kind in SPAR_VIEW_CHANGE else "10" if kind in SPAR_NUMBER else letter
    return {"id": at, "task": kind, "question": question, "source": "scannet", "answer": gold}


def answered(name: str, *, failing: bool = True) -> tuple[list[dict[str, Any]], list[tuple[Sample, Record]]]:
    """Rows as lmms-eval logs them, and the same answers as a run has them."""
    draw = Random(name)
    lines, pairs = [], []
    for at in range(COUNT):
        row = doc(name, at, draw)
        question: SpatialQuestion = question_of(TASKS[name], "official", row, at)
        one = sample(question, Prompt((Text(question.text),)))
        if name == "site":
            half = "video" if at % 2 else "image"
            one = Sample(
                f"{half}/{one.id}", one.prompt, one.target, one.kind, one.options, "", {**one.meta, "task": half}
            )
        reply = None if failing and at == 7 else draw.choice(NUMBERED if question.kind == "number" else REPLIES)
        failure = Failure("http", "500")
        record = (
            Record(one.id, "error", 0, None, failure) if reply is None else Record(one.id, "ok", 0, Response(reply))
        )
        pairs.append((one, record))
        lines.append({"doc_id": at, "doc": row, "resps": [[reply]], "half": one.meta.get("task", "")})
    return lines, pairs


def export(
    name: str, form: str, folder: Path, pairs: list[tuple[Sample, Record]]
) -> tuple[list[Path], tuple[str, ...]]:
    folder.mkdir()
    written = SPATIAL[name].exports[form](iter(pairs), folder, "a-model", STAMP)
    assert all(path.is_file() and path.parent == folder for path in written.files)
    return list(written.files), written.notes


def figures(benchmark: Benchmark, path: Path, profile: str) -> dict[str, float | None]:
    summary, _ = score(path, benchmark=benchmark, profile=profile)
    skipped = ("invalid", "error", "unscored")
    return {one.name: one.value for one in summary.metrics[profile] if one.name not in skipped}


def original(name: str, folder: Path, lines: list[dict[str, Any]]) -> Path:
    """The answers as lmms-eval would have logged them, written by the test itself."""
    folder.mkdir()
    for half in sorted({str(line["half"]) for line in lines}):
        task = f"site_bench_{half}" if half else TASKS[name].lmms
        some = [
            json.dumps({key: line[key] for key in ("doc_id", "doc", "resps")}) for line in lines if line["half"] == half
        ]
        (folder / f"{STAMP}_samples_{task}.jsonl").write_text("\n".join(some) + "\n")
    return folder if name == "site" else next(folder.iterdir())


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("profile", ["lmms-eval", "vlmevalkit", "strict"])
def test_exported_to_lmms_eval_and_scored_again_the_figures_are_the_same(tmp_path, name, profile):
    lines, pairs = answered(name)
    export(name, "lmms-eval", tmp_path / "out", pairs)
    wanted = figures(SPATIAL[name], original(name, tmp_path / "theirs", lines), profile)
    assert len(wanted) > 2
    assert figures(SPATIAL[name], tmp_path / "out", profile) == pytest.approx(wanted)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("profile", ["vlmevalkit", "easi", "strict"])
def test_exported_to_vlmevalkit_and_scored_again_the_figures_are_the_same(tmp_path, name, profile):
    lines, pairs = answered(name, failing=False)
    export(name, "vlmevalkit", tmp_path / "out", pairs)
    wanted = figures(SPATIAL[name], original(name, tmp_path / "theirs", lines), profile)
    assert figures(SPATIAL[name], tmp_path / "out", profile) == pytest.approx(wanted)


LMMS = {
    "vsi-bench": ("vsibench_multiimage", "vsibench_overall", 100, {"object_counting": "object_counting_mra"}),
    "mmsi-bench": ("mmsi_bench", "average", 100, {"pos_cam_cam_accuracy": "Positional Relationship (Cam.–Cam.)"}),
    "mindcube-tiny": ("mindcube_tiny", "overall_accuracy", 100, {"around_accuracy": "around_accuracy"}),
    "viewspatial": ("viewspatial", "overall_accuracy", 100, {}),
    "blink": ("blink", "blink_acc", 100, {}),
    "3dsrbench": ("3dsrbench_circular", "vanilla_accuracy", 100, {"height_higher": "height_higher_accuracy"}),
    "embspatial": ("embspatial", "embspatial_acc", 100, {"mp3d_accuracy": "mp3d_accuracy"}),
    "omnispatial": ("omnispatial_test", "omnispatial", 100, {}),
    "spar-bench": ("sparbench", "sparbench_score", 1, {}),
}
"""EASI's map of lmms-eval's metrics, in part."""


@pytest.mark.parametrize("name", LMMS)
def test_easi_reads_the_payloads_numbers_from_an_export_to_lmms_eval(tmp_path, name):
    _, pairs = answered(name)
    files, notes = export(name, "lmms-eval", tmp_path / "out", pairs)
    assert notes == ("1 answers are missing: their resps are null, and they count as wrong",)
    results = json.loads(files[0].read_text())["results"]
    task, overall, scale, parts = LMMS[name]
    cut = {metric.split(",")[0]: value for metric, value in results[task].items()}
    wanted = figures(SPATIAL[name], tmp_path / "out", "lmms-eval")
    assert round(cut[overall] * scale, 3) == pytest.approx(round(100 * wanted["overall"], 3), abs=2e-3)
    for key, metric in parts.items():
        assert cut[metric] * 100 == pytest.approx(100 * wanted[key], abs=1e-3), key


KIT = {
    "vsi-bench": ("VSI-Bench_32frame", 1, {"object_counting": "object_counting_MRA:.5:.95:.05"}),
    "mmsi-bench": (
        "MMSIBench_wo_circular",
        1,
        {"pos_cam_cam_accuracy": "Pos-Cam-Cam_accuracy", "msr_accuracy": "MSR_accuracy"},
    ),
    "mindcube-tiny": ("MindCubeBench_tiny_raw_qa", 1, {"among_accuracy": "among_accuracy"}),
    "embspatial": ("EmbSpatialBench", 1, {"ai2thor_accuracy": "ai2thor_accuracy"}),
    "omnispatial": ("OmniSpatialBench_manual_cot", 1, {"egocentric_accuracy": "sub_task_type.Egocentric_accuracy"}),
    "spar-bench": ("SparBench", 100, {"high": "High", "depth_prediction_oc": "depth_prediction_oc_MRA:.5:.95:.05"}),
    "blink": ("BLINK", 100, {"multi_view_reasoning": "Multi-view_Reasoning", "overall": "Overall"}),
    "3dsrbench": ("3DSRBench", 100, {"height_higher": "height_higher", "overall": "Overall"}),
}
"""EASI's map of VLMEvalKit's columns, in part."""


@pytest.mark.parametrize("name", KIT)
def test_easi_reads_the_payloads_numbers_from_an_export_to_vlmevalkit(tmp_path, name):
    _, pairs = answered(name, failing=False)
    files, _ = export(name, "vlmevalkit", tmp_path / "out", pairs)
    data, scale, parts = KIT[name]
    found = [path for path in files if path.name.startswith(f"a-model_{data}") and path.name.endswith("_acc.csv")]
    text = found[0].read_text()
    first = next(csv.DictReader(text.splitlines(), delimiter="\t" if "\t" in text else ","))
    assert ("\t" in text) == (name not in ("blink", "3dsrbench"))
    wanted = figures(SPATIAL[name], tmp_path / "out", "vlmevalkit")
    for key, column in (("overall", "Overall" if "Overall" in first else "overall"), *parts.items()):
        assert round(float(first[column]) * scale, 4) == pytest.approx(100 * wanted[key], abs=1e-4), key


def test_easi_pools_the_halves_of_site_from_either_export(tmp_path):
    _, pairs = answered("site", failing=False)
    lmms, _ = export("site", "lmms-eval", tmp_path / "lmms", pairs)
    won = most = 0.0
    for path in lmms:
        if "_samples_site_bench_" in path.name:
            for line in path.read_text().splitlines():
                row = json.loads(line)["chance_adjusted_acc"]
                won, most = won + row["overall"], most + row["total"]
    assert won / most == pytest.approx(figures(SPATIAL["site"], tmp_path / "lmms", "lmms-eval")["overall"])
    kit, _ = export("site", "vlmevalkit", tmp_path / "kit", pairs)
    won = most = 0.0
    for path in kit:
        if path.name.endswith("_extract_matching.xlsx"):
            for row in sheet(path):
                n = len(literal_eval(row["options"]))
                won, most = won + row["hit"] - 1 / n, most + 1 - 1 / n
    assert won / most == pytest.approx(figures(SPATIAL["site"], tmp_path / "kit", "easi")["overall"])


def sheet(path: Path) -> Iterator[dict[str, Any]]:
    rows = openpyxl.load_workbook(path, read_only=True).active.iter_rows(values_only=True)
    header = next(rows)
    return (dict(zip(header, row, strict=True)) for row in rows)


def test_a_reply_that_looks_like_a_formula_stays_a_text(tmp_path):
    _, pairs = answered("embspatial")
    texts = ['=HYPERLINK("http://x","y")', "+1", "-1", "@SUM(A1)", "#REF!", "\x07bell", "x" * 40_000]
    pairs = [(one, Record(one.id, "ok", 0, Response(text))) for (one, _), text in zip(pairs, texts, strict=False)]
    files, notes = export("embspatial", "vlmevalkit", tmp_path / "out", pairs)
    book = openpyxl.load_workbook(files[0])
    column = [cell.value for cell in book.active[1]].index("prediction") + 1
    cells = [book.active.cell(row, column) for row in range(2, 9)]
    assert [cell.value for cell in cells] == [*texts[:5], "bell", "x" * 32_767]
    assert {cell.data_type for cell in cells} == {"s"}
    assert "1 texts were cut to the 32,767 characters" in notes[0] and "no sheet may hold" in notes[1]


def test_a_failed_answer_is_what_the_kit_writes_for_one(tmp_path):
    lines, pairs = answered("mindcube-tiny")
    files, notes = export("mindcube-tiny", "vlmevalkit", tmp_path / "out", pairs)
    said = [row["prediction"] for row in sheet(files[0])]
    assert said[7] == "Failed to obtain answer via API." and notes[0].startswith("1 answers are missing")
    _, told = score(files[0], benchmark=SPATIAL["mindcube-tiny"])
    assert any("the kit got no answer" in line for line in told)
    assert len(lines) == len(said) == COUNT
