"""Option --judge of `snellen run`: judge the replies right after the run, so that one command gives the scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from snellen.cli.benchmark_options import JUDGE_DEFAULT, JUDGE_OPTION
from snellen.cli.console import note
from snellen.cli.judge_options import JudgeKeyEnv, JudgeUrl
from snellen.engine.endpoints import judge_command
from snellen.errors import UsageError

if TYPE_CHECKING:
    from snellen.benchmarks.base import Benchmark
    from snellen.engine.progress import Display
    from snellen.models.base import ModelOptions
    from snellen.runs.run import Run
    from snellen.runs.settings import JudgeSettings


@dataclass(frozen=True)
class InlineJudgeOptions:
    """Judge that reads the replies after the run."""

    PANEL: ClassVar[str] = "Judge"

    judge: Annotated[
        str | None,
        typer.Option(
            JUDGE_OPTION,
            "--judge-model",
            metavar="KIND:NAME",
            help="Judge the replies with this model after the run, as `snellen judge RUN` does. Without a value the judge "
            "is that of JUDGE_MODEL.",
            show_default="none",
        ),
    ] = None
    judge_base_url: JudgeUrl = None
    judge_key_env: JudgeKeyEnv = None


def _command(run: Path, chosen: InlineJudgeOptions) -> str:
    """Return the command that has the judge of `chosen` judge a run."""
    from snellen.runs.judge.ask import spelled

    model = None if chosen.judge in (None, JUDGE_DEFAULT) else spelled(str(chosen.judge))
    return judge_command(run, model, chosen.judge_base_url, chosen.judge_key_env)


class InlineJudge:
    """The judge of one call of `snellen run`.

    Args:
        chosen: the options of the command.
        options: of the run's own requests; the judge's are as many at once, and wait as long.
        benchmarks: all benchmarks of the call.

    Raises:
        UsageError: no benchmark of the call is judged, or an option of a judge is given without one.
        JudgeError: no judge, no key, or one that cannot judge.
    """

    def __init__(self, chosen: InlineJudgeOptions, benchmarks: Sequence[Benchmark], options: ModelOptions) -> None:
        from snellen.models.base import ModelOptions
        from snellen.runs.judge.ask import appointed

        self._chosen = chosen
        self._settings: JudgeSettings = {
            "base_url": chosen.judge_base_url,
            "key_env": chosen.judge_key_env,
            "concurrency": options.concurrency,
            "timeout_s": options.timeout_s,
            "patience_s": options.patience_s,
        }
        judged = [benchmark.name for benchmark in benchmarks if benchmark.rubric is not None]
        if not judged:
            names = ", ".join(dict.fromkeys(benchmark.name for benchmark in benchmarks))
            raise UsageError(
                f"{JUDGE_OPTION}: {names} is scored by rules, and no reply of it is for a judge",
                f"Omit {JUDGE_OPTION}. To have all replies judged as well: {_command(Path('RUN'), chosen)} --rubric match",
            )
        self._model = None if chosen.judge == JUDGE_DEFAULT else chosen.judge
        appointed(
            self._model,
            ModelOptions(base_url=chosen.judge_base_url, key_env=chosen.judge_key_env),
            option=JUDGE_OPTION,
        )

    def command(self, run: Path) -> str:
        """Return the command that judges a run with this judge."""
        return _command(run, self._chosen)

    def judge(self, run: Run, display: Display) -> Run | None:
        """Judge the replies of a finished run, and score it; None if it has no reply for a judge."""
        from snellen.runs.judge.ask import judge

        if run.benchmark.rubric is None:
            note(f"note: {run.benchmark.name} is scored by rules; nothing of it is judged")
            return None
        if run.all_failed or not run.judged_by():
            note(f"note: {run.path} holds no reply for a judge")
            return None
        return judge(run.path, self._model, trust=True, display=display, **self._settings)


def inline_judge(
    chosen: InlineJudgeOptions, benchmarks: Sequence[Benchmark], options: ModelOptions
) -> InlineJudge | None:
    """Return the judge of the call; None without --judge. Raises as `InlineJudge`."""
    if chosen.judge is not None:
        return InlineJudge(chosen, benchmarks, options)
    for flag, value in (("--judge-base-url", chosen.judge_base_url), ("--judge-key-env", chosen.judge_key_env)):
        if value is not None:
            raise UsageError(f"{flag} is given without {JUDGE_OPTION}", f"Add {JUDGE_OPTION} api:NAME, or omit {flag}.")
    return None


def print_summary(judged: Run, *, as_json: bool) -> None:
    """Print the SUMMARY_JSON line of a judged run; on stderr with --json."""
    import msgspec

    from snellen.runs.judge.ask import verdicts

    line = f"SUMMARY_JSON {msgspec.json.encode(verdicts(judged)).decode()}"
    note(line) if as_json else print(line)
