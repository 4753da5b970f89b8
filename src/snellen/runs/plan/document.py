"""Plan files: models, benchmarks, settings and limits in TOML, checked word by word.

Settings of a cell come from four places, the later ones first: the table `[defaults]`, the benchmark, the model, and the
entry of `[[settings]]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from snellen.engine.run_folder import RunSpec
from snellen.errors import DataError, UsageError
from snellen.models.base import ModelOptions
from snellen.redaction.arguments import key_among
from snellen.setting import settings_of
from snellen.sources.safe_paths import regular_file
from snellen.toml_text import parse_toml
from snellen.types import Generation, MediaSettings

PLAN_BYTES = 1 << 20
MOST_CELLS = 10_000
GENERATION = frozenset(Generation.__struct_fields__) - {"seed", "reply_schema"}
MEDIA = frozenset(MediaSettings.__struct_fields__)
OPTIONS = frozenset(ModelOptions.__struct_fields__) - {"generation", "media"}
RUN = frozenset({"limit", "repeats", "max_attempts", "retry_empty", "max_cost", "max_tokens_total"})
RUN |= {"nproc", "ray", "strict_data", "subset", "adaptive", "schema"}
ASKED = frozenset({"judge", "rubric", "reader", "reader_for"})
"""Models that are asked about the replies of a run."""
SETTINGS = GENERATION | MEDIA | OPTIONS | RUN | ASKED
OF_MODEL = SETTINGS | {"name", "label"}
OF_BENCHMARK = (SETTINGS - {"nproc", "ray", "base_url", "key_env"}) | {
    "name",
    "label",
    "data",
    "images",
    "options",
    "map",
    "as_kit",
}
TOP = {
    "name": "name",
    "out": "out",
    "model": "models",
    "models": "models",
    "benchmark": "benchmarks",
    "benchmarks": "benchmarks",
    "setting": "settings",
    "settings": "settings",
    "defaults": "defaults",
    "limits": "limits",
}
"""Keys of a plan, and what each is read as: `[[model]]` is `models`."""
DESCRIBED = {
    **settings_of(RunSpec),
    **settings_of(ModelOptions),
    **settings_of(Generation),
    **settings_of(MediaSettings),
}
SPELLINGS = {
    option.removeprefix("--").replace("-", "_"): name
    for name, setting in DESCRIBED.items()
    for option in setting.options
    if option.startswith("--")
} | {"option": "options"}
"""Options of `snellen run` that settings have another name for; hyphens are underscores."""
KEYS = ("api_key", "key", "token", "secret", "password", "authorization")


class PlanEntry(Struct, frozen=True):
    """One model, benchmark or setting of a plan: its name, what tables call it, and its own settings."""

    name: str
    label: str
    values: Mapping[str, Any]


class PlanLimits(Struct, frozen=True):
    """What a plan may do at once.

    Attributes:
        concurrency: requests in flight, over all endpoints.
        per_endpoint: requests in flight at one endpoint.
        runs: runs at the same time.
    """

    concurrency: int = 64
    per_endpoint: int = 16
    runs: int = 8


class Plan(Struct, frozen=True):
    """The content of a plan file."""

    path: Path
    name: str
    out: Path
    models: tuple[PlanEntry, ...]
    benchmarks: tuple[PlanEntry, ...]
    settings: tuple[PlanEntry, ...]
    defaults: Mapping[str, Any] = {}
    limits: PlanLimits = field(default_factory=PlanLimits)


def is_plan(name: str) -> bool:
    """Return True for a TOML file with models; a declaration of a benchmark has a source instead."""
    path = Path(name)
    try:
        if path.suffix.lower() != ".toml" or not path.is_file() or path.stat().st_size > PLAN_BYTES:
            return False
        document = parse_toml(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return bool(document.keys() & {"model", "models"}) and "source" not in document


def read_plan(path: str | Path) -> Plan:
    """Read a plan file.

    Raises:
        DataError: it is no TOML, or none of a plan's size.
        UsageError: a word of it is unknown or has the wrong type, or it has no cell.
    """
    path = Path(path)
    regular_file(path)
    if path.stat().st_size > PLAN_BYTES:
        raise DataError(f"{path} is larger than {PLAN_BYTES:,} bytes", "It is not a plan.")
    try:
        document = parse_toml(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise DataError(f"{path}: not TOML: {error}", "Correct the line; `snellen --help plans` has a plan.") from error
    if (secret := key_among(document)) is not None:
        raise UsageError(f"{path} holds {secret}", "Put the key into an environment variable, and name it: key_env.")
    parts: dict[str, Any] = {}
    for key, value in document.items():
        if key not in TOP:
            raise _unknown(path, "the plan", key, TOP)
        if TOP[key] in parts:
            raise UsageError(f"{path}: {key} stands there twice, in singular and in plural", "Use one of the two.")
        parts[TOP[key]] = value
    settings = parts.get("settings", [])
    if isinstance(settings, dict):
        settings = [{"name": name, **_table(path, f"settings.{name}", value)} for name, value in settings.items()]
    plan = Plan(
        path=path,
        name=_text(path, "name", parts.get("name", path.stem)),
        out=Path(_text(path, "out", parts.get("out", str(Path("results", path.stem))))),
        models=tuple(_entries(path, "models", parts.get("models"), OF_MODEL)),
        benchmarks=tuple(_entries(path, "benchmarks", parts.get("benchmarks"), OF_BENCHMARK)),
        settings=tuple(_entries(path, "settings", settings, SETTINGS | {"name", "label"}, may_be_empty=True)),
        defaults=checked_table(path, "defaults", _table(path, "defaults", parts.get("defaults", {})), SETTINGS),
        limits=_limits(path, _table(path, "limits", parts.get("limits", {}))),
    )
    count = len(plan.models) * len(plan.benchmarks) * max(1, len(plan.settings))
    if count > MOST_CELLS:
        raise UsageError(f"{path}: the plan has {count:,} cells; at most {MOST_CELLS:,} are run", "Divide it.")
    return plan


def _entries(
    path: Path, part: str, values: Any, known: frozenset[str] | set[str], *, may_be_empty: bool = False
) -> Iterator[PlanEntry]:
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, list) or (not values and not may_be_empty):
        example = {"models": 'models = ["api:NAME"]', "benchmarks": 'benchmarks = ["chart"]'}.get(part, "[[settings]]")
        raise UsageError(
            f"{path}: {part} is {'missing' if values is None else 'empty' if values == [] else repr(values)[:60]}",
            f"Write a list, such as {example}, or tables [[{part}]].",
        )
    labels: set[str] = set()
    for number, value in enumerate(values, 1):
        where = f"{part}, entry {number}"
        table = (
            {"name": value} if isinstance(value, str) else checked_table(path, where, _table(path, where, value), known)
        )
        name = _text(path, f"{where}: name", table.get("name"))
        label = _text(path, f"{where}: label", table.get("label", name))
        if label in labels:
            raise UsageError(
                f"{path}: two of the {part} are called {label!r}",
                'Give one of them a label of its own: label = "NAME"',
            )
        labels.add(label)
        yield PlanEntry(name, label, {key: own for key, own in table.items() if key not in ("name", "label")})


def _table(path: Path, where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(
            f"{path}: {where} is {value!r}"[:200] + "; a table was expected", "See `snellen --help plans`."
        )
    return value


def checked_table(path: Path, where: str, table: dict[str, Any], known: frozenset[str] | set[str]) -> dict[str, Any]:
    """Return a table with its keys as settings are called. Raises UsageError for an unknown key, or a value out of range."""
    respelled: dict[str, Any] = {}
    for typed, value in table.items():
        key = SPELLINGS.get(typed.replace("-", "_"), typed.replace("-", "_"))
        if key.lower() in KEYS:
            raise UsageError(
                f"{path}: {where} has {key}: keys do not stand in plans",
                "Put the key into an environment variable, and name the variable: key_env.",
            )
        if key not in known:
            raise _unknown(path, where, typed, known)
        if key in respelled:
            raise UsageError(f"{path}: {where} has {key} twice, in two spellings", "Use one of the two.")
        low, high = (DESCRIBED[key].least, DESCRIBED[key].most or 2**53) if key in DESCRIBED else (None, 0)
        if low is not None and isinstance(value, int | float) and not low <= value <= high:
            bounds = f"of at least {low:,.10g}" if high >= 1e9 else f"from {low:,.10g} to {high:,.10g}"
            raise UsageError(
                f"{path}: {where} has {typed} = {value}; a value {bounds} was expected", f"Change {typed}."
            )
        if key == "stop" and isinstance(value, list) and "" in value:
            raise UsageError(
                f"{path}: {where} has an empty text in stop; a text at which replies end was expected", "Remove it."
            )
        respelled[key] = value
    return respelled


def _unknown(path: Path, where: str, key: str, known: Any) -> UsageError:
    error = UsageError(f"{path}: {where} has no key {key!r}", f"Keys: {', '.join(sorted(known))}.")
    error.near(key, known)
    if error.correction:  # the key stands in the file, so that no command line can be corrected
        error.hint = f"Did you mean {error.correction[1]}? {error.hint}"
    return error


def _text(path: Path, where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise UsageError(
            f"{path}: {where} is {'missing' if value is None else repr(value)[:100]}; a text was expected",
            "See `snellen --help plans`.",
        )
    return value


def _limits(path: Path, table: dict[str, Any]) -> PlanLimits:
    table = {key.replace("-", "_"): value for key, value in table.items()}
    for key in table:
        if key not in PlanLimits.__struct_fields__:
            raise _unknown(path, "limits", key, PlanLimits.__struct_fields__)
    for key, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 65_536:
            raise UsageError(
                f"{path}: limits.{key} is {value!r}; a whole number from 1 to 65,536 was expected", f"Change {key}."
            )
    return PlanLimits(**table)
