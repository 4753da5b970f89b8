"""Scorers of declared benchmarks: one profile reads replies strictly, the others as another harness does.

`strict` reads with `snellen.scoring.extract`; `vlmevalkit` and `lmms-eval` with the rules in `snellen.scoring.rules`. Each is
a table from the reading and the comparison of a `ScoreRule` to a function; a reply that a rule cannot read is `invalid`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from snellen.benchmarks.table.declaration import InspectScorer, ScoreRule
from snellen.benchmarks.table.operations import LETTERS
from snellen.benchmarks.table.score_columns import READ
from snellen.errors import DataError
from snellen.scoring import scorers as ready
from snellen.scoring.answers.video_moment import VideoMoment
from snellen.scoring.bounded_patterns import OutOfTimeError
from snellen.scoring.coordinates import SIDES, is_grounded
from snellen.scoring.extract import read
from snellen.scoring.grounding import IOU
from snellen.scoring.replies.reply import outside_thinking, visible
from snellen.scoring.rules import (
    chinese_answers,
    documents,
    final_answers,
    formula_matching,
    generalised,
    lmms_eval,
    page_parse,
    short_answers,
    video,
    vlmevalkit,
)
from snellen.scoring.rules.harness_regions import RegionRule, evidence_overlap, score_by_rule
from snellen.scoring.rules.inspect_scorers import rule_of
from snellen.types import Sample, Score, Verdict

PROFILES = {
    "strict": "a single clear answer, in any wording; everything else counts as unparseable",
    "vlmevalkit": "VLMEvalKit's rules without a judge; replies that its judge would read count as unparseable",
    "lmms-eval": "lmms-eval's generic rules without a judge",
}
"""Profiles of every declared benchmark, with one line each; the first is the default."""
OF_PAGES = {"strict": "all of the reply as a page in Markdown, by the authors' matching of blocks"}
"""`strict` where a reply is no short answer."""
JUDGE: Literal["judge"] = "judge"
BY_JUDGE: Mapping[str, str] = {
    JUDGE: "the verdicts of a judge on open answers, where other profiles compare them by rules; the rest as under strict"
}
INSPECT = "inspect-"
"""Begins the profiles of Inspect's scorers."""
AUTHORS = {"authors": "the authors' own script, without the models that it asks"}
"""The profile of declarations that say how that script reads."""

Scorer: TypeAlias = Callable[[Sample, str], Score]
Reader: TypeAlias = Callable[[ScoreRule, Sample, str], Any]
"""Returns what is read from a reply; None where nothing is."""
READY: Mapping[str, Scorer] = {
    "choice": ready.choice,
    "multi-choice": ready.by_kind,
    "moment": ready.by_kind,
    "truth": ready.truth,
    "count": ready.count,
    "number": ready.number,
    "short": ready.short,
    "judged": ready.judged,
}
DOCUMENTS: Mapping[str, Callable[[str, str], float]] = {
    "edit": documents.edit_similarity,
    "teds": documents.teds,
    "teds-of-mapping": documents.mapping_teds,
    "outline": documents.outline_similarity,
    "page": documents.page_similarity,
    "page-parse": page_parse.page_value,
    "page-parse-cdm": partial(page_parse.page_value, with_cdm=True),
    "cdm": formula_matching.cdm,
    "fields": documents.fields_share,
    "count-share": documents.count_share,
    "contains-or-anls": documents.contained_or_similar,
    "contains-or-anls-cased": partial(documents.contained_or_similar, cased=True),
    "contains-or-anls-unspaced": partial(documents.contained_or_similar, spaced=False),
    "contains-untagged-formula": lambda reply, gold: float(_untagged(gold) in _untagged(reply)),
    "fills-blank": chinese_answers.fills_blank,
    "emma": lambda answer, gold: float(final_answers.emma_equal(answer, gold)),
}
"""Comparisons of a reply with one gold answer, of which the best counts."""
WITH_MORE = (documents.TooLarge, page_parse.PageValue)
"""Values that say more than how good a reply is."""
OF_ROW = ("iou", "answer-and-box", "spotting", "letters-or-page")
"""Comparisons with more of the row: the gold box, the value `bbox`, `bbox` with the words of `content`, and the question."""
OF_TEXTS = ("anls", "vqa-score", "relaxed", "contains", "contains-formula", "formula")
TEXT_COMPARISONS = (*OF_TEXTS, *DOCUMENTS, *OF_ROW)
"""Comparisons of texts that a set of questions defines; under `strict` they see the short answer that was read."""
REFUSAL = "refusal, read as Z"
TOO_LATE, MOST_LATE = "the pattern of the scorer takes too long on it", 10
"""Reason why a reply is unread; replies of which it may be that."""
CHINESE_TRUTH: Mapping[bool | None, str | None] = {True: "对", False: "错", None: None}


