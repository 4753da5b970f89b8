"""Early stopping of a run: signals, repeated failures, and budgets of dollars and tokens.

A budget holds over all sessions of a run. Before a request is sent, its expected cost is set aside. A request that no
longer fits waits until the replies in flight have said what they cost; if it does not fit then either, the run ends. So
a run with many requests in flight does not overshoot its budget by all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Any

from snellen import exit_signals
from snellen.engine.image_refusals import PROBE_SIDE, has_images, refuses_images
from snellen.engine.progress import Progress
from snellen.engine.questions import Ask, Outcome, Question
from snellen.engine.request_errors import WITHOUT_VISION, advice
from snellen.engine.run_folder import RunFolder, RunSpec, Totals
from snellen.errors import BudgetError, KeyRefusedError, NoCreditError, TooManyFailuresError, UsageError
from snellen.models.api.prices import Price
from snellen.models.base import Model, effective
from snellen.models.image_tokens import TOKENS_OF_UNKNOWN_SIZE
from snellen.models.registry import KINDS, runtime_of
from snellen.types import Prompt, Record, Sample, Text, Video

RECENT = 32
"""A request is expected to cost as much as the dearest of this many answers before it."""
CHARACTERS_A_TOKEN, TOKENS_A_REPLY = 4, 500
"""Guess for the first request, of which nothing is known but its prompt."""
TRUST_IN_GUESS = 10
"""Factor by which the guess may be too low; until a reply has said its cost, no more is in flight than that allows."""
FIRST_ROWS = 50
"""Rows of the first batch under a budget, before the cost of an answer is known."""
ROUNDING = 1e-9
"""Dollars by which sums of costs may differ from the budget by rounding."""


class Stop:
    """Request to stop: the first drains the requests in flight, the second gives them up."""

    def __init__(self, progress: Progress) -> None:
        self.interrupted = False
        self.tasks: list[asyncio.Task[None]] = []
        self.on_request: Callable[[], None] | None = None
        self._wanted = False
        self._event = asyncio.Event()
        self._progress = progress

    def requested(self) -> bool:
        return self._wanted

    def request(self) -> None:
        self._wanted = True
        self._event.set()
        if self.on_request is not None:
            self.on_request()

    async def run_all(self, coroutines: Iterable[Coroutine[Any, Any, None]]) -> None:
        """Run all coroutines to the end; the first failure cancels the others and is raised as it is."""
        self.tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
        tasks = self.tasks
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                if not task.cancelled() and (failure := task.exception()) is not None:
                    raise failure
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def pause(self, seconds: float) -> bool:
        """Wait this long, or until a stop is requested. Return True if the wait was complete."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return True
        return False

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let Ctrl-C and the signals of `exit_signals` request a stop; only the main thread of a program receives them.

        Of several runs in one loop all are stopped.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        _listening.append(self)
        try:
            with _on_signals() if len(_listening) == 1 else contextlib.nullcontext():
                yield
        finally:
            _listening.remove(self)

    def interrupt(self) -> None:
        """Drain the requests in flight; called again, give them up."""
        if self.interrupted:
            for task in self.tasks:
                task.cancel()
        self.interrupted = True
        self.request()
        self._progress.note = (
            f"stopping ({exit_signals.by_what()}) after the pending requests; press Ctrl-C again to quit now"
        )


_listening: list[Stop] = []
"""Stops that a signal reaches: of one run, or of a plan and its runs, in which case the plan's is the first and the last."""


@contextlib.contextmanager
def _on_signals() -> Iterator[None]:
    loop = asyncio.get_running_loop()
    heard = {signal.SIGINT, signal.SIGTERM, *exit_signals.free_to_end()}
    before = {number: signal.getsignal(number) for number in heard}
    for number in before:
        loop.add_signal_handler(number, _signalled, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)  # leaves the default, which for SIGTERM is a sudden end
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _signalled(number: int) -> None:
    exit_signals.note(number)
    for stop in list(_listening):
        stop.interrupt()


