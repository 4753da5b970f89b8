"""A reader points at the answer of a reply that the rules leave unread, and cannot invent one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from read_tables import BIRDS, Models, honest, replies, write_birds

from snellen import Prompt, Sample, Score, Text, compare, evaluate, load_run, read, score
from snellen.cli import main
from snellen.errors import JudgeError, UsageError
from snellen.runs.judge import reading
from snellen.runs.reviews.audit_sample import draw, save_audit_sample
from snellen.runs.reviews.cases import drawable, is_read, read_cases
from snellen.runs.reviews.judge_card import judge_cards
from snellen.runs.run import Run
from snellen.scoring.readings import find_quote, score_reading
from snellen.scoring.rubric import parse_rubric
from snellen.scoring.scorers import choice

N = 30


@pytest.fixture(autouse=True)
def settled(judge_key: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    write_birds(N)


def answered(server: Models, **more: Any) -> Run:
    return evaluate("birds.csv", "api:oracle", base_url=server.url, out="run", **more)


def strict(run: Run) -> dict[str, dict[str, Any]]:
    return {row["sample_id"]: row for row in run.scores("strict").to_pylist()}


def test_an_honest_reader_reads_what_the_rules_leave_unread_and_the_score_says_so(capsys):
    with Models(replies(N)) as server:
        run = answered(server)
        before = strict(run)
        assert run.metric("accuracy").value == pytest.approx(1 / 3)
        done = read("run", "api:oracle", base_url=server.url)
        asked = len(server.read)
    assert asked == 2 * N // 3 and done.metric("quoted").value == 0.5
    after = strict(load_run("run"))
    for name, row in after.items():
        kind = int(name[1:]) % 3
        assert row["verdict"] == ("correct", "invalid", "correct")[kind]
        if kind == 0:
            assert row["reason"] == f"read by a model: '{BIRDS[int(name[1:]) % 4]}'"
        elif kind == 1:
            assert row["reason"].endswith("the reader finds no answer")
        else:
            assert row == before[name]
    assert main(["score", "run"]) == 0
    line = "read by api:oracle in run_read: 10 of 20 replies that the rules leave unread, 33.3% of all replies"
    assert line in capsys.readouterr().err
    saved = json.loads(Path("run/summary.json").read_text())
    assert saved["reader"] == {"model": "api:oracle", "folder": "run_read", "read": 10, "unread": 10}
    assert "Reference" not in "".join(server.read) and "gold" not in "".join(server.read)


LIES = {
    "not in the reply": {"quote": "eagle", "option": "A"},
    "half a word": {"quote": "beak and the win"},
    "another option": lambda gold, other: {"quote": gold, "option": "ABCD"[BIRDS.index(other)]},
    "no object": "It is a robin.",
    "an option alone": lambda gold, other: {"quote": "", "option": "ABCD"[BIRDS.index(gold)]},
    "words that are no answer": {"quote": "Both are common here"},
    "a list": {"quote": ["robin"]},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_reader_gives_no_reading_and_changes_no_score(lie):
    def lying(reply: str, asked: Any) -> object:
        words = reply.replace(";", "").split()
        if not reply.startswith("It could"):
            return {"quote": BIRDS[0], "option": "A"}  # the reply says that it cannot tell
        made = LIES[lie]
        return made(words[7], words[4]) if callable(made) else made

    with Models(replies(N), lying) as server:
        run = answered(server)
        before = {name: (row["value"], row["extracted"], row["verdict"]) for name, row in strict(run).items()}
        read("run", "api:oracle", base_url=server.url)
    after = strict(load_run("run"))
    assert {name: (row["value"], row["extracted"], row["verdict"]) for name, row in after.items()} == before
    assert load_run("run").judged_by().startswith("read by api:oracle in run_read: 0 of 20 replies")


@given(st.text(max_size=40), st.text(max_size=12))
def test_a_quote_stands_in_the_reply_with_the_same_words(reply, quoted):
    place = find_quote(quoted, reply) if quoted.split() else None
    if place is not None:
        assert reply[slice(*place)].split() == quoted.split()


@given(st.lists(st.sampled_from(["wren", "12", "B", "red fox", "-3", "4.5", "7 %", "鳥"]), min_size=1, max_size=6))
def test_whole_words_and_numbers_can_be_quoted_and_parts_of_them_cannot(words):
    reply = " or ".join(words)
    for word in words:
        assert find_quote(word, reply) is not None
    for part, whole in (("3", "-3"), ("4", "4.5"), ("5", "4.5"), ("7", "7 %"), ("wre", "wren")):
        assert whole not in words or find_quote(part, reply) is None
    assert find_quote(words[0], f"<think>{reply}</think> none") is None
    assert find_quote(words[0], f"<think>{reply}") is None


WORDS = st.sampled_from(
    ["wren", "robin", "the", "B", "A", "not", "or", "is", "12", "(C)", "**owl**", "finch.", "\n", "maybe"]
)


@given(st.lists(WORDS, min_size=1, max_size=12), st.data())
def test_whatever_a_reader_quotes_the_answer_is_that_of_words_in_the_reply(words, data):
    reply = " ".join(words)
    start = data.draw(st.integers(0, len(words) - 1))
    quoted = data.draw(st.one_of(st.just(" ".join(words[start : start + 3])), st.text(max_size=5)))
    option = data.draw(st.sampled_from([None, "A", "B", "C", "D"]))
    options = dict(zip("ABCD", BIRDS, strict=True))
    sample = Sample("1", Prompt((Text("Which bird is it?"),)), "B", "choice", options)
    unread = Score(0.0, None, "invalid", "two answers")
    result = score_reading(
        sample, reply, json.dumps({"quote": quoted, "option": option}), lambda text: choice(sample, text), unread
    )
    if not is_read(result):
        assert (result.value, result.extracted, result.verdict) == (0.0, None, "invalid")
        return
    start, end = result.detail["evidence"]
    assert reply[start:end].split() == quoted.split()
    assert choice(sample, reply[start:end]).extracted == result.extracted and option in (None, result.extracted)


@pytest.mark.slow
def test_a_reader_that_is_killed_goes_on_and_reads_each_reply_once():
    write_birds(120)
    with Models(replies(120)) as server:
        answered(server)
        server.delay = 0.02
        code = f"""
