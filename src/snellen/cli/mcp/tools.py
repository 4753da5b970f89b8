"""Tools of `snellen mcp`: what a client may ask, and the command line that answers it.

Each tool's arguments are a Struct, which makes its schema and checks what comes. What it answers is what the command
prints with --json, so `snellen schema COMMAND` describes it.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from math import inf
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from snellen.benchmarks.registry import RESTRICTED, find, is_table, with_tasks
from snellen.benchmarks.table.entries import EntryFacts
from snellen.cli.console import environment_fault, tell_unexpected
from snellen.cli.json_output import RunFacts, RunsOutput
from snellen.cli.mcp.children import CALL_BYTES, READ_BYTES, Child, Children, Printed, failure_text
from snellen.cli.mcp.places import Places
from snellen.cli.schema import schema_of, schema_of_type
from snellen.errors import SnellenError, UsageError
from snellen.models.registry import runtime_of
from snellen.models.tools.base import ToolResult
from snellen.models.tools.mcp_server import REPORT, ServedTool
from snellen.redaction import redact

INSTRUCTIONS = (
    "Snellen evaluates vision-language models. Usual order: list, check, run with a budget, status until the run has ended, "
    "score, compare, answers. A run is named by its id, its folder in the folder of the runs."
)
WITH_RESULT = (0, 9, 10, 11)
"""Exit statuses with which a command has printed its result: 9 to 11 say what is wrong with it."""
ROWS_OF_FINDING = 20
CANCEL_S = 10.0
"""Seconds that cancel waits for answers that are on their way."""
BUDGET = (
    "Add at least one of max_samples (questions to ask), max_cost (US dollars) and max_tokens (input and output together), "
    "each above 0. A small one first: max_samples 20. The same call with a larger budget goes on."
)

Word = Annotated[str, Meta(max_length=4_000)]
RunId = Annotated[str, Meta(max_length=4_000, description="Id of a run, as list (what=runs) and run give it.")]


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of a tool."""


class ListArguments(Arguments, frozen=True):
    what: Annotated[
        Literal["benchmarks", "catalogue", "models", "runs"],
        Meta(description="catalogue: benchmarks that are declared, such as mmstar; their data is fetched."),
    ] = "benchmarks"
    words: Annotated[
        list[Word],
        Meta(
            max_length=20,
            description="Benchmarks to describe in full, or words that their lines have; of runs: benchmarks.",
        ),
    ] = []


class CheckArguments(Arguments, frozen=True):
    benchmark: Annotated[Word, Meta(description="A benchmark's name, or a file or folder of questions.")]
    data: Annotated[Word | None, Meta(description="Its data, where the benchmark needs a path.")] = None
    images: Word | None = None
    samples: Annotated[int, Meta(ge=0, le=20, description="Questions to show.")] = 3


class RunArguments(Arguments, frozen=True):
    benchmark: Annotated[Word, Meta(description="A benchmark's name, or a file or folder of questions.")]
    model: Annotated[Word, Meta(description="KIND:NAME, such as embedded, api:NAME, local:NAME or replay:RUN.")]
    max_samples: Annotated[int | None, Meta(description="Budget: questions to ask at most.")] = None
    max_cost: Annotated[float | None, Meta(description="Budget: US dollars.")] = None
    max_tokens: Annotated[int | None, Meta(description="Budget: input and output tokens of the whole run.")] = None
    run: Annotated[Word | None, Meta(description="Id of the run; one that exists is resumed.")] = None
    data: Word | None = None
    images: Word | None = None
    options: Annotated[dict[str, Word], Meta(description="Options of the benchmark; list describes them.")] = {}
    seed: Annotated[int, Meta(ge=0, lt=2**31)] = 0
    temperature: Annotated[float, Meta(ge=0, le=10)] | None = None
    reply_tokens: Annotated[int, Meta(ge=1, le=10**7, description="Tokens of one reply at most.")] | None = None
    wait_seconds: Annotated[float, Meta(ge=0, le=60, description="Seconds to wait for the end before the reply.")] = 5.0


class RunOnlyArguments(Arguments, frozen=True):
    run: RunId


