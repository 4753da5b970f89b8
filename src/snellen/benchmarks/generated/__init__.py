"""A set that `snellen build questions` made is a benchmark like any other: its folder stands for its name."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.benchmarks import hints
from snellen.benchmarks.base import Benchmark, Data, Scorer
from snellen.benchmarks.fgbmk import scorers as summary
from snellen.benchmarks.fgbmk.scorers import official, strict
from snellen.benchmarks.generated.manifest import PICTURES, QUESTIONS, TAXONOMY, Manifest, PartInfo, read_manifest
from snellen.errors import DataError, UsageError
from snellen.scoring.class_names import Names
from snellen.scoring.metrics import breakdown
from snellen.scoring.scores import Scores
from snellen.scoring.taxonomy import SEPARATOR, by_level, diagnosis
from snellen.sources import FolderTree, digest, open_tree, parquet
from snellen.sources.locator import LazyPicture, Pictures, under
from snellen.sources.safe_paths import regular_file
from snellen.text import comma_list
from snellen.types import Image, Kind, Metric, Prompt, Sample, Text

ROWS = 2048
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
KINDS: Mapping[str, Kind] = {"truth": "truth", "choice": "choice_text", "short": "short"}
SCORERS: Mapping[str, Scorer] = {"strict": strict, "official": official}
PROFILES: Mapping[str, str] = {
    "strict": "one answer by whole words; no answer, two answers and what repeats the question are worth 0",
    "official": "the rule of FG-BMK's authors: the ground truth is a substring of the reply",
}
_READ = ("id", "ask", "level", "depth", "kind", "image", "source", "text", "target", "options", "label", "asked")
_COLUMNS = [*_READ, "path", "siblings", "cousins", "others", "stem", "chance"]
_FIX_HINT = "Build the set again: snellen build questions."


def open_folder(path: Path) -> Benchmark:
    """Return the benchmark in a folder with a benchmark.json.

    Raises:
        DataError: the manifest cannot be read, or is of another format.
    """
    folder = path.absolute()
    manifest = read_manifest(folder)
    return Benchmark(
        cluster="image",
        name=manifest.name,
        version=manifest.version,
        samples=lambda data: _hinted_samples(folder, manifest, data),
        score=SCORERS,
        summarize=summarize,
        profiles=PROFILES,
        size=lambda data: sum(part.questions for part in _chosen(manifest, data)),
        digest=lambda data: _digest(folder, manifest, data),
        options={
            "levels": f"which levels, by comma: {', '.join(dict.fromkeys(part.level for part in manifest.parts))}",
            "kinds": f"which kinds, by comma: {', '.join(dict.fromkeys(map(_kind, manifest.parts)))}",
            **hints.OPTIONS,
        },
        wording=frozenset(hints.OPTIONS),
        about={
            "description": f"{manifest.questions:,} questions about {manifest.images:,} images, "
            f"at the levels {', '.join(manifest.levels)}.",
            "source": f"built by Snellen {manifest.snellen} with seed {manifest.seed}, in {path}",
            "licence": "that of its images",
        },
        notices=lambda data: _notices(manifest, data),
    )


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Accuracy by question and image with its baselines, by level and kind, and the diagnosis over the taxonomy."""
    metrics = summary.headline(scores, profile)
    metrics += by_level(scores)
    for ask in ("bias", "attribute"):
        part = scores.where(ask=ask)
        if len(part):
            metrics += breakdown(part, ("ask",)) + (breakdown(part, ("ask", "level")) if ask == "attribute" else [])
    return metrics + diagnosis(_of_taxonomy(scores))


def _of_taxonomy(scores: Scores) -> Scores:
    """Return the rows that ask about classes, and not about attributes, which have no place in the taxonomy."""
    return scores.among("ask", lambda ask: ask != "attribute", without=True)


def _kind(part: PartInfo) -> str:
    return {"bias": "bias", "attribute": "attributes"}.get(part.ask, part.kind)


def _chosen(manifest: Manifest, data: Data) -> list[PartInfo]:
    """Return the parts that the options ask for. Raises UsageError where an option names none."""
    levels = _listed(data, "levels", {part.level for part in manifest.parts})
    kinds = _listed(data, "kinds", set(map(_kind, manifest.parts)))
    parts = [
        part for part in manifest.parts if (not levels or part.level in levels) and (not kinds or _kind(part) in kinds)
    ]
    if not parts:
        raise UsageError(f"{manifest.name} has no {', '.join(kinds)} questions about {', '.join(levels)}")
    return parts


def _listed(data: Data, option: str, known: set[str]) -> list[str]:
    wanted = comma_list(data.options.get(option))
    for word in wanted:
        if word not in known:
            raise UsageError(f"--{option} {word}: the set has {', '.join(sorted(known))}")
    return wanted


def _digest(folder: Path, manifest: Manifest, data: Data) -> str:
    """Over the table, the taxonomy and which parts were chosen. Images are not read for it."""
    parts = [digest(folder / QUESTIONS), digest(folder / TAXONOMY)]
    parts += [part.file for part in _chosen(manifest, data)]
    return blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _notices(manifest: Manifest, data: Data) -> list[str]:
    lines = list(manifest.notes)
    if not manifest.copied and data.images is None:
        lines.append("the set holds no images; give --images, the folder or archive that it was built from")
    return lines


