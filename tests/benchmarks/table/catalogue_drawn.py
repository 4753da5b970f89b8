"""Small drawn sets in the official layout of each entry of the catalogue, with the reply that is right for each row."""

from __future__ import annotations

import base64
import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from box_sets_drawn import BOX_SETS, MASK, WITH_FILES, draw_files, mask, screen
from card_sets_drawn import CARD_SETS, IMAGE, JUDGED, PATH
from clip_sets_drawn import CLIP_SETS, draw_clip_set
from document_sets_drawn import DOCUMENT_SETS, repository
from document_sets_drawn import ROWS as DOCUMENT_ROWS
from further_video_sets_drawn import FURTHER_VIDEO_SETS
from medical_sets_drawn import MEDICAL_FILES, MEDICAL_SETS, draw_medical
from PIL import Image as Picture
from video_sets_drawn import VIDEO_SETS, draw_video_set

from servers.oracle import SentQuestion, digest
from snellen.benchmarks.table.declaration import Declaration

Row = dict[str, Any]
LISTED = {**CARD_SETS, **MEDICAL_SETS}
"""Sets whose drawn rows are listed with their replies."""
WORDS = ("mast", "hull", "sail", "deck")
ROWS = 8


def picture(number: int) -> bytes:
    """Return a drawn image of a colour of its own."""
    content = io.BytesIO()
    Picture.new("RGB", (24, 24), (number * 7 % 256, number * 53 % 256, number * 101 % 256)).save(content, "PNG")
    return content.getvalue()


@dataclass
class DrawnSet:
    """A drawn table.

    Attributes:
        path: its file, for --data.
        images: folder for --images; None where the table holds its images.
        right: digest of a row's first image to the right reply.
        rows: how many questions it has.
        first: digest of the first row's image.
    """

    path: Path
    images: Path | None = None
    right: dict[str, Callable[[SentQuestion], str]] = field(default_factory=dict)
    rows: int = 0
    first: str = ""

    def reply(self, request: SentQuestion) -> str:
        """Return the right reply, but for the first row."""
        assert len(request.images) >= 1, request.text
        if request.images[0] == self.first:
            return "I cannot tell at all."
        return self.right[request.images[0]](request)


def text(reply: str) -> Callable[[SentQuestion], str]:
    return lambda request: reply


def option(words: str) -> Callable[[SentQuestion], str]:
    """Return the reply that names the letter under which an option was shown."""
    return lambda request: request.letter(words)


