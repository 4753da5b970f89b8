"""Caveats of runs at providers that may scale images down."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from msgspec import structs
from PIL import Image as Pillow

from snellen.engine.run_folder import Coverage, RunMeta, RunSpec, Totals
from snellen.event_loop import in_loop
from snellen.models.api.model import ApiModel
from snellen.models.base import ModelOptions
from snellen.runs.caveats import caveats
from snellen.sources import BytesBlob
from snellen.types import Image, MediaSettings, Prompt, Text


def texts(model: str, *, images: int | None = None, address: str | None = None, **options: Any) -> list[str]:
    meta = RunMeta(
        spec=RunSpec(benchmark="chart", model=model, options=structs.replace(ModelOptions(), **options)),
        fingerprint="f",
        identity={} if address is None else {"model": {"base_url": address}},
        state="complete",
        coverage=Coverage(None, None),
        totals=Totals(oversized_images=images),
    )
    return [caveat.text for caveat in caveats(meta, state="complete") if caveat.about == "pictures"]


@pytest.mark.parametrize("model", ["openai:m", "azure:m", "anthropic:m", "gemini:m"])
def test_a_provider_that_may_scale_images_down_is_named_beside_the_score(model: str) -> None:
    (text,) = texts(model)
    assert "detail auto" in text
    assert ("--detail original prevents it" in text) == (not model.startswith("gemini"))


def test_images_that_cannot_have_been_scaled_need_no_caveat() -> None:
    assert texts("openai:m", detail="original") == []
    assert texts("anthropic:m", detail="original") == []
    assert texts("anthropic:m", media=MediaSettings(max_long_side=1568)) == []
    assert texts("anthropic:m", media=MediaSettings(max_long_side=1569)) != []
    assert texts("gemini:m", detail="original") != []
    assert texts("api:m") == texts("embedded:") == []
    assert texts("openai:m", media=MediaSettings(blank=True)) == [
        "blind control: every image was replaced by a grey one"
    ]


@pytest.mark.parametrize("model", ["openai:m", "azure:m", "anthropic:m"])
def test_a_caveat_counts_the_images_that_were_too_large_and_is_silent_without_one(model: str) -> None:
    assert texts(model, images=0) == []
    (one,) = texts(model, images=1)
    (many,) = texts(model, images=1200)
    assert "1 image that was larger" in one and "1,200 images that were larger" in many


@pytest.mark.parametrize(
    ("address", "title", "original_helps"),
    [
        ("https://api.openai.com/v1", "OpenAI", True),
        ("https://api.anthropic.com/v1", "Anthropic", False),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "Gemini", False),
    ],
)
def test_an_api_model_at_a_providers_own_address_has_the_providers_caveat(address, title, original_helps):
    (text,) = texts("api:m", images=3, address=address)
    assert text.startswith(title) and ("--detail original" in text) == original_helps
    assert (texts("api:m", images=None, address=address, detail="original") == []) == original_helps
    assert texts("api:m", images=3, address="https://api.openai.com.example/v1") == []


SIZES = {  # of images, and how many of them each model's service scales down
    ("openai", "gpt-4o", "auto"): {(768, 2048): 0, (769, 769): 1, (2049, 10): 1},
    ("openai", "a-model-without-a-rule", "auto"): {(768, 768): 0, (769, 10): 1},
    ("openai", "a-model-without-a-rule", "low"): {(512, 512): 0, (513, 10): 1},
    ("openai", "gpt-4o", "original"): {(5000, 10): None},
    ("anthropic", "a-model-without-a-rule", "auto"): {(1568, 100): 0, (1569, 100): 1},
    ("gemini", "gemini-3-pro", "auto"): {(5000, 10): None},
    ("api", "gpt-4o", "auto"): {(768, 2048): 0, (769, 769): 1},
    ("api http://127.0.0.1:9/v1", "gpt-4o", "auto"): {(5000, 10): None},
}


@pytest.mark.parametrize(
    ("service", "size", "oversized"),
    [(service, size, count) for service, sizes in SIZES.items() for size, count in sizes.items()],
)
def test_a_request_counts_its_images_above_the_services_limit(service, size, oversized, monkeypatch):
    for variable in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    kind, _, address = service[0].partition(" ")
    content = BytesIO()
    Pillow.new("RGB", size).save(content, "PNG")
    small = BytesIO()
    Pillow.new("RGB", (9, 9)).save(small, "PNG")
    model = ApiModel(service[1], ModelOptions(base_url=address or None, detail=service[2]), kind)
    images = (Image(BytesBlob("large", content.getvalue())), Image(BytesBlob("small", small.getvalue())))
    body = in_loop(model.protocol.write(Prompt((*images, Text("Which?")))))
    assert body.oversized == oversized
