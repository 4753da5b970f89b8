"""MLP and attentive probes: planted data that a linear probe cannot solve, choice on held-out rows, determinism, the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.probes import probe
from snellen.features.probes.network_probe import NetworkProbe, NetworkTraining, network_probe
from snellen.features.store import open_tokens
from snellen.features.store.format import StoreMeta, StoreOutput, TokenOutput, fingerprint, write_meta, write_table
from snellen.features.store.labels import from_ids

torch = pytest.importorskip("torch")

QUICK: dict[str, Any] = {"rates": (1e-2,), "decays": (1e-3,), "steps": 150}


def xor(rows: int = 600, seed: int = 0, width: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Class 1 where the signs of the first two features differ."""
    values = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
    return values, ((values[:, 0] > 0) != (values[:, 1] > 0)).astype(np.int64)


def planted(rows: int = 600, tokens: int = 12, width: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """One token at a random place says the class, and is marked; equally strong unmarked ones lie about it."""
    draw = np.random.default_rng(seed)
    classes = np.arange(rows) % 3
    directions = 3.0 * np.eye(width)[:4]
    values = draw.standard_normal((rows, tokens, width)) * 0.3
    values += directions[draw.integers(0, 3, (rows, tokens))] * 2.0
    place = draw.integers(0, tokens, rows)
    values[np.arange(rows), place] = directions[classes] + directions[3] + draw.standard_normal((rows, width)) * 0.3
    return values.astype(np.float32), classes


def fit_network(values: np.ndarray, classes: np.ndarray, **options: Any) -> NetworkProbe:
    """Train a probe; options of the training are told from the others by their names."""
    training = {name: options.pop(name) for name in NetworkTraining.__struct_fields__ if name in options}
    return network_probe(values, classes, training=NetworkTraining(**training), **options)


SPLITS: dict[str, Any] = {"train_rows": np.arange(450), "test_rows": np.arange(450, 600)}


def accuracy(result: Any) -> Any:
    return next(metric for metric in result.metrics() if metric.name == "accuracy")


def test_an_mlp_solves_xor_and_a_linear_probe_does_not():
    values, classes = xor()
    linear = accuracy(probe(values, classes, **SPLITS))
    mlp = accuracy(fit_network(values, classes, kind="mlp", **SPLITS, **QUICK))
    assert linear.value < 0.65
    assert mlp.value > 0.93
    assert mlp.ci95[0] > linear.ci95[1]
    assert mlp.n == 150


def test_an_attentive_probe_reads_one_token_at_a_random_place_and_a_linear_probe_of_their_mean_does_not():
    tokens, classes = planted()
    linear = accuracy(probe(tokens.mean(1), classes, **SPLITS))
    attentive = accuracy(fit_network(tokens, classes, kind="attentive", **SPLITS, **QUICK))
    mlp = accuracy(fit_network(tokens.mean(1), classes, kind="mlp", **SPLITS, **QUICK))
    assert attentive.value > 0.95
    assert max(linear.value, mlp.value) < 0.75
    assert attentive.ci95[0] > linear.ci95[1]


def test_a_pooled_probe_is_cross_attention_of_a_learned_query_with_heads():
    """The folded form against torch's own attention with the same weights."""
    from snellen.features.probes.networks import AttentiveLayers

    draw = torch.Generator().manual_seed(1)
    mean, scale = torch.randn(128, generator=draw), 0.5 + torch.rand(128, generator=draw)
    layers = AttentiveLayers(128, 5, 2, mean, scale, draw)
    tokens = torch.randn(7, 9, 128, generator=draw)
    with torch.no_grad():
        for weights in layers.parameters:
            weights += 0.2 * torch.randn(weights.shape, generator=draw)
        logits = layers.forward(tokens)
        normal = (tokens - mean) / scale
        for number in range(2):
            query, key, value, linear, bias = (weights[number] for weights in layers.parameters)
            heads, each = query.shape
            assert (heads, each) == (2, 64)
            keys = torch.einsum("btd,hed->bhte", normal, key)
            values = torch.einsum("btd,hde->bhte", normal, value)
            asked = query[None, :, None].expand(7, -1, -1, -1)
            pooled = torch.nn.functional.scaled_dot_product_attention(asked, keys, values).reshape(7, 128)
            assert torch.allclose(logits[number], pooled @ linear + bias, atol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "attentive"])
