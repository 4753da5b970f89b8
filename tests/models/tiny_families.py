"""Untrained checkpoints of current model families, with their real processors, in the Hugging Face format.

The weights are drawn with a seed and have a few hundred thousand parameters. Every printable ASCII character is one
token, and control tokens are suppressed: a reply's text tells its tokens one to one. Nothing is downloaded.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

CONTEXT = 8192
WIDTH = 64
END, PAD, START = "<|im_end|>", "<|endoftext|>", "<|im_start|>"
TEXT = {
    "hidden_size": WIDTH,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": CONTEXT,
}
SIGHT = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SQUARE = {"height": 32, "width": 32}
PINPOINTS = [[32, 32], [32, 64], [64, 32], [64, 64]]
SPREAD = 0.25
"""Standard deviation of the weights: wide enough that replies depend on the images."""


class Parts(NamedTuple):
    """What `save` writes: a processor, and a model of the processor's vocabulary."""

    processor: Any
    model: Any


class Family(NamedTuple):
    """A model family: how its checkpoint is made, and whether its processor has a video part."""

    name: str
    parts: Callable[[], Parts]
    video: bool


def build(family: Family, folder: Path) -> Path:
    """Write a checkpoint of the family. Its own settings would sample, as those of chat models do."""
    import torch
    from transformers import GenerationConfig

    torch.manual_seed(0)
    processor, model = family.parts()
    tokenizer = processor.tokenizer
    drawn = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, SPREAD, generator=drawn)
    letters = set(tokenizer.convert_tokens_to_ids(list(_letters())))
    model.generation_config = GenerationConfig(
        do_sample=True,
        temperature=0.7,
        top_p=0.8,
        max_new_tokens=12,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        suppress_tokens=sorted(set(range(len(tokenizer))) - letters - {tokenizer.eos_token_id}),
    )
    processor.save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


def _letters() -> Mapping[str, str]:
    """Return the letter of byte-level vocabularies for each character that a reply may hold."""
    return {("Ġ" if letter == " " else "Ċ" if letter == "\n" else letter): letter for letter in _CHARACTERS}


_CHARACTERS = string.ascii_letters + string.digits + string.punctuation + " \n"


