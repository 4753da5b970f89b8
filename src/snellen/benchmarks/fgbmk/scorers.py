"""Scorers of FG-BMK: the authors' rule (`official`), and a careful reading (`strict`).

`official` is answer_acc.py: the ground truth is a substring of the reply, after a normalisation. It looks for no yes or no, no
option and no word boundary: "I do not know" is a no, "yes and no" is right everywhere.

`strict` wants one answer, by whole words, in the form that the question allows. Questions show no letters, so a letter is no
answer; neither is a repetition of the question.

Source: FG-BMK's demo/human_evaluation/answer_acc.py at commit 7765a10.

Metrics of FG-BMK: by question and by image, beside what guessing and a constant answer reach.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from snellen.benchmarks.fgbmk.question_text import normalised
from snellen.scoring.class_names import Names, aliases, of_options, tokens
from snellen.scoring.extract import read
from snellen.scoring.metrics import accuracy, balanced_accuracy, majority, share
from snellen.scoring.replies.reply import visible
from snellen.scoring.scores import Scores
from snellen.scoring.statistics import interval, macro_mean, scored
from snellen.scoring.statistics.intervals import coverage
from snellen.scoring.taxonomy import by_level, diagnosis, kinship
from snellen.types import Metric, Sample, Score, Text

_known = lru_cache(maxsize=8_192)(normalised)


def correct(gold: str, reply: str) -> bool:
    """Return True if the reply counts as the ground truth.

    >>> correct("no", "I do not know")
    True
    """
    return _known(gold) in normalised(reply)


def official(sample: Sample, reply: str) -> Score:
    """Score 1 if the normalised ground truth stands anywhere in the normalised reply.

    A reply that holds none of the possible answers (yes and no, or the options) is `invalid`, worth 0 as before. The
    answer of a wrong reply is known where it holds exactly one of them.
    """
    text = normalised(reply)
    gold = gold_text(sample)
    possible = ("yes", "no") if sample.kind == "truth" else tuple(sample.options.values())
    if _known(gold) in text:
        return Score(1.0, gold, "correct", None, {"answer": gold.lower()})
    matches = [name for name in possible if _known(name) in text]
    if len(matches) == 1:
        return Score(0.0, matches[0], "wrong", None, wrong(sample, matches[0]))
    if not matches and (possible or not text):
        return Score(0.0, None, "invalid", "holds none of the possible answers" if text else "no answer")
    return Score(0.0, None, "wrong", f"holds {', '.join(matches)}" if matches else "does not hold the true answer")


def gold_text(sample: Sample) -> str:
    """Return the ground truth as the files write it."""
    if sample.kind == "truth":
        return "yes" if sample.target else "no"
    return str(sample.options[sample.target] if sample.kind == "choice" else sample.target)


def wrong(sample: Sample, answer: str) -> Mapping[str, str]:
    """Return the detail of a wrong answer: its class, and its kinship to the true one."""
    answer = answer.lower()
    detail = {"answer": answer}
    if sample.kind == "truth":
        return detail
    own, paths = sample.meta.get("path"), sample.meta.get("paths")
    other = paths.get(answer) if isinstance(paths, Mapping) else None
    if isinstance(own, str) and isinstance(other, str):
        detail["kinship"] = kinship(own, other)
    return detail


_LETTERED = re.compile(r"^\s*\(?(?:[A-Za-z]|\d{1,2})[).:]\s+(?=\S)")
_DENIED = re.compile(r"\b(?:not|no|never|neither|nor|cannot|unlikely|unsure|unclear)\b|n't\b", re.IGNORECASE)
# Reasons for which a name that stands there is taken: an alias, or a name such as A-10 that looks like a letter.
_MISSED = ("no answer", "contradicts itself: letter")
_SPACES = re.compile(r"\s+")
_BETWEEN = re.compile(r"(?:[\W_]|\b(?:and|or|either|both)\b)*", re.IGNORECASE)
# A word of letters that no reply has, for each of 26 options.
_WORDS = tuple(f"zo{letter}ik" for letter in "abcdefghijklmnopqrstuvwxyz")
ECHO = "only repeats the question"


def strict(sample: Sample, reply: str) -> Score:
    """Score 1 if the one answer that the reply gives is the true one; no answer, or two, is invalid and worth 0."""
    question = prompt_question(sample)
    text = without_echo(reply, question)
    if not text:
        return Score(0.0, None, "invalid", ECHO if reply.strip() else "no answer")
    if sample.meta.get("hint") == "wrong":
        question = question.rpartition("\n")[0]  # a hint is no part of what was asked
    if sample.kind == "truth":
        return _truth(sample, text, question)
    if sample.kind == "choice":
        return _lettered(sample, text, question)
    if sample.kind == "choice_text":
        return _choice(sample, text, question)
    return _short(sample, text, question)


def prompt_question(sample: Sample) -> str:
    """Return the text of the question."""
    return next((part.text for part in reversed(sample.prompt.parts) if isinstance(part, Text)), "")


def without_echo(reply: str, question: str) -> str:
    """Return the reply without the question, which some models repeat; empty where it is nothing else."""
    reply = reply.strip()
    if len(question) < 12 or len(reply) < len(question):
        return reply
    if question not in reply:
        reply, question = _SPACES.sub(" ", reply), _SPACES.sub(" ", question).strip()
    return reply.replace(question, " ").strip(" \n\t\"'`.:>-") if question in reply else reply


def _truth(sample: Sample, text: str, question: str) -> Score:
    reading = read("truth", text, question=question, form="yes/no")
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    answer = "yes" if reading.value else "no"
    if bool(reading.value) == bool(sample.target):
        return Score(1.0, answer, "correct", None, {"answer": answer})
    return Score(0.0, answer, "wrong", None, wrong(sample, answer))


def _lettered(sample: Sample, text: str, question: str) -> Score:
    reading = read("choice", text, question=question, options=sample.options)
    if reading.value is None:
        return Score(0.0, None, "invalid", reading.reason)
    return _verdict(sample, sample.options[str(reading.value)], sample.options[sample.target])


def _choice(sample: Sample, text: str, question: str) -> Score:
    options = tuple(sample.options.values())
    names = of_options(options, str(sample.meta.get("dataset", "")))
    answer = names.exactly(text)
    if answer is None:
        answer, reason = _option(text, question, options, names)
        if answer is None:
            return Score(0.0, None, "invalid", reason)
    return _verdict(sample, answer, str(sample.target))


def _option(reply: str, question: str, options: Sequence[str], names: Names) -> tuple[str | None, str | None]:
    """Return the one option that a reply names by its text, or why there is none."""
    text = _LETTERED.sub("", reply)
    named = names.named(visible(text).text)
    if named and any(_like_a_letter(option) for option in options):
        answer, reason = _by_words(text, question, options, names)
        return answer, reason if answer or len(named) < 2 else f"two answers: {', '.join(named)}"
    reading = read("choice_text", text, question=question, options=options)
    if reading.value is None:
        if len(named) == 1 and (reading.reason or "").startswith(_MISSED) and not _DENIED.search(text):
            return named[0], None
        return None, reading.reason if len(named) < 2 else f"two answers: {', '.join(named)}"
    answer = str(reading.value)
    if answer in named:
        return answer, None
    if named or not any(len(word) > 2 for word in set(tokens(answer)) & set(tokens(text))):
        return None, f"names no option by its text: {answer!r} by letter or place, and the question shows none"
    return answer, None


def _like_a_letter(option: str) -> bool:
    """Return True if a word of a name could be taken for an option's letter or place: F-15, T 6, 707-320."""
    return any(len(word) == 1 or word.isdigit() for word in tokens(option))