def _pictures(folder: Path, manifest: Manifest, data: Data) -> Pictures:
    """Return the set's own images, or those under --images. Where these have gone, answers are scored without them."""
    if data.images is None and not manifest.copied:
        return Pictures("", (), lambda _: "no images were given", "Give --images, what the set was built from.")
    root = data.images or folder / PICTURES
    if data.images is not None and not root.exists():
        return Pictures(str(root), (), lambda _: f"nothing is at {root}", "Give --images.")
    return Pictures(
        str(root),
        (under(open_tree(root) if data.images is not None else FolderTree(root), [""]),),
        lambda name: f"image {name!r} is not under {root}",
        "Give --images as it was when the set was built, or build it with --copy-images.",
    )


def _hinted_samples(folder: Path, manifest: Manifest, data: Data) -> Iterator[Sample]:
    """Yield every question, below each a misleading hint where the user asks for it."""
    made = _samples(folder, manifest, data)
    return hints.misled(made, data, lambda about: _names(folder, manifest, about)) if hints.wanted(data) else made


def _names(folder: Path, manifest: Manifest, about: str) -> Sequence[str]:
    """Return the classes of a level by the set's taxonomy, or the values of an attribute by its questions."""
    if about in manifest.levels:
        return _known(folder, manifest)[manifest.levels.index(about)].classes
    import pyarrow.parquet as pq

    table = pq.read_table(
        folder / QUESTIONS, columns=["label"], filters=[("ask", "=", "attribute"), ("level", "=", about)]
    )
    return sorted(set(table["label"].to_pylist()))


def _samples(folder: Path, manifest: Manifest, data: Data) -> Iterator[Sample]:
    """Yield every question, read from the table a few thousand rows at a time."""
    chosen = {(part.ask, part.level, part.kind) for part in _chosen(manifest, data)}
    every_part = len(chosen) == len(manifest.parts)
    copied = manifest.copied and data.images is None
    pictures = _pictures(folder, manifest, data)
    known = _known(folder, manifest)
    table = folder / QUESTIONS
    with parquet.opened(table, table, _FIX_HINT) as reader:
        for batch in reader.batches(ROWS, _COLUMNS):
            for row in parquet.to_rows(batch):
                if every_part or (row["ask"], row["level"], row["kind"]) in chosen:
                    yield _sample(row, manifest, known, pictures, row["image" if copied else "source"])


class LevelClasses(Struct, frozen=True):
    """The classes of one level: where each stands in the taxonomy, and the names that a reply may use."""

    paths: Mapping[str, str]
    names: Names
    classes: tuple[str, ...]


def _known(folder: Path, manifest: Manifest) -> list[LevelClasses]:
    """By depth, from the set's taxonomy."""
    path = folder / TAXONOMY
    return list(_read_known(path, manifest.levels, regular_file(path).st_mtime_ns))


@lru_cache(maxsize=4)
def _read_known(path: Path, levels: tuple[str, ...], changed: int) -> tuple[LevelClasses, ...]:
    paths: list[dict[str, str]] = [{} for _ in levels]
    names: list[dict[str, str]] = [{} for _ in levels]
    with path.open(encoding="utf-8", newline="") as text:
        rows = csv.reader(text)
        header = tuple(next(rows, ()))
        if header != (*levels, "aliases"):
            raise DataError(
                f"{path}: columns {', '.join(header)}; {', '.join(levels)}, aliases were expected", _FIX_HINT
            )
        for row in rows:
            own = [name for name in row[:-1] if name]
            for depth, name in enumerate(own):
                paths[depth].setdefault(name.lower(), SEPARATOR.join(own[: depth + 1]).lower())
                names[depth].setdefault(name, name)
            for alias in filter(None, row[-1].split("|")):
                names[len(own) - 1].setdefault(alias, own[-1])
    classes = [tuple(name for name in names[depth] if name.lower() in paths[depth]) for depth in range(len(levels))]
    return tuple(
        LevelClasses(paths[depth], Names(classes[depth], names[depth]), classes[depth]) for depth in range(len(levels))
    )


def _sample(
    row: Mapping[str, Any], manifest: Manifest, known: list[LevelClasses], pictures: Pictures, image: str
) -> Sample:
    kind, ask = row["kind"], row["ask"]
    attribute = ask == "attribute"
    depth = row["depth"]
    meta: dict[str, Any] = {
        "task": row["id"].rpartition("/")[0],
        "dataset": manifest.name,
        "level": row["level"],
        "depth": str(depth),
        "ask": ask,
        "label": row["label"].lower(),
        "stem": str(row["stem"]),
        "chance": str(row["chance"]),
    }
    if kind == "truth":
        meta["asked"] = row["asked"].lower()
        meta["target"] = row["target"]
    if attribute:
        meta["attribute"] = row["level"]
    else:
        meta["path"] = row["path"].lower()
        meta["paths"] = known[depth].paths
        if kind == "choice":
            meta |= {name: str(row[name]) for name in ("siblings", "cousins", "others")}
        if kind == "short":
            meta["names"] = known[depth].names
    return Sample(
        id=row["id"],
        prompt=Prompt((Image(LazyPicture(pictures, image, row["id"])), Text(row["text"]))),
        target=row["target"] == "yes" if kind == "truth" else row["target"],
        kind=KINDS[kind],
        options=dict(zip(LETTERS, row["options"], strict=False)),
        group=row["image"],
        meta=meta,
    )
