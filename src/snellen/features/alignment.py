"""Alignment diagnosis: one probe on a tower's raw features and on the projector's output, to measure the projector's loss.

Following FG-BMK's diagnosis of vision-language alignment: `raw` is the tower's output, `aligned` what the projector
makes of it, `matched` the output of a projector that was trained again on texts of the granularity of the question
("The object species is X"). Everything is paired by image: the same rows train, the same rows test.

Also the probe over several data sets' classes at once (cross-meta-category): what does one lose when birds, cars and
dishes are told apart by one layer?
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.errors import DataError, UsageError
from snellen.features.encoder_identity import require_one_encoder, require_stages
from snellen.features.probes import ProbeSettings, probe
from snellen.features.store import TEST, TRAIN, Features
from snellen.scoring.statistics import Comparison, compare, mean_of
from snellen.types import Metric


class Alignment(Struct, frozen=True, eq=False):
    """One data set.

    Attributes:
        name: of the data set.
        correct: stage ("raw", "aligned", "matched") to [m] bool over the same test rows.
        ids: [m] their ids.
        differences: "aligned-raw", "matched-raw", "matched-aligned" to the paired comparison; negative is a loss.
        settings: of the probe at each stage.
        probe_notes: what a reader of each stage's accuracy has to know.
        compared: whose features each stage holds, and what speaks against comparing them.
        left_out: rows that not all stages have.
        train_rows: how many train.
        classes: how many there are in train.
    """

    name: str
    correct: dict[str, np.ndarray]
    ids: np.ndarray
    differences: dict[str, Comparison]
    settings: dict[str, ProbeSettings]
    probe_notes: dict[str, list[str]]
    compared: tuple[str, ...]
    left_out: int
    train_rows: int
    classes: int

    def metrics(self, prefix: str = "") -> list[Metric]:
        """accuracy/STAGE, and difference/A-B with its paired 95 % interval."""
        metrics = [_accuracy(f"{prefix}accuracy/{stage}", right, self.classes) for stage, right in self.correct.items()]
        return metrics + [
            comparison.metric(f"{prefix}difference/{name}") for name, comparison in self.differences.items()
        ]

    def notes(self) -> list[str]:
        """Return notes for readers of the metrics, one sentence each."""
        notes = [
            f"{self.name}: {name} {comparison.difference:+.4f}, p = {comparison.p_value:.3g} ({comparison.test_text}, {comparison.wins:,} better, "
            f"{comparison.losses:,} worse)"
            for name, comparison in self.differences.items()
        ]
        notes += [f"{self.name}: {line}" for line in self.compared]
        every = dict.fromkeys(line for lines in self.probe_notes.values() for line in lines)
        for line in every:
            stages = [stage for stage, lines in self.probe_notes.items() if line in lines]
            notes.append(f"{self.name}, {', '.join(stages)}: {line}")
        if self.left_out:
            notes.append(f"{self.name}: {self.left_out:,} rows are not in all stores and were omitted from all.")
        return notes


class CrossMeta(Struct, frozen=True, eq=False):
    """One probe over the classes of several data sets, tested on each.

    Attributes:
        names: of the data sets.
        alone: [m] bool each: right with a probe of the data set's own.
        merged: [m] bool each: right among all data sets' classes.
        astray: [m] bool each: taken for a class of another data set.
        differences: merged minus alone, paired.
        classes: of each data set, in train.
        probe_notes: what a reader of each probe's accuracy has to know, those of the data sets, then the merged one's.
    """

    names: tuple[str, ...]
    alone: tuple[np.ndarray, ...]
    merged: tuple[np.ndarray, ...]
    astray: tuple[np.ndarray, ...]
    differences: tuple[Comparison, ...]
    classes: tuple[int, ...]
    probe_notes: tuple[str, ...] = ()

    def metrics(self) -> list[Metric]:
        """accuracy/alone, accuracy/merged, difference/merged-alone and astray of each data set."""
        metrics = []
        for i, name in enumerate(self.names):
            metrics.append(_accuracy(f"{name}/accuracy/alone", self.alone[i], self.classes[i]))
            metrics.append(_accuracy(f"{name}/accuracy/merged", self.merged[i], sum(self.classes)))
            metrics.append(self.differences[i].metric(f"{name}/difference/merged-alone"))
            metrics.append(_accuracy(f"{name}/astray", self.astray[i], None))
        return metrics


def alignment(
    raw: Features,
    aligned: Features,
    matched: Features | None = None,
    *,
    name: str = "",
    anyway: bool = False,
    **how: Any,
) -> Alignment:
    """The same probe at two or three stages of one data set.

    Rows are matched by split and id. Those that one stage does not have are left out of all, and counted.

    Args:
        raw, aligned, matched: features of the same images with the splits train and test.
        name: of the data set; "" takes that of raw's folder.
        anyway: compare stages that are not of one model too; the notes say so.
        how: settings of `snellen.features.probes.probe`, the same at each stage.

    Raises:
        DataError: stages are of different encoders, share no rows, a row has different labels in two of them, or an id
            comes twice in a split.
        UsageError: rows have several labels, or as `probe`.
    """
    stages = {"raw": raw, "aligned": aligned, **({} if matched is None else {"matched": matched})}
    compared = require_stages(stages, anyway=anyway)
    rows, left_out = _same_rows(stages)
    correct: dict[str, np.ndarray] = {}
    settings: dict[str, ProbeSettings] = {}
    notes: dict[str, list[str]] = {}
    for stage, features in stages.items():
        part = features.take(rows[stage])
        fitted = probe(part.values, part.labels, train_rows=TRAIN, test_rows=TEST, split=part.split, **how)
        correct[stage], settings[stage], notes[stage] = fitted.correct, fitted.settings, fitted.notes()
    tested = raw.take(rows["raw"])
    every = np.arange(int((tested.split == TEST).sum()), dtype=np.int64)
    pairs = [("aligned", "raw"), *([] if matched is None else [("matched", "raw"), ("matched", "aligned")])]
    return Alignment(
        name=name or (raw.path.name if raw.path is not None else raw.name),
        correct=correct,
        ids=tested.ids[tested.split == TEST],
        differences={
            f"{first}-{second}": compare(correct[first].astype(float), correct[second].astype(float), every)
            for first, second in pairs
        },
        settings=settings,
        probe_notes=notes,
        compared=tuple(compared),
        left_out=left_out,
        train_rows=int((tested.split == TRAIN).sum()),
        classes=settings["raw"].classes,
    )


def cross_meta(stores: Sequence[Features], names: Sequence[str] | None = None, **how: Any) -> CrossMeta:
    """One probe over the classes of several data sets at once, beside each one's own.

    Every class of every data set is a class of its own, also where two data sets use the same id.

    Args:
        stores: features of one encoder and output, with the splits train and test.
        names: of the data sets; None takes those of the folders.
        how: settings of `snellen.features.probes.probe`, the same for all.

    Raises:
        UsageError: fewer than two data sets, two of one name, rows with several labels.
        DataError: features of different widths, or that were extracted with different encoders or as different outputs.
    """
    store_names = tuple(names) if names is not None else distinct_names(stores)
    if len(stores) < 2 or len(set(store_names)) < len(stores):
        raise UsageError(
            f"{len(stores)} data sets ({', '.join(store_names)}); two or more of different names were expected.",
            "Name one store a data set.",
        )
    widths = {int(store.values.shape[1]) for store in stores}
    if len(widths) > 1:
        raise DataError(
            f"features of different widths: {sorted(widths)}", "Merge stores of one encoder and one output."
        )
    require_one_encoder(stores, store_names)
    values, labels, splits, first, alone, classes = [], [], [], [0], [], []
    notes: list[str] = []
    for store, name in zip(stores, store_names, strict=True):
        part = store.take(np.flatnonzero(np.isin(store.split.astype(str), (TRAIN, TEST))))
        own = probe(part.values, _single(part), train_rows=TRAIN, test_rows=TEST, split=part.split, **how)
        alone.append(own.correct)
        classes.append(own.settings.classes)
        notes += [f"{name}, alone: {line}" for line in own.notes()]
        values.append(np.asarray(part.values))
        labels.append(part.labels.columns + first[-1])
        splits.append(part.split)
        first.append(first[-1] + len(part.labels.classes))
    together = probe(
        np.concatenate(values),
        np.concatenate(labels),
        train_rows=TRAIN,
        test_rows=TEST,
        split=np.concatenate(splits),
        **how,
    )
    notes += [f"merged: {line}" for line in together.notes()]
    merged, astray = [], []
    for start, end in pairwise(first):
        in_set = (together.targets >= start) & (together.targets < end)
        merged.append(together.correct[in_set])
        astray.append(((together.predicted < start) | (together.predicted >= end))[in_set])
    differences = tuple(
        compare(first.astype(float), second.astype(float), np.arange(len(first), dtype=np.int64))
        for first, second in zip(merged, alone, strict=True)
    )
    return CrossMeta(store_names, tuple(alone), tuple(merged), tuple(astray), differences, tuple(classes), tuple(notes))


def distinct_names(stores: Sequence[Features]) -> tuple[str, ...]:
    """Return a distinct name for each store: its folder's name, or its full path if two folders share a name."""
    short = [store.path.resolve().name if store.path else store.name for store in stores]
    return tuple(
        str(store.path) if store.path and short.count(name) > 1 else name
        for store, name in zip(stores, short, strict=True)
    )


