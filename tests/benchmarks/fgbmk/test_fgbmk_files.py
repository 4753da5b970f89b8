"""FG-BMK's question files as samples: which files are found, what rows say, and where images are looked for."""

from __future__ import annotations

import shutil
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import released

from snellen.benchmarks import registry
from snellen.benchmarks.base import Data
from snellen.benchmarks.fgbmk import catalogue, question_text, taxonomy
from snellen.errors import DataError, UsageError
from snellen.types import Image, Sample, Text

ALL = {
    "aircraft/bias": 2,
    "cub/class/truth": 2,
    "cub/genus/choice": 2,
    "cub/species/truth": 3,
    "cub/species/choice": 3,
    "cub/species/short": 3,
    "cub/attributes/choice": 2,
    "deepfashion/species/truth": 1,
    "flowers102/species/truth": 2,
    "flowers102/species/choice": 2,
    "inat2021/order/truth": 1,
    "inat2021/order/choice": 2,
    "mtarsi/species/truth": 1,
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return released.write(tmp_path / "data")


def samples(name: str, data: Path, images: Path | None = None, **options: str) -> list[Sample]:
    return list(registry.find(name).samples(Data(data, images, options)))


def image_of(sample: Sample) -> bytes:
    part = sample.prompt.parts[0]
    assert isinstance(part, Image)
    return part.blob.read()


def counts(found: list[Sample]) -> dict[str, int]:
    tasks = [str(one.meta["task"]) for one in found]
    return {task: tasks.count(task) for task in tasks}


def test_the_catalogue_knows_the_36_released_files_by_their_names():
    counted = [member for member in catalogue.members().values() if member.counted]
    assert len(counted) == 36
    assert sum(member.questions or 0 for member in counted) == 165_995
    for member in catalogue.members().values():
        if member.ask != "attribute":
            assert catalogue.member_of_path(f"somewhere/{catalogue.released_name(member)}") == member
    assert catalogue.released_name(catalogue.members()["cub/class/truth"]).endswith("class_question_true_flase.jsonl")


@pytest.mark.parametrize("inside", ["benchmark/human-oriented", "a/b/human-oriented", "."])
def test_the_released_tree_is_found_anywhere_in_a_folder(tmp_path, inside):
    assert counts(samples("fgbmk", released.write(tmp_path, inside))) == ALL


def test_a_zip_and_a_tar_give_the_samples_and_the_digest_of_the_folder(tree, tmp_path):
    whole = registry.find("fgbmk")
    packed = released.zipped(tmp_path / "fg.zip")
    tar = released.tarred(
        tmp_path / "fg.tar.gz", {f"x/{name}": released.lines(rows).encode() for name, rows in released.files().items()}
    )
    wanted = [(one.id, one.target, one.prompt.parts[1], one.group) for one in samples("fgbmk", tree)]
    for other in (packed, tar):
        assert [(one.id, one.target, one.prompt.parts[1], one.group) for one in samples("fgbmk", other)] == wanted
    assert whole.digest(Data(packed)) == whole.digest(Data(tar))
    (tmp_path / "bare").mkdir()
    shutil.move(tree, tmp_path / "bare" / "data")
    assert whole.size(Data(packed)) == whole.size(Data(tmp_path / "bare")) == sum(ALL.values())


def test_ids_are_unique_and_the_same_in_a_file_alone_and_in_the_whole(tree):
    whole = samples("fgbmk", tree)
    assert len({one.id for one in whole}) == len(whole)
    alone = samples("fgbmk/CUB/species/choice", tree)
    assert [one.id for one in alone] == ["cub/species/choice/1", "cub/species/choice/2", "cub/species/choice/3"]
    assert {one.id for one in alone} < {one.id for one in whole}


def test_one_question_file_is_taken_by_its_benchmark_and_refused_by_another(tree, tmp_path):
    inside = tree / "FG-BMK/benchmark/human-oriented" / released.HIERARCHY / "cub"
    assert len(samples("fgbmk/cub/species/choice", inside / "species/species_question_choice.jsonl")) == 3
    shutil.copy(inside / "species/species_question_choice.jsonl", tmp_path / "mine.jsonl")
    assert len(samples("fgbmk/cub/species/choice", tmp_path / "mine.jsonl")) == 3
    with pytest.raises(DataError, match="holds the questions of fgbmk/cub/genus/choice"):
        samples("fgbmk/cub/species/choice", inside / "genus/genus_question_choice.jsonl")
    assert counts(samples("fgbmk", inside)) == {
        name: n for name, n in ALL.items() if name.startswith("cub/") and "attr" not in name
    }


def test_the_true_class_is_known_and_yes_means_that_it_is_the_class_asked_about(tree):
    truths = [one for one in samples("fgbmk", tree) if one.kind == "truth"]
    assert len(truths) == 12
    for one in truths:
        assert one.target == (one.meta["asked"] == one.meta["label"]), one.id
    flower = next(one for one in truths if one.id == "flowers102/species/truth/1")
    assert flower.meta["label"] == "rose"  # neither its row nor its path says so; the choice file does


def test_options_stand_in_the_text_and_the_prompt_is_the_text_as_it_is(tree):
    one = samples("fgbmk/cub/species/choice", tree)[0]
    assert one.kind == "choice_text"
    assert one.target == "black footed albatross"
    assert one.options == {"A": "sooty albatross", "B": "black footed albatross"}
    assert one.meta["chance"] == 0.5
    text = one.prompt.parts[1]
    assert isinstance(text, Text)
    assert text.text.startswith("Which species does this aves")
    assert ".jpg" not in text.text


def test_a_class_stands_under_its_ancestors(tree):
    by_id = {one.id: one.meta for one in samples("fgbmk", tree)}
    assert by_id["cub/species/choice/2"]["path"] == "aves > crow > american crow"
    assert by_id["cub/genus/choice/1"]["path"] == "aves > albatross"
    assert by_id["cub/class/truth/2"]["path"] == "aves"
    assert by_id["inat2021/order/choice/1"]["path"] == "plantae > tracheophyta > liliopsida > poales"
    assert by_id["inat2021/order/truth/1"]["label"] == "poales"
    assert [by_id[f"cub/{level}/choice/1"]["depth"] for level in ("genus", "species")] == ["1", "2"]
    assert "path" not in by_id["flowers102/species/choice/1"]
    assert taxonomy.by_folder("val/nothing/x.jpg", 2) == ""


def test_attributes_have_a_name_a_group_and_the_listed_values(tree):
    wing, bill = samples("fgbmk/cub/attributes/choice", tree)
    assert list(wing.options.values()) == ["blue", "brown", "grey"]
    assert (wing.meta["attribute"], wing.meta["attribute_group"], wing.meta["ask"]) == (
        "wing color",
        "color",
        "attribute",
    )
    assert (bill.meta["attribute_group"], bill.meta["chance"]) == ("shape", 0.5)


@pytest.mark.parametrize(
    ("text", "label", "stem"),
    [
        ("Is the species of the aves brewer blackbird?", "brewer blackbird", "1"),
        ("Does this clothes belong to the fine-grained category known as tee?", "tee", "2"),
        ("Is the aves genus in this photo a will?", "will", "3"),
        ("From your observation, is the species of the aves shown a american crow?", "american crow", "4"),
        ("Is the fine-grained category shown in this aircraft F/A-18?", "F/A-18", "3"),
        ("From your observation, is the fine-grained category of this aircraft B-2?", "B-2", "4"),
        ("Is the fine-grained category of the car Acura TL Sedan 2012?", "Acura TL Sedan 2012", "1"),
        ("Is the species of the flower bird of paradise?", "bird of paradise", "1"),
        ("Would you say so?", "", "other"),
    ],
)
def test_the_asked_class_and_the_template_are_read_from_the_text(text, label, stem):
    assert question_text.asked(text + " Answer with yes or no.") == label
    assert question_text.stem("truth", text) == stem


def test_rows_that_cannot_be_used_cost_their_own_samples_alone(tmp_path):
    rows = released.files()[f"{released.HIERARCHY}/cub/species/species_question_choice.jsonl"]
    strange = {**rows[1], "class": "dodo"}
    path = tmp_path / "species_question_choice.jsonl"
    path.write_text(released.lines([rows[0]]) + '{"question_id": 2,\n' + released.lines([strange, rows[2], rows[2]]))
    found = samples("fgbmk/cub/species/choice", path)
    assert [one.id.rpartition("/")[2] for one in found] == ["1", "line-2", "line-3", "3", "3@5"]
    with pytest.raises(DataError, match="line 2"):
        image_of(found[1])
    with pytest.raises(DataError, match="line 3: the true answer 'dodo' is not among the options"):
        image_of(found[2])
    told = registry.find("fgbmk/cub/species/choice").notices(Data(path))
    assert told[0] == "5 questions; the released file has 5,794"
    assert any(line.startswith("1 row cannot be read") for line in told)
    assert any(line.startswith("1 row cannot be asked") for line in told)


def test_a_pointer_of_git_lfs_is_named_as_what_it_is(tmp_path):
    path = tmp_path / "questions_true_false_all_class.jsonl"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    with pytest.raises(DataError, match="Git LFS"):
        samples("fgbmk/cub/bias", path)


def cub_folder(folder: Path) -> Path:
    return released.birds(folder / "CUB_200_2011")


def cub_above(folder: Path) -> Path:
    released.birds(folder / "given" / "CUB_200_2011")
    return folder / "given"


def cub_images(folder: Path) -> Path:
    return released.birds(folder / "CUB_200_2011") / "images"


def cub_zip(folder: Path) -> Path:
    root = released.birds(folder / "root")
    (folder / "all").mkdir()
    with zipfile.ZipFile(folder / "all" / "CUB.zip", "w") as archive:
        for image in released.BIRDS:
            archive.write(root / image, f"CUB_200_2011/{image}")
    return folder / "all"


def cub_tar(folder: Path) -> Path:
    root = released.birds(folder / "root")
    return released.tarred(folder / "birds.tar.gz", {image: (root / image).read_bytes() for image in released.BIRDS})


@pytest.mark.parametrize("place", [cub_folder, cub_above, cub_images, cub_zip, cub_tar], ids=lambda one: one.__name__)
def test_images_are_found_in_folders_and_archives_under_one_more_folder_too(tree, tmp_path, place):
    found = samples("fgbmk/cub/species/choice", tree, place(tmp_path))
    assert [image_of(one) for one in found] == [released.pixel(shade) for shade in range(3)]


def test_a_missing_image_fails_its_own_sample_with_file_and_line(tree, tmp_path):
    root = released.birds(tmp_path / "cub")
    (root / list(released.BIRDS)[1]).unlink()
    first, second, third = samples("fgbmk/cub/species/choice", tree, tmp_path)
    assert image_of(first) and image_of(third)
    with pytest.raises(
        DataError, match=r"species_question_choice\.jsonl, line 2: image 'images/029.* is not under --images"
    ):
        image_of(second)
    told = registry.find("fgbmk/cub/species/choice").notices(Data(tree, tmp_path))
    assert any(line.startswith("2 of 3 images that were looked for") for line in told)


def test_an_image_path_cannot_lead_out_of_its_root(tmp_path):
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "images").mkdir()
    path = tmp_path / "x.jsonl"
    path.write_text(released.lines([released.row(1, "../secret.txt", "Is it? Answer with yes or no.", "yes")]))
    with pytest.raises(DataError, match="secret"):
        image_of(samples("fgbmk/cub/species/truth", path, tmp_path / "images")[0])


