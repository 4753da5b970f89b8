"""Extraction of multiple-choice answers: the one option that a reply names by letter, text or position."""

from __future__ import annotations

import re
from functools import lru_cache

from snellen.scoring.extract.base import Reading
from snellen.scoring.extract.clean import CleanReply
from snellen.scoring.extract.count import read_count
from snellen.scoring.extract.final_answer import NOTHING, SentenceFinding, conclude
from snellen.scoring.extract.numerals import as_number
from snellen.scoring.extract.option_mentions import (
    STOP,
    Mention,
    Options,
    find,
    prepare,
    status,
    stems,
    take_listed,
    verdict,
)
from snellen.scoring.extract.patterns import CHOICE_DENIED
from snellen.scoring.extract.tokenize import Sentence, tokenize
from snellen.scoring.name_match import stem
from snellen.text import terms


def read_choice(reply: CleanReply, pairs: tuple[tuple[str, str], ...], question: str = "") -> Reading:
    """Return the letter of the one option that the reply names, or the reason why there is none."""
    options = prepare(pairs)

    def sentence(text: str, announced: bool) -> SentenceFinding:
        finding = _read(text, announced, options)
        if len(finding.values) > 1 and not finding.problem and question:
            about = _asked_about(text, finding.values, options, question)
            return finding if about is None else finding._replace(values=(about,))
        return finding

    text = _without_echo(reply.text, options)
    if not text and reply.text:
        return Reading(None, "only repeats the options")
    remainder, judged = take_listed(text, options)
    if judged:
        reading = conclude(remainder, sentence, universe=options.order) if remainder else Reading(None, "no answer")
        if reading.value is None:
            reading = verdict(judged, options) or reading
        return reading
    reading = conclude(text, sentence, universe=options.order)
    if reading.value is None and reading.reason and not reading.reason.startswith("contradicts"):
        counted = _by_number(reply, options, question)
        if counted is not None:
            return counted
    if reading.value is None and reading.reason == "no answer":
        return _by_rare_words(text, options) or reading
    if reading.value is not None and reading.value not in options.texts:
        return Reading(None, f"out of options: {reading.value}")
    return reading


def _asked_about(text: str, values: tuple[str, ...], options: Options, question: str) -> str | None:
    """Return the option whose clause shares most words with the question: `The bird is left, the nest is right.`"""
    question_words = _question_words(question[:400], options.order, tuple(options.texts.values()))
    scores: dict[str, int] = {}
    for clause in _CLAUSE.split(text):
        sentence = tokenize(clause)
        named = {m.letter for m in find(sentence, options, False)} & set(values)
        if len(named) == 1:
            score = len(question_words & {stem(w) for w in sentence.words})
            letter = named.pop()
            scores[letter] = max(scores.get(letter, 0), score)
    best = max(scores.values(), default=0)
    top = [letter for letter, score in scores.items() if score == best]
    return top[0] if best and len(top) == 1 else None


_CLAUSE = re.compile(r"[,;]|\b(?:and|while|whereas|but)\b")


@lru_cache(maxsize=2_048)
def _question_words(question: str, order: tuple[str, ...], texts: tuple[str, ...]) -> frozenset[str]:
    own = {word for text in texts for word in stems(text)}
    return frozenset(w for w in stems(question.split("\n")[0]) if w not in own and w not in STOP and len(w) > 2)


def _by_number(reply: CleanReply, options: Options, question: str) -> Reading | None:
    """Return the option that equals the reply's number, if all options are numbers."""
    numbers = {letter: as_number(text) for letter, text in options.texts.items()}
    if None in numbers.values():
        return None
    count = read_count(reply, question).value
    named = [letter for letter, number in numbers.items() if number == count]
    return Reading(named[0], None) if count is not None and len(named) == 1 else None


