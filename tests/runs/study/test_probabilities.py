"""Runs with `--logprobs`: from the server's reply to records, scores, the report and the refusals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import snellen
from servers.loopback import ChatHandler, LoopbackServer
from snellen.errors import UsageError
from snellen.types import Generation


class Server(LoopbackServer):
    """Says A, with the probabilities that are asked for; `bodies` holds the requests."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        server = self

        class Handler(ChatHandler):
            models = ("m",)

            def chat(self, body: dict[str, Any]) -> None:
                server.bodies.append(body)
                if not body.get("logprobs"):
                    self.send_completion("A")
                    return
                pairs = [("A", 0.6), (" A", 0.1), ("B", 0.2)][: body["top_logprobs"]]
                alternatives = [{"token": name, "logprob": math.log(value)} for name, value in pairs]
                self.send_completion("A", logprobs={"content": [{**alternatives[0], "top_logprobs": alternatives}]})

        super().__init__(Handler)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


def asked(server: Server, table: Path, out: Path, logprobs: int | None) -> snellen.Run:
    return snellen.evaluate(
        str(table),
        "api:m",
        base_url=server.url,
        generation=Generation(logprobs=logprobs),
        out=out,
    )


def test_scores_and_report_have_calibration_where_probabilities_are_given(server: Server, tested: Path, tmp_path: Path):
    run = asked(server, tested, tmp_path / "run", 3)
    questions = [body for body in server.bodies if "What is this" in str(body)]
    assert {(body["logprobs"], body["top_logprobs"]) for body in questions} == {(True, 3)}
    record = next(run.folder.records())
    assert record.response is not None
    assert record.response.logprobs is not None
    assert len(record.response.logprobs[0].alternatives) == 3
    metrics = {metric.name: metric for metric in run.summarize().metrics["strict"]}
    confidence = 0.7 / 0.9
    assert metrics["calibration/confidence"].value == pytest.approx(confidence, abs=1e-4)
    assert metrics["calibration/ece"].value == pytest.approx(confidence - 0.5, abs=1e-4)
    brier = ((1 - confidence) ** 2 + confidence**2) / 2
    assert metrics["calibration/brier"].value == pytest.approx(brier, abs=1e-4)
    assert metrics["calibration/seen_share"].value == pytest.approx(0.9, abs=1e-4)
    saved = msgspec.json.decode((tmp_path / "run" / "summary.json").read_bytes())
    assert [row["n"] for row in saved["profiles"][0]["reliability"]] == [6]
    page = snellen.report([run], tmp_path / "page.html").read_text()
    assert "Accuracy by confidence of 6 answers" in page
    with snellen.query("SELECT name FROM metrics WHERE name LIKE 'calibration/%'", [tmp_path / "run"]) as result:
        assert len(list(result.rows)) == 4


def test_a_run_without_probabilities_has_no_calibration(server: Server, tested: Path, tmp_path: Path):
    plain = asked(server, tested, tmp_path / "plain", None)
    assert "calibration" not in (tmp_path / "plain" / "summary.json").read_text()
    assert "logprobs" not in (tmp_path / "plain" / "results.jsonl").read_text()
    other = asked(server, tested, tmp_path / "other", 3)
    assert plain.meta.fingerprint != other.meta.fingerprint


@pytest.mark.parametrize(
    ("model", "reason"),
    [("embedded", "text alone"), ("local:./tiny", "such as vLLM's"), ("agent:openclaw", "several replies")],
)
def test_models_without_probabilities_are_refused(tested: Path, tmp_path: Path, model: str, reason: str):
    settings = {"agent_model": "p/m", "base_url": "http://127.0.0.1:9/v1"} if model.startswith("agent") else {}
    with pytest.raises(UsageError, match=reason):
        snellen.evaluate(str(tested), model, generation=Generation(logprobs=5), out=tmp_path / "run", **settings)
