"""The review page: what a reviewer sees and does not see, what is written, and in which order cases come."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from case_runs import ask, write_questions
from starlette.testclient import TestClient

from snellen.errors import UsageError
from snellen.runs.reviews.audit_sample import draw, save_audit_sample
from snellen.runs.reviews.cases import drawable, read_cases
from snellen.runs.reviews.decisions import VerdictReview
from snellen.runs.reviews.journal import ReviewJournal, read_reviews_of
from snellen.viewer.app import view_app
from snellen.viewer.cases.replies import Piece
from snellen.viewer.index import open_index
from snellen.viewer.reviews.blind import NameScrubber, names_to_hide
from snellen.viewer.reviews.case_token import CasePlace, case_token, read_token
from snellen.viewer.site import ViewSettings

MODEL, OTHER = "acme/Sibyl-9B-Chat", "zeno-2"
REPLIES = ["As Sibyl, I say A.", "I am zeno 2 and cannot say.", "C"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three questions by models that name themselves."""
    folder = tmp_path_factory.mktemp("review")
    table = write_questions(folder)
    ask(table, folder / "results" / "sibyl-run", REPLIES, MODEL)
    ask(table, folder / "results" / "zeno-run", ["A", "B", "B"], OTHER)
    return folder / "results"


@pytest.fixture
def root(runs: Path, tmp_path: Path) -> Path:
    """A copy of the runs without any review."""
    import shutil

    shutil.copytree(runs, tmp_path / "results")
    open_index(tmp_path / "results").refresh()
    return tmp_path / "results"


Browser = Callable[..., "Tab"]


class Tab:
    """A reviewer's browser, without scripts."""

    def __init__(self, client: TestClient, root: Path) -> None:
        self.client, self.root, self.html, self.address = client, root, "", ""

    def open(self, address: str) -> str:
        answer = self.client.get(address)
        self.html, self.address = answer.text, str(answer.url)
        return self.html

    def link(self, text: str) -> str:
        return re.search(rf'href="([^"]+)"[^>]*>(?:<bdi>)?{text}', self.html)[1].replace("&amp;", "&")

    def fields(self) -> dict[str, str]:
        found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', self.html))
        return {**found, "note": "", "correction": ""}

    def decide(self, word: str, **fields: str):
        action = re.search(r'action="([^"]+)"', self.html)[1].replace("&amp;", "&")
        answer = self.client.post(
            action, data={**self.fields(), **fields, "decision": word}, headers={"Origin": "http://127.0.0.1"}
        )
        self.html, self.address = answer.text, str(answer.url)
        return answer

    def reviews(self) -> list[VerdictReview]:
        return [review for name in ("sibyl-run", "zeno-run") for review in read_reviews_of(self.root / name)]


@pytest.fixture
def browser_of(root: Path):
    """Return a function that opens a browser with the reviewers that --review names."""

    def make(review: str = "ada") -> Tab:
        client = TestClient(view_app(ViewSettings(root, reviewer=review)), base_url="http://127.0.0.1")
        tab = Tab(client, root)
        tab.open("/review")
        return tab

    return make


def start(tab: Tab, step: str = "Doubtful first") -> str:
    tab.open("/review")
    return tab.open(tab.link(step))


def test_a_case_says_neither_model_nor_run_and_names_in_replies_are_hidden(browser_of):
    tab = browser_of()
    start(tab)
    pages = [tab.html]
    while 'data-key="n"' in tab.html:
        tab.open(tab.link("Next"))
        pages.append(tab.html + tab.address)
    assert len(pages) == 6
    text = "".join(pages)
    for name in ("sibyl", "zeno", "acme"):
        assert name not in text.lower()
    assert "As [name hidden], I say A." in re.sub(r"<mark[^>]*>|</mark>", "", text)
    assert "1 name of models is removed" in text


def test_unparseable_comes_first_and_a_decision_is_written_with_what_was_shown(browser_of):
    tab = browser_of()
    start(tab)
    assert "unparseable" in tab.html and "cannot say" in tab.html
    tab.decide("right", note="it says so itself")
    (review,) = tab.reviews()
    assert (review.sample_id, review.reviewer, review.decision) == ("q/2 ö", "ada", "right")
    assert (review.verdict, review.profile, review.design) == ("invalid", "strict", "queue")
    assert review.note == "it says so itself" and review.digest.startswith("blake2b:") and review.at > 1.7e9
    assert "<b>1</b> of 6 decided" in tab.html and "cannot say" not in tab.html


