"""VLM2-Bench's questions from every kind of source, sound and hostile."""

import hashlib
import json
import os
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.vlm2 import drawn
from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import VLM2
from snellen.benchmarks.vlm2 import samples as vlm2_samples
from snellen.benchmarks.vlm2.layout import BY_NAME, SUBTASKS
from snellen.errors import DataError, UsageError
from snellen.media import frames
from snellen.types import Image, MediaSettings, Text, Video

IMAGE_TASKS = [subtask for subtask in SUBTASKS if subtask.family != "video"]
TABLES = ("python", "json", "paths")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """Form to path: one data set in every form that is read."""
    where = tmp_path_factory.mktemp("vlm2")
    found = {
        "zip": drawn.draw(where / "vlm2-bench_dataset.zip"),
        "folder": drawn.draw(where / "unpacked"),
        "misspelt": drawn.draw(where / "misspelt", vanilla="vallina"),
        "stray": drawn.draw(where / "stray", top="vlm2-bench/"),
        "stray zip": drawn.draw(where / "stray.zip", top="some/where/"),
    }
    snapshot = where / "snapshot"
    snapshot.mkdir()
    drawn.draw(snapshot / "vlm2-bench_dataset.zip")
    drawn.draw_tsv(snapshot / "VLM2Bench_img.tsv")
    found["snapshot"] = snapshot
    for form in TABLES:
        (where / form).mkdir()
        found[form] = drawn.draw_tsv(where / form / "VLM2Bench_img.tsv", form=form)
    return found


def asked(name, path, **more):
    return list(vlm2_samples.samples(BY_NAME[name], Data(path=path, **more)))


def blobs(sample):
    return [part.blob for part in sample.prompt.parts if isinstance(part, (Image, Video))]


def outline(sample):
    texts = tuple(part.text for part in sample.prompt.parts if isinstance(part, Text))
    shown = tuple(hashlib.sha256(blob.read()).hexdigest() for blob in blobs(sample))
    return sample.id, sample.target, sample.kind, sample.group, sample.options, texts, shown


def faults(samples):
    """Id to the error of every sample that cannot be read; the pictures of the others are read."""
    found = {}
    for sample in samples:
        try:
            for blob in blobs(sample):
                blob.read()
        except DataError as error:
            found[sample.id] = str(error)
    return found


@pytest.mark.parametrize("subtask", SUBTASKS, ids=lambda subtask: subtask.name)
def test_every_form_gives_the_same_questions_and_the_same_pictures(subtask, forms):
    files = drawn.contents()
    right = [outline(sample) for sample in asked(subtask.name, forms["zip"])]
    assert len(right) == (6 if subtask.family == "pair" else 3)
    for row, one in zip(drawn.rows(files, subtask), right, strict=True):
        assert one[5] == (("" if subtask.family == "video" else "\n") + row["question"],)
        if subtask.family != "video":
            names = [f"{subtask.media}/{name}" for name in row["images"]]
            assert one[6] == tuple(hashlib.sha256(files[name]).hexdigest() for name in names)
    for form, path in forms.items():
        if subtask.family == "video" and form in TABLES:
            assert asked(subtask.name, path) == []
        else:
            assert [outline(sample) for sample in asked(subtask.name, path)] == right, form


def test_what_a_sample_says_is_what_its_row_says(forms):
    matched = asked("gc-mat", forms["zip"])
    assert [(one.id, one.group, one.target) for one in matched[:2]] == [("1_p", "1", True), ("1_n", "1", False)]
    about = {"gold": "T", "cue": "add_remove", "pair": "1", "half": "p"}
    assert {key: matched[0].meta[key] for key in about} == about
    compared = asked("pc-cpr", forms["zip"])
    assert [one.id for one in compared[2:4]] == ["tf_2_p", "tf_2_n"] and {one.group for one in compared[2:4]} == {"2"}
    counted = asked("oc-cnt", forms["zip"])
    assert [one.target for one in counted] == [2, 2, 4]
    assert [one.meta["images"] for one in counted] == [2, 3, 4] == [len(blobs(one)) for one in counted]
    grouped = asked("oc-grp", forms["zip"])
    assert [one.options[one.target] for one in grouped] == ["1 and 2", "None", "1 and 2"]
    assert [one.meta["form"] for one in asked("pc-vid", forms["zip"])] == ["AB", "ABA", "AB"]


