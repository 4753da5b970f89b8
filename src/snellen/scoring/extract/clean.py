"""Cleaning of raw replies: strip thinking, markup and typography, and find answer containers.

Everything here is linear in the length of the reply; tests check that on adversarial megabytes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

SEARCHED = 1_000_000
"""Characters searched for thinking and answer containers: the first `HEAD` and the last of a longer reply."""
LONGEST = 50_000
"""Maximum characters read outside of thinking: the first `HEAD` and the last."""
HEAD = 4_000
MOST_BOXES = 200
"""Maximum answer containers that are read: the last ones, of `LONGEST` characters together."""


class CleanReply(NamedTuple):
    """A reply taken apart.

    Attributes:
        text: what the reader is told, markup removed.
        boxes: contents of answer containers (`<answer>`, `\\boxed{}`, JSON answer fields) in order, markup removed.
        unfinished: the reply broke off while thinking, so `text` is thought and not an answer.
        omitted: how many characters of what is said outside of thinking were left out, between head and tail.
    """

    text: str
    boxes: tuple[str, ...] = ()
    unfinished: bool = False
    omitted: int = 0


class _Plain(dict[int, "str | None"]):
    """A translation table, filled on demand, from full-width, styled and invisible characters to plain ones."""

    def __missing__(self, code: int) -> str | None:
        char = chr(code)
        category = unicodedata.category(char)
        plain: str | None = char
        if category in ("Cf", "Cs", "Co", "Cn"):
            plain = None
        elif category == "Cc":
            plain = char if char in "\n\t" else " "
        elif category == "Zs":
            plain = " "
        elif category in ("Zl", "Zp"):
            plain = "\n"
        elif code >= 0x2460 and (
            code < 0x2500 or 0x3200 <= code < 0x3400 or code >= 0xFB00 or 0x1D400 <= code < 0x1F200
        ):
            plain = unicodedata.normalize("NFKC", char) if not 0x4E00 <= code < 0xFB00 else char
        if len(self) < 20_000:
            self[code] = plain
        return plain


_SIGNS = {
    "'": "‘’‚‛′ʼ´＇",
    '"': "“”„‟″«»「」『』《》〈〉＂",
    "-": "‐‑‒–−﹣－",
    " -- ": "—―",
    "...": "…",
    ",": "、",
    "[": "【〔",
    "]": "】〕",
    " 1/2": "½",
    " 1/4": "¼",
    " 3/4": "¾",
    " 1/3": "⅓",
    " 2/3": "⅔",
    "^2": "²",
    "^3": "³",
    "✓": "☑✔✅",
    "✗": "✘❌❎✖",
    "\n": "\r",
    "": "\ufe0f",
}
"""Plain form of signs that Unicode's categories and normal forms leave as they are, or change to something else."""
_PLAIN = _Plain({ord(sign): plain for plain, signs in _SIGNS.items() for sign in signs})

_THINK = r"think|thinking|thought|thoughts|reason|reasoning|reflection|analysis|scratchpad|seed:think|cot"
_THINK_TAG = re.compile(
    rf"[<\[◁](?P<close>/)?\s?(?:{_THINK})\s?[>\]▷]|<\|(?P<close2>end_of_|/)?(?:begin_of_)?(?:{_THINK})\|>",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"<\|channel\|>\s{0,3}(\w+)[^<]{0,80}<\|message\|>")
