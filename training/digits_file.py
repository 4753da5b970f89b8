"""Write the chart's digits file from scikit-learn's copy of the UCI handwritten digits. Run once; the file is committed.

    python training/digits_file.py src/snellen/benchmarks/chart/digits.png

The file is one grey PNG: 1,797 rows of 65 bytes, a row being the 64 pixels of one 8 x 8 scan (0 to 16) and its label.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits


def main(out: Path) -> None:
    """Store images and labels together, lossless and small."""
    digits = load_digits()
    rows = np.concatenate([digits.data.astype(np.uint8), digits.target.astype(np.uint8)[:, None]], axis=1)
    Image.fromarray(rows).save(out, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
