"""Commands and options that other harnesses have: what to type here, as a command that can be copied.

Checked before a command runs. A key that stands on the command line is never printed again.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from snellen.cli.app import COMMANDS
from snellen.cli.argument_order import check_order
from snellen.cli.benchmark_options import own_options, tell_apart
from snellen.errors import SnellenError, UsageError
from snellen.redaction.arguments import key_among
from snellen.text import comma_list


class Command(NamedTuple):
    """What stands for another program's command: ours, one line on what it does, and arguments where none were typed."""

    ours: str
    why: str
    example: str = "RUN"


_RUN = Command("run", "`run` asks, scores and prints the table.", "chart --model embedded")
_REPORT = Command("report", "`report` writes one HTML page with scores, plots and every answer.")
_RERUN = Command("rerun", "A run is resumed by the same command again, or by `rerun`.")
_LIST = Command("list", "`list` shows benchmarks and model kinds, `list --runs` runs.", "")
_RUNS = Command("list --runs", "`list --runs` shows the runs in results/.", "")
_SCORE = Command("score", "`score` scores recorded answers again; it sends no request.")
COMMAND_OF = {
    **dict.fromkeys(("eval", "evaluate", "infer", "inference", "test", "predict", "generate", "start", "bench"), _RUN),
    **dict.fromkeys(("benchmark", "eval-set", "simple-eval", "simple_evaluate", "launch"), _RUN),
    **dict.fromkeys(("view", "viewer", "plot", "plots", "gallery", "visualize", "visualise", "html", "show"), _REPORT),
    **dict.fromkeys(("dashboard", "ui", "open", "browse"), _REPORT),
    **dict.fromkeys(("resume", "continue", "retry", "eval-retry", "restart", "redo"), _RERUN),
    **dict.fromkeys(("benchmarks", "tasks", "datasets", "models", "ls", "info", "profiles"), _LIST),
    **dict.fromkeys(("logs", "log", "runs", "results", "history", "status"), _RUNS),
    **dict.fromkeys(("rescore", "metrics", "metric", "grade", "summary", "summarize", "summarise", "import"), _SCORE),
    **dict.fromkeys(("diff", "vs"), Command("compare", "`compare` pairs runs question by question.", "RUN RUN")),
    **dict.fromkeys(
        ("sql", "db", "stats"), Command("query", "`query` takes SQL over all runs.", "'SELECT * FROM runs'")
    ),
    **dict.fromkeys(("errors", "analyze", "analyse", "wrong"), Command("failures", "`failures` labels wrong answers.")),
    **dict.fromkeys(("check", "env", "diagnose", "health"), Command("doctor", "`doctor` checks this machine.", "")),
    **dict.fromkeys(("convert", "dump", "save"), Command("export", "`export` writes other programs' formats.")),
    **dict.fromkeys(("upload", "push"), Command("submit easi", "`submit easi` sends results to EASI's leaderboard.")),
    **dict.fromkeys(
        ("embed", "encode", "probe", "knn", "linear", "retrieval"),
        Command("features", "`features` measures what an encoder tells apart.", "--help"),
    ),
    **dict.fromkeys(("init", "new", "create", "make"), Command("build", "`build` makes a benchmark.", "--help")),
    "leaderboard": Command("report --reference easi", "`report --reference easi` sets runs beside published rows."),
    "help": Command("--help", "", ""),
}
"""Other programs' commands to ours."""

Words = list[str]
Rule = Callable[[str | None], Words]
"""From an option's value (None: it has none) to the words that stand for it here."""


def _as(option: str) -> Rule:
    return lambda value: [option] if value is None else [option, value]


def _nothing(value: str | None) -> Words:
    return []


def _names(value: str | None) -> Words:
    return comma_list(value or "BENCHMARK")