def test_settings_trained_together_are_those_that_torchs_adamw_trains_alone(kind):
    tokens, classes = planted(120, 5, 8)
    values = tokens if kind == "attentive" else tokens[:, 0]
    options: dict[str, Any] = {"kind": kind, "steps": 7, "hidden": 6, "share": 0.2, "batch": 32}
    rows: dict[str, Any] = {"train_rows": np.arange(100), "test_rows": np.arange(100, 120)}
    alone = fit_network(values, classes, rates=(3e-3,), decays=(0.1,), **options, **rows)
    from snellen.features.probes import networks

    recipe = networks.NetworkRecipe(kind, ((1e-4, 0.0), (3e-3, 0.1)), 7, 32, 6)
    targets = classes[:100]
    scaling = networks.measure_channels(values, np.arange(100))
    both = networks.train_networks(values, np.arange(100), targets, 3, recipe, scaling, 0, "cpu")
    logits = both.logits(values, np.arange(100, 120))
    assert logits.shape == (2, 20, 3)
    [one] = networks.train_networks(
        values, np.arange(100), targets, 3, networks.NetworkRecipe(kind, ((3e-3, 0.1),), 7, 32, 6), scaling, 0, "cpu"
    ).logits(values, np.arange(100, 120))
    np.testing.assert_allclose(logits[1], one, atol=1e-5)
    assert (one.argmax(1) == alone.predicted).all()

    draw = torch.Generator().manual_seed(0)
    layers = networks.build_layers(kind, values, 3, 1, 6, scaling, draw, "cpu")
    weights = [weight.detach().clone().requires_grad_() for weight in layers.parameters]
    layers.parameters = weights
    matrices = [weight for weight, decayed in zip(weights, layers.decayed, strict=True) if decayed]
    others = [weight for weight, decayed in zip(weights, layers.decayed, strict=True) if not decayed]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: networks.rate_at(step, 7))
    order, at = torch.randperm(100, generator=draw), 0
    for _ in range(7):
        if at + 32 > 100:
            order, at = torch.randperm(100, generator=draw), 0
        picked = order[at : at + 32].numpy()
        at += 32
        optimiser.zero_grad()
        scores = layers.forward(torch.from_numpy(values[picked]))[0]
        torch.nn.functional.cross_entropy(scores, torch.from_numpy(targets[picked])).backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        expected = layers.forward(torch.from_numpy(values[100:120]))[0]
    np.testing.assert_allclose(one, expected.numpy(), atol=1e-4)


@pytest.mark.parametrize("kind", ["mlp", "attentive"])
def test_the_same_seed_gives_the_same_probe_and_another_another(kind):
    tokens, classes = planted(150, 4, 8)
    values = tokens if kind == "attentive" else tokens[:, 0]
    rows: dict[str, Any] = {"train_rows": np.arange(100), "test_rows": np.arange(100, 150)}

    def loss(seed):
        result = fit_network(values, classes, kind=kind, steps=15, seed=seed, **rows)
        return result.probabilities.loss

    assert np.array_equal(loss(3), loss(3))
    assert not np.array_equal(loss(3), loss(4))


def test_the_rate_and_decay_are_chosen_on_a_part_of_train_and_the_test_rows_change_nothing():
    values, classes = xor()
    options: dict[str, Any] = {"kind": "mlp", "steps": 120, "rates": (1e-7, 1e-2), "decays": (1e-3,)}
    result = fit_network(values, classes, **SPLITS, **options)
    assert result.settings.rates == (1e-2,)
    assert len(result.fits[0].tried) == 2
    assert result.fits[0].held_out == 45
    shuffled = classes.copy()
    shuffled[450:] = 1 - shuffled[450:]
    other = fit_network(values, shuffled, **SPLITS, **options)
    assert other.settings == result.settings
    assert np.array_equal(other.predicted, result.predicted)


@pytest.mark.parametrize("kind", ["mlp", "attentive"])
def test_a_rate_whose_training_diverges_is_not_chosen_and_alone_is_named(kind):
    tokens, classes = planted(120, 4, 8)
    values = tokens if kind == "attentive" else tokens[:, 0]
    options: dict[str, Any] = {"kind": kind, "steps": 20, "decays": (0.0,)}
    rows: dict[str, Any] = {"train_rows": np.arange(100), "test_rows": np.arange(100, 120)}
    result = fit_network(values, classes, rates=(1e37, 1e-2), **options, **rows)
    assert result.settings.rates == (1e-2,)
    with pytest.raises(UsageError, match=r"diverged with a rate of 1e\+37"):
        fit_network(values, classes, rates=(1e37,), **options, **rows)


