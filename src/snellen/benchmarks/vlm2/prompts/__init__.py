"""Prompts of VLM2-Bench: the question as it stands, guided reasoning, or images that are drawn on or cut.

The text of each variant lies in prompts/, one file a variant, in wording of our own: the authors describe the variants
and have released neither their prompts nor code for them. Replies to all but `vanilla` end in a marker line, and what
stands after the last marker is scored: an own choice too, since the released scorers know no marker.

Source: Zhang et al. 2025 (arXiv 2502.12084), section 4 and appendix F; `vanilla` as in the released inference scripts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2.dot_grid import Boxes, DotGrid, grid_of, margin_of, read_boxes
from snellen.benchmarks.vlm2.layout import BY_NAME, Subtask
from snellen.errors import UsageError
from snellen.sources.blobs import FileBlob
from snellen.toml_text import packaged_toml
from snellen.types import Generation, Image, Prompt, Text, Video

MARKER = "MY_ANSWER:"
VARIANTS = ("vanilla", "cot", "cot-special", "vp-grid", "vp-zoom")
SHORT_NAMES = {"special": "cot-special", "grid": "vp-grid", "zoom": "vp-zoom"} | dict.fromkeys(
    ("vp-zoom-o", "vp-zoom-p"), "vp-zoom"
)
OPTIONS: Mapping[str, str] = {
    "prompting": f"how questions are asked: {', '.join(VARIANTS)} (default: vanilla)",
    "boxes": "vp-zoom: file with the box of each image (.jsonl, .json, .csv, .tsv)",
    "grid": "vp-grid: columns x rows of the dots (default: 6x6)",
    "grid-color": "vp-grid: colour of dots and labels, or colour/outline (default: white/black)",
    "crop-margin": "vp-zoom: what is kept around a box, as a fraction of its width and height (default: 0)",
}
_BELONGS = {"boxes": "vp-zoom", "grid": "vp-grid", "grid-color": "vp-grid", "crop-margin": "vp-zoom"}
_PLACE = re.compile(r"\{(question|marker|images|last|columns|rows)\}")


class VariantWording(Struct, frozen=True, forbid_unknown_fields=True):
    """A variant's file in prompts/.

    Attributes:
        about: the variant in one line.
        subtasks: which subtasks it is for.
        pictures: `original`, `grid` (dots are drawn over them) or `crop` (cut to their boxes).
        text: what is asked, with the places {question} {marker} {images} {last} {columns} {rows}.
        max_tokens: new tokens that a reply may have at least, where the subtask's own bound (512 for general cues)
            would cut the reasoning off before its marker.
    """

    about: str
    subtasks: tuple[str, ...]
    pictures: Literal["original", "grid", "crop"]
    text: str
    max_tokens: int = 0


class VariantPrompting(Struct, frozen=True):
    """The prompt variant of one subtask, with its settings.

    Attributes:
        variant: one of `VARIANTS`.
        grid: the dots, for vp-grid.
        boxes: the boxes by image, for vp-zoom.
        margin: what is kept around a box, as a fraction of its sides.
    """

    variant: str = "vanilla"
    grid: DotGrid | None = None
    boxes: Boxes | None = None
    margin: float = 0.0


def variant_name(data: Data) -> str:
    """Return the variant that the options name, by its full name; unchecked."""
    name = data.options.get("prompting", "vanilla")
    return SHORT_NAMES.get(name, name)


def fitted(data: Data, subtask: Subtask) -> Data:
    """Return the settings of one subtask of the suite: vanilla where the variant is not for it.

    An unknown variant stays, so that it is refused.
    """
    variant = variant_name(data)
    if variant not in VARIANTS or subtask.name in wording(variant).subtasks:
        return data
    owned = [option for option, owner in _BELONGS.items() if owner == variant]
    options = {key: value for key, value in data.options.items() if key not in ("prompting", *owned)}
    return structs.replace(data, options=options)


def suite_notices(data: Data) -> list[str]:
    """Return a line that names the subtasks which a variant leaves as they are; none where it is for all."""
    variant = variant_name(data)
    if variant not in VARIANTS:
        return []
    subtasks = wording(variant).subtasks
    others = [name for name in BY_NAME if name not in subtasks]
    if not others:
        return []
    return [f"prompting={variant} is for {', '.join(subtasks)}; as vanilla: {', '.join(others)}"]


@cache
def wording(variant: str) -> VariantWording:
    """Read a variant's file in prompts/."""
    return msgspec.convert(packaged_toml("snellen.benchmarks.vlm2.prompts", f"{variant}.toml"), VariantWording)


