"""Retrieval against code that anybody would write for ten rows (naive_retrieval.py), and against numbers worked out by hand."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import naive_retrieval as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.knn import knn
from snellen.features.ranking import ranks
from snellen.features.ranking import ranks as radix
from snellen.features.ranking.similarity import exact_block, float32_error, prepare_space, single_threaded
from snellen.features.retrieval import retrieval
from snellen.features.store import import_file

pytestmark = pytest.mark.usefixtures("printed_as_schema")

TIES = ("pessimistic", "optimistic", "index")
KS = (1, 3, 10)


@pytest.fixture(params=["float64", "float32", "levels"])
def path(request, monkeypatch):
    """All ways to a ranking, at sizes that would take the first: all in float64, and float32 with close calls, these
    sorted as floats where there are many relevant items, or as levels always."""
    if request.param != "float64":
        monkeypatch.setattr(ranks, "SMALL", 0)
        monkeypatch.setattr(ranks, "_CLOSE_SHARE", 1.0)
    if request.param == "levels":
        monkeypatch.setattr(ranks, "_CLOSE_SHARE", 1e9)
        monkeypatch.setattr(ranks, "_COARSE_SHARE", 1e9)
        monkeypatch.setattr(radix, "_LIMITS", 4.0)
        monkeypatch.setattr(radix, "_ROWS", 3)


def expected(features: Any, labels: Any, queries: Any, gallery: Any, metric: str, ties: str) -> dict[str, np.ndarray]:
    rows = []
    for query in queries:
        hit = naive.ranking(features, labels, query, gallery, metric, ties)
        rows.append(naive.measures(hit, KS) if hit.any() else None)
    names = next((row.keys() for row in rows if row is not None), [])
    return {name: np.array([np.nan if row is None else row[name] for row in rows]) for name in names}


@st.composite
def problems(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Rows with many equal ones (small integers, zero rows, repeats), parallel ones, or neither; classes with gaps."""
    n, d = draw(st.integers(2, 24)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from(["integers", "parallel", "drawn"]))
    if kind == "parallel":
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        directions = rng.standard_normal((draw(st.integers(1, 3)), d)).astype(np.float32)
        x = directions[rng.integers(0, len(directions), n)] * rng.lognormal(0.0, 3.0, (n, 1))  # float64
    elif kind == "integers":
        x = draw(hnp.arrays(np.int64, (n, d), elements=st.integers(-2, 2)))
        x = x.astype(draw(st.sampled_from([np.int8, np.int64, np.float16, np.float32, np.float64])))
    else:
        x = np.random.default_rng(draw(st.integers(0, 2**32))).standard_normal((n, d)).astype(np.float32)
        x[draw(st.integers(0, n - 1))] = x[draw(st.integers(0, n - 1))]
    y = draw(hnp.arrays(np.int64, n, elements=st.sampled_from([-3, 0, 7, 8, 10**10])))
    return x, y


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_every_measure_equals_naive_float64_code_under_the_declared_tie_rule(path, metric, ties):
    @settings(max_examples=60, deadline=None)
    @given(problems())
    def holds(problem):
        x, y = problem
        rows = range(len(x))
        want = expected(x, y, rows, rows, metric, ties)
        got = retrieval(x, y, similarity=metric, ties=ties, ks=KS, denominator="R", threads=2)
        for name in ("map", "map_at_r", "r_precision", *(f"{m}@{k}" for m in ("recall", "precision") for k in KS)):
            np.testing.assert_allclose(got.values[name], want.get(name, np.full(len(x), np.nan)), atol=1e-9)
        for k in KS if want else ():
            np.testing.assert_allclose(got.values[f"map@{k}"], want[f"map@{k} sum"] / got.relevant, atol=1e-9)

    holds()


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(0, 2**16), st.sampled_from(TIES))
def test_queries_and_gallery_that_overlap_leave_each_query_out_by_its_index(problem, bits, ties):
    x, y = problem
    rows = np.arange(len(x))
    queries, gallery = rows[(bits >> (rows % 16)) & 1 == 1], rows[(bits >> (rows % 7)) & 1 == 0]
    want = expected(x, y, queries, gallery, "cosine", ties)
    got = retrieval(x, y, queries=queries, gallery=gallery, ties=ties, ap="trapezoid")
    np.testing.assert_allclose(got.values["map"], want.get("trapezoid", np.full(len(queries), np.nan)), atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(problems(), st.data())
def test_rows_with_several_labels_find_rows_that_share_one(problem, data):
    x, _ = problem
    sets = [frozenset(data.draw(st.sets(st.sampled_from([2, 5, 40]), max_size=2))) for _ in x]
    want = expected(x, sets, range(len(x)), range(len(x)), "l2", "pessimistic")
    got = retrieval(x, sets, similarity="l2")
    matrix = np.array([[one in row for one in (2, 5, 40)] for row in sets])
    np.testing.assert_allclose(got.values["map"], want.get("map", np.full(len(x), np.nan)), atol=1e-9)
    np.testing.assert_array_equal(got.values["map"], retrieval(x, matrix, similarity="l2").values["map"])
    assert got.settings.relevant == "at least one label in common"


@pytest.mark.parametrize(("metric", "offset"), [("cosine", 0.0), ("cosine", 3.0), ("l2", 0.0), ("l2", 50.0)])
def test_1500_rows_in_float32_blocks_rank_exactly_as_in_float64(metric, offset, monkeypatch):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 40, 1500)
    x = (rng.standard_normal((1500, 48)) + 0.5 * rng.standard_normal((40, 48))[y] + offset).astype(np.float32)
    x[700:720] = x[100:120]
    x[720:740] = x[100:120] * np.float32(1 + 2e-7)
    slow = retrieval(x, y, similarity=metric)
    monkeypatch.setattr(ranks, "SMALL", 0)
    monkeypatch.setattr(ranks, "_STRIP_BYTES", 4 * 1500 * 200)
    for kept, rows, coarse in ((0, 16, 0.25), (4 * 200 * 200 * 6, 7, 0.25), (10**9, 16, 0.25), (10**9, 16, 0.0)):
        monkeypatch.setattr(ranks, "_KEPT_BYTES", kept)
        monkeypatch.setattr(radix, "_ROWS", rows)
        monkeypatch.setattr(ranks, "_COARSE_SHARE", coarse)
        fast = retrieval(x, y, similarity=metric, threads=2)
        for name, values in slow.values.items():
            np.testing.assert_allclose(fast.values[name], values, atol=1e-12, err_msg=name)


