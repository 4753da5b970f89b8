"""What a user reads where a server answers and something is wrong with it: one table of servers, faults and lines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.loopback import JsonHandler, LoopbackServer
from servers.provider_server import KEY, ProviderServer, Reply, answer, failure
from snellen import evaluate
from snellen.engine.image_refusals import image_refusal, refuses_images
from snellen.scoring.extract import read
from snellen.scoring.replies.reply import silence
from snellen.sources.blobs import stored_png

KINDS = {
    "openai": ("openai:m", "chat"),
    "responses": ("openai:m", "responses"),
    "azure": ("azure:m", "chat"),
    "anthropic": ("anthropic:m", "messages"),
    "gemini": ("gemini:gemini-test", "gemini"),
    **dict.fromkeys(("vllm", "sglang", "llama.cpp", "ollama", "lm studio"), ("api:m", "chat")),
}
"""Server: the model behind it, and its protocol."""
QUESTIONS = 4
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
PRICES = '["m"]\ninput = 1000\noutput = 5000\n["gemini-test"]\ninput = 1000\noutput = 5000\n'


class Fault(NamedTuple):
    """A server, what it replies to every question, the exit status, and what the user reads on one line."""

    server: str
    reply: Any
    status: int
    line: str
    words: tuple[str, ...] = ()


def chat(content: Any, finish: str = "stop", **members: Any) -> dict[str, Any]:
    body = answer("chat")
    body["choices"][0] |= {"message": {"role": "assistant", "content": content, **members}, "finish_reason": finish}
    return body


def blocks(protocol: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
    body = answer(protocol)
    if protocol == "gemini":
        body["candidates"][0]["content"] = {"role": "model", "parts": list(parts)} if parts else {}
    else:
        body["output" if protocol == "responses" else "content"] = list(parts)
    return body


def counted(protocol: str, **counts: Any) -> dict[str, Any]:
    """Return a reply with these counts changed; None leaves one out."""
    body = answer(protocol, "ANSWER: A", **counts)
    table = body["usageMetadata" if protocol == "gemini" else "usage"]
    for name in [name for name, value in table.items() if value is None]:
        del table[name]
    return body


def ended(reason: str) -> dict[str, Any]:
    body = blocks("gemini")
    body["candidates"][0]["finishReason"] = reason
    return body


EMPTY = f"{QUESTIONS} of {QUESTIONS} replies were empty; {QUESTIONS} of them have text in "
NOWHERE = f"{QUESTIONS} of {QUESTIONS} replies were empty, with text nowhere: read one in traces/"
PARSER = ": check the server's reasoning parser or chat_template_kwargs (--extra-body '"
NO_TOOLS = ": let no tools be called (`tools` and `tool_choice` in --extra-body"
LESS = "raise --max-tokens or let it think less: --effort low; then run anew: --out NAME"

SILENT = [
    Fault("vllm", chat("", reasoning="It is red, so A."), 9, f"{EMPTY}reasoning{PARSER}"),
    Fault("vllm", chat(None, reasoning_content="It is red."), 9, f"{EMPTY}reasoning_content{PARSER}"),
    Fault("sglang", chat(" \n", reasoning_content="It is red.", tool_calls=None), 9, f"{EMPTY}reasoning_content{PARSER}"),
    Fault("llama.cpp", chat("<think>It is red.</think>\n"), 9, f"{EMPTY}<think>{PARSER}"),
    Fault("llama.cpp", chat("<think></think>"), 9, NOWHERE),
    Fault("llama.cpp", chat("<think>It is"), 9, f"{EMPTY}<think>{PARSER}"),
    Fault("ollama", chat("", thinking="It is red."), 9, f"{EMPTY}thinking{PARSER}"),
    Fault("ollama", chat(""), 9, NOWHERE),
    Fault("lm studio", chat("", reasoning="Hm.", tool_calls=[CALL]), 9, f"{EMPTY}tool_calls{NO_TOOLS}"),
    Fault("lm studio", chat("<think>\n</think>\u200b", tool_calls=[CALL]), 9, f"{EMPTY}tool_calls{NO_TOOLS}"),
    Fault("lm studio", chat("", draft="It is A."), 9, f"{EMPTY}draft: only the text of the message is read"),
    Fault("openai", chat(None, "tool_calls", tool_calls=[CALL]), 9, f"{EMPTY}tool_calls{NO_TOOLS}"),
    Fault("openai", chat(None, function_call={"name": "f", "arguments": ""}), 9, f"{EMPTY}function_call{NO_TOOLS}"),
    Fault("openai", chat("", "length"), 9, f"{QUESTIONS} of them ended at the token limit: raise --max-tokens"),
    Fault("vllm", chat("", "length", reasoning="It"), 9, "text in reasoning, 4 of them ended at the token limit: raise --max-tokens"),
    Fault("azure", chat(None), 9, NOWHERE),
    Fault("azure", chat([{"type": "thinking", "thinking": [{"type": "text", "text": "Red."}]}]), 9, f"{EMPTY}thinking: {LESS}"),
    Fault("responses", blocks("responses", {"type": "reasoning", "summary": [{"text": "Red."}]}), 9, f"{EMPTY}reasoning: {LESS}"),
    Fault("responses", blocks("responses", {"type": "function_call", "name": "f"}), 9, f"{EMPTY}function_call{NO_TOOLS}"),
    Fault("anthropic", blocks("messages"), 9, NOWHERE),
    Fault("anthropic", blocks("messages", {"type": "thinking", "thinking": "Red."}), 9, f"{EMPTY}thinking: {LESS}"),
    Fault("anthropic", blocks("messages", {"type": "tool_use", "id": "t", "name": "f"}), 9, f"{EMPTY}tool_use{NO_TOOLS}"),
    Fault("gemini", blocks("gemini"), 9, NOWHERE),
    Fault("gemini", blocks("gemini", {"text": "Red.", "thought": True}), 9, f"{EMPTY}thought: {LESS}"),
    Fault("gemini", blocks("gemini", {"functionCall": {"name": "f"}}), 9, f"{EMPTY}functionCall{NO_TOOLS}"),
    Fault("openai", chat(None, refusal="I will not."), 0, "0 answered · 4 refused"),
]  # fmt: skip
JPEG = "--image-format jpeg --max-long-side"
REFUSED = [
    Fault("anthropic", (400, "image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"), 9, f"too many bytes: send smaller ones with {JPEG} 1930"),
    Fault("gemini", (400, "Request payload size exceeds the limit: 20971520 bytes."), 9, f"{JPEG} 3960"),
    Fault("azure", (400, "Image size exceeds 10MiB"), 9, f"{JPEG} 2800"),
    Fault("anthropic", (400, "At least one of the image dimensions exceed max allowed size: 8000 pixels"), 9, "--max-long-side 8000."),
    Fault("lm studio", (400, "image dimensions 12000x9000 exceed 8000x8000"), 9, "--max-long-side 8000."),
    Fault("vllm", (400, "Image size (200000000 pixels) exceeds limit of 178956970 pixels, could be a decompression bomb"), 9, "--max-pixels 178956970."),
    Fault("vllm", (400, "At most 1 image(s) may be provided in one request."), 9, """--frames 1 of videos, --few-shot 0), or let it take more (vLLM: --limit-mm-per-prompt '{"image": N}')"""),
    Fault("openai", (400, "Too many images in request. Max is 50."), 9, "no more images than 50 in a question"),
    Fault("vllm", (400, "absolute aspect ratio must be smaller than 200, got 333.0"), 9, "too long for their height"),
    Fault("sglang", (400, "height:20 and width:30 must be larger than factor:28"), 9, "a side under 28 pixels: no option enlarges them"),
    Fault("openai", (400, "Unsupported MIME type: image/png"), 9, "write them anew with --image-format jpeg"),
    Fault("ollama", (400, "image: unknown format"), 9, "write them anew with --image-format png"),
    Fault("azure", (400, "Could not process image"), 9, "If it takes none at all, choose a model with vision"),
    Fault("llama.cpp", (400, "image input is not supported"), 8, "a plain one of 32 x 32 pixels too, and has answered no sample with images"),
    Fault("vllm", (400, "At most 0 image(s) may be provided in one request."), 8, "choose a model with vision, or start the server with one"),
]  # fmt: skip
HALF = [
    Fault("vllm", counted("chat", completion_tokens=None), 0, "at least $0.4: the output tokens of 4 answers are missing"),
    Fault("sglang", counted("chat", completion_tokens="?"), 0, "at least $0.4: the output tokens of 4 answers are missing"),
    Fault("ollama", counted("chat", completion_tokens=0), 0, "at least $0.4: the output tokens of 4 answers are missing"),
    Fault("lm studio", counted("chat", prompt_tokens=None), 0, "at least $0.14: the input tokens of 4 answers are missing"),
    Fault("responses", counted("responses", output_tokens=None), 0, "the output tokens of 4 answers are missing"),
    Fault("anthropic", counted("messages", output_tokens=None), 0, "the output tokens of 4 answers are missing"),
    Fault("gemini", counted("gemini", candidatesTokenCount=None), 0, "the output tokens of 4 answers are missing"),
    Fault("vllm", counted("chat"), 0, "$0.5400, $0.27 per correct answer"),
]  # fmt: skip
BROKEN = [
    Fault("gemini", ended(reason), 9, f"({reason}). The service ended these answers early: run the same command again")
    for reason in ("MALFORMED_FUNCTION_CALL", "OTHER", "LANGUAGE", "UNHEARD_OF")
]


@pytest.fixture
def asked(snellen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run four questions with an image against a server of a protocol; return what was printed, and check the status."""
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    Path("red.png").write_bytes(stored_png(np.full((40, 40, 3), (200, 0, 0), np.uint8)))
    rows = [f"q{n},red.png,Number {n}: which colour?,red,green,{'AB'[n % 2]}" for n in range(QUESTIONS)]
    Path("questions.csv").write_text("\n".join(["id,image,question,A,B,answer", *rows]))
    Path("prices.toml").write_text(PRICES)

    def ask(
        server: str,
        script: Callable[[Mapping[str, Any]], Any],
        status: int,
        *words: str,
        out: str = "run",
        first: tuple[str, ...] | None = None,
    ) -> str:
        model, protocol = KINDS[server]

        def reply(number: int, body: Mapping[str, Any]) -> Reply:
            said = script(body) if len(body) else (400, "messages is required")
            return Reply(failure(protocol, *said), said[0]) if isinstance(said, tuple) else Reply(said)

        more = ("--responses",) if protocol == "responses" else ()
        with ProviderServer(protocol, reply) as running:
            line = ("run", "questions.csv", "-m", model, "--base-url", running.url, "--out", out, "--max-attempts", "1")
            if first is not None:  # an earlier session of the same run
                snellen(*line, *more, *first)
            printed = snellen(*line, *more, *words)
        assert printed.status == status, printed.err
        return " ".join((printed.out + printed.err).split())

    return ask


