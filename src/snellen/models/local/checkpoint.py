"""Checkpoints: location, validity and identity, and their weights and processor on a device.

A hub id is turned into a folder of the hub's own cache, so that all but `find` knows folders only. Weights are read from
safetensors alone: the pickle formats (`.bin`, `.pt`, `.pth`) run code when they are opened.

torch and transformers are imported by the functions that need them: a checkpoint is found and refused without them.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from stat import S_ISREG
from typing import Any

from msgspec import Struct

from snellen.errors import PreflightError
from snellen.installation import install_hint

SMALL_FILES = ("*.json", "*.jinja", "*.txt", "*.model")
WEIGHTS = "*.safetensors"
ADAPTER_CONFIG = "adapter_config.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
# What can change an answer. Read-me files, images and training leftovers cannot.
IDENTIFYING = (".json", ".jinja", ".txt", ".model", ".safetensors")


VIDEO_PART = "video_processor"


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
        if (path / ADAPTER_CONFIG).is_file() and not (path / "config.json").is_file():
            base = read_config(path, name, ADAPTER_CONFIG).get("base_model_name_or_path") or "BASE"
            raise PreflightError(
                f"{name} is an adapter, and its base model is not in it.",
                f"Write --model local:{base} --adapter {name}.",
            )
        config = read_config(path, name)
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
    config = read_config(folder, name)
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


CONFIG_BYTES = 64 << 20
"""Largest config.json or adapter_config.json that is read; a published one has some kilobytes."""


def read_config(folder: Path, name: str, file: str = "config.json") -> Mapping[str, Any]:
    """Return the JSON object in a file of a checkpoint or adapter. Raises PreflightError without one."""
    path = folder / file
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode) or status.st_size > CONFIG_BYTES:
            raise ValueError(f"it is no regular file of at most {CONFIG_BYTES:,} bytes")
        config = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PreflightError(
            f"{name}: there is no {file} in it.", "Give a folder as save_pretrained writes it."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise PreflightError(f"{name}: {file} cannot be read: {error}", "Fetch the checkpoint again.") from error
    if not isinstance(config, dict):
        raise PreflightError(f"{name}: {file} does not hold a JSON object.", "Fetch the checkpoint again.")
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


@dataclass(frozen=True)
class Loaded:
    """A model that can be asked.

    Attributes:
        processor: tokenizer and image processor, padding on the left.
        model: in evaluation mode.
        context: tokens that prompt and answer may have together; None where the configuration does not say.
        inference_mode: generate in torch's inference mode. False for a model that is trained further: tensors that it
            keeps from inference mode cannot be trained with.
        control_tokens: what the tokenizer does not read as text.
    """

    processor: Any
    model: Any
    context: int | None
    inference_mode: bool = True
    control_tokens: frozenset[str] = frozenset()


def pick_device(device: str) -> str:
    """Return the device: `auto` is CUDA, then Apple's MPS, then the processor. Raises PreflightError for a missing device."""
    import torch

    if device == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    if device.startswith("cuda"):
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(device.partition(":")[2] or 0) >= count:
            raise PreflightError(
                f"device {device} was asked for; torch sees {count} CUDA devices.", "Try --device auto."
            )
    if device == "mps" and not torch.backends.mps.is_available():
        raise PreflightError("device mps was asked for; torch does not see it.", "Try --device auto.")
    return device


def pick_dtype(dtype: str, device: str, stored: str | None) -> str:
    """Return name of the torch dtype that the weights are computed in.

    Args:
        dtype: what the user asked for; `auto` decides here.
        device: as `pick_device` returned it.
        stored: dtype of the checkpoint, None where its configuration does not say.

    `auto` keeps the checkpoint's dtype on accelerators. On a processor it is float32 (float16 is emulated there and
    measured 2.4 times slower), except for a bfloat16 checkpoint where the processor multiplies bfloat16 matrices in
    hardware (AMX).
    """
    if dtype != "auto":
        return dtype
    if device != "cpu":
        return stored or "float32"
    import torch

    amx = bool(torch.cpu.get_capabilities().get("amx_bf16")) if hasattr(torch.cpu, "get_capabilities") else False
    return "bfloat16" if stored == "bfloat16" and amx else "float32"


def stored_dtype(config: Any) -> str | None:
    """Return the dtype that config.json names, at the top or for the language model. `torch_dtype` is its older name."""
    for part in (config, config.get("text_config") or {}):
        name = part.get("dtype") or part.get("torch_dtype")
        if isinstance(name, str):
            return name.removeprefix("torch.")
    return None


