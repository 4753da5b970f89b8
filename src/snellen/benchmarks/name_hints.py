"""Hints for names that are no benchmark: other programs' spellings, a run, a folder, a file."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from snellen.errors import UsageError

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
        name: as typed.
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
