"""Tables with a column of ids and a column of replies, found by their usual names (columns.toml).

VLMEvalKit's tables (`index`, `prediction`) are among them.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct, convert

from snellen.errors import DataError
from snellen.formats.base import STATUSES, Answer, AnswerFile, Problems, missing, with_status
from snellen.formats.readers import table_rows

OWN_EXPORTS = (
    {"sample_id", "repeat", "status", "reply", "failure"},
    {"sample_id", "index", "status", "answer", "prediction"},
)
"""Columns of Snellen's exports to JSON lines and to VLMEvalKit's form."""


class Known(Struct, frozen=True):
    """The column names in columns.toml: tiers, the most specific first."""

    id: tuple[tuple[str, ...], ...]
    reply: tuple[tuple[str, ...], ...]
    repeat: tuple[tuple[str, ...], ...]
    answer: tuple[str, ...]
    failed_replies: tuple[str, ...]


class Fields(Struct, frozen=True):
    """The columns to read; `repeat` and `status` are None if the file has none. `status` is read in Snellen's own exports."""

    id: str
    reply: str
    repeat: str | None = None
    status: str | None = None


@cache
def known() -> Known:
    """Return the names in columns.toml."""
    return convert(tomllib.loads(files(__package__).joinpath("columns.toml").read_text("utf-8")), Known)


def choose(names: Sequence[str], place: str, id_field: str | None, reply_field: str | None) -> Fields:
    """Choose the id and reply columns among `names`.

    Args:
        names: the columns of the file.
        place: the file, for messages.
        id_field: the user's choice; None: find it.
        reply_field: the same for the reply.

    Raises:
        DataError: no column, or more than one, is possible; the message lists the columns and the option.
    """
    chosen_id = _one(names, known().id, place, id_field, "id", "--id-field")
    chosen_reply = _one(names, known().reply, place, reply_field, "reply", "--reply-field")
    repeat = next((name for tier in known().repeat for name in tier if name in names), None)
    return Fields(chosen_id, chosen_reply, repeat, _own_status(chosen_id, names))


def _own_status(id_field: str, names: Collection[str]) -> str | None:
    """Return the column of the answers' status, which Snellen's own exports have beside the samples' ids."""
    ours = any(form <= set(names) for form in OWN_EXPORTS)
    return "status" if ours and id_field == "sample_id" else None


def _one(
    names: Sequence[str], tiers: Sequence[Sequence[str]], place: str, chosen: str | None, role: str, option: str
) -> str:
    available = ", ".join(sorted(names)[:30])
    if chosen is not None:
        if chosen not in names:
            raise DataError(f"{place}: no field {chosen!r}; the fields are {available}", f"Change {option}.")
        return chosen
    plain_names = {name.strip().lower(): name for name in names}
    for tier in tiers:
        matches = [name for name in tier if name in names]
        matches = matches or [plain_names[name.lower()] for name in tier if name.lower() in plain_names]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise DataError(
                f"{place}: the {role} could be in {' or '.join(matches)}; the fields are {available}",
                f"Choose one: {' or '.join(f'{option} {name}' for name in matches)}.",
            )
    raise DataError(f"{place}: no field for the {role} was recognised among {available}", f"Pass {option} NAME.")


def answer_as_reply(names: Sequence[str]) -> str | None:
    """Return the column `answer` of a file that has no other column for a reply; None if it has one, or none of that name.

    In files with questions that column is the gold answer, so only a caller that was promised answers may take it.
    """
    plain_names = {name.strip().lower(): name for name in names}
    if any(name.lower() in plain_names for tier in known().reply for name in tier):
        return None
    return next((plain_names[name] for name in known().answer if name in plain_names), None)


def id_of(value: Any) -> str:
    """Return an id as text: 7, 7.0 and "7" are one id, since spreadsheets and pandas convert between them.

    Raises:
        ValueError: it is neither a text nor a whole number.
    """
    if isinstance(value, str):
        if value:
            return value
        raise ValueError("the id is empty")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(
        "there is no id" if value is None else f"the id is {_kind(value)}; expected a text or a whole number"
    )


def text_of(value: Any) -> str | None:
    """Return a reply as text; None and NaN (a missing value in pandas) are no reply.

    Raises:
        ValueError: it is neither a text, a number, a truth value, nor a list of one of them.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float):
        if value != value:
            return None
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, list) and len(value) == 1:
        return text_of(value[0])
    raise ValueError(f"the reply is {_kind(value)}; expected a text")


def repeat_of(value: Any) -> int:
    """Return a repeat's number. Raises ValueError if it is not a whole number from 0 to 1,000,000."""
    if value is None:
        return 0
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 1_000_000:
        return value
    raise ValueError(f"the repeat is {value!r}; expected a whole number from 0")


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return {dict: "an object", bool: "true or false", float: "a fraction"}.get(type(value), type(value).__name__)


PEEKED = 50


def plain(path: Path, id_field: str | None, reply_field: str | None) -> AnswerFile:
    """Open a table as answers. Raises DataError if the columns are ambiguous or missing."""
    names: dict[str, None] = {}
    problems = Problems()
    for _, row in itertools.islice(table_rows(path, problems), PEEKED):
        names.update(dict.fromkeys(row))
    if not names:
        why = f": {problems.first[0]}" if problems.first else ""
        raise DataError(f"{path}: no row is readable{why}", "Check that this file holds the answers.")
    toolkit = id_field is None and reply_field is None and "index" in names and "prediction" in names
    fields = choose(list(names), str(path), id_field, reply_field) if not toolkit else _of_toolkit(names)
    form = "vlmevalkit" if toolkit else "plain"
    failed = frozenset(known().failed_replies) if toolkit else frozenset()
    return AnswerFile(
        path,
        form,
        lambda problems: _answers(path, fields, failed, problems),
        f"ids from {fields.id!r}, replies from {fields.reply!r}",
        fields.id,
    )


def _of_toolkit(names: Mapping[str, None]) -> Fields:
    """Return the fields of a table in VLMEvalKit's form; Snellen's own have the samples' ids beside the index."""
    id_field = "sample_id" if "sample_id" in names else "index"
    return Fields(id_field, "prediction", status=_own_status(id_field, names))


def _answers(path: Path, fields: Fields, failed: frozenset[str], problems: Problems) -> Iterator[Answer]:
    columns = [name for name in (fields.id, fields.reply, fields.repeat, fields.status) if name]
    id_name, reply_name, repeat_name, status_name = fields.id, fields.reply, fields.repeat, fields.status
    for where, row in table_rows(path, problems, columns):
        value, reply = row.get(id_name), row.get(reply_name)
        repeat = 0
        try:
            sample_id = value if type(value) is str and value else id_of(value)
            if repeat_name is not None:
                repeat = repeat_of(row.get(repeat_name))
        except ValueError as error:
            problems.add(where, str(error))
            continue
        try:
            text = reply if type(reply) is str else text_of(reply)
        except ValueError as error:
            problems.add(where, str(error))
            yield missing(sample_id, where, str(error), repeat)
            continue
        status = row.get(status_name) if status_name is not None else None
        if status in STATUSES and (status != "ok" or text not in failed):
            yield with_status(Answer(sample_id, None if text in failed else text, where, repeat), status)
        elif text is None:
            yield missing(sample_id, where, "the row holds no reply", repeat)
        elif text in failed:
            yield missing(sample_id, where, text, repeat)
        else:
            yield Answer(sample_id, text, where, repeat)
