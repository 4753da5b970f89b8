"""The budget in dollars: what is set aside for requests in flight, and how a run ends when it is used up."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs
from stubs import ARITHMETIC, Calculator

from snellen.benchmarks.base import Data
from snellen.engine.resume import answer_costs
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder, RunSpec, Totals
from snellen.engine.stopping import SpendingLimit
from snellen.errors import BudgetError, ServerError
from snellen.models.api.prices import Price
from snellen.models.base import ModelOptions
from snellen.runs.perform import perform
from snellen.runs.run import Run
from snellen.types import Prompt, Record, Response, Text, Usage

PROMPT = Prompt((Text("What is 1 + 1?"),))


class Paid(Calculator):
    """Answers after a while, for one cent each, or for the prices in `dearer` by question."""

    def __init__(self, delay_s: float = 0.02, dearer: dict[int, float] | None = None, **more: Any) -> None:
        super().__init__(delay_s, **more)
        self.price = Price(1000.0, 0.0)
        self.dearer = dearer or {}

    async def answer(self, prompt: Prompt) -> Response:
        response = await super().answer(prompt)
        part = prompt.parts[0]
        cost = self.dearer.get(int(part.text.split()[2]), 0.01)
        return structs.replace(response, usage=structs.replace(response.usage, cost=cost))


def go(model: Calculator, out: Path, **spec: Any) -> Run:
    options = ModelOptions(concurrency=spec.pop("concurrency", 16))
    wanted = RunSpec(benchmark="arithmetic", model=model.name, options=options, data=Data(options={"n": "50"}), **spec)
    return perform(wanted, RunFolder(out), benchmark=ARITHMETIC, model=model, backoff=Backoff(attempts=2, base_s=0.001))


def spent(out: Path) -> float:
    return RunFolder(out).meta().totals.cost or 0.0


@pytest.mark.parametrize("concurrency", [1, 16])
def test_many_requests_in_flight_do_not_overshoot_the_budget(tmp_path, concurrency):
    with pytest.raises(BudgetError, match=r"used up: .* \$0\.1000 of \$0\.105; the next request may cost \$0\.0100"):
        go(Paid(), tmp_path / "a", max_cost=0.105, concurrency=concurrency)
    assert spent(tmp_path / "a") == pytest.approx(0.10)
    assert RunFolder(tmp_path / "a").meta().state == "partial"


@pytest.mark.parametrize("concurrency", [1, 16])
def test_tokens_of_requests_in_flight_are_set_aside_too(tmp_path, concurrency):
    with pytest.raises(BudgetError, match=r"used up: 110 of 115 tokens.*; the next request may cost 11 tokens"):
        go(Paid(), tmp_path / "a", max_tokens_total=115, concurrency=concurrency)
    assert go(Paid(), tmp_path / "a", max_tokens_total=600, max_cost=5.0).meta.state == "complete"


async def test_requests_that_were_set_aside_by_a_guess_count_as_the_first_reply_that_is_known():
    limit = SpendingLimit(
        RunSpec(benchmark="arithmetic", model="calculator", options=ModelOptions(), max_cost=0.105), Totals(), Paid()
    )
    limit._price = Price(1.0, 0.0)  # a guess a thousand times too low
    guessed = [await limit.reserve(PROMPT) for _ in range(10)]
    assert all(guess is not None and guess[0] < 0.0001 for guess in guessed)
    limit.settle(guessed[0] or (0.0,), Record("0", "ok", response=Response("2", usage=Usage(1, 1, cost=0.01))))
    waiting = asyncio.create_task(limit.reserve(PROMPT))
    await asyncio.sleep(0)
    assert not waiting.done(), "nine are in flight, for a cent each"
    for number, guess in enumerate(guessed[1:], 1):
        limit.settle(guess or (0.0,), Record(str(number), "ok", response=Response("2", usage=Usage(1, 1, cost=0.01))))
    assert await waiting is None
    with pytest.raises(BudgetError, match=r"\$0\.1000 of \$0\.105; the next request may cost \$0\.0100"):
        limit.check()


def test_a_run_stopped_by_its_budget_goes_on_with_a_larger_one_and_sends_nothing_without(tmp_path):
    with pytest.raises(BudgetError):
        go(Paid(), tmp_path / "a", max_cost=0.105)
    again = Paid()
    with pytest.raises(BudgetError, match="used up"):
        go(again, tmp_path / "a", max_cost=0.105)
    assert again.asked == []
    assert not [thread for thread in threading.enumerate() if "fsync" in thread.name], "the journal is closed"
    assert go(Paid(), tmp_path / "a", max_cost=0.50).meta.state == "complete"
    assert spent(tmp_path / "a") == pytest.approx(0.50)


def test_a_resumed_run_expects_the_dearest_of_the_latest_answers_and_not_their_mean(tmp_path):
    dear = dict.fromkeys(range(1, 50, 2), 0.5)
    with pytest.raises(BudgetError, match=r"\$1\.0200 of \$1\.2; the next request may cost \$0\.5000"):
        go(Paid(dearer=dear), tmp_path / "a", max_cost=1.2, concurrency=1)
    again = Paid(dearer=dear)
    with pytest.raises(BudgetError, match=r"the next request may cost \$0\.5000"):
        go(again, tmp_path / "a", max_cost=1.2, concurrency=1)
    assert again.asked == [] and spent(tmp_path / "a") == pytest.approx(1.02)


def test_answers_that_cost_nothing_because_they_were_kept_are_not_expected_again(tmp_path):
    folder = RunFolder(tmp_path)
    records = [
        Record(
            str(number), "ok", response=Response("2", usage=Usage(1, 1, cost=0.0 if kept else 0.05), cached_answer=kept)
        )
        for number, kept in enumerate([""] * 3 + ["entry"] * 40)
    ]
    folder.results.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    assert list(answer_costs(folder)) == [0.05] * 3


def test_a_budget_that_suffices_lets_all_requests_fly_at_once(tmp_path):
    model = Paid(delay_s=0.2)
    assert go(model, tmp_path / "a", max_cost=5.0).meta.state == "complete"
    assert model.most == 16


def test_the_last_question_that_was_not_sent_is_told_as_a_used_up_budget(tmp_path):
    with pytest.raises(BudgetError, match="used up"):
        go(Paid(), tmp_path / "a", max_cost=0.495)
    assert RunFolder(tmp_path / "a").meta().totals.ok == 49


def test_requests_that_fail_give_back_what_was_set_aside(tmp_path):
    model = Paid(fail={n: [ServerError("500")] * 9 for n in range(0, 50, 2)})
    run = go(model, tmp_path / "a", max_cost=0.26)
    assert run.meta.totals.ok == 25 and spent(tmp_path / "a") == pytest.approx(0.25)


def test_after_a_dear_answer_more_is_set_aside_for_the_next(tmp_path):
    with pytest.raises(BudgetError, match=r"may cost \$0\.3000"):
        go(Paid(dearer={3: 0.3}), tmp_path / "a", max_cost=0.5, concurrency=4)
    assert spent(tmp_path / "a") <= 0.5


def spec(**fields: Any) -> RunSpec:
    return RunSpec(benchmark="b", model="api:m", **fields)


async def test_the_first_request_is_sent_alone_where_its_guess_exceeds_the_budget():
    limit = SpendingLimit(spec(max_cost=0.001), Totals(), Paid())
    reserved = await limit.reserve(PROMPT)
    assert reserved is not None and reserved[0] > 0.001
    second = asyncio.create_task(limit.reserve(PROMPT))
    await asyncio.sleep(0)
    assert not second.done()
    limit.settle(reserved, Record("a", "ok", response=Response("x", usage=Usage(1, 1, cost=0.0001))))
    assert await second == (pytest.approx(0.0001),)


async def test_who_waits_for_budget_is_let_go_when_the_run_ends():
    limit = SpendingLimit(spec(max_cost=0.001), Totals(), Paid())
    await limit.reserve(PROMPT)
    second = asyncio.create_task(limit.reserve(PROMPT))
    await asyncio.sleep(0)
    limit.close()
    assert await asyncio.wait_for(second, 600) is None
    limit.check()  # the run ends for another reason, which is not the budget's


async def test_without_a_bound_nothing_is_set_aside():
    limit = SpendingLimit(spec(), Totals(), Paid())
    assert [await limit.reserve(PROMPT) for _ in range(3)] == [(), (), ()]
    assert not limit.limited and not limit.spent
