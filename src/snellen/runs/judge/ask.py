"""Judging a run; `snellen judge` calls this. No request is sent before a judge and its key are known."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Unpack

from msgspec import Struct, structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.dotenv_file import dotenv_value
from snellen.engine.fingerprint import identity
from snellen.engine.progress import Display
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, RunFolder, derived_folder
from snellen.errors import JudgeError, PreflightError, RunError, UsageError
from snellen.models import registry as models
from snellen.models.base import DEFAULTS, Model, ModelOptions, as_model
from snellen.models.shutdowns import announced
from snellen.runs.evaluate import perform
from snellen.runs.judge.benchmark import LOST_SHARES, OWN, PROFILE, JudgeModel, judged_benchmark, load_rubric
from snellen.runs.judge.extend import extend_judged
from snellen.runs.run import Run, load_run
from snellen.runs.scoring import Scored
from snellen.runs.settings import JudgeSettings, run_spec, takes
from snellen.scoring.rubric import require_known_places

BASE_URL, KEY, MODEL = "JUDGE_BASE_URL", "JUDGE_API_KEY", "JUDGE_MODEL"
SELF_HOSTED = "JUDGE_SELF_HOSTED"
"""Set to any word where JUDGE_BASE_URL or --base-url serves a model of its own by a name that its provider has ended."""


@takes(JudgeSettings)
def judge(
    run: str | Path,
    model: str | Model | None = None,
    *,
    rubric: str | None = None,
    out: str | Path | None = None,
    with_images: bool = False,
    rule: bool = False,
    benchmark: Benchmark | None = None,
    data: str | Path | None = None,
    images: str | Path | None = None,
    trust: bool = False,
    display: Display | None = None,
    **settings: Unpack[JudgeSettings],
) -> Run:
    """Let a model judge the replies of a run, or resume that; the verdicts are a run of their own.

    Of a run that has got further answers since, only these are judged (see runs.judge.extend).

    Args:
        run: the folder of the run to judge.
        model: the judge, KIND:NAME; None: the environment variable JUDGE_MODEL.
        rubric: `match`, `graded`, or the path of a rubric file; None: the rubrics of the run's benchmark, each for the
            samples that it decides, whose verdicts then are the run's scores; `match` where it has none.
        out: the verdicts' folder; None: <run>_judged.
        with_images: the judge sees the images of the question too.
        rule: what the benchmark's own rule takes for correct is not judged (`judge_source` is then `rule`).
        benchmark: the judged run's benchmark, where it is not a registered one.
        data, images: where its files lie now, if they were moved.
        trust: as for `load_run`.
        base_url: the judge's endpoint; None: JUDGE_BASE_URL.
        key_env: the name of the variable with its key; None: JUDGE_API_KEY, else the one of its service, OPENAI_API_KEY of
            `api:`.
        limit: only the first N replies.
        seed: that of the marks around replies.
        settings: further settings of the judge and its run, as for `evaluate` (concurrency, generation, max_cost …).

    Raises:
        JudgeError: no judge, no key, no such rubric, no reply, or none that a judge decides; nothing was asked.
        SnellenError: see snellen.errors; verdicts that were given are on disk.
    """
    opened = load_run(run, benchmark=benchmark, trust=trust).moved(data, images)
    source, about = opened.folder, opened.meta
    if about.spec.benchmark in JUDGE_RUNS:
        content = "verdicts" if about.spec.benchmark == JUDGED else "labels of failures"
        raise UsageError(
            f"{run} holds {content}; a judge's replies are not judged again", "Pass the run that they are about."
        )
    if not source.results.exists():
        raise RunError(f"{run} holds no answers: {source.results} is not there", f"Resume the run: snellen rerun {run}")
    if opened.all_failed:
        raise JudgeError(
            f"{run} holds no reply to judge: {opened.request_errors().text.removeprefix('no score: ')}",
            f"Fix the cause, then resume the run: snellen rerun {run}",
        )
    spec = run_spec(JUDGED, "", settings)
    who = appointed(model, spec.options, option="--model")
    subject = opened.benchmark
    if rubric is None:
        rubric = "match" if subject.rubric is None else OWN
    if rule and subject.ruled_correct is None:
        raise UsageError(f"{subject.name} has no rule to apply before the judge", "Omit --rule.")
    if subject.groups is not None:  # each answer has chosen the next question by the benchmark's own reading
        raise UsageError(
            f"{subject.name} measures thresholds from the answers as it read them, and a judge would change none",
            f"Score it without a judge: snellen score {run}",
        )
    chosen = {"rubric": rubric, **({"images": "yes"} if with_images else {}), **({"rule": "yes"} if rule else {})}
    if rubric != OWN:
        require_known_places(load_rubric(rubric))
    about_run = Data(path=source.path, options=chosen, seed=spec.data.seed)
    judged = judged_benchmark(about_run, subject)
    if rubric == OWN and next(judged.samples(about_run), None) is None:
        raise JudgeError(
            f"{run} holds no reply that a rubric of {subject.name} decides",
            "It is scored without a judge. To judge all replies, add --rubric match.",
        )
    folder = RunFolder(out if out is not None else derived_folder(source.path, JUDGED))
    if folder.path.resolve() == source.path.resolve():
        raise UsageError(
            f"--out {folder.path} is the run that is judged; verdicts are a run of their own",
            f"Omit --out to write them to {derived_folder(source.path, JUDGED)}.",
        )
    judging = who.opened()
    spec = structs.replace(spec, model=who.name, data=about_run, options=who.options)
    asking = JudgeModel(judging, folder.path)

    def judging_of(source: RunFolder) -> Mapping[str, Any]:
        moved_spec = structs.replace(spec, data=structs.replace(about_run, path=source.path))
        return identity(moved_spec, judged_benchmark(moved_spec.data, subject), asking)

    extend_judged(folder, source, judging_of, lambda: judged.samples(about_run))
    done = perform(spec, folder, benchmark=judged, model=asking, display=display)
    scored = Run(source, about, subject)
    if subject.rubric is not None and not scored.summary_is_current():
        scored.summarize("all")
    return done


def verdicts(run: Run) -> dict[str, Any]:
    """Build the SUMMARY_JSON object of a judged run: the run, the judge, counts of verdicts, and the score."""
    counts: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    numbered = run.meta.spec.data.options.get("rubric") == OWN

    def each(scored: Scored) -> None:
        (score,) = scored.scores.values()
        lost = scored.record.status != "ok"
        # Of the benchmark's own rubrics: what the judged model gave no reply to is an error of that run, worth 0 there.
        unanswered = not lost and score.verdict in ("error", "invalid")
        counts["unscored" if lost else "wrong" if unanswered else score.verdict] += 1
        if isinstance(score.extracted, str) or (numbered and isinstance(score.extracted, int)):
            labels[str(score.extracted)] += 1

    metrics = run.summarize(each=each, save=False).metrics[PROFILE]
    # A suite begins with means over members that were not judged; shares of samples without a verdict are no score.
    scores = [row for row in metrics if row.value is not None and row.name not in (*LOST_SHARES, "error", "invalid")]
    is_judged = counts["correct"] + counts["partial"] + counts["wrong"] > 0
    metric = scores[0] if scores and is_judged else metrics[0]
    spec = run.meta.spec
    return {
        "run": str(spec.data.path),
        "judged": str(run.path),
        "judge": spec.model,
        "rubric": spec.data.options["rubric"] or "own",
        "n": sum(counts.values()),
        "verdicts": {name: counts[name] for name in ("correct", "partial", "wrong", "unscored")},
        "labels": dict(sorted(labels.items())),
        metric.name: metric.value,
        "ci95": metric.ci95,
        "interval": metric.interval,
        "coverage": metric.coverage,
    }


class Judge(Struct, frozen=True):
    """A judge: KIND:NAME, its options, and the model itself if it came from Python."""

    name: str
    options: ModelOptions
    model: Model | None = None

    def opened(self) -> Model:
        """Open the judge's model."""
        return models.open_model(self.name, self.options) if self.model is None else as_model(self.model)


