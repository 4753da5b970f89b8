"""Build a set of questions: read, check, sample, write. All checks come before the first file is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from snellen.benchmarks.generated.manifest import Manifest
from snellen.benchmarks.registry import MANIFEST
from snellen.errors import DataError, UsageError
from snellen.questions import distractors, sampling
from snellen.questions.distractors import Strategy, build_pool
from snellen.questions.image_rows import (
    Images,
    by_folders,
    by_inaturalist,
    by_last_word,
    check_images,
    copy_images,
    flat,
    neutral_names,
    read_classes,
    read_folders,
    read_rows,
)
from snellen.questions.rng import words
from snellen.questions.sampling import LevelQuestions, QuestionArrays
from snellen.questions.taxonomy import Homonyms, Taxonomy, TaxonomyLine, from_lines, key, spelled
from snellen.questions.taxonomy_readers import read_darwin_core, read_json, read_newick, read_table
from snellen.questions.templates import BUILT_IN, Templates, load_templates
from snellen.questions.writer import ImageCopier, SetContents, write_set
from snellen.sources import Tree, digest, numbered, open_tree
from snellen.text import comma_list

KINDS = ("truth", "choice", "short", "bias", "attributes")
BY_NAME = ("folders", "inaturalist", "last-word")
NEAREST = 3
_FOLDER = re.compile(r"[^\w\-]+")


class BuildSettings(Struct, frozen=True, kw_only=True):
    """The inputs and options of a set.

    Attributes:
        out: the folder to write; it must not exist, or be empty.
        images: folder, zip or tar; None where only `rows` are there (nobody looks whether the images are).
        rows: CSV or TSV of image and label; None: the class folders of `images`.
        classes: names by index, where labels are indices.
        taxonomy: a file (CSV, TSV, Newick, JSON, Darwin Core archive), or `folders`, `inaturalist` or `last-word`;
            None: one level, whose classes are the labels.
        levels: coarse to fine; None: as the taxonomy has them.
        at: levels to ask at; None: all.
        kinds: some of KINDS.
        attributes: CSV or TSV with image, attribute, value.
        negatives: which wrong classes come first.
        features: .npz for `visual`.
        noun: what the thing in the image is called.
        templates: a built-in set of wordings, or a TOML file.
        options: how many options a choice has.
        all_values: a choice about an attribute lists all of its values instead, as FG-BMK's attribute questions do.
        per_class: images a class has at most: one number, or a number by level (`""`: the other levels). FG-BMK takes
            35, 20, 20, 10 and 10 of a taxon of iNat2021 from kingdom to family.
        homonyms: one name under two parents: an error, or told apart.
        seed: seeds all that is drawn.
        workers: processes; the bytes do not depend on it.
        copy_images: copy the images, stripped, into the set.
        name, version: of the set; by default the name of its folder, and 1.
    """

    out: Path
    images: Path | None = None
    rows: Path | None = None
    classes: Path | None = None
    taxonomy: str | None = None
    levels: tuple[str, ...] | None = None
    at: tuple[str, ...] | None = None
    kinds: tuple[str, ...] = ("truth", "choice", "short")
    attributes: Path | None = None
    negatives: Strategy = "sibling"
    features: Path | None = None
    noun: str = "object"
    templates: str = "default"
    options: int = 4
    all_values: bool = False
    per_class: int | Mapping[str, int] | None = None

    def images_per_class(self, level: str) -> int | None:
        """Return the number of images that a class of this level has at most; None: all."""
        if isinstance(self.per_class, Mapping):
            return self.per_class.get(level, self.per_class.get(""))
        return self.per_class

    homonyms: Homonyms = "error"
    seed: int = 0
    workers: int = 1
    copy_images: bool = False
    name: str = ""
    version: str = "1"


def option_counts(text: str) -> dict[str, Any]:
    """Return `options` and `all_values` of a text such as `6,all`. Raises UsageError."""
    parts = comma_list(text)
    numbers = [part for part in parts if part != "all"]
    if not parts or len(parts) > 2 or len(numbers) > 1 or not all(map(str.isdecimal, numbers)):
        raise UsageError(
            f"--options {text}: a number of options, `all`, or both were expected", "Example: --options 4,all."
        )
    return {"options": int(numbers[0]) if numbers else 4, "all_values": "all" in parts}


def images_per_class(text: str | None) -> int | dict[str, int] | None:
    """Return `per_class` of a text such as `20` or `kingdom=35,phylum=20,10`. Raises UsageError."""
    if text is None:
        return None
    limits: dict[str, int] = {}
    for part in comma_list(text):
        level, _, number = part.rpartition("=")
        if not number.strip().isdecimal() or level.strip() in limits:
            raise UsageError(
                f"--per-class {text}: {part!r} was found; a number, or LEVEL=NUMBER once for a level, was expected",
                "Example: --per-class kingdom=35,phylum=20,10.",
            )
        limits[level.strip()] = int(number)
    return limits[""] if set(limits) == {""} else limits


@dataclass(frozen=True)
class _OrderedImages:
    """The images in the order of their neutral names, with classes and taxonomy."""

    images: Images
    order: list[int]
    label: np.ndarray[Any, np.dtype[np.int32]]
    taxonomy: Taxonomy


def generate(settings: BuildSettings) -> Manifest:
    """Build a set and write its folder.

    Returns:
        Its manifest, as it was written.

    Raises:
        UsageError: settings that exclude each other, or that name what is not there.
        DataError: what was read is not what was expected; with file and row. Nothing was written then.
        StorageError: the folder cannot be written; nothing half-written stays.
    """
    _check(settings)
    templates = load_templates(settings.templates)
    with ExitStack() as stack:
        tree = None
        if settings.images is not None:
            tree = open_tree(settings.images)
            stack.callback(tree.close)
        images, classes = _images(settings, tree)
        taxonomy, images = _taxonomy(settings, images, classes)
        kinds = None if tree is None else check_images(images, tree)
        labels = _labels(images, taxonomy)
        order = sampling.neutral_order(len(images.names), settings.seed).tolist()
        read = _OrderedImages(images, order, labels[order], taxonomy)
        names = neutral_names(order, images, kinds, settings.copy_images)
        parts = list(_parts(settings, read, templates))
        copier = None
        if settings.copy_images and tree is not None:
            copier = _copier(images, order, names, tree)
        return write_set(
            SetContents(
                out=settings.out,
                name=settings.name or settings.out.absolute().name,
                version=settings.version,
                taxonomy=taxonomy,
                parts=parts,
                images=names,
                sources=[images.names[at] for at in order],
                noun=settings.noun,
                templates=templates,
                seed=settings.seed,
                kinds=settings.kinds,
                settings=_recorded(settings, templates.source),
                inputs=_inputs(settings),
                notes=tuple(
                    filter(None, (taxonomy.note, templates.source and f"The words are those of {templates.source}."))
                ),
                workers=settings.workers,
                copy=copier,
            )
        )


def _copier(images: Images, order: list[int], names: list[str], tree: Tree) -> ImageCopier:
    def into(folder: Path) -> None:
        copy_images(images, order, names, tree, folder)

    return into


def _check(s: BuildSettings) -> None:
    unknown = [kind for kind in s.kinds if kind not in KINDS]
    if unknown or not s.kinds or len(set(s.kinds)) < len(s.kinds):
        raise UsageError(f"--kinds {','.join(s.kinds)}: some of {', '.join(KINDS)} were expected, each once")
    if s.images is None and s.rows is None:
        raise UsageError("no images given", "Give --images DIR with class folders, or --rows FILE.")
    if s.copy_images and s.images is None:
        raise UsageError("--copy-images needs the images", "Give --images.")
    if ("attributes" in s.kinds) != (s.attributes is not None):
        raise UsageError("the kind `attributes` and --attributes FILE need each other")
    if (s.negatives == "visual") != (s.features is not None):
        raise UsageError("--negatives visual and --features FILE need each other")
    if s.options < 2 or s.options > 26:
        raise UsageError(f"--options {s.options}: 2 to 26 were expected")
    if s.all_values and s.attributes is None:
        raise UsageError("--options all is about the values of attributes", "Add --attributes FILE.")
    limits = s.per_class.values() if isinstance(s.per_class, Mapping) else (s.per_class,)
    if s.workers < 1 or any(limit is not None and limit < 1 for limit in limits):
        raise UsageError(f"--workers {s.workers}, --per-class {s.per_class}: both must be at least 1")
    if s.out.exists() and (not s.out.is_dir() or any(s.out.iterdir())):
        state = "contains a built set" if (s.out / MANIFEST).is_file() else "is not empty"
        raise UsageError(f"--out {s.out} {state}; nothing is overwritten", "Name another folder, or delete that one.")
    if not s.noun.strip() or '"' in s.noun:
        raise UsageError(f"--noun {s.noun!r}: a word was expected")


def _images(s: BuildSettings, tree: Tree | None) -> tuple[Images, list[str] | None]:
    classes = None if s.classes is None else read_classes(s.classes)
    if s.rows is not None:
        return read_rows(s.rows, classes), classes
    if tree is None:
        raise UsageError("no images given", "Give --images or --rows.")
    return read_folders(tree), classes


def _taxonomy(s: BuildSettings, images: Images, classes: Sequence[str] | None) -> tuple[Taxonomy, Images]:
    if s.taxonomy is None:
        levels = s.levels or ("class",)
        if len(levels) > 1:
            raise UsageError(
                f"--levels {','.join(levels)}: without a taxonomy there is one level",
                f"Give --taxonomy FILE, or {', '.join(BY_NAME)}.",
            )
        return flat(images, levels[0], classes), images
    if s.taxonomy == "folders":
        if not s.levels:
            raise UsageError("--taxonomy folders needs --levels", "Say what the folders are, coarse to fine.")
        return by_folders(images, s.levels, s.homonyms), images
    if s.taxonomy == "inaturalist":
        return by_inaturalist(images, s.levels, s.homonyms)
    if s.taxonomy == "last-word":
        names = [*dict.fromkeys([*(classes or ()), *images.labels])]
        return by_last_word(names, s.levels or ("pseudo-genus", "species"), images.source), images
    path = Path(s.taxonomy)
    if not path.exists():
        raise UsageError(f"--taxonomy {s.taxonomy}: there is no such file", f"A file, or {', '.join(BY_NAME)}.")
    ending = path.suffix.lower()
    if path.is_dir() or ending == ".zip":
        return read_darwin_core(path, s.levels, s.homonyms), images
    if ending == ".json":
        return read_json(path, s.levels, s.homonyms), images
    if ending in (".nwk", ".newick", ".tree", ".tre"):
        return read_newick(path, s.levels, s.homonyms), images
    return read_table(path, s.levels, s.homonyms), images


def _labels(images: Images, taxonomy: Taxonomy) -> np.ndarray[Any, np.dtype[np.int32]]:
    known: dict[str, int] = {}
    classes = np.empty(len(images.labels), dtype=np.int32)
    for row, label in enumerate(images.labels):
        at = known.get(label)
        if at is None:
            at = taxonomy.find(label)
            if at is None:
                raise taxonomy.unknown(label, images.where(row))
            known[label] = at
        classes[row] = at
    return classes


def _parts(s: BuildSettings, read: _OrderedImages, templates: Templates) -> Iterator[QuestionArrays]:
    taxonomy = read.taxonomy
    for level in s.at or ():
        if level not in taxonomy.levels:
            raise UsageError(f"--at {level}: levels are {', '.join(taxonomy.levels)}")
    for level in s.per_class if isinstance(s.per_class, Mapping) else ():
        if level and level not in taxonomy.levels:
            raise UsageError(f"--per-class {level}=…: levels are {', '.join(taxonomy.levels)}")
    vectors = None if s.features is None else distractors.read_features(s.features, taxonomy)
    taken: dict[str, str] = {}
    for depth, level in enumerate(taxonomy.levels):
        finest = depth == len(taxonomy.levels) - 1
        kinds = [kind for kind in s.kinds if kind in sampling.FILES] if level in (s.at or taxonomy.levels) else []
        kinds += ["bias"] if finest and "bias" in s.kinds else []
        if kinds:
            nearest = (
                None if vectors is None else distractors.nearest(vectors, taxonomy, depth, max(NEAREST, s.options - 1))
            )
            questions = _level(s, read, depth, nearest, _folder(level, taken))
            yield from _kinds(questions, kinds, s, templates)
    if s.attributes is not None:
        index = {at: number for number, at in enumerate(read.order)}
        for questions in level_questions(read_attributes(s.attributes, read.images), index, s.seed, every=s.all_values):
            _folder(questions.level, taken, "attributes/")
            yield from _kinds(questions, ["truth", "choice"], s, templates)


def _level(s: BuildSettings, read: _OrderedImages, depth: int, nearest: Any, folder: str) -> LevelQuestions:
    taxonomy = read.taxonomy
    level, names = taxonomy.levels[depth], taxonomy.names[depth]
    if len(names) < 2:
        raise DataError(
            f"{taxonomy.source}: the level {level!r} has one class, {names[0]!r}, in every row; two are needed",
            f"Select other levels with --at, or add rows for other {level} names; they need no images.",
        )
    label = taxonomy.ancestors(len(taxonomy.levels) - 1, depth)[read.label]
    rows = sampling.limit_per_class(label, s.images_per_class(level), s.seed, level, "per class")
    return LevelQuestions(
        ask="hierarchy",
        level=level,
        depth=depth,
        folder=folder,
        paths=taxonomy.paths(depth),
        aliases={at: also for (where, at), also in taxonomy.aliases.items() if where == depth},
        image=rows.astype(np.int32),
        label=label[rows].astype(np.int32),
        pool=build_pool(taxonomy, depth, s.negatives, nearest),
        seed=s.seed,
        others={},
    )


def _kinds(
    questions: LevelQuestions, kinds: Sequence[str], s: BuildSettings, templates: Templates
) -> Iterator[QuestionArrays]:
    if not len(questions.image):
        raise DataError(f"the {questions.ask} {questions.level!r}: no images left")
    for kind in kinds:
        section = f"attribute_{kind}" if questions.ask == "attribute" else kind
        stems = len(templates.wording(section).stems)
        if kind == "truth":
            yield sampling.draw_truth(questions, stems)
        elif kind == "choice":
            every = s.all_values and questions.ask == "attribute"
            count = len(questions.pool.names) if every else s.options
            yield sampling.draw_choice(questions, stems, min(count, len(questions.pool.names)))
        elif kind == "short":
            yield sampling.draw_short(questions, stems)
        else:
            yield sampling.draw_bias(sampling.as_bias(questions), stems)


def _folder(level: str, taken: dict[str, str], prefix: str = "") -> str:
    """Return the folder name of a level. Raises UsageError if two levels share a name, or it has no letters."""
    folder = prefix + _FOLDER.sub("_", level).strip("_")
    if folder == prefix or folder in ("bias", "attributes", "images") or folder in taken:
        other = f", like {taken[folder]!r}" if folder in taken else ""
        raise UsageError(f"the level {level!r} would be the folder {folder!r}{other}", "Give it another name.")
    taken[folder] = level
    return folder


def _inputs(s: BuildSettings) -> dict[str, str]:
    """Return digests of the input files; images are not read."""
    paths = {"rows": s.rows, "classes": s.classes, "attributes": s.attributes, "features": s.features}
    if s.taxonomy is not None and s.taxonomy not in BY_NAME:
        paths["taxonomy"] = Path(s.taxonomy)
    if s.templates not in BUILT_IN:
        paths["templates"] = Path(s.templates)
    return {role: digest(path) for role, path in paths.items() if path is not None}


def _recorded(s: BuildSettings, words: str) -> Mapping[str, Any]:
    """Return the settings that shape the set, for the manifest: no paths, no number of workers."""
    return {
        "taxonomy": s.taxonomy if s.taxonomy in BY_NAME else "file" if s.taxonomy else "none",
        "at": list(s.at or ()),
        "negatives": s.negatives,
        "noun": s.noun,
        "templates": s.templates if s.templates in BUILT_IN else "file",
        **({"words": words} if words else {}),
        "options": s.options,
        **({"attribute_options": "all"} if s.all_values else {}),
        "per_class": s.per_class,
        "homonyms": s.homonyms,
    }


MOST_VALUES = 127
HEADINGS = ("image", "attribute", "value")


class AttributeValues(NamedTuple):
    """Values of one attribute by image index, and the place in the file that defines it."""

    name: str
    values: dict[int, list[str]]
    where: str


def read_attributes(path: Path, images: Images) -> list[AttributeValues]:
    """Read attributes, sorted by name, from a CSV or TSV with columns image, attribute, value.

    An image may have more than one value of an attribute: one of them is asked for, and none of them is a wrong answer.

    Raises:
        DataError: a column is missing, a cell empty, an image unknown, an attribute with one value; with file and line.
    """
    index = {name: at for at, name in enumerate(images.names)}
    by_name: dict[str, AttributeValues] = {}
    for line, row in numbered(path, columns=HEADINGS):
        where = f"{path}, line {line:,}"
        name, value = spelled(row["attribute"]), spelled(row["value"])
        if not name or not value:
            raise DataError(f"{where}: image, attribute and value were expected; a cell is empty")
        at = index.get(row["image"])
        if at is None:
            raise DataError(f"{where}: the image {row['image']!r} is not among the {len(index):,} of {images.source}")
        own = by_name.setdefault(key(name), AttributeValues(name, {}, where)).values.setdefault(at, [])
        if key(value) not in map(key, own):
            own.append(value)
    if not by_name:
        raise DataError(f"{path}: there are no rows")
    for attribute in by_name.values():
        every = {key(value) for values in attribute.values.values() for value in values}
        if len(every) < 2:
            raise DataError(
                f"{attribute.where}: the attribute {attribute.name!r} has one value, {next(iter(every))!r}; two are needed",
                "Add images with another value, or remove its rows.",
            )
    return [by_name[name] for name in sorted(by_name)]


def level_questions(
    attributes: list[AttributeValues], order: dict[int, int], seed: int, *, every: bool = False
) -> Iterator[LevelQuestions]:
    """Yield the questions of each attribute; images that have every value of it are skipped.

    Args:
        order: image to its number in the set.
        seed: seeds which of several values is asked for.
        every: a choice lists all values, those whose names hold another's too.
    """
    for depth, attribute in enumerate(attributes):
        lines = [TaxonomyLine(attribute.where, (value,)) for values in attribute.values.values() for value in values]
        taxonomy = from_lines((attribute.name,), lines, attribute.where)
        rows = sorted(
            (order[at], [taxonomy.find(value) for value in values])
            for at, values in attribute.values.items()
            if len(values) < len(taxonomy.names[0])
        )
        image = np.array([at for at, _ in rows], dtype=np.int32)
        pool = build_pool(taxonomy, 0, "random")
        if len(pool.names) > MOST_VALUES and every:
            raise DataError(
                f"{attribute.where}: the attribute {attribute.name!r} has {len(pool.names):,} values; a choice lists at "
                f"most {MOST_VALUES}",
                "Omit `all` from --options, or join values.",
            )
        draws = words(image, seed, "attribute", attribute.name).tolist() if rows else []
        label = [values[number % len(values)] for number, (_, values) in zip(draws, rows, strict=True)]
        yield LevelQuestions(
            ask="attribute",
            level=attribute.name,
            depth=depth,
            folder=f"attributes/{attribute.name.replace(' ', '_').replace('/', '_')}",
            paths=(),
            aliases={},
            image=image,
            label=np.array(label, dtype=np.int32),
            pool=replace(pool, conflicts={}) if every else pool,
            seed=seed,
            others={
                row: frozenset(value for value in values if value is not None) - {label[row]}
                for row, (_, values) in enumerate(rows)
                if len(values) > 1
            },
        )
