"""A run in which every request failed has no score; its commonest error and what to do stand in its place."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from servers.loopback import JsonHandler, LoopbackServer
from snellen.benchmarks import registry
from snellen.cli import main
from snellen.engine.request_errors import RequestErrors, advice, request_errors
from snellen.engine.run_folder import RunFolder
from snellen.runs.run import load_run
from snellen.types import Failure, Record

ERRORS = {
    404: ("Not Found", "/v1"),
    400: ("At most 0 image(s) may be provided in one request: the model has no vision", "vision"),
    401: ("Incorrect API key provided", "key"),
    402: ("You exceeded your current quota", "quota"),
    422: ("temperature is not allowed", "refuses the request"),
}


@pytest.fixture
def server():
    """A chat endpoint that answers `replies` times and refuses all else with a status and a message."""
    state = {"status": 404, "message": "Not Found", "replies": 0}

    class Handler(JsonHandler):
        def do_POST(self):
            if self.read() == b"{}":  # what is sent before the run, to see that the endpoint is there
                return self.send(400, {"error": {"message": "messages is missing"}})
            state["replies"] -= 1
            if state["replies"] < 0:
                return self.send(state["status"], {"error": {"message": state["message"]}})
            return self.send(200, {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], "usage": {}})

        def do_GET(self):
            self.send(200, {"data": [{"id": "m"}]})

    with LoopbackServer(Handler) as running:
        state["url"] = running.url
        yield state


@pytest.fixture
def snellen(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    def call(*words):
        capsys.readouterr()
        status = main([str(word) for word in words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def ask(snellen, server, *words, limit=8):
    options = ("--base-url", server["url"], "--limit", limit, "--max-attempts", "1", "--out", "r", "-c", "1")
    return snellen("run", "chart/digits", "-m", "api:m", *options, *words)


@pytest.mark.parametrize("status", ERRORS)
def test_a_run_without_an_answer_prints_no_score_and_the_commonest_error_with_what_to_do(snellen, server, status):
    server["status"], (server["message"], hint) = status, ERRORS[status]
    code, out, err = ask(snellen, server)
    assert code != 0
    assert "0.000" not in out and "┃" not in out
    if status in (400, 401, 402):  # no vision, no key, no credit: the run stops after the third sample
        plain_image = status == 400  # it is sent before a model is said to take none
        assert "stopped: the " in err and server["replies"] == -3 - plain_image
        assert hint in err and f"HTTP {status}" in err and out == ""
    else:
        assert "no score: none of 8 samples was answered; 8 × " in out
        assert f"HTTP {status}" in out and hint in out
    code, out, err = snellen("score", "r")
    assert "0.0000" not in out and f"HTTP {status}" in out + err and hint in out + err


def test_json_has_null_for_what_was_not_answered_and_the_failures(snellen, server):
    code, out, _ = ask(snellen, server, "--json")
    (run,) = json.loads(out)["runs"]
    assert code != 0
    assert run["failures"]["answered"] == 0 and run["failures"]["failed"] == 8
    (error,) = run["failures"]["errors"]
    assert (error["kind"], error["count"]) == ("bad_request", 8) and "/v1" in error["hint"]
    values = {metric["name"]: metric["value"] for metric in run["profiles"][0]["metrics"]}
    assert values["accuracy"] is None and all(v is None for name, v in values.items() if not name.endswith("error"))


def test_the_progress_line_has_no_score_either(snellen, server):
    _, _, err = ask(snellen, server)
    assert "score" not in err.splitlines()[-1]


def test_the_report_of_such_a_run_draws_no_eye_chart_and_names_the_error(snellen, server):
    ask(snellen, server)
    assert snellen("report", "r", "--out", "r.html")[0] == 0
    page = Path("r.html").read_text()
    assert "8 samples without an answer" in page and "8 incorrect answers" not in page and "one.." not in page
    assert "the more blurred a word" not in page and "none of 8 samples was answered" in page and "HTTP 404" in page


def test_some_failures_stand_under_the_table_with_their_commonest_text(snellen, server):
    server["replies"] = 6
    code, out, _ = ask(snellen, server)
    assert code == 9 and "┃" in out
    assert "2 of 8 samples have no answer and count as wrong; 2 × bad_request: HTTP 404: Not Found" in out
    assert load_run("r").metric("accuracy").value is not None
    assert snellen("report", "r", "--out", "r.html")[0] == 0
    page = Path("r.html").read_text()
    assert "2 × bad_request: HTTP 404" in page
    assert re.search(r"\b[1-6] incorrect answers?, 2 without an answer\b", page)


def test_samples_with_other_errors_are_counted_and_not_the_texts_of_these(tmp_path):
    folder = RunFolder(tmp_path)
    texts = ["bad key", "bad key", "bad key", "too large", "too large", "no such model"]
    records = [Record(f"s{n}", "error", error=Failure("bad_request", text)) for n, text in enumerate(texts)]
    folder.results.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    assert "; 3 × bad_request: bad key; 3 with other errors. " in request_errors(folder).text


def test_an_error_that_patience_did_not_outlast_is_counted_with_its_like(tmp_path):
    folder = RunFolder(tmp_path)
    texts = ["Cannot connect to [::1].", "Cannot connect to [::1]. (still failing after 6 s of --patience)"]
    records = [Record(f"s{n}", "error", error=Failure("connection", text)) for n, text in enumerate(texts)]
    folder.results.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    assert "2 × connection: Cannot connect to [::1]." in request_errors(folder).text


@pytest.mark.parametrize(
    ("benchmark", "counted"),
    [
        ("acuity", "are left out of the score"),
        ("vlm2/pc-vid", "are left out of the score"),
        ("vlm2/oc-cnt", "count as wrong, but count_score_usable leaves them out"),
        ("vlm2", "count as wrong, but count_score_usable leaves them out, as the scores of videos do"),
        ("fika", "count as wrong"),
    ],
)
def test_failures_are_said_to_enter_the_score_as_the_benchmark_has_it(benchmark, counted):
    errors = RequestErrors(2, 1, (), registry.find(benchmark).unanswered)
    assert errors.text == f"1 of 3 samples have no answer and {counted}"


def test_a_key_that_a_server_forbids_is_not_said_to_be_wrong():
    hint = advice("auth", "HTTP 403: Country, region, or territory not supported")
    assert "rights of the key" in hint and "used from here" in hint
    assert advice("auth", "HTTP 401: bad key").startswith("Check the key")


def test_a_model_that_took_other_images_is_not_said_to_take_none(snellen, server):
    server["replies"], server["status"], server["message"] = 6, 400, "Could not process image"
    _, out, _ = ask(snellen, server)
    assert "2 × bad_request: HTTP 400: Could not process image" in out
    assert "may not take images" not in out and "takes other images" in out


def test_a_run_without_an_answer_cannot_be_compared(snellen, server):
    ask(snellen, server)
    server["replies"] = 8
    options = ("--base-url", server["url"], "--limit", 8, "--out", "good")
    snellen("run", "chart/digits", "-m", "api:m", *options)
    code, _, err = snellen("compare", "good", "r")
    assert code == 9 and "none of 8 samples was answered" in err and "HTTP 404" in err


def test_a_summary_that_an_older_version_wrote_with_zeros_is_read_without_a_value(snellen, server):
    ask(snellen, server)
    path = Path("r/summary.json")
    saved = json.loads(path.read_text())
    for metric in saved["profiles"][0]["metrics"]:
        metric.update(value=0.0, n=8, ci95=[0.0, 0.3], coverage=0.1)
    path.write_text(json.dumps(saved))
    figures = load_run("r").figures("strict")["strict"]
    assert next(metric for metric in figures if metric.name == "accuracy").value is None


@pytest.mark.parametrize(
    ("kind", "message", "words"),
    [
        ("connection", "Cannot connect to http://127.0.0.1:9/v1: Connection refused", "server is up"),
        ("connection", "Cannot connect to http://nohost/v1: Name or service not known", "--base-url"),
        ("timeout", "no whole reply within 300 s", "--timeout"),
        ("rate_limit", "HTTP 429: slow down", "--concurrency"),
        ("auth", "HTTP 429: insufficient_quota: check your billing", "quota"),
        ("server", "HTTP 503: overloaded", "log"),
        ("bad_request", "HTTP 400: This model's maximum context length is 4096 tokens", "--max-long-side"),
        ("bad_request", "HTTP 400: unknown variant image_url, expected text", "vision"),
        ("bad_reply", "The reply is not JSON", "/v1"),
        ("agent_loop", "the same call again", "results.jsonl"),
    ],
)
def test_each_error_leads_to_what_to_do_about_it(kind, message, words):
    assert words in advice(kind, message)


@pytest.mark.parametrize(
    ("kind", "message"), [("bad_reply", "no candidates"), ("auth", "denied"), ("server", "HTTP 404: no")]
)
def test_advice_about_api_names_it_because_other_kinds_have_other_addresses(kind, message):
    """A model behind a provider's own protocol fails with the same kinds of errors."""
    assert "api:" in advice(kind, message)
