"""The grid of heads and few-shot probes."""

import json

import numpy as np
import pytest

from snellen.cli import main
from snellen.features.probes.dinov2_grid import DINOV2, FGBMK_LEGACY, train_grid
from snellen.features.probes.few_shot import few_shot
from snellen.features.probes.grid_probe import find_inputs, grid_probe
from snellen.features.probes.head import load_head
from snellen.features.probes.holdout import draw_rows
from snellen.features.store import open_store
from snellen.features.store.format import StoreMeta, StoreOutput, fingerprint, write_meta, write_table
from snellen.features.store.labels import from_ids


@pytest.fixture(scope="module")
def tokens():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 5
    means = rng.standard_normal((5, 12))
    cls = [(means[y] + rng.standard_normal((400, 12))).astype(np.float32) for _ in range(4)]
    return cls, (means[y] + rng.standard_normal((400, 12))).astype(np.float32), y


def test_dinov2s_52_heads_and_fgbmks_24_are_trained_and_one_is_chosen(tokens):
    cls, mean, y = tokens
    train, test = np.arange(300), np.arange(300, 400)
    grid = train_grid(cls, mean, y, train, test, recipe=DINOV2, epochs=10)
    assert len(grid.trials) == 52
    assert grid.best.accuracy == max(one.accuracy for one in grid.trials)
    assert (grid.predicted == y[test]).mean() > 0.9
    legacy = train_grid(cls, mean, y, train, test, recipe=FGBMK_LEGACY, epochs=3)
    assert len(legacy.trials) == 24
    assert legacy.best.accuracy == (legacy.predicted == y[test]).mean()
    assert "test rows" in legacy.selection


