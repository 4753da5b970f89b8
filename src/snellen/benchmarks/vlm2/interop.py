"""Result files of the authors' scripts, written and read, and VLMEvalKit's tables of answers, read.

The export is `<cue>/<folder of the subtask>/<model>_<time stamp>_answers.jsonl`, and `vid_<model>_<time stamp>.jsonl` for
videos: their evaluator takes the model's name up to the next underscore, so the name has hyphens there. A reply is written as
the official profile reads it: stripped, and for the prompting variants the text after the marker.

Rows that are read bring question and gold answer along, and are scored as they stand; warnings name the line. The authors'
counting evaluator takes the number of images from the question file, so that file is needed there (`--data`).

Source: the released inference scripts of VLM2-Bench.

A run in VLMEvalKit's files: `<model>_VLM2Bench.xlsx` with the predictions, and `<model>_VLM2Bench_score.csv`.

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

from msgspec import structs

from snellen.benchmarks.base import Answered, Data
from snellen.benchmarks.vlm2 import metrics, parse_row, prompts, vlmevalkit_tsv
from snellen.benchmarks.vlm2.layout import BY_NAME, Subtask
from snellen.benchmarks.vlm2.locate import questions as where_questions
from snellen.benchmarks.vlm2.scorers import scored_text
from snellen.errors import DataError, UsageError
from snellen.formats.base import Problems, missing
from snellen.formats.columns import text_of
from snellen.formats.readers import first_columns, table_rows, write_workbook
from snellen.formats.writers import Exported, Writer, write_lines
from snellen.scoring.scores import ScoreBuilder, score_record
from snellen.sources.vlmevalkit_tsv import list_elements
from snellen.types import Prompt, Record, Response, Sample, Score

DATA = "VLM2Bench"
FAILED = "Failed to obtain answer via API."
PROFILE = "vlmevalkit"
COLUMNS = ("index", "question", "answer", "category", "image_seq_len", "prediction", "sample_id", "status")
KitScorers = Callable[[Subtask], Mapping[str, Callable[[Sample, str], Score]]]


def write_vlmevalkit(
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


def exports(scorers: KitScorers, subtask: Subtask | None = None) -> Mapping[str, Writer]:
    """Return the formats of one subtask's runs; None: of the suite's, whose samples say what they are of (`task`)."""

    def kit(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
        """VLMEvalKit's table of predictions, and the scores that it would give."""
        return write_vlmevalkit(answers, folder, model, subtask, scorers)

    def authors(answers: Iterator[tuple[Sample, Record]], folder: Path, model: str, stamp: str) -> Exported:
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
            answered = row(task, sample.meta["row"], scored_text(sample, text))
            files.setdefault(folder / place(task, name, stamp), []).append(answered)
        return Exported(tuple(write_lines(path, rows) for path, rows in files.items()), tuple(_authors_notes(counted)))

    return {"authors": authors, "vlmevalkit": kit}


def place(subtask: Subtask, model: str, stamp: str) -> Path:
    """Return the path of a subtask's answers in the folder of the export."""
    folder = Path(subtask.cue, subtask.results)
    if subtask.family == "video":
        return folder / f"vid_{model.replace('_', '-')}_{stamp}.jsonl"
    return folder / f"{model}_{stamp}_answers.jsonl"


