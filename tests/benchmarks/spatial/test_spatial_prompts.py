"""How the questions of the spatial benchmarks are put: order of text and pictures, frames, limits, words."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from benchmarks.spatial import official_drawn as drawn
from snellen.benchmarks.base import Data
from snellen.benchmarks.spatial import SPATIAL, prompts
from snellen.benchmarks.spatial.prompts import frames
from snellen.benchmarks.spatial.prompts import words as wordings
from snellen.benchmarks.spatial.question import ShownMedia, SpatialQuestion
from snellen.benchmarks.spatial.tasks import TASKS
from snellen.errors import DataError, UsageError
from snellen.sources import BytesBlob, Unreadable
from snellen.types import Generation, Image, Prompt, Sample, Text, Video

LMMS, KIT = "lmms-eval", "vlmevalkit"
BOTH = (KIT, LMMS)
OPTIONS = {"A": "left", "B": "right"}
LIMITS = {
    "vsi-bench": 16,
    "mmsi-bench": 2048,
    "mindcube-tiny": 4096,
    "viewspatial": None,
    "site": 1024,
    "blink": 1024,
    "3dsrbench": 4096,
    "embspatial": 1024,
    "mmsi-video-bench": 1024,
    "omnispatial": 8192,
    "spar-bench": 100,
    "vsi-debiased": 16,
}
IN_FRONT = ("viewspatial", "blink", "3dsrbench", "embspatial", "omnispatial", "spar-bench", "mmsi-bench")


def pictures(count: int, name: str = "p") -> tuple[BytesBlob, ...]:
    return tuple(BytesBlob(f"{name}{at}", b"") for at in range(count))


def put(name: str, form: str = KIT, shown: ShownMedia = ShownMedia(pictures(1)), **row: object) -> Prompt:
    asked = SpatialQuestion(**{"id": "q", "text": "Where?", "gold": "A", "kind": "choice", "options": OPTIONS, **row})
    return prompts.compose(how(name, form), TASKS[name], asked, shown)


def how(name: str, form: str = KIT, **options: str) -> prompts.SpatialPrompting:
    given = {"prompting": form, **{key.replace("_", "-"): value for key, value in options.items()}}
    return prompts.prompt_settings(Data(options=given), TASKS[name])


def outline(prompt: Prompt) -> list[str]:
    """Texts as they are, a picture by its name, a video by the rule that picks its frames."""
    return [
        part.text if isinstance(part, Text) else part.pick.name if isinstance(part, Video) else part.blob.key
        for part in prompt.parts
    ]


def text_of(prompt: Prompt) -> str:
    (text,) = [part.text for part in prompt.parts if isinstance(part, Text)]
    return text


def samples(name: str, path: Path, **options: str) -> list[Sample]:
    return list(SPATIAL[name].samples(Data(path, options=options)))


def ordered(text: str, *pieces: str) -> bool:
    """Whether the pieces stand in the text in this order."""
    places = [text.find(piece) for piece in pieces]
    return -1 not in places and places == sorted(places)


# Order


@pytest.mark.parametrize("form", BOTH)
@pytest.mark.parametrize("name", IN_FRONT)
def test_pictures_stand_in_order_before_one_text(name: str, form: str) -> None:
    found = put(
        name, form, ShownMedia(pictures(3)), pieces={"choices": "A. left\nB. right", "prompt": "Where?\n(A) left"}
    )
    assert outline(found)[:3] == ["p0", "p1", "p2"]
    assert "Where?" in text_of(found)


@pytest.mark.parametrize("form", BOTH)
@pytest.mark.parametrize("name", ["vsi-bench", "vsi-debiased", "site"])
def test_the_frames_of_a_video_stand_before_one_text(name: str, form: str) -> None:
    found = put(name, form, ShownMedia(video=BytesBlob("film.mp4", b"")))
    rule = {LMMS: "lmms-eval:32", KIT: "vlmevalkit-uniform:32" if name == "site" else "vlmevalkit-tail:32"}[form]
    assert outline(found)[0] == rule
    assert len(found.parts) == 2


@pytest.mark.parametrize("form", BOTH)
@pytest.mark.parametrize("name", TASKS)
def test_every_drawn_question_shows_its_pictures_its_words_and_its_options(
    name: str, form: str, tmp_path: Path
) -> None:
    for sample in samples(name, drawn.draw(name, tmp_path), prompting=form):
        assert any(isinstance(part, Image | Video) for part in sample.prompt.parts)
        text = "".join(part.text for part in sample.prompt.parts if isinstance(part, Text))
        assert all(option in text for option in sample.options.values())
        assert not any(place in text for place in ("{", "}", "[[", "]]", "<image>", "<video>"))


@pytest.mark.parametrize("form", BOTH)
def test_mindcube_puts_pictures_at_their_marks_and_drops_those_beyond(form: str) -> None:
    pieces = {"input_prompt": "Look.\n<image> then <image>\nWhere?"}
    assert outline(put("mindcube-tiny", form, ShownMedia(pictures(3)), pieces=pieces)) == [
        "Look.",
        "p0",
        "then",
        "p1",
        "Where?",
    ]


def test_mindcube_without_its_own_prompt_shows_the_pictures_in_front() -> None:
    assert outline(put("mindcube-tiny", shown=ShownMedia(pictures(2)))) == ["p0", "p1", "Where?"]


@pytest.mark.parametrize("form", BOTH)
def test_site_puts_all_pictures_in_front_where_neither_question_nor_options_have_a_mark(form: str) -> None:
    found = put("site", form, ShownMedia(pictures(2)))
    assert outline(found)[:2] == ["p0", "p1"]
    assert text_of(found).startswith("Question: Where?\nOptions:\nA: left\nB: right\n")


@pytest.mark.parametrize("form", BOTH)
def test_site_has_marks_in_options_too(form: str) -> None:
    found = outline(put("site", form, ShownMedia(pictures(2)), options={"A": "<image>", "B": "<image>"}))
    assert found[:4] == ["Question: Where?\nOptions:\nA:", "p0", "B:", "p1"]


def test_pictures_beyond_the_marks_of_site_stand_before_the_last_text_in_lmms_eval_and_go_in_vlmevalkit() -> None:
    shown = ShownMedia(pictures(3))
    assert outline(put("site", LMMS, shown, text="In <image> where?"))[:4] == ["Question: In", "p0", "p1", "p2"]
    assert outline(put("site", KIT, shown, text="In <image> where?"))[1:-1] == ["p0"]


def test_lmms_eval_loses_the_text_between_marks_that_have_no_picture_and_vlmevalkit_keeps_it() -> None:
    asked = "In <image> and <image> where?"
    assert outline(put("site", LMMS, text=asked))[:2] == ["Question: In", "p0"]
    assert not any("and" in part for part in outline(put("site", LMMS, text=asked))[:2])
    assert outline(put("site", KIT, text=asked))[:3] == ["Question: In", "p0", "and"]


@settings(max_examples=150, deadline=None)
@given(
    marks=st.integers(0, 6),
    count=st.integers(1, 6),
    form=st.sampled_from(BOTH),
    name=st.sampled_from(["site", "mindcube-tiny"]),
)
def test_whatever_the_marks_pictures_keep_their_order_and_none_is_shown_twice(
    marks: int, count: int, form: str, name: str
) -> None:
    asked = "Where? " + " ".join(f"t{at} <image>" for at in range(marks)) + " end"
    found = put(name, form, ShownMedia(pictures(count)), text=asked, pieces={"input_prompt": asked})
    seen = [part.blob.key for part in found.parts if isinstance(part, Image)]
    if name == "mindcube-tiny" and not marks:
        assert isinstance(found.parts[0].blob, Unreadable)
        return
    every = name == "site" and (not marks or form == LMMS)
    assert seen == [f"p{at}" for at in range(count if every else min(count, marks))]
    texts = "".join(part.text for part in found.parts if isinstance(part, Text))
    assert "<image>" not in texts
    assert "end" in texts


def test_a_question_without_any_mark_for_its_pictures_fails_rather_than_being_asked_blind() -> None:
    with pytest.raises(DataError, match="no mark in its text says where"):
        put("mindcube-tiny", pieces={"input_prompt": "Where?"}).parts[0].blob.read()


def test_a_picture_that_is_not_there_is_never_dropped() -> None:
    gone = Unreadable("gone.png", "gone.png is not there")
    shown = ShownMedia((*pictures(1), gone))
    for name in ("site", "mindcube-tiny"):
        asked = "In <image> where?"
        found = put(name, shown=shown, text=asked, pieces={"input_prompt": asked})
        assert gone in [part.blob for part in found.parts if isinstance(part, Image)]


# MMSI-Video

CLIPS = ShownMedia(pictures(1, "r"), segments=(pictures(2, "a"), pictures(1, "b")))
LINE_END = {KIT: ["\n"], LMMS: []}
"""What the kit sends in front where a row has no system text."""
PIECES = {
    "system_prompt": "Watch.",
    "task_prompt": "One <video> two <video>",
    "user_prompt": " see <image>.",
    "format_prompt": "Say.",
}


@pytest.mark.parametrize(("form", "begin"), [(KIT, ["Watch.\nOne "]), (LMMS, ["Watch.", "One "])])
def test_clips_and_reference_pictures_stand_at_their_marks_behind_the_text_of_the_system(
    form: str, begin: list[str]
) -> None:
    found = outline(put("mmsi-video-bench", form, CLIPS, pieces=PIECES))
    assert found == [*begin, "a0", "a1", " two ", "b0", " see ", "r0", ".Say."]


def test_marks_that_do_not_fit_stop_vlmevalkit_and_are_passed_over_by_lmms_eval() -> None:
    short = {**PIECES, "user_prompt": ""}
    assert outline(put("mmsi-video-bench", LMMS, CLIPS, pieces=short))[-2:] == ["b0", "Say."]
    found = put("mmsi-video-bench", KIT, CLIPS, pieces=short)
    with pytest.raises(DataError, match="marks 2 clips and 0 pictures, and it has 2 and 1"):
        next(part.blob for part in found.parts if isinstance(part, Image)).read()


@settings(max_examples=100, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=4), form=st.sampled_from(BOTH), count=st.integers(1, 60)
)
def test_frames_of_clips_are_those_of_the_harness_formula(lengths: list[int], form: str, count: int) -> None:
    shown = ShownMedia(segments=tuple(pictures(length, f"c{at}-") for at, length in enumerate(lengths)))
    asked = SpatialQuestion(id="q", text="x", gold="A", kind="choice", pieces={"task_prompt": "<video>" * len(lengths)})
    found = prompts.compose(
        how("mmsi-video-bench", form, sample_frames=str(count)), TASKS["mmsi-video-bench"], asked, shown
    )
    rule = frames.mmsi_video_lmms_eval if form == LMMS else frames.mmsi_video_vlmevalkit
    expected = [f"c{clip}-{at}" for clip, places in enumerate(rule(lengths, count)) for at in places]
    assert outline(found) == [*LINE_END[form], *expected]
    assert form == LMMS or len(expected) <= count


@pytest.mark.parametrize(
    ("video_fps", "asked", "expected"),
    [
        # 9 frames at 2 a second are 4.5 seconds: 4 frames, the 0th, 2nd, 4th and 6th over both clips.
        ("2", "1fps", ["c0-0", "c0-2", "c0-4", "c1-1"]),
        ("[2.0]", "1fps", ["c0-0", "c0-2", "c0-4", "c1-1"]),
        ("[2.0, 2.0]", "0.1fps", ["c0-0"]),
        # Twice as many as there are: each once.
        ("2", "4fps", [*(f"c0-{at}" for at in range(5)), *(f"c1-{at}" for at in range(4))]),
    ],
)
def test_frames_of_clips_by_time_go_by_the_rate_of_the_row(video_fps: str, asked: str, expected: list[str]) -> None:
    shown = ShownMedia(segments=(pictures(5, "c0-"), pictures(4, "c1-")))
    pieces = {"task_prompt": "<video><video>", "video_fps": video_fps}
    question = SpatialQuestion(id="q", text="x", gold="A", kind="choice", pieces=pieces)
    settings = how("mmsi-video-bench", sample_frames=asked)
    assert outline(prompts.compose(settings, TASKS["mmsi-video-bench"], question, shown)) == [*LINE_END[KIT], *expected]
    for wrong in ("", "0", "nan", "[1, 2]"):
        question = structs.replace(question, pieces={**pieces, "video_fps": wrong})
        found = prompts.compose(settings, TASKS["mmsi-video-bench"], question, shown)
        with pytest.raises(DataError, match="no single video_fps"):
            next(part.blob for part in found.parts if isinstance(part, Image)).read()


# Words


def test_white_space_around_a_question_goes_where_both_harnesses_take_it_off() -> None:
    assert text_of(put("mmsi-bench", LMMS, text=" Where?\n")).startswith("Where?\nOptions:")
    assert text_of(put("site", text=" Where?\n")).startswith("Question: Where?\nOptions:")


def test_vsi_bench_has_a_heading_over_its_options_in_lmms_eval_only() -> None:
    shown = ShownMedia(video=BytesBlob("film", b""))
    assert "\nOptions:\nA. left\nB. right\n" in text_of(put("vsi-bench", LMMS, shown))
    assert "Options" not in text_of(put("vsi-bench", KIT, shown))
    assert "Where?\nA. left\nB. right\n" in text_of(put("vsi-bench", KIT, shown))


def test_numbers_of_vsi_bench_are_asked_for_as_a_word_by_lmms_eval_and_as_a_decimal_by_vlmevalkit() -> None:
    shown, row = ShownMedia(video=BytesBlob("film", b"")), {"kind": "number", "options": {}}
    assert "one word or phrase" in text_of(put("vsi-bench", LMMS, shown, **row))
    assert "decimal" in text_of(put("vsi-bench", KIT, shown, **row))


@pytest.mark.parametrize("form", BOTH)
def test_mmsi_bench_lists_options_on_one_line_unless_the_question_does(form: str) -> None:
    inside = {"text": "Where? Options: A: left, B: right"}
    assert text_of(put("mmsi-bench", form)).splitlines()[1].startswith("Options: A: left, B: right")
    assert text_of(put("mmsi-bench", form, **inside)).count("left") == 1
    assert text_of(put("mmsi-bench", form)).endswith("as in ``A``.")
    words_of_options = {"text": "Is it left or right of me?"}
    assert "Options: A: left" in text_of(put("mmsi-bench", form, **words_of_options))


def test_hints_stand_first_in_vlmevalkit_and_their_line_goes_where_there_is_none() -> None:
    for name in ("mmsi-bench", "blink"):
        assert text_of(put(name, pieces={"hint": "up"})).startswith("Hint: up\n")
        assert "Hint" not in text_of(put(name))


def test_letters_come_first_in_lmms_eval_as_many_as_there_are_options() -> None:
    for name in ("blink", "embspatial"):
        assert "A, B," in text_of(put(name, LMMS)).splitlines()[0]
    assert ordered(text_of(put("blink", LMMS, pieces={"prompt": "Own?\n(A) x"})), "A, B", "Own?", "(A) x")
    assert text_of(put("embspatial", LMMS)).endswith("Where?\nA) left\nB) right")
    assert ordered(text_of(put("embspatial", KIT)), "Question: Where?", "Options:", "A: left")


def test_a_table_row_of_blink_without_its_prompt_still_shows_its_options_in_lmms_eval() -> None:
    assert text_of(put("blink", LMMS)).endswith("Where?\n(A) left\n(B) right")


@pytest.mark.parametrize("form", BOTH)
def test_spar_bench_begins_with_a_blank_line_and_asks_by_kind(form: str) -> None:
    asked = {kind: text_of(put("spar-bench", form, kind=kind)) for kind in ("choice", "number", "short")}
    boxes = text_of(put("spar-bench", form, groups={"question_type": "position_matching"}))
    assert all(text.startswith("\nWhere?") for text in (*asked.values(), boxes))
    assert asked["short"] == ("\nWhere?" if form == KIT else "\nWhere?\n\n")
    assert "word or phrase" in asked["number"]
    assert ordered(boxes, "Where?", "0 to 1000", "letter")
    assert "1000" not in asked["choice"]


@pytest.mark.parametrize("form", BOTH)
def test_omnispatial_asks_for_steps_and_a_last_line_before_the_question(form: str) -> None:
    assert ordered(text_of(put("omnispatial", form)), "4. ", "`Answer: X`", "Where?", "A. left\nB. right")


@pytest.mark.parametrize("form", BOTH)
def test_viewspatial_asks_for_nothing_but_the_option(form: str) -> None:
    text = text_of(put("viewspatial", form, pieces={"choices": "A. left\nB. right"}))
    assert ordered(text, "Question: Where?\n", "Choices: A. left\nB. right\n", "option", "\nAnswer:")


def test_braces_and_brackets_of_a_question_are_left_alone() -> None:
    odd = "{question} {pre} [[x {hint}]] {}"
    assert odd in text_of(put("3dsrbench", text=odd))
    assert odd in text_of(put("3dsrbench", options={"A": odd, "B": "{letter}"}))


# Limits, frames, fingerprint


@pytest.mark.parametrize("name", TASKS)
def test_limits_ride_along_under_lmms_eval_and_under_vlmevalkit_none_do(name: str) -> None:
    assert put(name, LMMS).generation == Generation(max_tokens=LIMITS[name], temperature=0.0)
    assert put(name, KIT).generation is None


@pytest.mark.parametrize(
    ("said", "form", "rule", "numbers"),
    [
        ("8", LMMS, "lmms-eval:8", frames.lmms_eval(100, 8)),
        ("8", KIT, "vlmevalkit-tail:8", frames.uniform_tail(100, 8)),
        ("128", KIT, "vlmevalkit-tail:128", frames.uniform_tail(100, 128)),
        ("2fps", KIT, "vlmevalkit-rate-tail:2fps", frames.by_rate(100, 25.0, 2.0, tail=True)),
    ],
)
def test_the_number_of_frames_changes_within_the_formula(said: str, form: str, rule: str, numbers: list[int]) -> None:
    row = SpatialQuestion(id="q", text="Where?", gold="A", kind="choice", options=OPTIONS)
    asked = prompts.compose(
        how("vsi-bench", form, sample_frames=said), TASKS["vsi-bench"], row, ShownMedia(video=BytesBlob("f", b""))
    )
    pick = pickle.loads(pickle.dumps(asked.parts[0].pick))
    assert pick.name == rule
    assert list(pick.numbers(100, 25.0) if pick.by_rate else pick.numbers(100)) == numbers


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("vsi-bench", {"sample-frames": "0"}),
        ("vsi-bench", {"sample-frames": "4097"}),
        ("vsi-bench", {"sample-frames": "9" * 5000}),
        ("vsi-bench", {"sample-frames": "²"}),
        ("vsi-bench", {"sample-frames": "0fps"}),
        ("vsi-bench", {"sample-frames": "2fps", "prompting": LMMS}),
        ("mmsi-video-bench", {"sample-frames": "2fps", "prompting": LMMS}),
        ("vsi-bench", {"protocol": "mine"}),
        ("vsi-bench", {"prompting": "other"}),
    ],
)
def test_settings_that_mean_nothing_are_refused(name: str, options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        prompts.prompt_settings(Data(options=options), TASKS[name])


def test_the_digest_tells_forms_frames_and_words_apart(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    table = '[vsi-bench]\nchoice = "{question}"\nnumber = "{question}WORD"\n'
    written = []
    for word in ("a", "b"):
        mine.write_text('prompting = "lmms-eval"\n' + table.replace("WORD", word))
        written.append(prompts.digest(Data(options={"prompts": str(mine)}), TASKS["vsi-bench"]))
    options = ({}, {"prompting": LMMS}, {"sample-frames": "8"}, {"sample-frames": "8fps"})
    found = [prompts.digest(Data(options=one), TASKS["vsi-bench"]) for one in options]
    assert len({*found, *written}) == 6
    assert found == [prompts.digest(Data(options=one), TASKS["vsi-bench"]) for one in options]


@pytest.mark.parametrize("form", BOTH)
def test_a_changed_word_of_ours_changes_the_digest(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TASKS:
        data = Data(options={"prompting": form})
        before = prompts.digest(data, TASKS[name])
        other = structs.replace(wordings.default_words(form, name), text=wordings.default_words(form, name).text + " ")
        with monkeypatch.context() as patch:
            patch.setattr(prompts, "words_for", lambda *_, other=other: (form, other))
            assert prompts.digest(data, TASKS[name]) != before


# A user's own words


def test_a_file_of_words_is_used_in_place_of_ours_and_says_whose_order_it_is_for(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(
        'prompting = "lmms-eval"\n[vsi-bench]\nchoice = "Now: {question}"\nnumber = "{question}"\nmax_tokens = 5\n'
    )
    path = drawn.draw("vsi-debiased", tmp_path)
    first = samples("vsi-debiased", path, prompts=str(mine))[0].prompt
    assert outline(first) == ["lmms-eval:32", "Now: In room 0, where is the lamp?"]
    assert first.generation == Generation(max_tokens=5)
    with pytest.raises(DataError, match="prompting=vlmevalkit was asked for"):
        samples("vsi-debiased", path, prompts=str(mine), prompting=KIT)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("= 1", "line 1"),
        ('[blink]\nchoice = "{prompt}"', "prompting is None"),
        ('prompting = "other"', "prompting is 'other'"),
        ('prompting = "lmms-eval"\n[blnk]\nchoice = "{prompt}"', "blnk is no spatial benchmark"),
        ('prompting = "lmms-eval"\n[blink]\nchioce = "{prompt}"', "chioce"),
        ('prompting = "lmms-eval"\n[blink]\nchoice = "{promt}"', "has the place {promt}"),
        ('prompting = "lmms-eval"\n[blink]\nchoice = "{letters}"', "shows no question"),
        ('prompting = "lmms-eval"\n[blink]\nchoice = "{prompt}"\noptions = "{text}"', "no {letter}"),
        ('prompting = "lmms-eval"\n[blink]\nchoice = "{prompt}"\nmax_tokens = -1', "max_tokens is -1"),
        ('prompting = "lmms-eval"\n[blink]\nchoice = "{prompt}"\ntemperature = nan', "temperature is nan"),
        ('prompting = "lmms-eval"\n[vsi-bench]\nchoice = "{question}"', "vsi-bench.number is missing"),
        ('prompting = "lmms-eval"\n[site]\nchoice = "{question}"', "site.video is missing"),
        ('prompting = "lmms-eval"\n[3dsrbench]\nchoice = "{question}"', "it has no words for blink"),
    ],
)
def test_a_file_of_words_that_would_put_another_question_is_refused(text: str, fault: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(DataError) as caught:
        prompts.prompt_settings(Data(options={"prompts": str(mine)}), TASKS["blink"])
    assert fault in caught.value.message


def test_a_file_of_words_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "long").write_bytes(b"#" * (wordings.LONGEST_FILE + 1))
    for name in ("none", "binary", "long", "."):
        with pytest.raises(DataError, match="prompts="):
            prompts.prompt_settings(Data(options={"prompts": str(tmp_path / name)}), TASKS["blink"])


@pytest.mark.parametrize("name", IN_FRONT)
def test_neo_ov_labels_each_picture_by_its_number_and_is_lmms_evals_otherwise(name: str) -> None:
    shown = ShownMedia(pictures(3))
    plain, labelled = put(name, LMMS, shown), put(name, "neo_ov", shown)
    labels = [
        part.text for part, after in zip(labelled.parts, labelled.parts[1:], strict=False) if isinstance(after, Image)
    ]
    assert labels == ["Image-1: ", "Image-2: ", "Image-3: "]
    kept = [part for part in labelled.parts if not (isinstance(part, Text) and part.text in labels)]
    assert tuple(kept) == plain.parts and labelled.generation == plain.generation


def test_neo_ov_labels_the_frames_of_a_video_and_asks_vsi_bench_for_a_decimal() -> None:
    prompt = put("vsi-bench", "neo_ov", ShownMedia(video=BytesBlob("v", b"")), kind="number", options={})
    video, text = prompt.parts
    assert isinstance(video, Video) and isinstance(text, Text) and video.pick is not None
    assert [label.text for at in (0, 31) if (label := video.pick.text_before(at))] == ["Frame-1: ", "Frame-32: "]
    assert video.pick.name == "lmms-eval:32+labels" and pickle.loads(pickle.dumps(video.pick)).label == "Frame-{k}: "
    assert "decimal" in text.text and "word or phrase" not in text.text
    plain = put("vsi-bench", LMMS, ShownMedia(video=BytesBlob("v", b"")), kind="number", options={})
    assert isinstance(plain.parts[0], Video) and plain.parts[0].pick is not None
    assert plain.parts[0].pick.text_before(0) is None


def test_neo_ov_numbers_the_frames_of_all_clips_together_and_reference_pictures_apart() -> None:
    shown = ShownMedia(pictures(2, "r"), segments=(pictures(2, "a"), pictures(1, "b")))
    pieces = {"user_prompt": "<video> then <video>, like <image> or <image>?"}
    prompt = put("mmsi-video-bench", "neo_ov", shown, pieces=pieces)
    labels = [part.text for part in prompt.parts if isinstance(part, Text) and part.text.endswith(": ")]
    assert labels == ["Frame-1: ", "Frame-2: ", "Frame-3: ", "Image-1: ", "Image-2: "]


def test_the_labelled_form_is_another_experiment() -> None:
    task = TASKS["blink"]
    digests = {prompts.digest(Data(options={"prompting": form}), task) for form in (KIT, LMMS, "neo_ov")}
    assert len(digests) == 3


def test_the_labels_of_frames_reach_a_local_model_between_its_frames(tmp_path: Path) -> None:
    pytest.importorskip("av", reason="PyAV (extra video) is not installed")
    from snellen.media import MediaCache
    from snellen.models.local.chat_template import converse
    from snellen.types import MediaSettings

    data = drawn.draw("vsi-bench", tmp_path)
    options = {"prompting": "neo_ov", "sample-frames": "2"}
    sample = next(iter(SPATIAL["vsi-bench"].samples(Data(data, options=options))))
    media = MediaCache(MediaSettings())
    try:
        (message,) = converse(sample.prompt, media.settings, media.frames).messages
    finally:
        media.close()
    content = [part.get("text", part["type"]) for part in message["content"]]
    assert content[:4] == ["Frame-1: ", "image", "Frame-2: ", "image"] and len(content) == 5