_SPECIAL = re.compile(r"<\|[^|<>]{1,40}\|>|</?s>|<(?:eos|bos|pad|end_of_turn|start_of_turn)>|\[/?INST\]|\[EOS\]")
_ANSWER_TAG = re.compile(
    r"<\s?(?P<close>/)?\s?(?:final[_ -]?)?(?:answer|ans|final|solution|response|output|result|prediction|choice)\s?>"
    r"|<\|(?P<begin>begin|start)_of_(?:box|answer|solution)\|>|<\|(?P<end>end)_of_(?:box|answer|solution)\|>",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\?\b(?:boxed|fbox)\s?\{")
_ANSWER_KEY = re.compile(
    r"^(?:the_)?(?:final|correct|predicted|my|best|model|selected|chosen)?[_\s-]*"
    r"(?:answer|ans|choice|option|label|letter|prediction|result|response|output|value|verdict|conclusion|selection|"
    r"count|number|total|quantity|species|name|class|category|object|identification|identity|truth|is_true|is_correct|"
    r"答案|结果|选项|选择)(?:_?(?:letter|value|text|name|id|index|key))?$",
    re.IGNORECASE,
)
_JSON_FIELD = re.compile(
    r"[\"'](?P<key>[^\"'\n]{1,30})[\"']\s{0,3}:\s{0,3}(?P<value>\"[^\"\n]{0,300}\"?|'[^'\n]{0,300}'?|[^,}\n\]\[{]{1,60})"
)

_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$", re.MULTILINE)
_HTML = re.compile(r"<(?P<br>br|/p|/li|/div|/h\d|/tr)\s?/?>|</?[a-zA-Z][^<>\n]{0,80}>", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\[\]\n]{1,200})\]\([^()\s]{1,300}\)")
_LINE_START = re.compile(r"[ \t]*(?:#{1,6}[ \t]+|>+[ \t]?|[•●▪◦‣·➢➤→☞✦*+][ \t]+|-{1,2}[ \t]+)+")
_LINE_SIGNS = frozenset("#>•●▪◦‣·➢➤→☞✦*+-")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]++(.{0,200}?[\w)*])[ \t]*$(?=\n\s{0,4}\S)", re.MULTILINE)
_RULE = re.compile(r"[ \t]*(?:[-*_=~][ \t]?){3,}$|(?=[ \t:|-]++$).*---.*$")
_RULE_SIGNS = frozenset("-*_=~:|")
_RULE_PART = re.compile(r"[-*_=~][ \t]?[-*_=~]")
_EMPHASIS = re.compile(r"\*+|__+|~~|(?<![A-Za-z0-9])_(?=[^\s_])|(?<=[^\s_])_(?![A-Za-z0-9])")
_LATEX_WORD = re.compile(
    r"\\(?:text(?:bf|it|rm|sf|tt|normal)?|mathrm|mathbf|mathit|mathsf|mathbb|operatorname|bold|boldsymbol|emph|underline|"
    r"mbox|hbox|left|right|displaystyle|quad|qquad|large|Large|bf|rm)(?![a-zA-Z])\s?\*?"
)
_FRAC = re.compile(r"\\[dtc]?frac\s?\{([^{}]{1,60})\}\s?\{([^{}]{1,60})\}")
_LATEX_SIGNS = {
    "\\times": "×", "\\cdot": "×", "\\approx": "≈", "\\sim": "≈", "\\simeq": "≈", "\\div": "÷", "\\pm": "±",
    "\\circ": "°", "\\degree": "°", "\\checkmark": "✓", "\\neq": "≠", "\\ne": "≠", "\\leq": "≤", "\\geq": "≥",
    "\\le": "≤", "\\ge": "≥", "\\Rightarrow": "=>", "\\rightarrow": "->", "\\to": "->", "\\implies": "=>",
    "\\therefore": "therefore", "\\ldots": "...", "\\dots": "...", "\\lt": "<", "\\gt": ">", "\\%": "%", "\\$": "$",
    "\\#": "#", "\\&": "&", "\\_": "_", "\\,": " ", "\\;": " ", "\\!": "", "\\:": " ", "\\ ": " ", "\\(": " ",
    "\\)": " ", "\\[": "\n", "\\]": "\n", "\\\\": "\n", "\\{": "{", "\\}": "}", "\\n": "\n", "\\*": "*",
}  # fmt: skip
_DOLLAR = re.compile(r"\$+(?!\d)|(?<=[^\s])\$")
_LATEX = re.compile(r"\\[a-zA-Z]+|\\[^a-zA-Z\s]|\\ ")
_BLANK = re.compile(r"(?<![ \t])[ \t]{17,}")
_MARKUP = re.compile(r"[*_`#<>|~\\${}\[\]•●▪◦‣·➢➤→☞✦+\-]")


