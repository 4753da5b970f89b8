"""Dynamic batching: prompts that wait are answered together.

Two threads. One collects prompts of similar length and turns them into tensors; the other, the only one that touches
the model, generates. While it does, the next batch is encoded and the images of the one after it are read. Prompts
that wait in neither of them hold no pixels. Nothing here knows torch: what a batch is made of, how it is answered and
which errors mean "out of memory" is handed in.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from snellen.errors import BadRequestError, DataError, InputError, ModelError, OutOfMemoryError

log = logging.getLogger(__name__)

T = TypeVar("T")
QUIET_S = 0.005  # a batch that is not full goes off once nothing has come for this long …
PATIENCE_S = 0.05  # … or its first prompt has waited for this long


@dataclass(eq=False)
class Job(Generic[T]):
    """One prompt on its way.

    Attributes:
        content: what the prompt becomes once its images are read.
        batch_key: only jobs with equal values share a batch.
        size: jobs of near sizes share a batch where there is a choice, compared element by element.
        read: starts the reading that settles `content`; called once, when a batch has chosen the job.
        answer: what the asker waits for.
    """

    content: Future[Any]
    batch_key: Any
    size: tuple[int, ...]
    read: Callable[[], None] | None = None
    answer: Future[T] = field(default_factory=Future)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):  # the asker has gone
            self.answer.set_exception(error)

    def succeed(self, reply: T) -> None:
        with suppress(InvalidStateError):
            self.answer.set_result(reply)


@dataclass
class Batch(Generic[T]):
    """Jobs and the tensors made of them, in the same order. `last`: none of the jobs chosen with these comes later."""

    jobs: list[Job[T]]
    inputs: Any
    last: bool = False


class Batches(Generic[T]):
    """Takes jobs from any thread and settles every one of them, whatever happens to its neighbours.

    Args:
        encode: jobs to tensors. It may raise; the batch is then halved until the job that is to blame stands alone.
        generate: jobs, tensors and a function that says whether to stop, to one reply a job; halved likewise.
        out_of_memory: whether an error means that memory is used up. The batch is halved, and stays so.
        recover: called after memory ran out.
        max_batch: jobs a batch holds at most.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[Job[T]]], Any],
        generate: Callable[[Sequence[Job[T]], Any, Callable[[], bool]], list[T]],
        out_of_memory: Callable[[BaseException], bool],
        recover: Callable[[], None],
        max_batch: int,
    ) -> None:
        self.limit = max_batch
        self._encode = encode
        self._generate = generate
        self._out_of_memory = out_of_memory
        self._recover = recover
        self._waiting: list[Job[T]] = []
        self._arrived_at = 0.0
        self._ahead: list[Job[T]] = []  # chosen, and not being answered yet
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._encoding = threading.Lock()  # tokenizers keep padding settings between calls: one caller at a time
        self._ready: queue.Queue[Batch[T] | None] = queue.Queue()
        self._room = threading.Semaphore(1)  # for one batch that is encoded while another one is answered
        self._threads = [
            threading.Thread(target=self._prepare_all, name="snellen-prepare", daemon=True),
            threading.Thread(target=self._answer_all, name="snellen-generate", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job[T]) -> None:
        with self._changed:
            if self._closing.is_set():
                raise ModelError("the model is closed and takes no more prompts.")
            self._waiting.append(job)
            self._arrived_at = time.monotonic()
            self._changed.notify()

    def drop_queued(self) -> None:
        """Cancel all jobs but those of the batch that is being answered."""
        with self._changed:
            queued, self._waiting, self._ahead = [*self._ahead, *self._waiting], [], []
        for job in queued:
            job.answer.cancel()

    def close(self) -> None:
        """End both threads; what still waits fails with ModelError. A batch under way ends at its next token."""
        self._closing.set()
        with self._changed:
            waiting, self._waiting = self._waiting, []
            self._changed.notify()
        _fail_closed(waiting)
        for thread in self._threads:
            thread.join()

    # the preparing thread

    def _prepare_all(self) -> None:
        upcoming: list[Job[T]] = []
        while jobs := upcoming or self._collect():
            self._room.acquire()
            upcoming = self._collect_full()
            batches: list[Batch[T]] = []
            try:
                batches = self._encoded(self._readable(jobs))
            except Exception as error:  # noqa: BLE001 - a dead thread would leave every asker waiting for ever
                _fail_all(jobs, error)
            for batch in batches[:-1]:
                self._ready.put(batch)
            if batches:
                batches[-1].last = True
                self._ready.put(batches[-1])
            else:
                self._room.release()
        self._ready.put(None)

    def _collect(self) -> list[Job[T]]:
        """Return the next jobs to go together, their reading started; none once the model is closed."""
        return _reading(self._wait_for_jobs())

    def _collect_full(self) -> list[Job[T]]:
        """Return the jobs of a further batch, their reading started, if enough of them wait to fill it; else none."""
        with self._changed:
            self._waiting = [job for job in self._waiting if not job.answer.done()]
            alike = sum(job.batch_key == self._waiting[0].batch_key for job in self._waiting)
            if alike < self.limit or self._closing.is_set():
                return []
            jobs = self._chosen()
        return _reading(jobs)

    def _wait_for_jobs(self) -> list[Job[T]]:
        with self._changed:
            while not self._closing.is_set():
                self._waiting = [job for job in self._waiting if not job.answer.done()]
                if not self._waiting:
                    self._changed.wait()
                    continue
                latest = time.monotonic() + PATIENCE_S
                while len(self._waiting) < self.limit and not self._closing.is_set():
                    remaining_s = min(latest, self._arrived_at + QUIET_S) - time.monotonic()
                    if remaining_s <= 0:
                        break
                    self._changed.wait(remaining_s)
                if self._waiting and not self._closing.is_set():  # they may have been dropped meanwhile
                    return self._chosen()
            return []

    def _chosen(self) -> list[Job[T]]:
        """Take the jobs that go best with the oldest one out of those that wait."""
        first = self._waiting[0]
        alike = [job for job in self._waiting if job.batch_key == first.batch_key]
        # Stable sort: of equally near jobs those that came first go first; the oldest always goes.
        alike.sort(key=lambda job: [abs(size - other) for size, other in zip(job.size, first.size, strict=True)])
        chosen = alike[: self.limit]
        taken = {id(job) for job in chosen}
        self._waiting = [job for job in self._waiting if id(job) not in taken]
        self._ahead = [*(job for job in self._ahead if not job.answer.done()), *chosen]
        return chosen

    def _readable(self, jobs: list[Job[T]]) -> list[Job[T]]:
        """Return the jobs whose images could be read; the others have failed."""
        usable = []
        for job in jobs:
            error = job.content.exception()
            if error is None:
                usable.append(job)
            elif isinstance(error, DataError):
                job.fail(InputError(error.message, error.hint))
            elif isinstance(error, ModelError):
                job.fail(error)
            else:
                job.fail(InputError(f"the prompt could not be built: {type(error).__name__}: {error}"))
        return usable

    def _encoded(self, jobs: list[Job[T]]) -> list[Batch[T]]:
        """Return a batch of the jobs, or several where one of them cannot be encoded."""
        if not jobs:
            return []
        try:
            with self._encoding:
                return [Batch(jobs, self._encode(jobs))]
        except Exception as error:  # noqa: BLE001 - any fault of any processor belongs to a prompt, not to the thread
            failure = error.with_traceback(None)
        if len(jobs) == 1:
            jobs[0].fail(self._reason(failure))
            return []
        middle = len(jobs) // 2
        return [*self._encoded(jobs[:middle]), *self._encoded(jobs[middle:])]

    # the generating thread

    def _answer_all(self) -> None:
        while (batch := self._ready.get()) is not None:
            if batch.last:
                self._room.release()
            begun = {id(job) for job in batch.jobs}
            with self._changed:
                self._ahead = [job for job in self._ahead if id(job) not in begun]
            try:
                self._answer(batch)
            except Exception as error:  # noqa: BLE001 - as above; a broken device can fail while memory is given back
                _fail_all(batch.jobs, error)
            del batch  # or it would hold its tensors while waiting for the next one

    def _answer(self, batch: Batch[T]) -> None:
        jobs = [job for job in batch.jobs if not job.answer.done()]
        if self._closing.is_set():
            _fail_closed(jobs)
            return
        if not jobs:
            return
        if len(batch.jobs) > self.limit:
            self._answer_in_parts(jobs, self.limit)
            return
        try:
            replies = self._generate(batch.jobs, batch.inputs, lambda: self._abandoned(jobs))
        except Exception as error:  # noqa: BLE001 - as above
            failure = error.with_traceback(None)  # the frames would keep tensors alive
        else:
            if self._closing.is_set():  # the replies may be cut short
                _fail_closed(jobs)
                return
            for job, reply in zip(batch.jobs, replies, strict=True):
                job.succeed(reply)
            return
        if isinstance(failure, ModelError):  # of the settings, which all jobs of a batch share
            for job in jobs:
                job.fail(failure)
            return
        half = max(1, len(batch.jobs) // 2)
        batch.inputs = None
        if self._out_of_memory(failure):
            self._recover()
            if len(batch.jobs) > 1:
                self.limit = min(self.limit, half)
                log.warning("out of memory with %d prompts in a batch; going on with %d", len(batch.jobs), half)
        if len(batch.jobs) == 1:
            jobs[0].fail(self._reason(failure))
        else:
            self._answer_in_parts(jobs, half)

    def _answer_in_parts(self, jobs: list[Job[T]], size: int) -> None:
        for start in range(0, len(jobs), size):
            for part in self._encoded(jobs[start : start + size]):
                self._answer(part)

    def _abandoned(self, jobs: list[Job[T]]) -> bool:
        return self._closing.is_set() or all(job.answer.done() for job in jobs)

    def _reason(self, error: Exception) -> ModelError:
        if isinstance(error, ModelError):
            return error
        if self._out_of_memory(error):
            return OutOfMemoryError(
                "this prompt alone does not fit into memory.", "Try --max-pixels, --max-long-side or --dtype bfloat16."
            )
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, ValueError | TypeError):
            return BadRequestError(f"the model does not accept this prompt or these settings: {text}")
        return ModelError(f"the model failed on this prompt: {text}")


def _reading(jobs: list[Job[T]]) -> list[Job[T]]:
    for job in jobs:
        if job.read is not None:
            try:
                job.read()
            except Exception as error:  # noqa: BLE001 - no thread can be started; the asker must learn of it
                job.content.set_exception(error)
    return jobs


def _fail_all(jobs: Sequence[Job[Any]], error: Exception) -> None:
    log.error("a batch of %d prompts failed as a whole", len(jobs), exc_info=error)
    for job in jobs:
        job.fail(ModelError(f"the model failed: {type(error).__name__}: {error}"))


def _fail_closed(jobs: Sequence[Job[Any]]) -> None:
    for job in jobs:
        job.fail(ModelError("the model was closed before it answered."))