def test_without_splits_every_row_is_tested_once():
    values, classes = xor(200)
    result = fit_network(values, classes, kind="mlp", folds=4, **{**QUICK, "steps": 60})
    assert sorted(result.rows.tolist()) == list(range(200))
    assert result.settings.protocol == "stratified 4-fold cross-validation"
    assert any("every row was tested once" in note for note in result.notes())


def test_several_labels_a_row_are_scored_as_those_of_a_linear_probe():
    values, _ = xor(400)
    many = np.stack([values[:, 2] > 0, (values[:, 0] > 0) != (values[:, 1] > 0)], axis=1).astype(np.int64)
    rows: dict[str, Any] = {"train_rows": np.arange(300), "test_rows": np.arange(300, 400)}
    linear = probe(values, many, **rows)
    mlp = fit_network(values, many, kind="mlp", **rows, **QUICK)
    assert [metric.name for metric in mlp.metrics()] == [metric.name for metric in linear.metrics()]
    assert mlp.several.auroc[1] > 0.9 > 0.7 > linear.several.auroc[1]


def test_test_rows_of_a_class_that_train_lacks_are_wrong_and_counted():
    values, classes = xor(200)
    classes[150:170] = 2
    result = fit_network(values, classes, kind="mlp", train_rows=np.arange(150), test_rows=np.arange(150, 200), **QUICK)
    assert accuracy(result).value < 0.61
    assert any("20 test rows are of 1 classes without a training row" in note for note in result.notes())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "forest"}, "forest"),
        ({"rates": ()}, "rate"),
        ({"rates": (0.0,)}, "rate"),
        ({"decays": (-1.0,)}, "decay"),
        ({"steps": 0}, "step"),
        ({"epochs": 0.0}, "epochs"),
        ({"hidden": 0}, "hidden"),
        ({"kind": "attentive"}, "tokens"),
        ({"test_rows": None}, "only one"),
        ({"device": "abacus"}, "abacus"),
    ],
)
def test_settings_out_of_range_are_refused_with_what_was_expected(change, words):
    values, classes = xor(60)
    settings = {"kind": "mlp", "train_rows": np.arange(40), "test_rows": np.arange(40, 60), **QUICK, **change}
    with pytest.raises(UsageError, match=words):
        fit_network(values, classes, **settings)


@pytest.mark.parametrize("row", [3, 55])
@pytest.mark.parametrize("kind", ["mlp", "attentive"])
def test_a_value_that_is_not_finite_is_named(kind, row):
    tokens, classes = planted(60, 4, 8)
    values = tokens if kind == "attentive" else tokens[:, 0]
    values[row, -1] = np.nan
    with pytest.raises(DataError, match=f"row {row}"):
        fit_network(
            values, classes, kind=kind, train_rows=np.arange(40), test_rows=np.arange(40, 60), **{**QUICK, "steps": 3}
        )


def store(
    folder: Path, tokens: np.ndarray | None, pooled: np.ndarray, classes: np.ndarray, gap: int | None = None
) -> Path:
    """A store as an extraction writes it, three quarters of its rows in train."""
    folder.mkdir()
    rows, cut = len(classes), 3 * len(classes) // 4
    np.save(folder / "patch_mean.npy", pooled)
    write_table(
        folder / "rows.parquet",
        [f"{i}.jpg" for i in range(rows)],
        ["train"] * cut + ["test"] * (rows - cut),
        from_ids(classes, None, "here"),
    )
    extra: dict[str, Any] = {}
    if tokens is not None:
        gaps = () if gap is None else (gap,)
        placed = tokens if gap is None else np.insert(tokens, gap, np.nan, axis=0)
        np.save(folder / "patch_tokens.npy", placed.astype(np.float16))
        extra["patch_tokens"] = TokenOutput("patch_tokens.npy", *tokens.shape[1:], "float16", gaps)
    outputs = {"patch_mean": StoreOutput("patch_mean.npy", pooled.shape[1], str(pooled.dtype))}
    found = tuple(int(one) for one in np.unique(classes))
    write_meta(folder, StoreMeta("extracted", {}, fingerprint({}), rows, outputs, True, False, found, None, **extra))
    return folder


