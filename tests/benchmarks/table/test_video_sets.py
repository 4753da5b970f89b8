"""Benchmarks of videos: what reaches the model, what each profile makes of replies, and figures over groups and moments."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import zipfile
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from clip_sets_drawn import CLIP_SETS, draw_clip_set
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Picture
from video_sets_drawn import VIDEO_SETS, VideoSet, draw_video_set, event_clip

import snellen
from servers.oracle import OracleServer, SentQuestion
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry, headline
from snellen.media.video import frames
from snellen.scoring.rules import video
from snellen.types import Image, MediaSettings, Video


def picture() -> bytes:
    content = BytesIO()
    Picture.new("RGB", (40, 30), "red").save(content, "PNG")
    return content.getvalue()


@pytest.fixture
def drawn(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Path]:
    return draw_video_set(request.param, tmp_path, picture())


def answered(name: str, place: tuple[Path, Path], out: Path, replies: dict[int, str] | None = None, **settings):
    """Run a set: each reply is the set's own, but those of `replies` by row."""

    def reply(question: SentQuestion) -> str:
        number = int(re.findall(r"\d+", question.text.replace("IoU 0", ""))[0]) if name != "x" else 0
        own = {at: text for at, (_, text) in enumerate(VIDEO_SETS[name].rows)}
        return {**own, **(replies or {})}[row_of(name, question, number)]

    with OracleServer(reply) as server:
        run = snellen.evaluate(
            name, "api:oracle", base_url=server.url, data=place[0], images=place[1], out=out, **settings
        )
    return run, server.requests


def row_of(name: str, question: SentQuestion, number: int) -> int:
    """Return which row a question is: its number stands before its question mark, or behind `in`."""
    found = re.search(r"(?:in|after|was|fits) (\d+)(?:\?| about|\.)", question.text)
    assert found, question.text
    return int(found[1])


@pytest.mark.parametrize(("name", "drawn"), [(name, name) for name in VIDEO_SETS], indirect=["drawn"])
def test_a_set_is_read_from_its_layout_run_and_scored_by_every_profile(name, drawn, tmp_path):
    run, requests = answered(name, drawn, tmp_path / "run", {0: "I cannot tell."})
    wanted = VIDEO_SETS[name]
    assert run.meta.totals.ok == run.meta.totals.done == len(wanted.rows) == len(requests)
    for profile in ("strict", "vlmevalkit", "lmms-eval", *(["authors"] if entry(name).score.has("authors") else [])):
        first = run.figures(profile)[profile][0]
        assert first.name == headline(entry(name))
        assert first.value == pytest.approx((wanted.by_profile or {}).get(profile, wanted.headline)), profile


@pytest.mark.parametrize(("name", "drawn"), [(name, name) for name in VIDEO_SETS], indirect=["drawn"])
def test_the_declared_frames_reach_the_model_and_the_users_come_first(name, drawn, tmp_path):
    run, requests = answered(name, drawn, tmp_path / "run")
    rule, images = entry(name).frames, len(requests[0].images) - (name == "videommmu-adaptation")
    shown = 5 if name == "mvbench" else 15  # of a clip of 15 frames, and of its middle second
    assert images == (3 if rule.rate else min(rule.count, shown))
    assert (run.meta.identity.get("frames") or json.dumps(run.meta.identity)) and rule != type(rule)()
    _, fewer = answered(name, drawn, tmp_path / "fewer", media=MediaSettings(frames=2))
    assert len(fewer[0].images) - (name == "videommmu-adaptation") == 2


def parts(name: str, place: tuple[Path, Path], out: Path, **settings) -> tuple[str, ...]:
    _, requests = answered(name, place, out, **settings)
    first = next(request for request in requests if row_of(name, request, 0) == 0)
    return tuple(re.sub("^<[0-9a-f]{12}>$", "frame", part) for part in first.parts)


@pytest.mark.parametrize("drawn", ["video-mme-subtitles"], indirect=True)
def test_subtitles_of_video_mme_are_those_at_the_frames_or_a_sentence(drawn, tmp_path):
    sent = parts("video-mme-subtitles", drawn, tmp_path / "run", media=MediaSettings(frames=3))
    assert sent[:3] == ("frame",) * 3
    assert sent[3] == "This video's subtitles are listed below:\nA grey field.\nA bar.\n"
    assert sent[4].startswith("Select the best answer") and sent[4].endswith("The best answer is:")
    _, requests = answered("video-mme-subtitles", drawn, tmp_path / "all")
    silent = next(request for request in requests if "happens in 3?" in request.text)
    assert "No subtitles available" in silent.text


