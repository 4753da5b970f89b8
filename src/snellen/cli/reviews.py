"""snellen reviews"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from snellen.cli import options as shared
from snellen.cli.console import new_table, note, remark, show, show_json
from snellen.cli.option_parsing import Commands, expand_options
from snellen.cli.review_card import card
from snellen.errors import StorageError, UsageError

if TYPE_CHECKING:
    from snellen.runs.reviews.decisions import CaseKey
    from snellen.runs.reviews.status import ReviewStatus
    from snellen.runs.run import Run
    from snellen.scoring.statistics.agreement import Coefficient

group = Commands(help="Review verdicts: audit samples, agreement, exchange with Label Studio.", no_args_is_help=True)

RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Profile = Annotated[
    str | None,
    typer.Option(help="Scoring profile whose verdicts are reviewed.", show_default="the benchmark's first"),
]


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
    runs: Annotated[list[Path], typer.Argument(metavar="RUN…", help="Run folders.")],
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
@expand_options
def sample(
    run: RunArgument,
    size: Annotated[int, typer.Option(min=1, metavar="N", help="Replies to draw.")],
    *,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD,…",
            help="Stratify by these meta fields of the samples, or by verdict; strata share N by their size.",
        ),
    ] = None,
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


group.command()(card)


@group.command(name="export")
@expand_options
def export_tasks(
    run: RunArgument,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File of tasks (JSON); the labelling configuration goes to FILE.xml.")
    ],
    *,
    cases: Annotated[CaseChoice, typer.Option(help="Which replies, the most doubtful first.")] = CaseChoice.DOUBTFUL,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Export only the first N.")] = None,
    profile: Profile = None,
    embed_images: Annotated[
        bool, typer.Option("--embed-images/--no-embed-images", help="Embed images, at most 1,024 pixels wide or high.")
    ] = True,
    show_gold: Annotated[
        bool, typer.Option("--show-gold", help="Include the gold answers of a restricted benchmark.")
    ] = False,
    moved: shared.MovedOptions,
) -> None:
    """Export replies as tasks for Label Studio, with the decisions that there are. No task names the model."""
    import msgspec

    from snellen.atomic_write import replacing
    from snellen.engine.output_file import require_output_file
    from snellen.runs.reviews import read_audit_sample
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
    print(f"{count:,} tasks written to {path}, the labelling configuration to {path.with_suffix('.xml')}")


def _chosen(run: Run, choice: CaseChoice, profile: str | None) -> list[CaseKey]:
    from snellen.runs.reviews import ReviewJournal, disputed, read_audit_sample
    from snellen.runs.reviews.cases import doubtful_first, read_cases

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
@expand_options
def import_decisions(
    run: RunArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Export of Label Studio, JSON or JSON-MIN.")],
    *,
    reviewer: Annotated[
        list[str] | None,
        typer.Option(metavar="THEIRS=NAME", help="Name of an annotator's id, e-mail or name; may be repeated."),
    ] = None,
    word: Annotated[
        list[str] | None,
        typer.Option(metavar="THEIRS=DECISION", help="What a choice of the project means; may be repeated."),
    ] = None,
    id_field: Annotated[str, typer.Option(metavar="NAME", help="Member of a task's data with the sample id.")] = (
        "sample_id"
    ),
    control: Annotated[str, typer.Option(metavar="NAME", help="Name of the project's choices.")] = "decision",
    moved: shared.MovedOptions,
    as_json: shared.JsonResult = False,
) -> None:
    """Import decisions from Label Studio into RUN/reviews.jsonl. Decisions that are there already are skipped."""
    from snellen.cli.option_text import parse_pairs
    from snellen.runs.reviews import ReviewJournal, read_audit_sample
    from snellen.runs.reviews.decisions import reviewer_name
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