def test_the_videos_are_videos(forms):
    for sample, shown in zip(asked("pc-vid", forms["zip"]), (2, 3, 2), strict=True):
        video = sample.prompt.parts[0]
        assert len(frames(video, MediaSettings(frames=100))) == shown * drawn.FRAMES


def test_a_question_file_alone_finds_pictures_above_it_or_where_it_is_told(forms, tmp_path):
    right = [outline(sample) for sample in asked("oc-cnt", forms["zip"])]
    inside = forms["folder"] / drawn.question_file("oc-cnt")
    assert [outline(sample) for sample in asked("oc-cnt", inside)] == right
    alone = tmp_path / "questions.jsonl"
    alone.write_bytes(inside.read_bytes())
    root = forms["folder"]
    for images in (root, root / "data", root / BY_NAME["oc-cnt"].media, forms["zip"]):
        assert [outline(sample) for sample in asked("oc-cnt", alone, images=images)] == right
    # For scoring the pictures are not needed.
    without = asked("oc-cnt", alone)
    assert [(one.id, one.target, one.meta) for one in without] == [
        (one.id, one.target, one.meta) for one in asked("oc-cnt", inside)
    ]
    with pytest.raises(DataError, match=r"questions\.jsonl, line 1: .*no pictures were found[\s\S]*--images"):
        blobs(without[0])[0].read()


def test_a_question_file_of_another_subtask_is_told_by_its_name(forms):
    with pytest.raises(DataError, match=r"holds the questions of vlm2/oc-cnt"):
        asked("gc-mat", forms["folder"] / drawn.question_file("oc-cnt"))


def test_without_data_the_error_says_what_to_give(tmp_path):
    with pytest.raises(UsageError, match=r"(?s)vlm2/gc-mat needs its data.*hf:Sterzhang/vlm2-bench"):
        asked("gc-mat", None)
    assert vlm2_samples.size(BY_NAME["gc-mat"], Data()) is None
    for name, content in (("other.txt", b"x"), ("notes.zip", None)):
        path = tmp_path / name
        if content is None:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("readme", "x")
        else:
            path.write_bytes(content)
        with pytest.raises(DataError, match=name):
            asked("gc-mat", path)
    with pytest.raises(DataError, match=r"no jsonl/gc/vanilla/gc_mat\.jsonl in it"):
        asked("gc-mat", tmp_path)


def test_the_hub_s_copy_is_read_from_its_cache_and_the_zip_goes_before_the_table(tmp_path, monkeypatch):
    commit = "c" * 40
    repo = tmp_path / "hub" / "datasets--someone--vlm2"
    snapshot = repo / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    (repo / "blobs").mkdir()
    drawn.draw(repo / "blobs" / "made.zip").rename(repo / "blobs" / "1234")
    (snapshot / "vlm2-bench_dataset.zip").symlink_to("../../blobs/1234")
    (snapshot / "VLM2Bench_img.tsv").write_text("not a table")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = asked("pc-vid", Path("hf:someone/vlm2"))
    assert [one.id for one in found] == ["walk_1_AB", "read_2_ABA", "cook_3_AB"] and not faults(found)
    other = tmp_path / "hub" / "datasets--someone--else"
    (other / "snapshots" / commit).mkdir(parents=True)
    (other / "refs").mkdir()
    (other / "refs" / "main").write_text(commit)
    with pytest.raises(DataError, match=r"no file matches jsonl/\*, data/\*, \*\.tsv"):
        asked("pc-vid", Path("hf:someone/else"))


