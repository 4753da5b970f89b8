"""Truth values: yes or no, true or false, in the words of about sixteen languages, or the question's claim restated."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar

from snellen.scoring.answers.base import AnswerType, Found, GoldError
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import stemmed
from snellen.scoring.replies.sentences import (
    Phrase,
    Sentence,
    Word,
    phrase_words,
    phrases,
    places_of,
    possible,
    single_words,
    words_in,
)
from snellen.text import terms

_LETTERS = {"T/F": {"t": True, "f": False}, "yes/no": {"y": True, "n": False}}
_LETTER = re.compile(r"(?<!\w)[TF](?!\w)")
_AFFIRMING = re.compile(r"^(?:it|they|he|she|that)\b[^.\n]{1,30}\.?$", re.MULTILINE)
_SIGNS = {"✓": True, "✔": True, "☑": True, "✅": True, "✗": False, "✘": False, "❌": False, "❎": False, "✖": False}
_SPOKEN = frozenset(("yes", "no", "ja", "nein", "oui", "non", "sí", "sim", "да", "нет"))
"""Words that open a sentence without a comma behind them."""
MOST_VALUES = 40
"""Words for yes and no in a sentence; one with more is a repetition that says nothing."""
MOST_EXTRA = 4
"""Words beside those of the question in a sentence that restates it."""


@lru_cache(maxsize=1)
def _words() -> dict[str, bool]:
    return {**dict.fromkeys(phrases("yes"), True), **dict.fromkeys(phrases("no"), False)}


@lru_cache(maxsize=4_096)
def _claim(question: str) -> tuple[tuple[str, ...], bool]:
    """Return the content words of a question, and whether its claim is negative."""
    sentence = Sentence(question, max(0, len(question) - 600), len(question))
    return _content(sentence), sum(phrase.table == "negation" for phrase in sentence.phrases) % 2 == 1 and not _asks_no(
        sentence
    )


def _asks_no(sentence: Sentence) -> bool:
    """Return True if the only negation of a question is the `no` of `yes or no`."""
    words = [word.text for word in sentence.words]
    return "yes" in words and sum(phrase.table == "negation" for phrase in sentence.phrases) == 1


def _content(sentence: Sentence) -> tuple[str, ...]:
    function = single_words("function")
    turned = {
        at for phrase in sentence.phrases if phrase.table == "negation" for at in range(phrase.first, phrase.after)
    }
    return tuple(
        stemmed(word.text)
        for at, word in enumerate(sentence.words)
        if word.text[0].isalnum() and word.text not in function and at not in turned
    )


def _negations(sentence: Sentence) -> int:
    """Return how often a sentence turns its claim: by words such as `not`, which several say once, and by `is false`; not in `no doubt`."""
    found = sentence.phrases
    assured = {
        at for one in found if one.table == "yes" and one.after - one.first > 1 for at in range(one.first, one.after)
    }
    turning = [one for one in found if one.table == "negation" and one.first not in assured]
    turned = {at for one in turning for at in range(one.first, one.after)}
    denied = {one.first for one in found if one.table == "no" and turned.isdisjoint(range(one.first, one.after))}
    return bool(turning) + len(denied - assured)


def _offers_both(sentence: Sentence) -> bool:
    """Return True if a sentence joins yes and no: `yes or no`, `true/false`."""
    either = single_words("or") | single_words("and") | {"/", "o"}
    named = [one for one in sentence.phrases if one.table in ("yes", "no")]
    pairs = ((one, other) for at, one in enumerate(named) for other in named[at + 1 : at + 4])
    return any(
        one.table != other.table
        and one.after < other.first <= one.after + 5
        and (
            sentence.words[one.after].text in either
            or ((_is_hedged(sentence, one) or _is_or(sentence, one)) and _is_hedged(sentence, other))
        )
        for one, other in pairs
    )


def _is_hedged(sentence: Sentence, one: Phrase) -> bool:
    return one.first > 0 and sentence.words[one.first - 1].text in single_words("hedge")


def _is_or(sentence: Sentence, one: Phrase) -> bool:
    return any(word.text in single_words("or") for word in sentence.words[one.after : one.after + 4])


def _is_not(sentence: Sentence, head: Found) -> bool:
    """Return True for a `no` that turns the verb behind it: `No está lloviendo`."""
    behind = next((word.text for word in sentence.words if word.start >= head.end), "")
    return sentence.text[head.start : head.end].lower() == "no" and behind[:1].isalpha() and behind not in _PRONOUNS


def _is_less(clause: Sentence, asked: frozenset[str]) -> bool:
    """Return True for a clause that says less than a claim: `It is half full`, `Some lamps are red`; not for `almost certainly`."""
    words = clause.words
    sure = single_words("adverb") | single_words("yes") | {"certain", "sicher"}
    near = [
        words[one.after : one.after + 1]
        for one in clause.phrases
        if one.table == "partly" and words[one.first].text not in asked
    ]
    opens = next((word.text for word in words if word.text[0].isalnum()), "") in _SOME
    return (opens and asked.isdisjoint(_THERE)) or any(not behind or behind[0].text not in sure for behind in near)


def _exact_words(question: str) -> frozenset[str]:
    """Return the words of a question that a claim loses its meaning without: `all`, `both`, the `right` of `her right hand`."""
    words = [word.text for word in Sentence(question[-600:]).words]
    sides = {"right"} if any(one not in _TRUE and two == "right" for one, two in itertools.pairwise(words)) else set()
    return (single_words("every") | sides | {"both"}) & frozenset(words)


def _is_quoted(words: Sequence[Word], clause: int, at: int) -> bool:
    """Return True for a negation in the claim that is judged: `the statement that there are no birds is false`."""
    claims = [place for place in range(clause + 1, at) if words[place].text in _CLAIMS]
    return bool(claims) and any(word.text in _OPENING_CLAIMS for word in words[claims[-1] + 1 : at])


class Truth(AnswerType):
    """True or false."""

    kind: ClassVar[str] = "truth"
    expected: ClassVar[str] = "yes or no, true or false"
    is_closed: ClassVar[bool] = True

    def parse(self, text: str) -> bool | None:
        """Return the truth value that a whole text writes."""
        word = " ".join(text.lower().split()).strip("()[]").rstrip("!,;。")
        if word in _SIGNS:
            return _SIGNS[word]
        for form, letters in _LETTERS.items():
            if word in letters and self.context.form in (form, ""):
                return letters[word]
        return _words().get(word)

    def parse_gold(self, cell: Any) -> bool:
        """Return the truth value of a gold cell; 1 and 0 are true and false."""
        if isinstance(cell, (bool, int, float)) and cell in (0, 1):
            return bool(cell)
        text = undressed(str(cell))
        value = {"1": True, "0": False}.get(text, self.parse(text))
        if value is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the two words that the question asks for."""
        return {"type": "string", "enum": ["true", "false"] if self.context.form == "T/F" else ["yes", "no"]}

    def candidates(self, text: str) -> Iterator[int]:
        """Yield the places of words for yes and no, and of what the question claims."""
        low = text.lower()
        claim, _ = _claim(self.context.question)
        words = [*possible(low, "yes"), *possible(low, "no"), *(word[:4] for word in claim[-4:])]
        yield from places_of(low, words)
        if self.context.form == "T/F":
            yield from (match.start() for match in _LETTER.finditer(text))
        yield from (match.start() for match in _AFFIRMING.finditer(low))

    def find(self, sentence: Sentence) -> list[Found]:
        """Return the value that a sentence states: at its head, at its end, or by restating the question."""
        if sum(one.table in ("yes", "no") for one in sentence.phrases) > MOST_VALUES:
            return []
        if _offers_both(sentence):
            return [Found(value, 0, len(sentence.text)) for value in (True, False)]
        head = self._head(sentence)
        if head is not None and _is_not(sentence, head):
            stance = self._stance(sentence)
            if stance is not None or any(word.text == "sino" for word in sentence.words):
                return [] if stance is None or stance.value is None else [stance]
        found = [
            head,
            self._stance(sentence, after=head.end) if head else self._tail(sentence) or self._stance(sentence),
        ]
        if any(one is not None and one.value is None for one in found):
            return [Found(value, 0, len(sentence.text)) for value in (True, False)]  # both are said
        return [one for one in found if one is not None]

    def _head(self, sentence: Sentence) -> Found | None:
        words = sentence.words
        letter = words[0].text if words and self.context.form == "T/F" and words[0].end == 1 else ""
        if letter in _LETTERS["T/F"] and (len(words) == 1 or (not words[1].text[0].isalnum() and words[1].text != "/")):
            return Found(_LETTERS["T/F"][letter], 0, 1)
        for phrase in sentence.phrases:
            if phrase.table not in ("yes", "no"):
                continue
            before, after = words[: phrase.first], words[phrase.after : phrase.after + 1]
            led = not any(word.text[0].isalnum() for word in before) or (
                sentence.opens("conclusion") and phrase.first <= 3
            )
            ended = not after or (not after[0].text[0].isalnum() and after[0].text != "/")
            spoken = words[phrase.first].text in _SPOKEN and after and after[0].text in single_words("function")
            affirmed = words[phrase.first].text == "indeed" and after and after[0].text in _PRONOUNS
            refused = any(
                one.table == "refusal"
                and one.first == phrase.first
                and words[one.after - 1].text.startswith(("possib", "posib", "possív"))
                for one in sentence.phrases
            )
            if led and not refused and (ended or spoken or affirmed):
                return Found(phrase.table == "yes", words[phrase.first].start, words[phrase.after - 1].end)
        return None

    def _tail(self, sentence: Sentence) -> Found | None:
        """Return the value behind a verb or a sign, at the end of a clause: `the statement is false`, `… so: yes`, `I'd say no`."""
        words = sentence.words
        named = [(one.first, one.after, one.table == "yes") for one in sentence.phrases if one.table in ("yes", "no")]
        strict = [
            one
            for one in named
            if words[one[0]].text in _STRICT and (one[0] == 0 or words[one[0]].text not in ("no", "non"))
        ]
        if strict and len(strict) < len(named):
            if len({value for _, _, value in strict}) == 1:
                return Found(strict[0][2], words[strict[0][0]].start, words[strict[0][1] - 1].end)
            return Found(None, 0, 0)
        if self.context.form == "T/F":
            named += [
                (at, at + 1, word.text == "t")
                for at, word in enumerate(words)
                if sentence.text[word.start : word.end] in ("T", "F")
            ]
        found = None
        for first, after, value in sorted(named):
            while after < len(words) and (words[after].text in _PARTICLES or words[after].text in _idle()):
                after += 1
            behind = words[after].text if after < len(words) else ""
            ended = not behind[:1].isalnum() or behind in ("because", "since", "as", "that")
            at = first
            while at > 1 and words[at - 1].text in _idle():
                at -= 1
            before = words[at - 1].text if at else ""
            if before == "not" and words[first].text in ("yes", "no"):
                continue
            clause = max((at for at, word in enumerate(words[:first]) if word.text in _BREAKS), default=-1)
            turning = [one.first for one in sentence.phrases if one.table == "negation" and clause < one.first < first]
            linked = before in phrase_words("link", "shows")
            quoted = linked and any(word.text in _CLAIMS for word in words[clause + 1 : first])
            turned = any(not (quoted and _is_quoted(words, clause, one)) for one in turning)
            if ended and (
                after - first > 1
                or linked
                or before in _LEADING
                or before in _CLAIMS
                or before.endswith("n't")
                or before == "not"
            ):
                if found is not None and found.value != (value != turned):
                    return Found(None, 0, 0)
                found = Found(value != turned, words[first].start, words[after - 1].end)
        return found

    def _stance(self, sentence: Sentence, after: int = 0) -> Found | None:
        """Return the value of a sentence that restates the question, or denies it, in the question's own words."""
        if not self.context.question or sentence.asks or not sentence.words:
            return None
        asked = words_in(self.context.question)
        words = sentence.words
        if any(phrase.table == "hedge" and words[phrase.first].text not in asked for phrase in sentence.phrases):
            return None
        reason = next((word.start for word in words[2:] if word.text in _REASONS), len(sentence.text))
        also = "" if not asked.isdisjoint(_ONLY) else _NOT_ONLY.sub(lambda match: " " * len(match[0]), sentence.text)
        part = Sentence(also or sentence.text, after, max(reason, after))
        pronoun = next((at for at, word in enumerate(part.words) if word.text in _PRONOUNS), None)
        said = {word.text for word in part.words}
        claim, negative = _claim(self.context.question)
        whole = Found((_negations(part) % 2 == 0) != negative, 0, len(sentence.text))
        if not _content(part) and 1 < len(part.words) <= 7 and pronoun is not None and pronoun < 2:
            return whole  # `It is.`, `They are not.`
        concludes = bool(sentence.concluding) or sentence.opens("conclusion") or words[0].text in _GIVEN
        concludes = concludes or any(word.text in _INDEED for word in words)
        if not said.isdisjoint(("sino", "sondern")):
            return None  # `No es un gato sino un perro`
        missing = _exact_words(self.context.question) - said
        if (
            missing
            and said.isdisjoint(_ALL if "right" not in missing else ())
            and (not concludes or {"left", "one", "only"} & said - asked)
        ):
            return None
        joints = _BESIDE - asked  # `ve` is and in Turkish, and sees in Spanish
        cuts = [word.start for word in part.words[1:] if word.text in (",", ";", ":") or word.text in joints]
        pieces = [Sentence(part.text, start, end) for start, end in itertools.pairwise((0, *cuts, len(part.text)))]
        for piece in pieces[1:]:  # `It is the armchair, not the sofa`
            denied = set(_content(piece))
            if denied and denied <= set(claim) and _negations(piece) == 1 and not piece.has("shows"):
                return Found(negative, 0, len(sentence.text))
        stating = [piece for piece in pieces if self._restates(piece, claim, concludes)]
        turned = [one for one in pieces if one.words and one.words[0].text in _BESIDE and one.has("shows")]
        if stating and any(one.start > stating[-1].start and not _negations(one) for one in turned):
            return None  # `The light was red, but now it is green`
        one_clause = sum(piece.has("shows") for piece in pieces) < 2 and not any(
            word.text == ";" for word in part.words
        )
        if not stating and one_clause and not (cuts and _negations(part)):
            stating = [one for one in (part, part.conclusion) if self._restates(one, claim, concludes)]
        if any(_is_less(piece, asked) for piece in stating):
            return None
        values = {(_negations(piece) % 2 == 0) != negative for piece in stating}
        value = next(iter(values)) if len(values) == 1 else None  # None: both are said
        return Found(value, 0, len(sentence.text)) if values else None

    @staticmethod
    def _restates(part: Sentence, claim: Sequence[str], concludes: bool) -> bool:
        """Return True if a clause has the words of a claim in their order, those of the picture apart, and few others.

        A conclusion may leave out up to half of them: `So the area is larger than 20`.
        """
        content = _content(part)
        if claim and claim[0] not in content and len(claim) > 1 and any(word.text in _PRONOUNS for word in part.words):
            claim = claim[1:]
        claim = [word for word in claim if word in content or word not in _MEDIA]
        if len(content) > min(len(claim) + MOST_EXTRA, 3 * len(claim) + 1) or not any(map(str.isalpha, claim)):
            return False
        at = 0
        found = 0
        for word in claim:
            if word in content[at:]:
                at, found = content.index(word, at) + 1, found + 1
        more = sum(word not in claim for word in content)
        return found == len(claim) or (concludes and found > 1 and 2 * found >= len(claim) and more < 2)


