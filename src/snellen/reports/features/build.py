"""Features report: measures feature stores, joins them with question runs, and writes one HTML page."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, ValidationError, convert, structs, to_builtins
from numpy.typing import NDArray

from snellen.errors import DataError, UnsafeArchiveError, UsageError
from snellen.features import json_result as as_told
from snellen.features.attacks.robust_accuracy import parse_strength
from snellen.features.encoder_identity import describe_features, encoder_and_dataset, encoder_name
from snellen.features.knn import knn
from snellen.features.plot_data import map_features, neighbour_sheet, precision_recall_curve
from snellen.features.probes import Probe, probe
from snellen.features.probes.fit import Method
from snellen.features.published import DATASETS, find_dataset, published_figures
from snellen.features.ranking.fgbmk_class_rank import class_rank
from snellen.features.ranking.similarity import Measure
from snellen.features.retrieval import Retrieval, retrieval
from snellen.features.says_sees import HALFWAY, AnswerScores, Join, NothingInCommon, ProbeResults, SaysSees, says_sees
from snellen.features.store import Features, open_store, store_outputs
from snellen.features.store.format import read_meta
from snellen.reports.features.export import export_report
from snellen.reports.features.page import JoinedView, StoreView, render_features
from snellen.reports.features.plots import AttackPoint, split_measured
from snellen.reports.render import write_page
from snellen.runs.run import Run
from snellen.runs.scoring import Scored
from snellen.sources import open_tree
from snellen.sources.image_sets import set_pictures
from snellen.sources.locator import Pictures
from snellen.types import Blob, Image, Metric, Video

KS = (1, 10, 20)


class ReportSettings(Struct, frozen=True):
    """Settings of measuring and joining stores.

    Attributes:
        outputs: names of outputs, "all" among them for every one; empty for each store's first.
        similarity, method: of the neighbours; of the probe.
        images: where images lie; None takes where an extraction found them, if it is still there.
        join, sees_from, says_from: see `says_sees`.
        profile, level: of the runs: how replies are scored, and which level of a taxonomy is taken (the finest).
        measured: files that `snellen features attack --json` and `snellen features acuity --json` printed.
        export: folder for figures (SVG, PDF) and tables (CSV, LaTeX); None writes none.
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
    export: Path | None = None


class MeasuredStore(Struct, frozen=True, eq=False):
    """One output of one store with what was measured on it."""

    name: str
    path: Path
    features: Features
    retrieval: Retrieval
    probe: Probe
    report: list[dict[str, Any]]
    view: StoreView


def write_report(
    stores: Sequence[Path], out: Path, *, runs: Sequence[Run] = (), choices: ReportSettings | None = None
) -> tuple[Path, dict[str, Any]]:
    """Measure stores, join them with runs, and write one self-contained page.

    Returns:
        The page's path, and the same as data: `stores` and `says_sees`, each a list in the shape that
        `snellen features X --json` prints.

    Raises:
        SnellenError: a store or a run cannot be read, or has nothing in common with the others.
    """
    chosen = ReportSettings() if choices is None else choices
    columns = _columns(stores, chosen.outputs)
    thresholds, attacked = split_measured(chosen.measured)
    attacks = attacks_by_column([(path, name) for path, name, _ in columns], attacked)
    measured = [_measure(path, name, title, chosen, attacks[path, name]) for path, name, title in columns]
    joined, joins = [], []
    for run in runs:
        answers_ = joinable_answers(run, chosen.profile, chosen.level)
        met, apart = _join_stores(answers_.says, measured, chosen)
        for store, comparison in met:
            run_name = run.path.name or run.path.resolve().name
            notes = [_two_models(store.features, run), *comparison.notes(), *apart, *answers_.notes, *run.notes()]
            joined.append(JoinedView(store.name, run_name, run.meta.spec.model_with_adapter, comparison, notes))
            joins.append(_as_json(store, run, answers_, comparison, notes))
    views = [store.view for store in measured]
    page = render_features(views, joined, thresholds=thresholds)
    data: dict[str, Any] = {
        "page": str(out),
        "stores": [part for store in measured for part in store.report],
        "says_sees": joins,
    }
    if chosen.export is not None:
        data["exported"] = [str(path) for path in export_report(views, joined, chosen.export)]
    return write_page(page, out), data


