"""Choices: one option of a question, or several, named by letter, text or place."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, ClassVar

from snellen.scoring.answers.base import AnswerContext, AnswerType, Found, GoldError
from snellen.scoring.answers.dress import undressed
from snellen.scoring.answers.fold import accents, exact, folded, stemmed
from snellen.scoring.answers.number_words import languages, ordinal
from snellen.scoring.replies.sentences import Sentence, Word, ordered, phrases, places_of, single_words, words_of
from snellen.text import terms

_JOINTS = frozenset((".", "…", ",", "/", "&", "와", "과", "と", "、", "and", "maybe", "perhaps"))
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ALIKE = str.maketrans("АВСЕНКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧΖавсеорх", "ABCEHKMOPTXABEHIKMNOPTXZabceopx")
"""Cyrillic and Greek letters that look like Latin ones, as on the keyboard of their language."""
_BARE = re.compile(r"[(\[<{]?\s?([^\W\d_])\s?[)\]>}]?[.:,)]?")
_LED = re.compile(r"[(\[]?([^\W\d_])[)\]]?\s{0,2}(?:[.:)\-=,]\s{0,3}|\s(?=[(\"'])|(?<=[)\]])\s)(\S.*)", re.DOTALL)
_TRAILED = re.compile(r"(.*\S)\s{0,2}[(\[]\s?([^\W\d_])\s?[)\]]\.?", re.DOTALL)
_NAMED = re.compile(
    r"(\D{2,30}?)\s{0,2}[:=]?\s{0,2}[(\[\"']?([^\W\d_])[)\]\"']?(?:\s{0,2}[.:)\-,]\s{0,3}(\S.*))?", re.DOTALL
)
_SUFFIXED = re.compile(r".'d[ıiuü]r|.'[dt][ae]n?|.'y[ae]")
"""A letter with an ending of Turkish: `D'dir`."""
_BLANKS = re.compile(r"\s+")
_LIST_MARK = re.compile(r"\d{1,2}[.)]\s{1,3}(?=\S)")
_ASIDE = re.compile(r",| [-—–] ")
_END = re.compile(r"[.!?…。！？]\s|\n")
_ECHOED = re.compile(r"[\s,;.。，；|/]{0,4}[(\[（]?(?P<letter>[^\W\d_])[)\].:,）：．、]\s{0,2}")
_ECHO_BEGINS = re.compile(rf"{_ECHOED.pattern}\Z")


class _Options:
    """The options of a question, indexed by letter and by text."""

    def __init__(self, options: tuple[tuple[str, str], ...]) -> None:
        self.letters = dict(options)
        self.latin = all(letter in LETTERS for letter in self.letters)
        texts = {letter: text for letter, text in options if text.strip()}
        self.by_text = [_index(fold, texts) for fold in (exact, accents, folded, stemmed)]
        self.sequences: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        keyed, self.is_loose = _word_index(texts)
        for letter, words in keyed.items():
            if words:
                self.sequences.setdefault(words[0], []).append((words, letter))
        for listed in self.sequences.values():
            listed.sort(key=lambda entry: -len(entry[0]))
        heads = {
            head
            for text in texts.values()
            for word in words_of(text)[:2]
            for head in (word.text[: max(4, len(word.text) - 2)],)
            if word.text not in _ARTICLES
        }
        self.longest = 400 + 2 * max((len(text) for text in texts.values()), default=0)
        self.heads = (*heads, *_ordinal_heads(len(self.letters)))
        self.capital = (
            re.compile(
                f"(?<![^\\W_])[{re.escape(''.join(self.letters))}АВСЕНКМОРТХΑΒΕΗΙΚΜΝΟΡΤΧΖ](?![^\\W_\\u2e80-\\ud7ff])"
            )
            if self.letters
            else None
        )

    def letter(self, char: str) -> str | None:
        """Return the option's letter that a character is or looks like; None if it is none."""
        if char in self.letters:
            return char
        char = (char.translate(_ALIKE) if self.latin else char).upper()
        return char if char in self.letters else None

    @cached_property
    def typed(self) -> tuple[AnswerType, list[tuple[str, Any]]] | None:
        """Return the type of which all options are values that differ (`25 °C`, dates, times), with the value of each."""
        texts = [(letter, text) for letter, text in self.letters.items() if text.strip()]
        if not all(any(char.isdigit() for char in text) for _, text in texts):
            return None
        from snellen.scoring.answers import answer_type  # it imports this module

        for kind in ("quantity", "date", "time"):
            answer = answer_type(kind, AnswerContext(tolerance=0))
            values = [(letter, answer.parse(undressed(text))) for letter, text in texts]
            known = [value for _, value in values if value is not None]
            alike = any(answer.same(one, other) for at, one in enumerate(known) for other in known[:at])
            if len(known) == len(values) > 1 and not alike:
                return answer, values
        return None

    def valued(self, value: Any) -> str | None:
        """Return the letter of the only option with a value of `typed`."""
        answer, values = self.typed or (None, [])
        named = [letter for letter, other in values if answer is not None and answer.same(value, other)]
        return named[0] if len(named) == 1 else None

    def exactly(self, text: str) -> str | None:
        """Return the letter of the option with a text, character by character."""
        fold, index = self.by_text[0]
        return index.get(fold(text)) if index else None

    def texted(self, text: str) -> str | None:
        """Return the letter of the option with a text: the most exact match decides."""
        for fold, index in self.by_text:
            if (letter := index.get(fold(text))) is not None:
                return letter
        if self.typed is not None and (value := self.typed[0].parse(undressed(text))) is not None:
            return self.valued(value)
        return None


