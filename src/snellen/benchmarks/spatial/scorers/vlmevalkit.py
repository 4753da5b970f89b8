"""VLMEvalKit's rules of the spatial benchmarks, which EASI uses: the option, number and choice matchers, and those of one set.

BLINK, 3DSRBench, CV-Bench and LEGO-Puzzles use the choice matcher, all others the option matcher, and numbers the number
matcher; functions named after a benchmark are its rule.

Source: the matchers of VLMEvalKit's spatial suite and its generic option matcher under the `exact_matching` policy; the
classes `VSI-Bench*`, `SparBench`, `StareBench`, `ERQADataset`, `RefSpatialBench`, `RefSpatialDataset`, `RoboSpatialBench`,
`LEGO`, `Spatial457` and `OSIBench` of VLMEvalKit and of EASI's fork.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from snellen.benchmarks.spatial.question import UNKNOWN_OPTIONS
from snellen.benchmarks.spatial.scorers import base, points
from snellen.benchmarks.spatial.scorers.base import (
    DIGIT_OF_WORD,
    LEGO_SORT,
    LEGO_STEPS,
    MAX_SHOWN,
    VEHICLES,
    float_or_none,
    is_yes_no,
    line_spans,
    osi_is_number,
    osi_number,
    score_number,
    view_change,
)
from snellen.benchmarks.spatial.scorers.points import MAX_POINTS, MaskPixels, ReferenceFailsError, graded_points, stops
from snellen.errors import DataError
from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED
from snellen.scoring.rules.vlmevalkit import infer, infer_text, literal_list
from snellen.types import Sample, Score

INVISIBLE = re.compile("[\u200b\u200c\u200d\ufeff]")


TAIL = 800
"""Characters of the end of a reply in which a tag's end, and the last lines, are looked for."""


LINES = 6


_OPEN, _CLOSE = r"[(\[{（【]", r"[)\]}）】]"


_TAG = re.compile(r"<\s*+answer\b", re.IGNORECASE)


_TAG_END = re.compile(r"<\s*+/\s*+answer\s*+>", re.IGNORECASE)


_AT_ONCE = re.compile(r"\s*+([A-J])", re.IGNORECASE)


_BEFORE = [
    re.compile(rf"(?<![A-Za-z]){_OPEN}?\s*([A-F])\s*{_CLOSE}?\s*</\s*{tag}\s*>", re.IGNORECASE)
    for tag in ("answer", "think")
]


_THOUGHT = re.compile(r"</\s*think\s*>", re.IGNORECASE)


_THINKING = re.compile(r"<\s*think\s*>", re.IGNORECASE)


_LISTED = re.compile(r"[\s*_>\-]*+(?:option|选项)\s+[A-J]\s*[:：]", re.IGNORECASE)


_ALONE = re.compile(r"[*_`>（）\[\]【】()]*+\s*+([A-Fa-f])\s*+[*_`（）\[\]【】()]*+")


_NUMBERED = re.compile(r"([A-F])\s*+[.．:：)\]】、-]\s", re.IGNORECASE)


_TOKEN = re.compile(r"(?<![A-Za-z])([A-F])[*_`}]*+(?=$|[\s.,:;!?)\]】》」』，。；、：）])")
"""A letter in a line; signs of markup may stand around it."""


_PHRASE = re.compile(
    rf"(?:answer(?:\s*+is)?|答案|结论|所以|因此|我选择|我选|选择|选)\s*+[:：>＝=]?+\s*+{_OPEN}?+\s*+([A-F])\b",
    re.IGNORECASE,
)


_STANDING = re.compile(r"(?<![A-Za-z])([A-F])(?![A-Za-z])")


def cleaned(reply: str) -> str:
    """Strip blanks at the ends, and characters of no width."""
    text = reply.strip()
    return text if text.isascii() else INVISIBLE.sub("", text)


def after_thinking(text: str) -> str:
    """Return the text after the last `</think>`, else after the last `<think>`, else all of it."""
    for tag in (_THOUGHT, _THINKING) if "<" in text else ():
        ends = [match.end() for match in tag.finditer(text)]
        if ends:
            return text[ends[-1] :].strip()
    return text


