"""What goes out: the prompt as it was given, pictures untouched and encoded once, settings under the right names."""

from __future__ import annotations

import asyncio
import hashlib
import json
from base64 import b64decode
from io import BytesIO
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from snellen.errors import InputError, UsageError
from snellen.models.api import ApiModel
from snellen.models.api.request import BodyWriter
from snellen.models.base import ModelOptions
from snellen.sources.blobs import BytesBlob, FileBlob, UrlBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Text, Video


def picture(width: int = 40, height: int = 30, colour: str = "teal", kind: str = "JPEG") -> bytes:
    out = BytesIO()
    Pillow.new("RGB", (width, height), colour).save(out, kind)
    return out.getvalue()


async def written(prompt: Prompt, options: ModelOptions | None = None, model: str = "m") -> dict[str, Any]:
    body = await BodyWriter(model, options or ModelOptions()).write(prompt)
    fields: dict[str, Any] = json.loads(body.sent)
    return fields


def content(body: dict[str, Any]) -> Any:
    return body["messages"][-1]["content"]


async def test_text_alone_goes_out_as_a_plain_string():
    body = await written(Prompt((Text('Say "hi"\n'),)))
    assert body == {"model": "m", "messages": [{"role": "user", "content": 'Say "hi"\n'}]}


async def test_parts_go_out_in_the_order_in_which_the_model_reads_them():
    first, second = BytesBlob("1", picture(colour="red")), BytesBlob("2", picture(colour="blue", kind="PNG"))
    parts = (Text("Before"), Image(first), Text("between"), Image(second), Text("after"))
    body = await written(Prompt(parts, system="Be brief."))
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    sent = content(body)
    assert [part["type"] for part in sent] == ["text", "image_url", "text", "image_url", "text"]
    assert [part["text"] for part in sent if part["type"] == "text"] == ["Before", "between", "after"]
    uris = [part["image_url"]["url"] for part in sent if part["type"] == "image_url"]
    assert [uri.partition(",")[0] for uri in uris] == ["data:image/jpeg;base64", "data:image/png;base64"]


@given(st.lists(st.text(), min_size=1, max_size=4), st.text())
async def test_any_text_arrives_exactly_as_it_was_given(texts, system):
    body = await written(Prompt(tuple(Text(text) for text in texts), system=system))
    sent = content(body)
    assert ([sent] if isinstance(sent, str) else [part["text"] for part in sent]) == texts
    assert body["messages"][0]["content"] == system if system else body["messages"][0]["role"] == "user"


async def test_the_original_bytes_of_a_picture_go_out_untouched(tmp_path):
    path = tmp_path / "bird.jpg"
    path.write_bytes(picture())
    sent = content(await written(Prompt((Image(FileBlob(path)), Text("?")))))
    assert b64decode(sent[0]["image_url"]["url"].partition(",")[2]) == path.read_bytes()


async def test_a_picture_is_encoded_once_and_not_once_a_question():
    reads = 0

    class Counting:
        key = "one"

        def read(self):
            nonlocal reads
            reads += 1
            return picture()

    writer = BodyWriter("m", ModelOptions())
    bodies = [await writer.write(Prompt((Image(Counting()), Text(f"Question {n}")))) for n in range(10)]
    assert reads == 1
    assert len({body.sent for body in bodies}) == 10


async def test_a_limit_on_the_long_side_makes_the_picture_smaller():
    options = ModelOptions(media=MediaSettings(max_long_side=20))
    sent = content(await written(Prompt((Image(BytesBlob("1", picture())), Text("?"))), options))
    data = b64decode(sent[0]["image_url"]["url"].partition(",")[2])
    assert Pillow.open(BytesIO(data)).size == (20, 15)


async def test_frames_of_a_clip_go_out_as_pictures_in_order():
    frames = tuple(Image(BytesBlob(colour, picture(colour=colour))) for colour in ("red", "green", "blue"))
    body = await written(Prompt((Video(frames=frames), Text("?"))))
    uris = [part["image_url"]["url"] for part in content(body)[:-1]]
    stills = await written(Prompt((*frames, Text("?"))))
    assert uris == [part["image_url"]["url"] for part in content(stills)[:-1]]


class Film:
    """The outer structure of an MP4 file, which is all that is looked at before it is sent; read once, then counted."""

    key = "film.mp4"
    reads = 0
    data = b"".join(
        (len(body) + 8).to_bytes(4, "big") + kind + body
        for kind, body in ((b"ftyp", b"isom\0\0\2\0isom"), (b"mdat", bytes(range(256))), (b"moov", b"\0" * 16))
    )

    def read(self) -> bytes:
        self.reads += 1
        return self.data


NATIVE = ModelOptions(media=MediaSettings(video="native"))