def mcq(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    letter = "ABCD"[number % 4]
    row = {"question": f"Which part is {number}?", **dict(zip("ABCD", WORDS, strict=True)), "answer": letter}
    return row, option(WORDS[number % 4])


def one_of_two(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    row = {
        "question": f"Which side, {number // 2}?",
        **dict(zip("AB", WORDS, strict=False)),
        "answer": "AB"[number % 2],
    }
    return row, option(WORDS[number % 2])


def yes_no(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    answer = ("Yes", "No")[number % 2]
    return {"question": f"Is part {number} there?", "answer": answer}, text(answer)


def short(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    return {"question": f"What is written on {number}?", "answer": f"word {number}x"}, text(f"word {number}x")


def golds(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    row, reply = short(number)
    return {**row, "answer": str([row["answer"]] * 10)}, reply


def number_row(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    return {"question": "How many?", "answer": number + 2}, text(str(number + 2))


def in_braces(column: str = "answer") -> Callable[[int], tuple[Row, Callable[[SentQuestion], str]]]:
    return lambda number: ({"question": f"Which {number}?", column: f"w{number}"}, text(f"So it is {{w{number}}}"))


def extra(make: Callable[[int], tuple[Row, Any]], more: Callable[[int], Row]) -> Callable[[int], tuple[Row, Any]]:
    def with_more(number: int) -> tuple[Row, Any]:
        row, reply = make(number)
        return {**row, **more(number)}, reply

    return with_more


MME = (
    *("OCR", "artwork", "celebrity", "color", "count", "existence", "landmark", "position", "posters", "scene"),
    *("code_reasoning", "commonsense_reasoning", "numerical_calculation", "text_translation"),
)
OCR = (
    *("Regular Text Recognition", "Scene Text-centric VQA", "Doc-oriented VQA", "Key Information Extraction"),
    *("Handwritten Mathematical Expression Recognition", "Irregular Text Recognition"),
)
BLIND = (
    ("Subway Connections", "2", "{2}"),
    ("Touching Circles", "Yes", "Yes"),
    ("Counting Grid - Blank Grids", "3,4", "(3, 4)"),
    ("Circled Letter", "T", "{T}"),
)


def blind(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    task, answer, reply = BLIND[number % 4]
    return {"question": f"Look at {number}.", "task": task, "answers": answer}, text(reply)


def natural(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    yes = number % 4 in (0, 3)
    if number < 4:
        reply = "Yes" if yes else "No"
        return {"question": f"Is it {number}?", "answer": reply, "type": "yes_no"}, text(reply)
    reply = "A" if yes else "B"
    return {"question": f"A or B, {number}?", "answer": reply, "type": "multiple_choice"}, text(reply)


def rolled(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    question, turn = divmod(number, 4)
    order = [*WORDS[turn:], *WORDS[:turn]]
    answer = "ABCD"[order.index("hull")]
    row = {"index": question + 1 + turn * 1_000_000, "hint": "A ship.", "question": f"Which of {question}?"}
    return {**row, **dict(zip("ABCD", order, strict=True)), "answer": answer}, option("hull")


def prompted(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    row, _ = mcq(number)
    return {**row, "prompt": f"Part {number}? (A) mast (B) hull (C) sail (D) deck"}, text(row["answer"])


def listed(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    options = [f"({letter}) {word}" for letter, word in zip("ABCDE", (*WORDS, "none of them"), strict=True)]
    letter = "ABCDE"[number % 5]
    more = {"multi-choice options": str(options), "category": f"OCR/sign {number % 2}", "l2-category": "roads"}
    return {"question": f"Which {number}?", "answer": letter, **more}, text(letter)


def puzzle(number: int) -> tuple[Row, Callable[[SentQuestion], str]]:
    letter = "ABCD"[number % 4]
    options = str(list(WORDS)) if number % 2 else ""
    row = {"question": f"Which {number}?", "options": options, "answer": letter, "category": "logic", "level": "easy"}
    return row, text(f"Because.\nAnswer: {letter}")


def hallusion(number: int) -> Row:
    return {
        "index": f"VD_map_1_{number // 4}_{number % 4 // 2}_{number % 2}",
        "category": "VD",
        "l2-category": "map",
    }


CATEGORY: Callable[[int], Row] = lambda number: {"category": ("near", "far")[number % 2]}  # noqa: E731
LEVELS: Callable[[int], Row] = lambda number: {**CATEGORY(number), "l2-category": "all"}  # noqa: E731
PLAIN = extra(mcq, CATEGORY)
DRAWN: Mapping[str, Callable[[int], tuple[Row, Any]]] = {
    "mmvp": one_of_two,
    "cv-bench-2d": extra(
        prompted, lambda number: {**CATEGORY(number), "split": "2D", "source": ("ADE20K", "COCO")[number // 4]}
    ),
    "cv-bench-3d": extra(prompted, lambda number: {**CATEGORY(number), "split": "3D"}),
    "hrbench4k": extra(mcq, lambda number: {**CATEGORY(number), "cycle_category": str(number % 4)}),
    "hrbench8k": extra(mcq, lambda number: {**CATEGORY(number), "cycle_category": str(number % 4)}),
    "hallusionbench": extra(yes_no, hallusion),
    "pope": extra(yes_no, lambda number: {"category": ("random", "popular")[number % 2]}),
    "amber": extra(yes_no, lambda number: {"category": ("discriminative-attribute-state", "relation")[number // 4]}),
    "naturalbench": natural,
    "mmstar": extra(mcq, LEVELS),
    "mmbench-dev-en-v11": extra(rolled, LEVELS),
    "mmbench-dev-cn-v11": extra(rolled, LEVELS),
    "mmt-bench-val": extra(mcq, LEVELS),
    "scienceqa": extra(PLAIN, lambda number: {"hint": "A ship has a hull."}),
    "mmmu-val": extra(
        mcq,
        lambda number: {"question": f"See <image 1>. Which, {number}?", "split": "validation", **LEVELS(number)},
    ),
    "mmmu-pro": extra(PLAIN, lambda number: {"question": f"<image 1> Which, {number}?"}),
    "ocrbench": extra(golds, lambda number: {"category": OCR[number % len(OCR)]}),
    "chartqa": extra(short, lambda number: {"split": ("test_human", "test_augmented")[number % 2]}),
    "docvqa-val": golds,
    "infovqa-val": golds,
    "textvqa-val": golds,
    "gqa": lambda number: (
        {"question": f"What is part {number}?", "answer": WORDS[number % 4]},
        text(WORDS[number % 4]),
    ),
    "vizwiz": lambda number: (
        {"question": f"What {number}?", "answers": str([f"word {number}x"] * 10)},
        text(f"word {number}x"),
    ),
    "countbenchqa": number_row,
    "tallyqa": number_row,
    "zerobench": in_braces("answers"),
    "blindtest": blind,
    "mme": extra(
        yes_no, lambda number: {"category": MME[number // 2], "image_path": f"{MME[number // 2]}/{number // 2}.png"}
    ),
    "mme-realworld": listed,
    "muirbench": extra(PLAIN, lambda number: {"question": f"Is <image> like <image>, {number}?"}),
    "vsr": yes_no,
    "visualpuzzles": puzzle,
    "vlmbias": extra(in_braces(), CATEGORY),
}
COUNTS = {"mme": 28}


def rows_of(name: str) -> list[tuple[Row, Callable[[SentQuestion], str]]]:
    make = DRAWN.get(name, PLAIN)
    return [make(number) for number in range(COUNTS.get(name, ROWS))]


def draw(declared: Declaration, folder: Path) -> DrawnSet:
    """Draw a set in the layout of an entry: a TSV with images in base64, a parquet of the hub, or JSON and a folder."""
    if declared.name in DOCUMENT_SETS:
        return DrawnSet(repository(folder), rows=len(DOCUMENT_ROWS))
    if declared.name in VIDEO_SETS:
        return DrawnSet(*draw_video_set(declared.name, folder, picture(0)), rows=len(VIDEO_SETS[declared.name].rows))
    if declared.name in CLIP_SETS:
        rows = 2 if declared.name == "videommmu-knowledge" else 1  # without and with the lecture
        return DrawnSet(draw_clip_set(declared.name, folder), rows=rows * len(CLIP_SETS[declared.name]))
    if declared.name in FURTHER_VIDEO_SETS:
        draw_set, rows = FURTHER_VIDEO_SETS[declared.name]
        return DrawnSet(draw_set(folder), rows=rows)
    if declared.name in LISTED:
        return draw_card_set(declared, folder, [row for row, _ in LISTED[declared.name]])
    if declared.source.tsv:
        return draw_tsv(declared.name, folder)
    return draw_json(declared, folder) if declared.source.json else draw_parquet(declared.name, folder)


def draw_card_set(declared: Declaration, folder: Path, rows: list[Row]) -> DrawnSet:
    """Draw rows whose cells say where a picture is: a TSV, or a parquet with the pictures in it."""
    is_tsv = bool(declared.source.tsv) or declared.source.files == ("TreeBench.tsv",)
    drawn = DrawnSet(folder / ("drawn.tsv" if is_tsv else "drawn.parquet"), rows=len(rows))
    written = []
    drawing = screen if declared.name in (*BOX_SETS, *WITH_FILES) else picture
    if declared.name in (*WITH_FILES, *MEDICAL_FILES):
        if declared.name in WITH_FILES:
            drawn.path, drawn.images = draw_files(declared.name, [dict(row) for row in rows], folder)
        else:
            drawn.path = draw_medical(declared.name, rows, [picture(number) for number in range(len(rows))], folder)
        drawn.first = digest(drawing(0))
        for number, (_, reply) in enumerate(LISTED.get(declared.name, [])[: len(rows)]):
            drawn.right[digest(drawing(number))] = text(reply)
        return drawn
    for number, row in enumerate(rows):
        image = drawing(number)
        drawn.first = drawn.first or (digest(image) if declared.name not in JUDGED else "")
        if PATH in row.values():
            drawn.images = folder / "pictures"
            drawn.images.mkdir(exist_ok=True)
            (drawn.images / f"{number}.png").write_bytes(image)
        cell = base64.b64encode(image).decode() if is_tsv else {"bytes": image, "path": None}
        cells = {IMAGE: cell, PATH: f"{number}.png", MASK: {"bytes": mask(), "path": None}}
        written.append(
            {name: cells.get(value, value) if isinstance(value, str) else value for name, value in row.items()}
        )
    for number, (_, reply) in enumerate(LISTED.get(declared.name, [])[: len(rows)]):
        drawn.right[digest(drawing(number))] = text(reply)
    if declared.source.explode:
        drawn.rows = sum(len(row[declared.source.explode]) for row in rows)
    if is_tsv:
        with drawn.path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(written[0]), delimiter="\t")
            writer.writeheader()
            writer.writerows(written)
    else:
        pq.write_table(pa.Table.from_pylist(written), drawn.path)
    return drawn


def draw_tsv(name: str, folder: Path) -> DrawnSet:
    drawn = DrawnSet(folder / "drawn.tsv")
    rows = []
    for number, (row, reply) in enumerate(rows_of(name)):
        images = [picture(2 * number)]
        if name == "muirbench":
            images.append(picture(2 * number + 1))
        encoded = [base64.b64encode(image).decode() for image in images]
        rows.append({"index": number, "image": encoded[0] if len(encoded) == 1 else str(encoded), **row})
        drawn.right[digest(images[0])] = reply
        drawn.first = drawn.first or digest(images[0])
    drawn.rows = len(rows)
    with drawn.path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return drawn


def draw_json(declared: Declaration, folder: Path) -> DrawnSet:
    """Draw options whose first one is always right, images in a folder."""
    drawn = DrawnSet(folder / "drawn.json", folder / "pictures", rows=ROWS)
    (folder / "pictures" / "set").mkdir(parents=True)
    labels: dict[str, list[Row]] = {}
    flat: dict[str, list[Row]] = {"0": [], "1": []}
    for number in range(ROWS):
        name, image = f"set/{number}.png", picture(number)
        (folder / "pictures" / name).write_bytes(image)
        gold = WORDS[number % 4]
        options = [gold, *(word for word in WORDS if word != gold)]
        labels.setdefault(gold, []).append({"image": name, "options": options, "groundtruth": gold})
        flat[str(number % 2)].append({"image_path": name, "caption_options": options})
        drawn.right[digest(image)] = option(gold)
        drawn.first = drawn.first or digest(image)
    content: Any = labels if declared.name.startswith("foci-") else [row for part in flat.values() for row in part]
    drawn.path.write_text(json.dumps(content), encoding="utf-8")
    return drawn


def draw_parquet(name: str, folder: Path) -> DrawnSet:
    drawn = DrawnSet(folder / "drawn.parquet", rows=ROWS)
    rows: list[Row] = []
    for number in range(ROWS if name != "winoground" else ROWS // 2):
        image = picture(number)
        gold = WORDS[number % 4]
        drawn.first = drawn.first or digest(image)
        drawn.right[digest(image)] = option(gold)
        if name == "colorbench":
            cells = {"bytes": image, "path": None}
            rows.append(
                {
                    "idx": number, "type": ("Perception", "Robustness")[number // 4], "task": "hue", "image": cells,
                    "filename": f"seed{number // 2}_{number}.png", "question": f"Which {number}?",
                    "choices": list(WORDS), "answer": f"({'ABCD'[number % 4]})",
                }
            )  # fmt: skip
        elif name == "mmiu":
            drawn.images = folder / "pictures"
            drawn.images.mkdir(exist_ok=True)
            (drawn.images / f"{number}.png").write_bytes(image)
            options = "\n".join(f"{letter}: {word}" for letter, word in zip("ABCD", WORDS, strict=True))
            rows.append(
                {
                    "task": f"task {number % 2}", "input_image_path": [f"./{number}.png"], "question": f"Which {number}?",
                    "options": options, "output": "ABCD"[number % 4], "context": "Look.",
                }
            )  # fmt: skip
        else:
            other = picture(100 + number)
            drawn.right[digest(image)] = option(f"a {gold} over water")
            drawn.right[digest(other)] = option(f"water over a {gold}")
            rows.append(
                {
                    "id": number, "image_0": {"bytes": image, "path": None}, "image_1": {"bytes": other, "path": None},
                    "caption_0": f"a {gold} over water", "caption_1": f"water over a {gold}", "tag": "Object",
                }
            )  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), drawn.path)
    return drawn
