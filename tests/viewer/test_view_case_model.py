"""View models of the case page: replies with their marks, images as sent, raw exchanges, and what is not there."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from case_runs import IDS, ask, write_judged, write_questions, write_trace
from msgspec import structs

from snellen.models.trace import Step
from snellen.redaction.gold import quotes
from snellen.scoring.rubric import gold_forms
from snellen.types import MediaSettings, Record
from snellen.viewer.cases.case_view import CaseColumn, CaseLimits, case_view
from snellen.viewer.cases.exchanges import json_text, raw_trace
from snellen.viewer.cases.line_places import LinePlaces
from snellen.viewer.cases.opened_runs import OpenedRuns, Seal
from snellen.viewer.cases.pictures import ImageStore
from snellen.viewer.cases.replies import cut_into_pieces
from snellen.viewer.cases.timeline import timeline


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: one as the data is, one with smaller images."""
    root = tmp_path_factory.mktemp("case")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
        table = write_questions(root / "data")
        ask(table, root / "plain", ["A", "It is brown. The answer is B.", "It is A or B."])
        ask(table, root / "small", ["The wren, so (A).", "C", "C"], media=MediaSettings(max_long_side=32))
    return root


def view(root: Path, *names: str, sample: str = "q1", repeat: int = 0, **settings):
    """Return the view of one sample over some runs, and the store of its images."""
    runs, store = OpenedRuns(), ImageStore()
    columns = [CaseColumn("ABCD"[place], runs.open(name, root / name)) for place, name in enumerate(names)]
    return case_view(columns, sample, repeat, store, **settings), store


def test_a_case_has_the_question_and_every_reply_with_what_was_read(results):
    case, _ = view(results, "plain", "small")
    assert case.question.gold_letters == ("A",)
    assert dict(case.question.options) == {"A": "wren", "B": "robin", "C": "barn owl"}
    assert any("Which bird is this, no. 0?" in text for text in case.question.texts)
    assert [reply.reply.verdict for reply in case.replies] == ["right", "right"]
    pieces = case.replies[1].reply.pieces
    assert "".join(piece.text for piece in pieces) == "The wren, so (A)."
    assert [piece.text for piece in pieces if piece.mark] in (["A"], ["wren"])
    reading = case.replies[1].reply.readings[0]
    assert reading.selected and reading.extracted == "A" and reading.verdict == "right"


def test_a_reply_with_two_answers_has_both_marked_and_says_why(results):
    case, _ = view(results, "plain", sample="q3")
    reply = case.replies[0].reply
    assert reply.verdict == "unparseable"
    assert [piece.text for piece in reply.pieces if piece.mark == 2] == ["A", "B"]
    assert "two answers" in reply.readings[0].reason


def test_images_as_sent_are_reproduced_and_compared_with_the_trace(results):
    case, store = view(results, "plain", "small")
    (shown,) = case.pictures
    original = (results / "data" / "pics" / "0.png").read_bytes()
    assert store.get(shown.original.digest)[0] == original
    by_run = {sent.runs: sent for sent in shown.sent}
    assert by_run[("A",)].file is None and by_run[("A",)].recorded == "equal"
    small = by_run[("B",)]
    assert (small.file.width, small.recorded) == (32, "equal") and "size" in small.changes
    traced = (results / "small" / "traces" / "00000.jsonl").read_text().splitlines()[0]
    assert f"sha256:{small.file.digest}" in traced


def test_an_image_that_the_data_changed_since_differs_from_the_trace(results, tmp_path):
    shutil.copytree(results, tmp_path / "all", dirs_exist_ok=True)
    line = tmp_path / "all" / "plain" / "traces" / "00000.jsonl"
    text = line.read_text()
    digest = text.split("sha256:")[1][:64]
    line.write_text(text.replace(digest, "0" * 64))
    case, _ = view(tmp_path / "all", "plain")
    assert [sent.recorded for sent in case.pictures[0].sent] == ["differs"]


