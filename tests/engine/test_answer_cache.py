"""Answers kept across runs: what is the same request, what is not, and files that are not to be believed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from stubs import ARITHMETIC, Calculator

from servers import fast
from snellen import evaluate, rerun
from snellen.engine.answer_cache import AnswerCache
from snellen.engine.run_folder import RunFolder
from snellen.errors import StorageError, UsageError
from snellen.models.api import ApiModel
from snellen.models.base import ModelOptions
from snellen.redaction import redact, register
from snellen.runs.run import Run
from snellen.sources import BytesBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Record, Response, Sample, Text, Usage

URL = "http://127.0.0.1:9/v1"
PIXEL = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\0\0\0\x0cIDATx\x9cc\xf8\xcf\xc0\0\0\x03\x01\x01\0\xc9\xfe\x92\xef\0\0\0\0IEND\xaeB`\x82"


def asked(stub: fast.Running, out: Path, cache: Path, **settings: Any) -> Run:
    options = {"base_url": stub.url, "cache": str(cache), "limit": 6, **settings}
    return evaluate(
        options.pop("benchmark", "chart/digits"), options.pop("model", f"api:{fast.MODEL}"), out=out, **options
    )


def served(stub: fast.Running) -> int:
    return int(stub.stats()["served"])


def test_a_second_run_sends_nothing_costs_nothing_and_says_so(stub, tmp_path):
    first = asked(stub, tmp_path / "a", tmp_path / "cache")
    assert served(stub) == 6 and first.meta.totals.cached == 0
    (tmp_path / "p.toml").write_text(f'["{fast.MODEL}"]\ninput = 5.0\noutput = 5.0\n')
    second = asked(stub, tmp_path / "b", tmp_path / "cache", prices=str(tmp_path / "p.toml"), max_cost=0.0000001)
    assert served(stub) == 6
    assert second.meta.totals.cached == second.meta.totals.ok == 6
    assert (second.meta.totals.cost, second.meta.totals.input_tokens) == (0.0, 0)
    assert second.meta.fingerprint == first.meta.fingerprint, "the cache decides no answer"
    records = {record.sample_id: record for record in first.folder.records()}
    for record in second.folder.records():
        before = records[record.sample_id]
        assert record.response.text == before.response.text and record.attempts == 0
        assert record.response.cached_answer and not before.response.cached_answer


def test_without_the_option_nothing_is_kept(stub, tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    for name in "ab":
        evaluate("chart/digits", f"api:{fast.MODEL}", out=tmp_path / name, base_url=stub.url, limit=3)
    assert served(stub) == 6 and not (tmp_path / "cache" / "answers").exists()


def test_a_rerun_by_the_recorded_settings_does_not_touch_the_folder(stub, tmp_path):
    asked(stub, tmp_path / "a", tmp_path / "cache")
    rerun(tmp_path / "a", out=tmp_path / "b")
    assert served(stub) == 12 and RunFolder(tmp_path / "b").meta().spec.options.cache is None


def test_repeats_are_answers_of_their_own(stub, tmp_path):
    asked(stub, tmp_path / "a", tmp_path / "cache", limit=2, repeats=3)
    assert served(stub) == 6
    assert asked(stub, tmp_path / "b", tmp_path / "cache", limit=2, repeats=3).meta.totals.cached == 6


async def key_of(tmp_path: Path, prompt: Prompt, repeat: int = 0, model: str = "api:m", **options: Any) -> str:
    kind = model.partition(":")[0]
    opened = ApiModel(model, ModelOptions(**{"base_url": URL, **options}), kind)
    try:
        return (await AnswerCache(tmp_path, opened).look_up(Sample("a", prompt, "x", "short"), repeat)).key
    finally:
        await opened.close()


async def test_everything_that_can_change_an_answer_changes_the_name_of_its_entry(tmp_path):
    prompt = Prompt((Image(BytesBlob("a", PIXEL)), Text("A or B?")))
    usual = await key_of(tmp_path, prompt)
    assert usual == await key_of(tmp_path, prompt), "the same request has the same name"
    assert usual == await key_of(
        tmp_path, structs.replace(prompt, parts=(Image(BytesBlob("z", PIXEL)), prompt.parts[1]))
    )
    assert usual == await key_of(tmp_path, prompt, key_env="OTHER_KEY", concurrency=1, timeout_s=9.0)
    other_pixel = PIXEL.replace(b"\xf8\xcf\xc0", b"\xf8\xcf\xc1")
    others = {
        "model": await key_of(tmp_path, prompt, model="api:n"),
        "provider": await key_of(tmp_path, prompt, model="openai:m"),
        "protocol": await key_of(tmp_path, prompt, model="anthropic:m"),
        "address": await key_of(tmp_path, prompt, base_url="http://127.0.0.1:8/v1"),
        "repeat": await key_of(tmp_path, prompt, 1),
        "text": await key_of(tmp_path, structs.replace(prompt, parts=(prompt.parts[0], Text("A or C?")))),
        "order": await key_of(tmp_path, structs.replace(prompt, parts=prompt.parts[::-1])),
        "image": await key_of(
            tmp_path, structs.replace(prompt, parts=(Image(BytesBlob("a", other_pixel)), prompt.parts[1]))
        ),
        "system": await key_of(tmp_path, structs.replace(prompt, system="Be brief.")),
        "temperature": await key_of(tmp_path, prompt, generation=Generation(temperature=0.5)),
        "limit": await key_of(tmp_path, prompt, generation=Generation(max_tokens=7)),
        "seed": await key_of(tmp_path, prompt, generation=Generation(seed=7)),
        "extra": await key_of(tmp_path, prompt, extra_body={"top_k": 1}),
        "effort": await key_of(tmp_path, prompt, effort="low"),
        "media": await key_of(tmp_path, prompt, media=MediaSettings(blank=True)),
    }
    assert len({usual, *others.values()}) == len(others) + 1 and all(others.values())


class _Fetched(BytesBlob):
    url = "https://example.org/changes.png"


async def test_an_image_that_the_server_fetches_is_never_cached(tmp_path):
    prompt = Prompt((Image(_Fetched("a", PIXEL)), Text("?")))
    assert await key_of(tmp_path, prompt) == ""


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("??/*.json"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-20]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(b"x" * (9 << 20)),
        lambda path: path.write_text(path.read_text().replace('"text":"', '"text":"B')),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), path.symlink_to("/etc/passwd")),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
    ids=["torn", "empty", "nested", "large", "changed", "folder", "link", "pipe"],
)
def test_a_damaged_entry_is_a_miss_that_is_named(stub, tmp_path, capsys, spoil):
    asked(stub, tmp_path / "a", tmp_path / "cache", limit=2)
    damaged = entries(tmp_path / "cache")[0]
    spoil(damaged)
    again = asked(stub, tmp_path / "b", tmp_path / "cache", limit=2)
    assert served(stub) == 3 and (again.meta.totals.ok, again.meta.totals.cached) == (2, 1)
    assert capsys.readouterr().err.count(str(damaged)) == 1


def test_an_entry_moved_to_another_name_is_not_believed(stub, tmp_path):
    asked(stub, tmp_path / "a", tmp_path / "cache", limit=2)
    first, second = entries(tmp_path / "cache")
    second.write_bytes(first.read_bytes())
    assert asked(stub, tmp_path / "b", tmp_path / "cache", limit=2).meta.totals.cached == 1
    assert asked(stub, tmp_path / "c", tmp_path / "cache", limit=2).meta.totals.cached == 2, "it was replaced"


def test_no_key_stands_in_an_entry_and_one_that_does_is_struck(stub, tmp_path, monkeypatch, forget_keys):
    monkeypatch.setenv("MY_KEY", "sk-test-0123456789abcdefghij")
    asked(stub, tmp_path / "a", tmp_path / "cache", limit=2, key_env="MY_KEY")
    for path in entries(tmp_path / "cache"):
        assert b"sk-test" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
    register("stub-secret-0123456789")
    cache = AnswerCache(tmp_path / "other", ApiModel("api:m", ModelOptions(base_url=URL)))
    record = Record("a", "ok", response=Response("it is stub-secret-0123456789", usage=Usage(1, 1)))
    cache.store("ab" * 32, record)
    response = cache._read("ab" * 32)
    assert response is not None and response.text == redact("it is stub-secret-0123456789") != record.response.text


def test_failures_are_not_kept(tmp_path):
    cache = AnswerCache(tmp_path, ApiModel("api:m", ModelOptions(base_url=URL)))
    cache.store("ab" * 32, Record("a", "refused", response=Response("no")))
    cache.store("", Record("a", "ok", response=Response("yes")))
    assert entries(tmp_path) == []


def test_the_folder_stays_within_its_budget_and_what_was_not_used_goes_first(tmp_path):
    model = ApiModel("api:m", ModelOptions(base_url=URL))
    cache = AnswerCache(tmp_path, model, budget_bytes=5_000)
    keys = [f"{number:02x}" * 32 for number in range(10)]
    for age, key in enumerate(keys):
        cache.store(key, Record("a", "ok", response=Response("x" * 800)))
        os.utime(cache._path(key), (time.time() - 1000 + age,) * 2)
    assert cache._read(keys[0]) is not None  # used, so that it stays
    (tmp_path / "00" / ".left.part").write_text("")
    os.utime(tmp_path / "00" / ".left.part", (0, 0))
    cache.close()
    left = {path.stem for path in entries(tmp_path)}
    assert keys[0] in left and keys[9] in left and keys[1] not in left
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 5_000
    assert not list(tmp_path.glob("??/.*"))


def test_nothing_is_read_written_or_removed_behind_a_link(tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    others = [elsewhere / "taxes.json", elsewhere / "movie.part"]
    for path in others:
        path.write_text("x" * 10_000)
        os.utime(path, (0, 0))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "ab").symlink_to(elsewhere)
    cache = AnswerCache(tmp_path / "cache", ApiModel("api:m", ModelOptions(base_url=URL)), budget_bytes=1_000)
    cache.store("ab" * 32, Record("a", "ok", response=Response("yes")))
    assert cache._read("ab" * 32) is None
    cache.close()
    assert sorted(elsewhere.iterdir()) == sorted(others)
    printed = capsys.readouterr().err
    assert "1 answer could not be kept: its folder is a link" in printed and "is not used" in printed


def test_several_processes_fill_one_folder_at_once(stub, tmp_path):
    code = (
        "import sys; from snellen import evaluate\n"
        f"evaluate('chart/digits', 'api:{fast.MODEL}', out=sys.argv[1], base_url={stub.url!r}, limit=30, "
        f"cache={str(tmp_path / 'cache')!r})"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path / name)]) for name in "abc"]
    assert [process.wait(timeout=300) for process in started] == [0, 0, 0]
    assert len(entries(tmp_path / "cache")) == 30 and not list((tmp_path / "cache").glob("**/*.part"))
    assert asked(stub, tmp_path / "d", tmp_path / "cache", limit=30).meta.totals.cached == 30


def test_models_whose_prompt_is_not_all_are_refused_before_anything_is_written(tmp_path):
    for model in ("embedded", Calculator()):
        with pytest.raises(UsageError, match="--cache cannot keep"):
            evaluate(
                ARITHMETIC if model != "embedded" else "chart", model, out=tmp_path / "a", cache=str(tmp_path / "c")
            )
        assert not (tmp_path / "a").exists() or not list((tmp_path / "a").glob("*.json*"))


def test_a_folder_that_cannot_be_written_is_an_error(stub, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="--cache"):
        asked(stub, tmp_path / "a", tmp_path / "file")
    assert served(stub) == 0


def test_an_entry_is_json_that_names_its_key_and_holds_no_question(stub, tmp_path):
    asked(stub, tmp_path / "a", tmp_path / "cache", limit=1)
    (path,) = entries(tmp_path / "cache")
    entry = json.loads(path.read_text())
    assert entry["key"] == path.stem and set(entry) == {"form", "key", "digest", "response"}
