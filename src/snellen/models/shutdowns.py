"""Announced shutdowns of API models: a warning before the date, another after it, and a refusal as judge."""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources

import msgspec
from msgspec import Struct

from snellen.models.registry import KINDS, runtime_of

_DATED = re.compile(r"-\d{4}(-\d{2}-\d{2})?$")
"""A snapshot: a date, or month and day, such as gpt-4-0613."""
_SHOWN = 3


class _Group(Struct, frozen=True, forbid_unknown_fields=True):
    provider: str
    date: dt.date
    models: tuple[str, ...]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    shutdown: tuple[_Group, ...]
    living: Mapping[str, tuple[str, ...]]
    aliases: Mapping[str, str]


class Shutdown(Struct, frozen=True):
    """The announced end of one model.

    Attributes:
        model: its name, without kind and provider.
        provider: who ends it.
        date: the first day on which it is not served.
    """

    model: str
    provider: str
    date: dt.date

    def past(self, day: dt.date | None = None) -> bool:
        """Return True on that date and after it."""
        return (day or today()) >= self.date

    def alternatives(self, day: dt.date | None = None) -> str:
        """Return models of the provider that are served today, those that last longest first."""
        now = day or today()
        later = [group for group in _read().shutdown if group.provider == self.provider and group.date > now]
        later.sort(key=lambda group: group.date)
        dated = [f"{name} (until {group.date})" for group in reversed(later) for name in group.models]
        return ", ".join([*_read().living.get(self.provider, ()), *dated][:_SHOWN])

    def warning(self, day: dt.date | None = None) -> str:
        """Return one line for the user: when the model ends or ended, and what is served instead."""
        if self.past(day):
            return (
                f"{self.provider} shut {self.model} down on {self.date}; another server may still use the name. "
                f"{self.provider} serves: {self.alternatives(day)}."
            )
        return (
            f"{self.provider} shuts {self.model} down on {self.date}; after that a run with it cannot be resumed. "
            f"{self.provider} also serves: {self.alternatives(day)}."
        )


def today() -> dt.date:
    """Return today's date in UTC, for warnings and refusals."""
    return dt.datetime.now(dt.UTC).date()


def announced(model: str) -> Shutdown | None:
    """Return the announced end of a model by its name; None where none is known.

    Args:
        model: `gpt-4o`, `api:gpt-4o`, `tools:gpt-4o` or `openai/gpt-4o`, in any case; a dated snapshot counts as the model that it
            is of. Models that run here (`local:`, `replay:` and others) have none.
    """
    kind, colon, rest = model.strip().partition(":")
    if colon and kind in KINDS and not runtime_of(kind).remote:
        return None
    name = (rest if colon and kind in KINDS else model.strip()).rpartition("/")[2].lower()
    name = _read().aliases.get(name, name)
    for spelled in (name, _DATED.sub("", name)):
        for group in _read().shutdown:
            if spelled in group.models:
                return Shutdown(name, group.provider, group.date)
    return None


@cache
def _read() -> _File:
    text = resources.files(__package__).joinpath("shutdowns.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), _File)
