"""Accuracy under attack over the attack's strength, and what two sets of images lose beside each other.

AutoAttack's ensemble, run by its authors' package: APGD on two losses, FAB and Square, without a step size to tune.

Source: Croce and Hein 2020, arXiv 2003.01690; package pyautoattack (MIT), an optional extra.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from snellen.errors import MissingExtraError, UsageError
from snellen.features.attacks.pgd import (
    BATCH,
    STEPS,
    Ball,
    GivenStarts,
    Logits,
    Norm,
    RandomStarts,
    Starts,
    evaluating,
    pgd,
    predictions,
)
from snellen.installation import install_hint
from snellen.scoring.statistics import mean_of, wilson
from snellen.scoring.statistics.intervals import mover
from snellen.types import Interval, IntervalMethod, Metric

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d{1,2})?", re.ASCII | re.IGNORECASE)
EPS = ("0", "0.25/255", "0.5/255", "1/255", "2/255", "4/255", "8/255")


class AttackSettings(Struct, frozen=True):
    """Settings of an accuracy under attack, besides classifier and images.

    Attributes:
        attack: which algorithm.
        eps: strengths as they were written.
        alpha: length of a step at each.
        prediction: of which image.
        given_starts: whether the starts were given.
    """

    attack: str
    norm: Norm
    eps: tuple[str, ...]
    steps: int
    alpha: tuple[float, ...]
    random_start: bool
    restarts: int
    seed: int
    targeted: bool
    space: str = "pixels in [0, 1]"
    loss: str = "cross-entropy of the label, its gradient in float64 without the factor 1 - p"
    prediction: str = "after the last step; of several restarts the worst"
    given_starts: bool = False


class AttackCurve(Struct, frozen=True, eq=False):
    """n images at e strengths.

    Attributes:
        clean: [n] bool, right without attack.
        correct: [e, n] bool, right under attack.
        reached: [e, n] bool, predicted as the target; None without targets.
        distance: [e] float64, the largest perturbation of an image.
        blind: [e, n] bool, no gradient came back.
        classes: columns of the logits.
    """

    settings: AttackSettings
    clean: np.ndarray
    correct: np.ndarray
    reached: np.ndarray | None
    distance: np.ndarray
    blind: np.ndarray
    classes: int

    def metrics(self) -> list[Metric]:
        """Return clean_accuracy, accuracy@EPS and target_rate@EPS, each over the same images."""
        metrics = [share_metric("clean_accuracy", self.clean, 1 / self.classes)]
        for name, rows in (("accuracy", self.correct), ("target_rate", self.reached)):
            if rows is not None:
                metrics += [
                    share_metric(f"{name}@{eps}", row) for eps, row in zip(self.settings.eps, rows, strict=True)
                ]
        return metrics

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = []
        blind = int(self.blind.any(axis=0).sum())
        if blind:
            notes.append(
                f"{blind:,} images gave no gradient and were never attacked; their accuracy does not measure robustness."
            )
        mended = int((self.correct & ~self.clean).any(axis=0).sum())
        if mended:
            notes.append(
                f"{mended:,} images were wrong without attack and right under some attack; they count as right there."
            )
        return notes


class SetComparison(Struct, frozen=True):
    """Share of initially correct images that stay correct under one attack, for two sets.

    Attributes:
        kept_shares: of the first and of the second set.
        difference: the first minus the second.
        ci95: its interval; None where a set has no image that was right.
    """

    eps: str
    kept_shares: tuple[float | None, float | None]
    n: tuple[int, int]
    difference: float | None
    ci95: tuple[float, float] | None


def parse_strength(text: str) -> float:
    """Parse `4/255`, `0.25/255` or `0.0157`. Raises UsageError."""
    above, sign, below = (part.strip() for part in text.partition("/"))
    parts = (above, below if sign else "1")
    # Short numbers only: a fraction of 1e999999999 would be written out digit by digit.
    plain = all(len(part) <= 40 and _NUMBER.fullmatch(part) for part in parts)
    if not plain or not Fraction(parts[1]):
        raise UsageError(f"eps {text!r}: a number or a fraction of 0 or more was expected.", "As in 4/255.")
    return float(Fraction(parts[0]) / Fraction(parts[1]))


def attack_curve(
    logits: Logits,
    images: Any,
    labels: Any,
    *,
    eps: Sequence[str | float] = EPS,
    steps: int = STEPS,
    alpha: float | Literal["eps"] | None = None,
    norm: Norm = "linf",
    starts: Starts = RandomStarts(),
    ids: Sequence[str] | None = None,
    targets: Any = None,
    batch_size: int = BATCH,
) -> AttackCurve:
    """Run PGD at each strength, on the same images and from the same starts (scaled by eps).

    Arguments and errors as for `snellen.features.attacks.pgd.pgd`; `eps` also as texts, and `alpha` also "eps": steps as
    long as the ball is wide. One such step without a random start is FGSM.
    """
    import torch

    written = tuple(text.strip() if isinstance(text, str) else f"{text:g}" for text in eps)
    values = [parse_strength(text) if isinstance(text, str) else float(text) for text in eps]
    if not values or len(set(values)) < len(values):
        raise UsageError(
            f"strengths {', '.join(written) or '(none)'}: different ones were expected.", "As in 1/255,2/255."
        )
    right = torch.as_tensor(labels).cpu().numpy()
    aims = None if targets is None else torch.as_tensor(targets).cpu().numpy()
    with evaluating(logits):
        clean = predictions(logits, images, batch_size=batch_size) == right
        runs = [
            pgd(
                logits,
                images,
                labels,
                eps=value,
                steps=steps,
                alpha=value if alpha == "eps" else alpha,
                norm=norm,
                starts=starts,
                ids=ids,
                targets=targets,
                batch_size=batch_size,
            )
            for value in values
        ]
    return AttackCurve(
        settings=AttackSettings(
            attack="FGSM" if (steps, alpha, starts, norm) == (1, "eps", None, "linf") else "PGD",
            norm=norm,
            eps=written,
            steps=steps,
            alpha=tuple(run.alpha for run in runs),
            random_start=isinstance(starts, RandomStarts),
            restarts=runs[0].restarts,
            seed=starts.seed if isinstance(starts, RandomStarts) else 0,
            targeted=targets is not None,
            given_starts=isinstance(starts, GivenStarts),
        ),
        clean=clean,
        correct=np.stack([run.correct for run in runs]),
        reached=None if aims is None else np.stack([run.predicted == aims for run in runs]),
        distance=np.array([run.distance.max() for run in runs]),
        blind=np.stack([run.blind for run in runs]),
        classes=runs[0].classes,
    )


def join_curves(parts: Sequence[AttackCurve]) -> AttackCurve:
    """Join curves over different images, all attacked with the same settings. Raises UsageError."""
    if not parts or any(part.settings != parts[0].settings or part.classes != parts[0].classes for part in parts):
        raise UsageError("curves of different settings, or none, cannot be joined.", "Attack all in the same way.")
    reached = [part.reached for part in parts if part.reached is not None]
    return AttackCurve(
        settings=parts[0].settings,
        clean=np.concatenate([part.clean for part in parts]),
        correct=np.concatenate([part.correct for part in parts], axis=1),
        reached=np.concatenate(reached, axis=1) if reached else None,
        distance=np.max([part.distance for part in parts], axis=0),
        blind=np.concatenate([part.blind for part in parts], axis=1),
        classes=parts[0].classes,
    )


def compare_sets(first: AttackCurve, second: AttackCurve) -> list[SetComparison]:
    """Compare the accuracy that a general and a fine-grained set keep at the same strength.

    Different images are compared, so the interval is that of two independent shares: Newcombe 1998, Statistics in
    Medicine 17:873, method 10 (from Wilson's intervals).

    Raises:
        UsageError: the two were attacked in different ways.
    """
    if first.settings != second.settings:
        raise UsageError("the two sets were attacked with different settings.", "Attack both in the same way.")
    comparisons = []
    for row, eps in enumerate(first.settings.eps):
        right = [side.correct[row][side.clean] for side in (first, second)]
        n = (len(right[0]), len(right[1]))
        a, b = (float(rows.mean()) if len(rows) else None for rows in right)
        difference, between = None, None
        if a is not None and b is not None:
            difference = a - b
            ends = mover((a, b), (wilson(a, n[0]), wilson(b, n[1])), (1.0, -1.0))
            between = Interval(*ends, IntervalMethod("Newcombe"))
        comparisons.append(SetComparison(eps, (a, b), n, difference, between))
    return comparisons


def share_metric(name: str, right: np.ndarray, chance: float | None = None) -> Metric:
    """Return the share of True among [n] bool as a metric with its interval."""
    return mean_of(name, right.astype(np.float64), chance=chance)


curve = attack_curve  # the name that version 0.1 documented, for one release


Version = Literal["standard", "plus", "rand"]
MIN_CLASSES = 4
"""Its targeted loss compares four logits."""
_NORMS = {"linf": "Linf", "l2": "L2"}
_TARGETS = 9


def autoattack_curve(
    logits: Logits,
    images: Any,
    labels: Any,
    *,
    eps: Sequence[str | float] = EPS,
    norm: Norm = "linf",
    version: Version = "standard",
    seed: int = 0,
    batch_size: int = BATCH,
    ids: Sequence[str] | None = None,
    targets: Any = None,
) -> AttackCurve:
    """Run the ensemble at each strength; an image counts as right if it withstands every attack.

    Every attacked image is projected into its ball and [0, 1], checked, and predicted again. With fewer than ten classes
    its targeted attacks aim at every other class.

    Args:
        logits: a torch module from images in [0, 1] to logits.
        images, labels, eps, norm, batch_size: as for `attack_curve`.
        version: of the ensemble: "standard", "plus" or "rand" (for randomised models).
        seed: of its random numbers.
        ids, targets: not used; targets must be None.

    Raises:
        MissingExtraError: the package is not installed.
        UsageError: targets, an unknown version, or fewer than four classes.
    """
    import torch

    try:
        from pyautoattack import AutoAttack
    except ImportError as error:
        raise MissingExtraError(
            f"AutoAttack needs the package pyautoattack ({error})", install_hint("autoattack")
        ) from error
    if targets is not None or version not in ("standard", "plus", "rand"):
        raise UsageError(f"AutoAttack {version!r} with targets {targets is not None}", "Omit targets; take standard.")
    written = tuple(text.strip() if isinstance(text, str) else f"{text:g}" for text in eps)
    values = [parse_strength(text) if isinstance(text, str) else float(text) for text in eps]
    tensor, wanted = torch.as_tensor(images).detach().cpu().float(), torch.as_tensor(labels).cpu().long()
    weight = next(iter(logits.parameters()), None) if hasattr(logits, "parameters") else None
    device = "cpu" if weight is None else str(weight.device)
    with evaluating(logits), torch.random.fork_rng(devices=[]):
        with torch.no_grad():
            classes = int(logits(tensor[:1].to(device)).shape[1])
        if classes < MIN_CLASSES:
            raise UsageError(
                f"the classifier has {classes} classes; AutoAttack's losses need {MIN_CLASSES} or more",
                "Take --method pgd with --restarts.",
            )
        clean = predictions(logits, tensor, batch_size=batch_size) == wanted.numpy()
        correct, distance = [], []
        for value in values:
            ball = Ball(tensor, value, norm, (0.0, 1.0))
            attacked = tensor
            if value > 0.0:
                ensemble = AutoAttack(logits, norm=_NORMS[norm], eps=value, version=version, seed=seed, device=device)
                for attack in (ensemble.apgd_targeted, ensemble.fab):
                    attack.n_target_classes = min(_TARGETS, classes - 1)
                found, _ = ensemble.run_standard_evaluation(tensor, wanted, batch_size=batch_size)
                attacked = ball.project(found.detach().cpu().float())
                ball.require(attacked, 0)
            correct.append(clean & (predictions(logits, attacked, batch_size=batch_size) == wanted.numpy()))
            distance.append(float(ball.distance(attacked).max()))
    return AttackCurve(
        settings=AttackSettings(
            attack=f"AutoAttack ({version})",
            norm=norm,
            eps=written,
            steps=100,
            alpha=(),
            random_start=True,
            restarts=1,
            seed=seed,
            targeted=False,
            loss="APGD-CE, APGD-DLR (targeted), FAB (targeted), Square, by pyautoattack",
            prediction="wrong if any attack of the ensemble succeeds",
        ),
        clean=clean,
        correct=np.stack(correct),
        reached=None,
        distance=np.array(distance),
        blind=np.zeros((len(values), len(clean)), dtype=bool),
        classes=classes,
    )
