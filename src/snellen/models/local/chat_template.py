"""Prompts as messages of a chat template, as tensors of a batch, and images as the checkpoint's processor sizes them."""

from __future__ import annotations

import hashlib
import json
import re
from inspect import signature
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from PIL import Image as pillow

from snellen.errors import BadRequestError, PreflightError, SnellenError
from snellen.media import clip_parts, open_image, shown_at_most
from snellen.media.clip_parts import spoken_text
from snellen.models.local.native_video import NativeClip
from snellen.types import Image, MediaSettings, Part, ProcessedImage, Prompt, Text, Turn, Video

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from snellen.models.local.checkpoint import Loaded

MARKS = ("Qzx system", "Qzx question", "Qzx answer", "Qzx end")
"""Words that no chat template holds by itself, to see whether it writes what it is given."""
MOST_SIZES = 16
"""Sizes of images that a run records, the most frequent ones."""
MOST_PIXELS = 4096 * 4096
"""Larger images are not put through the processor a second time only for their size."""


class SentImage(Struct, frozen=True):
    """An image as the model was shown it, for the traces: size in pixels, and the SHA-256 of its RGB bytes."""

    width: int
    height: int
    sha256: str


class Conversation(Struct, frozen=True):
    """A prompt in the form that chat templates of transformers read: messages whose content is a list of parts."""

    messages: list[dict[str, Any]]
    images: list[SentImage]
    videos: list[Any] = []
    """transformers' metadata of each clip that goes through the processor's video path; their frames are among `images`."""


def size_of(prompt: Prompt, media: MediaSettings) -> tuple[int, int]:
    """Return (images, characters) of a prompt, without reading any: what decides how much padding it brings to a batch."""
    images = characters = 0
    for part in prompt.conversation_parts:
        if isinstance(part, Text):
            characters += len(part.text)
        elif isinstance(part, Image):
            images += 1
        else:
            images += shown_at_most(part, media)
    return images, characters + len(prompt.system)


def converse(
    prompt: Prompt,
    media: MediaSettings,
    frames: Callable[[Video], Sequence[Image]],
    native: Callable[[Video], NativeClip] | None = None,
) -> Conversation:
    """Read the images of a prompt and keep the order of its parts; a clip becomes its `frames`, or what `native` makes of it.

    Raises:
        DataError, MediaError: an image or a clip cannot be read.
    """
    sent: list[SentImage] = []
    videos: list[Any] = []
    messages: list[dict[str, Any]] = []
    if prompt.system:
        messages.append({"role": "system", "content": [{"type": "text", "text": prompt.system}]})
    for turn in (*prompt.history, Turn("user", prompt.parts)):
        parts = turn.parts if native is None else _with_clips(turn.parts, native)
        videos += [part.metadata for part in parts if isinstance(part, NativeClip)]
        messages.append({"role": turn.role, "content": _content(parts, media, frames, sent)})
    return Conversation(messages, sent, videos)


def _with_clips(parts: Sequence[Part], native: Callable[[Video], NativeClip]) -> list[Part | NativeClip]:
    """Return the parts with clips as the processor takes them, and their subtitles behind them."""
    made: list[Part | NativeClip] = []
    for part in parts:
        made.append(native(part) if isinstance(part, Video) else part)
        if isinstance(part, Video) and (spoken := spoken_text(part)):
            made.append(Text(spoken))
    return made


def _content(
    parts: Sequence[Part | NativeClip],
    media: MediaSettings,
    frames: Callable[[Video], Sequence[Image]],
    sent: list[SentImage],
) -> list[dict[str, Any]]:
    """Return the content of one message; its images are added to `sent`."""
    content: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, NativeClip):
            for frame in part.frames:
                height, width = frame.shape[:2]
                sent.append(SentImage(width, height, hashlib.sha256(frame.tobytes()).hexdigest()))
            content.append({"type": "video", "video": part.frames})
            continue
        for shown in clip_parts(part, frames(part), media) if isinstance(part, Video) else (part,):
            if isinstance(shown, Text):
                content.append({"type": "text", "text": shown.text})
                continue
            opened = open_image(shown, media)
            sent.append(SentImage(*opened.size, hashlib.sha256(opened.tobytes()).hexdigest()))
            content.append({"type": "image", "image": opened})
    return content


