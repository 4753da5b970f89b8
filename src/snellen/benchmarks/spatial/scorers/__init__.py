"""Scorers of the spatial benchmarks by profile: the rules of this package, which are pure functions, applied to samples.

The rules lie in one file a harness (`vlmevalkit`, `lmms_eval`) and `strict`, and are named after their benchmarks; `base` and
`points` have what several share. A sample's meta says what a rule needs: docs/spatial-rules.md names the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from snellen.benchmarks.base import Scorer
from snellen.benchmarks.spatial.question import UNKNOWN_OPTIONS
from snellen.benchmarks.spatial.scorers import base, lmms_eval, points, strict, vlmevalkit
from snellen.benchmarks.spatial.scorers.points import Mask, MaskPixels
from snellen.benchmarks.spatial.scorers.strict import question_text
from snellen.benchmarks.spatial.scorers.vlmevalkit import score_choice, score_option
from snellen.errors import SnellenError
from snellen.media.decode import read_header
from snellen.types import Image, Sample, Score

PROFILES: Mapping[str, str] = {
    "easi": "what EASI reports of VLMEvalKit's run: its rules, SITE pooled and without rows whose options nobody knows",
    "vlmevalkit": "VLMEvalKit: one option matcher, the last number, four options where SITE does not say",
    "lmms-eval": "lmms-eval: a reading of its own for each benchmark, BLINK as the mean of fourteen means",
    "strict": "careful extractors that know the options; what cannot be read is wrong and said so",
}
"""Of the twelve benchmarks of EASI's payload: profile to one line."""
FURTHER_PROFILES: Mapping[str, str] = {
    "easi": "what EASI's VLMEvalKit reports",
    "vlmevalkit": "the class of EASI in VLMEvalKit; the same rule as easi",
    "vlmevalkit-upstream": "the class that the name means in VLMEvalKit's main branch since 2026, and EASI does not use",
    "lmms-eval": "lmms-eval's newest rule",
    "lmms-eval-pinned": "lmms-eval's rule at the commit that EASI v0.2.2 pins",
    "lmms-eval-json": "lmms-eval's rule for its variant that asks for JSON",
    "strict": "careful extractors; the references' faults corrected; what cannot be read is wrong and said so",
}
"""Of the others, in the order in which a benchmark has them."""
NO_MASK = "the mask of this question is not at hand: give the benchmark's data (--data)"


def _scorers(
    kit: Scorer, lmms: Scorer | None = None, strictly: Scorer = strict.strict, **others: Scorer
) -> Mapping[str, Scorer]:
    easi = _of_readable_rows(kit)  # one function, so that a reply is read once for both profiles
    rules = {
        name.replace("_", "-"): rule for name, rule in (*others.items(), ("lmms-eval", lmms), ("strict", strictly))
    }
    scorers = {"easi": easi, "vlmevalkit": easi} | {n: _of_readable_rows(rule) for n, rule in rules.items() if rule}
    return {name: scorers[name] for name in FURTHER_PROFILES if name in scorers}


def _of_readable_rows(rule: Scorer) -> Scorer:
    """Return the rule for rows that could be read. Others lack a gold answer, and a rule might call two failures equal."""

    def score(sample: Sample, reply: str) -> Score:
        if "unreadable" in sample.meta:
            return Score(None, verdict="unscored", reason="the question could not be read")
        return rule(sample, reply)

    return score


def _by(rule: Callable[..., Score], *fields: str) -> Scorer:
    """Return the scorer of a rule that takes the reply, the gold answer and some fields of the sample's meta."""
    return lambda sample, reply: rule(reply, _gold(sample), *(_meta(sample, field) for field in fields))


def _by_letter(reader: Callable[[str], str | None]) -> Scorer:
    """Return the scorer of lmms-eval that compares the letter of a reply with the gold one."""
    return lambda sample, reply: base.score_letter(reader(reply), _gold(sample))


def _gold(sample: Sample) -> str:
    return str(sample.meta["gold"])


def _meta(sample: Sample, name: str) -> str:
    return str(sample.meta.get(name, ""))


