"""Benchmarks of short clips and lectures: runs by profile, replies on which harnesses differ, moments, and the gain by a lecture."""

from __future__ import annotations

from pathlib import Path

import pytest
from clip_sets_drawn import CLIP_HEADLINES, CLIP_SETS, draw_clip_set
from hypothesis import given
from hypothesis import strategies as st

import snellen
from servers.oracle import OracleServer, SentQuestion
from snellen.benchmarks import registry
from snellen.benchmarks.table.declaration import declaration
from snellen.benchmarks.table.entries import entry, headline
from snellen.benchmarks.table.operations import lettered
from snellen.errors import DataError
from snellen.scoring.rules import video
from snellen.types import Image, Sample, Text, Video
from stopwatch import is_done_within

PROFILES = ("strict", "authors", "vlmevalkit", "lmms-eval")
# set, row, reply, value by profile (None: it has no such profile), by hand from the scripts' descriptions
REPLIES = [
    ("videommmu", 2, "12.504", (0, None, 0, 1)),  # MMMU's script rounds to two decimals
    ("videommmu", 2, "So the result is 12.50", (0, None, 0, 1)),  # strict compares as written
    ("videommmu", 2, "between 12.5 and 13", (0, None, 0, 1)),  # every number is tried
    ("videommmu", 2, "13", (0, None, 0, 0)),
    ("videommmu", 1, "C", (1, None, 1, 1)),
    ("mmvu", 0, "D: heap sort", (1, None, 1, 1)),
    ("mmvu", 0, "It is heap sort.", (1, None, 1, 1)),
    ("mmvu", 1, "It is a kind of B", (0, None, 0, 1)),  # the article is the letter A
    ("mmvu", 1, "B: the search that halves", (0, None, 0, 1)),  # an a inside of words, and a word of option A
    ("mmvu", 0, "B", (0, None, 0, 0)),
    ("tempcompass-mc", 0, "B", (1, 1, 1, 1)),
    ("tempcompass-mc", 0, "B) counter-clockwise", (1, 1, 1, 1)),
    ("tempcompass-mc", 0, "counter-clockwise", (1, 0, 0, 0)),  # left to ChatGPT there
    ("tempcompass-mc", 0, "A. clockwise", (0, 0, 0, 0)),
    ("tempcompass-yn", 1, "not sure", (0, 1, 1, 1)),  # begins with no
    ("tempcompass-yn", 1, "Nobody knows, yes.", (0, 1, 1, 1)),
    ("tempcompass-yn", 0, "Yes, it is.", (1, 1, 1, 1)),
    ("tempcompass-cm", 0, "Caption A: The light goes on.", (1, 1, 1, 1)),
    ("tempcompass-cm", 0, "The light goes on.", (1, 1, 1, 1)),
    ("tempcompass-cm", 0, "Caption A.", (1, 1, 1, 1)),
    ("tempcompass-cm", 0, "A) The light goes on.", (1, 1, 1, 1)),
    ("tempcompass-cm", 0, "The answer is Caption A.", (1, 0, 0, 0)),  # left to ChatGPT there
    ("tempcompass-cm", 1, "2", (None, 1, 1, 1)),  # the name's last word
    ("tempcompass-cm", 1, "Option 1", (0, 0, 0, 0)),
    ("perception-test", 1, "B", (1, None, 1, 1)),
    ("perception-test", 1, "B.", (1, None, 1, 1)),
    ("perception-test", 1, "ball", (1, None, 1, 0)),
    ("egoschema", 1, "(B)", (1, None, 1, 1)),
    ("egoschema", 1, "C does task b", (1, None, 0, 0)),  # the C stands between blanks
]  # fmt: skip


def samples_of(name: str, folder: Path) -> list[Sample]:
    """Return the samples in the order of the drawn rows."""
    samples = list(registry.find(name).samples(snellen.Data(path=draw_clip_set(name, folder))))
    return sorted(samples, key=lambda sample: [*CLIP_SETS].index(name) if name != "videommmu" else sample.id)


def run(name: str, folder: Path, wrong: set[str]) -> snellen.Run:
    """Run a set against an oracle that is right but for the questions that hold one of some texts, `before` without the clip."""

    def reply(request: SentQuestion) -> str:
        right = next(reply for row, reply in CLIP_SETS[name] if row["question"].split("\n")[0] in request.text)
        when = "before" if len(request.images) == 1 else "after"
        is_wrong = any(text in request.text or text in f"{when}: {request.text}" for text in wrong)
        return "I cannot tell at all." if is_wrong else right

    place = draw_clip_set(name, folder)
    with OracleServer(reply) as server:
        return snellen.evaluate(name, "api:oracle", base_url=server.url, data=place, out=folder / "run")


