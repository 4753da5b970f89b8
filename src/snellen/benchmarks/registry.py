"""The registry of benchmarks: name to declaration; and hints for names that are none: other programs' spellings, a run, a folder, a file."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files as resource_files
from pathlib import Path
from typing import Any

from snellen.benchmarks.base import Benchmark
from snellen.errors import UsageError
from snellen.plugin_errors import plugin_fault
from snellen.redaction import register_environment
from snellen.types import DECODED_SUFFIXES

GROUP = "snellen.benchmarks"


def constant_of(name: str) -> str:
    """Return the constant that declares a benchmark: VSI_BENCH for `vsi-bench`."""
    return "THREE_DSR" if name == "3dsrbench" else re.sub(r"[-/]", "_", name).upper()


_VLM2 = ("gc-mat", "gc-trk", "oc-cpr", "oc-cnt", "oc-grp", "pc-cpr", "pc-cnt", "pc-grp", "pc-vid")


@cache
def set_names() -> tuple[str, ...]:
    """Return the names of the sets that other harnesses run too, one for each file of `sets`."""
    folder = Path(__file__).parent / "sets"
    files = (path.relative_to(folder).as_posix() for path in folder.rglob("*.toml"))
    return tuple(sorted(file.removesuffix(".toml") for file in files))


BUILT_IN = {
    "chart": "snellen.benchmarks.chart.creatures:CHART",
    "chart/digits": "snellen.benchmarks.chart.digits:DIGITS",
    "chart/creatures": "snellen.benchmarks.chart.creatures:CREATURES",
    "acuity": "snellen.benchmarks.acuity:ACUITY",
    "fika": "snellen.benchmarks.fika:FIKA",
    "vlm2": "snellen.benchmarks.vlm2:VLM2",
    **{f"vlm2/{name}": f"snellen.benchmarks.vlm2:{constant_of(name)}" for name in _VLM2},
    **{
        name: f"snellen.benchmarks.spatial:{constant_of(name)}"
        for name in sorted((*set_names(), "site/image", "site/video"))
    },
}


RESTRICTED = ("fika",)
"""Those whose gold answers are restricted."""
FAMILIES: dict[str, str] = {"fgbmk": "snellen.benchmarks.fgbmk"}
"""First part of a name to the module of a family whose members are too many to list here.

Such a module has `names() -> list[str]` and `find(name) -> Benchmark | None`.
"""
MANIFEST = "benchmark.json"
HUB = "hf:"
INSPECT_HUB = re.compile(r"hf/([\w.-]+/[\w.-]+(?:/[\w.-]+)?(?:@\S+)?)", re.ASCII)
"""A data set of the hub, or a task of its eval.yaml, as Inspect spells it."""
TASK_FILE = "eval.yaml"
DECLARATION = ".toml"
ROW_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow", ".feather", ".xlsx")
TABLE_SUFFIXES = (*ROW_SUFFIXES, ".zip", ".tar", ".tar.gz", ".tgz")


def names() -> list[str]:
    """Return every benchmark that can be run, third parties' included."""
    families = [name for module in FAMILIES.values() for name in import_module(module).names()]
    others = sorted(point.name for point in entry_points(group=GROUP) if point.name not in BUILT_IN)
    return [*BUILT_IN, *families, *others]


def is_code(name: str) -> bool:
    """Return True for `package.module:ATTRIBUTE`, which names code to import and no registered benchmark."""
    return ":" in name and name not in BUILT_IN and not is_table(name)


def is_built_set(name: str) -> bool:
    """Return True if the name is the folder of a built set."""
    try:
        return name not in BUILT_IN and not is_code(name) and (Path(name) / MANIFEST).is_file()
    except (OSError, ValueError):  # a name that no path can be
        return False