def require_price(spec: RunSpec, model: Model) -> None:
    """Refuse a bound on dollars for a model without a price, before the first token is paid for.

    Only the package's own kinds are held to it: another model may put a cost on its replies by itself, and is stopped at
    the first one that has none.

    Raises:
        UsageError: there is a bound, and no price.
    """
    kind = spec.model.partition(":")[0]
    if spec.max_cost is None or spec.options.prices or model.price is not None or kind not in KINDS:
        return
    if not runtime_of(kind).priced:
        raise UsageError(
            f"--max-cost {spec.max_cost:g} was given, and {spec.model} has no price",
            "Omit --max-cost, or use --max-tokens-total.",
        )
    raise UsageError(
        f"--max-cost {spec.max_cost:g} was given, and no price of {spec.model} is known: it is not in the table of prices. "
        "No request was sent",
        "Name a price file (--prices FILE, see `snellen --help cost`), or use --max-tokens-total.",
    )


class FailureLimit:
    """Stop for a run in which everything fails, so that a dead server does not cost a night.

    It is stopped after `most` failures in a row, after three in a row for want of credit or because the key is not accepted
    any more (401), and as soon as one sample has waited out its patience while the server answered nobody. After three
    samples whose images are refused while none with images was answered, `doubts_vision` asks for a test: it is stopped if
    a plain image is refused too.

    Attributes:
        sees: the server has answered a sample with images; whether another has images does not matter then.
    """

    MOST_WITHOUT_CREDIT = 3
    MOST_WITHOUT_KEY = 3
    MOST_WITHOUT_VISION = 3

    def __init__(
        self,
        limit: int,
        patience_s: float,
        answered_before: Callable[[], bool],
        refusal: Callable[[], Awaitable[str | None]],
    ) -> None:
        """Begin to count.

        Args:
            limit: maximum number of failures in a row.
            patience_s: time in which the server may answer nobody.
            answered_before: tells whether the run's folder holds an answer to a sample with images.
            refusal: sends a plain image; returns the words of a refusal, "" for an answer, None where that is not known.
        """
        self._most = limit
        self._patience_s = patience_s
        self._answered_before, self._refusal = answered_before, refusal
        self._row = 0
        self._without_credit = 0
        self._without_key = 0
        self._without_vision = 0
        self.sees = False
        self._blind = ""
        self._tests_vision = False
        self._silent = False
        self._last: Record | None = None

    @property
    def broken(self) -> bool:
        return (
            self._silent
            or self._row >= self._most
            or self._without_credit >= self.MOST_WITHOUT_CREDIT
            or self._without_key >= self.MOST_WITHOUT_KEY
            or bool(self._blind)
        )

    @property
    def doubts_vision(self) -> bool:
        return self._without_vision >= self.MOST_WITHOUT_VISION and not (self.sees or self.broken or self._tests_vision)

    async def test_vision(self) -> None:
        """Find out whether the model takes images: by an answer of an earlier session, else by a plain image."""
        self._tests_vision = True
        words = "" if self._answered_before() else await self._refusal()
        self._tests_vision, self._without_vision = False, 0  # an outcome that says nothing waits for three more
        self.sees = self.sees or words == ""
        self._blind = words if words and not self.sees else ""

    def add(self, sample: Sample, outcome: Outcome) -> None:
        """Count the outcome of one sample.

        Once broken, the run stays so: answers to what was in flight then change nothing.
        """
        if self.broken:
            return
        record, error = outcome.record, outcome.error
        images = not self.sees and has_images(sample)
        self._silent = self._silent or outcome.silent
        self._without_credit = self._without_credit + 1 if isinstance(error, NoCreditError) else 0
        self._without_key = self._without_key + 1 if isinstance(error, KeyRefusedError) else 0
        if record.status in ("ok", "refused"):
            self._row = 0
            self.sees = self.sees or images
        elif record.error is None or record.error.kind != "no_answer":  # a file that lacks answers is not a dead server
            self._row += 1
            self._last = record
            if images and not self.sees and record.error is not None and refuses_images(record.error.message):
                self._without_vision += 1

    def check(self, folder: RunFolder) -> None:
        if not self.broken or self._last is None or self._last.error is None:
            return
        again = f"The failed samples are recorded in {folder.path}; the same command runs them again."
        if self._silent:
            raise TooManyFailuresError(
                f"stopped: the server took no request for {self._patience_s:g} s (--patience), the last answer was "
                f"{self._last.error.kind}: {self._last.error.message}",
                f"All answers so far are recorded in {folder.path}. Run the same command again when the server is up, or "
                "with a larger --patience.",
            )
        if self._without_credit >= self.MOST_WITHOUT_CREDIT:
            raise TooManyFailuresError(
                f"stopped: the account has no credit or quota left: {self._last.error.message}",
                f"Top it up, or wait until the quota is renewed. {again}",
            )
        if self._without_key >= self.MOST_WITHOUT_KEY:
            raise TooManyFailuresError(
                f"stopped: the server does not accept the key: {self._last.error.message}",
                f"Set the variable of the key to one that is accepted. {again}",
            )
        if self._blind:
            raise TooManyFailuresError(
                f"stopped: the server refuses images, a plain one of {PROBE_SIDE} x {PROBE_SIDE} pixels too, and has answered no "
                f"sample with images: {self._last.error.message}",
                f"{WITHOUT_VISION} {again}",
            )
        raise TooManyFailuresError(
            f"stopped: {self._row:,} samples in a row failed, the last with {self._last.error.kind}: {self._last.error.message}",
            f"{advice(self._last.error.kind, self._last.error.message)} {again}",
        )


