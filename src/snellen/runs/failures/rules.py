"""Labels proposed from trace and verdict by a table of rules. Answers that no rule covers stay `unknown`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from snellen.engine.run_folder import RunMeta
from snellen.models import trace
from snellen.models.trace import Step
from snellen.scoring.rubric import gold_forms
from snellen.toml_text import packaged_toml
from snellen.types import Record, Sample, Score

UNKNOWN = "unknown"


class FailureRule(Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table: the label, where all signals hold (`not X`: where X does not)."""

    label: str
    signals: tuple[str, ...]


class RuleTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Contents of rules.toml."""

    labels: tuple[str, ...]
    search_tools: tuple[str, ...]
    rule: tuple[FailureRule, ...]


@cache
def table() -> RuleTable:
    """Load the table of rules that comes with the package."""
    return msgspec.convert(packaged_toml("snellen.runs.failures", "rules.toml"), RuleTable)


def labels() -> tuple[str, ...]:
    """Return every label that an answer can have, `unknown` last."""
    return (*table().labels, UNKNOWN)


def signals(
    sample: Sample,
    record: Record,
    score: Score,
    steps: Sequence[Step] | None,
    answer: str | None,
    tools: Sequence[str] = (),
) -> frozenset[str]:
    """Return the signals that hold of one answer.

    Args:
        sample: the question; its target and aliases are compared as words, in lower case.
        record: what the model said.
        score: how that was scored.
        steps: the trace; None where the model wrote none in this shape, so that nothing is known of searches.
        answer: the answer in the reply; None where there is none.
        tools: names of the tools that the run gave its model, as far as it recorded them.
    """
    present = set()
    search_tools = [name for name in tools if _is_search(name)]
    if search_tools:
        present.add("could_search")
    if record.status == "timeout":
        present.add("timed_out")
    if record.response is not None and record.response.finish_reason == trace.IMAGE_NEVER_SEEN:
        present.add("image_never_seen")
    if score.verdict == "invalid" and record.status == "ok":
        present.add("unreadable")
    answer_words = () if answer is None else _words(answer)
    gold = [words for form in gold_forms(sample) if (words := _words(form))]
    if answer_words:
        present.add("answered")
        if any(len(answer_words) < len(form) and _within(answer_words, form) for form in gold):
            present.add("answer_is_part_of_gold")
    if steps is None:
        return frozenset(present)
    present.add("traced")
    calls = [step for step in steps if step.role == "tool"]
    # An agent with a shell calls a tool of a skill by its name in a command.
    if any(_is_search(step.tool) or any(name in str(step.arguments) for name in search_tools) for step in calls):
        present.add("searched")
    results = [_words(step.result) for step in calls if not step.error]
    if answer_words and any(_within(answer_words, result) for result in results):
        present.add("answer_in_results")
    if any(_within(form, result) for result in results for form in gold):
        present.add("gold_in_results")
    return frozenset(present)


def offered_tools(meta: RunMeta) -> tuple[str, ...]:
    """Return the names of the tools that a run recorded as given to its model; empty where it recorded none."""
    model = meta.identity.get("model")
    tools = model.get("tools") if isinstance(model, Mapping) else None
    names = tools.get("tools") if isinstance(tools, Mapping) else None
    return tuple(map(str, names)) if isinstance(names, list | tuple) else ()


def _is_search(tool: str) -> bool:
    return any(word in tool.lower() for word in table().search_tools)


def proposed(present: frozenset[str], rules: Sequence[FailureRule] | None = None) -> str:
    """Return the label of the first rule that holds, else `unknown`."""
    for rule in table().rule if rules is None else rules:
        if all((signal.removeprefix("not ") in present) != signal.startswith("not ") for signal in rule.signals):
            return rule.label
    return UNKNOWN


def _words(text: Any) -> tuple[str, ...]:
    return tuple("".join(c if c.isalnum() else " " for c in str(text).casefold()).split())


def _within(part: Sequence[str], text: Sequence[str]) -> bool:
    """Return True if the words of `part` stand in `text`, side by side."""
    return f" {' '.join(part)} " in f" {' '.join(text)} "
