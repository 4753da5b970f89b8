"""The index as one DuckDB file: its place, its tables, who may write it, and how a file from elsewhere is told from an own one.

    <root>/.snellen-index/plain-3/     `gold-3` with the gold answers of restricted sets, `plain-trust-3` with --trust
      index.duckdb                     runs, samples, records, scores and replies
      seal.json                        what the file was when this user's Snellen last closed it
      lock, access                     one indexing process at a time; many readers, or one change of the file

All of it is made from the runs and may be deleted at any time. DuckDB never opens a file that the seal does not name: one that
came with a folder from elsewhere, or that was being changed when its writer was killed, is ignored, and made anew.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb
import filelock
import msgspec
import pyarrow as pa
from msgspec import Struct, field

from snellen.atomic_write import replacing
from snellen.engine.folder_checks import seal_own
from snellen.engine.journal import storage_error
from snellen.engine.run_folder import Totals
from snellen.errors import UsageError
from snellen.sources.arrow import schema_of
from snellen.types import Metric
from snellen.viewer.index.entries import FailureCount

if sys.platform != "win32":
    import fcntl

FOLDER = ".snellen-index"
FORMAT = 3
FILE, SEAL = "index.duckdb", "seal.json"
WAIT_SECONDS = 30.0
"""Time that a reader or a writer waits for the file; a change of it takes a fraction of a second."""
KEEP_SECONDS, PAUSE_SECONDS = 0.5, 0.03
"""A writer that has had the file for so long gives it back, for a moment at least."""
LIMITS: dict[str, str | bool | int | float | list[str]] = {"memory_limit": "2GB", "threads": "2"}
ANSWERS = ("ok", "refused")
"""Statuses of records that are answers."""
DAMAGED = (duckdb.IOException, duckdb.FatalException, duckdb.InternalException, duckdb.SerializationException)
"""What DuckDB raises where a file is not as it was written."""
SAVED_COLUMN = 255
"""Number of the scores that come from a run's own predictions.jsonl, until its replies are scored."""
JUDGE_UNSURE, PROFILES_DIFFER, READ_BY_MODEL = 1, 2, 4
"""Bits of the column `flags`."""
RECORDS = (
    "number INTEGER, code BIGINT, sample_id VARCHAR, repeat INTEGER, status VARCHAR, place BIGINT, size INTEGER, "
    "attempts INTEGER, latency_s DOUBLE, input_tokens BIGINT, output_tokens BIGINT, cost DOUBLE, started_at DOUBLE, "
    "finished_at DOUBLE, error_kind VARCHAR, failure VARCHAR, uncounted VARCHAR, batch BOOLEAN, oversized BIGINT"
)
"""A record: its number among the intact ones of a journal, the code of its sample, and its place in bytes."""
SCORES = (
    "number INTEGER, code BIGINT, repeat INTEGER, counts BOOLEAN, col UTINYINT, verdict UTINYINT, value DOUBLE, "
    "confidence FLOAT, flags UTINYINT, extracted VARCHAR, reason VARCHAR"
)
REPLIES = "number INTEGER, text VARCHAR, error VARCHAR"
SAMPLES = (
    "set_no INTEGER, place INTEGER, code BIGINT, sample_id VARCHAR, question VARCHAR, kind VARCHAR, images VARCHAR[], "
    "image_count INTEGER, meta MAP(VARCHAR, VARCHAR), target VARCHAR, cluster BIGINT"
)
"""A sample: its place in the order of the benchmark, and the code of its id, by which records are joined with it."""
SCHEMA = f"""
CREATE TABLE run_states(run INTEGER, key VARCHAR, set_no INTEGER, state VARCHAR);
CREATE TABLE set_states(set_no INTEGER, name VARCHAR, benchmark VARCHAR, state VARCHAR);
CREATE TABLE profile_columns(run INTEGER, profile VARCHAR, col UTINYINT);
CREATE TABLE sample_rows({SAMPLES});
CREATE TABLE record_rows(run INTEGER, counts BOOLEAN, {RECORDS});
CREATE TABLE score_rows(run INTEGER, answer UINTEGER, {SCORES});
CREATE TABLE reply_rows(run INTEGER, {REPLIES});
CREATE VIEW samples AS
    SELECT benchmark, sample_id, question, kind, image_count AS images, target, meta FROM sample_rows JOIN set_states USING (set_no);
CREATE VIEW results AS
    SELECT key AS run, sample_id, repeat, status, text, error_kind, error, attempts, latency_s, input_tokens, output_tokens,
        cost, started_at, finished_at
    FROM record_rows JOIN run_states USING (run) LEFT JOIN reply_rows USING (run, number) WHERE counts;
CREATE VIEW scores AS
    SELECT key AS run, r.sample_id, s.repeat, profile, value, extracted,
        ['correct', 'wrong', 'partial', 'invalid', 'error', 'unscored'][verdict] AS verdict, reason, kind, target, meta
    FROM score_rows s JOIN profile_columns USING (run, col) JOIN run_states USING (run) JOIN record_rows r USING (run, number)
        LEFT JOIN sample_rows p ON p.set_no = run_states.set_no AND p.code = s.code
    WHERE s.counts;
"""


