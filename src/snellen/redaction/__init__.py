"""Redaction of keys and gold answers in everything that is written or printed.

`redact` (keys, in `keys`) and `strike` (gold answers, in `gold`) are the only two functions that do so. Each module says
in which forms. `arguments` finds keys where none may stand. The writers that call `redact`:

- the terminal: `cli.output`, under stdout and stderr of every command
- a server's reply, before anything is read from it: `models.api.transport`; what is quoted of it: `models.api.faults`
- results.jsonl: `engine.retry`; run_meta.json, summary.json, failures.jsonl and command.json: `engine.folder`
- traces: `engine.traces`; sessions of agents: `models.agents.model`; an agent's error output: `models.agents.process`
- results of tools: `models.tools.server`, `models.tools.call`; their record: `models.tools.record`
- raw inputs and outputs of judges: `engine.judge`
- report pages and failure pages: `report.page`, `failures.pages`; people's notes: `failures.review`
- logs: `pipeline.journal`, `backends.process`, `models.serving.supervise`; files of other harnesses: `backends.keeping`
- submissions and their replies: `submitting`

The writers that call `strike` for a restricted benchmark, unless the user asks for the gold answers:

- raw inputs and outputs, results.jsonl and errors of judges: `engine.judge`, `engine.labelling`; reasons: `engine.rescore`
- report pages and the table `scores` of queries: `report.view`; counts of errors: `engine.request_errors`; failure pages and failures.jsonl: `failures`
- redacted runs, which hold no text that quotes one: `redacting`
- ids and metadata of FIKA-Bench's samples, which are written everywhere: `benchmarks.fika.samples`
"""

from __future__ import annotations

from snellen.redaction.keys import (
    REDACTED,
    forget,
    redact,
    redact_bytes,
    register,
    register_environment,
    register_proxies,
)

__all__ = ["REDACTED", "forget", "redact", "redact_bytes", "register", "register_environment", "register_proxies"]