@pytest.mark.parametrize("fault", [*SILENT, *REFUSED, *BROKEN], ids=lambda fault: f"{fault.server}: {fault.line[:60]}")
def test_a_line_says_what_is_wrong_and_what_to_do(fault: Fault, asked: Callable[..., str], snellen) -> None:
    assert fault.line in asked(fault.server, lambda body: fault.reply, fault.status)
    if fault in SILENT and fault.status:
        assert fault.line in " ".join(snellen("score", "run").err.split())
        (run,) = json.loads(snellen("run", "questions.csv", *_again(), "--json").out)["runs"]
        assert fault.line in run["empty"] and run["totals"]["empty"]["count"] == QUESTIONS
        if fault is SILENT[0]:
            assert snellen("report", "run", "--out", "page.html").status == 0
            assert EMPTY in Path("page.html").read_text()


def _again() -> tuple[str, ...]:
    """Return the words of the run in `run`, which is complete: nothing is asked."""
    spec = json.loads(Path("run/run_meta.json").read_text())["spec"]
    more = ("--responses",) if spec["options"].get("responses") else ()
    return ("-m", spec["model"], "--base-url", spec["options"]["base_url"], "--out", "run", *more)


@pytest.mark.parametrize("fault", HALF, ids=lambda fault: f"{fault.server}: {fault.line[:60]}")
def test_half_a_usage_makes_the_least_cost_and_none_of_a_correct_answer(fault: Fault, asked, snellen) -> None:
    whole = "per correct answer" in fault.line
    for printed in (
        asked(fault.server, lambda body: fault.reply, 0, "--prices", "prices.toml"),
        " ".join(snellen("score", "run", "--prices", "prices.toml").err.split()),
        " ".join(snellen("score", "run").err.split()),
    ):
        assert whole or fault.line in printed
        assert ("per correct answer" in printed) == whole and ("at least $" in printed) != whole
    (row,) = json.loads(snellen("list", "--runs", "--results", ".", "--json").out)["runs"]
    assert (row["cost_per_correct"] is None) != whole
    assert whole or "≥ " in snellen("list", "--runs", "--results", ".").out
    if not whole:
        assert "does not count all tokens" in asked(
            fault.server, lambda body: fault.reply, 7, "--prices", "prices.toml", "--max-cost", "9", out="bound"
        )


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "OTHER", "LANGUAGE"])
def test_an_answer_that_gemini_broke_off_is_asked_for_again(reason: str, asked) -> None:
    replies = iter([ended(reason), *[answer("gemini")] * QUESTIONS])
    assert "4 answered" in asked("gemini", lambda body: next(replies), 0, "--max-attempts", "2", "-c", "1")


