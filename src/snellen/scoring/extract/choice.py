"""Reading a multiple-choice reply: which one option does it name, by letter, text or place?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from snellen.scoring.extract.cleaning import Reply
from snellen.scoring.extract.conclusion import NOTHING, Finding, Reading, conclude
from snellen.scoring.extract.mentions import Mention, Options, find, prepare, status, stems
from snellen.scoring.extract.sentences import CHOICE_DENIED, Sentence, tokenize
from snellen.scoring.names import stem, terms

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def lettered(options: Mapping[str, str] | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Options as (letter, text) pairs, letters upper-case; a list is lettered by position."""
    if not options:
        return ()
    if isinstance(options, Mapping):
        return tuple((str(letter).strip().upper(), str(text)) for letter, text in options.items())
    return tuple(zip(LETTERS, map(str, options), strict=False))


def read_choice(reply: Reply, pairs: tuple[tuple[str, str], ...]) -> Reading:
    """The letter of the one option that the reply names, or why there is none."""
    options = prepare(pairs)

    def sentence(text: str, announced: bool) -> Finding:
        return _read(text, announced, options)

    text = _without_echo(reply.text, options)
    if not text:
        return Reading(None, "only repeats the options")
    reading = conclude(text, sentence, universe=options.order)
    if reading.value is None and reading.reason == "no answer":
        return _by_rare_words(text, options) or reading
    if reading.value is not None and reading.value not in options.texts:
        return Reading(None, f"out of options: {reading.value}")
    return reading


def _without_echo(text: str, options: Options) -> str:
    """The text without lines that only repeat the list of options."""
    lines = text.split("\n")
    if len(lines) < 2:
        return text
    echoes = [_echoed(line, options) for line in lines]
    seen = {letter for letter in echoes if letter}
    if len(seen) < 2 or len(seen) < len(options.order) - 1:
        return text
    return "\n".join(line for line, echo in zip(lines, echoes, strict=True) if not echo).strip()


def _echoed(line: str, options: Options) -> str | None:
    if len(line) > 300:
        return None
    found = stems(line)
    for letter, text in options.texts.items():
        own = stems(text)
        if found == own or found == (letter.lower(), *own):
            return letter
    return None


def _read(text: str, announced: bool, options: Options) -> Finding:
    sentence = tokenize(text)
    words = sentence.words
    mentions = _joined(sentence, find(sentence, options, announced), options)
    denied = CHOICE_DENIED.search(text)
    if not mentions:
        if denied:
            return Finding(problem="none of the options", firm=announced)
        if announced:
            return _rare(words, options)
        return NOTHING
    if denied and not any(m.how == "text" and "none" in words[m.start : m.end] for m in mentions):
        if not any(m.start < 3 for m in mentions):
            return Finding(problem="none of the options")
    values: list[str] = []
    weak: list[str] = []
    against: list[str] = []
    groups = _groups(words, mentions)
    for mention, group in zip(mentions, groups, strict=True):
        if mention.letter == "!":
            return Finding(problem="contradicts itself: letter and text differ", firm=True)
        verdict = status(words, mention, group)
        {"yes": values, "no": against, "weak": weak}[verdict].append(mention.letter)
    firm = bool(values) and (len(words) <= 4 or (mentions[0].start <= 1 and mentions[0].how == "letter"))
    asserted = tuple(dict.fromkeys(v for v in values))
    return Finding(
        asserted,
        tuple(dict.fromkeys(v for v in weak if v not in values)),
        tuple(v for v in dict.fromkeys(against) if v not in values),
        firm,
    )


_JOINTS = terms(". ) : - , ( ] = \" ' | the a an is")


def _joined(sentence: Sentence, mentions: list[Mention], options: Options) -> list[Mention]:
    """Mentions where `B. red kite` and `red kite (B)` count once; a letter with another's text becomes `!`."""
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
    """For each mention the stretch of coordinated mentions (`A, B or C`) that it stands in."""
    groups: list[list[int]] = []
    of: list[int] = []
    for mention in mentions:
        if groups:
            between = words[groups[-1][1] : mention.start]
            if len(between) <= 4 and all(w in _LINKS for w in between):
                groups[-1][1] = mention.end
                of.append(len(groups) - 1)
                continue
        groups.append([mention.start, mention.end])
        of.append(len(groups) - 1)
    return [(groups[g][0], groups[g][1]) for g in of]


_LINKS = terms(", and or nor / & option options the a an ( ) \" ' \\ 和 或")


def _rare(words: list[str], options: Options) -> Finding:
    owners = list(dict.fromkeys(options.unique[s] for s in map(stem, words) if s in options.unique))
    if len(owners) == 1:
        return Finding((owners[0],))
    return NOTHING


def _by_rare_words(text: str, options: Options) -> Reading | None:
    """Last resort: the words of the reply occur in one option's text alone (`It's a kite.` for `red kite`)."""
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
