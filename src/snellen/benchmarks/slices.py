"""Fields of meta that a benchmark's `accuracy` slices by, looked for in the samples before the first request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from snellen.benchmarks.base import Benchmark
from snellen.benchmarks.plugin_samples import READY
from snellen.errors import DataError
from snellen.scoring.scores import SLICES
from snellen.types import Sample

_ALWAYS = ("kind", "repeat")
_PROBED = 20


class SliceCheck:
    """The fields that no sample has had so far.

    Attributes:
        missing: their names; the check is over once it is empty.
    """

    def __init__(self, benchmark: Benchmark) -> None:
        names = () if benchmark.grow is not None else getattr(benchmark.summarize, SLICES, ())
        self.missing = {name: None for name in names if name not in _ALWAYS}
        self._benchmark = benchmark
        self._unusable: dict[str, tuple[str, Any]] = {}
        self._names: dict[str, None] = {}
        self._seen = 0

    def see(self, sample: Sample) -> None:
        """Look at one more sample."""
        if not self.missing:
            return
        self._seen += 1
        for name, value in sample.meta.items():
            if isinstance(value, str | int | float):
                self.missing.pop(name, None)
                self._names[name] = None
            elif value is not None:
                self._unusable.setdefault(name, (sample.id, value))
        if self.missing and self._seen <= _PROBED:
            for name in self._details(sample):
                self.missing.pop(name, None)

    def _details(self, sample: Sample) -> Iterable[str]:
        """Return what a scorer of the author's own may add as columns: the detail of its scores of made-up replies."""
        own = [scorer for scorer in self._benchmark.score.values() if getattr(scorer, "__module__", "") != READY]
        for scorer in own:
            for reply in ("", str(sample.target)):
                try:
                    detail = scorer(sample, reply).detail
                except Exception:  # noqa: BLE001 - the scorer's mistakes are reported where it scores a real reply
                    detail = {}
                if detail:  # its keys may differ from reply to reply
                    return tuple(self.missing)
        return ()

    def require(self, *, limit: int | None) -> None:
        """Raise DataError for a field that none of the samples has; they are all of a run with this limit."""
        if not self.missing or not self._seen:
            return
        name = next(iter(self.missing))
        run = f"none of the first {self._seen:,} samples" if self._seen == limit else "no sample"
        hint = f"Slice by one of these: {', '.join(dict.fromkeys([*self._names, 'kind']))}."
        if name in self._unusable:
            sample_id, value = self._unusable[name]
            raise DataError(
                f"{self._benchmark.name}: accuracy({name!r}) cannot slice by it: in the meta of sample {sample_id!r} "
                f"{name!r} is {value!r}, a {type(value).__name__}",
                f"A text, a number or a bool can be sliced by: give {name!r} one value per sample. No request was sent.",
            )
        raise DataError(
            f"{self._benchmark.name}: accuracy({name!r}): {run} has {name!r} in its meta",
            f"{hint} Or give the samples this meta. No request was sent.",
        )