@pytest.mark.parametrize("stream", [False, True])
def test_an_empty_reply_is_asked_for_again_and_all_attempts_are_counted(stream: bool, asked) -> None:
    silent = chat("", tool_calls=[CALL])
    left = [silent, silent, answer("chat"), silent, silent, silent]
    script = (lambda body: left.pop(0) if left else answer("chat")) if not stream else (lambda body: silent)
    words = ("--retry-empty", "2", "-c", "1", *(["--stream"] if stream else []))
    printed = asked("vllm", script, 9 if stream else 0, *words)
    records = [json.loads(line) for line in Path("run/results.jsonl").read_text().splitlines()]
    if stream:  # a server that does not stream answers at once
        assert {record["attempts"] for record in records} == {3}
        return
    assert "1 of 4 replies were empty; 1 of them has text in tool_calls" in printed
    assert [record.get("attempts", 1) for record in records] == [3, 3, 1, 1]
    assert [record["response"]["usage"]["input_tokens"] for record in records] == [300, 300, 100, 100]
    assert [record["response"].get("empty", "") for record in records] == ["", "tool_calls", "", ""]


def test_a_streamed_call_of_a_tool_is_found(asked, snellen) -> None:
    delta = {"choices": [{"index": 0, "delta": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}]}
    raw = f"data: {json.dumps(delta)}\n\ndata: [DONE]\n\n".encode()
    with ProviderServer("chat", lambda number, body: Reply(raw=raw) if body else Reply({}, 400)) as server:
        printed = snellen("run", "questions.csv", "-m", "api:m", "--base-url", server.url, "--stream", "--out", "run")
    assert printed.status == 9 and f"{EMPTY}tool_calls" in " ".join(printed.out.split())


