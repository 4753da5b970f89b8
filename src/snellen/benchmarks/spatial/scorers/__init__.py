"""How a reply is read and scored, and figures over rows: pure functions, in the files of their benchmarks and of what several share.

The scorers of each profile, by benchmark: the rules of this folder applied to samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from snellen.benchmarks.base import Scorer
from snellen.benchmarks.spatial.question import UNKNOWN_OPTIONS
from snellen.benchmarks.spatial.scorers import (
    blink,
    embspatial,
    mindcube,
    mmsi,
    mmsi_video,
    omnispatial,
    site,
    spar,
    three_dsr,
    viewspatial,
    vsi,
)
from snellen.benchmarks.spatial.scorers.strict import strict
from snellen.types import Sample, Score

PROFILES: Mapping[str, str] = {
    "easi": "what EASI reports of VLMEvalKit's run: its rules, SITE pooled and without rows whose options nobody knows",
    "vlmevalkit": "VLMEvalKit: one option matcher, the last number, four options where SITE does not say",
    "lmms-eval": "lmms-eval: a reading of its own for each benchmark, BLINK as the mean of fourteen means",
    "strict": "careful extractors that know the options; what cannot be read is wrong and said so",
}

Rule = Callable[[str, str], Score]


def _letters(module: Any) -> Mapping[str, Scorer]:
    """Of a module whose two rules take the reply and the gold answer."""
    return _all(_plain(module.vlmevalkit), _plain(module.lmms_eval))


def _plain(rule: Rule) -> Scorer:
    return lambda sample, reply: rule(reply, gold(sample))


def _typed(module: Any) -> Mapping[str, Scorer]:
    """Of a module whose rules take the question's type too."""

    def by(rule: Callable[[str, str, str], Score]) -> Scorer:
        return lambda sample, reply: rule(reply, gold(sample), str(sample.meta["question_type"]))

    return _all(by(module.vlmevalkit), by(module.lmms_eval))


def _matched(module: Any) -> Mapping[str, Scorer]:
    """Of BLINK and 3DSRBench, where VLMEvalKit compares with the options' texts."""

    def kit(sample: Sample, reply: str) -> Score:
        found: Score = module.vlmevalkit(reply, options(sample), gold(sample))
        return found

    return _all(kit, _plain(module.lmms_eval))


def _site(sample: Sample, reply: str) -> Score:
    return site.lmms_eval(reply, gold(sample), int(sample.meta["n"]))


def _all(kit: Scorer, lmms: Scorer) -> Mapping[str, Scorer]:
    easi = _asked(kit)  # one function, so that a reply is read once for both profiles
    return dict(zip(PROFILES, (easi, easi, _asked(lmms), _asked(strict)), strict=True))


def _asked(rule: Scorer) -> Scorer:
    """A row that could not be read has no gold answer, with which a rule might compare another failure and call it right."""

    def score(sample: Sample, reply: str) -> Score:
        if "unreadable" in sample.meta:
            return Score(None, verdict="unscored", reason="the question could not be read")
        return rule(sample, reply)

    return score


def gold(sample: Sample) -> str:
    """The gold answer as the row gives it."""
    return str(sample.meta["gold"])


def options(sample: Sample) -> Mapping[str, str]:
    """Letter to text; A to D without texts where the row does not list them."""
    return sample.options or UNKNOWN_OPTIONS


SCORERS: Mapping[str, Mapping[str, Scorer]] = {
    "vsi-bench": _typed(vsi),
    "mmsi-bench": _letters(mmsi),
    "mindcube-tiny": _letters(mindcube),
    "viewspatial": _letters(viewspatial),
    "site": _all(_plain(site.vlmevalkit), _site),
    "blink": _matched(blink),
    "3dsrbench": _matched(three_dsr),
    "embspatial": _letters(embspatial),
    "mmsi-video-bench": _letters(mmsi_video),
    "omnispatial": _letters(omnispatial),
    "spar-bench": _typed(spar),
    "vsi-debiased": _typed(vsi),
}
