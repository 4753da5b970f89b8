"""A run in the files of lmms-eval or VLMEvalKit, so that EASI and other readers of these files can use it.

lmms-eval: `<time>_results.json` and `<time>_samples_<task>.jsonl`, whose `doc` is the sample as a row of the authors' data.
VLMEvalKit: `<model>_<data>.xlsx` with the predictions, the table of its rule scorer, and `*_acc.csv`, separated by tabs except
for BLINK and 3DSRBench. Scores are those of the harness's own profile. SPAR-Bench's metrics stand in one row, not in two of
which the first is nearly empty.

Rows are the inverse of `sources.rows` as far as scoring reads a row: explanations
and images, which a sample does not hold, are not in its row. The question's text is the text that was asked.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from snellen.benchmarks.spatial.interop.harness_metrics import MRA
from snellen.benchmarks.spatial.metrics import composite
from snellen.benchmarks.spatial.scorers import base, figures, scorers_of
from snellen.benchmarks.spatial.scorers.base import mean
from snellen.benchmarks.spatial.scorers.figures import MAIN, ScoredRow, means, micro
from snellen.benchmarks.spatial.scorers.lmms_eval import mindcube_type
from snellen.benchmarks.spatial.tasks import CONSTANTS, SUB_BENCHES, Task
from snellen.formats.readers import write_workbook
from snellen.formats.writers import Exported, Writer, prompt_text, write_lines
from snellen.text import spreadsheet_cell
from snellen.types import Record, Sample, Score, Status


def kit_row(task: Task, sample: Sample, number: int) -> dict[str, Any]:
    """Return the row that VLMEvalKit has of it, without the prediction.

    `number` is its index where it brought none along.
    """
    return {"index": _index(str(sample.meta.get("index", "")), number), **_exported(task, sample, "kit")}


def _exported(task: Task, sample: Sample, harness: str) -> dict[str, Any]:
    """Return the declared columns of a row: a field of the sample's meta, empty if it may be missing (`?`), or an `@` value."""
    meta, options, gold = sample.meta, dict(sample.options), str(sample.meta["gold"])
    texts, listed = list(options.values()), [f"{letter}. {text}" for letter, text in options.items()]
    main, sub = str(meta.get("task_type")), str(meta.get("sub_task_type") or "")
    group = str(meta.get("type"))
    own = sample.id if mindcube_type(sample.id) == group else f"{group}_{sample.id}"
    values = {
        "id": _index(sample.id, sample.id),
        "sample": sample.id,
        "typed id": own,
        "question": prompt_text(sample),
        "gold": gold,
        "gold in brackets": f"({gold})",
        "texts": texts,
        "lettered": listed or None,
        "lines": "\n".join(listed),
        "texts as a literal": repr(texts) if options else None,
        "lettered as a literal": repr(listed) if options else None,
        "types": [group],
        "both types": main if sub in ("", main) else f"({main}) {sub}",
        "scene": sample.group.rpartition("/")[2].removesuffix(".mp4"),
        "first spelling": spellings(task, sample)[0],
        "last spelling": spellings(task, sample)[-1],
        **{letter: options.get(letter) for letter in "ABCD"},
    }
    row: dict[str, Any] = {}
    declared = task.declared.lmms_eval if harness == "lmms" else task.declared.vlmevalkit
    for column, name in declared.export.items():
        if harness == "lmms" and column in "ABCD" and column not in options:
            continue  # lmms-eval's rows have no column for an option that is not there
        if name.startswith("@"):
            row[column] = values[name[1:]]
        elif name.endswith("?"):
            row[column] = meta.get(name[:-1], "")
        else:
            row[column] = meta[name]
    return row


def spellings(task: Task, sample: Sample) -> list[str]:
    """Return a group as VLMEvalKit spells it (first) and as lmms-eval does (last): all spellings of its key."""
    group = str(sample.meta.get(task.by, ""))
    key = task.groups.get(group)
    return [other for other, its in task.groups.items() if its == key] if key else [group]


def _index(text: str, otherwise: Any) -> Any:
    if not text:
        return otherwise
    return int(text) if text.isdecimal() and len(text) < 16 and str(int(text)) == text else text


FAILED: str = CONSTANTS["kit_choice"]["failure"]


class ExportedAnswer(Struct, frozen=True):
    """One exported answer: `replies` are those of its repeats, None for one that failed, and `states` their statuses."""

    sample: Sample
    replies: tuple[str | None, ...]
    states: tuple[Status, ...]


