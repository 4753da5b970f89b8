"""reviews.jsonl: every decision once, whoever writes, whatever is killed, whatever is damaged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import msgspec
import pytest

from snellen.errors import DataError, RunError, UsageError
from snellen.runs.reviews.decisions import VerdictReview, decision_id, disputed, settled, standing
from snellen.runs.reviews.journal import ReviewJournal, read_reviews_of


def review(sample_id="q1", reviewer="ada", decision="right", **fields):
    fields = {"design": "queue", "at": 1.0, "verdict": "correct", **fields}
    return VerdictReview(sample_id=sample_id, reviewer=reviewer, decision=decision, **fields)


def lines(run: Path) -> list[bytes]:
    return (run / "reviews.jsonl").read_bytes().splitlines()


def test_a_decision_has_the_documented_fields_and_stands_beside_the_results(tmp_path):
    ReviewJournal(tmp_path).append(review("q1", "ada", "gold-wrong", note="it is a rook", digest="d", id="a1"))
    (line,) = lines(tmp_path)
    row = msgspec.json.decode(line)
    assert {name: row[name] for name in ("sample_id", "reviewer", "decision", "at", "design", "note", "digest")} == {
        "sample_id": "q1",
        "reviewer": "ada",
        "decision": "gold-wrong",
        "at": 1.0,
        "design": "queue",
        "note": "it is a rook",
        "digest": "d",
    }


def test_the_last_decision_of_a_reviewer_stands_and_no_line_is_rewritten(tmp_path):
    journal = ReviewJournal(tmp_path)
    journal.append(review(decision="right"))
    before = lines(tmp_path)
    journal.append(review(decision="wrong"))
    journal.append(review(reviewer="bob", decision="right"))
    assert lines(tmp_path)[:1] == before
    reviewers = journal.standing["q1", 0]
    assert {name: each.decision for name, each in reviewers.items()} == {"ada": "wrong", "bob": "right"}
    assert disputed(reviewers) and settled(reviewers) is None


def test_a_withdrawn_decision_stands_no_longer_but_its_line_stays(tmp_path):
    journal = ReviewJournal(tmp_path)
    journal.append(review())
    journal.append(review(decision=None))
    assert journal.standing == {} == standing(read_reviews_of(tmp_path))
    assert len(lines(tmp_path)) == 2


def test_a_decision_that_is_posted_again_is_there_once(tmp_path):
    first, second = ReviewJournal(tmp_path), ReviewJournal(tmp_path)
    posted = review(id=decision_id("client-7", review()))
    assert first.append(posted) is True
    assert second.append(posted) is False
    assert ReviewJournal(tmp_path).append(posted) is False
    other = review(decision="wrong")
    assert second.append(review(decision="wrong", id=decision_id("client-7", other))) is True
    assert first.refresh() == 1
    assert [each.decision for each in first.reviews] == ["right", "wrong"]


@pytest.mark.parametrize("cut", [1, 5, 40, 120])
def test_a_torn_last_line_is_named_and_costs_no_decision_that_comes_after_it(tmp_path, cut):
    journal = ReviewJournal(tmp_path)
    for number in range(3):
        journal.append(review(f"q{number}"))
    path = tmp_path / "reviews.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    again = ReviewJournal(tmp_path)
    whole = 3 if cut == 1 else 2  # without its line end alone the decision is whole
    assert len(again.reviews) == whole
    assert bool(again.faults()) == (cut > 1)
    again.append(review("q9"))
    again.append(review("q10"))
    reread = ReviewJournal(tmp_path)
    assert [each.sample_id for each in reread.reviews] == [*(f"q{n}" for n in range(whole)), "q9", "q10"]
    assert [each.sample_id for each in again.reviews] == [each.sample_id for each in reread.reviews]


def test_a_flipped_bit_is_named_by_line_and_sample_and_the_others_count(tmp_path):
    journal = ReviewJournal(tmp_path)
    for number in range(5):
        journal.append(review(f"q{number}", note="clear"))
    path = tmp_path / "reviews.jsonl"
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b'"right"', damaged.index(b'"q2"')) + 2] ^= 1
    path.write_bytes(damaged)
    again = ReviewJournal(tmp_path)
    assert [each.sample_id for each in again.reviews] == ["q0", "q1", "q3", "q4"]
    assert "line 3 (sample q2): does not match its checksum" in "\n".join(again.faults())


def test_a_line_that_another_program_wrote_counts_and_one_with_another_word_is_named(tmp_path):
    (tmp_path / "reviews.jsonl").write_text(
        '{"sample_id": "a", "reviewer": "ada", "decision": "right", "at": "2026-05-01T10:00:00Z", "design": "audit"}\n'
        "\n"
        '{"sample_id": "b", "reviewer": "ada", "decision": "maybe", "at": 2, "design": "audit"}\n'
        "[1, 2]\n"
        '{"sample_id": "c", "reviewer": "", "decision": "wrong", "at": 3, "design": "audit"}\n'
        '{"sample_id": "d", "reviewer": "ada", "decision": "wrong", "at": 3, "design": "audit", "mood": "good"}'
    )
    journal = ReviewJournal(tmp_path)
    assert [(each.sample_id, each.design) for each in journal.reviews] == [("a", "audit"), ("d", "audit")]
    assert journal.reviews[0].seconds == 1777629600.0
    text = "\n".join(journal.faults())
    assert "line 3 (sample b)" in text and "line 4" in text and "line 5 (sample c)" in text
    journal.append(review("e"))
    assert [each.sample_id for each in ReviewJournal(tmp_path).reviews] == ["a", "d", "e"]


def test_a_line_of_any_length_is_passed_over_in_bounded_memory(tmp_path):
    journal = ReviewJournal(tmp_path)
    journal.append(review("a"))
    with (tmp_path / "reviews.jsonl").open("ab") as file:
        file.write(b'{"sample_id": "' + b"x" * (3 << 20) + b'"}\n')
    journal.append(review("b"))
    assert [each.sample_id for each in journal.reviews] == ["a", "b"]
    assert "line 2" in "\n".join(ReviewJournal(tmp_path).faults())


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_a_journal_that_leads_elsewhere_is_refused(tmp_path, kind):
    target = tmp_path / "secret"
    target.write_text("keep")
    run = tmp_path / "run"
    run.mkdir()
    path = run / "reviews.jsonl"
    {"link": lambda: path.symlink_to(target), "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()
    with pytest.raises(RunError, match="expected a regular file"):
        ReviewJournal(run)
    assert target.read_text() == "keep"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reviewer": " "}, "the reviewer is"),
        ({"reviewer": "a\x1b[2J"}, "printable"),
        ({"sample_id": ""}, "sample_id is empty"),
        ({"note": "x" * 2_001}, "note has more than 2,000 characters"),
        ({"verdict": "perhaps"}, "verdict is 'perhaps'"),
        ({"repeat": -1}, "repeat is -1"),
        ({"correction": "a rook"}, "needs the decision gold-wrong"),
    ],
)
def test_an_invalid_decision_is_refused_and_nothing_is_written(tmp_path, fields, message):
    with pytest.raises((DataError, UsageError), match=message):
        ReviewJournal(tmp_path).append(review(**fields))
    assert not (tmp_path / "reviews.jsonl").exists()


WRITER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from snellen.runs.reviews.decisions import VerdictReview
    from snellen.runs.reviews.journal import ReviewJournal
    run, who, start, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    journal = ReviewJournal(run)
    for number in range(start, count):
        journal.append(VerdictReview(sample_id=f"q{number}", reviewer=who, decision="right", at=1.0, design="queue", id=f"{who}-{number}"))
        print(number, flush=True)
    """
)