def is_table(name: str) -> bool:
    """Return True if the name is a file of questions, a folder that holds one, `hf:owner/name`, or a task of an eval.yaml."""
    if name in BUILT_IN or is_entry(name):
        return False
    if as_hub(name).startswith(HUB) or task_folder(name) is not None or TASK_FILE in Path(name).parts[-2:]:
        return True
    if name.lower().endswith((*TABLE_SUFFIXES, DECLARATION)):
        return "\0" not in name
    try:
        return _holds_table(Path(name).expanduser())
    except (OSError, ValueError):  # a name that no path can be
        return False


def as_hub(name: str) -> str:
    """Return Inspect's `hf/owner/name` as `hf:owner/name`, unless there is such a path; other names as they are."""
    spelled = INSPECT_HUB.fullmatch(name) if name.startswith("hf/") else None
    return name if spelled is None or Path(name).exists() else f"{HUB}{spelled[1]}"


def task_folder(name: str) -> tuple[Path, str] | None:
    """Return the folder of an eval.yaml and the task that a path names, empty for its only one; None for any other path.

    A path is that of the folder or of the file, and a task may follow it: `set`, `set/task`, `set/eval.yaml/task`.
    """
    if "\0" in name or name.startswith(HUB):
        return None
    path = Path(name).expanduser()
    file, task = (path, "") if path.name == TASK_FILE else (path / TASK_FILE, "")
    if path.parent.name == TASK_FILE:
        file, task = path.parent, path.name
    elif not path.exists() and not name.lower().endswith((*TABLE_SUFFIXES, DECLARATION)) and path.name != TASK_FILE:
        file, task = path.parent / TASK_FILE, path.name
    try:
        return (file.parent, task) if file.is_file() else None
    except (OSError, ValueError):  # a name that no path can be
        return None


def is_there(name: str) -> bool:
    """Return True if the path of a table, or the eval.yaml of a task, is on this machine."""
    return Path(name).exists() or task_folder(name) is not None


def with_tasks(names: Sequence[str]) -> list[str]:
    """Return names with a data set whose eval.yaml has several tasks replaced by its tasks, each a benchmark of its own."""
    return [
        each
        for name in names
        for each in (
            import_module("snellen.benchmarks.table.hub_tasks").names_of(as_hub(name))
            if as_hub(name).startswith(HUB) or (not is_known(name) and task_folder(name) is not None)
            else [name]
        )
    ]


def is_known(name: str) -> bool:
    """Return True for a name of the package, whatever lies in the working folder."""
    return name in BUILT_IN or is_entry(name)


def _holds_table(folder: Path) -> bool:
    """Return True for a folder with a table in it or one level below, or with folders of images; False for a run."""
    if not folder.is_dir() or (folder / MANIFEST).is_file() or (folder / "run_meta.json").is_file():
        return False
    inner: list[Path] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                inner.append(Path(entry.path))
            elif entry.name.lower().endswith(ROW_SUFFIXES):
                return True
    for below in inner[:100]:
        if (below / "run_meta.json").is_file() or below.name.startswith("."):
            continue
        with os.scandir(below) as entries:
            for entry in entries:
                if entry.name.lower().endswith((*DECODED_SUFFIXES, *ROW_SUFFIXES)):
                    return True
    return False


