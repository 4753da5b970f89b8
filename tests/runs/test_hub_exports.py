"""Data sets of the hub that Snellen writes and reads again, and figures of models from their repositories."""

from __future__ import annotations

import hashlib
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from huggingface_hub import DatasetCard
from huggingface_hub._eval_results import EvalResultEntry, eval_result_entries_to_yaml, parse_eval_result_entries

import snellen
from benchmarks.table.hub_sets_drawn import SETS, animals, circle
from benchmarks.table.test_hub_tasks import Says, shape
from servers.hub import FolderHub, standing_in
from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.benchmarks.table.hub_tasks import _of_hub, names_of
from snellen.cli import main
from snellen.errors import DataError, UsageError
from snellen.runs.interchange.hub_results import read_entries
from snellen.runs.interchange.hub_tasks import export_tasks
from snellen.types import Image


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))


def printed(*words: str, code: int = 0) -> str:
    """Run a command, and return what it prints on both streams."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*words])
    assert status == code, out.getvalue() + err.getvalue()
    return out.getvalue() if "--json" in words or not err.getvalue() else out.getvalue() + err.getvalue()


def asked(name: str) -> list[Any]:
    """What a run's fingerprint rests on, sample by sample: ids, prompts with the bytes of images, options and gold answers."""
    return [
        (
            sample.id,
            shape(sample.prompt),
            sample.prompt.system,
            [hashlib.sha256(part.blob.read()).hexdigest() for part in sample.prompt.parts if isinstance(part, Image)],
            sample.options,
            sample.target,
            sample.kind,
        )
        for sample in find(name).samples(Data())
    ]


@pytest.mark.parametrize("name", SETS)
def test_a_task_that_is_run_exported_and_run_again_asks_the_same(name: str, tmp_path: Path):
    for number, place in enumerate(names_of(str(SETS[name][0](tmp_path / name)))):
        first = snellen.evaluate(place, Says("ANSWER: A"), out=f"run{number}")
        files = printed("export", f"run{number}", "--format", "eval-yaml", "--out", f"hub{number}").split()
        assert [Path(file).name for file in files][:4] == [
            "test-00000-of-00001.parquet", "eval.yaml", "README.md", "croissant.json"
        ]  # fmt: skip
        again = snellen.evaluate(f"hub{number}", Says("ANSWER: A"), out=f"again{number}")
        assert asked(f"hub{number}") == asked(place)
        assert again.meta.identity["prompts"] == first.meta.identity["prompts"]
        assert again.figures("all") == first.figures("all")
        assert again.meta.spec.repeats == first.meta.spec.repeats
        printed("export", f"hub{number}", "--format", "eval-yaml", "--out", f"twice{number}")
        assert asked(f"twice{number}") == asked(place)


def test_the_card_and_the_croissant_file_describe_the_table(tmp_path: Path):
    files = export_tasks(find(str(SETS["colours"][0](tmp_path / "colours"))), Data(), tmp_path / "hub").files
    table, _, card, croissant = files
    front = DatasetCard(card.read_text()).data.to_dict()
    assert front["configs"] == [
        {"config_name": "default", "data_files": [{"split": "test", "path": "data/default/" + table.name}]}
    ]
    assert front["size_categories"] == ["n<1K"] and "license" not in front
    columns = [feature["name"] for feature in front["dataset_info"][0]["features"]]
    assert columns == pq.read_schema(table).names == ["sample_id", "input", "target", "choices", "input_image"]
    described = json.loads(croissant.read_text())
    (file,) = described["distribution"]
    assert file["sha256"] == hashlib.sha256(table.read_bytes()).hexdigest()
    assert [field["source"]["extract"]["column"] for field in described["recordSet"][0]["field"]] == columns


def test_what_is_published_names_no_place_of_this_machine(tmp_path: Path):
    (tmp_path / "own.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    files = export_tasks(find(str(tmp_path / "own.jsonl")), Data(), tmp_path / "hub").files
    assert not [file for file in files if str(tmp_path).encode() in file.read_bytes()]


def test_any_table_becomes_whole_texts_with_a_task_for_each_scorer(tmp_path: Path):
    rows = [
        "id,question,answer,A,B",
        "x1,Which?,B,wren,owl",
        "x2,Is it red?,yes,,",
        "x3,How many?,3,,",
        "x4,Name it.,blue tit,,",
    ]
    Path("mine.csv").write_text("\n".join(rows))
    output = printed("export", "mine.csv", "--format", "eval-yaml", "--out", "hub")
    assert "kinds of answers are tasks of their own: pattern, match, match-number, exact" in output
    tasks = yaml.safe_load(Path("hub/eval.yaml").read_text())["tasks"]
    assert [(task["id"], task["scorers"][0]["name"]) for task in tasks] == [
        ("pattern", "pattern"), ("match", "match"), ("match-number", "match"), ("exact", "exact")
    ]  # fmt: skip
    before = {sample.id: shape(sample.prompt) for sample in find("mine.csv").samples(Data())}
    after = {key: text for task in tasks for key, text, *_ in asked(f"hub/{task['id']}")}
    assert after == before
    choice = next(iter(find("hub/pattern").samples(Data())))
    scores = {
        reply: find("hub/pattern").score["inspect-pattern"](choice, reply).value
        for reply in ("B", "(b) owl", "A", "Bird")
    }
    assert scores == {"B": 1.0, "(b) owl": 1.0, "A": 0.0, "Bird": 0.0}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["id,question,answer,image", "x,What?,red,a.png;b.png"], "sample 'x' has 2 images; the form holds one"),
        (['id,question,answer', 'x,Where?,"[1, 2, 30, 40]"'], "answers of the kind box"),
        (['id,question,answer', 'x,Which words?,"[""red"", ""crimson""]"'], "2 accepted answers"),
    ],
)  # fmt: skip
def test_what_the_form_cannot_hold_is_refused_and_nothing_is_written(rows: list[str], message: str):
    from PIL import Image as Pillow

    for name in ("a.png", "b.png"):
        Pillow.new("RGB", (40, 40), (name[0] == "a" and "red") or "blue").save(name)
    Path("mine.csv").write_text("\n".join(rows))
    assert message in printed("export", "mine.csv", "--format", "eval-yaml", "--out", "hub", code=2)
    assert not [file for file in Path("hub").rglob("*") if file.is_file()]


