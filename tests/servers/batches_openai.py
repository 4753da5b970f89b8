"""OpenAI's part of the batch server: files, batches, their contents."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from servers.batches import KEY, MODEL, Batch, BatchServer, question_of, reply_to

ERRORS = {
    "error500": "The server had an error",
    "error400": "Invalid image.",
    "cancelled": "This request was cancelled.",
    "expired": "This request could not be executed before the completion window expired.",
}
_NAME = re.compile(rb'name="([^"]*)"')


def serve(server: BatchServer, http: Any, method: str, path: str, query: dict[str, str], body: bytes) -> bool:
    """Answer one call; return False for an address of another protocol."""
    azure = path.startswith("/openai/")
    if azure:
        dated = not path.startswith("/openai/v1/")
        server.check(dated == ("api-version" in query), f"api-version of {http.path}")
        path = path.removeprefix("/openai/v1" if not dated else "/openai")
        path = f"/v1{path}"
    if not path.startswith("/v1/") or path.startswith("/v1/messages"):
        return False
    rest = path.removeprefix("/v1")
    header, value = ("api-key", KEY) if azure else ("Authorization", f"Bearer {KEY}")
    server.check(not azure or "Authorization" not in http.headers, "a key in two headers")
    if http.headers.get(header) != value:
        http.reply(401, {"error": {"message": "Incorrect API key provided", "type": "invalid_request_error"}})
        return True
    if method == "GET" and rest == "/models":
        http.reply(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
    elif method == "POST" and rest.endswith(("/chat/completions", "/responses")):
        server.calls["direct"] += 1
        http.reply(400, {"error": {"message": "you must provide a model parameter"}})
    elif method == "POST" and rest == "/files":
        if not http.refused("upload"):
            _upload(server, http, body)
    elif method == "POST" and rest == "/batches":
        if not http.refused("create"):
            _create(server, http, body, ("/chat/completions",) if azure else ("/v1/chat/completions", "/v1/responses"))
    elif method == "GET" and rest == "/batches":
        if not http.refused("list"):
            _list(server, http, query)
    elif rest.startswith("/batches/"):
        name, _, action = rest.removeprefix("/batches/").partition("/")
        batch = server.batches.get(name)
        if batch is None:
            http.reply(404, {"error": {"message": f"No batch found with id '{name}'."}})
        elif method == "POST" and action == "cancel":
            server.calls["cancel"] += 1
            batch.cancelled = True
            http.reply(200, _object(server, batch))
        elif not http.refused("status"):
            http.reply(200, _object(server, batch))
    elif method == "GET" and rest.startswith("/files/") and rest.endswith("/content"):
        if not http.refused("download"):
            _content(server, http, rest.split("/")[2])
    else:
        return False
    return True


def _upload(server: BatchServer, http: Any, body: bytes) -> None:
    kind = http.headers.get("Content-Type", "")
    server.check(kind.startswith("multipart/form-data; boundary="), f"content type {kind}")
    boundary = b"--" + kind.partition("boundary=")[2].encode()
    fields: dict[str, bytes] = {}
    for part in body.split(boundary)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        match = _NAME.search(head)
        fields[match[1].decode() if match else ""] = content.removesuffix(b"\r\n")
    server.check(body.endswith(boundary + b"--\r\n"), "the form is not closed")
    server.check(fields.get("purpose") == b"batch", f"purpose {fields.get('purpose')!r}")
    server.check(set(fields) == {"purpose", "file"}, f"form fields {sorted(fields)}")
    with server.lock:
        identity = f"file-in{len(server.files) + 1}"
        server.files[identity] = fields["file"]
    http.reply(
        200, {"id": identity, "object": "file", "bytes": len(fields["file"]), "purpose": "batch", "status": "processed"}
    )


def _create(server: BatchServer, http: Any, body: bytes, endpoints: tuple[str, ...]) -> None:
    fields = json.loads(body)
    server.check(
        set(fields) == {"input_file_id", "endpoint", "completion_window", "metadata"},
        f"fields of create {sorted(fields)}",
    )
    server.check(fields.get("completion_window") == "24h", "completion_window")
    server.check(fields.get("endpoint") in endpoints, f"endpoint {fields.get('endpoint')}")
    protocol = "responses" if str(fields.get("endpoint")).endswith("/responses") else "chat"
    metadata = fields.get("metadata")
    server.check(
        isinstance(metadata, dict)
        and len(metadata) <= 16
        and all(isinstance(value, str) for value in metadata.values()),
        f"metadata {metadata}",
    )
    if server.open() >= server.plan.most_open:
        http.reply(
            429,
            {
                "error": {
                    "message": "Enqueued token limit reached for test-vlm. Please try again once some in_progress batches have been completed.",
                    "code": "token_limit_exceeded",
                }
            },
        )
        return
    content = server.files.get(fields["input_file_id"])
    if content is None:
        http.reply(400, {"error": {"message": "Invalid file id"}})
        return
    rows = []
    for number, line in enumerate(content.splitlines(), 1):
        row = json.loads(line)
        server.check(set(row) == {"custom_id", "method", "url", "body"}, f"line {number} has {sorted(row)}")
        server.check(row["method"] == "POST" and row["url"] == fields["endpoint"], f"line {number}: {row['url']}")
        server.check(row["body"].get("model") == MODEL, f"line {number}: model {row['body'].get('model')}")
        server.check("stream" not in row["body"] and "key" not in json.dumps(row["body"]).lower(), f"line {number}")
        server.check_body(protocol, row["body"])
        rows.append({"id": row["custom_id"], "question": question_of(row["body"]), "body": row["body"]})
    with server.lock:
        batch = Batch(f"batch_{len(server.batches) + 1}", rows, time.time(), input=fields["input_file_id"])
        batch.label = next(iter(metadata.values()), "") if server.plan.keep_labels else ""
        if len(rows) > server.plan.most_rows:
            batch.invalid = [(None, f"This batch exceeds the maximum of {server.plan.most_rows} requests.")]
        batch.invalid = batch.invalid or [(line, words) for line, words in server.plan.invalid_lines(rows)]
        server.made(batch)
    http.created(batch, _object(server, batch))


def _object(server: BatchServer, batch: Batch) -> dict[str, Any]:
    state, outcomes = server.progress(batch)
    words = {"failed": "failed", "validating": "validating", "running": "in_progress", "ended": "completed"}[state]
    if batch.cancelled:
        words = "cancelled" if state == "ended" else "cancelling"
    elif state == "ended" and "expired" in outcomes:
        words = "expired"
    good = sum(outcome == "ok" for outcome in outcomes)
    data: dict[str, Any] = {
        "id": batch.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "input_file_id": batch.input,
        "completion_window": "24h",
        "status": words,
        "output_file_id": None,
        "error_file_id": None,
        "created_at": int(batch.created),
        "expires_at": int(batch.created) + 86_400,
        "request_counts": {"total": len(batch.rows), "completed": good, "failed": len(outcomes) - good},
        "metadata": {"snellen_batch": batch.label} if batch.label else None,
    }
    if state == "failed":
        data["errors"] = {
            "object": "list",
            "data": [
                {"code": "invalid_request", "line": line, "message": words, "param": None}
                for line, words in batch.invalid
            ],
        }
        data["request_counts"] = None
    if state == "ended":
        data["output_file_id"] = f"file-out-{batch.id}"
        if any(outcome not in ("ok", "lost") for outcome in outcomes):
            data["error_file_id"] = f"file-err-{batch.id}"
    return data


def _list(server: BatchServer, http: Any, query: dict[str, str]) -> None:
    server.check(1 <= int(query.get("limit", "20")) <= 100, f"limit {query.get('limit')}")
    batches = [*reversed(server.batches.values())]
    ids = [batch.id for batch in batches]
    start = ids.index(query["after"]) + 1 if query.get("after") in ids else 0
    page = batches[start : start + min(int(query.get("limit", "20")), 3)]  # short pages, to be followed
    more = start + len(page) < len(batches)
    http.reply(200, {"object": "list", "data": [_object(server, batch) for batch in page], "has_more": more})


def _content(server: BatchServer, http: Any, identity: str) -> None:
    _, kind, name = identity.split("-", 2)
    batch = server.batches[name]
    lines = list(server.plan.extra_lines) if kind == "out" else []
    for row, outcome in server.shuffled(batch):
        if outcome == "lost" or (outcome == "ok") != (kind == "out"):
            continue
        line: dict[str, Any] = {"id": "batch_req_1", "custom_id": row["id"], "response": None, "error": None}
        error: dict[str, Any] = {}
        status = {"ok": 200, "error500": 500, "error400": 400}.get(outcome, 0)
        if outcome == "nofile" and server.uploads is not None:
            status, words = server.uploads.lost_reply(row["missing"])
            error = {"message": words, "type": "invalid_request_error", "code": None}
        elif outcome in ERRORS:
            error = {"message": ERRORS[outcome]}
        if status:
            protocol = "responses" if "input" in row["body"] else "chat"
            body = {"error": error} if error else reply_to(server, protocol, row)
            line["response"] = {"status_code": status, "request_id": "req_1", "body": body}
        else:
            line["error"] = {"code": f"batch_{outcome}", **error}
        lines.append(json.dumps(line).encode())
    http.reply(200, b"\n".join(lines) + b"\n")
