"""An untrained LLaVA of 60,000 parameters in the Hugging Face format, and prompts to put to it.

It says nonsense, but always the same nonsense for the same picture and question, which is all that these tests need.
Every byte is one token. Nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as pillow

from snellen.sources.blobs import BytesBlob
from snellen.types import Generation, Image, Part, Prompt, Response, Text

SPECIAL = ["<pad>", "<s>", "</s>", "<image>", "<|user|>", "<|assistant|>", "<|system|>"]
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>"
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% else %}{{ c['text'] }}{% endif %}{% endfor %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CONTEXT = 512


def build(folder: Path, *, template: bool = True) -> Path:
    """Write the model; pictures are 16 x 16 pixels and 4 tokens to it."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    core = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate([*SPECIAL, *letters])}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(SPECIAL)
    tokenizer: Any = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=SPECIAL[3:],
        model_max_length=CONTEXT,
    )
    size = {"height": 16, "width": 16}
    pictures: Any = CLIPImageProcessor(size=size, do_center_crop=False, image_mean=[0.5] * 3, image_std=[0.25] * 3)
    LlavaProcessor(
        image_processor=pictures,
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
        chat_template=TEMPLATE if template else None,
    ).save_pretrained(folder)
    text = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.3,
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    vision = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=16,
        patch_size=8,
        projection_dim=32,
        initializer_factor=20.0,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=3,
        image_seq_length=4,
        vision_feature_layer=-1,
        vision_feature_select_strategy="default",
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )
    torch.manual_seed(0)
    model: Any = LlavaForConditionalGeneration(config)
    settings = model.generation_config
    settings.bos_token_id, settings.eos_token_id, settings.pad_token_id = 1, 2, 0
    settings.max_new_tokens = 8
    # As chat models ship: they would sample if nobody stopped them.
    settings.do_sample, settings.temperature, settings.top_p = True, 0.7, 0.8
    model.save_pretrained(folder)
    return folder


def picture(number: int, side: int = 24) -> Image:
    """A picture of noise, as PNG."""
    pixels = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
    data = io.BytesIO()
    pillow.fromarray(pixels).save(data, "PNG")
    return Image(BytesBlob(f"noise {number} {side}", data.getvalue()))


def question(number: int, pictures: int = 1, generation: Generation | None = None) -> Prompt:
    """A question whose length and pictures depend on `number`."""
    shown: list[Part] = [picture(10 * number + i) for i in range(pictures)]
    return Prompt((*shown, Text(f"Question {number}: what{' very' * (number % 5)} is this?")), generation=generation)


def dictated(text: str, max_tokens: int = 100) -> Generation:
    """Settings under which the model writes `text` and ends: each next token is pushed up after its whole prefix."""
    letters = sorted(_alphabet().values())
    ids = {letter: len(SPECIAL) + i for i, letter in enumerate(letters)}
    wanted = [SPECIAL.index("<|assistant|>"), *(ids[_alphabet()[byte]] for byte in text.encode()), 2]
    pushes = [[wanted[:end], 1000.0] for end in range(2, len(wanted) + 1)]
    return Generation(max_tokens=max_tokens, extra={"sequence_bias": pushes})


async def ask(model: Any, prompts: Sequence[Prompt]) -> list[Response | BaseException]:
    """All replies, asked at once; an error in place of a reply."""
    return await asyncio.gather(*(model.answer(prompt) for prompt in prompts), return_exceptions=True)


def texts(replies: Sequence[Response | BaseException]) -> list[str]:
    """What was said. Raises the first error among the replies."""
    said = []
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
        said.append(reply.text)
    return said


def _alphabet() -> dict[int, str]:
    """Byte to the letter that stands for it in byte-level vocabularies (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + i) for i, byte in enumerate(rest)}