def test_one_digest_for_the_zip_and_its_unpacked_folder_and_another_for_another_picture(forms, tmp_path):
    def digest(path, name="oc-cpr"):
        return vlm2_samples.digest(BY_NAME[name], Data(path=path))

    right = digest(forms["zip"])
    assert {digest(forms[form]) for form in ("folder", "misspelt", "stray", "stray zip", "snapshot")} == {right}
    assert digest(forms["folder"]) == right  # from what was remembered
    copy = drawn.draw(tmp_path / "copy")
    old = 1_700_000_000
    for path in copy.rglob("*.*"):
        os.utime(path, (old, old))
    assert digest(copy) == right == digest(copy)
    picture = copy / BY_NAME["oc-cpr"].media / drawn.rows(drawn.contents(), "oc-cpr")[0]["images"][0]
    content = bytearray(picture.read_bytes())
    content[-9] ^= 1
    picture.write_bytes(content)
    assert digest(copy) != right and digest(copy, "gc-mat") == digest(forms["zip"], "gc-mat")
    picture.unlink()
    assert digest(copy) not in (right, digest(forms["python"]))
    table = forms["paths"].parent / "images" / "VLM2Bench" / "oc-cpr_1_p_1.jpg"
    before, kept = digest(forms["paths"]), table.read_bytes()
    table.write_bytes(kept + b"x")
    assert digest(forms["paths"]) != before
    table.write_bytes(kept)


def test_counts_that_differ_from_the_published_ones_and_halves_of_pairs_are_told(tmp_path):
    files = drawn.contents(4)
    files = drawn.with_rows(files, "gc-mat", drawn.rows(files, "gc-mat")[:-1])
    compared = drawn.rows(files, "oc-cpr")
    files = drawn.with_rows(files, "oc-cpr", [*compared[1:], {**compared[0], "q_id": "203_p_extra"}])
    counted = drawn.rows(files, "oc-cnt")
    counted[1]["gt_answer"] = "2"
    files = drawn.with_rows(files, "oc-cnt", [*counted, counted[0]])
    path = drawn.write(files, tmp_path / "vlm2.zip")

    def told(name):
        return vlm2_samples.notices(BY_NAME[name], Data(path=path))

    assert told("gc-mat") == [
        "4 pairs; published figures are of 259",
        "1 pair without one half (they count as wrong): 4",
    ]
    assert told("oc-cpr") == [
        "3 pairs; published figures are of 360",
        "1 pair without one half (the authors' scripts leave them out): 1",
        "1 row of no pair, by q_id: 203_p_extra",
    ]
    assert told("oc-cnt") == [
        "5 questions; published figures are of 360",
        "1 id more than once: 1",
        "1 gold answer given as text, at which the authors' scripts stop: 2",
    ]
    assert [one.id for one in asked("oc-cnt", path)] == ["1", "2", "3", "4", "1#2"]
    assert told("pc-vid") == ["4 videos; published figures are of 200"]


def test_of_as_many_pairs_as_were_published_nothing_is_said(tmp_path):
    (path := tmp_path / "gc_trk.jsonl").write_text(
        "".join(
            json.dumps({"q_id": pair, "question": "?", "gt_answer": gold, "images": ["1.png", "2.png"]}) + "\n"
            for pair in range(219)
            for gold in "TF"
        )
    )
    for name in ("1.png", "2.png"):
        (tmp_path / name).write_bytes(b"x")
    assert vlm2_samples.notices(BY_NAME["gc-trk"], Data(path=path, images=tmp_path)) == []
    assert vlm2_samples.size(BY_NAME["gc-trk"], Data(path=path)) == 438