async def test_a_video_goes_out_as_its_file_in_its_place_among_the_parts():
    parts = (Text("Before"), Video(blob=Film()), Image(BytesBlob("1", picture())), Text("after"))
    sent = content(await written(Prompt(parts), NATIVE))
    assert [part["type"] for part in sent] == ["text", "video_url", "image_url", "text"]
    head, _, data = sent[1]["video_url"]["url"].partition(",")
    assert sent[1].keys() == {"type", "video_url"} and sent[1]["video_url"].keys() == {"url"}
    assert head == "data:video/mp4;base64"
    assert b64decode(data) == Film.data


async def test_the_trace_holds_the_digest_of_a_video_and_not_its_bytes():
    body = await BodyWriter("m", NATIVE).write(Prompt((Video(blob=Film()), Text("?"))))
    shown, sent = json.loads(body.traced), json.loads(body.sent)
    assert content(shown)[0] == {
        "type": "video_url",
        "video_url": {"url": f"sha256:{hashlib.sha256(Film.data).hexdigest()}"},
    }
    content(sent)[0]["video_url"] = content(shown)[0]["video_url"]
    assert sent == shown


async def test_a_video_is_read_once_for_many_prompts_at_once():
    film, writer = Film(), BodyWriter("m", NATIVE)
    prompts = (Prompt((Video(blob=film), Text(f"Question {n}"))) for n in range(10))
    bodies = await asyncio.gather(*(writer.write(prompt) for prompt in prompts))
    assert film.reads == 1
    assert len({body.sent for body in bodies}) == 10


async def test_a_video_behind_a_url_goes_out_as_the_url_where_the_server_takes_video():
    video = Video(blob=UrlBlob("https://example.org/film.mp4"))
    sent = content(await written(Prompt((video, Text("?"))), NATIVE))
    assert sent[0] == {"type": "video_url", "video_url": {"url": "https://example.org/film.mp4"}}
    with pytest.raises(InputError, match=r"film\.mp4"):
        await written(Prompt((video, Text("?"))))


async def test_a_clip_that_is_drawn_cannot_be_sent_as_a_file():
    drawn = Video(frames=(Image(BytesBlob("1", picture())),))
    with pytest.raises(InputError, match="--video frames"):
        await written(Prompt((drawn, Text("?"))), NATIVE)


async def test_a_drawn_clip_by_time_goes_out_as_the_pictures_of_those_moments():
    frames = tuple(Image(BytesBlob(colour, picture(colour=colour))) for colour in ("red", "green", "blue", "teal"))
    options = ModelOptions(media=MediaSettings(fps=1.0))
    body = await written(Prompt((Video(frames=frames, fps=2.0), Text("?"))), options)
    stills = await written(Prompt((frames[0], frames[2], Text("?"))))
    assert content(body) == content(stills)


async def test_settings_of_videos_do_not_make_pictures_behind_urls_be_fetched():
    for media in (MediaSettings(frames=2), MediaSettings(fps=1.0), NATIVE.media):
        sent = content(await written(Prompt((Image(Remote()), Text("?"))), ModelOptions(media=media)))
        assert sent[0]["image_url"]["url"] == Remote.url


class Remote:
    """A picture that lies on the web, and can be fetched."""

    key = url = 'https://example.org/bird.jpg?a=1&b="2"'

    def read(self) -> bytes:
        return picture()


async def test_a_picture_behind_a_url_goes_out_as_the_url():
    sent = content(await written(Prompt((Image(Remote()), Text("?")))))
    assert sent[0] == {"type": "image_url", "image_url": {"url": Remote.url}}


async def test_a_picture_behind_a_url_is_fetched_when_pictures_are_to_be_changed():
    options = ModelOptions(media=MediaSettings(max_long_side=20))
    sent = content(await written(Prompt((Image(Remote()), Text("?"))), options))
    assert sent[0]["image_url"]["url"].startswith("data:image/jpeg;base64,")


async def test_the_trace_shows_the_same_request_with_digests_for_pictures():
    prompt = Prompt((Text("a"), Image(BytesBlob("1", picture())), Text("b")), generation=Generation(max_tokens=5))
    body = await BodyWriter("m", ModelOptions()).write(prompt)
    sent, shown = json.loads(body.sent), json.loads(body.traced)
    url = content(shown)[1]["image_url"].pop("url")
    content(sent)[1]["image_url"].pop("url")
    assert sent == shown
    assert url.startswith("sha256:")
    assert len(url) == 7 + 64


async def test_a_damaged_picture_is_an_input_error_that_names_it():
    with pytest.raises(InputError, match="broken"):
        await written(Prompt((Image(BytesBlob("broken.jpg", b"not a picture")), Text("?"))))


