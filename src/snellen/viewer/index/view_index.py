"""The index of a folder of runs, as pages use it."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb

from snellen.engine.folder_checks import FOLDERS, kind_of
from snellen.engine.run_folder import JUDGE_RUNS
from snellen.errors import SnellenError, UsageError
from snellen.scoring.scores import Scores
from snellen.types import Blob, Record
from snellen.viewer.index.catalogue import RunFiles, make_entries, read_files, stamp
from snellen.viewer.index.database import (
    FOLDER,
    IndexDatabase,
    RunIndexState,
    SetState,
    connected,
    index_folder,
    read_states,
)
from snellen.viewer.index.entries import Refresh, RunEntry, Skipped
from snellen.viewer.index.indexer import RunIndexer
from snellen.viewer.index.journal_tail import read_record
from snellen.viewer.index.pages import SamplePages, Snapshot
from snellen.viewer.index.sample_page import SamplePage, SampleQuery, SqlTable
from snellen.viewer.index.samples import SampleImages
from snellen.viewer.index.sql import SqlSource


def open_index(root: Path, *, cache: Path | None = None, show_gold: bool = False, trust: bool = False) -> ViewIndex:
    """Open the index of a folder of runs. Nothing is read before `refresh`.

    Args:
        root: the folder; runs lie anywhere below it.
        cache: folder for the index; None: beside the runs, or in the user's cache where they cannot be written.
        show_gold: the gold answers of restricted sets may be in the index, which is then one of its own.
        trust: the authors of all folders are trusted: their runs may name code to import, and data anywhere. What they score
            is in an index of its own.

    Raises:
        UsageError: there is no such folder.
    """
    if not root.is_dir():
        problem = "is no folder" if root.exists() else "does not exist"
        raise UsageError(f"{root} {problem}", "Name the folder of your runs: snellen view results/")
    return ViewIndex(
        root, IndexDatabase(index_folder(root, cache, gold=show_gold, trust=trust)), show_gold=show_gold, trust=trust
    )


class ViewIndex:
    """Catalogue of the runs below a root, and the table of their samples. May be used by several threads.

    Attributes:
        root: the folder of the runs.
        database: the file of the index.
        show_gold: gold answers of restricted sets may be shown.
        trust: the authors of all run folders are trusted.
    """

    def __init__(self, root: Path, database: IndexDatabase, *, show_gold: bool, trust: bool = False) -> None:
        self.root, self.database, self.show_gold, self.trust = root, database, show_gold, trust
        self._lock, self._refreshing = threading.RLock(), threading.RLock()
        self._indexer = RunIndexer(database, gold=show_gold, trust=trust)
        self._pages = SamplePages()
        self._sql = SqlSource(database)
        self._images = SampleImages(trust=trust)
        self._files: dict[str, tuple[tuple[Any, ...], RunFiles]] = {}
        self._states: dict[str, RunIndexState] = {}
        self._saved: tuple[tuple[int, ...], dict[str, RunIndexState], dict[str, SetState]] = ((), {}, {})
        self._entries: dict[str, RunEntry] = {}
        self._skipped: tuple[Skipped, ...] = ()
        self._version = ""

    def close(self) -> None:
        """End the use of the index: queries under way are interrupted, and none begins any more."""
        self.database.close()

    def pending_bytes(self) -> int:
        """Return the bytes of the journals whose records are not, or not all, in the index with their verdicts."""
        entries = self.runs()
        with self._lock:
            files = self._files
            return sum(
                files[e.key][1].size or 0 for e in entries if e.samples in ("waiting", "behind") and e.key in files
            )

    @property
    def version(self) -> str:
        """Return a text that changes whenever an entry or the samples of a run do."""
        return self._version

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """Return the folders and files that are no run, or not read, as of the last refresh."""
        return self._skipped

    def refresh(
        self,
        *,
        samples: bool = True,
        verdicts: bool = True,
        stop: Callable[[], bool] = lambda: False,
        each: Callable[[str], None] | None = None,
    ) -> Refresh:
        """Look at the root again: read what was changed, and index the records that were added.

        Args:
            samples: False: only the catalogue, which takes a moment; samples are read from what the index has.
            verdicts: False: only records and the verdicts that runs have saved, which takes seconds for a million.
            stop: is asked between two runs; True ends the indexing.
            each: is called with the key of each run whose samples were indexed.
        """
        begin = time.monotonic()
        with self._refreshing:
            before = self._entries
            discovery = discover(self.root)
            self._read_catalogue(discovery)
            problems: list[Skipped] = []
            if samples:
                with self.database.writing() as mine:
                    if mine:
                        problems = self._index(stop, each, verdicts=verdicts)
                self._read_catalogue(discovery)
            after = self._entries
            with self._lock:
                self._skipped = (*discovery.skipped, *problems)
            return Refresh(
                len(after),
                changed=tuple(key for key, entry in after.items() if before.get(key) != entry),
                removed=tuple(key for key in before if key not in after),
                skipped=self._skipped,
                waiting=tuple(key for key, entry in after.items() if entry.samples in ("waiting", "behind")),
                seconds=time.monotonic() - begin,
            )

    def _read_catalogue(self, discovery: Discovery) -> None:
        files: list[RunFiles] = []
        for key, path in discovery.runs.items():
            own = stamp(path)
            known = self._files.get(key)
            # A run that a process writes is read again each time: the process may be gone.
            if known is None or known[0] != own or known[1].locked:
                known = self._files[key] = (own, read_files(key, path))
            files.append(known[1])
        for key in self._files.keys() - discovery.runs.keys():
            del self._files[key]
            self._indexer.close(key)
        states = self._read_states()
        states = {key: state for key, state in states.items() if key in discovery.runs}
        entries = {entry.key: entry for entry in make_entries(files, states)}
        content = repr([(key, self._files[key][0], _content(states[key]) if key in states else ()) for key in entries])
        with self._lock:
            self._states, self._entries = states, entries
            self._version = blake2b(content.encode(errors="surrogatepass"), digest_size=8).hexdigest()

    def _read_states(self) -> Mapping[str, RunIndexState]:
        """Read what the index holds of each run, if another process or this one has changed it."""
        if self.database.version != self._saved[0]:
            try:
                with self._snapshot() as snapshot:
                    return snapshot.states
            except (SnellenError, OSError, ValueError):  # damaged, or another process has it: what is known stands
                pass
        return self._saved[1]

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[Snapshot]:
        """Keep the index as it is, and yield it with the states as they are now: another process may have changed it."""
        with self.database.unchanged() as is_there, contextlib.ExitStack() as stack:
            if not is_there:
                yield Snapshot(lambda: stack.enter_context(connected()), {}, {})
                return
            saved, version = self._saved, self.database.version
            if saved[0] == version:
                yield Snapshot(lambda: stack.enter_context(self.database.reader()), *saved[1:])
                return
            database = stack.enter_context(self.database.reader())
            saved = self._saved = (version, *read_states(database))
            yield Snapshot(lambda: database, *saved[1:])

    def _index(self, stop: Callable[[], bool], each: Callable[[str], None] | None, *, verdicts: bool) -> list[Skipped]:
        """Index what is not, or not all, in the index; own runs first, then the smaller ones first."""
        problems: dict[str, Skipped] = {}
        turn = sorted(
            self._entries.values(),
            key=lambda entry: (entry.origin == "foreign", self._files[entry.key][1].size or 0, entry.key),
        )
        passes = [self._indexer.add_records, self._indexer.add_verdicts] if verdicts else [self._indexer.add_records]
        self._indexer.begin()
        for update in passes:
            for entry in turn:
                if stop():
                    break
                if entry.key in problems:
                    continue
                try:
                    before = self._states.get(entry.key)
                    state = update(entry)
                    if (
                        each is not None
                        and state is not None
                        and (before is None or _content(before) != _content(state))
                    ):
                        each(entry.key)
                except SnellenError as error:
                    problems[entry.key] = Skipped(entry.key, error.message)
                except (OSError, ValueError, OverflowError, MemoryError, duckdb.Error) as error:
                    problems[entry.key] = Skipped(entry.key, f"cannot be indexed: {type(error).__name__}: {error}")
                if entry.key in problems:
                    self._indexer.forget(entry.key)
        self._indexer.sweep(self._entries)
        self._indexer.end()
        return list(problems.values())

    def runs(self) -> list[RunEntry]:
        """Return all runs, by key."""
        if not self._version:
            self.refresh(samples=False)
        with self._lock:
            return list(self._entries.values())

    def run(self, key: str) -> RunEntry:
        """Return one run.

        Raises:
            UsageError: there is none with this key.
        """
        entries = {entry.key: entry for entry in self.runs()}
        if key not in entries:
            raise UsageError(
                f"there is no run {key!r} below the root", "Its folder may have been moved or deleted."
            ).near(key, entries)
        return entries[key]

    def samples(self, query: SampleQuery) -> SamplePage:
        """Return a page of samples.

        Raises:
            UsageError: a run, the pattern, the profile or the sort order of the query is wrong.
        """
        entries = self._selected(query)
        version = self._version
        with self._snapshot() as snapshot:
            return self._pages.page(snapshot, query, entries, version)

    def order(self, query: SampleQuery) -> list[tuple[str, int]]:
        """Return id and repeat of every row by the query's profile and sort order, without its filters: for an export."""
        entries = self._selected(query)
        with self._snapshot() as snapshot:
            return self._pages.order(snapshot, query, entries)

    def _selected(self, query: SampleQuery) -> list[RunEntry]:
        if query.runs:
            return [self.run(key) for key in dict.fromkeys(query.runs)]
        entries = [entry for entry in self.runs() if entry.benchmark == query.benchmark]
        if not entries:
            names = sorted({entry.benchmark for entry in self.runs() if entry.benchmark not in JUDGE_RUNS})
            raise UsageError(
                f"there is no run of the benchmark {query.benchmark!r}",
                f"Benchmarks here: {', '.join(names) or 'none'}.",
            ).near(query.benchmark, names)
        return entries

    def scores(self, key: str, profile: str = "") -> Scores | None:
        """Return the scores of a run's records under a profile, as `snellen compare` has them, from the index.

        Args:
            key: the run.
            profile: a profile; empty: the run's default.

        Returns:
            None where its records are not in the index yet, or have no verdicts under this profile.

        Raises:
            UsageError: there is no such run.
        """
        entry = self.run(key)
        with self._snapshot() as snapshot:
            return self._pages.scores(snapshot, key, profile or next(iter(entry.metrics), ""), entry.expected)

    def sql(self, text: str, limit: int = 1_000) -> SqlTable:
        """Answer one SELECT over the runs, their records, scores and samples (snellen.viewer.index.sql)."""
        return self._sql.answer(text, limit, self.runs())

    def record(self, key: str, sample_id: str, repeat: int = 0) -> Record | None:
        """Read the record that counts for a sample, from the journal; None where there is none, or it was changed since.

        The record is as written: of a restricted set, a page shows an answer view instead.
        """
        entry = self.run(key)
        with self._snapshot() as snapshot:
            place = snapshot.place(key, sample_id, repeat)
        record = None if place is None else read_record(entry.path / "results.jsonl", *place)
        return record if record is not None and (record.sample_id, record.repeat) == (sample_id, repeat) else None

    def image(self, place: str, page: Sequence[str] = ()) -> Blob:
        """Return an image of a question by `ImageRef.place`.

        Args:
            place: of the image.
            page: places of the images on the same page; their samples are read in one pass over the benchmark.

        Raises:
            UsageError: there is no such image. SnellenError: the data is not available.
        """
        set_id, _, rest = place.partition(":")
        sample, _, number = rest.partition(":")
        with self._lock:
            keys = [key for key, state in self._states.items() if state.profiles and str(state.set_no) == set_id]
        if not keys or not sample.isdecimal() or not number.isdecimal():
            raise UsageError(f"there is no image {place[:80]!r}", "The index was made anew: load the page again.")
        others = [other.split(":") for other in page if other.startswith(f"{set_id}:")]
        samples = [int(parts[1]) for parts in others if len(parts) == 3 and parts[1].isdecimal()]
        return self._images.image(self.run(keys[0]), int(sample), int(number), samples)


