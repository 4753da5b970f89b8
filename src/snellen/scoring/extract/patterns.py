"""Phrases that separate answers from talk: markers, conclusions, corrections, doubts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property, lru_cache

_LATIN_WORD = re.compile(r"[a-z']+")
_APART = str.maketrans({chr(code): " " for code in range(128) if chr(code) not in "abcdefghijklmnopqrstuvwxyz'"})
_FOLDED = frozenset("ſKİı")  # what a pattern that ignores case takes for an ASCII letter


@lru_cache(maxsize=256)
def vocabulary(text: str) -> frozenset[str]:
    """Return the lower-case ASCII words of a text."""
    if text.isascii():
        return frozenset(text.lower().translate(_APART).split())
    return frozenset(_LATIN_WORD.findall(text.lower()))


_ALL: list[Cue] = []


def cues() -> list[Cue]:
    """Return all cues, for the test that keeps their triggers complete."""
    return list(_ALL)


class Cue:
    """A pattern that is searched only in texts with one of its trigger words, or non-ASCII texts.

    Most sentences have none, and a set is two orders of magnitude faster than a pattern of fifty phrases. A test keeps
    the triggers complete: with and without them the pattern finds the same in all labelled replies.

    Args:
        pattern: a regular expression; case is ignored.
        triggers: words of which a text must have one; `have+no` stands for both, `a+a:` for a word and signs as
            written.
        parts: every match contains one of these, apart from non-ASCII letters; empty: unknown. They exclude texts that
            have only common trigger words.
    """

    def __init__(self, pattern: str, triggers: str, parts: str = "") -> None:
        self._source = pattern
        self.triggers = frozenset(word for word in triggers.split() if "+" not in word)
        self._pairs: dict[str, frozenset[str]] = {}  # first word: second words
        self._signed: dict[str, tuple[str, ...]] = {}  # first word: words with signs
        for first, _, second in (word.partition("+") for word in triggers.split() if "+" in word):
            if second.isalpha():
                self._pairs[first] = self._pairs.get(first, frozenset()) | {second}
            else:
                self._signed[first] = (*self._signed.get(first, ()), second)
        self._firsts = frozenset((*self._pairs, *self._signed))
        self._parts = tuple(parts.split("|")) if parts else ()
        self._foreign = _FOLDED.union(char for char in pattern if not char.isascii())
        _ALL.append(self)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled pattern; compiled when a text first has a trigger."""
        return re.compile(self._source, re.IGNORECASE)

    def possible(self, text: str) -> bool:
        """Return True if the pattern may match the text."""
        if text.isascii():
            words = vocabulary(text)
            if self.triggers.isdisjoint(words) and (self._firsts.isdisjoint(words) or not self._pair_in(words, text)):
                return False
        elif not self._parts or not self._foreign.isdisjoint(text):
            return True
        return self.parts_in(text)

    def parts_in(self, text: str) -> bool:
        """Return False if the text contains none of `parts`, so that the pattern matches no piece of it.

        A text with one of the pattern's own non-ASCII letters is not searched: the result is True.
        """
        if not self._parts or not (text.isascii() or self._foreign.isdisjoint(text)):
            return True
        lowered = text.lower()
        for part in self._parts:  # noqa: SIM110 - a generator takes twice the time
            if part in lowered:
                return True
        return False

    def _pair_in(self, words: frozenset[str], text: str) -> bool:
        for first in self._firsts & words:
            if first in self._pairs and not words.isdisjoint(self._pairs[first]):
                return True
            for second in self._signed.get(first, ()):
                if second in text.lower():
                    return True
        return False

    def search(self, text: str) -> re.Match[str] | None:
        return self.pattern.search(text) if self.possible(text) else None

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.pattern.finditer(text) if self.possible(text) else iter(())


