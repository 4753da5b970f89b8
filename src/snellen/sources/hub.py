"""Data sets and models from the Hugging Face hub, by its own client, at a recorded revision.

The client's own settings apply: HF_TOKEN (or the token of `hf auth login`), HF_ENDPOINT for a mirror, HF_HOME and
HF_HUB_CACHE for the cache's folder, HF_HUB_OFFLINE=1 for the cache alone. A branch or tag is resolved to a commit
before anything is fetched. If the hub is unreachable, an older cached copy is used in offline mode only.

Pointers that Git LFS leaves in place of files that were not fetched.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from msgspec import Struct

from snellen.atomic_write import replacing
from snellen.errors import DataError
from snellen.redaction import register, register_proxies
from snellen.sources.blobs import stream
from snellen.sources.safe_paths import member_name
from snellen.sources.tree import FolderTree
from snellen.text import GIT_LFS_START
from snellen.types import Blob

POINTER_BYTES = 1024
_SIZE = re.compile(rb"^size (\d{1,18})\s*$", re.MULTILINE)


class LfsPointer(Struct, frozen=True):
    """A pointer; `size` is that of the file in bytes, 0 where it is not stated."""

    size: int

    @property
    def size_text(self) -> str:
        return f"{self.size:,} bytes" if self.size else "its contents"


def pointer_of(data: bytes) -> LfsPointer | None:
    """Return the pointer that the first bytes of a file are; None for other contents.

    >>> pointer_of(b"version https://git-lfs.github.com/spec/v1\\noid sha256:ab\\nsize 352552282\\n").size
    352552282
    """
    if not data.startswith(GIT_LFS_START):
        return None
    size = _SIZE.search(data[:POINTER_BYTES])
    return LfsPointer(int(size[1]) if size else 0)


def pointer_in(blob: Blob) -> LfsPointer | None:
    """Return the pointer in a file's place. Raises DataError where the file cannot be read."""
    with stream(blob) as start:
        return pointer_of(start.read(POINTER_BYTES))


def fetch_hint(path: Path | None) -> str:
    """Return the command that fetches a file: for its own repository, where it lies in one."""
    if path is not None:
        full = path.absolute()
        root = next((folder for folder in full.parents if (folder / ".git").exists()), None)
        if root is not None:
            inner = shlex.quote(full.relative_to(root).as_posix())
            return f"Fetch it: git -C {shlex.quote(str(root))} lfs pull --include {inner}"
        return f"Fetch it in its repository: git lfs pull --include {shlex.quote('**/' + full.name)}"
    return "Fetch it in its repository: git lfs pull"


HUB = "hf:"
RepoKind: TypeAlias = Literal["dataset", "model"]
T = TypeVar("T")
_HTTP = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3")
_OFFLINE_HINT = "Unset HF_HUB_OFFLINE, or fetch it on a machine with a network and copy the cache."
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Snapshot(Struct, frozen=True):
    """The files of a repository at one commit.

    Attributes:
        repo: `owner/name`.
        revision: the commit, 40 hexadecimal digits, for a run's record.
        path: the folder of the files.
    """

    repo: str
    revision: str
    path: Path

    def tree(self) -> FolderTree:
        """Open the files as a tree."""
        return FolderTree(self.path)


def locate(path: Path | str, patterns: Sequence[str] | None = None) -> Path:
    """Return the path of data: `hf:owner/name` or `hf:owner/name@revision` is fetched from the hub, anything else is a
    path.

    Args:
        path: as the user gives it. `Path("hf:owner/name")` is accepted too.
        patterns: the files of a data set to fetch, as in `download`; not used for paths.

    Returns:
        The snapshot's folder, whose name is the commit; or the path itself, which need not exist.

    Raises:
        DataError: as `download`.
    """
    text = str(path)
    if not text.startswith(HUB):
        return Path(path)
    repo, at, revision = text[len(HUB) :].partition("@")
    if not repo or (at and not revision):
        raise DataError(f"{text}: hf:owner/name or hf:owner/name@revision was expected", "Complete the name.")
    return download(repo, revision=revision or None, patterns=patterns).path


