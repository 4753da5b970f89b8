"""Files APIs: large images are uploaded once per digest, named by requests, and uploaded again once if they are lost."""

from __future__ import annotations

import asyncio
import json
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from servers.file_store import FileStore, references
from servers.provider_server import KEY, ProviderServer
from snellen.errors import BadReplyError, BadRequestError, InputError, ModelError, RateLimitError, UsageError
from snellen.models.api import ApiModel
from snellen.models.api.batches.transport import BatchTransport
from snellen.models.api.image_files import REGISTER, ImageFiles, UploadedFile, merge_registers
from snellen.models.api.services import OVERRIDES_VARIABLE, service
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.sources.blobs import BytesBlob
from snellen.types import Image, Prompt, Response, Text, Turn

NAMES = {"responses": "openai:m-1", "messages": "anthropic:m-1", "gemini": "gemini:gemini-test"}
PROTOCOLS = tuple(NAMES)
LIMIT = 2000
SMALL = """
[openai-responses]
image_inline_bytes = 2000
[anthropic]
image_inline_bytes = 2000
[gemini]
image_inline_bytes = 2000
"""


@pytest.fixture(autouse=True)
def small_limits(monkeypatch, tmp_path_factory):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    path = tmp_path_factory.mktemp("services") / "services.toml"
    path.write_text(SMALL)
    monkeypatch.setenv(OVERRIDES_VARIABLE, str(path))


def picture(name: str, side: int = 40, kind: str = "PNG") -> Image:
    noise = np.random.default_rng(abs(hash(name)) % 1000 + side).integers(0, 255, (side, side, 3), dtype=np.uint8)
    out = BytesIO()
    Pillow.fromarray(noise).save(out, kind)
    return Image(BytesBlob(name, out.getvalue()))


def opened(protocol: str, url: str, folder: Path | None = None, **options: Any) -> ApiModel:
    settings = ModelOptions(base_url=url, responses=protocol == "responses", timeout_s=20.0, **options)
    model = open_model(NAMES[protocol], settings)
    assert isinstance(model, ApiModel)
    if folder is not None:
        model.attach(folder)
    return model


def ask(model: ApiModel, *prompts: Prompt) -> list[Response | BaseException]:
    """Return the replies to prompts that are asked all at once."""

    async def run() -> list[Response | BaseException]:
        try:
            return await asyncio.gather(*map(model.answer, prompts), return_exceptions=True)
        finally:
            await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_large_image_is_uploaded_once_for_all_requests(protocol, tmp_path):
    large, other, small = picture("large"), picture("other", kind="JPEG"), picture("small", side=8)
    prompts = [Prompt((large, small, Text(f"q{number}"))) for number in range(6)]
    prompts.append(
        Prompt((Text("later"), large), history=(Turn("user", (other, Text("a"))), Turn("assistant", (Text("b"),))))
    )
    store = FileStore(protocol, looks=1)
    with ProviderServer(protocol, files=store) as server:
        replies = ask(opened(protocol, server.url, tmp_path), *prompts)
        assert [reply.text for reply in replies if isinstance(reply, Response)] == ["ANSWER: A"] * 7
        assert server.faults == [] == store.faults
        assert sorted(store.uploads.values()) == [1, 1]
        assert {file.data for file in store.files.values()} == {large.blob.read(), other.blob.read()}
        assert sorted(len(references(body)) for body in server.bodies) == [1, 1, 1, 1, 1, 1, 2]
        # A later process of the same run uploads nothing.
        ask(opened(protocol, server.url, tmp_path), prompts[0])
        assert sorted(store.uploads.values()) == [1, 1]
        assert KEY not in (tmp_path / REGISTER).read_text()
    traced = [reply.trace["request"] for reply in replies if isinstance(reply, Response)]
    assert all(b"sha256:" in bytes(request) and b"file-" not in bytes(request) for request in traced)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_lost_file_is_uploaded_again_once(protocol, tmp_path):
    store = FileStore(protocol)
    prompt = Prompt((picture("large"), Text("q")))
    with ProviderServer(protocol, files=store) as server:
        ask(opened(protocol, server.url, tmp_path), prompt)
        store.lose()
        model = opened(protocol, server.url, tmp_path)
        replies = ask(model, *[prompt] * 4)
        assert all(isinstance(reply, Response) for reply in replies), replies
        assert list(store.uploads.values()) == [2]
        store.lose()  # a service that loses it at once again is believed
        (reply,) = ask(model, prompt)
        assert isinstance(reply, ModelError)
        assert not reply.retry
        assert list(store.uploads.values()) == [2]
        assert server.faults == [] == store.faults


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_file_that_expires_soon_is_uploaded_anew(protocol, tmp_path):
    store = FileStore(protocol, life_s=7200.0)
    with ProviderServer(protocol, files=store) as server:
        model = opened(protocol, server.url, tmp_path)
        row, endpoint = model.protocol.row, model.protocol.endpoint
        ahead = [0.0]

        def open_transport():
            return BatchTransport(endpoint, lambda: model.protocol.headers(KEY), 20.0)

        files = ImageFiles(row, endpoint, open_transport, lambda: time.time() + ahead[0])

        async def run():
            body = await model.writer.write(Prompt((picture("large"), Text("q"))))
            for ahead[0], valid_s, uploads in ((0, 900.0, 1), (0, 86_400.0, 1), (3000, 900.0, 1), (6500, 900.0, 2)):
                placed = await files.place(body, valid_s)
                assert store.missing(json.loads(placed.sent)) == ""
                assert list(store.uploads.values()) == [uploads]
            await files.close()
            await model.close()

        asyncio.run(run())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_refused_image_fails_its_questions_and_is_sent_once(protocol, tmp_path):
    bad = picture("bad")

    def refuse(number, data):
        return (400, "unsupported image") if data == bad.blob.read() else None

    store = FileStore(protocol, refuse=refuse)
    with ProviderServer(protocol, files=store) as server:
        prompts = [Prompt((image, Text("q"))) for image in (bad, picture("good"), bad)]
        first, second, third = ask(opened(protocol, server.url, tmp_path), *prompts)
        assert isinstance(second, Response)
        for failed in (first, third):
            assert isinstance(failed, BadRequestError)
            assert "unsupported image" in failed.message
        assert store.tries == 2
        assert len(server.bodies) == 1


