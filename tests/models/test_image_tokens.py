"""Tokens of an image by each service's rule, held against worked examples of the guides and counts that were measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snellen.models.api.prices import _table
from snellen.models.image_tokens import rough_tokens

RULES = _table().images
MEASURED = {
    # Published measurements of one image at ten sizes (huggingface.co/datasets/JOHNISKING/image-token-cost), for Claude less
    # the 65 and 77 tokens of text; and worked examples of the providers' guides.
    "openai-original": [
        (256, 256, 77),
        (512, 512, 308),
        (1024, 1024, 1229),
        (1280, 720, 1104),
        (1920, 1080, 2448),
        (2560, 1440, 4320),
        (3840, 2160, 9792),
        (4032, 3024, 14364),
        (4096, 512, 2458),
    ],
    "openai-high": [(1920, 1080, 2448), (2560, 1440, 2931), (3840, 2160, 2931), (4032, 3024, 2942)],
    "openai-10k": [(3840, 2160, 9792), (4032, 3024, 11868), (8000, 8000, 12000)],
    "openai-tiles": [(33, 65, 255), (1024, 1024, 765), (2048, 4096, 1105)],
    "openai-tiles-5": [(1024, 1024, 630)],
    "anthropic-standard": [
        (256, 256, 100),
        (512, 512, 361),
        (768, 768, 784),
        (1024, 1024, 1369),
        (1280, 720, 1196),
        (1920, 1080, 1560),
        (1080, 1920, 1560),
        (200, 200, 64),
        (1000, 1000, 1296),
        (1092, 1092, 1521),
    ],
    "anthropic-high": [(1920, 1080, 2691), (3840, 2160, 4784)],
    "gemini-3": [(1, 1, 1120), (4032, 3024, 1120)],
    "gemini-2": [(384, 384, 258), (385, 10, 258), (600, 400, 258), (1000, 700, 516), (1600, 1600, 2322)],
}


@pytest.mark.parametrize(
    ("rule", "width", "height", "tokens"), [(r, *row) for r, rows in MEASURED.items() for row in rows]
)
def test_a_rule_counts_as_its_service_does(rule, width, height, tokens):
    assert RULES[rule].count(width, height) == tokens


@given(st.sampled_from(sorted(RULES)), st.integers(1, 20_000), st.integers(1, 20_000))
def test_no_size_breaks_a_rule_or_its_limit(name, width, height):
    rule = RULES[name]
    tokens = rule.count(width, height)
    assert tokens >= 1
    assert rule.count(height, width) == tokens, "a turned image costs the same"
    if rule.most_patches is not None:
        assert tokens <= rule.most_patches * rule.factor + 1


def test_without_a_rule_pixels_are_a_rough_measure():
    assert rough_tokens(750, 100) == 100 and rough_tokens(1, 1) == 1