def _by_words(text: str, question: str, options: Sequence[str], names: Names) -> tuple[str | None, str | None]:
    """Read as `_option`, with a word in place of every name, so that the B of B-52 is never the second option."""
    words = dict(zip(options, _WORDS, strict=False))
    asked_about = names.replaced(question, words)
    reading = read("choice_text", names.replaced(text, words), question=asked_about, options=list(words.values()))
    if reading.value is None:
        return None, reading.reason
    return next(option for option, word in words.items() if word == reading.value), None


def _short(sample: Sample, text: str, question: str) -> Score:
    accepted = [sample.target] if isinstance(sample.target, str) else list(sample.target)
    gold = str(accepted[0])
    also = [*accepted[1:], *sample.meta.get("aliases", ())]
    names = sample.meta.get("names")
    if not isinstance(names, Names) or also:
        table = aliases().get(str(sample.meta.get("dataset", "")), {})
        names = Names([gold], {**table, **{str(name): gold for name in also}})
    answer = names.exactly(text)
    if answer is not None:
        return _verdict(sample, answer, gold)
    listed = _listed(visible(text).text, names)
    if listed:
        return Score(0.0, None, "invalid", f"two answers: {', '.join(listed[:4])}")
    reading = read("short", text, question=question)
    if reading.value is None:
        named = names.named(visible(text).text)
        if len(named) == 1 and (reading.reason or "").startswith("no answer") and not _DENIED.search(text):
            return _verdict(sample, named[0], gold)
        return Score(0.0, None, "invalid", reading.reason)
    named = names.named(str(reading.value)) or [name for other in reading.also for name in names.named(other)]
    if len(set(named)) > 1:
        return Score(0.0, None, "invalid", f"two answers: {', '.join(named[:4])}")
    return _verdict(sample, named[0] if named else str(reading.value), gold, known=bool(named))


