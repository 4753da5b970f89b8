"""Gemini's part of the batch server: batches with rows inline or in a file, the Files API, downloads."""

from __future__ import annotations

import json
import time
from typing import Any

from servers.batches import KEY, MODEL, Batch, BatchServer, iso, question_of, reply_to

_REQUEST = {"contents", "systemInstruction", "generationConfig", "safetySettings"}


def serve(server: BatchServer, http: Any, method: str, path: str, query: dict[str, str], body: bytes) -> bool:
    """Answer one call; return False for an address of another protocol."""
    if "/v1beta/" not in path:
        return False
    if http.headers.get("x-goog-api-key") != KEY:
        http.reply(403, {"error": {"code": 403, "message": "API key not valid", "status": "PERMISSION_DENIED"}})
        return True
    server.check("Authorization" not in http.headers, "a key in two headers")
    server.check("key" not in query, "a key in the address")
    rest = path.removeprefix("/v1beta")
    if method == "GET" and rest == f"/models/{MODEL}":
        http.reply(200, {"name": f"models/{MODEL}"})
    elif method == "GET" and rest == "/models":
        http.reply(200, {"models": [{"name": f"models/{MODEL}"}]})
    elif method == "POST" and rest == f"/models/{MODEL}:generateContent":
        server.calls["direct"] += 1
        http.reply(400, {"error": {"code": 400, "message": "contents is not specified", "status": "INVALID_ARGUMENT"}})
    elif method == "POST" and rest == f"/models/{MODEL}:batchGenerateContent":
        if not http.refused("create"):
            _create(server, http, body)
    elif method == "POST" and path == "/upload/v1beta/files":
        if "upload_id" in query:
            _upload(server, http, query["upload_id"], body)
        elif not http.refused("upload"):
            _announce(server, http, body)
    elif method == "GET" and rest == "/batches":
        if not http.refused("list"):
            _list(server, http, query)
    elif rest.startswith("/batches/"):
        name, _, action = rest.removeprefix("/").partition(":")
        batch = server.batches.get(name)
        if batch is None:
            http.reply(404, {"error": {"code": 404, "message": "no batch", "status": "NOT_FOUND"}})
        elif method == "POST" and action == "cancel":
            server.calls["cancel"] += 1
            batch.cancelled = True
            http.reply(200, {})
        elif not http.refused("status"):
            http.reply(200, _operation(server, batch))
    elif method == "GET" and path.startswith("/download/v1beta/files/") and path.endswith(":download"):
        server.check(query == {"alt": "media"}, f"query of a download {query}")
        if not http.refused("download"):
            name = path.removeprefix("/download/v1beta/files/out-").removesuffix(":download")
            batch = server.batches[f"batches/{name}"]
            lines = [*server.plan.extra_lines, *(json.dumps(row).encode() for row in _rows(server, batch))]
            http.reply(200, b"\n".join(lines) + b"\n")
    else:
        return False
    return True


def _announce(server: BatchServer, http: Any, body: bytes) -> None:
    headers = http.headers
    server.check(headers.get("X-Goog-Upload-Protocol") == "resumable", "upload protocol")
    server.check(headers.get("X-Goog-Upload-Command") == "start", "upload command")
    server.check(headers.get("X-Goog-Upload-Header-Content-Type") == "application/jsonl", "content type of the file")
    server.check(bool(json.loads(body)["file"]["displayName"]), "displayName of the file")
    with server.lock:
        number = len(server.files) + 1
        server.files[f"files/in{number}"] = b""
    address = (
        f"{server.origin}/upload/v1beta/files?upload_id={number}&size={headers['X-Goog-Upload-Header-Content-Length']}"
    )
    http.reply(200, {}, {"X-Goog-Upload-URL": address})


def _upload(server: BatchServer, http: Any, number: str, body: bytes) -> None:
    server.check(http.headers.get("X-Goog-Upload-Command") == "upload, finalize", "upload command")
    server.check(http.headers.get("X-Goog-Upload-Offset") == "0", "upload offset")
    server.check(f"size={len(body)}" in http.path, "announced size")
    server.files[f"files/in{number}"] = body
    http.reply(200, {"file": {"name": f"files/in{number}", "uri": f"{server.origin}/v1beta/files/in{number}"}})