def test_runs_without_traces_data_or_record_say_what_is_not_there(results, tmp_path):
    root = tmp_path / "all"
    shutil.copytree(results, root)
    shutil.rmtree(root / "plain" / "traces")
    case, _ = view(root, "plain", "small")
    assert "no traces" in case.replies[0].trace and not case.replies[0].has_trace
    assert case.pictures[0].sent[0].recorded == "unknown"
    lines = (root / "small" / "results.jsonl").read_text().splitlines(keepends=True)
    (root / "small" / "results.jsonl").write_text("".join(lines[1:]))
    case, _ = view(root, "plain", "small")
    assert case.replies[1].reply.verdict == "missing"
    assert view(root, "plain", sample="nobody")[0] is None


def test_a_run_whose_data_is_gone_shows_its_replies_without_verdicts(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
    ask(write_questions(tmp_path / "data"), tmp_path / "run", ["B", "A", "A"])
    shutil.rmtree(tmp_path / "data")
    case, _ = view(tmp_path, "run")
    assert case.question is None and case.problem
    assert case.replies[0].reply.verdict == "unknown"
    assert "".join(piece.text for piece in case.replies[0].reply.pieces) == "B"


def test_a_torn_run_is_a_column_with_its_problem(results, tmp_path):
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "run_meta.json").write_text("{")
    runs, store = OpenedRuns(), ImageStore()
    columns = [
        CaseColumn("A", runs.open("plain", results / "plain")),
        CaseColumn("B", runs.open("t", tmp_path / "torn")),
    ]
    case = case_view(columns, "q1", 0, store)
    assert case.replies[1].reply.verdict == "missing" and case.replies[1].notes


def test_an_answer_replaces_failures_and_the_first_answer_counts(results, tmp_path):
    root = tmp_path / "all"
    shutil.copytree(results, root)
    path = root / "plain" / "results.jsonl"
    first = json.loads(path.read_text().splitlines()[0])
    failure = {**first, "status": "error", "response": None, "error": {"kind": "timeout", "message": "late"}}
    second = {**first, "response": {"text": "C"}}
    path.write_text("".join(json.dumps(line) + "\n" for line in (failure, first, second)))
    case, _ = view(root, "plain")
    assert "".join(piece.text for piece in case.replies[0].reply.pieces) == "A"
    path.write_text(json.dumps(failure) + "\n")
    case, _ = view(root, "plain")
    assert case.replies[0].reply.verdict == "failed" and case.replies[0].reply.error == ("timeout", "late")


def test_the_raw_exchange_is_bounded_json_with_images_by_digest_and_without_keys(results, monkeypatch):
    opened = OpenedRuns().open("plain", results / "plain")
    trace = raw_trace(opened, "q1", 0, Seal(), whole=True)
    (attempt,) = trace.attempts
    assert "sha256:" in attempt.request and "base64" not in attempt.request
    assert json.loads(attempt.reply)["choices"][0]["message"]["content"] == "A"
    text = json_text(
        {"key": "Bearer sk-proj-0123456789abcdefghijklmnop", "long": "x" * 9_000, "list": list(range(999))}, Seal()
    )
    assert "sk-proj-0123456789abcdefghijklmnop" not in text and len(text) < 8_000 and "999 items" in text
    nested: list = []
    for _ in range(500):
        nested = [nested]
    assert len(json_text(nested, Seal())) < 20_000


