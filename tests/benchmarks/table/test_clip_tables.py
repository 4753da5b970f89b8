"""Tables of questions about clips: spans, times and subtitles in columns, and what reaches the model."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
from PIL import Image as Picture

import snellen
from media.clips import clip
from servers.oracle import OracleServer, SentQuestion
from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.table.benchmark import open_table
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.media.video import drawn_frames
from snellen.types import MediaSettings, Video

SRT = "1\n00:00:01,000 --> 00:00:01,900\nIt turns.\n"


def folder_with_clip(folder: Path) -> Path:
    (folder / "a.mp4").write_bytes(clip(30, codec="libx264"))
    (folder / "a.srt").write_text(SRT)
    return folder


def csv(folder: Path, *lines: str) -> str:
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return str(folder / "t.csv")


def first_video(path: str, **options: str) -> Video:
    data = Data(options=options)
    sample = next(open_table(path).samples(data))
    return next(part for part in sample.prompt.parts if isinstance(part, Video))


def sent(path: str, folder: Path, **settings) -> SentQuestion:
    with OracleServer(lambda question: "yes") as server:
        snellen.evaluate(path, "api:oracle", base_url=server.url, out=folder / "run", concurrency=1, **settings)
    return server.requests[-1]


def test_start_end_and_subtitles_are_recognised_and_told(tmp_path, capsys):
    path = csv(
        folder_with_clip(tmp_path), "video,question,answer,start,end,srt", "a.mp4,Does it turn?,yes,0:01,2.5,a.srt"
    )
    video = first_video(path)
    assert (video.start, video.end) == (1.0, 2.5) and video.subtitles.show == "frames"
    main(["check", path, "--samples", "1"])
    told = " ".join(capsys.readouterr().out.split())
    assert "video_start ← `start`" in told and "subtitles ← `srt`" in told
    assert "a.mp4, from 1 s to 2.5 s, subtitles (frames)]" in told


def test_start_and_end_stay_the_answer_where_nothing_else_is_one(tmp_path):
    path = csv(
        folder_with_clip(tmp_path), "video,question,start,end", "a.mp4,When does it turn?,1,2", "a.mp4,When?,0,1"
    )
    video = first_video(path)
    assert video.start is None and video.end is None


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("video,question,answer,start", ("a.mp4,When does it start?,1.5,1.5", "a.mp4,When?,2,2")),
        ("video,question,answer,start,end", ("a.mp4,When does it end?,2,1,2", "a.mp4,When?,2.5,0,2.5")),
        ("video,question,answer,start", ("a.mp4,Does it turn?,yes,1", "a.mp4,Does it?,no,2")),
    ],
    ids=["the start is asked", "the end is asked", "a start alone"],
)
def test_a_clip_is_not_cut_where_its_cut_would_tell_the_answer_or_has_one_end(tmp_path, header, rows):
    video = first_video(csv(folder_with_clip(tmp_path), header, *rows))
    assert video.start is None and video.end is None


def test_a_start_alone_cuts_where_the_user_says_so(tmp_path):
    path = csv(
        folder_with_clip(tmp_path), "video,question,answer,start", "a.mp4,Does it turn?,yes,1", "a.mp4,Is it?,no,2"
    )
    assert first_video(path, map="video_start=start").start == 1.0


def test_columns_that_hold_no_times_are_no_span(tmp_path):
    path = csv(folder_with_clip(tmp_path), "video,question,answer,start", "a.mp4,Does it turn?,yes,kitchen")
    assert first_video(path).start is None


def test_a_part_that_ends_before_it_starts_leaves_its_row_out(tmp_path, capsys):
    rows = "a.mp4,Does it?,yes,2,1", "a.mp4,Has it?,yes,1,1", "a.mp4,Is it?,no,,2"
    path = csv(folder_with_clip(tmp_path), "video,question,answer,start,end", *rows)
    main(["check", path])
    told = " ".join(capsys.readouterr().out.split())
    assert "2 rows left out" in told and "it starts at 2 and ends at 1 seconds" in told


def test_one_question_about_two_parts_of_a_clip_is_two_questions(tmp_path, capsys):
    rows = "a.mp4,Does it turn?,yes,0,1", "a.mp4,Does it turn?,no,1,2", "a.mp4,Does it turn?,no,0,1"
    path = csv(folder_with_clip(tmp_path), "video,question,answer,start,end", *rows)
    main(["check", path, "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    repeated = [finding for finding in findings if finding["code"] in ("contradicting-answers", "duplicate-question")]
    assert [[row["row"] for row in finding["rows"]] for finding in repeated] == [["row 3 (line 4)"]]


def test_a_cell_that_is_no_time_leaves_its_row_out(tmp_path, capsys):
    path = csv(folder_with_clip(tmp_path), "video,question,answer,s", "a.mp4,Does it?,yes,soon", "a.mp4,Has it?,yes,1")
    main(["check", path, "--map", "video_start=s"])
    assert "'soon' is no time" in " ".join(capsys.readouterr().out.split())


def folder_with_frames(folder: Path, packed: bool) -> Path:
    """Write eleven frames, called 1 to 11, into the folder of a clip."""
    frames = folder / "videos/walk"
    frames.mkdir(parents=True)
    for number in range(1, 12):
        Picture.new("L", (8, 6), 20 * number).save(frames / f"{number}.png")
    if packed:
        with zipfile.ZipFile(folder / "videos.zip", "w") as archive:
            for file in frames.iterdir():
                archive.write(file, f"walk/{file.name}")
        shutil.rmtree(folder / "videos")
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_a_folder_of_frames_is_a_clip_whose_rate_stands_in_a_column(packed, tmp_path):
    folder = folder_with_frames(tmp_path, packed)
    path = csv(folder, "video,question,answer,start,end,fps", "walk,Does it turn?,yes,1,3,4", "walk,Has it?,no,,,")
    images = {"images": folder / "videos.zip"} if packed else {}
    cut, whole = (
        next(part for part in sample.prompt.parts if isinstance(part, Video))
        for sample in open_table(path).samples(Data(**images))
    )
    assert [Path(frame.blob.key).stem for frame in whole.frames] == [str(n) for n in range(1, 12)]
    assert (cut.fps, cut.start, cut.end) == (4.0, 1.0, 3.0)
    assert [Path(frame.blob.key).stem for frame in drawn_frames(cut, MediaSettings())] == [*"56789", "10", "11"]
    request = sent(path, folder, **images)
    assert len(request.images) == 8 and request.text == "Has it?\nAnswer with yes or no."


def test_declared_folders_of_a_data_set_do_not_lead_out_of_it(tmp_path):
    folder_with_frames(tmp_path / "set", packed=False)
    (folder_with_frames(tmp_path / "out", packed=False) / "videos/walk").rename(tmp_path / "out/videos/run")
    (tmp_path / "set/link").symlink_to(tmp_path / "out/videos")
    csv(tmp_path / "set", "id,video,question,answer", "w,walk,Does it turn?,yes", "r,run,Does it?,no")
    declaration = (
        'name = "turns"\ntitle = "Turns"\n[source]\nhub = "some/set"\nfiles = ["t.csv"]\nimages = ["{}"]\n'
        '[rows]\nid = "id"\nvideo = "video"\nquestion = "question"\nanswer = "answer"\nkind = {{ text = "truth" }}\n'
    )

    def asked(pattern: str) -> list[str]:
        (tmp_path / "set.toml").write_text(declaration.format(pattern))
        found = registry.find(str(tmp_path / "set.toml"))
        return [sample.id for sample in found.samples(Data(path=tmp_path / "set"))]

    assert asked("*/") == asked("videos") == ["w"]
    for pattern in ("../*/", "../out/videos", str(tmp_path / "out/videos")):
        with pytest.raises(DataError, match="names must stay under their root"):
            asked(pattern)


def test_a_part_of_frames_without_a_rate_leaves_its_row_out(tmp_path, capsys):
    folder = folder_with_frames(tmp_path, packed=False)
    path = csv(folder, "video,question,answer,start,end", "walk,Does it?,yes,1,3", "walk,Has it?,yes,,")
    main(["check", path])
    told = " ".join(capsys.readouterr().out.split())
    assert "1 row left out" in told and "its file says no frame rate, and `video_fps` none" in told


@pytest.mark.parametrize(
    ("cells", "said"), [({"video": "w" * 300}, "is neither a name nor"), ({"fps": 1e-308}, "a frame rate of 1e-308")]
)
def test_a_row_whose_frames_cannot_be_had_is_left_out_alone(cells, said, tmp_path):
    folder = folder_with_frames(tmp_path, packed=False)
    row = {"video": "walk", "question": "Does it turn?", "answer": "yes", "start": 1, "end": 2, "fps": 4}
    (folder / "t.json").write_text(json.dumps([row, {**row, **cells, "question": "Has it?"}]))
    table = open_table(str(folder / "t.json"))
    assert len(list(table.samples(Data()))) == 1
    assert said in str(table.table.survey(Data()).omitted)


def test_another_frame_in_the_folder_of_a_clip_is_another_data_set(tmp_path):
    places = [folder_with_frames(tmp_path / name, packed=False) for name in "abc"]
    (places[2] / "videos/walk/11.png").rename(places[2] / "videos/walk/12.png")
    tables = (open_table(csv(place, "video,question,answer", "walk,Does it turn?,yes")) for place in places)
    first, same, other = (table.digest(Data()) for table in tables)
    assert first == same != other


@pytest.mark.parametrize(("cell", "times"), [('"[2.5, 0]"', (2.5, 0.0)), ('"0:02.5, 0"', (2.5, 0.0)), ("1", (1.0,))])
def test_times_of_frames_stand_in_a_column(tmp_path, cell, times):
    path = csv(folder_with_clip(tmp_path), "video,question,answer,frame_times", f"a.mp4,Does it turn?,yes,{cell}")
    assert first_video(path).times == times
    assert len(sent(path, tmp_path).images) == len(times)


def test_subtitles_may_stand_in_the_table_themselves(tmp_path):
    rows = [
        {"video": "a.mp4", "question": "Does it turn?", "answer": "yes", "subtitles": subtitles}
        for subtitles in (SRT, [{"start": 1.0, "end": 1.9, "text": "It turns."}])
    ]
    folder_with_clip(tmp_path)
    for number, row in enumerate(rows):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row))
        request = sent(str(tmp_path / f"{number}.jsonl"), tmp_path / str(number), media=MediaSettings(fps=1.0))
        assert request.parts[3] == "It turns."


def test_frames_times_and_subtitles_reach_the_model_from_an_archive(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    folder_with_clip(inner)
    with zipfile.ZipFile(tmp_path / "videos.zip", "w") as archive:
        archive.write(inner / "a.mp4", "videos/a.mp4")
        archive.write(inner / "a.srt", "subtitles/a.srt")
    (tmp_path / "t.csv").write_text("clip_name,q,gold,sub\na,Does it turn?,yes,a\n")
    (tmp_path / "set.toml").write_text(
        'name = "turns"\n[source]\ncsv = "t.csv"\nimages = "videos.zip"\n'
        '[rows]\nvideo = "clip_name"\nquestion = "q"\nanswer = "gold"\nsubtitles = "sub"\n'
        '[frames]\nrate = 1\ntimestamps = true\nsubtitles = "frames"\nsubtitles_before = "Spoken:\\n"\n'
        '[score]\nread = "yes-no"\n'
    )
    request = sent(str(tmp_path / "set.toml"), tmp_path)
    kinds = [re.sub("^<[0-9a-f]{12}>$", "frame", part) for part in request.parts]
    assert kinds[:7] == [
        "<0.0 seconds>",
        "frame",
        "<1.0 seconds>",
        "frame",
        "<2.0 seconds>",
        "frame",
        "Spoken:\nIt turns.",
    ]
    declared = str(tmp_path / "set.toml")
    fewer = sent(declared, tmp_path / "fewer", media=MediaSettings(frames=2))
    assert len(fewer.images) == 2, "what the user asks for comes first"
    off = sent(declared, tmp_path / "off", benchmark_options={"subtitles": "off"})
    assert not any("Spoken" in part for part in off.parts)


def test_a_run_records_the_declared_frames_and_its_table_names_them(tmp_path, capsys):
    folder_with_clip(tmp_path)
    (tmp_path / "t.csv").write_text("video,question,answer\na.mp4,Does it turn?,yes\n")

    def declared(frames: str) -> str:
        (tmp_path / "set.toml").write_text(
            'name = "turns"\n[source]\ncsv = "t.csv"\n[rows]\nvideo = "video"\nquestion = "question"\nanswer = "answer"\n'
            f'[frames]\n{frames}\n[score]\nread = "yes-no"\n'
        )
        return str(tmp_path / "set.toml")

    with OracleServer(lambda question: "yes") as server:
        run = snellen.evaluate(declared("count = 4"), "api:oracle", base_url=server.url, out=tmp_path / "run")
        assert "4 frames, uniform, first and last included" in json.dumps(run.meta.identity)
    main(["score", str(run.path)])
    assert "turns · 4 frames, uniform, first and last included · 1 of 1" in " ".join(capsys.readouterr().out.split())


def test_missing_subtitles_leave_the_row_out_unless_a_text_stands_for_them(tmp_path, capsys):
    path = csv(
        folder_with_clip(tmp_path), "video,question,answer,srt", "a.mp4,Does it turn?,yes,b.srt", "a.mp4,Is it?,yes,"
    )
    main(["check", path])
    assert "subtitles 'b.srt' are not among the files" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_rule_of_subtitles_is_refused(tmp_path):
    path = csv(folder_with_clip(tmp_path), "video,question,answer,srt", "a.mp4,Does it turn?,yes,a.srt")
    with pytest.raises(UsageError, match="subtitles=some"):
        first_video(path, subtitles="some")


CLIPS = (
    'name = "turns"\n[source]\ncsv = "t.csv"\n[rows]\nvideo = "video"\nvideo_start = "{start}"\nquestion = "question"\n'
    'answer = "answer"\n[frames]\n{frames}\n[score]\nread = "yes-no"\n'
)


def declared_clips(folder: Path, frames: str, start: str = "start") -> str:
    csv(folder_with_clip(folder), "video,question,answer,start", "a.mp4,Does it turn?,yes,1")
    (folder / "set.toml").write_text(CLIPS.format(frames=frames, start=start))
    return str(folder / "set.toml")


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ("count = 0", "`int` >= 1"),
        ("rate = -1.0", "`float` > 0"),
        ("rate = inf", "`float` <= 1000"),
        ("rate = 1\nmost = 0", "`int` >= 1"),
        ("rate = 1\ncount = 4", "count and rate, which exclude each other"),
        ("count = 4\nmost = 8", "most without rate"),
        ('rate = 1\nrule = "middle"', "rule without count"),
        ("rate = 1\nleast = 9\nmost = 8", "least = 9 is more than most = 8"),
        ("rate = 1\nleast = 769", "least = 769 is more than most = 768"),
        ('count = 4\nrule = "tail"', "rule = 'tail' is of sets"),
        ("count = 4\nclips = true", "clips is of sets"),
    ],
)
def test_frames_that_cannot_be_followed_are_refused_when_the_declaration_is_read(tmp_path, frames, said):
    with pytest.raises(DataError, match=re.escape(said)):
        registry.find(declared_clips(tmp_path, frames))


def test_a_declared_start_without_its_column_is_an_error_and_no_whole_clip(tmp_path):
    path = declared_clips(tmp_path, "rate = 1", start="begin")
    with pytest.raises(DataError, match="video_start: there is no column 'begin'") as caught:
        list(registry.find(path).samples(Data()))
    assert "--map video_start=COLUMN" in caught.value.hint
    whole = next(iter(registry.find(path).samples(Data(options={"map": "video_start=none"}))))
    assert next(part for part in whole.prompt.parts if isinstance(part, Video)).start is None


def test_the_description_of_a_benchmark_says_which_frames_it_sends(tmp_path):
    about = registry.find(declared_clips(tmp_path, "rate = 0.5\nmost = 16\ntimestamps = true")).about
    assert about["frames"] == "0.5 frames a second, at most 16, with their times"


def test_a_placement_of_frames_is_refused_where_a_rate_is_declared(tmp_path, capsys):
    path = declared_clips(tmp_path, "rate = 1")
    line = ["run", path, "--model", "embedded", "--frame-places", "middle", "--out", str(tmp_path / "run")]
    assert main(line) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "--frame-places middle places a number of frames, and 1 a second are declared Add --frames" in told


def test_a_part_of_a_clip_sent_as_its_file_fails_with_the_option_that_sends_parts(tmp_path):
    with OracleServer(lambda question: "yes") as server:
        run = snellen.evaluate(
            declared_clips(tmp_path, "rate = 1"),
            "api:oracle",
            base_url=server.url,
            out=tmp_path / "run",
            media=MediaSettings(video="native"),
        )
    assert "the whole file: pass --video frames" in (run.path / "results.jsonl").read_text()


def test_eight_frames_that_are_typed_go_on_with_a_run_that_typed_none(tmp_path):
    """Earlier versions recorded both alike, and their runs go on."""
    path = csv(folder_with_clip(tmp_path), "video,question,answer", "a.mp4,Does it turn?,yes", "a.mp4,Is it dark?,no")
    with OracleServer(lambda question: "yes") as server:
        asked = {"model": "api:oracle", "base_url": server.url, "out": tmp_path / "run"}
        snellen.evaluate(path, **asked, limit=1)
        run = snellen.evaluate(path, **asked, media=MediaSettings(frames=8))
    assert run.meta.totals.ok == len(server.requests) == 2