def _two_models(features: Features, run: Run) -> str:
    """Name the encoder and the model compared; add a remark unless they are known to be one model."""
    encoder, model = encoder_name(features), run.meta.spec.model_with_adapter
    same = encoder.rpartition(":")[2] == model.rpartition(":")[2]
    remark = "" if same else " It is not known whether this encoder is that model's vision tower."
    return f"Probe: {describe_features(features)}. Answers: {model}.{remark}"


def _join_stores(
    says: AnswerScores, measured: Sequence[MeasuredStore], chosen: ReportSettings
) -> tuple[list[tuple[MeasuredStore, SaysSees]], list[str]]:  # fmt: skip
    """Join a run's answers with each store that they match; return also one sentence for each other store.

    Raises:
        NothingInCommon: there is no such store.
    """
    met: list[tuple[MeasuredStore, SaysSees]] = []
    apart: dict[str, NothingInCommon] = {}
    for store in measured:
        try:
            comparison = says_sees(
                probe_results(store.features, store.probe),
                says,
                join=chosen.join,
                sees_from=chosen.sees_from,
                says_from=chosen.says_from,
            )
        except NothingInCommon as error:
            apart[store.name] = error
        else:
            met.append((store, comparison))
    if not met:
        raise next(iter(apart.values()))
    return met, [f"{name} is not compared with this run: {error.message}." for name, error in apart.items()]


def _columns(stores: Sequence[Path], outputs: Sequence[str]) -> list[tuple[Path, str, str]]:
    """Return (store, output, title) of every column to measure."""
    columns: list[tuple[Path, str]] = []
    for path in stores:
        stored_outputs = list(store_outputs(path))
        wanted = (
            stored_outputs
            if "all" in outputs
            else [name for name in outputs if name in stored_outputs] or stored_outputs[:1]
        )
        columns += [(path, name) for name in wanted]
    known = {name for path in stores for name in store_outputs(path)} | {"all"}
    if unknown := [name for name in outputs if name not in known]:
        raise UsageError(f"no store has an output {unknown[0]!r}", f"There are: {', '.join(sorted(known))}.")
    short = [path.resolve().name for path in stores]
    titles = []
    for path, name in columns:
        store = str(path) if short.count(path.resolve().name) > 1 else path.resolve().name
        several = sum(other == path for other, _ in columns) > 1
        titles.append((path, name, f"{store} · {name}" if several else store))
    return titles


def _measure(
    path: Path, output: str, title: str, chosen: ReportSettings, attacks: Sequence[AttackFile]
) -> MeasuredStore:
    """Measure retrieval, k-NN and probe of one output, and the data of its plots."""
    features = open_store(path, output)
    halves = features.halves
    gallery_split, query_split = halves or (None, None)
    retrieved = retrieval(
        features.values,
        features.labels,
        queries=query_split,
        gallery=gallery_split,
        split=features.split,
        similarity=chosen.similarity,
    )
    fitted = probe(
        features.values,
        features.labels,
        train_rows=gallery_split,
        test_rows=query_split,
        split=features.split,
        method="logistic" if features.labels.many is not None else chosen.method,
    )
    published = published_figures(features, "retrieval")
    measures: dict[str, list[Metric]] = {"Retrieval": retrieved.metrics()}
    if published[0] and halves is not None:  # what the authors call map, beside their figures
        legacy = class_rank(
            features.values, features.labels, gallery=halves[0], queries=halves[1], split=features.split
        )
        measures["Retrieval"] += legacy.metrics()[:1]
    notes = [*retrieved.notes()]
    report = [
        as_told(path, "retrieval", {"output": output, **to_builtins(retrieved.settings)}, retrieved.metrics(), notes)
    ]
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
    for title_, kind in (("Under attack", False), ("On corrupted images", True)):
        if metrics := [metric for attack in attacks if attack.corrupted is kind for metric in attack.metrics]:
            measures[title_] = metrics
    notes += [note for attack in attacks for note in attack.notes]
    gallery = np.arange(len(features)) if gallery_split is None else np.flatnonzero(features.split == gallery_split)
    curve = precision_recall_curve(features, retrieved.rows, gallery, chosen.similarity)
    neighbours = neighbour_sheet(features, retrieved.rows, gallery, retrieved.values["map"], chosen.similarity)
    rows_shown = {neighbour.row for entry in neighbours for neighbour in (entry.query, *entry.neighbours)}
    pictures, remark = _pictures(features, rows_shown, chosen.images)
    flat = map_features(features, retrieved.rows)
    by_name = {metric.name: metric for metric in fitted.metrics()}
    meta = features.meta
    facts = {
        "output": f"{output}, {features.values.shape[1]:,} wide",
        "rows": ", ".join(f"{name} {count:,}".strip() for name, count in features.splits.items()),
        "classes": f"{len(features.labels.classes):,}",
        "encoder": encoder_name(features),
        "fingerprint": "" if meta is None else meta.fingerprint,
        "retrieval": f"{retrieved.settings.protocol}, {retrieved.settings.similarity}",
        "probe": f"{fitted.settings.method}, {fitted.settings.protocol}",
    }
    if meta is not None:
        notes = [*meta.notes, *notes]
        if meta.missing:
            notes.append(f"{len(meta.missing):,} images could not be read and are excluded from all metrics.")
    view = StoreView(
        name=title,
        facts={label: text for label, text in facts.items() if text},
        measures=measures,
        curve=curve if curve.queries else None,
        sheet=neighbours,
        plane=flat,
        plane_names=_class_names(features, flat.rows),
        classes=fitted.per_class(),
        chance=None if fitted.several is not None else by_name["accuracy"].chance if "accuracy" in by_name else None,
        attacked=[line for attack in attacks for line in attack.lines()],
        corrupted=[metric for attack in attacks if attack.corrupted for metric in attack.metrics],
        pictures=pictures,
        notes=[*notes, *([remark] if remark else [])],
        cell=_cell(features),
        output=output,
        published={
            "Retrieval": published,
            "Linear probe": published_figures(features, "probe"),
        },
    )
    return MeasuredStore(title, path, features, retrieved, fitted, report, view)


