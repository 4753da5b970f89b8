"""Pool of Ray workers: shares out requests and replaces lost workers.

Work goes to the worker with the least in flight. What a worker held when it was lost is asked again elsewhere, and the
worker is started anew, on any host that has room. A question that was in flight while two workers were lost is asked
the third time alone, so that it cannot take others with it: if that worker is lost too, the question is to blame.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from snellen.engine.ray.cluster import Cluster, one_paragraph
from snellen.engine.ray.worker import UNSEEN, Hello, Hosted, Worker, WorkerReply, versions
from snellen.errors import PreflightError, SnellenError, WorkerLostError, WorkersGoneError

LIVES = 3  # losses of a worker that one question may be part of
STARTS = 3  # attempts to start a worker anew
PLACE_S = 60.0  # how long Ray may take to find room for the first workers
ALONE_S = 300.0  # how long no worker may be left before the run gives up
WATCH_S = 1.0  # seconds between two looks at the processes of our own Ray
STATE_S = 5.0  # how long a worker may take to say how it is, at the end

Packed = Callable[[bool], Any]


class LostWorkerError(Exception):
    """A worker is gone; the message is Ray's word for why."""


class Seat:
    """Place for one worker after another."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.actor: Any = None
        self.hello: Hello | None = None
        self.ready = False
        self.abandoned = False
        self.flying = 0
        self.reserved = False
        self.sees_files = True


class WorkerPool:
    """Workers that each hold what `build` makes.

    Args:
        cluster: a cluster that was entered.
        build: picklable; called in each worker.
        each: questions that a worker is given at once.
        check: called with what each worker says it loaded; raises PreflightError where that is not what is wanted.
    """

    def __init__(self, cluster: Cluster, build: Callable[[], Hosted], each: int, check: Callable[[Any], None]) -> None:
        self._cluster = cluster
        self._build = build
        self._each = each
        self._check = check
        self._seats: list[Seat] = []
        self._gpus = 0
        self._waiting: deque[asyncio.Future[Seat]] = deque()
        self._watching: list[asyncio.Future[None]] = []
        self._one_suspect = asyncio.Lock()
        self._suspects = 0
        self._kept: Seat | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._over: WorkersGoneError | None = None
        self._ended = asyncio.Event()
        self._closed = False
        self._seen_versions: set[tuple[tuple[str, str], ...]] = set()
        self._nodes: set[str] = set()
        self.lost: Counter[str] = Counter()
        self.asked_again = 0

    @property
    def size(self) -> int:
        return len(self._seats)

    async def start(self) -> None:
        """Start and load the workers; those without room yet join later.

        Raises:
            PreflightError: a worker cannot load, or Ray has no room for a single one.
        """
        count, self._gpus = self._cluster.workers()
        self._background(self._watch())
        self._seats = [Seat(number) for number in range(count)]
        placing = {asyncio.create_task(self._place(seat)): seat for seat in self._seats}
        try:
            done, late = await asyncio.wait(placing, timeout=PLACE_S, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                await self._first(task)
            if not done:
                raise PreflightError(
                    f"Ray found no room for any of {count} workers in {PLACE_S:.0f} seconds: others use it.",
                    "Check `ray status`, or request fewer with --nproc.",
                )
            loading = [asyncio.create_task(self._load(placing[task])) for task in done]
            try:
                for loaded in asyncio.as_completed(loading):
                    await self._first(loaded)
            finally:
                for task in loading:
                    task.cancel()
        except BaseException:
            for task in placing:
                task.cancel()
            raise
        for task in late:
            self._background(self._join(placing[task], task))

    async def ask(self, packed: Packed) -> Any:
        """Return one answer.

        Args:
            packed: what is asked, given whether it must hold all files by value. Called in a thread.

        Raises:
            WorkerLostError: three workers were lost over it, the last while it was asked alone.
            WorkersGoneError: there is no worker left.
            SnellenError: what the worker raised.
        """
        for _ in range(1, LIVES):
            seat = await self._free()
            try:
                return await self._on(seat, packed)
            except LostWorkerError:
                self.asked_again += 1
            finally:
                self._leave(seat)
        async with self._alone() as seat:
            try:
                return await self._on(seat, packed)
            except LostWorkerError as lost:
                raise WorkerLostError(
                    f"{LIVES} workers were lost while they worked on this, the last on nothing else: {lost}"
                ) from lost

    def record(self) -> dict[str, Any]:
        """Describe the workers for run_meta.json."""
        return {
            "workers": self.size,
            "gpus_each": self._gpus,
            "ray": self._cluster.version,
            "nodes": len(self._nodes),
            "versions": [dict(package_versions) for package_versions in sorted(self._seen_versions)],
            "lost": dict(self.lost),
            "asked_again": self.asked_again,
        }

    async def states(self) -> list[Mapping[str, Any]]:
        """Return the states that the live workers report."""
        actors = [seat.actor for seat in self._seats if seat.ready and self._over is None]
        calls = [asyncio.wait_for(_call(actor.state.remote), STATE_S) for actor in actors]
        states = await asyncio.gather(*calls, return_exceptions=True)
        return [state for state in states if isinstance(state, Mapping)]

    async def close(self) -> None:
        """End all workers. Requests in flight are given up."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._end(WorkersGoneError("the workers were closed"))
        if not self._cluster.ended():
            # They end by themselves while Ray is still there to see it: what Ray has to end may outlive it.
            ending = [asyncio.wait_for(_call(seat.actor.end.remote), STATE_S) for seat in self._seats if seat.hello]
            await asyncio.gather(*ending, return_exceptions=True)
        for seat in self._seats:
            self._dismiss(seat)

    # one worker

    async def _place(self, seat: Seat) -> None:
        import ray

        options = {"num_cpus": 1, "num_gpus": self._gpus, "max_restarts": 0, "max_task_retries": 0}
        seat.actor = ray.remote(Worker).options(**options, max_concurrency=self._each + 2).remote(self._build)
        try:
            hello: Hello = await self._called(seat.actor.hello.remote)
        except LostWorkerError as lost:
            raise PreflightError(
                f"a worker did not start: {lost}", "Snellen must be installed on every host."
            ) from lost
        own_versions = versions()
        if hello.versions["snellen"] != own_versions["snellen"]:
            raise PreflightError(
                f"{hello.host} has snellen {hello.versions['snellen']}; here it is {own_versions['snellen']}.",
                "Install the same version on all hosts.",
            )
        self._seen_versions.add(tuple(sorted(hello.versions.items())))
        self._nodes.add(hello.node)
        seat.hello = hello

    async def _load(self, seat: Seat) -> None:
        assert seat.hello is not None  # noqa: S101 - it was placed
        beside = sum(other.hello is not None and other.hello.node == seat.hello.node for other in self._seats)
        try:
            outcome: WorkerReply = await self._called(lambda: seat.actor.load.remote(max(1, seat.hello.cpus // beside)))  # type: ignore[union-attr]
        except LostWorkerError as lost:
            raise PreflightError(
                f"a worker on {seat.hello.host} was lost while it loaded: {lost}",
                "If memory ran out, use fewer workers: --nproc.",
            ) from lost
        if outcome.fault is not None:
            error = outcome.fault.error()
            raise type(error)(f"on {seat.hello.host}: {error.message}", error.hint)
        self._check(outcome.value)
        seat.ready, seat.sees_files = True, True
        self._changed()

    async def _on(self, seat: Seat, packed: Packed) -> Any:
        actor = seat.actor
        by_value = not seat.sees_files
        while True:
            request = await asyncio.to_thread(packed, by_value)
            try:
                outcome: WorkerReply = await self._called(lambda request=request: actor.ask.remote(request))  # type: ignore[misc]
            except LostWorkerError as lost:
                self._replace_lost(seat, actor, lost)
                raise
            if outcome.fault is not None:
                raise outcome.fault.error()
            if outcome.value != UNSEEN or by_value:
                return outcome.value
            by_value, seat.sees_files = True, False

    def _replace_lost(self, seat: Seat, actor: Any, lost: LostWorkerError) -> None:
        """Note a lost worker. The first request to notice starts the next worker."""
        if seat.actor is not actor or self._closed:
            return
        self.lost[str(lost)] += 1
        self._dismiss(seat)
        self._background(self._again(seat))
        if not any(other.ready for other in self._seats):
            asyncio.get_running_loop().call_later(ALONE_S, self._give_up_if_idle, time.monotonic())

    async def _again(self, seat: Seat) -> None:
        fault: SnellenError | None = None
        for attempt in range(STARTS):
            await asyncio.sleep(float(attempt))
            try:
                await self._place(seat)
                await self._load(seat)
            except SnellenError as error:
                fault = error
                self._dismiss(seat)
                continue
            return
        seat.abandoned = True
        if all(other.abandoned for other in self._seats):
            self._end(
                WorkersGoneError(
                    f"all {self.size} workers were lost, and none could be restarted: {fault and fault.message}",
                    "All answers so far are recorded. Run the same command again to resume.",
                )
            )

    async def _join(self, seat: Seat, placing: asyncio.Task[None]) -> None:
        try:
            await placing
            await self._load(seat)
        except SnellenError:
            self._dismiss(seat)
            await self._again(seat)

    def _dismiss(self, seat: Seat) -> None:
        import ray

        actor, seat.actor, seat.ready, seat.hello = seat.actor, None, False, None
        if actor is not None:
            with contextlib.suppress(Exception):  # it may be gone, or Ray itself
                ray.kill(actor)
        self._changed()

    def _give_up_if_idle(self, since: float) -> None:
        # One that was placed is loading, and may take its time.
        if self._closed or any(seat.ready or seat.hello is not None for seat in self._seats):
            return
        self._end(
            WorkersGoneError(
                f"all {self.size} workers were lost, and Ray has had no room for another for {time.monotonic() - since:.0f} seconds",
                "All answers so far are recorded. Run the same command again once there are hosts.",
            )
        )

    # sharing out

    async def _free(self) -> Seat:
        """Take a place in the least busy worker with room, as soon as there is one."""
        if self._over is not None:
            raise self._over
        if not self._waiting and (seat := self._least_busy()) is not None:
            seat.flying += 1
            return seat
        waiter: asyncio.Future[Seat] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._leave(waiter.result())
            raise

    def _leave(self, seat: Seat) -> None:
        seat.flying -= 1
        self._changed()

    def _least_busy(self) -> Seat | None:
        free = [seat for seat in self._seats if seat.ready and not seat.reserved and seat.flying < self._each]
        return min(free, key=lambda seat: seat.flying, default=None)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[Seat]:
        """Reserve a worker for a single request. One at a time; others may wait for it."""
        self._suspects += 1
        try:
            async with self._one_suspect:
                seat = await self._emptied()
                seat.flying += 1
                try:
                    yield seat
                finally:
                    self._leave(seat)
        finally:
            self._suspects -= 1
            if self._suspects == 0 and self._kept is not None:
                self._kept.reserved, self._kept = False, None
                self._changed()

    async def _emptied(self) -> Seat:
        while True:
            if self._over is not None:
                raise self._over
            if self._kept is None or not self._kept.ready:
                if self._kept is not None:
                    self._kept.reserved = False
                self._kept = min(
                    (seat for seat in self._seats if seat.ready), key=lambda seat: seat.flying, default=None
                )
            if self._kept is not None:
                self._kept.reserved = True
                if self._kept.flying == 0:
                    return self._kept
            watch: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._watching.append(watch)
            await watch

    def _changed(self) -> None:
        while self._waiting and (seat := self._least_busy()) is not None:
            waiter = self._waiting.popleft()
            if not waiter.done():
                seat.flying += 1
                waiter.set_result(seat)
        watching, self._watching = self._watching, []
        for watch in watching:
            if not watch.done():
                watch.set_result(None)

    async def _watch(self) -> None:
        """End the work if our own Ray is dead: a call of a worker would wait for ever."""
        while not self._closed:
            if how := await asyncio.to_thread(self._cluster.ended):
                self._end(
                    WorkersGoneError(
                        f"the Ray that this run started is gone: its {how}",
                        "All answers so far are recorded. Run the same command again to resume.",
                    )
                )
                return
            await asyncio.sleep(WATCH_S)

    async def _called(self, remote: Callable[[], Any]) -> Any:
        """Call as `_call`, but not beyond the end of the work. Raise WorkersGoneError then."""
        call, ended = asyncio.ensure_future(_call(remote)), asyncio.ensure_future(self._ended.wait())
        try:
            await asyncio.wait((call, ended), return_when=asyncio.FIRST_COMPLETED)
            if self._over is not None and not call.done():
                raise self._over
            return await call
        finally:
            call.cancel()
            ended.cancel()

    def _end(self, error: WorkersGoneError) -> None:
        self._over = self._over or error
        self._ended.set()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(self._over)
        self._changed()

    def _background(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _first(loaded: Any) -> None:
        """Return the outcome of a task; raise its error as it is."""
        await loaded


async def _call(remote: Callable[[], Any]) -> Any:
    """Return the result of an actor's call. Raise LostWorkerError if the actor, its host or its answer is gone."""
    from ray import exceptions

    try:
        return await remote()
    except exceptions.RayTaskError as error:  # a fault in Snellen, or an answer that cannot be pickled
        raise WorkerLostError(f"the worker failed: {_last_line(error)}") from error
    except exceptions.RayError as error:
        unreachable = isinstance(error, exceptions.ActorUnavailableError)
        raise LostWorkerError(UNREACHED if unreachable else _why(error)) from error


UNREACHED = "it no longer answers"
UNEXPECTED_END = (
    "its process ended unexpectedly: by a signal (kill -9, or the kernel's for lack of memory), or by a crash"
)


def _why(error: BaseException) -> str:
    """Say why a worker is gone, from Ray's message. Ray does not see the signal that ended a process, and guesses."""
    from ray import exceptions

    message = str(error)
    if isinstance(error, exceptions.OutOfMemoryError):
        return "out of memory"
    for words, meaning in (
        ("low on memory", "out of memory"),
        ("NODE_OUT_OF_MEMORY", "out of memory"),
        ("unexpectedly exits", UNEXPECTED_END),
        ("node has died", "its host is gone"),
        ("creation task", _last_line(error)),
        ("process has died", UNEXPECTED_END),
        ("node", "its host is gone"),
        ("process", UNEXPECTED_END),
    ):
        if words in message:
            return meaning
    return one_paragraph(error)


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
