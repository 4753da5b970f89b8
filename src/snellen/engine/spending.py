"""Budget of a run: what was spent over all its sessions, and what the requests in flight may cost.

Before a request is sent, its expected cost is set aside. A request that no longer fits waits until the replies in flight
have said what they cost; if it does not fit then either, the run ends. So a run with many requests in flight does not
overshoot its budget by all of them.
"""

from __future__ import annotations

import asyncio
from collections import deque

from snellen.engine.run_folder import RunSpec, Totals
from snellen.errors import BudgetError
from snellen.models.api.prices import Price
from snellen.models.base import Model, effective
from snellen.models.image_tokens import TOKENS_OF_UNKNOWN_SIZE
from snellen.types import Prompt, Record, Text, Video

RECENT = 32
"""A request is expected to cost as much as the dearest of this many answers before it."""
CHARACTERS_A_TOKEN, TOKENS_A_REPLY = 4, 500
"""Guess for the first request, of which nothing is known but its prompt."""
TRUST_IN_GUESS = 10
"""Factor by which the guess may be too low; until a reply has said its cost, no more is in flight than that allows."""
ROUNDING = 1e-9
"""Dollars by which sums of costs may differ from the budget by rounding."""


def spent_text(tokens: int, cost: float, max_tokens: int | None, max_cost: float | None) -> str:
    """Format what was spent, each with its bound in dollars or tokens: `1,736 tokens, $0.0098 of $0.01`."""
    of_tokens = "" if max_tokens is None else f" of {max_tokens:,}"
    return f"{tokens:,}{of_tokens} tokens, ${cost:.4f}" + ("" if max_cost is None else f" of ${max_cost:g}")


class SpendingLimit:
    """Bounds on a run's cost and tokens, over all its sessions.

    Every request is begun by `reserve` and ended by `settle`.

    Attributes:
        limited: there is a bound.
        spent: no further request may be sent.
        unpriced: a reply came without a cost, so that the cost cannot be bounded.
        refused: a question was not sent for want of budget.
    """

    def __init__(self, spec: RunSpec, before: Totals, model: Model | None = None) -> None:
        self._max_cost = spec.max_cost
        self._max_tokens = spec.max_tokens_total
        self._generation = spec.options.generation
        self._price = model.price if model is not None and isinstance(model.price, Price) else None
        self._cost = before.cost or 0.0
        self._tokens = before.input_tokens + before.output_tokens
        self._recent: deque[float] = deque(maxlen=RECENT)
        if before.cost and before.ok:
            self._recent.append(before.cost / before.ok)
        self._reserved, self._in_flight = 0.0, 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._next = 0.0
        self.limited = spec.max_cost is not None or spec.max_tokens_total is not None
        self.unpriced = self.refused = False
        self.spent = self._used_up()

    async def reserve(self, prompt: Prompt) -> float | None:
        """Set aside the expected cost of a request, in dollars; wait for replies in flight if it does not fit.

        Returns None if the request must not be sent: it does not fit, or the run ends.
        """
        if self._max_cost is None:
            return 0.0
        while not self.spent and not self._closed:
            expected = self._expected(prompt)
            if self._fits(expected, self._max_cost):
                self._reserved += expected
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

    def settle(self, reserved: float, record: Record | None) -> None:
        """Replace what was set aside by what was spent; None: the request was never sent."""
        if self._max_cost is not None:
            self._reserved -= reserved
            self._in_flight -= 1
            if not self._in_flight:
                self._reserved = 0.0  # sums of fractions leave a rest
        if record is not None:
            self._spend(record)
        self._wake()

    def close(self) -> None:
        """Let all that wait for budget end."""
        self._closed = True
        self._wake()

    def check(self) -> None:
        """Raise BudgetError if the budget is used up, or cannot be kept."""
        if self.unpriced:
            raise BudgetError(
                "--max-cost was given, but no price is known for this model, so its cost cannot be bounded",
                "Add it to a price file (--prices FILE), or use --max-tokens-total.",
            )
        if self.spent:
            dearer = f"; the next request may cost ${self._next:.4f}" if self._next else ""
            raise BudgetError(
                f"the budget is used up: {spent_text(self._tokens, self._cost, self._max_tokens, self._max_cost)}{dearer}",
                "All answers so far are recorded. Run the same command with a larger budget to resume.",
            )

    def _spend(self, record: Record) -> None:
        if not self.limited or record.response is None:
            return
        usage = record.response.usage
        self._tokens += usage.input_tokens + usage.output_tokens
        self._cost += usage.cost or 0.0
        if usage.cost is not None:
            self._recent.append(usage.cost)
        elif record.status == "ok":  # a refusal may come without any usage
            self.unpriced = self.unpriced or self._max_cost is not None
        self.spent = self.spent or self.unpriced or self._used_up()

    def _expected(self, prompt: Prompt) -> float:
        """Return the expected cost of a request, in dollars."""
        if self._recent:
            return max(self._recent)
        if self._price is None:
            return 0.0
        tokens = len(prompt.system) // CHARACTERS_A_TOKEN
        for part in prompt.conversation_parts:
            if isinstance(part, Text):
                tokens += len(part.text) // CHARACTERS_A_TOKEN
            else:
                tokens += TOKENS_OF_UNKNOWN_SIZE * (8 if isinstance(part, Video) else 1)
        limit = effective(self._generation, prompt.generation).max_tokens
        return self._price.cost(tokens, TOKENS_A_REPLY if limit is None else min(limit, TOKENS_A_REPLY))

    def _fits(self, expected: float, bound: float) -> bool:
        """Return True if a request of this cost may be sent now."""
        if self._recent:
            # What is in flight was set aside by a guess, or before a dearer reply: it is counted as what is known now.
            in_flight = max(self._reserved, self._in_flight * expected)
            return self._cost + in_flight + expected <= bound + ROUNDING
        # Nothing is known but a guess: the first request is sent whatever it may cost, since its reply replaces the guess.
        return not self._in_flight or (self._reserved + expected) * TRUST_IN_GUESS <= bound - self._cost

    def _used_up(self) -> bool:
        over_tokens = self._max_tokens is not None and self._tokens >= self._max_tokens
        over_cost = self._max_cost is not None and self._cost >= self._max_cost
        return over_tokens or over_cost

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