def scorers(rule: ScoreRule) -> dict[str, Scorer]:
    """Return the scorer of each profile; what is left to a judge is so under each of them."""
    return {profile: _but_judged(rule, _scorer(rule, profile)) for profile in profiles_of(rule)}


def profiles_of(rule: ScoreRule) -> dict[str, str]:
    """Return the profiles of a rule, with one line each."""
    strict = OF_PAGES if rule.equals in ("page-parse", "page-parse-cdm") else {}
    of_inspect = {f"{INSPECT}{one.name}": _about_inspect(one) for one in rule.inspect}
    found = of_inspect | PROFILES | strict | (AUTHORS if rule.has("authors") else {})
    return {**found, **BY_JUDGE} if rule.has(JUDGE) else found


def kinds_for_judge(rule: ScoreRule) -> set[str]:
    """Return the kinds of samples that are left to a judge under each profile: free texts, and those whose rule by kind says so."""
    values = rule.values if rule.by == "kind" else {}
    return {"judged", *(kind for kind, other in values.items() if other.read == "judged")}


def judged_beside(rule: ScoreRule, sample: Sample) -> bool:
    """Return True if the profile `judge` leaves a sample to a judge, which other profiles score by rules."""
    if rule.by and (other := rule.values.get(_value_of(rule, sample))) is not None:
        return judged_beside(other, sample)
    return JUDGE in rule.profiles and rule.profiles[JUDGE].read == "judged"


def _value_of(rule: ScoreRule, sample: Sample) -> str:
    """Return the value of a sample by which a rule's `values` are chosen."""
    return sample.kind if rule.by == "kind" else str(sample.meta.get(rule.by, ""))


def _about_inspect(scorer: InspectScorer) -> str:
    args = ", ".join(f"{name} {value}" for name, value in scorer.args.items())
    return f"the scorer {scorer.name} of inspect_ai{f', with {args}' if args else ''}"


def comparisons_of(rule: ScoreRule) -> set[str]:
    """Return the comparisons of a rule, of its values and of its profiles."""
    return {rule.equals}.union(*map(comparisons_of, (*rule.values.values(), *rule.profiles.values())))


def _but_judged(rule: ScoreRule, scorer: Scorer) -> Scorer:
    kinds = kinds_for_judge(rule)

    def score(sample: Sample, reply: str) -> Score:
        return ready.judged(sample, reply) if sample.kind in kinds else scorer(sample, reply)

    return score


def _scorer(rule: ScoreRule, profile: str) -> Scorer:
    if profile.startswith(INSPECT):
        return _of_inspect(next(one for one in rule.inspect if f"{INSPECT}{one.name}" == profile))
    followed = rule.profiles.get(profile, rule)  # type: ignore[call-overload]
    is_left = profile == JUDGE and followed.read == "judged"
    own = (
        _with_recall(followed, ready.judged)
        if is_left
        else _single(followed, "strict" if profile == JUDGE else profile)
    )
    if not rule.by:
        return own
    by_value = {value: _scorer(other, profile) for value, other in rule.values.items()}

    def score(sample: Sample, reply: str) -> Score:
        return by_value.get(_value_of(rule, sample), own)(sample, reply)

    return score