def prompt_variant(data: Data, subtask: Subtask) -> VariantPrompting:
    """Return the prompting that the user's options ask for.

    Raises:
        UsageError: an unknown variant, one that is not for this subtask, an option of another variant, a value that
            cannot be used, vp-zoom without boxes.
        DataError: the boxes file cannot be read, or a box in it is none.
    """
    variant = variant_name(data)
    if variant not in VARIANTS:
        shorter = ", ".join(f"{short} for {full}" for short, full in SHORT_NAMES.items())
        raise UsageError(
            f"prompting={variant!r} is not known", f"One of these: {', '.join(VARIANTS)}. Short names: {shorter}."
        )
    known = wording(variant)
    if subtask.name not in known.subtasks:
        fitting = [name for name in VARIANTS if subtask.name in wording(name).subtasks]
        raise UsageError(
            f"prompting={variant} is not for {subtask.name}: it is for {', '.join(known.subtasks)}",
            f"{subtask.name} can be asked with {', '.join(fitting)}.",
        )
    for option, owner in _BELONGS.items():
        if option in data.options and variant != owner:
            raise UsageError(
                f"-o {option} belongs to prompting={owner}, and the questions are asked with {variant}",
                f"Omit it, or add -o prompting={owner}.",
            )
    if known.pictures == "grid":
        return VariantPrompting(variant, grid=grid_of(data.options))
    if known.pictures == "crop":
        path = _boxes_file(data)
        if path is None:
            raise UsageError(
                "prompting=vp-zoom needs the box of every image, and no file with boxes was given",
                "Give one with -o boxes=FILE; `snellen --help vlm2-prompting` says what it holds.",
            )
        return VariantPrompting(variant, boxes=read_boxes(path), margin=margin_of(data.options))
    return VariantPrompting(variant)


def compose(
    how: VariantPrompting, subtask: Subtask, images: Sequence[Image | Video], names: Sequence[str], question: str
) -> Prompt:
    """Build the prompt of one question: its images in order, a line break and the text, or its video and the text; no system text.

    Nothing is read here: images are drawn on and cut when their bytes are asked for, and one that has no box raises
    DataError then, so that its sample alone fails.

    Args:
        how: from `of`.
        subtask: which of the nine; its `max_tokens` bounds a reply to vanilla.
        images: the images, or the video of pc-vid.
        names: the images' paths as the question's row gives them, by which boxes are looked up.
        question: the row's question, unchanged.
    """
    values = {"question": question, "marker": MARKER, "images": str(len(images)), "last": str(len(images))}
    if how.grid is not None:
        values |= {"columns": str(how.grid.columns), "rows": str(how.grid.rows)}
    known = wording(how.variant)
    text = _PLACE.sub(lambda match: values[match[1]], known.text)
    parts = [
        _shown(how, part, number, name) for number, (part, name) in enumerate(zip(images, names, strict=True), start=1)
    ]
    lead = "" if subtask.family == "video" else "\n"  # as the released script of each family
    return Prompt(
        (*parts, Text(lead + text)), generation=Generation(max_tokens=max(subtask.max_tokens, known.max_tokens))
    )


def _shown(how: VariantPrompting, part: Image | Video, number: int, name: str) -> Image | Video:
    if isinstance(part, Image) and how.grid is not None:
        return Image(how.grid.over(part.blob, number))
    if isinstance(part, Image) and how.boxes is not None:
        return Image(how.boxes.crop(part.blob, name, how.margin))
    return part


def final_answer(reply: str, variant: str) -> str:
    """Return the scored part of a reply: all of it for vanilla, else the stripped text after the last marker.

    A reply without the marker comes back as it is; the scorer decides what it is worth.
    """
    if variant == "vanilla":
        return reply
    _, marker, answer = reply.rpartition(MARKER)
    return answer.strip() if marker else reply


def digest(data: Data) -> str:
    """Return the digest of what the variant reads beside the benchmark's own files: the boxes.

    Empty for the other variants.

    It belongs into the benchmark's digest, so that a run is not resumed with other boxes. Raises DataError.
    """
    path = _boxes_file(data)
    if path is None or variant_name(data) != "vp-zoom":
        return ""
    return blake2b(FileBlob(path).read(), digest_size=8).hexdigest()


def _boxes_file(data: Data) -> Path | None:
    text = data.options.get("boxes", "")
    return Path(text).expanduser() if text else None


def notices(how: VariantPrompting, names: Iterable[str]) -> list[str]:
    """Return warnings about the boxes, given the paths of all images that are asked about: counts of boxes for unknown
    images and of images without a box, one line each; nothing for the other variants.
    """
    return [] if how.boxes is None else how.boxes.notices(names)
