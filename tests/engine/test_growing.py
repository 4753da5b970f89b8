"""Growing benchmarks: the same questions whatever the concurrency and the interruptions, each recorded once."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import random
import signal
from collections import Counter
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

import snellen
from engine.stubs import ARITHMETIC
from snellen.benchmarks.base import Data, ScoredAnswer
from snellen.engine import journal
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import DataError, PluginError, ServerError, UsageError
from snellen.models.base import Model, ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import load_run
from snellen.types import Prompt, Response, Text

EXAMPLE = Path(__file__).parents[2] / "examples" / "adaptive_quiz.py"
_spec = importlib.util.spec_from_file_location("adaptive_quiz", EXAMPLE)
assert _spec.loader is not None
quiz = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(quiz)
WHOLE = quiz.ROUNDS * quiz.SLOTS


class Reckoner(Model):
    """Answers a sum rightly with a chance that falls with its digits; the draw follows from the question alone."""

    name = "reckoner"

    def __init__(
        self, delay_s: float = 0.0, failing: frozenset[str] = frozenset(), killed_at: int | None = None
    ) -> None:
        self.delay_s, self.failing, self.killed_at = delay_s, set(failing), killed_at
        self.most = self.now = self.count = 0

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    async def preflight(self) -> None: ...

    async def close(self) -> None: ...

    async def answer(self, prompt: Prompt) -> Response:
        part = prompt.parts[0]
        assert isinstance(part, Text)
        self.now += 1
        self.most = max(self.most, self.now)
        self.count += 1
        ends = self.count == self.killed_at
        try:
            await asyncio.sleep(self.delay_s * random.random())
            if ends:
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            self.now -= 1
        if part.text in self.failing:
            raise ServerError("500")
        first, _, second = part.text.split()[:3]
        result = int(first) + int(second)
        luck = int.from_bytes(blake2b(part.text.encode(), digest_size=8).digest(), "little") / 2**64
        return Response(str(result if luck < 1.3 - 0.15 * len(first) else result + 1))


def spec(**settings: Any) -> RunSpec:
    options = ModelOptions(concurrency=settings.pop("concurrency", 16))
    return RunSpec(benchmark="adaptive-quiz", model="reckoner", options=options, max_attempts=1, **settings)


def perform_quiz(folder: Path, model: Model | None = None, **settings: Any) -> snellen.Run:
    return perform(
        spec(**settings),
        RunFolder(folder),
        benchmark=quiz.QUIZ,
        model=model or Reckoner(0.002),
        backoff=Backoff(base_s=0.001),
    )


def recorded(folder: Path) -> Counter[str]:
    lines = (folder / "results.jsonl").read_bytes().splitlines()
    return Counter(json.loads(line)["sample_id"] for line in lines)


def metrics(run: snellen.Run) -> dict[str, Any]:
    return {metric.name: (metric.value, metric.n) for rows in run.figures().values() for metric in rows}


@pytest.fixture(scope="module")
def undisturbed_quiz(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiz") / "run"
    run = perform_quiz(folder)
    assert run.meta.state == "complete"
    return recorded(folder), metrics(run)


def test_the_same_questions_whatever_the_concurrency(tmp_path, undisturbed_quiz):
    questions, figures = undisturbed_quiz
    assert len(questions) == WHOLE
    assert len({name.rpartition("/")[2] for name in questions}) > 3  # it did adapt
    for concurrency in (1, 3, 64):
        model = Reckoner(0.02)
        run = perform_quiz(tmp_path / str(concurrency), model, concurrency=concurrency)
        assert recorded(run.path) == questions
        assert metrics(run) == figures
        assert model.most == min(concurrency, quiz.SLOTS)


def test_killed_runs_ask_the_same_questions_each_once(tmp_path, undisturbed_quiz):
    folder = tmp_path / "run"
    for answers in (1, 5, 2, 3, 1, 4, None):  # few enough that the run never ends before the last
        child = os.fork()
        if child == 0:
            status = 1
            try:
                perform_quiz(folder, Reckoner(0.05, killed_at=answers), concurrency=5)
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (0 if answers is None else -signal.SIGKILL)
    questions, figures = undisturbed_quiz
    assert recorded(folder) == questions
    run = load_run(folder, benchmark=quiz.QUIZ)
    assert run.meta.state == "complete"
    assert metrics(run) == figures


def test_a_limit_opens_no_more_questions_and_a_longer_run_goes_on(tmp_path, undisturbed_quiz):
    run = perform_quiz(tmp_path / "run", limit=13)
    assert sum(recorded(run.path).values()) == 13
    assert run.meta.state == "partial"
    questions, figures = undisturbed_quiz
    whole = perform_quiz(tmp_path / "run")
    assert (recorded(whole.path), metrics(whole), whole.meta.state) == (questions, figures, "complete")


def test_a_failed_question_settles_its_round_and_is_asked_again_at_the_same_level(tmp_path):
    name = "round01/q2/digits3"
    text = quiz.question(Data(), name).prompt.parts[0].text
    run = perform_quiz(tmp_path / "run", Reckoner(0.0, frozenset({text})))
    assert {record.sample_id: record.status for record in run.folder.records() if record.status != "ok"} == {
        name: "error"
    }
    assert len(recorded(run.path)) == WHOLE  # its round was complete all the same
    before = recorded(run.path)
    again = perform_quiz(tmp_path / "run")
    assert recorded(again.path) - before == Counter({name: 1})
    assert again.meta.totals.error == 0


def test_a_run_is_scored_exported_and_replayed_by_the_ids_of_its_journal(tmp_path, undisturbed_quiz):
    questions, figures = undisturbed_quiz
    run = perform_quiz(tmp_path / "run")
    loaded = load_run(run.path, benchmark=quiz.QUIZ)
    assert metrics(loaded) == figures
    assert loaded.summarize(save=False).expected == WHOLE
    assert loaded.scores().num_rows == WHOLE
    assert {sample.id for sample, _ in loaded.answers()} == set(questions)
    answers = tmp_path / "answers.jsonl"
    rows = [{"id": record.sample_id, "prediction": record.response.text} for record in run.folder.records()]
    answers.write_text("".join(json.dumps(row) + "\n" for row in sorted(rows, key=lambda row: row["id"])))
    replayed = snellen.evaluate(quiz.QUIZ, f"replay:{answers}", out=tmp_path / "replayed")
    assert recorded(replayed.path) == questions
    assert metrics(replayed) == figures


@pytest.mark.parametrize("read_before", [0, 1, 5])
def test_a_run_is_read_while_it_goes_on(tmp_path, monkeypatch, read_before):
    """Records come and failures are repaired while answers are read: those of the first look count, each once."""
    failing = quiz.question(Data(), "round01/q2/digits3").prompt.parts[0].text
    run = perform_quiz(tmp_path / "run", Reckoner(0.0, frozenset({failing})))
    perform_quiz(tmp_path / "run")
    lines = run.folder.results.read_bytes().splitlines(keepends=True)
    assert [json.loads(line)["status"] for line in lines].count("error") == 1
    first_failure = next(at for at, line in enumerate(lines) if json.loads(line)["status"] == "error")
    for held in {first_failure, first_failure + 1, 13}:
        run.folder.results.write_bytes(b"".join(lines[:held]))
        read = journal.placed
        passes = []

        def growing(path, *args, read=read, passes=passes, held=held, **options):
            passes.append(path)
            if len(passes) == 2 and read_before == 0:  # between the two passes over the journal
                path.write_bytes(b"".join(lines))
            yield from read(path, *args, **options)

        monkeypatch.setattr(journal, "placed", growing)
        names = []
        for sample, _ in load_run(run.path, benchmark=quiz.QUIZ).answers():
            names.append(sample.id)
            if len(names) == read_before:
                run.folder.results.write_bytes(b"".join(lines))
        monkeypatch.setattr(journal, "placed", read)
        assert Counter(names) == Counter({json.loads(line)["sample_id"] for line in lines[:held]})


def test_a_partial_run_has_coverage_below_one(tmp_path):
    run = perform_quiz(tmp_path / "run", limit=10)
    summary = load_run(run.path, benchmark=quiz.QUIZ).summarize(save=False)
    assert (summary.rows, summary.expected > 10) == (10, True)


def test_an_estimate_says_that_only_the_first_questions_are_counted(tmp_path):
    from snellen.runs.costs import estimated

    estimate = estimated(spec(), quiz.QUIZ, RunFolder(tmp_path / "run"))
    assert (estimate.questions, estimate.grows) == (quiz.SLOTS, True)


def test_repeats_are_refused_before_anything_is_asked(tmp_path):
    model = Reckoner()
    with pytest.raises(UsageError, match="chooses each question by the answers before it"):
        perform_quiz(tmp_path / "run", model, repeats=2)
    assert model.most == 0


def test_a_record_of_another_quiz_is_named(tmp_path):
    run = perform_quiz(tmp_path / "run", limit=4)
    other = replace(quiz.QUIZ, sample=lambda data, name: {}[name])
    with pytest.raises(DataError, match="belongs to no question of adaptive-quiz"):
        list(load_run(run.path, benchmark=other).answers())


@pytest.mark.parametrize(
    ("grow", "complaint"),
    [
        (lambda data, answers: ["round00/q0/digits2"], "returned a str"),
        (lambda data, answers: [quiz.question(data, "round05/q0/digits2")] * 2, "twice"),
    ],
)
def test_what_grow_returns_is_checked(tmp_path, grow, complaint):
    with pytest.raises(PluginError, match=complaint):
        perform(spec(), RunFolder(tmp_path / "run"), benchmark=replace(quiz.QUIZ, grow=grow), model=Reckoner())


def test_grow_without_sample_is_refused():
    with pytest.raises(TypeError, match="go together"):
        replace(ARITHMETIC, grow=lambda data, answers: [])


def test_grow_sees_status_verdict_and_what_was_read(tmp_path):
    seen: list[dict[str, ScoredAnswer]] = []

    def grow(data, answers):
        seen.append(dict(answers))
        return quiz.grow(data, answers)

    perform(spec(limit=8), RunFolder(tmp_path / "run"), benchmark=replace(quiz.QUIZ, grow=grow), model=Reckoner())
    answer = next(iter(seen[-1].values()))
    assert (answer.status, answer.verdict) == ("ok", "correct")
    assert answer.extracted.isdigit()
