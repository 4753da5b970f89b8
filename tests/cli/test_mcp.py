"""`snellen mcp` is driven by the official SDK's client, which checks structured answers against the tools' schemas."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import zipfile
from base64 import b64decode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from benchmarks.fika import made
from servers import fast
from snellen.media import read_header

TOOLS = ["list", "check", "run", "status", "cancel", "score", "compare", "query", "answers"]
PRICED = "openai:gpt-4o-mini"
KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 2


class Driven:
    """A session with a server; `ask` returns the structured answer, `refused` the text of an error."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def ask(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.session.call_tool(tool, arguments)
        assert not result.is_error, result.content
        assert KEY not in result.model_dump_json()
        assert json.loads(result.content[0].text) == result.structured_content
        return result.structured_content

    async def refused(self, tool: str, **arguments: Any) -> str:
        result = await self.session.call_tool(tool, arguments)
        assert result.is_error, result.structured_content
        return result.content[0].text

    async def ended(self, run: str) -> dict[str, Any]:
        for _ in range(3000):
            status = await self.ask("status", run=run)
            if status["process"] != "running":
                return status
            await asyncio.sleep(0.2)
        raise AssertionError(status)


@asynccontextmanager
async def driven(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Driven]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "snellen", "mcp", "--results", str(folder / "results"), *words],
        cwd=str(folder),
        env={**os.environ, "OPENAI_API_KEY": KEY, **(env or {})},
    )
    async with stdio_client(server) as (received, sent), ClientSession(received, sent) as session:
        await session.initialize()
        yield Driven(session)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """A table of three questions, in the folder that the server may read."""
    rows = [{"id": f"q{n}", "question": f"{n} + 1 = ?", "answer": str(n + 1)} for n in range(3)]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "replies.jsonl").write_text("".join(json.dumps({"id": f"q{n}", "reply": "1"}) + "\n" for n in range(3)))
    return tmp_path


async def test_a_client_drives_a_whole_evaluation(questions):
    async with driven(questions) as server:
        assert [tool.name for tool in (await server.session.list_tools()).tools] == TOOLS
        named = {each["name"] for each in (await server.ask("list"))["benchmarks"]}
        assert {"chart", "fika", "vlm2"} <= named
        assert "embedded" in (await server.ask("list", what="models"))["models"]
        assert (await server.ask("list", what="catalogue"))["catalogue"]
        assert (await server.ask("list", words=["chart/digits"]))["benchmarks"][0]["profiles"]
        checked = await server.ask("check", benchmark="own.jsonl")
        assert checked["samples"] == 3

        own = await server.ask("run", benchmark="own.jsonl", model="replay:replies.jsonl", max_samples=3, run="own")
        assert (await server.ended("own"))["exit_status"] == 0, own
        for name, seed in (("a", 0), ("b", 1)):
            started = await server.ask(
                "run", benchmark="chart/digits", model="embedded", max_samples=4, run=name, wait_seconds=0, seed=0,
                options={"size": str(96 - 32 * seed)},
            )  # fmt: skip
            assert started["run"] == name
        status = await server.ended("a")
        assert status["exit_status"] == 0 and status["progress"]["totals"]["ok"] == 4
        assert status["result"]["runs"][0]["profiles"]
        await server.ended("b")
        assert {each["path"] for each in (await server.ask("list", what="runs"))["runs"]} == {
            str(questions / "results" / name) for name in ("a", "b", "own")
        }
        assert (await server.ask("score", run="a", profile="all"))["profiles"][0]["metrics"][0]["name"] == "accuracy"
        compared = await server.refused("compare", runs=["a", "own"])
        assert "compare" in compared or "different" in compared
        again = await server.ask(
            "run", benchmark="chart/digits", model="replay:a", max_samples=4, run="again", options={"size": "96"}
        )
        assert (await server.ended("again"))["exit_status"] == 0, again
        compared = await server.ask("compare", runs=["a", "again"])
        assert compared["comparisons"][0]["parts"][0]["difference"] == 0
        table = await server.ask("query", sql="SELECT count(*) AS n FROM results", runs=["a"])
        assert table == {"columns": ["n"], "rows": [[4]]}
        assert (await server.ask("query", sql="SELECT count(*) FROM results"))["rows"] == [[15]]

        assert "SELECT" in await server.refused("query", sql="ATTACH '/etc/passwd' AS x", runs=["a"])
        assert "disabled" in await server.refused("query", sql="SELECT * FROM read_text('/etc/passwd')")
        result = await server.session.call_tool("answers", {"run": "a", "limit": 2, "pictures": 2})
        text, *pictures = result.content
        (first, _) = result.structured_content["answers"]
        assert first["reply"] and first["gold"] is not None and first["scores"]["strict"]["verdict"]
        assert [part["type"] for part in first["question"]] == ["image", "text"]
        shown = [picture for picture in pictures if picture.type == "image"]
        assert 1 <= len(shown) <= 2 and "data" not in text.text
        assert all(read_header(b64decode(picture.data)) is not None for picture in shown)


