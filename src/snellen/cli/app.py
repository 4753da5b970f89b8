"""The application: its commands, the page of `snellen --help`, and `snellen version`.

Only the requested command is imported, so that `snellen --help` stays fast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer

import snellen
from snellen.cli.help_page import print_page
from snellen.cli.option_parsing import CheckedGroup, Commands, option


class Front(CheckedGroup):
    """The group of all commands, with a front page of its own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print usage, options, the commands by heading, and where to start."""
        by_heading: dict[str, list[tuple[str, str]]] = {}
        options = [param.get_help_record(ctx) for param in self.get_params(ctx)]
        by_heading["Options"] = [record for record in options if record is not None]
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            by_heading.setdefault(command.rich_help_panel or "Commands", []).append((name, command.help or ""))
        print_page(self.get_usage(ctx), self.help or "", by_heading, self.epilog or "")


class ListedCommand(NamedTuple):
    """A command: its function as MODULE:NAME, its line in the help, and the heading above that line."""

    target: str
    help: str
    panel: str


RUNS, SCORES, MAKE, OTHER = "Run", "Score and report", "Make benchmarks", "Look around"
FEATURES = "Measure what a model sees"
COMMANDS = {
    "demo": ListedCommand("snellen.cli.demo:demo", "Try Snellen on its own chart and model: no key, no network.", RUNS),
    "run": ListedCommand("snellen.cli.run:run", "Run benchmarks against a model, or resume an unfinished run.", RUNS),
    "reproduce": ListedCommand(
        "snellen.cli.reproduce:reproduce", "Measure published figures again, and compare the settings.", RUNS
    ),
    "acuity": ListedCommand(
        "snellen.cli.acuity:acuity", "Measure at which size, contrast or difference a model stops seeing.", RUNS
    ),
    "check": ListedCommand("snellen.cli.check:check", "Check a file of questions before a run.", RUNS),
    "easi": ListedCommand("snellen.cli.easi:easi", "Run EASI's spatial benchmarks, judge and submit.", RUNS),
    "power": ListedCommand("snellen.cli.power:power", "Say which difference of two models a benchmark can show.", RUNS),
    "subset": ListedCommand(
        "snellen.cli.subset:subset", "Choose few items that tell the score on a whole benchmark.", RUNS
    ),
    "merge": ListedCommand("snellen.cli.merge:merge", "Merge the parts of a run (run --shard K/N) into one.", RUNS),
    "rerun": ListedCommand("snellen.cli.rerun:rerun", "Repeat a run from its run_meta.json.", RUNS),
    "batch": ListedCommand("snellen.cli.batch:group", "List and cancel the batches of a run.", RUNS),
    "import": ListedCommand(
        "snellen.cli.import_answers:import_answers", "Make a run of answers that another program recorded.", RUNS
    ),
    "answer": ListedCommand(
        "snellen.cli.answer:answer", "Let people answer a benchmark's questions in the browser.", RUNS
    ),
    "watch": ListedCommand("snellen.cli.watch:watch", "Evaluate the checkpoints of a training as they appear.", RUNS),
    "judge": ListedCommand("snellen.cli.judge:judge", "Judge the answers of a run with a model.", RUNS),
    "read": ListedCommand("snellen.cli.judge:read", "Let a model read what the rules leave unread.", RUNS),
    "serve": ListedCommand(
        "snellen.cli.serve:serve", "Serve a local model behind an OpenAI-compatible endpoint.", RUNS
    ),
    "leakage": ListedCommand(
        "snellen.cli.leakage:leakage", "Measure how much of a model's accuracy needs no picture.", RUNS
    ),
    "score": ListedCommand("snellen.cli.score:score", "Score answers again, under any profile.", SCORES),
    "compare": ListedCommand("snellen.cli.compare:compare", "Compare runs sample by sample.", SCORES),
    "report": ListedCommand("snellen.cli.report:report", "Write one HTML page about one or more runs.", SCORES),
    "view": ListedCommand("snellen.cli.view:view", "Browse all runs of a folder, and review verdicts.", SCORES),
    "show": ListedCommand(
        "snellen.cli.show:show", "Show answers of a run with question, gold answer and verdict.", SCORES
    ),
    "query": ListedCommand("snellen.cli.query:query", "Query runs in SQL.", SCORES),
    "failures": ListedCommand("snellen.cli.failures:failures", "Label the causes of incorrect answers.", SCORES),
    "reviews": ListedCommand(
        "snellen.cli.reviews:group", "Review verdicts: audit samples, agreement, Label Studio.", SCORES
    ),
    "export": ListedCommand("snellen.cli.export:export", "Write a run in another program's result format.", SCORES),
    "submit": ListedCommand("snellen.cli.submit:group", "Send results to a leaderboard.", SCORES),
    "extract": ListedCommand("snellen.cli.extract:extract", "Extract answers from replies, with reasons.", SCORES),
    "build": ListedCommand(
        "snellen.cli.build:group", "Make a benchmark from images and a taxonomy, and check it.", MAKE
    ),
    "prompts": ListedCommand("snellen.cli.prompts:group", "Import prompt wordings from another harness.", MAKE),
    "features": ListedCommand(
        "snellen.cli.features:group", "Measure how well an encoder's features separate classes.", FEATURES
    ),
    "agents": ListedCommand("snellen.cli.agents:group", "Install and list agents.", OTHER),
    "list": ListedCommand("snellen.cli.listing:list_all", "List benchmarks, model kinds, profiles and runs.", OTHER),
    "recipes": ListedCommand("snellen.cli.recipes:recipes", "List recipes of sampling, with their sources.", OTHER),
    "mcp": ListedCommand("snellen.cli.mcp:mcp", "Let an agent or editor drive Snellen (MCP).", OTHER),
    "schema": ListedCommand(
        "snellen.cli.schema:schema", "Print the JSON Schema of what a command prints with --json.", OTHER
    ),
    "completion": ListedCommand("snellen.cli.completion:completion", "Print the script of shell completion.", OTHER),
    "doctor": ListedCommand("snellen.cli.doctor:doctor", "Check this machine's setup.", OTHER),
    "version": ListedCommand("snellen.cli.app:version", "Print the version.", OTHER),
}


def build(arguments: Sequence[str] | None) -> typer.Typer:
    """Build the application with the command that `arguments` name, or with all commands for None.

    The other commands have a name and a help line only.
    """
    app = Commands(
        name="snellen",
        cls=Front,
        help="The eye chart for vision-language models: run benchmarks, score answers, compare, report.",
        epilog="`snellen COMMAND --help` shows a command's options. Start with: snellen demo\n"
        "Exit status: 0 if all went well, 2 a wrong option, 9 answers are missing, 10 and 11 a check failed; `snellen --help errors` has all.\n"
        "`snellen --help pages` lists the pages of the documentation, and `snellen --help NAME` prints one.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    requested = None if arguments is None else next((word for word in arguments if not word.startswith("-")), "")
    for name, command in COMMANDS.items():
        if requested in (None, name):
            target = load(command)
            if isinstance(target, typer.Typer):
                app.add_typer(target, name=name, rich_help_panel=command.panel)
            else:
                app.command(name, rich_help_panel=command.panel)(target)
        elif find_spec(command.target.partition(":")[0]) is not None:
            app.command(name, help=command.help, rich_help_panel=command.panel)(_stub)
    return app


def load(command: ListedCommand) -> Callable[..., Any]:
    """Import the function of a command, or the Typer of a group."""
    module, _, function = command.target.partition(":")
    target: Callable[..., Any] = getattr(import_module(module), function)
    return target


def _print_version(requested: bool) -> None:
    if requested:
        print(f"snellen {snellen.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


def _stub() -> None:
    raise AssertionError("a command was called that was not requested")


def version(as_json: Annotated[bool, option("One JSON object.", names=("--json",))] = False) -> None:
    """Print the version."""
    if as_json:
        from snellen.cli.console import show_json

        show_json({"version": snellen.__version__})
    else:
        print(f"snellen {snellen.__version__}")
