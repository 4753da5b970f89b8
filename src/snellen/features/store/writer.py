"""Writer of a feature store: commits row ranges, so that a killed extraction resumes with every row exactly once.

Every row has its place in the arrays before the first is written; a range is written, brought to disk, and only then
named in commits.jsonl. A range that is not named there is computed again and lands in the same place: nothing is lost
and nothing can come twice. store.json says `complete` last, by rename.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from snellen.engine import journal
from snellen.engine.fingerprint import differences
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, FingerprintError
from snellen.features.store.format import (
    META,
    PATCH_TOKENS,
    MissingRow,
    StoreMeta,
    StoreOutput,
    TokenOutput,
    fingerprint,
    labels_of_rows,
    read_meta,
    require_space,
    write_meta,
    write_table,
)
from snellen.features.store.labels import Labels

COMMITS = "commits.jsonl"


class StoreRows(Struct, frozen=True, eq=False):
    """Rows of a store before any value is known: n ids, n splits, labels of n rows."""

    ids: Sequence[str]
    splits: Sequence[str]
    labels: Labels


class Commit(Struct, frozen=True, omit_defaults=True):
    """Rows `start` to `stop` - 1 are on disk; `missing` are those among them that have no values, and why."""

    start: int
    stop: int
    missing: tuple[tuple[int, str], ...] = ()


class StoreWriter:
    """An open store that rows are written to. Use as a context: it holds the store's lock."""

    def __init__(
        self,
        path: Path | str,
        identity: Mapping[str, Any],
        rows: StoreRows,
        widths: Mapping[str, int],
        dtype: str,
        origin: Mapping[str, Any] | None = None,
        notes: Sequence[str] = (),
        tokens: TokenOutput | None = None,
    ) -> None:
        """Nothing is touched before the context is entered.

        Args:
            path: the store's folder.
            identity: everything that can change a value; going on with another is refused.
            rows: what is to be stored, in its order.
            widths: output to its width, in the order of the store.
            dtype: float16 or float32.
            tokens: patch tokens, where they are to be stored; `values` of `stage` have them as `patch_tokens`.
        """
        self.path = Path(path)
        self._identity = msgspec.json.decode(msgspec.json.encode(identity))  # as it will be read: lists, no tuples
        self._rows = rows
        self._origin, self._notes = dict(origin or {}), tuple(notes)
        self._outputs = {name: StoreOutput(f"{name}.npy", width, dtype) for name, width in widths.items()}
        self._tokens = tokens
        self._arrays: dict[str, np.ndarray] = {}
        self._missing: dict[int, str] = {}
        self._staged: list[int] = []
        self._lost: dict[int, str] = {}
        self._complete = False
        self._lock = RunFolder(self.path).locked()
        self.done = np.zeros(len(rows.ids), dtype=bool)

    def __enter__(self) -> StoreWriter:
        """Create a store or resume one.

        Raises:
            RunLockedError: another process writes to it.
            FingerprintError: the store was begun with other settings.
            StorageError: it cannot be written.
        """
        self._lock.__enter__()
        try:
            self._open()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *fault: Any) -> None:
        self._arrays.clear()
        self._lock.__exit__(None, None, None)

    @property
    def remaining(self) -> np.ndarray:
        """Return the numbers of the rows that are not on disk yet, ascending."""
        return np.flatnonzero(~self.done)

    @property
    def complete(self) -> bool:
        """Return True if the store was complete when it was opened."""
        return self._complete

    def stage(self, rows: Sequence[int], values: Mapping[str, np.ndarray], missing: Mapping[int, str]) -> None:
        """Write rows into their places. They count once `commit` has returned.

        Args:
            rows: their numbers.
            values: output to [rows, width] (patch tokens to [rows, tokens, width]); may be empty where every row is missing.
            missing: row number to why it has no values.

        Raises:
            DataError: a value is not finite, or too large for the store's dtype; the message names the row.
        """
        at = np.asarray(rows, dtype=np.int64)
        present = ~np.isin(at, list(missing)) if missing else np.ones(len(at), dtype=bool)
        for name, block in values.items():
            with np.errstate(over="ignore"):
                stored = np.asarray(block).astype(self._arrays[name].dtype, copy=False)
            wrong = np.flatnonzero(present & ~np.isfinite(stored.reshape(len(stored), -1)).all(axis=1))
            if len(wrong):
                raise self._not_finite(name, int(at[wrong[0]]), block[wrong[0]])
            self._arrays[name][at] = stored
        self._staged += [int(row) for row in at]
        self._lost.update(missing)

    def commit(self) -> None:
        """Bring what was staged to disk and name it in commits.jsonl. Raises StorageError."""
        if not self._staged:
            return
        try:
            for array in self._arrays.values():
                array.flush()  # type: ignore[attr-defined]  # a memmap
            start, stop = min(self._staged), max(self._staged) + 1
            if stop - start != len(set(self._staged)):
                raise RuntimeError(f"rows {start} to {stop - 1} were staged with gaps or twice")
            self._append(Commit(start, stop, tuple(sorted(self._lost.items()))))
        except OSError as error:
            raise journal.storage_error(self.path, error) from error
        self.done[start:stop] = True
        self._missing.update(self._lost)
        self._staged, self._lost = [], {}

    def meta(self) -> StoreMeta:
        """Read store.json."""
        return read_meta(self.path)

    def finish(self) -> StoreMeta:
        """Say that the store is complete. Rows without values are taken out of the arrays and listed in store.json.

        Raises:
            RuntimeError: rows remain.
            DataError: no row has values.
            StorageError: there is no room for the arrays without those rows; what is committed stays.
        """
        if len(self.remaining):
            raise RuntimeError(f"{len(self.remaining):,} rows are not written yet")
        rows, outputs, table, labels = self._rows, self._outputs, "rows.parquet", self._rows.labels
        if self._missing:
            if len(self._missing) == len(rows.ids):
                raise DataError(
                    f"{self.path}: none of the {len(rows.ids):,} images could be read; "
                    f"first: {next(iter(self._missing.values()))}",
                    "Check --images.",
                )
            try:
                outputs, table, labels = self._without_missing()
            except OSError as error:
                raise journal.storage_error(self.path, error) from error
        gone = tuple(MissingRow(rows.ids[row], rows.splits[row], why) for row, why in sorted(self._missing.items()))
        meta = msgspec.structs.replace(
            self._began(),
            rows=len(labels),
            outputs=outputs,
            table=table,
            complete=True,
            classes=tuple(int(class_id) for class_id in labels.classes),
            missing=gone,
        )
        if self._tokens is not None:
            gaps = tuple(sorted(self._missing))
            meta = msgspec.structs.replace(meta, patch_tokens=msgspec.structs.replace(self._tokens, gaps=gaps))
        write_meta(self.path, meta)
        files = {array.file for array in outputs.values()}
        for stale in [*(array.file for array in self._outputs.values() if array.file not in files), COMMITS]:
            (self.path / stale).unlink(missing_ok=True)
        if table != "rows.parquet":
            (self.path / "rows.parquet").unlink(missing_ok=True)
        return meta

    def _open(self) -> None:
        rows = self._rows
        if (self.path / META).exists():
            meta = read_meta(self.path)
            require_same(self.path, meta.identity, self._identity)
            if meta.complete:
                self.done[:] = True
                self._complete = True
                return
        else:
            require_space(self.path, self._outputs.values(), self._tokens, len(rows.ids))
            try:
                for array in self._outputs.values():
                    self._create(array, len(rows.ids))
                if self._tokens is not None:
                    self._create(self._tokens, len(rows.ids))
                write_table(self.path / "rows.parquet", rows.ids, rows.splits, rows.labels)
                (self.path / COMMITS).write_bytes(b"")
            except OSError as error:
                raise journal.storage_error(self.path, error) from error
            write_meta(self.path, self._began())
        files = {name: array.file for name, array in self._outputs.items()}
        if self._tokens is not None:
            files[PATCH_TOKENS] = self._tokens.file
        self._arrays = {
            name: np.load(self.path / file, mmap_mode="r+", allow_pickle=False) for name, file in files.items()
        }
        for commit in self._commits():
            self.done[commit.start : commit.stop] = True
            self._missing.update(dict(commit.missing))

    def _began(self) -> StoreMeta:
        labels = self._rows.labels
        return StoreMeta(
            kind="extracted",
            identity=self._identity,
            fingerprint=fingerprint(self._identity),
            rows=len(self._rows.ids),
            outputs=self._outputs,
            complete=False,
            several=labels.many is not None,
            classes=tuple(int(class_id) for class_id in labels.classes),
            names=labels.names,
            origin=self._origin,
            notes=self._notes,
            patch_tokens=msgspec.UNSET if self._tokens is None else self._tokens,
        )

    def _commits(self) -> Iterable[Commit]:
        """Read the commit records; a torn last line is removed."""
        path = self.path / COMMITS
        data = path.read_bytes() if path.exists() else b""
        complete_lines = data[: data.rfind(b"\n") + 1]
        if len(complete_lines) != len(data):
            with path.open("r+b") as file:
                file.truncate(len(complete_lines))
        for number, line in enumerate(complete_lines.splitlines(), start=1):
            try:
                yield msgspec.json.decode(line, type=Commit)
            except (msgspec.DecodeError, RecursionError) as error:
                raise DataError(
                    f"{path}, line {number}: {error}",
                    f"Remove {self.path} and extract again: complete and incomplete rows cannot be distinguished.",
                ) from error

    def _append(self, commit: Commit) -> None:
        with (self.path / COMMITS).open("ab") as file:
            file.write(msgspec.json.encode(commit) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _without_missing(self) -> tuple[dict[str, StoreOutput], str, Labels]:
        """Copy arrays and table without the missing rows, under other names, so that a kill loses nothing."""
        rows = self._rows
        kept_rows = np.setdiff1d(np.arange(len(rows.ids)), np.fromiter(self._missing, np.int64))
        outputs = {}
        for name, array in self._outputs.items():
            copy = StoreOutput(f"{name}.kept.npy", array.width, array.dtype)
            values = self._create(copy, len(kept_rows))
            for start in range(0, len(kept_rows), 8192):
                values[start : start + 8192] = self._arrays[name][kept_rows[start : start + 8192]]
            values.flush()
            outputs[name] = copy
        labels = labels_of_rows(rows.labels, kept_rows)
        table = "rows.kept.parquet"
        write_table(self.path / table, [rows.ids[i] for i in kept_rows], [rows.splits[i] for i in kept_rows], labels)
        return outputs, table, labels

    def _create(self, array: StoreOutput | TokenOutput, rows: int) -> np.memmap[Any, Any]:
        """Create an array and claim its blocks: a full disk is an error here, and would end the process in a mapped write."""
        path = self.path / array.file
        values: np.memmap[Any, Any]
        shape = (rows, array.width) if isinstance(array, StoreOutput) else (rows, array.tokens, array.width)
        values = np.lib.format.open_memmap(path, "w+", np.dtype(array.dtype), shape)
        values.flush()
        if hasattr(os, "posix_fallocate"):
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        return values

    def _not_finite(self, name: str, row: int, values: np.ndarray) -> DataError:
        if np.isfinite(np.asarray(values, dtype=np.float64)).all():
            return DataError(
                f"{self.path}: row {row:,} ({self._rows.ids[row]}): {name} is too large for {self._arrays[name].dtype}",
                "Store it with --tokens-dtype float32." if name == PATCH_TOKENS else "Store it with --dtype float32.",
            )
        return DataError(
            f"{self.path}: row {row:,} ({self._rows.ids[row]}): the encoder's {name} is not finite",
            "Compute in another precision (--compute float32), or check the weights.",
        )


def require_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to mix two extractions in one store.

    Raises:
        FingerprintError: one line per difference, and the two ways to proceed.
    """
    changed = list(differences(old, new))
    if not changed:
        return
    width = max(len(name) for name, _, _ in changed)
    lines = "\n".join(f"  {name:<{width}}  {_short(before)}  ->  {_short(after)}" for name, before, after in changed)
    raise FingerprintError(
        f"feature store '{path}' was made with other settings; resuming would mix two encodings.\n{lines}",
        f"To resume it, repeat the command with the settings on the left.     To start a new store: --out {path}-2",
    )


def _short(value: Any) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."
