"""Run a harness: determine pending benchmarks, run its commands, return an outcome for each.

A command's fingerprint stands beside its results in command.json, and each fingerprint has folders of its own: files of other
settings, or of an earlier attempt that ended badly, are never taken for its results.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from msgspec import Struct, structs

from snellen import redaction
from snellen.benchmarks.spatial.interop.harness_metrics import HarnessMetrics
from snellen.easi.external import compare, import_run, lmms_eval, outcome, vlmevalkit
from snellen.easi.external.import_run import HarnessAnswers
from snellen.easi.external.outcome import DrivenHarness, HarnessFiles
from snellen.easi.external.settings import BenchmarkJob, HarnessOutcome, HarnessSettings, jobs
from snellen.easi.external.vlmevalkit import JudgeEvidence, evidence
from snellen.engine import fingerprint
from snellen.engine.run_folder import RunFolder
from snellen.errors import DataError, InterruptedRunError, PreflightError, StorageError, UsageError
from snellen.formats.base import Problems
from snellen.models import processes
from snellen.redaction import redact
from snellen.runs.run import load_run
from snellen.text import pretty_json, slug

GRACE_S = 20.0
LONGEST = 64 << 10
_BREAK = re.compile(rb"[\r\n]")


class CommandEnd(Struct, frozen=True):
    """The end of a command: exit status (128 plus the signal number if killed), and whether it timed out."""

    status: int
    timed_out: bool = False


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return this process's environment with changes, and register its keys for redaction."""
    merged = {**os.environ, **changes}
    redaction.register_environment(merged)
    return merged


def run(
    argv: Sequence[str], env: Mapping[str, str], log: Path, *, limit_s: float | None, tell: Tell | None
) -> CommandEnd:
    """Run a command to its end. An exception meanwhile, such as Ctrl-C, ends the whole process group.

    Args:
        argv, env: the command and its whole environment.
        log: what it says is added to this file, keys struck out.
        limit_s: seconds after which it is ended.
        tell: also gets each line; None: nobody does.

    Raises:
        PreflightError: it cannot be started.
    """
    try:
        started = processes.start(argv, env, subprocess.PIPE)
    except OSError as error:
        raise PreflightError(f"{argv[0]} cannot be started: {error.strerror}", "Check the path.") from error
    process = started.process
    failed: list[OSError] = []
    copier = threading.Thread(target=_copy, args=(process.stdout, log, tell, failed), daemon=True)
    copier.start()
    timed_out = False
    try:
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            timed_out = True
    finally:
        processes.end(started, GRACE_S)
        copier.join(GRACE_S)
    if failed:
        raise StorageError(f"cannot write {log}: {failed[0].strerror}", "Make room, or choose another output folder.")
    status = process.returncode
    return CommandEnd(128 - status if status < 0 else status, timed_out)


def _copy(source: IO[bytes] | None, log: Path, tell: Tell | None, failed: list[OSError]) -> None:
    """Copy output lines to the log; a log that cannot be written does not stop the command."""
    if source is None:
        return
    with source, contextlib.ExitStack() as stack:
        try:
            target: IO[bytes] | None = stack.enter_context(log.open("ab"))
        except OSError as error:
            failed.append(error)
            target = None
        buffer = b""
        while True:
            chunk = os.read(source.fileno(), LONGEST)
            buffer += chunk
            last = max(buffer.rfind(b"\n"), buffer.rfind(b"\r")) + 1
            if not chunk or (not last and len(buffer) > LONGEST):
                last = len(buffer)
            complete, buffer = redaction.redact_bytes(buffer[:last]), buffer[last:]
            try:
                if target is not None and complete:
                    target.write(complete)
                    target.flush()
            except OSError as error:
                failed.append(error)
                target = None
            if tell is not None:
                for line in filter(None, _BREAK.split(complete)):
                    tell(line.decode("utf-8", "replace"))
            if not chunk:
                return


BACKENDS: Mapping[str, ModuleType] = {lmms_eval.NAME: lmms_eval, vlmevalkit.NAME: vlmevalkit}
UNREAD = "invalid"
COMMAND = "command.json"
Tell = Callable[[str], None]


