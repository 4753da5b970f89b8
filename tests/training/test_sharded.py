"""The callback in trainings whose weights are sharded over two processes, by torch's FSDP on the processor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

import snellen
from models import tiny_vlm
from snellen.errors import UsageError
from snellen.models.local.in_memory import sharding
from snellen.training.sharded import require_gatherable
from snellen.types import Generation
from training.sharded_training import KINDS, SCALE

SCRIPT = Path(__file__).with_name("sharded_training.py")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return tiny_vlm.build(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def whole(checkpoint, tmp_path_factory):
    """The run of the same weights in one process."""
    torch.set_num_threads(1)
    model: Any = AutoModelForImageTextToText.from_pretrained(checkpoint)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(SCALE)
    processor = AutoProcessor.from_pretrained(checkpoint)
    out = tmp_path_factory.mktemp("runs") / "whole"
    settings: Any = {"limit": 8, "generation": Generation(max_tokens=4), "out": out}
    return snellen.evaluate("chart/digits", model, processor=processor, **settings)


@pytest.fixture(scope="module")
def trained(checkpoint, tmp_path_factory):
    """The folder of all trainings, by two processes that end before the tests begin."""
    folder = tmp_path_factory.mktemp("sharded")
    command = [sys.executable, str(SCRIPT)]
    processes = []
    try:
        for rank in ("0", "1"):
            words = [*command, rank, str(folder), str(checkpoint)]
            with (folder / f"errors-{rank}.txt").open("w") as errors:
                processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors))
        ends = [process.wait(timeout=240) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert ends == [0, 0], [(folder / f"errors-{rank}.txt").read_text()[-2000:] for rank in (0, 1)]
    return folder


def read(folder: Path, name: str) -> list[Any]:
    """What the two processes wrote into their files of this name."""
    return [json.loads((folder / f"{name}-{rank}.json").read_text()) for rank in (0, 1)]


def said(run: Any) -> dict[str, str]:
    return {record.sample_id: record.response.text for record in run.folder.records()}


@pytest.mark.parametrize("kind", KINDS)
def test_sharded_weights_are_evaluated_as_whole_ones_and_the_training_goes_on_as_without(kind, trained, whole):
    folder = trained / kind / "watched"
    assert read(folder, "losses") == read(trained / kind / "plain", "losses")
    assert all(training for _, training in read(folder, "losses"))
    run = snellen.load_run(folder / "evals" / "chart-digits" / "step-00000001")
    assert said(run) == said(whole) and len(said(run)) == 8
    assert run.meta.fingerprint == whole.meta.fingerprint, "the weights' digest is that of the whole model"
    of_main, of_other = read(folder, "logged")
    assert of_other == [] and of_main[0]["eval_chart/digits/accuracy_n"] == 8


def test_zero_3_is_refused_with_the_setting_that_makes_its_checkpoints_whole(checkpoint):
    model: Any = AutoModelForImageTextToText.from_pretrained(checkpoint)
    next(iter(model.parameters())).ds_id = 0  # what DeepSpeed's partitioning marks parameters with
    assert sharding(model) == "ZeRO-3"
    with pytest.raises(UsageError) as caught:
        require_gatherable(model)
    assert "stage3_gather_16bit_weights_on_model_save" in caught.value.hint
