"""The value of a short LaTeX expression of numbers: what lmms-eval's comparison of STARE takes for equal."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from snellen.scoring.answers.base import ENGLISH_BELOW_HUNDRED

MAX_LENGTH = 200


_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)|(\\[a-zA-Z]+)|(.))", re.DOTALL)


_TIMES = ("*", "\\cdot", "\\times")


_OVER = ("/", "\\div")


_NOTHING = {"\\left": "", "\\right": "", "\\,": "", "\\!": "", "$": ""}


_CLOSES = {"(": ")", "[": "]", "{": "}"}


def latex_value(text: str) -> float | None:
    """Return the value of numbers joined by + - * / ^, fractions, roots, brackets and pi; None for anything else."""
    if len(text) > MAX_LENGTH:
        return None
    try:
        value = _Parser(text).whole()
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return value if isinstance(value, float) and math.isfinite(value) else None


class _Parser:
    """A parser by recursive descent; it raises ValueError at what is no such expression."""

    def __init__(self, text: str) -> None:
        tokens = [next(part for part in match.groups() if part) for match in _TOKEN.finditer(text.strip())]
        self.tokens = [token for token in tokens if token not in _NOTHING]
        self.at = 0

    def whole(self) -> float:
        value = self.sum()
        if self.at != len(self.tokens):
            raise ValueError("more stands behind it")
        return value

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise ValueError(f"{expected or 'a value'} was expected")
        self.at += 1
        return token

    def sum(self) -> float:
        sign = -1.0 if self.peek() == "-" else 1.0
        if self.peek() in ("+", "-"):
            self.take()
        value = sign * self.product()
        while self.peek() in ("+", "-"):
            value += self.product() if self.take() == "+" else -self.product()
        return value

    def product(self) -> float:
        value = self.power()
        while (token := self.peek()) and token not in ("+", "-", ")", "}", "]"):
            if token in _OVER:
                self.take()
                value /= self.power()
            else:
                if token in _TIMES:
                    self.take()
                value *= self.power()
        return value

    def power(self) -> float:
        base = self.value()
        if self.peek() == "^":
            self.take()
            return float(math.pow(base, self.value()))
        return base

    def value(self) -> float:
        part = self.take()
        if part in _CLOSES:
            value = self.sum()
            self.take(_CLOSES[part])
            return value
        if part in ("\\frac", "\\dfrac", "\\tfrac"):
            return self.value() / self.value()
        if part == "\\sqrt":
            root = 2.0
            if self.peek() == "[":
                self.take()
                root = self.sum()
                self.take("]")
            return float(math.pow(self.value(), 1 / root))
        return math.pi if part == "\\pi" else float(part)


_NUMBER_WORDS: Mapping[str, int] = {**ENGLISH_BELOW_HUNDRED, "hundred": 100, "thousand": 1000}


_MAX_WORDS = 40


def words_value(text: str) -> str | None:
    """Return the number that a text's number words come to, in digits; None where it has none."""
    words = [word for word in text.replace("-", " ").split()[:_MAX_WORDS] if word in _NUMBER_WORDS]
    total = current = 0
    for word in words:
        if word == "hundred":
            current = max(1, current) * 100
        elif word == "thousand":
            total, current = total + max(1, current) * 1000, 0
        else:
            current += _NUMBER_WORDS[word]
    return str(total + current) if words else None
