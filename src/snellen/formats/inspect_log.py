"""Writing of Inspect logs (.eval, log version 2): a zip of JSON members, written sample by sample.

Members are deflated, which Inspect reads like its own Zstandard. The same content gives the same bytes. Memory holds one
sample: summaries wait in a temporary file. Source of the layout: inspect_ai 0.3.285, log/_recorders/eval.py.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from pybase64 import b64encode

from snellen.media.decode import read_header
from snellen.redaction import redact_bytes
from snellen.text import slug

VERSION = 2
SUMMARIES = "summaries.json"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member: that of writing would differ from one export to the next."""
_COMPRESSION = 3
_NAME_LENGTH, _SAFE_LENGTH, _DIGEST_LENGTH = 180, 80, 12
_CHUNK = 1 << 20
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\ud800-\udfff]|\A[A-Za-z]:/")

_encode = msgspec.json.Encoder(enc_hook=str).encode


class EmbeddedImages:
    """The images of one sample: marks stand in their places until the text around them has been redacted.

    Attributes:
        bytes: what the images have together, undecoded.
    """

    def __init__(self) -> None:
        self._nonce = secrets.token_hex(8)  # a prompt cannot contain the mark
        self._images: list[bytes] = []
        self.bytes = 0

    def add(self, data: bytes) -> str | None:
        """Take an image and return the mark that stands for its data URI; None if it is no image of a known format."""
        header = read_header(data)
        if header is None:
            return None
        self._images.append(f"data:image/{header.format};base64,".encode() + b64encode(data))
        self.bytes += len(data)
        return f"image-{self._nonce}-{len(self._images) - 1}."

    def pieces(self, text: bytes) -> Iterator[bytes]:
        """Yield a text with the images in the places of their marks."""
        mark = re.compile(rb"image-" + self._nonce.encode() + rb"-([0-9]+)\.")
        start = 0
        for match in mark.finditer(text):
            yield text[start : match.start()]
            yield self._images[int(match[1])]
            start = match.end()
        yield text[start:]


class InspectLogWriter:
    """A log that is being written: `add` each sample, then `finish`. Keys are struck from everything but images."""

    def __init__(self, path: Path, start: Mapping[str, Any]) -> None:
        """Begin the log.

        Args:
            path: the file, which must not be there yet.
            start: `eval` and `plan` of the log.
        """
        self._archive = zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION)
        self._summaries = tempfile.TemporaryFile(prefix="snellen-inspect-")  # noqa: SIM115 - closed by __exit__
        self.samples = 0
        self._write("_journal/start.json", {"version": VERSION, **start})

    def __enter__(self) -> InspectLogWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._archive.close()
        self._summaries.close()

    def add(self, sample: Mapping[str, Any], summary: Mapping[str, Any], images: EmbeddedImages) -> None:
        """Write one sample (EvalSample), and remember its line of the list of samples (EvalSampleSummary)."""
        text = redact_bytes(_encode(sample))
        with self._open(f"samples/{sample['id']}_epoch_{sample['epoch']}.json") as member:
            for piece in images.pieces(text):
                member.write(piece)
        self._summaries.write((b"," if self.samples else b"") + redact_bytes(_encode(summary)))
        self.samples += 1

    def finish(self, header: Mapping[str, Any]) -> None:
        """Write the list of samples and the header (EvalLog without its samples)."""
        self._summaries.seek(0)
        with self._open(SUMMARIES) as member:
            member.write(b"[")
            while chunk := self._summaries.read(_CHUNK):
                member.write(chunk)
            member.write(b"]")
        self._write("header.json", {"version": VERSION, **header})

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        with self._open(name) as member:
            member.write(redact_bytes(_encode(content)))

    def _open(self, name: str) -> Any:
        info = zipfile.ZipInfo(name, _EARLIEST)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        return self._archive.open(info, "w", force_zip64=name == SUMMARIES)


def safe_id(sample_id: str) -> str:
    """Return an id that can be part of a member's name: the id itself, or a readable name with a digest of it.

    Inspect finds a sample by its id, so the id in the file and the name of its member must agree. A `/` makes a folder, as in
    Inspect's own logs. A name that would lead out of a folder into which the log is unpacked is replaced.
    """
    parts = sample_id.split("/")
    plain = (
        not _UNSAFE.search(sample_id)
        and len(sample_id.encode("utf-8", "replace")) <= _NAME_LENGTH
        and not any(part.strip() in ("", ".", "..") for part in parts)
    )
    if plain:
        return sample_id
    digest = hashlib.sha256(sample_id.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{slug(sample_id, _SAFE_LENGTH) or 'sample'}-{digest}"


def text_part(text: str) -> dict[str, Any]:
    """Return text as a part of a message."""
    return {"type": "text", "text": text}


def plain_or_parts(parts: Sequence[Mapping[str, Any]]) -> str | list[Mapping[str, Any]]:
    """Return the content of a message: a plain text where its parts are nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return list(parts)
