"""Files in the shapes that other harnesses write, made by the tests themselves."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa


def write_lines(path: Path, rows: list[Any]) -> Path:
    """JSON lines; a str is written as it is."""
    path.write_text(
        "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), encoding="utf-8"
    )
    return path


def inspect_sample(sample_id: Any, content: Any, *, epoch: int = 1, error: Any = None) -> dict[str, Any]:
    """One EvalSample with the fields that matter and a few that do not."""
    choices = [] if content is None else [{"message": {"role": "assistant", "content": content}, "stop_reason": "stop"}]
    return {
        "id": sample_id,
        "epoch": epoch,
        "input": "What is 1 mod 7?",
        "target": "1",
        "output": {"model": "stub", "choices": choices, "usage": {"input_tokens": 3}},
        "scores": {"match": {"value": "C"}},
        "error": error,
    }


def write_eval(path: Path, samples: list[dict[str, Any]], *, damage: str | None = None, plain: bool = False) -> Path:
    """A zip as Inspect writes it: zstd members (method 93), which zipfile cannot write: the bytes are put by hand."""
    members = {"header.json": b"{}", "_journal/start.json": b"{}"}
    for sample in samples:
        members[f"samples/{sample['id']}_epoch_{sample['epoch']}.json"] = json.dumps(sample).encode()
    if plain:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        return path
    codec = pa.Codec("zstd")
    out, directory = bytearray(), bytearray()
    for name, data in members.items():
        packed = codec.compress(data, asbytes=True)
        crc = zipfile.crc32(data)  # type: ignore[attr-defined]
        if name == damage:
            packed = b"\x28\xb5\x2f\xfd" + b"\xff" * 40
        start, raw = len(out), name.encode()
        sizes = (crc, len(packed), len(data), len(raw))
        out += struct.pack("<4s5HIIIHH", b"PK\3\4", 63, 0, 93, 0, 33, *sizes, 4) + raw + b"\1\2\0\0" + packed
        directory += struct.pack("<4s6HIIIHHHHHII", b"PK\1\2", 63, 63, 0, 93, 0, 33, *sizes, 0, 0, 0, 0, 0, start) + raw
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(out), 0)
    path.write_bytes(bytes(out) + bytes(directory) + end)
    return path
