"""The tools themselves: what they give, what they refuse, what is recorded, and the same over MCP and as a skill."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode

import photographs
import pytest
from PIL import Image

from snellen.errors import UsageError
from snellen.media import read_header
from snellen.models.tools.base import Context, Hit, ImageHit, Page, Tool, ToolError, ToolResult
from snellen.models.tools.definitions import Recorded, all_tools
from snellen.models.tools.images import ToolImages
from snellen.models.tools.settings import ToolLimits, ToolSettings, load, write
from snellen.models.tools.skill import write_skill

CAT = photographs.png(photographs.photograph("chelsea.png"))
FIVE = ["web_search", "fetch_url", "reverse_image_search", "crop_zoom", "view_image"]


@pytest.fixture
def pages(tmp_path):
    home = tmp_path / "pages"
    home.mkdir()
    (home / "cat.png").write_bytes(CAT)
    row = {"url": "https://example.org/cat", "title": "Chelsea", "text": "A ginger cat. " * 2000, "images": ["cat.png"]}
    (home / "cat.json").write_text(json.dumps(row))
    return home


def call(settings: ToolSettings, name: str, arguments: object, context: Context | None = None) -> ToolResult:
    (tool,) = [one for one in all_tools(settings) if one.name == name]
    return asyncio.run(tool.call(arguments, context or Context(ToolImages([CAT]))))


def test_the_five_tools_are_given_where_there_is_something_to_search(pages):
    assert [tool.name for tool in all_tools(ToolSettings())] == ["crop_zoom", "view_image"]
    tools = all_tools(ToolSettings(pages=str(pages)))
    assert [tool.name for tool in tools] == FIVE
    assert [tool.name for tool in all_tools(ToolSettings(backend="web"))] == ["fetch_url", "crop_zoom", "view_image"]
    for tool in tools:
        assert tool.parameters["type"] == "object"
        assert json.loads(json.dumps(tool.parameters))["required"] is not None


def test_a_search_leads_to_a_page_and_a_page_is_read_on(pages):
    settings = ToolSettings(pages=str(pages), limits=ToolLimits(text_chars=500))
    assert "https://example.org/cat" in call(settings, "web_search", {"query": "ginger", "k": "3"}).text
    page = call(settings, "fetch_url", {"url": "https://example.org/cat"})
    assert "read on with start=500" in page.text
    assert "https://pages.invalid/cat.png" in page.text
    assert call(settings, "fetch_url", {"url": "https://example.org/cat", "start": 500}).text.count("ginger") > 30
    found = call(settings, "reverse_image_search", {"image": "image.png"})
    assert "Chelsea (similarity 100, local)" in found.text


def test_a_picture_is_shown_whole_and_in_parts(pages):
    context = Context(ToolImages([CAT]))
    settings = ToolSettings(pages=str(pages), limits=ToolLimits(image_side=200))
    seen = call(settings, "view_image", {"image": "image.png"}, context)
    assert seen.text == "image.png: 451 x 300 pixels, shown at 200 x 133"
    part = call(ToolSettings(), "crop_zoom", {"image": "image.png", "box": [0.5, 0, 1, 0.5], "scale": 3}, context)
    header = read_header(part.images[0])
    assert header.upright_size == (675, 450)
    assert part.text == "view-1.jpg: pixels 226, 0 to 451, 150 of image.png (451 x 300), shown at 675 x 450"
    again = call(ToolSettings(), "crop_zoom", {"image": "view-1.jpg", "box": ["0", "0", "100", "100"]}, context)
    assert again.text.startswith("view-2.jpg: pixels 0, 0 to 100, 100 of view-1.jpg (675 x 450)")
    away = call(settings, "view_image", {"image": "https://pages.invalid/cat.png"}, context)
    assert (away.error, len(away.images)) == (False, 1)


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("crop_zoom", {"image": "image.png", "box": [0.5, 0.5, 0.5, 0.9]}, "holds nothing"),
        ("crop_zoom", {"image": "image.png", "box": [0, 0, 1]}, "length >= 4"),
        ("crop_zoom", {"image": "image.png", "box": [0, 0, 1, 1], "scale": 99}, "<= 8"),
        ("crop_zoom", {"image": "image.png"}, "missing required field `box`"),
        ("view_image", {"image": "../../gold.png"}, "there are image.png"),
        ("view_image", {"image": "/etc/passwd"}, "there are image.png"),
        ("view_image", {"image": "https://example.org/cat"}, "a page and not a picture"),
        ("view_image", "image.png", "Expected `object`"),
        ("view_image", [[[[]]]], "Expected `object`"),
        ("web_search", {"query": ""}, "length >= 1"),
        ("web_search", {"query": "x" * 1000}, "length <= 400"),
        ("fetch_url", {"url": "http://169.254.169.254/"}, "not in the collection"),
    ],
)
def test_what_a_tool_refuses_is_told_to_the_model(pages, tool, arguments, why):
    result = call(ToolSettings(pages=str(pages)), tool, arguments)
    assert result.error
    assert why in result.text


@pytest.mark.parametrize(
    "name", ["../gold.png", "/gold.png", "..", "a/../../gold.png", "link.png", "x\0.png", "sub", ""]
)
def test_no_picture_outside_of_the_folder_is_read(tmp_path, name):
    folder = tmp_path / "sample"
    (folder / "sub").mkdir(parents=True)
    (folder / "image.png").write_bytes(CAT)
    (tmp_path / "gold.png").write_bytes(photographs.png(photographs.photograph("coins.png")))
    (folder / "link.png").symlink_to(tmp_path / "gold.png")
    result = call(ToolSettings(), "view_image", {"image": name}, Context(ToolImages(folder=folder)))
    assert result.error
    assert result.images == ()
    assert call(ToolSettings(), "view_image", {"image": "./image.png"}, Context(ToolImages(folder=folder))).images == (
        CAT,
    )


def test_a_picture_that_claims_to_be_enormous_is_refused_before_it_is_decoded():
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0" + b"\0" * 100
    result = call(ToolSettings(), "view_image", {"image": "image.png"}, Context(ToolImages([bomb])))
    assert result.error
    assert "60000 x 60000" in result.text


def test_calls_are_counted_over_all_tools(pages):
    settings = ToolSettings(pages=str(pages), limits=ToolLimits(calls=2))
    context = Context(ToolImages([CAT]))
    for _ in range(2):
        assert not call(settings, "view_image", {"image": "image.png"}, context).error
    assert "all 2 calls are used up" in call(settings, "web_search", {"query": "cat"}, context).text


class Counting:
    """A backend that counts, and fails as asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fault: Exception | None = None
        self.wait = 0.0

    async def _answer(self, what: str) -> None:
        self.asked.append(what)
        await asyncio.sleep(self.wait)
        if self.fault is not None:
            raise self.fault

    async def search(self, query: str, k: int) -> list[Hit]:
        await self._answer(query)
        return [Hit("https://example.org/1", f"answer {len(self.asked)}", "text")]

    async def fetch(self, url: str) -> Page:
        await self._answer(url)
        return Page(url, data=CAT) if url.endswith(".png") else Page(url, "title", "text", (("https://a.org", "a"),))

    async def reverse(self, data: bytes, k: int) -> list[ImageHit]:
        await self._answer("picture")
        return [ImageHit("https://example.org/1", "title", "https://example.org/1.png", 98.5, "engine")]