class TailState(Struct):
    """How far a journal was read.

    Attributes:
        offset: bytes read, up to the end of a line.
        highest: the highest number of a record; 0 if none has one.
        lines: lines read.
        damaged: lines that hold no intact record, or a record that cannot be one of the run.
        repeated: lines that hold a record for a second time; the first counts.
        missing: numbers that were skipped.
        first, last: digests of the first and the last bytes read, to notice a journal that was written anew.
    """

    offset: int = 0
    highest: int = 0
    lines: int = 0
    damaged: int = 0
    repeated: int = 0
    missing: int = 0
    first: str = ""
    last: str = ""
    skipped: list[int] = []
    """Numbers that were skipped and may still come, the first few."""

    def faults(self) -> str:
        """Describe what is wrong with the lines; empty if nothing is."""
        kinds = (
            (self.damaged, "damaged line"),
            (self.repeated, "repeated line"),
            (self.missing, "missing record"),
        )
        return ", ".join(f"{count:,} {name}{'s' * (count > 1)}" for count, name in kinds if count)


class RunIndexState(Struct):
    """What the index holds of one run.

    A record has the number of its line among those that were indexed; `recorded`, `covered` and `scored` count from the first.

    Attributes:
        key, run: the run and its number in the tables.
        results: size, time of change, device and inode of results.jsonl when it was last read.
        tail: how far results.jsonl was read.
        basis: digest of all that verdicts depend on beside the replies; other: they are computed again.
        set_name, set_no: the set of its samples.
        recorded: records in the index.
        covered: records that were looked at for scores, and whose replies are in the index.
        scored: records with scores; 0 where verdicts are unknown.
        saved: records with verdicts of `saved_profile` from predictions.jsonl.
        profiles: profile to its number among the columns of scores; empty: verdicts are unknown.
        has_confidence: some reply has option probabilities.
        why_unknown: why verdicts are unknown; empty where they are known.
        data: what the places of the data were then; others: it is tried again.
        metrics: computed here, by profile; empty where summary.json of the run has them.
        metrics_rows: records that `metrics` are about.
        totals: over the journal.
        failures: by kind.
        started, ended: of the first and the last record.
        requested: records that the run was to make; None where that is not known.
    """

    key: str = ""
    run: int = 0
    results: tuple[int, int, int, int] = (0, 0, 0, 0)
    tail: TailState = field(default_factory=TailState)
    basis: str = ""
    set_name: str = ""
    set_no: int = 0
    recorded: int = 0
    covered: int = 0
    scored: int = 0
    saved: int = 0
    saved_profile: str = ""
    profiles: dict[str, int] = field(default_factory=dict)
    has_confidence: bool = False
    why_unknown: str = ""
    data: tuple[tuple[int, int, int, int], ...] = ()
    metrics: dict[str, list[Metric]] = field(default_factory=dict)
    metrics_rows: int = 0
    totals: Totals = Totals()
    failures: list[FailureCount] = field(default_factory=list)
    started: float | None = None
    ended: float | None = None
    requested: int | None = None


