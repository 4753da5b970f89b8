"""A reply as it is read: what is said outside of thinking, without markup, each character with its place in the reply.

Everything here is linear in the length of the reply; tests check that on adversarial megabytes.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from snellen.scoring.answers.dress import undressed_span
from snellen.scoring.answers.fold import without_marks
from snellen.text import terms
from snellen.types import NOWHERE, THINKING_ALONE

SEARCHED = 1_000_000
"""Characters searched for thinking and answer containers: the first `HEAD` and the last of a longer reply."""
LONGEST = 50_000
"""Maximum characters read outside of thinking: the first `HEAD` and the last."""
HEAD = 4_000
MOST_CONTAINERS = 20
"""Answer containers that are read: the last ones."""
_LONGEST_BOX = 4_000

Span = tuple[int, int]
_THOUGHTS = terms("think thinking thought thoughts reason reasoning reflection analysis scratchpad seed:think cot")
_THINK_TAG = re.compile(
    r"[<\[◁](?P<close>/)?\s?(?P<name>[a-z:_]{3,13})\s?[>\]▷]"
    r"|<\|(?P<close2>end_of_|/)?(?:begin_of_)?(?P<name2>[a-z:]{3,10})\|>",
    re.IGNORECASE,
)
_CALLS = terms("tool_call tool_calls function_call tool_response")
_CHANNEL = re.compile(r"<\|channel\|>\s{0,3}(\w+)[^<]{0,80}<\|message\|>")
_ANSWERS = terms("answer ans final solution response output result prediction conclusion choice box")
_ANSWER_TAG = re.compile(
    r"<\s?(?P<close>/)?\s?(?:final[_ -]?)?(?P<name>[a-z]{3,10})\s?>|<\|(?:begin|start|(?P<end>end))_of_(?P<name2>[a-z]{3,8})\|>",
    re.IGNORECASE,
)
_BOXED = re.compile(r"\\?\b(?:boxed|fbox)\s?\{")
_BRACE = re.compile("[{}]")
_HASHES = re.compile(r"^[ \t]*####[ \t]+(?=\S)", re.MULTILINE)
_FIELD = re.compile(
    r"[\"'](?P<key>[^\"'\n]{1,40})[\"']\s{0,3}:\s{0,3}"
    r"(?P<value>\"(?:[^\"\n\\]|\\.){0,400}\"?|'[^'\n]{0,400}'?|\[[^\[\]{}]{0,400}\]|[^,}\n\]\[{]{1,60})"
)
_KEY_PARTS = terms("the my final correct predicted best model selected chosen text letter value")
_KEYS_AS_WRITTEN = terms(
    "answer answers ans choice option letter prediction result response output 答案 结果 选项 antwort respuesta réponse resposta risposta ответ "
    "正解 回答 정답 답"
)
_KEYS = frozenset(map(without_marks, _KEYS_AS_WRITTEN))
_MARKS = {
    "frac": r"\\[dt]?frac\s?\{(?P<above>[^{}]{1,60})\}\s?\{(?P<below>[^{}]{1,60})\}",
    "word": r"\\(?:boxed|fbox|text|math|operator|bold|emph|under|[mh]box|left|right|display|q?quad|[lL]arge|bf|rm)[a-z]*\*?",
    "command": r"\^\{ ?\\circ ?\}|\^?\\circ(?![a-z])|\\[a-zA-Z]+|\\[^a-zA-Z\s]|\\ ",
    "line": r"<(?:br|/p|/li|/div|/h\d|/tr)\s?/?>",
    "tag": r"</?[a-zA-Z][^<>\n]{0,80}>|<\|[^|<>\n]{1,40}\|>",
    "fence": r"^[ \t]*(?:```|~~~)[\w+-]*[ \t]*$",
    "start": r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]+|[•●▪◦‣·➢➤→✦*+-][ \t]+)",
    "emphasis": r"(?<!\*)(?:(?<!\d)\*+|\*+(?![\d*]))|__+|~~+|`+|[{}|]|(?<![A-Za-z0-9])_(?=[^\s_])|(?<=[^\s_])_(?![A-Za-z0-9])",
    "math": r"\$+(?!\d|(?<=[A-Z]\$) \d|(?<!\S\$) \d(?:[^$\n]|(?<!\S)\$ ?\d){0,200}(?:\n|\Z))|\$(?=\d[^$\n]{0,60}[\\^{=][^$\n]{0,60}\$|\d[\d.,]{0,12}\$(?!\d))",
    "invisible": r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe0f\ufeff]",
}
"""Signs that are markup: most are dropped, some stand for another sign or a line end."""
_MARK = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _MARKS.items()), re.MULTILINE)
_MAY_MARK = "*_`#<>|~\\${}[◁•●▪◦‣·➢➤→✦\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufe0f\ufeff"
_MAY_START = ("\n- ", "\n+ ", "\n  - ", "Question", "Q:", "User", "Human", "Frage", "Pregunta", "问题")
_SIGN_OF = {
    "times": "×", "cdot": "×", "approx": "≈", "sim": "≈", "div": "÷", "pm": "±", "circ": "°", "degree": "°", "neq": "≠",
    "ne": "≠", "leq": "≤", "geq": "≥", "le": "≤", "ge": "≥", "lt": "<", "gt": ">", "%": "%", "$": "$", "#": "#", "&": "&",
    "_": "_", "pi": "π", "alpha": "α", "beta": "β", "gamma": "γ", "theta": "θ", "mu": "μ", "rho": "ρ", "omega": "ω", "Omega": "Ω", "Delta": "Δ", "infty": "∞", "sqrt": "√", "*": "*",
}  # fmt: skip


_NEXT_QUESTION = re.compile(r"(?:\n\s{0,4}(?:Question|User|Human|问题|Frage|Pregunta)|\sQ)\s?[:：](?=\s|$)")
_TAG_BEFORE = re.compile(r"<([a-zA-Z]{1,10})(?:\s[^<>]{0,80})?>$")
_COMMAND = re.compile(r"\\[a-zA-Z]{1,12}")
_COMMAND_END = re.compile(r"\$?\\[a-zA-Z]{2,12}$")
_MAY_BE_MARKUP = frozenset('*_`~$}{|"\\„“”「」')


class _Plain(dict[int, str]):
    """A translation table, filled on demand, from full-width and styled characters to plain ones, one to one."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        plain = char
        if category == "Cc" and char not in "\n\t":
            plain = "\n" if char == "\r" else " "
        elif category == "Zs":
            plain = " "
        elif category in ("Zl", "Zp"):
            plain = "\n"
        elif code >= 0x2100 and not 0x3040 <= code < 0xFB00 and (wide := unicodedata.normalize("NFKC", char)) != char:
            plain = wide if len(wide) == 1 else char
        if len(self) < 20_000:
            self[code] = plain
        return plain