def encode(loaded: Loaded, conversations: Sequence[Conversation], template: Mapping[str, Any]) -> Any:
    """Return tensors of a batch: input_ids and attention_mask [rows, tokens], padded on the left, and the images.

    `template` holds arguments of the chat template. Text of a question is text: `<image>` or `</s>` inside it stands for its letters, never for an image or an end.

    Raises:
        BadRequestError: a prompt is longer than the model's context, or holds a control token that this processor
            cannot encode as text.
        Exception: whatever the template or the processor raises on a prompt that it does not accept.
    """
    token = next((token for token in sorted(loaded.control_tokens) if _holds(conversations, token)), None)
    messages = [conversation.messages for conversation in conversations]
    videos = [metadata for conversation in conversations for metadata in conversation.videos]
    inputs = (
        _tokenized(loaded, messages, videos, template)
        if token is None
        else _tokenized_as_text(loaded, messages, token, videos, template)
    )
    longest = int(inputs["attention_mask"].sum(dim=1).max())
    if loaded.context is not None and longest >= loaded.context:
        raise BadRequestError(
            f"the prompt has {longest} tokens, images included; the model reads {loaded.context} at most.",
            "Try --max-pixels, --max-long-side, or fewer --frames (or a lower --fps).",
        )
    return inputs


def _holds(conversations: Sequence[Conversation], token: str) -> bool:
    return any(
        token in part.get("text", "") for one in conversations for turn in one.messages for part in turn["content"]
    )


def _tokenized(
    loaded: Loaded,
    messages: Sequence[list[dict[str, Any]]],
    videos: Sequence[Any],
    template: Mapping[str, Any],
    *,
    sanitize: bool = False,
) -> Any:
    of_videos = {"video_metadata": list(videos), "do_sample_frames": False} if videos else {}
    return loaded.processor.apply_chat_template(
        messages,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        sanitize_control_tokens=sanitize,
        processor_kwargs={"padding": True, "padding_side": "left", **of_videos},
        **template,
    )


def _tokenized_as_text(
    loaded: Loaded,
    messages: Sequence[list[dict[str, Any]]],
    token: str,
    videos: Sequence[Any],
    template: Mapping[str, Any],
) -> Any:
    """Return tensors of prompts whose texts hold control tokens; each is encoded as its letters.

    transformers does so without offsets and token types (`sanitize_control_tokens`, 5.23), which some processors need:
    Idefics 3 raises, and PaliGemma would silently attend in another way.
    """
    blanked = [
        [{**turn, "content": [_without_text(part) for part in turn["content"]]} for turn in one] for one in messages
    ]
    needed = set(_tokenized(loaded, blanked, videos, template))
    try:
        inputs = _tokenized(loaded, messages, videos, template, sanitize=True)
    except (ValueError, NotImplementedError):
        inputs = {}
    if needed - set(inputs):
        raise BadRequestError(
            f"the question holds {token!r}, a control token of this model, which "
            f"{type(loaded.processor).__name__} cannot encode as text.",
            "Write the text without it.",
        )
    return inputs


def _without_text(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "text": "text"} if part["type"] == "text" else part


def rendered(loaded: Loaded, conversations: Sequence[Conversation], template: Mapping[str, Any]) -> list[str]:
    """Return the prompts as the chat template writes them, with one marker an image: for the traces."""
    return list(
        loaded.processor.apply_chat_template(
            [conversation.messages for conversation in conversations],
            add_generation_prompt=True,
            tokenize=False,
            **template,
        )
    )


def require_arguments(
    processor: Any, arguments: Mapping[str, Any], name: str, error: type[SnellenError] = PreflightError
) -> None:
    """Raise `error` for an argument that a model's chat template does not read, and so would drop in silence."""
    if not arguments:
        return
    template = str(getattr(processor, "chat_template", None) or processor.tokenizer.chat_template)
    own = signature(processor.apply_chat_template).parameters
    for argument in arguments:
        if argument in own or re.search(rf"\b{re.escape(argument)}\b", template) is None:
            raise error(
                f"--chat-template-kwargs has {argument!r}, which the chat template of {name} does not read.",
                "Omit it, or correct its name by the model's card.",
            )


def require_accepted(processor: Any, arguments: Mapping[str, Any], name: str) -> None:
    """Raise PreflightError for arguments that a chat template fails on, such as one of another type: every sample would fail."""
    fault = _render_fault(processor, arguments) if arguments else None
    if fault is not None and _render_fault(processor, {}) is None:
        raise PreflightError(
            f"--chat-template-kwargs {json.dumps(dict(arguments))[:200]}: the chat template of {name} fails on it: "
            f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}",
            "Correct the values, numbers and true or false without quotation marks, by the model's card.",
        )


