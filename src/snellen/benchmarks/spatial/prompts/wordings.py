"""The wording of the spatial benchmarks: the TOML files of this package, one a harness, and files of a user's own.

Such a file is TOML: `prompting` says whose order its templates are in, and then there is a table a benchmark. Templates have places: `{question}` is fill_template from the row, `{pre}` and
`{post}` from the file itself. What stands in `[[...]]` goes where none of its places has anything to show.
docs/spatial-prompts.md lists the places.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.errors import DataError
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


class WordsFile(Struct, frozen=True):
    """A file of words: whose order of text and images it is for, and the words by benchmark."""

    prompting: str
    words: Mapping[str, PromptWords]


def words_for(task: Task, form: str | None, file: Path | None) -> tuple[str, PromptWords]:
    """Return the form, and its words for a benchmark: of a user's file, else the package's.

    VSI-Debiased has VSI-Bench's.

    Args:
        form: one of FORMS; None: the file's own, without a file the first.

    Raises:
        DataError: the file cannot be used, has no words for this benchmark, or is for another form.
    """
    if file is None:
        form = form or FORMS[0]
        return form, default_words(form, task.name)
    loaded = _of_file(file)
    if form not in (None, loaded.prompting):
        raise DataError(
            f"prompts={file} has words as {loaded.prompting} puts questions, and prompting={form} was asked for",
            "Omit --prompting, or give another file.",
        )
    for name in (task.name, "vsi-bench" if task.name == "vsi-debiased" else task.name):
        if name in loaded.words:
            return loaded.prompting, loaded.words[name]
    raise DataError(
        f"{file}: it has no words for {task.name}; it has {', '.join(loaded.words) or 'none at all'}", _HINT
    )


_HINT = "Make such a file with `snellen prompts import`; docs/spatial-prompts.md says what it holds."


def default_words(form: str, name: str) -> PromptWords:
    """Our words for a benchmark, as a harness lays them out."""
    if form == LABELLED:
        words = default_words("lmms-eval", name)
        if name not in ("vsi-bench", "vsi-debiased"):
            return words
        return structs.replace(words, post_number="Reply with one number, written as a decimal, and nothing else.")
    return _default_file(form).words["vsi-bench" if name == "vsi-debiased" else name]


@cache
def _default_file(form: str) -> WordsFile:
    return read(files(__package__).joinpath(f"{form}.toml").read_text("utf-8"), f"prompts/{form}.toml")


def _of_file(path: Path) -> WordsFile:
    try:
        with path.open("rb") as stream:
            raw = stream.read(LONGEST_FILE + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"prompts={path}: cannot be read: {error}", _HINT) from error
    if len(raw) > LONGEST_FILE:
        raise DataError(f"prompts={path}: more than {LONGEST_FILE:,} bytes, the limit for prompt files", _HINT)
    return read(text, str(path))


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