async def test_what_is_refused_is_a_tools_error_with_a_hint_and_the_server_lives_on(questions, tmp_path_factory):
    away = tmp_path_factory.mktemp("away")
    (away / "secret.jsonl").write_text('{"id": "s", "question": "?", "answer": "hidden"}\n')
    (questions / "link.jsonl").symlink_to(away / "secret.jsonl")
    (questions / "folder").mkdir()
    (questions / "folder" / "inner.jsonl").symlink_to(away / "secret.jsonl")
    (questions / "declared.toml").write_text(f'name = "x"\n[source]\npath = "{away}/secret.jsonl"\n')
    (questions / "plan.toml").write_text('models = ["embedded"]\nbenchmarks = ["chart/digits"]\n')
    run = {"benchmark": "chart/digits", "model": "embedded"}
    async with driven(questions, "--max-cost", "1") as server:
        for budget in ({}, {"max_samples": 0}, {"max_cost": 0}, {"max_samples": 3, "max_tokens": -1}):
            text = await server.refused("run", **run, **budget)
            assert "was not started" in text and "max_samples 20" in text
        assert not list((questions / "results").iterdir())
        outside = ["../x.jsonl", "/etc/passwd", str(away / "secret.jsonl"), "link.jsonl", "folder", "~/x.jsonl"]
        for name in [*outside, "declared.toml", "plan.toml", "os:environ", "hf:a/b", "--help", "lights.module:X"]:
            for tool, more in (("check", {}), ("run", {"model": "embedded", "max_samples": 1})):
                text = await server.refused(tool, benchmark=name, **more)
                assert "\n" in text and "hidden" not in text, (name, text)
        assert "outside" in await server.refused("check", benchmark="chart/digits", images=str(away))
        assert "outside" in await server.refused("run", **run, max_samples=1, options={"boxes": str(away)})
        for model in (f"replay:{away}/secret.jsonl", f"local:{away}", "local:../x"):
            await server.refused("run", benchmark="chart/digits", model=model, max_samples=1)
        for name in ("../away", "-x", "a/../../b", "/tmp/x", ".hidden"):
            await server.refused("run", **run, max_samples=1, run=name)
            await server.refused("score", run=name)
        (questions / "results" / "out").symlink_to(away)
        assert "outside" in await server.refused("run", **run, max_samples=1, run="out")
        assert "wait_seconds" in await server.refused("run", **run, max_samples=1, wait_seconds=1e9)
        assert "unknown field" in await server.refused("run", **run, max_samples=1, base_url="http://x")
        text = await server.refused("run", benchmark="chart/digits", model="api:x", max_samples=1)
        assert "max_cost" in text
        paid = {"benchmark": "chart/digits", "model": "api:no-price"}
        assert "allows 1 more" in await server.refused("run", **paid, max_cost=2)
        await server.ask("run", **paid, max_cost=0.75, run="paid")  # it has no price, and asks nothing
        await server.ended("paid")
        assert "allows 1 more" in await server.refused("run", **paid, max_cost=2, run="other")
        assert "there is no run" in await server.refused("status", run="nothing")
        assert "not started by this server" in await server.refused("cancel", run="nothing")
        assert (await server.session.call_tool("nothing", {})).is_error
        await server.ask("run", benchmark="chart/digit", model="embedded", max_samples=1, run="wrong")
        failed = await server.ended("wrong")
        assert failed["exit_status"] == 2 and "chart/digits" in failed["error"]
        assert (await server.ask("check", benchmark="own.jsonl"))["samples"] == 3


async def test_a_run_keeps_what_it_spent_and_gives_back_the_rest_when_it_has_ended(questions):
    paid = {"benchmark": "chart/digits", "model": PRICED, "wait_seconds": 60}
    with fast.running(models=(PRICED.partition(":")[2],)) as priced:
        await _spend(questions, paid, {"OPENAI_BASE_URL": priced.url})


