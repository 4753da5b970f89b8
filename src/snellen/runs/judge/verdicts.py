"""Judge verdicts: read them from `<run>_judged` or from a file, keyed by record name."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine import journal
from snellen.engine.endpoints import judge_command, rerun_command
from snellen.engine.final_records import final_records
from snellen.engine.folder_checks import NOT_OWN, is_own
from snellen.engine.journal import TimedRecordHead
from snellen.engine.request_errors import one_line, request_errors
from snellen.engine.run_folder import JUDGED, READ, RunFolder, RunMeta, derived_run
from snellen.errors import DataError, UsageError
from snellen.formats.base import Problems
from snellen.formats.columns import id_of, text_of
from snellen.formats.readers import table_rows
from snellen.runs.costs import cost_text
from snellen.runs.external_answers import keyed
from snellen.runs.judge.benchmark import LEFT_TO_JUDGE, OWN, RAW_OUTPUTS
from snellen.runs.scoring import Scored, Summary, Verdicts
from snellen.scoring.rubric import Rubric, load_rubric

if TYPE_CHECKING:
    from snellen.runs.run import Run

IDS = ("vid", "sample_id", "id")


def find_verdicts(source: RunFolder) -> RunFolder | None:
    """Return the run that judged what the benchmark of `source` leaves to a judge; None where there is none."""
    judged = derived_run(source, JUDGED)
    if judged is None:
        return None
    options = judged.meta().spec.data.options
    return judged if options.get("rubric") == OWN or options.get(LEFT_TO_JUDGE) else None


def find_readings(source: RunFolder) -> RunFolder | None:
    """Return the run of the reader that was asked about replies of `source`; None where there is none."""
    return derived_run(source, READ)


def rubric_in_place(judged: RunMeta) -> Rubric | None:
    """Return the rubric that a judge went by in place of the benchmark's own; None if it went by that.

    Raises:
        JudgeError: its file is gone.
    """
    options = judged.spec.data.options
    return load_rubric(options["rubric"]) if options.get(LEFT_TO_JUDGE) else None


def said_of(source: RunFolder, *, is_judged: bool) -> Verdicts | None:
    """Read what a judge and a reader said of a run's replies; None where none was asked.

    Args:
        is_judged: its benchmark leaves replies to a judge.
    """
    judged, asked = find_verdicts(source) if is_judged else None, find_readings(source)
    verdicts = None if judged is None else read(judged, source)
    if asked is None:
        return verdicts
    return (Verdicts({}, "") if verdicts is None else verdicts).with_readings(read(asked, source))


def read(judged: RunFolder, source: RunFolder) -> Verdicts:
    """Read the judge's replies about `source` from a judged run.

    A reply is passed over where the answer that it is about was given after it was asked for: the run was begun anew.
    Memory grows with the judged replies alone.
    """
    meta = judged.meta()
    model = meta.spec.model
    texts: dict[str, str] = {}
    asked_at: dict[str, float] = {}
    for record in final_records(judged.results):
        if record.status == "ok" and record.response is not None:
            texts[record.sample_id] = record.response.text
            asked_at[record.sample_id] = record.started_at
    for head in journal.intact(source.results, TimedRecordHead):
        if head.status == "ok" and head.finished_at > asked_at.get(head.name, head.finished_at):
            texts.pop(head.name, None)
    whose = "" if is_own(meta) else f" ({NOT_OWN})"
    commonest = request_errors(judged).commonest
    failures = f"{commonest} `{rerun_command(judged, meta)}` asks the judge again." if commonest else ""
    by = f"{model} in {judged.path}{whose}"
    verdicts = Verdicts(
        texts, by, model=model, folder=str(judged.path), failures=failures, rubric=rubric_in_place(meta)
    )
    verdicts.cost = cost_text(meta.totals, None)
    verdicts.version = str(meta.identity.get("data", "")).rpartition(" ")[2]
    return verdicts


class Replies(Verdicts):
    """A judge's replies from a file of rows with `vid`, `sample_id` or `id`, and `reply`.

    Of a suite the ids may be the members' own, without the member's name in front.
    """

    def __init__(
        self, path: Path, benchmark: Benchmark, *, of_rows: bool = False, id_is: str = "id", data: Data | None = None
    ) -> None:
        """Read the file.

        Args:
            of_rows: the samples are rows of results, of which several may have one id (`id`, `id#2` ...): the second one
                takes the second reply to that id, and where there is a single reply to it, all take that.
            id_is, data: what the file's ids are, as of `snellen score --id-is`, and where the samples lie.

        Raises:
            UsageError: no sample of the benchmark is decided by a judge.
            DataError: the file cannot be read, or no row has an id and a reply.
        """
        if benchmark.rubric is None:
            raise UsageError(
                f"{benchmark.name} is scored without a judge, so {path} is not needed",
                "Omit --judge-replies.",
            )
        self._path = path
        self._problems = Problems()
        self._where: dict[str, str] = {}
        self._suite = bool(benchmark.members)
        self._of_rows = of_rows
        own = {} if id_is == "id" else {key: sample.id for key, sample in keyed(benchmark, data or Data(), id_is)}
        turns: dict[str, int] = {}
        replies: dict[str, str] = {}
        fields: set[str] = set()
        for where, row in table_rows(path, self._problems):
            fields |= row.keys()
            column = next((name for name in IDS if row.get(name) is not None), None)
            try:
                name = id_of(None if column is None else row[column])
                name = own.get(name, name)
                # VLM2-Bench's evaluation of videos keeps what the judge said as `score`.
                kept = row.get("score") if "model_answer" in row and isinstance(row.get("score"), str) else None
                reply = text_of(row.get("reply", kept))
            except ValueError as error:
                self._problems.add(where, str(error))
                continue
            if reply is None:
                self._problems.add(where, f"{name!r} has no reply")
            elif name in replies and of_rows:
                number = turns[name] = turns.get(name, 1) + 1
                replies[f"{name}#{number}"], self._where[f"{name}#{number}"] = reply, where
            elif name in replies:
                self._problems.add(where, f"{name!r} repeats {self._where[name]}; the first one counts")
            else:
                replies[name], self._where[name] = reply, where
        if not replies:
            raise DataError(
                f"{path}: no row holds an id and a judge's reply; its fields are {', '.join(sorted(fields)[:30]) or 'none'}",
                f"Rows need {', '.join(IDS[:-1])} or {IDS[-1]}, and reply.",
            )
        super().__init__(replies, f"the replies in {path}")

    def __getitem__(self, name: str) -> str:
        first, mark, number = name.rpartition("#")
        if self._of_rows and mark and number.isdigit() and name not in self._texts and f"{first}#2" not in self._texts:
            name = first
        inner = name.partition("/")[2]
        return super().__getitem__(inner if self._suite and name not in self._texts and inner else name)

    def notes(self) -> list[str]:
        """List the problems of the file's rows, once all samples were scored."""
        unknown = Problems()
        for name, where in self._where.items():
            if name not in self.used:
                unknown.add(where, repr(name))
        return [
            *unknown.lines(f"of {self._path} without a reply that a judge decides"),
            *self._problems.lines(f"of {self._path} that could not be used"),
        ]


