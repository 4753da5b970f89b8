"""Stage 1, model filter: drop candidates that closed-book models answer correctly.

A model is asked each question k times by the ordinary engine. A candidate stays where no model was right more often than
`max_correct` allows. A try that failed says nothing about what the model knows: as long as it could still tip the
balance, the candidate is undecided, and the stage asks it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from msgspec import Struct, to_builtins

from snellen.benchmarks.base import Benchmark, Data
from snellen.curation.workspace import Candidate, StageDecision, Work
from snellen.engine.final_records import final_records
from snellen.engine.resume import ANSWERED
from snellen.engine.run_folder import RunFolder
from snellen.runs import scoring
from snellen.scoring import metrics
from snellen.scoring.extract import correct, read
from snellen.scoring.scores import Scores, score_record
from snellen.sources import FileBlob
from snellen.text import slug
from snellen.toml_text import packaged_toml
from snellen.types import Image, Metric, Prompt, Sample, Score, Text

PROFILE = "strict"
_PLACE = "{question}"


class Tries(Struct, frozen=True):
    """Results of one model on one candidate: `asked` tries, `correct` of them, `missing` ones without an answer."""

    model: str
    asked: int
    correct: int
    missing: int = 0


def wordings() -> Mapping[str, str]:
    """Read the prompt template for each language."""
    wordings_of = packaged_toml("snellen.curation", "wording.toml")["closed_book"]
    return {language: wording.strip() for language, wording in wordings_of.items()}


def prompt(candidate: Candidate, work: Work, wording: Mapping[str, str]) -> Prompt:
    """Build the closed-book prompt: image and question."""
    language = candidate.language.lower()[:2]
    text = wording.get(language, wording["en"]).replace(_PLACE, candidate.question)
    return Prompt((Image(FileBlob(work.image(candidate))), Text(text)))


def benchmark(work: Work, candidates: Sequence[Candidate] | None = None) -> Benchmark:
    """Build a benchmark of the candidates, short answers read strictly. Restricted: answers stay in the working folder.

    `candidates` are others than those of the folder: the same, as reviewers have edited them.
    """
    wording = wordings()
    candidates_ = work.candidates if candidates is None else tuple(candidates)
    print_ = blake2b(digest_size=16)
    for candidate in candidates_:
        for field in (candidate.id, candidate.sha256, candidate.question, *candidate.forms, candidate.language):
            print_.update(field.encode() + b"\0")
    for language, text in sorted(wording.items()):
        print_.update(f"{language}\0{text}\0".encode())
    fingerprint = print_.hexdigest()

    def samples(data: Data) -> Iterator[Sample]:
        for candidate in candidates_:
            yield Sample(
                id=candidate.id,
                prompt=prompt(candidate, work, wording),
                target=candidate.answer,
                kind="short",
                group=candidate.target or candidate.answer,
                meta={"aliases": candidate.aliases, "question": candidate.question, "domain": candidate.domain},
            )

    return Benchmark(
        name=f"curation/{work.state.name}",
        version="1",
        samples=samples,
        score={PROFILE: strict},
        summarize=summarize,
        profiles={PROFILE: "one name by whole words, or one of its aliases"},
        size=lambda data: len(candidates_),
        digest=lambda data: fingerprint,
        restricted=True,
        about={"description": f"the candidates in {work.path}, before anything is dropped"},
    )


def strict(sample: Sample, reply: str) -> Score:
    """Score a reply: compare the extracted name with the answer and its aliases."""
    extracted = read("short", reply, question=str(sample.meta["question"]))
    if extracted.value is None:
        return Score(0.0, None, "invalid", extracted.reason)
    right = correct("short", extracted, sample.target, sample.meta["aliases"])
    return Score(1.0 if right else 0.0, extracted.value, "correct" if right else "wrong")


def summarize(scores: Scores, profile: str) -> list[Metric]:
    """Return the share of candidates that the model knows, overall and by domain."""
    return [metrics.accuracy(scores), *metrics.breakdown(scores, ("domain",))]


def run_folder(work: Work, model: str) -> RunFolder:
    """Return the run folder of a model."""
    return RunFolder(work.folder("hard") / slug(model))


def tries(
    work: Work, folder: RunFolder, model: str, repeats: int, candidates: Sequence[Candidate] | None = None
) -> dict[str, Tries]:
    """Count a model's results for each candidate by the strict rule; a refusal counts as a wrong answer."""
    questions = benchmark(work, candidates)
    right: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    unknown: list[str] = []
    records = final_records(folder.results)
    for sample, record in scoring.match(questions, Data(), records, repeats=repeats, unknown=unknown):
        answered[sample.id] += record.status in ANSWERED
        right[sample.id] += score_record(sample, record, strict).verdict == "correct"
    counted = work.candidates if candidates is None else candidates
    return {
        candidate.id: Tries(model, repeats, right[candidate.id], repeats - answered[candidate.id])
        for candidate in counted
    }


def decide(candidate: Candidate, tries: Sequence[Tries], max_correct: int) -> StageDecision:
    """Decide keep, drop or undecided by each model's number of correct tries."""
    detail = {"models": [to_builtins(count) for count in tries], "max_correct": max_correct}
    known = [count for count in tries if count.correct > max_correct]
    if known:
        who = ", ".join(f"{count.model} {count.correct} of {count.asked}" for count in known)
        return StageDecision(candidate.id, "drop", f"known without tools: {who}", detail)
    open_ = [count for count in tries if count.correct + count.missing > max_correct and count.missing]
    if open_:
        who = ", ".join(f"{count.model} {count.missing} of {count.asked}" for count in open_)
        return StageDecision(candidate.id, "undecided", f"tries without an answer: {who}", detail)
    return StageDecision(candidate.id, "keep", "", detail)