def test_suite_data_sets_and_kinds_narrow_the_whole(tree):
    assert set(counts(samples("fgbmk", tree, suite="bias"))) == {"aircraft/bias"}
    assert set(counts(samples("fgbmk", tree, suite="species,genus", datasets="cub", kinds="choice"))) == {
        "cub/genus/choice",
        "cub/species/choice",
    }
    assert counts(samples("fgbmk", tree, suite="all")) == ALL
    with pytest.raises(UsageError, match="no suite 'specie'"):
        samples("fgbmk", tree, suite="specie")
    with pytest.raises(DataError, match="no such questions of food101"):
        samples("fgbmk", tree, datasets="cub,food101")


@pytest.mark.parametrize("name", sorted(ALL))
def test_a_hint_names_a_wrong_class_below_the_question_as_it_is(tree, name):
    plain, misled = samples(f"fgbmk/{name}", tree), samples(f"fgbmk/{name}", tree, hint="wrong")
    assert [one.id for one in misled] == [one.id for one in plain]
    for before, after in zip(plain, misled, strict=True):
        was, now = before.prompt.parts[1], after.prompt.parts[1]
        assert isinstance(was, Text) and isinstance(now, Text)
        if after.meta["hint"] == "wrong":
            assert now.text.startswith(was.text + "\n")
            assert str(after.meta["hinted"]).lower() != after.meta.get("label")
            reply = "yes" if after.target is True else "no" if after.target is False else str(after.target)
            assert registry.find("fgbmk").score["strict"](after, reply).value == 1.0
        else:
            assert now == was


