"""Suggestions for commands and options of other harnesses: the Snellen command to type instead.

They are checked before a command runs. A key on the command line is never printed.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from snellen.cli.app import COMMANDS
from snellen.cli.benchmark_options import own_options, tell_apart
from snellen.errors import SnellenError, UsageError
from snellen.redaction.arguments import key_among
from snellen.text import comma_list


def check(root: Any, words: Words) -> None:
    """Refuse a command or an option of another harness, with the command to type instead.

    Raises:
        UsageError: such a word; other unknown words are left to the parser.
    """
    at = next((number for number, word in enumerate(words) if not word.startswith("-")), None)
    if at is None:
        return
    name, rest = words[at], words[at + 1 :]
    commands: Mapping[str, Any] = getattr(root, "commands", {})
    if name in commands:
        command, path, rest = descend(root, words[at:])
        if not getattr(command, "commands", None):
            _check_options(command, path, rest)
        return
    if at:  # an option stands first: what follows may be its value
        _refuse_options_alone(words)
    behind = _without_program(name, rest)
    if behind and behind[0] in commands:
        raise UsageError(f"{name!r} is another program", f"Type: {shlex.join(['snellen', *behind])}")
    if behind and behind[0].startswith("-"):
        _refuse_options_alone(behind)
    if behind:
        _refuse_command(behind[0], behind[1:])
    _refuse_command(name, rest)


def with_command(error: SnellenError, words: Words) -> SnellenError:
    """Add the corrected command line to the hint of an error about a misspelt word, if the word occurs once.

    The word may be a whole one, the value of `--option=value`, or one of several separated by commas. Keys are left out.
    """
    typed, meant = error.correction or ("", "")
    places = [number for number, word in enumerate(words) if typed in _values(word)]
    if not typed or len(places) != 1 or any(key_among(word) is not None for word in words):
        return error
    if _has_unknown_option(words):  # its value may be a key
        return error
    word = words[places[0]]
    head, sign, value = word.rpartition("=") if word.startswith("--") else ("", "", word)
    corrected = ",".join(meant if typed in (part, part.strip()) else part for part in value.split(","))
    better = [*words[: places[0]], head + sign + corrected, *words[places[0] + 1 :]]
    line = shlex.join(["snellen", *_without_keys(better)])
    if f"Type: {line}" not in error.hint:
        error.hint = f"Type: {line}\n{error.hint}".rstrip()
    return error


def descend(command: Any, words: Words) -> tuple[Any, Words, Words]:
    """Return the command that words name, the words of its name, and the words behind it."""
    path, rest = list[str](), list(words)
    while rest and (inner := getattr(command, "commands", {}).get(rest[0])) is not None:
        command, path, rest = inner, [*path, rest[0]], rest[1:]
    return command, path, rest


def _find_command(words: Words) -> tuple[Any, Words]:
    """Return the command that words name, or the group if they name none, and the words behind it."""
    from typer.main import get_command

    from snellen.cli.app import build

    command, _, rest = descend(get_command(build(words)), words)
    return command, rest


def _run_options() -> dict[str, bool]:
    return own_options(_find_command(["run"])[0])


def _has_unknown_option(words: Words) -> bool:
    command, rest = _find_command(words)
    return bool(getattr(command, "commands", None)) or bool(tell_apart(rest, own_options(command)).unknown)


def _values(word: str) -> Words:
    """Return the value of a word, which may follow an option's `=`, and its parts between commas."""
    value = word.partition("=")[2] if word.startswith("--") else word
    return [value, *(part.strip() for part in value.split(","))]


PROGRAMS = ("inspect", "inspect_ai", "lmms-eval", "lmms_eval", "lm_eval", "lm-eval", "vlmevalkit", "vlmeval", "vlmutil")
STARTERS = ("python", "python3", "torchrun", "accelerate", "uv", "uvx", "pipx", "snellen")


def _without_program(name: str, rest: Words) -> Words:
    """Drop another harness's program, interpreter and script: `inspect eval x` becomes `eval x`; [] if there is none."""
    words = [name, *rest]
    if name not in (*PROGRAMS, *STARTERS):
        return []
    while words and (words[0] in (*PROGRAMS, *STARTERS, "-m", "launch") or words[0].endswith(".py")):
        del words[0]
    return words


