"""A folder of pages about runs: one page an answer, and an index. Nothing in them asks a network for anything.

Gold answers of a restricted benchmark are struck out of all that a page shows, unless the user asks for them. Where the
data cannot be read any more, so that nobody knows them, what tools gave back and answers that are correct are held back
in their place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from snellen.atomic_write import SUFFIX
from snellen.engine import journal
from snellen.engine.final_records import final_records
from snellen.engine.journal import RecordHead, record_name
from snellen.errors import StorageError, UsageError
from snellen.models.trace import Step
from snellen.redaction import redact
from snellen.redaction.gold import WITHHELD, strike
from snellen.reports.failures import table as counted
from snellen.reports.failures.page import Evidence, FailureView, Row, render_answer, render_index, row_of
from snellen.reports.plots.base import SERIES
from snellen.reports.render import written
from snellen.reports.views import LabelsView
from snellen.runs.answer_view import AnswerView, answer_view, run_names
from snellen.runs.caveats import GOLD_HELD_BACK
from snellen.runs.failures import answers
from snellen.runs.failures.answers import Key
from snellen.runs.failures.judge import JudgeLabels, reasons
from snellen.runs.failures.labels import LabelledAnswer, verdict_of
from snellen.runs.failures.rules import labels
from snellen.runs.judge.verdicts import find_verdicts
from snellen.runs.run import Run
from snellen.scoring import json_answer as replies
from snellen.scoring.rubric import gold_forms
from snellen.text import slug
from snellen.types import Record

INDEX, PAGES = "index.html", "pages"
CUT_PAGE = re.compile(r"-[0-9a-f]{12}\.html\.part$")
"""The name of a page that a killed process did not finish."""
MARK = b'<meta name="generator" content="snellen failures">'
HELD_BACK = "[held back: without the data it cannot be told whether this quotes the gold answer; --show-gold shows it]"
MOST_EVIDENCE = 50


class Told(Struct, frozen=True):
    """One run with all that its pages show beside its records.

    Attributes:
        run, labelled, view: the run, its labels, and the same counted.
        judge: a judge's labels, None where none was asked.
        away: why the data cannot be read; empty where they can.
    """

    run: Run
    labelled: Sequence[LabelledAnswer]
    view: LabelsView
    judge: JudgeLabels | None = None
    away: str = ""


def write(told: Sequence[Told], out: str | Path, *, show_gold: bool = False) -> Path:
    """Write the pages and return the path of the index.

    Args:
        told: the runs; equal questions of several runs lead to each other.
        out: the folder: empty, not there, or one that was written by this before, whose pages are replaced.
        show_gold: show the gold answers of restricted benchmarks too.

    Raises:
        UsageError: the folder holds other files.
        StorageError: it cannot be written.
        SnellenError: a run's traces or records are damaged.
    """
    folder = Path(out)
    _require_free(folder)
    names = run_names([one.run.path for one in told])
    known = _files(told, names)
    rows: list[Row] = []
    for number, (one, name) in enumerate(zip(told, names, strict=True)):
        for view, right in _views(one, name, number % SERIES + 1, known, show_gold=show_gold):
            written(render_answer(view), folder / PAGES / view.file)
            rows.append(row_of(view, right=right))
    columns = [
        counted.Labelled(name, number % SERIES + 1, one.view, one.run.meta.spec.model)
        for number, (one, name) in enumerate(zip(told, names, strict=True))
    ]
    title = " and ".join(dict.fromkeys(one.run.meta.spec.benchmark for one in told))
    index = written(render_index(title, rows, columns, labels()), folder / INDEX)
    kept = {row.file for row in rows}
    for page in _pages(folder):
        if page.name not in kept and (page.suffix == ".html" or CUT_PAGE.search(page.name)):
            page.unlink()
    return index


def _require_free(folder: Path) -> None:
    """Only a folder of our own is written over: pages of answers that are no more are deleted there."""
    if not folder.exists():
        return
    hint = "Name a folder that is empty or not there yet."
    if not folder.is_dir():
        raise UsageError(f"--pages {folder}: a folder is needed", hint)
    found = sorted(path.name for path in folder.iterdir())
    strange = [name for name in found if name not in (INDEX, INDEX + SUFFIX, PAGES)]
    try:
        pages = [path for path in _pages(folder) if not CUT_PAGE.search(path.name)]
        own = all(MARK in path.read_bytes()[:8192] for path in [folder / INDEX, *pages] if path.exists())
    except OSError as error:
        raise StorageError(f"--pages {folder}: cannot be read: {error.strerror}", hint) from error
    if strange or not own or any(path.suffix != ".html" for path in pages):
        raise UsageError(f"--pages {folder}: it holds {(strange or found)[0]}, which was not written by this", hint)


def _pages(folder: Path) -> list[Path]:
    return sorted((folder / PAGES).iterdir()) if (folder / PAGES).is_dir() else []


def _files(told: Sequence[Told], names: Sequence[str]) -> dict[tuple[str, Key], list[tuple[str, str, str]]]:
    """(benchmark, answer) to (run, model, file) of all runs that were asked the same."""
    found: dict[tuple[str, Key], list[tuple[str, str, str]]] = {}
    for one, name in zip(told, names, strict=True):
        spec = one.run.meta.spec
        seen = {(head.sample_id, head.repeat) for head in journal.intact(one.run.folder.results, RecordHead)}
        for which in sorted(seen):
            found.setdefault((spec.benchmark, which), []).append((name, spec.model, file_name(name, *which)))
    return found


def file_name(run: str, sample_id: str, repeat: int) -> str:
    """The name of an answer's page: the sample's id as far as a file name can hold it, and a digest."""
    code = blake2b(f"{run}\0{sample_id}\0{repeat}".encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{slug(sample_id, 60) or 'sample'}-{code}.html"


def _views(
    told: Told, name: str, colour: int, known: Mapping[Any, Sequence[tuple[str, str, str]]], *, show_gold: bool
) -> Iterator[tuple[FailureView, bool]]:
    """The page of each answer, and whether the answer is correct."""
    run, spec = told.run, told.run.meta.spec
    labelled = {(one.sample_id, one.repeat): one for one in told.labelled}
    judged = find_verdicts(run.folder)
    said = {} if judged is None else reasons(judged.path)
    restricted = run.meta.restricted or run.benchmark.restricted
    for seen in _away(run) if told.away else _there(run, show_gold=show_gold):
        which = (seen.answer.sample_id, seen.answer.repeat)
        key = record_name(*which)
        label = labelled.get(which)
        others = [(model, file) for run_name, model, file in known[spec.benchmark, which] if run_name != name]
        view = FailureView(
            file_name(name, *which),
            name,
            spec.model,
            colour,
            seen.answer,
            label.verdict if label is not None else seen.verdict,
            reason=said.get(key, "") or seen.reason,
            said=seen.said,
            question=seen.question,
            evidence=_evidence(seen.answer.reply, seen.steps),
            steps=seen.steps,
            notes=_notes(told, restricted and not show_gold),
            others=others,
            media=spec.options.media,
        )
        if label is not None:
            view = structs.replace(
                view,
                label=label.label,
                source=label.source,
                rule=label.rule,
                judge=label.judge,
                judge_reason="" if told.judge is None else told.judge.reasons.get(key, ""),
                people=[(by, said, label.why.get(by, "")) for by, said in label.people.items()],
                signals=label.signals,
                review=label.review,
            )
        right = view.verdict == "correct"
        if restricted and not show_gold:
            view = _hold_back(view, right) if told.away else _veiled(view, seen.forms)
        yield _veiled(view, ()), right


def _notes(told: Told, sealed: bool) -> list[str]:
    found = []
    if told.away:
        found.append("The data set is not where it was, so that question, picture and gold answer cannot be shown.")
    if sealed:
        found.append(GOLD_HELD_BACK)
    return found


class _Seen(Struct, frozen=True):
    """One answer, as far as it can be read; `forms` are its gold answers."""

    answer: AnswerView
    said: str | None
    verdict: str
    reason: str
    steps: Sequence[Step] | None
    forms: tuple[str, ...] = ()
    question: str = ""


def _there(run: Run, *, show_gold: bool) -> Iterator[_Seen]:
    show_target = show_gold or not (run.benchmark.restricted or run.meta.restricted)
    for one in answers.answers(run.folder, run.benchmark, run.meta.spec, run.verdicts()):
        profile = next(iter(run.benchmark.score))
        answer = answer_view(one.sample, one.record, {profile: one.score}, show_target=show_target)
        reason = one.score.reason or ""
        asked = None
        if run.benchmark.judged_text is not None and one.record.response is not None:
            asked = run.benchmark.judged_text(one.sample, one.record.response.text)
        question = "" if asked is None else asked.question
        yield _Seen(answer, one.answer, verdict_of(one), reason, one.steps(), gold_forms(one.sample), question)


class _Verdict(Struct):
    sample_id: str
    judge_verdict: Any = None


def _away(run: Run) -> Iterator[_Seen]:
    """The answers of a run whose data cannot be read: records, traces and verdicts alone."""
    judged = find_verdicts(run.folder)
    lines = [] if judged is None else list(journal.intact(judged.path / "verdicts.jsonl", _Verdict))
    verdicts = {one.sample_id: str(one.judge_verdict) for one in lines}
    traces = answers.places(run.folder.traces)
    for record in final_records(run.folder.results):
        which = (record.sample_id, record.repeat)
        key = record_name(*which)
        yield _Seen(
            _bare(record), _read(record), verdicts.get(key, "not known"), "", answers.read_steps(traces.get(which))
        )


def _bare(record: Record) -> AnswerView:
    """What a record alone tells of an answer."""
    response = record.response
    return AnswerView(
        record.sample_id,
        "open",
        (),
        {},
        repeat=record.repeat,
        status=record.status,
        reply=None if response is None else response.text,
        reasoning="" if response is None else response.reasoning,
        error=record.error,
        latency_s=None if response is None else response.latency_s or None,
        tokens=None if response is None else response.usage.output_tokens or None,
    )


def _read(record: Record) -> str | None:
    return None if record.response is None else replies.read(record.response.text).answer or None


def _evidence(reply: str | None, steps: Sequence[Step] | None) -> list[Evidence]:
    """What the reply's JSON object names under `evidence`, and whether each address stands in the trace."""
    if reply is None:
        return []
    found = []
    for url, note in replies.read(reply).evidence[:MOST_EVIDENCE]:
        met = None
        if steps is not None and url:
            calls = [step for step in steps if step.role == "tool"]
            met = any(url in step.result or url in msgspec.json.encode(step.arguments).decode() for step in calls)
        found.append(Evidence(url, note, met))
    return found


