"""What `snellen --help` shows: the commands under their headings.

Typer's own page imports a renderer of Markdown and one of tracebacks, half of what the whole call takes; it is left to
the help of the commands.

Which commands there are. Only the asked one is imported, so that `snellen --help` stays quick.

snellen version
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, NamedTuple

import typer

import snellen
from snellen.cli.option_values import Commands, Group


class Front(Group):
    """The group of all commands, with a front page of its own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print usage, options, the commands by heading, and where to start."""
        from rich.console import Console
        from rich.padding import Padding
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        def panel(title: str, rows: list[tuple[str, str]]) -> Panel:
            table = Table.grid(padding=(0, 1), expand=True)
            table.add_column(style="bold cyan", no_wrap=True, width=longest)
            table.add_column(ratio=1)
            for name, text in rows:
                table.add_row(Text(name), Text(text))
            return Panel(table, title=title, title_align="left", border_style="dim")

        options = [row for one in self.get_params(ctx) if (row := one.get_help_record(ctx)) is not None]
        by_heading: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            by_heading.setdefault(command.rich_help_panel or "Commands", []).append((name, command.help or ""))
        pages = {"Options": options, **by_heading}
        longest = max(len(name) for rows in pages.values() for name, _ in rows) + 1
        console = Console(highlight=False)
        console.print(Padding(Text(self.get_usage(ctx), "bold"), 1))
        console.print(Padding(Text(self.help or ""), (0, 1, 1, 1)))
        for title, rows in pages.items():
            console.print(panel(title, rows))
        console.print(Padding(Text(self.epilog or ""), 1))


class Command(NamedTuple):
    """Where a command is, what one line says of it, and under which heading it stands in the help."""

    target: str
    help: str
    panel: str


RUNS, SCORES, MAKE, OTHER = "Run", "Score and report", "Make benchmarks", "Look around"
FEATURES = "Measure what a model sees"
COMMANDS = {
    "run": Command("snellen.cli.run:run", "Ask a model everything that a benchmark asks, or go on with it.", RUNS),
    "easi": Command("snellen.cli.easi:easi", "Ask a model EASI's spatial benchmarks, judge and submit.", RUNS),
    "rerun": Command("snellen.cli.rerun:rerun", "Repeat a run from its run_meta.json.", RUNS),
    "judge": Command("snellen.cli.judge:judge", "Let a model judge the answers of a run.", RUNS),
    "serve": Command("snellen.cli.serve:serve", "Put a local model behind an OpenAI-compatible endpoint.", RUNS),
    "score": Command("snellen.cli.score:score", "Score answers again, under any profile.", SCORES),
    "compare": Command("snellen.cli.compare:compare", "Compare runs question by question.", SCORES),
    "report": Command("snellen.cli.report:report", "Write one HTML page about one or more runs.", SCORES),
    "query": Command("snellen.cli.query:query", "Ask runs in SQL.", SCORES),
    "failures": Command("snellen.cli.failures:failures", "Say why answers were not correct.", SCORES),
    "export": Command("snellen.cli.export:export", "Write a run in another program's result format.", SCORES),
    "submit": Command("snellen.cli.submit:group", "Send results to a leaderboard.", SCORES),
    "extract": Command("snellen.cli.extract:extract", "Show how replies are read.", SCORES),
    "build": Command("snellen.cli.build:group", "Make a benchmark from images and a taxonomy, and prove it.", MAKE),
    "prompts": Command("snellen.cli.prompts:group", "Ask in the words of another harness.", MAKE),
    "features": Command("snellen.cli.features:group", "Measure what an encoder's features tell apart.", FEATURES),
    "agents": Command("snellen.cli.agents:group", "Install the agents that answer as models.", OTHER),
    "list": Command("snellen.cli.listing:list_all", "List benchmarks, model kinds, profiles and runs.", OTHER),
    "doctor": Command("snellen.cli.doctor:doctor", "Check what this machine has and lacks.", OTHER),
    "version": Command("snellen.cli.app:version", "Print the version.", OTHER),
}


def build(arguments: Sequence[str] | None) -> typer.Typer:
    """The application, with the command that `arguments` ask for (None: every command) behind its name.

    The other commands are there by name and help only.
    """
    app = Commands(
        name="snellen",
        cls=Front,
        help="The eye chart for vision-language models: run benchmarks, score answers, compare, report.",
        epilog="`snellen COMMAND --help` shows a command's options. Start with: snellen run chart --model embedded",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    asked = None if arguments is None else next((word for word in arguments if not word.startswith("-")), "")
    for name, command in COMMANDS.items():
        if asked in (None, name):
            found = load(command)
            if isinstance(found, typer.Typer):
                app.add_typer(found, name=name, rich_help_panel=command.panel)
            else:
                app.command(name, rich_help_panel=command.panel)(found)
        elif find_spec(command.target.partition(":")[0]) is not None:
            app.command(name, help=command.help, rich_help_panel=command.panel)(_stub)
    return app


def load(command: Command) -> Callable[..., Any]:
    """The function behind a command, or the Typer behind a group of them."""
    module, _, function = command.target.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"snellen {snellen.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version)
    ] = False,
) -> None: ...


def _stub() -> None:
    raise AssertionError("a command was called that was not asked for")


def version() -> None:
    """Print the version."""
    print(f"snellen {snellen.__version__}")
