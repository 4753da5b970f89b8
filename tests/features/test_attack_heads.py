"""Which head goes behind which encoder: outputs side by side, classes by name, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pictures import data_set  # noqa: E402
from tiny_encoders import build  # noqa: E402

from snellen.cli import main  # noqa: E402
from snellen.errors import DataError, UsageError  # noqa: E402
from snellen.features.attacks import classifier  # noqa: E402
from snellen.features.encoders import open_encoder  # noqa: E402
from snellen.features.extract.loop import threads_for, torch_threads  # noqa: E402
from snellen.features.probes.head import ProbeHead, load_head, scaling  # noqa: E402
from snellen.features.store import open_store  # noqa: E402
from snellen.features.store.labels import from_texts  # noqa: E402

OUTPUTS = "cls,cls_last2,patch_mean"
CLASSES = ["auk", "gull", "tern", "wren"]


class World:
    """A tiny encoder, pictures of four classes, and a store with the outputs of two blocks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.encoder = build("dinov2", root / "dinov2")
        self.files = data_set(root, {"train": CLASSES * 8, "test": CLASSES * 5})
        self.images, self.store = root / "images", root / "store"

    def run(self, capsys: pytest.CaptureFixture[str], *words: object, status: int = 0) -> Any:
        """What a command of `snellen features` prints as JSON, or its error."""
        ended = main(["features", *map(str, words), "--json"])
        out, err = capsys.readouterr()
        assert ended == status, err
        return json.loads(out) if status == 0 else err

    def attack(
        self, capsys: pytest.CaptureFixture[str], *more: object, status: int = 0, head: Path | None = None
    ) -> Any:
        given = ["--head", head or self.store, "--split", self.files[1], "--images", self.images]
        return self.run(capsys, "attack", "--encoder", f"hf:{self.encoder}", *given, *more, status=status)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("world"))
    splits = [f"--split={one}" for one in made.files]
    out = ["--images", str(made.images), "--out", str(made.store)]
    assert main(["features", "extract", f"--encoder=hf:{made.encoder}", "--outputs", OUTPUTS, *splits, *out]) == 0
    return made


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_head_of_several_outputs_decides_behind_the_encoder_as_on_the_stored_features(
    world, capsys, tmp_path, blocks
):
    outputs = ["cls" if blocks == 1 else "cls_last2", "patch_mean"]
    parts = [open_store(world.store, one) for one in outputs]
    rows = np.concatenate([one.values for one in parts], axis=1)
    rng = np.random.default_rng(0)
    # Random weights, not a trained head: they tell every order of the columns from every other.
    scaled = scaling("standardise", rows)
    weights = rng.standard_normal((rows.shape[1], 4))
    settings = {"output": "+".join(outputs), "store": str(world.store)}
    head = ProbeHead(weights, np.zeros(4), scaled, np.arange(4), tuple(CLASSES), False, settings)
    file = head.save(tmp_path / "joined.npz")
    opened = open_encoder(f"hf:{world.encoder}", classifier.head_outputs(head))
    model = classifier.build_classifier(opened, load_head(file))
    (shown,) = classifier.read_images(world.files[1], world.images, opened.transform)
    tested = np.flatnonzero(parts[0].split == "test")
    with torch.no_grad():
        logits = model(shown.images()).numpy()
    np.testing.assert_allclose(logits, head.logits(rows[tested]), atol=2e-3)
    told = world.attack(capsys, "--eps", "0,8/255", "--steps", "2", "--no-random-start", head=file)
    values = {one["name"]: one["value"] for one in told["metrics"]}
    right = head.predict(rows[tested]) == parts[0].labels.single[tested]
    assert values["clean_accuracy"] == values["accuracy@0"] == right.mean()
    assert told["settings"]["output"] == "+".join(outputs)
    assert told["notes"] == []


@pytest.mark.parametrize("standardise", ["none", "l2", "standardise"])
def test_clean_accuracy_is_the_probes_under_every_scaling(world, capsys, standardise):
    probed = world.run(capsys, "probe", world.store, "--save", "--c", "1", "--standardise", standardise)
    told = world.attack(capsys, "--eps", "0", "--no-random-start")
    assert told["metrics"][0]["value"] == probed["metrics"][0]["value"]


