"""Questions out of the rows that lmms-eval logs, which have no `doc`: what it asked stands in the scores of each row.

`--log_samples` writes doc_id, target, the reply, the prompt as `input`, and one object a metric with what the task's scorer
kept of the question. `row_of` puts these together as a row of the authors' file, as far as `rows` reads it.

Source: files that lmms-eval 0.7.3 wrote, and its tasks of the twelve benchmarks. Older ones left `doc` in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from snellen.benchmarks.spatial.question import LETTERS, options_in
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import DataError

Logged = Mapping[str, Any]
STEM = "omnispatial_"
VIDEO_TYPES: Mapping[str, str] = {
    "cross_video": "Cross-Video",
    "motion": "Motion Understanding",
    "spatial": "Spatial Construction",
    "planning": "Planning",
    "prediction": "Prediction",
}
"""What lmms-eval's metrics of MMSI-Video-Bench's types begin with."""
MAX_OPTIONS = len(LETTERS)


def row_of(name: str, logged: Logged) -> dict[str, Any]:
    """Return a row of the authors' file, made of what lmms-eval logged about one answer.

    Args:
        name: the benchmark, as `tasks` calls it.
        logged: one line of `*_samples_<task>.jsonl`.

    Raises:
        DataError: the line does not say what is needed to score its reply.
    """
    declared = TASKS[name].declared.lmms_eval.logged
    return _declared(declared, logged) if declared else _ROWS[name](logged)


def _declared(columns: Mapping[str, str], logged: Logged) -> dict[str, Any]:
    """Return the columns that the set declares (`logged` of [lmms-eval])."""
    needed = [place for place in columns.values() if place and place[0] != "@" and not place.endswith("?")]
    metric, options = _with(logged, *needed), _options(logged)
    values: dict[str, Any] = {"@input": _input(logged), "@options": list(options.values())}
    values["@lines"] = "\n".join(f"{letter}. {text}" for letter, text in options.items())
    values |= {f"@{letter}": text for letter, text in options.items()}
    if "@target" in columns.values():
        values["@target"] = _target(logged)
    row = dict(metric) if "*" in columns else {}
    for column, place in columns.items():
        if place.startswith("@"):
            row |= {column: values[place]} if place in values else {}
        elif place:
            row[column] = metric.get(place.removesuffix("?"))
    return row


def score_of(logged: Logged) -> float | None:
    """Return lmms-eval's score of the row, 0 to 1; None where no metric holds one.

    Of several metrics the first that names a score counts: `score`, `is_correct`, `accuracy`, an MRA, `overall`.
    """
    for metric in _metrics(logged):
        for key, value in metric.items():
            named = key in ("score", "is_correct", "accuracy", "overall", "vci_metric") or key.upper().startswith("MRA")
            if named and isinstance(value, (bool, int, float)) and value == value and -1 <= value <= 1:
                return float(value)
    return None


def _metrics(logged: Logged) -> Iterator[dict[str, Any]]:
    return (value for value in logged.values() if isinstance(value, dict))


def _with(logged: Logged, *columns: str) -> dict[str, Any]:
    """Return the first metric's object that has all of these columns."""
    for metric in _metrics(logged):
        if all(column in metric for column in columns):
            return metric
    raise DataError(f"there is no doc, and no metric holds {' and '.join(columns)}; the question is unknown")


def _target(logged: Logged) -> str:
    target = logged.get("target")
    if not isinstance(target, (str, int, float)) or isinstance(target, bool):
        raise DataError("there is no target; the gold answer is unknown")
    return str(target)


def _input(logged: Logged) -> str:
    text = logged.get("input")
    return text if isinstance(text, str) else ""


def _options(logged: Logged) -> dict[str, str]:
    return options_in(_input(logged))


def _mmsi(logged: Logged) -> dict[str, Any]:
    metric = _with(logged, "question_id")
    known = [name for name in logged if name.replace(".-", ".–") in TASKS["mmsi-bench"].groups]
    if not known:
        raise DataError("there is no doc, and no metric is named for a category of MMSI-Bench")
    return {
        "id": metric["question_id"],
        "question": _input(logged),
        "question_type": known[0],
        "answer": _target(logged),
    }


def _mindcube(logged: Logged) -> dict[str, Any]:
    metric, target = _with(logged, "score", "type"), _target(logged).strip()
    if len(target) != 1 or target not in LETTERS:
        raise DataError(
            "there is no doc, and the target is no letter (lmms-eval logs MindCube's grounded output there); the gold "
            "answer is unknown. Give the data: --data"
        )
    return {"id": f"{metric['type']}_{logged.get('doc_id')}", "question": _input(logged), "gt_answer": target}


def _site(logged: Logged) -> dict[str, Any]:
    adjusted = logged.get("chance_adjusted_acc")
    if not isinstance(adjusted, dict) or not isinstance(adjusted.get("total"), (int, float)):
        raise DataError("there is no doc, and no chance_adjusted_acc that says how many options there were")
    share = 1.0 - adjusted["total"]
    count = round(1.0 / share) if share > 0 else 0
    if not 2 <= count <= MAX_OPTIONS:
        raise DataError(f"chance_adjusted_acc has total {adjusted['total']!r}, which no number of options gives")
    names = [key for key in adjusted if key not in ("overall", "total")]
    category = next((key for key in names if key in TASKS["site"].groups), names[0] if names else "")
    options = _options(logged)
    return {
        "question": _input(logged),
        "options": [options.get(letter, "") for letter in LETTERS[:count]],
        "answer": _target(logged),
        "category": category,
        "dataset": next((key for key in names if key != category), ""),
    }


def _mmsi_video(logged: Logged) -> dict[str, Any]:
    """Its type is told by the metric that counts the row; of a type that lmms-eval does not know no metric but the overall one
    does, and the row is of the type `unknown`."""
    _with({"overall_accuracy": logged.get("overall_accuracy")}, "score")
    counts = {name for name, metric in logged.items() if isinstance(metric, dict) and metric.get("total") in (1, 1.0)}
    types = [
        (kind, name.removeprefix(f"{stem}_").removesuffix("accuracy"))
        for name in sorted(counts)
        for stem, kind in VIDEO_TYPES.items()
        if name.startswith(stem)
    ]
    kind, sub = types[0] if types else ("unknown", "")
    type_text = f"({kind}) {sub.replace('_', ' ')}" if sub and sub != kind.lower() else kind
    return {"type": type_text, "user_prompt": _input(logged), "ground_truth": _target(logged)}


def _omnispatial(logged: Logged) -> dict[str, Any]:
    metric = _with(logged, "id", "gt_content", "sub_task")
    subtype = str(metric["sub_task"]).lower().removeprefix(STEM)
    known = {name.lower(): name for name in TASKS["omnispatial"].groups}
    return {
        "id": metric["id"],
        "question": metric.get("query") or _input(logged),
        "gt": metric["gt_content"],
        "options": list(_options(logged).values()),
        "task_type": metric.get("task") or "",
        "sub_task_type": known.get(subtype, subtype),
    }


_ROWS: Mapping[str, Callable[[Logged], dict[str, Any]]] = {
    "mmsi-bench": _mmsi,
    "mindcube-tiny": _mindcube,
    "site": _site,
    "mmsi-video-bench": _mmsi_video,
    "omnispatial": _omnispatial,
}
