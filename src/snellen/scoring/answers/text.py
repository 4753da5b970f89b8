"""Texts: signs, words, codes, titles. Every character counts but for case, accents, blanks and outer punctuation."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, ClassVar

from snellen.scoring.answers.base import AnswerType, Found
from snellen.scoring.answers.fold import FOLDS, stemmed
from snellen.scoring.replies.sentences import Sentence, Word, ordered, single_words, words_in
from snellen.text import terms

BARE_WORDS, FRAMED_WORDS = 4, 5
"""Words of a phrase that is taken for an answer by itself, and of one behind `It is`."""
LONGEST_LEAD = 25
"""Characters between a verb and the quotation that answers: `It says, in red letters, "Stop"`."""
_QUOTED = re.compile(
    r"(?:(\")|(?<!\w)'(?=[^'\n]{1,200}'(?![a-z])))(?P<text>[^\"\n]{1,200}?)(?(1)\"|(?:\"|(?<!\w\")'(?![a-z])))"
)
_STOPS = frozenset(".!。！।")
_CLOSE = frozenset((",", ";"))
_REASONS = frozenset(("because", "since", "weil", "denn", "porque"))
_DASHES = frozenset(("-", "—", "–"))


class Text(AnswerType):
    """A text, as the reply or the cell has it."""

    kind: ClassVar[str] = "text"
    expected: ClassVar[str] = "a text"

    def parse(self, text: str) -> Any | None:
        """Return the text; None for an empty one."""
        return text.strip() or None

    def same(self, value: Any, gold: Any) -> bool:
        """Return True if two texts are equal at the level of the question's context."""
        fold = FOLDS[self.context.level]
        return fold(str(value)) == fold(str(gold))

    def short(self, sentence: Sentence) -> Found | None:
        """Return the phrase that a short reply is, or that is left of a sentence without the words of the question around it."""
        words = _without_end(_without_contrast(sentence.words))
        asked = self.context.question.lower()
        quoted = [quote for quote in _QUOTED.finditer(sentence.text) if f"'{quote['text'].lower()}'" not in asked]
        plain = [word for word in words if not any(quote.start() < word.start < quote.end() for quote in quoted)]
        if not words or words[-1].text in (":", "：") or sentence.asks or sentence.opens("refusal"):
            return None
        if sentence.text.rstrip(". ").endswith(_SEEMS):
            return None
        if self._is_sign(sentence, words):
            return Found(sentence.text[words[0].start : words[-1].end], words[0].start, words[-1].end)
        if _is_open(sentence, plain):
            return None
        if (subject := self._subject(sentence, words)) is not None:
            return subject if subject.value else None
        identified = self._identified(sentence, words)
        start, end = (identified, len(words)) if identified else self._frame(sentence, words)
        framed = start > 0 or end < len(words)
        quoted = [quote for quote in quoted if not identified or 0 <= quote.start() - words[start].start < LONGEST_LEAD]
        tail = {word.text for word in words if quoted and word.start >= quoted[-1].end()}
        if (
            len(quoted) == 1
            and tail.isdisjoint(_AND)
            and (
                framed
                or len(plain) <= FRAMED_WORDS + 2
                or quoted[0].start() == 0
                or any(word.text in self._asked() - _known_words() and word.text.isalnum() for word in plain)
            )
        ):
            return Found(quoted[0]["text"], *quoted[0].span("text"))
        return self._phrase(sentence, words[start:end], framed, identified=bool(identified))

    def _subject(self, sentence: Sentence, words: Sequence[Word]) -> Found | None:
        """Return the subject of a sentence that goes on as the question does: `Which city had most rain?`, `Bergen had most rain.`

        Its value is None where the subject repeats the question.
        """
        asked = [word.text for word in Sentence(self.context.question[-300:]).words if word.text not in ("?", "¿")]
        if len(asked) < 3 or asked[0] not in single_words("asking"):
            return None
        said = [word.text for word in words]
        begin = 1 if asked[0] in _WHO or asked[1] in _VERBS else 2  # behind the noun: `Which train leaves first?`
        for first in range(begin, min(4, len(asked) - 1)):
            at = next((at for at in range(1, len(said)) if said[at : at + 2] == asked[first : first + 2]), None)
            if at is None or not (_VERBS | single_words("article") | PREPOSITIONS).isdisjoint(asked[1:first]):
                continue
            same = next(
                (n for n, pair in enumerate(zip(asked[first:], said[at:], strict=False)) if len({*pair}) > 1), None
            )
            length = min(len(asked) - first, len(said) - at) if same is None else same
            rest, unsaid = said[at + length :], asked[first + length :]
            begin, end = 0, said.index(",") if said[at - 1] == "," else at  # `August, with only 14 mm, has`
            if "," in said[begin:end]:
                begin = end - said[:end][::-1].index(",")  # `In the image, the woman is`
            if (
                length > 1
                and (not rest or not rest[0][0].isalnum())
                and (not unsaid or unsaid[0] in PREPOSITIONS or not unsaid[0][0].isalnum() or unsaid[0] == "according")
                and self._is_name(sentence, words[begin:end])
            ):
                if set(asked).intersection(said[begin:end]) - single_words("function"):
                    return Found(None, 0, 0)  # `The night train leaves first`: how much of it is the name?
                start = words[begin + (said[begin] in single_words("article"))].start
                return Found(sentence.text[start : words[end - 1].end], start, words[end - 1].end)
        return None

    def _is_name(self, sentence: Sentence, words: Sequence[Word]) -> bool:
        """Return True for a name in capitals, or an article and at most two words: no `Nobody`, no `In 2020 Bergen`, no `China clearly`."""
        is_led = bool(words) and words[0].text in single_words("article")
        words = words[is_led:]
        said = [word.text for word in words]
        if not 0 < len(words) <= FRAMED_WORDS or said[0] in _NO_SUBJECT or said[0].endswith("ly"):
            return False
        if all(
            self._is_capital(sentence, word) or not word.text[0].isalpha() or word.text in _IN_NAMES for word in words
        ):
            return True
        return (
            is_led and len(words) < 3 and not any(word in _NO_PHRASE or word.endswith(("ing", "ly")) for word in said)
        )

    def _is_sign(self, sentence: Sentence, words: Sequence[Word]) -> bool:
        """Return True for the words of a sign, in capitals: `NO PARKING`, but no sentence, and no `NO SIGN`."""
        if self.kind != "text" or not sentence.text.isupper() or len(words) > 2 * BARE_WORDS or '"' in sentence.text:
            return False
        others = {word.text for word in words} - single_words("negation") - self._asked() - _WRITING
        return bool(others) and not sentence.has("shows", "hedge")

    def _asked(self) -> frozenset[str]:
        return words_in(self.context.question[-2_000:])

    def _frame(self, sentence: Sentence, words: Sequence[Word]) -> tuple[int, int]:
        """Return the words between those that the question says too, or that say nothing: `The umbrella is red`, `A robin is shown`."""
        asked, known, claims = self._asked(), _known_words(), single_words("yes") | single_words("no")
        frames = sorted((one for one in sentence.phrases if one.table in _FRAMES), key=lambda one: one.after)
        opened = {one.first: one.after for one in frames}
        verbs = {
            one.first for one in sentence.phrases if one.table == "shows" and not is_glued(sentence.words, one.after)
        }
        start, verb = 0, False
        while start < len(words):
            word = words[start]
            contracted = word.text in single_words("subject") and word.text.endswith(("'s", "'re", "'est"))
            if start in verbs and (start or opened[start] - start > 1 or word.text in _VERBS_ALONE):
                start, verb = opened[start], True
            elif (
                (verb and word.text in _NO_PHRASE)
                or (start and word.text in ("l'", "d'") and self._is_capital(sentence, word))
                or (word.text in claims and not _is_comma(words, start + 1))
            ):
                break
            elif start in opened and start not in verbs:
                start, verb = opened[start], verb or word.text in _VERBS_ALONE
            elif (
                contracted
                or word.text in known
                or word.text in (",", ":")
                or (word.text in asked and not (verb and self._is_capital(sentence, word)))
            ):
                start, verb = start + 1, verb or contracted
            else:
                break
        named = next((at + 1 for at in range(2, min(5, len(words) - 1)) if words[at].text == "is"), 0)
        if start == 1 and named and words[0].text == "the" and not sentence.text[words[named].start].islower():
            start, verb = named, True  # `The brand is Acme.`
        end = len(words)
        while (
            end > start + 1
            and words[end - 1].text in asked | known
            and not self._is_capital(sentence, words[end - 1])
            and (words[end - 1].start > words[end - 2].end or words[end - 1].text[0] > "\u2e7f")
        ):
            end -= 1
        dropped = {word.text for word in words[end:]}
        idle = dropped <= single_words("function") - claims and (verb or not asked.isdisjoint(dropped))
        idle = idle or (end < len(words) and words[end].text in _PLACES)
        if end < len(words) and not idle and not any(at in verbs for at in range(end, len(words))):
            end = len(words)
        return (start if (verb or start > 1) and start < len(words) else 0), end

    def _identified(self, sentence: Sentence, words: Sequence[Word]) -> int:
        """Return the first word behind the last verb of a sentence about what the question asks for: `The app that is open is Spotify`."""
        verbs = [one for one in sentence.phrases if one.table == "shows" and one.first > 0 and one.after < len(words)]
        verbs = [one for one in verbs if not _is_joined(words, one.after)]
        if not verbs or words[verbs[-1].first - 1].text in ("that", "which", "who"):
            return 0
        asked = heads(self.context.question[-500:])
        if sentence.concluding:
            asked |= {stemmed(word) for word in self._asked() - single_words("function") if word.isalnum()}
        subject = {stemmed(word.text) for word in words[: verbs[-1].first]}
        compound = any(head.endswith(word) for head in asked for word in subject if len(word) > 4)  # Musikinstrument
        pointed = verbs[-1].first == 2 and words[0].text in _POINTING
        return verbs[-1].after if compound or pointed or not asked.isdisjoint(subject) else 0

    @staticmethod
    def _is_capital(sentence: Sentence, word: Word) -> bool:
        return sentence.text[word.start].isupper()

    def _phrase(self, sentence: Sentence, words: Sequence[Word], framed: bool, identified: bool) -> Found | None:
        """Return a phrase without article and trailing clause, if it is one: no verb, no preposition, few words."""
        words, behind = _before_clause(words, framed)
        while len(words) > 1 and words[0].text in single_words("adverb"):
            words = words[1:]
        called = [
            at for at, word in enumerate(words[:-1]) if _names(sentence, word) or (framed and _is_colon(words, at))
        ]
        if called:
            words, framed = words[called[-1] + 1 :], True
            words = words[words[0].text == "as" and len(words) > 1 :]
        if not words:
            return None
        leading = (
            len(words) > 1
            and words[0].text in single_words("article")
            and words[1].start > words[0].end
            and (words[1].text[0].isalnum() or words[1].text in "*_`")
        )
        leading = leading or (
            framed and len(words) > 1 and words[0].text in ("l'", "d'") and not self._is_capital(sentence, words[0])
        )
        has_article = leading or _article_before(sentence, words[0].start) or (identified and bool(sentence.concluding))
        has_article = has_article or (framed and sentence.words[0].text in _VERBS_ALONE)
        has_article = has_article or any(
            _names(sentence, word) for word in sentence.words if word.end <= words[0].start
        )
        words = words[leading:]
        start = words[0].start
        led = [word.text for word in sentence.words if word.end <= start and word.text not in single_words("article")]
        if led and led[-1] in _PLACES and not _WHERE.search(self.context.question):
            return None  # `It stands on a table`
        before = (phrase for phrase in sentence.phrases if sentence.words[phrase.first].start < start)
        if behind and (behind < 0 or (framed and not any(phrase.table == "shows" for phrase in before))):
            return None
        if behind > BARE_WORDS and not framed:
            return None
        text = sentence.text[start : words[-1].end]
        if ":" in [word.text for word in words] and not framed and " " in text:
            return None
        if words[0].text in single_words("subject") or not self._is_phrase(sentence, words, text, framed, has_article):
            return None
        return Found(text, start, words[-1].end)

    def _is_phrase(self, sentence: Sentence, words: Sequence[Word], text: str, framed: bool, has_article: bool) -> bool:
        if framed and all(unicodedata.category(char)[0] in "PZ" for char in text):
            return False
        asked, articles = self._asked(), single_words("article")
        spaced = [word.text for word in words if word.text[0].isalnum() and word.text[0] < "\u2e80"]
        unspaced = len(words) - len(spaced) if any(word.text[0] > "\u2e7f" for word in words) else 0
        if len(text.split()) > (FRAMED_WORDS if framed else BARE_WORDS) or unspaced > 2 * BARE_WORDS:
            return False
        if unspaced and (text.endswith(_VERB_ENDS) or any(word.text in _SENTENCE_SIGNS for word in words)):
            return False
        ends_idle = not framed and len(spaced) > 1 and spaced[-1] in single_words("function")
        if ends_idle and not text.istitle():
            return False
        if not framed and any(
            word in single_words("shows") or (word in single_words("subject") and len(word) > 1) for word in spaced
        ):
            return False
        if "and" in spaced and len(spaced) != 3:
            return False
        contracted = any("'" in word and word.split("'")[-1] in ("d", "m", "ll", "re", "ve", "t") for word in spaced)
        before = [word.text for word in sentence.words if word.end <= words[0].start][-1:]
        is_doing = (
            spaced[1:] and spaced[0].endswith("ing") and before[:1] and before[0].endswith(("is", "are", "'s", "'re"))
        )
        is_doing = is_doing and not has_article and asked.isdisjoint(("doing", "activity", "happening"))
        if is_doing or not {"than", "als"}.isdisjoint(spaced):
            return False
        if (
            contracted
            or any(word in _NO_PHRASE for word in spaced)
            or (framed and any(word.endswith("ing") for word in spaced[1:]))
        ):
            return False
        if spaced and not unspaced and all(word in asked or word in articles for word in spaced):
            return False  # `a bird`, where a species of bird was asked for
        named = (
            text[0].isupper()
            or any(char.isdigit() or char in "_.@/" for char in text)
            or not text[0].isalpha()
            or bool(unspaced)
            or "\u0400" <= text[0] < "\u0530"
        )
        pronoun = sentence.words[0].text in ("it's", "it", "they're", "they", "that's") and len(spaced) in (2, 3)
        named = named or (
            pronoun and not any(word in ("very", "too", "quite", "so", "really", "rather") for word in spaced)
        )
        return not framed or has_article or named or (len(text.split()) < 3 and self._covers(sentence, words))

    def _covers(self, sentence: Sentence, words: Sequence[Word]) -> bool:
        """Return True if the rest of a sentence is all that the question asks about: `What colour is the umbrella?`, `The umbrella is`."""
        asked = [word.text for word in Sentence(self.context.question[-500:]).words if word.text[0].isalnum()]
        verb = next((at for at, word in enumerate(asked) if word in single_words("shows")), len(asked))
        about = {word for word in asked[verb + 1 :] if word not in single_words("function") and word not in _ASKING}
        rest = {word.text for word in sentence.words if word.end <= words[0].start or word.start >= words[-1].end}
        return bool(about) and about <= rest


