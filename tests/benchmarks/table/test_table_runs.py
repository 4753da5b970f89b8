"""Runs of tables: found again from any folder, refused before anything is written, and their figures."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

import snellen
from servers.hub import HubHandler, standing_in
from servers.oracle import OracleServer, SentQuestion
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.runs.run import Run, load_run
from snellen.runs.score import score
from snellen.types import Metric

COMMIT = "c" * 40


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    place = tmp_path / "data"
    (place / "pics").mkdir(parents=True)
    for number in range(4):
        Picture.new("RGB", (16 + number, 16), (40 * number, 90, 10)).save(place / f"pics/{number}.png")
    monkeypatch.chdir(place)
    return place


def rows(count: int = 12) -> list[dict[str, Any]]:
    """Questions of which each image has three; the gold letters are A, A, B, A, A, B …"""
    return [
        {"id": f"q{n}", "image": f"pics/{n % 4}.png", "question": f"Which {n}?", "A": "yes", "B": "no", "C": "maybe"}
        | {"answer": "AAB"[n % 3], "topic": ("sky", "sea")[n % 2]}
        for n in range(count)
    ]


def write_csv(questions: Sequence[dict[str, Any]], name: str = "my.csv") -> str:
    with Path(name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(questions[0]))
        writer.writeheader()
        writer.writerows(questions)
    return name


def always_a(request: SentQuestion) -> str:
    return "A"


@pytest.fixture
def run(folder: Path) -> Iterator[Run]:
    questions = rows()
    questions[3]["image"] = "pics/none.png"
    with OracleServer(always_a) as server:
        yield snellen.evaluate(write_csv(questions), "api:oracle", base_url=server.url)


def metrics(run: Run) -> dict[str, Metric]:
    return {metric.name: metric for metric in run.figures()["strict"]}


def test_a_run_of_a_file_has_a_short_name_and_says_how_the_file_was_read(run: Run) -> None:
    assert run.path == Path("results/my-oracle")
    assert "1 row left out: row 4 (line 5) (id q3): image missing: 'pics/none.png'" in run.meta.reading
    assert run.meta.reading in run.notes()
    assert "only 11 of 12 samples could be read from the data" in run.notes()
    assert run.meta.spec.benchmark == str(Path("my.csv").absolute())


def test_figures_are_right_by_default(run: Run) -> None:
    figures = metrics(run)
    accuracy = figures["accuracy"]
    right = sum(row["answer"] == "A" for n, row in enumerate(rows()) if n != 3)
    assert (accuracy.value, accuracy.n, accuracy.coverage) == (right / 11, 11, 11 / 12)
    assert accuracy.chance == pytest.approx(1 / 3)
    assert accuracy.interval is not None and accuracy.interval.cluster == "image"
    assert accuracy.interval.clusters == 4
    assert figures["accuracy/topic/sky"].chance == pytest.approx(1 / 3)
    assert figures["accuracy/gold/A"].value == 1.0 and figures["accuracy/gold/B"].value == 0.0
    assert figures["replies/A"].value == 1.0 and figures["replies/B"].value == 0.0
    assert figures["replies/A"].chance == pytest.approx(right / 11)
    assert next(iter(figures)) == "accuracy"


def test_chance_is_the_mean_of_one_through_the_number_of_options() -> None:
    questions = rows(4)
    for question in questions[:2]:
        question["C"] = ""
    with OracleServer(always_a) as server:
        run = snellen.evaluate(write_csv(questions), "api:oracle", base_url=server.url)
    assert metrics(run)["accuracy"].chance == pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1 / 3) / 4)


def test_refused_and_failed_requests_are_worth_0_within_n() -> None:
    def answer(request: SentQuestion) -> str:
        return "I cannot help with that." if "Which 0?" in request.text else "A"

    with OracleServer(answer) as server:
        run = snellen.evaluate(write_csv(rows(6)), "api:oracle", base_url=server.url)
    figures = metrics(run)
    assert figures["accuracy"].n == 6
    assert figures["accuracy"].value == pytest.approx(3 / 6)
    assert figures["invalid"].value == pytest.approx(1 / 6)


def test_circular_evaluation_counts_a_question_that_is_right_in_every_rotation() -> None:
    def answer(request: SentQuestion) -> str:
        return request.letter("yes") if "Which 0?" in request.text else "A"

    with OracleServer(answer) as server:
        run = snellen.evaluate(
            write_csv(rows(3)), "api:oracle", base_url=server.url, benchmark_options={"circular": "true"}
        )
        assert len(server.requests) == 9
    figures = metrics(run)
    assert figures["circular_accuracy"].value == pytest.approx(1 / 3)
    assert figures["circular_accuracy"].chance == pytest.approx(1 / 27)
    assert (figures["circular_accuracy"].n, figures["circular_accuracy"].coverage) == (3, 1.0)
    assert figures["accuracy"].value == pytest.approx(2 / 3)
    assert figures["accuracy"].n == 3
    assert next(iter(figures)) == "circular_accuracy"


def test_a_run_is_scored_from_any_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = run.path.absolute()
    monkeypatch.chdir(tmp_path)
    assert load_run(path).metric("accuracy").n == 11
    assert main(["score", str(path), "--json"]) == 0


def test_answers_are_scored_without_their_images_and_where_the_table_was_moved(run: Run, tmp_path: Path) -> None:
    before = run.metric("accuracy")
    project = tmp_path / "elsewhere"
    project.mkdir()
    shutil.move("my.csv", project / "my.csv")
    shutil.move("results", project / "results")
    after = load_run(project / "results/my-oracle").metric("accuracy")
    assert (after.value, after.n, after.coverage) == (before.value, before.n, before.coverage)


def test_a_table_that_was_moved_alone_is_named_with_data(run: Run, tmp_path: Path) -> None:
    before = run.metric("accuracy")
    shutil.move("my.csv", tmp_path / "renamed.csv")
    summary, _ = score(run.path, data=tmp_path / "renamed.csv")
    assert summary.metrics["strict"][0].value == before.value
    (tmp_path / "other.csv").write_text("id,question,answer\nq0,Which?,robin\n")
    with pytest.raises(DataError, match="the data given now"):
        score(run.path, data=tmp_path / "other.csv")


def test_a_table_that_is_gone_is_named_with_data_and_one_in_the_run_folder_is_used(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run.metric("accuracy")
    shutil.move("my.csv", tmp_path / "renamed.csv")
    capsys.readouterr()
    for command in ("score", "report", "rerun"):
        assert main([command, str(run.path)]) == 3
        text = capsys.readouterr().err
        assert "the run's data was not found" in text and "--data PATH" in text, command
    shutil.move(tmp_path / "renamed.csv", run.path / "my.csv")
    assert load_run(run.path).metric("accuracy").value == before.value


def test_a_table_that_changed_since_is_not_scored_as_if_it_had_not(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = rows()
    questions[0]["answer"] = "C"
    write_csv(questions)
    assert main(["score", str(run.path)]) == 3
    assert "the run's questions had digest" in capsys.readouterr().err


def test_answers_of_another_harness_are_scored_on_a_table() -> None:
    write_csv(rows(4))
    Path("theirs.jsonl").write_text("".join(json.dumps({"id": f"q{n}", "reply": "A"}) + "\n" for n in range(4)))
    summary, _ = score("theirs.jsonl", benchmark="my.csv")
    assert summary.metrics["strict"][0].value == 0.75


def test_two_runs_of_a_table_are_compared(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with OracleServer(lambda request: "B") as server:
        snellen.evaluate("my.csv", "api:oracle", base_url=server.url, out="results/other")
    assert main(["compare", str(run.path), "results/other"]) == 0
    assert "results/other against results/my-oracle · strict · 11 samples" in capsys.readouterr().out


def test_strict_data_refuses_before_anything_is_asked_or_written(capsys: pytest.CaptureFixture[str]) -> None:
    questions = rows()
    questions[2]["answer"] = "Z"
    with OracleServer(always_a) as server:
        command = ["run", write_csv(questions), "-m", "api:oracle", "--base-url", server.url, "-q"]
        assert main([*command, "--strict-data"]) == 3
        assert server.requests == [] and not Path("results").exists()
        assert "row 3 (line 4) (id q2): answer 'Z' is not among its 3 options" in capsys.readouterr().err
        assert main(command) == 0
        assert len(server.requests) == 11


def test_an_ambiguous_table_is_refused_before_anything_is_asked_or_written(capsys: pytest.CaptureFixture[str]) -> None:
    questions = [{**row, "label": "ABC"[n % 3]} for n, row in enumerate(rows())]
    with OracleServer(always_a) as server:
        command = ["run", write_csv(questions), "-m", "api:oracle", "--base-url", server.url]
        assert main(command) == 2
        assert server.requests == [] and not Path("results").exists()
        message = capsys.readouterr().err
        assert "'answer' and 'label'" in message and "--map answer=answer or --map answer=label" in message
        assert main([*command, "--map", "answer=label,category=topic"]) == 0
        err = " ".join(capsys.readouterr().err.split())
        assert "12 samples, 4 images (CSV)" in err and "answer ← `label` (letters); image" in err
        assert main([*command, "--map", "answer=answer"]) == 5  # another mapping is another experiment
    assert load_run("results/my-oracle").meta.identity["data_options"] == {"map": "answer=label,category=topic"}
    assert "accuracy/category/sky" in metrics(load_run("results/my-oracle"))


def test_images_lie_under_images(tmp_path: Path) -> None:
    shutil.move("pics", tmp_path / "photos")
    questions = [{**row, "image": row["image"].removeprefix("pics/")} for row in rows()]
    write_csv(questions)
    with OracleServer(always_a) as server:
        run = snellen.evaluate("my.csv", "api:oracle", base_url=server.url, images=tmp_path / "photos")
    assert run.metric("accuracy").n == 12


def test_without_any_image_a_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree("pics")
    write_csv(rows())
    assert main(["run", "my.csv", "-m", "embedded"]) == 3
    assert "none of the 12 rows can be asked" in capsys.readouterr().err
    assert not Path("results").exists()


def test_a_folder_of_a_stranger_names_no_table_of_this_machine(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    meta = json.loads((run.path / "run_meta.json").read_text())
    meta["owner"] = ""
    write_csv([{**row, "answer": "C"} for row in rows()], "secret.csv")
    meta["spec"]["benchmark"] = str(Path("secret.csv").absolute())
    (run.path / "run_meta.json").write_text(json.dumps(meta))
    assert main(["score", str(run.path)]) != 0
    assert "Pass the set or table that the run used" in capsys.readouterr().err
    meta["spec"]["benchmark"] = "hf:somebody/set"
    (run.path / "run_meta.json").write_text(json.dumps(meta))
    assert main(["score", str(run.path)]) != 0
    assert "repository" in capsys.readouterr().err


def test_list_says_how_a_table_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    write_csv(rows())
    assert main(["list", "my.csv"]) == 0
    assert "12 samples, 4 images (CSV); choice of 3" in capsys.readouterr().out


class Hub(HubHandler):
    """One data set with two splits, at one commit."""

    files: dict[str, bytes]

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if "/resolve/" in path:
            content = self.files.get(path.partition(f"/resolve/{COMMIT}/")[2])
            if content is None:
                self.reply(404, X_Error_Code="EntryNotFound")
            else:
                self.reply(200, content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit=COMMIT)
        elif "/tree/" in path:
            listing = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in self.files.items()
            ]
            self.reply_json(listing)
        elif "/datasets/a/birds" in path:
            self.reply_about("a/birds", COMMIT, self.files)
        else:
            self.reply(404, X_Error_Code="RepoNotFound")


def test_a_data_set_of_the_hub_is_run_at_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(json.dumps({"question": f"Which {n}?", "answer": f"bird {n}"}) + "\n" for n in range(3)).encode()
    files = {"data/test.jsonl": lines, "data/train.jsonl": lines, "README.md": b"birds"}
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with standing_in(Hub, {"files": files}, monkeypatch, tmp_path), OracleServer(lambda request: "bird 1") as server:
        with pytest.raises(UsageError, match=r"2 files could be the table") as error:
            registry.find("hf:a/birds").reading(Data())
        assert "-o split=" in error.value.hint
        run = snellen.evaluate("hf:a/birds", "api:oracle", base_url=server.url, benchmark_options={"split": "test"})
        assert run.meta.spec.benchmark == f"hf:a/birds@{COMMIT}"
        assert run.path == Path("results/a-birds-oracle")
        assert run.metric("accuracy").value == pytest.approx(1 / 3)


@pytest.mark.parametrize("packed", [False, True], ids=["class folders", "an archive of images"])
def test_images_that_change_between_two_runs_of_a_process_are_those_of_the_second(folder: Path, packed: bool) -> None:
    def drawn(colour: str, *places: str) -> None:
        for place in places:
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            Picture.new("RGB", (16, 16 + len(colour)), colour).save(folder / place)

    drawn("red", "set/cat/0.png", "set/dog/0.png")
    benchmark, images = ("set", None) if not packed else (write_csv(rows(4)), folder / "more.zip")
    if packed:
        shutil.rmtree("pics")
        drawn("red", *(f"zipped/pics/{n}.png" for n in range(4)))
        shutil.make_archive("more", "zip", "zipped")
    first = snellen.evaluate(benchmark, "embedded", out="one", images=images)
    if packed:
        drawn("blue", *(f"zipped/pics/{n}.png" for n in range(4)))
        shutil.make_archive("more", "zip", "zipped")
    else:
        drawn("blue", "set/cat/1.png")
    second = snellen.evaluate(benchmark, "embedded", out="two", images=images)
    assert first.meta.identity["data"] != second.meta.identity["data"]
    assert second.meta.totals.done == (4 if packed else 3)