def exports(task: Task, part: str = "") -> Mapping[str, Writer]:
    """Return the formats of a benchmark's runs.

    Of the suite of SITE, whose samples say which half they are of, `part` is empty.
    """

    def lmms(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
        """lmms-eval's results.json and samples, scored as lmms-eval scores them."""
        return _lmms(task, _halves(task, part, answers), folder, model, stamp)

    def kit(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
        """VLMEvalKit's tables of predictions, matches and figures, scored by its rules."""
        return _kit(task, _halves(task, part, answers), folder, model)

    return {"lmms-eval": lmms, "vlmevalkit": kit}


def _halves(task: Task, part: str, answers: Iterator[tuple[Sample, Record]]) -> dict[str, list[ExportedAnswer]]:
    """Answers by half ("" where there are no halves), repeats of one sample together."""
    halves: dict[str, list[ExportedAnswer]] = {}
    for sample, record in answers:
        half = part or (str(sample.meta["task"]) if task.name == "site" else "")
        ok = record.status in ("ok", "refused") and record.response is not None
        reply = record.response.text if ok and record.response is not None else None
        exported = halves.setdefault(half, [])
        if exported and exported[-1].sample.id == sample.id:
            last = exported[-1]
            exported[-1] = ExportedAnswer(sample, (*last.replies, reply), (*last.states, record.status))
        else:
            exported.append(ExportedAnswer(sample, (reply,), (record.status,)))
    return halves


def _score(task: Task, profile: str, sample: Sample, reply: str | None) -> Score:
    """Score a reply by the harness's rule; for a failed one VLMEvalKit scores its failure sentence."""
    if reply is None and profile == "lmms-eval":
        return Score(0.0, None, "error", "no answer")
    reply = FAILED if reply is None else reply
    return scorers_of(task)[profile](sample, reply)


def _row(task: Task, sample: Sample, value: float | None) -> ScoredRow:
    group, n = str(sample.meta.get(task.by) or ""), sample.meta.get("n")
    options = n if isinstance(n, int) else 0
    return ScoredRow(value, {task.by: group} if group else {}, options, str(sample.meta.get("qid") or ""))


def _lmms(task: Task, halves: dict[str, list[ExportedAnswer]], folder: Path, model: str, stamp: str) -> Exported:
    files: list[Path] = []
    results: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    lost = 0
    for half, answers in halves.items():
        rows: list[ScoredRow] = []
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
    document = {
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
    path.write_text(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    note = f"{lost:,} answers are missing: their resps are null, and they count as wrong"
    return Exported((path, *files), (note,) if lost else ())


def _lmms_task(task: Task, half: str, sample: Sample) -> str:
    if task.name == "blink":
        group = str(sample.meta["category"])
        return f"blink_{task.groups.get(group, group.lower())}"
    return task.lmms.split(", ")[half == "video"]


def _logged(task: Task, answer: ExportedAnswer, score: Score, number: int) -> dict[str, Any]:
    """Return one line of a samples file. SITE's has the two objects that EASI pools."""
    sample = answer.sample
    doc = _exported(task, sample, "lmms")
    at = sample.meta.get("row")
    line: dict[str, Any] = {
        "doc_id": at if isinstance(at, int) else number,
        "doc": doc,
        "target": str(sample.meta["gold"]),
        "resps": [list(answer.replies)],
        "filtered_resps": list(answer.replies),
        "sample_id": sample.id,
        "status": list(answer.states),
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


def _kit(task: Task, halves: dict[str, list[ExportedAnswer]], folder: Path, model: str) -> Exported:
    files: list[Path] = []
    counted, kit = Counter[str](), task.declared.vlmevalkit
    for half, answers in halves.items():
        data = task.kit.split(", ")[half == "video"]
        predictions, matches, rows, finer, tagged = [], [], [], [], []
        for number, answer in enumerate(answers):
            sample, reply = answer.sample, answer.replies[0]
            counted["lost"] += reply is None
            counted["repeats"] += len(answer.replies) - 1
            at = sample.meta.get("row")
            question_row = kit_row(task, sample, at if isinstance(at, int) else number)
            question_row["prediction"] = FAILED if reply is None else reply
            score = _score(task, "vlmevalkit", sample, reply)
            predictions.append({**question_row, "sample_id": sample.id, "status": answer.states[0]})
            matches.append({**question_row, **_matched(task, sample, score)})
            rows.append(_row(task, sample, score.value))
            tagged.append((score.value, sample.meta))
            other = "task_type" if task.by == "sub_task_type" else "sub_task_type"
            finer.append(str(sample.meta.get(other) or ""))
        tag = "exact_matching_result" if kit.matched else "extract_matching"
        for name, some in ((f"{model}_{data}.xlsx", predictions), (f"{model}_{data}_{tag}.xlsx", matches)):
            columns = list(dict.fromkeys(column for row in some for column in row))
            lost = write_workbook(folder / name, columns, some)
            files.append(folder / name)
        counted["cut"] += lost.cut
        counted["stripped"] += lost.stripped
        # Before the main table: EASI takes the newest file whose name ends in _acc.csv.
        if task.name == "mmsi-video-bench" and (line := _sub_bench_line(tagged)):
            files.append(folder / f"{model}_{data}_extract_matching_subset_acc.csv")
            _write_table(files[-1], [dict(line)], "\t")
        path = folder / f"{model}_{data}_{kit.figures}.csv"
        _write_table(path, kit_table(task, rows, finer), "," if kit.matched else "\t")
        files.append(path)
    notes = {
        "lost": f"answers are missing; the tables say {FAILED!r} there, which is scored as the kit does",
        "repeats": "repeated answers are left out: the kit knows one answer a question",
        "cut": "texts were cut to the 32,767 characters that a cell holds; --format jsonl has them whole",
        "stripped": "texts lost characters that no sheet may hold",
    }
    return Exported(tuple(files), tuple(f"{counted[name]:,} {note}" for name, note in notes.items() if counted[name]))


def _matched(task: Task, sample: Sample, score: Score) -> dict[str, Any]:
    """Return the columns that the kit's rule scorer adds to a row."""
    if task.declared.vlmevalkit.matched:
        failed = score.extracted is None
        log = (
            "Match Log: Failed in Prefetch, no GPT-based answer matching under `exact_matching` policy."
            if failed
            else ""
        )
        return {"hit": int(score.value or 0), "log": log or f"Match Log: Prefetched {score.extracted}."}
    if str(sample.meta.get(task.by)) in task.declared.types.get("number", ()):
        return {"pred_extracted": score.extracted, "MRA:.5:.95:.05": score.value}
    if sample.kind == "short":
        return {"pred_extracted": score.extracted, "vci_metric": score.value}
    return {"pred_extracted": False if score.extracted is None else score.extracted, "hit": score.value}


def _sub_bench_line(rows: Iterable[tuple[float | None, Mapping[str, Any]]]) -> dict[str, float]:
    """Return the one row of the kit's table of MMSI-Video-Bench's parts: column to points, 0 to 100.

    Args:
        rows: (score, meta of the sample); a row without a score is left out.
    """
    values: dict[str, dict[str, list[float]]] = {name: {} for name in SUB_BENCHES}
    for value, meta in rows:
        if value is None:
            continue
        for name, by_tag in values.items():
            if tag := str(meta.get(name) or ""):
                by_tag.setdefault("Avg", []).append(value)
                by_tag.setdefault(tag, []).append(value)
    return {
        f"({name}){tag}": 100 * float(np.mean(by_tag[tag]))
        for name, by_tag in values.items()
        for tag in sorted(by_tag, key=lambda tag: (tag != "Avg", tag))
    }


def _write_table(path: Path, table: list[dict[str, float | str]], mark: str) -> None:
    columns = list(dict.fromkeys(column for row in table for column in row)) or ["overall"]
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, delimiter=mark, lineterminator="\n")
        writer.writerow([spreadsheet_cell(column) for column in columns])
        writer.writerows([[spreadsheet_cell(row.get(column, "")) for column in columns] for row in table])


def values(task: Task, rows: Sequence[ScoredRow], profile: str) -> dict[str, float]:
    """`overall` and each group's figure under the group's own name, as fractions; empty where no row has a score."""
    found = composite(task, profile)
    if found is not None:
        return found(rows)
    overall = micro(rows)
    return {} if overall is None else {"overall": overall, **means(rows, task.by)}


def lmms_metrics(task: Task, rows: Sequence[ScoredRow], part: str = "") -> dict[str, dict[str, float]]:
    """Return task of lmms-eval's to metric to figure: of BLINK the group and its subtasks, of SITE the half."""
    found = values(task, rows, "lmms-eval")
    if not found:
        return {}
    overall = found.pop("overall")
    if task.name == "site":
        name = task.lmms.split(", ")[part == "video"]
        right = micro(rows) or 0.0
        per = {f"{group}_caa": round(100 * value, 5) for group, value in found.items()}
        return {name: {"accuracy": round(100 * right, 5), "chance_adjusted_acc": round(100 * overall, 5), **per}}
    if task.name == "blink":
        each = {
            f"blink_{task.groups.get(group, group.lower())}": {"blink_acc": value} for group, value in found.items()
        }
        return {"blink": {"blink_acc": overall}, **each}
    if task.name == "3dsrbench":
        mains: dict[str, list[float]] = {}
        for row in rows:
            if row.value is not None and row.groups.get(task.by) in MAIN:
                mains.setdefault(MAIN[row.groups[task.by]], []).append(row.value)
        parts = {f"{name}_accuracy": value for name, value in found.items()}
        return {
            task.lmms: figures.settings(rows)
            | {f"{main}_accuracy": mean(value) for main, value in mains.items()}
            | parts
        }
    lmms = task.declared.lmms_eval
    scale = 100.0 if "groups" in lmms.percent else 1.0
    overall *= 100.0 if "overall" in lmms.percent else 1.0
    named = {lmms.overall[0]: overall} | {_lmms_name(task, name): value * scale for name, value in found.items()}
    return {task.lmms: {name: round(value, lmms.digits) for name, value in named.items()}}


def kit_table(task: Task, rows: Sequence[ScoredRow], subgroups: Sequence[str] = ()) -> list[dict[str, float | str]]:
    """Return the rows of VLMEvalKit's `*_acc.csv`: one row, four for 3DSRBench's settings, one per metric for SITE.

    Args:
        rows: scored by VLMEvalKit's rule.
        subgroups: the finer group of each row, for the two benchmarks that the kit breaks down twice.
    """
    found = values(task, rows, "vlmevalkit")
    if not found:
        return []
    if task.name == "3dsrbench":
        table: list[dict[str, float | str]] = []
        for setting, name in figures.SETTINGS.items():
            some = figures.main_rows(figures.with_main_row(rows, setting), setting)
            if some:
                table.append(
                    {"setting": name, "Overall": micro(some) or 0.0, **dict(sorted(means(some, task.by).items()))}
                )
        return table
    overall = found.pop("overall")
    if task.name == "site":
        named = {"overall": overall, "accuracy": micro(rows) or 0.0} | {
            f"{name}_caa": value for name, value in found.items()
        }
        return [{"metric": name, "value": value} for name, value in named.items()]
    if task.name == "blink":
        return [{"split": "none", "Overall": overall, **dict(sorted(found.items()))}]
    scale = 1.0 if task.declared.vlmevalkit.fractions else 100.0
    line: dict[str, float | str] = {"overall": overall * scale}
    prefix = f"{task.by}." if task.name in ("mmsi-video-bench", "omnispatial") else ""
    line |= {prefix + _kit_name(task, name): value * scale for name, value in found.items()}
    if prefix:
        other = "sub_task_type" if task.by == "task_type" else "task_type"
        finer = [ScoredRow(row.value, {other: sub}) for row, sub in zip(rows, subgroups, strict=True) if sub]
        line |= {f"{other}.{name}_accuracy": value * scale for name, value in means(finer, other).items()}
    return [line]


def _lmms_name(task: Task, name: str) -> str:
    if task.name == "mmsi-bench":
        key = task.groups.get(name)
        return [name, *(group for group in task.groups if task.groups[group] == key)][-1]
    if name in task.declared.types.get("number", ()):
        return f"{name}_mra"
    if name in base.SPAR_VIEW_CHANGE:
        return f"{name}_vci_metric"
    key = task.groups.get(name, f"{name}_accuracy")
    return key


def _kit_name(task: Task, name: str) -> str:
    if task.name == "mmsi-bench":
        key = task.groups.get(name)
        name = next((group for group in task.groups if task.groups[group] == key), name)
    if name in task.declared.types.get("number", ()):
        return f"{name}_{MRA}"
    if name in base.SPAR_VIEW_CHANGE:
        return f"{name}_vci_metric"
    return name.capitalize() if name in ("low", "middle", "high") else f"{name}_accuracy"


def site_terms(hit: float, options: int) -> Mapping[str, float] | None:
    """Return the terms of a row in `site.chance_adjusted`: `overall`, hit - 1/n, and `total`, 1 - 1/n."""
    return {"overall": hit - 1 / options, "total": 1 - 1 / options} if options else None
