"""The text of a web page as a reader sees it: no scripts, no styles, no markup. Pages are untrusted and nothing is run."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from snellen.errors import DataError

MOST_CHARACTERS = 2_000_000
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_HIDDEN = frozenset({"script", "style", "noscript", "template", "svg", "head"})
_SHOWN_IN_HEAD = frozenset({"title"})
_INLINE = frozenset({"a", "abbr", "b", "bdi", "code", "em", "font", "i", "mark", "q", "small", "span", "strong", "sub", "sup", "u"})  # fmt: skip


class _Reader(HTMLParser):
    """Collects text; what stands in hidden elements is left out, block elements end a line."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden: list[str] = []
        self.title = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SHOWN_IN_HEAD:
            self.title += 1
        elif tag in _HIDDEN:
            self.hidden.append(tag)
        if tag == "body":  # a head that nobody closed ends here
            self.hidden.clear()
        if tag not in _INLINE:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in _SHOWN_IN_HEAD:
            self.title = max(0, self.title - 1)
        elif tag in self.hidden:
            del self.hidden[self.hidden.index(tag) :]
        if tag not in _INLINE:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self.title or not self.hidden:
            self.parts.append(data)


def readable(body: bytes, content_type: str) -> str:
    """The text of an HTML or plain-text page, lines without blanks around them.

    Raises:
        DataError: it is of another kind (a PDF, a picture); the message names the kind.
    """
    kind, _, parameters = content_type.partition(";")
    kind = kind.strip().lower()
    if not kind:
        kind = "text/html" if b"<" in body[:1000] else "text/plain"
    if kind not in ("text/html", "application/xhtml+xml") and not kind.startswith("text/"):
        raise DataError(f"a page of type {kind} has no text that is read here", "Give a page of HTML or plain text.")
    text = _decoded(body, parameters)[:MOST_CHARACTERS]
    if kind in ("text/html", "application/xhtml+xml"):
        reader = _Reader()
        reader.feed(text)
        reader.close()
        text = "".join(reader.parts)
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _decoded(body: bytes, parameters: str) -> str:
    """By the header's charset, else that of a <meta>, else UTF-8; bytes that do not fit become a replacement mark."""
    said = re.search(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]+)", parameters, re.IGNORECASE)
    meta = _CHARSET.search(body[:4096])
    name = said[1] if said else meta[1].decode("ascii") if meta else "utf-8"
    try:
        return body.decode(name, "replace")
    except LookupError:
        return body.decode("utf-8", "replace")
