"""`snellen watch`: checkpoints that appear, are half written, fail, change, and a watch that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from models import tiny_vlm
from snellen.cli import main
from snellen.models import embedded
from tracker_records import tensorboard_records

pytestmark = pytest.mark.usefixtures("printed_as_schema")

COMMON = ("--benchmark", "chart/digits", "--max-tokens", 4, "--settle", 0.5, "--poll", 0.1, "--quiet")


class Printed(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return tiny_vlm.build(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def watch(tmp_path, monkeypatch, capsys):
    """`watch("--once")` over tmp_path/ck, into tmp_path/evals."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ck").mkdir(exist_ok=True)

    def call(*words, limit=6):
        capsys.readouterr()
        status = main(["watch", "ck", "--out", "evals", "--limit", str(limit), *map(str, COMMON), *map(str, words)])
        printed = capsys.readouterr()
        return Printed(status, printed.out, printed.err)

    return call


def save(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


def points(printed: Printed) -> dict[str, dict[str, Any]]:
    return {point["checkpoint"]: point for point in json.loads(printed.out)["points"]}


def test_checkpoints_are_evaluated_by_step_and_half_written_and_failing_ones_are_named(watch, tmp_path, tiny):
    save(embedded.path(), tmp_path / "ck" / "checkpoint-20")
    save(tiny, tmp_path / "ck" / "checkpoint-5")
    cut = save(embedded.path(), tmp_path / "ck" / "checkpoint-30") / "model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1])
    broken = save(embedded.path(), tmp_path / "ck" / "checkpoint-10")
    (broken / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2ForCausalLM"]}')
    done = watch("--once", "--json")
    assert done.status == 4, done.err
    outcome = points(done)
    assert list(outcome) == ["checkpoint-5", "checkpoint-10", "checkpoint-20"]
    assert [point["state"] for point in outcome.values()] == ["done", "failed", "done"]
    assert "text-only" in outcome["checkpoint-10"]["error"] and outcome["checkpoint-10"]["run"] is None
    assert "checkpoint-30" not in outcome and json.loads(done.out)["incomplete"] == {
        "checkpoint-30": "model.safetensors"
    }
    metric = outcome["checkpoint-20"]["metrics"][0]
    assert metric["n"] == 6 and metric["ci95"] is None
    assert metric["interval"]["method"] == "no interval: too few clusters"
    page = (tmp_path / "evals" / "watch.html").read_text()
    assert page.count("<svg") >= 2 and "checkpoint-20" in page and "text-only" in page
    again = watch("--once")
    lines = [line.split() for line in again.out.splitlines()]
    assert [line[0] for line in lines[:3]] == ["5", "20", "10"], "the failed one is tried again"
    assert "●" in again.out and "note: checkpoint-30 is not complete" in again.err


def test_a_second_call_asks_nothing_again_and_a_larger_limit_extends(watch, tmp_path, tiny):
    for step in (1, 2):
        save(tiny, tmp_path / "ck" / f"step_{step}")
    assert watch("--once").status == 0
    results = sorted((tmp_path / "evals").glob("chart-digits/*/results.jsonl"))
    before = [path.stat().st_mtime_ns for path in results]
    assert len(before) == 2 and watch("--once").status == 0
    assert [path.stat().st_mtime_ns for path in results] == before
    (tmp_path / "evals" / "watch.json").unlink()  # its loss costs no answer
    assert watch("--once").status == 0
    assert [len(path.read_text().splitlines()) for path in results] == [6, 6]
    assert watch("--once", limit=8).status == 0
    assert [len(path.read_text().splitlines()) for path in results] == [8, 8]


def test_a_checkpoint_that_appears_piece_by_piece_is_read_once_it_is_whole(watch, tmp_path, tiny):
    def write():
        for step in (10, 20):
            folder = tmp_path / "ck" / f"checkpoint-{step}"
            folder.mkdir()
            for path in sorted(tiny.iterdir(), key=lambda path: path.name != "config.json"):
                data = path.read_bytes()
                with (folder / path.name).open("wb") as file:
                    for start in range(0, len(data), 60_000):
                        file.write(data[start : start + 60_000])
                        file.flush()
                        time.sleep(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    done = watch("--idle", 10, "--json")
    writer.join()
    assert done.status == 0, done.err
    assert {name: point["state"] for name, point in points(done).items()} == {
        "checkpoint-10": "done",
        "checkpoint-20": "done",
    }
    assert not json.loads(done.out)["incomplete"]


def test_a_killed_watch_goes_on_where_it_was(watch, tmp_path):
    for step in (1, 2, 3):
        save(embedded.path(), tmp_path / "ck" / f"checkpoint-{step}")
    words = ["watch", "ck", "--out", "evals", "--limit", "60", *map(str, COMMON), "--batch-size", "1"]
    command = [sys.executable, "-m", "snellen", *words]
    second = tmp_path / "evals" / "chart-digits" / "checkpoint-2" / "results.jsonl"
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        deadline = time.monotonic() + 600
        while not (second.exists() and second.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    first = second.parent.parent / "checkpoint-1" / "results.jsonl"
    before = first.stat().st_mtime_ns
    assert 0 < len(second.read_bytes().split(b"\n")) - 1 < 60 and not (second.parent.parent / "checkpoint-3").exists()
    done = watch("--once", "--json", limit=60)
    assert done.status == 0, done.err
    assert [point["state"] for point in points(done).values()] == ["done"] * 3
    assert first.stat().st_mtime_ns == before
    ids = [json.loads(line)["sample_id"] for line in second.read_text().splitlines()]
    assert len(ids) == len(set(ids)) == 60


def test_another_checkpoint_of_the_same_name_is_evaluated_anew_and_other_settings_are_refused(watch, tmp_path, tiny):
    folder = save(tiny, tmp_path / "ck" / "checkpoint-1")
    assert watch("--once").status == 0
    shutil.rmtree(folder)
    save(embedded.path(), folder)
    changed = watch("--once", "--json")
    assert changed.status == 0 and points(changed)["checkpoint-1"]["state"] == "done", changed.err
    names = sorted(path.name for path in (tmp_path / "evals" / "chart-digits").iterdir())
    assert names == ["checkpoint-1", "checkpoint-1.replaced-1"]
    refused = watch("--once", "--temperature", 0.5)
    assert refused.status == 5 and "generation.temperature" in refused.err


def test_each_checkpoint_is_one_step_of_one_run_of_the_tracker(watch, tmp_path, tiny):
    pytest.importorskip("tensorboard")
    for step in (100, 20):
        save(tiny, tmp_path / "ck" / f"checkpoint-{step}")
    assert watch("--once", "--log", "tensorboard:tb", limit=20).status == 0
    save(embedded.path(), tmp_path / "ck" / "checkpoint-300")
    assert watch("--once", "--log", "tensorboard:tb", limit=20).status == 0
    (record,) = tensorboard_records(tmp_path / "tb")
    assert list(record.values["chart/digits/accuracy"]) == [20, 100, 300]
    assert set(record.values["chart/digits/accuracy_ci95_low"]) == {20, 100, 300}


def test_checkpoints_of_a_real_trainer_are_read_at_once_by_their_last_file(watch, tmp_path, tiny):
    import torch
    from transformers import AutoModelForImageTextToText, AutoProcessor, Trainer, TrainingArguments

    tokens = torch.arange(7, 15)
    rows = [{"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}] * 4
    arguments = {"max_steps": 4, "save_steps": 2, "learning_rate": 0.1, "use_cpu": True, "report_to": []}
    Trainer(
        model=AutoModelForImageTextToText.from_pretrained(tiny),
        args=TrainingArguments(output_dir=str(tmp_path / "ck"), disable_tqdm=True, **arguments),
        train_dataset=rows,
        processing_class=AutoProcessor.from_pretrained(tiny),
    ).train()
    began = time.monotonic()
    done = watch("--once", "--json", "--settle", 3600)
    assert time.monotonic() - began < 3600 and done.status == 0, done.err
    assert [point["step"] for point in points(done).values()] == [2, 4]
    runs = [json.loads((tmp_path / point["run"] / "run_meta.json").read_text()) for point in points(done).values()]
    assert runs[0]["identity"]["model"]["digest"] != runs[1]["identity"]["model"]["digest"]


def test_what_cannot_be_watched_is_refused_with_what_to_do(watch, tmp_path, capsys):
    assert watch("--once", "--profile", "all").status == 2
    assert watch("--once", "--dtype", "float7").status == 2
    assert watch("--once", "--benchmark", "chart/digit").status == 2
    missing = main(["watch", str(tmp_path / "none"), "--benchmark", "chart/digits", "--once"])
    assert missing == 2 and "none is not there" in capsys.readouterr().err
    unknown = watch("--metric", "acuracy", "--idle", "0")
    assert unknown.status == 2 and "has no metric 'acuracy'" in unknown.err and not (tmp_path / "evals").exists()
    empty = watch("--once")
    assert empty.status == 0 and "there is no checkpoint in ck" in empty.err
    save(embedded.path(), tmp_path / "ck" / "checkpoint-1")
    wrong = watch("--once", "--metric", "acuracy")
    assert wrong.status == 2 and "has no metric 'acuracy'" in wrong.err and "accuracy" in wrong.err
    (tmp_path / "evals").mkdir(exist_ok=True)
    (tmp_path / "evals" / "watch.json").write_text("{")
    damaged = watch("--once")
    assert damaged.status == 3 and "Delete it" in damaged.err


def test_adapters_are_evaluated_over_one_base_that_is_loaded_once_and_stand_among_whole_checkpoints(
    watch, tmp_path, tiny, monkeypatch
):
    from models.tiny_adapters import merge, write_adapter
    from snellen.models.local import checkpoint

    loads: list[Any] = []
    real = checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda *words: loads.append(words) or real(*words))
    for step in (1, 2, 3):
        write_adapter(tiny, tmp_path / "ck" / f"checkpoint-{step}", step)
    merged = merge(tiny, tmp_path / "ck" / "checkpoint-2", tmp_path / "merged")
    shutil.copytree(merged, tmp_path / "ck" / "checkpoint-4")
    cut = write_adapter(tiny, tmp_path / "ck" / "checkpoint-5", 5) / "adapter_model.safetensors"
    cut.write_bytes(cut.read_bytes()[:-1])
    done = watch("--once", "--json")
    assert done.status == 0, done.err
    outcome = points(done)
    assert list(outcome) == [f"checkpoint-{step}" for step in (1, 2, 3, 4)]
    assert len(loads) == 2, "the base once, and the whole checkpoint"
    assert json.loads(done.out)["incomplete"] == {"checkpoint-5": "the adapter's weights"}

    def said(name: str) -> list[str]:
        rows = (Path(outcome[name]["run"]) / "results.jsonl").read_text().splitlines()
        return sorted(json.loads(row)["response"]["text"] for row in rows)

    assert said("checkpoint-2") == said("checkpoint-4") != said("checkpoint-1")
    assert said("checkpoint-2") != said("checkpoint-3"), "sampled as the base's generation_config.json says"
    assert watch("--once", "--sampling", "greedy", "--out", "greedy").status == 0, "settings of runs are taken too"
    write_adapter(tiny, tmp_path / "ck" / "checkpoint-1", 9)  # of another training
    assert watch("--once").status == 0
    runs = tmp_path / "evals" / "chart-digits"
    assert (runs / "checkpoint-1.replaced-1").is_dir() and not (runs / "checkpoint-2.replaced-1").exists()


def test_repeats_are_drawn_over_the_steps_and_another_number_of_them_is_evaluated(watch, tmp_path, tiny):
    save(tiny, tmp_path / "ck" / "checkpoint-1")
    assert watch("--once").status == 0
    (tmp_path / "evals").rename(tmp_path / "single")
    words = ("--once", "--repeats", 2, "--temperature", 1, "--metric", "pass@2")
    done = watch(*words)
    assert done.status == 0 and "pass@2" in done.out, done.err
    assert "majority@2" in watch(*words[:-1], "avg@8").err
    results = tmp_path / "evals" / "chart-digits" / "checkpoint-1" / "results.jsonl"
    rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert len(rows) == 12 and len({row["sample_id"] for row in rows}) == 6


def test_an_adapter_whose_base_has_moved_is_evaluated_with_the_base_that_is_named(watch, tmp_path, tiny):
    from models.tiny_adapters import write_adapter

    config = write_adapter(tiny, tmp_path / "ck" / "checkpoint-1", 1) / "adapter_config.json"
    for base, match in ((None, "names no base model"), ("/nowhere/tiny", "there is no model folder /nowhere/tiny")):
        config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": base}))
        failed = watch("--once")
        assert failed.status != 0 and match in failed.out, failed.out
    done = watch("--once", "--base", tiny)
    assert done.status == 0 and "●" in done.out, done.err


def test_an_adapter_samples_as_its_base_or_the_recipe_says(watch, tmp_path, tiny):
    from models.tiny_adapters import write_adapter

    base = save(tiny, tmp_path / "base")
    (base / "generation_config.json").write_text(json.dumps({"do_sample": True, "temperature": 0.7, "top_k": 5}))
    write_adapter(base, tmp_path / "ck" / "checkpoint-1", 1)
    run = tmp_path / "evals" / "chart-digits" / "checkpoint-1" / "run_meta.json"
    assert watch("--once").status == 0
    model = json.loads(run.read_text())["identity"]["model"]
    assert model["sampling"] == {"temperature": 0.7, "top_k": 5}
    (tmp_path / "evals").rename(tmp_path / "sampled")
    page = (tmp_path / "sampled" / "watch.html").read_text()
    assert f"over local:{base} · sampling of the checkpoint (temperature 0.7, top_k 5)" in page
    done = watch("--once", "--sampling", "greedy", "--repeats", 2)
    assert done.status == 0, done.err
    page = (tmp_path / "evals" / "watch.html").read_text()
    assert f"over local:{base} · sampling greedy · 2 repeats" in page
    meta = json.loads(run.read_text())
    assert meta["spec"]["recipe"] == "greedy" and "sampling" not in meta["identity"]["model"]
    assert meta["identity"]["generation"]["temperature"] == 0


def test_a_checkpoint_that_was_saved_again_with_other_sampling_is_evaluated_anew_by_it(watch, tmp_path, tiny):
    own = save(tiny, tmp_path / "ck" / "checkpoint-1") / "generation_config.json"
    run = tmp_path / "evals" / "chart-digits" / "checkpoint-1" / "run_meta.json"
    assert watch("--once").status == 0
    own.write_text(json.dumps({"do_sample": True, "temperature": 0.3}))
    save(own.parent, tmp_path / "ck" / "checkpoint-2")
    (tmp_path / "ck" / "checkpoint-2" / own.name).unlink()
    assert watch("--once").status == 0
    page = (tmp_path / "evals" / "watch.html").read_text()
    assert page.count("sampling of the checkpoint (temperature 0.3)") == 1, "each row has its own where they differ"
    assert json.loads(run.read_text())["identity"]["model"]["sampling"] == {"temperature": 0.3}
    assert run.parent.with_name("checkpoint-1.replaced-1").is_dir()


def test_refusals_of_a_watch_name_options_of_the_watch(watch, tmp_path, tiny):
    save(tiny, tmp_path / "ck" / "checkpoint-1")
    assert watch("--once").status == 0
    changed = watch("--once", "--temperature", 1)
    assert changed.status == 5 and "--out NAME" in changed.err and "checkpoint-1-2" not in changed.err
    from models.tiny_adapters import write_adapter

    config = write_adapter(tiny, tmp_path / "ck" / "checkpoint-2", 1) / "adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": "moved"}))
    assert "add --base NAME" in watch("--once").out
