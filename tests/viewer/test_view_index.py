"""The viewer's index: every run below a root, the verdict of each on each sample, in pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folders import append, record, right_reply, samples_of, write_meta, write_run

from snellen.errors import UsageError
from snellen.viewer.index import SampleQuery, ViewIndex, open_index
from snellen.viewer.index.view_index import discover

DIGITS = samples_of("chart/digits", 12)
RIGHT = {sample.id: right_reply(sample) for sample in DIGITS}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with two runs of the same samples: `a` knows all, `b` errs in three ways."""
    write_run(tmp_path / "a", "chart/digits", RIGHT, limit=12)
    other = dict(RIGHT)
    names = list(RIGHT)
    other[names[0]] = str((int(RIGHT[names[0]]) + 1) % 10)
    other[names[1]] = "I cannot say anything about this"
    other[names[2]] = None
    write_run(tmp_path / "nested" / "b", "chart/digits", other, model="openai:other", limit=12)
    return tmp_path


def index_of(root: Path) -> ViewIndex:
    index = open_index(root)
    index.refresh()
    return index


def ids(index: ViewIndex, **settings: object) -> list[str]:
    page = index.samples(SampleQuery("chart/digits", ("a", "nested/b"), **settings))  # type: ignore[arg-type]
    return [row.sample_id for row in page.rows]


def test_every_run_below_the_root_is_an_entry_with_state_and_totals(root: Path) -> None:
    entries = {entry.key: entry for entry in index_of(root).runs()}
    assert list(entries) == ["a", "nested/b"]
    assert (entries["a"].state, entries["a"].origin, entries["a"].samples) == ("complete", "own", "ready")
    assert entries["nested/b"].totals.error == 1
    assert [(failure.kind, failure.count) for failure in entries["nested/b"].failures] == [("server", 1)]
    assert entries["a"].headline is not None
    assert entries["a"].headline.value == 1.0
    assert entries["nested/b"].headline is not None
    assert entries["nested/b"].headline.value == pytest.approx(9 / 12)


def test_a_page_has_one_row_a_sample_and_one_verdict_a_run(root: Path) -> None:
    page = index_of(root).samples(SampleQuery("chart/digits", ("a", "nested/b")))
    assert page.total == page.of == 12
    assert [row.sample_id for row in page.rows] == list(RIGHT)
    verdicts = [[cell.verdict for cell in row.cells] for row in page.rows[:4]]
    assert verdicts == [["right", "wrong"], ["right", "unparseable"], ["right", "failed"], ["right", "right"]]
    assert page.rows[2].cells[1].error == "server"
    assert page.rows[0].question.startswith("Which digit is this?")
    assert page.rows[0].images[0].digest
    assert page.rows[0].slices["task"] == "digits"
    assert dict(page.verdicts[1]) == {"right": 9, "wrong": 1, "unparseable": 1, "failed": 1}


def test_patterns_slices_texts_and_sorts_select_and_order_rows(root: Path) -> None:
    index, names = index_of(root), list(RIGHT)
    assert ids(index, pattern="A right and B wrong") == names[:1]
    assert ids(index, pattern="not B right") == names[:3]
    assert ids(index, pattern="B failed or B unparseable", sort="id", descending=False) == [names[2], names[1]]
    assert ids(index, reply="CANNOT say") == names[1:2]
    assert ids(index, question="no such words") == []
    assert ids(index, sort="disagree")[:2] == names[:2]
    assert ids(index, sort="wrong")[2] == names[2]
    level = DIGITS[0].meta["cell"]
    assert ids(index, slices=(("cell", level),), limit=100) == [
        each.id for each in DIGITS if each.meta["cell"] == level
    ]
    with pytest.raises(UsageError, match="no sample has cell = 'mist'"):
        ids(index, slices=(("cell", "mist"),))
    with pytest.raises(UsageError, match="sort order"):
        ids(index, sort="beauty")


