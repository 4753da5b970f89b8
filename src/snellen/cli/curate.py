"""snellen build curate"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from snellen.cli import options as given
from snellen.text import comma_list

if TYPE_CHECKING:
    from snellen.curation.workspace import StageFile, Work

HARD, LEAKS, EVIDENCE, REVIEW, PACK = (
    "1 hard: what models know",
    "2 leaks: what the web gives away",
    "3 evidence: what pages support",
    "4 review: what people decide",
    "5 pack",
)
SOURCES = "Where hits and pages come from"
Stage = Literal["all", "hard", "leaks", "evidence", "review", "pack"]


def curate(
    out: Annotated[Path, typer.Option("--out", help="The working folder; it is made, or gone on with.")],
    candidates: Annotated[
        Path | None,
        typer.Argument(help="JSONL or CSV: id, image, question, answer, aliases, evidence, domain … Needed once."),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder or archive of the pictures. Needed once.")] = None,
    stage: Annotated[Stage, typer.Option(help="One stage, or all in their order.")] = "all",
    skip: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Do without hard, leaks, evidence or review; the data card says so."),
    ] = None,
    name: Annotated[str, typer.Option(help="What the set is called.", show_default="the folder's name")] = "",
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model", "-m", metavar="KIND:NAME", help="A closed-book model; may be repeated.", rich_help_panel=HARD
        ),
    ] = None,
    repeats: Annotated[int, typer.Option("--repeats", "-k", min=1, help="Tries of each.", rich_help_panel=HARD)] = 1,
    max_correct: Annotated[
        int,
        typer.Option(
            "--max-correct-of-k", min=0, help="Drop what a model is right about more often.", rich_help_panel=HARD
        ),
    ] = 0,
    correct: Annotated[
        Literal["reading", "judge"],
        typer.Option(help="A reply is right by the strict rule, or by a judge's verdict.", rich_help_panel=HARD),
    ] = "reading",
    judge: Annotated[
        str | None,
        typer.Option(metavar="KIND:NAME", help="The judge.", show_default="JUDGE_MODEL", rich_help_panel=HARD),
    ] = None,
    judge_base_url: Annotated[
        str | None,
        typer.Option(help="The judges' endpoint.", show_default="JUDGE_BASE_URL", rich_help_panel=HARD),
    ] = None,
    judge_key_env: Annotated[
        str | None,
        typer.Option(help="Name of the variable with the judges' key.", rich_help_panel=HARD),
    ] = None,
    collection: Annotated[
        Path | None,
        typer.Option(help="Folder of pages and pictures that are searched offline.", rich_help_panel=SOURCES),
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Settings of the tools (docs/curation.md). Engines named in it get every picture.",
            rich_help_panel=SOURCES,
        ),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(help="Folder of saved pages with a pages.jsonl, for the evidence.", rich_help_panel=SOURCES),
    ] = None,
    hits: Annotated[int, typer.Option(min=1, help="Hits that are asked for.", rich_help_panel=LEAKS)] = 20,
    drop: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Of named (a hit names the answer), copy (a hit shows the picture), alike (it looks the same to the "
            "encoder), twin (a candidate repeats another).",
            rich_help_panel=LEAKS,
        ),
    ] = "named,twin",
    near: Annotated[
        int, typer.Option(min=0, max=128, help="Bits of 256 in which copies differ.", rich_help_panel=LEAKS)
    ] = 72,
    encoder: Annotated[
        str,
        typer.Option(
            metavar="SPEC",
            help="Compares what the hash does not tell: embedded, hf:NAME, a folder, timm:NAME …, or none.",
            rich_help_panel=LEAKS,
        ),
    ] = "embedded",
    alike: Annotated[
        float, typer.Option(min=0, max=1, help="Cosine from which pictures look the same to it.", rich_help_panel=LEAKS)
    ] = 0.99,
    min_pages: Annotated[
        int, typer.Option(min=1, help="Pages that must support an answer.", rich_help_panel=EVIDENCE)
    ] = 1,
    evidence_judge: Annotated[
        str | None,
        typer.Option(metavar="KIND:NAME", help="A model that has to agree.", rich_help_panel=EVIDENCE),
    ] = None,
    rubric: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Its rubric (.toml).", rich_help_panel=EVIDENCE)
    ] = None,
    reviewers: Annotated[int, typer.Option(min=1, help="People who have to judge each.", rich_help_panel=REVIEW)] = 2,
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, help="Of the page, on loopback; 0 takes a free one.", rich_help_panel=REVIEW),
    ] = 0,
    version: Annotated[str, typer.Option(help="Of the set.", rich_help_panel=PACK)] = "1.0",
    without_undecided: Annotated[
        bool, typer.Option("--without-undecided", help="Leave out what is undecided.", rich_help_panel=PACK)
    ] = False,
    max_tokens: given.MaxTokens = None,
    temperature: given.Temperature = None,
    base_url: given.BaseUrl = None,
    key_env: given.KeyEnv = None,
    concurrency: given.Concurrency = 16,
    timeout: given.Timeout = 300.0,
    patience: given.Patience = 900.0,
    rpm: given.Rpm = None,
    tpm: given.Tpm = None,
    max_long_side: given.MaxLongSide = None,
    quiet: given.Quiet = False,
    as_json: given.AsJson = False,
) -> None:
    """Make a benchmark of hard, unleaked, evidenced questions from candidates.

    Each stage can be interrupted and goes on where it was. What was asked, found, fetched and said is kept in the
    working folder, with the answers: keep it away from models that are evaluated.
    """
    from msgspec import structs

    from snellen.cli.console import note
    from snellen.curation import DECIDING, STAGES
    from snellen.curation import stages as curating
    from snellen.curation.evidence import PagesFolder
    from snellen.curation.leaks import Rule
    from snellen.curation.near_duplicates import open_looks
    from snellen.curation.release import pack, require_names
    from snellen.curation.web import engine_name, fetch_by, search_by, settings_of
    from snellen.curation.workspace import open_work
    from snellen.engine.progress import display
    from snellen.engine.run_folder import RunFolder
    from snellen.errors import UsageError
    from snellen.models.base import ModelOptions
    from snellen.types import MediaSettings

    skipped = tuple(comma_list(skip))
    for one in skipped:
        if one not in DECIDING:
            raise UsageError(f"--skip {one}: the stages that can be skipped are {', '.join(DECIDING)}")
    wanted = [one for one in STAGES if one not in skipped] if stage == "all" else [stage]
    plain = ModelOptions(
        generation=given.generation(max_tokens, temperature, None, None),
        concurrency=concurrency,
        timeout_s=timeout,
        patience_s=patience,
        rpm=rpm,
        tpm=tpm,
    )
    asked = structs.replace(plain, base_url=base_url, key_env=key_env, media=MediaSettings(max_long_side=max_long_side))
    shown = display(as_json=as_json, quiet=quiet)
    settings = settings_of(tools, collection)
    # What later stages need is checked before the first one asks a model.
    rule = Rule(k=hits, drop=tuple(comma_list(drop)), near=near)
    rule = structs.replace(rule, alike=alike).checked()
    if "leaks" in wanted and settings is None:
        raise UsageError(
            "the leakage audit has nothing to search in",
            "Give --collection FOLDER, or --tools FILE. To do without it: --skip leaks.",
        )
    if "evidence" in wanted and pages is None and settings is None:
        raise UsageError(
            "the evidence check has nowhere to fetch from",
            "Give --pages FOLDER, --collection FOLDER, or --tools FILE. To do without it: --skip evidence.",
        )
    saved = PagesFolder(pages) if pages is not None and "evidence" in wanted else None
    if "pack" in wanted:
        require_names(name or "curated", version)
    curating.require_models(
        wanted,
        models=model or (),
        options=asked,
        correct=correct,
        judge=judge,
        evidence_judge=evidence_judge,
        base_url=judge_base_url,
        key_env=judge_key_env,
        rubric=rubric,
    )
    looks = open_looks(encoder) if "leaks" in wanted else None
    with RunFolder(out).locked():
        work = open_work(out, candidates, images, name)
        done: list[StageFile] = []
        if "hard" in wanted:
            done.append(
                curating.filter_hard(
                    work,
                    model or (),
                    repeats=repeats,
                    max_correct=max_correct,
                    correct=correct,
                    judge=judge,
                    judge_base_url=judge_base_url,
                    judge_key_env=judge_key_env,
                    options=asked,
                    display=shown,
                )
            )
        if "leaks" in wanted and settings is not None:
            for line in settings.notices():
                note(line)
            search, engine = search_by(settings, looks), engine_name(settings, looks)
            done.append(curating.audit_leaks(work, search, engine, rule=rule, encoder=looks, skip=skipped, tell=note))
        if "evidence" in wanted:
            fetch = saved if saved is not None else fetch_by(settings) if settings is not None else None
            done.append(
                curating.check_evidence(
                    work,
                    fetch,
                    least=min_pages,
                    judge=evidence_judge,
                    rubric=rubric,
                    base_url=judge_base_url,
                    key_env=judge_key_env,
                    skip=skipped,
                    options=plain,
                    display=shown,
                    tell=note,
                )
            )
        if "review" in wanted:
            if not as_json:
                _show(work, done)
                done = []
            done.append(curating.serve_review(work, reviewers=reviewers, port=port, skip=skipped, tell=note))
        packed = None
        if "pack" in wanted:
            packed = pack(work, version, name=name, skip=skipped, without_undecided=without_undecided)
        if as_json:
            from snellen.cli.console import show_json

            stages = {one.stage: {"counts": one.counts(), **one.summary} for one in done}
            show_json({"work": out, "stages": stages, "pack": None if packed is None else structs.asdict(packed)})
            return
        _show(work, done)
        if packed is not None:
            for id_, why in packed.left_out.items():
                note(f"left out: {id_}, edited in the review. {why}")
            print(f"{packed.questions:,} questions in {packed.path} (SHA-256 {packed.sha256})")
            print(f"Ask a model: snellen run fika --data {packed.path} --model KIND:NAME")


def _show(work: Work, done: list[StageFile]) -> None:
    """A table of the stages, and what each says about all candidates together."""
    from rich.table import Table

    from snellen.cli.console import show

    if not done:
        return
    table = Table("stage", "entered", "kept", "dropped", "undecided", title=work.state.name)
    for column in table.columns[1:]:
        column.justify = "right"
    lines = []
    for one in done:
        counts = one.counts()
        table.add_row(one.stage, *(f"{counts[name]:,}" for name in ("entered", "keep", "drop", "undecided")))
        for pair in one.summary.get("agreement", ()):
            kappa = "not defined" if pair["kappa"] is None else f"{pair['kappa']:.2f}"
            who = " and ".join(pair["reviewers"])
            lines.append(f"{who}: the same opinion on {pair['observed']:.1%} of {pair['n']:,}, Cohen's kappa {kappa}")
        if counts["undecided"]:
            lines.append(f"{one.stage}: why each is undecided stands in {work.path / (one.stage + '.json')}")
    show(table, *lines)
