"""Curation stages from Python, as `snellen build curate` runs them; each is a function over one working folder."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Data
from snellen.curation import evidence, leaks, model_filter, review_cases
from snellen.curation.near_duplicates import ImageEncoder
from snellen.curation.workspace import StageDecision, StageFile, Work
from snellen.engine.progress import Display
from snellen.engine.run_folder import RunFolder, RunSpec
from snellen.errors import UsageError
from snellen.models import registry
from snellen.models.base import ModelOptions
from snellen.runs.judge.ask import MODEL as JUDGE_MODEL
from snellen.runs.judge.ask import appointed, setting
from snellen.runs.judge.ask import judge as judge_run
from snellen.runs.judge.benchmark import UNANSWERED
from snellen.runs.perform import perform
from snellen.runs.reviews.decisions import standing
from snellen.runs.scoring import Scored

Correct = Literal["reading", "judge"]


def require_models(
    stages: Collection[str],
    *,
    models: Sequence[str],
    options: ModelOptions,
    correct: Correct = "reading",
    judge: str | None = None,
    evidence_judge: str | None = None,
    base_url: str | None = None,
    key_env: str | None = None,
    rubric: Path | None = None,
) -> None:
    """Refuse unusable models, judges and rubrics of all stages before the first request.

    Opening a model loads and contacts nothing. Arguments are those of `filter_hard` and `check_evidence`.

    Raises:
        SnellenError: no such model, a judge without a key or that is gone, an address that is none, no such rubric.
    """
    endpoint = ModelOptions(base_url=base_url, key_env=key_env)
    if "hard" in stages:
        for model in models:
            registry.require_kind(model)
            if model.partition(":")[0] in registry.KINDS:
                registry.open_model(model, options)
        if correct == "judge" and (judge is not None or setting(JUDGE_MODEL) is not None):
            appointed(judge, endpoint, option="--judge").opened()
    if "evidence" in stages and evidence_judge is not None:
        appointed(evidence_judge, endpoint, option="--evidence-judge").opened()
        evidence.rubric_of(rubric)


def filter_hard(
    work: Work,
    models: Sequence[str],
    *,
    repeats: int = 1,
    max_correct: int = 0,
    correct: Correct = "reading",
    judge: str | None = None,
    judge_base_url: str | None = None,
    judge_key_env: str | None = None,
    options: ModelOptions | None = None,
    display: Display | None = None,
) -> StageFile:
    """Stage 1: ask every model `repeats` times; drop candidates answered correctly more than `max_correct` times.

    Args:
        models: KIND:NAME of each.
        correct: how a reply is found to be right: read by the strict rule, or by a judge's verdict (rubric match).
        judge, judge_base_url, judge_key_env: the judge, as for `snellen judge`.
        options: as for `evaluate`; for all models alike.

    Raises:
        UsageError: no model, or settings that contradict each other.
        SnellenError: as `evaluate`; what was answered is on disk, and the same call goes on.
    """
    if not models:
        raise UsageError("no closed-book model given", "Give --model KIND:NAME; repeat it for more.")
    if not 0 <= max_correct < repeats:
        raise UsageError(
            f"--max-correct-of-k {max_correct} with --repeats {repeats} drops nothing", f"At most {repeats - 1}."
        )
    if correct == "judge" and judge is None and setting(JUDGE_MODEL) is None:
        raise UsageError("no judge given", "Give --judge KIND:NAME, or set JUDGE_MODEL.")
    benchmark = model_filter.benchmark(work)
    by_candidate: dict[str, list[model_filter.Tries]] = {candidate.id: [] for candidate in work.candidates}
    for model in dict.fromkeys(models):
        folder = model_filter.run_folder(work, model)
        spec = RunSpec(benchmark=benchmark.name, model=model, options=options or ModelOptions(), repeats=repeats)
        perform(spec, folder, benchmark=benchmark, display=display)
        counts = model_filter.tries(work, folder, model, repeats)
        if correct == "judge":
            counts = _judged(folder, judge, judge_base_url, judge_key_env, benchmark, counts, display)
        for id_, tries in counts.items():
            by_candidate[id_].append(tries)
    settings = {
        "models": list(dict.fromkeys(models)),
        "repeats": repeats,
        "max_correct": max_correct,
        "correct": correct,
        "judge": (judge or setting(JUDGE_MODEL)) if correct == "judge" else None,
    }
    decisions = [
        model_filter.decide(candidate, by_candidate[candidate.id], max_correct) for candidate in work.candidates
    ]
    return _decided(work, "hard", settings, decisions)


def _judged(
    folder: RunFolder,
    judge: str | None,
    base_url: str | None,
    key_env: str | None,
    benchmark: Any,
    read: dict[str, model_filter.Tries],
    display: Display | None,
) -> dict[str, model_filter.Tries]:
    """Count tries by a judge's verdicts. A reply without a verdict is a missing try and is asked again."""
    right = dict.fromkeys(read, 0)
    missing = dict.fromkeys(read, 0)
    done = judge_run(
        folder.path, judge, rubric="match", base_url=base_url, key_env=key_env, benchmark=benchmark, display=display
    )

    def each(scored: Scored) -> None:
        id_ = scored.sample.id
        if id_ not in right:
            id_ = id_.rpartition("#")[0]
        (score,) = scored.scores.values()
        if UNANSWERED in scored.sample.meta:
            return  # it is among the missing already, or was refused
        right[id_] += score.verdict == "correct"
        missing[id_] += score.verdict not in ("correct", "wrong")

    done.summarize(each=each, save=False)
    return {
        id_: structs.replace(tries, correct=right[id_], missing=tries.missing + missing[id_])
        for id_, tries in read.items()
    }


