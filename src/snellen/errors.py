"""Errors that a user can meet: the cause, the place, and a hint what to do.

`exit_code` is the process's exit status; docs/errors.md lists them all and a test keeps it complete.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Self

from snellen import exit_signals
from snellen.types import Response, Status

RAISE_OPEN_FILES = "ulimit -n 4096 in this shell, before the command"


def open_files_limit() -> int | None:
    """Return the number of files that this process may have open; None where there is no limit, or none is known."""
    try:
        import resource  # not there on Windows
    except ImportError:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def open_files_advice(error: BaseException | None) -> str:
    """Return what to do where an error, or one that led to it, says that no further file can be opened; else ""."""
    for _ in range(16):  # a chain of errors may be a ring
        if error is None:
            return ""
        if isinstance(error, OSError) and error.errno == errno.EMFILE:
            most = open_files_limit()
            return f"This process may have {most or 0:,} files open. Raise that ({RAISE_OPEN_FILES}), or lower --concurrency."
        if isinstance(error, OSError) and error.errno == errno.ENFILE:
            return "All programs of this machine together have too many files open. Close some, or lower --concurrency."
        error = error.__cause__ or error.__context__
    return ""


class SampleNote(str):
    """A note on an exception of a plug-in's: which sample it is about. Messages show it behind file and line."""

    __slots__ = ()


class SnellenError(Exception):
    """Base of all errors that Snellen raises on purpose. `hint` is the line that says what to do.

    `correction` is (the word typed, the word meant), where a name is near one that there is: the command line shows the whole
    command with it.
    """

    exit_code = 1
    correction: tuple[str, str] | None = None

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self._hint = hint

    @property
    def hint(self) -> str:
        """Return the line that says what to do; where the machine opens no further file, that stands in place of it."""
        return open_files_advice(self) or self._hint

    @hint.setter
    def hint(self, text: str) -> None:
        self._hint = text

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def near(self, typed: str, known: Iterable[str], form: str = "{}") -> Self:
        """Set `correction` to the known name that is nearest to the one that was typed, where one is near.

        Args:
            typed: the name.
            known: the names that there are.
            form: the word of the command line that the name stands in.
        """
        from difflib import get_close_matches

        names = {name.lower(): name for name in known}
        close = get_close_matches(typed.lower(), names, n=1, cutoff=0.7)
        if close:
            self.correction = (form.format(typed), form.format(names[close[0]]))
        return self


class UsageError(SnellenError):
    """An option or a name is wrong: unknown benchmark, model kind or profile, options that exclude each other."""

    exit_code = 2


class NothingAnsweredError(UsageError):
    """A run was passed that has not a single answer, so that nothing can be compared or checked."""

    exit_code = 9


class DifferentSamplesError(UsageError):
    """Runs that are compared did not answer the same samples: another benchmark, version, data, option or seed."""

    exit_code = 12


class MissingExtraError(SnellenError):
    """An optional dependency is not installed; the hint names the extra that brings it."""

    exit_code = 3


class DataError(SnellenError):
    """A source is missing, or a row of it is not what was expected; the message names file and line."""

    exit_code = 3


class PluginError(SnellenError):
    """A benchmark, a model or a hook of the user's own raised an exception; the message names it, file and line."""

    exit_code = 3


class UnsafeArchiveError(DataError):
    """An archive member would leave its root, is a link, or unpacks to more than the limits allow."""


class MediaError(DataError):
    """An image or a video cannot be decoded, or is larger than the limits allow."""


class PreflightError(SnellenError):
    """The run was not started: bad key, unknown model, dead endpoint, missing file, too little disk space."""

    exit_code = 4


class AgentInstallError(SnellenError):
    """An agent could not be installed, or what is installed is not what was; the message holds npm's last words."""

    exit_code = 3


class RunError(SnellenError):
    """Something is wrong with a run folder: no run there, a file of it damaged beyond repair."""

    exit_code = 5


class RedactedCopyError(RunError):
    """The folder is a redacted copy of a run (`snellen report --redact`), which has no record that can be read again."""


class FingerprintError(RunError):
    """The run in the folder was made with other settings; the message lists every difference.

    `changed` has the names of the settings that differ.
    """

    def __init__(self, message: str, hint: str = "", changed: Iterable[str] = ()) -> None:
        super().__init__(message, hint)
        self.changed = tuple(changed)


class UntrustedRunError(RunError):
    """A run folder, which may come from another user, names code, data or an endpoint that needs the user's word."""


class RunLockedError(RunError):
    """Another process is writing to the run."""


class RunChangedError(RunError):
    """Something else deleted, replaced, cut or changed a file of the run while the run was writing to it."""


class StorageError(RunError):
    """The disk is full or the folder cannot be written. The journal is intact up to the last whole record."""

    exit_code = 6


class OutputError(SnellenError):
    """Standard output cannot be written: it is closed, or the disk it leads to is full. What was recorded is intact."""

    exit_code = 6


class BudgetError(SnellenError):
    """A budget (`--max-cost`, `--max-tokens-total`) is used up. The run is intact and can go on with a larger one."""

    exit_code = 7


class JudgeError(SnellenError):
    """A judge cannot be used: none is named, there is no key for it, or no such rubric. Nothing was asked."""

    exit_code = 4


