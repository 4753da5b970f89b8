"""Result files of the further benchmarks, of both harnesses: each released reply is scored in its file as by its rule."""

from __future__ import annotations

import csv
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from benchmarks.spatial.more_samples import mask
from benchmarks.spatial.test_more_vectors import EVERY, FILES, Vectors, wanted
from snellen.benchmarks.spatial import FURTHER
from snellen.benchmarks.spatial.tasks import MORE
from snellen.errors import DataError
from snellen.runs.score import score
from snellen.types import Score

KIT_NAMES = {name: task.kit.split(", ")[0] for name, task in MORE.items()}


def scores_of(path: Path, benchmark: str, profile: str, **settings: Any) -> list[Score]:
    """The score of each row of a result file, in its order, by the function behind `snellen score`."""
    rows: list[Score] = []
    score(
        path,
        benchmark=FURTHER[benchmark],
        profile=profile,
        each=lambda row: rows.append(row.scores[profile]),
        **settings,
    )
    return rows


def scored(path: Path, benchmark: str, profile: str, **settings: Any) -> list[float | None]:
    return [one.value for one in scores_of(path, benchmark, profile, **settings)]


def tsv(path: Path, rows: list[dict[str, Any]]) -> Path:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, delimiter="\t", restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def workbook(path: Path, rows: list[dict[str, Any]]) -> Path:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    book = Workbook()
    book.active.append(columns)
    for row in rows:
        book.active.append([row.get(name) for name in columns])
    book.save(path)
    return path


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def unmasked(content: Vectors, benchmark: str) -> list[dict[str, Any]]:
    """The cases whose score needs no mask and no image."""
    cases = content["cases"]
    if benchmark != "robospatial-home":
        return cases
    return [case for case in cases if {**case, **case.get("doc", {})}["answer"].strip().lower() in ("yes", "no")]


def row_of(case: dict[str, Any], number: int) -> dict[str, Any]:
    """A case of VLMEvalKit's as a row of its table: what was read and scored is not a column of the question."""
    left_out = (
        "pred_extracted",
        "score",
        "hit",
        "choices",
        "image_size",
        "is_correct",
        "parsed_answer",
        "is_parsable",
        "is_binary",
    )
    row = {name: value for name, value in case.items() if name not in left_out}
    return {**row, **case.get("choices", {}), "index": number}


KIT = [param for param in EVERY if "vlmevalkit" in param.values[0] and FILES[param.values[0]][0] != "refspatial"]
LMMS = [param for param in EVERY if "lmms" in param.values[0] and FILES[param.values[0]][0] != "refspatial"]


@pytest.mark.parametrize(("stem", "content"), KIT)
def test_a_table_of_the_kits_is_scored_as_the_kit_scored_it(tmp_path: Path, stem: str, content: Vectors) -> None:
    benchmark, profile, _ = FILES[stem]
    cases = unmasked(content, benchmark)
    rows = [row_of(case, number) for number, case in enumerate(cases)]
    path = workbook(tmp_path / f"some-model_{KIT_NAMES[benchmark]}.xlsx", rows)
    values = scored(path, benchmark, profile)
    assert values == [wanted(case) for case in cases]


@pytest.mark.parametrize(("stem", "content"), LMMS)
def test_samples_of_lmms_eval_are_scored_as_it_scored_them(tmp_path: Path, stem: str, content: Vectors) -> None:
    benchmark, profile, _ = FILES[stem]
    cases = unmasked(content, benchmark)
    task = MORE[benchmark].lmms.split(", ")[0]
    path = tmp_path / f"20260101_000000_samples_{task}.jsonl"
    jsonl(path, [{"doc_id": n, "doc": case["doc"], "resps": [[case["response"]]]} for n, case in enumerate(cases)])
    assert scored(path, benchmark, profile) == [wanted(case) for case in cases]


def masked_data(folder: Path, cases: list[dict[str, Any]]) -> Path:
    """VLMEvalKit's table of RefSpatial with its pictures and masks beside it, one row a case."""
    rows = []
    for number, case in enumerate(cases):
        drawn = mask(case["mask"])
        for name in ("image", "mask"):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / f"{number}.png").write_bytes(drawn.blob.read())
        rows.append(
            {
                "index": number,
                "image_path": f"image/{number}.png",
                "mask_path": f"mask/{number}.png",
                "question": f"Point at thing {number}.",
                "category": case.get("category", "location"),
            }
        )
    return tsv(folder / "RefSpatial.tsv", rows)


@pytest.mark.parametrize(
    ("stem", "content"), [param for param in EVERY if param.values[0].startswith("refspatial_vlm")]
)
def test_refspatial_is_scored_with_the_masks_of_the_data(tmp_path: Path, stem: str, content: Vectors) -> None:
    _, profile, _ = FILES[stem]
    cases = content["cases"]
    data = masked_data(tmp_path / "data", cases)
    rows = [
        {**row, "mask_path": f"/elsewhere/{row['mask_path']}", "prediction": case["prediction"]}
        for row, case in zip(csv.DictReader(data.open(encoding="utf-8"), delimiter="\t"), cases, strict=True)
    ]
    path = workbook(tmp_path / "m_RefSpatial.xlsx", rows)
    values = scored(path, "refspatial", profile, data=data)
    assert values == [wanted(case) for case in cases]
    bare = scores_of(path, "refspatial", profile)
    assert {one.value for one in bare} == {None} and "--data" in str(bare[0].reason)


