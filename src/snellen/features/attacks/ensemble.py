"""AutoAttack's ensemble, run by its authors' package: APGD on two losses, FAB and Square, without a step size to tune.

Source: Croce and Hein 2020, arXiv 2003.01690; package pyautoattack (MIT), an optional extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from snellen.errors import MissingExtraError, UsageError
from snellen.features.attacks.lp_ball import Ball, Norm
from snellen.features.attacks.pgd import BATCH, Logits, evaluating, predictions
from snellen.features.attacks.robust_accuracy import EPS, AttackCurve, AttackSettings, parse_strength
from snellen.installation import install_hint

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
