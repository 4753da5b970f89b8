"""Files APIs on loopback: uploads of images as OpenAI, Anthropic and Gemini take them, with every field checked.

`FileStore` is shared by the servers of questions and of batches. `lose` makes a file unknown, as an expiry does.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

_NAME = re.compile(rb'name="([^"]*)"')
_TYPE = re.compile(rb"Content-Type: ([a-z/]+)")
SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8", "image/webp": b"RIFF", "image/gif": b"GIF8"}


@dataclass
class StoredFile:
    """An upload: its bytes, media type and expiry; `looks` GETs are answered PROCESSING before it is ACTIVE."""

    data: bytes
    mime: str
    expires_at: float
    looks: int = 0


@dataclass
class FileStore:
    """Files of one service.

    Attributes:
        protocol: responses, messages or gemini.
        life_s: seconds that a file lives if the request names none.
        looks: how often a file of Gemini is PROCESSING when it is asked for.
        state: in which it ends.
        refuse: of the number of an upload (from 1) and its bytes: a status and a message, or None.
        identify: turns the usual id of a file into the one that is told.
        upload_host: origin that the resumable protocol names for the bytes; "": its own.
        uploads: count by digest. faults: fields that are not as the reference has them.
    """

    protocol: str
    life_s: float = 172_800.0
    looks: int = 0
    state: str = "ACTIVE"
    refuse: Callable[[int, bytes], tuple[int, str] | None] = lambda number, data: None
    identify: Callable[[str], str] = lambda identity: identity
    upload_host: str = ""
    uploads: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    files: dict[str, StoredFile] = field(default_factory=dict)
    tries: int = 0
    _announced: dict[str, tuple[str, int]] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.RLock)

    def lose(self) -> None:
        """Forget all files."""
        self.files.clear()

    def check(self, good: bool, words: str) -> None:
        if not good:
            self.faults.append(words)

    def missing(self, body: Any) -> str:
        """Return a file that a request names and that is not there or not ready; "" if all are."""
        for reference in references(body):
            file = self.files.get(reference.rpartition("/")[2] if self.protocol == "gemini" else reference)
            if file is None or file.expires_at < time.time() or file.looks > 0:
                return reference.rpartition("/")[2]
        return ""

    def lost_reply(self, name: str) -> tuple[int, str]:
        """Return status and message of a request that names an unknown file, in the provider's manner."""
        if self.protocol == "gemini":
            return 403, f"You do not have permission to access the File {name} or it may not exist."
        if self.protocol == "messages":
            return 404, f"File not found: {name}"
        return 400, f"Files ['{name}'] were not found."

    def serve(
        self, origin: str, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]] | None:
        """Return (status, object, headers) of the reply to a call about files; None for any other call."""
        split = urlsplit(path)
        headers = {name.lower(): value for name, value in headers.items()}
        with self._lock:
            if self.protocol == "gemini":
                if method == "POST" and split.path == "/upload/v1beta/files":
                    query = parse_qs(split.query)
                    if "upload_id" in query:
                        return self._finalize(origin, query["upload_id"][0], headers, body)
                    return self._announce(origin, headers, body)
                if method == "GET" and split.path.startswith("/v1beta/files/"):
                    return self._look(origin, split.path.rpartition("/")[2])
                return None
            if method == "POST" and split.path == "/v1/files" and b'name="purpose"\r\n\r\nbatch' not in body[:2000]:
                return self._form(headers, body)
            return None

    def _refused(self, data: bytes) -> tuple[int, Any, dict[str, str]] | None:
        self.tries += 1
        refusal = self.refuse(self.tries, data)
        return None if refusal is None else (refusal[0], {"error": {"message": refusal[1], "code": refusal[0]}}, {})

    def _stored(self, data: bytes, mime: str, life_s: float) -> str:
        self.check(data.startswith(SIGNATURES.get(mime, b"?")), f"media type {mime} of {data[:4]!r}")
        self.uploads[hashlib.sha256(data).hexdigest()] += 1
        identity = self.identify(f"file-{self.protocol}-{self.tries}")
        looks = self.looks if self.protocol == "gemini" else 0
        self.files[identity] = StoredFile(data, mime, time.time() + life_s, looks)
        return identity

    def _form(self, headers: Mapping[str, str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        kind = headers.get("content-type", "")
        self.check(kind.startswith("multipart/form-data; boundary="), f"content type {kind}")
        boundary = b"--" + kind.partition("boundary=")[2].encode()
        fields: dict[str, bytes] = {}
        mime = name = ""
        for part in body.split(boundary)[1:-1]:
            head, _, content = part.partition(b"\r\n\r\n")
            match = _NAME.search(head)
            fields[match[1].decode() if match else ""] = content.removesuffix(b"\r\n")
            if b"filename=" in head:
                kind_of_file = _TYPE.search(head)
                mime = kind_of_file[1].decode() if kind_of_file else ""
                name = head.partition(b'filename="')[2].partition(b'"')[0].decode()
        self.check(body.endswith(boundary + b"--\r\n"), "the form is not closed")
        self.check(re.fullmatch(r"[0-9a-f]{32}\.(png|jpeg|webp|gif)", name) is not None, f"file name {name}")
        if self.protocol == "responses":
            self.check(
                set(fields) == {"purpose", "expires_after[anchor]", "expires_after[seconds]", "file"},
                f"form fields {sorted(fields)}",
            )
            self.check(fields.get("purpose") == b"vision", f"purpose {fields.get('purpose')!r}")
            self.check(fields.get("expires_after[anchor]") == b"created_at", "anchor")
            seconds = int(fields.get("expires_after[seconds]", b"0"))
            self.check(3600 <= seconds <= 2_592_000, f"seconds {seconds}")
        else:
            self.check(set(fields) == {"expires_in_seconds", "file"}, f"form fields {sorted(fields)}")
            seconds = int(fields.get("expires_in_seconds", b"0"))
            self.check(3600 <= seconds <= 7_776_000, f"seconds {seconds}")
            self.check(headers.get("anthropic-version") == "2026-10-21", "anthropic-version of an upload")
            self.check("anthropic-beta" not in headers, "a beta header")
        data = fields.get("file", b"")
        if (refusal := self._refused(data)) is not None:
            return refusal
        life_s = min(seconds, self.life_s)
        identity = self._stored(data, mime, life_s)
        now = int(time.time())
        if self.protocol == "responses":
            common = {"object": "file", "bytes": len(data), "purpose": "vision", "status": "processed"}
            return 200, {"id": identity, "created_at": now, "expires_at": int(now + life_s), **common}, {}
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + life_s))
        common = {"type": "file", "size_bytes": len(data), "mime_type": mime, "downloadable": False}
        return 200, {"id": identity, "filename": name, "expires_at": stamp, **common}, {}

    def _announce(self, origin: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any, dict[str, str]]:
        self.check(headers.get("x-goog-upload-protocol") == "resumable", "upload protocol")
        self.check(headers.get("x-goog-upload-command") == "start", "upload command")
        mime = headers.get("x-goog-upload-header-content-type", "")
        self.check(mime.startswith(("image/", "video/")), f"announced media type {mime}")
        self.check(bool(json.loads(body)["file"]["displayName"]), "displayName of the file")
        number = str(len(self._announced) + 1)
        self._announced[number] = (mime, int(headers.get("x-goog-upload-header-content-length", "0")))
        address = f"{self.upload_host or origin}/upload/v1beta/files?upload_id={number}"
        return 200, {}, {"X-Goog-Upload-URL": address}

    def _finalize(
        self, origin: str, number: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Any, dict[str, str]]:
        mime, size = self._announced[number]
        self.check(headers.get("x-goog-upload-command") == "upload, finalize", "upload command")
        self.check(headers.get("x-goog-upload-offset") == "0", "upload offset")
        self.check(size == len(body), f"announced size {size} of {len(body)}")
        if (refusal := self._refused(body)) is not None:
            return refusal
        identity = self._stored(body, mime, self.life_s)
        return 200, {"file": self._file(origin, identity)}, {"X-Goog-Upload-Status": "final"}

    def _look(self, origin: str, identity: str) -> tuple[int, Any, dict[str, str]]:
        file = self.files.get(identity)
        if file is None:
            return 404, {"error": {"code": 404, "message": "no such file", "status": "NOT_FOUND"}}, {}
        file.looks -= 1
        return 200, self._file(origin, identity), {}

    def _file(self, origin: str, identity: str) -> dict[str, Any]:
        file = self.files[identity]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(file.expires_at))
        state = "PROCESSING" if file.looks > 0 else self.state
        return {
            "name": f"files/{identity}",
            "uri": f"{origin}/v1beta/files/{identity}",
            "mimeType": file.mime,
            "state": state,
            "expirationTime": stamp,
            **({"error": {"code": 3, "message": "unreadable image"}} if state == "FAILED" else {}),
        }


def references(value: Any) -> list[str]:
    """Return the uploaded files that a request of any protocol names."""
    if isinstance(value, dict):
        return [
            name
            for key, member in value.items()
            for name in ([member] if key in ("file_id", "fileUri") else references(member))
        ]
    return [name for member in value for name in references(member)] if isinstance(value, list) else []