def _listed(text: str, names: Names) -> list[str]:
    """Return the classes of a reply that lists several and says nothing else: `rook, fish crow`."""
    named = names.named(text)
    return named if len(named) > 1 and _BETWEEN.fullmatch(names.replaced(text, dict.fromkeys(named, " "))) else []


def _verdict(sample: Sample, answer: str, gold: str, *, known: bool = True) -> Score:
    if answer == gold:
        return Score(1.0, answer, "correct", None, {"answer": answer.lower()})
    return Score(0.0, answer, "wrong", None, wrong(sample, answer) if known else {})


OFFICIAL = "official"


def summarize_member(scores: Scores, profile: str) -> list[Metric]:
    """Return the metrics of one file's questions, and what a diagnosis by class, template and taxonomy finds."""
    return [*headline(scores, profile), *_attributes(scores), *diagnosis(scores)]


def summarize_all(scores: Scores, profile: str) -> list[Metric]:
    """The metrics of all questions together, by level and kind, then of each file as `<member>/<metric>`, and the
    diagnosis of each data set, which needs one taxonomy, as `<data set>/<metric>`.
    """
    metrics = headline(scores, profile)
    metrics += by_level(scores)
    for task, part in scores.by("task"):
        metrics += _named(task, [*headline(part, profile), *_attributes(part)])
    for dataset, part in scores.by("dataset"):
        metrics += _named(dataset, diagnosis(part))
    return metrics


def headline(scores: Scores, profile: str) -> list[Metric]:
    """Accuracy by question and by image (the authors' first), balanced accuracy and majority of yes/no questions, and
    the shares of replies that give no answer (`invalid`) and of questions that failed (`error`).
    """
    by_question, by_image = accuracy(scores), image_accuracy(scores)
    metrics = [by_image, by_question] if profile == OFFICIAL else [by_question, by_image]
    truth = scores.where(kind="truth")
    if len(truth):
        metrics += [balanced_accuracy(truth), majority(truth, within="task")]
    return [*metrics, share(scores, "invalid", "invalid"), share(scores, "error", "error")]


def image_accuracy(scores: Scores) -> Metric:
    """Return the share of images whose questions are all answered right, as the authors aggregate: each file by itself.

    An image counts once for each file that asks about it. Chance is the mean over images of the product of the chances
    of their questions: a constant answer to knowledge-bias questions gets every image wrong.
    """
    value, mask = scored(scores)
    codes = _codes(scores, "task")
    keys = (scores.group * np.int64(1_000_003) + codes)[mask]
    _, first, image = np.unique(keys, return_index=True, return_inverse=True)
    images = len(first)
    right = np.ones(images)
    np.minimum.at(right, image, (value[mask] >= 1.0).astype(np.float64))
    return Metric(
        name="image_accuracy",
        value=float(right.mean()) if images else None,
        n=images,
        ci95=interval(right, scores.group[mask][first]) if images else None,
        coverage=coverage(int(mask.sum()), scores.expected),
        chance=_joint_chance(scores, mask, image, images),
    )


def _joint_chance(scores: Scores, mask: NDArray[np.bool_], image: NDArray[np.intp], images: int) -> float | None:
    column = scores.meta.get("chance")
    if column is None or not images or bool((column.codes[mask] < 0).any()):
        return None
    logs = np.log(np.array([float(name) for name in column.names]))
    return float(np.exp(np.bincount(image, weights=logs[column.codes[mask]], minlength=images)).mean())


def _codes(scores: Scores, name: str) -> NDArray[np.int64]:
    column = scores.meta.get(name)
    return np.zeros(len(scores), dtype=np.int64) if column is None else column.codes.astype(np.int64)


def _attributes(scores: Scores) -> Iterator[Metric]:
    """Yield each attribute, and each group as the unweighted mean of its attributes, as the papers report them."""
    rows = scores.where(ask="attribute")
    for group, part in rows.by("attribute_group"):
        yield macro_mean(f"attributes/{group}", part, "attribute")
    for attribute, part in rows.by("attribute"):
        yield accuracy(part, f"attribute/{attribute.replace(' ', '-')}")


def _named(prefix: str, metrics: list[Metric]) -> list[Metric]:
    return [structs.replace(metric, name=f"{prefix}/{metric.name}") for metric in metrics]