def _single(features: Features) -> np.ndarray:
    if features.labels.single is None:
        raise UsageError("rows have several labels.", "The diagnosis takes one class a row.")
    return features.labels.single


def _same_rows(stages: dict[str, Features]) -> tuple[dict[str, np.ndarray], int]:
    """Row numbers of each stage, the k-th of each being the same image, and how many rows not all stages have."""
    rows_by_key: dict[str, dict[tuple[str, str], int]] = {}
    for stage, features in stages.items():
        _single(features)
        row_of: dict[tuple[str, str], int] = {}
        keys = zip(features.split.astype(str).tolist(), features.ids.astype(str).tolist(), strict=True)
        for row, key in enumerate(keys):
            if key[0] not in (TRAIN, TEST):
                continue
            if key in row_of:
                raise DataError(
                    f"{stage}: the id {key[1]!r} comes twice in the split {key[0]}, so rows cannot be paired",
                    "Give every image an id of its own.",
                )
            row_of[key] = row
        rows_by_key[stage] = row_of
    shared = [key for key in rows_by_key["raw"] if all(key in row_of for row_of in rows_by_key.values())]
    if not any(key[0] == TEST for key in shared) or not any(key[0] == TRAIN for key in shared):
        counts = ", ".join(f"{stage} {len(row_of):,}" for stage, row_of in rows_by_key.items())
        raise DataError(
            f"the stores share no rows of train and test by id (rows of these splits: {counts})",
            "Extract them from the same csv files, named train and test.",
        )
    rows = {stage: np.array([row_of[key] for key in shared], dtype=np.int64) for stage, row_of in rows_by_key.items()}
    wanted = _single(stages["raw"])[rows["raw"]]
    for stage, features in stages.items():
        wrong = np.flatnonzero(_single(features)[rows[stage]] != wanted)
        if len(wrong):
            split, name = shared[int(wrong[0])]
            raise DataError(
                f"{name!r} ({split}) has class {wanted[wrong[0]]} in raw and another in {stage}",
                "The stores are not of the same data set.",
            )
    return rows, len(set().union(*rows_by_key.values())) - len(shared)


def _accuracy(name: str, right: np.ndarray, classes: int | None) -> Metric:
    return mean_of(name, right.astype(np.float64), chance=None if classes is None else 1 / classes)