_SIGNS = {"'": "‘’‚‛′ʼ´＇", '"': "“”„‟″«»「」『』《》〈〉＂", "-": "‐‑‒–−﹣－", ",": "、", "[": "【〔", "]": "】〕"}
_PLAIN = _Plain({ord(sign): plain for plain, signs in _SIGNS.items() for sign in signs})


class Visible(NamedTuple):
    """What is said in a reply.

    Attributes:
        text: plain text without thinking and markup.
        containers: spans of the reply that hold a marked answer: tags, boxes, `####`, JSON fields.
        whole: the span of the reply in which all of it is said; None of a tail, and where thinking stands in between.
        offset: characters of the plain text before `text`.
        unfinished: the reply broke off while thinking, so that nothing was said.
        omitted: characters of a very long reply that were not read.
    """

    reply: str
    text: str
    containers: tuple[Span, ...]
    unfinished: bool
    omitted: int
    starts: Sequence[int]
    origins: Sequence[int]
    whole: Span | None
    offset: int = 0

    def place(self, start: int, end: int) -> Span:
        """Return the span of the reply of a span of `text`."""
        start, end = start + self.offset, end + self.offset
        if start >= end:
            at = self._origin(start)
            return at, at
        return self._origin(start), self._origin(end - 1) + 1

    def tail(self, at: int) -> Visible:
        """Return what is said from a character of `text` on."""
        place = self._origin(at + self.offset)
        after = tuple(span for span in self.containers if span[0] >= place)
        return self._replace(text=self.text[at:], offset=self.offset + at, containers=after, whole=None)

    def _origin(self, at: int) -> int:
        piece = bisect_right(self.starts, at) - 1
        return self.origins[piece] + at - self.starts[piece] if piece >= 0 else at

    def text_place(self, place: int) -> int:
        """Return the character of `text` at a place of the reply, or the next one."""
        piece = bisect_right(self.origins, place) - 1
        return max(0, self.starts[piece] + place - self.origins[piece] - self.offset) if piece >= 0 else 0

    def written(self, start: int, end: int) -> Span:
        """Return the span of the reply of a span of `text`, with the signs around it that may be markup or its own.

        Of marks that were opened in front of it on the same line none is taken.
        """
        while start < end and self.text[end - 1].isspace():
            end -= 1
        low, high = self.place(start, end)
        reply = self.reply
        if low < high and (command := _COMMAND.match(reply, high - 1)) is not None:
            high = command.end()
        while high < len(reply) and reply[high] in _MAY_BE_MARKUP:
            high += 1
        if (tag := _TAG_BEFORE.search(reply, max(0, low - 90), low)) and f"</{tag[1]}" in reply[low:high]:
            low = tag.start()
        while low and reply[low - 1] in _MAY_BE_MARKUP:
            low -= 1
        if command := _COMMAND_END.search(reply, max(0, low - 20), low):
            low = command.start()
        opened = reply[max(reply.rfind("\n", 0, low) + 1, low - 400) : low]
        for mark in ("**", "__", "`", "*", "_"):
            if opened.count(mark) % 2 and reply.startswith(mark, low, high):
                return low + len(mark), high
            if opened.count(mark) % 2 and reply.endswith(mark, low, high):
                return low, high - len(mark)
        return low, high


