"""A reply as sentences and words, with the cues by which a reader tells answers from talk."""

from __future__ import annotations

import re
from typing import NamedTuple

from snellen.scoring.names import terms

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]"
    r"|\d+(?:[.,]\d+)*(?=[^\W\d_]|\b)"
    r"|[^\W\d_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]+(?:'[^\W\d_]+)?"
    r"|[^\w\s]"
)
_END = re.compile(r"\n+|[.!?]+[\"')\]]*(?=\s|$)|[。！？；;][\"')\]]*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|eg|ie|etc|vs|approx|ca|cf|no|nr|fig|mr|mrs|ms|dr|st|sp|spp|var|cv|ssp|subsp|al|inc|resp)|\b[A-Za-z]"
    r"|(?:^|\n)\s*\(?\d{1,2})$",
    re.IGNORECASE,
)
MOST = 600
"""Sentences that are read at most: the first 40 and the last 560 of a longer reply."""


class Sentence(NamedTuple):
    """A stretch of text: lower-cased words and signs, and where each stands in `text`."""

    text: str
    words: list[str]
    spans: list[tuple[int, int]]

    def raw(self, index: int) -> str:
        """Word `index` as it was written."""
        start, end = self.spans[index]
        return self.text[start:end]


def tokenize(text: str) -> Sentence:
    """Words (letters of one script, one CJK character, or one number) and single signs, in order."""
    words: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        words.append(match.group().lower())
        spans.append(match.span())
    return Sentence(text, words, spans)


