"""The wording of the sets' questions: the forms that their declarations have, and files of a user's own.

A user's file is TOML: `prompting` says for which form its templates are, and then there is a table a benchmark; except for the
twelve of EASI's payload, what a table does not have stays. Templates have places: `{question}` is filled from the row,
`{pre}` and `{post}` from the file itself. What stands in `[[...]]` goes where none of its places has anything to show.
docs/spatial-prompts.md and docs/spatial-more.md list the places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial.tasks import EVERY, MORE, TASKS, Task
from snellen.benchmarks.table.set_sections import Form
from snellen.errors import DataError, UsageError
from snellen.toml_text import parse_toml

FORMS = ("vlmevalkit", "lmms-eval", "neo_ov")
"""Of the twelve of EASI's payload; the last is lmms-eval's form for one model, with a label before each image."""
LABELLED = FORMS[-1]
LONGEST_FILE = 1 << 20
TEMPLATES = ("text", "number", "short", "open", "video", "boxes")
SHORT_NAMES = {"cot": "vlmevalkit-cot", "direct": "vlmevalkit", "visual-first": "vlmevalkit-visual-first"}
OTHER_KEYS = {"choice": "text", "options": "option", "layout": "order"}
"""Keys of users' files that forms call otherwise."""
NO_WORDS = ("order", "strip", "options_once", "templates", "only", "read", "ours", "image_label", "frame_label")
"""What a form says beside words."""
QUESTION_PLACES = frozenset(
    {"question", "stripped", "marked", "asked", "prompt", "object", "input_prompt", "user_prompt"}
)
PLACES = frozenset(
    {
        *QUESTION_PLACES,
        "system_prompt",
        "options",
        "letters",
        "hint",
        "choices",
        "task_prompt",
        "format_prompt",
        "suffix",
    }
    | {"pre", "post", "post_number", "post_video", "opening", "time", "query_times", "time_start", "time_end"}
)
_PLACE = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


class WordsFile(Struct, frozen=True):
    """A file of words: whose order of text and images it is for, the words by benchmark, and whose words they are."""

    prompting: str
    words: Mapping[str, Form]
    source: str = ""


_HINT = "`snellen --help spatial-prompts` and `snellen --help spatial-more` say what such a file holds; `snellen prompts import` makes one."


def forms(task: Task) -> tuple[str, ...]:
    """Return the forms of a benchmark; the first is the default."""
    return tuple(task.declared.form)


def words_for(task: Task, prompting: str | None, file: Path | None) -> tuple[str, Form]:
    """Return the form, and its words for a benchmark: of a user's file, else the set's own.

    Args:
        task: VSI-Debiased takes VSI-Bench's words out of a file that has none for it, and so does any set that is like another
            and is asked in its words.
        prompting: the form as the user names it; None: the file's own, without a file the benchmark's first.
        file: the user's file.

    Raises:
        UsageError: the benchmark has no such form.
        DataError: the file cannot be used, has no words for this benchmark, or is for another form.
    """
    form, known = SHORT_NAMES.get(prompting or "", prompting), forms(task)
    if form not in (None, *known):
        raise UsageError(f"prompting={prompting!r}: {task.name} has no such form", f"One of these: {', '.join(known)}.")
    if file is None:
        form = form or known[0]
        return form, task.declared.form[form]
    of_file, tables, _ = _tables(_text_of(file), f"prompts={file}")
    loaded = _read_tables(tables, of_file, str(file)) if task.in_payload else {}
    if of_file not in known or form not in (None, of_file):
        asked = f" and prompting={form} was asked for" if form else ""
        raise DataError(
            f"prompts={file} has words for prompting={of_file!r}{asked}; {form or ' or '.join(known)} was expected",
            "Omit --prompting, or give another file.",
        )
    like = EVERY.get(task.declared.like)
    same = like is not None and like.declared.form.get(of_file) == task.declared.form[of_file]
    for name in (task.name, *([task.declared.like] if same else [])):
        if name in loaded:
            return of_file, loaded[name]
        if name in tables and not task.in_payload:
            words = _form(tables[name], structs.asdict(task.declared.form[of_file]), f"{file}: {name}")
            check(words, f"{file}: {name}")
            return of_file, words
    raise DataError(f"{file}: it has no words for {task.name}; it has {', '.join(tables) or 'none at all'}", _HINT)


def default_words(form: str, name: str) -> Form:
    """Return the words of a benchmark of the package in one of its forms."""
    return EVERY[name].declared.form[form]


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            raw = stream.read(LONGEST_FILE + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"prompts={path}: cannot be read: {error}", _HINT) from error
    if len(raw) > LONGEST_FILE:
        raise DataError(f"prompts={path}: more than {LONGEST_FILE:,} bytes, the limit for prompt files", _HINT)
    return text


OWN = "Snellen"
"""Whose words are sent where the user names no file of others."""