HOSTILE_ROWS = [
    (
        "a missing picture",
        {"images": ["swap/9.png", "mat/000/edited.png"]},
        r"there is no 'data/gc/processed/swap/9.png'",
    ),
    ("a path that leaves the root", {"images": ["../../secret", "mat/000/edited.png"]}, r"holds '\.\.'"),
    ("an absolute path", {"images": ["/etc/passwd", "mat/000/edited.png"]}, "is absolute"),
    ("a path with NUL", {"images": ["a\0b", "mat/000/edited.png"]}, "control characters"),
    ("a name too long for a disk", {"images": ["x" * 400, "mat/000/edited.png"]}, "x" * 40),
    ("one image", {"images": ["mat/000/edited.png"]}, "1 image in the row; 2 or more"),
    ("no images", {"images": None}, "'images' is missing"),
    ("images that are no paths", {"images": [1, 2]}, "a list of paths was expected"),
    ("an empty picture", {"images": ["empty.png", "mat/000/edited.png"]}, r"empty \(0 bytes\)"),
    ("no question", {"question": None}, "'question' is missing"),
]


@pytest.mark.parametrize("kind", ["zip", "folder"])
@pytest.mark.parametrize(("what", "change", "says"), HOSTILE_ROWS, ids=[what for what, _, _ in HOSTILE_ROWS])
def test_a_row_that_cannot_be_shown_fails_alone_and_names_its_line(what, change, says, kind, tmp_path):
    files = drawn.contents()
    files["data/gc/processed/empty.png"] = b""
    found = drawn.rows(files, "gc-mat")
    found[2] |= change
    path = drawn.write(drawn.with_rows(files, "gc-mat", found), tmp_path / ("vlm2.zip" if kind == "zip" else "vlm2"))
    samples = asked("gc-mat", path)
    assert [one.id for one in samples] == ["1_p", "1_n", "2_p", "2_n", "3_p", "3_n"]
    failed = faults(samples)
    assert list(failed) == ["2_p"]
    assert re.search(rf"(?s)gc_mat\.jsonl, line 3: .*{says}", failed["2_p"])
    lines = vlm2_samples.notices(BY_NAME["gc-mat"], Data(path=path))
    assert any("1 row" in line and "line 3" in line for line in lines)


HOSTILE_LINES = [
    (b'{"q_id": 2, "question": ', "line 3"),
    (b'{"q_id": "\xff"}', "line 3"),
    (b"[1, 2]", "an object was expected"),
    (b'{"q_id": "\\ud800", "x": NaN}', "line 3"),
    (b"[" * 100_000, "nested too deeply"),
]


@pytest.mark.parametrize(("line", "says"), HOSTILE_LINES, ids=["cut", "not UTF-8", "a list", "surrogate", "deep"])
def test_a_line_that_is_no_row_is_a_failed_sample_and_the_rest_goes_on(line, says, tmp_path):
    files = drawn.contents()
    found = drawn.rows(files, "oc-cnt")
    path = drawn.write(drawn.with_rows(files, "oc-cnt", [*found[:2], line, found[2]]), tmp_path / "vlm2.zip")
    samples = asked("oc-cnt", path)
    assert [one.id for one in samples] == ["1", "2", "oc_cnt.jsonl:3", "3"]
    lost = samples[2]
    assert (lost.target, lost.kind, lost.meta) == (None, "count", {"unreadable": "yes"})
    failed = faults(samples)
    assert list(failed) == [lost.id]
    assert "oc_cnt.jsonl, line 3" in failed[lost.id] and says in failed[lost.id]
    assert vlm2_samples.size(BY_NAME["oc-cnt"], Data(path=path)) == 4
    assert any("1 row cannot be read" in line for line in vlm2_samples.notices(BY_NAME["oc-cnt"], Data(path=path)))


def test_a_last_line_that_is_cut_off_is_named(tmp_path):
    files = drawn.contents()
    name = drawn.question_file("pc-grp")
    files[name] = files[name][:-20]
    samples = asked("pc-grp", drawn.write(files, tmp_path / "vlm2.zip"))
    assert [one.id for one in samples] == ["1", "2", "pc_grp.jsonl:3"]
    assert "the last line is cut off" in faults(samples)["pc_grp.jsonl:3"]


