"""The rules of each stage by themselves: what names an answer, what decides, who may send a form."""

from __future__ import annotations

import asyncio
import json
import re
import zipfile
from contextlib import contextmanager

import pytest
import setting
from sklearn.metrics import cohen_kappa_score
from starlette.testclient import TestClient

from snellen.curation import evidence, leaks, model_filter, near_duplicates, stages
from snellen.curation.release import pack
from snellen.curation.review_cases import Opinion, agreement, open_review, path_of, read_all
from snellen.curation.web import fetch_by, settings_of
from snellen.curation.workspace import open_work
from snellen.errors import DataError, RunError, UsageError
from snellen.models.base import ModelOptions
from snellen.runs.reviews.decisions import standing
from snellen.scoring.class_names import find, in_address
from snellen.scoring.statistics.agreement import cohen
from snellen.viewer.app import view_app
from snellen.viewer.site import ViewSettings


@pytest.fixture
def work(place, tmp_path):
    return open_work(tmp_path / "work", place / "candidates.jsonl", place / "images")


@pytest.mark.parametrize(
    ("text", "form", "found"),
    [
        ("Photos of Sea Lions in Monterey", "sea lion", True),
        ("A caterpillar on a leaf", "cat", False),
        ("Boeing 737 800 at the gate", "737-800", True),
        ("红嘴蓝鹊 - 百科", "蓝鹊", True),
        ("The sea. Lions eat", "sea lion", False),
        ("Björk's café", "Cafe", True),
    ],
)
def test_a_name_counts_as_whole_words_in_one_sentence(text, form, found):
    assert (find(text, [form]) is not None) == found


def test_a_name_in_an_address_or_a_file_name_counts():
    assert in_address("https://x.example/wiki/Sea_lion%20photo.jpg", ["sea lion"])
    assert not in_address("https://x.example/sealants", ["sea"])


def test_kappa_is_that_of_scikit_learn_and_undefined_where_all_said_one_thing():
    left = ["accept", "accept", "reject", "edit", "accept", "reject", "accept"]
    right = ["accept", "reject", "reject", "edit", "accept", "accept", "edit"]
    assert cohen(("a", "b"), left, right).kappa == pytest.approx(cohen_kappa_score(left, right))
    assert cohen(("a", "b"), ["accept"] * 4, ["accept"] * 4).kappa is None
    assert cohen(("a", "b"), [], []).observed is None


def test_agreement_counts_what_was_said_before_the_other_could_be_seen():
    said = [Opinion(id="1", reviewer=who, say=say) for who, say in (("a", "accept"), ("b", "reject"), ("b", "accept"))]
    assert agreement(said, ["1"], 2)[0].observed == 0.0


def test_candidates_as_csv_are_the_same_candidates(place, work, tmp_path):
    other = open_work(tmp_path / "csv", setting.as_csv(place), place / "images")
    assert other.candidates == work.candidates


def test_faults_of_the_candidates_are_named_by_line_and_nothing_is_begun(place, tmp_path):
    rows = [json.loads(line) for line in (place / "candidates.jsonl").read_text().splitlines()[:3]]
    rows[1]["answer"], rows[2]["evidence"] = "", ["file:///etc/passwd"]
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"(?s)line 2: answer is missing.*line 3: evidence 'file:"):
        open_work(tmp_path / "work", path, place / "images")
    assert not (tmp_path / "work").exists()


def test_a_working_folder_takes_no_other_candidates(place, work, tmp_path):
    other = tmp_path / "other.jsonl"
    other.write_text("\n".join((place / "candidates.jsonl").read_text().splitlines()[:40]))
    with pytest.raises(RunError, match="with other candidates"):
        open_work(work.path, other, place / "images")


def test_a_failed_try_keeps_a_candidate_undecided_until_it_is_asked_again(work, monkeypatch):
    monkeypatch.setenv("STUB_KEY", "k")
    failing = work.candidates[7].sha256
    with setting.Endpoint({failing: ["!"]}) as server:
        options = ModelOptions(base_url=server.url, key_env="STUB_KEY")
        found = stages.filter_hard(work, ["api:stub"], options=options)
        assert found.counts() == {"entered": 50, "keep": 49, "drop": 0, "undecided": 1}
        server.replies[failing] = [setting.answer(7)]
        found = stages.filter_hard(work, ["api:stub"], options=options)
    assert found.counts() == {"entered": 50, "keep": 49, "drop": 1, "undecided": 0}


