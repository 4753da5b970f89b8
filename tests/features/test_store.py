"""Importing other people's features, and a store that is written to while processes are killed."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from snellen.errors import DataError, FingerprintError, RunLockedError, StorageError, UsageError
from snellen.features import import_file, open_store
from snellen.features.store.format import read_meta
from snellen.features.store.labels import from_ids
from snellen.features.store.writer import COMMITS, StoreRows, StoreWriter

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4)).astype(np.float32)
Y = np.array([0, 7, 7, 300, 0, 9])


def npz(folder: Path, **arrays: object) -> Path:
    path = folder / "given.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("features", ["features", "embeddings", "feats", "X", "x", "data"])
@pytest.mark.parametrize("labels", ["labels", "label", "y", "targets", "target"])
def test_usual_names_are_found_and_labels_keep_their_gaps(tmp_path, features, labels):
    store = open_store(import_file(npz(tmp_path, **{features: X, labels: Y}), tmp_path / "s"))
    assert np.array_equal(store.values, X)
    assert store.labels.single.tolist() == Y.tolist()
    assert store.labels.classes.tolist() == [0, 7, 9, 300]
    assert store.labels.columns.tolist() == [0, 1, 1, 3, 0, 2]
    assert store.ids.tolist() == ["0", "1", "2", "3", "4", "5"]
    assert store.splits == {"": 6}


def test_values_are_mapped_and_not_read(tmp_path):
    store = open_store(import_file(npz(tmp_path, features=X, labels=Y, split=list("aaabbb")), tmp_path / "s"))
    part = store.only("b")
    assert isinstance(store.values, np.memmap)
    assert np.shares_memory(part.values, store.values)
    assert not store.values.flags.writeable
    assert part.labels.single.tolist() == [300, 0, 9]
    with pytest.raises(DataError, match=r"there is no split 'c'; there are: a \(3\), b \(3\)"):
        store.only("c")


@pytest.mark.parametrize(
    "names",
    [
        ("train_features", "train_labels", "test_features", "test_labels"),
        ("X_train", "y_train", "X_test", "y_test"),
    ],
)
def test_arrays_of_each_split_are_joined(tmp_path, names):
    arrays = dict(zip(names, (X[:4], Y[:4], X[4:], Y[4:]), strict=True))
    store = open_store(import_file(npz(tmp_path, **arrays), tmp_path / "s"))
    assert store.splits == {"train": 4, "test": 2}
    assert np.array_equal(store.only("test").values, X[4:])
    assert store.ids[-1] == "test/1"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (X.astype(np.float16), "float16"),
        (X, "float32"),
        (X.astype(np.float64), "float32"),
        (RNG.normal(size=(6, 4)), "float64"),
        (np.arange(24).reshape(6, 4), "float32"),
        (np.arange(24, dtype=np.int64).reshape(6, 4) + 2**24, "float64"),
        (np.arange(24, dtype=np.uint8).reshape(6, 4), "float32"),
    ],
)
def test_every_value_stays_what_it_is(tmp_path, given, stored):
    store = open_store(import_file(npz(tmp_path, features=given, labels=Y), tmp_path / "s"))
    assert str(store.values.dtype) == stored
    assert np.array_equal(store.values.astype(np.float64), given.astype(np.float64))


def test_several_labels_a_row_come_as_texts_as_a_matrix_or_as_lists(tmp_path):
    texts = np.array(["3 17", "4", "", "3", "17 4 3", "4"])
    lists = [[3, 17], [4], [], [3], [3, 4, 17], [4]]
    matrix = np.zeros((6, 20), dtype=np.int8)
    for row, ids in enumerate(lists):
        matrix[row, ids] = 1
    one = open_store(import_file(npz(tmp_path, features=X, labels=texts), tmp_path / "texts"))
    two = open_store(import_file(npz(tmp_path, features=X, labels=matrix), tmp_path / "matrix"))
    pq.write_table(pa.table({"embedding": X.tolist(), "label": lists}), tmp_path / "a.parquet")
    three = open_store(import_file(tmp_path / "a.parquet", tmp_path / "lists"))
    for store in (one, two, three):
        assert store.labels.ids() == [sorted(ids) for ids in lists]
        assert "1 rows have no label at all" in store.meta.notes
    assert one.labels.classes.tolist() == [3, 4, 17]
    assert two.labels.many.shape == (6, 20)


def test_lists_of_zeros_and_ones_of_one_length_are_a_matrix_and_no_ids(tmp_path):
    matrix = (RNG.random((6, 3)) < 0.5).astype(int)
    matrix[0] = (0, 1, 0)
    table = pa.table({"features": list(X), "labels": matrix.tolist()})
    pq.write_table(table, tmp_path / "given.parquet")
    store = open_store(import_file(tmp_path / "given.parquet", tmp_path / "s"))
    assert np.array_equal(store.labels.many, matrix.astype(bool))


def test_negative_ids_are_noted_where_rows_have_several_labels_too(tmp_path):
    table = pa.table({"features": list(X), "labels": [[-1, 2], [3], [2], [], [3], [3]]})
    pq.write_table(table, tmp_path / "given.parquet")
    notes = read_meta(import_file(tmp_path / "given.parquet", tmp_path / "s")).notes
    assert "labels below 0 are taken as classes like any other: -1" in notes


@pytest.mark.parametrize("lists", [[[1.0, 2.5]], [[1 << 63]], [[float("nan")]]])
def test_lists_hold_whole_numbers_of_64_bits(tmp_path, lists):
    kind = pa.list_(pa.uint64() if lists == [[1 << 63]] else pa.float64())
    table = pa.table({"features": list(X), "labels": pa.array([[3]] * 5 + lists, kind)})
    pq.write_table(table, tmp_path / "given.parquet")
    with pytest.raises(DataError, match=r"row 5: the label .* is no 64-bit integer"):
        import_file(tmp_path / "given.parquet", tmp_path / "s")


def test_files_without_a_byte_or_without_a_row_are_refused(tmp_path):
    (tmp_path / "none.npz").touch()
    with pytest.raises(DataError, match=r"is no \.npz file: it does not begin as one"):
        import_file(tmp_path / "none.npz", tmp_path / "s")
    empty = pa.table({"features": pa.array([], pa.list_(pa.float32())), "labels": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "empty.parquet")
    with pytest.raises(DataError, match=r"features of shape \[0, 0\]"):
        import_file(tmp_path / "empty.parquet", tmp_path / "s")


def test_class_names_go_with_ids_or_are_the_labels(tmp_path):
    named = open_store(
        import_file(
            npz(tmp_path, features=X, labels=[0, 1, 2, 0, 1, 3], classes=["a", "b c", "d", "e", "f"]), tmp_path / "s"
        )
    )
    assert [named.labels.name(int(column)) for column in named.labels.columns] == ["a", "b c", "d", "a", "b c", "e"]
    texts = open_store(
        import_file(npz(tmp_path, features=X, labels=["sooty owl", "b", "b", "a", "a", "a"]), tmp_path / "t")
    )
    assert texts.labels.names == ("a", "b", "sooty owl")
    assert texts.labels.single.tolist() == [2, 1, 1, 0, 0, 0]


def test_parquet_with_lists_splits_and_paths(tmp_path):
    table = {"features": X.astype(np.float64).tolist(), "label": Y, "split": ["training"] * 3 + ["validation"] * 3}
    pq.write_table(pa.table({**table, "paths": [f"a, {i}.jpg" for i in range(6)]}), tmp_path / "f.parquet")
    store = open_store(import_file(tmp_path / "f.parquet", tmp_path / "s"))
    assert store.splits == {"train": 3, "val": 3}
    assert store.ids[5] == "a, 5.jpg"
    assert np.array_equal(store.values, X)


NAN = X.copy()
NAN[4, 2] = np.nan


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"features": NAN, "labels": Y}, "row 4: feature 2 is nan"),
        ({"features": X, "labels": Y[:5]}, "5 labels for 6 rows"),
        ({"features": X, "labels": np.array(3)}, "labels are one value for 6 rows"),
        ({"features": X}, "there are no labels in it: none of labels, label, y, targets, target; it holds: 'features'"),
        ({"vectors": X, "labels": Y}, "there are no features in it"),
        ({"X": X, "data": X, "labels": Y}, "'X' and 'data' could each be the features"),
        ({"features": X[0], "labels": Y}, r"features of shape \[4\]"),
        ({"features": X, "labels": Y + 0.5}, "row 0: the label 0.5 is no whole number"),
        ({"features": X, "labels": np.full((6, 3), 2)}, "row 0: labels of shape"),
        ({"features": X, "labels": Y, "split": np.zeros(6)}, "a text for every row was expected"),
        ({"features": X, "labels": Y, "class_names": ["a", "b"]}, "class 7 has no name"),
        ({"features": X, "labels": np.array(["a", "", "b", "a", "b", "a"])}, "row 1: it has no label"),
        ({"features": X, "labels": np.array([[1], [2, 3], 4, 5, 6, 7], dtype=object)}, "array of Python objects"),
        (
            {"train_features": X, "test_features": X, "train_labels": Y},
            "the split 'test' has 'test_features' and no labels",
        ),
    ],
)
def test_what_cannot_be_taken_is_refused_with_array_and_row(tmp_path, arrays, words):
    with pytest.raises(DataError, match=words):
        import_file(npz(tmp_path, **arrays), tmp_path / "s")
    assert not (tmp_path / "s" / "store.json").exists()


def test_unusual_names_are_said_by_role(tmp_path):
    path = npz(tmp_path, vectors=X, kind=Y)
    store = open_store(import_file(path, tmp_path / "s", keys={"features": "vectors", "labels": "kind"}))
    assert np.array_equal(store.values, X)
    with pytest.raises(UsageError, match="no role"):
        import_file(path, tmp_path / "s", keys={"colour": "kind"})


def test_a_store_is_not_overwritten_by_another_file(tmp_path):
    import_file(npz(tmp_path, features=X, labels=Y), tmp_path / "s")
    import_file(npz(tmp_path, features=X, labels=Y), tmp_path / "s")
    with pytest.raises(FingerprintError, match="To start a new store: --out"):
        import_file(npz(tmp_path, features=X + 1, labels=Y), tmp_path / "s")


def test_too_large_for_float16_is_refused_and_not_made_infinite(tmp_path):
    with pytest.raises(DataError, match="row 3: a feature is too large for float16"):
        import_file(npz(tmp_path, features=X + np.arange(6)[:, None] * 3e4, labels=Y), tmp_path / "s", dtype="float16")


def rows(count: int) -> StoreRows:
    return StoreRows([f"{i}.jpg" for i in range(count)], ["train"] * count, from_ids(np.arange(count) % 3, None, ""))


def test_two_writers_are_not_let_in(tmp_path):
    one = StoreWriter(tmp_path / "s", {"a": 1}, rows(4), {"cls": 2}, "float32")
    with (
        one,
        pytest.raises(RunLockedError, match="another process"),
        StoreWriter(tmp_path / "s", {"a": 1}, rows(4), {"cls": 2}, "float32"),
    ):
        pass


def test_a_cut_off_commit_is_written_again(tmp_path):
    def writer():
        return StoreWriter(tmp_path / "s", {"a": 1}, rows(6), {"cls": 2}, "float32")

    with writer() as open_:
        open_.stage([0, 1, 2], {"cls": np.ones((3, 2))}, {})
        open_.commit()
        open_.stage([3, 4], {"cls": np.full((2, 2), 9.0)}, {})  # never committed
    with (tmp_path / "s" / COMMITS).open("ab") as file:
        file.write(b'{"start":3,"st')
    with pytest.raises(DataError, match="is incomplete"):
        open_store(tmp_path / "s")
    with writer() as open_:
        assert open_.remaining.tolist() == [3, 4, 5]
        open_.stage([3, 4, 5], {"cls": np.full((3, 2), 2.0)}, {4: "damaged"})
        open_.commit()
        meta = open_.finish()
    store = open_store(tmp_path / "s")
    assert store.values[:, 0].tolist() == [1, 1, 1, 2, 2]
    assert store.ids.tolist() == ["0.jpg", "1.jpg", "2.jpg", "3.jpg", "5.jpg"]
    assert [(one.id, one.reason) for one in meta.missing] == [("4.jpg", "damaged")]
    assert sorted(one.name for one in (tmp_path / "s").glob("*.npy")) == ["cls.kept.npy"]


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="files are reserved by posix_fallocate")
def test_a_disk_without_room_for_the_rows_that_are_kept_is_an_error_and_the_store_goes_on(tmp_path, monkeypatch):
    def writer():
        return StoreWriter(tmp_path / "s", {"a": 1}, rows(6), {"cls": 2}, "float32")

    def full(file, start, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    with writer() as open_:
        open_.stage(range(6), {"cls": np.arange(12.0).reshape(6, 2)}, {4: "damaged"})
        open_.commit()
        with monkeypatch.context() as patch, pytest.raises(StorageError, match="No space left"):
            patch.setattr(os, "posix_fallocate", full)
            open_.finish()
    with writer() as open_:
        assert not len(open_.remaining)
        assert open_.finish().rows == 5
    assert open_store(tmp_path / "s").values[:, 0].tolist() == [0, 2, 4, 6, 10]


WRITING = """
import sys, time
import numpy as np
sys.path.insert(0, sys.argv[2])
from test_store import rows
from snellen.features.store.writer import StoreWriter
count = 400
with StoreWriter(sys.argv[1], {"made": "by a test"}, rows(count), {"cls": 16, "patch_mean": 8}, "float32") as writer:
    print("open", flush=True)
    left = writer.remaining
    while len(left):
        part = [int(one) for one in left[:7] if one < left[0] + 7]
        column = np.array(part, dtype=np.float32)[:, None]
        writer.stage(part, {"cls": column + np.zeros((1, 16)), "patch_mean": -column + np.zeros((1, 8))}, {})
        time.sleep(0.004)
        writer.commit()
        left = writer.remaining
    if not writer.complete:
        writer.finish()
"""


def test_a_writer_killed_twenty_times_loses_no_row_and_doubles_none(tmp_path):
    folder, draw = tmp_path / "s", random.Random(4)
    command = [sys.executable, "-c", WRITING, str(folder), str(Path(__file__).parent)]
    kills, done = 0, 0
    while kills < 20 or done <= 5:  # on a slow machine most of them come before the first row
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"open\n"
        time.sleep(draw.uniform(0, 0.035 * max(1, kills / 20)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait(600)
        kills += process.returncode == -signal.SIGKILL
        process.stdout.close()
        written = (folder / COMMITS).read_bytes().count(b"\n") if (folder / COMMITS).exists() else done
        assert written >= done
        done = written
    subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
    assert read_meta(folder).complete
    for output, sign, width in (("cls", 1, 16), ("patch_mean", -1, 8)):
        store = open_store(folder, output)
        assert np.array_equal(store.values, sign * np.arange(400)[:, None] + np.zeros((1, width)))
        assert store.ids.tolist() == [f"{i}.jpg" for i in range(400)]
