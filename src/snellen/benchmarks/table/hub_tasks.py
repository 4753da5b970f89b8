"""Tasks of an `eval.yaml`, of a data set of the hub or of a folder, as declared benchmarks.

A task is translated into a declaration: columns, one text template, system text, scorers of inspect_ai as profiles. Prompts are those
that inspect_ai 0.3.285 sends; its default templates (MIT) are part of that and stand in `inspect_templates.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.registry import HUB, TASK_FILE, task_folder
from snellen.benchmarks.table.catalogue_benchmarks import declared_benchmark
from snellen.benchmarks.table.cell_form import AnswerForm, Cell, CellSpec
from snellen.benchmarks.table.declaration import (
    Declaration,
    InspectScorer,
    JudgeRule,
    PromptStyle,
    Report,
    RunDefaults,
    ScoreRule,
    Source,
)
from snellen.errors import DataError
from snellen.formats.eval_yaml import (
    CARD,
    LITERAL,
    DataFiles,
    EvalFile,
    EvalTask,
    ScorerStep,
    read_card,
    read_eval_yaml,
)
from snellen.toml_text import packaged_toml

COMMIT = re.compile(r"[0-9a-f]{40}")
GRADED = ("model_graded_qa", "model_graded_fact")
KINDS = {"openai": "openai", "anthropic": "anthropic", "google": "gemini", "openrouter": "openrouter"}
"""Providers of Inspect's names of models, and our kinds."""
TEMPLATES = "inspect_templates.toml"
IDS = "sample_id"
"""A column that a card lists under this name holds the ids of rows."""
_FIELD = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_OF_CHOICES = ("template", "cot", "multiple_correct", "max_tokens")
_OF_RUNS = ("temperature", "top_p", "max_tokens")


class Place(NamedTuple):
    """A data set with an eval.yaml.

    Attributes:
        name: the part of a benchmark's name before the task, as `hf:owner/name` or a folder's name.
        lasting: how the benchmark is found again, without task and commit.
        repo: of the hub; empty for a folder.
        revision: of the hub: as typed, or the commit.
        folder: on this machine; None for the hub.
        task: the task that was named; empty: the only one.
    """

    name: str
    lasting: str
    repo: str
    revision: str
    folder: Path | None
    task: str


def find(name: str) -> Benchmark | None:
    """Return the benchmark of a task; None for a data set of the hub without an eval.yaml.

    Raises:
        DataError: the file or its task cannot be run; the message says what is unknown.
    """
    place = _place(name)
    read = _file(place)
    if read is None:
        return None
    task = read.task(place.task, _where(place))
    declared = declaration_of(task, place, read)
    return declared_benchmark(declared, Path())


def names_of(name: str) -> list[str]:
    """Return a data set's name, or those of its tasks if it has several and none is named."""
    place = _place(name)
    read = None if place.task else _file(place)
    if read is None or len(read.tasks) < 2:
        return [name]
    at = f"@{place.revision}" if place.revision else ""
    return [f"{place.lasting}/{task.id}{at}" for task in read.tasks]


def lasting_name(name: str) -> str:
    """Return the name under which a run finds its benchmark again: with the task, and of the hub with the commit.

    A data set of the hub with its commit and no task is a table, whatever its eval.yaml says, as in runs of 0.5.
    """
    place = _place(name)
    read = _file(place)
    if place.folder is not None:
        task = place.task or (read.task("", _where(place)).id if read else "")
        return f"{place.folder.absolute() / TASK_FILE}" + (f"/{task}" if task else "")
    from snellen.sources.hub import with_commit

    commit = with_commit(f"{HUB}{place.repo}" + (f"@{place.revision}" if place.revision else "")).rpartition("@")[2]
    task = "" if read is None else place.task or read.task("", _where(place)).id or TASK_FILE
    return f"{place.lasting}{f'/{task}' if task else ''}@{commit}"