@pytest.mark.parametrize("drawn", ["video-mme-v2-subtitles"], indirect=True)
def test_all_words_of_video_mme_v2_stand_in_one_text_behind_the_frames(drawn, tmp_path):
    sent = parts("video-mme-v2-subtitles", drawn, tmp_path / "run", media=MediaSettings(frames=2))
    words = "These are the frames of a video. This video's subtitles are listed below:\nIt turns white.\n"
    assert sent[:3] == ("frame", "frame", words)
    assert sent[3].startswith("Question: What is in 0?") and "H. choice H" in sent[3]


@pytest.mark.parametrize("drawn", ["longvideobench"], indirect=True)
def test_subtitles_of_longvideobench_stand_between_the_frames_on_the_clock_of_the_clip(drawn, tmp_path):
    sent = parts("longvideobench", drawn, tmp_path / "run", media=MediaSettings(frames=3))
    # Frames at 0, 1.4 and 2.8 s; the line is spoken from 0.5 to 1.5 s, its middle is 1.0 s.
    assert sent[:4] == ("frame", "It turns white.", "frame", "frame")


@pytest.mark.parametrize("drawn", ["charades-sta"], indirect=True)
def test_frames_of_charades_carry_their_times(drawn, tmp_path):
    sent = parts("charades-sta", drawn, tmp_path / "run")
    assert sent[:6] == ("<0.0 seconds>", "frame", "<1.0 seconds>", "frame", "<2.0 seconds>", "frame")


@pytest.mark.parametrize("drawn", ["mvbench"], indirect=True)
def test_a_clip_of_mvbench_is_cut_to_its_span(drawn):
    sample = next(registry.find("mvbench").samples(snellen.Data(path=drawn[0], images=drawn[1])))
    clip = next(part for part in sample.prompt.parts if isinstance(part, Video))
    assert (clip.start, clip.end) == (1.0, 2.0) and sample.meta["task"] == "action_count"
    assert "Carefully watch the video" in sample.prompt.system


def draw_download_of_mvbench(folder: Path) -> Path:
    """Write three tasks as the hub's files unpack: two clips with one name, a late archive, and frames at 3 a second."""
    files = {
        "action_sequence": {"video": "AB.mp4", "start": 1.0, "end": 2.0, "accurate_start": 1.2},
        "episodic_reasoning": {"video": "friends_s01_clip_02", "start": 2.0, "end": 4.0, "fps": 3},
        "state_change": {"video": "AB.mp4"},
    }
    for number, (task, row) in enumerate(files.items()):
        place = folder / "json" / f"{task}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        rest = {"question": f"Where does it go in {number}?", "candidates": ["up", "down"], "answer": "down"}
        place.write_text(json.dumps([row | rest]))
    clips = folder / "video"
    for number, place in enumerate(("data0613/star/Charades_v1_480", "perception/videos")):
        (clips / place).mkdir(parents=True)
        (clips / place / "AB.mp4").write_bytes(event_clip(5 * number))
    frames = clips / "tvqa/frames_fps3_hq/friends_s01_clip_02"
    frames.mkdir(parents=True)
    for number in range(30):
        Picture.new("L", (40, 30), 8 * number).save(frames / f"{number + 1:05d}.jpg", quality=95)
    return folder


def pack(folder: Path) -> None:
    """Put the clips of a download into the archives in which the hub has them."""
    for top in ("data0613", "perception", "tvqa"):
        with zipfile.ZipFile(folder / "video" / f"{top}.zip", "w") as archive:
            for file in sorted((folder / "video" / top).rglob("*.*")):
                archive.write(file, file.relative_to(folder / "video"))
        shutil.rmtree(folder / "video" / top)


