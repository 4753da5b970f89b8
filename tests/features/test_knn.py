"""k-NN votes and FG-BMK's class-rank figure against naive code and numbers worked out by hand."""

import math
from collections import Counter

import naive_retrieval as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import DataError, UsageError
from snellen.features.knn import Shots, knn
from snellen.features.ranking import ranks
from snellen.features.ranking.fgbmk_class_rank import class_rank

SPLIT = ["train"] * 4 + ["test"]


def voted(x, y, train, query, k, temperature, ties):
    """Rank of the true class, from a sorted list of neighbours; None where no training row has the class."""
    score = naive.similarities(x[[query]], x[train], "cosine")[0]
    first = np.lexsort((np.arange(len(train)), -score))[:k]
    votes = dict.fromkeys(sorted(set(y[train].tolist())), 0.0)
    for i in first:
        votes[int(y[train][i])] += 1.0 if temperature is None else float(np.exp(score[i] / temperature))
    true = int(y[query])
    if true not in votes:
        return None
    # Without a tolerance: at T = 0.07 a vote for a row that points away is 4e-13 of one that agrees, and counts.
    equal = {c: v == votes[true] for c, v in votes.items()}
    ahead = sum(v > votes[true] and not equal[c] for c, v in votes.items())
    level = sorted(c for c in votes if equal[c])
    return 1 + ahead + {"pessimistic": len(level) - 1, "optimistic": 0, "index": level.index(true)}[ties]


@pytest.mark.parametrize("vote", ["weighted", "majority"])
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 8),
    st.integers(2, 5),
    st.booleans(),
    st.sampled_from(["pessimistic", "optimistic", "index"]),
    st.integers(0, 2**32),
)
def test_every_vote_equals_naive_float64_code_under_the_declared_tie_rule(vote, n, q, d, whole, ties, seed):
    rng = np.random.default_rng(seed)
    x = rng.integers(-2, 3, (n + q, d)) if whole else rng.standard_normal((n + q, d)).astype(np.float32)
    y = rng.choice([-5, 2, 30, 31, 900, 901, 7000], n + q)
    train, queries = np.arange(n), np.arange(n, n + q)
    got = knn(
        x, y, train=train, queries=queries, ks=(1, 3, 20), temperatures=(0.07, 1.0), vote=vote, ties=ties, threads=1
    )
    for suffix, temperature in (("", 0.07), ("/T=1", 1.0)) if vote == "weighted" else (("", None),):
        for k in (1, 3, 20):
            ranks = [voted(x, y, train, i, k, temperature, ties) for i in queries]
            for top, name in ((1, f"knn@{k}"), (5, f"knn@{k}/top5")):
                want = [float(rank is not None and rank <= top) for rank in ranks]
                assert got.values[name + suffix].tolist() == want


def test_neighbours_found_in_float32_are_those_of_float64(monkeypatch):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1200, 24)).astype(np.float32)
    x[600:640] = x[5]
    y = rng.integers(0, 12, 1200)
    rows = {"train": np.arange(800), "queries": np.arange(800, 1200), "ks": (1, 5, 50)}
    slow = {metric: knn(x, y, similarity=metric, **rows) for metric in ("cosine", "l2")}
    monkeypatch.setattr(ranks, "SMALL", 0)
    for metric, want in slow.items():
        for name, values in knn(x, y, similarity=metric, **rows).values.items():
            np.testing.assert_array_equal(values, want.values[name])


def test_a_close_neighbour_outvotes_two_far_ones_unless_all_count_the_same():
    x = np.array([[1.0, 0.05], [0.5, 0.8], [0.5, 0.9], [-1.0, 0.0], [1.0, 0.0]])
    y = [1, 2, 2, 3, 1]
    assert knn(x, y, split=SPLIT, ks=(3,)).metrics()[0].value == 1.0
    assert knn(x, y, split=SPLIT, ks=(3,), vote="majority").metrics()[0].value == 0.0
    # A high temperature makes the weighted vote a majority.
    assert knn(x, y, split=SPLIT, ks=(3,), temperatures=(0.07, 100.0)).values["knn@3/T=100"][0] == 0.0


