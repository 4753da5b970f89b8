"""Driving a harness: what is left to do, one command after the other, and an outcome for each benchmark.

A command's fingerprint stands beside its results in command.json, and each fingerprint has folders of its own: files of other
settings, or of an earlier attempt that ended badly, are never taken for its results.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import structs

from snellen.backends import faults, figures, keeping, kit, lmms, process
from snellen.backends.keeping import Answers, Read
from snellen.backends.process import Ended
from snellen.backends.settings import Job, Outcome, Settings, jobs, no_keys
from snellen.benchmarks.spatial.aggregated import Theirs
from snellen.engine import fingerprint
from snellen.engine.folder import RunFolder
from snellen.errors import DataError, InterruptedRunError, RunError, UsageError
from snellen.evaluation import Run, load_run
from snellen.interop.answers import Problems
from snellen.secrets import redact

BACKENDS: Mapping[str, ModuleType] = {lmms.NAME: lmms, kit.NAME: kit}
UNREAD = "invalid"
COMMAND = "command.json"
Tell = Callable[[str], None]


def run_backend(
    name: str,
    settings: Settings,
    benchmarks: Sequence[str],
    *,
    tell: Tell = lambda line: None,
    log: Path | None = None,
) -> dict[str, Outcome]:
    """Have a harness ask benchmarks, and read what it writes. What was complete before is not asked again.

    Args:
        name: `lmms-eval` or `vlmevalkit`.
        settings: how it is driven.
        benchmarks: our names, or EASI's keys.
        tell: gets a line about each step, and with `verbose` what the harness says.
        log: all that it says; None: <out>/<harness>-<model>/<harness>.log.

    Returns:
        Outcome by benchmark, in EASI's order. A benchmark that failed does not stop the others.

    Raises:
        UsageError, JudgeError: settings that make no sense; nothing was started.
        MissingExtraError: the harness is not installed; the hint says how to.
        InterruptedRunError: Ctrl-C; the harness and all that stems from it are ended.
    """
    if name not in BACKENDS:
        raise UsageError(f"there is no backend {name!r}", f"There are native, {', '.join(BACKENDS)}.")
    if settings.nproc < 1 or (settings.time_limit_s is not None and settings.time_limit_s <= 0):
        raise UsageError("--nproc and the time limit must be above 0")
    no_keys((settings.model, settings.model_args, *settings.extra))
    backend = BACKENDS[name]
    backend.check(settings)
    wanted = jobs(benchmarks, name)
    root = folder_of(name, settings)
    driver = _Driver(name, settings, backend.version(settings), root, log or root / f"{name}.log", tell)
    root.mkdir(parents=True, exist_ok=True)
    done: dict[str, Outcome] = {}
    pending: list[Job] = []
    for job in wanted:
        before = None if settings.rerun else driver.complete(job)
        if before is None:
            pending.append(job)
        else:
            done[job.name] = before
            tell(f"{job.name}: complete, {before.rows:,} replies")
    try:
        for job in wanted if settings.judge_model else ():
            if job.name in done and done[job.name].judge != settings.judge_model:
                done[job.name] = driver.judged(job, done[job.name])
        made = driver.lmms(pending) if name == lmms.NAME else driver.kit(pending)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"stopped; {name} and all its processes are ended", "Run the same command again to go on."
        ) from None
    return {job.name: (done | made)[job.name] for job in wanted}


def folder_of(name: str, settings: Settings) -> Path:
    """The folder of a harness's runs with one model: <out>/<harness>-<model>."""
    model = lmms.model_folder(settings) if name == lmms.NAME else settings.model.strip("/").split("/")[-1]
    return settings.out / f"{name}-{re.sub(r'[^A-Za-z0-9._-]+', '-', model).strip('-.') or 'model'}"