def _refuse_command(name: str, rest: Words) -> NoReturn:
    import difflib

    ours = COMMAND_OF.get(name.lower().lstrip("-"))
    if ours is not None:
        better, remarks = _translated_words(ours.ours, rest), list[str]()
        if ours.ours == "run":
            better, remarks = _with_known([word.removeprefix("inspect_evals/") for word in better])
        arguments = shlex.join(better) or ours.example
        line = "snellen --help" if ours.ours == "--help" else f"snellen {ours.ours} {arguments}".rstrip()
        raise UsageError(f"there is no command {name!r}", "\n".join([f"Type: {line}", *remarks, ours.why]).rstrip())
    if _is_benchmark(name):
        line = shlex.join(["snellen", "run", *_translated_words("run", [name, *rest])])
        raise UsageError(f"{name!r} is a benchmark and no command", f"Type: {line}")
    if name.endswith((".py", ".sh")):
        raise UsageError(
            f"there is no command {name!r}",
            "`snellen --help fika` has the commands that do what the scripts of FIKA-Bench do. `snellen --help` shows all.",
        )
    if near := difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.6):
        line = shlex.join(["snellen", near[0], *_translated_words(near[0], rest)])
        raise UsageError(f"there is no command {name!r}", f"Did you mean: {line}")
    raise UsageError(
        f"there is no command {name!r}", f"Commands: {', '.join(COMMANDS)}. `snellen --help` explains them."
    )


def _refuse_options_alone(words: Words) -> NoReturn:
    """Refuse a line that begins with options of `run`, like those of VLMEvalKit and lmms-eval. Raises UsageError."""
    rest, remarks = _with_known(_translated_words("run", words))
    split = tell_apart(rest, _run_options())
    line = shlex.join(["snellen", "run", *rest])
    if not split.positional:
        try:
            _require_benchmark(split.values.get("--data", []), rest)
        except UsageError as error:
            line = error.hint.splitlines()[0].removeprefix("Type: ")
    raise UsageError(
        f"no command is named before {words[0].partition('=')[0]}",
        "\n".join([f"Type: {line}", *remarks, f"Commands: {', '.join(COMMANDS)}."]),
    )


def _translated_words(name: str, rest: Words) -> Words:
    """Return the words behind a command of ours, with other programs' options translated and keys left out."""
    command, _ = _find_command([name])
    if getattr(command, "commands", None):
        return _without_keys(rest)
    translation = _translate(own_options(command), rest)
    return _with_kinds(_without_keys(rest if translation is None else translation.words))


class Translation(NamedTuple):
    """A command line in our options.

    Attributes:
        words: the translated words.
        reasons: why each option was changed.
        refused: the options that are not ours.
        misspelt: those of them that are similar to one of ours.
    """

    words: Words
    reasons: Words
    refused: Words
    misspelt: Words


def _nearest(name: str, own: Mapping[str, bool]) -> str:
    """Return the option that a misspelt one is similar to, "" for none. Options for keys count too."""
    import difflib

    keys = (option for option, ours in OPTION_OF.items() if ours is KEY)
    known = [option for option in (*own, *keys) if option[:2] == "--"]
    plain = name.lower().replace("_", "-")
    begun = [option for option in own if len(plain) > 4 and option.startswith(plain)]
    if len(begun) == 1:
        return begun[0]
    near = next(iter(difflib.get_close_matches(plain, known, n=1, cutoff=0.75)), "")
    if plain == f"--no-{near[2:]}":  # the opposite
        return ""
    # --trust runs the code of a folder: it is proposed to nobody who did not type it.
    return "" if near == TRUST and difflib.SequenceMatcher(None, plain, near).ratio() < SURE else near


def _translate(own: Mapping[str, bool], rest: Words) -> Translation | None:
    """Translate other programs' options; return None if one of them is unknown."""
    unknown = set(tell_apart(rest, own).unknown)
    result = Translation([], [], [], [])
    skip = False
    for number, word in enumerate(rest):
        if skip:
            skip = False
            continue
        if number not in unknown:
            result.words.append(word)
            continue
        name, sign, value = word.partition("=")
        plain = name if name in OPTION_OF else name.lower().replace("_", "-")
        follows = number + 1 < len(rest) and not rest[number + 1].startswith("-") and not sign
        argument = value if sign else rest[number + 1] if follows else None
        option = OPTION_OF.get(plain)
        if plain not in own and option is None and name.startswith("--") and (near := _nearest(name, own)):
            plain, option = near, OPTION_OF.get(near) if near not in own else None
            if option is None:
                result.misspelt.append(name)
        if plain in own and plain != name:
            result.reasons.append(f"{name} is written {plain}.")
            result.words.extend([plain, *([argument] if own[plain] and argument is not None else [])])
            skip = own[plain] and follows
        elif option is POSITIONAL:
            result.reasons.append(_add_benchmarks(own, result.words, argument))
            skip = follows
        elif option is not None and all(word in own for word in option.rule("1") if word.startswith("-")):
            result.reasons.append(_judge_reason(argument) if option is JUDGE else option.why)
            result.words.extend(option.rule(argument))
            skip = follows
        else:
            return None
        result.refused.append(name)
    return result