async def test_a_recorded_run_repeats_without_anybody_being_asked(tmp_path):
    inner = Counting()
    first = Recorded(inner, tmp_path, 5)
    said = (
        await first.search("cat", 3),
        await first.fetch("https://a.org/"),
        await first.fetch("https://a.org/x.png"),
        await first.reverse(CAT, 3),
    )
    assert await first.search("cat", 3) == said[0]
    assert await first.search("cat", 4) != said[0], "another argument is another call"
    again = Recorded(None, tmp_path, 5)
    assert said == (
        await again.search("cat", 3),
        await again.fetch("https://a.org/"),
        await again.fetch("https://a.org/x.png"),
        await again.reverse(CAT, 3),
    )
    with pytest.raises(ToolError, match="was not recorded"):
        await again.search("dog", 3)
    assert inner.asked == ["cat", "https://a.org/", "https://a.org/x.png", "picture", "cat"]


async def test_faults_are_repeated_too_and_passing_ones_are_asked_again(tmp_path):
    inner = Counting()
    inner.fault = ToolError("HTTP 404")
    live, replayed = Recorded(inner, tmp_path, 0.05), Recorded(None, tmp_path, 5)
    for backend in (live, live, replayed):
        with pytest.raises(ToolError, match="HTTP 404"):
            await backend.fetch("https://a.org/")
    assert len(inner.asked) == 1
    inner.fault, inner.wait = None, 1.0
    with pytest.raises(ToolError, match=r"more than 0\.05 s"):
        await live.search("slow", 3)
    with pytest.raises(ToolError, match=r"more than 0\.05 s"):
        await replayed.search("slow", 3)
    inner.wait = 0.0
    assert (await live.search("slow", 3))[0].title == "answer 3"
    assert await replayed.search("slow", 3) == await live.search("slow", 3)


