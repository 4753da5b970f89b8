"""A run as the authors' scripts would have written it, so that their evaluators read it.

`<cue>/<folder of the subtask>/<model>_<time stamp>_answers.jsonl`, and `vid_<model>_<time stamp>.jsonl` for videos: their
evaluator takes the model's name up to the next underscore, so the name has hyphens there. A reply is written as the
official profile reads it: stripped, and for the prompting variants what stands after the marker.

Source: the released inference scripts of VLM2-Bench.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snellen.benchmarks.vlm2 import prompting
from snellen.benchmarks.vlm2.reply import said
from snellen.benchmarks.vlm2.subtasks import BY_NAME, Subtask
from snellen.formats.export import Exported, Writer, write_lines
from snellen.types import Record, Sample


def exports(subtask: Subtask | None = None) -> Mapping[str, Writer]:
    """The formats of one subtask's runs; None: of the suite's, whose samples say what they are of (`task`)."""

    def write(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
        """The authors' result files, one a subtask, for their evaluators."""
        files: dict[Path, list[object]] = {}
        counted: Counter[str] = Counter()
        for sample, record in answers:
            task = subtask or BY_NAME[str(sample.meta["task"])]
            if record.status not in ("ok", "refused") or "row" not in sample.meta:
                counted["lost"] += 1
                continue
            text = "" if record.response is None else record.response.text
            counted["refused"] += record.status == "refused"
            variant = str(sample.meta.get("prompting", "vanilla"))
            counted[f"asked {variant}"] += 1
            # Their rows know no repeats, and of two rows with one id some evaluators count the last.
            name = f"{model}-repeat{record.repeat + 1}" if record.repeat else model
            answered = row(task, sample.meta["row"], said(sample, text))
            files.setdefault(folder / place(task, name, stamp), []).append(answered)
        return Exported(tuple(write_lines(path, rows) for path, rows in files.items()), tuple(_notes(counted)))

    return {"authors": write}


def place(subtask: Subtask, model: str, stamp: str) -> Path:
    """Where a subtask's answers lie in the folder of the export."""
    folder = Path(subtask.cue, subtask.results)
    if subtask.family == "video":
        return folder / f"vid_{model.replace('_', '-')}_{stamp}.jsonl"
    return folder / f"{model}_{stamp}_answers.jsonl"


def row(subtask: Subtask, asked: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """One line of a result file.

    General cues: q_id, task, question, edit_prompt (`edited_prompt` of the question), model_answer, gt_answer. Object
    and person cues: q_id, type, question, model_answer, gt_answer. Videos: the question's whole row, model_answer, and
    gt_answer, empty where there is none.
    """
    if subtask.family == "video":
        return {**asked, "model_answer": answer, "gt_answer": asked.get("gt_answer", "")}
    given = (
        {"task": asked.get("task"), "question": asked.get("question"), "edit_prompt": asked.get("edited_prompt")}
        if subtask.cue == "gc"
        else {"type": asked.get("type"), "question": asked.get("question")}
    )
    return {"q_id": asked.get("q_id"), **given, "model_answer": answer, "gt_answer": asked.get("gt_answer")}


def _notes(counted: Counter[str]) -> Iterator[str]:
    if counted["lost"]:
        yield (
            f"{counted['lost']:,} samples have no answer and are left out, as by the authors' scripts: figures made from "
            "these files do not count them"
        )
    if counted["refused"]:
        yield f"{counted['refused']:,} refused samples are written with what was said, mostly nothing"
    for variant in prompting.VARIANTS[1:]:
        if counted[f"asked {variant}"]:
            yield (
                f"of {counted[f'asked {variant}']:,} replies to {variant} what stands after the last {prompting.MARKER} is "
                "written; a reply without it is written whole"
            )
