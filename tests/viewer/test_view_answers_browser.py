"""People answer questions in real browsers: blind, timed, resumable, and scored like a model."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unicodedata import normalize
from urllib.parse import urlencode

import pytest
from browser_checks import check_page, every_shape, opened, served_by_command, serving, wait_decided, wait_loaded
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from snellen.benchmarks.base import Data
from snellen.benchmarks.registry import find
from snellen.cli import main
from snellen.engine.run_folder import RunFolder
from snellen.errors import RunError, UsageError
from snellen.runs.reviews.answer_cases import ANSWERS, LONGEST_REPLY, QuestionCases
from snellen.runs.run import load_run
from snellen.types import Text
from snellen.viewer.pages.review import _texts

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install 'snellen[dev]'")
pytestmark = pytest.mark.browser

DIGITS = {sample.id: sample for sample in find("chart/digits").samples(Data())}
LIMIT = 6
NAMES = ("ada", "Bob Ross")


def answering(out: Path):
    """`snellen answer` as a process of its own, and its address."""
    return served_by_command("answer", "chart/digits", "--limit", LIMIT, "--out", out)


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Press Ctrl-C as a person does; return what it prints, stdout and stderr."""
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


def enter(page, address: str, name: str) -> None:
    """Give a name and begin, by the keyboard alone."""
    page.goto(address)
    sync_api.expect(
        page.locator("[name=reviewer]")
    ).to_be_focused()  # by the browser, some time after the page is there
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    wait_loaded(page, "[data-key=g]")
    page.keyboard.press("g")
    wait_loaded(page, "form.decide")


def assert_blind(text: str) -> None:
    """Fail if a page holds an id, a key of a picture, or a word about what is right."""
    text = re.sub(r"<(script|style|head)>.*?</\1>", "", text, flags=re.DOTALL)
    found = re.search(r"digit-\d|\bgold\b|\bcorrect\b|chart/digits@|\bembedded\b", text)
    assert found is None, text[max(0, found.start() - 200) : found.end() + 200]


def shown_sample(page):
    """Return the sample on the page, after a look at its texts and pictures."""
    assert_blind(page.content())
    texts = page.locator(".exhibit .text").all_inner_texts()
    places = re.search(r"case=(\d+)", page.locator("form.decide").get_attribute("action"))
    sample = list(DIGITS.values())[int(places[1]) - 1]
    assert texts == [part.text for part in sample.prompt.parts if hasattr(part, "text")]
    assert page.locator(".exhibit img").count() == len(sample.prompt.parts) - len(texts)
    return sample


def reply_by_keys(page, answer) -> str:
    """Answer the question on the page by keys, as `answer` says from the sample; return the reply that is to be recorded."""
    reply = answer(shown_sample(page))
    number = int(re.search(r"(\d+) of", page.locator("#review-status").inner_text())[1])
    if page.locator("[name=reply]").count():
        if reply:
            page.keyboard.type(reply)  # the field has the focus
            page.keyboard.press("Enter")
        else:
            page.keyboard.press("Escape")
            page.keyboard.press("0")
    else:
        button = page.locator(f'.buttons [value="{reply or "cannot tell"}"]')
        page.keyboard.press(button.get_attribute("data-key"))
    wait_decided(page, number + 1)
    return reply


def truth(sample, value: bool) -> str:
    """Return a truth value in the form that the question asks for."""
    words = ("yes", "no") if "yes or no" in sample.prompt.parts[-1].text else ("T", "F")
    return words[not value]


def right(sample) -> str:
    if sample.kind == "truth":
        return truth(sample, sample.target)
    return sample.target if sample.kind == "choice" else str(int(sample.target))


def careless(sample) -> str:
    """Say that a written one cannot be told, and take the first of the others."""
    return truth(sample, True) if sample.kind == "truth" else "A" if sample.kind == "choice" else ""


