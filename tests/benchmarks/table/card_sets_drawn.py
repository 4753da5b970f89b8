"""Small drawn sets in the official layout of benchmarks that model cards report: a row, and a reply that every profile takes as right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from box_sets_drawn import BOX_HEADLINES, BOX_SETS

Row = dict[str, Any]
IMAGE, PATH = "@image", "@path"


def empty_wordnet(folder: Path) -> list[str]:
    """Write a WordNet without words where NLTK looks for it: METEOR then compares words and their stems alone."""
    corpus = folder / "corpora" / "wordnet"
    corpus.mkdir(parents=True)
    parts = ("adj", "adv", "noun", "verb")
    files = (f"{kind}.{part}" for kind in ("index", "data") for part in parts)
    for name in ("cntlist.rev", "lexnames", "index.sense", *files, *(f"{part}.exc" for part in parts)):
        (corpus / name).write_text("")
    return [str(folder)]


"""Stand for a drawn picture: in a cell of a table, and in a folder of its own."""


PAGE = "zzzz\n\n\\[ x^2 \\]\n\n<table><tr><td>1</td></tr></table>"


def page_record(number: int, **attributes: str) -> Row:
    """Return a page of OmniDocBench: a text, a caption, a formula and a table, in this order."""
    parts = {"text_block": ("text", "zzzz"), "equation_isolated": ("latex", "x^2"), "table": ("html", TABLE_CELL)}
    blocks = [
        {"category_type": category, "order": order, "anno_id": f"b{order}", "ignore": False, member: text}
        for order, (category, (member, text)) in enumerate(parts.items(), 1)
    ]
    attributes = {"language": ("english", "simplified_chinese")[number % 2], "data_source": "book", **attributes}
    page = {
        "page_no": number,
        "image_path": f"{number}.png",
        "page_attribute": {"layout": "single_column", **attributes},
    }
    return {"layout_dets": blocks, "page_info": page, "extra": {"relation": []}}


TABLE_CELL = "<table><tr><td>1</td></tr></table>"


def mcq(number: int, answer: str, **more: Any) -> Row:
    return {"index": number, "image": IMAGE, "question": f"Which part is {number}?", "answer": answer, **more}


def logic(number: int, answer: str, skill: str) -> Row:
    return mcq(number, answer, skill=f"['{skill}', 'spatial']" if number else f"['{skill}']")


def rolled_relation(number: int) -> tuple[Row, str]:
    letter = "ABCD"[number % 4]
    text = f"What holds {number // 4}?\nA. rope\nB. hook\nC. hand\nD. mast\nAnswer with a letter."
    category = ("subject", "object")[number // 4]
    return {"index": number, "image_path": PATH, "question": text, "answer": letter, "category": category}, letter


def problem(number: int, kind: str, answer: str, options: list[str], question: str) -> Row:
    images = {f"image_{at}": IMAGE if at == 1 else None for at in range(1, 6)}
    return {
        "pid": f"math_{number}", "question": question, "options": options, "answer": answer, "type": kind,
        "context": "A ship.", "subject": ("Math", "Coding")[number % 2], "task": "t", "category": "c", **images,
    }  # fmt: skip


def vista(
    number: int, answer: str, answer_type: str, choices: list[str] | None = None, precision: float | None = None
) -> Row:
    kind = "multi_choice" if choices else "free_form"
    return {
        "pid": str(number), "query": f"Hint: give it.\nQuestion: how much is {number}?", "decoded_image": IMAGE,
        "choices": choices, "answer": answer, "question_type": kind, "answer_type": answer_type, "precision": precision,
        "metadata": {
            "task": ("geometry problem solving", "figure question answering")[number % 2], "language": "english",
            "skills": ["algebraic reasoning"] if number < 2 else ["algebraic reasoning", "statistical reasoning"],
        },
    }  # fmt: skip


def vision(number: int, answer: str, options: list[str], level: int = 1) -> Row:
    question = f"How long is {number}? <image1>"
    shown = {"image": f"images/{number}.jpg", "decoded_image": IMAGE}
    return {
        "id": str(number),
        "question": question,
        "options": options,
        "answer": answer,
        "level": level,
        "subject": "algebra",
        **shown,
    }


def variant(number: int, qid: int, answer: str, answer_type: str, short: str | None = None) -> tuple[Row, str]:
    row = mcq(
        number,
        answer,
        qid=qid,
        varid=number % 2 + 1,
        answer_type=answer_type,
        subject="algebra",
        knowledge_level="high school",
    )
    return row, json.dumps({"solution": "count", "short answer": answer if short is None else short})


def step(number: int, problem: int, key: str, answer: str) -> tuple[Row, str]:
    options = dict(zip("ABC", ("3 cm", "4 cm", "No correct answer"), strict=True))
    return mcq(number, answer, ID=problem, key=key, **options), f"<Thought process>: so. <Answer>: {answer}"


def version(number: int, kind: str, answer: str) -> Row:
    return {
        "sample_index": str(number), "problem_index": str(number // 2), "problem_version": ("Text Dominant", "Vision Only")[number % 2],
        "question": "How long?", "image": IMAGE, "answer": answer, "question_type": kind, "query_wo": f"Question: how long is {number}?",
        "metadata": {"split": "testmini", "source": "s", "subject": "Plane Geometry", "subfield": "Length"},
    }  # fmt: skip


def charted(number: int, **more: Any) -> Row:
    grading = f"Grade {{PREDICTION}} against {number}. Answer with extracted_answer and score."
    return {"index": number, "image": IMAGE, "question": f"What is at {number}?", "grading_query": grading, **more}


def baby(number: int, options: list[str] | None = None, choice: int | None = None, blank: str | None = None) -> Row:
    return {
        "taskId": number, "type": "Visual Tracking", "subtype": "maze", "image": IMAGE, "question": f"Which way, {number}?",
        "ansType": "choice" if options else "blank", "options": options or [], "choiceAns": choice, "blankAns": blank,
    }  # fmt: skip


def page_row(number: int, category: str, answers: list[Any], **more: Any) -> Row:
    """A row of OCRBench v2 in VLMEvalKit's table, whose empty cells are words."""
    empty = {"eval": "without eval", "bbox": "without bbox", "content": "without content"}
    return mcq(number, str(answers), category=category, **empty) | more


