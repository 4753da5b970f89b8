"""The local collection: what is indexed, how it is searched, which copies of a picture are found."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import photographs
import pytest
from PIL import Image

from snellen.errors import DataError
from snellen.models.tools.base import ToolError
from snellen.models.tools.html_text import read_page
from snellen.models.tools.local_index import (
    LocalBackend,
    best_pages,
    build,
    open_index,
    snippet,
    split_words,
    write_bm25,
)
from snellen.models.tools.perceptual_hash import HashIndex, stacked, variants
from snellen.models.tools.settings import ToolSettings, prepare
from stopwatch import cpu_times, is_done_within


@pytest.fixture
def collection(tmp_path):
    """Pages in every form, and three photographs."""
    home = tmp_path / "pages"
    (home / "img").mkdir(parents=True)
    for name in ("chelsea", "coffee", "rocket"):
        photographs.photograph(f"{name}.png" if name != "rocket" else "rocket.jpg").save(home / "img" / f"{name}.png")
    (home / "cat.html").write_text(
        "<html><title>Chelsea the cat</title><body>A ginger <b>cat</b> with green eyes."
        "<img src='img/chelsea.png' alt='the cat'><a href='https://example.org/more'>more</a></body>"
    )
    (home / "rocket.json").write_text(
        json.dumps(
            {
                "url": "https://example.org/rocket",
                "title": "A rocket",
                "text": "Launch at night.",
                "images": ["img/rocket.png"],
            }
        )
    )
    (home / "tea.md").write_text("# Green tea\n\nTea from Uji (宇治茶) is green.\n")
    (home / "notes.txt").write_text(
        "Café notes\nNothing of a cat here but the word, in a far longer text about coffee." * 3
    )
    (home / "rows.jsonl").write_text('{"text": "first row"}\n{"text": "second row", "title": "Two"}\n')
    return home


def backend(folder: Path) -> LocalBackend:
    return LocalBackend(folder, build(folder))


def test_pages_of_every_form_are_found_best_first(collection):
    local = backend(collection)
    assert local.find("green-eyed CAT", 5)[0].url == "https://pages.invalid/cat.html"
    assert [hit.title for hit in local.find("launch", 5)] == ["A rocket"]
    assert [hit.title for hit in local.find("宇治茶", 5)] == ["# Green tea".lstrip("# ")]
    assert [hit.url for hit in local.find("cafe", 5)] == ["https://pages.invalid/notes.txt"]
    assert [hit.url for hit in local.find("second", 5)] == ["https://pages.invalid/rows.jsonl#2"]
    assert local.find("unheard of", 5) == [] or all("of" in hit.snippet for hit in local.find("unheard of", 5))
    assert local.find("!?", 5) == []


async def test_a_page_is_fetched_by_its_address_and_shows_its_pictures(collection):
    local = backend(collection)
    page = await local.fetch("https://pages.invalid/cat.html")
    assert page.text == "A ginger cat with green eyes.more"
    assert page.links == (("https://example.org/more", "more"),)
    assert page.images == (("https://pages.invalid/img/chelsea.png", "the cat"),)
    picture = await local.fetch(page.images[0][0])
    assert picture.data == (collection / "img" / "chelsea.png").read_bytes()


@pytest.mark.parametrize(
    "url",
    ["https://pages.invalid/../secret.txt", "file:///etc/passwd", "https://example.org/", "/etc/passwd", "cat.html"],
)
async def test_nothing_but_the_collection_is_fetched(collection, url):
    (collection.parent / "secret.txt").write_text("gold")
    with pytest.raises(ToolError, match="not in the collection"):
        await backend(collection).fetch(url)


async def test_a_picture_leads_to_the_page_that_shows_it(collection):
    local = backend(collection)
    copy = photographs.png(
        photographs.mirror(photographs.crop(photographs.photograph("rocket.jpg"), 0.05, 0.05, 0.05, 0.05))
    )
    (hit,) = await local.reverse(copy, 5)
    assert (hit.url, hit.title, hit.image) == (
        "https://example.org/rocket",
        "A rocket",
        "https://pages.invalid/img/rocket.png",
    )
    assert hit.similarity > 90
    assert await local.reverse(photographs.png(photographs.photograph("retina.jpg")), 5) == []
    with pytest.raises(ToolError, match="one colour"):
        await local.reverse(photographs.png(Image.new("RGB", (80, 80), "grey")), 5)


def test_the_index_is_built_once_and_anew_when_a_page_changes(collection):
    first = build(collection)
    made = (first / "pages.sqlite").stat().st_mtime_ns
    assert build(collection) == first
    assert (first / "pages.sqlite").stat().st_mtime_ns == made
    (collection / "tea.md").write_text("# Black tea\n")
    second = build(collection)
    assert second != first
    assert LocalBackend(collection, second).find("black", 5)[0].title == "Black tea"
    assert prepare(ToolSettings(pages=str(collection))).index == str(second)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("bad.json", "[1, 2]", "not a page"),
        ("bad.jsonl", '{"text": "fine"}\n{"title": "no text"}\n', "line 2"),
        ("deep.json", "[" * 100_000, "not a page"),
        ("out.json", '{"text": "x", "images": ["../secret.png"]}', r"'\.\.'"),
        ("two.jsonl", '{"url": "https://a.org", "text": "x"}\n{"url": "https://a.org", "text": "y"}\n', "second page"),
    ],
)
def test_a_page_that_cannot_be_read_is_named(tmp_path, name, content, why):
    (tmp_path / "pages").mkdir()
    (tmp_path / "secret.png").write_bytes(photographs.png(photographs.photograph("coins.png")))
    (tmp_path / "pages" / name).write_text(content)
    with pytest.raises(DataError, match=why):
        build(tmp_path / "pages")


def test_links_that_lead_out_of_the_collection_are_refused(tmp_path):
    (tmp_path / "pages").mkdir()
    (tmp_path / "gold.txt").write_text("gold")
    (tmp_path / "pages" / "page.txt").symlink_to(tmp_path / "gold.txt")
    with pytest.raises(DataError, match="symbolic link"):
        build(tmp_path / "pages")


def test_scores_are_those_of_the_formula(tmp_path):
    write_bm25([("a", "cat cat dog"), ("b", "dog"), ("c", "bird")], tmp_path)
    index = open_index(tmp_path)
    # Lengths count a title's word three times: 6, 4 and 4, on average 14 / 3.
    weight = 1.2 * (1 - 0.75 + 0.75 * 6 / (14 / 3))
    expected = math.log(1 + (3 - 1 + 0.5) / 1.5) * 2 / (2 + weight)
    assert index.get_scores(["cat"]).tolist() == pytest.approx([expected, 0.0, 0.0], rel=1e-6)
    assert best_pages(index, ["dog", "dog", "unknown"], 5) == [1, 0]
    assert best_pages(index, ["unknown"], 5) == best_pages(index, [], 5) == []


def test_pages_of_equal_score_come_in_their_order(tmp_path):
    write_bm25([("a", "cat")] * 20, tmp_path)
    assert best_pages(open_index(tmp_path), ["cat"], 5) == [0, 1, 2, 3, 4]


def test_pages_without_a_word_are_indexed_and_not_found(tmp_path):
    write_bm25([("", "--")] * 2, tmp_path)
    assert best_pages(open_index(tmp_path), ["cat"], 5) == []


def test_words_are_those_of_many_languages():
    assert split_words("Fjäll-räv, 3 ÅR!") == ["fjall", "rav", "3", "ar"]
    assert split_words("白頭鷲 Eagle") == ["白頭", "頭鷲", "eagle"]
    assert snippet("x " * 500 + "needle in hay", ["needle"], 60).startswith("… x")
    assert "needle" in snippet("x " * 500 + "needle in hay", ["needle"], 60)


@pytest.mark.parametrize(
    "page",
    [
        "<" * 500_000,
        "<!--" * 125_000,
        "<a " * 170_000,
        "<a href='x'>" * 40_000,
        "<script>" * 60_000,
        '<img src="' * 50_000,
        "<a " + "b" * 500_000,
        "<a " + "b " * 250_000 + ">",
        "<p>" * 160_000,
        "&" * 500_000,
        "<title>" * 70_000,
    ],
)
def test_hostile_pages_take_time_in_proportion_to_their_length(page):
    assert is_done_within(5, lambda: read_page(page, "https://example.org/"))


def test_a_mirrored_hash_is_the_hash_of_the_mirrored_picture():
    picture = photographs.photograph("coffee.png")
    both = variants(picture, mirrored=True)
    drawn = variants(photographs.mirror(picture))
    assert both is not None
    assert drawn is not None
    # The corners are the last four: mirrored, one is the other.
    assert int(np.bitwise_count(both[1] ^ drawn)[:5].sum()) <= 20


def test_copies_are_found_among_other_pictures_and_strangers_are_not():
    rng = np.random.default_rng(2)
    originals = photographs.originals()[::3]
    hashes = [one for picture in originals if (one := variants(picture)) is not None]
    assert len(hashes) == len(originals)
    while len(hashes) < 600:
        if (one := variants(photographs.window(rng))) is not None:
            hashes.append(one)
    index = HashIndex(stacked(hashes))
    for name, copy in photographs.COPIES.items():
        found = 0
        for number, picture in enumerate(originals):
            hashed = variants(copy(picture, rng), True)
            assert hashed is not None
            near = index.nearest(hashed, 1)
            found += bool(near) and near[0][0] == number
        assert found >= 0.9 * len(originals), (name, found)
    strangers = [variants(photographs.window(rng), True) for _ in range(60)]
    told = sum(bool(index.nearest(hashed, 1)) for hashed in strangers if hashed is not None)
    assert told <= 8


def test_an_original_is_found_by_its_crop_and_a_crop_by_its_original():
    whole = photographs.photograph("astronaut.png")
    part = photographs.crop(whole, 0.05, 0.05, 0.05, 0.05)
    for held, asked in ((whole, part), (part, whole), (part, photographs.mirror(whole))):
        hashes, query = variants(held), variants(asked, True)
        assert hashes is not None
        assert query is not None
        ((number, distance),) = HashIndex(stacked([hashes])).nearest(query, 5)
        assert (number, distance <= 20) == (0, True)


def test_a_search_over_a_hundred_thousand_hashes_takes_milliseconds():
    rng = np.random.default_rng(0)
    index = HashIndex(rng.integers(0, 2**64, (9, 4, 100_000), dtype=np.uint64))
    query = variants(photographs.photograph("chelsea.png"), True)
    assert query is not None
    assert index.nearest(query, 5) == []
    # The target is 20 ms of a quiet machine (bench/local_search.py measures it); other work here must not fail it.
    assert min(cpu_times(lambda: index.nearest(query, 5), 9)) < 0.06


def test_an_index_that_is_damaged_says_what_to_do(collection):
    index = build(collection)
    os.truncate(index / "data.csc.index.npy", 10)
    with pytest.raises(DataError, match="cannot be read"):
        LocalBackend(collection, index)