def _judge_reason(name: str | None) -> str:
    """Return the reason for leaving out another program's option for a judge, with the judge that it named."""
    if name is None or not _MODEL_NAME.fullmatch(name):
        return JUDGE.why
    from snellen.runs.judge.ask import spelled

    return JUDGE.why.replace("api:NAME", spelled(name))


def _add_benchmarks(own: Mapping[str, bool], words: Words, names: str | None) -> str:
    """Add benchmark names where the command takes them; return why."""
    for option in ("--benchmarks", "--benchmark"):
        if option in own:
            words += [option, names or "NAME"]
            return f"{option} names the benchmarks."
    words[:0] = split_names(names)
    return POSITIONAL.why


def _with_known(words: Words) -> tuple[Words, Words]:
    """Return words of `run` with our names of benchmarks, and a remark on each unknown one.

    An unknown name is replaced by BENCHMARK, so that no command is proposed that cannot run.
    """
    from snellen.benchmarks import registry
    from snellen.benchmarks.registry import is_elsewhere

    better, remarks = list(words), []
    for name in dict.fromkeys(tell_apart(words, _run_options()).positional):
        if name == "BENCHMARK" or _is_benchmark(name) or registry.is_code(name) or Path(name).exists():
            continue
        ours = [] if is_elsewhere(name) else registry.spelled_alike(name)
        if not ours:
            remarks.append(f"There is no benchmark {name!r} here. `snellen list` shows all.")
        better[better.index(name)] = ours[0] if ours else "BENCHMARK"
    return better, remarks


def _check_options(command: Any, path: Words, rest: Words) -> None:
    own = own_options(command)
    split = tell_apart(rest, own)
    translation = _translate(own, rest) if split.unknown else None
    if translation is not None:
        better, remarks = _with_known(translation.words) if path == ["run"] else (translation.words, [])
        line = shlex.join(["snellen", *path, *_with_kinds(_without_keys(better))])
        options = ", ".join(dict.fromkeys(translation.refused))
        if translation.misspelt == translation.refused:
            raise UsageError(f"No such option: {options}", f"Type: {line}")
        hint = "\n".join([f"Type: {line}", *dict.fromkeys([*remarks, *translation.reasons])])
        raise UsageError(f"snellen {' '.join(path)} has no option {options}", hint)
    if path == ["rerun"] and split.unknown:
        _refuse_settings([rest[number].partition("=")[0] for number in split.unknown])
    if split.unknown or split.asks_help:
        return
    if split.positional:
        check_order(path, _without_keys(rest), split.positional)
    elif path == ["run"]:
        _require_benchmark(split.values.get("--data", []), rest)


def _refuse_settings(unknown: Words) -> None:
    """Refuse options of `run` behind `rerun`, which takes them from the run. Raises UsageError."""
    if settings := [name for name in unknown if name in _run_options()]:
        raise UsageError(
            f"snellen rerun has no option {', '.join(settings)}: a run is repeated with its own settings",
            f"Type: snellen run BENCHMARK --model KIND:NAME {settings[0]} ... --out NEW_FOLDER",
        )


def _require_benchmark(data: Words, rest: Words) -> NoReturn:
    """Refuse a run that names no benchmark; --data may name it, as in VLMEvalKit. Raises UsageError."""
    from snellen.benchmarks import registry

    missing = [value for value in data if not value.startswith("hf:") and not Path(value).exists()]
    wanted = [name for value in missing for name in registry.spelled_alike(value)[:1]]
    if missing and not wanted:
        raise UsageError(
            f"no benchmark is named, and --data {missing[0]} is neither a file nor a benchmark of Snellen's",
            "Benchmarks are arguments: snellen run BENCHMARK --data PATH. `snellen list` shows all.",
        )
    better = [word for word in rest if word != "--data" and word not in data] if wanted else rest
    line = shlex.join(["snellen", "run", *(wanted or ["chart"]), *_with_kinds(_without_keys(better))])
    raise UsageError(
        "no benchmark is named",
        f"Type: {line}\nBenchmarks are arguments; --data is the place of their files. `snellen list` shows all.",
    )