def _options(sample: Sample) -> Mapping[str, str]:
    return {letter: text for letter, text in sample.options.items() if text}


def _matched(sample: Sample, reply: str) -> Score:
    """Score BLINK and 3DSRBench, where VLMEvalKit compares with the options' texts; A to D without texts where none is listed."""
    return score_choice(reply, sample.options or UNKNOWN_OPTIONS, _gold(sample))


def _matched_in_brackets(sample: Sample, reply: str) -> Score:
    return score_choice(reply, _options(sample), _gold(sample).strip().strip("()"))


def _site_lmms_eval(sample: Sample, reply: str) -> Score:
    return lmms_eval.site(reply, _gold(sample), int(sample.meta["n"]))


def _number(reply: str, gold: str) -> Score:
    """Score the last number by mean relative accuracy; a gold answer that is no number makes every reply wrong."""
    score = base.score_number(vlmevalkit.match_number(reply), gold)
    return score if score.value is not None else Score(0.0, score.extracted, "wrong", score.reason)


def _letter_or_number(sample: Sample, reply: str) -> Score:
    return (_number if sample.kind == "number" else score_option)(reply, _gold(sample))


def _stare_strict(sample: Sample, reply: str) -> Score:
    return vlmevalkit.with_classes(strict.strict(sample, reply), str(sample.target), _meta(sample, "yes_no"))


def _streamed(rule: Scorer, others: Scorer) -> Scorer:
    """Return the scorer of VSI-SUPER-Count: one rule for questions about a video while it runs, one for others."""
    return lambda sample, reply: (rule if base.STREAMING in _meta(sample, "question_type") else others)(sample, reply)


def _left_out(sample: Sample, reply: str) -> Score:
    return Score(None, verdict="unscored", reason="VLMEvalKit leaves streaming questions out")


def _strict_zero(sample: Sample, reply: str) -> Score:
    """Score strictly, where of a gold answer of 0 only 0 is right: 0.4 is not close to none."""
    score = strict.strict(sample, reply)
    if sample.kind != "number" or not score.value or score.value == 1 or base.float_or_none(_gold(sample)) != 0:
        return score
    return Score(0.0, score.extracted, "wrong", "the gold answer is 0")


def _osi_strict(sample: Sample, reply: str) -> Score:
    if sample.kind != "number":
        return strict.strict(sample, reply)
    return strict.osi_number_strictly(reply, _gold(sample), _meta(sample, "category"), question_text(sample))


def _lego(sample: Sample, reply: str) -> Score:
    circular = "circle" in sample.meta
    kind = _meta(sample, "question_type")
    return vlmevalkit.lego(reply, _gold(sample), _options(sample), kind, circular=circular)


def _lego_strict(sample: Sample, reply: str) -> Score:
    if _meta(sample, "question_type") == base.LEGO_SORT:
        return strict.lego(reply, _gold(sample))
    return strict.strict(sample, reply)


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
    return _masked(lambda text, mask: strict.refspatial(text, mask, image_size(sample) or mask.size))(sample, reply)


def _robospatial(sample: Sample, reply: str) -> Score:
    size = image_size(sample)
    if size is None and not base.is_yes_no(_gold(sample)):
        return _sizeless(reply, _gold(sample))
    return vlmevalkit.robospatial(reply, _gold(sample), *(size or (1, 1)))


def _sizeless(reply: str, gold: str) -> Score:
    """Score a point where the image's size is not at hand: only pixels need it, and a reply in pixels is left unscored."""
    scores = [vlmevalkit.robospatial(reply, gold, *size) for size in ((1000, 1000), (4000, 3000))]
    if scores[0].extracted == scores[1].extracted:
        return scores[0]
    why = "the reply is in pixels, and the image's size is not at hand: give the data (--data)"
    return Score(None, None, "unscored", why)


def _robospatial_lmms_eval(sample: Sample, reply: str) -> Score:
    if base.is_yes_no(_gold(sample)) or ("mask" in sample.meta and sample.meta["mask"] is None):
        return lmms_eval.robospatial(reply, _gold(sample), None)
    return _masked(lambda text, mask: lmms_eval.robospatial(text, _gold(sample), mask))(sample, reply)


