"""Redaction of keys and gold answers in everything that is written or printed.

`redact` (keys, in `keys`) and `strike` (gold answers, in `gold`) are the only two functions that do so. Each module says
in which forms. `arguments` finds keys where none may stand. The writers that call `redact`:

- the terminal: `cli.console`, under stdout and stderr of every command
- a server's reply, before it is read: `models.api.transport`; quotes of it: `models.api.errors`
- results.jsonl: `engine.retry`; run_meta.json, summary.json, failures.jsonl and command.json: `engine.run_folder`
- traces: `engine.traces`; sessions of agents: `models.agents.model`; an agent's error output: `models.agents.process`
- results of tools: `models.tools.mcp_server`, `models.tools.command`; their record: `models.tools.definitions`
- raw inputs and outputs of judges: `runs.judge.benchmark`
- report pages and failure pages: `reports.render`, `reports.failures.pages`; annotators' notes: `runs.failures.review`
- notes and corrections of reviewers: `runs.reviews.decisions`
- files for CI: `reports.ci_pages`
- Inspect logs: `formats.inspect_log`
- logs: `easi.log_file`, `easi.external.run`, `models.serve.supervise`
- files of other harnesses: `easi.external.import_run`; submissions and their replies: `easi.submit`

The writers that call `strike` for a restricted benchmark, unless the user asks for the gold answers:

- raw inputs and outputs, results.jsonl and errors of judges: `runs.judge.benchmark`, `runs.failures.benchmark`
- reasons of scores: `runs.scoring`; counts of errors: `engine.request_errors`
- report pages and the table `scores` of queries: `runs.answer_view`
- failure pages and failures.jsonl: `reports.failures.pages`, `runs.failures.labels`
- redacted runs and exports without gold, which hold no text that quotes one: `runs.redact`
- ids and metadata of FIKA-Bench's samples, which are written everywhere: `benchmarks.fika.samples`
"""

from __future__ import annotations

from snellen.redaction.keys import (
    REDACTED,
    forget,
    redact,
    redact_bytes,
    redact_lines,
    register,
    register_environment,
    register_proxies,
)

__all__ = [
    "REDACTED",
    "forget",
    "redact",
    "redact_bytes",
    "redact_lines",
    "register",
    "register_environment",
    "register_proxies",
]
