"""The tool `python`: its state, its pictures, its limits, where it is given and where it is refused."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
import time
from pathlib import Path

import photographs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from PIL import Image as Pillow

from servers.scripted import Call, Say, ScriptedServer, pictures_in
from snellen.errors import PreflightError, UsageError
from snellen.models.agents import sandbox, tool_setup
from snellen.models.agents.supervisor import descendants
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.models.tools.base import Context
from snellen.models.tools.definitions import all_tools
from snellen.models.tools.images import ToolImages
from snellen.models.tools.python_session import Interpreters, _exchange
from snellen.models.tools.settings import ToolLimits, ToolSettings, identity, load_named
from snellen.models.trace import Step, copies_by_digest, plain, read
from snellen.sources import BytesBlob
from snellen.types import Image, Prompt, Text

CAT = photographs.png(photographs.photograph("chelsea.png"))
QUESTION = Prompt((Image(BytesBlob("cat", CAT)), Text("What is it?")))
LIMITS = ToolLimits(python_seconds=20, python_memory=512 << 20, python_disk=64 << 20, text_chars=2000)
SETTINGS = ToolSettings(tools=("python", "crop_zoom"), limits=LIMITS)
bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="NO bwrap HERE: the sandbox is not tested")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SNELLEN_CACHE", str(tmp_path / "cache"))
    for name in ("OPENAI_API_KEY", "SNELLEN_TOOLS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def run():
    interpreters = Interpreters(SETTINGS)
    yield interpreters
    await interpreters.close()


@bubblewrap
async def test_a_model_computes_draws_crops_and_answers():
    code = "from PIL import Image\nimage = Image.open('image.png')\nprint(image.size)\nimage.crop((0, 0, 40, 30))"
    plot = "import matplotlib.pyplot as plt\nplt.plot([1, 3]); plt.show()\nimage.resize((900, 600)).save('big.png')"
    crop = {"image": "view-1.png", "box": [0, 0, 1, 1], "scale": 1}
    script = [Call("python", {"code": code}), Call("python", {"code": plot}), Call("crop_zoom", crop), Say("a cat")]
    with ScriptedServer({"mock": script}, seconds=120) as server:
        settings = structs.replace(SETTINGS, limits=structs.replace(LIMITS, image_side=600))
        model = open_model("tools:mock", ModelOptions(base_url=server.url))
        model = type(model)("mock", ModelOptions(base_url=server.url), settings)
        try:
            await model.preflight()
            reply = await model.answer(QUESTION)
        finally:
            await model.close()
        asked = server.of("mock")
    first, second, third = [step for step in read(reply.trace) if step.role == "tool"]
    assert first.result == "[working folder: image.png]\n(451, 300)\nresult-1.png: 40 x 30 pixels, view-1.png"
    assert second.result == "big.png: 600 x 400 pixels, view-2.png\nfigure-1.png: 600 x 450 pixels, view-3.png"
    assert "(40 x 30)" in third.result
    sizes = [Pillow.open(io.BytesIO(data)).size for data in pictures_in(asked[-1])]
    assert sizes == [(451, 300), (40, 30), (600, 400), (600, 450), (40, 30)]
    labels = [part["text"] for part in asked[2]["messages"][-1]["content"] if part["type"] == "text"]
    assert labels == second.result.split("\n"), "each picture has its own label"
    (copy,) = copies_by_digest(first, 10**6).values()
    assert copy.startswith("data:image/jpeg;base64,") and len(second.copies) == 2 and not third.copies
    assert [tool["function"]["name"] for tool in asked[0]["tools"]] == ["crop_zoom", "python"]
    assert "more than 20 s" in json.dumps(asked[0]["tools"])


@bubblewrap
async def test_state_persists_within_a_conversation_and_never_between_two(run):
    one, other = run.open(ToolImages([CAT])), run.open(ToolImages())
    try:
        assert (await one.run("x = 3\nopen('mine.txt', 'w').write('secret')")).text == "[working folder: image.png]\n6"
        assert (await one.run("x + 1, open('mine.txt').read()")).text == "(4, 'secret')"
        seen = await other.run("import os\nprint(os.listdir('.'), os.listdir('/sample'))\nx")
        assert "NameError" in seen.text and "[] [" in seen.text and seen.error
    finally:
        await one.close()
        await other.close()


@bubblewrap
async def test_a_call_that_takes_too_long_is_ended_and_the_next_one_says_what_is_lost(run):
    one = run.open(ToolImages([CAT]))
    try:
        await one.run("x = 1")
        begun = time.monotonic()
        late = await one.run("print('begun', flush=True)\nwhile True: pass", 1.5)
        assert time.monotonic() - begun < 8
        assert late.error and late.text.startswith("begun\n[the interpreter was ended: the call took more than 1.5 s.")
        again = await one.run("import os\nprint(os.path.exists('image.png'))\nx")
        assert again.text.startswith("[new interpreter: variables and files of earlier calls are lost")
        assert "True" in again.text and "NameError" in again.text
        assert "new interpreter" not in (await one.run("1")).text
    finally:
        await one.close()


@bubblewrap
async def test_nothing_runs_between_two_calls(run):
    one = run.open(ToolImages())
    code = """import itertools, subprocess, threading
count = 0
def spin():
    global count
    for count in itertools.count(): pass