@pytest.mark.parametrize("packed", [False, True])
def test_the_download_of_mvbench_is_read_as_it_is_by_its_folder_alone(packed, tmp_path):
    download = draw_download_of_mvbench(tmp_path / "MVBench")
    if packed:
        pack(download)
    with OracleServer(lambda question: "(B)") as server:
        run = snellen.evaluate("mvbench", "api:oracle", base_url=server.url, data=download, out=tmp_path / "run")
    assert run.meta.totals.ok == 3 and run.figures("strict")["strict"][0].value == 1.0
    assert sorted(len(sent.images) for sent in server.requests) == [5, 6, 15]
    samples = list(registry.find("mvbench").samples(snellen.Data(path=download)))
    clips = [part for sample in samples for part in sample.prompt.parts if isinstance(part, Video)]
    greys = [[grey(image) for image in frames(clip, MediaSettings())] for clip in clips]
    assert greys[0] == pytest.approx([20] * 5, abs=3)  # the second in which the bar is there
    assert greys[1] == pytest.approx([8 * number for number in range(6, 12)], abs=3)  # 2 to 4 s at 3 a second
    assert greys[2] == pytest.approx([70] * 15, abs=3)  # the other clip of that name


def grey(image: Image) -> int:
    """Return the grey of the lower right corner."""
    return int(Picture.open(BytesIO(image.blob.read())).convert("L").getpixel((-1, -1)))


DOWNLOADED = [
    name for name in dict.fromkeys((*VIDEO_SETS, *CLIP_SETS)) if entry(name).source.images and name != "mvbench"
]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("name", DOWNLOADED)
def test_a_download_is_read_as_it_is_and_unpacked_by_its_folder_alone(name, packed, tmp_path):
    if name in VIDEO_SETS:
        folder, clips = draw_video_set(name, tmp_path, picture())
        rows = len(VIDEO_SETS[name].rows)
    else:
        folder, rows = draw_clip_set(name, tmp_path), len(CLIP_SETS[name]) * (1 + (name == "videommmu-knowledge"))
        clips = tmp_path / "videos_chunked_01.zip"
    with zipfile.ZipFile(clips) as archive:
        if not packed:
            archive.extractall(folder)
        elif name == "longvideobench":
            with tarfile.open(folder / "videos.tar", "w") as packed_again:
                for member in archive.namelist():
                    place = tmp_path / archive.extract(member, tmp_path / "unpacked")
                    packed_again.add(place, member)
    if not packed or name == "longvideobench":
        clips.unlink()
    elif name in VIDEO_SETS:
        place = folder / ("videos/40.zip" if name.startswith("video-mme-v2") else "videos_chunked_01.zip")
        place.parent.mkdir(exist_ok=True)
        clips.rename(place)
    samples = list(registry.find(name).samples(snellen.Data(path=folder)))
    assert len(samples) == rows
    shown = [part for sample in samples for part in sample.prompt.parts if isinstance(part, Video)]
    assert len(shown) == rows - len(CLIP_SETS["videommmu-knowledge"]) * (name == "videommmu-knowledge")
    assert all(next(iter(frames(clip, MediaSettings(frames=1)))).blob.read() for clip in shown)
    if VIDEO_SETS.get(name, VideoSet([])).subtitles[0]:
        assert any(clip.subtitles.blob is not None for clip in shown)


@pytest.mark.parametrize("drawn", ["mlvu-dev"], indirect=True)
def test_clips_of_mlvu_are_those_of_the_tasks_folder_and_generation_is_left_out(drawn):
    summary = {"video": "clip_0.mp4", "question": "Summarize it.", "answer": "It moves.", "question_type": "summary"}
    (drawn[0] / "MLVU/json/9_summary.json").write_text(json.dumps([summary]))
    samples = list(registry.find("mlvu-dev").samples(snellen.Data(path=drawn[0], images=drawn[1])))
    clips = [part.blob.key for sample in samples for part in sample.prompt.parts if isinstance(part, Video)]
    ends = ("4_count/clip_0.mp4", "4_count/clip_1.mp4", "5_order/clip_0.mp4", "5_order/clip_1.mp4")
    assert len(clips) == 4 and all(clip.endswith(end) for clip, end in zip(clips, ends, strict=True))
    with zipfile.ZipFile(drawn[1]) as archive:
        archive.extractall(drawn[0])
    below = snellen.Data(path=drawn[0] / "MLVU/json", images=drawn[0] / "MLVU/video")
    samples_below = list(registry.find("mlvu-dev").samples(below))
    there = [part.blob.key for sample in samples_below for part in sample.prompt.parts if isinstance(part, Video)]
    assert all(clip.endswith(end) for clip, end in zip(there, ends, strict=True))
    assert [sample.meta["task"] for sample in samples] == ["count", "count", "order", "order"]