async def _spend(questions: Path, paid: dict[str, Any], env: dict[str, str]) -> None:
    async with driven(questions, "--max-cost", "1", env=env) as server:
        for cost in (0.75, 0.01):  # what it has spent is not given back by asking for less
            run = await server.ask("run", **paid, max_samples=4, max_cost=cost, run="paid")
            assert run["process"] == "ended"
        spent = run["progress"]["totals"]["cost"]
        assert 0 < spent < 0.01
        assert f"allows {1 - spent:g} more" in await server.refused("run", **paid, max_cost=1, run="other")
        await server.ask("run", **paid | {"wait_seconds": 0}, max_cost=0.75, run="other")
        assert f"allows {0.25 - spent:g} more" in await server.refused("run", **paid, max_cost=0.5, run="third")


async def test_a_run_reports_its_progress_to_a_client_that_asks_for_it(questions):
    told: list[tuple[float, float | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    run = {"benchmark": "chart/digits", "model": "embedded", "max_samples": 6, "run": "told", "wait_seconds": 60}
    async with driven(questions) as server:
        result = await server.session.call_tool("run", run, progress_callback=report)
        assert result.structured_content["exit_status"] == 0
        await until(lambda: bool(told), 10)
    assert told[-1] == (6, 6) and [done for done, _ in told] == sorted({done for done, _ in told})


TASK = "{field_spec: {input: question, target: answer}, solvers: [{name: generate}], scorers: [{name: match}]"


async def test_a_data_set_does_not_multiply_the_budget_and_its_task_is_named(questions):
    for folder, tasks in (("two", f"[{TASK}, id: a}}, {TASK}, id: b}}]"), ("often", f"[{TASK}, epochs: 900000}}]")):
        (questions / folder).mkdir()
        (questions / folder / "eval.yaml").write_text(f"tasks: {tasks}\n")
        (questions / folder / "test.jsonl").write_text((questions / "own.jsonl").read_text())
    run = {"model": "embedded", "max_samples": 1}
    async with driven(questions) as server:
        assert "add / and one of a, b" in await server.refused("run", benchmark="two", **run)
        assert "900,000 times" in await server.refused("run", benchmark="often", **run)
        assert (await server.ask("check", benchmark="two/b"))["samples"] == 3
        assert "there is no task 'c'" in await server.refused("check", benchmark="two/c")


async def test_what_a_command_refuses_is_told_in_its_words(questions):
    (questions / "no_image.jsonl").write_text('{"question": "?", "image": "none.png", "answer": "1"}\n')
    async with driven(questions) as server:
        assert "image missing" in await server.refused("check", benchmark="no_image.jsonl")
        await server.ask("run", benchmark="own.jsonl", model="replay:replies.jsonl", max_samples=3, run="done")
        await server.ended("done")
        for tool in ("answers", "score"):
            for profile, told in (("nope", "no scoring profile 'nope'"), ("", "--profile '' is empty")):
                assert told in await server.refused(tool, run="done", profile=profile)


async def test_a_run_is_cancelled_and_goes_on_with_a_larger_budget(questions, stub):
    async with driven(questions, "--base-url", stub.url) as server:
        run = {"benchmark": "chart/digits", "model": f"api:{fast.MODEL}", "run": "slow"}
        await server.ask("run", **run, max_samples=3)
        done = await server.ended("slow")
        assert done["exit_status"] in (0, 9) and done["progress"]["totals"]["ok"] == 3, done
        await server.ask("run", **run, max_samples=6)
        more = await server.ended("slow")
        assert more["progress"]["totals"]["ok"] == 6


async def until(holds: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds, at most so long."""
    deadline = time.monotonic() + seconds
    for _ in iter(lambda: holds() or time.monotonic() > deadline, True):
        await asyncio.sleep(0.1)


def _children(folder: Path) -> list[psutil.Process]:
    """Return the processes of runs in a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder / "results") in word for word in process.info["cmdline"] or ())
        and "run" in process.info["cmdline"]
    ]


