"""Replies by a schema from models in this process: at each step only tokens that go on with valid JSON have a score.

llguidance follows the grammar of the schema token by token; each row of a batch has a state of its own.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import llguidance
import llguidance.numpy
import numpy as np

from snellen.errors import BadRequestError

MOST_TOKENIZERS = 4
_COMPACT: Any = {"whitespace_flexible": False}
"""No blanks but one behind a comma and a colon: an untrained model could write nothing else."""
_known: OrderedDict[tuple[int, tuple[int, ...]], tuple[Any, llguidance.LLTokenizer]] = OrderedDict()


class ReplyGrammar:
    """Which tokens the replies of a batch may go on with.

    Args:
        schema: JSON Schema, as text.
        tokenizer: of the checkpoint, a `tokenizers.Tokenizer`.
        ends: tokens that end a reply; they are open where the JSON is complete.
        rows: how many replies there are.

    Raises:
        BadRequestError: the schema has keywords that llguidance lacks, or llguidance lacks the kind of tokenizer.
    """

    def __init__(self, schema: str, tokenizer: Any, ends: frozenset[int], rows: int) -> None:
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
        self._ends = list(ends)
        self._mask = llguidance.numpy.allocate_token_bitmask(1, known.vocab_size)

    def closed(self, row: int, new: Sequence[int], width: int) -> np.ndarray:
        """Return True for each of `width` tokens that a row cannot go on with, after the new tokens of its reply.

        Raises:
            BadRequestError: llguidance met an error.
        """
        matcher, closed = self._rows[row], np.ones(width, np.bool_)
        for token in new:
            if not matcher.is_stopped():  # what follows the end of a reply is padding
                matcher.consume_token(token)
        if matcher.is_error():
            raise BadRequestError(f"--schema: {' '.join(matcher.get_error().split())[:200]}")
        if matcher.is_stopped():
            closed[self._ends] = False
            return closed
        llguidance.numpy.fill_next_token_bitmask(matcher, self._mask, 0)
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")[:width]
        closed[: len(bits)] = bits == 0
        return closed


def _tokenizer(tokenizer: Any, ends: frozenset[int]) -> llguidance.LLTokenizer:
    """Return the tokenizer as llguidance has it; making one takes up to a second. Raises ValueError."""
    key = (id(tokenizer), tuple(sorted(ends)))
    if key not in _known or _known[key][0] is not tokenizer:
        whole = type(tokenizer).from_str(tokenizer.to_str())
        whole.no_padding()
        whole.no_truncation()
        _known[key] = (tokenizer, llguidance.LLTokenizer(whole.to_str(), eos_token=list(key[1])))
        while len(_known) > MOST_TOKENIZERS:
            _known.popitem(last=False)
    return _known[key][1]
