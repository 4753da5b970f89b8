"""snellen build: benchmarks from images and a taxonomy, or curated from candidates, and the proof of their claims"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import typer

from snellen.cli import options as shared
from snellen.cli.linking import boxes, linking, masks
from snellen.cli.option_parsing import REQUIRED, Commands, argument, only, option, values
from snellen.cli.options import JudgeKeyEnv, JudgeUrl
from snellen.errors import UsageError
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.curation.evidence import Fetch
    from snellen.curation.release import ReleasedSet
    from snellen.curation.workspace import StageFile, Work
    from snellen.engine.progress import Display
    from snellen.models.base import ModelOptions

SOURCE, ASKED, DRAWN = "Input", "Questions", "Sampling and output"

group = Commands(
    help="Make a benchmark from images and a taxonomy, and prove that it is balanced and leaks nothing.",
    no_args_is_help=True,
)


@dataclass(frozen=True)
class BuildSourceOptions:
    """Images, labels and taxonomy of a set of questions."""

    PANEL: ClassVar[str] = SOURCE

    images: Path | None = option("Folder, zip or tar of the images; without --rows it has a folder per class.")
    rows: Path | None = option("CSV or TSV of image and label, split at the last comma or tab.")
    classes: Path | None = option("Class names, one per line, if the labels are indices from 0.")
    taxonomy: str | None = option(
        "CSV or TSV with a column for each level (or columns name and parent), Newick, JSON tree, Darwin Core "
        "archive; or folders, inaturalist (both by the images' folders), last-word (of the names: a pseudo-genus).",
        value="FILE|NAME",
    )
    attributes: Path | None = option("CSV or TSV with image, attribute, value.")
    features: Path | None = option(".npz for --negatives visual: vectors and classes, or features and labels.")
    homonyms: Literal["error", "qualify"] = option(
        "One name under two parents: refuse it, or write `name (parent)`.", "error"
    )


@dataclass(frozen=True)
class QuestionOptions:
    """Levels, kinds and wording of the questions."""

    PANEL: ClassVar[str] = ASKED

    levels: str | None = option("Levels of the taxonomy, coarse to fine.", value="A,B,C", said="those of the taxonomy")
    at: str | None = option("Generate questions at these levels only.", value="A,B", said="all")
    kinds: str = option(
        "Kinds of questions: truth, choice, short, bias, attributes.", "truth,choice,short", value="A,B"
    )
    options: str = option(
        "Number of options of a choice question; with `all`, attribute questions list every value: all, or 6,all.",
        "4",
        value="NUMBER|all",
    )
    noun: str = option("Word for the depicted object in the questions.", "object")
    templates: str = option("Wording: default, chart, or a TOML file.", "default", value="NAME|FILE")


@dataclass(frozen=True)
class SamplingOptions:
    """Sampling of images and distractors, and the written files."""

    PANEL: ClassVar[str] = DRAWN

    negatives: Literal["sibling", "cousin", "random", "visual"] = option(
        "Preferred distractor classes; the rest is filled from further away.", "sibling"
    )
    per_class: str | None = option(
        "Maximum images per class at each level: 20, or by level, kingdom=35,phylum=20; a number beside them is for the "
        "other levels.",
        value="NUMBER|LEVEL=NUMBER,…",
    )
    seed: int = option("Seed of all random draws.", 0)
    workers: int = option("Number of processes; it does not change the files.", 1, least=1)
    copy_images: bool = option("Copy the images under neutral names, without Exif.", False)
    name: shared.BenchmarkName = ""
    version: str = option("Version of the benchmark; raise it when you rebuild.", "1")


@group.command()
def questions(
    out: Path = option("Folder to write; it must not exist, or be empty.", REQUIRED),
    *,
    source: BuildSourceOptions,
    wording: QuestionOptions,
    sampling: SamplingOptions,
    as_json: bool = option("Print the manifest as one JSON object.", False, names=("--json",)),
) -> None:
    """Make a benchmark from images, labels and a taxonomy.

    `snellen run` accepts the folder. Everything is checked before anything is written; faults are reported with file and
    row.
    """
    from snellen.cli.console import show, show_json
    from snellen.questions.generate import BuildSettings, generate, images_per_class, option_counts

    manifest = generate(
        BuildSettings(
            out=out,
            levels=_words(wording.levels),
            at=_words(wording.at),
            kinds=_words(wording.kinds) or (),
            **option_counts(wording.options),
            per_class=images_per_class(sampling.per_class),
            **values(source),
            **values(sampling, but=("per_class",)),
            **values(wording, but=("levels", "at", "kinds", "options")),
        )
    )
    if as_json:
        show_json(manifest)
        return
    from rich.table import Table

    table = Table("questions", "kind", "level", "file", title=f"{manifest.name}: {manifest.questions:,} questions")
    table.columns[0].justify = "right"
    for part in manifest.parts:
        table.add_row(f"{part.questions:,}", part.ask, part.level, part.file)
    show(table, *manifest.notes, f"In {out}. Check it: snellen build check {out}")


@group.command()
def check(
    folder: Path = argument("Folder of a built benchmark."),
    as_json: bool = option("Print the report as one JSON object.", False, names=("--json",)),
) -> None:
    """Prove that a benchmark is balanced, that its answers are correct and that nothing reveals them.

    Everything is recounted from the files. The exit status is 1 if a claim does not hold.
    """
    from snellen.cli.console import show, show_json
    from snellen.questions.verify import verify_set

    report = verify_set(folder)
    if as_json:
        import msgspec

        show_json({**msgspec.to_builtins(report), "holds": report.holds})
        raise typer.Exit(0 if report.holds else 1)
    from rich.table import Table

    parts = Table(
        "part", "questions", "yes", "positions of the correct option", "siblings", "cousins", title=report.name
    )
    for part in report.parts:
        shares = (f"{share:.1%}" if share is not None else "-" for share in (part.sibling_share, part.cousin_share))
        places = " ".join(f"{count:,}" for count in part.places) or "-"
        parts.add_row(part.part, f"{part.questions:,}", "-" if part.yes is None else f"{part.yes:,}", places, *shares)
    claims = Table("claim", "cases", "faults", "statement")
    for claim in report.claims:
        claims.add_row(claim.name, f"{claim.cases:,}", f"{claim.faults:,}", claim.text)
    faults = [f"{claim.name}: {example}" for claim in report.claims for example in claim.examples]
    show(parts, claims, *faults, "All claims hold." if report.holds else "Not all claims hold.")
    raise typer.Exit(0 if report.holds else 1)


group.command()(boxes)
group.command()(masks)
group.command()(linking)


def _words(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(comma_list(text))


HARD, LEAKS, EVIDENCE, REVIEW, PACK = (
    "1 hard: difficulty for models",
    "2 leaks: answers on the web",
    "3 evidence: support by web pages",
    "4 review: decisions of annotators",
    "5 pack",
)
Stage = Literal["all", "hard", "leaks", "evidence", "review", "pack"]


@dataclass(frozen=True)
class StageOptions:
    """Stages to run, and the name and version of the result."""

    stage: Stage = option("One stage, or all in order.", "all")
    skip: str | None = option("Skip hard, leaks, evidence or review; the data card reports it.", value="A,B")
    name: shared.BenchmarkName = ""
    version: str = option("Version of the benchmark.", "1.0", panel=PACK)
    without_undecided: bool = option("Omit undecided candidates.", False, panel=PACK)


@dataclass(frozen=True)
class HardOptions:
    """Models and judge that decide which candidates are hard."""

    PANEL: ClassVar[str] = HARD

    model: list[str] | None = option(
        "A closed-book model; may be repeated.", names=("--model", "-m"), value="KIND:NAME"
    )
    repeats: int = option("Answers per model and candidate.", 1, names=("--repeats", "-k"), least=1)
    max_correct: int = option(
        "Drop a candidate that a model answers correctly more often than this.",
        0,
        names=("--max-correct-of-k",),
        least=0,
    )
    correct: Literal["reading", "judge"] = option("Score replies by the strict rule, or by a judge.", "reading")
    judge: str | None = option("The judge model.", value="KIND:NAME", said="JUDGE_MODEL")
    judge_base_url: JudgeUrl = None
    judge_key_env: JudgeKeyEnv = None


@dataclass(frozen=True)
class CurationSourceOptions:
    """Sources of search results and web pages."""

    PANEL: ClassVar[str] = "Search and web pages"

    collection: Path | None = option("Folder of pages and images for offline search.")
    tools: Path | None = option(
        "Settings of the tools (`snellen --help curation`). Search engines in it receive every image.", value="FILE"
    )
    pages: Path | None = option("Folder of saved pages with a pages.jsonl, for the evidence.")


@dataclass(frozen=True)
class LeakOptions:
    """Rules of the leakage audit."""

    PANEL: ClassVar[str] = LEAKS

    hits: int = option("Number of hits to request.", 20, least=1)
    drop: str = option(
        "Reasons to drop: named (a hit names the answer), copy (a hit shows the image), alike (the encoder "
        "finds a hit similar), page (the text of a page that shows the image names the answer), twin (a candidate repeats "
        "another).",
        "named,twin",
        value="A,B",
    )
    near: int = option("Bits of 256 by which copies may differ.", 72, least=0, most=128)
    encoder: str = option(
        "Encoder for pairs that the hash cannot decide: embedded, hf:NAME, a folder, timm:NAME …, or none.",
        "embedded",
        value="SPEC",
    )
    alike: float = option("Minimum cosine of similar images.", 0.99, least=0, most=1)


@dataclass(frozen=True)
class EvidenceOptions:
    """Rules of the evidence check and the review."""

    PANEL: ClassVar[str] = EVIDENCE

    min_pages: int = option("Number of pages that must support an answer.", 1, least=1)
    evidence_judge: str | None = option("A model that must agree.", value="KIND:NAME")
    rubric: Path | None = option("Rubric of that model (.toml).", value="FILE")
    reviewers: int = option("Number of annotators per candidate.", 2, least=1, panel=REVIEW)
    port: int = option(
        "Port of the review page, on loopback; 0 selects a free one.", 0, least=0, most=65535, panel=REVIEW
    )


@group.command()
def curate(
    out: Path = option("Working folder; created, or resumed.", REQUIRED),
    candidates: Path | None = argument(
        "JSONL or CSV: id, image, question, answer, aliases, evidence, domain … Required on the first call.", None
    ),
    images: Path | None = option("Folder or archive of the images, required on the first call."),
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
    from snellen.cli.preview import refuse_run
    from snellen.curation import stages as curation
    from snellen.curation.evidence import CollectionFetch, PagesFolder, collection_of
    from snellen.curation.leaks import LeakRule
    from snellen.curation.near_duplicates import open_image_encoder
    from snellen.curation.release import pack, require_release_names
    from snellen.curation.web import engine_name, fetch_by, search_by, settings_of
    from snellen.curation.workspace import open_work
    from snellen.engine.progress import display
    from snellen.engine.run_folder import RunFolder

    refuse_run(out)
    skipped, selected = _chosen_stages(stages)
    options = shared.model_options(generation, endpoint, media)
    judge_options = structs.replace(options, base_url=None, key_env=None, media=shared.MediaOptions().settings())
    progress = display(as_json=output.as_json, quiet=output.quiet)
    tools = settings_of(sources.tools, sources.collection)
    # The requirements of later stages are checked before the first request.
    rule = LeakRule(k=leaks.hits, drop=tuple(comma_list(leaks.drop)), near=leaks.near, alike=leaks.alike).checked()
    _require_sources(selected, sources, searchable=tools is not None)
    saved = None
    if sources.pages is not None and "evidence" in selected:
        saved = CollectionFetch(PagesFolder(sources.pages), collection_of(sources.pages))
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
            done.append(_filter_hard(work, hard, options, progress))
        if "leaks" in selected and tools is not None:
            for line in tools.notices():
                note(line)
            search, engine = search_by(tools, looks), engine_name(tools, looks)
            done.append(
                curation.audit_leaks(
                    work,
                    search,
                    engine,
                    fetch=fetch_by(tools),
                    rule=rule,
                    encoder=looks,
                    skip=skipped,
                    notify=note,
                )
            )
        if "evidence" in selected:
            fetch = saved or (fetch_by(tools) if tools is not None else None)
            done.append(_check_evidence(work, fetch, hard, evidence, skipped, judge_options, progress))
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
        _show_results(work, done, packed, as_json=output.as_json)


def _chosen_stages(stages: StageOptions) -> tuple[tuple[str, ...], list[str]]:
    """Return the stages that are skipped, and those that run. Raises UsageError for one that cannot be skipped."""
    from snellen.curation import DECIDING, STAGES

    skipped = tuple(comma_list(stages.skip))
    for stage in skipped:
        if stage not in DECIDING:
            raise UsageError(f"--skip {stage}: the stages that can be skipped are {', '.join(DECIDING)}")
    return skipped, [stage for stage in STAGES if stage not in skipped] if stages.stage == "all" else [stages.stage]


def _filter_hard(work: Work, hard: HardOptions, options: ModelOptions, progress: Display) -> StageFile:
    """Let the models answer each candidate, and keep those that are hard."""
    from snellen.curation import stages as curation

    return curation.filter_hard(
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


def _check_evidence(
    work: Work,
    fetch: Fetch | None,
    hard: HardOptions,
    evidence: EvidenceOptions,
    skipped: tuple[str, ...],
    options: ModelOptions,
    progress: Display,
) -> StageFile:
    """Fetch the pages that support each answer, and let the judge read them."""
    from snellen.cli.console import note
    from snellen.curation import stages as curation

    return curation.check_evidence(
        work,
        fetch,
        least=evidence.min_pages,
        judge=evidence.evidence_judge,
        rubric=evidence.rubric,
        base_url=hard.judge_base_url,
        key_env=hard.judge_key_env,
        skip=skipped,
        options=options,
        display=progress,
        notify=note,
    )


def _require_sources(selected: Sequence[str], sources: CurationSourceOptions, *, searchable: bool) -> None:
    """Raise UsageError for a stage that has nothing to search in or nowhere to fetch from."""

    if "leaks" in selected and not searchable:
        raise UsageError(
            "the leakage audit has nothing to search in",
            "Add --collection FOLDER or --tools FILE, or skip it with --skip leaks.",
        )
    if "evidence" in selected and sources.pages is None and not searchable:
        raise UsageError(
            "the evidence check has nowhere to fetch from",
            "Add --pages FOLDER, --collection FOLDER or --tools FILE, or skip it with --skip evidence.",
        )


def _show_results(work: Work, done: list[StageFile], packed: ReleasedSet | None, *, as_json: bool) -> None:
    """Print what the stages counted and the benchmark that was packed."""
    from msgspec import structs

    from snellen.cli.console import note, show_json

    if as_json:
        results = {stage.stage: {"counts": stage.counts(), **stage.summary} for stage in done}
        show_json({"work": work.path, "stages": results, "pack": None if packed is None else structs.asdict(packed)})
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
    from snellen.cli.console import new_table, show

    if not done:
        return
    table = new_table(work.state.name, ["stage"], ["entered", "kept", "dropped", "undecided"])
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