def test_an_upload_that_is_throttled_is_an_error_that_passes(tmp_path):
    store = FileStore("messages", refuse=lambda number, data: (429, "slow down") if number == 1 else None)
    with ProviderServer("messages", files=store) as server:
        model = opened("messages", server.url, tmp_path)
        (first,) = ask(model, Prompt((picture("large"), Text("q"))))
        assert isinstance(first, RateLimitError)
        (second,) = ask(model, Prompt((picture("large"), Text("q"))))
        assert isinstance(second, Response)


def test_a_file_that_gemini_cannot_process_is_an_error(tmp_path):
    store = FileStore("gemini", looks=1, state="FAILED")
    with ProviderServer("gemini", files=store) as server:
        (reply,) = ask(opened("gemini", server.url, tmp_path), Prompt((picture("large"), Text("q"))))
    assert isinstance(reply, BadRequestError)
    assert "unreadable image" in reply.message


HOSTILE_IDS = [
    "",
    "../../v1/messages",
    "file/../x",
    "a\nb",
    "x" * 300,
    'a"b',
    "id with space",
    "\x1b[31mred",
    None,
    7,
    ["a"],
]


@pytest.mark.parametrize("identity", HOSTILE_IDS, ids=repr)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_id_that_cannot_stand_in_a_request_is_refused(protocol, identity):
    row = service({"responses": "openai-responses", "messages": "anthropic"}.get(protocol, protocol))
    files = ImageFiles(row, row.endpoint("http://127.0.0.1:1", "m"), lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(BadReplyError, match="no usable"):
        files._checked(identity)
    if protocol == "gemini":
        for address in (
            f"https://elsewhere.invalid/v1beta/files/{identity}",
            "https://youtu.be/files/abc",
            "file:///files/a",
        ):
            with pytest.raises(BadReplyError):
                files._checked(address)


def test_bytes_are_not_uploaded_to_another_host(tmp_path):
    store = FileStore("gemini", upload_host="http://127.0.0.2:9")
    with ProviderServer("gemini", files=store) as server:
        (reply,) = ask(opened("gemini", server.url, tmp_path), Prompt((picture("large"), Text("q"))))
    assert isinstance(reply, BadReplyError)
    assert "not sent to another host" in reply.message


def test_a_damaged_register_costs_an_upload_and_no_answer(tmp_path):
    store = FileStore("messages")
    prompt = Prompt((picture("large"), Text("q")))
    with ProviderServer("messages", files=store) as server:
        ask(opened("messages", server.url, tmp_path), prompt)
        register = tmp_path / REGISTER
        line = json.loads(register.read_text())
        assert line["expires_at"] == pytest.approx(time.time() + 172_800, abs=60)
        foreign = {**line, "place": "https://elsewhere.invalid/v1"}
        register.write_text(f'{{"digest": 1}}\nnot json\n{json.dumps(foreign)}\n{json.dumps(line)[:40]}')
        (reply,) = ask(opened("messages", server.url, tmp_path), prompt)
        assert isinstance(reply, Response)
        (reply,) = ask(opened("messages", server.url, tmp_path), prompt)
        assert isinstance(reply, Response)
    assert list(store.uploads.values()) == [2]


def test_a_request_above_the_limit_is_sent_by_files_as_a_whole(tmp_path, monkeypatch):
    path = tmp_path / "services.toml"
    path.write_text("[gemini]\nrequest_bytes = 9000\n")
    monkeypatch.setenv(OVERRIDES_VARIABLE, str(path))
    store = FileStore("gemini")
    images = [picture(f"p{number}", side=30) for number in range(4)]
    with ProviderServer("gemini", files=store) as server:
        model = opened("gemini", server.url, tmp_path)
        replies = ask(model, Prompt((images[0], Text("q"))), Prompt((*images, Text("q"))))
        assert all(isinstance(reply, Response) for reply in replies), replies
        assert sorted(len(references(body)) for body in server.bodies) == [0, 4]
        (long,) = ask(model, Prompt((Text("x" * 9001),)))
    assert isinstance(long, InputError)


def test_an_image_above_the_largest_upload_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "services.toml"
    path.write_text("[anthropic]\nimage_inline_bytes = 10\nimage_file_bytes = 100\n")
    monkeypatch.setenv(OVERRIDES_VARIABLE, str(path))
    (reply,) = ask(opened("messages", "http://127.0.0.1:1", tmp_path), Prompt((picture("large"), Text("q"))))
    assert isinstance(reply, InputError)
    assert "takes uploads of 100 at most" in reply.message


def test_chat_completions_cannot_name_files(tmp_path, monkeypatch):
    path = tmp_path / "services.toml"
    path.write_text('[openai]\nimage_upload = "form"\n')
    monkeypatch.setenv(OVERRIDES_VARIABLE, str(path))
    with pytest.raises(UsageError, match="cannot name an uploaded image"):
        open_model("openai:m-1", ModelOptions())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_merged_run_uploads_no_image_that_one_of_its_parts_has_uploaded(protocol, tmp_path):
    first, shared, second = (picture(name) for name in ("first", "shared", "second"))
    prompts = [Prompt((first, shared, Text("a"))), Prompt((shared, second, Text("b")))]
    store = FileStore(protocol, looks=1)
    parts = [tmp_path / name for name in ("1", "2")]
    with ProviderServer(protocol, files=store) as server:
        for part, prompt in zip(parts, prompts, strict=True):
            part.mkdir()
            ask(opened(protocol, server.url, part), prompt)
        uploaded = dict(store.uploads)
        merge_registers([*parts, tmp_path], tmp_path)
        replies = ask(opened(protocol, server.url, tmp_path), *prompts)
        assert all(isinstance(reply, Response) for reply in replies)
        assert store.uploads == uploaded and store.faults == []


LINES = st.builds(
    UploadedFile,
    digest=st.sampled_from(["a" * 64, "b" * 64, "no digest"]),
    place=st.sampled_from(["https://one/v1", "https://two/v1"]),
    reference=st.sampled_from(["", "file-1", "file-2", "file-3"]),
    expires_at=st.sampled_from([1.0, 2.0, 3.0]),
)


@given(registers=st.lists(st.lists(LINES, max_size=8), min_size=1, max_size=4), data=st.data())
def test_merged_registers_hold_living_uploads_alone_whatever_their_order(registers, data, tmp_path_factory):
    root = tmp_path_factory.mktemp("parts")
    folders = [root / str(number) for number in range(len(registers))]
    lost: set[tuple[str, str, str]] = set()
    named: set[tuple[str, str]] = set()
    for folder, lines in zip(folders, registers, strict=True):
        folder.mkdir()
        torn = b'{"digest": "' if data.draw(st.booleans()) else b""
        (folder / REGISTER).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines) + torn)
        for number, line in enumerate(lines):
            before = [each for each in lines[:number] if (each.digest, each.place) == (line.digest, line.place)]
            if not line.reference and before and before[-1].reference:
                lost.add((line.digest, line.place, before[-1].reference))
    every = [line for lines in registers for line in lines if line.reference and line.digest != "no digest"]
    living = [line for line in every if (line.digest, line.place, line.reference) not in lost]
    out = root / "out"
    out.mkdir()
    merge_registers(folders, out)
    merged = (out / REGISTER).read_bytes() if (out / REGISTER).exists() else b""
    files = [msgspec.json.decode(line, type=UploadedFile) for line in merged.splitlines()]
    named = {(file.digest, file.place) for file in files}
    assert len(named) == len(files) and named == {(line.digest, line.place) for line in living}
    assert all((file.digest, file.place, file.reference) not in lost for file in files)
    merge_registers(data.draw(st.permutations(folders)), out)
    assert ((out / REGISTER).read_bytes() if merged else b"") == merged
    merge_registers([*folders, out], out)
    assert ((out / REGISTER).read_bytes() if merged else b"") == merged