FINAL = Cue(
    r"(?:\b(?:answers?|ans|choice|option|response|reply|verdict|conclusion|prediction|guess|selection|pick)|"
    r"(?:(?<=^)|(?<=\n)|(?<=the )|(?<=my )|(?<=final ))(?:label|identification|determination|result|solution|estimate|count|total|letter|species))\b"
    r"(?:\s+(?:here|choice|option|letter|to (?:the|this|that|your) question|for (?:this|the) (?:question|image|picture)|"
    r"number|value|of (?:the )?[a-z]+(?: [a-z]+)?|(?:that|which) (?:best )?(?:matches|fits|describes)[a-z ]{0,40}))?"
    r"\s*(?:(?:is|was|=|are|be|'s|would be|should be|must be|has to be|will be|can only be|seems to be|appears to be|remains|->|=>|--|-)\b\s*:?|:|=|->|=>|--)"
    r"(?:\s*(?:therefore|thus|clearly|definitely|most likely|likely|probably|simply|indeed|option|choice)\b(?!\s+(?:[A-Z]|is)))?"
    r"|\bI(?:'d|'ll| would| will| am going to| shall|'m going to| have to| must| can)?(?: therefore| thus| confidently| also)?\s"
    r"(?:choose|chose|pick|select|go(?:ing)? (?:with|for)|opt for|answer(?: with)?|vote for|settle on|conclude(?: that)?|lean(?:ing)? (?:towards?|to))\b"
    r"|\b(?:choose|select|pick|going with|go with|settling on|leaning towards?)\s(?=option|choice|\(?[A-Z]\b)"
    r"|(?:^|\n)\s?A:\s|(?:^|\n)\s?A(?:ns(?:wer)?)?\.?\s?(?=\([A-Z]\)\s?$)"
    r"|(?:答案|回答|结论|选项|答え|解答)(?:应该|应当|应|就)?(?:是|为|為|は|选|：|:)\s?:?"
    r"|(?:选择|选|選ぶ|選)(?:项)?(?:是|的是|为)?(?=\s?[（(]?(?:[A-Z]|第))"
    r"|\br[ée]ponse (?:correcte |finale )?est\b|\bantwort (?:ist|lautet)\b|\bantwort:|\br[ée]ponse\s?:"
    r"|\brespuesta (?:correcta |final )?es\b|\brespuesta:|\bresposta (?:correta )?é\b|\bresposta:|\brisposta (?:corretta )?è\b|\brisposta:",
    "answer answers ans choice option response reply verdict conclusion prediction guess selection pick label identification "
    "determination result solution estimate count total letter species choose chose select go going opt vote settle settling "
    "conclude lean leaning reponse antwort respuesta resposta risposta a+a: a+( ans",
)
"""Phrases that announce the answer; the text after them is read as the answer."""