def test_duplicates_with_other_labels_tie_and_the_rule_decides():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [2.0, 0.0]])
    y = [8, 3, 5, 5, 8]
    got = {
        ties: knn(x, y, split=SPLIT, ks=(2,), ties=ties).values["knn@2"][0]
        for ties in ("pessimistic", "optimistic", "index")
    }
    assert got == {"pessimistic": 0.0, "optimistic": 1.0, "index": 0.0}
    # Of equal neighbours the earlier row is the nearest.
    assert knn(x, y, split=SPLIT, ks=(1,)).values["knn@1"][0] == 1.0


def test_a_far_neighbour_breaks_the_tie_of_two_near_ones_however_little_it_weighs():
    x = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]])
    split = ["train", "train", "train", "test"]
    # At T = 0.06 a row that points away weighs 3e-15 of one that agrees.
    for far, ties, right in ((8, "pessimistic", 1.0), (3, "optimistic", 0.0)):
        got = knn(x, [8, 3, far, 8], split=split, ks=(3,), temperatures=(0.06,), ties=ties)
        assert got.values["knn@3"][0] == right


def test_more_neighbours_than_rows_and_classes_without_rows_are_told():
    x = np.random.default_rng(0).standard_normal((6, 3))
    got = knn(x, [1, 1, 2, 2, 1, 77], train=[0, 1, 2, 3], queries=[4, 5], ks=(3, 20))
    assert got.used == {3: 3, 20: 4}
    assert got.unseen == 1
    assert got.values["knn@20"][1] == 0.0
    assert [note.split()[0] for note in got.notes()] == ["knn@20:", "1"]


def test_few_shot_draws_the_same_rows_for_a_seed_and_limits_k():
    rng = np.random.default_rng(9)
    y = np.repeat([0, 4, 9], 40)
    x = rng.standard_normal((120, 5)) + y[:, None] * 0.2
    rows = {"train": np.arange(0, 120, 2), "queries": np.arange(1, 120, 2)}
    runs = [knn(x, y, shots=Shots(3, seeds), ks=(1, 2, 10), **rows) for seeds in ((0,), (1,), (0, 1))]
    assert [sorted(run.used) for run in runs] == [[1, 2, 3]] * 3
    assert runs[0].train == 9
    np.testing.assert_allclose(runs[2].values["knn@3"], (runs[0].values["knn@3"] + runs[1].values["knn@3"]) / 2)
    assert (runs[0].values["knn@3"] != runs[1].values["knn@3"]).any()
    # A class with fewer rows gives all that it has.
    assert (
        knn(x, y, shots=Shots(1000), ks=(1,), **rows).values["knn@1"].tolist()
        == knn(x, y, ks=(1,), **rows).values["knn@1"].tolist()
    )


def test_zero_rows_an_empty_query_set_and_one_class_are_taken():
    x = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    assert knn(x, [0, 0, 0], train=[0, 1], queries=[2], ks=(1,)).values["knn@1"][0] == 1.0
    # Similarity 0 with both: the earlier row, which is the zero row.
    assert knn(x, [5, 6, 5], train=[0, 1], queries=[2], ks=(1,)).values["knn@1"][0] == 1.0
    empty = knn(x, [0, 0, 0], train=[0, 1], queries=[], ks=(1,))
    assert [(m.value, m.n) for m in empty.metrics()] == [(None, 0)] * 2


def test_a_temperature_given_twice_counts_once_and_close_ones_have_names_of_their_own():
    x, y = np.random.default_rng(0).standard_normal((5, 2)), [0, 1, 0, 1, 0]
    found = knn(x, y, split=SPLIT, ks=(1,), temperatures=(0.07, 0.1, 0.1, 0.07, 0.1000000001))
    assert set(found.values) == {f"knn@1{top}{t}" for top in ("", "/top5") for t in ("", "/T=0.1", "/T=0.1000000001")}
    assert all(values.max() <= 1.0 for values in found.values.values())


