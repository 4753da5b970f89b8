"""Files of named arrays as columns: .npz, .npy, .pt and .pth, .safetensors, HDF5.

Features are mapped or read in blocks. Nothing here runs code of a
file: a pickle that holds more than tensors, numbers, texts and their containers is refused.
"""

from __future__ import annotations

import math
import pickle  # nosec: for the name of an error
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from snellen.errors import DataError, MissingExtraError
from snellen.features.store.columns import FileColumns, LazyRows, Request, Rows, named_columns, streamed_rows
from snellen.installation import install_hint
from snellen.sources.tree import check_unpacked
from snellen.sources.zip_archive import LIMITS, check_header, check_npz

DAMAGED = "The file is damaged; fetch it again."
TORCH_HINT = (
    "A pickle can run code and is opened for tensors only. Save a dict of tensors and lists: "
    "torch.save({'features': x, 'labels': y}, FILE)."
)
MAX_DATASETS = 10_000
UNPACKED_BYTES = 2 << 20
"""Bytes of an archive's matrix that are unpacked at once."""
TEXTS_TIMEOUT_S = 60.0
HDF5_TEXTS = """
import json, sys, h5py
with h5py.File(sys.argv[1], "r") as file:
    json.dump(file[sys.argv[2]].asstr()[...].tolist(), sys.stdout)
"""