class VerdictReplies(NamedTuple):
    """A judge's replies: how many hold a verdict, how many hold none, and the commonest reason for that."""

    read: int
    unread: int
    reason: str

    @property
    def text(self) -> str:
        """Describe the replies without a verdict; empty if every reply has one."""
        if not self.unread:
            return ""
        return (
            f"no verdict can be read from {self.unread:,} of {self.read + self.unread:,} replies of the judge, such as: "
            f"{self.reason}; {RAW_OUTPUTS}/ has the replies. Choose a judge that keeps to the rubric's form, and another "
            "folder: --model KIND:NAME --out NAME"
        )


def unread_verdicts(judged: Run) -> VerdictReplies:
    """Count the replies of a judge's run that hold no verdict; its samples without a reply are not among them."""
    reasons: Counter[str] = Counter()
    read = 0

    def each(scored: Scored) -> None:
        nonlocal read
        (score,) = scored.scores.values()
        if scored.record.status != "ok":
            return
        if score.verdict == "unscored":
            reasons[(score.reason or "").removeprefix("no verdict: ")] += 1
        else:
            read += score.verdict not in ("error", "invalid") or "judge_verdict" in score.detail

    judged.summarize(each=each, save=False)
    commonest = min(reasons, key=lambda reason: (-reasons[reason], reason), default="")
    return VerdictReplies(read, reasons.total(), one_line(commonest))


