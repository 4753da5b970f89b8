"""The words of lmms-eval's own tasks, read out of an installation of it, as a file for `--prompts`.

Only YAML files are read, and of them only texts and numbers: nothing of the package is imported, a tag such as
`!function` stands for nothing, and files outside the folder of the tasks are not opened. What lmms-eval has in its Python
code is not read: there our words remain, and the file says so.

Source: docs of lmms-eval on task files (`include`, `lmms_eval_specific_kwargs`, `generation_kwargs`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from snellen.benchmarks.spatial.prompts.words import LABELLED, NO_WORDS, default_words
from snellen.benchmarks.spatial.tasks import EVERY, TASKS
from snellen.benchmarks.table.set_sections import Form
from snellen.errors import DataError

LONGEST_YAML = 1 << 18
DEEPEST_INCLUDE = 8
DEFAULT = "default"
HOW_TO_GET = "Install it beside Snellen (pip install lmms-eval), or give the folder of a copy of it: --path DIR."

_TASK = re.compile(r"""^task:\s*["']?([\w.-]+)["']?\s*(?:#.*)?$""", re.MULTILINE)


class Imported(Struct, frozen=True):
    """Words read from lmms-eval.

    Attributes:
        words: by benchmark; those that were not found are not among them.
        missing: benchmarks without their task file.
        remarks: what a user must know of it, one line each.
        source: lmms-eval and its version, or the folder's name.
        form: whose order of texts and images they are for: `lmms-eval`, or `neo_ov` with labels.
    """

    words: Mapping[str, Form]
    missing: tuple[str, ...]
    remarks: tuple[str, ...]
    source: str
    form: str = "lmms-eval"


def installed() -> Path:
    """Return the folder of the lmms-eval that is installed beside Snellen; nothing of it is run.

    Raises:
        DataError: there is none.
    """
    spec = find_spec("lmms_eval")  # of a package at the top nothing is run
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (Path(folder) / "tasks").is_dir():
            return Path(folder)
    raise DataError("lmms-eval is not installed where Snellen is", HOW_TO_GET)


def read(path: Path | None = None, model_key: str = DEFAULT) -> Imported:
    """Return the words of lmms-eval's tasks for the spatial benchmarks.

    Args:
        path: the package's folder, its folder of tasks, or a folder that has `lmms_eval` in it; None: what is installed.
        model_key: which of the models' own settings to take where a task has them, such as `gpt4v`; a task without them
            has its default.

    Raises:
        DataError: nothing there, no task of these benchmarks in it, a file that cannot be read or holds no such settings.
    """
    package = installed() if path is None else path
    tasks = _tasks(package)
    files = _files(tasks)
    keyed = model_key == DEFAULT
    form = LABELLED if model_key == LABELLED else "lmms-eval"
    words: dict[str, Form] = {}
    missing: list[str] = []
    remarks: list[str] = []
    for name, parts in _settings_read(form).items():
        lacking = [task for task in parts if task not in files]
        if lacking:
            missing.append(name)
            remarks.append(f"{name}: lmms-eval has no task {', '.join(lacking)} here; {_instead(name)}")
            continue
        words[name] = default_words(form, name)
        for task, texts in parts.items():
            config = _config(files[task], tasks)
            words[name] = _with(words[name], texts, config, model_key, f"{name}, task {task}", remarks)
            keyed = keyed or model_key in (config.get("lmms_eval_specific_kwargs") or ())
        if words[name].ours:
            remarks.append(f"{name}: our words remain for {words[name].ours}, which lmms-eval has in its code")
    if not words:
        raise DataError(f"{tasks}: none of the tasks of the spatial benchmarks is there", HOW_TO_GET)
    if not keyed:
        raise DataError(
            f"{tasks}: no task has settings for {model_key!r}", "Omit --model-key to use the default settings."
        )
    return Imported(words, tuple(missing), tuple(remarks), _source(package, path), form)


def _settings_read(form: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return, by benchmark and task of lmms-eval's, our keys with the settings that are read for them."""
    read: dict[str, dict[str, dict[str, str]]] = {}
    for name, task in TASKS.items():
        parts = read[name] = {}
        for key, place in task.declared.form[form].read.items():
            other, _, setting = place.rpartition(".")
            parts.setdefault(other or task.declared.lmms_eval.tasks[0], {})[key] = setting
        if not parts:
            parts[task.declared.lmms_eval.tasks[0]] = {}
    return read


def _instead(name: str) -> str:
    return "VSI-Bench's words are used" if name == "vsi-debiased" else "the file has no words for it"


def _source(package: Path, path: Path | None) -> str:
    if path is None:
        try:
            return f"lmms-eval {version('lmms-eval')}"
        except PackageNotFoundError:
            return "lmms-eval"
    for parent in (package, package.parent):
        for folder in sorted(parent.glob("lmms_eval-*.dist-info")):
            release = folder.name.removeprefix("lmms_eval-").removesuffix(".dist-info")
            if re.fullmatch(r"[\w.+-]+", release):
                return f"lmms-eval {release}"
    return f"lmms-eval in a folder {package.name!r}"


def _tasks(package: Path) -> Path:
    for folder in (package / "tasks", package / "lmms_eval" / "tasks", package):
        if folder.is_dir() and (folder.name == "tasks"):
            return folder
    raise DataError(f"{package}: there is no folder of lmms-eval's tasks", HOW_TO_GET)


def _files(tasks: Path) -> dict[str, Path]:
    """Return task name to its file, of the tasks that are wanted.

    Raises:
        DataError: two files say that they are one task.
    """
    wanted = {task for parts in _settings_read(LABELLED).values() for task in parts}
    files: dict[str, Path] = {}
    for path in _yaml_files(tasks):
        for name in _TASK.findall(_text(path)):
            if name not in wanted:
                continue
            if name in files:
                raise DataError(f"{tasks}: {files[name].name} and {path.name} both say that they are the task {name}")
            files[name] = path
    return files


def _yaml_files(tasks: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(tasks):
        folders.sort()
        for name in sorted(names):
            path = Path(folder) / name
            if name.endswith((".yaml", ".yml")) and path.is_file():
                yield path


def _text(path: Path) -> str:
    with path.open("rb") as stream:
        raw = stream.read(LONGEST_YAML + 1)
    if len(raw) > LONGEST_YAML:
        return ""  # no task file of lmms-eval's is that long
    return raw.decode("utf-8", "replace")


def _config(path: Path, tasks: Path, depth: int = 0) -> dict[str, Any]:
    """Return a task's settings: those of the files that it includes, its own over them, key by key.

    Raises:
        DataError: no YAML, an included file that is not there or lies outside the tasks, files that include each other.
    """
    if depth > DEEPEST_INCLUDE:
        raise DataError(f"{path}: files include each other {DEEPEST_INCLUDE} deep and deeper")
    config = _yaml(path)
    included = config.pop("include", [])
    merged: dict[str, Any] = {}
    for name in reversed([included] if isinstance(included, str) else included or []):
        # Not resolved: installers may have put links in place of the files.
        other = Path(os.path.normpath(path.parent / str(name)))
        if not other.is_relative_to(os.path.normpath(tasks)):
            raise DataError(f"{path}: it includes {str(name)[:200]!r}, which lies outside {tasks}")
        if not other.is_file():
            raise DataError(
                f"{path}: it includes {str(name)[:200]!r}, which is not there", "Check that the copy is complete."
            )
        merged.update(_config(other, tasks, depth + 1))
    return {**merged, **config}


def _yaml(path: Path) -> dict[str, Any]:
    import yaml

    class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
        """Texts, numbers, lists and mappings; any other tag is nothing, and `<<` is refused, for it can grow without end."""

        def flatten_mapping(self, node: Any) -> None:
            if any(key.tag == "tag:yaml.org,2002:merge" for key, _ in node.value):
                raise yaml.YAMLError("it merges mappings (<<), which is not read")

    PlainLoader.add_constructor(None, lambda loader, node: None)
    try:
        settings = yaml.load(_text(path), PlainLoader)  # a SafeLoader that knows even less
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())[:300]}") from error
    if not isinstance(settings, dict):
        raise DataError(f"{path}: settings by name were expected, and it holds {type(settings).__name__}")
    return settings


def _with(
    words: Form,
    texts: Mapping[str, str],
    config: Mapping[str, Any],
    model_key: str,
    place: str,
    remarks: list[str],
) -> Form:
    """Return the words with a task's texts in place of ours, and its limits."""
    settings = _settings(config, model_key, place)
    if settings.get("prompt_format") not in (None, "", LABELLED):
        raise DataError(
            f"{place}: {model_key} has prompts laid out in another way ({settings['prompt_format']!r})",
            "Only texts are imported; omit --model-key.",
        )
    new: dict[str, Any] = {}
    for field, key in texts.items():
        text = settings.get(key)
        if text is None or (text == "" and place.startswith("vsi")):
            if getattr(words, field):
                remarks.append(f"{place}: it has no {key}; ours remains")
            continue
        if not isinstance(text, str) or any("\ud800" <= character <= "\udfff" for character in text):
            raise DataError(f"{place}: its {key} is no text that can be written: {text!r:.80}")
        new[field] = text.replace("{}", "{letters}") if place.startswith("blink") else text
    generation = config.get("generation_kwargs")
    limits = generation if isinstance(generation, dict) else {}
    if isinstance(limits.get("max_new_tokens"), int) and limits["max_new_tokens"] > 0:
        new["max_tokens"] = limits["max_new_tokens"]
    if isinstance(limits.get("temperature"), int | float) and 0 <= limits["temperature"] <= 100:
        new["temperature"] = float(limits["temperature"])
    frame_count = settings.get("num_frames", settings.get("max_frame"))
    usual = TASKS[place.partition(",")[0]].declared.frames.count or frame_count
    if isinstance(frame_count, int) and frame_count != usual:
        remarks.append(f"{place}: it shows {frame_count} frames; add --sample-frames {frame_count}")
    if settings.get("interleave_visuals") is False:
        remarks.append(f"{place}: it does not interleave, while we put pictures at their marks")
    return structs.replace(words, **new)


def _settings(config: Mapping[str, Any], model_key: str, place: str) -> dict[str, Any]:
    """Return the settings in `lmms_eval_specific_kwargs`: the model's own, else all, with the default's over them."""
    settings = config.get("lmms_eval_specific_kwargs") or {}
    if not isinstance(settings, dict):
        raise DataError(f"{place}: lmms_eval_specific_kwargs holds no settings by name: {settings!r:.80}")
    own = settings.get(model_key) if model_key != DEFAULT else None
    if isinstance(own, dict):
        return own
    default = settings.get(DEFAULT)
    return {**settings, **(default if isinstance(default, dict) else {})}


def toml(imported: Imported) -> str:
    """Return the file for `--prompts`."""
    lines = [
        f"# Words of {imported.source}, read by `snellen prompts import`. They belong to its authors.",
        *(f"# {line}" for line in imported.remarks),
        f'prompting = "{imported.form}"',
        f"source = {_value(imported.source)}",
    ]
    empty = Form()
    for name in (name for name in EVERY if name in imported.words):
        lines += ["", f"[{name}]"]
        for field in (field for field in empty.__struct_fields__ if field not in NO_WORDS):
            value = getattr(imported.words[name], field)
            if value != getattr(empty, field):
                lines.append(f"{field} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: str | float) -> str:
    if not isinstance(value, str):
        return repr(value)
    return '"' + "".join(_ESCAPED.get(character) or character for character in value) + '"'


_ESCAPED = {chr(code): f"\\u{code:04x}" for code in (*range(32), 127)} | {'"': '\\"', "\\": "\\\\", "\n": "\\n"}
