"""Text tables in the encodings and line ends that programs write; what is not known is refused and never guessed."""

from __future__ import annotations

import codecs
import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.errors import DataError, UsageError
from snellen.sources.blobs import FileBlob
from snellen.sources.text_tables import open_text_table

CELLS = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\",;'"), max_size=12)
TABLES = st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=6)


def read(path: Path, encoding: str = "") -> list[dict[str, Any]]:
    table = open_text_table(FileBlob(path), encoding)
    rows = []
    for _, row in table.rows:
        assert isinstance(row, dict), row
        rows.append(row)
    return rows


@settings(deadline=None)
@given(
    TABLES,
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([(codecs.BOM_UTF8, "utf-8"), (b"", "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"),
                     (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF32_LE, "utf-32-le")]),
    st.sampled_from([(",", ""), (";", ""), (";", "sep=;"), ("|", "sep=|"), ("\t", "")]),
)  # fmt: skip
def test_a_table_is_the_same_in_every_encoding_with_every_line_end_and_separator(
    tmp_path_factory: pytest.TempPathFactory, cells: Any, end: str, encoding: Any, separated: Any
) -> None:
    (mark, codec), (separator, first) = encoding, separated
    quoting = csv.QUOTE_ALL if "\n" in str(cells) or r"\n" in str(cells) else csv.QUOTE_MINIMAL
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, lineterminator=end, quoting=quoting)
    writer.writerow(["question", "größe", "x"])
    writer.writerows(cells)
    path = tmp_path_factory.mktemp("text") / "a.csv"
    path.write_bytes(mark + ((first + end if first else "") + text.getvalue()).encode(codec))
    expected = [dict(zip(["question", "größe", "x"], row, strict=True)) for row in cells]
    assert read(path) == expected


SENTENCES = {
    "gb18030": "背景是什么颜色？红色",
    "big5": "背景是什麼顏色？紅色的",
    "shift_jis": "背景は何色ですか？あか",
    "euc_jp": "背景は何色ですか？あかいろ",
    "cp949": "배경은 무슨 색입니까? 빨간색",
    "cp1252": "Welche Größe hat das Tier? Ähnlich",
    "cp1251": "Какого цвета фон? Красный",
    "koi8_r": "Какого цвета фон? Красный",
    "cp1250": "Jaká je barva příliš žluťoučký kůň",
    "cp1253": "Τι χρώμα είναι",
    "cp874": "พื้นหลังสีอะไร",
}


@pytest.mark.parametrize("codec", SENTENCES)
def test_an_unknown_encoding_is_refused_with_those_that_fit_and_read_where_it_is_named(
    codec: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(f"question,answer\n{SENTENCES[codec]},x\n".encode(codec))
    with pytest.raises(DataError) as error:
        read(path)
    assert "a.csv, line 2: byte 0x" in error.value.message and "is not UTF-8" in error.value.message
    at = next(at for at, character in enumerate(SENTENCES[codec]) if not character.isascii())
    assert SENTENCES[codec][at : at + 8] in error.value.message  # the right one is among those that are shown
    assert "if the file is in" in error.value.hint and "-o encoding=" in error.value.hint
    assert read(path, codec) == [{"question": SENTENCES[codec], "answer": "x"}]


def test_an_encoding_that_the_user_names_wrongly_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("question,answer\n背景,x\n".encode("gb18030"))
    with pytest.raises(DataError, match="not UTF-16 throughout"):
        read(path, "utf-16")
    for name in ("nonsense", "base64"):
        with pytest.raises(UsageError, match="there is no such encoding"):
            read(path, name)
    path.write_bytes("question,answer\nx,y\n".encode("utf-16-le"))
    with pytest.raises(DataError, match="NUL bytes, as UTF-16 without a byte order mark"):
        read(path)
    assert read(path, "UTF-16LE") == [{"question": "x", "answer": "y"}]


def test_a_table_of_one_column_is_not_parted_by_what_its_cells_hold(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("question\nred, green; or blue?\n\n\t\n")
    assert read(tmp_path / "a.tsv") == [{"question": "red, green; or blue?"}]
    (tmp_path / "b.tsv").write_text("question,answer\nWhich?,x\n")
    assert read(tmp_path / "b.tsv") == [{"question": "Which?", "answer": "x"}]


def test_images_in_a_table_that_is_recoded_are_those_of_the_file(tmp_path: Path) -> None:
    import base64

    image = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()
    path = tmp_path / "a.csv"
    for content in (f"sep=;\nq;image\nx;{image}\n", f"q,image\rx,{image}\r"):
        for codec in ("utf-8", "utf-16"):
            path.write_bytes(content.encode(codec))
            ((blob,),) = [row["image"] for row in read(path)]
            assert blob.read() == base64.b64decode(image)