def plain(text: str) -> str:
    """Normalise typography, one character for one: full-width and styled letters, quotes, dashes, blanks."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_PLAIN)


@lru_cache(maxsize=16)
def visible(reply: str, calls: bool = True) -> Visible:
    """Take a reply apart; `calls` says whether calls of tools are said. Never raises."""
    omitted, windows = 0, [(0, len(reply))]
    if len(reply) > SEARCHED:
        windows = [(0, HEAD), (len(reply) - SEARCHED + HEAD, len(reply))]
    if _is_bare(reply):
        return Visible(reply, plain(reply), (), False, 0, (0,), (0,), (0, len(reply)))
    spans, unfinished = _spoken(reply, windows, () if calls else _CALLS)
    spans = _before_next_question(reply, spans)
    containers = () if unfinished else tuple(_containers(reply, spans))
    length = sum(end - start for start, end in spans)
    if length > LONGEST:
        omitted = length - LONGEST
        spans = [*_cut(spans, HEAD), *_cut(spans, HEAD - LONGEST)]
    parts, starts, origins = [], [], []
    at = 0
    for piece, origin in _pieces(reply, spans):
        parts.append(piece)
        starts.append(at)
        origins.append(origin)
        at += len(piece)
    whole = spans[0] if len(spans) == 1 else None
    return Visible(reply, plain("".join(parts)), containers, unfinished, omitted, starts, origins, whole)


_TAG_WITH_NUMBER = re.compile(r"<(?!\|)[^<>\n]{0,80}\d[^<>\n]{0,80}>")


def silence(reply: str) -> str:
    """Return where the text of a reply stands that says nothing: THINKING_ALONE or NOWHERE; "" for one that says something."""
    if reply[:1].isalnum() and _THINK_TAG.search(reply) is None and _CHANNEL.search(reply) is None:
        return ""  # at a hundredth of the time that reading takes
    said = visible(reply)
    if not said.unfinished and (said.text.strip() or said.containers):
        return ""
    spoken = "" if said.unfinished else "".join(reply[slice(*span)] for span in outside_thinking(reply)[:9])
    if _TAG_WITH_NUMBER.search(spoken):
        return ""  # `<loc0500>`: tags are all of an answer with coordinates
    return THINKING_ALONE if any(char.isalnum() for char in _THINK_TAG.sub("", reply[:HEAD])) else NOWHERE


def _is_money(reply: str, mark: re.Match[str]) -> bool:
    """Return True for a sign of dollars behind a number, where no formula is on its line."""
    low = max(reply.rfind("\n", 0, mark.start()) + 1, mark.start() - 400)
    high = reply.find("\n", mark.start(), mark.start() + 400)
    line = reply[low : high if high >= 0 else mark.start() + 400]
    return line.count("$") == 1 and reply[low : mark.start()].rstrip()[-1:].isdigit()


def _is_bare(reply: str) -> bool:
    """Return True for a reply without any sign of markup, thinking or a next question."""
    if len(reply) > LONGEST or reply[:2] in ("- ", "+ ") or any(mark in reply for mark in _MAY_START):
        return False
    signs = _MAY_MARK[:13] if reply.isascii() else _MAY_MARK
    return not any(sign in reply for sign in signs)


def _before_next_question(reply: str, spans: list[Span]) -> list[Span]:
    """Return the spans before a question that the model put to itself: base models go on with the next example."""
    if ":" not in reply and "：" not in reply:
        return spans
    for at, (start, end) in enumerate(spans):
        for mark in _NEXT_QUESTION.finditer(reply, start, end):
            if reply[start : mark.start()].strip() or at:
                return [*spans[:at], (start, mark.start())]
    return spans


def _cut(spans: Sequence[Span], length: int) -> list[Span]:
    """Return the first (or, of a negative length, the last) characters of spans."""
    left, chosen = abs(length), []
    for start, end in spans if length > 0 else reversed(spans):
        take = min(left, end - start)
        if take:
            chosen.append((start, start + take) if length > 0 else (end - take, end))
        left -= take
    return chosen if length > 0 else chosen[::-1]


def _spoken(reply: str, windows: Sequence[Span], also: Collection[str] = ()) -> tuple[list[Span], bool]:
    """Return the spans outside of thinking and of `also` other tags; True with no span if the reply ended inside of it."""
    spans: list[Span] = []
    inside = False
    for low, high in windows:
        channels = list(_CHANNEL.finditer(reply, low, high))
        if channels:
            last = channels[-1]
            if last[1].lower() != "final":
                return [], True
            spans, inside, low = [], False, last.end()
        at = low
        for tag in _THINK_TAG.finditer(reply, low, high):
            name = (tag["name"] or tag["name2"]).lower()
            if name not in _THOUGHTS and name not in also:
                continue
            if tag["close"] or tag["close2"]:
                if not inside and name in _THOUGHTS:
                    spans.clear()  # only the closing tag was written: all before it was thought
                inside, at = False, tag.end()
            elif not inside:
                spans.append((at, tag.start()))
                inside = True
        if not inside:
            spans.append((at, high))
    spans = [span for span in spans if reply[slice(*span)].strip()]
    return spans, not spans and bool(reply.strip())


def holds_calls(reply: str) -> bool:
    """Return True for a reply with a tag of a call of tools."""
    return "<" in reply and any(f"<{name}>" in reply for name in _CALLS)


def holds_thinking(reply: str) -> bool:
    """Return True for a reply with a tag of thinking."""
    return "<" in reply and _THINK_TAG.search(reply) is not None


def outside_thinking(reply: str) -> list[Span]:
    """Return start and end of each part of a reply outside of thinking; all of it if nothing else was written."""
    return _spoken(reply, [(0, len(reply))])[0] or [(0, len(reply))]


def _containers(reply: str, spans: Sequence[Span]) -> list[Span]:
    """Return the spans of marked answers; a tag that holds a box is that box."""
    found: list[Span] = []
    for start, end in spans:
        found += _tagged(reply, start, end)
    found = found[-MOST_CONTAINERS:]
    for start, end in spans:
        boxes = list(_boxed(reply, start, end))[-MOST_CONTAINERS:]
        found = [span for span in found if not any(span[0] <= box[0] and box[1] <= span[1] for box in boxes)] + boxes
    if not found:
        found = [
            (match.end(), _line_end(reply, match.end(), end))
            for start, end in spans
            for match in _HASHES.finditer(reply, start, end)
        ][-MOST_CONTAINERS:]
    fields = [
        span
        for start, end in (found or spans)
        if reply.find("{", start, end) >= 0
        for span in _fields(reply, start, end)
    ][-MOST_CONTAINERS:]
    if fields:
        found = [
            span for span in found if not any(span[0] <= field[0] and field[1] <= span[1] for field in fields)
        ] + fields
    found = [undressed_span(reply, *span) for span in sorted(found)[-MOST_CONTAINERS:]]
    return [span for span in found if span[0] < span[1]]


def _line_end(reply: str, start: int, end: int) -> int:
    at = reply.find("\n", start, end)
    return end if at < 0 else at


def _tagged(reply: str, start: int, end: int) -> Iterator[Span]:
    opened = -1
    for tag in _ANSWER_TAG.finditer(reply, start, end):
        if (tag["name"] or tag["name2"]).lower() not in _ANSWERS:
            continue
        if not (tag["close"] or tag["end"]):
            opened = tag.end()
        elif opened >= 0:
            yield opened, tag.start()
            opened = -1
    if opened >= 0:
        yield opened, end


def _boxed(reply: str, start: int, end: int) -> Iterator[Span]:
    """Yield the contents of each `\\boxed{…}`; one that is all that is said holds all up to the last brace."""
    at = start
    for opening in _BOXED.finditer(reply, start, end):
        if opening.start() < at:
            continue
        depth, close, at = 1, min(end, opening.end() + _LONGEST_BOX), min(end, opening.end() + _LONGEST_BOX)
        for brace in _BRACE.finditer(reply, opening.end(), at):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                close, at = brace.span()
                break
        yield opening.end(), close


def _fields(reply: str, start: int, end: int) -> list[Span]:
    """Return the spans of the answer fields of a JSON object, whole or cut off; of a tool's arguments the only one is no answer."""
    first = reply.find("{", start, end)
    fields = list(_FIELD.finditer(reply, first, min(end, first + 20_000)))
    answers = [field for field in fields if _is_answer_key(field["key"])]
    exact = [field for field in answers if "answer" in field["key"].lower() or "答案" in field["key"]]
    is_alone = len(fields) == 1 and not holds_calls(reply[start:first])
    chosen = exact or answers or (fields if is_alone else [])
    return [_unquoted(reply, *field.span("value")) for field in chosen]


