"""Rule `vlmevalkit/end_to_end`: read a whole small table as VLMEvalKit does, write its prompts, and score predictions.

The kit reads a table with pandas, chooses a class by the data set's name, and writes and scores prompts by that class. A case
holds `dataset`, `tsv` (text) and `predictions`; `<IMAGE n>` in a cell stands for a picture.
Source: VLMEvalKit at e8e78f0 (18 August 2026), reproduced from its description and its outcomes.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from io import StringIO
from typing import Any, TypeAlias

from snellen.benchmarks.table.declaration import PromptStyle
from snellen.benchmarks.table.operations import LETTERS, parsed_list
from snellen.benchmarks.table.prompts import prompt_text
from snellen.benchmarks.table.scorers import answer_line
from snellen.errors import DataError
from snellen.scoring.rules import short_answers, vlmevalkit
from snellen.scoring.rules import vlmevalkit as option_rules
from snellen.scoring.rules.short_answers import ReferenceStopsError
from snellen.sources.pandas_cells import as_pandas, column_kinds, row_as_pandas

Row: TypeAlias = dict[str, Any]
Report: TypeAlias = Any
TABLE_CHARACTERS = 1 << 24
SHORTEST_IMAGE = 64
"""A cell of `image` of at most this many characters is the index of another row."""
_PICTURE = re.compile(r"<IMAGE \d{1,6}>")
_WORD_ANSWER = "\nAnswer the question using a single word or phrase."
_REAL_WORLD = (
    "Select the best answer to the above multiple-choice question based on the image. Respond with only the letter "
    "(A, B, C, D, or E) of the correct option. \nThe best answer is:"
)
_STEPS = (
    "Answer the following multiple-choice question. The last line of your response should be of the following format: "
    "'Answer: $LETTER' (without quotes) where LETTER is one of the options. Think step by step before answering. "
)
_NATURAL = {
    "yes_no": "Please answer Yes or No.",
    "multiple_choice": "Please output the letter corresponding to the correct option.",
}
_COUNT = " Note that: answer with a number directly e.g. 3. Do not include any additional text."
_ZERO = " \n\n\nLet's think step by step and give the final answer in curly braces,  like this: {final answer}"

CLASSES: Mapping[str, tuple[str, ...]] = {
    "CVBench": ("CV-Bench-2D", "CV-Bench-3D"),
    "HRBenchDataset": ("HRBench4K", "HRBench8K"),
    "MMMUProDataset": ("MMMU_Pro_10c", "MMMU_Pro_10c_COT", "MMMU_Pro_V", "MMMU_Pro_V_COT"),
    "MMMUDataset": ("MMMU_DEV_VAL", "MMMU_TEST"),
    "MUIRDataset": ("MUIRBench",),
    "NaturalBenchDataset": ("NaturalBenchDataset",),
    "MMERealWorld": ("MME-RealWorld", "MME-RealWorld-Lite", "MME-RealWorld-CN"),
    "OCRBench": ("OCRBench",),
    "CountBenchQA": ("CountBenchQA",),
    "TallyQA": ("TallyQA",),
    "ZEROBench": ("ZEROBench", "ZEROBench_sub"),
    "VLMBlind": ("VLMBlind",),
    "VizWiz": ("VizWiz",),
    "ImageYORNDataset": ("MME", "HallusionBench", "POPE", "AMBER", "VSR-zeroshot"),
    "ImageVQADataset": (
        *("OCRVQA_TEST", "OCRVQA_TESTCORE", "TextVQA_VAL", "DocVQA_VAL", "DocVQA_TEST", "InfoVQA_VAL", "InfoVQA_TEST"),
        *("ChartQA_TEST", "GQA_TestDev_Balanced"),
    ),
}


def class_of(dataset: str) -> str:
    """Return the kit's class for a data set; for an unknown name the one that its name suggests."""
    for name, datasets in CLASSES.items():
        if dataset in datasets:
            return name
    lowered = dataset.lower()
    if any(part in lowered for part in ("_yn", "yorn", "yesno", "yes_no")):
        return "ImageYORNDataset"
    if "vqa" in lowered:
        return "ImageVQADataset"
    return "ImageMCQDataset"


