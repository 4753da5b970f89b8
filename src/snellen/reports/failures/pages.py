"""Failure pages of runs: one page per answer, and an index. They make no network request.

Gold answers of a restricted benchmark are redacted from all that a page shows, unless the user asks for them. If the
data can no longer be read, the gold answers are unknown. Tool results and correct answers are then withheld instead.
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
from snellen.benchmarks.registry import short_name
from snellen.engine import journal
from snellen.engine.final_records import final_records
from snellen.engine.journal import RecordHead, record_name
from snellen.errors import StorageError, UsageError
from snellen.models.trace import Step
from snellen.redaction import redact
from snellen.redaction.gold import WITHHELD, strike
from snellen.reports.failures.labels import RunLabels
from snellen.reports.failures.page import Evidence, FailureView, IndexRow, index_row, render_answer, render_index
from snellen.reports.plots.base import SERIES
from snellen.reports.render import write_page
from snellen.reports.views import LabelCounts
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
HELD_BACK = (
    "[withheld: without the data, Snellen cannot tell whether this quotes the gold answer; use --show-gold to show it]"
)
MAX_EVIDENCE = 50


class LabelledRun(Struct, frozen=True):
    """One run with all that its pages show beside its records.

    Attributes:
        run, labelled, view: the run, its labels, and the same counted.
        judge: a judge's labels, None where none was asked.
        away: why the data cannot be read; empty where they can.
    """

    run: Run
    labelled: Sequence[LabelledAnswer]
    view: LabelCounts
    judge: JudgeLabels | None = None
    away: str = ""


def write_pages(runs: Sequence[LabelledRun], out: str | Path, *, show_gold: bool = False) -> Path:
    """Write the pages and return the path of the index.

    Args:
        runs: the runs; equal questions of several runs lead to each other.
        out: the folder: empty, not there, or one that was written by this before, whose pages are replaced.
        show_gold: show the gold answers of restricted benchmarks too.

    Raises:
        UsageError: the folder holds other files.
        StorageError: it cannot be written.
        SnellenError: a run's traces or records are damaged.
    """
    folder = Path(out)
    _require_free(folder)
    names = run_names([run.run.path for run in runs])
    known = _files(runs, names)
    rows: list[IndexRow] = []
    for number, (run, name) in enumerate(zip(runs, names, strict=True)):
        for view, right in _views(run, name, number % SERIES + 1, known, show_gold=show_gold):
            write_page(render_answer(view), folder / PAGES / view.file)
            rows.append(index_row(view, right=right))
    columns = [
        RunLabels(name, number % SERIES + 1, run.view, run.run.meta.spec.model_with_adapter, number // SERIES)
        for number, (run, name) in enumerate(zip(runs, names, strict=True))
    ]
    title = " and ".join(dict.fromkeys(short_name(run.run.meta.spec.benchmark) for run in runs))
    index = write_page(render_index(title, rows, columns, labels()), folder / INDEX)
    files = {row.file for row in rows}
    for page in _pages(folder):
        if page.name not in files and (page.suffix == ".html" or CUT_PAGE.search(page.name)):
            page.unlink()
    return index


def _require_free(folder: Path) -> None:
    """Raise UsageError unless the folder is new, empty or made by this command: stale pages in it are deleted."""
    if not folder.exists():
        return
    hint = "Choose a new or empty folder."
    if not folder.is_dir():
        raise UsageError(f"--pages {folder}: not a folder", hint)
    names = sorted(path.name for path in folder.iterdir())
    strange = [name for name in names if name not in (INDEX, INDEX + SUFFIX, PAGES)]
    try:
        pages = [path for path in _pages(folder) if not CUT_PAGE.search(path.name)]
        own = all(MARK in path.read_bytes()[:8192] for path in [folder / INDEX, *pages] if path.exists())
    except OSError as error:
        raise StorageError(f"--pages {folder}: cannot be read: {error.strerror}", hint) from error
    if strange or not own or any(path.suffix != ".html" for path in pages):
        raise UsageError(f"--pages {folder}: it holds {(strange or names)[0]}, which this command did not write", hint)


def _pages(folder: Path) -> list[Path]:
    return sorted((folder / PAGES).iterdir()) if (folder / PAGES).is_dir() else []


def _files(runs: Sequence[LabelledRun], names: Sequence[str]) -> dict[tuple[str, Key], list[tuple[str, str, str]]]:
    """Map (benchmark, answer) to (run, model, file) of all runs with the same sample."""
    files_by_answer: dict[tuple[str, Key], list[tuple[str, str, str]]] = {}
    for run, name in zip(runs, names, strict=True):
        spec = run.run.meta.spec
        keys = {(head.sample_id, head.repeat) for head in journal.intact(run.run.folder.results, RecordHead)}
        for key in sorted(keys):
            files_by_answer.setdefault((spec.benchmark, key), []).append(
                (name, spec.model_with_adapter, file_name(name, *key))
            )
    return files_by_answer


def file_name(run: str, sample_id: str, repeat: int) -> str:
    """Return the name of an answer's page: the sample's id as far as a file name can hold it, and a digest."""
    code = blake2b(f"{run}\0{sample_id}\0{repeat}".encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{slug(sample_id, 60) or 'sample'}-{code}.html"


def _views(
    source: LabelledRun, name: str, colour: int, known: Mapping[Any, Sequence[tuple[str, str, str]]], *, show_gold: bool
) -> Iterator[tuple[FailureView, bool]]:
    """Yield the view of each answer, with True if the answer is correct."""
    run, spec = source.run, source.run.meta.spec
    labelled = {(label.sample_id, label.repeat): label for label in source.labelled}
    judged = find_verdicts(run.folder)
    reason_by_key = {} if judged is None else reasons(judged.path)
    restricted = run.meta.restricted or run.benchmark.restricted
    for answer in _load_without_data(run) if source.away else _load_answers(run, show_gold=show_gold):
        answer_key = (answer.answer.sample_id, answer.answer.repeat)
        key = record_name(*answer_key)
        label = labelled.get(answer_key)
        others = [(model, file) for run_name, model, file in known[spec.benchmark, answer_key] if run_name != name]
        view = FailureView(
            file_name(name, *answer_key),
            name,
            spec.model_with_adapter,
            colour,
            answer.answer,
            label.verdict if label is not None else answer.verdict,
            reason=reason_by_key.get(key, "") or answer.reason,
            extracted=answer.extracted,
            question=answer.question,
            evidence=_evidence(answer.answer.reply, answer.steps),
            steps=answer.steps,
            notes=_notes(source, restricted and not show_gold),
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
                judge_reason="" if source.judge is None else source.judge.reasons.get(key, ""),
                people=[(by, their_label, label.why.get(by, "")) for by, their_label in label.people.items()],
                signals=label.signals,
                review=label.review,
            )
        right = view.verdict == "correct"
        if restricted and not show_gold:
            view = _withhold(view, right) if source.away else _strike_gold(view, answer.forms)
        yield _strike_gold(view, ()), right


def _notes(source: LabelledRun, sealed: bool) -> list[str]:
    notes = []
    if source.away:
        notes.append(
            "The data set is no longer at its recorded location, so question, image and gold answer cannot be shown."
        )
    if sealed:
        notes.append(GOLD_HELD_BACK)
    return notes


class _LoadedAnswer(Struct, frozen=True):
    """One answer, as far as it can be read; `forms` are its gold answers."""

    answer: AnswerView
    extracted: str | None
    verdict: str
    reason: str
    steps: Sequence[Step] | None
    forms: tuple[str, ...] = ()
    question: str = ""


def _load_answers(run: Run, *, show_gold: bool) -> Iterator[_LoadedAnswer]:
    show_target = show_gold or not (run.benchmark.restricted or run.meta.restricted)
    for judged_answer in answers.answers(run.folder, run.benchmark, run.meta.spec, run.verdicts()):
        profile = next(iter(run.benchmark.score))
        answer = answer_view(
            judged_answer.sample, judged_answer.record, {profile: judged_answer.score}, show_target=show_target
        )
        reason = judged_answer.score.reason or ""
        judged_text = None
        if run.benchmark.judged_text is not None and judged_answer.record.response is not None:
            judged_text = run.benchmark.judged_text(judged_answer.sample, judged_answer.record.response.text)
        question = "" if judged_text is None else judged_text.question
        yield _LoadedAnswer(
            answer,
            judged_answer.answer,
            verdict_of(judged_answer),
            reason,
            judged_answer.steps(),
            gold_forms(judged_answer.sample),
            question,
        )


class _VerdictLine(Struct):
    sample_id: str
    judge_verdict: Any = None


def _load_without_data(run: Run) -> Iterator[_LoadedAnswer]:
    """Load the answers of a run whose data cannot be read: from records, traces and verdicts alone."""
    judged = find_verdicts(run.folder)
    lines = [] if judged is None else list(journal.intact(judged.path / "verdicts.jsonl", _VerdictLine))
    verdicts = {verdict.sample_id: str(verdict.judge_verdict) for verdict in lines}
    traces = answers.places(run.folder.traces)
    for record in final_records(run.folder.results):
        answer_key = (record.sample_id, record.repeat)
        key = record_name(*answer_key)
        yield _LoadedAnswer(
            _bare(record), _read(record), verdicts.get(key, "not known"), "", answers.read_steps(traces.get(answer_key))
        )


def _bare(record: Record) -> AnswerView:
    """Build the view of an answer from its record alone."""
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
    """Return the evidence of the reply's JSON object, each with whether its address is in the trace."""
    if reply is None:
        return []
    evidence = []
    for url, note in replies.read(reply).evidence[:MAX_EVIDENCE]:
        met = None
        if steps is not None and url:
            calls = [step for step in steps if step.role == "tool"]
            met = any(url in step.result or url in msgspec.json.encode(step.arguments).decode() for step in calls)
        evidence.append(Evidence(url, note, met))
    return evidence