ULTIMATE = re.compile(r"\b(?:final|ultimate)\s*$", re.IGNORECASE)
CONCLUSION = Cue(
    r"(?:^|[,;:(]\s*|\s-+\s|\b(?:and|but)\s+)(?:and )?(?:so|therefore|thus|hence|consequently|accordingly|ergo|in conclusion|"
    r"in summary|to conclude|to summarize|in short|ultimately|overall|all in all|to sum up|altogether|in total|"
    r"as a result|finally|that means|this means|which means|meaning|this (?:suggests|indicates|confirms|leaves|makes|gives)|"
    r"that (?:leaves|makes|gives)|which (?:leaves|makes|gives|suggests|indicates|confirms)|leaving|making|giving|"
    r"based on (?:this|these|that|the)|given (?:this|these|that|the)|"
    r"(?:because|for) (?:of )?(?:this|these|that)(?: reasons?)?|donc|also|daher|por lo tanto|por tanto|quindi|portanto)\b"
    r"|因此|所以|综上|总之|故|因而|可见|よって|したがって|总共|一共|共(?=有)",
    "so therefore thus hence consequently accordingly ergo conclusion summary conclude summarize short ultimately overall all+in sum altogether total result finally means meaning "
    "this+suggests this+indicates this+confirms this+leaves this+makes this+gives which+suggests which+indicates which+confirms which+leaves which+makes which+gives "
    "that+leaves that+makes that+gives leaving making giving "
    "based+this based+these based+that based+the given+this given+these given+that given+the for+this for+these for+that for+the because+this because+these because+that because+the donc also daher por quindi portanto",
)
CORRECTION = Cue(
    r"\b(?:wait|actually|correction|scratch that|on second thoughts?|hold on|sorry|apologies|i apologi[sz]e|my mistake|my bad|i was wrong|"
    r"i made (?:a|an) (?:mistake|error)|let me (?:re-?\w+|correct|look again|double[- ]check|check again|count again|think again|look closer)|"
    r"on (?:closer|further) (?:inspection|look|examination|reflection|consideration)|(?:looking|counting|checking) (?:again|closer|more closely|carefully again)|"
    r"upon (?:closer|further|careful|a closer|re-?)\s?\w+|i mean|i meant|or rather|no,? rather|reconsider\w*|strike that|oops|"
    r"hmm,? no|no,? wait|re-?(?:evaluating|examining|checking|counting|thinking|assessing|considering)|taking a (?:closer|second) look|"
    r"i (?:should|need to|must|have to) (?:correct|revise|change)|change my (?:answer|mind)|changed my mind|revised?(?: answer)?|"
    r"edit:|never ?mind)"
    r"|\.\.\.\s*(?=no\b)|,\s*(?=no,\s)|不对[,，]|等等|等一下|更正|其实|实际上|いや|待って",
    "wait actually correction scratch second hold sorry apologies apologize apologise mistake bad was made let on looking counting checking upon mean meant or rather reconsider reconsidering strike oops hmm no re reevaluating reexamining rechecking recounting rethinking reassessing reconsidered evaluating examining taking should need must have change changed revise revised edit never nevermind",
    "wait|actually|correction|scratch|second thought|hold on|sorry|apolog|my mistake|my bad|i was wrong|"
    "i made a|let me|on closer|on further|looking again|looking closer|looking more|looking careful|"
    "counting again|counting closer|counting more|counting careful|checking again|checking closer|"
    "checking more|checking careful|upon|i mean|rather|reconsider|strike that|oops|hmm|re-|reevaluating|"
    "reexamining|rechecking|recounting|rethinking|reassessing|closer look|second look|should correct|"
    "need to correct|must correct|have to correct|revise|change|edit:|nevermind|never mind|...|no,",
)
SUPERSEDED = Cue(
    r"\b(?:at first(?: glance| sight| look)?|initially|originally|(?:my )?(?:first|initial) (?:impression|thought|instinct|guess)(?: was)?|first glance|"
    r"i (?:had |first |previously )*(?:thought|assumed|considered|was (?:going to|about to|inclined|tempted))|(?:you|one|some|people|it) (?:might|may|could) (?:\w+ )?(?:think|say|argue|expect|assume|mistake|confuse|seem|look|appear|be mistaken)|"
    r"it is tempting|it's tempting|could be mistaken|might be mistaken|easily (?:confused|mistaken)|similar to|resembles?|looks similar|reminiscent of|as opposed to|compared (?:to|with)|in contrast to|unlike)\b"
    r"|起初|一开始|最初|乍一看",
    "first initially originally initial impression thought assumed considered was think say argue expect assume mistake confuse seem look appear mistaken tempting confused similar resemble resembles reminiscent opposed compared contrast unlike",
    "first|initial|originally|thought|assumed|considered|was going to|was about to|was inclined|"
    "was tempted|might|may|could|tempting|mistaken|confused|similar|resembl|reminiscent|opposed to|"
    "compared|in contrast|unlike",
)
SUPERSEDING = re.compile(
    r"(?:[,;:]|(?<!\s))\s*+\b(?:but|however|yet|until|though|then|so|it's actually|it is actually|nevertheless|this is|it is|it's)\b|但|不过|然而|[.;]|, (?=the |this |that |both |a )",
    re.IGNORECASE,
)
HEADER = re.compile(
    r"^\W*(?:the |my )?(?:final |correct |best )*(?:answer|conclusion|verdict|result|decision|answer is|答案|结论|最终答案)\W*$",
    re.IGNORECASE,
)
REFUSAL = Cue(
    r"\b(?:i(?:'m| am)? ?(?:sorry|afraid|unable)|(?:i|we) (?:can(?:'?t|not)|could(?:n't| not)|am unable|am not able|do(?:n't| not) (?:know|have|see any image)|"
    r"won't|will not|have no)|as an ai|i must decline|not comfortable|no image|unable to)\b",
    "i we ai must not no unable im i'm",
)
UNSURE = Cue(
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
    "can't cannot can cant could couldn't unable able impossible hard difficult possible tough way be don't do have no not insufficient unsure uncertain unclear idea unknown undetermined indeterminate inconclusive ambiguous n depends maybe perhaps really honestly",
    "not|can't|cant|couldn|unable|impossible|hard to|difficult to|tough to|no way|have no|don't|"
    "insufficient|unsure|uncertain|un sure|un certain|unclear|no idea|unknown|undetermined|indeterminate|"
    "inconclusive|ambiguous|n/a|depends|maybe|perhaps",
)
CHOICE_DENIED = Cue(
    r"\b(?:none|neither)\s+(?:of\s+(?:the\s+|these\s+|those\s+|them|my\s+|your\s+)?(?:above|options?|choices|given|listed|provided|answers|two|three|four|five|"
    r"other|\w+ options)?|(?:option|choice|answer)?)|no (?:correct|matching|suitable|right|valid) (?:option|choice|answer)|"
    r"(?:not|n't) (?:any|one) of (?:the|these)|(?:doesn't|does not|don't|do not) match any|not (?:listed|among|in the (?:list|options)|an option)|"
    r"no option|以上都不|都不是|都不对|没有正确",
    "none neither no not doesn't don't does do isn't aren't",
)
