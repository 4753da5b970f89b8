"""The wording of the spatial benchmarks: the TOML files of this package, and files of a user's own.

`vlmevalkit.toml` and `lmms-eval.toml` have the words of the twelve benchmarks of EASI's payload, and `more.toml` those of the
others, by benchmark and form. A user's file is TOML: `prompting` says for which form its templates are, and then there is a
table a benchmark; for the others, what a table does not have stays. Templates have places: `{question}` is filled from the row,
`{pre}` and `{post}` from the file itself. What stands in `[[...]]` goes where none of its places has anything to show.
docs/spatial-prompts.md and docs/spatial-more.md list the places.
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
from msgspec import Struct, structs

from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import DataError, UsageError
from snellen.toml_text import parse_toml

FORMS = ("vlmevalkit", "lmms-eval", "neo_ov")
LABELLED = "neo_ov"
"""lmms-eval's form with a label before each image; its words are those of lmms-eval but for numbers of VSI-Bench."""
LONGEST_FILE = 1 << 20
QUESTION_FIELDS = frozenset({"question", "input_prompt", "prompt", "user_prompt"})
TEMPLATE_FIELDS = frozenset(
    {*QUESTION_FIELDS, "options", "letters", "hint", "choices", "task_prompt", "format_prompt"}
    | {"pre", "post", "post_number", "post_video"}
)
# Beside `choice`, which every benchmark has; a missing template would have the question put as one of another kind.
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "vsi-bench": ("number",),
    "vsi-debiased": ("number",),
    "site": ("video",),
    "spar-bench": ("number", "short", "boxes"),
}
LAYOUTS = ("front", "marks", "between", "positions", "numbered", "around", "text-first", "time-first")
SHORT_NAMES = {"cot": "vlmevalkit-cot", "direct": "vlmevalkit", "visual-first": "vlmevalkit-visual-first"}
SAME_WORDS = {"spbench/mv": "spbench/si", "vsi-debiased": "vsi-bench"}
_QUESTION = re.compile(r"\{(?:question|stripped|marked|asked|prompt|object)\}")
_PLACE = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]", re.DOTALL)


class PromptWords(Struct, frozen=True, forbid_unknown_fields=True):
    """The wording of one benchmark's questions.

    Attributes:
        choice, number, short: the template of each kind of question; `video` is that of SITE's videos, `boxes` that of
            SPAR-Bench's questions about boxes.
        options: how one option is written, with {letter} and {text}; `between` stands between two.
        pre, post: what {pre} and {post} stand for; {letters} in them are the letters of the options. `post_number` and
            `post_video` are those of numbers and of SITE's videos.
        max_tokens: new tokens that a reply may have; 0 leaves it to the model.
        temperature: as the harness asks for it; None leaves it to the model.
    """

    choice: str
    number: str = ""
    short: str = ""
    video: str = ""
    boxes: str = ""
    options: str = "{letter}. {text}"
    between: str = "\n"
    pre: str = ""
    post: str = ""
    post_number: str = ""
    post_video: str = ""
    max_tokens: int = 0
    temperature: float | None = None


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


class WordsFile(Struct, frozen=True):
    """A file of words: whose order of text and images it is for, and the words by benchmark."""

    prompting: str
    words: Mapping[str, PromptWords]


_HINT = (
    "docs/spatial-prompts.md and docs/spatial-more.md say what such a file holds; `snellen prompts import` makes one."
)


def forms(task: Task) -> tuple[str, ...]:
    """Return the forms of a benchmark; the first is the default."""
    return FORMS if task.name in TASKS else tuple(_further()[SAME_WORDS.get(task.name, task.name)])


