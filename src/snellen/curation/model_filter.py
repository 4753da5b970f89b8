"""Stage 1, model-hard: what closed-book models answer by themselves is dropped.

A model is asked each question k times by the ordinary engine. A candidate stays where no model was right more often than
`max_correct` allows. A try that failed says nothing about what the model knows: as long as it could still tip the
balance, the candidate is undecided, and the stage asks it again.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib.resources import files

from msgspec import Struct, to_builtins

from snellen.benchmarks.base import Benchmark, Data
from snellen.curation.candidates import Candidate
from snellen.curation.workspace import Decision, Work
from snellen.engine.final_records import final_records
from snellen.engine.resume import ANSWERED
from snellen.engine.run_folder import RunFolder
from snellen.runs import scoring
from snellen.scoring import metrics
from snellen.scoring.extract import correct, read
from snellen.scoring.record import score_record
from snellen.scoring.scores import Scores
from snellen.sources import FileBlob
from snellen.text import slug
from snellen.types import Image, Metric, Prompt, Sample, Score, Text

PROFILE = "strict"
_PLACE = "{question}"


class Tries(Struct, frozen=True):
    """What one model said about one candidate: `asked` tries, `correct` of them right, `missing` without an answer."""

    model: str
    asked: int
    correct: int
    missing: int = 0


def wordings() -> Mapping[str, str]:
    """How a question is asked, by language."""
    text = files(__package__).joinpath("wording.toml").read_text("utf-8")
    return {language: one.strip() for language, one in tomllib.loads(text)["closed_book"].items()}


def prompt(candidate: Candidate, work: Work, wording: Mapping[str, str]) -> Prompt:
    """Picture and question, as a model is asked that has nothing else."""
    language = candidate.language.lower()[:2]
    text = wording.get(language, wording["en"]).replace(_PLACE, candidate.question)
    return Prompt((Image(FileBlob(work.image(candidate))), Text(text)))


def benchmark(work: Work, candidates: Sequence[Candidate] | None = None) -> Benchmark:
    """The candidates as a benchmark: short answers, strictly read. Restricted: answers stay in the working folder.

    `candidates` are others than those of the folder: the same, as reviewers have edited them.
    """
    wording = wordings()
    asked = work.candidates if candidates is None else tuple(candidates)
    print_ = blake2b(digest_size=16)
    for one in asked:
        for field in (one.id, one.sha256, one.question, *one.forms, one.language):
            print_.update(field.encode() + b"\0")
    for language, text in sorted(wording.items()):
        print_.update(f"{language}\0{text}\0".encode())
    fingerprint = print_.hexdigest()

    def samples(data: Data) -> Iterator[Sample]:
        for one in asked:
            yield Sample(
                id=one.id,
                prompt=prompt(one, work, wording),
                target=one.answer,
                kind="short",
                group=one.target or one.answer,
                meta={"aliases": one.aliases, "question": one.question, "domain": one.domain},
            )

    return Benchmark(
        name=f"curation/{work.state.name}",
        version="1",
        samples=samples,
        score={PROFILE: strict},
        summarize=summarize,
        profiles={PROFILE: "one name by whole words, or one of its aliases"},
        size=lambda data: len(asked),
        digest=lambda data: fingerprint,
        restricted=True,
        about={"description": f"the candidates in {work.path}, before anything is dropped"},
    )


def strict(sample: Sample, reply: str) -> Score:
    """The name that a reply gives, compared with the answer and its aliases."""
    found = read("short", reply, question=str(sample.meta["question"]))
    if found.value is None:
        return Score(0.0, None, "invalid", found.reason)
    right = correct("short", found, sample.target, sample.meta["aliases"])
    return Score(1.0 if right else 0.0, found.value, "correct" if right else "wrong")


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """How much of the candidates the model knows."""
    return [metrics.accuracy(scores), *metrics.breakdown(scores, ("domain",))]


def run_folder(work: Work, model: str) -> RunFolder:
    """Where a model's answers lie."""
    return RunFolder(work.folder("hard") / slug(model))


def tries(
    work: Work, folder: RunFolder, model: str, repeats: int, candidates: Sequence[Candidate] | None = None
) -> dict[str, Tries]:
    """What a model said about each candidate, its replies read by the strict rule; a refusal is an answer, and wrong."""
    asked = benchmark(work, candidates)
    right: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    unknown: list[str] = []
    records = final_records(folder.results)
    for sample, record in scoring.match(asked, Data(), records, repeats=repeats, unknown=unknown):
        answered[sample.id] += record.status in ANSWERED
        right[sample.id] += score_record(sample, record, strict).verdict == "correct"
    found = work.candidates if candidates is None else candidates
    return {one.id: Tries(model, repeats, right[one.id], repeats - answered[one.id]) for one in found}


def decide(candidate: Candidate, tries: Sequence[Tries], max_correct: int) -> Decision:
    """Keep, drop or undecided, by how often each model was right."""
    detail = {"models": [to_builtins(one) for one in tries], "max_correct": max_correct}
    known = [one for one in tries if one.correct > max_correct]
    if known:
        who = ", ".join(f"{one.model} {one.correct} of {one.asked}" for one in known)
        return Decision(candidate.id, "drop", f"known without tools: {who}", detail)
    open_ = [one for one in tries if one.correct + one.missing > max_correct and one.missing]
    if open_:
        who = ", ".join(f"{one.model} {one.missing} of {one.asked}" for one in open_)
        return Decision(candidate.id, "undecided", f"tries without an answer: {who}", detail)
    return Decision(candidate.id, "keep", "", detail)
