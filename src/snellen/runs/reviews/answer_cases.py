"""Questions of a benchmark as cases that people answer: blind, timed, and as runs that are scored like a model's.

Each person has a folder of their name, which is the run; its answers.jsonl is the journal, and the run is imported from it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Any
from unicodedata import category, normalize

import msgspec
from msgspec import Struct, structs

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.few_shot import gold_reply
from snellen.engine import journal
from snellen.errors import PreflightError, RunError, SnellenError, UsageError
from snellen.redaction import redact
from snellen.runs.import_answers import import_run
from snellen.runs.reviews.audit_sample import draw_place
from snellen.runs.reviews.cases import DecisionField, QueuedCase, ReviewQueue, ReviewTexts, ShownCase, shown_digest
from snellen.runs.reviews.decisions import now
from snellen.runs.reviews.status import ReviewAgreement, agreement_of
from snellen.runs.run import Run
from snellen.text import shorten
from snellen.types import Record, Sample, Text

ANSWERS = "answers.jsonl"
CANNOT_TELL, WRITTEN = "cannot tell", "answer"
LONGEST_REPLY, LONGEST_NAME, LONGEST_FOLDER = 10_000, 60, 240
LONG_KINDS = ("text", "list", "json", "judged", "open")
"""Kinds whose answers may have several lines."""
_NAME = re.compile(r"\w(?:[\w '.-]*\w)?")
"""Of the letters of a name; marks over, under and behind them are looked at apart."""


class PersonAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of answers.jsonl; a later line on a question replaces the earlier one.

    `reply` is empty where the person cannot tell, and None withdraws the answer. `seconds` is for how long the question was
    shown (0: not known), `late` whether that was more than was given, `shown` the digest of the question, `at` seconds since the
    epoch, `request` made from the id of the page, so that an answer that is sent twice is there once.
    """

    sample_id: str
    person: str
    reply: str | None
    seconds: float = 0.0
    late: bool = False
    shown: str = ""
    at: float = 0.0
    request: str = ""


@dataclass
class _Person:
    """A person's answers that stand, the last one last; seconds for which questions were shown; the open one since when."""

    given: dict[str, PersonAnswer] = field(default_factory=dict)
    requests: set[str] = field(default_factory=set)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    open: tuple[str, float] | None = None
    journal: journal.Journal | None = None
    queue: ReviewQueue | None = None

    def take(self, answer: PersonAnswer) -> None:
        """Let an answer take the place of an earlier one; the dict is replaced, because other threads read it."""
        others = {id_: other for id_, other in self.given.items() if id_ != answer.sample_id}
        self.given = others if answer.reply is None else {**others, answer.sample_id: answer}
        self.requests.add(answer.request)
        self.seconds[answer.sample_id] = max(self.seconds[answer.sample_id], answer.seconds)


