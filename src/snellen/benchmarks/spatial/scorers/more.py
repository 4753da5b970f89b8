"""Scorers of the further spatial benchmarks of EASI, by name and profile: their rules applied to samples.

`question`'s sample says what a rule needs in its meta: docs/spatial-rules.md names the fields of each benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from snellen.benchmarks.base import Scorer
from snellen.benchmarks.spatial.scorers import (
    by_gold,
    erqa,
    gold,
    lego,
    lmms_eval,
    of_readable_rows,
    osi,
    points,
    refspatial,
    revsi,
    robospatial,
    spatial457,
    spatialviz,
    stare,
    vsi,
    vsi_super,
)
from snellen.benchmarks.spatial.scorers.points import Mask, MaskPixels
from snellen.benchmarks.spatial.scorers.strict import question_text, strict
from snellen.benchmarks.spatial.scorers.vlmevalkit import match_number, score_choice, score_option
from snellen.errors import SnellenError
from snellen.media.decode import read_header
from snellen.types import Image, Sample, Score

DESCRIPTIONS: Mapping[str, str] = {
    "easi": "what EASI's VLMEvalKit reports",
    "vlmevalkit": "the class of EASI in VLMEvalKit; the same rule as easi",
    "vlmevalkit-upstream": "the class that the name means in VLMEvalKit's main branch since 2026, and EASI does not use",
    "lmms-eval": "lmms-eval's newest rule",
    "lmms-eval-pinned": "lmms-eval's rule at the commit that EASI v0.2.2 pins",
    "lmms-eval-json": "lmms-eval's rule for its variant that asks for JSON",
    "strict": "careful extractors; the references' faults corrected; what cannot be read is wrong and said so",
}
"""Profile to one line, in the order in which a benchmark has them."""

Made = Mapping[str, Scorer]


def _profiles(kit: Scorer, strictly: Scorer, others: Mapping[str, Scorer] | None = None) -> Made:
    easi = of_readable_rows(kit)  # one function, so that a reply is read once for both profiles
    rules = {"easi": easi, "vlmevalkit": easi, "strict": of_readable_rows(strictly)}
    rules |= {name: of_readable_rows(rule) for name, rule in (others or {}).items()}
    return {name: rules[name] for name in DESCRIPTIONS if name in rules}


def _meta(sample: Sample, name: str) -> str:
    return str(sample.meta.get(name, ""))


def _options(sample: Sample) -> Mapping[str, str]:
    return {letter: text for letter, text in sample.options.items() if text}


def _number(reply: str, gold: str) -> Score:
    """Score the last number by mean relative accuracy; a gold answer that is no number makes every reply wrong."""
    score = vsi.score_number(match_number(reply), gold)
    return score if score.value is not None else Score(0.0, score.extracted, "wrong", score.reason)


def _letter_or_number(sample: Sample, reply: str) -> Score:
    return (_number if sample.kind == "number" else score_option)(reply, gold(sample))


def _stare(sample: Sample, reply: str) -> Score:
    return stare.vlmevalkit(reply, gold(sample), _meta(sample, "yes_no"))


def _stare_strict(sample: Sample, reply: str) -> Score:
    return stare.with_classes(strict(sample, reply), str(sample.target), _meta(sample, "yes_no"))


def _count(sample: Sample, reply: str) -> Score:
    if _streaming(sample):
        return Score(None, verdict="unscored", reason="VLMEvalKit leaves streaming questions out")
    return _number(reply, gold(sample))


def _count_lmms_eval(sample: Sample, reply: str) -> Score:
    rule = vsi_super.streaming_lmms_eval if _streaming(sample) else vsi_super.count_lmms_eval
    return rule(reply, gold(sample))


def _count_strict(sample: Sample, reply: str) -> Score:
    if _streaming(sample):
        return vsi_super.streaming_strict(reply, gold(sample))
    return _exact_zero(strict(sample, reply), gold(sample))


def _streaming(sample: Sample) -> bool:
    return vsi_super.STREAMING in _meta(sample, "question_type")


def _exact_zero(score: Score, gold: str) -> Score:
    """Return a number's score where of a gold answer of 0 only 0 is right: 0.4 is not close to none."""
    try:
        zero = float(gold) == 0
    except ValueError:
        zero = False
    if not zero or not score.value or score.value == 1:
        return score
    return Score(0.0, score.extracted, "wrong", "the gold answer is 0")