def spent_text(tokens: int, cost: float, max_tokens: int | None, max_cost: float | None) -> str:
    """Format what was spent, each with its bound in dollars or tokens: `1,736 tokens, $0.0098 of $0.01`."""
    of_tokens = "" if max_tokens is None else f" of {max_tokens:,}"
    return f"{tokens:,}{of_tokens} tokens, ${cost:.4f}" + ("" if max_cost is None else f" of ${max_cost:g}")


def require_budget(spent: str, *, unpriced: bool) -> None:
    """Raise BudgetError where a bound on dollars has no price, or where `spent` says what was used up ("" while there is room)."""
    if unpriced:
        raise BudgetError(
            "--max-cost was given, but the cost of an answer is not known, so that it cannot be bounded: the model has no price, "
            "or the server does not count all tokens",
            "Add the model to a price file (--prices FILE), or bound the run with --limit and --max-tokens.",
        )
    if spent:
        raise BudgetError(
            f"the budget is used up: {spent}",
            "All answers so far are recorded. Run the same command with a larger budget to resume.",
        )


class _Bound:
    """A bound on dollars or tokens: what was used, what is set aside, and what the latest answers used."""

    def __init__(self, most: float, used: float, answers: int, recent: Iterable[float] = ()) -> None:
        self.most, self.used, self.reserved = most, used, 0.0
        self.recent: deque[float] = deque(recent, maxlen=RECENT)
        if used and answers and not self.recent:
            self.recent.append(used / answers)

    @property
    def is_used_up(self) -> bool:
        return self.used >= self.most

    def fits(self, expected: float, in_flight: int) -> bool:
        """Return True if a request that is expected to use this may be sent now."""
        if self.recent:
            # What is in flight was set aside by a guess, or before a dearer reply: it is counted as what is known now.
            reserved = max(self.reserved, in_flight * expected)
            return self.used + reserved + expected <= self.most + ROUNDING
        # Nothing is known but a guess: the first request is sent whatever it may use, since its reply replaces the guess.
        return not in_flight or (self.reserved + expected) * TRUST_IN_GUESS <= self.most - self.used