@dataclass
class QuestionCases:
    """The questions by their numbers. Each answer is on the disk before `decide` returns; gold answers are never shown.

    The clock of a question begins when the server makes its page, and ends with the answer. The same page again changes
    nothing; any other page stops it, and it goes on when the question is shown again. `out` is to be locked.

    Attributes:
        name: of the benchmark, as typed.
        limit: only its first questions.
        shuffled: each person has an order of their own, by the seed of `data`.
        time_limit: seconds after which an answer is late; None: none is.

    Raises:
        UsageError: its questions follow from answers. PreflightError: it has none. RunError: `out` has answers to others.
    """

    name: str
    data: Data
    out: Path
    limit: int | None = None
    shuffled: bool = True
    time_limit: float | None = None
    frames: int | None = None
    clock: Callable[[], float] = time.monotonic
    template: str = ""
    steps: Mapping[str, str] = field(default_factory=lambda: {"queue": "Questions", "agreement": "Agreement"})
    words: Mapping[str, str] = field(default_factory=dict)
    nouns: tuple[str, str] = ("question", "questions")
    kept: str = f"{ANSWERS} of your folder"

    def __post_init__(self) -> None:
        self.benchmark = registry.find(self.name)
        if self.benchmark.grow is not None:
            raise UsageError(
                f"the questions of {self.name} follow from answers", "Choose one with a list of questions."
            )
        self._samples = list(islice(self.benchmark.samples(self.data), self.limit))
        if not self._samples:
            raise PreflightError(f"{self.name} has no question here", "Check --data.")
        self._places = {sample.id: number for number, sample in enumerate(self._samples, 1)}
        self.about = f"{registry.short_name(self.name)}, {len(self._samples):,} {self.nouns[len(self._samples) != 1]}"
        limit = "" if self.time_limit is None else f" Answer within {self.time_limit:g} s; later answers are marked."
        self._hint = f"The seconds until you answer are recorded.{limit} For a break, open the overview (key o)."
        self.texts = ReviewTexts(
            title="Answering",
            doing="Answering",
            who="Who answers in this browser?",
            about=f"Your answers are kept under this name, under which this page goes on with them. {self._hint}",
            people="people",
            noun="answer",
            overview="Overview and break",
            done="answered",
            columns=("no.", "question", "your answer", "seconds"),
            end="Close this page; the command makes the scores when it ends with Ctrl-C",
        )
        self._lock, self._people = RLock(), dict[str, _Person]()
        for path in sorted(self.out.glob(f"*/{ANSWERS}")):
            person = self._people[normalize("NFC", path.parent.name)] = _Person()
            for answer in journal.read(path, PersonAnswer):
                person.take(answer)
            if person.given and person.given.keys().isdisjoint(self._places):
                raise RunError(
                    f"{path} has answers to none of these {len(self._samples):,} questions",
                    "Choose another folder with --out: the run of those answers would be replaced.",
                )
            for id_, answer in person.given.items():
                if id_ in self._places and answer.shown != _digest(self._samples[self._places[id_] - 1]):
                    raise RunError(
                        f"{path} has answers to other questions: {id_!r} was another one then",
                        "Choose another folder with --out, or the data and options that were used before.",
                    )

    def close(self) -> None:
        """Close the journals."""
        for person in self._people.values():
            if person.journal is not None:
                person.journal.close()

    def _person(self, name: str) -> _Person:
        letters = "".join(letter for letter in name if category(letter)[0] != "M") if name[:1].isalnum() else name
        if len(name) > LONGEST_NAME or len(name.encode()) > LONGEST_FOLDER or not _NAME.fullmatch(letters):
            raise UsageError(
                f"{name[:80]!r} cannot name a folder: up to {LONGEST_NAME} letters, digits, spaces and - . _ ' were expected",
                "Go back and give another name.",
            )
        return self._people.setdefault(name, _Person())

    def place(self, token: str) -> int:
        """Return the number of a question."""
        number = int(token) if token.isascii() and token.isdigit() and len(token) < 19 else 0
        if not 1 <= number <= len(self._samples):
            raise UsageError("there is no such question", "Go back to the overview.")
        return number

    def token(self, place: int) -> str:
        """Return the number as text."""
        return str(place)

    def saved(self, name: str) -> tuple[bytes, str]:
        """Refuse: the questions have no saved texts."""
        raise UsageError("there is no such file")

    def queue(self, step: str, reviewer: str) -> ReviewQueue:
        """Return all questions, in an order of the person's own or that of the benchmark."""
        person = self._person(reviewer)
        if person.queue is None:
            places = list(self._places.values())
            if self.shuffled:
                ids, seed = list(self._places), self.data.seed
                places.sort(key=lambda place: draw_place(seed, (f"{reviewer}\n{ids[place - 1]}", 0)))
            person.queue = ReviewQueue(tuple(map(QueuedCase, places)), len(places))
        return person.queue

    def decided(self, step: str, reviewer: str) -> set[int]:
        """Return the questions that the person has answered."""
        return {self._places[id_] for id_ in self._person(reviewer).given if id_ in self._places}

    def rows(self, reviewer: str) -> Sequence[tuple[str, ...]]:
        """Return a row for each answered question: the others are not read before their clock runs."""
        with self._lock:
            person = self._person(reviewer)
            self._watch(person)
            given, rows = person.given, []
        for number, case in enumerate(self.queue("queue", reviewer).cases, 1):
            sample = self._samples[case.place - 1]
            if (answer := given.get(sample.id)) is not None:
                question = " ".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
                seconds = f"{answer.seconds:,.1f}{', late' if answer.late else ''}" if answer.seconds else ""
                said = shorten(answer.reply or CANNOT_TELL, 100)
                rows.append((str(case.place), str(number), shorten(question, 200), said, seconds))
        return rows

    def _watch(self, person: _Person, sample_id: str = "") -> None:
        """Let the clock of this question run, and stop that of any other; one that runs already goes on."""
        if person.open is not None and person.open[0] != sample_id:
            shown, since = person.open
            person.seconds[shown] += self.clock() - since
            person.open = None
        if sample_id and person.open is None:
            person.open = (sample_id, self.clock())

    def show(self, place: int, step: str, reviewer: str) -> ShownCase:
        """Return a question as a model gets it, and start its clock."""
        sample = self._samples[place - 1]
        with self._lock:
            person = self._person(reviewer)
            self._watch(person, sample.id)
            mine = person.given.get(sample.id)
        replies = self._replies(sample)
        said, rows = "" if mine is None else mine.reply or CANNOT_TELL, 4 if sample.kind in LONG_KINDS else 1
        written = "" if mine is None else mine.reply or ""
        prompt = sample.prompt
        return ShownCase(
            ask="Your answer",
            fields=() if replies else (DecisionField("reply", "Reply", written, rows, LONGEST_REPLY, "w"),),
            blind=self._hint,
            view={},
            parts=(*([Text(prompt.system)] if prompt.system else []), *prompt.conversation_parts),
            frames=self.frames,
            words={**(replies or {WRITTEN: "Answer"}), CANNOT_TELL: "Cannot tell"},
            enter=not replies and rows == 1,
            mine=said,
        )

    def _replies(self, sample: Sample) -> dict[str, str]:
        """Return the replies to a closed question, in the form that it asks for, each with the text of its button."""
        options: Mapping[Any, str] = {}
        if sample.kind == "truth":
            options = {True: "", False: ""}
        elif sample.kind == "choice":
            options = sample.options
        elif sample.kind == "choice_text":
            options = dict.fromkeys(sample.options.values(), "")
        forms: dict[Any, str | None] = {}
        for target in options:
            with suppress(SnellenError):  # the scorer knows no such answer
                forms[target] = gold_reply(self.benchmark, structs.replace(sample, target=target))
        if len({*forms.values()} - {None}) < len(options):  # a form that does not tell them apart is none
            forms = {target: str(target) for target in options}
        return {f"{forms[target]}": f"{forms[target]} {shorten(text, 300)}".strip() for target, text in options.items()}

    def decide(self, place: int, step: str, reviewer: str, fields: Mapping[str, str], client_id: str) -> None:
        """Write an answer, with the seconds until it came."""
        sample, word, reply = self._samples[place - 1], fields.get("decision", ""), fields.get("reply", "").strip()
        replies = self._replies(sample)
        if word in replies or word == CANNOT_TELL:
            reply = word if word in replies else ""
        elif word != WRITTEN or replies:
            raise UsageError(f"the form holds no answer to this question: {word[:40]!r}", "Load its page again.")
        elif not reply:
            raise UsageError("the answer is empty", "Write one, or choose Cannot tell.")
        elif len(reply) > LONGEST_REPLY:
            raise UsageError(f"the answer has {len(reply):,} characters", f"Use at most {LONGEST_REPLY:,}.")
        self._append(sample, reviewer, redact(reply), client_id)

    def last(self, reviewer: str) -> int | None:
        """Return the question of the person's last answer that stands."""
        given = reversed(self._person(reviewer).given)
        return next((self._places[id_] for id_ in given if id_ in self._places), None)

    def undo(self, place: int, reviewer: str, client_id: str) -> None:
        """Withdraw the person's answer to a question by a new line."""
        self._append(self._samples[place - 1], reviewer, None, client_id)

    def _append(self, sample: Sample, name: str, reply: str | None, client_id: str) -> None:
        """Write an answer; one that arrives again from the same page is there already."""
        sent = msgspec.json.encode((client_id, sample.id, reply))
        request = blake2b(sent, digest_size=12).hexdigest() if client_id else ""
        with self._lock:
            person = self._person(name)
            if request and request in person.requests:
                return
            if person.open is not None and person.open[0] == sample.id:
                self._watch(person)
            seconds = round(person.seconds[sample.id], 3)
            answer = PersonAnswer(
                sample_id=sample.id,
                person=name,
                reply=reply,
                seconds=seconds,
                late=self.time_limit is not None and seconds > self.time_limit,
                shown=_digest(sample),
                at=now(),
                request=request,
            )
            if person.journal is None:
                (self.out / name).mkdir(exist_ok=True)
                person.journal = journal.Journal(self.out / name / ANSWERS)
            person.journal.append(answer)
            person.journal.sync()
            person.take(answer)

    def agreement(self, reviewer: str) -> tuple[ReviewAgreement, dict[str, Any]]:
        """Compute the agreement of all people; who has not answered all questions sees nothing of it."""
        with self._lock:
            self._watch(self._person(reviewer))
        whole = len(self.decided("queue", reviewer)) == len(self._samples)
        note = "Answers are equal where the benchmark reads the same from them."
        nothing = "The agreement is shown to people who have answered all questions."
        return self.agreed() if whole else agreement_of([], (), 0, {}), {"note": note, "nothing": nothing}

    def agreed(self) -> ReviewAgreement:
        """Compute the agreement of all people in what the benchmark reads from their answers."""
        units: defaultdict[str, dict[str, str]] = defaultdict(dict)
        scorer = next(iter(self.benchmark.score.values()))
        for name, person in self._people.items():
            for id_, answer in person.given.items():
                if id_ in self._places:
                    sample, reply = self._samples[self._places[id_] - 1], answer.reply or ""
                    read = scorer(sample, reply).extracted if reply else None
                    units[id_][name] = reply.casefold() if read is None else repr(read)
        return agreement_of(list(units.values()), (), 0, {})

    def runs(self) -> list[Run]:
        """Make the run of each person who has answered something, in place of an earlier one."""
        data = self.data
        return [
            import_run(
                self.out / name / ANSWERS,
                self.name,
                out=self.out / name,
                data=data.path,
                images=data.images,
                benchmark_options=data.options,
                seed=data.seed,
                replace=True,
                limit=self.limit,
            )
            for name, person in sorted(self._people.items())
            if person.given.keys() & self._places.keys()
        ]


def _digest(sample: Sample) -> str:
    """Return the digest of what a person sees of a question."""
    return shown_digest(structs.replace(sample, target=None), Record(sample.id, "ok"))
