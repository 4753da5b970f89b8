"""Paths, benchmarks and models that a client of `snellen mcp` may name. All of them are untrusted words."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from snellen.errors import DataError, UsageError

HUB = "hf:"
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Places:
    """The folder of the runs, and what may be named as data.

    Args:
        results: the folder of the runs, which exists.
        allowed: files, folders, and names of the hub with `hf:` before them. Relative names are looked for in each folder.

    Raises:
        UsageError: an allowed path does not exist.
    """

    def __init__(self, results: Path, allowed: Sequence[str]) -> None:
        self.results = results.resolve()
        self._hub = tuple(name for name in allowed if name.startswith(HUB))
        self._roots = [Path(name).expanduser().resolve() for name in allowed if not name.startswith(HUB)]
        for root in self._roots:
            if not root.exists():
                raise UsageError(f"--allow {root}: there is nothing", "Name a file or folder that exists.")

    def data(self, name: str, what: str, *, is_restricted: bool = False) -> str:
        """Return the real path of a file or folder that is allowed; only a restricted benchmark may ask restricted data.

        Raises:
            UsageError: it lies outside, a link in it leads outside, or its gold answers are restricted.
            DataError: it does not exist.
        """
        path = self._within(name, self._roots, what, "The user allows more with: snellen mcp --allow PATH")
        if not path.exists():
            raise DataError(f"{what} {name!r} does not exist", "Name a file or folder in the allowed folders.")
        for link in _links(path):
            if not self._is_inside(link.resolve(), self._roots):
                raise UsageError(
                    f"{what} {name!r}: the link {link.relative_to(path)} leads outside the allowed folders",
                    "Replace it with a copy, or let the user allow its target: snellen mcp --allow PATH",
                )
        if not is_restricted and what != "images":
            _require_open(path, f"{what} {name!r}")
        return str(path)

    def option(self, text: str) -> str:
        """Return the value of a benchmark's option, which may be a path. Raises as `data`."""
        is_place = Path(text).is_absolute() or ".." in Path(text).parts or text.startswith("~")
        try:
            is_place = is_place or any((root / text).exists() for root in (Path(), *self._roots) if text)
        except (OSError, ValueError):  # no path could be that
            return text
        return self.data(text, "option") if is_place else text

    def run(self, name: str) -> str:
        """Return the folder of a run by its id, which is its path in the folder of the runs. Raises as `data`."""
        path = self._within(name, [self.results], "run", "The tool list names the runs: what=runs")
        if not (path / "run_meta.json").is_file():
            raise DataError(f"there is no run {name!r}", "The tool list names the runs: what=runs")
        return str(path)

    def new_run(self, name: str) -> Path:
        """Return the folder of a run that may not exist yet. Raises UsageError for a name that is none."""
        if _RUN_NAME.fullmatch(name) is None:
            raise UsageError(
                f"run {name!r}: this is no name of a run",
                "Use letters, digits, '.', '_' and '-', at most 100, the first a letter or digit.",
            )
        return self._within(name, [self.results], "run", "Choose another name.")

    def benchmark(self, name: str) -> str:
        """Return a benchmark's name, with the real path where it is a file or folder.

        Raises:
            UsageError: it is code, a plan, a place that is not allowed, or a declaration that names one.
            DataError: it cannot be read.
        """
        from snellen.benchmarks.registry import BUILT_IN, as_hub, is_code, is_entry, is_path
        from snellen.runs.plan.document import is_plan

        _require_word(name, "benchmark")
        name = as_hub(name)
        if name in BUILT_IN or is_entry(name):
            return name
        if name.startswith(HUB):
            if not self._is_allowed_hub(name):
                raise UsageError(
                    f"benchmark {name!r} is not allowed", f"The user allows it with: snellen mcp --allow {name}"
                )
            return name
        if is_code(name):
            raise UsageError(
                f"benchmark {name!r} names code, and a client cannot have code imported",
                "Name a benchmark that the tool list shows, or a file of questions.",
            )
        is_place = is_path(name) or ".." in Path(name).parts or Path(name).is_absolute() or name.startswith((".", "~"))
        if not is_place and not any((root / name).exists() for root in self._roots):
            return name
        path = self._questions(name)
        if path.endswith(".toml"):
            if is_plan(path):
                raise UsageError(f"{name} is a plan", "Start its runs one by one: each needs a budget of its own.")
            self._require_declaration(Path(path), name)
        return path

    def _questions(self, name: str) -> str:
        """Return the real path of questions; the task of an eval.yaml may stand behind it. Raises as `data`."""
        from snellen.benchmarks.registry import task_folder

        folder, _, task = name.rpartition("/")
        try:
            return self.data(name, "benchmark")
        except DataError:
            with suppress(DataError):
                whole = f"{self.data(folder or '.', 'benchmark')}/{task}"
                if task_folder(whole) is not None:
                    return whole
            raise

    def model(self, name: str) -> str:
        """Return a model, KIND:NAME, with the real path where it is a file or folder. Raises as `benchmark`."""
        from snellen.models.registry import CHECKPOINT_KINDS

        _require_word(name, "model")
        kind, _, rest = name.partition(":")
        if kind == "replay":
            try:
                return f"replay:{self.run(rest)}"
            except (DataError, UsageError):
                return f"replay:{self.data(rest, 'model')}"
        if kind in CHECKPOINT_KINDS:
            is_place = rest.startswith((".", "/", "~", "\\")) or ".." in Path(rest).parts or Path(rest).exists()
            return f"{kind}:{self.data(rest, 'model')}" if is_place else name
        return name

    def _within(self, name: str, roots: Sequence[Path], what: str, hint: str) -> Path:
        _require_word(name, what)
        if ".." in Path(name).parts or name.startswith("~"):
            raise UsageError(f"{what} {name!r}: '..' and '~' are not allowed in a path", hint)
        places = [(root if root.is_dir() else root.parent) / name for root in roots]
        whole = next(filter(Path.exists, places), places[0] if places else Path("/nowhere")).resolve()
        if not self._is_inside(whole, roots):
            raise UsageError(f"{what} {name!r} lies outside the folders that the user allows", hint)
        return whole

    @staticmethod
    def _is_inside(path: Path, roots: Sequence[Path]) -> bool:
        return any(path.is_relative_to(root) for root in roots)

    def _is_allowed_hub(self, name: str) -> bool:
        """Return True for an allowed name of the hub, a task or revision of it, or one in an allowed owner's."""
        return name in self._hub or any(
            name.startswith(allowed if allowed.endswith(("/", ":")) else (f"{allowed}/", f"{allowed}@"))
            for allowed in self._hub
        )

    def _require_declaration(self, path: Path, name: str) -> None:
        """Refuse a declaration with a path that is not allowed, before it is followed."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{name} cannot be read: {error}", "Correct the file.") from error
        source = content.get("source")
        for text in _texts(source):
            if "://" in text or text.startswith(HUB):
                raise UsageError(
                    f"{name} names the address {text[:80]!r}, and a client cannot", "Fetch the file first."
                )
        hub = source.get("hub") if isinstance(source, dict) else None
        if hub and not self._is_allowed_hub(f"{HUB}{hub}"):
            raise UsageError(
                f"{name} names {hub!r} on the hub, which is not allowed",
                f"The user allows it with: snellen mcp --allow {HUB}{hub}",
            )
        for text in _texts(content):
            if "\n" in text or "\0" in text or len(text) > 4_000:
                continue
            if (beside := path.parent / text).exists():
                _require_open(beside, f"{name} names {text!r}, which")
            is_away = text.startswith("~") or Path(text).is_absolute() or ".." in Path(text).parts
            if is_away and not self._is_inside((path.parent / text).resolve(), self._roots):
                raise UsageError(
                    f"{name} names {text!r}, which lies outside the folders that the user allows",
                    "The user allows more with: snellen mcp --allow PATH",
                )


def _require_open(path: Path, what: str) -> None:
    """Refuse the data of a restricted benchmark, which as questions of a client's own would show their gold answers."""
    from snellen.benchmarks.registry import RESTRICTED, find

    for name in RESTRICTED:
        if find(name).holds(path):
            raise UsageError(
                f"{what} is the data of {name}, whose gold answers are restricted",
                f"Name the benchmark {name}, and the data with it.",
            )


def _require_word(text: str, what: str) -> None:
    """Refuse what a command line would not take as one word with this meaning. Raises UsageError."""
    if not text.strip() or text.startswith("-") or "\0" in text or len(text) > 4_000:
        raise UsageError(f"{what} {text[:80]!r} is no name", f"Name a {what}; a name does not begin with '-'.")


def _links(path: Path) -> Iterator[Path]:
    """Yield the links in a folder, at any depth; links are not followed."""
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            if (entry := Path(folder, name)).is_symlink():
                yield entry


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
