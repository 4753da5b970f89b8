"""`snellen list`: one line a benchmark, filtered by words; details of those that are named."""

from __future__ import annotations

import json
import re

import pytest

from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import names

pytestmark = pytest.mark.installed


def test_the_list_has_at_most_one_line_a_benchmark_and_every_benchmark_or_its_suite(snellen):
    said = snellen("list")
    lines = said.out.partition("\n\n")[0].splitlines()[1:]
    listed = [line.split()[0] for line in lines]
    assert said.status == 0 and len(set(listed)) == len(listed)
    for name in (*registry.names(), *names()):
        assert name in listed or name.partition("/")[0] in listed, name
    chart = next(line for line in lines if line.startswith("chart "))
    assert "2,160" in chart and "half a minute" in chart and "Apache-2.0" in chart and chart.endswith("drawn")
    assert next(line for line in lines if line.startswith("fika ")).endswith("--data")


def test_words_filter_the_list_and_names_show_details(snellen):
    said = snellen("list", "HALLUCINATION", "apache")
    assert [line.split()[0] for line in said.out.splitlines() if line][:2] == ["name", "amber"]
    assert "profile" in snellen("list", "chart").out and "chart/digits" not in snellen("list", "chart").out
    assert snellen("list", "nothing-like-this").status == 2


def test_a_name_among_words_filters_too_and_a_name_beside_a_slip_is_named(snellen):
    said = snellen("list", "chart", "papers")
    assert said.status == 0 and "charxiv-reasoning" in said.out and "chartqa" not in said.out
    said = snellen("list", "chart", "poope")
    assert said.status == 2 and "poope" in said.err


def test_words_filter_json_and_the_long_list_and_take_no_data(snellen):
    lines = snellen("list", "spatial").out.partition("\n\n")[0].splitlines()[1:]
    names = [line.split()[0] for line in lines]
    assert [each["name"] for each in json.loads(snellen("list", "spatial", "--json").out)["benchmarks"]] == names
    long = snellen("list", "spatial", "--long").out
    assert all(re.search(rf"^{name}\b", long, re.M) for name in names) and "    profile " in long
    for place in ("--data", "--images"):
        said = snellen("list", "spatial", place, "here")
        assert said.status == 2 and "benchmarks that are named" in said.err
    said = snellen("list", "spatial", "words")
    assert said.status == 2 and "no benchmark's line has all of the words" in said.err and "Type:" not in said.err
