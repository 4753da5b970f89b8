"""Simulated answers over a taxonomy: five orders of four genera of five species, seen less well the finer one asks."""

from __future__ import annotations

import random

from snellen.scoring.scores import ScoreBuilder
from snellen.scoring.taxonomy import SEPARATOR, kinship
from snellen.types import Prompt, Sample, Score

LEVELS = ("order", "genus", "species")
SKILL = {"order": 0.97, "genus": 0.85, "species": 0.45}


def tree(orders=5, genera=4, species=5):
    """Paths of every species, coarse to fine."""
    return [
        (f"order {o}", f"genus {o}.{g}", f"species {o}.{g}.{s}")
        for o in range(orders)
        for g in range(genera)
        for s in range(species)
    ]


def answers(images=3, skill=None, kinds=("choice_text", "truth"), seed=0, paths=None):
    """(sample, score) for every image, level and kind; an image is right at a level with the level's skill.

    Every image has a hardness of its own, so that answers about it agree. Wrong answers to choices name a sibling in
    three of four cases where there is one.
    """
    skill, lot, paths = skill or SKILL, random.Random(seed), paths or tree()
    found = []
    for number, path in enumerate(path for path in paths for _ in range(images)):
        hardness = lot.random()
        for depth, level in enumerate(LEVELS):
            own = SEPARATOR.join(path[: depth + 1])
            others = sorted({SEPARATOR.join(p[: depth + 1]) for p in paths} - {own})
            siblings = [other for other in others if kinship(own, other) == "sibling"]
            for kind in kinds:
                right = 0.7 * hardness + 0.3 * lot.random() < skill[level]
                detail = {}
                if kind != "truth" and not right:
                    said = lot.choice(siblings if siblings and lot.random() < 0.75 else others)
                    detail = {"answer": said.rpartition(SEPARATOR)[2], "kinship": kinship(own, said)}
                sample = Sample(
                    id=f"{level}/{kind}/{number}",
                    prompt=Prompt(()),
                    target=path[depth] if kind != "truth" else True,
                    kind=kind,
                    group=f"image {number}",
                    meta={
                        "ask": "hierarchy",
                        "level": level,
                        "depth": str(depth),
                        "label": path[depth],
                        "path": own,
                        "stem": str(lot.randrange(4)),
                        "chance": 0.5 if kind == "truth" else 0.25,
                        **({"siblings": 1, "cousins": 0, "others": 2} if kind != "truth" and depth else {}),
                    },
                )
                verdict = "correct" if right else "wrong"
                found.append(
                    (sample, Score(float(right), path[depth] if right else detail.get("answer"), verdict, None, detail))
                )
    return found


def columns(rows, expected=None):
    """Scores of simulated answers."""
    builder = ScoreBuilder()
    for sample, score in rows:
        builder.add(sample, score)
    return builder.build(expected)