def test_plans_and_python_ask_again_too(asked, snellen, capsys) -> None:
    left = [chat("")]

    def reply(number: int, body: Mapping[str, Any]) -> Reply:
        return Reply({}, 400) if not body else Reply(left.pop() if left else answer("chat"))

    with ProviderServer("chat", reply) as server:
        run = evaluate("questions.csv", "api:m", out="python", base_url=server.url, retry_empty=1)
        assert run.meta.totals.empty is not None and run.meta.totals.empty.count == 0
        plan = f'benchmarks = ["questions.csv"]\nmodels = ["api:m"]\n[defaults]\nbase_url = "{server.url}"\nretry_empty = 1\n'
        Path("plan.toml").write_text(plan)
        left.append(chat(""))
        assert snellen("run", "plan.toml", "--out", "plans").status == 0 and not left
        Path("plan.toml").write_text(plan.replace("retry_empty = 1", "temperature = 0.5"))
        left += [chat("")] * QUESTIONS
        printed = snellen("run", "plan.toml", "--out", "silent")
    assert printed.status == 9 and NOWHERE in " ".join(printed.err.split()) and "--out NAME" not in printed.err


UNSUPPORTED = (400, "You uploaded an unsupported image. Please use one of the following formats: ['png', 'jpeg']")


def _is_plain(body: Mapping[str, Any]) -> bool:
    return "Which colour is this?" in str(body)