def plain(text: str) -> str:
    """Normalise typography: full-width and styled letters to ASCII, quotes and dashes to one form, no invisibles."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_PLAIN)


def unmark(text: str) -> str:
    """Strip Markdown, HTML and LaTeX markup; the words and their order stay."""
    if _MARKUP.search(text) is not None:
        if "\\" in text:
            text = _FRAC.sub(r"(\1)/(\2)", text)
            text = _LATEX_WORD.sub(" ", text)
            text = _LATEX.sub(lambda m: _LATEX_SIGNS.get(m.group(), " " + m.group()[1:] + " "), text)
            text = text.replace("^°", "°").replace("^{°}", "°").replace("{,}", ",")
        if "<" in text:
            text = _HTML.sub(lambda m: "\n" if m.group("br") else " ", text)
        if "](" in text:
            text = _LINK.sub(r"\1", text)
        if "```" in text or "~~~" in text:
            text = _FENCE.sub("", text)
        if _RULE_PART.search(text) is not None:
            text = _without_start(text, _RULE_SIGNS, _RULE)
        if "#" in text:
            text = _HEADING.sub(r"\1:", text)
        text = _without_start(text, _LINE_SIGNS, _LINE_START)
        if "_" in text:
            text = _EMPHASIS.sub("", text)
        else:
            text = text.replace("~~", "").replace("*", "")
        text = text.replace("`", "").replace("{", " ").replace("}", " ").replace("|", " | ")
        if "$" in text:
            text = _DOLLAR.sub("", text)
    return narrowed(text.strip())


def _without_start(text: str, signs: frozenset[str], start: re.Pattern[str]) -> str:
    """Remove the matches of `start` at the head of lines; `signs` are the characters that a match may begin with."""
    lines = text.split("\n")
    for index, line in enumerate(lines):
        if line.lstrip(" \t")[:1] in signs and (match := start.match(line)) is not None:
            lines[index] = line[match.end() :]
    return "\n".join(lines)


def narrowed(text: str) -> str:
    """Shorten runs of blanks to 16 characters, so that patterns do not backtrack over them."""
    if "        " in text or "\t" in text:
        return _BLANK.sub(lambda run: run[0][:16], text)
    return text


def head_and_tail(text: str, longest: int) -> str:
    """Cut a text to `longest` characters: its first `HEAD` and its last."""
    return text if len(text) <= longest else text[:HEAD] + "\n" + text[HEAD - longest :]


def _last(boxes: list[str]) -> list[str]:
    """Return the last containers, at most `LONGEST` characters together."""
    budget = LONGEST
    chosen = []
    for box in boxes[: -MOST_BOXES - 1 : -1]:
        if budget > 0:
            chosen.append(head_and_tail(box, max(budget, 2 * HEAD)))
            budget -= len(box)
    return chosen[::-1]


# `A... or maybe C`, `A. Or it could be C.`: the alternative belongs to the sentence before it.
_SECOND_THOUGHT = re.compile(
    r"(?<!\.)\.{2,}+[ ]{0,3}or\b|[.!][ ]{1,3}Or(?=,? (?:maybe|perhaps|possibly|(?:it|that) (?:could|might|may) (?:also )?be)\b)"
)


def take_apart(reply: str) -> CleanReply:
    """Clean one reply: drop the thinking, find answer containers, remove the markup. Never raises."""
    # One sign may stand for eighteen letters: what is nothing but such signs is cut to twice its length.
    text = head_and_tail(plain(head_and_tail(reply, SEARCHED)), max(2 * len(reply), LONGEST))
    if ".." in text or " Or" in text:
        text = _SECOND_THOUGHT.sub(", or", text)
    if _MARKUP.search(text) is None:
        cut = head_and_tail(text, LONGEST)
        return CleanReply(narrowed(cut.strip()), omitted=max(0, len(text) - LONGEST))
    unfinished = False
    if "<" in text or "[" in text or "◁" in text:
        text, unfinished = _after_thinking(text)
    boxes: list[str] = []
    if "<" in text:
        text = _take_tags(text, boxes)
        text = _SPECIAL.sub(" ", text)
    if "boxed" in text or "fbox" in text:
        text = _take_boxed(text, boxes)
    if "{" in text and not boxes:
        text = _take_json(text, boxes)
    omitted = max(0, len(text) - LONGEST, sum(map(len, boxes)) - LONGEST)
    if omitted:
        text, boxes = head_and_tail(text, LONGEST), _last(boxes)
    return CleanReply(unmark(text), tuple(b for b in map(unmark, boxes) if b), unfinished, omitted)


def _after_thinking(text: str) -> tuple[str, bool]:
    """Return the text outside thinking tags; True with the thinking itself if the reply ended inside a tag."""
    channels = list(_CHANNEL.finditer(text))
    if channels:
        last = channels[-1]
        return text[last.end() :], last.group(1).lower() != "final"
    spans, opened = _around_thinking(text)
    if opened >= 0:
        outside = "".join(text[start:end] for start, end in spans)
        return (outside, False) if _ANSWER_TAG.search(outside) else (outside + "\n" + text[opened:], True)
    outside = "\n".join(text[start:end] for start, end in spans)
    if spans[-1][0] and not outside.strip():  # everything was thought and nothing was answered
        return _THINK_TAG.sub("\n", text), True
    return outside, False


def _around_thinking(text: str) -> tuple[list[tuple[int, int]], int]:
    """Return start and end of each part outside thinking tags, and where an unclosed tag's thinking begins, or -1."""
    spans: list[tuple[int, int]] = []
    at = 0
    inside = False
    for tag in _THINK_TAG.finditer(text):
        if tag.group("close") or tag.group("close2"):
            if not inside:
                spans.clear()  # only the closing tag was written: all before it was thought
            inside = False
            at = tag.end()
        elif not inside:
            spans.append((at, tag.start()))
            inside = True
            at = tag.end()
    if inside:
        return spans, at
    return [*spans, (at, len(text))], -1


