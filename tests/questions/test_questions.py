"""Sets of questions: balanced to one, near negatives first, the same bytes for the same seed, nothing half-written."""

from __future__ import annotations

import tomllib
from collections import Counter
from io import BytesIO
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from birds import LEVELS, SPECIES, picture, rows, taxonomy
from PIL import Image

from snellen.errors import DataError, SnellenError, UsageError
from snellen.questions.generate import BuildSettings, generate
from snellen.questions.verify import verify_set


def build(folder: Path, **settings: object) -> list[dict[str, object]]:
    """Build from the example and return the table's rows."""
    given = {"out": folder / "set", "rows": rows(folder), "taxonomy": taxonomy(folder), "noun": "bird"} | settings
    generate(BuildSettings(**given))  # type: ignore[arg-type]
    return pq.read_table(folder / "set" / "questions.parquet").to_pylist()


def of(table: list[dict[str, object]], part: str) -> list[dict[str, object]]:
    return [row for row in table if str(row["id"]).startswith(f"{part}/")]


def even(counts: Counter[object], cases: int) -> bool:
    return len(counts) <= cases and max(counts.values()) - (min(counts.values()) if len(counts) == cases else 0) <= 1


def test_yes_and_no_are_equally_many_to_one_for_each_level_and_class(tmp_path):
    table = build(tmp_path, kinds=("truth",))
    for level in LEVELS:
        part = of(table, f"{level}/truth")
        assert len(part) == 100 and even(Counter(row["target"] for row in part), 2)
        for label in {row["label"] for row in part}:
            assert even(Counter(row["target"] for row in part if row["label"] == label), 2)


def test_the_right_option_stands_equally_often_in_each_place(tmp_path):
    table = build(tmp_path, kinds=("choice",))
    for level, places in zip(LEVELS, (2, 4, 4), strict=True):
        part = of(table, f"{level}/choice")
        assert {len(row["options"]) for row in part} == {places}
        assert even(Counter(row["right"] for row in part), places)
        for label in {row["label"] for row in part}:
            assert even(Counter(row["right"] for row in part if row["label"] == label), places)


def test_wrong_options_are_siblings_then_cousins_then_the_rest(tmp_path):
    part = of(build(tmp_path, kinds=("choice",)), "species/choice")
    by_label = {row["label"]: row for row in part}
    counts = {name: tuple(by_label[name][kin] for kin in ("siblings", "cousins", "others")) for name in by_label}
    assert counts["yellow warbler"] == (3, 0, 0)
    assert counts["ivory gull"] == (2, 1, 0)
    assert counts["arctic tern"] == (1, 2, 0)
    assert counts["ovenbird"] == (0, 3, 0)


def test_cousins_first_takes_siblings_last(tmp_path):
    part = of(build(tmp_path, kinds=("choice",), negatives="cousin"), "species/choice")
    assert all(row["siblings"] == 0 for row in part)
    terns = [row for row in part if row["label"] == "arctic tern"]
    assert all(row["cousins"] == 3 for row in terns)


def test_random_negatives_come_from_everywhere(tmp_path):
    part = of(build(tmp_path, kinds=("truth",), negatives="random"), "species/truth")
    asked = Counter(row["kinship"][0] for row in part if row["target"] == "no")
    assert set(asked) == {"sibling", "cousin", "other"}


def test_visual_negatives_are_the_nearest_classes(tmp_path):
    vectors = np.stack([[np.cos(at / 9), np.sin(at / 9)] for at in range(len(SPECIES))])
    np.savez(tmp_path / "features.npz", features=np.repeat(vectors, 2, axis=0), labels=np.repeat(SPECIES, 2))
    part = of(
        build(tmp_path, kinds=("choice",), negatives="visual", features=tmp_path / "features.npz"), "species/choice"
    )
    for row in part:
        at = SPECIES.index(row["label"])
        near = sorted((abs(at - SPECIES.index(name)) for name in row["options"]), reverse=True)
        assert near[0] <= 3 and near.count(0) == 1


def test_features_of_an_unknown_class_are_named(tmp_path):
    np.savez(tmp_path / "features.npz", vectors=np.eye(2), classes=["ivory gull", "dodo"])
    with pytest.raises(DataError, match="classes, row 2: the label 'dodo'"):
        build(tmp_path, negatives="visual", features=tmp_path / "features.npz")


