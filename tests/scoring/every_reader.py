"""Every reader of replies: each extractor, each profile of each benchmark, and the readers of judges' replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.spatial.more_replies import NAMED as FURTHER
from snellen.benchmarks import few_shot, registry
from snellen.benchmarks.fgbmk import question_text
from snellen.benchmarks.generated import SCORERS as BUILT_SET
from snellen.benchmarks.spatial.scorers import base
from snellen.benchmarks.vlm2.prompts import final_answer
from snellen.formats.latex import latex_text
from snellen.models.local.replies import first_json_end
from snellen.models.tools.local_index import split_words
from snellen.models.trace import Step
from snellen.questions import taxonomy
from snellen.redaction import gold
from snellen.runs.failures.rules import signals
from snellen.scoring import json_answer as fika
from snellen.scoring import rubric
from snellen.scoring.class_names import Names, aliases
from snellen.scoring.extract import read
from snellen.types import Prompt, Record, Response, Sample, Score, Text

Reader = Callable[[str], Any]

BIRDS = {"A": "golden eagle", "B": "red kite", "C": "common buzzard", "D": "osprey"}
COUNTS = {"A": "1", "B": "2", "C": "3", "D": "4"}
SIDES = {"A": "left", "B": "right", "C": "above", "D": "below", "E": "in front of", "F": "behind"}
WHICH = "Which bird is shown?\nA. golden eagle\nB. red kite\nC. common buzzard\nD. osprey\nAnswer with one letter."
CLASSES = ("herring gull", "pink primrose", "rose", "F/A-18", "707-320", "chuck will widow", "american crow")

EXTRACTORS: dict[str, tuple[str, dict[str, Any]]] = {
    "truth": ("truth", {"question": "Is the bird a red kite? Answer yes or no.", "form": "yes/no"}),
    "truth letters": ("truth", {"question": "Do both show the same bird? Answer T or F.", "form": "T/F"}),
    "choice": ("choice", {"question": WHICH, "options": BIRDS}),
    "choice of numbers": ("choice", {"question": "How many birds are there?", "options": COUNTS}),
    "choice of sides": ("choice", {"question": "Where is the bird?", "options": SIDES}),
    "choice_text": ("choice_text", {"question": "Which bird is shown?", "options": list(BIRDS.values())}),
    "count": ("count", {"question": "How many birds are there?"}),
    "number": ("number", {"question": "How long is the bird in cm?", "unit": "cm"}),
    "number without unit": ("number", {"question": "How far is the table from the door, in metres?"}),
    "short": ("short", {"question": "What species of bird is this?"}),
    "short colour": ("short", {"question": "What colour is the bird?"}),
    "no question": ("short", {}),
}


def extractors() -> Iterator[tuple[str, Reader]]:
    """(name, reader) of each kind of the strict extractors."""
    for name, (kind, given) in EXTRACTORS.items():
        yield f"extract {name}", lambda reply, kind=kind, given=given: read(kind, reply, **given)


def _sample(kind: str, text: str, target: Any, options: dict[str, str] | None = None, **meta: Any) -> Sample:
    return Sample("1", Prompt((Text(text),)), target, kind, options or {}, meta=meta)  # type: ignore[arg-type]


def _fgbmk() -> list[Sample]:
    names = Names(CLASSES, aliases()["cub"])
    about = {"dataset": "cub"}
    return [
        _sample("truth", "Is the species of the aves laysan albatross? Answer with yes or no.", True, **about),
        _sample("choice_text", "Can you identify the species of this aves?", "red kite", BIRDS, **about),
        _sample(
            "choice_text", "Which aircraft?", "F-16", {"A": "F-16", "B": "A-10", "C": "707-320"}, dataset="aircraft"
        ),
        _sample("short", "Can you identify the species of this aves?", "herring gull", names=names, **about),
    ]


def _chart() -> list[Sample]:
    return [
        _sample("truth", "Is the bird a red kite? Answer yes or no.", True, form="yes/no"),
        _sample("choice", WHICH, "B", BIRDS),
        _sample("choice_text", "Which bird is shown?", "red kite", BIRDS),
        _sample("count", "How many birds are there?", 3),
        _sample("number", "Which digit is shown?", 3.0),
        _sample("short", "What species of bird is this?", "red kite"),
    ]


def _vlm2(name: str) -> list[Sample]:
    meta = {"pair": "1", "half": "p", "kit_pair": "1", "gold": "T", "images": 4, "shown": 4}
    if "cnt" in name:
        return [_sample("count", "How many different birds are there?", 3, **{**meta, "gold": "3"})]
    if "grp" in name:
        return [_sample("choice", WHICH, "B", BIRDS, **{**meta, "gold": "B) 1 and 3"})]
    if "vid" in name:
        return [_sample("open", "Describe the video.", None, form="AB")]
    sample = _sample("truth", "Do both show the same bird? Answer with T or F.", True, **meta)
    return [sample, _sample("truth", "Answer with T or F.", True, **{**meta, "prompting": "cot"})]


def _spatial(name: str) -> list[Sample]:
    lettered = _sample("choice", "Where is the lamp?", "B", SIDES, gold="B", n=6)
    if name.startswith("vsi"):
        by_type = {"choice": base.types_of("vsi-bench", "choice")[0], "number": base.VSI_NUMBER[0]}
    elif name.startswith("spar"):
        by_type = {
            "choice": base.types_of("spar-bench", "choice")[0],
            "number": base.SPAR_NUMBER[0],
            "view": base.SPAR_VIEW_CHANGE[0],
        }
    else:
        return [lettered]
    samples = [_sample("choice", "Where?", "B", SIDES, gold="B", question_type=by_type["choice"])]
    samples.append(_sample("number", "How many metres?", 2.5, gold="2.5", question_type=by_type["number"]))
    if "view" in by_type:
        samples.append(_sample("open", "How?", None, gold="move_up:0.5,move_left:1", question_type=by_type["view"]))
    return samples


def samples_of(name: str) -> list[Sample]:
    """Samples of each form that a benchmark asks about, by the benchmark's name."""
    if name.startswith("fgbmk"):
        return _fgbmk()
    if name.startswith("chart"):
        return _chart()
    if name.startswith("vlm2"):
        return _vlm2(name)
    if name == "fika":
        return [_sample("open", "What is this?", ("golden eagle",), aliases=["Aquila chrysaetos"])]
    return FURTHER[name] if name in FURTHER else _spatial(name)


