"""The chart's options: number of questions, size of images, size of differences."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.world import Dials
from snellen.errors import UsageError

NAMES = tuple(field.name for field in structs.fields(Dials))
SHARED = {
    "questions": "questions of each kind (default 80)",
    "size": "side of a picture in pixels, 48 to 1024 (default 96)",
}
CREATURES = {
    **SHARED,
    "key": "yes: put the field guide (which mark means which name) before every question (default no)",
    "difficulty": "all differences at once: 0 plain (default), 1 none left",
    "difficulty.taxa": "contrast of the marks that tell class, genus and species, 0 to 1",
    "difficulty.colour": "contrast of the body colours, 0 to 1",
    "difficulty.shape": "how far every body is bent towards a disc, 0 to 1",
    "difficulty.size": "how close the sizes are, 0 to 1",
    "difficulty.texture": "how faint stripes and spots are, 0 to 1",
    "difficulty.count": "how much the bodies of a scene differ in size, 0 to 1",
    "difficulty.place": "how close left and right, above and below are, 0 to 1",
    "difficulty.depth": "how close near and far are in size, 0 to 1",
    "difficulty.motion": "how short the way of a moving creature is, 0 to 1",
}


def dials(data: Data) -> Dials:
    """Return the difficulty dials; a dial of its own overrides `difficulty`.

    Raises:
        UsageError: a value is not a number from 0 to 1.
    """
    base = _thousandths(data, "difficulty", 0)
    return Dials(**{name: _thousandths(data, f"difficulty.{name}", base) for name in NAMES})


def _thousandths(data: Data, name: str, default: int) -> int:
    text = data.options.get(name)
    if text is None:
        return default
    try:
        value = int(Decimal(text) * 1000)
    except (InvalidOperation, ValueError, OverflowError):
        value = -1
    if not 0 <= value <= 1000:
        raise UsageError(f"-o {name}={text}: expected a number from 0 (plain) to 1 (no difference left).")
    return value
