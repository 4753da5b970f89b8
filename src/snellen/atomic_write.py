"""Atomic writes: a file appears complete or not at all, and leftovers of a killed process are removed.

A file is written under the name `NAME.part` and moved over NAME at the end. A killed process leaves its part; the next
write of the same file takes it over. A killed process's folder of parts is removed by the next one in the same place.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import filelock

from snellen.errors import StorageError

SUFFIX = ".part"
_LOCK = ".lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file beside `path` to write to; move it over `path` at the end, or remove it if anything is raised.

    Of two processes that write the same file, the second waits for the first.

    Raises:
        OSError: the file cannot be written.
    """
    part = path.with_name(path.name + SUFFIX)
    handle = _locked(part)
    try:
        yield part
        part.replace(path)
    except BaseException:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            part.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def write_whole(path: Path, text: str, hint: str) -> Path:
    """Write a text file and the folders above it, whole or not at all; return its path. Raises StorageError with the hint."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part:
            part.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}", hint) from error
    return path


def _locked(part: Path) -> int:
    """Open `part` as an empty regular file that has no second name, and lock it."""
    while True:
        try:
            handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            try:
                if not _is_own(part.lstat()):
                    part.unlink(missing_ok=True)  # a link or a pipe: what it leads to is left alone
                    continue
                handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:  # another process has just finished it
                continue
        try:
            _wait_for_lock(handle)
            with suppress(FileNotFoundError):
                opened, current = os.fstat(handle), part.lstat()
                if _is_own(current) and (opened.st_dev, opened.st_ino) == (current.st_dev, current.st_ino):
                    os.ftruncate(handle, 0)
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _wait_for_lock(handle: int) -> None:
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
    except ImportError:  # no such locks on this system
        return
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def _is_own(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


@contextmanager
def part_folder(parent: Path, prefix: str = ".part-") -> Iterator[Path]:
    """Yield a new folder in `parent`, removed at the end; what killed processes left under this prefix is removed first.

    Its first entry is a lock; write into a folder of its own below it what is to be moved away as a whole.

    Raises:
        OSError: the folder cannot be made.
    """
    for abandoned in parent.glob(f"{prefix}*"):
        _remove_unused(abandoned)
    root, lock = _locked_folder(parent, prefix)
    try:
        yield root
    finally:
        _remove(root)
        lock.release()


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, filelock.BaseFileLock]:
    """Make a folder with a lock that is held; again where another process removed it before the lock was held."""
    while True:
        root = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = filelock.FileLock(root / _LOCK, thread_local=False)
        try:
            lock.acquire()
        except OSError:
            if root.exists():
                raise
            continue
        if (root / _LOCK).exists():
            root.chmod(0o700)  # removed while it was empty, it was made again by the lock, for all to read
            return root, lock
        lock.release()


def _remove_unused(root: Path) -> None:
    if root.is_symlink() or (root / _LOCK).is_symlink():
        return
    if not (root / _LOCK).is_file():
        with suppress(OSError):  # killed before it had its lock; a folder with content is another program's
            root.rmdir()
        return
    lock = filelock.FileLock(root / _LOCK)
    with suppress(filelock.Timeout, OSError):  # a process works in it, or it is another user's
        lock.acquire(timeout=0)
        # Removed under the lock: a process that made the folder just now waits for it, and then finds it gone.
        _remove(root)
        lock.release()


def _remove(root: Path) -> None:
    """Remove a folder of parts, its lock last: what a kill leaves of it is then known as such by the next process."""
    with suppress(OSError):
        for entry in root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != _LOCK:
                entry.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
