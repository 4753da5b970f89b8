"""The callback in real training loops of a tiny model: what it logs, and that it changes nothing."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor, Trainer, TrainerCallback, TrainingArguments

import snellen
from models import tiny_vlm
from snellen.errors import SnellenError, UsageError
from snellen.training import EvaluationCallback
from snellen.types import Generation

KEY = "eval_chart/digits/accuracy"
SHORT = Generation(max_tokens=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.set_num_threads(1)
    return tiny_vlm.build(tmp_path_factory.mktemp("models") / "tiny")


class Texts(torch.utils.data.Dataset):
    """Random tokens, as questions and answers in one."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, number: int) -> dict[str, Any]:
        tokens = torch.randint(7, 200, (12,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def trained(folder: Path, out: Path, *callbacks: TrainerCallback, resume: str | None = None, **arguments: Any) -> Any:
    """A Trainer after its training, with dropout, so that a moved random state would change the weights."""
    # From the checkpoint, if there is one: the Trainer of transformers 5.23 does not load LLaVA's renamed weights from it.
    model = AutoModelForImageTextToText.from_pretrained(resume or folder)
    for module in model.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.3
    options = {"max_steps": 7, "per_device_train_batch_size": 2, "learning_rate": 1e-2, "logging_steps": 1}
    options |= {"report_to": [], "save_strategy": "no", "use_cpu": True, "disable_tqdm": True, "seed": 3} | arguments
    trainer = Trainer(
        model=model,
        args=TrainingArguments(output_dir=str(out), **options),
        train_dataset=Texts(),
        eval_dataset=Texts(),
        processing_class=AutoProcessor.from_pretrained(folder),
        callbacks=list(callbacks),
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def logged(trainer: Any, key: str) -> dict[int, float]:
    return {row["step"]: row[key] for row in trainer.state.log_history if key in row}


def test_scores_with_intervals_come_every_steps_and_the_training_is_bit_for_bit_the_same(folder, tmp_path):
    plain = trained(folder, tmp_path / "plain")
    callback = EvaluationCallback("chart/digits", every_steps=3, limit=20, out=tmp_path / "evals", generation=SHORT)
    watched = trained(folder, tmp_path / "watched", callback)
    assert list(logged(watched, KEY)) == [3, 6, 7], "every third step and the last one"
    for step in (3, 6, 7):
        run = snellen.load_run(tmp_path / "evals" / "chart-digits" / f"step-{step:08d}")
        metric = run.metric("accuracy")
        assert run.meta.state == "complete" and run.meta.totals.ok == 20
        values = (logged(watched, f"{KEY}{suffix}")[step] for suffix in ("", "_ci95_low", "_ci95_high", "_n"))
        assert tuple(values) == pytest.approx((metric.value, *metric.ci95, 20))
    identities = {
        run.name: snellen.load_run(run).meta.identity["model"]["weights"]
        for run in (tmp_path / "evals" / "chart-digits").iterdir()
    }
    assert len(set(identities.values())) == 3
    assert logged(watched, "loss") == logged(plain, "loss") and len(logged(plain, "loss")) == 7
    weights, expected = watched.model.state_dict(), plain.model.state_dict()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)


def test_metrics_reach_the_trainers_own_loggers(folder, tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "tb"))
    callback = EvaluationCallback("chart/digits", every_steps=2, limit=4, at_end=False, generation=SHORT)
    trainer = trained(folder, tmp_path / "out", callback, report_to=["tensorboard"], max_steps=4)
    events = EventAccumulator(str(next((tmp_path / "tb").rglob("events*")).parent))
    events.Reload()
    read = {event.step: event.value for event in events.Scalars("eval/chart/digits/accuracy")}
    assert read == pytest.approx(logged(trainer, KEY)) and list(read) == [2, 4]
    assert (tmp_path / "out" / "snellen" / "chart-digits" / "step-00000004").is_dir()


def test_the_values_join_the_trainers_own_evaluation_and_can_choose_the_best_checkpoint(folder, tmp_path):
    callback = EvaluationCallback("chart/digits", limit=6, generation=SHORT)
    trainer = trained(
        folder,
        tmp_path,
        callback,
        max_steps=4,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model=KEY,
        greater_is_better=True,
    )
    assert list(logged(trainer, KEY)) == [2, 4]
    assert trainer.state.best_metric == max(logged(trainer, KEY).values())


def test_a_resumed_training_completes_the_evaluation_that_was_cut_and_keeps_the_others(folder, tmp_path):
    def callback():
        return EvaluationCallback("chart/digits", every_steps=2, limit=4, out=tmp_path / "evals", generation=SHORT)

    saving = {"save_strategy": "steps", "save_steps": 4, "max_steps": 6}
    trained(folder, tmp_path / "out", callback(), **saving)
    runs = tmp_path / "evals" / "chart-digits"
    before = (runs / "step-00000002" / "results.jsonl").stat().st_mtime_ns
    cut = runs / "step-00000004" / "results.jsonl"
    cut.write_text("".join(cut.read_text().splitlines(keepends=True)[:2]))
    shutil.rmtree(runs / "step-00000006")
    resumed = trained(folder, tmp_path / "out", callback(), resume=str(tmp_path / "out" / "checkpoint-4"), **saving)
    assert snellen.load_run(runs / "step-00000004").meta.totals.ok == 4
    assert (runs / "step-00000002" / "results.jsonl").stat().st_mtime_ns == before
    assert snellen.load_run(runs / "step-00000006").meta.totals.ok == 4
    assert not list(runs.glob("*.replaced-*")), "the weights of step 4 were the same, so its run was completed"
    assert {4, 6} <= set(logged(resumed, KEY))


def test_another_training_in_the_same_folder_is_evaluated_anew_and_the_older_runs_are_renamed(folder, tmp_path, caplog):
    for seed in (3, 4):
        callback = EvaluationCallback("chart/digits", every_steps=2, limit=2, out=tmp_path / "evals", generation=SHORT)
        trained(folder, tmp_path / str(seed), callback, max_steps=2, seed=seed)
    names = sorted(path.name for path in (tmp_path / "evals" / "chart-digits").iterdir())
    assert names == ["step-00000002", "step-00000002.replaced-1"]
    assert "holds a run of another training" in caplog.text


def test_a_failing_evaluation_is_a_warning_and_the_training_goes_on(folder, tmp_path, caplog, monkeypatch):
    def fails(*arguments, **settings):
        raise SnellenError("the disk is full", "Free some space.")

    monkeypatch.setattr("snellen.training.callback.evaluate", fails)
    with caplog.at_level(logging.WARNING):
        trainer = trained(folder, tmp_path, EvaluationCallback("chart/digits", every_steps=2, limit=2), max_steps=3)
    assert trainer.state.global_step == 3 and not logged(trainer, KEY)
    assert "step 2: chart/digits was not evaluated: the disk is full" in caplog.text


def test_another_process_than_the_main_one_does_not_evaluate(folder, tmp_path, monkeypatch):
    from transformers.trainer_callback import TrainerState

    monkeypatch.setattr(TrainerState, "is_world_process_zero", property(lambda self: False, lambda self, value: None))
    trainer = trained(folder, tmp_path, EvaluationCallback("chart/digits", every_steps=1, limit=2), max_steps=2)
    assert not (tmp_path / "snellen").exists() and not logged(trainer, KEY)


def test_what_cannot_be_evaluated_is_refused_before_the_first_step(folder, tmp_path):
    for arguments in ({"benchmark": "chart/digit"}, {"benchmark": []}, {"benchmark": "chart/digits", "every_steps": 0}):
        with pytest.raises(UsageError):
            EvaluationCallback(**arguments)
    with pytest.raises(UsageError, match="has no option"):
        EvaluationCallback("chart/digits", benchmark_options={"colour": "red"})
    callback = EvaluationCallback("chart/digits", every_steps=1, limit=2, processor="tiny")
    with pytest.raises(UsageError, match="apply_chat_template"):
        trained(folder, tmp_path, callback)
