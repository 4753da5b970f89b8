"""Replies with the values that VLMEvalKit, lmms-eval and authors' scripts gave them when they were run over invented rows.

Source: VLMEvalKit at e8e78f0 with latex2sympy2-extended 1.11, lmms-eval 0.7.3 and the scripts that the rules name. Most replies are
those that `strict` scores otherwise. METEOR ran without WordNet's words.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from card_sets_drawn import empty_wordnet
from catalogue_drawn import draw_card_set

import snellen
from snellen.benchmarks import registry
from snellen.benchmarks.table.entries import entry

LINES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "harness_vectors.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(
    "line", LINES, ids=lambda line: f"{line['set']}-{line['profile']}-{line['row']['answer'][:20]}"
)
def test_a_profile_gives_the_value_that_its_harness_gave(
    line: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nltk.data.path", empty_wordnet(tmp_path / "nltk"))
    row = line["row"] | ({"index": 0} if entry(line["set"]).source.tsv else {})
    drawn, benchmark = draw_card_set(entry(line["set"]), tmp_path, [row]), registry.find(line["set"])
    (sample,) = benchmark.samples(snellen.Data(path=drawn.path, images=drawn.images))
    found = [(reply, benchmark.score[line["profile"]](sample, reply).value) for reply, _ in line["values"]]
    assert found == [(reply, pytest.approx(value)) for reply, value in line["values"]]
