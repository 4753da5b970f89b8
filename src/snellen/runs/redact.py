"""Redaction of a run for publication: answers and verdicts without gold answers.

The folder holds no evidence, no reason of a judge, no raw exchange, no trace, no session and no image. Answers that determine
the gold answer are withheld. Their verdicts stay.

Removal of gold answers from one answer, for files that are published: `snellen report --redact` and exports without gold.
Whatever determines the gold answer is withheld. That is a reply

- that was found correct, for it is the gold answer in other words;
- that has part of a point, for reply and value together say how far the gold answer is;
- that quotes the gold answer of its sample, or of another sample of the same group;
- to a question with two possible answers, since the verdict tells the right one, or to a count over several images;
- to a question of whose possible answers the published wrong ones leave only one: over all profiles, repeats, and samples of
  the same group with the same gold answer. All replies to such a question are withheld.

Verdicts and values stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from snellen.benchmarks.base import Benchmark, Data
from snellen.engine.journal import storage_error
from snellen.engine.run_folder import JUDGE_RUNS, JUDGED, READ, RunFolder
from snellen.errors import UsageError
from snellen.models.base import ModelOptions
from snellen.redaction.gold import WITHHELD, quotes
from snellen.runs.judge.benchmark import UNANSWERED
from snellen.runs.run import Run
from snellen.runs.scoring import Scored, scores_of, summary_json
from snellen.scoring.rubric import gold_forms
from snellen.sources.journal_lines import sealed
from snellen.text import pretty_json
from snellen.types import Failure, Image, Prompt, Record, Response, Sample, Score

GOLD_FIELDS = frozenset({"aliases", "answer", "answers", "evidence", "gold", "target"})
"""Fields of meta that repeat the gold answer."""
_FEWEST_OPTIONS = 3
_UNNAMED = "\0"
"""Begins the entry of a wrong reply in which no option was read; no plain text begins so."""


def gold_by_group(benchmark: Benchmark, data: Data) -> dict[str, set[str]]:
    """Return the gold answers of each group: a sample's alias may be missing at another of the same target."""
    by_group: dict[str, set[str]] = {}
    for sample in benchmark.samples(data):
        if sample.group:
            by_group.setdefault(sample.group, set()).update(gold_forms(sample))
    return by_group


def public_meta(
    sample: Sample, forms: tuple[str, ...], gold_fields: frozenset[str] = GOLD_FIELDS
) -> Iterator[tuple[str, str | int | float]]:
    """Yield the fields of a sample's meta that neither repeat nor quote the gold answer; only texts and numbers."""
    for name, value in sample.meta.items():
        if name not in gold_fields and isinstance(value, (str, int, float)) and not quotes(str(value), forms):
            yield name, value


class GoldRemoval:
    """Removes the gold answers from the answers of one run.

    Args:
        benchmark, data: of the run.
        scored: every answer of the run with its scores under all profiles, in any order.
    """

    def __init__(
        self, benchmark: Benchmark, data: Data, scored: Iterable[tuple[Sample, Record, Mapping[str, Score]]]
    ) -> None:
        self._by_group = gold_by_group(benchmark, data)
        self._ruled_out: dict[tuple[str, str], set[str]] = {}
        for sample, record, scores in scored:
            if len(possible_answers(sample)) >= _FEWEST_OPTIONS and record.response is not None:
                ruled_out = self._ruled_out.setdefault(_question(sample), set())
                ruled_out.update(_wrong_answers(sample, record.response, scores))

    def forms(self, sample: Sample) -> tuple[str, ...]:
        """Return the gold answers of a sample and of its group, in each accepted form."""
        return (*gold_forms(sample), *self._by_group.get(sample.group, ()))

    def tells_gold(self, sample: Sample, scores: Mapping[str, Score], texts: Iterable[str]) -> bool:
        """Return True if an answer, its verdicts and its values determine the gold answer.

        Args:
            sample, scores: the question, and the answer's score under each profile.
            texts: what would be published of the answer.
        """
        possible = possible_answers(sample)
        # Of a count, a wrong number far from the gold one scores 0 and a near one may not: each excludes several answers.
        if 0 < len(possible) < _FEWEST_OPTIONS or (possible and sample.kind == "count"):
            return True
        if any(score.verdict in ("correct", "partial") or score.value for score in scores.values()):
            return True
        ruled_out = self._ruled_out.get(_question(sample), set()) if possible else set()
        # Wrong answers that name no option may each stand for another one.
        if possible and len(possible - ruled_out) - sum(answer.startswith(_UNNAMED) for answer in ruled_out) <= 1:
            return True
        forms = self.forms(sample)
        return any(quotes(text, forms) for text in texts)

    def public_answer(
        self, sample: Sample, record: Record, scores: Mapping[str, Score], position: int
    ) -> tuple[Sample, Record, dict[str, Score]]:
        """Return an answer without its gold answer: no target, no example turns, no reasons, no messages of errors.

        Args:
            sample, record, scores: the answer and its score under each profile.
            position: number of the sample from 1, which names it where its id quotes the gold answer.
        """
        forms = self.forms(sample)
        withheld = False
        if record.response is not None:
            extracted = (str(score.extracted) for score in scores.values() if score.extracted is not None)
            withheld = self.tells_gold(sample, scores, (record.response.text, *extracted))
        # The question stays as it was asked: it names every option, and an option struck from it would be the right one.
        public = Sample(
            id=f"sample-{position}" if quotes(sample.id, forms) else sample.id,
            prompt=Prompt(sample.prompt.parts, sample.prompt.system),
            target=None,
            kind=sample.kind,
            options=sample.options,
            group="" if quotes(sample.group, forms) else sample.group,
            meta=dict(public_meta(sample, forms)),
        )
        error = None if record.error is None else Failure(record.error.kind, record.error.kind)
        response = None if record.response is None else _public_response(record.response, forms, withheld=withheld)
        answer = structs.replace(record, sample_id=public.id, response=response, error=error)
        return public, answer, {profile: _public_score(score, withheld=withheld) for profile, score in scores.items()}


