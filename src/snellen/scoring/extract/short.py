"""Extraction of short answers: the one name that a reply gives, without the text around it."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple, cast

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.clean import CleanReply
from snellen.scoring.extract.final_answer import NOTHING, SentenceFinding, conclude
from snellen.scoring.extract.patterns import REFUSAL, UNSURE
from snellen.scoring.name_match import CLASSES, MODIFIERS, stem, words
from snellen.text import terms

_PRONOUN = r"(?:it|this|that|these|those|they|here|there|he|she)"
_NOUN_SUBJECT = r"(?:(?:the|this|that|these|those|my|our|your|its|their|his|her)\s+(?:[\w'-]+\s+){0,5}?[\w'-]+|what\s+(?:you|we|i)\s+(?:see|have|are (?:seeing|looking at))(?:\s+here)?)"
_HEDGE = (
    r"(?:most\s+|very\s+|quite\s+|almost\s+|highly\s+)?(?:likely|probably|certainly|definitely|clearly|possibly|perhaps|"
    r"indeed|actually|in fact|obviously|apparently|either|also|simply|just|undoubtedly|presumably|therefore|thus|maybe|"
    r"unmistakably|distinctly|evidently|surely|really|in all likelihood)"
)
_BEFORE = r"(?:^|[,;:(\"'-]\s*|\b(?:that|think|believe|say|guess|so|and|but|therefore|thus|as|know|suggest|suggests|indicates|means|conclude|because|since|suspect|reckon|sure|confident|or|yes|well|hence|confirms|likely|possible|if)\s+)"
IS = re.compile(
    rf"(?:{_BEFORE}(?P<pronoun>{_PRONOUN})|(?:^|[\s,;:(])(?P<noun>{_NOUN_SUBJECT}))"
    r"(?:\s+(?:in|on|of|at|from|inside)\s+(?:the|this|your|that)\s+[\w'-]+(?:\s+[\w'-]+)?)?"
    r"\s*(?:\s(?P<verb>is|are|was|were)|'s|'re|\s(?P<modal>could|might|may|would|must|should|can|has to|have to|will)\s+(?:\w+ly\s+)?be"
    r"|\s(?P<seem>appears?|seems?|looks?|sounds?)\s+(?:\w+\s+)?(?:to\s+(?:\w+ly\s+)?be|like|to\s+(?:show|depict|resemble)))"
    rf"(?P<hedge>(?:\s*,?\s+{_HEDGE},?)*)\s*:?\s+(?P<name>(?!not\b|n't)[^\s].*)$",
    re.IGNORECASE | re.DOTALL,
)
CALLED = re.compile(
    r"\b(?:known as|called|named|identified as|recogni[sz](?:ed|able) as|classified as|referred to as|"
    r"identify (?:it|this|the \w+|this \w+) as(?: being)?|recogni[sz]e (?:it|this) as|labell?ed(?: as)?|"
    r"characteristics? of|typical of|consistent with|indicative of|belongs? to|points? to(?:wards?)?|"
    r"suggests?(?: that)?(?: it is| it's| this is| we have)?|indicates?(?: that)?(?: it is| it's| this is)?|"
    r"match(?:es|ing)?(?: those of| that of| the description of)?|diagnostic (?:of|for)|features of|"
    r"(?:depiction|picture|photo|photograph|image|example|portrait|drawing|illustration|specimen) of|(?:you're|you are|we're|i'm|we are|i am) (?:looking at|seeing)|"
    r"(?:image|picture|photo|photograph|figure|scene|frame) (?:\w+ly |here )?(?:shows?|depicts?|features?|displays?|contains?|captures?|is of|shows us|appears to (?:show|depict|feature))|"
    r"(?:i|we|you) (?:can )?(?:clearly )?(?:see|recogni[sz]e|spot|observe)(?: (?:it|this|that) as)?|must be|has to be|looks like|appears to be|seems to be|"
    r"i(?:'d|'m| would| am| will|'ll)? ?(?:think|believe|say|guess|suspect|go with|going to say|going with|call (?:it|this|that)|describe (?:it|this|that|the \w+) as|bet on|fairly sure|pretty sure|quite sure|confident|reckon|identify)"
    r"(?: (?:that )?(?:it is|it's|this is|that is|that's|this|it))?(?: as)?)"
    r"\s+(?P<name>(?!not\b)[^\s].*)$",
    re.IGNORECASE | re.DOTALL,
)
NOT_BUT = re.compile(
    r"^(?:it(?:'s| is) |this is |that(?:'s| is) )?not\s+(?:an?\s+|the\s+)?[^,;]{1,60}?(?:,\s*(?:but\s+)?(?:rather\s+)?|\s+but\s+(?:rather\s+)?|;\s*)(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
LABEL = re.compile(
    r"^\(?(?:the\s+)?(?:[\w-]+\s+){0,2}(?:answer|species|name|common name|identification|object|animal|bird|plant|flower|class|category|label|"
    r"breed|model|subject|title|id|prediction|dish|brand|make and model|landmark|variety|aircraft|digit|colou?r|shape|result|guess|identity|item|vehicle|car|fish|dog|cat|tree|fruit|conclusion)"
    r"(?: name)?\s*(?::|=|-\s|->)\s*(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
SCIENTIFIC = re.compile(
    r"^\(?(?:scientific|latin|binomial|botanical|taxonomic)(?: name)?\s*(?::|=|-\s|is)\s*(?P<name>.+)$",
    re.IGNORECASE | re.DOTALL,
)
OTHER_LABEL = re.compile(r"^[A-Za-z][\w '/-]{1,40}:\s*\S", re.IGNORECASE)
VERB = re.compile(
    r"\s(?:is|are|was|were|has|have|had|isn't|aren't|can|cannot|can't|could|may|might|should|must|do|does|don't|doesn't|shows?|appears?|seems?|"
    r"depicts?|contains?|looks?|includes?|include|need|needs|please|ask|asks|asked)\b|'(?:m|re|ve|ll)\b|n't\b|^(?:i|we|you|let|please|looking|based|given|to|what|which|how|there)\b",
    re.IGNORECASE,
)
_ENDS = (
    r"with|because|since|as (?:it|its|the|indicated|evidenced|shown|seen|can|they|suggested|this|well|opposed|a)|which|that|who|whose|where|while|"
    r"based on|due to|given|in|along|across|towards?|into|onto|around|during|outside|inside|within|among|between|after|before|on (?:the|a|an|this|its|top|it)|standing|sitting|perched|flying|"
    r"swimming|from|at (?:the|a|an)|by (?:its|the|their|a)|judging|considering|according|rather than|instead of|not|but|though|although|however|so|"
    r"and (?:not|it|the|its|this|has|is|here)|featuring|showing|seen|shown|visible|resting|holding|wearing|against|facing|known|if|for (?:sure|its|the)|"
    r"thanks to|(?:here|again|too|indeed|instead|then|now)$|in (?:english|colou?r)|native to|commonly|to (?:me|my)|eating|drinking|feeding|walking|running|playing|"
    r"looking|foraging|operated|climbing|sleeping|lying|laying|hanging|carrying|jumping|wading|soaring|grazing|hovering|taking|landing|parked|made|"
    r"built|located|covered|filled|used|taken|photographed|captured|belonging|displaying|exhibiting|characteri[sz]ed|identified|identifiable|"
    r"distinguished|recogni[sz]able|found|surrounded|owned|designed|manufactured|produced|also|next to|beside|near|behind|under|over|above|through|"
    r"usually|typically|often|probably|likely|possibly|i (?:think|believe|guess|would|suspect)|is|are|was|were|has|have|appears|it's"
)
TAIL = re.compile(
    rf"(?<=\S)\s+(?:{_ENDS})\b.*$|\s*(?:;|:\s|\s-+\s|->|\.\s|!|\?\s|\n).*$|\s*,(?!\d{{3}}\b|\s*(?:or\b|(?:could|might|may) be\b|maybe\b|perhaps\b|possibly\b)).*$",
    re.IGNORECASE | re.DOTALL,
)
OR = re.compile(
    r"(?:,?\s+(?:or|or possibly|or maybe|or perhaps|or even|and/or|vs\.?)\s+|,\s*(?:(?:it )?(?:could|might|may) (?:also )?be|maybe|perhaps|possibly)\s+)"
    r"(?:an?\s+|the\s+|maybe\s+|possibly\s+|perhaps\s+)*|\s+/\s+|或者?|还是",
    re.IGNORECASE,
)
BRACKET = re.compile(r"\s*[(\[]([^()\[\]]{1,120})[)\]]?")
LEAD = re.compile(
    r"^(?:[\s\"'*:,.-]+|(?:(?:it |this |that )?(?:could|might|may|must|would|should) (?:well |also |possibly )?be|looks to be|an?|the|some|my answer|answer|(?:most |very |almost )?(?:likely|probably|possibly|certainly|definitely|clearly|obviously)|perhaps|maybe|simply|actually|"
    r"either|called|named|(?:species|kind|type|member|breed|variety|photo|picture|image|close-up|pair|group|specimen|example|individual|genus|drawing|illustration|bird|couple|flock|herd|bunch)\s+(?:of|called|known as|named)|"
    r"specifically|namely|sure|well|hmm|okay|ok|yes|yeah|indeed|oh|ah|that|thus|so|therefore|it's|it is|this is|that's|that is|they are|these are|i think|i believe|i'd say|i would say|i guess|i'd guess|"
    r"(?:c'est|ce sont|das ist|es ist|es|è|isto é|é) (?:une?|la|le|les|eine?|der|die|das|el|los|las|uno|una|un|il|lo|um|uma|o)|looks like|to be|be|as|in fact|adult|juvenile|immature|(?:number|digit|numeral|letter)(?=\s+[\w'\"]+\W*$))\b(?!-)[\s,:]*)+",
    re.IGNORECASE,
)
NO_NAME = terms(
    "it this that they yes no i im unknown none nothing image picture photo question answer unclear not sure here there following above below "
    "unidentified unsure hard difficult impossible clear visible shown very too likely same different able unable sorry n na what which is "
    "are of in on what's please do does you name short phrase to be one word following option"
)
CJK_IS = re.compile(
    r"(?:这|那|它|图中|图片|照片|此|画面)[^是,，。]{0,14}(?:是|为|显示了?)(?:一|两)?(?:只|个|种|条|朵|棵|张|辆|架|匹|头|名|位|座|幅)?(?P<name>[^,，。;；的\n]{1,20})"
    r"|(?:看起来|应该|可能)(?:像|是)(?:一)?(?:只|个|种|条|朵|棵|辆|架)?(?P<name2>[^,，。\n]{1,20})"
)
WEAK_WORDS = terms("could might may possibly perhaps maybe can")


Key = tuple[str, ...]


class Target(NamedTuple):
    """The kind of answer that a question expects.

    Attributes:
        nouns: stems of the question's nouns, without places (`on the table`).
        finer: it asks for a species, model, breed …: the class alone is no answer.
        quality: it asks for a colour, shape, size …: an adjective is an answer.
    """

    nouns: frozenset[str] = frozenset()
    finer: bool = False
    quality: bool = False


class _Names:
    """Names in one reply, as they were written, with the names in brackets after them."""

    def __init__(self) -> None:
        self.written: dict[Key, str] = {}
        self.also: dict[Key, tuple[str, ...]] = {}
        self.scientific: list[str] = []

    def key(self, name: str) -> Key:
        key = words(name)
        self.written.setdefault(key, " ".join(name.split()))
        return key

    def aliases(self, key: Key) -> list[Key]:
        """Return the names in brackets after a name."""
        return [words(alias) for alias in self.also.get(key, ())]


_BRACKETS = re.compile(rf"(?:{BRACKET.pattern})+")
_ASIDE = re.compile(r"\s*[,;(]|\s-+\s|\.\.\.")
_MAKE_MODEL = re.compile(r"\b(?:make|brand|manufacturer)\s*:\s*([^\n,;:]{1,40})[\n,;]++\s*+model\s*:\s*", re.I)
_PRECISE = re.compile(r"\b(?:i\.e\.|that is,|namely|more precisely|more specifically|in other words),?\s+(?=\w)", re.I)
_KNOWN_AS = re.compile(r"^[^.,;]{0,80}\b(?:called|named|known as)\s+(?P<name>.+)$", re.I | re.S)
_ARTICLE = re.compile(r"(?:\w+ly\s+)?(?:an?|the|some|two|three|one)\s", re.I)
_PARTICIPLE = re.compile(r"\w+(?:ed|ing)\s+(?:in|on|at|by|with|across|throughout|from|to)\b")
_PLACE = re.compile(
    r"\b(?:on|in|at|behind|near|above|under|below|beside|next to|inside|from)\s+(?:the|this|these|that|a|an)\s+\w+",
    re.I,
)
_FINER = re.compile(r"\b(?:species|model|breed|variety|make|type|kind|variant|cultivar|scientific name|genus)\b", re.I)
_QUALITY = re.compile(
    r"\b(?:colou?r|shape|size|material|texture|pattern|word|action|doing|direction|side|where|attribute|weather|season|mood|"
    r"emotion|activity|state|condition|style|position|gender|language|time|day|month)s?\b",
    re.I,
)


@lru_cache(maxsize=2_048)
def _target(question: str) -> Target:
    text = question[-600:]
    nouns = frozenset(words(_PLACE.sub(" ", text)))
    return Target(nouns - NO_NAME, _FINER.search(text) is not None, _QUALITY.search(text) is not None)


def read_short(reply: CleanReply, question: str) -> Reading:
    """Read the name that the reply gives, cleaned; `also` has its names in brackets and scientific names."""
    met = _Names()
    target = _target(question) if question else Target()
    text = _MAKE_MODEL.sub(r"Model: \1 ", reply.text)
    lone = "\n" not in text

    def sentence(text: str, announced: bool) -> SentenceFinding:
        return _read(text, announced, met, target, lone)

    def merge(values: list[Key]) -> list[Key]:
        return _merge(values, target, met)

    def show(key: Key) -> str:
        return met.written.get(key, " ".join(key))

    reading = conclude(text, sentence, show=show, merge=merge)
    if reading.value is None:
        return reading
    key = cast(Key, reading.value)
    plain = all(word in MODIFIERS or word == "and" for word in key[:-1])
    if plain and key[-1] in CLASSES and (key[-1] in target.nouns or (target.finer and len(key) == 1)):
        return Reading(None, f"no answer: {show(key)} is only the class asked about")
    return Reading(show(key), None, (*met.also.get(key, ()), *(s for s in met.scientific if words(s) != key)))


def _merge(values: list[Key], target: Target, met: _Names) -> list[Key]:
    """Merge names of one object: a finer name replaces a general one, a main name the one in brackets."""
    merged: list[Key] = []
    for value in dict.fromkeys(values):
        if not any(_within(value, key) or value in met.aliases(key) for key in merged):
            merged = [key for key in merged if not _within(key, value) and key not in met.aliases(value)]
            merged.append(value)
    fine = [key for key in merged if not (key[-1] in CLASSES or (len(key) == 1 and key[0] in target.nouns))]
    return fine or merged


def _within(general: Key, fine: Key) -> bool:
    return fine[-len(general) :] == general or fine[: len(general)] == general


def _read(text: str, announced: bool, met: _Names, target: Target, lone: bool) -> SentenceFinding:
    if UNSURE.search(text) or REFUSAL.search(text):
        clauses = re.split(r"\b(?:but|however|though)\b", text, maxsplit=1)
        if len(clauses) < 2 or UNSURE.search(clauses[1]):
            return NOTHING
        text = clauses[1]
    if (text[-1:] == "?" and len(text.split()) > 6) or (text[-1:] == ":" and not lone):
        return NOTHING
    scientific = SCIENTIFIC.match(text)
    if scientific is not None:
        name = BRACKET.sub(" ", scientific.group("name")).strip(" .,;\"'")
        met.scientific.append(name)
        return SentenceFinding(weak=(met.key(name),))
    label = LABEL.match(text)
    if label is not None:
        return _named(label.group("name"), met, False, True, True)
    if not announced and not lone and OTHER_LABEL.match(text):
        return NOTHING
    if not text.isascii():
        cjk = CJK_IS.search(text)
        if cjk is not None:
            return _named(cjk.group("name") or cjk.group("name2") or "", met, False, True, True)
    return _stated(text, announced, met, target)


def _stated(text: str, announced: bool, met: _Names, target: Target) -> SentenceFinding:
    turned = NOT_BUT.match(text)
    if turned is not None:
        return _named(turned.group("name"), met, False, True, True)
    bare, cuts = _unbracketed(text)
    is_match = IS.search(bare) if not announced or len(text.split()) > 3 else None
    if is_match is not None:
        name = text[_source(is_match.start("name"), cuts) :]
        if CALLED.match(name) is None and _can_be_named(is_match, name, target):
            weak = (is_match.group("modal") or "").lower() in WEAK_WORDS or not WEAK_WORDS.isdisjoint(
                (is_match.group("hedge") or "").lower().split()
            )
            known = _KNOWN_AS.search(name)
            if known is not None:
                name = known.group("name")
            turned = NOT_BUT.match(name)
            return _named(turned.group("name") if turned else name, met, weak, False, target.quality)
    called = CALLED.search(text)
    if called is not None:
        return _named(called.group("name"), met, False, announced, target.quality)
    if is_match is not None and not announced:
        return NOTHING
    if announced or VERB.search(_ASIDE.split(bare, maxsplit=1)[0]) is None:
        return _named(text, met, text.lower().startswith(("possibly", "maybe", "perhaps")), True, True)
    return NOTHING


def _unbracketed(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Replace each run of brackets by one blank; also return each blank's position and the characters cut so far."""
    pieces: list[str] = []
    cuts: list[tuple[int, int]] = []
    at = cut = 0
    for run in _BRACKETS.finditer(text):
        pieces.append(text[at : run.start()])
        cuts.append((run.start() - cut, cut := cut + len(run.group()) - 1))
        at = run.end()
    return " ".join([*pieces, text[at:]]), cuts


