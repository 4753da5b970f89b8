"""Linking questions over own images: patterns, distractors, gold answers by hand, and that runs read and score them."""

from __future__ import annotations

import json
from collections import Counter
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from snellen.benchmarks.base import Data
from snellen.benchmarks.vlm2 import locate
from snellen.benchmarks.vlm2.layout import BY_NAME

pytestmark = pytest.mark.usefixtures("printed_as_schema")

CUPS = ("red", "blue", "green", "white", "black")
ANGLES = {"red": 0, "blue": 10, "green": 40, "white": 90, "black": 170}
"""Where each cup's images lie on a circle, in degrees; a toy has those of the red cup."""


def drawn(path: Path, colour: tuple[int, int, int] = (90, 90, 90), size: tuple[int, int] = (12, 8)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)


@pytest.fixture
def things(tmp_path: Path) -> Path:
    """Five cups with four images each, and a toy with one."""
    for cup in CUPS:
        for at in range(4):
            drawn(tmp_path / f"things/cup/{cup}/{at}.png", (CUPS.index(cup) * 50, at * 20, 7))
    drawn(tmp_path / "things/toy/bear/0.png")
    return tmp_path / "things"


def features(snellen: Any, folder: Path) -> Path:
    names = [f"cup/{cup}/{at}.png" for cup in CUPS for at in range(4)] + ["toy/bear/0.png"]
    angles = np.deg2rad([ANGLES[cup] + at for cup in CUPS for at in range(4)] + [0])
    vectors = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)
    np.savez(folder / "f.npz", features=vectors, labels=np.arange(len(names)) % 2, ids=np.array(names))
    assert snellen("features", "import", folder / "f.npz", "--out", folder / "store").status == 0
    return folder / "store"


def rows(folder: Path, subtask: str) -> list[dict[str, Any]]:
    about = BY_NAME[subtask]
    return [json.loads(line) for line in (folder / about.folders[0] / about.questions).read_text().splitlines()]


def built(snellen: Any, *words: object) -> Any:
    said = snellen("build", "linking", *words)
    assert said.status == 0, said.err
    return said


def identities(row: dict[str, Any]) -> list[str]:
    return [name.rpartition("/")[0] for name in row["images"]]


def test_each_object_has_a_sequence_of_each_pattern_and_every_gold_answer_is_true(snellen, tmp_path, things):
    said = built(snellen, "oc", "--images", things, "--out", tmp_path / "set")
    assert "90 questions of vlm2/oc-cpr" in said.out and "45 questions of vlm2/oc-cnt" in said.out
    counts = rows(tmp_path / "set", "oc-cnt")
    patterns = Counter("".join(sorted(row["image_seq"])) for row in counts)
    assert patterns == dict.fromkeys(("AA", "AB", "AAA", "AAB", "ABC", "AAAA", "AAAB", "AABC", "ABCD"), 5)
    for row in counts:
        assert row["gt_answer"] == len(set(identities(row))) and len(set(row["images"])) == row["image_seq_len"]
    for row in rows(tmp_path / "set", "oc-cpr"):
        same = len(set(identities(row))) == 1
        assert row["gt_answer"] == ("T" if same == row["q_id"].endswith("_p") else "F")
    groups = rows(tmp_path / "set", "oc-grp")
    assert len(groups) == 25 and Counter(row["gt_answer"][0] for row in groups).most_common()[0][1] <= 7
    for row in groups:
        who, (letter, _, answer) = identities(row), row["gt_answer"].partition(") ")
        main = [str(at) for at, each in enumerate(who, 1) if who.count(each) > 1]
        assert answer == (", ".join(main[:-1]) + f" and {main[-1]}" if main else "None")
        assert row["question"].count("None") == 1 and f"{letter}) {answer}" in row["question"]


def test_distractors_are_the_nearest_images_of_other_objects_of_the_kind(snellen, tmp_path, things):
    words = ("oc", "--images", things, "--features", features(snellen, tmp_path), "--patterns", "AB,ABCD")
    built(snellen, *words, "--out", tmp_path / "set")
    for row in rows(tmp_path / "set", "oc-cnt"):
        who = {letter: name.split("/")[1:] for letter, name in zip(row["image_seq"], row["images"], strict=True)}
        main, at = who["A"][0], int(who["A"][1][0])
        others = sorted(
            (abs(ANGLES[main] + at - ANGLES[cup] - other), cup, other)
            for cup in CUPS
            if cup != main
            for other in range(4)
        )
        nearest = list(dict.fromkeys(cup for _, cup, _ in others))
        assert [who[letter][0] for letter in "BCD" if letter in who] == nearest[: len(who) - 1]
        assert int(who["B"][1][0]) == others[0][2], "of the nearest object the nearest image"


def test_the_same_seed_gives_the_same_files_and_another_one_others(snellen, tmp_path, things):
    files = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        built(snellen, "oc", "--images", things, "--out", tmp_path / name, "--seed", seed, "--json")
        files.append((tmp_path / name / "jsonl/oc/vanilla/oc_grp.jsonl").read_bytes())
    assert files[0] == files[1] != files[2]
    assert json.loads((tmp_path / "a/built_oc.json").read_text())["distractors"] == "drawn"