def test_no_option_holds_the_name_of_another(tmp_path):
    names = ["gull", "ivory gull", "tern", "arctic tern", "arctic", "bittern", "owl", "barn owl", "crow", "wren"]
    (tmp_path / "t.csv").write_text("order,species\n" + "".join(f"birds,{name}\n" for name in names))
    (tmp_path / "r.csv").write_text("".join(f"{n}.jpg,{names[n % 10]}\n" for n in range(200)))
    part = build(
        tmp_path, rows=tmp_path / "r.csv", taxonomy=str(tmp_path / "t.csv"), at=("species",), kinds=("choice",)
    )
    assert {len(row["options"]) for row in part} == {4}
    for row in part:
        assert not any(a != b and a in b for a in row["options"] for b in row["options"])
    assert verify_set(tmp_path / "set").holds


def test_bias_asks_one_true_and_one_false_question_an_image(tmp_path):
    part = of(build(tmp_path, kinds=("bias",)), "bias/truth")
    assert len(part) == 200
    for yes, no in zip(part[::2], part[1::2], strict=True):
        assert (yes["target"], no["target"]) == ("yes", "no") and yes["image"] == no["image"]


def test_attributes_are_asked_and_no_second_true_value_is_a_wrong_one(tmp_path):
    values = ("red", "blue", "grey", "white", "black")
    lines = [f'"val/a,b/{n}.jpg",wing_colour,{values[n % 5]}' for n in range(100)]
    lines += [f'"val/a,b/{n}.jpg",wing_colour,{values[(n + 1) % 5]}' for n in range(0, 100, 2)]
    (tmp_path / "a.csv").write_text("image,attribute,value\n" + "\n".join(lines) + "\n")
    table = build(tmp_path, kinds=("attributes",), attributes=tmp_path / "a.csv")
    true = {}
    for line in lines:
        name, _, value = line.rpartition(",wing_colour,")
        true.setdefault(name.strip('"'), set()).add(value)
    assert {row["level"] for row in table} == {"wing colour"} and len(table) == 200
    for row in table:
        if row["kind"] == "choice":
            assert len(true[row["source"]] & set(row["options"])) == 1
        else:
            assert (row["asked"] in true[row["source"]]) == (row["target"] == "yes")
    assert verify_set(tmp_path / "set").holds


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_seed_gives_the_same_bytes_however_many_work(tmp_path, workers):
    names = [f"{a}{b} {c}bird" for a in "bcdfg" for b in "aeiou" for c in ("sun", "moon")]
    (tmp_path / "t.csv").write_text("genus,species\n" + "".join(f"{n.split()[0]},{n}\n" for n in names))
    (tmp_path / "r.csv").write_text("".join(f"{n}.jpg,{names[n % 50]}\n" for n in range(40_000)))
    given = {"rows": tmp_path / "r.csv", "taxonomy": str(tmp_path / "t.csv"), "kinds": ("truth", "choice", "bias")}
    whole = []
    for name, count, seed in (("one", 1, 0), ("many", workers, 0), ("other", 1, 1)):
        generate(BuildSettings(out=tmp_path / name, workers=count, seed=seed, name="x", **given))
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        whole.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert whole[0] == whole[1]
    assert whole[0].keys() == whole[2].keys() and whole[0] != whole[2]


def test_lines_have_the_released_record_format_and_neutral_names(tmp_path):
    build(tmp_path)
    lines = (tmp_path / "set/species/species_question_choice.jsonl").read_bytes().splitlines()
    records = [msgspec.json.decode(line) for line in lines]
    assert [record["question_id"] for record in records] == list(range(1, 101))
    assert {tuple(record) for record in records} == {("question_id", "image", "text", "class", "category")}
    assert sorted(record["image"] for record in records) == [f"{n:06d}.jpg" for n in range(1, 101)]
    assert all(f'"{record["class"]}"' in record["text"] and "val" not in record["text"] for record in records)
    order = [SPECIES.index(record["class"]) for record in records]
    assert order != sorted(order), "the numbers say nothing about the classes"


def test_stems_are_used_equally_often(tmp_path):
    own = tomllib.loads((Path(generate.__code__.co_filename).parent / "templates/default.toml").read_text())
    part = of(build(tmp_path, kinds=("truth",)), "species/truth")
    assert even(Counter(row["stem"] for row in part), len(own["truth"]["stems"]))


def test_a_class_may_have_no_more_than_so_many_images(tmp_path):
    table = build(tmp_path, per_class=3, kinds=("short",))
    for level in LEVELS:
        assert set(Counter(row["label"] for row in of(table, f"{level}/short")).values()) == {3}


