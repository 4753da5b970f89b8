"""Which column holds the id and which the reply, by the names that people use (fields.toml)."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct, convert

from snellen.errors import DataError


class Known(Struct, frozen=True):
    """fields.toml: tiers of names, the surest first."""

    id: tuple[tuple[str, ...], ...]
    reply: tuple[tuple[str, ...], ...]
    repeat: tuple[tuple[str, ...], ...]
    failed_replies: tuple[str, ...]


class Fields(Struct, frozen=True):
    """The columns to read; `repeat` is None where the file has none."""

    id: str
    reply: str
    repeat: str | None = None


@cache
def known() -> Known:
    """The names in fields.toml."""
    return convert(tomllib.loads(files(__package__).joinpath("fields.toml").read_text("utf-8")), Known)


def choose(names: Sequence[str], place: str, id_field: str | None, reply_field: str | None) -> Fields:
    """The id and reply columns among `names`.

    Args:
        names: the columns that the file has.
        place: the file, for messages.
        id_field: what the user named, None: find it.
        reply_field: the same for the reply.

    Raises:
        DataError: no column, or more than one, can be meant; the message says what was found and what to give.
    """
    chosen_id = _one(names, known().id, place, id_field, "id", "--id-field")
    chosen_reply = _one(names, known().reply, place, reply_field, "reply", "--reply-field")
    repeat = next((name for tier in known().repeat for name in tier if name in names), None)
    return Fields(chosen_id, chosen_reply, repeat)


def _one(
    names: Sequence[str], tiers: Sequence[Sequence[str]], place: str, given: str | None, what: str, option: str
) -> str:
    shown = ", ".join(sorted(names)[:30])
    if given is not None:
        if given not in names:
            raise DataError(f"{place}: there is no field {given!r}; it has {shown}", f"Give another {option}.")
        return given
    for tier in tiers:
        found = [name for name in tier if name in names]
        if len(found) == 1:
            return found[0]
        if found:
            raise DataError(
                f"{place}: the {what} of a row could be in {' or '.join(found)}, of the fields {shown}",
                f"Say which: {' or '.join(f'{option} {name}' for name in found)}.",
            )
    raise DataError(
        f"{place}: no field that holds the {what} of a row was recognised among {shown}", f"Name it: {option} NAME."
    )


def id_of(value: Any) -> str:
    """An id as text: 7, 7.0 and "7" are one id, since spreadsheets and pandas turn the one into the other.

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
    """A reply as text; None and NaN (what pandas writes for nothing) are no reply.

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
    """A repeat's number. Raises ValueError where it is not a whole number from 0 to 1,000,000."""
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
