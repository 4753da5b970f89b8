"""What the progress line says while a run goes on."""

from __future__ import annotations

from snellen.engine.progress import Progress
from snellen.types import Failure, Record, Response, Score


def going_on(before: int) -> Progress:
    progress = Progress("run", 100, before, 4)
    for number in range(4):
        record = Record(f"s{number}", "ok", Response("A"))
        progress.add(record)
        progress.add_score(record, Score(float(number > 0), "A", "correct" if number else "wrong"))
    return progress


def test_the_line_of_a_new_run_gives_the_score_so_far_with_its_interval():
    line = going_on(0).line()
    assert "run: 4/100" in line and "score 0.750 [0.301 – 0.954] W ·" in line


def test_the_line_of_a_resumed_run_says_that_its_score_is_that_of_the_new_answers():
    line = going_on(50).line()
    assert "run: 54/100" in line and "score 0.750 [0.301 – 0.954] W of 4 new ·" in line


def test_the_line_says_where_not_every_answer_was_read_on_the_way():
    progress = going_on(0)
    progress.add(Record("s5", "ok", Response("a very long reply")))
    assert "W of 4 read so far ·" in progress.line()


def test_a_sample_that_was_left_out_as_failed_counts_once_it_is_answered_in_the_last_pass():
    progress = Progress("run", 3, 0, 4)
    progress.leaves_out_failed = True
    answered, failed = Record("s0", "ok", Response("A")), Record("s1", "error", error=Failure("server", "HTTP 500"))
    zero, one = Score(0.0, None, "error"), Score(1.0, "A", "correct")
    progress.add(answered)
    progress.add_score(answered, one)
    progress.add(failed)
    progress.add_score(failed, zero)
    assert "score 1.000" in progress.line() and "W of 1 with a score" in progress.line()
    progress.recover((failed, zero), answered, Score(0.0, "B", "wrong"))
    assert progress.scored == 2 and "score 0.500" in progress.line() and "with a score" not in progress.line()
