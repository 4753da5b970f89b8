"""Reading a short answer: the one name that the reply gives, without the talk around it."""

from __future__ import annotations

import re
from typing import cast

from snellen.scoring.extract.cleaning import Reply
from snellen.scoring.extract.conclusion import NOTHING, Finding, Reading, conclude
from snellen.scoring.extract.sentences import UNSURE
from snellen.scoring.names import _CLASSES, terms, words

_SUBJECT = (
    r"(?:it|this|that|these|those|they|the\s+(?:[\w'-]+\s+){0,5}?[\w'-]+|here|there|what\s+(?:you|we|i)\s+(?:see|are seeing|have)(?:\s+here)?"
    r"|(?:my|our|your)\s+(?:[\w'-]+\s+){0,2}[\w'-]+)"
)
_HEDGE = r"(?:most\s+|very\s+|quite\s+|almost\s+|highly\s+)?(?:likely|probably|certainly|definitely|clearly|possibly|perhaps|indeed|actually|in fact|obviously|commonly|apparently|either|also|simply|just|undoubtedly|presumably)"
_IS = re.compile(
    rf"(?:^|[\s,;:(\"']){_SUBJECT}(?:\s+(?:in|on|of|at|from)\s+(?:the|this|your)\s+[\w'-]+(?:\s+[\w'-]+)?)?"
    rf"\s*(?:\s(?P<verb>is|are|was|were)|'s|'re|\s(?P<modal>could|might|may|would|must|should|can|has to|will)\s+(?:\w+ly\s+)?be|\s(?P<seem>appears?|seems?|looks?|sounds?)\s+(?:\w+ly\s+)?(?:to\s+(?:\w+ly\s+)?be|like|to\s+(?:show|depict|resemble))|\s(?P<like>resembles?))"
    rf"(?P<hedge>(?:\s+{_HEDGE})*)\s*:?\s+(?P<name>(?!not\b|n't)[^\s].*)$",
    re.IGNORECASE,
)
_CALLED = re.compile(
    r"\b(?:known as|called|named|identified as|recogni[sz](?:ed|able) as|classified as|referred to as|identify (?:it|this|the \w+) as|recogni[sz]e (?:it|this) as|"
    r"characteristics? of|typical of|consistent with|indicative of|belongs? to|points? to(?:wards?)?|suggests? (?:that )?(?:it is|it's|this is)?|indicates? (?:that )?(?:it is|it's|this is)?|"
    r"match(?:es|ing)? (?:those of|that of|the description of)?|diagnostic (?:of|for)|features of|depiction of|picture of|photo(?:graph)? of|image of|example of|"
    r"(?:image|picture|photo|photograph|figure|scene) (?:\w+ )?(?:shows?|depicts?|features?|displays?|contains?|captures?)|i (?:can )?(?:see|recogni[sz]e)|"
    r"i(?:'d|'m| would| am)? ?(?:think|believe|say|guess|suspect|go with|fairly sure|pretty sure|confident|reckon|identify)(?: (?:that )?(?:it is|it's|this is|that is|that's|this|it))?(?: as)?|must be|has to be|likely|probably|looks like|appears to be|seems to be)"
    r"\s+(?P<name>(?!not\b)[^\s].*)$",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(
    r"^(?:not\s+(?:an?\s+|the\s+)?[^,;]{1,60}?(?:,\s*(?:but\s+)?(?:rather\s+)?|\s+but\s+(?:rather\s+)?|;\s*))(?P<name>.+)$",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"^\(?(?:the\s+)?(?:[\w-]+\s+){0,2}(?:answer|species|name|common name|identification|object|animal|bird|plant|flower|class|category|label|breed|genus|model|type|subject|title|id|prediction|dish|brand|make and model|landmark|variety|aircraft|digit|colou?r|shape|result|digit|response)\s*(?::|=|-\s)\s*(?P<name>.+)$",
    re.IGNORECASE,
)
_CUT = re.compile(
    r"\s+(?:with|because|since|as (?:it|its|the|indicated|evidenced|shown|seen|can|they|suggested|this)|which|that|who|whose|where|while|based on|due to|given|in (?:the|this|its|a|an|flight|my)|"
    r"on (?:the|a|an|this|its|top)|standing|sitting|perched|flying|swimming|from|at (?:the|a)|by (?:its|the|their)|judging|considering|according|has|have|is|are|was|were|rather than|instead of|"
    r"not|but|though|although|however|so|and (?:not|it|the|its|this|has|is)|featuring|showing|seen|shown|visible|resting|holding|wearing|against|facing|known|if|for (?:sure|its)|"
    r"thanks to|(?:here|again|too|indeed|instead|then)$|in (?:english|colou?r)|native to|commonly|or (?:something|a similar|similar))\b.*$"
    r"|\s*(?:;|:|\s-+\s|->|\.\s|!|\?\s).*$|\s*,\s*(?!\d{3}\b).*$",
    re.IGNORECASE | re.DOTALL,
)
_OR = re.compile(
    r"\s+(?:or|or possibly|or maybe|and/or|vs\.?)\s+(?:an?\s+|the\s+|maybe\s+|possibly\s+|perhaps\s+)?|\s+/\s+|或",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"\s*[(\[]([^()\[\]]{1,120})[)\]]?")
_LEAD = re.compile(
    r"^(?:[\s\"'*:,.-]+|(?:an?|the|some|my answer|answer|likely|probably|possibly|perhaps|maybe|definitely|clearly|most likely|certainly|obviously|simply|actually|either|called|named|"
    r"(?:species|kind|type|member|breed|variety|photo|picture|image|close-up|pair|group|specimen|example|individual|genus|drawing|illustration)\s+of|specifically|namely|sure|well|hmm|okay|ok|yes|indeed|oh|ah|that|thus|so|therefore|"
    r"it's|it is|this is|i think|i believe|i'd say|i would say|looks like|to be|be|as)\b(?!-)[\s,:]*)+",
    re.IGNORECASE,
)
_NO_NAME = terms(
    "it this that they yes no i unknown none nothing image picture photo question answer unclear not sure here "
    "there following above below one unidentified unsure hard difficult impossible clear visible shown very "
    "too likely similar same different able unable sorry n/a na"
)
_CJK_IS = re.compile(
    r"(?:这|那|它|图中|图片|照片|此)[^是,，。]{0,14}(?:是|为|显示了?)(?:一|两)?(?:只|个|种|条|朵|棵|张|辆|架|匹|头|名|位|座|幅)?(?P<name>[^,，。;；的\n]{1,20})|(?:看起来|应该|可能)(?:像|是)(?:一)?(?:只|个|种|条|朵|棵|辆|架)?(?P<name2>[^,，。\n]{1,20})"
)
_WEAK = terms("could might may possibly perhaps maybe can")


def read_short(reply: Reply, question: str) -> Reading:
    """The name that the reply gives, cleaned; `also` holds what it adds in brackets."""
    shown: dict[tuple[str, ...], str] = {}
    also: dict[tuple[str, ...], tuple[str, ...]] = {}
    asked = {w for w in words(question) if w in _CLASSES} if question else set()

    def sentence(text: str, announced: bool) -> Finding:
        return _read(text, announced, shown, also)

    def merge(values: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        return _merge(values, asked, also)

    reading = conclude(reply.text, sentence, show=lambda key: shown.get(key, " ".join(key)), merge=merge)
    if reading.value is None:
        return reading
    key = cast("tuple[str, ...]", reading.value)
    return Reading(shown[key], None, also.get(key, ()))


def _merge(
    values: list[tuple[str, ...]], asked: set[str], also: dict[tuple[str, ...], tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Names that are not names of one thing: a general name gives way to a finer one, a bracketed one to its owner."""
    kept: list[tuple[str, ...]] = []
    for value in dict.fromkeys(values):
        if any(value == words(other) for key in kept for other in also.get(key, ())):
            continue
        if any(key[-len(value) :] == value for key in kept):
            continue
        kept = [
            key
            for key in kept
            if value[-len(key) :] != key and not any(key == words(other) for other in also.get(value, ()))
        ]
        kept.append(value)
    fine = [key for key in kept if not (len(key) == 1 and (key[0] in _CLASSES or key[0] in asked))]
    return fine or kept


def _read(
    text: str, announced: bool, shown: dict[tuple[str, ...], str], also: dict[tuple[str, ...], tuple[str, ...]]
) -> Finding:
    if UNSURE.search(text) and len(text) > 4:
        return NOTHING
    label = _LABEL.match(text)
    bare = announced or label is not None
    body = label.group("name") if label is not None else text
    hedged = False
    found = None
    if not body.isascii():
        cjk = _CJK_IS.search(body)
        if cjk is not None:
            return _named(cjk.group("name") or cjk.group("name2"), shown, also, False, True)
    turned = _NOT_BUT.match(body)
    if turned is not None:
        body, bare = turned.group("name"), True
    found = _IS.search(body) if not bare or len(body.split()) > 3 else None
    if found is not None and _LEAD.sub("", found.group("name")):
        hedged = (found.group("modal") or "").lower() in _WEAK or any(
            w in _WEAK for w in (found.group("hedge") or "").lower().split()
        )
        name = found.group("name")
        deeper = _CALLED.search(name)
        if deeper is not None:
            name = deeper.group("name")
        turned = _NOT_BUT.match(name)
        return _named(turned.group("name") if turned else name, shown, also, hedged, False)
    found = _CALLED.search(body)
    if found is not None:
        return _named(found.group("name"), shown, also, False, bare)
    if bare or len(body.split()) <= 7 or len(_CUT.sub("", body).split()) <= 4:
        return _named(body, shown, also, body.lower().startswith(("possibly", "maybe", "perhaps")), True)
    return NOTHING


def _named(
    text: str, shown: dict[tuple[str, ...], str], also: dict[tuple[str, ...], tuple[str, ...]], hedged: bool, firm: bool
) -> Finding:
    others = tuple(m.group(1).strip() for m in _BRACKET.finditer(text[:200]))
    text = _BRACKET.sub(" ", text)
    name = _LEAD.sub("", text.strip(" .,;:!?\"'*-"))
    if name.lower().startswith(("not ", "neither ", "n't")):
        return NOTHING
    name = _CUT.sub("", " " + name).strip(" .,;:!?\"'*-")
    name = _LEAD.sub("", name).strip(" .,;:!?\"'")
    if _OR.search(name):
        parts = [p.strip(" .,;:!?\"'") for p in _OR.split(name)]
        keys = tuple(dict.fromkeys(_key(p, shown) for p in parts if p))
        return Finding(keys, firm=firm) if len(keys) > 1 else NOTHING
    if not name or len(name.split()) > 9:
        return NOTHING
    key = _key(name, shown)
    if not key or key[0] in _NO_NAME:
        return NOTHING
    extra = tuple(o for o in others if 0 < len(o.split()) <= 5)
    if extra:
        also.setdefault(key, extra)
    return Finding((), weak=(key,)) if hedged else Finding((key,), firm=firm)


def _key(name: str, shown: dict[tuple[str, ...], str]) -> tuple[str, ...]:
    key = words(name)
    shown.setdefault(key, " ".join(name.split()))
    return key
