"""What it costs to ask: CPU, imports, connections, money."""

import asyncio
import json
import subprocess
import sys
import time

import pytest

from servers import fast
from snellen.errors import UsageError
from snellen.models.api import ApiModel
from snellen.models.api.prices import Price, load_price
from snellen.models.base import ModelOptions
from snellen.types import Prompt, Text


def test_the_api_path_imports_nothing_heavy():
    code = (
        "import sys, time; began = time.process_time()\n"
        "import snellen.models.api, snellen.models.api.transport\n"
        "heavy = {'torch', 'transformers', 'pyarrow', 'pandas', 'matplotlib', 'PIL', 'numpy', 'dotenv', 'openai'}\n"
        "print(sorted(heavy & set(sys.modules)), time.process_time() - began)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy, _, seconds = done.stdout.rpartition(" ")
    assert heavy == "[]"
    assert float(seconds) < 0.5, "0.15 s were measured on a 2.5 GHz Xeon"


def test_settings_are_read_and_bodies_are_made_without_importing_aiohttp():
    code = "import sys, snellen.models.api; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_many_questions_share_their_connections_and_cost_little_cpu(stub):
    model = ApiModel(fast.MODEL, ModelOptions(base_url=stub.url))
    prompt = Prompt((Text("A or B?"),))
    await asyncio.gather(*(model.answer(prompt) for _ in range(64)))
    began = time.process_time()
    for _ in range(10):
        await asyncio.gather(*(model.answer(prompt) for _ in range(64)))
    cost = (time.process_time() - began) / 640
    await model.close()
    assert stub.stats()["served"] == 11 * 64
    assert cost < 0.0012, "0.15 ms a question were measured with the default event loop"


async def test_questions_in_flight_are_not_held_back_by_the_client():
    with fast.running(latency_s=4.0) as server:  # long enough for a loaded machine to send them all meanwhile
        model = ApiModel(fast.MODEL, ModelOptions(base_url=server.url, concurrency=1))
        await asyncio.gather(*(model.answer(Prompt((Text("?"),))) for _ in range(200)))
        await model.close()
        assert server.stats()["most_in_flight"] == 200


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
