"""What models said of a run's replies: verdicts of a judge and readings of a reader, keyed by record name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snellen.scoring.rubric import Rubric


class Verdicts(Mapping[str, str]):
    """A judge's and a reader's replies by `record_name`; no reply is for both.

    Attributes:
        by: whose verdicts they are, for people; empty without a judge.
        model, folder: the judge and its run; empty for those of a file.
        failures: the commonest error of the judge's run and the command that asks it again; empty without errors.
        rubric: what the judge went by in place of the benchmark's own rubric; None: by that.
        version: digest of the judge's rubric, or of all of them.
        reader, reader_folder: the reader and its run; empty without one.
        cost: of the judge's run in words, or `reader_cost` of the reader's; empty: no price is known.
        readings: the names of the replies that the reader was asked about.
        used: the names that were asked for and found.
    """

    def __init__(
        self,
        texts: Mapping[str, str],
        by: str,
        *,
        model: str = "",
        folder: str = "",
        failures: str = "",
        rubric: Rubric | None = None,
    ) -> None:
        self.by = by
        self.model = model
        self.folder = folder
        self.failures = failures
        self.rubric = rubric
        self.reader = self.reader_folder = self.version = self.cost = self.reader_cost = ""
        self.readings: frozenset[str] = frozenset()
        self.used: set[str] = set()
        self._texts = dict(texts)

    def with_readings(self, read: Verdicts) -> Verdicts:
        """Return these verdicts with a reader's replies about other replies of the run."""
        joined = Verdicts(
            {**read._texts, **self._texts},
            self.by,
            model=self.model,
            folder=self.folder,
            failures=self.failures,
            rubric=self.rubric,
        )
        joined.version, joined.cost, joined.reader_cost = self.version, self.cost, read.cost
        joined.reader, joined.reader_folder = read.model, read.folder
        joined.readings = frozenset(read._texts)
        return joined

    def __getitem__(self, name: str) -> str:
        text = self._texts[name]
        self.used.add(name)
        return text

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