def _without_echo(text: str, options: Options) -> str:
    """Remove lines that only repeat the list of options."""
    lines = text.split("\n")
    if len(lines) < 2:
        return text
    echoes = [_echoed(line, options) for line in lines]
    echoed = {letter for letter in echoes if letter}
    if len(echoed) < 2 or len(echoed) < len(options.order) - 1:
        return text
    return "\n".join(line for line, echo in zip(lines, echoes, strict=True) if not echo).strip()


def _echoed(line: str, options: Options) -> str | None:
    if len(line) > 300 or "✓" in line or "✗" in line:
        return None
    return options.lines.get(stems(line))


def _read(text: str, announced: bool, options: Options) -> SentenceFinding:
    sentence = tokenize(text)
    words = sentence.words
    mentions = _joined(sentence, find(sentence, options, announced), options)
    denied = CHOICE_DENIED.search(text)
    if not mentions:
        if denied:
            return SentenceFinding(problem="none of the options", firm=announced)
        if announced:
            return _rare(words, options)
        return NOTHING
    none_is_option = any(m.how == "text" and "none" in words[m.start : m.end] for m in mentions)
    if denied and not none_is_option and not any(m.start < 3 for m in mentions):
        return SentenceFinding(problem="none of the options")
    if len(mentions) == 1 and _all_but(text):
        return SentenceFinding((mentions[0].letter,), firm=True)
    values: list[str] = []
    weak: list[str] = []
    against: list[str] = []
    groups = _groups(words, mentions)
    for mention, group in zip(mentions, groups, strict=True):
        if mention.letter == "!":
            return SentenceFinding(problem="contradicts itself: letter and text differ", firm=True)
        stance = status(words, mention, group)
        if stance == "yes" and not announced and _described(words, mention):
            stance = "weak"
        {"yes": values, "no": against, "weak": weak}[stance].append(mention.letter)
    leads = _leads(words, mentions[0])
    firm = bool(values) and (len(words) <= 4 or leads)
    if leads and len(values) > 1 and mentions[1].start - mentions[0].end > 4:
        values = values[:1]  # `B. …`, and then talk about the others
    return SentenceFinding(
        tuple(dict.fromkeys(values)),
        tuple(dict.fromkeys(v for v in weak if v not in values)),
        tuple(v for v in dict.fromkeys(against) if v not in values),
        firm,
    )


def _all_but(text: str) -> bool:
    """Return True if a text excludes all options but one: `everything except B is ruled out`."""
    spared = _EVERYTHING_BUT.search(text)
    if spared is not None and _EXCLUDED.search(text, spared.end()) is not None:
        return True
    return not text.isascii() and _CJK_BUT.search(text) is not None


_EVERYTHING_BUT = re.compile(
    r"\b(?:everything|all|any|every (?:option|one|choice)|anything|(?:all|every|any)(?: of)? (?:the )?(?:other |options?|choices)?)\s*(?:options? |choices? )?(?:but|except(?: for)?|besides|apart from|other than)\b",
    re.IGNORECASE,
)
_CJK_BUT = re.compile(r"除了?.{1,8}(?:都|以外|之外)")
_EXCLUDED = re.compile(
    r"\b(?:excluded?|ruled out|rule out|eliminated?|wrong|incorrect|no|not|n't|out|unlikely|impossible|false)\b", re.I
)
_DESCRIBING = terms(
    "is are was has have had shows show looks look would could might may can does do lacks seems appears tends tend describes depicts refers features "
    "displays typically usually often generally which typical have's"
)
_JUDGING = terms(
    "correct right best answer match matches matching fits fit true only most likely closest visible shown depicted present pictured it the "
    "consistent seen clearly here accurate appropriate plausible yes left remaining one obvious good what winner wrong incorrect not"
)