def _robospatial_strict(sample: Sample, reply: str) -> Score:
    mask = sample.meta.get("mask")
    try:
        pixels = points.mask_pixels(mask) if isinstance(mask, Mask) else None
    except SnellenError:
        pixels = None  # the polygon decides; without one the row is unscored, which says why
    size = image_size(sample) or (pixels.size if pixels else (1, 1))
    return strict.robospatial(reply, _gold(sample), question_text(sample), size, pixels)


_OPTION = _by(score_option)
_VSI = _scorers(_by(vlmevalkit.vsi, "question_type"), _by(lmms_eval.vsi, "question_type"))
_SPBENCH = _scorers(_letter_or_number, strictly=_strict_zero)
_REVSI = _by(lmms_eval.revsi, "question_type")
SCORERS: Mapping[str, Mapping[str, Scorer]] = {
    "vsi-bench": _VSI,
    "mmsi-bench": _scorers(_OPTION, _by_letter(lmms_eval.mmsi_letter)),
    "mindcube-tiny": _scorers(_OPTION, _by_letter(lmms_eval.mindcube_letter)),
    "viewspatial": _scorers(_OPTION, _by(lmms_eval.score_viewspatial)),
    "site": _scorers(_OPTION, _site_lmms_eval),
    "blink": _scorers(_matched, _by(lmms_eval.score_blink)),
    "3dsrbench": _scorers(_matched, _by_letter(lmms_eval.three_dsr_letter)),
    "embspatial": _scorers(_OPTION, _by_letter(lmms_eval.leading_letter)),
    "mmsi-video-bench": _scorers(_OPTION, _by(lmms_eval.score_mmsi_video)),
    "omnispatial": _scorers(_OPTION, _by(lmms_eval.score_omnispatial)),
    "spar-bench": _scorers(_by(vlmevalkit.spar, "question_type"), _by(lmms_eval.spar, "question_type")),
    "vsi-debiased": _VSI,
    "stare": _scorers(_by(vlmevalkit.stare, "yes_no"), _by(lmms_eval.stare), _stare_strict),
    "spatialviz": _scorers(_OPTION, _by(lmms_eval.spatialviz)),
    "erqa": _scorers(
        _OPTION,
        _by_letter(lmms_eval.erqa_letter),
        vlmevalkit_upstream=_by(vlmevalkit.erqa_upstream),
        lmms_eval_pinned=_by_letter(lmms_eval.leading_letter),
    ),
    "refspatial": _scorers(
        _masked(vlmevalkit.refspatial),
        _masked(lmms_eval.refspatial),
        _refspatial_strict,
        vlmevalkit_upstream=_masked(vlmevalkit.refspatial_upstream),
        lmms_eval_json=_masked(lmms_eval.refspatial_json),
    ),
    "robospatial-home": _scorers(_robospatial, _robospatial_lmms_eval, _robospatial_strict),
    "spbench/si": _SPBENCH,
    "spbench/mv": _SPBENCH,
    "vsi-super-recall": _scorers(_OPTION, _by(lmms_eval.vsi_super_recall)),
    "vsi-super-count": _scorers(
        _streamed(_left_out, _by(_number)),
        _streamed(_by(lmms_eval.vsi_super_streaming), _by(lmms_eval.vsi_super_count)),
        _streamed(_by(strict.vsi_super_streaming), _strict_zero),
    ),
    "sti-bench": _scorers(_OPTION),
    "cv-bench": _scorers(_matched_in_brackets, _by(lmms_eval.score_blink)),
    "lego-puzzles": _scorers(_lego, strictly=_lego_strict),
    "spatial457": _scorers(_by(vlmevalkit.spatial457), _by(lmms_eval.spatial457), _by(strict.spatial457)),
    "dsr-bench": _scorers(_OPTION),
    "eriq": _scorers(_OPTION),
    "osi-bench": _scorers(
        _by(vlmevalkit.osi, "category", "question_type"),
        _by(lmms_eval.osi, "category", "question_type"),
        _osi_strict,
    ),
    "revsi": _scorers(_REVSI, _REVSI, _strict_zero),
}
"""By benchmark and profile."""
