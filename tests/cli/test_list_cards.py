"""`snellen list --cards`: which declared benchmarks vendors' model cards report."""

from __future__ import annotations

import json

import pytest

from snellen.cli import main

pytestmark = pytest.mark.installed


def test_the_sets_of_model_cards_are_listed_the_commonest_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--cards", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["cards"]
    counts = [row["count"] for row in listed]
    assert counts == sorted(counts, reverse=True) and counts[-1] > 0
    assert next(row for row in listed if row["name"] == "mathvista")["count"] == 12


def test_the_sets_of_one_vendor_are_listed_and_an_unknown_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--cards", "qwen"]) == 0
    shown = capsys.readouterr().out
    assert "dynamath" in shown and "visulogic" not in shown
    assert main(["list", "MathVista", "--cards", "qwen", "--json"]) == 0
    listed = {row["name"] for row in json.loads(capsys.readouterr().out)["cards"]}
    assert {"mathvista", "dynamath"} <= listed and "visulogic" not in listed
    assert main(["list", "--cards", "vizwiz"]) == 2
    assert "no card that reports vizwiz is known" in capsys.readouterr().err
    assert main(["list", "--cards", "nobody"]) == 2
    assert "no source names a set that nobody reports" in capsys.readouterr().err
