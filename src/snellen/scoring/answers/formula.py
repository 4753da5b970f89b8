"""Formulas in LaTeX: compared as written, then by math-verify in a process of its own where that is installed (`snellen[math]`)."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from contextlib import suppress
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import NamedTuple

from snellen.scoring.answering_process import AnsweringProcess
from snellen.scoring.answers.base import WORDS, AnswerType
from snellen.text import terms

MOST_CHARACTERS = 400
SECONDS, STARTING_SECONDS = 5.0, 60.0
"""Maximum time to compare two formulas, and to import sympy first; longer, and they count as written."""
MEMORY = 4 << 30
"""Maximum memory of the process that compares them."""
_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\S")
_DROPPED, _PAIRS = terms(WORDS["only_typesetting"]), WORDS["typeset_alike"].split()
_ALIKE = dict(zip(_PAIRS[::2], _PAIRS[1::2], strict=True))
_ROOT = re.compile(r"√\s?(\d+|[^\W\d_]|\([^()]{1,40}\))")
_SCRIPTS = {"<super>": "^", "<sub>": "_"}
_WORDS = re.compile(
    r"(?<![\\A-Za-z])[A-Za-z]{3,}[,.]?\s+[A-Za-z]{3,}|[\u0400-\u1eff]{3,}[,.]?\s+[\u0400-\u1eff]{3,}|[\u3040-\ud7ff]{3}"
)
"""Words of a sentence: two of Latin, Cyrillic, Arabic and the like, or three letters of a script without blanks."""
_TEXT = re.compile(r"\\(?:text|mathrm|operatorname)\s?\{[^{}]{0,80}\}")


class Expression(NamedTuple):
    """A formula as written, and its tokens without what only sets the type."""

    tokens: tuple[str, ...]
    latex: str


class Formula(AnswerType):
    """A formula in LaTeX or plain signs, the same as one that is typeset alike or that math-verify, where installed, finds equal."""

    kind = "formula"
    expected = r"a formula, such as `\frac{x+1}{2}`"

    def parse(self, text: str) -> Expression | None:
        """Return the formula that a text is; None for words."""
        bare = _TEXT.sub(" ", text)
        if len(text) > MOST_CHARACTERS or _WORDS.search(bare):
            return None
        text = unicodedata.normalize("NFC", text).strip().strip("$").strip()
        tokens = _tokens(text.rstrip("."))
        return Expression(tokens, text) if tokens else None

    def same(self, value: Expression, gold: Expression) -> bool:
        if value.tokens == gold.tokens or not has_math_verify():
            return value.tokens == gold.tokens
        return _equal(*(_ROOT.sub(r"\\sqrt{\1}", one.latex) for one in (gold, value)))

    def show(self, value: Expression) -> str:
        return value.latex


def _tokens(text: str) -> tuple[str, ...]:
    """Return the tokens of a formula: commands, numbers and signs, without braces around a single one."""
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        sign = _ALIKE.get(match.group(), match.group())
        if sign in _DROPPED:
            continue
        script = unicodedata.decomposition(sign).split(" ")[0] if len(sign) == 1 else ""
        if script in _SCRIPTS:
            tokens += [_SCRIPTS[script], unicodedata.normalize("NFKC", sign)]
        elif sign == r"^\circ":
            tokens += ["^", r"\circ"]
        elif sign == "*" and tokens[-1:] == ["*"]:
            tokens[-1] = "^"
        elif sign == "}" and tokens[-2:-1] == ["{"]:
            tokens[-2:] = tokens[-1:]
        elif sign.isdigit() and tokens[-1:] == [r"\frac"] and len(sign) == 2:
            tokens += sign
        else:
            tokens.append(sign)
    return tuple(tokens)


@cache
def has_math_verify() -> bool:
    """Return True if formulas can be compared by their meaning."""
    return find_spec("math_verify") is not None


_process = AnsweringProcess(("-P", "-m", __name__), SECONDS, STARTING_SECONDS)


@lru_cache(maxsize=4_096)
def _equal(gold: str, latex: str) -> bool:
    """Return math-verify's verdict; False if it gives none in time."""
    return _process.ask(json.dumps([gold, latex])) == "true"


def _serve() -> None:
    """Answer pairs of formulas from the standard input, one a line, until it ends."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    with suppress(ImportError):  # Windows has no limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    configs = [LatexExtractionConfig(), ExprExtractionConfig()]
    print("ready", flush=True)
    for line in sys.stdin:
        pair = [parse(f"${text}$", extraction_config=configs, parsing_timeout=None) for text in json.loads(line)]
        print("true" if all(pair) and verify(*pair, timeout_seconds=None) else "false", flush=True)


if __name__ == "__main__":
    _serve()
