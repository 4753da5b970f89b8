"""Settings described once: a field's text and range, from which options, keys of plans and docstrings are made.

class ModelOptions(Struct):
    rpm: Annotated[float | None, Setting("Maximum requests per minute.", 0.001, 1e9)] = None
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import NamedTuple, TypeVar, get_args, get_type_hints

T = TypeVar("T")


class Setting(NamedTuple):
    """What a field sets, as users read it.

    Attributes:
        text: one or more sentences.
        least, most: the range of a number; None: no limit.
        value: place holder of the value behind the option; empty: after its type.
        default: the default in words, where None or a number does not say it.
        options: names of the option; empty: the field's own name behind `--`.
    """

    text: str
    least: float | None = None
    most: float | None = None
    value: str = ""
    default: str = ""
    options: tuple[str, ...] = ()


@cache
def settings_of(struct: type) -> Mapping[str, Setting]:
    """Return the described fields of a struct by name."""
    hints = get_type_hints(struct, include_extras=True)
    found = {
        name: [extra for extra in get_args(hint)[1:] if isinstance(extra, Setting)] for name, hint in hints.items()
    }
    return {name: extras[0] for name, extras in found.items() if extras}


def explain(settings: Mapping[str, Setting]) -> Callable[[T], T]:
    """Decorate a function: the settings are listed at the end of its docstring."""

    def decorate(function: T) -> T:
        if settings:
            lines = [f"        {name}: {said.text}" for name, said in settings.items()]
            function.__doc__ = "\n".join([(function.__doc__ or "").rstrip(), "", "    Settings:", *lines, ""])
        return function

    return decorate