def _veiled(view: FailureView, forms: tuple[str, ...]) -> FailureView:
    """The view without keys and without these gold answers, wherever a text of it names them."""

    def clean(text: str) -> str:
        return redact(strike(text, forms) if forms else text)

    return _mapped(view, clean)


def _hold_back(view: FailureView, right: bool) -> FailureView:
    """The view where nobody knows the gold answer: what is likely to quote it is not shown."""
    steps = None if view.steps is None else [_without_result(step) for step in view.steps]
    evidence = [structs.replace(one, url=one.url and HELD_BACK, note=one.note and HELD_BACK) for one in view.evidence]
    view = structs.replace(view, steps=steps, evidence=evidence)
    if right or view.verdict == "not known":
        answer = structs.replace(view.answer, reply=view.answer.reply and HELD_BACK, reasoning="")
        said = [
            step if step.role != "assistant" else structs.replace(step, text=step.text and HELD_BACK)
            for step in steps or ()
        ]
        view = structs.replace(view, answer=answer, said=view.said and WITHHELD, steps=None if steps is None else said)
    return view


def _without_result(step: Step) -> Step:
    return structs.replace(step, result=HELD_BACK) if step.result else step


def _mapped(view: FailureView, clean: Callable[[str], str]) -> FailureView:
    """The view with every text of model, tools and judges changed alike."""
    answer = view.answer
    error = None if answer.error is None else structs.replace(answer.error, message=clean(answer.error.message))
    answer = structs.replace(
        answer,
        reply=None if answer.reply is None else clean(answer.reply),
        reasoning=clean(answer.reasoning),
        error=error,
        meta={name: clean(value) if isinstance(value, str) else value for name, value in answer.meta.items()},
    )
    steps = view.steps
    if steps is not None:
        steps = [
            structs.replace(
                one,
                text=clean(one.text),
                tool=clean(one.tool),
                result=clean(one.result),
                arguments=None if one.arguments is None else _cleaned(one.arguments, clean),
            )
            for one in steps
        ]
    return structs.replace(
        view,
        answer=answer,
        reason=clean(view.reason),
        judge_reason=clean(view.judge_reason),
        said=None if view.said is None else clean(view.said),
        people=[(clean(by), label, clean(note)) for by, label, note in view.people],
        question=clean(view.question),
        evidence=[structs.replace(one, url=clean(one.url), note=clean(one.note)) for one in view.evidence],
        steps=steps,
    )


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """A tool call's arguments with every text in them changed."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(name)): _cleaned(one, clean) for name, one in value.items()}
    return [_cleaned(one, clean) for one in value] if isinstance(value, list) else value