def end_to_end(case: Mapping[str, Any]) -> dict[str, Any]:
    """Return class, rows, indexes, prompts and report for a table and predictions; see the module.

    Raises:
        DataError: the case lacks a field, or its table cannot be read.
    """
    dataset, text, predictions = str(case["dataset"]), str(case["tsv"]), case["predictions"]
    name = class_of(dataset)
    try:
        asked_rows = kept_rows(dataset, text)
        prompts = [prompt_parts(dataset, row) for row in asked_rows]
        report = _report(name, dataset, _with_predictions(asked_rows, predictions))
    except ReferenceStopsError as error:
        return {"class": name, "raises": error.reference_error, "message": error.message}
    result = {
        "class": name,
        "rows_kept": len(asked_rows),
        "index": [row["index"] for row in asked_rows],
        "prompts": prompts,
    }
    return result if report is None else {**result, "report": report}


def kept_rows(dataset: str, text: str) -> list[Row]:
    """Return the rows that the kit asks, as it has them after reading a table; raise ReferenceStopsError where it stops."""
    asked_rows = _with_images(_read_table(text))
    if dataset.startswith("MMMU_Pro_V"):
        asked_rows = [{**row, "question": "placeholder"} for row in asked_rows]
    return [_real_world_row(row) for row in asked_rows] if class_of(dataset) == "MMERealWorld" else asked_rows


def prompt_parts(dataset: str, row: Row) -> list[dict[str, Any]]:
    """Return the prompt of a row: images by path and texts, in their order."""
    return _prompt(class_of(dataset), dataset, row)


def _stop(error: str, message: str = "") -> ReferenceStopsError:
    return ReferenceStopsError(error, message)


def _read_table(text: str) -> list[Row]:
    if len(text) > TABLE_CHARACTERS:
        raise DataError(f"the table has {len(text):,} characters; at most {TABLE_CHARACTERS:,} were expected")
    try:
        lines = [line for line in csv.reader(StringIO(text, newline=""), delimiter="\t") if line]
    except csv.Error as error:
        raise DataError(f"the table cannot be read: {error}") from error
    if not lines:
        raise DataError("the table is empty; a header line was expected")
    header = lines[0]
    raw = [dict(zip(header, [*line, *[""] * (len(header) - len(line))], strict=False)) for line in lines[1:]]
    kinds = column_kinds(raw)
    return [row_as_pandas(row, kinds) for row in raw]


