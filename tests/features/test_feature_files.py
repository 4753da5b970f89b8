"""Feature files of other programs: each format gives the store that the same features as .npz give."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import tarfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.torch import save_file

from snellen.errors import DataError, SnellenError
from snellen.features import import_file, open_store
from snellen.features.probes import probe
from snellen.features.retrieval import retrieval
from snellen.features.store import importers

FORMATS = ("npy", "pt", "safetensors", "h5", "tar", "tar.gz", "parquet")


def write(folder: Path, kind: str, features: np.ndarray, labels: np.ndarray) -> tuple[Path, Path | None]:
    """Write features and labels in a format; return the file and the file of the labels, where it is a second one."""
    path = folder / f"given.{kind}"
    if kind == "npy":
        np.save(path, features)
        (folder / "labels.csv").write_text("label\n" + "".join(f"{label}\n" for label in labels))
        return path, folder / "labels.csv"
    tensors = {"embeddings": torch.from_numpy(features.copy()), "Label": torch.from_numpy(labels.copy())}
    if kind == "npz":
        np.savez(path, embeddings=features, Label=labels)
    elif kind == "pt":
        torch.save({"embeddings": tensors["embeddings"], "Label": labels.tolist()}, path)
    elif kind == "safetensors":
        save_file(tensors, path)
    elif kind == "h5":
        with h5py.File(path, "w") as file:
            file["embeddings"], file["Label"] = features, labels
    elif kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"embeddings": list(features), "Label": labels}), path)
    else:
        members = {}
        for row, (vector, label) in enumerate(zip(features, labels, strict=True)):
            members[f"{row:06}.npy"] = npy(vector)
            members[f"{row:06}.cls"] = str(label).encode()
        tar(path, members)
    return path, None


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


ROWS = st.integers(1, 12).flatmap(
    lambda rows: st.tuples(
        st.sampled_from([np.float16, np.float32, np.float64, np.int32]).flatmap(
            lambda kind: arrays_of.arrays(
                kind,
                st.tuples(st.just(rows), st.integers(1, 5)),
                elements=None if kind is np.int32 else {"allow_nan": False, "allow_infinity": False},
            )
        ),
        arrays_of.arrays(np.int64, rows, elements=st.integers(-5, 2**62)),
        st.integers(1, 3),
    )
)


@pytest.mark.parametrize("kind", FORMATS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_rows=ROWS)
def test_a_format_gives_the_store_that_npz_gives_whatever_the_block(kind, given_rows, tmp_path_factory, monkeypatch):
    features, labels, block = given_rows
    folder = tmp_path_factory.mktemp("files")
    monkeypatch.setattr(importers, "BLOCK_BYTES", 8 * features.shape[1] * block)
    expected = open_store(import_file(write(folder, "npz", features, labels)[0], folder / "expected"))
    file, beside = write(folder, kind, features, labels)
    store = open_store(import_file(file, folder / "store", labels=beside))
    assert store.values.dtype == expected.values.dtype
    assert np.array_equal(store.values, expected.values)
    assert np.array_equal(store.labels.single, expected.labels.single)


@pytest.mark.parametrize("kind", FORMATS)
def test_retrieval_and_probe_have_the_figures_of_the_same_features_as_npz(kind, tmp_path):
    rng = np.random.default_rng(1)
    labels = np.arange(60) % 4
    features = (rng.normal(size=(60, 8)) + labels[:, None]).astype(np.float32)

    def figures(path, beside):
        store = open_store(import_file(path, tmp_path / path.name.replace(".", "_"), labels=beside))
        split = ["train", "test"] * 30
        found = retrieval(store.values, store.labels, split=split, queries="test", gallery="train").metrics()
        fitted = probe(store.values, store.labels, split=split).metrics()
        return [(metric.name, metric.value, metric.ci95) for metric in (*found, *fitted)]

    assert figures(*write(tmp_path, kind, features, labels)) == figures(*write(tmp_path, "npz", features, labels))


def test_shards_of_webdataset_are_joined_in_order_with_fields_of_their_json(tmp_path):
    for shard in range(3):
        members = {}
        for row in range(2):
            key = f"birds/{shard}{row}"
            members[f"{key}.vit.npy"] = npy(np.array([[shard, row]], np.float16))
            members[f"{key}.json"] = json.dumps(
                {"label": ["owl", "wren"][row], "split": "train", "caption": "x"}
            ).encode()
        tar(tmp_path / f"s-{shard:03}.tar", members)
    store = open_store(import_file(tmp_path / "s-{000..002}.tar", tmp_path / "s"))
    assert store.values.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    assert store.values.dtype == np.float16
    assert store.labels.names == ("owl", "wren")
    assert store.ids.tolist() == ["birds/00", "birds/01", "birds/10", "birds/11", "birds/20", "birds/21"]
    assert store.splits == {"train": 6}


@pytest.mark.parametrize("kind", ["pt", "safetensors"])
def test_bfloat16_is_stored_as_the_float32_of_equal_value(kind, tmp_path):
    features = torch.randn(5, 3, generator=torch.manual_seed(0)).bfloat16()
    path = tmp_path / f"a.{kind}"
    if kind == "pt":
        torch.save({"x": features, "y": torch.arange(5)}, path)
    else:
        save_file({"x": features, "y": torch.arange(5)}, path)
    assert np.array_equal(open_store(import_file(path, tmp_path / "s")).values, features.float().numpy())


LABELS = np.array([0, 2, 1, 2, 0, 1])
SPLITS = {"train": slice(0, 4), "test": slice(4, 6)}
ONE_HOT = np.eye(3, dtype=int)[LABELS]
VECTORS = np.arange(24, dtype=np.float32).reshape(6, 4)
TENSORS = torch.from_numpy(VECTORS.copy())


@pytest.mark.parametrize(
    "content",
    [
        {"features": TENSORS, "labels": torch.from_numpy(ONE_HOT)},
        {"features": list(TENSORS), "labels": [[int(label)] for label in LABELS]},
        {"features": [*TENSORS], "labels": [torch.tensor(label) for label in LABELS]},
        {name: {"features": TENSORS[part], "labels": LABELS[part].tolist()} for name, part in SPLITS.items()},
    ],
    ids=["one-hot", "lists", "tensors", "dicts of splits"],
)
def test_one_class_a_row_is_read_from_every_form_of_it(content, tmp_path):
    torch.save(content, tmp_path / "f.pt")
    import_file(tmp_path / "f.pt", tmp_path / "store")
    store = open_store(tmp_path / "store")
    assert store.labels.single.tolist() == LABELS.tolist()
    np.testing.assert_array_equal(store.values, VECTORS)


def test_rows_of_which_one_has_no_class_may_have_several(tmp_path):
    np.savez(tmp_path / "f.npz", features=VECTORS, labels=np.vstack([ONE_HOT[:5], [0, 0, 0]]))
    import_file(tmp_path / "f.npz", tmp_path / "store")
    assert open_store(tmp_path / "store").labels.many.sum(axis=1).tolist() == [1, 1, 1, 1, 1, 0]


def test_groups_of_hdf5_are_splits_and_texts_are_class_names(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for split, rows in {"train": 4, "test": 2}.items():
            file[f"{split}/features"] = np.full((rows, 3), rows, np.float32)
            file[f"{split}/labels"] = ["owl", "wren"] * (rows // 2)
    store = open_store(import_file(tmp_path / "a.h5", tmp_path / "s"))
    assert store.splits == {"test": 2, "train": 4}
    assert store.labels.names == ("owl", "wren")
    assert store.only("train").values[0].tolist() == [4, 4, 4]


def test_other_groups_of_hdf5_and_numbers_as_splits_are_read(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["model/features"], file["truth/labels"] = np.eye(3, dtype=np.float32), [0, 1, 1]
        file["truth/split"] = [0, 1, 1]
    assert open_store(import_file(tmp_path / "a.h5", tmp_path / "s")).splits == {"0": 1, "1": 2}
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["a/features"], file["b/features"], file["labels"] = np.eye(2), np.eye(2), [0, 1]
    with pytest.raises(DataError, match="there are no features in it"):
        import_file(tmp_path / "b.h5", tmp_path / "t")


class Opens:
    """An object that would write a file when a pickle is opened."""

    def __reduce__(self):
        return (open, (str(Path("opened").absolute()), "w"))


X, Y = np.ones((4, 2), np.float32), np.arange(4)


def _pickle(folder):
    torch.save({"features": torch.ones(2, 2), "labels": Opens()}, folder / "a.pt")
    return folder / "a.pt", None


def _plain_pickle(folder):
    (folder / "a.pth").write_bytes(pickle.dumps(Opens()))
    return folder / "a.pth", None


def _expanded(folder):
    torch.save({"features": torch.ones(1, 4).expand(1 << 40, 4), "labels": [1]}, folder / "a.pt")
    return folder / "a.pt", None


def _empty_chunks(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("features", (1 << 40, 8), "f4", chunks=(64, 8))
        file["labels"] = Y
    return folder / "a.h5", None


def _external(folder):
    (folder / "secret").write_bytes(b"0" * 64)
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("features", (4, 4), "f4", external=[(str(folder / "secret"), 0, 64)])
        file["labels"] = Y
    return folder / "a.h5", None


def _linked(folder):
    with h5py.File(folder / "b.h5", "w") as file:
        file["features"] = X
    with h5py.File(folder / "a.h5", "w") as file:
        file["features"], file["labels"] = h5py.ExternalLink("b.h5", "features"), Y
    return folder / "a.h5", None


def _claims(folder):
    np.save(folder / "a.npy", X)
    (folder / "a.npy").write_bytes((folder / "a.npy").read_bytes().replace(b"(4, 2)", b"(9, 2)"))
    np.save(folder / "l.npy", Y)
    return folder / "a.npy", folder / "l.npy"


def _widths(folder):
    return tar(folder / "a.tar", {"0.npy": npy(X[0]), "0.cls": b"1", "1.npy": npy(X[:, 0]), "1.cls": b"2"}), None


def _two_vectors(folder):
    return tar(folder / "a.tar", {"0.a.npy": npy(X[0]), "0.b.npy": npy(X[0]), "0.cls": b"1"}), None


def _no_class(folder):
    return tar(folder / "a.tar", {"0.npy": npy(X[0]), "0.cls": b"1", "1.npy": npy(X[0])}), None


def _ambiguous(folder):
    save_file(
        {"features": torch.ones(2, 2), "embeddings": torch.ones(2, 2), "y": torch.arange(2)}, folder / "a.safetensors"
    )
    return folder / "a.safetensors", None


def _nan(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["features"], file["labels"] = np.where(np.arange(4)[:, None] == 2, np.nan, X), Y
    return folder / "a.h5", None


def _unlabelled(folder):
    np.save(folder / "a.npy", X)
    return folder / "a.npy", None


def _short_labels(folder):
    np.save(folder / "a.npy", X)
    (folder / "l.txt").write_text("1\n2\n")
    return folder / "a.npy", folder / "l.txt"


def _other_ids(folder):
    np.savez(folder / "a.npz", features=X, ids=list("abcd"))
    (folder / "l.csv").write_text("id,label\na,1\nb,2\nd,3\nc,4\n")
    return folder / "a.npz", folder / "l.csv"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_pickle, r"needs more than tensors to open.*GLOBAL|Unsupported"),
        (_plain_pickle, r"needs more than tensors|cannot be read"),
        (_expanded, r"claims .* bytes and repeats fewer"),
        (_empty_chunks, r"unpacks to"),
        (_external, r"lies in other files"),
        (_linked, r"there are no features in it"),
        (_claims, r"claims an array of shape \[9, 2\]"),
        (_widths, r"'1.npy' is \[4\] float32, the first \[2\] float32"),
        (_two_vectors, r"'a.npy' and 'b.npy' could each be the features"),
        (_no_class, r"'1' has no 'cls'"),
        (_ambiguous, r"could each be the features"),
        (_nan, r"row 2: feature 0 is nan"),
        (_unlabelled, r"holds one array without a name"),
        (_short_labels, r"2 labels for 4 rows"),
        (_other_ids, r"both hold ids, and they differ"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_place_and_no_code_runs(make, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, beside = make(tmp_path)
    with pytest.raises(DataError, match=words) as caught:
        import_file(file, tmp_path / "s", labels=beside)
    assert caught.value.hint
    assert not Path("opened").exists()
    assert not (tmp_path / "s" / "store.json").exists()


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "pt", "safetensors", "tar", "tar.gz"])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_damaged_file_is_an_error_of_the_program_or_a_sound_store(kind, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    file, beside = write(folder, kind, X, Y)
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(content[: data.draw(st.sampled_from([len(content), len(content) // 2]))])
    try:
        store = open_store(import_file(file, folder / "s", labels=beside))
    except SnellenError:
        return
    assert np.isfinite(store.values).all()


MEASURED = """
import sys, threading, time
from pathlib import Path
from snellen.features import import_file
from snellen.features.store import importers, array_files, row_files
import torch, h5py, safetensors
importers.BLOCK_BYTES = 8 << 20
def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
peak = before = anonymous()
def watch():
    global peak
    while True:
        peak = max(peak, anonymous()); time.sleep(0.002)
threading.Thread(target=watch, daemon=True).start()
import_file(sys.argv[1], sys.argv[2], labels=sys.argv[3] if len(sys.argv) > 3 else None)
print(peak - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["npy", "npz", "parquet", "pt", "safetensors", "h5", "tar"])
def test_memory_does_not_grow_with_the_features(kind, tmp_path):
    features = np.random.default_rng(0).normal(size=(2_000, 16_384)).astype(np.float32)  # 131 MB
    file, beside = write(tmp_path, kind, features, np.arange(2_000) % 7)
    command = [sys.executable, "-c", MEASURED, str(file), str(tmp_path / "s"), *([str(beside)] if beside else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) < 64 << 10  # kilobytes: half of the features