def _of_inspect(scorer: InspectScorer) -> Scorer:
    rule = rule_of(scorer.name, scorer.args)
    late: set[str] = set()

    def score(sample: Sample, reply: str) -> Score:
        if reply in late:
            return _unread(TOO_LATE)
        try:
            value, answer = rule(reply, golds_of(sample), sample.options)
        except OutOfTimeError as error:
            late.add(reply)
            if len(late) > MOST_LATE:
                raise DataError(
                    f"{error} on the reply to sample {sample.id!r}, and on {MOST_LATE} before it",
                    "Score under another profile, such as strict, or correct the pattern in a copy of the file.",
                ) from None
            return _unread(TOO_LATE)
        return (
            graded(value, answer)
            if answer is not None
            else replace(_unread("not in the form of the scorer"), value=value)
        )

    return score


def _region(rule: ScoreRule, sample: Sample, reply: str) -> Score:
    """Score boxes and points, as a harness does if the rule says how; without a known space as everywhere."""
    if rule.region == RegionRule() or not is_grounded(sample):
        return ready.by_kind(sample, reply)
    return score_by_rule(rule.region, sample, reply)


def _with_evidence(rule: ScoreRule, scorer: Scorer) -> Scorer:
    """Return a scorer that says beside its score how well the boxes that a reply shows overlap those of the row."""

    def score(sample: Sample, reply: str) -> Score:
        said = reply if rule.region.find else _BOX.sub(" ", reply)  # a tag of a box holds no answer
        found, gold = scorer(sample, said), str(sample.meta.get(rule.evidence, ""))
        return replace(found, detail={**found.detail, IOU: str(evidence_overlap(rule.region, reply, gold))})

    return score if rule.evidence else scorer


def _single(rule: ScoreRule, profile: str) -> Scorer:
    if rule.read in SIDES:
        seen = lmms_eval.without_reasoning if profile == "lmms-eval" else str
        return lambda sample, reply: _region(rule, sample, seen(reply))
    return _with_recall(rule, _with_evidence(rule, _of_text(rule, profile)))


def _with_recall(rule: ScoreRule, scorer: Scorer) -> Scorer:
    """Return a scorer that says beside its score which share of the gold answer's words the reply holds."""

    def score(sample: Sample, reply: str) -> Score:
        found = scorer(sample, reply)
        said = "".join(reply[slice(*span)] for span in outside_thinking(reply))
        recall = short_answers.token_recall(said, golds_of(sample))
        return replace(found, detail={**found.detail, short_answers.WORD_RECALL: str(recall)})

    return score if rule.recall else scorer


def _of_text(rule: ScoreRule, profile: str) -> Scorer:
    readers, compare = {
        "strict": (STRICT_READERS, _compare_strict),
        "authors": (KIT_READERS, _compare_common),
        "vlmevalkit": (KIT_READERS, _compare_kit),
        "lmms-eval": (LMMS_READERS, _compare_lmms),
    }[profile]
    reader = readers.get(rule.read)
    if profile == "strict" and reader is None:
        if rule.equals not in (*TEXT_COMPARISONS, *TYPED):
            return _strict
        reader = _strict_typed if rule.equals in TYPED else _strict_text

    of_page = profile == "vlmevalkit" and rule.equals in (*DOCUMENTS, *OF_ROW)
    prepare = str if of_page else PREPARED.get(profile, str)

    def score(sample: Sample, reply: str) -> Score:
        reply = prepare(reply)
        if sample.kind == "moment":
            return _moment(sample, reply) if rule.equals == "moment" else _strict(sample, reply)
        answer = reader(rule, sample, reply) if reader is not None else reply
        if answer is None:
            return _unread(_why(rule))
        if answer == vlmevalkit.REFUSED and vlmevalkit.REFUSED not in sample.options and rule.read in _BY_LETTER:
            return _unread(REFUSAL)
        value = compare(rule, sample, reply, answer)
        return graded(value, answer)

    return score


PREPARED: Mapping[str, Callable[[str], str]] = {
    "vlmevalkit": vlmevalkit.loaded,
    "lmms-eval": lmms_eval.without_reasoning,
}
"""What a harness does to every reply before it is scored; OCRBench v2's and CMMMU's readers see an empty one as it is."""
TYPED = ("typed", "typed-exact", "typed-as-written")
_BY_LETTER = ("letter-or-text", "answer-line", "first-capital", "lone-letter")