def read_npz(request: Request) -> FileColumns:
    """Return the columns of an .npz; features are read in blocks."""
    file = request.file
    try:
        with file.open("rb") as beginning:
            if beginning.read(2) != b"PK" and beginning.seek(0) == 0 and beginning.read(6) != b"\x93NUMPY":
                raise DataError(
                    f"{file} is no .npz file: it does not begin as one", "Save the arrays with numpy.savez."
                )
        if zipfile.is_zipfile(file):
            check_npz(file)
        archive = np.load(file, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{file} cannot be read as .npz: {error}", "Re-export it with numpy.savez.") from error
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise DataError(f"{file} is one array, not an archive of arrays", "Save it with numpy.savez.")

    def load(name: str, role: str) -> Rows:
        try:
            if (
                role == "features"
                and archive.zip is not None
                and (rows := _unpacked_rows(archive.zip, f"{name}.npy", f"{file}: {name!r}")) is not None
            ):
                return rows
            array: np.ndarray = archive[name]
        except ValueError as error:
            raise DataError(
                f"{file}: {name!r} is an array of Python objects, which only a pickle can hold: {error}",
                "A pickle can run code and is never opened. Save numbers or texts; labels of several classes as [rows, "
                "classes] of 0 and 1, or as texts such as '3 17'.",
            ) from error
        except (OSError, zipfile.BadZipFile, EOFError) as error:
            raise DataError(f"{file}: {name!r} cannot be read: {error}", DAMAGED) from error
        return array

    request.opened.enter_context(archive)
    return request.columns(list(archive.files), load)


def _unpacked_rows(archive: zipfile.ZipFile, member: str, where: str) -> LazyRows | None:
    """Return a matrix of an archive, unpacked a block at a time; None for an array that is read whole."""

    def opened() -> tuple[IO[bytes], tuple[int, ...], bool, np.dtype[Any]]:
        stream = archive.open(member)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        return stream, *read[np.lib.format.read_magic(stream)](stream)

    if member not in archive.namelist():
        return None
    shape, is_by_column, dtype = opened()[1:]
    if len(shape) != 2 or 0 in shape or is_by_column or dtype.kind not in "biuf":
        return None
    rows = max(1, UNPACKED_BYTES // (shape[1] * dtype.itemsize))

    def blocks() -> Iterator[np.ndarray]:
        stream = opened()[0]
        try:
            for start in range(0, shape[0], rows):
                count = min(rows, shape[0] - start)
                yield np.frombuffer(stream.read(count * shape[1] * dtype.itemsize), dtype).reshape(count, shape[1])
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
            raise DataError(f"{where} cannot be read: {error}", DAMAGED) from error

    return streamed_rows(shape, dtype, blocks)


def read_npy(request: Request) -> FileColumns:
    """Return the one array of an .npy, memory-mapped, as the one role that is needed."""
    file = request.file
    role = _one_role(request, "one array")
    try:
        with file.open("rb") as stream:
            check_header(stream, file.stat().st_size, str(file))
        array = np.load(file, mmap_mode="r" if role == "features" else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{file} cannot be read as .npy: {error}", "Save numbers or texts with numpy.save.") from error
    return named_columns({role: array})


def _one_role(request: Request, content: str) -> str:
    """Return the role of a file's only array, which has no name."""
    if len(request.needed) > 1:
        raise DataError(
            f"{request.file} holds {content} without a name; features and labels were expected",
            "Give the labels in a second file: --labels FILE, .npy or .csv.",
        )
    return request.needed[0]


def read_torch(request: Request) -> FileColumns:
    """Return the columns of a dict of tensors and lists that torch.save wrote; a single tensor is the one needed role."""
    file = request.file
    content = load_tensors(file, str(file))
    if not isinstance(content, dict):
        if not _is_tensor(content):
            raise DataError(f"{file} holds a {type(content).__name__}; a dict of tensors was expected", TORCH_HINT)
        role = _one_role(request, "one tensor")
        return named_columns({role: _as_array(content, f"{file}: its tensor", role)})
    values: dict[str, Any] = {}
    for name, value in content.items():
        inner = value.items() if isinstance(value, dict) else ()  # the dict of a split, as a group of HDF5
        values |= {f"{name}/{key}": part for key, part in inner} or {str(name): value}

    def load(name: str, role: str) -> Any:
        return _as_array(values[name], f"{file}: {name!r}", role)

    return request.columns(list(values), load)


def load_tensors(source: Path | IO[bytes], where: str) -> Any:
    """Load what torch.save wrote, tensors only; a file is memory-mapped where its format allows it.

    Raises:
        DataError: damaged, or it needs more than tensors, numbers, texts and containers.
        MissingExtraError: torch is not installed.
    """
    torch = _library("torch", "features", where)
    is_zip = isinstance(source, Path) and zipfile.is_zipfile(source)
    if isinstance(source, Path) and is_zip:
        check_npz(source, "a file of torch")
    try:
        return torch.load(source, map_location="cpu", weights_only=True, mmap=is_zip or None)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL \S+", str(error))
        reason = f"It names {named[0]}." if named else ""
        raise DataError(f"{where}: it needs more than tensors to open. {reason}".strip(), TORCH_HINT) from error
    except Exception as error:  # torch and its unpickler raise whatever a damaged file makes them stumble over
        raise DataError(
            f"{where} cannot be read: {str(error).splitlines()[0] if str(error) else error!r}", DAMAGED
        ) from error


def _is_tensor(value: Any) -> bool:
    return type(value).__module__.startswith("torch") and hasattr(value, "untyped_storage")


def _as_array(value: Any, where: str, role: str) -> Any:
    """Return a tensor as an array without copying it, or a list as an array; lists of lists stay lists."""
    if isinstance(value, list | tuple):
        items: list[Any] = [str(item) for item in value] if role in ("ids", "split", "class_names") else list(value)
        if all(isinstance(item, list | tuple) for item in items):
            return [[entry for entry in item if isinstance(entry, int | float | str)] for item in items]
        if all(isinstance(item, str | int | float) for item in items):
            return np.array(items)
        if all(map(_is_tensor, items)) and len({getattr(item, "shape", None) for item in items}) == 1:
            return np.stack([np.asarray(_as_array(item, where, role)) for item in items])
    if not _is_tensor(value):
        raise DataError(
            f"{where} is a {type(value).__name__}; a tensor, or a list of numbers, texts or tensors of one shape, was expected",
            TORCH_HINT,
        )
    tensor = value.detach()
    claimed = tensor.numel() * tensor.element_size()
    try:
        if claimed > tensor.untyped_storage().nbytes():
            raise DataError(
                f"{where}: its shape {list(tensor.shape)} claims {claimed:,} bytes and repeats fewer", DAMAGED
            )
        if not _needs_float(tensor):
            return tensor.numpy()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise DataError(f"{where} is no plain tensor: {error}", "Save dense tensors of numbers.") from error
    if tensor.ndim != 2:
        return tensor.float().numpy()
    return LazyRows(tensor.shape, np.float32, lambda start, stop: tensor[start:stop].float().numpy())


def _needs_float(tensor: Any) -> bool:
    """Return True for types that numpy lacks and float32 holds: bfloat16 and the 8-bit floats."""
    return tensor.dtype.is_floating_point and str(tensor.dtype) not in (
        "torch.float16",
        "torch.float32",
        "torch.float64",
    )


def read_safetensors(request: Request) -> FileColumns:
    """Return the columns of a .safetensors file; features are read in blocks."""
    file = request.file
    library = _library("safetensors", "features", str(file))
    _library("torch", "features", str(file))  # numpy has no bfloat16
    try:
        tensors = request.opened.enter_context(library.safe_open(file, framework="pt"))
        names = list(tensors.keys())
    except Exception as error:  # its own error class is compiled, and derives from Exception
        raise DataError(f"{file} cannot be read as .safetensors: {error}", DAMAGED) from error
    if len(names) == 1 and len(request.needed) == 1 and not request.roles(names):
        role = request.needed[0]
        return named_columns({role: _as_array(tensors.get_tensor(names[0]), f"{file}: {names[0]!r}", role)})

    def load(name: str, role: str) -> Any:
        part = tensors.get_slice(name)
        shape = part.get_shape()
        if role != "features" or len(shape) != 2 or 0 in shape:
            return _as_array(tensors.get_tensor(name), f"{file}: {name!r}", role)

        def read(start: int, stop: int) -> np.ndarray:
            block = part[start:stop]
            return np.asarray((block.float() if _needs_float(block) else block).numpy())

        return LazyRows(shape, read(0, 1).dtype, read)

    return request.columns(names, load)


def read_hdf5(request: Request) -> FileColumns:
    """Return the columns of an HDF5 file; features are read in blocks.

    Datasets that lie in other files, by external links, external storage or virtual datasets, are refused or not seen.
    """
    file = request.file
    library = _library("h5py", "hdf5", str(file))
    try:
        opened = request.opened.enter_context(library.File(file, "r"))
        datasets = dict(_datasets(opened, library.Dataset, file))
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{file} cannot be read as HDF5: {error}", DAMAGED) from error

    def load(name: str, role: str) -> Any:
        dataset, where = datasets[name], f"{file}: {name!r}"
        try:
            _check_dataset(dataset, where, file)
            texts = library.check_string_dtype(dataset.dtype) is not None
            if texts:
                return _hdf5_texts(file, name, where)
            if dataset.dtype.kind not in "biufS":
                raise DataError(f"{where} is of type {dataset.dtype}; numbers or texts were expected", "Save such.")
            if role != "features" or len(dataset.shape) != 2:
                return dataset[...]
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise DataError(f"{where} cannot be read: {error}", DAMAGED) from error
        return LazyRows(dataset.shape, dataset.dtype, _guarded(lambda start, stop: dataset[start:stop], where))

    return request.columns(list(datasets), load)


def _hdf5_texts(file: Path, name: str, where: str) -> np.ndarray:
    """Read texts in a process of its own: HDF5 does not return from the heap of texts of some damaged files."""
    command = [sys.executable, "-I", "-c", HDF5_TEXTS, str(file.absolute()), name]
    try:
        done = subprocess.run(command, capture_output=True, timeout=TEXTS_TIMEOUT_S, check=True)  # noqa: S603 - no shell
        return np.array(msgspec.json.decode(done.stdout), dtype=str)
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise DataError(f"{where} cannot be read as texts", DAMAGED) from error


def _datasets(group: Any, kind: type[Any], file: Path) -> Iterator[tuple[str, Any]]:
    """Yield the datasets of a file by their paths; links to other files are not followed."""
    found: list[tuple[str, Any]] = []

    def visit(name: str, entry: Any) -> bool | None:
        if isinstance(entry, kind) and isinstance(name, str):  # bytes where a name is not UTF-8
            found.append((name, entry))
        return True if len(found) > MAX_DATASETS else None  # a value ends the visit

    if group.visititems(visit):
        raise DataError(f"{file} holds more than {MAX_DATASETS:,} datasets", "Save features as one dataset.")
    yield from found


def _check_dataset(dataset: Any, where: str, file: Path) -> None:
    if dataset.external or dataset.is_virtual:
        raise DataError(f"{where} lies in other files, which are not opened", "Save one file with all values.")
    stored = dataset.id.get_storage_size()
    check_unpacked(file, dataset.name, dataset.nbytes, stored, LIMITS.stream_bytes, LIMITS)
    chunk = math.prod(dataset.chunks or ()) * dataset.dtype.itemsize
    check_unpacked(file, dataset.name, chunk, chunk, LIMITS.read_bytes, LIMITS)


def _guarded(read: Callable[[int, int], Any], where: str) -> Callable[[int, int], np.ndarray]:
    """Wrap the reading of a block so that damage is a DataError."""

    def guarded(start: int, stop: int) -> np.ndarray:
        try:
            return np.asarray(read(start, stop))
        except (OSError, RuntimeError, ValueError) as error:
            raise DataError(f"{where} cannot be read from row {start:,}: {error}", DAMAGED) from error

    return guarded


def _library(name: str, extra: str, where: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{where}: reading it needs {name}, which is not installed.", install_hint(extra)
        ) from error