def test_places_of_lines_follow_a_growing_file_and_survive_a_torn_end(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_bytes(b'{"sample_id":"a","repeat":0,"n":1}\nnot json\n{"sample_id":"b","n":2}\n{"sample_id":"a","n"')
    places = LinePlaces(path)
    assert places.lines("a") == [b'{"sample_id":"a","repeat":0,"n":1}\n']
    with path.open("ab") as file:
        file.write(b':3}\n{"sample_id":"a","repeat":1,"n":4}\n')
    assert [json.loads(line)["n"] for line in places.lines("a")] == [1, 3]
    assert [json.loads(line)["n"] for line in places.lines("a", 1)] == [4]
    path.write_bytes(b'{"sample_id":"c"}\n')
    assert places.lines("a") == [] and len(places.lines("c")) == 1


def test_restricted_gold_is_struck_from_everything_unless_it_is_asked_for(results, tmp_path):
    root = tmp_path / "all"
    shutil.copytree(results, root)
    runs, store = OpenedRuns(), ImageStore()
    opened = runs.open("plain", root / "plain")
    opened.benchmark = replace(opened.benchmark, restricted=True)
    case = case_view([CaseColumn("A", opened)], "q1", 0, store)
    assert case.question.gold is None and case.question.hidden and case.question.gold_letters == ()
    assert case_view([CaseColumn("A", opened)], "q1", 0, store, show_gold=True).question.gold == "A"
    sealed = Seal(("barn owl",))
    assert "barn owl" not in sealed.clean("It is a Barn Owl, a barn owl.")
    assert Seal(withheld=True).clean("It is a wren") != "It is a wren"


def test_a_long_reply_shows_head_tail_and_the_marked_part():
    text = "x" * 50_000 + "HERE" + "y" * 50_000
    pieces = cut_into_pieces(text, [(50_000, 50_004)], 2_000)
    assert [piece.text for piece in pieces if piece.mark] == ["HERE"]
    assert sum(len(piece.text) for piece in pieces) < 4_000
    assert sum(len(piece.text) + piece.omitted for piece in pieces) == len(text)
    assert cut_into_pieces("", (), 100) == ()


def test_a_timeline_names_searches_pages_commands_and_images():
    steps = [
        Step(0, "user", "Which bird?", images=("a" * 64,)),
        Step(1, "assistant", "I search.", tokens_in=10, tokens_out=4, seconds=1.0),
        Step(1, "tool", tool="web_search", arguments={"query": "brown bird"}, result="wren", seconds=3.0),
        Step(1, "tool", tool="bash", arguments={"command": "ls", "timeout": 3}, result="x", error=True),
        Step(1, "tool", tool="fetch", arguments={"url": "http://example.org"}),
        Step(1, "tool", tool="odd", arguments="not a mapping"),
    ]
    way = timeline(steps, Seal(), frozenset({"a" * 64}))
    assert [step.kind for step in way.steps] == ["question", "model", "search", "command", "page", "tool"]
    assert way.steps[0].images[0].known and way.steps[2].title == "brown bird" and way.steps[2].share == 100
    assert way.steps[3].failed and "timeout" in way.steps[3].arguments and way.steps[2].at == "1.0 s"
    assert "4 tool calls" in way.summary and timeline([], Seal()) is None


def test_code_is_shown_as_code_and_a_picture_that_came_back_only_to_who_may_see_it():
    code = "for i in range(2):\n    print('<b>')"
    step = Step(1, "tool", tool="python", arguments={"code": code}, images=("c" * 64,), copies=("QUJD",))
    foreign = Step(1, "tool", images=("d" * 64,), copies=('"><script>',))
    way = timeline([step, foreign], Seal())
    assert way.steps[0].arguments == code and way.steps[0].title == "" and way.steps[0].kind == "command"
    assert way.steps[0].images[0].copy == "data:image/jpeg;base64,QUJD" and way.steps[1].images[0].copy == ""
    for seal in (Seal(("wren",)), Seal(withheld=True)):
        assert timeline([step], seal).steps[0].images[0].copy == ""
    many = timeline([structs.replace(step, copies=("A" * 100_000,))] * 40, Seal())
    assert sum(len(each.copy) for row in many.steps for each in row.images) < 700_000


def test_a_record_alone_is_read(results):
    opened = OpenedRuns().open("plain", results / "plain")
    assert isinstance(opened.record(IDS[1], 0), Record) and opened.record(IDS[1], 1) is None


def test_the_exchange_with_the_judge_is_shown_and_a_stale_one_is_marked(results, tmp_path):
    root = tmp_path / "all"
    shutil.copytree(results, root)
    write_judged(root / "plain", "q1", '{"verdict": "right"}', at=4_000_000_000.0)
    case, _ = view(root, "plain")
    judge = case.replies[0].judge
    assert (judge.model, judge.questions, judge.replies) == (
        "api:the-judge",
        ("Is this reply right?",),
        ('{"verdict": "right"}',),
    )
    assert judge.system == "You judge." and judge.verdict == '{"verdict": "right"}' and not judge.stale
    shutil.rmtree(root / "plain_judged")
    write_judged(root / "plain", "q1", "right", at=1.0)
    assert view(root, "plain")[0].replies[0].judge.stale
    assert view(root, "plain", sample="q3")[0].replies[0].judge is None


def test_an_agents_steps_are_a_timeline_that_shows_the_images_of_the_question(results, tmp_path):
    root = tmp_path / "all"
    shutil.copytree(results, root)
    digest = view(root, "plain")[0].pictures[0].original.digest
    write_trace(root / "plain", "q1", [Step(0, "user", "Which?", images=(digest, "b" * 64)), Step(1, "assistant", "A")])
    way = view(root, "plain")[0].replies[0].timeline
    assert [image.known for image in way.steps[0].images] == [True, False]
    assert view(root, "plain", limits=CaseLimits(exchanges=False))[0].replies[0].timeline is None


@pytest.mark.parametrize("name", ["chart", "fgbmk", "fika", "killed", "mindcube", "vlm2"])
def test_runs_of_0_1_are_shown(name, tmp_path, monkeypatch):
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "runs_0_1", tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    root = tmp_path / "old" / "runs"
    first = json.loads((root / name / "results.jsonl").read_text().splitlines()[0])
    case, _ = view(root, name, sample=first["sample_id"])
    reply = case.replies[0]
    assert case.question is not None or reply.notes
    if first["status"] == "ok":
        assert "".join(piece.text for piece in reply.reply.pieces) or reply.reply.empty
    if case.restricted:
        assert case.question is None or case.question.gold is None


def test_repeats_are_listed_with_their_verdicts(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-key-of-the-model-0123456789")
    ask(write_questions(tmp_path / "data"), tmp_path / "run", ["A", "A", "A"], repeats=2)
    runs, store = OpenedRuns(), ImageStore()
    case = case_view([CaseColumn("A", runs.open("run", tmp_path / "run"), repeats=3)], "q1", 1, store)
    assert case.replies[0].repeats == ((0, "right"), (1, "right"), (2, "missing"))


def test_no_gold_of_a_restricted_run_stands_anywhere_in_its_cases(tmp_path, monkeypatch):
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "runs_0_1", tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    path = tmp_path / "old" / "runs" / "fika"
    opened = OpenedRuns().open("fika", path)
    assert opened.restricted
    lines = [json.loads(line) for line in (path / "results.jsonl").read_text().splitlines()]
    golds = {sample.id: gold_forms(sample) for sample in opened.benchmark.samples(opened.run.meta.spec.data)}
    for line in lines:
        line["response"] = {
            "text": f"I think it is {golds[line['sample_id']][0]}.",
            "reasoning": golds[line["sample_id"]][0],
        }
        line["status"] = "ok"
    (path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "traces").mkdir(exist_ok=True)
    traces = [
        {"sample_id": line["sample_id"], "repeat": 0, "trace": {"request": {"x": "y"}, "reply": line["response"]}}
        for line in lines
    ]
    (path / "traces" / "99999.jsonl").write_text("".join(json.dumps(trace) + "\n" for trace in traces))
    shown = 0
    for line in lines:
        name = line["sample_id"]
        case, _ = view(path.parent, "fika", sample=name)
        opened = OpenedRuns().open("fika", path)
        raw = raw_trace(opened, name, 0, opened.seal(opened.sample(name)[0], show_gold=False), whole=True)
        assert raw.attempts
        assert not quotes(repr((case.question, case.replies, case.notes, raw)), golds[name]), name
        assert "[gold withheld]" in repr(case.replies)
        open_case, _ = view(path.parent, "fika", sample=name, show_gold=True)
        shown += quotes(repr(open_case.replies), golds[name])
    assert shown == len(lines) > 0


def test_replies_of_a_restricted_run_without_its_data_are_withheld(tmp_path, monkeypatch):
    shutil.copytree(Path(__file__).parents[1] / "fixtures" / "runs_0_1", tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    (tmp_path / "old" / "data" / "fika.zip").unlink()
    path = tmp_path / "old" / "runs" / "fika"
    line = json.loads(path.joinpath("results.jsonl").read_text().splitlines()[0])
    case, _ = view(path.parent, "fika", sample=line["sample_id"])
    assert case.question is None and case.restricted
    reply = (line.get("response") or {}).get("text", "")
    assert not reply or reply not in repr(case.replies)