def _revsi(sample: Sample, reply: str) -> Score:
    return revsi.both_harnesses(reply, gold(sample), _meta(sample, "question_type"))


def _strict_zero(sample: Sample, reply: str) -> Score:
    score = strict(sample, reply)
    return _exact_zero(score, gold(sample)) if sample.kind == "number" else score


def _osi(rule: Callable[[str, str, str, str], Score]) -> Scorer:
    return lambda sample, reply: rule(reply, gold(sample), _meta(sample, "category"), _meta(sample, "question_type"))


def _osi_strict(sample: Sample, reply: str) -> Score:
    if sample.kind != "number":
        return strict(sample, reply)
    return osi.strict_number(reply, gold(sample), _meta(sample, "category"), question_text(sample))


def _matched(sample: Sample, reply: str) -> Score:
    """Score by the choice matcher; the gold letter may stand in brackets."""
    return score_choice(reply, _options(sample), gold(sample).strip().strip("()"))


def _lego(sample: Sample, reply: str) -> Score:
    circular = "circle" in sample.meta
    return lego.vlmevalkit(reply, gold(sample), _options(sample), _meta(sample, "question_type"), circular=circular)


def _lego_strict(sample: Sample, reply: str) -> Score:
    if _meta(sample, "question_type") == lego.SORT:
        return lego.strict(reply, gold(sample))
    return strict(sample, reply)


def image_size(sample: Sample) -> tuple[int, int] | None:
    """Return width and height of the image that is asked about: from meta, else from the header of the prompt's first image."""
    width, height = sample.meta.get("width"), sample.meta.get("height")
    if isinstance(width, int) and isinstance(height, int) and width > 0 and height > 0:
        return width, height
    image = next((part for part in sample.prompt.parts if isinstance(part, Image)), None)
    if image is None:
        return None
    try:
        header = read_header(image.blob.read())
    except SnellenError:
        return None
    return None if header is None or header.width < 1 or header.height < 1 else (header.width, header.height)


NO_MASK = "the mask of this question is not at hand: give the benchmark's data (--data)"


def _masked(rule: Callable[[str, MaskPixels], Score]) -> Scorer:
    """Return a scorer that reads the sample's mask first; a row without one is left unscored."""

    def score(sample: Sample, reply: str) -> Score:
        mask = sample.meta.get("mask")
        if not isinstance(mask, Mask):
            return Score(None, verdict="unscored", reason=NO_MASK)
        try:
            return rule(reply, points.mask_pixels(mask))
        except SnellenError as error:
            return Score(None, verdict="unscored", reason=error.message)

    return score


def _refspatial_strict(sample: Sample, reply: str) -> Score:
    return _masked(lambda text, mask: refspatial.strict(text, mask, image_size(sample) or mask.size))(sample, reply)


def _robospatial(sample: Sample, reply: str) -> Score:
    size = image_size(sample)
    if size is None and not robospatial.is_yes_no(gold(sample)):
        return _sizeless(reply, gold(sample))
    return robospatial.vlmevalkit(reply, gold(sample), *(size or (1, 1)))


def _sizeless(reply: str, gold: str) -> Score:
    """Score a point where the image's size is not at hand: only pixels need it, and a reply in pixels is left unscored."""
    scores = [robospatial.vlmevalkit(reply, gold, *size) for size in ((1000, 1000), (4000, 3000))]
    if scores[0].extracted == scores[1].extracted:
        return scores[0]
    return Score(
        None, None, "unscored", "the reply is in pixels, and the image's size is not at hand: give the data (--data)"
    )