def test_the_float32_bound_holds_for_every_pair_with_room_to_spare():
    rng = np.random.default_rng(8)
    for x in (rng.standard_normal((900, 300)), rng.exponential(1.0, (900, 300)), rng.standard_normal((900, 300)) + 5.0):
        rows = np.arange(900)
        with ThreadPoolExecutor(1) as pool:
            space = prepare_space(x.astype(np.float32), rows, "cosine", pool)
        low = space.low(0, 900) @ space.low(0, 900).T + (space.bias - space.bias.mean()).astype(np.float32)
        true = exact_block(space, space, 0, 900)
        # What depends on the query alone is no part of the ranking score; the first column stands for it.
        wrong = (low - true) - (low - true).mean(axis=1, keepdims=True)
        bound = float32_error(space, space).of(np.repeat(space.length, 900), low.reshape(-1).astype(np.float64))
        assert (np.abs(wrong).reshape(-1) < bound).all()


def test_a_near_tie_that_float32_cannot_see_is_ranked_by_float64(monkeypatch):
    monkeypatch.setattr(ranks, "SMALL", 0)
    monkeypatch.setattr(ranks, "_CLOSE_SHARE", 1.0)
    angles = np.array([0.0, 0.5, 0.5 + 3e-9, 0.5 - 3e-9])
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert retrieval(x, [0, 0, 1, 1], queries=[0]).values["map"][0] == 0.5
    assert retrieval(x, [0, 1, 0, 1], queries=[0]).values["map"][0] == pytest.approx(1 / 3)
    assert retrieval(x, [0, 1, 1, 0], queries=[0]).values["map"][0] == 1.0


