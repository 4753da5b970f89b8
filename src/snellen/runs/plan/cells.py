"""Cells of a plan: a run for each model, benchmark and setting, and the differences from the runs that are there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Benchmark
from snellen.engine import fingerprint
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import FingerprintError, SnellenError, UsageError
from snellen.media import check_settings
from snellen.models.base import ModelOptions
from snellen.models.registry import require_kind, runtime_of
from snellen.runs.perform import checked, open_model
from snellen.runs.plan.document import ASKED, GENERATION, MEDIA, Plan, PlanEntry
from snellen.runs.settings import find_benchmark, run_spec
from snellen.sources.hub import HUB
from snellen.text import pretty_json, slug
from snellen.types import Generation, MediaSettings

if TYPE_CHECKING:
    from snellen.runs.judge.ask import AskedModels

OF_DATA = ("data", "images", "options", "map", "as_kit")
ON_THIS_MACHINE = "this machine"
RECORD = "plan.json"
RECORD_BYTES = 64 << 20


@dataclass(frozen=True)
class PlanCell:
    """One run of a plan.

    Attributes:
        model, benchmark, setting: labels; setting is empty where the plan has none.
        spec: the run.
        folder: where it goes.
        subject: the benchmark.
        fault: why it cannot be run, where its data are not there; it fails in its turn.
        asked: the models that are asked about its replies.
    """

    model: str
    benchmark: str
    setting: str
    spec: RunSpec
    folder: Path
    subject: Benchmark
    fault: SnellenError | None = None
    asked: AskedModels | None = None

    @property
    def row(self) -> str:
        """The row of the cell in the table: the model, and the setting if there are several."""
        return f"{self.model} · {self.setting}" if self.setting else self.model

    @property
    def kind(self) -> str:
        return self.spec.model.partition(":")[0]

    @property
    def endpoint(self) -> str:
        """Return what the cell shares with others: its endpoint, or this machine."""
        if runtime_of(self.kind).here:
            return ON_THIS_MACHINE
        if self.kind == "replay":
            return "replay"
        from snellen.models.api.endpoint import parse_endpoint

        try:
            return str(parse_endpoint(self.spec.options.base_url))
        except UsageError:  # opening the model says what is wrong with it
            return str(self.spec.options.base_url)

    def settings(self) -> dict[str, Any]:
        """Return the settings of the cell, for plan.json."""
        settings: dict[str, Any] = msgspec.to_builtins(self.spec, enc_hook=str)
        return settings


def cells_of(plan: Plan, out: Path | None = None) -> list[PlanCell]:
    """Make the cells of a plan, after all checks that need neither data nor model.

    Raises:
        UsageError: a benchmark, a kind of model or a setting is unknown, or two cells would share a folder.
    """
    cells: list[PlanCell] = []
    folders: dict[str, str] = {}
    for model in plan.models:
        require_kind(model.name)
        for setting in plan.settings or (PlanEntry("", "", {}),):
            for benchmark in plan.benchmarks:
                names = [slug(part) for part in (benchmark.label, model.label, setting.label) if part]
                folder = (out or plan.out) / "-".join(names)
                where = f"{benchmark.label} × {model.label}" + (f" × {setting.label}" if setting.label else "")
                if (other := folders.setdefault(str(folder).lower(), where)) != where:
                    raise UsageError(
                        f"{plan.path}: {other} and {where} would share the folder {folder}", "Give one another label."
                    )
                spec = _spec(plan, model, benchmark, setting, where)
                fault = None
                try:
                    spec, subject = checked(spec, RunFolder(folder), None, trust=True)
                except UsageError as error:
                    raise UsageError(f"{plan.path}, {where}: {error.message}", error.hint) from error
                except SnellenError as error:
                    subject, fault = find_benchmark(spec, trust=True), error
                asked = _asked(plan, _values(plan, model, benchmark, setting), subject, where)
                cells.append(PlanCell(model.label, benchmark.label, setting.label, spec, folder, subject, fault, asked))
    return cells


def _values(plan: Plan, model: PlanEntry, benchmark: PlanEntry, setting: PlanEntry) -> dict[str, Any]:
    """Return the settings of a cell: those of the plan, its benchmark, its model and its setting, the later ones first."""
    return {**plan.defaults, **benchmark.values, **model.values, **setting.values}


def _asked(plan: Plan, values: Mapping[str, Any], subject: Benchmark, where: str) -> AskedModels | None:
    """Return the models that are asked about a cell's replies, checked; None without any."""
    named = {key: values[key] for key in ASKED if key in values}
    if not named and not subject.judge and not subject.reader:
        return None
    from snellen.runs.judge.ask import AskedModels  # few plans ask any

    try:
        words = msgspec.convert(named, dict[str, str])
        asked = AskedModels(
            words.get("judge"),
            words.get("reader"),
            _place(plan, words.get("rubric")),
            words.get("reader_for", "unread"),
        ).declared_by(subject)
        asked.require(subject)
    except msgspec.ValidationError as error:
        raise UsageError(f"{plan.path}, {where}: {error}", "judge, reader and rubric are texts.") from error
    return asked


