"""What `snellen --help` shows: the commands under their headings.

Typer's own page imports a renderer of Markdown and one of tracebacks, half of what the whole call takes; it is left to
the help of the commands.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class Front(TyperGroup):
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
