"""A judge's labels of incorrect answers: request them and read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import journal
from snellen.engine.folder_checks import NOT_OWN, is_own
from snellen.engine.progress import Display
from snellen.engine.run_folder import LABELLED, RunFolder, derived_folder, derived_run
from snellen.errors import FingerprintError, JudgeError
from snellen.models.base import Model
from snellen.runs.failures.benchmark import FIELD, labelling_benchmark, rubric_of
from snellen.runs.failures.rules import labels
from snellen.runs.judge import verdicts
from snellen.runs.judge.ask import appointed
from snellen.runs.judge.benchmark import JudgeModel
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.runs.settings import JudgeSettings, run_spec, takes
from snellen.scoring.json_answer import objects
from snellen.scoring.rubric import Schema, read_verdict


@takes(JudgeSettings)
def label_failures(
    run: Run,
    model: str | Model | None = None,
    *,
    rubric: str = "",
    out: str | Path | None = None,
    display: Display | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Let a model label the incorrect answers of a run, or resume that; the labels are a run of their own.

    Args:
        run: the run; of a judged benchmark one with verdicts.
        model: the judge, KIND:NAME; None: the environment variable JUDGE_MODEL.
        rubric: path of a rubric file; empty: ours.
        out: the labels' folder; None: <run>_failures, where `labels_of` finds them.
        display, settings: as for `snellen.judge`.

    Raises:
        JudgeError: no judge, no key, no such rubric, a rubric with labels that are not ours, nothing to label; nothing
            was asked.
        SnellenError: see snellen.errors; labels that were given are on disk.
    """
    spec = run_spec(LABELLED, "", settings)
    data, labelling = _asked(run, rubric, spec.data.seed)
    who = appointed(model, spec.options, option="--judge")
    folder = RunFolder(out if out is not None else derived_folder(run.path, LABELLED))
    judging = who.opened()
    spec = structs.replace(spec, model=who.name, data=data, options=who.options)
    try:
        return perform(spec, folder, benchmark=labelling, model=JudgeModel(judging, folder.path), display=display)
    except FingerprintError as error:  # its own way out, --out, is none here: labels are looked for beside the run
        error.hint = f"Move {folder.path} away, or remove it; the same command then labels all answers again."
        raise


def require(run: Run, rubric: str = "") -> Path:
    """Return the folder that a judge's labels of a run go to, where there is anything to label.

    Raises:
        JudgeError: no such rubric, a rubric with labels that are not ours, nothing to label.
    """
    _asked(run, rubric, 0)
    return derived_folder(run.path, LABELLED)


def _asked(run: Run, rubric: str, seed: int) -> tuple[Data, Benchmark]:
    strange = sorted(set(rubric_of(rubric).verdict.labels) - set(labels()))
    if strange:
        raise JudgeError(f"rubric {rubric}: no such label: {strange[0]!r}", f"There are: {', '.join(labels())}.")
    data = Data(path=run.path, options={"rubric": rubric} if rubric else {}, seed=seed)
    labelling = labelling_benchmark(data, run.benchmark)
    if next(labelling.samples(data), None) is None:
        raise JudgeError(f"{run.path} has no incorrect answer", "For a judged benchmark, run snellen judge first.")
    return data, labelling


class JudgeLabels(Struct, frozen=True):
    """A judge's labels by `record_name`: `by` is the judge, `unread` how many replies hold no label."""

    by: str
    by_name: Mapping[str, str]
    reasons: Mapping[str, str]
    unread: int


def labels_of(run: Run, folder: str | Path | None = None) -> JudgeLabels | None:
    """Read a judge's labels from <run>_failures, or from `folder`; None if there is no such run."""
    folder_of_labels = derived_run(run.folder, LABELLED) if folder is None else RunFolder(folder)
    if folder_of_labels is None:
        return None
    schema = Schema(field=FIELD, labels=dict.fromkeys(labels(), 0.0), reason="reason")
    by_name, unread = {}, 0
    replies = verdicts.read(folder_of_labels, run.folder)
    for name, text in replies.items():
        try:
            by_name[name] = str(read_verdict(text, schema).answer)
        except ValueError:
            unread += 1
    by = replies.model if is_own(folder_of_labels.meta()) else f"{replies.model} ({folder_of_labels.path}, {NOT_OWN})"
    return JudgeLabels(by, by_name, reasons(folder_of_labels.path), unread)


class _Raw(Struct):
    sample_id: str
    text: str = ""


def reasons(folder: Path) -> dict[str, str]:
    """Read a judge's reasons by `record_name` from its raw outputs, which hold no gold."""
    texts = {}
    for path in sorted((folder / "raw_judge_outputs").glob("*.jsonl")):
        for line in journal.intact(path, _Raw):
            reason = next(
                (verdict["reason"] for verdict in objects(line.text) if isinstance(verdict.get("reason"), str)), None
            )
            if reason is not None:
                texts[line.sample_id] = reason[:2_000]
    return texts
