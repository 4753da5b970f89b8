"""Scorers of the sets by profile: the rules of this package, which are pure functions, applied to samples.

The rules lie in one file a harness (`vlmevalkit`, `lmms_eval`) and `strict`; `base` and `points` have what several share. A set
declares which of them it is scored by: [score] `rules` names a public function of the profile's file, or of another one as
`lmms-eval.revsi`. What a function gets, its parameters say: docs/spatial-rules.md lists their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from snellen.benchmarks.base import Scorer
from snellen.benchmarks.spatial.scorers import base, corecognition, lmms_eval, points, strict, vlmevalkit
from snellen.benchmarks.spatial.scorers.points import MaskPixels
from snellen.benchmarks.spatial.tasks import EVERY, Task
from snellen.errors import DataError
from snellen.types import Sample, Score

PROFILES: Mapping[str, str] = {
    "easi": "what EASI reports of VLMEvalKit's run: its rules, SITE pooled and without rows whose options nobody knows",
    "vlmevalkit": "VLMEvalKit: one option matcher, the last number, four options where SITE does not say",
    "lmms-eval": "lmms-eval: a reading of its own for each benchmark, BLINK as the mean of fourteen means",
    "strict": "careful extractors that know the options; what cannot be read is wrong and said so",
}
"""Of the twelve benchmarks of EASI's payload: profile to one line."""
FURTHER_PROFILES: Mapping[str, str] = {
    "easi": "what EASI's VLMEvalKit reports, and lmms-eval's rule where it has no class of the set",
    "vlmevalkit": "the class of EASI in VLMEvalKit; the same rule as easi",
    "vlmevalkit-upstream": "the class that the name means in VLMEvalKit's main branch since 2026, and EASI does not use",
    "lmms-eval": "lmms-eval's newest rule",
    "lmms-eval-pinned": "lmms-eval's rule at the commit that EASI v0.2.2 pins",
    "lmms-eval-json": "lmms-eval's rule for its variant that asks for JSON",
    "strict": "careful extractors; the references' faults corrected; what cannot be read is wrong and said so",
}
"""Of the others, in the order in which a benchmark has them."""
HARNESSES: Mapping[str, ModuleType] = {
    "vlmevalkit": vlmevalkit,
    "lmms-eval": lmms_eval,
    "strict": strict,
    "corecognition": corecognition,
}


@cache
def scorers_of(task: Task) -> Mapping[str, Scorer]:
    """Return the scorers of a set by profile.

    Raises:
        DataError: its declaration names a profile or a rule that does not exist.
    """
    declared = task.declared.score.rules if task.declared.score is not None else {}
    rules = {"strict": "strict", **declared}
    if "vlmevalkit" in rules:
        rules.setdefault("easi", rules["vlmevalkit"])
    if unknown := sorted(set(rules) - set(FURTHER_PROFILES)):
        raise DataError(
            f"{task.name}: [score] rules has the profile {unknown[0]!r}; known are {', '.join(FURTHER_PROFILES)}"
        )
    return {profile: _named(profile, rules[profile], task.name) for profile in FURTHER_PROFILES if profile in rules}


def _named(profile: str, name: str, benchmark: str) -> Scorer:
    harness, _, function = name.rpartition(".")
    if not harness:
        harness = next((known for known in HARNESSES if profile.startswith(known)), "vlmevalkit")
    module = HARNESSES.get(harness)
    rule = vars(module).get(function) if module is not None else None
    if not inspect.isfunction(rule) or rule.__annotations__.get("return") not in ("Score", "str | None"):
        raise DataError(f"{benchmark}: [score] rules names {name!r}, and {harness} has no such rule")
    return _scorer(rule)


@cache  # one function a rule, so that a reply is read once for profiles that share it
def _scorer(rule: Callable[..., Any]) -> Scorer:
    """Return a rule as the scorer of rows that could be read. Others lack a gold answer, and a rule might call two failures equal.

    A reader, which returns no score, is compared with the gold letter.
    """
    told = inspect.signature(rule)
    reader = told.return_annotation != "Score"
    names = [name for name, kind in told.parameters.items() if not reader or kind.default is inspect.Parameter.empty]

    def score(sample: Sample, reply: str) -> Score:
        if "unreadable" in sample.meta:
            return Score(None, verdict="unscored", reason="the question could not be read")
        if "mask" in names:
            return points.masked(sample, lambda mask: rule(*_values(names, sample, reply, mask)))
        found = rule(*_values(names, sample, reply))
        return base.score_letter(found, str(sample.meta["gold"])) if reader else found

    return score


def _values(names: Sequence[str], sample: Sample, reply: str, mask: MaskPixels | None = None) -> list[Any]:
    """Return what a rule's parameters are called: `n` is the number of options, other names are fields of the sample's meta."""
    given: dict[str, Any] = {"sample": sample, "reply": reply, "mask": mask}
    if "size" in names:
        given["size"] = points.image_size(sample)
    if "n" in names:
        given["n"] = int(sample.meta["n"])
    return [given.get(name, str(sample.meta.get(name, ""))) for name in names]


SCORERS: Mapping[str, Mapping[str, Scorer]] = {name: scorers_of(task) for name, task in EVERY.items()}
"""By benchmark and profile."""
