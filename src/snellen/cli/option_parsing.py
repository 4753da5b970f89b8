"""Options of commands: described at the field or parameter that holds them, and parsed from what users type.

Groups. Options of one concern are a dataclass, so each is declared once, however many commands have it:

    @dataclass(frozen=True)
    class ReaderOptions:
        PANEL: ClassVar[str] = "Reader"

        reader: str = option("The reader model.", REQUIRED, names=("--reader", "-m"), value="KIND:NAME")
        seed: int = option_of(ModelOptions, "seed")

    @group.command()
    def read(run: Path = argument("Folder of the run."), *, options: Annotated[ReaderOptions, only("seed")]) -> None: ...

PANEL, if a group has it, is the heading of its options in --help, unless an option has a heading of its own.

Values. Typer parses every value through pydantic. Importing that takes longer than a run over an endpoint takes until its
first request. Plain values are parsed here to the same result (a test compares the two). All others go to typer, which
also writes the messages about values that it refuses. Empty values and numbers that no run can have are refused here.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from snellen.setting import settings_of

MAX_INTEGER = (1 << 63) - 1
MAX_FLOAT = 1e12
NEVER_EMPTY = (
    *("base_url", "key_env", "profile", "serve", "judge", "reader", "rubric", "benchmarks"),
    *("submission_configs",),
)
"""Parameters whose empty value would select the default, and with it requests that the user did not mean."""
Registered = TypeVar("Registered", bound=Callable[..., Any])
REQUIRED: Any = dataclasses.MISSING
INFO = "typer"
"""Key of an option in the metadata of its field."""
_NOT_PLAIN: Any = object()
_INT = re.compile(r"0|-?[1-9][0-9]{0,14}")
_FLOAT = re.compile(r"(?:0|-?[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")


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


def option(
    text: str,
    default: Any = None,
    *,
    names: Sequence[str] = (),
    value: str = "",
    said: str = "",
    least: float | None = None,
    most: float | None = None,
    panel: str | None = None,
    env: str | None = None,
    hidden: bool = False,
) -> Any:
    """Return a field, or the default of a parameter, that is an option.

    Args:
        text: what it sets, for --help.
        default: its value where it is omitted; REQUIRED: it has to be given.
        names: as typed; empty: the field's own name behind `--`.
        value: place holder of the value; empty: after its type. With `[FILE=NAME]` the option may stand without one.
        said: the default in words, where the value does not say it.
        least, most: the range of a number.
        panel: its heading in --help, where it is not that of the group.
        env: the environment variable that holds the value where the option is omitted.
        hidden: --help does not show it.
    """
    info = OptionInfo(
        param_decls=names,
        help=text,
        metavar=value or None,
        show_default=said or True,
        min=least,
        max=most,
        rich_help_panel=panel,
        envvar=env,
        hidden=hidden,
    )
    return dataclasses.field(default=default, metadata={INFO: info})


def option_of(struct: type, field: str, default: Any = ..., *, panel: str | None = None, env: str | None = None) -> Any:
    """Return the option of a setting, with the text, range, names and default of the struct's field (snellen.setting)."""
    setting = settings_of(struct)[field]
    if default is ...:
        default = _defaults(struct)[field]
    return option(
        setting.text,
        default,
        names=setting.options,
        value=setting.value,
        said=setting.default,
        least=setting.least,
        most=setting.most,
        panel=panel,
        env=env,
    )


@cache
def _defaults(struct: type) -> dict[str, Any]:
    from msgspec import structs  # not for every `snellen --help`

    return {each.name: each.default for each in structs.fields(struct)}


def argument(text: str, default: Any = REQUIRED, *, value: str = "", said: str = "") -> Any:
    """Return the default of a parameter that is an argument. Its parts are those of `option`."""
    info = ArgumentInfo(help=text, metavar=value or None, show_default=said or True)
    return dataclasses.field(default=default, metadata={INFO: info})


def only(*names: str) -> Only:
    """Name the options of a group that a command has, as in `Annotated[MediaOptions, only("max_pixels")]`."""
    return Only(names)