def _spec(plan: Plan, model: PlanEntry, benchmark: PlanEntry, setting: PlanEntry, where: str) -> RunSpec:
    """Build the spec of one cell; what a local model cannot use is left out if it is a default of the whole plan."""
    shared = dict(plan.defaults)
    if runtime_of(model.name).here:
        shared = {
            key: value for key, value in shared.items() if key not in ("base_url", "key_env", "extra_body", "prices")
        }
    values = {**shared, **benchmark.values, **model.values, **setting.values}
    settings: dict[str, Any] = {
        key: value for key, value in values.items() if key not in (*GENERATION, *MEDIA, *OF_DATA, *ASKED)
    }
    try:
        for part, names, kind in (("generation", GENERATION, Generation), ("media", MEDIA, MediaSettings)):
            settings[part] = msgspec.convert({key: values[key] for key in names if key in values}, kind)
        settings["media"] = check_settings(settings["media"])
        options = {key: settings.pop(key) for key in list(settings) if key in ModelOptions.__struct_fields__}
        if isinstance(adapter := options.get("adapter"), str):
            options["adapter"] = _place(plan, adapter)
        converted = msgspec.convert({key: msgspec.to_builtins(own) for key, own in options.items()}, ModelOptions)
        extras = {"data": None, "images": None, "options": {}} | {
            key: values[key] for key in ("data", "images", "options") if key in values
        }
        named_options = msgspec.convert(extras["options"], dict[str, str | int | float | bool])
        if (columns := values.get("map")) is not None:
            columns = msgspec.convert(columns, str | dict[str, str])
            pairs = (
                columns if isinstance(columns, str) else ",".join(f"{role}={name}" for role, name in columns.items())
            )
            named_options = {**named_options, "map": pairs}
        if msgspec.convert(values.get("as_kit", False), bool):
            named_options = {**named_options, "as_kit": "true"}
        rest: dict[str, Any] = {
            **settings,
            "data": _place(plan, msgspec.convert(extras["data"], str | None)),
            "images": _place(plan, msgspec.convert(extras["images"], str | None)),
            "benchmark_options": {key: str(own) for key, own in named_options.items()},
            "seed": converted.seed,
        }
        if "subset" in rest:
            rest["subset"] = _place(plan, msgspec.convert(rest["subset"], str))
        if isinstance(rest.get("schema"), str):
            rest["schema"] = _place(plan, rest["schema"])
        spec = run_spec(_benchmark_name(plan, benchmark.name), model.name, rest)  # type: ignore[arg-type]
        return msgspec.convert(
            msgspec.to_builtins(structs.replace(spec, options=converted), enc_hook=str), RunSpec, dec_hook=_path
        )
    except UsageError as error:
        raise UsageError(f"{plan.path}, {where}: {error.message}", error.hint) from error
    except msgspec.ValidationError as error:
        raise UsageError(
            f"{plan.path}, {where}: {error}", "Correct the value; docs/plans.md lists the keys."
        ) from error


def _path(kind: type, value: Any) -> Any:
    return kind(value)


def _place(plan: Plan, value: str | None) -> str | None:
    """Return a path beside the plan, if there is one of that name; else as it is written."""
    if value is None or value.startswith(HUB):
        return value
    beside = plan.path.parent / value
    return str(beside) if not Path(value).is_absolute() and beside.exists() else value


def _benchmark_name(plan: Plan, name: str) -> str:
    return (_place(plan, name) or name) if "." in name or "/" in name else name


def require_same_runs(cells: Sequence[PlanCell]) -> None:
    """Refuse a plan that would go on with runs that were started with other settings; nothing is sent.

    Raises:
        FingerprintError: every cell of that sort with its differences.
    """
    lines = []
    for cell in cells:
        folder = RunFolder(cell.folder)
        if not folder.exists() or cell.fault is not None:
            continue
        try:
            now = fingerprint.identity(cell.spec, cell.subject, open_model(cell.spec, folder))
        except SnellenError:  # a model or data that is not there any more: the cell fails in its turn
            continue
        changed = list(fingerprint.differences(folder.meta().identity, now))
        if changed:
            lines.append(f"  {cell.benchmark} × {cell.row}, in {cell.folder}:")
            lines += [f"    {name}  {_short(before)}  ->  {_short(after)}" for name, before, after in changed]
    if lines:
        raise FingerprintError(
            "the plan has other settings than runs that are there; resuming would mix two experiments.\n"
            + "\n".join(lines),
            "To start them anew: give the changed entries another label, or pass another --out. No request was sent.",
        )


def _short(value: Any) -> str:
    text = "(none)" if value is None else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def changes(out: Path, cells: Sequence[PlanCell]) -> Iterator[str]:
    """Yield the differences from the last call of the plan in this folder, one line each."""
    path = out / RECORD
    try:
        if not path.is_file() or path.stat().st_size > RECORD_BYTES:
            return
        before = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
    except (OSError, ValueError, RecursionError):
        return
    now = {cell.folder.name: cell.settings() for cell in cells}
    for name in now.keys() - before.keys():
        yield f"new in the plan: {name}"
    for name in sorted(before.keys() - now.keys()):
        yield f"no longer in the plan: {name}; its run is kept"
    for name in sorted(now.keys() & before.keys()):
        for setting, old, new in fingerprint.differences(before[name], now[name]):
            yield f"changed in the plan: {name}: {setting}  {_short(old)}  ->  {_short(new)}"


def write_record(out: Path, cells: Sequence[PlanCell]) -> None:
    """Write plan.json: the settings of each cell by its folder.

    Raises:
        StorageError: it cannot be written.
    """
    from snellen.errors import StorageError

    content: Mapping[str, Any] = {cell.folder.name: cell.settings() for cell in cells}
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{out} cannot be made: {error.strerror or error}", "Pass another folder: --out.") from error
    RunFolder(out).write(out / RECORD, pretty_json(content))