def _robospatial_lmms_eval(sample: Sample, reply: str) -> Score:
    if robospatial.is_yes_no(gold(sample)):
        return robospatial.lmms_eval(reply, gold(sample), None)
    if "mask" in sample.meta and sample.meta["mask"] is None:
        return robospatial.lmms_eval(reply, gold(sample), None)
    return _masked(lambda text, mask: robospatial.lmms_eval(text, gold(sample), mask))(sample, reply)


def _robospatial_strict(sample: Sample, reply: str) -> Score:
    mask = sample.meta.get("mask")
    try:
        pixels = points.mask_pixels(mask) if isinstance(mask, Mask) else None
    except SnellenError:
        pixels = None  # the polygon decides; without one the row is unscored, which says why
    size = image_size(sample) or (pixels.size if pixels else (1, 1))
    return robospatial.strict(reply, gold(sample), question_text(sample), size, pixels)


def _letters(others: Mapping[str, Scorer] | None = None) -> Made:
    return _profiles(by_gold(score_option), strict, others)


def _lmms_letter(sample: Sample, reply: str) -> Score:
    return lmms_eval.score_letter(erqa.lmms_letter(reply), gold(sample))


def _leading_letter(sample: Sample, reply: str) -> Score:
    return lmms_eval.score_letter(lmms_eval.leading_letter(reply), gold(sample))


SCORERS: Mapping[str, Made] = {
    "stare": _profiles(_stare, _stare_strict, {"lmms-eval": by_gold(stare.lmms_eval)}),
    "spatialviz": _letters({"lmms-eval": by_gold(spatialviz.lmms_eval)}),
    "erqa": _letters(
        {
            "vlmevalkit-upstream": by_gold(erqa.upstream),
            "lmms-eval": _lmms_letter,
            "lmms-eval-pinned": _leading_letter,
        }
    ),
    "refspatial": _profiles(
        _masked(refspatial.easi),
        _refspatial_strict,
        {
            "vlmevalkit-upstream": _masked(refspatial.upstream),
            "lmms-eval": _masked(refspatial.lmms_eval),
            "lmms-eval-json": _masked(refspatial.lmms_eval_json),
        },
    ),
    "robospatial-home": _profiles(_robospatial, _robospatial_strict, {"lmms-eval": _robospatial_lmms_eval}),
    "spbench/si": _profiles(_letter_or_number, _strict_zero),
    "spbench/mv": _profiles(_letter_or_number, _strict_zero),
    "vsi-super-recall": _letters({"lmms-eval": by_gold(vsi_super.recall_lmms_eval)}),
    "vsi-super-count": _profiles(_count, _count_strict, {"lmms-eval": _count_lmms_eval}),
    "sti-bench": _letters(),
    "cv-bench": _profiles(_matched, strict, {"lmms-eval": by_gold(lmms_eval.score_blink)}),
    "lego-puzzles": _profiles(_lego, _lego_strict),
    "spatial457": _profiles(
        by_gold(spatial457.vlmevalkit), by_gold(spatial457.strict), {"lmms-eval": by_gold(spatial457.lmms_eval)}
    ),
    "dsr-bench": _letters(),
    "eriq": _letters(),
    "osi-bench": _profiles(_osi(osi.vlmevalkit), _osi_strict, {"lmms-eval": _osi(osi.lmms_eval)}),
    "revsi": _profiles(_revsi, _strict_zero, {"lmms-eval": _revsi}),
}
"""By benchmark and profile."""

PROFILES: Mapping[str, Mapping[str, str]] = {
    name: {profile: DESCRIPTIONS[profile] for profile in scorers} for name, scorers in SCORERS.items()
}
"""By benchmark: profile to one line."""