def _source(position: int, cuts: list[tuple[int, int]]) -> int:
    """Return the position in the original text of a character of the unbracketed text."""
    before = bisect_left(cuts, (position, 0))
    return position + (cuts[before - 1][1] if before else 0)


def _can_be_named(is_match: re.Match[str], name: str, target: Target) -> bool:
    """Return True if `subject is name` gives a name: an article, a capital, or a subject that the question names."""
    first = LEAD.sub("", name)[:1]
    if first.isupper() or first.isdigit() or _ARTICLE.match(name):
        return True
    subject = (is_match.group("noun") or is_match.group("pronoun")).lower().split()
    if name.split()[0].lower().endswith("ly") or _PARTICIPLE.match(name):
        return False
    if subject[0] in ("the", "my", "our", "your"):
        adjective = not target.quality and name.split()[0].lower().rstrip(".").endswith(("ed", "ing"))
        return not adjective and any(stem(w) in target.nouns for w in subject[1:])
    return target.quality or len(TAIL.sub("", name).split()) <= 4


def _named(text: str, met: _Names, hedged: bool, firm: bool, quality: bool) -> SentenceFinding:
    precise = _PRECISE.search(text)
    if precise is not None:
        text = text[precise.end() :]
    others = tuple(m.group(1).strip(" .,;\"'") for m in BRACKET.finditer(text[:200]))
    text = BRACKET.sub(" ", text)
    name = LEAD.sub("", text.strip(" .,;:!?\"'*-"))
    if name.lower().startswith(("not ", "neither ", "n't", "no ")):
        return NOTHING
    name = TAIL.sub("", name).strip(" .,;:!?\"'*-")
    name = LEAD.sub("", name).strip(" .,;:!?\"'")
    if OR.search(name):
        parts = [part.strip(" .,;:!?\"'") for part in OR.split(name)]
        keys = tuple(dict.fromkeys(met.key(part) for part in parts if part))
        return SentenceFinding(keys, firm=firm) if len(keys) > 1 else NOTHING
    if not name or len(name.split()) > 9:
        return NOTHING
    key = met.key(name)
    if (
        not key
        or key[0] in NO_NAME
        or (len(key) == 1 and len(key[0]) == 1 and not key[0].isdigit() and key[0].isascii())
    ):
        return NOTHING
    extra = tuple(o for o in others if 0 < len(o.split()) <= 5)
    if extra:
        met.also.setdefault(key, extra)
    return SentenceFinding(weak=(key,)) if hedged else SentenceFinding((key,), firm=firm)
