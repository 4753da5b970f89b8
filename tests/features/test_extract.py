"""Extraction end to end with real encoders: splits, archives, damaged pictures, other settings, kills."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from pictures import data_set, jpeg

from printed_schema import require_schema
from snellen.errors import DataError, FingerprintError, UnsafeArchiveError, UsageError
from snellen.features import open_store
from snellen.features.encoders import open_encoder
from snellen.features.extract import extract
from snellen.features.extract.loop import encode_rows
from snellen.features.extract.preprocess import normalise, read_pixels
from snellen.features.store.splits import read_splits, split_name
from snellen.features.store.writer import COMMITS
from snellen.sources import open_tree

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LABELS = {"train": ["0", "300", "7"] * 4, "test": ["7", "0", "300", "5", "0"]}


@pytest.fixture(scope="module")
def encoder():
    return open_encoder("embedded", ["patch_mean", "aligned"])


def cli(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snellen", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


def test_every_row_of_every_split_is_encoded_as_if_it_were_alone(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    meta = extract(encoder, files, tmp_path / "images", tmp_path / "s", batch_size=5, workers=2)
    store = open_store(tmp_path / "s", "aligned")
    assert (meta.rows, store.splits) == (17, {"train": 12, "test": 5})
    assert store.labels.classes.tolist() == [0, 5, 7, 300]
    assert store.labels.single.tolist() == [int(one) for each in LABELS.values() for one in each]
    assert store.ids[12] == "Less, More/test 0.jpg"
    tree = open_tree(tmp_path / "images")
    for row, name in enumerate(store.ids):
        pixels = normalise(read_pixels(tree.blob(name), encoder.transform)[None], encoder.transform)
        assert np.allclose(store.values[row], encoder.encode(pixels)["aligned"][0].numpy(), atol=1e-5), name
    assert list(meta.outputs) == ["patch_mean", "aligned"]
    assert meta.identity["transform"]["mean"] == [0.5, 0.5, 0.5]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_archives_are_read_in_place_and_give_the_same_features(tmp_path, encoder, kind):
    files = data_set(tmp_path, LABELS)
    names = sorted(path for path in (tmp_path / "images").rglob("*.jpg"))
    archive = tmp_path / f"images.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as zipped:
            for path in names:
                zipped.write(path, path.relative_to(tmp_path / "images"))
    else:
        with tarfile.open(archive, "w") as tarred:
            for path in names:
                tarred.add(path, path.relative_to(tmp_path / "images"))
    extract(encoder, files, tmp_path / "images", tmp_path / "a")
    extract(encoder, files, archive, tmp_path / "b")
    assert np.array_equal(open_store(tmp_path / "a").values, open_store(tmp_path / "b").values)


def test_an_unreadable_picture_ends_the_extraction_or_is_listed_and_counted(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    damaged = tmp_path / "images" / "Less, More" / "test 3.jpg"  # the only one of class 5
    damaged.write_bytes(jpeg(1)[:200])
    with pytest.raises(DataError, match=r"(?s)test 3\.jpg.*--allow-missing"):
        extract(encoder, files, tmp_path / "images", tmp_path / "s", batch_size=4)
    meta = extract(encoder, files, tmp_path / "images", tmp_path / "s", batch_size=4, allow_missing=True)
    store = open_store(tmp_path / "s")
    assert len(store) == meta.rows == 16
    assert [(one.id, one.split) for one in meta.missing] == [("Less, More/test 3.jpg", "test")]
    assert store.splits == {"train": 12, "test": 4}
    assert store.labels.classes.tolist() == [0, 7, 300]
    whole = data_set(tmp_path / "whole", LABELS)
    extract(encoder, whole, tmp_path / "whole" / "images", tmp_path / "t")
    kept = [row for row in range(17) if row != 15]
    assert np.allclose(store.values, open_store(tmp_path / "t").values[kept], atol=1e-5)
    told = json.loads(cli("features", "knn", tmp_path / "s", "--k", "1", "--json").stdout)
    assert any("1 of 17 images could not be read" in line for line in told["notes"])


def test_a_line_of_pixels_that_would_fill_the_memory_is_an_unreadable_picture(tmp_path, encoder, monkeypatch):
    files = data_set(tmp_path, LABELS)
    short = structs.replace(encoder.transform, resize=(48,), crop=(48, 48))
    monkeypatch.setattr(encoder, "transform", short)
    line = tmp_path / "images" / "Less, More" / "test 3.jpg"
    line.write_bytes(jpeg(1, 20000, 1))
    assert extract(encoder, files, tmp_path / "images", tmp_path / "s").rows == 17
    monkeypatch.setattr("snellen.features.extract.preprocess.PIXEL_LIMIT", 40_000_000)
    monkeypatch.setenv("SNELLEN_MAX_IMAGE_PIXELS", "30000")  # small pictures may still grow
    with pytest.raises(DataError, match=r"test 3\.jpg: its 20,000 x 1 pixels would be resized to 960,000 x 48 for"):
        extract(encoder, files, tmp_path / "images", tmp_path / "t")
    meta = extract(encoder, files, tmp_path / "images", tmp_path / "t", allow_missing=True)
    assert [one.id for one in meta.missing] == ["Less, More/test 3.jpg"]


def test_a_batch_size_far_above_the_rows_takes_no_room(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    extract(encoder, files, tmp_path / "images", tmp_path / "s", batch_size=17)
    extract(encoder, files, tmp_path / "images", tmp_path / "t", batch_size=10**12)
    assert np.array_equal(open_store(tmp_path / "s").values, open_store(tmp_path / "t").values)


def test_pictures_that_are_not_there_are_counted_before_anything_is_encoded(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    for index in (2, 4):
        (tmp_path / "images" / "Less, More" / f"train {index}.jpg").unlink()
    with pytest.raises(DataError, match=r"15 of 17 images are under .*'Less, More/train 2.jpg'"):
        extract(encoder, files, tmp_path / "images", tmp_path / "s")
    assert not (tmp_path / "s").exists()
    assert extract(encoder, files, tmp_path / "images", tmp_path / "s", allow_missing=True).rows == 15


def test_other_settings_do_not_go_on_in_the_same_store(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    extract(encoder, files, tmp_path / "images", tmp_path / "s")
    extract(encoder, files, tmp_path / "images", tmp_path / "s")  # complete: nothing to do
    with pytest.raises(FingerprintError, match=r"(?s)dtype +float32  ->  float16.*To start a new store"):
        extract(encoder, files, tmp_path / "images", tmp_path / "s", dtype="float16")
    with pytest.raises(FingerprintError, match="outputs"):
        extract(open_encoder("embedded", ["patch_mean"]), files, tmp_path / "images", tmp_path / "s")
    (tmp_path / "images" / "Less, More" / "train 0.jpg").write_bytes(jpeg(99, 70, 70))
    with pytest.raises(FingerprintError, match="data"):
        extract(encoder, files, tmp_path / "images", tmp_path / "s")


def test_row_numbers_can_be_shared_out_and_give_the_same_values(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    tree, rows = open_tree(tmp_path / "images"), read_splits(files)
    extract(encoder, files, tmp_path / "images", tmp_path / "s")
    whole = open_store(tmp_path / "s").values
    for share in (range(0, 17, 2), range(1, 17, 2)):
        for part in encode_rows(encoder, lambda row: tree.blob(rows.ids[row]), share, 3, 2):
            assert np.allclose(part.values["patch_mean"], whole[list(part.rows)], atol=1e-5)


def test_a_batch_of_one_picture_keeps_every_thread_reading(tmp_path, encoder):
    data_set(tmp_path, LABELS)
    picture = open_tree(tmp_path / "images").blob("Less, More/test 0.jpg")
    together = threading.Barrier(4)

    class Meeting:
        key = "meeting"

        def read(self):
            together.wait(600)  # ends only when four are read at once
            return picture.read()

    parts = list(encode_rows(encoder, lambda row: Meeting(), range(16), batch_size=1, workers=4))
    assert [part.rows for part in parts] == [[row] for row in range(16)]


def test_float16_stores_are_half_as_large_and_nearly_the_same(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    extract(encoder, files, tmp_path / "images", tmp_path / "a")
    extract(encoder, files, tmp_path / "images", tmp_path / "b", dtype="float16")
    full, half = open_store(tmp_path / "a").values, open_store(tmp_path / "b").values
    assert half.dtype == np.float16
    assert np.allclose(full, half, rtol=2e-3, atol=1e-3)


def test_several_labels_a_row_and_names_of_classes_come_from_the_files(tmp_path):
    files = data_set(tmp_path, {"train": ["1 3", "0", "3"], "test": ["2 0 1", "1"]}, ["a", "b", "c d", "e", "never"])
    labels = read_splits(files).labels
    assert labels.many is not None
    assert labels.ids() == [[1, 3], [0], [3], [0, 1, 2], [1]]
    assert labels.names == ("a", "b", "c d", "e", "never")


@pytest.mark.parametrize(
    ("text", "fault", "words"),
    [
        ("a.jpg,1\nb.jpg\n", DataError, r"x\.csv, line 2: 'b\.jpg'; `path,label` was expected"),
        ("path,label\na.jpg,1\nb.jpg,2\n", DataError, r"line 1 of .*'label' is no number.*\n?.*no header"),
        ("a.jpg,1\nb.jpg,\nc.jpg,2\n", DataError, r"line 2 of .*it has no label"),
        ("", DataError, "has no rows"),
    ],
)
def test_lines_that_are_no_path_and_label_are_named(tmp_path, text, fault, words):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(fault, match=words):
        read_splits([tmp_path / "x.csv"])


def test_a_class_without_a_name_is_refused(tmp_path):
    (tmp_path / "classes.txt").write_text("owl\nwren\n")
    (tmp_path / "train.csv").write_text("a.jpg,2\n")
    with pytest.raises(DataError, match="class 2 has no name"):
        read_splits([tmp_path / "train.csv"])


def test_a_list_of_class_names_in_another_encoding_is_named(tmp_path):
    (tmp_path / "classes.txt").write_bytes("h\xe9ron\nwren\n".encode("latin-1"))
    (tmp_path / "train.csv").write_text("a.jpg,wren\n")
    with pytest.raises(DataError, match=r"classes\.txt is not UTF-8"):
        read_splits([tmp_path / "train.csv"])


def test_splits_are_named_after_their_files_or_as_said(tmp_path):
    names = {"train": "train", "cub_test": "test", "val-2017": "val", "few": "few", "train_test": "train_test"}
    assert {name: split_name(Path(f"{name}.csv")) for name in names} == names
    (tmp_path / "rows.csv").write_text("a.jpg,1\n")
    assert read_splits([f"gallery={tmp_path / 'rows.csv'}"]).splits == ["gallery"]
    with pytest.raises(UsageError, match="two files are the split 'a'"):
        read_splits([f"a={tmp_path / 'rows.csv'}"] * 2)


def test_a_path_that_leaves_the_folder_is_refused(tmp_path, encoder):
    (tmp_path / "train.csv").write_text("../secret.jpg,1\n")
    (tmp_path / "images").mkdir()
    with pytest.raises(UnsafeArchiveError):
        extract(encoder, [tmp_path / "train.csv"], tmp_path / "images", tmp_path / "s")


EXTRACTING = """
import sys
from snellen.features.encoders import open_encoder
from snellen.features.extract import extract
folder = sys.argv[1]
import torch
torch.set_num_threads(1)
extract(
    open_encoder("embedded", ["patch_mean"]), [folder + "/train.csv"], folder + "/images", folder + "/s",
    batch_size=4, shard_rows=8, workers=1, progress=lambda done, total: (print(done, flush=True), sys.stdin.readline()),
)
"""


def test_a_killed_extraction_goes_on_and_ends_as_one_that_was_never_killed(tmp_path, encoder):
    files = data_set(tmp_path, {"train": [str(i % 9) for i in range(400)]})
    extract(encoder, files, tmp_path / "images", tmp_path / "whole")
    draw, command = random.Random(1), [sys.executable, "-c", EXTRACTING, str(tmp_path)]
    resumed = []
    for _ in range(4):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdin is not None and process.stdout is not None
        for _ in range(draw.randrange(2, 12)):
            resumed.append(int(process.stdout.readline()))
            print(file=process.stdin, flush=True)  # it goes on to the next batch, and no further
        time.sleep(draw.uniform(0, 0.01))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=600)
        assert (tmp_path / "s" / COMMITS).exists()
    done = cli(
        *("features", "extract", "--encoder", "embedded", "--outputs", "patch_mean", "--split", files[0]),
        *("--images", tmp_path / "images", "--out", tmp_path / "s", "--json"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 400
    require_schema("features extract", done.stdout)
    assert resumed[-1] > resumed[0]
    one, other = open_store(tmp_path / "whole", "patch_mean"), open_store(tmp_path / "s")
    assert one.ids.tolist() == other.ids.tolist()
    assert np.allclose(one.values, other.values, atol=1e-5)
    assert not (tmp_path / "s" / COMMITS).exists()


def test_commands_import_and_measure_and_say_the_protocol(tmp_path):
    rng = np.random.default_rng(2)
    labels = np.arange(60) % 6
    values = rng.normal(size=(60, 8)) + 2 * rng.normal(size=(6, 8))[labels]
    split = np.array(["train"] * 40 + ["test"] * 20)
    np.savez(tmp_path / "f.npz", emb=values, labels=labels, split=split)
    made = cli("features", "import", tmp_path / "f.npz", "--key", "features=emb", "--json")
    require_schema("features import", made.stdout)
    assert json.loads(made.stdout)["splits"] == {"train": 40, "test": 20}
    found = json.loads(cli("features", "retrieval", tmp_path / "f", "--json").stdout)
    assert found["settings"]["protocol"] == "query/gallery"
    unit = values / np.linalg.norm(values, axis=1, keepdims=True)
    precision = []
    for query in range(40, 60):
        order = np.argsort(-(unit[:40] @ unit[query]))
        hits = labels[order] == labels[query]
        precision.append(np.mean(np.cumsum(hits)[hits] / (np.flatnonzero(hits) + 1)))
    by_name = {one["name"]: one for one in found["metrics"]}
    assert by_name["map"]["value"] == pytest.approx(np.mean(precision), abs=1e-6)
    alone = json.loads(cli("features", "retrieval", tmp_path / "f", "--leave-one-out", "--json").stdout)
    assert (alone["settings"]["protocol"], alone["metrics"][0]["n"]) == ("leave-one-out", 60)
    refused = cli("features", "retrieval", tmp_path / "f", "--output", "cls")
    assert refused.returncode == 2
    assert "it has: features" in refused.stderr


def test_a_damaged_store_is_refused(tmp_path, encoder):
    files = data_set(tmp_path, LABELS)
    extract(encoder, files, tmp_path / "images", tmp_path / "s")
    shutil.copytree(tmp_path / "s", tmp_path / "t")
    np.save(tmp_path / "t" / "patch_mean.npy", np.zeros((3, 128), dtype=np.float32))
    with pytest.raises(DataError, match=r"patch_mean\.npy holds \[3, 128\]"):
        open_store(tmp_path / "t")
    (tmp_path / "s" / "store.json").write_text("{}")
    with pytest.raises(DataError, match=r"is not a valid store\.json"):
        open_store(tmp_path / "s")


@pytest.mark.parametrize("archive", ["StanfordDogs/images.tar", "images.tar", None], ids=str)
def test_images_are_found_in_a_published_archive_and_in_what_it_unpacks_to(tmp_path, encoder, archive):
    names = [f"n0208562{number % 2}-Dog/n0208562{number % 2}_{number}.jpg" for number in range(4)]
    (tmp_path / "dogs.csv").write_text("".join(f"images/{name},{name[8]}\n" for name in names))
    plain, shelf = tmp_path / "plain" / "images", tmp_path / "shelf"
    for number, name in enumerate(names):
        for root in (plain, *([shelf / "Images"] if archive is None else [])):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(jpeg(number))
    if archive is not None:
        (shelf / archive).parent.mkdir(parents=True)
        with tarfile.open(shelf / archive, "w") as tar:
            tar.add(plain, "Images")
    extract(encoder, [f"test={tmp_path / 'dogs.csv'}"], tmp_path / "plain", tmp_path / "a")
    meta = extract(encoder, [f"test={tmp_path / 'dogs.csv'}"], shelf, tmp_path / "b")
    assert meta.rows == 4
    assert np.array_equal(open_store(tmp_path / "a").values, open_store(tmp_path / "b").values)


def test_a_split_or_an_archive_that_is_a_pointer_is_named_with_the_command_that_fetches_it(tmp_path, encoder):
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 352552282\n"
    (tmp_path / "train.csv").write_text(pointer)
    with pytest.raises(DataError, match="pointer of Git LFS: 352,552,282 bytes"):
        extract(encoder, [tmp_path / "train.csv"], tmp_path, tmp_path / "s")
    (tmp_path / "test.csv").write_text("car_ims/000001.jpg,0\n")
    (tmp_path / "car_ims.tgz").write_text(pointer)
    with pytest.raises(DataError, match=r"car_ims\.tgz cannot be used: a pointer.*git lfs pull"):
        extract(encoder, [tmp_path / "test.csv"], tmp_path, tmp_path / "s")