async def test_two_who_ask_the_same_at_once_are_told_the_same(tmp_path):
    inner = Counting()
    inner.wait = 0.05
    answers = await asyncio.gather(*(Recorded(inner, tmp_path, 5).search("cat", 3) for _ in range(5)))
    assert len({answer[0].title for answer in answers}) == 1
    assert len(inner.asked) == 5


async def test_a_recorded_picture_that_was_changed_is_not_given(tmp_path):
    await Recorded(Counting(), tmp_path, 5).fetch("https://a.org/x.png")
    (kept,) = (tmp_path / "pictures").iterdir()
    kept.write_bytes(b"another")
    with pytest.raises(ToolError, match="missing or damaged"):
        await Recorded(None, tmp_path, 5).fetch("https://a.org/x.png")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"tools": ["browser"]}', "there is no 'browser'"),
        ('{"backend": "web", "reverse_engines": ["Nosuch"]}', "there is no 'Nosuch'"),
        ('{"reverse_engines": ["Yandex"]}', "need backend 'web'"),
        ('{"replay": true}', "replay needs"),
        ('{"api_key": "sk-secret"}', "unknown field `api_key`"),
        ('{"limits": {"calls": 0}}', ">= 1"),
        ("{", "truncated"),
    ],
)
def test_settings_that_make_no_sense_are_refused(tmp_path, text, why):
    (tmp_path / "tools.json").write_text(text)
    with pytest.raises(UsageError, match=why):
        load(tmp_path / "tools.json")


def test_a_tool_that_the_settings_cannot_give_is_refused_by_name():
    with pytest.raises(UsageError, match="web_search cannot be given"):
        all_tools(ToolSettings(tools=("web_search",)))


def test_who_gets_the_picture_is_said_before_it_is_sent():
    assert ToolSettings().notices() == []
    (notice,) = ToolSettings(backend="web", reverse_engines=("Yandex",)).notices()
    assert "third parties: Yandex" in notice


