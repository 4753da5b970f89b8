"""The chart's creatures as files: folders of images with a taxonomy, as anybody's own data set would be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from snellen.benchmarks.chart import world
from snellen.benchmarks.chart.rng import Stream
from snellen.benchmarks.chart.world import Creature, Dials
from snellen.errors import StorageError, UsageError
from snellen.sources.blobs import stored_png

TAXONOMY = "taxonomy.csv"


def portraits(
    per_species: int, seed: int = 0, size: int = 96, dials: Dials | None = None
) -> Iterator[tuple[str, Creature, bytes]]:
    """Portraits of all 27 species, in order.

    Args:
        per_species: how many of each.
        seed: what is drawn besides the species. The keys begin with "chart", as those of evaluation do, so none of
            these images was seen in training.
        size: side in pixels.
        dials: how small the differences are; plain by default.

    Yields:
        (path `class/genus/genus_epithet/NNN.png`, the creature, the PNG)
    """
    for taxon in range(27):
        for number in range(1, per_species + 1):
            stream = Stream("chart", seed, "pictures", taxon, number)
            who = world.creature(stream, taxon)
            canvas = world.portrait(who, stream, size, dials or Dials())
            folders = "/".join(who.name(level).replace(" ", "_") for level in world.LEVELS)
            yield f"{folders}/{number:03}.png", who, stored_png(world.finished(canvas, stream))


def write(out: Path, per_species: int, seed: int = 0, size: int = 96, dials: Dials | None = None) -> int:
    """Write `portraits` and `taxonomy.csv` (class, genus, species) into a new folder.

    Returns:
        How many images were written.

    Raises:
        UsageError: numbers out of range, or the folder is not empty.
        StorageError: the folder cannot be written.
    """
    if not 1 <= per_species <= 999 or not 48 <= size <= 1024:
        raise UsageError(f"{per_species} pictures of {size} pixels a side: 1 to 999 of 48 to 1024 were expected")
    if dials is not None and any(not 0 <= dial <= 1000 for dial in structs.astuple(dials)):
        raise UsageError(f"{dials}: dials are from 0 to 1000 thousandths")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there and is not empty; nothing is overwritten", "Name another folder.")
    rows: dict[str, None] = {}
    written = 0
    try:
        for path, who, data in portraits(per_species, seed, size, dials):
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_bytes(data)
            rows[",".join(who.name(level) for level in world.LEVELS)] = None
            written += 1
        (out / TAXONOMY).write_text("\n".join([",".join(world.LEVELS), *rows]) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write into {out}: {error.strerror}", "Name a folder on another disk.") from error
    return written


def write_questions(out: Path, per_species: int = 4, seed: int = 0) -> int:
    """Write images of creatures and `questions.csv` about them into a new folder, as anybody's own questions would be.

    The columns are id, image, question, A to C, answer and topic.

    Returns:
        How many questions were written.

    Raises:
        UsageError, StorageError: as `write`.
    """
    write(out, per_species, seed)
    lines = ["id,image,question,A,B,C,answer,topic"]
    for number, (path, who, _) in enumerate(portraits(per_species, seed)):
        topic = ("class", "shape")[number % 2]
        names = world.CLASSES if topic == "class" else world.SHAPES
        turn = number // 2 % 3
        options = (*names[turn:], *names[:turn])
        answer = "ABC"[options.index(who.name(topic))]
        lines.append(f"q{number:03},{path},What is the {topic} of this creature?,{','.join(options)},{answer},{topic}")
    (out / "questions.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines) - 1
