r"""Likeness of two rendered formulas, 0 to 1: character detection matching (CDM) of their tokens and boxes.

Source: as in `formula_tokens`. The Hungarian method assigns the tokens by name, place and order; RANSAC then keeps the pairs that
one shift and scale explain, in rounds, and a pair of unlike tokens never counts. Its random choices are those of the authors, who
seed NumPy's generator with 42.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from snellen.scoring.rules.formula_boxes import Boxes, boxes
from snellen.scoring.rules.formula_colours import Coloured, bare, coloured

ALIKE, PLACE, ORDER = 0.005, 0.05, 0.15
"""Costs: of tokens that look alike, where others cost 0 or 1; and the weights of places and of the order."""
ROUNDS, TRIALS, SAMPLE, NEAR, SEED = 5, 50, 2, 20.0, 42
"""RANSAC: rounds, trials of a round, pairs of a trial, and how many pixels a pair may be from where its model puts it."""
_SAME = {
    "\\dot": ".", "\\Dot": ".", "\\cdot": ".", "\\cdotp": ".", "\\ldotp": ".", "\\mid": "|", "\\rightarrow": "\\to", "\\top": "T",
    "\\Tilde": "\\tilde", "\\prime": "'", "\\ast": "*", "\\left<": "\\langle", "\\right>": "\\rangle", "\\lbrace": "\\{",
    "\\rbrace": "\\}", "\\lbrack": "[", "\\rbrack": "]", "\\blackslash": "/", "\\slash": "/", "\\leq": "\\le", "\\geq": "\\ge",
    "\\neq": "\\not=", "\\Vert": "\\|", "\\lVert": "\\|", "\\rVert": "\\|", "\\vert": "|", "\\lvert": "|", "\\rvert": "|",
    "\\colon": ":", "\\Ddot": "\\ddot", "\\Bar": "\\bar", "\\Vec": "\\vec", "\\parallel": "\\|", "\\dag": "\\dagger",
    "\\ddag": "\\ddagger", "\\textlangle": "<", "\\textrangle": ">", "\\textgreater": ">", "\\textless": "<",
    "\\textbackslash": "n", "\\textunderscore": "_", "\\=": "_", "\\neg": "\\lnot",
}  # fmt: skip
"""Tokens to others that look alike, mistakes of the authors' among them."""


def looks(token: str) -> str:
    """Return a token by what it looks like: brackets without their size, names that draw one sign as one of them."""
    if token.startswith(("\\left", "\\right")) and not re.search("arrow|<|>|harpoon", token):
        token = token.replace("\\left", "").replace("\\right", "")
    if token.startswith(("\\big", "\\Big")):
        token = "\\" + token[4:].split("\\")[-1] if "\\" in token[4:] else token[-1]
    token = _SAME.get(token, token)
    for start, cut in (("\\wide", "wide"), ("\\var", "var"), ("\\string", "\\string")):
        if token.startswith(start):
            return token.replace(cut, "")
    return token


def cdm(reply: str, gold: str) -> float:
    """Return the likeness of a formula of a reply to a gold one, in LaTeX, without or with `$`, `\\[` or `\\(` around it."""
    return likenesses(((reply, gold),))[0]


@lru_cache(maxsize=64)
def likenesses(pairs: tuple[tuple[str, str], ...]) -> list[float]:
    """Return the likeness of formulas of a reply and gold ones; 0 where either is empty.

    What a reply has is rendered apart from gold formulas. The last ones are kept, since each profile asks for them.
    """
    full = [at for at, pair in enumerate(pairs) if all(map(str.strip, pair))]
    sides = [_rendered([pairs[at][side] for at in full]) for side in (0, 1)]
    found = dict(zip(full, map(likeness, *sides), strict=True))
    return [found.get(at, 0.0) for at in range(len(pairs))]


def _rendered(formulas: Sequence[str]) -> list[Boxes | None]:
    readable: dict[int, Coloured] = {}
    for at, formula in enumerate(formulas):
        with suppress(ValueError):
            readable[at] = coloured(bare(formula))
    found = dict(zip(readable, boxes([*readable.values()]), strict=True))
    return [found.get(at) for at in range(len(formulas))]


def likeness(reply: Boxes | None, gold: Boxes | None) -> float:
    """Return the F1 of two formulas' tokens, to three digits as the authors have it; 0 where either is not rendered."""
    if reply is None or gold is None:
        return 0.0
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    unlike = _unlike(gold.tokens, reply.tokens)
    place = cdist(gold.places / (*gold.size, *gold.size), reply.places / (*reply.size, *reply.size), "cityblock") / 4
    longest = max(len(gold.tokens), len(reply.tokens))
    order = np.abs(np.subtract.outer(np.arange(len(gold.tokens)), np.arange(len(reply.tokens)))) / longest
    rows, columns = linear_sum_assignment(unlike + PLACE * place + ORDER * order)
    source, target = _centres(gold.places[rows]), _centres(reply.places[columns])
    right = consistent(source, target) & (unlike[rows, columns] < 1)
    return round(2 * int(right.sum()) / (len(gold.tokens) + len(reply.tokens)), 3)


def _unlike(gold: Sequence[str], reply: Sequence[str]) -> NDArray[np.float64]:
    """Return the cost [gold, reply] of names: 0 for one name, `ALIKE` for one look, else 1."""
    same = np.equal.outer(np.array(gold, dtype=object), np.array(reply, dtype=object))
    alike = np.equal.outer(np.array([*map(looks, gold)], dtype=object), np.array([*map(looks, reply)], dtype=object))
    return np.where(same, 0.0, np.where(alike, ALIKE, 1.0))


def _centres(places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the middle of boxes, down before across."""
    return np.stack([(places[:, 1] + places[:, 3]) / 2, (places[:, 0] + places[:, 2]) / 2], axis=1)


def consistent(source: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask [pairs] of the points that shifts and scales explain, one in each round; all of two pairs or fewer.

    Args:
        source, target: [pairs, 2] points in pixels.
    """
    right = np.full(len(source), len(source) <= SAMPLE)
    for _ in range(ROUNDS):
        rest = np.flatnonzero(~right)
        if len(rest) <= SAMPLE:
            break
        found = _consensus(source[rest], target[rest])
        if not found.any():
            break
        right[rest[found]] = True
    return right


def _consensus(source: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask of the most points that one shift and scale explain, by RANSAC as in scikit-image 0.20."""
    chosen, least = np.zeros(len(source), dtype=bool), np.inf
    generator = np.random.default_rng(SEED)
    centre = source.mean(axis=0)
    most = float(TRIALS)
    for trial in range(TRIALS):
        if trial >= most:
            break
        pair = generator.choice(len(source), SAMPLE, replace=False)
        one, other = source[pair], target[pair]
        sizes = [np.linalg.norm(points - points.mean(axis=0), axis=1).mean() for points in (one, other)]
        shift, scale = other.mean(axis=0) - one.mean(axis=0), sizes[1] / (sizes[0] + 1e-10)
        moved = scale * (source - centre) + centre + shift
        apart = np.sqrt(((moved - target) ** 2).sum(axis=1))
        near = apart < NEAR
        if near.sum() > chosen.sum() or (near.sum() == chosen.sum() and apart @ apart < least):
            chosen, least = near, apart @ apart
            most = min(most, _trials(near.sum() / len(near)))
            if least <= 0:
                break
    return chosen


def _trials(share: float) -> float:
    """Return after how many trials one of inliers alone is certain, to the precision of floats."""
    smallest = np.spacing(1.0)
    return float(np.ceil(np.log(smallest) / np.log(max(smallest, 1 - share**SAMPLE)))) if share else np.inf
