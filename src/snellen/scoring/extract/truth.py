"""Extraction of yes/no and true/false answers: words of agreement first, then the reply's stance on the claim."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.claims import Proposition, compare, proposition
from snellen.scoring.extract.clean import CleanReply
from snellen.scoring.extract.final_answer import NOTHING, SentenceFinding, conclude
from snellen.scoring.extract.patterns import UNSURE
from snellen.scoring.extract.tokenize import tokenize
from snellen.text import terms

_YES = terms(
    "yes yeah yep yup yea yess affirmative indeed absolutely definitely certainly totally aye ja oui si sí sim "
    "да はい 예 네 vrai wahr richtig verdadero verdadeiro vero correcto correto corretto exacto exactly agreed "
    "precisely ✓ 👍"
)
_NO = terms("no nope nah nay non nein não нет いいえ 아니요 아니오 faux falsch falso negative ✗ 👎 disagree")
_TRUE = terms("true correct accurate right valid factual truthful")
_FALSE = terms("false incorrect untrue wrong inaccurate invalid erroneous mistaken")
_STOPS = terms("( . : - ; , !")
_INTRODUCING = terms("say is : answer \" ' with be ( [ =")
_SUPPOSING = terms("if whether could might may")
_NEGATORS = terms(
    "not never n't isn't aren't wasn't doesn't don't cannot can't isnt neither nor hardly far without won't wouldn't"
)
_FILLERS = terms(
    "well hmm hm ok okay oh ah so therefore thus hence then i i'd i'll would will say think believe guess "
    "that's it's it is that this the my answer statement claim - : \" ' ( [ , . > -- and sure , mostly probably "
    "likely definitely clearly looking at image picture photo based on in most ultimately overall final "
    "verdict conclusion result response assertion sentence here be to as am going with me"
)
_THINGS = terms(
    "answer answers choice option response reply side hand wing eye leg foot ear part of edge corner half "
    "colour color colors colours"
)
_BEFORE_SIDE = terms("the to far upper lower top bottom its your")
_ATTRIBUTES = terms("right wrong correct valid accurate")
_AFTER_PREDICATE = terms("that to because since as based and in for given the this")
_CLAIMS = terms("statement claim assertion sentence description proposition caption")
_ECHO = re.compile(
    r"\(?\"?\b(?:yes\"?\s*(?:/|or)\s*\"?no|true\"?\s*(?:/|or)\s*\"?false|correct\s*(?:/|or)\s*(?:incorrect|wrong)|right or wrong|T\s?[/,]\s?F|T or F|y\s?/\s?n)\b\"?\)?",
    re.IGNORECASE,
)
_BOTH = re.compile(
    r"\b(?:yes and no|true and false|both (?:yes|true|correct)|no and yes|yes,? but (?:also )?no|partly|partially|half[- ]true|neither true nor false|neither yes nor no|somewhat true)\b",
    re.IGNORECASE,
)
_EITHER = re.compile(r"\beither\b", re.IGNORECASE)
_SO = re.compile(
    r"\b(?P<no>(?:disagree|(?:do not|don't|cannot|can't) agree)\b|(?:statement|claim|description|sentence|caption) (?:does not|doesn't|is not|isn't) (?:match|hold|agree|apply|fit|supported|consistent|borne)|(?:is|be|'s) an? (?:\w+ )?no\b(?! \w)|(?:do not|don't|doubt|wouldn't|would not) (?:think|believe|say|suppose)? ?(?:so|it|that)\b(?! (?:is|was|are|it|this|the))|"
    r"(?:afraid|unfortunately|definitely|certainly|absolutely|probably|possibly|course|surely|clearly|most likely|think|hope|guess|suppose|obviously|say|is|sadly|likely|evidently) not(?= *(?:$|[,.;:!-]))|"
    r"not (?:at all|really|quite|exactly|likely)\b|(?:it|that|this) (?:is|does|do|has|was)(?:n't| not)(?= *(?:$|[,.;:!-]| the case))|far from it|by no means|no way)|"
    r"\b(?P<yes>i (?:fully |completely |would |do )?agree\b|(?:statement|claim|description|sentence|caption) (?:matches|holds|agrees|applies|fits|is supported|is consistent)|(?:is|be|'s) an? (?:\w+ )?yes\b|(?:think|believe|guess|suppose|say|appears?|seems?|looks) so\b|of course\b(?! not)|for sure\b|without (?:a |any )?doubt|no doubt|it (?:is|does|has)(?= *(?:$|[,.;:!-]| the case)))",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"\b(?:whether|asks?|asked|asking|the question|wants to know|determine|claims? that|says? that|states? that|stating that|claiming that|need to|if)\b",
    re.IGNORECASE,
)
_DOUBT = re.compile(
    r"\b(?:there(?:'s| is) )?(?:no|without(?: a)?|beyond(?: a)?) (?:doubt|question)(?: (?:about it|that))?\b",
    re.IGNORECASE,
)
_CJK_NO = re.compile(
    r"不是|不对|不正确|不一样|不同|不属于|不符合|不存在|没有|否定|错误|错的|错|假的|否|(?:^|[,，\s])不(?:$|[,，。\s])|いいえ|違います|ではありません|じゃない|間違い|아니|誤り"
)
_CJK_YES = re.compile(
    r"(?<![不])是的|(?<!不)对的|没错|(?<!不)正确|真的|^是|(?<![不])是(?=[。,，\s]|$)|(?:^|[，,\s:：])对(?=[。,，\s]|$|的)|^真$|相同|一样|はい|そうです|正しい|正解|맞|(?:^|[,，\s])有(?:$|[,，。\s])|(?<![不])属于|同じ|肯定"
)


def read_truth(reply: CleanReply, question: str) -> Reading:
    """Read True or False, or the reason why neither can be read.

    `question` helps to understand a full sentence as agreement or denial (`They are different birds.` as a reply to
    `Do both pictures show the same bird?`). The rules are in docs/extraction.md.
    """
    claim = _claim(question)

    def sentence(text: str, announced: bool) -> SentenceFinding:
        return _read(text, announced, claim)

    return conclude(reply.text, sentence, show=lambda value: "yes" if value else "no")


@lru_cache(maxsize=2_048)
def _claim(question: str) -> Proposition | None:
    return proposition(question) if question else None


def _read(text: str, announced: bool, claim: Proposition | None) -> SentenceFinding:
    if not text.isascii():
        finding = _cjk(text)
        if (
            finding is None
            and claim is not None
            and "是" in text
            and any(len(w) > 2 and w in text.lower() for w in claim.content)
        ):
            finding = SentenceFinding((True,))  # `这是波音747。`: what is asked about is said to be
        if finding is not None:
            return finding
    if _BOTH.search(text):
        return SentenceFinding(problem="two answers: yes, no", firm=True)
    echo = _ECHO.search(text)
    if echo is not None:
        if announced or _EITHER.search(text[: echo.start()]):
            return SentenceFinding(problem="two answers: yes, no")
        text = _ECHO.sub(" ", text)
    spoken = tokenize(text)
    words = spoken.words
    values: list[bool] = []
    weak: list[bool] = []
    firm = interjected = False
    head = True
    for i, word in enumerate(words):
        value: bool | None = None
        before, after = words[i - 1] if i else "", words[i + 1] if i + 1 < len(words) else ""
        if word in _YES:
            if after != "not" and (head or before in _INTRODUCING):
                value = not _negated(words, i)
        elif word in _NO:
            of_noun = word == "no" and (
                after in ("doubt", "question", "wait")
                or not _interjection(words, i, head or before in (",", ";", "but"))
            )
            if not of_noun and (head or before in _INTRODUCING or before in ("but", ",")):
                value = False
        elif word in _TRUE or word in _FALSE:
            if _predicative(words, i, after):
                value = (word in _TRUE) != _negated(words, i)
                if not _SUPPOSING.isdisjoint(words[max(0, i - 5) : i]):
                    weak.append(value)
                    value = None
        elif (
            head
            and word in ("t", "f", "y", "n")
            and (len(text) <= 4 or (announced and not after.isalpha()) or (spoken.raw(i).isupper() and after in _STOPS))
        ):
            value = word in ("t", "y")
        elif (
            word in ("t", "f")
            and spoken.raw(i).isupper()
            and before in (":", "is", "=", "be", "as", "with")
            and after in ("", ".")
        ):
            value = word == "t"
        elif head and word == "not" and after in ("", ".", "really", "at", "exactly", "quite", ","):
            value = False
        elif head and word in ("sure", "ok") and len(words) <= 2:
            value = True
        if value is not None:
            values.append(value)
            firm = firm or head
            interjected = interjected or (head and (word in _YES or word in _NO))
        if head and word not in _FILLERS:
            head = False
    if not values and not weak:
        so = _SO.search(text)
        if so is not None:
            return SentenceFinding((so.group("no") is None,), firm=so.start() < 12)
        if UNSURE.search(text) or _QUOTED.search(text):
            return NOTHING
    if claim is not None and len(text) < 600 and not _QUOTED.search(text):
        statement = compare(tokenize(_DOUBT.sub(" ", text)) if "doubt" in text or "question" in text else spoken, claim)
        if not values and not weak:
            if statement is None:
                return NOTHING
            if statement.weak:
                return SentenceFinding(weak=(statement.value,))
            return SentenceFinding((statement.value,), firm=statement.strict)
        if interjected and statement is not None and statement.strict and not statement.weak:
            values.append(statement.value)  # `No, it is.`
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) == 2 and firm:
        return SentenceFinding(distinct, firm=True, problem="contradicts itself: yes, no")
    return SentenceFinding(distinct, tuple(dict.fromkeys(weak)), firm=firm)


def _interjection(words: list[str], i: int, head: bool) -> bool:
    """Return True if `no` stands by itself (`No, it …`) and does not belong to a noun (`no birds`)."""
    after = words[i + 1] if i + 1 < len(words) else ""
    if not after or not after[0].isalnum():
        return True
    return head and after in (
        "it", "they", "the", "this", "that", "these", "those", "there", "i", "he", "she", "because", "since", "not", "its",
        "it's", "both", "neither", "as", "we", "you", "they're", "that's", "there's", "in", "a", "an", "only", "all",
    )  # fmt: skip


def _negated(words: list[str], i: int) -> bool:
    """Return True for an odd number of negations in the clause before word i, at most six words back."""
    count = 0
    for j in range(i - 1, max(-1, i - 7), -1):
        word = words[j]
        if word in (",", ";", ":", ".", "but", "so", "because", "(", "-"):
            break
        if word in _NEGATORS or word.endswith("n't"):
            count += 1
    return count % 2 == 1


def _predicative(words: list[str], i: int, after: str) -> bool:
    """Return True if `true`, `correct`, `wrong` … is a predicate of the statement and no attribute of a noun."""
    before = words[i - 1] if i else ""
    if after in _THINGS:
        return False
    if after in _CLAIMS:
        return before in ("a", "an", "the") and i > 1 and words[i - 2] in ("is", "as", "be")
    if words[i] == "right" and (before in _BEFORE_SIDE or after in ("side", "now", "next", "in", "behind")):
        return False
    return words[i] not in _ATTRIBUTES or not after[:1].isalpha() or after in _AFTER_PREDICATE


def _cjk(text: str) -> SentenceFinding | None:
    """Read yes or no in Chinese and Japanese; None if the sentence has neither."""
    if not any("\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7a3" for char in text):
        return None
    text = re.sub(r"是否|是不是|对不对|对还是错|有没有|对错|是或否|正确还是错误", " ", text)
    no = _CJK_NO.search(text)
    yes = _CJK_YES.search(text)
    if re.search(r"(?:并非|不是)(?:不|错)", text):
        return SentenceFinding((True,), firm=True)
    if no and yes and re.match(r"[^,，]{0,12}?" + re.escape(yes.group()), text) and yes.start() < no.start():
        return SentenceFinding((True, False), firm=True, problem="contradicts itself: yes, no")
    if no:
        return SentenceFinding((False,), firm=no.start() == 0)
    if yes:
        return SentenceFinding((True,), firm=yes.start() == 0)
    return None
