"""VLMEvalKit: command line, environment and result files.

Source: EASI v0.2.2's adapter for the commands and the environment; names of folders and files as its fork of the kit has them.

Evidence that VLMEvalKit's judge ran, from the files that only a judge writes and from the log.

Without a usable key the kit warns, scores by rules and exits with 0. Its spatial benchmarks then write no `_llm_<judge>` file;
BLINK and 3DSRBench write `_<judge>_result` all the same, and only the column `log` of each row tells.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from snellen.easi.external.settings import HarnessSettings, no_keys
from snellen.errors import DataError, JudgeError, MissingExtraError, PreflightError, UsageError
from snellen.formats.base import Problems
from snellen.formats.readers import separated_rows, table_rows
from snellen.models.shutdowns import announced
from snellen.runs.judge.ask import SELF_HOSTED, setting

NAME = "vlmevalkit"
PROFILE = "vlmevalkit"
HOME, TABLES = "VLMEVALKIT_HOME", "LMUData"
DIST_TIMEOUT_S = 36000
RULES = "exact_matching"
RULE_TAGS = (RULES, "extract_matching")
"""What names a file that the kit made by rules."""
JUDGES = (
    *("gpt-4-turbo", "gpt-4-0613", "gpt-4-0125", "gpt-4-0409", "chatgpt-1106", "chatgpt-0125"),
    *("gpt-4o", "gpt-4o-0806", "gpt-4o-1120", "gpt-4o-mini"),
)
"""The judges that the kit knows for multiple choice; it refuses others."""
JUDGE_KEY, JUDGE_URL = "OPENAI_API_KEY", "OPENAI_API_BASE"
"""The kit's variables of a judge; the second is the whole address of its chat completions."""
FORMS = (".xlsx", ".tsv", ".csv")
OUT_OF_USE = re.compile(r"exact_matching_backup|bak_.*")
INSTALL = (
    "It is run from a checkout, in an environment of its own: `git clone https://github.com/open-compass/VLMEvalKit`, "
    "`python -m venv ~/vlmevalkit && ~/vlmevalkit/bin/pip install --requirement VLMEvalKit/requirements.txt rouge-score`, then "
    "name both: "
    "--backend-home VLMEvalKit --backend-python ~/vlmevalkit/bin/python (or VLMEVALKIT_HOME for the first). EASI's own fork, "
    "a submodule of its repository, has all twelve benchmarks. The model's own packages go into that environment too. Versions "
    "that work together: `snellen --help backends`."
)


def check(settings: HarnessSettings) -> None:
    """Refuse unusable settings. Raises UsageError or JudgeError."""
    no_keys((settings.model, settings.model_args, *settings.extra))
    if not settings.judge_model:
        return
    if settings.judge_model not in JUDGES:
        raise UsageError(f"VLMEvalKit has no judge {settings.judge_model!r}", f"Its judges: {', '.join(JUDGES)}.")
    ended = announced(settings.judge_model)
    if ended is not None and ended.past() and not setting(SELF_HOSTED):
        served = [name for name in JUDGES if (shutdown := announced(name)) is None or not shutdown.past()]
        raise JudgeError(
            f"{ended.provider} shut {ended.model} down on {ended.date}, so --judge-model {settings.judge_model} judges nothing "
            "any more",
            f"Of the kit's judges these are still served: {', '.join(served) or 'none'}. If your own endpoint serves a model by "
            f"this name, set {SELF_HOSTED}=1.",
        )
    if not os.environ.get(JUDGE_KEY):
        raise JudgeError(
            f"--judge-model {settings.judge_model}, and {JUDGE_KEY} is not set; VLMEvalKit would score by rules and call it "
            "judged",
            f"Set {JUDGE_KEY}.",
        )