class SpendingLimit:
    """Bounds on a run's cost and tokens, over all its sessions.

    Every request is begun by `reserve` and ended by `settle`; of batches, records are counted by `spend`.

    Attributes:
        limited: there is a bound.
        spent: no further request may be sent.
        unpriced: a reply came without a cost, or with a part of it, so that the cost cannot be bounded.
        refused: a question was not sent for want of budget.
    """

    def __init__(self, spec: RunSpec, before: Totals, model: Model | None = None, recent: Iterable[float] = ()) -> None:
        """Count what earlier sessions have spent.

        Args:
            spec: names the bounds.
            before: totals of earlier sessions.
            model: gives the price of the first request.
            recent: costs of the latest answers of earlier sessions, in dollars; empty: their mean is taken.
        """
        self._max_cost, self._max_tokens = spec.max_cost, spec.max_tokens_total
        self._generation = spec.options.generation
        self._price = model.price if model is not None and isinstance(model.price, Price) else None
        self._cost, self._tokens = before.cost or 0.0, before.input_tokens + before.output_tokens
        self._answers = before.done
        self._dollars = None if spec.max_cost is None else _Bound(spec.max_cost, self._cost, before.ok, recent)
        tokens = spec.max_tokens_total
        self._of_tokens = None if tokens is None else _Bound(tokens, self._tokens, before.ok)
        self._bounds = [bound for bound in (self._dollars, self._of_tokens) if bound is not None]
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._next: tuple[float, ...] = ()
        self.limited = bool(self._bounds)
        self.unpriced = self.refused = False
        self.spent = self._used_up()

    async def reserve(self, prompt: Prompt) -> tuple[float, ...] | None:
        """Set aside what a request is expected to use of each bound; wait for replies in flight if it does not fit.

        Returns None if the request must not be sent: it does not fit, or the run ends.
        """
        while not self.limited or (not self.spent and not self._closed):
            expected = tuple(self._expected(bound, prompt) for bound in self._bounds)
            if all(bound.fits(each, self._in_flight) for bound, each in zip(self._bounds, expected, strict=True)):
                for bound, each in zip(self._bounds, expected, strict=True):
                    bound.reserved += each
                self._in_flight += 1
                return expected
            if not self._in_flight:
                self._next = expected
                self.spent = True
                break
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn
        self.refused = True
        return None

    def settle(self, reserved: tuple[float, ...], record: Record | None) -> None:
        """Replace what was set aside by what was spent; None: the request was never sent."""
        self._in_flight -= 1
        for bound, each in zip(self._bounds, reserved, strict=True):
            # Sums of fractions leave a rest.
            bound.reserved = bound.reserved - each if self._in_flight else 0.0
        if record is not None:
            self.spend(record)
        self._wake()

    def close(self) -> None:
        """Let all that wait for budget end."""
        self._closed = True
        self._wake()

    def check(self) -> None:
        """Raise BudgetError if the budget is used up, or cannot be kept."""
        parts = zip(self._bounds, self._next, strict=True) if self._next else ()
        words = [f"${each:.4f}" if bound is self._dollars else f"{each:,.0f} tokens" for bound, each in parts]
        dearer = f"; the next request may cost {' and '.join(words)}" if words else ""
        spent = spent_text(self._tokens, self._cost, self._max_tokens, self._max_cost) + dearer
        require_budget(spent if self.spent else "", unpriced=self.unpriced)

    def rows(self) -> int | None:
        """Return how many further answers the rest of the budget pays for, at the average of those so far; None: any number.

        What a batch holds is paid for as a whole, so the budget decides how many rows it has.
        """
        if not self.limited:
            return None
        shares = [(bound.most - bound.used) / bound.used for bound in self._bounds if bound.used]
        return max(1, int(min(shares) * self._answers)) if shares and self._answers else FIRST_ROWS

    def spend(self, record: Record) -> None:
        """Count what one record has cost."""
        if not self.limited or record.response is None:
            return
        usage = record.response.usage
        self._answers += 1
        tokens = usage.input_tokens + usage.output_tokens
        self._tokens += tokens
        self._cost += usage.cost or 0.0
        if self._of_tokens is not None:
            self._of_tokens.used = self._tokens
            if tokens:
                self._of_tokens.recent.append(tokens)
        if self._dollars is not None:
            self._dollars.used = self._cost
            if usage.cost is not None and not usage.lacks:
                self._dollars.recent.append(usage.cost)
            elif record.status == "ok":  # a refusal may come without any usage
                self.unpriced = True
        self.spent = self.spent or self.unpriced or self._used_up()

    def _expected(self, bound: _Bound, prompt: Prompt) -> float:
        """Return what a request is expected to use of a bound, in its unit."""
        if bound.recent:
            return max(bound.recent)
        if bound is self._dollars and self._price is None:
            return 0.0
        tokens = len(prompt.system) // CHARACTERS_A_TOKEN
        for part in prompt.conversation_parts:
            if isinstance(part, Text):
                tokens += len(part.text) // CHARACTERS_A_TOKEN
            else:
                tokens += TOKENS_OF_UNKNOWN_SIZE * (8 if isinstance(part, Video) else 1)
        limit = effective(self._generation, prompt.generation).max_tokens
        reply = TOKENS_A_REPLY if limit is None else min(limit, TOKENS_A_REPLY)
        return self._price.cost(tokens, reply) if bound is self._dollars and self._price else float(tokens + reply)

    def _used_up(self) -> bool:
        return any(bound.is_used_up for bound in self._bounds)

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)


def budgeted(ask: Ask, budget: SpendingLimit, stop: Stop) -> Ask:
    """Return a layer that sets a request's cost aside before it is sent; where it does not fit, the run is stopped."""

    async def asked(question: Question) -> Outcome | None:
        reserved = await budget.reserve(question.sample.prompt)
        if reserved is None:  # the budget is used up, or the run ends
            stop.request()
            return None
        outcome = await ask(question)
        budget.settle(reserved, None if outcome is None else outcome.record)
        return outcome

    return asked