def _described(words: list[str], mention: Mention) -> bool:
    """Return True if the mention is the subject of a description (`Option C has a rounded tail`), not an answer."""
    if mention.start > 2 or any(w not in _BEFORE_SUBJECT for w in words[: mention.start]):
        return False
    at = mention.end
    if words[at : at + 1] == [","] and words[at + 1 : at + 2] and words[at + 1] in _DESCRIBING:
        at += 1
    elif at < len(words) and words[at] in (",", "("):
        closing = ")" if words[at] == "(" else ","
        while at + 1 < len(words) and words[at + 1] != closing and at < mention.end + 8:
            at += 1
        at += 2
    elif at < len(words) and words[at] == ")":
        at += 1
    return (
        at < len(words)
        and words[at] in _DESCRIBING
        and "than" not in words
        and _JUDGING.isdisjoint(words[at + 1 : at + 6])
    )


_BEFORE_SUBJECT = terms('option choice answer the a an ( " image')


def _leads(words: list[str], mention: Mention) -> bool:
    """Return True if the sentence opens with the answer: `B. …`, `(b) because …`, `Red kite - …`."""
    if mention.start > 1 or any(w not in _BEFORE_SUBJECT for w in words[: mention.start]):
        return False
    if mention.start == 1 and words[0] in ("option", "choice") and words[mention.end : mention.end + 1] == [","]:
        return False
    after = words[mention.end] if mention.end < len(words) else ""
    return after in ("", ".", ":", ")", "-", ";", "because", "since", "as", "!", "]", '"') or (
        after == "," and mention.how == "letter"
    )


_JOINTS = terms(". ) : - , ( ] = \" ' | the a an is")


def _joined(sentence: Sentence, mentions: list[Mention], options: Options) -> list[Mention]:
    """Join letter and text of one option (`B. red kite`, `red kite (B)`); a letter with another's text becomes `!`."""
    if len(mentions) < 2:
        return mentions
    words = sentence.words
    joined: list[Mention] = [mentions[0]]
    for mention in mentions[1:]:
        last = joined[-1]
        between = words[last.end : mention.start]
        if (
            len(between) <= 4
            and {last.how, mention.how} in ({"letter", "text"}, {"ordinal", "text"}, {"letter", "ordinal"})
            and all(w in _JOINTS for w in between)
            and ((between and between != [","]) or last.how == "letter")
        ):
            same = last.letter == mention.letter
            joined[-1] = Mention(last.start, mention.end, last.letter if same else "!", "both")
        else:
            joined.append(mention)
    return joined


def _groups(words: list[str], mentions: list[Mention]) -> list[tuple[int, int]]:
    """Return, for each mention, the span of coordinated mentions (`A, B or C`) that contains it."""
    groups: list[list[int]] = []
    of: list[int] = []
    for mention in mentions:
        if groups:
            between = words[groups[-1][1] : mention.start]
            if len(between) <= 6 and all(w in _LINKS for w in between):
                groups[-1][1] = mention.end
                of.append(len(groups) - 1)
                continue
        groups.append([mention.start, mention.end])
        of.append(len(groups) - 1)
    return [(groups[g][0], groups[g][1]) for g in of]


_LINKS = terms(", . maybe perhaps possibly and or nor / & option options the a an ( ) \" ' \\ 和 或")


def _rare(words: list[str], options: Options) -> SentenceFinding:
    owners = list(dict.fromkeys(options.unique[s] for s in map(stem, words) if s in options.unique))
    return SentenceFinding((owners[0],)) if len(owners) == 1 else NOTHING


def _by_rare_words(text: str, options: Options) -> Reading | None:
    """Return the only option whose text shares words with the reply (`a kite` for `red kite`); the last resort."""
    sentence = tokenize(text[-2_000:])
    if len(sentence.words) > 60:
        return None
    values: list[str] = []
    for index, word in enumerate(sentence.words):
        letter = options.unique.get(stem(word))
        if letter and status(sentence.words, Mention(index, index + 1, letter, "text"), (index, index + 1)) == "yes":
            values.append(letter)
    owners = list(dict.fromkeys(values))
    return Reading(owners[0], None) if len(owners) == 1 else None