def test_a_run_shows_the_images_and_replies_that_are_right_score_one(snellen, tmp_path, things):
    built(snellen, "oc", "--images", things, "--out", tmp_path / "set")
    said = snellen("run", "vlm2/oc-grp", "--data", tmp_path / "set", "-m", "pixels", "--out", "r")
    assert said.status == 0, said.err
    for task, metric in (("cpr", "pair_accuracy"), ("cnt", "count_score_usable"), ("grp", "grouping_accuracy")):
        answers = [{**row, "model_answer": str(row["gt_answer"])} for row in rows(tmp_path / "set", f"oc-{task}")]
        (tmp_path / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
        data = tmp_path / f"set/jsonl/oc/vanilla/oc_{task}.jsonl"
        said = snellen("score", "answers.jsonl", "--benchmark", f"vlm2/oc-{task}", "--data", data, "--json")
        values = {each["name"]: each["value"] for each in json.loads(said.out)["profiles"][0]["metrics"]}
        assert values[metric] == 1.0, said.out


def test_people_lie_in_one_folder_each_and_too_few_images_are_counted(snellen, tmp_path):
    for person, count in (("ann", 2), ("bob", 1)):
        for at in range(count):
            drawn(tmp_path / f"people/{person}/{at}.jpg")
    said = built(snellen, "pc", "--images", tmp_path / "people", "--out", tmp_path / "set")
    assert "AAA: 1 identities have too few images" in said.err and "ABC: 1 identities" in said.err
    made = rows(tmp_path / "set", "pc-cnt")
    assert sorted("".join(sorted(row["image_seq"])) for row in made) == ["AA", "AAB", "AB"]
    assert {row["type"] for row in made} == {"person"}


PAIRS = (
    "image_1,image_2,edit,change,changed,other,forward,backward,salience\n"
    "1.png,2.png,add a cat,add,a cat,a tree,a cat was added,a cat was removed,-3.5\n"
    "1.png,3.png,remove the car,remove,a car,a tree,,,-2.0\n"
    "2.png,3.png,make it night,environment,,,it became night,it became day,-2.5\n"
)


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    for name in "123":
        drawn(tmp_path / f"edited/{name}.png")
    (tmp_path / "pairs.csv").write_text(PAIRS)
    return tmp_path / "edited"


def test_pairs_below_the_salience_are_asked_by_a_right_candidate_and_a_wrong_one(snellen, tmp_path, edited):
    said = built(snellen, "gc", "--images", edited, "--pairs", "pairs.csv", "--out", tmp_path / "set")
    assert "2 of 3 pairs are below a salience of -2" in said.err
    matching, tracking = rows(tmp_path / "set", "gc-mat"), rows(tmp_path / "set", "gc-trk")
    assert [(row["q_id"], row["gt_answer"]) for row in matching] == [(1, "T"), (1, "F")]
    assert '"a cat"' in matching[0]["question"] and '"a tree"' in matching[1]["question"]
    assert [(row["q_id"], row["gt_answer"]) for row in tracking] == [(1, "T"), (1, "F"), (2, "T"), (2, "F")]
    assert '"it became day"' in tracking[3]["question"] and tracking[3]["images"] == ["2.png", "3.png"]
    said = snellen("run", "vlm2/gc-trk", "--data", tmp_path / "set", "-m", "pixels", "--out", "r")
    assert said.status == 0, said.err
    assert not (tmp_path / "set/data/gc/processed/4.png").exists()


def test_salience_is_the_mean_log_probability_of_the_edits_tokens(snellen, tmp_path, edited):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={letter: at for at, letter in enumerate(letters)}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    transformers.PreTrainedTokenizerFast(tokenizer_object=core).save_pretrained(tmp_path / "lm")
    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=256, **size))
    with torch.no_grad():
        model.lm_head.weight.zero_()  # every token is as likely as the others
    model.save_pretrained(tmp_path / "lm")
    captions = PAIRS.splitlines()
    captions = [
        captions[0] + ",caption_1,caption_2",
        *(f"{line},a street,a street with a cat" for line in captions[1:]),
    ]
    (tmp_path / "pairs.csv").write_text("\n".join(captions) + "\n")
    built(
        snellen,
        "gc",
        "--images",
        edited,
        "--pairs",
        "pairs.csv",
        "--scorer",
        tmp_path / "lm",
        "--out",
        tmp_path / "set",
    )
    assert {row["salience"] for row in rows(tmp_path / "set", "gc-trk")} == {round(-log(256), 4)}
    said = snellen("build", "linking", "gc", "--images", edited, "--pairs", "pairs.csv", "--scorer", tmp_path / "lm",
                   "--salience", "-6", "--out", tmp_path / "none")  # fmt: skip
    assert said.status == 2 and "none of 3 pairs is below a salience of -6" in said.err


def video(path: Path, brightness: list[int], rate: int) -> None:
    av = pytest.importorskip("av")
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 64, 48, "yuv420p", 2_000_000
        for value in brightness:
            container.mux(
                stream.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), value, np.uint8), format="rgb24"))
            )
        container.mux(stream.encode())