def _create(server: BatchServer, http: Any, body: bytes) -> None:
    fields = json.loads(body)
    server.check(set(fields) == {"batch"}, f"fields of create {sorted(fields)}")
    batch_fields = fields["batch"]
    server.check(set(batch_fields) == {"displayName", "inputConfig"}, f"fields of batch {sorted(batch_fields)}")
    source = batch_fields["inputConfig"]
    server.check(len(source) == 1, f"inputConfig {sorted(source)}")
    inline = "requests" in source
    if inline:
        server.check(len(body) < 20_000_000, "inline rows of 20 MB")
        given = [(row["metadata"]["key"], row["request"]) for row in source["requests"]["requests"]]
        server.calls["inline"] += 1
        server.check(
            all(set(row) == {"request", "metadata"} for row in source["requests"]["requests"]), "fields of inline rows"
        )
    else:
        lines = [json.loads(line) for line in server.files[source["fileName"]].splitlines()]
        server.check(all(set(line) == {"key", "request"} for line in lines), "fields of lines")
        given = [(line["key"], line["request"]) for line in lines]
    if len(given) > server.plan.most_rows:
        words = f"The batch has {len(given)} requests, more than the maximum of {server.plan.most_rows} requests"
        http.reply(400, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}})
        return
    rows = []
    for key, request in given:
        server.check({"contents"} <= set(request) <= _REQUEST, f"fields of a request {sorted(request)}")
        server.check_body("gemini", request)
        rows.append({"id": key, "question": question_of(request), "body": request})
    with server.lock:
        batch = Batch(f"batches/b{len(server.batches) + 1}", rows, time.time(), label=batch_fields["displayName"])
        batch.inline = inline
        server.made(batch)
    http.created(batch, _operation(server, batch))


def _operation(server: BatchServer, batch: Batch) -> dict[str, Any]:
    state, outcomes = server.progress(batch)
    words = "BATCH_STATE_PENDING" if state == "validating" else "BATCH_STATE_RUNNING"
    operation: dict[str, Any] = {"name": batch.id, "done": state == "ended"}
    if state == "ended":
        words = "BATCH_STATE_SUCCEEDED"
        if batch.cancelled:
            words = "BATCH_STATE_CANCELLED"
        elif "expired" in outcomes:
            words = "BATCH_STATE_EXPIRED"
        if batch.inline:
            rows = _rows(server, batch, inline=True)
            operation["response"] = {"inlinedResponses": {"inlinedResponses": rows}}
        else:
            operation["response"] = {"responsesFile": f"files/out-{batch.id.removeprefix('batches/')}"}
    good = sum(outcome in ("ok", "lost") for outcome in outcomes)
    operation["metadata"] = {
        "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
        "model": f"models/{MODEL}",
        "displayName": batch.label,
        "name": batch.id,
        "state": words,
        "createTime": iso(batch.created),
        "batchStats": {
            "requestCount": str(len(batch.rows)),
            "successfulRequestCount": str(good),
            "failedRequestCount": str(len(outcomes) - good),
        },
    }
    return operation


def _list(server: BatchServer, http: Any, query: dict[str, str]) -> None:
    server.check(1 <= int(query.get("pageSize", "10")) <= 100, f"pageSize {query.get('pageSize')}")
    batches = list(server.batches.values())
    start = int(query.get("pageToken", "0"))
    page: dict[str, Any] = {"operations": [_operation(server, batch) for batch in batches[start : start + 3]]}
    if start + 3 < len(batches):
        page["nextPageToken"] = str(start + 3)
    http.reply(200, page)


def _rows(server: BatchServer, batch: Batch, *, inline: bool = False) -> list[dict[str, Any]]:
    bare = inline and server.plan.bare_inline
    pairs = list(zip(batch.rows, batch.outcomes or [], strict=True)) if bare else server.shuffled(batch)
    rows = []
    for row, outcome in pairs:
        if outcome == "lost" and not bare:
            continue
        line: dict[str, Any] = {"response": reply_to(server, "gemini", row)}
        if outcome == "error500":
            line = {"error": {"code": 13, "message": "Internal error"}}
        elif outcome == "error400":
            line = {"error": {"code": 3, "message": "Invalid image."}}
        elif outcome == "nofile" and server.uploads is not None:
            line = {"error": {"code": 7, "message": server.uploads.lost_reply(row["missing"])[1]}}
        elif outcome == "lost":
            line = {}
        elif outcome != "ok":
            line = {"error": {"code": 4, "message": "The batch ended before this request was processed."}}
        if inline:
            rows.append(line if bare else {**line, "metadata": {"key": row["id"]}})
        else:
            rows.append({"key": row["id"], **line})
    return rows
