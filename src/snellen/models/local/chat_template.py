"""Prompts as messages of a chat template, images opened, and a batch of them as tensors."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from snellen.errors import BadRequestError
from snellen.media import MediaCache, open_image, shown_at_most
from snellen.types import Image, MediaSettings, Prompt, Text, Video

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snellen.models.local.load import Loaded


class SentImage(Struct, frozen=True):
    """An image as the model was shown it, for the traces: size in pixels, and the SHA-256 of its RGB bytes."""

    width: int
    height: int
    sha256: str


class Conversation(Struct, frozen=True):
    """A prompt in the form that chat templates of transformers read: messages whose content is a list of parts."""

    messages: list[dict[str, Any]]
    images: list[SentImage]


def size_of(prompt: Prompt, media: MediaSettings) -> tuple[int, ...]:
    """Return (images, characters) of a prompt, without reading any: what decides how much padding it brings to a batch."""
    images = characters = 0
    for part in prompt.parts:
        if isinstance(part, Text):
            characters += len(part.text)
        elif isinstance(part, Image):
            images += 1
        else:
            images += shown_at_most(part, media)
    return images, characters + len(prompt.system)


def converse(prompt: Prompt, media: MediaCache) -> Conversation:
    """Read the images of a prompt and keep the order of its parts; a clip becomes its frames, decoded once a run.

    Raises:
        DataError, MediaError: an image or a clip cannot be read.
    """
    content: list[dict[str, Any]] = []
    sent: list[SentImage] = []
    for part in prompt.parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
            continue
        pick = part.pick if isinstance(part, Video) else None
        for number, image in enumerate(media.frames(part) if isinstance(part, Video) else (part,)):
            if pick is not None and (label := pick.text_before(number)) is not None:
                content.append({"type": "text", "text": label.text})
            opened = open_image(image, media.settings, media.limit)
            sent.append(SentImage(*opened.size, hashlib.sha256(opened.tobytes()).hexdigest()))
            content.append({"type": "image", "image": opened})
    messages: list[dict[str, Any]] = [{"role": "user", "content": content}]
    if prompt.system:
        messages.insert(0, {"role": "system", "content": [{"type": "text", "text": prompt.system}]})
    return Conversation(messages, sent)


def encode(loaded: Loaded, conversations: Sequence[Conversation]) -> Any:
    """Return tensors of a batch: input_ids and attention_mask [rows, tokens], padded on the left, and the images.

    Text of a question is text: `<image>` or `</s>` inside it stands for its letters, never for an image or an end
    (`sanitize_control_tokens`, transformers 5.23; older ones ignore it).

    Raises:
        BadRequestError: a prompt is longer than the model's context.
        Exception: whatever the template or the processor raises on a prompt that it does not accept.
    """
    inputs = loaded.processor.apply_chat_template(
        [conversation.messages for conversation in conversations],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        sanitize_control_tokens=True,
        processor_kwargs={"padding": True, "padding_side": "left"},
    )
    longest = int(inputs["attention_mask"].sum(dim=1).max())
    if loaded.context is not None and longest >= loaded.context:
        raise BadRequestError(
            f"the prompt has {longest} tokens, images included; the model reads {loaded.context} at most.",
            "Try --max-pixels, --max-long-side, or fewer --frames (or a lower --fps).",
        )
    return inputs


def rendered(loaded: Loaded, conversations: Sequence[Conversation]) -> list[str]:
    """Return the prompts as the chat template writes them, with one marker an image: for the traces."""
    return list(
        loaded.processor.apply_chat_template(
            [conversation.messages for conversation in conversations], add_generation_prompt=True, tokenize=False
        )
    )


def content_digest(prompt: Prompt, conversation: Conversation) -> bytes:
    """Return digest of what is asked, texts and pixels: the same on every machine, unlike the keys of the images."""
    total = hashlib.blake2b(prompt.system.encode(), digest_size=16)
    for part in prompt.parts:
        if isinstance(part, Text):
            total.update(part.text.encode())
    for image in conversation.images:
        total.update(f"{image.width}x{image.height} {image.sha256}".encode())
    return total.digest()