def _settings(value: str | None) -> Words:
    """`pretrained=NAME,base_url=URL` and the like, as lmms-eval has them."""
    pairs = dict(part.partition("=")[::2] for part in (value or "").split(","))
    words: Words = []
    if name := pairs.get("pretrained"):
        words += ["--model", f"local:{name}"]
    elif name := pairs.get("model_version") or pairs.get("model"):
        words += ["--model", f"api:{name}"]
    if url := pairs.get("base_url") or pairs.get("api_base"):
        words += ["--base-url", url]
    for theirs, ours in (("dtype", "--dtype"), ("max_pixels", "--max-pixels"), ("num_concurrent", "-c")):
        words += [ours, pairs[theirs]] if pairs.get(theirs) else []
    return words


def _generation(value: str | None) -> Words:
    pairs = dict(part.partition("=")[::2] for part in (value or "").split(","))
    ours = {"max_new_tokens": "--max-tokens", "max_tokens": "--max-tokens", "temperature": "--temperature"}
    ours |= {"top_p": "--top-p", "until": "--stop"}
    return [word for name, text in pairs.items() if name in ours for word in (ours[name], text)]


class Option(NamedTuple):
    """What stands for another program's option."""

    rule: Rule
    why: str


_KEY = Option(
    _nothing,
    "A key is no argument, because every user of the machine could read it with ps. Set it in the environment or in .env: "
    "export OPENAI_API_KEY=...; another variable is named with --key-env NAME.",
)
_POSITIONAL = Option(_names, "Benchmarks are arguments: snellen run BENCHMARK [BENCHMARK ...].")
_OUT = Option(_as("--out"), "The folder of a run is --out.")
_RESUMES = Option(_nothing, "Omit it: the same command resumes a run and keeps every recorded answer.")
_CONCURRENCY = Option(_as("-c"), "Requests in flight are -c.")
_LIMIT = Option(_as("--limit"), "The first N samples are --limit N.")
_URL = Option(_as("--base-url"), "The endpoint is --base-url, up to and including /v1.")
_JUDGE = Option(_nothing, "A judge is a command of its own, after the run: snellen judge RUN --model api:NAME.")
_RECORDED = Option(_nothing, "Omit it: every answer is recorded in the run's folder.")
_TOKENS = Option(_as("--max-tokens"), "New tokens are limited by --max-tokens.")
_NONE = "Snellen has no such option."
OPTION_OF: Mapping[str, Option] = {
    **dict.fromkeys(("--api-key", "--apikey", "--key", "--openai-api-key", "--token", "--openai-key"), _KEY),
    **dict.fromkeys(
        ("--tasks", "--task", "--benchmark", "--benchmarks", "--dataset", "--datasets", "--evals"), _POSITIONAL
    ),
    **dict.fromkeys(("--work-dir", "--output-path", "--output-dir", "--output", "--log-dir", "--save-dir"), _OUT),
    **dict.fromkeys(("--results-dir", "--run-dir", "--workdir"), _OUT),
    **dict.fromkeys(
        ("--reuse", "--resume", "--use-cache", "--continue", "--retry-failed", "--cache-requests"), _RESUMES
    ),
    **dict.fromkeys(
        ("--api-nproc", "--num-workers", "--max-connections", "--num-concurrent", "--parallel"), _CONCURRENCY
    ),
    **dict.fromkeys(("--max-concurrent", "--workers", "--threads", "--jobs", "--max-concurrency"), _CONCURRENCY),
    **dict.fromkeys(("--max-samples", "--num-samples", "--n-samples", "--subset", "--num-examples"), _LIMIT),
    **dict.fromkeys(("--api-base", "--endpoint", "--openai-api-base", "--model-base-url", "--url", "--server"), _URL),
    **dict.fromkeys(("--judge", "--judge-model", "--judge-args", "--grader"), _JUDGE),
    **dict.fromkeys(("--log-samples", "--log-images", "--save-outputs", "--write-out"), _RECORDED),
    **dict.fromkeys(("--max-new-tokens", "--max-gen-toks", "--max-output-tokens"), _TOKENS),
    "--model-args": Option(_settings, "A model is --model KIND:NAME, its endpoint --base-url."),
    "--gen-kwargs": Option(_generation, "Generation settings are options of their own."),
    "-T": Option(_as("-o"), "A setting of a benchmark is -o KEY=VALUE."),
    "--epochs": Option(_as("--repeats"), "Each question is asked N times with --repeats N."),
    "--num-gpus": Option(_as("--nproc"), "Several GPUs are --nproc."),
    "--num-processes": Option(_as("--nproc"), "Several GPUs are --nproc."),
    "--tensor-parallel-size": Option(_nothing, "Give it to the server: --serve 'vllm MODEL --tensor-parallel-size N'."),
    "--max-retries": Option(_as("--max-attempts"), "Attempts for each question are --max-attempts."),
    "--retry": Option(_as("--max-attempts"), "Attempts for each question are --max-attempts."),
    "--num-fewshot": Option(_nothing, f"{_NONE} Prompts are those of the benchmark, without examples."),
    "--mode": Option(_nothing, "`run` asks and scores; `snellen score RUN` scores again without a request."),
    "--verbosity": Option(_nothing, "Omit it; SNELLEN_DEBUG=1 prints tracebacks."),
    "--verbose": Option(_nothing, "Omit it; SNELLEN_DEBUG=1 prints tracebacks."),
    "--image-size": Option(_as("--max-long-side"), "Pictures are shrunk with --max-long-side."),
    "--nframe": Option(_as("--frames"), "Frames of a clip are --frames."),
}
"""Other programs' options, with hyphens, to ours."""


