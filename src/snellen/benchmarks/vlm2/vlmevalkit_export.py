"""A run in VLMEvalKit's files: `<model>_VLM2Bench.xlsx` with the predictions, and `<model>_VLM2Bench_score.csv`.

The kit's scorer reads the workbook; the score table is made here by its rules, as one row of percentages by subtask. Its
index is `<subtask>_<q_id>`, for general cues with the half of the pair behind it. It has no videos.

Source: VLMEvalKit's VLM2Bench since its pull request 1610.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from snellen.benchmarks.vlm2 import metrics
from snellen.benchmarks.vlm2.scorers import scored_text
from snellen.benchmarks.vlm2.subtasks import BY_NAME, Subtask
from snellen.formats.export import Exported
from snellen.formats.readers import write_workbook
from snellen.scoring.scores import ScoreBuilder, score_record
from snellen.types import Record, Sample, Score

DATA = "VLM2Bench"
FAILED = "Failed to obtain answer via API."
PROFILE = "vlmevalkit"
COLUMNS = ("index", "question", "answer", "category", "image_seq_len", "prediction", "sample_id", "status")
KitScorers = Callable[[Subtask], Mapping[str, Callable[[Sample, str], Score]]]


def write(
    answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, subtask: Subtask | None, scorers: KitScorers
) -> Exported:
    """Write both files.

    Args:
        answers, folder, model: as for any writer of an export.
        subtask: whose run it is; None: the suite's, whose samples say which they are of.
        scorers: the scorers of a subtask by profile.
    """
    rows: list[dict[str, Any]] = []
    builders: dict[str, ScoreBuilder] = {}
    counted: Counter[str] = Counter()
    for sample, record in answers:
        task = subtask or BY_NAME[str(sample.meta["task"])]
        if task.family == "video" or "row" not in sample.meta:
            counted["videos" if task.family == "video" else "unreadable"] += 1
            continue
        if record.repeat:
            counted["repeats"] += 1
            continue
        lost = record.status not in ("ok", "refused") or record.response is None
        counted["lost"] += lost
        reply = FAILED if record.response is None or lost else scored_text(sample, record.response.text)
        own = {"sample_id": sample.id, "status": record.status}
        rows.append({**_question(task, sample), "prediction": reply, **own})
        score = score_record(sample, record, scorers(task)[PROFILE])
        builders.setdefault(task.name, ScoreBuilder()).add(sample, score)
    path = folder / f"{model}_{DATA}.xlsx"
    cells = write_workbook(path, COLUMNS, rows)
    counted["cut"], counted["stripped"] = cells.cut, cells.stripped
    table = folder / f"{model}_{DATA}_score.csv"
    scores = {name: _percent(BY_NAME[name], builder) for name, builder in sorted(builders.items())}
    with table.open("w", encoding="utf-8", newline="") as text:
        csv.writer(text, lineterminator="\n").writerows([list(scores), list(scores.values())])
    return Exported((path, table), tuple(_notes(counted)))


def index_of(subtask: Subtask, sample: Sample) -> str:
    """Return the kit's index: the one that a row of its table has, else made of the authors' q_id."""
    row = sample.meta["row"]
    if isinstance(index := row.get("index"), str):
        return index
    name = f"{subtask.name}_{'?' if row.get('q_id') is None else row['q_id']}"
    return f"{name}_{sample.meta.get('half', '?')}" if subtask.cue == "gc" else name


def _question(subtask: Subtask, sample: Sample) -> dict[str, Any]:
    gold = sample.meta.get("gold", sample.target)
    return {
        "index": index_of(subtask, sample),
        "question": sample.meta["row"].get("question"),
        "answer": gold,
        "category": subtask.name,
        "image_seq_len": sample.meta.get("shown"),
    }


def _percent(subtask: Subtask, builder: ScoreBuilder) -> float:
    parts = metrics.headline(subtask, metrics.figures(subtask, builder.build(), PROFILE))
    return 100 * sum(weight * (units.mean or 0.0) for weight, units in parts)


def _notes(counted: Counter[str]) -> Iterator[str]:
    texts = {
        "videos": "descriptions of videos are left out: the kit has none",
        "unreadable": "questions that could not be read are left out",
        "repeats": "repeated answers are left out: the kit knows one answer a question",
        "lost": f"answers are missing; the table says {FAILED!r} there, which the kit scores as wrong",
        "cut": "texts were cut to the 32,767 characters that a cell holds; --format jsonl has them whole",
        "stripped": "texts lost characters that no sheet may hold",
    }
    for name, text in texts.items():
        if counted[name]:
            yield f"{counted[name]:,} {text}"
