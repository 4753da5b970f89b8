"""From feature stores and runs on disk to one HTML page: measures every store, and joins it with what was asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins
from numpy.typing import NDArray

from snellen.errors import UnsafeArchiveError, UsageError
from snellen.features.encoder_identity import called, encoder_name
from snellen.features.knn import knn
from snellen.features.plot_data import plane, precision_recall, sheet
from snellen.features.probes import Probe, probe
from snellen.features.probes.fit import Method
from snellen.features.ranking.similarity import Measure
from snellen.features.result import told as as_told
from snellen.features.retrieval import Retrieval, retrieval
from snellen.features.says_sees import HALFWAY, Join, NothingInCommon, Says, SaysSees, Sees, says_sees
from snellen.features.store import Features, open_store, outputs_of
from snellen.reports.features.attacks import Attacks, attacks_by_column
from snellen.reports.features.page import JoinedView, StoreView, render
from snellen.reports.render import written
from snellen.runs.run import Run
from snellen.runs.scoring import Scored
from snellen.sources import open_tree
from snellen.sources.tree import Tree
from snellen.types import Blob, Image, Metric, Video

KS = (1, 10, 20)


class Choices(Struct, frozen=True):
    """How stores are measured and joined.

    Attributes:
        outputs: names of outputs, "all" among them for every one; empty for each store's first.
        similarity, method: of the neighbours; of the probe.
        images: where pictures lie; None takes where an extraction found them, if it is still there.
        join, sees_from, says_from: see `says_sees`.
        profile, level: of the runs: how replies are scored, and which level of a taxonomy is taken (the finest).
        measured: files that `snellen features attack --json` printed.
    """

    outputs: Sequence[str] = ()
    similarity: Measure = "cosine"
    method: Method = "logistic"
    images: Path | None = None
    join: Join = "image"
    sees_from: float = HALFWAY
    says_from: float = HALFWAY
    profile: str | None = None
    level: str | None = None
    measured: Sequence[Path] = ()


class Measured(Struct, frozen=True, eq=False):
    """One output of one store with what was measured on it."""

    name: str
    path: Path
    features: Features
    found: Retrieval
    probe: Probe
    report: list[dict[str, Any]]
    view: StoreView


def write(
    stores: Sequence[Path], out: Path, *, runs: Sequence[Run] = (), choices: Choices | None = None
) -> tuple[Path, dict[str, Any]]:
    """Measure stores, join them with runs, and write one self-contained page.

    Returns:
        The page's path, and the same as data: `stores` and `says_sees`, each a list in the shape that
        `snellen features X --json` prints.

    Raises:
        SnellenError: a store or a run cannot be read, or has nothing in common with the others.
    """
    chosen = Choices() if choices is None else choices
    columns = _columns(stores, chosen.outputs)
    given = attacks_by_column([(path, name) for path, name, _ in columns], chosen.measured)
    measured = [_measure(path, name, title, chosen, given[path, name]) for path, name, title in columns]
    joined, told = [], []
    for run in runs:
        said = answers(run, chosen.profile, chosen.level)
        met, apart = _met(said.says, measured, chosen)
        for one, found in met:
            run_name = run.path.name or run.path.resolve().name
            notes = [_two_models(one.features, run), *found.notes(), *apart, *said.notes, *run.notes()]
            joined.append(JoinedView(one.name, run_name, run.meta.spec.model, found, notes))
            told.append(_as_json(one, run, said, found, notes))
    page = render([one.view for one in measured], joined)
    data = {"page": str(out), "stores": [part for one in measured for part in one.report], "says_sees": told}
    return written(page, out), data


def _two_models(features: Features, run: Run) -> str:
    """Whose features are set beside whose answers, and whether these are known to be one model."""
    encoder, model = encoder_name(features), run.meta.spec.model
    same = encoder.rpartition(":")[2] == model.rpartition(":")[2]
    remark = "" if same else " Nothing shows that this encoder is the tower of that model."
    return f"Seen: {called(features)}. Said: {model}.{remark}"


def _met(
    says: Says, measured: Sequence[Measured], chosen: Choices
) -> tuple[list[tuple[Measured, SaysSees]], list[str]]:  # fmt: skip
    """A run's answers against each store that they can be joined with; and of the others a sentence each.

    Raises:
        NothingInCommon: there is no such store.
    """
    met: list[tuple[Measured, SaysSees]] = []
    apart: dict[str, NothingInCommon] = {}
    for one in measured:
        try:
            found = says_sees(
                seen(one.features, one.probe),
                says,
                join=chosen.join,
                sees_from=chosen.sees_from,
                says_from=chosen.says_from,
            )
        except NothingInCommon as error:
            apart[one.name] = error
        else:
            met.append((one, found))
    if not met:
        raise next(iter(apart.values()))
    return met, [f"{name} is not set against this run: {error.message}." for name, error in apart.items()]


def _columns(stores: Sequence[Path], outputs: Sequence[str]) -> list[tuple[Path, str, str]]:
    """(store, output, what the page calls it) of everything that is measured."""
    found: list[tuple[Path, str]] = []
    for path in stores:
        there = list(outputs_of(path))
        wanted = there if "all" in outputs else [name for name in outputs if name in there] or there[:1]
        found += [(path, name) for name in wanted]
    known = {name for path in stores for name in outputs_of(path)} | {"all"}
    if unknown := [name for name in outputs if name not in known]:
        raise UsageError(f"no store has an output {unknown[0]!r}", f"There are: {', '.join(sorted(known))}.")
    short = [path.resolve().name for path in stores]
    titles = []
    for path, name in found:
        store = str(path) if short.count(path.resolve().name) > 1 else path.resolve().name
        several = sum(other == path for other, _ in found) > 1
        titles.append((path, name, f"{store} · {name}" if several else store))
    return titles


def _measure(path: Path, output: str, title: str, chosen: Choices, attacks: Sequence[Attacks]) -> Measured:
    """Retrieval, k-NN and probe of one output, and what the plots are drawn from."""
    features = open_store(path, output)
    halves = features.halves
    into, asks = halves or (None, None)
    found = retrieval(
        features.values,
        features.labels,
        queries=asks,
        gallery=into,
        split=features.split,
        similarity=chosen.similarity,
    )
    fitted = probe(
        features.values,
        features.labels,
        train_rows=into,
        test_rows=asks,
        split=features.split,
        method="logistic" if features.labels.many is not None else chosen.method,
    )
    measures: dict[str, list[Metric]] = {"Retrieval": found.metrics()}
    notes = [*found.notes()]
    report = [as_told(path, "retrieval", {"output": output, **to_builtins(found.settings)}, found.metrics(), notes)]
    if halves is not None and features.labels.many is None:
        voted = knn(
            features.values,
            features.labels,
            train=halves[0],
            queries=halves[1],
            split=features.split,
            ks=KS,
            similarity=chosen.similarity,
        )
        measures["k nearest neighbours"] = voted.metrics()
        notes += voted.notes()
        report.append(
            as_told(path, "knn", {"output": output, **to_builtins(voted.settings)}, voted.metrics(), voted.notes())
        )
    measures["Linear probe"] = fitted.metrics()
    notes += fitted.notes()
    settings = {"output": output, **to_builtins(fitted.settings)}
    report.append(as_told(path, "probe", settings, fitted.metrics(), fitted.notes()))
    for title_, kind in (("Under attack", False), ("On corrupted pictures", True)):
        if metrics := [metric for one in attacks if one.corrupted is kind for metric in one.metrics]:
            measures[title_] = metrics
    notes += [note for one in attacks for note in one.notes]
    gallery = np.arange(len(features)) if into is None else np.flatnonzero(features.split == into)
    curve = precision_recall(features, found.rows, gallery, chosen.similarity)
    neighbours = sheet(features, found.rows, gallery, found.values["map"], chosen.similarity)
    shown = {one.row for asked in neighbours for one in (asked.query, *asked.found)}
    pictures, remark = _pictures(features, shown, chosen.images)
    flat = plane(features, found.rows)
    by_name = {metric.name: metric for metric in fitted.metrics()}
    meta = features.meta
    facts = {
        "output": f"{output}, {features.values.shape[1]:,} wide",
        "rows": ", ".join(f"{name} {count:,}".strip() for name, count in features.splits.items()),
        "classes": f"{len(features.labels.classes):,}",
        "encoder": encoder_name(features),
        "fingerprint": "" if meta is None else meta.fingerprint,
        "retrieval": f"{found.settings.protocol}, {found.settings.similarity}",
        "probe": f"{fitted.settings.method}, {fitted.settings.protocol}",
    }
    if meta is not None:
        notes = [*meta.notes, *notes]
        if meta.missing:
            notes.append(f"{len(meta.missing):,} pictures could not be read and are in no number.")
    view = StoreView(
        name=title,
        facts={label: text for label, text in facts.items() if text},
        measures=measures,
        curve=curve if curve.queries else None,
        sheet=neighbours,
        plane=flat,
        plane_names=_names(features, flat.rows),
        classes=fitted.per_class(),
        chance=None if fitted.several is not None else by_name["accuracy"].chance if "accuracy" in by_name else None,
        attacked=[line for one in attacks for line in one.lines()],
        corrupted=[metric for one in attacks if one.corrupted for metric in one.metrics],
        pictures=pictures,
        notes=[*notes, *([remark] if remark else [])],
    )
    return Measured(title, path, features, found, fitted, report, view)


def seen(features: Features, fitted: Probe) -> Sees:
    """What a probe did, row by row. Raises NothingInCommon where rows have several labels."""
    if fitted.several is not None:
        raise NothingInCommon(
            f"{features.path}: rows have several labels each, and says against sees compares one class a picture",
            "Leave --with away, or give a store with one label a row.",
        )
    columns = np.searchsorted(fitted.labels.classes, fitted.targets)
    labels = fitted.labels
    every = [labels.name(column) for column in range(len(labels.classes))]
    times = Counter(every)
    # Two classes of one name are two classes.
    called = [name if times[name] == 1 else f"{name} ({labels.classes[i]})" for i, name in enumerate(every)]
    names = [called[int(one)] for one in columns]
    ids = [str(one) for one in features.ids[fitted.rows]]
    return Sees(ids, names, fitted.correct.astype(np.float64), 1.0 / fitted.settings.classes)


class Answers(Struct, frozen=True, eq=False):
    """Scored answers of a run; how they were chosen, and what was left out."""

    says: Says
    profile: str
    level: str
    notes: list[str]


def answers(run: Run, profile: str | None = None, level: str | None = None) -> Answers:
    """The answers of a run that can be joined: to questions about one picture and its class.

    A sample's group is its picture, its meta `label` the class. Of a taxonomy the finest level is taken unless one is
    named. Questions about attributes and about several pictures, and replies without a score, are left out and
    counted.

    Raises:
        UsageError: no such level, or nothing is left.
    """
    kept: list[tuple[str, str, float, float, str, int]] = []
    left: Counter[str] = Counter()
    unknown = 0
    first = next(iter(run.benchmark.score)) if profile is None else profile

    def add(one: Scored) -> None:
        nonlocal unknown
        sample, score = one.sample, one.scores[first]
        meta = sample.meta
        if sum(isinstance(part, (Image, Video)) for part in sample.prompt.parts) != 1 or not sample.group:
            left["are about several pictures or none"] += 1
        elif str(meta.get("ask", "hierarchy")) != "hierarchy":
            left["are not about the picture's class"] += 1
        elif score.value is None and score.verdict == "unscored":
            left["have no score"] += 1
        elif (chance := _chance(sample.kind, meta.get("chance"), len(sample.options))) is not None and chance >= 1.0:
            left["can be answered in one way only"] += 1
        else:
            unknown += chance is None
            depth = str(meta.get("depth", ""))
            kept.append(
                (
                    sample.group,
                    str(meta.get("label") or ""),
                    float(score.value or 0.0),
                    chance or 0.0,
                    str(meta.get("level") or ""),
                    int(depth) if depth.isdigit() else -1,
                )
            )

    if "," in first or first == "all":
        raise UsageError(f"says against sees takes one profile, not {first!r}", "Name one with --profile.")
    run.summarize(first, each=add, save=False)
    levels = {one[4]: one[5] for one in kept}
    if level is not None and level not in levels:
        raise UsageError(f"{run.path} asks nothing at level {level!r}", f"Its levels: {', '.join(levels) or 'none'}.")
    finest, mixed = level, ""
    if level is None and len(levels) > 1:
        finest = max(levels, key=lambda name: levels[name])
        if sum(depth == levels[finest] for depth in levels.values()) > 1:
            finest = None
            mixed = ", ".join(levels)
    if finest is not None:
        coarser = sum(one[4] != finest for one in kept)
        if coarser:
            left[f"are not at the level {finest}"] += coarser
        kept = [one for one in kept if one[4] == finest]
    if not kept:
        raise UsageError(
            f"{run.path}: no answer can be joined: {'; '.join(f'{n:,} {why}' for why, n in left.items()) or 'it is empty'}",
            "A question about one picture, whose group is the picture, is needed.",
        )
    notes = [f"{count:,} answers {why} and are left out." for why, count in left.items()]
    if mixed:
        notes.append(
            f"Answers at several levels are taken together, as none is the finest: {mixed}. --level takes one."
        )
    if unknown:
        notes.append(f"{unknown:,} answers have no known chance; it was taken as 0.")
    says = Says(
        [one[0] for one in kept],
        [one[1] for one in kept],
        np.array([one[2] for one in kept]),
        np.array([one[3] for one in kept]),
    )
    return Answers(says, first, finest or "all", notes)


def _chance(kind: str, told: Any, options: int) -> float | None:
    """What guessing reaches on a question: what its meta says, else what its kind does."""
    try:
        known = float(told)
    except (TypeError, ValueError):
        known = -1.0
    if 0.0 <= known <= 1.0:
        return known
    if kind == "truth":
        return 0.5
    return 1.0 / options if options else None


def _names(features: Features, rows: NDArray[np.int64]) -> list[str]:
    """The class of each row; of several labels the first."""
    labels = features.labels
    if labels.many is None:
        return [labels.name(int(one)) for one in labels.take(rows).columns]
    kept = labels.many[rows]
    return [labels.name(int(row.argmax())) if row.any() else "no label" for row in kept]


def _pictures(features: Features, rows: set[int], images: Path | None) -> tuple[dict[int, Blob], str]:
    """Row number to picture, for those that are there; and why there are none, where there are none."""
    origin = features.meta.origin if features.meta is not None else {}
    where = images or (Path(str(origin["images"])) if origin.get("images") else None)
    if where is None or not where.exists():
        if images is not None:
            raise UsageError(f"--images {images}: there is nothing there", "Name the folder that the ids lie under.")
        return {}, "The neighbours are shown by name: name the folder of the pictures with --images."
    tree: Tree = open_tree(where)
    found = {row: tree.blob(str(features.ids[row])) for row in sorted(rows) if _there(tree, str(features.ids[row]))}
    missing = len(rows) - len(found)
    return (
        found,
        f"{missing:,} of the {len(rows):,} neighbours shown have no picture under {where.name}." if missing else "",
    )


def _there(tree: Tree, name: str) -> bool:
    """Whether the tree has a picture of this name. Ids of imported features may be anything, also no name of a file."""
    try:
        return tree.exists(name)
    except (UnsafeArchiveError, OSError):
        return False


def _as_json(
    one: Measured, run: Run, said: Answers, found: SaysSees, notes: Sequence[str]
) -> dict[str, Any]:  # fmt: skip
    settings = {
        "output": one.features.name,
        "profile": said.profile,
        "level": said.level,
        **to_builtins(found.settings),
    }
    told = as_told(one.path, "says_sees", settings, found.metrics(), notes)
    return {**told, "run": str(run.path), "classes": list(found.classes)}