def value(done: snellen.Run, name: str, profile: str = "strict") -> float | None:
    return next(figure.value for figure in done.figures(profile)[profile] if figure.name == name)


@pytest.mark.parametrize("name", CLIP_SETS)
def test_a_repository_with_archives_is_read_run_and_scored_by_every_profile(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, {CLIP_SETS[name][0][0]["question"].split("\n")[0]})
    assert done.meta.totals.ok == len(CLIP_SETS[name]) * (2 if name == "videommmu-knowledge" else 1)
    for profile in done.benchmark.profiles:
        first = done.figures(profile)[profile][0]
        assert first.name == headline(entry(name)) and first.coverage == 1.0
        assert first.value == pytest.approx(CLIP_HEADLINES[name]), profile


@pytest.mark.parametrize(("name", "row", "reply", "values"), REPLIES)
def test_a_reply_has_the_value_that_each_profile_gives_it(
    name: str, row: int, reply: str, values: tuple[float | None, ...], tmp_path: Path
) -> None:
    benchmark, sample = registry.find(name), samples_of(name, tmp_path)[row]
    for profile, expected in zip(PROFILES, values, strict=True):
        assert (profile in benchmark.score) == (expected is not None or profile == "strict")
        if expected is not None:
            assert benchmark.score[profile](sample, reply).value == expected, profile


@pytest.mark.parametrize(
    ("wrong", "after", "before", "gain"),
    [
        ({"before: What is taught in Adaptation 0", "before: What is taught in Adaptation 1"}, 1, 1 / 3, 100.0),
        ({"Adaptation 0?", "before: What is taught in Adaptation 1"}, 2 / 3, 1 / 3, 50.0),  # (2/3 - 1/3) / (1 - 1/3)
        ({"Adaptation 0?", "after: You should watch"}, 0, 2 / 3, -200.0),  # (0 - 2/3) / (1 - 2/3)
        ({"after: You should watch"}, 0, 1, None),  # nothing was missing
    ],
)
def test_the_gain_by_a_lecture_is_the_share_of_what_was_missing_before(
    wrong: set[str], after: float, before: float, gain: float | None, tmp_path: Path
) -> None:
    done = run("videommmu-knowledge", tmp_path, wrong)
    assert (value(done, "adaptation"), value(done, "question only")) == (pytest.approx(after), pytest.approx(before))
    assert value(done, "knowledge gain") == (None if gain is None else pytest.approx(gain))


def test_a_question_is_asked_with_its_picture_alone_and_behind_the_lecture(tmp_path: Path) -> None:
    before, after = samples_of("videommmu-knowledge", tmp_path)[:2]
    assert [type(part) for part in before.prompt.parts] == [Image, Text]
    assert [type(part) for part in after.prompt.parts] == [Video, Image, Text]
    assert (before.id, after.id) == ("before/dev_Art_Theory_0", "after/dev_Art_Theory_0")


def test_each_track_of_video_mmmu_has_its_words_and_discipline(tmp_path: Path) -> None:
    by_id = {sample.id: sample for sample in samples_of("videommmu", tmp_path)}
    texts = {name: str(sample.prompt.parts[-1].text) for name, sample in by_id.items()}  # type: ignore[union-attr]
    assert texts["Perception/dev_Art_Theory_1"].endswith(
        "D. a deck\nPlease ignore the Quiz question in last frame of the video."
    )
    assert "multi-choice question" in texts["Adaptation/dev_Art_Theory_1"].split("\n")[0]
    assert texts["Adaptation/dev_Art_Theory_1"].endswith("\nD. a deck")
    assert "open-ended question" in texts["Adaptation/dev_Computer_Science_2"]
    assert by_id["Adaptation/dev_Computer_Science_2"].meta["discipline"] == "Engineering"
    assert by_id["Perception/dev_Art_Theory_0"].meta["track"] == "Perception"


def test_questions_about_one_clip_are_one_cluster_and_those_about_others_are_not(tmp_path: Path) -> None:
    groups = {sample.id: sample.group for sample in samples_of("videommmu", tmp_path)}
    assert groups["Perception/dev_Art_Theory_0"] == groups["Comprehension/dev_Art_Theory_0"] != ""
    assert groups["Perception/dev_Art_Theory_1"] != groups["Perception/dev_Art_Theory_0"]


def test_open_questions_of_mmvu_are_for_a_judge_and_choices_are_not(tmp_path: Path) -> None:
    samples = samples_of("mmvu", tmp_path)
    assert [sample.kind for sample in samples] == ["choice", "choice", "choice", "judged"]
    assert [sample.meta["discipline"] for sample in samples] == ["Engineering", "Humanities"] * 2