class _Driver:
    """One call of `run_backend`."""

    def __init__(self, name: str, settings: Settings, version: str, root: Path, log: Path, tell: Tell) -> None:
        self.name, self.settings, self.version = name, settings, version
        self.root, self.log, self.tell = root, log, tell
        self.profile = str(BACKENDS[name].PROFILE)
        self.model = lmms.model_folder(settings).replace("__", "/") if name == lmms.NAME else settings.model

    def asked(self, job: Job) -> dict[str, Any]:
        """What a benchmark's fingerprint is made of; how many processes share the work is not part of it."""
        told = {"model": self.settings.model, "model_args": self.settings.model_args, "extra": self.settings.extra}
        return keeping.identity(job, self.name, self.version, msgspec.to_builtins(told))

    def folder(self, job: Job) -> RunFolder:
        return RunFolder(self.root / job.name.replace("/", "-"))

    def complete(self, job: Job) -> Outcome | None:
        """The outcome of a benchmark that was complete before under the same fingerprint; None: it is to be asked."""
        folder = self.folder(job)
        if not folder.exists():
            return None
        meta = folder.meta()
        if meta.fingerprint != fingerprint.digest(self.asked(job)) or meta.state != "complete":
            return None
        recorded = sum(record.status == "ok" for record in folder.records())
        saved = meta.environment.get("outcome")
        if recorded != meta.totals.ok or not isinstance(saved, dict):
            return None
        try:
            found = msgspec.convert({**saved, "folder": str(folder.path), "reused": True}, Outcome, dec_hook=_path)
        except msgspec.ValidationError as error:
            raise RunError(f"{folder.meta_path}: {error}", "Start anew with --rerun.") from error
        return structs.replace(found, exit_status=None, seconds=0.0)

    def start(
        self, argv: list[str], env: Mapping[str, str], work: Path, what: Mapping[str, Any]
    ) -> tuple[Ended, float]:
        """Run one command; command.json in its folder says what it was before it begins, and how it ended after."""
        work.mkdir(parents=True, exist_ok=True)
        beside = RunFolder(work)
        note: dict[str, Any] = {
            "fingerprint": fingerprint.digest(what),
            "identity": what,
            "argv": [redact(part) for part in argv],
            "state": "running",
        }
        beside.write(work / COMMAND, msgspec.json.format(msgspec.json.encode(note)))
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ {redact(' '.join(argv))}\n")
        self.tell(redact(" ".join(argv)))
        begun = time.monotonic()
        ended = process.run(
            argv,
            process.environment(env),
            self.log,
            limit_s=self.settings.time_limit_s,
            tell=self.tell if self.settings.verbose else None,
        )
        seconds = round(time.monotonic() - begun, 1)
        note |= {"state": "ended", "exit_status": ended.status, "timed_out": ended.timed_out, "seconds": seconds}
        beside.write(work / COMMAND, msgspec.json.format(msgspec.json.encode(note)))
        return ended, seconds

    def lmms(self, pending: Sequence[Job]) -> dict[str, Outcome]:
        """One command a task, one after the other: several of them at once wait for each other's locks for ever."""
        made = {}
        for job in pending:
            made[job.name] = self._lmms(job)
            self.tell(line(made[job.name]))
        return made

    def _lmms(self, job: Job) -> Outcome:
        what, problems = self.asked(job), Problems()
        written: dict[str, lmms.Written] = {}
        status, timed_out, seconds, start = 0, False, 0.0, _size(self.log)
        for part, task in job.parts:
            work = _fresh(self.root / lmms.NAME / task / fingerprint.digest(what))
            argv = lmms.command(self.settings, task, work)
            ended, took = self.start(argv, lmms.ENVIRONMENT, work, what)
            seconds += took
            status, timed_out = status or ended.status, timed_out or ended.timed_out
            try:
                written[part] = lmms.written(work, self.settings, task, problems)
            except DataError as error:
                problems.add(str(work), error.message)
        answers = [Answers(part, path, "lmms") for part, one in written.items() for path in one.samples]
        expected = {part: one.original for part, one in written.items()}
        said = _faults(self.log, start, ()).get("", [])
        base = Outcome(
            benchmark=job.name,
            state="failed",
            exit_status=status,
            seconds=seconds,
            log=self.log,
            profile=self.profile,
            errors=(*_ends(status, timed_out, self.settings), *map(str, said)),
        )
        return self._kept(job, what, base, answers, expected, problems, lambda: figures.of_lmms(job, written, problems))

    def kit(self, pending: Sequence[Job]) -> dict[str, Outcome]:
        """One command for all data sets; then one for each benchmark that is to be judged."""
        if not pending:
            return {}
        shared, work = self.kit_work(pending[0])
        if self.settings.rerun:
            keeping.aside(work)
        data = [name for job in pending for _, name in job.parts]
        start = _size(self.log)
        argv = kit.command(self.settings, data, work)
        ended, seconds = self.start(argv, kit.environment(self.settings), work, {"harness": shared, "data": data})
        found = _faults(self.log, start, data)
        made = {}
        for job in pending:
            made[job.name] = self._kit(job, work, ended, seconds, found)
            self.tell(line(made[job.name]))
        return made

    def kit_work(self, job: Job) -> tuple[dict[str, Any], Path]:
        """What the commands of all benchmarks share, and the folder of the kit's files that is named for it."""
        shared = {key: value for key, value in self.asked(job)["harness"].items() if key != "tasks"}
        return shared, self.root / kit.NAME / fingerprint.digest(shared)

    def _kit(
        self, job: Job, work: Path, ended: Ended, seconds: float, found: Mapping[str, list[faults.Fault]]
    ) -> Outcome:
        what, problems = self.asked(job), Problems()
        written: dict[str, kit.Written] = {}
        for part, data in job.parts:
            try:
                written[part] = kit.written(work, self.settings, data)
            except DataError as error:
                problems.add(str(work), error.message)
        answers = [Answers(part, path, "kit") for part, one in written.items() if (path := one.answers or one.scored)]
        expected = {part: kit.questions(self.settings, data) for part, data in job.parts}
        own = [fault for _, data in job.parts for fault in found.get(data, [])]
        base = Outcome(
            benchmark=job.name,
            state="failed",
            exit_status=ended.status,
            seconds=seconds,
            log=self.log,
            profile=self.profile,
            errors=(*_ends(ended.status, ended.timed_out, self.settings), *map(str, own or found.get("", []))),
        )
        made = self._kept(job, what, base, answers, expected, problems, lambda: figures.of_kit(job, written, problems))
        return self.judged(job, made)

    def judged(self, job: Job, made: Outcome) -> Outcome:
        """The judge run of a benchmark of which too many replies could not be read; both halves of SITE, if it is SITE."""
        if not self.settings.judge_model or made.folder is None:
            return made
        run = load_run(made.folder)
        unread = run.metric(UNREAD, self.profile).value or 0.0
        share = f"{unread:.1%} of the replies could not be read by rules"
        if unread <= self.settings.threshold:
            return structs.replace(made, notes=tuple(dict.fromkeys((*made.notes, f"{share}: not judged"))))
        _, work = self.kit_work(job)
        start, status, seconds, problems = _size(self.log), 0, 0.0, Problems()
        written: dict[str, kit.Written] = {}
        for part, data in job.parts:
            argv = kit.command(self.settings, [data], work, self.settings.judge_model)
            what = {**self.asked(job), "judge": self.settings.judge_model}
            ended, took = self.start(argv, kit.environment(self.settings), work, what)
            status, seconds = status or ended.status, seconds + took
            written[part] = kit.written(work, self.settings, data)
        theirs = None if status else figures.of_kit(job, written, problems, judged=True)
        figure = None if theirs is None else theirs.overall
        failed = [str(one) for some in _faults(self.log, start, ()).values() for one in some]
        end = f"{share}: judged by {self.settings.judge_model}"
        note = end if figure is not None else f"{end}, and no figure came of it"
        told = structs.replace(
            made,
            judged=figure,
            judge=self.settings.judge_model if figure is not None else "",
            notes=(*made.notes, note),
            errors=(*made.errors, *failed) if figure is None else made.errors,
            seconds=made.seconds + seconds,
        )
        _remember(run, told)
        return told

    def _kept(
        self,
        job: Job,
        what: Mapping[str, Any],
        base: Outcome,
        answers: list[Answers],
        expected: Mapping[str, int | None],
        problems: Problems,
        figured: Callable[[], Theirs | None],
    ) -> Outcome:
        """The outcome of a benchmark's files: our run of them, and their figure beside ours."""
        folder = self.folder(job)
        said: tuple[str, ...] = ()
        what_was = folder.meta().fingerprint if folder.exists() else None
        if what_was is not None and (self.settings.rerun or what_was != fingerprint.digest(what)):
            said = (f"an earlier run of it now lies in {keeping.aside(folder.path)}",)
        well = base.exit_status == 0 and "time limit" not in " ".join(base.errors[:1])
        about = {"seconds": base.seconds, "harness": {"name": self.name, "version": self.version, "log": str(self.log)}}
        model = f"{self.name}:{self.model}"
        expected = self._whole(job, expected)
        try:
            read = keeping.keep(
                folder,
                job,
                answers,
                what,
                expected=expected,
                model=model,
                about=about,
                ended_well=well,
                problems=problems,
            )
            theirs = figured() if read.ok else None
        except DataError as error:
            return structs.replace(base, errors=(*base.errors, f"results: {error.message}"))
        if not read.ok or not folder.exists():
            lost = () if base.errors else ("no answers were written, and the log does not say why",)
            if read.lost:
                lost = (f"none of {read.lost:,} requests was answered; the first: {read.why}",)
            return structs.replace(base, errors=(*base.errors, *lost), notes=(*said, *problems.lines("are odd")))
        run = load_run(folder.path)
        ours, lines = figures.differences(run, job, theirs, self._scored(job, answers), self.profile)
        made = structs.replace(
            base,
            state="complete" if self._is_whole(job, read, expected, run.meta.state) else "partial",
            folder=folder.path,
            rows=read.total,
            expected=None if None in expected.values() else sum(one or 0 for one in expected.values()),
            lost=read.lost,
            empty=read.empty,
            theirs=None if theirs is None else theirs.overall,
            ours=ours,
            differences=tuple(lines),
            notes=(*said, *self._notes(job, read, expected), *problems.lines("of its files are odd")),
        )
        if made.complete:
            made = structs.replace(made, errors=())  # what was tried again and went well is in the log
        if run.meta.state == "complete" and made.state != "complete":
            run.meta = structs.replace(run.meta, state="partial")
        _remember(run, made)
        return made

    def _whole(self, job: Job, expected: Mapping[str, int | None]) -> dict[str, int | None]:
        """How many questions each part has: as the harness's data says, else as the benchmark is known to have."""
        found = {part: expected.get(part) for part, _ in job.parts}
        known = job.task.rows[0] if job.task.rows else None
        silent = [part for part, count in found.items() if count is None]
        if known is not None and len(silent) == 1 and not job.name.startswith("site/"):
            found[silent[0]] = max(1, known - sum(count or 0 for count in found.values()))
        return found

    def _is_whole(self, job: Job, read: Read, expected: Mapping[str, int | None], state: str) -> bool:
        if state != "complete" or not all(read.rows.values()):
            return False
        if None in expected.values() and job.task.rows and "/" not in job.name and read.total not in job.task.rows:
            return False
        return self.name != kit.NAME or not read.empty

    def _notes(self, job: Job, read: Read, expected: Mapping[str, int | None]) -> list[str]:
        notes = []
        for part, name in job.parts:
            count, of = read.rows.get(part, 0), expected.get(part)
            if of is None:
                notes.append(f"{name}: {count:,} replies; nobody says how many questions there are")
            elif count != of:
                notes.append(f"{name}: {count:,} replies to {of:,} questions")
        whole = [count for count in job.task.rows if count]
        if whole and not job.name.startswith("site/") and None not in expected.values():
            of = sum(count or 0 for count in expected.values())
            if of not in whole:
                notes.append(f"its data has {of:,} questions; the whole set has {' or '.join(f'{n:,}' for n in whole)}")
        if read.lost:
            notes.append(f"{read.lost:,} rows hold no reply and count as wrong; the first: {read.why}")
        if read.empty and self.name == kit.NAME:
            notes.append(
                f"{read.empty:,} predictions are empty: no answer, or a reply without text; its files do not say"
            )
        elif read.empty:
            notes.append(f"{read.empty:,} replies are empty; lmms-eval writes such for requests that failed too")
        return notes

    def _scored(self, job: Job, answers: Sequence[Answers]) -> list[Answers]:
        """The files that say what each row was given: lmms-eval's answers themselves, the kit's beside them."""
        if self.name == lmms.NAME:
            return list(answers)
        found = []
        for one in answers:
            data = dict(job.parts)[one.part]
            beside = kit.written(self._work(one.path), self.settings, data).scored
            if beside is not None:
                found.append(Answers(one.part, beside, "kit"))
        return found

    def _work(self, path: Path) -> Path:
        """The work folder that a file of the kit's lies in."""
        return next(parent for parent in path.parents if (parent / COMMAND).is_file())