def check(root: Any, words: Sequence[str]) -> None:
    """Refuse a command or an option that another harness has, with the command to type in its place.

    Raises:
        UsageError: such a word; other unknown words are left to the parser.
    """
    at = next((number for number, word in enumerate(words) if not word.startswith("-")), None)
    if at is None:
        return
    name = words[at]
    commands: Mapping[str, Any] = getattr(root, "commands", {})
    if at and name not in commands:  # an option stands first: what follows may be its value
        _refuse_options_alone(list(words))
    if name not in commands:
        rest = _without_program(name, list(words[at + 1 :]))
        if rest and rest[0] in commands:
            raise UsageError(f"{name!r} is another program", f"Type: {shlex.join(['snellen', *rest])}")
        if rest and rest[0].startswith("-"):
            _refuse_options_alone(rest)
        if rest:
            _refuse_command(rest[0], rest[1:])
        _refuse_command(name, list(words[at + 1 :]))
    command, path, rest = commands[name], [name], list(words[at + 1 :])
    while (inner := getattr(command, "commands", None)) and rest and rest[0] in inner:
        command, path, rest = inner[rest[0]], [*path, rest[0]], rest[1:]
    if not getattr(command, "commands", None):
        _check_options(command, path, rest)


def with_command(error: SnellenError, words: Words) -> SnellenError:
    """Add the whole command with the word that was meant to the hint, where the word that was typed stands in it once.

    The word may be a whole one, the value of `--option=value`, or one of several by comma. Keys are left out.
    """
    typed, meant = error.mended or ("", "")
    places = [number for number, word in enumerate(words) if typed in _values(word)]
    if not typed or len(places) != 1 or any(key_among(word) is not None for word in words):
        return error
    if _has_unknown_option(words):  # its value may be a key
        return error
    better = list(words)
    head, sign, value = (
        better[places[0]].rpartition("=") if better[places[0]].startswith("--") else ("", "", words[places[0]])
    )
    better[places[0]] = (
        head + sign + ",".join(meant if typed in (one, one.strip()) else one for one in value.split(","))
    )
    line = shlex.join(["snellen", *_without_keys(better)])
    if f"Type: {line}" not in error.hint:
        error.hint = f"Type: {line}\n{error.hint}".rstrip()
    return error


