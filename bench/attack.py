"""PGD beside torchattacks on the embedded encoder with a ridge head over real digits: pictures that withstand, CPU, memory.

No random start, so both take the same steps. Each attack runs in a process of its own, in turns; CPU seconds are those
of the attack, peak memory that of the process. The last lines multiply the head's logits by 100, which changes no
decision: torchattacks' softmax in float32 then follows wrong gradients, and more pictures seem to withstand.

torchattacks is a peer of this script and of one test alone: pip install --no-deps torchattacks

    python bench/attack.py [PICTURES]
"""

from __future__ import annotations

import importlib.util
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

TEST = 599
STEPS = 10
RUNS = (("0.25", 1), ("1", 1), ("4", 1), ("8", 1), ("4", 100))


def pictures(name: str, count: int) -> tuple[Any, Any]:
    """float32 [n, 3, 48, 48] in [0, 1] and [n] digits."""
    import torch

    from snellen.benchmarks.chart import digits

    scans, labels = digits.split(name)
    grey = np.stack([digits.enlarged(scan, 48) for scan in scans[:count]])
    return torch.from_numpy(np.repeat(grey[:, None], 3, axis=1).astype(np.float32) / 255), labels[:count].astype(int)


def classifier(scale: float) -> Any:
    """The embedded tower's patch mean with a ridge layer trained on the digits' training split."""
    import torch

    from snellen.features.attacks.classifier import build_classifier as both
    from snellen.features.encoders import open_encoder
    from snellen.features.probes.head import ProbeHead, Scaling

    encoder = open_encoder("embedded", ["patch_mean"], device="cpu")
    shown, labels = pictures("train", 1198)
    with torch.no_grad():
        rows = torch.cat([encoder.forward_pixels(part)["patch_mean"] for part in shown.split(128)]).double().numpy()
    mean, spread = rows.mean(axis=0), rows.std(axis=0)
    scaled = (rows - mean) / spread
    weights = np.linalg.solve(scaled.T @ scaled + 4 * np.eye(scaled.shape[1]), scaled.T @ (np.eye(10)[labels] - 0.1))
    return both(encoder, ProbeHead(scale * weights, np.zeros(10), Scaling("standardise", mean, spread), np.arange(10)))


def measure(who: str, eps: float, scale: float, count: int) -> dict[str, Any]:
    """One attack in this process: which pictures are right before and after it, and what it took."""
    import torch

    from snellen.features.attacks.pgd import pgd, predictions

    torch.set_num_threads(1)
    model, (images, labels) = classifier(scale), pictures("test", count)
    alpha = 2.5 * eps / STEPS
    clean = predictions(model, images)
    start = time.process_time()
    if who == "snellen":
        found = pgd(model, images, labels, eps=eps, steps=STEPS, alpha=alpha, starts=None).images
    else:
        import torchattacks

        peer = torchattacks.PGD(model, eps=eps, alpha=alpha, steps=STEPS, random_start=False)
        wanted = torch.from_numpy(labels)
        found = torch.cat([peer(a, b) for a, b in zip(images.split(64), wanted.split(64), strict=True)])
    spent = time.process_time() - start
    return {
        "clean": (clean == labels).tolist(),
        "attacked": (predictions(model, found) == labels).tolist(),
        "away": float((found.double() - images.double()).abs().max()),
        "cpu": spent,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    """Print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else TEST
    there = importlib.util.find_spec("torchattacks") is not None
    if not there:
        print("torchattacks is not installed (pip install --no-deps torchattacks); its lines are left out")
    print(f"{count} digits, {STEPS} steps, one thread")
    print("eps     logits  who           clean  attacked  distance*255  CPU s  peak MB")
    for eps, scale in RUNS:
        found = {}
        for who in ("snellen", "torchattacks")[: 1 + there]:
            given = [sys.executable, __file__, "--one", who, str(float(eps) / 255), str(scale), str(count)]
            done = subprocess.run(given, check=True, capture_output=True, text=True)
            found[who] = one = json.loads(done.stdout)
            print(
                f"{eps + '/255':<8}x {scale:<5}{who:<13}{sum(one['clean']):>6}{sum(one['attacked']):>10}"
                f"{255 * one['away']:>14.6f}{one['cpu']:>7.1f}{one['memory']:>9,.0f}",
                flush=True,
            )
        if there:
            mine, theirs = (np.array(one["attacked"]) for one in found.values())
            print(f"{'':16}{int((mine != theirs).sum())} pictures with another outcome", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))))
    else:
        main()
