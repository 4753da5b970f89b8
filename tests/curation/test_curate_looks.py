"""Near-duplicates by an encoder: which copies it finds, that the search is exact, and what the audit makes of it."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import setting
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from PIL import Image

from models.tools.photographs import COPIES, NAMES, photograph, png
from snellen.curation import leaks, near_duplicates, stages
from snellen.curation.web import engine_name, search_by
from snellen.curation.workspace import open_work
from snellen.errors import MissingExtraError
from snellen.models.tools.settings import ToolSettings

pytest.importorskip("torch", reason="torch is not installed, so no encoder is tested: pip install 'snellen[features]'")
pytest.importorskip(
    "transformers", reason="transformers is not installed, so no encoder is tested: pip install 'snellen[features]'"
)


@pytest.fixture(scope="module")
def encoder() -> near_duplicates.ImageEncoder:
    found = near_duplicates.open_image_encoder("embedded")
    assert found is not None
    return found


@pytest.fixture
def work(place, tmp_path):
    """The first six of the fifty."""
    rows = (place / "candidates.jsonl").read_text().splitlines(keepends=True)[:6]
    (tmp_path / "six.jsonl").write_text("".join(rows))
    return open_work(tmp_path / "work", tmp_path / "six.jsonl", place / "images")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))


def unit(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Vectors of length 1, some of which are alike and some the same."""
    found = rng.choice(rng.normal(size=(5, shape[-1])), shape[:-1]) + rng.choice([0, 0.05, 1], (*shape[:-1], 1)) * (
        rng.normal(size=shape)
    )
    return (found / np.linalg.norm(found, axis=-1, keepdims=True)).astype(np.float32)


@examples(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(0, 30),
    k=st.integers(1, 40),
    alike=st.floats(-1, 1),
    block=st.sampled_from([1, 3, 64]),
)
def test_the_search_by_looks_compares_every_view_with_every_view(seed, size, k, alike, block):
    rng = np.random.default_rng(seed)
    asked, held = unit(rng, 6, 7), unit(rng, size, 3, 7)
    best = [max(float(np.float64(one) @ np.float64(view)) for one in asked for view in views) for views in held]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near_duplicates, "BLOCK", block)
        found = near_duplicates.nearest(asked, held, k, alike)
    assert [cosine for _, cosine in found] == sorted((cosine for _, cosine in found), reverse=True)
    assert all(abs(best[number] - cosine) < 1e-5 for number, cosine in found)
    surely = [number for number, cosine in enumerate(best) if cosine >= alike + 1e-5]
    assert len(found) >= min(k, len(surely)) and len(found) == len({number for number, _ in found})
    assert all(cosine >= alike - 1e-5 for _, cosine in found)
    if len(found) < k:
        assert {number for number, _ in found} >= set(surely)


@pytest.mark.parametrize(
    "copy", ["JPEG, quality 75", "5 % cut off each side", "mirrored", "mirrored, JPEG 75", "mirrored, 5 % off, JPEG 60"]
)
def test_copies_of_photographs_look_the_same_and_other_photographs_do_not(encoder, copy):
    rng = np.random.default_rng(0)
    held = encoder.encode_collection(png(photograph(name)) for name in NAMES)
    for number, name in enumerate(NAMES):
        found = near_duplicates.nearest(encoder.encode_query(png(COPIES[copy](photograph(name), rng))), held, 5)
        assert [one for one, _ in found] == [number], name


def test_a_picture_of_one_colour_looks_like_nothing(encoder):
    grey = png(Image.new("RGB", (64, 64), (90, 90, 90)))
    held = encoder.encode_collection([grey])
    assert near_duplicates.nearest(encoder.encode_query(grey), held, 5, 0.5) == []


