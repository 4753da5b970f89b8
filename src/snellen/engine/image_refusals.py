"""Refused images: what a server's refusal says about them, the option that helps, and whether the model takes images at all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isqrt
from typing import NamedTuple

from snellen.benchmarks.base import Benchmark
from snellen.engine import journal
from snellen.engine.journal import ANSWERED, RecordHead
from snellen.engine.resume import samples_of
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import ModelError
from snellen.models.base import Model
from snellen.sources.blobs import BytesBlob, stored_png
from snellen.sources.journal_lines import Damage
from snellen.types import Generation, Image, Prompt, Sample, Text, Video

PROBE_SIDE = 32
BYTES_A_PIXEL = 4 / 3
"""Bytes of a JPEG of quality 90 in base64, for each pixel: photographs have less."""
_UNITS = {"k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_NUMBER = r"\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?"
_BARE = re.compile(rf"(?<![\w.])({_NUMBER})(?=\s?[x×]\s?\d|\.?(?:[^\w.%]|$))")
_LIMIT_WORDS = r"(?:max\w*|limit\w*|allow\w*|at most|up to|exceed\w*|below|under|smaller|larger|greater|bigger|more|fewer|than|between|least|min\w*|[<>=≤])"
_COUNTED = re.compile(
    r"too many images|number of (?:\w+ ){0,2}images|images? (?:\w+ ){0,3}per (?:request|prompt|message)|limit.mm.per.prompt"
    r"|(?:only|exactly|more than) (?:one|a single) image|single image|one image (?:per|at a time)|multiple images",
    re.IGNORECASE,
)
_FORMATS = re.compile(
    r"(?<!data:image/)(?<!\w\.)\b(?:jpe?g|png|gif|webp|bmp|tiff?|heic|heif|avif|svg)\b", re.IGNORECASE
)
_UNREAD = re.compile(
    r"cannot identify|decod|corrupt|truncat|(?:invalid|unknown|unsupported|unrecogni[sz]ed) (?:image )?(?:file )?(?:format|type)\b"
    r"|mime ?type|media.?type|failed to (?:load|open|read) (?:\w+ ){0,2}image"
    r"|(?:invalid|not a valid|is not valid|malformed).{0,20}image|image.{0,20}(?:invalid|not valid|malformed)",
    re.IGNORECASE,
)
_WITHOUT_VISION = re.compile(
    r"(?:support|accept|allow|enabl|variant|only|not an?|missing|at most 0)\W?.{0,60}?\b(?:images?|vision|multi-?modal|image_url)\b"
    r"|\b(?:images?|vision|multi-?modal|image_url)\b.{0,60}?(?:not (?:supported|allowed|enabled|available|accepted|loaded)|unsupported|only supported)"
    r"|\b(?:process|handle|see|read)\s+images\b"
    r"|\bcontent\b.{0,60}?(?:must be|should be|expected|valid).{0,12}?\b(?:string|text)\b",
    re.IGNORECASE,
)


class ImageRefusal(NamedTuple):
    """What a server does not take about an image, and what to do: an imperative with the option of `snellen run`."""

    cause: str
    hint: str


def image_refusal(message: str) -> ImageRefusal | None:
    """Return what a refusal says about the images of one request; None where it says nothing of the kind.

    The limit is the number that stands beside a word of limits; without such a word the smallest number of its unit.
    """
    for refusal in _STAGES:
        if (found := refusal(message)) is not None:
            return found
    return None


def refuses_images(message: str) -> bool:
    """Return True for an error text that may mean that the model takes no images at all, not that one has a fault."""
    refusal = image_refusal(message)
    return (refusal is None or refusal.cause == "format") and _WITHOUT_VISION.search(message) is not None


def _aspect(message: str) -> ImageRefusal | None:
    if re.search(r"aspect.?ratio", message, re.IGNORECASE) is None:
        return None
    return ImageRefusal(
        "aspect",
        "These images are too long for their height: no option changes that. Pad or cut them in the data, or leave these "
        "samples out.",
    )


def _count(message: str) -> ImageRefusal | None:
    said = _COUNTED.search(message) is not None
    most = _limit(message, r"(?:\w+ )?images?\b", bare=said, near=True)
    if not (said or most) or most == 0 or re.search(r"per (?:minute|second|hour|day)", message):
        return None
    number = 1 if most is None and re.search(r"\b(?:one|single|multiple)\b", message, re.IGNORECASE) else most
    few = "N" if number is None else f"{number:.0f}"
    than = "" if number is None else f" than {number:.0f}"
    return ImageRefusal(
        "number",
        f"The server takes no more images{than} in a question: send fewer (--frames {few} of videos, --few-shot 0), or let it "
        """take more (vLLM: --limit-mm-per-prompt '{"image": N}').""",
    )


def _bytes(message: str) -> ImageRefusal | None:
    most = _limit(message, r"(?P<unit>[kmg]i?)?(?:b|bytes?|characters)\b")
    named = re.search(r"\bbytes\b", message, re.IGNORECASE)
    most = (
        _limit(message, "", bare=True) if most is None and named and re.search(r"max|limit|exceed", message) else most
    )
    if most is None or re.search(r"image|picture|payload|request|file|data", message, re.IGNORECASE) is None:
        return None
    side = max(PROBE_SIDE, isqrt(int(most / BYTES_A_PIXEL)) // 10 * 10)
    return ImageRefusal(
        "bytes", f"The images have too many bytes: send smaller ones with --image-format jpeg --max-long-side {side}."
    )


def _pixels(message: str) -> ImageRefusal | None:
    most = _limit(message, r"(?:mega)?(?:-?pixels?|px|mp)\b", bare=True)
    if re.search(r"pixel|\bmp\b|\bpx\b", message, re.IGNORECASE) is None or _SIDES.search(message):
        return None
    if most is not None and most < 1000 and re.search(r"mega|\bmp\b", message, re.IGNORECASE):
        most *= 1_000_000
    if most is not None and most < 50_000:  # of a side: no server takes so few pixels in all
        return _smaller_side(message, most)
    value = "N" if most is None else f"{most:.0f}"
    return ImageRefusal("pixels", f"The images have too many pixels: send smaller ones with --max-pixels {value}.")


_SIDES = re.compile(r"dimension|\bsides?\b|\bwidth|\bheight|\bedge|resolution|\d\s?[x×*]\s?\d", re.IGNORECASE)


def _side(message: str) -> ImageRefusal | None:
    if (
        _SIDES.search(message) is None
        or re.search(r"image|pixel|width|height|resolution", message, re.IGNORECASE) is None
    ):
        return None
    most = _limit(message, r"(?:pixels?|px)\b", bare=True)
    if most is not None and re.search(r"\bbetween\b", message, re.IGNORECASE):  # the least side stands first
        most = max(value for _, value in _amounts(_BARE, message))
    return None if most is None else _smaller_side(message, most)


def _smaller_side(message: str, most: float) -> ImageRefusal:
    if (
        re.search(r"(?:larger|greater|bigger|more|at least|minimum|too small|≥|>=)(?: than)?", message, re.IGNORECASE)
        and most < 256
    ):
        return ImageRefusal(
            "small",
            f"These images have a side under {most:.0f} pixels: no option enlarges them. Enlarge them in the data, or leave these "
            "samples out (`snellen check` names them).",
        )
    return ImageRefusal("side", f"The images are too large: send smaller ones with --max-long-side {most:.0f}.")


def _size(message: str) -> ImageRefusal | None:
    if re.search(r"\b(?:image|picture|payload)s?\b.{0,40}\btoo (?:large|big)\b", message, re.IGNORECASE) is None:
        return None
    return ImageRefusal(
        "size", "The images are too large: send smaller ones with --image-format jpeg --max-long-side 1024."
    )


def _format(message: str) -> ImageRefusal | None:
    named = {name.lower().replace("jpg", "jpeg") for name in _FORMATS.findall(message)}
    unread = _UNREAD.search(message) is not None and re.search(r"image|picture", message, re.IGNORECASE) is not None
    if not named and (not unread or _WITHOUT_VISION.search(message) is not None):
        return None
    # A single format is the one that is refused, several are those that are taken.
    chosen = "png" if ("png" in named) == (len(named) > 1) else "jpeg"
    return ImageRefusal(
        "format", f"The server does not read these images: write them anew with --image-format {chosen}."
    )


_STAGES = (_aspect, _count, _bytes, _pixels, _side, _size, _format)


def _limit(message: str, unit: str, *, bare: bool = False, near: bool = False) -> float | None:
    """Return the smallest limit of a unit that a message names; None without any.

    Args:
        message: the refusal.
        unit: pattern of the unit behind a number; its group `unit` scales the number.
        bare: numbers without a unit count too where a word of limits stands beside them.
        near: so must all others.
    """
    pattern = re.compile(rf"(?<![\w.])({_NUMBER})\s?" + (f"(?:{unit})" if unit else ""), re.IGNORECASE)
    found = list(_amounts(pattern, message))
    if bare:
        found += [(beside, value) for beside, value in _amounts(_BARE, message) if beside]
    limits = [value for beside, value in found if beside or (not near and not any(each for each, _ in found))]
    return min(limits, default=None)


def _amounts(pattern: re.Pattern[str], message: str) -> Iterator[tuple[bool, float]]:
    """Yield each number of a pattern with whether a word of limits stands beside it."""
    for match in pattern.finditer(re.sub(r"\bHTTP \d{3}\b", "HTTP", message)):
        before = match.string[max(0, match.start() - 45) : match.start()]
        behind = match.string[match.end() : match.end() + 25]
        near = re.search(_LIMIT_WORDS + r"[^\d]*$", before, re.IGNORECASE) or re.match(
            r"[^\d,;.]{0,10}(?:max|limit|allowed|or (?:less|smaller|fewer)|supported)", behind, re.IGNORECASE
        )
        unit = match.groupdict().get("unit") or ""
        yield near is not None, float(match[1].replace(",", "")) * _UNITS.get(unit.lower(), 1)


def has_images(sample: Sample) -> bool:
    """Return True if images or videos belong to a sample's prompt."""
    return any(isinstance(part, Image | Video) for part in sample.prompt.conversation_parts)