def _has_unknown_option(words: Words) -> bool:
    from typer.main import get_command

    from snellen.cli.app import build

    command: Any = get_command(build(words))
    rest = list(words)
    while rest and (inner := getattr(command, "commands", {}).get(rest[0])) is not None:
        command, rest = inner, rest[1:]
    return bool(getattr(command, "commands", None)) or bool(tell_apart(rest, own_options(command)).unknown)


def _values(word: str) -> Words:
    """What a word of the command line names: itself, or behind an option's sign; several by comma."""
    value = word.partition("=")[2] if word.startswith("--") else word
    return [value, *(part.strip() for part in value.split(","))]


PROGRAMS = ("inspect", "inspect_ai", "lmms-eval", "lmms_eval", "lm_eval", "lm-eval", "vlmevalkit", "vlmeval", "vlmutil")
STARTERS = ("python", "python3", "torchrun", "accelerate", "uv", "uvx", "pipx", "snellen")


def _without_program(name: str, rest: Words) -> Words:
    """What stands behind another harness's program, its interpreter and script: `inspect eval x` is `eval x`."""
    words = [name, *rest]
    if name not in PROGRAMS and name not in STARTERS:
        return []
    while words and (
        words[0] in PROGRAMS or words[0] in STARTERS or words[0] in ("-m", "launch") or words[0].endswith(".py")
    ):
        del words[0]
    return words


def _refuse_command(name: str, rest: Words) -> None:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.6)
    found = COMMAND_OF.get(name.lower().lstrip("-"))
    if found is not None:
        better, remarks = _for(found.ours, rest), list[str]()
        if found.ours == "run":
            better, remarks = _with_known([word.removeprefix("inspect_evals/") for word in better])
        arguments = shlex.join(better) or found.example
        line = f"snellen {found.ours} {arguments}".rstrip() if found.ours != "--help" else "snellen --help"
        raise UsageError(f"there is no command {name!r}", "\n".join([f"Type: {line}", *remarks, found.why]).rstrip())
    if _is_benchmark(name):
        line = shlex.join(["snellen", "run", *_for("run", [name, *rest])])
        raise UsageError(f"{name!r} is a benchmark and no command", f"Type: {line}")
    if near:
        line = shlex.join(["snellen", near[0], *_for(near[0], rest)])
        raise UsageError(f"there is no command {name!r}", f"Did you mean: {line}")
    raise UsageError(
        f"there is no command {name!r}", f"Commands: {', '.join(COMMANDS)}. `snellen --help` explains them."
    )


def _refuse_options_alone(words: Words) -> None:
    """Refuse a line that begins with options of `run`, as VLMEvalKit's and lmms-eval's do. Raises UsageError."""
    from typer.main import get_command

    from snellen.cli.app import build

    rest = _for("run", words)
    run: Any = getattr(get_command(build(["run"])), "commands", {})["run"]
    rest, remarks = _with_known(rest)
    told = tell_apart(rest, own_options(run))
    line = shlex.join(["snellen", "run", *rest])
    if not told.positional:
        try:
            _require_benchmark(told.values.get("--data", []), rest)
        except UsageError as error:
            line = error.hint.splitlines()[0].removeprefix("Type: ")
    raise UsageError(
        f"no command is named before {words[0].partition('=')[0]}",
        "\n".join([f"Type: {line}", *remarks, f"Commands: {', '.join(COMMANDS)}."]),
    )


def _for(name: str, rest: Words) -> Words:
    """The words behind a command of ours, other programs' options among them as ours, and without keys."""
    from typer.main import get_command

    from snellen.cli.app import build

    command: Any = getattr(get_command(build([name])), "commands", {}).get(name)
    if command is None or getattr(command, "commands", None):
        return _without_keys(rest)
    found = _translated(own_options(command), rest)
    return _models(_without_keys(rest if found is None else found.words))


class Translation(NamedTuple):
    """Words of a command line in our options: why each was changed, and the options that were not ours."""

    words: Words
    reasons: Words
    refused: Words
    misspelt: Words