@pytest.mark.parametrize(
    ("stem", "content"),
    [param for param in EVERY if param.values[0].startswith("refspatial_") and "lmms" in param.values[0]],
)
def test_refspatials_samples_of_lmms_eval_meet_the_masks_too(tmp_path: Path, stem: str, content: Vectors) -> None:
    _, profile, _ = FILES[stem]
    cases = content["cases"]
    data = masked_data(tmp_path / "data", cases)
    docs = [{"id": n, "prompt": f"Point at thing {n}.", "suffix": "", "step": 1} for n in range(len(cases))]
    ending = "_json" if "json" in stem else ""
    path = tmp_path / f"20260101_000000_samples_refspatial_location{ending}.jsonl"
    jsonl(
        path,
        [
            {"doc_id": n, "doc": doc, "resps": [[case["response"]]]}
            for n, (doc, case) in enumerate(zip(docs, cases, strict=True))
        ],
    )
    assert scored(path, "refspatial", profile, data=data) == [wanted(case) for case in cases]


@pytest.mark.parametrize(("stem", "content"), [param for param in EVERY if param.values[0] == "robospatial_vlmevalkit"])
def test_robospatial_is_scored_with_the_image_sizes_of_the_data(tmp_path: Path, stem: str, content: Vectors) -> None:
    benchmark, profile, _ = FILES[stem]
    rows = []
    for number, case in enumerate(content["cases"]):
        width, height = case["image_size"]
        image = b64encode(mask({"w": width, "h": height, "rects": [], "value": 0}).blob.read()).decode()
        about = {name: case[name] for name in ("category", "answer")}
        rows.append({"index": number, "image": image, "question": f"Where is thing {number}?", **about})
    data = tsv(tmp_path / "RoboSpatialHome.tsv", rows)
    answered = [
        {**row, "image": "", "prediction": case["prediction"]} for row, case in zip(rows, content["cases"], strict=True)
    ]
    path = workbook(tmp_path / "m_RoboSpatialHome.xlsx", answered)
    assert scored(path, benchmark, profile, data=data) == [wanted(case) for case in content["cases"]]


def sample_lines(*replies: str, **doc: Any) -> list[dict[str, Any]]:
    return [{"doc_id": n, "doc": {"id": n, **doc}, "resps": [[reply]]} for n, reply in enumerate(replies)]


def test_the_files_of_all_parts_are_one_set_of_answers(tmp_path: Path) -> None:
    for minutes, reply in (("10mins", "A"), ("30mins", "B")):
        jsonl(
            tmp_path / f"20260101_000000_samples_vsisuper_recall_{minutes}.jsonl", sample_lines(reply, "A", answer="A")
        )
    jsonl(tmp_path / "20260102_000000_samples_vsisuper_recall_30mins.jsonl", sample_lines("A", "B", "B", answer="A"))
    jsonl(tmp_path / "20260101_000000_samples_vsisuper_count_10mins.jsonl", sample_lines("3", answer=3.0))
    summary, told = score(tmp_path, benchmark=FURTHER["vsi-super-recall"], profile="lmms-eval")
    metrics = {metric.name: metric.value for metric in summary.metrics["lmms-eval"]}
    assert (metrics["10mins_accuracy"], metrics["30mins_accuracy"]) == (1.0, pytest.approx(1 / 3))
    assert any("passed over for 20260102_000000" in line for line in told)
    count, _ = score(tmp_path, benchmark=FURTHER["vsi-super-count"], profile="lmms-eval")
    assert count.metrics["lmms-eval"][0].value == 1.0


def test_streamed_counts_are_told_by_their_lists_whatever_the_file_is_called(tmp_path: Path) -> None:
    doc = {"question": "How many?", "answers": [2, 3, 5], "query_times": [60, 120, 180], "video_path": "a.mp4"}
    for name, split in (
        ("vsisuper_count_streaming_30mins", {}),
        ("vsisuper_count_10mins", {"split": "10mins_streaming"}),
    ):
        path = tmp_path / f"20260101_000000_samples_{name}.jsonl"
        jsonl(path, [{"doc_id": 0, "doc": {**doc, **split}, "resps": [["[2, 3]"]]}])
        assert scored(path, "vsi-super-count", "lmms-eval") == [1.0]
        assert scored(path, "vsi-super-count", "strict") == [pytest.approx(2 / 3)]
        summary, _ = score(path, benchmark=FURTHER["vsi-super-count"], profile="lmms-eval")
        minutes = "30mins" if "30" in name else "10mins"
        assert f"{minutes}_streaming_mra" in {metric.name for metric in summary.metrics["lmms-eval"]}


