"""The report without a browser: what it holds, what it hides, and that untrusted text stays text."""

import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from snellen.benchmarks.base import Published, PublishedRow
from snellen.errors import StorageError, UsageError
from snellen.reports import AnswerView, PageLimits, PairedView, RunView, answer_view, render, write_report
from snellen.reports.escape import clip, escape_invisible, json_for_page, text_of_value
from snellen.scoring import statistics
from snellen.sources.blobs import BytesBlob
from snellen.types import Failure, Image, Metric, Prompt, Record, Response, Sample, Score, Text


def data(page, name="data"):
    return json.loads(re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S).group(1))


def answers_run(answers, name="r", metrics=None):
    found = metrics if metrics is not None else {"strict": [Metric("accuracy", 0.5, len(answers), (0.4, 0.6))]}
    return RunView(name, "bench", "model", found, lambda: iter(answers))


def answer(number, verdict="wrong", **changes):
    score = {"strict": Score(float(verdict == "correct"), "x", verdict)}
    settings = {"parts": (Text("what?"),), "scores": score, "target": "y", "reply": "x", **changes}
    return AnswerView(f"q{number}", "short", **settings)


@pytest.fixture(scope="module")
def page(run):
    return render([run])


def test_the_same_runs_give_the_same_bytes(run, page):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30.0, "axes.facecolor": "red", "svg.hashsalt": None}):
        assert render([run]) == page


