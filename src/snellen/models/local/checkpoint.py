"""Checkpoints: location, validity and identity. No torch here.

A hub id is turned into a folder of the hub's own cache, so that everything after this file knows folders only.
Weights are read from safetensors alone: the pickle formats (`.bin`, `.pt`, `.pth`) run code when they are opened.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.errors import PreflightError

SMALL_FILES = ("*.json", "*.jinja", "*.txt", "*.model")
WEIGHTS = "*.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
# What can change an answer. Read-me files, images and training leftovers cannot.
IDENTIFYING = (".json", ".jinja", ".txt", ".model", ".safetensors")


class Checkpoint(Struct, frozen=True):
    """A folder that holds a usable model.

    `origin` identifies the content and never the place: {"digest": "sha256:…"} of a folder, or {"repo": …,
    "commit": …} of the hub. `config` is the content of config.json.
    """

    folder: Path
    origin: Mapping[str, str]
    config: Mapping[str, Any]


def find(name: str, revision: str | None, check: Callable[[Mapping[str, Any], str], None] | None = None) -> Checkpoint:
    """Return the checkpoint that `name` means: a folder if there is one of that name, else a hub id.

    `check` is asked with the configuration and the name before weights are fetched; None takes `check_architecture`.
    Downloads what is not in the hub's cache yet (`HF_ENDPOINT`, `HF_HUB_OFFLINE`, `HF_TOKEN` are honoured).

    Raises:
        PreflightError: no such folder or repository, no access, not a model of this kind, no safetensors weights.
    """
    check = check or check_architecture
    path = Path(name).expanduser()
    if path.is_dir():
        if revision is not None:
            raise PreflightError(f"{name} is a folder, and a folder has no revision {revision!r}.", "Omit --revision.")
        config = _read_config(path, name)
        check(config, name)
        _check_weights(path, name)
        return Checkpoint(path, {"digest": digest(path)}, config)
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        raise PreflightError(
            f"there is no model folder {name}, and the name is not a hub id (owner/name) either.",
            "Give the path of a folder with config.json and model.safetensors, or a hub id such as "
            "Qwen/Qwen3-VL-8B-Instruct.",
        )
    folder = download(name, revision, SMALL_FILES)
    config = _read_config(folder, name)
    check(config, name)
    folder = download(name, folder.name, (*SMALL_FILES, WEIGHTS))
    _check_weights(folder, name)
    return Checkpoint(folder, {"repo": name, "commit": folder.name}, config)


def check_architecture(config: Mapping[str, Any], name: str) -> None:
    """Raise PreflightError unless transformers itself has an image-text-to-text class for this model type."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as KNOWN

    kind = config.get("model_type")
    if kind in KNOWN:
        return
    text = [
        architecture
        for architecture in config.get("architectures") or ()
        if isinstance(architecture, str) and architecture.endswith("ForCausalLM")
    ]
    if text and not any(key in config for key in ("vision_config", "visual", "vision_tower", "mm_vision_tower")):
        raise PreflightError(
            f"{name} is a text-only model ({text[0]}, model_type {kind!r}): it takes no images. No sample was sent.",
            "Name a vision-language checkpoint, such as local:Qwen/Qwen3-VL-8B-Instruct.",
        )
    if config.get("auto_map"):
        raise PreflightError(
            f"{name}: model_type {kind!r} comes with code of its own, which Snellen never runs.",
            "Choose a checkpoint that transformers supports by itself, or serve it elsewhere and use api:NAME.",
        )
    raise PreflightError(
        f"{name} is not an image-text-to-text model: model_type {kind!r}.",
        "Choose a vision-language checkpoint that AutoModelForImageTextToText of the installed transformers knows.",
    )


def digest(folder: Path) -> str:
    """Return `sha256:` over names and bytes of the files that can change an answer, in the order of their names."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir(), key=lambda file: file.name):
        if path.suffix in IDENTIFYING and path.is_file():
            with path.open("rb") as file:
                file_digest = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{path.name}\0{file_digest}\n".encode())
    return f"sha256:{total.hexdigest()}"


def _read_config(folder: Path, name: str) -> Mapping[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PreflightError(
            f"{name}: there is no config.json in it.", "Give a folder as save_pretrained of transformers writes it."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise PreflightError(f"{name}: config.json cannot be read: {error}", "Fetch the checkpoint again.") from error
    if not isinstance(config, dict):
        raise PreflightError(f"{name}: config.json does not hold a JSON object.", "Fetch the checkpoint again.")
    return config


def _check_weights(folder: Path, name: str) -> None:
    if any(folder.glob(WEIGHTS)):
        return
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if pickles:
        raise PreflightError(
            f"{name}: the weights are in {pickles[0]}, a pickle, which can run code when it is opened.",
            "Convert it to safetensors on a machine that you can lose, or use a checkpoint that has them.",
        )
    raise PreflightError(
        f"{name}: there are no safetensors weights in it.",
        "Choose a checkpoint that has *.safetensors files; pickled weights are never opened.",
    )


def download(name: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    """Return snapshot folder of a repository; its name is the commit hash."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    place = f"{name} on {constants.ENDPOINT}"
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(patterns)))
    except GatedRepoError as error:
        raise PreflightError(
            f"{place}: access is granted by its owner only, and it is not granted to you.",
            "Ask for access on the model's page, then set HF_TOKEN or run: hf auth login",
        ) from error
    except RepositoryNotFoundError as error:
        raise PreflightError(
            f"{place}: there is no such model, or it is private.",
            "Check the spelling; for a private one set HF_TOKEN or run: hf auth login",
        ) from error
    except RevisionNotFoundError as error:
        raise PreflightError(f"{place}: there is no revision {revision!r}.", "Check --revision.") from error
    except HFValidationError as error:
        raise PreflightError(f"{name!r} is not a hub id: {error}", "Give owner/name, or an existing folder.") from error
    except LocalEntryNotFoundError as error:
        why = "the network is switched off (HF_HUB_OFFLINE)" if constants.HF_HUB_OFFLINE else "the hub does not answer"
        raise PreflightError(
            f"{place}: {why}, and the model is not in the cache.",
            "Download it first where there is a network (hf download NAME), or give a folder.",
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise PreflightError(f"{place}: {error}", "Check the network, HF_ENDPOINT and the free disk space.") from error