def appointed(model: str | Model | None, options: ModelOptions = DEFAULTS, *, option: str) -> Judge:
    """Choose the judge that was named, else that of JUDGE_MODEL, at JUDGE_BASE_URL and with JUDGE_API_KEY by default.

    Args:
        model: KIND:NAME, or a model, which has its key; None: JUDGE_MODEL.
        options: all else about it.
        option: what names a judge on the command line, for the message.

    Raises:
        JudgeError: no judge, one with tools, one that its provider has shut down, or no key.
    """
    chosen = model if model is not None else setting(MODEL)
    if chosen is None:
        raise JudgeError("no judge is named", f"Give {option} api:NAME, or set {MODEL}.")
    options = structs.replace(options, base_url=options.base_url or setting(BASE_URL))
    if not isinstance(chosen, str):
        return Judge(chosen.name, options, chosen)
    name = spelled(chosen)
    if name.partition(":")[0] in ("agent", "tools"):
        raise JudgeError(
            f"{name} is no judge: it would see the gold answers and could pass them to its tools",
            f"Name a model without tools: {option} api:NAME.",
        )
    require_served(name, option)
    return Judge(name, structs.replace(options, key_env=require_key(name, options.key_env)))


def require_served(name: str, option: str) -> None:
    """Refuse a judge that its provider has shut down, unless JUDGE_SELF_HOSTED is set. Raises JudgeError."""
    ended = announced(name)
    if ended is not None and ended.past() and not setting(SELF_HOSTED):
        raise JudgeError(
            f"{ended.provider} shut {ended.model} down on {ended.date}, so it can no longer judge",
            f"Name another judge with {option}, for example: {ended.alternatives()}. If your own endpoint serves a model by "
            f"this name, set {SELF_HOSTED}=1.",
        )


def spelled(name: str) -> str:
    """Return KIND:NAME; a name without a kind is that of a model behind an API, as in JUDGE_MODEL=gpt-6-astra."""
    kinds = {*models.KINDS, *(point.name for point in entry_points(group=models.GROUP))}
    return name if name.partition(":")[0] in kinds else f"api:{name}"


def require_key(model: str, key_env: str | None) -> str | None:
    """Return the name of the variable that holds the judge's key.

    Raises:
        JudgeError: the judge is behind an API and there is none. A run that nobody could pay for must not begin, and
            no rule stands in for a judge.
    """
    kind = model.partition(":")[0]
    if kind not in models.API_KINDS:
        return key_env
    from snellen.models.api.keys import DEFAULT_VARIABLE, find_key, require_variable
    from snellen.models.api.services import service

    require_variable(key_env)
    usual = service(kind).key_variables or ((DEFAULT_VARIABLE,) if kind == "api" else ())
    for variable in [key_env] if key_env is not None else [KEY, *usual]:
        try:
            if find_key(variable):
                return variable
        except PreflightError:
            continue
    missing = f"{key_env} is not" if key_env is not None else f"neither {' nor '.join((KEY, *usual))} is"
    raise JudgeError(
        f"there is no key for the judge {model}: {missing} set, in the environment or in .env",
        f"Set {key_env or KEY}. For a local server without keys, set it to any word.",
    )


def setting(name: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Read a JUDGE_ variable from the environment, else from .env; None if it is unset or empty."""
    value = environment.get(name)
    return value or dotenv_value(name) or None
