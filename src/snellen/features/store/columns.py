"""Columns of a feature file by their roles: features, labels, split, ids and class_names.

Names are read tolerantly, without regard to case: `FEATURES`, `LABELS` and so on below; also one array a split, as
train_features and test_labels or X_train and y_test. Two arrays that could be the same thing are an error, never a
choice made in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from snellen.errors import DataError

FEATURES = ("features", "feature", "embeddings", "embedding", "feats", "x", "data")
LABELS = ("labels", "label", "y", "targets", "target")
SPLIT = ("split", "splits")
IDS = ("ids", "id", "names", "paths", "files")
NAMES = ("class_names", "classes")
ROLES = {"features": FEATURES, "labels": LABELS, "split": SPLIT, "ids": IDS, "class_names": NAMES}
SPLITS = {
    "train": "train",
    "training": "train",
    "test": "test",
    "testing": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "query": "query",
    "gallery": "gallery",
}


class LazyRows:
    """Features [rows, width] that are read a block at a time: `rows[start:stop]`."""

    ndim = 2

    def __init__(self, shape: Sequence[int], dtype: Any, read: Callable[[int, int], np.ndarray]) -> None:
        """`read` returns the rows from start to stop."""
        self.shape, self.dtype, self._read = tuple(shape), np.dtype(dtype), read

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> np.ndarray:
        start, stop, _ = rows.indices(len(self))
        return self._read(start, stop)


def streamed_rows(shape: Sequence[int], dtype: Any, blocks: Callable[[], Iterator[np.ndarray]]) -> LazyRows:
    """Return features of which memory holds a block: `blocks` yields all rows in order, and is called again to go back."""
    stream: Iterator[np.ndarray] = iter(())
    block, first = np.empty((0, shape[1]), dtype), shape[0] + 1

    def read(start: int, stop: int) -> np.ndarray:
        nonlocal stream, block, first
        if start < first:
            stream, block, first = blocks(), np.empty((0, shape[1]), dtype), 0
        parts = [np.empty((0, shape[1]), dtype)]
        while start < stop:
            if start >= first + len(block):
                first, block = first + len(block), next(stream, block[:0])
                if not len(block):
                    raise DataError(f"the features end before row {start:,} of {shape[0]:,}", "The file is damaged.")
                continue
            parts.append(block[start - first : stop - first])
            start += len(parts[-1])
        return np.concatenate(parts)

    return LazyRows(shape, dtype, read)


Rows: TypeAlias = np.ndarray | LazyRows


class FileColumns(Struct, frozen=True, eq=False):
    """Columns of a file before they are checked; None for what it does not hold.

    `labels` are an array or a sequence of rows; `split`, `ids` and `names` are arrays of texts.
    """

    features: Any = None
    labels: Any = None
    split: Any = None
    ids: Any = None
    names: Any = None


class Request(Struct, frozen=True, eq=False):
    """What is asked of a file.

    Attributes:
        file: the file.
        chosen_names: role to the name of its array.
        needed: roles that the file must hold.
        opened: closes what the rows are read from.
    """

    file: Path
    chosen_names: Mapping[str, str]
    needed: Sequence[str]
    opened: ExitStack

    def roles(self, names: Sequence[str], usual_names: Mapping[str, Sequence[str]] = ROLES) -> dict[str, str]:
        """Map each role to the file's name for it. Raises DataError where two names fit, or the chosen one is missing."""
        names_by_role: dict[str, str] = {}
        for role, usual in usual_names.items():
            if role in self.chosen_names:
                if self.chosen_names[role] not in names:
                    raise DataError(
                        f"{self.file}: there is no {self.chosen_names[role]!r}; there are: {', '.join(map(repr, names))}",
                        f"Name one of these: --key {role}=NAME.",
                    )
                names_by_role[role] = self.chosen_names[role]
                continue
            fitting = [name for name in names if name.lower() in usual and name not in self.chosen_names.values()]
            if len(fitting) > 1:
                raise DataError(
                    f"{self.file}: {' and '.join(map(repr, fitting))} could each be the {role}",
                    f"Select one: --key {role}=NAME.",
                )
            if fitting:
                names_by_role[role] = fitting[0]
        return names_by_role

    def missing(self, role: str, usual: Sequence[str], names: Sequence[str]) -> DataError:
        """Return the error about a role that no array has."""
        hint = f"Name their array: --key {role}=NAME" + (
            ", or the file that has them: --labels FILE." if role == "labels" else "."
        )
        return DataError(
            f"{self.file}: there are no {role} in it: none of {', '.join(usual)}; it holds: "
            f"{', '.join(map(repr, names)) or 'nothing'}",
            hint,
        )

    def columns(self, names: Sequence[str], load: Callable[[str, str], Any]) -> FileColumns:
        """Return the columns of a file of named arrays; `load` takes an array's name and its role."""
        names_by_role = self.roles(names)
        by_split = {} if names_by_role.keys() & set(self.needed) else self._by_split(names)
        if any("features" in roles for roles in by_split.values()):
            return self._joined(load, by_split, names_by_role)
        if any(role not in names_by_role for role in self.needed):
            in_groups = self._in_groups(names)
            found = self.roles([*names, *in_groups])
            names_by_role = {role: in_groups.get(name, name) for role, name in found.items()}
        for role in self.needed:
            if role not in names_by_role:
                raise self.missing(role, ROLES[role], names)
        return named_columns({role: load(name, role) for role, name in names_by_role.items()})

    @staticmethod
    def _in_groups(names: Sequence[str]) -> dict[str, str]:
        """Map the last part of a name in a group to the whole, where one name alone ends so."""
        ends = [name.rpartition("/")[2] for name in names]
        return {end: name for end, name in zip(ends, names, strict=True) if end != name and ends.count(end) == 1}

    def _by_split(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Map split to role to name, for names such as train_features, X_test, ids_val, test/labels."""
        by_split: dict[str, dict[str, str]] = {}
        for name in names:
            low = name.lower().replace("/", "_")
            for word, split in SPLITS.items():
                if low.startswith(word + "_"):
                    rest = low[len(word) + 1 :]
                elif low.endswith("_" + word):
                    rest = low[: -len(word) - 1]
                else:
                    continue
                role = next((role for role in ("features", "labels", "ids") if rest in ROLES[role]), None)
                if role is not None:
                    if role in by_split.setdefault(split, {}):
                        raise DataError(
                            f"{by_split[split][role]!r} and {name!r} could each be the {role} of the split {split!r}",
                            "Remove one of them from the file.",
                        )
                    by_split[split][role] = name
        return by_split

    def _joined(
        self,
        load: Callable[[str, str], Any],
        by_split: Mapping[str, Mapping[str, str]],
        common: Mapping[str, str],
    ) -> FileColumns:
        """Join the splits, in the file's order."""
        parts: dict[str, list[Any]] = {"features": [], "labels": [], "ids": []}
        split: list[str] = []
        for name, roles in by_split.items():
            for role in ("features", *self.needed):
                if role not in roles:
                    raise DataError(
                        f"{self.file}: the split {name!r} has {', '.join(map(repr, roles.values()))} and no {role}",
                        "Save features and labels of every split.",
                    )
            rows = {role: load(array_name, role) for role, array_name in roles.items()}
            for role, array in rows.items():
                array = rows[role] = np.asarray(array) if isinstance(array, list) else array
                if len(array.shape) == 0 or len(array) != len(rows["features"]):
                    raise DataError(
                        f"{self.file}: {roles[role]!r} has shape {list(array.shape)}, {roles['features']!r} "
                        f"{list(rows['features'].shape)}; as many rows were expected",
                        "Save as many of each.",
                    )
                parts[role].append(array)
            if "ids" not in rows:
                parts["ids"].append(np.array([f"{name}/{row}" for row in range(len(rows["features"]))]))
            split += [name] * len(rows["features"])
        for role, arrays in parts.items():
            kinds = {("text" if array.dtype.kind in "SU" else "number", array.shape[1:]) for array in arrays}
            if len(kinds) > 1:
                shapes = ", ".join(f"{list(array.shape)} {array.dtype}" for array in arrays)
                raise DataError(
                    f"{self.file}: the {role} of the splits do not go together: {shapes}", "Save all alike."
                )
        labels = np.concatenate(parts["labels"]) if parts["labels"] else None
        names = load(common["class_names"], "class_names") if "class_names" in common else None
        return FileColumns(join_rows(parts["features"]), labels, split, np.concatenate(parts["ids"]), names)


def named_columns(by_role: Mapping[str, Any]) -> FileColumns:
    """Return columns by their roles."""
    return FileColumns(**{"names" if role == "class_names" else role: array for role, array in by_role.items()})


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join arrays of one width, one behind the other, without reading them. The type holds every value of all."""
    if len(parts) == 1:
        return parts[0]
    if any(part.ndim != 2 for part in parts):
        return np.concatenate([part[:] for part in parts])  # refused later, with its shape
    starts = np.cumsum([0, *(len(part) for part in parts)])
    dtype = np.result_type(*(part.dtype for part in parts))

    def read(start: int, stop: int) -> np.ndarray:
        blocks = [
            part[max(start - first, 0) : max(stop - first, 0)] for part, first in zip(parts, starts, strict=False)
        ]
        return np.concatenate(blocks).astype(dtype, copy=False)

    return LazyRows((int(starts[-1]), parts[0].shape[1]), dtype, read)
