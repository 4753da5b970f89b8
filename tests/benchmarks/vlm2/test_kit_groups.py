"""VLMEvalKit's groups of true/false rows: its index without the last part, whatever that part is."""

from __future__ import annotations

from pathlib import Path

import pytest

from snellen.runs.score import score


def pair_accuracy(path: Path, subtask: str, lines: list[tuple[str, str, str]]) -> tuple[float | None, int]:
    """Score rows of (index, answer, prediction) as a table of VLMEvalKit's; return the kit's pair accuracy and its n."""
    rows = [f"{index}\tq\t{answer}\t{subtask}\t['a','b']\t{reply}\n" for index, answer, reply in lines]
    path.write_text("index\tquestion\tanswer\tcategory\timage_path\tprediction\n" + "".join(rows))
    values = []
    for benchmark, prefix in ((f"vlm2/{subtask}", ""), ("vlm2", f"{subtask}/")):
        summary, _ = score(path, benchmark, profile="vlmevalkit")
        metric = next(m for m in summary.metrics["vlmevalkit"] if m.name == f"{prefix}pair_accuracy")
        values.append((metric.value, metric.n))
    assert values[0] == values[1]
    return values[0]


@pytest.mark.parametrize("subtask", ["gc-mat", "gc-trk", "oc-cpr", "pc-cpr"])
def test_two_positive_rows_of_one_index_are_a_pair_to_the_kit(subtask: str, tmp_path: Path) -> None:
    rows = [(f"{subtask}_7_p", "T", "T"), (f"{subtask}_7_p", "T", "True")]
    assert pair_accuracy(tmp_path / "m.tsv", subtask, rows) == (1.0, 1)
    rows.append((f"{subtask}_7_p", "T", "F"))  # every row of the group must be right
    assert pair_accuracy(tmp_path / "m.tsv", subtask, rows) == (0.0, 1)


@pytest.mark.parametrize("subtask", ["gc-mat", "pc-cpr"])
def test_indices_that_read_alike_without_their_subtask_are_two_groups(subtask: str, tmp_path: Path) -> None:
    rows = [(f"{subtask}_1_p", "T", "T"), ("1_n", "F", "F"), (f"{subtask.replace('-', '_')}_1_n", "F", "F")]
    assert pair_accuracy(tmp_path / "m.tsv", subtask, rows) == (0.0, 3)


@pytest.mark.parametrize("subtask", ["gc-mat", "oc-cpr"])
def test_an_index_without_a_number_is_grouped_by_its_subtask_and_one_without_an_underscore_is_left_out(
    subtask: str, tmp_path: Path
) -> None:
    rows = [
        (f"{subtask}_1", "T", "T"),
        (f"{subtask}_2", "F", "F"),
        ("5", "T", "F"),
        (f"{subtask}_3_p", "T", "T"),
        (f"{subtask}_3_q", "F", "F"),
    ]
    assert pair_accuracy(tmp_path / "m.tsv", subtask, rows) == (1.0, 2)


def test_no_images_in_a_counting_row_means_the_images_that_are_there_to_the_kit(tmp_path: Path) -> None:
    path = tmp_path / "m.tsv"
    path.write_text(
        "index\tquestion\tanswer\tcategory\timage_path\timage_seq_len\tprediction\n"
        "oc-cnt_1\tq\t1\toc-cnt\t['a','b','c','d']\t0\t2\n"
    )
    summary, _ = score(path, "vlm2/oc-cnt", profile="vlmevalkit")
    value = {m.name: m.value for m in summary.metrics["vlmevalkit"]}["count_score_all"]
    assert value == pytest.approx(0.104042, abs=1e-6)