def with_commit(name: str) -> str:
    """Return `hf:owner/name` or `hf:owner/name@revision` with the commit that it stands for now.

    Raises:
        DataError: as `download`.
    """
    repo, _, revision = name[len(HUB) :].partition("@")
    return f"{HUB}{repo}@{_commit(repo, revision or None, 'dataset', None)}"


def download(
    repo: str,
    *,
    revision: str | None = None,
    patterns: Sequence[str] | None = None,
    kind: RepoKind = "dataset",
    cache: Path | None = None,
) -> Snapshot:
    """Fetch a repository, or the files of it that match `patterns` (`*.jsonl`, `images/*`), unless they are cached.

    Args:
        repo: `owner/name`.
        revision: branch, tag or commit; None: the default branch as it is now.
        patterns: shell-style patterns of file names; None: everything.
        kind: dataset or model.
        cache: where files go; None: the client's own cache.

    Raises:
        DataError: not found, gated or private, no such revision, no file matches, or not reachable; with what to do.
    """
    from huggingface_hub import snapshot_download

    commit = _commit(repo, revision, kind, cache)
    path = Path(
        _asked(
            repo,
            kind,
            lambda: snapshot_download(
                repo,
                repo_type=kind,
                revision=commit,
                allow_patterns=list(patterns) if patterns is not None else None,
                cache_dir=cache,
                endpoint=_endpoint(),
                local_files_only=_offline(),
            ),
        )
    )
    snapshot = Snapshot(repo, path.name, path)
    if patterns is not None and not (path.is_dir() and any(path.rglob("*"))):
        raise DataError(f"{kind} {repo} at {path.name}: no file matches {', '.join(patterns)}", "Check the patterns.")
    return snapshot


def download_file(
    repo: str,
    name: str,
    *,
    revision: str | None = None,
    kind: RepoKind = "dataset",
    cache: Path | None = None,
) -> tuple[Path, str]:
    """Fetch one file of a repository, unless it is cached.

    Returns:
        Its path, and the commit that it was taken from.

    Raises:
        DataError: as `download`; also for a file that is not there.
    """
    from huggingface_hub import hf_hub_download

    member_name(name, f"{kind} {repo}")
    commit = _commit(repo, revision, kind, cache)
    path = _asked(
        repo,
        kind,
        lambda: hf_hub_download(
            repo,
            name,
            repo_type=kind,
            revision=commit,
            cache_dir=cache,
            endpoint=_endpoint(),
            local_files_only=_offline(),
        ),
    )
    return Path(path), commit


def is_hub_file(text: str) -> bool:
    """Return True for `hf:owner/name/FILE`, a file of a data set."""
    return text.startswith(HUB) and text.partition("@")[0].count("/") > 1 and "." in text.rpartition("/")[2]


def hub_file(address: str) -> Path:
    """Return the file `hf:owner/name/FILE` or `hf:owner/name/FILE@revision`, fetched unless it is cached.

    Raises:
        DataError: there is none, or offline none is cached.
    """
    place, _, revision = address.removeprefix(HUB).partition("@")
    owner, name, file = place.split("/", 2)
    path = find_file(f"{owner}/{name}", file, revision or None)
    if path is None:
        raise DataError(f"{address}: there is no such file, or offline none is cached", "Check the name.")
    return path


