"""Stage 1: the vision tower learns to see, from dense labels, before any language.

Cues that are linear in patch colour are learned in a few hundred steps when every patch says what it shows; from the
language loss alone they take far longer. The heads are thrown away afterwards.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as F
from parallel import averaged
from pictures import DIGIT, Pool
from torch import Tensor, nn

ATTRIBUTES = {"klass": 3, "genus": 3, "species": 3, "colour": 8, "shape": 3, "size": 3, "texture": 3, "legs": 3}
PARTS = {"crest": 4, "belt": 4, "eye": 4, "shape": 4, "colour": 9, "texture": 4, "legs": 8}


class Heads(nn.Module):
    """Linear readers: one per attribute on the mean of the tokens, one per part on every token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.whole = nn.ModuleDict({name: nn.Linear(width, n) for name, n in ATTRIBUTES.items()})
        self.part = nn.ModuleDict({name: nn.Linear(width, n) for name, n in PARTS.items()})
        self.count = nn.Linear(width, 5)
        self.digit = nn.Linear(width, 10)

    def losses(self, tokens: Tensor, pool: Pool, index: list[int]) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Cross-entropies and accuracies of a batch: tokens [B, PATCHES, width]."""
        tokens = self.norm(tokens)
        mean = tokens.mean(1)
        losses: dict[str, Tensor] = {}
        right: dict[str, float] = {}

        def whole(name: str, head: nn.Module, label: np.ndarray) -> None:
            target = torch.from_numpy(label)
            logits = head(mean)
            losses[name] = F.cross_entropy(logits, target)
            right[name] = float((logits.argmax(1) == target).float().mean())

        if pool.kind == DIGIT:
            whole("digit", self.digit, pool.labels["digit"][index])
            return losses, right
        if pool.kind == "crowd":
            whole("count", self.count, pool.labels["count"][index])
        if pool.kind == "portrait":
            for name in ATTRIBUTES:
                whole(name, self.whole[name], pool.labels[name][index])
        for name in PARTS if pool.kind == "portrait" else ("shape", "colour", "texture"):
            target = torch.from_numpy(pool.patches[name][index].astype(np.int64))
            weight = torch.ones(PARTS[name])
            if name in ("crest", "belt", "eye", "legs"):
                weight[0] = 0.3
            logits = self.part[name](tokens)
            losses[f"patch/{name}"] = F.cross_entropy(logits.flatten(0, 1), target.flatten(), weight=weight)
        return losses, right


def filter_bank(tower: nn.Module) -> None:
    """Start the patch embedding from local colour means instead of white noise, and positions that can be told apart."""
    modules = dict(tower.named_modules())
    position = next(m for name, m in modules.items() if name.endswith("position_embedding"))
    patch = next(m for name, m in modules.items() if name.endswith("patch_embedding"))
    position.weight.data.normal_(0, 0.3)
    weight = patch.weight.data
    weight.normal_(0, 0.02)
    row = 0
    for y in range(4):
        for x in range(4):
            for channel in range(3):
                weight[row].zero_()
                weight[row, channel, 2 * y : 2 * y + 2, 2 * x : 2 * x + 2] = 0.25
                row += 1


def features(tower: nn.Module, pixels: Tensor) -> Tensor:
    """[B, 3, 48, 48] -> [B, PATCHES, width]: what the projector gets (last layer, without the class token)."""
    return tower(pixel_values=pixels, output_hidden_states=True).hidden_states[-1][:, 1:]


def train(tower: nn.Module, heads: Heads, pools: list[Pool], steps: int, batch: int, seed: int, log) -> None:
    """`steps` steps over the pools in turn (portraits three times as often), AdamW with a cosine."""
    draw = np.random.Generator(np.random.PCG64(seed))
    parameters = [*tower.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.02, betas=(0.9, 0.98))
    order = [pool for pool in pools for _ in range(3 if pool.kind == "portrait" else pool.weight)]
    seen: dict[str, list[float]] = {}
    for step in range(steps):
        rate = 1.5e-3 * min(1, (step + 1) / 50) * (0.5 + 0.5 * math.cos(math.pi * step / steps)) + 1e-5
        for group in optimiser.param_groups:
            group["lr"] = rate
        pool = order[step % len(order)]
        index = draw.integers(0, len(pool), batch).tolist()
        losses, right = heads.losses(features(tower, pool.tensor(index)), pool, index)
        optimiser.zero_grad()
        torch.stack(list(losses.values())).sum().backward()
        averaged(parameters)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        for name, value in right.items():
            seen.setdefault(name, []).append(value)
        if step % 200 == 199:
            log(f"vision {step + 1}", {name: round(float(np.mean(v)), 3) for name, v in seen.items()})
            seen = {}
    tower.requires_grad_(False)


@torch.no_grad()
def cached(tower: nn.Module, pool: Pool) -> Tensor:
    """[n, PATCHES, width] features of a whole pool, in half precision to save memory."""
    chunks = [
        features(tower, pool.tensor(list(range(i, min(i + 250, len(pool)))))).half() for i in range(0, len(pool), 250)
    ]
    return torch.cat(chunks)
