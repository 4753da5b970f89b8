"""Services echo the key in ids, names, states, errors and headers of uploads and batches: no form of it is on the disk or in an error."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

from redaction.test_canary import CANARY, leaks
from servers.echoing import FORMS
from servers.loopback import JsonHandler, LoopbackServer
from snellen.engine.retry import Backoff
from snellen.engine.run_folder import RunFolder
from snellen.errors import SnellenError
from snellen.models.api.services import OVERRIDES_VARIABLE
from snellen.runs.perform import perform
from snellen.runs.settings import run_spec

MODEL = "echoing"
PATHS = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta"}
ECHOED = ("as it is", "upper case", "backwards", "one tag", "line breaks")
SMALL = "".join(f"[{name}]\nimage_inline_bytes = 100\n" for name in ("openai-responses", "anthropic", "gemini"))


class EchoingProvider(LoopbackServer):
    """Echoes a form of the key.

    Args:
        form: of the key.
        refuses: every call but those about models gets status 400.
        uploads: False: uploads get a usual id, so that the run comes to its batches.
    """

    def __init__(self, form: str, *, refuses: bool, uploads: bool) -> None:
        super().__init__(type("Handler", (EchoingHandler,), {"provider": self}))
        self.form, self.refuses, self.uploads = form, refuses, uploads
        self.calls: list[str] = []


class EchoingHandler(JsonHandler):
    provider: EchoingProvider

    def do_GET(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self._reply()

    def _reply(self) -> None:
        self.read()
        status, reply = self._content()
        self.provider.calls.append(f"{self.command} {self.path.partition('?')[0]}")
        header = "".join(char for char in self.provider.form if " " <= char <= "~")
        headers = dict.fromkeys(("request-id", "x-request-id", "x-goog-request-id"), header)
        if "upload_id" not in self.path:
            target = (
                f"http://localhost:1/{header}"
                if self.provider.refuses and self.provider.uploads
                else self.provider.origin
            )
            headers["X-Goog-Upload-URL"] = f"{target}/upload/v1beta/files?upload_id=1"
        self.send(status, reply, **headers)

    def _content(self) -> tuple[int, Any]:
        form, path = self.provider.form, self.path.lower()
        if "/models" in path and self.command == "GET":
            return 200, {"data": [{"id": MODEL}], "id": MODEL, "name": f"models/{MODEL}"}
        taken = "upload" in path or ("/files" in path and not self.provider.uploads)
        if self.provider.refuses and not taken:
            return 400, {"error": {"message": f"File {form} is bad", "code": form, "type": form}}
        if "/files" in path:
            name = form if self.provider.uploads else "file-1"
            uri = f"{self.provider.origin}/v1beta/files/{name}"
            file = {
                "id": name,
                "name": f"files/{name}",
                "uri": uri,
                "filename": form,
                "expires_at": form,
                "state": "ACTIVE",
            }
            return 200, {"file": file} if "upload" in path else file
        if "batch" in path:
            facts = {"name": f"batches/{form}", "state": form, "displayName": form}
            errors = {"data": [{"message": form, "line": 1}]}
            batch = {"id": form, "name": f"batches/{form}", "status": form, "processing_status": form, "metadata": facts,
                     "output_file_id": form, "errors": errors, "error": {"message": form}}  # fmt: skip
            return 200, {"data": [batch], "operations": [batch], **batch}
        text = f"7 {form}"
        return 200, {
            "id": form, "model": form, "status": "completed", "stop_reason": "end_turn", "role": "assistant",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}],
            "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 3, "output_tokens": 4, form: form},
            "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}],
            "modelVersion": form, "responseId": form,
        }  # fmt: skip


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Write two questions, each about a picture above the inline limit of these tests."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = []
    for number in range(2):
        noise = np.random.default_rng(number).integers(0, 255, (20, 20, 3), dtype=np.uint8)
        out = BytesIO()
        Pillow.fromarray(noise).save(out, "PNG")
        (folder / f"{number}.png").write_bytes(out.getvalue())
        rows.append({"image": f"{number}.png", "question": f"Which, {number}?", "A": "x", "B": "y", "answer": "A"})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "rows.jsonl"


@pytest.mark.parametrize("uploads", [True, False], ids=["uploads", "batches"])
@pytest.mark.parametrize("refuses", [False, True], ids=["ids", "errors"])
@pytest.mark.parametrize("service", PATHS)
def test_a_key_in_ids_names_and_errors_of_uploads_and_batches_is_nowhere(
    service, refuses, uploads, questions, tmp_path, monkeypatch, capfd
):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, CANARY)
    (tmp_path / "services.toml").write_text(SMALL)
    monkeypatch.setenv(OVERRIDES_VARIABLE, str(tmp_path / "services.toml"))
    calls: set[str] = set()
    backoff = Backoff(base_s=0.01, patience_s=0.2)
    for number, form in enumerate(ECHOED):
        for batch in (True, False) if uploads else (True,):
            out = tmp_path / f"run-{number}-{batch}"
            errors = []
            with EchoingProvider(FORMS[form](CANARY), refuses=refuses, uploads=uploads) as server:
                settings: dict[str, Any] = {
                    "base_url": f"{server.origin}{PATHS[service]}",
                    "patience_s": 0.2,
                    "batch": batch,
                }
                settings |= {"poll_s": 0.02, "max_attempts": 1, "cache": None if batch else str(tmp_path / "cache")}
                spec = run_spec(str(questions), f"{service}:{MODEL}", settings)
                try:
                    perform(spec, RunFolder(out), trust=True, backoff=backoff)
                except SnellenError as error:
                    errors.append(f"{error} {error.hint}")
                calls.update(server.calls)
            captured = capfd.readouterr()
            assert not leaks(" ".join([*errors, captured.out, captured.err]), CANARY), form
    assert any("files" in call for call in calls)
    assert uploads or any("batch" in call.lower() for call in calls)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".png"]
    assert {"batches.jsonl", "run_meta.json"} <= {path.name for path in files}
    for path in files:
        assert not leaks(path.read_bytes().decode("utf-8", "surrogateescape"), CANARY), path
        assert not leaks(path.name, CANARY)
