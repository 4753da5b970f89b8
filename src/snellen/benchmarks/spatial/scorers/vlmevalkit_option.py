"""VLMEvalKit's reading of a letter in the spatial benchmarks (all but BLINK and 3DSRBench), and its hit.

Source: the option matcher of VLMEvalKit's spatial suite. Six places are looked at in turn, the first letter found is the
answer: the answer tag, the end of a tag, the last lines after the thinking, the last lines of the whole, a phrase of
conclusion, the only letter there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from snellen.types import Score

INVISIBLE = re.compile("[\u200b\u200c\u200d\ufeff]")
TAIL = 800
"""Characters of the end of a reply in which a tag's end, and the last lines, are looked for."""
LINES = 6

_OPEN, _CLOSE = r"[(\[{（【]", r"[)\]}）】]"
_TAG = re.compile(r"<\s*+answer\b", re.IGNORECASE)
_TAG_END = re.compile(r"<\s*+/\s*+answer\s*+>", re.IGNORECASE)
_AT_ONCE = re.compile(r"\s*+([A-J])", re.IGNORECASE)
_BEFORE = [
    re.compile(rf"(?<![A-Za-z]){_OPEN}?\s*([A-F])\s*{_CLOSE}?\s*<\s*/\s*{tag}\s*>", re.IGNORECASE)
    for tag in ("answer", "think")
]
_THOUGHT = re.compile(r"<\s*/\s*think\s*>", re.IGNORECASE)
_THINKING = re.compile(r"<\s*think\s*>", re.IGNORECASE)
_LISTED = re.compile(r"^[\s*_>\-]*(?:option|选项)\s*[A-J]\s*[:：]", re.IGNORECASE)
_ALONE = re.compile(r"^[\s*_`>(\[（【]*([A-F])[\s*_`)\]）】]*$", re.IGNORECASE)
_NUMBERED = re.compile(r"^\s*([A-F])[.:)\]：）】、－-]\s+", re.IGNORECASE)
_TOKEN = re.compile(r"(?<![A-Za-z])([A-F])(?=$|[\s.,:;!?)\]`，。：；！？、）】])")
_PHRASE = re.compile(
    r"(?:final\s+answer|the\s+answer\s+is|correct\s+answer|answer\s+is|answer|最终答案|答案是|答案|结论|所以|因此|我选择|我选|选择|选)"
    rf"\s*+[:：>=]?+\s*+{_OPEN}?+\s*+([A-F])\b",
    re.IGNORECASE,
)
_STANDING = re.compile(r"(?<![A-Za-z])([A-F])(?![A-Za-z])")


def cleaned(reply: str) -> str:
    """The reply without blanks at its ends and without characters of no width."""
    text = reply.strip()
    return text if text.isascii() else INVISIBLE.sub("", text)


def after_thinking(text: str) -> str:
    """What stands after the last `</think>`; without one after the last `<think>`; without either all of it."""
    for tag in (_THOUGHT, _THINKING) if "<" in text else ():
        ends = [hit.end() for hit in tag.finditer(text)]
        if ends:
            return text[ends[-1] :]
    return text


def in_tags(text: str, content: re.Pattern[str]) -> Iterator[re.Match[str]]:
    """Matches of `content` behind the `>` of each opening answer tag, in order; a tag reaches to the next `>`."""
    end = -1
    for tag in _TAG.finditer(text) if "<" in text else ():
        if tag.end() <= end:
            continue  # within the tag before, at whose end nothing matched
        end = text.find(">", tag.end())
        if end < 0:
            return
        found = content.match(text, end + 1)
        if found is not None:
            yield found


def _tagged(text: str) -> str | None:
    """The letter at the head of the first answer tag that has one and is closed somewhere behind it."""
    first = next(in_tags(text, _AT_ONCE), None)
    if first is None:
        return None
    closed = any(first.end() <= close.start() for close in _TAG_END.finditer(text, first.end()))
    return first[1].upper() if closed else None


def option(reply: str) -> str | None:
    """The letter that VLMEvalKit reads: A to F (in an answer tag A to J), upper case; None where it reads none.

    There is no boundary behind the letter of a tag (`<answer>Because</answer>` is B); a letter in lower case counts only in
    a tag, alone on its line, at the head of a line or after a phrase; the text of an option is never looked for.
    """
    text = cleaned(reply)
    tail = text[-TAIL:]
    tagged = _tagged(text)
    if tagged:
        return tagged
    for pattern in _BEFORE if "<" in tail else ():
        hit = pattern.search(tail)
        if hit:
            return hit[1].upper()
    found = _last_lines(after_thinking(text)) or _last_lines(tail)
    if found:
        return found
    hit = _PHRASE.search(text)
    if hit:
        return hit[1].upper()
    kept = "\n".join(line for line in text.splitlines() if not _LISTED.match(line))
    return _only(_STANDING.findall(kept))


def _last_lines(text: str) -> str | None:
    lines = [line for line in text.splitlines() if line.strip()]
    for line in reversed(lines[-LINES:]):
        if _LISTED.match(line):
            continue
        hit = _ALONE.match(line) or _NUMBERED.match(line)
        found = hit[1].upper() if hit else _only(_TOKEN.findall(line))
        if found:
            return found
    return None


def _only(letters: Iterable[str]) -> str | None:
    different = set(letters)
    return different.pop() if len(different) == 1 else None


def hit(reply: str, gold: str) -> Score:
    """1 where the same letter is read in the reply and in the gold answer, which is read by the same rule.

    Where nothing is read in either, the kit compares one failure with the other and counts a hit. This is kept, and said
    in `detail`, for it lifts the figure: a gold letter beyond F is right with any reply that cannot be read.
    """
    found, target = option(reply), option(gold)
    if found is None and target is None:
        why = f"no letter in the reply, none in the gold answer {gold!r}: the kit counts this as right"
        return Score(1.0, None, "correct", why, {"gold_unread": True})
    if found is None:
        return Score(0.0, None, "invalid", "no letter")
    return Score(float(found == target), found, "correct" if found == target else "wrong")
