"""Alignment of two stages of an encoder: paired accuracies, CKA, uniformity, and tables over data sets."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from snellen.benchmarks.chart import digits
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features import uniformity as module
from snellen.features.alignment import alignment, cross_meta
from snellen.features.cka import cka_matrix, linear_cka
from snellen.features.encoders.families import (
    Accuracy,
    by_data_scale,
    by_encoder_scale,
    by_paradigm,
    find_tower,
    read_towers,
    untagged,
)
from snellen.features.layers import layer_views
from snellen.features.store import Features, import_file, open_store
from snellen.features.store.labels import from_ids
from snellen.features.uniformity import uniformity

pytestmark = pytest.mark.usefixtures("printed_as_schema")

SPLIT = np.array(["train", "test"] * 90, dtype=object)
LABELS = np.arange(180) // 2 % 5
CENTRES = np.random.default_rng(0).standard_normal((5, 12))


def features(noise: float, seed: int = 1, *, shift: int = 0, name: str = "raw") -> Features:
    rng = np.random.default_rng(seed)
    values = (CENTRES[LABELS] + noise * rng.standard_normal((180, 12))).astype(np.float32)
    ids = np.array([f"picture {i}.jpg" for i in range(180)], dtype=object)
    return Features(values, from_ids(LABELS * 3 + shift, None, "here"), ids, SPLIT, name)


def test_what_the_projector_loses_is_told_with_a_paired_interval():
    raw, aligned, matched = features(0.8), features(3.0, 2), features(0.9, 3)
    found = alignment(raw, aligned, matched, method="ridge", name="birds")
    metrics = {one.name: one for one in found.metrics()}
    assert list(metrics) == [
        "accuracy/raw",
        "accuracy/aligned",
        "accuracy/matched",
        "difference/aligned-raw",
        "difference/matched-raw",
        "difference/matched-aligned",
    ]
    drop = metrics["difference/aligned-raw"]
    assert drop.value == pytest.approx(metrics["accuracy/aligned"].value - metrics["accuracy/raw"].value)
    assert drop.n == 90
    assert drop.ci95[1] < 0
    assert metrics["difference/matched-aligned"].ci95[0] > 0
    pair = found.differences["aligned-raw"]
    lost = int((found.correct["raw"] & ~found.correct["aligned"]).sum())
    assert (pair.losses, pair.test) == (lost, "exact McNemar")
    assert found.classes == 5
    assert list(found.ids) == [f"picture {i}.jpg" for i in range(1, 180, 2)]


def test_features_that_are_the_same_show_no_difference():
    found = alignment(features(1.5), features(1.5), method="ridge")
    assert found.differences["aligned-raw"].difference == 0
    assert found.differences["aligned-raw"].p_value == 1


def test_rows_are_paired_by_split_and_id_and_those_of_one_stage_alone_are_counted():
    raw, aligned = features(1.0), features(2.0, 2)
    order = np.random.default_rng(5).permutation(180)
    whole = alignment(raw, aligned, method="ridge")
    shuffled = alignment(raw, aligned.take(order), method="ridge")
    assert (shuffled.correct["aligned"] == whole.correct["aligned"]).all()
    part = alignment(raw.take(slice(10, 180)), aligned.take(order[order < 170]), method="ridge")
    assert part.left_out == 20
    assert len(part.ids) == 80
    assert any("20 rows" in one for one in part.notes())


def test_stores_that_do_not_belong_together_are_refused():
    raw = features(1.0)
    with pytest.raises(DataError, match=r"'picture 0\.jpg' \(train\) has class 0"):
        alignment(raw, features(1.0, shift=1))
    twice = Features(raw.values, raw.labels, np.array(["one.jpg"] * 180, dtype=object), SPLIT)
    with pytest.raises(DataError, match="comes twice"):
        alignment(raw, twice)
    other = Features(raw.values, raw.labels, np.array([f"{i}.png" for i in range(180)], dtype=object), SPLIT)
    with pytest.raises(DataError, match="share no rows"):
        alignment(raw, other)


def test_merging_data_sets_keeps_their_classes_apart_and_tells_who_goes_astray():
    birds, cars = features(0.8), features(0.8, 4)
    cars = Features(cars.values[:, ::-1].copy(), cars.labels, cars.ids, SPLIT)
    found = cross_meta([birds, cars], ["birds", "cars"], method="ridge")
    metrics = {one.name: one for one in found.metrics()}
    assert metrics["birds/accuracy/alone"].chance == pytest.approx(1 / 5)
    assert metrics["birds/accuracy/merged"].chance == pytest.approx(1 / 10)
    assert metrics["cars/difference/merged-alone"].value == pytest.approx(
        metrics["cars/accuracy/merged"].value - metrics["cars/accuracy/alone"].value
    )
    assert all(one.n == 90 for one in metrics.values())
    # The same pictures under the same ids in two data sets are two classes each: about half go astray.
    same = cross_meta([birds, birds], ["first", "second"], method="ridge")
    assert same.merged[0].mean() + same.merged[1].mean() == pytest.approx(same.alone[0].mean(), abs=0.1)
    assert same.astray[0].mean() + same.astray[1].mean() == pytest.approx(1, abs=0.02)
    with pytest.raises(DataError, match="different widths"):
        cross_meta([birds, Features(cars.values[:, :5], cars.labels, cars.ids, SPLIT)], ["birds", "cars"])
    with pytest.raises(UsageError, match="two or more"):
        cross_meta([birds], ["birds"])


@pytest.mark.parametrize(
    ("encoder", "tower"),
    [
        ("hf:facebook/dinov2-large", "DINOv2-L"),
        ("hf:llava-hf/llava-1.5-7b-hf", "LLaVA-1.5-7B"),
        ("hf:liuhaotian/llava-v1.5-7b", "LLaVA-1.5-7B"),
        ("hf:Qwen/Qwen2.5-VL-7B-Instruct", "Qwen2.5-VL-7B"),
        ("hf:Qwen/Qwen-VL-Chat", "Qwen-VL-Chat"),
        ("hf:OpenGVLab/InternVL3-8B-hf", "InternVL3-7B"),
        ("hf:Salesforce/blip2-flan-t5-xl", "BLIP-2-FlanT5-XL"),
        ("open_clip:EVA02-L-14/merged2b_s4b_b131k", "EVA02-CLIP-L"),
        ("open_clip:coca_ViT-L-14/laion2b_s13b_b90k", "CoCa-L"),
        ("hf:facebook/dinov2-small", None),
        ("hf:Qwen/Qwen2-VL-2B-Instruct", None),
        ("embedded", None),
    ],
)
def test_an_encoder_finds_the_tower_that_it_is(encoder, tower):
    found = find_tower(encoder, read_towers())
    assert (None if found is None else found.name) == tower


def test_tables_compare_groups_over_the_data_sets_that_all_have():
    towers = read_towers()
    rows = [
        Accuracy("dinov2-large", "cub", 0.9),
        Accuracy("dinov2-large", "dogs", 0.8),
        Accuracy("llava-1.5-7b", "cub", 0.7),
        Accuracy("coca_ViT-L-14", "cub", 0.6),
        Accuracy("mine", "cub", 0.5, parameters=20),
    ]
    paradigms = {one.group: one for one in by_paradigm(rows, towers)}
    assert set(paradigms) == {"Con", "Gen", "Dis"}
    assert paradigms["Con"].encoders == ("dinov2-large", "coca_ViT-L-14")
    assert paradigms["Con"].datasets == ("cub",)
    assert paradigms["Con"].mean == pytest.approx(0.75)
    assert paradigms["Con"].without == pytest.approx(0.7)
    assert paradigms["Con"].others == ("llava-1.5-7b",)
    assert [one.group for one in by_data_scale(rows, towers)] == ["<0.1B", "0.1-1B", ">1B"]
    assert by_encoder_scale(rows, towers)[0].group == "mine"
    assert untagged(rows, towers) == ["mine"]


def test_towers_of_ones_own_come_first_and_a_wrong_file_is_refused(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text('[[tower]]\nname = "Mine"\nmatch = ["dinov2-large"]\nparadigms = ["Rec"]\n')
    assert find_tower("hf:facebook/dinov2-large", read_towers(own)).name == "Mine"
    own.write_text('[[tower]]\nname = "Mine"\nmatch = ["x"]\nparadigms = ["Foo"]\n')
    with pytest.raises(DataError, match="Foo"):
        read_towers(own)
    own.write_text('[[tower]]\nname = "Mine"\nmatch = ["("]\nparadigms = ["Con"]\n')
    with pytest.raises(DataError, match=r"own\.toml"):
        read_towers(own)


def run(capsys, *words: str) -> dict:
    status = main(["features", "alignment", *map(str, words), "--json"])
    out, err = capsys.readouterr()
    assert status == 0, err
    return json.loads(out)


def stored(folder: Path, one: Features) -> Path:
    np.savez(
        folder.with_suffix(".npz"),
        features=one.values,
        labels=one.labels.single,
        split=one.split.astype(str),
        ids=one.ids.astype(str),
    )
    return import_file(folder.with_suffix(".npz"), folder)


def test_the_command_compares_stores_merges_them_and_makes_tables(tmp_path, capsys):
    raw, aligned = stored(tmp_path / "raw", features(0.8)), stored(tmp_path / "aligned", features(2.5, 2))
    told = run(capsys, raw, aligned, "--method", "ridge")
    values = {one["name"]: one["value"] for one in told["metrics"]}
    assert told["measure"] == "alignment"
    assert values["difference/aligned-raw"] < 0
    merged = run(capsys, raw, aligned, "--cross", "--method", "ridge")
    assert {"raw/accuracy/merged", "aligned/astray"} <= {one["name"] for one in merged["metrics"]}
    tables = run(capsys, raw, aligned, "--tables", "--method", "ridge")
    assert any("no tower matches: raw, aligned" in one for one in tables["notes"])


def of_encoder(folder: Path, encoder: str, dataset: str, output: str = "features") -> Path:
    """A store that says it was extracted with this encoder from the csv files of this data set."""
    stored(folder, features(0.8))
    file = folder / "store.json"
    meta = json.loads(file.read_text())
    meta |= {
        "kind": "extracted",
        "identity": {**meta["identity"], "encoder": {"weights": encoder}},
        "origin": {"encoder": encoder, "splits": [f"{dataset}/train.csv"]},
    }
    file.write_text(json.dumps(meta))
    return folder


def test_data_sets_of_different_encoders_are_not_merged(tmp_path, capsys):
    birds, cars = (of_encoder(tmp_path / name, "hf:facebook/dinov2-large", name) for name in ("birds", "cars"))
    other = of_encoder(tmp_path / "dogs", "hf:Qwen/Qwen-VL-Chat", "dogs")
    assert "birds/astray" in {
        one["name"] for one in run(capsys, birds, cars, "--cross", "--method", "ridge")["metrics"]
    }
    assert main(["features", "alignment", str(birds), str(other), "--cross"]) == 3
    assert "birds and dogs hold features of different encoders" in capsys.readouterr().err


def test_tables_say_which_data_sets_their_means_are_over(tmp_path, capsys):
    dino, qwen = "hf:facebook/dinov2-large", "hf:Qwen/Qwen-VL-Chat"
    both = [of_encoder(tmp_path / f"{i}", name, "birds") for i, name in enumerate((dino, qwen))]
    alone = of_encoder(tmp_path / "2", dino, "cars")
    notes = run(capsys, *both, alone, "--tables", "--method", "ridge")["notes"]
    assert "Means by encoder_scale: over birds." in notes
    told = run(capsys, both[1], alone, "--tables", "--method", "ridge")
    assert "Means by paradigm: none, as no data set has every encoder." in told["notes"]
    assert all(one["value"] is None for one in told["metrics"] if one["name"].startswith("paradigm/"))


def test_a_probe_that_lacks_a_class_says_so_at_every_stage():
    raw, aligned = features(0.8), features(2.5, 2)
    kept = (SPLIT == "test") | (LABELS != 4)
    found = alignment(raw.take(kept), aligned.take(kept), method="ridge", name="birds")
    (line,) = [one for one in found.notes() if "without a training row" in one]
    assert line.startswith("birds, raw, aligned: 18 test rows are of 1 classes")
    cars = features(0.8, 4)
    merged = cross_meta([raw.take(kept), cars], ["birds", "cars"], method="ridge")
    told = [one for one in merged.probe_notes if "without a training row" in one]
    assert [one.partition(":")[0] for one in told] == ["birds, alone", "merged"]


def test_a_table_has_the_probes_interval_and_one_cell_for_an_encoder_and_a_data_set(tmp_path, capsys):
    raw, other = stored(tmp_path / "raw", features(0.8)), stored(tmp_path / "other", features(2.5, 2))
    told = run(capsys, raw, other, "--tables", "--method", "ridge")
    cell = next(one for one in told["metrics"] if one["name"] == "accuracy/other/other")
    assert cell["n"] == 90
    assert cell["ci95"][0] < cell["value"] < cell["ci95"][1]
    (tmp_path / "again").mkdir()
    same = stored(tmp_path / "again" / "raw", features(0.8))
    assert main(["features", "alignment", str(raw), str(same), "--tables", "--method", "ridge"]) == 2
    assert "one cell for them" in capsys.readouterr().err


def test_stores_of_one_folder_name_are_told_apart_by_their_paths(tmp_path, capsys):
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    first = stored(tmp_path / "a" / "feats", features(0.8))
    second = stored(tmp_path / "b" / "feats", features(0.8, 4))
    told = run(capsys, first, second, "--cross", "--method", "ridge")
    assert {f"{first}/astray", f"{second}/astray"} <= {one["name"] for one in told["metrics"]}
    each = run(capsys, first, second, "--each", "--outputs", "features,features", "--method", "ridge")
    names = [one["name"] for one in each["metrics"]]
    assert len(set(names)) == len(names) == 6
    assert each["settings"]["probes"][str(second)]["raw"]["method"] == "ridge"


@pytest.mark.parametrize(
    "given",
    [("--towers", "x.toml"), ("--matched-model", "hf:x"), ("--cross", "--outputs", "a,b"), ("--each", "--cross")],
)
def test_options_without_what_they_belong_to_are_refused(tmp_path, capsys, given):
    raw = stored(tmp_path / "raw", features(0.8))
    assert main(["features", "alignment", str(raw), *given]) == 2
    assert given[0] in capsys.readouterr().err.replace("--tables and --cross", "--cross")


def test_the_command_extracts_a_model_before_and_behind_its_projector(tmp_path, capsys):
    pytest.importorskip("torch")
    for name, count in (("train", 100), ("test", 40)):
        scans, labels = digits.split(name)
        with (tmp_path / f"{name}.csv").open("w", newline="") as table:
            for i in range(count):
                Image.fromarray(digits.enlarged(scans[i], 48)).save(tmp_path / f"{name} {i}.png")
                csv.writer(table, lineterminator="\n").writerow([f"{name} {i}.png", int(labels[i])])
    splits = ["--split", tmp_path / "train.csv", "--split", tmp_path / "test.csv", "--images", tmp_path]
    told = run(capsys, "--model", "embedded", *splits, "--out", tmp_path / "feats", "--method", "ridge")
    values = {one["name"]: one["value"] for one in told["metrics"]}
    assert told["settings"]["outputs"] == ["projector_input", "aligned"]
    assert values["accuracy/raw"] > 0.7
    assert values["accuracy/aligned"] > 0.5
    again = run(capsys, tmp_path / "feats", "--method", "ridge")
    assert {one["name"]: one["value"] for one in again["metrics"]} == values


def extracted(folder: Path, weights: str, output: str, noise: float, *, kind: str = "llava", size: int = 48) -> Path:
    """A store that says which checkpoint it was extracted with, and as which output."""
    stored(folder, features(noise))
    file = folder / "store.json"
    meta = json.loads(file.read_text())
    meta |= {
        "kind": "extracted",
        "outputs": {output: meta["outputs"]["features"]},
        "identity": {"encoder": {"weights": weights, "kind": kind}, "transform": {"size": [size, size]}},
        "origin": {"encoder": f"hf:{weights}", "splits": ["birds/train.csv"]},
    }
    file.write_text(json.dumps(meta))
    return folder


def test_stages_of_two_encoders_are_refused_and_the_message_names_both(tmp_path, capsys):
    raw = extracted(tmp_path / "raw", "facebook/dinov2-large", "cls", 0.8, kind="dinov2")
    aligned = extracted(tmp_path / "aligned", "llava-hf/llava-1.5-7b-hf", "aligned", 2.5)
    assert main(["features", "alignment", str(raw), str(aligned), "--method", "ridge"]) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert "raw: cls of hf:facebook/dinov2-large, 12 wide" in told
    assert "aligned: aligned of hf:llava-hf/llava-1.5-7b-hf, 12 wide" in told
    assert "--anyway" in told
    notes = run(capsys, raw, aligned, "--method", "ridge", "--anyway")["notes"]
    assert any("Compared: raw: cls of hf:facebook/dinov2-large" in line for line in notes)
    assert any("--anyway: raw and aligned are of different encoders" in line for line in notes)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"aligned": {"output": "projector_input"}}, "the same output"),
        ({"aligned": {"size": 96}}, "preprocessed their images differently"),
        ({"matched": {"weights": "a/vlm"}}, "no second projector"),
        ({"matched": {"kind": "qwen2_vl"}}, "of a model of type llava"),
        ({"matched": {"size": 96}}, "aligned and matched preprocessed"),
    ],
)
def test_stages_that_are_not_of_one_model_are_refused(tmp_path, capsys, changed, reason):
    plain = {
        "raw": {"weights": "a/vlm", "output": "projector_input", "noise": 0.8},
        "aligned": {"weights": "a/vlm", "output": "aligned", "noise": 2.5},
        "matched": {"weights": "a/vlm-matched", "output": "aligned", "noise": 0.9},
    }
    good = [extracted(tmp_path / stage, **how) for stage, how in plain.items()]
    notes = run(capsys, *good, "--method", "ridge")["notes"]
    assert not any("anyway" in line for line in notes)
    stages = [
        extracted(tmp_path / f"{stage} changed", **{**how, **changed.get(stage, {})}) for stage, how in plain.items()
    ]
    assert main(["features", "alignment", *map(str, stages), "--method", "ridge"]) == 3
    assert reason in " ".join(capsys.readouterr().err.split())


def test_imported_stages_say_that_nothing_shows_whose_they_are(tmp_path, capsys):
    raw, aligned = stored(tmp_path / "raw", features(0.8)), stored(tmp_path / "aligned", features(2.5, 2))
    notes = run(capsys, raw, aligned, "--method", "ridge")["notes"]
    assert any("raw, aligned: imported features, whose encoder is unknown" in line for line in notes)


def by_gram_matrices(x, y):
    n = len(x)
    centre = np.eye(n) - 1 / n
    k, m = (centre @ (v @ v.T) @ centre for v in (x, y))
    return (k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum())


def unbiased_hsic(k, m):
    """The mean over all four different rows, as the estimate is defined."""
    terms = [
        k[i, j] * m[i, j] + k[i, j] * m[q, r] - 2 * k[i, j] * m[i, q]
        for i, j, q, r in itertools.permutations(range(len(k)), 4)
    ]
    return np.mean(terms)


@pytest.mark.parametrize(("n", "d", "e"), [(5, 3, 7), (60, 40, 8), (30, 200, 3)])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_linear_cka_is_that_of_centred_gram_matrices(n, d, e, kind):
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((n, d)) + 5).astype(kind)
    y = (x[:, :1].astype(float) + 0.5 * rng.standard_normal((n, e))).astype(kind)
    want = by_gram_matrices(x.astype(float), y.astype(float))
    assert linear_cka(x, y) == pytest.approx(want, rel=1e-6)


def test_debiased_cka_is_that_of_the_definition_over_four_different_rows():
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((8, 3)) + 2, rng.standard_normal((8, 5)) - 1
    y[:, 0] += x[:, 1]
    k, m = x @ x.T, y @ y.T
    want = unbiased_hsic(k, m) / np.sqrt(unbiased_hsic(k, k) * unbiased_hsic(m, m))
    assert linear_cka(x, y, debiased=True) == pytest.approx(want, rel=1e-9)


def test_a_rotation_and_a_factor_change_nothing_and_unrelated_features_are_near_0_when_debiased():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 20))
    turned = 7 * x @ np.linalg.qr(rng.standard_normal((20, 20)))[0] + 3
    other = rng.standard_normal((100, 90))
    for debiased in (False, True):
        assert linear_cka(x, turned, debiased=debiased) == pytest.approx(1.0, abs=1e-9)
    assert linear_cka(x, other) > 0.2
    assert abs(linear_cka(x, other, debiased=True)) < 0.1


def test_numbers_of_any_size_have_a_cka_and_constant_ones_have_none():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 4)), rng.standard_normal((20, 4))
    assert linear_cka(x * 1e90, y * 1e-90) == pytest.approx(linear_cka(x, y))
    found = cka_matrix({"x": x, "flat": np.full((20, 3), 0.1)})
    assert found.metrics()[0].value is None and "flat" in found.notes()[0]


def test_what_has_no_cka_is_refused():
    with pytest.raises(UsageError, match="same rows"):
        cka_matrix({"a": np.eye(3), "b": np.eye(4)})
    with pytest.raises(UsageError, match="3 rows"):
        linear_cka(np.eye(3), np.eye(3), debiased=True)
    with pytest.raises(DataError, match="row 1"):
        linear_cka(np.eye(4), np.array([[0.0], [np.nan], [1.0], [2.0]]))


def store_of(folder, name, arrays, rows=40):
    np.savez(
        folder / f"{name}.npz",
        features=arrays,
        labels=np.arange(rows) % 4,
        split=np.array(["train", "test"] * (rows // 2)),
        ids=np.array([f"{row}.png" for row in range(rows)]),
    )
    output = name if "_last" in name else "features"
    return import_file(folder / f"{name}.npz", folder / name, output=output)


def test_the_command_compares_stores_and_the_blocks_of_an_output(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 12)).astype(np.float32)
    y = np.concatenate([x[:, :4], rng.standard_normal((40, 4))], axis=1).astype(np.float32)
    first, second = store_of(tmp_path, "cls_last3", x), store_of(tmp_path, "other", y)
    assert main(["features", "cka", str(first), str(second), "--layers", "--debiased", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = told["settings"]["representations"]
    assert names == ["cls_last3/block-3", "cls_last3/block-2", "cls_last3/block-1", "other"]
    values = {metric["name"]: metric["value"] for metric in told["metrics"]}
    test = np.arange(1, 40, 2)
    for i in range(3):
        want = linear_cka(x[test, 4 * i : 4 * i + 4], y[test], debiased=True)
        assert values[f"cka_debiased/cls_last3/block-{3 - i}/other"] == pytest.approx(want, abs=1e-6)
    assert told["settings"]["rows"] == 20 and np.array(told["settings"]["matrix"]).shape == (4, 4)
    assert main(["features", "cka", str(first), str(second), "--split", "train", "--limit", "10"]) == 0
    assert "10 of 20 rows" in capsys.readouterr().err
    assert main(["features", "cka", str(first)]) == DataError.exit_code
    assert "--layers" in capsys.readouterr().err
    assert main(["features", "cka", str(first), str(second), "--outputs", "nothing"]) == UsageError.exit_code


def test_blocks_are_in_the_order_of_the_store_and_widths_that_do_not_divide_are_refused(tmp_path):
    views = layer_views(open_store(store_of(tmp_path, "cls_last4", np.arange(320.0).reshape(40, 8))))
    assert (views[0].name, views[0].depth, views[0].values[0].tolist()) == ("block-4", 4, [0.0, 1.0])
    assert [view.depth for view in views] == [4, 3, 2, 1]
    with pytest.raises(DataError, match="3 blocks cannot share"):
        layer_views(open_store(store_of(tmp_path, "patch_mean_last3", np.ones((40, 8)))))


def by_pairs(x, related, t, alpha):
    x = x.astype(float)
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs = list(itertools.combinations(range(len(x)), 2))
    away = {pair: np.linalg.norm(x[pair[0]] - x[pair[1]]) for pair in pairs}
    log = np.log(np.mean([np.exp(-t * away[pair] ** 2) for pair in pairs]))
    return log, np.mean([away[pair] ** alpha for pair in pairs if related(*pair)])


@pytest.mark.parametrize("block", [1, 7, 1024])
@pytest.mark.parametrize(("t", "alpha"), [(2.0, 2.0), (0.5, 1.0), (3.0, 4.0)])
def test_both_losses_are_those_of_a_loop_over_pairs(monkeypatch, block, t, alpha):
    monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(0)
    x, y = (10 * rng.standard_normal((31, 4)) + 3).astype(np.float32), rng.integers(0, 5, 31)
    got = uniformity(x, y, t=t, alpha=alpha)
    want = by_pairs(x, lambda i, j: y[i] == y[j], t, alpha)
    assert (got.uniformity, got.alignment) == pytest.approx(want, rel=1e-6)
    sets = [frozenset(rng.choice(6, 2, replace=False).tolist()) for _ in x]
    several = uniformity(x, sets, t=t, alpha=alpha)
    want = by_pairs(x, lambda i, j: bool(sets[i] & sets[j]), t, alpha)
    assert (several.uniformity, several.alignment) == pytest.approx(want, rel=1e-6)
    assert several.pairs == 31 * 30 // 2


def test_a_point_is_not_uniform_and_even_points_are():
    angles = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    one = uniformity(np.ones((50, 2)), np.zeros(50, dtype=int))
    assert one.uniformity == pytest.approx(0.0, abs=1e-12) and one.alignment == pytest.approx(0.0, abs=1e-12)
    assert uniformity(circle, np.arange(200)).uniformity < -1.5
    assert uniformity(circle, np.arange(200)).alignment is None
    assert uniformity(np.zeros((3, 2)), [0, 0, 1]).notes()
    assert uniformity(np.ones((1, 2)), [0]).uniformity is None


def test_odd_numbers_are_refused_and_the_command_takes_the_queries(tmp_path, capsys):
    with pytest.raises(UsageError, match="positive"):
        uniformity(np.eye(3), [0, 1, 1], t=0.0)
    with pytest.raises(DataError, match="row 2"):
        uniformity(np.array([[1.0], [2.0], [np.inf]]), [0, 1, 1])
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 3)).astype(np.float32), np.arange(40) % 3
    np.savez(tmp_path / "f.npz", features=x, labels=y, split=np.array(["train", "test"] * 20))
    store = import_file(tmp_path / "f.npz", tmp_path / "store")
    assert main(["features", "retrieval", str(store), "--uniformity", "--json"]) == 0
    told = {one["name"]: one["value"] for one in json.loads(capsys.readouterr().out)["metrics"]}
    want = uniformity(x[1::2], y[1::2])
    assert told["uniformity"] == pytest.approx(want.uniformity) and told["class_alignment"] == want.alignment
