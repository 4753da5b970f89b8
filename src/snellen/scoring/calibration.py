"""Option probabilities of choice and yes/no answers, and their calibration: does a confidence of 80 % mean 80 % correct?

A server gives the likeliest tokens at each place of an answer. Of an answer to a question with options, the first token
that holds a letter or digit is looked at. Its alternatives that name an option (`B`, ` B`, `(B`, `B.`) are summed for each
option; for yes/no questions so are `Yes`, ` yes`, `True`, `T` and their opposites. What was seen of the whole
probability is the seen share. Probabilities of options are those sums, divided by the seen share. An option that is not among
the alternatives has no probability here.

The confidence of an answer is the probability of the option that was read from the reply. Expected calibration error:
Naeini, Cooper and Hauskrecht 2015, AAAI; Guo et al. 2017, arXiv 1706.04599. Brier score: Brier 1950, Monthly Weather Review
78:1, of the confidence alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from snellen.scoring.statistics.bootstrap import calibration_error
from snellen.scoring.statistics.intervals import interval
from snellen.types import Metric, Sample, Score, TokenLogprob

BINS = 10
LEAST_SHARE = 0.1
"""Least share of the probability on options: below it, the first token of the answer was no option."""
_MARKUP = " \t\r\n\u00a0▁ĠĊ*_`\"'“”‘’([{<"
_ENDS = " \t\r\n▁ĠĊ*_`\"'“”‘’)]}>.,:;!"
_TRUTH = {
    **dict.fromkeys(("yes", "true"), "yes"),
    **dict.fromkeys(("no", "false"), "no"),
}
_TRUTH_LETTERS = {"T": "yes", "Y": "yes", "F": "no", "N": "no"}


class OptionProbabilities(Struct, frozen=True):
    """Probabilities of a question's options.

    Attributes:
        options: option (a letter, or `yes` and `no`) to its share of what was seen, 0 to 1; those that were seen.
        seen: share of the whole probability that lies on these options, 0 to 1.
    """

    options: Mapping[str, float]
    seen: float


def option_probabilities(sample: Sample, tokens: Sequence[TokenLogprob] | None) -> OptionProbabilities | None:
    """Return the probabilities of a sample's options from the tokens of its answer.

    Returns:
        None for other kinds of questions, without probabilities, and where options have less than a tenth of the
        probability at the first token of the answer: the model then began with other words.
    """
    if not tokens or sample.kind not in ("choice", "truth"):
        return None
    names = {option: option for option in sample.options} if sample.kind == "choice" else {}
    if sample.kind == "choice" and not names:
        return None
    first = next((token for token in tokens if token.text.strip(_MARKUP + _ENDS)), None)
    if first is None:
        return None
    listed = dict(first.alternatives) if first.alternatives else {}
    pairs = list(first.alternatives)
    if first.text not in listed and first.logprob is not None:
        pairs.append((first.text, first.logprob))
    sums: dict[str, float] = {}
    for text, logprob in pairs:
        option = _option(text, names, truth=sample.kind == "truth")
        if option is not None:
            sums[option] = sums.get(option, 0.0) + math.exp(min(0.0, logprob))
    seen = sum(sums.values())
    if seen < LEAST_SHARE:
        return None
    return OptionProbabilities({option: value / seen for option, value in sorted(sums.items())}, min(1.0, seen))


def _option(text: str, names: Mapping[str, str], *, truth: bool) -> str | None:
    """Return the option that a token names; None for any other token. Letters count in their own case: `a` is an article."""
    word = text.lstrip(_MARKUP).rstrip(_ENDS)
    if truth:
        return _TRUTH_LETTERS.get(word) or _TRUTH.get(word.casefold())
    return names.get(word)


def confidence_of(kind: str, score: Score, probabilities: OptionProbabilities | None) -> float | None:
    """Return the probability of the option that was read from the reply; None if it has none."""
    if probabilities is None or score.extracted is None or score.verdict not in ("correct", "wrong"):
        return None
    read: Any = score.extracted
    if kind == "truth":
        read = ("yes" if read else "no") if isinstance(read, bool) else _option(str(read), {}, truth=True)
    return probabilities.options.get(str(read))


class OptionReliabilityBin(Struct, frozen=True):
    """Answers whose confidence lies above `low` and up to `high`: their number, mean confidence and accuracy."""

    low: float
    high: float
    n: int
    confidence: float
    accuracy: float
    ci95: tuple[float, float] | None = None


class ConfidenceRows:
    """Confidences of answers and whether these are correct, collected answer by answer."""

    def __init__(self) -> None:
        self._confidence: list[float] = []
        self._correct: list[bool] = []
        self._seen: list[float] = []
        self._cluster: list[int] = []
        self._clusters: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._confidence)

    def add(self, kind: str, cluster: str, score: Score, probabilities: OptionProbabilities | None) -> None:
        """Add an answer; one without a confidence is left out, and lowers the coverage.

        Args:
            cluster: what it shares with others: its group, else its own id.
        """
        confidence = confidence_of(kind, score, probabilities)
        if confidence is None or probabilities is None:
            return
        self._confidence.append(confidence)
        self._correct.append(score.verdict == "correct")
        self._seen.append(probabilities.seen)
        self._cluster.append(self._clusters.setdefault(cluster, len(self._clusters)))

    def metrics(self, expected: int) -> list[Metric]:
        """Return `calibration/ece`, `/brier`, `/confidence` and `/seen_share`; empty without rows.

        A group of samples is a cluster.

        Args:
            expected: answers that a complete run has, for the coverage.
        """
        if not len(self):
            return []
        confidence, correct, seen, cluster = self._arrays()
        rows = len(confidence)
        covered = min(1.0, rows / expected) if expected else 1.0
        place = _places(confidence)
        ece, ends = calibration_error(confidence, correct, place, BINS, cluster)
        metrics = [Metric("calibration/ece", ece, rows, ends, coverage=covered, lower_is_better=True)]
        for name, values in (
            ("brier", np.square(confidence - correct)),
            ("confidence", confidence),
            ("seen_share", seen),
        ):
            lower, value = name == "brier", float(values.mean())
            ends = interval(values, cluster)
            metrics.append(Metric(f"calibration/{name}", value, rows, ends, coverage=covered, lower_is_better=lower))
        return metrics

    def bins(self) -> list[OptionReliabilityBin]:
        """Return the reliability diagram: the bins that hold answers, in order."""
        if not len(self):
            return []
        confidence, correct, _, cluster = self._arrays()
        place = _places(confidence)
        return [
            OptionReliabilityBin(
                number / BINS,
                (number + 1) / BINS,
                int((place == number).sum()),
                float(confidence[place == number].mean()),
                float(correct[place == number].mean()),
                interval(correct[place == number], cluster[place == number]),
            )
            for number in range(BINS)
            if (place == number).any()
        ]

    def _arrays(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        return (
            np.array(self._confidence, dtype=np.float64),
            np.array(self._correct, dtype=np.float64),
            np.array(self._seen, dtype=np.float64),
            np.array(self._cluster, dtype=np.int64),
        )


def _places(confidence: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bin of each confidence: ten of equal width, closed above; 0 is in the first."""
    edges = np.arange(1, BINS + 1) / BINS
    return np.minimum(np.searchsorted(edges, confidence - 1e-12), BINS - 1).astype(np.int64)