def audit_leaks(
    work: Work,
    search: leaks.Search | None,
    engine: str,
    *,
    fetch: evidence.Fetch | None = None,
    rule: leaks.LeakRule | None = None,
    encoder: ImageEncoder | None = None,
    skip: Collection[str] = (),
    notify: Callable[[str], None] = lambda line: None,
) -> StageFile:
    """Stage 2: search for every image; drop candidates whose hits tie it to its answer.

    Args:
        search: the reverse image search; None: nothing is asked, what was recorded under `engine` is all there is.
        engine: what the search is called.
        fetch: gets the pages that show an image, if the rule reads them; None: the snapshots that there are decide.
        encoder: compares images that the hash does not tell to be copies; None: the hash alone does.
        notify: gets a line for each search that failed, and each page that could not be had.
    """
    rule = structs.replace((rule or leaks.LeakRule()).checked(), encoder="" if encoder is None else encoder.name)
    entering = work.entering("leaks", skip)
    if search is None:
        known = leaks.recorded(work, engine, rule.k)
    else:
        known = asyncio.run(leaks.search_all(work, entering, search, engine, rule.k, notify=notify))
    settings = {"engine": engine, **msgspec.to_builtins(rule)}
    audits = leaks.audit_all(work, entering, known, rule, encoder)
    if "page" in rule.drop:
        urls = [url for audit in audits if audit is not None for url in audit.pages()]
        pages = evidence.fetched(work)
        if fetch is not None:
            pages = asyncio.run(evidence.fetch_all(work, urls, fetch, notify=notify))
        audits = [
            None if audit is None else leaks.read_pages(work, candidate, audit, pages)
            for candidate, audit in zip(entering, audits, strict=True)
        ]
    decisions = [leaks.decide(candidate, audit, rule) for candidate, audit in zip(entering, audits, strict=True)]
    return _decided(work, "leaks", settings, decisions)


def check_evidence(
    work: Work,
    fetch: evidence.Fetch | None,
    *,
    least: int = 1,
    judge: str | None = None,
    rubric: Path | None = None,
    base_url: str | None = None,
    key_env: str | None = None,
    skip: Collection[str] = (),
    options: ModelOptions | None = None,
    display: Display | None = None,
    notify: Callable[[str], None] = lambda line: None,
) -> StageFile:
    """Stage 3: fetch every link; drop candidates that fewer than `least` pages support.

    Args:
        fetch: gets a page; None: nothing is fetched, the snapshots that there are decide.
        judge: KIND:NAME of a model that has to agree that a page supports the answer; None: the rule alone decides.
        rubric: the judge's rubric file; None: the package's.
        base_url, key_env: the judge's endpoint and the name of its key; JUDGE_BASE_URL and JUDGE_API_KEY else.
        notify: gets a line for each page that could not be had.
    """
    if least < 1:
        raise UsageError(f"--min-pages {least}: at least 1")
    entering = work.entering("evidence", skip)
    known = (
        evidence.fetched(work)
        if fetch is None
        else asyncio.run(
            evidence.fetch_all(work, [url for one in entering for url in one.evidence], fetch, notify=notify)
        )
    )
    judged: dict[str, bool | None] | None = None
    chosen = evidence.rubric_of(rubric) if judge is not None else None
    if judge is not None and chosen is not None:
        benchmark = evidence.benchmark(work, entering, known, chosen)
        judged = {}
        options = structs.replace(options or ModelOptions(), base_url=base_url, key_env=key_env)
        who = appointed(judge, options, option="--evidence-judge")
        # Pages that came later are other questions: their answers are a run of their own.
        mark = blake2b(f"{who.name}\0{benchmark.digest(Data())}".encode(), digest_size=6).hexdigest()
        folder = RunFolder(work.folder("evidence") / f"judged-{mark}")
        spec = RunSpec(benchmark=benchmark.name, model=who.name, options=who.options)

        def each(scored: Scored) -> None:
            (score,) = scored.scores.values()
            clear = scored.record.status == "ok" and score.value is not None and score.verdict in ("correct", "wrong")
            judged[scored.sample.id] = score.verdict == "correct" if clear else None

        perform(spec, folder, benchmark=benchmark, display=display).summarize(each=each, save=False)
    settings = {"least": least, "judge": judge, "rubric": None if chosen is None else f"{chosen.name} {chosen.digest}"}
    decisions = [
        evidence.decide(candidate, evidence.check(work, candidate, known, judged), least) for candidate in entering
    ]
    return _decided(work, "evidence", settings, decisions)


def close_review(work: Work, *, reviewers: int = 2, skip: Collection[str] = ()) -> StageFile:
    """Stage 4, end: decide from the opinions so far, with the reviewers' agreement."""
    if reviewers < 1:
        raise UsageError(f"--reviewers {reviewers}: at least 1")
    entering = work.entering("review", skip)
    opinions = review_cases.read_all(work)
    last = standing(opinions)
    agreed = review_cases.agreement(opinions, [candidate.id for candidate in entering], reviewers)
    summary = {"agreement": [structs.asdict(pair) for pair in agreed]}
    decisions = [review_cases.decide(candidate, last.get(candidate.id, {}), reviewers) for candidate in entering]
    return _decided(work, "review", {"reviewers": reviewers}, decisions, summary)


def _decided(
    work: Work,
    stage: str,
    settings: dict[str, Any],
    decisions: Sequence[StageDecision],
    summary: dict[str, Any] | None = None,
) -> StageFile:
    file = StageFile(stage=stage, settings=settings, decisions=tuple(decisions), summary=summary or {})
    work.decide(file)
    return file
