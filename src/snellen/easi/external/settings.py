"""Settings, jobs and outcomes of external harnesses."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from snellen.benchmarks.spatial.tasks import TASKS, Task
from snellen.easi.names import HALVES, ORDER, PARTS, find, task_of
from snellen.errors import UsageError
from snellen.redaction.arguments import held_key

State: TypeAlias = Literal["complete", "partial", "failed"]


class HarnessSettings(Struct, frozen=True, kw_only=True):
    """The options of a harness run.

    Attributes:
        model: lmms-eval's model type (`qwen3_vl`), or VLMEvalKit's name of a model.
        model_args: lmms-eval's `--model_args`, `pretrained=...,...`; of no use to VLMEvalKit.
        nproc: processes, one a GPU.
        accelerate: whether lmms-eval is started by accelerate.
        out: the folder of results; each model and harness has its own folder in it.
        dataset_dir: where VLMEvalKit's tables lie (its LMUData); None: the variable LMUData, else ~/LMUData.
        python: the interpreter of the harness's own environment; None: the one this process runs in.
        home: the checkout of VLMEvalKit, the folder with run.py; None: the variable VLMEVALKIT_HOME, else ./VLMEvalKit.
        judge_model: who judges a benchmark of VLMEvalKit with too many unread replies; empty: nobody.
        judge_base_url: the judge's endpoint, up to and including /v1; empty: as the harness's environment says.
        threshold: the share of unread replies above which it is judged.
        rerun: whether what was done counts as not done.
        verbose: whether the harness is asked to say more, and what it says is passed on.
        extra: further arguments of the harness, as they are.
        time_limit_s: seconds that one command may take; None: any time.
    """

    model: str
    model_args: str = ""
    nproc: int = 1
    accelerate: bool = True
    out: Path = Path("eval_results")
    dataset_dir: Path | None = None
    python: Path | None = None
    home: Path | None = None
    judge_model: str = ""
    judge_base_url: str = ""
    threshold: float = 0.025
    rerun: bool = False
    verbose: bool = False
    extra: tuple[str, ...] = ()
    time_limit_s: float | None = None

    @property
    def interpreter(self) -> str:
        """The interpreter of the harness's environment; links are not followed, as in virtual environments."""
        return sys.executable if self.python is None else str(self.python.expanduser().absolute())


class HarnessOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one benchmark under a harness.

    Attributes:
        benchmark: our name of it.
        state: `complete`: every question of the harness's data has a reply and the command ended well; `partial`: there
            are replies; `failed`: there are none.
        folder: our run of it; None where there are no replies.
        reused: it was complete before, and nothing was started.
        exit_status: that of the first command that did not end with 0, else 0; None where none was started.
        timed_out: whether a command was ended because its time was up.
        rows, expected: questions with a row in its files, questions that the harness's data has; None where nobody says.
        lost: rows that hold no reply, because a request failed.
        empty: replies without any text. VLMEvalKit's tables do not tell these from answers that are missing.
        theirs, ours: the overall figure in percent, as the harness made it and by our profile of it; None: not there.
        profile: that profile.
        judged, judge: VLMEvalKit's figure after its judge run, and the judge; None and empty where no judge graded a reply.
        verdicts, for_judge: replies that the judge gave a verdict on, of those that were for it.
        not_judged: why a judge that was named is not credited; empty where it is, and where none was named.
        differences: where the two differ, one line each: figures first, then samples.
        errors: what the log says went wrong, the first few.
        notes: what else a reader must know.
        log: what the harness said.
        seconds: how long its commands took.
    """

    benchmark: str
    state: State
    folder: Path | None = None
    reused: bool = False
    exit_status: int | None = None
    timed_out: bool = False
    rows: int = 0
    expected: int | None = None
    lost: int = 0
    empty: int = 0
    theirs: float | None = None
    ours: float | None = None
    profile: str = ""
    judged: float | None = None
    judge: str = ""
    verdicts: int = 0
    for_judge: int = 0
    not_judged: str = ""
    differences: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    log: Path | None = None
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        return self.state == "complete"

    @property
    def judging(self) -> str:
        """The judge and its number of verdicts, or the reason for none; empty if no judge was named."""
        if self.judge:
            return f"judged by {self.judge}: {self.verdicts:,} of {self.for_judge:,} replies"
        return f"not judged: {self.not_judged}" if self.not_judged else ""

    @property
    def difference(self) -> float | None:
        """Snellen's score minus the harness's, in points; None if one is missing."""
        return None if self.theirs is None or self.ours is None else round(self.ours - self.theirs, 4)


class BenchmarkJob(Struct, frozen=True):
    """One benchmark to run: its task, and its parts with the harness's task names (SITE has two)."""

    name: str
    task: Task
    parts: tuple[tuple[str, str], ...]

    @property
    def is_half(self) -> bool:
        """True for one half of SITE alone."""
        return "/" in self.name


def jobs(names: Iterable[str], harness: str) -> list[BenchmarkJob]:
    """Return the jobs of benchmarks named by Snellen or EASI, in EASI's order, each once.

    Args:
        names: `vsi-bench`, `vsi_bench`, `site`, `site/image` ...
        harness: which of its names the parts get: `lmms-eval` or `vlmevalkit`.

    Raises:
        UsageError: one of them is no benchmark of EASI's.
    """
    wanted: set[str] = set()
    for text in names:
        if (name := find(text)) is None:
            raise UsageError(f"{text!r} is not an EASI benchmark", f"Benchmarks: {', '.join(TASKS)}.")
        wanted.add(name)
    if "site" in wanted:
        wanted.difference_update(HALVES)
    selected = []
    for name in sorted(wanted, key=ORDER.index):
        task, half = task_of(name)
        task_names = (task.lmms if harness == "lmms-eval" else task.kit).split(", ")
        parts = tuple(zip(PARTS if len(task_names) == 2 else ("",), task_names, strict=True))
        selected.append(BenchmarkJob(name, task, tuple(part for part in parts if not half or part[0] == half)))
    return selected


def no_keys(arguments: Sequence[str]) -> None:
    """Refuse arguments that contain a key, since other users can read them. Raises UsageError."""
    for argument in (*arguments, " ".join(arguments)):
        hit = held_key(argument)
        if hit is None:
            continue
        raise UsageError(
            f"{hit} stands in the arguments of the harness; a process's arguments can be read by anybody on the machine",
            "Set it in the environment: OPENAI_API_KEY, HF_TOKEN ... are passed on.",
        )