def test_restricted_gold_answers_and_suites_are_not_written():
    with pytest.raises(UsageError, match="gold answers of fika, which are restricted"):
        export_tasks(find("fika"), Data(), Path("hub"))
    with pytest.raises(UsageError, match="is a suite of"):
        export_tasks(find("chart"), Data(), Path("hub"))


ENTRY = {"dataset": {"id": "org/circle", "task_id": "circle"}, "value": 66.7, "date": "2026-05-01", "notes": "no-tools"}


def write_entries(entries: Any, name: str = "model") -> Path:
    place = Path(name, ".eval_results", "figures.yaml")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(entries if isinstance(entries, str) else yaml.safe_dump(entries))
    return place.parents[1]


def test_figures_that_the_hub_writes_are_read_as_its_own_parser_reads_them():
    written = eval_result_entries_to_yaml(
        [
            EvalResultEntry("org/circle", "circle", 0.412, source_url="https://example.org/card", source_name="card"),
            EvalResultEntry("org/circle", "circle", 20.9, date="2026-05-01", dataset_revision="abc", notes="tools"),
        ]
    )
    model, entries = read_entries(str(write_entries(written)))
    theirs = parse_eval_result_entries(written)
    assert model == "model" and len(entries) == len(theirs) == 2
    for own, other in zip(entries, theirs, strict=True):
        assert (own.dataset.id, own.dataset.task_id, own.value) == (other.dataset_id, other.task_id, other.value)
        assert (own.dataset.revision, own.date, own.notes) == (other.dataset_revision, other.date, other.notes)
    assert [entry.fraction for entry in entries] == [0.412, pytest.approx(0.209)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"value": "high"}, "Expected `float`"),
        ({"value": float("nan")}, "a number from 0 to 100"),
        ({"verify_token": "x"}, "unknown field `verify_token`"),
        ({"source": {"name": "card"}}, "missing required field `url`"),
        ({"dataset": {"id": "org/circle"}}, "missing required field `task_id`"),
    ],
)
def test_an_entry_that_is_not_in_the_form_of_the_hub_is_refused(change: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        read_entries(str(write_entries([{**ENTRY, **change}])))
    with pytest.raises(DataError, match=r"Expected `str"):
        read_entries(str(write_entries("- {dataset: {id: a/b, task_id: c}, value: 1, date: 2026-05-01}")))
    with pytest.raises(DataError, match=r"no \.eval_results"):
        read_entries("nowhere")


def test_figures_of_a_model_stand_beside_a_run_and_in_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    _of_hub.cache_clear()
    model = write_entries([ENTRY, {**ENTRY, "dataset": {"id": "org/other", "task_id": "x"}, "value": 0.5}])
    folders = {"org/circle": circle(tmp_path / "drawn"), "org/model": tmp_path / model}
    with standing_in(FolderHub, {"folders": folders, "seen": []}, monkeypatch, tmp_path):
        run = snellen.evaluate("hf:org/circle", Says("ANSWER: no", "ANSWER: no", "?"), out="run", concurrency=1)
        for place in ("model", "hf:org/model", "model/.eval_results/figures.yaml"):
            found = json.loads(printed("reproduce", "--run", "run", "--figures", place, "--json"))
            (table,) = found["reproductions"][0]["published"]
            (figure,) = table["figures"]
            assert figure["value"] == pytest.approx(0.667) and table["own"][0]["value"] == pytest.approx(2 / 3)
            assert table["profile"] == "inspect-pattern"
        listed = json.loads(printed("list", "hf:org/model", "--published", "--json"))["published"]
        assert [(table["benchmark"], table["rows"][0]["values"]) for table in listed] == [
            ("hf:org/circle/circle", [0.667]), ("hf:org/other/x", [0.5])
        ]  # fmt: skip
        results = snellen.export(run, "hf", out="hf").files[0]
    (entry,) = parse_eval_result_entries(yaml.safe_load(results.read_text()))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("org/circle", "circle", pytest.approx(66.6667))
    write_entries([{**ENTRY, "dataset": {"id": "org/other", "task_id": "x"}}], "stranger")
    assert "no figure is about org/circle/circle" in printed(
        "reproduce", "--run", "run", "--figures", "stranger", code=2
    )


def test_a_run_of_several_tasks_has_a_folder_for_each(tmp_path: Path):
    animals(tmp_path / "set")
    output = printed("run", "set", "-m", "embedded", "--out", "all", "--json", "--limit", "1")
    assert {path.parent.name for path in Path("all").rglob("run_meta.json")} == {
        path.name for path in Path("all").iterdir() if path.is_dir()
    }
    assert len(list(Path("all").rglob("run_meta.json"))) == 3, output
