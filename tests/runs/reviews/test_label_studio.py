"""Label Studio's JSON, as its documentation shows it, to decisions and back."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from snellen.errors import DataError, UsageError
from snellen.formats.label_studio import read_tasks
from snellen.runs.reviews.audit_sample import draw, read_audit_sample, save_audit_sample
from snellen.runs.reviews.cases import drawable, read_cases
from snellen.runs.reviews.decisions import VerdictReview
from snellen.runs.reviews.journal import ReviewJournal
from snellen.runs.reviews.label_studio import read_annotations, review_config, run_mark, tasks

REPLIES = {"q0": "A", "q1": "A", "q2": "Neither.", "q3": "B", "q4": "A", "q5": "B"}


@pytest.fixture
def run(make_run):
    return make_run(REPLIES)


def annotated(sample_id, decision, by=1, note="", **annotation):
    results = [
        {"id": "x", "from_name": "decision", "to_name": "reply", "type": "choices", "value": {"choices": [decision]}}
    ]
    if note:
        results.append(
            {"id": "y", "from_name": "note", "to_name": "reply", "type": "textarea", "value": {"text": [note]}}
        )
    row = {
        "id": 17,
        "completed_by": by,
        "result": results,
        "was_cancelled": False,
        "created_at": "2026-03-09T22:16:08.728353Z",
        "updated_at": "2026-03-09T22:16:09.728353Z",
        **annotation,
    }
    return {"id": 1, "data": {"sample_id": sample_id}, "annotations": [row], "predictions": [], "drafts": []}


def written(tmp_path, rows):
    path = tmp_path / "export.json"
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows))
    return path


def test_an_export_becomes_decisions_with_reviewer_time_note_and_the_verdict_of_now(tmp_path, run):
    rows = [
        annotated("q1", "wrong", 3, "the arrow points left"),
        annotated("q2", "right", {"id": 4, "email": "bob@example.org", "first_name": "Bob", "last_name": ""}),
        annotated("q3", "right", None),
        annotated("q4", "right", was_cancelled=True),
    ]
    imported = read_annotations(written(tmp_path, rows), run, reviewers={"3": "ada"})
    first, second, third = imported.reviews
    assert (first.sample_id, first.reviewer, first.decision, first.note) == (
        *("q1", "ada", "wrong", "the arrow points left"),
    )
    assert (first.verdict, first.profile, first.design) == ("wrong", "strict", "queue")
    assert first.at == 1773094569.728353
    assert (second.reviewer, second.verdict) == ("Bob", "invalid")
    assert third.reviewer == "label studio"
    assert imported.skipped == {"cancelled by the annotator": 1}


def test_a_second_import_of_the_same_export_adds_nothing(tmp_path, run):
    path = written(tmp_path, [annotated("q1", "wrong", 3), annotated("q0", "right", 3, id=18)])
    assert ReviewJournal(run.path).extend(read_annotations(path, run).reviews) == 2
    again = read_annotations(path, run)
    assert ReviewJournal(run.path).extend(again.reviews) == 0
    assert again.skipped == {"already there": 2}


def test_json_min_is_read_although_data_and_labels_stand_side_by_side(tmp_path, run):
    row = {
        "sample_id": "q1",
        "repeat": 0,
        "verdict": "wrong",
        "reply": "right",
        "id": 5,
        "decision": "gold-wrong",
        "note": "it is left",
        "annotator": 2,
        "annotation_id": 9,
        "created_at": "2026-03-09T22:16:08Z",
        "updated_at": "2026-03-09T22:16:08Z",
        "lead_time": 4.2,
    }
    (review,) = read_annotations(written(tmp_path, [row]), run).reviews
    assert (review.decision, review.note, review.reviewer) == ("gold-wrong", "it is left", "annotator 2")


def test_a_project_with_other_words_and_fields_is_read_as_the_user_says(tmp_path, run):
    row = annotated("ignored", "Thumbs down")
    row["data"] = {"item": "q1", "image": "https://example.org/1.jpg"}
    row["annotations"][0]["result"][0]["from_name"] = "quality"
    path = written(tmp_path, [row])
    with pytest.raises(DataError, match="no 'sample_id' in the task"):
        read_annotations(path, run)
    with pytest.raises(UsageError, match="no such decision"):
        read_annotations(path, run, id_field="item", words={"thumbs down": "bad"})
    (review,) = read_annotations(path, run, id_field="item", words={"thumbs down": "wrong"}).reviews
    assert (review.sample_id, review.decision) == ("q1", "wrong")


def test_annotations_about_another_run_or_sample_are_named(tmp_path, run):
    other = annotated("q1", "right")
    other["data"]["run"] = "0123456789abcdef"
    mixed = [other, annotated("q9", "right"), annotated("q0", "right")]
    imported = read_annotations(written(tmp_path, mixed), run)
    assert len(imported.reviews) == 1
    assert imported.skipped == {"about another run": 1, "no such reply in the run": 1}
    with pytest.raises(DataError, match=r"none of 1 tasks(.|\n)*sample_id is like 'q9'"):
        read_annotations(written(tmp_path, [annotated("q9", "right")]), run)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not JSON"),
        ("3", "holds int, not a list"),
        ("[]", "holds no Label Studio task"),
        ('[{"text": "a"}]', "neither a task with `data`"),
        ("[" * 100_000, "is not JSON"),
        ('{"data": {}}\n{"data": ', "line 2"),
    ],
)
def test_a_file_that_is_no_export_is_refused_in_words(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_tasks(written(tmp_path, content))


def test_odd_results_are_passed_over(tmp_path, run):
    row = annotated("q1", "right")
    row["annotations"][0]["result"] += [None, 3, {"type": "choices"}, {"type": "rating", "value": {"rating": 3}}]
    row["annotations"][0]["updated_at"] = {"not": "a time"}
    (review,) = read_annotations(written(tmp_path, [row, [], {"data": 3}]), run).reviews
    assert review.decision == "right" and review.at == 1773094568.728353


def test_exported_tasks_name_no_model_and_return_as_the_decisions_that_they_hold(tmp_path, run, make_run):
    population, _ = drawable(read_cases(run))
    save_audit_sample(run.path, draw(population, 3, seed=1))
    audit = read_audit_sample(run.path)
    members = {case.sample_id for case in audit.cases}
    journal = ReviewJournal(run.path)
    journal.append(
        VerdictReview(
            sample_id="q1", reviewer="ada", decision="wrong", note="no", verdict="wrong", design="queue", at=5.0
        )
    )
    rows = list(tasks(run, [("q1", 0), ("q2", 0), ("q0", 0)], audit=audit))
    assert [row["data"]["sample_id"] for row in rows] == ["q1", "q2", "q0"]
    assert {row["data"]["design"] == "audit" for row in rows if row["data"]["sample_id"] in members} <= {True}
    text = json.dumps(rows)
    assert run.meta.spec.model not in text and "run.jsonl" not in text and str(run.path) not in text
    assert rows[0]["data"]["run"] == run_mark(run)
    (annotation,) = rows[0]["annotations"]  # Label Studio refuses a file with annotators that are no users of it
    assert annotation.keys() == {"result", "was_cancelled", "ground_truth", "created_at", "updated_at"}
    copy = make_run(REPLIES, "copy")
    for row in rows:
        row["data"]["run"] = run_mark(copy)
    imported = read_annotations(written(tmp_path, rows), copy)
    (review,) = imported.reviews
    assert (review.sample_id, review.reviewer, review.decision, review.note, review.at) == (
        "q1",
        "ada",
        "wrong",
        "no",
        5.0,
    )
    assert review.digest == rows[0]["data"]["digest"]


def test_the_configuration_has_a_place_for_everything_that_a_task_holds(run):
    (row,) = tasks(run, [("q1", 0)])
    config = ElementTree.fromstring(review_config(images=True))
    values = {tag.get("value", tag.get("valueList")) for tag in config if tag.tag in ("Text", "Image")}
    assert {value.removeprefix("$") for value in values} <= row["data"].keys()
    names = {tag.get("name") for tag in config}
    (choices,) = config.iter("Choices")
    assert choices.get("toName") in names
    assert [choice.get("value") for choice in choices] == [
        *("right", "wrong", "gold-wrong", "ambiguous", "unreadable", "cannot-tell"),
    ]
    assert [choice.get("hotkey") for choice in choices] == list("123456")


def test_images_of_a_question_are_embedded_and_gold_of_restricted_sets_is_withheld(tmp_path):
    from dataclasses import replace

    from snellen.runs.evaluate import evaluate
    from snellen.runs.run import load_run

    chart = load_run(evaluate("chart", model="embedded", limit=3, out=tmp_path / "chart").path)
    keys = [(sample.id, 0) for sample, _ in chart.answers()]
    assert all(row["data"]["images"][0].startswith("data:image/jpeg;base64,") for row in tasks(chart, keys))
    assert "images" not in next(tasks(chart, keys, images=False))["data"]
    chart._benchmark = replace(chart.benchmark, restricted=True)
    gold = [str(sample.target) for sample, _ in chart.answers()]
    sealed = [row["data"] for row in tasks(chart, keys)]
    assert [data["gold"] for data in sealed] == ["(withheld)"] * 3
    assert [row["data"]["gold"] for row in tasks(chart, keys, show_gold=True)] == gold
