"""Answers kept across runs (`--cache`): a request that was answered before is not sent again.

An entry is named by everything that can change its answer: SHA-256 over the service, its address and headers, the exact
request body with each image by its digest, and the number of the repeat. So an answer never serves another model, provider,
prompt, picture or setting. An entry is one file. It appears whole or not at all, the first writer wins, and any number of
processes may use the folder at once. A file that was changed is named and counts as no entry.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct, structs

from snellen.engine.questions import Ask, Outcome, Question
from snellen.engine.retry import recorded_response
from snellen.errors import ModelError, StorageError, UsageError
from snellen.event_loop import off_loop
from snellen.models.base import Model
from snellen.sources import cache_folder
from snellen.text import one_line
from snellen.types import Record, Response, Sample, Usage

FORM = 1
"""To be raised whenever the same request is written otherwise, or an entry has another form."""
BUDGET_BYTES = 1 << 30
"""Of all entries; the least recently used are removed at the end of a run that exceeds it."""
ENTRY_BYTES = 8 << 20
"""Longer files are no entries."""
NAMED = 5
"""Files of a run that are named in warnings; of others only the number."""
_LEFTOVER_S = 86_400.0
_READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class _CacheEntry(Struct, frozen=True, forbid_unknown_fields=True):
    """One file: the name it must have, the digest of the response, and the response as JSON."""

    form: int
    key: str
    digest: str
    response: msgspec.Raw


class CacheLookup(NamedTuple):
    """Name of a request in the cache, empty if it must not be cached, and the record of an answer that was there."""

    key: str
    record: Record | None = None


class AnswerCache:
    """A folder of answers, opened for one run.

    Args:
        folder: made on demand, for this user only.
        model: writes the requests.
        budget_bytes: of all entries.

    Attributes:
        hits: requests that were answered from the folder.

    Raises:
        UsageError: the model's requests are not all that decides its answers.
        StorageError: the folder cannot be made or written.
    """

    def __init__(self, folder: Path, model: Model, budget_bytes: int = BUDGET_BYTES) -> None:
        require_cacheable(model)
        self.folder, self._model, self._budget = folder, model, budget_bytes
        self.hits = 0
        self._failed = 0
        self._refused: set[Path] = set()
        self._reason = ""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = folder / f".{os.getpid()}.{secrets.token_hex(4)}.part"
            probe.touch(mode=0o600, exist_ok=False)
            probe.unlink()
        except OSError as error:
            raise StorageError(
                f"--cache {folder} cannot be written: {error.strerror}", "Name another folder, or omit --cache."
            ) from error

    async def look_up(self, sample: Sample, repeat: int) -> CacheLookup:
        """Return the name of a sample's request, and its answer if there is one."""
        try:
            request = await self._model.request_identity(sample.prompt)
        except ModelError:  # an image that cannot be read: sending the question reports it
            return CacheLookup("")
        if request is None:
            return CacheLookup("")
        head = msgspec.json.encode([FORM, repeat])
        key = await off_loop(len(request), lambda: sha256(head + request).hexdigest())
        response = self._read(key)
        if response is None:
            return CacheLookup(key)
        self.hits += 1
        now = time.time()
        return CacheLookup(key, Record(sample.id, "ok", repeat, response, None, 0, now, now))

    def store(self, key: str, record: Record) -> None:
        """Keep an answer under the name of its request. Failures, refusals and empty replies are not kept."""
        if not key or record.status != "ok" or record.response is None or record.response.empty:
            return
        response = msgspec.json.encode(structs.replace(record.response, trace=None))
        entry = _CacheEntry(FORM, key, sha256(response).hexdigest(), msgspec.Raw(response))
        content = msgspec.json.encode(entry)
        if len(content) > ENTRY_BYTES:
            return
        path = self._path(key)
        part = path.with_name(f".{key}.{os.getpid()}.{secrets.token_hex(4)}.part")
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            _require_own_folder(path)
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            try:
                os.link(part, path)  # of several first writers at once a single answer stays
            except FileExistsError:
                if self._read(key) is None:
                    part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        except OSError as error:
            self._failed += 1
            self._reason = self._reason or str(error.strerror)
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)

    def close(self) -> None:
        """Say what could not be kept or read, and remove the least recently used entries beyond the budget."""
        if self._failed:
            answers = "1 answer" if self._failed == 1 else f"{self._failed:,} answers"
            _warn(f"--cache {self.folder}: {answers} could not be kept: {self._reason}")
        if (more := len(self._refused) - NAMED) > 0:
            _warn(
                f"--cache {self.folder}: {more:,} more changed {'entry was' if more == 1 else 'entries were'} not used"
            )
        self._trim()

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Response | None:
        path = self._path(key)
        try:
            _require_own_folder(path)
            content = _read_regular(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # a link, a folder, or a file of another user
            self._refuse(path, error.strerror or str(error))
            return None
        try:
            entry = msgspec.json.decode(content, type=_CacheEntry)
            raw = bytes(entry.response)
            if (entry.form, entry.key) != (FORM, key) or sha256(raw).hexdigest() != entry.digest:
                raise ValueError("its content is not what was written")
            response = msgspec.json.decode(raw, type=Response)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self._refuse(path, str(error))
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the least recently used go first
        # Nothing was sent: no tokens, no cost, no time. What stands in a file is as untrusted as a server's words.
        response = structs.replace(
            response, usage=Usage(cost=0.0), latency_s=0.0, first_token_s=0.0, trace=None, cached_answer=key[:16]
        )
        return recorded_response(response)

    def _refuse(self, path: Path, reason: str) -> None:
        if path in self._refused:  # once when it was looked up; writing looks at it again
            return
        self._refused.add(path)
        if len(self._refused) <= NAMED:
            _warn(f"the cached answer {path} is not used: {one_line(reason)[:200]}")

    def _trim(self) -> None:
        files: list[tuple[float, int, Path]] = []
        now = time.time()
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(OSError):  # gone meanwhile
                _require_own_folder(path)
                status = path.lstat()
                if path.name.endswith(".part"):
                    if now - status.st_mtime > _LEFTOVER_S:
                        path.unlink()
                elif path.name.endswith(".json"):
                    files.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in files)
        if total <= self._budget:
            return
        for _, size, path in sorted(files):
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            if total <= self._budget * 9 // 10:
                return


