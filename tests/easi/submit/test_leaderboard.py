import pytest

from servers.leaderboard import Answer, leaderboard
from snellen import redaction
from snellen.easi.submit.client import check_endpoint, multipart, send
from snellen.errors import SubmissionError, UsageError

TOKEN = "hf_abcdefghijklmnopqrstuv"
REQUEST = multipart(b'{"modelName": "org/model"}', b"PK\x03\x04" + bytes(range(256)) * 8)
AT_ONCE = (0.0, 0.0, 0.0, 0.0)


def sent(url, **options):
    return send(REQUEST, TOKEN, endpoint=url, **{"waits_s": AT_ONCE, **options})


def test_the_request_is_what_the_leaderboard_documents():
    with leaderboard() as stub:
        reply = sent(stub.url)
    assert reply.status == 200 and "success" in reply.text
    (got,) = stub.got
    assert got.path == "/api/submit-with-file/"
    assert got.headers["Authorization"] == f"Bearer {TOKEN}"
    assert int(got.headers["Content-Length"]) == len(REQUEST.body)
    parts = got.parts()
    assert list(parts) == ["payload", "zipFile"]
    assert got.payload() == {"modelName": "org/model"}
    assert parts["payload"].get_filename() is None
    assert parts["zipFile"].get_filename() == "easi_results.zip"
    assert parts["zipFile"].get_content_type() == "application/zip"
    assert got.archive() == b"PK\x03\x04" + bytes(range(256)) * 8


def test_a_boundary_never_stands_in_what_it_parts():
    first = multipart(b"{}", b"PK").content_type.partition("boundary=")[2]
    assert multipart(b"{}", b"PK").body == multipart(b"{}", b"PK").body
    assert first.encode() not in b"{}PK"


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_busy_or_broken_server_is_asked_again(status):
    said = []
    with leaderboard(
        Answer(status, {"success": False, "error": "later"}), Answer(status, b"<h1>no</h1>"), Answer()
    ) as stub:
        sent(stub.url, say=said.append)
    assert len(stub.got) == 3
    assert len({got.body for got in stub.got}) == 1
    assert [f"HTTP {status}" in line for line in said] == [True, True] and "later" in said[0]


@pytest.mark.parametrize("status", [429, 500])
def test_tries_come_to_an_end(status):
    with (
        leaderboard(Answer(status, {"success": False, "error": "never"})) as stub,
        pytest.raises(SubmissionError) as caught,
    ):
        sent(stub.url)
    assert len(stub.got) == 5
    assert f"HTTP {status}: never" in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    ("status", "words"), [(401, "HF_TOKEN"), (400, "licence"), (413, "by hand"), (404, "--endpoint")]
)
def test_a_refusal_is_final_and_says_what_to_do(status, words):
    with (
        leaderboard(Answer(status, {"success": False, "error": "no such \x1b[31mmodel"})) as stub,
        pytest.raises(SubmissionError) as caught,
    ):
        sent(stub.url)
    assert len(stub.got) == 1
    assert f"HTTP {status}: no such" in caught.value.message and "\x1b" not in caught.value.message
    assert words in caught.value.hint
    assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    "body", [{"success": False, "error": "disallowed file types"}, {"success": "true"}, b"[]", b"<html>", b""]
)
def test_status_200_alone_is_no_success(body):
    with leaderboard(Answer(200, body)) as stub, pytest.raises(SubmissionError, match="did not take it"):
        sent(stub.url)
    assert len(stub.got) == 1


def test_a_server_that_hangs_up_is_asked_again():
    lines = []
    with leaderboard(Answer(hang_up=True), Answer()) as stub:
        sent(stub.url, timeout_s=600, say=lines.append)
    assert len(stub.got) == 2
    assert len(lines) == 1 and "broke" in lines[0]


def test_a_silent_server_is_asked_again():
    """On a slow machine the next tries may take longer than the limit as well: there are many, and each is reported."""
    lines = []
    with leaderboard(Answer(sleep_s=3600), Answer()) as stub:
        sent(stub.url, timeout_s=0.5, waits_s=[0.0] * 1000, say=lines.append)
    assert len(stub.got) >= 2 and lines
    assert all("within 0.5 s" in line for line in lines)


def test_a_server_that_is_not_there_is_said_with_the_way_on():
    with leaderboard() as stub:
        url = stub.url
    with pytest.raises(SubmissionError, match="no answer in 5 tries") as caught:
        sent(url)
    assert "look at the leaderboard" in caught.value.hint


def test_retry_after_is_honoured_up_to_a_bound():
    with leaderboard(Answer(429, headers={"Retry-After": "0.2"}), Answer()) as stub:
        said = []
        sent(stub.url, say=said.append)
    assert "0.2 s" in said[0] and len(stub.got) == 2
    with (
        leaderboard(Answer(429, headers={"Retry-After": "7200"}), Answer()) as stub,
        pytest.raises(SubmissionError, match="HTTP 429") as caught,
    ):
        sent(stub.url)
    assert "7,200 s" in caught.value.hint and "two hours" in caught.value.hint and len(stub.got) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_token_follows_no_redirect_to_another_host(status):
    with leaderboard() as other:
        elsewhere = other.url
        with (
            leaderboard(Answer(status, headers={"Location": elsewhere})) as stub,
            pytest.raises(SubmissionError, match="not sent to another address"),
        ):
            sent(stub.url)
    assert len(stub.got) == 1 and other.got == []


def test_a_redirect_on_the_same_host_keeps_method_and_body_and_never_goes_round():
    with leaderboard(Answer(308, headers={"Location": "/api/submit-with-file"}), Answer()) as stub:
        sent(stub.url)
    assert [got.path for got in stub.got] == ["/api/submit-with-file/", "/api/submit-with-file"]
    assert stub.got[0].body == stub.got[1].body
    turning = [Answer(307, headers={"Location": f"/{n}"}) for n in range(9)]
    with leaderboard(*turning) as stub, pytest.raises(SubmissionError, match="does not answer"):
        sent(stub.url)
    assert len(stub.got) == 3


@pytest.mark.parametrize(
    "address",
    ["http://leaderboard.example/api", "ftp://x/", "easi.lmms-lab.com", "https://me:secret@x/", "https://[x/"],
)
def test_no_token_goes_to_an_address_in_the_clear_or_to_none(address):
    with pytest.raises(UsageError, match="--endpoint"):
        check_endpoint(address)


def test_the_token_stands_in_no_message(forget_keys):
    redaction.register(TOKEN)
    with (
        leaderboard(Answer(400, {"success": False, "error": f"bad token {TOKEN}"})) as stub,
        pytest.raises(SubmissionError) as caught,
    ):
        sent(stub.url)
    assert TOKEN not in str(caught.value)
