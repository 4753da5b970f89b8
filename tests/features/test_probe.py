"""Linear probes against scikit-learn's minimum in float64, the grid of heads, few-shot probes, and what odd data does to them."""

import json
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.probes import accuracy_metrics, closed_form, logistic, probe, protocol
from snellen.features.probes import results as multilabel
from snellen.features.probes.dinov2_grid import DINOV2, FGBMK_LEGACY, train_grid
from snellen.features.probes.few_shot import few_shot
from snellen.features.probes.grid_probe import find_inputs, grid_probe
from snellen.features.probes.head import load_head
from snellen.features.probes.protocol import draw_rows
from snellen.features.store import open_store
from snellen.features.store.format import StoreMeta, StoreOutput, fingerprint, write_meta, write_table
from snellen.features.store.labels import from_ids

pytestmark = pytest.mark.usefixtures("printed_as_schema")


@pytest.fixture(scope="module")
def classes():
    """Six overlapping classes, labels with gaps, 40 features of very different scales."""
    rng = np.random.default_rng(3)
    scales = 10.0 ** np.linspace(1, -2, 40)
    means = rng.standard_normal((6, 40)) * 0.5
    y = np.arange(600) % 6
    x = (means[y] + rng.standard_normal((600, 40))) * scales
    return x, y * 7 - 3