def writer(run, who, start=0, count=40):
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(run), who, str(start), str(count)], stdout=subprocess.PIPE, text=True
    )


def test_concurrent_reviewers_and_kill_9_lose_nothing_and_write_nothing_twice(tmp_path):
    killed, steady = writer(tmp_path, "ada", count=100_000), writer(tmp_path, "bob")
    acknowledged = [int(killed.stdout.readline()) for _ in range(15)]
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    acknowledged += [int(line) for line in killed.stdout.read().split("\n")[:-1]]
    again = writer(tmp_path, "ada", start=0, count=max(acknowledged) + 5)  # posts all of it again
    assert again.wait() == 0 and steady.wait() == 0
    journal = ReviewJournal(tmp_path)
    names = [(each.reviewer, each.sample_id) for each in journal.reviews]
    assert len(names) == len(set(names))
    assert {name for who, name in names if who == "bob"} == {f"q{n}" for n in range(40)}
    assert {f"q{n}" for n in range(max(acknowledged) + 5)} <= {name for who, name in names if who == "ada"}
    assert not journal.faults()


FOREIGN = {"sample_id": "q1", "reviewer": "ada", "decision": "right", "at": "2026-01-01T00:00:00Z", "design": "audit"}


@pytest.mark.parametrize("begin", ["", "\ufeff"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"note": None, "digest": None, "at": None},
        {"design": None, "repeat": None, "verdict": None, "profile": None, "id": None},
        {"note": "n" * 5_000, "digest": "d" * 500},
        {"sample_id": 17, "at": 1_700_000_000},
        {"reviewer": "ada ", "tool": {"name": "pandas"}},
    ],
)
def test_a_line_of_another_program_counts_with_nulls_numbers_and_long_notes(tmp_path, fields, begin, end):
    path = tmp_path / "reviews.jsonl"
    path.write_text(begin + msgspec.json.encode({**FOREIGN, **fields}).decode() + end, encoding="utf-8", newline="")
    journal = ReviewJournal(tmp_path)
    assert [(each.sample_id, each.reviewer, each.decision) for each in journal.reviews] == [
        (str(fields.get("sample_id", "q1")), "ada", "right")
    ]
    assert journal.faults() == []
    journal.append(review("q2"))
    assert len(read_reviews_of(tmp_path)) == 2


@pytest.mark.parametrize(
    "line", ['{"sample_id": "a", "reviewer": "x"}', '{"sample_id": true, "decision": "right"}', "[]", "5"]
)
def test_a_line_without_a_decision_is_named_and_hides_no_other(tmp_path, line):
    (tmp_path / "reviews.jsonl").write_text(f"{line}\n{msgspec.json.encode(FOREIGN).decode()}\n")
    journal = ReviewJournal(tmp_path)
    assert len(journal.reviews) == 1 and "line 1" in "".join(journal.faults())
