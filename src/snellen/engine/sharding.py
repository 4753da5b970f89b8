"""Parts of a run for several machines: part K of N of the samples, by a digest of their ids.

The same id is in the same part everywhere, whatever the order of the samples, so that N processes that know nothing of each
other ask each sample once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from snellen.errors import UsageError

MOST_SHARDS = 65_536
_FORM = re.compile(r"(\d{1,6})/(\d{1,6})")
_FOLDER = re.compile(r"shard-(\d{1,6})-of-(\d{1,6})")


class Shard(Struct, frozen=True, order=True):
    """Part `number` of `count`, from 1."""

    count: int
    number: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @property
    def folder_name(self) -> str:
        """Return the name of the part's folder, which sorts by number."""
        width = len(str(self.count))
        return f"shard-{self.number:0{width}}-of-{self.count}"

    def holds(self, sample_id: str) -> bool:
        """Return True if a sample belongs to this part."""
        digest = blake2b(sample_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.number - 1


def parse_shard(text: str, option: str = "--shard") -> Shard:
    """Read `K/N`; raise UsageError if it is none, or K is not from 1 to N."""
    match = _FORM.fullmatch(text.strip())
    if match is not None:
        shard = Shard(int(match[2]), int(match[1]))
        if 1 <= shard.number <= shard.count <= MOST_SHARDS:
            return shard
    raise UsageError(
        f"{option} {text!r} is no part of a run; K/N was expected, with K from 1 to N.",
        f"Write {option} 3/16 for the third of sixteen parts. An array that counts from 0 adds 1.",
    )


def shard_folder(folder: Path, text: str) -> Path:
    """Return the folder of a part: `shard-K-of-N` in the folder that all parts share; that folder itself without a part."""
    return folder / parse_shard(text).folder_name if text else folder


def is_shard_folder(path: Path) -> bool:
    """Return True for a name that `shard_folder` gives."""
    return _FOLDER.fullmatch(path.name) is not None


def missing_parts(shards: Iterable[str]) -> list[str]:
    """Return the parts that are absent among these; the count is that of the finest division."""
    known = [parse_shard(text) for text in shards]
    if not known:
        return []
    count = max(shard.count for shard in known)
    present = {shard.number for shard in known if shard.count == count}
    return [str(Shard(count, number)) for number in range(1, count + 1) if number not in present]