def _tokenizer(special: list[str], **named: str) -> Any:
    """Make a tokenizer of letters; `named` tokens are attributes of it, as `image_token`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    control = list(dict.fromkeys([PAD, START, END, *special, *named.values()]))
    core = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate([*control, *_letters()])}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens(control)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        model_max_length=CONTEXT,
        extra_special_tokens=named,
    )


def _template(image: str, video: str = "") -> str:
    """Return a chat template that writes these texts for an image and a video."""
    return (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% for c in m['content'] %}"
        f"{{% if c['type'] == 'image' %}}{image}{{% elif c['type'] == 'video' %}}{video}"
        "{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )


def _ids(tokenizer: Any, **tokens: str) -> dict[str, int]:
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in tokens.items()}


def _rope(**more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3], **more}


QWEN = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
QWEN_TEMPLATE = _template(*(f"<|vision_start|>{pad}<|vision_end|>" for pad in ("<|image_pad|>", "<|video_pad|>")))


def _qwen2_5_vl() -> Parts:
    import transformers as tf

    tokenizer = _tokenizer(list(QWEN.values()))
    processor = tf.Qwen2_5_VLProcessor(
        tf.Qwen2VLImageProcessor(min_pixels=56 * 56, max_pixels=28 * 28 * 16),
        tokenizer,
        tf.Qwen2VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )
    config = tf.Qwen2_5_VLConfig(
        text_config={**TEXT, "vocab_size": len(tokenizer), "rope_parameters": _rope()},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 64,
            "out_hidden_size": WIDTH,
            "fullatt_block_indexes": [1],
        },
        **_ids(tokenizer, **QWEN),
    )
    return Parts(processor, tf.Qwen2_5_VLForConditionalGeneration(config))


def _qwen3_vl() -> Parts:
    import transformers as tf

    tokenizer = _tokenizer(list(QWEN.values()))
    processor = tf.Qwen3VLProcessor(
        tf.Qwen2VLImageProcessor(patch_size=16, min_pixels=64 * 64, max_pixels=32 * 32 * 16),
        tokenizer,
        tf.Qwen3VLVideoProcessor(),
        chat_template=QWEN_TEMPLATE,
    )
    config = tf.Qwen3VLConfig(
        text_config={**TEXT, "vocab_size": len(tokenizer), "rope_parameters": _rope(mrope_interleaved=True)},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 64,
            "out_hidden_size": WIDTH,
            "deepstack_visual_indexes": [0],
            "patch_size": 16,
        },
        **_ids(tokenizer, **QWEN),
    )
    return Parts(processor, tf.Qwen3VLForConditionalGeneration(config))


def _internvl() -> Parts:
    import transformers as tf

    tokenizer = _tokenizer(
        [],
        start_image_token="<img>",
        end_image_token="</img>",
        context_image_token="<IMG_CONTEXT>",
        video_token="<video>",
    )
    processor = tf.InternVLProcessor(
        tf.GotOcr2ImageProcessor(size=SQUARE, crop_to_patches=True, max_patches=4),
        tokenizer,
        tf.InternVLVideoProcessor(size=SQUARE),
        image_seq_length=4,
        chat_template=_template("<IMG_CONTEXT>\n", "<video>\n"),
    )
    config = tf.InternVLConfig(
        vision_config={**SIGHT, "image_size": [32, 32], "patch_size": [8, 8]},
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(tokenizer)},
        image_seq_length=4,
        downsample_ratio=0.5,
        **_ids(tokenizer, image_token_id="<IMG_CONTEXT>"),
    )
    return Parts(processor, tf.InternVLForConditionalGeneration(config))


def _idefics(processor: type, config: type, model: type, images: Any, *videos: Any) -> Parts:
    """Make a model of the Idefics line: an image is an overview and tiles, with the position of each as a token."""
    grid = [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)]
    marks = ["<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"]
    tokenizer = _tokenizer([*marks, *grid])
    made = processor(images, tokenizer, *videos, image_seq_len=4, chat_template=_template("<image>", "<video>"))
    settings = config(
        text_config={**TEXT, "model_type": "llama", "vocab_size": len(tokenizer), "pad_token_id": 0},
        vision_config={**SIGHT, "image_size": 32, "patch_size": 8},
        scale_factor=2,
        pad_token_id=0,
        **_ids(tokenizer, image_token_id="<image>"),
    )
    return Parts(made, model(settings))


def _smolvlm() -> Parts:
    import transformers as tf

    sizes = {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}}
    images, videos = (
        tf.SmolVLMImageProcessor(**sizes),
        tf.SmolVLMVideoProcessor(**{**sizes, "size": {"longest_edge": 32}}),
    )
    return _idefics(tf.SmolVLMProcessor, tf.SmolVLMConfig, tf.SmolVLMForConditionalGeneration, images, videos)


def _idefics3() -> Parts:
    import transformers as tf

    images = tf.Idefics3ImageProcessor(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    return _idefics(tf.Idefics3Processor, tf.Idefics3Config, tf.Idefics3ForConditionalGeneration, images)


def _llava_onevision() -> Parts:
    import transformers as tf

    tokenizer = _tokenizer(["<image>", "<video>"])
    processor = tf.LlavaOnevisionProcessor(
        tf.LlavaOnevisionImageProcessor(size=SQUARE, image_grid_pinpoints=PINPOINTS),
        tokenizer,
        tf.LlavaOnevisionVideoProcessor(size=SQUARE),
        num_image_tokens=16,
        vision_feature_select_strategy="full",
        chat_template=_template("<image>\n", "<video>\n"),
    )
    config = tf.LlavaOnevisionConfig(
        text_config={**TEXT, "model_type": "qwen2", "vocab_size": len(tokenizer)},
        vision_config={**SIGHT, "model_type": "siglip_vision_model", "image_size": 32, "patch_size": 8},
        image_grid_pinpoints=PINPOINTS,
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        **_ids(tokenizer, image_token_index="<image>", video_token_index="<video>"),
    )
    return Parts(processor, tf.LlavaOnevisionForConditionalGeneration(config))


def _gemma3() -> Parts:
    import transformers as tf

    named = {"image_token": "<image_soft_token>", "boi_token": "<start_of_image>", "eoi_token": "<end_of_image>"}
    tokenizer = _tokenizer([], **named)
    processor = tf.Gemma3Processor(
        tf.Gemma3ImageProcessor(size=SQUARE),
        tokenizer,
        image_seq_length=4,
        chat_template=_template("<start_of_image>"),
    )
    config = tf.Gemma3Config(
        text_config={**TEXT, "vocab_size": len(tokenizer), "sliding_window": 64, "tie_word_embeddings": False},
        vision_config={**SIGHT, "model_type": "siglip_vision_model", "image_size": 32, "patch_size": 8},
        mm_tokens_per_image=4,
        tie_word_embeddings=False,
        **_ids(
            tokenizer,
            image_token_id="<image_soft_token>",
            boi_token_index="<start_of_image>",
            eoi_token_index="<end_of_image>",
        ),
    )
    return Parts(processor, tf.Gemma3ForConditionalGeneration(config))


def _paligemma() -> Parts:
    import transformers as tf

    tokenizer = _tokenizer(["<image>"])
    images = tf.SiglipImageProcessor(size=SQUARE)
    images.image_seq_length = 16
    processor = tf.PaliGemmaProcessor(images, tokenizer, chat_template=_template("<image>"))
    config = tf.PaliGemmaConfig(
        text_config={**TEXT, "model_type": "gemma", "vocab_size": len(tokenizer), "tie_word_embeddings": False},
        vision_config={
            **SIGHT,
            "model_type": "siglip_vision_model",
            "image_size": 32,
            "patch_size": 8,
            "projection_dim": WIDTH,
            "vision_use_head": False,
        },
        projection_dim=WIDTH,
        tie_word_embeddings=False,
        **_ids(tokenizer, image_token_index="<image>"),
    )
    return Parts(processor, tf.PaliGemmaForConditionalGeneration(config))


def _glm4v() -> Parts:
    import transformers as tf

    tokens = {
        "image_token_id": "<|image|>",
        "video_token_id": "<|video|>",
        "image_start_token_id": "<|begin_of_image|>",
        "image_end_token_id": "<|end_of_image|>",
        "video_start_token_id": "<|begin_of_video|>",
        "video_end_token_id": "<|end_of_video|>",
    }
    tokenizer = _tokenizer(list(tokens.values()))
    template = _template("<|begin_of_image|><|image|><|end_of_image|>", "<|begin_of_video|><|video|><|end_of_video|>")
    processor = tf.Glm4vProcessor(
        tf.Glm4vImageProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16 * 2}),
        tokenizer,
        tf.Glm4vVideoProcessor(size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 16 * 2}),
        chat_template=template,
    )
    config = tf.Glm4vConfig(
        text_config={**TEXT, "vocab_size": len(tokenizer), "rope_parameters": _rope(partial_rotary_factor=1.0)},
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 64,
            "out_hidden_size": WIDTH,
            "image_size": 56,
            "patch_size": 14,
        },
        **_ids(tokenizer, **tokens),
    )
    return Parts(processor, tf.Glm4vForConditionalGeneration(config))


def _mistral3() -> Parts:
    import transformers as tf

    tokenizer = _tokenizer(["[IMG]", "[IMG_BREAK]", "[IMG_END]"])
    processor = tf.PixtralProcessor(
        tf.PixtralImageProcessor(size={"longest_edge": 64}, patch_size={"height": 8, "width": 8}),
        tokenizer,
        patch_size=8,
        spatial_merge_size=2,
        chat_template=_template("[IMG]"),
    )
    config = tf.Mistral3Config(
        text_config={**TEXT, "model_type": "mistral", "vocab_size": len(tokenizer)},
        vision_config={**SIGHT, "model_type": "pixtral", "image_size": 64, "patch_size": 8, "head_dim": 16},
        spatial_merge_size=2,
        vision_feature_layer=-1,
        **_ids(tokenizer, image_token_index="[IMG]"),
    )
    return Parts(processor, tf.Mistral3ForConditionalGeneration(config))


FAMILIES = (
    Family("Qwen2.5-VL", _qwen2_5_vl, video=True),
    Family("Qwen3-VL", _qwen3_vl, video=True),
    Family("InternVL", _internvl, video=True),
    Family("SmolVLM", _smolvlm, video=True),
    Family("LLaVA-OneVision", _llava_onevision, video=True),
    Family("Gemma 3", _gemma3, video=False),
    Family("PaliGemma", _paligemma, video=False),
    Family("Idefics 3", _idefics3, video=False),
    Family("GLM-4V", _glm4v, video=True),
    Family("Mistral 3", _mistral3, video=False),
)