def split(text: str) -> list[str]:
    """The sentences and lines of a text, stripped, none empty. `3.5`, `e.g.` and `B. kite` are not torn."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(text):
        at, end = match.span()
        if text[at : at + 1] == "." and end - at == 1:
            before = text[max(start, at - 12) : at]
            if _ABBREVIATION.search(before) and not _closes(text, start, at, end):
                continue
        piece = text[start:end].strip()
        if piece:
            found.append(piece)
        start = end
    piece = text[start:].strip()
    if piece:
        found.append(piece)
    return found if len(found) <= MOST else found[:40] + found[40 - MOST :]


_LETTER_ENDS = re.compile(
    r"(?:\b(?:is|be|option|answer|choice|letter|choose|pick|select|with|to|or|and|say|image|figure)|[:>])\s*\(?[A-Za-z]$",
    re.IGNORECASE,
)


def _closes(text: str, start: int, at: int, end: int) -> bool:
    """Whether the full stop after a single letter or number ends the sentence: `the answer is B. The …`, `Yes, it is 3.`"""
    piece = text[start:at]
    if len(piece.strip(" (\"'")) <= 2:  # `B. red kite`, `1. …`
        return False
    following = text[end:].lstrip(" ")[:1]
    if piece[-1:].isdigit():
        return True
    if not following or following == "\n":
        return True
    if _LETTER_ENDS.search(piece[-24:]):
        rest = text[end : end + 40].split()
        return bool(rest) and rest[0].strip(".,").lower() in _OPENERS
    return False


_OPENERS = terms(
    "the this it i in because both there from since looking they that these those we as however although while "
    "so if its no not wait actually but my option answer explanation reason reasoning hope note to on based "
    "you"
)

FINAL = re.compile(
    r"(?P<last>\bfinal\s+|\bultimate\s+)?(?:"
    r"\b(?:the|my|your|our|correct|right|best|likely|possible|probable|short|overall|matching|appropriate|suitable|closest)?\s{0,2}"
    r"(?:\b(?:answers?|ans|choice|option|response|reply|verdict|conclusion|prediction|guess|selection|pick)|"
    r"(?:(?<=^)|(?<=\n)|(?<=the )|(?<=my )|(?<=final ))(?:label|identification|determination|result|solution|estimate|count|total|letter|species))\b"
    r"(?:\s+(?:here|choice|option|letter|to (?:the|this|that|your) question|for (?:this|the) (?:question|image|picture)|"
    r"number|value|of (?:the )?[a-z]+(?: [a-z]+)?|(?:that|which) (?:best )?(?:matches|fits|describes)[a-z ]{0,40}))?"
    r"\s*(?:(?:is|was|=|are|be|'s|would be|should be|must be|has to be|will be|can only be|seems to be|appears to be|remains|->|=>|--|-)\b\s*:?|:|=|->|=>|--)"
    r"(?:\s*(?:therefore|thus|clearly|definitely|most likely|likely|probably|simply|indeed|option|choice)\b(?!\s+(?:[A-Z]|is)))?"
    r"|\bI(?:'d|'ll| would| will| am going to| shall|'m going to| have to| must| can)?(?: therefore| thus| confidently| also)?\s"
    r"(?:choose|chose|pick|select|go(?:ing)? (?:with|for)|opt for|answer(?: with)?|vote for|settle on|conclude(?: that)?|lean(?:ing)? (?:towards?|to))\b"
    r"|\b(?:choose|select|pick|going with|go with|settling on|leaning towards?)\s(?=option|choice|\(?[A-Z]\b)"
    r"|####|=>\s|(?:^|\n)\s*A:\s|(?:^|\n)\s*A(?:ns(?:wer)?)?\.?\s?(?=\([A-Z]\)\s*$)"
    r"|(?:最终|正确|最后|我的)?的?(?:答案|回答|结论|选项|答え|回答|解答)(?:应该|应当|应|就)?(?:是|为|為|は|选|：|:)\s?:?"
    r"|(?:我|应该|应|故|因此|所以|正确)?(?:选择|选|選ぶ|選)(?:项)?(?:是|的是|为)?(?=\s?[（(]?(?:[A-Z]|第))"
    r"|\b(?:la )?r[ée]ponse (?:correcte |finale )?est\b|\bdie (?:richtige )?antwort (?:ist|lautet)\b|\bantwort:|\br[ée]ponse\s?:"
    r"|\b(?:la )?respuesta (?:correcta |final )?es\b|\brespuesta:|\ba resposta (?:correta )?é\b|\bresposta:|\bla risposta (?:corretta )?è\b|\brisposta:"
    r")",
    re.IGNORECASE,
)
CONCLUSION = re.compile(
    r"(?:^|[,;:(]\s*|\s-+\s|\b(?:and|but)\s+)(?:and )?(?:so|therefore|thus|hence|consequently|accordingly|ergo|in conclusion|"
    r"in summary|to conclude|to summarize|in short|ultimately|overall|all in all|to sum up|altogether|in total|"
    r"as a result|finally|that means|this means|which means|meaning|this (?:suggests|indicates|confirms|leaves|makes|gives)|"
    r"that (?:leaves|makes|gives)|which (?:leaves|makes|gives|suggests|indicates|confirms)|leaving|making|giving|"
    r"based on (?:this|these|that|the)|given (?:this|these|that|the)|"
    r"(?:because|for) (?:of )?(?:this|these|that)(?: reasons?)?|donc|also|daher|por lo tanto|por tanto|quindi|portanto)\b"
    r"|因此|所以|综上|总之|故|因而|可见|よって|したがって|总共|一共|共(?=有)",
    re.IGNORECASE,
)
CORRECTION = re.compile(
    r"\b(?:wait|actually|correction|scratch that|on second thoughts?|hold on|sorry|apologies|i apologi[sz]e|my mistake|my bad|i was wrong|"
    r"i made (?:a|an) (?:mistake|error)|let me (?:re-?\w+|correct|look again|double[- ]check|check again|count again|think again|look closer)|"
    r"on (?:closer|further) (?:inspection|look|examination|reflection|consideration)|(?:looking|counting|checking) (?:again|closer|more closely|carefully again)|"
    r"upon (?:closer|further|careful|a closer|re-?)\s?\w+|i mean|i meant|or rather|no,? rather|reconsider\w*|strike that|oops|"
    r"hmm,? no|no,? wait|re-?(?:evaluating|examining|checking|counting|thinking|assessing|considering)|taking a (?:closer|second) look|"
    r"i (?:should|need to|must|have to) (?:correct|revise|change)|change my (?:answer|mind)|changed my mind|revised?(?: answer)?|"
    r"edit:|never ?mind)"
    r"|不对[,，]|等等|等一下|更正|其实|实际上|不,|いや|待って",
    re.IGNORECASE,
)
SUPERSEDED = re.compile(
    r"\b(?:at first(?: glance| sight| look)?|initially|originally|(?:my )?(?:first|initial) (?:impression|thought|instinct|guess)(?: was)?|first glance|"
    r"i (?:had |first |previously )*(?:thought|assumed|considered|was (?:going to|about to|inclined|tempted))|(?:you|one|some|people|it) (?:might|may|could) (?:\w+ )?(?:think|say|argue|expect|assume|mistake|confuse|seem|look|appear|be mistaken)|"
    r"it is tempting|it's tempting|could be mistaken|might be mistaken|easily (?:confused|mistaken)|similar to|resembles?|looks similar|reminiscent of|as opposed to|compared (?:to|with)|in contrast to|unlike)\b"
    r"|起初|一开始|最初|乍一看",
    re.IGNORECASE,
)
SUPERSEDING = re.compile(
    r"[,;:]?\s*\b(?:but|however|yet|until|though|then|so|it's actually|it is actually|nevertheless|this is|it is|it's)\b|但|不过|然而|[.;]|, (?=the |this |that |both |a )",
    re.IGNORECASE,
)
HEADER = re.compile(
    r"^\W*(?:the |my )?(?:final |correct |best )*(?:answer|conclusion|verdict|result|decision|answer is|答案|结论|最终答案)\W*$",
    re.IGNORECASE,
)
REFUSAL = re.compile(
    r"\b(?:i(?:'m| am)? ?(?:sorry|afraid|unable)|(?:i|we) (?:can(?:'?t|not)|could(?:n't| not)|am unable|am not able|do(?:n't| not) (?:know|have|see any image)|"
    r"won't|will not|have no)|as an ai|i must decline|not comfortable|no image|unable to)\b",
    re.IGNORECASE,
)
UNSURE = re.compile(
    r"\b(?:(?:can(?:'?t|not)|could(?:n't| not)|unable to|not able to|impossible to|hard to|difficult to|not possible to|tough to|"
    r"no way (?:to|of)|cannot be|can't be|could not be|can not be|couldn't be|not be)\s+(?:\w+ly |really |fully |be |quite )?"
    r"(?:tell(?:ing)?|say|saying|determine|determined|know|knowing|identify|identified|see|answer|answered|judge|judged|decide|decided|"
    r"confirm|confirmed|verify|verified|provide|provided|be sure|be certain|make out|count|counted|estimate|estimated|discern|discerned|"
    r"distinguish|distinguished|assess|assessed|recognize|recognise|recognized|measure|measured|establish|established|help|assist|view|access|narrow|ascertain\w*|infer\w*|conclude\w*|give|choose|pick|"
    r"measured|pin)\b"
    r"|i (?:do not|don't|have no|really don't|honestly don't) (?:know|idea|clue|have enough)|not (?:enough|sufficient) (?:information|detail|details|evidence|context)|"
    r"insufficient|(?:i'm|i am|am) (?:not|un) ?(?:sure|certain)|unsure|uncertain|unclear|no idea|unknown|undetermined|indeterminate|inconclusive|ambiguous|"
    r"not (?:clear|visible|shown|specified|discernible|identifiable|certain|sure|given|provided|possible)|n/a|it depends|depends on|maybe|perhaps)\b"
    r"|不确定|无法|不知道|不清楚|看不清|难以|不能确定|没法|わかりません|分かりません",
    re.IGNORECASE,
)
CHOICE_DENIED = re.compile(
    r"\b(?:none|neither)\s+(?:of\s+(?:the\s+|these\s+|those\s+|them|my\s+|your\s+)?(?:above|options?|choices|given|listed|provided|answers|two|three|four|five|"
    r"other|\w+ options)?|(?:option|choice|answer)?)|no (?:correct|matching|suitable|right|valid) (?:option|choice|answer)|"
    r"(?:not|n't) (?:any|one) of (?:the|these)|(?:doesn't|does not|don't|do not) match any|not (?:listed|among|in the (?:list|options)|an option)|"
    r"no option|以上都不|都不是|都不对|没有正确",
    re.IGNORECASE,
)

NEGATORS = terms(
    "not never neither nor cannot without except excluding unlike isn't aren't wasn't weren't don't doesn't "
    "didn't can't couldn't won't wouldn't shouldn't hasn't haven't hadn't isnt arent doesnt dont cant couldnt "
    "wasnt ain't 不 非 没 無 hardly barely nowhere eliminate eliminates eliminated eliminating exclude excludes "
    "excluded reject rejects rejected dismiss dismissed discard discarded discount discounted unlikely"
)
WEAK = terms(
    "could might may maybe perhaps possibly possible plausible plausibly similar resembles resembling tempting "
    "considered consider considering initially alternatively either if whether also though although compare "
    "compared confused mistaken unless suppose assuming versus vs alternative alternatives seemed candidates "
    "candidate unlike 可能 或"
)
BREAKS = terms(
    ", ; : ( ) [ ] but so because since while whereas although though however therefore thus hence as which "
    "yet instead rather -> => 而 但 因 , 。 由"
)
"""Words and signs that end the reach of a negation."""