def test_two_variants_of_one_set_are_refused_and_the_whole_outweighs_its_parts(tmp_path: Path) -> None:
    for budget in (16, 32):
        rows = sample_lines("A", question_type="route_planning", ground_truth="A", question="q", options=["A. a"])
        jsonl(tmp_path / f"20260101_000000_samples_revsi_{budget}_frame.jsonl", rows)
    with pytest.raises(DataError, match="several variants of revsi"):
        score(tmp_path, benchmark=FURTHER["revsi"], profile="lmms-eval")
    doc = {"idx": 0, "type": "2D", "task": "Count", "source": "COCO", "choices": ["1", "2"], "answer": "(A)"}
    for name, reply in (("cv_bench", "A"), ("cv_bench_2d", "B")):
        jsonl(tmp_path / f"20260101_000000_samples_{name}.jsonl", sample_lines(reply, **doc))
    summary, _ = score(tmp_path, benchmark=FURTHER["cv-bench"], profile="lmms-eval")
    assert (summary.metrics["lmms-eval"][0].value, summary.metrics["lmms-eval"][0].n) == (1.0, 1)


def test_a_file_named_after_another_benchmark_is_refused(tmp_path: Path) -> None:
    path = tsv(
        tmp_path / "m_ERIQ.tsv", [{"index": 0, "answer": "A", "prediction": "A", "task_type": "QA_TASK_PROGRESS"}]
    )
    assert scored(path, "eriq", "easi") == [1.0]
    with pytest.raises(DataError, match="answers to eriq, not to dsr-bench"):
        score(path, benchmark=FURTHER["dsr-bench"], profile="easi")


def test_the_circular_table_of_lego_is_scored_in_groups(tmp_path: Path) -> None:
    about = {"question_type": "mcq", "category": "height", "question": "q", "A": "left", "B": "right"}
    rows = [
        {"index": index, **about, "answer": "A", "prediction": reply}
        for index, reply in ((1, "A"), (1000001, "A"), (2, "A"), (1000002, "B"))
    ]
    path = tsv(tmp_path / "m_LEGO_circular.tsv", rows)
    summary, _ = score(path, benchmark=FURTHER["lego-puzzles"], profile="easi")
    assert summary.metrics["easi"][0].value == 0.5
    plain = tsv(tmp_path / "m_LEGO.tsv", [row for row in rows if row["index"] < 10])
    summary, _ = score(plain, benchmark=FURTHER["lego-puzzles"], profile="easi")
    assert summary.metrics["easi"][0].value == 1.0


LOGGED = {
    "stare": ({"stare_score": {"id": "1", "gt_content": "A", "pred": "A", "category": "temporal"}}, "A", "20260101_samples_stare_full.jsonl"),
    "spatialviz": ({"spatialviz_score": {"gt_content": "A", "category": "MentalFolding", "task": "PaperFolding"}}, "<answer>A", "20260101_samples_spatialviz_full.jsonl"),
    "spatial457": ({"spatial457_accuracy": {"question_index": 3, "category": "L1_single", "gt_answer": "left"}}, "left", "20260101_samples_spatial457_l1_single.jsonl"),
    "osi-bench": ({"overall": {"score": 1, "total": 1}, "absolute_speed_mra": {"score": 1, "total": 1}, "trajectory_length_mra": {"score": 0, "total": 0}}, "0.1", "20260101_samples_osi_bench.jsonl"),
    "erqa": ({"erqa_acc": 1}, "A", "20260101_samples_erqa.jsonl"),
    "vsi-super-recall": ({"accuracy": 1.0}, "A", "20260101_samples_vsisuper_recall_60mins.jsonl"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGGED)
def test_lines_without_their_questions_are_read_from_what_the_scorer_kept(tmp_path: Path, name: str) -> None:
    metrics, reply, file = LOGGED[name]
    target = {"spatial457": "left", "osi-bench": "0"}.get(name, "A")
    path = jsonl(tmp_path / file, [{"doc_id": 0, "target": target, "input": "Which?", "resps": [[reply]], **metrics}])
    assert scored(path, name, "lmms-eval") == [1.0]


def test_a_context_row_without_a_mask_is_minus_one_in_lmms_eval_and_enters_its_mean(tmp_path: Path) -> None:
    corners = "[(0.2, 0.2), (0.4, 0.2), (0.4, 0.6), (0.2, 0.6)]"
    rows = [
        {
            "doc_id": 0,
            "doc": {"category": "context", "question": "q", "answer": corners, "mask_path": ""},
            "resps": [["x"]],
        },
        {
            "doc_id": 1,
            "doc": {"category": "configuration", "question": "q", "answer": "yes", "mask_path": ""},
            "resps": [["Yes"]],
        },
    ]
    path = jsonl(tmp_path / "20260101_000000_samples_robo_spatial_all.jsonl", rows)
    assert scored(path, "robospatial-home", "lmms-eval") == [-1.0, 1.0]
    summary, _ = score(path, benchmark=FURTHER["robospatial-home"], profile="lmms-eval,strict")
    assert summary.metrics["lmms-eval"][0].value == 0.0
    assert summary.metrics["strict"][0].value == 0.5
