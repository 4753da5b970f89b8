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
    VLMEVALKIT = "vlmevalkit"


@group.callback()
def _group() -> None: ...


@group.command(name="import")
def import_prompts(
    source: Harness = option("The harness.", REQUIRED, names=("--from",)),
    path: Path | None = option(
        "Folder of its package; of VLMEvalKit or EASI a checkout.", value="DIR", said="the installed lmms-eval"
    ),
    out: Path = option("The file to write.", Path("prompts.toml"), value="FILE"),
    model_key: str = option(
        "Use a task's settings for this model, if it has any: gpt4v, gemini_api.", "default", value="NAME"
    ),
    force: bool = option("Overwrite an existing file.", False),
) -> None:
    """Import the prompts of the spatial benchmarks from another harness, for --prompts of snellen run and snellen easi.

    No code of the harness is executed: lmms-eval's task files are read, and VLMEvalKit's Python files are parsed. Prompts that
    cannot be read are listed; for these the file has no words, or lmms-eval's keep Snellen's.
    """
    from snellen.benchmarks.spatial.prompts import import_lmms_eval, import_vlmevalkit
    from snellen.engine.output_file import require_output_file

    require_output_file(out, "--out", (".toml",))
    if out.exists() and not force:
        raise UsageError(f"{out} already exists", "Choose another --out, or add --force to overwrite it.")
    if source is Harness.VLMEVALKIT:
        if path is None or model_key != "default":
            raise UsageError("--from vlmevalkit takes --path and no --model-key", import_vlmevalkit.HOW_TO_GET)
        prompts = import_vlmevalkit.read(path)
    else:
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
