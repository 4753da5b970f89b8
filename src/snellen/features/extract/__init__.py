"""Extraction of features: images of splits are decoded ahead in threads, encoded in batches and committed in shards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from snellen.errors import DataError, UsageError
from snellen.features.extract.loop import EncodedRows, encode_rows
from snellen.features.store.format import PATCH_TOKENS, StoreMeta, TokenOutput, describe_space
from snellen.features.store.splits import read_splits
from snellen.features.store.writer import StoreRows, StoreWriter
from snellen.sources import FileBlob, digest, open_tree
from snellen.sources.image_sets import set_pictures
from snellen.sources.locator import Pictures
from snellen.sources.tree import MemberBlob
from snellen.types import Blob

if TYPE_CHECKING:
    from snellen.features.encoders.base import Encoder
    from snellen.features.extract.ray import RayEncoder


DTYPES = ("float16", "float32")
SHARD_ROWS = 512
SHARD_BYTES = 256 << 20


def extract(
    encoder: Encoder | RayEncoder,
    splits: Sequence[str | Path],
    images: Path | str,
    out: Path | str,
    *,
    dtype: str = "float32",
    batch_size: int = 64,
    workers: int | None = None,
    allow_missing: bool = False,
    shard_rows: int = SHARD_ROWS,
    progress: Callable[[int, int], None] | None = None,
    tokens_dtype: str = "float16",
    announce: Callable[[str], None] | None = None,
) -> StoreMeta:
    """Encode every image of the splits into the store `out`, or resume an interrupted call.

    Args:
        encoder: what encodes, with the outputs to store; its transform is used for every split. In several workers:
            `snellen.features.extract.ray`.
        splits: csv files, see `snellen.features.store.splits`.
        images: folder, .zip or .tar that the paths lie under, or that holds the published archives of their set.
        out: the store's folder.
        dtype: what values are stored as: float16 or float32.
        batch_size: images encoded at once.
        workers: threads that read and decode; None takes one a processor.
        allow_missing: go on without images that are not there or cannot be decoded; each is listed in store.json.
        shard_rows: rows between two commits; at most so many are encoded again after a kill.
        progress: called with rows done and rows in all.
        tokens_dtype: what patch tokens are stored as, where the encoder gives them.
        announce: called with the disk space of patch tokens before they are written.

    Raises:
        UsageError: a setting out of its range.
        DataError: a split or an image cannot be read; the message names file and line, or image.
        FingerprintError: `out` was begun with other settings.
        RunLockedError, StorageError: see `Writer`.
    """
    for kind in (dtype, tokens_dtype):
        if kind not in DTYPES:
            raise UsageError(f"dtype {kind!r} is not known.", f"Choose one of: {', '.join(DTYPES)}.")
    threads = workers if workers is not None else os.cpu_count() or 1
    if batch_size < 1 or threads < 1 or shard_rows < 1:
        raise UsageError("batch size, workers and rows of a shard are 1 or more.", "Correct the number.")
    rows = read_splits(splits)
    tree = open_tree(images)
    pictures = set_pictures(Path(images), tree=tree)
    try:
        marks = _marks(pictures, rows.ids, Path(images), allow_missing)
        identity = {**encoder.identity(), "dtype": dtype, "data": data_digest(rows, marks)}
        if encoder.tokens:
            identity["tokens_dtype"] = tokens_dtype
        origin = {"encoder": encoder.name, "splits": [str(split) for split in splits], "images": str(images)}
        shapes = encoder.shapes()
        widths = {name: shape[0] for name, shape in shapes.items() if name != PATCH_TOKENS}
        tokens = None
        if encoder.tokens:
            count, width = shapes[PATCH_TOKENS]
            tokens = TokenOutput(f"{PATCH_TOKENS}.npy", count, width, tokens_dtype)
            # Pages that wait for the disk stay bounded, however large a row is.
            shard_rows = max(1, min(shard_rows, SHARD_BYTES // tokens.row_bytes))
            if announce is not None:
                announce(describe_space(out, tokens, len(rows.ids)))
        with StoreWriter(out, identity, rows, widths, dtype, origin, _notes(rows), tokens) as writer:
            remaining = writer.remaining
            done = len(rows.ids) - len(remaining)
            if not len(remaining) and writer.complete:
                return writer.meta()

            def blob(row: int) -> Blob:
                return pictures.blob(rows.ids[row])

            # An encoder in several workers takes the shards in its own order, and hands back parts of them.
            elsewhere = getattr(encoder, "encode_shards", None)
            parts_of: Iterable[Iterable[EncodedRows]]
            if elsewhere is not None:
                parts_of = elsewhere(blob, _shards(remaining, shard_rows), batch_size, workers, allow_missing)
            else:
                parts_of = (
                    encode_rows(cast("Encoder", encoder), blob, shard, batch_size, threads, allow_missing)
                    for shard in _shards(remaining, shard_rows)
                )
            for parts in parts_of:
                for part in parts:
                    writer.stage(part.rows, part.values, part.missing)
                    done += len(part.rows)
                    if progress is not None:
                        progress(done, len(rows.ids))
                writer.commit()
            return writer.finish()
    finally:
        tree.close()


def data_digest(rows: StoreRows, marks: Sequence[str]) -> str:
    """Return `sha256:` over ids, splits, class ids and names of all rows, and sizes or checksums of their images."""
    total = sha256()
    for row in zip(rows.ids, rows.splits, rows.labels.ids(), marks, strict=True):
        total.update("\0".join(map(str, row)).encode(errors="surrogateescape") + b"\n")
    total.update("\n".join(rows.labels.names or ()).encode())
    return f"sha256:{total.hexdigest()}"


def _marks(pictures: Pictures, ids: Sequence[str], root: Path, allow_missing: bool) -> list[str]:
    """Return the size in bytes or the checksum of every image, "" for a missing one, without reading any.

    Raises:
        DataError: images are not there and `allow_missing` is False.
    """
    marks: list[str] = []
    absent: list[str] = []
    tars: dict[Path, None] = {}
    for name in ids:
        if (located := pictures.located(name)) is None:
            absent.append(name)
            marks.append("")
            continue
        blob = located[0]
        if not isinstance(blob, MemberBlob):
            marks.append(str(cast(FileBlob, blob).path.stat().st_size))
        elif (checksum := blob.tree.checksum(blob.name)) is not None:
            marks.append(f"{blob.tree.size(blob.name)} {checksum:08x}")
        else:
            marks.append("there")
            tars.setdefault(blob.tree.path)
    for path in tars:  # members of a tar have no checksums
        marks[0] += f" {digest(path)}"
    if absent and (not allow_missing or len(absent) == len(ids)):
        raise DataError(
            f"{len(ids) - len(absent):,} of {len(ids):,} images are under {root}; "
            + "; ".join([f"the first missing one: {absent[0]!r}", *pictures.faults]),
            "Check --images: paths in the splits are relative to it, or to a set in it, unpacked or as an archive."
            + ("" if len(absent) == len(ids) else " To encode only those found: --allow-missing."),
        )
    return marks


def _shards(rows: np.ndarray, size: int) -> Iterator[list[int]]:
    """Split row numbers into runs without gaps, of at most `size`."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or end - start == size or rows[end] != rows[end - 1] + 1:
            yield [int(row) for row in rows[start:end]]
            start = end


def _notes(rows: StoreRows) -> list[str]:
    twice = len(rows.ids) - len(set(rows.ids))
    return [f"{twice:,} rows share their image with another row"] if twice else []