@pytest.mark.parametrize("spoilt", ["missing", "empty", "no name"])
def test_a_video_that_is_not_there_or_empty_fails_alone(spoilt, tmp_path):
    files = drawn.contents()
    found = drawn.rows(files, "pc-vid")
    video = "data/pc/video/UNI/read_2_ABA.mp4"
    if spoilt == "missing":
        del files[video]
    elif spoilt == "empty":
        files[video] = b""
    else:
        found[1]["vid"] = None
        files = drawn.with_rows(files, "pc-vid", found)
    samples = asked("pc-vid", drawn.write(files, tmp_path / "vlm2.zip"))
    failed = faults(samples)
    assert len(samples) == 3 and len(failed) == 1 and isinstance(samples[1].prompt.parts[0], Video)
    assert "pc_v_open-ended.jsonl, line 2" in failed[samples[1].id]
    says = {"missing": "nor with .mov, .avi", "empty": "is empty", "no name": "'vid' is missing"}
    assert says[spoilt] in failed[samples[1].id]


def test_members_with_evil_names_are_left_out_and_told_and_the_rest_is_read(tmp_path):
    files = drawn.contents()
    files["../../evil.png"] = b"x"
    path = drawn.write(files, tmp_path / "vlm2.zip")
    link = zipfile.ZipInfo("data/gc/processed/mat/001/link.png")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    found = drawn.rows(files, "gc-mat")
    found[0]["images"] = ["mat/001/link.png", "mat/001/edited.png"]
    other = drawn.write(drawn.with_rows(files, "gc-mat", found), tmp_path / "other.zip")
    with zipfile.ZipFile(other, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert not faults(asked("gc-mat", path))
    failed = faults(asked("gc-mat", other))
    assert list(failed) == ["1_p"] and "symbolic link" in failed["1_p"] and "gc_mat.jsonl, line 1" in failed["1_p"]
    told = vlm2_samples.notices(BY_NAME["gc-mat"], Data(path=other))
    assert any("evil.png" in line and str(other) in line for line in told)
    assert any("link.png" in line for line in told)
    # In the suite what all nine say is said once.
    assert sum("evil.png" in line for line in VLM2.notices(Data(path=other))) == 1


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    path = drawn.draw(tmp_path / "vlm2")
    (tmp_path / "secret.png").write_bytes(b"secret")
    picture = path / "data/gc/processed/mat/001/original.png"
    picture.unlink()
    picture.symlink_to(tmp_path / "secret.png")
    failed = faults(asked("gc-mat", path))
    assert list(failed) == ["2_p", "2_n"] and "is a symbolic link" in failed["2_p"]


def test_a_damaged_picture_costs_only_the_samples_that_show_it(tmp_path):
    path = drawn.draw(tmp_path / "vlm2.zip")
    whole = bytearray(path.read_bytes())
    at = whole.index(drawn.contents()["data/gc/processed/mat/002/edited.png"])
    whole[at + 100] ^= 0xFF
    path.write_bytes(whole)
    failed = faults(asked("gc-mat", path))
    assert list(failed) == ["3_p", "3_n"] and "mat/002/edited.png" in failed["3_p"]


JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["T", "F", "1_p"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    "q_id",
    "vid",
    "question",
    "gt_answer",
    "images",
    "image_seq_len",
    "image_seq",
    "type",
    "task",
    "edited_prompt",
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSONISH, max_size=8), min_size=1, max_size=6), st.data())
def test_whatever_stands_in_the_rows_every_row_is_a_sample_with_an_id_of_its_own(tmp_path_factory, rows, draws):
    subtask = draws.draw(st.sampled_from(SUBTASKS))
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    samples = asked(subtask.name, path)
    ids = [one.id.encode() for one in samples]
    assert len(set(ids)) == len(rows) == vlm2_samples.size(subtask, Data(path=path))
    assert len(faults(samples)) == len(rows)
    assert all(isinstance(line, str) for line in vlm2_samples.notices(subtask, Data(path=path)))