class ScoreArguments(Arguments, frozen=True):
    run: RunId
    profile: Annotated[Word | None, Meta(description="Scoring profile, several by comma, or all.")] = None


class CompareArguments(Arguments, frozen=True):
    runs: Annotated[list[RunId], Meta(min_length=2, max_length=20, description="Runs; the first is the baseline.")]
    profile: Word | None = None
    by: Annotated[list[Word], Meta(max_length=10, description="Slice by these meta columns.")] = []


class QueryArguments(Arguments, frozen=True):
    sql: Annotated[
        str,
        Meta(
            max_length=20_000,
            description="One SELECT of DuckDB over the tables runs, results, scores and metrics. End it with a LIMIT.",
        ),
    ]
    runs: Annotated[list[RunId], Meta(max_length=200, description="Runs; without them all.")] = []


class AnswersArguments(Arguments, frozen=True):
    run: RunId
    verdict: Literal["correct", "wrong", "partial", "invalid", "error", "unscored"] | None = None
    samples: Annotated[list[Word], Meta(max_length=50, description="Ids of samples.")] = []
    limit: Annotated[int, Meta(ge=1, le=50)] = 5
    skip: Annotated[int, Meta(ge=0, le=10**9)] = 0
    pictures: Annotated[int, Meta(ge=0, le=20, description="Pictures to send at most, made smaller.")] = 4
    profile: Word | None = None


class BenchmarkLine(Struct, frozen=True):
    """Benchmark in the short list."""

    name: str
    size: int | None
    about: str


class Listing(Struct, frozen=True, omit_defaults=True):
    """What the tool list answers: `benchmarks` in short or, where they are named, as `snellen list NAME --json` has them."""

    benchmarks: list[dict[str, Any]] | None = None
    models: dict[str, str] | None = None
    catalogue: list[EntryFacts] | None = None
    runs: list[RunFacts] | None = None


class RunStatus(Struct, frozen=True):
    """State of a run.

    `process`: `running`, `ended`, or `none` where this server did not start it. `progress` is the run as `snellen list --runs
    --json` shows it, and `result` what `snellen run --json` printed at its end.
    """

    run: str
    process: Literal["running", "ended", "none"]
    cancelled: bool = False
    exit_status: int | None = None
    error: str | None = None
    progress: RunFacts | None = None
    result: RunsOutput | None = None


class RunDefaults(NamedTuple):
    """What the user settled for all runs of the server."""

    max_cost: float | None = None
    base_url: str | None = None
    key_env: str | None = None


Asked = TypeVar("Asked", bound=Arguments)


