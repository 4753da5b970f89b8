"""What the progress line says while a run goes on."""

from __future__ import annotations

from snellen.engine.progress import Progress
from snellen.types import Record, Response, Score


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