async def test_the_mcp_server_gives_the_same_tools(pages, tmp_path):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    sample = tmp_path / "sample"
    sample.mkdir()
    (sample / "image.png").write_bytes(CAT)
    settings = ToolSettings(pages=str(pages), images="sample", limits=ToolLimits(calls=4))
    write(settings, tmp_path / "tools.json")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "snellen.models.tools.mcp_server", "--config", str(tmp_path / "tools.json")],
        env={"PATH": os.environ["PATH"], "SNELLEN_CACHE": os.environ["SNELLEN_CACHE"]},
    )
    async with stdio_client(server) as (received, sent), ClientSession(received, sent) as session:
        await session.initialize()
        listed = (await session.list_tools()).tools
        assert [tool.name for tool in listed] == FIVE
        assert {tool.name: tool.input_schema for tool in listed} == {
            tool.name: tool.parameters for tool in all_tools(settings)
        }
        part = await session.call_tool("crop_zoom", {"image": "image.png", "box": [0, 0, 0.5, 0.5]})
        text, picture = part.content
        assert text.text.startswith("view-1.jpg")
        assert picture.mime_type == "image/jpeg"
        header = read_header(b64decode(picture.data))
        assert header is not None
        found = await session.call_tool("reverse_image_search", {"image": "view-1.jpg"})
        assert not found.is_error
        away = await session.call_tool("view_image", {"image": "../pages/cat.png"})
        assert away.is_error
        assert (await session.call_tool("browser", {})).is_error
        await session.call_tool("view_image", {"image": "image.png"})
        assert "all 4 calls" in (await session.call_tool("view_image", {"image": "image.png"})).content[0].text


def test_a_skill_is_a_page_to_read_and_a_command_to_run(pages, tmp_path):
    sample = tmp_path / "it's a sample"
    sample.mkdir()
    (sample / "image.png").write_bytes(CAT)
    folder = sample / "skills" / "snellen-tools"
    command = write_skill(folder, ToolSettings(pages=str(pages), images=str(sample), limits=ToolLimits(calls=3)))
    page = (folder / "SKILL.md").read_text()
    assert page.startswith("---\nname: snellen-tools\ndescription: ")
    assert all(f"- `{name} " in page for name in FIVE)
    bare = {"PATH": os.environ["PATH"], "SNELLEN_CACHE": str(tmp_path / "another"), "HOME": str(tmp_path)}

    def run(*words):
        return subprocess.run(
            [str(command), *words], capture_output=True, text=True, env=bare, timeout=600, check=False
        )

    shutil.rmtree(tmp_path / "another", ignore_errors=True)
    part = run("crop_zoom", "--image", "image.png", "--box", "0.5,0,1,0.5", "--scale=2")
    assert part.returncode == 0, part.stdout + part.stderr
    assert f"Saved as {sample / 'view-1.jpg'}" in part.stdout
    with Image.open(sample / "view-1.jpg") as picture:
        assert picture.size == (450, 300)
    assert "https://example.org/cat" in run("web_search", "--query", "a cat's colour: ginger").stdout
    assert not (tmp_path / "another").exists(), "the index that was built with the skill is used"
    assert run("view_image", "--image", "../pages/cat.png").returncode == 1
    assert "all 3 calls are used up" in run("view_image", "--image", "image.png").stdout
    assert run("view_image", "--picture", "image.png").returncode == 2
    assert "crop_zoom --image TEXT --box LEFT,TOP,RIGHT,BOTTOM [--scale X]" in run("--help").stdout


async def test_engines_that_the_user_named_are_asked_in_turns_and_may_fail():
    httpx = pytest.importorskip("httpx", reason="PicImageSearch is not installed: its engines are not tested")
    from snellen.models.tools import reverse_image

    posted: list[bytes] = []

    def answer(request):
        posted.append(request.content)  # type: ignore[attr-defined]
        return httpx.Response(500, text="no")

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        with pytest.raises(ToolError, match="no engine answered"):
            await reverse_image.search(("Tineye", "Copyseeker"), CAT, 5, 5, network=client)
    assert any(CAT in body for body in posted)


def test_the_same_tools_have_the_same_words_for_every_agent(pages):
    tools: list[Tool] = all_tools(ToolSettings(pages=str(pages)))
    assert all(tool.description.endswith(".") and len(tool.description) < 200 for tool in tools)