def test_rows_without_splits_and_negative_seeds_are_told():
    x, y = np.eye(3), [0, 1, 0]
    with pytest.raises(UsageError, match="the rows have no splits"):
        knn(x, y, split=[""] * 3)
    with pytest.raises(UsageError, match="a seed of -1"):
        knn(x, y, train=[0, 1], queries=[2], shots=Shots(1, (-1,)))


def test_what_a_vote_cannot_take_is_refused():
    x = np.eye(4)
    with pytest.raises(UsageError, match="several labels"):
        knn(x, [{1}, {1, 2}, {2}, {1}], train=[0, 1], queries=[2, 3])
    with pytest.raises(UsageError, match="trained on and asked"):
        knn(x, [0, 0, 1, 1], train=[0, 1, 2], queries=[2, 3])
    with pytest.raises(UsageError, match="no training rows"):
        knn(x, [0, 0, 1, 1], train=[], queries=[2, 3])
    for wrong in (
        {"ks": ()},
        {"ks": (0,)},
        {"temperatures": (0.0,)},
        {"vote": "soft"},
        {"ties": "x"},
        {"shots": Shots(0)},
    ):
        with pytest.raises(UsageError):
            knn(x, [0, 0, 1, 1], train=[0, 1], queries=[2, 3], **wrong)
    x[2, 2] = np.nan
    with pytest.raises(DataError, match="row 2: column 2"):
        knn(x, [0, 0, 1, 1], train=[0, 1], queries=[2, 3])


def test_the_legacy_figure_ranks_classes_and_not_pictures():
    # Neighbours of the query at 0 in order: class 1, 1, 1, 2; its own class is 2: second of the classes found.
    x = np.array([[0.1], [0.2], [0.3], [0.4], [50.0], [0.0]])
    got = class_rank(x, [1, 1, 1, 2, 3, 2], gallery=range(5), queries=[5])
    assert got.values["fgbmk_legacy_map"][0] == 0.5
    assert [(m.name, m.value) for m in got.metrics()][1:] == [
        ("fgbmk_legacy_recall@1", 0.0),
        ("fgbmk_legacy_recall@10", 1.0),
    ]


def test_classes_outside_the_ten_nearest_tie_in_the_legacy_figure():
    x = np.array([[0.1 * i] for i in range(1, 11)] + [[20.0], [30.0], [40.0], [0.0]])
    y = [1] * 10 + [2, 3, 4, 3]
    got = {
        t: class_rank(x, y, gallery=range(13), queries=[13], ties=t).values["fgbmk_legacy_map"][0]
        for t in ("pessimistic", "optimistic", "index")
    }
    assert got == {"pessimistic": 1 / 4, "optimistic": 1 / 2, "index": 1 / 3}


def test_the_legacy_figure_takes_rows_with_several_classes():
    # Class list by nearest image: 7 (row 0), 8 (row 1), 9 (row 2); the query has 7 and 9: AP (1/1 + 2/3) / 2.
    x = np.array([[1.0], [2.0], [3.0], [0.0]])
    got = class_rank(x, [{7}, {8}, {9}, {7, 9}], gallery=[0, 1, 2], queries=[3])
    assert got.values["fgbmk_legacy_map"][0] == pytest.approx(5 / 6)
    with pytest.raises(UsageError, match="no class"):
        class_rank(x, [{7}, {8}, {9}, set()], gallery=[0, 1, 2], queries=[3])
    with pytest.raises(UsageError, match="both"):
        class_rank(x, [7, 8, 9, 9], gallery=[0, 1], queries=[1])