def _index(fold: Any, texts: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """Return a fold and its index; texts that it merges are not in it."""
    index: dict[str, str] = {}
    merged: set[str] = set()
    for letter, text in texts.items():
        key = fold(text)
        if key in index or key == "":
            merged.add(key)
        index.setdefault(key, letter)
    for key in merged:
        index.pop(key, None)
    return fold, index


def _word_index(texts: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], bool]:
    """Return each option's words, in the loosest form that keeps all of them apart, and whether that is the loosest."""
    for loose in (True, False):
        form = stemmed if loose else str
        keyed = {
            letter: tuple(form(word.text) for word in _kept(words_of(_without_math(text)), loose))
            for letter, text in texts.items()
        }
        for letter, words in keyed.items():
            if len(words) == 1 and words[0].upper() in texts and len(texts[letter].strip()) > 1:
                keyed[letter] = ()  # `A"`, whose words are another option's letter
        if len(set(keyed.values())) == len(keyed) and all(keyed.values()):
            return keyed, loose
    counts = list(keyed.values())
    return {letter: words for letter, words in keyed.items() if counts.count(words) == 1 and words}, False


def _without_math(text: str) -> str:
    """Return a text without the signs around a formula: `$x^2$`; the one of `$5` stays."""
    return text.replace("$", "") if text.count("$") > 1 else text


def _kept(words: Sequence[Word], loose: bool) -> list[Word]:
    """Return the words that are compared: without signs between words and leading articles, where that is enough."""
    if not loose:
        return [word for word in words if word.text not in _MARKUP]
    kept = [word for word in words if word.text not in _PASSED]
    while len(kept) > 1 and kept[0].text in _LEADING and len(kept[1].text) > 2 and kept[1].text.isalpha():
        kept = kept[1:]
    return kept


_THE = frozenset(("the", "die", "la", "el", "der", "das", "le", "il"))
_PASSED = frozenset("-'\"*_`\\{}")
_MARKUP = frozenset('"*_`\\{}')
_ARTICLES = frozenset(("a", "an", "the"))
_LEADING = single_words("article") | {"it", "they", "he", "she"}


@lru_cache(maxsize=1_024)
def _indexed(options: tuple[tuple[str, str], ...]) -> _Options:
    return _Options(options)


_RELATING = (
    "negation",
    "hedge",
    "except",
    "correction",
    "wrong",
    "conclusion",
    "strong",
    "or",
    "answer",
    "choose",
    "total",
)
"""What tells how two options of a reply are related."""
LONGEST_SHORT = 80
"""Characters of a reply in which no letter but the answer's may stand unread."""
MOST_FOREIGN = 12
"""Words of a sentence in another language than English at whose end a letter is an answer."""
_ENGLISH = terms(
    "the is are an of it this that and or in on to not class point vitamin part type grade group figure image rather than instead"
)
_VERBS = terms("is fits matches seems looks remains wins must would")
"""Words behind a letter that is no article: `Of these, A is`."""
_MARKING = ("conclusion", "strong", "choose", "shows", "total", "negation", "adverb")
_POINTING = frozenset(
    (
        "it's",
        "that's",
        "be",
        "leaves",
        "towards",
        "toward",
        "says",
        "only",
        "select",
        "choose",
        "pick",
        "to",
        "between",
        "for",
        "with",
        "so",
    )
)
"""Words before a letter that stands for an answer, where the clause ends behind the letter."""


