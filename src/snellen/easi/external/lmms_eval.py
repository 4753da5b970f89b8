"""lmms-eval: command line, environment and result files.

Source: EASI v0.2.2's adapter for the commands and the environment; names of folders and files as lmms-eval 0.7.3 writes them.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.easi.external.settings import HarnessSettings, no_keys
from snellen.errors import DataError, MissingExtraError, PreflightError, UsageError
from snellen.formats.base import Problems

NAME = "lmms-eval"
PROFILE = "lmms-eval"
ENVIRONMENT: Mapping[str, str] = {"PYTHONUNBUFFERED": "1", "HF_HUB_ENABLE_HF_TRANSFER": "0"}
"""What its processes get beside ours; hf_transfer's locks stop several of them for ever."""
NAMED_BY = ("peft", "delta", "pretrained", "model", "model_version", "model_name", "model_id", "path", "engine")
"""The arguments of a model that its folder is named for, the first that is there."""
PROBE = (
    "import importlib.util as u, importlib.metadata as m, sys\n"
    "if u.find_spec('lmms_eval') is None: sys.exit(7)\n"
    "try: print(m.version('lmms_eval'))\n"
    "except m.PackageNotFoundError: print('unknown')\n"
)
NOT_THERE = 7
PROBE_S = 120.0
RESULTS_BYTES = 64 << 20
INSTALL = (
    "Give it an environment of its own, because it brings its own versions of torch and transformers: "
    "`python -m venv ~/lmms-eval && ~/lmms-eval/bin/pip install lmms-eval`, then name its interpreter: "
    "--backend-python ~/lmms-eval/bin/python. The model's own packages (qwen-vl-utils, flash-attn ...) go there too. Versions "
    "that work together: `snellen --help backends`."
)


def check(settings: HarnessSettings) -> None:
    """Refuse unusable settings. Raises UsageError."""
    no_keys((settings.model, settings.model_args, *settings.extra))
    if not settings.model_args:
        raise UsageError(
            "lmms-eval needs --model-args: --model is a model's type there, and does not say which weights",
            "For example: --model qwen3_vl --model-args pretrained=Qwen/Qwen3-VL-8B-Instruct",
        )
    if settings.nproc > 1 and not settings.accelerate:
        raise UsageError(f"--no-accelerate starts one process, and --nproc is {settings.nproc}", "Omit one of them.")
    if settings.judge_model:
        raise UsageError("lmms-eval's answers are scored by rules only", "Omit --judge-model.")