def test_a_run_in_progress_is_followed_from_its_journal(root: Path) -> None:
    path = root / "live"
    write_meta(path, "chart/digits", state="running", limit=12, model="openai:live")
    names = list(RIGHT)
    append(path, [record(names[0], RIGHT[names[0]])])
    index = index_of(root)
    page = index.samples(SampleQuery("chart/digits", ("live",)))
    assert [row.cells[0].verdict for row in page.rows] == ["right"] + ["missing"] * 11
    before = (path / "results.jsonl").read_bytes()
    with (path / "results.jsonl").open("ab") as file:
        file.write(b'{"sample_id":"torn')
    assert index.refresh().changed == ("live",)
    (path / "results.jsonl").write_bytes(before)
    append(path, [record(names[1], "no idea at all"), record(names[2], None), record(names[2], RIGHT[names[2]])])
    index.refresh()
    page = index.samples(SampleQuery("chart/digits", ("live",)))
    assert [row.cells[0].verdict for row in page.rows[:4]] == ["right", "unparseable", "right", "missing"]
    assert index.run("live").headline.value == pytest.approx(2 / 3)  # type: ignore[union-attr]


def test_a_record_and_an_image_are_read_by_their_places(root: Path) -> None:
    index, name = index_of(root), next(iter(RIGHT))
    found = index.record("a", name)
    assert found is not None
    assert found.response is not None
    assert found.response.text == RIGHT[name]
    assert index.record("a", "no such sample") is None
    page = index.samples(SampleQuery("chart/digits", ("a",), limit=1))
    assert index.image(page.rows[0].images[0].place).read().startswith(b"\x89PNG")


def test_the_index_can_be_deleted_and_is_made_anew(root: Path) -> None:
    import shutil

    first = ids(index_of(root), sort="wrong")
    shutil.rmtree(root / ".snellen-index")
    assert ids(index_of(root), sort="wrong") == first


def test_links_and_foreign_files_are_named_and_not_followed(root, tmp_path_factory):
    outside = write_run(tmp_path_factory.mktemp("outside") / "secret", "chart/digits", RIGHT)
    (root / "link").symlink_to(outside)
    (root / "notes.txt").write_text("no run")
    refresh = index_of(root).refresh()
    assert refresh.runs == 2
    reasons = {skipped.path: skipped.reason for skipped in refresh.skipped}
    assert "symbolic link" in reasons["link"]
    assert "run_meta.json" in reasons["notes.txt"]


def test_sql_sees_the_tables_of_snellen_query_and_the_samples_and_nothing_else(root: Path) -> None:
    index = index_of(root)
    table = index.sql(
        "SELECT run, count(*) FILTER (verdict = 'correct') n FROM scores WHERE profile = 'strict' GROUP BY 1 ORDER BY 1"
    )
    assert table.columns == ("run", "n")
    assert table.rows == (("a", 12), ("nested/b", 9))
    assert index.sql("SELECT text FROM results WHERE status = 'error'").rows == ((None,),)
    assert index.sql(
        "SELECT count(*) FROM samples JOIN results USING (sample_id) WHERE meta['task'] = 'digits'"
    ).rows == ((24,),)
    assert index.sql("SELECT value FROM runs ORDER BY run").rows[0] == (1.0,)
    cut = index.sql("SELECT * FROM range(100)", limit=7)
    assert (len(cut.rows), cut.truncated) == (7, True)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "COPY (SELECT 1) TO '/tmp/out.csv'",
        "INSTALL httpfs",
        "SELECT 1; DROP TABLE runs",
        "ATTACH '/tmp/x.db'",
        "SELECT * FROM glob('/*')",
        "SET enable_external_access = true",
        "SELECT getenv('HOME')",
        "SELEC 1",
    ],
)
def test_sql_that_reads_a_file_or_changes_anything_or_is_none_is_refused(text: str, root: Path) -> None:
    with pytest.raises(UsageError):
        index_of(root).sql(text)


def test_a_long_query_is_stopped(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from snellen.viewer.index import sql

    monkeypatch.setattr(sql, "SECONDS", 0.3)
    with pytest.raises(UsageError, match="stopped after"):
        index_of(root).sql("SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a.range + b.range) = 7")


def test_a_folder_of_data_is_one_line_however_many_files_it_has(tmp_path):
    for number in range(1_500):
        (tmp_path / "pictures" / f"class-{number % 3}").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pictures" / f"class-{number % 3}" / f"{number}.png").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    skipped = [(each.path, each.reason.partition(",")[0]) for each in discover(tmp_path).skipped]
    assert skipped == [("notes.txt", "no run: a run is a folder with run_meta.json"), ("pictures", "1")]