def possible_answers(sample: Sample) -> frozenset[str]:
    """Return the answers among which the gold answer of a sample is known to be; empty where nothing limits them.

    Options with the same text are one answer. A count over several images is 1 to their number, as in VLM2-Bench.
    """
    if sample.kind == "truth":
        return frozenset(("yes", "no"))
    if sample.options:
        return frozenset(_option_name(sample, letter) for letter in sample.options)
    images = sum(isinstance(part, Image) for part in sample.prompt.parts) if sample.kind == "count" else 0
    return frozenset(str(number) for number in range(1, images + 1)) if images > 1 else frozenset()


def _option_name(sample: Sample, letter: str) -> str:
    """Return an option's text, by which it is known in other orders of the options; its letter if it has none."""
    return _plain(str(sample.options[letter])) or letter


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _question(sample: Sample) -> tuple[str, str]:
    """Return what samples with one gold answer have in common: their group and that answer, or the sample's id."""
    if not sample.group:
        return "id", sample.id
    forms = gold_forms(sample)
    return f"group {sample.group}", _plain(forms[-1]) if sample.options and forms else str(sorted(forms))


def _wrong_answers(sample: Sample, response: Response, scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield the possible answers that the verdicts rule out; a reply that names none stands for itself, after a mark."""
    for score in scores.values():
        if score.verdict == "wrong":
            name = _named(sample, score.extracted)
            yield _UNNAMED + response.text if name is None else name


def _named(sample: Sample, extracted: Any) -> str | None:
    text = "" if extracted is None else str(extracted).strip()
    if text in sample.options:
        return _option_name(sample, text)
    return _plain(text) if _plain(text) in possible_answers(sample) else None


def _public_response(response: Response, forms: tuple[str, ...], *, withheld: bool) -> Response:
    """Return a response without its trace, and without words that tell the gold answer."""
    hides_reasoning = withheld or quotes(response.reasoning, forms)
    return Response(
        text=WITHHELD if withheld else response.text,
        usage=response.usage,
        latency_s=response.latency_s,
        finish_reason="" if quotes(response.finish_reason, forms) else response.finish_reason,
        reasoning="" if hides_reasoning else response.reasoning,
        model="" if quotes(response.model, forms) else response.model,
    )


def _public_score(score: Score, *, withheld: bool) -> Score:
    return Score(score.value, None if withheld else score.extracted, score.verdict)


RESULTS, SUMMARY, META = "results.jsonl", "summary.json", "run_meta.json"
GOLD = GOLD_FIELDS | {UNANSWERED}
_JUDGE_DETAIL = "judge_"
"""Begins the names of details that a judge said; all others may repeat what was read from the reply."""
LEFT_OUT = (
    "gold answers, and predictions that determine them",
    "evidence and reasoning",
    "judge's reasons and raw exchanges",
    "traces, sessions and pictures",
    "messages of errors",
    "paths and endpoints",
)


def redact(run: Run, folder: str | Path) -> list[Path]:
    """Write results.jsonl, summary.json and run_meta.json of a run without gold answers, and return their paths.

    Args:
        run: the run; its verdicts are those of <run>_judged beside it.
        folder: where to write; must be empty, hold only an earlier redaction, or not be there.

    Raises:
        UsageError: the run is a judge's, or the folder holds other files.
        SnellenError: the run's samples cannot be read again, or the folder cannot be written.
    """
    if run.meta.spec.benchmark in JUDGE_RUNS:
        kind = {JUDGED: "verdicts", READ: "readings"}.get(run.meta.spec.benchmark, "labels of failures")
        raise UsageError(f"{run.path} holds {kind}", "Give the run that they are about; its verdicts are included.")
    target = RunFolder(folder)
    _require_free(target.path, run.path)
    profile = next(iter(run.benchmark.score))
    rows: list[dict[str, Any]] = []
    removal = GoldRemoval(run.benchmark, run.meta.spec.data, _scored(run))
    summary = run.summarize("all", each=lambda scored: rows.append(_row(run, scored, profile, removal)), save=False)
    headline = run.headline(summary.metrics)
    files = {
        RESULTS: b"".join(sealed(msgspec.json.encode(row), number) for number, row in enumerate(rows, 1)),
        SUMMARY: pretty_json({**({} if headline is None else headline.figures), **summary_json(summary)}),
        META: pretty_json(_meta(run)),
    }
    try:
        target.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(target.path, error) from error
    for name, content in files.items():
        target.write(target.path / name, content)
    return [target.path / name for name in files]


def _require_free(folder: Path, run: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or folder.resolve() == run.resolve():
        raise UsageError(f"--redact {folder}: a separate folder is needed", "Name a new folder.")
    others = sorted({path.name for path in folder.iterdir()} - {RESULTS, SUMMARY, META})
    meta = folder / META
    own = not meta.exists() or b'"redacted"' in meta.read_bytes()
    if others or not own:
        name = others[0] if others else META
        raise UsageError(
            f"--redact {folder}: it holds {name}, which does not belong to a redacted run",
            "Name an empty or new folder: all of its contents will be published.",
        )


def _scored(run: Run) -> Iterator[tuple[Sample, Record, Mapping[str, Score]]]:
    verdicts = run.verdicts()
    for sample, record in run.answers():
        yield sample, record, scores_of(run.benchmark, sample, record, run.benchmark.score, verdicts)


def _row(run: Run, scored: Scored, profile: str, removal: GoldRemoval) -> dict[str, Any]:
    sample, record, score = scored.sample, scored.record, scored.scores[profile]
    forms = removal.forms(sample)
    prediction = _prediction(run, scored, profile)
    withheld = prediction is not None and removal.tells_gold(sample, scored.scores, (prediction,))
    if withheld:
        prediction = WITHHELD
    row: dict[str, Any] = {"sample_id": WITHHELD if quotes(sample.id, forms) else sample.id}
    if record.repeat:
        row["repeat"] = record.repeat
    row["status"] = record.status
    row["prediction"] = prediction
    row["verdict"] = score.verdict
    row["value"] = score.value
    for name, value in score.detail.items():
        repeats_answer = withheld and not name.startswith(_JUDGE_DETAIL)
        if isinstance(value, str) and not repeats_answer and not quotes(value, forms):
            row[name] = value
    if record.error is not None:
        row["error"] = record.error.kind
    if record.response is not None:
        row["input_tokens"] = record.response.usage.input_tokens
        row["output_tokens"] = record.response.usage.output_tokens
        row["latency_s"] = round(record.response.latency_s, 3)
        reason = record.response.finish_reason
        row["finish_reason"] = WITHHELD if quotes(reason, forms) else reason
    row["attempts"] = record.attempts
    row["meta"] = dict(public_meta(sample, forms, GOLD))
    return row


def _prediction(run: Run, scored: Scored, profile: str) -> str | None:
    """Return the answer as it was read from the reply; None if there is none."""
    response = scored.record.response
    if response is None:
        return None
    if run.benchmark.judged_text is not None:
        judged = run.benchmark.judged_text(scored.sample, response.text)
        return None if judged is None else judged.reply
    extracted = scored.scores[profile].extracted
    return None if extracted is None else str(extracted)


def _meta(run: Run) -> dict[str, Any]:
    """Describe the run for publication. Paths and endpoints are omitted for privacy."""
    meta, spec = run.meta, run.meta.spec
    judge = run.verdicts()
    return {
        "redacted": list(LEFT_OUT),
        "benchmark": run.benchmark.name,
        "benchmark_version": run.benchmark.version,
        "model": _model(spec.model),
        **_agent(spec.options),
        **({} if meta.imported is None else {"imported": dict(meta.imported)}),
        "fingerprint": meta.fingerprint,
        "data": meta.identity.get("data"),
        "prompts": meta.identity.get("prompts"),
        "options": {name: value for name, value in spec.data.options.items() if not set("/\\") & set(value)},
        "generation": msgspec.to_builtins(spec.options.generation),
        "media": msgspec.to_builtins(spec.options.media),
        "seed": spec.data.seed,
        "repeats": spec.repeats,
        "coverage": msgspec.to_builtins(meta.coverage),
        "state": run.state,
        "totals": msgspec.to_builtins(meta.totals),
        "versions": meta.environment.get("versions", {}),
        "judge": None if judge is None or not judge.by else judge.model,
        "reader": None if judge is None or not judge.reader else judge.reader,
    }


def _model(name: str) -> str:
    """Return KIND:NAME; for a model in a folder, only the folder's own name."""
    kind, colon, rest = name.partition(":")
    own = Path(rest).name if Path(rest).is_absolute() or rest.startswith((".", "~")) else rest
    return f"{kind}{colon}{own}"


def _agent(options: ModelOptions) -> dict[str, str]:
    """Return an agent's model and sandbox; they are part of what was measured."""
    if options.agent_model is None:
        return {}
    provider, _, model = options.agent_model.partition("/")
    own = Path(model).name if model.startswith(("/", ".", "~")) else model
    return {"agent_model": f"{provider}/{own}", "sandbox": options.sandbox}
