"""Ten times the reply takes about ten times as long to read, whatever a model repeats; and never a second."""

from __future__ import annotations

from typing import Any

import pytest
from every_reader import EXTRACTORS, FURTHER, Reader, every_reader, rule
from hostile_patterns import PATTERNS, Pattern

from snellen.benchmarks import registry
from snellen.scoring.extract import read
from snellen.scoring.replies.reply import LONGEST
from stopwatch import cpu_times, is_done_within

SHORT, LONG = 16_000, 160_000
MOST, LONGEST_S = 12, 1.0
NOISE_S = 0.005
"""CPU seconds that a clock tick, a collection of garbage or a neighbour's cache may add to a quick reading."""
READERS = every_reader()
ROUNDS = 8


def cpu_s(reader: Reader, reply: str) -> float:
    return cpu_times(lambda: reader(reply), 1)[0]


def disproportion(reader: Reader, pattern: Pattern) -> str | None:
    """Why the reader is not linear in such a reply, None where it is.

    The quickest of several long readings is held against the slowest short one, since other work only adds time; a
    reader that takes the square of the length would need a hundred times as long.
    """
    short, long = pattern.of(SHORT), pattern.of(LONG)
    quick_long = cpu_s(reader, long)
    if quick_long <= MOST * NOISE_S:
        return None
    slow_short = cpu_s(reader, short)
    for _ in range(ROUNDS):
        if quick_long <= MOST * max(slow_short, NOISE_S) and quick_long < LONGEST_S:
            return None
        slow_short, quick_long = max(slow_short, cpu_s(reader, short)), min(quick_long, cpu_s(reader, long))
    return f"{pattern}: {slow_short:.4f} s for {SHORT:,} characters, {quick_long:.4f} s for {LONG:,}"


def patterns_for(name: str) -> list[Pattern]:
    """All patterns; of readers that are built on an extractor a quarter, which differs from reader to reader."""
    if name.startswith("extract"):
        same = [other for other in EXTRACTORS if EXTRACTORS[other][0] == EXTRACTORS[name.removeprefix("extract ")][0]]
        return PATTERNS[same.index(name.removeprefix("extract ")) :: len(same)]
    quarter = " strict " in name or name.partition(" ")[0] in FURTHER
    return PATTERNS[list(READERS).index(name) % 4 :: 4] if quarter else PATTERNS


@pytest.mark.parametrize("name", READERS)
def test_a_long_reply_is_read_in_proportion_to_its_length(name):
    faults = [fault for pattern in patterns_for(name) if (fault := disproportion(READERS[name], pattern)) is not None]
    assert faults == []


def test_every_registered_benchmark_is_among_the_readers():
    """A benchmark that shares all its rules with others stands under the first of their names."""
    families = {name.split()[0].partition("/")[0] for name in READERS}
    tried = {rule(score) for name in registry.names() if name.partition("/")[0] in families for score in rules(name)}
    for name in registry.names():
        if name.partition("/")[0] not in families:
            assert {rule(score) for score in rules(name)} <= tried, name


def rules(name: str) -> list[Any]:
    """The scorers of a benchmark, by any of its profiles."""
    return list(registry.find(name).score.values())


def test_a_reply_that_says_more_than_is_read_says_so_in_its_reason():
    filler = "The bird sits on a branch and looks to the side. " * 2_000
    long = filler + "\nAnswer: B"
    reading = read("choice", long, options={"A": "gull", "B": "kite"})
    assert (reading.value, reading.reason) == (
        "B",
        f"read at head and tail: {len(long) - LONGEST:,} of {len(long):,} characters were left out",
    )
    thought = read("choice", f"<think>{filler}</think>Answer: B", options={"A": "gull", "B": "kite"})
    at = len(f"<think>{filler}</think>Answer: ")
    assert thought == ("B", None, (), "declared", ((at, at + 1),))
    unread = read("count", filler)
    assert unread.value is None
    assert unread.reason.startswith("no answer; read at head and tail: ")


@pytest.mark.parametrize("words", ["one " + "hundred " * 400, "十" + "万" * 200, "two " + "thousand hundred " * 300])
def test_a_number_that_no_float_holds_is_read_without_a_failure(words):
    for kind in ("number", "count"):
        reading = read(kind, words, question="How many metres?")
        assert (reading.value is None) != (reading.reason is None)


def test_fillers_and_blanks_before_a_short_sentence_take_no_time():
    """Six hundred characters once took longer than anybody can wait: every run of blanks was divided in every way."""
    reply = ("so" + " " * 90) * 6
    assert is_done_within(1, lambda: read("truth", reply, question="Is the bird a red kite?"))
