"""What is known before the first request is said before it: wrong options, and what a run will cost."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from snellen import evaluate
from snellen.cli import main

PRICES = "[stub-vlm]\ninput = 2.0\noutput = 8.0\n[embedded]\ninput = 2.0\noutput = 8.0\n"


class Refusing(ThreadingHTTPServer):
    """Answers every question with HTTP 400 and one text; `questions` counts them."""

    def __init__(self, text: str) -> None:
        super().__init__(("127.0.0.1", 0), Refusal)
        self.body = json.dumps({"error": {"message": text, "type": "invalid_request_error"}}).encode()
        self.questions = 0
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Refusal(BaseHTTPRequestHandler):
    server: Refusing

    def do_GET(self) -> None:
        self.reply(200, b'{"object": "list", "data": [{"id": "blind", "object": "model"}]}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.questions += body != b"{}"
        self.reply(400, self.server.body)

    def reply(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextlib.contextmanager
def answering_400(text: str):
    server = Refusing(text)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with a file of prices and no key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "prices.toml").write_text(PRICES)
    return tmp_path


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--profile", "nosuch"], "no scoring profile 'nosuch'"),
        (["--profile", "strict,nosuch"], "no scoring profile 'nosuch'"),
        (["-o", "nosuch=1"], "has no option 'nosuch'"),
        (["chart/nosuch"], "there is no benchmark"),
        (["-m", "gpt-4o"], "names no kind of model"),
    ],
)
def test_what_is_used_after_the_answers_is_refused_before_the_first_request(folder, stub, capsys, more, said):
    assert main(["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "-q", *more]) == 2
    assert said in capsys.readouterr().err
    assert stub.stats()["served"] == 0
    assert not (folder / "results").exists()


def test_a_profile_of_a_repeated_run_is_refused_before_the_first_request(folder, stub, capsys):
    run = ["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "2", "-q", "--out", "run"]
    assert main(run) == 0
    before = stub.stats()["served"]
    again = ["rerun", "run", "--base-url", stub.url, "--out", "again"]
    assert main([*again, "--profile", "nosuch"]) == 2
    (folder / "other.toml").write_text("[other]\ninput = 1\noutput = 1\n")
    assert main([*again, "--prices", "other.toml"]) == 2
    assert stub.stats()["served"] == before
    assert not (folder / "again").exists()


def test_a_second_benchmark_without_its_data_is_refused_before_the_first_is_asked(folder, stub, capsys):
    assert main(["run", "chart", "vsi-bench", "-m", "api:stub-vlm", "--base-url", stub.url, "-q"]) != 0
    assert "--data" in capsys.readouterr().err
    assert stub.stats()["served"] == 0


def test_a_dry_run_counts_and_prices_without_a_request_or_a_key(folder, stub, capsys):
    run = ["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "20", "--max-tokens", "50"]
    assert main([*run, "--dry-run", "--prices", "prices.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (one,) = told["runs"]
    assert (one["questions"], one["answered"], one["output_tokens"]) == (20, 0, 1000)
    assert one["images"] >= 20 and one["input_tokens"] > 20
    assert one["cost"] == pytest.approx((one["input_tokens"] * 2 + 1000 * 8) / 1e6) == told["cost"]
    assert stub.stats()["served"] == 0 and not (folder / "results").exists()
    assert main([*run, "-q"]) == 0
    capsys.readouterr()
    more = ["--repeats", "1", "--limit", "30"]
    assert main([*run, *more, "--dry-run"]) == 0
    out = capsys.readouterr()
    assert "no price" in out.out and "30" in out.out
    assert main([*run, "--dry-run", "--json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)["runs"]
    assert (done["questions"], done["answered"], done["input_tokens"]) == (20, 20, 0)
    assert main([*run[:-2], "--dry-run", "--json", "--out", "elsewhere"]) == 0
    (free,) = json.loads(capsys.readouterr().out)["runs"]
    assert free["output_tokens"] is None and free["cost"] is None


def test_pictures_count_by_their_pixels_after_the_limits_of_the_run(folder, capsys):
    def tokens(*more):
        assert main(["run", "chart/digits", "-m", "api:x", "--limit", "5", "--dry-run", "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)["runs"][0]["input_tokens"]

    assert tokens("--max-long-side", "8") < tokens()


def test_prices_of_a_finished_run_come_from_its_recorded_usage(folder, capsys):
    run = evaluate("chart", "embedded", limit=3, out=folder / "run")
    expected = (run.meta.totals.input_tokens * 2 + run.meta.totals.output_tokens * 8) / 1e6
    assert main(["score", "run", "--prices", "prices.toml", "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["cost"] == {"dollars": pytest.approx(expected), "answers": 3, "without_usage": 0}
    assert scored["cost_per_correct"] == pytest.approx(expected / (3 * run.metric("accuracy").value))
    said = f"cost ${expected:.4f}, from the recorded usage of 3 answers"
    assert main(["score", "run", "--prices", "prices.toml"]) == 0
    printed = " ".join(capsys.readouterr().err.split())
    assert said in printed and "per correct answer" in printed
    assert main(["rerun", "run", "--prices", "prices.toml", "-q"]) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert main(["report", "run", "--prices", "prices.toml"]) == 0
    assert said in (folder / "run" / "report.html").read_text()


def test_prices_without_the_model_or_without_usage_are_refused(folder, capsys):
    evaluate("chart", "embedded", limit=1, out=folder / "run")
    (folder / "other.toml").write_text("[other]\ninput = 1\noutput = 1\n")
    assert main(["score", "run", "--prices", "other.toml"]) == 2
    assert "no price for 'embedded'" in capsys.readouterr().err
    (folder / "answers.jsonl").write_text("")
    assert main(["score", "answers.jsonl", "--benchmark", "chart", "--prices", "prices.toml"]) == 2
    assert "recorded usage" in capsys.readouterr().err


def test_pages_that_cannot_be_written_are_refused_before_a_judge_is_asked(folder, stub, capsys, monkeypatch):
    evaluate("chart", "embedded", limit=2, out=folder / "run")
    (folder / "file").write_text("")
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge-key-0123456789")
    command = ["failures", "run", "--judge", "api:stub-vlm", "--base-url", stub.url, "--pages", "file/pages", "-q"]
    assert main(command) == 6
    assert "--pages file/pages cannot be written" in capsys.readouterr().err
    assert stub.stats()["served"] == 0


def test_a_folder_that_no_run_can_be_written_to_is_refused_before_another_benchmark_is_asked(folder, stub, capsys):
    (folder / "file").write_text("")
    (folder / "half").mkdir()
    (folder / "half" / "chart-digits-stub-vlm").write_text("")
    run = ["run", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "2", "-q"]
    for names, out in ((["chart"], "file"), (["chart"], "file/run"), (["chart", "chart/digits"], "half")):
        assert main([*run, *names, "--out", out]) == 6
        assert "is a file; a folder was expected" in capsys.readouterr().err
    assert stub.stats()["served"] == 0
    assert [path.name for path in (folder / "half").iterdir()] == ["chart-digits-stub-vlm"]


def test_a_price_that_is_missing_for_the_second_model_is_named_before_the_first_is_asked(folder, stub, capsys):
    run = ["run", "chart", "-m", "api:stub-vlm", "-m", "api:other", "--base-url", stub.url, "--limit", "2", "-q"]
    assert main([*run, "--prices", "prices.toml"]) == 2
    assert "no price for 'other'" in capsys.readouterr().err
    assert stub.stats()["served"] == 0


def test_a_later_run_without_anything_to_label_is_refused_before_a_judge_is_asked(folder, stub, capsys, monkeypatch):
    run = ["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "--limit", "2", "-q", "--out", "wrong"]
    assert main(run) == 0
    evaluate("chart", "embedded", limit=2, out=folder / "right")
    before = stub.stats()["served"]
    monkeypatch.setenv("JUDGE_API_KEY", "sk-judge-key-0123456789")
    capsys.readouterr()
    assert main(["failures", "wrong", "right", "--judge", "api:stub-vlm", "--base-url", stub.url, "-q"]) == 4
    assert "right has no incorrect answer" in capsys.readouterr().err
    assert stub.stats()["served"] == before


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        (["--out", ""], "--out '' is empty"),
        (["--base-url", ""], "--base-url '' is empty"),
        (["--limit", "0"], "found '0'. Omit --limit to run all samples"),
        (["--base-url", "localhost:8000/v1"], "Write --base-url http://localhost:8000/v1"),
        (["--base-url", "https:/api.example.org/v1"], "Write --base-url https://api.example.org/v1"),
        (["--base-url", "api.example.org"], "Write --base-url https://api.example.org/v1"),
        (["--base-url", "http://local host/v1"], "holds white space"),
        (["--data", "~/set", "vsi-bench"], "The shell did not expand ~"),
        (["--data", "pricse.toml", "blink"], "Did you mean prices.toml?"),
        (["--data", "prices*.toml", "blink"], "The pattern was not expanded"),
        (["--data", "C:\\data\\set.tsv", "blink"], "a Windows path"),
        (["chart,digits"], "separated by spaces"),
        (["prices.toml"], "Declare a benchmark lists the sections"),
        (["easi"], "snellen easi --model"),
        (["tasks.py"], "snellen run tasks:NAME"),
    ],
)
def test_a_slip_in_a_value_is_answered_with_what_to_write_and_sends_nothing(folder, stub, capsys, more, answer):
    names = [] if more[-1] in ("vsi-bench", "blink", "chart,digits", "prices.toml", "easi", "tasks.py") else ["chart"]
    assert main(["run", *names, "-m", "api:stub-vlm", "--base-url", stub.url, *more]) in (2, 3)
    err = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert answer in err and "Traceback" not in err
    assert stub.stats()["served"] == 0
    assert not (folder / "results").exists()


def test_a_run_named_as_a_benchmark_is_answered_with_rerun_and_score(folder, capsys):
    evaluate("chart", "embedded", limit=1, out=folder / "run")
    assert main(["run", "run", "-m", "embedded"]) == 2
    assert "snellen rerun run" in capsys.readouterr().err


def test_a_key_in_quotation_marks_and_no_key_for_openai_are_named_before_any_request(folder, stub, capsys, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", '"sk-quoted-key-0123456789"')
    assert main(["run", "chart", "-m", "api:stub-vlm", "--base-url", stub.url, "-q"]) == 4
    assert "quotation mark" in capsys.readouterr().err
    monkeypatch.setenv("OPENAI_API_KEY", "")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert main(["run", "chart", "-m", "api:gpt-6-astra", "-q"]) == 4
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err
    assert stub.stats()["served"] == 0


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid content type. image_url is only supported by certain models.",
        "At most 0 image(s) may be provided in one request.",
        "tiny is not a multimodal model",
        "Image input is not enabled for this model",
        "messages[0].content must be a string",
        "unknown variant `image_url`, expected `text`",
    ],
)
def test_a_server_whose_model_takes_no_images_is_not_asked_all_questions(folder, capsys, refusal):
    with answering_400(refusal) as server:
        assert main(["run", "chart", "-m", "api:blind", "--base-url", server.url, "-q", "-c", "4"]) != 0
        err = capsys.readouterr().err
        assert "stopped: the server refuses images" in err and "choose a model with vision" in err
        assert server.questions <= 20


def test_a_refusal_of_one_image_does_not_stop_a_run():
    from snellen.engine.request_errors import refuses_images

    for text in ("HTTP 400: image exceeds 5 MB maximum", "HTTP 400: Could not process image", "HTTP 400: bad image"):
        assert not refuses_images(text), text