def _is_answer_key(key: str) -> bool:
    """Return True for the name of a field that holds an answer: `answer`, `final_answer`, `answer text`."""
    parts = re.split(r"[_\s-]", without_marks(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip()).lower()))
    return not _KEYS.isdisjoint(parts) and all(part in _KEYS or part in _KEY_PARTS for part in parts if part)


def json_fields(reply: str) -> Iterator[re.Match[str]]:
    """Yield the fields of the JSON in a reply, with groups `key` and `value`."""
    first = reply.find("{")
    return _FIELD.finditer(reply, first) if first >= 0 else iter(())


def text_at(reply: str, start: int, end: int) -> str:
    """Return the text of a span, of a JSON string without its escapes; commands of formulas (`\\frac`, `\\neq`) are none."""
    text = reply[start:end]
    is_string = "\\" in text and _STRING_BEFORE.search(reply, max(0, start - 8), start) is not None
    return (
        _ESCAPES.sub(lambda match: str(json.loads(f'"{match[0]}"', strict=False)).replace("\n", " "), text)
        if is_string
        else text
    )


_STRING_BEFORE = re.compile(r"[:,\[{]\s{0,6}\"$")
_ESCAPES = re.compile(
    r"\\[\"\\/]|\\n(?!(?:u|eq?|abla|ot|i|mid)\b)|(?:\\u(?:[0-9a-ce-f][0-9a-f]{3}|d[0-7][0-9a-f]{2}|d[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}))+",
    re.IGNORECASE,
)


