"""Commands and options of other harnesses, each with its counterpart in Snellen and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from snellen.text import comma_list


class CommandHint(NamedTuple):
    """Our counterpart of another program's command: what it does, and example arguments if none were typed."""

    ours: str
    why: str
    example: str = "RUN"


_RUN = CommandHint("run", "`run` runs a benchmark, scores it and prints the table.", "chart --model embedded")
_REPORT = CommandHint("report", "`report` writes one HTML page with scores, plots and every answer.")
_VIEW = CommandHint("view", "`view` shows all runs of a folder in the browser, live.", "results/")
_RERUN = CommandHint("rerun", "The same command resumes a run, and so does `rerun`.")
_LIST = CommandHint("list", "`list` shows benchmarks and model kinds, `list --runs` runs.", "")
_RUNS = CommandHint("list --runs", "`list --runs` shows the runs in results/.", "")
_SCORE = CommandHint("score", "`score` scores recorded answers again; it sends no request.")
COMMAND_OF = {
    name: command
    for names, command in {
        "eval evaluate infer inference test predict generate start bench": _RUN,
        "benchmark eval-set simple-eval simple_evaluate launch": _RUN,
        "plot plots visualize visualise html show": _REPORT,
        "viewer gallery dashboard ui open browse": _VIEW,
        "resume continue retry eval-retry restart redo": _RERUN,
        "benchmarks tasks datasets models ls info profiles": _LIST,
        "logs log runs results history status": _RUNS,
        "rescore metrics metric grade summary summarize summarise": _SCORE,
        "diff vs": CommandHint("compare", "`compare` pairs runs sample by sample.", "RUN RUN"),
        "sql db stats": CommandHint("query", "`query` runs SQL over all runs.", "'SELECT * FROM runs'"),
        "errors analyze analyse wrong": CommandHint("failures", "`failures` labels incorrect answers."),
        "env diagnose health": CommandHint("doctor", "`doctor` checks this machine.", ""),
        "convert dump save": CommandHint("export", "`export` writes other programs' formats."),
        "upload push": CommandHint("submit easi", "`submit easi` sends results to EASI's leaderboard."),
        "embed encode probe knn linear retrieval": CommandHint(
            "features", "`features` measures how well an encoder separates classes.", "--help"
        ),
        "init new create make": CommandHint("build", "`build` makes a benchmark.", "--help"),
        "leaderboard": CommandHint(
            "report --reference easi", "`report --reference easi` compares runs with published rows."
        ),
        "help": CommandHint("--help", "", ""),
    }.items()
    for name in names.split()
}
"""Other programs' commands to ours."""

Words = list[str]
Rule = Callable[[str | None], Words]
"""Translates an option's value (None: it has none) to words of ours."""


def _as(option: str) -> Rule:
    return lambda value: [option] if value is None else [option, value]


def _omit(value: str | None) -> Words:
    return []


def split_names(value: str | None) -> Words:
    return comma_list(value or "BENCHMARK")


def _pairs(value: str | None) -> dict[str, str]:
    """Parse `pretrained=NAME,base_url=URL`, as lmms-eval writes settings."""
    return dict(part.partition("=")[::2] for part in (value or "").split(","))


def _settings(value: str | None) -> Words:
    pairs = _pairs(value)
    words: Words = []
    if name := pairs.get("pretrained"):
        words += ["--model", f"local:{name}"]
    elif name := pairs.get("model_version") or pairs.get("model"):
        words += ["--model", f"api:{name}"]
    if url := pairs.get("base_url") or pairs.get("api_base"):
        words += ["--base-url", url]
    same = {"dtype": "--dtype", "max_pixels": "--max-pixels", "min_pixels": "--min-pixels", "num_concurrent": "-c"}
    for theirs, ours in same.items():
        words += [ours, pairs[theirs]] if pairs.get(theirs) else []
    return words


def _generation(value: str | None) -> Words:
    ours = {"max_new_tokens": "--max-tokens", "max_tokens": "--max-tokens", "temperature": "--temperature"}
    ours |= {"top_p": "--top-p", "until": "--stop"}
    return [word for name, text in _pairs(value).items() if name in ours for word in (ours[name], text)]