def _place(name: str) -> Place:
    if name.startswith(HUB):
        repo, at, revision = name[len(HUB) :].partition("@")
        parts = repo.split("/")
        if len(parts) not in (1, 2, 3) or not all(parts) or (at and not revision):
            raise DataError(
                f"{name}: hf:owner/name, hf:owner/name/task or either with @revision was expected", "Complete the name."
            )
        whole = "/".join(parts[:2])
        return Place(f"{HUB}{whole}", f"{HUB}{whole}", whole, revision, None, "".join(parts[2:]))
    folder, task = task_folder(name) or (Path(name), "")
    return Place(folder.absolute().name, str(folder.absolute() / TASK_FILE), "", "", folder, task)


def _where(place: Place) -> str:
    return f"{place.name}, {TASK_FILE}"


def _file(place: Place) -> EvalFile | None:
    """Return the file of a data set; None where there is none, and no task is named."""
    if place.folder is not None:
        data = _bytes(place.folder / TASK_FILE)
    elif not place.task and COMMIT.fullmatch(place.revision):
        return None
    else:
        data = _of_hub(place.repo, TASK_FILE, place.revision)
    if data is None and place.folder is not None:
        raise DataError(f"{place.folder}: no {TASK_FILE} is there any more", "Put the data set back to its place.")
    if data is None:
        if place.task:
            raise DataError(
                f"{place.name} has no {TASK_FILE}, and so no task {place.task!r}; offline it may not be cached",
                f"Name {place.name} alone, or unset HF_HUB_OFFLINE.",
            )
        return None
    return read_eval_yaml(data, _where(place))


def _bytes(path: Path) -> bytes | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return file.read((1 << 20) + 1)


@cache
def _of_hub(repo: str, name: str, revision: str) -> bytes | None:
    """Return a file of a data set, fetched unless it is cached; None where the data set has no such file."""
    from snellen.sources.hub import find_file

    path = find_file(repo, name, revision or None)
    return None if path is None else _bytes(path)


def declaration_of(task: EvalTask, place: Place, file: EvalFile) -> Declaration:
    """Translate a task into a declaration. Raises DataError for a step that is not run here."""
    where = f"{_where(place)}, task {task.id or '(without id)'}"
    template, system, more = _prompt(task, where)
    files = _data_files(task, place)
    rows = _columns(task, files, several=bool(more.get("multiple_correct")))
    if system:
        rows["system"] = Cell(text=system)
    score, faults = _score(task, where)
    config = "" if files.files or task.config == "default" else task.config
    split = "" if files.files else task.split
    source = Source(
        hub=place.repo,
        revision=place.revision,
        file="" if place.repo else str((place.folder or Path()).absolute()),
        config=config,
        split=split,
        files=files.files,
    )
    try:
        report = Report(headline=True, over_repeats="" if task.epoch_reducer in (None, "mean") else task.epoch_reducer)
    except ValueError as error:
        raise DataError(f"{where}: epoch_reducer: {error}", "Correct the file.") from error
    if task.epochs == 1:
        report = Report(headline=True)
    return Declaration(
        name="/".join(filter(None, (place.name, task.id))),
        title=file.name,
        probes=" ".join(file.description.split()),
        source=source,
        rows=rows,
        without_image="keep",
        prompt=PromptStyle(template=template, option="{letter}) {text}"),
        score=score,
        report=(report,),
        run=RunDefaults(
            repeats=task.epochs if task.epochs > 1 else None, **{key: more[key] for key in _OF_RUNS if key in more}
        ),
        faults=faults,
        eval_task=msgspec.to_builtins(task),
    )


def _data_files(task: EvalTask, place: Place) -> DataFiles:
    data = _bytes(place.folder / CARD) if place.folder is not None else _of_hub(place.repo, CARD, place.revision)
    return DataFiles() if data is None else read_card(data, f"{place.name}, {CARD}", task.config, task.split)