def test_duplicates_of_the_query_are_neighbours_and_only_the_query_itself_is_left_out():
    x = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [5.0, 0.0]])
    got = {ties: retrieval(x, [0, 0, 1, 1], ties=ties).values["map"] for ties in TIES}
    # Query 0: rows 1 (relevant) and 2 (not) are both equal to it.
    assert [got[ties][0] for ties in TIES] == [0.5, 1.0, 1.0]
    assert [got[ties][1] for ties in TIES] == [0.5, 1.0, 1.0]
    assert got["pessimistic"][2] == pytest.approx(1 / 3)


def test_singletons_are_skipped_and_counted_and_their_classes_too():
    x = np.eye(5) + 0.1
    got = retrieval(x, [4, 4, 9, 11, 11])
    assert (got.skipped, got.skipped_classes) == (1, 1)
    assert np.isnan(got.values["map"][2])
    metric = got.metrics()[0]
    assert (metric.name, metric.n, metric.coverage) == ("map", 4, 0.8)
    assert "1 of 5 queries" in got.notes()[0]


def test_classes_that_the_gallery_lacks_are_skipped():
    x = np.random.default_rng(0).standard_normal((6, 3))
    split = ["train", "train", "train", "test", "test", "test"]
    got = retrieval(x, [1, 1, 2, 1, 2, 77], queries="test", gallery="train", split=split)
    assert got.relevant.tolist() == [2, 1, 0]
    assert (got.skipped, got.settings.protocol, got.gallery) == (1, "query/gallery", 3)


def test_an_empty_query_set_has_no_values_and_no_error():
    got = retrieval(np.eye(3), [0, 0, 1], queries=[])
    assert [(m.value, m.n) for m in got.metrics()] == [(None, 0)] * len(got.values)


def test_one_class_alone_is_always_found():
    got = retrieval(np.random.default_rng(1).standard_normal((7, 2)), [3] * 7)
    assert all(m.value == 1.0 for m in got.metrics() if m.name in ("map", "map_at_r", "r_precision", "recall@1"))


def test_zero_rows_have_similarity_zero_with_everything_under_cosine():
    x = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.1], [0.9, 0.1]])
    assert retrieval(x, [0, 0, 1, 1], queries=[0], ties="index").values["map"][0] == 0.5
    assert retrieval(x, [1, 0, 0, 1], queries=[1], ties="optimistic").values["map"][0] == 1.0
    assert retrieval(x, [1, 0, 0, 1], queries=[1], ties="pessimistic").values["map"][0] == pytest.approx(1 / 3)


def test_rectangle_and_trapezoid_differ_and_denominators_are_what_their_names_say():
    # One query; relevant items come at ranks 2 and 4 of five.
    x = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    y = [0, 1, 0, 1, 0, 1]
    ask: dict[str, Any] = {"queries": [0], "similarity": "l2", "ks": (3,)}
    assert retrieval(x, y, **ask).values["map"][0] == (1 / 2 + 2 / 4) / 2
    assert retrieval(x, y, ap="trapezoid", **ask).values["map"][0] == (0 + 1 / 2 + 1 / 3 + 2 / 4) / 4
    by = {"R": 2, "min(R,k)": 2, "retrieved": 3, "hits": 1}
    for name, divisor in by.items():
        got = retrieval(x, y, denominator=name, **ask)
        assert got.values["map@3"][0] == 0.5 / divisor
        assert got.settings.map_k_denominator == name
        assert ("Do not report it alone" in " ".join(got.notes())) == (name == "hits")


def test_what_is_retrieved_is_never_more_than_the_gallery_without_the_query():
    """Three rows of one class: each has two others, both relevant, so that AP@10 over what was retrieved is 1."""
    x = np.array([[0.0], [1.0], [3.0]])
    alone = retrieval(x, [0, 0, 0], denominator="retrieved", ks=(10,))
    np.testing.assert_array_equal(alone.values["map@10"], 1.0)
    np.testing.assert_allclose(alone.chance["map@10"], 1.0)
    outside = retrieval(x, [0, 0, 0], queries=[0, 1], gallery=[1, 2], denominator="retrieved", ks=(10,))
    np.testing.assert_array_equal(outside.values["map@10"], 1.0)
    np.testing.assert_allclose(outside.chance["map@10"], 1.0)