@lru_cache(maxsize=1)
def _idle() -> frozenset[str]:
    return single_words("adverb") | single_words("strong") | single_words("conclusion")


_CLAIMS = terms(
    "statement claim assertion aussage behauptung affirmation énoncé afirmación enunciado afirmação affermazione утверждение bewering"
)
"""Nouns that a verdict may follow at once: `which makes the statement correct`."""
_THERE = terms("there any hay gibt y ci há existen есть 有")
_SOME = terms(
    "some most few einige manche wenige quelques algunos algunas alguns algumas alcuni alcune sommige niektóre некоторые vissa bazı"
)
"""Words that open a clause about a part."""
_ALL = single_words("every") | terms("both two they none neither each beide")
"""Words that speak of all that is asked for."""
_TRUE = terms("it this that is be answer statement claim correct or and , (")
"""Words before a `right` that means correct."""
_OPENING_CLAIMS = terms("that of dass que qu' che de что dat")
"""Words between such a noun and the claim itself."""
_STRICT = terms("yes no ja nein oui non sí sim não да нет tak nie evet hayır")
"""Words that are yes or no whatever stands around them: `Nein ist richtig` is no."""
_MEDIA = terms(
    "chart graph diagram map table plot figure screenshot video clip frame diagramm grafik karte tabelle graphique carte tableau gráfico tabla mapa zdjęciu obrazie фото фотографии картинке"
)
"""Nouns of what is shown, which a restated claim may leave out."""
_GIVEN = terms("since because given as da weil puisque como dado poiché")
_INDEED = terms("indeed actually tatsächlich wirklich effectivement efectivamente 确实 確かに")
_BESIDE = single_words("and") | terms(
    "but while whereas aber während mais tandis pero mientras ma mentre mas enquanto а но"
)
"""Words of a clause that speaks of something else: `The light is red, and the green one is for pedestrians`."""
_ONLY = terms("only nur seulement solo sólo soltanto só apenas alleen только")
_NOT_ONLY = re.compile(rf"(?<!\w)(?:not|nicht|non|no|não|niet|не) (?:{'|'.join(_ONLY)})(?!\w)", re.IGNORECASE)
"""What turns no claim: `not only red but bright red`."""
_REASONS = frozenset(("because", "since", "weil", "denn", "porque", "perché"))
_BREAKS = frozenset((",", ";", ":", '"', "(", "but"))
_LEADING = terms(": , → = a so say think towards toward guess believe therefore it's that's thus hence ， ：")
_PARTICLES = frozenset("的でですだ了です")
_PRONOUNS = frozenset(
    ("it", "it's", "they", "they're", "that", "that's", "this", "these", "those", "he", "she", "both")
)