_AND = frozenset(word for word in single_words("and") if word < "\u2e80")
_WRITING = terms("text sign word words writing letters visible there is")
_POINTING = terms("this these dieses diese dieser ce cette este esta questo questa")
_FRAMES = frozenset(("shows", "conclusion", "choose", "adverb", "subject"))
"""Tables of phrases that open a sentence about the answer."""
_VERBS_ALONE = frozenset(("es", "è", "é", "son", "sono", "são", "jest", "это"))
"""Verbs that need no subject before them."""
_VERB_ENDS = ("ます", "ました", "ません", "ない")
_SEEMS = ("보입니다", "보인다", "보여요", "같습니다", "같다", "같아요")
_SENTENCE_SIGNS = frozenset("我你他她它不是有在的了这那")
_ASKING = frozenset(("name", "named", "called", "kind", "type", "sort", "doing"))
_NAMING = frozenset(("called", "named", "known", "dated", "titled", "是"))
PREPOSITIONS = terms(
    "on in at by near with from to against over under beside between of than на в с из у auf im am mit bei an aus dans sur avec à sous en con sobre na em com su nel nella di w z for für pour para per through into onto via within across along"
)
_NO_SUBJECT = (
    {word for row in ordered("amount") for word in row.split()}
    | {"one", "another", "neither", "yes", "no", "ingen"}
    | PREPOSITIONS
    | frozenset().union(*map(single_words, ("every", "negation", "hedge", "adverb", "subject", "conclusion", "partly")))
)
"""Words that begin a sentence and name nothing."""
_WHO = terms("who wer qui quién quiénes quem chi kto kim кто vem siapa")
_IN_NAMES = frozenset(("of", "de", "del", "la", "le", "van", "von", "der", "the", "and"))
_PLACES = PREPOSITIONS - terms("of than from to by with de von di из con com avec mit à z an no for für pour para per")
_WHERE = re.compile(
    r"(?i)^(?:where|wo|où|d[oó]nde|onde|dove|waar|где|(?:in|at|on|en|em|dans|в) [wqkк])|\b(?:in|on|at|from)\?$"
)
_NO_PHRASE = terms(
    "is are was were be been has have had do does did can could will would should in on at with from by near that which who while "
    "i you we he she it they this there not no to several some various many under over behind beside between during for across along "
    "into onto"
)


