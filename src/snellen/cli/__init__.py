"""The command line. One file a command: it parses, calls and prints; what it prints is free of keys."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status (docs/errors.md lists them)."""
    # Imports make many objects and no garbage: collecting every 700 of them is a tenth of what a short command takes.
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    from snellen import stopping
    from snellen.cli.ends import exit_status, terminated_like_ctrl_c

    try:
        with terminated_like_ctrl_c():
            return exit_status(_main(list(sys.argv[1:] if arguments is None else arguments)))
    except KeyboardInterrupt:  # somewhere that has nothing to add
        print(f"snellen: stopped by {stopping.by_what()}", file=sys.stderr)
        return stopping.exit_status()


def _main(given: list[str]) -> int:
    from snellen.cli.app import build
    from snellen.cli.declared import prepare
    from snellen.cli.output import redacted_output
    from snellen.cli.plain import take_plain_values

    with redacted_output():
        try:
            command, words = prepare(build(given), given)
            if any(not word.startswith("-") for word in words):
                from snellen.cli.suggestions import check

                check(command, words)
            take_plain_values(command)
            command(args=words, prog_name="snellen")
        except SystemExit as end:
            reason = getattr(end.__context__, "__cause__", None)  # Typer makes a silent exit of it
            if isinstance(reason, KeyboardInterrupt):
                raise reason from None
            return end.code if isinstance(end.code, int) else 1
        except Exception as error:  # noqa: BLE001 - the last place before the user
            from snellen.cli.faults import tell, tell_unexpected
            from snellen.errors import SnellenError

            if isinstance(error, SnellenError):
                return tell(error)
            from snellen.plugin_faults import plugin_fault

            fault = plugin_fault(error)
            return tell_unexpected(error) if fault is None else tell(fault.with_traceback(error.__traceback__))
    return 0
