"""A run of VLM2-Bench in the authors' result files: their names, their rows, and the same figures from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from benchmarks.vlm2 import drawn
from snellen import Run, evaluate
from snellen.benchmarks.vlm2.layout import BY_NAME, SUBTASKS
from snellen.errors import BadRequestError, DataError, RefusalError
from snellen.models.base import Model
from snellen.runs.export import export
from snellen.runs.score import score
from snellen.types import Metric, Prompt, Response, Text

SAID = (
    *("T", "F", "T", "F", "True", "t.", "T or F", "F\n"),
    *("2", "3", "4", "one two", "I see 2", "9", "0", "none"),
    *("A) 1 and 2", "B) None", "(C)", "D", "A) or B)", ""),
)


class Talker(Model):
    """Says something of SAID, told by the question's text alone; `otherwise` maps a number to what happens instead."""

    name = "org/some_talker:v2"

    def __init__(self, otherwise: Callable[[int], str | Exception | None] = lambda number: None) -> None:
        self._otherwise = otherwise

    async def answer(self, prompt: Prompt) -> Response:
        text = "".join(part.text for part in prompt.parts if isinstance(part, Text))
        keys = [part.blob.key for part in prompt.parts if not isinstance(part, Text) and part.blob is not None]
        shown = "".join("/".join(Path(key).parts[-2:]) for key in keys)
        number = int.from_bytes(blake2b((text + shown).encode(), digest_size=4).digest(), "big")
        found = self._otherwise(number)
        if isinstance(found, Exception):
            raise found
        return Response(SAID[number % len(SAID)] if found is None else found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return drawn.draw(tmp_path_factory.mktemp("data") / "vlm2", groups=12)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of all nine subtasks in which nothing failed."""
    return evaluate("vlm2", Talker(), data=folder, out=tmp_path_factory.mktemp("runs") / "whole")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def by_task(files: tuple[Path, ...], out: Path) -> dict[str, Path]:
    return {
        subtask.name: path
        for subtask in SUBTASKS
        for path in files
        if path.parent == out / subtask.cue / subtask.results
    }


def values(metrics: list[Metric], prefix: str = "") -> dict[str, tuple[int, Any]]:
    """Name to how many and how much; sums are taken in an order that depends on ids, so not to the last digit."""
    return {
        m.name.removeprefix(prefix): (m.n, None if m.value is None else pytest.approx(m.value, rel=1e-12))
        for m in metrics
        if m.name.startswith(prefix)
    }


def test_every_subtask_has_its_file_under_its_cue_named_after_model_and_start(whole: Run, tmp_path: Path) -> None:
    done = export(whole, "authors", out=tmp_path)
    files = by_task(done.files, tmp_path)
    assert list(files) == [subtask.name for subtask in SUBTASKS]
    assert len(done.notes) == 1 and done.notes[0].startswith("7 of 156 replies were empty")
    stamp = files["gc-mat"].name.removeprefix("org-some_talker-v2_").removesuffix("_answers.jsonl")
    assert len(stamp) == 15 and stamp[8] == "_" and stamp.replace("_", "").isdigit()
    for name, path in files.items():
        if name == "pc-vid":
            # The evaluator takes the name up to the next underscore.
            assert path.name == f"vid_org-some-talker-v2_{stamp}.jsonl"
        else:
            assert path.name == f"org-some_talker-v2_{stamp}_answers.jsonl"
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(done.files)


def test_rows_have_the_fields_of_the_scripts_and_stand_in_the_order_of_the_questions(
    whole: Run, folder: Path, tmp_path: Path
) -> None:
    files = by_task(export(whole, "authors", out=tmp_path).files, tmp_path)
    for subtask in SUBTASKS:
        asked = drawn.rows(drawn.contents(12), subtask)
        rows = lines(files[subtask.name])
        assert len(rows) == len(asked)
        for row, question in zip(rows, asked, strict=True):
            assert row["model_answer"] in {said.strip() for said in SAID}
            rest = {key: value for key, value in row.items() if key != "model_answer"}
            if subtask.family == "video":
                assert rest == {**question, "gt_answer": question.get("gt_answer", "")}
            elif subtask.cue == "gc":
                assert list(row) == ["q_id", "task", "question", "edit_prompt", "model_answer", "gt_answer"]
                same = ("q_id", "task", "question", "gt_answer")
                assert rest == {**{key: question[key] for key in same}, "edit_prompt": question["edited_prompt"]}
            else:
                assert list(row) == ["q_id", "type", "question", "model_answer", "gt_answer"]
                assert rest == {key: question[key] for key in ("q_id", "type", "question", "gt_answer")}


@pytest.mark.parametrize("task", [name for name in BY_NAME if name != "pc-vid"])
def test_the_exported_file_gives_the_figures_of_the_run_under_every_profile(
    whole: Run, folder: Path, tmp_path: Path, task: str
) -> None:
    file = by_task(export(whole, "authors", out=tmp_path).files, tmp_path)[task]
    again, _ = score(file, f"vlm2/{task}", data=folder, profile="all")
    run = whole.summarize("all", save=False)
    for profile, metrics in run.metrics.items():
        own = values(metrics, f"{task}/")
        assert own and any(value is not None for _, value in own.values())
        if task.endswith("grp"):  # the authors' rows of results name no images, which tell the pattern
            own = {name: value for name, value in own.items() if "/pattern/" not in name}
        assert values(again.metrics[profile]) == own, profile


def test_the_same_run_gives_the_same_bytes_whatever_its_answers_order(whole: Run, tmp_path: Path) -> None:
    first = export(whole, "authors", out=tmp_path / "a")
    journal = whole.folder.results.read_text().splitlines()
    other = tmp_path / "other"
    other.mkdir()
    (other / "run_meta.json").write_bytes(whole.folder.meta_path.read_bytes())
    (other / "results.jsonl").write_text("\n".join(reversed(journal)) + "\n")
    second = export(other, "authors", out=tmp_path / "b")
    assert [path.relative_to(tmp_path / "a") for path in first.files] == [
        path.relative_to(tmp_path / "b") for path in second.files
    ]
    for one, two in zip(first.files, second.files, strict=True):
        assert one.read_bytes() == two.read_bytes()


def test_failed_samples_are_left_out_and_counted_and_refused_ones_are_wrong_in_both(
    folder: Path, tmp_path: Path
) -> None:
    def otherwise(number: int) -> Exception | None:
        if number % 5 == 0:
            return BadRequestError("too long")
        return RefusalError("filtered") if number % 5 == 1 else str(number % 4 + 1)

    run = evaluate("vlm2/oc-cnt", Talker(otherwise), data=folder, out=tmp_path / "run")
    totals = run.meta.totals
    assert totals.error and totals.refused and totals.ok
    done = export(run, "authors", out=tmp_path / "out")
    (file,) = done.files
    rows = lines(file)
    assert len(rows) == totals.ok + totals.refused
    assert sum(row["model_answer"] == "" for row in rows) == totals.refused
    assert any(f"{totals.error} samples have no answer and are left out" in note for note in done.notes)
    assert any(f"{totals.refused} refused samples" in note for note in done.notes)
    again, _ = score(file, "vlm2/oc-cnt", data=folder)
    theirs, ours = ({m.name: m for m in found["official"]} for found in (again.metrics, run.summarize().metrics))
    # A failed sample is wrong in ours and not there in theirs; the mean over usable counts knows neither.
    assert theirs["count_exact"].n == len(rows) and ours["count_exact"].n == len(rows) + totals.error
    assert theirs["count_exact"].value * len(rows) == pytest.approx(
        ours["count_exact"].value * (len(rows) + totals.error)
    )
    assert theirs["count_score_usable"].n == ours["count_score_usable"].n > 0
    assert theirs["count_score_usable"].value == pytest.approx(ours["count_score_usable"].value)


def test_of_a_reply_with_reasoning_what_stands_after_the_marker_is_exported(folder: Path, tmp_path: Path) -> None:
    def otherwise(number: int) -> str:
        return f"Thinking of A) and B) and {number}.\nMY_ANSWER: {'T' if number % 2 else 'F'}"

    options = {"prompting": "cot"}
    run = evaluate("vlm2/gc-mat", Talker(otherwise), data=folder, benchmark_options=options, out=tmp_path / "run")
    done = export(run, "authors", out=tmp_path / "out")
    (file,) = done.files
    assert {row["model_answer"] for row in lines(file)} == {"T", "F"}
    assert any("replies to cot" in note and "MY_ANSWER:" in note for note in done.notes)
    again, _ = score(file, "vlm2/gc-mat", data=folder, profile="official")
    assert values(again.metrics["official"]) == values(run.summarize("official", save=False).metrics["official"])


def test_repeats_lie_in_files_of_their_own(folder: Path, tmp_path: Path) -> None:
    run = evaluate("vlm2/oc-grp", Talker(), data=folder, repeats=2, out=tmp_path / "run")
    names = [path.name for path in export(run, "authors", out=tmp_path / "out").files]
    assert len(names) == 2
    assert names[0].startswith("org-some_talker-v2_") and names[1].startswith("org-some_talker-v2-repeat2_")


def test_videos_need_no_gold_and_keep_every_field_of_their_row(folder: Path, tmp_path: Path) -> None:
    run = evaluate("vlm2/pc-vid", Talker(), data=folder, out=tmp_path / "run")
    (file,) = export(run, "authors").files
    assert file.parent == tmp_path / "run" / "exports" / "authors" / "pc" / "test_vid"
    for row, question in zip(lines(file), drawn.rows(drawn.contents(12), "pc-vid"), strict=True):
        assert question.items() <= row.items() and "gt_answer" in row


def test_data_that_has_moved_is_named_and_other_data_is_refused(tmp_path: Path) -> None:
    there = drawn.draw(tmp_path / "there", groups=2)
    run = evaluate("vlm2/pc-grp", Talker(), data=there, out=tmp_path / "run")
    before = export(run, "authors", out=tmp_path / "before").files[0]
    moved = there.rename(tmp_path / "moved")
    with pytest.raises(DataError, match="there"):
        export(tmp_path / "run", "authors", out=tmp_path / "none")
    after = export(tmp_path / "run", "authors", data=moved, out=tmp_path / "after").files[0]
    assert after.read_bytes() == before.read_bytes()
    with pytest.raises(DataError, match="digest"):
        export(tmp_path / "run", "authors", data=drawn.draw(tmp_path / "other", groups=3), out=tmp_path / "none")
    assert not [path for path in (tmp_path / "none").rglob("*") if path.is_file()]


def test_rows_of_the_kits_table_are_exported_with_what_it_has(tmp_path: Path) -> None:
    table = drawn.draw_tsv(tmp_path / "VLM2Bench_img.tsv", groups=6)
    for task in ("gc-mat", "oc-cnt", "pc-cpr"):
        run = evaluate(f"vlm2/{task}", Talker(), data=table, out=tmp_path / task)
        (file,) = export(run, "authors").files
        assert all("images" not in row and row["question"] and row["gt_answer"] for row in lines(file))
        again, _ = score(file, f"vlm2/{task}", data=table, profile="all")
        for profile, metrics in run.summarize("all", save=False).metrics.items():
            assert values(again.metrics[profile]) == values(metrics), (task, profile)
