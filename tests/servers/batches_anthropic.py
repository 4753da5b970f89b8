"""Anthropic's part of the batch server: message batches and their results."""

from __future__ import annotations

import json
import time
from typing import Any

from servers.batches import KEY, MODEL, Batch, BatchServer, iso, question_of, reply_to

_REQUIRED = {"model", "max_tokens", "messages"}
_KNOWN = _REQUIRED | {"system", "temperature", "top_p", "stop_sequences", "thinking", "output_config"}


def serve(server: BatchServer, http: Any, method: str, path: str, query: dict[str, str], body: bytes) -> bool:
    """Answer one call; return False for an address of another protocol."""
    native = http.headers.get("anthropic-version") is not None
    if not native:
        return False
    if http.headers.get("Authorization") != f"Bearer {KEY}" or http.headers.get("x-api-key"):
        _error(http, 401, "authentication_error", "invalid x-api-key")
        return True
    server.check(http.headers["anthropic-version"] == "2026-10-21", f"version {http.headers['anthropic-version']}")
    base = "/v1/messages/batches"
    if method == "GET" and path == f"/v1/models/{MODEL}":
        http.reply(200, {"id": MODEL, "type": "model"})
    elif method == "GET" and path == "/v1/models":
        http.reply(200, {"data": [{"id": MODEL, "type": "model"}], "has_more": False})
    elif method == "POST" and path == "/v1/messages":
        server.calls["direct"] += 1
        _error(http, 400, "invalid_request_error", "max_tokens: Field required")
    elif method == "POST" and path == base:
        if not http.refused("create"):
            _create(server, http, body)
    elif method == "GET" and path == base:
        if not http.refused("list"):
            _list(server, http, query)
    elif path.startswith(f"{base}/"):
        name, _, action = path.removeprefix(f"{base}/").partition("/")
        batch = server.batches.get(name)
        if batch is None:
            _error(http, 404, "not_found_error", f"no batch {name}")
        elif method == "POST" and action == "cancel":
            server.calls["cancel"] += 1
            batch.cancelled = True
            http.reply(200, _object(server, batch))
        elif action == "results":
            if not http.refused("download"):
                _results(server, http, batch)
        elif not http.refused("status"):
            http.reply(200, _object(server, batch))
    else:
        return False
    return True


def _error(http: Any, status: int, kind: str, message: str) -> None:
    http.reply(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})


def _create(server: BatchServer, http: Any, body: bytes) -> None:
    fields = json.loads(body)
    server.check(set(fields) == {"requests"}, f"fields of create {sorted(fields)}")
    if len(fields["requests"]) > server.plan.most_rows:
        words = f"requests: a batch may have at most {server.plan.most_rows} requests"
        _error(http, 400, "invalid_request_error", words)
        return
    rows = []
    for number, row in enumerate(fields["requests"], 1):
        server.check(set(row) == {"custom_id", "params"}, f"request {number} has {sorted(row)}")
        params = row["params"]
        server.check(_REQUIRED <= set(params) <= _KNOWN, f"request {number}: params {sorted(params)}")
        server.check(params.get("model") == MODEL, f"request {number}: model {params.get('model')}")
        for message in params["messages"]:
            server.check(message["role"] in ("user", "assistant"), f"request {number}: role {message['role']}")
            for part in message["content"] if isinstance(message["content"], list) else []:
                server.check(part["type"] in ("text", "image"), f"request {number}: part {part['type']}")
        server.check_body("messages", params)
        rows.append({"id": row["custom_id"], "question": question_of(params), "body": params})
    with server.lock:
        batch = Batch(f"msgbatch_{len(server.batches) + 1}", rows, time.time())
        server.made(batch)
    http.created(batch, _object(server, batch))


def _object(server: BatchServer, batch: Batch) -> dict[str, Any]:
    state, outcomes = server.progress(batch)
    kinds = {"ok": "succeeded", "lost": "succeeded", "expired": "expired", "cancelled": "canceled"}
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if state == "ended":
        for outcome in outcomes:
            counts[kinds.get(outcome, "errored")] += 1
    else:
        counts["processing"] = len(batch.rows)
    words = "ended" if state == "ended" else "canceling" if batch.cancelled else "in_progress"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": words,
        "request_counts": counts,
        "created_at": iso(batch.created),
        "expires_at": iso(batch.created + 86_400),
        "ended_at": iso(batch.ended_at) if state == "ended" else None,
        "archived_at": None,
        "cancel_initiated_at": iso(batch.created) if batch.cancelled else None,
        "results_url": "https://elsewhere.invalid/results" if state == "ended" else None,
    }


def _list(server: BatchServer, http: Any, query: dict[str, str]) -> None:
    server.check(1 <= int(query.get("limit", "20")) <= 1000, f"limit {query.get('limit')}")
    batches = [*reversed(server.batches.values())]
    ids = [batch.id for batch in batches]
    start = ids.index(query["after_id"]) + 1 if query.get("after_id") in ids else 0
    page = batches[start : start + 3]
    data = [_object(server, batch) for batch in page]
    more = start + len(page) < len(batches)
    last = data[-1]["id"] if data else None
    http.reply(200, {"data": data, "has_more": more, "first_id": data[0]["id"] if data else None, "last_id": last})


def _results(server: BatchServer, http: Any, batch: Batch) -> None:
    state, _ = server.progress(batch)
    if state != "ended":
        _error(http, 404, "not_found_error", "the batch has no results yet")
        return
    lines = list(server.plan.extra_lines)
    for row, outcome in server.shuffled(batch):
        if outcome == "lost":
            continue
        result: dict[str, Any] = {"type": "succeeded", "message": reply_to(server, "messages", row)}
        if outcome in ("error500", "error400"):
            kind = "api_error" if outcome == "error500" else "invalid_request_error"
            words = "Internal server error" if outcome == "error500" else "Invalid image."
            result = {"type": "errored", "error": {"type": "error", "error": {"type": kind, "message": words}}}
        elif outcome == "nofile" and server.uploads is not None:
            error = {"type": "not_found_error", "message": server.uploads.lost_reply(row["missing"])[1]}
            result = {"type": "errored", "error": {"type": "error", "error": error}}
        elif outcome != "ok":
            result = {"type": "expired" if outcome == "expired" else "canceled"}
        lines.append(json.dumps({"custom_id": row["id"], "result": result}).encode())
    http.reply(200, b"\n".join(lines) + b"\n")