# set, row, reply, value by profile (strict, authors, vlmevalkit, lmms-eval; None: it has no such profile), from the scripts' descriptions
REPLIES = [
    ("video-mme", 1, "B", (1, 1, 1, 1)),
    ("video-mme", 1, "The best answer is B. It turns.", (1, 1, 1, 1)),
    ("video-mme", 1, "It turns.", (1, 0, 0, 0)),  # no capital A to D: the scripts read nothing
    ("video-mme", 1, "As it spins, the answer is B.", (1, 0, 0, 1)),  # the A of As
    ("video-mme", 1, "Option: B", (1, 1, 1, 1)),
    ("video-mme", 1, "Both A and B", (0, 1, 1, 1)),  # the B of Both, and the one at the end
    ("video-mme", 1, "I think it turns, Bob", (0, 1, 1, 1)),  # the B of Bob
    ("video-mme", 1, "B is wrong, (C) is not so", (None, 1, 1, 1)),  # lmms-eval takes what opens the reply
    ("video-mme-v2", 2, "Final Answer: C", (1, 1, 1, 1)),
    ("video-mme-v2", 2, "Given the order, it is C", (1, 0, 0, 0)),  # the G of Given
    ("mvbench", 1, "(B) down", (1, 1, 1, 1)),
    ("mvbench", 1, "B.", (1, 1, 1, 1)),
    ("mvbench", 1, "b) down", (1, 1, 1, 1)),
    ("mvbench", 1, "Answer: B", (1, 0, 1, 1)),  # the first word is `answer:`; VLMEvalKit reads the only letter
    ("mvbench", 1, "It goes a bit down, so B", (1, 0, 1, 0)),  # the article a is option A for lmms-eval
    ("mvbench", 1, "(", (0, 1, 1, 0)),  # a bracket is contained in (b)
    ("mlvu-dev", 1, "B", (1, 1, 1, 1)),
    ("mlvu-dev", 1, "B) down", (1, 1, 1, 1)),
    ("mlvu-dev", 1, "The answer is B", (1, 0, 1, 1)),
    ("mlvu-dev", 1, "(up) no: (B)", (1, 0, 1, 1)),  # the letter before the first bracket is p
    ("lvbench", 1, "(B)", (1, 1, None, 1)),
    ("lvbench", 1, "B) a dog", (1, 1, None, 1)),
    ("lvbench", 1, "The answer is B", (1, 0, None, 1)),  # its first letter is T
    ("longvideobench", 1, "The answer is B. two", (1, 1, 1, 1)),
    ("longvideobench", 1, "Every line says two", (1, 0, 0, 0)),  # the E of Every
    ("tempcompass-mc", 1, "B. slower", (1, 1, 1, 1)),
    ("tempcompass-mc", 1, "The answer is B", (1, 0, 0, 0)),
    ("tempcompass-mc", 1, "Because it moves slower", (None, 0, 0, 0)),
    ("tempcompass-yn", 1, "No, it falls.", (1, 1, 1, 1)),
    ("tempcompass-yn", 1, "not sure", (0, 1, 1, 1)),  # begins with no
    ("tempcompass-yn", 1, "It does not: no.", (1, 0, 0, 0)),
    ("tempcompass-cm", 1, "Sentence B: It falls in 1.", (1, None, None, None)),
    ("perception-test", 1, "B", (1, None, None, 1)),
    ("perception-test", 1, "B. a cup", (1, None, None, 1)),
    ("egoschema", 1, "B", (1, None, None, 1)),
    ("charades-sta", 1, "From 1.0 to 3.0 seconds", (1, None, None, 1)),
    ("charades-sta", 1, "It starts at 3 s and ends at 1 s", (0, None, None, 0)),
    ("charades-sta", 1, "The event starts at 1 s.\nIt ends at 3 s.", (None, None, None, 1)),
    ("charades-sta", 1, "2.0 - 3.0", (1, None, None, 1)),  # half of the moment
    ("charades-sta", 1, "2.1 - 3.0", (0, None, None, 0)),
    ("charades-sta", 1, "3.0 - 1.0", (0, None, None, 1)),  # lmms-eval turns it
]
PROFILES = ("strict", "authors", "vlmevalkit", "lmms-eval")


