"""Builds about 1,000,000 questions from made-up rows, no pixels: seconds, peak memory and one digest over all files.

A taxonomy of 10,000 species in 2,500 genera and 400 families, 280,000 image rows at the first argument's default;
truth and choice at genus and species, four questions an image. With --workers 2 the digest must be the same.

    python bench/build_questions.py [QUESTIONS] [--workers N]
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from hashlib import sha256
from pathlib import Path

SPECIES, GENERA, FAMILIES = 10_000, 2_500, 400
SYLLABLES = (
    "ba",
    "co",
    "di",
    "fu",
    "ga",
    "lo",
    "mi",
    "nu",
    "pe",
    "qua",
    "ri",
    "so",
    "ta",
    "ve",
    "xi",
    "zo",
    "lan",
    "mor",
)


def word(number: int, ending: str) -> str:
    """A name for a number; different numbers have different names."""
    parts = []
    for _ in range(4):
        number, part = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[part])
    return "".join(parts).capitalize() + ending


def make(folder: Path, images: int) -> tuple[Path, Path]:
    """The taxonomy and the rows."""
    species = []
    with (folder / "taxonomy.csv").open("w") as table:
        table.write("family,genus,species\n")
        for number in range(SPECIES):
            genus = number % GENERA
            name = f"{word(genus, 'us')} {word(number, 'ii').lower()}"
            table.write(f"{word(genus % FAMILIES, 'idae')},{word(genus, 'us')},{name}\n")
            species.append(name)
    with (folder / "rows.csv").open("w") as rows:
        for number in range(images):
            rows.write(f"val/{number % SPECIES:05d}/{number:08d}.jpg,{species[number % SPECIES]}\n")
    return folder / "taxonomy.csv", folder / "rows.csv"


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("questions", nargs="?", type=int, default=1_120_000)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    if given.workers == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as place:
        taxonomy, rows = make(Path(place), given.questions // 4)
        from snellen.questions.generate import BuildSettings, generate

        out = Path(place) / "set"
        start, cpu = time.perf_counter(), time.process_time()
        manifest = generate(
            BuildSettings(
                out=out,
                rows=rows,
                taxonomy=str(taxonomy),
                at=("genus", "species"),
                kinds=("truth", "choice"),
                workers=given.workers,
            )
        )
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        total = sha256()
        for path in sorted(path for path in out.rglob("*") if path.is_file()):
            total.update(f"{path.relative_to(out)}\0".encode() + sha256(path.read_bytes()).digest())
        size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(
        f"{manifest.questions:,} questions about {manifest.images:,} images, {given.workers} worker(s): "
        f"{seconds:.1f} s wall, {cpu:.1f} s CPU here, {size / 1e6:,.0f} MB written"
    )
    print(f"peak memory {own:,.0f} MB" + (f", and {workers:,.0f} MB in the largest worker" if workers else ""))
    print(f"sha256 {total.hexdigest()}")


if __name__ == "__main__":
    main()
