"""Answers of a run on their way into another program's file: scored, in the order of the questions, with or without gold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from snellen.engine.run_folder import HUMAN, IMPORTED
from snellen.media import other_pixels
from snellen.models.trace import Step
from snellen.runs import scoring
from snellen.runs.redact import GoldRemoval
from snellen.runs.run import Run
from snellen.runs.scoring import Summary, SummaryBuilder
from snellen.runs.status import Overview, overview
from snellen.runs.trajectories import TraceIndex
from snellen.types import Metric, Record, Sample, Score

ACCURACY = "accuracy"


class ExportSettings(Struct, frozen=True, kw_only=True):
    """Settings of an export, as `snellen export` has them.

    Attributes:
        no_gold: leave out everything that tells a gold answer (snellen.runs.redact); `export` sets it.
        images: embed the images of the questions, where the format has a place for them.
        model_id: the model's name on the hub, `organization/name`; empty: from the run's model.
        organization: who evaluated; empty: not stated.
        relationship: of the evaluator to the model's developer, a word of Every Eval Ever.
        dataset: id of the benchmark's data set on the hub, with `@` and a revision if one is meant; empty: the benchmark's own.
        task: the task of that data set; empty: the benchmark's own.
    """

    no_gold: bool = False
    images: bool = True
    model_id: str = ""
    organization: str = ""
    relationship: str = "other"
    dataset: str = ""
    task: str = ""


class InterchangeAnswer(NamedTuple):
    """One answer with its scores by profile, and the steps of an agent; `position` counts samples from 1."""

    position: int
    sample: Sample
    record: Record
    scores: Mapping[str, Score]
    steps: list[Step]


class ExportSource:
    """The answers of a run for one export, and the metrics over them. Memory does not grow with replies."""

    def __init__(
        self, run: Run, settings: ExportSettings, answers: Iterator[tuple[Sample, Record]], started_at: float
    ) -> None:
        """Take the answers in the order of the questions, and the start of the run in seconds since the epoch."""
        self.run = run
        self.settings = settings
        self.started_at = started_at
        self.unscored = dict.fromkeys(run.benchmark.score, 0)
        self._pairs = answers
        self._builder = SummaryBuilder(run.benchmark, run.benchmark.score, run.verdicts())

    def answers(self) -> Iterator[InterchangeAnswer]:
        """Yield every answer once, without gold if the settings say so. The metrics are complete after the last one."""
        run, removal = self.run, None
        if self.settings.no_gold:
            removal = GoldRemoval(run.benchmark, run.meta.spec.data, self._scored())
        # An agent's trace quotes its sources, and with them the answer, in words that no search finds.
        traces = TraceIndex(run.folder.traces) if self.has_steps and removal is None else None
        position, last_id = 0, None
        for sample, record in self._pairs:
            position += sample.id != last_id
            last_id = sample.id
            scores = self._builder.score(sample, record)
            self._builder.add(sample, record, scores)
            for profile, score in scores.items():
                self.unscored[profile] += score.value is None
            steps = [] if traces is None else traces.steps(sample.id, record.repeat)
            if removal is not None:
                sample, record, scores = removal.public_answer(sample, record, scores, position)
            yield InterchangeAnswer(position, sample, record, scores, steps)

    def _scored(self) -> Iterator[tuple[Sample, Record, Mapping[str, Score]]]:
        for sample, record in self.run.answers():
            yield sample, record, self._builder.score(sample, record)

    @cached_property
    def has_steps(self) -> bool:
        """Return True if the model is an agent or has tools, so that its traces are steps."""
        identity = self.run.meta.identity.get("model")
        return isinstance(identity, Mapping) and (identity.get("kind") == "agent" or "tools" in identity)

    @cached_property
    def expected(self) -> int:
        """Return the number of answers of a complete run."""
        spec = self.run.meta.spec
        return scoring.count(self.run.benchmark, spec.data) * spec.repeats

    @cached_property
    def summary(self) -> Summary:
        """Return the metrics of all answers; use it after the last one."""
        spec = self.run.meta.spec
        return self._builder.build(self.expected, unanswered=scoring.Unanswered(spec.data, spec.repeats))

    @cached_property
    def accuracies(self) -> dict[str, Metric]:
        """Return `accuracy` of each profile: the benchmark's own metric, or else the mean score of all answers."""
        means = self._builder.mean_scores(self.expected, ACCURACY)
        metrics = self.summary.metrics
        return {
            profile: next((metric for metric in metrics[profile] if metric.name == ACCURACY), means[profile])
            for profile in metrics
        }

    @cached_property
    def overview(self) -> Overview:
        """Return the state of the run, and how many answers it was to have."""
        return overview(self.run.folder, self.run.sized_meta)

    @property
    def size(self) -> int:
        """Return the number of samples of the benchmark."""
        return self.expected // self.run.meta.spec.repeats

    def notes(self, *, images: bool) -> list[str]:
        """List what a reader of the files must know: images as the data has them, restricted questions, what is withheld."""
        notes = []
        media = self.run.meta.spec.options.media
        if images and (other_pixels(media)):
            notes.append("images are included as the data has them; the model got them as the run's image settings say")
        if self.settings.no_gold:
            notes.append("gold answers, and replies that tell them, are withheld; the files cannot be scored again")
        if self.restricted:
            notes.append(
                f"the files include questions of {self.run.benchmark.name}, whose licence restricts passing them on"
            )
        return notes

    @property
    def restricted(self) -> bool:
        """Return True if the benchmark's gold answers must not be published."""
        return self.run.benchmark.restricted or self.run.meta.restricted

    @property
    def model(self) -> str:
        """Return the model's name without its kind; of a model in a folder only the folder's own name."""
        return public_model(self.run.meta.spec.model)[1]

    @property
    def model_kind(self) -> str:
        """Return the kind of the model, such as `api`; the name itself for a model without one."""
        return public_model(self.run.meta.spec.model)[0]

    @property
    def own_endpoint(self) -> bool:
        """Return True if no other address was asked than that of the kind itself."""
        return not self.run.meta.spec.options.base_url


def public_model(name: str) -> tuple[str, str]:
    """Split a model's name into kind and name; paths of this machine are cut to their last part.

    >>> public_model("api:org/model"), public_model("embedded"), public_model("local:/data/my-model")
    (('api', 'org/model'), ('embedded', 'embedded'), ('local', 'my-model'))
    """
    kind, colon, rest = name.partition(":")
    if not colon:
        return kind, kind
    if kind in (IMPORTED, HUMAN):
        return kind, rest
    path = Path(rest)
    return kind, path.name if path.is_absolute() or rest.startswith((".", "~")) or "\\" in rest else rest