WAITED = " (still failing after"
"""What stands behind a model's error that patience did not outlast, before the seconds."""

BROKEN_OFF = "The service broke the answer off"
"""Beginning of the error of a reply that ended without an answer, for a reason that may pass."""


class ModelError(SnellenError):
    """A model gave no answer to one prompt. The engine records it under `kind` and the run goes on.

    `status` is the record's status; `retry` says whether asking again can help; `retry_after_s` is what the server
    asked for, in seconds. `unavailable` says that the server did not take the request, so that it uses up no attempt;
    None: only where the server answered nothing else meanwhile. `limits` says that it did so because of its load.
    """

    kind = "model"
    status: Status = "error"
    retry = False
    unavailable: bool | None = False
    limits = False

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        retry_after_s: float | None = None,
        unavailable: bool | None = False,
        limits: bool = False,
    ) -> None:
        super().__init__(message, hint)
        self.retry_after_s = retry_after_s
        if unavailable is not False:
            self.unavailable = unavailable
        if limits:
            self.limits = limits
        self.trace: object = None  # how far it came, where a model knows: kept in traces/ like that of an answer
        # A refusal's tokens, its provider's id and what it cost; `text` is empty, since no answer may be read from it.
        self.response: Response | None = None


class RateLimitError(ModelError):
    """The server answered 429; it is asked again more slowly, and after the wait that it asks for."""

    kind = "rate_limit"
    retry = True
    unavailable = True
    limits = True


class ServerError(ModelError):
    """The server answered 5xx."""

    kind = "server"
    retry = True


class NetworkError(ModelError):
    """The connection was refused, reset, or closed before the reply was whole."""

    kind = "connection"
    retry = True


class ModelTimeoutError(ModelError):
    """No whole reply within the per-request timeout."""

    kind = "timeout"
    status: Status = "timeout"
    retry = True


class BadReplyError(ModelError):
    """The reply is not what the protocol says: not JSON, no choices, no message, or larger than the limit."""

    kind = "bad_reply"
    retry = True


class BadRequestError(ModelError):
    """The server answered 4xx: the request itself is not accepted (context length, image size, parameters)."""

    kind = "bad_request"


class AuthError(ModelError):
    """The server answered 401 or 403: the key is missing, wrong, or not allowed to use this model."""

    kind = "auth"


class KeyRefusedError(AuthError):
    """The server answered 401: the key is missing, wrong or revoked, for all samples alike, and the run ends early."""


class NoCreditError(AuthError):
    """The account has no credit left, or its quota is used up: waiting does not help, and the run ends early."""


class RefusalError(ModelError):
    """The model or a content filter declined to answer. Recorded as `refused`; it is an outcome, not a fault."""

    kind = "refusal"
    status: Status = "refused"


class BatchExpiredError(ModelError):
    """A batch ended without an answer to this row: its time was up, or its results lack the row."""

    kind = "batch_expired"
    retry = True


class BatchCancelledError(ModelError):
    """A batch was cancelled before this row was answered."""

    kind = "batch_cancelled"


class OutOfMemoryError(ModelError):
    """One prompt alone does not fit into the accelerator's memory."""

    kind = "out_of_memory"


class InputError(ModelError):
    """The prompt could not be built: an image is missing, damaged or over the limits."""

    kind = "input"


class NoAnswerError(ModelError):
    """A replayed file holds no answer for this sample."""

    kind = "no_answer"


class WorkerLostError(ModelError):
    """Workers were lost again and again over one prompt, the last while it worked on nothing else."""

    kind = "worker_lost"


class AgentTimeoutError(ModelError):
    """An agent had not answered when its time was up; it was ended with all its processes."""

    kind = "agent_timeout"
    status: Status = "timeout"


class AgentAbortedError(ModelError):
    """An agent ended before its answer: it did not start, its model failed, or it broke off by itself."""

    kind = "agent_aborted"


class AgentRecordError(ModelError):
    """An agent put something else in the place of its own record, so that its answer cannot be read."""

    kind = "agent_record"


class AgentLoopError(ModelError):
    """An agent called one tool with the same arguments again and again, and was ended."""

    kind = "agent_loop"


class AgentNoAnswerError(ModelError):
    """An agent came to its end and said nothing."""

    kind = "agent_no_answer"


class AgentLimitError(ModelError):
    """An agent hit a limit of its sandbox and was ended; its kind names the limit: `agent_limit_memory`, for example."""

    kind = "agent_limit"

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.kind = f"agent_limit_{limit}"


class TooManyFailuresError(SnellenError):
    """So many samples in a row failed that going further would only cost time; resuming repeats all of them."""

    exit_code = 8


class WorkersGoneError(SnellenError):
    """No worker of a scaled-out run is left, and none could be started. What was answered is recorded."""

    exit_code = 8


class BatchError(SnellenError):
    """A service refused a batch, or a batch was cancelled meanwhile. What was answered is recorded; the run can go on."""

    exit_code = 8


class SubmissionError(SnellenError):
    """A leaderboard did not take a submission, or it was not sent because the results are not whole."""

    exit_code = 10


class InterruptedRunError(SnellenError):
    """The run was stopped by Ctrl-C or a signal (SIGTERM: 143). What was answered is recorded; the run can go on."""

    exit_code = 130

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.exit_code = exit_signals.exit_status()
