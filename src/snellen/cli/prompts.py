"""`snellen prompts`: words of questions, read from another harness."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from snellen.atomic_write import replacing
from snellen.cli.console import note
from snellen.errors import StorageError, UsageError

group = typer.Typer(help="Ask in the words of another harness.", no_args_is_help=True)


class Harness(StrEnum):
    """Whose words can be read."""

    LMMS_EVAL = "lmms-eval"


@group.callback()
def _group() -> None: ...


@group.command(name="import")
def import_words(
    source: Annotated[Harness, typer.Option("--from", help="Whose words.")],
    path: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The package's folder.", show_default="the one installed beside Snellen"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write.")] = Path("prompts.toml"),
    model_key: Annotated[
        str, typer.Option(metavar="NAME", help="Take a model's own settings where a task has them: gpt4v, gemini_api.")
    ] = "default",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Read the words of the spatial benchmarks from lmms-eval's task files, for --prompts of snellen run.

    Nothing of the package is run. What lmms-eval has in its code and not in these files stays in our words, and is named.
    """
    from snellen.benchmarks.spatial.prompts import import_lmms_eval
    from snellen.engine.output_file import require_output_file

    require_output_file(out, "--out", (".toml",))
    if out.exists() and not force:
        raise UsageError(f"{out} is there already", "Choose another --out, or add --force to write over it.")
    found = import_lmms_eval.read(path, model_key)
    for remark in found.remarks:
        note(f"note: {remark}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            part.write_text(import_lmms_eval.toml(found), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}.", "Name another file with --out.") from error
    print(f"{out}: words of {found.source} for {', '.join(found.words)}")
    print(f"Ask with them: snellen run vsi-bench --prompts {out} ...")