def test_ap_over_hits_can_fall_when_a_ranking_gets_better():
    """One hit at rank 1 of three has AP 1 over hits; a second at rank 3 makes it (1 + 2/3) / 2."""
    x = np.array([[0.0], [1.0], [2.0], [3.0], [9.0]])
    ask: dict[str, Any] = {"queries": [0], "similarity": "l2", "ks": (3,), "denominator": "hits"}
    assert retrieval(x, [0, 0, 1, 1, 0], **ask).values["map@3"][0] == 1.0
    assert retrieval(x, [0, 0, 1, 0, 1], **ask).values["map@3"][0] == pytest.approx(5 / 6)


def test_chance_is_what_random_orders_give():
    rng = np.random.default_rng(3)
    y = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    drawn = [rng.standard_normal((9, 4)) for _ in range(1500)]
    for ap in ("step", "trapezoid"):
        runs = [retrieval(x, y, similarity="l2", ks=(1, 4), ap=ap) for x in drawn]
        assert runs[0].chance.keys() == runs[0].values.keys()
        for name, chance in runs[0].chance.items():
            seen = np.mean([run.values[name].mean() for run in runs])
            assert seen == pytest.approx(chance.mean(), abs=0.02), name


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_row(bad):
    x = np.ones((9, 3), dtype=np.float32)
    x[6, 1] = bad
    with pytest.raises(DataError, match="row 6: column 1"):
        retrieval(x, np.zeros(9, dtype=int))
    with pytest.raises(DataError, match="row 6"):
        retrieval(x, np.zeros(9, dtype=int), queries=[6, 1], gallery=[0, 2, 3])


def test_settings_that_do_not_exist_are_refused():
    x, y = np.eye(3), [0, 0, 1]
    for wrong in (
        {"ties": "random"},
        {"similarity": "dot"},
        {"ap": "interpolated"},
        {"denominator": "k"},
        {"ks": (0,)},
        {"queries": "test"},
        {"queries": [5]},
        {"gallery": [0, 0]},
    ):
        with pytest.raises(UsageError):
            retrieval(x, y, **wrong)
    with pytest.raises(DataError, match="2 labels for 3 rows"):
        retrieval(x, [0, 0])
    with pytest.raises(DataError, match="real numbers"):
        retrieval(np.array(["a", "b"]), [0, 0])


def test_a_memory_map_gives_what_an_array_gives(tmp_path):
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((300, 16)).astype(np.float16), rng.integers(0, 9, 300)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(retrieval(mapped, y).values["map"], retrieval(x.astype(float), y).values["map"])


def test_intervals_by_class_are_wider_than_by_query_where_classes_differ():
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(8), 20)
    x = rng.standard_normal((160, 6)) + (y[:, None] % 2) * 6.0 * rng.standard_normal((8, 6))[y]
    got = retrieval(x, y)
    by_class, by_query = got.metrics("class")[0], got.metrics("query")[0]
    assert by_class.value == by_query.value
    assert by_class.ci95 and by_query.ci95
    assert by_class.ci95[1] - by_class.ci95[0] > by_query.ci95[1] - by_query.ci95[0]


def test_the_number_of_blas_threads_is_put_back():
    from snellen.features.ranking.similarity import _switches

    before = [get() for _, get in _switches()]
    with single_threaded() as arranged, single_threaded():
        assert not arranged or all(get() == 1 for _, get in _switches())
    assert [get() for _, get in _switches()] == before


def test_one_row_far_from_all_others_leaves_the_order_of_the_rest_as_it_is():
    rng = np.random.default_rng(3)
    features = rng.standard_normal((40, 6))
    labels = np.arange(40) % 4
    alone = retrieval(features, labels, similarity="l2")
    far = np.vstack([features, np.full((1, 6), 1e9)])
    with_outlier = retrieval(far, np.append(labels, 9), similarity="l2", ties="pessimistic")
    np.testing.assert_allclose(with_outlier.values["map"][:40], alone.values["map"], atol=1e-12)


