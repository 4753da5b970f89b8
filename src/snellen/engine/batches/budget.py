"""Budget of a run by batches. What is sent is paid for as a whole, so the budget decides how many rows a batch has."""

from __future__ import annotations

from snellen.engine.run_folder import RunSpec, Totals
from snellen.engine.stopping import require_budget, spent_text
from snellen.types import Record

FIRST_ROWS = 50
"""Rows of the first batch under a budget, before the cost of an answer is known."""


class BatchBudget:
    """Bounds on a run's cost and tokens, over all its sessions.

    Attributes:
        limited: there is a bound; one batch is sent after the other.
        spent: nothing more may be sent.
        unpriced: an answer came without a cost, or with a part of it, so that the bound on dollars cannot be held.
    """

    def __init__(self, spec: RunSpec, before: Totals) -> None:
        self._max_cost, self._max_tokens = spec.max_cost, spec.max_tokens_total
        self._cost, self._tokens = before.cost or 0.0, before.input_tokens + before.output_tokens
        self._answers = before.done
        self.limited = self._max_cost is not None or self._max_tokens is not None
        self.unpriced = False
        self.spent = self._used_up()

    def spend(self, record: Record) -> None:
        """Count one record."""
        if not self.limited or record.response is None:
            return
        usage = record.response.usage
        self._answers += 1
        self._tokens += usage.input_tokens + usage.output_tokens
        self._cost += usage.cost or 0.0
        self.unpriced = self.unpriced or (self._max_cost is not None and (usage.cost is None or bool(usage.lacks)))
        self.spent = self.unpriced or self._used_up()

    def rows(self) -> int | None:
        """Return how many rows the rest of the budget pays for, at the average of the answers so far; None: any number."""
        if not self.limited:
            return None
        shares = []
        if self._max_cost is not None and self._cost:
            shares.append((self._max_cost - self._cost) / self._cost)
        if self._max_tokens is not None and self._tokens:
            shares.append((self._max_tokens - self._tokens) / self._tokens)
        return max(1, int(min(shares) * self._answers)) if shares and self._answers else FIRST_ROWS

    def check(self) -> None:
        """Raise BudgetError if the budget is used up, or cannot be held."""
        spent = spent_text(self._tokens, self._cost, self._max_tokens, self._max_cost)
        require_budget(spent if self.spent else "", unpriced=self.unpriced)

    def _used_up(self) -> bool:
        over_tokens = self._max_tokens is not None and self._tokens >= self._max_tokens
        over_cost = self._max_cost is not None and self._cost >= self._max_cost
        return over_tokens or over_cost
