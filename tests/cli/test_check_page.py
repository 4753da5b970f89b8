"""`snellen check --page`: the first golds on their images in one file, their space on top, and questions of any other kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

pytestmark = pytest.mark.installed

Snellen = Callable[..., Any]


def boxes(folder: Path, cells: list[Any]) -> Path:
    """Write one image of 400 x 300 pixels for each answer, and the table of them."""
    (folder / "images").mkdir(exist_ok=True)
    for at in range(len(cells)):
        Image.new("RGB", (400, 300), (90, 9 * at, 60)).save(folder / "images" / f"{at}.png")
    rows = [
        {"id": f"q{at}", "image": f"{at}.png", "question": "Where?", "answer": cell} for at, cell in enumerate(cells)
    ]
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder / "t.jsonl"


def page(said: Any, folder: Path, name: str = "check.html") -> str:
    assert said.status == 0 and f"Written: {name}" in said.err, said
    text = (folder / name).read_text("utf-8")
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", text) and " style=" not in text and "<script" not in text
    return text


def test_the_option_alone_writes_twelve_golds_with_their_space_on_top(snellen: Snellen, tmp_path: Path) -> None:
    boxes(tmp_path, [[210 + at, 110, 390, 290] for at in range(15)])
    text = page(snellen("check", "t.jsonl", "--images", "images", "--page"), tmp_path)
    assert text.count("<figure") == text.count("<section") == 12 and "M211,110 390,110 390,290 211,290Z" in text
    notes = re.findall(r'<p class="note">(.*?)</p>', text)
    assert notes == ["gold coordinates are pixel:xyxy (pixels of the image in the data)"]
    more = page(snellen("check", "t.jsonl", "--page", "--images", "images", "--samples", 3), tmp_path)
    assert more.count("<figure") == 3
    named = snellen("check", "t.jsonl", "--page", "deep/p.html", "--images", "images", "--json")
    assert page(named, tmp_path, "deep/p.html").count("<figure") == 12 and json.loads(named.out)["samples"] == 15


def test_golds_that_fit_several_spaces_are_drawn_in_each(snellen: Snellen, tmp_path: Path) -> None:
    boxes(tmp_path, [[20, 30, 120, 140], [10, 15, 100, 90]])
    text = page(snellen("check", "t.jsonl", "--images", "images", "--page"), tmp_path)
    (note,) = re.findall(r'<p class="note">(.*?)</p>', text)
    fits = re.findall(r"<h3>(.*?)</h3>", text)
    assert note.startswith("gold coordinates could be") and "--gold-space" in note
    assert len(fits) == text.count("<figure") == 2 * len(set(fits)) > 2 and all(fit in note for fit in fits)
    assert "M20,30 120,30 120,140 20,140Z" in text and "M20,30 140,30 140,170 20,170Z" in text
    one = page(snellen("check", "t.jsonl", "--images", "images", "--page", "--gold-space", "pixel:xywh"), tmp_path)
    assert one.count("<figure") == 2 and "M20,30 140,30 140,170 20,170Z" in one


def test_questions_without_coordinates_have_image_options_and_gold(snellen: Snellen, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    Image.new("RGB", (40, 30), "red").save(tmp_path / "images" / "a.png")
    row = {"image": "a.png", "question": "Which <b>colour</b>?", "A": "red", "B": "</script>", "answer": "A"}
    (tmp_path / "t.jsonl").write_text("\n".join(json.dumps({**row, "id": f"q{at}"}) for at in range(3)))
    text = page(snellen("check", "t.jsonl", "--images", "images", "--page"), tmp_path)
    assert text.count("<section") == text.count('alt="image of the question"') == 3 and "<figure" not in text
    assert "Which &lt;b&gt;colour&lt;/b&gt;?" in text and "&lt;/script&gt;" in text
    assert text.count('<bdi class="target">A</bdi>') == 3


def test_a_page_that_would_destroy_something_or_is_none_is_refused_before_the_data_is_read(
    snellen: Snellen, tmp_path: Path
) -> None:
    table = boxes(tmp_path, [[210, 110, 390, 290]])
    before = table.read_bytes()
    for target, reason in (("p.pdf", "ends in .pdf"), ("t.jsonl", "also the input"), ("images", "is a folder")):
        said = snellen("check", "t.jsonl", "--images", "images", "--page", target)
        assert said.status == 2 and reason in said.err and said.out == "", said
    assert table.read_bytes() == before