def test_features_of_any_scale_are_ranked_alike_by_distance():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((30, 5))
    labels = np.arange(30) % 3
    wanted = retrieval(features, labels, similarity="l2").values["map"]
    for scale in (1e-170, 1e140):
        np.testing.assert_allclose(retrieval(features * scale, labels, similarity="l2").values["map"], wanted)


@pytest.mark.parametrize("ties", TIES)
def test_an_equal_row_comes_before_one_that_is_two_millionths_away(path, ties):
    x = np.array([[0.5], [0.5], [0.500002], [-1.0]], dtype=np.float32)
    labels = np.array([0, 7, 0, 7])
    got = retrieval(x, labels, queries=[0], similarity="l2", ties=ties, ks=(1,), denominator="R")
    assert got.values["map"][0] == 0.5, "the row of another class is equal to the query, the one of its class is not"


@pytest.mark.parametrize("ties", TIES)
def test_reciprocal_ranks_and_shares_of_all_relevant_items_are_those_of_naive_code(path, ties):
    @settings(max_examples=30, deadline=None)
    @given(problems())
    def holds(problem):
        x, y = problem
        want = expected(x, y, range(len(x)), range(len(x)), "cosine", ties)
        got = retrieval(x, y, ties=ties, ks=KS, threads=2)
        for name in ("mrr", *(f"r_recall@{k}" for k in KS)):
            np.testing.assert_allclose(got.values[name], want.get(name, np.full(len(x), np.nan)), atol=1e-9)

    holds()


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("several", [False, True])
def test_junk_is_removed_from_the_ranking_whether_relevant_or_not(path, ties, several):
    @settings(max_examples=40, deadline=None)
    @given(problems(), st.data())
    def holds(problem, data):
        x, y = problem
        labels = [frozenset({int(c) % 3, int(c) % 2 + 5}) for c in y] if several else y
        rows = st.integers(0, len(x) - 1)
        junk = data.draw(st.dictionaries(rows, st.lists(rows, max_size=6), max_size=len(x)))
        got = retrieval(x, labels, ties=ties, ks=KS, denominator="R", junk=junk, threads=2)
        for query in range(len(x)):
            hit = naive.ranking(x, labels, query, range(len(x)), "cosine", ties, junk.get(query, ()))
            assert got.relevant[query] == hit.sum()
            want = naive.measures(hit, KS) if hit.any() else {}
            for name in ("map", "map_at_r", "mrr", "recall@3", "precision@3", "r_recall@3"):
                np.testing.assert_allclose(got.values[name][query], want.get(name, np.nan), atol=1e-9)
        assert got.settings.junk == sum(len({i for i in items if i != q}) for q, items in junk.items())

    holds()


def test_junk_of_1500_rows_in_float32_blocks_is_that_of_naive_code(monkeypatch):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 30, 1500)
    x = (rng.standard_normal((1500, 24)) + 0.5 * rng.standard_normal((30, 24))[y]).astype(np.float32)
    junk = {int(q): rng.choice(1500, 300, replace=False).tolist() for q in rng.choice(1500, 900, replace=False)}
    got = retrieval(x, y, junk=junk, threads=2)
    for query in (*list(junk)[:40], *range(40)):
        hit = naive.ranking(x, y, query, range(1500), "cosine", "pessimistic", junk.get(query, ()))
        assert got.values["map"][query] == pytest.approx(naive.measures(hit, (1,))["map"], abs=1e-9)


def test_chance_of_a_reciprocal_rank_is_what_random_orders_give():
    rng = np.random.default_rng(0)
    y = [0] * 3 + [1] * 6 + [2] * 11
    drawn = [retrieval(rng.random((20, 1)), y, similarity="l2", ks=(4,)) for _ in range(400)]
    for name in ("mrr", "r_recall@4"):
        seen = np.mean([run.values[name] for run in drawn], axis=0)
        for part in (slice(0, 3), slice(3, 9), slice(9, 20)):
            # The order by a random number is a random order of what is left.
            assert drawn[0].chance[name][part].mean() == pytest.approx(seen[part].mean(), abs=0.03)


