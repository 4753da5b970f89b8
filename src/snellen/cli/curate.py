"""snellen build curate"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.judge_options import JudgeKeyEnv, JudgeUrl
from snellen.cli.option_parsing import expand_options, only
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.curation.workspace import StageFile, Work

HARD, LEAKS, EVIDENCE, REVIEW, PACK = (
    "1 hard: difficulty for models",
    "2 leaks: answers on the web",
    "3 evidence: support by web pages",
    "4 review: decisions of annotators",
    "5 pack",
)
SOURCES = "Search and web pages"
Stage = Literal["all", "hard", "leaks", "evidence", "review", "pack"]


@dataclass(frozen=True)
class StageOptions:
    """Stages to run, and the name and version of the result."""

    stage: Annotated[Stage, typer.Option(help="One stage, or all in order.")] = "all"
    skip: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Skip hard, leaks, evidence or review; the data card reports it."),
    ] = None
    name: Annotated[str, typer.Option(help="Name of the benchmark.", show_default="the folder's name")] = ""
    version: Annotated[str, typer.Option(help="Version of the benchmark.", rich_help_panel=PACK)] = "1.0"
    without_undecided: Annotated[
        bool, typer.Option("--without-undecided", help="Omit undecided candidates.", rich_help_panel=PACK)
    ] = False


@dataclass(frozen=True)
class HardOptions:
    """Models and judge that decide which candidates are hard."""

    PANEL: ClassVar[str] = HARD

    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="KIND:NAME", help="A closed-book model; may be repeated."),
    ] = None
    repeats: Annotated[int, typer.Option("--repeats", "-k", min=1, help="Answers per model and candidate.")] = 1
    max_correct: Annotated[
        int,
        typer.Option(
            "--max-correct-of-k", min=0, help="Drop a candidate that a model answers correctly more often than this."
        ),
    ] = 0
    correct: Annotated[
        Literal["reading", "judge"], typer.Option(help="Score replies by the strict rule, or by a judge.")
    ] = "reading"
    judge: Annotated[
        str | None, typer.Option(metavar="KIND:NAME", help="The judge model.", show_default="JUDGE_MODEL")
    ] = None
    judge_base_url: JudgeUrl = None
    judge_key_env: JudgeKeyEnv = None


@dataclass(frozen=True)
class CurationSourceOptions:
    """Sources of search results and web pages."""

    PANEL: ClassVar[str] = SOURCES

    collection: Annotated[Path | None, typer.Option(help="Folder of pages and images for offline search.")] = None
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Settings of the tools (docs/curation.md). Search engines in it receive every image."
        ),
    ] = None
    pages: Annotated[Path | None, typer.Option(help="Folder of saved pages with a pages.jsonl, for the evidence.")] = (
        None
    )


@dataclass(frozen=True)
class LeakOptions:
    """Rules of the leakage audit."""

    PANEL: ClassVar[str] = LEAKS

    hits: Annotated[int, typer.Option(min=1, help="Number of hits to request.")] = 20
    drop: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Reasons to drop: named (a hit names the answer), copy (a hit shows the image), alike (the encoder "
            "finds a hit similar), twin (a candidate repeats another).",
        ),
    ] = "named,twin"
    near: Annotated[int, typer.Option(min=0, max=128, help="Bits of 256 by which copies may differ.")] = 72
    encoder: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Encoder for pairs that the hash cannot decide: embedded, hf:NAME, a folder, timm:NAME …, or none.",
        ),
    ] = "embedded"
    alike: Annotated[float, typer.Option(min=0, max=1, help="Minimum cosine of similar images.")] = 0.99


@dataclass(frozen=True)
class EvidenceOptions:
    """Rules of the evidence check and the review."""

    PANEL: ClassVar[str] = EVIDENCE

    min_pages: Annotated[int, typer.Option(min=1, help="Number of pages that must support an answer.")] = 1
    evidence_judge: Annotated[str | None, typer.Option(metavar="KIND:NAME", help="A model that must agree.")] = None
    rubric: Annotated[Path | None, typer.Option(metavar="FILE", help="Rubric of that model (.toml).")] = None
    reviewers: Annotated[
        int, typer.Option(min=1, help="Number of annotators per candidate.", rich_help_panel=REVIEW)
    ] = 2
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, help="Port of the review page, on loopback; 0 selects a free one.", rich_help_panel=REVIEW
        ),
    ] = 0


@expand_options
def curate(
    out: Annotated[Path, typer.Option("--out", help="Working folder; created, or resumed.")],
    candidates: Annotated[
        Path | None,
        typer.Argument(
            help="JSONL or CSV: id, image, question, answer, aliases, evidence, domain … Required on the first call."
        ),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder or archive of the images, required on the first call.")
    ] = None,
    *,
    stages: StageOptions,
    hard: HardOptions,
    sources: CurationSourceOptions,
    leaks: LeakOptions,
    evidence: EvidenceOptions,
    generation: Annotated[shared.GenerationOptions, only("max_tokens", "temperature")],
    endpoint: Annotated[
        shared.EndpointOptions,
        only("base_url", "key_env", "concurrency", "timeout", "patience", "rpm", "tpm"),
    ],
    media: Annotated[shared.MediaOptions, only("max_long_side")],
    output: shared.OutputOptions,
) -> None:
    """Make a benchmark of hard, unleaked questions with evidence from candidates.

    Each stage can be interrupted and resumed. Requests, hits, pages and replies are stored in the working folder together
    with the answers: keep the folder away from models that are evaluated.
    """
    from msgspec import structs

    from snellen.cli.console import note
    from snellen.curation import DECIDING, STAGES
    from snellen.curation import stages as curation
    from snellen.curation.evidence import PagesFolder
    from snellen.curation.leaks import LeakRule
    from snellen.curation.near_duplicates import open_image_encoder
    from snellen.curation.release import pack, require_release_names
    from snellen.curation.web import engine_name, fetch_by, search_by, settings_of
    from snellen.curation.workspace import open_work
    from snellen.engine.progress import display
    from snellen.engine.run_folder import RunFolder
    from snellen.errors import UsageError

    skipped = tuple(comma_list(stages.skip))
    for stage in skipped:
        if stage not in DECIDING:
            raise UsageError(f"--skip {stage}: the stages that can be skipped are {', '.join(DECIDING)}")
    selected = [stage for stage in STAGES if stage not in skipped] if stages.stage == "all" else [stages.stage]
    options = shared.model_options(generation, endpoint, media)
    judge_options = structs.replace(options, base_url=None, key_env=None, media=shared.MediaOptions().settings())
    progress = display(as_json=output.as_json, quiet=output.quiet)
    tools = settings_of(sources.tools, sources.collection)
    # The requirements of later stages are checked before the first request.
    rule = LeakRule(k=leaks.hits, drop=tuple(comma_list(leaks.drop)), near=leaks.near, alike=leaks.alike).checked()
    if "leaks" in selected and tools is None:
        raise UsageError(
            "the leakage audit has nothing to search in",
            "Add --collection FOLDER or --tools FILE, or skip it with --skip leaks.",
        )
    if "evidence" in selected and sources.pages is None and tools is None:
        raise UsageError(
            "the evidence check has nowhere to fetch from",
            "Add --pages FOLDER, --collection FOLDER or --tools FILE, or skip it with --skip evidence.",
        )
    saved = PagesFolder(sources.pages) if sources.pages is not None and "evidence" in selected else None
    if "pack" in selected:
        require_release_names(stages.name or "curated", stages.version)
    curation.require_models(
        selected,
        models=hard.model or (),
        options=options,
        correct=hard.correct,
        judge=hard.judge,
        evidence_judge=evidence.evidence_judge,
        base_url=hard.judge_base_url,
        key_env=hard.judge_key_env,
        rubric=evidence.rubric,
    )
    looks = open_image_encoder(leaks.encoder) if "leaks" in selected else None
    with RunFolder(out).locked():
        work = open_work(out, candidates, images, stages.name)
        done: list[StageFile] = []
        if "hard" in selected:
            done.append(
                curation.filter_hard(
                    work,
                    hard.model or (),
                    repeats=hard.repeats,
                    max_correct=hard.max_correct,
                    correct=hard.correct,
                    judge=hard.judge,
                    judge_base_url=hard.judge_base_url,
                    judge_key_env=hard.judge_key_env,
                    options=options,
                    display=progress,
                )
            )
        if "leaks" in selected and tools is not None:
            for line in tools.notices():
                note(line)
            search, engine = search_by(tools, looks), engine_name(tools, looks)
            done.append(curation.audit_leaks(work, search, engine, rule=rule, encoder=looks, skip=skipped, notify=note))
        if "evidence" in selected:
            fetch = saved if saved is not None else fetch_by(tools) if tools is not None else None
            done.append(
                curation.check_evidence(
                    work,
                    fetch,
                    least=evidence.min_pages,
                    judge=evidence.evidence_judge,
                    rubric=evidence.rubric,
                    base_url=hard.judge_base_url,
                    key_env=hard.judge_key_env,
                    skip=skipped,
                    options=judge_options,
                    display=progress,
                    notify=note,
                )
            )
        if "review" in selected:
            if not output.as_json:
                _show(work, done)
                done = []
            _serve_review(work, evidence.reviewers, evidence.port, skipped)
            done.append(curation.close_review(work, reviewers=evidence.reviewers, skip=skipped))
        packed = None
        if "pack" in selected:
            packed = pack(
                work,
                stages.version,
                name=stages.name,
                skip=skipped,
                without_undecided=stages.without_undecided,
            )
        if output.as_json:
            from snellen.cli.console import show_json

            results = {stage.stage: {"counts": stage.counts(), **stage.summary} for stage in done}
            show_json({"work": out, "stages": results, "pack": None if packed is None else structs.asdict(packed)})
            return
        _show(work, done)
        if packed is not None:
            for id_, why in packed.left_out.items():
                note(f"omitted: {id_}, edited in the review. {why}")
            print(f"{packed.questions:,} questions in {packed.path} (SHA-256 {packed.sha256})")
            print(f"Run it: snellen run fika --data {packed.path} --model KIND:NAME")


def _serve_review(work: Work, reviewers: int, port: int, skip: tuple[str, ...]) -> None:
    """Serve the review page of the candidates until Ctrl-C."""
    from snellen.cli.console import note
    from snellen.curation.review_cases import open_review
    from snellen.viewer.security import new_token
    from snellen.viewer.serve import serve
    from snellen.viewer.site import ViewSettings

    with open_review(work, reviewers, skip) as cases:
        settings = ViewSettings(root=work.path, token=new_token(), cases=cases)
        serve(settings, port, open_browser=False, notify=note)


def _show(work: Work, done: list[StageFile]) -> None:
    """Print a table of the stages, then the agreement of annotators and the files with reasons."""
    from rich.table import Table

    from snellen.cli.console import show

    if not done:
        return
    table = Table("stage", "entered", "kept", "dropped", "undecided", title=work.state.name)
    for column in table.columns[1:]:
        column.justify = "right"
    lines = []
    for stage in done:
        counts = stage.counts()
        table.add_row(stage.stage, *(f"{counts[name]:,}" for name in ("entered", "keep", "drop", "undecided")))
        for pair in stage.summary.get("agreement", ()):
            kappa = "not defined" if pair["kappa"] is None else f"{pair['kappa']:.2f}"
            names = " and ".join(pair["reviewers"])
            lines.append(f"{names}: agreement on {pair['observed']:.1%} of {pair['n']:,}, Cohen's kappa {kappa}")
        if counts["undecided"]:
            lines.append(
                f"{stage.stage}: {work.path / (stage.stage + '.json')} has the reason of each undecided candidate"
            )
    show(table, *lines)