@pytest.mark.parametrize("recipe", [DINOV2, FGBMK_LEGACY])
def test_heads_trained_together_are_those_that_torchs_optimiser_trains_alone(tokens, recipe):
    torch = pytest.importorskip("torch")
    from msgspec.structs import replace

    cls, _, y = tokens
    one = replace(recipe, rates=(0.02,), blocks=(1,), select="test")
    rows = np.arange(300)
    found = train_grid(cls, None, y, rows, np.arange(300, 400), recipe=one, epochs=2)
    generator = torch.Generator().manual_seed(0)
    layer = torch.nn.Linear(12, 5)
    start = torch.randn(13, 5, generator=generator) * 0.01
    layer.weight.data, layer.bias.data = start[:-1].T.clone(), torch.zeros(5)
    rate = 0.02 * 128 / 256
    kind = torch.optim.SGD(layer.parameters(), rate, momentum=0.9)
    if recipe.optimiser == "adam":
        kind = torch.optim.Adam(layer.parameters(), rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(kind, lambda s: 0.5 * (1 + np.cos(np.pi * s / found.iterations)))
    order, at = torch.randperm(300, generator=generator), 0
    x, t = torch.from_numpy(cls[0][rows]), torch.from_numpy(y[rows])
    for _ in range(found.iterations):
        if at + 128 > 300:
            order, at = torch.randperm(300, generator=generator), 0
        picked = order[at : at + 128]
        at += 128
        kind.zero_grad()
        torch.nn.functional.cross_entropy(layer(x[picked]), t[picked]).backward()
        kind.step()
        schedule.step()
    np.testing.assert_allclose(found.weights, layer.weight.detach().numpy().T, atol=1e-5)
    np.testing.assert_allclose(found.bias, layer.bias.detach().numpy(), atol=1e-5)


def test_few_shot_draws_n_rows_a_class_and_all_of_a_smaller_one(tokens):
    targets = np.array([0] * 10 + [1] * 2 + [2] * 7)
    rows = draw_rows(targets, 3, 0)
    assert np.bincount(targets[rows]).tolist() == [3, 2, 3]
    cls, _, y = tokens
    found = few_shot(cls[0], y, np.arange(300), np.arange(300, 400), ns=(1, 20), tries=3)
    assert found[1].mean > found[0].mean
    assert found[0].sd is not None and len(found[0].accuracies) == 3


@pytest.fixture
def store(tokens, tmp_path):
    """A store as an extraction writes it: the tokens of the last four blocks in their order, and the patch mean."""
    cls, mean, y = tokens
    values = {"cls": cls[0], "cls_last4": np.concatenate(cls[::-1], axis=1), "patch_mean": mean}
    return written(tmp_path / "store", values, y)


def written(path, values, y):
    path.mkdir()
    labels = from_ids(y * 3 + 1, None, "here")
    split = ["train"] * 300 + ["test"] * 100
    for name, array in values.items():
        np.save(path / f"{name}.npy", array)
    write_table(path / "rows.parquet", [str(i) for i in range(400)], split, labels)
    outputs = {name: StoreOutput(f"{name}.npy", array.shape[1], "float32") for name, array in values.items()}
    classes = tuple(int(one) for one in labels.classes)
    meta = StoreMeta("extracted", {}, fingerprint({}), 400, outputs, True, False, classes, None)
    write_meta(path, meta)
    return path


def test_the_grids_inputs_are_found_among_a_stores_outputs(store, tokens):
    cls, mean, _ = tokens
    found = find_inputs(store, DINOV2)
    for mine, wanted in zip(found.cls, cls, strict=True):
        np.testing.assert_array_equal(mine, wanted)
    np.testing.assert_array_equal(found.patch_mean, mean)
    assert len(find_inputs(store, FGBMK_LEGACY).cls) == 2


def test_the_command_trains_the_grid_and_saves_the_chosen_head(store, tokens, capsys):
    assert main(["features", "probe", str(store), "--method", "heads", "--epochs", "5", "--save", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["settings"]["trials"]) == told["settings"]["heads"] == 52
    values = {one["name"]: one["value"] for one in told["metrics"]}
    head = load_head(store)
    parts = [open_store(store, name).values for name in told["settings"]["output"].split("+")]
    rows = np.concatenate(parts, axis=1)[300:]
    assert values["accuracy"] == (head.predict(rows) == tokens[2][300:] * 3 + 1).mean() > 0.9
    assert main(["features", "probe", str(store), "--protocol", "fgbmk-legacy", "--epochs", "2", "--json"]) == 0
    legacy = json.loads(capsys.readouterr().out)
    assert legacy["settings"]["heads"] == 24
    assert any("chosen on the test rows" in note for note in legacy["notes"])


@pytest.mark.parametrize(("blocks", "pooled"), [(4, False), (4, True), (1, True)])
def test_a_saved_head_reads_its_blocks_in_the_stores_order(store, tokens, blocks, pooled):
    from msgspec.structs import replace

    recipe = replace(DINOV2, rates=(0.05,), blocks=(blocks,))
    inputs = find_inputs(store, replace(recipe, blocks=(4,)))
    inputs = inputs if pooled else replace(inputs, patch_mean=None)
    found = grid_probe(inputs, recipe, epochs=5)
    grid = train_grid(
        [np.asarray(one) for one in inputs.cls],
        inputs.patch_mean,
        tokens[2],
        np.arange(300),
        np.arange(300, 400),
        recipe=recipe,
        epochs=5,
    )
    rows = np.concatenate([open_store(store, one).values for one in found.settings.output.split("+")], axis=1)
    assert (found.head.predict(rows[300:]) == grid.predicted * 3 + 1).all()


def test_missing_outputs_are_named_with_what_to_extract(tokens, tmp_path, capsys):
    cls, _, y = tokens
    store = written(tmp_path / "bare", {"cls": cls[0]}, y)
    assert main(["features", "probe", str(store), "--method", "heads"]) == 2
    told = capsys.readouterr().err
    assert "no cls_last4 and no patch_mean" in told
    assert "--outputs cls,cls_last4,patch_mean" in told
    command = ["features", "probe", str(store), "--method", "heads", "--output", "cls", "--epochs", "2", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["heads"] == 13


def test_few_shot_by_command_gives_the_mean_of_the_tries(store, capsys):
    command = ["features", "probe", str(store), "--method", "ridge", "--shots", "1,5", "--tries", "3", "--json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)
    one, five = told["metrics"]
    assert (one["name"], five["name"]) == ("accuracy/1-shot", "accuracy/5-shot")
    assert one["value"] == pytest.approx(np.mean(told["settings"]["accuracies"]["1"]))
    assert five["value"] > one["value"]
    assert five["ci95"][0] < five["value"] < five["ci95"][1]
