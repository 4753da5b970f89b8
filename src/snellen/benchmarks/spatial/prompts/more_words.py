"""The wording of the further benchmarks: `more.toml`, by benchmark and form, and files of a user's own.

A user's file is TOML: `prompting` says which form its texts replace, and then there is a table a benchmark with some of the
fields of `FormWords`; what it does not have stays.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from snellen.benchmarks.spatial.prompts.wordings import LONGEST_FILE
from snellen.benchmarks.spatial.tasks import Task
from snellen.errors import DataError, UsageError
from snellen.toml_text import parse_toml

LAYOUTS = ("front", "marks", "between", "positions", "numbered", "around", "text-first", "time-first")
SHORT_NAMES = {"cot": "vlmevalkit-cot", "direct": "vlmevalkit", "visual-first": "vlmevalkit-visual-first"}
SAME_WORDS = {"spbench/mv": "spbench/si"}
_QUESTION = re.compile(r"\{(?:question|stripped|marked|asked|prompt|object)\}")
_HINT = "docs/spatial-more.md says what such a file holds."


class FormWords(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of one benchmark in one form.

    Attributes:
        text: the template of a question.
        number, open, short: that of questions of these kinds, where they differ.
        layout: one of LAYOUTS, the order of texts and images.
        before, after_image: texts in front of the images and right behind them, as parts of their own.
        opening: what {opening} stands for.
        time, unknown_time: what {time} stands for, and what where the clip's rate is not known.
        option: how an option is written that the row does not write itself.
        max_tokens, max_tokens_open: new tokens that a reply may have, and that of an open question; 0 leaves it to the model.
        temperature: as the harness asks for it; None leaves it to the model.
    """

    text: str
    number: str = ""
    open: str = ""
    short: str = ""
    layout: str = "front"
    before: str = ""
    after_image: str = ""
    opening: str = ""
    time: str = ""
    unknown_time: str = ""
    option: str = "{letter}. {text}"
    max_tokens: int = 0
    max_tokens_open: int = 0
    temperature: float | None = None


def forms(task: Task) -> tuple[str, ...]:
    """Return the forms of a benchmark; the first is the default."""
    return tuple(_own()[SAME_WORDS.get(task.name, task.name)])


def words_of(task: Task, prompting: str | None, file: Path | None) -> tuple[str, FormWords]:
    """Return the form and its words: of the package, or with a user's file over them.

    Raises:
        UsageError: the benchmark has no such form.
        DataError: the file cannot be used, or is for another form or other benchmarks.
    """
    form = SHORT_NAMES.get(prompting or "", prompting)
    known = forms(task)
    if form is not None and form not in known:
        raise UsageError(f"prompting={prompting!r}: {task.name} has no such form", f"One of these: {', '.join(known)}.")
    own: Mapping[str, FormWords] = _own()[SAME_WORDS.get(task.name, task.name)]
    if file is None:
        return form or known[0], own[form or known[0]]
    of_file, tables = _of_user(file)
    if of_file not in known or form not in (None, of_file):
        expected = form or " or ".join(known)
        raise DataError(f"prompts={file} has words for prompting={of_file!r}; {expected} was expected", _HINT)
    for name in (task.name, SAME_WORDS.get(task.name, task.name)):
        if name in tables:
            fields = {**msgspec.structs.asdict(own[of_file]), **tables[name]}
            return of_file, _checked(fields, f"{file}: {name}")
    raise DataError(f"{file}: it has no words for {task.name}; it has {', '.join(tables) or 'none at all'}", _HINT)


@cache
def _own() -> dict[str, dict[str, FormWords]]:
    text = files(__package__).joinpath("more.toml").read_text("utf-8")
    tables: dict[str, dict[str, Any]] = tomllib.loads(text)
    return {
        name: {form: _checked(fields, f"more.toml: {name}.{form}") for form, fields in of_form.items()}
        for name, of_form in tables.items()
    }


def _of_user(path: Path) -> tuple[str, dict[str, dict[str, Any]]]:
    try:
        with path.open("rb") as stream:
            raw = stream.read(LONGEST_FILE + 1)
        document = parse_toml(raw.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"prompts={path}: cannot be read: {error}", _HINT) from error
    if len(raw) > LONGEST_FILE:
        raise DataError(f"prompts={path}: more than {LONGEST_FILE:,} bytes, the limit for prompt files", _HINT)
    form = document.pop("prompting", None)
    wrong = [name for name, table in document.items() if not isinstance(table, dict)]
    if not isinstance(form, str) or wrong:
        fault = f"{wrong[0]!r} is no table" if wrong else f"prompting is {form!r}; the name of a form was expected"
        raise DataError(f"prompts={path}: {fault}", _HINT)
    return form, document


def _checked(fields: Mapping[str, Any], place: str) -> FormWords:
    try:
        words = msgspec.convert(dict(fields), FormWords)
    except msgspec.ValidationError as error:
        raise DataError(f"{place}: {error}", _HINT) from error
    if words.layout not in LAYOUTS:
        raise DataError(f"{place}: layout is {words.layout!r}; one of {', '.join(LAYOUTS)} was expected", _HINT)
    for template in filter(None, (words.text, words.number, words.open, words.short)):
        if not _QUESTION.search(f"{template}{words.before}{words.after_image}"):
            raise DataError(f"{place} shows no question: {template[:80]!r} has no {{question}}", _HINT)
    return words
