"""The judge of `snellen easi`, called when too many replies are unparseable by rule."""

from __future__ import annotations

import time
from pathlib import Path

from snellen.easi import judged_scores
from snellen.easi.log_file import unused
from snellen.engine.progress import Display
from snellen.engine.run_folder import JUDGED, RunFolder, derived_folder
from snellen.errors import RunError
from snellen.models.base import ModelOptions
from snellen.runs.judge.ask import appointed, judge, require_ready
from snellen.runs.judge.profiles import judged_remarks
from snellen.runs.run import Run

__all__ = ["RULE_NAMES", "aside_of", "ask", "checked", "require_ready", "set_aside"]
RULE_NAMES = ("exact_matching", "extract_matching")
"""What EASI's script calls the rules where a judge may be named; they mean no judge, as --no-judge does."""
PUBLISHED_JUDGE = ("gpt-4o-1120", "gpt-4o-2024-11-20")
"""The default of EASI's script, and the name of the model that it means."""
DEFAULTS = ModelOptions()


def checked(name: str | None, options: ModelOptions = DEFAULTS) -> str | None:
    """Validate the judge and its key; return KIND:NAME, None if no judge was given, or rules by EASI's name for them.

    Args:
        name: KIND:NAME.
        options: its endpoint and key, where they are not those of JUDGE_BASE_URL and JUDGE_API_KEY.

    Raises:
        JudgeError: it has tools, or there is no key; nothing was asked.
    """
    if name is None or name in RULE_NAMES:
        return None
    who = appointed(name, options, option="--judge")
    who.opened()  # an address or an option that cannot be is refused here; nothing is loaded or contacted
    return who.name


def ask(
    run: Run, who: str, display: Display, aside: Path, options: ModelOptions = DEFAULTS, prompts: str = ""
) -> list[str]:
    """Let the judge grade the replies of a run, or resume grading. Returns notes for the user.

    `prompts` is a file with judge prompts of a harness; a set that it has none for is judged in Snellen's words.

    Verdicts on answers that have changed since, by another judge or by another rubric, are moved to `aside` first.

    Raises:
        SnellenError: as `judging.judge`; verdicts that were given are on disk.
    """
    folder = RunFolder(derived_folder(run.path, JUDGED))
    published = who.rpartition("/")[2].removeprefix("api:") in PUBLISHED_JUDGE
    notes = [] if published else [f"the judge of EASI's script is {PUBLISHED_JUDGE[0]}, and {who} judged"]
    rubric = judged_scores.rubric_name(run.benchmark.name, prompts)
    if prompts and rubric != prompts:
        notes.append(f"{prompts} has no judge prompt for {run.benchmark.name}; it is judged in Snellen's words")
    if folder.exists() and (why := _stale(run, folder, who, rubric if prompts else "")):
        set_aside(folder, aside)
        notes.append(f"verdicts that were there were {why}; they lie in {aside}")
    elif folder.exists():
        rubric = folder.meta().spec.data.options["rubric"]
    judged = judge(
        run.path,
        who,
        rubric=rubric,
        out=folder.path,
        benchmark=run.benchmark,
        display=display,
        base_url=options.base_url,
        key_env=options.key_env,
    )
    return [*notes, *(line for line in judged_remarks(judged) if line.startswith("words of"))]


def _stale(run: Run, folder: RunFolder, who: str, wanted: str) -> str:
    """Return the reason why a judged run cannot be resumed; empty if it can. `wanted` is its rubric; empty: any."""
    try:
        meta = folder.meta()
    except RunError:
        return "unreadable"
    rubric = judged_scores.rubric_of(meta, run.benchmark.name)
    if rubric is None or (wanted and meta.spec.data.options["rubric"] != wanted):
        return "by another rubric"
    if meta.spec.model != who:
        return f"by {meta.spec.model}"
    return "" if judged_scores.about(run.folder, rubric) == meta.identity.get("data") else "about other answers"


def set_aside(folder: RunFolder, aside: Path) -> None:
    """Move a run into `aside`. Raises RunLockedError where another process writes to it."""
    with folder.locked():
        aside.mkdir(parents=True, exist_ok=True)
        folder.path.rename(aside / folder.path.name)


def aside_of(folder: Path) -> Path:
    """Return a new folder for replaced runs, named after the time: earlier/20260131_120000."""
    return unused(folder / "earlier" / time.strftime("%Y%m%d_%H%M%S"))
