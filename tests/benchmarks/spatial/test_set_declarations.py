"""A set is one TOML: a drawn one with clips and two harnesses' profiles, and what every set of the package has by its file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import snellen.benchmarks.spatial as spatial
from benchmarks.spatial.kit_drawn import tsv
from benchmarks.spatial.official_drawn import film
from snellen.benchmarks import registry
from snellen.benchmarks.base import Benchmark, Data
from snellen.benchmarks.spatial import tasks
from snellen.errors import DataError, UsageError
from snellen.formats.base import Problems
from snellen.scoring.scores import ScoreBuilder
from snellen.types import Sample, Text, Video

PAGE = Path(__file__).parents[3] / "docs" / "declare-sets.md"
(TURNS,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
"""The set that the page of declarations shows."""


def declared(folder: Path, text: str = TURNS) -> Benchmark:
    (folder / "turns.toml").write_text(text, encoding="utf-8")
    return registry.find(str(folder / "turns.toml"))


def drawn(folder: Path) -> Path:
    where = folder / "data"
    (where / "clips").mkdir(parents=True)
    (where / "clips" / "a.mp4").write_bytes(film())
    rows = [
        {"id": f"t{at}", "question": f"Which way, {at}?", "options": ["left", "right"], "answer": "AB"[at % 2]}
        | {"turn": ("Left", "RIGHT")[at % 2], "clip": "clips/a"}
        for at in range(4)
    ]
    (where / "turns.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return where


def texts(sample: Sample) -> list[str]:
    return [part.text for part in sample.prompt.parts if isinstance(part, Text)]


def clip(sample: Sample) -> Video:
    (video,) = [part for part in sample.prompt.parts if isinstance(part, Video)]
    return video


def figures(benchmark: Benchmark, samples: list[Sample], replies: list[str], profile: str) -> dict[str, float | None]:
    builder = ScoreBuilder()
    for sample, reply in zip(samples, replies, strict=True):
        builder.add(sample, benchmark.score[profile](sample, reply))
    return {metric.name: metric.value for metric in benchmark.summarize(builder.build(), profile)}


def test_a_set_with_clips_and_two_harnesses_is_one_toml(tmp_path: Path) -> None:
    benchmark, path = declared(tmp_path), drawn(tmp_path)
    assert list(benchmark.score) == ["easi", "vlmevalkit", "lmms-eval", "strict"]
    samples = list(benchmark.samples(Data(path=path)))
    assert [sample.id for sample in samples] == ["t0", "t1", "t2", "t3"]
    assert texts(samples[1]) == ["Which way, 1?\nA. left\nB. right\nReply with a letter."]
    assert samples[1].meta["turn"] == "right" and samples[1].target == "B"
    first = clip(samples[0])
    assert first.pick is not None and first.pick.name == "vlmevalkit-uniform:8" and first.blob is not None
    assert first.blob.read() == film()
    (theirs, *_) = benchmark.samples(Data(path=path, options={"prompting": "lmms-eval"}))
    assert texts(theirs) == ["Watch the clip. Which way, 0? Out of: A. left\nB. right"]
    assert clip(theirs).pick is None and theirs.prompt.generation is not None
    (faster, *_) = benchmark.samples(Data(path=path, options={"sample-frames": "2fps"}))
    assert (pick := clip(faster).pick) is not None and pick.name == "vlmevalkit-rate:2fps"
    replies = ["A", "B", "B", "Answer: B"]
    kit = figures(benchmark, samples, replies, "vlmevalkit")
    assert (kit["overall"], kit["left_accuracy"], kit["right_accuracy"]) == (0.75, 0.5, 1.0)
    assert figures(benchmark, samples, replies, "lmms-eval")["left_accuracy"] == 0.5
    assert not benchmark.notices(Data(path=path))
    (published,) = benchmark.published
    assert published.rows[0].name == "a model" and published.rows[0].values == (0.615,)


def test_a_subset_of_a_declared_set_and_its_table_of_the_kits(tmp_path: Path) -> None:
    benchmark, path = declared(tmp_path), drawn(tmp_path)
    row = {"index": 7, "question": "Which way?", "options": ["left", "right"], "answer": "A", "category": "left"}
    tsv(path / "Turns.tsv", [{**row, "video": "clips/a.mp4"}])
    (sample,) = benchmark.samples(Data(path=path / "Turns.tsv"))
    assert (sample.id, sample.meta["turn"], sample.options) == ("7", "left", {"A": "left", "B": "right"})
    assert clip(sample).pick is not None
    assert "parts to run, by comma: left, right" in benchmark.options["subset"]
    asked = benchmark.samples(Data(path=path / "turns.jsonl", options={"subset": "right"}))
    assert [sample.meta["turn"] for sample in asked] == ["right", "right"]


def test_answers_of_both_harnesses_to_a_declared_set_are_read(tmp_path: Path) -> None:
    benchmark = declared(tmp_path)
    doc = {"id": "t0", "question": "Which way?", "options": ["left", "right"], "answer": "A", "turn": "left"}
    logged = tmp_path / "20260102_samples_turns_test.jsonl"
    logged.write_text(json.dumps({"doc_id": 0, "doc": doc, "resps": [["A"]], "filtered_resps": ["A"]}) + "\n")
    kit = tmp_path / "m_Turns_64frame.csv"
    kit.write_text("index,question,options,answer,category,prediction\n0,Which way?,\"['left', 'right']\",A,left,B\n")
    for file, wanted in ((logged, 1.0), (kit, 0.0)):
        assert benchmark.results is not None
        (sample, record) = next(iter(benchmark.results(file, Data(), Problems()) or ()))
        assert record.response is not None
        assert benchmark.score["easi"](sample, record.response.text).value == wanted


def test_a_change_of_a_users_own_set_is_another_experiment(tmp_path: Path) -> None:
    path = drawn(tmp_path)
    before = declared(tmp_path).digest(Data(path=path))
    assert declared(tmp_path).digest(Data(path=path)) == before
    assert declared(tmp_path, TURNS.replace("lower = true", 'replace = { R = "r" }')).digest(Data(path=path)) != before


def test_a_set_of_ones_own_may_be_like_one_of_the_package(tmp_path: Path) -> None:
    text = 'name = "mine"\nlike = "vsi-bench"\n[frames]\ncount = 4\n[easi]\nplace = 0\n'
    mine = declared(tmp_path, text)
    assert list(mine.score) == list(spatial.VSI_BENCH.score)
    assert "default: 4" in mine.options["sample-frames"]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ('"score_option"', '"score_opinion"', "'score_opinion', and vlmevalkit has no such rule"),
        ('"score_option"', '"_options"', "has no such rule"),
        ('"score_option"', '"re"', "has no such rule"),
        ("vlmevalkit = ", "vlmevaltool = ", "the profile 'vlmevaltool'"),
        ('"mean_of_types"', '"mean_of_tribes"', "'mean_of_tribes'; one of vsi"),
        ('like = "vlmevalkit"', 'like = "vlmeval"', "there is no such form"),
        ('by = "turn"\ncomposite', "composite", "[summary] has no 'by'"),
        ('lists = "decoded"', 'own = "nobody"', "[layout] own is 'nobody'"),
        ("{question}\n", "", "text shows no question"),
        ("count = 8", "cuont = 8", "cuont"),
        ('question = "question"', 'query = "question"', "has no 'question'"),
        ('options = "options"', 'options = ["options"]', "Expected `str | object`"),
        ('title = "Turns', 'like = "turns"\ntitle = "Turns', "a set of the package was expected"),
    ],
)
def test_what_a_declaration_gets_wrong_is_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert old in TURNS
    with pytest.raises((DataError, UsageError)) as caught:
        declared(tmp_path, TURNS.replace(old, new))
    assert fault in caught.value.message


def test_every_file_of_a_set_is_a_benchmark_with_a_constant() -> None:
    names = registry.set_names()
    assert set(names) == {*spatial.SPATIAL, *spatial.FURTHER} == set(tasks.EVERY)
    for name in names:
        benchmark: Any = getattr(spatial, registry.constant_of(name))
        assert benchmark is registry.find(name) and benchmark.name == name
    assert [task.declared.easi.place for task in tasks.TASKS.values()] == list(range(1, len(tasks.TASKS) + 1))
    with pytest.raises(AttributeError, match="NO_BENCH"):
        _ = spatial.NO_BENCH