def _unquoted(reply: str, start: int, end: int) -> Span:
    while end > start and reply[end - 1].isspace():
        end -= 1
    if end - start > 1 and reply[start] in "\"'":
        return start + 1, end - 1 if reply[end - 1] == reply[start] else end
    return start, end


def _bracketed(mark: re.Match[str], part: str) -> Iterator[tuple[str, int]]:
    """Yield a part of a fraction without blanks, in brackets where it is more than a number or a name: `(1+x)/2`."""
    if (one := re.fullmatch(r"\s*([-+−]?)\s?(\w+)\s*", mark[part])) is None:
        yield f"({mark[part]})", mark.start(part) - 1
        return
    for group in (1, 2):
        yield one[group], mark.start(part) + one.start(group)


def _pieces(reply: str, spans: Sequence[Span]) -> Iterator[tuple[str, int]]:
    """Yield the pieces of plain text in order, each with its place in the reply."""
    for index, (start, end) in enumerate(spans):
        if index:
            yield "\n", start
        at = start
        for mark in _MARK.finditer(reply, start, end):
            if mark.start() > at:
                yield reply[at : mark.start()], at
            at = mark.end()
            kind = mark.lastgroup
            if kind == "below" or mark["frac"] is not None:
                yield from _bracketed(mark, "above")
                yield "/", mark.end("above")
                yield from _bracketed(mark, "below")
            elif kind == "command":
                name = mark[0].strip("^{ }")[1:] if "circ" in mark[0] else mark[0][1:]
                known = _SIGN_OF.get(name, "\n" if name in ("\\", "[", "]") else " " if name in "(), ;:! " else "")
                yield known or name, mark.start() + (not known)
            elif kind in ("line", "fence"):
                yield "\n", mark.start()
            elif kind == "tag":
                yield " ", mark.start()
            elif kind == "math" and _is_money(reply, mark):
                yield mark[0], mark.start()
            elif mark[0] == "|":
                yield "|", mark.start()
        if at < end:
            yield reply[at:end], at