def naive(c, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LogisticRegression(C=c, solver="newton-cg", tol=1e-9, max_iter=5000).fit(x, y)


@pytest.mark.parametrize("c", [1e-3, 1.0, 30.0])
def test_a_fit_ends_at_scikit_learns_minimum_for_the_same_c(classes, c):
    x, y = classes
    columns = np.unique(y, return_inverse=True)[1]
    found = logistic.fit(logistic.prepare_problem(x, columns, 6), c)
    peer = naive(c, x, y)
    assert found.converged
    logits = x @ found.weights + found.bias
    theirs = peer.decision_function(x)
    np.testing.assert_allclose(
        logits - logits.mean(1, keepdims=True), theirs - theirs.mean(1, keepdims=True), atol=2e-3
    )


@pytest.mark.parametrize("c", [0.01, 5.0])
def test_two_classes_have_scikit_learns_minimum_too(classes, c):
    x, y = classes
    columns = (y > 10).astype(int)
    found = logistic.fit(logistic.prepare_problem(x, columns, 2), c)
    logits = x @ found.weights + found.bias
    np.testing.assert_allclose(logits[:, 1] - logits[:, 0], naive(c, x, columns).decision_function(x), atol=2e-3)


def test_an_empty_list_of_strengths_is_a_usage_error(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", features=np.eye(8), labels=np.arange(8) % 2)
    assert main(["features", "import", str(tmp_path / "a.npz")]) == 0
    assert main(["features", "probe", str(tmp_path / "a"), "--c", ""]) == 2
    assert "numbers separated by commas" in capsys.readouterr().err


def test_with_fewer_rows_than_features_the_minimum_is_the_same():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((30, 80)), np.arange(30) % 3
    found = logistic.fit(logistic.prepare_problem(x, y, 3), 0.5)
    other = rng.standard_normal((50, 80))
    assert (other @ found.weights + found.bias).argmax(1).tolist() == naive(0.5, x, y).predict(other).tolist()


def test_a_point_of_the_path_is_the_fit_at_that_c(classes):
    x, y = classes
    columns = np.unique(y, return_inverse=True)[1]
    problem = logistic.prepare_problem(x, columns, 6)
    for found in logistic.fit_path(problem, (1e-3, 0.1, 10.0), tolerance=1e-10):
        alone = logistic.fit(problem, found.c)
        assert found.objective == pytest.approx(alone.objective, rel=1e-8)


def test_every_accuracy_of_a_split_is_that_of_naive_code_at_the_chosen_c(classes):
    x, y = classes
    split = np.array(["train"] * 400 + ["test"] * 200)
    found = probe(x, y, train_rows="train", test_rows="test", split=split, strengths=(1e-3, 1e-1, 10.0))
    (c,) = found.settings.strengths
    peer = naive(c, x[:400], y[:400])
    right = peer.predict(x[400:]) == y[400:]
    values = {one.name: one.value for one in found.metrics()}
    assert values["accuracy"] == pytest.approx(right.mean(), abs=1e-12)
    balanced = np.mean([right[y[400:] == one].mean() for one in np.unique(y[400:])])
    assert values["balanced_accuracy"] == pytest.approx(balanced, abs=1e-12)
    top5 = np.argsort(-peer.decision_function(x[400:]), axis=1)[:, :5]
    assert values["accuracy/top5"] == np.mean(
        [one in peer.classes_[top] for one, top in zip(y[400:], top5, strict=True)]
    )


def test_folds_are_those_of_scikit_learn():
    y = np.random.default_rng(1).integers(0, 7, 103)
    cut = protocol.fold_of_each(y)
    for fold, (_, tested) in enumerate(StratifiedKFold(5).split(y[:, None], y)):
        assert np.flatnonzero(cut == fold).tolist() == tested.tolist()


def test_a_held_out_part_never_takes_the_last_row_of_a_class():
    y = np.array([0] * 50 + [1] * 2 + [2] + [3] * 47)
    held = protocol.holdout(y)
    assert 9 <= held.sum() <= 11
    assert set(y[~held]) == {0, 1, 2, 3}
    assert protocol.holdout(np.arange(40)).sum() == 0


def test_the_closed_forms_solve_the_ridge_that_scikit_learn_solves(classes):
    x, y = classes
    columns = np.unique(y, return_inverse=True)[1]
    sums = closed_form.compute_moments(x, columns, 6)
    weights, bias = closed_form.solve(sums, "ridge", 0.01)
    alpha = 0.01 * np.trace(sums.scatter) / 40
    peer = Ridge(alpha=alpha).fit(x, np.eye(6)[columns])
    np.testing.assert_allclose(x @ weights + bias, peer.predict(x), atol=1e-8)
    (scores,) = closed_form.score_path(sums, "ridge", (0.01,), x)
    np.testing.assert_allclose(scores, peer.predict(x), atol=1e-8)
    half = closed_form.merge_moments(
        closed_form.compute_moments(x[:250], columns[:250], 6), closed_form.compute_moments(x[250:], columns[250:], 6)
    )
    np.testing.assert_allclose(half.scatter, sums.scatter, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(half.sums, sums.sums, atol=1e-8)


def test_classes_without_training_rows_count_as_wrong_and_are_told(classes):
    x, y = classes
    train = np.flatnonzero((np.arange(600) < 400) & (y != 4))
    found = probe(x, y, train_rows=train, test_rows=np.arange(400, 600), strengths=(1.0,))
    assert not found.correct[y[400:] == 4].any()
    assert any("1 classes without a training row" in note for note in found.notes())


def test_features_that_are_not_finite_are_refused_naming_the_row(classes):
    x, y = classes
    broken = x.copy()
    broken[17, 5] = np.nan
    with pytest.raises(DataError, match="row 17: column 5 is nan"):
        probe(broken, y)


def test_one_class_overlapping_splits_and_odd_strengths_are_refused(classes):
    x, y = classes
    with pytest.raises(UsageError, match="two classes"):
        probe(x, np.zeros(600, dtype=int))
    with pytest.raises(UsageError, match="in train and in test"):
        probe(x, y, train_rows=np.arange(400), test_rows=np.arange(399, 600))
    with pytest.raises(UsageError, match="C = -1"):
        probe(x, y, strengths=(-1.0,))


@pytest.mark.parametrize("method", ["logistic", "ridge", "lda"])
def test_one_class_is_refused_by_every_method(classes, method):
    with pytest.raises(UsageError, match="a classifier needs two classes"):
        probe(classes[0], np.zeros(600, dtype=int), method=method, strengths=(0.5,))


def test_rows_without_any_label_negative_seeds_and_endless_penalties_are_refused(classes):
    x, y = classes
    with pytest.raises(UsageError, match="none of 480 training rows has a label"):
        probe(x, np.zeros((600, 3), dtype=int))
    with pytest.raises(UsageError, match="a seed of -1"):
        probe(x, y, seed=-1)
    with pytest.raises(UsageError, match="a seed of -1"):
        few_shot(x, y, np.arange(400), np.arange(400, 600), ns=(1,), seed=-1)
    with pytest.raises(UsageError, match="positive numbers"):
        probe(x, y, method="ridge", strengths=(np.inf,))


@pytest.mark.parametrize("method", ["logistic", "ridge", "lda"])
def test_features_whose_squares_overflow_are_refused(classes, method):
    x, y = classes
    with pytest.raises(DataError, match="so large that sums of their squares overflow"):
        probe(x * 1e300, y, method=method)


@pytest.mark.parametrize("size", [1e-140, 1e-20, 1e20, 1e140])
def test_the_closed_forms_do_not_depend_on_the_size_of_the_features(classes, size):
    x, y = classes
    for method in ("ridge", "lda"):
        one, other = (probe(x * scale, y, method=method, strengths=(0.01,)) for scale in (1.0, size))
        assert np.array_equal(one.predicted, other.predicted)


@pytest.mark.parametrize("standardise", ["none", "standardise"])
@pytest.mark.parametrize("method", ["ridge", "lda"])
def test_of_constant_features_alone_the_largest_class_is_predicted(method, standardise):
    """1340.0150352924277 is no mean of itself fourteen times, up to rounding."""
    y = np.array([2, 2, 2, 2, 1, 1, 2, 0, 0, 2, 1, 0, 2, 0, 1, 1, 1, 0, 0, 2])
    found = probe(
        np.full((20, 1), 1340.0150352924277),
        y,
        train_rows=range(14),
        test_rows=range(14, 20),
        method=method,
        standardise=standardise,
        strengths=(1.0,),
    )
    assert found.predicted.tolist() == [2] * 6
    assert found.metrics()[0].value == 1 / 6


def test_of_classes_that_are_one_point_each_lda_takes_the_nearest():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((5, 4))
    near = x + 0.05 * rng.standard_normal((5, 4))
    for scale in (1.0, 1e-9):
        points = np.concatenate([x, x, near]) * scale + 7.0 * scale
        found = probe(
            points,
            np.tile(np.arange(5), 3),
            train_rows=range(10),
            test_rows=range(10, 15),
            method="lda",
            strengths=(0.1,),
        )
        assert found.correct.all()


def test_small_values_beside_large_ones_are_not_lost_where_rows_are_few():
    """Eight rows of twelve features: the classes differ in a feature of size 1e-3, and another is of size 1e6."""
    rng = np.random.default_rng(6)
    y = np.arange(8) % 2
    x = np.zeros((16, 12))
    x[:, 0] = 1e6 * rng.standard_normal(16)
    x[:, 1] = 1e-3 * (2 * np.tile(y, 2) - 1)
    found = probe(x, np.tile(y, 2), train_rows=range(8), test_rows=range(8, 16), strengths=(1e9,))
    assert found.correct.all()


def test_a_large_offset_is_no_constant_feature_in_float64():
    y = np.arange(40) % 2
    x = 1e9 + (y + 0.1 * np.random.default_rng(7).standard_normal(40))[:, None]
    found = probe(x, y, train_rows=range(20), test_rows=range(20, 40), standardise="standardise", strengths=(1.0,))
    assert found.head.scaling.scale == pytest.approx(x[:20].std(), rel=1e-6)
    assert found.correct.all()


def test_a_class_that_all_training_rows_have_keeps_no_other_from_its_minimum():
    rng = np.random.default_rng(8)
    x, many = rng.standard_normal((60, 3)), rng.random((60, 4)) < 0.4
    many[:, 1], many[:40, 3] = True, False
    both = [
        probe(x, one, train_rows=range(40), test_rows=range(40, 60), strengths=(100.0,)) for one in (many, many[:, ::2])
    ]
    assert all(one.settings.converged for one in both)
    np.testing.assert_allclose(both[0].head.weights[:, ::2], both[1].head.weights, rtol=1e-5)
    assert not both[0].head.weights[:, 1::2].any()
    assert both[0].predicted[:, 1].all() and not both[0].predicted[:, 3].any()


def test_a_class_that_a_fold_lacks_is_not_among_its_first_five():
    """Eight rows of six classes: two folds train on four classes or five, and no class of one row is ever right."""
    rng = np.random.default_rng(10)
    y = np.array([0, 0, 0, 1, 2, 3, 4, 5])
    found = probe(rng.standard_normal((8, 3)), y, folds=3, strengths=(1.0,))
    alone = found.targets > 0
    assert (found.rank[alone] > found.settings.classes).all()
    top5 = next(m for m in accuracy_metrics(found.rank, found.targets, 6) if m.name == "accuracy/top5")
    assert top5.value <= 3 / 8
    assert any("5 test rows are of 5 classes without a training row" in note for note in found.notes())


def test_several_labels_far_on_their_right_sides_still_reach_the_minimum():
    rng = np.random.default_rng(11)
    x = 1e3 * rng.standard_normal((30, 12))
    many = x[:, :4] > 0
    found = probe(x, many, train_rows=range(20), test_rows=range(20, 30), strengths=(1e3,))
    assert found.settings.converged and found.settings.gap <= 1e-10


def test_of_few_rows_the_penalty_is_the_one_that_exact_fits_choose():
    """Where held-out rows tie, the loss decides, and a fit that stops early has another loss."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 5, 60)
        x = rng.standard_normal((60, 5)) + rng.standard_normal((5, 5))[y]
        grid = (1e-2, 0.1, 1.0, 10.0, 1000.0)
        found = probe(x, y, train_rows=range(40), test_rows=range(40, 60), strengths=grid)
        held = protocol.holdout(y[:40])
        tried = []
        for c in grid:
            peer = LogisticRegression(C=c, tol=1e-10, max_iter=10_000).fit(x[:40][~held], y[:40][~held])
            right = peer.predict_proba(x[:40][held])[np.arange(held.sum()), y[:40][held]]
            tried.append((-peer.score(x[:40][held], y[:40][held]), -np.log(right).mean(), c))
        assert found.settings.strengths == (min(tried)[2],)


def test_the_note_says_why_the_penalty_was_not_chosen():
    x, y = np.random.default_rng(9).standard_normal((12, 4)), np.arange(12) % 3
    found = probe(x, y, train_rows=range(6), test_rows=range(6, 12))
    assert found.settings.selection == "none: no row of train could be held out"
    assert any("or too few rows" in note for note in found.notes())
    (one,) = few_shot(x, y, np.arange(4), np.arange(4, 12), ns=(1,), tries=2)
    assert one.not_chosen == 2 and one.unseen == 0


def test_constant_features_and_one_image_classes_are_taken():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal((8, 3)), np.full((8, 1), 5.0)], axis=1)
    for standardise in ("none", "l2", "standardise"):
        found = probe(
            x, np.arange(8) % 4 * 10, train_rows=np.arange(4), test_rows=np.arange(4, 8), standardise=standardise
        )
        assert np.isfinite(found.head.weights).all()
        assert any("No training row could be held out" in note for note in found.notes())


def test_areas_and_average_precisions_are_scikit_learns_with_ties_too():
    rng = np.random.default_rng(2)
    scores = np.round(rng.standard_normal((80, 5)), 1)
    positive = rng.random((80, 5)) < 0.3
    positive[:, 4] = False
    found = multilabel.score(scores, positive, replicates=20)
    for j in range(4):
        assert found.auroc[j] == pytest.approx(roc_auc_score(positive[:, j], scores[:, j]), abs=1e-12)
        expected = average_precision_score(positive[:, j], scores[:, j])
        assert found.average_precision[j] == pytest.approx(expected, abs=1e-12)
    values = {one.name: one.value for one in found.metrics}
    assert found.skipped == 1
    assert values["auroc"] == pytest.approx(np.mean(found.auroc[:4]))
    assert values["auroc/micro"] == pytest.approx(roc_auc_score(positive.ravel(), scores.ravel()))


def test_several_labels_are_each_a_class_against_the_rest(classes):
    x, y = classes
    many = np.stack([y > 4, y % 2 == 0], axis=1)
    found = probe(x, many, train_rows=np.arange(400), test_rows=np.arange(400, 600), strengths=(0.1,))
    for j in range(2):
        peer = naive(0.1, x[:400], many[:400, j])
        mine = found.head.logits(x[400:])[:, j]
        np.testing.assert_allclose(mine, peer.decision_function(x[400:]), atol=2e-3)


def test_a_label_that_train_lacks_is_told(classes):
    x, y = classes
    several = np.stack([y > 10, np.arange(600) >= 590], axis=1)
    found = probe(x, several, train_rows=np.arange(500), test_rows=np.arange(500, 600), strengths=[1.0])
    assert any("1 classes have positive test rows but no training row with" in note for note in found.notes())


@pytest.mark.parametrize("lacks", ["rows with it", "rows without it"])
def test_a_label_that_cannot_be_learnt_is_skipped_in_every_figure_and_lowers_the_coverage(classes, lacks):
    x, y = classes
    last = np.arange(600) >= 590 if lacks == "rows with it" else (np.arange(600) < 500) | (np.arange(600) % 2 == 0)
    parts = {"train_rows": np.arange(500), "test_rows": np.arange(500, 600), "strengths": [1.0]}
    two = np.stack([y > 10, y % 2 == 0], axis=1)
    alone, found = probe(x, two, **parts), probe(x, np.column_stack([two, last]), **parts)
    for mine, theirs in zip(found.metrics(), alone.metrics(), strict=True):
        assert mine.value == pytest.approx(theirs.value, abs=1e-9)
        assert (mine.coverage, theirs.coverage) == (pytest.approx(2 / 3), 1.0)
    assert list(found.several.learnt) == [True, True, False]
    assert np.isnan(found.several.auroc[2]) and found.several.positives[2] > 0
    assert found.several.skipped == 0


def test_labels_of_which_none_can_be_learnt_have_no_figure():
    rng = np.random.default_rng(0)
    scores, positive = rng.standard_normal((20, 2)), rng.random((20, 2)) < 0.5
    found = multilabel.score(scores, positive, learnt=np.zeros(2, dtype=bool))
    assert [(one.value, one.ci95, one.coverage) for one in found.metrics] == [(None, None, 0.0)] * 4


def test_the_command_saves_a_head_that_gives_the_same_answers(tmp_path, capsys):
    x, y = load_digits(return_X_y=True)
    x, y = x[:700], y[:700]
    split = np.array(["train"] * 500 + ["test"] * 200)
    np.savez(tmp_path / "digits.npz", features=x.astype(np.float32), labels=y, split=split)
    store = tmp_path / "digits"
    assert main(["features", "import", str(tmp_path / "digits.npz"), "--out", str(store)]) in (0, None)
    capsys.readouterr()
    command = ["features", "probe", str(store), "--c", "0.001,0.1", "--save", "--json"]
    assert main(command) in (0, None)
    told = json.loads(capsys.readouterr().out)
    values = {one["name"]: one["value"] for one in told["metrics"]}
    head = load_head(store)
    assert values["accuracy"] == (head.predict(x[500:].astype(np.float32)) == y[500:]).mean()
    peer = naive(told["settings"]["strengths"][0], x[:500], y[:500])
    assert values["accuracy"] == pytest.approx(peer.score(x[500:], y[500:]), abs=1e-9)
    torch = pytest.importorskip("torch")
    mine = head.module(dtype=torch.float64)(torch.tensor(x[500:])).numpy()
    np.testing.assert_allclose(mine, head.logits(x[500:]), atol=1e-4)


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