def _columns(task: EvalTask, files: DataFiles, *, several: bool) -> dict[str, CellSpec]:
    fields = task.field_spec
    form: AnswerForm = "multi-choice" if several else "letter-index0" if fields.choices is not None else ""
    target = (
        Cell(text=fields.target.removeprefix(LITERAL)) if fields.target.startswith(LITERAL) else Cell(fields.target)
    )
    rows: dict[str, CellSpec] = {
        "question": fields.input,
        "answer": structs.replace(target, as_=form) if form or target.text is not None else fields.target,
    }
    if IDS in files.columns:
        rows["id"] = IDS
    if fields.choices is not None:
        rows["options"] = Cell(fields.choices, as_="text") if isinstance(fields.choices, str) else fields.choices
    if fields.input_image:
        rows["image"] = fields.input_image
    return rows


def _score(task: EvalTask, where: str) -> tuple[ScoreRule, dict[str, tuple[str, ...]]]:
    graded = [scorer for scorer in task.scorers if scorer.name in GRADED]
    if graded and len(task.scorers) > 1:
        names = ", ".join(scorer.name for scorer in task.scorers)
        raise DataError(
            f"{where}: it has the scorers {names}; one that a model decides stands alone here",
            "Remove the others from a copy of the file.",
        )
    if graded:
        return _graded(graded[0], where)
    if len({scorer.name for scorer in task.scorers}) < len(task.scorers):
        raise DataError(f"{where}: it has one scorer twice", "Remove one from a copy of the file.")
    try:
        scorers = tuple(
            InspectScorer(scorer.name, {key: value for key, value in scorer.args.items() if value is not None})
            for scorer in task.scorers
        )
    except ValueError as error:
        raise DataError(f"{where}: {error}", "`snellen --help hub` lists the scorers.") from error
    return ScoreRule(inspect=scorers), {}


def _graded(scorer: ScorerStep, where: str) -> tuple[ScoreRule, dict[str, tuple[str, ...]]]:
    """Return the rule of a graded task: a judge decides, the named grader unless the user names another one."""
    model = scorer.args.get("model")
    if isinstance(model, (list, tuple)):
        raise DataError(
            f"{where}: {scorer.name} has {len(model)} graders; one was expected",
            "Judge with --judge, or `snellen judge --panel`.",
        )
    provider, _, name = str(model or "").partition("/")
    judge = f"{KINDS[provider]}:{name}" if provider in KINDS and name else ""
    faults = (
        [] if model is None or judge else [f"its grader {model} is none of Snellen's kinds: name a judge with --judge"]
    )
    if own := [key for key in ("template", "instructions", "grade_pattern") if scorer.args.get(key) is not None]:
        faults.append(f"the file's own {' and '.join(own)} of the grader are not used: the rubric `graded` decides")
    rubric = "match" if scorer.name == "model_graded_fact" else "graded"
    rule = ScoreRule(
        read="judged", judge=JudgeRule(model=judge, rubric=rubric, published=name if judge else str(model or ""))
    )
    return rule, {"data": tuple(faults)} if faults else {}


def _prompt(task: EvalTask, where: str) -> tuple[str, str, dict[str, Any]]:
    """Return the template of the request, the system text, and the arguments of the step that asks.

    Raises:
        DataError: a step that is not known here, none that asks, or one behind it.
    """
    system: list[str] = []
    image = "{images}" if task.field_spec.input_image else ""
    messages = ["{question}"]
    known = _Known(task, where)
    asked: dict[str, Any] | None = None
    for step in task.solvers:
        if asked is not None:
            raise DataError(
                f"{where}: the solver {step.name} stands behind the one that asks; only one request is made a question",
                "Run it with Inspect, or remove the solver from a copy of the file.",
            )
        args = dict(step.args)
        if step.name == "system_message":
            system.append(known.text(args, step.name))
        elif step.name == "user_message":
            messages.append(known.text(args, step.name))
        elif step.name in ("prompt_template", "chain_of_thought"):
            if step.name == "chain_of_thought":
                args.setdefault("template", templates()["chain_of_thought"])
            messages[-1] = known.text(args, step.name, prompt=messages[-1])
        elif step.name == "multiple_choice":
            messages[-1], asked = _choices(args, messages[-1], known), args
        elif step.name == "generate":
            known.only(args, (*_OF_RUNS, "tool_calls"), step.name)
            asked = args
        else:
            raise DataError(
                f"{where}: the solver {step.name} is not run by Snellen",
                "Run the task with Inspect, and read its log: snellen import LOG.eval.",
            )
    if asked is None:
        raise DataError(f"{where}: no solver asks the model", "Add `generate` behind the others.")
    messages[0] += image
    return "\n".join(messages), "\n".join(system), asked