def test_the_grid_of_heads_can_be_attacked_whatever_it_chose(world, capsys):
    probed = world.run(capsys, "probe", world.store, "--profile", "fgbmk-legacy", "--epochs", "3", "--save")
    told = world.attack(capsys, "--eps", "0", "--no-random-start")
    assert told["settings"]["output"] == probed["settings"]["output"]
    assert told["metrics"][0]["value"] == probed["metrics"][0]["value"]


def test_a_head_of_one_output_is_refused_behind_another_and_so_is_another_encoder(world, capsys, tmp_path):
    world.run(capsys, "probe", world.store, "--save", "--method", "ridge")
    assert "trained on cls, not on patch_mean" in world.attack(capsys, "--output", "patch_mean", status=2)
    other = build("dinov2", tmp_path / "dinov2")
    from safetensors.torch import load_file, save_file

    weights = load_file(other / "model.safetensors")
    save_file({name: one * 1.01 for name, one in weights.items()}, other / "model.safetensors", {"format": "pt"})
    given = ["--split", world.files[1], "--images", world.images, "--head", world.store]
    said = world.run(capsys, "attack", "--encoder", f"hf:{other}", *given, status=5)
    assert "of another encoder" in said and "digest" in said


def test_a_head_knows_its_encoder_when_its_store_is_gone_or_was_extracted_anew(world, capsys, tmp_path):
    world.run(capsys, "probe", world.store, "--save", "--method", "ridge")
    head = tmp_path / "head.npz"
    head.write_bytes((world.store / "probe.npz").read_bytes())
    told = world.attack(capsys, "--eps", "0", "--no-random-start", head=head)
    assert not any("not known" in line for line in told["notes"])
    other = build("dinov2_registers", tmp_path / "other")
    named = ["--encoder", f"hf:{other}", "--head", head, "--split", world.files[1], "--images", world.images]
    assert "of another encoder" in world.run(capsys, "attack", *named, status=5)
    given = ["--general", world.files[1], "--general-head", tmp_path / "other.npz"]
    trained = load_head(head)
    identity = {**trained.settings["identity"], "encoder": {"weights": "another"}}
    msgspec.structs.replace(trained, settings={**trained.settings, "identity": identity}).save(tmp_path / "other.npz")
    assert "of another encoder" in world.attack(capsys, *given, head=head, status=5)


def test_a_page_refuses_an_attack_on_a_head_of_another_encoder_than_its_stores(world, capsys, tmp_path):
    world.run(capsys, "probe", world.store, "--save", "--method", "ridge")
    told = world.attack(capsys, "--eps", "1/255", "--steps", "1")
    page = ["report", world.store, "--out", tmp_path / "page.html", "--measured", tmp_path / "attack.json"]
    (tmp_path / "attack.json").write_text(json.dumps(told))
    world.run(capsys, *page)
    told["settings"]["identity"]["encoder"] = {"weights": "another"}
    (tmp_path / "attack.json").write_text(json.dumps(told))
    assert "another encoder" in world.run(capsys, *page, status=3)


def test_a_head_of_imported_features_takes_the_output_that_is_named_or_the_first(world, capsys, tmp_path):
    features = open_store(world.store, "patch_mean")
    weights = np.random.default_rng(1).standard_normal((32, 4))
    plain = scaling("none", features.values)
    tested = features.split == "test"
    for output, more in (("features", ("--output", "patch_mean")), ("", ("--output", "patch_mean")), ("", ())):
        head = ProbeHead(weights, np.zeros(4), plain, np.arange(4), None, False, {"output": output} if output else {})
        file = head.save(tmp_path / "imported.npz")
        told = world.attack(capsys, "--eps", "0", "--no-random-start", *more, head=file)
        assert told["settings"]["output"] == ("patch_mean" if more else "cls")
        seen = open_store(world.store, told["settings"]["output"])
        right = head.predict(seen.values[tested]) == seen.labels.single[tested]
        assert told["metrics"][0]["value"] == right.mean()
        assert any("names no existing store" in one for one in told["notes"])