def _with_images(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that have an image, with indexes as the kit has them, and the images of referenced rows."""
    asked_rows = [dict(row) for row in rows if "image" not in row or row["image"] is not None]
    for row in asked_rows:
        row["index"] = str(row.get("index"))
    if rows and "image" in rows[0]:
        images = {row["index"]: str(row["image"]) for row in asked_rows}
        for index, image in images.items():
            if not _is_image(image):
                if not _is_image(images.get(image, "")):
                    raise _stop("AssertionError")
                images[index] = images[image]
        for row in asked_rows:
            row["image"] = images[row["index"]]
    if all(re.fullmatch(r"-?\d{1,18}", row["index"]) for row in asked_rows):
        for row in asked_rows:
            row["index"] = int(row["index"])
    return asked_rows


def _is_image(cell: str) -> bool:
    return len(cell) > SHORTEST_IMAGE or _PICTURE.search(cell) is not None


def _paths(dataset: str, row: Row) -> list[str]:
    """Return where the kit writes a row's images, or where it reads them."""
    names = row.get("image_path")
    several = None if names is None else parsed_list(str(names)) or [str(names)]
    if "image" not in row:
        return [str(name) for name in several or []]
    images = parsed_list(str(row["image"])) or [row["image"]]
    if several is None:
        index = row["index"]
        several = [f"{index}.png"] if len(images) == 1 else [f"{index}_{at}.png" for at in range(len(images))]
    return [f"images/{dataset}/{name}" for name in several]


def _choices(row: Row) -> dict[str, str]:
    return {letter: str(row[letter]) for letter in LETTERS if row.get(letter) is not None}


def _real_world_row(row: Row) -> Row:
    listed = parsed_list(str(row.get("multi-choice options"))) or []
    letters = {letter: str(text)[4:] for letter, text in zip("ABCDE", listed, strict=False)}
    return {**row, **letters, "multi-choice options": "The choices are listed below:\n" + "\n".join(map(str, listed))}


def _prompt(name: str, dataset: str, row: Row) -> list[dict[str, Any]]:
    paths, text = _paths(dataset, row), _text(name, dataset, row)
    if name in ("MMMUDataset", "MMMUProDataset") and "<image " in text:
        return _at_numbers(text, paths)
    if name == "MUIRDataset":
        return _at_marks(text, paths)
    hashed = name == "CountBenchQA" or dataset.endswith("_COT")
    return [*map(_image, paths), _hashed(text) if hashed else _words(text)]


def _image(path: str) -> dict[str, Any]:
    return {"type": "image", "value": path}


def _words(text: str) -> dict[str, Any]:
    return {"type": "text", "value": text}


def _hashed(text: str) -> dict[str, Any]:
    """Return a text by its digest: these hold a longer passage of the reference."""
    return {"type": "text", "sha256": sha256(text.encode()).hexdigest(), "characters": len(text), "begins": text[:30]}


def _text(name: str, dataset: str, row: Row) -> str:
    question = str(row.get("question"))
    if name == "CVBench":
        return str(row.get("prompt"))
    if name == "MUIRDataset":
        lead = f"{question}\n"
        lines = "\n".join(f"{letter}. {text}" for letter, text in _choices(row).items())
        ending = "\nAnswer with the option's letter from the given choices directly."
        return f"{lead}{lines}{ending}" if lines else lead
    if name == "MMERealWorld":
        return f"{question} {row['multi-choice options']}\n{_REAL_WORLD}"
    if name == "NaturalBenchDataset":
        return f"{question} {_NATURAL[str(row.get('type'))]}"
    endings = {
        "ImageVQADataset": _WORD_ANSWER,
        "TallyQA": "\nAnswer the question using a single number.",
        "CountBenchQA": _COUNT,
        "ZEROBench": _ZERO,
        "ImageYORNDataset": "\nPlease answer yes or no." if dataset == "AMBER" else "",
        "OCRBench": "",
        "VizWiz": "",
        "VLMBlind": "",
    }
    if name in endings:
        return question + endings[name]
    hint = row.get("hint")
    request: str | None = None
    if name == "MMMUProDataset":
        hint = None
        request = (
            _STEPS if dataset.endswith("_COT") else "Answer directly with the option letter from the given choices. "
        )
    style = PromptStyle(style="kit-mcq", request=request)
    return prompt_text(style, question, _choices(row), "" if hint is None else str(hint))


def _at_numbers(text: str, paths: Sequence[str]) -> list[dict[str, Any]]:
    first, *segments = text.split("<image ")
    parts = [_words(first)]
    for segment in segments:
        if not segment[:1].isdigit() or segment[1:2] != ">":
            raise _stop("AssertionError")
        number = int(segment[0]) - 1
        if number >= len(paths):
            raise _stop("IndexError", "list index out of range")
        parts += [_image(paths[number]), _words(segment[2:])]
    return parts


def _at_marks(text: str, paths: Sequence[str]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for at, segment in enumerate(text.split("<image>")):
        if 0 < at <= len(paths):
            parts.append(_image(paths[at - 1]))
        if segment:
            parts.append(_words(segment))
    return parts


def _with_predictions(rows: Sequence[Row], predictions: Sequence[Any]) -> list[Row]:
    """Return the rows with the predictions as they come back from the file, in the order of the index."""
    cells = ["" if text is None else str(text) for text in predictions]
    kind = column_kinds({"prediction": cell} for cell in cells).get("prediction", "text")
    read = [as_pandas(cell, kind) for cell in cells]
    joined = [
        {**row, "prediction": "nan" if cell is None else str(cell)} for row, cell in zip(rows, read, strict=False)
    ]
    return sorted(joined, key=lambda row: row["index"])


def _report(name: str, dataset: str, rows: list[Row]) -> Report:
    if name == "CountBenchQA":
        return None
    return _REPORTS.get(name, _mcq_report)(dataset, rows)


def _lowered(row: Row) -> Row:
    return {column if column in LETTERS else column.lower(): cell for column, cell in row.items()}


def _mcq_report(dataset: str, rows: list[Row]) -> Report:
    rows = [_lowered(row) for row in rows]
    circular = any(part in dataset.lower() for part in ("mmbench", "ccbench", "circular", "mmcr"))
    if circular:
        groups: dict[Any, list[Row]] = {}
        for row in rows:
            groups.setdefault(row.get("g_index", row["index"] % 1_000_000), []).append(row)
        mains = {group: row for group, members in groups.items() for row in members if row["index"] == group}
        rolls = {group: [{**row, "options": _choices(row)} for row in members] for group, members in groups.items()}
        hits = [{**row, "hit": option_rules.circular_hit(rolls[group]) or 0} for group, row in mains.items()]
    else:
        hits = [{**row, "hit": int(_letter(row) == row.get("answer"))} for row in rows]
    if dataset == "MMVP":
        try:
            return [{"Average": None, **option_rules.pair_report(hits)}]
        except option_rules.PairingError as error:
            raise _stop("AssertionError") from error
    return _by_split(hits)


def _letter(row: Row) -> str | None:
    return option_rules.infer(row["prediction"], _choices(row))


def _by_split(hits: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the accuracies as rows, one a split; categories without rows in a split are null."""
    report = option_rules.accuracy_report(hits)
    return [{"split": split, **cells} for split, cells in report.items()]


def _cv_bench(dataset: str, rows: list[Row]) -> Report:
    hits = [{**_lowered(row), "hit": int(_letter(row) == row.get("answer"))} for row in rows]
    if not all(row["split"] == "2D" for row in hits):
        return _by_split(hits)
    sources = list(dict.fromkeys(row["source"] for row in hits))
    means = {source: _share([row["hit"] for row in hits if row["source"] == source]) for source in sources}
    return [{"split": "2D", **means, "Overall": sum(means.values()) / len(means)}]


def _share(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _hr_bench(dataset: str, rows: list[Row]) -> Report:
    hits = [{**_lowered(row), "hit": int(_letter(row) == row.get("answer"))} for row in rows]
    cycles = sorted({row["cycle_category"] for row in hits})
    report: list[dict[str, Any]] = []
    sums: dict[str, float] = {}
    for cycle in cycles:
        chosen = [row for row in hits if row["cycle_category"] == cycle]
        kinds = list(dict.fromkeys(row["category"] for row in chosen))
        means = {kind: _share([row["hit"] for row in chosen if row["category"] == kind]) for kind in kinds}
        for kind, mean in {**means, "all": _share([row["hit"] for row in chosen])}.items():
            report.append({"cycle": cycle, "type": kind, "accuracy": mean})
            sums[kind] = sums.get(kind, 0.0) + mean
    return report + [
        {"cycle": "Average", "type": kind, "accuracy": total / len(cycles)} for kind, total in sums.items()
    ]


def _mmmu(dataset: str, rows: list[Row]) -> Report:
    """An open question becomes a choice between its gold answer and Other Answers."""
    closed = [
        {**row, "A": row["answer"], "B": "Other Answers", "answer": "A"} if row.get("A") is None else row
        for row in rows
    ]
    if dataset.endswith("_COT"):
        closed = [{**row, "prediction": answer_line(row["prediction"])} for row in closed]
    return _mcq_report(dataset, closed)


def _natural_bench(dataset: str, rows: list[Row]) -> Report:
    if len(rows) != 7600:
        raise _stop("AssertionError")
    read = [vlmevalkit.read_natural_bench(row["prediction"], str(row["type"])) for row in rows]
    return dict(vlmevalkit.natural_bench_report([read[at : at + 4] for at in range(0, len(read), 4)]))


def _real_world(dataset: str, rows: list[Row]) -> Report:
    return None


def _yes_no(dataset: str, rows: list[Row]) -> Report:
    read = [{**row, "extracted": vlmevalkit.read_yes_no(row["prediction"])} for row in rows]
    if dataset == "POPE":
        return [{"split": part, **cells} for part, cells in vlmevalkit.pope_report(read).items()]
    if dataset == "HallusionBench":
        return [{"split": part, **cells} for part, cells in vlmevalkit.hallusion_report(read).items()]
    if dataset == "MME":
        try:
            return [dict(vlmevalkit.mme_report(read))]
        except (KeyError, IndexError) as error:
            raise _stop(type(error).__name__, str(error)) from error
    if dataset == "AMBER":
        return [dict(vlmevalkit.amber_report(read))]
    report = {"Overall": 100 * _share([row["answer"] == row["extracted"] for row in read])}
    for level in ("category", "l2-category"):
        for name in dict.fromkeys(row[level] for row in read if row.get(level) is not None):
            chosen = [row for row in read if row[level] == name]
            report[str(name)] = 100 * _share([row["answer"] == row["extracted"] for row in chosen])
    return [report]


def _vqa(dataset: str, rows: list[Row]) -> Report:
    rule: Callable[[str, str], dict[str, Any]] = short_answers.vqa_score
    for part, other in (
        ("ChartQA", short_answers.relaxed_accuracy),
        ("OCRVQA", short_answers.accuracy),
        ("GQA", short_answers.accuracy),
        ("DocVQA", short_answers.anls),
        ("InfoVQA", short_answers.anls),
    ):
        if part in dataset:
            rule = other
    gold = "answers" if rows and "answers" in rows[0] else "answer"
    scores = [float(rule(row["prediction"], str(row[gold]))["score"]) for row in rows]
    overall = {"Overall": 100 * _share(scores)}
    level = next((level for level in ("split", "category") if rows and level in rows[0]), "")
    parts = {
        str(value): 100 * _share([score for row, score in zip(rows, scores, strict=True) if row[level] == value])
        for value in dict.fromkeys(row[level] for row in rows if level)
    }
    return [{**parts, **overall}] if level == "split" else [{**overall, **parts}]


OCR_SUMS = {
    "Text Recognition": short_answers.OCR_CATEGORIES[:6],
    **{name: (name,) for name in short_answers.OCR_CATEGORIES[6:]},
}


def _ocr_bench(dataset: str, rows: list[Row]) -> Report:
    hits = [
        (short_answers.ocrbench_hit(row["prediction"], str(row["answer"]), str(row["category"])), row) for row in rows
    ]
    sums = {name: sum(hit for hit, row in hits if row["category"] in parts) for name, parts in OCR_SUMS.items()}
    total = sum(sums.values())
    return {**sums, "Final Score": total, "Final Score Norm": total / 10}


def _tally(dataset: str, rows: list[Row]) -> Report:
    return [{"TallyQA": _share([short_answers.first_count(row["prediction"]) == int(row["answer"]) for row in rows])}]


def _zero(dataset: str, rows: list[Row]) -> Report:
    gold = "answers" if rows and "answers" in rows[0] else "answer"
    return {"accuracy": _share([short_answers.last_braces_contain(row["prediction"], str(row[gold])) for row in rows])}


def _blind(dataset: str, rows: list[Row]) -> Report:
    hits = [
        (str(row["task"]), short_answers.blind_test_hit(row["prediction"], str(row["answers"]), str(row["task"])))
        for row in rows
    ]
    tasks = dict.fromkeys(task for task, _ in hits)
    return [{task: _share([hit for name, hit in hits if name == task]) for task in tasks}]


_REPORTS: Mapping[str, Callable[[str, list[Row]], Report]] = {
    "CVBench": _cv_bench,
    "HRBenchDataset": _hr_bench,
    "MMMUDataset": _mmmu,
    "MMMUProDataset": _mmmu,
    "NaturalBenchDataset": _natural_bench,
    "MMERealWorld": _real_world,
    "ImageYORNDataset": _yes_no,
    "ImageVQADataset": _vqa,
    "VizWiz": _vqa,
    "OCRBench": _ocr_bench,
    "TallyQA": _tally,
    "ZEROBench": _zero,
    "VLMBlind": _blind,
}