def test_a_whole_queue_ends_and_undo_brings_the_last_case_back_by_a_new_line(browser_of):
    tab = browser_of()
    start(tab)
    for word in ("right", "wrong", "gold-wrong", "ambiguous", "unreadable", "cannot-tell"):
        tab.decide(word, correction="D" if word == "gold-wrong" else "ignored")
    assert "All 6 are decided" in tab.html
    assert sorted(review.decision for review in tab.reviews()) == sorted(
        ("right", "wrong", "gold-wrong", "ambiguous", "unreadable", "cannot-tell")
    )
    assert [review.correction for review in tab.reviews() if review.correction] == ["D"]
    tab.decide("undo")
    assert "Is the verdict right?" in tab.html and "<b>5</b> of 6 decided" in tab.html
    assert len(tab.reviews()) == 7
    tab.decide("right")
    assert len(tab.reviews()) == 8 and "All 6 are decided" in tab.html


def test_skip_goes_on_and_the_skipped_case_comes_again_at_the_end(browser_of):
    tab = browser_of()
    first = start(tab)
    skipped = re.search(r"no\. \d", first)[0]
    tab.open(tab.link("Skip"))
    assert "<b>0</b> of 6 decided" in tab.html
    for _ in range(5):
        tab.decide("right")
    assert "<b>5</b> of 6 decided" in tab.html and skipped in tab.html and "cannot say" in tab.html


def test_the_same_form_sent_twice_is_one_decision_and_another_word_is_another(browser_of):
    tab = browser_of()
    start(tab)
    page, address = tab.html, tab.address
    for _ in range(3):
        tab.html, tab.address = page, address
        assert tab.decide("wrong").status_code == 200
    assert len(tab.reviews()) == 1
    tab.html, tab.address = page, address
    tab.decide("right")
    assert [review.decision for review in tab.reviews()] == ["wrong", "right"]


def test_the_same_undo_sent_twice_withdraws_one_decision(browser_of):
    tab = browser_of()
    start(tab)
    for _ in range(3):
        tab.decide("right")
    page, address = tab.html, tab.address
    for _ in range(3):
        tab.html, tab.address = page, address
        assert tab.decide("undo").status_code == 200 and "<b>2</b> of 6 decided" in tab.html
    assert sorted(str(review.decision) for review in tab.reviews()) == ["None", "right", "right", "right"]
    for _ in range(2):
        tab.decide("wrong")
    tab.html, tab.address = page, address
    refused = tab.decide("undo")
    assert refused.status_code == 400 and "nothing was undone" in refused.text and len(tab.reviews()) == 6


def test_reviewers_do_not_see_each_other_until_they_adjudicate(browser_of):
    ada, bob = browser_of("ada"), browser_of("bob")
    start(ada)
    ada.decide("right", note="a secret remark")
    start(bob)
    assert "secret" not in bob.html and "<b>0</b> of 6 decided" in bob.html
    bob.decide("wrong")
    start(bob, "Agreement")
    assert "1 replies are disputed" in bob.html and ">1</td>" in bob.html
    carl = browser_of("carl")
    start(carl, "Adjudicate")
    assert "secret remark" in carl.html and "What counts?" in carl.html
    for name in ("sibyl", "zeno"):
        assert name not in carl.html.lower()
    carl.decide("right")
    assert "Reviewers disagree about no reply" in carl.html
    assert [review.adjudicates for review in carl.reviews()] == [False, False, True]


def test_two_names_are_chosen_between_in_the_browser_and_other_names_are_refused(browser_of):
    tab = browser_of("ada, bob")
    start(tab)
    assert "Who reviews in this browser?" in tab.html
    tab.open(tab.link("bob"))
    tab.decide("right")
    assert [review.reviewer for review in tab.reviews()] == ["bob"]
    assert "reviewer=bob" in tab.address
    refused = tab.client.get(tab.address.replace("reviewer=bob", "reviewer=eve"))
    assert refused.status_code == 400 and "none of the reviewers" in refused.text