def _names(sentence: Sentence, word: Word) -> bool:
    """Return True for a word that a name follows; one with a capital belongs to a title: `A Fish Called Wanda`."""
    return word.text in _NAMING and (not sentence.text[word.start].isupper() or sentence.text.isupper())


@lru_cache(maxsize=1)
def _known_words() -> frozenset[str]:
    """Return the words of a frame that say nothing themselves."""
    tables = ("function", "subject", "adverb", "article")
    return frozenset(word for table in tables for word in single_words(table)) - {"one", "word"}


@lru_cache(maxsize=1_024)
def heads(question: str) -> frozenset[str]:
    """Return the nouns that a question asks for: before its verb (`Which chemical element is`), else behind it (`What is the brand of`)."""
    words, idle = Sentence(question).words, single_words("function")
    verb = next((at for at, word in enumerate(words) if at and word.text in _VERBS), len(words))
    place = next((at for at, word in enumerate(words) if at and word.text in _PLACES | {"from"}), len(words))
    end = next((at for at in range(verb + 1, len(words)) if words[at].text in PREPOSITIONS), len(words))
    parts = words[: min(verb, place)], words[verb + 1 : end]
    before, behind = (
        {stemmed(word.text) for word in part if word.text[0].isalnum() and word.text not in idle} for part in parts
    )
    return frozenset(before or (() if any(word.endswith("ing") for word in behind) else behind))