def whose_words(data: Data) -> str:
    """Return whose words a run's questions are asked in: Snellen's, or what the user's file says that it has."""
    path = data.options.get("prompts")
    if path is None:
        return OWN
    try:
        return _tables(_text_of(Path(path).expanduser()), path)[2] or "a file that does not say whose words it has"
    except DataError:
        return "a file that is not there any more, or was changed"


def _tables(text: str, place: str) -> tuple[str, dict[str, dict[str, Any]], str]:
    """Return the form, the tables and the source of a file of words."""
    try:
        document = parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: cannot be read: {error}", _HINT) from error
    form, source = document.pop("prompting", None), document.pop("source", "")
    wrong = [name for name, table in document.items() if not isinstance(table, dict)]
    if not isinstance(form, str) or wrong:
        fault = f"{wrong[0]!r} is no table" if wrong else f"prompting is {form!r}; the name of a form was expected"
        raise DataError(f"{place}: {fault}", _HINT)
    return form, document, source if isinstance(source, str) else ""


def _form(table: Mapping[str, Any], ours: Mapping[str, Any], place: str) -> Form:
    """Return the words of a table over some of ours."""
    own = {OTHER_KEYS.get(key, key): value for key, value in table.items()}
    try:
        return msgspec.convert({**ours, **own}, Form)
    except msgspec.ValidationError as error:
        raise DataError(f"{place}: {error}", _HINT) from error


def check(words: Form, place: str) -> None:
    """Raise DataError for a template that shows no question, an option without letter and text, an impossible limit."""
    around = f"{words.before}{words.after_image}"
    for name in TEMPLATES:
        template = getattr(words, name)
        if not template and name != "text":
            continue
        places = set(_PLACE.findall(template + around))
        if not places & QUESTION_PLACES:
            expected = f"one of {', '.join(sorted(QUESTION_PLACES))} was expected in braces"
            raise DataError(f"{place}.{name} shows no question: {template[:80]!r}; {expected}", _HINT)
    if not {"letter", "text"} <= set(_PLACE.findall(words.option)):
        raise DataError(f"{place}.option {words.option!r} has no {{letter}} or no {{text}}", _HINT)
    if words.max_tokens < 0:
        raise DataError(f"{place}.max_tokens is {words.max_tokens}; 0 or more was expected", _HINT)
    if words.temperature is not None and not 0 <= words.temperature <= 100:
        raise DataError(f"{place}.temperature is {words.temperature}; 0 or more was expected", _HINT)


def read(text: str, place: str) -> WordsFile:
    """Return the words in the text of a file for the twelve of EASI's payload; messages call it `place`.

    Raises:
        DataError: no TOML; no `prompting`, or an unknown one; an unknown benchmark, field or place; a template that is missing, or shows no question; an
            option's line without its letter and its text.
    """
    form, tables, source = _tables(text, place)
    return WordsFile(form, _read_tables(tables, form, place), source)


def _read_tables(tables: Mapping[str, Mapping[str, Any]], form: str, place: str) -> dict[str, Form]:
    if form not in FORMS:
        raise DataError(
            f"{place}: prompting is {form!r}; expected {' or '.join(FORMS)}, at the head of the file", _HINT
        )
    words = {}
    for name, table in tables.items():
        if name in MORE:
            continue  # read where it is asked
        if name not in TASKS:
            raise DataError(f"{place}: {name} is no spatial benchmark; they are {', '.join(TASKS)}", _HINT)
        ours, at = default_words(form, name), f"{place}: {name}"
        words[name] = _form(table, {key: getattr(ours, key) for key in NO_WORDS}, at)
        for kind in TEMPLATES:
            template = getattr(words[name], kind)
            if getattr(ours, kind) and not template:
                raise DataError(f"{at}.{kind} is missing, and questions of that kind are asked", _HINT)
            if unknown := sorted(set(_PLACE.findall(template)) - PLACES):
                known = ", ".join(sorted(PLACES))
                raise DataError(f"{at}.{kind} has the place {{{unknown[0]}}}; known are {known}", _HINT)
        check(words[name], at)
    return words


def fill_template(words: Form, kind: str, values: Mapping[str, str]) -> str:
    """Return the text of a question. What is put into a place is put there as it is, whatever braces it has.

    Args:
        kind: which of TEMPLATES.
        values: what its places stand for, `letters` among them; a place without a value stays empty.
    """
    own = {name: getattr(words, name).replace("{letters}", values.get("letters", "")) for name in _OWN}
    return fill(getattr(words, kind), {**values, **own})


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its places filled; a place without a value stays empty."""

    def filled_or_empty(part: re.Match[str]) -> str:
        return part[1] if any(values.get(place) for place in _PLACE.findall(part[1])) else ""

    return _PLACE.sub(lambda place: values.get(place[1], ""), _OPTIONAL.sub(filled_or_empty, template))


_OWN = ("pre", "post", "post_number", "post_video")


def format_options(words: Form, options: Mapping[str, str]) -> str:
    """Return the options, letter to text, as the words write them."""
    return words.between.join(fill(words.option, {"letter": letter, "text": text}) for letter, text in options.items())