def test_short_answers_bring_their_aliases(tmp_path):
    part = of(build(tmp_path, kinds=("short",)), "species/short")
    assert {tuple(row["aliases"]) for row in part if row["label"] == "herring gull"} == {("silvery one",)}


def test_copied_images_are_neutral_and_carry_nothing_but_pixels(tmp_path):
    source = tmp_path / "images"
    for name, data in {
        "ivory gull/ivory_gull_1.jpg": picture(text="an ivory gull"),
        "ivory gull/2.png": picture("PNG", text="an ivory gull"),
        "arctic tern/turned.jpg": picture(orientation=6),
        "arctic tern/4.webp": picture("WEBP"),
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(data)
    table = build(tmp_path, rows=None, images=source, copy_images=True, at=("species",), kinds=("truth",))
    assert verify_set(tmp_path / "set").holds
    by_source = {row["source"]: (tmp_path / "set/images" / row["image"]).read_bytes() for row in table}
    assert all(b"ivory gull" not in data and b"Exif" not in data for data in by_source.values())
    assert Image.open(BytesIO(by_source["arctic tern/turned.jpg"])).size == (8, 12)
    before = Image.open(source / "ivory gull/ivory_gull_1.jpg")
    assert Image.open(BytesIO(by_source["ivory gull/ivory_gull_1.jpg"])).tobytes() == before.tobytes()


BAD = {
    "an unknown label": (lambda d: (d / "rows.csv").write_text("1.jpg,dodo\n"), r"rows.csv, line 1: the label 'dodo'"),
    "a coarse label": (lambda d: (d / "rows.csv").write_text("1.jpg,tern\n"), "labelled at the finest level"),
    "a cycle": (
        lambda d: (d / "taxonomy.csv").write_text("genus,species\na,b\nb,a\n"),
        r"taxonomy.csv, line \d: .*cycle",
    ),
    "one class": (
        lambda d: (d / "taxonomy.csv").write_text("genus,species\ngull,ivory gull\ngull,herring gull\n"),
        "the level 'genus' has one class, 'gull'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named_and_nothing_is_written(tmp_path, case):
    spoil, complaint = BAD[case]
    table = taxonomy(tmp_path)
    (tmp_path / "rows.csv").write_text("1.jpg,ivory gull\n2.jpg,herring gull\n")
    spoil(tmp_path)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SnellenError, match=complaint):
        generate(BuildSettings(out=tmp_path / "set", rows=tmp_path / "rows.csv", taxonomy=table))
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("data", "complaint"),
    [(None, "line 2: there is no image '2.jpg'"), (b"GIF8x not a picture", "line 2: '2.jpg' is not an image")],
)
def test_an_image_that_is_missing_or_none_is_named(tmp_path, data, complaint):
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.jpg").write_bytes(picture())
    if data is not None:
        (tmp_path / "images/2.jpg").write_bytes(data)
    (tmp_path / "shown.csv").write_text("1.jpg,ivory gull\n2.jpg,herring gull\n")
    with pytest.raises(DataError, match=complaint):
        build(tmp_path, rows=tmp_path / "shown.csv", images=tmp_path / "images")
    assert not any("set" in path.name for path in tmp_path.iterdir())


def test_an_image_that_cannot_be_decoded_leaves_nothing_half_written(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images/1.jpg").write_bytes(picture())
    (tmp_path / "images/2.jpg").write_bytes(picture()[:-40])
    (tmp_path / "shown.csv").write_text("1.jpg,ivory gull\n2.jpg,herring gull\n")
    with pytest.raises(SnellenError, match="line 2"):
        build(tmp_path, rows=tmp_path / "shown.csv", images=tmp_path / "images", copy_images=True)
    assert not any("set" in path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"kinds": ("truth", "essay")}, "--kinds"),
        ({"rows": None}, "no images given"),
        ({"negatives": "visual"}, "need each other"),
        ({"kinds": ("attributes",)}, "need each other"),
        ({"at": ("family",)}, "levels are order, genus, species"),
        ({"taxonomy": "nowhere.csv"}, "no such file"),
        ({"copy_images": True}, "needs the images"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, settings, complaint):
    with pytest.raises(UsageError, match=complaint):
        build(tmp_path, **settings)
    assert not (tmp_path / "set").exists()


def test_a_set_is_never_overwritten(tmp_path):
    build(tmp_path)
    with pytest.raises(UsageError, match="contains a built set"):
        build(tmp_path)
