"""A prompt as an agent gets it: one text, and images under neutral names in its working folder."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from snellen.errors import InputError
from snellen.media import encode
from snellen.models.tools.images import image_name
from snellen.types import Image, MediaSettings, Prompt, Text


class AgentQuestion(Struct, frozen=True):
    """`text` names the images where they stand in the prompt; `images` are file names, `digests` their SHA-256."""

    text: str
    images: tuple[str, ...]
    digests: tuple[str, ...]


def write_question(prompt: Prompt, settings: MediaSettings, work: Path) -> AgentQuestion:
    """Write the images into the working folder and the question around them.

    An image is called image.jpg (by its content), several image-1.jpg, image-2.png and so on; in the text stands ./NAME
    on a line of its own. The system prompt, which agents have of their own, comes first in the text.

    Raises:
        InputError: the prompt holds a video or earlier turns. MediaError, DataError: an image cannot be read.
    """
    if prompt.history:
        raise InputError("agents take no earlier turns", "Ask a benchmark of single questions, or another model.")
    lines: list[str] = [prompt.system] if prompt.system else []
    names: list[str] = []
    digests: list[str] = []
    several = sum(isinstance(part, Image) for part in prompt.parts) > 1
    for part in prompt.parts:
        if isinstance(part, Text):
            lines.append(part.text)
        elif isinstance(part, Image):
            image = encode(part.blob, settings)
            name = image_name(image.data, len(names) + 1 if several else None)
            (work / name).write_bytes(image.data)
            names.append(name)
            digests.append(image.digest)
            lines.append(f"./{name}")
        else:
            raise InputError("agents take no video", "Ask a benchmark of images, or another model.")
    return AgentQuestion("\n\n".join(lines), tuple(names), tuple(dict.fromkeys(digests)))
