"""Scorers of acuity: right, wrong, or an abstention, which is neither."""

from __future__ import annotations

import re

from snellen.scoring.extract import correct, read
from snellen.types import Sample, Score, Text


def strict(sample: Sample, reply: str) -> Score:
    """Return the option, number or word that the reply names; a reply that names none, or two, is an abstention."""
    question = sample.prompt.parts[-1]
    assert isinstance(question, Text)  # noqa: S101 - every question of acuity ends with its text
    if sample.kind == "short":
        return _letters(sample, reply)
    form = str(sample.meta["form"]) if sample.kind == "truth" else None
    reading = read(sample.kind, reply, question=question.text, options=sample.options, form=form)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    target = int(sample.target) if sample.kind == "count" else sample.target
    right = correct(sample.kind, reading.value, target)
    detail = {"option": _option(reading.value)} if sample.kind in ("choice", "choice_text", "truth") else {}
    return Score(float(right), reading.value, "correct" if right else "wrong", reading.reason, detail)


def _option(value: object) -> str:
    """Return the letter or word of the option that was chosen."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _letters(sample: Sample, reply: str) -> Score:
    """Return the last run of five capitals of a reply, with or without spaces between them."""
    runs = re.findall(r"\b[A-Z](?:[ ,-]{0,2}[A-Z]){4}\b", reply.upper() if reply.strip().isalpha() else reply)
    if not runs:
        return Score(0.0, None, "invalid", "no five letters in the reply")
    word = re.sub("[^A-Z]", "", runs[-1])
    right = word == sample.target
    return Score(float(right), word, "correct" if right else "wrong")