def _with_kinds(words: Words) -> Words:
    """Write values of --model as KIND:NAME; keep the last one if lmms-eval's --model_args named it too."""
    from snellen.models.registry import KINDS, suggested

    better = list(words)
    for number, word in enumerate(better[:-1]):
        if word in MODEL_OPTIONS and (kind := suggested(better[number + 1])):
            better[number + 1] = kind
    places = [number for number, word in enumerate(better[:-1]) if word in MODEL_OPTIONS]
    last = better[places[-1] + 1] if places else ""
    if last.startswith(("local:", "api:")):
        for number in reversed(places[:-1]):
            earlier = better[number + 1]
            if (earlier.startswith("api:") or earlier in KINDS) and earlier != last:
                del better[number : number + 2]
    return better


def _without_keys(words: Words) -> Words:
    """Return the words without keys and their options; --key-env keeps only what can be a variable's name."""
    safe: Words = []
    skip = False
    for word in words:
        name, sign, value = word.partition("=")
        name = name.lower().replace("_", "-")
        if skip:
            skip = False
            continue
        if OPTION_OF.get(name) is KEY:
            skip = not sign
            continue
        if safe and safe[-1] == "--key-env" and not _VARIABLE.fullmatch(word):
            word = "NAME"
        elif name == "--key-env" and sign and not _VARIABLE.fullmatch(value):
            word = "--key-env=NAME"
        safe.append(word)
    return safe


TRUST, SURE = "--trust", 0.85
_MODEL_NAME = re.compile(r"[\w.:/@-]{1,80}")
_VARIABLE = re.compile(r"[A-Z][A-Z_]*[A-Z0-9_]{0,40}")


def _is_benchmark(name: str) -> bool:
    from snellen.benchmarks import registry

    return name in registry.names() or (Path(name) / registry.MANIFEST).is_file()


MODEL_OPTIONS = ("--model", "-m")
TAKING_RUN = ("judge", "score", "report", "failures", "export", "rerun", "compare")
SQL_STARTS = ("select ", "with ", "describe ", "show ", "from ")


def check_order(path: Sequence[str], words: Sequence[str], positional: Sequence[str]) -> None:
    """Refuse arguments that stand in each other's place, with the command to type.

    Args:
        path: the command, in words.
        words: all words behind it.
        positional: those that are neither options nor values of one.

    Raises:
        UsageError: such arguments; others are left to the command.
    """
    name = path[0]
    if name == "query" and positional and _is_run(positional[0]):
        own = next((word for word in positional if word.lstrip().lower().startswith(SQL_STARTS)), None)
        rest = list(words)
        if own is not None:
            rest.remove(own)
        line = shlex.join(["snellen", "query", own or "SELECT run, state, value FROM runs", *rest])
        raise UsageError(f"the first argument of query is SQL, and {positional[0]} is a run", f"Type: {line}")
    if name == "score" and len(positional) == 2:
        run = next((word for word in positional if Path(word).exists()), "")
        other = next((word for word in positional if word != run), "")
        if run and other and not Path(other).exists():
            rest = [word for word in words if word != other]
            line = shlex.join(["snellen", "score", *rest, "--benchmark", other])
            raise UsageError(f"score takes one file or run, and {other} is none", f"Type: {line}")
    models = [word for word in positional if _is_model(word)]
    if not models or name not in ("run", *TAKING_RUN):
        return
    named = [after for word, after in itertools.pairwise(words) if word in MODEL_OPTIONS]
    named += [word.partition("=")[2] for word in words if word.startswith("--model=")]
    expected = "a benchmark" if name == "run" else "a run's folder"
    if len(named) == 1 and len(models) == 1 and not _is_model(typed := named[0]):
        better = [models[0] if word == typed else typed if word == models[0] else word for word in words]
    elif name in ("run", "judge") and not named:
        better = [word for word in words if word not in models]
        better += [part for model in models for part in ("--model", model)]
        if len(models) == len(positional):
            better.insert(0, "BENCHMARK" if name == "run" else "RUN")
    else:
        better = [word for word in words if word not in models]
    line = shlex.join(["snellen", name, *better])
    raise UsageError(f"{models[0]} is a model, and {expected} was expected there", f"Type: {line}")


def _is_model(word: str) -> bool:
    from snellen.models.registry import KINDS

    kind, colon, name = word.partition(":")
    return bool(colon and name and kind in KINDS) and not Path(word).exists()


def _is_run(word: str) -> bool:
    return (Path(word) / "run_meta.json").is_file()


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
        "plot plots visualize visualise html": _REPORT,
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
