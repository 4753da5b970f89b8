"""snellen reviews: status, audit samples, cards of judges, Label Studio"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, print_notes, remark, show, show_json
from snellen.cli.option_parsing import REQUIRED, Commands, argument, option
from snellen.errors import StorageError, UsageError
from snellen.scoring.metric_text import legend, mark, span
from snellen.text import one_line

if TYPE_CHECKING:
    from rich.table import Table

    from snellen.runs.reviews.decisions import CaseKey
    from snellen.runs.reviews.judge_card import ConfusionPart, JudgeCard
    from snellen.runs.reviews.status import ReviewStatus
    from snellen.runs.run import Run
    from snellen.scoring.statistics.agreement import Coefficient

group = Commands(help="Review verdicts: audit samples, agreement, exchange with Label Studio.", no_args_is_help=True)

RunArgument = Annotated[Path, argument("Run folder.", value="RUN")]
Profile = Annotated[str | None, option("Scoring profile whose verdicts are reviewed.", said="the benchmark's first")]


class CaseChoice(StrEnum):
    """Which replies are exported."""

    DOUBTFUL = "doubtful"
    AUDIT = "audit"
    DISPUTED = "disputed"
    REVIEWED = "reviewed"
    ALL = "all"


@group.callback()
def _group() -> None: ...


@group.command()
def status(
    runs: list[Path] = argument("Run folders.", value="RUN…"),
    as_json: shared.JsonResult = False,
) -> None:
    """Show how far the review of each run is, and how the reviewers agree.

    Decisions are made with `snellen view RESULTS --review NAME`.
    """
    from snellen.engine.run_folder import RunFolder
    from snellen.runs.reviews.status import review_status
    from snellen.runs.run_paths import find_runs

    folders = find_runs(runs, say=remark)
    for path in folders:
        RunFolder(path).meta()  # a folder without a run is refused
    states = [review_status(path) for path in folders]
    if as_json:
        show_json({"runs": [_status_json(state) for state in states]})
        return
    for state in states:
        _print_status(state)


def _status_json(state: ReviewStatus) -> dict[str, Any]:
    from msgspec import structs, to_builtins

    agreement = state.agreement
    return {
        **{name: getattr(state, name) for name in ("run", "lines", "cases", "decisions")},
        "reviewers": agreement.decided,
        "alpha": to_builtins(agreement.alpha),
        "pairs": [
            {
                "reviewers": list(pair.reviewers),
                "kappa": to_builtins(pair.kappa),
                "decisions": [[*words, count] for words, count in pair.decisions.items()],
            }
            for pair in agreement.pairs
        ],
        "disputed": [{"sample_id": key[0], "repeat": key[1]} for _, key in agreement.disputed],
        "adjudicated": agreement.adjudicated,
        "audit": None if state.audit is None else structs.asdict(state.audit),
        "faults": list(state.faults),
    }


def _print_status(state: ReviewStatus) -> None:
    from snellen.runs.reviews.decisions import DECISIONS
    from snellen.text import one_line

    agreement = state.agreement
    print(one_line(f"{state.run}: {state.cases:,} replies reviewed, {state.lines:,} decisions on record"))
    if state.decisions:
        print("  " + ", ".join(f"{state.decisions[word]:,} {word}" for word in DECISIONS if word in state.decisions))
    if agreement.decided:
        table = new_table(None, ["reviewer"], ["replies", "of the audit"])
        audit = {} if state.audit is None else state.audit.by_reviewer
        for name, count in agreement.decided.items():
            table.add_row(name, f"{count:,}", f"{audit.get(name, 0):,}" if state.audit is not None else "–")
        show(table)
    if state.audit is not None:
        print(f"  audit sample: {state.audit.text}; {state.audit.decided:,} reviewed, {state.audit.settled:,} settled")
    for pair in agreement.pairs:
        print(one_line(f"  {' and '.join(pair.reviewers)}: {coefficient_text(pair.kappa)}"))
    if len(agreement.decided) > 1:
        print(f"  all reviewers: {coefficient_text(agreement.alpha)}")
    if agreement.disputed or agreement.adjudicated:
        print(f"  disputed: {len(agreement.disputed):,}, adjudicated: {agreement.adjudicated:,}")
    for line in state.faults:
        note(line)


def coefficient_text(coefficient: Coefficient) -> str:
    """Format as `Cohen's kappa 0.68 [0.50, 0.85], 83.1 % equal of 100 replies`."""
    if coefficient.value is None or coefficient.observed is None:
        reason = "all decisions are the same" if coefficient.units else "no reply was decided twice"
        return f"{coefficient.name} undefined: {reason}"
    ends = "" if coefficient.ci95 is None else f" [{coefficient.ci95[0]:.2f}, {coefficient.ci95[1]:.2f}]"
    share = f"{100 * coefficient.observed:.1f} % equal of {coefficient.units:,} replies"
    return f"{coefficient.name} {coefficient.value:.2f}{ends}, {share}"


@group.command()
def sample(
    run: RunArgument,
    size: int = option("Replies to draw.", REQUIRED, value="N", least=1),
    *,
    seed: int = option("Seed of the draw.", 0),
    by: str | None = option(
        "Stratify by these meta fields of the samples, or by verdict; strata share N by their size.", value="FIELD,…"
    ),
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Draw an audit sample: the replies whose reviews give a valid estimate for the whole run.

    The sample is written to RUN/audit_sample.json with the probability of each reply. A larger --size with the same seed
    extends it; it is never replaced.
    """
    from msgspec import to_builtins

    from snellen.runs.reviews.audit_sample import describe, draw, save_audit_sample
    from snellen.runs.reviews.cases import drawable, read_cases
    from snellen.runs.run import load_run
    from snellen.text import comma_list

    opened = load_run(run, trust=moved.trust).moved(moved.data, moved.images)
    fields = tuple(comma_list(by))
    population, excluded = drawable(read_cases(opened, by=fields))
    drawn, written = save_audit_sample(run, draw(population, size, seed, by=fields, excluded=excluded))
    if as_json:
        show_json({**to_builtins(drawn), "written": written})
        return
    print(f"{describe(drawn)}: {'written to' if written else 'already in'} {run / 'audit_sample.json'}")
    for reason, count in drawn.excluded.items():
        print(f"  not drawn: {count:,} × {reason}")
    if drawn.by:
        table = new_table(None, ["stratum"], ["replies", "drawn"])
        for stratum in drawn.strata:
            table.add_row(stratum.name, f"{stratum.population:,}", f"{stratum.size:,}")
        show(table)
    print(f"Review it: snellen view {run.parent} --review NAME")