def home(settings: HarnessSettings) -> Path:
    """Return the checkout's folder.

    Raises:
        MissingExtraError: there is none.
    """
    path = settings.home or (Path(value) if (value := os.environ.get(HOME)) else Path("VLMEvalKit"))
    checkout = path.expanduser().absolute()
    if not (checkout / "run.py").is_file():
        raise MissingExtraError(f"there is no VLMEvalKit in {checkout}: it has no run.py", INSTALL)
    return checkout


def version(settings: HarnessSettings) -> str:
    """Return the version of the checkout, with the commit if readable without git.

    Raises:
        MissingExtraError: there is no checkout. PreflightError: no interpreter.
    """
    checkout = home(settings)
    if settings.python is not None and not Path(settings.interpreter).is_file():
        raise PreflightError(f"{settings.interpreter} is no interpreter", "Check --backend-python.")
    match = re.search(r"__version__\s*=\s*['\"]([^'\"]{1,40})['\"]", _text(checkout / "vlmeval" / "__init__.py"))
    head = _text(checkout / ".git" / "HEAD").strip()
    if head.startswith("ref: "):
        head = _text(checkout / ".git" / head.removeprefix("ref: ")).strip()
    commit = head[:8] if re.fullmatch(r"[0-9a-f]{40}", head) else ""
    return "+".join(part for part in (match[1] if match else "unknown", commit) if part)


def command(settings: HarnessSettings, data: Sequence[str], out: Path, judge: str = RULES) -> list[str]:
    """Build the command that runs data sets, or that lets a judge score one."""
    python, checkout = settings.interpreter, home(settings)
    if settings.nproc > 1:
        beside = Path(python).with_name("torchrun")
        torchrun = [str(beside)] if beside.is_file() else [python, "-m", "torch.distributed.run"]
        start = [*torchrun, f"--nproc-per-node={settings.nproc}", str(checkout / "run.py")]
    else:
        start = [python, str(checkout / "run.py")]
    request = ["--data", *data, "--model", settings.model, "--work-dir", str(out)]
    reuse = [] if settings.rerun else ["--reuse"]
    say = ["--verbose"] if settings.verbose and judge == RULES else []
    return [*start, *request, *reuse, "--judge", judge, *say, *settings.extra]


def environment(settings: HarnessSettings) -> dict[str, str]:
    """Return additional environment variables: table folder and distributed timeout."""
    waits = {} if os.environ.get("DIST_TIMEOUT") else {"DIST_TIMEOUT": str(DIST_TIMEOUT_S)}
    address = settings.judge_base_url.rstrip("/").removesuffix("/chat/completions")
    judge = {JUDGE_URL: f"{address}/chat/completions"} if address else {}
    return {"PYTHONUNBUFFERED": "1", **waits, **judge, TABLES: str(tables(settings))}


def tables(settings: HarnessSettings) -> Path:
    """Return the folder of the kit's tables."""
    path = settings.dataset_dir or (Path(value) if (value := os.environ.get(TABLES)) else Path.home() / "LMUData")
    return path.expanduser().absolute()


def questions(settings: HarnessSettings, data: str) -> int | None:
    """Count the questions in the kit's table of a data set; None if it is missing or unreadable."""
    stems = (data, re.sub(r"_(?:\d+frame|[\d.]+fps)$", "", data), data.removesuffix("_manual_cot"))
    path = next((table for stem in stems if (table := tables(settings) / f"{stem}.tsv").is_file()), None)
    if path is None:
        return None
    problems = Problems()
    try:
        count = sum(1 for _ in separated_rows(path, "\t", problems))
    except DataError:
        return None
    return None if problems.count else count


class VLMEvalKitFiles(Struct, frozen=True):
    """The files that the kit wrote about one data set; None for missing ones.

    Attributes:
        answers: questions and predictions.
        scored: the same with what the rules made of each; of `judged` what a judge made of each.
        figures, judged_figures: the tables of figures by rules, and by a judge.
    """

    answers: Path | None = None
    scored: Path | None = None
    judged: Path | None = None
    figures: Path | None = None
    judged_figures: Path | None = None