def _content(state: RunIndexState) -> tuple[Any, ...]:
    """Return what changes whenever the index has more or other content of a run."""
    return (
        state.run,
        state.results,
        state.recorded,
        state.covered,
        state.scored,
        state.saved,
        state.basis,
        state.why_unknown,
    )


META, RESULTS = "run_meta.json", "results.jsonl"
DEPTH = 32
"""Folders below the root that are searched."""
MOST_FOLDERS = 200_000
MOST_SKIPPED = 1_000
REST = "…"
NO_RUN = "no run: a run is a folder with run_meta.json"
_PASSED = frozenset({*FOLDERS, FOLDER, ".git", "__pycache__", "node_modules", ".venv"})
_OWN = frozenset({".gitignore", ".DS_Store", "index.html", "README.md"})


@dataclass
class Discovery:
    """What lies below a root: run folders by key, and the rest with reasons."""

    runs: dict[str, Path] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    folders: int = 0

    def skip(self, path: str, reason: str) -> None:
        """Note a path that is not read; beyond MOST_SKIPPED it is only counted."""
        if len(self.skipped) < MOST_SKIPPED:
            self.skipped.append(Skipped(path, reason))
        elif len(self.skipped) == MOST_SKIPPED:  # one more says so
            self.skipped.append(Skipped(REST, f"more than {MOST_SKIPPED:,} files and folders are no runs"))