def _render_fault(processor: Any, arguments: Mapping[str, Any]) -> Exception | None:
    asked = [{"role": "user", "content": [{"type": "text", "text": MARKS[1]}]}]
    try:
        processor.apply_chat_template([asked], add_generation_prompt=True, tokenize=False, **arguments)
    except Exception as error:  # noqa: BLE001 - templates raise what they like
        return error
    return None


def omitted_by_template(processor: Any) -> frozenset[str]:
    """Return which of `system` and `history` a chat template refuses or leaves out."""
    system, question, answer, end = (
        {"role": role, "content": [{"type": "text", "text": words}]}
        for role, words in zip(("system", "user", "assistant", "user"), MARKS, strict=True)
    )
    omitted = set()
    for name, messages in (("system", [system, end]), ("history", [question, answer, end])):
        try:
            text = processor.apply_chat_template([messages], add_generation_prompt=True, tokenize=False)[0]
        except Exception:  # noqa: BLE001 - templates raise what they like on roles that they do not know
            omitted.add(name)
            continue
        marks = (MARKS[0], MARKS[3]) if name == "system" else MARKS[1:]
        if any(mark not in text for mark in marks):
            omitted.add(name)
    return frozenset(omitted)


def require_written(prompt: Prompt, omitted: frozenset[str], name: str) -> None:
    """Raise BadRequestError for a system text or earlier turns that the chat template of a model omits."""
    for part, words in (("system", prompt.system), ("history", prompt.history)):
        if words and part in omitted:
            what = "a system text" if part == "system" else "earlier turns"
            raise BadRequestError(
                f"the chat template of {name} does not write {what}, so that the model would not read it.",
                "Omit --system." if part == "system" else "Omit --few-shot.",
            )


def content_digest(prompt: Prompt, conversation: Conversation) -> bytes:
    """Return digest of what is asked, texts and pixels: the same on every machine, unlike the keys of the images."""
    total = hashlib.blake2b(prompt.system.encode(), digest_size=16)
    for turn in prompt.history:  # none: the digest is that of versions without earlier turns
        total.update(f"\0{turn.role}\0".encode())
        for part in turn.parts:
            total.update(part.text.encode() if isinstance(part, Text) else b"\0")
    for part in prompt.parts:
        if isinstance(part, Text):
            total.update(part.text.encode())
    for image in conversation.images:
        total.update(f"{image.width}x{image.height} {image.sha256}".encode())
    return total.digest()


def processed_images(processor: Any, model: Any, sizes: Iterable[tuple[int, int]]) -> list[ProcessedImage]:
    """Return what the image processor makes of blank images of these sizes (width, height).

    Args:
        processor: a processor of transformers, or its image processor.
        model: its configuration tells the patch size where the processor does not; may be None.
        sizes: in the order of the result; images of more than MOST_PIXELS are left out.
    """
    images = getattr(processor, "image_processor", processor)
    results = []
    for width, height in sizes:
        if width * height > MOST_PIXELS:
            continue
        output = images(images=[pillow.new("RGB", (width, height), (119, 119, 119))], return_tensors="pt")
        results.append(_measured(images, model, (width, height), output))
    return results


def _measured(images: Any, model: Any, sent: tuple[int, int], output: Mapping[str, Any]) -> ProcessedImage:
    width, height = sent
    grid = output.get("image_grid_thw")
    if grid is not None:  # patches in rows: [frames, rows, columns]
        patch = int(images.patch_size)
        _, rows, columns = (int(count) for count in grid[0])
        merged = patch * int(getattr(images, "merge_size", 1))
        return ProcessedImage(width, height, columns * patch, rows * patch, merged)
    shape = tuple(output["pixel_values"].shape) if "pixel_values" in output else ()
    tiles = shape[1] if len(shape) == 5 else shape[0] if len(shape) == 4 else 0
    if tiles != 1:  # cut into tiles beside an overview: no single scale holds
        return ProcessedImage(width, height, tiles=int(tiles))
    after_height, after_width = (int(length) for length in shape[-2:])
    if "image_sizes" in output and len(shape) == 4:  # without the padding of a batch
        after_height, after_width = (int(length) for length in output["image_sizes"][0])
    return ProcessedImage(width, height, after_width, after_height, _patch(images, model))


def _patch(images: Any, model: Any) -> int | None:
    """Return the side of a patch in pixels; None where neither processor nor configuration says one number."""
    vision = getattr(getattr(model, "config", None), "vision_config", None)
    for source in (images, vision):
        patch = getattr(source, "patch_size", None)
        if isinstance(patch, int):
            return patch
    return None
