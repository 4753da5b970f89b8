"""Randomly initialised OWLv2 and Grounding DINO of a few thousand weights, with tokenizers of letters."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import pre_tokenizers


def owlv2(folder: Path) -> Path:
    """An OWLv2 whose boxes are as wide and high as the picture, about the centres of its 4 x 4 patches."""
    torch.manual_seed(0)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    tokenizer = transformers.CLIPTokenizer(
        vocab={word: at for at, word in enumerate(words)}, merges=[], model_max_length=16
    )
    images = transformers.Owlv2ImageProcessor(size={"height": 32, "width": 32})
    transformers.Owlv2Processor(image_processor=images, tokenizer=tokenizer).save_pretrained(folder)
    size = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"pad_token_id": len(words) - 1, "bos_token_id": len(words) - 2, "eos_token_id": len(words) - 1}
    model = transformers.Owlv2ForObjectDetection(
        transformers.Owlv2Config(
            text_config={**size, **ends, "vocab_size": len(words), "max_position_embeddings": 16},
            vision_config={**size, "image_size": 32, "patch_size": 8},
            projection_dim=16,
        )
    )
    with torch.no_grad():
        model.box_head.dense2.weight.zero_()
        model.box_head.dense2.bias.copy_(torch.tensor([0.0, 0.0, 5.0, 5.0]))
    model.save_pretrained(folder)
    return folder


def grounding_dino(folder: Path) -> Path:
    """A Grounding DINO with a small Swin and a small BERT."""
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", *"abcdefghijklmnopqrstuvwxyz"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokenizer = transformers.BertTokenizer(vocab={word: at for at, word in enumerate(words)})
    images = transformers.GroundingDinoImageProcessor(size={"shortest_edge": 160, "longest_edge": 240})
    transformers.GroundingDinoProcessor(image_processor=images, tokenizer=tokenizer).save_pretrained(folder)
    swin = {"model_type": "swin", "embed_dim": 8, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4}
    bert = {
        "model_type": "bert",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config = transformers.GroundingDinoConfig(
        backbone_config={**swin, "image_size": 64, "out_features": ["stage2", "stage3", "stage4"]},
        text_config={**bert, "vocab_size": len(words)},
        num_queries=12,
        encoder_layers=1,
        decoder_layers=2,
        d_model=32,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        max_text_len=32,
    )
    transformers.GroundingDinoForObjectDetection(config).save_pretrained(folder)
    return folder


def sam2(folder: Path) -> Path:
    """A SAM 2 of 110,000 weights that outlines about half of a picture."""
    torch.manual_seed(0)
    backbone = transformers.Sam2HieraDetConfig(
        hidden_size=8,
        num_attention_heads=1,
        image_size=[64, 64],
        blocks_per_stage=[1, 1, 2, 1],
        embed_dim_per_stage=[8, 16, 32, 64],
        num_attention_heads_per_stage=[1, 1, 2, 2],
        window_size_per_stage=[4, 4, 4, 4],
        global_attention_blocks=[3],
        window_positional_embedding_background_size=[2, 2],
    )
    vision = transformers.Sam2VisionConfig(
        backbone_config=backbone,
        backbone_channel_list=[64, 32, 16, 8],
        fpn_hidden_size=32,
        backbone_feature_sizes=[[16, 16], [8, 8], [4, 4]],
    )
    decoder = {"hidden_size": 32, "mlp_dim": 64, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = transformers.Sam2Config(
        vision_config=vision,
        prompt_encoder_config={"hidden_size": 32, "image_size": 64, "patch_size": 16},
        mask_decoder_config={**decoder, "iou_head_hidden_dim": 32},
    )
    transformers.Sam2Model(config).save_pretrained(folder)
    images = transformers.Sam2ImageProcessor(size={"height": 64, "width": 64}, mask_size={"height": 16, "width": 16})
    transformers.Sam2Processor(images, target_size=64).save_pretrained(folder)
    return folder
