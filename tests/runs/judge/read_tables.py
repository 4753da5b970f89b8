"""Two tables, replies to their questions, and a reader and a judge that know the answers, behind one endpoint."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from servers.oracle import OracleServer, SentQuestion

BIRDS = ("robin", "wren", "finch", "owl")
SCENES = (
    ("f0", "What is the man doing?", "He feeds the birds in the park.", "", "he feeds the birds in the park!"),
    (
        "f1",
        "What is the man doing?",
        "He reads a newspaper.",
        "The newspaper must be named.",
        "He is reading the paper.",
    ),
    ("f2", "Why is the street wet?", "It has been raining all night.", "match", "Rain fell the whole night."),
    ("f3", "Why is the street dark?", "The lamps are out.", "Lamps.", "Because it is night."),
)
"""Id, question, reference answer, rubric of the row, the model's reply. The judge finds f1 and f2 right."""
RIGHT = ("f1", "f2")
UNSETTLED = "It could be a {other} or a {gold}; let me think about the beak and the wings. Both are common here."


def replies(n: int) -> dict[str, str]:
    """Each third reply names two birds, each third declines, the others are the gold answer; of n questions."""
    said = {}
    for number in range(n):
        gold, other = BIRDS[number % 4], BIRDS[(number + 1) % 4]
        said[f"c{number}"] = (UNSETTLED.format(gold=gold, other=other), "I cannot tell.", gold)[number % 3]
    return said


def write_birds(n: int, path: str = "birds.csv") -> None:
    with Path(path).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "options", "answer"))
        rows.writerows((f"c{i}", f"Which bird is it? (c{i})", "|".join(BIRDS), BIRDS[i % 4]) for i in range(n))


def write_scenes(path: str = "scenes.csv") -> None:
    with Path(path).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("id", "question", "answer", "rubric"))
        rows.writerows((name, f"{asked} ({name})", gold, rubric or "Birds.") for name, asked, gold, rubric, _ in SCENES)


class Models(OracleServer):
    """Model, reader and judge; `said` maps ids to the model's replies, `reader` says what the reader makes of one."""

    def __init__(self, said: dict[str, str], reader: Callable[[str, SentQuestion], object] | None = None) -> None:
        self.said, self.reader = said, reader or honest
        self.read: list[str] = []
        self.judged: list[str] = []
        self.delay = 0.0
        super().__init__(self._answer)

    def _answer(self, asked: SentQuestion) -> str:
        name = re.findall(r"\(([cf]\d+)\)", asked.text)[0]
        if "Copy the answer" in asked.text:
            time.sleep(self.delay)
            self.read.append(asked.text)
            quoted = self.reader(self.said[name], asked)
            return quoted if isinstance(quoted, str) else json.dumps(quoted)
        if "strict grader" in asked.text:
            self.judged.append(asked.text)
            if '"score": <number' in asked.text:
                return json.dumps({"score": 5 if name in RIGHT else 1, "reason": "half of it"})
            verdict = "correct" if name in RIGHT else "incorrect"
            return json.dumps({"verdict": verdict, "reason": f"the judge on {name}"})
        return self.said[name]


def honest(reply: str, asked: SentQuestion) -> object:
    """Quote the bird that an unsettled reply names last."""
    named = re.match(r"It could be a \w+ or a (\w+);", reply)
    return {"quote": named[1], "option": asked.letter(named[1])} if named else {"quote": None, "option": None}
