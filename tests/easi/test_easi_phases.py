"""Data before the model, the model once for all benchmarks, and no benchmark stands in another one's way."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from easi_stubs import Speaker, done, settings
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from snellen import load_run
from snellen.cli import main
from snellen.easi import EasiSettings, plan
from snellen.easi import run as phases
from snellen.errors import BadRequestError, UsageError
from snellen.models.base import ModelOptions
from snellen.types import Prompt, Response

THREE = "mmsi_bench, blink, embspatial"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("mmsi-bench", "blink", "embspatial"):
        drawn.draw(name, tmp_path / "data")
    return tmp_path / "data"


def test_the_model_is_loaded_once_for_all_and_after_all_data_was_looked_into(data: Path, tmp_path: Path, monkeypatch):
    model = Speaker(lambda text: "A")
    board, told = done(monkeypatch, model, settings(data, tmp_path / "out", THREE))
    assert (model.loads, model.closes) == (1, 1) and board.status == 0
    assert model.asked == sum(map(drawn.count, ("mmsi-bench", "blink", "embspatial")))
    ready = [told.states.index((name, "ready")) for name in ("mmsi-bench", "blink", "embspatial")]
    assert max(ready) < told.states.index(("mmsi-bench", "running"))
    assert [row.state for row in board.rows] == ["complete"] * 3
    manifest = json.loads((board.folder / "easi.json").read_bytes())
    assert list(manifest["benchmarks"]) == ["mmsi-bench", "blink", "embspatial"]
    assert manifest["average"]["benchmarks"] == 3 and manifest["average"]["of"] == 8


def test_a_second_call_asks_nothing_and_loads_nothing(data: Path, tmp_path: Path, monkeypatch):
    done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", THREE))
    again = Speaker(lambda text: "B")
    board, _ = done(monkeypatch, again, settings(data, tmp_path / "out", THREE))
    assert (again.loads, again.asked, board.status) == (0, 0, 0)


def test_one_broken_benchmark_does_not_stop_the_others(data: Path, tmp_path: Path, monkeypatch):
    shutil.rmtree(data / "blink")
    (data / "blink").mkdir()
    model = Speaker(lambda text: "A")
    board, _ = done(monkeypatch, model, settings(data, tmp_path / "out", THREE))
    assert [row.state for row in board.rows] == ["complete", "failed", "complete"]
    assert board.status == 3 and [row.name for row in board.unfinished] == ["blink"]
    assert "no questions of blink" in str(board.failed[0].error)
    drawn.draw("blink", data)
    board, _ = done(monkeypatch, model, settings(data, tmp_path / "out", THREE))
    assert board.status == 0 and model.loads == 2


def test_a_fault_in_one_benchmarks_code_is_its_own(data: Path, tmp_path: Path, monkeypatch):
    whole = phases.count_unparsed

    def broken(run: Any) -> Any:
        if run.benchmark.name == "blink":
            raise ZeroDivisionError("by nothing")
        return whole(run)

    monkeypatch.setattr(phases, "count_unparsed", broken)
    board, _ = done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", THREE))
    assert [row.state for row in board.rows] == ["complete", "failed", "complete"]
    assert board.status == 70 and "ZeroDivisionError: by nothing" in str(board.failed[0].error)


def test_a_model_that_cannot_be_loaded_is_tried_once_and_every_benchmark_says_so(data, tmp_path, monkeypatch):
    model = Speaker(lambda text: "A", refuses=True)
    board, _ = done(monkeypatch, model, settings(data, tmp_path / "out", THREE))
    assert model.loads == 1 and board.status == 4
    assert all("there is no such model" in str(row.error) for row in board.rows)


def test_a_smoke_test_never_passes_for_complete_and_is_gone_on_with(data: Path, tmp_path: Path, monkeypatch):
    board, _ = done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", THREE, limit=2))
    assert [row.state for row in board.rows] == ["partial"] * 3 and board.status == 9
    assert all(row.overall is not None and row.overall.coverage < 1 for row in board.rows)
    model = Speaker(lambda text: "A")
    board, _ = done(monkeypatch, model, settings(data, tmp_path / "out", THREE))
    assert [row.state for row in board.rows] == ["complete"] * 3 and board.status == 0
    assert model.asked == sum(drawn.count(name) - 2 for name in ("mmsi-bench", "blink", "embspatial"))


def test_begun_anew_the_old_run_is_kept_aside(data: Path, tmp_path: Path, monkeypatch):
    asked = settings(data, tmp_path / "out", "embspatial")
    done(monkeypatch, Speaker(lambda text: "A"), asked)
    model = Speaker(lambda text: "B")
    board, told = done(monkeypatch, model, settings(data, tmp_path / "out", "embspatial", rerun=True))
    assert model.asked == drawn.count("embspatial") and model.loads == 1
    (old,) = (board.folder / "earlier").glob("*/embspatial")
    assert {record.response.text for record in load_run(old).folder.records() if record.response} == {"A"}
    assert {record.response.text for record in load_run(board.rows[0].folder).folder.records() if record.response} == {
        "B"
    }
    assert any("lies in" in text for text in told.texts)


def test_a_rerun_that_cannot_load_its_model_leaves_the_old_run_where_it_is(data: Path, tmp_path: Path, monkeypatch):
    done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", "embspatial"))
    refusing = Speaker(lambda text: "B", refuses=True)
    board, _ = done(monkeypatch, refusing, settings(data, tmp_path / "out", "embspatial", rerun=True))
    assert board.status == 4 and not (board.folder / "earlier").exists()
    assert len(load_run(board.rows[0].folder).records()) == drawn.count("embspatial")


def test_other_settings_are_refused_by_each_run_that_is_there(data: Path, tmp_path: Path, monkeypatch):
    done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", "embspatial"))
    other = EasiSettings(
        "speaker:one", ModelOptions(seed=7), ("blink", "embspatial"), tmp_path / "out", data, {"sample-frames": "2"}
    )
    board, _ = done(monkeypatch, Speaker(lambda text: "A"), other)
    assert [row.state for row in board.rows] == ["complete", "failed"]
    assert board.status == 5 and "seed" in str(board.failed[0].error)
    error = board.failed[0].error
    assert error is not None and "--rerun, or another --output-dir" in error.hint and "--out " not in error.hint


def test_fewer_prompts_in_a_batch_after_memory_ran_out_are_recorded(data: Path, tmp_path: Path, monkeypatch):
    model = Speaker(lambda text: "A")

    def tight(text: str) -> str:
        model.batch_limit = 4
        return "A"

    monkeypatch.setattr(model, "_says", tight)
    board, _ = done(monkeypatch, model, settings(data, tmp_path / "out", THREE))
    assert "memory ran out: 4 prompts in a batch in place of 32" in board.rows[0].notes
    assert not any("memory" in note for note in board.rows[1].notes)
    assert load_run(board.rows[0].folder).meta.environment["executor"] == {"batch_limit": 4}


def test_questions_without_an_answer_leave_a_benchmark_partial_and_say_why(data: Path, tmp_path: Path, monkeypatch):
    def says(text: str) -> str:
        if "cup and box 0" in text:
            raise BadRequestError("the prompt is too long")
        return "A"

    board, _ = done(monkeypatch, Speaker(says), settings(data, tmp_path / "out", "embspatial"))
    assert board.rows[0].state == "partial" and board.status == 9
    assert any("samples have no answer" in note and "too long" in note for note in board.rows[0].notes)


def test_what_was_whole_before_somebody_ended_it_has_its_figures(data: Path, tmp_path: Path, monkeypatch):
    def says(text: str) -> str:
        if "cup and box" in text:  # the third benchmark's
            os.kill(os.getpid(), signal.SIGINT)
        return "A"

    board, _ = done(monkeypatch, Speaker(says), settings(data, tmp_path / "out", THREE))
    assert board.interrupted and board.status == 130
    assert [row.state for row in board.rows] == ["complete", "complete", "partial"]
    assert [row.overall is not None for row in board.rows] == [True, True, False]


def test_an_option_that_no_benchmark_has_is_refused_before_anything(data: Path, tmp_path: Path):
    asked = EasiSettings("embedded", ModelOptions(), ("blink",), tmp_path / "out", data, {"colour": "red"})
    with pytest.raises(UsageError, match="no option 'colour'"):
        plan(asked)


def test_models_have_folders_of_their_own(tmp_path: Path):
    names = [
        EasiSettings(name, ModelOptions(), ("blink",), tmp_path).folder.name
        for name in ("local:a/b", "api:a-c", "embedded")
    ]
    assert names == ["a-b", "a-c", "embedded"]


def test_the_average_of_the_manifest_is_over_what_earlier_calls_came_to_as_well(data, tmp_path, monkeypatch):
    for one in ("embspatial", "blink"):
        board, _ = done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", one))
    manifest = json.loads((board.folder / "easi.json").read_bytes())
    overall = [entry["metrics"][0]["value"] for entry in manifest["benchmarks"].values()]
    assert manifest["average"] == {"value": pytest.approx(sum(overall) / 2), "benchmarks": 2, "of": 8}
    assert board.average()[1] == 1, "the table of this call has one row"


def test_a_command_that_each_run_refuses_leaves_what_is_said_of_them(data: Path, tmp_path: Path, monkeypatch):
    board, _ = done(monkeypatch, Speaker(lambda text: "A"), settings(data, tmp_path / "out", "embspatial"))
    before = (board.folder / "easi.json").read_bytes()
    other = EasiSettings(
        "speaker:one", ModelOptions(seed=7), ("embspatial",), tmp_path / "out", data, {"sample-frames": "2"}
    )
    board, _ = done(monkeypatch, Speaker(lambda text: "A"), other)
    assert board.status == 5
    assert (board.folder / "easi.json").read_bytes() == before


def test_replayed_answers_are_met_by_position_and_refused_where_no_id_matches(data: Path, tmp_path: Path, capsys):
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": n, "reply": "A"}) + "\n" for n in range(drawn.count("blink"))))
    line = ["easi", "-m", f"replay:{answers}", "--benchmarks", "blink", "--dataset-dir", str(data), "--json"]
    assert main([*line, "--output-dir", str(tmp_path / "a")]) == 3
    (row,) = json.loads(capsys.readouterr().out)["benchmarks"].values()
    assert "none of its" in row["error"]["message"] and "Give --id-is position" in row["error"]["hint"]
    assert main([*line, "--output-dir", str(tmp_path / "b"), "--id-is", "position"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["benchmarks"].values()
    assert row["state"] == "complete"


def test_a_judge_that_cannot_be_asked_is_named_before_the_model_is_asked(data, tmp_path, stub, capsys, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "any-word")
    monkeypatch.setattr("snellen.models.base.START_PATIENCE_S", 0.0)
    line = ["easi", "-m", "api:stub-vlm", "--base-url", stub.url, "--benchmarks", "blink", "--dataset-dir", str(data)]
    line += ["--output-dir", str(tmp_path / "out"), "--no-rich", "--judge", "api:judge"]
    for address, status, answer in (
        ("foo", 2, "--base-url must start with http"),
        ("http://127.0.0.1:1/v1", 4, "the judge api:judge cannot be asked: Cannot connect to http://127.0.0.1:1/v1"),
    ):
        monkeypatch.setenv("JUDGE_BASE_URL", address)
        assert main(line) == status
        assert answer in " ".join(capsys.readouterr().err.split())
        assert stub.stats()["served"] == 0


def test_replies_that_were_cut_off_are_counted_in_the_notes_of_their_benchmark(data: Path, tmp_path: Path, monkeypatch):
    class Cut(Speaker):
        async def answer(self, prompt: Prompt) -> Response:
            return structs.replace(await super().answer(prompt), finish_reason="length" if self.asked == 1 else "stop")

    board, _ = done(monkeypatch, Cut(lambda text: "A"), settings(data, tmp_path / "out", "blink, embspatial"))
    counts = [sum("1 of " in note and "cut off at the token limit" in note for note in row.notes) for row in board.rows]
    assert sum(counts) == 1


def test_a_benchmark_whose_replies_are_mostly_empty_ends_with_9(data: Path, tmp_path: Path, monkeypatch):
    board, _ = done(monkeypatch, Speaker(lambda text: " "), settings(data, tmp_path / "out", "blink", judging=False))
    (row,) = board.rows
    assert any("replies were empty, with text nowhere" in note for note in row.notes) and board.status == 9