def test_a_mean_over_classes_is_the_mean_of_their_means():
    rng = np.random.default_rng(2)
    y = np.repeat([3, 5, 9, 11], [2, 9, 20, 1])
    got = retrieval(rng.standard_normal((32, 4)), y)
    by_name = {metric.name: metric for metric in got.metrics(average="class")}
    for name, values in got.values.items():
        want = np.mean([values[y == one].mean() for one in (3, 5, 9)])
        assert by_name[f"{name}/class-mean"].value == pytest.approx(want)
    voted = knn(rng.standard_normal((32, 4)), y, train=np.arange(0, 32, 2), queries=np.arange(1, 32, 2), ks=(3,))
    want = np.mean([voted.values["knn@3"][y[1::2] == one].mean() for one in np.unique(y[1::2])])
    assert voted.metrics(average="class")[0].value == pytest.approx(want)
    sets = [{1, 2} if i % 3 else {2, 7} for i in range(30)]
    several = retrieval(rng.standard_normal((30, 4)), sets)
    members = [np.array([one in row for row in sets]) for one in (1, 2, 7)]
    want = np.mean([several.values["map"][inside].mean() for inside in members])
    assert several.metrics(average="class")[0].value == pytest.approx(want)


def saved(folder):
    rng = np.random.default_rng(1)
    np.savez(
        folder / "f.npz",
        features=rng.standard_normal((30, 5)).astype(np.float32),
        labels=np.arange(30) % 4,
        split=np.array(["train", "test"] * 15),
        ids=np.array([f"image, {row}.png" for row in range(30)]),
    )
    return import_file(folder / "f.npz", folder / "store")


def test_the_command_reads_junk_as_json_and_csv(tmp_path, capsys):
    store = saved(tmp_path)
    pairs = {"image, 1.png": ["image, 0.png", "image, 4.png"], "image, 5.png": ["image, 8.png"]}
    (tmp_path / "junk.json").write_text(json.dumps(pairs))
    with (tmp_path / "junk.csv").open("w", newline="") as out:
        csv.writer(out).writerows([query, item] for query, items in pairs.items() for item in items)
    values = []
    (tmp_path / "headed.csv").write_bytes(b"query,item\n" + (tmp_path / "junk.csv").read_bytes())
    for name in ("junk.json", "junk.csv", "headed.csv"):
        assert (
            main(["features", "retrieval", str(store), "--junk", str(tmp_path / name), "--class-mean", "--json"]) == 0
        )
        told = json.loads(capsys.readouterr().out)
        assert told["settings"]["junk"] == 3
        values.append({metric["name"]: metric["value"] for metric in told["metrics"]})
    assert values[0] == values[1] == values[2]
    assert {"mrr", "r_recall@5", "map/class-mean", "recall@1/class-mean"} <= values[0].keys()
    assert main(["features", "knn", str(store), "--k", "3", "--class-mean", "--json"]) == 0
    assert "knn@3/class-mean" in [metric["name"] for metric in json.loads(capsys.readouterr().out)["metrics"]]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("junk.json", "[1, 2]", "another shape"),
        ("junk.json", "{", "no JSON"),
        ("junk.json", '{"nobody": []}', "no query has the id 'nobody'"),
        ("junk.json", '{"image, 1.png": ["image, 1.png"]}', "no id of the gallery"),
        ("junk.csv", "a,b,c\n", "line 1: 3 cells"),
        ("junk.csv", '"a,b\n', "no CSV"),
        ("nothing.json", None, "cannot read"),
    ],
)
def test_a_file_of_junk_that_fits_nothing_is_refused(tmp_path, capsys, name, text, said):
    store = saved(tmp_path)
    if text is not None:
        (tmp_path / name).write_text(text)
    assert main(["features", "retrieval", str(store), "--junk", str(tmp_path / name)]) == DataError.exit_code
    told = capsys.readouterr().err
    assert said in told and name in told


def test_junk_of_rows_that_do_not_query_is_refused():
    x = np.eye(4)
    with pytest.raises(UsageError, match="row 9 of 4"):
        retrieval(x, [0, 0, 1, 1], junk={9: [1]})
    with pytest.raises(UsageError, match="is no query"):
        retrieval(x, [0, 0, 1, 1], queries=[0], gallery=[1, 2, 3], junk={2: [1]})