def discover(root: Path) -> Discovery:
    """Find every run folder below the root, the root itself included, in the order of their keys."""
    result = Discovery()
    _enter(root, "", 0, result)
    result.runs = dict(sorted(result.runs.items()))
    return result


def _enter(folder: Path, key: str, depth: int, result: Discovery) -> int:
    """Search a folder; return how many files of it and below are no run's."""
    before, runs = len(result.skipped), len(result.runs)
    files = _search(folder, key, depth, result)
    if (
        key
        and len(result.runs) == runs
        and files > 1
        and all(each.reason.endswith(NO_RUN) or each.path == REST for each in result.skipped[before:])
    ):
        # A folder of data or pictures: one line says it.
        del result.skipped[before:]
        result.skip(key, f"{files:,} files, {NO_RUN}")
    return files


def _search(folder: Path, key: str, depth: int, result: Discovery) -> int:
    """Search one folder; return how many files of it and below are no run's."""
    result.folders += 1
    files = 0
    if result.folders > MOST_FOLDERS:
        if result.folders == MOST_FOLDERS + 1:
            result.skip(key or ".", f"the root has more than {MOST_FOLDERS:,} folders; the rest is not searched")
        return 0
    entries = dict(_entries(folder, key, result))
    names = set(entries)
    is_run = _is_file(entries.get(META))
    if is_run:
        result.runs[key or "."] = folder
    elif RESULTS in names:
        if _is_file(entries[RESULTS]):
            result.runs[key or "."] = folder
        else:
            result.skip(_join(key, RESULTS), f"{kind_of(entries[RESULTS])}; expected a file")
    elif META in names:
        result.skip(_join(key, META), f"{kind_of(entries[META])}; expected a file")
    for name in sorted(names):
        mode, path = entries[name], folder / name
        if stat.S_ISLNK(mode):
            if not is_run or name not in (META, RESULTS):
                result.skip(_join(key, name), _link(path))
        elif stat.S_ISDIR(mode):
            if name in _PASSED and (is_run or name not in FOLDERS):
                continue
            if depth >= DEPTH:
                result.skip(_join(key, name), f"deeper than {DEPTH} folders below the root; not searched")
            else:
                files += _enter(path, _join(key, name), depth + 1, result)
        elif not is_run and RESULTS not in names and name not in _OWN:
            files += 1
            result.skip(_join(key, name), NO_RUN)
    return files


def _entries(folder: Path, key: str, result: Discovery) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(folder) as scan:
            for entry in scan:
                try:
                    yield entry.name, entry.stat(follow_symlinks=False).st_mode
                except OSError as error:
                    result.skip(_join(key, entry.name), f"cannot be read: {error.strerror or error}")
    except OSError as error:
        result.skip(key or ".", f"cannot be read: {error.strerror or error}")


def _is_file(mode: int | None) -> bool:
    return mode is not None and stat.S_ISREG(mode)


def _join(key: str, name: str) -> str:
    plain = os.fsencode(name).decode("utf-8", "replace")
    return f"{key}/{plain}" if key else plain


def _link(path: Path) -> str:
    return "a symbolic link; links are not followed, so that nothing outside of the root is shown"
