"""The network: LLaVA type (CLIP vision tower, two-layer projector, Llama), a byte-level tokenizer, a chat template.

This type needs no torchvision, and AutoProcessor with AutoModelForImageTextToText load it like any hub model.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from pictures import PATCH, PATCHES, SIDE
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
)
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

SPECIAL = ("<pad>", "<s>", "</s>", "<image>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] == 'assistant' %}<|assistant|>{% else %}<|user|>{% endif %}"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type'] in ('image', 'image_url') %}<image>{% endif %}{% endfor %}"
    "{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"
    "{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def tokenizer(corpus: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on the chart's own prompts: their words are single tokens, any other text still encodes."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=list(SPECIAL),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<s>",  # noqa: S106
        eos_token="</s>",  # noqa: S106
        pad_token="<pad>",  # noqa: S106
        additional_special_tokens=["<image>", "<|user|>", "<|assistant|>"],
        padding_side="left",
        model_max_length=1024,
    )


def processor(tokens: PreTrainedTokenizerFast) -> LlavaProcessor:
    """Resizes any picture to 48 x 48 (bicubic) and expands <image> into as many tokens as there are patches."""
    images = CLIPImageProcessorPil(
        do_resize=True,
        size={"height": SIDE, "width": SIDE},
        do_center_crop=False,
        do_rescale=True,
        do_normalize=True,
        image_mean=[0.5] * 3,
        image_std=[0.25] * 3,
        resample=3,
        do_convert_rgb=True,
    )
    return LlavaProcessor(
        image_processor=images,
        tokenizer=tokens,
        patch_size=PATCH,
        vision_feature_select_strategy="default",
        image_token="<image>",  # noqa: S106
        num_additional_image_tokens=1,
        chat_template=TEMPLATE,
    )


def network(tokens: PreTrainedTokenizerFast, seed: int, *, width: int = 128, vision_layers: int = 3, layers: int = 4):
    """A fresh model: about 1.4 million parameters, tied embeddings, greedy generation."""
    ids = {
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
        "pad_token_id": tokens.pad_token_id,
    }
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=width,
            intermediate_size=3 * width,
            num_hidden_layers=vision_layers,
            num_attention_heads=4,
            image_size=SIDE,
            patch_size=PATCH,
            projection_dim=width,
            hidden_act="gelu",
        ),
        text_config=LlamaConfig(
            vocab_size=len(tokens),
            hidden_size=width,
            intermediate_size=width * 5 // 2,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=1024,
            initializer_range=0.06,
            tie_word_embeddings=True,
            **ids,
        ),
        image_token_id=tokens.convert_tokens_to_ids("<image>"),
        image_seq_length=PATCHES,
        vision_feature_select_strategy="default",
        vision_feature_layer=-1,
        projector_hidden_act="gelu",
        tie_word_embeddings=True,
        **ids,
    )
    torch.manual_seed(seed)
    model = LlavaForConditionalGeneration(config)
    for name, value in ids.items():
        setattr(model.generation_config, name, value)
    model.generation_config.max_new_tokens = 16
    model.generation_config.do_sample = False
    return model