@pytest.mark.parametrize("name", list(dict.fromkeys(name for name, *_ in REPLIES)))
def test_replies_have_the_values_that_the_scripts_give_them(name, tmp_path):
    place = draw_video_set(name, tmp_path, picture())
    benchmark = registry.find(name)
    samples = list(benchmark.samples(snellen.Data(path=place[0], images=place[1])))
    for row, reply, values in (case[1:] for case in REPLIES if case[0] == name):
        for profile, value in zip(PROFILES, values, strict=True):
            if value is not None:
                score = benchmark.score[profile](samples[row], reply)
                assert score.value == value, (reply, profile, score)


@pytest.mark.parametrize("drawn", ["charades-sta"], indirect=True)
def test_recall_and_mean_overlap_of_moments_are_those_counted_by_hand(drawn, tmp_path):
    replies = {0: "1.0 - 3.0", 1: "2.0 - 3.0", 2: "0 - 2", 3: "no idea"}  # overlaps 1, 1/2, 1/3, 0
    run, _ = answered("charades-sta", drawn, tmp_path / "run", replies)
    for profile in ("strict", "lmms-eval"):
        figures = {metric.name: metric.value for metric in run.figures(profile)[profile]}
        assert figures["R@1 IoU 0.5"] == 0.5 and figures["R@1 IoU 0.3"] == 0.75 and figures["R@1 IoU 0.7"] == 0.25
        assert figures["mIoU"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 4)


@pytest.mark.parametrize("drawn", ["video-mme-v2"], indirect=True)
def test_groups_of_video_mme_v2_score_as_its_authors_say(drawn, tmp_path):
    wrong = {1: "H", 5: "H"}  # relevance: 3 of 4; logic [1, [2, 3], 4]: the third may stand in for the second
    run, _ = answered("video-mme-v2", drawn, tmp_path / "run", wrong)
    figures = {metric.name: metric.value for metric in run.figures("strict")["strict"]}
    assert figures["score"] == pytest.approx((9 / 16 + 4 / 12) / 2)
    assert figures["score/relevance"] == 9 / 16 and figures["score/logic"] == pytest.approx(4 / 12)
    assert figures["accuracy"] == 6 / 8


