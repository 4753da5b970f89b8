"""Sets of clips by the files of their authors' repositories: what is asked, with which gold answers, and the figures of a run."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from authors_files_drawn import (
    CHARADES,
    EGOSCHEMA,
    MLVU,
    OF_ALL_TASKS,
    PERCEPTION,
    TEMPCOMPASS,
    UIDS,
    clips,
    packed,
    write,
)
from hypothesis import given
from hypothesis import strategies as st
from video_sets_drawn import draw_video_set

import snellen
from servers.oracle import OracleServer, SentQuestion
from snellen.benchmarks import registry
from snellen.benchmarks.table.declaration import declaration
from snellen.benchmarks.table.row_forms import line_rows, nested_rows
from snellen.errors import DataError
from snellen.types import Sample, Video

VALID = clips("video_7", "video_9")
LAYOUTS: dict[str, tuple[str, dict[str, Any]]] = {
    "annotations packed": (
        "perception-test",
        {
            "mc_question_valid_annotations.zip": {"mc_question_valid.json": PERCEPTION},
            "grounded_question_valid_annotations.zip": {"grounded_question_valid.json": {}},
            "valid_videos.zip": VALID,
            "valid_audios.zip": {"audios/video_7.wav": b"no clip"},
        },
    ),
    "annotations of all tasks packed": (
        "perception-test",
        {"valid_annotations.zip": {"all_valid.json": OF_ALL_TASKS}, **VALID},
    ),
    "unpacked each in a folder": (
        "perception-test",
        {
            "mc_question_valid_annotations/mc_question_valid.json": PERCEPTION,
            "valid_annotations/all_valid.json": OF_ALL_TASKS,
            **{f"valid_videos/{name}": clip for name, clip in VALID.items()},
        },
    ),
    "a clone of the repository": ("tempcompass-mc", TEMPCOMPASS),
    "a folder with the clone": ("tempcompass-yn", {f"TempCompass/{name}": part for name, part in TEMPCOMPASS.items()}),
    "the clips packed": (
        "tempcompass-cm",
        {
            **{name: part for name, part in TEMPCOMPASS.items() if name.endswith(".json")},
            "videos.zip": clips("10", "10_reverse", folder=""),
        },
    ),
    "two files": ("egoschema", EGOSCHEMA),
    "lines": ("charades-sta", CHARADES),
    "gold answers in a folder": ("mlvu-test", MLVU),
}
GOLD = {
    "perception-test": {"video_7/0": "C", "video_7/3": "A", "video_9/0": "B"},
    "tempcompass-mc": {"0": "C", "1": "A", "2": "B"},
    "tempcompass-yn": {"0": "False", "1": "True", "2": "False"},
    "tempcompass-cm": {"0": "B", "1": "A"},
    "egoschema": {UIDS[0]: "A", UIDS[2]: "E"},
    "charades-sta": {"0": "[1.0, 3.0]", "1": "[0.0, 2.0]", "2": "[0.5, 2.5]"},
    "mlvu-test": {"0": "B"},
}
CLIPS = {
    "perception-test": ("video_7", "video_7", "video_9"),
    "tempcompass-mc": ("10", "10", "10_reverse"),
    "tempcompass-yn": ("10", "10", "10_reverse"),
    "tempcompass-cm": ("10", "10_reverse"),
    "egoschema": (UIDS[0], UIDS[2]),
    "charades-sta": ("3MSZA", "3MSZA", "AO8RW"),
    "mlvu-test": ("a",),
}
ASKED = {"charades-sta": ("a person turns a light on # 1. Please", "sentence in the video")}
# Each reply is "The answer is B.", of yes or no "No", of a moment 1 to 3 s. Overlaps of moments: 1, 1/3 and 3/5.
WANTED = {
    "perception-test": {"accuracy": 1 / 3, "Physics": 1 / 3},
    "tempcompass-mc": {"accuracy": 1 / 3, "order": 1.0, "action": 0.0},
    "tempcompass-yn": {"accuracy": 2 / 3, "speed": 0.0},
    "tempcompass-cm": {"accuracy": 1 / 2},
    "egoschema": {"accuracy": 0.0},
    "charades-sta": {"R@1 IoU 0.5": 2 / 3, "R@1 IoU 0.3": 1.0, "mIoU": (1 + 1 / 3 + 3 / 5) / 3},
    "mlvu-test": {"M-Avg": 1.0},
}


def samples_of(name: str, folder: Path) -> list[Sample]:
    return list(registry.find(name).samples(snellen.Data(path=folder)))


def clip_of(sample: Sample) -> Video:
    return next(part for part in sample.prompt.parts if isinstance(part, Video))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_authors_download_is_read_by_its_folder_alone_and_scored(layout: str, tmp_path: Path) -> None:
    name, files = LAYOUTS[layout]
    place = write(tmp_path / "download", files)
    samples = samples_of(name, place)
    assert {sample.id: str(sample.target) for sample in samples} == GOLD[name]
    assert [Path(clip_of(sample).blob.key.rpartition("!")[2]).stem for sample in samples] == list(CLIPS[name])
    said = {"tempcompass-yn": "No", "charades-sta": "The event happens in 1.0 - 3.0."}
    with OracleServer(lambda question: said.get(name, "The answer is B.")) as server:
        run = snellen.evaluate(name, "api:oracle", base_url=server.url, data=place, out=tmp_path / "run")
    assert run.meta.totals.ok == run.meta.totals.done == len(samples) == len(server.requests)
    assert all(request.images for request in server.requests)
    assert any(all(words in request.text for words in ASKED.get(name, ("?",))) for request in server.requests)
    figures = {figure.name.rpartition("/")[2]: figure.value for figure in run.figures("strict")["strict"]}
    assert {key: figures[key] for key in WANTED[name]} == pytest.approx(WANTED[name])


@pytest.mark.parametrize("name", ["tempcompass-mc", "egoschema", "charades-sta"])
def test_the_file_of_the_questions_may_be_named_itself(name: str, tmp_path: Path) -> None:
    layout = next(files for set_name, files in LAYOUTS.values() if set_name == name)
    place = write(tmp_path, layout)
    file = {"tempcompass-mc": "questions/multi-choice.json", "egoschema": "questions.json"}.get(
        name, "charades_sta_test.txt"
    )
    images = place / ("Charades_v1_480" if name == "charades-sta" else "videos")
    data = snellen.Data(path=place / file, images=images)
    assert {sample.id: str(sample.target) for sample in registry.find(name).samples(data)} == GOLD[name]


def test_the_hubs_rows_come_first_where_a_folder_has_both(tmp_path: Path) -> None:
    place, _ = draw_video_set("egoschema", tmp_path)
    (tmp_path / "videos.zip").rename(place / "videos.zip")
    hub = [(sample.id, sample.target) for sample in samples_of("egoschema", place)]
    assert len(hub) == 4 and [(one.id, one.target) for one in samples_of("egoschema", write(place, EGOSCHEMA))] == hub


def test_captions_are_judged_by_the_first_question_about_the_same_video_and_aspect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    place, asked = write(tmp_path / "set", TEMPCOMPASS), list[str]()

    def reply(request: SentQuestion) -> str:
        if "DESCRIPTION" not in request.text:
            return f"caption {request.text[0]}"
        asked.append(request.text)
        return "C"  # gold of the first, and not of the second

    with OracleServer(reply) as server:
        snellen.evaluate("tempcompass-captioning", "api:oracle", base_url=server.url, data=place, out=tmp_path / "run")
        snellen.judge(tmp_path / "run", "api:oracle", base_url=server.url)
    assert (
        len(asked) == 2 and "Question 0: where to?" in asked[0] + asked[1] and "Question 1" not in asked[0] + asked[1]
    )
    for figures in snellen.load_run(tmp_path / "run").figures().values():
        assert figures[0].value == 0.5


def test_scenes_and_summaries_of_mlvu_test_are_graded_as_those_of_dev(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    place, asked = write(tmp_path / "set", MLVU), list[str]()
    grades = {"said 0": 0.8, "said 1": 0.3, "said 2": 0.6}

    def reply(request: SentQuestion) -> str:
        if "grader" not in request.text:
            return f"said {re.findall(r'(?:scene|Summarize) (.)', request.text)[0]}"
        asked.append(request.text)
        return json.dumps(
            {"score": next(grade for said, grade in grades.items() if said in request.text), "reason": "r"}
        )

    with OracleServer(reply) as server:
        snellen.evaluate("mlvu-test-generation", "api:oracle", base_url=server.url, data=place, out=tmp_path / "run")
        snellen.judge(tmp_path / "run", "api:oracle", base_url=server.url)
    first, summary = (next(text for text in asked if said in text) for said in ("said 0", "said 2"))
    assert "Accuracy is the mean" in first and "The scoring points are: ['0a', '0b']" in first
    assert "Completeness" in summary and "scoring points" not in summary
    figures = {figure.name: figure.value for figure in snellen.load_run(tmp_path / "run").figures("strict")["strict"]}
    assert figures["G-Avg"] == pytest.approx((10 * (0.8 + 0.3) / 2 + 6.0) / 2)


def test_a_second_file_that_is_missing_changed_or_of_another_set_is_said(tmp_path: Path) -> None:
    place = write(tmp_path / "set", EGOSCHEMA)
    before = registry.find("egoschema").digest(snellen.Data(path=place))
    (place / "subset_answers.json").write_text(json.dumps({UIDS[2]: 4, UIDS[0]: 1, "another": 0}))
    benchmark = registry.find("egoschema")
    assert benchmark.digest(snellen.Data(path=place)) != before
    assert [sample.target for sample in benchmark.samples(snellen.Data(path=place))] == ["B", "E"]
    faults = benchmark.reading(snellen.Data(path=place))
    assert "1 of its rows belong to absent rows, such as another" in str(faults)
    (place / "subset_answers.json").unlink()
    with pytest.raises(DataError, match="subset_answers"):
        samples_of("egoschema", place)


def test_a_folder_with_neither_layout_names_what_was_expected(tmp_path: Path) -> None:
    place = write(tmp_path / "empty", {"videos.zip": VALID})
    with pytest.raises(snellen.SnellenError, match="no split 'validation'"):
        samples_of("perception-test", place)


@given(
    st.recursive(
        st.dictionaries(st.sampled_from("qa"), st.integers(), min_size=1, max_size=2).map(lambda row: [row]),
        lambda inner: st.dictionaries(st.text("xyz", min_size=1, max_size=2), inner, min_size=1, max_size=3),
        max_leaves=12,
    )
)
def test_every_row_of_nested_objects_comes_once_with_the_keys_on_its_way(value: Any) -> None:
    def walked(part: Any, keys: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
        if isinstance(part, list):
            return [(keys, row) for row in part]
        return [row for key, inner in part.items() for row in walked(inner, (*keys, key))]

    rows = walked(value, ())
    for depth in {len(keys) for keys, _ in rows}:
        steps = [f"{{level{number}}}" for number in range(depth)]
        found = list(nested_rows(value, steps))
        wanted = [{f"level{at}": key for at, key in enumerate(keys)} | row for keys, row in rows if len(keys) == depth]
        assert [row for row in found if "@value" not in row and isinstance(row, dict) and row in wanted] == wanted


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(exclude_characters=" \r\n\ufeff", exclude_categories=["C", "Z"]), min_size=1),
            st.floats(0, 100).map(str),
            st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1),
        )
    )
)
def test_columns_of_a_line_are_those_that_were_written(rows: list[tuple[str, str, str]]) -> None:
    text = "".join(f"{video} {start}##{caption}\n" for video, start, caption in rows)
    read = list(line_rows(io.BytesIO(text.encode()), "{video} {start}##{caption}", "f.txt"))
    assert [row for _, row in read] == [dict(zip(("video", "start", "caption"), row, strict=True)) for row in rows]


def test_a_line_of_another_form_is_omitted_and_named() -> None:
    read = list(line_rows(io.BytesIO(b"a 1##x\n\nb##y\nc 2##z"), "{video} {start}##{caption}", "f.txt"))
    assert [number for number, _ in read] == [1, 3, 4]
    assert isinstance(read[1][1], DataError) and "f.txt, line 3: 'b##y'" in read[1][1].message


def test_a_packed_table_is_looked_for_only_where_the_folder_has_none(tmp_path: Path) -> None:
    place = write(tmp_path, {"mc_question_valid.json": PERCEPTION, "valid_videos.zip": VALID})
    (place / "mc_question_valid_annotations.zip").write_bytes(packed({"mc_question_valid.json": {}}))
    assert len(samples_of("perception-test", place)) == 3


def test_keys_without_effect_are_refused() -> None:
    table = {"name": "x", "source": {"file": "x.csv"}, "rows": {"question": "q", "answer": "a"}}
    assert declaration({**table, "authors": {"source": {"files": ["y.json"]}}}, "x.toml").authors is not None
    with pytest.raises(DataError, match=r"\[authors.source\] has no 'files'"):
        declaration({**table, "authors": {"source": {"each": "data"}}}, "x.toml")
    form = {"form": {"vlmevalkit": {"text": "{question}"}}, "summary": {"by": "q"}}
    declaration({**table, **form}, "x.toml")
    with pytest.raises(DataError, match="line is of tables without"):
        declaration({**table, **form, "source": {"file": "x.txt", "line": "{q} {a}"}}, "x.toml")
    with pytest.raises(DataError, match="authors is of tables without"):
        declaration({**table, **form, "authors": {"source": {"files": ["y.json"]}}}, "x.toml")