def _why(rule: ScoreRule) -> str:
    return {
        "yes-no": "neither yes nor no alone",
        "number": "no number",
        "pair": "no pair of numbers",
        "braces": "nothing in braces",
        "first-word-of": "none of the words",
        "final": "no final answer",
    }.get(rule.read, "no option named")


def _unread(reason: str) -> Score:
    return Score(0.0, None, "invalid", reason)


def graded(value: float, answer: Any) -> Score:
    """Return the score of a reply that was read, 0 to 1."""
    verdict: Verdict = "correct" if value >= 1.0 else "partial" if value > 0.0 else "wrong"
    reason = value.reason if isinstance(value, WITH_MORE) else None
    figures = value.figures if isinstance(value, page_parse.PageValue) else {}
    detail = {READ: word_of(answer)} | {name: str(figure) for name, figure in figures.items()}
    return Score(float(value), answer, verdict, reason, detail)


def word_of(answer: Any) -> str:
    """Return an answer as the word that meta `target` and detail `reply` hold: yes and no for truth values."""
    return {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else str(answer)[:80]


def _strict(sample: Sample, reply: str) -> Score:
    """Score by the sample's kind, as everywhere in Snellen."""
    result = READY[sample.kind](sample, reply)
    if result.extracted is None:
        return result
    detail = {**result.detail, READ: word_of(result.extracted)}
    return Score(result.value, result.extracted, result.verdict, result.reason, detail)


def golds_of(sample: Sample) -> list[str]:
    """Return the accepted answers of a sample, as texts."""
    target = sample.target
    several = target if isinstance(target, tuple | list) else (target,)
    return [word_of(answer) if isinstance(answer, bool) else _plain(answer) for answer in several]


def _plain(answer: Any) -> str:
    whole = isinstance(answer, float) and answer.is_integer() and abs(answer) < 1 << 53
    return str(int(answer)) if whole else str(answer)


def _compare_common(rule: ScoreRule, sample: Sample, reply: str, answer: Any) -> float:
    golds = golds_of(sample)
    if (compare := _OF_FINAL.get(rule.equals)) is not None:
        value = compare(rule, sample, str(answer))
        return value if isinstance(value, WITH_MORE) else float(value)
    if rule.read in _BY_LETTER or rule.equals == "option" or (rule.read == "final" and sample.options):
        return float(answer == _gold_letter(rule, sample))
    if rule.read in ("yes-no", "first-word-of"):
        return float(word_of(answer).casefold() in [gold.casefold() for gold in golds])
    if rule.read == "pair" or rule.equals == "pair":
        return float(any(answer == short_answers.whole_numbers(gold) for gold in golds))
    if rule.read == "number":
        return float(any(_same_number(answer, gold) for gold in golds))
    if rule.read == "braces" and rule.equals == "contains":
        return float(any(gold.lower() in str(answer).lower() for gold in golds))
    if rule.equals == "contains-formula":
        return float(any(_formula(gold) in _formula(str(answer)) for gold in golds))
    if rule.equals == "contains":
        return float(any(_folded(gold) in _folded(str(answer)) for gold in golds))
    if rule.equals == "anls":
        return float(short_answers.anls(str(answer), golds)["score"])
    return float(any(str(answer).strip().lower() == gold.strip().lower() for gold in golds))


def _formula_or_option(rule: ScoreRule, sample: Sample, answer: str) -> bool:
    """Compare with the gold answer, of a choice with the letter and the text of its option, as MATH-V does."""
    if sample.options:
        letter = final_answers.option_letter(answer, sample.options)
        gold = sample.options[str(sample.target)]
        return letter == sample.target or (letter is None and final_answers.formula_equal(answer, gold, rule.tolerance))
    return any(final_answers.formula_equal(answer, gold, rule.tolerance) for gold in golds_of(sample))


def _math_v(sample: Sample, reply: str, *, rooted: bool) -> bool:
    """Compare with the gold answer, of a choice its letter or the text of its option."""
    answer, golds = final_answers.math_v_answer(reply), golds_of(sample)
    golds += [sample.options[gold] for gold in golds if gold in sample.options]
    return any(final_answers.math_v_equal(answer, gold, rooted=rooted) for gold in golds)


def _within(rule: ScoreRule, sample: Sample, answer: str, slack: float = 1e-12) -> bool:
    read, golds = final_answers.number_in(answer), map(final_answers.number_in, golds_of(sample))
    return read is not None and any(
        gold is not None and abs(read - gold) <= (rule.tolerance or 0.0) + slack for gold in golds
    )


def _overlap(rule: ScoreRule, sample: Sample, answer: str) -> float:
    golds = golds_of(sample)
    return documents.overlap(documents.last_box(answer), golds if len(golds) == 4 else vlmevalkit.literal(golds[0]))


def _answer_and_box(rule: ScoreRule, sample: Sample, answer: str) -> float:
    return documents.answer_and_box(answer, golds_of(sample), vlmevalkit.literal(str(sample.meta.get("bbox", ""))))


def _spotting(rule: ScoreRule, sample: Sample, answer: str) -> float:
    boxes, words = (vlmevalkit.literal_list(str(sample.meta.get(name, ""))) for name in ("bbox", "content"))
    return documents.spotted(answer, boxes or [], words or [])


def _typed(rule: ScoreRule, sample: Sample, answer: str) -> bool:
    golds, of_type = golds_of(sample), str(sample.meta.get("answer_type", ""))
    gold = f"[{', '.join(golds)}]" if of_type == "list" else golds[0]
    if rule.equals != "typed-exact":
        compare = final_answers.typed_equal if rule.equals == "typed" else final_answers.typed_as_written
        return compare(answer, gold, of_type, str(sample.meta.get("precision", "")))
    row = {"question_type": "free_form", "answer_type": of_type, "answer": gold, "prediction_or_extraction": answer}
    return bool(short_answers.mathvista_value({**row, "prefetch": True}))


def _moment(sample: Sample, reply: str) -> Score:
    """Score the moment in a reply as lmms-eval does for Charades-STA; without two times its overlap is 0."""
    gold, found = VideoMoment().parse_gold(sample.target), video.moment_in(reply)
    if found is None:
        return replace(_unread("no start and end"), detail={IOU: "0.0"})
    overlap = video.hull_overlap(found, gold[:2])
    return replace(graded(float(overlap >= 0.5), list(found)), detail={IOU: str(overlap)})


def _gold_cell(sample: Sample) -> str:
    """Return the gold answer as its cell has it: of several, the list as text."""
    golds = golds_of(sample)
    return golds[0] if len(golds) == 1 else str(golds)


def _by_format(rule: ScoreRule, sample: Sample, answer: str) -> float:
    """Score by the row's `answer_format`; the gold answer is the value `gold`, which keeps a list as it is written."""
    golds = golds_of(sample)
    gold = str(sample.meta.get("gold", golds[0] if len(golds) == 1 else golds))
    compare = generalised.lmms_score if rule.equals == "generalised-lmms" else generalised.generalised_score
    return compare(answer, gold, str(sample.meta.get("answer_format", "Str")))


def _marked_letter(rule: ScoreRule, sample: Sample, reply: str) -> bool:
    """Compare the letter that the stages read, and look for the gold letter before a colon or beside `**`, as PhyX does."""
    read_letter = final_answers.final_answer(reply, rule.stages, "".join(sample.options), rule.word)
    marks = (f"{sample.target}:", f"{sample.target}**", f"**{sample.target}")
    return read_letter == sample.target or any(mark in reply for mark in marks)


def _best(compare: Callable[[str, str], float]) -> Callable[[ScoreRule, Sample, str], float]:
    return lambda rule, sample, answer: max(compare(answer, gold) for gold in golds_of(sample))


_OF_FINAL: Mapping[str, Callable[[ScoreRule, Sample, str], float]] = {
    **{name: _best(compare) for name, compare in DOCUMENTS.items()},
    "iou": _overlap,
    "letters-or-page": lambda rule, sample, answer: documents.letters_or_page(
        answer, golds_of(sample)[0], sample.prompt.words
    ),
    "answer-and-box": _answer_and_box,
    "spotting": _spotting,
    "crpe": lambda rule, sample, answer: vlmevalkit.crpe_right(answer, str(sample.meta["gold"])),
    "crpe-option": lambda rule, sample, answer: lmms_eval.crpe_letter(answer, sample.prompt.words) == sample.target,
    "mmvu": lambda rule, sample, answer: video.mmvu_right(
        answer, str(sample.target), sample.options[str(sample.target)]
    ),
    "mmmu-open": lambda rule, sample, answer: video.mmmu_open_right(answer, _gold_cell(sample)),
    "video-mmmu-open": lambda rule, sample, answer: video.mmmu_open_right(
        answer, _gold_cell(sample), video.VIDEO_MMMU_WORDS
    ),
    "reasoned": lambda rule, sample, answer: lmms_eval.reasoned_right(answer, ", ".join(golds_of(sample))),
    "math-v": lambda rule, sample, answer: _math_v(sample, answer, rooted=True),
    "math-v-unrooted": lambda rule, sample, answer: _math_v(sample, answer, rooted=False),
    "math-v-whole": _best(final_answers.kit_formula_equal),
    "slake": lambda rule, sample, answer: (
        lmms_eval.slake_normalised(answer) in map(lmms_eval.slake_normalised, golds_of(sample))
    ),
    "letters-only": lambda rule, sample, answer: "".join(filter(str.isalpha, answer)) in golds_of(sample),
    "formula": _formula_or_option,
    "letters": lambda rule, sample, answer: sorted(re.findall("[A-Z]", answer)) == sorted(sample.target),
    "nearest-option": lambda rule, sample, answer: (
        final_answers.nearest_option(answer, sample.options) == sample.target
    ),
    "only-letter": lambda rule, sample, answer: final_answers.only_letter(answer) in golds_of(sample),
    "within": _within,
    "in-gold": lambda rule, sample, answer: any(answer.lower() in gold.lower() for gold in golds_of(sample)),
    "generalised": _by_format,
    "generalised-lmms": _by_format,
    "typed": _typed,
    "typed-exact": _typed,
    "typed-as-written": _typed,
    "marked-letter": _marked_letter,
    "opening-word": lambda rule, sample, answer: video.opens_as(answer, str(sample.target)),
}
"""Comparisons of a final answer with the gold answer: the value of a reply, 0 to 1."""


def _same_number(answer: Any, gold: str) -> bool:
    try:
        return float(answer) == float(gold)
    except ValueError:
        return False


def _formula(text: str) -> str:
    return text.strip().replace("\n", " ").replace(" ", "")


def _untagged(text: str) -> str:
    return _formula(re.sub(r"\\text\{([^{}]*)\}", r"\1", text))


def _folded(text: str) -> str:
    return text.lower().strip().replace("\n", " ")


def _gold_letter(rule: ScoreRule, sample: Sample) -> Any:
    return sample.target if sample.options or not rule.open_option else "A"


def _compare_kit(rule: ScoreRule, sample: Sample, reply: str, answer: Any) -> float:
    golds = golds_of(sample)
    if "contains" in rule.also and any(gold in reply for gold in golds):
        return 1.0
    if "option" in rule.also and vlmevalkit.infer(reply, sample.options) == sample.target:
        return 1.0
    if rule.equals == "within":
        return float(_within(rule, sample, str(answer), slack=0.0))
    if rule.equals == "relaxed":
        return float(short_answers.relaxed_accuracy(str(answer), golds)["score"])
    if rule.equals == "vqa-score":
        return float(short_answers.vqa_score(str(answer), golds)["score"])
    if rule.read == "braces" and rule.equals == "text":
        return float(answer in golds)
    return _compare_common(rule, sample, reply, answer)


def _compare_lmms(rule: ScoreRule, sample: Sample, reply: str, answer: Any) -> float:
    golds = golds_of(sample)
    if rule.equals == "relaxed":
        return float(any(short_answers.relaxed_equal(str(answer), gold) for gold in golds))
    if rule.equals == "vqa-score":
        return lmms_eval.vqa_share(str(answer), golds)
    if rule.read == "whole" and rule.equals == "contains":
        return float(lmms_eval.contains_folded(str(answer), golds))
    return _compare_common(rule, sample, reply, answer)


def _compare_strict(rule: ScoreRule, sample: Sample, reply: str, answer: Any) -> float:
    if rule.equals == "vqa-score":
        return lmms_eval.vqa_share(str(answer), golds_of(sample))
    if rule.equals == "relaxed":
        return float(any(short_answers.relaxed_equal(str(answer).strip(), gold) for gold in golds_of(sample)))
    return _compare_common(rule, sample, reply, answer)


def _kit_letter(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    choices = dict(sample.options)
    if not choices and rule.open_option:
        choices = {"A": golds_of(sample)[0], "B": rule.open_option}
    return vlmevalkit.infer(reply, choices) if choices else None


def _kit_answer_line(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    return _kit_letter(rule, sample, answer_line(reply))


def answer_line(reply: str) -> str:
    """Return the only capital behind `Answer:` in the last line that begins so, else all that stands there.

    A reply without such a line is returned as it is.
    """
    lines = [line for line in map(str.strip, reply.strip().split("\n")) if line.startswith("Answer:")]
    if not lines:
        return reply
    behind = lines[-1].removeprefix("Answer:")
    capitals = {character for character in behind if character in LETTERS}
    return capitals.pop() if len(capitals) == 1 else behind


def _kit_yes_no(rule: ScoreRule, sample: Sample, reply: str) -> bool | None:
    return {"Yes": True, "No": False}.get(vlmevalkit.read_yes_no(reply))


def _first_word(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    words = sorted(rule.words, key=len, reverse=True)
    match = re.search(rf"\b(?:{'|'.join(map(re.escape, words))})\b", reply, re.IGNORECASE) if words else None
    return None if match is None else next(word for word in words if word.casefold() == match[0].casefold())


def _final(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    """Read by the rule's stages; of a choice whose options alone are compared, only an option is an answer."""
    letters = "".join(sample.options) or LETTERS[:5]
    answer = final_answers.final_answer(reply, rule.stages, letters, rule.word)
    if answer is None or rule.equals not in ("", "option"):
        return answer
    return final_answers.option_letter(answer, sample.options)


def _in_braces(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    texts = short_answers.texts_in_braces(reply)
    return texts[-1 if rule.equals == "contains" else 0] if texts else None


def _lines_of_options(sample: Sample) -> dict[str, str]:
    """Return the lines of the prompt that end with an option's text, with the name that the option has there."""
    lines = sample.prompt.words.split("\n")
    return {letter: line for letter, text in sample.options.items() for line in lines if line.endswith(f": {text}")}


KIT_READERS: Mapping[str, Reader] = {
    "letter-or-text": _kit_letter,
    "first-capital": lambda rule, sample, reply: short_answers.first_capital_letter(reply) or None,
    "answer-line": _kit_answer_line,
    "yes-no": _kit_yes_no,
    "first-word-of": _first_word,
    "number": lambda rule, sample, reply: short_answers.first_count(reply),
    "pair": lambda rule, sample, reply: short_answers.number_pair(reply),
    "braces": _in_braces,
    "final": _final,
    "most-named": lambda rule, sample, reply: chinese_answers.most_named(reply, sample.options),
    "chinese-truth": lambda rule, sample, reply: CHINESE_TRUTH[chinese_answers.chinese_truth(reply)],
    "mmmu-option": lambda rule, sample, reply: lmms_eval.mmmu_option(reply, sample.options),
    "first-mmmu-option": lambda rule, sample, reply: lmms_eval.first_mmmu_option(reply, sample.options),
    "caption": lambda rule, sample, reply: video.named_caption(reply, _lines_of_options(sample)),
    "extracted": lambda rule, sample, reply: generalised.extracted(reply),
}
LMMS_READERS: Mapping[str, Reader] = {
    **KIT_READERS,
    "letter-or-text": lambda rule, sample, reply: lmms_eval.read_letter(reply, rule.word or sample.options),
    "first-capital": lambda rule, sample, reply: short_answers.first_capital(reply) or None,
    "answer-line": lambda rule, sample, reply: lmms_eval.read_letter(reply, sample.options),
    "lone-letter": lambda rule, sample, reply: lmms_eval.lone_letter(reply, sample.options),
    "yes-no": lambda rule, sample, reply: lmms_eval.read_whole_yes_no(reply),
    "number": lambda rule, sample, reply: lmms_eval.read_number(reply),
    "line-letter": lambda rule, sample, reply: video.line_letter(reply, sample.options),
}


def _strict_word(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    """Read one of some words: yes and no as truth, letters as options."""
    if {word.casefold() for word in rule.words} == {"yes", "no"}:
        truth = read("truth", reply, form="yes/no").value
        return None if truth is None else next(word for word in rule.words if (word.casefold() == "yes") == truth)
    letter = read("choice", reply, options={word: word for word in rule.words}).value
    return None if letter is None else str(letter)


def _strict_typed(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    """Read a number where the row's type is one, else a text."""
    if sample.meta.get("answer_type") not in ("integer", "float"):
        return _strict_text(rule, sample, reply)
    value = read("number", reply).value
    return None if value is None else golds_of(replace(sample, target=value))[0]


def _strict_text(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    """Read a text that is compared as it is: the answer container or the whole reply, without a sentence around it.

    Names in `read("short")` lose what stands behind a comma, and an address or a date must not. Where a gold answer may stand
    anywhere, the reply without its thinking is taken.
    """
    if rule.equals in (*DOCUMENTS, *OF_ROW):  # markup counts
        return "".join(reply[slice(*span)] for span in outside_thinking(reply)).strip() or None
    said = visible(reply)
    text = (reply[slice(*said.containers[-1])] if said.containers else said.text).strip()
    if rule.equals in ("contains", "contains-formula"):
        return said.text.strip() or text or None
    if said.unfinished or not text:
        return None
    announced = list(_ANNOUNCED.finditer(text))
    if announced:
        return text[announced[-1].end() :].strip().removesuffix(".") or None
    reading = read("short", reply)
    if reading.reason == "refusal" and not any(read("short", gold).reason == "refusal" for gold in golds_of(sample)):
        return None
    if _SENTENCE.match(text) or len(text.split()) > MOST_WORDS:
        return None if reading.value is None else str(reading.value)
    return text.removesuffix(".") or None


def _strict_extracted(rule: ScoreRule, sample: Sample, reply: str) -> str | None:
    """Read what an extracting model names, else a short answer; a refusal, or that nothing is said of it, is one too."""
    text = visible(reply).text.strip()
    if (answer := generalised.extracted(text)) != text:
        return answer
    is_short = len(text.split()) <= MOST_WORDS and not _CONTRAST.search(text)
    if read("short", reply).reason == "refusal" or (is_short and _ABSENT.search(text)):
        return generalised.NOT_ANSWERABLE
    answer = _strict_text(rule, sample, reply) or ""
    return generalised.extracted(answer) or None


MOST_WORDS = 30
_ABSENT = re.compile(
    r"\b(?:does|do|did|is|are|was|were) not (?:mention|provid|contain|specif|stat|includ|giv|show|list|found|answerable)"
    r"|\bnot in the (?:document|report|text|pages)\b",
    re.IGNORECASE,
)
_CONTRAST = re.compile(r"\b(?:but|however|though|although)\b", re.IGNORECASE)
_BOX = re.compile(r"<box>[^<]{0,400}</box>")
_ANNOUNCED = re.compile(r"\banswer(?: is|:) ?:?", re.IGNORECASE)
_SENTENCE = re.compile(
    r"(?:the|it|this|that|there|these|those|they|he|she|according|based|in|on|i)\b[^\n]{0,400}?\b(?:is|are|was|were|says?|reads?|shows?)\b",
    re.IGNORECASE,
)


STRICT_READERS: Mapping[str, Reader] = {
    "chinese-truth": lambda rule, sample, reply: CHINESE_TRUTH[read("truth", reply, form="yes/no").value],
    "first-word-of": _strict_word,
    "pair": lambda rule, sample, reply: short_answers.number_pair(reply),
    "braces": _in_braces,
    "final": _final,
    "extracted": _strict_extracted,
}
