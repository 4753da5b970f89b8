"""Samples of one benchmark in the index: ids with numbers that stay, and their questions, images and slices.

A set is named by benchmark, version, data digest and options, so that runs of the same samples share it. Ids get a number
when a record or a sample with them is first seen; what the benchmark itself says of a sample comes in its own order.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, field
from numpy.typing import NDArray

from snellen.runs.answer_view import answer_view
from snellen.text import shorten
from snellen.types import Image, Record, Sample, Text, Video
from snellen.viewer.index.storage import ColumnFile, ColumnWriter, IndexStorage, file_number, open_columns

IDS = pa.schema([("sample_id", pa.string())])
INFO = pa.schema(
    [
        ("ordinal", pa.int32()),
        ("question", pa.string()),
        ("kind", pa.string()),
        ("images", pa.list_(pa.string())),
        ("image_count", pa.int32()),
        ("slices", pa.list_(pa.int32())),
        ("target", pa.string()),
        ("group", pa.int64()),
    ]
)
QUESTIONS = pa.schema([("ordinal", pa.int32()), ("question", pa.string())])
EXCERPT, QUESTION_CHARACTERS, VALUE_CHARACTERS, TARGET_CHARACTERS = 200, 4_000, 80, 400
MOST_IMAGES, MOST_VALUES, MOST_FIELDS = 4, 1_000, 64
FLUSH_ROWS = 1 << 14
_NO_RECORD = Record("", "ok")


class SetState(Struct):
    """What the index holds of a set of samples.

    Attributes:
        name: benchmark, version, data and options, as one text.
        ids: files of ids; a sample's number is its row in all of them.
        info: files in the order of the benchmark.
        questions: Parquet files with whole questions, in the same order.
        described: how many samples `info` has.
        whole: True if that is all of them.
        slices: (field, value) by code.
        wide: fields with too many values to filter by.
    """

    name: str = ""
    ids: list[ColumnFile] = field(default_factory=list)
    info: list[ColumnFile] = field(default_factory=list)
    questions: list[ColumnFile] = field(default_factory=list)
    described: int = 0
    whole: bool = False
    slices: list[tuple[str, str]] = field(default_factory=list)
    wide: list[str] = field(default_factory=list)


class SampleSet:
    """A set of samples, opened for reading or, by the one writer of an index, for adding to it."""

    def __init__(self, storage: IndexStorage, name: str) -> None:
        self.storage = storage
        self.folder = storage.set_folder(name)
        state = storage.read_state(self.folder, SetState)
        self.state = state if state is not None and state.name == name and self._is_whole(state) else SetState(name)
        self.fresh = not self.state.ids
        self._ids: pa.Array | None = None
        self._next = 0

    def _is_whole(self, state: SetState) -> bool:
        return all(open_columns(self.folder, file) is not None for file in (*state.ids, *state.info))

    @property
    def ids(self) -> pa.Array:
        """Return the ids by number."""
        if self._ids is None:
            tables = [open_columns(self.folder, file) for file in self.state.ids]
            columns = [table.column(0) for table in tables if table is not None]
            chunks = [chunk for column in columns for chunk in column.chunks]
            self._ids = pa.concat_arrays(chunks) if chunks else pa.array([], pa.string())
        return self._ids

    def __len__(self) -> int:
        return sum(file.rows for file in self.state.ids)

    def numbers(self, ids: pa.Array) -> NDArray[np.int32]:
        """Return the number of each id; new ids get one. `save` makes them stay."""
        known = self.ids
        ahead = self._ahead(ids)
        if ahead is not None:
            return ahead
        index = pc.index_in(ids, value_set=known) if len(known) else pa.nulls(len(ids), pa.int32())
        if index.null_count:
            new = pc.unique(ids.filter(pc.is_null(index)))
            self._add(new)
            index = pc.index_in(ids, value_set=self.ids)
        numbers: NDArray[np.int32] = index.to_numpy(zero_copy_only=False).astype(np.int32)
        self._next = int(numbers[-1]) + 1 if len(numbers) else 0
        return numbers

    def _ahead(self, ids: pa.Array) -> NDArray[np.int32] | None:
        """Return the numbers of ids that stand in the set one after the other behind the last ones asked for."""
        first = self._next
        if not len(ids) or not self.ids.slice(first, len(ids)).equals(ids):
            return None
        self._next = first + len(ids)
        return np.arange(first, self._next, dtype=np.int32)

    def find(self, ids: pa.Array) -> NDArray[np.int32]:
        """Return the number of each id, -1 for an id that is not in the set."""
        index = pc.index_in(ids, value_set=self.ids).fill_null(-1)
        numbers: NDArray[np.int32] = index.to_numpy(zero_copy_only=False).astype(np.int32)
        return numbers

    def _add(self, new: pa.Array) -> None:
        if self.fresh and not self.state.ids:
            self.storage.clear(self.folder)
        writer = ColumnWriter(self.folder, "ids", file_number(self.state.ids), IDS)
        writer.add({"sample_id": new})
        self._ids = pa.concat_arrays([self.ids, new])
        self.state.ids.append(writer.close())
        self._join_ids()

    def _join_ids(self) -> None:
        """Keep the number of files small: the last two become one where they are of similar size."""
        files = self.state.ids
        while len(files) > 1 and files[-2].rows <= 2 * files[-1].rows:
            writer = ColumnWriter(self.folder, "ids", file_number(files), IDS)
            rows = files[-2].rows + files[-1].rows
            writer.add({"sample_id": self.ids.slice(len(self.ids) - rows)})
            files[-2:] = [writer.close()]

    def save(self) -> None:
        """Make what was added stay."""
        if not self.state.ids and not self.state.info:
            return
        self.storage.write_state(self.folder, self.state)
        self.storage.sweep(self.folder, [*self.state.ids, *self.state.info, *self.state.questions])


class SampleDescriber:
    """Adds what a benchmark says of its samples to a set, in the order of the benchmark.

    Args:
        samples: the set.
        gold: False: gold answers, and meta that names them, are left out.
    """

    def __init__(self, samples: SampleSet, *, gold: bool) -> None:
        self._set = samples
        self._gold = gold
        self._codes = {tuple(pair): code for code, pair in enumerate(samples.state.slices)}
        self._values: dict[str, int] = {}
        for name, _ in samples.state.slices:
            self._values[name] = self._values.get(name, 0) + 1
        self._wide = set(samples.state.wide)
        self._rows: list[tuple[str, str, str, list[str], int, list[int], str | None, int]] = []
        self._info: ColumnWriter | None = None
        self._questions: pq.ParquetWriter | None = None
        self.described = samples.state.described

    def add(self, place: int, sample: Sample) -> None:
        """Add the sample at this place of the benchmark's order, unless the set has it."""
        if place < self.described:
            return
        text = "\n".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
        images = [digest for part in sample.prompt.parts for digest in _images(part)]
        meta = sample.meta if self._gold else answer_view(sample, _NO_RECORD, {}, show_target=False).meta
        target = None if sample.target is None or not self._gold else shorten(_text(sample.target), TARGET_CHARACTERS)
        self._rows.append(
            (
                sample.id,
                text,
                sample.kind,
                images[:MOST_IMAGES],
                len(images),
                self._slices(meta),
                target,
                _code(sample.group or sample.id),
            )
        )
        self.described += 1
        if len(self._rows) >= FLUSH_ROWS:
            self._flush()

    def _slices(self, meta: Mapping[str, Any]) -> list[int]:
        codes = []
        for name, value in meta.items():
            if name in self._wide or not isinstance(value, (str, int, float)):
                continue
            pair = (
                name,
                value
                if type(value) is str and len(value) <= VALUE_CHARACTERS
                else shorten(str(value), VALUE_CHARACTERS),
            )
            code = self._codes.get(pair)
            if code is None:
                count = self._values.get(name, 0)
                if count >= MOST_VALUES or (not count and len(self._values) >= MOST_FIELDS):
                    self._wide.add(name)
                    continue
                code = self._codes[pair] = len(self._codes)
                self._values[name] = count + 1
            codes.append(code)
        return codes

    def _flush(self) -> None:
        if not self._rows:
            return
        ids, texts, kinds, images, counts, slices, targets, groups = zip(*self._rows, strict=True)
        numbers = pa.array(self._set.numbers(pa.array(map(_valid, ids), pa.string())))
        state, folder = self._set.state, self._set.folder
        if self._info is None or self._questions is None:
            number = file_number([*state.info, *state.questions])
            self._info = ColumnWriter(folder, "info", number, INFO)
            self._place = folder / f"questions-{number:06d}.parquet"
            self._questions = pq.ParquetWriter(self._place, QUESTIONS, compression="zstd", compression_level=1)
        plain = [_valid(shorten(text, QUESTION_CHARACTERS)) for text in texts]
        self._info.add(
            {
                "ordinal": numbers,
                "question": [shorten(" ".join(text[: 4 * EXCERPT].split()), EXCERPT) for text in plain],
                "kind": kinds,
                "images": images,
                "image_count": counts,
                "slices": slices,
                "target": targets,
                "group": groups,
            }
        )
        self._questions.write_batch(pa.record_batch([numbers, pa.array(plain, pa.string())], schema=QUESTIONS))
        self._rows = []

    def close(self, *, whole: bool) -> None:
        """Finish the files; `whole` says that the benchmark has no more samples."""
        self._flush()
        state = self._set.state
        if self._info is not None and self._questions is not None:
            self._questions.close()
            state.info.append(self._info.close())
            rows = state.info[-1].rows
            state.questions.append(ColumnFile(self._place.name, rows, self._place.stat().st_size))
        state.described, state.whole = self.described, state.whole or whole
        state.slices = [(name, value) for name, value in self._codes]
        state.wide = sorted(self._wide)
        self._info = self._questions = None
        self._set.save()


def _images(part: Any) -> list[str]:
    if isinstance(part, Image):
        return [image_digest(part.blob.key)]
    if isinstance(part, Video):
        return [image_digest(frame.blob.key) for frame in part.frames]
    return []


def image_digest(key: str) -> str:
    """Return the digest by which an image is named on pages: equal keys are equal bytes."""
    return blake2b(key.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _code(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little", signed=True)


def _text(target: Any) -> str:
    if isinstance(target, bool):
        return "yes" if target else "no"
    return " | ".join(map(str, target)) if isinstance(target, (list, tuple, set, frozenset)) else str(target)


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
