"""Languages of a table's questions: requests for the form of an answer, and what tells a language (prompt_languages.toml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from snellen.errors import UsageError
from snellen.toml_text import packaged_toml

AUTO, ENGLISH = "auto", "en"
OPTION = "prompt-language"
FEWEST = 0.6
"""The share of the questions that a language needs; below it English is taken."""
ALL, EVERY = 20_000, 8
"""Questions that are all looked at; of those behind them every eighth."""
_LONGEST = 2_000
"""Characters of a question that are looked at."""


class Language(Struct, frozen=True):
    """A language of prompts.

    Attributes:
        name: in English.
        hint: what stands before a hint.
        requests: what is asked for behind a question, by the kind of its answer; `yes/no` and `T/F` for truth values.
        truth: `yes`, `no`, `true`, `false` to the words for them.
        ask_for_text: how words begin that ask for free text.
        words: function words, between blanks.
        script: a class of characters that no other language of a lower place has.
    """

    name: str
    hint: str
    requests: Mapping[str, str]
    truth: Mapping[str, tuple[str, ...]]
    ask_for_text: tuple[str, ...]
    words: str = ""
    script: str = ""


@cache
def languages() -> Mapping[str, Language]:
    """Return every language by its code, English first."""
    import msgspec

    return msgspec.convert(packaged_toml("snellen.benchmarks.table", "prompt_languages.toml"), dict[str, Language])


@cache
def truth_words() -> Mapping[str, tuple[bool, str]]:
    """Return the words that are truth values in any language, in lower case, with the form of their questions.

    Some languages in which no question is worded here are among them.
    """
    forms = {"yes": (True, "yes/no"), "no": (False, "yes/no"), "true": (True, "T/F"), "false": (False, "T/F")}
    others = {"yes": "हाँ हां نعم evet tak có iya", "no": "नहीं لا hayır nie nee nej không tidak"}
    return {word: forms[name] for name, words in others.items() for word in words.split()} | {
        word: forms[name]
        for language in languages().values()
        for name, words in language.truth.items()
        for word in words
    }


@cache
def _votes() -> tuple[Mapping[str, tuple[str, ...]], re.Pattern[str], tuple[str, ...]]:
    """Return the languages of each function word, and a pattern with a group for each script and their languages."""
    by_word: dict[str, tuple[str, ...]] = {}
    scripts: dict[str, str] = {}
    for code, language in languages().items():
        for word in language.words.split():
            by_word[word] = (*by_word.get(word, ()), code)
        if language.script:
            scripts[code] = language.script
    return by_word, re.compile("|".join(f"({script})" for script in scripts.values())), tuple(scripts)


def language_of(text: str) -> str:
    """Return the code of the language in which most function words of a text are, or whose script it has; empty: unknown."""
    by_word, scripts, codes = _votes()
    words = text[:_LONGEST].lower().split()
    if not text.isascii():
        found = [codes[match.lastindex - 1] for match in scripts.finditer(text[:_LONGEST]) if match.lastindex]
        if 2 * len(found) > len(words):  # a Latin question may quote a foreign word
            return next(code for code in codes if code in found)
        words = [word.strip("¿¡«»") for word in words]
    votes: dict[str, int] = {}
    for word in words:
        for code in by_word.get(word, ()):
            votes[code] = votes.get(code, 0) + 1
    most = max(votes.values(), default=0)
    first, *others = [code for code, count in votes.items() if count == most] or [""]
    return "" if others else first


class LanguageVotes:
    """Languages of the questions of one table: all of the first ones, then every eighth."""

    def __init__(self) -> None:
        self._votes: dict[str, int] = {}
        self._rows = 0

    def add(self, question: str) -> None:
        """Count one question."""
        self._rows += 1
        if self._rows > ALL and self._rows % EVERY:
            return
        code = language_of(question)
        self._votes[code] = self._votes.get(code, 0) + 1

    def decided(self) -> str:
        """Return the language of most questions; English without a clear majority of those whose language is known."""
        known = {code: count for code, count in self._votes.items() if code}
        best = max(known, key=known.__getitem__, default=ENGLISH)
        return best if known.get(best, 0) >= FEWEST * sum(known.values()) else ENGLISH


def chosen_language(text: str) -> str:
    """Return the code that --prompt-language names, or `auto`. Raises UsageError for an unknown one."""
    code = text.strip().lower() or AUTO
    if code != AUTO and code not in languages():
        known = (AUTO, *languages())
        raise UsageError(f"--{OPTION} {text}: one of {', '.join(known)} was expected").near(code, known)
    return code


def asks_for_text(question: str) -> bool:
    """Return True for a question that asks to describe, explain or sum up, in any language."""
    return _text_cues().search(question.lower()) is not None


@cache
def _text_cues() -> re.Pattern[str]:
    cues = [cue for language in languages().values() for cue in language.ask_for_text]
    spaced = "|".join(re.escape(cue) for cue in cues if ord(cue[0]) < 0x3040)
    return re.compile(rf"\b(?:{spaced})|{'|'.join(re.escape(cue) for cue in cues if ord(cue[0]) >= 0x3040)}")