def _cell(features: Features) -> tuple[str, str]:
    """Return a store's encoder and data set; of imported features by the words of the store's own name (`clip-l-cub`)."""
    encoder, dataset = encoder_and_dataset(features)
    known = find_dataset(features)
    if known is not None and not encoder_name(features):
        words = [word for word in re.split(r"[^\w.]+|_", encoder) if word.lower() not in DATASETS[known]]
        encoder = "-".join(filter(None, words)) or encoder
    return encoder, known or dataset


def probe_results(features: Features, fitted: Probe) -> ProbeResults:
    """Return a probe's results row by row. Raises NothingInCommon if rows have several labels."""
    if fitted.several is not None:
        raise NothingInCommon(
            f"{features.path}: rows have several labels each, and says against sees needs one class per image",
            "Omit --with, or give a store with one label per row.",
        )
    columns = np.searchsorted(fitted.labels.classes, fitted.targets)
    labels = fitted.labels
    every = [labels.name(column) for column in range(len(labels.classes))]
    times = Counter(every)
    # Two classes of one name are two classes.
    called = [name if times[name] == 1 else f"{name} ({labels.classes[i]})" for i, name in enumerate(every)]
    names = [called[int(column)] for column in columns]
    ids = [str(name) for name in features.ids[fitted.rows]]
    return ProbeResults(ids, names, fitted.correct.astype(np.float64), 1.0 / fitted.settings.classes)


class JoinableAnswers(Struct, frozen=True, eq=False):
    """Scored answers of a run; how they were chosen, and what was left out."""

    says: AnswerScores
    profile: str
    level: str
    notes: list[str]