def test_classes_meet_by_name_where_a_split_lacks_some(world, capsys, tmp_path):
    world.run(capsys, "probe", world.store, "--save", "--method", "ridge")
    whole = world.attack(capsys, "--eps", "0", "--no-random-start")
    lines = Path(world.files[1]).read_text().splitlines()
    part = tmp_path / "test.csv"
    part.write_text("".join(f"{one}\n" for one in lines if not one.endswith(",auk")))
    given = ["--head", world.store, "--images", world.images, "--eps", "0", "--no-random-start"]
    some = world.run(capsys, "attack", "--encoder", f"hf:{world.encoder}", "--split", part, *given)
    features = open_store(world.store)
    kept = (features.split == "test") & (features.labels.single != 0)
    right = load_head(world.store).predict(features.values[kept]) == features.labels.single[kept]
    assert some["metrics"][0]["value"] == pytest.approx(right.mean())
    assert whole["metrics"][0]["n"] == 20 and some["metrics"][0]["n"] == 15
    part.write_text(lines[0].rpartition(",")[0] + ",heron\n")
    said = world.run(
        capsys, "attack", "--encoder", f"hf:{world.encoder}", "--split", part, *given, status=3
    )  # fmt: skip
    assert "does not know 1 of the split's classes; the first is heron" in said


def test_a_name_that_two_classes_share_is_told_apart_by_the_id():
    head = ProbeHead(
        np.zeros((1, 3)), np.zeros(3), scaling("none", np.zeros((1, 1))), np.array([0, 4, 9]), ("a", "b", "a")
    )
    rows = from_texts(["9", "4", "0"], ["a", "x", "x", "x", "b", "x", "x", "x", "x", "a"], "here", str)
    assert list(classifier.head_columns(rows, head)) == [2, 1, 0]
    with pytest.raises(DataError, match="the first is crow"):
        classifier.head_columns(from_texts(["crow"], None, "here", str), head)
    with pytest.raises(UsageError, match="several labels"):
        classifier.head_columns(from_texts(["0 4"], None, "here", str), head)


@pytest.mark.parametrize(
    "given",
    [
        ("--corrupt", "grey", "--eps", "1/255"),
        ("--corrupt", "grey", "--general", "x.csv"),
        ("--method", "fgbmk-legacy", "--norm", "l2"),
        ("--method", "fgbmk-legacy", "--target", "1"),
        ("--method", "fgsm", "--steps", "4"),
        ("--general-head", "x.npz"),
        ("--target", "17"),
        ("--corrupt", "grey", "--corrupt", "grey"),
    ],
)
def test_an_option_that_a_way_of_attacking_does_not_look_at_is_refused(world, capsys, given):
    world.run(capsys, "probe", world.store, "--save", "--method", "ridge")
    assert given[-2].lstrip("-") in world.attack(capsys, *given, status=2)


def test_corrupted_pictures_of_a_part_of_the_split_are_told_as_a_part(world, capsys):
    world.run(capsys, "probe", world.store, "--save", "--method", "ridge")
    told = world.attack(capsys, "--corrupt", "blur:3", "--limit", "6")
    assert told["settings"]["limit"] == 6
    assert any("6 of the split's 20" in one for one in told["notes"])


def test_a_small_batch_gets_one_thread_a_large_one_all_and_they_are_put_back(world):
    assert [threads_for(work, 16) for work in (0.0, 1e9, 4e9, 1e15)] == [1, 1, 2, 16]
    opened = open_encoder(f"hf:{world.encoder}", ["cls"])
    before = torch.get_num_threads()
    with torch_threads(opened, 64) as chosen:
        assert (chosen, torch.get_num_threads()) == (1, 1)
    with torch_threads(opened, 64, before + 2) as chosen:
        assert torch.get_num_threads() == chosen == before + 2
    assert torch.get_num_threads() == before


def test_the_number_of_threads_changes_no_feature(world, tmp_path):
    stored = []
    for threads in (1, 3):
        out = tmp_path / str(threads)
        given = ["--images", str(world.images), "--out", str(out), "--threads", str(threads)]
        split = f"--split={world.files[0]}"
        assert main(["features", "extract", f"--encoder=hf:{world.encoder}", split, *given]) == 0
        stored.append(np.asarray(open_store(out).values))
    np.testing.assert_allclose(stored[0], stored[1], rtol=0, atol=1e-6)
