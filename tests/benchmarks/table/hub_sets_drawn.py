"""Data sets with an eval.yaml, drawn in the hub's form: choices with an image, open answers, and several tasks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

COLOURS = ("red", "green", "blue", "white")
ANIMALS = ("wren", "owl", "heron")


def uri(colour: str) -> str:
    content = BytesIO()
    Image.new("RGB", (32, 24), colour).save(content, "PNG")
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


CHOICES = """
name: Colours
description: Which colour does an image have?
evaluation_framework: inspect-ai
tasks:
  - field_spec: {input: question, target: answer, choices: colours, input_image: picture}
    solvers: [{name: multiple_choice}]
    scorers: [{name: choice}]
"""
OPEN = """
name: Any circle
description: Is something there?
evaluation_framework: inspect-ai
tasks:
  - id: circle
    field_spec: {input: question, target: "literal:no", input_image: picture}
    solvers:
      - name: prompt_template
        args: {template: "{prompt}\\n\\nEnd with ANSWER: yes or no. {{braces}} {other}"}
      - name: generate
        args: {temperature: 0.0, max_tokens: 50}
    scorers:
      - {name: pattern, args: {pattern: 'ANSWER: (yes|no)'}}
      - {name: exact}
"""
SEVERAL = """
name: Animals
description: Words about animals
evaluation_framework: inspect-ai
tasks:
  - id: thinking
    config: words
    split: validation
    field_spec: {input: prompt, target: gold, metadata: [topic]}
    epochs: 3
    epoch_reducer: at_least_2
    solvers:
      - {name: system_message, args: {template: "You know {{birds}} {and} {more}.", more: fish}}
      - {name: chain_of_thought}
      - {name: prompt_template, args: {template: "[{topic}] {prompt}"}}
      - {name: user_message, args: {template: "Be {how}.", how: quick}}
      - {name: generate}
    scorers: [{name: answer, args: {pattern: line}}, {name: includes}, {name: match}, {name: f1}]
  - id: options
    config: words
    split: validation
    field_spec: {input: prompt, target: letter, choices: [first, second, third]}
    solvers: [{name: multiple_choice, args: {cot: true}}]
    scorers: [{name: choice}]
  - id: all
    config: words
    split: validation
    field_spec: {input: prompt, target: letters, choices: named}
    shuffle_choices: false
    solvers: [{name: multiple_choice, args: {multiple_correct: true}}]
    scorers: [{name: choice}]
"""
CARD = """---
configs:
- config_name: words
  data_files:
  - split: validation
    path: rows/part.jsonl
---
# Animals
"""


def colours(folder: Path) -> Path:
    """Four choices with an image, the gold answer an index: parquet without a card."""
    rows = [
        {
            "question": f"Which colour, {number}? {{x}} <image>",
            "picture": uri(colour),
            "colours": [*COLOURS],
            "answer": number,
        }
        for number, colour in enumerate(COLOURS)
    ]
    return _drawn(folder, CHOICES, {"data/test-00000-of-00001.parquet": rows})


def circle(folder: Path) -> Path:
    """Three open questions with one gold answer, one of them without an image."""
    rows = [
        {"question": f"Is there a circle? {number}", "picture": uri(colour) if colour else None}
        for number, colour in enumerate(("red", "blue", ""))
    ]
    return _drawn(folder, OPEN, {"data/test.parquet": rows})


def animals(folder: Path) -> Path:
    """Three tasks over one table, whose place only the card says."""
    rows = [
        {
            "prompt": f"Name the bird {number}: {name}",
            "gold": name,
            "topic": "birds",
            "letter": "ABC"[number],
            "letters": ("A", "A,C", "A,B,C")[number],
            **dict(zip(("first", "second", "third"), ANIMALS, strict=True)),
            "named": [f"A. {ANIMALS[0]}", f"B. {ANIMALS[1]}", f"C. {ANIMALS[2]}"],
        }
        for number, name in enumerate(ANIMALS)
    ]
    return _drawn(folder, SEVERAL, {"rows/part.jsonl": rows, "README.md": CARD})


def _drawn(folder: Path, task: str, files: Mapping[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "eval.yaml").write_text(task, encoding="utf-8")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8")
        elif path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(content), path)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in content), encoding="utf-8")
    return folder


SETS = {
    "colours": (colours, [""]),
    "circle": (circle, ["circle"]),
    "animals": (animals, ["thinking", "options", "all"]),
}
"""By name: what draws it, and its tasks."""
