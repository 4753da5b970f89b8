"""Early stopping: signals, repeated failures, and a bound on dollars without a price."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator

from snellen import exit_signals
from snellen.engine.progress import Progress
from snellen.engine.request_errors import advice, refuses_images
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import KeyRefusedError, ModelError, NoCreditError, TooManyFailuresError, UsageError
from snellen.models.base import Model
from snellen.models.registry import KINDS
from snellen.types import Record

UNPRICED = ("local", "embedded", "replay")
"""Kinds of models that refuse --prices: what they say is not paid for by the token."""


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

    async def pause(self, seconds: float) -> bool:
        """Wait this long, or until a stop is requested. Return True if the wait was complete."""
        try:
            await asyncio.wait_for(self._event.wait(), seconds)
        except TimeoutError:
            return True
        return False

    @contextlib.contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let Ctrl-C, SIGTERM and SIGHUP request a stop; only the main thread of a program receives them.

        SIGHUP that is ignored stays so: `nohup` sets it aside. Of several runs in one loop all are stopped.
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
        self._progress.note = "stopping after the pending requests; press Ctrl-C again to quit now"


_listening: list[Stop] = []
"""Stops that a signal reaches: of one run, or of a plan and its runs, in which case the plan's is the first and the last."""


@contextlib.contextmanager
def _on_signals() -> Iterator[None]:
    loop = asyncio.get_running_loop()
    heard = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heard.append(signal.SIGHUP)
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
    if kind in UNPRICED:
        raise UsageError(
            f"--max-cost {spec.max_cost:g} was given, and {spec.model} has no price",
            "Omit --max-cost, or use --max-tokens-total.",
        )
    raise UsageError(
        f"--max-cost {spec.max_cost:g} was given, and no price of {spec.model} is known: it is not in the table of prices. "
        "No request was sent",
        "Name a price file (--prices FILE, see docs/cost.md), or use --max-tokens-total.",
    )


class FailureLimit:
    """Stop for a run in which everything fails, so that a dead server does not cost a night.

    It is stopped after `most` failures in a row, after three in a row for want of credit or because the key is not accepted
    any more (401), after three samples whose images
    the server refuses while it has answered none with images, and as soon as one sample has waited out its patience
    while the server answered nobody.

    Attributes:
        sees: the server has answered a sample with images; whether another has images does not matter then.
    """

    MOST_WITHOUT_CREDIT = 3
    MOST_WITHOUT_KEY = 3
    MOST_WITHOUT_VISION = 3

    def __init__(self, limit: int, patience_s: float = 0.0) -> None:
        self._most = limit
        self._patience_s = patience_s
        self._row = 0
        self._without_credit = 0
        self._without_key = 0
        self._without_vision = 0
        self.sees = False
        self._silent = False
        self._last: Record | None = None

    @property
    def broken(self) -> bool:
        return (
            self._silent
            or self._row >= self._most
            or self._without_credit >= self.MOST_WITHOUT_CREDIT
            or self._without_key >= self.MOST_WITHOUT_KEY
            or self._blind
        )

    @property
    def _blind(self) -> bool:
        return self._without_vision >= self.MOST_WITHOUT_VISION

    def add(
        self, record: Record, error: ModelError | None = None, *, silent: bool = False, images: bool = False
    ) -> None:
        """Count the outcome of one sample, with `images` in it or without.

        `silent`: the server answered nobody until patience ran out.

        Once broken, the run stays so: answers to what was in flight then change nothing.
        """
        if self.broken:
            return
        self._silent = self._silent or silent
        self._without_credit = self._without_credit + 1 if isinstance(error, NoCreditError) else 0
        self._without_key = self._without_key + 1 if isinstance(error, KeyRefusedError) else 0
        if record.status in ("ok", "refused"):
            self._row = 0
            self.sees = self.sees or images
            self._without_vision = 0 if self.sees else self._without_vision
        elif record.error is None or record.error.kind != "no_answer":  # a file that lacks answers is not a dead server
            self._row += 1
            self._last = record
            if images and not self.sees and record.error is not None and refuses_images(record.error.message):
                self._without_vision += 1

    def check(self, folder: RunFolder) -> None:
        if not self.broken or self._last is None or self._last.error is None:
            return
        again = f"They are recorded in {folder.path} and run again with the same command."
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
                f"stopped: the server refuses images and has answered no sample with images: {self._last.error.message}",
                f"{advice(self._last.error.kind, self._last.error.message)} {again}",
            )
        raise TooManyFailuresError(
            f"stopped: {self._row:,} samples in a row failed, the last with {self._last.error.kind}: {self._last.error.message}",
            f"{advice(self._last.error.kind, self._last.error.message)} {again}",
        )
