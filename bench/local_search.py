"""The local search of the tools: queries a second over 10,000 pages, and milliseconds a query over 100,000 image hashes.

    python bench/local_search.py [--pages 10000] [--images 100000] [--rates] [--json FILE]

Pages are of 400 words drawn by Zipf's law from 30,000; half of the queries hold words of a page's title, half four words
drawn by the same law, so that most of those occur nearly everywhere. Times are wall time of one thread, without the
event loop; CPU time stands beside it, since wall time is that of the machine and of whatever else it does. Targets: 1,000 queries a second, 20 ms a picture.

`--rates` measures how often copies are found, on photographs that scikit-image carries. The originals are 85 pictures:
17 photographs and the four quarters of each. The distractors are windows of the same photographs, 15 to 45 % of their
width and height, half of them turned by a random angle, each in all eight orientations; no window is a near-duplicate of
an original. Hit: the original
comes first, and within the distance at which a match is told at all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "models" / "tools"))

import photographs

from snellen.models.tools import local_index
from snellen.models.tools.local_index import LocalBackend
from snellen.models.tools.perceptual_hash import CROPS, WORDS, HashIndex, stacked, variants


def text_figures(pages: int) -> dict[str, Any]:
    """Queries a second, over an index in a folder of its own."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(rng.choice(list("abcdefghiklmnoprstuvwy"), rng.integers(3, 10))) for _ in range(30_000)])
    chance = 1 / np.arange(1, len(words) + 1) ** 1.05
    chance /= chance.sum()
    titles = [words[rng.choice(len(words), 5, p=chance)].tolist() for _ in range(pages)]
    with tempfile.TemporaryDirectory() as folder:
        home, index = Path(folder) / "pages", Path(folder) / "index"
        home.mkdir()
        index.mkdir()
        with (home / "pages.jsonl").open("w") as file:
            for number, title in enumerate(titles):
                text = " ".join(words[rng.choice(len(words), 400, p=chance)])
                row = {"url": f"https://example.org/{number}", "title": " ".join(title), "text": text}
                file.write(json.dumps(row) + "\n")
        started = time.perf_counter()
        local_index.write_index(home, index)
        built = time.perf_counter() - started
        backend = LocalBackend(home, index)
        queries = [" ".join(titles[rng.integers(pages)][:4]) for _ in range(1000)]
        queries += [" ".join(words[rng.choice(len(words), 4, p=chance)]) for _ in range(1000)]
        backend.find(queries[0], 5)
        rounds, cpu = [], []
        for _ in range(3):
            started, spent = time.perf_counter(), time.process_time()
            for query in queries:
                backend.find(query, 5)
            rounds.append(len(queries) / (time.perf_counter() - started))
            cpu.append(len(queries) / (time.process_time() - spent))
    return {
        "pages": pages,
        "index_s": round(built, 1),
        "queries_per_s": round(max(rounds)),
        "queries_per_cpu_s": round(max(cpu)),
    }


def image_figures(images: int) -> dict[str, Any]:
    """Milliseconds a query, over random hashes: how long it takes does not depend on where they come from."""
    rng = np.random.default_rng(0)
    index = HashIndex(rng.integers(0, 2**64, (len(CROPS), WORDS, images), dtype=np.uint64))
    queries = [variants(picture, True) for picture in photographs.originals()[:50]]
    took, cpu = [], []
    for hashed in [query for query in queries if query is not None]:
        started, spent = time.perf_counter(), time.process_time()
        index.nearest(hashed, 5)
        took.append(1000 * (time.perf_counter() - started))
        cpu.append(1000 * (time.process_time() - spent))
    return {
        "images": images,
        "ms_median": round(float(np.median(took)), 2),
        "ms_p95": round(float(np.percentile(took, 95)), 2),
        "cpu_ms_median": round(float(np.median(cpu)), 2),
    }


def rates(images: int) -> dict[str, Any]:
    """How often each kind of copy is found among `images` pictures; and how often a picture that is not there is."""
    rng = np.random.default_rng(1)
    originals = photographs.originals()
    hashes = [variants(picture) for picture in originals]
    while len(hashes) < images:
        part = photographs.window(rng).resize((128, 128))
        for turn in (None, *Image.Transpose):
            found = variants(part if turn is None else part.transpose(turn))
            if found is not None:
                hashes.append(found)
    index = HashIndex(stacked(hashes))
    took: list[float] = []

    def search(picture: Any) -> list[tuple[int, int]]:
        hashed = variants(picture, True)
        started = time.perf_counter()
        found = index.nearest(hashed, 1) if hashed is not None else []
        took.append(1000 * (time.perf_counter() - started))
        return found

    rows = {}
    for name, copy in photographs.COPIES.items():
        found = [search(copy(picture, rng)) for picture in originals]
        rows[name] = sum(bool(one) and one[0][0] == number for number, one in enumerate(found)) / len(originals)
    strangers = [search(photographs.window(rng)) for _ in range(500)]
    rows["not there, and a match told"] = sum(map(bool, strangers)) / len(strangers)
    return {"images": images, "ms_median": round(float(np.median(took)), 2), "rates": rows}


def main() -> None:
    """Measure and print; with --json also write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=10_000)
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--rates", action="store_true", help="also how often copies are found: some minutes")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    figures: dict[str, Any] = {"text": text_figures(given.pages), "pictures": image_figures(given.images)}
    text, pictures = figures["text"], figures["pictures"]
    print(
        f"{text['queries_per_s']:,} queries/s over {text['pages']:,} pages, "
        f"{text['queries_per_cpu_s']:,} a CPU second (indexed in {text['index_s']} s)"
    )
    print(
        f"{pictures['ms_median']} ms a picture over {pictures['images']:,} hashes "
        f"(95th percentile {pictures['ms_p95']} ms, CPU {pictures['cpu_ms_median']} ms)"
    )
    if given.rates:
        figures["rates"] = rates(given.images)
        print(f"among {given.images:,} real hashes, {figures['rates']['ms_median']} ms:")
        for name, rate in figures["rates"]["rates"].items():
            print(f"  {name:32} {rate:6.1%}")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