def test_without_a_reviewer_the_pages_only_show(browser_of, root):
    tab = browser_of("")
    start(tab)
    assert "<form" not in tab.html.split("<dialog")[0] and "snellen view --review NAME" in tab.html
    case = case_token(CasePlace("zeno-run", "q1", 0))
    address = f"/review?benchmark=x&step=queue&case={case}"
    answer = tab.client.post(address, data={"decision": "right"}, headers={"Origin": "http://127.0.0.1"})
    assert answer.status_code == 400 and "nobody reviews here" in answer.text
    assert not (root / "zeno-run" / "reviews.jsonl").exists()


@pytest.mark.parametrize(
    ("case", "fields"),
    [
        (case_token(CasePlace("../../etc", "q1", 0)), {"decision": "right"}),
        (case_token(CasePlace("zeno-run", "no such", 0)), {"decision": "right"}),
        (case_token(CasePlace("zeno-run", "q1", 7)), {"decision": "right"}),
        ("AAAA", {"decision": "right"}),
        (case_token(CasePlace("zeno-run", "q1", 0)), {"decision": "maybe"}),
        (case_token(CasePlace("zeno-run", "q1", 0)), {}),
        (case_token(CasePlace("zeno-run", "q1", 0)), {"decision": "right", "note": "x" * 5_000}),
        (case_token(CasePlace("zeno-run", "q1", 0)), {"decision": "right", "verdict": "<script>"}),
        (case_token(CasePlace("zeno-run", "q1", 0)), {"decision": "undo"}),
    ],
)
def test_a_forged_form_is_refused_in_words_and_writes_nothing(browser_of, root, case, fields):
    tab = browser_of()
    start(tab)
    benchmark = re.search(r"benchmark=([^&\"]+)", tab.html)[1]
    answer = tab.client.post(
        f"/review?benchmark={benchmark}&step=queue&case={case}", data=fields, headers={"Origin": "http://127.0.0.1"}
    )
    assert answer.status_code in (400, 404) and "problem" in answer.text and "Traceback" not in answer.text
    assert tab.reviews() == [] and not list(root.rglob("etc"))


def test_cases_of_the_audit_come_from_the_draw_and_only_decisions_of_the_audit_count_for_it(browser_of, root):
    from snellen.runs.run import load_run

    tab = browser_of()
    assert "No audit sample was drawn" in start(tab, "Audit sample")
    start(tab)
    tab.decide("right")  # q/2 of sibyl-run, before the draw
    run = root / "sibyl-run"
    population, excluded = drawable(read_cases(load_run(run)))
    save_audit_sample(run, draw(population, 3, seed=1, excluded=excluded))
    start(tab, "Audit sample")
    assert "<b>0</b> of 3 decided" in tab.html
    for _ in range(3):
        tab.decide("right")
    assert "All 3 are decided" in tab.html
    assert [review.design for review in read_reviews_of(run)] == ["queue", "audit", "audit", "audit"]
    start(tab)
    assert "<b>3</b> of 6 decided" in tab.html  # they count for the queue too


def test_a_damaged_journal_is_named_and_the_others_are_reviewed(browser_of, root):
    (root / "sibyl-run" / "reviews.jsonl").write_text('{"sample_id": "q1", "reviewer": "bob", "decision": "ri')
    tab = browser_of()
    assert (
        "sibyl-run/reviews.jsonl: 1 torn line" in tab.html
        and str(root) not in tab.html.split("<main")[1].split('data-label="review"')[0]
    )
    start(tab)
    tab.decide("wrong")
    assert [review.decision for review in tab.reviews()] == ["wrong"]


def test_decisions_of_another_process_are_seen_at_once(browser_of, root):
    tab = browser_of()
    start(tab)
    for sample_id in ("q1", "q/2 ö", "q3"):
        for name in ("sibyl-run", "zeno-run"):
            ReviewJournal(root / name).append(
                VerdictReview(sample_id=sample_id, reviewer="ada", decision="right", design="queue")
            )
    assert "All 6 are decided" in start(tab)


