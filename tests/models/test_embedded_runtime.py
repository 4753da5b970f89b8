"""The NumPy runtime of the embedded model gives what transformers on torch gives: tokens, pixels, scores and replies."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as pillow

from snellen.benchmarks.base import Data
from snellen.benchmarks.chart.creatures import CHART
from snellen.errors import BadRequestError, MissingExtraError, PreflightError, UsageError
from snellen.models import embedded
from snellen.models.base import Model, ModelOptions
from snellen.models.local import checkpoint, model
from snellen.models.local.chat_template import converse, encode
from snellen.models.local.replies import settings_for
from snellen.sources import BytesBlob
from snellen.types import Generation, Image, MediaSettings, Prompt, Response, Text, Turn

try:
    import torch
    from transformers import CLIPImageProcessorPil
except ImportError:
    torch = None
needs_torch = pytest.mark.skipif(torch is None, reason="compares with transformers on torch")

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16")
TEXTS = (
    "What number is this?",
    "",
    "  a\n\tb ",
    "<image></s> <|user|>",
    "é日本 ½ 🙂 don't",
    "x" * 40,
    "Answer with T or F.",
)
WAYS = (
    {},
    {"max_tokens": 1},
    {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repetition_penalty": 1.05},
    {"temperature": 1.3, "min_p": 0.1},
    {"temperature": 2.0, "presence_penalty": 1.5, "frequency_penalty": 0.5, "seed": 4},
    {"temperature": 4.0, "max_tokens": 40, "seed": 4},
    {"repetition_penalty": 9.0},
    {"stop": ("a", " t")},
)


@st.composite
def images(draw: st.DrawFn) -> Image:
    """Draw an image of any mode and size, as a file."""
    mode, width, height = draw(st.sampled_from(MODES)), draw(st.integers(1, 130)), draw(st.integers(1, 130))
    noise = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 256, (height, width, 4), dtype=np.uint8)
    drawn = pillow.fromarray(noise, "RGBA") if mode != "I;16" else pillow.fromarray(noise[..., 0].astype(np.uint16) * 9)
    file = io.BytesIO()
    drawn.convert(mode).save(file, "TIFF" if mode == "CMYK" else "PNG")
    return Image(BytesBlob(f"{mode}-{width}x{height}", file.getvalue()))


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    words = st.sampled_from(TEXTS).map(Text) | st.text(max_size=30).filter(_encodable).map(Text)
    parts = draw(st.lists(words | images(), min_size=1, max_size=5))
    history = (Turn("user", (draw(words),)), Turn("assistant", (draw(words),))) if draw(st.booleans()) else ()
    return Prompt(tuple(parts), system=draw(st.sampled_from(("", "Look closely."))), history=history)


def _encodable(text: str) -> bool:
    return not any(0xD800 <= ord(sign) < 0xE000 for sign in text)


@cache
def loaded() -> Any:
    """Return the checkpoint in transformers, with the image processor that needs no torchvision."""
    torch.set_num_threads(1)
    whole = checkpoint.load(checkpoint.find(str(embedded.path()), None), "embedded", "cpu", "auto")
    whole.processor.image_processor = CLIPImageProcessorPil.from_pretrained(embedded.path())
    return whole


@cache
def runtime() -> Any:
    from snellen.models.embedded.runtime import EmbeddedRuntime

    return EmbeddedRuntime(embedded.path())


def conversation(prompt: Prompt) -> Any:
    return converse(prompt, MediaSettings(), lambda video: ())


def asked(opened: Model, questions: Sequence[Prompt], at_once: int = 64) -> list[Response]:
    """Return the responses of a model that is opened and closed here."""

    async def whole() -> list[Response]:
        await opened.preflight()
        room = asyncio.Semaphore(at_once)

        async def one(prompt: Prompt) -> Response:
            async with room:
                return await opened.answer(prompt)

        try:
            return await asyncio.gather(*map(one, questions))
        finally:
            await opened.close()

    return asyncio.run(whole())


def on_torch(options: ModelOptions = ModelOptions()) -> Model:
    """Return the model on torch; torchvision would round some pixels of resized images to the next grey value."""
    opened = model.open_model(str(embedded.path()), options, "embedded")
    opened.share(model.SharedWeights(loaded()))
    return opened


def chart(count: int, seed: int = 5) -> list[Prompt]:
    """Return questions of every kind of the chart, drawn from it by a seed."""
    every = [sample.prompt for sample in CHART.samples(Data(seed=seed, options={"questions": "20"}))]
    return random.Random(seed).sample(every, count)


def core(response: Response) -> tuple[Any, ...]:
    return response.text, response.usage, response.finish_reason, response.trace["request"]["prompt"]


@needs_torch
def test_a_sample_of_the_chart_is_answered_as_by_transformers_and_under_the_same_identity():
    questions = chart(200)
    here, there = embedded.open_model("", ModelOptions()), on_torch()
    assert here.identity() == there.identity()
    assert [core(each) for each in asked(here, questions)] == [core(each) for each in asked(there, questions)]


@needs_torch
@settings(max_examples=60, derandomize=True)
@given(st.lists(prompts(), min_size=1, max_size=3))
def test_tokens_pixels_and_scores_are_those_of_transformers(questions):
    conversations = [conversation(prompt) for prompt in questions]
    theirs, ours = encode(loaded(), conversations, {}), runtime().encode(conversations)
    assert ours.ids.tolist() == theirs["input_ids"].tolist()
    assert ours.attended.tolist() == theirs["attention_mask"].bool().tolist()
    if "pixel_values" in theirs:
        assert np.abs(ours.pixels - theirs["pixel_values"].numpy()).max() < 1e-5
    else:
        assert len(ours.pixels) == 0
    network = runtime()._network
    scores = network.read(network.embedded(ours.ids, network.see(ours.pixels)), ours.attended, [])
    with torch.no_grad():
        logits = loaded().model(**theirs).logits[:, -1].numpy()
    assert np.abs(scores - logits).max() < 1e-3


@needs_torch
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_of_decoding_is_that_of_the_torch_runtime(way):
    """A draw within rounding of the border of two tokens may differ: 1 of 1,252 at temperature 2."""
    questions = chart(40, seed=8)
    options = ModelOptions(generation=Generation(**way), seed=11, device="cpu", batch_size=16)
    ours = [core(each) for each in asked(embedded.open_model("", options), questions)]
    assert ours == [core(each) for each in asked(on_torch(options), questions)]
    assert way == {} or ours != [core(each) for each in asked(embedded.open_model("", ModelOptions()), questions)]


def test_a_batch_answers_as_each_prompt_alone_does():
    questions = [*chart(30, seed=9), Prompt((Text("What number is this?"),))]
    options = ModelOptions(generation=Generation(temperature=0.8), batch_size=32)
    together = asked(embedded.open_model("", options), questions)
    alone = asked(embedded.open_model("", options), questions, at_once=1)
    assert [core(each) for each in together] == [core(each) for each in alone]


def test_rows_of_a_batch_end_at_their_own_room_and_one_without_room_is_refused():
    written = conversation(Prompt((Text("!" * 1021),)))  # 1,024 with begin, user and assistant
    with pytest.raises(BadRequestError, match="1024 tokens, images included; the model reads 1024"):
        runtime().encode([written])
    texts = ("!" * 1019, "What number is this?")
    batch = runtime().encode([conversation(Prompt((Text(text),))) for text in texts])
    way = settings_for(Generation(max_tokens=30, repetition_penalty=0.01), False, None)
    replies = runtime().generate(batch, way, [0, 0], lambda: False)
    assert [(reply.output_tokens, reply.finish_reason) for reply in replies] == [(2, "length"), (30, "length")]


def test_a_run_records_that_numpy_answered_and_the_sizes_of_its_images():
    opened = embedded.open_model("", ModelOptions())

    async def whole() -> Any:
        await opened.answer(chart(1)[0])
        facts = await opened.executed()
        await opened.close()
        return facts

    facts = asyncio.run(whole())
    assert facts["runtime"] == f"numpy {np.__version__}"
    assert {(image["width"], image["height"], image["patch"]) for image in facts["images"]} == {(48, 48, 8)}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"dtype": "bfloat16"}, "--dtype"),
        ({"device": "cuda"}, "--device"),
        ({"compile": True}, "--compile"),
        ({"kv_cache": "static"}, "--kv-cache"),
        ({"adapter": "lora"}, "--adapter"),
        ({"generation": Generation(extra={"num_beams": 2})}, "Generation.extra"),
    ],
)
def test_an_option_that_only_torch_has_is_refused_by_name_without_it(options, named, monkeypatch):
    absent = ("torch", "transformers")
    monkeypatch.setattr(embedded, "find_spec", lambda name: None if name in absent else find_spec(name))
    with pytest.raises(
        MissingExtraError, match=rf"{named} with --model embedded needs torch and transformers"
    ) as refused:
        embedded.open_model("", ModelOptions(**options))
    assert "[local]" in refused.value.hint
    with pytest.raises(UsageError, match="--base-url"):
        embedded.open_model("", ModelOptions(base_url="http://127.0.0.1:9/v1", **options))
    assert embedded.open_model("", ModelOptions(device="cpu", dtype="float32")).name == "embedded"


def test_an_argument_of_the_chat_template_is_refused_before_the_first_question():
    options = ModelOptions(generation=Generation(chat_template_kwargs={"enable_thinking": True}))
    with pytest.raises(PreflightError, match="enable_thinking"):
        asked(embedded.open_model("", options), [])