threading.Thread(target=spin, daemon=True).start()
subprocess.Popen("while :; do echo >> ticks; done", shell=True)
while count < 1000: pass"""
    try:
        await one.run(code)
        (supervisor,) = [one._workdir.supervisor]

        def stats() -> list[list[str]]:
            pids = descendants(supervisor.process.pid)
            return [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]

        def used() -> int:
            assert len(stats()) >= 3 and {fields[0] for fields in stats()} == {"T"}
            return sum(int(fields[11]) + int(fields[12]) for fields in stats())

        while {fields[0] for fields in stats()} != {"T"}:  # noqa: ASYNC110 - a busy machine stops them some time later
            await asyncio.sleep(0.05)
        before = used()
        await asyncio.sleep(0.5)
        assert used() == before
        assert int((await one.run("import time; time.sleep(0.2); count")).text) > 1000
    finally:
        await one.close()


@bubblewrap
async def test_a_syntax_error_names_the_models_line_and_nothing_of_the_interpreter(run):
    interpreter = run.open(ToolImages())
    failed = await interpreter.run("x = 1\nif x:\nprint(x)")
    await interpreter.close()
    assert failed.error and failed.text.startswith('  File "<call 1>", line 3') and "ast.py" not in failed.text


@bubblewrap
async def test_of_long_output_the_beginning_and_the_end_are_kept(run):
    one = run.open(ToolImages())
    try:
        result = await one.run("print('first')\nfor i in range(3000): print(i)\n1 / 0")
        assert result.text.startswith("first\n0\n") and result.text.endswith("ZeroDivisionError: division by zero")
        assert "characters omitted" in result.text and len(result.text) < 2100
        lines = (await one.run("def f():\n    raise ValueError('x')\nf()")).text
        assert 'File "<call 2>", line 3' in lines and "raise ValueError('x')" in lines and "python_program" not in lines
    finally:
        await one.close()


@bubblewrap
async def test_a_conversation_that_is_broken_off_leaves_nothing_behind(run, tmp_path):
    one = run.open(ToolImages())
    call = asyncio.create_task(one.run("while True: pass"))
    await asyncio.sleep(1)
    call.cancel()
    await asyncio.wait({call})
    await one.close()
    assert one._workdir is None
    with pytest.raises(Exception, match="the conversation is over"):
        await one.run("1")


async def test_where_there_is_no_sandbox_the_tool_is_refused_before_the_run(run, monkeypatch):
    monkeypatch.setattr(sandbox, "locate", lambda name: None)
    with pytest.raises(PreflightError, match="the tool python needs a sandbox: bubblewrap") as caught:
        await run.preflight(())
    assert "apt-get install bubblewrap" in caught.value.hint and "none" not in caught.value.hint
    with ScriptedServer({"mock": [Say("x")]}) as server:
        model = open_model("tools:mock", ModelOptions(base_url=server.url, tools="python"))
        with pytest.raises(PreflightError, match="needs a sandbox"):
            await model.preflight()
        await model.close()
        assert not server.asked


@bubblewrap
async def test_results_that_the_sandbox_would_show_are_refused(run):
    inside = tool_setup.python_folders()[0] / "results"
    with pytest.raises(PreflightError, match="is shown to the model"):
        await run.preflight([inside])


def test_names_of_tools_stand_in_the_place_of_a_file_and_python_must_be_named(monkeypatch):
    settings = load_named("python,crop")
    assert settings.tools == ("python", "crop_zoom") and settings.given() == ("crop_zoom", "python")
    assert "python" not in ToolSettings().given() and "python" not in identity(ToolSettings())
    known = identity(settings)
    assert known["python"].keys() == {"python", "numpy", "pillow", "matplotlib"} and "python" in known["tools"]
    monkeypatch.setenv("SNELLEN_TOOLS", "view")
    assert load_named(None).given() == ("view_image",)
    with pytest.raises(UsageError, match="cannot read the tool settings"):
        load_named("python,browser")


async def test_agents_and_servers_have_no_interpreter_of_ours():
    with pytest.raises(UsageError, match="the tool python is for tools:NAME"):
        tool_setup.find("python")
    (tool,) = all_tools(ToolSettings(tools=("python",)))
    result = await tool.call({"code": "1"}, Context(ToolImages()))
    assert result.error and "there is no interpreter here" in result.text


@given(st.lists(st.binary(max_size=60), max_size=6), st.binary(max_size=60))
def test_whatever_comes_back_of_an_interpreter_is_read_to_its_end(replies, output):
    """The reply is found behind any other bytes, and without it the time is up or the pipe is closed."""
    pairs = [os.pipe() for _ in range(3)]
    (_, request_out), (output_in, output_out), (reply_in, reply_out) = pairs
    for descriptor in (request_out, output_in, reply_in):
        os.set_blocking(descriptor, False)
    try:
        os.write(output_out, output + b".")
        os.write(reply_out, b"".join(reply + b"\n" for reply in replies) + b"7 error\n")
        end, seen = _exchange(b"request\n", b"7", (request_out, output_in, reply_in), 5)
        assert end in ("ok", "error") and (output + b".").startswith(seen)
        assert end == "error" or b"7 ok" in replies
        os.close(reply_out)
        assert _exchange(b"", b"8", (request_out, output_in, reply_in), 5)[0] == "ended"
    finally:
        for descriptor in {number for pair in pairs for number in pair} - {reply_out}:
            os.close(descriptor)


@given(st.lists(st.text(max_size=40), max_size=4), st.integers(0, 200))
def test_copies_of_a_foreign_trace_are_base_64_or_left_out_and_bounded(copies, most):
    step = Step(1, "tool", images=tuple("abcd"), copies=tuple(copies))
    found = copies_by_digest(step, most)
    assert sum(map(len, found.values())) <= most
    assert not {'"', "<", "'", " ", ">"} & set("".join(found.values()))
    assert read(plain([step])) == [step]