def _nearest(name: str, own: Mapping[str, bool]) -> str:
    """The option that a misspelt one is near to; "" for none. An option that carries a key counts among them."""
    import difflib

    known = [
        option
        for option in (*own, *(name for name, option in OPTION_OF.items() if option is _KEY))
        if option[:2] == "--"
    ]
    plain = name.lower().replace("_", "-")
    begun = [option for option in own if len(plain) > 4 and option.startswith(plain)]
    return begun[0] if len(begun) == 1 else next(iter(difflib.get_close_matches(plain, known, n=1, cutoff=0.75)), "")


def _translated(own: Mapping[str, bool], rest: Words) -> Translation | None:
    """Other programs' options as ours; None where one of them is not known here."""
    unknown = set(tell_apart(rest, own).unknown)
    found = Translation([], [], [], [])
    skip = False
    for number, word in enumerate(rest):
        if skip:
            skip = False
            continue
        if number not in unknown:
            found.words.append(word)
            continue
        name, sign, value = word.partition("=")
        plain = name if name in OPTION_OF else name.lower().replace("_", "-")
        follows = number + 1 < len(rest) and not rest[number + 1].startswith("-") and not sign
        given = value if sign else rest[number + 1] if follows else None
        option = OPTION_OF.get(plain)
        if plain not in own and option is None and name.startswith("--") and (near := _nearest(name, own)):
            plain, option = near, OPTION_OF.get(near) if near not in own else None
            if option is None:
                found.misspelt.append(name)
        if plain in own and plain != name:
            found.reasons.append(f"{name} is written {plain}.")
            found.words.extend([plain, *([given] if own[plain] and given is not None else [])])
            skip = own[plain] and follows
        elif option is _POSITIONAL:
            found.reasons.append(_put_benchmarks(own, found.words, given))
            skip = follows
        elif option is not None and all(word in own for word in option.rule("1") if word.startswith("-")):
            found.reasons.append(option.why)
            found.words.extend(option.rule(given))
            skip = follows
        else:
            return None
        found.refused.append(name)
    return found


def _put_benchmarks(own: Mapping[str, bool], words: Words, given: str | None) -> str:
    """Add named benchmarks where the command takes them; return why."""
    for option in ("--benchmarks", "--benchmark"):
        if option in own:
            words += [option, given or "NAME"]
            return f"Benchmarks are named with {option}."
    words[:0] = _names(given)
    return _POSITIONAL.why


def _with_known(words: Words) -> tuple[Words, Words]:
    """The words of `run` with benchmarks as they are called here, and a remark on each that there is not.

    One that there is not is replaced by BENCHMARK, so that no command is proposed that cannot be run.
    """
    from typer.main import get_command

    from snellen.benchmarks import registry
    from snellen.benchmarks.name_hints import is_elsewhere
    from snellen.cli.app import build

    run: Any = getattr(get_command(build(["run"])), "commands", {})["run"]
    better, remarks = list(words), []
    for name in dict.fromkeys(tell_apart(words, own_options(run)).positional):
        if name == "BENCHMARK" or _is_benchmark(name) or registry.is_code(name) or Path(name).exists():
            continue
        ours = [] if is_elsewhere(name) else registry.spelled_alike(name)
        if not ours:
            remarks.append(f"There is no benchmark {name!r} here. `snellen list` shows all.")
        better[better.index(name)] = ours[0] if ours else "BENCHMARK"
    return better, remarks


