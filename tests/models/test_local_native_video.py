"""Clips by the processor's own video path: the tensors and tokens of a direct call of transformers with the file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
import tiny_families
import torch
from test_local_families import NEW_TOKENS, Own
from tiny_families import FAMILIES
from tiny_vlm import ask, picture

from media.clips import clip
from snellen.errors import BadRequestError, InputError, MediaError
from snellen.media import MediaCache, open_image
from snellen.models.base import ModelOptions
from snellen.models.local.chat_template import converse, encode
from snellen.models.local.checkpoint import prepared
from snellen.models.local.native_video import LOSSLESS, native_clip
from snellen.models.registry import open_model
from snellen.sources import FileBlob
from snellen.types import Image, MediaSettings, Prompt, Text, Video

WITH_VIDEO = [family for family in FAMILIES if family.video]
QUESTION = "What moves?"


@pytest.fixture(scope="module", params=WITH_VIDEO, ids=lambda family: family.name)
def opened(request, tmp_path_factory):
    """The folder of a family's checkpoint, transformers' own model of it, and a clip of three seconds."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("native")
    path = root / "clip.mp4"
    path.write_bytes(clip(30, codec="libx264", size=(64, 64)))
    folder = tiny_families.build(request.param, root / request.param.name)
    return folder, Own(folder), path


def direct(own: Own, path: Path, *images: Image, rate: float | None = None):
    """What transformers makes of the file by itself, decoded by PyAV as here; `rate` as the call's own argument `fps`."""
    video_processor = own.processor.video_processor
    from transformers.video_utils import load_video

    def frames_of(metadata, **_):
        if rate is None and not video_processor.do_sample_frames:
            return np.arange(metadata.total_num_frames)
        names = video_processor.valid_kwargs.__annotations__
        skipped = ("video_metadata", "do_sample_frames", "device", "do_convert_rgb", "input_data_format")
        settings = {name: getattr(video_processor, name, None) for name in names if name not in skipped}
        if rate is not None:
            both = settings.get("fps") is not None and settings.get("num_frames") is not None
            settings |= {"fps": rate} | ({} if both else {"num_frames": None})
        return video_processor.sample_frames(metadata=metadata, **settings)

    frames, metadata = load_video(str(path), backend="pyav", sample_indices_fn=frames_of)
    shown = [{"type": "image", "image": open_image(image, MediaSettings())} for image in images]
    content = [*shown, {"type": "video", "video": frames}, {"type": "text", "text": QUESTION}]
    return own.processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"video_metadata": [metadata], "do_sample_frames": False},
    ), metadata


def test_tensors_and_timestamps_are_those_of_the_processors_own_call(opened):
    _, own, path = opened
    expected, metadata = direct(own, path)
    cache = MediaCache(LOSSLESS)
    made = converse(
        Prompt((Video(FileBlob(path)), Text(QUESTION))),
        MediaSettings(video="native"),
        cache.frames,
        lambda video: native_clip(video, own.processor, cache.frames),
    )
    found = encode(prepared(own.processor, own.model), [made], {})
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert torch.equal(torch.as_tensor(found[name]), torch.as_tensor(value)), name
    (mine,) = made.videos
    assert list(mine.frames_indices) == list(metadata.frames_indices) and mine.timestamps == metadata.timestamps
    assert (mine.fps, mine.total_num_frames, mine.duration) == (10.0, 30, 3.0)
    assert len(made.images) == len(mine.frames_indices) and made.images[0].width == 64


def test_the_users_rate_takes_the_place_of_the_processors(opened, monkeypatch):
    _, own, path = opened
    if type(own.processor.video_processor).__name__.startswith("SmolVLM"):  # as published: a rate, up to a number
        for name, value in (("fps", 1), ("num_frames", 64), ("do_sample_frames", True)):
            monkeypatch.setattr(own.processor.video_processor, name, value, raising=False)
    _, usual = direct(own, path)
    _, expected = direct(own, path, rate=5)
    cache = MediaCache(LOSSLESS)
    made = native_clip(Video(FileBlob(path)), own.processor, cache.frames, 5)
    assert list(made.metadata.frames_indices) == list(expected.frames_indices) != list(usual.frames_indices)
    assert len(made.frames) == len(expected.frames_indices)
    try:
        most = native_clip(Video(FileBlob(path)), own.processor, cache.frames, 1000)
    except MediaError as error:  # some families refuse a rate above the file's, others take all frames
        assert "cannot sample it" in error.message
    else:
        assert len(most.frames) <= 30


def test_replies_are_the_tokens_of_generate_on_the_file_and_images_may_stand_beside_it(opened):
    folder, own, path = opened
    inputs, _ = direct(own, path)
    output = own.model.generate(**inputs, do_sample=False, max_new_tokens=NEW_TOKENS)
    tokens = output[0, inputs["input_ids"].shape[1] :]

    async def asked():
        model = open_model(f"local:{folder}", ModelOptions(media=MediaSettings(video="native")))
        await model.preflight()
        try:
            alone = Prompt((Video(FileBlob(path)), Text(QUESTION)))
            mixed = Prompt((picture(1), Video(FileBlob(path)), Text(QUESTION)))
            part = Prompt((Video(FileBlob(path), start=1.0), Text(QUESTION)))
            return await ask(model, [alone, mixed, part])
        finally:
            await model.close()

    alone, mixed, part = asyncio.run(asked())
    assert (alone.text, alone.usage.output_tokens) == (
        own.processor.tokenizer.decode(tokens, skip_special_tokens=True),
        len(tokens),
    )
    try:
        expected = own.model.generate(**direct(own, path, picture(1))[0], do_sample=False, max_new_tokens=NEW_TOKENS)
    except ValueError:  # images and clips of some families share one token
        assert isinstance(mixed, BadRequestError) and "image tokens do not match" in mixed.message
    else:
        assert mixed.text and expected.shape[1] == mixed.usage.input_tokens + mixed.usage.output_tokens
    assert isinstance(part, InputError) and "--video frames" in part.message


def test_a_processor_without_a_video_part_is_refused(tmp_path):
    family = next(family for family in FAMILIES if not family.video)
    (tmp_path / "clip.mp4").write_bytes(clip(4, codec="libx264"))

    async def asked():
        model = open_model(
            f"local:{tiny_families.build(family, tmp_path / 'm')}", ModelOptions(media=MediaSettings(video="native"))
        )
        await model.preflight()
        try:
            return await ask(model, [Prompt((Video(FileBlob(tmp_path / "clip.mp4")), Text(QUESTION)))])
        finally:
            await model.close()

    (reply,) = asyncio.run(asked())
    assert isinstance(reply, BadRequestError) and "takes no videos" in reply.message
