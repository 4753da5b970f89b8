"""The benchmark declaration: where samples come from, how a reply is scored, and how scores are summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from msgspec import Struct

from snellen.errors import UsageError
from snellen.plugin_errors import is_foreign
from snellen.scoring.scores import COUNT_AS_WRONG, Scores
from snellen.types import MediaSettings, Metric, ProcessedImage, Record, Sample, Score

if TYPE_CHECKING:  # every command comes by here, and few of them read or write other people's files
    from snellen.benchmarks.table.benchmark import Table
    from snellen.formats.base import Problems
    from snellen.formats.writers import Writer
    from snellen.scoring.rubric import Rubric


class Data(Struct, frozen=True):
    """The user's settings of the data: where it lies and how it is asked.

    `path` is --data, `images` is --images, `options` are `-o key=value` pairs that a benchmark declares itself,
    `seed` is the run's seed for whatever a benchmark draws (the embedded chart draws the same for the same seed).
    """

    path: Path | None = None
    images: Path | None = None
    options: Mapping[str, str] = {}
    seed: int = 0

    def number(self, option: str, default: int, low: int, high: int) -> int:
        """Return an option that is a whole number from low to high.

        Raises:
            UsageError: the value is something else.
        """
        text = self.options.get(option, str(default))
        if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
            raise UsageError(f"-o {option}={text}: expected a whole number from {low} to {high}.")
        return int(text)

    def flag(self, option: str) -> bool:
        """Return an option that is yes or no (default no).

        Raises:
            UsageError: the value is something else.
        """
        text = self.options.get(option, "no")
        if text not in ("yes", "no"):
            raise UsageError(f"-o {option}={text}: expected yes or no.")
        return text == "yes"

    def require_known(self, benchmark: str, options: Mapping[str, str]) -> None:
        """Raise UsageError for an option that the benchmark does not declare; its `options` are the known ones."""
        unknown = sorted(set(self.options) - set(options))
        if unknown:
            known = ", ".join(options) or "none"
            error = UsageError(f"{benchmark} has no option {unknown[0]!r}", f"Its options for -o: {known}.")
            raise error.near(unknown[0], options, f"{{}}={self.options[unknown[0]]}")


class DataFile(Struct, frozen=True):
    """A file of the user's data: `used` tells whether it is read, and `note` for what, or why not.

    `questions` is the number of its questions; None: not counted.
    """

    name: str
    used: bool
    note: str
    questions: int | None = None


class DataReading(Struct, frozen=True):
    """How the user's data was read: `text` says it in one paragraph.

    Attributes:
        text: size, columns, prompts, and the first rows that are left out.
        rows: how many rows there are.
        samples: how many of them can be asked.
        omitted: the others, each with row, id and reason.
        truncated: (there, known): a declared set is known to have more rows; None: it has not, or nobody says.
    """

    text: str
    rows: int
    samples: int
    omitted: tuple[str, ...] = ()
    truncated: tuple[int, int] | None = None


class ScoredAnswer(NamedTuple):
    """An answer as a growing benchmark sees it, scored under its first profile.

    Attributes:
        status: that of the record: ok, refused, error or timeout.
        verdict: correct, wrong, invalid, error or unscored.
        extracted: what was read from the reply; None where nothing was.
        value: its score; None where it has none.
    """

    status: str
    verdict: str
    extracted: Any
    value: float | None = None


Scorer: TypeAlias = Callable[[Sample, str], Score]
Summary: TypeAlias = Callable[[Scores, str], list[Metric]]
Answered: TypeAlias = Iterator[tuple[Sample, Record]]
ResultReader: TypeAlias = "Callable[[Path, Data, Problems], Answered | None]"
Exporter: TypeAlias = "Writer"


class Judged(Struct, frozen=True):
    """The `question` and `reply` that a judge sees of one answer, where it does not see all of it."""

    question: str
    reply: str


class Headline(Struct, frozen=True):
    """A summary in one line for people (`text`), and as flat figures for the top of summary.json (name to JSON)."""

    text: str
    figures: Mapping[str, Any] = {}


class ModelFacts(Struct, frozen=True):
    """What a summary may know of the model that was asked.

    Attributes:
        name: as typed after `--model`.
        media: what was done to images before they were sent.
        images: sizes before and after the model's own processor, where the run recorded them.
    """

    name: str = ""
    media: MediaSettings = MediaSettings()
    images: tuple[ProcessedImage, ...] = ()


class SummaryDetails(Struct, frozen=True):
    """What a benchmark reports beside its metrics: `fields` for JSON (name to JSON), and `lines` for people."""

    fields: Mapping[str, Any] = {}
    lines: tuple[str, ...] = ()


class Forecast(NamedTuple):
    """How many questions a run is expected to ask, whose questions follow from answers, and how many at most."""

    expected: int
    most: int


class DetailTable(NamedTuple):
    """A table of a profile's details for the terminal.

    Attributes:
        texts: headings of the first columns, which hold words.
        numbers: headings of the other columns.
        rows: one text for each column.
        notes: lines below the table.
    """

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


class PublishedRow(Struct, frozen=True):
    """One row of a published table: `kind` is chance, human or model; `values` stand in the order of the columns."""

    name: str
    kind: str
    values: tuple[float | None, ...]


class Published(Struct, frozen=True):
    """Figures that somebody else published, to be shown beside a run and never as if they had been measured here.

    Attributes:
        title: what the table is called.
        source: paper, table, version.
        columns: headings.
        metrics: for each column the name of this benchmark's metric that it is comparable with.
        profile: the scoring profile under which it is comparable.
        rows: chance first, then human, then models; values are fractions, None where the table has none.
        notes: what a reader must know (averaging rule, known contradictions).
        whole: the table that this is a column of, its metrics called `<benchmark>/<metric>`: runs of one model by several
            of its benchmarks stand there in one line.
        questions: how many questions its figures are over, at least; None where nobody says.
        gold: (metric, revision): which gold answers its column rests on, as the benchmark's `gold` names them.
        against: a metric of the table; a further column holds how far it lies from the human row's. Empty: none.
        numbers: metrics whose values are no fractions: points or counts, shown as they are.
        by: who measured them; empty: the authors, or `source` says it.
        settings: (name, value) as far as a source says it, under the names of a run's settings; and `profile`, `judge`,
            `questions`, and `source`, where that stands.
    """

    title: str
    source: str
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    profile: str
    rows: tuple[PublishedRow, ...]
    notes: tuple[str, ...] = ()
    whole: Published | None = None
    questions: int | None = None
    gold: tuple[tuple[str, str], ...] = ()
    against: str = ""
    numbers: tuple[str, ...] = ()
    by: str = ""
    settings: tuple[tuple[str, Any], ...] = ()

    def text(self, at: int, value: float) -> str:
        """Return a value of a column as it is shown: a fraction in per cent, a number as it is."""
        return f"{value:g}" if self.metrics[at] in self.numbers else f"{100 * value:.2f}"


_RETURNED = {
    "reading": DataReading,
    "headline": Headline,
    "details": SummaryDetails,
    "forecast": Forecast,
    "judged_text": Judged,
}
"""Types of this file that a plug-in's functions return, by the function's field."""
READY_SUMMARY = ("snellen.scoring.scorers", "accuracy")
"""Module and name of the function that makes a summary, compared by name so that numpy is not imported here."""


def undeclared_digest(data: Data) -> str:
    """Stands for a digest that a benchmark does not declare."""
    raise NotImplementedError("a Benchmark replaces it")


def empty_digest(data: Data) -> str:
    """Return the digest of a benchmark without data: all of it follows from its version, its options and the seed."""
    return ""


def needs_no_data(benchmark: Benchmark) -> bool:
    """Return True for a benchmark that draws all of its samples, so that it reads no data."""
    if benchmark.members:
        return all(needs_no_data(member) for member in benchmark.members)
    return benchmark.digest is empty_digest


def _default_digest(benchmark: Benchmark, data: Data) -> str:
    from snellen.benchmarks.data_digest import default_digest  # few benchmarks declare no digest of their own

    return default_digest(benchmark, data)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: declared, not subclassed.

    Attributes:
        name: as users type it, e.g. `chart/creatures`.
        version: raised whenever prompts, targets or ids change; part of the fingerprint.
        samples: yields every sample, lazily and in a fixed order.
        score: profile name to scorer; the first one is the default. A scorer is a pure function of sample and reply.
        summarize: columns of scores to metrics.
        profiles: profile name to one line that says what it is (the docs are tested against these).
        size: how many samples there are, where that is known without making them.
        digest: digest of the data that was read, for the fingerprint; where none is declared, that of the files that the
            user names and of all samples with their gold answers and images (snellen.benchmarks.data_digest).
        options: option name to help text, for `-o`.
        wording: those of the options that change how a question is asked, and not which; runs that differ in them alone are
            compared. What such an option reads beside the data is at the end of the digest.
        restricted: gold never leaves the scorer.
        holds: of a restricted benchmark: whether a file or folder is its whole data, whatever the name.
        about: description, source, licence and citation, shown by `snellen list --long`.
        cluster: what samples of one `group` share, as a word for people: image, pair, scene.
        members: the benchmarks of a suite, empty otherwise.
        results: reads a result file whose rows bring question and gold along (those of the authors' scripts, or of
            another harness): (sample, record) in the order of the file, rows that cannot be used to the Problems; None
            where the file is of another kind, so that its answers are met with `samples` by id.
        files: every file of the user's data, used or not; empty where a benchmark does not tell.
        reading: how the user's data was read, for benchmarks that find that out themselves; None where it is fixed.
        table: the declared or recognised table that its samples come from; None where they come from elsewhere.
        notices: what is odd about the data, one line each (counts that differ from the known ones, halves of pairs).
        rubric: the rubric by which a judge decides this sample; None: its reply is scored without one. A benchmark
            with rubrics is scored from the verdicts of its judged run, and is unscored until there is one.
        judged_text: what a judge sees of this sample and reply, in place of the whole prompt and the whole reply; None:
            there is no answer in the reply, so that no judge is asked, and the scorer says what is wrong with it.
        ruled_correct: whether a rule takes this reply for correct without a judge; used only where the user asks for it
            (`snellen judge --rule`), and marked `judge_source` = `rule`.
        rule_first: what `ruled_correct` takes for correct is always so, without a judge, and the scorer says so.
        judge, reader: models that judge and read replies where the user names none; empty: none.
        judge_profile: the profile in which alone verdicts count, beside others that score the same replies by rules; empty: they
            count in all.
        published_judge: the model that judged for published figures; empty: none, or it is not known.
        faults: what is known to be wrong with harnesses and data, for the report.
        headline: the metrics in one line; None where nothing is figured yet.
        details: what is reported beside the metrics of a profile: from the same scores, the profile's name, and what is known
            of the model. Its fields stand in summary.json and `--json` with the profile, its lines in the terminal.
        tables: goes with `details`: their fields as tables for the terminal, in place of the table of metrics.
        variables: environment variables that stand in for options of `snellen run`, variable to option (`DATA_ZIP` to
            `data`): snellen.cli.environment says which options these may be.
        places: where the authors' own layout has these files, option (`data`, `image`) to patterns relative to the working
            folder, tried in order; used if the option is omitted and no variable names the file.
        published: tables to show beside a run.
        overall: names of the metrics that a suite makes of several members; runs of single members together give them too.
        gold: which published revision of its gold answers some data holds, in words, by the data and the digest that a run
            recorded of it; "" where there is one revision, or nothing tells which this is.
        grow: for a benchmark whose questions depend on answers: returns all questions that are open now, from the answers
            so far (sample id to ScoredAnswer), and none when the run is over. A pure function: the same answers give the
            same questions. `samples` yields the first ones, which depend on no answer. It is called when a group of
            questions has none left that is open; for samples without a group, after each answer.
        sample: goes with `grow`: makes a question from its id alone, and raises a ValueError or LookupError for an id of
            no question.
        examples: the pool of few-shot examples where the user names none, in the form of `--few-shot-from`: `split=dev`, or
            a path. Empty: none is declared.
        gold_reply: the gold answer of a sample as a model should write it, for few-shot examples; None: the first usual form
            that the default profile reads as correct.
        study: what `--system`, `--few-shot`, `--schema` and a control add to the fingerprint of a run; empty without them.
        concealed: texts that records of failures must not hold, and whose requests leave no trace: the gold answers of
            few-shot examples of a restricted benchmark.
        forecast: goes with `grow`: how many questions a run is expected to ask, and how many at most, for `--dry-run`.
        groups: goes with `grow`: how many groups of questions a whole run has; each is a metric, whose coverage is 1 once no
            further question of the group will come. The coverage of a run is the share of those.
        with_media: returns the data of a run for its image settings, and raises a UsageError for settings under which the
            benchmark would measure something else; None: any settings will do.
        exports: format name to a writer of a run in that format, beside those of `snellen.formats.writers`, where it
            says what a writer gets and returns.
        settings: settings of a run that it declares, by name (`repeats`, `temperature`, `top_p`, `max_tokens`); what the
            user chooses comes first.
        unanswered: what the metrics do with samples without an answer, in words that follow "have no answer and". With
            LEFT_OUT the score in the progress line leaves them out too.
    """

    name: str
    version: str
    samples: Callable[[Data], Iterator[Sample]]
    score: Mapping[str, Scorer]
    summarize: Summary
    profiles: Mapping[str, str]
    size: Callable[[Data], int | None] = lambda data: None
    digest: Callable[[Data], str] = undeclared_digest
    options: Mapping[str, str] = field(default_factory=dict)
    wording: frozenset[str] = frozenset()
    restricted: bool = False
    holds: Callable[[Path], bool] = lambda path: False
    about: Mapping[str, str] = field(default_factory=dict)
    members: Sequence[Any] = ()
    results: ResultReader | None = None
    files: Callable[[Data], Sequence[DataFile]] = lambda data: ()
    reading: Callable[[Data], DataReading | None] = lambda data: None
    table: Table | None = None
    notices: Callable[[Data], Sequence[str]] = lambda data: ()
    rubric: Callable[[Sample], Rubric | None] | None = None
    judged_text: Callable[[Sample, str], Judged | None] | None = None
    ruled_correct: Callable[[Sample, str], bool] | None = None
    rule_first: bool = False
    judge: str = ""
    reader: str = ""
    judge_profile: str = ""
    published_judge: str = ""
    faults: Sequence[str] = ()
    headline: Callable[[Sequence[Metric]], Headline | None] | None = None
    details: Callable[[Scores, str, ModelFacts], SummaryDetails] | None = None
    tables: Callable[[Mapping[str, Any]], Sequence[DetailTable]] | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)
    published: Sequence[Published] = ()
    gold: Callable[[Data, str], str] = lambda data, digest: ""
    exports: Mapping[str, Exporter] = field(default_factory=dict)
    grow: Callable[[Data, Mapping[str, ScoredAnswer]], Sequence[Sample]] | None = None
    sample: Callable[[Data, str], Sample] | None = None
    forecast: Callable[[Data], Forecast] | None = None
    groups: Callable[[Data], int] | None = None
    with_media: Callable[[Data, MediaSettings], Data] | None = None
    cluster: str = "group"
    overall: Sequence[str] = ()
    examples: str = ""
    gold_reply: Callable[[Sample], str | None] | None = None
    study: Mapping[str, Any] = field(default_factory=dict)
    concealed: Sequence[str] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    unanswered: str = COUNT_AS_WRONG

    def __post_init__(self) -> None:
        for field_name in ("name", "version"):
            if not isinstance(value := getattr(self, field_name), str) or not value:
                raise TypeError(f"the {field_name} of a Benchmark is {value!r}; a text was expected")
        if not callable(self.samples):
            raise TypeError(
                f"{self.name}: samples is no function; expected def samples(data), which yields each Sample"
            )
        if not isinstance(self.score, Mapping) or not self.score:
            raise TypeError(f"{self.name}: score maps profiles to scorers: write score={{'strict': choice}}")
        if not isinstance(self.profiles, Mapping):
            raise TypeError(
                f"{self.name}: profiles maps profiles to lines: write profiles={{'strict': 'what it reads'}}"
            )
        if self.score.keys() != self.profiles.keys():
            raise ValueError(
                f"{self.name}: score has the profiles {', '.join(self.score)}, and profiles describes "
                f"{', '.join(self.profiles) or 'none'}: name the same in both"
            )
        if (getattr(self.summarize, "__module__", ""), getattr(self.summarize, "__name__", "")) == READY_SUMMARY:
            raise TypeError(f"{self.name}: accuracy returns the summary: write summarize=accuracy()")
        if self.tables is not None and self.details is None:
            raise TypeError(
                f"{self.name}: tables shows what details returns; details(scores, profile, model) is missing"
            )
        if (self.grow is None) != (self.sample is None):
            missing = "sample(data, id)" if self.sample is None else "grow(data, answers)"
            raise TypeError(f"{self.name}: grow and sample go together; {missing} is missing")
        if self.digest is undeclared_digest:
            object.__setattr__(self, "digest", lambda data: _default_digest(self, data))
        if self.is_plugin:  # Snellen's own are not checked as they run
            from snellen.benchmarks.plugin_checks import checked_hooks, require_declared
            from snellen.benchmarks.plugin_samples import checked_samples

            require_declared(self)
            for field_name, hook in {"samples": checked_samples(self), **checked_hooks(self, _RETURNED)}.items():
                object.__setattr__(self, field_name, hook)

    @property
    def is_plugin(self) -> bool:
        """Return True for a benchmark that is not Snellen's own."""
        return is_foreign(self.samples)


def checked_data(
    benchmark: Benchmark,
    data: str | Path | None,
    images: str | Path | None,
    options: Mapping[str, str] | None,
    seed: int = 0,
) -> Data:
    """Return the `Data` that a user's arguments name. Raise UsageError for an option that the benchmark does not have."""
    settings = Data(
        path=None if data is None else Path(data),
        images=None if images is None else Path(images),
        options=dict(options or {}),
        seed=seed,
    )
    settings.require_known(benchmark.name, benchmark.options)
    return settings
