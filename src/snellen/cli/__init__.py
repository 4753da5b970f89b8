"""The command line, one file per command. Keys are redacted from all output."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence

# An address of data rather than of a server; which commands read it is in snellen.cli.addresses.
MAY_BE_DATA = re.compile(
    r"(?:^|=)(?!https?:)\w+://|^https?://\S+\.(?:csv|tsv|jsonl?|parquet|arrow|feather|xlsx|toml|zip|tar|t?gz)$"
    r"|(?:^|=)(?:https?://|hf:)\S+\.(?:npz|npy|pth?|safetensors|h5|hdf5|parquet|csv|tar|t?gz)(?:@\S+)?$",
    re.I,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status (docs/errors.md lists them)."""
    # Imports make many objects and no garbage; collecting every 700 of them takes a tenth of a short command's time.
    gc.set_threshold(50_000, *gc.get_threshold()[1:])
    # The threads of numpy's and scipy's OpenBLAS wait in a loop for 2^28 cycles each before they sleep: 0.1 s of CPU a pool.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "20")
    from snellen.exit_signals import by_what, exit_status, occupy_closed_streams, status_of, terminated_like_ctrl_c

    try:
        with terminated_like_ctrl_c():
            if arguments is None:
                from snellen.cli.console import require_utf8_mode

                occupy_closed_streams()
                require_utf8_mode()
            return status_of(_guarded(list(sys.argv[1:] if arguments is None else arguments)))
    except KeyboardInterrupt:  # outside any code with a message of its own
        print(f"snellen: stopped by {by_what()}", file=sys.stderr)
        return exit_status()


def _guarded(given: list[str]) -> int:
    """Run the command; report output that cannot be written."""
    from snellen.cli.console import give_up_streams

    status = 0
    try:
        status = _main(given)
        if sys.stdout is not None:
            sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader ended, as in `| head`
        give_up_streams()
        return status or 1
    except Exception as error:
        from snellen.errors import OutputError  # lazy: it imports msgspec, which --help does not need

        if not isinstance(error, OutputError):
            raise
        try:
            if sys.stderr is not None:
                print(f"snellen: {error.message}\n  {error.hint}", file=sys.stderr, flush=True)
        except (OSError, ValueError):  # stderr is closed too; the exit status reports it
            pass
        give_up_streams()
        return error.exit_code


def _main(arguments: list[str]) -> int:
    from typer.main import get_command

    from snellen.cli.app import build
    from snellen.cli.benchmark_options import is_plain_run, prepare, with_omitted_values
    from snellen.cli.console import redacted_output, require_text
    from snellen.cli.help_page import HELP, PAGE, print_documentation, requested
    from snellen.text import without_controls

    with redacted_output():
        try:
            require_text(arguments)
            arguments = with_omitted_values(arguments)
            if len(arguments) == 2 and arguments[0] in HELP and not arguments[1].startswith("-"):
                print_documentation(arguments[1])
                return 0
            root = get_command(build(arguments))
            arguments, page = requested(root, arguments)
            if any(MAY_BE_DATA.search(word) for word in arguments):
                from snellen.cli.addresses import with_local_copies

                arguments = with_local_copies(root, arguments)
            command, words = prepare(root, arguments)
            if any(not word.startswith("-") for word in words) and not is_plain_run(command, words):
                from snellen.cli.suggestions import check

                check(command, words)
            if any(without_controls(word, returns=True) != word for word in words):
                command.rich_markup_mode = None  # print messages about such a word plain, with escapes
            command(args=words, prog_name="snellen", obj={PAGE: page})
        except SystemExit as end:
            if not _is_usual_exit(end) and (status := _tell_plugin_fault(end)):
                return status
            reason = getattr(end.__context__, "__cause__", None)  # typer turns it into a silent exit
            if isinstance(reason, KeyboardInterrupt):
                raise reason from None
            return end.code if isinstance(end.code, int) else 1
        except Exception as error:
            from snellen.cli.console import environment_fault, tell, tell_unexpected
            from snellen.errors import OutputError, SnellenError

            if isinstance(error, (OutputError, BrokenPipeError)):
                raise
            if isinstance(error, SnellenError):
                if error.correction is not None:
                    from snellen.cli.suggestions import with_command

                    error = with_command(error, arguments)
                return tell(error)
            if status := _tell_plugin_fault(error):
                return status
            refused = environment_fault(error)
            return tell_unexpected(error) if refused is None else tell(refused)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # GeneratorExit, or a class of a user's own
            if status := _tell_plugin_fault(error):
                return status
            raise
    return 0


def _is_usual_exit(end: SystemExit) -> bool:
    """Return True for the exit with which typer ends each command; a plug-in may call sys.exit() too."""
    place = end.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    name = "" if place is None else str(place.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in ("click", "typer")


def _tell_plugin_fault(error: BaseException) -> int:
    """Print the error that names a user's code and return its exit status; 0 if the exception is not from such code."""
    from snellen.cli.console import tell
    from snellen.plugin_errors import plugin_fault

    fault = plugin_fault(error)
    return 0 if fault is None else tell(fault.with_traceback(error.__traceback__))