class SetState(Struct):
    """What the index holds of a set of samples: runs of equal benchmark, version, data and options share it.

    Attributes:
        described: how many samples it has, in the order of the benchmark.
        whole: True if that is all of them.
        values: values of each field of the samples' meta, with the number of samples of each.
        wide: fields with too many values to filter by.
    """

    name: str = ""
    set_no: int = 0
    benchmark: str = ""
    described: int = 0
    whole: bool = False
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    wide: list[str] = field(default_factory=list)


class _Sealed(Struct):
    stamp: tuple[int, ...]
    mark: str


def default_cache() -> Path:
    """Return the folder for the indexes of roots that cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no error without a home
    return Path(base) / "snellen" / "view"


def index_folder(root: Path, cache: Path | None, *, gold: bool, trust: bool = False) -> Path:
    """Return the folder of a root's index: beside the runs, or in the cache where the root cannot be written.

    Args:
        root: the folder of the runs.
        cache: put it below this folder; None: beside the runs if they can be written.
        gold: it holds gold answers of restricted sets.
        trust: it holds what code and data that runs of other people name have scored.
    """
    beside = root / FOLDER
    usable = os.access(root, os.W_OK) and not beside.is_symlink() and (not beside.exists() or _is_usable(beside))
    if cache is None and usable:
        place = beside
    else:
        name = blake2b(os.fsencode(os.path.realpath(root)), digest_size=8).hexdigest()
        place = (cache or default_cache()) / name
    return place / f"{'gold' if gold else 'plain'}{'-trust' if trust else ''}-{FORMAT}"


def _is_usable(folder: Path) -> bool:
    own = not hasattr(os, "getuid") or folder.stat().st_uid == os.getuid()
    return own and folder.is_dir() and os.access(folder, os.W_OK)


_ONE_OPENS = threading.Lock()


@contextlib.contextmanager
def connected(place: str = ":memory:", *, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection whose overflow lies in a fresh folder: in one that is there already, DuckDB would follow links."""
    with contextlib.ExitStack() as stack:
        # A cache lets two threads make two folders, of which DuckDB refuses the second. A thread that connects to a file while
        # another one opens it can find a catalogue that lacks `python_arrow_scan`.
        with _ONE_OPENS:
            spill = stack.enter_context(fresh_folder()) if place == ":memory:" else spill_folder(place).name
            config = {**LIMITS, "temp_directory": spill}
            opened = duckdb.connect(place, read_only=read_only, config=config)
        yield stack.enter_context(opened)