def stamps(folder: Path) -> dict[Path, tuple[int, int]]:
    """Return modification time in ns and size in bytes of each file under a folder."""
    files = [path.resolve() for path in folder.rglob("*") if path.is_file()]
    return {path: ((state := path.stat()).st_mtime_ns, state.st_size) for path in files}


def written(
    folder: Path, settings: HarnessSettings, data: str, since: Mapping[Path, tuple[int, int]] | None = None
) -> VLMEvalKitFiles:
    """Locate the files of one data set: in the model's folder, linked or not, or in its T<date>_G<hash> folders.

    Of several the one in the last of those folders counts, then the youngest. What the kit or EASI moved aside does not,
    nor, with `since`, a file that is as `stamps` had it.

    Raises:
        DataError: several models have files of it there, and none of them is this one.
    """
    stem, ending = re.escape(data), r"(?:xlsx|tsv|csv)"
    forms = {
        "judged_figures": rf"(?P<model>.+)_{stem}_llm_.+?_acc\.csv",
        "answers": rf"(?P<model>.+)_{stem}\.{ending}",
        "scored": rf"(?P<model>.+)_{stem}_(?:extract_matching|exact_matching_result|{RULES})\.{ending}",
        "judged": rf"(?P<model>.+)_{stem}_(?:llm_.+?|(?:gpt|chatgpt)-.+?_result)\.{ending}",
        "figures": rf"(?P<model>.+)_{stem}(?:_extract_matching|_exact_matching)?(?:_full)?_acc\.csv",
    }
    hits: dict[str, dict[Path, str]] = {kind: {} for kind in forms}
    for path in sorted(folder.rglob(f"*_{data}*")):
        inside = path.relative_to(folder).parts[:-1]
        if not path.is_file() or any(OUT_OF_USE.fullmatch(part) for part in inside):
            continue
        if since is not None and since.get(path.resolve()) == ((now := path.stat()).st_mtime_ns, now.st_size):
            continue
        for kind, form in forms.items():
            if hit := re.fullmatch(form, path.name):
                hits[kind].setdefault(path.resolve(), hit["model"])
                break
    models = {model for by_path in hits.values() for model in by_path.values()}
    own = {settings.model, settings.model.split("/")[-1], settings.model.replace("/", "_")}
    if len(models) > 1:
        models &= own
        if len(models) != 1:
            raise DataError(
                f"{folder}: files of several models about {data}, and none is {settings.model}'s",
                "Give the folder of one model.",
            )
    chosen = {
        kind: _newest([path for path, model in by_path.items() if model in models]) for kind, by_path in hits.items()
    }
    return VLMEvalKitFiles(**chosen)