def brightness(path: Path) -> list[int]:
    """The brightness of each frame, to the next ten."""
    av = pytest.importorskip("av")
    with av.open(str(path)) as container:
        return [round(frame.to_ndarray(format="rgb24")[24, 32, 0] / 10) * 10 for frame in container.decode(video=0)]


def test_clips_are_joined_to_ab_and_aba_and_the_third_follows_on_the_first(snellen, tmp_path):
    video(tmp_path / "clips/Read/ann.mp4", [20 * (at // 2) for at in range(16)], rate=8)
    for at in range(5):
        drawn(tmp_path / f"clips/Read/bob/{at}.png", (200, 200, 200), (48, 64))
    words = ("vid", "--images", tmp_path / "clips", "--seconds", "0.5", "--rate", "4")
    built(snellen, *words, "--out", tmp_path / "set")
    made = {row["vid"]: row for row in rows(tmp_path / "set", "pc-vid")}
    assert list(made) == ["read_1_AB", "read_1_ABA"]
    # Two frames are half a second: of ann's video those shown at 0 and 1/4 s, then at 1/2 and 3/4 s.
    first, then = ([0, 20], [40, 60]) if made["read_1_AB"]["first"] == "ann.mp4" else ([200, 200], [200, 200])
    second = [200, 200] if first == [0, 20] else [0, 20]
    videos = tmp_path / "set/data/pc/video/UNI"
    assert brightness(videos / "read_1_AB.mp4") == first + second
    assert brightness(videos / "read_1_ABA.mp4") == first + second + then
    data = Data(path=tmp_path / "set")
    questions = locate.questions(BY_NAME["pc-vid"], data)
    assert [questions.shown(line, row)[0].read()[4:8] for line, row in questions.rows()] == [b"ftyp", b"ftyp"]


def test_several_cues_share_a_folder_and_nothing_is_overwritten(snellen, tmp_path, things, edited):
    for words in (("oc", "--images", things), ("gc", "--images", edited, "--pairs", "pairs.csv")):
        built(snellen, *words, "--out", tmp_path / "set")
        said = snellen("build", "linking", *words, "--out", tmp_path / "set")
        assert said.status == 2 and "nothing is overwritten" in said.err
    assert json.loads(snellen("run", "vlm2", "--data", tmp_path / "set", "-m", "pixels", "--out", "r", "--json").out)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("oc", "--images", "flat"), "KIND/OBJECT/IMAGE was expected"),
        (("pc", "--images", "single"), "no person has two images"),
        (("oc", "--images", "things", "--patterns", "ABA"), "--patterns ABA: some of AA, AB"),
        (("oc", "--images", "things", "--features", "store"), "there is no row for the image cup/"),
        (("gc", "--images", "edited"), "Give --pairs FILE"),
        (("gc", "--images", "edited", "--pairs", "empty.csv"), "changed and other, or forward and backward, are empty"),
        (("gc", "--images", "edited", "--pairs", "unscored.csv"), "line 2: salience: no value that can be used"),
        (("gc", "--images", "edited", "--pairs", "missing.csv"), "there is no image '9.png'"),
        (("gc", "--images", "edited", "--pairs", "outside.csv"), "../1.png"),
        (("vid", "--images", "things"), "cannot be decoded"),
        (("vid", "--images", "flat"), "no activity has two people"),
    ],
)
def test_what_cannot_be_built_is_refused_and_nothing_is_written(snellen, tmp_path, things, edited, words, complaint):
    drawn(tmp_path / "flat/1.png")
    drawn(tmp_path / "single/ann/1.png")
    (tmp_path / "things/cup/film.mp4").write_bytes(b"no video")
    for name, line in (
        ("empty", "1.png,2.png,x,add,a,,b,,-3"),
        ("unscored", "1.png,2.png,x,add,a,b,,,"),
        ("missing", "1.png,9.png,x,add,a,b,,,-3"),
        ("outside", "../1.png,2.png,x,add,a,b,,,-3"),
    ):
        (tmp_path / f"{name}.csv").write_text(PAIRS.splitlines()[0] + f"\n{line}\n")
    np.savez(tmp_path / "f.npz", features=np.eye(2, dtype=np.float32), labels=np.arange(2), ids=np.array(["x", "y"]))
    snellen("features", "import", "f.npz", "--out", "store")
    said = snellen("build", "linking", *words, "--out", "set")
    assert said.status != 0 and complaint in " ".join(said.err.split()), said.err
    assert not (tmp_path / "set/jsonl").exists()


@pytest.mark.parametrize(
    "words",
    [("build", "linking", "oc", "--images", "things"), ("build", "curate", "rows.jsonl"), ("answer", "chart/digits")],
)
def test_nothing_else_is_written_into_the_folder_of_a_run(snellen, things, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run_meta.json").write_text("{}")
    done = snellen(*words, "--out", "run")
    assert done.status == 2 and "run is the folder of a run" in done.err
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["run_meta.json"]