def naive_class_rank(x, labels, gallery, queries, ties):
    """FG-BMK's class ranks as the sheet of facts words them, one query and one class at a time.

    Returns the mean AP over class lists, and recall@1 and recall@10, each a mean over classes with its count.
    """
    every = sorted(set().union(*(labels[i] for i in [*gallery, *queries])))
    average, hits, total, first_for_others = [], {1: Counter(), 10: Counter()}, Counter(), set()
    for query in queries:
        far = {i: sum((a - b) ** 2 for a, b in zip(x[query], x[i], strict=True)) for i in gallery}
        near = [i for _, i in sorted((far[i], i) for i in gallery)][:10]
        score = {c: min((far[i] for i in near if c in labels[i]), default=math.inf) for c in every}
        mine = labels[query]
        last = {c: {"pessimistic": c in mine, "optimistic": c not in mine, "index": 0}[ties] for c in every}
        order = [c for *_, c in sorted((score[c], last[c], c) for c in every)]
        places = sorted(order.index(c) + 1 for c in mine)
        average.append(sum((i + 1) / place for i, place in enumerate(places)) / len(places))
        total.update(mine)
        for depth, counter in hits.items():
            counter.update(c for c in order[:depth] if c in mine)
        first_for_others.add(order[0])
    counted = {1: set(total) | first_for_others, 10: set(total)}
    recalls = [(sum(hits[k][c] / total[c] for c in total) / len(counted[k]), len(counted[k])) for k in (1, 10)]
    return sum(average) / len(average), recalls


@pytest.mark.parametrize("ties", ["pessimistic", "optimistic", "index"])
def test_the_legacy_figure_is_that_of_a_naive_count_over_sets_full_of_ties(ties):
    # Whole numbers, so that equal distances are equal in both; few values and copies of rows, so that there are many.
    for seed in range(150):
        draw = np.random.default_rng(seed)
        count, width, classes = int(draw.integers(3, 40)), int(draw.integers(1, 4)), int(draw.integers(1, 9))
        x = draw.integers(0, int(draw.integers(2, 7)), (count, width)).astype(float)
        x[draw.integers(0, count, count // 3)] = x[0]
        several = seed % 3 == 0
        labels = [frozenset(draw.integers(0, classes, int(draw.integers(1, 4)) if several else 1).tolist()) for _ in x]
        cut = int(draw.integers(1, count))
        gallery, queries = list(range(cut)), list(range(cut, count))
        known = [set(each) for each in labels] if several else [min(each) for each in labels]
        got = class_rank(x, known, gallery=gallery, queries=queries, ties=ties)
        average, recalls = naive_class_rank(x.tolist(), labels, gallery, queries, ties)
        assert got.values["fgbmk_legacy_map"].mean() == pytest.approx(average, abs=1e-12), (seed, ties)
        for (value, classes_counted), name in zip(recalls, ("1", "10"), strict=True):
            assert got.recalls[f"fgbmk_legacy_recall@{name}"] == (pytest.approx(value, abs=1e-12), classes_counted)


def test_images_equally_far_give_their_classes_one_score_in_the_legacy_figure():
    x = np.array([[1.0], [-1.0], [5.0], [0.0]])
    got = {
        ties: class_rank(x, [2, 1, 3, 2], gallery=range(3), queries=[3], ties=ties).values["fgbmk_legacy_map"][0]
        for ties in ("pessimistic", "optimistic", "index")
    }
    assert got == {"pessimistic": 1 / 2, "optimistic": 1.0, "index": 1 / 2}


def test_a_class_that_only_ranks_first_for_others_counts_in_the_legacy_recall_at_1():
    # Queries of classes 1 and 2; the second is nearest to an image of class 3, which no query has.
    x = np.array([[0.0], [10.0], [20.0], [0.1], [10.1]])
    got = class_rank(x, [1, 3, 2, 1, 2], gallery=range(3), queries=[3, 4])
    assert got.recalls == {"fgbmk_legacy_recall@1": (pytest.approx(1 / 3), 3), "fgbmk_legacy_recall@10": (1.0, 2)}