def run_backend(
    name: str,
    settings: HarnessSettings,
    benchmarks: Sequence[str],
    *,
    tell: Tell = lambda line: None,
    log: Path | None = None,
) -> dict[str, HarnessOutcome]:
    """Run benchmarks with a harness and import its results. Complete ones are not repeated.

    Args:
        name: `lmms-eval` or `vlmevalkit`.
        benchmarks: our names, or EASI's keys.
        tell: gets a line about each step, and with `verbose` what the harness says.
        log: all that it says; None: <out>/<harness>-<model>/<harness>.log.

    Returns:
        HarnessOutcome by benchmark, in EASI's order. A benchmark that failed does not stop the others.

    Raises:
        UsageError, JudgeError: settings that make no sense; nothing was started.
        MissingExtraError: the harness is not installed; the hint says how to.
        InterruptedRunError: Ctrl-C; the harness and all that stems from it are ended.
    """
    backend = checked_backend(name, settings)
    if settings.nproc < 1 or (settings.time_limit_s is not None and settings.time_limit_s <= 0):
        raise UsageError("--nproc and the time limit must be above 0")
    wanted = jobs(benchmarks, name)
    root = folder_of(name, settings)
    harness = DrivenHarness(
        name, backend.version(settings), backend.PROFILE, settings, root, log or root / f"{name}.log"
    )
    driver = _Driver(harness, tell)
    root.mkdir(parents=True, exist_ok=True)
    done: dict[str, HarnessOutcome] = {}
    pending: list[BenchmarkJob] = []
    for job in wanted:
        before = None if settings.rerun else outcome.before(harness, job)
        if before is None:
            pending.append(job)
        else:
            done[job.name] = before
            tell(f"{job.name}: complete, {before.rows:,} replies")
    try:
        for job in wanted if settings.judge_model else ():
            if job.name in done and done[job.name].judge != settings.judge_model:
                done[job.name] = driver.run_judge(job, done[job.name])
        made = driver.run_lmms_eval(pending) if name == lmms_eval.NAME else driver.run_vlmevalkit(pending)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped; {name} and all its processes are ended", "Run the same command again to resume."
        ) from None
    return {job.name: (done | made)[job.name] for job in wanted}


def checked_backend(name: str, settings: HarnessSettings) -> ModuleType:
    """Return the module of a harness. Raises UsageError or JudgeError for settings that it cannot run with."""
    if name not in BACKENDS:
        raise UsageError(f"unknown backend {name!r}", f"Backends: native, {', '.join(BACKENDS)}.")
    BACKENDS[name].check(settings)
    return BACKENDS[name]


def folder_of(name: str, settings: HarnessSettings) -> Path:
    """Return the folder of a harness's runs with one model: <out>/<harness>-<model>."""
    model = lmms_eval.model_folder(settings) if name == lmms_eval.NAME else settings.model.strip("/").split("/")[-1]
    return settings.out / f"{name}-{slug(model) or 'model'}"