class Session:
    """One server's tools: the places that it may read, and its processes."""

    def __init__(self, places: Places, children: Children, defaults: RunDefaults) -> None:
        self._places, self._children, self._defaults = places, children, defaults
        self._reserved: dict[str, float] = {}

    async def listing(self, asked: ListArguments) -> ToolResult:
        """List benchmarks, models or runs."""
        if asked.what == "runs":
            return await self._json(["list", *map(_plain, asked.words), "--runs", f"--results={self._places.results}"])
        if asked.what == "catalogue":
            return await self._json(["list", "catalogue"])
        if asked.words and asked.what == "benchmarks":
            return await self._json(["list", *map(self._places.benchmark, asked.words)])
        listed = await self._json(["list"])
        content = listed.structured or {}
        if asked.what == "models":
            return _structured({"models": content["models"]})
        lines = [
            BenchmarkLine(each["name"], each["size"], each["about"].get("description", ""))
            for each in content["benchmarks"]
        ]
        return _structured({"benchmarks": msgspec.to_builtins(lines)}, "More about one: list with words=[NAME].")

    async def check(self, asked: CheckArguments) -> ToolResult:
        """Check questions before a run."""
        words = ["check", self._places.benchmark(asked.benchmark), *self._data(asked), f"--samples={asked.samples}"]
        checked = await self._json(words)
        content = dict(checked.structured or {})
        content["findings"] = [{**each, "rows": each["rows"][:ROWS_OF_FINDING]} for each in content["findings"]]
        return _structured(content, checked.text)

    async def run(self, asked: RunArguments) -> ToolResult:
        """Start a run within its budget."""
        words = self._run_words(asked)
        await asyncio.to_thread(_require_one_budget, words[1], asked)
        name = asked.run or self._usual_name(asked)
        folder = self._places.new_run(name)
        reserved = self._reserved_for(name, asked)
        child = self._children.start_run(name, [*words, f"--out={folder}"])
        self._reserved[name] = reserved
        await child.wait(asked.wait_seconds, REPORT.get())
        return await self._status(name)

    async def status(self, asked: RunOnlyArguments) -> ToolResult:
        """Follow a run."""
        return await self._status(asked.run)

    async def cancel(self, asked: RunOnlyArguments) -> ToolResult:
        """End a run of this server."""
        child = self._children.runs.get(asked.run)
        if child is None:
            raise UsageError(
                f"run {asked.run!r} was not started by this server", "Cancel a run that the tool run has started."
            )
        child.tell()
        await child.wait(CANCEL_S)
        return await self._status(asked.run)

    async def score(self, asked: ScoreArguments) -> ToolResult:
        """Score a run again."""
        return await self._json(["score", self._places.run(asked.run), *_option("profile", asked.profile)])

    async def compare(self, asked: CompareArguments) -> ToolResult:
        """Compare runs with the first one."""
        by = [f"--by={_plain(column)}" for column in asked.by]
        return await self._json(
            ["compare", *map(self._places.run, asked.runs), *_option("profile", asked.profile), *by]
        )

    async def query(self, asked: QueryArguments) -> ToolResult:
        """Query runs in SQL."""
        from snellen.engine.run_folder import RunFolder, runs_in

        runs = list(map(self._places.run, asked.runs)) or list(map(str, runs_in(self._places.results)))
        if not runs:
            raise UsageError("there are no runs yet", "Start one with the tool run.")
        if re.search(r"\bresults\b", asked.sql, re.IGNORECASE) and any(
            RunFolder(run).meta().restricted for run in runs
        ):
            raise UsageError(
                "the table results has replies, which may quote gold answers that are restricted",
                "Use the tables scores, metrics and runs, or name other runs.",
            )
        return await self._json(["query", "--json", "--", asked.sql, *runs], as_json=False)

    async def answers(self, asked: AnswersArguments) -> ToolResult:
        """Show answers with their pictures."""
        words = ["show", self._places.run(asked.run), f"--limit={asked.limit}", f"--skip={asked.skip}"]
        words += [*_option("verdict", asked.verdict), *_option("profile", asked.profile)]
        words += [*(f"--sample={sample}" for sample in asked.samples), f"--pictures={asked.pictures}"]
        shown = await self._json(words, most=READ_BYTES)
        content = dict(shown.structured or {})
        pictures = content.pop("pictures", [])
        images = tuple(b64decode(picture["data"]) for picture in pictures)
        return _structured(content, shown.text, images)

    async def _status(self, name: str) -> ToolResult:
        child = self._children.runs.get(name)
        folder = self._places.results / name if child is not None else None
        if folder is None:
            folder = self._places.results.joinpath(self._places.run(name))
        progress = None
        if (folder / "run_meta.json").is_file():
            listed = await self._json(["list", "--runs", f"--results={folder}"])
            runs = (listed.structured or {})["runs"]
            progress = next((run for run in runs if run["path"] == str(folder)), None)
        return _structured(msgspec.to_builtins(_status_of(name, child, progress)))

    async def _json(self, words: list[str], *, as_json: bool = True, most: int = CALL_BYTES) -> ToolResult:
        """Run a command line with --json; return its object, with what it says beside it as text.

        Raises:
            UsageError: the command failed; its message and hint.
        """
        printed = await self._children.call([*words, "--json"] if as_json else words, most)
        if printed.status not in WITH_RESULT or not printed.out.strip():
            raise UsageError(failure_text(printed))
        return _structured(_object(printed.out), redact(printed.err.strip()))

    def _data(self, asked: CheckArguments | RunArguments) -> Iterator[str]:
        if asked.data is not None:
            yield f"--data={self._places.data(asked.data, 'data', is_restricted=asked.benchmark in RESTRICTED)}"
        if asked.images is not None:
            yield f"--images={self._places.data(asked.images, 'images')}"

    def _run_words(self, asked: RunArguments) -> list[str]:
        """Return the command line of a run, without its folder. Raises UsageError without a budget."""
        budget = {"limit": asked.max_samples, "max-cost": asked.max_cost, "max-tokens-total": asked.max_tokens}
        given = {name: value for name, value in budget.items() if value is not None}
        if not given or any(not 0 < value < inf for value in given.values()):
            found = "a budget that is no number above 0" if given else "no budget"
            raise UsageError(f"the run has {found}, and was not started", BUDGET)
        words = ["run", self._places.benchmark(asked.benchmark), f"--model={self._places.model(asked.model)}"]
        words += [*self._data(asked), *(f"--{name}={value}" for name, value in given.items())]
        words += [f"--option={_key(key)}={self._places.option(value)}" for key, value in asked.options.items()]
        words += [f"--seed={asked.seed}", *_option("temperature", asked.temperature)]
        words += [*_option("max-tokens", asked.reply_tokens)]
        if asked.model.partition(":")[0] == "api":
            words += [*_option("base-url", self._defaults.base_url), *_option("key-env", self._defaults.key_env)]
        # A judge's requests would be beside the budget.
        return [*words, "--judge=none", "--json"]

    def _usual_name(self, asked: RunArguments) -> str:
        from snellen.engine.run_folder import RunSpec
        from snellen.runs.perform import default_folder

        spec = RunSpec(benchmark=self._places.benchmark(asked.benchmark), model=asked.model)
        return default_folder(spec, self._places.results).name

    def _reserved_for(self, name: str, asked: RunArguments) -> float:
        """Return what to set aside of the server's budget for a run: what it may have spent, where it now asks for less.

        Raises:
            UsageError: too little is left.
        """
        self._reserved = {each: self._set_aside(each) for each in self._reserved}
        most, before = self._defaults.max_cost, self._reserved.get(name, 0.0)
        if most is None or not runtime_of(asked.model).priced:
            return before
        left = most - sum(self._reserved.values()) + before
        if asked.max_cost is None or asked.max_cost > left:
            said = "no max_cost" if asked.max_cost is None else f"max_cost {asked.max_cost:g}"
            raise UsageError(
                f"the run has {said}, and the user allows {left:g} more US dollars to this server",
                f"Add max_cost of at most {left:g}." if left > 0 else "Ask the user: snellen mcp --max-cost USD",
            )
        return max(before, asked.max_cost)

    def _set_aside(self, name: str) -> float:
        """Return what a run may have spent: all of its budget while it goes on or if it was killed, else what it recorded."""
        from snellen.engine.run_folder import RunFolder

        child, reserved = self._children.runs.get(name), self._reserved[name]
        if child is None or child.is_running() or child.printed().status < 0:
            return reserved
        folder = self._places.results / name
        if not (folder / "run_meta.json").is_file():
            return 0.0
        totals = RunFolder(folder).meta().totals
        return min(reserved, totals.cost or 0.0) if totals.cost is not None or not totals.done else reserved


