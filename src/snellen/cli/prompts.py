"""snellen prompts: prompt wordings imported from another harness or from a benchmark's authors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from snellen.atomic_write import replacing
from snellen.cli.console import note, show_json
from snellen.cli.option_parsing import REQUIRED, Commands, option
from snellen.errors import StorageError, UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.spatial.prompts.import_judges import ImportedRubrics

group = Commands(
    help="Import prompt wordings from another harness, or from a benchmark's authors.", no_args_is_help=True
)


class Harness(StrEnum):
    """A harness, or an authors' repository, whose prompt wordings can be imported."""

    LMMS_EVAL = "lmms-eval"
    VLMEVALKIT = "vlmevalkit"
    FG_BMK = "fg-bmk"
    VLM2_BENCH = "vlm2-bench"


@group.callback()
def _group() -> None: ...


@group.command(name="import")
def import_prompts(
    source: Harness = option("The harness.", REQUIRED, names=("--from",)),
    path: Path | None = option(
        "Folder of its package; of all but lmms-eval a checkout.", value="DIR", said="the installed lmms-eval"
    ),
    out: Path = option("The file to write.", Path("prompts.toml"), value="FILE"),
    model_key: str = option(
        "Use a task's settings for this model, if it has any: gpt4v, gemini_api.", "default", value="NAME"
    ),
    force: bool = option("Overwrite an existing file.", False),
    as_json: bool = option(
        "One JSON object: the files that were written, and what they are for.", False, names=("--json",)
    ),
) -> None:
    """Import the prompts of the spatial benchmarks from another harness, for --prompts of snellen run and snellen easi.

    No code of the harness is executed: lmms-eval's task files are read, and VLMEvalKit's Python files are parsed. Prompts that
    cannot be read are listed; for these the file has no words, or lmms-eval's keep Snellen's. Of FG-BMK the stems in its
    question files are read, for --templates of snellen build questions. Of VLMEvalKit the prompts of its judges are written
    beside --out too (NAME-judge.toml), of VLM2-Bench these alone, for --rubric of snellen judge.
    """
    from snellen.benchmarks.fgbmk.locate import HINT
    from snellen.benchmarks.spatial.prompts import import_judges, import_lmms_eval, import_vlmevalkit
    from snellen.engine.output_file import require_output_file
    from snellen.questions import import_templates

    require_output_file(out, "--out", (".toml",))
    rubrics = out.with_name(f"{out.stem}-judge.toml") if source is Harness.VLMEVALKIT else out
    for file in dict.fromkeys((out, rubrics)):
        if file.exists() and not force:
            raise UsageError(f"{file} already exists", "Choose another --out, or add --force to overwrite it.")
    if source is not Harness.LMMS_EVAL and (path is None or model_key != "default"):
        hints = {Harness.VLMEVALKIT: import_vlmevalkit.HOW_TO_GET, Harness.VLM2_BENCH: import_judges.GET_VLM2}
        raise UsageError(f"--from {source} takes --path and no --model-key", hints.get(source, HINT))
    if source is Harness.VLM2_BENCH and path is not None:
        imported = import_judges.of_vlm2(path)
        _write_rubrics(rubrics, imported, as_json=as_json)
        if as_json:
            _show_json([rubrics] if imported.names else [], imported.names, imported.remarks)
        return
    if source is Harness.FG_BMK and path is not None:
        templates = import_templates.read(path)
        text, words, remarks = templates.toml(), list(templates.stems), templates.remarks
        whose, use = templates.source, f"snellen build questions --templates {out} ..."
    else:
        prompts = (
            import_vlmevalkit.read(path)
            if source is Harness.VLMEVALKIT and path is not None
            else import_lmms_eval.read(path, model_key)
        )
        text, words, remarks = import_lmms_eval.toml(prompts), list(prompts.words), prompts.remarks
        whose, use = prompts.source, f"snellen run vsi-bench --prompts {out} ..."
    for remark in remarks:
        note(f"note: {remark}")
    _write(out, text)
    judged = None
    if source is Harness.VLMEVALKIT and path is not None:
        judged = import_judges.of_kit(path, whose)
    if as_json:
        written = [out, *([rubrics] if judged is not None and judged.names else [])]
        _show_json(written, words, [*remarks, *(() if judged is None else judged.remarks)])
    else:
        print(f"{out}: prompts of {whose} for {', '.join(words)}")
        print(f"Use them: {use}")
    if judged is not None:
        _write_rubrics(rubrics, judged, as_json=as_json)


def _show_json(files: Sequence[Path], names: Iterable[str], remarks: Iterable[str]) -> None:
    show_json({"files": list(map(str, files)), "benchmarks": list(names), "notes": list(remarks)})


def _write_rubrics(out: Path, imported: ImportedRubrics, *, as_json: bool) -> None:
    """Write the rubrics of a harness, and say what they are for."""
    for remark in imported.remarks:
        note(f"note: {remark}")
    if not imported.names:
        return
    _write(out, imported.toml)
    if as_json:
        return
    print(f"{out}: judge prompts for {', '.join(imported.names)}")
    print(f"Use them: snellen judge RUN --rubric {out} ...")


def _write(out: Path, content: str) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as part:
            part.write_text(content, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {out}: {error.strerror}.", "Name another file with --out.") from error