def joinable_answers(run: Run, profile: str | None = None, level: str | None = None) -> JoinableAnswers:
    """Select the answers of a run that can be joined: to questions about one image and its class.

    A sample's group is its image, its meta `label` the class. Of a taxonomy the finest level is taken unless one is
    named. Questions about attributes and about several images, and replies without a score, are left out and
    counted.

    Raises:
        UsageError: no such level, or nothing is left.
    """
    answers_kept: list[tuple[str, str, float, float, str, int]] = []
    left_out: Counter[str] = Counter()
    unknown = 0
    first = next(iter(run.benchmark.score)) if profile is None else profile

    def add(item: Scored) -> None:
        nonlocal unknown
        sample, score = item.sample, item.scores[first]
        meta = sample.meta
        if sum(isinstance(part, (Image, Video)) for part in sample.prompt.parts) != 1 or not sample.group:
            left_out["are about several images or none"] += 1
        elif str(meta.get("ask", "hierarchy")) != "hierarchy":
            left_out["are not about the image's class"] += 1
        elif score.value is None and score.verdict == "unscored":
            left_out["have no score"] += 1
        elif (chance := _chance(sample.kind, meta.get("chance"), len(sample.options))) is not None and chance >= 1.0:
            left_out["have only one possible answer"] += 1
        else:
            unknown += chance is None
            depth = str(meta.get("depth", ""))
            answers_kept.append(
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
    levels = {answer[4]: answer[5] for answer in answers_kept}
    if level is not None and level not in levels:
        raise UsageError(
            f"{run.path} has no questions at level {level!r}", f"Its levels: {', '.join(levels) or 'none'}."
        )
    finest, mixed = level, ""
    if level is None and len(levels) > 1:
        finest = max(levels, key=lambda name: levels[name])
        if sum(depth == levels[finest] for depth in levels.values()) > 1:
            finest = None
            mixed = ", ".join(levels)
    if finest is not None:
        coarser = sum(answer[4] != finest for answer in answers_kept)
        if coarser:
            left_out[f"are not at the level {finest}"] += coarser
        answers_kept = [answer for answer in answers_kept if answer[4] == finest]
    if not answers_kept:
        raise UsageError(
            f"{run.path}: no answer can be joined: {'; '.join(f'{n:,} {why}' for why, n in left_out.items()) or 'it is empty'}",
            "Use a benchmark whose questions each show one image and are grouped by it.",
        )
    notes = [f"{count:,} answers {why}; they are omitted." for why, count in left_out.items()]
    if mixed:
        notes.append(
            f"Answers at several levels are pooled, since none is the finest: {mixed}. Select one with --level."
        )
    if unknown:
        notes.append(f"{unknown:,} answers have no known chance level; 0 was used.")
    says = AnswerScores(
        [answer[0] for answer in answers_kept],
        [answer[1] for answer in answers_kept],
        np.array([answer[2] for answer in answers_kept]),
        np.array([answer[3] for answer in answers_kept]),
    )
    return JoinableAnswers(says, first, finest or "all", notes)


def _chance(kind: str, stated: Any, options: int) -> float | None:
    """Return the chance level of a question: from its meta, else from its kind."""
    try:
        known = float(stated)
    except (TypeError, ValueError):
        known = -1.0
    if 0.0 <= known <= 1.0:
        return known
    if kind == "truth":
        return 0.5
    return 1.0 / options if options else None


def _class_names(features: Features, rows: NDArray[np.int64]) -> list[str]:
    """Return the class of each row; of several labels the first."""
    labels = features.labels
    if labels.many is None:
        return [labels.name(int(column)) for column in labels.take(rows).columns]
    matrix = labels.many[rows]
    return [labels.name(int(row.argmax())) if row.any() else "no label" for row in matrix]


def _pictures(features: Features, rows: set[int], images: Path | None) -> tuple[dict[int, Blob], str]:
    """Map row number to image for those that exist; return also the reason for missing ones."""
    origin = features.meta.origin if features.meta is not None else {}
    where = images or (Path(str(origin["images"])) if origin.get("images") else None)
    if where is None or not where.exists():
        if images is not None:
            raise UsageError(f"--images {images}: no such file or folder", "Give the folder that contains the ids.")
        return {}, "Neighbours are shown by name. Give the folder of their images with --images."
    files = set_pictures(where, tree=open_tree(where))
    pictures = {row: blob for row in sorted(rows) if (blob := _picture(files, str(features.ids[row]))) is not None}
    missing = len(rows) - len(pictures)
    return (
        pictures,
        f"{missing:,} of the {len(rows):,} neighbours shown have no image under {where.name}." if missing else "",
    )


def _picture(files: Pictures, name: str) -> Blob | None:
    """Return the image of this name; None where there is none. Ids of imported features need not be file names."""
    try:
        located = files.located(name)
    except (UnsafeArchiveError, OSError):
        return None
    return None if located is None else located[0]


def _as_json(
    store: MeasuredStore, run: Run, answers_: JoinableAnswers, comparison: SaysSees, notes: Sequence[str]
) -> dict[str, Any]:  # fmt: skip
    settings = {
        "output": store.features.name,
        "profile": answers_.profile,
        "level": answers_.level,
        **to_builtins(comparison.settings),
    }
    data = as_told(store.path, "says_sees", settings, comparison.metrics(), notes)
    return {**data, "run": str(run.path), "classes": list(comparison.classes)}


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