_VERBS = single_words("shows") | {"do", "does", "did", "have", "has", "can", "could", "will", "would", "should"}


def is_glued(words: Sequence[Word], at: int) -> bool:
    """Return True if a word of a script with blanks goes on in another script without one: `èは`."""
    return (
        0 < at < len(words)
        and words[at - 1].text[0].isalpha()
        and words[at - 1].text[0] < "\u2e80" < words[at].text[0]
        and words[at].start == words[at - 1].end
    )


def _is_joined(words: Sequence[Word], at: int) -> bool:
    """Return True for a Korean syllable that goes on: no particle."""
    return "\uac00" <= words[at - 1].text[0] < "\ud7b0" and words[at].start == words[at - 1].end


def _is_colon(words: Sequence[Word], at: int) -> bool:
    return words[at].text == ":" and words[at + 1].start > words[at].end


def _is_comma(words: Sequence[Word], at: int) -> bool:
    return at < len(words) and words[at].text == ","


def _is_open(sentence: Sentence, words: Sequence[Word]) -> bool:
    """Return True if a sentence doubts, denies, or leaves a choice, outside of what it quotes."""
    starts = {word.start for word in words}
    for phrase in sentence.phrases:
        word = sentence.words[phrase.first]
        numbered = word.text == "no" and sentence.text[word.end : word.end + 1] == "."
        if phrase.table in ("hedge", "or", "negation") and word.start in starts and not numbered:
            return True
    return False