def test_a_token_returns_its_case_hides_the_run_and_survives_any_text():
    places = [CasePlace("run/a", "q1", 0), CasePlace("run/a", "q1", 1), CasePlace("ünï/b", "x" * 3_000, 12)]
    tokens = [case_token(place) for place in places]
    assert [read_token(token) for token in tokens] == places
    assert tokens[0][:4] != tokens[1][:4] and "run" not in tokens[0]
    for text in ("", "A", "é", tokens[0][:-2], tokens[0] + "A", "=" * 50, "x" * 20_000):
        with pytest.raises(UsageError, match="names no case"):
            read_token(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I am Qwen2.5-VL-7B-Instruct by Qwen.", "I am [name hidden] by [name hidden]."),
        ("QWEN, that is me; qwen2.5 vl 7b instruct", "[name hidden], that is me; [name hidden]"),
        ("The embedded stone, a chat, instruct", "The embedded stone, a chat, instruct"),
        ("Claude thinks, claude-opus-9 says", "[name hidden] thinks, [name hidden] says"),
        ("a gemini in the sky", "a gemini in the sky"),
        ("Qwench is a word", "Qwench is a word"),
    ],
)
def test_names_of_models_are_hidden_but_not_words_of_the_question(text, expected):
    names = names_to_hide(
        ["local:Qwen/Qwen2.5-VL-7B-Instruct", "api:claude-opus-9", "embedded", "api:gemini-3"], ["Is Gemini visible?"]
    )
    assert NameScrubber(names).text(text) == expected


def test_a_name_that_the_mark_of_the_answer_cuts_is_hidden_as_a_whole():
    scrubber = NameScrubber(names_to_hide([MODEL]))
    pieces = (
        Piece("As Sibyl-9"),
        Piece("B", 1),
        Piece(" I say "),
        Piece("A", 1),
        Piece("", omitted=7),
        Piece(" Sibyl"),
    )
    scrubbed = scrubber.pieces(pieces)
    assert [(piece.text, piece.mark) for piece in scrubbed if not piece.omitted] == [
        *(("As [name hidden]", 0), (" I say ", 0), ("A", 1), (" [name hidden]", 0)),
    ]
    assert scrubber.count == 2


def test_of_many_samples_the_most_doubtful_are_queued_at_first_and_more_when_they_are_decided(
    browser_of, root, monkeypatch
):
    from snellen.viewer.reviews.desk import ReviewDesk

    index = open_index(root)
    entries = sorted(index.runs(), key=lambda entry: entry.key)
    few = ReviewDesk().doubtful(index, entries, "", rows=1)
    everything = ReviewDesk().doubtful(index, entries, "")
    assert len(few.cases) == 4 and few.total == len(everything.cases) == 6
    assert few.cases[0] == everything.cases[0] and "unparseable" in few.cases[0].doubts
    divided = [case.place.sample_id for case in everything.cases if "models disagree" in case.doubts]
    assert sorted(divided) == ["q/2 ö", "q/2 ö", "q3", "q3"]
    whole = ReviewDesk.doubtful
    monkeypatch.setattr(
        ReviewDesk, "doubtful", lambda self, index, runs, profile, rows=1: whole(self, index, runs, profile, rows)
    )
    tab = browser_of()
    start(tab)
    for _ in range(6):
        tab.decide("right")
    assert len(tab.reviews()) == 6 and "Is the verdict right?" not in tab.html


def test_more_runs_than_stand_side_by_side_are_queued_in_groups(root, monkeypatch):
    from snellen.viewer.reviews import desk

    index = open_index(root)
    entries = sorted(index.runs(), key=lambda entry: entry.key)
    together = desk.ReviewDesk().doubtful(index, entries, "")
    monkeypatch.setattr(desk, "MOST_RUNS", 1)
    apart = desk.ReviewDesk().doubtful(index, entries, "")
    assert {case.place for case in apart.cases} == {case.place for case in together.cases}
    assert apart.total == together.total == 6
    assert "unparseable" in apart.cases[0].doubts
    assert any("1 runs at a time" in note for note in apart.notes) and not together.notes


def test_fewer_samples_of_many_runs_are_queued_at_first(root, monkeypatch):
    from snellen.viewer.reviews import desk

    index = open_index(root)
    entries = sorted(index.runs(), key=lambda entry: entry.key)
    monkeypatch.setattr(desk, "FIRST_REPLIES", 2)
    monkeypatch.setattr(desk, "FEWEST_ROWS", 1)
    few = desk.ReviewDesk().doubtful(index, entries, "")
    assert len(few.cases) == 4 and few.total == 6
