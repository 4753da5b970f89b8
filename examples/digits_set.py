"""Write the chart's scanned digits as pictures with splits, as anybody's own data set for `snellen features` would be.

    python examples/digits_set.py digits
    snellen features extract --encoder embedded --split digits/train.csv --split digits/test.csv --images digits --out digit-features
    snellen run chart/digits --model embedded --out digit-answers
    snellen features report digit-features --with digit-answers

A test picture is called as chart/digits calls its scan, so that features and answers meet.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from snellen.benchmarks.chart.digits import enlarged, split
from snellen.sources.blobs import stored_png

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def write(out: Path, size: int = 96) -> int:
    """Write train/ and test/ with a picture a scan, train.csv, test.csv and classes.txt; returns how many pictures.

    Args:
        out: a folder that is made; what lies there under the same names is written over.
        size: side of a picture in pixels.
    """
    written = 0
    for name in ("train", "test"):
        (out / name).mkdir(parents=True, exist_ok=True)
        rows = []
        for number, (scan, label) in enumerate(zip(*split(name), strict=True)):
            path = f"{name}/digit-{number:04}.png"
            (out / path).write_bytes(stored_png(enlarged(scan, size)))
            rows.append(f"{path},{int(label)}\n")
        (out / f"{name}.csv").write_text("".join(rows), encoding="utf-8")
        written += len(rows)
    (out / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES), encoding="utf-8")
    return written


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--size", type=int, default=96, help="side of a picture in pixels (default 96)")
    given = parser.parse_args()
    print(f"{write(given.out, given.size)} pictures of 10 digits in {given.out}")