def test_a_known_candidate_is_dropped_even_where_other_tries_failed(work):
    one = work.candidates[0]
    assert model_filter.decide(one, [model_filter.Tries("m", 3, 2, 1)], 1).verdict == "drop"
    assert model_filter.decide(one, [model_filter.Tries("m", 3, 1, 1)], 1).verdict == "undecided"
    assert model_filter.decide(one, [model_filter.Tries("m", 3, 1, 0)], 1).verdict == "keep"


def test_a_judge_can_decide_what_is_right(work, monkeypatch):
    for name in ("STUB_KEY", "JUDGE_API_KEY"):
        monkeypatch.setenv(name, "k")
    with setting.Endpoint({"text": [json.dumps({"verdict": "correct", "reason": "same"})]}) as server:
        options = ModelOptions(base_url=server.url, key_env="STUB_KEY")
        judge = {"correct": "judge", "judge": "api:judge", "judge_base_url": server.url}
        found = stages.filter_hard(work, ["api:stub"], options=options, **judge)
    assert found.counts()["drop"] == 50


def test_an_evidence_judge_that_disagrees_drops_the_candidate(place, work, monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", "k")
    fetch = evidence.PagesFolder(place / "pages")
    with setting.Endpoint({"text": [json.dumps({"supports": "no", "why": "another thing"})]}) as server:
        found = stages.check_evidence(work, fetch, judge="api:judge", base_url=server.url, skip=("hard", "leaks"))
        assert server.asked == 50 - len(setting.UNSUPPORTED)
    assert found.counts()["keep"] == 0
    assert {one.detail["links"][0]["problem"] for one in found.decisions[:5]} == {"the judge found no support"}


def test_a_page_that_fails_for_a_while_is_fetched_again_and_a_gone_one_is_not(work):
    asked: list[str] = []

    async def fetch(url):
        asked.append(url)
        if url.endswith("/3"):
            raise evidence.Unavailable("no answer", lasting=False)
        if url.endswith("/4"):
            raise evidence.Unavailable("HTTP 404", lasting=True)
        return evidence.EvidencePage(b"<html><body>nothing</body></html>", "text/html")

    first = stages.check_evidence(work, fetch, skip=("hard", "leaks"))
    assert [one.verdict for one in first.decisions[2:6]] == ["drop", "undecided", "drop", "drop"]
    asked.clear()
    stages.check_evidence(work, fetch, skip=("hard", "leaks"))
    assert asked == ["https://sources.example/3"]


@pytest.mark.parametrize("kind", ["pages", "collection"])
def test_a_page_of_a_local_collection_that_changed_is_read_again_and_no_other(work, tmp_path, kind):
    folder = tmp_path / "local"
    folder.mkdir()

    def source():
        if kind == "collection":
            return fetch_by(settings_of(None, folder))
        return evidence.CollectionFetch(evidence.PagesFolder(folder), evidence.collection_of(folder))

    def put(text):
        row = {"url": "https://a.example/1", "text": text}
        if kind == "pages":
            (folder / "1.txt").write_text(text)
            row = {"url": "https://a.example/1", "file": "1.txt", "content_type": "text/plain"}
        (folder / "pages.jsonl").write_text(json.dumps(row) + "\n")

    def read(fetch):
        known = asyncio.run(evidence.fetch_all(work, ["https://a.example/1", "https://a.example/2"], fetch))
        return evidence.text_of(work, known["https://a.example/1"]).strip(), known["https://a.example/2"].settled

    put("a wren")
    assert read(source()) == ("a wren", True)
    lines = (work.folder("evidence") / "fetched.jsonl").read_text()
    assert read(source())[0] == "a wren"
    assert (work.folder("evidence") / "fetched.jsonl").read_text() == lines, "nothing has changed"
    put("a tern")
    assert read(source())[0] == "a tern"

    async def network(url):
        raise AssertionError(f"{url} is fetched from elsewhere")

    assert read(network)[0] == "a tern"


def test_a_failed_search_leaves_its_candidate_undecided_and_is_made_again(work):
    async def broken(picture, k):
        raise OSError("the engine is down")

    async def works(picture, k):
        return [{"url": "https://x.example/a", "title": "a picture", "similarity": None}]

    told: list[str] = []
    found = stages.audit_leaks(work, broken, "e", skip=("hard",), notify=told.append)
    assert found.counts()["undecided"] == 50 and len(told) == 49  # two candidates share a picture
    found = stages.audit_leaks(work, works, "e", skip=("hard",))
    assert found.counts() == {"entered": 50, "keep": 49, "drop": 1, "undecided": 0}
    assert stages.audit_leaks(work, None, "e", skip=("hard",)).decisions == found.decisions


def test_copies_are_found_and_other_creatures_are_told_apart(place):
    pictures = setting.pictures()
    assert (
        near_duplicates.distance(
            near_duplicates.hashes(pictures[0]), near_duplicates.hashes(setting.with_exif(pictures[0]))
        )
        is not None
    )
    assert near_duplicates.copies([*pictures[:3], pictures[1]])[3][0] == 1


def test_a_stage_refuses_to_run_before_those_that_it_builds_on(work):
    with pytest.raises(RunError, match="stage hard has not been run"):
        stages.close_review(work)
    with pytest.raises(UsageError, match="no finding 'name'"):
        leaks.LeakRule(drop=("name",)).checked()


EARLIER = ("hard", "leaks", "evidence")
TOKEN = "t" * 32


@contextmanager
def reviewing(work):
    """A browser that has opened the printed address of a review of all candidates by two people."""
    with open_review(work, 2, EARLIER) as cases:
        app = view_app(ViewSettings(work.path, token=TOKEN, cases=cases))
        client = TestClient(app, base_url="http://127.0.0.1")
        client.work = work
        yield client


@pytest.fixture
def client(work):
    with reviewing(work) as made:
        made.get(f"/review?token={TOKEN}")
        yield made


def decide(client, number, word, reviewer="Ann", step="queue", **fields):
    """Send the form of a candidate's page, as the page has it, with a decision."""
    address = f"/review?step={step}&reviewer={reviewer}&case={number}"
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', client.get(address).text))
    return client.post(address, data={**hidden, **fields, "decision": word}, headers={"Origin": "http://127.0.0.1"})


def written(client):
    return [(one.id, one.reviewer, one.say) for one in read_all(client.work)]


def test_nobody_enters_without_the_token_or_under_another_host_name(work):
    with reviewing(work) as client:
        for path in ("/", "/review", "/review?step=queue&case=1", "/saved/" + "0" * 64, "/review?token=wrong"):
            assert client.get(path).status_code == 403
        assert client.get(f"/review?token={TOKEN}", headers={"Host": "evil.example"}).status_code == 421
        assert client.get(f"/review?token={TOKEN}").status_code == 200
        page = client.get("/review?reviewer=Ann&step=queue&case=1")
    assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example"])
def test_a_form_of_another_page_changes_nothing(client, origin):
    headers = {} if origin is None else {"Origin": origin}
    form = {"decision": "accept"}
    assert client.post("/review?reviewer=Ann&step=queue&case=1", data=form, headers=headers).status_code == 403
    assert written(client) == []


def test_an_opinion_is_on_record_once_until_it_is_withdrawn(client):
    name = "Amber Brindle 0"
    form, address = {"id": "page 1", "decision": "accept"}, "/review?reviewer=Ann&step=queue&case=1"
    for _ in range(2):
        client.post(address, data=form, headers={"Origin": "http://127.0.0.1"})
    assert written(client) == [(name, "Ann", "accept")]
    undone = decide(client, 2, "undo")
    assert "case=1" in str(undone.url) and "<b>0</b> of 50 decided" in undone.text
    assert written(client) == [(name, "Ann", "accept"), (name, "Ann", None)] and standing(read_all(client.work)) == {}


def test_the_same_undo_sent_twice_withdraws_one_opinion(client):
    for number in (1, 2, 3):
        decide(client, number, "accept")
    address = "/review?reviewer=Ann&step=queue&case=4"
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', client.get(address).text))

    def undo():
        return client.post(address, data={**hidden, "decision": "undo"}, headers={"Origin": "http://127.0.0.1"})

    for _ in range(3):
        assert "case=3" in str(undo().url)
    assert [say for _, _, say in written(client)] == ["accept"] * 3 + [None]
    decide(client, 3, "accept")
    assert undo().status_code == 200  # it has arrived already
    decide(client, 4, "accept")
    refused = undo()
    assert refused.status_code == 400 and "nothing was undone" in refused.text
    assert [say for _, _, say in written(client)] == ["accept"] * 3 + [None] + ["accept"] * 2


@pytest.mark.parametrize("case", ["", "&case=1"])
def test_a_step_that_only_runs_have_is_refused_in_words(client, case):
    address = f"/review?reviewer=Ann&step=audit{case}"
    answers = [
        client.get(address),
        client.post(address, data={"decision": "accept"}, headers={"Origin": "http://127.0.0.1"}),
    ]
    for answer in answers:
        assert answer.status_code == 400 and "no step audit" in answer.text
    assert written(client) == []


def test_opinions_of_earlier_versions_count(work):
    lines = (
        b'{"id":"Amber Brindle 0","reviewer":"Ann","say":"accept","at":1.0,"seq":1,"crc32":"88bbddf7"}\n'
        b'{"id":"Amber Brindle 0","reviewer":"Bo","say":"reject","reason":"dark","at":2.0,"seq":2,"crc32":"cd22b5e5"}\n'
    )
    path_of(work).write_bytes(lines)
    with open_review(work, 2, EARLIER) as cases:
        assert cases.decided("queue", "Ann") == cases.decided("queue", "Bo") == {1}
        assert [case.place for case in cases.queue("adjudicate", "Bo").cases] == [1]
    assert stages.close_review(work, skip=EARLIER).decisions[0].reason == "the reviewers disagree"


def test_a_rejection_needs_a_reason_and_an_edit_a_change(client):
    assert "a rejection needs a reason" in decide(client, 1, "reject").text
    same = {"question": setting.QUESTION, "answer": setting.answer(0), "aliases": "Creatura numerica 0"}
    assert "nothing was changed" in decide(client, 1, "edit", **same).text
    assert decide(client, 1, "reject", note="x" * 1_001).status_code == 400
    assert decide(client, 1, "reject", note="x" * (1 << 20)).status_code == 413
    assert decide(client, 1, "right").status_code == 400
    assert written(client) == []


def test_nobody_sees_an_opinion_before_having_judged_and_two_who_differ_see_each_other(client):
    decide(client, 1, "reject", note="a secret remark")
    for address in ("", "step=queue&case=1", "step=adjudicate", "step=agreement"):
        page = client.get(f"/review?reviewer=Bo&{address}").text
        assert "secret" not in page and "rejected" not in page
    decide(client, 1, "accept", "Bo")
    for name in ("Ann", "Bo"):
        assert "<b>1</b> disputed candidate" in client.get(f"/review?reviewer={name}&step=adjudicate").text
    assert "secret remark" in client.get("/review?reviewer=Bo&step=adjudicate").text
    assert "secret" not in client.get("/review?reviewer=Cy&step=queue&case=1").text


def test_the_agreement_counts_what_the_reader_and_enough_others_have_judged(client):
    def seen(name):
        page = client.get(f"/review?reviewer={name}&step=agreement").text
        return re.findall(r'<th scope="row"><bdi>(\w+)', page), re.findall(r'class="count">(.*?)<', page)

    decide(client, 1, "reject", note="dark")
    decide(client, 2, "accept")
    assert (
        "You and enough others have judged no candidate yet." in client.get("/review?reviewer=Bo&step=agreement").text
    )
    decide(client, 2, "accept", "Bo")
    assert seen("Cy") == ([], []) and seen("Bo") == seen("Ann") == (["Ann", "Bo"], ["2 accept"])
    decide(client, 1, "accept", "Bo")
    assert seen("Bo") == (["Ann", "Bo"], ["3 accept", "1 reject"])
    assert "Of 2 candidates" in client.get("/review?reviewer=Bo&step=agreement").text


def test_no_path_of_a_request_reaches_the_disk(client):
    for path in ("/images/../curation.json", "/images/..%2f..%2fcuration.json", "/saved/..%2f..%2fcuration.json"):
        assert client.get(path).status_code == 404
    for case in ("999", "0", "-1", "../1", "9" * 30):
        assert client.get(f"/review?reviewer=Ann&step=queue&case={case}").status_code == 400
    with pytest.raises(DataError, match="not a snapshot digest"):
        evidence.snapshot(client.work, "../../curation.json")


def test_hostile_text_is_shown_as_text(place, tmp_path):
    rows = [json.loads((place / "candidates.jsonl").read_text().splitlines()[0])]
    rows[0]["question"], rows[0]["evidence"] = "<script>alert(1)</script>", ['http://x.example/"><script>alert(2)']
    (tmp_path / "one.jsonl").write_text(json.dumps(rows[0]))
    with reviewing(open_work(tmp_path / "work", tmp_path / "one.jsonl", place / "images")) as client:
        client.get(f"/review?token={TOKEN}")
        page = client.get("/review?reviewer=%3Cb%3EBo%3C/b%3E&step=queue&case=1").text
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page and "<b>Bo" not in page


def test_a_pack_without_stages_says_so_in_its_card(work):
    done = pack(work, "0.1", name="bare", skip=("hard", "leaks", "evidence", "review"))
    with zipfile.ZipFile(done.path) as archive:
        assert archive.read("data/README.md").decode().count("**not checked: this stage was skipped**") == 4
    assert done.questions == 50
    with pytest.raises(UsageError, match="letters, digits"):
        pack(work, "../1", skip=("hard", "leaks", "evidence", "review"))


def test_snapshots_that_were_changed_are_not_believed(work):
    async def fetch(url):
        return evidence.EvidencePage(b"plain", "text/plain")

    known = asyncio.run(evidence.fetch_all(work, work.candidates[0].evidence, fetch))
    line = next(iter(known.values()))
    evidence.snapshot(work, line.sha256).write_bytes(b"other")
    with pytest.raises(DataError, match="was changed after"):
        evidence.text_of(work, line)


def test_a_page_beside_the_same_picture_leaks_where_its_text_names_the_answer(work):
    """The titles and addresses say nothing; what a page says is known only when it was read."""
    own = {work.image(one).read_bytes(): number for number, one in enumerate(work.candidates)}
    bodies = {0: f"<p>Seen today: a {work.candidates[0].answer}, at last.</p>", 1: "<p>A walk in the park.</p>"}
    missing = {2: evidence.Unavailable("no answer"), 3: evidence.Unavailable("gone", lasting=True)}
    asked = []

    async def search(data, k):
        number = own[data]
        alike = 1.0 if number != 5 else 0.2  # the page of 5 shows another picture
        return [{"url": f"https://web.example/{number}", "title": "An album", "similarity": alike}]

    async def fetch(url):
        asked.append(number := int(url.rsplit("/", 1)[1]))
        if number in missing:
            raise missing[number]
        return evidence.EvidencePage(bodies.get(number, "<p>Nothing.</p>").encode(), "text/html")

    rule = leaks.LeakRule(drop=("named", "page"))
    done = {d.id: d for d in stages.audit_leaks(work, search, "stub", fetch=fetch, rule=rule, skip=("hard",)).decisions}
    first = [done[one.id] for one in work.candidates[:6]]
    assert [one.verdict for one in first] == ["drop", "keep", "undecided", "keep", "keep", "keep"]
    assert "names" in first[0].reason and first[0].detail["leaks"][-1]["quote"].startswith("Seen today")
    assert first[2].reason == "https://web.example/2: no answer" and 5 not in asked
    missing.clear()
    asked.clear()
    stages.audit_leaks(work, search, "stub", fetch=fetch, rule=rule, skip=("hard",))
    assert asked == [2]
