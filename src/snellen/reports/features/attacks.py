"""Results of `snellen features attack --json`, matched with the stores whose heads were attacked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, structs

from snellen.errors import DataError, UsageError
from snellen.features.attacks.robust_accuracy import parse_strength
from snellen.features.store.format import read_meta
from snellen.reports.features.plots import AttackPoint
from snellen.types import Metric

NORMS = {"linf": "L∞", "l2": "L2"}
Column = tuple[Path, str]


class AttackFile(Struct, frozen=True):
    """One file: an attack at some strengths, or corruptions.

    Attributes:
        metrics: their names begin with the attack; of an L2 ball with its norm, of a second file that would have the
            same names with the file's.
        notes: those of the file, with its name.
        axis: what a strength is, "" where there is no curve to draw.
        points: accuracy at each strength, clean first.
        general: the same of a general set that was attacked alike, empty where there was none.
        corrupted: whether images were corrupted and not attacked.
    """

    metrics: tuple[Metric, ...]
    notes: tuple[str, ...]
    axis: str
    points: tuple[AttackPoint, ...]
    corrupted: bool
    general: tuple[AttackPoint, ...] = ()

    def lines(self) -> list[tuple[str, tuple[AttackPoint, ...]]]:
        """Return the axis label and the points of each line to draw."""
        lines = [(self.axis, self.points)] if self.axis else []
        attack, comma, rest = self.axis.partition(",")
        return lines + ([(f"{attack} on the general set{comma}{rest}", self.general)] if self.general else [])


def attacks_by_column(columns: Sequence[Column], files: Sequence[Path]) -> dict[Column, list[AttackFile]]:
    """Match each file with its column: the store and the output that its head was trained on.

    A head over several outputs side by side belongs to the first column of its store that is one of them.

    Raises:
        DataError: a file is not what the command prints.
        UsageError: a file of a store or an output that has no column.
    """
    attacks: dict[Column, list[AttackFile]] = {column: [] for column in columns}
    for file in files:
        attack = read_attack(file)
        column = _column(attack, columns)
        if column is None:
            settings = attack.get("settings", {})
            columns_on_page = ", ".join(f"{path} {name}" for path, name in columns)
            raise UsageError(
                f"{file} is about the head {attack.get('store')} over {settings.get('output', 'an output it does not name')}, "
                f"and nothing on the page is: {columns_on_page}",
                "Name its store, and its output with --output; paths in the file are relative to where it was made.",
            )
        _require_encoder(attack, file, column[0])
        attacks[column].append(
            _attack(attack, file, {metric.name for other in attacks[column] for metric in other.metrics})
        )
    return attacks


def _require_encoder(attack: Mapping[str, Any], file: Path, store: Path) -> None:
    """Refuse results of a head that was trained on another encoder than the store's. Raises DataError."""
    identity = attack.get("settings", {}).get("identity")
    if not isinstance(identity, Mapping):
        return
    now = read_meta(store)
    if now.kind == "extracted" and identity.get("encoder") != now.identity.get("encoder"):
        raise DataError(
            f"{file}: the attacked head was trained on another encoder than that of the features now in {store}",
            "Train the probe on the store and attack it again, or name the store that the head was trained on.",
        )


def read_attack(path: Path) -> Mapping[str, Any]:
    """Read the command's output. Raises DataError."""
    try:
        attack = json.loads(path.read_text("utf-8"))
        if not isinstance(attack, dict) or attack.get("measure") != "attack":
            raise ValueError("its measure is another")
        convert(attack.get("metrics"), list[Metric])
        convert(attack.get("notes", []), list[str])
        if not isinstance(attack.get("settings", {}), dict):
            raise ValueError("its settings are no object")
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        raise DataError(
            f"{path} is not the output of `snellen features attack --json`: {error}",
            "Save the command's output in a file.",
        ) from error
    return attack


def _column(attack: Mapping[str, Any], columns: Sequence[Column]) -> Column | None:
    settings = attack.get("settings", {})
    head = Path(str(attack.get("store", ""))).resolve()
    places = {head, head.parent}
    if settings.get("features"):
        places.add(Path(str(settings["features"])).resolve())
    parts = str(settings["output"]).split("+") if settings.get("output") else None
    return next(
        ((path, name) for path, name in columns if path.resolve() in places and (parts is None or name in parts)),
        None,
    )


def _attack(attack: Mapping[str, Any], file: Path, taken: set[str]) -> AttackFile:
    settings = attack.get("settings", {})
    own = convert(attack["metrics"], list[Metric])
    corrupted = "attack" not in settings
    norm = str(settings.get("norm"))
    words = ["" if corrupted else str(settings["attack"]), "L2" if norm == "l2" else ""]
    if "+" in str(settings.get("output")):
        words.append(f"({settings['output']})")
    prefix = " ".join(word for word in words if word)
    named = _with_prefix(own, prefix)
    if taken & {metric.name for metric in named}:
        named = _with_prefix(own, f"{prefix} ({file.name})".strip())
    notes = tuple(f"{file.name}: {note}" for note in attack.get("notes", []))
    written = settings.get("eps")
    if corrupted or not isinstance(written, list):
        return AttackFile(named, notes, "", (), corrupted)
    axis = f"{settings['attack']}, eps {NORMS.get(norm, '')}".strip()
    return AttackFile(named, notes, axis, _points(own, written, ""), False, _points(own, written, "general/"))


def _points(metrics: Sequence[Metric], written: Sequence[str], begins: str) -> tuple[AttackPoint, ...]:
    """Return the accuracy at each strength of the metrics with this prefix, clean first."""
    points = [AttackPoint(0.0, "0", metric) for metric in metrics if metric.name == f"{begins}clean_accuracy"]
    for metric in metrics:
        text = metric.name.removeprefix(f"{begins}accuracy@")
        if text in written and text != metric.name:
            points.append(AttackPoint(parse_strength(text), text, metric))
    return tuple(sorted(points, key=lambda point: point.strength))


def _with_prefix(metrics: Sequence[Metric], prefix: str) -> tuple[Metric, ...]:
    return tuple(
        structs.replace(metric, name=f"{prefix}/{metric.name}" if prefix else metric.name) for metric in metrics
    )
