"""Files APIs: images and videos above a service's inline limit are uploaded once per digest, and requests name the uploaded file.

A body is written with an empty place for each such image (`request.PendingFile`); `ImageFiles.place` uploads what is not
there yet and fills the places. What was uploaded is remembered in uploads.jsonl of the run's folder, with its expiry.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.errors import AuthError, BadReplyError, BadRequestError, InputError, ModelError, ModelTimeoutError
from snellen.models.api.batches.replies import check_id, decoded, moment
from snellen.models.api.endpoint import Endpoint
from snellen.models.api.errors import error_object, excerpt
from snellen.models.api.request import Body
from snellen.models.api.services import Service
from snellen.models.api.uploads import FILE_NAME, FileContent, upload_form, upload_resumable

if TYPE_CHECKING:  # aiohttp takes 0.1 s to import, which a run without uploads does not need
    from snellen.media.encode import Encoded
    from snellen.models.api.batches.transport import BatchTransport

REGISTER = "uploads.jsonl"
LARGEST_REGISTER = 64 << 20
"""Bytes of a register that is read; a larger one is of no use, and its files are uploaded again."""
VALID_S = 900.0
"""Seconds that a file has to live on for an ordinary request."""
BATCH_VALID_S = 26 * 3600.0
"""Seconds that a file has to live on for a row of a batch, which may be answered a day later."""
FRESH = 0.8
"""Share of its life that a file has to have left, where the whole of it is shorter than a request needs."""
READY_S = 600.0
"""Seconds within which a service has processed a file."""
FIRST_LOOK_S, LONGEST_LOOK_S = 0.5, 10.0
_DIGEST = re.compile(r"[0-9a-f]{64}")
_LOST = re.compile(
    r"\bfiles?(?:_id)?\b.{0,80}?(?:not[ _]found|not exist|no such|expired|deleted|no longer|not available|permission)"
    r"|(?:not[ _]found|not exist|no such|expired|no longer|permission).{0,60}?\bfiles?\b",
    re.IGNORECASE | re.DOTALL,
)


class UploadedFile(Struct, frozen=True, omit_defaults=True):
    """One line of the register.

    Attributes:
        digest: SHA-256 of the file, in hex.
        place: address of the service.
        reference: what requests name: an id, or Gemini's URI; empty: the file is not there any more.
        at, expires_at: seconds since the epoch.
    """

    digest: str
    place: str
    reference: str = ""
    at: float = 0.0
    expires_at: float = 0.0


class ImageFiles:
    """Uploads of one model to the files API of its service. Nothing is sent before the first image.

    Args:
        row: the service's data.
        endpoint: its address, with the version.
        transport: opens connections to the service.
        clock: returns seconds since the epoch.
    """

    def __init__(
        self,
        row: Service,
        endpoint: Endpoint,
        transport: Callable[[], BatchTransport],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._row, self._endpoint, self._open, self._clock = row, endpoint, transport, clock
        self._transport: BatchTransport | None = None
        self._files: dict[str, UploadedFile] = {}
        self._renewed: set[str] = set()
        self._refusals: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._registers: list[Path] = []

    def attach(self, folder: Path) -> None:
        """Take a run's folder: what its register knows is not uploaded again, and what is uploaded is added to it."""
        path = folder / REGISTER
        if path not in self._registers:
            self._registers.append(path)
            self._files.update((file.digest, file) for file in _read_register(path, self._usable))

    def _usable(self, file: UploadedFile) -> bool:
        """Return True for a line about this service whose reference can stand in a request."""
        if file.place != str(self._endpoint) or _DIGEST.fullmatch(file.digest) is None:
            return False
        try:
            return not file.reference or bool(self._checked(file.reference))
        except BadReplyError:
            return False

    async def place(self, body: Body, valid_s: float = VALID_S) -> Body:
        """Return a body whose images above the inline limit are named by their uploaded files.

        Args:
            body: as its writer has written it.
            valid_s: seconds that the files have to live on.

        Raises:
            ModelError: an image could not be uploaded.
        """
        if not body.files:
            return body
        pieces = list(body.pieces)
        for file in body.files:
            pieces[file.place] = (await self._reference(file.encoded, valid_s)).encode()
        return body._replace(pieces=tuple(pieces))

    async def _reference(self, encoded: Encoded, valid_s: float) -> str:
        digest = encoded.digest
        if (reference := self._known(digest, valid_s)) is not None:
            return reference
        async with self._locks.setdefault(digest, asyncio.Lock()):  # requests that share an image wait for one upload
            if (reference := self._known(digest, valid_s)) is not None:
                return reference
            if (refusal := self._refusals.get(digest)) is not None:
                raise BadRequestError(refusal)
            if encoded.size > self._row.image_file_bytes:
                raise InputError(
                    f"The file has {encoded.size:,} bytes; {self._row.title} takes uploads of {self._row.image_file_bytes:,} at most.",
                    "Send smaller images: --max-long-side PIXELS or --max-pixels NUMBER.",
                )
            try:
                file = await self._upload(encoded)
            except BadRequestError as error:
                self._refusals[digest] = f"{self._row.title} did not take the image as a file: {error.message}"
                raise BadRequestError(self._refusals[digest], error.hint) from error
            self._record(file)
            return file.reference

    def _known(self, digest: str, valid_s: float) -> str | None:
        file = self._files.get(digest)
        if file is None or not file.reference:
            return None
        # A service whose files never live that long is not sent each of them again and again.
        least_s = min(valid_s, FRESH * (file.expires_at - file.at))
        return file.reference if file.expires_at - self._clock() >= least_s else None

    async def _upload(self, encoded: Encoded) -> UploadedFile:
        self._transport = transport = self._transport or self._open()
        row, digest = self._row, encoded.digest
        content = FileContent(f"{digest[:32]}.{encoded.mime.rpartition('/')[2]}", encoded.mime, encoded.data)
        started = self._clock()
        if row.image_upload == "resumable":
            file = await self._ready(await upload_resumable(transport, self._endpoint, row.files_path, content))
            reference, expires_at = self._checked(file.get("uri")), moment(file.get("expirationTime"))
        else:
            fields = {
                name: value.format(seconds=row.image_file_seconds) for name, value in row.image_file_fields.items()
            }
            url = self._endpoint.url(row.files_path)
            file = await upload_form(transport, url, content, fields, row.image_file_headers)
            reference, expires_at = self._checked(file.get("id")), moment(file.get("expires_at"))
        latest = started + row.image_file_seconds
        return UploadedFile(digest, str(self._endpoint), reference, started, min(expires_at or latest, latest))

    async def _ready(self, file: dict[str, Any]) -> dict[str, Any]:
        """Wait until a file has the state ACTIVE; a service that names no state has none. Raises ModelError."""
        assert self._transport is not None  # noqa: S101 - it has just uploaded the file
        began, wait_s = time.monotonic(), FIRST_LOOK_S
        while (state := file.get("state", "ACTIVE")) != "ACTIVE":
            if state == "FAILED":
                error = file.get("error")
                words = error_object(error)[0] if error else "it gives no reason"
                raise BadRequestError(f"The service could not process the file: {words}")
            if time.monotonic() - began > READY_S:
                named = excerpt(str(state).encode("utf-8", "replace"), 40)
                raise ModelTimeoutError(f"The file is not ready {READY_S:g} s after its upload; its state is {named}.")
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 1.5, LONGEST_LOOK_S)
            name = file.get("name")
            if not isinstance(name, str) or FILE_NAME.fullmatch(name) is None:
                raise BadReplyError("The service named no usable id for the uploaded file.")
            file = decoded((await self._transport.call("GET", self._endpoint.url(f"/{name}"))).body)
        return file

    def _checked(self, reference: Any) -> str:
        """Return an id, or a URI at the service, that can stand in a request. Raises BadReplyError."""
        if self._row.image_upload != "resumable":
            return check_id(reference, "the uploaded file")
        if isinstance(reference, str) and len(reference) <= 500:
            try:
                split = urlsplit(reference)
                hosts = (self._endpoint.host, urlsplit(self._row.base_url).hostname)
                name = "/".join(split.path.rsplit("/", 2)[-2:])
                plain = re.fullmatch(r"https?://[A-Za-z0-9_.:/\[\]-]+", reference) is not None
                if plain and split.hostname in hosts and FILE_NAME.fullmatch(name) is not None:
                    return reference
            except ValueError:
                pass
        named = excerpt(str(reference).encode("utf-8", "replace"), 60)
        raise BadReplyError(f"The service named no usable address for the uploaded file: {named or 'nothing'}")

    def renew(self, error: ModelError, digests: Iterable[str], references: Sequence[str] = ()) -> bool:
        """Return True if a request failed because the service has lost a file, and asking again uploads it anew.

        Each file is uploaded anew once; a service that refuses the second one too is believed.

        Args:
            error: the service's refusal.
            digests: of the files that the request named.
            references: by which it named them, in the same order; empty: as they are known now.
        """
        digests = list(digests)
        named = dict(zip(digests, references, strict=True)) if references else {}
        if not digests or not isinstance(error, BadRequestError | AuthError):
            return False
        whole = error.message.startswith("HTTP 404:") or _LOST.search(error.message) is not None
        named_digests = [digest for digest in digests if (name := self._name(digest, named)) and name in error.message]
        if not whole and not named_digests:
            return False
        again = False
        for digest in named_digests or digests:
            file = self._files.get(digest)
            if file is None or not file.reference:
                again = again or digest in self._renewed
            elif named and file.reference != named[digest]:
                again = True  # another request has uploaded it anew meanwhile
            elif digest not in self._renewed:
                self._renewed.add(digest)
                self._record(UploadedFile(digest, file.place))
                again = True
        return again

    def _name(self, digest: str, named: dict[str, str]) -> str:
        """Return the part of a reference by which a service names the file in a message."""
        file = self._files.get(digest)
        reference = named.get(digest) or (file.reference if file is not None else "")
        return reference.rpartition("/")[2]

    def _record(self, file: UploadedFile) -> None:
        self._files[file.digest] = file
        line = msgspec.json.encode(file) + b"\n"
        for path in self._registers:
            _append(path, line)

    async def close(self) -> None:
        """Close the connections; a later upload opens new ones."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()


def merge_registers(folders: Iterable[Path], out: Path) -> None:
    """Write the register of a merged run: of each file the upload that lives longest, and none that a run has lost.

    The result depends on the lines alone, not on the order of the folders. Raises OSError.
    """
    uploads: dict[tuple[str, str], list[UploadedFile]] = {}
    lost: set[tuple[str, str, str]] = set()
    for folder in folders:
        last: dict[tuple[str, str], str] = {}
        for file in _read_register(folder / REGISTER, lambda file: _DIGEST.fullmatch(file.digest) is not None):
            name = (file.digest, file.place)
            if file.reference:
                uploads.setdefault(name, []).append(file)
            elif name in last:
                lost.add((*name, last[name]))
            last[name] = file.reference
    kept = [
        max(living, key=lambda file: (file.expires_at, file.at, file.reference))
        for name, files in sorted(uploads.items())
        if (living := [file for file in files if (*name, file.reference) not in lost])
    ]
    if kept or (out / REGISTER).exists():
        with replacing(out / REGISTER) as part:
            part.write_bytes(b"".join(msgspec.json.encode(file) + b"\n" for file in kept))


def _append(path: Path, line: bytes) -> None:
    """Append a line; a register that cannot be written costs a further upload, and no answer."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            size = os.fstat(fd).st_size
            # A line that a kill has torn ends here, so that it takes none with it.
            is_cut_off = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
            os.write(fd, b"\n" + line if is_cut_off else line)
        finally:
            os.close(fd)
    except OSError:
        return


def _read_register(path: Path, usable: Callable[[UploadedFile], bool]) -> list[UploadedFile]:
    """Return the usable lines of a register; those that are no lines of one are passed over."""
    try:
        if path.stat().st_size > LARGEST_REGISTER:
            return []
        data = path.read_bytes()
    except OSError:
        return []
    files = []
    for line in data.splitlines():
        try:
            file = msgspec.json.decode(line, type=UploadedFile)
        except (ValueError, RecursionError):
            continue
        if usable(file):
            files.append(file)
    return files