def gave_no_verdict(run: Run) -> bool:
    """Return True for a judge's run of whose replies none holds a verdict."""
    if run.meta.spec.benchmark != JUDGED:
        return False
    replies = unread_verdicts(run)
    return replies.unread > 0 and not replies.read


def judge_line(run: Run) -> str:
    """Return one line about the judge of a run, or about the replies of a judge's run; empty if there is nothing to say."""
    return unread_verdicts(run).text if run.meta.spec.benchmark == JUDGED else run.judged_by()


def judged_by(
    summary: Summary, verdicts: Verdicts | None, run: Path | None = None, published: str = "", profile: str = ""
) -> str:
    """Return one line about the judge and the share of usable verdicts; empty if no reply is for a judge.

    Args:
        summary: of the run, or of a file of answers.
        verdicts: the judge's replies; None where there are none.
        run: the run's folder; None for a file of answers, which only --judge-replies can judge.
        published: the judge of published figures; empty: none is known.
        profile: the one in which alone verdicts count; empty: in all.
    """
    if not summary.for_judge:
        return ""
    if verdicts is None or not verdicts.by:
        command = "" if run is None else f"`{judge_command(run)}` judges them, "
        under = f" under the profile {profile}" if profile else ""
        count = "1 reply is" if summary.for_judge == 1 else f"{summary.for_judge:,} replies are"
        rest = "has" if summary.for_judge == 1 else "have"
        return f"{count} not judged yet and {rest} no score{under}; {command}--judge-replies reads existing verdicts"
    beyond = f"; {summary.out_of_range:,} are out of range" if summary.out_of_range else ""
    verdicts_count = summary.for_judge - summary.without_verdict
    why = f"; {verdicts.failures}" if verdicts.failures else ""
    lacking = f"{summary.without_verdict:,} of {summary.for_judge:,} have no verdict{beyond}{why}"
    if not verdicts_count:
        unread = f"; {len(verdicts.used):,} of the judge's replies hold none" if verdicts.used else ""
        return f"not judged by {verdicts.by}: {lacking}{unread}"
    other = f"; {text}" if (text := other_judge(verdicts.by, published)) else ""
    return f"judged by {verdicts.by}: {verdicts_count:,} of {summary.for_judge:,} replies; {lacking}{other}"


def other_judge(by: str, published: str) -> str:
    """Return that published figures were judged by another model than `by`; empty where it is the same, or none is known.

    Args:
        by: KIND:NAME, which may be followed by ` in ` and a folder.
        published: the name of the judge of published figures.
    """
    same = not published or re.search(rf"[:/]{re.escape(published)}\Z", by.partition(" in ")[0])
    return "" if same else f"published figures are judged by {published}, and do not compare"


def read_by(summary: Summary, verdicts: Verdicts | None) -> str:
    """Return one line about the reader and the share of replies that it read; empty if none was asked."""
    if verdicts is None or not verdicts.reader:
        return ""
    sent = summary.read_by_model + summary.unread_by_model
    share = f"{summary.read_by_model / summary.rows:.1%}" if summary.rows else "none"
    left = f"; it leaves {summary.unread_by_model:,} unread" if summary.unread_by_model else ""
    cost = f"; it cost {verdicts.reader_cost}" if verdicts.reader_cost else ""
    return (
        f"read by {verdicts.reader} in {verdicts.reader_folder}: {summary.read_by_model:,} of {sent:,} replies that the "
        f"rules leave unread, {share} of all replies{left}{cost}"
    )
