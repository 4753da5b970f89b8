"""Near-duplicates by an encoder: which copies of photographs it tells, at which cosine, and what it tells wrongly.

    python bench/looks.py [--encoder embedded] [--windows 2000] [--json FILE]

The originals are 85 pictures: 17 photographs that scikit-image carries and the four quarters of each; beside them lie
windows of the same photographs, 15 to 45 % of their width and height, half of them turned, and 200 further ones are looked
for that are not there. Told: the original, or with a stranger anything, is at least that alike.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "models" / "tools"))

import photographs

from snellen.curation import near_duplicates

LEVELS = (0.98, 0.99, 0.995)
STRANGERS = 200


def rates(encoder: near_duplicates.ImageEncoder, windows: int) -> dict[str, Any]:
    """Of each kind of copy: how often its original is the most alike, and how often it is told at each level."""
    rng = np.random.default_rng(1)
    originals = photographs.originals()
    started = time.process_time()
    own = encoder.encode_collection(photographs.png(picture) for picture in originals)
    spent = 1000 * (time.process_time() - started) / len(originals)
    others = encoder.encode_collection(
        photographs.png(photographs.window(rng).resize((128, 128))) for _ in range(windows)
    )
    held = np.concatenate([own, others]) if windows else own
    rows: dict[str, Any] = {}
    for name, copy in photographs.COPIES.items():
        found = [
            near_duplicates.cosines(encoder.encode_query(photographs.png(copy(one, rng))), held) for one in originals
        ]
        mine = np.array([row[number] for number, row in enumerate(found)])
        first = float(np.mean([row.argmax() == number for number, row in enumerate(found)]))
        rows[name] = {"first": first, **{str(level): float((mine >= level).mean()) for level in LEVELS}}
    strangers = [
        near_duplicates.cosines(encoder.encode_query(photographs.png(photographs.window(rng))), held).max()
        for _ in range(STRANGERS)
    ]
    rows["not there"] = {str(level): float((np.array(strangers) >= level).mean()) for level in LEVELS}
    whole = list(range(0, len(originals), 5))
    among = np.array(
        [near_duplicates.cosines(encoder.encode_query(photographs.png(originals[one])), own[whole]) for one in whole]
    )
    np.fill_diagonal(among, -1)
    pairs = {str(level): int((among >= level).sum()) for level in LEVELS}
    return {"encoder": encoder.name, "cpu_ms_a_picture": round(spent, 1), "rates": rows, "other_photographs": pairs}


def search_ms(size: int = 100_000, width: int = 128) -> float:
    """Milliseconds of CPU for one search among random vectors."""
    rng = np.random.default_rng(0)
    held = rng.normal(size=(size, 3, width)).astype(np.float32)
    asked = rng.normal(size=(6, width)).astype(np.float32)
    took = []
    for _ in range(9):
        started = time.process_time()
        near_duplicates.cosines(asked, held)
        took.append(1000 * (time.process_time() - started))
    return round(float(np.median(took)), 1)


def main() -> None:
    """Measure and print; with --json also write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="embedded")
    parser.add_argument("--windows", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    encoder = near_duplicates.open_image_encoder(given.encoder)
    if encoder is None:
        parser.error("--encoder none compares nothing")
    figures = {**rates(encoder, given.windows), "cpu_ms_a_search_of_100_000": search_ms()}
    print(f"{figures['encoder']}: {figures['cpu_ms_a_picture']} ms of CPU a picture, "
          f"{figures['cpu_ms_a_search_of_100_000']} ms a search over 100,000")  # fmt: skip
    for name, row in figures["rates"].items():
        print(f"  {name:32} " + "  ".join(f"{key} {value:6.1%}" for key, value in row.items()))
    print(f"  pairs of other photographs, of 272: {figures['other_photographs']}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
