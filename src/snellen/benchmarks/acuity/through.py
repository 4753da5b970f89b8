"""Pictures that are changed on their way to the model: refused, or named in each condition with `-o through=yes`.

Acuity measures pictures as drawn. A run whose pictures are encoded, shrunk or corrupted measures something else, so that
its conditions have other names and ids: `gap+jpeg-90`, `gap@512+jpeg-90/r000/q0/x+1.5051`.
"""

from __future__ import annotations

import re

from msgspec import structs

from snellen.benchmarks.acuity.conditions import plan
from snellen.benchmarks.base import Data
from snellen.errors import UsageError
from snellen.types import MediaSettings

YES = "yes"
"""What a user writes; a run records the changes themselves in its place."""
_WORDS = {
    "jpeg": "jpeg quality {}",
    "webp": "webp quality {}",
    "side": "a long side of {} px",
    "pixels": "{} pixels",
    "blank": "blank images",
    "blur": "blur {}",
    "salt-pepper": "salt and pepper {} %",
    "grey": "grey",
    "jitter": "jitter {}",
    "downscale": "sides divided by {}",
    "square": "a square of {} px",
}
_CHANGE = re.compile(rf"({'|'.join(_WORDS)})(?:-([0-9.]+(?:e[+-]?[0-9]+)?))?")


def change_names(media: MediaSettings) -> str:
    """Return what is done to pictures, in its order: `blur-3+side-256+jpeg-90`; empty if their pixels stay as drawn."""
    changes = [each.strip().replace(":", "-") for each in media.corrupt.split(",") if each.strip()]
    if media.max_long_side is not None:
        changes.append(f"side-{media.max_long_side}")
    if media.max_pixels is not None:
        changes.append(f"pixels-{media.max_pixels}")
    if media.blank:
        changes.append("blank")
    if media.format in ("jpeg", "webp"):  # PNG has no loss
        changes.append(f"{media.format}-{media.quality}")
    return "+".join(changes)


def change_words(through: str) -> str:
    """Return changes in words: `blur 3, a long side of 256 px, jpeg quality 90`."""
    texts = []
    for change in through.split("+"):
        match = _CHANGE.fullmatch(change)
        texts.append(change if match is None else _WORDS[match[1]].format(match[2]))
    return ", ".join(texts)


def with_media(data: Data, media: MediaSettings) -> Data:
    """Return the data of a run whose pictures go to the model with these settings.

    Raises:
        UsageError: the settings change the pictures and the user has not said `through=yes`, or the reverse; the settings
            leave frames of clips out.
    """
    clips = [each.name for each in plan(data.options).conditions if each.attribute.clip]
    if clips and (media.fps is not None or media.frames is not None):
        option = f"--frames {media.frames}" if media.fps is None else f"--fps {media.fps:g}"
        raise UsageError(
            f"{option} leaves frames out, and {clips[0]} measures what happens between frames. No request was sent.",
            f"Omit {option.split()[0]}.",
        )
    names, declared = change_names(media), data.options.get("through", "")
    if names == declared:
        return data
    if not declared:
        raise UsageError(
            f"acuity measures pictures as they are drawn, and these settings change them: {change_words(names)}. "
            "No request was sent.",
            f"Omit {options_of(media)}, or measure through it: -o through=yes (snellen acuity: --through).",
        )
    if not names:
        raise UsageError(
            f"through={declared}: no setting changes the pictures on their way to the model",
            "Omit through, or add what they go through, such as --image-format jpeg."
            if declared == YES
            else f"Add the settings of that run: {change_words(declared)}.",
        )
    if declared != YES:
        raise UsageError(
            f"through={declared} says {change_words(declared)}, and the settings are {change_words(names)}",
            "Write through=yes, which takes the names from the settings.",
        )
    return structs.replace(data, options={**data.options, "through": names})


def options_of(media: MediaSettings) -> str:
    """Return the options that change pictures, as users type them."""
    options = {
        f"--corrupt {media.corrupt}": media.corrupt,
        f"--max-long-side {media.max_long_side}": media.max_long_side is not None,
        f"--max-pixels {media.max_pixels}": media.max_pixels is not None,
        "--blank-images": media.blank,
        f"--image-format {media.format}": media.format in ("jpeg", "webp"),
    }
    return ", ".join(option for option, changes in options.items() if changes)