def load(checkpoint: Checkpoint, name: str, device: str, dtype: str) -> Loaded:
    """Read processor and weights. Code inside the checkpoint is never run; missing tensors are never made up.

    Args:
        device: what the user asked for, `auto` included: with several GPUs, `auto` spreads the layers over them.

    Raises:
        PreflightError: the checkpoint is incomplete or damaged, does not fit into memory, or torchvision is of another
            torch: transformers then says only that a module of its own cannot be imported.
    """
    import torch
    import transformers
    from transformers.utils import logging

    has_torchvision(name)

    # transformers is typed in parts, and its loaders return what their arguments say.
    auto_model: Any = transformers.AutoModelForImageTextToText
    transformers_logging: Any = logging
    target = pick_device(device)
    spread = device == "auto" and target == "cuda" and torch.cuda.device_count() > 1
    verbose = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        processor = read_processor(checkpoint)
        model, report = auto_model.from_pretrained(
            checkpoint.folder,
            dtype=getattr(torch, pick_dtype(dtype, target, stored_dtype(checkpoint.config))),
            device_map="auto" if spread else None,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
        if not spread:
            model = model.to(target)
    except ImportError as error:
        raise PreflightError(
            f"{name}: its processor needs a package that is not installed: {_first_line(error)}",
            f"{install_hint('local')}. torchvision must be of the installed torch.",
        ) from error
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise PreflightError(
            f"{name}: the weights do not fit into the memory of {target}.", "Try --dtype bfloat16 or a smaller model."
        ) from error
    except Exception as error:  # whatever a damaged folder makes transformers, tokenizers or safetensors raise
        raise PreflightError(
            f"{name}: the checkpoint cannot be loaded: {type(error).__name__}: {_first_line(error)}",
            "Fetch it again, or check that the installed transformers is new enough for it.",
        ) from error
    finally:
        if verbose:
            transformers_logging.enable_progress_bar()
    missing = sorted(report["missing_keys"])
    if missing:
        raise PreflightError(
            f"{name}: {len(missing)} tensors are missing from the weights, first {missing[0]!r}; "
            "they would be filled with random numbers.",
            "Fetch the checkpoint again.",
        )
    if (
        getattr(processor, "chat_template", None) is None
        and getattr(processor.tokenizer, "chat_template", None) is None
    ):
        raise PreflightError(
            f"{name}: it has no chat template, so nothing says how a question is put to it.",
            "Choose an instruction-tuned checkpoint (often named …-Instruct or …-it).",
        )
    return prepared(processor, model)


def read_processor(checkpoint: Checkpoint) -> Any:
    """Return the checkpoint's processor; without its video part where that cannot be loaded: images do not need it.

    Raises ImportError for a package that images need, or where the class does not do without the part.
    """
    import transformers
    from transformers.models.auto import processing_auto

    auto_processor: Any = transformers.AutoProcessor
    known: Any = processing_auto
    settings: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
    try:
        return auto_processor.from_pretrained(checkpoint.folder, **settings)
    except ImportError:
        own = getattr(transformers, known.PROCESSOR_MAPPING_NAMES.get(checkpoint.config["model_type"]) or "", None)
        if own is None or VIDEO_PART not in own.get_attributes():
            raise
        return without_video_part(own).from_pretrained(checkpoint.folder, **settings)


class NoVideoPart:
    """Stand-in for the video part of a processor: it has no setting. SmolVLM's asks for some with every prompt."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


def without_video_part(processor_class: Any) -> Any:
    """Return a processor class of transformers that neither loads nor checks its video part."""

    class ImagesAndText(processor_class):  # type: ignore[misc]
        video_processor = NoVideoPart()

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [name for name in super().get_attributes() if name != VIDEO_PART]

        @classmethod
        def from_args_and_dict(cls, args: Any, processor_dict: dict[str, Any], **kwargs: Any) -> Any:
            return super().from_args_and_dict(args, {**processor_dict, VIDEO_PART: None}, **kwargs)

    ImagesAndText.__name__ = processor_class.__name__
    return ImagesAndText


def prepared(processor: Any, model: Any, *, inference_mode: bool = True) -> Loaded:
    """Set the tokenizer's padding and the model's mode for generation."""
    processor.tokenizer.padding_side = "left"
    if processor.tokenizer.pad_token is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return Loaded(
        processor,
        model.eval(),
        context if isinstance(context, int) else None,
        inference_mode,
        control_tokens(processor),
    )


def control_tokens(processor: Any) -> frozenset[str]:
    """Return the special tokens, and the other added ones that the chat template writes; line ends are text there."""
    template = f"{getattr(processor, 'chat_template', None)} {getattr(processor.tokenizer, 'chat_template', None)}"
    return frozenset(
        token.content
        for token in processor.tokenizer.added_tokens_decoder.values()
        if token.special or (token.content in template and not token.content.isspace())
    )


def import_library(name: str, label: str) -> Any:
    """Import a library. Raises PreflightError if it, or torchvision under it, does not load."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a torchvision of another torch raises RuntimeError, OSError, AttributeError
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        raise PreflightError(
            f"{label}: {name} cannot be imported: {type(error).__name__}: {first}",
            "torchvision must be built for the installed torch: install it from the index that torch came from "
            "(https://pytorch.org/get-started/locally).",
        ) from error


def has_torchvision(label: str) -> bool:
    """Return True if torchvision is installed. Raises PreflightError for one of another torch: it breaks transformers."""
    if find_spec("torchvision") is None:
        return False
    import_library("torchvision", label)
    return True


def release_memory() -> None:
    """Hand memory that nobody holds back to the device."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    elif torch.backends.mps.is_available():
        torch.mps.empty_cache()


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that memory is used up: torch's own, Python's, or an allocator's without a class."""
    torch = sys.modules.get("torch")  # where nobody has imported it, nobody raises its errors
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "out of memory" in text or "not enough memory" in text or "can't allocate memory" in text
    )


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