def test_the_page_names_no_address_outside_itself(page):
    outside = re.findall(
        r"""(?:src|href|url|action|import)\s*[=(:]\s*["']?\s*(?!#|data:|var)[^\s"'>)]*//[^\s"'>)]+""", page
    )
    assert outside == []
    assert set(re.findall(r"https?://[\w./]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_the_policy_allows_the_pages_own_script_and_style_and_nothing_else(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page).group(1).replace("&#39;", "'")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    script = re.search(r"<script>(.*)</script>", page, re.S).group(1)
    style = re.search(r"<style>(.*?)</style>", page, re.S).group(1)
    for text in (script, style):
        assert b64encode(sha256(text.encode()).digest()).decode() in policy
    assert 'style="' not in page


def test_hostile_text_never_becomes_markup(page, hostile_text):
    assert hostile_text not in page
    assert "<img src=x" not in page
    assert page.count("<script") == 4 and page.count("</script>") == 4
    shown = next(a for a in data(page)["answers"] if a["t"] and "owned" in a["t"])
    assert shown["t"].startswith(hostile_text)
    assert "⟦U+0000⟧ ⟦U+202E⟧" in shown["t"]


def test_hostile_names_of_runs_metrics_and_notes_stay_text(hostile_text):
    run = RunView(
        hostile_text,
        hostile_text,
        hostile_text,
        {hostile_text: [Metric(hostile_text, 0.5, 10, (0.4, 0.6)), Metric("a/$x_{$", 0.5, 10, (0.4, 0.6))]},
        lambda: iter([answer(1, error=Failure(hostile_text, hostile_text), scores={}, meta={"level": hostile_text})]),
        facts={hostile_text: hostile_text},
        profiles={hostile_text: hostile_text},
        notes=[hostile_text],
    )
    page = render([run])
    assert "<img src=x" not in page
    assert page.count("<script") == 4
    assert "a · $x_{$" in page


@given(
    st.recursive(
        st.text() | st.none() | st.integers(-(2**53), 2**53),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_embedded_json_reads_back_and_cannot_end_its_element(value):
    text = json_for_page(value)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == value


@given(st.text(st.characters(), max_size=60))
def test_nothing_that_hides_or_turns_text_survives(text):
    shown = escape_invisible(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]", shown)
    assert escape_invisible(shown) == shown
    shown.encode()


def test_long_text_is_cut_and_says_how_long_it_was():
    assert clip("x" * 10_000_000, 100) == "x" * 100 + " ⟦… 10,000,000 characters in all⟧"
    assert [text_of_value(v) for v in (None, True, 3, 0.5, ("a", "b"), {"b", "a"})] == [
        None,
        "true",
        "3",
        "0.5",
        "a | b",
        "a | b",
    ]


def test_wrong_answers_come_first_and_the_page_says_what_is_left_out():
    many = [answer(i, "wrong" if i % 4 == 0 else "correct") for i in range(400)]
    page = render([answers_run(many)], limits=PageLimits(answers=150))
    verdicts = [a["v"][0][0] for a in data(page)["answers"]]
    assert (verdicts.count("wrong"), verdicts.count("correct")) == (100, 50)
    assert "Showing 100 of 100 incorrect answers and 50 of 300 correct ones" in page
    ids = [data(page)["questions"][a["q"]]["id"] for a in data(page)["answers"]]
    assert ids == sorted(ids, key=lambda name: int(name[1:]))
    assert len(data(render([answers_run(many)], limits=PageLimits(answers=30)))["answers"]) == 30


@pytest.mark.parametrize(
    ("reply", "hidden", "stage", "words"),
    [
        ("So 😀, the answer is B.", False, ["declared"], "B"),
        ("B", False, ["verbatim"], "B"),
        ("So, the answer is B.", True, [], None),
    ],
)
def test_an_answer_names_its_stage_and_the_words_that_it_was_read_from(reply, hidden, stage, words):
    sample = Sample("q", Prompt((Text("Which?"),)), "A", "choice", {"A": "kite", "B": "gull"})
    record = Record("q", "ok", response=Response(reply))
    scores = {"strict": Score(0.0, "B", "wrong"), "other": Score(0.0, "A", "wrong")}
    (found,) = data(render([answers_run([answer_view(sample, record, scores, show_target=not hidden)])]))["answers"]
    assert found["v"][0][4:] == stage
    assert [reply[start:end] for start, end in found.get("w", [])] == ([words] if words else [])


def test_answers_are_read_once_and_never_all_held():
    alive = passes = 0

    class Counted(AnswerView, frozen=True):
        def __del__(self):
            nonlocal alive
            alive -= 1

    peak = 0

    def stream():
        nonlocal alive, peak, passes
        passes += 1
        for i in range(3000):
            alive += 1
            peak = max(peak, alive)
            yield Counted(f"q{i}", "short", (Text("?"),), {"strict": Score(1.0, "x", "correct")}, reply="x")

    run = RunView("r", "b", "m", {"strict": [Metric("accuracy", 1.0, 3000)]}, stream)
    render([run], limits=PageLimits(answers=20))
    assert passes == 1
    assert peak < 30


def test_a_picture_that_many_questions_share_is_stored_once(draw_picture):
    answers = [answer(i, parts=(draw_picture(7), Text("?"))) for i in range(50)]
    page = render([answers_run(answers)])
    pictures = data(page, "pictures")
    assert len(pictures) == 1
    assert b64decode(next(iter(pictures.values())).partition(",")[2]) == draw_picture(7).blob.read()


def test_large_pictures_are_made_small_and_the_budget_holds(draw_picture):
    answers = [answer(i, parts=(draw_picture(i, 900),)) for i in range(6)]
    page = render([answers_run(answers)], limits=PageLimits(picture_bytes=8_000))
    pictures = [b64decode(uri.partition(",")[2]) for uri in data(page, "pictures").values()]
    assert 0 < len(pictures) < 6
    assert sum(map(len, pictures)) <= 8_000
    assert f"{6 - len(pictures)} images are omitted" in page


def test_a_picture_that_cannot_be_read_is_a_note_without_its_path():
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (50_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0" + b"\0" * 4
    parts = (Image(BytesBlob("/home/me/a.png", b"junk")), Image(BytesBlob("/home/me/b.png", bomb)), Text("?"))
    page = render([answers_run([answer(1, parts=parts)])])
    notes = [part["note"] for part in data(page)["questions"][0]["parts"] if "note" in part]
    assert len(notes) == 2 and all(note.startswith("image not shown") for note in notes)
    assert "at most" in notes[1]
    assert "/home/me" not in page


def test_a_hidden_target_is_nowhere_in_the_page():
    sample = Sample(
        "q1",
        Prompt((Text("which bird?"),)),
        ("Corvus corax", "raven"),
        "short",
        meta={"aliases": ["Rabe"], "level": "species", "path": "aves/corvus corax"},
    )
    scores = {
        "strict": Score(0.0, "crow", "wrong", "expected raven"),
        "official": Score(0.0, "crow", "wrong", "too long"),
    }
    record = Record("q1", "ok", response=Response("A crow."))
    for show in (True, False):
        view = answer_view(sample, record, scores, show_target=show)
        page = render([answers_run([view], metrics={p: [Metric("accuracy", 0.0, 1)] for p in scores})])
        assert [word in page.lower() for word in ("corvus", "raven", "rabe")] == [show] * 3
        assert "species" in page and "too long" in page


def test_scores_stand_in_a_table_with_interval_chance_n_and_coverage():
    found = {"strict": [Metric("accuracy", 0.8312, 300, (0.7941, 0.8623), coverage=0.996, chance=0.25)]}
    page = render([answers_run([answer(1)], metrics=found)])
    for text in ("83.1 %", "79.4 – 86.2", "25.0 %", ">300<", "99.6 %"):
        assert text in page


def test_published_text_is_escaped_and_a_page_without_published_tables_has_no_such_section(page, hostile_text):
    assert 'id="published"' not in page
    table = Published(
        hostile_text,
        hostile_text,
        (hostile_text,),
        ("accuracy",),
        "strict",
        (PublishedRow(hostile_text, "model", (0.5,)),),
        (hostile_text,),
    )
    run = structs.replace(answers_run([answer(1)]), published=[table], conditions=[hostile_text])
    page = render([run])
    assert 'id="published"' in page and "50.00" in page
    assert "<img src=x" not in page and page.count("<script") == 4


def test_what_was_measured_and_what_was_published_stand_under_their_own_headings(make_suite):
    page = render([make_suite(conditions=["prompting = cot"])])
    section = re.search(r'<section id="published".*?</section>', page, re.S).group(0)
    measured, published = section.split("Published by Somebody et al. 2025, table 2")
    assert "Measured here, profile <bdi>official</bdi>" in measured and "embedded" in measured
    assert "prompting = cot" in measured and "coverage 80.0 %" in measured
    assert "embedded" not in published and "href=" not in published
    assert "Small-7B" not in measured and "43.38" in published
    assert "Far: seen from a tower." in published


def test_a_letter_that_means_true_is_counted_as_true(make_suite):
    held = data(render([make_suite()]))
    near = [
        (held["questions"][a["q"]], a) for a in held["answers"] if held["questions"][a["q"]]["by"]["task"] == "near"
    ]
    assert {a["v"][0][1] for _, a in near} == {"true", "false"}
    assert all((a["v"][0][1] == q["target"]) == (a["v"][0][0] == "correct") for q, a in near)


def test_runs_side_by_side_are_compared_question_by_question(make_run):
    a, b = make_run("run-a", "embedded"), make_run("run-b", "other", skill=0.3)
    values = [np.array([x.scores["strict"].value for x in one.answers()]) for one in (a, b)]
    found = statistics.compare(values[0], values[1], np.arange(len(values[0])) // 2)
    page = render([a, b], [PairedView("run-a", "run-b", "strict", "accuracy", found)])
    assert f"{100 * found.difference:+.1f}" in page
    assert "cluster sign flips" in page
    for interval, bold in (((0.1, 0.6), " clear"), ((-0.1, 0.6), "")):
        one = PairedView("run-a", "run-b", "strict", "accuracy", structs.replace(found, ci95=interval))
        assert f'class="figure{bold}" data-label="difference"' in render([a, b], [one])
    assert "run-b · official" in page
    held = data(page)
    assert {held["runs"][one["r"]]["name"] for one in held["answers"]} == {"run-a", "run-b"}


def test_the_same_question_of_two_runs_is_stored_once(make_run):
    one, two = data(render([make_run("a")])), data(render([make_run("a"), make_run("b", skill=0.4)]))
    assert len(two["questions"]) == len(one["questions"])
    assert len(two["answers"]) == 2 * len(one["answers"])


def test_a_run_without_an_answer_still_has_a_page():
    page = render([answers_run([], metrics={"strict": [Metric("accuracy", None, 0, None, coverage=0.0)]})])
    assert "–" in page


def test_a_headline_without_a_value_says_why():
    reason = "No value: no answer counts towards this metric or one of its parts."
    none = {"strict": [Metric("overall", None, 0), Metric("usable_rate", 0.0, 1, (0.0, 0.8))]}
    assert reason in render([answers_run([answer(1)], metrics=none)])
    zero = {"strict": [Metric("overall", 0.0, 1, (0.0, 0.8))]}
    assert reason not in render([answers_run([answer(1)], metrics=zero)])


def test_two_runs_of_one_name_are_refused(run):
    with pytest.raises(UsageError, match="different names"):
        render([run, run])
    with pytest.raises(UsageError):
        render([])


def test_a_report_is_written_whole_or_not_at_all(run, tmp_path):
    out = tmp_path / "deep" / "report.html"
    assert write_report([run], out).read_bytes().startswith(b"<!doctype html>")
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StorageError, match="cannot write the report"):
        write_report([run], blocked / "report.html")