def cached(ask: Ask, cache: AnswerCache) -> Ask:
    """Return a layer that answers from a cache what was asked before; the answer to the rest has the key to keep it by.

    What failed in this run is not looked up again.
    """

    async def asked(question: Question) -> Outcome | None:
        if question.failure is not None:
            return await ask(question)
        found = await cache.look_up(question.sample, question.repeat)
        if found.record is not None:
            return Outcome(found.record)
        outcome = await ask(question)
        return outcome if outcome is None else outcome._replace(cache_key=found.key)

    return asked


def require_cacheable(model: Model, *, by_batches: bool = False) -> None:
    """Raise UsageError for a model whose requests are not all that decides its answers, and for batches."""
    if by_batches:
        raise UsageError("--cache and --batch exclude each other: batches keep no answers", "Omit one of them.")
    if type(model).request_identity is Model.request_identity:
        raise UsageError(
            f"--cache cannot keep the answers of {model.name}: it is for models behind an API, without tools or agents",
            "Omit --cache.",
        )


def open_cache(folder: str | None, model: Model) -> AnswerCache | None:
    """Return the cache of `--cache`; None without the option.

    Args:
        folder: `auto` for the folder `answers` of Snellen's cache; None: no cache.
        model: whose answers are kept.

    Raises:
        UsageError, StorageError: as for AnswerCache.
    """
    if folder is None:
        return None
    return AnswerCache(cache_folder() / "answers" if folder == AUTO else Path(folder), model)


AUTO = "auto"
"""Value of `--cache` without a folder."""


def _require_own_folder(path: Path) -> None:
    """Raise OSError for an entry behind a link: whoever made the link must not choose files to be written or removed."""
    if path.parent.is_symlink():
        raise OSError(errno.ELOOP, "its folder is a link")


def _read_regular(path: Path) -> bytes:
    """Read at most the bytes of an entry; raise OSError for what is no regular file."""
    handle = os.open(path, _READ_FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is no regular file")
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(ENTRY_BYTES + 1)
    finally:
        os.close(handle)


def _warn(text: str) -> None:
    print(f"snellen: warning: {text}", file=sys.stderr)