def test_what_is_not_there_is_said_with_what_is(tree, tmp_path):
    with pytest.raises(DataError, match=r"species_question_choice\.jsonl in it; it has aircraft/bias"):
        samples("fgbmk/stanfordcar/species/choice", tree)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no question file of FG-BMK"):
        samples("fgbmk", tmp_path / "empty")
    with pytest.raises(UsageError, match="no --data"):
        list(registry.find("fgbmk").samples(Data()))
    with pytest.raises(UsageError, match="there is no benchmark"):
        registry.find("fgbmk/cub/species/chioce")


def test_the_digest_follows_questions_and_images(tree, tmp_path):
    one = registry.find("fgbmk/cub/species/choice")
    images = released.birds(tmp_path / "cub")
    before = one.digest(Data(tree, images))
    assert before == one.digest(Data(tree, images)) != one.digest(Data(tree))
    (images / next(iter(released.BIRDS))).write_bytes(released.pixel(200))
    assert one.digest(Data(tree, images)) != before


def test_memory_does_not_grow_with_the_number_of_questions(tmp_path):
    path = tmp_path / "species_question_choice.jsonl"
    rows = released.files()[f"{released.HIERARCHY}/cub/species/species_question_choice.jsonl"]
    with path.open("w") as file:
        for start in range(0, 30_000, 3):
            file.write(released.lines([{**one, "question_id": start + k} for k, one in enumerate(rows)]))
    stream = registry.find("fgbmk/cub/species/choice").samples(Data(path))
    for _ in range(1_000):
        next(stream)
    tracemalloc.start()
    try:
        assert sum(1 for _ in stream) == 29_000
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