@pytest.mark.parametrize("drawn", ["video-mme-v2"], indirect=True)
def test_a_group_of_video_mme_v2_has_the_level_and_the_heads_of_its_last_question(drawn, tmp_path):
    file = drawn[0] / "test.parquet"
    rows = pq.read_table(file).to_pylist()
    for number, row in enumerate(rows):
        row["level"], row["second_head"] = (
            (None, "1", "2", "13"[number // 4])[number % 4],
            "last" if number % 4 == 3 else "other",
        )
    pq.write_table(pa.Table.from_pylist(rows), file)
    run, _ = answered("video-mme-v2", drawn, tmp_path / "run", {1: "H", 5: "H"})
    figures = {metric.name: metric.value for metric in run.figures("strict")["strict"]}
    assert figures.pop("score/2") is None and figures.pop("score/other") is None
    both = (9 / 16 + 4 / 12) / 2
    wanted = {"relevance": 9 / 16, "logic": 4 / 12, "1": 9 / 16, "3": 4 / 12, "last": both, "Order": both}
    assert {name[6:]: value for name, value in figures.items() if name[:6] == "score/"} == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("structure", "right", "score"),
    [
        ("relevance [1, 2, 3, 4]", (0, 0, 0, 0), 0), ("relevance", (1, 0, 0, 0), 6.25), ("relevance", (1, 0, 1, 0), 25),
        ("relevance", (1, 0, 1, 1), 56.25), ("relevance", (1, 1, 1, 1), 100),
        ("[1, 2, 3, 4]", (0, 1, 1, 1), 0), ("[1, 2, 3, 4]", (1, 0, 1, 1), 6.25), ("[1, 2, 3, 4]", (1, 1, 0, 1), 25),
        ("[1, 2, 3, 4]", (1, 1, 1, 0), 56.25), ("[1, 2, 3, 4]", (1, 1, 1, 1), 100),
        ("[1, [2, 3], 4]", (1, 0, 0, 0), 100 / 12), ("[1, [2, 3], 4]", (1, 0, 1, 1), 400 / 12), ("[1, [2, 3], 4]", (1, 1, 0, 1), 400 / 12),
        ("[1, [2, 3], 4]", (1, 1, 1, 0), 700 / 12), ("[1, [2, 3], 4]", (0, 1, 1, 1), 0),
        ("[[1, 2], 3, 4]", (0, 1, 1, 1), 10), ("[[1, 2], 3, 4]", (1, 0, 1, 1), 10), ("[[1, 2], 3, 4]", (1, 1, 0, 0), 20),
        ("[[1, 2], 3, 4]", (1, 1, 1, 0), 50), ("[[1, 2], 3, 4]", (0, 0, 1, 1), 0), ("[[1, 2], 3, 4]", (1, 1, 1, 1), 100),
    ],
)  # fmt: skip
def test_the_score_of_a_group_is_that_of_the_sheet(structure, right, score):
    assert video.group_score([bool(one) for one in right], structure) == pytest.approx(score / 100)


@pytest.mark.parametrize(
    ("structure", "worth", "score"),
    [
        ("relevance", (1, 1, 1, -1), 25), ("relevance", (1, -1, 0, 0), 0), ("relevance", (-1, -1, 0, 0), 0),
        ("[1, 2, 3, 4]", (-1, -1, 1, 0), 56.25), ("[1, 2, 3, 4]", (1, 0, -1, 1), 6.25),
        ("[1, [2, 3], 4]", (1, 0, -1, 0), 400 / 12), ("[[1, 2], 3, 4]", (0, -1, 0, 0), 10),
    ],
)  # fmt: skip
def test_a_reply_that_the_authors_script_does_not_read_is_right_in_a_chain_and_takes_one_off_elsewhere(
    structure, worth, score
):
    assert video.group_score(worth, structure) == pytest.approx(score / 100)


@pytest.mark.parametrize("drawn", ["video-mme-v2"], indirect=True)
def test_unread_replies_count_in_groups_and_not_in_the_accuracy_of_the_authors_alone(drawn, tmp_path):
    run, _ = answered("video-mme-v2", drawn, tmp_path / "run", {0: "no idea", 1: "H", 4: "no idea", 7: "H"})
    wanted = {
        "authors": (1 / 16, 7 / 12, 4 / 6),  # 1 + 1 - 1 = 1 of 4; the chain runs until the wrong last one
        "vlmevalkit": (4 / 16, 0, 4 / 8),
        "lmms-eval": (4 / 16, 0, 4 / 8),
    }
    for profile, (relevance, logic, accuracy) in wanted.items():
        figures = {metric.name: metric.value for metric in run.figures(profile)[profile]}
        assert figures["score/relevance"] == pytest.approx(relevance)
        assert figures["score/logic"] == pytest.approx(logic) and figures["accuracy"] == pytest.approx(accuracy)


def test_questions_of_a_group_that_were_not_asked_are_wrong():
    for structure in ("relevance", "[1, 2, 3, 4]", "[1, [2, 3], 4]", "[[1, 2], 3, 4]"):
        for right in ([True], [False], [True, False], [True, True, True]):
            missing = [False] * (4 - len(right))
            assert video.group_score(right, structure) == video.group_score([*right, *missing], structure)
        with pytest.raises(ValueError, match="5 questions"):
            video.group_score([True] * 5, structure)


def test_a_structure_that_is_none_is_refused():
    for structure in ("[4, 3]", "[1, [2", "", "[" * 1000):
        with pytest.raises(ValueError, match="structure of a group"):
            video.group_score([True] * 4, structure)


@given(st.lists(st.floats(0, 100), min_size=4, max_size=4))
def test_the_overlap_over_the_hull_is_that_of_the_union_where_moments_meet(ends):
    (a, b), (c, d) = sorted(ends[:2]), sorted(ends[2:])
    overlap, exact = video.hull_overlap((a, b), (c, d)), [Fraction(end) for end in (a, b, c, d)]
    both = max(min(exact[1], exact[3]) - max(exact[0], exact[2]), Fraction(0))
    union = (exact[1] - exact[0]) + (exact[3] - exact[2]) - both
    assert 0.0 <= overlap <= 1.0
    assert overlap == pytest.approx(float(both / union) if union else 0.0, abs=1e-9) or both == 0


@given(st.text(max_size=80))
def test_every_reader_takes_any_reply(reply):
    for read in (
        video.closed_letter,
        video.polished_letter,
        video.any_letter,
        video.opening_letter,
        video.opening_truth,
        video.moment_in,
    ):
        read(reply)
    video.led_letter(reply, "ABCD")
    video.opens_as(reply, "A")