SENTENCE = "one ship lies in the quiet harbour all day long"
TABLE = "<table><tr><td>a</td><td>b</td></tr></table>"


def chinese(number: int, kind: str, answer: str, options: tuple[str, ...] = ("-", "-", "-", "-")) -> Row:
    cells = {f"option{at}": text for at, text in enumerate(options, 1)}
    return mcq(number, answer, type=kind, category=("科学", "商业")[number % 2], question=f"第{number}题？", **cells)


def sequence(number: int, answer: str, capability: list[str]) -> Row:
    images = {f"image_{at}": IMAGE if at == 0 else None for at in range(18)}
    question = f"What is on<IMG><image_0><IMG>, {number}?"
    return {"id": f"v2_{number}", "question": question, "answer": answer, "capability": capability, **images}


CARD_SETS: Mapping[str, list[tuple[Row, str]]] = {
    "logicvista": [
        (logic(0, "B", "inductive"), "B"), (logic(1, "A, C", "inductive"), "AC"),
        (logic(2, "D", "deductive"), "D"), (logic(3, "E", "numerical"), "E"),
    ],
    "visulogic": [
        (mcq(number, letter, category="Spatial Reasoning"), rf"Steps. Answer: \boxed{{{letter}}}") for number, letter in enumerate("ABCD")
    ],
    "crpe-relation": [rolled_relation(number) for number in range(8)],
    "crpe-exist": [rolled_relation(number) for number in range(8)],
    "emma": [
        (problem(0, "Multiple Choice", "B", ["3", "4"], "How many? <image_1>"), r"\boxed{B}"),
        (problem(1, "Multiple Choice", "A", ["A", "B"], "Which? <image_1>"), r"So \boxed{A}"),
        (problem(2, "Open-ended", r"\frac{1}{2}", [], "How much? <image_1>"), "0.5"),
        (problem(3, "Open-ended", "7", [], "How many? <image_1>"), "7"),
    ],
    "emma-mini": [
        (problem(number, "Multiple Choice", "AB"[number % 2], ["3", "4"], "Which? <image_1>"), rf"\boxed{{{'AB'[number % 2]}}}")
        for number in range(3)
    ],
    "phyx-mini-mc": [
        (mcq(number, letter, category="Optics", question=f"How far, {number}? OPTION: A: 1 m B: 2 m C: 3 m D: 4 m"), f"The correct option is {letter}")
        for number, letter in enumerate("ABCD")
    ],
    "mathvista": [
        (vista(0, "[2007, 2008]", "list"), "[2007, 2008]"), (vista(1, "4 cm", "text", ["3 cm", "4 cm"]), "B"),
        (vista(2, "14", "integer"), "14"), (vista(3, "1.4", "float", precision=1.0), "1.4"),
    ],
    "mathvision": [
        (vision(0, "B", ["3", "4", "5", "6", "7"]), "B"), (vision(1, "C", list("ABCDE"), 2), "C"),
        (vision(2, r"\frac{1}{2}", [], 2), "0.5"), (vision(3, "12", [], 5), "12"),
    ],
    "mathvision-mini": [(vision(number, "B", ["3", "4", "5", "6", "7"]), "B") for number in range(3)],
    "dynamath": [
        variant(1, 1, "1.500", "float"), variant(2, 1, "2.5", "float", "2.501"),
        variant(3, 3, "B", "multiple choice", "(B)"), variant(4, 3, "C", "multiple choice"),
    ],
    "wemath": [
        step(0, 1, "2steps_1", "A"), step(1, 1, "2steps_2", "B"), step(2, 1, "2steps_multi", "B"),
        step(3, 2, "3steps_1", "A"), step(4, 2, "3steps_2", "B"), step(5, 2, "3steps_3", "A"), step(6, 2, "3steps_multi", "B"),
    ],
    "mathverse": [
        (version(0, "multi-choice", "A"), "A"), (version(1, "multi-choice", "B"), "B"),
        (version(2, "free-form", "5"), "5"), (version(3, "free-form", "5"), "5"),
    ],
    "charxiv-reasoning": [
        (charted(number, inst_category=number + 1), charted(number)["grading_query"]) for number in range(4)
    ],
    "charxiv-descriptive": [(charted(number, qid=(1, 8, 10, 17)[number], answer=f"axis {number}"), f"axis {number}") for number in range(4)],
    "babyvision": [
        (baby(0, options=["one", "two"], choice=1), r"\boxed{B}"), (baby(1, options=["one", "two"], choice=0), r"\boxed{A}"),
        (baby(2, blank="7"), "7"), (baby(3, blank="(2, 3)"), "(2, 3)"),
    ],
    "simplevqa": [
        ({"data_id": number, "image": IMAGE, "question": f"Who is {number}?", "answer": f"person {number}",
          "language": ("CN", "EN")[number % 2], "original_category": "people"}, f"person {number}")
        for number in range(4)
    ],
    "worldvqa": [(mcq(number, f"place {number}", category="Nature", language=("zh", "en")[number % 2], difficulty="easy"), f"place {number}") for number in range(4)],
    "mm-vet": [
        (mcq(0, "seven<OR>7", category="rec,ocr"), "seven<OR>7"), (mcq(1, "a<AND>b", category="ocr"), "a<AND>b"),
        (mcq(2, "rain", category="rec"), "rain"),
    ],
    "mm-vet-2": [
        (sequence(0, "seven<OR>7", ["rec", "seq"]), "seven<OR>7"), (sequence(1, "rain", ["ocr"]), "rain"), (sequence(2, "a<AND>b", ["rec"]), "a<AND>b"),
    ],
    "cmmmu-val": [
        (chinese(0, "选择", "B", ("猫", "狗", "鸟", "鱼")), "B"), (chinese(1, "选择", "AC", ("猫", "狗", "鸟", "鱼")), "AC"),
        (chinese(2, "判断", "错"), "错"), (chinese(3, "填空", "3.5"), "3.5"), (chinese(4, "填空", "杠杆"), "杠杆"),
    ],
    "ocrbench-v2": [
        (page_row(0, "text recognition en", ["ship"]), "SHIP"), (page_row(1, "text grounding en", [100, 100, 300, 200]), "(100, 100, 300, 200)"),
        (page_row(2, "full-page OCR en", [SENTENCE]), SENTENCE), (page_row(3, "table parsing en", [TABLE], question="As HTML?"), TABLE),
        (page_row(4, "key information extraction en", [{"total": ["5", "5.0"]}]), '{"total": "5"}'),
        (page_row(5, "text counting en", [8], eval="regression"), "8"), (page_row(6, "math QA en", ["A"], eval="multiple choice"), "A"),
        (page_row(7, "reasoning VQA cn", ["红色"]), "红色"), (page_row(8, "table parsing cn", [TABLE]), TABLE),
        (page_row(9, "VQA with position en", ["ship"], bbox="[0, 0, 10, 10]"), '{"answer": "a ship", "bbox": "[0, 0, 10, 5]"}'),
        (page_row(10, "text spotting en", [], bbox="[[0, 0, 10, 0, 10, 10, 0, 10], [20, 0, 30, 0, 30, 10, 20, 10]]", content="['SHIP', 'Sea!']"),
         '[[0, 0, 10, 10, "ship"], [20, 0, 30, 10, "sea"]]'),
        (page_row(11, "chart parsing en", [{"a": 1}]), "```python\n{'a': 1}\n```"), (page_row(12, "document parsing en", ["# Head\ntext"]), "# Head\ntext"),
        (page_row(13, "key information mapping en", ['{"date": "1 May", "seen": null}']), "date: 1 may"),
    ],
    "mia-bench": [
        (mcq(number, "", components="['name the ship', 'in two words']", component_weight="[4, 6]", num_of_component=2,
             component_type="['mention', 'length_limit']"), "['name the ship', 'in two words']") for number in range(3)
    ],
    "phyx-mini-oe": [(mcq(number, f"{number} kN", category="Optics"), f"{number} kN") for number in range(3)],
    "seephys": [(mcq(number, f"{number} kg", language="English", sig_figs=("", 3)[number % 2]), f"{number} kg") for number in range(3)],
    "omnidocbench": [(page_record(number, subset=("base", "table_hard")[number % 2]), PAGE) for number in range(4)],
    "omnidocbench-v10": [
        (mcq(number, json.dumps(page_record(number), ensure_ascii=False)), PAGE) for number in range(4)
    ],
    **BOX_SETS,
}  # fmt: skip
"""Set to rows with replies; the first row of a set is answered wrongly where all are run."""
JUDGED = (
    *(
        "charxiv-reasoning",
        "charxiv-descriptive",
        "simplevqa",
        "worldvqa",
        "mm-vet",
        "mm-vet-2",
        "mia-bench",
        "phyx-mini-oe",
        "seephys",
    ),
)
"""Sets whose every reply is for a judge, unless it is the gold answer word by word, as all are where all are run."""
CARD_HEADLINES = {
    **dict.fromkeys(JUDGED, 1.0),
    "babyvision": 3 / 4,
    "logicvista": 3 / 4,
    "visulogic": 3 / 4,
    "crpe-relation": 1 / 2,
    "crpe-exist": 1 / 2,
    "emma": 3 / 4,
    "emma-mini": 2 / 3,
    "phyx-mini-mc": 3 / 4,
    "mathvista": 3 / 4,
    "mathvision": 3 / 4,
    "mathvision-mini": 2 / 3,
    "dynamath": 3 / 4,
    "cmmmu-val": 4 / 5,
    # METEOR of ten words in one chunk is 1 - 0.5 / 10 ** 3; the position is half right; the first row is wrong
    "ocrbench-v2": ((1 - 0.5 / 1000 / 4) / 2 + (1 + 0.75) / 2 + 1 + (1 + 0.5) / 2 + 1 + 1) / 6,
    # the only text distance that is not 0: no sign of the reply is right
    **dict.fromkeys(("omnidocbench", "omnidocbench-v10"), 1 / 4),
    "wemath": 1 / 2,  # problem 1 is rote (a step wrong, the composite right), problem 2 complete
    "mathverse": (1 / 2 + 1) / 2,
    **BOX_HEADLINES,
}