def find_file(repo: str, name: str, revision: str | None = None) -> Path | None:
    """Fetch one file of a data set, unless it is cached; return None where the data set has none, or offline where none is cached.

    Raises:
        DataError: as `download`.
    """
    from huggingface_hub import _CACHED_NO_EXIST, errors, hf_hub_download, try_to_load_from_cache

    try:
        commit = _commit(repo, revision, "dataset", None)
    except DataError:
        if _offline():
            return None  # whatever reads the data set next says that it is not cached
        raise
    cached = try_to_load_from_cache(repo, name, revision=commit, repo_type="dataset")
    if cached is not None or _offline():
        return Path(cached) if isinstance(cached, str) and cached is not _CACHED_NO_EXIST else None

    def ask() -> str | None:
        try:
            return hf_hub_download(repo, name, repo_type="dataset", revision=commit, endpoint=_endpoint())
        except errors.RemoteEntryNotFoundError:
            return None

    path = _asked(repo, "dataset", ask)
    return None if path is None else Path(path)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _offline() -> bool:
    from huggingface_hub import constants

    return constants.is_offline_mode() or os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def _commit(repo: str, revision: str | None, kind: RepoKind, cache: Path | None) -> str:
    """Return the commit of a branch or tag: from the hub, or from the cache when offline."""
    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    if _offline():
        from huggingface_hub import constants

        name = revision or "main"
        member_name(name, f"{kind} {repo}")
        folder = Path(cache or constants.HF_HUB_CACHE) / f"{kind}s--{repo.replace('/', '--')}"
        try:
            return (folder / "refs" / name).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"{kind} {repo}, revision {name}: not cached, and offline mode is on",
                _OFFLINE_HINT,
            ) from error
    from huggingface_hub import HfApi

    api = HfApi(endpoint=_endpoint())
    info = _asked(repo, kind, lambda: api.repo_info(repo, repo_type=kind, revision=revision))
    if not info.sha:
        raise DataError(f"{kind} {repo}: the hub has no commit for {revision or 'main'}", "Pass a commit as revision.")
    _note_ref(repo, revision or "main", info.sha, kind, cache)
    return info.sha


def _note_ref(repo: str, name: str, commit: str, kind: RepoKind, cache: Path | None) -> None:
    """Record the commit of a name in the client's cache, so that offline mode finds the same commit."""
    from huggingface_hub import constants

    member_name(name, f"{kind} {repo}")
    note = Path(cache or constants.HF_HUB_CACHE) / f"{kind}s--{repo.replace('/', '--')}" / "refs" / name
    note.parent.mkdir(parents=True, exist_ok=True)
    with replacing(note) as part:
        part.write_text(commit, encoding="ascii")


def _asked(repo: str, kind: RepoKind, ask: Callable[[], T]) -> T:
    """Call the client; convert its errors to DataError with a remedy. A hub may echo the token, and a proxy its
    password.
    """
    from huggingface_hub import errors, get_token

    register(get_token() or "")
    register_proxies(os.environ)
    subject = f"{kind} {repo}"
    remedies = (
        (
            errors.GatedRepoError,
            "it is gated, and this account has no access",
            "Accept the terms on its page, then set HF_TOKEN or run `hf auth login`.",
        ),
        (
            errors.RepositoryNotFoundError,
            "not found on the hub, or private",
            "Check the name; for a private one set HF_TOKEN or run `hf auth login`.",
        ),
        (errors.RevisionNotFoundError, "no such revision", "Pass a branch, tag or commit of the repository."),
        (errors.RemoteEntryNotFoundError, "no such file", "Check the name against the repository's file list."),
    )
    try:
        return ask()
    except errors.HFValidationError as error:
        raise DataError(f"{subject}: not a repository name: {error}", "Names look like owner/name.") from error
    except Exception as error:
        for fault, problem, hint in remedies:
            if isinstance(error, fault):
                raise DataError(f"{subject}: {problem}", hint) from error
        if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled) and _offline():
            raise DataError(f"{subject}: not completely cached, and offline mode is on", _OFFLINE_HINT) from error
        status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None
        if status in (401, 403):
            raise DataError(
                f"{subject}: the hub answered {status}: this account has no access",
                "Set HF_TOKEN to a token with access, or run `hf auth login`.",
            ) from error
        # The client's HTTP library changes from version to version, and its errors with it.
        library = type(error).__module__.split(".")[0]
        if isinstance(error, OSError) or library in _HTTP:
            raise _unreachable(subject, error) from error
        raise


def _unreachable(subject: str, error: Exception) -> DataError:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return DataError(
        f"{subject}: could not be fetched: {lines[0]}",
        "Check the network and HF_ENDPOINT and try again, or set HF_HUB_OFFLINE=1 to use cached files.",
    )
