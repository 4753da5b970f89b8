"""Scorers of the spatial benchmarks by profile: the rules of this package, which are pure functions, applied to samples.

Rules that several benchmarks share lie in `lmms_eval`, `vlmevalkit` and `strict`, others in the file of their benchmark. `rows`
has the means that figures are made of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from snellen.benchmarks.base import Scorer
from snellen.benchmarks.spatial.question import UNKNOWN_OPTIONS
from snellen.benchmarks.spatial.scorers import lmms_eval, site, spar, three_dsr, vsi
from snellen.benchmarks.spatial.scorers.strict import strict
from snellen.benchmarks.spatial.scorers.vlmevalkit import score_choice, score_option
from snellen.types import Sample, Score

PROFILES: Mapping[str, str] = {
    "easi": "what EASI reports of VLMEvalKit's run: its rules, SITE pooled and without rows whose options nobody knows",
    "vlmevalkit": "VLMEvalKit: one option matcher, the last number, four options where SITE does not say",
    "lmms-eval": "lmms-eval: a reading of its own for each benchmark, BLINK as the mean of fourteen means",
    "strict": "careful extractors that know the options; what cannot be read is wrong and said so",
}

Rule = Callable[[str, str], Score]


def _letters(lmms: Rule) -> Mapping[str, Scorer]:
    """Return the scorers of a benchmark whose two rules take the reply and the gold answer."""
    return _all(by_gold(score_option), by_gold(lmms))


def by_letter(reader: Callable[[str], str | None]) -> Rule:
    """Return the rule of lmms-eval that compares the letter of a reply with the gold one."""
    return lambda reply, gold: lmms_eval.score_letter(reader(reply), gold)


def by_gold(rule: Rule) -> Scorer:
    """Return the scorer of a rule that takes the reply and the gold answer."""
    return lambda sample, reply: rule(reply, gold(sample))


def _typed(module: Any) -> Mapping[str, Scorer]:
    """Return the scorers of a module whose rules take the question's type too."""

    def by(rule: Callable[[str, str, str], Score]) -> Scorer:
        return lambda sample, reply: rule(reply, gold(sample), str(sample.meta["question_type"]))

    return _all(by(module.vlmevalkit), by(module.lmms_eval))


def _matched(lmms: Rule) -> Mapping[str, Scorer]:
    """Return the scorers of BLINK and 3DSRBench, where VLMEvalKit compares with the options' texts."""
    return _all(lambda sample, reply: score_choice(reply, options(sample), gold(sample)), by_gold(lmms))


def _site(sample: Sample, reply: str) -> Score:
    return site.lmms_eval(reply, gold(sample), int(sample.meta["n"]))


def _all(kit: Scorer, lmms: Scorer) -> Mapping[str, Scorer]:
    easi = of_readable_rows(kit)  # one function, so that a reply is read once for both profiles
    return dict(zip(PROFILES, (easi, easi, of_readable_rows(lmms), of_readable_rows(strict)), strict=True))


def of_readable_rows(rule: Scorer) -> Scorer:
    """Return the rule for rows that could be read. Others lack a gold answer, and a rule might call two failures equal."""

    def score(sample: Sample, reply: str) -> Score:
        if "unreadable" in sample.meta:
            return Score(None, verdict="unscored", reason="the question could not be read")
        return rule(sample, reply)

    return score


def gold(sample: Sample) -> str:
    """Return the gold answer as the row gives it."""
    return str(sample.meta["gold"])


def options(sample: Sample) -> Mapping[str, str]:
    """Return the options, letter to text; A to D without texts where the row does not list them."""
    return sample.options or UNKNOWN_OPTIONS


SCORERS: Mapping[str, Mapping[str, Scorer]] = {
    "vsi-bench": _typed(vsi),
    "mmsi-bench": _letters(by_letter(lmms_eval.mmsi_letter)),
    "mindcube-tiny": _letters(by_letter(lmms_eval.mindcube_letter)),
    "viewspatial": _letters(lmms_eval.score_viewspatial),
    "site": _all(by_gold(score_option), _site),
    "blink": _matched(lmms_eval.score_blink),
    "3dsrbench": _matched(by_letter(three_dsr.three_dsr_letter)),
    "embspatial": _letters(by_letter(lmms_eval.leading_letter)),
    "mmsi-video-bench": _letters(lmms_eval.score_mmsi_video),
    "omnispatial": _letters(lmms_eval.score_omnispatial),
    "spar-bench": _typed(spar),
    "vsi-debiased": _typed(vsi),
}