def _newest(paths: list[Path]) -> Path | None:
    """Return the file in the last T<date>_G<hash> folder; then with all settings, by format, then the newest."""

    def order(path: Path) -> tuple[str, bool, int, float, str]:
        run = next((part for part in reversed(path.parts[:-1]) if re.fullmatch(r"T\d{8}_G.*", part)), "")
        return run, "_full_acc" in path.name, -FORMS.index(path.suffix), path.stat().st_mtime, path.name

    return max(paths, key=order, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace") if path.stat().st_size < 1 << 20 else ""
    except OSError:
        return ""


FALLBACK = re.compile(
    r"will use exact[_ ]matching|fall(?:s|ing)? ?back to (?:the )?(?:rule|exact|extract)|exact matching mode"
    r"|no GPT-based answer matching|(?:judge|OPENAI API|LLM judge)\b.{0,30}\bis not working|OPENAI_API_KEY is not"
    r"|failed to build (?:the )?judge|(?:judge|API) is not available",
    re.IGNORECASE,
)
"""A line of the log that announces scoring by rules in place of a judge."""
NO_VERDICT = re.compile(r"LLM extract failed after max_retry", re.IGNORECASE)
"""A line of the log for each reply that the judge graded in none of its attempts; the kit grades it C."""
UNREAD = "Failed in Prefetch"
DRAWN = "Failed to predict, thus randomly generate one"
GRADES = ("A", "B", "C")
INVALID = "C"
"""The grade of a reply without an answer, and of one that the kit's judge did not grade."""
NOT_EXTRACTED = ("", "N/A", "NAN", "NONE")
"""What the kit writes as the extracted answer of a reply that no attempt of the judge read; a table may lose it."""
LONGEST = 200


class JudgeEvidence(Struct, frozen=True):
    """The evidence that a judge run left behind.

    Attributes:
        replies: replies that were for the judge.
        verdicts: those of them that it gave a verdict on.
        reason: why no judge is credited; empty where one is.
    """

    replies: int = 0
    verdicts: int = 0
    reason: str = ""

    @property
    def judged(self) -> bool:
        return self.verdicts > 0 and not self.reason

    def __add__(self, other: JudgeEvidence) -> JudgeEvidence:
        """Add the evidence of both halves of SITE: an unjudged half leaves the whole unjudged."""
        return JudgeEvidence(self.replies + other.replies, self.verdicts + other.verdicts, self.reason or other.reason)


def evidence(path: Path | None, lines: Iterable[str]) -> JudgeEvidence:
    """Read whether a judge graded the replies of one data set.

    Args:
        path: the judge's table, written by the judge run itself; None: there is none.
        lines: the log of the judge run.

    Raises:
        DataError: the table cannot be read.
    """
    listed = list(lines)
    fallback = next((line for line in listed if FALLBACK.search(line)), "")
    words = " ".join(fallback.split())[:LONGEST]
    if path is None:
        return JudgeEvidence(reason=words or "the judge run wrote no judge's file and exited without an error")
    graded, put, answered, decided = _counts(path)
    if graded:
        failed = sum(1 for line in listed if NO_VERDICT.search(line))
        answered = max(0, answered - failed)
    if fallback and (not graded or answered == put):
        return JudgeEvidence(put, 0, words)
    if graded and answered > 1 and not decided:
        return JudgeEvidence(
            put,
            0,
            f"every grade in {path.name} is {INVALID} with no extracted answer, which the kit also writes without a judge",
        )
    if not put:
        return JudgeEvidence(reason=f"no reply in {path.name} was for a judge")
    return JudgeEvidence(put, answered, "" if answered else f"{path.name} has no verdict on any of {put:,} replies")


def _counts(path: Path) -> tuple[bool, int, int, int]:
    """Return what a judge's table holds.

    Returns:
        Whether rows carry a grade, replies for the judge, replies with a verdict, and those of them that a judge must have
        read: graded right or wrong, or with an answer that it extracted.
    """
    graded, put, answered, decided = False, 0, 0, 0
    for _, row in table_rows(path, Problems()):
        if "judge_grade" in row:
            graded = True
            put += 1
            grade = str(row["judge_grade"] or "").strip().upper()
            answered += grade in GRADES
            is_read = str(row.get("pred_extracted") or "").strip().upper() not in NOT_EXTRACTED
            decided += grade in GRADES and (grade != INVALID or is_read)
        elif row.get("log") is not None:
            log = str(row["log"])
            put += not _by_rules(log, row)
            answered += not _by_rules(log, row) and UNREAD not in log and DRAWN not in log
        else:
            put, answered = put + 1, answered + 1
    return graded, put, answered, decided


def _by_rules(log: str, row: Mapping[str, Any]) -> bool:
    """Return True if a row's log repeats the reply: the rules read it, and no judge was called."""
    prediction = " ".join(str(row.get("prediction") or "").split())
    return " ".join(log.split()).rstrip(" .") == f"Match Log: {prediction}".rstrip(" .")