def in_tags(text: str, content: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Yield the matches of `content` behind the `>` of each opening answer tag; a tag reaches to the next `>`."""
    end = -1
    for tag in _TAG.finditer(text) if "<" in text else ():
        if tag.end() <= end:
            continue  # within the tag before, at whose end nothing matched
        end = text.find(">", tag.end())
        if end < 0:
            return
        match = content.match(text, end + 1)
        if match is not None:
            yield match


def _tagged(text: str) -> str | None:
    """Return the letter at the head of the first answer tag that has one and is closed somewhere behind it."""
    first = next(in_tags(text, _AT_ONCE), None)
    if first is None:
        return None
    closed = any(first.end() <= close.start() for close in _TAG_END.finditer(text, first.end()))
    return first[1].upper() if closed else None


def match_option(reply: str) -> str | None:
    """Return the letter that VLMEvalKit reads: A to F (in an answer tag A to J), upper case; None where it reads none.

    Six places are tried in turn: the answer tag, the end of a tag, the last lines after the thinking, the last lines of the
    whole, a phrase of conclusion, the only letter there is.

    There is no boundary behind the letter of a tag (`<answer>Because</answer>` is B); a letter in lower case counts only in
    a tag, alone on its line, at the head of a line or after a phrase; the text of an option is never looked for.
    """
    text = cleaned(reply)
    tail = text[-TAIL:]
    tagged = _tagged(text)
    if tagged:
        return tagged
    for pattern in _BEFORE if "<" in tail else ():
        match = pattern.search(tail)
        if match:
            return match[1].upper()
    letter = _last_lines(after_thinking(text)) or _last_lines(tail)
    if letter:
        return letter
    match = _PHRASE.search(text)
    if match:
        return match[1].upper()
    unlisted = "\n".join(line for line in text.splitlines() if not _LISTED.match(line))
    return _only(_STANDING.findall(unlisted))


def _last_lines(text: str) -> str | None:
    for line in map(str.strip, reversed(text.splitlines()[-LINES:])):
        if not line or _LISTED.match(line):
            continue
        match = _ALONE.fullmatch(line) or _NUMBERED.match(line)
        letter = match[1].upper() if match else _only(_TOKEN.findall(line))
        if letter:
            return letter
    return None


def _only(letters: Iterable[str]) -> str | None:
    different = set(letters)
    return different.pop() if len(different) == 1 else None


def score_option(reply: str, gold: str) -> Score:
    """Score 1 if `match_option` reads the same letter in the reply and in the gold answer.

    Where nothing is read in either, the kit compares one failure with the other and counts a hit. This is reproduced, and
    reported in `detail`, because it lifts the figure: a gold letter beyond F is right with any unparseable reply.
    """
    letter, target = match_option(reply), match_option(gold)
    if letter is None and target is None:
        why = f"no letter in the reply, none in the gold answer {gold!r}: the kit counts this as right"
        return Score(1.0, None, "correct", why, {"gold_unread": True})
    if letter is None:
        return Score(0.0, None, "invalid", "no letter")
    return Score(float(letter == target), letter, "correct" if letter == target else "wrong")


_NUMBER = r"[+-]?(?:\d*\.\d+|\d+)(?:[eE][+-]?\d+)?"


_ANY_NUMBER = re.compile(_NUMBER)


_NUMBER_AT_ONCE = re.compile(rf"\s*+({_NUMBER})(?:[^\d<][^<]*+)?<\s*+/\s*+answer\s*+>", re.IGNORECASE)


_WORDS = {word: str(number) for word, number in ENGLISH_BELOW_HUNDRED.items() if number <= 20}


_WORD = re.compile(rf"\b(?=[efnostz])(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)


def match_number(reply: str) -> float | None:
    """Return the number that VLMEvalKit reads: at the head of an answer tag that is closed, else the last one.

    A list literal stands for its first element (one that cannot be parsed for nothing). The words zero to twenty become
    digits one by one, so that `twenty-one` is -1; a comma parts numbers, and `7.5 m^2` is 2.
    """
    text = reply.strip()
    if text.startswith("[") and text.endswith("]"):
        items = literal_list(reply)
        if not items:
            return None
        text = str(items[0])
    if not text.isascii():
        text = INVISIBLE.sub("", text)
    text = _WORD.sub(lambda match: _WORDS[match[0].lower()], text)
    tagged = next(in_tags(text, _NUMBER_AT_ONCE), None)
    if tagged:
        return float(tagged[1])
    for part in dict.fromkeys((after_thinking(text), text)):
        last: re.Match[str] | None = None
        for last in _ANY_NUMBER.finditer(part):  # noqa: B007 - no list: a reply may hold a hundred thousand numbers
            pass
        if last is not None:
            return float(last[0])
    return None


def score_choice(reply: str, choices: Mapping[str, str], gold: str) -> Score:
    """Score the kit's hit without a judge: an unparseable reply is worth 0, and counts as a failure of extraction.

    `detail` holds `failed_in_prefetch`, from which EASI takes the share of failures.
    """
    letter = infer(reply, choices)
    failed = {"failed_in_prefetch": letter is None}
    if letter is None:
        return Score(0.0, None, "invalid", "no letter and no choice's text", failed)
    right = letter == gold.strip()
    return Score(float(right), letter, "correct" if right else "wrong", None, failed)


def score_matched(sample: Sample, reply: str) -> Score:
    """Score BLINK and 3DSRBench, where the options' texts are compared with; A to D without texts where none is listed."""
    return score_choice(reply, sample.options or UNKNOWN_OPTIONS, str(sample.meta["gold"]))


def score_matched_in_brackets(sample: Sample, reply: str) -> Score:
    """Score CV-Bench, whose gold letters stand in brackets."""
    return score_choice(reply, _options(sample), str(sample.meta["gold"]).strip().strip("()"))


def _options(sample: Sample) -> Mapping[str, str]:
    return {letter: text for letter, text in sample.options.items() if text}


def _number(reply: str, gold: str) -> Score:
    """Score the last number by mean relative accuracy; a gold answer that is no number makes every reply wrong."""
    score = score_number(match_number(reply), gold)
    return score if score.value is not None else Score(0.0, score.extracted, "wrong", score.reason)


def score_letter_or_number(sample: Sample, reply: str) -> Score:
    """Score SPBench by the kind of the question."""
    return (_number if sample.kind == "number" else score_option)(reply, str(sample.meta["gold"]))


def score_vsi_super_count(reply: str, gold: str, question_type: str) -> Score:
    """Score the last number of VSI-SUPER-Count; streaming questions are left out."""
    if base.STREAMING in question_type:
        return Score(None, verdict="unscored", reason="VLMEvalKit leaves streaming questions out")
    return _number(reply, gold)


def vsi(reply: str, gold: str, question_type: str) -> Score:
    """Score as VLMEvalKit: its option matcher, or the last number with the mean relative accuracy.

    Raises:
        DataError: if the question type is none of the ten.
    """
    if base.kind_of("vsi-bench", question_type) == "choice":
        return score_option(reply, gold)
    return score_number(match_number(reply), gold)


def spar(reply: str, gold: str, question_type: str) -> Score:
    """Score as VLMEvalKit: its option matcher, its last number, or a view change without the items that make no sense.

    Raises:
        DataError: if the task is none of the twenty.
    """
    kind = base.kind_of("spar-bench", question_type)
    if kind == "choice":
        return score_option(reply, gold)
    if kind == "number":
        return base.score_number(match_number(reply), gold)
    return view_change(_kit_moves(reply), gold)


def _kit_moves(text: str) -> dict[str, float]:
    """Return the amounts by action of the items that are `action:amount`, blanks aside."""
    moves: dict[str, float] = {}
    for item in text.split(","):
        name, colon, amount = item.strip().partition(":")
        value = float_or_none(amount)
        if colon and value is not None:
            moves[name.strip()] = value
    return moves


def osi(reply: str, gold: str, category: str, question_type: str = "") -> Score:
    """Score as EASI's kit: the option matcher, or the last number."""
    if osi_is_number(category, question_type):
        return osi_number(match_number(reply), gold, category)
    return score_option(reply, gold)


def erqa_upstream(reply: str, gold: str) -> Score:
    """Score 1 if the whole reply is the gold letter, in any case and blanks aside: `B.` is wrong."""
    text = reply.strip()
    right = text.lower() == gold.strip().lower()
    return Score(float(right), text[:200], "correct" if right else "wrong")


_PAIR = re.compile(r"([A-F])\s*+(?:[.:：)）]\s*+)?+(yes|no)", re.IGNORECASE)


def yes_no_letters(question: str) -> str:
    """Return which letters of a question stand for yes and no, as `A:yes B:no`; empty where none does.

    A letter and the word may have a mark between them, and need no boundary, as in the kit.
    """
    letters = {letter.upper(): word.lower() for letter, word in _PAIR.findall(INVISIBLE.sub("", question))}
    return " ".join(f"{letter}:{word}" for letter, word in letters.items())


def stare(reply: str, gold: str, yes_no: str) -> Score:
    """Score by the option matcher. `detail` holds the yes or no of both letters where the question maps them, for F1.

    Args:
        yes_no: as `yes_no_letters` returns it.
    """
    return with_classes(score_option(reply, gold), gold, yes_no)


def with_classes(score: Score, gold: str, yes_no: str) -> Score:
    """Return the score with `f1_gold` and `f1_predicted` in its detail, where these letters stand for yes or no."""
    words = dict(pair.split(":") for pair in yes_no.split())
    predicted, wanted = words.get(str(score.extracted).upper()), words.get(gold.strip().upper())
    if wanted is None:
        return score
    detail = {**score.detail, "f1_gold": wanted, **({"f1_predicted": predicted} if predicted else {})}
    return Score(score.value, score.extracted, score.verdict, score.reason, detail)


_FOUR = re.compile(r"\b([A-D]{4})\b")


STEP_LETTER = re.compile(r"[A-D]")


_ORDER = [
    re.compile(words, re.IGNORECASE)
    for words in ("first|1st|首先|第一步", "second|2nd|其次|第二步", "third|3rd|再次|第三步", "fourth|4th|最后|第四步")
]


_STEP = re.compile(r"step\s*+[\d一二三四]|步骤\s*+[\d一二三四]|第\s*+[\d一二三四]\s*+步", re.IGNORECASE)


def match_sequence(reply: str) -> str | None:
    """Return the four letters in order that the kit reads, in upper case; None where it reads none.

    The first run of four letters A to D, if all differ; else the letter behind each of first, second, third and fourth, in
    English or Chinese; else that behind each of four steps. A letter may stand inside the next word.
    """
    text = reply.upper()
    run = _FOUR.search(text)
    if run and len(set(run[1])) == LEGO_STEPS:
        return run[1]
    named = [letters[0] for words in _ORDER if (letters := _letters_behind(words, text, 1))]
    for letters in (list(dict.fromkeys(named)), list(dict.fromkeys(_letters_behind(_STEP, text, LEGO_STEPS)))):
        if len(letters) == LEGO_STEPS:
            return "".join(letters)
    return None


def _letters_behind(head: re.Pattern[str], text: str, most: int) -> list[str]:
    """Return the first letter on the line behind each head, up to `most` of them; a head without one is passed over."""
    letters: list[str] = []
    at, letter_at, line_end = 0, -1, -1
    while len(letters) < most and (match := head.search(text, at)) is not None:
        if letter_at < match.end():
            letter = STEP_LETTER.search(text, match.end())
            if letter is None:
                break
            letter_at = letter.start()
        if line_end < match.end():
            line_end = text.find("\n", match.end())
            line_end = len(text) if line_end < 0 else line_end
        if letter_at < line_end:
            letters.append(text[letter_at])
            at = letter_at + 1
        else:
            at = match.start() + 1
    return letters


def lego(reply: str, gold: str, options: Mapping[str, str], question_type: str, *, circular: bool = False) -> Score:
    """Score without a judge: the order of steps, or the choice matcher; what is not resolved is worth 0.

    In the circular set the kit uses the choice matcher for orders too, so that a right order is never resolved there.
    """
    if question_type != LEGO_SORT or circular:
        return score_choice(reply, options, gold)
    order = match_sequence(reply) or infer_text(reply, options)
    failed = {"failed_in_prefetch": order is None}
    if order is None:
        return Score(0.0, None, "invalid", "no order of four letters", failed)
    right = order == gold.strip()
    return Score(float(right), order, "correct" if right else "wrong", None, failed)


def score_lego(sample: Sample, reply: str) -> Score:
    """Score LEGO-Puzzles by the type of the question."""
    gold, kind = str(sample.meta["gold"]), str(sample.meta.get("question_type", ""))
    return lego(reply, gold, _options(sample), kind, circular="circle" in sample.meta)


_SINGLE, _DOUBLE = re.compile(r"Answer': '"), re.compile(r"Answer\": \"")


_ONE_DIGIT = re.compile(r"Answer': (\d)")


def spatial457_answer(reply: str) -> str | None:
    """Return what the kit reads behind `Answer': '`, `Answer": "` or `Answer': ` (one digit); None where it takes the whole reply."""
    for opening, closing in ((_SINGLE, "'"), (_DOUBLE, '"')):
        answer = next(line_spans(reply, opening, closing), None)
        if answer is not None:
            return answer
    match = _ONE_DIGIT.search(reply)
    return match[1] if match else None


def spatial457(reply: str, gold: str) -> Score:
    """Score 1 for the gold answer in any case, and for what the kit takes for it: see `kit_equal`.

    `detail` holds `format_error` where the whole reply was compared.
    """
    answer = spatial457_answer(reply)
    text = reply if answer is None else answer
    right = spatial457_equal(text, gold)
    verdict = "correct" if right else "wrong" if answer is not None or reply.strip() else "invalid"
    return Score(float(right), text, verdict, None, {"format_error": answer is None})  # type: ignore[arg-type]


def spatial457_equal(answer: str, gold: str) -> bool:
    """Return True for equal texts, `none` for no, 0 for `No`, a number word, 1 to 9 for yes, and vehicles of one class."""
    answer = "no" if answer.lower() == "none" else answer
    if answer.lower() == gold.lower() or (answer == "0" and gold == "No") or DIGIT_OF_WORD.get(answer.lower()) == gold:
        return True
    if gold.lower() == "yes" and len(answer) == 1 and answer in "123456789":
        return True
    vehicles = [VEHICLES.get(text.lower().split(" ")[0]) for text in (answer, gold)]
    return vehicles[0] is not None and vehicles[0] == vehicles[1]


def refspatial(reply: str, mask: MaskPixels) -> Score:
    """Score the share of the reply's points on the mask; of a mask in colours the first channel counts.

    `detail` holds `num_points` and `is_parsable` as EASI writes them.
    """
    width, height = mask.size
    try:
        read = points.easi_points(reply, width, height)
    except ReferenceFailsError as error:
        return Score(0.0, None, "invalid", str(error), {"num_points": 0, "is_parsable": False})
    count = points.count_points(read)
    value = points.share_on_mask(read, mask.first > 0)
    return graded_points(
        value, [list(point) for point in read[:MAX_POINTS]], {"num_points": count, "is_parsable": True}
    )


def refspatial_upstream(reply: str, mask: MaskPixels) -> Score:
    """Score 1 if any point lies on the mask. The reference stops at a mask in colours; such a row is left unscored."""
    try:
        read = points.upstream_points(reply)
        listed = [list(point) for point in read[:MAX_POINTS]]
        if read and mask.channels > 1:
            return Score(None, listed, "unscored", stops("ValueError", "the mask has several channels"))
        return graded_points(float(points.any_on_mask(read, mask.first > 0)), listed)
    except ReferenceFailsError as error:
        return Score(None, None, "unscored", stops(str(error)))


def robospatial(reply: str, gold: str, width: int, height: int) -> Score:
    """Score as VLMEvalKit: a reply that begins with the gold word (`Nothing` is no), or a first point in the polygon.

    The polygon test has the fault of the authors' early code: a vertical edge counts for every point beside it.
    `detail` holds `is_binary` and `is_parsable` as the kit writes them.
    """
    text = reply.strip()
    if is_yes_no(gold):
        right = text.lower().startswith(gold.strip().lower())
        reason = None if text else "the reply is empty"
        verdict = "correct" if right else "wrong" if text else "invalid"
        return Score(float(right), text[:MAX_SHOWN], verdict, reason, {"is_binary": True, "is_parsable": bool(text)})  # type: ignore[arg-type]
    unread = {"is_binary": False, "is_parsable": False}
    try:
        corners = points.polygon(gold)
        point = points.first_point(points.easi_points(text, width, height), width or 1, height or 1)
    except (DataError, ReferenceFailsError) as error:
        return Score(0.0, None, "invalid", str(error), unread)
    if point is None:
        return Score(0.0, None, "invalid", "no point", unread)
    right = points.in_polygon_as_easi(*point, corners)
    return Score(float(right), list(point), "correct" if right else "wrong", None, {**unread, "is_parsable": True})


def score_robospatial(sample: Sample, reply: str) -> Score:
    """Score RoboSpatial-Home. Where the image's size is not at hand, only a reply in pixels needs it, and is left unscored."""
    gold, size = str(sample.meta["gold"]), points.image_size(sample)
    if size is not None or is_yes_no(gold):
        return robospatial(reply, gold, *(size or (1, 1)))
    scores = [robospatial(reply, gold, *some) for some in ((1000, 1000), (4000, 3000))]
    if scores[0].extracted == scores[1].extracted:
        return scores[0]
    why = "the reply is in pixels, and the image's size is not at hand: give the data (--data)"
    return Score(None, None, "unscored", why)