def version(settings: HarnessSettings) -> str:
    """Return the version in the harness's environment.

    Raises:
        MissingExtraError: it is not installed there. PreflightError: the interpreter cannot be started.
    """
    python = settings.interpreter
    try:
        done = subprocess.run(  # noqa: S603 - the interpreter that the user named
            [python, "-c", PROBE], capture_output=True, text=True, timeout=PROBE_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PreflightError(f"{python} cannot be asked for lmms-eval: {error}", "Check --backend-python.") from error
    if done.returncode == NOT_THERE:
        raise MissingExtraError(f"lmms-eval is not installed for {python}", INSTALL)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise PreflightError(f"{python} cannot be asked for lmms-eval: {last}", "Check that environment.")
    return done.stdout.strip() or "unknown"


def command(settings: HarnessSettings, task: str, out: Path) -> list[str]:
    """Build the command that runs one task.

    Started by accelerate it listens at a port, which is one that was free a moment ago.
    """
    python = settings.interpreter
    if settings.accelerate:
        beside = Path(python).with_name("accelerate")
        accelerate = [str(beside)] if beside.is_file() else [python, "-m", "accelerate.commands.accelerate_cli"]
        start = [
            *accelerate,
            "launch",
            f"--num_processes={settings.nproc}",
            "--num_machines=1",
            "--mixed_precision=no",
            "--dynamo_backend=no",
            f"--main_process_port={free_port()}",
            "-m",
            "lmms_eval",
        ]
    else:
        start = [python, "-m", "lmms_eval"]
    request = ["--model", settings.model, f"--model_args={settings.model_args}", "--tasks", task, "--batch_size", "1"]
    say = ["--verbosity", "DEBUG"] if settings.verbose else []
    return [*start, *request, "--output_path", str(out), "--log_samples", *say, *settings.extra]


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def model_folder(settings: HarnessSettings) -> str:
    """Return lmms-eval's folder name of the model: the last two path parts, odd characters as two underscores."""
    arguments = dict(part.partition("=")[::2] for part in settings.model_args.split(","))
    name = next((arguments[key] for key in NAMED_BY if arguments.get(key)), settings.model)
    short = "/".join(name.strip("/").split("/")[-2:])
    return re.sub(r"[\"<>:/\|\\?\*\[\]]+", "__", short)


class LmmsEvalFiles(Struct, frozen=True):
    """The files that lmms-eval wrote about one task.

    Attributes:
        samples: its files of answers, one a subtask.
        results: its files of figures, in order of their names.
        original, effective: questions that the task's data has, and how many of them it was to ask; None: it does not say.
        version: of lmms-eval, as its file has it.
    """

    samples: tuple[Path, ...]
    results: tuple[Path, ...]
    original: int | None = None
    effective: int | None = None
    version: str = ""


def written(folder: Path, settings: HarnessSettings, task: str, problems: Problems) -> LmmsEvalFiles:
    """Locate the files of one task under a folder, in any model folder.

    Of several runs the last by name counts, for each subtask. Where several models have files there, those in the folder that
    is named for this model do.

    Raises:
        DataError: several models have files there, and none of the folders is named for this one.
    """
    files = sorted(file for file in folder.rglob("*.json*") if file.is_file() and task_of(file.name) is not None)
    parents = sorted({file.parent for file in files})
    if len(parents) > 1:
        parents = [parent for parent in parents if parent.name == model_folder(settings)]
        if len(parents) != 1:
            raise DataError(
                f"{folder}: results of several models, and no folder {model_folder(settings)!r}",
                "Pass one model's folder.",
            )
    own_files = [file for file in files if parents and file.parent == parents[0]]
    results = tuple(file for file in own_files if task_of(file.name) == "")
    group: set[str] = {task}
    original: int | None = None
    effective: int | None = None
    version = ""
    for path in results:
        content = _whole(path, problems)
        named = set(_leaves(content.get("group_subtasks"), task))
        counts = content.get("n-samples")
        entries = [counts[name] for name in sorted(named) if name in counts] if isinstance(counts, dict) else []
        sizes = [(entry.get("original"), entry.get("effective")) for entry in entries if isinstance(entry, dict)]
        if not sizes:
            continue
        group, version = named, str(content.get("lmms_eval_version") or "")
        original = sum(size for size, _ in sizes if isinstance(size, int))
        effective = sum(size for _, size in sizes if isinstance(size, int))
    last: dict[str, Path] = {}
    for path in own_files:
        name = task_of(path.name)
        if name and (name in group or (name.startswith(f"{task}_") and not results)):
            if name in last:
                problems.add(last[name].name, f"passed over for {path.name}, which is later")
            last[name] = path
    return LmmsEvalFiles(tuple(last.values()), results, original, effective, version)


def task_of(name: str) -> str | None:
    """Return the task of an answer file; empty for a file of metrics, None for any other file."""
    if name.endswith("_results.json") or name == "results.json":
        return ""
    hit = re.fullmatch(r"(?:.*_)?samples_(.+)\.jsonl", name)
    return hit[1] if hit else None


def _leaves(groups: Any, task: str) -> Iterator[str]:
    """Yield the tasks of a group, recursively; the task itself if it is no group."""
    parts = groups.get(task) if isinstance(groups, dict) else None
    if not isinstance(parts, list) or not parts:
        yield task
        return
    for part in parts:
        if isinstance(part, str) and part != task:
            rest = {name: children for name, children in groups.items() if name != task}
            yield from _leaves(rest, part)


def _whole(path: Path, problems: Problems) -> dict[str, Any]:
    try:
        if path.stat().st_size > RESULTS_BYTES:
            raise ValueError("longer than 64 MB")
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        problems.add(path.name, f"cannot be read: {str(error)[:200]}")
        return {}
    return content if isinstance(content, dict) else {}