@contextmanager
def person(browser, address: str, name: str) -> Iterator[object]:
    """Begin in a browser of one's own."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    enter(page, address, name)
    yield page
    context.close()


def test_two_people_answer_by_keyboard_one_resumes_and_both_are_scored_beside_a_model(browser, tmp_path, capsys):
    out, said = tmp_path / "people", {}
    with answering(out) as (server, address):
        for name, answer, count in (("ada", right, LIMIT), ("Bob Ross", careless, LIMIT // 2)):
            with person(browser, address, name) as page:
                said[name] = [reply_by_keys(page, answer) for _ in range(count)]
                if name == "ada":
                    sync_api.expect(page.get_by_text(f"All {LIMIT} are answered.")).to_be_visible()
        printed = ended(server)
    assert "human:ada" in printed[0] and "human:Bob Ross" in printed[0]
    assert printed[1].count(f"human:Bob Ross: {LIMIT // 2} of {LIMIT} questions have no answer") == 1, printed
    assert "Bob Ross and ada: 0.0% of 3" in printed[1] and "kappa" in printed[1]
    assert RunFolder(out / "Bob Ross").meta().state == "partial" and RunFolder(out / "ada").meta().state == "complete"
    with answering(out) as (server, address), person(browser, address, "Bob Ross") as page:
        sync_api.expect(page.locator("#review-status")).to_contain_text(f"{LIMIT // 2} of {LIMIT} answered")
        page.keyboard.press("Escape")
        page.keyboard.press("u")  # the last one of the day before, once more
        wait_decided(page, LIMIT // 2 - 1)
        said["Bob Ross"][-1:] = [reply_by_keys(page, careless) for _ in range(LIMIT // 2 + 1)]
        ended(server)
    for name, replies in said.items():
        run = load_run(out / name)
        assert run.meta.state == "complete" and run.meta.spec.model == f"human:{name}"
        records = {record.sample_id: record.response for record in run.folder.records()}
        assert sorted(response.text for response in records.values()) == sorted(replies)
        assert all(0 < response.latency_s < 600 for response in records.values())
    assert (
        main(["run", "chart/digits", "--model", "embedded", "--limit", str(LIMIT), "--out", str(out / "m"), "-q"]) == 0
    )
    capsys.readouterr()
    assert main(["score", str(out / "ada"), "--json"]) in (0, None)
    metric = json.loads(capsys.readouterr().out)
    assert '"accuracy"' in json.dumps(metric)
    assert main(["compare", str(out / "m"), str(out / "ada")]) in (0, None)
    names = [str(out / name) for name in ("m", "ada", "Bob Ross")]
    assert main(["report", *names, "--out", str(tmp_path / "report.html")]) in (0, None)
    assert "human:ada" in (tmp_path / "report.html").read_text("utf-8")
    mean = (
        "SELECT profile, avg(value) AS mean, count(*) AS people FROM metrics WHERE name = 'accuracy' GROUP BY profile"
    )
    capsys.readouterr()
    assert main(["query", mean, *names[1:], "--json"]) in (0, None)
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert all(people == 2 and 0.5 <= mean < 1 for _, mean, people in rows)
    assert main(["failures", names[2]]) in (0, None)
    assert main(["export", names[2], "--format", "lm-eval", "--out", str(tmp_path / "exported")]) in (0, None)
    capsys.readouterr()
    imported = ["import", str(out / "ada" / ANSWERS), "--benchmark", "chart/digits", "--out", str(tmp_path / "again")]
    assert main(imported) in (0, None) and load_run(tmp_path / "again").meta.spec.model == "human:ada"


def post(address: str, state: dict[str, str], fields: dict[str, str]) -> tuple[int, str]:
    """Send a form as a page does; return status and text."""
    origin = re.match(r"http://[^/]+", address)[0]
    request = urllib.request.Request(
        f"{origin}/review?{urlencode(state)}", urlencode(fields).encode(), {"Origin": origin}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=600) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_hostile_answers_and_names_are_kept_as_text_or_refused_with_a_reason(tmp_path, capsys):
    table = tmp_path / "q.csv"
    table.write_text("id,question,answer\nq1,Which bird is this?,wren-gold\n", "utf-8")
    hostile = ["<script>alert(1)</script>", "\x1b[31m\x00 and \x07", '"]}{{ 7*7 }}', "wren " * 2000]
    with (
        closing(QuestionCases(str(table), Data(path=table), tmp_path, 1)) as cases,
        serving(tmp_path, cases=cases) as at,
    ):
        for number, reply in enumerate(hostile):
            state = {"step": "queue", "reviewer": "ada", "case": "1"}
            status, text = post(at, state, {"decision": "answer", "reply": reply, "id": str(number)})
            assert status == 200 and "<script>alert" not in text and "wren-gold" not in text
            assert cases._people["ada"].given["q1"].reply == reply.strip()
            page = urllib.request.urlopen(f"{at}/review?{urlencode(state)}").read().decode()
            assert ("<script>alert" not in page and "{{ 7*7 }}" in page) or number != 2
        refused = [
            ({"decision": "answer", "reply": "x" * 100_000}, f"Use at most {LONGEST_REPLY:,}."),
            ({"decision": "answer", "reply": " \n "}, "the answer is empty"),
            ({"decision": "q1"}, "the form holds no answer to this question"),
        ]
        for fields, why in refused:
            status, text = post(at, state, fields)
            assert status == 400 and why in text
        for name in ("../x", "..", "a/b", "a\\b", ".hidden", "x" * 61, "ada."):
            status, text = post(at, {**state, "reviewer": name}, {"decision": "cannot tell"})
            assert status == 400 and "cannot name a folder" in text, name
        assert post(at, {**state, "case": "2"}, {"decision": "cannot tell"})[0] == 400
        assert post(at, {**state, "reviewer": "Zoë 李"}, {"decision": "cannot tell"})[0] == 200
        (run,) = [run for run in cases.runs() if run.path.name == "ada"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["Zoë 李", "ada"]
    assert [record.response.text for record in run.folder.records()] == [hostile[-1].strip()]


def test_a_name_with_marks_is_one_name_in_both_spellings(tmp_path):
    table = tmp_path / "q.csv"
    table.write_text("id,question,answer\nq1,How many?,5\n", "utf-8")
    names = {"मीरा", "Zoe\u0308", "Zo\u00eb", "ไก่", "Nguye\u0302\u0303n", "مُحَمَّد"}
    with closing(QuestionCases(str(table), Data(path=table), tmp_path)) as cases, serving(tmp_path, cases=cases) as at:
        for name in names:
            state = {"step": "queue", "reviewer": name, "case": "1"}
            assert post(at, state, {"decision": "answer", "reply": "5"})[0] == 200, name
        for name in ("\u0301ada", "ada/\u0301", "क" * 61, "x\u0301" * 40):
            status, text = post(at, {**state, "reviewer": name}, {"decision": "answer", "reply": "5"})
            assert status == 400 and ("cannot name a folder" in text or "reviewer" in text), name
    folders = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert folders == {normalize("NFC", name) for name in names} and len(folders) == 5


def test_people_are_told_no_texts_of_files_and_their_keys_in_words_of_answering(tmp_path):
    info = PngInfo()
    info.add_text("Description", "label: hammerhead")
    Image.new("RGB", (40, 30), (9, 90, 200)).save(tmp_path / "1.png", pnginfo=info)
    exif = Image.Exif()
    exif[0x010E] = "label: hammerhead"
    exif[0x0112] = 6
    Image.new("RGB", (40, 30), (200, 90, 9)).save(tmp_path / "2.jpg", exif=exif)
    table = tmp_path / "q.csv"
    table.write_text("id,image,question,answer\na,1.png,What is it?,a\nb,2.jpg,What is it?,b\n", "utf-8")
    with closing(QuestionCases(str(table), Data(path=table), tmp_path)) as cases, serving(tmp_path, cases=cases) as at:
        for case, size in (("1", (40, 30)), ("2", (30, 40))):
            state = {"step": "queue", "reviewer": "ada", "case": case}
            page = urllib.request.urlopen(f"{at}/review?{urlencode(state)}").read().decode()
            links = set(re.findall(r'(?:src|href)="([^"]*/images?/[^"]+)"', page))
            assert links
            for link in links:
                data = urllib.request.urlopen(at + link).read()
                assert b"hammerhead" not in data and Image.open(io.BytesIO(data)).size == size
            helped = re.findall(r'data-key-help="([^"]*)"', page)
            assert not any("case" in each or "review" in each for each in helped), helped
            assert "skip to the next question that is not answered" in helped and "select the row" not in page


def test_rows_left_out_are_named_and_coverage_is_told_once(tmp_path, monkeypatch, capsys):
    import snellen.viewer.serve

    monkeypatch.setattr(snellen.viewer.serve, "serve", lambda *_, **__: None)
    monkeypatch.chdir(tmp_path)
    Path("q.csv").write_text("id,question,answer\n1,ما لون السماء؟,أزرق\n2,,x\n3,كم؟,5\n4,متى؟,7\n", "utf-8")
    with closing(QuestionCases("q.csv", Data(), tmp_path / "out", 2)) as cases:
        (tmp_path / "out").mkdir()
        cases.show(1, "queue", "ada")
        cases.decide(1, "queue", "ada", {"decision": "answer", "reply": "أزرق"}, "x")
    capsys.readouterr()
    assert main(["answer", "q.csv", "--limit", "2", "--out", "out"]) == 0
    said = capsys.readouterr()
    assert "q.csv: 1 of 4 rows are left out: row 2 (line 3) (id 2): its question is empty" in said.err
    assert "1 of 2 questions have no answer in the file" in said.err and "the scores cover" not in said.err


def test_where_a_text_stands_before_a_picture_its_place_is_marked():
    picture = find("chart/digits").samples(Data()).__next__().prompt.parts[0]
    assert list(_texts((picture, Text("Which?")))) == ["Which?"]
    assert list(_texts((Text("First"), picture, Text("or"), picture))) == ["First", "[image 1]", "or", "[image 2]"]


def asked(tmp_path: Path, **settings) -> QuestionCases:
    return QuestionCases("chart/digits", Data(), tmp_path, 4, **settings)


def answer_to(cases: QuestionCases, name: str, place: int, reply: str = "cannot tell") -> float:
    cases.decide(place, "queue", name, {"decision": reply}, "")
    return list(cases._people[name].given.values())[-1].seconds


def test_the_clock_of_a_question_runs_while_it_is_shown_and_a_reload_or_a_break_changes_nothing(tmp_path):
    now = [100.0]
    with closing(asked(tmp_path, time_limit=20, clock=lambda: now[0])) as cases:

        def shown(place: int, seconds: float) -> None:
            cases.show(place, "queue", "ada")
            now[0] += seconds

        shown(1, 3)
        shown(1, 4)  # loaded again
        assert answer_to(cases, "ada", 1) == 7
        shown(2, 5)
        cases.rows("ada")
        now[0] += 3600  # a break on the list of questions
        shown(2, 6)
        shown(3, 2)
        shown(2, 1)
        assert answer_to(cases, "ada", 2) == 12
        shown(3, 19)
        assert answer_to(cases, "ada", 3) == 21 and list(cases._people["ada"].given.values())[-1].late
        assert answer_to(cases, "ada", 4) == 0  # a page of a server that was stopped
        shown(1, 2)
        assert answer_to(cases, "ada", 1) == 9
        runs = cases.runs()
    responses = {record.sample_id: record.response for record in runs[0].folder.records()}
    ids = list(responses)
    assert [responses[name].finish_reason for name in ids] == ["", "", "late", ""]
    with closing(asked(tmp_path, clock=lambda: now[0])) as cases:
        cases.show(1, "queue", "ada")
        now[0] += 1
        assert answer_to(cases, "ada", 1) == 10  # seconds of earlier days count too


def test_the_order_is_a_person_s_own_the_same_again_and_that_of_the_benchmark_where_asked_for(tmp_path):
    def order(name: str, **settings) -> list[int]:
        with closing(QuestionCases("chart/digits", Data(**settings), tmp_path, 40)) as cases:
            return [case.place for case in cases.queue("queue", name).cases]

    assert order("ada") == order("ada") != order("bob") and order("ada", seed=1) != order("ada")
    assert sorted(order("ada")) == list(range(1, 41))
    given = asked(tmp_path, shuffled=False)
    assert [case.place for case in given.queue("queue", "ada").cases] == [1, 2, 3, 4]


def test_answers_to_other_questions_and_growing_questions_are_refused(tmp_path):
    table = tmp_path / "q.csv"
    table.write_text("id,question,answer\nq1,Which bird is this?,wren\n", "utf-8")
    with closing(QuestionCases(str(table), Data(path=table), tmp_path)) as cases:
        assert cases.about == "q, 1 question"  # no path
        cases.decide(1, "queue", "ada", {"decision": "answer", "reply": "wren"}, "a")
        cases.decide(1, "queue", "ada", {"decision": "answer", "reply": "wren"}, "a")  # sent twice
        assert len((tmp_path / "ada" / ANSWERS).read_bytes().splitlines()) == 1
    table.write_text("id,question,answer\nq1,Which fish is this?,pike\n", "utf-8")
    with pytest.raises(RunError, match="other questions"):
        QuestionCases(str(table), Data(path=table), tmp_path)
    with pytest.raises(UsageError, match="follow from answers"):
        QuestionCases("acuity", Data(), tmp_path)


def test_nobody_sees_the_agreement_before_having_answered_all(tmp_path):
    with closing(asked(tmp_path)) as cases:
        for name, count in (("ada", 4), ("bob", 3)):
            for place in range(1, count + 1):
                answer_to(cases, name, place)
        assert cases.agreement("bob")[0].pairs == () and len(cases.agreement("ada")[0].pairs) == 1


@every_shape
def test_every_shape_of_the_page_is_quiet_and_fits(browser, tmp_path, width, theme):
    with closing(asked(tmp_path, time_limit=30)) as cases:
        for place in (1, 2, 3, 4):
            answer_to(cases, "ada", place)
        answer_to(cases, "bob", 1)
        with serving(tmp_path, cases=cases) as at:
            states = [{"reviewer": "bob", "step": "queue", "case": str(place)} for place in (1, 2, 3)]
            states += [{"reviewer": "ada", "step": step} for step in ("", "queue", "agreement")]
            for state in [{}, *states, {"reviewer": "bob"}, {"reviewer": "bob", "step": "agreement"}]:
                with opened(browser, f"{at}/review?{urlencode(state)}", width=width, theme=theme) as page:
                    check_page(page)
