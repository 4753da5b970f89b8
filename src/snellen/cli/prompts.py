"""snellen prompts: prompt wordings imported from another harness."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from snellen.atomic_write import replacing
from snellen.cli.console import note
from snellen.cli.option_parsing import REQUIRED, Commands, option
from snellen.errors import StorageError, UsageError

group = Commands(help="Import prompt wordings from another harness.", no_args_is_help=True)


class Harness(StrEnum):
    """A harness whose prompt wordings can be imported."""

    LMMS_EVAL = "lmms-eval"


@group.callback()
def _group() -> None: ...


@group.command(name="import")
def import_prompts(
    source: Harness = option("The harness.", REQUIRED, names=("--from",)),
    path: Path | None = option("Folder of its package.", value="DIR", said="the installed one"),
    out: Path = option("The file to write.", Path("prompts.toml"), value="FILE"),
    model_key: str = option(
        "Use a task's settings for this model, if it has any: gpt4v, gemini_api.", "default", value="NAME"
    ),
    force: bool = option("Overwrite an existing file.", False),
) -> None:
    """Import the prompts of the spatial benchmarks from lmms-eval's task files, for --prompts of snellen run.

    No code of the package is executed. Prompts that lmms-eval defines in code are listed and keep Snellen's wording.
    """
    from snellen.benchmarks.spatial.prompts import import_lmms_eval
    from snellen.engine.output_file import require_output_file

    require_output_file(out, "--out", (".toml",))
    if out.exists() and not force:
        raise UsageError(f"{out} already exists", "Choose another --out, or add --force to overwrite it.")
    prompts = import_lmms_eval.read(path, model_key)
    for remark in prompts.remarks:
        note(f"note: {remark}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            part.write_text(import_lmms_eval.toml(prompts), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}.", "Name another file with --out.") from error
    print(f"{out}: prompts of {prompts.source} for {', '.join(prompts.words)}")
    print(f"Use them: snellen run vsi-bench --prompts {out} ...")
