"""VLMEvalKit's tables, whatever they hold: where rows lie, lists as they are written, paths of other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from snellen.errors import DataError
from snellen.sources import BytesBlob, Unreadable, vlmevalkit_tsv
from snellen.sources.locator import PATH_PARTS
from snellen.types import Blob


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("", []),
        ("aGk=", ["aGk="]),
        ("['aGk=', 'aG8=']", ["aGk=", "aG8="]),
        ('["aGk=","aG8="]', ["aGk=", "aG8="]),
        (" ['a', \"it's\",] ", ["a", "it's"]),
        (r"['it\'s', 'b']", ["it's", "b"]),
        ("[]", []),
        ("['a', 5]", []),
        ("['a'", []),
        ("[" * 10_000, []),
        ("['" * 10_000, []),
    ],
)
def test_a_list_of_texts_is_read_as_json_or_python_writes_it(cell: str, found: list[str]) -> None:
    assert vlmevalkit_tsv.list_elements(cell) == found


def test_a_place_leads_back_to_the_row_whatever_lines_it_goes_over(tmp_path: Path) -> None:
    path = tmp_path / "any.tsv"
    path.write_bytes(b'\xef\xbb\xbfindex\timage\tquestion\r\n0\taGk=\t"two\nlines"\r\n\r\n1\t["aG8="]\tone\r\n')
    opened = vlmevalkit_tsv.open_table(path, ("index", "question"))
    rows = list(opened.rows)
    assert opened.header == ("index", "image", "question")
    assert [row.cells for row in rows] == [{"index": "0", "question": "two\nlines"}, {"index": "1", "question": "one"}]
    assert [row.place.line for row in rows] == [2, 5]
    assert [row.reference for row in rows] == ["aGk=", ""]  # too short for a picture
    (picture,) = vlmevalkit_tsv.own_images(path, opened.header, rows[1])
    assert picture.read() == b"ho"
    assert vlmevalkit_tsv.beginning(path, rows[1].place).startswith("1\t")


def test_a_table_that_was_changed_under_a_run_is_said(tmp_path: Path) -> None:
    path = tmp_path / "any.tsv"
    path.write_text("index\timage\n0\t['aGk=', 'aG8=']\n")
    opened = vlmevalkit_tsv.open_table(path, ("index",))
    _, second = vlmevalkit_tsv.own_images(path, opened.header, next(opened.rows))
    path.write_text("index\timage\n0\t['aGk=']\n")
    with pytest.raises(DataError, match="changed during the run"):
        second.read()


def test_one_of_several_columns_is_enough_and_none_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "any.tsv"
    path.write_text("index\timage_path\n0\ta.png\n")
    assert len(list(vlmevalkit_tsv.open_table(path, ("index",), ("image", "image_path")).rows)) == 1
    with pytest.raises(DataError, match="no column 'image'; the columns are index, image_path"):
        vlmevalkit_tsv.open_table(path, ("index",))


@pytest.mark.parametrize(
    ("name", "least", "found"),
    [
        ("/home/x/data/set/1.png", 1, "set/1.png"),
        ("C:\\data\\set\\1.png", 1, "set/1.png"),
        ("/home/x/1.png", 2, None),
        ("/home/x/2.png", 1, "2.png"),
        ("/home/x/2.png", 2, None),
        ("/home/../set/1.png", 1, None),
        ("2.png", 2, "2.png"),
        ("/", 1, None),
    ],
)
def test_a_path_of_another_machine_is_found_by_its_longest_end(name: str, least: int, found: str | None) -> None:
    looked: list[str] = []

    def find(wanted: str, at: str) -> Blob:
        looked.append(wanted)
        return BytesBlob(wanted, b"") if wanted in ("set/1.png", "2.png") else Unreadable(at, "no")

    blob = vlmevalkit_tsv.by_end_of_path(name, "here", find, least)
    assert (blob.key if not isinstance(blob, Unreadable) else None) == found
    assert len(looked) <= PATH_PARTS
