"""MRR, recall of all relevant items, means over classes and junk lists, against naive code."""

import csv
import json

import naive_retrieval as naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_retrieval import KS, TIES, expected, path, problems  # noqa: F401 (path is a fixture)

from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.features.knn import knn
from snellen.features.retrieval import retrieval
from snellen.features.store import import_file


@pytest.mark.parametrize("ties", TIES)
def test_reciprocal_ranks_and_shares_of_all_relevant_items_are_those_of_naive_code(path, ties):  # noqa: F811
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
def test_junk_is_removed_from_the_ranking_whether_relevant_or_not(path, ties, several):  # noqa: F811
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
