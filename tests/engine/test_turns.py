"""Prompts with earlier turns: their types, and the digests of prompts with and without them."""

import pytest

from snellen.engine.fingerprint import _outline
from snellen.types import Image, Prompt, Text, Turn

PAIR = (Turn("user", (Text("a"),)), Turn("assistant", (Text("b"),)))


def test_a_prompt_without_earlier_turns_is_outlined_as_before():
    assert list(_outline(Prompt((Text("q"),), "s"))) == ["s", "q"]


def test_where_a_turn_ends_changes_the_outline():
    one = Prompt((Text("q"),), history=PAIR)
    assert list(_outline(one)) != list(
        _outline(Prompt((Text("b"), Text("q")), history=(PAIR[0], Turn("assistant", ()))))
    )
    assert list(_outline(one)) != list(_outline(Prompt((Text("a"), Text("b"), Text("q")))))


def test_parts_of_a_conversation_come_in_the_order_in_which_they_are_read():
    assert [part.text for part in Prompt((Text("q"),), history=PAIR).conversation_parts] == ["a", "b", "q"]


@pytest.mark.parametrize("history", [PAIR[:1], PAIR[::-1], (*PAIR, PAIR[0])])
def test_turns_that_do_not_alternate_are_refused(history):
    with pytest.raises(ValueError, match="user and assistant in turn"):
        Prompt((Text("q"),), history=history)


def test_a_turn_of_the_model_is_text():
    with pytest.raises(TypeError, match="models answer in text"):
        Turn("assistant", (Image(None),))
    with pytest.raises(ValueError, match="'system'"):
        Turn("system", (Text("a"),))
