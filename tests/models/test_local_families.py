"""Current model families as local models: the tokens of transformers' own `generate`, for images and for clips."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tiny_families
import torch
import transformers
from tiny_families import FAMILIES
from tiny_vlm import ask, picture

from snellen.errors import BadRequestError
from snellen.media import open_image
from snellen.models.base import ModelOptions
from snellen.models.registry import open_model
from snellen.types import Image, MediaSettings, Part, Prompt, Response, Text, Video

NEW_TOKENS = 12
PROMPTS: tuple[tuple[Part, ...], ...] = (
    (picture(1), Text("What is this?")),
    (Text("First"), picture(2, 61), Text("and second"), picture(3, 130), Text("differ in what?")),
    (picture(4, 130), Text("Is this a very, very long question about one picture?")),
    (picture(5, 61), picture(6, 61), picture(7, 61), Text("Odd one out")),
)
CLIP = (Video(frames=tuple(picture(10 + number, 48) for number in range(9))), Text("What moves?"))
FRAMES = 4
PLAIN = (picture(1), Text("is it ?"))
ODD = [(picture(number, 61), Text("What is this?")) for number in range(4)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Write the checkpoint of a family, once."""
    torch.set_num_threads(1)
    root = tmp_path_factory.mktemp("families")

    def build(family):
        folder = root / family.name
        return folder if folder.exists() else tiny_families.build(family, folder)

    return build


class Own:
    """A checkpoint as transformers itself opens it, once for all tests of a family."""

    def __init__(self, folder: Path) -> None:
        self.processor: Any = transformers.AutoProcessor.from_pretrained(folder)
        self.model: Any = transformers.AutoModelForImageTextToText.from_pretrained(folder).eval()

    def replies(self, prompts: Sequence[Sequence[Part]]) -> list[tuple[str, int]]:
        """Return texts and numbers of tokens that are generated greedily, each prompt by itself."""
        replies = []
        for parts in prompts:
            content = [
                {"type": "image", "image": open_image(part, MediaSettings())}
                if isinstance(part, Image)
                else {"type": "text", "text": part.text}
                for part in parts
                if isinstance(part, Image | Text)
            ]
            inputs = self.processor.apply_chat_template(
                [{"role": "user", "content": content}],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
            )
            output = self.model.generate(**inputs, do_sample=False, max_new_tokens=NEW_TOKENS)
            tokens = output[0, inputs["input_ids"].shape[1] :]
            replies.append((self.processor.tokenizer.decode(tokens, skip_special_tokens=True), len(tokens)))
        return replies


def ask_groups(folder: Path, groups: Sequence[Sequence[Sequence[Part]]], batch_size: int = 4) -> list[list[Any]]:
    """Return the replies of the local model, which is opened once; the prompts of a group are asked all at once."""

    async def asked() -> list[list[Any]]:
        options = ModelOptions(batch_size=batch_size, media=MediaSettings(frames=FRAMES))
        model = open_model(f"local:{folder}", options)
        await model.preflight()
        try:
            return [await ask(model, [Prompt(tuple(parts)) for parts in prompts]) for prompts in groups]
        finally:
            await model.close()

    return asyncio.run(asked())


def tokens_of(replies: Sequence[Response | BaseException]) -> list[tuple[str, int]]:
    for one in replies:
        if isinstance(one, BaseException):
            raise one
    return [(one.text, one.usage.output_tokens) for one in replies if isinstance(one, Response)]


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def opened(request, built):
    """The family's folder, transformers' own model of it, and the local model's replies to all groups of prompts."""
    folder = built(request.param)
    own = Own(folder)
    hostile = (picture(1), Text(f"is it {own.processor.image_token}?"))
    return folder, own, ask_groups(folder, [PROMPTS, [CLIP], ODD, [PLAIN, hostile]])


@pytest.mark.parametrize("batch_size", [1, 4])
def test_replies_about_images_are_the_tokens_of_transformers_own_generate(opened, batch_size):
    folder, own, (replies, *_) = opened
    if batch_size == 1:
        (replies,) = ask_groups(folder, [PROMPTS], batch_size)
    assert tokens_of(replies) == own.replies(PROMPTS)


def test_replies_about_a_clip_are_the_tokens_of_its_frames(opened):
    _, own, (_, replies, *_) = opened
    shown = [CLIP[0].frames[number] for number in (0, 2, 5, 8)]
    assert tokens_of(replies) == own.replies([(*shown, CLIP[1])])


def test_a_reply_depends_on_the_image(opened):
    assert len(set(tokens_of(opened[2][2]))) > 1


def test_a_control_token_in_a_question_is_text_or_refused_and_the_other_prompts_are_answered(opened):
    _, own, (*_, (first, second)) = opened
    assert tokens_of([first]) == own.replies([PLAIN])
    token = own.processor.image_token
    if isinstance(second, Response):
        assert second.usage.input_tokens == first.usage.input_tokens + len(token)
    else:
        assert isinstance(second, BadRequestError) and repr(token) in second.message, second


def test_a_question_without_an_image_has_no_part_in_the_batch_of_others(built):
    """PaliGemma takes no question without an image, alone or beside others."""
    (paligemma,) = (family for family in FAMILIES if family.name == "PaliGemma")
    folder = built(paligemma)
    ((pictured, blind),) = ask_groups(folder, [[PROMPTS[0], (Text("What is this?"),)]])
    assert tokens_of([pictured]) == Own(folder).replies(PROMPTS[:1])
    assert isinstance(blind, BadRequestError)


WITHOUT_TORCHVISION = """
import importlib.util, sys
there = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "torchvision" else there(name, package)
sys.modules["torchvision"] = None
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
import test_local_families as families
for folder in sys.argv[3:]:
    (text, tokens), = families.tokens_of(*families.ask_groups(Path(folder), [families.PROMPTS[:1]]))
    print(tokens)
"""


def test_without_torchvision_a_processor_opens_without_its_video_part(built):
    folders = [str(built(family)) for family in FAMILIES if family.video]
    here = Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCHVISION, str(here), str(here.parent), *folders],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == len(folders) == 6
