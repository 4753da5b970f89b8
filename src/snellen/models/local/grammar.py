"""Replies by a schema from local models: at each step only tokens that go on with valid JSON have a score.

llguidance follows the grammar of the schema token by token; its masks are those of a row, so that rows of a batch do not
depend on each other.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

import llguidance
import llguidance.hf
import llguidance.numpy
import numpy as np
import torch
from transformers import LogitsProcessor

from snellen.errors import BadRequestError

MOST_TOKENIZERS = 4
_COMPACT: Any = {"whitespace_flexible": False}
"""No blanks but one behind a comma and a colon: an untrained model could write nothing else."""
_known: OrderedDict[tuple[int, tuple[int, ...]], tuple[Any, llguidance.LLTokenizer]] = OrderedDict()


class SchemaMask(LogitsProcessor):
    """Masks the tokens of a batch with which no reply by the schema goes on.

    Args:
        schema: JSON Schema, as text.
        tokenizer: of the checkpoint, a fast one.
        ends: tokens that end a reply; they are open where the JSON is complete.
        rows: how many replies there are.
        width: tokens of the prompts.

    Raises:
        BadRequestError: the schema has keywords that llguidance lacks, or the tokenizer is not a fast one.
    """

    def __init__(self, schema: str, tokenizer: Any, ends: frozenset[int], rows: int, width: int) -> None:
        try:
            known = _tokenizer(tokenizer, ends)
        except ValueError as error:
            raise BadRequestError(f"--schema: the checkpoint's tokenizer cannot be used: {error}") from error
        grammar = llguidance.LLMatcher.grammar_from_json_schema(json.loads(schema), overrides=_COMPACT)
        if fault := llguidance.LLMatcher.validate_grammar(grammar, known):
            raise BadRequestError(
                f"--schema: the schema cannot be enforced here: {' '.join(fault.split())[:200]}",
                "Write it without that keyword, or serve the model and use api:NAME.",
            )
        first = llguidance.LLMatcher(known, grammar)
        self._rows = [first, *(first.deep_copy() for _ in range(rows - 1))]
        self._ends, self._read = ends, width
        self._mask = llguidance.numpy.allocate_token_bitmask(rows, known.vocab_size)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if len(input_ids) != len(self._rows):
            raise ValueError("a schema cannot be combined with num_beams")
        new = input_ids[:, self._read :].tolist()
        self._read = input_ids.shape[1]
        for row, (matcher, tokens) in enumerate(zip(self._rows, new, strict=True)):
            for token in tokens:
                if not matcher.is_stopped():  # what follows the end of a reply is padding
                    matcher.consume_token(token)
            if matcher.is_error():
                raise BadRequestError(f"--schema: {' '.join(matcher.get_error().split())[:200]}")
            if matcher.is_stopped():
                self._mask[row] = 0
                for end in self._ends:
                    self._mask[row, end // 32] |= np.int32(np.uint32(1 << (end % 32)).view(np.int32))
            else:
                llguidance.numpy.fill_next_token_bitmask(matcher, self._mask, row)
        bits = np.unpackbits(self._mask.view(np.uint8), axis=1, bitorder="little")[:, : scores.shape[1]]
        allowed = torch.zeros(scores.shape, dtype=torch.bool)
        allowed[:, : bits.shape[1]] = torch.from_numpy(bits.astype(bool))
        return scores.masked_fill(~allowed.to(scores.device), -torch.inf)


def _tokenizer(tokenizer: Any, ends: frozenset[int]) -> llguidance.LLTokenizer:
    """Return the tokenizer as llguidance has it; making one takes up to a second. Raises ValueError."""
    key = (id(tokenizer), tuple(sorted(ends)))
    if key not in _known or _known[key][0] is not tokenizer:
        _known[key] = (tokenizer, llguidance.hf.from_tokenizer(tokenizer, eos_token=list(key[1])))
        while len(_known) > MOST_TOKENIZERS:
            _known.popitem(last=False)
    return _known[key][1]