def other_crop(data: bytes) -> bytes:
    """A picture with a third of its left side cut away: the same thing, and no copy to the hash."""
    with Image.open(BytesIO(data)) as picture:
        width, height = picture.size
        return png(picture.convert("RGB").crop((width // 3, 0, width, height)))


def test_what_the_hash_does_not_tell_is_flagged_as_alike_and_dropped_where_asked_for(work, encoder):
    one = work.candidates[3]
    thumbnail = other_crop(work.image(one).read_bytes())
    cosine = float(
        near_duplicates.cosines(
            encoder.encode_query(work.image(one).read_bytes()), encoder.encode_collection([thumbnail])
        )[0]
    )

    async def search(picture, k):
        import base64

        uri = f"data:image/png;base64,{base64.b64encode(thumbnail).decode()}"
        return [{"url": "https://x.example/a", "title": "a picture", "thumbnail": uri}]

    below = leaks.LeakRule(alike=round(cosine - 0.001, 4))
    found = stages.audit_leaks(work, search, "e", rule=below, encoder=encoder, skip=("hard",))
    mine = next(decision for decision in found.decisions if decision.id == one.id)
    assert (mine.verdict, mine.reason) == ("keep", "flagged: alike")
    assert mine.detail["leaks"][0]["cosine"] == pytest.approx(cosine, abs=1e-3)
    assert found.settings["encoder"].startswith("embedded ")
    dropping = leaks.LeakRule(alike=below.alike, drop=("alike",))
    found = stages.audit_leaks(work, None, "e", rule=dropping, encoder=encoder, skip=("hard",))
    mine = next(decision for decision in found.decisions if decision.id == one.id)
    assert (mine.verdict, mine.reason) == ("drop", "picture of https://x.example/a looks the same")
    above = leaks.LeakRule(alike=min(1.0, cosine + 0.001))
    found = stages.audit_leaks(work, None, "e", rule=above, encoder=encoder, skip=("hard",))
    assert next(decision for decision in found.decisions if decision.id == one.id).reason == ""
    alone = stages.audit_leaks(work, None, "e", rule=below, skip=("hard",))
    assert next(decision for decision in alone.decisions if decision.id == one.id).reason == ""


def test_a_candidate_that_looks_like_an_earlier_one_with_its_question_is_flagged(place, tmp_path, encoder):
    rows = [json.loads(line) for line in (place / "candidates.jsonl").read_text().splitlines()[:2]]
    rows.append({**rows[0], "id": "again", "image": "again.png"})
    rows.append({**rows[0], "id": "another question", "image": "again.png", "question": "Is it large?"})
    (tmp_path / "images").mkdir()
    for row in rows[:2]:
        (tmp_path / "images" / row["image"]).write_bytes((place / "images" / row["image"]).read_bytes())
    (tmp_path / "images" / "again.png").write_bytes(other_crop((place / "images" / rows[0]["image"]).read_bytes()))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    work = open_work(tmp_path / "work", tmp_path / "c.jsonl", tmp_path / "images")
    assert leaks.twins(work, work.candidates, 72) == {}
    assert leaks.lookalikes(work, work.candidates, encoder, 0.2, ()) == {"again": rows[0]["id"]}
    assert leaks.lookalikes(work, work.candidates, encoder, 0.2, {"again"}) == {}


def test_a_local_collection_is_searched_by_looks_too_and_encoded_once(place, work, encoder, monkeypatch):
    settings = ToolSettings(pages=str(place / "web"))
    search = search_by(settings, encoder)
    picture = other_crop(setting.pictures()[setting.LEAKED[0]])
    assert asyncio.run(search_by(settings)(picture, 5)) == [], "the hash finds it: this test tests nothing"
    hits = [hit for hit in asyncio.run(search(picture, 20)) if hit["source"] == "local, by looks"]
    assert all(hit["cosine"] >= 0.9 for hit in hits)
    whole = asyncio.run(search(setting.pictures()[setting.LEAKED[0]], 20))
    assert whole[0]["url"] == f"https://web.example/{setting.LEAKED[0]}" and whole[0]["source"] == "local"
    assert len({hit["thumbnail"] for hit in whole}) == len(whole)
    assert engine_name(settings, encoder).endswith(f" + {encoder.name}") and "+" not in engine_name(settings)

    def never(pictures):
        raise AssertionError("the collection is encoded again")

    monkeypatch.setattr(encoder, "encode_collection", never)
    assert asyncio.run(search_by(settings, encoder)(setting.pictures()[setting.LEAKED[0]], 20)) == whole


def test_a_name_on_a_page_that_does_not_look_alike_enough_says_nothing(work):
    async def search(picture, k):
        return [{"url": "https://x.example/a", "title": setting.answer(3), "cosine": 0.93}]

    one = work.candidates[3].id
    for alike, verdict in ((0.99, "keep"), (0.92, "drop")):
        found = stages.audit_leaks(work, search, "e", rule=leaks.LeakRule(alike=alike), skip=("hard",))
        assert next(decision for decision in found.decisions if decision.id == one).verdict == verdict


def test_without_torch_the_error_says_how_to_do_without_an_encoder(monkeypatch):
    monkeypatch.setattr("snellen.features.encoders.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError) as told:
        near_duplicates.open_image_encoder("embedded")
    assert "--encoder none" in str(told.value.hint)
    assert near_duplicates.open_image_encoder("none") is None
