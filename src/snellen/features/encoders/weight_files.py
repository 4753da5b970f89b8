"""Weights of timm and open_clip: safetensors files, local or of the hub."""

from __future__ import annotations

from pathlib import Path

from snellen.errors import PreflightError
from snellen.models.local.checkpoint import PICKLES, SMALL_FILES, WEIGHTS, download


def find_weights(path: str, label: str, names: tuple[str, ...] = ("model.safetensors",)) -> Path:
    """Return the safetensors file that a local path means: itself, or the one in a folder.

    Args:
        path: file or folder.
        names: which file of a folder is taken if it has several.

    Raises:
        PreflightError: there is none, it is a pickle, or a folder holds several.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        files = sorted(place.glob(WEIGHTS))
        usual = [file for name in names for file in files if file.name == name]
        if len(files) == 1 or usual:
            return (usual or files)[0]
        if files:
            raise PreflightError(
                f"{label}: {path} holds {len(files)} safetensors files, first {files[0].name}.", "Name one of them."
            )
        pickles = sorted(file.name for file in place.iterdir() if file.suffix in PICKLES)
        if pickles:
            raise _pickle(label, pickles[0])
        raise PreflightError(f"{label}: there is no safetensors file in {path}.", "Name a file of weights.")
    if place.suffix in PICKLES:
        raise _pickle(label, place.name)
    if not place.is_file():
        raise PreflightError(f"{label}: there is no file or folder {path}.", "Check the path after the comma.")
    if place.suffix != ".safetensors":
        raise PreflightError(f"{label}: {place.name} is not a safetensors file.", "Name a file *.safetensors.")
    return place


def fetch_weights(repository: str, label: str, names: tuple[str, ...] = ("model.safetensors",)) -> Path:
    """Download a repository's configuration and these of its weights; return the file, as `find_weights` does."""
    return find_weights(str(download(repository, None, (*SMALL_FILES, *names))), label, names)


def tensor_shapes(file: Path, label: str) -> dict[str, list[int]]:
    """Return the shape of each tensor of a safetensors file. Raises PreflightError if it is damaged."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as tensors:
            return {name: list(tensors.get_slice(name).get_shape()) for name in tensors.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise PreflightError(
            f"{label}: {file} is not a readable safetensors file: {error}", "Copy it again."
        ) from error


def _pickle(label: str, name: str) -> PreflightError:
    return PreflightError(
        f"{label}: the weights are in {name}, a pickle, which can run code when it is opened.",
        "Convert it to safetensors on a machine that you can lose, or choose weights that are safetensors.",
    )