async def test_a_missing_picture_is_an_input_error_that_names_it(tmp_path):
    with pytest.raises(InputError, match="gone"):
        await written(Prompt((Image(FileBlob(tmp_path / "gone.jpg")), Text("?"))))


@pytest.mark.filterwarnings("error::ResourceWarning")
async def test_a_body_of_many_megabytes_arrives_whole():
    arrived = []

    async def chat(request):
        arrived.append(await request.json())
        return web.json_response({"choices": [{"message": {"content": "B"}}]})

    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", chat)
    text = "0123456789" * 600_000
    async with TestServer(app) as server:
        model = ApiModel("m", ModelOptions(base_url=str(server.make_url("/v1"))))
        assert (await model.answer(Prompt((Text(text),)))).text == "B"
        await model.close()
    assert content(arrived[0]) == text


async def test_text_that_is_not_unicode_is_an_input_error():
    with pytest.raises(InputError, match="Unicode"):
        await written(Prompt((Text("half \ud83d"),)))


async def test_what_the_run_sets_wins_over_what_the_benchmark_asks_for():
    options = ModelOptions(generation=Generation(temperature=0.7, stop=("###",)), extra_body={"min_p": 0.1})
    asked = Generation(max_tokens=16, temperature=0.0, top_p=0.9, seed=3, stop=("\n",), extra={"top_k": 5})
    body = await written(Prompt((Text("?"),), generation=asked), options)
    del body["model"], body["messages"]
    assert body == {
        "max_tokens": 16, "temperature": 0.7, "top_p": 0.9, "seed": 3, "stop": ["###"], "top_k": 5, "min_p": 0.1,
    }  # fmt: skip


async def test_nothing_is_sent_that_nobody_set():
    assert set(await written(Prompt((Text("?"),), generation=Generation()))) == {"model", "messages"}


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ("gpt-4o-mini", "max_tokens"),
        ("Qwen/Qwen3-VL-8B-Instruct", "max_tokens"),
        ("olmo-2", "max_tokens"),
        ("openai/gpt-oss-120b", "max_tokens"),
        ("o3", "max_completion_tokens"),
        ("o4-mini", "max_completion_tokens"),
        ("gpt-5-mini", "max_completion_tokens"),
        ("openai/gpt-5.1", "max_completion_tokens"),
    ],
)
async def test_the_limit_on_tokens_goes_out_under_the_name_that_the_model_knows(model, field):
    body = await written(Prompt((Text("?"),)), ModelOptions(generation=Generation(max_tokens=9)), model)
    assert {key: value for key, value in body.items() if key.startswith("max")} == {field: 9}


@pytest.mark.parametrize(
    ("model", "sent"), [("gpt-5-mini", {"seed"}), ("gpt-4o", {"max_tokens", "temperature", "seed"})]
)
async def test_a_reasoning_model_gets_no_temperature_and_no_token_limit_that_only_a_benchmark_asked_for(model, sent):
    asked = Generation(max_tokens=16, temperature=0.0, seed=1)
    assert set(await written(Prompt((Text("?"),), generation=asked), model=model)) == {"model", "messages", *sent}
    mine = ModelOptions(generation=Generation(max_tokens=4096, temperature=1.0))
    body = await written(Prompt((Text("?"),), generation=asked), mine, model)
    assert body["temperature"] == 1.0
    assert 4096 in (body.get("max_tokens"), body.get("max_completion_tokens"))


async def test_a_limit_named_in_the_extra_body_takes_the_place_of_ours():
    options = ModelOptions(extra_body={"max_completion_tokens": 50})
    body = await written(Prompt((Text("?"),), generation=Generation(max_tokens=9)), options)
    assert {key: value for key, value in body.items() if key.startswith("max")} == {"max_completion_tokens": 50}


@pytest.mark.parametrize("field", ["model", "messages", "stream", "n"])
def test_an_extra_body_cannot_change_what_is_asked(field):
    with pytest.raises(UsageError, match=field):
        ApiModel("m", ModelOptions(extra_body={field: 1}))
    with pytest.raises(UsageError, match=field):
        ApiModel("m", ModelOptions(generation=Generation(extra={field: 1})))


@pytest.mark.parametrize(
    ("options", "flag"),
    [
        (ModelOptions(dtype="float16"), "--dtype"),
        (ModelOptions(device="cuda"), "--device"),
        (ModelOptions(stop_after_first_json=True), "--stop-after-first-json"),
        (ModelOptions(revision="main"), "--revision"),
    ],
)
def test_an_option_that_only_local_models_know_is_refused_by_name(options, flag):
    with pytest.raises(UsageError, match=flag):
        ApiModel("m", options)
