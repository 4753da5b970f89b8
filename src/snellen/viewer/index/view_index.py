"""The index of a folder of runs, as pages use it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snellen.engine.run_folder import JUDGE_RUNS
from snellen.errors import SnellenError, UsageError
from snellen.runs.answer_view import AnswerView
from snellen.scoring.scores import Scores
from snellen.types import Blob, Record
from snellen.viewer.index.case_source import CaseSource
from snellen.viewer.index.catalogue import RunFiles, make_entries, read_files, stamp
from snellen.viewer.index.discovery import Discovery, discover
from snellen.viewer.index.entries import Refresh, RunEntry, Skipped
from snellen.viewer.index.pages import SamplePages
from snellen.viewer.index.run_indexer import RunIndexer
from snellen.viewer.index.run_scores import ScoreTables
from snellen.viewer.index.run_state import RunIndexState
from snellen.viewer.index.sample_page import SamplePage, SampleQuery, SqlTable
from snellen.viewer.index.storage import STATE, IndexStorage, index_folder

if TYPE_CHECKING:
    from snellen.viewer.index.sql import SqlSource


def open_index(root: Path, *, cache: Path | None = None, show_gold: bool = False, trust: bool = False) -> ViewIndex:
    """Open the index of a folder of runs. Nothing is read before `refresh`.

    Args:
        root: the folder; runs lie anywhere below it.
        cache: folder for the index; None: beside the runs, or in the user's cache where they cannot be written.
        show_gold: the gold answers of restricted sets may be in the index, which is then one of its own.
        trust: the authors of all folders are trusted: their runs may name code to import, and data anywhere.

    Raises:
        UsageError: there is no such folder.
    """
    if not root.is_dir():
        problem = "is no folder" if root.exists() else "does not exist"
        raise UsageError(f"{root} {problem}", "Name the folder of your runs: snellen view results/")
    return ViewIndex(root, IndexStorage(index_folder(root, cache, gold=show_gold)), show_gold=show_gold, trust=trust)


class ViewIndex:
    """Catalogue of the runs below a root, and the table of their samples. May be used by several threads.

    Attributes:
        root: the folder of the runs.
        storage: the files of the index.
        show_gold: gold answers of restricted sets may be shown.
        trust: the authors of all run folders are trusted.
    """

    def __init__(self, root: Path, storage: IndexStorage, *, show_gold: bool, trust: bool = False) -> None:
        self.root, self.storage, self.show_gold, self.trust = root, storage, show_gold, trust
        self._lock, self._refreshing = threading.RLock(), threading.RLock()
        self._indexer = RunIndexer(storage, gold=show_gold, trust=trust)
        self._pages = SamplePages(storage)
        self._scores = ScoreTables(storage)
        self._cases = CaseSource(show_gold=show_gold, trust=trust)
        self._files: dict[str, tuple[tuple[Any, ...], RunFiles]] = {}
        self._states: dict[str, tuple[tuple[int, ...], RunIndexState]] = {}
        self._entries: dict[str, RunEntry] = {}
        self._skipped: tuple[Skipped, ...] = ()
        self._version = ""
        self._sql: SqlSource | None = None

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
                with self.storage.writing() as mine:
                    if mine:
                        problems = self._index(stop, each, verdicts=verdicts)
                        self._sweep()
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
        states = self._read_states(discovery.runs)
        entries = {
            entry.key: entry for entry in make_entries(files, {key: state for key, (_, state) in states.items()})
        }
        content = repr([(key, self._files[key][0], states[key][0] if key in states else ()) for key in entries])
        with self._lock:
            self._states, self._entries = states, entries
            self._version = blake2b(content.encode(errors="surrogatepass"), digest_size=8).hexdigest()

    def _read_states(self, keys: Mapping[str, Path]) -> dict[str, tuple[tuple[int, ...], RunIndexState]]:
        """Read what the index holds of each run, if another process or this one has changed it."""
        states = {}
        for key in keys:
            try:
                status = (self.storage.run_folder(key) / STATE).stat()
            except OSError:
                continue
            own = (status.st_mtime_ns, status.st_size, status.st_ino)
            known = self._states.get(key)
            if known is None or known[0] != own:
                known = (own, self._indexer.load(key))
            if known[1].key:
                states[key] = known
        return states

    def _index(self, stop: Callable[[], bool], each: Callable[[str], None] | None, *, verdicts: bool) -> list[Skipped]:
        """Index what is not, or not all, in the index; own runs first, then the smaller ones first."""
        problems: dict[str, Skipped] = {}
        turn = sorted(
            self._entries.values(),
            key=lambda entry: (entry.origin == "foreign", self._files[entry.key][1].size or 0, entry.key),
        )
        passes = [self._indexer.add_records, self._indexer.add_verdicts] if verdicts else [self._indexer.add_records]
        for update in passes:
            for entry in turn:
                if stop():
                    break
                if entry.key in problems:
                    continue
                try:
                    before = self._states.get(entry.key)
                    state = update(entry)
                    if each is not None and (before is None or before[1] != state):
                        each(entry.key)
                except SnellenError as error:
                    problems[entry.key] = Skipped(entry.key, error.message)
                except (OSError, ValueError, OverflowError, MemoryError) as error:
                    problems[entry.key] = Skipped(entry.key, f"cannot be indexed: {type(error).__name__}: {error}")
        return list(problems.values())

    def _sweep(self) -> None:
        """Remove what the index holds of runs that are gone."""
        import shutil

        run_names = {self.storage.run_folder(key).name for key in self._entries}
        sets = {self.storage.set_folder(state.set_name).name for _, state in self._states.values() if state.set_name}
        for parent, names in ((self.storage.path / "runs", run_names), (self.storage.path / "sets", sets)):
            try:
                folders = list(parent.iterdir())
            except OSError:
                continue
            for folder in folders:
                if folder.name not in names and (parent.name == "runs" or self._is_old(folder)):
                    shutil.rmtree(folder, ignore_errors=True)

    def _is_old(self, folder: Path) -> bool:
        """Return True for a set that was not changed for a day: the set of a run that has just been found is kept."""
        try:
            return time.time() - folder.stat().st_mtime > 86_400
        except OSError:
            return False

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
        with self._lock:
            states = {key: state for key, (_, state) in self._states.items() if state.key}
            version = self._version
        return self._pages.page(query, entries, states, version)

    def order(self, query: SampleQuery) -> list[tuple[str, int]]:
        """Return id and repeat of every row by the query's profile and sort order, without its filters: for an export."""
        with self._lock:
            states = {key: state for key, (_, state) in self._states.items() if state.key}
        return self._pages.order(query, self._selected(query), states)

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
        with self._lock:
            state = self._states.get(key, (None, RunIndexState()))[1]
        return self._scores.scores(state, profile or next(iter(entry.metrics), ""), entry.expected)

    def sql(self, text: str, limit: int = 1_000) -> SqlTable:
        """Answer one SELECT over the runs, their records, scores and samples (snellen.viewer.index.sql)."""
        from snellen.viewer.index.sql import SqlSource  # DuckDB is large, and few pages need it

        entries = self.runs()
        with self._lock:
            states = {key: state for key, (_, state) in self._states.items() if state.key}
            if self._sql is None:
                self._sql = SqlSource(self.storage)
        return self._sql.answer(text, limit, entries, states, self._version)

    def record(self, key: str, sample_id: str, repeat: int = 0) -> Record | None:
        """Read the record that counts for a sample, from the journal; None where there is none, or it was changed since.

        The record is as written: of a restricted set, show `answer` instead.
        """
        entry = self.run(key)
        place = self._place(key, sample_id, repeat)
        return None if place is None else self._cases.record(entry, *place, sample_id, repeat)

    def _place(self, key: str, sample_id: str, repeat: int) -> tuple[int, int] | None:
        with self._lock:
            state = self._states.get(key, (None, RunIndexState()))[1]
        return self._pages.place(state, sample_id, repeat) if state.set_name else None

    def answer(self, key: str, sample_id: str, repeat: int = 0) -> AnswerView | None:
        """Return one answer with its question and its scores under each profile; without gold answers that are withheld.

        Raises:
            SnellenError: the run's benchmark or its data is not available: `record` has the reply.
        """
        record = self.record(key, sample_id, repeat)
        return None if record is None else self._cases.answer(self.run(key), record)

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
            keys = [
                key
                for key, (_, state) in self._states.items()
                if state.set_name and state.profiles and self.storage.set_folder(state.set_name).name == set_id
            ]
        if not keys or not sample.isdecimal() or not number.isdecimal():
            raise UsageError(f"there is no image {place[:80]!r}", "The index was made anew: load the page again.")
        others = [other.split(":") for other in page if other.startswith(f"{set_id}:")]
        samples = [int(parts[1]) for parts in others if len(parts) == 3 and parts[1].isdecimal()]
        return self._cases.image(self.run(keys[0]), int(sample), int(number), samples)