def _check_options(command: Any, path: Words, rest: Words) -> None:
    own = own_options(command)
    told = tell_apart(rest, own)
    found = _translated(own, rest) if told.unknown else None
    if found is not None:
        better, remarks = _with_known(found.words) if path == ["run"] else (found.words, [])
        line = shlex.join(["snellen", *path, *_models(_without_keys(better))])
        many = ", ".join(dict.fromkeys(found.refused))
        hint = "\n".join([f"Type: {line}", *dict.fromkeys([*remarks, *found.reasons])])
        if found.misspelt == found.refused:
            raise UsageError(f"No such option: {many}", f"Type: {line}")
        raise UsageError(f"snellen {' '.join(path)} has no option {many}", hint)
    if told.positional and not told.unknown and not told.asks_help:
        check_order(path, _without_keys(rest), told.positional)
    if path == ["rerun"] and told.unknown:
        _refuse_settings([rest[number].partition("=")[0] for number in told.unknown])
    if path == ["run"] and not told.positional and not told.unknown and not told.asks_help:
        _require_benchmark(told.values.get("--data", []), rest)


def _refuse_settings(unknown: Words) -> None:
    """Refuse options of `run` behind `rerun`, which takes them from the run. Raises UsageError."""
    from typer.main import get_command

    from snellen.cli.app import build

    run: Any = getattr(get_command(build(["run"])), "commands", {})["run"]
    settings = [name for name in unknown if name in own_options(run)]
    if settings:
        raise UsageError(
            f"snellen rerun has no option {', '.join(settings)}: a run is repeated with its own settings",
            f"Type: snellen run BENCHMARK --model KIND:NAME {settings[0]} ... --out NEW_FOLDER",
        )


def _require_benchmark(data: Sequence[str], rest: Words) -> None:
    """Refuse a run that names no benchmark; --data may name it, as VLMEvalKit has it. Raises UsageError."""
    from snellen.benchmarks import registry

    missing = [value for value in data if not value.startswith("hf:") and not Path(value).exists()]
    wanted = [name for value in missing for name in registry.spelled_alike(value)[:1]]
    if missing and not wanted:
        raise UsageError(
            f"no benchmark is named, and --data {missing[0]} is neither a file nor a benchmark of Snellen's",
            "Benchmarks are arguments: snellen run BENCHMARK --data PATH. `snellen list` shows all.",
        )
    better = [word for word in rest if word != "--data" and word not in data] if wanted else rest
    line = shlex.join(["snellen", "run", *(wanted or ["chart"]), *_models(_without_keys(better))])
    raise UsageError(
        "no benchmark is named",
        f"Type: {line}\nBenchmarks are arguments, and --data says where their files lie. `snellen list` shows all.",
    )


def _models(words: Words) -> Words:
    """Values of --model as KIND:NAME, of the last one where lmms-eval's --model_args named it too."""
    from snellen.models.registry import suggested

    better = list(words)
    for number, word in enumerate(better[:-1]):
        if word in ("--model", "-m") and (kind := suggested(better[number + 1])):
            better[number + 1] = kind
    places = [number for number, word in enumerate(better[:-1]) if word in ("--model", "-m")]
    if len(places) > 1 and better[places[-1] + 1].startswith(("local:", "api:")):
        for number in reversed(places[:-1]):
            if better[number + 1].startswith("api:") and better[places[-1] + 1] != better[number + 1]:
                del better[number : number + 2]
                places = [number for number, word in enumerate(better[:-1]) if word in ("--model", "-m")]
    return better


def _without_keys(words: Words) -> Words:
    """The words without options that carry a key, and without the key; `--key-env` keeps what a variable may be called."""
    kept: Words = []
    skip = False
    for word in words:
        name = word.partition("=")[0].lower().replace("_", "-")
        if skip:
            skip = False
            continue
        if OPTION_OF.get(name) is _KEY:
            skip = "=" not in word
            continue
        if kept and kept[-1] == "--key-env" and not _VARIABLE.fullmatch(word):
            word = "NAME"
        elif name == "--key-env" and "=" in word and not _VARIABLE.fullmatch(word.partition("=")[2]):
            word = "--key-env=NAME"
        kept.append(word)
    return kept


_VARIABLE = re.compile(r"[A-Z][A-Z_]*[A-Z0-9_]{0,40}")


def _is_benchmark(name: str) -> bool:
    from snellen.benchmarks import registry

    return name in registry.names() or (Path(name) / registry.MANIFEST).is_file()