def _choices(args: Mapping[str, Any], question: str, known: _Known) -> str:
    """Return the template of a multiple-choice question."""
    if known.task.field_spec.choices is None:
        raise DataError(f"{known.where}: multiple_choice needs options, and field_spec has no `choices`")
    known.only(args, _OF_CHOICES, "multiple_choice")
    name = f"{'multiple' if args.get('multiple_correct') else 'single'}{'_cot' if args.get('cot') else ''}"
    text = args.get("template") or templates()[name]
    if not isinstance(text, str) or not {"{question}", "{choices}"} <= {
        f"{{{found}}}" for found in _FIELD.findall(text)
    }:
        raise DataError(f"{known.where}: the template of multiple_choice lacks {{question}} or {{choices}}")
    fields = {"question": question, "choices": "{options}", "letters": "{letters}"}
    return _substituted(text, lambda name: fields[name] if name in fields else known.unknown(name))


class _Known:
    """What templates of a task may name."""

    def __init__(self, task: EvalTask, where: str) -> None:
        self.task, self.where = task, where

    def only(self, args: Mapping[str, Any], names: Sequence[str], step: str) -> None:
        """Raise DataError for an argument of a solver that is not known here."""
        if unknown := sorted(set(args) - set(names)):
            raise DataError(
                f"{self.where}: {step} has {unknown[0]!r}; Snellen knows {', '.join(names)}",
                "Run it with Inspect, or remove the argument from a copy of the file.",
            )

    def unknown(self, name: str) -> str:
        """Raise DataError for a name in braces that no row fills."""
        raise DataError(f"{self.where}: the template of multiple_choice names {{{name}}}, which nothing fills")

    def text(self, args: Mapping[str, Any], step: str, prompt: str | None = None) -> str:
        """Return a solver's template with its arguments, and the prompt so far, put into it.

        Columns of `metadata` are left to each row; in a system text they are unknown, as other names: they stay as they stand.
        """
        template = args.get("template")
        if not isinstance(template, str):
            raise DataError(f"{self.where}: {step} has no `template`, a text was expected")
        values = {key: _escaped(str(value)) for key, value in args.items() if key != "template" and value is not None}
        is_system = step == "system_message"
        columns = () if step == "chain_of_thought" else self.task.field_spec.metadata

        def filled(name: str) -> str:
            if name == "prompt" and prompt is not None:
                return prompt
            if name in values:
                return values[name]
            if name in columns:
                if is_system:
                    raise DataError(
                        f"{self.where}: the system text names the column {name!r}; one text for all rows was expected"
                    )
                return f"{{{name}}}"
            return f"{{{{{name}}}}}"

        text = _substituted(template, filled)
        return _substituted(text, lambda name: f"{{{name}}}", plain=True) if is_system else text


def _substituted(template: str, fill: Callable[[str], str], *, plain: bool = False) -> str:
    """Return a template with its fields filled in; doubled braces stay doubled, unless the text is `plain` now."""

    def one(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0][0] if plain else found[0]
        return fill(found[1])

    return _FIELD.sub(one, template)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


@cache
def templates() -> Mapping[str, str]:
    """Return the default templates of inspect_ai, by solver and form."""
    by_name = packaged_toml("snellen.benchmarks.table", TEMPLATES)["template"]
    return {name: str(template) for name, template in by_name.items()}
