"""How batches form and come apart, with arithmetic in place of a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from snellen.errors import ModelError
from snellen.models.local.batching import Batches, Job
from stopwatch import Stopwatch

POISON, BROKEN = 666, 667


class Doubler:
    """Doubles numbers, in batches; `started` is set when a batch is under way, which then waits for `go`."""

    def __init__(self, most: int) -> None:
        self.sizes: list[int] = []
        self.batches: list[list[int]] = []
        self.go = threading.Event()
        self.started = threading.Event()
        self.go.set()
        self.line: Batches[int] = Batches(self.encode, self.generate, self.out_of_memory, self.recover, most)

    def encode(self, jobs: Sequence[Job[int]]) -> list[int]:
        return [job.content.result() for job in jobs]

    def generate(self, jobs: Sequence[Job[int]], inputs: list[int], stopped: Callable[[], bool]) -> list[int]:
        self.started.set()
        self.sizes.append(len(inputs))
        self.batches.append(inputs)
        while not self.go.wait(0.01) and not stopped():
            continue
        if POISON in inputs:
            raise RuntimeError(f"{POISON} cannot be doubled")
        if BROKEN in inputs:
            raise RuntimeError("out of memory")
        return [2 * number for number in inputs]

    def out_of_memory(self, error: BaseException) -> bool:
        return "memory" in str(error)

    def recover(self) -> None:
        raise RuntimeError("the device does not answer any more")

    def ask(self, number: int, batch_key: Any = None, size: int = 0) -> Future[int]:
        content: Future[int] = Future()
        content.set_result(number)
        job: Job[int] = Job(content, batch_key, (size,))
        self.line.submit(job)
        return job.answer

    def ask_at_once(self, numbers: Sequence[int], sizes: Sequence[int]) -> list[Future[int]]:
        """Ask so that no batch is chosen before the last of them waits."""
        with self.line._changed:
            return [self.ask(number, size=size) for number, size in zip(numbers, sizes, strict=True)]

    def occupy(self) -> list[Future[int]]:
        """Have one batch answered, one ready and one held by the preparing thread: what is asked next really waits."""
        self.go.clear()
        blockers = [self.ask(-number, batch_key=number) for number in (1, 2, 3)]
        while self.line._waiting:
            time.sleep(0.01)
        return blockers


@pytest.fixture
def doubler():
    made = Doubler(most=8)
    yield made
    made.go.set()
    made.line.close()


def test_each_asker_gets_its_own_answer(doubler):
    answers = [doubler.ask(i) for i in range(100)]
    assert [answer.result(600) for answer in answers] == [2 * i for i in range(100)]


def test_prompts_that_wait_share_a_batch_of_at_most_the_size_set(doubler):
    doubler.go.clear()
    first = doubler.ask(0)
    assert doubler.started.wait(600)
    rest = [doubler.ask(i) for i in range(1, 25)]
    doubler.go.set()
    for answer in [first, *rest]:
        answer.result(600)
    assert max(doubler.sizes) == 8
    assert sum(doubler.sizes) == 25
    assert len(doubler.sizes) <= 6


def test_a_lone_prompt_does_not_wait_for_company(doubler):
    watch = Stopwatch()
    assert doubler.ask(4).result(600) == 8
    assert watch.seconds < 2


def test_only_prompts_with_the_same_settings_share_a_batch(doubler):
    doubler.go.clear()
    first = doubler.ask(0)
    assert doubler.started.wait(600)
    rest = [doubler.ask(i, batch_key=i % 2) for i in range(1, 21)]
    doubler.go.set()
    for answer in [first, *rest]:
        answer.result(600)
    assert all(len({number % 2 for number in batch}) == 1 for batch in doubler.batches)


def test_prompts_of_one_size_go_together_and_the_oldest_is_never_left_behind(doubler):
    blockers = doubler.occupy()
    sizes = [1, 900] * 8
    rest = doubler.ask_at_once(range(16), sizes)
    doubler.go.set()
    for answer in [*blockers, *rest]:
        answer.result(600)
    mixed = [batch for batch in doubler.batches if len({sizes[i] for i in batch if i >= 0}) > 1]
    assert not mixed, doubler.batches


def test_waiting_prompts_of_similar_length_share_a_batch(doubler):
    blockers = doubler.occupy()
    lengths = np.random.default_rng(0).permutation(np.repeat([10, 20, 30, 40], 16)).tolist()
    rest = doubler.ask_at_once(range(64), lengths)
    doubler.go.set()
    for answer in [*blockers, *rest]:
        answer.result(600)
    spread = [max(sizes) - min(sizes) for batch in doubler.batches if (sizes := [lengths[i] for i in batch if i >= 0])]
    assert spread == [0] * 8


def test_images_are_read_for_three_batches_at_most_while_one_is_answered(doubler):
    doubler.go.clear()
    read: list[int] = []
    lock = threading.Lock()

    def ask(number):
        content: Future[int] = Future()

        def start():
            with lock:
                read.append(number)
            content.set_result(number)

        job: Job[int] = Job(content, None, (0,), start)
        doubler.line.submit(job)
        return job.answer

    with doubler.line._changed:
        answers = [ask(i) for i in range(8)]
    assert doubler.started.wait(600)
    answers += [ask(i) for i in range(8, 80)]
    while len(read) < 24:
        time.sleep(0.01)
    time.sleep(0.2)
    assert len(read) == 24, "one batch is answered, one is encoded, and the images of one are read"
    assert doubler.sizes == [8], "all that while the first batch is under way"
    doubler.go.set()
    assert [answer.result(600) for answer in answers] == [2 * i for i in range(80)]
    assert sorted(read) == list(range(80)), "each once"


def test_a_reading_that_cannot_start_fails_its_prompt_and_not_the_others(doubler):
    def refuse():
        raise RuntimeError("can't start new thread")

    job: Job[int] = Job(Future(), None, (0,), refuse)
    doubler.line.submit(job)
    other = doubler.ask(4)
    with pytest.raises(ModelError, match="can't start new thread"):
        job.answer.result(600)
    assert other.result(600) == 8


def test_an_error_that_all_prompts_of_a_batch_share_is_not_tried_again_in_halves(doubler):
    doubler.line._generate = refuse_all(doubler.sizes)
    answers = [doubler.ask(i) for i in range(8)]
    for answer in answers:
        with pytest.raises(ModelError, match="cannot be compiled"):
            answer.result(600)
    assert sum(doubler.sizes) == 8


def refuse_all(sizes: list[int]) -> Callable[..., Any]:
    def generate(jobs: Sequence[Job[int]], inputs: list[int], stopped: Callable[[], bool]) -> list[int]:
        sizes.append(len(jobs))
        raise ModelError("the model cannot be compiled.")

    return generate


def test_the_one_that_fails_fails_alone(doubler):
    numbers = [*range(9), POISON, *range(10, 20)]
    answers = [doubler.ask(number) for number in numbers]
    for number, answer in zip(numbers, answers, strict=True):
        if number == POISON:
            with pytest.raises(ModelError, match="666 cannot be doubled"):
                answer.result(600)
        else:
            assert answer.result(600) == 2 * number


def test_a_device_that_breaks_while_recovering_fails_its_batch_and_not_the_program(doubler):
    with pytest.raises(ModelError, match="the device does not answer"):
        doubler.ask(BROKEN).result(600)
    assert doubler.ask(4).result(600) == 8


def test_work_that_nobody_waits_for_is_given_up(doubler):
    doubler.go.clear()
    answer = doubler.ask(1)
    assert doubler.started.wait(600)
    answer.cancel()
    # The batch above ends although `go` was never set, or this one would never be answered.
    later = doubler.ask(2)
    while len(doubler.sizes) < 2:
        time.sleep(0.01)
    doubler.go.set()
    assert later.result(600) == 4


def test_queued_prompts_are_dropped_and_the_batch_under_way_is_answered(doubler):
    doubler.go.clear()
    first = doubler.ask(1)
    assert doubler.started.wait(600)
    queued = [doubler.ask(number, batch_key=number) for number in range(2, 40)]  # none can share a batch
    while len(doubler.line._waiting) == len(queued):  # the next batch is chosen while the first one is answered
        time.sleep(0.01)
    doubler.line.drop_queued()
    later = doubler.ask(100)
    doubler.go.set()
    assert first.result(600) == 2
    assert later.result(600) == 200
    assert all(answer.cancelled() for answer in queued)
    assert doubler.batches == [[1], [100]]


def test_prompts_may_be_dropped_while_a_batch_is_gathered(doubler):
    for number in range(200):
        answer = doubler.ask(number)
        doubler.line.drop_queued()
        assert answer.cancelled() or answer.result(600) == 2 * number
    assert doubler.ask(7).result(600) == 14


def test_closing_settles_every_question_and_ends_both_threads():
    doubler = Doubler(most=2)
    doubler.go.clear()
    answers = [doubler.ask(i) for i in range(9)]
    assert doubler.started.wait(600)
    doubler.line.close()
    assert all(answer.done() for answer in answers)
    assert not [thread for thread in threading.enumerate() if thread.name in ("snellen-prepare", "snellen-generate")]
    with pytest.raises(ModelError, match="closed"):
        doubler.ask(1)
