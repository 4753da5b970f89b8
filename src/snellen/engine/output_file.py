"""Output files that a user names: never another form's name, a folder, an input, or a file that a run needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from snellen.errors import UsageError

FORMS = (
    *(".csv", ".tsv", ".xls", ".xlsx", ".parquet", ".feather", ".arrow", ".json", ".jsonl", ".ndjson", ".eval", ".npz"),
    *(
        *(".html", ".htm", ".pdf", ".md", ".xml", ".yaml", ".yml", ".toml", ".zip", ".gz", ".tar", ".db"),
        *(".sqlite", ".pkl"),
    ),
    *(".png", ".jpg", ".jpeg", ".svg", ".py", ".txt", ".tex", ".docx", ".doc", ".odt", ".ods", ".pptx", ".rtf", ".eps"),
)
"""Endings that name a form of file; any other ending is taken as part of the name."""
JSON_LINES, PAGE = (".jsonl", ".ndjson", ".txt"), (".html", ".htm")
META = "run_meta.json"
OF_RUN = (
    *(META, "results.jsonl", "summary.json", "failures.jsonl", "store.json"),
    *("reviews.jsonl", "audit_sample.json"),
)
FOLDERS_OF_RUN = ("traces", "sessions", "raw_judge_inputs", "raw_judge_outputs")


def require_output_file(text: str | Path, option: str, endings: Sequence[str], inputs: Sequence[Path] = ()) -> Path:
    """Return the path of an output file; refuse one that would destroy something or whose name belongs to another format.

    Args:
        text: the file to write, as typed: a path loses the slash that names a folder.
        option: what named it, for the message.
        endings: what its name may end in, the usual one first; endings that name no form are accepted too.
        inputs: files that the command reads.

    Raises:
        UsageError: it is a folder, an input, a file of a run, or ends like another form.
    """
    path, usual = Path(text), endings[0]
    if path.is_dir() or str(text).endswith("/"):
        example = path / f"{option.strip('-').replace('-', '_') if usual != PAGE[0] else 'report'}{usual}"
        raise UsageError(f"{option} {text} is a folder; expected a file", f"Type: {option} {example}")
    if any(path.exists() and other.exists() and path.samefile(other) for other in inputs):
        raise UsageError(
            f"{option} {path} is also the input; writing there would destroy it",
            f"Type: {option} {path.with_name(f'{path.stem}-out{usual}')}",
        )
    inside = path.parent.name in FOLDERS_OF_RUN and (path.parent.parent / META).is_file()
    if inside or (path.name in OF_RUN and (path.parent / META).is_file()):
        raise UsageError(
            f"{option} {path} is a file of a run; writing there would destroy it", f"Name another file with {option}."
        )
    ending = path.suffix.lower()
    if ending in FORMS and ending not in endings:
        raise UsageError(
            f"{option} {path} ends in {ending}, but the file's format is another one ({usual})",
            f"Type: {option} {path.with_suffix(usual)}",
        )
    return path
