"""What people see, and what was published about models: facts with sources, from people.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct


class PeopleValue(Struct, frozen=True, forbid_unknown_fields=True):
    """What people see of some attributes.

    Attributes:
        attributes: their names.
        text: the value in words.
        source: who measured it.
        basis: `cited`, or `textbook` for a value that is repeated without one source.
        comparable: the value is in the attribute's own unit.
        low, high: ends of the value in that unit; None where it is not comparable.
    """

    attributes: tuple[str, ...]
    text: str
    source: str
    basis: str
    comparable: bool
    low: float | None = None
    high: float | None = None


class PublishedFinding(Struct, frozen=True, forbid_unknown_fields=True):
    """What a published work reports of models on some attributes; its method differs, so it is never a tick on the card."""

    attributes: tuple[str, ...]
    text: str
    source: str


class AcuityFacts(Struct, frozen=True, forbid_unknown_fields=True):
    """All facts of people.toml."""

    people: tuple[PeopleValue, ...]
    models: tuple[PublishedFinding, ...]


@cache
def acuity_facts() -> AcuityFacts:
    """Read people.toml."""
    text = (files("snellen.reports.acuity") / "people.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), AcuityFacts)


def people_value(attribute: str) -> PeopleValue | None:
    """Return what people see of an attribute; None where nothing is known."""
    return next((value for value in acuity_facts().people if attribute in value.attributes), None)


def published_findings(attribute: str) -> list[PublishedFinding]:
    """Return what was published about models on an attribute."""
    return [finding for finding in acuity_facts().models if attribute in finding.attributes]
