"""Prices of tokens and of images: the dated table of the package, price files that come before it, and what a run costs."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers import fast
from snellen.errors import UsageError
from snellen.models.api import ApiModel
from snellen.models.api.prices import PROVIDERS, Price, _table, find_price, known_models, load_price, provider_of
from snellen.models.api.reply import priced
from snellen.models.base import ModelOptions
from snellen.models.image_tokens import rough_tokens
from snellen.types import Prompt, Text, Usage

OPENAI = "https://api.openai.com/v1"


def test_every_row_names_its_day_its_source_and_a_rule_that_exists():
    table = _table()
    names = [(row.provider, row.model) for row in table.models]
    assert len(names) == len(set(names)) and {provider for provider, _ in names} == set(PROVIDERS)
    for row in (*table.models, *table.batch.values(), *table.images.values()):
        assert dt.date(2026, 1, 1) <= row.day <= dt.date(2027, 1, 1)
        assert urlsplit(row.source).scheme == "https" and urlsplit(row.source).hostname
    for row in table.models:
        assert 0 < row.input <= row.output and row.images in {None, *table.images}
        assert row.cached_input is None or row.cached_input <= row.input
        assert row.long is None or (row.long.input >= row.input and row.long.output >= row.output)


def test_a_confirmed_price_was_read_from_the_provider_itself():
    hosts = {"openai": "openai.com", "anthropic": "claude.com", "gemini": "google.dev"}
    confirmed = [row for row in _table().models if row.confirmed]
    assert confirmed
    for row in confirmed:
        assert (urlsplit(row.source).hostname or "").endswith(hosts[row.provider]), row.model


def test_a_dated_name_has_the_price_of_its_model_and_an_unknown_one_has_none():
    found = find_price("openai", "gpt-5-mini-2025-08-07")
    assert found is not None and found.origin.model == "gpt-5-mini"
    assert (found.price.input, found.price.cached_input, found.price.output) == (0.25, 0.025, 2.0)
    assert found.price.batch == 0.5 and found.price.image_rule() is not None
    assert find_price("openai", "gpt-5-mini-nosuch") is None
    assert find_price("anthropic", "gpt-5-mini") is None, "never across providers"
    assert find_price(None, "gpt-5-mini") is None, "another service has prices of its own"
    assert "gpt-5-mini" in known_models("openai")


def test_cached_and_written_input_cost_their_own_price_and_a_batch_its_share():
    price = Price(10.0, 50.0, cached_input=1.0, cache_write=12.5, batch=0.5)
    assert price.cost(1_000_000, 0, 400_000, 100_000) == pytest.approx(5.0 + 0.4 + 1.25)
    assert price.cost(1_000_000, 100_000, batch=True) == pytest.approx((10.0 + 5.0) / 2)
    assert price.cost(100, 0, 900, 900) == pytest.approx(100 * 1.0 / 1e6), (
        "a server that counts too much gets no negative rest"
    )
    assert Price(10.0, 50.0).cost(1_000_000, 0, batch=True) == 10.0, "an unknown share saves nothing"
    assert price.usage_cost(Usage(1_000_000, 0, cached_tokens=1_000_000)) == pytest.approx(1.0)


def test_the_cache_saves_what_the_same_tokens_would_have_cost_without_it():
    price = Price(10.0, 50.0, cached_input=1.0, cache_write=12.5, batch=0.5, cache_write_1h=20.0)
    read, written = Usage(1_000_000, 0, cached_tokens=800_000), Usage(1_000_000, 0, cache_write_tokens=400_000)
    hour = Usage(1_000_000, 0, cache_write_tokens=400_000, cache_write_1h_tokens=100_000)
    assert price.cache_saved(read) == pytest.approx(7.2) and price.cache_saved(read, batch=True) == pytest.approx(3.6)
    assert price.cache_saved(written) == pytest.approx(-1.0), "writing costs more than plain input"
    assert price.usage_cost(hour) == pytest.approx(6.0 + 0.3 * 12.5 + 0.1 * 20.0)
    assert price.cache_saved(Usage(1_000_000, 0)) is None, "the cache was not used"
    assert Price(10.0, 50.0).cache_saved(read) is None, "what is not known is not filled in"
    saved = priced(read, price) + priced(written, price) + priced(Usage(5, 5), price)
    assert saved.cache_saved == pytest.approx(6.2) and saved.cost is not None
    known = find_price("anthropic", "claude-opus-5")
    assert known is not None and known.price.cache_write_1h == 2 * known.price.input
    gemini = find_price("gemini", "gemini-3.7-flash")
    assert gemini is not None and gemini.price.cache_write_1h is None


def test_a_long_prompt_costs_the_price_of_long_prompts_in_whole(tmp_path):
    (tmp_path / "p.toml").write_text(
        "[m]\ninput = 2.0\noutput = 12.0\nlong = { above = 200000, input = 4.0, output = 18.0 }\n"
    )
    price = load_price(tmp_path / "p.toml", "m")
    assert price.cost(200_000, 1_000) == pytest.approx((200_000 * 2 + 12_000) / 1e6)
    assert price.cost(200_001, 1_000) == pytest.approx((200_001 * 4 + 18_000) / 1e6)


def test_a_row_of_a_price_file_comes_first_and_the_rules_of_the_service_stay(tmp_path):
    path = tmp_path / "p.toml"
    path.write_text('["gpt-5-mini"]\ninput = 7.0\noutput = 8.0\n')
    found = find_price("openai", "gpt-5-mini", path)
    built_in = find_price("openai", "gpt-5-mini")
    assert (found.price.input, found.price.images, found.price.batch) == (7.0, built_in.price.images, 0.5)
    assert found.origin.day is None and str(path) in found.origin.text
    assert find_price("openai", "gpt-5-nano", path) == find_price("openai", "gpt-5-nano")
    with pytest.raises(UsageError, match="no price for 'gpt-99'"):
        find_price("openai", "gpt-99", path)
    with pytest.raises(UsageError, match="no price for 'gpt-5-nano'"):
        find_price(None, "gpt-5-nano", path)


@pytest.mark.parametrize(
    "row",
    [
        "cache_write = -1",
        "batch = -0.5",
        "batch = nan",
        "batch = 3.0",
        "input = 1e308",
        "input = inf",
        "images = 'nosuch'",
        "long = {above = -1, input=1, output=1}",
    ],
)
def test_a_price_file_with_an_impossible_value_is_refused(tmp_path, row):
    path = tmp_path / "p.toml"
    path.write_text("[m]\n" + _rows(row))
    with pytest.raises(UsageError, match=r"p\.toml"):
        load_price(path, "m")


def _rows(row: str) -> str:
    lines = {"input": "input = 1", "output": "output = 2", row.partition(" ")[0]: row}
    return "\n".join(lines.values()) + "\n"


@pytest.mark.parametrize(
    ("kind", "address", "provider"),
    [
        ("openai", None, "openai"),
        ("anthropic", None, "anthropic"),
        ("gemini", "http://127.0.0.1:1/v1", "gemini"),
        ("api", OPENAI, "openai"),
        ("tools", OPENAI, "openai"),
        ("api", "https://api.anthropic.com/v1", "anthropic"),
        ("api", "https://api.openai.com.evil.example/v1", None),
        ("api", "https://evil.example/api.openai.com", None),
        ("api", "http://127.0.0.1:8000/v1", None),
        ("api", "http://[bad/v1", None),
        ("embedded", None, None),
    ],
)
def test_the_prices_of_a_provider_hold_at_its_own_address_alone(kind, address, provider):
    assert provider_of(kind, address) == provider


def test_a_model_behind_its_provider_has_a_price_without_a_file_and_elsewhere_none():
    known = ApiModel("api:gpt-5-mini", ModelOptions(base_url=OPENAI)).price
    assert known is not None and known.output == 2.0
    assert ApiModel("api:gpt-5-mini", ModelOptions(base_url="http://127.0.0.1:9/v1")).price is None
    assert ApiModel("api:gpt-99", ModelOptions(base_url=OPENAI)).price is None


def test_the_words_about_a_price_say_its_day_and_its_doubts():
    promotion = find_price("gemini", "gemini-3.7-flash")
    confirmed = find_price("anthropic", "claude-opus-5")
    assert promotion is not None and confirmed is not None
    assert "not confirmed" in promotion.origin.text and "2026-12-31" in promotion.origin.text
    assert "2026-11-23" in confirmed.origin.text and "not confirmed" not in confirmed.origin.text


def test_the_detail_of_an_image_chooses_its_rule():
    found = find_price("openai", "gpt-6-astra")
    usual, high = found.price.image_rule(), found.price.image_rule("high")
    assert usual is not None and high is not None and high.count(4032, 3024) < usual.count(4032, 3024)
    assert found.price.image_rule("original") == usual


def test_a_price_file_without_an_end_is_not_read_to_it(tmp_path):
    """As with --prices /dev/zero."""
    path = tmp_path / "prices.toml"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UsageError, match="larger than 8,388,608 bytes"):
        load_price(path, "m")


def test_the_api_path_imports_nothing_heavy():
    code = (
        "import sys, time; began = time.process_time()\n"
        "import snellen.models.api, snellen.models.api.transport\n"
        "heavy = {'torch', 'transformers', 'pyarrow', 'pandas', 'matplotlib', 'PIL', 'numpy', 'dotenv', 'openai'}\n"
        "print(sorted(heavy & set(sys.modules)), time.process_time() - began)"
    )
    seconds = []
    while len(seconds) < 3 and min(seconds, default=1) >= 0.5:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        heavy, _, spent = done.stdout.rpartition(" ")
        assert heavy == "[]"
        seconds.append(float(spent))
    assert min(seconds) < 0.5, "0.15 s were measured on a 2.5 GHz Xeon"


def test_settings_are_read_and_bodies_are_made_without_importing_aiohttp():
    code = "import sys, snellen.models.api; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_many_questions_share_their_connections_and_cost_little_cpu(stub):
    model = ApiModel(fast.MODEL, ModelOptions(base_url=stub.url))
    prompt = Prompt((Text("A or B?"),))
    await asyncio.gather(*(model.answer(prompt) for _ in range(64)))
    costs = []
    for _ in range(10):
        began = time.process_time()
        await asyncio.gather(*(model.answer(prompt) for _ in range(64)))
        costs.append((time.process_time() - began) / 64)
    await model.close()
    assert stub.stats()["served"] == 11 * 64
    assert sorted(costs)[5] < 0.0012, "0.15 ms a question were measured with the default event loop"


async def test_questions_in_flight_are_not_held_back_by_the_client():
    with fast.running(latency_s=600.0) as server:
        model = ApiModel(fast.MODEL, ModelOptions(base_url=server.url, concurrency=1))
        asked = [asyncio.create_task(model.answer(Prompt((Text("?"),)))) for _ in range(200)]
        async with asyncio.timeout(300):
            while (await asyncio.to_thread(server.stats))["in_flight"] < 200:  # noqa: ASYNC110 - of another process
                await asyncio.sleep(0.05)
        for each in asked:
            each.cancel()
        await model.close()


@pytest.mark.parametrize("name", ["prices.toml", "prices.json"])
def test_prices_are_read_from_toml_and_json(tmp_path, name):
    table = {"small-model": {"input": 0.5, "output": 2}, "large": {"input": 5.0, "output": 20.0, "cached_input": 1.0}}
    lines = [f'["{model}"]\n' + "".join(f"{k} = {v}\n" for k, v in row.items()) for model, row in table.items()]
    (tmp_path / name).write_text(json.dumps(table) if name.endswith("json") else "\n".join(lines))
    assert load_price(tmp_path / name, "small-model") == Price(0.5, 2.0)
    assert load_price(tmp_path / name, "large").cost(1_000_000, 100_000, 250_000) == 0.75 * 5 + 0.25 * 1 + 2.0
    with pytest.raises(UsageError, match=r"no price for 'smal-model'[\s\S]*small-model"):
        load_price(tmp_path / name, "smal-model")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[[",
        '["m"]\ninput = "cheap"\noutput = 1',
        '["m"]\ninput = 1',
        '["m"]\ninput = 1\noutput = 2\nper = "token"',
        '["m"]\ninput = -1\noutput = 2',
    ],
)
def test_a_price_file_that_is_not_one_is_refused(tmp_path, text):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"prices\.toml"):
        load_price(path, "m")
    with pytest.raises(UsageError, match="cannot read"):
        load_price(tmp_path / "none.toml", "m")


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
