"""Inspect logs: .eval (a zip with zstd-compressed members) and .json."""

from __future__ import annotations

import re
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from snellen.errors import DataError, UnsafeArchiveError
from snellen.formats.base import Answer, AnswerFile, Problems, missing, with_status
from snellen.formats.columns import id_of
from snellen.sources.safe_paths import regular_file
from snellen.sources.tree import ArchiveLimits, check_unpacked
from snellen.text import json_with_constants

ZSTANDARD = 93
LIMITS = ArchiveLimits(read_bytes=256 << 20, ratio_from=64 << 20)
ATTACHMENT = "attachment://"
_ATTACHED = re.compile(re.escape(ATTACHMENT) + r"([0-9a-f]{32,64})")
_LOCAL_HEADER = struct.Struct("<4s22xHH")


def inspect_zip(path: Path) -> AnswerFile:
    """Open an .eval log: one member per sample and epoch; epochs are repeats."""
    regular_file(path)
    return _answer_file(path, _stated(path), lambda problems: _zipped(path, problems))


def inspect_json(path: Path, log: dict[str, Any]) -> AnswerFile:
    """Open a parsed .json log."""
    return _answer_file(path, log, lambda problems: _listed(log, problems))


def _answer_file(path: Path, log: dict[str, Any], read: Callable[[Problems], Iterator[Answer]]) -> AnswerFile:
    """Build the file of a log from its header; Snellen's own exports name the samples themselves."""
    id_field = "sample_id" if _is_own(log) else "id"
    return AnswerFile(path, "inspect", read, "samples of an Inspect log", id_field, _model(log))


def _stated(path: Path) -> dict[str, Any]:
    """Return the header of an .eval log, of an unfinished one its start; empty if neither can be read."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for name in ("header.json", "_journal/start.json"):
                if (info := archive.NameToInfo.get(name)) is None:
                    continue
                header = json_with_constants(_member(path, archive, file, info))
                if isinstance(header, dict) and isinstance(header.get("eval"), dict):
                    return header
    except (OSError, ValueError, RecursionError, zipfile.BadZipFile, DataError, NotImplementedError):
        return {}  # the samples may still be read, and their reader says what is damaged
    return {}


def _is_own(log: dict[str, Any]) -> bool:
    spec = log.get("eval")
    metadata = spec.get("metadata") if isinstance(spec, dict) else None
    return isinstance(metadata, dict) and isinstance(metadata.get("snellen"), dict)


def _model(log: dict[str, Any]) -> str:
    spec = log.get("eval")
    model = spec.get("model") if isinstance(spec, dict) else None
    return model if isinstance(model, str) else ""


def _zipped(path: Path, problems: Problems) -> Iterator[Answer]:
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            # A log that was retried may hold a sample twice; the directory's last entry is the one that counts.
            members = [info for name, info in archive.NameToInfo.items() if _is_sample(name)]
            for info in members:
                try:
                    sample = json_with_constants(_member(path, archive, file, info))
                except UnsafeArchiveError:
                    raise
                except (msgspec.DecodeError, UnicodeDecodeError, DataError, RecursionError) as error:
                    problems.add(info.filename, f"cannot be read: {error}")
                    continue
                yield from _answer(sample, info.filename, problems)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise DataError(
            f"{path}: cannot be opened as an Inspect log: {error}", "The file is cut off; fetch it again."
        ) from error


def _is_sample(name: str) -> bool:
    return name.startswith("samples/") and name.endswith(".json")


def _member(path: Path, archive: zipfile.ZipFile, file: IO[bytes], info: zipfile.ZipInfo) -> bytes:
    """Read one member. zipfile has no zstd before Python 3.14; such members are located here and decompressed by
    Arrow.
    """
    check_unpacked(path, info.filename, info.file_size, info.compress_size, LIMITS.read_bytes, LIMITS)
    if info.compress_type != ZSTANDARD:
        return archive.read(info)
    import pyarrow as pa

    file.seek(info.header_offset)
    head = file.read(_LOCAL_HEADER.size)
    if len(head) < _LOCAL_HEADER.size or not head.startswith(b"PK\x03\x04"):
        raise DataError("its local header is damaged")
    _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(head)
    file.seek(name_bytes + extra_bytes, 1)
    packed = file.read(info.compress_size)
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            data: bytes = stream.read(LIMITS.read_bytes + 1)
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"damaged: {error}") from error
    check_unpacked(path, info.filename, len(data), info.compress_size, LIMITS.read_bytes, LIMITS)
    return data


def _listed(log: dict[str, Any], problems: Problems) -> Iterator[Answer]:
    for number, sample in enumerate(log["samples"], 1):
        yield from _answer(sample, f"sample {number}", problems)


def _answer(sample: Any, where: str, problems: Problems) -> Iterator[Answer]:
    try:
        if not isinstance(sample, dict):
            raise ValueError("not an object")
        sample_id = id_of(sample.get("id"))
        own = _own(sample)
        sample_id = own.get("sample_id", sample_id)
        epoch = sample.get("epoch", 1)
        if not isinstance(epoch, int) or epoch < 1:
            raise ValueError(f"epoch is {epoch!r}; expected a whole number from 1")
    except ValueError as error:
        problems.add(where, str(error))
        return
    text = _completion(sample.get("output"))
    if text is not None:
        text = _resolved(text, sample.get("attachments"))
    failed = sample.get("error")
    status = own.get("status")
    if status in ("ok", "refused"):
        yield with_status(Answer(sample_id, text, where, epoch - 1), status)
    elif text is None or failed:
        why = failed.get("message") if isinstance(failed, dict) else None
        yield missing(sample_id, where, str(why or "the sample holds no reply")[:500], epoch - 1)
    else:
        yield Answer(sample_id, text, where, epoch - 1)


def _own(sample: dict[str, Any]) -> dict[str, Any]:
    """Return what Snellen's own exports say of a sample: its id, where a log cannot have it, and its status."""
    metadata = sample.get("metadata")
    own = metadata.get("snellen") if isinstance(metadata, dict) else None
    if not isinstance(own, dict) or not isinstance(own.get("sample_id"), str):
        return {}
    return own


def _resolved(text: str, attachments: Any) -> str:
    """Return a text with its attachments in their places: Inspect moves long texts out of messages."""
    if ATTACHMENT not in text or not isinstance(attachments, dict):
        return text
    return _ATTACHED.sub(lambda match: _text_of(attachments.get(match[1]), match[0]), text)


def _text_of(attached: Any, mark: str) -> str:
    return attached if isinstance(attached, str) else mark


def _completion(output: Any) -> str | None:
    """Return the text of the first choice; older logs have it in `completion`."""
    if not isinstance(output, dict):
        return None
    choices = output.get("choices")
    if isinstance(choices, list) and choices:
        message = choices[0].get("message") if isinstance(choices[0], dict) else None
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            return content
        if isinstance(content, list):
            parts = [p for p in content if isinstance(p, dict) and p.get("type") == "text"]
            return "".join(p["text"] for p in parts if isinstance(p.get("text"), str))
        return None
    completion = output.get("completion")
    return completion if isinstance(completion, str) and completion else None
