"""Inspect logs: .eval (a zip with zstd-compressed members) and .json."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from snellen.errors import DataError, UnsafeArchiveError
from snellen.formats.base import Answer, AnswerFile, Problems, missing
from snellen.formats.columns import id_of
from snellen.sources.archive import ArchiveLimits, check_unpacked
from snellen.sources.safe_paths import regular_file

ZSTANDARD = 93
LIMITS = ArchiveLimits(read_bytes=256 << 20, ratio_from=64 << 20)
_LOCAL_HEADER = struct.Struct("<4s22xHH")


def inspect_zip(path: Path) -> AnswerFile:
    """Open an .eval log: one member per sample and epoch; epochs are repeats."""
    regular_file(path)
    return AnswerFile(
        path, "inspect", lambda problems: _zipped(path, problems), "samples of an Inspect log", "id", stated_model(path)
    )


def inspect_json(path: Path, log: dict[str, Any]) -> AnswerFile:
    """Open a parsed .json log."""
    return AnswerFile(
        path, "inspect", lambda problems: _listed(log, problems), "samples of an Inspect log", "id", _model(log)
    )


def stated_model(path: Path) -> str:
    """Return the model that an .eval log names; empty if it names none."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            for name in ("header.json", "_journal/start.json"):
                if (info := archive.NameToInfo.get(name)) is None:
                    continue
                header = msgspec.json.decode(_member(path, archive, file, info))
                if isinstance(header, dict) and (model := _model(header)):
                    return model
    except (OSError, ValueError, RecursionError, zipfile.BadZipFile, DataError, NotImplementedError):
        return ""
    return ""


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
                    sample = msgspec.json.decode(_member(path, archive, file, info))
                except UnsafeArchiveError:
                    raise
                except (msgspec.DecodeError, DataError, RecursionError) as error:
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
        epoch = sample.get("epoch", 1)
        if not isinstance(epoch, int) or epoch < 1:
            raise ValueError(f"epoch is {epoch!r}; expected a whole number from 1")
    except ValueError as error:
        problems.add(where, str(error))
        return
    text = _completion(sample.get("output"))
    failed = sample.get("error")
    if text is None or failed:
        why = failed.get("message") if isinstance(failed, dict) else None
        yield missing(sample_id, where, str(why or "the sample holds no reply")[:500], epoch - 1)
    else:
        yield Answer(sample_id, text, where, epoch - 1)


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
