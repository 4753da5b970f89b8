"""Write the embedded chart's creatures as a data set of one's own: class/genus/species/NNN.png and taxonomy.csv.

    python examples/chart_set.py creatures --pictures 8
    snellen build questions --images creatures --taxonomy creatures/taxonomy.csv \
        --noun creature --templates chart --copy-images --out creature-questions
    snellen run creature-questions --model embedded --report
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from snellen.benchmarks.chart.world import Dials
from snellen.benchmarks.chart.write_images import write
from snellen.errors import SnellenError

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("out", type=Path, help="the folder to write; it must not exist, or be empty")
parser.add_argument("--pictures", type=int, default=8, help="of each of the 27 species (default 8)")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--size", type=int, default=96, help="side of a picture in pixels (default 96)")
parser.add_argument("--fade", type=float, default=0.0, help="0: marks of full contrast (default); 1: none left")
given = parser.parse_args()
try:
    count = write(given.out, given.pictures, given.seed, given.size, Dials(taxa=round(given.fade * 1000)))
except SnellenError as error:
    sys.exit(f"{error}")
print(f"{count} pictures of 27 species in {given.out}")