FAST = ["--rates", "0.01", "--decays", "0.001", "--epochs", "40"]


def told(capsys: Any, *words: str | Path) -> dict[str, Any]:
    assert main([*map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def value(result: dict[str, Any], name: str) -> float:
    return next(metric["value"] for metric in result["metrics"] if metric["name"] == name)


def test_the_command_probes_tokens_and_pooled_features_of_a_store(tmp_path, capsys):
    tokens, classes = planted()
    path = store(tmp_path / "s", tokens, tokens.mean(1), classes, gap=100)
    attentive = told(capsys, "features", "probe", path, "--probe", "attentive", *FAST)
    assert value(attentive, "accuracy") > 0.93
    assert attentive["settings"]["probe"] == "attentive"
    assert attentive["settings"]["output"] == "patch_tokens"
    metric = attentive["metrics"][0]
    assert metric["ci95"][0] < metric["value"] <= metric["ci95"][1]
    linear = told(capsys, "features", "probe", path, "--probe", "linear")
    assert linear["settings"]["method"] == "logistic"
    assert value(linear, "accuracy") < 0.75
    words = ["features", "probe", path, "--probe", "mlp", *FAST, "--hidden", "8", "--calibration", "--per-class"]
    mlp = told(capsys, *words, "--confusion", tmp_path / "c.csv")
    assert mlp["settings"]["hidden"] == 8
    assert {"ece", "nll", "accuracy/class/2"} <= {metric["name"] for metric in mlp["metrics"]}
    assert (tmp_path / "c.csv").exists()


def test_the_command_compares_encoders_by_their_attentive_probes_row_by_row(tmp_path, capsys):
    tokens, classes = planted(240)
    first = store(tmp_path / "first", tokens, tokens.mean(1), classes, gap=7)
    every = np.concatenate([np.random.default_rng(5).permutation(180), np.arange(180, 240)])
    second = store(tmp_path / "second", tokens[every], tokens[every].mean(1), classes[every], gap=200)
    names, split = [f"{i}.jpg" for i in every], ["train"] * 180 + ["test"] * 60
    write_table(second / "rows.parquet", names, split, from_ids(classes[every], None, "here"))
    result = told(capsys, "features", "probe", first, "--probe", "attentive", *FAST, "--against", second)
    assert value(result, "second/accuracy") == value(result, "accuracy")
    assert value(result, "difference/first-second/nll") == 0.0


def test_a_store_without_tokens_and_options_of_other_probes_are_refused(tmp_path, capsys):
    values, classes = xor(80)
    path = store(tmp_path / "s", None, values, classes)
    cases = [
        (["--probe", "attentive"], 3, "--tokens"),
        (["--probe", "mlp", "--method", "ridge"], 2, "--method"),
        (["--probe", "mlp", "--c", "1"], 2, "--c"),
        (["--probe", "mlp", "--shots", "1"], 2, "--shots"),
        (["--probe", "mlp", "--standardise", "l2"], 2, "--standardise"),
        (["--probe", "mlp", "--save"], 2, "--save"),
        (["--probe", "mlp", "--rates", "fast"], 2, "--rates"),
        (["--probe", "attentive", "--output", "patch_mean"], 2, "--output"),
        (["--probe", "attentive", "--layers"], 2, "--layers"),
        (["--probe", "attentive", "--hidden", "9"], 2, "--hidden"),
        (["--rates", "0.1"], 2, "--probe"),
        (["--hidden", "8"], 2, "--probe"),
    ]
    for words, code, expected in cases:
        assert main(["features", "probe", str(path), *words]) == code, words
        assert expected in capsys.readouterr().err, words


def test_tokens_of_a_whole_extraction_are_probed(tmp_path, capsys):
    pytest.importorskip("transformers")
    from pictures import data_set

    files = data_set(tmp_path, {"train": ["0", "1"] * 8, "test": ["0", "1"] * 3})
    words = ["features", "extract", "--encoder", "embedded", "--images", str(tmp_path / "images"), "--tokens"]
    words += ["--out", str(tmp_path / "s"), *(word for file in files for word in ("--split", file))]
    assert main(words) == 0
    capsys.readouterr()
    result = told(capsys, "features", "probe", tmp_path / "s", "--probe", "attentive", "--epochs", "3")
    assert result["settings"]["train_rows"] == 16
    assert open_tokens(tmp_path / "s").shape[0] == 22