class Option(NamedTuple):
    """Our counterpart of another program's option, and why."""

    rule: Rule
    why: str


KEY = Option(
    _omit,
    "A key cannot be an argument: other users could read it with ps. Set it in the environment or in .env: export "
    "OPENAI_API_KEY=... (anthropic: ANTHROPIC_API_KEY, gemini: GEMINI_API_KEY); --key-env NAME selects another variable.",
)
POSITIONAL = Option(split_names, "Benchmarks are arguments: snellen run BENCHMARK [BENCHMARK ...].")
_OUT = Option(_as("--out"), "--out sets the folder of a run.")
_RESUMES = Option(_omit, "Omit it: the same command resumes a run and keeps every recorded answer.")
_CONCURRENCY = Option(_as("-c"), "-c sets the maximum number of concurrent requests.")
_LIMIT = Option(_as("--limit"), "--limit N runs only the first N samples.")
_URL = Option(_as("--base-url"), "--base-url sets the endpoint, up to and including /v1.")
JUDGE = Option(_omit, "Judge the replies after the run: snellen judge RUN --model api:NAME.")
_RECORDED = Option(_omit, "Omit it: every answer is recorded in the run folder.")
_TOKENS = Option(_as("--max-tokens"), "--max-tokens limits new tokens.")
_GPUS = Option(_as("--nproc"), "--nproc sets the number of workers, one per GPU.")
_ATTEMPTS = Option(_as("--max-attempts"), "--max-attempts limits the attempts per sample.")
_VERBOSE = Option(_omit, "Omit it; SNELLEN_DEBUG=1 prints tracebacks.")
OPTION_OF: Mapping[str, Option] = {
    name: option
    for names, option in {
        "--api-key --apikey --key --openai-api-key --token --openai-key": KEY,
        "--tasks --task --benchmark --benchmarks --dataset --datasets --evals": POSITIONAL,
        "--work-dir --output-path --output-dir --output --log-dir --save-dir --results-dir --run-dir --workdir": _OUT,
        "--reuse --resume --use-cache --continue --retry-failed --cache-requests": _RESUMES,
        "--api-nproc --num-workers --max-connections --num-concurrent --parallel --max-concurrent": _CONCURRENCY,
        "--workers --threads --jobs --max-concurrency": _CONCURRENCY,
        "--max-samples --num-samples --n-samples --subset --num-examples": _LIMIT,
        "--api-base --endpoint --openai-api-base --model-base-url --url --server": _URL,
        "--judge --judge-model --judge-args --grader": JUDGE,
        "--log-samples --log-images --save-outputs --write-out": _RECORDED,
        "--max-new-tokens --max-gen-toks --max-output-tokens": _TOKENS,
        "--model-args": Option(_settings, "--model KIND:NAME selects the model, --base-url its endpoint."),
        "--gen-kwargs": Option(_generation, "Generation settings are separate options."),
        "-T": Option(_as("-o"), "-o KEY=VALUE sets an option of a benchmark."),
        "--epochs": Option(_as("--repeats"), "--repeats N asks each question N times."),
        "--num-gpus --num-processes": _GPUS,
        "--tensor-parallel-size": Option(
            _omit, "Pass it to the server: --serve 'vllm MODEL --tensor-parallel-size N'."
        ),
        "--max-retries --retry": _ATTEMPTS,
        "--runs --run --run-folder": Option(lambda value: [value] if value else [], "Run folders are arguments."),
        "--num-fewshot": Option(_omit, "Omit it: prompts are those of the benchmark, without examples."),
        "--mode": Option(_omit, "`run` runs and scores; `snellen score RUN` scores again without a request."),
        "--verbosity --verbose": _VERBOSE,
        "--timeout-sec --request-timeout": Option(_as("--timeout"), "--timeout SECONDS limits one reply."),
        "--opencode-bin --openclaw-bin": Option(_as("--agent-bin"), "--agent-bin names your own program."),
        "--image-size --api-image-max-long-side": Option(
            _as("--max-long-side"), "--max-long-side shrinks larger images."
        ),
        "--nframe": Option(_as("--frames"), "--frames limits the frames per video."),
    }.items()
    for name in names.split()
}
"""Other programs' options, with hyphens, to ours."""
