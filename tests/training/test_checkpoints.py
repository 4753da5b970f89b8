"""Folders of checkpoints: which step each is, and whether it is complete."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from snellen.errors import DataError
from snellen.training.checkpoints import incomplete, list_checkpoints, step_of, unusable

WEIGHTS = {"a": np.ones((8, 8), np.float32), "b": np.zeros(5, np.float16)}


def checkpoint(folder: Path, *, shards: int = 1) -> Path:
    """A folder with config, processor and weights."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "llava"}')
    (folder / "processor_config.json").write_text("{}")
    if shards == 1:
        save_file(WEIGHTS, folder / "model.safetensors")
        return folder
    names = {name: f"model-0000{place}-of-00002.safetensors" for place, name in enumerate(WEIGHTS, 1)}
    for name, file in names.items():
        save_file({name: WEIGHTS[name]}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("step_1000", 1000),
        ("global_step200", 200),
        ("epoch=3-step=1500", 1500),
        ("iter_0000100", 100),
        ("run7-checkpoint-40-lr2e-5", 40),
        ("ckpt-12", 12),
        ("epoch-3", 3),
        ("0250", 250),
        ("footstep-9-final-30", 30),
        ("final", None),
        ("best", None),
    ],
)
def test_the_step_is_read_from_the_name(name, step, tmp_path):
    (tmp_path / name).mkdir()
    assert step_of(tmp_path / name) == step


def test_a_name_without_a_step_takes_that_of_the_trainers_state(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "trainer_state.json").write_text('{"global_step": 70}')
    assert step_of(tmp_path / "best") == 70


def test_checkpoints_are_listed_by_step_and_models_without_one_by_name(tmp_path):
    for name in ("checkpoint-1000", "checkpoint-90", "step-100", "final"):
        checkpoint(tmp_path / name)
    for name in ("tmp-checkpoint-5", ".checkpoint-6", "logs"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-7").write_text("a file")
    checkpoints, without_step = list_checkpoints(tmp_path)
    assert [item.name for item in checkpoints] == ["checkpoint-90", "step-100", "checkpoint-1000"]
    assert without_step == ["final"]
    before = checkpoints[0].stamp
    (tmp_path / "checkpoint-90" / "config.json").write_text('{"model_type": "other"}')
    assert list_checkpoints(tmp_path)[0][0].stamp != before
    with pytest.raises(DataError, match="cannot be read"):
        list_checkpoints(tmp_path / "none")


def test_a_file_that_is_cut_anywhere_is_incomplete(tmp_path):
    folder = checkpoint(tmp_path / "checkpoint-1")
    assert incomplete(folder) == ""
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for length in (0, 4, 8, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert incomplete(folder) == "model.safetensors", length
    for damaged in (b"\xff" * 64, b"\x02\0\0\0\0\0\0\0[]", b"\x0c\0\0\0\0\0\0\0" + b'{"a": {"b"}}'):
        path.write_bytes(damaged)
        assert incomplete(folder) == "model.safetensors"
    path.unlink()
    assert "weights" in incomplete(folder)
    path.write_bytes(whole)
    (folder / "config.json").write_text('{"model_type": ')
    assert incomplete(folder) == "config.json"


def test_shards_are_complete_with_their_index_and_each_of_them(tmp_path):
    folder = checkpoint(tmp_path / "checkpoint-1", shards=2)
    assert incomplete(folder) == ""
    last = folder / "model-00002-of-00002.safetensors"
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    assert incomplete(folder) == last.name
    last.unlink()
    assert incomplete(folder) == last.name
    last.write_bytes(whole)
    index = folder / "model.safetensors.index.json"
    text = index.read_text()
    index.write_text(text[:-3])
    assert incomplete(folder) == index.name
    index.write_text(text.replace(last.name, f"../../{last.name}"))
    assert incomplete(folder) == "", "a name in the index never leads out of the folder"
    index.unlink()
    assert "weights" in incomplete(folder)


def test_what_can_never_be_evaluated_says_what_to_save(tmp_path):
    adapter = tmp_path / "checkpoint-2"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    assert incomplete(adapter) == "the adapter's weights"
    save_file(WEIGHTS, adapter / "adapter_model.safetensors")
    assert incomplete(adapter) == "" and unusable(adapter) == ""
    bare = checkpoint(tmp_path / "checkpoint-3")
    assert unusable(bare) == ""
    (bare / "processor_config.json").unlink()
    assert "processing_class" in unusable(bare)
