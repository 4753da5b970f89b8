"""Option groups: dataclasses whose fields are options, expanded to the flat signature that typer reads.

A command takes one parameter per group, so each option is declared once, however many commands have it:

    @dataclass(frozen=True)
    class GenerationOptions:
        PANEL: ClassVar[str] = "How the model writes"

        temperature: Annotated[float | None, typer.Option(min=0.0, help="Sampling temperature.")] = None

    @expand_options
    def judge(run: Path, generation: Annotated[GenerationOptions, only("temperature")]) -> None: ...

PANEL, if a group has it, is the heading of its options in --help, unless an option has a heading of its own.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from typer.models import OptionInfo


class Only(NamedTuple):
    """The fields of a group that one command has; the other fields keep their defaults there."""

    names: tuple[str, ...]


class OptionGroup(NamedTuple):
    """A parameter of a command that stands for several options.

    Attributes:
        dataclass: the group's class.
        options: the fields that the command has as options.
    """

    dataclass: type
    options: tuple[str, ...]


def only(*names: str) -> Only:
    """Name the options of a group that a command has, as in `Annotated[MediaOptions, only("max_pixels")]`."""
    return Only(names)


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per option, which calls `command` with the groups built from them.

    Raises:
        TypeError: two parameters or fields have the same name, or `only` names a field that the group lacks.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, OptionGroup] = {}
    parameters: dict[str, inspect.Parameter] = {}

    def add(name: str, default: Any, annotation: Any) -> None:
        if name in parameters:
            raise TypeError(f"{command.__name__} has two options named {name}")
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )

    for name, parameter in inspect.signature(command).parameters.items():
        group = _group(hints[name])
        if group is None:
            add(name, parameter.default, hints[name])
            continue
        groups[name] = group
        field_hints = get_type_hints(group.dataclass, include_extras=True)
        for field in dataclasses.fields(group.dataclass):
            if field.name in group.options:
                default = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
                add(field.name, default, _under_panel(field_hints[field.name], group.dataclass))

    def expanded(**values: Any) -> None:
        built = {
            name: group.dataclass(**{option: values.pop(option) for option in group.options})
            for name, group in groups.items()
        }
        command(**values, **built)

    expanded.__name__, expanded.__doc__, expanded.__module__ = command.__name__, command.__doc__, command.__module__
    expanded.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
    expanded.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return expanded


def _under_panel(annotation: Any, group: type) -> Any:
    """Return an option's annotation with the group's heading, if it has none of its own."""
    panel = getattr(group, "PANEL", None)
    kind, *extras = get_args(annotation)
    if panel is None or not isinstance(extras[0], OptionInfo) or extras[0].rich_help_panel is not None:
        return annotation
    option = copy.copy(extras[0])
    option.rich_help_panel = panel
    return Annotated[kind, option]


def _group(hint: Any) -> OptionGroup | None:
    """Return the group that a parameter's annotation names, or None if it is an option or an argument."""
    selected: tuple[str, ...] | None = None
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        selected = next((extra.names for extra in extras if isinstance(extra, Only)), None)
    if not dataclasses.is_dataclass(hint) or not isinstance(hint, type):
        return None
    names = tuple(field.name for field in dataclasses.fields(hint))
    if unknown := set(selected or ()) - set(names):
        raise TypeError(f"{hint.__name__} has no option named {', '.join(sorted(unknown))}")
    return OptionGroup(hint, names if selected is None else selected)