def served_tools(places: Places, children: Children, defaults: RunDefaults) -> list[ServedTool]:
    """Return the tools of a server."""
    session = Session(places, children, defaults)
    status = schema_of_type(RunStatus)
    shown = schema_of("show")
    return [
        _tool(
            "list",
            "List benchmarks, the catalogue of declared ones, kinds of models, or runs.",
            ListArguments,
            session.listing,
            schema_of_type(Listing),
        ),
        _tool(
            "check",
            "Check a file of questions or a benchmark before a run: how it is read, what is odd, its tokens. Asks no model.",
            CheckArguments,
            session.check,
            schema_of("check"),
        ),
        _tool(
            "run",
            "Start or resume a run of a benchmark with a model, in the background. Needs a budget: max_samples, max_cost or "
            "max_tokens. Follow it with status.",
            RunArguments,
            session.run,
            status,
            read_only=False,
        ),
        _tool(
            "status",
            "Follow a run: its progress, and its result once it has ended.",
            RunOnlyArguments,
            session.status,
            status,
        ),
        _tool(
            "cancel",
            "End a run of this server. What was answered stays, and the same call of run resumes it.",
            RunOnlyArguments,
            session.cancel,
            status,
            read_only=False,
        ),
        _tool("score", "Score a run again, under any profile.", ScoreArguments, session.score, schema_of("score")),
        _tool(
            "compare",
            "Compare runs sample by sample with the first: differences with intervals and p-values.",
            CompareArguments,
            session.compare,
            schema_of("compare"),
        ),
        _tool("query", "Query runs in SQL.", QueryArguments, session.query, schema_of("query")),
        _tool(
            "answers",
            "Show answers of a run: question, reply, gold answer where it may be shown, verdict, and the pictures.",
            AnswersArguments,
            session.answers,
            shown,
        ),
    ]