@cache
def entry_names() -> frozenset[str]:
    """Return the names of the catalogue's declared benchmarks."""
    folder = resource_files("snellen.benchmarks.table") / "catalogue"
    return frozenset(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def is_entry(name: str) -> bool:
    """Return True for a declared benchmark of the catalogue."""
    return name not in BUILT_IN and name in entry_names()


def is_path(name: str) -> bool:
    """Return True if the name is a place of data: a built set's folder, a table, or `hf:owner/name`."""
    return is_built_set(name) or (is_table(name) and not is_entry(name))


def lasting_name(name: str) -> str:
    """Return the name under which a run finds its benchmark again from any folder.

    A built set's and a table's by its absolute path, a data set of the hub by its commit.
    """
    if not is_path(name):
        return name
    name = as_hub(name)
    if name.startswith(HUB) or task_folder(name) is not None:
        return str(import_module("snellen.benchmarks.table.hub_tasks").lasting_name(name))
    return str(Path(name).expanduser().absolute())


def short_name(name: str) -> str:
    """Return a name for folders of runs: that of a table without its path and ending."""
    if not is_table(name) or is_entry(name):
        return name
    if (hub := as_hub(name)).startswith(HUB):
        return hub[len(HUB) :].partition("@")[0].removesuffix(f"/{TASK_FILE}")
    if (task := task_folder(name)) is not None:
        return "/".join(filter(None, (task[0].absolute().name, task[1])))
    base = Path(name).expanduser().absolute().name
    ending = next((suffix for suffix in (*TABLE_SUFFIXES, DECLARATION) if base.lower().endswith(suffix)), "")
    return base[: len(base) - len(ending)] or base


def find(name: str) -> Benchmark:
    """The benchmark of that name, or `package.module:ATTRIBUTE` for one that is not registered, or a built set's folder.

    Third parties add theirs through the entry-point group `snellen.benchmarks`, whose objects are Benchmarks.

    Raises:
        UsageError: there is none; the message names near ones.
    """
    name = as_hub(name)
    if is_code(name):
        register_environment(os.environ)  # its code may read any key
    if name in BUILT_IN or is_code(name):
        benchmark = _load(BUILT_IN.get(name, name))
    elif is_built_set(name):
        benchmark = import_module("snellen.benchmarks.generated").open_folder(Path(name))
    elif is_entry(name):
        benchmark = import_module("snellen.benchmarks.table.catalogue_benchmarks").find(name)
    elif is_table(name):
        if name.lower().endswith(DECLARATION) and not name.startswith(HUB):
            benchmark = import_module("snellen.benchmarks.table.catalogue_benchmarks").open_declared(name)
        else:
            of_task = name.startswith(HUB) or task_folder(name) is not None
            found = import_module("snellen.benchmarks.table.hub_tasks").find(name) if of_task else None
            benchmark = found or import_module("snellen.benchmarks.table.benchmark").open_table(name)
    elif (family := FAMILIES.get(name.partition("/")[0])) and (member := import_module(family).find(name)):
        benchmark = member
    else:
        points = {point.name: point for point in entry_points(group=GROUP)}
        if name not in points:
            raise unknown_name(name, similar_names, names(), entry_names())
        register_environment(os.environ)
        benchmark = _loaded(points[name].load, f"benchmark {name!r}")
    if not isinstance(benchmark, Benchmark):
        raise UsageError(
            f"benchmark {name!r}: its entry point is a {type(benchmark).__name__}, not a snellen.Benchmark"
        )
    return benchmark


def similar_names(name: str) -> list[str]:
    """Return the names that may have been meant, whatever the capitals and hyphens.

    Other harnesses write VSI-Bench or MMSIBench_circular.
    """
    known = {_plain(known_name): known_name for known_name in (*sorted(entry_names()), *names())}
    if "/" in name:  # a part that is misspelt, rather than the whole that it belongs to
        members = {key: known_name for key, known_name in known.items() if "/" in known_name}
        near = difflib.get_close_matches(_plain(name), members, n=3, cutoff=0.85)
        if near:
            return [members[key] for key in near]
    return spelled_alike(name) or [known[key] for key in difflib.get_close_matches(_plain(name), known, n=3)]


def spelled_alike(name: str) -> list[str]:
    """Return the names that are `name` but for capitals, hyphens and an ending.

    MMSIBench_circular is mmsi-bench, MMBench is none.
    """
    known = {_plain(known_name): known_name for known_name in names()}
    entries = {_plain(entry): entry for entry in entry_names()}
    word = _plain(name)
    if word in known or word in entries:
        return [known.get(word) or entries[word]]
    begun = [key for key in known if min(len(key), len(word)) > 2 and (key.startswith(word) or word.startswith(key))]
    return [known[key] for key in sorted(begun, key=len)[:3]]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _loaded(load: Callable[[], Any], name: str) -> Any:
    """Return the imported object; an exception in the user's module becomes a PluginError with file and line."""
    try:
        return load()
    except Exception as error:
        fault = plugin_fault(error, name)
        if fault is None:
            raise
        raise fault from error


def _load(place: str) -> object:
    module, _, attribute = place.partition(":")
    if module.startswith(".") or "/" in module:
        file = Path(module)
        folder = f"PYTHONPATH={shlex.quote(str(file.parent))} snellen ..., with "
        raise UsageError(
            f"benchmark {place!r} is a path; the name of a module was expected",
            f"Type: {folder if module.endswith('.py') else ''}{file.stem.lstrip('.') or 'package.module'}:{attribute or 'ATTRIBUTE'}",
        )
    if module.endswith(".py") and Path(module).is_file():
        raise UsageError(
            f"benchmark {place!r} is a file; the name of a module was expected",
            f"Type: {_python_path(Path())}snellen ... {Path(module).stem}:{attribute or 'ATTRIBUTE'}",
        )
    try:
        loaded = _loaded(lambda: import_module(module), f"benchmark {place!r}")
    except (ImportError, ValueError) as error:
        raise _not_imported(place, module, error) from error
    try:
        return getattr(loaded, attribute)
    except AttributeError as error:
        declared = [name for name, value in vars(loaded).items() if isinstance(value, Benchmark)]
        near = difflib.get_close_matches(attribute.lower(), [name.lower() for name in declared], n=3)
        names = [name for name in declared if name.lower() in near] or declared
        listed = ", ".join(f"{module}:{name}" for name in names[:5])
        raise UsageError(
            f"benchmark {place!r} cannot be imported: {error}",
            f"Benchmarks in it: {listed}"
            if names
            else f"Declare it in {module}: {attribute or 'NAME'} = Benchmark(...)",
        ).near(place, [f"{module}:{name}" for name in names]) from error


def _not_imported(place: str, module: str, error: Exception) -> UsageError:
    """Build the error for a module that is not on Python's path, with the way to put it there if its file lies near."""
    top = module.partition(".")[0]
    here = [
        Path(folder)
        for folder in (".", "..")
        if (Path(folder) / f"{top}.py").is_file() or (Path(folder) / top).is_dir()
    ]
    if top and here and isinstance(error, ModuleNotFoundError) and error.name == top:
        file = here[0] / (f"{top}.py" if (here[0] / f"{top}.py").is_file() else top)
        return UsageError(
            f"benchmark {place!r} cannot be imported: {error}, and {file} is not on Python's path",
            f"Type: {_python_path(here[0])}snellen ... {place}",
        )
    return UsageError(
        f"benchmark {place!r} cannot be imported: {error}", "Write it as package.module:ATTRIBUTE, on Python's path."
    )


def _python_path(folder: Path) -> str:
    """Return the words before `snellen` that put a folder on Python's path; none if it is there."""
    on_path = any(os.path.realpath(entry or ".") == os.path.realpath(folder) for entry in sys.path)
    return "" if on_path else f"PYTHONPATH={shlex.quote(str(folder))} "


ALL = ("all", "*")
LEADERBOARD = ("easi", "easi-8", "easi8", "easi-12")
PACKED = (".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")
TABLES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet", ".xlsx")


_NAMES = """
mmbench mmstar mmvet mmmu mme mmtbench mmerealworld seedbench scienceqa mathvista mathvision mathverse ai2d chartqa
chartmuseum charxiv docvqa textvqa infovqa ocrbench ocrvqa hallusionbench hallbench pope realworldqa videomme mvbench
mlvu longvideobench gqa okvqa aokvqa vqav2 vizwiz coco nocaps flickr30k refcoco llavabench vstar egoschema nextqa
tempcompass wemath dynamath muirbench mantis zerobench worldsense
"""
ELSEWHERE = tuple(_NAMES.split())
"""Benchmarks of other harnesses that Snellen does not have, though some are called nearly as one of its own."""


def is_elsewhere(name: str) -> bool:
    """Return True for a benchmark of other harnesses, whatever its split: MMBench_DEV_EN, chartqa_test."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return plain.startswith(ELSEWHERE)


def _entries(name: str, near: Callable[[str], Sequence[str]], entries: Collection[str]) -> list[str]:
    """Return the declared benchmarks of the catalogue that may be meant."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    begun = sorted(entry for entry in entries if entry.replace("-", "").startswith(plain))
    return begun or [entry for entry in near(name) if entry in entries]


def unknown_name(
    name: str, near: Callable[[str], Sequence[str]], known: Sequence[str], declared: Collection[str]
) -> UsageError:
    """Build the error for a name that is no benchmark: what it is, what was expected, and the command to type.

    Args:
        near: gives the names of benchmarks that are like another one.
        known: the names of all benchmarks.
        declared: the names of those of the catalogue.
    """
    listed = "`snellen list` shows all."
    parts = [part for part in name.replace(",", " ").split() if part]
    if len(parts) > 1:
        better = [next(iter(near(part)), part) for part in parts]
        hint = f"Benchmarks are separated by spaces. Type: snellen run {shlex.join(better)} --model KIND:NAME"
        return UsageError(f"there is no benchmark {name!r}", hint)
    if name.lower() in ALL:
        hint = f"Name each one: snellen run chart vlm2 --model KIND:NAME. {listed} EASI's set is: snellen easi --model KIND:NAME"
        return UsageError(f"there is no benchmark {name!r}", hint)
    if name.lower() == "catalogue":
        hint = "`snellen list catalogue` lists the declared benchmarks. Name one by itself: snellen run mmstar, snellen list mmstar"
        return UsageError(f"{name!r} is a list of benchmarks and no benchmark", hint)
    if name.lower() in LEADERBOARD:
        hint = "It is a command for EASI's set of benchmarks. Type: snellen easi --model KIND:NAME"
        return UsageError(f"{name!r} is no benchmark", hint)
    path = Path(name).expanduser()
    close = [] if is_elsewhere(name) else list(near(path.stem if path.exists() else name))
    example = close[0] if close else "BENCHMARK"
    try:
        if (path / "run_meta.json").is_file():
            typed = shlex.quote(name)
            hint = f"Type: snellen rerun {typed} to resume it, or snellen score {typed} to score it again."
            return UsageError(f"{name!r} is a run and no benchmark", hint)
        if path.suffix == ".py":
            hint = f"Name the Benchmark in it: snellen run {path.stem}:NAME, with the file's folder on PYTHONPATH."
            return UsageError(f"{name!r} names a Python file; a benchmark's name was expected", hint)
        if path.is_file() and path.suffix.lower() in PACKED and Path(path.stem).suffix.lower() in TABLES:
            hint = f"Unpack it first, and name the file that comes out of it: {path.stem}"
            return UsageError(f"{name!r} is a packed table; a plain one was expected", hint)
        if path.is_file():
            hint = (
                f"Data is given with --data. Type: snellen run {example} --data {shlex.quote(name)} --model KIND:NAME"
            )
            return UsageError(f"{name!r} is a file; a benchmark's name was expected", f"{hint}. {listed}")
        if path.is_dir() and (not close or name not in known):
            hint = (
                f"Data is given with --data. Type: snellen run {example} --data {shlex.quote(name)} --model KIND:NAME. "
                "Your own questions: name the file of questions, or a folder with a .csv, .jsonl or .parquet in it. "
                f"The folder of a set made with `snellen build` holds benchmark.json. {listed}"
            )
            return UsageError(f"{name!r} is a folder without benchmark.json; a benchmark's name was expected", hint)
    except (OSError, ValueError):  # a name that no path can be
        pass
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    if is_elsewhere(name):
        entries = _entries(name, near, declared)
        listed = "`snellen list catalogue` shows those without code." if entries else listed
        hint = "It is a benchmark of other harnesses. " + (
            f"The catalogue has {' and '.join(entries)}. " if entries else ""
        )
    if path.is_absolute():
        hint = "A built set's folder was there; name where it is now: --data FOLDER, or for `snellen score` also --benchmark FOLDER. "
    error = UsageError(f"there is no benchmark {name!r}", f"{hint}{listed}")
    if close:
        error.correction = (name, close[0])
    return error
