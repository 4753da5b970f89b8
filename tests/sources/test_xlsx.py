"""The table of a workbook: which sheet and header, merged areas, values that are none, and pictures by their cell."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook
from openpyxl.drawing.image import Image
from PIL import Image as Pillow

from snellen.errors import DataError
from snellen.sources.blobs import BytesBlob, FileBlob
from snellen.sources.xlsx import CellFault, Sheet, open_sheet, sheet_rows

DRAWING = "http://schemas.openxmlformats.org/drawingml/2006"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"


def picture(colour: str) -> io.BytesIO:
    data = io.BytesIO()
    Pillow.new("RGB", (40, 40), colour).save(data, "PNG")
    data.seek(0)
    return data


def saved(book: Workbook, path: Path) -> Path:
    book.save(path)
    return path


def read(path: Path, sheet: str | None = None) -> tuple[Sheet, dict[int, dict[str, Any]]]:
    """The table of a file, which is the same where the file lies in memory."""
    opened = open_sheet(FileBlob(path), path.name, sheet)
    rows = dict(sheet_rows(FileBlob(path), path.name, opened))
    blob = BytesBlob(path.name, path.read_bytes())
    again = dict(sheet_rows(blob, path.name, open_sheet(blob, path.name, sheet)))
    assert plain(rows) == plain(again)
    return opened, plain(rows)


def plain(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {row: {name: _plain(cell) for name, cell in cells.items()} for row, cells in rows.items()}


def _plain(cell: Any) -> Any:
    if isinstance(cell, CellFault):
        return cell.reason
    return [colour_of(blob.read()) for blob in cell] if isinstance(cell, tuple) else cell


def colour_of(data: bytes) -> Any:
    return Pillow.open(io.BytesIO(data)).convert("RGB").getpixel((5, 5))


def test_the_first_visible_sheet_with_a_header_is_the_table_below_its_title(tmp_path: Path) -> None:
    book = Workbook()
    book.active.title = "Read me"
    book.active.append(["Questions of a spring day"])
    hidden = book.create_sheet("Old")
    for line in (["question", "answer"], ["old?", "x"]):
        hidden.append(line)
    hidden.sheet_state = "hidden"
    page = book.create_sheet("Data")
    for line in (["My quiz"], [], ["question", "answer"], ["new?", "y"]):
        page.append(line)
    page.merge_cells("A1:B1")
    path = saved(book, tmp_path / "a.xlsx")
    opened, rows = read(path)
    assert opened.name == "Data" and opened.others == ("Read me", "Old")
    assert opened.notes == ("the table is sheet `Data`", "the header is row 3 of the sheet")
    assert rows == {4: {"question": "new?", "answer": "y"}}
    assert read(path, "Old")[1] == {2: {"question": "old?", "answer": "x"}}
    with pytest.raises(DataError, match="no sheet 'Gone'; the sheets are Read me, Old, Data"):
        read(path, "Gone")


def test_a_merged_area_has_its_value_in_every_cell_and_a_heading_over_all_columns_is_none(tmp_path: Path) -> None:
    book = Workbook()
    lines = [["q", "a", "b"], ["one?", 1, "x"], [None, 2, None], ["Part two"], ["two?", 3, "y"], [None, 4, "z"]]
    for line in lines:
        book.active.append(line)
    for area in ("A2:A3", "B2:C2", "A4:C4", "A5:A6"):
        book.active.merge_cells(area)
    _, rows = read(saved(book, tmp_path / "a.xlsx"))
    assert rows == {
        2: {"q": "one?", "a": 1, "b": 1},
        3: {"q": "one?", "a": 2, "b": None},
        4: {"q": "Part two", "a": None, "b": None},
        5: {"q": "two?", "a": 3, "b": "y"},
        6: {"q": "two?", "a": 4, "b": "z"},
    }


def with_values(path: Path, changes: dict[str, bytes]) -> Path:
    """The workbook with some bytes of its first sheet replaced, as a program that calculates writes them."""
    parts = {}
    with zipfile.ZipFile(path) as book:
        for name in book.namelist():
            parts[name] = book.read(name)
    for old, new in changes.items():
        part = "xl/workbook.xml" if "calc" in old.lower() else "xl/worksheets/sheet1.xml"
        assert old.encode() in parts[part], parts[part]
        parts[part] = parts[part].replace(old.encode(), new)
    with zipfile.ZipFile(path, "w") as book:
        for name, data in parts.items():
            book.writestr(name, data)
    return path


def test_error_values_and_formulas_without_a_value_are_named_and_kept_values_are_read(tmp_path: Path) -> None:
    book = Workbook()
    for line in (["q", "a"], ["1?", "#N/A"], ["2?", "=1+1"], ["3?", "=2+2"], ["4?", "=9-9"], ["5?", '="a"&"b"']):
        book.active.append(line)
    path = saved(book, tmp_path / "a.xlsx")
    changes = {
        "<f>2+2</f><v></v>": b"<f>2+2</f><v>4</v>",
        "<f>9-9</f><v></v>": b"<f>9-9</f><v>0</v>",
        '<c r="B6">': b'<c r="B6" t="str">',
    }
    with_values(path, changes)
    unsaved = "without its value; open the workbook in Excel and save it"
    _, rows = read(path)
    assert [cells["a"] for cells in rows.values()] == [
        "cell B2 holds the error value #N/A",
        f"cell B3 holds the formula =1+1 {unsaved}",
        4,
        f"cell B5 holds the formula =9-9 {unsaved}",  # the program that wrote it calculates nothing
        None,
    ]
    with_values(path, {'fullCalcOnLoad="1"': b""})
    assert read(path)[1][5]["a"] == 0


def test_pictures_over_cells_are_those_of_their_row_in_the_order_of_columns(tmp_path: Path) -> None:
    book = Workbook()
    page = book.active
    for line in (["question", "image", "answer"], ["one?", None, "x"], ["two?", None, "y"], ["three?", None, "z"]):
        page.append(line)
    page.merge_cells("B3:B4")
    for colour, cell in (("white", "A1"), ("blue", "C2"), ("red", "B2"), ("green", "B3")):
        page.add_image(Image(picture(colour)), cell)
    opened, rows = read(saved(book, tmp_path / "a.xlsx"))
    assert opened.picture_column == "image" and "1 picture of the sheet is above the header" in opened.notes[0]
    assert [cells["image"] for cells in rows.values()] == [[(255, 0, 0), (0, 0, 255)], [(0, 128, 0)], [(0, 128, 0)]]


def test_pictures_over_filled_cells_get_a_column_of_their_own(tmp_path: Path) -> None:
    book = Workbook()
    for line in (["question", "answer"], ["one?", "x"], ["two?", "y"]):
        book.active.append(line)
    book.active.add_image(Image(picture("red")), "A2")
    opened, rows = read(saved(book, tmp_path / "a.xlsx"))
    assert opened.header == ("question", "answer", "picture")
    assert rows[2]["picture"] == [(255, 0, 0)] and rows[3]["picture"] is None


def test_a_picture_in_a_cell_is_found_by_its_rich_value(tmp_path: Path) -> None:
    book = Workbook()
    for line in (["question", "image", "answer"], ["one?", "#VALUE!", "x"], ["two?", "#VALUE!", "y"]):
        book.active.append(line)
    path = saved(book, tmp_path / "a.xlsx")
    with_values(path, {'r="B2"': b'r="B2" vm="1"'})
    rich = "http://schemas.microsoft.com/office/spreadsheetml/2017/richdata"
    parts = {
        "xl/metadata.xml": '<metadata><futureMetadata name="XLRICHVALUE" count="1"><bk><extLst><ext uri="{3}"><rvb i="1"/></ext>'
        '</extLst></bk></futureMetadata><valueMetadata count="1"><bk><rc t="1" v="0"/></bk></valueMetadata></metadata>',
        "xl/richData/rdrichvaluestructure.xml": f'<rvStructures xmlns="{rich}"><s t="_other"><k n="x" t="s"/></s>'
        '<s t="_localImage"><k n="_rvRel:LocalImageIdentifier" t="i"/><k n="CalcOrigin" t="i"/></s></rvStructures>',
        "xl/richData/rdrichvalue.xml": f'<rvData xmlns="{rich}"><rv s="0"><v>word</v></rv><rv s="1"><v>0</v><v>5</v></rv></rvData>',
        "xl/richData/richValueRel.xml": f'<richValueRels xmlns:r="{OFFICE}"><rel r:id="rId1"/></richValueRels>',
        "xl/richData/_rels/richValueRel.xml.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="rId1" '
        f'Type="{OFFICE}/image" Target="../media/image1.png"/></Relationships>',
    }  # fmt: skip
    with zipfile.ZipFile(path, "a") as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
        archive.writestr("xl/media/image1.png", picture("red").read())
    _, rows = read(path)
    assert rows[2]["image"] == [(255, 0, 0)] and rows[3]["image"] == "cell B3 holds the error value #VALUE!"


def test_a_picture_that_leads_out_of_the_workbook_is_not_read(tmp_path: Path) -> None:
    book = Workbook()
    for line in (["question", "image"], ["one?", None]):
        book.active.append(line)
    book.active.add_image(Image(picture("red")), "B2")
    path = saved(book, tmp_path / "a.xlsx")
    parts = {name: zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()}
    for target in (b"../../../../etc/passwd", b"/etc/passwd", b"file:///etc/passwd"):
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, data.replace(b"/xl/media/image1.png", target))
        opened, rows = read(path)
        assert rows[2] == {"question": "one?", "image": None}
        assert "1 picture of the sheet is linked to a file elsewhere, or on no cell, and not used" in opened.notes


def test_merged_areas_that_fill_a_sheet_cost_no_more_than_its_table(tmp_path: Path) -> None:
    book = Workbook()
    for line in (["question", "answer", "x"], ["one?", "a", "b"], ["two?", "c", "d"]):
        book.active.append(line)
    book.active.merge_cells("B2:B3")
    path = saved(book, tmp_path / "a.xlsx")
    with_values(path, {'"B2:B3"': b'"B2:XFC1048576"'})
    assert read(path)[1][3] == {"question": "two?", "answer": "a", "x": "d"}
