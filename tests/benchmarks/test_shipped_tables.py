"""Every published table that comes with Snellen: shown by a command, its values in range, its benchmarks there."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.spatial.reference.verification import checks
from snellen.benchmarks.table import entries
from snellen.cli import main
from snellen.cli.listing import EASI, shipped_tables
from snellen.features.published import DATASETS

SHIPPED = list(shipped_tables())
TABLES = pytest.mark.parametrize(("name", "table"), SHIPPED, ids=[f"{name}: {table.title}" for name, table in SHIPPED])
OF_STORES = ("probe", "retrieval", "alignment", "attack")


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict]:
    assert main(["list", *words, "--published", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["published"]


@TABLES
def test_a_table_names_its_source_and_holds_each_row_and_column_once(name, table):
    assert table.source
    assert len(set(table.metrics)) == len(set(table.columns)) == len(table.columns)
    assert len({row.name for row in table.rows}) == len(table.rows) > 0
    for row in table.rows:
        assert len(row.values) == len(table.columns)
        assert any(value is not None for value in row.values)


@TABLES
def test_values_are_fractions_but_for_points_and_counts(name, table):
    for row in table.rows:
        for metric, value in zip(table.metrics, row.values, strict=True):
            assert value is None or 0 <= value <= (3000 if metric in table.numbers else 1), (row.name, metric)


@TABLES
def test_a_table_is_about_benchmarks_or_data_sets_that_exist(name, table):
    known = {*registry.names(), *entries.names(), *DATASETS}
    assert name == EASI or name in known
    for metric in table.metrics:
        first, _, rest = metric.partition("/")
        if first in (*OF_STORES, "published"):
            assert rest.partition("/")[0] in known | {"probe"}, metric
        elif name == EASI and rest == "overall" and not table.title.startswith("EASI, verification"):
            assert first in known, metric


def test_no_table_is_shipped_twice_and_each_row_of_easis_verification_is_shown():
    titles = Counter(table.title for _, table in SHIPPED)
    assert titles.most_common(1)[0][1] == 1
    verified = [table for _, table in SHIPPED if table.title.startswith("EASI, verification")]
    assert sum(len(table.rows) for table in verified) == len(checks())
    named = {check.benchmark for check in checks()} - {""}
    assert named <= set(registry.names())


@pytest.mark.parametrize("name", sorted({name for name, _ in SHIPPED}))
def test_the_command_shows_the_tables_of_a_benchmark(name, capsys):
    own = [table for of, table in SHIPPED if of == name]
    listed = shown(capsys, name)
    assert [table["title"] for table in listed][: len(own)] == [table.title for table in own]
    assert main(["list", name, "--published"]) == 0
    text = capsys.readouterr().out
    assert all(table.title in text and row.name in text for table in own for row in table.rows)


def test_a_member_of_a_suite_has_its_columns_and_a_benchmark_its_rows_of_the_verification(capsys):
    (bias,) = shown(capsys, "fgbmk/cub/bias")
    (llava,) = (row for row in bias["rows"] if row["name"] == "LLaVA-1.5-7B")
    # project page, static/js/data.js: overall, worst, best, gap, std, perfect, n, hist
    assert llava["values"] == [0.768, 0.283, 1.0, 71.7, 14.0, 2, 200, 25, 21, 49, 74, 31]
    titles = [table["title"] for table in shown(capsys, "blink")]
    assert titles == ["EASI-8", "EASI, verification: BLINK"]


def test_the_page_of_a_run_shows_points_and_counts_as_they_are():
    (table,) = registry.find("fgbmk/cub/bias").published
    assert [table.text(at, value) for at, value in enumerate((0.768, 0.283, 1.0, 71.7, 14.0, 2))] == [
        "76.80",
        "28.30",
        "100.00",
        "71.7",
        "14",
        "2",
    ]
    (ocr, _) = registry.find("ocrbench").published
    assert ocr.text(0, 736) == "736"


def test_published_and_runs_exclude_each_other(capsys):
    assert main(["list", "--published", "--runs"]) == 2
    assert "--published excludes --runs" in capsys.readouterr().err