def fresh_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a fresh folder of this user, which is removed at the end."""
    return tempfile.TemporaryDirectory(prefix="snellen-", ignore_cleanup_errors=True)


@functools.cache
def spill_folder(place: str) -> tempfile.TemporaryDirectory[str]:
    """Return the folder for the overflow of a file: one in this process, since DuckDB wants all connections to be alike."""
    return fresh_folder()


class IndexDatabase:
    """The file of an index. Many processes and threads read it; one at a time indexes, under `writing`."""

    def __init__(self, path: Path) -> None:
        self.path, self.file = path, path / FILE
        self._damaged = False
        self._closed = False
        self._live: list[duckdb.DuckDBPyConnection] = []
        self.holds = False
        """The writer has read what the file holds, or has begun it: if it is gone, a change of it must not begin anew."""
        self.busy = threading.Lock()
        """Held while the file is being changed: whoever ends the process then makes the index begin anew."""
        self._change: tuple[duckdb.DuckDBPyConnection, contextlib.ExitStack, float] | None = None

    @property
    def in_use(self) -> bool:
        """Return True while a connection to the file is open."""
        return bool(self._live)

    def close(self) -> None:
        """Let nobody use the file any more, and interrupt who does: a thread must not be inside DuckDB when Python ends."""
        self._closed = True
        for connection in list(self._live):
            with contextlib.suppress(duckdb.Error):  # it has just been closed
                connection.interrupt()

    @contextlib.contextmanager
    def _connected(self, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        with connected(str(self.file), read_only=read_only) as connection:
            self._live.append(connection)
            try:
                self._require_open()
                yield connection
            finally:
                self._live.remove(connection)

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the viewer is ending", "Start it again.")

    @contextlib.contextmanager
    def writing(self) -> Iterator[bool]:
        """Hold the lock of the indexing process; yield False if another has it, or the folder cannot be written."""
        lock = filelock.FileLock(self.path / "lock", thread_local=False)
        try:
            if self.path.is_symlink():  # an index from elsewhere could lead to files that are not the index's
                self.path.unlink()
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock.acquire(timeout=0)
        except (filelock.Timeout, OSError):
            yield False
            return
        try:
            yield True
        finally:
            self.give_back()
            lock.release()

    @property
    def version(self) -> tuple[int, ...]:
        """Return numbers that change whenever the file does."""
        return _stamp(self.path / SEAL)

    @contextlib.contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection | None]:
        """Yield a connection that only reads; None where there is no file that this user's Snellen has written."""
        with self.unchanged() as is_there:
            if not is_there:
                yield None
                return
            with self.reader() as connection:
                yield connection

    @contextlib.contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection that only reads, within `unchanged`."""
        try:
            with self._connected(read_only=True) as connection:
                yield connection
        except DAMAGED as error:
            self._distrust()
            raise UsageError(f"the index is damaged: {error}", "It is made anew: load the page again.") from error

    @contextlib.contextmanager
    def unchanged(self) -> Iterator[bool]:
        """Keep the file as it is; yield False where there is none of this user's Snellen."""
        if not self.path.is_dir() or self.path.is_symlink():
            yield False
            return
        with self._access(shared=True):
            self._require_open()
            yield self._is_own()

    @contextlib.contextmanager
    def change(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield the connection that changes the file, within `writing`: all of it, or nothing where anything is raised.

        The file stays open for the next change; `rest` and `give_back` let readers in.

        Raises:
            StorageError: the file cannot be written.
        """
        connection = self._opened()
        try:
            connection.begin()
            yield connection
            connection.commit()
        except BaseException as error:
            with contextlib.suppress(duckdb.Error):
                connection.rollback()
            if isinstance(error, DAMAGED):
                self._distrust()
            raise

    def _opened(self) -> duckdb.DuckDBPyConnection:
        self._require_open()
        if self._change is not None:
            return self._change[0]
        stack = contextlib.ExitStack()
        try:
            stack.enter_context(self.busy)
            stack.enter_context(self._access(shared=False))
            if self._is_own():
                connection = stack.enter_context(self._connected(read_only=False))
            elif self.holds:
                raise FileNotFoundError(2, "the index was removed or changed while it was made; it is made anew")
            else:
                for name in (FILE, f"{FILE}.wal", SEAL):
                    (self.path / name).unlink(missing_ok=True)
                connection = stack.enter_context(self._connected(read_only=False))
                connection.execute(SCHEMA)
                self.holds = True
        except OSError as error:
            stack.close()
            raise storage_error(self.file, error) from error
        except BaseException as error:
            stack.close()
            if isinstance(error, DAMAGED):
                self._distrust()
            raise
        self._change = connection, stack, time.monotonic()
        return connection

    def _distrust(self) -> None:
        """Make the next writer begin anew."""
        with contextlib.suppress(OSError):
            (self.path / SEAL).unlink()
        self._damaged = self._change is not None

    @contextlib.contextmanager
    def current(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection to read by, within `writing`: that of a change which is not given back, or one that only reads."""
        if self._change is not None:
            yield self._change[0]
            return
        with self.reading() as connection:
            if connection is None:
                raise storage_error(self.file, FileNotFoundError(2, "the index was removed while it was made"))
            yield connection

    def rest(self) -> None:
        """Let readers in, if they may have waited long enough to notice."""
        if self._change is not None and time.monotonic() - self._change[2] > KEEP_SECONDS:
            self.give_back()
            time.sleep(PAUSE_SECONDS)

    def give_back(self) -> None:
        """Finish a change: the file is whole, sealed, and can be read.

        Raises:
            StorageError: the file cannot be written.
        """
        if self._change is None:
            return
        (connection, stack, _), self._change = self._change, None
        try:
            with stack:  # the lock is let go last, after the seal
                connection.close()
                if self._damaged:
                    self._damaged = False
                    return
                stamp = _stamp(self.file)
                sealed = _Sealed(stamp, seal_own(repr(stamp).encode()))
                with replacing(self.path / SEAL) as part:
                    part.write_bytes(msgspec.json.encode(sealed))
        except OSError as error:
            raise storage_error(self.file, error) from error

    def _is_own(self) -> bool:
        """Return True if the file is the one that this user's Snellen closed last."""
        try:
            sealed = msgspec.json.decode((self.path / SEAL).read_bytes(), type=_Sealed)
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return False
        stamp = _stamp(self.file)
        whole = bool(stamp) and stamp == sealed.stamp and not os.path.lexists(self.path / f"{FILE}.wal")
        return whole and sealed.mark == seal_own(repr(stamp).encode())

    @contextlib.contextmanager
    def _access(self, *, shared: bool) -> Iterator[None]:
        if sys.platform == "win32":  # a reader keeps other readers out, too
            with filelock.FileLock(self.path / "access", timeout=WAIT_SECONDS, thread_local=False):
                yield
            return
        place = self.path / "access"
        try:
            if place.is_symlink():
                place.unlink()
            handle = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            if not shared:
                raise
            yield  # a folder that cannot be written has no writer
            return
        try:
            _lock(handle, shared=shared)
            yield
        finally:
            os.close(handle)


def _lock(handle: int, *, shared: bool) -> None:
    """Wait for a lock of an open file, which ends with it.

    Raises:
        UsageError: it takes too long. OSError: the file system has no locks, so that nobody can write the index.
    """
    if sys.platform != "win32":
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UsageError("another process has the index", "Load the page again in a moment.") from None
                time.sleep(0.005)
            except OSError:
                if shared:
                    return
                raise


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what tells a file from every other and from its own earlier content; empty where it is no regular file.

    The time of the last change of the inode can be set by nobody, and a copy has an inode of its own.
    """
    try:
        status = path.lstat()
    except OSError:
        return ()
    if not stat.S_ISREG(status.st_mode):
        return ()
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def put_run(database: duckdb.DuckDBPyConnection, state: RunIndexState) -> None:
    """Write what the index says of a run."""
    _put(database, "run_states", "run", state.run, (state.key, state.set_no), state)


def put_set(database: duckdb.DuckDBPyConnection, state: SetState) -> None:
    """Write what the index says of a set of samples."""
    _put(database, "set_states", "set_no", state.set_no, (state.name, state.benchmark), state)


def _put(
    database: duckdb.DuckDBPyConnection,
    table: str,
    number_name: str,
    number: int,
    about: tuple[Any, ...],
    state: Struct,
) -> None:
    order = "run, key, set_no, state" if table == "run_states" else "set_no, name, benchmark, state"
    values = [number, *(plain(value) if isinstance(value, str) else value for value in about)]
    database.execute(f"DELETE FROM {table} WHERE {number_name} = ?", [number])
    text = msgspec.json.encode(state).decode()
    database.execute(f"INSERT INTO {table}({order}) VALUES (?, ?, ?, ?)", [*values, text])


def read_states(database: duckdb.DuckDBPyConnection) -> tuple[dict[str, RunIndexState], dict[str, SetState]]:
    """Read what the index says of all runs by key, and of all sets by name.

    A run without as many records as its state counts is indexed anew: it stands here with its number and nothing else.
    """
    runs = [msgspec.json.decode(text, type=RunIndexState) for (text,) in _texts(database, "run_states")]
    sets = [msgspec.json.decode(text, type=SetState) for (text,) in _texts(database, "set_states")]
    counts = dict(database.execute("SELECT run, count(*) FROM record_rows GROUP BY run").fetchall())
    whole = (
        state if counts.get(state.run, 0) == state.recorded else RunIndexState(state.key, state.run) for state in runs
    )
    return {state.key: state for state in whole}, {state.name: state for state in sets}


def _texts(database: duckdb.DuckDBPyConnection, table: str) -> list[tuple[str]]:
    return database.execute(f"SELECT state FROM {table}").fetchall()


def table_of(rows: Sequence[tuple[Any, ...]], columns: str) -> pa.Table:
    """Return rows as a table with the columns of SQL."""
    schema = schema_of(columns)
    if not rows:
        return schema.empty_table()
    values = zip(*rows, strict=True)
    return pa.table([pa.array(each, column.type) for each, column in zip(values, schema, strict=True)], schema=schema)


def plain(text: str) -> str:
    """Return a text that a database can hold: half a character, which JSON can name, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
