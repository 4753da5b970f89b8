"""The samples page: rows and columns, filters, orders, queries by SQL, and what an address with an error shows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image as Picture
from run_folders import right_reply, samples_of, write_run
from starlette.testclient import TestClient

from snellen.benchmarks.base import Data
from snellen.errors import UsageError
from snellen.viewer.app import view_app
from snellen.viewer.index import open_index
from snellen.viewer.links import LiveLinks
from snellen.viewer.pages.samples import view
from snellen.viewer.site import MissingPageError, Site, ViewSettings
from snellen.viewer.states import SamplesState, slice_filter

DIGITS = samples_of("chart/digits", 12)
IDS = [sample.id for sample in DIGITS]
RIGHT = {sample.id: right_reply(sample) for sample in DIGITS}
HOSTILE = '<script>window.owned=1</script><img src=x onerror="window.owned=1">\'"&{{7*7}}'


def wrong(sample_id: str) -> str:
    right = RIGHT[sample_id]
    other = {"T": "F", "F": "T", "yes": "no", "no": "yes", "A": "B", "B": "C", "C": "D", "D": "A"}
    return other[right] if right in other else str((int(right) + 1) % 10)


def write_runs(root: Path) -> None:
    """Write three runs of one benchmark, and one of another: `good` knows all, `poor` errs, `short` ends early."""
    write_run(root / "good", "chart/digits", RIGHT, model="openai:good", limit=12)
    replies: dict[str, str | None] = {name: wrong(name) if place < 4 else RIGHT[name] for place, name in enumerate(IDS)}
    replies |= {IDS[4]: "a zebra crossing", IDS[5]: None, IDS[6]: HOSTILE}
    write_run(root / "nested" / "poor", "chart/digits", replies, model=f"openai:{HOSTILE}", limit=12)
    few = {name: wrong(name) if place < 2 else RIGHT[name] for place, name in enumerate(IDS[:8])}
    write_run(root / "short", "chart/digits", few, model="openai:short", limit=12, state="partial")
    other = {sample.id: right_reply(sample) for sample in samples_of("chart/creatures", 3)}
    write_run(root / "other", "chart/creatures", other, limit=3)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    write_runs(root)
    return root


@pytest.fixture(scope="module")
def site(root):
    index = open_index(root)
    index.refresh()
    return Site(ViewSettings(root), LiveLinks(), index)


@pytest.fixture(scope="module")
def client(root, site):
    return TestClient(view_app(ViewSettings(root)), base_url="http://127.0.0.1")


def shown(site, **state):
    return view(site, SamplesState(**{"benchmark": "chart/digits", **state}))


def ids(view_model):
    return [row["sample_id"] for row in view_model["rows"]]


def verdicts(view_model, sample_id):
    (row,) = [row for row in view_model["rows"] if row["sample_id"] == sample_id]
    return [cell["verdict"] for cell in row["cells"]]


def test_a_row_has_one_verdict_for_each_run_and_the_hardest_samples_come_first(site):
    page = shown(site)
    assert [column["letter"] for column in page["columns"]] == ["A", "B", "C"]
    assert [column["key"] for column in page["columns"]] == ["nested/poor", "good", "short"]
    assert set(ids(page)[:2]) == set(IDS[:2])
    assert verdicts(page, IDS[0]) == ["wrong", "right", "wrong"]
    assert verdicts(page, IDS[4]) == ["unparseable", "right", "right"]
    assert verdicts(page, IDS[5]) == ["failed", "right", "right"]
    assert verdicts(page, IDS[11]) == ["right", "right", "missing"]
    assert page["count"] == "1 to 12 of 12 samples"


def test_the_head_of_a_column_counts_the_verdicts_of_the_rows_that_match(site):
    counts = {column["key"]: dict(column["counts"]) for column in shown(site)["columns"]}
    assert counts["good"] == {"right": 12}
    assert counts["short"] == {"right": 6, "wrong": 2, "missing": 4}
    few = shown(site, pattern="C wrong")
    assert [dict(column["counts"]) for column in few["columns"]] == [{"wrong": 2}, {"right": 2}, {"wrong": 2}]


def test_an_error_in_what_the_reader_typed_is_shown_where_it_was_typed(site):
    for state in ({"pattern": "A rihgt"}, {"sort": "colour"}, {"profile": "no such"}, {"where": ("level",)}):
        page = shown(site, **state)
        assert page["problem"].message and page["problem"].hint
        assert page["rows"] == []
        assert len(page["columns"]) == 3


def test_slices_have_counts_and_their_links_set_and_remove_the_filter(site):
    page = shown(site)
    facet = page["facets"][0]
    assert sum(int(choice.samples) for choice in facet.choices) == 12
    choice = facet.choices[0]
    state = SamplesState.parse(choice.address.partition("?")[2])
    assert state.where == (slice_filter(facet.name, choice.label),)
    filtered = view(site, state)
    assert len(filtered["rows"]) == int(choice.samples)
    (chosen,) = [choice for choice in filtered["facets"][0].choices if choice.active]
    assert SamplesState.parse(chosen.address.partition("?")[2]).where == ()


def test_text_is_searched_in_questions_or_replies_or_both(site):
    assert ids(shown(site, text="zebra CROSSING")) == [IDS[4]]
    assert ids(shown(site, text="zebra crossing", within="reply")) == [IDS[4]]
    assert ids(shown(site, text="zebra crossing", within="question")) == []
    asked = {sample.id for sample in DIGITS if "which digit" in str(sample.prompt.parts).lower()}
    assert 0 < len(asked) < 12
    assert set(ids(shown(site, text="which digit", within="question"))) == asked
    assert ids(shown(site, text="which digit", within="reply")) == []
    assert set(ids(shown(site, text="which digit"))) == asked


def test_pages_follow_each_other_without_a_gap_or_a_repetition(site):
    state, seen = SamplesState(benchmark="chart/digits", rows=5), []
    for number in (1, 2, 3):
        page = view(site, state)
        assert page["pager"]["text"] == f"page {number} of 3"
        assert bool(page["pager"]["previous"]) is (number > 1)
        seen += ids(page)
        if number < 3:
            state = SamplesState.parse(page["pager"]["next"].partition("?")[2])
    assert page["pager"]["next"] == ""
    assert sorted(seen) == sorted(IDS)


def test_runs_are_chosen_by_the_address_and_lettered_in_its_order(site):
    page = shown(site, runs=("short", "good"))
    assert [(column["letter"], column["key"]) for column in page["columns"]] == [("A", "short"), ("B", "good")]
    assert [entry["key"] for entry in page["others"]] == ["nested/poor"]
    assert ids(shown(site, runs=("short", "good"), pattern="A wrong and B right")) == IDS[:2]
    assert set(ids(shown(site, pattern="short missing and 'openai:good' right"))) == set(IDS[8:])
    assert [column["key"] for column in shown(site, benchmark="", runs=("other",))["columns"]] == ["other"]


def test_a_run_that_is_not_there_is_named_and_the_others_are_shown(site):
    page = shown(site, runs=("gone", "good", "other"))
    assert [column["key"] for column in page["columns"]] == ["good"]
    assert "gone, other" in page["notes"][0]


def test_a_benchmark_without_runs_is_missing_and_says_which_there_are(site):
    with pytest.raises(MissingPageError, match="no run of benchmark 'chart/birds'") as caught:
        shown(site, benchmark="chart/birds")
    assert "chart/digits" in caught.value.hint


def test_the_benchmark_with_the_most_runs_is_shown_first(site):
    assert view(site, SamplesState())["benchmark"] == "chart/digits"


def test_a_folder_without_runs_says_so(tmp_path):
    index = open_index(tmp_path)
    index.refresh()
    assert view(Site(ViewSettings(tmp_path), LiveLinks(), index), SamplesState()) == {"benchmark": ""}
    answer = TestClient(view_app(ViewSettings(tmp_path)), base_url="http://127.0.0.1").get("/samples")
    assert answer.status_code == 200
    assert "There is no run with samples" in answer.text


def test_a_query_in_sql_is_answered_and_its_samples_are_links(site):
    page = shown(site, sql="SELECT run, sample_id, status FROM results WHERE status = 'error'", text="kept")
    (row,) = page["sql_table"]["rows"]
    assert [text for text, _ in row] == ["poor", IDS[5], "error"] or row[0][0] == "nested/poor"
    assert f"sample={IDS[5]}".replace("/", "%2F") in row[1][1]
    assert row[0][1] == ""
    assert ("text", "kept") in page["sql_fields"]
    assert not [name for name, _ in page["sql_fields"] if name == "sql"]
    refused = shown(site, sql="SELECT * FROM read_text('/etc/passwd')")  # the index's test has more
    assert refused["sql_problem"].message and refused["sql_table"] is None and len(refused["rows"]) == 12


def test_a_long_result_of_a_query_is_cut_and_says_so(site):
    page = shown(site, sql="SELECT range AS n, repeat('x', 1000) AS text FROM range(5000)")
    table = page["sql_table"]
    assert len(table["rows"]) == 200
    assert table["count"] == "the first 200 rows"
    assert "1,000 characters in all" in table["rows"][0][1][0]


def test_the_page_shows_hostile_names_and_replies_as_text(client):
    html = client.get("/samples?benchmark=chart/digits").text
    assert "window.owned" in html
    assert "<script>window.owned" not in html and "<img src=x" not in html
    assert "&lt;script&gt;window.owned=1" in html


def test_an_address_with_a_bad_value_is_refused_and_a_page_behind_the_last_one_is_empty(client, site):
    assert client.get("/samples?number=0").status_code == 400
    assert client.get("/samples?benchmark=none").status_code == 404
    page = shown(site, number=900)
    assert page["rows"] == [] and page["count"] == "0 samples"
    assert client.get("/samples?benchmark=chart/digits&number=900").status_code == 200


def test_images_are_served_by_digest_once_a_page_has_shown_them(client):
    html = client.get("/samples?benchmark=chart/digits").text
    addresses = re.findall(r'<img src="(/thumbnails/[0-9a-f]+)"', html)
    assert len(addresses) == 12
    answer = client.get(addresses[0])
    assert answer.status_code == 200
    assert answer.headers["content-type"] in ("image/png", "image/jpeg")
    assert answer.headers["x-content-type-options"] == "nosniff"
    for other in ("0" * 32, "..%2f..%2fetc%2fpasswd", "run_meta.json", "x"):
        assert client.get(f"/thumbnails/{other}").status_code in (400, 404)


@pytest.mark.parametrize("kind", ["bomb", "svg", "gone"])
def test_an_image_that_cannot_be_drawn_is_a_placeholder(tmp_path, kind):
    data = tmp_path / "data"
    data.mkdir()
    Picture.new("RGB", (40, 30), "navy").save(data / "picture.png")
    rows = [{"id": "q1", "image": "picture.png", "question": "Which?", "A": "x", "B": "y", "answer": "A"}]
    (data / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    name = str(data / "questions.jsonl")
    root = tmp_path / "results"
    write_run(root / "run", name, {"q1": "A"}, data=Data())
    picture = data / "picture.png"
    index = open_index(root)
    index.refresh()
    if kind == "gone":
        picture.unlink()
    elif kind == "svg":
        picture.write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    else:
        header = picture.read_bytes()
        picture.write_bytes(header[:16] + (60_000).to_bytes(4) * 2 + header[24:])
    client = TestClient(view_app(ViewSettings(root)), base_url="http://127.0.0.1")
    html = client.get("/samples").text
    (address,) = re.findall(r'<img src="(/thumbnails/[0-9a-f]+)"', html)
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"
    assert b"script" not in answer.content
    assert str(data) not in html.replace(name, "")


def test_the_query_of_a_page_refuses_what_no_order_is(site):
    from snellen.viewer.pages.samples import sample_query
    from snellen.viewer.sample_columns import choose_columns

    columns = choose_columns(site.index.runs(), SamplesState(benchmark="chart/digits"))
    with pytest.raises(UsageError, match="no order 'up'"):
        sample_query(columns, SamplesState(sort="up"))


def test_the_images_of_a_page_are_read_in_one_pass_over_the_benchmark(root, monkeypatch):
    from snellen.viewer.index import samples as images

    index = open_index(root)
    index.refresh()
    site = Site(ViewSettings(root), LiveLinks(), index)
    html = [row["thumbnail"] for row in shown(site)["rows"]]
    passes = []
    monkeypatch.setattr(images, "enumerate", lambda samples: passes.append(1) or enumerate(samples), raising=False)
    digests = [address.rpartition("/")[2] for address in html]
    assert all(site.thumbnails.get(digest).data for digest in digests)
    assert len(digests) == 12
    assert passes == [1]


def test_samples_that_hold_their_images_stay_in_memory_within_a_budget(monkeypatch):
    from itertools import count

    from snellen.sources.blobs import BytesBlob
    from snellen.types import Image, Prompt, Sample, Text
    from snellen.viewer.index import samples as images

    def samples(data):
        for number in count():
            image = Image(BytesBlob(str(number), bytes(100_000)))
            yield Sample(str(number), Prompt((image, Text("?"))), "A", "choice")

    class OpenedSet:
        class benchmark:
            pass

        class meta:
            class spec:
                data = None

    OpenedSet.benchmark.samples = staticmethod(samples)
    monkeypatch.setattr(images, "HELD_BYTES", 1_000_000)
    opened = images.SampleReader(OpenedSet)
    assert opened.gather(50, [5, 300]).id == "50"
    assert sum(map(images.sample_bytes, opened._held.values())) <= 1_000_000
    assert opened.gather(5, []).id == "5"
