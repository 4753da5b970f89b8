"""Annotated images in the exports of other tools, as rows: COCO's JSON, Label Studio's, FiftyOne's.

An image is a row with the set of its boxes; of points and outlines each label of an image is a row. Where classes of whole images
are all that is marked, an image is a choice among them. Sources: cocodataset.org, format of
the data; labelstud.io, JSON and JSON-MIN export; docs.voxel51.com, FiftyOneDataset and FiftyOneImageDetectionDataset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from snellen.benchmarks.table.images import IMAGE_SUFFIXES
from snellen.benchmarks.table.operations import LETTERS
from snellen.errors import DataError, UsageError

SPACES = {
    "COCO JSON": "pixel:xywh",
    "LVIS JSON": "pixel:xywh",
    "Label Studio JSON": "percent:xywh",
    "FiftyOne JSON": "unit:xywh",
}
"""Forms of files, and the space and order of their boxes."""
HEAD = 500
"""Tasks of Label Studio among which one has marks."""
_OTHER_ROWS = {"question", "answer", "caption"}
_SHAPES = {"rectangle": "boxes", "keypoint": "point", "polygon": "region"}
_NO_SHAPES = ("choices", "text", "rating", "taxonomy", "labels", "pairwise", "number")
CLASS = "class"
"""Kind of a mark that says what a whole image shows."""
MOST_CLASSES = 26
"""Classes that are offered as options; of more, the name is asked for."""
_MARKED = {f"{shape}labels" for shape in (*_SHAPES, "ellipse", "brush", "bitmask", "vector")}
UNMARKED = "it is not annotated"
NAMELESS = "it has no file name"


class Mark(NamedTuple):
    """A box, point, outline or class of an image: its kind, its label, and its coordinates as a gold cell writes them.

    Of a class of Label Studio `cell` is the name of the question that it answers.
    """

    kind: str
    label: str
    cell: Any = None


class Marked(NamedTuple):
    """An image with its marks; `fault` is why they are not all that is marked on it."""

    id: Any
    image: Any
    marks: Sequence[Mark]
    fault: str = ""


def annotated(value: Any, name: str) -> tuple[str, list[dict[str, Any] | DataError]] | None:
    """Return the form and the rows of an export that a parsed JSON file is; None for any other file.

    Raises:
        DataError: it is damaged, a category has no name, or nothing that can be asked about is marked.
        UsageError: several fields hold the marks.
    """
    try:
        return _annotated(value, name)
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError(f"{name}: an export of annotated images is damaged: {error}", "Export it again.") from error


def _annotated(value: Any, name: str) -> tuple[str, list[dict[str, Any] | DataError]] | None:
    tasks = [task for task in value if isinstance(task, dict)] if isinstance(value, list) else []
    if isinstance(value, dict) and _is_coco(value) and any("neg_category_ids" in image for image in value["images"]):
        return "LVIS JSON", list(_lvis(value, name))
    if isinstance(value, dict) and _is_coco(value):
        form, images = "COCO JSON", list(_coco(value, name))
    elif any(map(_results, tasks[:HEAD])):
        form, images = "Label Studio JSON", [_of_task(task) for task in tasks]
    elif isinstance(value, dict) and (samples := _fiftyone(value, name)) is not None:
        form, images = "FiftyOne JSON", samples
    else:
        return None
    names = list(dict.fromkeys(mark.label for image in images for mark in image.marks if mark.kind == "boxes"))
    if form == "COCO JSON" and names:
        names = [str(one["name"]) for one in value["categories"]]
    classes = sorted({mark.label for image in images for mark in image.marks if mark.kind == CLASS})
    if classes and all(mark.kind == CLASS for image in images for mark in image.marks):
        asked = sorted({str(mark.cell) for image in images for mark in image.marks if mark.cell})
        if len(asked) > 1:
            raise UsageError(
                f"{name}: {len(asked)} questions have choices: {', '.join(asked)}", "Export the file with one of them."
            )
        several = any(len({mark.label for mark in image.marks}) > 1 for image in images)
        rows = [_classified(image, classes, name, several=several) for image in images]
    else:
        rows = [row for image in images for row in _rows_of(image, names, name)]
    if not any(image.marks for image in images):
        faults = [image.fault for image in images]
        reason = faults[0] if all(faults) else "no box, point, outline or class is marked"
        raise DataError(
            f"{name}: {form} was found, and none of its {len(images):,} images can be asked about: {reason}"
        )
    return form, rows


def _classified(image: Marked, classes: Sequence[str], name: str, *, several: bool) -> dict[str, Any] | DataError:
    """Return an image as a choice among the classes of the file; of more than 26, as a question for the name."""
    fault = image.fault or ("" if image.marks else UNMARKED) or ("" if isinstance(image.image, str) else NAMELESS)
    if fault:
        return DataError(f"{name}, image {image.id}: {fault}")
    row = {"id": image.id, "image": image.image, "question": "What does the image show?"}
    labels = list(dict.fromkeys(mark.label for mark in image.marks))
    if not 1 < len(classes) <= MOST_CLASSES:
        return row | {"kind": "text", "answer": _written(labels) if len(labels) > 1 else labels[0]}
    letters = sorted(LETTERS[classes.index(label)] for label in labels)
    kind = "multi-choice" if several else "choice"
    return row | {"kind": kind, "options": _written(classes), "answer": ",".join(letters)}


def _rows_of(image: Marked, names: Sequence[str], name: str) -> Iterator[dict[str, Any] | DataError]:
    if image.fault or not isinstance(image.image, str):
        yield DataError(f"{name}, image {image.id}: {image.fault or NAMELESS}")
        return
    about = {"id": image.id, "image": image.image}
    boxes = [
        mark.cell | ({"label": mark.label} if len(names) > 1 else {}) for mark in image.marks if mark.kind == "boxes"
    ]
    if names:
        yield about | {"question": _question("boxes", names), "kind": "boxes", "answer": _written(boxes)}
    others = [mark for mark in image.marks if mark.kind not in ("boxes", CLASS)]
    for kind, label in dict.fromkeys((mark.kind, mark.label) for mark in others):
        cells = [mark.cell for mark in others if (mark.kind, mark.label) == (kind, label)]
        if kind == "region" and all(isinstance(cell, list) for cell in cells):
            cells = [[part for cell in cells for part in cell]]
        if len(cells) > 1 and kind == "region":
            yield DataError(f"{name}, image {image.id}: {len(cells)} masks of {label!r} are not joined")
            continue
        kind, answer = ("points", cells) if len(cells) > 1 else (kind, cells[0])
        yield about | {
            "id": f"{image.id}:{label}",
            "question": _question(kind, [label]),
            "kind": kind,
            "answer": _written(answer),
        }


def _written(cell: Any) -> str:
    return msgspec.json.encode(cell).decode()


def _question(kind: str, names: Sequence[str]) -> str:
    """Return what is asked about; empty for marks without a label, whose question the user gives."""
    if not all(names):
        return ""
    if len(names) > 1:
        return f"Find each of these in the image: {', '.join(names)}."
    words = {"boxes": "Find every", "points": "Point to every", "point": "Point to the", "region": "Outline the"}
    return f"{words[kind]} {names[0]} in the image."


def _is_coco(value: Mapping[str, Any]) -> bool:
    lists = [value.get(key) for key in ("images", "annotations", "categories")]
    if not all(isinstance(part, list) and part and isinstance(part[0], dict) for part in lists):
        return False
    keys = lists[1][0].keys()  # type: ignore[index]
    return {"image_id", "category_id"} <= keys and bool({"bbox", "segmentation"} & keys) and not _OTHER_ROWS & keys


def _coco(value: Mapping[str, Any], name: str) -> Iterator[Marked]:
    names = {one.get("id"): str(one.get("name", "")) for one in value["categories"]}
    by_image: dict[Any, list[Mark]] = {}
    for one in value["annotations"]:
        label = names.get(one.get("category_id"), "")
        if not label:
            raise DataError(
                f"{name}: annotation {one.get('id')} has category {one.get('category_id')}, which no category names"
            )
        box, outline = one.get("bbox"), one.get("segmentation")
        known = {key: one[key] for key in ("iscrowd", "area") if one.get(key)}
        mark = Mark("boxes", label, {"bbox": box, **known}) if box else Mark("region", label, outline)
        by_image.setdefault(_id_text(one.get("image_id")), []).append(mark)
    for image in value["images"]:
        yield Marked(image.get("id"), _file_of(image), by_image.get(_id_text(image.get("id")), ()))
    lost = by_image.keys() - {_id_text(image.get("id")) for image in value["images"]}
    if lost:
        count = sum(len(by_image[one]) for one in lost)
        yield Marked(min(lost), None, (), f"no image has this id; {count} annotations name {len(lost)} absent images")


def _lvis(value: Mapping[str, Any], name: str) -> Iterator[dict[str, Any] | DataError]:
    """Yield a row for each category of an image that was looked for: its boxes, all of them, or none.

    Annotators looked for some categories in each image: for those that have boxes, and those of `neg_category_ids`. Of
    `not_exhaustive_category_ids` some boxes are missing. Source: Gupta, Dollár and Girshick 2019, arXiv 1908.03195, section 3.
    """
    names = {one.get("id"): str(one.get("name", "")).replace("_", " ") for one in value["categories"]}
    boxes: dict[str, dict[Any, list[Any]]] = {}
    for one in value["annotations"]:
        boxes.setdefault(_id_text(one.get("image_id")), {}).setdefault(one.get("category_id"), []).append(one)
    images = {_id_text(image.get("id")): image for image in value["images"]}
    for known, image in images.items():
        found = boxes.get(known, {})
        looked = dict.fromkeys((*found, *image.get("neg_category_ids", ())))
        file = _file_of(image)
        for category in looked:
            if category in image.get("not_exhaustive_category_ids", ()):
                continue
            marks = found.get(category, [])
            if not file or not names.get(category) or not all(mark.get("bbox") for mark in marks):
                fault = (
                    "no file name"
                    if not file
                    else f"no name of category {category}"
                    if not names.get(category)
                    else "a mark without a box"
                )
                yield DataError(f"{name}, image {known}: it has {fault}")
                continue
            yield {
                "id": f"{known}:{category}",
                "image": file,
                "question": _question("boxes", [names[category]]),
                "kind": "boxes",
                "answer": _written(
                    [{"bbox": mark["bbox"], **({"area": mark["area"]} if mark.get("area") else {})} for mark in marks]
                ),
            }
    if lost := boxes.keys() - images.keys():
        yield DataError(f"{name}, image {min(lost)}: no image has this id; annotations name {len(lost)} absent images")


def _file_of(image: Mapping[str, Any]) -> Any:
    """Return the name of an image of COCO or LVIS, which may stand at the end of its address only."""
    return image.get("file_name") or re.sub(r"^\w+://[^/]*", "", str(image.get("coco_url") or "")) or None


def _id_text(value: Any) -> str:
    """Return an id as text: files write 2, "2" and 2.0 for one image."""
    hash(value)  # a list or an object is no id
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _results(task: Mapping[str, Any]) -> list[Any] | None:
    """Return the sets of marks of a task of Label Studio, those of people; None for another object."""
    sets = task.get("annotations", task.get("completions"))
    if isinstance(sets, list) and isinstance(task.get("data"), dict):
        kept = [one for one in sets if isinstance(one, dict) and "result" in one and not one.get("was_cancelled")]
        return [one.get("result") or [] for one in [one for one in kept if one.get("ground_truth")] or kept]
    parts = [part for part in task.values() if isinstance(part, list)]
    found = [one for part in parts for one in part if isinstance(one, dict)]
    if any(not _MARKED.isdisjoint(one) for one in found):
        return [[{"value": one, "type": _kind_of(one)} for one in found]]
    return None


def _kind_of(value: Mapping[str, Any]) -> str:
    """Return the kind of a mark in JSON-MIN, which names it by the key of its labels only."""
    return next((key for key in value if key in _MARKED or key.startswith(_NO_SHAPES)), "")


def _of_task(task: Mapping[str, Any]) -> Marked:
    sets, data = _results(task), task.get("data") or task
    if (
        sets is None
        and not isinstance(task.get("data"), dict)
        and any(isinstance(part, list) for part in task.values())
    ):
        sets = [[]]  # JSON-MIN writes an empty list of marks for an image on which nothing is
    texts = [str(cell) for cell in data.values() if isinstance(cell, str)]
    named = [text for text in texts if text.partition("?")[0].lower().endswith(IMAGE_SUFFIXES) or "?d=" in text]
    image = re.sub(r"^\w+://[^/]*/", "", named[0].partition("?d=")[2] or named[0].partition("?")[0]) if named else None
    if not sets:
        return Marked(task.get("id"), image, (), UNMARKED)
    if len(sets) > 1:
        return Marked(task.get("id"), image, (), f"it has {len(sets)} annotations, and none is marked as ground truth")
    marks, fault = [], ""
    for one in sets[0]:
        value, kind = one.get("value") or {}, str(one.get("type", ""))
        shape = next((shape for shape in _SHAPES if f"{shape}labels" in value or kind == shape), "")
        if kind == "choices":
            marks += [Mark(CLASS, str(label), one.get("from_name")) for label in value.get("choices") or ()]
        elif not shape and not kind.startswith(_NO_SHAPES):
            fault = f"{kind or 'a mark'} is not read" if kind != "relation" else fault
        elif shape == "rectangle" and value.get("rotation"):
            fault = f"a rectangle is rotated by {value['rotation']:g}°"
        elif shape:
            box, point = [value.get(key) for key in ("x", "y", "width", "height")], [value.get("x"), value.get("y")]
            cell = {"rectangle": {"bbox": box}, "keypoint": point, "polygon": [value.get("points")]}[shape]
            marks += [Mark(_SHAPES[shape], str(label), cell) for label in value.get(f"{shape}labels") or ("",)]
    return Marked(task.get("id"), image, marks, fault)


def _fiftyone(value: Mapping[str, Any], name: str) -> list[Marked] | None:
    samples, labels, classes = value.get("samples"), value.get("labels"), value.get("classes")
    labels = labels if isinstance(labels, dict) else {}
    found = [one for part in labels.values() if isinstance(part, list) for one in part]
    if isinstance(classes, list) and found and all(isinstance(one, dict) and "bounding_box" in one for one in found):
        return [_listed(key, part, classes) for key, part in labels.items()]
    if not isinstance(samples, list) or not samples or not isinstance(samples[0], dict) or "filepath" not in samples[0]:
        return None
    parts = [(key, part) for one in samples for key, part in one.items() if isinstance(part, dict)]
    shapes = {key for key, part in parts if not {"detections", "keypoints", "polylines"}.isdisjoint(part)}
    fields = shapes or {key for key, part in parts if part.get("_cls") in ("Classification", "Classifications")}
    if len(fields) > 1 and "ground_truth" not in fields:
        raise UsageError(
            f"{name}: {len(fields)} fields hold marks: {', '.join(sorted(fields))}",
            "Export the file with the one of the gold answers, or call it ground_truth.",
        )
    field = "ground_truth" if "ground_truth" in fields else next(iter(fields), "")
    images = []
    for one in samples:
        part, known = one.get(field) or {}, one.get("_id", one.get("id"))
        marks = _detections(part.get("detections") or (), ())
        for mark in part.get("keypoints") or ():
            marks += [Mark("point", str(mark.get("label") or ""), point) for point in mark.get("points") or ()]
        marks += [
            Mark("region", str(mark.get("label") or ""), mark.get("points")) for mark in part.get("polylines") or ()
        ]
        classes = part.get("classifications") or ([part] if part.get("_cls") == "Classification" else ())
        marks += [Mark(CLASS, str(mark["label"])) for mark in classes if mark.get("label")]
        fault = UNMARKED if field and one.get(field) is None else ""
        images.append(Marked(known.get("$oid") if isinstance(known, dict) else known, one["filepath"], marks, fault))
    return images


def _listed(key: str, found: Sequence[Mapping[str, Any]] | None, classes: Sequence[Any]) -> Marked:
    """Return an image of a list of labels, which are names or numbers of classes."""
    numbers = [one["label"] for one in found or () if isinstance(one.get("label"), (int, float))]
    wrong = [one for one in numbers if type(one) is not int or not 0 <= one < len(classes)]
    fault = f"label {wrong[0]} is none of its {len(classes)} classes, counted from 0" if wrong else ""
    if fault or found is None:
        return Marked(key, key, (), fault or UNMARKED)
    return Marked(key, key, _detections(found, classes))


def _detections(found: Sequence[Mapping[str, Any]], classes: Sequence[Any]) -> list[Mark]:
    marks = []
    for one in found:
        label = one.get("label")
        label = classes[label] if isinstance(label, int) and 0 <= label < len(classes) else label or ""
        crowd = {"iscrowd": 1} if one.get("iscrowd") else {}
        marks.append(Mark("boxes", str(label), {"bbox": one.get("bounding_box"), **crowd}))
    return marks