def images_answered(benchmark: Benchmark, spec: RunSpec, folder: RunFolder) -> bool:
    """Return True if the journal of a run holds an answer to a sample with images."""
    heads = journal.read(folder.results, RecordHead, Damage(folder.results))
    answered = {head.sample_id for head in heads if head.status in ANSWERED}
    if benchmark.sample is not None and benchmark.grow is not None:
        return any(has_images(benchmark.sample(spec.data, sample_id)) for sample_id in answered)
    return bool(answered) and any(
        sample.id in answered and has_images(sample) for sample in samples_of(benchmark, spec)
    )


async def plain_image_refusal(model: Model) -> str | None:
    """Send a small grey image; return the words of a refusal, "" for an answer, None where a server says neither."""
    import numpy as np

    grey = stored_png(np.full((PROBE_SIDE, PROBE_SIDE, 3), 128, np.uint8))
    parts = (Image(BytesBlob("a plain grey image", grey)), Text("Which colour is this? Answer with one word."))
    try:
        await model.answer(Prompt(parts, generation=Generation(max_tokens=16)))
    except ModelError as error:
        if error.status == "refused":
            return ""
        found = image_refusal(error.message)
        other_format = found is not None and found.cause == "format" and "png" not in found.hint
        busy = error.retry and not refuses_images(error.message)
        return None if busy or other_format else error.message
    except Exception as error:  # noqa: BLE001 - a model of another user may raise anything
        return f"{type(error).__name__}: {error}"
    return ""
