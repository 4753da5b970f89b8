"""FIKA-Bench's scripts typed behind `snellen`: the command of Snellen's that does the same."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from snellen.errors import UsageError

Words = list[str]
KEYS = ("--api-key", "--judge-api-key")
KEY_REMARK = "A key cannot be an argument: set {variable} in the environment or in .env."
MODEL, PORT = "Qwen/Qwen3-VL-8B-Instruct-FP8", "8010"
IMAGE, DOCKER = "../containers/vllm-openai.sif", "vllm/vllm-openai:latest"
SUMMARY = "summarize_results.py"
_VARIABLES = ("LIMIT", "OUT_DIR", "DATA_ZIP")


class Typed(NamedTuple):
    """The options behind a script: those with a value, and those without."""

    values: dict[str, str]
    flags: Words


class ScriptCommand(NamedTuple):
    """Our command for a script, and remarks about it."""

    words: Words
    remarks: Words


def check_script(words: Sequence[str]) -> None:
    """Refuse a script of FIKA-Bench's, with the command to type instead.

    Raises:
        UsageError: one of the first words is such a script.
    """
    for number, word in enumerate(words[:4]):
        if word.startswith("-"):
            return
        script = PurePosixPath(word).name
        if script.startswith("summar") and script.endswith(".py"):  # its exact name is not public
            script = SUMMARY
        if script in SCRIPTS:
            command = SCRIPTS[script](_typed(words[number + 1 :]))
            line = shlex.join(["snellen", *command.words])
            raise UsageError(f"{script} is a script of FIKA-Bench's", "\n".join([f"Type: {line}", *command.remarks]))


def _typed(words: Sequence[str]) -> Typed:
    typed = Typed({}, [])
    for number, word in enumerate(words):
        name, sign, value = word.partition("=")
        if not name.startswith("--"):
            continue
        following = words[number + 1] if number + 1 < len(words) else "--"
        if sign or not following.startswith("--"):
            typed.values[name] = value if sign else following
        else:
            typed.flags.append(name)
    return typed


def _run(model: Words, typed: Typed, options: Mapping[str, str], remarks: Sequence[str] = ()) -> ScriptCommand:
    """Build a run of fika: the model, options with their names here, and what every script has."""
    common = {
        "--concurrency": "-c",
        "--limit": "--limit",
        "--out-dir": "--out",
        "--output-dir": "--out",
        "--data-zip": "--data",
        "--data": "--data",
        "--base-url": "--base-url",
        "--max-new-tokens": "--max-new-tokens",
        "--max-pixels": "--max-pixels",
    }
    words = ["run", "fika", *model]
    known = {**common, **options}
    for name, value in typed.values.items():
        if name == "--judge":  # the script's is a flag; what follows it is no option
            continue
        if known.get(name):
            words += [known[name], value]
    words += [flag for flag in ("--stop-after-first-json", "--resume") if flag in typed.flags]
    words += ["--judge"] if "--judge" in typed.flags or "--judge" in typed.values else []
    lost = [
        name for name in (*typed.values, *typed.flags)
        if name not in known and name not in (*KEYS, "--judge", "--resume", "--stop-after-first-json", "--model")
    ]  # fmt: skip
    notes = list(remarks)
    if "--judge" in words:
        notes.append("--judge uses JUDGE_MODEL, JUDGE_BASE_URL and JUDGE_API_KEY, as the script does.")
    return ScriptCommand(words, [*notes, *_used_variables(), *_keys(typed, "OPENAI_API_KEY"), *_without(lost)])


def _keys(typed: Typed, variable: str) -> Words:
    return [KEY_REMARK.format(variable=variable)] if set(KEYS) & set(typed.values) else []


def _without(options: Sequence[str]) -> Words:
    names = ", ".join(options)
    return [f"{names}: not known; `snellen run fika --help` lists all options."] if options else []


def _used_variables() -> Words:
    names = [name for name in _VARIABLES if os.environ.get(name)]
    return [f"{', '.join(names)} is read from the environment, as by the script."] if names else []


def _api(typed: Typed) -> ScriptCommand:
    model = typed.values.get("--model", "NAME")
    return _run(["--model", f"api:{model}"], typed, {"--api-image-max-long-side": "--max-long-side"})


def _local(typed: Typed) -> ScriptCommand:
    path = typed.values.get("--model-path") or os.environ.get("MODEL_PATH") or typed.values.get("--model", "PATH")
    return _run(["--model", f"local:{path}"], typed, {"--model-path": ""})


def _opencode(typed: Typed) -> ScriptCommand:
    model = ["--model", "agent:opencode"]
    if name := typed.values.get("--model"):
        model += ["--agent-model", name]
    options = {"--opencode-bin": "--agent-bin", "--config": "--agent-config", "--timeout-sec": "--timeout"}
    return _run(model, typed, options)


def _judge(typed: Typed) -> ScriptCommand:
    results = PurePosixPath(typed.values.get("--results", "RUN"))
    run = str(results.parent) if results.suffix == ".jsonl" else str(results)
    words = ["judge", run]
    if model := typed.values.get("--judge-model") or typed.values.get("--model"):
        words += ["--model", f"api:{model}"]
    if url := typed.values.get("--base-url"):
        words += ["--base-url", url]
    if typed.values.get("--concurrency"):
        words += ["-c", typed.values["--concurrency"]]
    words += ["--resume"] if "--resume" in typed.flags else []
    return ScriptCommand(words, _keys(typed, "JUDGE_API_KEY"))


def _summary(typed: Typed) -> ScriptCommand:
    results = PurePosixPath(typed.values.get("--results", "RUN"))
    run = str(results.parent) if results.suffix == ".jsonl" else str(results)
    return ScriptCommand(["score", run], [])


def _build_image(typed: Typed) -> ScriptCommand:
    source = os.environ.get("VLLM_DOCKER_IMAGE") or DOCKER
    return ScriptCommand(["agents", "image", os.environ.get("SIF") or IMAGE, "--from", f"docker://{source}"], [])


def _server(typed: Typed) -> ScriptCommand:
    model = os.environ.get("MODEL_PATH") or MODEL
    words = ["serve", "vllm", model, "--port", os.environ.get("PORT") or PORT]
    for variable, option in (("GPU", "--gpu"), ("DATA_PARALLEL_SIZE", "--data-parallel")):
        if os.environ.get(variable):
            words += [option, os.environ[variable]]
    return ScriptCommand([*words, "--apptainer", os.environ.get("SIF") or IMAGE], [])


def _openclaw(typed: Typed) -> ScriptCommand:
    url = os.environ.get("OPENAI_BASE_URL") or f"http://127.0.0.1:{os.environ.get('PORT') or PORT}/v1"
    model = ["--model", "agent:openclaw", "--agent-model", f"vllm-local/{MODEL}", "--base-url", url]
    return _run(model, typed, {}, ["Install the agent first: snellen agents install openclaw"])


SCRIPTS: Mapping[str, Callable[[Typed], ScriptCommand]] = {
    "run_api_eval.py": _api,
    "run_local_transformers_eval.py": _local,
    "run_opencode_eval.py": _opencode,
    "judge_results.py": _judge,
    SUMMARY: _summary,
    "build_vllm_sif.sh": _build_image,
    "apptainer_vllm_qwen3vl8b_server.sh": _server,
    "apptainer_openclaw_eval.sh": _openclaw,
}