def test_letters_that_all_options_bring_along_are_removed_and_empty_ones_are_none() -> None:
    assert lettered("o", {"o": ["A. one", "B. two"]}, 0) == {"A": "one", "B": "two"}
    assert lettered("o", {"o": ["Caption A: one", "Caption B: two"]}, 0) == {"A": "one", "B": "two"}
    assert lettered("o", {"o": ["Option 1: one", "Option 2: two"]}, 0) == {"A": "one", "B": "two"}
    assert lettered("o", {"o": ["2: one", "1: two"]}, 0) == {"A": "2: one", "B": "1: two"}
    assert lettered("o", {"o": ["B. one", "A. two"]}, 0) == {"A": "B. one", "B": "A. two"}
    assert lettered("o", {"o": ["A. one", "two"]}, 0) == {"A": "A. one", "B": "two"}
    assert lettered("o", {"o": {"A": "one", "B": "", "C": "two"}}, 0) == {"A": "one", "C": "two"}


@pytest.mark.parametrize(
    ("reply", "moment"),
    [
        ("The event happens in the 24.3 - 30.4 seconds.", (24.3, 30.4)),
        ("from 30 to 24", (24, 30)),  # swapped
        ("It starts at 00:01:05 - 01:10, or 3 - 4", (65, 70)),  # clock times come first
        ("At 0:05 it starts, at 0:09 it ends", (5, 9)),
        ("It starts at 7.5 s!\nIt ends at 9 s", (7.5, 9)),
        ("It starts at 7.5 s and ends at 9 s", None),  # one number of each sentence
        ("2s - 6s", (2, 6)),
        ("Room 3 - 4 is shown.\nThe event happens in 5 - 6.", (5, 6)),  # sentences that say so come first
        ("A specific example is : 20.8 - 30.0 seconds", None),
        ("", None),
    ],
)
def test_a_moment_is_read_as_lmms_eval_reads_it(reply: str, moment: tuple[float, float] | None) -> None:
    assert video.moment_in(reply) == moment


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [((1, 3), (2, 6), 1 / 5), ((0, 4), (0, 4), 1), ((0, 1), (2, 3), 0), ((2, 2), (2, 2), 0), ((2, 4), (1, 5), 1 / 2)],
)
def test_moments_overlap_by_their_shared_time_over_the_whole(
    first: tuple[int, int], second: tuple[int, int], share: float
) -> None:
    assert video.hull_overlap(first, second) == share


@pytest.mark.parametrize(
    ("reply", "gold", "right"),
    [
        ("Thus the answer is Oxygen.", "oxygen", True),
        ("1,200 kg in total", "1200", True),
        ("x = 3.14159", "3.14", True),
        ("It is b", "b", True),
        ("It is about", "b", False),  # one character needs a blank beside it
        ("1.2e3", "1200", True),
        ("The value is -5", "5", False),
        ("", "a", False),
    ],
)
def test_open_answers_are_compared_as_mmmu_compares_them(reply: str, gold: str, right: bool) -> None:
    assert video.mmmu_open_right(reply, gold) is right


@given(st.text(max_size=80))
def test_no_reply_breaks_a_rule(reply: str) -> None:
    options = {"A": "Caption A: a man", "B": ""}
    assert video.named_caption(reply, options) in (None, "A", "B")
    assert video.mmvu_right(reply, "A", "a man") in (True, False)
    assert video.mmmu_open_right(reply, "12.5") in (True, False)
    moment = video.moment_in(reply)
    assert moment is None or moment[0] <= moment[1]


@pytest.mark.parametrize("part", ["1", "1.", "1 ", "1,111", "to ", "start 1\n", "is ", "1e", "-1", "0:00 ", "- "])
def test_a_long_reply_is_read_in_time_that_grows_with_its_length(part: str) -> None:
    reply = part * (60_000 // len(part))
    assert is_done_within(
        3,
        lambda: (video.moment_in(reply), video.mmmu_open_right(reply, "12.5"), video.mmvu_right(reply, "A", "a man")),
    )


def test_a_gain_names_two_figures_that_are_there() -> None:
    rows = {"question": "q", "answer": "a"}
    for gain, fault in ((["after", "before"], "names 'before'"), (["gain", "after"], "gain of itself")):
        reports = [{"name": "after", "headline": True}, {"name": "gain", "gain": gain}]
        with pytest.raises(DataError, match=fault):
            declaration({"name": "x", "source": {"file": "x.csv"}, "rows": rows, "report": reports}, "x.toml")
