"""Salience of an edit: how unexpected it is to a language model that has read captions of both images.

The mean log-probability of the edit's tokens after the captions. VLM2-Bench keeps pairs below -2.0 under Llama 3 8B: an edit
that the captions give away is no test of seeing. The authors' prompt was not released, so that the words around the captions,
and with them the exact values, are Snellen's.

Source: Zhang et al. 2025 (arXiv 2502.12084), section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from snellen.errors import DataError, UsageError
from snellen.questions.linking import EditedPair
from snellen.questions.pretrained import open_pretrained

Salience: TypeAlias = Callable[..., float]
"""Returns the salience of an edit after the captions of the first and of the second image."""
PROMPT = "Image 1: {first}\nImage 2: {second}\nWhat was done to image 1 to make image 2:"


def salient_pairs(
    pairs: Sequence[EditedPair], below: float, measure: Salience | None = None
) -> list[tuple[EditedPair, float]]:
    """Return the pairs below a salience: measured after the captions, or as the table gives it.

    Raises:
        DataError: a pair without captions, or without a salience; with its line.
        UsageError: no pair is left.
    """
    needed = ("salience",) if measure is None else ("caption_1", "caption_2")
    hint = (
        "Fill in the column, or measure it: --scorer hf:NAME." if measure is None else "--scorer needs both captions."
    )
    kept = []
    for pair in pairs:
        values = [pair.row.get(name, "") for name in needed]
        try:
            if not all(values):
                raise ValueError
            value = float(values[0]) if measure is None else measure(*values, pair.row["edit"])
        except ValueError:
            raise DataError(f"{pair.where}: {' and '.join(needed)}: no value that can be used", hint) from None
        if value < below:
            kept.append((pair, value))
    if not kept:
        raise UsageError(f"none of {len(pairs):,} pairs is below a salience of {below:g}", "Raise --salience.")
    return kept


def open_salience(name: str, device: str = "auto") -> Salience:
    """Open a causal language model of transformers, `hf:NAME` or a folder, as a measure of salience.

    Raises:
        MissingExtraError: torch and transformers are not installed.
        PreflightError: no such model, or one that does not continue a text.
    """
    model, tokenizer = open_pretrained(
        name, "AutoModelForCausalLM", "AutoTokenizer", device, "language model", "hf:meta-llama/Meta-Llama-3-8B"
    )
    import torch

    def salience(first: str, second: str, edit: str) -> float:
        before = tokenizer(PROMPT.format(first=first, second=second))["input_ids"]
        tokens = tokenizer(f" {edit}", add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*before, *tokens]], device=model.device)).logits[0].float()
        predicted = torch.log_softmax(logits[len(before) - 1 : -1], dim=-1)
        return round(float(predicted[torch.arange(len(tokens)), torch.tensor(tokens)].mean()), 4)

    return salience
