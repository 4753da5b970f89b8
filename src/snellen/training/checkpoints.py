"""Checkpoints in a folder: their steps, and whether they are written completely. Reads sizes and headers, never weights."""

from __future__ import annotations

import json
import logging
import re
import struct
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, FingerprintError
from snellen.models.local.adapters import ADAPTER_WEIGHTS
from snellen.models.local.checkpoint import ADAPTER_CONFIG
from snellen.runs.run import Run
from snellen.text import slug

STEP_NAMES = (r"(?:global_?)?steps?", r"checkpoint|ckpt", r"iter(?:ation)?s?", r"epochs?")
"""Words before a step in a folder's name; a name may hold several, as epoch=3-step=1500, and the first of these counts."""
TRAINER_STATE = "trainer_state.json"
"""The last file that transformers' Trainer writes into a checkpoint."""
INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
JSON_BYTES, HEADER_BYTES = 256 << 20, 100 << 20


class CheckpointFolder(Struct, frozen=True):
    """A checkpoint of a training.

    `stamp` changes with the names, sizes and times of its files. `newest` is the time of the last change, in seconds.
    """

    path: Path
    step: int
    stamp: str
    newest: float

    @property
    def name(self) -> str:
        return self.path.name


def list_checkpoints(root: Path) -> tuple[list[CheckpointFolder], list[str]]:
    """Return the checkpoints in a folder by step, and the names of models there without a step.

    Hidden folders and those that begin with `tmp` are omitted: trainers write there before they rename.

    Raises:
        DataError: the folder cannot be read.
    """
    checkpoints: list[CheckpointFolder] = []
    without_step: list[str] = []
    try:
        folders = [path for path in root.iterdir() if path.is_dir() and not path.name.startswith((".", "tmp"))]
    except OSError as error:
        raise DataError(
            f"{root} cannot be read as a folder of checkpoints: {error.strerror}",
            "Name the output_dir of the training.",
        ) from error
    for path in folders:
        step = step_of(path)
        if step is not None:
            stamp, newest = _stamp(path)
            checkpoints.append(CheckpointFolder(path, step, stamp, newest))
        elif is_adapter(path) or (path / "config.json").is_file():
            without_step.append(path.name)
    return sorted(checkpoints, key=lambda item: (item.step, item.name)), sorted(without_step)


def step_of(folder: Path) -> int | None:
    """Return the step in a folder's name, else that of its trainer_state.json, else the last number of the name."""
    for word in STEP_NAMES:
        if match := re.search(rf"(?<![a-z])(?:{word})[-_=.]?(\d{{1,15}})", folder.name, re.IGNORECASE):
            return int(match[1])
    state = _json_object(folder / TRAINER_STATE)
    if state is not None and isinstance(step := state.get("global_step"), int):
        return step
    numbers = re.findall(r"\d{1,15}", folder.name)
    return int(numbers[-1]) if numbers else None


def incomplete(folder: Path) -> str:
    """Return what a checkpoint still lacks, so that it may be in writing; empty if all of its weights are there.

    A safetensors file declares its length in its header, so that a half-written one is known by its size.
    """
    if is_adapter(folder):
        return "" if _lacking(folder / ADAPTER_WEIGHTS) == "" else "the adapter's weights"
    if _json_object(folder / "config.json") is None:
        return "config.json"
    if (folder / INDEX).exists():
        index = _json_object(folder / INDEX)
        shards = None if index is None else index.get("weight_map")
        if not isinstance(shards, Mapping):
            return INDEX
        names = {str(name) for name in shards.values()}
        return next((lack for name in sorted(names) if (lack := _lacking(folder / Path(name).name))), "")
    if (folder / WEIGHTS).exists():
        return _lacking(folder / WEIGHTS)
    if any(path.suffix in PICKLES and path.stem.startswith(("pytorch_model", "model")) for path in _files(folder)):
        return ""  # complete or not, it is never opened: the evaluation says so
    return "weights (model.safetensors)"


def is_adapter(folder: Path) -> bool:
    """Return True for an adapter of PEFT without its base model."""
    return (folder / ADAPTER_CONFIG).is_file() and not (folder / "config.json").is_file()


def is_finished(folder: Path) -> bool:
    """Return True if the Trainer's last file is there, so that nothing more will be written."""
    return _json_object(folder / TRAINER_STATE) is not None


def unusable(folder: Path) -> str:
    """Return why a complete checkpoint cannot be evaluated, with what to do; empty if nothing is known."""
    if is_adapter(folder):
        return ""  # the processor is that of its base
    if not any((folder / name).is_file() for name in ("preprocessor_config.json", "processor_config.json")):
        return "it has no processor (processor_config.json). Pass processing_class=processor to the Trainer"
    return ""


def _lacking(path: Path) -> str:
    """Return the name of a safetensors file that is missing or shorter than its header declares; else empty."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if length > HEADER_BYTES or size < 8 + length:
                return path.name
            header = json.loads(file.read(length))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        return "" if size >= 8 + length + max(ends, default=0) else path.name
    except (OSError, struct.error, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return path.name


def _json_object(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if there is none, or not all of it."""
    try:
        if path.stat().st_size > JSON_BYTES:
            return None
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _files(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_file())
    except OSError:  # deleted meanwhile
        return []


def _stamp(folder: Path) -> tuple[str, float]:
    """Return a digest over names, sizes and times of a folder's files, and the newest time."""
    total, newest = blake2b(digest_size=8), 0.0
    for path in _files(folder):
        try:
            status = path.stat()
        except OSError:
            continue
        total.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
        newest = max(newest, status.st_mtime)
    return total.hexdigest(), newest


log = logging.getLogger(__name__)

STEP_WEIGHTS = frozenset({"model.weights", "model.digest", "model.commit", "model.adapter"})
"""Parts of the fingerprint that differ between two trainings with the same settings."""


def step_folder(out: Path, benchmark: str, step: str) -> Path:
    """Return the run folder of a step."""
    return out / (slug(benchmark) or "benchmark") / step


def evaluate_replacing(
    folder: Path, evaluate: Callable[[], Run], *, replaces: Callable[[FingerprintError], bool]
) -> Run:
    """Evaluate into a folder; a run that is there with another fingerprint is renamed, and the evaluation starts anew.

    Args:
        folder: of the run.
        evaluate: resumes or starts the run in it.
        replaces: whether this difference is one between two trainings; otherwise the error is raised.
    """
    try:
        return evaluate()
    except FingerprintError as error:
        if not replaces(error):
            raise
        older = set_aside(folder)
        log.warning("%s holds a run of another training; it is now %s", folder, older)
        return evaluate()


def other_weights(error: FingerprintError) -> bool:
    """Return True if two runs differ in their weights alone, and in what the checkpoints themselves say about sampling."""
    sampling = {name for name in error.changed if name.startswith("model.sampling.")}
    return bool(STEP_WEIGHTS.intersection(error.changed)) and STEP_WEIGHTS.issuperset({*error.changed} - sampling)


def set_aside(folder: Path) -> Path:
    """Rename a run folder to `NAME.replaced-N`, with the next free number; return its new path."""
    number = 1
    while (older := folder.with_name(f"{folder.name}.replaced-{number}")).exists():
        number += 1
    with RunFolder(folder).locked():  # not while another process writes to it
        pass
    return folder.rename(older)