def words_for(task: Task, prompting: str | None, file: Path | None) -> tuple[str, PromptWords | FormWords]:
    """Return the form, and its words for a benchmark: of a user's file, else the package's.

    Args:
        task: VSI-Debiased has VSI-Bench's words, and the halves of SPBench have the same.
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
        return form, default_words(form, task.name)
    text = _text_of(file)
    tables: Any  # words of the twelve, or fields of the others' words, by benchmark
    if task.name in TASKS:
        loaded = read(text, str(file))
        of_file, tables = loaded.prompting, loaded.words
    else:
        of_file, tables = _tables(text, file)
    if of_file not in known or form not in (None, of_file):
        asked = f" and prompting={form} was asked for" if form else ""
        raise DataError(
            f"prompts={file} has words for prompting={of_file!r}{asked}; {form or ' or '.join(known)} was expected",
            "Omit --prompting, or give another file.",
        )
    for name in (task.name, SAME_WORDS.get(task.name, task.name)):
        if name in tables and task.name in TASKS:
            return of_file, tables[name]
        if name in tables:
            fields = {**structs.asdict(default_words(of_file, name)), **tables[name]}
            return of_file, _checked(fields, f"{file}: {name}")
    raise DataError(f"{file}: it has no words for {task.name}; it has {', '.join(tables) or 'none at all'}", _HINT)


def default_words(form: str, name: str) -> Any:
    """Return our words for a benchmark, as a form lays them out: `PromptWords` of the twelve, else `FormWords`."""
    same = SAME_WORDS.get(name, name)
    if name not in TASKS:
        return _further()[same][form]
    words = _default_file("lmms-eval" if form == LABELLED else form).words[same]
    if form == LABELLED and same == "vsi-bench":
        return structs.replace(words, post_number="Reply with one number, written as a decimal, and nothing else.")
    return words


@cache
def _default_file(form: str) -> WordsFile:
    return read(files(__package__).joinpath(f"{form}.toml").read_text("utf-8"), f"prompts/{form}.toml")


@cache
def _further() -> dict[str, dict[str, FormWords]]:
    tables: dict[str, dict[str, Any]] = tomllib.loads(files(__package__).joinpath("more.toml").read_text("utf-8"))
    return {
        name: {form: _checked(fields, f"more.toml: {name}.{form}") for form, fields in of_form.items()}
        for name, of_form in tables.items()
    }


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


def _tables(text: str, path: Path) -> tuple[str, dict[str, dict[str, Any]]]:
    """Return the form and the tables of a file of words for the further benchmarks."""
    try:
        document = parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"prompts={path}: cannot be read: {error}", _HINT) from error
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


def read(text: str, place: str) -> WordsFile:
    """Return the words in the text of a file, which messages call `place`.

    Raises:
        DataError: no TOML; no `prompting`, or an unknown one; an unknown benchmark, field or place; a template that is missing, or shows no question; an
            option's line without its letter and its text.
    """
    try:
        document = parse_toml(text)
        form = document.pop("prompting", None)
        table = msgspec.convert(document, dict[str, PromptWords])
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: {error}", _HINT) from error
    if form not in FORMS:
        raise DataError(
            f"{place}: prompting is {form!r}; expected {' or '.join(FORMS)}, at the head of the file", _HINT
        )
    for name, words in table.items():
        if name not in TASKS:
            raise DataError(f"{place}: {name} is no spatial benchmark; they are {', '.join(TASKS)}", _HINT)
        for kind in ("choice", "number", "short", "video", "boxes"):
            _check(getattr(words, kind), f"{place}: {name}.{kind}", needed=kind in ("choice", *TEMPLATES.get(name, ())))
        if not {"letter", "text"} <= set(_PLACE.findall(words.options)):
            raise DataError(f"{place}: {name}.options {words.options!r} has no {{letter}} or no {{text}}", _HINT)
        if words.max_tokens < 0:
            raise DataError(f"{place}: {name}.max_tokens is {words.max_tokens}; 0 or more was expected", _HINT)
        if words.temperature is not None and not 0 <= words.temperature <= 100:
            raise DataError(f"{place}: {name}.temperature is {words.temperature}; 0 or more was expected", _HINT)
    return WordsFile(form, table)


def _check(template: str, place: str, *, needed: bool) -> None:
    if not template:
        if needed:
            raise DataError(f"{place} is missing, and questions of that kind are asked", _HINT)
        return
    places = set(_PLACE.findall(template))
    if unknown := sorted(places - TEMPLATE_FIELDS):
        raise DataError(
            f"{place} has the place {{{unknown[0]}}}; known are {', '.join(sorted(TEMPLATE_FIELDS))}", _HINT
        )
    if not places & QUESTION_FIELDS:
        raise DataError(
            f"{place} shows no question: one of {', '.join(sorted(QUESTION_FIELDS))} was expected in braces", _HINT
        )


def fill_template(words: PromptWords, kind: str, values: Mapping[str, str]) -> str:
    """Return the text of a question. What is put into a place is put there as it is, whatever braces it has.

    Args:
        words: from `words_for`.
        kind: which template: choice, number, short, video or boxes.
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


def format_options(words: PromptWords, options: Mapping[str, str]) -> str:
    """Return the options, letter to text, as the words write them."""
    return words.between.join(_option(words.options, letter, text) for letter, text in options.items())


def _option(line: str, letter: str, text: str) -> str:
    values = {"letter": letter, "text": text}
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), line)