def _article_before(sentence: Sentence, start: int) -> bool:
    before = [word for word in sentence.words if word.end <= start]
    if not before or before[-1].text not in single_words("article"):
        return False
    return before[-1].end < start or before[-1].text.endswith("'")


def _without_end(words: Sequence[Word]) -> list[Word]:
    """Return the words without final stops, emoji, and the copula that ends a Korean or Japanese sentence."""
    kept = list(words)
    while kept and (
        kept[-1].text in _STOPS or (kept[-1].text[0] > "\u25ff" and unicodedata.category(kept[-1].text[0]) == "So")
    ):
        kept.pop()
    if len(kept) > 1 and kept[-1].text in ("है", "हैं"):
        kept.pop()
    for ending in ("입니다", "です", "이다"):
        if len(kept) > len(ending) and "".join(word.text for word in kept[-len(ending) :]) == ending:
            del kept[-len(ending) :]
    return kept


def _without_contrast(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words before `, not a crow`."""
    for at, word in enumerate(words[:-1]):
        if (
            at
            and word.text == ","
            and words[at + 1].text in ("not", "nicht", "kein", "keine", "pas", "no", "não", "non")
        ):
            return words[:at]
    return words


def _before_clause(words: Sequence[Word], framed: bool) -> tuple[list[Word], int]:
    """Return the words before a trailing clause or bracket, and how many words that has: 0 of another name, -1 if it goes on with `but`."""
    for at, word in enumerate(words[:-1]):
        following = words[at + 1]
        spaced = at > 0 and word.start > words[at - 1].end
        placed = word.text.endswith(("ed", "ing")) and following.text in PREPOSITIONS  # `perched on a pole`
        placed = framed and placed and not any(other.text in single_words("shows") for other in words[at:])
        dashed = spaced and word.text in _DASHES and following.start > word.end
        bracket = spaced and word.text in ("(", "[") and len(following.text) > 2 and following.text.isalpha()
        if at and (
            dashed or placed or bracket or (word.text in _CLOSE and following.start > word.end) or word.text in _REASONS
        ):
            turned = following.text in ("but", "aber", "pero", "mais", "mas", "ma", "но", "但")
            listed = following.text in single_words("article") and any(word.text in _AND for word in words[at:])
            turned = turned or (word.text == "," and listed)  # `It shows a guitar, a palm tree and a sun`
            renamed = bracket or dashed or placed or following.text in ("also", "known", "called")
            return list(words[:at]), -1 if turned else 0 if renamed else len(words) - at - 1
    return list(words), 0