def rule(score: Any) -> Any:
    """What tells a scorer from others: the function, or the functions that it was made of."""
    parts = tuple(rule(cell.cell_contents) for cell in score.__closure__ or () if callable(cell.cell_contents))
    return (score.__code__, parts) if parts else score


def scorers() -> Iterator[tuple[str, Reader]]:
    """(name, reader) of each profile of each benchmark; of profiles that are one function the first alone."""
    seen: set[Any] = set()
    declared = [(name, registry.find(name).score) for name in registry.names()]
    for name, profiles in [*declared, ("fgbmk, built set", BUILT_SET)]:
        for profile, score in profiles.items():
            for number, sample in enumerate(samples_of(name)):
                which = (rule(score), sample.kind, number, tuple(sample.options))
                if name in ("chart", "vlm2", "site") or which in seen:
                    continue  # a suite's scorers are those of its members
                seen.add(which)
                yield f"{name} {profile} {sample.kind} {number}", lambda reply, a=sample, b=score: b(a, reply)


def judges() -> Iterator[tuple[str, Reader]]:
    """(name, reader) of the readers of a judge's reply, by rubric, and of what is done with a reply on its way there."""
    for name in rubric.BUILT_IN:
        schema = rubric.built_in(name).verdict
        yield f"judge {name}", lambda reply, schema=schema: rubric.score_verdict(reply, schema)
    asked = _sample("open", "What is this?", ("golden eagle",))
    yield "strike", lambda reply: gold.strike(reply, ("golden eagle", "Aquila chrysaetos"))
    yield "quotes", lambda reply: gold.quotes(reply, ("golden eagle", "Aquila chrysaetos"))
    fika_scorer = registry.find("fika")
    assert fika_scorer.judged_text is not None
    yield "fika for the judge", lambda reply: fika_scorer.judged_text(asked, reply)  # type: ignore[misc]


def others() -> Iterator[tuple[str, Reader]]:
    """(name, reader) of the reader of answers in JSON, of the prompting's marker, and of the rules of failures."""
    yield "fika reply", fika.read
    yield "objects", lambda reply: list(fika.objects(reply))
    yield "first JSON object", first_json_end
    yield "words of a page", split_words
    yield "name in a table", latex_text
    yield "name of a class", taxonomy.key
    yield "line of an example", few_shot._plain
    yield "attribute of a question", question_text.attribute
    yield "marker", lambda reply: final_answer(reply, "cot")
    asked = _sample("open", "What is this?", ("golden eagle",))

    def failure(reply: str) -> list[str]:
        record = Record("1", "ok", response=Response(reply))
        steps = [Step(1, role="tool", tool="search", result=reply)]
        return sorted(signals(asked, record, Score(0.0, reply, "wrong"), steps, reply))

    yield "failure rules", failure


def every_reader() -> dict[str, Reader]:
    """All readers by name."""
    return {name: reader for group in (extractors, scorers, judges, others) for name, reader in group()}
