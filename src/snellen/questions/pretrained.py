"""Models of transformers that help to build questions: detectors and language models, from safetensors, without code of theirs."""

from __future__ import annotations

from typing import Any

from snellen.errors import MissingExtraError, PreflightError
from snellen.installation import install_hint


def open_pretrained(name: str, model_class: str, processor_class: str, device: str, kind: str, example: str) -> Any:
    """Return a model on its device, and its processor or tokenizer.

    Args:
        name: `hf:NAME` or a folder.
        model_class, processor_class: auto classes of transformers.
        device: where it computes; `auto`: CUDA, then MPS, then the processor.
        kind, example: what is expected, for the error.

    Raises:
        MissingExtraError: torch and transformers are not installed.
        PreflightError: no such model, or one of another kind.
    """
    try:
        import transformers

        from snellen.models.local.checkpoint import find, pick_device
    except ImportError as error:
        raise MissingExtraError(f"a {kind} needs torch and transformers", install_hint("local")) from error
    folder = find(name.removeprefix("hf:"), None, lambda config, _: None).folder
    where = {"trust_remote_code": False, "local_files_only": True}
    try:
        model = getattr(transformers, model_class).from_pretrained(folder, use_safetensors=True, dtype="auto", **where)
        processor = getattr(transformers, processor_class).from_pretrained(folder, **where)
    except (OSError, ValueError, KeyError) as error:
        raise PreflightError(
            f"{name} is no {kind}: {str(error).splitlines()[0]}", f"Give one such as {example}."
        ) from error
    return model.to(pick_device(device)).eval(), processor