def row(subtask: Subtask, question: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """Return one line of a result file.

    General cues: q_id, task, question, edit_prompt (`edited_prompt` of the question), model_answer, gt_answer. Object
    and person cues: q_id, type, question, model_answer, gt_answer. Videos: the question's whole row, model_answer, and
    gt_answer, empty where there is none.
    """
    if subtask.family == "video":
        return {**question, "model_answer": answer, "gt_answer": question.get("gt_answer", "")}
    shared = (
        {
            "task": question.get("task"),
            "question": question.get("question"),
            "edit_prompt": question.get("edited_prompt"),
        }
        if subtask.cue == "gc"
        else {"type": question.get("type"), "question": question.get("question")}
    )
    return {"q_id": question.get("q_id"), **shared, "model_answer": answer, "gt_answer": question.get("gt_answer")}


def _authors_notes(counted: Counter[str]) -> Iterator[str]:
    if counted["lost"]:
        yield (
            f"{counted['lost']:,} samples have no answer and are left out, as by the authors' scripts: figures made from "
            "these files do not count them"
        )
    if counted["refused"]:
        yield f"{counted['refused']:,} refused samples are written with what was said, mostly nothing"
    for variant in prompts.VARIANTS[1:]:
        if counted[f"asked {variant}"]:
            yield (
                f"of {counted[f'asked {variant}']:,} replies to {variant} what stands after the last {prompts.MARKER} is "
                "written; a reply without it is written whole"
            )


JSON = (".jsonl", ".ndjson", ".json")
TABLES = (*JSON, ".csv", ".tsv", ".xlsx", ".parquet")
NOTHING_SHOWN = Prompt(())
UNKNOWN = (parse_row.DEFAULT_LENGTH, parse_row.DEFAULT_LENGTH)


def read_subtask_results(subtask: Subtask, path: Path, data: Data, problems: Problems) -> Answered | None:
    """Read one subtask's rows; of VLMEvalKit's tables those of its category."""
    form = kind_of(path)
    if form == "authors":
        return _scored(subtask, _authors(subtask, path, data, problems), problems, data)
    if form == "kit":
        return _scored(subtask, _kit(subtask, path, problems), problems, data)
    return None


def read_suite_results(path: Path, data: Data, problems: Problems) -> Answered | None:
    """Read a table of VLMEvalKit's that holds several subtasks.

    Raises:
        UsageError: the rows are the authors', which do not say which subtask they are of.
    """
    form = kind_of(path)
    if form == "authors":
        raise UsageError(
            f"{path}: rows of the authors' scripts do not say which subtask they answer",
            "Name it: --benchmark vlm2/oc-cnt, say.",
        )
    if form != "kit":
        return None
    return _every_category(path, data, problems)


def kind_of(path: Path) -> str | None:
    """`authors` (rows with model_answer), `kit` (rows with index and prediction), or None."""
    names = first_columns(path, TABLES)
    if {"index", "prediction"} <= names:
        return "kit"
    return "authors" if names & {"q_id", "vid"} and names & {"model_answer", "gt_answer"} else None


def _authors(
    subtask: Subtask, path: Path, data: Data, problems: Problems
) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """(where, row, reply); a counting row gets its numbers of images from the question file."""
    counting = subtask.family == "count"
    known, typed = _lengths(subtask, data, path) if counting else ({}, False)
    strangers = 0
    for where, row in table_rows(path, problems):
        if counting:
            q_id = row.get("q_id")
            text = type(q_id) is str
            lengths = known.get(hash(q_id) if text and q_id else _key(subtask, row, text))
            if lengths is None:
                other = known.get(_key(subtask, row, not text))
                strangers += typed or other is None
                lengths = other or UNKNOWN
                lengths = (parse_row.DEFAULT_LENGTH, lengths[1]) if typed else lengths
            row["lengths"] = lengths
        yield where, row, row.get("model_answer")
    if strangers:
        problems.add(
            str(data.path),
            f'{strangers:,} q_ids of the answers are not in it (12 and "12" are two); two images are assumed for each',
        )


def _key(subtask: Subtask, row: Mapping[str, Any], text: bool) -> int:
    """Return the hash of a row's q_id as a text, or as what is none."""
    name = parse_row.row_id(subtask, row)
    return hash(name) if text else hash(("", name))


def _lengths(subtask: Subtask, data: Data, path: Path) -> tuple[dict[int, tuple[int, int]], bool]:
    """The hash of q_id to the numbers of images (the authors', VLMEvalKit's), and whether a text is another id than a
    number, as it is to the authors' evaluator: both files are JSON. Hashes, since a million ids are many MB."""
    if data.path is None:
        raise UsageError(
            f"{path}: the number of images of a {subtask.name} question is in the question file, not in its answers",
            f"Give it: --data {subtask.questions} (or the zip, or the folder that holds it).",
        )
    pool: dict[tuple[int, int], tuple[int, int]] = {}
    by_id: dict[int, tuple[int, int]] = {}
    questions = where_questions(subtask, data)
    for _, row in questions.rows():
        if not isinstance(row, DataError):
            both = parse_row.lengths(row)
            by_id[_key(subtask, row, type(row.get("q_id")) is str)] = pool.setdefault(both, both)
    return by_id, path.suffix.lower() in JSON and not questions.file.lower().endswith(".tsv")


def _kit(subtask: Subtask, path: Path, problems: Problems) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    other: set[str] = set()
    matched = 0
    for where, row in table_rows(path, problems):
        category = row.get("category")
        if category is not None and category != subtask.name:
            other.add(str(category))
            continue
        matched += 1
        yield where, kit_row(subtask, row), row.get("prediction")
    if not matched and other:
        raise DataError(
            f"{path}: no row of category {subtask.name!r}; it has {', '.join(sorted(other)[:12])}",
            "Name the benchmark that was answered.",
        )


def kit_row(subtask: Subtask, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of VLMEvalKit's as one of the authors'.

    `<subtask>_<n>_p` of the index is `<n>_p`, and for gc the pair `<n>`.

    The number of images is the row's `image_seq_len`, else the length of its list of images or image paths, which may
    be written as text.
    """
    images = _listed(row.get("image_path")) or _listed(row.get("image"))
    fields: dict[str, Any] = {
        "index": str(row.get("index")),
        "q_id": vlmevalkit_tsv.q_id(subtask, str(row.get("index"))),
        "question": row.get("question"),
        "gt_answer": row.get("answer"),
        "images": images,
    }
    if isinstance(fields["gt_answer"], str):
        fields["gt_answer"] = vlmevalkit_tsv.gold(subtask, fields["gt_answer"])
    length = row.get("image_seq_len")
    if isinstance(length, str) and length.isdecimal():
        length = int(length)
    if isinstance(length, (int, float)) and length == length:
        fields["image_seq_len"] = length
    elif images:
        fields["image_seq_len"] = len(images)
    return fields


def _listed(value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    return list_elements(value) if isinstance(value, str) else []


def _scored(
    subtask: Subtask, rows: Iterator[tuple[str, Mapping[str, Any], Any]], problems: Problems, data: Data
) -> Answered:
    """(sample, record) of each row; a second row with the same place gets a turn, so that the last one can be told."""
    seen: dict[int, int] = {}
    kinds: dict[str, type] = {}
    name = prompts.variant_name(data)
    variant: dict[str, Any] = {} if name == "vanilla" else {"prompting": name}
    for where, row, reply in rows:
        if "lengths" in row:
            variant["images"], variant["shown"] = row["lengths"]
        sample = parse_row.sample(subtask, row, NOTHING_SHOWN, **variant)
        spot = hash((sample.group, sample.meta["half"]) if "half" in sample.meta else sample.id)
        if spot not in seen:
            seen[spot] = 0
        else:
            turn = seen[spot] = seen[spot] + 1
            sample = parse_row.sample(subtask, row, NOTHING_SHOWN, turn, **variant)
        if subtask.cue == "gc":
            sample = _of_its_kind(sample, row.get("q_id"), kinds)
        _report(subtask, sample, row, where, problems)
        yield sample, _record(subtask, sample, reply, where, problems)


def _of_its_kind(sample: Sample, q_id: Any, kinds: dict[str, type]) -> Sample:
    """Return the sample with a pair of its own where q_ids of one text differ in type.

    The number 12 and the text "12" are two q_ids to the authors' grouping; in VLMEvalKit's index both are text.
    """
    kind = type(q_id) if isinstance(q_id, (str, bool, type(None))) else float
    if kinds.setdefault(sample.group, kind) is kind:
        return sample
    pair = f"{sample.group} ({'none' if q_id is None else kind.__name__})"
    return structs.replace(sample, group=pair, meta={**sample.meta, "pair": pair, "kit_pair": sample.group})


def _report(subtask: Subtask, sample: Sample, row: Mapping[str, Any], where: str, problems: Problems) -> None:
    gold = row.get("gt_answer")
    if subtask.family == "count" and isinstance(gold, str):
        problems.add(
            where, f"gt_answer is the text {gold[:40]!r}, at which the authors' evaluator stops; read as a number"
        )
    elif subtask.family == "count" and gold is not None and (type(gold) is bool or type(sample.target) is not int):
        taken = "is not looked at" if sample.target is None else f"taken for {sample.target}"
        problems.add(where, f"gt_answer is {str(gold)[:40]!r}, not a whole number; {taken}")
    elif subtask.family != "video" and gold is None:
        problems.add(where, "there is no gt_answer")
    elif subtask.family == "video":
        if row.get("vid") in (None, ""):
            problems.add(where, "there is no vid; the judged video is unknown")
    elif subtask.cue == "gc" and row.get("q_id") is None:
        problems.add(where, "there is no q_id; such rows together count as one pair")
    elif subtask.family == "group" and not isinstance(gold, str):
        problems.add(
            where, f"gt_answer is {str(gold)[:40]!r}, at which the authors' evaluator stops; it counts as wrong"
        )
    elif subtask.family == "pair" and subtask.cue != "gc" and "half" not in sample.meta:
        problems.add(where, f"q_id {str(row.get('q_id'))[:60]!r} is not <main>_p or <main>_n; it is in no pair")
    elif subtask.family == "pair" and subtask.cue == "gc" and "half" not in sample.meta:
        problems.add(where, f"gt_answer is {str(gold)[:40]!r}, neither 'T' nor 'F'; it cannot be right")


def _record(subtask: Subtask, sample: Sample, reply: Any, where: str, problems: Problems) -> Record:
    text = reply if type(reply) is str else None
    if text is None:
        why = "the reply is null or missing"
        try:
            # To the authors' comparison for general cues a list is not the text in it.
            text = str(reply) if subtask.cue == "gc" and isinstance(reply, list) else text_of(reply)
        except ValueError as error:
            why = str(error)
        # Cells of a spreadsheet are numbers by nature; in JSON lines, whose rows go by `line`, somebody wrote them so.
        if text is not None and where.startswith("line"):
            problems.add(where, f"the reply is {str(reply)[:40]!r} and no text; scored as {text[:40]!r}")
        if text is None and subtask.family == "video":
            # The authors' evaluator asks its judge about any row, so what a judge has said about this one counts.
            problems.add(where, f"{why}; judged as an empty description")
            text = ""
        if text is None:
            problems.add(where, f"{why}; scored as no answer")
            failed = missing(sample.id, where, why)
            return Record(sample.id, "error", 0, None, failed.failure)
    return Record(sample.id, "ok", 0, Response(text))


def _every_category(path: Path, data: Data, problems: Problems) -> Answered:
    strange = 0
    seen: dict[tuple[str, str], int] = {}
    for where, row in table_rows(path, problems):
        subtask = BY_NAME.get(str(row.get("category")))
        if subtask is None:
            strange += 1
            problems.add(where, f"category {str(row.get('category'))[:40]!r} is none of VLM2-Bench's")
            continue
        rows = iter([(where, kit_row(subtask, row), row.get("prediction"))])
        for sample, record in _scored(subtask, rows, problems, prompts.fitted(data, subtask)):
            turn = seen[(subtask.name, sample.id)] = seen.get((subtask.name, sample.id), -1) + 1
            name = f"{subtask.name}/{sample.id}" + (f"#{turn + 1}" if turn else "")
            meta = {**sample.meta, "task": subtask.name, **({"turn": turn} if turn else {})}
            group = f"{subtask.name}/{sample.group}" if sample.group else ""
            yield structs.replace(sample, id=name, group=group, meta=meta), structs.replace(record, sample_id=name)