def values(*groups: Any, but: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values of groups by field, without the fields named in `but`."""
    every = [(group, field.name) for group in groups for field in dataclasses.fields(group)]
    return {name: getattr(group, name) for group, name in every if name not in but}


def given(*groups: Any, but: Sequence[str] = ()) -> list[str]:
    """Return the options of groups whose values are not their defaults, as typed, without the fields named in `but`."""
    changed = [
        field
        for group in groups
        for field in dataclasses.fields(group)
        if field.name not in but and getattr(group, field.name) != field.default
    ]
    names = [INFO in field.metadata and field.metadata[INFO].param_decls for field in changed]
    return [own[0] if own else _flag(field.name) for field, own in zip(changed, names, strict=True)]


def _flag(field: str) -> str:
    return f"--{field.replace('_', '-')}"


def typed(context: typer.Context, names: Sequence[str]) -> list[str]:
    """Return the options among parameters that stand on the command line."""
    sources = {
        param.opts[0]: context.get_parameter_source(param.name or "")
        for param in context.command.params
        if param.name in names
    }
    return [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a function with one parameter per option, which calls `command` with the groups built from them.

    Raises:
        TypeError: two parameters or fields have the same name, or `only` names a field that the group lacks.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, OptionGroup] = {}
    parameters: dict[str, inspect.Parameter] = {}

    def add(name: str, default: Any, annotation: Any, panel: str | None = None) -> None:
        if name in parameters:
            raise TypeError(f"{command.__name__} has two options named {name}")
        kind, info = _described(annotation, default)
        if info is not None:
            default = _named(info, name, panel)
        parameters[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)

    for name, parameter in inspect.signature(command).parameters.items():
        group = _group(hints[name])
        if group is None:
            add(name, parameter.default, hints[name])
            continue
        groups[name] = group
        field_hints = get_type_hints(group.dataclass, include_extras=True)
        for field in dataclasses.fields(group.dataclass):
            if field.name in group.options:
                default = field if INFO in field.metadata else field.default
                add(field.name, default, field_hints[field.name], getattr(group.dataclass, "PANEL", None))

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


def _described(annotation: Any, default: Any) -> tuple[Any, ParameterInfo | None]:
    """Return the type of a parameter, and its description with its default; None for one that is no option."""
    field = default
    if get_origin(annotation) is Annotated:
        annotation, field = get_args(annotation)
    elif isinstance(default, dataclasses.Field):
        default = default.default
    else:
        return annotation, None
    info = copy.copy(field.metadata[INFO])
    info.default = ... if default in (dataclasses.MISSING, inspect.Parameter.empty) else default
    return annotation, info


def _named(info: ParameterInfo, name: str, panel: str | None) -> ParameterInfo:
    """Give an option its name and heading, where it has none of its own."""
    if isinstance(info, OptionInfo):
        info.param_decls = info.param_decls or (_flag(name),)
        info.rich_help_panel = info.rich_help_panel or panel
    return info


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


class CheckedOption(TyperOption):
    """An option that parses plain values itself and checks what typer parsed."""

    def __init__(self, option: TyperOption) -> None:
        vars(self).update(vars(option))

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the parsed and checked value of this option."""
        return _process(self, ctx, value, super().process_value)


class CheckedArgument(TyperArgument):
    """An argument that parses plain values itself and checks what typer parsed."""

    def __init__(self, argument: TyperArgument) -> None:
        vars(self).update(vars(argument))

    def process_value(self, ctx: Any, value: Any) -> Any:
        """Return the parsed and checked value of this argument."""
        return _process(self, ctx, value, super().process_value)


class _CheckedHelp:
    """Mixin of commands and groups, whose --help is made on request and would import pydantic otherwise."""

    _checked_help: CheckedOption | None = None

    def get_help_option(self, ctx: Any) -> Any:
        """Return the --help option, the same object on every call."""
        if self._checked_help is None:
            option = super().get_help_option(ctx)  # type: ignore[misc]
            self._checked_help = None if option is None else CheckedOption(option)
        return self._checked_help


class CheckedGroup(_CheckedHelp, TyperGroup):
    """A group of commands."""


class CheckedCommand(_CheckedHelp, TyperCommand):
    """A command whose options and arguments are checked."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **settings: Any) -> None:
        super().__init__(name, params=[_checked(param) for param in params or ()], **settings)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse a command line, where an option whose place holder is `[FILE=NAME]` stands for NAME without a value."""
        marks = [(name, str(param.metavar)) for param in self.params for name in param.opts]
        alone = {name: mark[6:-1] for name, mark in marks if mark.startswith("[FILE=")}
        words = []
        for word, after in zip(args, [*args[1:], "-"], strict=False):
            words += [word, alone[word]] if word in alone and after.startswith("-") else [word]
        return super().parse_args(ctx, words)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the page that is asked for."""
        from snellen.cli.help_page import print_command

        print_command(self, ctx)


class Commands(typer.Typer):
    """An application or a group whose commands check their values."""

    def __init__(self, *, cls: type[TyperGroup] = CheckedGroup, **settings: Any) -> None:
        super().__init__(cls=cls, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[[Registered], Registered]:
        """Return the decorator that adds a command, as `typer.Typer.command` does; its groups become options."""
        add = super().command(name, cls=cls or CheckedCommand, **settings)

        def register(function: Registered) -> Registered:
            add(expand_options(function))
            return function

        return register


def _checked(param: Any) -> Any:
    return CheckedOption(param) if isinstance(param, TyperOption) else CheckedArgument(param)


def _process(param: Any, context: Any, value: Any, parse: Any) -> Any:
    """Return the value of a parameter, parsed by typer's `parse` unless it is plain."""
    try:
        parsed = _parse_plain(param, value)
        if parsed is _NOT_PLAIN or (param.required and param.value_is_missing(parsed)):
            parsed = parse(context, value)
        elif param.callback is not None:
            parsed = param.callback(context, param, parsed)
    except Exception as error:
        _name_value(error, param, value)
        raise
    if value == "" and (isinstance(parsed, Path) or param.name in NEVER_EMPTY):
        from snellen.errors import UsageError

        name = param.opts[0] if param.param_type_name == "option" else param.name.upper()
        raise UsageError(
            f"{name} '' is empty; a value was expected",
            f"Omit {name}, or check the shell variable that it was made of: an unset one is empty.",
        )
    for number in parsed if isinstance(parsed, (list, tuple)) else (parsed,):
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            _require_finite(param, context, value, number)
    return parsed


def _parse_plain(param: Any, value: Any) -> Any:
    """Return the value of a parameter if it is plain, else `_NOT_PLAIN`."""
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None:  # older versions of typer, which parse without pydantic
        return _NOT_PLAIN
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    return plain(descriptor.annotation, descriptor.parameter_info, value)


def _name_value(error: Exception, param: Any, value: Any) -> None:
    """Add the refused value to typer's message, if that does not quote it."""
    message = getattr(error, "message", None)
    if type(error).__name__ == "BadParameter" and isinstance(value, str) and isinstance(message, str):
        if repr(value) not in message:
            message = f"{message}; found {value!r}."
        if param.name == "limit" and param.default is None:
            message += " Omit --limit to run all samples."
        error.message = message  # type: ignore[attr-defined]


def _require_finite(param: Any, context: Any, value: Any, number: float) -> None:
    """Refuse a number that is not finite or does not fit into 64 bits.

    Raises:
        UsageError: it is such a number.
    """
    if isinstance(number, int):
        fits, accepted = -MAX_INTEGER - 1 <= number <= MAX_INTEGER, f"whole numbers up to {MAX_INTEGER:,}"
    else:
        fits, accepted = abs(number) <= MAX_FLOAT, f"finite numbers up to {MAX_FLOAT:,.0f}"
    if not fits:
        from snellen.errors import UsageError

        text = str(value)
        raise UsageError(
            f"{param.opts[0]} {text if len(text) <= 60 else text[:57] + '...'}: {accepted} are accepted",
            f"snellen {context.info_name} --help has the range of each option.",
        )


def plain(annotation: Any, info: Any, value: Any) -> Any:
    """Return the value as the annotation's type, or `_NOT_PLAIN` if typer has to parse it.

    Args:
        annotation: the type of the parameter.
        info: typer's OptionInfo or ArgumentInfo.
        value: the text of the command line, or the default.
    """
    if info.parser is not None:
        return _NOT_PLAIN
    if get_origin(annotation) is list:
        if not isinstance(value, (list, tuple)):
            return _NOT_PLAIN
        (inner,) = get_args(annotation)
        items = [plain(inner, info, item) for item in value]
        return _NOT_PLAIN if any(item is _NOT_PLAIN for item in items) else items
    if get_origin(annotation) is Literal:
        return value if isinstance(value, str) and value in get_args(annotation) else _NOT_PLAIN
    if annotation is str or annotation is bool:
        return value if type(value) is annotation else _NOT_PLAIN
    if annotation is int or annotation is float:
        return _number(annotation, info, value)
    if annotation is Path:
        return _path(info, value)
    return _NOT_PLAIN


def _number(kind: type[int] | type[float], info: Any, value: Any) -> Any:
    if type(value) is str and (_INT if kind is int else _FLOAT).fullmatch(value):
        value = kind(value)
    if type(value) is not kind or info.clamp:
        return _NOT_PLAIN
    fits = (info.min is None or value >= info.min) and (info.max is None or value <= info.max)
    return value if fits else _NOT_PLAIN


def _path(info: Any, value: Any) -> Any:
    """Return the path, if all that is required of it is that it can be read if it exists."""
    required = (info.exists, info.writable, info.resolve_path, info.allow_dash, info.path_type)
    if any(required) or not (info.file_okay and info.dir_okay) or not isinstance(value, (str, Path)):
        return _NOT_PLAIN
    path = Path(value)
    try:
        path.stat()
    except OSError:
        return path  # the command says whether it must exist
    except ValueError:
        return _NOT_PLAIN
    return path if os.access(path, os.R_OK) else _NOT_PLAIN