def outside_thinking(text: str) -> list[tuple[int, int]]:
    """Return start and end of each part of a reply that is read as its answer; all of it if nothing else was written."""
    channels = list(_CHANNEL.finditer(text))
    if channels:
        return [(channels[-1].end(), len(text))]
    spans, opened = _around_thinking(text)
    outside = "".join(text[start:end] for start, end in spans)
    if opened >= 0:
        return spans if _ANSWER_TAG.search(outside) else [*spans, (opened, len(text))]
    return spans if outside.strip() else [(0, len(text))]


def answer_containers(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return start and end of the contents of answer containers between two characters, the last `MOST_BOXES` of them."""
    spans: list[tuple[int, int]] = []
    opened = -1
    for tag in _ANSWER_TAG.finditer(text, start, end):
        if not (tag.group("close") or tag.group("end")):
            opened = tag.end()
        elif opened >= 0:
            spans.append((opened, tag.start()))
            opened = -1
    if opened >= 0:
        spans.append((opened, end))
    spans += [(opening.end(), stop) for opening, stop, _ in _boxed_spans(text, start, end)]
    if text.find("{", start, end) >= 0:
        fields = _JSON_FIELD.finditer(text, start, end)
        spans += [field.span("value") for field in fields if _ANSWER_KEY.match(field["key"].strip())]
    return spans[-MOST_BOXES:]


def _take_tags(text: str, boxes: list[str]) -> str:
    tags = list(_ANSWER_TAG.finditer(text))
    if not tags:
        return text
    pieces: list[str] = []
    at = 0
    opened = -1
    for tag in tags:
        if tag.group("close") or tag.group("end"):
            if opened >= 0:
                boxes.append(text[opened : tag.start()])
                at, opened = tag.end(), -1
            else:
                pieces.append(text[at : tag.start()] + " ")
                at = tag.end()
        else:
            if opened < 0:
                pieces.append(text[at : tag.start()])
            opened = tag.end()
    if opened >= 0:
        boxes.append(text[opened:])
        at = len(text)
    pieces.append(text[at:])
    inner_boxes = [inner for box in boxes for inner in _boxed_in(box)]
    if inner_boxes:
        boxes[:] = inner_boxes
    return " ".join(pieces)


def _boxed_in(text: str) -> list[str]:
    inner: list[str] = []
    if "boxed" in text:
        _take_boxed(text, inner)
    elif "{" in text:
        _take_json(text, inner)
    return inner


def _take_boxed(text: str, boxes: list[str]) -> str:
    pieces: list[str] = []
    at = 0
    for opening, contents_end, end in _boxed_spans(text, 0, len(text)):
        boxes.append(text[opening.end() : contents_end])
        pieces.append(text[at : opening.start()].rstrip("\\"))
        at = end
    pieces.append(text[at:])
    return " ".join(pieces)


def _boxed_spans(text: str, start: int, end: int) -> Iterator[tuple[re.Match[str], int, int]]:
    """Yield each `\\boxed{` with the end of its contents, at most 400 characters later, and the end of all of it."""
    at = start
    for opening in _BOXED.finditer(text, start, end):
        if opening.start() < at:
            continue
        depth, at = 1, opening.end()
        stop = min(end, at + 400)
        while at < stop and depth:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        yield opening, at - 1 if depth == 0 else at, at


def _take_json(text: str, boxes: list[str]) -> str:
    """Move answer fields of a JSON object (whole, fenced or cut off) to `boxes`; return the text around it."""
    start, end = text.find("{"), text.rfind("}")
    body = text[start : end + 1] if end > start else text[start:]
    fields: list[tuple[str, Any]] = []
    try:
        value = json.loads(body) if len(body) < 20_000 else None
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        fields = list(value.items())
    elif '"' in body or "'" in body:
        fields = [(m.group("key"), m.group("value").strip().strip("\"'")) for m in _JSON_FIELD.finditer(body[:20_000])]
    if not fields:
        return text
    answers = [(key, v) for key, v in fields if isinstance(key, str) and _ANSWER_KEY.match(key.strip())]
    exact = [(key, v) for key, v in answers if "answer" in key.lower() or "答案" in key]
    chosen = exact or answers or (fields if len(fields) == 1 else [])
    if not chosen:
        return text
    for _, v in chosen:
        if isinstance(v, bool):
            boxes.append("true" if v else "false")
        elif isinstance(v, (str, int, float)):
            boxes.append(str(v))
        elif isinstance(v, list):
            boxes.append(", ".join(str(item) for item in v))
        elif isinstance(v, dict):
            boxes.extend(str(item) for item in list(v.values())[:1])
    return text[:start] + "\n" + (text[end + 1 :] if end > start else "")