def test_images_that_are_refused_one_by_one_are_failed_samples(asked) -> None:
    def no_red(body: Mapping[str, Any]) -> Any:
        return answer("chat") if _is_plain(body) or "Number 3" in str(body) else UNSUPPORTED

    for first in (None, ("-c", "1")):  # the same command again
        printed = asked("vllm", no_red, 9, "-c", "1", first=first, out=f"run-{first}")
        assert "3 of 4 samples have no answer" in printed and "--image-format png" in printed


def test_an_answer_on_disk_shows_that_the_model_takes_images(asked) -> None:
    sent = []

    def first_only(body: Mapping[str, Any]) -> Any:
        sent.append(body)
        return answer("chat") if "Number 0" in str(body) else UNSUPPORTED

    asked("vllm", first_only, 9, "-c", "1", first=("--limit", "1"))
    assert len(sent) == QUESTIONS and not any(map(_is_plain, sent))


def test_a_plain_image_that_a_busy_server_does_not_take_says_nothing_about_vision(asked) -> None:
    printed = asked("vllm", lambda body: (500, "busy") if _is_plain(body) else UNSUPPORTED, 9, "-c", "1")
    assert "none of 4 samples was answered" in printed


PAGES = {
    "an error": b'{"error":"Unexpected endpoint or method. (GET /models). Returning 200 anyway"}',
    "a web page": b"<html><body>Open WebUI</body></html>",
    "a text": b"Ollama is running",
    "JSON": b'{"detail":"Not Found"}',
    "an error: no route": b'{"error":{"message":"no route","code":404}}',
    "nothing": b"",
}


@pytest.mark.parametrize("found", PAGES)
@pytest.mark.parametrize("server", ["vllm", "openai", "azure", "anthropic", "gemini"])
def test_a_server_that_answers_every_path_alike_is_told_before_the_first_question(
    server, found, asked, snellen
) -> None:
    asked_for = []

    class Alike(JsonHandler):
        def do_GET(self) -> None:
            asked_for.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(PAGES[found])))
            self.end_headers()
            self.wfile.write(PAGES[found])

        do_POST = do_GET

    with LoopbackServer(Alike) as running:
        printed = snellen("run", "questions.csv", "-m", KINDS[server][0], "--base-url", running.origin, "--out", "run")
    words = " ".join(printed.err.split())
    assert printed.status == 4 and f"HTTP 200 {'and' if server == 'vllm' else 'with'} {found}" in words
    assert "--base-url must end where" in words and re.search(r"mostly at /(openai/)?v1", words)
    assert set(asked_for) <= {b"", b"{}"}