@pytest.mark.parametrize("how", ["stdin", "SIGKILL", "cancel"])
async def test_a_server_that_ends_takes_its_runs_along_and_what_was_answered_stays(questions, how):
    arguments = {"benchmark": "chart", "model": "embedded", "max_samples": 2000, "run": "long", "wait_seconds": 0}
    async with driven(questions) as server:
        await server.ask("run", **arguments)
        journal = questions / "results" / "long" / "results.jsonl"
        await until(lambda: journal.exists() and journal.stat().st_size > 0, 600)
        assert _children(questions)
        if how == "cancel":
            status = await server.ask("cancel", run="long")
            assert status["cancelled"] and status["exit_status"] == 143 and status["progress"]["totals"]["ok"] > 0
        if how == "SIGKILL":
            mine = [
                each
                for each in psutil.Process().children(recursive=True)
                if each.status() != psutil.STATUS_ZOMBIE  # which has no command line
                and {"mcp", str(questions / "results")} <= {*each.cmdline()}
            ]
            for process in mine:
                process.send_signal(signal.SIGKILL)
    await until(lambda: not _children(questions), 600)
    assert not _children(questions)
    assert journal.read_bytes().splitlines()


async def test_restricted_data_are_no_questions_of_a_clients_own_under_any_name(questions, tmp_path_factory):
    """Their names do not tell: the zip, its folder, its manifest, and a declaration of a client's."""
    away = tmp_path_factory.mktemp("away")
    whole = made.whole(questions / "renamed.zip", 311)
    whole.rename(away / "fika-bench-testset.zip")
    copied = made.whole(questions / "other.zip", 311)
    with zipfile.ZipFile(copied) as archive:
        archive.extractall(questions / "unpacked")
    (manifest,) = (questions / "unpacked").rglob("manifest.json*")
    manifest.with_name("mine.jsonl").write_bytes(manifest.read_bytes())
    beside = manifest.with_name("mine.jsonl").relative_to(questions)
    (questions / "mine.toml").write_text(
        f'name = "x"\n[source]\nfile = "{beside}"\n[rows]\nquestion = "question"\nanswer = "answer"\n'
    )
    async with driven(questions, env={"DATA_ZIP": str(away / "fika-bench-testset.zip")}) as server:
        for name in ("other.zip", "unpacked", str(beside), "mine.toml"):
            for tool, more in (("check", {}), ("run", {"model": "embedded", "max_samples": 1})):
                text = await server.refused(tool, benchmark=name, **more)
                assert "data of fika" in text and "zyxgold" not in text.lower(), (name, text)
        assert "data of fika" in await server.refused("check", benchmark="own.jsonl", data=str(beside))
        assert "data of fika" in await server.refused(
            "run", benchmark="own.jsonl", model=f"replay:{beside}", max_samples=1
        )
        for data in ({}, {"data": "other.zip"}):
            checked = await server.ask("check", benchmark="fika", **data)
            assert checked["samples"] == 311 and "zyxgold" not in json.dumps(checked).lower()


async def test_gold_that_is_restricted_leaves_by_no_tool(questions):
    """Replies that quote the gold answer are the hardest case: they are right, and stand in the run's own records."""
    made.whole(questions / "fika.zip", 4)
    replies = [{"sample_id": f"s{n:03}", "reply": f"It is a Zyxgold {n} Mark II."} for n in range(4)]
    (questions / "right.jsonl").write_text("".join(json.dumps(row) + "\n" for row in replies))
    async with driven(questions) as server:
        told = []
        run = {
            "benchmark": "fika",
            "data": "fika.zip",
            "model": "replay:right.jsonl",
            "max_samples": 4,
            "run": "closed",
        }
        for tool, arguments in (
            ("check", {"benchmark": "fika", "data": "fika.zip", "samples": 4}),
            ("run", run),
            ("status", {"run": "closed"}),
            ("score", {"run": "closed", "profile": "all"}),
            ("answers", {"run": "closed", "profile": "all", "limit": 4}),
            ("query", {"sql": "SELECT * FROM scores", "runs": ["closed"]}),
            ("query", {"sql": "SELECT * FROM metrics, runs"}),
        ):
            if tool == "status":
                await server.ended("closed")
            result = await server.session.call_tool(tool, arguments)
            assert not result.is_error, result.content
            told.append(result.model_dump_json().lower().encode())
        assert "may quote" in await server.refused("query", sql="SELECT * FROM results")
        assert all(word not in text for text in told for word in made.PLANTED)
        shown = json.loads(told[4])["structured_content"]["answers"]
        assert len(shown) == 4 and all(each["gold"] is None and "mark" not in each["reply"] for each in shown)
