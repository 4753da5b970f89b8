"""Coverage of the intervals behind two claims about acuity: what an encoder resolves, and whether acuity explains answers.

    python bench/acuity_claims.py [observers]

Readouts of simulated encoders of known thresholds, widths and lapses: how many intervals hold the threshold. Simulated
answers of clusters of known area under the ROC curve: how many intervals hold the area.
"""

from __future__ import annotations

import sys
from math import log, log10, sqrt
from statistics import NormalDist

import numpy as np

from snellen.benchmarks.acuity.attribute import Attribute, Images, Scene
from snellen.benchmarks.acuity.conditions import Condition
from snellen.features.acuity import READOUTS, EncodePictures, EncoderSettings, encoder_threshold
from snellen.scoring.psychometrics.curve import seen
from snellen.scoring.statistics.roc import roc_area

OPTIONS = tuple("abcdefgh")


def coded(scene: Scene) -> Images:
    """Draw a picture whose pixels say answer and level."""
    level = round(1000 * log10(scene.value))
    return (np.array([[scene.answer, level % 256, level // 256]], dtype=np.uint8),)


CODED = Condition("coded", Attribute("coded", "px", "", ("?", "?"), OPTIONS, 100.0, 1.0, coded), "", 512)


def simulated_encoder(threshold: float, width: float, lapse: float, seed: int) -> EncodePictures:
    """Return an encoder whose features are the right option where it is seen, and any option elsewhere."""
    generator = np.random.default_rng(seed)

    def encode(pictures):  # type: ignore[no-untyped-def]
        rows = np.zeros((len(pictures), len(OPTIONS)), dtype=np.float32)
        for row, pixels in enumerate(pictures):
            answer, low, high = map(int, pixels[0])
            distance = (low + 256 * high) / 1000 - log10(threshold)
            sees = (1 - lapse) * float(seen("logistic", np.array(distance / width)))
            rows[row, answer if generator.random() < sees else generator.integers(len(OPTIONS))] = 1.0
        return rows + 0.01 * generator.standard_normal(rows.shape).astype(np.float32)

    return encode


def readouts(observers: int, settings: EncoderSettings) -> None:
    """Print coverage and bias of both readouts."""
    generator = np.random.default_rng(0)
    held: dict[str, list[bool]] = {readout: [] for readout in READOUTS}
    bias: dict[str, list[float]] = {readout: [] for readout in READOUTS}
    for seed in range(observers):
        threshold = float(10 ** generator.uniform(0.4, 1.6))
        width = float(np.exp(generator.uniform(log(0.15), log(0.8))))
        encode = simulated_encoder(threshold, width, generator.uniform(0, 0.08), seed)
        for known in encoder_threshold(CODED, encode, settings).readouts:
            if known.value is not None:
                held[known.readout].append(known.low < threshold < known.high)
                bias[known.readout].append(log10(known.value / threshold))
    for readout in READOUTS:
        print(
            f"{readout}, {settings.train} training and {settings.test} test drawings a level: {100 * np.mean(held[readout]):.0f} % "
            f"of {len(held[readout])} intervals hold the threshold, bias {np.mean(bias[readout]):+.3f} decades"
        )


def areas(observers: int) -> None:
    """Print coverage of the area's interval for answers in clusters of one and of four, weak and strong dependence."""
    generator = np.random.default_rng(1)
    for clusters, each in ((30, 1), (100, 1), (60, 4)):
        for distance in (0.0, 0.5, 1.5):
            truth = NormalDist().cdf(distance / sqrt(2))
            held = claims = 0
            for _ in range(observers):
                group = np.repeat(np.arange(clusters), each)
                right = np.repeat(generator.random(clusters) < 0.6, each)
                own = sqrt(0.5) * generator.standard_normal(clusters)[group]
                margin = distance * right + own + sqrt(0.5) * generator.standard_normal(len(group))
                area = roc_area(margin, right, group.astype(np.int64))
                low, high = area.ci95 or (0.0, 1.0)
                held += low <= truth <= high
                claims += area.excludes_half
            print(
                f"area {truth:.2f}, {clusters} clusters of {each}: {100 * held / observers:.1f} % of {observers:,} intervals hold "
                f"it, {100 * claims / observers:.0f} % exclude .5"
            )


def main() -> None:
    """Print both parts."""
    observers = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    areas(10 * observers)
    readouts(observers, EncoderSettings())
    readouts(observers, EncoderSettings(train=64, test=48))


if __name__ == "__main__":
    main()