def _tool(
    name: str,
    about: str,
    arguments: type[Asked],
    answer: Callable[[Asked], Awaitable[ToolResult]],
    output: Mapping[str, Any],
    *,
    read_only: bool = True,
) -> ServedTool:
    async def call(words: Any) -> ToolResult:
        try:
            return await answer(msgspec.convert(words or {}, arguments))
        except msgspec.ValidationError as error:
            return ToolResult(f"the arguments of {name} are not as its schema says: {error}", error=True)
        except SnellenError as error:
            return ToolResult(redact(str(error)), error=True)
        except Exception as error:  # noqa: BLE001 - the server lives on; the traceback is on standard error
            refused = environment_fault(error)
            if refused is None:
                tell_unexpected(error)
            return ToolResult(redact(str(refused or f"this is a fault in Snellen: {error!r}")), error=True)

    return ServedTool(name, about, schema_of_type(arguments), call, output, read_only)


def _require_one_budget(benchmark: str, asked: RunArguments) -> None:
    """Refuse a data set whose file would multiply the budget: each of its tasks is a run, and may repeat each question.

    Raises:
        UsageError: it does. DataError: the file cannot be read.
    """
    if not is_table(benchmark):
        return
    tasks = [task.rpartition("/")[2] for task in with_tasks([benchmark])]
    if len(tasks) > 1:
        raise UsageError(
            f"benchmark {asked.benchmark!r} has {len(tasks)} tasks, and a budget is that of one run",
            f"Run them one by one: add / and one of {', '.join(tasks)[:1_000]}.",
        )
    repeats = find(benchmark).settings.get("repeats", 1)
    if repeats > 1 and asked.max_cost is None and asked.max_tokens is None:
        raise UsageError(
            f"benchmark {asked.benchmark!r} asks each question {repeats:,} times, and max_samples counts questions",
            "Add max_tokens or max_cost.",
        )


def _status_of(name: str, child: Child | None, progress: RunFacts | None) -> RunStatus:
    if child is None:
        return RunStatus(name, "none", progress=progress)
    if child.is_running():
        return RunStatus(name, "running", child.cancelled, progress=progress)
    printed: Printed = child.printed()
    result = _object(printed.out) if printed.out.strip() else None
    error = None if printed.status == 0 else redact(failure_text(printed))
    return RunStatus(name, "ended", child.cancelled, printed.status, error, progress, result)


def _structured(content: Mapping[str, Any], notes: str = "", images: tuple[bytes, ...] = ()) -> ToolResult:
    return ToolResult(notes, images, structured=content)


def _object(text: str) -> Any:
    return msgspec.json.decode(redact(text), type=dict[str, Any])


def _option(name: str, value: Any) -> list[str]:
    """Return an option with its value as one word, which no value can leave; nothing without one."""
    return [] if value is None else [f"--{name}={value}"]


def _plain(word: str) -> str:
    """Return a word that is no option. Raises UsageError."""
    if word.startswith("-") or "\0" in word:
        raise UsageError(f"{word[:80]!r} is no name", "A name does not begin with '-'.")
    return word


def _key(name: str) -> str:
    if "=" in name or "\0" in name or not name.strip():
        raise UsageError(f"{name[:80]!r} is no option of a benchmark", "The tool list describes the options.")
    return name