@group.command(name="export")
def export_tasks(
    run: RunArgument,
    out: Path = option("File of tasks (JSON); the labelling configuration goes to FILE.xml.", REQUIRED, value="FILE"),
    *,
    cases: CaseChoice = option("Which replies, the most doubtful first.", CaseChoice.DOUBTFUL),
    limit: int | None = option("Export only the first N.", value="N", least=1),
    profile: Profile = None,
    embed_images: bool = option(
        "Embed images, at most 1,024 pixels wide or high.", True, names=("--embed-images/--no-embed-images",)
    ),
    show_gold: bool = option("Include the gold answers of a restricted benchmark.", False),
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Export replies as tasks for Label Studio, with the decisions that there are. No task names the model."""
    import msgspec

    from snellen.atomic_write import replacing
    from snellen.engine.output_file import require_output_file
    from snellen.runs.reviews.audit_sample import read_audit_sample
    from snellen.runs.reviews.label_studio import review_config, tasks
    from snellen.runs.run import load_run

    path = require_output_file(out, "--out", (".json",))
    opened = load_run(run, trust=moved.trust).moved(moved.data, moved.images)
    keys = _chosen(opened, cases, profile)[:limit]
    if not keys:
        raise UsageError(f"{run} has no {cases} replies to export", "Choose others with --cases.")
    audit = read_audit_sample(run)
    count = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as part, part.open("wb") as file:
            rows = tasks(opened, keys, profile=profile, images=embed_images, show_gold=show_gold, audit=audit)
            for count, row in enumerate(rows, 1):
                file.write((b"[\n" if count == 1 else b",\n") + msgspec.json.encode(row))
            file.write(b"\n]\n")
        with replacing(path.with_suffix(".xml")) as part:
            part.write_text(review_config(images=embed_images), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}", "Choose another --out.") from error
    if as_json:
        show_json({"tasks": count, "files": [str(path), str(path.with_suffix(".xml"))]})
        return
    print(f"{count:,} tasks written to {path}, the labelling configuration to {path.with_suffix('.xml')}")


def _chosen(run: Run, choice: CaseChoice, profile: str | None) -> list[CaseKey]:
    from snellen.runs.reviews.audit_sample import read_audit_sample
    from snellen.runs.reviews.cases import doubtful_first, read_cases
    from snellen.runs.reviews.decisions import disputed
    from snellen.runs.reviews.journal import ReviewJournal

    if choice is CaseChoice.AUDIT:
        audit = read_audit_sample(run.path)
        if audit is None:
            raise UsageError(f"{run.path} has no audit sample", f"Draw one: snellen reviews sample {run.path} --size N")
        return [case.key for case in audit.cases]
    ordered = doubtful_first(read_cases(run, profile))
    standing = ReviewJournal(run.path).standing
    if choice is CaseChoice.REVIEWED:
        return [case.key for case in ordered if case.key in standing]
    if choice is CaseChoice.DISPUTED:
        return [case.key for case in ordered if disputed(standing.get(case.key, {}))]
    return [case.key for case in ordered if case.doubt or choice is CaseChoice.ALL]


@group.command(name="import")
def import_decisions(
    run: RunArgument,
    file: Path = argument("Export of Label Studio, JSON or JSON-MIN.", value="FILE"),
    *,
    reviewer: list[str] | None = option(
        "Name of an annotator's id, e-mail or name; may be repeated.", value="THEIRS=NAME"
    ),
    word: list[str] | None = option("What a choice of the project means; may be repeated.", value="THEIRS=DECISION"),
    id_field: str = option("Member of a task's data with the sample id.", "sample_id", value="NAME"),
    control: str = option("Name of the project's choices.", "decision", value="NAME"),
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Import decisions from Label Studio into RUN/reviews.jsonl. Decisions that are there already are skipped."""
    from snellen.cli.options import parse_pairs
    from snellen.runs.reviews.audit_sample import read_audit_sample
    from snellen.runs.reviews.decisions import reviewer_name
    from snellen.runs.reviews.journal import ReviewJournal
    from snellen.runs.reviews.label_studio import read_annotations
    from snellen.runs.run import load_run

    opened = load_run(run, trust=moved.trust).moved(moved.data, moved.images)
    names = parse_pairs(reviewer, "--reviewer")
    for name in names.values():
        reviewer_name(name, "--reviewer")
    imported = read_annotations(
        file,
        opened,
        reviewers=names,
        words=parse_pairs(word, "--word"),
        id_field=id_field,
        control=control,
        audit=read_audit_sample(run),
    )
    count = ReviewJournal(run).extend(imported.reviews)
    skipped = dict(imported.skipped)
    if again := len(imported.reviews) - count:
        skipped["already there"] = skipped.get("already there", 0) + again
    if as_json:
        show_json({"imported": count, "skipped": skipped, "problems": list(imported.problems)})
        return
    print(f"{count:,} decisions added to {run / 'reviews.jsonl'}")
    for reason, number in skipped.items():
        print(f"  skipped: {number:,} × {reason}")
    for line in imported.problems:
        note(line)


class DecisionDesign(StrEnum):
    """Which decisions make a card."""

    AUDIT = "audit"
    ALL = "all"


@group.command()
def card(
    runs: list[Path] = argument("Run folders with reviews.", value="RUN…"),
    *,
    of: shared.ReviewedProfile = None,
    by: list[str] | None = option(
        "Slice by this meta column; may be repeated.", value="META", said="kind, level, task …"
    ),
    design: DecisionDesign | None = option(
        "Use the decisions of audit samples alone, or all of them.", said="audit, if each run has one"
    ),
    out: Path | None = option("Write the cards as one HTML page too.", value="FILE", said="no page"),
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Show how automatic verdicts compare with people's decisions: a card for each judge, by model and by slice."""
    from snellen.engine.output_file import require_output_file
    from snellen.reports.judge_card import write_judge_cards
    from snellen.runs.reviews.judge_card import judge_cards
    from snellen.runs.run import load_run
    from snellen.runs.run_paths import find_runs

    if out is not None:
        require_output_file(out, "--out", (".html",))
    folders = find_runs(runs, say=remark)
    opened = [load_run(path, trust=moved.trust).moved(moved.data, moved.images) for path in folders]
    cards = judge_cards(opened, of=of, by=by, design=None if design is None else design.value)
    if out is not None:
        write_judge_cards(cards, out)
    if as_json:
        show_json({"cards": [_card_json(each) for each in cards]})
        return
    for each in cards:
        show(_confusion_table(each))
        show(_rates_table(each))
        print_notes(each.notes)
    if out is not None:
        print(f"written to {out}")


def _card_json(each: JudgeCard) -> dict[str, Any]:
    from msgspec import to_builtins

    content: dict[str, Any] = to_builtins(each)
    return content


def _confusion_table(each: JudgeCard) -> Table:
    """Build the table of automatic verdicts against people's decisions."""
    from snellen.runs.reviews.judge_card import PEOPLE

    counts = each.parts[0].counts
    used = [word for word in PEOPLE if any(word in cells for cells in counts.values())]
    who = ", ".join(each.reviewers)
    table = new_table(one_line(f"{each.judge} against {who} · {each.parts[0].n:,} replies"), ["marked"], used)
    for marked, cells in counts.items():
        table.add_row(marked, *(f"{cells.get(word, 0):,}" for word in used))
    return table


RATES = ("error", "false_right", "false_wrong", "sensitivity", "specificity", "gold_error")


def _rates_table(each: JudgeCard) -> Table:
    """Build the table of rates, one line a part; a cell has the share, its interval and the replies behind it."""
    used = [rate for rate in RATES if any(metric.name == rate for part in each.parts for metric in part.metrics)]
    table = new_table(None, ["part"], ["n", *(rate.replace("_", " ") for rate in used), "kappa"])
    for part in each.parts:
        table.add_row(one_line(part.name), f"{part.n:,}", *(_rate(part, rate) for rate in used), _kappa(part))
    table.caption = legend(metric for part in each.parts for metric in part.metrics) or None
    return table


def _rate(part: ConfusionPart, rate: str) -> str:
    metric = next((metric for metric in part.metrics if metric.name == rate), None)
    if metric is None or metric.value is None:
        return "–"
    return f"{metric.value:.3f}\n{span(metric.ci95)}{mark(metric.interval)}\nn {metric.n:,}"


def _kappa(part: ConfusionPart) -> str:
    if part.kappa.value is None:
        return "–"
    return f"{part.kappa.value:.2f}\n{span(part.kappa.ci95, '.2f')}"
