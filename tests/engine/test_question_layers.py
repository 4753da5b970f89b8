"""Layers of a question, each around an `Ask` of this file, and the loop that joins feed, layers and sink."""

from __future__ import annotations

import asyncio

import pytest

from snellen.engine.answer_cache import CacheLookup, cached
from snellen.engine.progress import Progress
from snellen.engine.questions import Feed, Outcome, Question
from snellen.engine.retry import Seeds, asking_again_if_empty
from snellen.engine.run import ask_all
from snellen.engine.stopping import SpendingLimit, Stop, budgeted
from snellen.types import Prompt, Record, Response, Sample, Text, Usage

SAMPLES = [Sample(f"q{n}", Prompt((Text("2 + 2?"),)), "4", "short") for n in range(3)]


def outcome(question: Question, text: str = "4", empty: str = "", attempts: int = 1) -> Outcome:
    response = Response(text, usage=Usage(1, 1, cost=0.5), empty=empty)
    return Outcome(Record(question.sample.id, "ok", question.repeat, response, None, attempts, 0.0, 0.0))


@pytest.fixture
def stop():
    return Stop(Progress("run", 3, 0, 1))


async def test_a_budget_stops_the_run_at_the_first_question_that_does_not_fit(stop, small_budget):
    asked = []

    async def ask(question):
        asked.append(question.sample.id)
        return outcome(question)

    layer = budgeted(ask, small_budget, stop)
    results = [await layer(Question(sample, 0)) for sample in SAMPLES]
    assert asked == ["q0", "q1"] and results[2] is None
    assert stop.requested() and small_budget.refused


@pytest.fixture
def small_budget():
    from snellen.engine.run_folder import RunSpec, Totals

    return SpendingLimit(RunSpec(benchmark="x", model="y", max_cost=1.0), Totals())


async def test_a_cached_answer_is_not_asked_for_and_a_new_one_names_its_key():
    class Kept:
        async def look_up(self, sample, repeat):
            return CacheLookup("key", outcome(Question(sample, repeat)).record if sample.id == "q0" else None)

    asked = []

    async def ask(question):
        asked.append(question)
        return outcome(question)

    layer = cached(ask, Kept())
    first, second = [await layer(Question(sample, 0)) for sample in SAMPLES[:2]]
    assert (first.cache_key, second.cache_key) == ("", "key")
    again = Question(SAMPLES[0], 0, failure=first.record)
    assert (await layer(again)).cache_key == "" and asked == [Question(SAMPLES[1], 0), again]


async def test_a_reply_that_says_nothing_is_asked_for_again_and_its_tokens_count(stop):
    replies = iter([("", "nowhere"), ("4", "")])

    async def ask(question):
        text, empty = next(replies)
        return outcome(question, text, empty, attempts=question.sent + 1)

    record = (await asking_again_if_empty(ask, 3, Progress("run", 1, 0, 1), stop)(Question(SAMPLES[0], 0))).record
    assert (record.response.text, record.attempts, record.response.usage.input_tokens) == ("4", 2, 2)


async def test_a_repeated_request_has_a_seed_of_its_own_and_a_resumed_run_the_same_ones(stop):
    for rule in (Seeds(7, by_sample=True), Seeds(7)):
        drawn: list[list[int | None]] = []
        for sent in (0, 5):  # undisturbed, and asked again after requests that failed
            seeds = []

            async def ask(question, rule=rule, seeds=seeds):
                generation = rule.prompt(question.sample, question.repeat, question.empty).generation
                seeds.append(None if generation is None else generation.seed)
                return outcome(question, "", "nowhere", attempts=question.sent + 1)

            layer = asking_again_if_empty(ask, 3, Progress("run", 1, 0, 1), stop)
            await layer(Question(SAMPLES[0], 1, sent=sent))
            drawn.append(seeds)
        assert drawn[0] == drawn[1] and len(set(drawn[0])) == 4
        first = rule.prompt(SAMPLES[0], 1).generation
        assert first is not None and drawn[0][0] == first.seed


async def test_a_prompt_that_always_gets_the_same_reply_is_not_asked_again_and_that_is_said_once(stop, caplog):
    asked = []

    async def ask(question):
        asked.append(question)
        return outcome(question, "", "nowhere")

    layer = asking_again_if_empty(ask, 3, Progress("run", 3, 0, 1), stop, lambda prompt: False)
    for sample in SAMPLES:
        await layer(Question(sample, 0))
    assert len(asked) == len(SAMPLES) and caplog.text.count("decodes greedily") == 1


async def test_the_loop_ends_when_a_stop_is_requested_and_leaves_the_rest_in_the_feed(stop):
    put = []

    async def ask(question):
        await asyncio.sleep(0)
        return outcome(question)

    async def sink(question, result):
        put.append(question.sample.id)
        if len(put) == 2:
            stop.request()

    feed = Feed(iter((sample, 0) for sample in SAMPLES))
    await stop.run_all([ask_all(feed, ask, sink, stop)])
    assert put == ["q0", "q1"] and feed.holds_more()