def line(outcome: Outcome) -> str:
    """An outcome in one line."""
    of = "" if outcome.expected is None else f" of {outcome.expected:,}"
    parts = [f"{outcome.benchmark}: {outcome.state}", f"{outcome.rows:,}{of} replies"]
    if outcome.theirs is not None and outcome.ours is not None:
        parts.append(f"theirs {outcome.theirs:.4f}, ours {outcome.ours:.4f}, difference {outcome.difference:+.4f}")
    if outcome.judged is not None:
        parts.append(f"judged by {outcome.judge} {outcome.judged:.4f}")
    return ", ".join([*parts, *outcome.errors[:1]])


def _remember(run: Run, outcome: Outcome) -> None:
    """Write an outcome into its run_meta.json, where the next call finds it."""
    environment = {**run.meta.environment, "outcome": msgspec.to_builtins(outcome, enc_hook=str)}
    run.folder.write_meta(structs.replace(run.meta, environment=environment))


def _path(kind: type, value: object) -> Path:
    """A path out of run_meta.json, where it is a text."""
    if issubclass(kind, Path):
        return Path(str(value))
    raise TypeError(f"{kind.__name__} cannot be read from run_meta.json")


def _fresh(folder: Path) -> Path:
    """A folder that no attempt has written to yet: 1, 2 ... in the folder of a fingerprint."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [int(one.name) for one in folder.iterdir() if one.name.isdecimal()]
    return folder / str(max(numbers, default=0) + 1)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _faults(log: Path, start: int, names: Sequence[str]) -> dict[str, list[faults.Fault]]:
    """What the log says went wrong since it was `start` bytes long."""
    return faults.faults(faults.lines_of(log, start), names)


def _ends(status: int, timed_out: bool, settings: Settings) -> list[str]:
    if timed_out:
        return [f"time limit: ended after {settings.time_limit_s:g} s"]
    if status == 137:
        return ["killed: by SIGKILL, which is often the kernel's when memory is used up"]
    return [f"exit status {status}"] if status else []