class _Driver:
    """The state of one call of `run_backend`."""

    def __init__(self, harness: DrivenHarness, tell: Tell) -> None:
        self.harness, self.settings, self.tell = harness, harness.settings, tell
        self.root, self.log = harness.root, harness.log

    def run_command(
        self, argv: list[str], env: Mapping[str, str], work: Path, identity: Mapping[str, Any]
    ) -> tuple[CommandEnd, float]:
        """Run one command; command.json in its folder records it before the start and after the end."""
        work.mkdir(parents=True, exist_ok=True)
        beside = RunFolder(work)
        note: dict[str, Any] = {
            "fingerprint": fingerprint.digest(identity),
            "identity": identity,
            "argv": [redact(part) for part in argv],
            "state": "running",
        }
        beside.write(work / COMMAND, pretty_json(note))
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {redact(' '.join(argv))}\n")
        self.tell(redact(" ".join(argv)))
        begun = time.monotonic()
        ended = run(
            argv,
            environment(env),
            self.log,
            limit_s=self.settings.time_limit_s,
            tell=self.tell if self.settings.verbose else None,
        )
        seconds = round(time.monotonic() - begun, 1)
        note |= {"state": "ended", "exit_status": ended.status, "timed_out": ended.timed_out, "seconds": seconds}
        beside.write(work / COMMAND, pretty_json(note))
        return ended, seconds

    def run_lmms_eval(self, pending: Sequence[BenchmarkJob]) -> dict[str, HarnessOutcome]:
        """Run one command per task, sequentially: concurrent ones wait for each other's locks."""
        made = {}
        for job in pending:
            made[job.name] = self._run_task(job)
            self.tell(outcome.line(made[job.name]))
        return made

    def _run_task(self, job: BenchmarkJob) -> HarnessOutcome:
        identity, problems = outcome.asked(self.harness, job), Problems()
        written: dict[str, lmms_eval.LmmsEvalFiles] = {}
        status, timed_out, seconds, start = 0, False, 0.0, _size(self.log)
        for part, task in job.parts:
            work = _fresh(self.root / lmms_eval.NAME / task / fingerprint.digest(identity))
            argv = lmms_eval.command(self.settings, task, work)
            ended, took = self.run_command(argv, lmms_eval.ENVIRONMENT, work, identity)
            seconds += took
            status, timed_out = status or ended.status, timed_out or ended.timed_out
            try:
                written[part] = lmms_eval.written(work, self.settings, task, problems)
            except DataError as error:
                problems.add(str(work), error.message)
        answers = [HarnessAnswers(part, path, "lmms") for part, files in written.items() for path in files.samples]
        expected = {part: files.original for part, files in written.items()}
        errors = _faults(self.log, start, ()).get("", [])
        base = self._failed(job, CommandEnd(status, timed_out), seconds, errors)
        result_files = HarnessFiles(answers, answers, expected, lambda: compare.of_lmms(job, written, problems))
        return outcome.made(self.harness, job, base, result_files, problems)

    def _failed(
        self, job: BenchmarkJob, ended: CommandEnd, seconds: float, errors: Iterable[outcome.LoggedError]
    ) -> HarnessOutcome:
        """Return the outcome of a benchmark whose command wrote nothing."""
        return HarnessOutcome(
            benchmark=job.name,
            state="failed",
            exit_status=ended.status,
            timed_out=ended.timed_out,
            seconds=seconds,
            log=self.log,
            profile=self.harness.profile,
            errors=(*_ends(ended, self.settings), *map(str, errors)),
        )

    def run_vlmevalkit(self, pending: Sequence[BenchmarkJob]) -> dict[str, HarnessOutcome]:
        """Run one command for all data sets, then one for each benchmark to be judged."""
        if not pending:
            return {}
        shared, work = self.vlmevalkit_folder(pending[0])
        if self.settings.rerun:
            import_run.aside(work)
        data = [name for job in pending for _, name in job.parts]
        start = _size(self.log)
        argv = vlmevalkit.command(self.settings, data, work)
        ended, seconds = self.run_command(
            argv, vlmevalkit.environment(self.settings), work, {"harness": shared, "data": data}
        )
        errors = _faults(self.log, start, data)
        made = {}
        for job in pending:
            made[job.name] = self._collect(job, work, ended, seconds, errors)
            self.tell(outcome.line(made[job.name]))
        return made

    def vlmevalkit_folder(self, job: BenchmarkJob) -> tuple[dict[str, Any], Path]:
        """Return the identity shared by the commands of all benchmarks, and the folder named after it."""
        shared = {key: value for key, value in outcome.asked(self.harness, job)["harness"].items() if key != "tasks"}
        return shared, self.root / vlmevalkit.NAME / fingerprint.digest(shared)

    def _collect(
        self,
        job: BenchmarkJob,
        work: Path,
        ended: CommandEnd,
        seconds: float,
        errors: Mapping[str, list[outcome.LoggedError]],
    ) -> HarnessOutcome:
        problems = Problems()
        written: dict[str, vlmevalkit.VLMEvalKitFiles] = {}
        for part, data in job.parts:
            try:
                written[part] = vlmevalkit.written(work, self.settings, data)
            except DataError as error:
                problems.add(str(work), error.message)
        answers = [
            HarnessAnswers(part, path, "kit")
            for part, files in written.items()
            if (path := files.answers or files.scored)
        ]
        expected = {part: vlmevalkit.questions(self.settings, data) for part, data in job.parts}
        own = [fault for _, data in job.parts for fault in errors.get(data, [])]
        base = self._failed(job, ended, seconds, own or errors.get("", []))
        scored = [
            HarnessAnswers(part, files.scored, "kit") for part, files in written.items() if files.scored is not None
        ]
        made = outcome.made(
            self.harness,
            job,
            base,
            HarnessFiles(answers, scored, expected, lambda: compare.of_kit(job, written, problems)),
            problems,
        )
        return self.run_judge(job, made)

    def run_judge(self, job: BenchmarkJob, made: HarnessOutcome) -> HarnessOutcome:
        """Run the judge on a benchmark with too many unparseable replies; on both halves of SITE."""
        if not self.settings.judge_model or made.folder is None:
            return made
        run = load_run(made.folder)
        unread = run.metric(UNREAD, self.harness.profile).value or 0.0
        share = f"{unread:.1%} of the replies could not be read by rules"
        plain = structs.replace(made, judge="", judged=None, verdicts=0)
        if unread <= self.settings.threshold:
            within = f"{share}, and a judge is called above {self.settings.threshold:.1%}"
            return structs.replace(plain, for_judge=0, not_judged=within)
        _, work = self.vlmevalkit_folder(job)
        start, status, seconds, problems = _size(self.log), 0, 0.0, Problems()
        written: dict[str, vlmevalkit.VLMEvalKitFiles] = {}
        theirs: HarnessMetrics | None = None
        pieces: list[JudgeEvidence] = []
        for part, data in job.parts:
            argv = vlmevalkit.command(self.settings, [data], work, self.settings.judge_model)
            identity = {**outcome.asked(self.harness, job), "judge": self.settings.judge_model}
            before, begun = vlmevalkit.stamps(work), _size(self.log)
            ended, took = self.run_command(argv, vlmevalkit.environment(self.settings), work, identity)
            status, seconds = status or ended.status, seconds + took
            try:
                written[part] = vlmevalkit.written(work, self.settings, data, before)
                pieces.append(evidence(written[part].judged, outcome.lines_of(self.log, begun)))
                theirs = None if status else compare.of_kit(job, written, problems, judged=True)
            except DataError as error:
                problems.add(data, error.message)
                pieces.append(JudgeEvidence(reason=f"{data}: {error.message}"))
        total = sum(pieces, JudgeEvidence())
        figure = None if theirs is None else theirs.overall
        reason = total.reason
        if status:
            reason = f"the judge run ended with exit status {status}"
        elif not reason and figure is None:
            reason = "the judge run wrote no score"
        failed = [str(error) for errors in _faults(self.log, start, ()).values() for error in errors]
        judged = structs.replace(
            plain,
            judged=None if reason else figure,
            judge="" if reason else self.settings.judge_model,
            verdicts=0 if reason else total.verdicts,
            for_judge=total.replies,
            not_judged=f"{share}, and {self.settings.judge_model} judged none: {reason}" if reason else "",
            notes=(*plain.notes, *problems.lines("of its files with problems")),
            errors=(*plain.errors, *failed) if reason else plain.errors,
            seconds=plain.seconds + seconds,
        )
        outcome.remember(run, judged)
        return judged


def _fresh(folder: Path) -> Path:
    """Return an unused attempt folder, 1, 2 ..., in the folder of a fingerprint."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(attempt.name) for attempt in folder.iterdir() if attempt.name.isdecimal()]
    return folder / str(max(numbers, default=0) + 1)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _faults(log: Path, start: int, names: Sequence[str]) -> dict[str, list[outcome.LoggedError]]:
    """Return the errors logged since the log was `start` bytes long."""
    return outcome.faults(outcome.lines_of(log, start), names)


def _ends(ended: CommandEnd, settings: HarnessSettings) -> list[str]:
    if ended.timed_out:
        return [f"time limit: ended after {settings.time_limit_s:g} s"]
    if ended.status == 137:
        return ["killed: by SIGKILL, which is often the kernel's when memory is used up"]
    return [f"exit status {ended.status}"] if ended.status else []