def _strike_gold(view: FailureView, forms: tuple[str, ...]) -> FailureView:
    """Redact keys and these gold answers from all texts of a view."""

    def clean(text: str) -> str:
        return redact(strike(text, forms) if forms else text)

    if forms and view.steps is not None:  # a picture can show a gold answer, which nothing can strike from it
        view = structs.replace(view, steps=[structs.replace(step, copies=()) for step in view.steps])
    return _map_texts(view, clean)


def _withhold(view: FailureView, right: bool) -> FailureView:
    """Withhold texts that are likely to quote an unknown gold answer."""
    steps = None if view.steps is None else [_without_result(step) for step in view.steps]
    evidence = [
        structs.replace(item, url=item.url and HELD_BACK, note=item.note and HELD_BACK) for item in view.evidence
    ]
    view = structs.replace(view, steps=steps, evidence=evidence)
    if right or view.verdict == "not known":
        answer = structs.replace(view.answer, reply=view.answer.reply and HELD_BACK, reasoning="")
        hidden_steps = [
            step if step.role != "assistant" else structs.replace(step, text=step.text and HELD_BACK)
            for step in steps or ()
        ]
        view = structs.replace(
            view, answer=answer, extracted=view.extracted and WITHHELD, steps=None if steps is None else hidden_steps
        )
    return view


def _without_result(step: Step) -> Step:
    return structs.replace(step, result=HELD_BACK, copies=()) if step.result else step


def _map_texts(view: FailureView, clean: Callable[[str], str]) -> FailureView:
    """Apply a function to every text of model, tools and judges."""
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
                step,
                text=clean(step.text),
                tool=clean(step.tool),
                result=clean(step.result),
                arguments=None if step.arguments is None else _map_value(step.arguments, clean),
            )
            for step in steps
        ]
    return structs.replace(
        view,
        answer=answer,
        reason=clean(view.reason),
        judge_reason=clean(view.judge_reason),
        extracted=None if view.extracted is None else clean(view.extracted),
        people=[(clean(by), label, clean(note)) for by, label, note in view.people],
        question=clean(view.question),
        evidence=[structs.replace(item, url=clean(item.url), note=clean(item.note)) for item in view.evidence],
        steps=steps,
    )


def _map_value(value: Any, clean: Callable[[str], str]) -> Any:
    """Apply a function to every text of a tool call's arguments."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(name)): _map_value(item, clean) for name, item in value.items()}
    return [_map_value(item, clean) for item in value] if isinstance(value, list) else value