def test_an_address_without_v1_at_which_every_path_is_an_error_is_answered_with_the_one_to_write(
    asked, snellen
) -> None:
    class Studio(JsonHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_json({"data": [{"id": "m"}]} if self.path == "/v1/models" else {"error": "Unexpected endpoint"})

        do_POST = do_GET

    with LoopbackServer(Studio) as running:
        printed = snellen("run", "questions.csv", "-m", "api:m", "--base-url", running.origin, "--out", "run")
        assert printed.status == 4 and f"Write --base-url {running.url}" in printed.err


_PIECES = st.sampled_from(
    ["<think>", "</think>", "A", "the red one", " ", "\n", "\u200b", "**", "<b>", "</b>", "(B)", "thinking: "]
)


@given(st.lists(_PIECES, max_size=6))
def test_a_reply_is_empty_where_its_reader_finds_nothing_said(pieces: list[str]) -> None:
    reply = "".join(pieces)
    reason = read("text", reply).reason
    assert bool(silence(reply)) == (reason in ("empty reply", "reasoning not finished"))


@given(
    st.sampled_from(
        ["At most {n} image(s) may be provided.", "Too many images: {m} > {n}", "supports up to {n} images, got {m}"]
    ),
    st.integers(1, 400),
)
def test_the_number_of_images_that_a_server_takes_is_named(message: str, n: int) -> None:
    refusal = image_refusal("HTTP 400: " + message.format(n=n, m=n + 7))
    assert refusal is not None and f"--frames {n} " in refusal.hint and not refuses_images(message.format(n=n, m=n + 7))


@given(
    st.sampled_from(
        [
            "dimensions exceed max allowed size: {n} pixels",
            "image width must be <= {n}",
            "image of {m}x{m} exceeds {n}x{n}",
        ]
    ),
    st.integers(512, 20_000),
)
def test_the_side_that_a_server_takes_is_named(message: str, n: int) -> None:
    refusal = image_refusal(message.format(n=n, m=n + 7))
    assert refusal is not None and refusal.hint.endswith(f"--max-long-side {n}.")


def test_asking_again_at_once_is_refused_for_batches(asked, snellen) -> None:
    printed = snellen("run", "questions.csv", "-m", "openai:m", "--batch", "--retry-empty", "1")
    assert printed.status == 2 and "Omit --retry-empty, or omit --batch." in printed.err


def test_a_reply_of_tags_with_numbers_says_something():
    """PaliGemma and Florence-2 answer so; asked again, they would be paid for again."""
    assert not any(map(silence, ("<loc0100><loc0200>", '<point x="50" y="5">', "<think>3</think><loc0100>")))
    assert all(map(silence, ("<think>3</think>", "<|im_end|>", "<|reserved_3|>", "</s>")))


def test_a_run_says_what_the_cache_of_the_service_saved(asked, snellen) -> None:
    usage = {"cache_read_input_tokens": 80_000, "cache_creation_input_tokens": 10_000, "input_tokens": 10_000}
    said = counted("messages", **usage, output_tokens=1)
    Path("cached.toml").write_text("[m]\ninput = 10\noutput = 50\ncached_input = 1\ncache_write = 12.5\n")
    printed = asked("anthropic", lambda body: said, 0, "--prices", "cached.toml", "--prompt-cache", "5m")
    tokens = "400,000 tokens in (320,000 read from the service's cache, 40,000 written to the service's cache), 4 out"
    saved = "$2.78 saved by the service's cache"
    assert tokens in printed and saved in printed
    totals = json.loads(Path("run/run_meta.json").read_text())["totals"]
    assert (totals["cached_tokens"], totals["cache_write_tokens"]) == (320_000, 40_000)
    assert totals["cache_saved"] > 0
    assert snellen("report", "run", "--out", "page.html").status == 0
    assert saved in unescape(Path("page.html").read_text())
    assert snellen("run", "questions.csv", *_again()).status == 0  # without the option it is the same run
