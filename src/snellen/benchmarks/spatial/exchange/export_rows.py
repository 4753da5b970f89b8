"""A sample as a row of the authors' data, which lmms-eval logs as `doc`, and as a row of VLMEvalKit's tables.

The inverse of `official.QUESTIONS` and `kit.QUESTIONS` as far as scoring reads a row: what a sample does not know, such as
explanations and pictures, is not in its row. The question's text is the text that was asked.
"""

from __future__ import annotations

from typing import Any

from snellen.benchmarks.spatial.rules import mindcube
from snellen.benchmarks.spatial.tasks import Task
from snellen.types import Sample, Text


def doc_of(task: Task, sample: Sample) -> dict[str, Any]:
    """The row that lmms-eval has of it."""
    meta, options = sample.meta, dict(sample.options)
    question, gold = asked(sample), str(meta["gold"])
    texts = list(options.values())
    name = task.name.replace("vsi-debiased", "vsi-bench")
    if name == "vsi-bench":
        place = {"dataset": meta.get("source", ""), "scene_name": sample.group.rpartition("/")[2].removesuffix(".mp4")}
        return {
            "id": own_id(sample),
            **place,
            "question_type": meta["question_type"],
            "question": question,
            "options": lettered(options) or None,
            "ground_truth": gold,
        }
    if name == "mmsi-bench":
        return {"id": own_id(sample), "question": question, "question_type": long(task, sample), "answer": gold}
    if name == "mindcube-tiny":
        known = str(meta["type"])
        own = sample.id if mindcube.kind(sample.id) == known else f"{known}_{sample.id}"
        return {"id": own, "question": question, "gt_answer": gold, "category": [known]}
    if name == "viewspatial":
        listed = "\n".join(lettered(options))
        return {"question": question, "choices": listed, "answer": gold, "question_type": meta["question_type"]}
    if name == "site":
        told = {"category": meta["category"], "dataset": meta.get("dataset", "")}
        return {"question": question, "options": texts, "answer": gold, **told}
    if name == "blink":
        told = {"sub_task": meta["category"], "choices": texts, "answer": f"({gold})"}
        return {"idx": sample.id, "question": question, "prompt": question, **told}
    if name == "3dsrbench":
        return {"qid": meta["qid"], "question": question, **options, "answer": gold, "category": meta["category"]}
    if name == "embspatial":
        told = {"relation": meta.get("relation", ""), "data_source": meta["source"]}
        return {"question_id": own_id(sample), "question": question, "answer_options": texts, "answer": gold, **told}
    if name == "mmsi-video-bench":
        main, sub = str(meta["task_type"]), str(meta.get("sub_task_type") or "")
        kind = main if sub in ("", main) else f"({main}) {sub}"
        return {"id": own_id(sample), "type": kind, "user_prompt": question, "ground_truth": gold}
    if name == "omnispatial":
        told = {"task_type": meta["task_type"], "sub_task_type": meta.get("sub_task_type", "")}
        return {"id": own_id(sample), "question": question, "options": texts, "gt": gold, **told}
    told = {"source": meta.get("source", ""), "answer": gold}
    return {"id": own_id(sample), "task": meta["question_type"], "question": question, **told}


def kit_row(task: Task, sample: Sample, number: int) -> dict[str, Any]:
    """The row that VLMEvalKit has of it, without the prediction; `number` is its index where it brought none along."""
    meta, options = sample.meta, dict(sample.options)
    row: dict[str, Any] = {"index": _index(str(meta.get("index", "")), number)}
    name = task.name.replace("vsi-debiased", "vsi-bench")
    if name == "3dsrbench":
        row["qid"] = meta["qid"]
    row["question"] = asked(sample)
    if name in ("blink", "3dsrbench"):
        row |= {letter: options.get(letter) for letter in ("A", "B", "C", "D")}
    elif name in ("vsi-bench", "omnispatial", "mmsi-video-bench"):
        row["candidates" if name == "vsi-bench" else "options"] = repr(lettered(options)) if options else None
    elif name in ("site", "embspatial"):
        row["options"] = repr(list(options.values())) if options else None
    elif name == "viewspatial":
        row["candidates"] = "\n".join(lettered(options))
    row["answer"] = str(meta["gold"])
    if name == "mmsi-bench":
        row["category"] = short(task, sample)
    elif name in ("mmsi-video-bench", "omnispatial"):
        row |= {"task_type": meta["task_type"], "sub_task_type": meta.get("sub_task_type", "")}
    elif name == "site":
        row |= {"category": meta["category"], "dataset": meta.get("dataset", "")}
    else:
        column = {
            "mindcube-tiny": "category",
            "blink": "category",
            "3dsrbench": "category",
            "embspatial": "data_source",
        }
        row["task" if name == "spar-bench" else column.get(name, task.by)] = meta[task.by]
    return row


def asked(sample: Sample) -> str:
    """The words of a prompt, one part a line."""
    parts = [part.text if isinstance(part, Text) else "" for part in sample.prompt.parts]
    return "\n".join(one for one in parts if one)


def lettered(options: dict[str, str]) -> list[str]:
    """Options with their letters before them."""
    return [f"{letter}. {text}" for letter, text in options.items()]


def own_id(sample: Sample) -> str | int:
    """The sample's id without the half of SITE; a number where it was one."""
    found: str | int = _index(sample.id, sample.id)
    return found


def long(task: Task, sample: Sample) -> str:
    """A group as lmms-eval spells it, the last spelling of its key."""
    return _spelled(task, sample)[-1]


def short(task: Task, sample: Sample) -> str:
    """A group as VLMEvalKit spells it, the first spelling of its key."""
    return _spelled(task, sample)[0]


def _spelled(task: Task, sample: Sample) -> list[str]:
    group = str(sample.meta[task.by])
    key = task.groups.get(group)
    return [other for other, its in task.groups.items() if its == key] if key else [group]


def _index(text: str, otherwise: Any) -> Any:
    if not text:
        return otherwise
    return int(text) if text.isdecimal() and len(text) < 16 and str(int(text)) == text else text