class Choice(AnswerType):
    """One option, as its letter."""

    kind: ClassVar[str] = "choice"
    expected: ClassVar[str] = "one of the options, by letter or text"
    is_closed: ClassVar[bool] = True

    def __init__(self, context: AnswerContext = AnswerContext()) -> None:
        super().__init__(context)
        self.options = _indexed(tuple(context.options.items()))

    def parse(self, text: str) -> Any | None:
        """Return the option that a whole text names: `B`, `(b)`, `B. red kite`, `red kite (B)`, `Option B`, `red kite`."""
        options = self.options
        if text in options.letters:
            return text
        if len(text) > options.longest:
            return None
        if len(text) > 1 and (letter := options.exactly(text)) is not None:
            return letter
        if (mark := _LIST_MARK.match(text)) is not None and options.texted(text) is None:
            text = text[mark.end() :]
        head, _, rest = text.partition(" ")
        if rest and len(rest) < 4 and head.lower() in single_words("article") and options.letter(head) is None:
            text = rest
        if (bare := _BARE.fullmatch(text)) is not None and (letter := options.letter(bare[1])) is not None:
            return letter
        if (letter := options.texted(text)) is not None:
            return letter
        if (led := _LED.fullmatch(text)) is not None and (letter := options.letter(led[1])) is not None:
            is_one = self._is_text_or_reason(led[2], letter, marked=not led[1].islower())
            is_one = is_one and ("," not in text[led.end(1) : led.start(2)] or self._names_no_other(led[2], letter))
            return letter if is_one and next(self.echoes(text), None) is None else None
        if (trailed := _TRAILED.fullmatch(text)) is not None and (letter := options.letter(trailed[2])) is not None:
            return letter if self.parse(undressed(trailed[1])) == letter else None
        if (named := _NAMED.fullmatch(text)) is not None and _BLANKS.sub(" ", named[1]).strip().lower() in _nouns():
            letter, rest = options.letter(named[2]), named[3]
            if letter is None or (rest and not self._is_text_or_reason(rest, letter, marked=True)):
                return None
            return letter if not rest or self._names_no_other(rest, letter) else None
        return None

    def _names_no_other(self, text: str, letter: str) -> bool:
        """Return False for what goes on about other options: `B, Venus, is the second; the third is Earth`."""
        return all(one.value == letter for one in self._texts(Sentence(text)))

    def _is_text_or_reason(self, rest: str, letter: str, *, marked: bool) -> bool:
        """Return True if what follows a letter is its option's text, or one clause that names, doubts and corrects nothing."""
        rest = undressed(rest)
        own = Choice.parse(self, rest)
        if own is not None:
            return bool(own == letter)
        if self.options.texted(_ASIDE.split(rest)[0]) == letter:
            return not Sentence(rest).has("wrong", "no", "negation")
        clause = Sentence(rest)
        if clause.words and clause.words[0].text in single_words("other") | {"though", "although"} and marked:
            return _END.search(rest) is None
        doubted = clause.asks or clause.has("wrong", "correction", "retraction", "or", "no", "negation")
        others = any(
            word.end - word.start == 1 and rest[word.start].isupper() and rest[word.start] != "I"
            for word in clause.words
        )
        return (
            marked
            and not doubted
            and not others
            and _END.search(rest) is None
            and not any(True for _ in self._texts(clause))
        )

    def echoes(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans in which a text lists every option behind its letter, in their order, as the question does."""
        listed = [(letter, own.strip()) for letter, own in self.options.letters.items()]
        at = text.find(listed[0][1]) if len(listed) > 1 and all(own for _, own in listed) else -1
        while at >= 0:
            mark, end = _ECHO_BEGINS.search(text, max(0, at - 8), at), at
            start = at if mark is None else mark.start("letter")
            for letter, own in listed:
                if mark is None or mark["letter"] != letter or not text.startswith(own, mark.end()):
                    break
                end = mark.end() + len(own)
                if not _is_whole(text, mark.end(), end):
                    break
                mark = _ECHOED.match(text, end)
            else:
                yield start, end
            at = text.find(listed[0][1], max(end, at + 1))

    def candidates(self, text: str) -> Iterator[int]:
        """Yield the places of letters, and of words with which an option's text or place begins."""
        if self.options.capital is not None:
            yield from (match.start() for match in self.options.capital.finditer(text))
        yield from places_of(text.lower(), self.options.heads)

    def find(self, sentence: Sentence) -> list[Found]:
        """Return every option that a sentence names: by text, by place, or by a letter in the place of an answer.

        Of `all but B` the B is no answer to a question with one.
        """
        texts = [*islice(self._texts(sentence), 60), *islice(self._places(sentence), 60)]
        if len(sentence.text) < 400 and self.options.typed is not None:
            values = [(self.options.valued(one.value), one) for one in self.options.typed[0].find(sentence)]
            texts += [
                Found(letter, one.start, one.end)
                for letter, one in values
                if letter is not None and letter not in {text.value for text in texts}
            ]
        letters = self._coordinated(sentence, list(islice(self._letters(sentence, texts), 60)))
        own = {(found.value, at) for found in texts for at in range(found.start - 4, found.end + 3)}
        alone = [
            one
            for one in letters
            if not any(text.start <= one.start < text.end for text in texts) and (one.value, one.end) not in own
        ]
        found = sorted([*texts, *alone], key=lambda found: found.start)
        if self.takes_lists or not (sentence.has("except") and sentence.has("every")):
            return found
        words, passed = sentence.words, single_words("article") | single_words("option")
        left_out, places = set[int](), {one.start for one in found}
        for phrase in sentence.phrases:
            after = phrase.after
            while after < len(words) and words[after].text in passed and words[after].start not in places:
                after += 1
            left_out |= {word.start for word in words[after : after + 1] if phrase.table == "except"}
        return [one for one in found if one.start not in left_out]

    def names_unread(self, text: str, letter: str, read: str) -> bool:
        """Return True if a text ends with another option's letter, in no place that is read, and nothing tells why: `A, oops B`."""
        if len(text) > LONGEST_SHORT or self.takes_lists:
            return False
        named, listed = (
            [one for char in _LONE_LETTER.findall(part) if (one := self.options.letter(char))] for part in (read, text)
        )
        if letter not in named or not listed or listed[-1] in named or not _INTERJECTED.search(text):
            return False
        sentence = Sentence(text)
        return not (sentence.has(*_RELATING) or {*listed} <= {*named, *(one.value for one in self.find(sentence))})

    def _places(self, sentence: Sentence) -> Iterator[Found]:
        """Yield the options named by their place: `the second option`, `the last one`, `第二个`."""
        words, letters, joints = sentence.words, list(self.options.letters), _joints(sentence)
        ordinals, nouns = _ordinals(), single_words("option") | _ONES
        places, named = list[tuple[int, int, int]](), list[bool]()
        for at, word in enumerate(words):
            sizes = (1,) if word.text < "\u2e80" else range(1, min(3, len(words) - at) + 1)
            for size in sizes:
                place = ordinals.get("".join([one.text for one in words[at : at + size]]), len(letters))
                if place >= len(letters) or (size == 1 and _is_part(words[max(0, at - 3) : at + 1], place)):
                    continue
                if place < 0 and "but" in [one.text for one in words[at + size : at + size + 2]]:  # `the last but one`
                    continue
                after = words[at + size].text if at + size < len(words) else ""
                places.append((at, at + size, place))
                named.append(after in nouns or (not after.isalnum() and at <= 1))
        passed = single_words("article") | single_words("option") | {"of"}
        joined = [
            all(at in joints or words[at].text in passed for at in range(before[1], behind[0]))
            for before, behind in itertools.pairwise(places)
        ]
        for at in (*range(len(joined)), *reversed(range(len(joined)))):  # `the first or the second option`
            if joined[at] and (named[at] or named[at + 1]):
                named[at : at + 2] = True, True
        for (first, end, place), is_named in zip(places, named, strict=True):
            if is_named:
                yield Found(letters[place], words[first].start, words[end - 1].end)

    def _texts(self, sentence: Sentence) -> Iterator[Found]:
        """Yield the options whose text stands in a sentence, the longest at each word."""
        sequences = self.options.sequences
        if not sequences:
            return
        words = [word for word in sentence.words if word.text not in (_PASSED if self.options.is_loose else _MARKUP)]
        loose = [stemmed(word.text) if self.options.is_loose else word.text for word in words]
        at = 0
        while at < len(words):
            for sequence, letter in sequences.get(loose[at], ()):
                size = len(sequence)
                span = (words[at].start, words[min(at + size, len(words)) - 1].end)
                if tuple(loose[at : at + size]) == sequence and _is_whole(sentence.text, *span):
                    yield Found(letter, words[at].start, words[at + size - 1].end)
                    at += size - 1
                    break
            at += 1

    def _letters(self, sentence: Sentence, texts: Sequence[Found]) -> Iterator[Found]:
        """Yield the letters that stand in the place of an answer."""
        words, options = sentence.words, self.options
        named = {phrase.after: phrase for phrase in sentence.phrases if phrase.table in ("option", "answer")}
        behind = {phrase.first for phrase in sentence.phrases if phrase.table in ("letter_after", "wrong")}
        marks = {phrase.after for phrase in sentence.phrases if phrase.table in _MARKING}
        marks |= {at + 1 for at, word in enumerate(words) if word.text in _POINTING or word.text.endswith("n't")}
        singles = sum(word.end - word.start == 1 and sentence.text[word.start].isupper() for word in words)
        is_foreign = singles == 1 and len(words) <= MOST_FOREIGN and not any(word.text in _ENGLISH for word in words)
        joints = _joints(sentence)
        alone = [word for at, word in enumerate(words) if at not in joints and word.text not in (".", "either")]
        if len(alone) > 1 and all(word.end - word.start == 1 and sentence.text[word.start].isupper() for word in alone):
            for word in alone:
                if (bare := options.letter(sentence.text[word.start])) is not None:
                    yield Found(bare, word.start, word.end)
            return
        last = len(words)
        while last and not words[last - 1].text.isalnum():
            last -= 1
        for at, word in enumerate(words):
            if not word.text[0].isalpha() or (word.end - word.start != 1 and not _SUFFIXED.fullmatch(word.text)):
                continue
            char = sentence.text[word.start]
            letter = options.letter(char)
            if letter is None:
                continue
            before = words[at - 1].text if at else ""
            after = words[at + 1].text if at + 1 < len(words) else ""
            bracketed = before in ("(", "[", '"', "'") and after in (")", "]", '"', "'")
            opener = at - 1 if bracketed else at
            noun = opener in named or (
                opener and words[opener - 1].text in (":", "is", "being", "#") and (opener - 1) in named
            )
            head = opener == 0 and not char.islower() and after in (")", ".", ":", "-", "]", ",") and before != "."
            own = any(
                found.value == letter and (0 <= found.start - word.end <= 4 or 0 <= word.start - found.end <= 4)
                for found in texts
            )
            if char.islower() and not (bracketed or (noun and after in ("", ".", ",", ")"))):
                continue
            closing = at + 2 if bracketed else at + 1
            foreign = is_foreign and (closing >= last or (opener == 0 and words[closing].text[:1] > "\u007f"))
            led = opener - (opener > 1 and words[opener - 1].text in _THE)  # `me quedo con la B`
            pointed = bool(marks & {opener, led}) and (words[closing].text if closing < len(words) else "") in _ENDS
            if (
                (bracketed and not (opener and words[opener - 1].text in ("°", "=")))
                or noun
                or head
                or own
                or pointed
                or (foreign and not _is_called(words, opener))
                or (closing in behind and not _is_called(words, opener))
                or (before in ("", ",", ":", ";", "so") and closing < len(words) and words[closing].text in _VERBS)
            ):
                yield Found(letter, word.start, word.end)

    def _coordinated(self, sentence: Sentence, letters: list[Found]) -> list[Found]:
        """Return the letters with those that are joined to one of them: the C of `option A or C`."""
        words, joints = sentence.words, _joints(sentence)
        places = {found.start for found in letters}
        several = list(letters)
        for step in (1, -1):
            for at in range(len(words))[::step]:
                near = at
                while near + step in joints and abs(near - at) < 7:
                    near += step
                other = near + step
                if (
                    words[at].start in places
                    and near != at
                    and 0 <= other < len(words)
                    and words[other].start not in places
                ):
                    word = words[other]
                    char = sentence.text[word.start]
                    between = {one.text for one in words[min(at, other) + 1 : max(at, other)]}
                    if between <= {"."}:
                        continue
                    if word.end - word.start == 1 and char.isupper() and (letter := self.options.letter(char)):
                        places.add(word.start)
                        several.append(Found(letter, word.start, word.end))
        return several

    def anywhere(self, text: str) -> Found | None:
        """Return the option whose line alone is ticked in a list or table of options."""
        from snellen.scoring.answers.listed_lines import block_in, may_be_ticked

        block = block_in(text, self.context.question) if may_be_ticked(text) else None
        is_one = block is not None and block.is_ticked and len(block.items) == 1
        is_whole = is_one and block is not None and block.rows == len(self.options.letters)
        letter = self._row_option(block.items[0]) if block is not None and is_whole else None
        return None if block is None or letter is None else Found(letter, block.start, block.end)

    def _row_option(self, item: str) -> str | None:
        """Return the option that a line or row names, by letter, text or both: `A square`."""
        head, _, rest = item.partition(" ")
        both = {Choice.parse(self, part) for part in (head, rest)} if rest else set()
        return Choice.parse(self, item) or (both.pop() if len(both) == 1 else None)

    def schema(self) -> dict[str, Any]:
        """Return the letters of this question's options; without options any text."""
        return self._one_of(self.context.options)

    def _one_of(self, values: Iterable[str]) -> dict[str, Any]:
        known = [value for value in dict.fromkeys(values) if value.strip()]
        return {"type": "string", "enum": known} if known else {"type": "string"}

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if a letter is the gold one, or one of several accepted ones."""
        accepted = [gold] if isinstance(gold, str) else list(gold)
        return any(_letter(value) == _letter(one) for one in accepted)


def _letter(value: Any) -> str:
    return str(value).strip().strip("().").upper()


def _is_whole(text: str, start: int, end: int) -> bool:
    """Return False for a number within a larger or a signed one: the 5 of `5.5`, `-5`, `5 km/h`, `£5`."""
    if not any(char.isdigit() for char in text[start:end]):
        return True
    before, after, next_one = text[start - 1 : start], text[end : end + 1], text[end + 1 : end + 2]
    signed = before != "" and before not in text[start:end]
    signed = signed and (
        (before in "-−+<>≥≤~£$€/.,:^" and text[start].isdigit()) or (before.isalnum() and before < "\u2e80")
    )
    longer = (
        after != ""
        and text[end - 1].isdigit()
        and (after in "/%:^+" or (after.isalnum() and after < "\u2e80") or (after in ".,:" and next_one.isdigit()))
    )
    return not (signed or longer)


def is_all_but(sentence: Sentence, start: int) -> bool:
    """Return True for `all`, a word for `except` close behind it, and at once what starts at a place: `All options except B`."""
    words, passed = sentence.words, single_words("article") | single_words("option")
    for phrase in (one for one in sentence.phrases if one.table == "except"):
        before = [one for one in sentence.phrases if one.table == "every" and one.after <= phrase.first]
        between = [word for word in words[phrase.after :] if word.start < start]
        close = bool(before) and sum(word.text[0].isalnum() for word in words[before[-1].after : phrase.first]) <= 2
        comma = (
            bool(before)
            and words[phrase.first].text == "but"
            and any(word.text == "," for word in words[before[-1].after : phrase.first])
        )
        if close and not comma and all(word.text in passed or not word.text[0].isalnum() for word in between):
            return True
        is_behind = words[phrase.first].text > "\u08ff" or words[phrase.first].text in ("hariç", "dışında")
        if is_behind and words[phrase.first].start > start and sentence.has("every"):
            return True  # `B以外すべて`
    return False


def _is_part(words: Sequence[Word], place: int) -> bool:
    """Return True if the last word is not all of a place: `the second to last`, `twenty-first`."""
    said = [word.text for word in words if word.text != "-"]
    whole = ordinal(said) if len(said) > 1 else None
    return (place < 0 and "to" in said[:-1]) or (whole is not None and whole[1] > 1)


def _joints(sentence: Sentence) -> frozenset[int]:
    """Return the places of the words between letters that are listed: signs, `or`, `and`, `또는`."""
    said = (range(one.first, one.after) for one in sentence.phrases if one.table in ("or", "and"))
    signs = (at for at, word in enumerate(sentence.words) if word.text in _JOINTS)
    return frozenset(itertools.chain(signs, *said))


def _is_called(words: Sequence[Word], at: int) -> bool:
    """Return True for a letter behind a number, a sign of degrees or a noun that takes a letter: `5 A`, `°C`, `point (C)`."""
    if at == 0:
        return False
    before = words[at - 1].text
    return before == "°" or before[-1].isdigit() or before in ("=", "+", "/", "&")


@lru_cache(maxsize=1)
def _nouns() -> frozenset[str]:
    """Return the nouns that a letter may follow, bare and with an article."""
    nouns = {*phrases("option"), *phrases("answer")}
    return frozenset({*nouns, *(f"{article} {noun}" for article in ("the", "die", "la", "a", "is") for noun in nouns)})


_BULLET = re.compile(r"^\s*[-*•]\s+")
_SEVERAL = re.compile(r"\s*(?:[,;/&+、，\n]|\band\b|\bund\b|\bet\b|\by\b|\be\b|\bi\b|и|和|と|및)\s*")


_GAP = terms("and und sowie et y e i и 和 と 와 과 및 los las") | single_words("article")
"""Words between options that are listed."""


_ONES = terms("one description statement sentence picture 个 项 個 選 选 の 번 entry answer")
_ENDS = terms(". , ; : ! ) 。 ， 、 but because since as though although and or - than") | {""}


@lru_cache(maxsize=1)
def _ordinals() -> Mapping[str, int]:
    """Return ordinals to places from 0; those of the last option are -1."""
    rows = [row.split() for row in ordered("ordinal")]
    places = {word: value - 1 for language in languages().values() for word, value in language.ordinals.items()}
    places |= {word: at for at, row in enumerate(rows[:-1]) for word in row}
    return places | dict.fromkeys(rows[-1], -1)


@lru_cache(maxsize=26)
def _ordinal_heads(options: int) -> frozenset[str]:
    """Return what ordinals of up to so many options, and of the last one, begin with."""
    rows = " ".join(ordered("ordinal")).split()
    stems = [pair for language in languages().values() for pair in language.stems.items()]
    return frozenset((*rows, *(stem for stem, value in stems if value <= options)))


class ChoiceByText(Choice):
    """One option, as its letter, where options are named by their texts: a letter that is an option's text is that option."""

    kind: ClassVar[str] = "choice_text"

    def parse(self, text: str) -> Any | None:
        """Return the option that a whole text names, by its text first."""
        letter = self.options.texted(text) if len(text) <= self.options.longest else None
        return letter or super().parse(text)

    def schema(self) -> dict[str, Any]:
        """Return the texts of this question's options."""
        return self._one_of(self.context.options.values())


_LISTED = re.compile(r"[\s|*✅✔☑✓❌✗✘☒✖✕☐\ufe0f-]*([^|:\n✅✔☑✓❌✗✘☒✖✕☐]{1,80})")
"""The head of a line of a list, up to a remark."""
_WIDE = re.compile(r"[^\S\n]{2,}")
_RUN = re.compile(
    r"(?<![^\W_])[A-Z](?:\s?(?:[,;/&、，]|[,;]?\s?(?<![^\W_])(?:and|und|sowie|et|y|e|i|и)(?![^\W_])|[和と및])\s?[A-Z](?![^\W_]))+"
)
"""Capital letters in a row: `A, B and D`."""
_CAPITAL = re.compile(r"(?<![^\W_])[A-Z](?![^\W_]|['’])")
_INTERJECTED = re.compile(r"(?<![^\W_])[A-Z]\W{1,3}[^\W\d_]{2,12}\W{1,3}[A-Z]\W*$")
"""One word between two letters: `A, oops B`."""
_LONE_LETTER = re.compile(r"(?<![^\W_])(?!A [a-z])[A-Z](?![^\W_]|['’])")
"""A capital letter alone, but for an English article."""


class MultiChoice(Choice):
    """Several options, as a tuple of letters in order."""

    kind: ClassVar[str] = "multi-choice"
    expected: ClassVar[str] = "some of the options: `A,C`, `AC` or a list of their texts"
    is_closed: ClassVar[bool] = False
    takes_lists: ClassVar[bool] = True

    def schema(self) -> dict[str, Any]:
        """Return a list of the letters of this question's options."""
        return {"type": "array", "items": super().schema()}

    def parse(self, text: str) -> Any | None:
        """Return the options that a whole text lists."""
        text = _WIDE.sub(" ", text).strip()
        if len(text) > 40 + len(self.options.letters) * (self.options.longest + 8):
            return None
        if text[:1] + text[-1:] in ("[]", "()", "{}") and len(text) > 3:
            text = text[1:-1]
        if text.isalpha() and text.isupper() and len(text) > 1 and len(set(text)) == len(text):
            letters = [self.options.letter(char) for char in text]
            if all(letters) and self.options.texted(text) is None:
                return self._ordered(letters)
        parts = [undressed(_BULLET.sub("", part)) for part in _SEVERAL.split(text) if part.strip()]
        letters = [super(MultiChoice, self).parse(part) for part in parts]
        if letters and all(letters):
            return self._ordered(letters)
        one = super().parse(text)
        return None if one is None else (one,)

    def _ordered(self, letters: Sequence[str | None]) -> tuple[str, ...]:
        return tuple(letter for letter in self.options.letters if letter in letters)

    def parse_gold(self, cell: Any) -> Any:
        """Return the letters of the options that a gold cell lists; the cell may be a list."""
        if isinstance(cell, (list, tuple, set, frozenset)):
            parts = [super(MultiChoice, self).parse(undressed(str(part))) for part in cell]
            value = self._ordered(parts) if parts and all(parts) else None
        else:
            value = self.parse(undressed(str(cell)))
        if value is None:
            raise GoldError(f"{str(cell)[:80]!r} is not {self.expected}")
        return value

    def short(self, sentence: Sentence) -> Found | None:
        """Return the options that a sentence lists one after the other, where it rules out none."""
        if sentence.asks or sentence.has("negation", "wrong", "or", "hedge", "bound"):
            return None
        lone = [match for match in _CAPITAL.finditer(sentence.text) if self.options.letter(match[0])]
        runs = list(_RUN.finditer(sentence.text)) if len({one[0] for one in lone}) > 1 else []
        if len(runs) == 1 and runs[0].start() == lone[0].start() and runs[0].end() == lone[-1].end():
            from snellen.scoring.answers.listed_lines import says_nothing

            beside = f"{sentence.text[: runs[0].start()]} {sentence.text[runs[0].end() :]}"
            if not sentence.has("except") and not says_nothing(beside, self.context.question):
                return None  # `A and B drop out`
            return self._all_but(sentence, [self.options.letter(one[0]) for one in lone], *runs[0].span())
        found = self.find(sentence)
        if not found:
            return None
        if not {one.value for one in found}.issuperset(
            letter for letter in _LONE_LETTER.findall(sentence.text) if self.options.letter(letter)
        ):
            return None  # of `أي B و C` nobody reads the B alone
        named = [one.value for one in found]
        gaps = [sentence.text[one.end : other.start] for one, other in itertools.pairwise(found)]
        if not all(
            len(gap) < 12
            and all(
                word.text in _GAP or not word.text.isalnum() or self.options.letter(word.text.upper()) in named
                for word in words_of(gap)
            )
            for gap in gaps
        ):
            return None
        return self._all_but(sentence, named, found[0].start, found[-1].end)

    def _all_but(self, sentence: Sentence, named: Sequence[str | None], start: int, end: int) -> Found | None:
        """Return the options that a sentence names, or all but these: `Everything except A and D`."""
        if sentence.has("except") or (sentence.has("every") and len(set(named)) == 1):
            named = (
                [letter for letter in self.options.letters if letter not in named]
                if is_all_but(sentence, start)
                else []
            )
        return Found(self._ordered(named), start, end) if named else None

    def anywhere(self, text: str) -> Found | None:
        """Return the options of the only list of a reply, or the ticked rows of its table, if each is one."""
        from snellen.scoring.answers.listed_lines import block_in

        block = block_in(text, self.context.question)
        letters = [] if block is None else list(map(self._row_option, block.items))
        if block is None or not all(letters) or not 0 < len(set(letters)) < len(self.options.letters):
            return None  # one that lists all options may only repeat them
        return Found(self._ordered(letters), block.start, block.end)

    def end_of_options(self, text: str) -> int:
        """Return where the last line that begins with an option ends, if two lines begin with different ones; else 0."""
        from snellen.scoring.answers.listed_lines import MOST_CHARACTERS

        end, at, named = 0, 0, set[str]()
        for line in text[:MOST_CHARACTERS].split("\n"):
            head = _LISTED.match(line)
            if head is not None and (letter := self._row_option(_WIDE.sub(" ", head[1]).strip())) is not None:
                named, end = named | {letter}, at + len(line)
            at += len(line) + 1
        return end if len(named) > 1 else 0

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if the same options are named, in any order."""
        return set(value) == set(gold)

    def show(self, value: Any) -> str:
        """Return the letters, with commas."""
        return ",".join(value)
