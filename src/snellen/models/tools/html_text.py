"""Text, title, links and images of an HTML page, in one pass over bytes that nobody vouches for.

A scanner and not a parser: it never nests, never goes back and never looks for the same end mark twice, so its time
grows with the length of the page and with nothing else, whatever the page holds. selectolax 1.0 reads ordinary pages in
0.3 of the time, but its parser takes time by the square of the depth: a page of 500 kB of `<div>` takes more than 20 s,
here 0.15 s. It cannot be stopped while it parses, so this scanner stays.
"""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urldefrag, urljoin

from snellen.models.tools.base import Page

MAX_LINKS, MAX_IMAGES = 200, 100
LONGEST_TAG = 4096

_BLOCKS = frozenset(
    (
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption"),
        *("figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav", "ol"),
        *("option", "p", "pre", "section", "table", "td", "th", "title", "tr", "ul"),
    )
)
_UNSEEN = ("script", "style", "noscript", "template", "svg", "iframe", "textarea")
_NAME = re.compile(r"/?[a-zA-Z][a-zA-Z0-9-]*")
_CLOSING = {tag: re.compile(f"</{tag}", re.IGNORECASE) for tag in _UNSEEN}
# A name is looked for where one can begin, and the alternatives exclude each other at their first character, so there
# is nothing to go back to.
_ATTRIBUTE = re.compile(r"""(?<![\w:.-])([a-zA-Z_:][\w:.-]*)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_CHARSET = re.compile(rb"""charset\s{0,8}=\s{0,8}["']?([\w.:-]{1,40})""", re.IGNORECASE)


def decoded(data: bytes, charset: str | None) -> str:
    """Return bytes of a page as text: by the server's charset, else the page's own, else UTF-8; what does not fit becomes U+FFFD."""
    names = [charset] if charset else []
    if not names and (match := _CHARSET.search(data[:4096])):
        names.append(match[1].decode("ascii"))
    for name in names:
        try:
            return data.decode(name, "replace")
        except (LookupError, UnicodeError, ValueError):
            continue
    return data.decode("utf-8", "replace")


def read_page(html: str, url: str) -> Page:
    """Return the page as a reader sees it.

    Args:
        html: the whole page, or the beginning of one.
        url: where it lies; addresses in it are made whole with it. A canonical address in it is not believed.
    """
    pieces: list[str] = []
    links: dict[str, str] = {}
    images: dict[str, str] = {}
    title: list[str] = []
    in_title = False
    link: tuple[str, int] | None = None
    at = 0
    while at < len(html):
        start = html.find("<", at)
        text = unescape(html[at : start if start >= 0 else len(html)])
        (title if in_title else pieces).append(text)
        if start < 0:
            break
        if html.startswith("<!--", start):
            end = html.find("-->", start + 4)
            if end < 0:
                break  # a browser hides the rest as well
            at = end + 3
            continue
        if html.startswith(("<!", "<?"), start):
            end = html.find(">", start)
            if end < 0:
                break
            at = end + 1
            continue
        name = _NAME.match(html, start + 1, start + 33)
        if name is None:
            (title if in_title else pieces).append("<")
            at = start + 1
            continue
        tag = name[0].lower()
        end = html.find(">", name.end())
        if end < 0:
            break
        at = end + 1
        if tag in _UNSEEN:
            close = _CLOSING[tag].search(html, at)
            if close is None:
                break
            at = close.start()
        elif tag == "title":
            in_title = not title
        elif tag == "/title":
            in_title = False
        elif tag == "a" and len(links) < MAX_LINKS:
            href = _attributes(html, name.end(), end).get("href", "")
            link = (href, len(pieces)) if href else None
        elif tag == "/a" and link is not None:
            target = _absolute(url, link[0])
            if target:
                links.setdefault(target, " ".join("".join(pieces[link[1] :]).split())[:120])
            link = None
        elif tag == "img" and len(images) < MAX_IMAGES:
            attributes = _attributes(html, name.end(), end)
            source = _absolute(url, attributes.get("src") or attributes.get("data-src", ""))
            if source:
                images.setdefault(source, " ".join(attributes.get("alt", "").split())[:200])
        if tag.lstrip("/") in _BLOCKS:
            pieces.append("\n")
    heading = " ".join("".join(title).split())[:300]
    return Page(url, heading, tidy("".join(pieces)), tuple(links.items()), tuple(images.items()))


def tidy(text: str) -> str:
    """Return text without runs of spaces and empty lines."""
    lines = (" ".join(line.split()) for line in text.splitlines())
    return "\n".join(line for line in lines if line)


def _attributes(html: str, start: int, end: int) -> dict[str, str]:
    matches = _ATTRIBUTE.findall(html[start : min(end, start + LONGEST_TAG)])
    return {name.lower(): unescape(double or single or bare) for name, double, single, bare in reversed(matches)}


def _absolute(base: str, address: str) -> str:
    """Return an absolute http(s) address, or nothing."""
    address = address.strip()
    if not address or len(address) > 2000:
        return ""
    try:
        absolute = urldefrag(urljoin(base, address)).url
    except ValueError:
        return ""
    return absolute if absolute.startswith(("http://", "https://")) else ""
