"""A run as lmms-eval or VLMEvalKit would have written it, so that EASI and whoever reads their files read it.

lmms-eval: `<time>_results.json` and `<time>_samples_<task>.jsonl`. VLMEvalKit: `<model>_<data>.xlsx` with the predictions, the
table of its rule scorer, and `*_acc.csv`, parted by tabulators but for BLINK and 3DSRBench. Scores are those of the harness's
own profile. SPAR-Bench's figures stand in one row, not in two of which the first is nearly empty.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.benchmarks.spatial.exchange.export_figures import NUMBERS, kit_table, lmms_metrics, site_terms
from snellen.benchmarks.spatial.exchange.export_rows import doc_of, kit_row
from snellen.benchmarks.spatial.rules.constants import CONSTANTS
from snellen.benchmarks.spatial.rules.rows import Row
from snellen.benchmarks.spatial.scorers import SCORERS
from snellen.benchmarks.spatial.tasks import Task
from snellen.formats.export import Exported, Writer, write_lines
from snellen.formats.readers import write_workbook
from snellen.terminal_text import spreadsheet_cell
from snellen.types import Record, Sample, Score

FAILED: str = CONSTANTS["kit_choice"]["failure"]
MATCHED = ("blink", "3dsrbench")


class Answer(Struct, frozen=True):
    """One exported answer: `replies` are those of its repeats, None for one that failed."""

    sample: Sample
    replies: tuple[str | None, ...]


def exports(task: Task, part: str = "") -> Mapping[str, Writer]:
    """The formats of a benchmark's runs; of the suite of SITE, whose samples say which half they are of, `part` is empty."""

    def lmms(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
        """lmms-eval's results.json and samples, scored as lmms-eval scores them."""
        return _lmms(task, _halves(task, part, answers), folder, model, stamp)

    def kit(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
        """VLMEvalKit's tables of predictions, matches and figures, scored by its rules."""
        return _kit(task, _halves(task, part, answers), folder, model)

    return {"lmms-eval": lmms, "vlmevalkit": kit}


def _halves(task: Task, part: str, answers: Iterator[tuple[Sample, Record]]) -> dict[str, list[Answer]]:
    """Answers by half ("" where there are no halves), repeats of one sample together."""
    found: dict[str, list[Answer]] = {}
    for sample, record in answers:
        half = part or (str(sample.meta["task"]) if task.name == "site" else "")
        ok = record.status in ("ok", "refused") and record.response is not None
        reply = record.response.text if ok and record.response is not None else None
        some = found.setdefault(half, [])
        if some and some[-1].sample.id == sample.id:
            some[-1] = Answer(sample, (*some[-1].replies, reply))
        else:
            some.append(Answer(sample, (reply,)))
    return found


def _score(task: Task, profile: str, sample: Sample, reply: str | None) -> Score:
    """What the harness's rule makes of a reply; of a failed one VLMEvalKit reads the sentence that it puts there."""
    if reply is None and profile == "lmms-eval":
        return Score(0.0, None, "error", "no answer")
    reply = FAILED if reply is None else reply
    return SCORERS[task.name][profile](sample, reply)


def _row(task: Task, sample: Sample, value: float | None) -> Row:
    group, n = str(sample.meta.get(task.by) or ""), sample.meta.get("n")
    options = n if isinstance(n, int) else 0
    return Row(value, {task.by: group} if group else {}, options, str(sample.meta.get("qid") or ""))


def _lmms(task: Task, halves: dict[str, list[Answer]], folder: Path, model: str, stamp: str) -> Exported:
    files: list[Path] = []
    results: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    lost = 0
    for half, answers in halves.items():
        rows: list[Row] = []
        lines: dict[str, list[object]] = {}
        for number, answer in enumerate(answers):
            scores = [_score(task, "lmms-eval", answer.sample, reply) for reply in answer.replies]
            lost += answer.replies.count(None)
            rows += [_row(task, answer.sample, score.value) for score in scores]
            lines.setdefault(_lmms_task(task, half, answer.sample), []).append(_logged(task, answer, scores[0], number))
        for name, some in lines.items():
            files.append(write_lines(folder / f"{stamp}_samples_{name}.jsonl", some))
            counts[name] = len(some)
        results |= lmms_metrics(task, rows, half)
    whole = {
        "results": {
            name: {"alias": name, **{f"{metric},none": value for metric, value in metrics.items()}}
            for name, metrics in results.items()
        },
        "configs": {name: {"task": name, "output_type": "generate_until"} for name in counts},
        "versions": dict.fromkeys(results, "snellen"),
        "n-samples": {name: {"original": count, "effective": count} for name, count in counts.items()},
        "config": {"model": model, "model_args": "", "batch_size": None},
        "model_name": model,
        "date": stamp,
    }
    path = folder / f"{stamp}_results.json"
    path.write_text(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    note = f"{lost:,} answers are missing: their resps are null, and they count as wrong"
    return Exported((path, *files), (note,) if lost else ())


def _lmms_task(task: Task, half: str, sample: Sample) -> str:
    if task.name == "blink":
        group = str(sample.meta["category"])
        return f"blink_{task.groups.get(group, group.lower())}"
    return task.lmms.split(", ")[half == "video"]


def _logged(task: Task, answer: Answer, score: Score, number: int) -> dict[str, Any]:
    """One line of a samples file. SITE's has the two objects that EASI pools."""
    sample = answer.sample
    doc = doc_of(task, sample)
    at = sample.meta.get("row")
    line: dict[str, Any] = {
        "doc_id": at if isinstance(at, int) else number,
        "doc": doc,
        "target": str(sample.meta["gold"]),
        "resps": [list(answer.replies)],
        "filtered_resps": list(answer.replies),
    }
    if task.name != "site":
        line["snellen"] = {"score": score.value, "extracted": score.extracted, "verdict": score.verdict}
        return line
    n = sample.meta.get("n")
    terms = site_terms(score.value or 0.0, n) if isinstance(n, int) else None
    names = ("overall", str(doc["category"]), str(doc["dataset"]))
    line["accuracy"] = {**dict.fromkeys(names, score.value or 0.0), "total": 1}
    if terms is not None:
        line["chance_adjusted_acc"] = {**dict.fromkeys(names, terms["overall"]), "total": terms["total"]}
    return line


def _kit(task: Task, halves: dict[str, list[Answer]], folder: Path, model: str) -> Exported:
    files: list[Path] = []
    notes: list[str] = []
    counted = {"lost": 0, "repeats": 0, "cut": 0, "stripped": 0}
    for half, answers in halves.items():
        data = task.kit.split(", ")[half == "video"]
        predictions, matches, rows, finer = [], [], [], []
        for number, answer in enumerate(answers):
            sample, reply = answer.sample, answer.replies[0]
            counted["lost"] += reply is None
            counted["repeats"] += len(answer.replies) - 1
            at = sample.meta.get("row")
            asked = kit_row(task, sample, at if isinstance(at, int) else number)
            asked["prediction"] = FAILED if reply is None else reply
            score = _score(task, "vlmevalkit", sample, reply)
            predictions.append(asked)
            matches.append({**asked, **_matched(task, sample, score)})
            rows.append(_row(task, sample, score.value))
            other = "task_type" if task.by == "sub_task_type" else "sub_task_type"
            finer.append(str(sample.meta.get(other) or ""))
        tag = "exact_matching_result" if task.name in MATCHED else "extract_matching"
        for name, some in ((f"{model}_{data}.xlsx", predictions), (f"{model}_{data}_{tag}.xlsx", matches)):
            columns = list(dict.fromkeys(column for row in some for column in row))
            lost = write_workbook(folder / name, columns, some)
            files.append(folder / name)
        counted["cut"] += lost.cut
        counted["stripped"] += lost.stripped
        ending = {"blink": "acc", "3dsrbench": "full_acc"}.get(task.name, "extract_matching_acc")
        path = folder / f"{model}_{data}_{ending}.csv"
        _write_table(path, kit_table(task, rows, finer), "," if task.name in MATCHED else "\t")
        files.append(path)
    if counted["lost"]:
        notes.append(
            f"{counted['lost']:,} answers are missing; the tables say {FAILED!r} there, which is scored as the kit does"
        )
    if counted["repeats"]:
        notes.append(f"{counted['repeats']:,} repeated answers are left out: the kit knows one answer a question")
    if counted["cut"]:
        notes.append(
            f"{counted['cut']:,} texts were cut to the 32,767 characters that a cell holds; --format jsonl has them whole"
        )
    if counted["stripped"]:
        notes.append(f"{counted['stripped']:,} texts lost characters that no sheet may hold")
    return Exported(tuple(files), tuple(notes))


def _matched(task: Task, sample: Sample, score: Score) -> dict[str, Any]:
    """The columns that the kit's rule scorer adds to a row."""
    if task.name in MATCHED:
        failed = score.extracted is None
        log = (
            "Match Log: Failed in Prefetch, no GPT-based answer matching under `exact_matching` policy."
            if failed
            else ""
        )
        return {"hit": int(score.value or 0), "log": log or f"Match Log: Prefetched {score.extracted}."}
    if str(sample.meta.get(task.by)) in NUMBERS:
        return {"pred_extracted": score.extracted, "MRA:.5:.95:.05": score.value}
    if sample.kind == "short":
        return {"pred_extracted": score.extracted, "vci_metric": score.value}
    return {"pred_extracted": False if score.extracted is None else score.extracted, "hit": score.value}


def _write_table(path: Path, table: list[dict[str, float | str]], mark: str) -> None:
    columns = list(dict.fromkeys(column for row in table for column in row)) or ["overall"]
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, delimiter=mark, lineterminator="\n")
        writer.writerow([spreadsheet_cell(column) for column in columns])
        writer.writerows([[spreadsheet_cell(row.get(column, "")) for column in columns] for row in table])