import sys; sys.path[:0] = {sys.path!r}
from snellen import read
read("run", "api:oracle", base_url="{server.url}", concurrency=4)
"""
        process = subprocess.Popen([sys.executable, "-c", code], env=os.environ.copy())
        try:
            deadline = time.monotonic() + 300
            while len(server.read) < 30 and time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.005)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(300)
        read("run", "api:oracle", base_url=server.url)
        asked = len(server.read)
        assert 80 <= asked <= 80 + 4 + 60  # at most what a second of answers was not yet on disk
        read("run", "api:oracle", base_url=server.url)
        assert len(server.read) == asked
    rows = [json.loads(line) for line in Path("run_read/results.jsonl").read_text().splitlines()]
    assert sorted(row["sample_id"] for row in rows) == sorted(f"c{i}" for i in range(120) if i % 3 < 2)


def test_other_rules_leave_other_replies_unread_and_only_those_are_paid_for(monkeypatch):
    with Models(replies(N)) as server:
        answered(server)
        real = reading.is_for_reader
        monkeypatch.setattr(reading, "is_for_reader", lambda b, s, r, **k: real(b, s, r, **k) and s.id < "c2")
        read("run", "api:oracle", base_url=server.url)
        first = len(server.read)
        monkeypatch.setattr(reading, "is_for_reader", real)
        read("run", "api:oracle", base_url=server.url)
        assert 0 < first < 20 and len(server.read) == 20


def test_a_reader_of_all_replies_changes_nothing_that_the_rules_read(capsys):
    def timid(reply: str, asked: Any) -> object:
        return {"quote": reply, "option": None} if reply in BIRDS[:2] else honest(reply, asked)

    with Models(replies(N), timid) as server:
        arguments = ["run", "birds.csv", "--model", "api:oracle", "--base-url", server.url, "--out", "run"]
        asked = ["--reader", "api:oracle", "--reader-base-url", server.url]
        assert main([*arguments, *asked, "--reader-for", "all"]) == 0
        assert len(server.read) == N
        assert "read by api:oracle in run_read: 10 of 20" in capsys.readouterr().out
        assert main(["read", "run", "--reader", "api:oracle", "--base-url", server.url, "--reader-for", "all"]) == 0
        assert (
            "of 10 replies that the rules read, the reader reads 5 alike, 0 otherwise and 5 not at all"
            in capsys.readouterr().err
        )
        assert len(server.read) == N
    assert load_run("run").metric("accuracy").value == pytest.approx(2 / 3)


def test_every_way_to_name_a_reader_gives_the_same_score(capsys):
    Path("birds.toml").write_text(
        'name = "birds"\n[source]\nfile = "birds.csv"\n[rows]\nid = "id"\nquestion = "question"\n'
        'options = { column = "options", split = "|" }\nanswer = "answer"\n[score]\nreader = "api:oracle"\n'
    )
    with Models(replies(N)) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUDGE_BASE_URL", server.url)
        Path("plan.toml").write_text(
            f'out = "planned"\nmodels = ["api:oracle"]\nbenchmarks = ["birds.csv"]\n'
            f'[defaults]\nbase_url = "{server.url}"\nreader = "api:oracle"\n'
        )
        ours = evaluate("birds.csv", "api:oracle", base_url=server.url, out="ours", reader="api:oracle")
        evaluate("birds.csv", "api:oracle", base_url=server.url, out="later")
        evaluate("birds.csv", "api:oracle", base_url=server.url, out="unread")
        score("later", reader="api:oracle")
        assert main(["run", "birds.toml", "-m", "api:oracle", "--base-url", server.url, "--out", "declared"]) == 0
        assert main(["run", "plan.toml"]) == 0
        (planned,) = Path("planned").glob("*_read")
        assert (
            main(
                ["run", "birds.toml", "-m", "api:oracle", "--base-url", server.url, "--out", "bare", "--reader", "none"]
            )
            == 0
        )
    assert not Path("bare_read").exists()
    for folder in ("ours", "later", "declared", str(planned).removesuffix("_read")):
        assert load_run(folder).metric("accuracy").value == pytest.approx(2 / 3), folder
    assert ours.metric("accuracy").value == pytest.approx(2 / 3)
    (pairing,) = compare("unread", "ours")
    assert any("no model read replies of the baseline, and api:oracle those" in note for note in pairing.notes)
    capsys.readouterr()


def test_a_reader_is_refused_where_it_could_read_nothing(capsys):
    with Models({f"c{i}": BIRDS[i % 4] for i in range(N)}) as server:
        answered(server)
        with pytest.raises(JudgeError, match="the rules read every one"):
            read("run", "api:oracle", base_url=server.url)
        with pytest.raises(JudgeError, match="asks for no quote"):
            read("run", "api:oracle", base_url=server.url, rubric="match")
        with pytest.raises(JudgeError, match="is a reader's"):
            main_judge(server)
    with pytest.raises(UsageError, match="chooses its questions by the answers"):
        evaluate("acuity", "embedded", reader="api:oracle", out="acuity")
    with pytest.raises(JudgeError, match="must not see the gold answer"):
        parse_rubric('template = "{reply} {nonce} {gold}"\n[verdict]\nquote = true\n', "own")
    assert main(["run", "birds.csv", "-m", "api:oracle", "--reader-for", "all"]) != 0
    assert "--reader-for is given without --reader" in capsys.readouterr().err


def main_judge(server: Models) -> None:
    from snellen import judge

    judge("run", "api:oracle", base_url=server.url, rubric="reader")


def test_readings_are_audited_and_their_errors_have_an_effect_on_the_score(capsys):
    """The reader quotes the first of two birds, which is wrong, in every reply; people say so of a random part."""
    write_birds(300)

    def hasty(reply: str, asked: Any) -> object:
        return {"quote": reply.split()[4]} if reply.startswith("It could") else {"quote": None}

    with Models(replies(300), hasty) as server:
        answered(server)
        read("run", "api:oracle", base_url=server.url)
    run = load_run("run")
    assert run.metric("accuracy").value == pytest.approx(1 / 3)
    cases = read_cases(run, by=("stage",))
    assert {case.stratum for case in cases} == {"rules", "reader"}
    sample = draw(drawable(cases)[0], 120, 1, by=("stage",))
    save_audit_sample(run.path, sample)
    read_ones = {row["sample_id"] for row in run.scores().to_pylist() if (row["reason"] or "").startswith("read by a")}
    lines = [
        {
            "sample_id": case.sample_id,
            "repeat": 0,
            "reviewer": "ada",
            "decision": "wrong" if case.sample_id in read_ones else "right",
            "at": 1.0 + number,
            "design": "audit",
        }
        for number, case in enumerate(sample.cases)
    ]
    Path("run/reviews.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["score", "run", "--profile", "audited", "--json"]) == 0
    out = capsys.readouterr()
    audited = next(one for one in json.loads(out.out)["profiles"] if one["profile"] == "audited")
    metrics = {metric["name"]: metric["value"] for metric in audited["metrics"]}
    assert metrics["reader_error"] == 1.0 and metrics["extractor_error"] == 0.0
    assert metrics["reader_effect"] == pytest.approx(1 / 3) and metrics["accuracy"] == pytest.approx(2 / 3, abs=0.02)
    assert "a model read 100 of 300 replies (33.3%); its errors change accuracy by +0.3333" in out.err
    assert {card.judge for card in judge_cards([run])} == {"rules of strict", "api:oracle as a reader"}


def test_the_pages_show_stage_evidence_and_reader(tmp_path):
    with Models(replies(6)) as server:
        write_birds(6)
        evaluate("birds.csv", "api:oracle", base_url=server.url, out="results/run")
        read("results/run", "api:oracle", base_url=server.url)
    assert main(["view", "results", "--export", "pages"]) == 0
    text = "".join(page.read_text() for page in Path("pages").rglob("*.html"))
    assert '<b class="text">A</b> by stage reader' in text and '<mark class="read read-1">robin</mark>' in text
    assert (
        '<b class="text">C</b> by stage verbatim' in text and '<mark class="read read-1">finch</mark>' in text
    )  # the rules
    assert "read by a model</small>" in text  # in the table of samples
    assert main(["report", "results/run"]) == 0
    assert "read by a model: " in Path("results/run/report.html").read_text()
