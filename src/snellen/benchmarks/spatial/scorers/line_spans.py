"""Text between an opening and a closing mark on one line, found in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator


def line_spans(text: str, opening: re.Pattern[str], closing: str) -> Iterator[str]:
    """Yield what stands between each opening and the next closing mark, where no line break comes between the two.

    It yields what `opening(.*?)closing` finds, in order and without overlaps. A reply of openings alone is gone through once.
    """
    at, close, line_end = 0, -1, -1
    while (match := opening.search(text, at)) is not None:
        if close < match.end():
            close = text.find(closing, match.end())
            if close < 0:
                return
        if line_end < match.end():
            line_end = text.find("\n", match.end())
            line_end = len(text) if line_end < 0 else line_end
        if close < line_end:
            yield text[match.end() : close]
            at = close + len(closing)
        else:
            at = match.start() + 1
